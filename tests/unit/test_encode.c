/* proto/event, payloads from field values: events made up by hand, what is refused, payloads cut at every length. That
 * every class goes there and back is tests/unit/every_class.c's matter. */
#include "proto/event/encode.h"
#include "tests/unit/random_payload.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(a) (sizeof(a) / sizeof *(a))

static const ea_guid PROCESS = EA_GUID(0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
static const ea_guid PERFINFO = EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc);
static const ea_guid EVENT_TRACE = EA_GUID(0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);

static ea_registry *registry;

static const ea_class *class_of(const ea_guid *provider, uint8_t opcode, uint8_t version, uint8_t pointer_size) {
    ea_record r = {.provider = *provider,
                   .opcode = opcode,
                   .version = version,
                   .pointer_size = pointer_size,
                   .flags =
                       EA_FLAG_CLASSIC_HEADER | (pointer_size == 4 ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER)};
    const ea_class *c = ea_registry_find(registry, &r);
    assert_int_equal(c->status, EA_CLASS_KNOWN);
    return c;
}

static ea_event_value number(uint64_t n) {
    return (ea_event_value){.kind = EA_VALUE_NUMBER, .number = n};
}

static ea_event_value text(const char *s) {
    return (ea_event_value){.kind = EA_VALUE_TEXT, .data = s, .count = strlen(s)};
}

static int put(const ea_class *c, const ea_event_value *values, size_t count, uint8_t *out, size_t *n) {
    ea_err err;
    return ea_event_write_values(c, values, count, out, 1024, n, &err);
}

/* A thread's name, byte by byte. */
static void by_hand(void **state) {
    (void)state;
    static const uint8_t expected[] = {8, 1, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 'a', 0, 0xE4, 0, 0x3D, 0xD8, 0, 0xDE, 0, 0};
    uint8_t out[1024];
    size_t n;
    const ea_class *c = class_of(&THREAD, 72, 2, 8);
    ea_event_value values[] = {number(0x108), number(0xFFFFFFFE), text("a\xC3\xA4\xF0\x9F\x98\x80")};
    assert_int_equal(put(c, values, LENGTH(values), out, &n), 0);
    assert_int_equal(n, sizeof expected);
    assert_memory_equal(out, expected, n);
    ea_err err;
    for (size_t room = 0; room < sizeof expected; room++)
        assert_int_equal(ea_event_write_values(c, values, LENGTH(values), out, room, &n, &err), EA_ELIMIT);
    assert_int_equal(put(c, values, 1, out, &n), 0); /* the leading fields alone */
    assert_int_equal(n, 4);
}

static void refused(void **state) {
    (void)state;
    uint8_t out[1024];
    size_t n = 77;
    const ea_class *name = class_of(&THREAD, 72, 2, 8);
    ea_event_value values[] = {number(0x108), number(8), text("x"), number(1)};
    assert_int_equal(put(name, values, 4, out, &n), EA_EINVAL); /* one too many */
    values[0] = number(UINT64_C(1) << 32);
    assert_int_equal(put(name, values, 3, out, &n), EA_EINVAL); /* does not fit */
    values[0] = text("108");
    assert_int_equal(put(name, values, 3, out, &n), EA_EINVAL);
    values[0] = number(1);
    values[2] = number(1);
    assert_int_equal(put(name, values, 3, out, &n), EA_EINVAL);
    assert_int_equal(n, 77);

    /* an array and the field that counts it */
    const ea_class *corruption = class_of(&PERFINFO, 49, 2, 8);
    ea_event_value status[] = {number(10), number(0)};
    ea_event_value element = {.kind = EA_VALUE_LIST, .items = status, .count = 2};
    ea_event_value counted[] = {number(5), number(1), {.kind = EA_VALUE_LIST, .items = &element, .count = 1}};
    assert_int_equal(put(corruption, counted, 3, out, &n), 0);
    assert_int_equal(n, 20);
    counted[1] = number(2);
    assert_int_equal(put(corruption, counted, 3, out, &n), EA_EINVAL);
    counted[1] = number(1);
    element.count = 1; /* a member is missing */
    assert_int_equal(put(corruption, counted, 3, out, &n), EA_EINVAL);
    element.count = 2;
    counted[2].count = 0;
    assert_int_equal(put(corruption, counted, 3, out, &n), EA_EINVAL);

    /* a GUID of another length; an array of fixed length */
    const ea_class *partition = class_of(&EVENT_TRACE, 80, 2, 8);
    ea_event_value guids[] = {number(0),
                              number(0),
                              number(0),
                              number((uint64_t)-5),
                              {.kind = EA_VALUE_BYTES, .data = out, .count = 16},
                              {.kind = EA_VALUE_BYTES, .data = out, .count = 16}};
    uint8_t made[1024];
    memset(out, 7, 16);
    ea_err err;
    assert_int_equal(ea_event_write_values(partition, guids, 6, made, sizeof made, &n, &err), 0);
    assert_int_equal(n, 48);
    guids[4].count = 15;
    assert_int_equal(ea_event_write_values(partition, guids, 6, made, sizeof made, &n, &err), EA_EINVAL);

    /* characters that Windows-1252 lacks */
    const ea_class *process = class_of(&PROCESS, 1, 0, 8);
    size_t at = ea_class_top_count(process) - 1;
    assert_int_equal(process->fields[ea_class_top_field(process, at)].type, EA_ANSIZ);
    ea_event_value old[EA_FIELDS_MAX];
    for (size_t i = 0; i < at; i++) {
        const ea_field *f = &process->fields[ea_class_top_field(process, i)];
        old[i] = f->type == EA_WBEM_SID ? (ea_event_value){.kind = EA_VALUE_LIST} : number(1);
    }
    old[at] = text("caf\xC3\xA9 \xE2\x82\xAC");
    assert_int_equal(put(process, old, at + 1, out, &n), 0);
    assert_memory_equal(out + n - 7, "caf\xE9 \x80", 7);
    old[at] = text("\xCE\xB1");
    assert_int_equal(put(process, old, at + 1, out, &n), EA_EINVAL);
}

/* Whatever is cut off, and whatever a payload claims: the values that are read give back the bytes that they stand for.
 */
static void there_and_back(void **state) {
    (void)state;
    static random_payload p;
    static uint8_t out[RANDOM_PAYLOAD_MAX];

    static const struct {
        const ea_guid *provider;
        uint8_t opcode, version;
    } classes[] = {{&PROCESS, 1, 4}, {&THREAD, 1, 3}, {&THREAD, 72, 2}, {&PERFINFO, 49, 2}, {&PERFINFO, 48, 2}};

    ea_arena arena;
    ea_err err;
    ea_arena_init(&arena, 0);
    p.state = 5;
    for (int i = 0; i < 3000; i++) {
        size_t which = (size_t)i % LENGTH(classes);
        const ea_class *c =
            class_of(classes[which].provider, classes[which].opcode, classes[which].version, i & 1 ? 4 : 8);
        random_payload_make(&p, c);
        if (i % 3 == 0) /* nonsense */
            for (size_t k = 0; k < p.len_bytes; k++)
                p.bytes[k] = (uint8_t)(random_next(&p) >> 40);
        size_t len = i % 3 == 2 ? p.len_bytes : random_next(&p) % (p.len_bytes + 1);
        const ea_event_value *values;
        size_t n, used, made;
        ea_arena_reset(&arena);
        assert_int_equal(ea_event_read_values(c, p.bytes, len, &arena, &values, &n, &used, &err), 0);
        assert_true(used <= len && n <= ea_class_top_count(c));
        assert_int_equal(ea_event_write_values(c, values, n, out, sizeof out, &made, &err), 0);
        assert_int_equal(made, used);
        if (used)
            assert_memory_equal(out, p.bytes, used);
    }
    ea_arena_deinit(&arena);
}

static int make_registry(void **state) {
    ea_err err;
    (void)state;
    return ea_registry_create(&registry, 0, &err);
}

static int drop_registry(void **state) {
    (void)state;
    ea_registry_destroy(registry);
    return 0;
}

int main(void) {
    static const struct CMUnitTest tests[] = {cmocka_unit_test(by_hand), cmocka_unit_test(refused),
                                              cmocka_unit_test(there_and_back)};
    return cmocka_run_group_tests(tests, make_registry, drop_registry);
}
