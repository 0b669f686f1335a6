/* See aggregate.h. A block goes through column by column: each key's column becomes an array of keys of the selected
 * events, and then events find their groups. */
#include "collector/query/analysis/aggregate.h"

#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_GROUPS = 1 << 20, FIRST_SLOTS = 1024 };

/* A key as a number: of an EC_INT its bits, of texts and blobs the index of an interned one. */
typedef struct key {
    uint64_t bits;
    uint32_t type; /* enum ec_value_type */
} key;

typedef struct entry {
    int64_t bucket;
    key keys[EC_BY_MAX];
    ec_group group;
} entry;

typedef struct text {
    const char *data;
    size_t len_bytes;
} text;

/* The bucket that was last computed, and raw times of one source that are in it for sure. */
typedef struct bucket {
    int64_t begin_utc_ns, first_raw, last_raw;
    uint16_t source;
    int is_known;
} bucket;

struct ec_aggregate {
    const ec_aggregate_options *options;
    const ec_table_schema *shape;
    ec_scan *scan;
    ea_arena arena;
    ea_bytes_map interned; /* text -> its index + 1 */
    text *texts;
    size_t text_count, text_capacity;
    entry *entries;
    size_t count, capacity;
    uint32_t *slots; /* index into entries + 1; 0 free */
    size_t mask;
    key *keys[EC_BY_MAX], *memo; /* of the selected events of a block; of a dictionary */
    size_t keys_capacity[EC_BY_MAX], memo_capacity;
    int64_t *numbers; /* values of the selected events of a block */
    size_t numbers_capacity;
    bucket bucket;
    ec_group *groups; /* the answer */
    size_t group_count;
};

static int no_memory(ea_err *err) {
    return ea_fail(err, EA_ENOMEM, "group events");
}

/* ---- keys ---- */

static int intern(ec_aggregate *a, const char *data, size_t len_bytes, uint64_t *ret) {
    const void *known = ea_bytes_map_get(&a->interned, len_bytes ? data : "", len_bytes);
    if (known) {
        *ret = (uintptr_t)known - 1;
        return 0;
    }
    if (EA_GROW(a->texts, a->text_capacity, a->text_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    const char *copy = ea_arena_copy(&a->arena, len_bytes ? data : "", len_bytes);
    if (!copy || ea_bytes_map_put(&a->interned, copy, len_bytes, (void *)(uintptr_t)(a->text_count + 1)))
        return EA_ENOMEM;
    *ret = a->text_count;
    a->texts[a->text_count++] = (text){copy, len_bytes};
    return 0;
}

/* Values that SQL finds equal have one key: 0.0 and -0.0, too. */
static int key_of(ec_aggregate *a, const ec_value *v, key *ret) {
    double r = v->r;
    *ret = (key){.type = v->type};
    switch (v->type) {
    case EC_INT:
        ret->bits = (uint64_t)v->i;
        return 0;
    case EC_REAL:
        if (r != r) { /* what SQLite makes of it */
            ret->type = EC_NULL;
            return 0;
        }
        r = r == 0 ? 0.0 : r;
        memcpy(&ret->bits, &r, sizeof ret->bits);
        return 0;
    case EC_TEXT:
    case EC_BLOB:
        return intern(a, v->data, v->len_bytes, &ret->bits);
    default:
        return 0;
    }
}

static void value_of(const ec_aggregate *a, const key *k, ec_value *ret) {
    *ret = (ec_value){.type = (enum ec_value_type)k->type};
    switch (ret->type) {
    case EC_INT:
        ret->i = (int64_t)k->bits;
        break;
    case EC_REAL:
        memcpy(&ret->r, &k->bits, sizeof ret->r);
        break;
    case EC_TEXT:
    case EC_BLOB:
        ret->data = a->texts[k->bits].data;
        ret->len_bytes = a->texts[k->bits].len_bytes;
        break;
    default:
        break;
    }
}

/* A column whose rows are fixed-width numbers that stand for themselves, but perhaps for the highest bit. */
static int is_plain(enum ec_kind kind, const ea_field *f, const ea_column *data) {
    return (kind == EC_KIND_INT || kind == EC_KIND_HEX || kind == EC_KIND_ADDRESS) && data->width &&
           data->width == f->width && f->type != EA_PORT &&
           (data->width == 1 || data->width == 2 || data->width == 4 || data->width == 8);
}

/* Calls use(i, number) for each selected event. */
#define EACH_NUMBER(b, column, type, load, use)                                                                        \
    for (uint32_t i = 0; i < (b)->selected_count; i++) {                                                               \
        uint64_t number = (uint64_t)(type)load((column)->data + (size_t)(b)->selected[i] * (column)->stride);          \
        use(i, number ^ flip);                                                                                         \
    }
#define EACH_PLAIN(b, column, f, use)                                                                                  \
    do {                                                                                                               \
        int sign = (f)->type == EA_I8 || (f)->type == EA_I16 || (f)->type == EA_I32 || (f)->type == EA_I64;            \
        switch ((column)->width * 2 + (unsigned)sign) {                                                                \
        case 2:                                                                                                        \
            EACH_NUMBER(b, column, uint8_t, *, use)                                                                    \
            break;                                                                                                     \
        case 3:                                                                                                        \
            EACH_NUMBER(b, column, int8_t, *, use)                                                                     \
            break;                                                                                                     \
        case 4:                                                                                                        \
            EACH_NUMBER(b, column, uint16_t, ea_load16, use)                                                           \
            break;                                                                                                     \
        case 5:                                                                                                        \
            EACH_NUMBER(b, column, int16_t, ea_load16, use)                                                            \
            break;                                                                                                     \
        case 8:                                                                                                        \
            EACH_NUMBER(b, column, uint32_t, ea_load32, use)                                                           \
            break;                                                                                                     \
        case 9:                                                                                                        \
            EACH_NUMBER(b, column, int32_t, ea_load32, use)                                                            \
            break;                                                                                                     \
        default:                                                                                                       \
            EACH_NUMBER(b, column, uint64_t, ea_load64, use)                                                           \
        }                                                                                                              \
    } while (0)

static uint64_t flip_of(enum ec_kind kind) {
    return kind == EC_KIND_ADDRESS ? (uint64_t)1 << 63 : 0;
}

static void plain_keys(enum ec_kind kind, const ec_block *b, const ea_column *data, const ea_field *f, key *to) {
    uint64_t flip = flip_of(kind);
#define PUT_KEY(i, v) to[i] = (key){.bits = (v), .type = EC_INT}
    EACH_PLAIN(b, data, f, PUT_KEY);
#undef PUT_KEY
}

static void plain_numbers(enum ec_kind kind, const ec_block *b, const ea_column *data, const ea_field *f, int64_t *to) {
    uint64_t flip = flip_of(kind);
#define PUT_NUMBER(i, v) to[i] = (int64_t)(v)
    EACH_PLAIN(b, data, f, PUT_NUMBER);
#undef PUT_NUMBER
}

static int dictionary_keys(ec_aggregate *a, size_t column, const ec_block *b, const ea_column *values,
                           const uint32_t *index, key *to, ea_err *err) {
    if (EA_GROW(a->memo, a->memo_capacity, values->count, SIZE_MAX))
        return no_memory(err);
    for (uint32_t i = 0; i < values->count; i++) {
        ec_value v;
        int rc = ec_scan_row_value(a->scan, column, values, i, &v, err);
        if (!rc && key_of(a, &v, &a->memo[i]))
            rc = no_memory(err);
        if (rc)
            return rc;
    }
    for (uint32_t i = 0; i < b->selected_count; i++)
        to[i] = a->memo[index[b->selected[i]]]; /* NOLINT(clang-analyzer-*): a dictionary comes with its indexes */
    return 0;
}

/* One value after the other, whatever the column is. */
static int slow_keys(ec_aggregate *a, size_t column, const ec_block *b, key *to, ea_err *err) {
    for (uint32_t i = 0; i < b->selected_count; i++) {
        ec_value v;
        int rc = ec_scan_value(a->scan, column, b->selected[i], &v, err);
        if (!rc && key_of(a, &v, &to[i]))
            rc = no_memory(err);
        if (rc)
            return rc;
    }
    return 0;
}

static int field_keys(ec_aggregate *a, size_t column, const ec_block *b, key *to, ea_err *err) {
    enum ec_kind kind = a->shape->columns[column].kind;
    ea_column data = {0};
    const uint32_t *index = NULL;
    const ea_field *f = NULL;
    if (kind == EC_KIND_TEXT) {
        int rc = ec_scan_dictionary(a->scan, column, &data, &index, err);
        if (rc == 1)
            return dictionary_keys(a, column, b, &data, index, to, err);
        /* damaged values are NULL; slow_keys reports them */
        return rc && !ec_is_damage(rc) ? rc : slow_keys(a, column, b, to, err);
    }
    int rc = ec_scan_column(a->scan, column, &data, &f, err);
    if (rc == 1 && is_plain(kind, f, &data)) {
        plain_keys(kind, b, &data, f, to);
        return 0;
    }
    return rc < 0 && !ec_is_damage(rc) ? rc : slow_keys(a, column, b, to, err);
}

static void thread_keys(const ec_block *b, const uint32_t *ids, key *to) {
    for (uint32_t i = 0; i < b->selected_count; i++)
        to[i] = (key){.bits = ids[b->events->thread[b->rows[b->selected[i]]]], .type = EC_INT};
}

/* The keys of the block's selected events. */
static int take_keys(ec_aggregate *a, size_t which, const ec_block *b, ea_err *err) {
    size_t column = a->options->by[which];
    if (EA_GROW(a->keys[which], a->keys_capacity[which], b->selected_count, SIZE_MAX))
        return no_memory(err);
    key *to = a->keys[which];
    ec_value v;
    key same;
    int rc;
    switch (a->shape->columns[column].common) {
    case EC_COMMON_COUNT:
        return a->shape->columns[column].is_name ? slow_keys(a, column, b, to, err) : field_keys(a, column, b, to, err);
    case EC_PID:
        thread_keys(b, b->events->pid, to);
        return 0;
    case EC_TID:
        thread_keys(b, b->events->tid, to);
        return 0;
    case EC_CPU:
        for (uint32_t i = 0; i < b->selected_count; i++)
            to[i] = (key){.bits = b->events->cpu[b->rows[b->selected[i]]], .type = EC_INT};
        return 0;
    case EC_HOST: /* one for the whole group of the batch */
    case EC_STREAM:
    case EC_BATCH:
    case EC_NAME:
    case EC_PROVIDER:
    case EC_PROVIDER_NAME:
    case EC_ID:
    case EC_VERSION:
    case EC_CHANNEL:
    case EC_LEVEL:
    case EC_OPCODE:
    case EC_TASK:
    case EC_KEYWORD:
        rc = ec_scan_value(a->scan, column, b->selected[0], &v, err);
        if (!rc && key_of(a, &v, &same))
            rc = no_memory(err);
        for (uint32_t i = 0; !rc && i < b->selected_count; i++)
            to[i] = same;
        return rc;
    default:
        return slow_keys(a, column, b, to, err);
    }
}

/* ---- groups ---- */

static uint64_t mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 32;
}

static uint64_t hash_of(int64_t begin, const key *keys) {
    uint64_t h = mix(0x243F6A8885A308D3u, (uint64_t)begin);
    for (size_t i = 0; i < EC_BY_MAX; i++)
        h = mix(mix(h, keys[i].bits), keys[i].type);
    return h;
}

static int is_same_key(const key *a, const key *b) {
    for (size_t i = 0; i < EC_BY_MAX; i++)
        if (a[i].bits != b[i].bits || a[i].type != b[i].type)
            return 0;
    return 1;
}

static int is_same(const entry *e, int64_t begin, const key *keys) {
    return e->bucket == begin && is_same_key(e->keys, keys);
}

static int grow_slots(ec_aggregate *a) {
    size_t n = a->slots ? 2 * (a->mask + 1) : FIRST_SLOTS;
    uint32_t *slots = calloc(n, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    free(a->slots);
    a->slots = slots;
    a->mask = n - 1;
    for (size_t i = 0; i < a->count; i++) {
        size_t at = hash_of(a->entries[i].bucket, a->entries[i].keys) & a->mask;
        while (slots[at])
            at = (at + 1) & a->mask;
        slots[at] = (uint32_t)i + 1;
    }
    return 0;
}

static int find_entry(ec_aggregate *a, int64_t begin, const key *keys, size_t *ret, ea_err *err) {
    size_t limit = a->options->limit_groups ? a->options->limit_groups : DEFAULT_GROUPS;
    if ((!a->slots || 2 * a->count > a->mask) && grow_slots(a))
        return no_memory(err);
    size_t at = hash_of(begin, keys) & a->mask;
    for (; a->slots[at]; at = (at + 1) & a->mask)
        if (is_same(&a->entries[a->slots[at] - 1], begin, keys)) {
            *ret = a->slots[at] - 1;
            return 0;
        }
    if (a->count >= limit || a->count >= UINT32_MAX - 1)
        return ea_fail(err, EA_ELIMIT, "group events: there are more than %zu groups", a->count);
    if (EA_GROW(a->entries, a->capacity, a->count + 1, SIZE_MAX))
        return no_memory(err);
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
static void widen(ec_group *g, const ec_value *v) {
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
        widen(g, &(ec_value){.type = EC_INT, .i = v});
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
    widen(g, &(ec_value){.type = EC_INT, .i = least});
    widen(g, &(ec_value){.type = EC_INT, .i = greatest});
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
        widen(g, v);
    } else if (v->type == EC_TEXT && v->len_bytes < sizeof digits) { /* a count of 2^63 and more */
        memcpy(digits, v->data, v->len_bytes);
        digits[v->len_bytes] = 0;
        g->is_real = 1;
        g->sum_real += strtod(digits, NULL);
        if (intern(a, v->data, v->len_bytes, &at))
            return no_memory(err);
        kept.data = a->texts[at].data;
        widen(g, &kept);
    }
    return 0;
}

/* The block's values, when they are plain numbers: 1; 0 when they have to be asked one by one; all_null: none is there.
 */
static int take_numbers(ec_aggregate *a, const ec_block *b, int *ret_all_null, ea_err *err) {
    size_t column = a->options->value;
    enum ec_kind kind = a->shape->columns[column].kind;
    ea_column data = {0};
    const ea_field *f = NULL;
    *ret_all_null = 0;
    if (a->shape->columns[column].common != EC_COMMON_COUNT)
        return 0;
    int rc = ec_scan_column(a->scan, column, &data, &f, err);
    *ret_all_null = rc == 0;
    if (rc != 1 || !is_plain(kind, f, &data))
        return rc < 0 && !ec_is_damage(rc) ? rc : 0;
    if (EA_GROW(a->numbers, a->numbers_capacity, b->selected_count, SIZE_MAX))
        return no_memory(err);
    plain_numbers(kind, b, &data, f, a->numbers);
    return 1;
}

static int64_t bucket_of(ec_aggregate *a, const ec_block *b, uint32_t row) {
    int64_t width = a->options->every_ns;
    if (!width)
        return 0;
    uint32_t event = b->rows[row];
    int64_t raw = b->events->time[event];
    uint16_t source = b->events->source[event];
    bucket *k = &a->bucket;
    if (k->is_known && source == k->source && raw >= k->first_raw && raw <= k->last_raw)
        return k->begin_utc_ns;
    int64_t utc = ec_scan_utc_ns(a->scan, event), rest = utc % width;
    if (rest < 0)
        rest += width;
    int64_t begin = utc < INT64_MIN + rest ? INT64_MIN : utc - rest;
    *k = (bucket){.begin_utc_ns = begin, .first_raw = raw, .last_raw = raw, .source = source, .is_known = 1};
    if (begin > INT64_MIN && begin <= INT64_MAX - width) {
        const ea_clock *clock = &ea_batch_source(b->view, source)->clock;
        int64_t first = ea_clock_from_utc_ns(clock, begin), last = ea_clock_from_utc_ns(clock, begin + width);
        if (first < raw && last > raw) { /* both are rounded: their own ticks may lie outside */
            k->first_raw = first + 1;
            k->last_raw = last - 1;
        }
    }
    return begin;
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
    static const key NONE[EC_BY_MAX];
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
    int rc = 0;
    for (uint32_t i = 0; !rc && i < b->selected_count; i++) {
        key keys[EC_BY_MAX] = {{0}};
        int64_t begin = bucket_of(a, b, b->selected[i]);
        for (size_t k = 0; k < by_count; k++)
            keys[k] = a->keys[k][i];
        if (at == SIZE_MAX || !is_same(&a->entries[at], begin, keys))
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
        rc = take_keys(a, k, b, err);
    if (!rc && o->has_value) {
        rc = take_numbers(a, b, &is_absent, err);
        values = rc ? PLAIN_VALUES : is_absent ? NO_VALUES : SLOW_VALUES;
    }
    if (rc < 0)
        return rc;
    return o->by_count || o->every_ns ? add_events(a, b, values, err) : add_all(a, b, values, err);
}

/* ---- the answer ---- */

/* A key over all buckets. */
typedef struct total {
    key keys[EC_BY_MAX];
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
    int rc = totals && is_kept && key_of_entry ? 0 : no_memory(err);
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
            value_of(a, &totals[i].keys[k], &totals[i].values[k]);
    }
    if (!rc) {
        qsort(totals, a->count, sizeof *totals, compare_keys);
        for (size_t i = 0; i < a->count; i++) {
            if (n && is_same_key(totals[n - 1].keys, totals[i].keys)) {
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

static int finish(ec_aggregate *a, ea_err *err) {
    static const key NONE[EC_BY_MAX];
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
        return no_memory(err);
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
            value_of(a, &e->keys[k], &g->key[k]);
    }
    a->group_count = a->count;
    free(places);
    return 0;
}

/* Whether the scan keeps exactly the rows of a condition: no later check follows. */
static int is_exact(const ec_table_schema *shape, const ec_condition *c) {
    enum ec_kind kind = shape->columns[c->column].kind;
    int keeps = ec_scan_keeps(shape, c->column, c->op);
    for (size_t k = 0; keeps == 1 && k < c->value_count; k++)
        if (c->values[k].type != EC_NULL && c->values[k].type != (kind == EC_KIND_TEXT ? EC_TEXT : EC_INT))
            keeps = 0;
    return keeps != 0;
}

static int is_number(enum ec_kind kind) {
    return kind == EC_KIND_INT || kind == EC_KIND_HEX || kind == EC_KIND_TIME || kind == EC_KIND_ADDRESS ||
           kind == EC_KIND_COUNT || kind == EC_KIND_REAL;
}

int ec_aggregate_run(ec_aggregate **ret, ec_archive *archive, const ec_table_schema *shape,
                     const ec_aggregate_options *options, ea_err *err) {
    for (size_t i = 0; i < options->condition_count; i++)
        if (!is_exact(shape, &options->conditions[i]))
            return ea_fail(err, EA_EUSAGE, "group events: %s is compared with something that its column never is",
                           shape->columns[options->conditions[i].column].name);
    if (options->has_value && !is_number(shape->columns[options->value].kind))
        return ea_fail(err, EA_EUSAGE, "group events: %s has no numbers", shape->columns[options->value].name);
    ec_aggregate *a = calloc(1, sizeof *a);
    if (!a)
        return no_memory(err);
    a->options = options;
    a->shape = shape;
    ea_arena_init(&a->arena, 0);
    ea_bytes_map_init(&a->interned, 0);
    const ec_block *block = NULL;
    int rc =
        ec_scan_open(&a->scan, archive, shape, options->annotator, options->conditions, options->condition_count, err);
    while (!rc && (rc = ec_scan_next(a->scan, &block, err)) == 1)
        rc = add_block(a, block, err);
    if (!rc)
        rc = finish(a, err);
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
    free(a->memo);
    free(a->numbers);
    free(a->texts);
    free(a->entries);
    free(a->slots);
    free(a->groups);
    ea_bytes_map_deinit(&a->interned);
    ea_arena_deinit(&a->arena);
    free(a);
}
