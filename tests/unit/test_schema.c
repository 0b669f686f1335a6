/* External schemas: the classes of a manifest, the errors for mistakes, messages, and the store of schemas. */
#include "proto/event/class.h"
#include "proto/event/render.h"
#include "proto/event/schema/intrace.h"
#include "proto/event/schema/manifest.h"

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

static ea_registry *new_registry(ea_schemas *schemas) {
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
static void test_mistakes_are_reported(void **state) {
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

/* ---- what a trace brings along ---- */

typedef struct metadata {
    uint8_t bytes[2048];
    size_t len_bytes;
} metadata;

static void add_bytes(metadata *m, const void *data, size_t len_bytes) {
    assert_true(m->len_bytes + len_bytes <= sizeof m->bytes);
    memcpy(m->bytes + m->len_bytes, data, len_bytes);
    m->len_bytes += len_bytes;
    ea_store16(m->bytes, (uint16_t)m->len_bytes);
}

static metadata new_metadata(const char *event) {
    metadata m = {.len_bytes = 2};
    add_bytes(&m, "\x81\x05", 2); /* tag 0x85 */
    add_bytes(&m, event, strlen(event) + 1);
    return m;
}

static void add_field(metadata *m, const char *name, const void *types, size_t len_bytes) {
    add_bytes(m, name, strlen(name) + 1);
    add_bytes(m, types, len_bytes);
}

static ea_record logged(const metadata *m, ea_ext *item, const void *payload, size_t payload_bytes) {
    *item = (ea_ext){.type = EA_EXT_SCHEMA_TL, .size_bytes = (uint32_t)m->len_bytes, .data = m->bytes};
    return (ea_record){.provider = EXAMPLE,
                       .pointer_size = 8,
                       .ext = item,
                       .ext_count = 1,
                       .payload = payload,
                       .payload_bytes = (uint16_t)payload_bytes};
}

static void test_tracelogging_of_every_shape(void **state) {
    (void)state;
    static const uint8_t PAYLOAD[] = {1,  0, 0,   0,   2, 0, 0, 0,    /* fixed[2] */
                                      2,  0, 5,   0,   6, 0,          /* counted[2] */
                                      2,  0, 'o', 'k',                /* text of counted characters */
                                      3,  0, 1,   2,   3,             /* binary */
                                      4,  0, 127, 0,   0, 1,          /* address as binary */
                                      2,  0, 7,   1,   0, 9, 8, 0, 0, /* rows[2]: a byte and counted numbers */
                                      2,  0, 'c', 'u',                /* of its own type */
                                      255};
    metadata m = new_metadata("Everything");
    add_field(&m, "fixed", "\x28\x02\x00", 3);
    add_field(&m, "counted", "\x46", 1);
    add_field(&m, "text", "\xC4\x02", 2);
    add_field(&m, "binary", "\x0E", 1);
    add_field(&m, "ip", "\x8E\x09", 2);
    add_field(&m, "nothing", "\x80\x01", 2);
    add_field(&m, "rows", "\xD8\x82\x07", 3); /* two members, and a tag */
    add_field(&m, "b", "\x04", 1);
    add_field(&m, "n", "\x44", 1);
    add_field(&m, "custom", "\x60\x03\x00xyz", 6);
    add_field(&m, "last", "\x84\x04", 2);
    ea_registry *r = new_registry(NULL);
    ea_ext item;
    ea_record record = logged(&m, &item, PAYLOAD, sizeof PAYLOAD);
    const ea_class *c = ea_registry_find(r, &record);
    assert_string_equal(c->name, "Everything");
    assert_int_equal(c->status, EA_CLASS_KNOWN);
    expect_json(c, &record,
                "\"fields\":{\"fixed\":[1,2],\"counted\":[5,6],\"text\":\"ok\",\"binary\":\"010203\","
                "\"ip\":\"127.0.0.1\",\"rows\":[{\"b\":7,\"n\":[9]},{\"b\":8,\"n\":[]}],\"custom\":\"6375\","
                "\"last\":\"0xff\"}");
    expect_json(c, &record, "\"tag\":\"0x85\"");
    for (size_t n = 0; n < m.len_bytes; n++) { /* metadata cut anywhere: the event is kept, its bytes are its tail */
        uint8_t *cut = malloc(n ? n : 1);
        assert_non_null(cut);
        memcpy(cut, m.bytes, n);
        item.data = cut;
        item.size_bytes = (uint32_t)n;
        assert_int_equal(ea_registry_find(r, &record)->status, EA_CLASS_UNKNOWN);
        free(cut);
    }
    ea_registry_destroy(r);
}

/* Same provider, same name, other fields; deep nesting; arrays that claim more than there is. */
static void test_tracelogging_that_is_hostile(void **state) {
    (void)state;
    static const uint8_t PAYLOAD[] = {1, 2, 3, 4};
    metadata a = new_metadata("E"), b = new_metadata("E"), deep = new_metadata("Deep"), huge = new_metadata("Huge");
    ea_registry *r = new_registry(NULL);
    ea_ext item;
    add_field(&a, "x", "\x08", 1);
    add_field(&b, "y", "\x06", 1);
    add_field(&b, "z", "\x06", 1);
    ea_record record = logged(&a, &item, PAYLOAD, 4);
    expect_json(ea_registry_find(r, &record), &record, "\"fields\":{\"x\":67305985}");
    record = logged(&b, &item, PAYLOAD, 4);
    expect_json(ea_registry_find(r, &record), &record, "\"fields\":{\"y\":513,\"z\":1027}");
    for (int i = 0; i < 100; i++)
        add_field(&deep, "s", "\x98\x01", 2);
    add_field(&deep, "x", "\x04", 1);
    record = logged(&deep, &item, PAYLOAD, 4);
    const ea_class *c = ea_registry_find(r, &record);
    assert_int_equal(c->status, EA_CLASS_UNKNOWN);
    assert_string_equal(c->name, "Deep");
    expect_json(c, &record, "\"fields\":{\"_tail\":\"01020304\"}");
    expect_json(c, &record, "\"message\":\"not decoded: its structs are nested more than 16 deep\"");
    deep = new_metadata("Deep");
    for (int i = 0; i < 16; i++)
        add_field(&deep, "s", "\x98\x01", 2);
    add_field(&deep, "x", "\x04", 1);
    record = logged(&deep, &item, PAYLOAD, 1);
    c = ea_registry_find(r, &record);
    assert_int_equal(c->status, EA_CLASS_KNOWN);
    expect_json(c, &record, "{\"s\":{\"s\":{\"x\":1}}}");
    add_field(&huge, "a", "\x24\xFF\xFF", 3);
    record = logged(&huge, &item, PAYLOAD, 4);
    expect_json(ea_registry_find(r, &record), &record, "\"fields\":{\"_tail\":\"01020304\"}");
    ea_registry_destroy(r);
}

/* A record whose last field is the payload that was logged. */
static void test_unfolded_classes(void **state) {
    (void)state;
    static const uint8_t PAYLOAD[] = {7, 0, 0xAA, 0xBB};
    const ea_field fields[] = {{.name = "a", .type = EA_U16, .count = 1, .count_field = -1},
                               {.name = "RawPayload", .type = EA_BYTES, .count = EA_COUNT_REST, .count_field = -1}};
    ea_class_head head = {
        .provider = EXAMPLE, .provider_name = "", .name = "E", .code = 3, .pointer_size = 8, .unfolded = 1};
    ea_registry *r = new_registry(NULL);
    ea_text d;
    const ea_class *c;
    ea_text_init(&d);
    ea_class_describe_fields(&d, &head, fields, 2, NULL);
    assert_true(ea_class_describes_decoded((const uint8_t *)d.data));
    assert_int_equal(ea_registry_add_description(r, (const uint8_t *)d.data, d.len_bytes, &c, NULL), 0);
    assert_true(c->unfolded);
    ea_slice logged = ea_class_logged(c, PAYLOAD, sizeof PAYLOAD);
    assert_ptr_equal(logged.data, PAYLOAD + 2);
    assert_int_equal(logged.len_bytes, 2);
    assert_int_equal(ea_class_logged(c, PAYLOAD, 2).len_bytes, 0);
    logged = ea_class_logged(c, PAYLOAD, 1); /* no provider writes such a record */
    assert_ptr_equal(logged.data, PAYLOAD);
    assert_int_equal(logged.len_bytes, 1);
    /* schemas describe it: the event as it was logged is of a class that has the name alone */
    ea_schemas *schemas = new_schemas();
    assert_int_equal(ea_schemas_add(schemas, EA_SCHEMA_PLUGIN, (const uint8_t *)d.data, d.len_bytes, NULL, NULL), 0);
    ea_registry_set_schemas(r, schemas);
    ea_record record = {.provider = EXAMPLE, .id = 3, .pointer_size = 8, .payload = PAYLOAD, .payload_bytes = 4};
    c = ea_registry_find(r, &record);
    assert_int_equal(c->status, EA_CLASS_UNKNOWN);
    assert_string_equal(c->name, "E");
    assert_int_equal(c->field_count, 0);
    /* without the payload at its end it is none */
    ea_text_clear(&d);
    ea_class_describe_fields(&d, &head, fields, 1, NULL);
    assert_int_equal(ea_registry_add_description(r, (const uint8_t *)d.data, d.len_bytes, &c, NULL), EA_ECORRUPT);
    ea_text_clear(&d);
    head.status = EA_CLASS_NEWER;
    ea_class_describe_fields(&d, &head, fields, 2, NULL);
    assert_int_equal(ea_registry_add_description(r, (const uint8_t *)d.data, d.len_bytes, &c, NULL), EA_ECORRUPT);
    ea_text_deinit(&d);
    ea_registry_destroy(r);
    ea_schemas_destroy(schemas);
}

static int feed_piece(ea_trace_schemas *t, const char *text, uint32_t pid, unsigned number, unsigned total) {
    uint8_t payload[1024] = {1, 1, 0, 0x5B, (uint8_t)total, 0, (uint8_t)number, 0};
    size_t n = strlen(text), from = n * number / total, to = n * (number + 1) / total;
    assert_true(to - from <= sizeof payload - 8);
    memcpy(payload + 8, text + from, to - from);
    ea_record record = {.provider = EXAMPLE,
                        .id = 0xFFFE,
                        .pid = pid,
                        .pointer_size = 8,
                        .payload = payload,
                        .payload_bytes = (uint16_t)(8 + to - from)};
    assert_true(ea_trace_schemas_concerns(&record));
    return ea_trace_schemas_feed(t, &record);
}

static void test_manifests_in_pieces(void **state) {
    (void)state;
#define SOURCE(field)                                                                                                  \
    "<instrumentationManifest xmlns='http://schemas.microsoft.com/win/2004/08/events'><instrumentation><events>"       \
    "<provider name='Source' guid='{11111111-2222-3333-4444-555555555555}'><tasks><task name='Said' value='7'/>"       \
    "</tasks><templates><template tid='t'><data name='" field "' inType='win:UInt32'/></template></templates>"         \
    "<events><event value='3' task='Said' template='t'/></events></provider></events></instrumentation>"               \
    "</instrumentationManifest>"
    static const uint8_t PAYLOAD[] = {1, 0, 0, 0};
    ea_schemas *schemas = new_schemas();
    ea_registry *r = new_registry(schemas);
    ea_trace_schemas *t;
    ea_record record = {.provider = EXAMPLE, .id = 3, .pointer_size = 8, .payload = PAYLOAD, .payload_bytes = 4};
    assert_int_equal(ea_trace_schemas_create(&t, schemas, NULL), 0);
    /* a process that ends in the middle, and two that take turns, backwards */
    assert_int_equal(feed_piece(t, SOURCE("old"), 1, 0, 3), 0);
    for (unsigned i = 3; i-- > 0;)
        for (uint32_t pid = 2; pid <= 3; pid++)
            assert_int_equal(feed_piece(t, SOURCE("first"), pid, i, 3), pid == 2 && i == 0);
    ea_registry_schemas_changed(r);
    expect_json(ea_registry_find(r, &record), &record, "\"name\":\"Said\",\"id\":3");
    expect_json(ea_registry_find(r, &record), &record, "\"fields\":{\"first\":1}");
    /* the provider changes */
    assert_int_equal(feed_piece(t, SOURCE("second"), 9, 0, 1), 1);
    ea_registry_schemas_changed(r);
    expect_json(ea_registry_find(r, &record), &record, "\"fields\":{\"second\":1}");
    /* one piece is lost and the sending begins anew */
    assert_int_equal(feed_piece(t, SOURCE("third"), 9, 0, 2), 0);
    assert_int_equal(feed_piece(t, SOURCE("third"), 9, 0, 2), 0);
    assert_int_equal(feed_piece(t, SOURCE("third"), 9, 1, 2), 1);
    /* pieces of more manifests than are kept: bounded */
    for (uint32_t pid = 100; pid < 400; pid++)
        assert_int_equal(feed_piece(t, SOURCE("never"), pid, 0, 2), 0);
    ea_trace_schemas_counts n = ea_trace_schemas_get(t);
    assert_int_equal(n.manifests, 4);
    assert_int_equal(n.unreadable, 0);
    assert_true(n.given_up >= 1 + 300 - 64);
    /* no manifest at all */
    assert_int_equal(feed_piece(t, "<nonsense", 5, 0, 1), 0);
    assert_int_equal(ea_trace_schemas_get(t).unreadable, 1);
    ea_trace_schemas_destroy(t);
    ea_registry_destroy(r);
    ea_schemas_destroy(schemas);
}

/* ---- TRACE_EVENT_INFO and EVENT_MAP_INFO in a trace (tdh.h) ---- */

enum { HEAD = 112, PROPERTY = 24 };

typedef struct blob {
    uint8_t bytes[8192];
    size_t size;
} blob;

/* UTF-16 at the end, with the blank that TDH writes; its offset, counted from `from`. */
static uint32_t add_text(blob *m, const char *text, size_t from) {
    size_t at = m->size;
    for (; *text; text++, m->size += 2)
        m->bytes[m->size] = (uint8_t)*text;
    m->bytes[m->size] = ' ';
    m->size += 4;
    return (uint32_t)(at - from);
}

/* Event 3 of EXAMPLE with so many U32 fields "f0", "f1", ..., each with the map of that name ("": none). */
static blob event_info(const char *const *maps, size_t count) {
    blob m = {.size = HEAD + count * PROPERTY};
    char name[16];
    memcpy(m.bytes, &EXAMPLE, sizeof EXAMPLE);
    m.bytes[32] = 3;
    ea_store32(m.bytes + 68, add_text(&m, "Said", 0));
    ea_store32(m.bytes + 100, (uint32_t)count);
    ea_store32(m.bytes + 104, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        uint8_t *p = m.bytes + HEAD + i * PROPERTY;
        snprintf(name, sizeof name, "f%zu", i);
        ea_store32(p + 4, add_text(&m, name, 0));
        ea_store16(p + 8, 8); /* TDH_INTYPE_UINT32 */
        ea_store16(p + 16, 1);
        if (*maps[i])
            ea_store32(p + 12, add_text(&m, maps[i], 0));
    }
    return m;
}

/* The value 1 is called `one`; 2 is "two". is_flags: EVENTMAP_INFO_FLAG_MANIFEST_BITMAP, else _VALUEMAP. */
static blob map_info(const char *name, const char *one, int is_flags) {
    blob m = {.size = 16 + 16 + 2 * 8};
    memcpy(m.bytes, &EXAMPLE, sizeof EXAMPLE);
    ea_store32(m.bytes + 16, add_text(&m, name, 16));
    ea_store32(m.bytes + 20, is_flags ? 2 : 1);
    ea_store32(m.bytes + 24, 2);
    ea_store32(m.bytes + 32, add_text(&m, one, 16));
    ea_store32(m.bytes + 36, 1);
    ea_store32(m.bytes + 40, add_text(&m, "two", 16));
    ea_store32(m.bytes + 44, 2);
    return m;
}

static int feed_metadata(ea_trace_schemas *t, const blob *m, uint8_t opcode, size_t bytes) {
    static const ea_guid METADATA = EA_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71);
    uint8_t *exact = malloc(bytes ? bytes : 1); /* so that a sanitizer detects a read beyond its end */
    assert_non_null(exact);
    memcpy(exact, m->bytes, bytes);
    ea_record record = {.provider = METADATA,
                        .opcode = opcode,
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .pointer_size = 8,
                        .payload = exact,
                        .payload_bytes = (uint16_t)bytes};
    assert_true(ea_trace_schemas_concerns(&record));
    int changed = ea_trace_schemas_feed(t, &record);
    free(exact);
    return changed;
}

static int feed_info(ea_trace_schemas *t, const blob *m) {
    return feed_metadata(t, m, 32, m->size);
}

static int feed_map(ea_trace_schemas *t, const blob *m) {
    return feed_metadata(t, m, 33, m->size);
}

static void test_maps_in_a_trace(void **state) {
    (void)state;
    static const uint8_t PAYLOAD[] = {1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0};
    static const char *const MAPS[] = {"Kind", "Bits", ""}, *const OTHER[] = {"Kind", "Kind", "Never"};
    ea_schemas *schemas = new_schemas();
    ea_registry *r = new_registry(schemas);
    ea_trace_schemas *t;
    ea_record record = {.provider = EXAMPLE, .id = 3, .pointer_size = 8, .payload = PAYLOAD, .payload_bytes = 12};
    assert_int_equal(ea_trace_schemas_create(&t, schemas, NULL), 0);
    blob info = event_info(MAPS, 3), kind = map_info("Kind", "one", 0), bits = map_info("Bits", "b0", 1);
    /* in the order of real traces: an event's information, its maps, the event */
    assert_int_equal(feed_info(t, &info), 1);
    ea_registry_schemas_changed(r);
    expect_json(ea_registry_find(r, &record), &record, "\"fields\":{\"f0\":1,\"f1\":3,\"f2\":1}");
    assert_int_equal(feed_map(t, &kind), 1);
    ea_registry_schemas_changed(r);
    expect_json(ea_registry_find(r, &record), &record, "\"f0\":{\"value\":1,\"name\":\"one\"},\"f1\":3,\"f2\":1");
    assert_int_equal(feed_map(t, &bits), 1);
    ea_registry_schemas_changed(r);
    expect_json(ea_registry_find(r, &record), &record, "\"f1\":{\"value\":3,\"name\":\"b0|two\"},\"f2\":1");
    /* The same records again change nothing, nor does a map that no event refers to. */
    assert_int_equal(feed_info(t, &info), 0);
    assert_int_equal(feed_map(t, &kind), 0);
    blob other = map_info("Unused", "one", 0);
    assert_int_equal(feed_map(t, &other), 0);
    /* A map applies to the event infos that follow it. A second map of that name applies to the infos that follow the
     * second map. */
    info = event_info(OTHER, 3);
    assert_int_equal(feed_info(t, &info), 1);
    ea_registry_schemas_changed(r);
    expect_json(ea_registry_find(r, &record), &record,
                "\"f0\":{\"value\":1,\"name\":\"one\"},\"f1\":{\"value\":3,\"name\":null},\"f2\":1");
    kind = map_info("Kind", "uno", 0);
    assert_int_equal(feed_map(t, &kind), 0);
    assert_int_equal(feed_info(t, &info), 1);
    ea_registry_schemas_changed(r);
    expect_json(ea_registry_find(r, &record), &record, "\"f0\":{\"value\":1,\"name\":\"uno\"}");
    ea_trace_schemas_counts n = ea_trace_schemas_get(t);
    assert_int_equal(n.event_infos, 4);
    assert_int_equal(n.map_infos, 5);
    assert_int_equal(n.unreadable + n.given_up, 0);
    ea_trace_schemas_destroy(t);
    ea_registry_destroy(r);
    ea_schemas_destroy(schemas);
}

/* Every length that a map's record can have, offsets to everywhere, too many of everything. */
static void test_maps_that_are_hostile(void **state) {
    (void)state;
    static const char *const MAPS[] = {"Kind"};
    ea_schemas *schemas = new_schemas();
    ea_trace_schemas *t;
    char name[16];
    const char *names[] = {name};
    assert_int_equal(ea_trace_schemas_create(&t, schemas, NULL), 0);
    blob info = event_info(MAPS, 1), kind = map_info("Kind", "one", 0);
    assert_int_equal(feed_info(t, &info), 1);
    for (size_t bytes = 0; bytes <= 48; bytes++) /* a name needs a byte of its own at the least */
        assert_int_equal(feed_metadata(t, &kind, 33, bytes), 0);
    assert_int_equal(ea_trace_schemas_get(t).unreadable, 49);
    for (size_t at = 16; at < 48; at += 4)
        for (uint32_t bit = 0; bit < 32; bit++) {
            blob bad = kind;
            ea_store32(bad.bytes + at, ea_load32(bad.bytes + at) ^ 1u << bit);
            feed_map(t, &bad);
        }
    blob pattern = kind;
    ea_store32(pattern.bytes + 20, 4); /* its values are texts */
    uint64_t before = ea_trace_schemas_get(t).unreadable;
    assert_int_equal(feed_map(t, &pattern), 0);
    assert_int_equal(ea_trace_schemas_get(t).unreadable, before + 1);
    /* More infos wait for maps than the limit allows: the info that waits longest is dropped, the newest gets its
     * names. */
    before = ea_trace_schemas_get(t).given_up;
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof name, "Map%d", i);
        info = event_info(names, 1);
        info.bytes[32] = (uint8_t)i;
        feed_info(t, &info);
    }
    assert_true(ea_trace_schemas_get(t).given_up >= before + 200 - 64);
    kind = map_info("Map0", "one", 0);
    assert_int_equal(feed_map(t, &kind), 0);
    kind = map_info("Map199", "one", 0);
    assert_int_equal(feed_map(t, &kind), 1);
    /* more maps than are kept are counted */
    before = ea_trace_schemas_get(t).given_up;
    for (int i = 0; i < 9000; i++) {
        snprintf(name, sizeof name, "More%d", i);
        kind = map_info(name, "one", 0);
        feed_map(t, &kind);
    }
    assert_true(ea_trace_schemas_get(t).given_up > before);
    ea_trace_schemas_destroy(t);
    ea_schemas_destroy(schemas);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_that_a_template_can_say),
        cmocka_unit_test(test_language_and_messages),
        cmocka_unit_test(test_mistakes_are_reported),
        cmocka_unit_test(test_changed_schemas),
        cmocka_unit_test(test_tracelogging_of_every_shape),
        cmocka_unit_test(test_tracelogging_that_is_hostile),
        cmocka_unit_test(test_unfolded_classes),
        cmocka_unit_test(test_manifests_in_pieces),
        cmocka_unit_test(test_maps_in_a_trace),
        cmocka_unit_test(test_maps_that_are_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
