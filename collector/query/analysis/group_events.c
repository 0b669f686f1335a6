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
    CODES_MAX = 1 << 16, /* of a block */
    CODES_FEW = 1 << 10,
    CODES_AN_EVENT = 8,
    CODE_FAILURES = 8,
    LOCALS_BITS = 10,
    LOCALS_SLOTS = 1 << LOCALS_BITS,
    LOCALS_MAX = LOCALS_SLOTS / 4, /* distinct numbers of a block that have codes */
    MEMO_BITS = 12,
    MEMO_SIZE = 1 << MEMO_BITS,
};

#define SPREAD UINT64_C(0x9E3779B97F4A7C15)

/* A group in the table that finds it: the high bits of its keys' hash, and its number + 1; 0 is free. */
typedef struct slot {
    uint32_t tag, group;
} slot;

/* A number of a block's column and its code. */
typedef struct local {
    int64_t value;
    uint32_t block, code; /* of another block than the one at hand: free */
} local;

/* What a key's values in a block are found by: small numbers, one for each distinct value of the block. */
typedef struct coded {
    enum { OF_CONSTANT, OF_THREADS, OF_DICTIONARY, OF_NUMBERS } what;

    ec_key constant;
    const uint32_t *ids;   /* OF_THREADS: of the threads */
    ea_column values;      /* OF_DICTIONARY */
    const uint32_t *index; /* likewise */
    int64_t *numbers;      /* OF_NUMBERS: of the selected events */
    size_t numbers_capacity;
    local *locals; /* likewise */
    uint32_t block;
} coded;

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
    coded coded[EC_GROUPING_KEYS_MAX];
    uint32_t *codes; /* of a block's selected events: of all their keys */
    size_t codes_capacity;
    uint32_t codes_max;      /* of the block: more cost more than they save */
    int can_code;            /* the keys are such that a block may have codes */
    int code_failures;       /* blocks without codes since the last one that had some */
    uint32_t *group_by_code; /* of the block: a group + 1 */
    size_t group_by_code_capacity;
    int64_t *memo_of;     /* of one key of numbers: [MEMO_SIZE] */
    uint32_t *memo_group; /* likewise: a group + 1 */
    int64_t *numbers;     /* likewise: of the column of values at hand */
    size_t numbers_capacity;
    ec_key *value_keys;
    size_t value_keys_capacity;
    ec_key *stack[STACK_MAX]; /* likewise: of steps */
    size_t stack_capacity[STACK_MAX];
    uint64_t event_count;  /* of all groups */
    int has_constant_keys; /* all events of a block are of one group */
    int has_batch_keys;    /* all events of a batch are; with has_constant_keys alone */
    int has_times;         /* least or greatest of time is asked for */
    int has_time_buckets;  /* a key is a bucket of time: a block may be of one, which is known when it is at hand */
    uint32_t *order;       /* the answer: groups in the order of their keys */
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

/* Least and greatest of the column time. */
static int is_time(const ec_grouping *g, size_t value) {
    const ec_grouping_value *v = &g->options.values[value];
    return v->what == EC_GROUPING_EXTREMES && !ec_grouping_is_computed(&v->of) &&
           g->interner.shape->columns[v->of.column].common == EC_TIME;
}

static int is_time_bucket(const ec_grouping *g, const ec_grouping_key *k) {
    return k->width_ns > 0 && !k->step_count && g->interner.shape->columns[k->column].common == EC_TIME;
}

/* Whether the numbers of events in a block's directory, and its times, do: which blocks need no event. */
static int can_count(ec_grouping *g) {
    const ec_table_schema *shape = g->interner.shape;
    int can = 1, can_keys = 1;
    g->has_constant_keys = g->has_batch_keys = g->can_code = 1;
    for (size_t i = 0; i < g->options.key_count; i++) {
        const ec_grouping_key *k = &g->options.keys[i];
        int common = shape->columns[k->column].common;
        int is_constant = !ec_grouping_is_computed(k) && ec_scan_is_constant(shape, k->column);
        g->has_constant_keys &= is_constant;
        g->has_time_buckets |= is_time_bucket(g, k);
        can_keys &= is_constant || is_time_bucket(g, k);
        g->can_code &= is_constant || (!ec_grouping_is_computed(k) &&
                                       (common == EC_PID || common == EC_TID || common == EC_CPU ||
                                        (common == EC_COMMON_COUNT && !shape->columns[k->column].is_name)));
        g->has_batch_keys &= common == EC_HOST || common == EC_STREAM || common == EC_BATCH;
    }
    for (size_t i = 0; i < g->options.value_count; i++) {
        const ec_grouping_key *of = &g->options.values[i].of;
        g->has_times |= is_time(g, i);
        can &= is_time(g, i) || (!ec_grouping_is_computed(of) && ec_scan_is_constant(shape, of->column));
    }
    return can && can_keys;
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

static int group_events_grow_slots(ec_grouping *g) {
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

static int group_events_find_group(ec_grouping *g, const ec_key *keys, uint32_t *ret, ea_err *err) {
    size_t n = g->options.key_count;
    uint64_t h = grouping_hash(keys, n);
    uint32_t tag = (uint32_t)(h >> 32);
    if ((!g->slots || 2 * g->count > g->mask) && group_events_grow_slots(g))
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

/* n of time / n; 0: the key is another one. */
static int64_t time_divisor(const ec_grouping *g, const ec_grouping_key *k) {
    const ec_grouping_step *s = k->steps;
    return k->step_count == 3 && s[0].what == EC_STEP_COLUMN && s[1].what == EC_STEP_NUMBER &&
                   s[2].what == EC_STEP_DIVIDE && s[1].number > 0 &&
                   g->interner.shape->columns[s[0].number].common == EC_TIME
               ? s[1].number
               : 0;
}

/* time / width: once a bucket of that width. 1; 0 when a time is below 0, where SQL rounds up. */
static int take_quotients(ec_grouping *g, int64_t width, ec_bucket *bucket, const ec_block *b, ec_key *to) {
    int64_t last = INT64_MIN, quotient = 0;
    bucket->is_known = 0;
    for (uint32_t i = 0; i < b->selected_count; i++) {
        int64_t begin = ec_bucket_of(bucket, &g->interner, b, width, b->selected[i]);
        if (begin < 0)
            return 0;
        quotient = begin == last ? quotient : begin / width;
        last = begin;
        to[i] = (ec_key){.bits = (uint64_t)quotient, .type = EC_INT};
    }
    return 1;
}

/* The values of a column, or of what is computed out of columns. bucket: of the last one of times. */
static int grouping_take(ec_grouping *g, const ec_grouping_key *k, ec_bucket *bucket, const ec_block *b, ec_key *to,
                         ea_err *err) {
    int64_t divisor = time_divisor(g, k);
    if (divisor && take_quotients(g, divisor, bucket, b, to))
        return 0;
    if (k->step_count)
        return take_steps(g, k, b, to, err);
    if (k->width_ns && g->interner.shape->columns[k->column].common == EC_TIME) {
        bucket->is_known = 0;
        for (uint32_t i = 0; i < b->selected_count; i++)
            to[i] = (ec_key){.bits = (uint64_t)ec_bucket_of(bucket, &g->interner, b, k->width_ns, b->selected[i]),
                             .type = EC_INT};
        return 0;
    }
    int rc = ec_keys_take(&g->interner, k->column, b, to, err);
    for (uint32_t i = 0; !rc && k->width_ns && i < b->selected_count; i++)
        if (to[i].type == EC_INT)
            to[i].bits = (uint64_t)round_down((int64_t)to[i].bits, k->width_ns);
    return rc;
}

static int grouping_take_keys(ec_grouping *g, size_t which, const ec_block *b, ea_err *err) {
    if (EA_GROW(g->keys[which], g->keys_capacity[which], b->selected_count, SIZE_MAX))
        return grouping_no_memory(err);
    return grouping_take(g, &g->options.keys[which], &g->buckets[which], b, g->keys[which], err);
}

/* Whether all events of the batch at hand are of one bucket of each key that is a bucket of time. */
static int has_one_bucket(const ec_grouping *g) {
    int64_t begin, end;
    if (!ec_scan_bounds(g->scan, &begin, &end))
        return 0;
    for (size_t k = 0; k < g->options.key_count; k++) {
        int64_t width = g->options.keys[k].width_ns;
        if (is_time_bucket(g, &g->options.keys[k]) && round_down(begin, width) != round_down(end, width))
            return 0;
    }
    return 1;
}

/* The group of all events of a block, whose keys are constant, or buckets of time of which the block has one. */
static int find_one_group(ec_grouping *g, const ec_block *b, uint32_t *ret, ea_err *err) {
    ec_key keys[EC_GROUPING_KEYS_MAX] = {0};
    int64_t begin, end;
    int rc = 0;
    *ret = 0;
    for (size_t k = 0; !rc && k < g->options.key_count; k++)
        if (is_time_bucket(g, &g->options.keys[k]) && ec_scan_bounds(g->scan, &begin, &end))
            keys[k] = (ec_key){.bits = (uint64_t)round_down(begin, g->options.keys[k].width_ns), .type = EC_INT};
        else
            rc = ec_keys_constant(&g->interner, g->options.keys[k].column, b, &keys[k], err);
    if (!rc && g->options.key_count)
        rc = group_events_find_group(g, keys, ret, err);
    if (!rc)
        g->events[*ret] += b->selected_count;
    return rc;
}

/* ---- codes of a block ---- */

/* Adds stride times the code of each number to the codes: 1 and how many codes there are, 0 when there are too many. */
static int code_numbers(ec_grouping *g, coded *c, const ec_block *b, uint32_t stride, uint32_t *ret_count,
                        ea_err *err) {
    uint32_t count = 0, most = g->codes_max / stride;
    if (!c->locals && !(c->locals = calloc(LOCALS_SLOTS, sizeof *c->locals)))
        return grouping_no_memory(err);
    most = most < LOCALS_MAX ? most : LOCALS_MAX;
    c->block++;
    for (uint32_t i = 0; i < b->selected_count; i++) {
        int64_t v = c->numbers[i];
        size_t at = (size_t)(((uint64_t)v * SPREAD) >> (64 - LOCALS_BITS));
        while (c->locals[at].block == c->block && c->locals[at].value != v)
            at = (at + 1) & (LOCALS_SLOTS - 1);
        if (c->locals[at].block != c->block) {
            if (count == most)
                return 0;
            c->locals[at] = (local){.value = v, .block = c->block, .code = count++};
        }
        g->codes[i] += stride * c->locals[at].code;
    }
    *ret_count = count;
    return 1;
}

static int code_by_index(ec_grouping *g, const ec_block *b, const uint32_t *index, const uint32_t *of, uint32_t count,
                         uint32_t stride) {
    if (count > g->codes_max / stride)
        return 0;
    for (uint32_t i = 0; i < b->selected_count; i++) {
        uint32_t row = b->selected[i];
        g->codes[i] += stride * index[of ? of[row] : row];
    }
    return 1;
}

/* The numbers of a column: 1, 0 when it has others or none. A column that no event has is constant. */
static int numbers_of(ec_grouping *g, coded *c, size_t column, const ec_block *b, ea_err *err) {
    int all_null = 0;
    if (EA_GROW(c->numbers, c->numbers_capacity, b->selected_count, SIZE_MAX))
        return grouping_no_memory(err);
    if (g->interner.shape->columns[column].common == EC_CPU) {
        for (uint32_t i = 0; i < b->selected_count; i++)
            c->numbers[i] = b->events->cpu[b->rows[b->selected[i]]];
        return 1;
    }
    int rc = ec_keys_numbers(&g->interner, column, b, c->numbers, &all_null, err);
    c->what = all_null ? OF_CONSTANT : OF_NUMBERS;
    c->constant = (ec_key){.type = EC_NULL};
    return rc < 0 ? rc : rc == 1 || all_null;
}

/* Adds stride times the code of each selected event's key to the codes: 1 and the number of codes; 0 when the key has
 * none, or too many. is_again: an earlier key has the codes of the threads. */
static int code_key(ec_grouping *g, size_t which, const ec_block *b, uint32_t stride, int is_again, uint32_t *ret_count,
                    ea_err *err) {
    const ec_grouping_key *k = &g->options.keys[which];
    const ec_column *column = &g->interner.shape->columns[k->column];
    coded *c = &g->coded[which];
    int rc;
    *ret_count = 1;
    if (ec_scan_is_constant(g->interner.shape, k->column)) {
        c->what = OF_CONSTANT;
        rc = ec_keys_constant(&g->interner, k->column, b, &c->constant, err);
        return rc ? rc : 1;
    }
    if (column->common == EC_PID || column->common == EC_TID) {
        c->what = OF_THREADS;
        c->ids = column->common == EC_PID ? b->events->pid : b->events->tid;
        *ret_count = is_again ? 1 : b->events->thread_count;
        return is_again ? 1 : code_by_index(g, b, b->events->thread, b->rows, *ret_count, stride);
    }
    if (column->kind == EC_KIND_TEXT) {
        c->what = OF_DICTIONARY; /* some columns of texts have none */
        rc = ec_scan_dictionary(g->scan, k->column, &c->values, &c->index, err);
        if (rc != 1)
            return rc < 0 && ec_is_damage(rc) ? 0 : rc; /* one by one they are reported */
        *ret_count = c->values.count;
        return code_by_index(g, b, c->index, NULL, *ret_count, stride);
    }
    c->what = OF_NUMBERS;
    rc = numbers_of(g, c, k->column, b, err);
    return rc != 1 || c->what == OF_CONSTANT ? rc : code_numbers(g, c, b, stride, ret_count, err);
}

/* A key of the i-th selected event. */
static int coded_key(ec_grouping *g, size_t which, const ec_block *b, uint32_t i, ec_key *ret, ea_err *err) {
    const coded *c = &g->coded[which];
    ec_value v;
    int rc;
    switch (c->what) {
    case OF_CONSTANT:
        *ret = c->constant;
        return 0;
    case OF_THREADS:
        *ret = (ec_key){.bits = c->ids[b->events->thread[b->rows[b->selected[i]]]], .type = EC_INT};
        return 0;
    case OF_NUMBERS:
        *ret = (ec_key){.bits = (uint64_t)c->numbers[i], .type = EC_INT};
        return 0;
    default:
        rc = ec_scan_row_value(g->scan, g->options.keys[which].column, &c->values, c->index[b->selected[i]], &v, err);
        return rc ? rc : ec_keys_of_value(&g->interner, &v, ret) ? grouping_no_memory(err) : 0;
    }
}

/* Finds the groups by codes: once a distinct one of the block. 1; 0 when a key has none. */
static int find_by_codes(ec_grouping *g, const ec_block *b, ea_err *err) {
    ec_key keys[EC_GROUPING_KEYS_MAX] = {0};
    uint32_t total = 1, count = 1, group, most = CODES_FEW + CODES_AN_EVENT * b->selected_count;
    int rc = 1, has_threads = 0;
    if (!g->can_code)
        return 0;
    g->codes_max = most < CODES_MAX ? most : CODES_MAX;
    if (EA_GROW(g->codes, g->codes_capacity, b->selected_count, SIZE_MAX))
        return grouping_no_memory(err);
    memset(g->codes, 0, b->selected_count * sizeof *g->codes);
    for (size_t k = 0; k < g->options.key_count; k++) {
        rc = code_key(g, k, b, total, has_threads, &count, err);
        rc = rc == 1 && !count ? 0 : rc;
        g->code_failures += rc == 0;
        g->can_code = g->code_failures < CODE_FAILURES;
        if (rc != 1)
            return rc;
        has_threads |= g->coded[k].what == OF_THREADS;
        total *= count;
    }
    g->code_failures = 0;
    if (EA_GROW(g->group_by_code, g->group_by_code_capacity, total, SIZE_MAX))
        return grouping_no_memory(err);
    memset(g->group_by_code, 0, total * sizeof *g->group_by_code);
    for (uint32_t i = 0; i < b->selected_count; i++) {
        uint32_t *known = &g->group_by_code[g->codes[i]];
        if (!*known) {
            for (size_t k = 0; k < g->options.key_count; k++)
                if ((rc = coded_key(g, k, b, i, &keys[k], err)))
                    return rc;
            if ((rc = group_events_find_group(g, keys, &group, err)))
                return rc;
            *known = group + 1;
        }
        g->group_of[i] = *known - 1;
        g->events[*known - 1]++;
    }
    return 1;
}

/* Likewise of one key of numbers, whatever block they are in. 1; 0 when it is none. */
static int find_by_number(ec_grouping *g, const ec_block *b, ea_err *err) {
    const ec_grouping_key *k = g->options.keys;
    coded *c = g->coded;
    int common = g->interner.shape->columns[k->column].common;
    if (g->options.key_count != 1 || ec_grouping_is_computed(k) || (common != EC_COMMON_COUNT && common != EC_CPU) ||
        g->interner.shape->columns[k->column].kind == EC_KIND_TEXT)
        return 0;
    if (!g->memo_of) {
        g->memo_of = calloc(MEMO_SIZE, sizeof *g->memo_of);
        g->memo_group = calloc(MEMO_SIZE, sizeof *g->memo_group);
        if (!g->memo_of || !g->memo_group)
            return grouping_no_memory(err);
    }
    c->what = OF_NUMBERS;
    int rc = numbers_of(g, c, k->column, b, err);
    if (rc != 1 || c->what != OF_NUMBERS)
        return rc < 0 ? rc : 0;
    for (uint32_t i = 0; i < b->selected_count; i++) {
        uint64_t v = (uint64_t)c->numbers[i];
        size_t at = (size_t)((v * SPREAD) >> (64 - MEMO_BITS));
        if (!g->memo_group[at] || g->memo_of[at] != (int64_t)v) {
            uint32_t group;
            rc = group_events_find_group(g, &(ec_key){.bits = v, .type = EC_INT}, &group, err);
            if (rc)
                return rc;
            g->memo_of[at] = (int64_t)v;
            g->memo_group[at] = group + 1;
        }
        g->group_of[i] = g->memo_group[at] - 1;
        g->events[g->group_of[i]]++;
    }
    return 1;
}

/* The number of the group of each selected event, and how many events each has. */
static int find_groups(ec_grouping *g, const ec_block *b, ea_err *err) {
    size_t n = g->options.key_count;
    ec_key keys[EC_GROUPING_KEYS_MAX] = {0}, last[EC_GROUPING_KEYS_MAX] = {0};
    uint32_t group = 0;
    int rc = 0, has_last = 0;
    if (EA_GROW(g->group_of, g->group_of_capacity, b->selected_count, SIZE_MAX))
        return grouping_no_memory(err);
    if (g->has_constant_keys) {
        rc = find_one_group(g, b, &group, err);
        for (uint32_t i = 0; !rc && i < b->selected_count; i++)
            g->group_of[i] = group;
        return rc;
    }
    rc = find_by_number(g, b, err);
    if (!rc)
        rc = find_by_codes(g, b, err);
    if (rc)
        return rc < 0 ? rc : 0;
    for (size_t k = 0; !rc && k < n; k++)
        rc = grouping_take_keys(g, k, b, err);
    for (uint32_t i = 0; !rc && i < b->selected_count; i++) {
        for (size_t k = 0; k < n; k++)
            keys[k] = g->keys[k][i];
        if (!has_last || !grouping_is_same(keys, last, n)) {
            rc = group_events_find_group(g, keys, &group, err);
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

static void group_events_add_number(ec_measure *m, int64_t v) {
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

static member *group_events_find_member(const members *of, const ec_key *k, uint32_t group) {
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
            *group_events_find_member(&bigger, &(ec_key){.bits = of->items[i].bits, .type = of->items[i].type},
                                      of->items[i].group - 1) = of->items[i];
    free(of->items);
    *of = bigger;
    return 0;
}

static int group_events_add_member(members *of, ec_measure *m, const ec_key *k, uint32_t group) {
    if ((!of->items || 2 * of->count > of->mask) && grow_members(of))
        return EA_ENOMEM;
    member *at = group_events_find_member(of, k, group);
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
    ec_bucket bucket;
    int rc = grouping_take(g, &v->of, &bucket, b, g->value_keys, err);
    for (uint32_t i = 0; !rc && i < b->selected_count; i++) {
        const ec_key *k = &g->value_keys[i];
        uint32_t group = g->group_of[i];
        ec_measure *m = &g->measures[group * values + which];
        if (k->type == EC_NULL)
            continue;
        if (v->what == EC_GROUPING_EXTREMES) {
            add_extreme(g, m, k);
        } else if (v->what == EC_GROUPING_DISTINCT) {
            rc = group_events_add_member(&g->members[which], m, k, group) ? grouping_no_memory(err) : 0;
        } else if (k->type == EC_INT) {
            group_events_add_number(m, (int64_t)k->bits);
        } else {
            m->count++;
            m->has_other = 1;
        }
    }
    return rc;
}

/* Times whose least and greatest are known. */
static void group_events_add_range(const ec_grouping *g, ec_measure *m, int64_t least, int64_t greatest,
                                   uint32_t count) {
    uint64_t before = m->count;
    add_extreme(g, m, &(ec_key){.bits = (uint64_t)least, .type = EC_INT});
    add_extreme(g, m, &(ec_key){.bits = (uint64_t)greatest, .type = EC_INT});
    m->count = before + count;
}

/* Times of a block of one source that is of one group: the clock goes forward, so that two of them are computed. */
static void group_events_add_times(const ec_grouping *g, ec_measure *m, const ec_block *b) {
    const int64_t *time = b->events->time;
    uint32_t least = b->rows[b->selected[0]], greatest = least;
    for (uint32_t i = 1; i < b->selected_count; i++) {
        uint32_t event = b->rows[b->selected[i]];
        least = time[event] < time[least] ? event : least;
        greatest = time[event] > time[greatest] ? event : greatest;
    }
    group_events_add_range(g, m, ec_scan_utc_ns(g->scan, least), ec_scan_utc_ns(g->scan, greatest), b->selected_count);
}

/* A number that `count` events have. */
static void add_number_times(ec_measure *m, int64_t v, uint32_t count) {
    uint64_t times;
    ec_measure one = {0};
    if (__builtin_mul_overflow(absolute(v), (uint64_t)count, &times))
        times = UINT64_MAX;
    uint64_t sum = (uint64_t)m->sum + (uint64_t)v * count, magnitude = m->magnitude + times, before = m->count;
    one = *m;
    group_events_add_number(&one, v);
    *m = one;
    m->sum = (int64_t)sum;
    m->magnitude = magnitude < times ? UINT64_MAX : magnitude;
    m->count = before + count;
}

/* Numbers of one group: 1; 0 when they are so great that their sum has to be watched. count: above 0. */
static int add_numbers(ec_measure *m, const int64_t *numbers, uint32_t count) {
    int64_t least = numbers[0], greatest = numbers[0];
    uint64_t sum = 0, magnitude = 0, most;
    for (uint32_t i = 1; i < count; i++) {
        least = numbers[i] < least ? numbers[i] : least;
        greatest = numbers[i] > greatest ? numbers[i] : greatest;
    }
    most = absolute(least) > absolute(greatest) ? absolute(least) : absolute(greatest);
    if (most > (UINT64_MAX >> 2) / count || m->magnitude > UINT64_MAX >> 2)
        return 0;
    for (uint32_t i = 0; i < count; i++) {
        sum += (uint64_t)numbers[i];
        magnitude += absolute(numbers[i]);
    }
    if (!m->count || least < (int64_t)m->least.bits)
        m->least = (ec_key){.bits = (uint64_t)least, .type = EC_INT};
    if (!m->count || greatest > (int64_t)m->greatest.bits)
        m->greatest = (ec_key){.bits = (uint64_t)greatest, .type = EC_INT};
    m->sum = (int64_t)((uint64_t)m->sum + sum);
    m->magnitude += magnitude;
    m->count += count;
    return 1;
}

/* A value that all events of a whole block have alike. */
static int add_constant(ec_grouping *g, size_t which, const ec_block *b, uint32_t group, ea_err *err) {
    const ec_grouping_value *v = &g->options.values[which];
    ec_measure *m = &g->measures[group * g->options.value_count + which];
    ec_key k;
    int rc = ec_keys_constant(&g->interner, v->of.column, b, &k, err);
    if (rc || k.type == EC_NULL)
        return rc;
    if (v->what == EC_GROUPING_DISTINCT)
        return group_events_add_member(&g->members[which], m, &k, group) ? grouping_no_memory(err) : 0;
    if (v->what == EC_GROUPING_NUMBERS && k.type == EC_INT) {
        add_number_times(m, (int64_t)k.bits, b->selected_count);
        return 0;
    }
    uint64_t before = m->count;
    if (v->what == EC_GROUPING_NUMBERS)
        m->has_other = 1;
    else
        add_extreme(g, m, &k);
    m->count = before + b->selected_count;
    return 0;
}

/* Adds a whole block: 1; 0 when its times are not known, so that its events have to be decoded. */
static int add_whole(ec_grouping *g, const ec_block *b, ea_err *err) {
    uint32_t group;
    int64_t least = 0, greatest = 0;
    if (g->has_times && !ec_scan_times(g->scan, g->has_batch_keys, &least, &greatest))
        return 0;
    if (g->has_time_buckets && !has_one_bucket(g))
        return 0;
    int rc = find_one_group(g, b, &group, err);
    for (size_t i = 0; !rc && i < g->options.value_count; i++)
        if (is_time(g, i))
            group_events_add_range(g, &g->measures[group * g->options.value_count + i], least, greatest,
                                   b->selected_count);
        else
            rc = add_constant(g, i, b, group, err);
    return rc ? rc : 1;
}

static int add_values(ec_grouping *g, size_t which, const ec_block *b, ea_err *err) {
    size_t values = g->options.value_count;
    int all_null = 0;
    if (is_time(g, which) && g->has_constant_keys && ea_batch_source_count(b->view) == 1) {
        group_events_add_times(g, &g->measures[g->group_of[0] * values + which], b);
        return 0;
    }
    const ec_grouping_key *of = &g->options.values[which].of;
    if (g->options.values[which].what != EC_GROUPING_NUMBERS || ec_grouping_is_computed(of))
        return add_keys(g, which, b, err);
    if (EA_GROW(g->numbers, g->numbers_capacity, b->selected_count, SIZE_MAX))
        return grouping_no_memory(err);
    int rc = ec_keys_numbers(&g->interner, of->column, b, g->numbers, &all_null, err);
    if (rc < 0 || all_null)
        return rc < 0 ? rc : 0;
    if (!rc)
        return add_keys(g, which, b, err);
    if (g->has_constant_keys &&
        add_numbers(&g->measures[g->group_of[0] * values + which], g->numbers, b->selected_count))
        return 0;
    for (uint32_t i = 0; i < b->selected_count; i++)
        group_events_add_number(&g->measures[g->group_of[i] * values + which], g->numbers[i]);
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
    int rc = b->events ? 0 : add_whole(g, b, err), is_done = rc == 1;
    if (rc < 0)
        return rc;
    if (!is_done && !b->events && (rc = ec_scan_decode(g->scan, err)) != 1)
        return rc; /* a damaged block is left out */
    rc = is_done ? 0 : find_groups(g, b, err);
    for (size_t i = 0; !rc && !is_done && i < g->options.value_count; i++)
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
        if (!ec_grouping_takes(shape, o->values[i].of.column))
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
    if (!rc && can_count(g))
        ec_scan_set_counting(g->scan);
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
    for (size_t i = 0; i < EC_GROUPING_KEYS_MAX; i++) {
        free(g->keys[i]);
        free(g->coded[i].numbers);
        free(g->coded[i].locals);
    }
    free(g->codes);
    free(g->group_by_code);
    free(g->memo_of);
    free(g->memo_group);
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
