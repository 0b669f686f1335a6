/* See span_numbers.h. */
#include "collector/detect/span_numbers.h"

#include "proto/base/array.h"

#include <inttypes.h>
#include <stdlib.h>

enum { THOUSANDTHS = 1000 };

void ec_span_numbers_init(ec_span_numbers *n) {
    *n = (ec_span_numbers){.count = 0};
}

void ec_span_numbers_deinit(ec_span_numbers *n) {
    free(n->hits);
    free(n->sorted);
    free(n->tree);
}

static int span_number_parse(const char *text, __int128 *ret) {
    uint64_t magnitude = 0;
    int is_negative = text && *text == '-', has_sign = is_negative || (text && *text == '+');
    if (!text || ea_u64_parse(text + has_sign, &magnitude))
        return 0;
    *ret = is_negative ? -(__int128)magnitude : (__int128)magnitude;
    return 1;
}

static int compare_span_numbers(const void *a, const void *b) {
    const ec_span_number *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? -1 : 1;
    return (x->hit > y->hit) - (x->hit < y->hit);
}

int ec_span_numbers_begin(ec_span_numbers *n, size_t count, const char *(*value_of)(void *arg, size_t i), void *arg) {
    n->number_count = 0;
    n->count = 0;
    n->sum = 0;
    if (EA_GROW(n->hits, n->hit_capacity, count + 1, SIZE_MAX) ||
        EA_GROW(n->sorted, n->sorted_capacity, count + 1, SIZE_MAX) ||
        EA_GROW(n->tree, n->tree_capacity, count + 1, SIZE_MAX))
        return EA_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        ec_span_number *one = &n->hits[i];
        *one = (ec_span_number){.hit = (uint32_t)i};
        if (span_number_parse(value_of(arg, i), &one->value))
            n->sorted[n->number_count++] = *one;
    }
    if (n->number_count > 1)
        qsort(n->sorted, n->number_count, sizeof *n->sorted, compare_span_numbers);
    for (uint32_t i = 0; i < n->number_count; i++)
        n->hits[n->sorted[i].hit].rank = i + 1;
    for (uint32_t i = 0; i <= n->number_count; i++)
        n->tree[i] = 0;
    return 0;
}

static void span_number_change(ec_span_numbers *n, size_t hit, int change) {
    const ec_span_number *one = &n->hits[hit];
    if (!one->rank)
        return;
    n->count += (uint64_t)(int64_t)change;
    n->sum += change * one->value;
    for (uint32_t i = one->rank; i <= n->number_count; i += i & -i)
        n->tree[i] += (uint32_t)change;
}

void ec_span_numbers_add(ec_span_numbers *n, size_t hit) {
    span_number_change(n, hit, 1);
}

void ec_span_numbers_remove(ec_span_numbers *n, size_t hit) {
    span_number_change(n, hit, -1);
}

/* The least number of the span that percent of its numbers are not above: the nearest rank. The span has a number. */
static __int128 percentile_of_span(const ec_span_numbers *n, uint32_t percent) {
    uint64_t wanted = (n->count * percent + 99) / 100;
    uint32_t at = 0, step = 1;
    while (step <= n->number_count / 2)
        step *= 2;
    for (; step; step /= 2) /* the last rank before which fewer than wanted are in the span */
        if (at + step <= n->number_count && n->tree[at + step] < wanted)
            wanted -= n->tree[at += step];
    return n->sorted[at].value;
}

int ec_span_numbers_hold(const ec_span_numbers *n, const ea_rule_correlation *c) {
    __int128 least = c->least;
    if (!n->count)
        return 0;
    if (c->type == EA_VALUE_AVG)
        return c->is_above ? n->sum > least * n->count : n->sum >= least * n->count;
    return (c->type == EA_VALUE_SUM ? n->sum : percentile_of_span(n, c->percent)) >= least;
}

static void write_span_number(__int128 value, ea_text *out) {
    char digits[48];
    size_t at = sizeof digits - 1;
    int is_negative = value < 0;
    digits[at] = 0;
    do {
        int digit = (int)(value % 10);
        digits[--at] = (char)('0' + (digit < 0 ? -digit : digit));
        value /= 10;
    } while (value);
    if (is_negative)
        digits[--at] = '-';
    ea_text_str(out, digits + at);
}

void ec_span_numbers_write(const ec_span_numbers *n, const ea_rule_correlation *c, ea_text *out) {
    if (c->type == EA_VALUE_AVG) {
        __int128 magnitude = n->sum < 0 ? -n->sum : n->sum;
        ea_text_str(out, n->sum < 0 ? "-" : "");
        write_span_number(magnitude / n->count, out);
        ea_text_printf(out, ".%03" PRIu64, (uint64_t)(magnitude % n->count * THOUSANDTHS / n->count));
    } else {
        write_span_number(c->type == EA_VALUE_SUM ? n->sum : percentile_of_span(n, c->percent), out);
    }
}
