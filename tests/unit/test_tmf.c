/* WPP messages: known by GUID and number, and decoded by what a .tmf file says; files with mistakes. */
#include "proto/event/render.h"
#include "proto/event/schema/tmf.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};
static const ea_guid SOURCE = EA_GUID(0x2158e7d3, 0x9867, 0xcde3, 0x18, 0xb5, 0x97, 0x13, 0xc6, 0x28, 0xab, 0xdf);

typedef struct fixture {
    ea_schemas *schemas;
    ea_registry *registry;
    ea_text payload, out;
} fixture;

static void setup(fixture *f) {
    assert_int_equal(ea_schemas_create(&f->schemas, 0, NULL), 0);
    assert_int_equal(ea_registry_create(&f->registry, 0, NULL), 0);
    ea_registry_set_schemas(f->registry, f->schemas);
    ea_text_init(&f->payload);
    ea_text_init(&f->out);
}

static void teardown(fixture *f) {
    ea_registry_destroy(f->registry);
    ea_schemas_destroy(f->schemas);
    ea_text_deinit(&f->payload);
    ea_text_deinit(&f->out);
}

static ea_tmf_result read_text(fixture *f, const char *text) {
    ea_tmf_result result;
    ea_err err;
    assert_int_equal(ea_tmf_read(f->schemas, "t.tmf", text, strlen(text), &result, &err), 0);
    ea_registry_schemas_changed(f->registry);
    return result;
}

static ea_record record_of(const fixture *f, uint16_t number, uint8_t pointer_size) {
    return (ea_record){.provider = SOURCE,
                       .id = number,
                       .header_type = EA_HEADER_MESSAGE,
                       .flags = EA_FLAG_TRACE_MESSAGE | EA_FLAG_CLASSIC_HEADER,
                       .pointer_size = pointer_size,
                       .payload = (const uint8_t *)f->payload.data,
                       .payload_bytes = (uint16_t)f->payload.len_bytes};
}

/* The message's words; whole: nothing is left over. */
static void expect(fixture *f, uint16_t number, uint8_t pointer_size, const char *words) {
    ea_slice slices[EA_FIELDS_MAX];
    ea_record r = record_of(f, number, pointer_size);
    const ea_class *c = ea_registry_find(f->registry, &r);
    size_t used, whole = ea_class_split(c, r.payload, r.payload_bytes, slices, &used);
    assert_int_equal(c->status, EA_CLASS_KNOWN);
    assert_true(ea_class_is_whole(c, whole, used, r.payload_bytes));
    ea_text_clear(&f->out);
    ea_render_message(&f->out, &r, c, &CLOCK);
    assert_string_equal(f->out.data, words);
}

static void put(fixture *f, uint64_t v, size_t width) {
    for (size_t i = 0; i < width; i++)
        ea_text_char(&f->payload, (char)(v >> 8 * i));
}

static void put_utf16(fixture *f, const char *s, int nul) {
    for (; *s; s++)
        put(f, (uint8_t)*s, 2);
    if (nul)
        put(f, 0, 2);
}

static void test_unknown(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    ea_text_str(&f.payload, "abc");
    ea_record r = record_of(&f, 207, 8), other = record_of(&f, 208, 8);
    const ea_class *c = ea_registry_find(f.registry, &r);
    assert_string_equal(c->name, "WPP/207");
    assert_int_equal(c->code, 207);
    assert_int_equal(c->status, EA_CLASS_UNKNOWN);
    assert_ptr_not_equal(ea_registry_find(f.registry, &other), c);
    ea_render_json(&f.out, &r, c, &CLOCK, 0);
    assert_non_null(strstr(f.out.data, "\"provider\":\"2158e7d3-9867-cde3-18b5-9713c628abdf\""));
    assert_non_null(strstr(f.out.data, "\"name\":\"WPP/207\",\"id\":207,"));
    assert_non_null(strstr(f.out.data, "\"fields\":{\"_tail\":\"616263\"}"));
    teardown(&f);
}

static void test_messages(void **state) {
    (void)state;
    fixture f;
    setup(&f);
    ea_tmf_result result = read_text(
        &f,
        "// PDB:  driver.pdb\r\n"
        "2158e7d3-9867-cde3-18b5-9713c628abdf TEEDriver // SRC=Queue.c MJ= MN=\r\n"
        "#typev Queue_c2319 207 \"%0PowerDown = %10!x! %11!d!5\" //   LEVEL=TRACE_LEVEL_VERBOSE FLAGS=TRACE_QUEUE "
        "FUNC=OnStop\r\n"
        "{\r\n"
        "devExt->powerDown, ItemLong -- 10\r\n"
        "min(a, b), ItemLong -- 11\r\n"
        "}\r\n"
        "#typev Queue_c20 10 \"%0%!FUNC!: nothing \\\"at all\\\", 100%%\" //   LEVEL=TRACE_LEVEL_ERROR FUNC=OnStart\r\n"
        "{\r\n"
        "}\r\n"
        "#typev Queue_c21 11 \"%0no braces\" // \r\n"
        "#typev Queue_c30 12 \"%0%13!s! %10!s! %12!s! %11!s! %14!s! %15!s!\"\r\n"
        "{\r\n"
        "arg, ItemWString -- 10\r\n"
        "arg, ItemPString -- 11\r\n"
        "arg, ItemPWString -- 12\r\n"
        "Irp->IoStatus.Status, ItemNTSTATUS -- 13\r\n"
        "arg, ItemListByte(PASSIVE,APC,DISPATCH=0x7) -- 14\r\n"
        "arg, ItemSetLong(read,write,execute) -- 15\r\n"
        "}\r\n"
        "#typev Queue_c31 13 \"%0%10!p! %11!s! %12!s!:%13!s! [%14!s!] %15!s!\" // LEVEL=x\n"
        "{\n"
        "ptr, ItemPtr -- 10\n"
        "guid, ItemGuid -- 11\n"
        "ip, ItemIPAddr -- 12\n"
        "port, ItemPort -- 13\n"
        "buffer, ItemHEXDump -- 14\n"
        "what, ItemFromTheFuture -- 15\n"
        "}\n");
    assert_int_equal(result.problems, 0);
    assert_int_equal(result.messages, 5);

    put(&f, 0x1F, 4);
    put(&f, (uint64_t)-3, 4);
    expect(&f, 207, 8, "PowerDown = 0x1f -35");
    ea_record r = record_of(&f, 207, 8);
    const ea_class *c = ea_registry_find(f.registry, &r);
    assert_string_equal(c->name, "Queue_c2319");
    assert_string_equal(c->provider_name, "TEEDriver");
    ea_text_clear(&f.out);
    ea_render_json(&f.out, &r, c, &CLOCK, 0);
    assert_non_null(strstr(f.out.data, "\"fields\":{\"devExt->powerDown\":\"0x1f\",\"min(a, b)\":-3}"));
    assert_non_null(strstr(f.out.data, "\"level_name\":\"TRACE_LEVEL_VERBOSE\""));

    ea_text_clear(&f.payload);
    expect(&f, 10, 8, "OnStart: nothing \"at all\", 100%");
    expect(&f, 11, 4, "no braces");

    put_utf16(&f, "wide", 1);
    put(&f, 6, 2);
    ea_text_str(&f.payload, "narrow");
    put(&f, 4, 2);
    put_utf16(&f, "ab", 0);
    put(&f, 0xC0000022, 4);
    put(&f, 7, 1);
    put(&f, 5, 4);
    expect(&f, 12, 8, "ACCESS_DENIED wide ab narrow DISPATCH read|execute");

    for (uint8_t pointer_size = 4; pointer_size <= 8; pointer_size += 4) {
        ea_text_clear(&f.payload);
        put(&f, 0x12345678, pointer_size);
        ea_text_add(&f.payload, SOURCE.bytes, sizeof SOURCE.bytes);
        put(&f, 0x0100007F, 4);
        put(&f, 0xBB01, 2);
        put(&f, 3, 2);
        put(&f, 0x030201, 3);
        put(&f, 0x0605, 2);
        expect(&f, 13, pointer_size, "0x12345678 {2158e7d3-9867-cde3-18b5-9713c628abdf} 127.0.0.1:443 [010203] 0506");
    }
    teardown(&f);
}

/* Each mistake is reported with its line. Valid lines around it are used. */
static void test_mistakes(void **state) {
    (void)state;

    static const struct {
        const char *text;
        unsigned long line;
        size_t messages;
    } CASES[] = {
        {"#typev a_c1 10 \"x\" //\n", 1, 0},
        {"2158e7d3-9867-cde3-18b5-9713c628abdf X // SRC=a.c\n#typev a_c1 65536 \"x\" //\n#typev a_c2 1 \"y\" //\n", 2,
         1},
        {"2158e7d3-9867-cde3-18b5-9713c628abdf X\n#typev a_c1 1 \"x //\n{\nq\n}\n#typev a_c2 2 \"y\" //\n", 2, 1},
        {"2158e7d3-9867-cde3-18b5-9713c628abdf X\n#typev a 1 \"x\"\n{\nx, ItemLong\n}\n#typev b 2 \"y\"\n", 4, 1},
        {"2158e7d3-9867-cde3-18b5-9713c628abdf X\n#typev a 1 \"x\"\n{\nx, ItemLong -- 1000\n", 4, 0},
        {"2158e7d3-9867-cde3-18b5-9713c628abdf X\n#typev a\n", 2, 0},
    };

    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        fixture f;
        setup(&f);
        ea_tmf_result result = read_text(&f, CASES[i].text);
        assert_true(result.problems >= 1);
        assert_int_equal(result.first_line, CASES[i].line);
        assert_true(*result.first_problem);
        assert_int_equal(result.messages, CASES[i].messages);
        teardown(&f);
    }
    fixture f;
    ea_tmf_result result;
    ea_err err;
    setup(&f);
    assert_int_equal(ea_tmf_read(f.schemas, "t.tmf", "nothing\n", 8, &result, &err), EA_EFORMAT);
    assert_int_equal(ea_tmf_read(f.schemas, "t.tmf", "", 0, &result, &err), EA_EFORMAT);
    teardown(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_mistakes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
