/* See group_events.h. */
#include "collector/query/analysis/group_events.h"

#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_SLOTS = 1024,
    STACK_MAX = (EC_GROUPING_STEPS_MAX + 1) / 2,
    GROUPS_MANY = 1 << 16, /* from here on a group has to have EVENTS_FEW events on average, unless they are ordered */
    EVENTS_FEW = 4,
};

/* A group in the table that finds it: the high bits of its keys' hash, and its number + 1; 0 is free. */
typedef struct slot {
    uint32_t tag, group;
} slot;

/* A value that a group has. */
typedef struct member {
    uint64_t bits;
    uint32_t type, group; /* group + 1; 0: a free place */
} member;

typedef struct members {
    member *items;
    size_t count, mask; /* items NULL: none yet */
} members;

/* A group's place in the answer, with keys that compare as numbers. */
typedef struct place {
    uint32_t group;
    uint32_t key_count;
    const ec_key *keys;
    const ec_grouping_key *of;
} place;

struct ec_grouping {
    ec_grouping_options options; /* keys and values: NULL after the run */
    ec_scan *scan;
    ec_keys interner;
    size_t count;       /* of groups */
    ec_key *group_keys; /* [group][key] */
    size_t group_keys_capacity;
    uint64_t *events; /* [group] */
    size_t events_capacity;
    ec_measure *measures; /* [group][value] */
    size_t measures_capacity;
    slot *slots;
    size_t mask;
    members members[EC_GROUPING_VALUES_MAX];
    ec_bucket buckets[EC_GROUPING_KEYS_MAX];
    ec_key *keys[EC_GROUPING_KEYS_MAX]; /* of a block's selected events */
    size_t keys_capacity[EC_GROUPING_KEYS_MAX];
    uint32_t *group_of; /* likewise */
    size_t group_of_capacity;
    int64_t *numbers; /* likewise: of the column of values at hand */
    size_t numbers_capacity;
    ec_key *value_keys;
    size_t value_keys_capacity;
    ec_key *stack[STACK_MAX]; /* likewise: of steps */
    size_t stack_capacity[STACK_MAX];
    uint64_t event_count; /* of all groups */
    uint32_t *order;      /* the answer: groups in the order of their keys */
};

static int grouping_no_memory(ea_err *err) {
    return ea_fail(err, EA_ENOMEM, "group events");
}

int ec_grouping_takes(const ec_table_schema *shape, size_t column) {
    return shape->columns[column].kind != EC_KIND_REAL && shape->columns[column].kind != EC_KIND_ANY;
}

int ec_grouping_is_computed(const ec_grouping_key *key) {
    return key->width_ns > 0 || key->step_count > 0;
}

int ec_grouping_is_same_key(const ec_grouping_key *a, const ec_grouping_key *b) {
    if (a->column != b->column || a->width_ns != b->width_ns || a->step_count != b->step_count)
        return 0;
    for (size_t i = 0; i < a->step_count; i++)
        if (a->steps[i].what != b->steps[i].what || a->steps[i].number != b->steps[i].number)
            return 0;
    return 1;
}

/* ---- finding groups ---- */

static uint64_t grouping_mix(uint64_t h, const ec_key *k) {
    h = (h ^ (k->bits + k->type)) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static uint64_t grouping_hash(const ec_key *keys, size_t count) {
    uint64_t h = 0x243F6A8885A308D3u;
    for (size_t i = 0; i < count; i++)
        h = grouping_mix(h, &keys[i]);
    return h;
}

static int grouping_is_same(const ec_key *a, const ec_key *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (a[i].bits != b[i].bits || a[i].type != b[i].type)
            return 0;
    return 1;
}

static int grow_slots(ec_grouping *g) {
    size_t n = g->slots ? 2 * (g->mask + 1) : FIRST_SLOTS, keys = g->options.key_count;
    slot *slots = calloc(n, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    free(g->slots);
    g->slots = slots;
    g->mask = n - 1;
    for (size_t i = 0; i < g->count; i++) {
        uint64_t h = grouping_hash(g->group_keys + i * keys, keys);
        size_t at = h & g->mask;
        while (slots[at].group)
            at = (at + 1) & g->mask;
        slots[at] = (slot){(uint32_t)(h >> 32), (uint32_t)i + 1};
    }
    return 0;
}

static int add_group(ec_grouping *g, const ec_key *keys, ea_err *err) {
    size_t n = g->options.key_count, values = g->options.value_count;
    if (g->count >= UINT32_MAX - 1)
        return ea_fail(err, EA_ELIMIT, "group events: there are more than %zu groups", g->count);
    if (EA_GROW(g->group_keys, g->group_keys_capacity, (g->count + 1) * n, SIZE_MAX) ||
        EA_GROW(g->events, g->events_capacity, g->count + 1, SIZE_MAX) ||
        EA_GROW(g->measures, g->measures_capacity, (g->count + 1) * values, SIZE_MAX))
        return grouping_no_memory(err);
    if (n && keys)
        memcpy(g->group_keys + g->count * n, keys, n * sizeof *keys);
    if (values)
        memset(g->measures + g->count * values, 0, values * sizeof *g->measures);
    g->events[g->count++] = 0;
    return 0;
}

static int find_group(ec_grouping *g, const ec_key *keys, uint32_t *ret, ea_err *err) {
    size_t n = g->options.key_count;
    uint64_t h = grouping_hash(keys, n);
    uint32_t tag = (uint32_t)(h >> 32);
    if ((!g->slots || 2 * g->count > g->mask) && grow_slots(g))
        return grouping_no_memory(err);
    size_t at = h & g->mask;
    for (; g->slots[at].group; at = (at + 1) & g->mask)
        if (g->slots[at].tag == tag &&
            grouping_is_same(g->group_keys + (size_t)(g->slots[at].group - 1) * n, keys, n)) {
            *ret = g->slots[at].group - 1;
            return 0;
        }
    int rc = add_group(g, keys, err);
    if (rc)
        return rc;
    *ret = (uint32_t)g->count - 1;
    g->slots[at] = (slot){tag, (uint32_t)g->count};
    return 0;
}

/* ---- keys of a block ---- */

static int64_t round_down(int64_t v, int64_t width) {
    int64_t rest = v % width;
    if (rest < 0)
        rest += width;
    return v < INT64_MIN + rest ? INT64_MIN : v - rest;
}

/* a what b, as SQL computes whole numbers: 1; 0 when SQL's result is a real. */
static int compute(enum ec_step_what what, int64_t a, int64_t b, ec_key *ret) {
    int64_t v = 0;
    int is_real = 0;
    *ret = (ec_key){.type = EC_INT};
    switch (what) {
    case EC_STEP_ADD:
        is_real = __builtin_add_overflow(a, b, &v);
        break;
    case EC_STEP_SUBTRACT:
        is_real = __builtin_sub_overflow(a, b, &v);
        break;
    case EC_STEP_MULTIPLY:
        is_real = __builtin_mul_overflow(a, b, &v);
        break;
    case EC_STEP_DIVIDE:
        ret->type = b == 0 ? EC_NULL : EC_INT;
        is_real = b == -1 && a == INT64_MIN;
        v = b == 0 || is_real ? 0 : a / b;
        break;
    default:
        ret->type = b == 0 ? EC_NULL : EC_INT;
        v = b == 0 || b == -1 ? 0 : a % b;
    }
    ret->bits = (uint64_t)v;
    return !is_real;
}

/* A column's values as whole numbers or NULL; EA_EUSAGE when another one is among them. */
static int take_numbers(ec_grouping *g, size_t column, const ec_block *b, ec_key *to, ea_err *err) {
    if (g->interner.shape->columns[column].common == EC_TIME) {
        for (uint32_t i = 0; i < b->selected_count; i++)
            to[i] = (ec_key){.bits = (uint64_t)ec_scan_utc_ns(g->scan, b->rows[b->selected[i]]), .type = EC_INT};
        return 0;
    }
    int rc = ec_keys_take(&g->interner, column, b, to, err);
    for (uint32_t i = 0; !rc && i < b->selected_count; i++)
        if (to[i].type != EC_INT && to[i].type != EC_NULL)
            rc = ea_fail(err, EA_EUSAGE, "group events: a value is no whole number");
    return rc;
}

/* One step on the stack, whose top is below depth. */
static int take_step(ec_grouping *g, const ec_grouping_step *step, size_t *depth, const ec_block *b, ea_err *err) {
    uint32_t n = b->selected_count;
    if (step->what == EC_STEP_COLUMN || step->what == EC_STEP_NUMBER) {
        size_t top = (*depth)++;
        if (top >= STACK_MAX)
            return ea_fail(err, EA_EUSAGE, "group events: an expression is too deep");
        if (EA_GROW(g->stack[top], g->stack_capacity[top], n, SIZE_MAX))
            return grouping_no_memory(err);
        if (step->what == EC_STEP_COLUMN)
            return take_numbers(g, (size_t)step->number, b, g->stack[top], err);
        for (uint32_t i = 0; i < n; i++)
            g->stack[top][i] = (ec_key){.bits = (uint64_t)step->number, .type = EC_INT};
        return 0;
    }
    if (*depth < 2)
        return ea_fail(err, EA_EUSAGE, "group events: an operator lacks a value");
    ec_key *left = g->stack[*depth - 2];
    const ec_key *right = g->stack[*depth - 1];
    (*depth)--;
    for (uint32_t i = 0; i < n; i++) {
        if (left[i].type == EC_NULL || right[i].type == EC_NULL)
            left[i] = (ec_key){.type = EC_NULL};
        else if (!compute(step->what, (int64_t)left[i].bits, (int64_t)right[i].bits, &left[i]))
            return ea_fail(err, EA_EUSAGE, "group events: a value is no whole number of 64 bits");
    }
    return 0;
}

static int take_steps(ec_grouping *g, const ec_grouping_key *k, const ec_block *b, ec_key *to, ea_err *err) {
    size_t depth = 0;
    int rc = 0;
    for (size_t i = 0; !rc && i < k->step_count; i++)
        rc = take_step(g, &k->steps[i], &depth, b, err);
    if (!rc && depth != 1)
        rc = ea_fail(err, EA_EUSAGE, "group events: steps are no expression");
    if (!rc)
        memcpy(to, g->stack[0], b->selected_count * sizeof *to);
    return rc;
}

static int grouping_take_keys(ec_grouping *g, size_t which, const ec_block *b, ea_err *err) {
    const ec_grouping_key *k = &g->options.keys[which];
    if (EA_GROW(g->keys[which], g->keys_capacity[which], b->selected_count, SIZE_MAX))
        return grouping_no_memory(err);
    ec_key *to = g->keys[which];
    if (k->step_count)
        return take_steps(g, k, b, to, err);
    if (k->width_ns && g->interner.shape->columns[k->column].common == EC_TIME) {
        g->buckets[which].is_known = 0;
        for (uint32_t i = 0; i < b->selected_count; i++)
            to[i] = (ec_key){
                .bits = (uint64_t)ec_bucket_of(&g->buckets[which], &g->interner, b, k->width_ns, b->selected[i]),
                .type = EC_INT};
        return 0;
    }
    int rc = ec_keys_take(&g->interner, k->column, b, to, err);
    for (uint32_t i = 0; !rc && k->width_ns && i < b->selected_count; i++)
        if (to[i].type == EC_INT)
            to[i].bits = (uint64_t)round_down((int64_t)to[i].bits, k->width_ns);
    return rc;
}

/* The number of the group of each selected event, and how many events each has. */
static int find_groups(ec_grouping *g, const ec_block *b, ea_err *err) {
    size_t n = g->options.key_count;
    ec_key keys[EC_GROUPING_KEYS_MAX] = {0}, last[EC_GROUPING_KEYS_MAX] = {0};
    uint32_t group = 0;
    int rc = 0, has_last = 0;
    if (EA_GROW(g->group_of, g->group_of_capacity, b->selected_count, SIZE_MAX))
        return grouping_no_memory(err);
    if (n == 0) {
        memset(g->group_of, 0, b->selected_count * sizeof *g->group_of);
        g->events[0] += b->selected_count;
        return 0;
    }
    for (size_t k = 0; !rc && k < n; k++)
        rc = grouping_take_keys(g, k, b, err);
    for (uint32_t i = 0; !rc && i < b->selected_count; i++) {
        for (size_t k = 0; k < n; k++)
            keys[k] = g->keys[k][i];
        if (!has_last || !grouping_is_same(keys, last, n)) {
            rc = find_group(g, keys, &group, err);
            memcpy(last, keys, n * sizeof *keys);
            has_last = 1;
            if (rc)
                return rc;
        }
        g->group_of[i] = group;
        g->events[group]++;
    }
    return rc;
}

/* ---- values of a block ---- */

static uint64_t absolute(int64_t v) {
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

static void add_number(ec_measure *m, int64_t v) {
    uint64_t sum = (uint64_t)m->sum + (uint64_t)v, magnitude = m->magnitude + absolute(v);
    m->sum = (int64_t)sum;
    m->magnitude = magnitude < m->magnitude ? UINT64_MAX : magnitude;
    if (!m->count++) {
        m->least = m->greatest = (ec_key){.bits = (uint64_t)v, .type = EC_INT};
        return;
    }
    if (v < (int64_t)m->least.bits)
        m->least.bits = (uint64_t)v;
    if (v > (int64_t)m->greatest.bits)
        m->greatest.bits = (uint64_t)v;
}

/* SQL's order of values of different types. */
static int rank_of(uint32_t type) {
    switch (type) {
    case EC_NULL:
        return 0;
    case EC_INT:
    case EC_REAL:
        return 1;
    case EC_TEXT:
        return 2;
    default:
        return 3;
    }
}

static int compare_texts(const ec_key_text *a, const ec_key_text *b) {
    size_t n = a->len_bytes < b->len_bytes ? a->len_bytes : b->len_bytes;
    int order = n ? memcmp(a->data, b->data, n) : 0;
    return order ? order : (a->len_bytes > b->len_bytes) - (a->len_bytes < b->len_bytes);
}

static int grouping_is_less(const ec_grouping *g, const ec_key *a, const ec_key *b) {
    if (rank_of(a->type) != rank_of(b->type))
        return rank_of(a->type) < rank_of(b->type);
    if (a->type == EC_INT)
        return (int64_t)a->bits < (int64_t)b->bits;
    return a->type != EC_NULL && a->bits != b->bits &&
           compare_texts(&g->interner.texts[a->bits], &g->interner.texts[b->bits]) < 0;
}

static void add_extreme(const ec_grouping *g, ec_measure *m, const ec_key *k) {
    if (!m->count++) {
        m->least = m->greatest = *k;
        return;
    }
    if (grouping_is_less(g, k, &m->least))
        m->least = *k;
    if (grouping_is_less(g, &m->greatest, k))
        m->greatest = *k;
}

static member *find_member(const members *of, const ec_key *k, uint32_t group) {
    ec_key both = {.bits = k->bits ^ (uint64_t)group << 40 ^ group, .type = k->type};
    size_t at = grouping_mix(0x13198A2E03707344u, &both) & of->mask;
    member *m = &of->items[at];
    while (m->group && (m->bits != k->bits || m->type != k->type || m->group != group + 1)) {
        at = (at + 1) & of->mask;
        m = &of->items[at];
    }
    return m;
}

static int grow_members(members *of) {
    size_t n = of->items ? 2 * (of->mask + 1) : FIRST_SLOTS;
    members bigger = {.items = calloc(n, sizeof *bigger.items), .count = of->count, .mask = n - 1};
    if (!bigger.items)
        return EA_ENOMEM;
    for (size_t i = 0; of->items && i <= of->mask; i++)
        if (of->items[i].group)
            *find_member(&bigger, &(ec_key){.bits = of->items[i].bits, .type = of->items[i].type},
                         of->items[i].group - 1) = of->items[i];
    free(of->items);
    *of = bigger;
    return 0;
}

static int add_member(members *of, ec_measure *m, const ec_key *k, uint32_t group) {
    if ((!of->items || 2 * of->count > of->mask) && grow_members(of))
        return EA_ENOMEM;
    member *at = find_member(of, k, group);
    if (at->group)
        return 0;
    *at = (member){.bits = k->bits, .type = k->type, .group = group + 1};
    of->count++;
    m->count++;
    return 0;
}

static int add_keys(ec_grouping *g, size_t which, const ec_block *b, ea_err *err) {
    const ec_grouping_value *v = &g->options.values[which];
    size_t values = g->options.value_count;
    if (EA_GROW(g->value_keys, g->value_keys_capacity, b->selected_count, SIZE_MAX))
        return grouping_no_memory(err);
    int rc = ec_keys_take(&g->interner, v->column, b, g->value_keys, err);
    for (uint32_t i = 0; !rc && i < b->selected_count; i++) {
        const ec_key *k = &g->value_keys[i];
        uint32_t group = g->group_of[i];
        ec_measure *m = &g->measures[group * values + which];
        if (k->type == EC_NULL)
            continue;
        if (v->what == EC_GROUPING_EXTREMES) {
            add_extreme(g, m, k);
        } else if (v->what == EC_GROUPING_DISTINCT) {
            rc = add_member(&g->members[which], m, k, group) ? grouping_no_memory(err) : 0;
        } else if (k->type == EC_INT) {
            add_number(m, (int64_t)k->bits);
        } else {
            m->count++;
            m->has_other = 1;
        }
    }
    return rc;
}

static int add_values(ec_grouping *g, size_t which, const ec_block *b, ea_err *err) {
    size_t values = g->options.value_count;
    int all_null = 0;
    if (g->options.values[which].what != EC_GROUPING_NUMBERS)
        return add_keys(g, which, b, err);
    if (EA_GROW(g->numbers, g->numbers_capacity, b->selected_count, SIZE_MAX))
        return grouping_no_memory(err);
    int rc = ec_keys_numbers(&g->interner, g->options.values[which].column, b, g->numbers, &all_null, err);
    if (rc < 0 || all_null)
        return rc < 0 ? rc : 0;
    if (!rc)
        return add_keys(g, which, b, err);
    for (uint32_t i = 0; i < b->selected_count; i++)
        add_number(&g->measures[g->group_of[i] * values + which], g->numbers[i]);
    return 0;
}

static size_t memory_of(const ec_grouping *g) {
    enum { TEXT_BYTES = 64 }; /* of an interned text's place in the table and the list */

    size_t n = g->group_keys_capacity * sizeof *g->group_keys + g->events_capacity * sizeof *g->events +
               g->measures_capacity * sizeof *g->measures + (g->slots ? g->mask + 1 : 0) * sizeof *g->slots +
               g->interner.arena.used_bytes + g->interner.text_count * TEXT_BYTES;
    for (size_t i = 0; i < g->options.value_count; i++)
        n += g->members[i].items ? (g->members[i].mask + 1) * sizeof(member) : 0;
    return n;
}

static int grouping_add_block(ec_grouping *g, const ec_block *b, ea_err *err) {
    int rc = find_groups(g, b, err);
    for (size_t i = 0; !rc && i < g->options.value_count; i++)
        rc = add_values(g, i, b, err);
    if (!rc && memory_of(g) > g->options.limit_bytes)
        return ea_fail(err, EA_ELIMIT, "group events: %zu groups need more than %zu bytes", g->count,
                       g->options.limit_bytes);
    g->event_count += b->selected_count;
    if (!rc && g->options.is_unordered && g->count > GROUPS_MANY && g->event_count / EVENTS_FEW < g->count)
        return ea_fail(err, EA_ELIMIT, "group events: there are %zu groups", g->count);
    return rc;
}

/* ---- the answer ---- */

static int compare_text_places(const void *x, const void *y) {
    return compare_texts(*(const ec_key_text *const *)x, *(const ec_key_text *const *)y);
}

static int grouping_compare(const void *x, const void *y) {
    const place *a = x, *b = y;
    for (uint32_t i = 0; i < a->key_count; i++) {
        int order = (a->keys[i].type > b->keys[i].type) - (a->keys[i].type < b->keys[i].type);
        if (!order)
            order = (a->keys[i].bits > b->keys[i].bits) - (a->keys[i].bits < b->keys[i].bits);
        if (order)
            return a->of[i].is_descending ? -order : order;
    }
    return (a->group > b->group) - (a->group < b->group);
}

/* The place of each interned text among all of them; NULL: there is no memory. */
static uint64_t *rank_texts(const ec_grouping *g) {
    size_t n = g->interner.text_count;
    const ec_key_text **sorted = malloc((n + 1) * sizeof *sorted);
    uint64_t *ranks = malloc((n + 1) * sizeof *ranks);
    for (size_t i = 0; sorted && i < n; i++)
        sorted[i] = &g->interner.texts[i];
    if (sorted && ranks && n)
        qsort(sorted, n, sizeof *sorted, compare_text_places);
    for (size_t i = 0; sorted && ranks && i < n; i++)
        ranks[sorted[i] - g->interner.texts] = i;
    if (!sorted) {
        free(ranks);
        ranks = NULL;
    }
    free(sorted);
    return ranks;
}

static int leave_groups(ec_grouping *g, ea_err *err) {
    g->order = malloc((g->count + 1) * sizeof *g->order);
    if (!g->order)
        return grouping_no_memory(err);
    for (size_t i = 0; i < g->count; i++)
        g->order[i] = (uint32_t)i;
    return 0;
}

static int sort_groups(ec_grouping *g, ea_err *err) {
    size_t n = g->options.key_count;
    uint64_t *ranks = rank_texts(g);
    ec_key *keys = malloc((g->count * n + 1) * sizeof *keys);
    place *places = malloc((g->count + 1) * sizeof *places);
    g->order = malloc((g->count + 1) * sizeof *g->order);
    int rc = ranks && keys && places && g->order ? 0 : grouping_no_memory(err);
    for (size_t i = 0; !rc && i < g->count; i++) {
        for (size_t k = 0; k < n; k++) {
            const ec_key *from = &g->group_keys[i * n + k];
            keys[i * n + k] = (ec_key){.bits = from->type == EC_INT    ? from->bits ^ (uint64_t)1 << 63
                                               : from->type == EC_NULL ? 0
                                                                       : ranks[from->bits],
                                       .type = (uint32_t)rank_of(from->type)};
        }
        places[i] =
            (place){.group = (uint32_t)i, .key_count = (uint32_t)n, .keys = keys + i * n, .of = g->options.keys};
    }
    if (!rc) {
        qsort(places, g->count, sizeof *places, grouping_compare);
        for (size_t i = 0; i < g->count; i++)
            g->order[i] = places[i].group;
    }
    free(ranks);
    free(keys);
    free(places);
    return rc;
}

/* Reals have no place in the order of keys here. */
static int is_possible(const ec_table_schema *shape, const ec_grouping_options *o) {
    if (o->key_count > EC_GROUPING_KEYS_MAX || o->value_count > EC_GROUPING_VALUES_MAX)
        return 0;
    for (size_t i = 0; i < o->key_count; i++)
        if (!ec_grouping_takes(shape, o->keys[i].column))
            return 0;
    for (size_t i = 0; i < o->value_count; i++)
        if (!ec_grouping_takes(shape, o->values[i].column))
            return 0;
    return 1;
}

int ec_grouping_run(ec_grouping **ret, ec_archive *archive, const ec_table_schema *shape,
                    const ec_grouping_options *options, ea_err *err) {
    for (size_t i = 0; i < options->condition_count; i++)
        if (!ec_condition_is_exact(shape, &options->conditions[i]))
            return ea_fail(err, EA_EUSAGE, "group events: %s is compared with something that its column never is",
                           shape->columns[options->conditions[i].column].name);
    if (!is_possible(shape, options))
        return ea_fail(err, EA_EUSAGE, "group events: too many columns, or one that may hold reals");
    ec_grouping *g = calloc(1, sizeof *g);
    if (!g)
        return grouping_no_memory(err);
    g->options = *options;
    ec_keys_init(&g->interner, shape);
    const ec_block *block = NULL;
    int rc = options->key_count ? 0 : add_group(g, NULL, err);
    if (!rc)
        rc = ec_scan_open(&g->scan, archive, shape, options->annotator, options->conditions, options->condition_count,
                          err);
    if (!rc)
        ec_scan_set_filter(g->scan, options->filter);
    g->interner.scan = g->scan;
    while (!rc && (rc = ec_scan_next(g->scan, &block, err)) == 1)
        rc = grouping_add_block(g, block, err);
    if (!rc)
        rc = options->is_unordered ? leave_groups(g, err) : sort_groups(g, err);
    ec_scan_close(g->scan);
    g->scan = g->interner.scan = NULL;
    g->options.keys = NULL;
    g->options.values = NULL;
    g->options.conditions = NULL;
    g->options.filter = NULL;
    if (rc) {
        ec_grouping_destroy(g);
        return rc;
    }
    *ret = g;
    return 0;
}

void ec_grouping_destroy(ec_grouping *g) {
    if (!g)
        return;
    ec_scan_close(g->scan);
    ec_keys_deinit(&g->interner);
    for (size_t i = 0; i < EC_GROUPING_KEYS_MAX; i++)
        free(g->keys[i]);
    for (size_t i = 0; i < EC_GROUPING_VALUES_MAX; i++)
        free(g->members[i].items);
    for (size_t i = 0; i < STACK_MAX; i++)
        free(g->stack[i]);
    free(g->group_keys);
    free(g->events);
    free(g->measures);
    free(g->slots);
    free(g->group_of);
    free(g->numbers);
    free(g->value_keys);
    free(g->order);
    free(g);
}

size_t ec_grouping_count(const ec_grouping *g) {
    return g->count;
}

void ec_grouping_key_value(const ec_grouping *g, size_t at, size_t which, ec_value *ret) {
    ec_keys_value(&g->interner, &g->group_keys[g->order[at] * g->options.key_count + which], ret);
}

uint64_t ec_grouping_events(const ec_grouping *g, size_t at) {
    return g->events[g->order[at]];
}

const ec_measure *ec_grouping_measure(const ec_grouping *g, size_t at, size_t which) {
    return &g->measures[g->order[at] * g->options.value_count + which];
}

void ec_grouping_value_of(const ec_grouping *g, const ec_key *key, ec_value *ret) {
    ec_keys_value(&g->interner, key, ret);
}
