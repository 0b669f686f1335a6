/* Schemas of the operating system: TRACE_EVENT_INFO and EVENT_MAP_INFO in TDH's layout, and lookups while events
 * continue to arrive. */
#include "proto/base/platform.h"
#include "proto/etl/etl.h"
#include "proto/event/schema/event_info.h"
#include "proto/event/schemas.h"
#include "service/decode/decoder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/real_traces.h"

static const ea_guid EXAMPLE = EA_GUID(0x11111111, 0x2222, 0x3333, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x66);

enum { IN_U32 = 8, IN_UTF16 = 1, INFO_BYTES = 512, MAP_AT = 112 + 2 * 24 };

static void put16(uint8_t *to, uint16_t v) {
    memcpy(to, &v, sizeof v);
}

static void put32(uint8_t *to, uint32_t v) {
    memcpy(to, &v, sizeof v);
}

/* Writes UTF-16 with a NUL at *at and moves *at after it. Returns the offset of the text. */
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

/* What Windows itself said, as merged traces hold it: 16 bytes of the provider's GUID before each map. */
typedef struct said {
    ea_arena arena;
    size_t map_count, info_count, fields_with_map;

    struct {
        ea_guid provider;
        ea_enum map;
    } maps[256];
} said;

static const ea_enum *find_said(void *arg, const ea_guid *provider, const char *name) {
    said *s = arg;
    for (size_t i = 0; i < s->map_count; i++)
        if (ea_guid_equal(&s->maps[i].provider, provider) && strcmp(s->maps[i].map.name, name) == 0) {
            s->fields_with_map++;
            return &s->maps[i].map;
        }
    fail_msg("no map %s", name);
    return NULL;
}

static void read_trace(const char *path, int want_maps, ea_schemas *into, said *s) {
    static const ea_guid METADATA = EA_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71);

    enum { EVENT_INFO = 32, MAP_INFO = 33, GUID_BYTES = 16 };

    ea_etl_set *set;
    const ea_record *r;
    ea_err err;
    int changed;
    assert_int_equal(ea_etl_open(&set, &path, 1, &(ea_etl_options){0}, &err), 0);
    while (ea_etl_next(set, &r, &err) > 0) {
        if (!ea_guid_equal(&r->provider, &METADATA) || r->opcode != (want_maps ? MAP_INFO : EVENT_INFO))
            continue;
        if (want_maps) {
            assert_in_range(s->map_count, 0, 255);
            memcpy(s->maps[s->map_count].provider.bytes, r->payload, GUID_BYTES);
            if (ea_event_map_read(&s->arena, r->payload + GUID_BYTES, r->payload_bytes - (size_t)GUID_BYTES,
                                  &s->maps[s->map_count++].map, &err))
                fail_msg("%s", err.message);
        } else {
            if (ea_event_info_read(into, EA_SCHEMA_WINDOWS, r->payload, r->payload_bytes,
                                   &(ea_event_maps){find_said, s}, &changed, &err))
                fail_msg("%s", err.message);
            s->info_count++;
        }
    }
    ea_etl_close(set);
}

static void test_what_windows_said(void **state) {
    char path[1024];
    said s = {.map_count = 0};
    ea_schemas *schemas;
    (void)state;
    const char *folder = real_traces("unit.schema_resolver: what Windows' own records say of 61 kinds of events");
    snprintf(path, sizeof path, "%s/clr-kernel-win8-x64/trace.etl", folder);
    ea_arena_init(&s.arena, 1 << 20);
    assert_int_equal(ea_schemas_create(&schemas, 0, NULL), 0);
    read_trace(path, 1, schemas, &s);
    read_trace(path, 0, schemas, &s);
    printf("%zu maps, %zu events, %zu fields with maps\n", s.map_count, s.info_count, s.fields_with_map);
    assert_int_equal(s.info_count, 61);
    assert_true(s.map_count > 10 && s.fields_with_map > 10);
    for (size_t i = 0; i < s.map_count; i++)
        for (size_t k = 0; k < s.maps[i].map.count; k++)
            assert_true(*s.maps[i].map.entries[k].name); /* each value has a name */
    ea_schemas_destroy(schemas);
    ea_arena_deinit(&s.arena);
}

/* A schema source that knows one event, after a delay. */
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
        return ea_fail(err, EA_ENOTFOUND, "an unknown event");
    size_t n = make_info(data);
    return ea_event_info_read(into, EA_SCHEMA_WINDOWS, data, n, &(ea_event_maps){find_map, k}, &changed, err);
}

static void test_events_go_on_during_a_lookup(void **state) {
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
    const ea_record *e = &event, *o = &other; /* no plug-in puts another one in their place */
    ea_schema_lookup ask = {.answer = answer, .arg = &k, .counters = &counters, .again_ns = INT64_MAX};
    assert_int_equal(ea_decoder_create(&d, NULL, &ask, NULL), 0);
    for (unsigned i = 0; i < 1000; i++) { /* the answer is still missing, and the caller does not wait for it */
        assert_int_equal(ea_decoder_find(d, &e, &outcome)->status, EA_CLASS_UNKNOWN);
        assert_int_equal(outcome, EA_COUNT_decode_unknown);
        assert_int_equal(ea_decoder_find(d, &o, &outcome)->status, EA_CLASS_UNKNOWN);
    }
    atomic_store(&k.may_answer, 1);
    int64_t until = ea_monotonic_ns() + INT64_C(20000000000);
    const ea_class *c;
    while ((c = ea_decoder_find(d, &e, &outcome))->status == EA_CLASS_UNKNOWN && ea_monotonic_ns() < until)
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
        assert_int_equal(ea_decoder_find(d, &o, &outcome)->status, EA_CLASS_UNKNOWN);
    ea_decoder_destroy(d);
    assert_int_equal(atomic_load(&k.asked), 2); /* one lookup per kind of event, also for the unknown one */
    assert_int_equal(k.maps, 1);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_decode_asked), 2);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_decode_unanswered), 1);
}

static void test_an_unknown_event_is_asked_again_later(void **state) {
    knows k = {.may_answer = 1};
    ea_counters counters = {0};
    ea_decoder *d;
    enum ea_counter outcome;
    ea_record event = {.provider = EXAMPLE, .id = 9, .pointer_size = 8};
    const ea_record *e = &event;
    (void)state;
    ea_schema_lookup ask = {.answer = answer, .arg = &k, .counters = &counters, .again_ns = 2000000};
    assert_int_equal(ea_decoder_create(&d, NULL, &ask, NULL), 0);
    int64_t until = ea_monotonic_ns() + INT64_C(20000000000);
    while (atomic_load(&k.asked) < 3 && ea_monotonic_ns() < until) {
        assert_int_equal(ea_decoder_find(d, &e, &outcome)->status, EA_CLASS_UNKNOWN);
        ea_sleep_ns(500000);
    }
    ea_decoder_destroy(d);
    assert_true(atomic_load(&k.asked) >= 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_maps),
        cmocka_unit_test(test_what_windows_said),
        cmocka_unit_test(test_events_go_on_during_a_lookup),
        cmocka_unit_test(test_an_unknown_event_is_asked_again_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
