/* etwagent recorder list, export: what a recorder has, and a time of it as a file. Called by: main.c. Calls:
 * service/spool, proto/wire/batch_file.h. Thread: the main one. */
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "proto/wire/batch_file.h"
#include "service/app/agent_commands.h"
#include "service/core/shipping.h"
#include "service/spool/recorder_window.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    ea_shipping_options shipping; /* only the spool's folder and key are used */
    const char *name, *from, *to, *output;
    int json;
} options;

/* What one recorder has. */
typedef struct look {
    char name[256], dir[EA_SPOOL_PATH_BYTES];
    ea_recorded_list batches;
    uint64_t files, bytes, bad_bytes, torn_bytes, unreadable_files, unreadable_batches;
    ea_err *err;
} look;

typedef struct looks {
    look *items;
    size_t count, capacity;
    ea_spool_keys keys;
    const char *name; /* NULL: all recorders */
    ea_err *err;
} looks;

/* ---- looking ---- */

static int recorder_on_segment(const char *name, uint64_t len_bytes, const ea_spool_scanned *scanned, const char *why,
                               void *arg) {
    look *l = arg;
    l->files++;
    l->bytes += len_bytes;
    l->bad_bytes += scanned->bad_bytes;
    l->torn_bytes += scanned->torn_bytes;
    if (why) {
        l->unreadable_files++;
        fprintf(stderr, "etwagent: %s: %s\n", name, why);
    }
    return 0;
}

static int recorder_on_record(const ea_spool_seen *seen, void *arg) {
    look *l = arg;
    ea_err why;
    int rc = ea_recorded_add(&l->batches, seen, &why);
    if (rc == EA_ECORRUPT) {
        l->unreadable_batches++;
        fprintf(stderr, "etwagent: %s: batch %" PRIu64 ": %s\n", seen->segment, seen->record->number, why.message);
        return 0;
    }
    return rc ? ea_fail(l->err, rc, "look into a recorder") : 0;
}

static int recorder_look_into(const char *dir, const char *name, void *arg) {
    looks *all = arg;
    if (all->name && strcmp(all->name, name) != 0)
        return 0;
    if (EA_GROW(all->items, all->capacity, all->count + 1, SIZE_MAX))
        return ea_fail(all->err, EA_ENOMEM, "look into a recorder");
    look *l = &all->items[all->count++];
    *l = (look){.err = all->err};
    snprintf(l->name, sizeof l->name, "%s", name);
    snprintf(l->dir, sizeof l->dir, "%s", dir);
    int rc = ea_spool_visit(
        dir,
        &(ea_spool_visitor){
            .on_segment = recorder_on_segment, .on_record = recorder_on_record, .keys = &all->keys, .arg = l},
        all->err);
    ea_recorded_sort(&l->batches);
    return rc;
}

static int look_into_all(looks *all, const options *o, ea_err *err) {
    char root[EA_SPOOL_PATH_BYTES];
    all->err = err;
    all->name = o->name;
    int rc = ea_shipping_spool_path(o->shipping.spool, root, err);
    if (!rc && o->shipping.spool_key)
        rc = ea_spool_keys_read(&all->keys, o->shipping.spool_key, 0, err);
    return rc ? rc : ea_recorder_each(root, recorder_look_into, all, err);
}

static void looks_deinit(looks *all) {
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i].batches.items);
    free(all->items);
    ea_spool_keys_clear(&all->keys);
}

/* ---- recorder list ---- */

typedef struct sums {
    uint64_t batches, events, keyframes, locked;
    int64_t from_utc_ns, to_utc_ns;
} sums;

static sums recorder_sum_up(const look *l) {
    sums s = {.batches = l->batches.count, .from_utc_ns = INT64_MAX, .to_utc_ns = INT64_MIN};
    for (size_t i = 0; i < l->batches.count; i++) {
        const ea_recorded *r = &l->batches.items[i];
        s.events += r->is_keyframe ? 0 : r->events;
        s.keyframes += (uint64_t)r->is_keyframe;
        s.locked += (uint64_t)r->is_locked;
        if (r->from_utc_ns < s.from_utc_ns)
            s.from_utc_ns = r->from_utc_ns;
        if (r->to_utc_ns > s.to_utc_ns)
            s.to_utc_ns = r->to_utc_ns;
    }
    return s;
}

static void recorder_put_time(ea_text *t, int json, int64_t utc_ns) {
    if (utc_ns == INT64_MAX || utc_ns == INT64_MIN) {
        ea_text_str(t, json ? "null" : "unknown");
        return;
    }
    ea_text_str(t, json ? "\"" : "");
    ea_text_utc_ns(t, utc_ns);
    ea_text_str(t, json ? "\"" : "");
}

/* Numbers that are missing between two batches of a stream. Returns how many gaps. */
static size_t put_gaps(const look *l, int json, ea_text *t) {
    size_t n = 0;
    for (size_t i = 1; i < l->batches.count; i++) {
        const ea_recorded *a = &l->batches.items[i - 1], *b = &l->batches.items[i];
        if (memcmp(a->stream, b->stream, sizeof a->stream) != 0 || b->number <= a->number + 1)
            continue;
        ea_text_str(t, json ? (n ? ", {\"stream\": \"" : "{\"stream\": \"") : "  gap in stream ");
        ea_text_hex(t, a->stream, sizeof a->stream);
        ea_text_printf(t, json ? "\", \"batches\": %" PRIu64 ", \"after\": " : ": %" PRIu64 " batches after ",
                       b->number - a->number - 1);
        recorder_put_time(t, json, a->to_utc_ns);
        ea_text_str(t, json ? ", \"before\": " : ", before ");
        recorder_put_time(t, json, b->from_utc_ns);
        ea_text_str(t, json ? "}" : "\n");
        n++;
    }
    return n;
}

static void put_look(const look *l, int json, ea_text *t) {
    sums s = recorder_sum_up(l);
    if (json) {
        ea_text_str(t, "{\"name\": ");
        ea_text_json_str(t, l->name);
        ea_text_str(t, ", \"folder\": ");
        ea_text_json_str(t, l->dir);
        ea_text_printf(t,
                       ", \"files\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"batches\": %" PRIu64
                       ", \"events\": %" PRIu64 ", \"keyframe_batches\": %" PRIu64 ", \"locked\": %" PRIu64
                       ", \"bad_bytes\": %" PRIu64 ", \"torn_bytes\": %" PRIu64 ", \"unreadable_files\": %" PRIu64
                       ", \"unreadable_batches\": %" PRIu64 ", \"from\": ",
                       l->files, l->bytes, s.batches, s.events, s.keyframes, s.locked, l->bad_bytes, l->torn_bytes,
                       l->unreadable_files, l->unreadable_batches);
        recorder_put_time(t, 1, s.from_utc_ns);
        ea_text_str(t, ", \"to\": ");
        recorder_put_time(t, 1, s.to_utc_ns);
        ea_text_str(t, ", \"gaps\": [");
        (void)put_gaps(l, 1, t);
        ea_text_str(t, "]}");
        return;
    }
    ea_text_printf(t, "%s: from ", l->name);
    recorder_put_time(t, 0, s.from_utc_ns);
    ea_text_str(t, " to ");
    recorder_put_time(t, 0, s.to_utc_ns);
    ea_text_printf(t, "\n  %" PRIu64 " events in %" PRIu64 " batches, %" PRIu64 " bytes in %" PRIu64 " files of %s\n",
                   s.events, s.batches, l->bytes, l->files, l->dir);
    if (s.locked)
        ea_text_printf(t, "  %" PRIu64 " batches need another key: their times are unknown\n", s.locked);
    if (l->bad_bytes || l->unreadable_files || l->unreadable_batches)
        ea_text_printf(t, "  %" PRIu64 " bytes are damaged, %" PRIu64 " files and %" PRIu64 " batches unreadable\n",
                       l->bad_bytes, l->unreadable_files, l->unreadable_batches);
    (void)put_gaps(l, 0, t);
}

static int recorder_failed(int rc, const ea_err *err) {
    ea_err_print(stderr, "etwagent", err);
    return ea_exit_code(rc);
}

static int recorder_print(ea_text *t, ea_err *err) {
    int good =
        !t->failed && fwrite(t->data ? t->data : "", 1, t->len_bytes, stdout) == t->len_bytes && fflush(stdout) == 0;
    return good ? 0 : ea_fail(err, EA_EIO, "write to standard output");
}

static int run_recorder_list(const void *opts, int operand_count, char **operands) {
    const options *o = opts;
    looks all = {0};
    ea_text t;
    ea_err err = {0};
    (void)operand_count, (void)operands;
    ea_text_init(&t);
    int rc = look_into_all(&all, o, &err);
    if (!rc && o->json)
        ea_text_str(&t, "[");
    for (size_t i = 0; !rc && i < all.count; i++) {
        if (o->json)
            ea_text_str(&t, i ? ",\n  " : "\n  ");
        put_look(&all.items[i], o->json, &t);
    }
    if (!rc && o->json)
        ea_text_str(&t, all.count ? "\n]\n" : "]\n");
    else if (!rc && !all.count)
        ea_text_str(&t, "there is no recorder\n");
    if (!rc)
        rc = recorder_print(&t, &err);
    looks_deinit(&all);
    ea_text_deinit(&t);
    return rc ? recorder_failed(rc, &err) : 0;
}

#define WHERE_OPTIONS                                                                                                  \
    {.name = "spool",                                                                                                  \
     .argument = "DIR",                                                                                                \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(options, shipping.spool),                                                                      \
     .help = "folder of the spool, in which recorders are; default: spool in the folder for state (see above)"},       \
        EA_SPOOL_KEY_OPTION(offsetof(options, shipping.spool_key)), {                                                  \
        .name = "name", .argument = "NAME", .type = EA_OPT_STRING, .offset = offsetof(options, name),                  \
        .help = "the recorder of this session, or a copy that was kept; default: all"                                  \
    }

const ea_command ea_cmd_recorder_list = {
    .name = "recorder list",
    .operands = "",
    .summary = "List the recorders of this machine: times, events, bytes, gaps",
    .details =
        "A session with the option recorder keeps its events on this machine. Works while the agent records, and "
        "changes\n"
        "nothing. A gap is batches that are missing between others: they were damaged, or found no room on the disk.\n"
        "Events of keyframes, which the agent makes itself, are not counted.\n\n" EA_SPOOL_FOLDER_TEXT "\n\n"
        "JSON keys: [name, folder, files, bytes, batches, events, keyframe_batches, locked, bad_bytes, torn_bytes,\n"
        "unreadable_files, unreadable_batches, from, to, gaps: [stream, batches, after, before]].",
    .options =
        (const ea_option[]){
            WHERE_OPTIONS,
            {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = run_recorder_list,
};

/* ---- recorder export ---- */

/* The chosen batches of items[first..end) are numbered from 1 under a name of their own, so that a part of a recording
 * has no holes before and after it; the same part has the same name. */
typedef struct part {
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t before; /* the number before the first one's */
    uint64_t last;
} part;

static int recorder_find_part(const look *l, size_t first, size_t end, part *ret, ea_err *err) {
    struct {
        uint8_t stream[EA_STREAM_ID_BYTES], first[8], last[8];
    } what;

    _Static_assert(sizeof what == EA_STREAM_ID_BYTES + 16, "nothing in between");
    _Static_assert((int)EA_CLASS_HASH_BYTES == (int)EA_STREAM_ID_BYTES, "a hash names a stream");
    *ret = (part){.before = 0};
    for (size_t i = first; i < end; i++) {
        if (!l->batches.items[i].is_chosen)
            continue;
        if (!ret->last)
            ret->before = l->batches.items[i].number - 1;
        ret->last = l->batches.items[i].number;
    }
    if (!ret->last)
        return 0;
    memcpy(what.stream, l->batches.items[first].stream, sizeof what.stream);
    ea_store64(what.first, ret->before + 1);
    ea_store64(what.last, ret->last);
    return ea_definition_hash((const uint8_t *)&what, sizeof what, ret->stream, err);
}

typedef struct exporting {
    look *look;
    size_t first, end; /* the stream at hand, of the look's items */
    part of;           /* its */
    ea_batch_file_writer file;
    uint64_t batches, events, keyframe_batches, missing;
    int64_t from_utc_ns, to_utc_ns; /* of what was written */
    ea_text batch;
    ea_err *err;
} exporting;

/* The stream of an item becomes the one at hand. A stream's batches follow each other in the files, so that this is
 * done once a stream, not once a batch. */
static int export_turn_to(exporting *x, size_t at) {
    size_t first = at;
    while (first &&
           memcmp(x->look->batches.items[first - 1].stream, x->look->batches.items[at].stream, EA_STREAM_ID_BYTES) == 0)
        first--;
    x->first = first;
    x->end = ea_recorded_end(&x->look->batches, first);
    return recorder_find_part(x->look, x->first, x->end, &x->of, x->err);
}

static int export_record(const ea_spool_seen *seen, void *arg) {
    exporting *x = arg;
    const ea_spool_record *r = seen->record;
    ea_recorded *found = ea_recorded_find(&x->look->batches, r->stream, r->number);
    if (!found || !found->is_chosen || found->is_written || seen->opened != 1 || found->events != r->event_count)
        return 0;
    size_t at = (size_t)(found - x->look->batches.items);
    int rc = at >= x->first && at < x->end ? 0 : export_turn_to(x, at);
    ea_text_clear(&x->batch);
    if (!rc)
        rc = ea_batch_rename(r->batch, r->len_bytes, x->of.stream, r->number - x->of.before, &x->batch, x->err);
    if (!rc && x->batch.failed)
        rc = ea_fail(x->err, EA_ENOMEM, "export a recorder");
    if (!rc)
        rc = ea_batch_file_add(&x->file, (const uint8_t *)x->batch.data, x->batch.len_bytes, x->err);
    if (rc)
        return rc;
    found->is_written = 1;
    x->batches++;
    x->events += found->is_keyframe ? 0 : found->events;
    x->keyframe_batches += (uint64_t)found->is_keyframe;
    if (found->from_utc_ns < x->from_utc_ns)
        x->from_utc_ns = found->from_utc_ns;
    if (found->to_utc_ns > x->to_utc_ns)
        x->to_utc_ns = found->to_utc_ns;
    return 0;
}

/* Numbers of a part that could not be written: tombstones take their places. */
static int export_gaps(exporting *x, size_t first, size_t end) {
    part of;
    ea_tombstone rows[EA_WRITER_TOMBSTONES];
    size_t count = 0;
    int rc = recorder_find_part(x->look, first, end, &of, x->err);
    uint64_t next = of.before + 1;
    for (size_t i = first; !rc && of.last && i < end; i++) {
        const ea_recorded *r = &x->look->batches.items[i];
        if (r->number > of.last)
            break;
        if (!r->is_written)
            continue;
        if (r->number > next) {
            rows[count++] = (ea_tombstone){.first = next - of.before,
                                           .last = r->number - 1 - of.before,
                                           .cause = ea_counter_row(EA_COUNT_events_evicted_damage)->number};
            x->missing += r->number - next;
        }
        next = r->number + 1;
        if (count == EA_WRITER_TOMBSTONES)
            break; /* what follows stays a hole, which its reader finds */
    }
    if (rc || !count)
        return rc;
    ea_text_clear(&x->batch);
    rc = ea_batch_make_tombstone(of.stream, rows[0].first, rows, count, &x->batch, x->err);
    if (!rc && x->batch.failed)
        rc = ea_fail(x->err, EA_ENOMEM, "export a recorder");
    return rc ? rc : ea_batch_file_add(&x->file, (const uint8_t *)x->batch.data, x->batch.len_bytes, x->err);
}

static int recorder_parse_bound(const char *option, const char *given, const sums *data, int64_t otherwise,
                                int64_t *ret, ea_err *err) {
    ea_time_reference reference = {.now_utc_ns = ea_utc_ns(),
                                   .begin_utc_ns = data->from_utc_ns,
                                   .end_utc_ns = data->to_utc_ns,
                                   .has_data = data->from_utc_ns <= data->to_utc_ns};
    *ret = otherwise;
    if (!given || ea_time_parse(given, &reference, ret) == 0)
        return 0;
    return ea_fail(err, EA_EUSAGE, "--%s %s: expected " EA_TIME_FORMS_OF_DATA, option, given);
}

/* The recorder of that name; without one the only recorder, beside which there may be kept copies. */
static int choose_recorder(looks *all, const options *o, look **ret, ea_err *err) {
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (!o->name && ea_recorder_is_kept(all->items[i].name))
            continue;
        *ret = &all->items[i];
        count++;
    }
    if (count == 1)
        return 0;
    if (count)
        return ea_fail(err, EA_EUSAGE,
                       "there are %zu recorders; expected --name with one of them ('etwagent recorder list')", count);
    return o->name ? ea_fail(err, EA_ENOTFOUND, "there is no recorder %.64s", o->name)
                   : ea_fail(err, EA_ENOTFOUND, "there is no recorder");
}

static int write_export(exporting *x, const ea_spool_keys *keys, ea_file *file) {
    look *l = x->look;
    int rc = ea_batch_file_begin(&x->file, file, x->err);
    if (!rc)
        rc = ea_spool_visit(l->dir, &(ea_spool_visitor){.on_record = export_record, .keys = keys, .arg = x}, x->err);
    for (size_t first = 0, end; !rc && first < l->batches.count; first = end) {
        end = ea_recorded_end(&l->batches, first);
        rc = export_gaps(x, first, end);
    }
    if (!rc && !x->batches)
        rc = ea_fail(x->err, EA_ENOTFOUND, "the recorder %s has no events of that time", l->name);
    return rc ? rc : ea_batch_file_end(&x->file, x->err);
}

static int export_to(exporting *x, const ea_spool_keys *keys, const char *output) {
    ea_file *file = NULL;
    ea_text part_path;
    ea_text_init(&part_path);
    ea_text_printf(&part_path, "%s.part", output);
    int rc = part_path.failed ? ea_fail(x->err, EA_ENOMEM, "write %s", output)
                              : ea_file_claim(&file, part_path.data, x->err);
    int is_made = !rc;
    if (!rc)
        rc = write_export(x, keys, file);
    ea_file_close(file);
    if (!rc)
        rc = ea_path_rename(part_path.data, output, x->err);
    if (rc && is_made)
        EA_IGNORE(ea_path_remove(part_path.data, NULL));
    ea_text_deinit(&part_path);
    return rc;
}

static int print_export(const options *o, const exporting *x, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    if (o->json) {
        ea_text_str(&t, "{\"output\": ");
        ea_text_json_str(&t, o->output);
        ea_text_printf(&t,
                       ", \"batches\": %" PRIu64 ", \"events\": %" PRIu64 ", \"keyframe_batches\": %" PRIu64
                       ", \"missing_batches\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"from\": ",
                       x->batches, x->events, x->keyframe_batches, x->missing, x->file.at);
        recorder_put_time(&t, 1, x->from_utc_ns);
        ea_text_str(&t, ", \"to\": ");
        recorder_put_time(&t, 1, x->to_utc_ns);
        ea_text_str(&t, "}\n");
    } else {
        ea_text_printf(&t, "%s: %" PRIu64 " events in %" PRIu64 " batches, %" PRIu64 " bytes, from ", o->output,
                       x->events, x->batches, x->file.at);
        recorder_put_time(&t, 0, x->from_utc_ns);
        ea_text_str(&t, " to ");
        recorder_put_time(&t, 0, x->to_utc_ns);
        ea_text_str(&t, "\n");
        if (x->missing)
            ea_text_printf(&t, "%" PRIu64 " batches in between are missing\n", x->missing);
        if (!x->keyframe_batches)
            ea_text_str(&t, "no keyframe is that old: processes and modules from before that time have no names\n");
    }
    int rc = recorder_print(&t, err);
    ea_text_deinit(&t);
    return rc;
}

static int run_recorder_export(const void *opts, int operand_count, char **operands) {
    const options *o = opts;
    looks all = {0};
    ea_err err = {0};
    exporting x = {.from_utc_ns = INT64_MAX, .to_utc_ns = INT64_MIN, .err = &err};
    int64_t from = INT64_MIN, to = INT64_MAX;
    (void)operand_count, (void)operands;
    ea_text_init(&x.batch);
    int rc = look_into_all(&all, o, &err);
    if (!rc)
        rc = choose_recorder(&all, o, &x.look, &err);
    if (!rc) {
        sums data = recorder_sum_up(x.look);
        rc = recorder_parse_bound("from", o->from, &data, INT64_MIN, &from, &err);
        if (!rc)
            rc = recorder_parse_bound("to", o->to, &data, INT64_MAX, &to, &err);
    }
    if (!rc && from >= to)
        rc = ea_fail(&err, EA_EUSAGE, "--from: expected a time before --to");
    if (!rc)
        ea_recorded_choose(&x.look->batches, from, to);
    if (!rc)
        rc = export_to(&x, &all.keys, o->output);
    if (!rc)
        rc = print_export(o, &x, &err);
    looks_deinit(&all);
    ea_text_deinit(&x.batch);
    return rc ? recorder_failed(rc, &err) : 0;
}

const ea_command ea_cmd_recorder_export = {
    .name = "recorder export",
    .operands = "",
    .summary = "Write a time of a recorder to a file that collectors and etwcollector open read",
    .details =
        "Writes the batches that have events of that time, whole, and those before them from the last keyframe on, so "
        "that\n"
        "processes and modules have their names: the file begins some minutes earlier. Works while the agent records.\n"
        "\n"
        "  etwagent recorder export --from -10m --to now -o FILE" EA_BATCH_FILE_SUFFIX "\n"
        "  etwcollector open FILE" EA_BATCH_FILE_SUFFIX "               look at it\n"
        "  etwcollector ingest --store DIR FILE" EA_BATCH_FILE_SUFFIX " add it to a store; pull then writes a time of "
        "it as .etl\n"
        "\n"
        "The same batches exported again are the same stream, which a store has once. Two exports that overlap in part "
        "are two\n"
        "streams, and a store that has both has the events in both twice. The file is not "
        "encrypted.\n\n" EA_SPOOL_FOLDER_TEXT "\n\n"
        "JSON keys: output, batches, events, keyframe_batches, missing_batches, bytes, from, to.",
    .options =
        (const ea_option[]){
            WHERE_OPTIONS,
            {.name = "from",
             .argument = "TIME",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, from),
             .help = "events from this time on: " EA_TIME_FORMS_OF_DATA},
            {.name = "to",
             .argument = "TIME",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, to),
             .help = "events before this time; default: all that is recorded"},
            {.name = "output",
             .letter = 'o',
             .argument = "FILE",
             .type = EA_OPT_STRING,
             .offset = offsetof(options, output),
             .required = 1,
             .help = "the file, which is replaced as a whole"},
            {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print JSON"},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = run_recorder_export,
};
