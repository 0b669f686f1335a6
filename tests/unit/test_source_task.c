/* Source tasks: a source is read to its end, one that fails is tried again after a pause, a request to stop ends a
 * pause and a reading at once, and a new configuration leaves what it does not change as it is. */
#include "tests/unit/agent_kit.h"

#include "service/core/config_snapshot.h"
#include "service/core/source_task.h"
#include "service/eventlog/channel_api.h"

typedef struct rig {
    ea_source_tasks tasks;
    ea_config_snapshot *snapshot;
    ea_spool *spool;
    ea_counters counters;
} rig;

static int setup(void **state) {
    int rc = scratch_make(state);
    ea_err err;
    if (!rc)
        make_certificate();
    return rc ? rc : ea_log_open(&(ea_log_options){.quiet = 1}, &err);
}

static int teardown(void **state) {
    ea_log_close();
    return scratch_clear(state);
}

static void read_snapshot(ea_config_snapshot **ret, const char *labels, const char *sources) {
    ea_err err;
    must(ea_config_snapshot_read(ret, make_config(labels, sources), &err), &err);
}

/* sources: of the configuration, the list's text. */
static void rig_open(rig *g, int64_t retry_ns, const char *sources) {
    ea_err err;
    memset(g, 0, sizeof *g);
    must(ea_source_tasks_init(&g->tasks, retry_ns, &err), &err);
    must(ea_spool_open(&g->spool, scratch_path("spool"),
                       &(ea_spool_options){.sync = EA_SPOOL_SYNC_NEVER, .live = 1, .counters = &g->counters}, &err),
         &err);
    g->tasks.spool = g->spool;
    read_snapshot(&g->snapshot, "", sources);
}

static ea_source_task *start(rig *g, size_t index) {
    const ea_file_source_config *sources = g->snapshot->c.sources.items;
    ea_err err;
    must(ea_source_task_start(&g->tasks, g->snapshot, &sources[index], NULL, &err), &err);
    return g->tasks.first;
}

static void rig_close(rig *g) {
    ea_err err;
    ea_source_tasks_deinit(&g->tasks);
    assert_int_equal(g->snapshot->users, 1); /* each task released it */
    ea_config_snapshot_release(g->snapshot);
    must(ea_spool_close(g->spool, &err), &err);
}

static enum ea_source_state state_of(ea_source_task *t) {
    ea_mutex_lock(t->tasks->lock);
    enum ea_source_state state = t->state;
    ea_mutex_unlock(t->tasks->lock);
    return state;
}

static int has_error(ea_source_task *t) {
    ea_mutex_lock(t->tasks->lock);
    int has = t->error.text[0] != 0;
    ea_mutex_unlock(t->tasks->lock);
    return has;
}

#define WAIT_FOR(condition)                                                                                            \
    do {                                                                                                               \
        for (int tries_ = 0; !(condition); tries_++) {                                                                 \
            if (tries_ == 4000)                                                                                        \
                fail_msg("20 s without %s", #condition);                                                               \
            ea_sleep_ns(5 * MS);                                                                                       \
        }                                                                                                              \
    } while (0)

static char *source_list(char *out, size_t size, const char *name, const char *file, const char *more) {
    size_t n = strlen(out);
    snprintf(out + n, size - n, "\n  - {name: %s, files: [%s]%s}", name, scratch_path(file), more);
    return out;
}

static int count_pipeline(void *arg, const char *name, ea_pipeline *pipeline) {
    (void)pipeline;
    assert_string_equal(name, "source one");
    ++*(int *)arg;
    return 0;
}

/* ---- tests ---- */

static void a_source_is_read_to_its_end(void **state) {
    (void)state;
    rig g;
    char list[512] = "";
    ea_spool_status spool;
    int pipelines = 0;
    make_trace("one.etl", 230);
    rig_open(&g, 5000 * MS, source_list(list, sizeof list, "one", "one.etl", ""));
    assert_false(ea_source_tasks_have(&g.tasks, "one", 0));
    ea_source_task *t = start(&g, 0);
    assert_true(ea_source_tasks_have(&g.tasks, "one", 0));
    assert_false(ea_source_tasks_have(&g.tasks, "one", 1)); /* that is a session's name */
    WAIT_FOR(state_of(t) == EA_SOURCE_READ && atomic_load(&t->over));
    assert_true(ea_source_task_is_in_spool(t));
    assert_false(has_error(t));
    assert_int_equal(ea_counter_get(t->counters, EA_COUNT_events_spooled), 231); /* and the header's event */
    ea_spool_get_status(g.spool, &spool);
    assert_true(spool.waiting >= 5);
    ea_source_tasks_each_pipeline(&g.tasks, count_pipeline, &pipelines);
    assert_int_equal(pipelines, 1);
    assert_int_equal(ea_source_tasks_end_streams(&g.tasks, 0), 1); /* nothing is acknowledged: its end waits */
    ea_source_task_stop(t);
    assert_null(g.tasks.first);
    rig_close(&g);
}

static void a_failing_source_is_tried_again_after_a_pause(void **state) {
    (void)state;
    rig g;
    char list[512] = "";
    rig_open(&g, 500 * MS, source_list(list, sizeof list, "late", "late.etl", ""));
    ea_source_task *t = start(&g, 0);
    WAIT_FOR(has_error(t));
    int64_t failed_ns = ea_monotonic_ns();
    assert_int_equal(state_of(t), EA_SOURCE_WAITING);
    assert_non_null(strstr(t->error.text, "late.etl"));
    make_trace("late.etl", 10);
    WAIT_FOR(state_of(t) == EA_SOURCE_READ);
    assert_true(ea_monotonic_ns() - failed_ns >= 400 * MS);
    assert_false(has_error(t));
    rig_close(&g);
}

static void stops_within(ea_source_task *t, int64_t ns) {
    int64_t begin_ns = ea_monotonic_ns();
    ea_source_task_request_stop(t);
    WAIT_FOR(atomic_load(&t->over));
    assert_true(ea_monotonic_ns() - begin_ns < ns);
}

static void a_request_to_stop_ends_the_pause(void **state) {
    (void)state;
    rig g;
    char list[512] = "";
    rig_open(&g, 3600000 * MS, source_list(list, sizeof list, "late", "late.etl", ""));
    ea_source_task *t = start(&g, 0);
    WAIT_FOR(has_error(t));
    stops_within(t, 5000 * MS);
    assert_false(ea_source_task_is_in_spool(t));
    rig_close(&g);
}

static void a_request_to_stop_ends_the_reading(void **state) {
    (void)state;
    rig g;
    char list[512] = "";
    make_slow_trace("slow.etl");
    rig_open(&g, 5000 * MS, source_list(list, sizeof list, "slow", "slow.etl", ", speed: 1"));
    ea_source_task *t = start(&g, 0);
    WAIT_FOR(state_of(t) == EA_SOURCE_READING);
    stops_within(t, 5000 * MS);
    assert_int_equal(state_of(t), EA_SOURCE_WAITING);
    assert_null(t->feed);
    assert_false(ea_source_task_is_in_spool(t)); /* it did not come to its end */
    assert_int_equal(ea_source_tasks_end_streams(&g.tasks, 1), 0);
    rig_close(&g);
}

static void labels_of_a_later_snapshot_are_kept(void **state) {
    (void)state;
    rig g;
    char list[512] = "";
    ea_config_snapshot *later;
    make_slow_trace("slow.etl");
    rig_open(&g, 5000 * MS, source_list(list, sizeof list, "slow", "slow.etl", ", speed: 1"));
    ea_source_task *t = start(&g, 0);
    assert_int_equal(g.snapshot->users, 3); /* the rig; the task, for its source and for its labels */
    read_snapshot(&later, "site: north", list);
    ea_source_task_relabel(t, later);
    assert_int_equal(g.snapshot->users, 2);
    assert_int_equal(later->users, 2);
    ea_source_task_stop(t);
    assert_int_equal(later->users, 1);
    ea_config_snapshot_release(later);
    rig_close(&g);
}

/* ---- another configuration ---- */

static void only_what_differs_begins_anew(void **state) {
    (void)state;
    ea_config_snapshot *a, *b;
    char one[512] = "", two[512] = "";
    source_list(one, sizeof one, "same", "a.etl", "");
    source_list(one, sizeof one, "other", "b.etl", "");
    source_list(one, sizeof one, "gone", "c.etl", "");
    source_list(two, sizeof two, "other", "b.etl", ", speed: 2");
    source_list(two, sizeof two, "same", "a.etl", "");
    read_snapshot(&a, "site: north", one);
    read_snapshot(&b, "site: south", two);
    const ea_file_source_config *sources = a->c.sources.items;
    assert_true(ea_config_snapshot_has_same_source(b, &sources[0], NULL));
    assert_false(ea_config_snapshot_has_same_source(b, &sources[1], NULL));
    assert_false(ea_config_snapshot_has_same_source(b, &sources[2], NULL));
    ea_config_changes changes = ea_config_snapshot_compare(a, b);
    assert_true(changes.labels && !changes.sources && !changes.shipping);
    changes = ea_config_snapshot_compare(a, a);
    assert_false(changes.labels || changes.sources || changes.shipping);
    b->c.batching.batch_events++;
    assert_true(ea_config_snapshot_compare(a, b).sources);
    b->c.batching.batch_events--;
    b->c.shipping.request_bytes++;
    changes = ea_config_snapshot_compare(a, b);
    assert_true(changes.shipping && changes.sources);
    ea_config_snapshot_release(a);
    ea_config_snapshot_release(b);
}

static void a_reload_keeps_an_unchanged_source(void **state) {
    (void)state;
    test_agent a;
    char before[512] = "", after[512] = "";
    make_slow_trace("slow.etl");
    make_slow_trace("slower.etl");
    source_list(before, sizeof before, "kept", "slow.etl", ", speed: 1");
    source_list(before, sizeof before, "changed", "slower.etl", ", speed: 1");
    source_list(after, sizeof after, "kept", "slow.etl", ", speed: 1");
    source_list(after, sizeof after, "changed", "slower.etl", ", speed: 2");
    source_list(after, sizeof after, "new", "slower.etl", ", speed: 3");
    agent_start(&a, make_config("", before));
    agent_wait_for(&a, "\"kept\", \"state\": \"reading\"", 0);
    agent_wait_for(&a, "\"changed\", \"state\": \"reading\"", 0);
    make_config("", after);
    atomic_store(&a.control.reload, 1);
    agent_wait_for(&a, "configuration read again: 1 source goes on, 1 ended, 2 begin\n", 1);
    agent_wait_for(&a, "\"reloads\": 1", 0);
    agent_wait_for(&a, "\"new\", \"state\": \"reading\"", 0);
    agent_wait_for(&a, "\"changed\", \"state\": \"reading\"", 0);
    make_config("", "\n  - {nonsense: 1}");
    atomic_store(&a.control.reload, 1);
    agent_wait_for(&a, "the running configuration stays in force\n", 1);
    agent_wait_for(&a, "\"reloads_refused\": 1", 0);
    agent_wait_for(&a, "\"kept\", \"state\": \"reading\"", 0);
    agent_stop(&a);
    agent_free(&a);
}

static void event_logs_need_windows(void **state) {
    rig g;
    size_t runnable = ea_channel_api_of_machine() ? 2 : 1;
    (void)state;
    rig_open(&g, MS, "\n  - {name: logs, eventlog: [Security, System]}\n  - {name: file, files: [trace.etl]}");
    assert_int_equal(ea_config_runnable_sources(&g.snapshot->c), runnable);
    assert_int_equal(ea_config_can_run(g.snapshot->c.sources.items), runnable - 1);
    rig_close(&g);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_source_is_read_to_its_end),         T(a_failing_source_is_tried_again_after_a_pause),
        T(a_request_to_stop_ends_the_pause),    T(a_request_to_stop_ends_the_reading),
        T(labels_of_a_later_snapshot_are_kept), T(only_what_differs_begins_anew),
        T(a_reload_keeps_an_unchanged_source),  T(event_logs_need_windows),
    };
    return cmocka_run_group_tests_name("source_task", tests, NULL, NULL);
}
