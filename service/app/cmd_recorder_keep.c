/* etwagent recorder keep: copies the newest part of a recorder to where the ring does not remove it. Called by: main.c.
 * Calls: service/spool. Thread: the main one. */
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "service/app/agent_commands.h"
#include "service/core/shipping.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128, SEGMENT_NAME_BYTES = 24 };

typedef struct options {
    ea_shipping_options shipping; /* only the spool's folder and key are used */
    const char *name;
    int64_t last_ns;
    uint64_t copies, bytes;
} options;

/* A file of the recorder. */
typedef struct part {
    char name[SEGMENT_NAME_BYTES];
    uint64_t bytes;
    int64_t to_utc_ns; /* of its last event; INT64_MIN: it has none; INT64_MAX: unknown, as its key is missing */
    int has_keyframe;
} part;

/* A copy that was kept. */
typedef struct copy {
    char name[NAME_BYTES], dir[EA_SPOOL_PATH_BYTES];
    uint64_t bytes;
} copy;

typedef struct keeping {
    const options *o;
    char root[EA_SPOOL_PATH_BYTES], name[NAME_BYTES], dir[EA_SPOOL_PATH_BYTES]; /* the recorder's */
    unsigned recorder_count;
    ea_file *lock;
    ea_spool_keys keys;
    part *parts; /* in the order of their names, which is that of their making */
    size_t part_count, part_capacity;
    part now; /* the file at hand */
    copy *copies;
    size_t copy_count, copy_capacity;
    ea_err *err;
} keeping;

/* ---- looking ---- */

static int keep_on_record(const ea_spool_seen *seen, void *arg) {
    keeping *k = arg;
    ea_batch_head head;
    if (seen->opened != 1) {
        k->now.to_utc_ns = INT64_MAX;
        return 0;
    }
    if (ea_batch_read_head(seen->record->batch, seen->record->len_bytes, &head, NULL) || !head.event_count)
        return 0;
    k->now.has_keyframe |= head.kind == EA_BATCH_KEYFRAME;
    if (head.utc_max_ns > k->now.to_utc_ns)
        k->now.to_utc_ns = head.utc_max_ns;
    return 0;
}

static int keep_on_segment(const char *name, uint64_t len_bytes, const ea_spool_scanned *scanned, const char *why,
                           void *arg) {
    keeping *k = arg;
    (void)scanned;
    if (!why) {
        if (EA_GROW(k->parts, k->part_capacity, k->part_count + 1, SIZE_MAX))
            return ea_fail(k->err, EA_ENOMEM, "keep a part of a recorder");
        part *p = &k->parts[k->part_count++];
        *p = k->now;
        p->bytes = len_bytes;
        snprintf(p->name, sizeof p->name, "%.20s", name);
    }
    k->now = (part){.to_utc_ns = INT64_MIN};
    return 0;
}

static int keep_on_size(const char *name, uint64_t len_bytes, const ea_spool_scanned *scanned, const char *why,
                        void *arg) {
    (void)name, (void)scanned, (void)why;
    ((copy *)arg)->bytes += len_bytes;
    return 0;
}

/* One of the folders: a recorder, or a copy. */
static int keep_on_folder(const char *dir, const char *name, void *arg) {
    keeping *k = arg;
    const options *o = k->o;
    if (!ea_recorder_is_kept(name)) {
        if (o->name && strcmp(o->name, name) != 0)
            return 0;
        k->recorder_count++;
        snprintf(k->name, sizeof k->name, "%s", name);
        snprintf(k->dir, sizeof k->dir, "%s", dir);
        return 0;
    }
    if (EA_GROW(k->copies, k->copy_capacity, k->copy_count + 1, SIZE_MAX))
        return ea_fail(k->err, EA_ENOMEM, "keep a part of a recorder");
    copy *c = &k->copies[k->copy_count++];
    *c = (copy){.bytes = 0};
    snprintf(c->name, sizeof c->name, "%s", name);
    snprintf(c->dir, sizeof c->dir, "%s", dir);
    return ea_spool_visit(dir, &(ea_spool_visitor){.on_segment = keep_on_size, .arg = c}, k->err);
}

/* The recorder, its files, and the copies of all recorders. */
static int keep_look(keeping *k) {
    const options *o = k->o;
    int rc = 0;
    if (o->shipping.spool_key)
        rc = ea_spool_keys_read(&k->keys, o->shipping.spool_key, 0, k->err);
    if (!rc)
        rc = ea_recorder_each(k->root, keep_on_folder, k, k->err);
    if (!rc && k->recorder_count > 1)
        rc = ea_fail(k->err, EA_EUSAGE,
                     "there are %u recorders; expected --name with one of them ('etwagent recorder "
                     "list')",
                     k->recorder_count);
    if (!rc && !k->recorder_count)
        rc = o->name ? ea_fail(k->err, EA_ENOTFOUND, "there is no recorder %.64s", o->name)
                     : ea_fail(k->err, EA_ENOTFOUND, "there is no recorder");
    k->now = (part){.to_utc_ns = INT64_MIN};
    return rc ? rc
              : ea_spool_visit(
                    k->dir,
                    &(ea_spool_visitor){
                        .on_segment = keep_on_segment, .on_record = keep_on_record, .keys = &k->keys, .arg = k},
                    k->err);
}

/* ---- copying ---- */

/* The first file to be copied: of those with events since then, and from there back to one with a keyframe, which has
 * the processes and modules of its time; sessions of other events have none. A file without events (the agent has just
 * made it, or all of it is damaged) does not say that those before it are older. */
static size_t keep_first_part(const keeping *k, int64_t from_utc_ns) {
    size_t first = k->part_count;
    for (size_t i = first; i--;) {
        if (k->parts[i].to_utc_ns == INT64_MIN)
            continue;
        if (k->parts[i].to_utc_ns < from_utc_ns)
            break;
        first = i;
    }
    size_t keyframe = first;
    while (keyframe && keyframe < k->part_count && !k->parts[keyframe].has_keyframe)
        keyframe--;
    return keyframe < k->part_count && k->parts[keyframe].has_keyframe ? keyframe : first;
}

static int keep_remove_file(const char *name, int is_dir, void *arg) {
    char path[EA_SPOOL_PATH_BYTES + 300];
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    if (!is_dir)
        EA_IGNORE(ea_path_remove(path, NULL));
    return 0;
}

static int recorder_keep_remove_copy(char *dir, ea_err *err) {
    int rc = ea_path_list(dir, keep_remove_file, dir, err);
    return rc ? rc : ea_path_remove_folder(dir, err);
}

static int keep_by_time(const void *a, const void *b) {
    const char *x = strchr(((const copy *)a)->name, '@'), *y = strchr(((const copy *)b)->name, '@');
    return strcmp(x ? x : "", y ? y : "");
}

/* Removes the oldest copies until this one, which is complete, fits. */
static int keep_make_room(keeping *k, uint64_t need) {
    const options *o = k->o;
    uint64_t have = 0;
    for (size_t i = 0; i < k->copy_count; i++)
        have += k->copies[i].bytes;
    if (k->copy_count)
        qsort(k->copies, k->copy_count, sizeof *k->copies, keep_by_time);
    for (size_t i = 0; i < k->copy_count && (k->copy_count - i >= o->copies || have + need > o->bytes); i++) {
        int rc = recorder_keep_remove_copy(k->copies[i].dir, k->err);
        if (rc)
            return rc;
        have -= k->copies[i].bytes;
        printf("removed %s, %" PRIu64 " bytes\n", k->copies[i].name, k->copies[i].bytes);
    }
    return 0;
}

/* A file that the ring has removed meanwhile is passed over: 0 bytes. */
static int recorder_keep_copy_part(const keeping *k, const part *p, const char *to_dir, uint64_t *ret_bytes) {
    char from[EA_SPOOL_PATH_BYTES + 32], to[EA_SPOOL_PATH_BYTES + 32], *data = NULL;
    size_t len_bytes = 0;
    snprintf(from, sizeof from, "%s/%s", k->dir, p->name);
    snprintf(to, sizeof to, "%s/%s", to_dir, p->name);
    *ret_bytes = 0;
    int rc = ea_path_read_all(from, EA_SPOOL_SEGMENT_MAX, &data, &len_bytes, k->err);
    if (rc == EA_ENOTFOUND)
        return 0;
    if (!rc)
        rc = ea_path_write_all(to, data, len_bytes, 1, k->err);
    if (!rc)
        *ret_bytes = len_bytes;
    free(data);
    return rc;
}

/* The copy has its name, from which on it is one, when it is complete. What a killed run left is removed. */
static int keep_copy(keeping *k, size_t first, const char *name, uint64_t *ret_files, uint64_t *ret_bytes) {
    char dir[EA_SPOOL_PATH_BYTES], final[EA_SPOOL_PATH_BYTES];
    uint64_t bytes;
    int rc = ea_recorder_folder(k->root, EA_RECORDER_UNFINISHED, dir, sizeof dir, k->err);
    if (!rc)
        rc = ea_recorder_folder(k->root, name, final, sizeof final, k->err);
    if (!rc && ea_path_exists(final))
        rc = ea_fail(k->err, EA_EEXIST, "%s exists", final);
    if (!rc && ea_path_exists(dir))
        rc = recorder_keep_remove_copy(dir, k->err);
    if (!rc)
        rc = ea_path_make_dirs(dir, k->err);
    if (rc)
        return rc;
    *ret_files = *ret_bytes = 0;
    for (size_t i = first; !rc && i < k->part_count; i++) {
        rc = recorder_keep_copy_part(k, &k->parts[i], dir, &bytes);
        *ret_files += bytes != 0;
        *ret_bytes += bytes;
    }
    if (!rc)
        rc = ea_path_sync_dir(dir, k->err);
    if (!rc)
        rc = ea_path_rename(dir, final, k->err);
    if (rc) { /* the reason is that of the copy */
        ea_err ignored;
        EA_IGNORE(recorder_keep_remove_copy(dir, &ignored));
    }
    return rc;
}

static int keep(keeping *k) {
    char name[NAME_BYTES + 48];
    uint64_t need = 0, files, bytes;
    int64_t now = ea_utc_ns();
    size_t first = k->o->last_ns ? keep_first_part(k, now - k->o->last_ns) : 0;
    for (size_t i = first; i < k->part_count; i++)
        need += k->parts[i].bytes;
    if (!need)
        return ea_fail(k->err, EA_ENOTFOUND, "the recorder %s has no events of that time", k->name);
    if (need > k->o->bytes)
        return ea_fail(k->err, EA_ELIMIT,
                       "keep %" PRIu64 " bytes of the recorder %s: --bytes allows %" PRIu64 "; nothing was removed",
                       need, k->name, k->o->bytes);
    snprintf(name, sizeof name, "%s@%" PRId64, k->name, now / 1000000);
    int rc = keep_copy(k, first, name, &files, &bytes);
    if (!rc)
        rc = keep_make_room(k, bytes);
    if (!rc && (printf("%s: %" PRIu64 " files, %" PRIu64 " bytes\n", name, files, bytes) < 0 || fflush(stdout)))
        rc = ea_fail(k->err, EA_EIO, "write to standard output");
    return rc;
}

/* Two at once would remove what the other one copies. */
static int keep_alone(keeping *k) {
    char path[EA_SPOOL_PATH_BYTES];
    int rc = ea_shipping_spool_path(k->o->shipping.spool, k->root, k->err);
    if (!rc)
        rc = ea_recorder_folder(k->root, "", path, sizeof path, k->err);
    if (rc || !ea_path_exists(path))
        return rc; /* there is no recorder */
    rc = ea_recorder_folder(k->root, "keep.lock", path, sizeof path, k->err);
    if (!rc)
        rc = ea_file_open(&k->lock, path, EA_OPEN_APPEND, k->err);
    if (!rc && (rc = ea_file_try_lock(k->lock, k->err)) == EA_EBUSY)
        rc = ea_fail(k->err, rc, "keep a part of a recorder: another 'etwagent recorder keep' runs; try again later");
    return rc;
}

static int run_recorder_keep(const void *opts, int operand_count, char **operands) {
    ea_err err = {0};
    keeping *k = calloc(1, sizeof *k);
    (void)operand_count, (void)operands;
    int rc = k ? 0 : ea_fail(&err, EA_ENOMEM, "keep a part of a recorder");
    if (!rc) {
        k->o = opts;
        k->err = &err;
        rc = keep_alone(k);
        if (!rc)
            rc = keep_look(k);
        if (!rc)
            rc = keep(k);
        ea_file_close(k->lock);
        ea_spool_keys_clear(&k->keys);
        free(k->parts);
        free(k->copies);
    }
    free(k);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    return rc ? ea_exit_code(rc) : 0;
}

const ea_command ea_cmd_recorder_keep = {
    .name = "recorder keep",
    .operands = "",
    .summary = "Copy the newest part of a recorder to where the ring does not remove it",
    .details =
        "Copies whole files of the recorder, encrypted as they are, to the folder recorder/NAME@TIME of the "
        "spool's, TIME in\n"
        "milliseconds since 1970: those with events of the last time, and those before them back to a keyframe, if "
        "there "
        "is one.\n"
        "'recorder list' lists the copy, and 'recorder export --name NAME@TIME' exports it. Works while the agent "
        "records.\n"
        "Copies are bounded in number and bytes: the oldest are removed first, those of all recorders together, when "
        "the new\n"
        "one is complete. Until then the disk has both.\n"
        "Files whose key is not in --spool-key have no known times, and are copied.\n\n" EA_SPOOL_FOLDER_TEXT,
    .options = (const ea_option[]){{.name = "spool",
                                    .argument = "DIR",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, shipping.spool),
                                    .help = "folder of the spool, in which recorders are; default: spool in the folder "
                                            "for state (see above)"},
                                   EA_SPOOL_KEY_OPTION(offsetof(options, shipping.spool_key)),
                                   {.name = "name",
                                    .argument = "NAME",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(options, name),
                                    .help = "the recorder of this session; needed when there are several"},
                                   {.name = "last",
                                    .argument = "TIME",
                                    .type = EA_OPT_DURATION,
                                    .offset = offsetof(options, last_ns),
                                    .fallback = "5m",
                                    .help = "how far back from now; 0: all that the recorder has"},
                                   {.name = "copies",
                                    .argument = "N",
                                    .type = EA_OPT_U64,
                                    .offset = offsetof(options, copies),
                                    .fallback = "8",
                                    .min = 1,
                                    .max = 1000,
                                    .help = "most copies that stay, with this one"},
                                   {.name = "bytes",
                                    .argument = "SIZE",
                                    .type = EA_OPT_SIZE,
                                    .offset = offsetof(options, bytes),
                                    .fallback = "2GiB",
                                    .help = "most bytes of all copies, with this one; a larger one is refused"},
                                   {.name = NULL}},
    .options_size = sizeof(options),
    .run = run_recorder_keep,
};
