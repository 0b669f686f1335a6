/* Configuration files by libyaml. See config.h. */
#include "config/config.h"
#include "proto/base/arena.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { ARENA_LIMIT = 64 << 20, PATH_MAX_BYTES = 256 };

struct ea_config {
    ea_arena arena;
};

typedef struct reading {
    ea_config *c;
    yaml_document_t document;
    const char *name, *text;
    size_t len_bytes;
    ea_config_note *on_note;
    void *arg;
    ea_err first;
    unsigned problems;
    int partial;    /* a command line may give what the top level lacks */
    unsigned items; /* of all lists and label sets: aliases cannot multiply them without bound */
    int no_memory;
} reading;

/* ---- mistakes ---- */

static void config_problem(reading *r, yaml_mark_t at, const char *format, ...) EA_PRINTF(3, 4);

static void config_problem(reading *r, yaml_mark_t at, const char *format, ...) {
    ea_text t;
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    ea_text_init(&t);
    ea_text_safe(&t, r->name, strlen(r->name));
    ea_text_printf(&t, ":%zu:%zu: ", at.line + 1, at.column + 1);
    ea_text_safe(&t, what, strlen(what)); /* parts of it are the file's */
    if (t.failed)
        r->no_memory = 1;
    else if (r->problems == 0)
        ea_fail(&r->first, EA_EFORMAT, "%s", t.data);
    if (!t.failed && r->on_note && r->problems < EA_CONFIG_PROBLEMS_MAX)
        r->on_note(r->arg, t.data);
    r->problems++;
    ea_text_deinit(&t);
}

/* ---- values ---- */

static const char *config_kind_of(const yaml_node_t *n) {
    return n->type == YAML_MAPPING_NODE ? "a mapping" : n->type == YAML_SEQUENCE_NODE ? "a list" : "a text";
}

/* Copies the scalar's text into the arena; NULL after a mistake, which was reported. */
static const char *config_text_of(reading *r, const char *key, const yaml_node_t *n) {
    if (n->type != YAML_SCALAR_NODE) {
        config_problem(r, n->start_mark, "%s: expected one value, not %s", key, config_kind_of(n));
        return NULL;
    }
    const char *s = (const char *)n->data.scalar.value;
    size_t len = n->data.scalar.length;
    if (len == 0 && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        config_problem(r, n->start_mark, "%s: a value is missing", key);
        return NULL;
    }
    if (memchr(s, 0, len)) {
        config_problem(r, n->start_mark, "%s: a value cannot hold a NUL character", key);
        return NULL;
    }
    char *copy = ea_arena_strdup(&r->c->arena, s);
    if (!copy)
        r->no_memory = 1;
    return copy;
}

static void *zalloc(reading *r, size_t count, size_t size) {
    void *p = ea_arena_zalloc(&r->c->arena, count, size);
    if (!p)
        r->no_memory = 1;
    return p;
}

static int take_items(reading *r, const char *key, const yaml_node_t *n, size_t count) {
    r->items += (unsigned)(count < EA_CONFIG_ITEMS_MAX ? count : EA_CONFIG_ITEMS_MAX + 1);
    if (r->items <= EA_CONFIG_ITEMS_MAX)
        return 1;
    config_problem(r, n->start_mark, "%s: more than %d list items in this file", key, EA_CONFIG_ITEMS_MAX);
    return 0;
}

static void take_flag(reading *r, const ea_option *o, const yaml_node_t *n, void *target) {
    static const char *const NO[] = {"false", "no", "off"}, *const YES[] = {"true", "yes", "on"};
    const char *s = config_text_of(r, o->name, n);
    for (size_t i = 0; s && i < 3; i++)
        if (strcmp(s, YES[i]) == 0 || strcmp(s, NO[i]) == 0) {
            *(int *)target = strcmp(s, YES[i]) == 0;
            return;
        }
    if (s)
        config_problem(r, n->start_mark, "%s: '%s': expected true or false", o->name, s);
}

static void config_take_value(reading *r, const ea_option *o, const yaml_node_t *n, void *options) {
    const char *s = config_text_of(r, o->name, n);
    ea_err why;
    if (s && ea_option_store(o, s, options, &why))
        config_problem(r, n->start_mark, "%s: '%s': %s", o->name, s, why.message);
}

static void take_strings(reading *r, const ea_option *o, const yaml_node_t *n, void *options) {
    if (n->type != YAML_SEQUENCE_NODE) {
        config_take_value(r, o, n, options);
        return;
    }
    size_t count = (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
    if (!count)
        config_problem(r, n->start_mark, "%s: the list is empty", o->name);
    if (!take_items(r, o->name, n, count))
        return;
    for (size_t i = 0; i < count; i++)
        config_take_value(r, o, yaml_document_get_node(&r->document, n->data.sequence.items.start[i]), options);
}

static void take_labels(reading *r, const ea_option *o, const yaml_node_t *n, ea_labels *target) {
    if (n->type != YAML_MAPPING_NODE) {
        config_problem(r, n->start_mark, "%s: expected a mapping of names to texts, not %s", o->name,
                       config_kind_of(n));
        return;
    }
    size_t count = (size_t)(n->data.mapping.pairs.top - n->data.mapping.pairs.start);
    if (!take_items(r, o->name, n, count))
        return;
    ea_label *labels = zalloc(r, count + !count, sizeof *labels);
    for (size_t i = 0; labels && i < count; i++) {
        const yaml_node_pair_t *pair = &n->data.mapping.pairs.start[i];
        const yaml_node_t *key = yaml_document_get_node(&r->document, pair->key);
        labels[i].name = config_text_of(r, o->name, key);
        labels[i].value = config_text_of(r, o->name, yaml_document_get_node(&r->document, pair->value));
        for (size_t k = 0; labels[i].name && k < i; k++)
            if (labels[k].name && strcmp(labels[k].name, labels[i].name) == 0)
                config_problem(r, key->start_mark, "%s: '%s' is given twice", o->name, labels[i].name);
    }
    *target = (ea_labels){.items = labels, .count = labels ? count : 0};
}

static void take_mapping(reading *r, const char *name, const yaml_node_t *n, const ea_table *table, void *target);
static void config_check_values(reading *r, const yaml_node_t *n, const ea_table *table, const void *target);

static void config_take_tables(reading *r, const ea_option *o, const yaml_node_t *n, ea_tables *target) {
    ea_err err;
    if (n->type != YAML_SEQUENCE_NODE) {
        config_problem(r, n->start_mark, "%s: expected a list of mappings, each begun by '- ', not %s", o->name,
                       config_kind_of(n));
        return;
    }
    size_t count = (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
    if (o->max && (count < o->min || count > o->max)) {
        config_problem(r, n->start_mark, "%s: %zu items: expected %" PRIu64 " to %" PRIu64, o->name, count, o->min,
                       o->max);
        return;
    }
    if (!take_items(r, o->name, n, count))
        return;
    char *items = zalloc(r, count + !count, o->table->size);
    for (size_t i = 0; items && i < count; i++) {
        void *item = items + i * o->table->size;
        if (ea_option_fallbacks(o->table->rows, item, &err))
            config_problem(r, n->start_mark, "%s: %s", o->name, err.message);
        take_mapping(r, o->name, yaml_document_get_node(&r->document, n->data.sequence.items.start[i]), o->table, item);
    }
    *target = (ea_tables){.items = items, .count = items ? count : 0};
}

static void config_take(reading *r, const ea_option *o, const yaml_node_t *n, void *options) {
    void *target = (char *)options + o->offset;
    switch (o->type) {
    case EA_OPT_FLAG:
        take_flag(r, o, n, target);
        break;
    case EA_OPT_STRINGS:
        take_strings(r, o, n, options);
        break;
    case EA_OPT_TABLE:
        take_mapping(r, o->name, n, o->table, target);
        break;
    case EA_OPT_TABLES:
        config_take_tables(r, o, n, target);
        break;
    case EA_OPT_LABELS:
        take_labels(r, o, n, target);
        break;
    case EA_OPT_STRING:
    case EA_OPT_U64:
    case EA_OPT_DURATION:
    case EA_OPT_SIZE:
    case EA_OPT_CHOICE:
        config_take_value(r, o, n, options);
        break;
    }
}

/* name: of the mapping, for messages; NULL for the file's. */
static void take_mapping(reading *r, const char *name, const yaml_node_t *n, const ea_table *table, void *target) {
    enum { ROWS_MAX = 128 };

    yaml_mark_t at[ROWS_MAX];
    unsigned char given[ROWS_MAX] = {0};
    unsigned problems_before = r->problems;
    const char *where = name ? name : "the file";
    if (n->type != YAML_MAPPING_NODE) {
        config_problem(r, n->start_mark, "%s: expected a mapping of options to values, not %s", where,
                       config_kind_of(n));
        return;
    }
    for (const yaml_node_pair_t *pair = n->data.mapping.pairs.start; pair < n->data.mapping.pairs.top; pair++) {
        const yaml_node_t *key = yaml_document_get_node(&r->document, pair->key),
                          *value = yaml_document_get_node(&r->document, pair->value);
        const char *nearest = NULL;
        if (key->type != YAML_SCALAR_NODE) {
            config_problem(r, key->start_mark, "%s: expected an option's name, not %s", where, config_kind_of(key));
            continue;
        }
        const char *word = (const char *)key->data.scalar.value;
        const ea_option *o = ea_option_find(table->rows, word, key->data.scalar.length, &nearest);
        if (!o || (o->type == EA_OPT_STRING && strcmp(o->name, "config") == 0)) {
            if (table->passes_unknown)
                continue;
            if (nearest)
                config_problem(r, key->start_mark, "%s has no option '%.64s'; did you mean '%s'?", where, word,
                               nearest);
            else
                config_problem(r, key->start_mark, "%s has no option '%.64s'", where, word);
            continue;
        }
        size_t k = (size_t)(o - table->rows);
        if (k < ROWS_MAX && given[k]) {
            config_problem(r, key->start_mark, "%s is given twice; first on line %zu", o->name, at[k].line + 1);
            continue;
        }
        if (k < ROWS_MAX) {
            given[k] = 1;
            at[k] = value->start_mark;
        }
        config_take(r, o, value, target);
    }
    for (size_t k = 0; table->rows[k].name && k < ROWS_MAX; k++)
        if (table->rows[k].required && !given[k] && (name || !r->partial))
            config_problem(r, n->start_mark, "%s: %s is missing: %s", where, table->rows[k].name, table->rows[k].help);
    const char *key = NULL;
    ea_err err;
    if (r->problems == problems_before && table->check && table->check(target, &key, &err)) {
        yaml_mark_t mark = n->start_mark;
        for (size_t k = 0; key && table->rows[k].name && k < ROWS_MAX; k++)
            if (given[k] && strcmp(table->rows[k].name, key) == 0)
                mark = at[k];
        config_problem(r, mark, "%s%s%s", key ? key : where, ": ", err.message);
    }
    if (r->problems == problems_before && table->check_values)
        config_check_values(r, n, table, target);
}

/* ---- places inside of values ---- */

/* The node at a path below n, as far as there is one; *ret_name: the option's. */
static const yaml_node_t *find_node(reading *r, const yaml_node_t *n, const char *path, ea_text *ret_name) {
    while (*path) {
        size_t len = strcspn(path, "/");
        const yaml_node_t *next = NULL;
        if (n->type == YAML_SEQUENCE_NODE) {
            size_t i = strtoul(path, NULL, 10),
                   count = (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
            next = i < count ? yaml_document_get_node(&r->document, n->data.sequence.items.start[i]) : NULL;
        } else if (n->type == YAML_MAPPING_NODE) {
            ea_text_clear(ret_name);
            ea_text_add(ret_name, path, len);
            for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
                const yaml_node_t *key = yaml_document_get_node(&r->document, p->key);
                if (key->type == YAML_SCALAR_NODE && key->data.scalar.length == len &&
                    memcmp(key->data.scalar.value, path, len) == 0)
                    next = yaml_document_get_node(&r->document, p->value);
            }
        }
        if (!next)
            break; /* a text in the place of a list of one */
        n = next;
        path += len + (path[len] == '/');
    }
    return n;
}

/* The text of the file from a line on; lines count from 0. */
static const char *line_at(const reading *r, size_t line) {
    const char *at = r->text, *end = r->text + r->len_bytes;
    for (; line && at < end; line--) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return at;
}

/* The columns by which a block's lines are indented: those of its first line that has text. */
static size_t indent_of(const reading *r, size_t line) {
    const char *end = r->text + r->len_bytes;
    for (;; line++) {
        const char *at = line_at(r, line);
        size_t n = 0;
        while (at + n < end && at[n] == ' ')
            n++;
        if (at + n >= end || (at[n] != '\n' && at[n] != '\r'))
            return n;
    }
}

/* Where a place inside of a value's text is in the file. In a text that YAML writes over several lines in another way
 * than as a block, and from an escaped character on, it is the begin of the value. */
static yaml_mark_t mark_of(const reading *r, const yaml_node_t *n, const ea_option_place *place) {
    yaml_mark_t mark = n->start_mark;
    if (n->type != YAML_SCALAR_NODE || !place->line)
        return mark;
    if (n->data.scalar.style == YAML_LITERAL_SCALAR_STYLE) {
        mark.column = indent_of(r, n->start_mark.line + 1) + place->column - 1;
        mark.line += place->line;
    } else if (n->start_mark.line == n->end_mark.line && place->line == 1) {
        int is_quoted = n->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        size_t raw = n->end_mark.column - n->start_mark.column;
        if (raw == n->data.scalar.length + 2 * (size_t)is_quoted)
            mark.column += (size_t)is_quoted + place->column - 1;
    }
    return mark;
}

static void config_check_values(reading *r, const yaml_node_t *n, const ea_table *table, const void *target) {
    ea_option_place place = {0};
    ea_text name;
    ea_err err;
    if (!table->check_values(target, &place, &err))
        return;
    ea_text_init(&name);
    const yaml_node_t *at = find_node(r, n, place.path, &name);
    config_problem(r, mark_of(r, at, &place), "%s: %s", name.len_bytes ? name.data : "the file", err.message);
    ea_text_deinit(&name);
}

/* ---- a file ---- */

static void not_yaml(reading *r, const yaml_parser_t *parser) {
    yaml_mark_t at = parser->problem_mark;
    if (parser->error == YAML_READER_ERROR) { /* bytes that are no text: libyaml knows their offset only */
        at = (yaml_mark_t){0};
        for (size_t i = 0; i < parser->problem_offset && i < r->len_bytes; i++) {
            at.line += r->text[i] == '\n';
            at.column = r->text[i] == '\n' ? 0 : at.column + 1;
        }
    }
    config_problem(r, at, "this is not YAML: %s%s%s", parser->problem ? parser->problem : "unreadable",
                   parser->context ? " " : "", parser->context ? parser->context : "");
}

/* Whether lists and mappings are nested deeper than any option needs. libyaml's time for a document is proportional to
 * its bytes times its depth, so the depth is checked before the document is loaded. A syntax error is left to the
 * loading. */
static int is_too_deep(reading *r) {
    yaml_parser_t parser;
    yaml_event_t event;
    int depth = 0, at_end = 0;
    if (!yaml_parser_initialize(&parser)) {
        r->no_memory = 1;
        return 1;
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)r->text, r->len_bytes);
    while (!at_end && depth <= EA_CONFIG_DEPTH_MAX && yaml_parser_parse(&parser, &event)) {
        if (event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT)
            depth++;
        else if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT)
            depth--;
        at_end = event.type == YAML_STREAM_END_EVENT;
        if (depth > EA_CONFIG_DEPTH_MAX)
            config_problem(r, event.start_mark, "expected at most %d lists and mappings inside each other, found more",
                           EA_CONFIG_DEPTH_MAX);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return depth > EA_CONFIG_DEPTH_MAX;
}

static void config_read_document(reading *r, yaml_parser_t *parser, const ea_table *table, void *target) {
    if (is_too_deep(r))
        return;
    if (!yaml_parser_load(parser, &r->document)) {
        not_yaml(r, parser);
        return;
    }
    yaml_node_t *root = yaml_document_get_root_node(&r->document);
    if (root)
        take_mapping(r, NULL, root, table, target);
    else
        config_problem(r, (yaml_mark_t){0}, "the file is empty");
    yaml_document_delete(&r->document);
    if (!root)
        return;
    if (!yaml_parser_load(parser, &r->document)) {
        not_yaml(r, parser);
        return;
    }
    root = yaml_document_get_root_node(&r->document);
    if (root)
        config_problem(r, root->start_mark, "a second document begins here; expected one");
    yaml_document_delete(&r->document);
}

static int config_parse(ea_config **ret, const char *name, const char *text, size_t len_bytes, const ea_table *table,
                        void *target, int partial, ea_config_note *on_note, void *arg, ea_err *err) {
    yaml_parser_t parser;
    reading r = {
        .name = name, .text = text, .len_bytes = len_bytes, .on_note = on_note, .arg = arg, .partial = partial};
    int rc = ea_option_fallbacks(table->rows, target, err);
    if (rc)
        return rc;
    r.c = calloc(1, sizeof *r.c);
    if (!r.c || !yaml_parser_initialize(&parser)) {
        free(r.c);
        return ea_fail(err, EA_ENOMEM, "read %s", name);
    }
    ea_arena_init(&r.c->arena, ARENA_LIMIT);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len_bytes);
    config_read_document(&r, &parser, table, target);
    yaml_parser_delete(&parser);
    if (r.no_memory)
        rc = ea_fail(err, EA_ENOMEM, "read %s", name);
    else if (r.problems > 1)
        rc = ea_fail(err, EA_EFORMAT, "%.400s (and %u more)", r.first.message, r.problems - 1);
    else if (r.problems)
        rc = ea_fail(err, EA_EFORMAT, "%s", r.first.message);
    if (rc)
        ea_config_destroy(r.c);
    else
        *ret = r.c;
    return rc;
}

int ea_config_parse(ea_config **ret, const char *name, const char *text, size_t len_bytes, const ea_table *table,
                    void *target, ea_config_note *on_note, void *arg, ea_err *err) {
    return config_parse(ret, name, text, len_bytes, table, target, 0, on_note, arg, err);
}

int ea_config_read(ea_config **ret, const char *path, const ea_table *table, void *target, ea_config_note *on_note,
                   void *arg, ea_err *err) {
    char *text;
    size_t len_bytes;
    int rc = ea_path_read_all(path, EA_CONFIG_MAX_BYTES, &text, &len_bytes, err);
    if (rc)
        return rc;
    rc = config_parse(ret, path, text, len_bytes, table, target, 0, on_note, arg, err);
    free(text);
    return rc;
}

void ea_config_destroy(ea_config *c) {
    if (!c)
        return;
    ea_arena_deinit(&c->arena);
    free(c);
}

/* ---- --config of a command ---- */

static void note_to_stderr(void *arg, const char *line) {
    unsigned *n = arg;
    if ((*n)++) /* the first one is in the error */
        fprintf(stderr, "%s\n", line);
}

int ea_config_parse_of_command(void **ret, const char *path, const char *text, size_t len_bytes, const ea_option *rows,
                               void *options, ea_err *err) {
    ea_config *c;
    unsigned n = 0;
    int rc = config_parse(&c, path, text, len_bytes, &(ea_table){.rows = rows}, options, 1, note_to_stderr, &n, err);
    if (!rc)
        *ret = c;
    return rc;
}

static int read_of_command(void **ret, const char *path, const ea_option *rows, void *options, ea_err *err) {
    char *text;
    size_t len_bytes;
    int rc = ea_path_read_all(path, EA_CONFIG_MAX_BYTES, &text, &len_bytes, err);
    if (rc)
        return rc;
    rc = ea_config_parse_of_command(ret, path, text, len_bytes, rows, options, err);
    free(text);
    return rc;
}

static void destroy_of_command(void *config) {
    ea_config_destroy(config);
}

const ea_config_reader ea_config_of_command = {read_of_command, destroy_of_command};

/* ---- what the rows say of themselves ---- */

static const char *type_text(const ea_option *o) {
    switch (o->type) {
    case EA_OPT_FLAG:
        return "true or false";
    case EA_OPT_STRING:
        return "text";
    case EA_OPT_STRINGS:
        return "a text or a list of texts";
    case EA_OPT_U64:
        return "number";
    case EA_OPT_DURATION:
        return "duration";
    case EA_OPT_SIZE:
        return "size";
    case EA_OPT_CHOICE:
        return "one of";
    case EA_OPT_TABLE:
        return "mapping";
    case EA_OPT_TABLES:
        return "list of mappings";
    case EA_OPT_LABELS:
        return "mapping of names to texts";
    }
    return "";
}

static int config_is_of_file(const ea_option *o) {
    return strcmp(o->name, "config") != 0;
}

static void reference_of(const ea_table *table, const char *path, ea_text *t) {
    ea_text_printf(t, "%s\n\n| option | type | default | what it does |\n|---|---|---|---|\n", table->summary);
    for (const ea_option *o = table->rows; o->name; o++) {
        if (!config_is_of_file(o))
            continue;
        ea_text_printf(t, "| `%s` | %s", o->name, type_text(o));
        for (int i = 0; o->choices && o->choices[i]; i++)
            ea_text_printf(t, "%s `%s`", i ? "," : "", o->choices[i]);
        if (o->max) {
            ea_text_str(t, o->type == EA_OPT_TABLES ? " of " : ", ");
            ea_option_range(o, t);
        }
        ea_text_printf(t, " | %s%s%s | %s |\n", o->fallback ? "`" : "",
                       o->fallback   ? o->fallback
                       : o->required ? "required"
                                     : "",
                       o->fallback ? "`" : "", o->help);
    }
    for (const ea_option *o = table->rows; o->name; o++)
        if (o->table) {
            char below[PATH_MAX_BYTES];
            snprintf(below, sizeof below, "%s%s%s%s", path, *path ? "." : "", o->name,
                     o->type == EA_OPT_TABLES ? "[]" : "");
            ea_text_printf(t, "\n## `%s`\n\n", below);
            reference_of(o->table, below, t);
        }
}

void ea_config_reference(const ea_table *table, const char *title, ea_text *t) {
    ea_text_printf(t,
                   "# %s\n\nMade from the program's own option tables.\n\nA duration is a number with `ns`, `us`, "
                   "`ms`, `s`, `m`, `h` or `d`; a size one with `B`, `KiB`, `MiB`, `GiB` or `TiB`.\n\n",
                   title);
    reference_of(table, "", t);
}

/* A line's beginning: out marks a part that a reader may want, but that the example does not use. */
static void config_begin(ea_text *t, unsigned depth, int out) {
    if (out)
        ea_text_str(t, "# ");
    for (unsigned i = 0; i < depth; i++)
        ea_text_str(t, "  ");
}

static void example_of(const ea_table *table, unsigned depth, int out, ea_text *t) {
    for (const ea_option *o = table->rows; o->name; o++) {
        if (!config_is_of_file(o))
            continue;
        const char *value = o->example ? o->example : o->fallback;
        config_begin(t, depth, out);
        ea_text_printf(t, "# %s", o->help);
        for (int i = 0; o->choices && o->choices[i]; i++)
            ea_text_printf(t, "%s %s", i ? "," : ":", o->choices[i]);
        if (o->max && o->type != EA_OPT_TABLES) {
            ea_text_str(t, " (");
            ea_option_range(o, t);
            ea_text_char(t, ')');
        }
        ea_text_char(t, '\n');
        if (o->type == EA_OPT_TABLE || o->type == EA_OPT_TABLES) {
            int inside_out = out || (o->type == EA_OPT_TABLES && !o->example);
            config_begin(t, depth, inside_out);
            ea_text_printf(t, "%s:\n", o->name);
            if (o->type == EA_OPT_TABLES) {
                config_begin(t, depth + 1, inside_out);
                ea_text_str(t, "-\n");
            }
            example_of(o->table, depth + (o->type == EA_OPT_TABLES ? 2 : 1), inside_out, t);
            continue;
        }
        config_begin(t, depth, out || !value);
        if (o->type == EA_OPT_LABELS)
            ea_text_printf(t, "%s: {%s}\n", o->name, value ? value : "name: text");
        else
            ea_text_printf(t, "%s: %s\n", o->name, value ? value : o->type == EA_OPT_FLAG ? "true" : "...");
    }
}

void ea_config_example(const ea_table *table, ea_text *t) {
    example_of(table, 0, 0, t);
}

/* ---- differences ---- */

static int config_same_text(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

static int same_value(const ea_option *o, const void *a, const void *b) {
    switch (o->type) {
    case EA_OPT_FLAG:
    case EA_OPT_CHOICE:
        return *(const int *)a == *(const int *)b;
    case EA_OPT_U64:
    case EA_OPT_SIZE:
    case EA_OPT_DURATION:
        return memcmp(a, b, sizeof(uint64_t)) == 0;
    case EA_OPT_STRING:
        return config_same_text(*(const char *const *)a, *(const char *const *)b);
    case EA_OPT_STRINGS: {
        const ea_strings *x = a, *y = b;
        int same = x->count == y->count;
        for (size_t i = 0; same && i < x->count; i++)
            same = config_same_text(x->items[i], y->items[i]);
        return same;
    }
    case EA_OPT_LABELS: {
        const ea_labels *x = a, *y = b;
        int same = x->count == y->count;
        for (size_t i = 0; same && i < x->count; i++)
            same = config_same_text(x->items[i].name, y->items[i].name) &&
                   config_same_text(x->items[i].value, y->items[i].value);
        return same;
    }
    case EA_OPT_TABLES:
        return ((const ea_tables *)a)->count == ((const ea_tables *)b)->count;
    case EA_OPT_TABLE:
        break; /* the caller looks inside */
    }
    return 1;
}

static void config_compare(const ea_table *table, const char *path, const char *before, const char *after,
                           void (*on_change)(void *arg, const char *path), void *arg) {
    for (const ea_option *o = table->rows; o->name; o++) {
        char below[PATH_MAX_BYTES];
        const void *a = before + o->offset, *b = after + o->offset;
        snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", o->name);
        if (!same_value(o, a, b)) {
            on_change(arg, below);
        } else if (o->type == EA_OPT_TABLE) {
            config_compare(o->table, below, a, b, on_change, arg);
        } else if (o->type == EA_OPT_TABLES) {
            const ea_tables *x = a, *y = b;
            for (size_t i = 0; i < x->count; i++) {
                char item[PATH_MAX_BYTES + 24];
                snprintf(item, sizeof item, "%s[%zu]", below, i);
                config_compare(o->table, item, (const char *)x->items + i * o->table->size,
                               (const char *)y->items + i * o->table->size, on_change, arg);
            }
        }
    }
}

void ea_config_compare(const ea_table *table, const void *before, const void *after,
                       void (*on_change)(void *arg, const char *path), void *arg) {
    config_compare(table, "", before, after, on_change, arg);
}
