/* Columns in memory and Parquet files of them: what is refused, and that a file has its name only when it is whole.
 * What is in the files: tests/e2e/test_columnar.py. */
#include "collector/columnar/parquet.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const ec_file_column TEXT = {"text", EC_COLUMN_TEXT, 0, 1}, NUMBER = {"number", EC_COLUMN_UNSIGNED, 64, 0};
static ea_err err;

static const char *text_at(const ec_column_buffer *b, uint32_t value) {
    static char out[64];
    uint32_t n;
    const char *text = ec_column_text(b, b->is_dictionary ? (uint32_t)ec_column_number(b, value) : value, &n);
    snprintf(out, sizeof out, "%.*s", (int)n, text);
    return out;
}

static void test_equal_values_take_no_memory(void **state) {
    ec_column_buffer b;
    (void)state;
    ec_column_buffer_init(&b, &NUMBER);
    assert_int_equal(ec_column_add_number(&b, 5, EC_COLUMN_ROWS_MAX - 2), 0);
    assert_int_equal(ec_column_buffer_memory(&b), 0);
    assert_int_equal(ec_column_add_number(&b, 5, 3), EA_ELIMIT);
    assert_int_equal(ec_column_add_number(&b, 6, 1), 0);
    assert_int_equal(b.rows, EC_COLUMN_ROWS_MAX - 1);
    assert_int_equal(ec_column_number(&b, 0), 5);
    assert_int_equal(ec_column_number(&b, b.values - 1), 6);
    ec_column_buffer_clear(&b);
    assert_int_equal(ec_column_buffer_memory(&b), 0);
    assert_int_equal(b.rows, 0);
    ec_column_buffer_deinit(&b);
}

static void test_null_only_where_it_may_be(void **state) {
    ec_column_buffer b;
    (void)state;
    ec_column_buffer_init(&b, &NUMBER);
    assert_int_equal(ec_column_add_null(&b, 1), EA_EINVAL);
    ec_column_buffer_deinit(&b);
    ec_column_buffer_init(&b, &TEXT);
    assert_int_equal(ec_column_add_null(&b, 2), 0);
    assert_false(ec_column_is_present(&b, 1));
    assert_int_equal(ec_column_add_text(&b, "x", 1, 2), 0);
    assert_int_equal(ec_column_add_null(&b, 1), 0);
    const uint8_t wanted[] = {0, 0, 1, 1, 0};
    for (uint32_t i = 0; i < sizeof wanted; i++)
        assert_int_equal(ec_column_is_present(&b, i), wanted[i]);
    assert_int_equal(b.nulls, 3);
    ec_column_buffer_deinit(&b);
}

static void test_texts_are_kept_once_until_there_are_too_many(void **state) {
    ec_column_buffer b;
    char text[32];
    (void)state;
    ec_column_buffer_init(&b, &TEXT);
    for (unsigned i = 0; i < 3 * EC_COLUMN_TEXTS_MAX / 2; i++) {
        int n = snprintf(text, sizeof text, "t%u", i / 2);
        assert_int_equal(ec_column_add_text(&b, text, (size_t)n, 1), 0);
    }
    assert_true(b.is_dictionary);
    assert_int_equal(b.text_count, 3 * EC_COLUMN_TEXTS_MAX / 4);
    for (unsigned i = 3 * EC_COLUMN_TEXTS_MAX / 2; i < 3 * EC_COLUMN_TEXTS_MAX; i++) {
        int n = snprintf(text, sizeof text, "t%u", i / 2);
        assert_int_equal(ec_column_add_text(&b, text, (size_t)n, 1), 0);
    }
    assert_false(b.is_dictionary);
    assert_int_equal(b.values, 3 * EC_COLUMN_TEXTS_MAX);
    for (unsigned i = 0; i < b.values; i += 777) {
        snprintf(text, sizeof text, "t%u", i / 2);
        assert_string_equal(text_at(&b, i), text);
    }
    ec_column_buffer_deinit(&b);
}

static void test_texts_that_are_no_utf8_are_repaired_and_stay_one(void **state) {
    ec_column_buffer b;
    (void)state;
    ec_column_buffer_init(&b, &TEXT);
    assert_int_equal(ec_column_add_text(&b, "a\xff", 2, 1), 0);
    assert_int_equal(ec_column_add_text(&b, "a\xfe", 2, 1), 0);
    assert_int_equal(ec_column_add_text(&b, "a?", 2, 1), 0);
    assert_int_equal(b.text_count, 1);
    assert_string_equal(text_at(&b, 2), "a?");
    ec_column_buffer_deinit(&b);
}

static ec_parquet *begin(const char *path, const ec_file_column *columns, uint32_t count) {
    ec_parquet *p = NULL;
    assert_int_equal(
        ec_parquet_create(
            &p, path, &(ec_column_file_options){.columns = columns, .column_count = count, .created_by = "test"}, &err),
        0);
    return p;
}

static void test_a_file_has_its_name_when_it_is_whole(void **state) {
    ec_column_buffer b;
    ec_parquet *other = NULL;
    (void)state;
    const char *path = scratch_path("x.parquet"), *partial = scratch_path(".x.parquet.partial");
    ec_column_buffer_init(&b, &NUMBER);
    assert_int_equal(ec_column_add_number(&b, 1, 3), 0);
    ec_parquet *p = begin(path, &NUMBER, 1);
    assert_true(ea_path_exists(partial));
    assert_int_equal(ec_parquet_add(p, &b, &err), 0);
    assert_int_equal(ec_parquet_publish(p, &err), EA_EINVAL);
    assert_non_null(strstr(err.message, "the file is not whole"));
    ec_parquet_destroy(p);
    assert_false(ea_path_exists(partial));
    assert_false(ea_path_exists(path));
    p = begin(path, &NUMBER, 1);
    assert_int_equal(ec_parquet_add(p, &b, &err), 0);
    assert_int_equal(ec_parquet_finish(p, &err), 0);
    assert_false(ea_path_exists(path));
    assert_int_equal(ec_parquet_publish(p, &err), 0);
    assert_int_equal(ec_parquet_rows(p), 3);
    ec_parquet_destroy(p);
    assert_true(ea_path_exists(path));
    assert_false(ea_path_exists(partial));
    assert_int_equal(
        ec_parquet_create(&other, path, &(ec_column_file_options){.columns = &NUMBER, .column_count = 1}, &err),
        EA_EEXIST);
    ec_column_buffer_deinit(&b);
}

static void test_columns_of_different_lengths_are_refused(void **state) {
    const ec_file_column columns[] = {NUMBER, TEXT};
    ec_column_buffer b[2];
    (void)state;
    ec_column_buffer_init(&b[0], &columns[0]);
    ec_column_buffer_init(&b[1], &columns[1]);
    ec_parquet *p = begin(scratch_path("y.parquet"), columns, 2);
    assert_int_equal(ec_parquet_add(p, b, &err), EA_EINVAL);
    assert_non_null(strstr(err.message, "no rows"));
    ec_parquet_destroy(p);
    assert_int_equal(ec_column_add_number(&b[0], 1, 2), 0);
    assert_int_equal(ec_column_add_null(&b[1], 3), 0);
    p = begin(scratch_path("y.parquet"), columns, 2);
    assert_int_equal(ec_parquet_add(p, b, &err), EA_EINVAL);
    assert_non_null(strstr(err.message, "column text has 3 rows, expected 2"));
    assert_int_equal(ec_parquet_finish(p, &err), EA_EINVAL);
    ec_parquet_destroy(p);
    ec_column_buffer_deinit(&b[0]);
    ec_column_buffer_deinit(&b[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_values_take_no_memory),
        cmocka_unit_test(test_null_only_where_it_may_be),
        cmocka_unit_test(test_texts_are_kept_once_until_there_are_too_many),
        cmocka_unit_test(test_texts_that_are_no_utf8_are_repaired_and_stay_one),
        cmocka_unit_test_setup_teardown(test_a_file_has_its_name_when_it_is_whole, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_columns_of_different_lengths_are_refused, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
