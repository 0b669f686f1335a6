/* proto/relog/rewrite.h: fields that take numbers, texts, GUIDs and times; members of headers of each form; what a rule
 * cannot set. */
#include "proto/relog/rewrite.h"
#include "tests/unit/machine_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TIME = 5000000, FREQUENCY = 10000000, PERFINFO_SAMPLE = 46, SAMPLE_HOOK = 0x0f2e };

static const ea_clock CLOCK = {
    .type = EA_CLOCK_QPC, .frequency = FREQUENCY, .base_raw = 1000000, .base_utc_ns = 1700000000000000000};

typedef struct world {
    ea_registry *registry;
    ea_rewrite *x;
    ea_err err;
} world;

static int make_world(void **state) {
    world *w = calloc(1, sizeof *w);
    *state = w;
    return ea_registry_create(&w->registry, 0, &w->err);
}

static int free_world(void **state) {
    world *w = *state;
    ea_rewrite_destroy(w->x);
    ea_registry_destroy(w->registry);
    free(w);
    return 0;
}

/* Rules, up to a NULL. The result of making them. */
static int make(world *w, const char *first, ...) {
    ea_strings rules = {.count = 0};
    ea_lang_classes classes = {.registry = w->registry};
    va_list more;
    va_start(more, first);
    for (const char *rule = first; rule; rule = va_arg(more, const char *))
        rules.items[rules.count++] = rule;
    va_end(more);
    ea_rewrite_destroy(w->x);
    w->x = NULL;
    w->err = (ea_err){0};
    int rc = ea_rewrite_create(&w->x, &rules, &classes, &w->err);
    ea_lang_classes_deinit(&classes);
    return rc ? rc : ea_rewrite_begin(w->x, &CLOCK, &w->err);
}

static void must_make(world *w, const char *rule) {
    if (make(w, rule, NULL))
        fail_msg("%s: %s", rule, w->err.message);
}

static const ea_class *class_of(world *w, const ea_record *r) {
    return ea_registry_find(w->registry, r);
}

static int apply(world *w, const ea_record *r, ea_record *ret) {
    const ea_class *c = class_of(w, r);
    int rc = ea_rewrite_note(w->x, r, c, &w->err);
    return rc ? rc : ea_rewrite_apply(w->x, r, c, ret, &w->err);
}

static uint64_t number(world *w, const ea_record *r, const char *field) {
    uint64_t n = 0;
    assert_int_equal(ea_event_u64(class_of(w, r), r, field, &n), 1);
    return n;
}

static void check_text(world *w, const ea_record *r, const char *field, const char *wanted) {
    ea_text t;
    ea_text_init(&t);
    assert_int_equal(ea_event_text(class_of(w, r), r, field, &t), 1);
    if (t.len_bytes != strlen(wanted) || (t.len_bytes && memcmp(t.data, wanted, t.len_bytes) != 0))
        fail_msg("%s is %.*s, expected %s", field, (int)t.len_bytes, t.data, wanted);
    ea_text_deinit(&t);
}

static const ea_record *sample(made_record *r) {
    static const ea_guid PERF_INFO =
        EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc);
    begin_record(r, 0x3d6fa8d0, PERFINFO_SAMPLE, 2, TIME);
    r->record.provider = PERF_INFO;
    r->record.header_type = EA_HEADER_PERFINFO64;
    r->record.hook_id = SAMPLE_HOOK;
    r->record.header_word = 2;
    put64(r, 0x7ff700001000);
    put32(r, 4242);
    put32(r, 1);
    return end_record(r);
}

static void fields_take_values(void **state) {
    world *w = *state;
    made_record r;
    ea_record got;
    const ea_record *start = process_record(&r, OP_START, TIME, 4712, 4, 0x800, "shell.exe", "shell.exe /n");
    assert_int_equal(make(w, "Process/Start: CommandLine = \"a longer line than before \xe4\xb8\xad\"",
                          "Process/*: ParentId = ProcessId + 1", "Process/Start: ImageFileName=\"\"", NULL),
                     0);
    assert_int_equal(apply(w, start, &got), 1);
    check_text(w, &got, "CommandLine", "a longer line than before \xe4\xb8\xad");
    check_text(w, &got, "ImageFileName", "");
    assert_int_equal(number(w, &got, "ParentId"), 4713);
    assert_int_equal(number(w, &got, "ProcessId"), 4712);
    assert_int_equal(number(w, &got, "UniqueProcessKey"), 0x800);
    assert_int_equal(got.header_type, EA_HEADER_SYSTEM64);
    assert_int_equal(ea_rewrite_count(w->x)->values, 3);
    /* of another class: as it was */
    assert_int_equal(apply(w, thread_record(&r, OP_START, TIME, 4, 8, 0x7000, 1), &got), 0);
    assert_ptr_equal(got.payload, r.payload);
    assert_int_equal(ea_rewrite_check(w->x, &w->err), 0);
}

static void bytes_after_the_last_field_stay(void **state) {
    world *w = *state;
    made_record r;
    ea_record got;
    (void)process_record(&r, OP_START, TIME, 4712, 4, 0x800, "shell.exe", "shell.exe /n");
    put32(&r, 0x01020304);
    must_make(w, "Process/Start: ImageFileName = \"x\"");
    assert_int_equal(apply(w, end_record(&r), &got), 1);
    assert_int_equal(got.payload_bytes, r.len - strlen("hell.exe"));
    assert_int_equal(ea_load32(got.payload + got.payload_bytes - 4), 0x01020304);
}

static void state_and_conditions(void **state) {
    world *w = *state;
    made_record r;
    ea_record got;
    must_make(w, "Thread/Start: pid = parent.pid");
    assert_int_equal(apply(w, process_record(&r, OP_START, TIME, 4712, 77, 0x800, "shell.exe", ""), &got), 0);
    (void)thread_record(&r, OP_START, TIME + 1, 4712, 8, 0x7000, 1);
    r.record.pid = 4712;
    assert_int_equal(apply(w, &r.record, &got), 1);
    assert_int_equal(got.pid, 77);
}

static void a_guid_and_a_time(void **state) {
    world *w = *state;
    static const ea_guid WANTED = EA_GUID(0x01020304, 0x0506, 0x0708, 9, 10, 11, 12, 13, 14, 15, 16);
    static const ea_guid PERF_INFO =
        EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc);
    static const ea_guid IMAGE_ID = EA_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde);
    made_record r;
    ea_record got;
    begin_record(&r, 0xb3e675d7, 36, 2, TIME); /* ImageID/DbgID_RSDS */
    r.record.provider = IMAGE_ID;
    put64(&r, 0x400000);
    put32(&r, 4712);
    put64(&r, 0);
    put64(&r, 0);
    put32(&r, 1);
    put_ansi(&r, "a.pdb");
    must_make(w, "ImageID/DbgID_RSDS: GuidSig = \"{01020304-0506-0708-090a-0b0c0d0e0f10}\"");
    assert_int_equal(apply(w, end_record(&r), &got), 1);
    assert_memory_equal(got.payload + 12, &WANTED, sizeof WANTED);
    /* ticks are shown, and set, as times */
    begin_record(&r, 0x3d6fa8d0, 68, 2, TIME); /* PerfInfo/DPC */
    r.record.provider = PERF_INFO;
    put64(&r, TIME - 300);
    put64(&r, 0xfffff80000001000);
    must_make(w, "PerfInfo/DPC: InitialTime = timestamp - 20000");
    assert_int_equal(apply(w, end_record(&r), &got), 1);
    assert_int_equal(ea_load64(got.payload), TIME - 200);
    must_make(w, "PerfInfo/DPC: time = InitialTime");
    assert_int_equal(apply(w, end_record(&r), &got), 1);
    assert_int_equal(got.time_raw, TIME - 300);
}

static void headers(void **state) {
    world *w = *state;
    made_record r;
    ea_record got;
    const uint8_t payload[4] = {1};
    const ea_record event = {.provider = {{9, 9}},
                             .id = 77,
                             .version = 1,
                             .pointer_size = 8,
                             .time_raw = TIME,
                             .pid = 5,
                             .tid = 6,
                             .cpu = 1,
                             .header_type = EA_HEADER_EVENT64,
                             .payload = payload,
                             .payload_bytes = sizeof payload};
    assert_int_equal(make(w, "*: provider = \"{01020304-0506-0708-090a-0b0c0d0e0f10}\"", "*: id = 3000 + id",
                          "*: pid = -1", "*: tid = 8", "*: cpu = 300", "*: level = 2", "*: opcode = 9", "*: task = 10",
                          "*: keyword = 0x11", "*: channel = 12", "*: version = 2", "*: time = timestamp + 1000",
                          "*: activity = \"{01020304-0506-0708-090a-0b0c0d0e0f10}\"", NULL),
                     0);
    assert_int_equal(apply(w, &event, &got), 1);
    assert_int_equal(got.provider.bytes[0], 4);
    assert_int_equal(got.activity_id.bytes[0], 4);
    assert_int_equal(got.id, 3077);
    assert_int_equal(got.pid, UINT32_MAX);
    assert_int_equal(got.tid, 8);
    assert_int_equal(got.cpu, 300);
    assert_int_equal(got.level, 2);
    assert_int_equal(got.opcode, 9);
    assert_int_equal(got.task, 10);
    assert_int_equal(got.keyword, 0x11);
    assert_int_equal(got.channel, 12);
    assert_int_equal(got.version, 2);
    assert_int_equal(got.time_raw, TIME + 10);
    assert_ptr_equal(got.payload, payload);
    /* a sample's header has no process: it becomes a classic one */
    must_make(w, "PerfInfo/SampleProf: pid = ThreadId");
    assert_int_equal(apply(w, sample(&r), &got), 1);
    assert_int_equal(got.pid, 4242);
    assert_int_equal(got.header_type, EA_HEADER_FULL64);
    assert_int_equal(got.header_word, 2);
    assert_int_equal(got.hook_id, 0);
    must_make(w, "PerfInfo/SampleProf: time = timestamp - 100");
    assert_int_equal(apply(w, sample(&r), &got), 1);
    assert_int_equal(got.header_type, EA_HEADER_PERFINFO64);
    must_make(w, "Process/Start: pid = ProcessId");
    assert_int_equal(apply(w, process_record(&r, OP_START, TIME, 4712, 4, 0x800, "a", ""), &got), 1);
    assert_int_equal(got.header_type, EA_HEADER_SYSTEM64);
    must_make(w, "Process/Start: version = 3");
    assert_int_equal(apply(w, &r.record, &got), 1);
    assert_int_equal(got.header_type, EA_HEADER_FULL64);
    assert_int_equal(got.header_word, 3);
}

static void what_cannot_be_set(void **state) {
    world *w = *state;
    made_record r;
    ea_record got;

    static const struct {
        const char *rule, *says;
    } CASES[] = {
        {"Process/Start: CommandLine = 5", "expected a text, the expression has a number"},
        {"Process/Start: ParentId = \"x\"", "expected a number, the expression has a text"},
        {"Process/Start: ParentId = 1.5", "expected a whole number"},
        {"Process/Start: ParentId = 0x100000000", "ParentId"},
        {"Process/Start: ImageFileName = \"\xe4\xb8\xad\"", "ImageFileName"},
        {"Process/Start: UserSID = \"S-1-5-18\"", "cannot be set"},
        {"Process/Start: cpu = 65536", "65536 is no cpu"},
        {"Process/Start: pid = -2", "-2 is no pid"},
        {"Process/Start: provider = \"x\"", "expected the text of a GUID"},
        {"Process/Start: id = 5", "no place for id"},
    };

    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        must_make(w, CASES[i].rule);
        int rc = apply(w, process_record(&r, OP_START, TIME, 4712, 4, 0x800, "a", "b"), &got);
        if (rc >= 0 || !strstr(w->err.message, CASES[i].says))
            fail_msg("%s: %d, %s", CASES[i].rule, rc, w->err.message);
        w->err = (ea_err){0};
    }
    must_make(w, "Process/Start: NoSuch = 5");
    assert_int_equal(apply(w, process_record(&r, OP_START, TIME, 4712, 4, 0x800, "a", "b"), &got), 0);
    assert_int_equal(ea_rewrite_check(w->x, &w->err), EA_ENOTFOUND);
    /* the record ends before the field */
    must_make(w, "Process/Start: CommandLine = \"x\"");
    (void)process_record(&r, OP_START, TIME, 4712, 4, 0x800, "a", "b");
    r.record.payload_bytes = 20;
    assert_int_equal(apply(w, &r.record, &got), 0);
    assert_int_equal(ea_rewrite_count(w->x)->absent, 1);
    assert_int_equal(ea_rewrite_check(w->x, &w->err), 0);
    static const char *const MISTAKES[] = {"",
                                           "Process/Start",
                                           "Process/Start: x",
                                           "Process/Start: = 5",
                                           ": x = 5",
                                           "Process/Start: x =",
                                           "Process/Start: ParentId = NoSuch",
                                           "Process/Start: ParentId = 5); exit(",
                                           "Process/Start: ParentId = (5",
                                           "No/Such: ParentId = 5"};
    for (size_t i = 0; i < sizeof MISTAKES / sizeof *MISTAKES; i++)
        if (make(w, MISTAKES[i], NULL) != EA_EUSAGE)
            fail_msg("%s was taken", MISTAKES[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fields_take_values, make_world, free_world),
        cmocka_unit_test_setup_teardown(bytes_after_the_last_field_stay, make_world, free_world),
        cmocka_unit_test_setup_teardown(state_and_conditions, make_world, free_world),
        cmocka_unit_test_setup_teardown(a_guid_and_a_time, make_world, free_world),
        cmocka_unit_test_setup_teardown(headers, make_world, free_world),
        cmocka_unit_test_setup_teardown(what_cannot_be_set, make_world, free_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
