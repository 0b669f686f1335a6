/* Filters of the configuration, event by event: conditions on values that an event lacks; the values that sampling
 * keeps are the documented ones; limits by second, with more values than have a place, and a clock that was set back;
 * each kind of field is replaced, and what cannot be replaced ends the event; the machine's state is passed over unless
 * it is named; a key for hashes has a size; the hash of filters says when they differ. */
#include "service/core/filter.h"

#include "tests/unit/machine_records.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
static const int64_t SECOND = 10000000; /* of the clock */

typedef struct world {
    ea_registry *registry;
    ea_event_filters *filters;
    ea_clock clock;
    ea_filter_problem problem;
} world;

static int make_world(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(ea_registry_create(&w->registry, 0, NULL), 0);
    w->clock =
        (ea_clock){.type = EA_CLOCK_QPC, .frequency = (uint64_t)SECOND, .base_utc_ns = INT64_C(1600000000000000000)};
    *state = w;
    return 0;
}

static int free_world(void **state) {
    world *w = *state;
    ea_event_filters_destroy(w->filters);
    ea_registry_destroy(w->registry);
    free(w);
    return 0;
}

static int create(world *w, ea_filter_config *configs, size_t count) {
    ea_err err = {0};
    ea_event_filters_destroy(w->filters);
    w->filters = NULL;
    ea_tables all = {configs, count};
    int rc = ea_event_filters_create(&w->filters, &all, NULL, 1, &w->problem, &err);
    if (!rc)
        assert_int_equal(ea_event_filters_use_machine(w->filters, NULL, &err), 0);
    return rc;
}

static void use(world *w, ea_filter_config config) {
    if (create(w, &config, 1))
        fail_msg("%s: %s", w->problem.key, w->problem.message);
}

#define CLASSES(...)                                                                                                   \
    { .items = {__VA_ARGS__}, .count = sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *) }

static enum ea_counter judge(world *w, const ea_record *r) {
    enum ea_counter place;
    ea_err err = {0};
    const ea_class *c = ea_registry_find(w->registry, r);
    const ea_record *redacted = r;
    assert_true(ea_event_filters_redact(w->filters, &redacted, c) >= 0);
    assert_int_equal(ea_event_filters_judge(w->filters, r, redacted, c, &w->clock, &place, &err), 0);
    return place;
}

/* A context switch; version 2 has no wait time, which later ones have. */
static enum ea_counter switch_to(world *w, int64_t time, uint32_t new_thread, uint32_t old_thread, unsigned bytes) {
    uint8_t payload[24] = {0};
    memcpy(payload, &new_thread, 4);
    memcpy(payload + 4, &old_thread, 4);
    ea_record r = {.provider = THREAD,
                   .flags = EA_FLAG_CLASSIC_HEADER,
                   .opcode = 36,
                   .version = 2,
                   .pointer_size = 8,
                   .pid = UINT32_MAX,
                   .tid = UINT32_MAX,
                   .time_raw = time,
                   .payload = payload,
                   .payload_bytes = (uint16_t)bytes};
    return judge(w, &r);
}

/* ---- conditions ---- */

static void conditions(void **state) {
    world *w = *state;
    use(w, (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .where = "OldThreadId > 5 # busy"});
    assert_int_equal(switch_to(w, 1, 1, 6, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 1, 1, 5, 24), EA_COUNT_events_filtered);
    assert_int_equal(switch_to(w, 1, 1, 6, 4), EA_COUNT_events_filtered); /* it lacks the value */
    use(w, (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .drop = "OldThreadId > 5"});
    assert_int_equal(switch_to(w, 1, 1, 6, 24), EA_COUNT_events_filtered);
    assert_int_equal(switch_to(w, 1, 1, 5, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 1, 1, 6, 4), EA_COUNT_events_batched);
    use(w, (ea_filter_config){.classes = CLASSES("DiskIo/*"), .drop = "1"});
    assert_int_equal(switch_to(w, 1, 1, 6, 24), EA_COUNT_events_batched);
}

/* The first filter that drops the event decides. */
static void several(void **state) {
    world *w = *state;
    ea_filter_config configs[] = {{.classes = CLASSES("Thread/*"), .where = "NewThreadId != 7"},
                                  {.classes = CLASSES("*"), .limit = "1/s"},
                                  {.classes = CLASSES("Thread/CSwitch"), .drop = "NewThreadId == 8"}};
    assert_int_equal(create(w, configs, 3), 0);
    assert_int_equal(switch_to(w, 1, 7, 0, 24), EA_COUNT_events_filtered);
    assert_int_equal(switch_to(w, 1, 8, 0, 24), EA_COUNT_events_filtered); /* it took the place of the limit */
    assert_int_equal(switch_to(w, 1, 9, 0, 24), EA_COUNT_events_limited);
}

/* ---- sampling, limits ---- */

static void samples(void **state) {
    world *w = *state;
    use(w, (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .sample = "1/4 by NewThreadId"});
    unsigned kept = 0;
    for (uint32_t tid = 0; tid < 4000; tid++) {
        char text[16];
        uint64_t h = UINT64_C(0xcbf29ce484222325);
        snprintf(text, sizeof text, "%" PRIu32, tid);
        for (const char *s = text; *s; s++)
            h = (h ^ (uint8_t)*s) * UINT64_C(0x100000001b3);
        h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
        h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
        int is_kept = (h ^ h >> 33) % 4 == 0;
        kept += (unsigned)is_kept;
        for (int again = 0; again < 2; again++)
            assert_int_equal(switch_to(w, 1, tid, 0, 24),
                             is_kept ? EA_COUNT_events_batched : EA_COUNT_events_sampled_out);
    }
    assert_in_range(kept, 900, 1100);
    use(w, (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .sample = "1/1000000000 by OldThreadId"});
    assert_int_equal(switch_to(w, 1, 1, 1, 24), EA_COUNT_events_sampled_out);
    assert_int_equal(switch_to(w, 1, 1, 1, 4), EA_COUNT_events_batched); /* it lacks the value */
}

static void limits(void **state) {
    enum { KEYS = 70000, PLACES = 65536 };

    world *w = *state;
    use(w, (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .limit = "2/s per NewThreadId"});
    for (uint32_t tid = 1; tid < 4; tid++)
        for (int i = 0; i < 4; i++)
            assert_int_equal(switch_to(w, 5 * SECOND, tid, 0, 24),
                             i < 2 ? EA_COUNT_events_batched : EA_COUNT_events_limited);
    assert_int_equal(switch_to(w, 4 * SECOND, 1, 0, 24), EA_COUNT_events_limited); /* late: of the second at hand */
    assert_int_equal(switch_to(w, 6 * SECOND, 1, 0, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 500 * SECOND, 1, 0, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 500 * SECOND, 1, 0, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 500 * SECOND, 1, 0, 24), EA_COUNT_events_limited);
    assert_int_equal(switch_to(w, 100 * SECOND, 1, 0, 24), EA_COUNT_events_batched); /* the clock was set back */
    unsigned kept = 0;
    for (uint32_t tid = 0; tid < KEYS; tid++)
        kept += switch_to(w, 600 * SECOND, tid, 0, 24) == EA_COUNT_events_batched;
    assert_in_range(kept, PLACES, PLACES + 2);
    use(w, (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .limit = "3/s"});
    kept = 0;
    for (uint32_t tid = 0; tid < 100; tid++)
        kept += switch_to(w, SECOND, tid, 0, 24) == EA_COUNT_events_batched;
    assert_int_equal(kept, 3);
}

/* Of one process, class and value one event in ten seconds; of more values than have a place all events are kept. */
static void repeats(void **state) {
    enum { KEYS = 70000, PLACES = 65536 };

    world *w = *state;
    use(w, (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .repeat = "10s by NewThreadId"});
    assert_int_equal(switch_to(w, 5 * SECOND, 1, 0, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 6 * SECOND, 2, 0, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 14 * SECOND, 1, 0, 24), EA_COUNT_events_repeated); /* of the period before */
    assert_int_equal(switch_to(w, 15 * SECOND, 1, 0, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 14 * SECOND, 1, 0, 24), EA_COUNT_events_repeated); /* late */
    assert_int_equal(switch_to(w, 16 * SECOND, 2, 0, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 500 * SECOND, 1, 0, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, 501 * SECOND, 1, 0, 24), EA_COUNT_events_repeated);
    assert_int_equal(switch_to(w, 100 * SECOND, 1, 0, 24), EA_COUNT_events_batched); /* the clock was set back */
    assert_int_equal(switch_to(w, 101 * SECOND, 1, 0, 24), EA_COUNT_events_repeated);
    unsigned kept = 0, again = 0;
    for (uint32_t tid = 0; tid < KEYS; tid++)
        kept += switch_to(w, 600 * SECOND, tid, 0, 24) == EA_COUNT_events_batched;
    for (uint32_t tid = 0; tid < KEYS; tid++)
        again += switch_to(w, 601 * SECOND, tid, 0, 24) == EA_COUNT_events_batched;
    assert_int_equal(kept, KEYS);
    assert_int_equal(again, KEYS - PLACES);
    use(w, (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .repeat = "1ms by OldThreadId"});
    assert_int_equal(switch_to(w, SECOND, 1, 1, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, SECOND, 1, 1, 4), EA_COUNT_events_batched); /* it lacks the value */
    assert_int_equal(switch_to(w, SECOND, 1, 1, 4), EA_COUNT_events_batched);
    /* it comes before the limit, so that a repeated event takes no place there */
    use(w, (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .repeat = "1s by NewThreadId", .limit = "2/s"});
    assert_int_equal(switch_to(w, SECOND, 1, 1, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, SECOND, 1, 1, 24), EA_COUNT_events_repeated);
    assert_int_equal(switch_to(w, SECOND, 2, 1, 24), EA_COUNT_events_batched);
    assert_int_equal(switch_to(w, SECOND, 3, 1, 24), EA_COUNT_events_limited);
    assert_int_equal(switch_to(w, 2 * SECOND - 1, 3, 1, 24), EA_COUNT_events_limited); /* it was not kept */

    static const char *const WRONG[] = {"10 by NewThreadId",
                                        "10s",
                                        "10s by",
                                        "10s by ",
                                        "0s by NewThreadId",
                                        "25h by NewThreadId",
                                        "10s per NewThreadId",
                                        "10s by NoSuchField"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        ea_filter_config wrong = {.classes = CLASSES("Thread/CSwitch"), .repeat = WRONG[i]};
        assert_int_not_equal(create(w, &wrong, 1), 0);
        assert_string_equal(w->problem.key, "repeat");
    }
}

/* ---- state ---- */

static void state_stays(void **state) {
    made_record r;
    world *w = *state;
    use(w, (ea_filter_config){.classes = CLASSES("*", "Process/*", "Image/?oad"), .drop = "1"});
    assert_int_equal(switch_to(w, 1, 1, 1, 24), EA_COUNT_events_filtered);
    begin_record(&r, 0x3d6fa8d0, OP_START, 4, 1);
    assert_int_equal(judge(w, end_record(&r)), EA_COUNT_events_batched);
    begin_record(&r, 0x2cb15d1d, OP_LOAD, 3, 1);
    assert_int_equal(judge(w, end_record(&r)), EA_COUNT_events_batched);
    begin_record(&r, 0x6a399ae0, 32, 0, 1); /* lost events */
    assert_int_equal(judge(w, end_record(&r)), EA_COUNT_events_batched);
    use(w, (ea_filter_config){.classes = CLASSES("*", "Process/Start"), .drop = "1"});
    begin_record(&r, 0x3d6fa8d0, OP_START, 4, 1);
    assert_int_equal(judge(w, end_record(&r)), EA_COUNT_events_filtered);
    begin_record(&r, 0x3d6fa8d0, OP_END, 4, 1);
    assert_int_equal(judge(w, end_record(&r)), EA_COUNT_events_batched);
}

static void count_note(void *arg, const char *text) {
    int *notes = arg;
    notes[0] += strstr(text, "passes over") != NULL;
    notes[1] += strstr(text, "names") != NULL && strstr(text, "lacks") != NULL;
}

static void notes(void **state) {
    world *w = *state;
    int found[2] = {0};
    ea_filter_config configs[] = {{.classes = CLASSES("Process/*"), .drop = "1"},
                                  {.classes = CLASSES("Process/Start"), .limit = "1/s"},
                                  {.classes = CLASSES("Process/*"), .redact = CLASSES("CommandLine")},
                                  {.classes = CLASSES("DiskIo/*"), .drop = "1"}};
    assert_int_equal(create(w, configs, 4), 0);
    ea_event_filters_each_note(w->filters, count_note, found);
    assert_int_equal(found[0], 1);
    assert_int_equal(found[1], 1);
}

/* ---- fields ---- */

static const ea_record *a_process(made_record *r, const char *image, const char *command) {
    return process_record(r, OP_START, 1, 44, 4, 7, image, command);
}

static void check_text(world *w, const ea_record *r, const char *field, const char *want) {
    ea_text t;
    ea_text_init(&t);
    assert_true(ea_event_text(ea_registry_find(w->registry, r), r, field, &t));
    assert_string_equal(t.data ? t.data : "", want);
    ea_text_deinit(&t);
}

static const ea_record *redact(world *w, const ea_record *r) {
    const ea_record *out = r;
    int rc = ea_event_filters_redact(w->filters, &out, ea_registry_find(w->registry, r));
    assert_int_equal(rc, out != r);
    return out;
}

static int holds_bytes(const ea_record *r, const char *text) {
    size_t n = strlen(text);
    for (size_t i = 0; i + n <= r->payload_bytes; i++)
        if (memcmp(r->payload + i, text, n) == 0)
            return 1;
    return 0;
}

static void texts(void **state) {
    world *w = *state;
    made_record r;
    uint64_t pid = 0;
    use(w, (ea_filter_config){.classes = CLASSES("Process/*"), .redact = CLASSES("ImageFileName", "CommandLine")});
    const ea_record *given = a_process(&r, "secret.exe", "x"), *out = redact(w, given);
    assert_ptr_not_equal(out, given);
    check_text(w, out, "ImageFileName", "(redacted)");
    check_text(w, out, "CommandLine", "(redacted)");
    assert_true(ea_event_u64(ea_registry_find(w->registry, out), out, "ProcessId", &pid));
    assert_int_equal(pid, 44);
    assert_false(holds_bytes(out, "secret"));
    /* a payload that ends inside of the field, and one that ends before it */
    for (uint16_t cut = 1; cut < given->payload_bytes; cut++) {
        ea_record part = *given;
        part.payload_bytes = (uint16_t)(given->payload_bytes - cut);
        assert_false(holds_bytes(redact(w, &part), "ecre"));
    }
    /* another class is not touched */
    begin_record(&r, 0x2cb15d1d, OP_LOAD, 3, 1);
    assert_ptr_equal(redact(w, end_record(&r)), &r.record);
}

static void numbers_and_sids(void **state) {
    world *w = *state;
    made_record r;
    uint64_t value = 1;
    use(w, (ea_filter_config){.classes = CLASSES("Process/Start"), .redact = CLASSES("ParentId", "UserSID")});
    const ea_record *out = redact(w, a_process(&r, "a.exe", "a b"));
    assert_int_equal(out->payload_bytes, r.len);
    assert_true(ea_event_u64(ea_registry_find(w->registry, out), out, "ParentId", &value));
    assert_int_equal(value, 0);
    check_text(w, out, "CommandLine", "a b"); /* what follows is where it was */
}

/* Of an event whose fields are not known here, but may be at the collector, nothing is known to be harmless. */
static void unknown_fields(void **state) {
    static const uint8_t PAYLOAD[] = "a secret name";
    world *w = *state;
    ea_record r = {.provider = EA_GUID(0x1f4ac2d1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
                   .id = 7,
                   .pointer_size = 8,
                   .payload = PAYLOAD,
                   .payload_bytes = sizeof PAYLOAD};
    use(w, (ea_filter_config){.classes = CLASSES("*"), .redact = CLASSES("ImageFileName")});
    const ea_record *out = redact(w, &r);
    assert_ptr_not_equal(out, &r);
    assert_int_equal(out->payload_bytes, 0);
    use(w, (ea_filter_config){.classes = CLASSES("Process/*"), .redact = CLASSES("ImageFileName")});
    assert_ptr_equal(redact(w, &r), &r);
}

/* Beyond the registry's limit an event has lost its class, and so whether it is of the filter's. */
static void classes_beyond_the_limit(void **state) {
    static const uint8_t PAYLOAD[] = "a secret name";
    world *w = *state;
    ea_record r = {.provider = EA_GUID(0x1f4ac2d1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10),
                   .pointer_size = 8,
                   .payload = PAYLOAD,
                   .payload_bytes = sizeof PAYLOAD};
    ea_registry_destroy(w->registry);
    assert_int_equal(ea_registry_create(&w->registry, 2, NULL), 0);
    use(w, (ea_filter_config){.classes = CLASSES("Process/*"), .redact = CLASSES("ImageFileName")});
    assert_ptr_equal(redact(w, &r), &r);
    for (uint16_t id = 1; id < 200 && !ea_registry_overflow_count(w->registry); id++) {
        r.id = id;
        (void)ea_registry_find(w->registry, &r);
    }
    assert_true(ea_registry_overflow_count(w->registry) > 0);
    const ea_record *out = redact(w, &r);
    assert_ptr_not_equal(out, &r);
    assert_int_equal(out->payload_bytes, 0);
}

/* As many filters as there may be, of which the last one decides. */
static void all_places(void **state) {
    world *w = *state;
    ea_filter_config configs[EA_EVENT_FILTERS_MAX];
    for (size_t i = 0; i < EA_EVENT_FILTERS_MAX; i++)
        configs[i] = (ea_filter_config){.classes = CLASSES("Thread/CSwitch"), .drop = "NewThreadId == 1"};
    configs[EA_EVENT_FILTERS_MAX - 1].drop = "NewThreadId == 2";
    assert_int_equal(create(w, configs, EA_EVENT_FILTERS_MAX), 0);
    assert_int_equal(switch_to(w, 1, 1, 0, 24), EA_COUNT_events_filtered);
    assert_int_equal(switch_to(w, 1, 2, 0, 24), EA_COUNT_events_filtered);
    assert_int_equal(switch_to(w, 1, 3, 0, 24), EA_COUNT_events_batched);
}

static const char *key_file(const char *content) {
    static char path[64];
    snprintf(path, sizeof path, "filter-test-%d.key", (int)strlen(content));
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fputs(content, f);
    assert_int_equal(fclose(f), 0);
    return path;
}

static void hashes(void **state) {
    world *w = *state;
    made_record r;
    ea_filter_config c = {.classes = CLASSES("Process/*"), .redact = CLASSES("ImageFileName")};
    c.redact_key = key_file("0123456789abcdef\n");
    use(w, c);
    uint64_t hash = ea_event_filters_hash(w->filters);
    /* HMAC-SHA256("0123456789abcdef", "secret.exe") */
    check_text(w, redact(w, a_process(&r, "secret.exe", "x")), "ImageFileName", "846eb0ee22284aaeb41eedeb221303c8");
    remove(c.redact_key);
    c.redact_key = key_file("0123456789abcdeg--\n");
    use(w, c);
    assert_true(ea_event_filters_hash(w->filters) != hash);
    remove(c.redact_key);
    c.redact_key = key_file("0123456789abcde\n");
    assert_int_equal(create(w, &c, 1), EA_EFORMAT); /* 15 bytes */
    remove(c.redact_key);
    assert_true(create(w, &c, 1) != 0); /* no file */
    c.redact_key = NULL;
    use(w, c);
    assert_true(ea_event_filters_hash(w->filters) != hash && ea_event_filters_hash(w->filters));
}

/* Expressions see the event as it came; those of later events the state as it is kept. */
static void redacted_state(void **state) {
    world *w = *state;
    made_record r;
    ea_filter_config configs[] = {{.classes = CLASSES("Process/Start"),
                                   .where = "ImageFileName == \"secret.exe\"",
                                   .redact = CLASSES("ImageFileName")},
                                  {.classes = CLASSES("Thread/Start"), .where = "execname == \"(redacted)\""}};
    assert_int_equal(create(w, configs, 2), 0);
    assert_int_equal(judge(w, a_process(&r, "other.exe", "x")), EA_COUNT_events_filtered);
    assert_int_equal(judge(w, a_process(&r, "secret.exe", "x")), EA_COUNT_events_batched);
    const ea_record *thread = thread_record(&r, OP_START, 2, 44, 45, 0x10000, 1);
    r.record.pid = 44;
    assert_int_equal(judge(w, thread), EA_COUNT_events_batched);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_world, free_world)
    const struct CMUnitTest tests[] = {TEST(conditions),
                                       TEST(several),
                                       TEST(samples),
                                       TEST(repeats),
                                       TEST(limits),
                                       TEST(state_stays),
                                       TEST(notes),
                                       TEST(texts),
                                       TEST(numbers_and_sids),
                                       TEST(hashes),
                                       TEST(redacted_state),
                                       TEST(unknown_fields),
                                       TEST(classes_beyond_the_limit),
                                       TEST(all_places)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
