/* The list of counters: each number on the wire and each name once, and each part as FORMAT.md's numbers have it. */
#include "proto/base/counters.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void numbers_and_names_are_unique(void **state) {
    (void)state;
    for (int i = 0; i < EA_COUNTER_COUNT; i++)
        for (int k = 0; k < i; k++) {
            const ea_counter_info *a = ea_counter_row((enum ea_counter)i), *b = ea_counter_row((enum ea_counter)k);
            assert_int_not_equal(a->number, b->number);
            assert_string_not_equal(a->name, b->name);
        }
}

/* A collector may have batches of a version that had these. */
static void numbers_of_removed_counters_stay_free(void **state) {
    (void)state;
#define X(name, number) assert_int_equal(ea_counter_of_number(number), EA_COUNTER_COUNT);
    EA_REMOVED_COUNTERS(X)
#undef X
}

static void parts_are_as_they_were_published(void **state) {
    (void)state;
    for (int i = 0; i < EA_COUNTER_COUNT; i++) {
        const ea_counter_info *row = ea_counter_row((enum ea_counter)i);
        int is_later = row->number == 192 || row->number == 193 || row->number == 198 || row->number == 199 ||
                       (row->number >= 230 && row->number <= 235) || (row->number >= 250 && row->number <= 254) ||
                       (row->number >= 256 && row->number <= 265) || row->number == 244;
        int is_ledger = row->number < 50 || row->number == 122 || is_later;
        int is_agents = row->number < 70 || (row->number >= 110 && row->number <= 118) ||
                        (row->number >= 120 && row->number <= 126) || (row->number >= 195 && row->number <= 197) ||
                        row->number == 236 || row->number == 255 || is_later;
        print_message("%s\n", row->name);
        assert_int_equal(row->part == EA_OF_LEDGER, is_ledger);
        assert_int_equal(row->part != EA_OF_COLLECTOR, is_agents);
        if (row->part == EA_OF_COLLECTOR) {
            assert_false(row->is_news); /* it travels in no batch */
            assert_int_equal(row->type, EA_COUNTER);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_and_names_are_unique),
        cmocka_unit_test(numbers_of_removed_counters_stay_free),
        cmocka_unit_test(parts_are_as_they_were_published),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
