/* Rules out of YAML. See rules.h. Each document is read on its own, so that a mistake costs one rule. Thread: the
 * builder's. */
#include "proto/base/clock.h"
#include "proto/rules/rules_parts.h"

#include <yaml.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    READ_MAX_BYTES = 512 << 20,
    ALL_TEXT_MAX_BYTES = 16 << 20,
    SCRATCH_MAX_BYTES = 64 << 20,
    NAMES_MAX = 512,
    FIELDS_MAX = 256,
    LIST_MAX = 20000
};

typedef struct document {
    rules_reading r;
    yaml_document_t yaml;
    const char *fields[FIELDS_MAX];
    rules_named names[NAMES_MAX];
    size_t name_count;
    uint64_t node_count; /* visited: an alias may be visited often */
    const char *text;    /* the document's lines */
    size_t text_bytes;
} document;

static const yaml_node_t *node_at(document *d, int number) {
    const yaml_node_t *n = yaml_document_get_node(&d->yaml, number);
    if (++d->node_count > EA_RULES_VALUES_MAX * 16)
        rules_fail(&d->r, (uint32_t)n->start_mark.line + 1, (uint32_t)n->start_mark.column + 1,
                   "the rule has too many values: split it");
    return n;
}

static uint32_t line_of(const yaml_node_t *n) {
    return (uint32_t)n->start_mark.line + 1;
}

static uint32_t rules_read_column_of(const yaml_node_t *n) {
    return (uint32_t)n->start_mark.column + 1;
}

static int is_quoted(const yaml_node_t *n) {
    return n->data.scalar.style == YAML_SINGLE_QUOTED_SCALAR_STYLE ||
           n->data.scalar.style == YAML_DOUBLE_QUOTED_SCALAR_STYLE;
}

static rules_scalar scalar_of(document *d, const yaml_node_t *n, const char *what) {
    if (n->type != YAML_SCALAR_NODE)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n), "expected %s, found a %s", what,
                   n->type == YAML_SEQUENCE_NODE ? "list" : "mapping");
    rules_scalar s = {.len_bytes = n->data.scalar.length, .line = line_of(n), .column = rules_read_column_of(n)};
    char *copy = rules_take(&d->r, s.len_bytes + 1, 1);
    memcpy(copy, n->data.scalar.value, s.len_bytes);
    s.text = copy;
    s.is_null = n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
                (!s.len_bytes || strcmp(copy, "~") == 0 || strcmp(copy, "null") == 0 || strcmp(copy, "Null") == 0 ||
                 strcmp(copy, "NULL") == 0);
    return s;
}

static rules_scalar rules_read_key_of(document *d, const yaml_node_t *n) {
    rules_scalar s = scalar_of(d, n, "a name");
    if (strlen(s.text) != s.len_bytes)
        rules_fail(&d->r, s.line, s.column, "the name contains a NUL");
    return s;
}

static void rules_read_add_name(document *d, rules_rule *rule, const char *key, size_t n) {
    for (uint32_t i = 0; i < rule->info.field_count; i++)
        if (strncmp(d->fields[i], key, n) == 0 && !d->fields[i][n])
            return;
    if (rule->info.field_count == FIELDS_MAX)
        rules_fail(&d->r, rule->info.line, 1, "the rule names more than %d fields: split it", FIELDS_MAX);
    char *copy = rules_take(&d->r, n + 1, 1);
    memcpy(copy, key, n);
    d->fields[rule->info.field_count++] = copy;
}

static void rules_read_add_field(document *d, rules_rule *rule, const char *key) {
    size_t n = strcspn(key, "|");
    if (n)
        rules_read_add_name(d, rule, key, n);
    else
        rule->info.has_keywords = 1;
}

/* The fields that an item refers to. */
static void add_others(document *d, rules_rule *rule, const rules_expr *e) {
    if (e->kind == RULES_LEAF && e->leaf.kind == RULES_LEAF_FIELD)
        rules_read_add_name(d, rule, e->leaf.other, strlen(e->leaf.other));
    for (uint32_t i = 0; i < e->count; i++)
        add_others(d, rule, e->children[i]);
}

static size_t item_count(const yaml_node_t *n) {
    return (size_t)(n->data.sequence.items.top - n->data.sequence.items.start);
}

static void rules_read_check_list(document *d, const yaml_node_t *n) {
    if (item_count(n) > LIST_MAX)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n), "the list has more than %d entries: split the rule",
                   LIST_MAX);
}

static rules_expr *item_expr(document *d, rules_rule *rule, const yaml_node_t *key_node, const yaml_node_t *value) {
    rules_scalar key = rules_read_key_of(d, key_node);
    key.column += (uint32_t)is_quoted(key_node);
    size_t count = 1;
    rules_read_add_field(d, rule, key.text);
    if (value->type == YAML_SEQUENCE_NODE) {
        rules_read_check_list(d, value);
        count = item_count(value);
    }
    rules_scalar *values = rules_take(&d->r, count, sizeof *values);
    if (value->type == YAML_SEQUENCE_NODE) {
        for (size_t i = 0; i < count; i++)
            values[i] = scalar_of(d, node_at(d, value->data.sequence.items.start[i]), "a value");
    } else {
        values[0] = scalar_of(d, value, "a value or a list of values");
    }
    rules_expr *e = rules_item(&d->r, key, values, count);
    add_others(d, rule, e);
    return e;
}

static rules_expr *map_expr(document *d, rules_rule *rule, const yaml_node_t *n) {
    size_t count = (size_t)(n->data.mapping.pairs.top - n->data.mapping.pairs.start);
    if (!count)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n), "the search is empty: it needs a field");
    rules_expr *e = rules_expr_new(&d->r, RULES_AND, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_pair_t *pair = &n->data.mapping.pairs.start[i];
        const yaml_node_t *key = node_at(d, pair->key);
        for (size_t k = 0; k < i; k++) {
            const yaml_node_t *other = node_at(d, n->data.mapping.pairs.start[k].key);
            if (key->type == YAML_SCALAR_NODE && other->type == YAML_SCALAR_NODE &&
                key->data.scalar.length == other->data.scalar.length &&
                memcmp(key->data.scalar.value, other->data.scalar.value, key->data.scalar.length) == 0)
                rules_fail(&d->r, line_of(key), rules_read_column_of(key),
                           "\"%.80s\" is given twice: make a list of its values, or two searches",
                           (const char *)key->data.scalar.value);
        }
        e->children[i] = item_expr(d, rule, key, node_at(d, pair->value));
    }
    return count == 1 ? e->children[0] : e;
}

static rules_expr *keyword_expr(document *d, rules_rule *rule, const yaml_node_t *n) {
    rules_scalar v = scalar_of(d, n, "a text");
    rule->info.has_keywords = 1;
    return rules_item(&d->r, (rules_scalar){.text = "", .line = v.line, .column = v.column}, &v, 1);
}

static rules_expr *search_expr(document *d, rules_rule *rule, const yaml_node_t *n) {
    if (n->type == YAML_MAPPING_NODE)
        return map_expr(d, rule, n);
    if (n->type == YAML_SCALAR_NODE)
        return keyword_expr(d, rule, n);
    rules_read_check_list(d, n);
    size_t count = item_count(n);
    if (!count)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n), "the search is empty: it needs a field or a text");
    rules_expr *e = rules_expr_new(&d->r, RULES_OR, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *child = node_at(d, n->data.sequence.items.start[i]);
        if (child->type == YAML_SEQUENCE_NODE)
            rules_fail(&d->r, line_of(child), rules_read_column_of(child),
                       "expected a mapping or a text, found a list");
        e->children[i] = child->type == YAML_MAPPING_NODE ? map_expr(d, rule, child) : keyword_expr(d, rule, child);
    }
    return count == 1 ? e->children[0] : e;
}

static const yaml_node_t *find(document *d, const yaml_node_t *map, const char *name) {
    if (!map || map->type != YAML_MAPPING_NODE)
        return NULL;
    const yaml_node_t *found = NULL;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(&d->yaml, p->key);
        if (key->type != YAML_SCALAR_NODE || key->data.scalar.length != strlen(name) ||
            memcmp(key->data.scalar.value, name, strlen(name)) != 0)
            continue;
        if (found)
            rules_fail(&d->r, line_of(key), rules_read_column_of(key), "\"%s\" is given twice: keep one of them", name);
        found = yaml_document_get_node(&d->yaml, p->value);
    }
    return found;
}

static const char *rules_read_text_of(document *d, const yaml_node_t *map, const char *name) {
    const yaml_node_t *n = find(d, map, name);
    if (!n || n->type != YAML_SCALAR_NODE)
        return "";
    return scalar_of(d, n, "a text").text;
}

static rules_expr *condition_of(document *d, const yaml_node_t *n) {
    rules_scalar text = scalar_of(d, n, "a condition");
    /* a text over several lines has one place for all of it */
    int is_one_line = n->start_mark.line == n->end_mark.line;
    uint32_t column = rules_read_column_of(n) + (is_one_line ? (uint32_t)is_quoted(n) : 0);
    return rules_condition(&d->r, text, column, d->names, d->name_count);
}

static void read_detection(document *d, rules_rule *rule, const yaml_node_t *detection) {
    const yaml_node_t *condition = find(d, detection, "condition");
    if (!condition)
        rules_fail(&d->r, line_of(detection), rules_read_column_of(detection), "the detection has no condition");
    if (find(d, detection, "timeframe"))
        rules_refuse(&d->r, line_of(detection), rules_read_column_of(detection),
                     "timeframe is not supported: Sigma 2 has correlation rules for it");
    for (const yaml_node_pair_t *p = detection->data.mapping.pairs.start; p < detection->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = node_at(d, p->key), *value = node_at(d, p->value);
        rules_scalar name = rules_read_key_of(d, key);
        if (strcmp(name.text, "condition") == 0 || (rule->filter && strcmp(name.text, "rules") == 0))
            continue;
        for (size_t i = 0; i < d->name_count; i++)
            if (strcmp(d->names[i].name, name.text) == 0)
                rules_fail(&d->r, name.line, name.column, "the search \"%.80s\" is given twice", name.text);
        if (d->name_count == NAMES_MAX)
            rules_fail(&d->r, name.line, name.column, "more than %d searches: split the rule", NAMES_MAX);
        rules_expr *e = search_expr(d, rule, value);
        d->names[d->name_count++] = (rules_named){name.text, e};
    }
    if (condition->type == YAML_SEQUENCE_NODE) {
        rules_read_check_list(d, condition);
        size_t count = item_count(condition);
        if (!count)
            rules_fail(&d->r, line_of(condition), rules_read_column_of(condition), "the list of conditions is empty");
        rule->condition = rules_expr_new(&d->r, RULES_OR, (uint32_t)count);
        for (size_t i = 0; i < count; i++)
            rule->condition->children[i] = condition_of(d, node_at(d, condition->data.sequence.items.start[i]));
    } else {
        rule->condition = condition_of(d, condition);
    }
    rule->condition_line = line_of(condition);
    rule->column = rules_read_column_of(condition);
}

/* The texts of a list, or the text alone; what they are: "a list of tags". n: NULL for none. */
static const char *const *texts_of(document *d, const yaml_node_t *n, const char *what, uint32_t limit,
                                   uint32_t *ret_count) {
    size_t count = !n ? 0 : n->type == YAML_SEQUENCE_NODE ? item_count(n) : 1;
    if (count > limit)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n), "expected %s with at most %u entries, found %zu", what,
                   (unsigned)limit, count);
    const char **texts = rules_take(&d->r, count, sizeof *texts);
    *ret_count = 0;
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *item = n->type == YAML_SEQUENCE_NODE ? node_at(d, n->data.sequence.items.start[i]) : n;
        rules_scalar s = scalar_of(d, item, what);
        if (strlen(s.text) != s.len_bytes)
            rules_fail(&d->r, s.line, s.column, "the text contains a NUL");
        if (!s.is_null)
            texts[(*ret_count)++] = s.text;
    }
    return texts;
}

/* Whom a filter concerns. An empty list is a mistake: it would concern all. */
static const char *const *filtered_of(document *d, const yaml_node_t *n, const char *what, uint32_t *ret_count) {
    const char *const *texts = texts_of(d, n, what, EA_RULES_FILTERED_MAX, ret_count);
    for (uint32_t i = 0; i < *ret_count; i++)
        if (!*texts[i])
            rules_fail(&d->r, line_of(n), rules_read_column_of(n), "expected %s, found an empty text", what);
    if (n && !*ret_count)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n), "expected %s, found none", what);
    return texts;
}

static int64_t expiry_of(document *d, const yaml_node_t *root) {
    const yaml_node_t *n = find(d, root, "expires");
    char text[40];
    int64_t utc_ns;
    if (!n)
        return INT64_MAX;
    rules_scalar s = scalar_of(d, n, "a date");
    snprintf(text, sizeof text, "%.10s%s", s.text, s.len_bytes == 10 ? "T00:00:00Z" : "");
    if (s.len_bytes != 10 || ea_utc_ns_parse(text, &utc_ns))
        rules_fail(&d->r, s.line, s.column, "expected a date such as 2027-01-31 (it begins at 00:00 UTC)");
    return utc_ns;
}

static void read_filter(document *d, rules_rule *rule, const yaml_node_t *root, const yaml_node_t *n) {
    static const char RULES[] = "a list of rules (id, name or title), or any";
    const yaml_node_t *rules = find(d, n, "rules");
    ea_rule_filter *f = rule->filter = rules_take(&d->r, 1, sizeof *f);
    if (!rules)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n), "the filter has no rules: expected %s", RULES);
    if (rules->type != YAML_SCALAR_NODE || strcmp(scalar_of(d, rules, RULES).text, "any") != 0)
        f->rules = filtered_of(d, rules, RULES, &f->rule_count);
    f->hosts = filtered_of(d, find(d, root, "hosts"), "a list of hosts", &f->host_count);
    f->end_utc_ns = expiry_of(d, root);
}

/* The condition says what stays; that of the exceptions is its opposite. */
static void turn_condition(document *d, rules_rule *rule) {
    rules_expr *not = rules_expr_new(&d->r, RULES_NOT, 1);
    not ->children[0] = rule->condition;
    rule->condition = not ;
}

static void keep_document(document *d, ea_rule_info *info) {
    size_t n = d->text_bytes;
    if (n > EA_RULES_KEPT_MAX_BYTES)
        for (n = EA_RULES_KEPT_MAX_BYTES; n && d->text[n - 1] != '\n';)
            n--;
    char *copy = rules_take(&d->r, n + 1, 1);
    if (n)
        memcpy(copy, d->text, n);
    info->text = copy;
}

/* ---- correlations ---- */

static int64_t span_of(document *d, const yaml_node_t *map, const yaml_node_t *n) {
    static const struct {
        char unit;
        uint32_t seconds;
    } UNITS[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7 * 86400}};

    uint64_t count = 0;
    if (!n)
        rules_fail(&d->r, line_of(map), rules_read_column_of(map),
                   "the correlation has no timespan: expected such as 5m");
    rules_scalar s = scalar_of(d, n, "a timespan");
    size_t digits = strspn(s.text, "0123456789");
    for (size_t i = 0; i < digits && i < 10; i++)
        count = count * 10 + (uint64_t)(s.text[i] - '0');
    for (size_t i = 0; i < sizeof UNITS / sizeof *UNITS; i++)
        if (digits && digits < 10 && s.text[digits] == UNITS[i].unit && !s.text[digits + 1] && count &&
            count * UNITS[i].seconds <= EA_RULES_SPAN_MAX_S)
            return (int64_t)(count * UNITS[i].seconds) * 1000000000;
    rules_fail(&d->r, s.line, s.column, "expected a timespan such as 30s, 5m, 1h or 7d, at most 30d");
}

static int rules_read_has_field(const ea_rule_correlation *c) {
    return c->type > EA_EVENT_COUNT && c->type < EA_TEMPORAL;
}

/* A whole number from 1 to most. */
static uint64_t rules_read_count_of(document *d, const yaml_node_t *n, uint64_t most) {
    rules_number number;
    rules_scalar s = scalar_of(d, n, "a number");
    if (!rules_number_parse(s.text, s.len_bytes, &number) || !number.is_integer || number.is_negative ||
        !number.magnitude || number.magnitude > most)
        rules_fail(&d->r, s.line, s.column, "expected a whole number from 1 to %" PRIu64, most);
    return number.magnitude;
}

/* The condition of a correlation that is not temporal: at least so much. */
static void read_threshold(document *d, ea_rule_correlation *c, const yaml_node_t *map, const yaml_node_t *n) {
    int has_number = 0;
    if (!n || n->type != YAML_MAPPING_NODE)
        rules_fail(&d->r, line_of(n ? n : map), rules_read_column_of(n ? n : map),
                   "expected a condition such as {gte: 10}");
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        rules_scalar key = rules_read_key_of(d, node_at(d, p->key));
        const yaml_node_t *value = node_at(d, p->value);
        int is_more = strcmp(key.text, "gt") == 0;
        if (strcmp(key.text, "field") == 0 && rules_read_has_field(c)) {
            c->field = scalar_of(d, value, "the name of a field").text;
        } else if (strcmp(key.text, "percentile") == 0 && c->type == EA_VALUE_PERCENTILE) {
            c->percent = (uint32_t)rules_read_count_of(d, value, 100);
        } else if (is_more || strcmp(key.text, "gte") == 0) {
            if (has_number)
                rules_fail(&d->r, key.line, key.column, "the condition has two numbers: keep one of them");
            has_number = 1;
            c->least =
                is_more && strcmp(scalar_of(d, value, "a number").text, "0") == 0
                    ? 0
                    : rules_read_count_of(
                          d, value, rules_read_has_field(c) && c->type != EA_VALUE_COUNT ? INT64_MAX : UINT32_MAX);
            c->is_above = is_more && c->type == EA_VALUE_AVG;
            c->least += (uint64_t)(is_more && !c->is_above); /* they are whole */
        } else {
            rules_refuse(&d->r, key.line, key.column, "expected gte or gt%s: other conditions are not supported",
                         c->type == EA_VALUE_PERCENTILE ? ", field and percentile"
                         : rules_read_has_field(c)      ? ", and field"
                                                        : "");
        }
    }
    if (!has_number)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n), "the condition has no gte or gt");
    if (rules_read_has_field(c) && !*c->field)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n),
                   "the condition has no field: expected such as {field: User, gte: 3}");
    if (c->type == EA_VALUE_PERCENTILE && !c->percent)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n),
                   "the condition has no percentile: expected such as {field: Size, percentile: 95, gte: 4096}");
}

/* A member that is misspelt would be missing: without group-by all machines' matches would belong together. */
static void check_correlation(document *d, const yaml_node_t *n) {
    static const char *const MEMBERS[] = {"type", "rules", "group-by", "timespan", "condition", "generate", "aliases"};
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        rules_scalar key = rules_read_key_of(d, node_at(d, p->key));
        size_t i = 0;
        while (i < sizeof MEMBERS / sizeof *MEMBERS && strcmp(MEMBERS[i], key.text) != 0)
            i++;
        if (i == sizeof MEMBERS / sizeof *MEMBERS)
            rules_fail(&d->r, key.line, key.column, "a correlation has no member \"%.80s\"", key.text);
    }
}

/* As YAML writes it; anything else would silently be false. */
static int flag_of(document *d, const yaml_node_t *n) {
    static const char *const WORDS[] = {"false", "False", "FALSE", "true", "True", "TRUE"};
    rules_scalar s = scalar_of(d, n, "true or false");
    for (int i = 0; i < 6; i++)
        if (strcmp(s.text, WORDS[i]) == 0)
            return i >= 3;
    rules_fail(&d->r, s.line, s.column, "expected true or false");
}

static void read_correlation(document *d, rules_rule *rule, const yaml_node_t *root, const yaml_node_t *n) {
    static const char *const TYPES[] = {"event_count",      "value_count", "value_sum",       "value_avg",
                                        "value_percentile", "temporal",    "temporal_ordered"};
    static const char RULES[] = "a list of rules (id, name or title)";
    ea_rule_correlation *c = rule->correlation = rules_take(&d->r, 1, sizeof *c);
    if (n->type != YAML_MAPPING_NODE)
        rules_fail(&d->r, line_of(n), rules_read_column_of(n),
                   "expected a correlation: a mapping with type, rules and timespan");
    check_correlation(d, n);
    const yaml_node_t *type = find(d, n, "type"), *other = find(d, n, "aliases"), *generate = find(d, n, "generate");
    const char *name = rules_read_text_of(d, n, "type");
    size_t i = 0;
    while (i < sizeof TYPES / sizeof *TYPES && strcmp(TYPES[i], name) != 0)
        i++;
    if (i == sizeof TYPES / sizeof *TYPES)
        rules_refuse(&d->r, line_of(type ? type : n), rules_read_column_of(type ? type : n),
                     "expected the type event_count, value_count, value_sum, value_avg, value_percentile, temporal or "
                     "temporal_ordered");
    c->type = (enum ea_correlation_type)i;
    if (other)
        rules_refuse(&d->r, line_of(other), rules_read_column_of(other), "aliases of fields are not supported");
    rule->names = texts_of(d, find(d, n, "rules"), RULES, EA_RULES_CORRELATED_MAX, &rule->name_count);
    if (rule->name_count < (c->type >= EA_TEMPORAL ? 2 : 1))
        rules_fail(&d->r, line_of(n), rules_read_column_of(n), "expected %s%s", RULES,
                   c->type >= EA_TEMPORAL ? ": two or more" : "");
    c->fields = texts_of(d, find(d, n, "group-by"), "a list of fields", EA_RULES_CORRELATED_MAX, &c->field_count);
    c->field = "";
    c->span_ns = span_of(d, n, find(d, n, "timespan"));
    other = find(d, n, "condition");
    if (c->type < EA_TEMPORAL)
        read_threshold(d, c, n, other);
    else if (other)
        rules_refuse(&d->r, line_of(other), rules_read_column_of(other),
                     "conditions of temporal correlations are not supported: all rules have to match");
    if (!generate)
        generate = find(d, root, "generate");
    c->generates = generate && flag_of(d, generate);
}

static rules_rule *read_rule(document *d, const char *file) {
    const yaml_node_t *root = yaml_document_get_root_node(&d->yaml);
    if (root->type != YAML_MAPPING_NODE)
        rules_fail(&d->r, line_of(root), rules_read_column_of(root),
                   "expected a rule: a mapping with logsource and detection");
    const yaml_node_t *other = find(d, root, "action"), *correlation = find(d, root, "correlation");
    if (other)
        rules_refuse(&d->r, line_of(other), rules_read_column_of(other),
                     "documents with an action are not supported: write one rule a document");
    const yaml_node_t *source = find(d, root, "logsource"), *detection = find(d, root, "detection");
    const yaml_node_t *filter = detection ? NULL : find(d, root, "filter");
    if (!correlation && (!source || source->type != YAML_MAPPING_NODE))
        rules_fail(&d->r, line_of(root), rules_read_column_of(root), "the rule has no logsource");
    if (filter)
        detection = filter;
    if (!correlation && (!detection || detection->type != YAML_MAPPING_NODE))
        rules_fail(&d->r, line_of(root), rules_read_column_of(root), "the rule has no detection");
    rules_rule *rule = rules_take(&d->r, 1, sizeof *rule);
    ea_rule_info *i = &rule->info;
    i->file = file;
    i->line = line_of(root);
    i->title = rules_read_text_of(d, root, "title");
    i->id = rules_read_text_of(d, root, "id");
    i->name = rules_read_text_of(d, root, "name");
    i->level = rules_read_text_of(d, root, "level");
    i->status = rules_read_text_of(d, root, "status");
    i->product = correlation ? "" : rules_read_text_of(d, source, "product");
    i->category = correlation ? "" : rules_read_text_of(d, source, "category");
    i->service = correlation ? "" : rules_read_text_of(d, source, "service");
    i->tags = texts_of(d, find(d, root, "tags"), "a list of tags", EA_RULES_TAGS_MAX, &i->tag_count);
    keep_document(d, i);
    if (correlation) {
        read_correlation(d, rule, root, correlation);
        i->fields = rules_take(&d->r, 0, sizeof *i->fields);
        return rule;
    }
    if (filter)
        read_filter(d, rule, root, filter);
    read_detection(d, rule, detection);
    if (filter)
        turn_condition(d, rule);
    const char **fields = rules_take(&d->r, i->field_count, sizeof *fields);
    for (uint32_t k = 0; k < i->field_count; k++)
        fields[k] = d->fields[k];
    i->fields = fields;
    return rule;
}

/* What finds a rule by its id afterwards, such as its detections, has one rule for it: a second one is refused. */
static void check_id(const ea_rules_builder *b, document *d, const ea_rule_info *info) {
    const rules_rule *other = *info->id ? ea_bytes_map_get(&b->by_id, info->id, strlen(info->id)) : NULL;
    if (!other)
        return;
    const yaml_node_t *id = find(d, yaml_document_get_root_node(&d->yaml), "id");
    rules_fail(&d->r, line_of(id), rules_read_column_of(id),
               "%.200s, line %" PRIu32 " has the id \"%.80s\" already: give each rule an id of its own",
               other->info.file, other->info.line, info->id);
}

/* Reads the document that is loaded. */
static int take_document(ea_rules_builder *b, document *d, const char *file) {
    if (setjmp(d->r.failed)) {
        ea_arena_deinit(d->r.arena);
        return d->r.code;
    }
    rules_rule *rule = read_rule(d, file);
    check_id(b, d, &rule->info);
    size_t used_bytes = b->used_bytes + d->r.arena->used_bytes, text_bytes = b->text_bytes + d->r.text_bytes;
    if (used_bytes > READ_MAX_BYTES || text_bytes > ALL_TEXT_MAX_BYTES)
        rules_refuse(&d->r, d->r.line, 1,
                     "the rules so far have almost %d MiB of values, or take %d MiB of memory: load fewer of them",
                     ALL_TEXT_MAX_BYTES >> 20, READ_MAX_BYTES >> 20);
    if (*rule->info.id && ea_bytes_map_put(&b->by_id, rule->info.id, strlen(rule->info.id), rule)) {
        ea_arena_deinit(d->r.arena);
        return EA_ENOMEM;
    }
    b->used_bytes = used_bytes;
    b->text_bytes = text_bytes;
    rule->memory = *d->r.arena;
    *b->last = rule;
    b->last = &rule->next;
    b->count++;
    b->filter_count += rule->filter != NULL;
    b->correlation_count += rule->correlation != NULL;
    return 0;
}

int ea_rules_builder_create(ea_rules_builder **ret) {
    ea_rules_builder *b = calloc(1, sizeof *b);
    if (!b)
        return EA_ENOMEM;
    ea_arena_init(&b->arena, READ_MAX_BYTES);
    b->last = &b->first;
    ea_bytes_map_init(&b->by_id, 0);
    *ret = b;
    return 0;
}

void ea_rules_builder_destroy(ea_rules_builder *b) {
    if (!b)
        return;
    for (rules_rule *rule = b->first; rule;) {
        ea_arena memory = rule->memory; /* the rule is in it */
        rule = rule->next;
        ea_arena_deinit(&memory);
    }
    ea_bytes_map_deinit(&b->by_id);
    ea_arena_deinit(&b->arena);
    free(b);
}

static void yaml_problem(const yaml_parser_t *parser, ea_rules_problem *p) {
    yaml_mark_t at = parser->problem_mark;
    p->line = (uint32_t)at.line + 1;
    p->column = (uint32_t)at.column + 1;
    snprintf(p->message, sizeof p->message, "the text is not YAML: %s", parser->problem ? parser->problem : "unknown");
}

/* A place in a file, by the line breaks of YAML. */
typedef struct file_place {
    size_t line, offset;
} file_place;

/* Goes on to the begin of a line, or to the end. */
static void go_to_line(file_place *at, const char *text, size_t len_bytes, size_t line) {
    while (at->line < line && at->offset < len_bytes) {
        const char *p = text + at->offset;
        size_t left = len_bytes - at->offset;
        size_t n = left > 1 && memcmp(p, "\r\n", 2) == 0                                             ? 2
                   : *p == '\n' || *p == '\r'                                                        ? 1
                   : left > 1 && memcmp(p, "\xc2\x85", 2) == 0                                       ? 2
                   : left > 2 && memcmp(p, "\xe2\x80", 2) == 0 && (p[2] == '\xa8' || p[2] == '\xa9') ? 3
                                                                                                     : 0;
        at->line += n != 0;
        at->offset += n ? n : 1;
    }
}

/* The lines of the document that is loaded, from its first node on. A file in UTF-16 has none. */
static void find_text(document *d, file_place *at, const char *text, size_t len_bytes) {
    yaml_mark_t end = d->yaml.end_mark;
    if (len_bytes > 1 && (memcmp(text, "\xff\xfe", 2) == 0 || memcmp(text, "\xfe\xff", 2) == 0))
        return;
    go_to_line(at, text, len_bytes, yaml_document_get_root_node(&d->yaml)->start_mark.line);
    d->text = text + at->offset;
    go_to_line(at, text, len_bytes, end.column ? end.line + 1 : end.line);
    d->text_bytes = (size_t)(text + at->offset - d->text);
}

int ea_rules_add(ea_rules_builder *b, const char *file, const char *text, size_t len_bytes,
                 void (*on_problem)(void *arg, const ea_rules_problem *problem), void *arg) {
    yaml_parser_t parser;
    ea_arena memory, scratch;
    char *name = ea_arena_strdup(&b->arena, file);
    document *d = calloc(1, sizeof *d);
    if (!d || !name || !yaml_parser_initialize(&parser)) {
        free(d);
        return EA_ENOMEM;
    }
    ea_arena_init(&scratch, SCRATCH_MAX_BYTES);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, len_bytes);
    file_place at = {0};
    int rc = 0, is_end = 0;
    while (!is_end && !rc) {
        ea_rules_problem problem = {.file = name};
        memset(d, 0, sizeof *d);
        ea_arena_init(&memory, EA_RULES_MEMORY_MAX_BYTES);
        d->r.arena = &memory;
        d->r.scratch = &scratch;
        d->r.problem = &problem;
        if (len_bytes > EA_RULES_FILE_MAX_BYTES) {
            problem.line = problem.column = 1;
            snprintf(problem.message, sizeof problem.message, "the file has more than %d bytes: split it",
                     EA_RULES_FILE_MAX_BYTES);
            on_problem(arg, &problem);
            break;
        }
        if (!yaml_parser_load(&parser, &d->yaml)) {
            if (parser.error == YAML_MEMORY_ERROR) {
                rc = EA_ENOMEM;
                break;
            }
            yaml_problem(&parser, &problem);
            on_problem(arg, &problem);
            break;
        }
        is_end = yaml_document_get_root_node(&d->yaml) == NULL;
        if (!is_end) {
            d->r.line = line_of(yaml_document_get_root_node(&d->yaml));
            find_text(d, &at, text, len_bytes);
            rc = take_document(b, d, name);
            if (rc == EA_EINVAL) {
                on_problem(arg, &problem);
                rc = 0;
            }
        }
        yaml_document_delete(&d->yaml);
    }
    yaml_parser_delete(&parser);
    ea_arena_deinit(&scratch);
    free(d);
    return rc;
}
