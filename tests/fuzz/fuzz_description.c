/* Descriptions of providers, as schema compile --man reads them. The first byte chooses: even: the others choose a
 * description, of which the manifest must have the same classes, and values, which an event that is emitted must have;
 * odd: the others are the text of a description, and a manifest that is made has no mistake for our own reader. */
#include "proto/event/encode.h"
#include "proto/event/provider_name.h"
#include "proto/event/schema/manifest.h"
#include "proto/event/schema/manifest_write.h"
#include "proto/event/tdh_types.h"
#include "proto/relog/own_events.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_MAX = 6, FIELDS_MAX = 8, NAME_BYTES = 128, KEYWORD_BITS = 48 };

/* What a value is given as. */
enum how { TEXT, ASCII, NUMBER, BOOLEAN, FRACTION, ID, NOTHING };

static const struct {
    const char *types;
    int in_type, out_type;
    enum how how;
    unsigned bits;
    int is_signed;
} TYPES[] = {
    {"UnicodeString", EA_IN_UNICODE_STRING, EA_OUT_NULL, TEXT, 0, 0},
    {"UnicodeString Xml", EA_IN_UNICODE_STRING, EA_OUT_XML, TEXT, 0, 0},
    {"AnsiString", EA_IN_ANSI_STRING, EA_OUT_NULL, ASCII, 0, 0},
    {"AnsiString Utf8", EA_IN_ANSI_STRING, EA_OUT_UTF8, TEXT, 0, 0},
    {"CountedUnicodeString", EA_IN_COUNTED_UNICODE, EA_OUT_NULL, TEXT, 0, 0},
    {"CountedAnsiString", EA_IN_COUNTED_ANSI, EA_OUT_NULL, ASCII, 0, 0},
    {"Int8", EA_IN_INT8, EA_OUT_NULL, NUMBER, 8, 1},
    {"UInt8 HexInt8", EA_IN_UINT8, EA_OUT_HEXINT8, NUMBER, 8, 0},
    {"Int16", EA_IN_INT16, EA_OUT_NULL, NUMBER, 16, 1},
    {"UInt16 Port", EA_IN_UINT16, EA_OUT_PORT, NUMBER, 16, 0},
    {"Int32", EA_IN_INT32, EA_OUT_NULL, NUMBER, 32, 1},
    {"UInt32 PID", EA_IN_UINT32, EA_OUT_PID, NUMBER, 32, 0},
    {"UInt32 NTSTATUS", EA_IN_UINT32, EA_OUT_NTSTATUS, NUMBER, 32, 0},
    {"Int64", EA_IN_INT64, EA_OUT_NULL, NUMBER, 64, 1},
    {"UInt64 HexInt64", EA_IN_UINT64, EA_OUT_HEXINT64, NUMBER, 64, 0},
    {"HexInt32", EA_IN_HEXINT32, EA_OUT_NULL, NUMBER, 32, 0},
    {"HexInt64", EA_IN_HEXINT64, EA_OUT_NULL, NUMBER, 64, 0},
    {"Pointer", EA_IN_POINTER, EA_OUT_NULL, NUMBER, 64, 0},
    {"FILETIME", EA_IN_FILETIME, EA_OUT_NULL, NUMBER, 64, 0},
    {"Boolean", EA_IN_BOOLEAN, EA_OUT_NULL, BOOLEAN, 32, 0},
    {"Float", EA_IN_FLOAT, EA_OUT_NULL, FRACTION, 32, 0},
    {"Double", EA_IN_DOUBLE, EA_OUT_NULL, FRACTION, 64, 0},
    {"GUID", EA_IN_GUID, EA_OUT_NULL, ID, 0, 0},
    {"UInt8 string", EA_IN_UINT8, EA_OUT_STRING, NOTHING, 0, 0},
    {"UInt32 IPv4", EA_IN_UINT32, EA_OUT_IPV4, NOTHING, 0, 0},
    {"SID", EA_IN_SID, EA_OUT_NULL, NOTHING, 0, 0},
    {"SYSTEMTIME", EA_IN_SYSTEMTIME, EA_OUT_NULL, NOTHING, 0, 0},
};

static const char *const PROVIDERS[] = {"Contoso-Paint", "7-Zip", "Gr\303\266\303\237e <&>\"'", "A"},
                         *const TASKS[] = {"Draw", "3D View", "a<b>&\"c'", "gr\303\266\303\237e",
                                           "x:y",  "]]>",     "%1",        "&amp;"},
                         *const OPCODES[] = {"",        "Info", "Start",   "Stop",
                                             "Receive", "Fill", "<!--&\"", "\360\237\230\200"},
                         *const MESSAGES[] = {"", "drew %1", "<b>&\"%2\"'", "$(string.E1.0)"},
                         *const FIELDS[] = {"Title", "a<b>", "gr\303\266\303\237e", "x y", "\"q\"", "&amp;",
                                            "]]>",   "-"},
                         *const TEXTS[] = {"",    "a",        "a\\b\"c'", "\360\237\230\200 gr\303\266\303\237e",
                                           "\t1", "</data>&", "0x10",     "true"},
                         *const LEVELS[] = {"LogAlways", "Critical", "Error", "Warning", "Informational", "Verbose"};

#define PICK(list, from) (list)[take(from, 1) % (sizeof(list) / sizeof *(list))]

typedef struct bytes {
    const uint8_t *at, *end;
} bytes;

typedef struct field {
    size_t type;
    char name[NAME_BYTES];
    const char *text;
    uint64_t number;
    ea_guid guid;
} field;

typedef struct event {
    uint16_t id;
    uint8_t version, level;
    uint64_t keyword;
    const char *task, *opcode, *message;
    field fields[FIELDS_MAX];
    size_t field_count;
} event;

static uint64_t take(bytes *from, unsigned count) {
    uint64_t v = 0;
    for (; count && from->at < from->end; count--)
        v = v << 8 | *from->at++;
    return v;
}

static void choose_value(field *f, bytes *from) {
    unsigned bits = TYPES[f->type].bits;
    double wide;
    float narrow;
    f->text = "";
    switch (TYPES[f->type].how) {
    case TEXT:
    case ASCII:
        f->text = PICK(TEXTS, from);
        if (TYPES[f->type].how == ASCII && strchr(f->text, '\303'))
            f->text = "plain";
        break;
    case NUMBER:
        f->number = take(from, bits / 8);
        if (TYPES[f->type].is_signed)
            f->number = (uint64_t)((int64_t)(f->number << (64 - bits)) >> (64 - bits));
        break;
    case BOOLEAN:
        f->number = take(from, 1) & 1;
        break;
    case FRACTION:
        wide = (double)(int16_t)take(from, 2) / 4;
        narrow = (float)wide;
        memcpy(&f->number, bits == 32 ? (const void *)&narrow : &wide, bits / 8);
        break;
    default:
        for (size_t i = 0; i < sizeof f->guid.bytes; i++)
            f->guid.bytes[i] = (uint8_t)take(from, 1);
    }
}

/* Ids are not those of the events before, and not 65534, which a piece of a manifest has. */
static void choose_event(event *e, size_t number, bytes *from) {
    *e = (event){.id = (uint16_t)((take(from, 2) & 0xFFF8) | number),
                 .version = (uint8_t)take(from, 1),
                 .level = (uint8_t)(take(from, 1) % 6),
                 .keyword = take(from, KEYWORD_BITS / 8)};
    e->task = PICK(TASKS, from);
    e->opcode = PICK(OPCODES, from);
    e->message = PICK(MESSAGES, from);
    e->field_count = take(from, 1) % (FIELDS_MAX + 1);
    for (size_t i = 0; i < e->field_count; i++) {
        field *f = &e->fields[i];
        f->type = take(from, 1) % (sizeof TYPES / sizeof *TYPES);
        snprintf(f->name, sizeof f->name, "%s%zu", PICK(FIELDS, from), i);
        choose_value(f, from);
    }
}

static void describe(const char *provider, const event *events, size_t count, ea_text *out) {
    ea_text name;
    ea_text_init(&name);
    ea_text_str(out, "{\"provider\": ");
    ea_text_json_str(out, provider);
    ea_text_str(out, "}\n");
    for (size_t i = 0; i < count; i++) {
        const event *e = &events[i];
        ea_text_clear(&name);
        ea_text_printf(&name, "%s%s%s", e->task, *e->opcode ? "/" : "", e->opcode);
        ea_text_printf(out, "{\"id\":%u,\"version\":%u,\"level\":%u,\"keyword\":\"0x%" PRIx64 "\",\"name\":", e->id,
                       e->version, e->level, e->keyword);
        ea_text_json_str(out, name.data);
        if (*e->message) {
            ea_text_str(out, ",\"message\":");
            ea_text_json_str(out, e->message);
        }
        ea_text_str(out, ",\"fields\":{");
        for (size_t k = 0; k < e->field_count; k++) {
            ea_text_str(out, k ? "," : "");
            ea_text_json_str(out, e->fields[k].name);
            ea_text_printf(out, ":\"%s\"", TYPES[e->fields[k].type].types);
        }
        ea_text_str(out, "}}\n");
    }
    ea_text_deinit(&name);
}

static void expect(int holds, const char *what) {
    if (holds)
        return;
    fprintf(stderr, "not so: %s\n", what);
    abort();
}

static void check_class(const ea_class *c, const char *provider, const event *e) {
    uint64_t keywords = 0;
    size_t task = strlen(e->task);
    const char *opcode = strcmp(e->opcode, "Info") == 0 ? "" : e->opcode;
    expect(c->status == EA_CLASS_KNOWN && strcmp(c->provider_name, provider) == 0, "the provider has the class");
    expect(strncmp(c->name, e->task, task) == 0 && strcmp(c->name + task + (*opcode != 0), opcode) == 0 &&
               (c->name[task] == '/') == (*opcode != 0),
           "the class has the name");
    expect(c->notes && strcmp(c->notes->message, e->message) == 0 && strcmp(c->notes->level, LEVELS[e->level]) == 0,
           "the class has the message and the level");
    for (size_t i = 0; i < c->notes->keyword_count; i++)
        keywords |= c->notes->keywords[i].value;
    expect(keywords == e->keyword, "the class has the keywords");
    expect(c->top_count == e->field_count && c->field_count == e->field_count, "the class has the number of fields");
    for (size_t i = 0; i < e->field_count; i++) {
        ea_field f = {.name = ""};
        expect(ea_field_of_types(TYPES[e->fields[i].type].in_type, TYPES[e->fields[i].type].out_type, 0, 0, &f) &&
                   c->fields[i].type == f.type && c->fields[i].semantic == f.semantic && c->fields[i].count == 1,
               "the class has the field's type");
        expect(strcmp(c->fields[i].name, e->fields[i].name) == 0, "the class has the field's name");
    }
}

/* ---- an event that is emitted ---- */

static void put_value(ea_text *out, const field *f) {
    double wide;
    float narrow;
    switch (TYPES[f->type].how) {
    case NUMBER:
        if (TYPES[f->type].is_signed)
            ea_text_printf(out, "%" PRId64, (int64_t)f->number);
        else
            ea_text_printf(out, f->number & 1 ? "%" PRIu64 : "\"0x%" PRIx64 "\"", f->number);
        break;
    case BOOLEAN:
        ea_text_str(out, f->number ? "true" : "false");
        break;
    case FRACTION:
        memcpy(&wide, &f->number, sizeof wide);
        memcpy(&narrow, &f->number, sizeof narrow);
        ea_text_printf(out, "%.17g", TYPES[f->type].bits == 32 ? (double)narrow : wide);
        break;
    case ID:
        ea_text_char(out, '"');
        ea_text_guid(out, &f->guid);
        ea_text_char(out, '"');
        break;
    default:
        ea_text_json_str(out, f->text);
    }
}

static void check_value(const field *f, const ea_event_value *v) {
    switch (TYPES[f->type].how) {
    case TEXT:
    case ASCII:
        expect(v->kind == EA_VALUE_TEXT && v->count == strlen(f->text) && memcmp(v->data, f->text, v->count) == 0,
               "the event has the text");
        break;
    case ID:
        expect(v->kind == EA_VALUE_BYTES && v->count == sizeof f->guid && memcmp(v->data, f->guid.bytes, v->count) == 0,
               "the event has the GUID");
        break;
    default:
        expect(v->kind == EA_VALUE_NUMBER && v->number == f->number, "the event has the number");
    }
}

static uint8_t opcode_of(const char *name) {
    return strcmp(name, "Start") == 0 ? 1 : strcmp(name, "Stop") == 0 ? 2 : strcmp(name, "Receive") == 0 ? 240 : 0;
}

static void check_record(const ea_record *r, const ea_class *c, const event *e) {
    const ea_event_value *values;
    size_t count, used;
    ea_arena arena;
    ea_arena_init(&arena, 0);
    expect(r->id == e->id && r->version == e->version && r->level == e->level && r->keyword == e->keyword &&
               r->opcode == opcode_of(e->opcode),
           "the event's header");
    expect(!ea_event_read_values(c, r->payload, r->payload_bytes, &arena, &values, &count, &used, NULL) &&
               count == e->field_count && used == r->payload_bytes,
           "the event can be read");
    for (size_t i = 0; i < count; i++)
        check_value(&e->fields[i], &values[i]);
    ea_arena_deinit(&arena);
}

static void emit(ea_registry *registry, const ea_class *c, const char *provider, const event *e) {
    ea_own_events *list;
    ea_text line;
    ea_err err = {0};
    size_t count = 0;
    int can_be_given = 1;
    ea_text_init(&line);
    ea_text_str(&line, "{\"provider\":");
    ea_text_json_str(&line, provider);
    ea_text_printf(&line, ",\"id\":%u,\"version\":%u,\"fields\":{", e->id, e->version);
    for (size_t i = e->field_count; i-- > 0;) { /* in any order */
        ea_text_json_str(&line, e->fields[i].name);
        ea_text_char(&line, ':');
        put_value(&line, &e->fields[i]);
        ea_text_str(&line, i ? "," : "");
        can_be_given &= TYPES[e->fields[i].type].how != NOTHING;
    }
    ea_text_str(&line, "}}");
    expect(!ea_own_events_create(&list, 1, &err), "memory");
    ea_own_events_describe(list, registry);
    int rc = ea_own_events_read(list, "line", line.data, line.len_bytes, &err);
    if (rc && can_be_given)
        fprintf(stderr, "%s\n%.*s\n", err.message, (int)line.len_bytes, line.data);
    expect((rc == 0) == can_be_given && (!rc || *err.message), "the event is taken, or refused with a reason");
    const ea_own_event *items = ea_own_events_items(list, &count);
    expect(count == (size_t)!rc, "one event");
    if (count)
        check_record(&items[0].record, c, e);
    ea_own_events_destroy(list);
    ea_text_deinit(&line);
}

/* ---- the whole ---- */

static void check_chosen(bytes *from) {
    static event events[EVENTS_MAX];
    const char *provider = PICK(PROVIDERS, from);
    size_t count = 1 + take(from, 1) % EVENTS_MAX;
    const ea_manifest_options options = {.file = "f", .layer = EA_SCHEMA_GIVEN};
    ea_manifest_result result = {0};
    ea_schemas *schemas = NULL;
    ea_registry *registry = NULL;
    ea_text description, manifest;
    ea_err err = {0};
    ea_guid guid;
    ea_text_init(&description);
    ea_text_init(&manifest);
    for (size_t i = 0; i < count; i++)
        choose_event(&events[i], i, from);
    describe(provider, events, count, &description);
    int rc = ea_manifest_write("d", description.data, description.len_bytes, NULL, &manifest, &err);
    if (rc)
        fprintf(stderr, "%s\n%.*s\n", err.message, (int)description.len_bytes, description.data);
    expect(!rc, "a manifest is written");
    expect(!ea_schemas_create(&schemas, 0, &err) && !ea_registry_create(&registry, 0, &err) &&
               !ea_provider_guid_of_name(provider, &guid, &err),
           "memory");
    rc = ea_manifest_read(schemas, manifest.data, manifest.len_bytes, &options, &result, &err);
    expect(!rc && !result.problems && result.providers == 1 && result.events == count, "the manifest is read");
    ea_registry_set_schemas(registry, schemas);
    for (size_t i = 0; i < count; i++) {
        const ea_record r = {.provider = guid, .id = events[i].id, .version = events[i].version, .pointer_size = 8};
        const ea_class *c = ea_registry_find(registry, &r);
        check_class(c, provider, &events[i]);
        emit(registry, c, provider, &events[i]);
    }
    ea_registry_destroy(registry);
    ea_schemas_destroy(schemas);
    ea_text_deinit(&description);
    ea_text_deinit(&manifest);
}

static void check_text(const char *text, size_t len_bytes) {
    const ea_manifest_options options = {.file = "f", .layer = EA_SCHEMA_GIVEN};
    ea_manifest_result result = {0};
    ea_text manifest;
    ea_err err = {0};
    int is_plain = 1; /* ASCII, without escapes: XML has all of it */
    ea_text_init(&manifest);
    for (size_t i = 0; i < len_bytes; i++)
        is_plain &= (unsigned char)text[i] < 0x80 && text[i] != '\\';
    int rc = ea_manifest_write("d", text, len_bytes, NULL, &manifest, &err);
    expect(!rc || *err.message, "what is refused has a reason");
    if (!rc) {
        rc = ea_manifest_read(NULL, manifest.data, manifest.len_bytes, &options, &result, &err);
        expect(rc ? !is_plain : !result.problems && result.providers == 1 && result.events, "no mistake");
    }
    ea_text_deinit(&manifest);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (!size)
        return 0;
    if (*data & 1)
        check_text((const char *)data + 1, size - 1);
    else
        check_chosen(&(bytes){.at = data + 1, .end = data + size});
    return 0;
}
