/* What somebody else knows of events: TRACE_EVENT_INFO and EVENT_MAP_INFO as TDH lays them out, and asking for them
 * while events go on. */
#include "decoder.h"
#include "event_info.h"
#include "platform.h"
#include "schemas.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const ea_guid EXAMPLE = EA_GUID(0x11111111, 0x2222, 0x3333, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x66);
enum { IN_U32 = 8, IN_UTF16 = 1, INFO_BYTES = 512, MAP_AT = 112 + 2 * 24 };

static void put16(uint8_t *to, uint16_t v) {
    memcpy(to, &v, sizeof v);
}
static void put32(uint8_t *to, uint32_t v) {
    memcpy(to, &v, sizeof v);
}

/* UTF-16 with a NUL at *at, which moves behind it; returns where it stands. */
static uint32_t put_text(uint8_t *data, size_t *at, const char *text) {
    uint32_t begin = (uint32_t)*at;
    for (;; text++) {
        put16(data + *at, (uint8_t)*text);
        *at += 2;
        if (!*text)
            return begin;
    }
}

/* TRACE_EVENT_INFO of event 7 version 2 with a u32 "Kind", whose map is "Kinds", and a string "Name". */
static size_t make_info(uint8_t *data) {
    size_t at = MAP_AT;
    memset(data, 0, INFO_BYTES);
    memcpy(data, EXAMPLE.bytes, sizeof EXAMPLE.bytes);
    put16(data + 32, 7);
    data[34] = 2;
    put32(data + 52, put_text(data, &at, "Example-Provider"));
    put32(data + 68, put_text(data, &at, "Thing "));
    put32(data + 72, put_text(data, &at, "Begin "));
    put32(data + 100, 2);
    put32(data + 104, 2);
    uint8_t *p = data + 112;
    put32(p + 4, put_text(data, &at, "Kind"));
    put16(p + 8, IN_U32);
    put32(p + 12, put_text(data, &at, "Kinds"));
    put16(p + 16, 1);
    put16(p + 18, 4);
    p += 24;
    put32(p + 4, put_text(data, &at, "Name"));
    put16(p + 8, IN_UTF16);
    put16(p + 16, 1);
    return at;
}

static size_t make_map(uint8_t *data, uint32_t flags) {
    size_t at = 16 + 2 * 8;
    memset(data, 0, INFO_BYTES);
    put32(data, put_text(data, &at, "Kinds"));
    put32(data + 4, flags);
    put32(data + 8, 2);
    put32(data + 16, put_text(data, &at, "good "));
    put32(data + 20, 1);
    put32(data + 24, put_text(data, &at, "bad "));
    put32(data + 28, 8);
    return at;
}

static void test_maps(void **state) {
    uint8_t data[INFO_BYTES];
    ea_arena arena;
    ea_enum map;
    (void)state;
    ea_arena_init(&arena, 1 << 20);
    size_t n = make_map(data, 1);
    assert_int_equal(ea_event_map_read(&arena, data, n, &map, NULL), 0);
    assert_string_equal(map.name, "Kinds");
    assert_int_equal(map.is_flags, 0);
    assert_int_equal(map.count, 2);
    assert_string_equal(map.entries[1].name, "bad");
    assert_int_equal(map.entries[1].value, 8);
    n = make_map(data, 2);
    assert_int_equal(ea_event_map_read(&arena, data, n, &map, NULL), 0);
    assert_int_equal(map.is_flags, 1);
    n = make_map(data, 0x50); /* WBEM: bits whose places are their values */
    assert_int_equal(ea_event_map_read(&arena, data, n, &map, NULL), 0);
    assert_int_equal(map.entries[1].value, 2);
    n = make_map(data, 4);
    assert_int_equal(ea_event_map_read(&arena, data, n, &map, NULL), EA_EUNSUPPORTED);
    for (size_t cut = 0; cut < 32; cut++) {
        make_map(data, 1);
        assert_int_equal(ea_event_map_read(&arena, data, cut, &map, NULL), EA_ECORRUPT);
    }
    make_map(data, 1);
    put32(data + 8, 0x20000001);
    assert_int_equal(ea_event_map_read(&arena, data, n, &map, NULL), EA_ECORRUPT);
    ea_arena_deinit(&arena);
}

/* Somebody who knows one event, after a while. */
typedef struct knows {
    atomic_uint asked, may_answer;
    unsigned maps;
    ea_enum map;
} knows;

static const ea_enum *find_map(void *arg, const ea_guid *provider, const char *name) {
    knows *k = arg;
    k->maps++;
    return ea_guid_equal(provider, &EXAMPLE) && strcmp(name, "Kinds") == 0 ? &k->map : NULL;
}

static int answer(void *arg, const ea_record *event, ea_schemas *into, ea_err *err) {
    knows *k = arg;
    uint8_t data[INFO_BYTES];
    int changed;
    atomic_fetch_add(&k->asked, 1);
    while (!atomic_load(&k->may_answer))
        ea_sleep_ns(1000000);
    if (event->payload || event->payload_bytes || event->ext_count)
        return ea_fail(err, EA_EINVAL, "a question with a payload");
    if (event->id != 7)
        return ea_fail(err, EA_ENOTFOUND, "an event that nobody knows");
    size_t n = make_info(data);
    return ea_event_info_read(into, EA_SCHEMA_WINDOWS, data, n, &(ea_event_maps){find_map, k}, &changed, err);
}

static void test_events_go_on_while_somebody_is_asked(void **state) {
    static const uint8_t PAYLOAD[] = {8, 0, 0, 0, 'x', 0, 0, 0};
    static const ea_map_entry ENTRIES[] = {{1, "good"}, {8, "bad"}};
    knows k = {.map = {"Kinds", 0, 2, ENTRIES}};
    ea_counters counters = {0};
    ea_decoder *d;
    enum ea_counter outcome;
    ea_record event = {.provider = EXAMPLE,
                       .id = 7,
                       .version = 2,
                       .pointer_size = 8,
                       .payload = PAYLOAD,
                       .payload_bytes = sizeof PAYLOAD};
    ea_record other = event;
    (void)state;
    other.id = 9;
    ea_ask ask = {.answer = answer, .arg = &k, .counters = &counters, .again_ns = INT64_MAX};
    assert_int_equal(ea_decoder_create(&d, NULL, &ask, NULL), 0);
    for (unsigned i = 0; i < 1000; i++) { /* the answer is not there, and nobody waits for it */
        assert_int_equal(ea_decoder_find(d, &event, &outcome)->status, EA_CLASS_UNKNOWN);
        assert_int_equal(outcome, EA_COUNT_decode_unknown);
        assert_int_equal(ea_decoder_find(d, &other, &outcome)->status, EA_CLASS_UNKNOWN);
    }
    atomic_store(&k.may_answer, 1);
    int64_t until = ea_monotonic_ns() + INT64_C(20000000000);
    const ea_class *c;
    while ((c = ea_decoder_find(d, &event, &outcome))->status == EA_CLASS_UNKNOWN && ea_monotonic_ns() < until)
        ea_sleep_ns(1000000);
    assert_int_equal(c->status, EA_CLASS_KNOWN);
    assert_int_equal(outcome, EA_COUNT_decode_whole);
    assert_string_equal(c->name, "Thing/Begin");
    assert_string_equal(c->provider_name, "Example-Provider");
    assert_int_equal(c->field_count, 2);
    assert_string_equal(c->fields[0].name, "Kind");
    assert_non_null(c->fields[0].map);
    assert_string_equal(c->fields[0].map->entries[1].name, "bad");
    while (ea_counter_get(&counters, EA_COUNT_decode_unanswered) < 1 && ea_monotonic_ns() < until)
        ea_sleep_ns(1000000);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(ea_decoder_find(d, &other, &outcome)->status, EA_CLASS_UNKNOWN);
    ea_decoder_destroy(d);
    assert_int_equal(atomic_load(&k.asked), 2); /* each kind once, also the one that nobody knows */
    assert_int_equal(k.maps, 1);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_decode_asked), 2);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_decode_unanswered), 1);
}

static void test_what_nobody_knew_is_asked_again_later(void **state) {
    knows k = {.may_answer = 1};
    ea_counters counters = {0};
    ea_decoder *d;
    enum ea_counter outcome;
    ea_record event = {.provider = EXAMPLE, .id = 9, .pointer_size = 8};
    (void)state;
    ea_ask ask = {.answer = answer, .arg = &k, .counters = &counters, .again_ns = 2000000};
    assert_int_equal(ea_decoder_create(&d, NULL, &ask, NULL), 0);
    int64_t until = ea_monotonic_ns() + INT64_C(20000000000);
    while (atomic_load(&k.asked) < 3 && ea_monotonic_ns() < until) {
        assert_int_equal(ea_decoder_find(d, &event, &outcome)->status, EA_CLASS_UNKNOWN);
        ea_sleep_ns(500000);
    }
    ea_decoder_destroy(d);
    assert_true(atomic_load(&k.asked) >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_events_go_on_while_somebody_is_asked),
        cmocka_unit_test(test_what_nobody_knew_is_asked_again_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
