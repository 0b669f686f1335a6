/* See pull.h. */
#include "collector/pull/pull.h"

#include "collector/pull/batch_order.h"
#include "collector/pull/history_rundown.h"
#include "collector/pull/pull_output.h"
#include "collector/query/sql/confine.h"
#include "collector/sandbox/child.h"
#include "collector/state/state_worker.h"
#include "proto/base/provider_guids.h"
#include "proto/lang/lang_where.h"
#include "proto/relog/announced_records.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const ea_guid CONFIG_EX = EA_PROVIDER_CONFIG_EX;

enum { OP_VOLUME = 35, WINDOWS_8_1 = 9600 };

#define MEMORY_MAX_BYTES (UINT64_C(8) << 30) /* beyond what it has when it confines itself */

/* A stack comes when its thread is back in user mode, which a wait may delay. */
#define LATE_STACK_NS INT64_C(60000000000)

typedef struct pull {
    const ec_pull_options *o;
    ec_pull_result *result;
    ea_err *err;
    ec_archive *archive;
    ec_state_db *tables;               /* NULL: there is no history */
    const ec_archive_stream **streams; /* in the window, */
    const ec_archive_stream **of_runs; /* and all of their runs */
    size_t stream_count, of_runs_count;
    ea_where *where;
    ec_pull_output *output;
    ec_batch_order_options batches;
    int keeps_logger;
    unsigned pointer_size;
    uint8_t image_version; /* of Image events: ea_module_place */
    ea_clock clock;
    int64_t from_raw, to_raw;
    int64_t last_raw; /* of what was written */
    int has_volumes;  /* records say which drive letters there are */
    ea_cut *cut;
} pull;

/* ---- the streams ---- */

static int pull_is_in_window(const pull *p, const ec_index_query_row *row) {
    return row->event_count && row->begin_utc_ns < p->o->to_utc_ns && row->end_utc_ns >= p->o->from_utc_ns;
}

static int same_run(const ec_archive_stream *a, const ec_archive_stream *b) {
    return memcmp(a->row.stream, b->row.stream, EA_STREAM_RUN_BYTES) == 0;
}

static int is_first_of_run(const pull *p, size_t at) {
    for (size_t i = 0; i < at; i++)
        if (same_run(p->streams[i], p->streams[at]))
            return 0;
    return 1;
}

static int choose_streams(pull *p) {
    const ec_archive_stream *all;
    size_t count;
    int rc = ec_archive_streams(p->archive, &all, &count, p->err);
    if (rc)
        return rc;
    if (!count)
        return ec_unknown_host(p->o->host, p->err);
    p->streams = calloc(count, sizeof *p->streams);
    p->of_runs = calloc(count, sizeof *p->of_runs);
    if (!p->streams || !p->of_runs)
        return ea_fail(p->err, EA_ENOMEM, "pull");
    for (size_t i = 0; i < count; i++)
        if (pull_is_in_window(p, &all[i].row))
            p->streams[p->stream_count++] = &all[i];
    for (size_t i = 0; i < count; i++) {
        int found = 0;
        for (size_t k = 0; !found && k < p->stream_count; k++)
            found = same_run(&all[i], p->streams[k]);
        if (found)
            p->of_runs[p->of_runs_count++] = &all[i];
    }
    p->result->sessions = p->stream_count;
    return p->stream_count ? 0
                           : ea_fail(p->err, EA_ENOTFOUND, "nothing is stored of host %.200s in this time", p->o->host);
}

static int count_missing(const ec_stream_row *row, void *arg) {
    pull *p = arg;
    for (size_t i = 0; i < p->of_runs_count; i++)
        if (memcmp(p->of_runs[i]->row.stream, row->stream, sizeof row->stream) == 0)
            p->result->missing_batches += row->missing_count + row->expired_batch_count;
    return 0;
}

static int collect_classes(void *arg, ea_class_list *list, ea_err *err) {
    const ea_class *const *all;
    size_t count;
    int rc = ec_archive_classes(arg, &all, &count, err);
    for (size_t i = 0; !rc && i < count; i++)
        if (all[i]->kind != EA_KIND_KEYFRAME)
            rc = ea_class_list_add(list, all[i], err);
    return rc;
}

static int compile_where(pull *p) {
    ea_lang_classes classes = {
        .registry = ec_archive_registry(p->archive), .collect = collect_classes, .arg = p->archive};
    int rc = ea_where_create(&p->where, p->o->where, NULL, &classes, p->err);
    ea_lang_classes_deinit(&classes);
    return rc ? rc : ea_where_begin(p->where, p->err);
}

static int open_pull(pull *p) {
    const ec_pull_options *o = p->o;
    int rc = ec_state_worker_catch_up(o->store, o->host, EC_WAIT_FOLDED, o->wait_ns, &p->result->backlog, p->err);
    if (!rc)
        rc = ec_archive_open(&p->archive, o->store, o->host, NULL, p->err);
    if (rc)
        return rc;
    ec_archive_on_batch(p->archive, o->keep_going, o->arg);
    rc = choose_streams(p);
    if (!rc)
        rc = ec_store_each_stream(ec_archive_store(p->archive), o->host, count_missing, p, p->err);
    if (!rc)
        rc = ec_state_db_open(&p->tables, o->store, 0, p->err);
    if (rc == EA_ENOTFOUND) {
        *p->err = (ea_err){0};
        rc = 0;
    }
    return rc ? rc : ec_pull_output_claim(&p->output, o->output, p->err);
}

/* ---- the sandbox ---- */

/* The folder that a file is, or will be, in. */
static int folder_of(const char *path, ea_text *ret) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        ea_text_str(ret, ".");
    else
        ea_text_add(ret, path, slash == path ? 1 : (size_t)(slash - path));
    return ret->failed ? EA_ENOMEM : 0;
}

/* What is left are the store's segments and databases, for reading, the folder of the output, and so much memory. */
static int pull_confine(const pull *p) {
    ea_text folder;
    ea_text_init(&folder);
    int rc = folder_of(p->o->output, &folder) ? ea_fail(p->err, EA_ENOMEM, "enter the sandbox") : 0;
    if (!rc) {
        ec_child_limit_memory(MEMORY_MAX_BYTES);
        ec_sandbox_path output = {.path = folder.data, .access = EC_SANDBOX_WRITE};
        rc = ec_query_confine_with(p->o->store, UINT64_MAX, &(ec_sandbox){.paths = &output, .path_count = 1}, p->err);
    }
    ea_text_deinit(&folder);
    return rc;
}

/* ---- writing ---- */

static int write_record(pull *p, const ea_record *r) {
    ea_record merged = *r;
    if (!p->keeps_logger)
        merged.logger = 0; /* as in merged traces: one buffer a processor, whatever session a record is of */
    if (r->time_raw > p->last_raw)
        p->last_raw = r->time_raw;
    return ec_pull_output_add(p->output, &merged, p->err);
}

static int pull_emit_added(void *arg, const ea_relog_event *event) {
    pull *p = arg;
    p->result->added++;
    return write_record(p, (const ea_record *)event); /* one layout: relog.c */
}

/* When the trace began, as its header event says. A clock of the system time counts from 1970, and not from the start
 * of the session: then the first stored event counts. */
static int64_t pull_begins_at(const pull *p) {
    int64_t begin = INT64_MAX;
    if (p->clock.type != EA_CLOCK_SYSTEM_TIME)
        return p->clock.base_utc_ns;
    for (size_t i = 0; i < p->stream_count; i++)
        if (p->streams[i]->row.begin_utc_ns < begin)
            begin = p->streams[i]->row.begin_utc_ns;
    return begin;
}

static int begin_output(pull *p) {
    ec_batch_order_sources s;
    p->batches =
        (ec_batch_order_options){.archive = p->archive, .streams = p->streams, .stream_count = p->stream_count};
    int rc = ec_batch_order_look(&p->batches, p->o->from_utc_ns, p->o->to_utc_ns, &s, p->err);
    if (rc)
        return rc;
    if (!s.is_found)
        return ea_fail(p->err, EA_ENOTFOUND, "nothing is stored of host %.200s in this time", p->o->host);
    p->clock = s.first.clock;
    p->batches.clock = p->clock;
    p->batches.boot_filetime = s.first.boot_filetime;
    p->batches.pointer_size = s.first.pointer_size;
    p->keeps_logger = !s.several_loggers;
    p->pointer_size = s.first.pointer_size == 4 ? 4 : 8;
    p->image_version = s.first.os_build < WINDOWS_8_1 ? 2 : 3;
    p->from_raw = ea_clock_first_tick(&p->clock, p->o->from_utc_ns);
    p->to_raw = ea_clock_first_tick(&p->clock, p->o->to_utc_ns);
    p->last_raw = p->from_raw;
    if (p->from_raw >= p->to_raw)
        return ea_fail(p->err, EA_EUSAGE, "expected a time before the end");
    int64_t begin_utc_ns = pull_begins_at(p);
    const ec_pull_header header = {.session_name = s.session_name,
                                   .start_raw = ea_clock_from_utc_ns(&p->clock, begin_utc_ns),
                                   .start_filetime = ea_utc_ns_to_filetime(begin_utc_ns),
                                   .boot_filetime = s.first.boot_filetime,
                                   .frequency = p->clock.frequency,
                                   .clock_type = p->clock.type,
                                   .pointer_size = p->pointer_size,
                                   .cpu_count = s.cpu_count,
                                   .os_version = s.first.os_version,
                                   .os_build = s.first.os_build,
                                   .buffer_bytes = p->o->buffer_bytes,
                                   .compression = p->o->compression,
                                   .bias_minutes = s.first.bias_minutes};
    return ec_pull_output_begin(p->output, &header, p->err);
}

/* ---- around the window ---- */

static int wants_before(void *arg, const ea_class *c) {
    (void)arg;
    return ea_cut_needs(c) & EA_CUT_NEEDS_BEFORE;
}

static int wants_soon(void *arg, const ea_class *c) {
    (void)arg;
    return ea_cut_needs(c) & (EA_CUT_NEEDS_AFTER | EA_CUT_NEEDS_SOON);
}

static int wants_after(void *arg, const ea_class *c) {
    (void)arg;
    return ea_cut_needs(c) & EA_CUT_NEEDS_AFTER;
}

/* Gives the cut the records of [from, to) of the classes that it needs. */
static int read_around(pull *p, int (*wants)(void *arg, const ea_class *c), int64_t from_utc_ns, int64_t to_utc_ns) {
    ec_batch_order_options options = p->batches;
    ec_batch_order *b = NULL;
    const ea_record *r;
    const ea_class *c;
    int64_t from = from_utc_ns == INT64_MIN ? INT64_MIN : ea_clock_first_tick(&p->clock, from_utc_ns);
    int64_t to = to_utc_ns == INT64_MAX ? INT64_MAX : ea_clock_first_tick(&p->clock, to_utc_ns);
    options.streams = p->of_runs;
    options.stream_count = p->of_runs_count;
    options.wants = wants;
    int rc = ec_batch_order_open(&b, &options, from_utc_ns, to_utc_ns, p->err);
    while (!rc && (rc = ec_batch_order_next(b, &r, &c, p->err)) == 1) {
        rc = 0;
        if (r->time_raw < from || r->time_raw >= to || ea_is_announced_module(r))
            continue; /* the history says which modules there are */
        p->has_volumes |= c->classic && r->opcode == OP_VOLUME && ea_guid_equal(&r->provider, &CONFIG_EX);
        rc = ea_cut_take(p->cut, r, c, 0, p->err);
        rc = rc < 0 ? rc : 0;
    }
    ec_batch_order_close(b);
    return rc;
}

static int take_rundown(void *arg, const ea_record *r, const ea_class *c, ea_err *err) {
    pull *p = arg;
    int rc = p->where ? ea_where_holds(p->where, r, c, &p->clock, err) : 0;
    if (rc >= 0)
        rc = ea_cut_take(p->cut, r, c, 0, err);
    return rc < 0 ? rc : 0;
}

/* When the run that a stream is of began, as the history has it: 1 and *ret with the fold of the stream; 0: unknown. */
static int pull_find_run(pull *p, const ec_archive_stream *stream, ec_state_fold *ret) {
    int64_t begin = INT64_MAX;
    int known = 0;
    for (size_t i = 0; p->tables && i < p->of_runs_count; i++) {
        ec_state_fold fold;
        if (!same_run(p->of_runs[i], stream))
            continue;
        int rc = ec_state_db_find_fold(p->tables, p->of_runs[i]->row.host, p->of_runs[i]->row.stream, &fold, p->err);
        if (rc < 0)
            return rc;
        if (rc == 0 || fold.begin_utc_ns == INT64_MIN)
            continue;
        begin = fold.begin_utc_ns < begin ? fold.begin_utc_ns : begin;
        if (!known || p->of_runs[i] == stream)
            *ret = fold;
        known = 1;
    }
    if (known)
        ret->begin_utc_ns = begin;
    return known;
}

/* What the history says of the beginning, for each run of the agent that had begun by then. */
static int read_history(pull *p) {
    const ec_rundown_options options = {
        .pointer_size = p->pointer_size, .time_raw = p->from_raw - 1, .emit = take_rundown, .arg = p};
    int64_t at = ea_clock_to_utc_ns(&p->clock, p->from_raw) - 1;
    ec_rundown_records *w = NULL;
    int rc = ec_rundown_records_create(&w, &options, p->err);
    for (size_t i = 0; !rc && i < p->stream_count; i++) {
        ec_state_fold fold;
        if (!is_first_of_run(p, i))
            continue;
        int known = pull_find_run(p, p->streams[i], &fold);
        if (known < 0)
            rc = known;
        else if (!known)
            p->result->runs_unknown++;
        else if (fold.begin_utc_ns > at)
            p->result->runs_inside++;
        else
            rc = ec_history_rundown(p->tables, fold.stream_number, at, !p->has_volumes, w, p->err);
    }
    if (w)
        p->result->altered = ec_rundown_altered(w);
    ec_rundown_records_destroy(w);
    return rc;
}

/* ---- the window ---- */

/* An image event, or an id, in place of an announcement. */
static int take_announced(void *arg, const ea_record *r) {
    pull *p = arg;
    const ea_class *c = ea_registry_find(ec_archive_registry(p->archive), r);
    int wanted = p->where ? ea_where_holds(p->where, r, c, &p->clock, p->err) : 1;
    int verdict = wanted < 0 ? wanted : ea_cut_take(p->cut, r, c, wanted, p->err);
    if (verdict != EA_RELOG_KEEP)
        return verdict < 0 ? verdict : 0;
    p->result->added++;
    return write_record(p, r);
}

static int take_event(pull *p, const ea_record *r, const ea_class *c) {
    p->result->read++;
    if (!p->o->bare && ea_is_announced_module(r)) {
        int rc = ea_announced_records(r, p->image_version, (uint8_t)p->pointer_size, take_announced, p, p->err);
        p->result->dropped += rc == 0;
        p->result->announced += rc == 0;
        if (rc != EA_ENOTFOUND)
            return rc;
    }
    int wanted = p->where ? ea_where_holds(p->where, r, c, &p->clock, p->err) : 1;
    int verdict = wanted < 0 ? wanted : ea_cut_take(p->cut, r, c, wanted, p->err);
    if (verdict == EA_RELOG_KEEP)
        return write_record(p, r);
    p->result->dropped += verdict == EA_RELOG_DROP;
    return verdict;
}

static int pull_read_window(pull *p) {
    ec_batch_order *b = NULL;
    const ea_record *r;
    const ea_class *c;
    int rc = ec_batch_order_open(&b, &p->batches, p->o->from_utc_ns, p->o->to_utc_ns, p->err);
    while (!rc && (rc = ec_batch_order_next(b, &r, &c, p->err)) == 1) {
        rc = 0;
        if (p->result->is_limited && r->time_raw >= p->to_raw)
            break;
        if (r->time_raw < p->from_raw || r->time_raw >= p->to_raw)
            continue;
        rc = take_event(p, r, c);
        /* an announcement is one event, whatever it became */
        if (!rc && p->o->limit && !p->result->is_limited &&
            p->result->read - p->result->dropped + p->result->announced >= p->o->limit) {
            p->result->is_limited = 1;
            p->to_raw = r->time_raw + 1;
            ea_cut_end(p->cut, p->to_raw);
        }
    }
    ec_batch_order_close(b);
    return rc;
}

/* Stacks and definitions that came after the window. */
static int read_after(pull *p) {
    int64_t end = ea_clock_to_utc_ns(&p->clock, p->to_raw);
    int64_t soon = end < INT64_MAX - LATE_STACK_NS ? end + LATE_STACK_NS : INT64_MAX;
    int rc = read_around(p, wants_soon, end, soon);
    return rc || soon == INT64_MAX ? rc : read_around(p, wants_after, soon, INT64_MAX);
}

static int write_trace(pull *p) {
    const ea_cut_options options = {.from_raw = p->from_raw,
                                    .to_raw = p->to_raw,
                                    .bare = p->o->bare,
                                    .is_filtered = p->where != NULL,
                                    .emit = pull_emit_added,
                                    .emit_arg = p};
    int rc = ea_cut_create(&p->cut, &options, p->err);
    if (!rc && !p->o->bare)
        rc = read_around(p, wants_before, INT64_MIN, p->o->from_utc_ns);
    if (!rc && (!p->o->bare || p->where))
        rc = read_history(p);
    if (!rc)
        rc = pull_read_window(p);
    if (!rc && !p->o->bare)
        rc = read_after(p);
    if (!rc)
        rc = ea_cut_finish(p->cut);
    return rc;
}

static int pull_publish(pull *p) {
    ec_pull_result *result = p->result;
    const char *damage;
    int64_t end = ea_clock_to_utc_ns(&p->clock, p->last_raw);
    result->written = ec_pull_output_events(p->output);
    result->added_kinds = *ea_cut_count(p->cut);
    result->end_utc_ns = ea_clock_to_utc_ns(&p->clock, p->to_raw);
    result->damaged_batches = ec_archive_damage(p->archive, &damage);
    snprintf(result->damage, sizeof result->damage, "%s", damage);
    if (result->written != result->read - result->dropped + result->added)
        return ea_fail(p->err, EA_ECORRUPT, "write %s: expected %" PRIu64 " events, wrote %" PRIu64, p->o->output,
                       result->read - result->dropped + result->added, result->written);
    return ec_pull_output_publish(p->output, ea_utc_ns_to_filetime(end), &result->bytes, p->err);
}

int ec_pull(const ec_pull_options *options, ec_pull_result *ret, ea_err *err) {
    pull p = {.o = options, .result = ret, .err = err};
    *ret = (ec_pull_result){0};
    int rc = open_pull(&p);
    if (!rc)
        rc = pull_confine(&p);
    if (!rc && options->where) /* it reads class descriptions, which agents sent */
        rc = compile_where(&p);
    if (!rc)
        rc = begin_output(&p);
    if (!rc)
        rc = write_trace(&p);
    if (!rc)
        rc = pull_publish(&p);
    ea_cut_destroy(p.cut);
    ec_pull_output_destroy(p.output);
    if (p.where)
        ea_where_end(p.where);
    ea_where_destroy(p.where);
    ec_state_db_close(p.tables);
    ec_archive_close(p.archive);
    free(p.streams);
    free(p.of_runs);
    return rc;
}
