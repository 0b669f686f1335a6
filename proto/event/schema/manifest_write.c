/* See manifest_write.h. Source of the format: as manifest.c. */
#include "proto/event/schema/manifest_write.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/json_cursor.h"
#include "proto/base/map.h"
#include "proto/event/provider_name.h"
#include "proto/event/tdh_types.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_BYTES = 256,
    MESSAGE_BYTES = 4096,
    FIELDS_MAX = 128,
    NAMES_MAX = 1000, /* tasks; opcodes */
    FIRST_OPCODE = 10,
    LAST_OPCODE = 239, /* those after it are winmeta's */
    KEYWORD_BITS = 48, /* those above are winmeta's */
    LEVEL_INFORMATION = 4,
    LEVELS = 6,
    UTF8_BOM_BYTES = 3,
};

/* Tasks, or opcodes, by their numbers. */
typedef struct man_names {
    const char **items;
    size_t count, capacity;
} man_names;

typedef struct man_writer {
    const char *file;
    size_t line;
    ea_json_cursor c;
    ea_text key, value;
    ea_arena arena;
    ea_text templates, events, strings;
    man_names tasks, opcodes;
    ea_u64_map seen; /* id and version: the line */
    uint64_t keywords;
    char provider[NAME_BYTES + 1];
    ea_guid guid;
    int has_guid;
    ea_err *err;
} man_writer;

/* The event at hand. */
typedef struct man_event {
    char name[NAME_BYTES + 1], message[MESSAGE_BYTES + 1];
    uint64_t id, version, level, keyword;
    int has_id;
    size_t fields;
} man_event;

static int man_wrong(const man_writer *w, const char *what, const char *of) {
    return ea_fail(w->err, EA_EFORMAT, "%s:%zu: %s%s%.100s", w->file, w->line, what, of ? " " : "", of ? of : "");
}

static int man_no_memory(const man_writer *w) {
    return ea_fail(w->err, EA_ENOMEM, "%s", w->file);
}

/* ---- writing ---- */

static void man_put(ea_text *t, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '<':
            ea_text_str(t, "&lt;");
            break;
        case '>':
            ea_text_str(t, "&gt;");
            break;
        case '&':
            ea_text_str(t, "&amp;");
            break;
        case '"':
            ea_text_str(t, "&quot;");
            break;
        default:
            ea_text_char(t, *text);
        }
}

/* " name="value"" */
static void man_attribute(ea_text *t, const char *name, const char *value) {
    ea_text_printf(t, " %s=\"", name);
    man_put(t, value);
    ea_text_char(t, '"');
}

/* A name that C takes, without its closing quotation mark. */
static void man_symbol(ea_text *t, const char *name) {
    ea_text_str(t, *name >= '0' && *name <= '9' ? " symbol=\"_" : " symbol=\"");
    for (const char *p = name; *p; p++)
        ea_text_char(t, (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9') ? *p : '_');
}

/* ---- reading ---- */

/* 1: a key and its colon were taken, a NUL follows it in w->key; 0: the object ends. */
static int man_next_key(man_writer *w, int *is_first) {
    if (ea_json_take_char(&w->c, '}'))
        return 0;
    if ((!*is_first && !ea_json_take_char(&w->c, ',')) || !ea_json_take_char(&w->c, '"') ||
        !ea_json_take_text(&w->c, &w->key) || !ea_json_take_char(&w->c, ':'))
        return man_wrong(w, "expected an object", NULL);
    *is_first = 0;
    ea_text_char(&w->key, 0);
    if (w->key.failed)
        return man_no_memory(w);
    return strlen(w->key.data) + 1 == w->key.len_bytes ? 1 : man_wrong(w, "a NUL in a key", NULL);
}

/* A text of 1 to most bytes without control characters. */
static int man_take_text(man_writer *w, const char *key, char *ret, size_t most) {
    if (!ea_json_take_char(&w->c, '"') || !ea_json_take_text(&w->c, &w->value))
        return man_wrong(w, "expected a text for", key);
    size_t n = w->value.len_bytes;
    if (!n || n > most)
        return man_wrong(w, n ? "the text is too long for" : "expected a text for", key);
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)w->value.data[i] < ' ')
            return man_wrong(w, "expected no control character in", key);
    memcpy(ret, w->value.data, n);
    ret[n] = 0;
    return 0;
}

static int man_take_number(man_writer *w, const char *key, uint64_t most, uint64_t *ret) {
    int is_text = ea_json_take_char(&w->c, '"'); /* hex goes as a text */
    if (!(is_text ? ea_json_take_text(&w->c, &w->value) : ea_json_take_word(&w->c, &w->value)))
        return man_wrong(w, "expected a number for", key);
    ea_text_char(&w->value, 0);
    if (w->value.failed)
        return man_no_memory(w);
    int is_whole = strlen(w->value.data) + 1 == w->value.len_bytes;
    return !is_whole || ea_u64_parse(w->value.data, ret) || *ret > most ? man_wrong(w, "no such number can be", key)
                                                                        : 0;
}

/* "UInt32", "UInt32 PID": the in type, and the out type; each in one of its two name spaces. */
static int man_types(man_writer *w, const char *types) {
    static const char *const SPACES[] = {"win:", "xs:"};
    char in[NAME_BYTES + 8], out[NAME_BYTES + 8] = "";
    size_t n = strcspn(types, " ");
    int is_known = 0;
    snprintf(in, sizeof in, "win:%.*s", (int)n, types);
    if (ea_in_type_of(in) < 0)
        return man_wrong(w, "expected a type such as UInt32 or UnicodeString, not", types);
    if (ea_in_type_of(in) == EA_IN_BINARY)
        return man_wrong(w, "expected CountedBinary: a description gives no length to", types);
    for (size_t i = 0; types[n] && i < sizeof SPACES / sizeof *SPACES && !is_known; i++) {
        snprintf(out, sizeof out, "%s%.*s", SPACES[i], NAME_BYTES, types + n + 1);
        is_known = ea_out_type_of(out) >= 0;
    }
    if (types[n] && !is_known)
        return man_wrong(w, "expected a type and one for its output, as in UInt32 PID, not", types);
    man_attribute(&w->templates, "inType", in);
    if (types[n])
        man_attribute(&w->templates, "outType", out);
    return 0;
}

/* Before it is known which event they are of: the template's head is written at its end. */
static int man_fields(man_writer *w, man_event *e, ea_text *ret) {
    ea_text kept = w->templates;
    int is_first = 1, rc;
    ea_text_init(&w->templates);
    if (!ea_json_take_char(&w->c, '{'))
        rc = man_wrong(w, "expected an object of fields", NULL);
    else
        while ((rc = man_next_key(w, &is_first)) > 0) {
            char name[NAME_BYTES + 1], types[NAME_BYTES + 1];
            if (w->key.len_bytes == 1 || w->key.len_bytes > sizeof name || ++e->fields > FIELDS_MAX)
                rc = man_wrong(w, "expected at most 128 fields with names of 1 to 256 bytes", NULL);
            else
                memcpy(name, w->key.data, w->key.len_bytes);
            for (const char *p = name; rc > 0 && *p; p++)
                rc = (unsigned char)*p < ' ' ? man_wrong(w, "expected no control character in a name", NULL) : rc;
            if (rc > 0 && (rc = man_take_text(w, name, types, NAME_BYTES)) == 0) {
                ea_text_str(&w->templates, "            <data");
                man_attribute(&w->templates, "name", name);
                rc = man_types(w, types);
                ea_text_str(&w->templates, "/>\n");
            }
            if (rc)
                break;
        }
    *ret = w->templates;
    w->templates = kept;
    return rc;
}

/* ---- names ---- */

/* The place of a name, which is added where it is new; NAMES_MAX: there are too many. */
static size_t man_number(man_writer *w, man_names *l, const char *name, size_t len_bytes) {
    for (size_t i = 0; i < l->count; i++)
        if (strlen(l->items[i]) == len_bytes && memcmp(l->items[i], name, len_bytes) == 0)
            return i;
    char *own = l->count < NAMES_MAX ? ea_arena_alloc(&w->arena, len_bytes + 1) : NULL;
    if (!own || EA_GROW(l->items, l->capacity, l->count + 1, SIZE_MAX))
        return NAMES_MAX;
    memcpy(own, name, len_bytes);
    own[len_bytes] = 0;
    l->items[l->count] = own;
    return l->count++;
}

/* winmeta's names of opcodes need no definition. */
static int man_is_known_opcode(const char *name) {
    static const char *const KNOWN[] = {"Info",  "Start",  "Stop",    "DC_Start", "DC_Stop", "Extension",
                                        "Reply", "Resume", "Suspend", "Send",     "Receive"};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (strcmp(KNOWN[i], name) == 0)
            return 1;
    return 0;
}

static int man_name_event(man_writer *w, const man_event *e) {
    static const char WINMETA[] = "win:";
    const char *slash = strchr(e->name, '/'), *opcode = slash ? slash + 1 : NULL;
    size_t n = slash ? (size_t)(slash - e->name) : strlen(e->name);
    char task[NAME_BYTES + 1];
    if (!n || (opcode && (!*opcode || strchr(opcode, '/'))))
        return man_wrong(w, "expected a task, or a task and an opcode as in Draw/Start, not", e->name);
    if (strncmp(e->name, WINMETA, sizeof WINMETA - 1) == 0 ||
        (opcode && strncmp(opcode, WINMETA, sizeof WINMETA - 1) == 0))
        return man_wrong(w, "names that begin with win: are Windows' own, expected another than", e->name);
    memcpy(task, e->name, n);
    task[n] = 0;
    if (man_number(w, &w->tasks, task, n) == NAMES_MAX)
        return man_wrong(w, "no room for the task", task);
    man_attribute(&w->events, "task", task);
    if (!opcode)
        return 0;
    if (man_is_known_opcode(opcode)) {
        ea_text_printf(&w->events, " opcode=\"win:%s\"", opcode);
        return 0;
    }
    if (man_number(w, &w->opcodes, opcode, strlen(opcode)) > LAST_OPCODE - FIRST_OPCODE)
        return man_wrong(w, "no room for the opcode", opcode);
    man_attribute(&w->events, "opcode", opcode);
    return 0;
}

/* ---- lines ---- */

static void man_put_keywords(man_writer *w, const man_event *e) {
    const char *separator = "";
    if (!e->keyword)
        return;
    ea_text_str(&w->events, " keywords=\"");
    for (unsigned bit = 0; bit < KEYWORD_BITS; bit++)
        if (e->keyword >> bit & 1) {
            ea_text_printf(&w->events, "%sKeyword%u", separator, bit);
            separator = " ";
        }
    ea_text_char(&w->events, '"');
    w->keywords |= e->keyword;
}

static int man_add_event(man_writer *w, const man_event *e, const ea_text *fields) {
    static const char *const LEVEL_NAMES[LEVELS] = {"LogAlways", "Critical",      "Error",
                                                    "Warning",   "Informational", "Verbose"};
    char number[32];
    uint64_t key = e->id << 8 | e->version;
    if (!e->has_id || !*e->name)
        return man_wrong(w, "expected id and name", NULL);
    snprintf(number, sizeof number, "%" PRIu64 ".%" PRIu64, e->id, e->version);
    if (ea_u64_map_get(&w->seen, key + 1))
        return man_wrong(w, "this id and version were described before:", number);
    if (ea_u64_map_put(&w->seen, key + 1, 1))
        return man_no_memory(w);
    ea_text_printf(&w->events, "          <event value=\"%" PRIu64 "\" version=\"%" PRIu64 "\" level=\"win:%s\"", e->id,
                   e->version, LEVEL_NAMES[e->level]);
    man_symbol(&w->events, e->name); /* several events may have one name */
    ea_text_printf(&w->events, "_%" PRIu64 "_%" PRIu64 "\"", e->id, e->version);
    int rc = man_name_event(w, e);
    if (rc)
        return rc;
    man_put_keywords(w, e);
    if (fields->len_bytes) {
        ea_text_printf(&w->events, " template=\"T%s\"", number);
        ea_text_printf(&w->templates, "          <template tid=\"T%s\">\n", number);
        ea_text_add(&w->templates, fields->data, fields->len_bytes);
        ea_text_str(&w->templates, "          </template>\n");
    }
    if (*e->message) {
        ea_text_printf(&w->events, " message=\"$(string.E%s)\"", number);
        ea_text_printf(&w->strings, "        <string id=\"E%s\"", number);
        man_attribute(&w->strings, "value", e->message);
        ea_text_str(&w->strings, "/>\n");
    }
    ea_text_str(&w->events, "/>\n");
    return 0;
}

static int man_member(man_writer *w, man_event *e, const char *key, ea_text *fields) {
    if (strcmp(key, "id") == 0) {
        e->has_id = 1;
        return man_take_number(w, key, UINT16_MAX, &e->id);
    }
    if (strcmp(key, "version") == 0)
        return man_take_number(w, key, UINT8_MAX, &e->version);
    if (strcmp(key, "level") == 0)
        return man_take_number(w, key, LEVELS - 1, &e->level);
    if (strcmp(key, "keyword") == 0)
        return man_take_number(w, key, (UINT64_C(1) << KEYWORD_BITS) - 1, &e->keyword);
    if (strcmp(key, "name") == 0)
        return man_take_text(w, key, e->name, NAME_BYTES);
    if (strcmp(key, "message") == 0)
        return man_take_text(w, key, e->message, MESSAGE_BYTES);
    if (strcmp(key, "fields") == 0)
        return fields->len_bytes ? man_wrong(w, "it has twice the key", key) : man_fields(w, e, fields);
    return man_wrong(w, "no key of an event is called", key);
}

static int man_provider_member(man_writer *w, const char *key) {
    char text[NAME_BYTES + 1];
    if (strcmp(key, "provider") == 0)
        return man_take_text(w, key, w->provider, NAME_BYTES);
    if (strcmp(key, "guid") != 0)
        return man_wrong(w, "no key of a provider is called", key);
    int rc = man_take_text(w, key, text, NAME_BYTES);
    w->has_guid = !rc && !ea_guid_parse(text, &w->guid);
    return rc || w->has_guid ? rc : man_wrong(w, "expected a GUID, not", text);
}

static int man_line(man_writer *w) {
    man_event e = {.level = LEVEL_INFORMATION};
    int is_first = 1, is_provider = !*w->provider, rc;
    ea_text fields;
    ea_text_init(&fields);
    if (w->c.at == w->c.end)
        return 0;
    if (!ea_json_take_char(&w->c, '{'))
        return man_wrong(w, "expected an object", NULL);
    while ((rc = man_next_key(w, &is_first)) > 0) {
        char key[16]; /* no known one is longer */
        size_t n = w->key.len_bytes < sizeof key ? w->key.len_bytes : sizeof key;
        memcpy(key, w->key.data, n);
        key[sizeof key - 1] = 0;
        if ((rc = is_provider ? man_provider_member(w, key) : man_member(w, &e, key, &fields)) != 0)
            break;
    }
    ea_json_skip_blanks(&w->c);
    if (!rc && w->c.at != w->c.end)
        rc = man_wrong(w, "expected nothing after the object", NULL);
    if (!rc && is_provider && !*w->provider)
        rc = man_wrong(w, "expected provider in the first line", NULL);
    if (!rc && !is_provider)
        rc = fields.failed ? man_no_memory(w) : man_add_event(w, &e, &fields);
    ea_text_deinit(&fields);
    return rc;
}

/* ---- the whole ---- */

static void man_put_names(const man_writer *w, ea_text *out) {
    ea_text_str(out, w->keywords ? "        <keywords>\n" : "");
    for (unsigned bit = 0; bit < KEYWORD_BITS; bit++)
        if (w->keywords >> bit & 1)
            ea_text_printf(out, "          <keyword name=\"Keyword%u\" mask=\"0x%" PRIx64 "\"/>\n", bit,
                           UINT64_C(1) << bit);
    ea_text_str(out, w->keywords ? "        </keywords>\n" : "");
    ea_text_str(out, w->tasks.count ? "        <tasks>\n" : "");
    for (size_t i = 0; i < w->tasks.count; i++) {
        ea_text_str(out, "          <task");
        man_attribute(out, "name", w->tasks.items[i]);
        ea_text_printf(out, " value=\"%zu\"/>\n", i + 1);
    }
    ea_text_str(out, w->tasks.count ? "        </tasks>\n" : "");
    ea_text_str(out, w->opcodes.count ? "        <opcodes>\n" : "");
    for (size_t i = 0; i < w->opcodes.count; i++) {
        ea_text_str(out, "          <opcode");
        man_attribute(out, "name", w->opcodes.items[i]);
        ea_text_printf(out, " value=\"%zu\"/>\n", i + FIRST_OPCODE);
    }
    ea_text_str(out, w->opcodes.count ? "        </opcodes>\n" : "");
}

static void man_put_all(const man_writer *w, const char *resources, ea_text *out) {
    static const char HEAD[] =
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n"
        "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\"\n"
        "    xmlns:win=\"http://manifests.microsoft.com/win/2004/08/windows/events\"\n"
        "    xmlns:xs=\"http://www.w3.org/2001/XMLSchema\">\n  <instrumentation>\n    <events>\n      <provider";
    ea_text_str(out, HEAD);
    man_attribute(out, "name", w->provider);
    ea_text_str(out, " guid=\"{");
    ea_text_guid(out, &w->guid);
    ea_text_str(out, "}\"");
    man_symbol(out, w->provider);
    ea_text_char(out, '"');
    for (int i = 0; i < 2; i++) {
        ea_text_str(out, i ? " messageFileName=\"" : " resourceFileName=\"");
        man_put(out, resources ? resources : w->provider);
        ea_text_str(out, resources ? "\"" : ".dll\"");
    }
    ea_text_str(out, ">\n");
    man_put_names(w, out);
    if (w->templates.len_bytes) {
        ea_text_str(out, "        <templates>\n");
        ea_text_add(out, w->templates.data, w->templates.len_bytes);
        ea_text_str(out, "        </templates>\n");
    }
    ea_text_str(out, "        <events>\n");
    ea_text_add(out, w->events.data, w->events.len_bytes);
    ea_text_str(out, "        </events>\n      </provider>\n    </events>\n  </instrumentation>\n");
    if (w->strings.len_bytes) {
        ea_text_str(out, "  <localization>\n    <resources culture=\"en-US\">\n      <stringTable>\n");
        ea_text_add(out, w->strings.data, w->strings.len_bytes);
        ea_text_str(out, "      </stringTable>\n    </resources>\n  </localization>\n");
    }
    ea_text_str(out, "</instrumentationManifest>\n");
}

static int man_lines(man_writer *w, const char *text, size_t len_bytes) {
    int rc = 0;
    size_t skipped =
        len_bytes >= UTF8_BOM_BYTES && memcmp(text, "\xef\xbb\xbf", UTF8_BOM_BYTES) == 0 ? UTF8_BOM_BYTES : 0;
    for (const char *at = text + skipped, *whole_end = text + len_bytes; !rc && at < whole_end;) {
        const char *newline = memchr(at, '\n', (size_t)(whole_end - at)), *end = newline ? newline : whole_end;
        w->line++;
        w->c = (ea_json_cursor){at, end > at && end[-1] == '\r' ? end - 1 : end};
        rc = man_line(w);
        at = newline ? newline + 1 : whole_end;
    }
    return !rc && !w->events.len_bytes ? man_wrong(w, "expected a line of a provider, and lines of events", NULL) : rc;
}

int ea_manifest_write(const char *name, const char *text, size_t len_bytes, const char *resources, ea_text *out,
                      ea_err *err) {
    man_writer w = {.file = name, .err = err};
    ea_text *const texts[] = {&w.key, &w.value, &w.templates, &w.events, &w.strings};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ea_text_init(texts[i]);
    ea_arena_init(&w.arena, 0);
    ea_u64_map_init(&w.seen, 0);
    int rc = man_lines(&w, text, len_bytes);
    if (!rc && !w.has_guid)
        rc = ea_provider_guid_of_name(w.provider, &w.guid, err);
    if (!rc)
        man_put_all(&w, resources, out);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!rc && texts[i]->failed)
            rc = man_no_memory(&w);
        ea_text_deinit(texts[i]);
    }
    free(w.tasks.items);
    free(w.opcodes.items);
    ea_u64_map_deinit(&w.seen);
    ea_arena_deinit(&w.arena);
    return !rc && out->failed ? ea_fail(err, EA_ENOMEM, "%s", name) : rc;
}
