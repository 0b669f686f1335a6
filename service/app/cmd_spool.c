/* etwagent spool list, verify, drain: looking into a spool, and sending what is left in it. Called by: main.c. Calls:
 * service/spool, service/ship. Thread: the main one; drain: the sender's, too. */
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "proto/base/text.h"
#include "service/app/agent_commands.h"
#include "service/core/shipping.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct look_options {
    ea_shipping_options shipping; /* only the spool's folder is used */
    int json;
} look_options;

typedef struct stream_row {
    uint8_t id[EA_STREAM_ID_BYTES];
    char owner[EA_SPOOL_OWNER_BYTES]; /* of its spool */
    int recorded, resumable;          /* in the state file */
    uint64_t highest, acknowledged, waiting, locked, events, bytes;
} stream_row;

typedef struct look {
    stream_row *streams;
    size_t stream_count;
    ea_text segments; /* text or JSON of each */
    int json;
    uint64_t segment_count, records, bad_bytes, torn_bytes, unreadable, wrong_batches, locked;
    int check_batches;
    ea_spool_keys keys;
    const char *root;    /* the folder of all spools */
    const char *folder;  /* of the spool at hand: root or a folder in it */
    size_t folder_begin; /* of its streams' rows */
    ea_err *err;
} look;

static stream_row *spool_row_of(look *l, const uint8_t *id) {
    for (size_t i = l->folder_begin; i < l->stream_count; i++)
        if (memcmp(l->streams[i].id, id, EA_STREAM_ID_BYTES) == 0)
            return &l->streams[i];
    stream_row *grown = realloc(l->streams, (l->stream_count + 1) * sizeof *grown);
    if (!grown)
        return NULL;
    l->streams = grown;
    stream_row *row = &grown[l->stream_count++];
    *row = (stream_row){0};
    memcpy(row->id, id, sizeof row->id);
    return row;
}

static int spool_on_stream(ea_spool_stream_state *state, void *arg) {
    look *l = arg;
    stream_row *row = spool_row_of(l, state->stream);
    if (!row)
        return ea_fail(l->err, EA_ENOMEM, "look into the spool");
    row->recorded = 1;
    row->resumable = state->resumable;
    row->highest = state->highest;
    for (size_t i = 0; i < state->acknowledged.count; i++)
        row->acknowledged += state->acknowledged.ranges[i].last - state->acknowledged.ranges[i].first + 1;
    return 0;
}

/* An agent that opens the spool sets the file aside, and sends all that is here. */
static int on_bad_state(const char *why, void *arg) {
    look *l = arg;
    l->unreadable++;
    fprintf(stderr, "etwagent: %s; the acknowledged batches are unknown\n", why);
    return 0;
}

static int spool_on_record(const ea_spool_seen *seen, void *arg) {
    look *l = arg;
    const ea_spool_record *r = seen->record;
    stream_row *row = spool_row_of(l, seen->stream);
    if (!row)
        return ea_fail(l->err, EA_ENOMEM, "look into the spool");
    l->locked += seen->opened == 0;
    if (seen->opened < 0) {
        l->wrong_batches++;
        fprintf(stderr,
                "etwagent: %s: batch %" PRIu64 " of the record at offset %" PRIu64
                " was changed after it was encrypted\n",
                seen->segment, r->number, r->offset);
    } else if (l->check_batches && seen->opened) {
        /* the record is whole: is the batch inside what the record says? */
        ea_batch_head head;
        ea_err why = {0};
        int rc = ea_batch_read_head(r->batch, r->len_bytes, &head, &why);
        if (rc || memcmp(head.stream, r->stream, sizeof head.stream) != 0 || head.number != r->number ||
            head.event_count != r->event_count) {
            l->wrong_batches++;
            fprintf(stderr, "etwagent: %s: batch %" PRIu64 " of the record at offset %" PRIu64 ": %s\n", seen->segment,
                    r->number, r->offset,
                    rc ? why.message : "its stream, number or event count is another than the record's");
        }
    }
    if (!row->recorded)
        row->resumable = r->flags & EA_SPOOL_RESUMABLE;
    if (seen->number > row->highest)
        row->highest = seen->number;
    if (!seen->acknowledged) {
        row->waiting++;
        row->events += r->event_count;
        row->bytes += ea_spool_batch_bytes(r);
        row->locked += seen->opened == 0;
    }
    return 0;
}

static int spool_on_segment(const char *name, uint64_t len_bytes, const ea_spool_scanned *s, const char *why,
                            void *arg) {
    look *l = arg;
    if (l->json) {
        ea_text file; /* relative to the folder of all spools */
        ea_text_init(&file);
        ea_text_printf(&file, "%s%s%s", l->folder + strlen(l->root) + (l->folder[strlen(l->root)] != 0),
                       strcmp(l->folder, l->root) != 0 ? "/" : "", name);
        ea_text_str(&l->segments, l->segment_count ? ",\n    {\"name\": " : "\n    {\"name\": ");
        ea_text_json_str(&l->segments, file.failed ? "" : file.data);
        ea_text_deinit(&file);
        ea_text_printf(&l->segments,
                       ", \"bytes\": %" PRIu64 ", \"records\": %" PRIu64 ", \"bad_bytes\": %" PRIu64
                       ", \"torn_bytes\": %" PRIu64 ", \"unreadable\": %s}",
                       len_bytes, s->records, s->bad_bytes, s->torn_bytes, why ? "true" : "false");
    } else
        ea_text_printf(&l->segments,
                       "%s  %" PRIu64 " bytes, %" PRIu64 " batches, %" PRIu64 " bytes damaged, %" PRIu64 " torn%s%s\n",
                       name, len_bytes, s->records, s->bad_bytes, s->torn_bytes, why ? ": " : "", why ? why : "");
    l->segment_count++;
    l->records += s->records;
    l->bad_bytes += s->bad_bytes;
    l->torn_bytes += s->torn_bytes;
    l->unreadable += why != NULL;
    return 0;
}

/* One of the spools in the folder: its streams' rows are those from l->folder_begin on. */
static int spool_look_into_folder(const char *dir, const char *owner, const char *why, void *arg) {
    look *l = arg;
    if (why) {
        l->unreadable++;
        fprintf(stderr, "etwagent: %s\n", why);
    }
    l->folder_begin = l->stream_count;
    l->folder = dir;
    if (!l->json)
        ea_text_printf(&l->segments, *owner ? "%s, of '%s':\n" : "%s, of no certificate's name yet:\n", dir, owner);
    int rc = ea_spool_visit(dir,
                            &(ea_spool_visitor){.on_bad_state = on_bad_state,
                                                .on_stream = spool_on_stream,
                                                .on_segment = spool_on_segment,
                                                .on_record = spool_on_record,
                                                .keys = &l->keys,
                                                .arg = l},
                            l->err);
    for (size_t i = l->folder_begin; i < l->stream_count; i++)
        snprintf(l->streams[i].owner, sizeof l->streams[i].owner, "%s", owner);
    return rc;
}

static int look_into(look *l, const look_options *o, char *path, ea_err *err) {
    l->err = err;
    l->json = o->json;
    ea_text_init(&l->segments);
    int rc = ea_shipping_spool_path(o->shipping.spool, path, err);
    if (!rc && o->shipping.spool_key)
        rc = ea_spool_keys_read(&l->keys, o->shipping.spool_key, 0, err);
    l->root = path;
    if (!rc)
        rc = ea_spool_each_folder(path, spool_look_into_folder, l, err);
    ea_spool_keys_clear(&l->keys);
    if (!rc && l->segments.failed)
        rc = ea_fail(err, EA_ENOMEM, "look into the spool %s", path);
    return rc;
}

static void look_deinit(look *l) {
    free(l->streams);
    ea_text_deinit(&l->segments);
}

static int spool_print(ea_text *t, ea_err *err) {
    int good =
        !t->failed && fwrite(t->data ? t->data : "", 1, t->len_bytes, stdout) == t->len_bytes && fflush(stdout) == 0;
    ea_text_deinit(t);
    return good ? 0 : ea_fail(err, EA_EIO, "write to standard output");
}

static int spool_failed(int rc, const ea_err *err) {
    ea_err_print(stderr, "etwagent", err);
    return ea_exit_code(rc);
}

/* ---- spool list ---- */

static int spool_run_list(const void *opts, int operand_count, char **operands) {
    const look_options *o = opts;
    char path[EA_SPOOL_PATH_BYTES];
    look l = {0};
    ea_text t;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    ea_text_init(&t);
    int rc = look_into(&l, o, path, &err);
    if (!rc && o->json)
        ea_text_str(&t, "[");
    for (size_t i = 0; !rc && i < l.stream_count; i++) {
        const stream_row *row = &l.streams[i];
        ea_text_printf(&t, o->json ? "%s\n  {\"stream\": \"" : "%sstream ", o->json && i ? "," : "");
        ea_text_hex(&t, row->id, sizeof row->id);
        if (*row->owner || o->json)
            ea_text_printf(&t, o->json ? "\", \"owner\": \"%s" : " of '%s'", row->owner);
        ea_text_printf(&t,
                       o->json ? "\", \"resumable\": %s, \"highest\": %" PRIu64 ", \"acknowledged\": %" PRIu64
                                 ", \"waiting\": %" PRIu64 ", \"events\": %" PRIu64 ", \"bytes\": %" PRIu64
                                 ", \"locked\": %" PRIu64 "}"
                               : "%s: highest number %" PRIu64 ", %" PRIu64 " batches acknowledged; %" PRIu64
                                 " wait, with %" PRIu64 " events and %" PRIu64 " bytes; %" PRIu64
                                 " of them need another key\n",
                       o->json ? (row->resumable ? "true" : "false") : (row->resumable ? " (a replay)" : ""),
                       row->highest, row->acknowledged, row->waiting, row->events, row->bytes, row->locked);
    }
    if (!rc && o->json)
        ea_text_str(&t, l.stream_count ? "\n]\n" : "]\n");
    if (!rc && !o->json && !l.stream_count)
        ea_text_str(&t, "the spool is empty\n");
    look_deinit(&l);
    if (!rc)
        rc = spool_print(&t, &err);
    else
        ea_text_deinit(&t);
    return rc ? spool_failed(rc, &err) : 0;
}

#define LOOK_OPTIONS                                                                                                   \
    {.name = "spool",                                                                                                  \
     .argument = "DIR",                                                                                                \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(look_options, shipping.spool),                                                                 \
     .help = "folder of the spool; default: spool in the folder for state (see above)"},                               \
        EA_SPOOL_KEY_OPTION(offsetof(look_options, shipping.spool_key)),                                               \
        {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(look_options, json), .help = "print JSON"}, {         \
        .name = NULL                                                                                                   \
    }

const ea_command ea_cmd_spool_list = {
    .name = "spool list",
    .operands = "",
    .summary = "List what waits in the spool",
    .details = "One line a stream, with the certificate's name that its batches are sent under. Works while an agent "
               "uses the spool, and changes nothing. Batches are locked when the key\n"
               "that they are encrypted with is not in the file that --spool-key names.\n\n" EA_SPOOL_FOLDER_TEXT "\n\n"
               "JSON keys: [stream, owner, resumable, highest, acknowledged, waiting, events, bytes, locked].",
    .options = (const ea_option[]){LOOK_OPTIONS},
    .options_size = sizeof(look_options),
    .run = spool_run_list,
};

/* ---- spool verify ---- */

static int run_verify(const void *opts, int operand_count, char **operands) {
    const look_options *o = opts;
    char path[EA_SPOOL_PATH_BYTES];
    look l = {.check_batches = 1};
    ea_text t;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    ea_text_init(&t);
    int rc = look_into(&l, o, path, &err);
    int bad = l.bad_bytes || l.unreadable || l.wrong_batches;
    if (!rc && o->json) {
        ea_text_printf(
            &t,
            "{\"good\": %s, \"records\": %" PRIu64 ", \"bad_bytes\": %" PRIu64 ", \"torn_bytes\": %" PRIu64
            ", \"unreadable\": %" PRIu64 ", \"wrong_batches\": %" PRIu64 ", \"locked\": %" PRIu64 ", \"segments\": [",
            bad ? "false" : "true", l.records, l.bad_bytes, l.torn_bytes, l.unreadable, l.wrong_batches, l.locked);
        ea_text_add(&t, l.segments.data, l.segments.len_bytes);
        ea_text_str(&t, l.segment_count ? "\n  ]}\n" : "]}\n");
    } else if (!rc) {
        ea_text_add(&t, l.segments.data, l.segments.len_bytes);
        ea_text_printf(&t,
                       "%" PRIu64 " batches are whole; %" PRIu64 " bytes are damaged, %" PRIu64 " torn, %" PRIu64
                       " files unreadable, %" PRIu64 " batches contradict their record, %" PRIu64
                       " are locked: their content was not checked\n",
                       l.records, l.bad_bytes, l.torn_bytes, l.unreadable, l.wrong_batches, l.locked);
    }
    look_deinit(&l);
    if (!rc)
        rc = spool_print(&t, &err);
    else
        ea_text_deinit(&t);
    return rc ? spool_failed(rc, &err) : bad ? 3 : 0;
}

const ea_command ea_cmd_spool_verify = {
    .name = "spool verify",
    .operands = "",
    .summary = "Check every batch in the spool",
    .details =
        "Reads every segment, checks every checksum and every batch's envelope. A torn tail is what a crash leaves and "
        "is\n"
        "no damage. Works while an agent uses the spool (its last batch may then look torn), and changes nothing.\n"
        "Exit codes: 0 good, 1 failed, 2 usage, 3 damaged.\n\n" EA_SPOOL_FOLDER_TEXT "\n\n"
        "JSON keys: good, records, bad_bytes, torn_bytes, unreadable, wrong_batches, locked, segments [...].",
    .options = (const ea_option[]){LOOK_OPTIONS},
    .options_size = sizeof(look_options),
    .run = run_verify,
};

/* ---- spool drain ---- */

typedef struct drain_options {
    ea_shipping_options shipping;
    const char *from;
} drain_options;

typedef struct others {
    const char *dir; /* the spool that is drained */
    size_t waiting;  /* in the one at hand */
} others;

static int count_waiting(const ea_spool_seen *seen, void *arg) {
    ((others *)arg)->waiting += !seen->acknowledged;
    return 0;
}

/* What waits here for other names' certificates. */
static int list_other(const char *dir, const char *owner, const char *why, void *arg) {
    others *o = arg;
    ea_err err;
    o->waiting = 0;
    if (strcmp(dir, o->dir) == 0 ||
        ea_spool_visit(dir, &(ea_spool_visitor){.on_record = count_waiting, .arg = o}, &err))
        return 0;
    if (why)
        fprintf(stderr, "etwagent: %zu batches in %s were not sent: %s\n", o->waiting, dir, why);
    else if (o->waiting)
        fprintf(stderr,
                "etwagent: %zu batches in %s are those of '%s', and were not sent: drain them with a certificate of "
                "that name, or, when this machine was renamed, with --from %s\n",
                o->waiting, dir, owner, owner);
    return 0;
}

/* The spool of the certificate's name, or of the name that the machine had before. */
static int find_drained(const drain_options *o, char *root, char *name, ea_err *err) {
    char path[EA_SPOOL_PATH_BYTES], owner[EA_SPOOL_OWNER_BYTES];
    int rc = ea_shipping_spool_path(o->shipping.spool, root, err);
    if (!rc && !ea_path_exists(root)) /* a name with a mistake would be made, and be empty */
        rc = ea_fail(err, EA_ENOTFOUND, "drain the spool %s: there is none", root);
    if (!rc && o->from) {
        snprintf(name, EA_CERTIFICATE_NAME_BYTES, "%.64s", o->from);
        ea_name_to_lower(name);
    } else if (!rc) {
        rc = ea_shipping_name(&o->shipping, name, err);
    }
    if (!rc)
        rc = ea_spool_folder_of(root, name, path, sizeof path, err);
    if (!rc && o->from && ea_spool_owner_read(path, owner, err))
        rc = ea_fail(err, EA_ENOTFOUND, "drain the spool %s: there is none of '%s' in it", root, name);
    if (!rc && !ea_path_exists(path)) {
        ea_err why = {0};
        int unread = ea_spool_owner_read(root, owner, &why);
        rc = unread
                 ? ea_fail(err, unread, "%s", why.message)
                 : ea_fail(err, EA_ENOTFOUND,
                           "drain the spool %s: it is that of '%s', and there is none of '%s' in it; drain it with a "
                           "certificate of '%s', or, when this machine was renamed, with --from %s",
                           root, owner, name, owner, owner);
    }
    return rc;
}

static int run_drain(const void *opts, int operand_count, char **operands) {
    const drain_options *o = opts;
    ea_spool *spool = NULL;
    ea_sender_events events = {.refused_lines = EA_REFUSED_LINES};
    ea_counters counters = {0};
    ea_sender *sender = NULL;
    ea_spool_status before = {0}, after = {0};
    ea_err err = {0}, later;
    char root[EA_SPOOL_PATH_BYTES], name[EA_CERTIFICATE_NAME_BYTES], sent_as[EA_CERTIFICATE_NAME_BYTES];
    (void)operand_count, (void)operands;
    (void)ea_stop_flag();
    int rc = find_drained(o, root, name, &err);
    if (!rc)
        rc = ea_shipping_name(&o->shipping, sent_as, &err);
    if (!rc)
        rc = ea_shipping_open_spool(&spool, &o->shipping, name, 0, &counters, &err);
    events.spool = spool;
    ea_sender_options so = ea_shipping_sender(&o->shipping, &counters, &events);
    so.name = sent_as;
    so.drain = 1;
    so.renew = ea_sender_events_renew;
    so.renew_all = 1; /* nothing is read again here */
    if (!rc) {
        ea_spool_get_status(spool, &before);
        rc = ea_sender_start(&sender, spool, &so, &err);
    }
    if (!rc) {
        while (!ea_sender_wait(sender, 100000000))
            if (atomic_load(ea_stop_flag()))
                ea_sender_stop(sender);
        rc = ea_sender_result(sender, &err);
        ea_spool_get_status(spool, &after);
        size_t gone =
            after.waiting + after.damaged; /* tombstones stand for what was refused or damaged, and went, too */
        printf("%zu batches were sent, %u of them refused; %zu are left",
               before.waiting > gone ? before.waiting - gone : 0, events.refused_count, after.waiting + after.locked);
        if (after.locked)
            printf(", %zu of them locked", after.locked);
        printf(after.damaged ? "; %zu are damaged and cannot be sent\n" : "\n", after.damaged);
        fflush(stdout);
        char path[EA_SPOOL_PATH_BYTES];
        ea_err unlisted;
        if (!ea_spool_folder_of(root, name, path, sizeof path, &unlisted) &&
            ea_spool_each_folder(root, list_other, &(others){.dir = path}, &unlisted))
            ea_err_print(stderr, "etwagent", &unlisted);
    }
    ea_sender_destroy(sender);
    int closed = ea_spool_close(spool, &later);
    if (!rc && closed) {
        rc = closed;
        err = later;
    }
    return rc ? spool_failed(rc, &err) : events.refused_count || after.locked || after.damaged ? 1 : 0;
}

const ea_command ea_cmd_spool_drain = {
    .name = "spool drain",
    .operands = "",
    .summary = "Send the batches that are left in the spool",
    .details = "Sends all batches of the certificate's name and ends when every one is answered. A replay that was "
               "interrupted is not finished "
               "by this: only\n"
               "the same replay command reads the rest of its traces.\n"
               "Exit codes: 0 all was sent and nothing was refused, 1 failed, or something is left or damaged, 2 "
               "usage.\n\n" EA_SPOOL_FOLDER_TEXT,
    .options = (const ea_option[]){EA_SHIPPING_OPTIONS(offsetof(drain_options, shipping)),
                                   EA_GIVE_UP_OPTION(offsetof(drain_options, shipping)),
                                   EA_SPOOL_OPTIONS(offsetof(drain_options, shipping)),
                                   {.name = "from",
                                    .argument = "NAME",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(drain_options, from),
                                    .help = "send what waits for the certificate of this name under the name of "
                                            "--cert's: for a machine that was renamed; default: --cert's own name"},
                                   {.name = NULL}},
    .options_size = sizeof(drain_options),
    .run = run_drain,
};

/* ---- spool rotate-key ---- */

typedef struct rotate_options {
    const char *spool_key;
} rotate_options;

static int run_rotate(const void *opts, int operand_count, char **operands) {
    const rotate_options *o = opts;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    int rc = ea_spool_keys_rotate(o->spool_key, &err);
    return rc ? spool_failed(rc, &err) : 0;
}

const ea_command ea_cmd_spool_rotate_key = {
    .name = "spool rotate-key",
    .operands = "",
    .summary = "Add a new key to the spool's key file",
    .details = "What an agent writes from its next start on is encrypted with the new key. The file keeps the 15 keys "
               "before it, so\n"
               "that what waits under them can still be sent.",
    .options = (const ea_option[]){{.name = "spool-key",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(rotate_options, spool_key),
                                    .required = 1,
                                    .help = "the key file"},
                                   {.name = NULL}},
    .options_size = sizeof(rotate_options),
    .run = run_rotate,
};
