/* The numbers of one field in a span that moves over hits in their order: how many there are, their sum, their average
 * and the one at a percentile. Whole numbers of 64 bits count, decimal or hexadecimal after 0x, with a sign or without;
 * other texts do not. Sums are exact. Called by: correlations.c. Thread: that of its owner.
 *
 * A number that comes or goes costs time by the logarithm of the count of hits, so that a span of many does not cost
 * its length for each of them. */
#ifndef EC_DETECT_SPAN_NUMBERS_H
#define EC_DETECT_SPAN_NUMBERS_H

#include "proto/base/text.h"
#include "proto/rules/rules.h"

typedef struct ec_span_number {
    __int128 value;
    uint32_t hit, rank; /* rank: from 1 in ascending order, of all hits; 0: the hit has no number */
} ec_span_number;

typedef struct ec_span_numbers {
    ec_span_number *hits, *sorted;
    uint32_t *tree; /* how many are in the span, by rank: a Fenwick tree */
    size_t hit_capacity, sorted_capacity, tree_capacity;
    uint32_t number_count; /* of all hits */
    uint64_t count;        /* in the span */
    __int128 sum;          /* of these */
} ec_span_numbers;

void ec_span_numbers_init(ec_span_numbers *n);
void ec_span_numbers_deinit(ec_span_numbers *n);
/* Begins with no hit in the span. value_of(arg, i): the text of hit i, or NULL. count < UINT32_MAX. EA_ENOMEM. */
EA_MUST_CHECK int ec_span_numbers_begin(ec_span_numbers *n, size_t count, const char *(*value_of)(void *arg, size_t i),
                                        void *arg);
void ec_span_numbers_add(ec_span_numbers *n, size_t hit);
void ec_span_numbers_remove(ec_span_numbers *n, size_t hit);
/* Whether the condition of EA_VALUE_SUM, _AVG or _PERCENTILE holds; without a number in the span none does. */
int ec_span_numbers_hold(const ec_span_numbers *n, const ea_rule_correlation *c);
/* What the condition compares: for an average three decimals, which are cut. */
void ec_span_numbers_write(const ec_span_numbers *n, const ea_rule_correlation *c, ea_text *out);

#endif
