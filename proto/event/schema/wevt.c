/* WEVT_TEMPLATE. See wevt.h. A resource is "CRIM" with providers ("WEVT"), each with tables: events ("EVNT"), templates
 * ("TEMP"), maps ("VMAP", "BMAP"), keywords, levels, tasks, opcodes and channels. Events point at what they use by
 * offsets from the resource's start; every one is checked, and the work on one file is bounded. */
#include "proto/event/schema/wevt.h"

#include "proto/base/map.h"
#include "proto/event/class.h"
#include "proto/event/properties.h"
#include "proto/event/schema/language.h"
#include "proto/event/tdh_types.h"
#include "proto/image/pe_resources.h"

#include <stdarg.h>

enum {
    PROVIDERS_MAX = 4096,
    EVENTS_MAX = 1 << 18, /* of one file */
    ITEMS_MAX = 1 << 22,  /* items of templates and entries of maps and tables that are looked at, of one file */
    MEMORY_BYTES = 64 << 20,
    NO_MESSAGE = -1,
    EVENT_BYTES = 48,
    ITEM_BYTES = 20,
    MAP_ENTRY_BYTES = 8,
    PROBLEM_BYTES = 400,
};

/* A definition of a table: entry size, and where in the entry the name's offset and the text's number are. */
typedef struct shape {
    const char *signature;
    uint8_t bytes, message_at, name_at;
} shape;

static const shape LEVEL = {"LEVL", 12, 4, 8}, OPCODE = {"OPCO", 12, 4, 8}, TASK = {"TASK", 28, 4, 24},
                   KEYWORD = {"KEYW", 16, 8, 12}, CHANNEL = {"CHAN", 16, 12, 4};

typedef struct table {
    size_t at; /* of the first entry */
    uint32_t count;
} table;

typedef struct template {
    ea_field *fields;
    size_t field_count;
    int wrong;
}

template;

typedef struct wevt {
    const ea_manifest_options *o;
    ea_manifest_result result;
    ea_schemas *into;
    const uint8_t *data;
    size_t len_bytes;
    ea_u64_map messages;  /* number -> entry of a message table */
    ea_u64_map templates; /* offset -> template */
    ea_u64_map maps;      /* offset -> ea_enum */
    ea_arena arena;       /* what lives as long as the resource */
    ea_arena scratch;     /* what lives as long as an event */
    ea_text text;
    ea_guid guid;
    const char *provider;
    table events, levels, opcodes, tasks, keywords, channels;
    size_t items; /* looked at so far */
    int no_memory;
} wevt;

EA_PRINTF(3, 4) static void problem(wevt *w, size_t at, const char *format, ...) {
    char text[PROBLEM_BYTES];
    va_list args;
    w->result.problems++;
    if (!w->o->on_problem)
        return;
    int n = snprintf(text, sizeof text, "WEVT_TEMPLATE at 0x%zx: ", at);
    va_start(args, format);
    vsnprintf(text + n, sizeof text - (size_t)n, format, args);
    va_end(args);
    w->o->on_problem(w->o->arg, 0, 0, text);
}

/* 1 when [at, at + bytes) lies inside the resource. */
static int wevt_inside(const wevt *w, size_t at, size_t bytes) {
    return at <= w->len_bytes && bytes <= w->len_bytes - at;
}

/* 1 while there is work left that one file may cause. */
static int may_look_at(wevt *w, size_t count) {
    if (count > ITEMS_MAX || w->items + count > ITEMS_MAX) {
        w->no_memory = 1;
        return 0;
    }
    w->items += count;
    return 1;
}

/* ---- texts ---- */

static const char *wevt_keep(wevt *w, ea_arena *arena) {
    const char *own = w->text.failed ? NULL : ea_arena_strdup(arena, w->text.data ? w->text.data : "");
    w->no_memory |= !own;
    return own ? own : "";
}

/* UTF-16 with its size in bytes, that of the size included, before it; "" for offset 0 and what is outside. */
static const char *wevt_name_at(wevt *w, size_t at, ea_arena *arena) {
    if (!at)
        return "";
    size_t bytes = wevt_inside(w, at, 4) ? ea_load32(w->data + at) : 0, n = 4;
    if (bytes < 4 || bytes > 2 * EA_NAME_MAX_BYTES + 8 || !wevt_inside(w, at, bytes)) {
        problem(w, at, "a name is outside of the resource");
        return "";
    }
    if (!may_look_at(w, bytes / 16))
        return "";
    while (n + 2 <= bytes && ea_load16(w->data + at + n))
        n += 2;
    ea_text_clear(&w->text);
    ea_text_utf16(&w->text, w->data + at + 4, n - 4);
    return wevt_keep(w, arena);
}

static const char *message(wevt *w, uint32_t number, ea_arena *arena) {
    ea_text_clear(&w->text);
    if (number != (uint32_t)NO_MESSAGE)
        (void)ea_messages_get(&w->messages, number, &w->text); /* a text that is nowhere is none */
    return wevt_keep(w, arena);
}

/* The text of a definition at an offset, or its name without a prefix: as people are shown it. */
static const char *wevt_shown(wevt *w, const shape *s, size_t at, const char *name, ea_arena *arena) {
    const char *colon = strchr(name, ':');
    const char *text = strncmp(name, "win:", 4) == 0 ? "" : message(w, ea_load32(w->data + at + s->message_at), arena);
    return *text ? text : colon ? colon + 1 : name;
}

/* ---- tables ---- */

static void find_table(wevt *w, size_t at, const shape *s, table *ret) {
    if (!wevt_inside(w, at, 12))
        return;
    uint32_t count = ea_load32(w->data + at + 8);
    if (!wevt_inside(w, at + 12, 0) || count > (w->len_bytes - at - 12) / s->bytes) {
        problem(w, at, "%s: %u entries, of which not all lie in the resource", s->signature, count);
        return;
    }
    *ret = (table){at + 12, count};
}

/* The definition with this value; 0: none. */
static size_t find_value(wevt *w, const shape *s, const table *t, uint32_t value, uint32_t other) {
    if (!may_look_at(w, t->count))
        return 0;
    for (uint32_t i = 0; i < t->count; i++) {
        size_t at = t->at + (size_t)i * s->bytes;
        uint32_t v = ea_load32(w->data + at);
        if (v == value || v == other)
            return at;
    }
    return 0;
}

/* Of an event: the definition that it points at, or the one with its value. 0: none. */
static size_t definition(wevt *w, const shape *s, const table *t, uint32_t offset, uint32_t value, uint32_t other) {
    if (!offset)
        return value ? find_value(w, s, t, value, other) : 0;
    if (wevt_inside(w, offset, s->bytes))
        return offset;
    problem(w, offset, "%s: an event's definition is outside of the resource", s->signature);
    return 0;
}

/* ---- templates ---- */

static const ea_enum *read_map(wevt *w, size_t at) {
    const uint64_t *known = ea_u64_map_get(&w->maps, at);
    if (known)
        return (const ea_enum *)(uintptr_t)*known;
    int is_flags = wevt_inside(w, at, 20) && memcmp(w->data + at, "BMAP", 4) == 0;
    uint32_t count = wevt_inside(w, at, 20) ? ea_load32(w->data + at + 16) : 0;
    if (!wevt_inside(w, at, 20) || (!is_flags && memcmp(w->data + at, "VMAP", 4) != 0) ||
        count > (w->len_bytes - at - 20) / MAP_ENTRY_BYTES) {
        problem(w, at, "expected a map (VMAP or BMAP) that lies in the resource");
        return NULL;
    }
    if (!may_look_at(w, count))
        return NULL;
    ea_map_entry *entries = ea_arena_zalloc(&w->arena, (size_t)count + 1, sizeof *entries);
    ea_enum *map = ea_arena_zalloc(&w->arena, 1, sizeof *map);
    if (!entries || !map || ea_u64_map_put(&w->maps, at, (uint64_t)(uintptr_t)map)) {
        w->no_memory = 1;
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *p = w->data + at + 20 + (size_t)i * MAP_ENTRY_BYTES;
        entries[i] = (ea_map_entry){ea_load32(p), message(w, ea_load32(p + 4), &w->arena)};
    }
    *map = (ea_enum){.name = wevt_name_at(w, ea_load32(w->data + at + 8), &w->arena),
                     .is_flags = is_flags,
                     .count = count,
                     .entries = entries};
    return map;
}

static void read_item(wevt *w, size_t at, ea_property *ret) {
    enum { FIXED_LENGTH = 0x2, LENGTH_FROM = 0x4, FIXED_COUNT = 0x8, COUNT_FROM = 0x10, ARRAY = 0x80 };

    const uint8_t *p = w->data + at;
    uint32_t flags = ea_load32(p), map = ea_load32(p + 8);
    uint16_t members = ea_load16(p + 6), count = ea_load16(p + 12), length = ea_load16(p + 14);
    *ret = (ea_property){.name = wevt_name_at(w, ea_load32(p + 16), &w->arena), .count_from = -1, .length_from = -1};
    if (members) {
        ret->is_struct = 1;
        ret->first_member = ea_load16(p + 4);
        ret->member_count = members;
    } else {
        ret->in_type = p[4] & ~ARRAY;
        ret->out_type = p[5];
        ret->map = map ? read_map(w, map) : NULL;
    }
    if (flags & COUNT_FROM)
        ret->count_from = count;
    else if (flags & FIXED_COUNT || (!members && p[4] & ARRAY))
        ret->count = count ? count : 1;
    if (members)
        return;
    if (flags & LENGTH_FROM)
        ret->length_from = length;
    else if (flags & FIXED_LENGTH)
        ret->length = length;
}

static void fill_template(wevt *w, size_t at, template *t) {
    uint32_t top = wevt_inside(w, at, 40) ? ea_load32(w->data + at + 8) : 0,
             count = wevt_inside(w, at, 40) ? ea_load32(w->data + at + 12) : 0,
             items = wevt_inside(w, at, 40) ? ea_load32(w->data + at + 16) : 0;
    const char *wrong;
    size_t which;
    if (!wevt_inside(w, at, 40) || memcmp(w->data + at, "TEMP", 4) != 0 || count < top || count > EA_FIELDS_MAX ||
        (count && !wevt_inside(w, items, (size_t)count * ITEM_BYTES))) {
        problem(w, at, "expected a template (TEMP) of at most %d items that lies in the resource", EA_FIELDS_MAX);
        return;
    }
    ea_property *properties = ea_arena_zalloc(&w->arena, (size_t)count + 1, sizeof *properties);
    ea_field *fields = ea_arena_alloc(&w->scratch, EA_FIELDS_MAX * sizeof *fields);
    if (!properties || !fields) {
        w->no_memory = 1;
        return;
    }
    if (!may_look_at(w, count))
        return;
    for (uint32_t i = 0; i < count; i++)
        read_item(w, items + (size_t)i * ITEM_BYTES, &properties[i]);
    int n = ea_properties_to_fields(properties, count, top, fields, &wrong, &which);
    if (n < 0) {
        problem(w, at, "item %zu '%.80s' of a template %s", which, which < count ? properties[which].name : "", wrong);
        return;
    }
    t->fields = ea_arena_copy(&w->arena, fields, (size_t)n * sizeof *fields);
    t->field_count = (size_t)n;
    w->no_memory |= !t->fields;
    t->wrong = 0;
}

static const template *wevt_read_template(wevt *w, size_t at) {
    const uint64_t *known = ea_u64_map_get(&w->templates, at);
    if (known)
        return (const template *)(uintptr_t)*known;
    template *t = ea_arena_zalloc(&w->arena, 1, sizeof *t);
    if (!t || ea_u64_map_put(&w->templates, at, (uint64_t)(uintptr_t)t)) {
        w->no_memory = 1;
        return NULL;
    }
    t->wrong = 1;
    fill_template(w, at, t);
    return t;
}

/* ---- events ---- */

/* Keywords of the provider that share bits with mask; winmeta's have no entry, as in a manifest. */
static size_t wevt_list_keywords(wevt *w, uint64_t mask, ea_map_entry *ret, ea_arena *arena) {
    size_t n = 0;
    if (!mask || !may_look_at(w, w->keywords.count))
        return 0;
    for (uint32_t i = 0; i < w->keywords.count && n < EA_KEYWORDS_MAX; i++) {
        const uint8_t *p = w->data + w->keywords.at + (size_t)i * KEYWORD.bytes;
        uint64_t value = ea_load64(p);
        if (!(value & mask))
            continue;
        const char *name = wevt_name_at(w, ea_load32(p + KEYWORD.name_at), arena);
        if (strncmp(name, "win:", 4) != 0)
            ret[n++] = (ea_map_entry){value, name};
    }
    return n;
}

/* Channels of Windows that providers import. Source: winmeta.xml. */
static const char *common_channel(unsigned number) {
    static const char *const NAMES[] = {"System", "Application", "Security", "TraceLogging"};
    return number >= 8 && number < 12 ? NAMES[number - 8] : "";
}

static const char *channel_name(wevt *w, unsigned number) {
    enum { REFERENCE_AT = 8 };

    if (!number || !may_look_at(w, w->channels.count))
        return "";
    for (uint32_t i = 0; i < w->channels.count; i++) {
        const uint8_t *p = w->data + w->channels.at + (size_t)i * CHANNEL.bytes;
        if (ea_load32(p + REFERENCE_AT) == number)
            return wevt_name_at(w, ea_load32(p + CHANNEL.name_at), &w->scratch);
    }
    return common_channel(number);
}

/* "Task/Opcode", without what says nothing. */
static const char *wevt_event_name(wevt *w, const char *task, uint16_t task_value, const char *opcode,
                                   uint8_t opcode_value) {
    int is_common = strncmp(opcode, "win:", 4) == 0;
    if (!task_value)
        task = "";
    opcode = is_common && !opcode_value ? "" : is_common ? opcode + 4 : opcode;
    ea_text_clear(&w->text);
    ea_text_str(&w->text, task);
    if (*task && *opcode)
        ea_text_char(&w->text, '/');
    ea_text_str(&w->text, opcode);
    return wevt_keep(w, &w->scratch);
}

static void wevt_add_event(wevt *w, size_t at, const template *t) {
    ea_map_entry keywords[EA_KEYWORDS_MAX];
    const uint8_t *p = w->data + at;
    uint8_t opcode = p[5];
    uint16_t task = ea_load16(p + 6);
    size_t task_at = definition(w, &TASK, &w->tasks, ea_load32(p + 32), task, task),
           level_at = definition(w, &LEVEL, &w->levels, ea_load32(p + 28), 0, 0),
           opcode_at = definition(w, &OPCODE, &w->opcodes, ea_load32(p + 24), opcode ? (uint32_t)opcode << 16 : 0,
                                  (uint32_t)opcode << 16 | task);
    const char *task_name = task_at ? wevt_name_at(w, ea_load32(w->data + task_at + TASK.name_at), &w->scratch) : "",
               *opcode_name =
                   opcode_at ? wevt_name_at(w, ea_load32(w->data + opcode_at + OPCODE.name_at), &w->scratch) : "",
               *level_name =
                   level_at ? wevt_name_at(w, ea_load32(w->data + level_at + LEVEL.name_at), &w->scratch) : "";
    ea_class_head head = {.provider = w->guid,
                          .provider_name = w->provider,
                          .name = wevt_event_name(w, task_name, task, opcode_name, opcode),
                          .code = ea_load16(p),
                          .version = p[2],
                          .pointer_size = 8};
    ea_class_notes notes = {.message = message(w, ea_load32(p + 16), &w->scratch),
                            .level = level_at ? wevt_shown(w, &LEVEL, level_at, level_name, &w->scratch) : "",
                            .channel = channel_name(w, p[3]),
                            .task = task_at && task ? wevt_shown(w, &TASK, task_at, task_name, &w->scratch) : "",
                            .opcode = opcode_at ? wevt_shown(w, &OPCODE, opcode_at, opcode_name, &w->scratch) : "",
                            .keyword_count = wevt_list_keywords(w, ea_load64(p + 8), keywords, &w->scratch),
                            .keywords = keywords};
    ea_text_clear(&w->text);
    ea_class_describe_fields(&w->text, &head, t ? t->fields : NULL, t ? t->field_count : 0, &notes);
    w->no_memory |= w->text.failed;
    if (w->no_memory || !w->into)
        return;
    ea_err why;
    int changed,
        rc = ea_schemas_add(w->into, w->o->layer, (const uint8_t *)w->text.data, w->text.len_bytes, &changed, &why);
    if (rc == EA_ENOMEM || rc == EA_ELIMIT)
        w->no_memory = 1;
    else if (rc)
        problem(w, at, "event %u: %s", (unsigned)head.code, why.message);
    else
        w->result.changed |= changed;
}

static void wevt_read_events(wevt *w) {
    for (uint32_t i = 0; i < w->events.count && !w->no_memory; i++) {
        size_t at = w->events.at + (size_t)i * EVENT_BYTES;
        uint32_t template_at = ea_load32(w->data + at + 20);
        if (w->result.events == EVENTS_MAX) {
            w->no_memory = 1;
            return;
        }
        const template *t = template_at ? wevt_read_template(w, template_at) : NULL;
        w->result.events++;
        if (!template_at || (t && !t->wrong)) /* a wrong template was reported at its own place */
            wevt_add_event(w, at, t);
        ea_arena_reset(&w->scratch);
    }
}

/* ---- providers ---- */

/* The provider's name, which newer message compilers write ("PRVA"); else its text, else "". */
static const char *wevt_provider_name(wevt *w, size_t private_at, uint32_t message_number) {
    size_t at = private_at && wevt_inside(w, private_at, 20) && ea_load32(w->data + private_at + 8)
                    ? ea_load32(w->data + private_at + 16)
                    : 0,
           n = 0;
    if (!at)
        return message(w, message_number, &w->arena);
    while (n < 2 * EA_NAME_MAX_BYTES && wevt_inside(w, at + n, 2) && ea_load16(w->data + at + n))
        n += 2;
    ea_text_clear(&w->text);
    if (wevt_inside(w, at, n))
        ea_text_utf16(&w->text, w->data + at, n);
    return wevt_keep(w, &w->arena);
}

static void wevt_add_provider(wevt *w, uint32_t message_number) {
    ea_map_entry keywords[EA_KEYWORDS_MAX], levels[256];
    size_t level_count = 0;
    if (!may_look_at(w, w->levels.count))
        return;
    for (uint32_t i = 0; i < w->levels.count && level_count < 256; i++) {
        const uint8_t *p = w->data + w->levels.at + (size_t)i * LEVEL.bytes;
        const char *name = wevt_name_at(w, ea_load32(p + LEVEL.name_at), &w->scratch);
        if (strncmp(name, "win:", 4) != 0)
            levels[level_count++] = (ea_map_entry){ea_load32(p), name};
    }
    ea_schema_provider p = {.guid = w->guid,
                            .name = w->provider,
                            .origin = w->o->file,
                            .message = message(w, message_number, &w->scratch),
                            .keyword_count = wevt_list_keywords(w, UINT64_MAX, keywords, &w->scratch),
                            .keywords = keywords,
                            .level_count = level_count,
                            .levels = levels,
                            .layer = (uint8_t)w->o->layer};
    if (w->into && !w->no_memory && ea_schemas_add_provider(w->into, &p, NULL))
        w->no_memory = 1;
    ea_arena_reset(&w->scratch);
}

static void read_events_table(wevt *w, size_t at) {
    if (!wevt_inside(w, at, 16))
        return;
    uint32_t count = ea_load32(w->data + at + 8);
    if (count > (w->len_bytes - at - 16) / EVENT_BYTES)
        problem(w, at, "EVNT: %u events, of which not all lie in the resource", count);
    else
        w->events = (table){at + 16, count};
}

static void wevt_read_provider(wevt *w, size_t at) {
    static const struct {
        const shape *s;
        size_t table;
    } TABLES[] = {{&LEVEL, offsetof(wevt, levels)},
                  {&OPCODE, offsetof(wevt, opcodes)},
                  {&TASK, offsetof(wevt, tasks)},
                  {&KEYWORD, offsetof(wevt, keywords)},
                  {&CHANNEL, offsetof(wevt, channels)}};

    uint32_t count = wevt_inside(w, at, 20) ? ea_load32(w->data + at + 12) : 0;
    if (!wevt_inside(w, at, 20) || memcmp(w->data + at, "WEVT", 4) != 0 || count > (w->len_bytes - at - 16) / 8) {
        problem(w, at, "expected a provider (WEVT) that lies in the resource");
        return;
    }
    w->events = w->levels = w->opcodes = w->tasks = w->keywords = w->channels = (table){0, 0};
    size_t private_at = 0;
    for (uint32_t i = 0; i < count; i++) {
        size_t element = ea_load32(w->data + at + 20 + (size_t)i * 8);
        if (!wevt_inside(w, element, 12)) {
            problem(w, element, "a table of the provider is outside of the resource");
            continue;
        }
        if (memcmp(w->data + element, "EVNT", 4) == 0)
            read_events_table(w, element);
        if (memcmp(w->data + element, "PRVA", 4) == 0)
            private_at = element;
        for (size_t k = 0; k < sizeof TABLES / sizeof TABLES[0]; k++)
            if (memcmp(w->data + element, TABLES[k].s->signature, 4) == 0)
                find_table(w, element, TABLES[k].s, (table *)((char *)w + TABLES[k].table));
    }
    uint32_t message_number = ea_load32(w->data + at + 8);
    w->provider = wevt_provider_name(w, private_at, message_number);
    w->result.providers++;
    wevt_add_provider(w, message_number);
    wevt_read_events(w);
}

static void read_resource(wevt *w, const ea_pe_resource *r) {
    w->data = r->data;
    w->len_bytes = r->len_bytes;
    uint32_t count = wevt_inside(w, 0, 16) ? ea_load32(w->data + 12) : 0;
    if (!wevt_inside(w, 0, 16) || memcmp(w->data, "CRIM", 4) != 0 || count > (w->len_bytes - 16) / 20 ||
        count > PROVIDERS_MAX) {
        problem(w, 0, "expected CRIM and at most %d providers", PROVIDERS_MAX);
        return;
    }
    if (ea_load32(w->data + 4) > w->len_bytes)
        problem(w, 4, "it says that it has %u bytes, and has %zu", ea_load32(w->data + 4), w->len_bytes);
    for (uint32_t i = 0; i < count && !w->no_memory; i++) {
        memcpy(&w->guid, w->data + 16 + (size_t)i * 20, sizeof w->guid);
        wevt_read_provider(w, ea_load32(w->data + 16 + (size_t)i * 20 + 16));
    }
    ea_u64_map_clear(&w->templates); /* offsets are those of one resource */
    ea_u64_map_clear(&w->maps);
    ea_arena_reset(&w->arena);
}

/* ---- files ---- */

/* Texts of a file, those of the wanted language first. */
static void add_messages(wevt *w, const ea_pe *pe) {
    ea_pe_resource tables[EA_PE_RESOURCES_MAX];
    const char *wanted = w->o->language ? w->o->language : "en-US";
    size_t damaged, count = ea_pe_resources(pe, NULL, EA_PE_MESSAGE_TABLE, tables, &damaged);
    if (damaged)
        problem(w, 0, "%zu entries of the message tables in the file's resources are damaged", damaged);
    for (int how = 2; how >= 0; how--)
        for (size_t i = 0; i < count; i++)
            if (ea_language_serves(ea_language_name(tables[i].language), wanted) == how &&
                ea_messages_add(&w->messages, &tables[i]))
                w->no_memory = 1;
}

static int read_files(wevt *w, const ea_pe *pe, const ea_pe *mui, ea_err *err) {
    ea_pe_resource resources[EA_PE_RESOURCES_MAX];
    size_t damaged, more;
    size_t count = ea_pe_resources(pe, "WEVT_TEMPLATE", 0, resources, &damaged);
    if (!count && mui)
        count = ea_pe_resources(mui, "WEVT_TEMPLATE", 0, resources, &more);
    if (!count)
        return ea_fail(err, EA_EFORMAT, "%s: no WEVT_TEMPLATE resource %s", w->o->file,
                       damaged ? "that lies in the file" : "is in it, so it describes no provider");
    if (mui)
        add_messages(w, mui);
    add_messages(w, pe);
    for (size_t i = 0; i < count && !w->no_memory; i++)
        read_resource(w, &resources[i]);
    return w->no_memory ? ea_fail(err, EA_ELIMIT, "%s: it describes more than a file may", w->o->file) : 0;
}

int ea_wevt_read(ea_schemas *into, const void *data, size_t len_bytes, const void *mui, size_t mui_bytes,
                 const ea_manifest_options *options, ea_manifest_result *ret, ea_err *err) {
    wevt w = {.o = options, .into = into};
    ea_pe pe, language;
    int has_mui = mui && !ea_pe_open(&language, mui, mui_bytes, options->file, NULL);
    int rc = ea_pe_open(&pe, data, len_bytes, options->file, err);
    if (rc)
        return rc;
    ea_u64_map_init(&w.messages, 0);
    ea_u64_map_init(&w.templates, 0);
    ea_u64_map_init(&w.maps, 0);
    ea_arena_init(&w.arena, MEMORY_BYTES);
    ea_arena_init(&w.scratch, MEMORY_BYTES);
    ea_text_init(&w.text);
    rc = read_files(&w, &pe, has_mui ? &language : NULL, err);
    ea_text_deinit(&w.text);
    ea_arena_deinit(&w.arena);
    ea_arena_deinit(&w.scratch);
    ea_u64_map_deinit(&w.messages);
    ea_u64_map_deinit(&w.templates);
    ea_u64_map_deinit(&w.maps);
    if (!rc)
        *ret = w.result;
    return rc;
}
