/* Scenarios out of YAML, by the table of scenario_options.c. See scenario.h. */
#include "tests/tracegen/scenario.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "tests/tracegen/scenario_options.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { FILE_MAX_BYTES = 4 << 20, BASES_MAX = 4 };

typedef struct reader {
    tg_scenario *s;
    const char *source; /* as errors name it */
    yaml_document_t document;
    ea_err *err;
} reader;

static int wrong(const reader *r, const yaml_node_t *at, const char *what, const char *name) {
    return ea_fail(r->err, EA_EFORMAT, "%s:%zu:%zu: %s%s%s", r->source, at->start_mark.line + 1,
                   at->start_mark.column + 1, what, name ? " " : "", name ? name : "");
}

static const char *scalar(const yaml_node_t *n) {
    return (const char *)n->data.scalar.value;
}

static yaml_node_t *node(reader *r, int id) {
    return yaml_document_get_node(&r->document, id);
}

static int name_index(const char *const *names, const char *name) {
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

/* ---- values ---- */

/* A number, and that it is one. */
static int to_number(const char *text, uint32_t min, uint32_t max, uint32_t *ret) {
    uint64_t v;
    if (ea_u64_parse(text, &v) || v < min || v > max)
        return 0;
    *ret = (uint32_t)v;
    return 1;
}

static int set_number(reader *r, const tg_option *o, const yaml_node_t *n, uint32_t *ret) {
    if (n->type != YAML_SCALAR_NODE || !to_number(scalar(n), o->min, o->max, ret))
        return ea_fail(r->err, EA_EFORMAT, "%s:%zu:%zu: %s: expected a number from %u to %u", r->source,
                       n->start_mark.line + 1, n->start_mark.column + 1, o->key, o->min, o->max);
    return 0;
}

static int set_range(reader *r, const tg_option *o, const yaml_node_t *n, tg_range *ret) {
    int rc;
    if (n->type != YAML_SEQUENCE_NODE) {
        rc = set_number(r, o, n, &ret->low);
        ret->high = ret->low;
        return rc;
    }
    const yaml_node_item_t *items = n->data.sequence.items.start;
    if (n->data.sequence.items.top - items != 2)
        return wrong(r, n, "expected [low, high] for", o->key);
    rc = set_number(r, o, node(r, items[0]), &ret->low);
    if (!rc)
        rc = set_number(r, o, node(r, items[1]), &ret->high);
    return !rc && ret->low > ret->high ? wrong(r, n, "the low end is above the high one in", o->key) : rc;
}

static int set_flags(reader *r, const tg_option *o, const yaml_node_t *n, uint64_t *ret) {
    if (n->type != YAML_SEQUENCE_NODE)
        return wrong(r, n, "expected a list for", o->key);
    *ret = 0;
    for (const yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top; i++) {
        const yaml_node_t *item = node(r, *i);
        int index = item->type == YAML_SCALAR_NODE ? name_index(o->names, scalar(item)) : -1;
        if (index < 0)
            return wrong(r, item, "not one of the names for", o->key);
        *ret |= (uint64_t)1 << index;
    }
    return 0;
}

static int set_weights(reader *r, const tg_option *o, const yaml_node_t *n, uint32_t *ret) {
    if (n->type != YAML_MAPPING_NODE)
        return wrong(r, n, "expected a mapping for", o->key);
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = node(r, p->key);
        int index = key->type == YAML_SCALAR_NODE ? name_index(o->names, scalar(key)) : -1;
        if (index < 0)
            return wrong(r, key, "not one of the names for", o->key);
        int rc = set_number(r, o, node(r, p->value), &ret[index]);
        if (rc)
            return rc;
    }
    return 0;
}

static int read_list(reader *r, const tg_option *o, const yaml_node_t *n);

/* One option's value into the struct at base. */
static int set(reader *r, const tg_option *o, const yaml_node_t *n, void *base) {
    void *at = (uint8_t *)base + o->offset;
    switch (o->type) {
    case TG_OPT_NUMBER:
        return set_number(r, o, n, at);
    case TG_OPT_RANGE:
        return set_range(r, o, n, at);
    case TG_OPT_FLAGS:
        return set_flags(r, o, n, at);
    case TG_OPT_WEIGHTS:
        return set_weights(r, o, n, at);
    case TG_OPT_LIST:
        return read_list(r, o, n);
    default:
        break;
    }
    if (n->type != YAML_SCALAR_NODE)
        return wrong(r, n, "expected one value for", o->key);
    if (o->type == TG_OPT_TEXT) {
        char *copy = ea_arena_strdup(&r->s->arena, scalar(n));
        *(const char **)at = copy;
        return copy ? 0 : ea_fail(r->err, EA_ENOMEM, "read %s", r->source);
    }
    static const char *const switches[] = {"no", "yes", NULL};
    int index = name_index(o->type == TG_OPT_SWITCH ? switches : o->names, scalar(n));
    if (index < 0)
        return wrong(r, n, o->type == TG_OPT_SWITCH ? "expected yes or no for" : "not one of the names for", o->key);
    *(uint32_t *)at = (uint32_t)index;
    return 0;
}

/* What the options of a section are when the file does not say. Fallbacks are numbers, ranges, names or texts. */
static void set_fallbacks(void *base, const char *of_list) {
    for (const tg_option *o = tg_options; o->section; o++) {
        int is_item = of_list && strcmp(o->section, of_list) == 0, is_own = 0;
        if (!of_list) { /* of the file: every section that is no list's */
            is_own = 1;
            for (const tg_option *l = tg_options; l->section; l++)
                is_own &= l->type != TG_OPT_LIST || strcmp(l->key, o->section) != 0;
        }
        if (!(is_item || is_own) || !o->fallback)
            continue;
        void *at = (uint8_t *)base + o->offset;
        if (o->type == TG_OPT_TEXT)
            *(const char **)at = o->fallback;
        else if (o->type == TG_OPT_CHOICE)
            *(uint32_t *)at = (uint32_t)name_index(o->names, o->fallback);
        else if (o->type == TG_OPT_SWITCH)
            *(uint32_t *)at = strcmp(o->fallback, "yes") == 0;
        else {
            char *end;
            uint32_t low = (uint32_t)strtoul(o->fallback + (*o->fallback == '['), &end, 0), high = low;
            if (*end == ',')
                high = (uint32_t)strtoul(end + 1, NULL, 0);
            ((uint32_t *)at)[0] = low;
            if (o->type == TG_OPT_RANGE)
                ((uint32_t *)at)[1] = high;
        }
    }
}

/* ---- mappings and lists ---- */

static const tg_option *find_option(const char *section, const char *key) {
    for (const tg_option *o = tg_options; o->section; o++)
        if (strcmp(o->section, section) == 0 && strcmp(o->key, key) == 0)
            return o;
    return NULL;
}

static int is_section(const char *name) {
    for (const tg_option *o = tg_options; o->section; o++)
        if (*name && strcmp(o->section, name) == 0)
            return 1;
    return 0;
}

static int read_mapping(reader *r, const char *section, const yaml_node_t *n, void *base) {
    if (n->type != YAML_MAPPING_NODE)
        return wrong(r, n, "expected a mapping", *section ? section : NULL);
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = node(r, p->key), *value = node(r, p->value);
        if (key->type != YAML_SCALAR_NODE)
            return wrong(r, key, "expected an option's name", NULL);
        const tg_option *o = find_option(section, scalar(key));
        int rc;
        if (o)
            rc = set(r, o, value, base);
        else if (!*section && is_section(scalar(key)))
            rc = read_mapping(r, scalar(key), value, base);
        else
            rc = wrong(r, key, "there is no option", scalar(key));
        if (rc)
            return rc;
        for (const yaml_node_pair_t *q = n->data.mapping.pairs.start; q < p; q++)
            if (strcmp(scalar(node(r, q->key)), scalar(key)) == 0)
                return wrong(r, key, "is here twice:", scalar(key));
    }
    return 0;
}

static int has_key(reader *r, const yaml_node_t *n, const char *key) {
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++)
        if (strcmp(scalar(node(r, p->key)), key) == 0)
            return 1;
    return 0;
}

/* Appends to the list that a base may have begun. */
static int read_list(reader *r, const tg_option *o, const yaml_node_t *n) {
    if (n->type != YAML_SEQUENCE_NODE)
        return wrong(r, n, "expected a list for", o->key);
    size_t *count = (size_t *)((uint8_t *)r->s + o->count_offset);
    void **items = (void **)((uint8_t *)r->s + o->offset);
    size_t more = (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
    uint8_t *all = ea_arena_zalloc(&r->s->arena, *count + more + 1, o->item_bytes);
    if (!all)
        return ea_fail(r->err, EA_ENOMEM, "read %s", r->source);
    if (*count)
        memcpy(all, *items, *count * o->item_bytes);
    *items = all;
    const tg_option *plain = find_option(o->key, "");
    for (size_t i = 0; i < more; i++) {
        const yaml_node_t *item = node(r, n->data.sequence.items.start[i]);
        void *at = all + *count * o->item_bytes;
        set_fallbacks(at, o->key);
        int rc = plain ? set(r, plain, item, at) : read_mapping(r, o->key, item, at);
        for (const tg_option *field = tg_options; !rc && !plain && field->section; field++)
            if (field->required && strcmp(field->section, o->key) == 0 && !has_key(r, item, field->key))
                rc = wrong(r, item, "lacks", field->key);
        if (rc)
            return rc;
        ++*count;
    }
    return 0;
}

/* ---- files ---- */

static int read_text(tg_scenario *s, const char *source, const unsigned char *text, size_t len_bytes, unsigned depth,
                     ea_err *err);

static int find_preset(const char *name, const tg_preset **ret, ea_err *err) {
    for (const tg_preset *p = tg_presets; p->name; p++) {
        if (strcmp(p->name, name) == 0) {
            *ret = p;
            return 0;
        }
    }
    return ea_fail(err, EA_EUSAGE, "no preset is called '%s', and it is no path of a .yaml file", name);
}

static int read_base(reader *r, const yaml_node_t *root, unsigned depth) {
    if (root->type != YAML_MAPPING_NODE)
        return 0;
    for (const yaml_node_pair_t *p = root->data.mapping.pairs.start; p < root->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = node(r, p->key), *value = node(r, p->value);
        if (key->type != YAML_SCALAR_NODE || strcmp(scalar(key), "base") != 0)
            continue;
        const tg_preset *base;
        if (value->type != YAML_SCALAR_NODE || depth == BASES_MAX || find_preset(scalar(value), &base, NULL))
            return wrong(r, value, "expected the name of a preset for", "base");
        return read_text(r->s, base->name, base->text, base->len_bytes, depth + 1, r->err);
    }
    return 0;
}

static int read_text(tg_scenario *s, const char *source, const unsigned char *text, size_t len_bytes, unsigned depth,
                     ea_err *err) {
    yaml_parser_t parser;
    reader r = {.s = s, .source = source, .err = err};
    if (!yaml_parser_initialize(&parser))
        return ea_fail(err, EA_ENOMEM, "read %s", source);
    yaml_parser_set_input_string(&parser, text, len_bytes);
    int rc = 0;
    if (!yaml_parser_load(&parser, &r.document)) {
        rc = ea_fail(err, EA_EFORMAT, "%s:%zu:%zu: %s", source, parser.problem_mark.line + 1,
                     parser.problem_mark.column + 1, parser.problem ? parser.problem : "no YAML");
    } else {
        const yaml_node_t *root = yaml_document_get_root_node(&r.document);
        if (!root)
            rc = ea_fail(err, EA_EFORMAT, "%s:1:1: the file is empty", source);
        if (!rc)
            rc = read_base(&r, root, depth);
        if (!rc)
            rc = read_mapping(&r, "", root, s);
        yaml_document_delete(&r.document);
    }
    yaml_parser_delete(&parser);
    return rc;
}

static int knows_program(const tg_scenario *s, const char *name) {
    for (size_t i = 0; i < s->program_count; i++)
        if (strcmp(s->programs[i].name, name) == 0)
            return 1;
    return 0;
}

/* What no single value can be wrong in. */
static int check(tg_scenario *s, ea_err *err) {
    const char *missing = NULL, *where = NULL;
    for (size_t i = 0; i < s->program_count; i++)
        for (int k = 0; k < TG_WORK_COUNT; k++)
            s->programs[i].weight_sum += s->programs[i].weights[k];
    for (size_t i = 0; i < s->start_count && !missing; i++) {
        where = "starts";
        if (!knows_program(s, s->starts[i].program))
            missing = s->starts[i].program;
        int placed = s->starts[i].parent == NULL;
        for (size_t k = 0; k < i; k++)
            placed |= s->starts[i].parent && strcmp(s->starts[k].program, s->starts[i].parent) == 0;
        if (!placed)
            return ea_fail(err, EA_EFORMAT, "%s: starts: %s comes before its parent %s", s->name, s->starts[i].program,
                           s->starts[i].parent);
    }
    for (size_t i = 0; i < s->activity_count && !missing; i++) {
        where = "activities";
        missing = !knows_program(s, s->activities[i].child) ? s->activities[i].child : NULL;
    }
    for (size_t i = 0; i < s->logon_program_count && !missing; i++) {
        where = "logon_programs";
        missing = !knows_program(s, s->logon_programs[i].name) ? s->logon_programs[i].name : NULL;
    }
    for (size_t i = 0; i < s->script_count && !missing; i++) {
        where = "script";
        if (s->script[i].kind == TG_STEP_START && !(s->script[i].program && knows_program(s, s->script[i].program)))
            missing = s->script[i].program ? s->script[i].program : "(none)";
    }
    if (missing)
        return ea_fail(err, EA_EFORMAT, "%s: %s: no program is called %s", s->name, where, missing);
    if (!s->start_count || strcmp(s->starts[0].program, "Idle") != 0)
        return ea_fail(err, EA_EFORMAT, "%s: starts must begin with Idle", s->name);
    if (!s->events)
        return ea_fail(err, EA_EFORMAT, "%s: session: events must be given", s->name);
    if (s->pointer_bytes != 4 && s->pointer_bytes != 8)
        return ea_fail(err, EA_EFORMAT, "%s: machine: pointer_bytes must be 4 or 8", s->name);
    for (size_t i = 0; i < s->program_count; i++)
        if (s->programs[i].wow64 && s->pointer_bytes != 8)
            return ea_fail(err, EA_EFORMAT, "%s: programs: %s: wow64 needs a 64-bit machine", s->name,
                           s->programs[i].name);
    if (!s->folder_count || !s->file_count || !s->key_count || !s->value_count || !s->remote_count || !s->dll_count)
        return ea_fail(err, EA_EFORMAT,
                       "%s: needs dlls, folders, files, keys, values and remotes (base: windows has them)", s->name);
    if (s->os == TG_WINDOWS_7 && s->cpus > 256)
        return ea_fail(err, EA_EFORMAT, "%s: before Windows 8 there are 256 CPUs at most", s->name);
    return 0;
}

int tg_scenario_read(tg_scenario **ret, const char *preset_or_path, ea_err *err) {
    tg_scenario *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "read %s", preset_or_path);
    ea_arena_init(&s->arena, 0);
    set_fallbacks(s, NULL);
    s->name = ea_arena_strdup(&s->arena, preset_or_path);
    size_t length = strlen(preset_or_path);
    int rc;
    if (length > 5 && strcmp(preset_or_path + length - 5, ".yaml") == 0) {
        char *text;
        size_t len_bytes;
        rc = ea_path_read_all(preset_or_path, FILE_MAX_BYTES, &text, &len_bytes, err);
        if (!rc) {
            rc = read_text(s, preset_or_path, (const unsigned char *)text, len_bytes, 0, err);
            free(text);
        }
    } else {
        const tg_preset *preset;
        rc = find_preset(preset_or_path, &preset, err);
        if (!rc)
            rc = read_text(s, preset->name, preset->text, preset->len_bytes, 0, err);
    }
    if (!rc && !s->name)
        rc = ea_fail(err, EA_ENOMEM, "read %s", preset_or_path);
    if (!rc)
        rc = check(s, err);
    if (rc) {
        tg_scenario_destroy(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void tg_scenario_destroy(tg_scenario *s) {
    if (!s)
        return;
    ea_arena_deinit(&s->arena);
    free(s);
}
