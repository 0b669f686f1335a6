/* The trackers under the sums of activity and of stacks: what each role reads of a class, states of threads, requests,
 * sources of samples, and the table of sums. That the answers made of them are right is what
 * tests/e2e/test_activity.py, test_profile.py and the judges compare. */
#include "collector/query/analysis/event_roles.h"
#include "collector/query/analysis/request_tracker.h"
#include "collector/query/analysis/sample_sources.h"
#include "collector/query/analysis/sched_tracker.h"
#include "collector/query/analysis/stack_sums.h"
#include "collector/query/analysis/thread_time.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 4, STATE_WAITING = 5, STATE_READY = 1 };

/* An event of one row: a number for each field of its plan. */
typedef struct made_event {
    ec_event_cursor_event e;
    ea_column columns[EC_EVENT_CURSOR_FIELDS];
    uint32_t values[EC_EVENT_CURSOR_FIELDS];
    ea_clock clock;
} made_event;

static const ec_event_cursor_event *make_event(made_event *m, int64_t time, size_t count, const uint32_t *values) {
    *m = (made_event){.clock = {.frequency = 1000000000}};
    m->e = (ec_event_cursor_event){.time = time, .clock = &m->clock, .tid = UINT32_MAX, .cpu = 3, .fields = m->columns};
    for (size_t i = 0; i < count; i++) {
        m->values[i] = values[i];
        m->columns[i] =
            (ea_column){.count = 1, .width = WIDTH, .stride = WIDTH, .data = (const uint8_t *)&m->values[i]};
    }
    return &m->e;
}

#define EVENT(m, time, ...)                                                                                            \
    make_event(m, time, sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t), (const uint32_t[]){__VA_ARGS__})

static ea_class make_class(const char *name, ea_field *fields, size_t count) {
    for (size_t i = 0; i < count; i++)
        fields[i].span = 1;
    return (ea_class){.name = name,
                      .classic = 1,
                      .pointer_size = 8,
                      .field_count = (uint16_t)count,
                      .top_count = (uint16_t)count,
                      .fields = fields};
}

static void test_roles(void **state) {
    ea_field fields[] = {{.name = "IrpPtr"}, {.name = "TTID"}, {.name = "FileObject"}, {.name = "IoSize"}};
    ea_class c = make_class("FileIo/Read", fields, 4);
    ec_event_cursor_plan plan = {.addresses = -1, .wants_items = 1};
    const char *text = NULL;
    (void)state;
    /* one class, two roles: the reader says which one it wants */
    assert_int_equal(ec_role_of(&c, EC_ROLE_BIT(FILE_BEGIN), EC_EVENT_CURSOR_FIELDS, &plan, &text), EC_ROLE_FILE_BEGIN);
    assert_int_equal(plan.fields[EC_FILE_IRP], 0);
    assert_int_equal(plan.fields[EC_FILE_OBJECT], 2);
    assert_int_equal(plan.fields[2], -1);
    assert_int_equal(plan.wants_items, 1);
    assert_string_equal(text, EC_OPERATION_IN);
    assert_int_equal(
        ec_role_of(&c, EC_ROLE_BIT(FILE_TRANSFER) | EC_ROLE_BIT(SWITCH), EC_EVENT_CURSOR_FIELDS, &plan, NULL),
        EC_ROLE_FILE_TRANSFER);
    assert_int_equal(plan.fields[EC_TRANSFER_SIZE], 3);
    assert_int_equal(plan.fields[EC_TRANSFER_TID], 1);
    assert_int_equal(ec_role_of(&c, EC_ROLE_BIT(FILE_TRANSFER), 1, &plan, NULL), EC_ROLE_FILE_TRANSFER);
    assert_int_equal(plan.fields[EC_TRANSFER_TID], -1); /* more fields than the reader wants */
    assert_int_equal(ec_role_of(&c, EC_ROLE_BIT(SWITCH), EC_EVENT_CURSOR_FIELDS, &plan, &text), EC_ROLE_NONE);
    assert_null(text);
    assert_int_equal(plan.fields[0], -1);
    /* the manifest's provider of network events, by its ids */
    ea_class network = make_class("", fields, 4);
    network.classic = 0;
    network.code = 42;
    network.provider = (ea_guid)EA_GUID(0x7dd42a49, 0x5329, 0x4832, 0x8d, 0xfd, 0x43, 0xd9, 0x79, 0x15, 0x3a, 0x88);
    assert_int_equal(ec_role_of(&network, EC_ROLE_BIT(NETWORK_TRANSFER), EC_EVENT_CURSOR_FIELDS, &plan, &text),
                     EC_ROLE_NETWORK_TRANSFER);
    assert_string_equal(text, EC_OPERATION_OUT);
    network.code = 12; /* a connection */
    assert_int_equal(ec_role_of(&network, EC_ROLE_BIT(NETWORK_TRANSFER), EC_EVENT_CURSOR_FIELDS, &plan, &text),
                     EC_ROLE_NONE);
}

static void test_sched(void **state) {
    ec_sched *s = NULL;
    ec_sched_slice slices[3], open;
    made_event m;
    (void)state;
    assert_int_equal(ec_sched_create(&s, 0, NULL), 0);
    assert_int_equal(ec_sched_event(s, NULL, EVENT(&m, 10, 7, 0, 0, 0), EC_ROLE_SWITCH, slices), 0);
    /* 7 waits for reason 6 from 20 on, is ready at 30 and runs at 45 */
    assert_int_equal(ec_sched_event(s, NULL, EVENT(&m, 20, 8, 7, STATE_WAITING, 6), EC_ROLE_SWITCH, slices), 1);
    assert_int_equal(slices[0].state, EC_SCHED_RUNNING);
    assert_int_equal(slices[0].end - slices[0].begin, 10);
    assert_int_equal(ec_sched_event(s, NULL, EVENT(&m, 30, 7), EC_ROLE_READY, slices), 1);
    assert_int_equal(slices[0].state, EC_SCHED_WAITING);
    assert_int_equal(slices[0].reason, 6);
    assert_int_equal(slices[0].waker, 8); /* the thread that runs on the processor of the wake */
    assert_int_equal(ec_sched_event(s, NULL, EVENT(&m, 45, 7, 8, STATE_READY, 0), EC_ROLE_SWITCH, slices), 2);
    assert_int_equal(slices[1].state, EC_SCHED_READY);
    assert_int_equal(slices[1].end - slices[1].begin, 15);
    /* without its fields a switch changes nothing */
    assert_int_equal(ec_sched_event(s, NULL, EVENT(&m, 50, 9, 7), EC_ROLE_SWITCH, slices), 0);
    assert_int_equal(ec_sched_running(s, 3), 7);
    /* the thread that runs ends with its last switch, another one at once */
    assert_int_equal(ec_sched_life_event(s, NULL, EVENT(&m, 60, 7), EC_ROLE_THREAD_END, &open), 0);
    assert_int_equal(ec_sched_life_event(s, NULL, EVENT(&m, 60, 8), EC_ROLE_THREAD_END, &open), 1);
    assert_int_equal(open.state, EC_SCHED_READY);
    assert_int_equal(open.begin, 45);
    assert_int_equal(ec_sched_life_event(s, NULL, EVENT(&m, 61, 7), EC_ROLE_THREAD_BEGIN, &open), 1);
    /* lost events leave no processor's thread known, not even the last one's that there is room for */
    for (uint16_t cpu = 0; cpu < 64; cpu++)
        ec_sched_switch(s, 70, cpu, 0, STATE_READY, 0, 100 + cpu, slices);
    assert_int_equal(ec_sched_running(s, 63), 163);
    ec_sched_lost(s);
    for (uint16_t cpu = 0; cpu < 64; cpu++)
        assert_int_equal(ec_sched_running(s, cpu), UINT32_MAX);
    ec_sched_destroy(s);
}

static unsigned open_kind;

static void note_open(void *arg, const ec_thread_open *o) {
    (void)arg;
    open_kind = o->kind;
}

static int wants_all_threads(void *arg, uint32_t tid, int64_t utc_ns) {
    (void)arg, (void)utc_ns;
    return tid != 9;
}

static void test_thread_time(void **state) {
    ec_thread_time t;
    made_event m;
    ea_clock clock = {.frequency = 1000000000};
    (void)state;
    assert_int_equal(ec_thread_time_init(&t, EC_SCHED_WAITING, wants_all_threads, NULL, NULL), 0);
    t.on_open = note_open;
    ec_thread_time_range(&t, &clock, 25, 1000);
    assert_int_equal(ec_thread_time_switch(&t, NULL, EVENT(&m, 10, 7, 0, 0, 0)), 0);
    assert_int_equal(ec_thread_time_switch(&t, NULL, EVENT(&m, 20, 8, 7, STATE_WAITING, 0)), 0);
    ec_thread_time_ready(&t, NULL, EVENT(&m, 100, 7));
    assert_int_equal(ec_thread_time_is_open(&t, 100), 1); /* it has not continued */
    /* of 20 to 100 the part in the range, where it continues */
    assert_int_equal(ec_thread_time_switch(&t, NULL, EVENT(&m, 120, 7, 8, STATE_WAITING, 0)), 75);
    assert_int_equal(t.unfinished, 0);
    ec_thread_time_lost(&t, 150, EC_OPEN_AT_LOSS); /* 8 waits since 120 */
    assert_int_equal(t.unfinished, 1);
    assert_int_equal(t.unfinished_ns, 30);
    assert_string_equal(ec_thread_open_name(open_kind), "[waiting when events were lost]");
    assert_int_equal(ec_thread_time_is_open(&t, 200), 0);
    assert_int_equal(ec_thread_time_switch(&t, NULL, EVENT(&m, 300, 7, 9, STATE_WAITING, 0)), 0);
    ec_thread_time_lost(&t, 400, EC_OPEN_AT_END); /* 9 is of a process that was not requested */
    assert_int_equal(t.unfinished, 1);
    /* 7 has waited, was woken, and has not continued */
    assert_int_equal(ec_thread_time_switch(&t, NULL, EVENT(&m, 500, 7, 0, 0, 0)), 0);
    assert_int_equal(ec_thread_time_switch(&t, NULL, EVENT(&m, 510, 0, 7, STATE_WAITING, 0)), 0);
    ec_thread_time_ready(&t, NULL, EVENT(&m, 530, 7));
    ec_thread_time_lost(&t, 600, EC_OPEN_AT_END);
    assert_int_equal(t.unfinished_ns, 50);
    assert_string_equal(ec_thread_open_name(open_kind), "[woken, without a processor until the end of the data]");
    ec_thread_time_deinit(&t);
}

static void test_requests(void **state) {
    ec_request_tracker t;
    ec_request r;
    (void)state;
    ec_request_tracker_init(&t);
    assert_int_equal(ec_request_end(&t, 1, &r), 0);
    for (uint64_t irp = 1; irp <= 3; irp++)
        assert_int_equal(ec_request_begin(&t, irp, &(ec_request){.time = (int64_t)irp * 10, .subject = irp}), 0);
    assert_int_equal(ec_request_begin(&t, 2, &(ec_request){.time = 99, .subject = 5}), 0); /* the IRP is used again */
    assert_int_equal(ec_request_end(&t, 2, &r), 1);
    assert_int_equal(r.time, 99);
    assert_int_equal(r.subject, 5);
    assert_int_equal(ec_request_end(&t, 2, &r), 0);
    for (uint64_t irp = 10; irp < 100000; irp++) { /* places of requests that have ended are used again */
        assert_int_equal(ec_request_begin(&t, irp, &(ec_request){.subject = irp}), 0);
        assert_int_equal(ec_request_end(&t, irp, &r), 1);
        assert_int_equal(r.subject, irp);
    }
    assert_int_equal(t.count, 3);
    assert_int_equal(ec_request_end(&t, 3, &r), 1);
    assert_int_equal(r.time, 30);
    ec_request_tracker_clear(&t);
    assert_int_equal(ec_request_end(&t, 1, &r), 0);
    ec_request_tracker_deinit(&t);
}

static void test_disk_time(void **state) {
    made_event m;
    (void)state;
    assert_int_equal(ec_disk_request_ns(NULL, EVENT(&m, 1000, 1, 400)), 400);
    assert_int_equal(ec_event_span_ns(EVENT(&m, 1000, 1), 30, 20), 0);
}

static const ec_event_cursor_event *interval_event(made_event *m, uint32_t source, uint32_t length, const void *name,
                                                   uint32_t name_bytes) {
    (void)EVENT(m, 1, source, length, 0);
    m->columns[EC_INTERVAL_NAME] =
        (ea_column){.count = name_bytes != 0, .width = name_bytes, .stride = name_bytes, .data = (const uint8_t *)name};
    return &m->e;
}

static void test_sources(void **state) {
    static const uint8_t MISSES[] = {'M', 0, 'i', 0, 's', 0, 's', 0, 0, 0};
    static const ea_map_entry ENTRIES[] = {{.value = 2, .name = "TotalIssues"}, {.value = 10, .name = "CacheMisses"}};
    static const ea_enum MAP = {.entries = ENTRIES, .count = 2};
    ea_field fields[] = {{.name = "ThreadId"}, {.name = "ProfileSource", .map = &MAP}};
    ea_class c = make_class("PerfInfo/PmcCounterProf", fields, 2);
    ec_sample_sources s;
    made_event m;
    uint64_t source = 0;
    (void)state;
    ec_sample_sources_init(&s);
    assert_int_equal(ec_sample_source_find(&s, "10", NULL, &source), 0); /* no sample has come */
    assert_int_equal(ec_sample_source_find(&s, "10", &c, &source), 1);
    assert_int_equal(source, 10);
    assert_int_equal(ec_sample_source_find(&s, "cachemisses", &c, &source), 1);
    assert_int_equal(source, 10);
    assert_int_equal(ec_sample_source_find(&s, "CacheMiss", &c, &source), 0);
    assert_string_equal(ec_sample_source_name(&s, 2, &c), "TotalIssues");
    assert_null(ec_sample_source_name(&s, 3, &c));
    assert_int_equal(ec_sample_sources_add(&s, NULL, interval_event(&m, 0, 10000, MISSES, 0)), 0);
    assert_int_equal(s.timer, 10000);
    assert_int_equal(ec_sample_sources_add(&s, NULL, interval_event(&m, 2, 65536, MISSES, sizeof MISSES)), 0);
    assert_int_equal(ec_sample_interval(&s, 2), 65536);
    assert_int_equal(ec_sample_interval(&s, 3), 0);
    assert_string_equal(ec_sample_source_name(&s, 2, &c), "Miss"); /* what events say takes precedence */
    assert_int_equal(ec_sample_source_find(&s, "MISS", NULL, &source), 1);
    assert_int_equal(source, 2);
    assert_int_equal(ec_sample_source_find(&s, "MISSE", NULL, &source), 0);
    ec_sample_sources_clear(&s);
    assert_int_equal(ec_sample_interval(&s, 2), 0);
    assert_int_equal(s.timer, 0);
    assert_string_equal(ec_sample_source_name(&s, 2, &c), "TotalIssues");
    ec_sample_sources_deinit(&s);
}

static void test_sums(void **state) {
    enum { STACKS = 20000 };

    ec_stack_sums s = {.count = 0};
    (void)state;
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 0; i < STACKS; i++)
            assert_int_equal(ec_stack_sums_add(&s, (ec_stack_pair){.user = i,
                                                                   .tid = i % 7,
                                                                   .first_utc_ns = 100 - round,
                                                                   .last_utc_ns = 100 + round,
                                                                   .weight = i,
                                                                   .events = 1}),
                             0);
    assert_int_equal(ec_stack_sums_flush(&s), 0);
    assert_int_equal(s.count, STACKS);
    for (uint32_t i = 0; i < STACKS; i++) {
        assert_int_equal(s.pairs[i].user, i);
        assert_int_equal(s.pairs[i].events, 3);
        assert_int_equal(s.pairs[i].weight, 3 * i);
        assert_int_equal(s.pairs[i].first_utc_ns, 98);
        assert_int_equal(s.pairs[i].last_utc_ns, 102);
    }
    ec_stack_sums_deinit(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roles),    cmocka_unit_test(test_sched),     cmocka_unit_test(test_thread_time),
        cmocka_unit_test(test_requests), cmocka_unit_test(test_disk_time), cmocka_unit_test(test_sources),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
