/* Schemas from outside: what a manifest becomes, what is said of mistakes, messages, and the store of schemas. */
#include "manifest.h"
#include "render.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const ea_guid EXAMPLE = EA_GUID(0x11111111, 0x2222, 0x3333, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55);
static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};

typedef struct said {
    size_t count;
    unsigned long line, column;
    char text[512];
} said;

static void listen(void *arg, unsigned long line, unsigned long column, const char *text) {
    said *s = arg;
    if (!s->count++) {
        s->line = line;
        s->column = column;
        snprintf(s->text, sizeof s->text, "%s", text);
    }
}

/* A provider's inside as a whole manifest. */
static ea_manifest_result read_provider(ea_schemas *into, const char *inside, const char *language, said *s) {
    ea_text t;
    ea_manifest_result result;
    ea_err err;
    ea_text_init(&t);
    ea_text_str(&t,
                "<instrumentationManifest xmlns='http://schemas.microsoft.com/win/2004/08/events'>"
                "<instrumentation><events><provider name='Example' guid='{11111111-2222-3333-4444-555555555555}'>\n");
    ea_text_str(&t, inside);
    ea_text_str(&t,
                "</provider></events></instrumentation><localization>"
                "<resources culture='de-DE'><stringTable><string id='m' value='Deutsch %1'/></stringTable></resources>"
                "<resources culture='en-US'><stringTable><string id='m' value='English %1'/>"
                "<string id='only' value='100%% of %2!d!%n%3%0 not shown'/></stringTable></resources>"
                "</localization></instrumentationManifest>");
    memset(s, 0, sizeof *s);
    ea_manifest_options o = {
        .file = "x.man", .language = language, .layer = EA_SCHEMA_GIVEN, .on_problem = listen, .arg = s};
    if (ea_manifest_read(into, t.data, t.len_bytes, &o, &result, &err))
        fail_msg("%s", err.message);
    ea_text_deinit(&t);
    return result;
}

static ea_schemas *new_schemas(void) {
    ea_schemas *s;
    assert_int_equal(ea_schemas_create(&s, 0, NULL), 0);
    return s;
}

static ea_registry *new_registry(const ea_schemas *schemas) {
    ea_registry *r;
    assert_int_equal(ea_registry_create(&r, 0, NULL), 0);
    ea_registry_set_schemas(r, schemas);
    return r;
}

static void expect_json(const ea_class *c, const ea_record *record, const char *part) {
    ea_text out;
    ea_text_init(&out);
    ea_render_json(&out, record, c, &CLOCK, 0);
    if (!strstr(out.data, part))
        fail_msg("expected %s in %s", part, out.data);
    ea_text_deinit(&out);
}

static void test_all_that_a_template_can_say(void **state) {
    (void)state;
    static const uint8_t PAYLOAD[] = {
        2,   0,                                 /* n */
        'h', 0,   'i', 0,                       /* s, two characters */
        1,   0,   0,   0,                       /* v */
        6,   0,   0,   0,                       /* f */
        'a', 0,                                 /* a */
        'x', 'y', 'z', 'w', 7,   0, 0, 0, 0, 0, /* st[2]: three bytes and two */
        3,   0,   1,   2,   3,                  /* counted binary */
        2,   0,   0,   80,  127, 0, 0, 1,       /* address */
        9,   8                                  /* rest */
    };
    said s;
    ea_schemas *schemas = new_schemas();
    ea_manifest_result result = read_provider(
        schemas,
        "<maps><valueMap name='v'><map value='1' symbol='one'/></valueMap>"
        "<bitMap name='b'><map value='2' symbol='two'/></bitMap></maps>"
        "<keywords><keyword name='k' mask='0x4'/><keyword name='other' mask='0x8'/></keywords>"
        "<tasks><task name='T' value='7'><opcodes><opcode name='O' value='40'/></opcodes></task></tasks>"
        "<channels><channel name='Own/Trace' chid='c'/></channels>"
        "<templates><template tid='t'><data name='n' inType='win:UInt16'/>"
        "<data name='s' inType='win:UnicodeString' length='n'/><data name='v' inType='win:UInt32' map='v'/>"
        "<data name='f' inType='win:UInt32' outType='win:HexInt32' map='b'/><data name='a' inType='win:AnsiString'/>"
        "<struct name='st' count='n'><data name='m' inType='win:Binary' length='3'/>"
        "<data name='w' inType='win:UInt16'/></struct>"
        "<data name='cb' inType='win:CountedBinary'/>"
        "<data name='sa' inType='win:Binary' length='8' outType='win:SocketAddress'/>"
        "<data name='rest' inType='win:Binary'/></template></templates>"
        "<events><event value='5' version='2' template='t' task='T' opcode='O' level='win:Error' channel='c' "
        "keywords='k' message='$(string.m)'/></events>",
        NULL, &s);
    if (s.count)
        fail_msg("%lu:%lu: %s", s.line, s.column, s.text);
    assert_int_equal(result.events, 1);
    assert_int_equal(result.changed, 1);
    ea_registry *r = new_registry(schemas);
    ea_record record = {.provider = EXAMPLE,
                        .id = 5,
                        .version = 2,
                        .keyword = 0x8000000000000004u,
                        .pointer_size = 8,
                        .payload = PAYLOAD,
                        .payload_bytes = sizeof PAYLOAD};
    const ea_class *c = ea_registry_find(r, &record);
    assert_string_equal(c->provider_name, "Example");
    assert_string_equal(c->name, "T/O");
    assert_int_equal(c->status, EA_CLASS_KNOWN);
    expect_json(c, &record,
                "\"fields\":{\"n\":2,\"s\":\"hi\",\"v\":{\"value\":1,\"name\":\"one\"},"
                "\"f\":{\"value\":\"0x6\",\"name\":\"two|0x4\"},\"a\":\"a\","
                "\"st\":[{\"m\":\"78797a\",\"w\":1911},{\"m\":\"000000\",\"w\":0}],\"cb\":\"010203\","
                "\"sa\":{\"value\":\"020000507f000001\",\"name\":\"127.0.0.1:80\"},\"rest\":\"0908\"}");
    expect_json(c, &record,
                "\"level_name\":\"Error\",\"channel_name\":\"Own/Trace\",\"task_name\":\"T\",\"opcode_name\":\"O\","
                "\"keyword_names\":[\"k\"],\"message\":\"English 2\"");
    /* a newer version: the fields that are known, then the rest; an older one: nothing */
    record.version = 9;
    assert_int_equal(ea_registry_find(r, &record)->status, EA_CLASS_NEWER);
    record.version = 1;
    assert_int_equal(ea_registry_find(r, &record)->status, EA_CLASS_UNKNOWN);
    /* the description says it all: elsewhere nothing else is needed */
    ea_registry *there = new_registry(NULL);
    const ea_class *d;
    assert_int_equal(ea_registry_add_description(there, c->description, c->description_bytes, &d, NULL), 0);
    record.version = 2;
    expect_json(d, &record, "\"message\":\"English 2\"");
    uint8_t copy[4096];
    assert_true(c->description_bytes < sizeof copy);
    for (uint32_t n = 0; n < c->description_bytes; n++) { /* cut anywhere */
        uint8_t *cut = malloc(n ? n : 1);
        assert_non_null(cut);
        memcpy(cut, c->description, n);
        assert_int_equal(ea_registry_add_description(there, cut, n, &d, NULL), EA_ECORRUPT);
        free(cut);
    }
    ea_registry_destroy(there);
    ea_registry_destroy(r);
    ea_schemas_destroy(schemas);
}

static void test_language_and_messages(void **state) {
    (void)state;
    static const uint8_t PAYLOAD[] = {1, 2, 3};
    static const char *const INSIDE =
        "<templates><template tid='t'><data name='a' inType='win:UInt8'/><data name='b' inType='win:UInt8'/>"
        "<data name='c' inType='win:UInt8'/></template></templates>"
        "<events><event value='1' template='t' message='$(string.m)'/>"
        "<event value='2' template='t' message='$(string.only)'/></events>";
    const struct {
        const char *language;
        uint16_t id;
        const char *message;
    } CASES[] = {{NULL, 1, "English 1"},    {"de-DE", 1, "Deutsch 1"},     {"de", 1, "Deutsch 1"},
                 {"fr-FR", 1, "Deutsch 1"}, {"de-AT", 2, "100% of 2\\n3"}, {"EN-us", 2, "100% of 2\\n3"}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        said s;
        char part[64];
        ea_schemas *schemas = new_schemas();
        read_provider(schemas, INSIDE, CASES[i].language, &s);
        assert_int_equal(s.count, 0);
        ea_registry *r = new_registry(schemas);
        ea_record record = {
            .provider = EXAMPLE, .id = CASES[i].id, .pointer_size = 4, .payload = PAYLOAD, .payload_bytes = 3};
        snprintf(part, sizeof part, "\"message\":\"%s\"", CASES[i].message);
        expect_json(ea_registry_find(r, &record), &record, part);
        ea_registry_destroy(r);
        ea_schemas_destroy(schemas);
    }
}

/* A wrong event costs itself only. */
static void test_mistakes_are_told(void **state) {
    (void)state;
    said s;
    ea_schemas *schemas = new_schemas();
    ea_manifest_result result =
        read_provider(schemas, "<events><event value='1' task='none'/>\n <event value='2'/></events>", NULL, &s);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.line, 2);
    assert_int_equal(s.column, 9);
    assert_non_null(strstr(s.text, "event 1: task 'none': expected"));
    assert_int_equal(result.problems, 1);
    assert_int_equal(result.events, 1);
    assert_int_equal(ea_schemas_count(schemas), 1);
    ea_schemas_destroy(schemas);
}

static void test_changed_schemas(void **state) {
    (void)state;
    said s;
    ea_schemas *schemas = new_schemas();
    ea_registry *r = new_registry(schemas);
    ea_record record = {.provider = EXAMPLE, .id = 1, .pointer_size = 8};
    assert_int_equal(ea_registry_find(r, &record)->status, EA_CLASS_UNKNOWN);
    static const char
        *const A = "<templates><template tid='t'><data name='a' inType='win:UInt8'/></template></templates>"
                   "<events><event value='1' template='t'/></events>",
               *const B = "<templates><template tid='t'><data name='b' inType='win:UInt8'/></template></templates>"
                          "<events><event value='1' template='t'/></events>";
    assert_int_equal(read_provider(schemas, A, NULL, &s).changed, 1);
    ea_registry_schemas_changed(r);
    const ea_class *a = ea_registry_find(r, &record);
    assert_string_equal(a->fields[0].name, "a");
    assert_int_equal(read_provider(schemas, A, NULL, &s).changed, 0);
    assert_int_equal(read_provider(schemas, B, NULL, &s).changed, 1);
    ea_registry_schemas_changed(r);
    assert_string_equal(ea_registry_find(r, &record)->fields[0].name, "b");
    assert_string_equal(a->fields[0].name, "a"); /* what was handed out stays */
    assert_int_equal(ea_schemas_provider_count(schemas), 1);
    ea_registry_destroy(r);
    ea_schemas_destroy(schemas);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_a_template_can_say),
        cmocka_unit_test(test_language_and_messages),
        cmocka_unit_test(test_mistakes_are_told),
        cmocka_unit_test(test_changed_schemas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
