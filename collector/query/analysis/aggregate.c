/* See aggregate.h. A block goes through column by column: each key's column becomes an array of keys of the selected
 * events, and then events find their groups. */
#include "collector/query/analysis/aggregate.h"

#include "collector/query/analysis/block_keys.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_GROUPS = 1 << 20, FIRST_SLOTS = 1024 };

typedef struct entry {
    int64_t bucket;
    ec_key keys[EC_BY_MAX];
    ec_group group;
} entry;

struct ec_aggregate {
    const ec_aggregate_options *options;
    const ec_table_schema *shape;
    ec_scan *scan;
    ec_keys interner;
    entry *entries;
    size_t count, capacity;
    uint32_t *slots; /* index into entries + 1; 0 free */
    size_t mask;
    ec_key *keys[EC_BY_MAX]; /* of the selected events of a block */
    size_t keys_capacity[EC_BY_MAX];
    int64_t *numbers; /* values of the selected events of a block */
    size_t numbers_capacity;
    ec_bucket bucket;
    ec_group *groups; /* the answer */
    size_t group_count;
};

static int aggregate_no_memory(ea_err *err) {
    return ea_fail(err, EA_ENOMEM, "group events");
}

/* ---- groups ---- */

static uint64_t aggregate_mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static uint64_t aggregate_hash_of(int64_t begin, const ec_key *keys, size_t count) {
    uint64_t h = aggregate_mix(0x243F6A8885A308D3u, (uint64_t)begin);
    for (size_t i = 0; i < count; i++)
        h = aggregate_mix(h, keys[i].bits + keys[i].type);
    return h;
}

static int is_same_key(const ec_key *a, const ec_key *b, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (a[i].bits != b[i].bits || a[i].type != b[i].type)
            return 0;
    return 1;
}

static int groups_is_same(const ec_aggregate *a, const entry *e, int64_t begin, const ec_key *keys) {
    return e->bucket == begin && is_same_key(e->keys, keys, a->options->by_count);
}

static int groups_grow_slots(ec_aggregate *a) {
    size_t n = a->slots ? 2 * (a->mask + 1) : FIRST_SLOTS;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    free(a->slots);
    a->slots = slots;
    a->mask = n - 1;
    for (size_t i = 0; i < a->count; i++) {
        size_t at = aggregate_hash_of(a->entries[i].bucket, a->entries[i].keys, a->options->by_count) & a->mask;
        while (slots[at])
            at = (at + 1) & a->mask;
        slots[at] = (uint32_t)i + 1;
    }
    return 0;
}

static int find_entry(ec_aggregate *a, int64_t begin, const ec_key *keys, size_t *ret, ea_err *err) {
    size_t limit = a->options->limit_groups ? a->options->limit_groups : DEFAULT_GROUPS;
    if ((!a->slots || 2 * a->count > a->mask) && groups_grow_slots(a))
        return aggregate_no_memory(err);
    size_t at = aggregate_hash_of(begin, keys, a->options->by_count) & a->mask;
    for (; a->slots[at]; at = (at + 1) & a->mask)
        if (groups_is_same(a, &a->entries[a->slots[at] - 1], begin, keys)) {
            *ret = a->slots[at] - 1;
            return 0;
        }
    if (a->count >= limit || a->count >= UINT32_MAX - 1)
        return ea_fail(err, EA_ELIMIT, "group events: there are more than %zu groups", a->count);
    if (EA_GROW(a->entries, a->capacity, a->count + 1, SIZE_MAX))
        return aggregate_no_memory(err);
    a->entries[a->count] = (entry){.bucket = begin};
    memcpy(a->entries[a->count].keys, keys, sizeof a->entries[a->count].keys);
    a->slots[at] = (uint32_t)++a->count;
    *ret = a->count - 1;
    return 0;
}

/* ---- values ---- */

static int is_less(const ec_value *a, const ec_value *b) {
    if (a->type != b->type)
        return a->type < b->type; /* numbers before texts; a column has not both kinds of numbers */
    if (a->type == EC_INT)
        return a->i < b->i;
    if (a->type == EC_REAL)
        return a->r < b->r;
    size_t n = a->len_bytes < b->len_bytes ? a->len_bytes : b->len_bytes;
    int order = n ? memcmp(a->data, b->data, n) : 0;
    return order ? order < 0 : a->len_bytes < b->len_bytes;
}

/* v: its text lives as long as the aggregate. */
static void groups_widen(ec_group *g, const ec_value *v) {
    if (g->value_count++ == 0) {
        g->least = g->greatest = *v;
        return;
    }
    if (is_less(v, &g->least))
        g->least = *v;
    if (is_less(&g->greatest, v))
        g->greatest = *v;
}

static void add_int(ec_group *g, int64_t v) {
    if (!g->is_overflow && __builtin_add_overflow(g->sum, v, &g->sum))
        g->is_overflow = !g->is_real;
    g->sum_real += (double)v;
    if (g->least.type != EC_INT || g->greatest.type != EC_INT) {
        groups_widen(g, &(ec_value){.type = EC_INT, .i = v});
        return;
    }
    g->value_count++;
    if (v < g->least.i)
        g->least.i = v;
    if (v > g->greatest.i)
        g->greatest.i = v;
}

/* Many at once, of a column that has no other kind of values: only sum and is_overflow can be its result, sum_real is
 * not. */
static void add_ints(ec_group *g, const int64_t *numbers, uint32_t count) {
    int64_t sum = 0, least = INT64_MAX, greatest = INT64_MIN;
    uint64_t before = g->value_count;
    int overflow = g->is_overflow;
    for (uint32_t i = 0; i < count; i++) {
        int64_t v = numbers[i];
        overflow |= __builtin_add_overflow(sum, v, &sum);
        least = v < least ? v : least;
        greatest = v > greatest ? v : greatest;
    }
    if (overflow || __builtin_add_overflow(g->sum, sum, &sum)) { /* the order decides: one by one */
        for (uint32_t i = 0; i < count; i++)
            add_int(g, numbers[i]);
        return;
    }
    g->sum = sum;
    groups_widen(g, &(ec_value){.type = EC_INT, .i = least});
    groups_widen(g, &(ec_value){.type = EC_INT, .i = greatest});
    g->value_count = before + count;
}

/* What SQL's sum() makes of it. */
static int add_value(ec_aggregate *a, ec_group *g, const ec_value *v, ea_err *err) {
    char digits[32];
    ec_value kept = *v;
    uint64_t at;
    if (v->type == EC_INT) {
        add_int(g, v->i);
    } else if (v->type == EC_REAL && v->r == v->r) {
        g->is_real = 1;
        g->sum_real += v->r;
        groups_widen(g, v);
    } else if (v->type == EC_TEXT && v->len_bytes < sizeof digits) { /* a count of 2^63 and more */
        memcpy(digits, v->data, v->len_bytes);
        digits[v->len_bytes] = 0;
        g->is_real = 1;
        g->sum_real += strtod(digits, NULL);
        if (ec_keys_intern(&a->interner, v->data, v->len_bytes, &at))
            return aggregate_no_memory(err);
        kept.data = a->interner.texts[at].data;
        groups_widen(g, &kept);
    }
    return 0;
}

/* How the values of a block are had. */
enum values { NO_VALUES, PLAIN_VALUES, SLOW_VALUES };

static int add_value_at(ec_aggregate *a, ec_group *g, uint32_t row, ea_err *err) {
    ec_value v;
    int rc = ec_scan_value(a->scan, a->options->value, row, &v, err);
    return rc ? rc : add_value(a, g, &v, err);
}

/* Neither keys nor buckets: all events are of one group. */
static int add_all(ec_aggregate *a, const ec_block *b, enum values values, ea_err *err) {
    static const ec_key NONE[EC_BY_MAX];
    size_t at = 0;
    int rc = find_entry(a, 0, NONE, &at, err);
    if (rc)
        return rc;
    ec_group *g = &a->entries[at].group;
    g->count += b->selected_count;
    if (values == PLAIN_VALUES)
        add_ints(g, a->numbers, b->selected_count);
    for (uint32_t i = 0; !rc && values == SLOW_VALUES && i < b->selected_count; i++)
        rc = add_value_at(a, g, b->selected[i], err);
    return rc;
}

static int add_events(ec_aggregate *a, const ec_block *b, enum values values, ea_err *err) {
    size_t by_count = a->options->by_count, at = SIZE_MAX; /* the group of the event before: often the next one's */
    int64_t width = a->options->every_ns;
    int rc = 0;
    for (uint32_t i = 0; !rc && i < b->selected_count; i++) {
        ec_key keys[EC_BY_MAX] = {{0}};
        int64_t begin = width ? ec_bucket_of(&a->bucket, &a->interner, b, width, b->selected[i]) : 0;
        for (size_t k = 0; k < by_count; k++)
            keys[k] = a->keys[k][i];
        if (at == SIZE_MAX || !groups_is_same(a, &a->entries[at], begin, keys))
            rc = find_entry(a, begin, keys, &at, err);
        if (rc)
            return rc;
        ec_group *g = &a->entries[at].group;
        g->count++;
        if (values == PLAIN_VALUES)
            add_int(g, a->numbers[i]);
        else if (values == SLOW_VALUES)
            rc = add_value_at(a, g, b->selected[i], err);
    }
    return rc;
}

static int add_block(ec_aggregate *a, const ec_block *b, ea_err *err) {
    const ec_aggregate_options *o = a->options;
    enum values values = NO_VALUES;
    int rc = 0, is_absent = 0;
    a->bucket.is_known = 0; /* a batch has its own sources */
    for (size_t k = 0; !rc && k < o->by_count; k++)
        rc = EA_GROW(a->keys[k], a->keys_capacity[k], b->selected_count, SIZE_MAX)
                 ? aggregate_no_memory(err)
                 : ec_keys_take(&a->interner, o->by[k], b, a->keys[k], err);
    if (!rc && o->has_value) {
        rc = EA_GROW(a->numbers, a->numbers_capacity, b->selected_count, SIZE_MAX)
                 ? aggregate_no_memory(err)
                 : ec_keys_numbers(&a->interner, o->value, b, a->numbers, &is_absent, err);
        values = rc ? PLAIN_VALUES : is_absent ? NO_VALUES : SLOW_VALUES;
    }
    if (rc < 0)
        return rc;
    return o->by_count || o->every_ns ? add_events(a, b, values, err) : add_all(a, b, values, err);
}

/* ---- the answer ---- */

/* A key over all buckets. */
typedef struct total {
    ec_key keys[EC_BY_MAX];
    ec_value values[EC_BY_MAX];
    uint64_t count, value_count;
    int is_real;
    int64_t sum;
    double sum_real;
    size_t first; /* entry */
} total;

/* Any order in which equal keys are adjacent. */
static int compare_keys(const void *x, const void *y) {
    const total *a = x, *b = y;
    for (size_t i = 0; i < EC_BY_MAX; i++) {
        if (a->keys[i].type != b->keys[i].type)
            return a->keys[i].type < b->keys[i].type ? -1 : 1;
        if (a->keys[i].bits != b->keys[i].bits)
            return a->keys[i].bits < b->keys[i].bits ? -1 : 1;
    }
    return (a->first > b->first) - (a->first < b->first);
}

/* The greatest first, as ORDER BY sum DESC, key, key sorts. */
static int compare_totals(const void *x, const void *y) {
    const total *a = x, *b = y;
    if (!a->value_count != !b->value_count)
        return a->value_count ? -1 : 1;
    if (a->is_real || b->is_real) {
        if (a->sum_real != b->sum_real)
            return a->sum_real > b->sum_real ? -1 : 1;
    } else if (a->sum != b->sum) {
        return a->sum > b->sum ? -1 : 1;
    }
    for (size_t i = 0; i < EC_BY_MAX; i++) {
        if (is_less(&a->values[i], &b->values[i]))
            return -1;
        if (is_less(&b->values[i], &a->values[i]))
            return 1;
    }
    return 0;
}

static void add_total(total *t, const total *more) {
    t->count += more->count;
    t->value_count += more->value_count;
    t->is_real |= more->is_real;
    t->sum_real += more->sum_real;
    if (__builtin_add_overflow(t->sum, more->sum, &t->sum))
        t->is_real = 1;
}

/* Leaves only the groups of the keys with the greatest totals. */
static int keep_top(ec_aggregate *a, ea_err *err) {
    const ec_aggregate_options *o = a->options;
    size_t n = 0, kept = 0;
    total *totals = calloc(a->count + 1, sizeof *totals);
    uint8_t *is_kept = calloc(a->count + 1, 1);
    size_t *key_of_entry = calloc(a->count + 1, sizeof *key_of_entry); /* the entry that stands for the key */
    int rc = totals && is_kept && key_of_entry ? 0 : aggregate_no_memory(err);
    for (size_t i = 0; !rc && i < a->count; i++) {
        const ec_group *g = &a->entries[i].group;
        totals[i] = (total){.count = g->count,
                            .value_count = o->has_value ? g->value_count : 1,
                            .is_real = g->is_real || g->is_overflow,
                            .sum = o->has_value ? g->sum : (int64_t)g->count,
                            .sum_real = o->has_value ? g->sum_real : (double)g->count,
                            .first = i};
        memcpy(totals[i].keys, a->entries[i].keys, sizeof totals[i].keys);
        for (size_t k = 0; k < EC_BY_MAX; k++)
            ec_keys_value(&a->interner, &totals[i].keys[k], &totals[i].values[k]);
    }
    if (!rc) {
        qsort(totals, a->count, sizeof *totals, compare_keys);
        for (size_t i = 0; i < a->count; i++) {
            if (n && is_same_key(totals[n - 1].keys, totals[i].keys, EC_BY_MAX)) {
                key_of_entry[totals[i].first] = totals[n - 1].first;
                add_total(&totals[n - 1], &totals[i]);
            } else {
                key_of_entry[totals[i].first] = totals[i].first;
                totals[n++] = totals[i];
            }
        }
        qsort(totals, n, sizeof *totals, compare_totals);
        for (size_t i = 0; i < n && i < o->top; i++)
            is_kept[totals[i].first] = 1;
        for (size_t i = 0; i < a->count; i++)
            if (is_kept[key_of_entry[i]])
                a->entries[kept++] = a->entries[i];
        a->count = kept;
    }
    free(totals);
    free(is_kept);
    free(key_of_entry);
    return rc;
}

typedef struct place {
    int64_t bucket;
    size_t entry;
} place;

static int compare_places(const void *x, const void *y) {
    const place *a = x, *b = y;
    if (a->bucket != b->bucket)
        return a->bucket < b->bucket ? -1 : 1;
    return (a->entry > b->entry) - (a->entry < b->entry);
}

static int groups_finish(ec_aggregate *a, ea_err *err) {
    static const ec_key NONE[EC_BY_MAX];
    size_t ignored;
    int rc = 0;
    if (!a->count && !a->options->by_count && !a->options->every_ns)
        rc = find_entry(a, 0, NONE, &ignored, err);
    if (!rc && a->options->top)
        rc = keep_top(a, err);
    if (rc)
        return rc;
    place *places = calloc(a->count + 1, sizeof *places);
    a->groups = calloc(a->count + 1, sizeof *a->groups);
    if (!places || !a->groups) {
        free(places);
        return aggregate_no_memory(err);
    }
    for (size_t i = 0; i < a->count; i++)
        places[i] = (place){a->entries[i].bucket, i};
    qsort(places, a->count, sizeof *places, compare_places);
    for (size_t i = 0; i < a->count; i++) {
        const entry *e = &a->entries[places[i].entry];
        ec_group *g = &a->groups[i];
        *g = e->group;
        g->bucket_utc_ns = e->bucket;
        for (size_t k = 0; k < EC_BY_MAX; k++)
            ec_keys_value(&a->interner, &e->keys[k], &g->key[k]);
    }
    a->group_count = a->count;
    free(places);
    return 0;
}

static int aggregate_is_number(enum ec_kind kind) {
    return kind == EC_KIND_INT || kind == EC_KIND_HEX || kind == EC_KIND_TIME || kind == EC_KIND_ADDRESS ||
           kind == EC_KIND_COUNT || kind == EC_KIND_REAL;
}

int ec_aggregate_run(ec_aggregate **ret, ec_archive *archive, const ec_table_schema *shape,
                     const ec_aggregate_options *options, ea_err *err) {
    for (size_t i = 0; i < options->condition_count; i++)
        if (!ec_condition_is_exact(shape, &options->conditions[i]))
            return ea_fail(err, EA_EUSAGE, "group events: %s is compared with something that its column never is",
                           shape->columns[options->conditions[i].column].name);
    if (options->has_value && !aggregate_is_number(shape->columns[options->value].kind))
        return ea_fail(err, EA_EUSAGE, "group events: %s has no numbers", shape->columns[options->value].name);
    ec_aggregate *a = calloc(1, sizeof *a);
    if (!a)
        return aggregate_no_memory(err);
    a->options = options;
    a->shape = shape;
    ec_keys_init(&a->interner, shape);
    const ec_block *block = NULL;
    int rc =
        ec_scan_open(&a->scan, archive, shape, options->annotator, options->conditions, options->condition_count, err);
    a->interner.scan = a->scan;
    while (!rc && (rc = ec_scan_next(a->scan, &block, err)) == 1)
        rc = add_block(a, block, err);
    if (!rc)
        rc = groups_finish(a, err);
    ec_scan_close(a->scan);
    a->scan = NULL;
    if (rc) {
        ec_aggregate_destroy(a);
        return rc;
    }
    *ret = a;
    return 0;
}

const ec_group *ec_aggregate_groups(const ec_aggregate *a, size_t *ret_count) {
    *ret_count = a->group_count;
    return a->groups;
}

void ec_aggregate_destroy(ec_aggregate *a) {
    if (!a)
        return;
    ec_scan_close(a->scan);
    for (size_t i = 0; i < EC_BY_MAX; i++)
        free(a->keys[i]);
    free(a->numbers);
    free(a->entries);
    free(a->slots);
    free(a->groups);
    ec_keys_deinit(&a->interner);
    free(a);
}
