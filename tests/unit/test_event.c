/* Classes, descriptions, the split, the registry and rendering, on records made by hand. */
#include "proto/event/class.h"
#include "proto/event/class_names.h"
#include "proto/event/render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const ea_guid PROCESS = EA_GUID(0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
static const ea_guid IMAGE = EA_GUID(0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0x00, 0xa0, 0xc9, 0x11, 0xf5, 0x18);
static const ea_guid STACK_WALK = EA_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3);
static const ea_guid OTHER = EA_GUID(0x01020304, 0x0506, 0x0708, 9, 10, 11, 12, 13, 14, 15, 16);
static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000, .base_raw = 0, .base_utc_ns = 1000000000};

static ea_registry *new_registry(size_t limit) {
    ea_registry *r;
    ea_err err;
    assert_int_equal(ea_registry_create(&r, limit, &err), 0);
    return r;
}

static ea_record classic_record(const ea_guid *provider, uint8_t opcode, uint8_t version, uint8_t pointer_size,
                                const ea_text *payload) {
    return (ea_record){.provider = *provider,
                       .opcode = opcode,
                       .version = version,
                       .pointer_size = pointer_size,
                       .flags = EA_FLAG_CLASSIC_HEADER,
                       .pid = 4,
                       .tid = 8,
                       .payload = payload ? (const uint8_t *)payload->data : NULL,
                       .payload_bytes = payload ? (uint16_t)payload->len_bytes : 0};
}

static void put(ea_text *t, uint64_t v, size_t bytes) {
    ea_text_add(t, &v, bytes);
}

static void put_utf16(ea_text *t, const char *s) {
    do {
        put(t, (uint8_t)*s, 2);
    } while (*s++);
}

static void process_v4(ea_text *t, size_t pointer) {
    static const uint8_t SID[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    put(t, 0xffff8000deadbeef, pointer);
    put(t, 1234, 4);
    put(t, 567, 4);
    put(t, 1, 4);
    put(t, 259, 4);
    put(t, 0x1aa000, pointer);
    put(t, 0x6, 4);
    put(t, 0x11, pointer); /* TOKEN_USER */
    put(t, 0, pointer);
    ea_text_add(t, SID, sizeof SID);
    ea_text_add(t, "svchost.exe", 12);
    put_utf16(t, "C:\\x \"y\"");
    put_utf16(t, "");
    put_utf16(t, "app");
}

static void test_process(void **state) {
    (void)state;
    ea_registry *r = new_registry(0);
    for (uint8_t pointer = 4; pointer <= 8; pointer += 4) {
        ea_text payload, text;
        ea_text_init(&payload);
        ea_text_init(&text);
        process_v4(&payload, pointer);
        ea_record record = classic_record(&PROCESS, 3, 4, pointer, &payload);
        const ea_class *c = ea_registry_find(r, &record);
        uint64_t v;
        assert_string_equal(c->name, "Process/DCStart");
        assert_string_equal(c->provider_name, "Windows Kernel Trace");
        assert_int_equal(c->status, EA_CLASS_KNOWN);
        assert_true(ea_event_u64(c, &record, "ProcessId", &v));
        assert_int_equal(v, 1234);
        assert_true(ea_event_u64(c, &record, "UniqueProcessKey", &v));
        assert_true(v == (pointer == 8 ? 0xffff8000deadbeef : 0xdeadbeef));
        assert_true(ea_event_text(c, &record, "ImageFileName", &text));
        assert_string_equal(text.data, "svchost.exe");
        ea_text_clear(&text);
        ea_render_columns_json(&text, &record, c, &CLOCK, (const char *const[]){"UserSID"}, 1);
        assert_string_equal(text.data, "{\"UserSID\":\"S-1-5-18\"}");
        ea_text_clear(&text);
        assert_true(ea_event_text(c, &record, "ApplicationId", &text));
        assert_string_equal(text.data, "app");
        assert_false(ea_event_u64(c, &record, "PageDirectoryBase", &v)); /* version 1 only */
        assert_false(ea_event_u64(c, &record, "ImageFileName", &v));
        assert_false(ea_event_text(c, &record, "Nothing", &text));
        ea_text_clear(&text);
        ea_render_json(&text, &record, c, &CLOCK, 0);
        assert_non_null(strstr(text.data, "\"CommandLine\":\"C:\\\\x \\\"y\\\"\",\"PackageFullName\":\"\""));
        assert_non_null(strstr(text.data, "\"Flags\":{\"value\":\"0x6\",\"name\":\"Wow64|Protected\"}"));
        assert_null(strstr(text.data, "_tail"));
        ea_text_deinit(&payload);
        ea_text_deinit(&text);
    }
    ea_registry_destroy(r);
}

static void test_versions(void **state) {
    (void)state;
    ea_registry *r = new_registry(0);
    ea_text payload;
    ea_text_init(&payload);
    process_v4(&payload, 8);
    put(&payload, 0x77, 1);
    ea_record record = classic_record(&PROCESS, 1, 9, 8, &payload);
    const ea_class *newer = ea_registry_find(r, &record);
    assert_int_equal(newer->status, EA_CLASS_NEWER);
    assert_int_equal(newer->version, 9);
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(newer, record.payload, record.payload_bytes, slices, &used);
    assert_int_equal(whole, newer->top_count);
    assert_int_equal(used, record.payload_bytes - 1);
    assert_false(ea_class_is_whole(newer, whole, used, record.payload_bytes));
    /* the same version on the second ask, and the other pointer size apart */
    assert_ptr_equal(newer, ea_registry_find(r, &record));
    record.pointer_size = 4;
    assert_ptr_not_equal(newer, ea_registry_find(r, &record));
    /* Thread/SetPriority begins with version 3: an older one has no layout */
    static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
    record = classic_record(&THREAD, 48, 2, 8, &payload);
    const ea_class *older = ea_registry_find(r, &record);
    assert_int_equal(older->status, EA_CLASS_UNKNOWN);
    assert_int_equal(older->field_count, 0);
    assert_string_equal(older->provider_name, "Windows Kernel Trace");
    ea_text_deinit(&payload);
    ea_registry_destroy(r);
}

/* Thread v3: Windows 8 writes no name, Windows 10 does; both are whole, a half name is not. */
static void test_optional_field(void **state) {
    (void)state;
    static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
    ea_registry *r = new_registry(0);
    uint8_t bytes[80] = {0};
    ea_record record = classic_record(&THREAD, 1, 3, 8, NULL);
    const ea_class *c = ea_registry_find(r, &record);
    ea_slice slices[EA_FIELDS_MAX];
    size_t used;
    for (size_t n = 0; n <= 74; n++) {
        size_t whole = ea_class_split(c, bytes, n, slices, &used);
        assert_int_equal(ea_class_is_whole(c, whole, used, n), n == 72 || n == 74);
    }
    ea_registry_destroy(r);
}

static void test_stack(void **state) {
    (void)state;
    ea_registry *r = new_registry(0);
    ea_text payload, out;
    ea_text_init(&payload);
    ea_text_init(&out);
    put(&payload, 77, 8);
    put(&payload, 4, 4);
    put(&payload, 8, 4);
    put(&payload, 0xfffff80012345678, 8);
    put(&payload, 0x7ff712345678, 8);
    put(&payload, 0xabcdef, 3); /* not a whole address */
    ea_record record = classic_record(&STACK_WALK, 32, 2, 8, &payload);
    const ea_class *c = ea_registry_find(r, &record);
    ea_render_json(&out, &record, c, &CLOCK, 0);
    assert_non_null(strstr(out.data, "\"fields\":{\"EventTimeStamp\":77,\"StackProcess\":4,\"StackThread\":8,"
                                     "\"Stack\":[\"0xfffff80012345678\",\"0x7ff712345678\"],\"_tail\":\"efcdab\"}"));
    ea_text_deinit(&payload);
    ea_text_deinit(&out);
    ea_registry_destroy(r);
}

/* ---- a class with every kind of field ---- */

static const ea_map_entry COLOURS[] = {{1, "red"}, {2, "green"}, {UINT64_MAX, "none"}};
static const ea_enum COLOUR = {"Colour", 0, 3, COLOURS};
static const ea_map_entry BITS[] = {{0, "nothing"}, {1, "one"}, {6, "two-and-four"}};
static const ea_enum BIT = {"Bit", 1, 3, BITS};

static const ea_field_row EVERY_FIELD[] = {
    {.name = "u8", .type = EA_U8, .map = &COLOUR},
    {.name = "i8", .type = EA_I8, .map = &COLOUR},
    {.name = "u16", .type = EA_U16, .map = &BIT},
    {.name = "i64", .type = EA_I64},
    {.name = "f32", .type = EA_F32},
    {.name = "f64", .type = EA_F64},
    {.name = "yes", .type = EA_BOOL8},
    {.name = "two", .type = EA_BOOL32},
    {.name = "guid", .type = EA_GUID},
    {.name = "filetime", .type = EA_FILETIME},
    {.name = "systemtime", .type = EA_SYSTEMTIME},
    {.name = "v4", .type = EA_IPV4},
    {.name = "v6", .type = EA_IPV6},
    {.name = "port", .type = EA_PORT},
    {.name = "size", .type = EA_SIZE},
    {.name = "fixed", .type = EA_UTF16_FIXED, .count = 4},
    {.name = "ansi_fixed", .type = EA_ANSI_FIXED, .count = 3},
    {.name = "raw", .type = EA_BYTES, .count = 2},
    {.name = "count", .type = EA_U16},
    {.name = "items", .type = EA_STRUCT, .count_field = "count", .child_count = 3},
    {.name = "n", .type = EA_U8},
    {.name = "inner", .type = EA_STRUCT, .child_count = 1},
    {.name = "text", .type = EA_UTF16_COUNTED},
    {.name = "list", .type = EA_U16, .count_field = "n"},
    {.name = "names", .type = EA_ANSIZ, .count_field = "count"},
    {.name = "sid", .type = EA_SID},
    {.name = "unset", .type = EA_WBEM_SID},
    {.name = "utf8", .type = EA_UTF8Z},
    {.name = "rest", .type = EA_UTF16_REST},
    {.name = NULL},
};

static void every_description(ea_text *out) {
    ea_class_row row = {"Test/Every", 7, 1, 1, EVERY_FIELD};
    ea_class_head head = {
        .provider = OTHER, .provider_name = "Test", .name = row.name, .code = 7, .version = 1, .pointer_size = 8};
    ea_class_describe(out, &head, &row);
    assert_false(out->failed);
}

static void every_payload(ea_text *t) {
    static const uint8_t SID[] = {1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0};
    static const uint8_t V6[] = {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1};
    float f32 = 1.5f;
    double f64 = -0.1;
    put(t, 2, 1);
    put(t, 0xff, 1);
    put(t, 0x17, 2);
    put(t, (uint64_t)-5, 8);
    ea_text_add(t, &f32, 4);
    ea_text_add(t, &f64, 8);
    put(t, 1, 1);
    put(t, 2, 4);
    ea_text_add(t, OTHER.bytes, 16);
    put(t, 116444736000000000, 8);
    put(t, 2020 | (uint64_t)2 << 16 | (uint64_t)6 << 32 | (uint64_t)29 << 48, 8);
    put(t, 12 | (uint64_t)34 << 16 | (uint64_t)56 << 32 | (uint64_t)789 << 48, 8);
    put(t, 0x0100007f, 4);
    ea_text_add(t, V6, 16);
    put(t, 0xbb01, 2);
    put(t, 99, 8);
    put(t, 'a' | 0x20ac0000, 4);
    put(t, 0, 4);
    ea_text_add(t, "x\0y", 3);
    put(t, 0xbeef, 2);
    put(t, 2, 2);
    put(t, 1, 1); /* items[0] */
    put(t, 4, 2);
    put(t, 'h' | 'i' << 16, 4);
    put(t, 500, 2);
    put(t, 0, 1); /* items[1] */
    put(t, 0, 2);
    ea_text_add(t, "p", 2);
    ea_text_add(t, "\xe4", 2);
    ea_text_add(t, SID, sizeof SID);
    put(t, 0, 4);
    ea_text_add(t, "\x1b[31m\xc3\xa9", 8);
    put(t, 'o' | 'k' << 16, 4);
}

static const char EVERY_JSON[] =
    "\"fields\":{\"u8\":{\"value\":2,\"name\":\"green\"},\"i8\":{\"value\":-1,\"name\":\"none\"},"
    "\"u16\":{\"value\":23,\"name\":\"one|two-and-four|0x10\"},\"i64\":-5,\"f32\":1.5,\"f64\":-0.10000000000000001,"
    "\"yes\":true,\"two\":2,\"guid\":\"01020304-0506-0708-090a-0b0c0d0e0f10\","
    "\"filetime\":\"1970-01-01T00:00:00.0000000Z\",\"systemtime\":\"2020-02-29T12:34:56.789\",\"v4\":\"127.0.0.1\","
    "\"v6\":\"2001:db8::1:0:0:1\",\"port\":443,\"size\":99,\"fixed\":\"a\xe2\x82\xac\",\"ansi_fixed\":\"x\",\"raw\":"
    "\"efbe\","
    "\"count\":2,\"items\":[{\"n\":1,\"inner\":{\"text\":\"hi\"},\"list\":[500]},{\"n\":0,\"inner\":{\"text\":\"\"},"
    "\"list\":[]}],\"names\":[\"p\",\"\xc3\xa4\"],\"sid\":\"S-1-5-32-544\",\"unset\":null,\"utf8\":\"\\u001b["
    "31m\xc3\xa9\","
    "\"rest\":\"ok\"}";

static const ea_class *every_class(ea_registry *r) {
    ea_text d;
    ea_err err;
    const ea_class *c, *again;
    ea_text_init(&d);
    every_description(&d);
    assert_int_equal(ea_registry_add_description(r, (const uint8_t *)d.data, d.len_bytes, &c, &err), 0);
    assert_int_equal(ea_registry_add_description(r, (const uint8_t *)d.data, d.len_bytes, &again, &err), 0);
    assert_ptr_equal(c, again);
    assert_ptr_equal(c, ea_registry_find_hash(r, c->hash));
    ea_text_deinit(&d);
    return c;
}

static void test_every_type(void **state) {
    (void)state;
    ea_registry *r = new_registry(0);
    const ea_class *c = every_class(r);
    ea_text payload, out;
    ea_text_init(&payload);
    ea_text_init(&out);
    every_payload(&payload);
    ea_record record = {
        .provider = OTHER, .payload = (uint8_t *)payload.data, .payload_bytes = (uint16_t)payload.len_bytes};
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, record.payload, record.payload_bytes, slices, &used);
    assert_int_equal(whole, c->top_count);
    assert_true(ea_class_is_whole(c, whole, used, record.payload_bytes));
    assert_int_equal(ea_class_top_field(c, 19), 19);
    assert_int_equal(ea_class_top_field(c, 20), 24); /* after the members of the struct */
    ea_render_json(&out, &record, c, &CLOCK, 0);
    assert_non_null(strstr(out.data, EVERY_JSON));
    ea_text_clear(&out);
    ea_render_text(&out, &record, c, &CLOCK);
    assert_null(strchr(out.data, 0x1b));
    assert_non_null(strstr(out.data, " items=[{n=1 inner={text=\"hi\"} list=[500]} {n=0"));
    ea_text_clear(&out);
    static const char *const COLUMNS[] = {"name", "missing", "u8", "names", "i64", "fields"};
    ea_render(&out, &record, c,
              &(ea_rendering){.form = EA_RENDER_CSV, .clock = &CLOCK, .columns = COLUMNS, .column_count = 6});
    assert_non_null(strstr(out.data, "Test/Every,,green(2),[p \xc3\xa4],-5,\"{\"\"u8\"\":"));
    ea_text_clear(&out);
    ea_render_columns_json(&out, &record, c, &CLOCK, (const char *const[]){"port", "nope"}, 2);
    assert_string_equal(out.data, "{\"port\":443,\"nope\":null}");
    /* cut everywhere: whole fields, then a tail, together always the payload */
    for (size_t n = 0; n <= payload.len_bytes; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        assert_non_null(copy);
        if (n)
            memcpy(copy, payload.data, n);
        size_t got = ea_class_split(c, copy, n, slices, &used), sum = 0;
        for (size_t i = 0; i < got; i++) {
            assert_ptr_equal(slices[i].data, copy + sum);
            sum += slices[i].len_bytes;
        }
        assert_int_equal(sum, used);
        assert_true(used <= n);
        record.payload = copy;
        record.payload_bytes = (uint16_t)n;
        ea_text_clear(&out);
        ea_render_json(&out, &record, c, &CLOCK, 1);
        ea_render_text(&out, &record, c, &CLOCK);
        assert_false(out.failed);
        free(copy);
    }
    ea_text_deinit(&payload);
    ea_text_deinit(&out);
    ea_registry_destroy(r);
}

/* A lying count, a lying length, a SID that claims too much: the field is not whole, and nothing is read outside. */
static void test_lies(void **state) {
    (void)state;
    ea_registry *r = new_registry(0);
    const ea_class *c = every_class(r);
    ea_text payload;
    ea_text_init(&payload);
    every_payload(&payload);
    ea_slice slices[EA_FIELDS_MAX];
    size_t used;
    size_t whole = ea_class_split(c, (uint8_t *)payload.data, payload.len_bytes, slices, &used);
    assert_int_equal(whole, c->top_count);
    size_t count_at = (size_t)(slices[18].data - (uint8_t *)payload.data),
           sid_at = (size_t)(slices[21].data - (uint8_t *)payload.data);
    uint8_t *bytes = (uint8_t *)payload.data;
    bytes[count_at + 1] = 0xff; /* 65,282 structs */
    assert_int_equal(ea_class_split(c, bytes, payload.len_bytes, slices, &used), 19);
    assert_int_equal(used, count_at + 2);
    bytes[count_at + 1] = 0;
    bytes[sid_at + 1] = 16;
    assert_int_equal(ea_class_split(c, bytes, payload.len_bytes, slices, &used), 21);
    assert_int_equal(used, sid_at);
    ea_text_deinit(&payload);
    ea_registry_destroy(r);
}

/* ---- descriptions ---- */

static void test_description_travels(void **state) {
    (void)state;
    ea_registry *here = new_registry(0), *there = new_registry(0);
    ea_text payload, a, b;
    ea_err err;
    ea_text_init(&payload);
    ea_text_init(&a);
    ea_text_init(&b);
    process_v4(&payload, 8);
    ea_record record = classic_record(&PROCESS, 2, 6, 8, &payload);
    const ea_class *c = ea_registry_find(here, &record), *d;
    assert_null(ea_registry_find_hash(there, c->hash));
    assert_int_equal(ea_registry_add_description(there, c->description, c->description_bytes, &d, &err), 0);
    assert_memory_equal(c->hash, d->hash, sizeof c->hash);
    assert_int_equal(d->status, EA_CLASS_NEWER);
    ea_render_json(&a, &record, c, &CLOCK, 1);
    ea_render_json(&b, &record, d, &CLOCK, 1);
    assert_string_equal(a.data, b.data);
    ea_text_deinit(&payload);
    ea_text_deinit(&a);
    ea_text_deinit(&b);
    ea_registry_destroy(here);
    ea_registry_destroy(there);
}

static void test_description_damage(void **state) {
    (void)state;
    ea_registry *r = new_registry(0);
    ea_text d;
    ea_err err;
    const ea_class *c;
    ea_text_init(&d);
    every_description(&d);
    uint8_t *bytes = (uint8_t *)d.data;
    for (size_t n = 0; n < d.len_bytes; n++) { /* cut anywhere */
        uint8_t *copy = malloc(n ? n : 1);
        assert_non_null(copy);
        if (n)
            memcpy(copy, bytes, n);
        assert_int_equal(ea_registry_add_description(r, copy, n, &c, &err), EA_ECORRUPT);
        free(copy);
    }
    ea_text_char(&d, 0); /* and one byte too many */
    assert_int_equal(ea_registry_add_description(r, (uint8_t *)d.data, d.len_bytes, &c, &err), EA_ECORRUPT);
    d.data[0] = 3;
    assert_int_equal(ea_registry_add_description(r, (uint8_t *)d.data, d.len_bytes, &c, &err), EA_EUNSUPPORTED);
    ea_text_deinit(&d);
    ea_registry_destroy(r);
}

static void refused(const ea_field_row *fields, const char *why) {
    ea_registry *r = new_registry(0);
    ea_class_row row = {"x", 0, 0, 0, fields};
    ea_class_head head = {.name = "x", .provider_name = "", .pointer_size = 8};
    ea_text d;
    ea_err err;
    const ea_class *c;
    ea_text_init(&d);
    ea_class_describe(&d, &head, &row);
    assert_int_equal(ea_registry_add_description(r, (uint8_t *)d.data, d.len_bytes, &c, &err), EA_ECORRUPT);
    if (!strstr(err.message, why))
        fail_msg("expected '%s', got '%s'", why, err.message);
    ea_text_deinit(&d);
    ea_registry_destroy(r);
}

static void test_description_refused(void **state) {
    (void)state;
    refused((ea_field_row[]){{.name = "a", .type = 99}, {.name = NULL}}, "type is not known");
    refused((ea_field_row[]){{.name = "a", .type = EA_STRUCT}, {.name = NULL}}, "no members");
    refused((ea_field_row[]){{.name = "a", .type = EA_STRUCT, .child_count = 2},
                             {.name = "b", .type = EA_U8},
                             {.name = NULL}},
            "more members than");
    refused((ea_field_row[]){{.name = "n", .type = EA_F32},
                             {.name = "a", .type = EA_U8, .count_field = "n"},
                             {.name = NULL}},
            "no plain number");
    refused((ea_field_row[]){{.name = "s", .type = EA_STRUCT, .child_count = 1},
                             {.name = "n", .type = EA_U8},
                             {.name = "a", .type = EA_U8, .count_field = "n"},
                             {.name = NULL}},
            "no plain number");
    refused((ea_field_row[]){{.name = "a", .type = EA_UTF16_REST, .count = 2}, {.name = NULL}}, "is an array");
    refused((ea_field_row[]){{.name = "a", .type = EA_GUID, .map = &COLOUR}, {.name = NULL}}, "no integer");
    ea_field_row deep[EA_DEPTH_MAX + 3] = {{.name = NULL}};
    for (int i = 0; i <= EA_DEPTH_MAX; i++)
        deep[i] = (ea_field_row){.name = "s", .type = EA_STRUCT, .child_count = 1};
    deep[EA_DEPTH_MAX + 1] = (ea_field_row){.name = "x", .type = EA_U8};
    refused(deep, "too deep");
}

/* ---- the registry ---- */

static void tracelogging(ea_text *t, const char *name, const char *field) {
    ea_text_clear(t);
    put(t, 3 + strlen(name) + 1 + strlen(field) + 2, 2);
    put(t, 0x81, 1); /* one tag byte, then the last one */
    put(t, 0x00, 1);
    ea_text_add(t, name, strlen(name) + 1);
    ea_text_add(t, field, strlen(field) + 1);
    put(t, 8, 1);
}

static void test_metadata_keys(void **state) {
    (void)state;
    ea_registry *r = new_registry(0);
    ea_text one, other;
    ea_text_init(&one);
    ea_text_init(&other);
    tracelogging(&one, "Begin", "x");
    tracelogging(&other, "Finish", "x");
    static const uint8_t traits[] = {9, 0, 'M', 'y', 'P', 'r', 'o', 'v', 0};
    ea_ext ext[2] = {{.type = EA_EXT_PROV_TRAITS, .data = traits, .size_bytes = sizeof traits},
                     {.type = EA_EXT_SCHEMA_TL, .data = (uint8_t *)one.data, .size_bytes = (uint32_t)one.len_bytes}};
    ea_record record = {.provider = OTHER, .pointer_size = 8, .ext = ext, .ext_count = 2};
    const ea_class *a = ea_registry_find(r, &record);
    ext[1].data = (uint8_t *)other.data;
    ext[1].size_bytes = (uint32_t)other.len_bytes;
    const ea_class *b = ea_registry_find(r, &record);
    assert_string_equal(a->name, "Begin");
    assert_string_equal(b->name, "Finish");
    assert_string_equal(b->provider_name, "MyProv");
    assert_int_equal(b->status, EA_CLASS_UNKNOWN);
    assert_ptr_equal(b, ea_registry_find(r, &record));
    record.ext_count = 1; /* an EventSource event: traits alone */
    const ea_class *c = ea_registry_find(r, &record);
    assert_string_equal(c->name, "");
    assert_string_equal(c->provider_name, "MyProv");
    record.ext_count = 0;
    assert_string_equal(ea_registry_find(r, &record)->provider_name, "");
    /* metadata cut anywhere */
    record.ext_count = 2;
    for (uint32_t n = 0; n <= one.len_bytes; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        assert_non_null(copy);
        if (n)
            memcpy(copy, one.data, n);
        ext[1].data = copy;
        ext[1].size_bytes = n;
        assert_non_null(ea_registry_find(r, &record));
        free(copy);
    }
    ea_text_deinit(&one);
    ea_text_deinit(&other);
    ea_registry_destroy(r);
}

static void test_limit(void **state) {
    (void)state;
    ea_registry *r = new_registry(100);
    ea_record record = {.provider = OTHER, .pointer_size = 8};
    const ea_class *first = ea_registry_find(r, &record), *last = first;
    for (unsigned id = 0; id < 1000; id++) {
        record.id = (uint16_t)id;
        last = ea_registry_find(r, &record);
        assert_int_equal(last->status, EA_CLASS_UNKNOWN);
    }
    assert_true(ea_guid_is_zero(&last->provider));
    assert_true(ea_registry_overflow_count(r) >= 900);
    record.id = 0;
    assert_ptr_equal(ea_registry_find(r, &record), first);
    ea_registry_destroy(r);
}

static void test_unknown_and_names(void **state) {
    (void)state;
    ea_registry *r = new_registry(0);
    static const ea_guid CLR = EA_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4);
    uint8_t payload[] = {1, 2, 3};
    ea_record record = {
        .provider = CLR, .id = 9999, .version = 3, .pointer_size = 8, .payload = payload, .payload_bytes = 3};
    const ea_class *c = ea_registry_find(r, &record);
    assert_string_equal(c->provider_name, "Microsoft-Windows-DotNETRuntime");
    assert_string_equal(c->name, "");
    ea_text out;
    ea_text_init(&out);
    ea_render_json(&out, &record, c, &CLOCK, 0);
    assert_non_null(strstr(out.data, "\"fields\":{\"_tail\":\"010203\"}"));
    assert_string_equal(ea_registry_provider_name(r, &IMAGE), "Windows Kernel Trace");
    assert_string_equal(ea_registry_provider_name(r, &OTHER), "");
    /* a row with a name and no layout */
    static const ea_guid CONFIG = EA_GUID(0x01853a65, 0x418f, 0x4f36, 0xae, 0xfc, 0xdc, 0x0f, 0x1d, 0x2f, 0xd2, 0x35);
    record = classic_record(&CONFIG, 19, 2, 8, NULL);
    c = ea_registry_find(r, &record);
    assert_string_equal(c->name, "SystemConfig/PhyDiskEx");
    assert_int_equal(c->status, EA_CLASS_UNKNOWN);
    ea_text_deinit(&out);
    ea_registry_destroy(r);
}

static void test_json_of_a_record(void **state) {
    (void)state;
    ea_registry *r = new_registry(0);
    ea_text out;
    ea_text_init(&out);
    uint8_t stack[24] = {0};
    stack[8] = 0x34;
    stack[9] = 0x12;
    stack[16] = 1;
    ea_ext ext[] = {{.type = EA_EXT_STACK_TRACE64, .linkage = 1, .data = stack, .size_bytes = sizeof stack},
                    {.type = EA_EXT_RELATED_ACTIVITY_ID, .data = OTHER.bytes, .size_bytes = 16},
                    {.type = 999, .data = stack, .size_bytes = 1}};
    ea_record record = {.provider = OTHER,
                        .id = 5,
                        .version = 1,
                        .channel = 2,
                        .level = 3,
                        .opcode = 4,
                        .task = 6,
                        .keyword = 0x8000000000000001,
                        .time_raw = 5,
                        .pid = 0xFFFFFFFF,
                        .tid = 7,
                        .cpu = 300,
                        .logger = 9,
                        .flags = 0x41,
                        .property = 2,
                        .kernel_time = 10,
                        .user_time = 11,
                        .activity_id = OTHER,
                        .pointer_size = 8,
                        .ext = ext,
                        .ext_count = 3,
                        .header_type = EA_HEADER_EVENT64,
                        .hook_id = 0x1234,
                        .header_word = 0xc013,
                        .source = 1};
    ea_render_json(&out, &record, ea_registry_find(r, &record), &CLOCK, 1);
    assert_string_equal(
        out.data,
        "{\"time\":\"1970-01-01T00:00:01.0000005Z\",\"clock\":5,\"provider\":\"01020304-0506-0708-090a-0b0c0d0e0f10\","
        "\"provider_name\":\"\",\"name\":\"\",\"id\":5,\"version\":1,\"channel\":2,\"level\":3,\"opcode\":4,\"task\":6,"
        "\"keyword\":\"0x8000000000000001\",\"cpu\":300,\"pid\":4294967295,\"tid\":7,"
        "\"activity_id\":\"01020304-0506-0708-090a-0b0c0d0e0f10\","
        "\"related_activity_id\":\"01020304-0506-0708-090a-0b0c0d0e0f10\",\"fields\":{},\"stack\":[\"0x1234\",\"0x1\"],"
        "\"flags\":65,\"property\":2,\"kernel_time\":10,\"user_time\":11,\"logger\":9,\"pointer_size\":8,"
        "\"header\":{\"type\":\"EVENT64\",\"hook_id\":4660,\"word\":49171,\"source\":1},\"payload\":\"\",\"extended\":["
        "{\"type\":6,\"name\":\"STACK_TRACE64\",\"linkage\":1,\"data\":"
        "\"000000000000000034120000000000000100000000000000\"},"
        "{\"type\":1,\"name\":\"RELATED_ACTIVITY_ID\",\"linkage\":0,\"data\":\"0403020106050807090a0b0c0d0e0f10\"},"
        "{\"type\":999,\"name\":\"\",\"linkage\":0,\"data\":\"00\"}]}");
    ea_text_deinit(&out);
    ea_registry_destroy(r);
}

/* PROVIDER/ID names an event that has an id, whatever its manifest calls it. */
static void test_aliases(void **state) {
    (void)state;
    static const ea_guid g = EA_GUID(0xa0c1853b, 0x5c40, 0x4b15, 0x87, 0x66, 0x3c, 0xf1, 0xc5, 0x8f, 0x98, 0x5a);

    static const struct {
        const char *text;
        int named;
    } CASES[] = {{"PowerShell/4104", 1},
                 {"powershell/4104", 1},
                 {"Microsoft-Windows-PowerShell/4104", 1},
                 {"a0c1853b-5c40-4b15-8766-3cf1c58f985a/4104", 1},
                 {"PowerShell/*", 1},
                 {"StartingCommand/Oncreatecalls", 1},
                 {"StartingCommand/*", 1},
                 {"PowerShell/410", 0},
                 {"PowerShell/14104", 0},
                 {"PowerShell/69640", 0}, /* 4104 + 65536 */
                 {"PowerShell/999999994104", 0},
                 {"PowerShel/4104", 0},
                 {"/4104", 0},
                 {"4104", 0},
                 {"PowerShell/", 0},
                 {"", 0}};

    ea_class c = {.provider = g,
                  .provider_name = "Microsoft-Windows-PowerShell",
                  .name = "StartingCommand/Oncreatecalls",
                  .code = 4104};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++)
        if (ea_class_is_named(CASES[i].text, &c) != CASES[i].named)
            fail_msg("%s", CASES[i].text);
    c.classic = 1; /* the code is an opcode */
    assert_false(ea_class_is_named("PowerShell/4104", &c));
    c.classic = 0;
    ea_class_choice choice = {.ids = {{"4103", "4104"}, 2}, .providers = {{"PowerShell"}, 1}};
    ea_class_chooser ch;
    ea_err err;
    assert_int_equal(ea_class_chooser_init(&ch, &choice, &err), 0);
    assert_true(ea_class_chooser_wants(&ch, &c));
    assert_int_equal(ea_class_chooser_check(&ch, &err), EA_ENOTFOUND); /* 4103 */
    ea_class other = c;
    other.code = 4105;
    assert_false(ea_class_chooser_wants(&ch, &other));
    ea_class_chooser_deinit(&ch);
    choice.ids.items[0] = "70000";
    assert_int_equal(ea_class_chooser_init(&ch, &choice, &err), EA_EUSAGE);
    ea_class_chooser_deinit(&ch);
}

/* A payload cut at each byte: the fields that it holds whole, and where those after the fixed ones begin. */
static void test_cut_payloads(void **state) {
    (void)state;

    enum { PROCESS_START = 1 };

    ea_registry *reg = new_registry(0);
    ea_text t;
    ea_text_init(&t);
    process_v4(&t, 8);
    ea_record r = classic_record(&PROCESS, PROCESS_START, 4, 8, &t);
    const ea_class *c = ea_registry_find(reg, &r);
    assert_true(c->fixed_fields > 3 && c->fixed_fields < c->top_count);
    for (size_t bytes = 0; bytes <= t.len_bytes; bytes++) {
        ea_slice slices[EA_FIELDS_MAX];
        uint16_t places[EA_FIELDS_MAX];
        uint8_t *exact = malloc(bytes + !bytes); /* so that a sanitizer sees a read after the end */
        assert_non_null(exact);
        memcpy(exact, t.data, bytes);
        size_t used, split_used, whole = ea_class_places(c, exact, bytes, places, &used), fixed = 0;
        assert_int_equal(ea_class_places(c, exact, bytes, NULL, &split_used), whole);
        assert_int_equal(split_used, used);
        assert_int_equal(ea_class_split(c, exact, bytes, slices, &split_used), whole);
        assert_int_equal(split_used, used);
        size_t end = 0;
        for (size_t i = 0; i < c->fixed_fields; i++)
            fixed += c->fields[i].offset + (size_t)c->fields[i].width * c->fields[i].count <= bytes;
        for (size_t i = 0; i < whole; i++) {
            assert_ptr_equal(slices[i].data, exact + end);
            if (i >= c->fixed_fields)
                assert_int_equal(places[i - c->fixed_fields], end);
            end += slices[i].len_bytes;
        }
        assert_int_equal(end, used);
        assert_int_equal(whole < c->fixed_fields ? whole : c->fixed_fields, fixed);
        free(exact);
    }
    ea_text_deinit(&t);
    ea_registry_destroy(reg);
}

/* More classes than the registry remembers places for, in turn; then metadata that differ in one late byte only. */
static void test_recent_classes(void **state) {
    (void)state;

    enum { PROVIDERS = 1000, EVENTS = 200, METADATA_BYTES = 40 };

    ea_registry *reg = new_registry(0);
    const ea_class *first[PROVIDERS];
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < PROVIDERS; i++) {
            ea_record r = classic_record(&OTHER, (uint8_t)(i / 10), (uint8_t)(i % 10), 8, NULL);
            r.logger = (uint16_t)round; /* no part of the class */
            const ea_class *c = ea_registry_find(reg, &r);
            assert_int_equal(c->code, i / 10);
            assert_int_equal(c->version, i % 10);
            if (round)
                assert_ptr_equal(c, first[i]);
            first[i] = c;
        }
    ea_record wide = classic_record(&OTHER, 7, 1, 4, NULL), modern = classic_record(&OTHER, 0, 1, 8, NULL);
    modern.flags = 0;
    modern.id = 7;
    assert_int_equal(ea_registry_find(reg, &wide)->pointer_size, 4);
    assert_int_equal(ea_registry_find(reg, &modern)->classic, 0);
    const ea_class *events[EVENTS];
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < EVENTS; i++) {
            uint8_t metadata[METADATA_BYTES];
            memset(metadata, 'x', sizeof metadata);
            ea_store16(metadata, METADATA_BYTES);
            metadata[2] = 0;
            metadata[METADATA_BYTES - 3] = (uint8_t)('A' + i / 20);
            metadata[METADATA_BYTES - 2] = (uint8_t)('A' + i % 20);
            metadata[METADATA_BYTES - 1] = 0;
            const ea_ext item = {.type = EA_EXT_SCHEMA_TL, .data = metadata, .size_bytes = METADATA_BYTES};
            ea_record r = {.provider = OTHER, .pointer_size = 8, .ext = &item, .ext_count = 1};
            for (unsigned again = 0; again < 2; again++) { /* the second time from its place */
                const ea_class *c = ea_registry_find(reg, &r);
                assert_int_equal(strlen(c->name), METADATA_BYTES - 4);
                assert_memory_equal(c->name, metadata + 3, METADATA_BYTES - 3);
                if (round || again)
                    assert_ptr_equal(c, events[i]);
                events[i] = c;
            }
        }
    ea_registry_destroy(reg);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_process),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_optional_field),
        cmocka_unit_test(test_stack),
        cmocka_unit_test(test_every_type),
        cmocka_unit_test(test_lies),
        cmocka_unit_test(test_description_travels),
        cmocka_unit_test(test_description_damage),
        cmocka_unit_test(test_description_refused),
        cmocka_unit_test(test_metadata_keys),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_unknown_and_names),
        cmocka_unit_test(test_json_of_a_record),
        cmocka_unit_test(test_aliases),
        cmocka_unit_test(test_cut_payloads),
        cmocka_unit_test(test_recent_classes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
