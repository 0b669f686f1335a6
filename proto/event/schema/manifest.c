/* Manifests. See manifest.h. Source of the format: the Windows SDK's EventManifest schema (eventman.xsd) and
 * winmeta.xml, which defines what has the prefix win:. A document is read in one pass over its tree a provider: names
 * go into one table, then templates become properties, then events become descriptions. */
#include "proto/event/schema/manifest.h"

#include "proto/base/map.h"
#include "proto/event/class.h"
#include "proto/event/properties.h"
#include "proto/event/schema/language.h"
#include "proto/event/schema/xml.h"
#include "proto/event/tdh_types.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdlib.h>

enum { DOCUMENT_LIMIT_BYTES = 512 << 20, PROBLEM_BYTES = 400, FIRST_OWN_CHANNEL = 16 };

enum symbol_kind { TASK = 't', OPCODE = 'o', LEVEL = 'l', CHANNEL = 'c', KEYWORD = 'k', MAP = 'm', TEMPLATE = 'T' };

/* Something of a provider that has a name. */
typedef struct symbol {
    uint64_t value;
    const char *name, *text; /* text: what people are shown */
    const ea_xml_node *node; /* NULL: winmeta's */
    ea_enum *map;
    struct template *template;
} symbol;

typedef struct template {
    ea_field *fields;
    size_t field_count;
    int wrong;
}

template;

typedef struct manifest {
    const ea_manifest_options *o;
    ea_manifest_result result;
    ea_schemas *into;
    ea_arena arena;
    ea_bytes_map strings; /* id -> text */
    ea_bytes_map symbols; /* of the provider at hand: kind, scope, name -> symbol */
    ea_text key, description;
    int no_memory;
    ea_err *err;
} manifest;

/* ---- reporting mistakes ---- */

EA_PRINTF(3, 4) static void problem(manifest *m, const ea_xml_node *at, const char *format, ...) {
    char text[PROBLEM_BYTES];
    va_list args;
    m->result.problems++;
    if (!m->o->on_problem)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    m->o->on_problem(m->o->arg, at->line, at->column, text);
}

static const char *required(manifest *m, const ea_xml_node *node, const char *name) {
    const char *value = ea_xml_attribute(node, name);
    if (!value || !*value)
        problem(m, node, "%s: expected an attribute '%s'", node->name, name);
    return value && *value ? value : NULL;
}

/* Decimal or 0x hexadecimal: 1 and *ret; 0 when it is no number or exceeds max. */
static int manifest_number_of(const char *s, uint64_t max, uint64_t *ret) {
    int hex = s[0] == '0' && (s[1] == 'x' || s[1] == 'X');
    char *end;
    if (!isdigit((unsigned char)*s) || (hex && !isxdigit((unsigned char)s[2])))
        return 0;
    unsigned long long v = strtoull(s, &end, hex ? 16 : 10);
    if (*end || v > max || strlen(s) > 22)
        return 0;
    *ret = v;
    return 1;
}

/* An attribute's number; fallback when there is none. 1, or 0 when it is wrong; the mistake is reported. */
static int manifest_number(manifest *m, const ea_xml_node *node, const char *name, uint64_t max, uint64_t fallback,
                           uint64_t *ret) {
    const char *s = ea_xml_attribute(node, name);
    *ret = fallback;
    if (!s || manifest_number_of(s, max, ret))
        return 1;
    problem(m, node, "%s: %s '%.80s': expected a number from 0 to %llu", node->name, name, s, (unsigned long long)max);
    return 0;
}

/* ---- strings ---- */

static void manifest_add_strings(manifest *m, const ea_xml_node *resources) {
    const ea_xml_node *table = ea_xml_child(resources, "stringTable");
    for (const ea_xml_node *s = table ? ea_xml_child(table, "string") : NULL; s; s = ea_xml_next(s, "string")) {
        const char *id = required(m, s, "id"), *value = ea_xml_attribute(s, "value");
        if (!id || ea_bytes_map_get(&m->strings, id, strlen(id)))
            continue; /* of another language, or twice: the first holds */
        if (!value)
            problem(m, s, "string '%.80s': expected an attribute 'value'", id);
        else if (ea_bytes_map_put(&m->strings, id, strlen(id), (void *)(uintptr_t)value))
            m->no_memory = 1;
    }
}

/* Texts of the wanted language first; what it lacks comes from the others, in their order. */
static void manifest_read_strings(manifest *m, const ea_xml_node *root) {
    const char *language = m->o->language ? m->o->language : "en-US";
    const ea_xml_node *localization = ea_xml_child(root, "localization");
    for (int how = 2; localization && how >= 0; how--)
        for (const ea_xml_node *r = ea_xml_child(localization, "resources"); r; r = ea_xml_next(r, "resources")) {
            const char *culture = ea_xml_attribute(r, "culture");
            if ((culture ? ea_language_serves(culture, language) : 0) == how)
                manifest_add_strings(m, r);
        }
}

/* "$(string.ID)" as its text, other texts as they are; "" for none. */
static const char *manifest_text_of(manifest *m, const ea_xml_node *node, const char *reference) {
    static const char PREFIX[] = "$(string.";
    size_t n = reference ? strlen(reference) : 0, prefix = sizeof PREFIX - 1;
    if (!n)
        return "";
    if (n <= prefix + 1 || memcmp(reference, PREFIX, prefix) != 0 || reference[n - 1] != ')')
        return reference;
    const char *text = ea_bytes_map_get(&m->strings, reference + prefix, n - prefix - 1);
    if (!text)
        problem(m, node, "%s: message '%.120s': expected a string of that id in a stringTable", node->name, reference);
    return text ? text : "";
}

/* ---- names ---- */

static void set_key(manifest *m, enum symbol_kind kind, const char *scope, const char *name) {
    ea_text_clear(&m->key);
    ea_text_char(&m->key, (char)kind);
    ea_text_str(&m->key, scope);
    ea_text_char(&m->key, '\n');
    ea_text_str(&m->key, name);
    m->no_memory |= m->key.failed;
}

static symbol *manifest_find(manifest *m, enum symbol_kind kind, const char *scope, const char *name) {
    set_key(m, kind, scope, name);
    return m->no_memory ? NULL : ea_bytes_map_get(&m->symbols, m->key.data, m->key.len_bytes);
}

static const char *kind_name(enum symbol_kind kind) {
    switch (kind) {
    case TASK:
        return "task";
    case OPCODE:
        return "opcode";
    case LEVEL:
        return "level";
    case CHANNEL:
        return "channel";
    case KEYWORD:
        return "keyword";
    case MAP:
        return "map";
    default:
        return "template";
    }
}

static symbol *manifest_add_symbol(manifest *m, enum symbol_kind kind, const char *scope, const char *name,
                                   uint64_t value, const char *text, const ea_xml_node *node) {
    symbol *known = manifest_find(m, kind, scope, name);
    if (known && node) {
        problem(m, node, "%s '%.80s' is defined twice; the first is in line %lu", kind_name(kind), name,
                known->node ? known->node->line : 0);
        return NULL;
    }
    symbol *s = ea_arena_zalloc(&m->arena, 1, sizeof *s);
    void *key = m->no_memory ? NULL : ea_arena_copy(&m->arena, m->key.data, m->key.len_bytes);
    if (!s || !key || ea_bytes_map_put(&m->symbols, key, m->key.len_bytes, s)) {
        m->no_memory = 1;
        return NULL;
    }
    *s = (symbol){.value = value, .name = name, .text = text, .node = node};
    return s;
}

/* Source: winmeta.xml. */
static void add_winmeta(manifest *m) {
    static const struct {
        enum symbol_kind kind;
        const char *name, *text;
        uint64_t value;
    } KNOWN[] = {
        {LEVEL, "win:LogAlways", "LogAlways", 0},
        {LEVEL, "win:Critical", "Critical", 1},
        {LEVEL, "win:Error", "Error", 2},
        {LEVEL, "win:Warning", "Warning", 3},
        {LEVEL, "win:Informational", "Informational", 4},
        {LEVEL, "win:Verbose", "Verbose", 5},
        {TASK, "win:None", "", 0},
        {OPCODE, "win:Info", "Info", 0},
        {OPCODE, "win:Start", "Start", 1},
        {OPCODE, "win:Stop", "Stop", 2},
        {OPCODE, "win:DC_Start", "DC_Start", 3},
        {OPCODE, "win:DC_Stop", "DC_Stop", 4},
        {OPCODE, "win:Extension", "Extension", 5},
        {OPCODE, "win:Reply", "Reply", 6},
        {OPCODE, "win:Resume", "Resume", 7},
        {OPCODE, "win:Suspend", "Suspend", 8},
        {OPCODE, "win:Send", "Send", 9},
        {OPCODE, "win:Receive", "Receive", 240},
        {KEYWORD, "win:ResponseTime", "ResponseTime", UINT64_C(1) << 48},
        {KEYWORD, "win:WDIContext", "WDIContext", UINT64_C(1) << 49},
        {KEYWORD, "win:WDIDiag", "WDIDiag", UINT64_C(1) << 50},
        {KEYWORD, "win:SQM", "SQM", UINT64_C(1) << 51},
        {KEYWORD, "win:AuditFailure", "AuditFailure", UINT64_C(1) << 52},
        {KEYWORD, "win:AuditSuccess", "AuditSuccess", UINT64_C(1) << 53},
        {KEYWORD, "win:CorrelationHint", "CorrelationHint", UINT64_C(1) << 54},
        {KEYWORD, "win:EventlogClassic", "EventlogClassic", UINT64_C(1) << 55},
        {CHANNEL, "TraceClassic", "TraceClassic", 0},
        {CHANNEL, "System", "System", 8},
        {CHANNEL, "Application", "Application", 9},
        {CHANNEL, "Security", "Security", 10},
        {CHANNEL, "TraceLogging", "TraceLogging", 11},
    };

    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        manifest_add_symbol(m, KNOWN[i].kind, "", KNOWN[i].name, KNOWN[i].value, KNOWN[i].text, NULL);
}

/* The message's text, or the name without its prefix. */
static const char *manifest_shown(manifest *m, const ea_xml_node *node, const char *name) {
    const char *text = manifest_text_of(m, node, ea_xml_attribute(node, "message")), *colon = strchr(name, ':');
    return *text ? text : colon ? colon + 1 : name;
}

static void read_opcodes(manifest *m, const ea_xml_node *parent, const char *scope) {
    const ea_xml_node *list = ea_xml_child(parent, "opcodes");
    uint64_t value;
    for (const ea_xml_node *o = list ? ea_xml_child(list, "opcode") : NULL; o; o = ea_xml_next(o, "opcode")) {
        const char *name = required(m, o, "name");
        if (name && manifest_number(m, o, "value", 255, 0, &value))
            manifest_add_symbol(m, OPCODE, scope, name, value, manifest_shown(m, o, name), o);
    }
}

static void read_simple(manifest *m, const ea_xml_node *provider, const char *list_name, enum symbol_kind kind,
                        const char *value_name, uint64_t max) {
    const ea_xml_node *list = ea_xml_child(provider, list_name);
    const char *element = kind_name(kind);
    uint64_t value;
    for (const ea_xml_node *n = list ? ea_xml_child(list, element) : NULL; n; n = ea_xml_next(n, element)) {
        const char *name = required(m, n, "name");
        if (!name || !required(m, n, value_name) || !manifest_number(m, n, value_name, max, 0, &value))
            continue;
        manifest_add_symbol(m, kind, "", name, value, manifest_shown(m, n, name), n);
        if (kind == TASK)
            read_opcodes(m, n, name);
    }
}

/* An event names its channel by chid or name; one without a value gets the next free number, as the message compiler
 * does it. */
static void read_channels(manifest *m, const ea_xml_node *provider) {
    const ea_xml_node *list = ea_xml_child(provider, "channels");
    uint64_t next = FIRST_OWN_CHANNEL, value;
    for (const ea_xml_node *n = list ? list->child : NULL; n; n = n->next) {
        int imported = strcmp(n->name, "importChannel") == 0;
        if (!imported && strcmp(n->name, "channel") != 0)
            continue;
        const char *name = required(m, n, "name"), *chid = ea_xml_attribute(n, "chid");
        symbol *global = name && imported ? manifest_find(m, CHANNEL, "", name) : NULL;
        if (!name || !manifest_number(m, n, "value", 255, global ? global->value : next, &value))
            continue;
        if (!global && value >= next)
            next = value + 1;
        if (chid && strcmp(chid, name) != 0)
            manifest_add_symbol(m, CHANNEL, "", chid, value, name, n);
        if (!manifest_find(m, CHANNEL, "", name))
            manifest_add_symbol(m, CHANNEL, "", name, value, name, n);
    }
}

static void read_maps(manifest *m, const ea_xml_node *provider) {
    const ea_xml_node *list = ea_xml_child(provider, "maps");
    for (const ea_xml_node *n = list ? list->child : NULL; n; n = n->next) {
        int is_flags = strcmp(n->name, "bitMap") == 0;
        if (!is_flags && strcmp(n->name, "valueMap") != 0)
            continue;
        const char *name = required(m, n, "name");
        symbol *s = name ? manifest_add_symbol(m, MAP, "", name, 0, "", n) : NULL;
        size_t count = 0, used = 0;
        for (const ea_xml_node *e = ea_xml_child(n, "map"); e; e = ea_xml_next(e, "map"))
            count++;
        ea_map_entry *entries = ea_arena_zalloc(&m->arena, count + 1, sizeof *entries);
        ea_enum *map = ea_arena_zalloc(&m->arena, 1, sizeof *map);
        m->no_memory |= !entries || !map;
        if (!s || !entries || !map)
            continue;
        for (const ea_xml_node *e = ea_xml_child(n, "map"); e; e = ea_xml_next(e, "map")) {
            const char *message = ea_xml_attribute(e, "message"), *symbol_name = ea_xml_attribute(e, "symbol");
            if (!required(m, e, "value") || !manifest_number(m, e, "value", UINT32_MAX, 0, &entries[used].value))
                continue;
            entries[used].name = manifest_text_of(m, e, message);
            if (!*entries[used].name)
                entries[used].name = symbol_name ? symbol_name : "";
            used++;
        }
        *map = (ea_enum){.name = name, .is_flags = is_flags, .count = used, .entries = entries};
        s->map = map;
    }
}

/* ---- templates ---- */

typedef struct properties {
    ea_property *items;
    const ea_xml_node **nodes;
    size_t count;
} properties;

/* A count or length: a number, or the name of an earlier field beside it (from: the first of its scope). 1, or 0. */
static int read_amount(manifest *m, const ea_xml_node *node, const char *attribute, const properties *p, size_t from,
                       size_t end, unsigned *ret_number, int *ret_from) {
    const char *s = ea_xml_attribute(node, attribute);
    uint64_t value;
    *ret_number = 0;
    *ret_from = -1;
    if (!s)
        return 1;
    if (manifest_number_of(s, UINT16_MAX, &value)) {
        *ret_number = (unsigned)value;
        if (!value)
            problem(m, node, "data: %s '0': expected at least 1, or the name of a field", attribute);
        return value != 0;
    }
    for (size_t i = from; i < end; i++)
        if (strcmp(p->items[i].name, s) == 0)
            *ret_from = (int)i;
    if (*ret_from < 0)
        problem(m, node, "%s: %s '%.80s': expected a number, or the name of a field before it", node->name, attribute,
                s);
    return *ret_from >= 0;
}

/* Fills p->items[at] from a data element: 1, or 0. */
static int read_data(manifest *m, const ea_xml_node *node, properties *p, size_t from, size_t at) {
    const char *in = required(m, node, "inType"), *out = ea_xml_attribute(node, "outType"),
               *map = ea_xml_attribute(node, "map"), *name = required(m, node, "name");
    ea_property *item = &p->items[at];
    *item = (ea_property){.name = name ? name : "", .count_from = -1, .length_from = -1};
    p->nodes[at] = node;
    if (!in || !name)
        return 0;
    item->in_type = ea_in_type_of(in);
    item->out_type = out ? ea_out_type_of(out) : EA_OUT_NULL;
    if (item->in_type < 0) {
        problem(m, node, "data '%.80s': inType '%.80s': expected win:UnicodeString, win:UInt32 or another input type",
                name, in);
        return 0;
    }
    if (item->out_type < 0) {
        problem(m, node, "data '%.80s': outType '%.80s': expected xs:string, win:HexInt32 or another output type", name,
                out);
        return 0;
    }
    if (map) {
        symbol *s = manifest_find(m, MAP, "", map);
        if (!s) {
            problem(m, node, "data '%.80s': map '%.80s': expected one that is defined in maps", name, map);
            return 0;
        }
        item->map = s->map;
    }
    return read_amount(m, node, "count", p, from, at, &item->count, &item->count_from) &&
           read_amount(m, node, "length", p, from, at, &item->length, &item->length_from);
}

static size_t children(const ea_xml_node *node, const char *name) {
    size_t n = 0;
    for (const ea_xml_node *c = ea_xml_child(node, name); c; c = ea_xml_next(c, name))
        n++;
    return n;
}

/* data and struct elements into properties; top-level ones first, then the structs' members. Returns the number of
 * top-level ones, or -1. */
static int read_properties(manifest *m, const ea_xml_node *node, properties *p) {
    size_t top = 0, at = 0;
    for (const ea_xml_node *c = node->child; c; c = c->next)
        top += strcmp(c->name, "data") == 0 || strcmp(c->name, "struct") == 0;
    p->count = top;
    for (const ea_xml_node *c = ea_xml_child(node, "struct"); c; c = ea_xml_next(c, "struct"))
        p->count += children(c, "data");
    p->items = ea_arena_zalloc(&m->arena, p->count + 1, sizeof *p->items);
    p->nodes = ea_arena_zalloc(&m->arena, p->count + 1, sizeof *p->nodes);
    if (!p->items || !p->nodes) {
        m->no_memory = 1;
        return -1;
    }
    size_t member = top;
    for (const ea_xml_node *c = node->child; c; c = c->next) {
        if (strcmp(c->name, "data") == 0) {
            if (!read_data(m, c, p, 0, at++))
                return -1;
        } else if (strcmp(c->name, "struct") == 0) {
            const char *name = required(m, c, "name");
            ea_property *item = &p->items[at];
            *item = (ea_property){.name = name ? name : "",
                                  .is_struct = 1,
                                  .first_member = (unsigned)member,
                                  .length_from = -1,
                                  .count_from = -1};
            p->nodes[at] = c;
            if (!name || !read_amount(m, c, "count", p, 0, at, &item->count, &item->count_from))
                return -1;
            at++;
            for (const ea_xml_node *d = ea_xml_child(c, "data"); d; d = ea_xml_next(d, "data"))
                if (!read_data(m, d, p, item->first_member, member++))
                    return -1;
            item->member_count = (unsigned)member - item->first_member;
        }
    }
    return (int)top;
}

static void manifest_read_template(manifest *m, const ea_xml_node *node) {
    const char *tid = required(m, node, "tid"), *wrong;
    symbol *s = tid ? manifest_add_symbol(m, TEMPLATE, "", tid, 0, "", node) : NULL;
    template *t = s ? ea_arena_zalloc(&m->arena, 1, sizeof *t) : NULL;
    ea_field *fields = t ? ea_arena_alloc(&m->arena, EA_FIELDS_MAX * sizeof *fields) : NULL;
    properties p;
    size_t which;
    if (!s)
        return;
    if (!fields) {
        m->no_memory = 1;
        return;
    }
    s->template = t;
    t->wrong = 1;
    int top = read_properties(m, node, &p);
    if (top < 0)
        return;
    int count = ea_properties_to_fields(p.items, p.count, (size_t)top, fields, &wrong, &which);
    if (count < 0) {
        const ea_xml_node *at = which < p.count && p.nodes[which] ? p.nodes[which] : node;
        problem(m, at, "%s '%.80s' %s", at->name, which < p.count ? p.items[which].name : tid, wrong);
        return;
    }
    t->field_count = (size_t)count;
    t->fields = ea_arena_copy(&m->arena, fields, t->field_count * sizeof *fields);
    m->no_memory |= !t->fields;
    t->wrong = !t->fields;
}

/* ---- events ---- */

typedef struct event {
    const ea_xml_node *node;
    uint64_t value, version;
    symbol *task, *opcode, *level, *channel;
    template *template;
    uint64_t keywords;
} event;

/* The symbol that an attribute names. NULL with *ok = 0 when there is none of that name; the mistake is reported. */
static symbol *refer(manifest *m, const event *e, const char *attribute, enum symbol_kind kind, const char *scope,
                     int *ok) {
    const char *name = ea_xml_attribute(e->node, attribute);
    if (!name || !*name)
        return NULL;
    symbol *s = *scope ? manifest_find(m, kind, scope, name) : NULL;
    if (!s)
        s = manifest_find(m, kind, "", name);
    if (!s) {
        problem(m, e->node, "event %u: %s '%.80s': expected one that is defined in this provider", (unsigned)e->value,
                attribute, name);
        *ok = 0;
    }
    return s;
}

static int read_keywords(manifest *m, event *e) {
    const char *s = ea_xml_attribute(e->node, "keywords");
    char name[256];
    while (s && *(s += strspn(s, " \t\r\n"))) {
        size_t n = strcspn(s, " \t\r\n");
        if (n < sizeof name)
            memcpy(name, s, n);
        name[n < sizeof name ? n : sizeof name - 1] = 0;
        symbol *k = manifest_find(m, KEYWORD, "", name);
        if (!k) {
            problem(m, e->node, "event %u: keyword '%.80s': expected one that is defined in this provider",
                    (unsigned)e->value, name);
            return 0;
        }
        e->keywords |= k->value;
        s += n;
    }
    return 1;
}

/* Keywords of the provider that share bits with mask, winmeta's included, by their value. */
static size_t manifest_list_keywords(manifest *m, const ea_xml_node *provider, uint64_t mask, ea_map_entry *ret,
                                     int shown_text) {
    const ea_xml_node *list = ea_xml_child(provider, "keywords");
    size_t n = 0;
    for (const ea_xml_node *k = list ? ea_xml_child(list, "keyword") : NULL; k && n < EA_KEYWORDS_MAX;
         k = ea_xml_next(k, "keyword")) {
        const char *name = ea_xml_attribute(k, "name");
        symbol *s = name ? manifest_find(m, KEYWORD, "", name) : NULL;
        if (s && s->node == k && (s->value & mask))
            ret[n++] = (ea_map_entry){s->value, shown_text ? s->text : s->name};
    }
    return n;
}

/* "Task/Opcode", without what says nothing. */
static const char *manifest_event_name(manifest *m, const event *e) {
    ea_text name;
    ea_text_init(&name);
    const char *task = e->task && e->task->value ? e->task->name : "", *symbol_name;
    const char *opcode = e->opcode && (e->opcode->value || e->opcode->node) ? e->opcode->name : "";
    if (strncmp(opcode, "win:", 4) == 0)
        opcode += 4;
    if (!*task) {
        symbol_name = ea_xml_attribute(e->node, "symbol");
        task = symbol_name ? symbol_name : "";
        opcode = *task ? "" : opcode;
    }
    ea_text_str(&name, task);
    if (*task && *opcode)
        ea_text_char(&name, '/');
    ea_text_str(&name, opcode);
    const char *own = name.failed ? NULL : ea_arena_strdup(&m->arena, name.data ? name.data : "");
    ea_text_deinit(&name);
    m->no_memory |= !own;
    return own ? own : "";
}

static void manifest_add_event(manifest *m, const ea_xml_node *provider, const ea_guid *guid, const char *provider_name,
                               const event *e) {
    ea_map_entry keywords[EA_KEYWORDS_MAX];
    ea_class_head head = {.provider = *guid,
                          .provider_name = provider_name,
                          .name = manifest_event_name(m, e),
                          .code = (uint16_t)e->value,
                          .version = (uint8_t)e->version,
                          .pointer_size = 8};
    ea_class_notes notes = {.message = manifest_text_of(m, e->node, ea_xml_attribute(e->node, "message")),
                            .level = e->level ? e->level->text : "",
                            .channel = e->channel ? e->channel->text : "",
                            .task = e->task ? e->task->text : "",
                            .opcode = e->opcode ? e->opcode->text : "",
                            .keyword_count = manifest_list_keywords(m, provider, e->keywords, keywords, 0),
                            .keywords = keywords};
    int changed;
    ea_text_clear(&m->description);
    ea_class_describe_fields(&m->description, &head, e->template ? e->template->fields : NULL,
                             e->template ? e->template->field_count : 0, &notes);
    m->no_memory |= m->description.failed;
    if (m->no_memory || !m->into)
        return;
    ea_err why;
    int rc = ea_schemas_add(m->into, m->o->layer, (const uint8_t *)m->description.data, m->description.len_bytes,
                            &changed, &why);
    if (rc == EA_ENOMEM || rc == EA_ELIMIT)
        m->no_memory = 1;
    else if (rc)
        problem(m, e->node, "event %u: %s", (unsigned)e->value, why.message);
    else
        m->result.changed |= changed;
}

static void read_event(manifest *m, const ea_xml_node *provider, const ea_guid *guid, const char *provider_name,
                       const ea_xml_node *node) {
    event e = {.node = node};
    int ok = 1;
    char key[16];
    if (!required(m, node, "value") || !manifest_number(m, node, "value", UINT16_MAX, 0, &e.value) ||
        !manifest_number(m, node, "version", UINT8_MAX, 0, &e.version))
        return;
    e.task = refer(m, &e, "task", TASK, "", &ok);
    e.opcode = refer(m, &e, "opcode", OPCODE, e.task ? e.task->name : "", &ok);
    e.level = refer(m, &e, "level", LEVEL, "", &ok);
    e.channel = refer(m, &e, "channel", CHANNEL, "", &ok);
    symbol *t = refer(m, &e, "template", TEMPLATE, "", &ok);
    ok &= read_keywords(m, &e);
    e.template = t ? t->template : NULL;
    if (!ok || (t && (!e.template || e.template->wrong))) /* a wrong template was reported at its own place */
        return;
    snprintf(key, sizeof key, "%u.%u", (unsigned)e.value, (unsigned)e.version);
    symbol *twin = manifest_find(m, TEMPLATE, "event", key);
    if (twin) {
        problem(m, node, "event %u version %u is defined twice; the first is in line %lu", (unsigned)e.value,
                (unsigned)e.version, twin->node->line);
        return;
    }
    const char *own_key = ea_arena_strdup(&m->arena, key);
    if (!own_key || !manifest_add_symbol(m, TEMPLATE, "event", own_key, 0, "", node)) {
        m->no_memory = 1;
        return;
    }
    m->result.events++;
    manifest_add_event(m, provider, guid, provider_name, &e);
}

static void manifest_add_provider(manifest *m, const ea_xml_node *node, const ea_guid *guid, const char *name) {
    ea_map_entry keywords[EA_KEYWORDS_MAX], levels[256];
    const ea_xml_node *list = ea_xml_child(node, "levels");
    size_t level_count = 0;
    for (const ea_xml_node *l = list ? ea_xml_child(list, "level") : NULL; l && level_count < 256;
         l = ea_xml_next(l, "level")) {
        const char *level = ea_xml_attribute(l, "name");
        symbol *s = level ? manifest_find(m, LEVEL, "", level) : NULL;
        if (s && s->node == l)
            levels[level_count++] = (ea_map_entry){s->value, s->name};
    }
    ea_schema_provider p = {.guid = *guid,
                            .name = name,
                            .origin = m->o->file,
                            .message = manifest_text_of(m, node, ea_xml_attribute(node, "message")),
                            .keyword_count = manifest_list_keywords(m, node, UINT64_MAX, keywords, 0),
                            .keywords = keywords,
                            .level_count = level_count,
                            .levels = levels,
                            .layer = (uint8_t)m->o->layer};
    if (m->into && ea_schemas_add_provider(m->into, &p, NULL))
        m->no_memory = 1;
}

static void manifest_read_provider(manifest *m, const ea_xml_node *node) {
    const char *name = required(m, node, "name"), *guid_text = required(m, node, "guid");
    ea_guid guid;
    if (!name || !guid_text)
        return;
    if (ea_guid_parse(guid_text, &guid)) {
        problem(m, node, "provider '%.120s': guid '%.80s': expected {XXXXXXXX-XXXX-XXXX-XXXX-XXXXXXXXXXXX}", name,
                guid_text);
        return;
    }
    ea_bytes_map_clear(&m->symbols);
    m->result.providers++;
    add_winmeta(m);
    read_simple(m, node, "levels", LEVEL, "value", 255);
    read_simple(m, node, "keywords", KEYWORD, "mask", UINT64_MAX);
    read_opcodes(m, node, "");
    read_simple(m, node, "tasks", TASK, "value", UINT16_MAX);
    read_channels(m, node);
    read_maps(m, node);
    const ea_xml_node *templates = ea_xml_child(node, "templates"), *events = ea_xml_child(node, "events");
    for (const ea_xml_node *t = templates ? ea_xml_child(templates, "template") : NULL; t && !m->no_memory;
         t = ea_xml_next(t, "template"))
        manifest_read_template(m, t);
    manifest_add_provider(m, node, &guid, name);
    for (const ea_xml_node *e = events ? ea_xml_child(events, "event") : NULL; e && !m->no_memory;
         e = ea_xml_next(e, "event"))
        read_event(m, node, &guid, name, e);
}

/* The path to the providers is instrumentationManifest (or assembly) / instrumentation / events. */
static int manifest_read_document(manifest *m, const ea_xml_node *root) {
    const ea_xml_node *instrumentation = ea_xml_child(root, "instrumentation"), *events = NULL;
    if ((strcmp(root->name, "instrumentationManifest") == 0 || strcmp(root->name, "assembly") == 0) && instrumentation)
        events = ea_xml_child(instrumentation, "events");
    if (!events)
        return ea_fail(
            m->err, EA_EFORMAT,
            "%s:%lu:%lu: expected an instrumentationManifest with instrumentation and events in it, not '%.80s'",
            m->o->file, root->line, root->column, root->name);
    manifest_read_strings(m, root);
    if (instrumentation != root) /* EventSource writes its texts inside */
        manifest_read_strings(m, instrumentation);
    for (const ea_xml_node *p = ea_xml_child(events, "provider"); p && !m->no_memory; p = ea_xml_next(p, "provider"))
        manifest_read_provider(m, p);
    if (!m->result.providers && !m->result.problems)
        problem(m, events, "events: expected a provider");
    return m->no_memory ? ea_fail(m->err, EA_ELIMIT, "%s: it describes more than there is memory for", m->o->file) : 0;
}

int ea_manifest_read(ea_schemas *into, const void *data, size_t len_bytes, const ea_manifest_options *options,
                     ea_manifest_result *ret, ea_err *err) {
    manifest m = {.o = options, .into = into, .err = err};
    const ea_xml_node *root;
    ea_arena_init(&m.arena, DOCUMENT_LIMIT_BYTES);
    ea_bytes_map_init(&m.strings, 0);
    ea_bytes_map_init(&m.symbols, 0);
    ea_text_init(&m.key);
    ea_text_init(&m.description);
    int rc = ea_xml_parse(&m.arena, options->file, data, len_bytes, &root, err);
    if (!rc)
        rc = manifest_read_document(&m, root);
    ea_text_deinit(&m.key);
    ea_text_deinit(&m.description);
    ea_bytes_map_deinit(&m.strings);
    ea_bytes_map_deinit(&m.symbols);
    ea_arena_deinit(&m.arena);
    if (!rc)
        *ret = m.result;
    return rc;
}
