/* See own_events.h. Source of the layouts: TraceLoggingProvider.h (provider traits, event metadata). */
#include "proto/relog/own_events.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/bytes.h"
#include "proto/base/json_cursor.h"
#include "proto/event/encode.h"
#include "proto/event/provider_name.h"
#include "proto/event/tdh_types.h"
#include "proto/relog/relog.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHANNEL_TRACELOGGING = 11,
    LEVEL_INFORMATION = 4,
    OPCODE_RECEIVE = 240, /* winmeta's only one that does not follow the others */
    NAME_MAX_BYTES = 256,
    UTF8_BOM_BYTES = 3,
};

struct ea_own_events {
    ea_arena arena;
    ea_own_event *items;
    size_t count, capacity;
    size_t lines; /* that were read */
    int is_live;
    ea_registry *registry; /* NULL: no event has an id */
};

/* A field of an event with an id, until all of them are read. */
typedef struct own_given {
    const char *name, *value; /* value: as it is written, or of a text its bytes */
    size_t len_bytes;
    int is_text;
} own_given;

/* The event at hand. */
typedef struct own_reader {
    ea_own_events *l;
    const char *name; /* of the file */
    size_t line;
    ea_json_cursor c;
    ea_text key, value;
    ea_own_event event;
    char provider[NAME_MAX_BYTES + 1]; /* its name; "" when it has a GUID */
    char event_name[NAME_MAX_BYTES + 1];
    int has_provider, has_name, has_id, has_level, has_opcode, has_keyword;
    own_given given[EA_OWN_FIELDS_MAX];
    uint8_t schema[EA_OWN_SCHEMA_MAX_BYTES], payload[EA_OWN_PAYLOAD_MAX_BYTES];
    size_t schema_bytes, payload_bytes, field_count;
    ea_err *err;
} own_reader;

static int own_wrong(const own_reader *k, const char *what, const char *of) {
    if (!k->line)
        return ea_fail(k->err, EA_EINVAL, "%s: %s%s%.100s", k->name, what, of ? " " : "", of ? of : "");
    return ea_fail(k->err, EA_EINVAL, "%s, line %zu: %s%s%.100s", k->name, k->line, what, of ? " " : "", of ? of : "");
}

/* ---- fields ---- */

static int own_put(own_reader *k, const void *data, size_t len_bytes) {
    if (len_bytes > sizeof k->payload - k->payload_bytes)
        return own_wrong(k, "the values take more than 32 KiB", NULL);
    if (len_bytes)
        memcpy(k->payload + k->payload_bytes, data, len_bytes);
    k->payload_bytes += len_bytes;
    return 0;
}

static int own_describe(own_reader *k, const char *name, uint8_t in_type) {
    if (++k->field_count > EA_OWN_FIELDS_MAX)
        return own_wrong(k, "more than 128 fields", NULL);
    return ea_relog_schema_field(k->schema, sizeof k->schema, &k->schema_bytes, name, in_type, 0)
               ? own_wrong(k, "the names of fields take more than 8 KiB", NULL)
               : 0;
}

static int own_text_field(own_reader *k, const char *name, const char *text, size_t len_bytes) {
    static const uint8_t NUL[2];
    size_t n = ea_utf8_to_utf16(text, len_bytes, NULL, 0);
    if (len_bytes && memchr(text, 0, len_bytes))
        return own_wrong(k, "a NUL in the field", name);
    if (n > sizeof k->payload - k->payload_bytes)
        return own_wrong(k, "the values take more than 32 KiB", NULL);
    int rc = own_describe(k, name, EA_IN_UNICODE_STRING);
    ea_utf8_to_utf16(text, len_bytes, k->payload + k->payload_bytes, n);
    k->payload_bytes += n;
    return rc ? rc : own_put(k, NUL, sizeof NUL);
}

/* A number as JSON has it, true or false. */
static int own_word_field(own_reader *k, const char *name, const char *word) {
    const char *digits = word + (*word == '-');
    uint8_t bytes[8];
    uint64_t number = 0;
    double fraction;
    char *end;
    int rc;
    if (strcmp(word, "true") == 0 || strcmp(word, "false") == 0) {
        ea_store32(bytes, *word == 't');
        rc = own_describe(k, name, EA_IN_BOOLEAN);
        return rc ? rc : own_put(k, bytes, 4);
    }
    const char *after = digits;
    if (ea_digits_parse(&after, 10, &number) && !*after) {
        if (*word == '-' && number > (uint64_t)INT64_MAX + 1)
            return own_wrong(k, "no 64 bits hold the number", word);
        ea_store64(bytes, *word == '-' ? 0 - number : number);
        rc = own_describe(k, name, *word == '-' ? EA_IN_INT64 : EA_IN_UINT64);
        return rc ? rc : own_put(k, bytes, sizeof bytes);
    }
    if (*digits && strspn(digits, "0123456789") == strlen(digits))
        return own_wrong(k, "no 64 bits hold the number", word);
    fraction = strtod(word, &end); /* no program here sets a locale */
    if (*digits < '0' || *digits > '9' || *end || fraction - fraction != 0 ||
        strspn(digits, "0123456789+-.eE") != strlen(digits))
        return own_wrong(k, "expected a text, a number, true or false, not", word);
    uint64_t bits;
    memcpy(&bits, &fraction, sizeof bits);
    ea_store64(bytes, bits);
    rc = own_describe(k, name, EA_IN_DOUBLE);
    return rc ? rc : own_put(k, bytes, sizeof bytes);
}

/* Keeps the value in k->value. */
static int own_give(own_reader *k, const char *name, int is_text) {
    if (k->field_count == EA_OWN_FIELDS_MAX)
        return own_wrong(k, "more than 128 fields", NULL);
    own_given *g = &k->given[k->field_count++];
    ea_text_char(&k->value, 0);
    if (k->value.failed)
        return ea_fail(k->err, EA_ENOMEM, "read %s", k->name);
    *g = (own_given){.name = ea_arena_strdup(&k->l->arena, name),
                     .value = ea_arena_copy(&k->l->arena, k->value.data, k->value.len_bytes),
                     .len_bytes = k->value.len_bytes - 1,
                     .is_text = is_text};
    if (!g->name || !g->value)
        return ea_fail(k->err, EA_ENOMEM, "read %s", k->name);
    return is_text && strlen(g->value) != g->len_bytes ? own_wrong(k, "a NUL in the field", name) : 0;
}

/* The key is in k->key, its value comes. */
static int own_field(own_reader *k, const char *name) {
    if (ea_json_take_char(&k->c, '"')) {
        if (!ea_json_take_text(&k->c, &k->value))
            return own_wrong(k, "the text of a field does not end:", name);
        if (k->has_id)
            return own_give(k, name, 1);
        return own_text_field(k, name, k->value.data ? k->value.data : "", k->value.len_bytes);
    }
    if (!ea_json_take_word(&k->c, &k->value))
        return own_wrong(k, "expected a text, a number, true or false for the field", name);
    if (k->has_id)
        return own_give(k, name, 0);
    ea_text_char(&k->value, 0);
    return k->value.failed ? ea_fail(k->err, EA_ENOMEM, "read %s", k->name) : own_word_field(k, name, k->value.data);
}

/* 1: a key and its colon were taken, a NUL follows it in k->key; 0: the object ends. */
static int own_next_key(own_reader *k, int *is_first) {
    if (ea_json_take_char(&k->c, '}'))
        return 0;
    if ((!*is_first && !ea_json_take_char(&k->c, ',')) || !ea_json_take_char(&k->c, '"') ||
        !ea_json_take_text(&k->c, &k->key) || !ea_json_take_char(&k->c, ':'))
        return own_wrong(k, "expected an object", NULL);
    *is_first = 0;
    ea_text_char(&k->key, 0);
    if (k->key.failed)
        return ea_fail(k->err, EA_ENOMEM, "read %s", k->name);
    return strlen(k->key.data) + 1 == k->key.len_bytes ? 1 : own_wrong(k, "a NUL in a key", NULL);
}

static int own_fields(own_reader *k) {
    int is_first = 1, rc;
    if (!k->has_name && !k->has_id)
        return own_wrong(k, k->l->registry ? "expected name or id before fields" : "expected name before fields", NULL);
    if (!ea_json_take_char(&k->c, '{'))
        return own_wrong(k, "expected an object of fields", NULL);
    while ((rc = own_next_key(k, &is_first)) > 0) {
        if (k->key.len_bytes == 1)
            return own_wrong(k, "a field without a name", NULL);
        if ((rc = own_field(k, k->key.data)))
            return rc;
    }
    return rc;
}

/* ---- members ---- */

static int own_begin_schema(own_reader *k) {
    k->has_name = 1;
    return ea_relog_schema_begin(k->schema, sizeof k->schema, &k->schema_bytes, k->event_name)
               ? own_wrong(k, "the name is too long", NULL)
               : 0;
}

/* *ret: what the text in k->value is, at most 256 bytes. */
static int own_take_text(own_reader *k, const char *key, char *ret) {
    if (!ea_json_take_char(&k->c, '"') || !ea_json_take_text(&k->c, &k->value))
        return own_wrong(k, "expected a text for", key);
    size_t n = k->value.len_bytes;
    if (!n || n > NAME_MAX_BYTES || memchr(k->value.data, 0, n))
        return own_wrong(k, "expected 1 to 256 bytes for", key);
    memcpy(ret, k->value.data, n);
    ret[n] = 0;
    return 0;
}

static int own_take_number(own_reader *k, const char *key, uint64_t most, uint64_t *ret) {
    int is_text = ea_json_take_char(&k->c, '"'); /* hex goes as a text */
    if (!(is_text ? ea_json_take_text(&k->c, &k->value) : ea_json_take_word(&k->c, &k->value)))
        return own_wrong(k, "expected a number for", key);
    ea_text_char(&k->value, 0);
    if (k->value.failed)
        return ea_fail(k->err, EA_ENOMEM, "read %s", k->name);
    int is_whole = strlen(k->value.data) + 1 == k->value.len_bytes;
    return !is_whole || ea_u64_parse(k->value.data, ret) || *ret > most ? own_wrong(k, "no such number can be", key)
                                                                        : 0;
}

/* A text, or ticks. */
static int own_time(own_reader *k, const char *key) {
    char time[NAME_MAX_BYTES + 1];
    uint64_t ticks;
    int rc;
    ea_json_skip_blanks(&k->c);
    int is_text = k->c.at < k->c.end && *k->c.at == '"';
    rc = is_text ? own_take_text(k, key, time) : own_take_number(k, key, INT64_MAX, &ticks);
    if (rc)
        return rc;
    k->event.time = ea_arena_strdup(&k->l->arena, is_text ? time : k->value.data);
    return k->event.time ? 0 : ea_fail(k->err, EA_ENOMEM, "read %s", k->name);
}

static int own_provider(own_reader *k, const char *key) {
    int rc = own_take_text(k, key, k->provider);
    if (rc)
        return rc;
    k->has_provider = 1;
    if (ea_guid_parse(k->provider, &k->event.record.provider))
        return ea_provider_guid_of_name(k->provider, &k->event.record.provider, k->err);
    k->provider[0] = 0;
    return 0;
}

static int own_number_member(own_reader *k, const char *key) {
    enum { PID, TID, CPU, LEVEL, OPCODE, KEYWORD, ID, VERSION, COUNT };

    static const struct {
        const char *key;
        uint64_t most;
    } NUMBERS[COUNT] = {{"pid", UINT32_MAX},   {"tid", UINT32_MAX},     {"cpu", 1023},      {"level", UINT8_MAX},
                        {"opcode", UINT8_MAX}, {"keyword", UINT64_MAX}, {"id", UINT16_MAX}, {"version", UINT8_MAX}};

    ea_record *r = &k->event.record;
    uint64_t number = 0;
    int which = 0;
    const int known = k->l->registry ? COUNT : ID;
    while (which < known && strcmp(NUMBERS[which].key, key) != 0)
        which++;
    if (which == known)
        return own_wrong(k, "no key is called", key);
    int rc = own_take_number(k, key, NUMBERS[which].most, &number);
    if (rc)
        return rc;
    switch (which) {
    case PID:
        r->pid = (uint32_t)number;
        break;
    case TID:
        r->tid = (uint32_t)number;
        break;
    case CPU:
        r->cpu = (uint16_t)number;
        break;
    case LEVEL:
        r->level = (uint8_t)number;
        k->has_level = 1;
        break;
    case OPCODE:
        r->opcode = (uint8_t)number;
        k->has_opcode = 1;
        break;
    case ID:
        r->id = (uint16_t)number;
        k->has_id = 1;
        break;
    case VERSION:
        r->version = (uint8_t)number;
        break;
    default:
        r->keyword = number;
        k->has_keyword = 1;
    }
    return 0;
}

/* What Windows says itself of an event that is written now. */
static int own_is_of_live(const char *key) {
    return strcmp(key, "time") == 0 || strcmp(key, "pid") == 0 || strcmp(key, "tid") == 0 || strcmp(key, "cpu") == 0;
}

static int own_member(own_reader *k, const char *key) {
    int rc;
    if (k->l->is_live && own_is_of_live(key))
        return own_wrong(k, "an event that is written now has that of this program:", key);
    if (strcmp(key, "time") == 0)
        return own_time(k, key);
    if (strcmp(key, "provider") == 0)
        return own_provider(k, key);
    if (strcmp(key, "fields") == 0)
        return own_fields(k);
    if (strcmp(key, "name") == 0) {
        rc = k->has_name ? own_wrong(k, "it has twice the key", key) : own_take_text(k, key, k->event_name);
        return rc ? rc : own_begin_schema(k);
    }
    return own_number_member(k, key);
}

/* ---- events with an id ---- */

/* A number as it is written, hex as a text. 1, or 0. */
static int own_number_of(const char *text, uint64_t *ret) {
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        *ret = *text == 't';
        return 1;
    }
    int is_negative = *text == '-';
    if (ea_u64_parse(text + is_negative, ret) || (is_negative && *ret > (uint64_t)INT64_MAX + 1))
        return 0;
    *ret = is_negative ? 0 - *ret : *ret;
    return 1;
}

static int own_fraction_of(const char *text, uint8_t type, uint64_t *ret) {
    char *end;
    double wide = strtod(text, &end);
    if (end == text || *end || wide - wide != 0 || (type == EA_F32 && (wide > FLT_MAX || wide < -FLT_MAX)))
        return 0;
    float narrow = type == EA_F32 ? (float)wide : 0;
    *ret = 0;
    memcpy(ret, type == EA_F32 ? (const void *)&narrow : &wide, type == EA_F32 ? sizeof narrow : sizeof wide);
    return 1;
}

/* *ret borrows from what was given and from *guid. */
static int own_value(own_reader *k, const ea_field *f, const own_given *g, ea_guid *guid, ea_event_value *ret) {
    *ret = (ea_event_value){.kind = EA_VALUE_NUMBER};
    if (f->count != 1 || f->count_field >= 0)
        return own_wrong(k, "an array cannot be given:", f->name);
    switch (f->type) {
    case EA_UTF16Z:
    case EA_ANSIZ:
    case EA_UTF8Z:
    case EA_UTF16_COUNTED:
    case EA_ANSI_COUNTED:
    case EA_UTF8_COUNTED:
        *ret = (ea_event_value){.kind = EA_VALUE_TEXT, .data = g->value, .count = g->len_bytes};
        return 0;
    case EA_GUID:
        *ret = (ea_event_value){.kind = EA_VALUE_BYTES, .data = guid->bytes, .count = sizeof guid->bytes};
        return ea_guid_parse(g->value, guid) ? own_wrong(k, "expected a GUID for", f->name) : 0;
    case EA_F32:
    case EA_F64:
        return own_fraction_of(g->value, f->type, &ret->number) ? 0 : own_wrong(k, "expected a number for", f->name);
    default:
        if (!f->width || f->width > sizeof ret->number || f->type == EA_IPV4)
            return own_wrong(k, "a field of its type cannot be given:", f->name);
        return own_number_of(g->value, &ret->number) ? 0 : own_wrong(k, "expected a whole number for", f->name);
    }
}

/* Level, opcode and keyword by what the class says of them. */
static void own_take_notes(own_reader *k, const ea_class_notes *n) {
    static const char *const LEVELS[] = {"LogAlways", "Critical", "Error", "Warning", "Informational", "Verbose"};
    static const char *const OPCODES[] = {"Info",      "Start", "Stop",   "DC_Start", "DC_Stop",
                                          "Extension", "Reply", "Resume", "Suspend",  "Send"};
    ea_record *r = &k->event.record;
    for (size_t i = 0; !k->has_level && i < sizeof LEVELS / sizeof *LEVELS; i++)
        if (strcmp(n->level, LEVELS[i]) == 0)
            r->level = (uint8_t)i;
    for (size_t i = 0; !k->has_opcode && i < sizeof OPCODES / sizeof *OPCODES; i++)
        if (strcmp(n->opcode, OPCODES[i]) == 0)
            r->opcode = (uint8_t)i;
    if (!k->has_opcode && strcmp(n->opcode, "Receive") == 0)
        r->opcode = OPCODE_RECEIVE;
    for (size_t i = 0; !k->has_keyword && i < n->keyword_count; i++)
        r->keyword |= n->keywords[i].value;
}

/* The payload of an event with an id, out of the fields that were given. */
static int own_encode(own_reader *k) {
    ea_event_value values[EA_OWN_FIELDS_MAX];
    ea_guid guids[EA_OWN_FIELDS_MAX];
    k->event.record.channel = 0;
    const ea_class *c = ea_registry_find(k->l->registry, &k->event.record);
    if (c->status != EA_CLASS_KNOWN || c->top_count > EA_OWN_FIELDS_MAX)
        return own_wrong(k, "no manifest describes an event of that provider, id and version", NULL);
    for (size_t i = 0; i < c->top_count; i++) {
        const ea_field *f = &c->fields[ea_class_top_field(c, i)];
        size_t at = 0;
        while (at < k->field_count && strcmp(k->given[at].name, f->name) != 0)
            at++;
        if (at == k->field_count)
            return own_wrong(k, "the event has no value for its field", f->name);
        int rc = own_value(k, f, &k->given[at], &guids[i], &values[i]);
        if (rc)
            return rc;
    }
    if (k->field_count != c->top_count)
        return own_wrong(k, "a field is given that the event does not have, or twice", NULL);
    if (c->notes)
        own_take_notes(k, c->notes);
    ea_err err = {0};
    return ea_event_write_values(c, values, c->top_count, k->payload, sizeof k->payload, &k->payload_bytes, &err)
               ? own_wrong(k, err.message, NULL)
               : 0;
}

/* ---- the list ---- */

static void own_begin(own_reader *k) {
    k->event = (ea_own_event){.line = k->line,
                              .record = {.pid = UINT32_MAX,
                                         .tid = UINT32_MAX,
                                         .channel = CHANNEL_TRACELOGGING,
                                         .level = LEVEL_INFORMATION,
                                         .flags = EA_FLAG_EXTENDED_INFO}};
    k->has_provider = k->has_name = k->has_id = k->has_level = k->has_opcode = k->has_keyword = 0;
    k->provider[0] = 0;
    k->schema_bytes = k->payload_bytes = k->field_count = 0;
}

/* The provider's name as its traits have it. */
static const uint8_t *own_traits(own_reader *k, size_t *ret_bytes) {
    enum { SIZE = 2 };

    size_t n = strlen(k->provider) + 1;
    uint8_t *traits = ea_arena_alloc(&k->l->arena, SIZE + n);
    if (!traits)
        return NULL;
    *ret_bytes = SIZE + n;
    ea_store16(traits, (uint16_t)*ret_bytes);
    memcpy(traits + SIZE, k->provider, n);
    return traits;
}

static int own_keep(own_reader *k) {
    ea_own_events *l = k->l;
    ea_record *r = &k->event.record;
    size_t traits_bytes;
    if (!l->is_live && (!k->event.time || !k->has_provider || !k->has_name))
        return own_wrong(k, "expected time, provider and name", NULL);
    if (!k->has_provider || k->has_name == k->has_id)
        return own_wrong(k, "expected provider, and name or id", NULL);
    int rc = k->has_id ? own_encode(k) : 0;
    if (rc)
        return rc;
    if (l->count == EA_OWN_EVENTS_MAX)
        return ea_fail(k->err, EA_ELIMIT, "%s: at most %d events", k->name, EA_OWN_EVENTS_MAX);
    ea_ext *items = ea_arena_zalloc(&l->arena, 2, sizeof *items);
    const uint8_t *schema = ea_arena_copy(&l->arena, k->schema, k->schema_bytes),
                  *payload = ea_arena_copy(&l->arena, k->payload, k->payload_bytes + (size_t)!k->payload_bytes);
    if (!items || !schema || !payload || EA_GROW(l->items, l->capacity, l->count + 1, SIZE_MAX))
        return ea_fail(k->err, EA_ENOMEM, "read %s", k->name);
    r->payload = payload;
    r->payload_bytes = (uint16_t)k->payload_bytes;
    if (k->has_id) {
        r->flags &= (uint16_t)~EA_FLAG_EXTENDED_INFO;
        l->items[l->count++] = k->event;
        return 0;
    }
    items[0] = (ea_ext){.type = EA_EXT_SCHEMA_TL, .size_bytes = (uint32_t)k->schema_bytes, .data = schema};
    r->ext = items;
    r->ext_count = 1;
    if (k->provider[0]) {
        const uint8_t *traits = own_traits(k, &traits_bytes);
        if (!traits)
            return ea_fail(k->err, EA_ENOMEM, "read %s", k->name);
        items[0].linkage = 1;
        items[1] = (ea_ext){.type = EA_EXT_PROV_TRAITS, .size_bytes = (uint32_t)traits_bytes, .data = traits};
        r->ext_count = 2;
    }
    l->items[l->count++] = k->event;
    return 0;
}

static int own_line(own_reader *k) {
    int is_first = 1, rc;
    own_begin(k);
    if (k->c.at == k->c.end)
        return 0;
    if (!ea_json_take_char(&k->c, '{'))
        return own_wrong(k, "expected an object", NULL);
    while ((rc = own_next_key(k, &is_first)) > 0) {
        char key[16]; /* no known one is longer; fields have k->key */
        size_t n = k->key.len_bytes < sizeof key ? k->key.len_bytes : sizeof key;
        memcpy(key, k->key.data, n);
        key[sizeof key - 1] = 0;
        if ((rc = own_member(k, key)))
            return rc;
    }
    ea_json_skip_blanks(&k->c);
    if (!rc && k->c.at != k->c.end)
        rc = own_wrong(k, "expected nothing after the object", NULL);
    return rc ? rc : own_keep(k);
}

int ea_own_events_create(ea_own_events **ret, int is_live, ea_err *err) {
    ea_own_events *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "events of one's own");
    ea_arena_init(&l->arena, 0);
    l->is_live = is_live;
    *ret = l;
    return 0;
}

void ea_own_events_describe(ea_own_events *l, ea_registry *registry) {
    l->registry = registry;
}

void ea_own_events_clear(ea_own_events *l) {
    ea_arena_recycle(&l->arena);
    l->count = 0;
}

void ea_own_events_destroy(ea_own_events *l) {
    if (!l)
        return;
    free(l->items);
    ea_arena_deinit(&l->arena);
    free(l);
}

static int own_open(own_reader **ret, ea_own_events *l, const char *name, ea_err *err) {
    own_reader *k = calloc(1, sizeof *k);
    if (!k)
        return ea_fail(err, EA_ENOMEM, "read %s", name);
    k->l = l;
    k->name = name;
    k->err = err;
    ea_text_init(&k->key);
    ea_text_init(&k->value);
    *ret = k;
    return 0;
}

static void own_close(own_reader *k) {
    ea_text_deinit(&k->key);
    ea_text_deinit(&k->value);
    free(k);
}

int ea_own_events_read(ea_own_events *l, const char *name, const char *text, size_t len_bytes, ea_err *err) {
    const char *at = text, *whole_end = text + len_bytes;
    own_reader *k;
    int rc = own_open(&k, l, name, err);
    if (rc)
        return rc;
    if (!l->lines && len_bytes >= UTF8_BOM_BYTES && memcmp(text, "\xef\xbb\xbf", UTF8_BOM_BYTES) == 0)
        at += UTF8_BOM_BYTES;
    while (!rc && at < whole_end) {
        const char *newline = memchr(at, '\n', (size_t)(whole_end - at)), *end = newline ? newline : whole_end;
        k->line = ++l->lines;
        k->c = (ea_json_cursor){at, end > at && end[-1] == '\r' ? end - 1 : end};
        rc = own_line(k);
        at = newline ? newline + 1 : whole_end;
    }
    own_close(k);
    return rc;
}

int ea_own_events_mark(ea_own_events *l, const char *time, const char *text, ea_err *err) {
    static const char PROVIDER[] = "Etwagent-Marks", NAME[] = "Mark";
    own_reader *k;
    int rc = own_open(&k, l, "the mark", err);
    if (rc)
        return rc;
    own_begin(k);
    memcpy(k->provider, PROVIDER, sizeof PROVIDER);
    memcpy(k->event_name, NAME, sizeof NAME);
    k->has_provider = 1;
    k->event.time = time ? ea_arena_strdup(&l->arena, time) : NULL;
    rc = !time == !k->event.time ? ea_provider_guid_of_name(PROVIDER, &k->event.record.provider, err)
                                 : ea_fail(err, EA_ENOMEM, "a mark");
    if (!rc)
        rc = own_begin_schema(k);
    if (!rc)
        rc = own_text_field(k, "Text", text, strlen(text));
    if (!rc)
        rc = own_keep(k);
    own_close(k);
    return rc;
}

const ea_own_event *ea_own_events_items(const ea_own_events *l, size_t *ret_count) {
    *ret_count = l->count;
    return l->items;
}
