/* See activity.h: the streams of a range, one after the other. */
#include "collector/query/analysis/activity_internal.h"
#include "collector/query/analysis/profile_merge.h"
#include "collector/query/analysis/stack_query.h"

#include <stdlib.h>
#include <string.h>

static void end_activity_stream(ec_activity *a) {
    ec_event_cursor_close(a->cursor);
    ec_sched_destroy(a->sched);
    ec_address_space_close(a->space);
    ec_counter_names_close(a->names);
    ec_methods_close(a->methods);
    a->methods = NULL;
    a->cursor = NULL;
    a->sched = NULL;
    a->space = NULL;
    a->names = NULL;
    a->config = NULL;
    ec_activity_forget(a);
}

static int add_stack_row(void *arg, const ec_stack_sum *s) {
    ec_activity *a = arg;
    ec_activity_row *r = NULL;
    ec_activity_key k = {
        .key = {[KEY_PID] = s->pid, [KEY_TID] = s->tid, [KEY_STACK_HASH] = s->hash, [KEY_STACK_DEPTH] = s->depth},
        .text = {[TEXT_CLASS] = ec_activity_text(a, s->name, strlen(s->name)),
                 [TEXT_FRAMES] = ec_activity_text(a, s->frames, strlen(s->frames))},
        .image = {ec_activity_text(a, s->image, strlen(s->image))},
        .process = {s->process_key}};
    int rc = k.text[TEXT_CLASS] && k.text[TEXT_FRAMES] && k.image[0] ? ec_activity_row_of(a, &k, &r) : EA_ENOMEM;
    if (rc)
        return rc;
    if (!r->sum[SUM_STACKS] || (int64_t)r->sum[SUM_FIRST_UTC_NS] > s->first_utc_ns)
        r->sum[SUM_FIRST_UTC_NS] = (uint64_t)s->first_utc_ns;
    if (!r->sum[SUM_STACKS] || (int64_t)r->sum[SUM_LAST_UTC_NS] < s->last_utc_ns)
        r->sum[SUM_LAST_UTC_NS] = (uint64_t)s->last_utc_ns;
    r->sum[SUM_STACKS] += s->count;
    return 0;
}

static int add_missed_row(void *arg, const ec_missed_half *m) {
    ec_activity *a = arg;
    ec_activity_row *r = NULL;
    ec_activity_key k = {.key = {[KEY_PID] = m->pid,
                                 [KEY_TID] = m->tid,
                                 [KEY_BATCH] = ec_event_position_batch(m->place),
                                 [KEY_POSITION] = ec_event_position_in_batch(m->place)},
                         .text = {[TEXT_OUTCOME] = ec_activity_text(a, m->outcome, strlen(m->outcome)),
                                  [TEXT_HALF] = m->half ? ec_activity_text(a, m->half, strlen(m->half)) : NULL},
                         .image = {ec_activity_text(a, m->image, strlen(m->image))},
                         .process = {m->process_key}};
    int rc = ec_activity_row_of(a, &k, &r); /* a text that found no memory is noted in is_short */
    if (rc)
        return rc;
    r->sum[SUM_HALVES]++;
    r->sum[SUM_UTC_NS] = (uint64_t)m->utc_ns;
    return 0;
}

/* Reads the stream's processes, threads and modules; where its session records no processes or no threads, those of the
 * other sessions of its run, and with their processes their modules. */
static int open_processes(ec_activity *a, ea_err *err) {
    static const enum ec_instance_kind KINDS[] = {EC_INSTANCE_PROCESS, EC_INSTANCE_THREAD};

    int rc = ec_address_space_open(&a->space, a->archive, a->stream, 1, err);
    if (rc)
        return rc;
    a->has_none[EC_INSTANCE_PROCESS] = !ec_address_space_process_count(a->space);
    a->has_none[EC_INSTANCE_THREAD] = !ec_address_space_thread_count(a->space);
    if (a->has_none[EC_INSTANCE_PROCESS]) {
        ec_address_space_close(a->space);
        a->space = NULL;
        rc = ec_address_space_open_run(&a->space, a->archive, a->stream, err);
    }
    if (!rc && (a->has_none[0] || a->has_none[1]) && !a->instances)
        rc = ec_instances_create(&a->instances, a->archive, err);
    for (size_t i = 0; !rc && i < sizeof KINDS / sizeof *KINDS; i++)
        if (a->has_none[KINDS[i]]) /* from now on they are in memory */
            rc = ec_instances_space(a->instances, KINDS[i], a->stream->row.host, a->stream->id,
                                    a->stream->row.begin_utc_ns, &a->others[KINDS[i]], err);
    return rc;
}

static int sum_stream(ec_activity *a, ea_err *err) {
    if (a->kind == EC_ACTIVITY_MISSED_STACKS) {
        int rc = ec_stack_query_missed(a->archive, a->stream, a->from_utc_ns, a->to_utc_ns, add_missed_row, a, err);
        return !rc && a->is_short ? ea_fail(err, EA_ENOMEM, "sum events up") : rc;
    }
    if (a->kind == EC_ACTIVITY_STACKS)
        return ec_stack_query_sums(a->archive, a->stream, a->from_utc_ns, a->to_utc_ns, add_stack_row, a, err);
    ec_event_cursor_event e;
    int rc = open_processes(a, err);
    if (!rc)
        rc = ec_sched_create(&a->sched, 0, err);
    if (!rc && (a->kind == EC_ACTIVITY_COUNTERS || a->kind == EC_ACTIVITY_COUNTER_PROBLEMS))
        rc = ec_counter_names_open(&a->names, a->archive, a->stream, err);
    if (!rc && (a->kind == EC_ACTIVITY_CODE_COUNTERS || a->places))
        rc = ec_methods_open(&a->methods, a->archive, a->stream, NULL, NULL, err);
    /* Read from the beginning: what begins before the range may end in it. Read threads to the end: the event that ends
     * a slice says what the thread did at the range's end. */
    if (!rc)
        rc = ec_event_cursor_open(
            &a->cursor, a->archive,
            &(ec_event_cursor_options){.stream = a->stream,
                                       .from_utc_ns = INT64_MIN,
                                       .to_utc_ns = ec_activity_reads_on(a->kind) ? INT64_MAX : a->to_utc_ns,
                                       .plan = ec_activity_plan_class,
                                       .arg = a,
                                       .wants_gaps = 1},
            err);
    while (!rc && (rc = ec_event_cursor_next(a->cursor, &e, err)) == 1) {
        rc = ec_activity_event(a, &e);
        if (rc)
            rc = ea_fail(err, rc,
                         rc == EA_ELIMIT ? "sum events up: more than 1,048,576 rows; narrow the time range"
                                         : "sum events up");
    }
    if (!rc && (rc = ec_activity_end_events(a, a->stream->row.end_utc_ns)))
        rc = ea_fail(err, rc, "sum events up");
    if (!rc && (a->is_short || ec_sched_is_short(a->sched)))
        rc = ea_fail(err, EA_ENOMEM, "sum events up");
    end_activity_stream(a);
    if (a->instances) /* of one run at a time: there may be many machines */
        ec_instances_forget(a->instances, a->stream->row.host, a->stream->id);
    return rc;
}

int ec_activity_run(ec_activity **ret, ec_archive *archive, enum ec_activity_kind kind, const char *host,
                    int64_t from_utc_ns, int64_t to_utc_ns, int64_t every_ns, const ec_profile_namer *namer,
                    ea_err *err) {
    size_t count = 0;
    const ec_archive_stream *streams = NULL;
    ec_activity *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "sum events up");
    a->kind = kind;
    a->archive = archive;
    a->from_utc_ns = from_utc_ns;
    a->to_utc_ns = to_utc_ns;
    a->every_ns = every_ns;
    ea_arena_init(&a->arena, 0);
    ea_bytes_map_init(&a->kernel_network, 0);
    ea_bytes_map_init(&a->runtimes, 0);
    ea_bytes_map_init(&a->texts, 0);
    ea_bytes_map_init(&a->index, 0);
    ec_request_tracker_init(&a->requests);
    ec_sample_sources_init(&a->sources);
    ea_text_init(&a->scratch);
    a->cpus = calloc(EC_ACTIVITY_CPUS, sizeof *a->cpus);
    int rc = a->cpus && (!ec_activity_names_functions(kind) || !ec_merge_create(&a->places, 0, namer != NULL))
                 ? 0
                 : ea_fail(err, EA_ENOMEM, "sum events up");
    if (!rc) {
        ec_activity_forget(a);
        rc = ec_archive_streams(archive, &streams, &count, err);
    }
    for (size_t i = 0; !rc && i < count; i++) {
        const ec_index_query_row *row_of = &streams[i].row;
        if ((host && strcmp(host, row_of->host) != 0) || row_of->end_utc_ns < from_utc_ns ||
            row_of->begin_utc_ns >= to_utc_ns)
            continue;
        a->stream = &streams[i];
        rc = sum_stream(a, err);
    }
    if (!rc && a->places && (rc = ec_activity_name_functions(a, namer)))
        rc = ea_fail(err, rc, "sum events up");
    if (kind == EC_ACTIVITY_NETWORK_USAGE)
        ec_activity_drop_doubles(a);
    if (rc) {
        ec_activity_destroy(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void ec_activity_destroy(ec_activity *a) {
    if (!a)
        return;
    if (a->cpus)
        end_activity_stream(a);
    ec_merge_destroy(a->places);
    ec_instances_destroy(a->instances);
    ea_bytes_map_deinit(&a->kernel_network);
    ea_bytes_map_deinit(&a->runtimes);
    ea_bytes_map_deinit(&a->texts);
    ea_bytes_map_deinit(&a->index);
    ec_request_tracker_deinit(&a->requests);
    ec_sample_sources_deinit(&a->sources);
    ea_text_deinit(&a->scratch);
    ea_arena_deinit(&a->arena);
    free(a->rows);
    free(a->by_hash);
    free(a->cpus);
    free(a);
}
