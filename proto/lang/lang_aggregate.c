/* Aggregations. See lang_aggregate.h. */
#include "proto/lang/lang_aggregate.h"

#include "proto/base/err.h"
#include "proto/base/map.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *aggregate_as_pointer(uint64_t word) {
    return (void *)(uintptr_t)word;
}

static double aggregate_number(enum lang_type type, uint64_t v) {
    return type == TYPE_FLOAT ? lang_double(v) : type == TYPE_INT ? (double)(int64_t)v : (double)v;
}

/* ---- buckets ---- */

static int64_t aggregate_power(int64_t factor, int64_t exponent) {
    int64_t v = 1;
    for (; exponent > 0; exponent--) {
        if (v > INT64_MAX / factor)
            return 0;
        v *= factor;
    }
    return v;
}

static void aggregate_add_bound(int64_t v, int64_t *bounds, size_t *count, int64_t *last) {
    if (*count && v <= *last)
        return;
    if (bounds)
        bounds[*count] = v;
    *last = v;
    ++*count;
}

size_t lang_bounds(const lang_aggregation *what, int64_t *bounds) {
    const int64_t *p = what->params;
    size_t n = 0;
    int64_t last = 0;
    if (what->function == FUNCTION_LQUANTIZE) {
        int64_t low = p[0], high = p[1], step = p[2];
        uint64_t range = (uint64_t)high - (uint64_t)low;
        if (step < 1 || high <= low || range / (uint64_t)step + (range % (uint64_t)step != 0) >= HISTOGRAM_BUCKETS_MAX)
            return 0;
        for (int64_t v = low; v < high; v += step) {
            aggregate_add_bound(v, bounds, &n, &last);
            if (v > INT64_MAX - step)
                break;
        }
        aggregate_add_bound(high, bounds, &n, &last);
        return n;
    }
    int64_t factor = p[0], low = p[1], high = p[2], steps = p[3];
    if (factor < 2 || low < 0 || high < low || high > 62 || steps < factor || steps > 2 * HISTOGRAM_BUCKETS_MAX ||
        steps % factor || !aggregate_power(factor, high + 1) ||
        (high - low + 1) * (steps - steps / factor) >= HISTOGRAM_BUCKETS_MAX)
        return 0;
    aggregate_add_bound(aggregate_power(factor, low), bounds, &n, &last);
    for (int64_t m = low; m <= high; m++) {
        int64_t from = aggregate_power(factor, m), to = aggregate_power(factor, m + 1);
        for (int64_t i = 1; i <= steps - steps / factor; i++) {
            int64_t part = to / steps * i + to % steps * i / steps;
            aggregate_add_bound(from + part, bounds, &n, &last);
        }
    }
    return n;
}

static int aggregate_log2_of(uint64_t v) {
    int n = 0;
    for (int step = 32; step; step /= 2) {
        if (v >> step) {
            v >>= step;
            n += step;
        }
    }
    return n;
}

static int32_t aggregate_bucket_of(const lang_aggregate *a, uint64_t value) {
    enum lang_type type = a->what->type;
    if (type == TYPE_FLOAT) {
        double d = lang_double(value);
        value = d >= 9.2e18    ? (uint64_t)INT64_MAX
                : d <= -9.2e18 ? (uint64_t)INT64_MIN
                : d != d       ? 0
                               : (uint64_t)(int64_t)floor(d);
        type = TYPE_INT;
    }
    if (a->what->function == FUNCTION_QUANTIZE) {
        if (!value)
            return 0;
        if (type == TYPE_INT && (int64_t)value < 0)
            return -(aggregate_log2_of(0 - value) + 1);
        return aggregate_log2_of(value) + 1;
    }
    int64_t v = type != TYPE_INT && value > INT64_MAX ? INT64_MAX : (int64_t)value;
    size_t low = 0, high = a->bound_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (a->bounds[middle] <= v)
            low = middle + 1;
        else
            high = middle;
    }
    return (int32_t)low;
}

void lang_aggregate_bucket(const lang_aggregate *a, int64_t bucket, int64_t *ret_from, int64_t *ret_to) {
    if (a->what->function != FUNCTION_QUANTIZE) {
        EA_ASSERT(bucket >= 0 && (size_t)bucket <= a->bound_count);
        *ret_from = bucket > 0 ? a->bounds[bucket - 1] : INT64_MIN;
        *ret_to = (size_t)bucket < a->bound_count ? a->bounds[bucket] : INT64_MIN;
        return;
    }
    int64_t k = bucket < 0 ? -bucket : bucket;
    int64_t low = k == 0 ? 0 : k > 63 ? INT64_MAX : (int64_t)1 << (k - 1), high = k > 62 ? INT64_MAX : (int64_t)1 << k;
    *ret_from = bucket >= 0 ? low : k > 63 ? INT64_MIN : k > 62 ? INT64_MIN + 1 : 1 - high;
    *ret_to = bucket >= 0 ? (k > 63 ? INT64_MIN : high) : k > 63 ? INT64_MIN + 1 : 1 - low;
}

/* ---- states ---- */

static int aggregate_charge(lang_memory *m, size_t bytes) {
    if (m->used_bytes + bytes > m->limit_bytes)
        return 0;
    m->used_bytes += bytes;
    return 1;
}

static size_t aggregate_histogram_bytes(uint32_t count) {
    return sizeof(lang_histogram) + count * sizeof(uint64_t);
}

/* 0: no room. */
static int aggregate_histogram_add(lang_memory *m, uint64_t *word, int32_t bucket) {
    lang_histogram *h = aggregate_as_pointer(*word);
    int32_t first = h ? h->first : bucket, end = h ? h->first + (int32_t)h->count : bucket;
    if (!h || bucket < first || bucket >= end) {
        int32_t new_first = bucket < first ? bucket : first, new_end = bucket >= end ? bucket + 1 : end;
        uint32_t count = (uint32_t)(new_end - new_first), old = h ? h->count : 0;
        if (!aggregate_charge(m, aggregate_histogram_bytes(count) - (h ? aggregate_histogram_bytes(old) : 0)))
            return 0;
        lang_histogram *grown = realloc(h, aggregate_histogram_bytes(count));
        if (!grown)
            return 0;
        memmove(grown->counts + (first - new_first), grown->counts, old * sizeof *grown->counts);
        memset(grown->counts, 0, (size_t)(first - new_first) * sizeof *grown->counts);
        uint32_t filled = (uint32_t)(first - new_first) + old;
        memset(grown->counts + filled, 0, (count - filled) * sizeof *grown->counts);
        grown->first = new_first;
        grown->count = count;
        h = grown;
        *word = (uintptr_t)h;
    }
    h->counts[bucket - h->first]++;
    return 1;
}

/* How many values are kept: more than are shown, so that the counts of those shown are nearly right. */
static uint32_t aggregate_top_places(const lang_aggregation *what) {
    uint32_t wanted = 4 * (uint32_t)what->params[0];
    return wanted > TOP_PLACES ? wanted : TOP_PLACES;
}

static size_t aggregate_top_bytes(const lang_aggregation *what) {
    return sizeof(lang_top) + aggregate_top_places(what) * sizeof(lang_top_item);
}

/* Space saving: a value without a place takes that of the rarest one, and its count. */
static int aggregate_top_add(const lang_aggregate *a, lang_memory *m, uint64_t *word, uint64_t value) {
    lang_top *t = aggregate_as_pointer(*word);
    if (!t) {
        if (!aggregate_charge(m, aggregate_top_bytes(a->what)))
            return 0;
        t = calloc(1, aggregate_top_bytes(a->what));
        if (!t)
            return 0;
        t->capacity = aggregate_top_places(a->what);
        *word = (uintptr_t)t;
    }
    uint32_t rarest = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->items[i].value == value) {
            t->items[i].count++;
            return 1;
        }
        if (t->items[i].count < t->items[rarest].count)
            rarest = i;
    }
    if (t->count < t->capacity) {
        t->items[t->count++] = (lang_top_item){value, 1, 0};
    } else {
        lang_top_item *x = &t->items[rarest];
        *x = (lang_top_item){value, x->count + 1, x->count};
    }
    return 1;
}

static void aggregate_register_hash(lang_distinct *d, uint64_t hash) {
    uint64_t rest = hash << 12 | (uint64_t)1 << 11;
    uint8_t rank = (uint8_t)(64 - aggregate_log2_of(rest));
    uint8_t *r = &d->registers[hash >> 52];
    if (*r < rank)
        *r = rank;
}

static const size_t DISTINCT_BYTES = sizeof(lang_distinct) + DISTINCT_REGISTERS;

/* Exact up to DISTINCT_EXACT values, then HyperLogLog. */
static int aggregate_distinct_add(lang_memory *m, uint64_t *word, uint64_t hash) {
    lang_distinct *d = aggregate_as_pointer(*word);
    if (!d) {
        if (!aggregate_charge(m, sizeof *d))
            return 0;
        d = calloc(1, sizeof *d);
        if (!d)
            return 0;
        *word = (uintptr_t)d;
    }
    if (d->count > DISTINCT_EXACT) {
        aggregate_register_hash(d, hash);
        return 1;
    }
    uint32_t low = 0, high = d->count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (d->hashes[middle] < hash)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < d->count && d->hashes[low] == hash)
        return 1;
    if (d->count < DISTINCT_EXACT) {
        memmove(d->hashes + low + 1, d->hashes + low, (d->count - low) * sizeof *d->hashes);
        d->hashes[low] = hash;
        d->count++;
        return 1;
    }
    if (!aggregate_charge(m, DISTINCT_REGISTERS))
        return 0;
    lang_distinct *grown = realloc(d, DISTINCT_BYTES);
    if (!grown)
        return 0;
    *word = (uintptr_t)grown;
    memset(grown->registers, 0, DISTINCT_REGISTERS);
    for (uint32_t i = 0; i < DISTINCT_EXACT; i++)
        aggregate_register_hash(grown, grown->hashes[i]);
    aggregate_register_hash(grown, hash);
    grown->count = DISTINCT_EXACT + 1;
    return 1;
}

static uint64_t aggregate_distinct_count(const lang_distinct *d) {
    if (!d || d->count <= DISTINCT_EXACT)
        return d ? d->count : 0;
    double sum = 0, m = DISTINCT_REGISTERS;
    unsigned zeros = 0;
    for (unsigned i = 0; i < DISTINCT_REGISTERS; i++) {
        sum += ldexp(1, -d->registers[i]);
        zeros += !d->registers[i];
    }
    double estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    if (estimate < 2.5 * m && zeros)
        estimate = m * log(m / zeros);
    return (uint64_t)(estimate + 0.5);
}

static void aggregate_free_state(const lang_aggregate *a, uint64_t *state) {
    lang_memory *m = a->table.memory;
    void *p = aggregate_as_pointer(state[1]);
    switch (a->what->function) {
    case FUNCTION_QUANTIZE:
    case FUNCTION_LQUANTIZE:
    case FUNCTION_LLQUANTIZE:
        if (p)
            m->used_bytes -= aggregate_histogram_bytes(((lang_histogram *)p)->count);
        break;
    case FUNCTION_TOP:
        if (p)
            m->used_bytes -= aggregate_top_bytes(a->what);
        break;
    case FUNCTION_DISTINCT:
        if (p)
            m->used_bytes -= ((lang_distinct *)p)->count > DISTINCT_EXACT ? DISTINCT_BYTES : sizeof(lang_distinct);
        break;
    default:
        return;
    }
    free(p);
    state[1] = 0;
}

int lang_aggregate_init(lang_aggregate *a, const lang_aggregation *what, size_t limit_count, lang_memory *memory) {
    *a = (lang_aggregate){.what = what};
    lang_table_init(&a->table, what->key_count,
                    what->function == FUNCTION_STDDEV  ? 3
                    : what->function == FUNCTION_COUNT ? 1
                                                       : 2,
                    limit_count, memory);
    if (what->function == FUNCTION_LQUANTIZE || what->function == FUNCTION_LLQUANTIZE) {
        a->bound_count = lang_bounds(what, NULL);
        a->bounds = calloc(a->bound_count + 1, sizeof *a->bounds);
        if (!a->bounds)
            return EA_ENOMEM;
        (void)lang_bounds(what, a->bounds);
    }
    return 0;
}

void lang_aggregate_clear(lang_aggregate *a) {
    if (!a->what)
        return;
    for (size_t i = 0; i < a->table.count && a->table.word_count > 1; i++)
        aggregate_free_state(a, lang_table_entry(&a->table, i) + a->table.key_count);
    aggregate_free_state(a, a->others);
    memset(a->others, 0, sizeof a->others);
    lang_table_clear(&a->table);
}

void lang_aggregate_deinit(lang_aggregate *a) {
    lang_aggregate_clear(a);
    lang_table_deinit(&a->table);
    free(a->bounds);
    *a = (lang_aggregate){0};
}

static int aggregate_compare(enum lang_type type, const lang_strings *strings, uint64_t a, uint64_t b) {
    if (a == b)
        return 0;
    if (type == TYPE_TEXT || type == TYPE_STACK) {
        const lang_string *x = lang_string_at(strings, a), *y = lang_string_at(strings, b);
        size_t n = x->len_bytes < y->len_bytes ? x->len_bytes : y->len_bytes;
        int d = memcmp(x->text, y->text, n);
        return d ? d : (x->len_bytes > y->len_bytes) - (x->len_bytes < y->len_bytes);
    }
    if (type == TYPE_FLOAT)
        return (lang_double(a) > lang_double(b)) - (lang_double(a) < lang_double(b));
    if (type == TYPE_INT)
        return ((int64_t)a > (int64_t)b) - ((int64_t)a < (int64_t)b);
    return (a > b) - (a < b);
}

/* 0: no room for what the function keeps. */
static int aggregate_add_value(const lang_aggregate *a, uint64_t *state, uint64_t value, const lang_strings *strings) {
    enum lang_type type = a->what->type;
    lang_memory *m = a->table.memory;
    switch (a->what->function) {
    case FUNCTION_COUNT:
    case FUNCTION_NONE:
        break;
    case FUNCTION_SUM:
        state[1] = type == TYPE_FLOAT ? lang_bits(lang_double(state[1]) + lang_double(value)) : state[1] + value;
        break;
    case FUNCTION_MIN:
    case FUNCTION_MAX: {
        int d = aggregate_compare(type, strings, value, state[1]);
        int was_no_number = type == TYPE_FLOAT && lang_double(state[1]) != lang_double(state[1]);
        if (!state[0] || was_no_number || (a->what->function == FUNCTION_MIN ? d < 0 : d > 0))
            state[1] = value;
        break;
    }
    case FUNCTION_AVG:
        state[1] = lang_bits(lang_double(state[1]) + aggregate_number(type, value));
        break;
    case FUNCTION_STDDEV: { /* Welford */
        double x = aggregate_number(type, value), mean = lang_double(state[1]), d = x - mean;
        mean += d / (double)(state[0] + 1);
        state[1] = lang_bits(mean);
        state[2] = lang_bits(lang_double(state[2]) + d * (x - mean));
        break;
    }
    case FUNCTION_QUANTIZE:
    case FUNCTION_LQUANTIZE:
    case FUNCTION_LLQUANTIZE:
        if (!aggregate_histogram_add(m, &state[1], aggregate_bucket_of(a, value)))
            return 0;
        break;
    case FUNCTION_TOP:
        if (!aggregate_top_add(a, m, &state[1], value))
            return 0;
        break;
    case FUNCTION_DISTINCT: {
        const lang_string *s = type == TYPE_TEXT || type == TYPE_STACK ? lang_string_at(strings, value) : NULL;
        if (!aggregate_distinct_add(m, &state[1],
                                    s ? ea_hash64(s->text, s->len_bytes, 0) : ea_hash64(&value, sizeof value, 0)))
            return 0;
        break;
    }
    }
    state[0]++;
    return 1;
}

int lang_aggregate_add(lang_aggregate *a, const uint64_t *keys, uint64_t value, const lang_strings *strings) {
    uint64_t *state = lang_table_put(&a->table, keys);
    if (state && a->what->function == FUNCTION_SUM && a->what->type != TYPE_FLOAT) { /* the most frequent one */
        state[0]++;
        state[1] += value;
        return 0;
    }
    if (state && aggregate_add_value(a, state, value, strings))
        return 0;
    if (state && !*state)
        lang_table_remove(&a->table, keys);
    /* the one entry of others has room whatever the limit, so that no value is lost */
    lang_memory *m = a->table.memory;
    size_t limit_bytes = m->limit_bytes;
    m->limit_bytes = SIZE_MAX;
    (void)aggregate_add_value(a, a->others, value, strings);
    m->limit_bytes = limit_bytes;
    return 1;
}

enum lang_type lang_aggregate_type(const lang_aggregation *what) {
    switch (what->function) {
    case FUNCTION_COUNT:
    case FUNCTION_DISTINCT:
        return TYPE_UINT;
    case FUNCTION_AVG:
    case FUNCTION_STDDEV:
        return TYPE_FLOAT;
    case FUNCTION_SUM:
    case FUNCTION_MIN:
    case FUNCTION_MAX:
        return (enum lang_type)what->type;
    default:
        return TYPE_NONE;
    }
}

uint64_t lang_aggregate_result(const lang_aggregate *a, const uint64_t *state) {
    switch (a->what->function) {
    case FUNCTION_SUM:
    case FUNCTION_MIN:
    case FUNCTION_MAX:
        return state[1];
    case FUNCTION_AVG:
        return lang_bits(state[0] ? lang_double(state[1]) / (double)state[0] : 0);
    case FUNCTION_STDDEV:
        return lang_bits(state[0] ? sqrt(lang_double(state[2]) / (double)state[0]) : 0);
    case FUNCTION_DISTINCT:
        return aggregate_distinct_count(aggregate_as_pointer(state[1]));
    default:
        return state[0];
    }
}

uint64_t lang_aggregate_read(lang_aggregate *a, const uint64_t *keys) {
    const uint64_t *state = lang_table_get(&a->table, keys);
    return state ? lang_aggregate_result(a, state) : 0;
}

/* ---- order ---- */

typedef struct order {
    const lang_aggregate *a;
    const lang_strings *strings;
    enum lang_type type;
    uint64_t *results; /* of each entry: a number of distinct values costs more than a comparison */
} order;

static int aggregate_goes_before(const order *o, uint32_t x, uint32_t y) {
    const lang_aggregate *a = o->a;
    const uint64_t *ex = lang_table_entry(&a->table, x), *ey = lang_table_entry(&a->table, y);
    int d = aggregate_compare(o->type, o->strings, o->results[y], o->results[x]);
    for (unsigned k = 0; k < a->what->key_count && !d; k++)
        d = aggregate_compare((enum lang_type)a->what->keys[k], o->strings, ex[k], ey[k]);
    return d < 0 || (d == 0 && x < y);
}

uint32_t *lang_aggregate_sorted(const lang_aggregate *a, const lang_strings *strings) {
    size_t n = a->table.count;
    enum lang_type type = lang_aggregate_type(a->what);
    if (!n)
        return NULL;
    order o = {a, strings, type == TYPE_NONE ? TYPE_UINT : type, malloc(n * sizeof *o.results)};
    uint32_t *numbers = malloc(2 * n * sizeof *numbers), *from = numbers, *to = numbers ? numbers + n : NULL;
    if (!numbers || !o.results) {
        free(numbers);
        free(o.results);
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        numbers[i] = i;
        o.results[i] = lang_aggregate_result(a, lang_table_entry(&a->table, i) + a->what->key_count);
    }
    for (size_t run = 1; run < n; run *= 2) { /* merge sort: no state of its own, no worst case */
        for (size_t begin = 0; begin < n; begin += 2 * run) {
            size_t i = begin, middle = begin + run < n ? begin + run : n,
                   end = begin + 2 * run < n ? begin + 2 * run : n;
            size_t j = middle, k = begin;
            while (i < middle || j < end)
                to[k++] =
                    j >= end || (i < middle && !aggregate_goes_before(&o, from[j], from[i])) ? from[i++] : from[j++];
        }
        uint32_t *other = from;
        from = to;
        to = other;
    }
    if (from != numbers)
        memcpy(numbers, from, n * sizeof *numbers);
    free(o.results);
    return numbers;
}

void lang_aggregate_trunc(lang_aggregate *a, int64_t count, const lang_strings *strings) {
    size_t n = a->table.count, keep = count < 0 ? (size_t)(0 - (uint64_t)count) : (size_t)count;
    if (!count) {
        lang_aggregate_clear(a);
        return;
    }
    if (keep >= n)
        return;
    uint32_t *sorted = lang_aggregate_sorted(a, strings);
    if (!sorted)
        return;
    unsigned keys = a->what->key_count;
    uint64_t *gone = malloc((n - keep) * (keys ? keys : 1) * sizeof *gone);
    for (size_t i = 0; gone && i < n - keep; i++)
        memcpy(gone + i * keys, lang_table_entry(&a->table, sorted[count < 0 ? i : keep + i]), keys * sizeof *gone);
    for (size_t i = 0; gone && i < n - keep; i++) {
        uint64_t *state = lang_table_get(&a->table, gone + i * keys);
        if (state) {
            if (a->table.word_count > 1)
                aggregate_free_state(a, state);
            lang_table_remove(&a->table, gone + i * keys);
        }
    }
    free(gone);
    free(sorted);
}
