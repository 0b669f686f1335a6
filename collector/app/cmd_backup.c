/* etwcollector backup, restore: a store's copy, made while the collector runs, and the way back. Called by: main.c.
 * Calls: collector/store/backup.h. Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/confined_task.h"
#include "collector/state/state_db.h"
#include "collector/store/backup.h"
#include "proto/base/platform.h"

#include <inttypes.h>

typedef struct options {
    const char *store, *to, *from;
    int verify, with_tokens;
} options;

static int backup_finish(int rc, const char *what, const ec_backup *b, const ea_err *err) {
    if (rc) {
        ea_err_print(stderr, "etwcollector", err);
        return ea_exit_code(rc);
    }
    printf("%s: %" PRIu64 " events in %" PRIu64 " batches, %" PRIu64 " bytes in %" PRIu64 " segments", what,
           b->event_count, b->batch_count, b->byte_count, b->segment_count);
    if (b->linked_count)
        printf(", %" PRIu64 " of them linked", b->linked_count);
    printf("\n");
    return fflush(stdout) ? ea_exit_code(EA_EIO) : 0;
}

static void back_up_narrowed(const char *to, unsigned mode_before) {
    if (mode_before)
        fprintf(stderr, "etwcollector: others could read %s (mode %03o); now only its owner can\n", to, mode_before);
}

static int back_up_confined(void *arg) {
    const options *o = arg;
    ea_err err = {0};
    ec_backup made = {0}, read;
    int rc = ec_store_backup(o->store, o->to, &made, &err);
    back_up_narrowed(o->to, made.mode_before);
    if (!rc && o->verify)
        rc = ec_store_verify(o->to, ec_state_db_foreign_sql(), &read, &err);
    return backup_finish(rc, o->verify ? "backed up and read back" : "backed up", &made, &err);
}

static int back_up(const void *arg, int operand_count, char **operands) {
    options o = *(const options *)arg;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    unsigned mode_before = 0;
    int rc = ec_store_begin_backup(o.store, o.to, &mode_before, &err);
    if (rc)
        return backup_finish(rc, "backed up", NULL, &err);
    back_up_narrowed(o.to, mode_before);
    return ec_task_run(
        &(ec_task){.run = back_up_confined, .arg = &o, .folders = {o.store, o.to}, .rights = EC_SANDBOX_LINKS});
}

typedef struct restoring {
    const options *o;
    char made[EC_RESTORING_BYTES];
} restoring;

static int restore_confined(void *arg) {
    const restoring *r = arg;
    const options *o = r->o;
    ea_err err = {0};
    ec_backup read = {0};
    int rc = ec_store_restore(o->from, r->made, o->with_tokens, ec_state_db_foreign_sql(), &read, &err);
    int code = backup_finish(rc, "restored", &read, &err);
    if (!code && !o->with_tokens)
        printf("tokens of readers were left out: 'etwcollector token add' makes new ones; --with-tokens brings back "
               "those of "
               "the backup,\nalso such as were revoked since\n");
    return !code && fflush(stdout) ? ea_exit_code(EA_EIO) : code;
}

static int restore(const void *arg, int operand_count, char **operands) {
    restoring r = {.o = arg};
    ea_err err = {0};
    (void)operand_count, (void)operands;
    int rc = ec_store_begin_restore(r.o->from, r.o->store, r.made, &err);
    if (rc)
        return backup_finish(rc, "restored", NULL, &err);
    int code = ec_task_run(&(ec_task){.run = restore_confined, .arg = &r, .folders = {r.made, r.o->from}});
    rc = ec_store_end_restore(r.made, code ? NULL : r.o->store, &err);
    return rc ? backup_finish(rc, "restored", NULL, &err) : code;
}

const ea_command ec_cmd_backup = {
    .name = "backup",
    .operands = "",
    .summary = "Copy a store as it is at one moment, while its collector runs",
    .details = "Closed segment files are linked where source and copy are on one file system: they never change, and "
               "take no room.\nFor a copy that outlives the disk, name a folder on another one. Segments, index, "
               "machines' history and the hashes of\ntokens are in it; certificates and keys are not. Exit codes: 0 "
               "done, 1 failed, 2 usage.",
    .options = (const ea_option[]){EC_STORE_OPTION(options, store),
                                   {.name = "to",
                                    .argument = "DIR",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, to),
                                    .required = 1,
                                    .help = "where the copy goes: a folder that is missing or empty"},
                                   {.name = "verify",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(options, verify),
                                    .help = "read every batch of the copy afterwards"},
                                   {.name = NULL}},
    .options_size = sizeof(options),
    .run = back_up,
};

const ea_command ec_cmd_restore = {
    .name = "restore",
    .operands = "",
    .summary = "Make a store out of a backup, after every batch of it was read",
    .details =
        "The store appears whole, at the end. Agents that have sent more since the backup was made do not send "
        "it again: batches\nfrom between are missing, which the ledger shows. Readers' tokens are left out, since "
        "some may have been "
        "revoked after\nthe backup was made.",
    .options = (const ea_option[]){{.name = "from",
                                    .argument = "DIR",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, from),
                                    .required = 1,
                                    .help = "the backup"},
                                   {.name = "store",
                                    .argument = "DIR",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, store),
                                    .required = 1,
                                    .help = "the collector's folder, which must not exist"},
                                   {.name = "with-tokens",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(options, with_tokens),
                                    .help = "bring back readers' tokens, also such as were revoked after the backup"},
                                   {.name = NULL}},
    .options_size = sizeof(options),
    .run = restore,
};
