/* What numbers of a table are compared with in a statement: an address only with addresses, a time only with times,
 * and no number with a text that is none. Streams of known times, one after another and inside each other. */
#include "collector/query/sql/sql.h"
#include "collector/store/store.h"
#include "service/batch/builder.h"
#include "tests/unit/machine_records.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define EPOCH_NS INT64_C(1700000000000000000)

static ec_sql *sql;

static void must(int rc, const ea_err *err) {
    if (rc)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

/* A stream of two images of a machine, one loaded at its first time and one at its last, by processes 10 and 11 in the
 * first stream, 20 and 21 in the second one, ... */
static void add_stream(ec_store *store, const char *host, uint8_t which, int64_t first, int64_t last) {
    ea_wire_source source = {.name = "",
                             .host = "MACHINE",
                             .clock = {.type = EA_CLOCK_QPC, .frequency = 1000000000, .base_utc_ns = EPOCH_NS},
                             .pointer_size = 8,
                             .cpu_count = 4};
    ea_builder_options bo = {.sources = &source, .source_count = 1};
    ea_encoder_options eo = {.all_descriptions = 1, .stream = {which}};
    const int64_t times[] = {first, last};
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    const uint8_t *data;
    size_t n;
    made_record r;
    ea_err err = {0};
    must(ea_registry_create(&registry, 0, &err), &err);
    must(ea_builder_create(&builder, &bo, &err), &err);
    must(ea_encoder_create(&encoder, &eo, &err), &err);
    for (int i = 0; i < 2; i++) {
        const ea_record *record = image_record(&r, OP_LOAD, times[i], 4, i ? 0xfffff80000000000u : 5, 0x1000, "a.dll");
        r.record.pid = 10u * which + (uint32_t)i;
        assert_true(ea_builder_add(builder, record, ea_registry_find(registry, record)) >= 0);
    }
    ea_open_batch *open = ea_builder_take(builder);
    assert_non_null(open);
    must(ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = 1}, &data, &n, &err), &err);
    assert_int_equal(ec_store_append(store, host, data, n, &err), EC_STORED);
    ea_open_batch_release(open);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
}

static int setup(void **state) {
    ec_store *store = NULL;
    ea_err err = {0};
    if (scratch_make(state) || ec_store_open(&store, scratch_path("."), &(ec_store_options){.writable = 1}, &err))
        return -1;
    add_stream(store, "alpha", 1, 1000, 2000);
    add_stream(store, "beta", 2, 500, 1500);
    add_stream(store, "gamma", 3, 700, 3000);
    add_stream(store, "delta", 4, 800, 1200);
    must(ec_store_commit(store, &err), &err);
    ec_store_close(store);
    return ec_sql_open(&sql, scratch_path("."), &(ec_sql_options){0}, &err);
}

static int teardown(void **state) {
    ec_sql_close(sql);
    return scratch_clear(state);
}

/* The first cell as text, "NULL", or "! " and the error; malloc'd by SQLite. */
static char *first_cell(const char *statement) {
    sqlite3_stmt *s = NULL;
    ea_err err = {0};
    char *out;
    int code = ec_sql_prepare(sql, statement, &s, NULL, &err);
    if (code == SQLITE_OK)
        code = sqlite3_step(s);
    if (code == SQLITE_ROW)
        out = sqlite3_mprintf("%s", sqlite3_column_type(s, 0) == SQLITE_NULL ? "NULL"
                                                                             : (const char *)sqlite3_column_text(s, 0));
    else
        out = sqlite3_mprintf("! %s", code == SQLITE_DONE ? "no row"
                                      : err.code          ? err.message
                                                          : sqlite3_errmsg(ec_sql_database(sql)));
    sqlite3_finalize(s);
    assert_non_null(out);
    return out;
}

typedef struct expectation {
    const char *sql, *expected; /* after SELECT; the first cell, or "! " and how the error begins */
} expectation;

static void check(const expectation *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *statement = sqlite3_mprintf("SELECT %s", list[i].sql);
        assert_non_null(statement);
        char *got = first_cell(statement);
        int is_error = *list[i].expected == '!';
        if (is_error ? strncmp(got, list[i].expected, strlen(list[i].expected)) != 0
                     : strcmp(got, list[i].expected) != 0)
            fail_msg("%s gives %s, not %s", list[i].sql, got, list[i].expected);
        sqlite3_free(got);
        sqlite3_free(statement);
    }
}

#define CHECK(list) check(list, sizeof(list) / sizeof((list)[0]))

/* The first and the last event of all streams, whichever stream has them. */
static void test_times_of_data(void **state) {
    static const expectation LIST[] = {
        {"time_ns('start')", "1700000000000000500"},
        {"time_ns('end')", "1700000000000003001"},
        {"time_ns('+10ns')", "1700000000000000510"},
        {"time_ns('end-10ns')", "1700000000000002991"},
        {"time_ns('start') > 5 OR ImageBase > u64(5) FROM \"Image/Load\"", "1"},
        {"time_ns('10s')", "! time_ns: expected a time"},
    };
    (void)state;
    CHECK(LIST);
}

/* Numbers of addresses are turned (u64): a number as it is written is compared with none, wherever it occurs. */
static void test_addresses(void **state) {
    static const expectation LIST[] = {
        {"count(*) FROM \"Image/Load\" WHERE ImageBase > 5",
         "! ImageBase is an address, whose numbers are turned: write u64('5')"},
        {"count(*) FROM \"Image/Load\" WHERE 5 < ImageBase",
         "! ImageBase is an address, whose numbers are turned: write u64('5')"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageBase > 5", "! an address is compared with the number 5 here"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase IN (5, 6)", "! an address is compared with the number 5 here"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase NOT IN (5, 6)",
         "! an address is compared with the number 5 here"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase IN (u64(5), 4294967296)",
         "! an address is compared with the number 4294967296 here"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageBase = 4294967296",
         "! an address is compared with the number 4294967296 here"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase = 4294967296",
         "! ImageBase is an address, whose numbers are turned: write u64('4294967296')"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase BETWEEN 5 AND 6",
         "! ImageBase is an address, whose numbers are turned: write u64('5')"},
        {"count(*) FROM \"Image/Load\" WHERE CASE WHEN ImageBase = 5 THEN 1 END",
         "! an address is compared with the number 5 here"},
        {"count(*) FROM \"Image/Load\" WHERE CASE ImageBase WHEN 5 THEN 1 END",
         "! an address is compared with the number 5 here"},
        {"sum(ImageBase = 5) FROM \"Image/Load\"", "! an address is compared with the number 5 here"},
        {"sum(ImageBase <> 5) FROM \"Image/Load\"", "! an address is compared with the number 5 here"},
        {"sum(ImageBase >= 5) FROM \"Image/Load\"", "! an address is compared with the number 5 here"},
        {"sum(5 <= ImageBase) FROM \"Image/Load\"", "! an address is compared with the number 5 here"},
        {"sum(ImageBase IN (5, 6)) FROM \"Image/Load\"", "! an address is compared with the number 5 here"},
        {"sum(ImageBase - 1 >= 5) FROM \"Image/Load\"", "4"},
        {"sum(coalesce(ImageBase, 0) >= 5) FROM \"Image/Load\"", "! an address is compared with the number 5 here"},
        {"sum(ImageBase >= u64(5)) FROM \"Image/Load\"", "8"},
        {"sum(ImageSize IN (5, 6) AND ImageBase > u64(4)) FROM \"Image/Load\"", "0"},
        {"sum(ImageBase IN (u64(5), u64(6))) FROM \"Image/Load\"", "4"},
        {"sum(pid = 5 AND ImageBase > u64(4)) FROM \"Image/Load\"", "0"},
        {"sum(ImageBase > u64(4) AND pid = 5) FROM \"Image/Load\"", "0"},
        {"ImageBase, count(*) FROM \"Image/Load\" WHERE ImageBase IN (5, 6) GROUP BY ImageBase",
         "! an address is compared with the number 5 here"},
        {"ImageBase, count(*) FROM \"Image/Load\" WHERE ImageSize IN (5, 6) GROUP BY ImageBase", "! no row"},
        {"ImageBase, count(*) FROM \"Image/Load\" WHERE ImageBase IN (u64(5), u64(6)) AND ImageSize IN (5, 6) GROUP BY "
         "ImageBase",
         "! no row"},
        {"ImageBase, count(*) FROM \"Image/Load\" WHERE ImageSize IN (5, 6) AND ImageBase IN (5, 6) GROUP BY ImageBase",
         "! an address is compared with the number 5 here"},
        {"ImageBase, count(*) FROM \"Image/Load\" WHERE pid = 5 AND ImageBase IN (5, 6) GROUP BY ImageBase",
         "! an address is compared with the number 5 here"},
        {"ImageBase, count(*) FROM \"Image/Load\" GROUP BY ImageBase HAVING ImageBase > 5",
         "! ImageBase is an address, whose numbers are turned: write u64('5')"},
        {"ImageBase FROM \"Image/Load\" WHERE ImageBase = '5'", "-9223372036854775803"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT ImageBase = '0x5'",
         "! a number is compared with the text '0x5' here: write u64"},
        {"ImageBase FROM \"Image/Load\" WHERE ImageBase = '0x5'", "-9223372036854775803"},
        {"ImageBase FROM \"Image/Load\" WHERE ImageBase = 'x5'", "! an address cannot be compared with 'x5'"},
        {"sum(ImageBase > 5.5) FROM \"Image/Load\"", "4"},
        {"sum(ImageBase || '' > 5) FROM \"Image/Load\"", "8"},
        {"sum(CASE WHEN pid THEN ImageBase END > 5) FROM \"Image/Load\"",
         "! an address is compared with the number 5 here"},
        {"sum(5 > 4 AND ImageBase > u64(4)) FROM \"Image/Load\"", "8"},
        {"count(*) FROM (SELECT ImageBase AS b FROM \"Image/Load\" LIMIT 5) WHERE b > 5",
         "! an address is compared with the number 5 here"},
        {"count(*) FROM \"Image/Load\" WHERE pid IN (5, 4) AND ImageBase > u64(5)", "0"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase IN (5)",
         "! ImageBase is an address, whose numbers are turned: write u64('5')"},
        {"ImageBase, pid, count(*) FROM \"Image/Load\" WHERE pid IN (4, 5) AND ImageBase IN (6, 7) GROUP BY ImageBase, "
         "pid",
         "! an address is compared with the number 6 here"},
        {"ImageBase, pid, count(*) FROM \"Image/Load\" WHERE ImageBase IN (6, 7) AND pid IN (4, 5) GROUP BY ImageBase, "
         "pid",
         "! an address is compared with the number 6 here"},
        {"max(ImageBase) FROM \"Image/Load\" HAVING min(ImageBase) = '0x5'",
         "! a number is compared with the text '0x5' here: write u64"},
        {"count(*) FROM batches WHERE host = '2024-05-17' AND NOT events = 5", "0"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase IN (5, 6, 7)",
         "! an address is compared with the number 7 here"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase NOT IN (5, 6, 7)",
         "! an address is compared with the number 7 here"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase NOT IN (u64(5), u64(6), 7)",
         "! an address is compared with the number 7 here"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase NOT IN (u64(5), u64(6), u64(7))", "4"},
        {"count(*) FROM \"Image/Load\" WHERE pid NOT IN (5, 6, 7) AND ImageBase >= u64(5)", "8"},
        {"count(*) FROM \"Image/Load\" WHERE pid NOT IN (5, 6, 7) AND ImageBase NOT IN (u64(5), u64(6), u64(7))", "4"},
        {"count(*) FROM \"Image/Load\" WHERE ImageBase NOT IN (u64(5), u64(6), u64(7)) AND pid NOT IN (5, 6, 7)", "4"},
        {"sum(ImageBase IN (5, 6, 7)) FROM \"Image/Load\"", "! an address is compared with the number 7 here"},
        {"sum(ImageBase NOT IN (u64(8), 6, 7)) FROM \"Image/Load\"", "! an address is compared with the number 7 here"},
        {"sum(ImageBase IN (u64(5), u64(6), u64(7))) FROM \"Image/Load\"", "4"},
        {"sum(pid IN (5, 6, 7) OR ImageBase IN (u64(5), u64(6), u64(7))) FROM \"Image/Load\"", "4"},
        {"sum(ImageBase IN (4294967296, 4294967297, 4294967298)) FROM \"Image/Load\"",
         "! an address is compared with the number 4294967298 here"},
        {"ImageBase, count(*) FROM \"Image/Load\" WHERE ImageBase IN (5, 6, 7) GROUP BY ImageBase",
         "! an address is compared with the number 7 here"},
        {"ImageBase, count(*) FROM \"Image/Load\" WHERE host IN ('alpha', 'beta', 'gamma') AND ImageBase IN (5, 6, 7) "
         "GROUP BY ImageBase",
         "! an address is compared with the number 7 here"},
        {"count(*) FROM \"Image/Load\" WHERE host IN ('alpha', 'beta', 'gamma') AND pid IN (5, 6, 7) AND ImageBase IN "
         "(5, 6, 7)",
         "! an address is compared with the number 7 here"},
        {"count(*) FROM \"Image/Load\" WHERE host IN ('alpha', 'beta', 'gamma') AND pid NOT IN (5, 6, 7) AND ImageBase "
         "IN (u64(5), u64(6), u64(7))",
         "3"},
        {"count(*) FROM \"Image/Load\" WHERE ProcessId IN (4, 6, 7) AND ImageChecksum IN (4660, 6, 7) AND ImageBase IN "
         "(u64(5), u64(6), u64(7))",
         "4"},
        {"count(*) FROM \"Image/Load\" WHERE ProcessId IN (4, 6, 7) AND ImageChecksum IN (4660, 6, 7) AND ImageBase IN "
         "(u64(5), u64(6), 7)",
         "! an address is compared with the number 7 here"},
        {"count(*) FROM \"Image/Load\" WHERE ImageSize IN (4096, 6, 7) AND DefaultBase IN (5, 6, 7)",
         "! an address is compared with the number 7 here"},
        {"count(*) FROM \"Image/Load\" WHERE ImageSize IN (4096, 6, 7) AND DefaultBase IN (u64(5), u64(6), u64(7))",
         "4"},
        {"sum(ImageBase > iif(pid = 4, u64(5), u64(6))) FROM \"Image/Load\"", "4"},
        {"sum(ImageBase >= iif(ImageSize = 5, u64(5), u64(6))) FROM \"Image/Load\"", "4"},
        {"sum(iif(pid = 4, ImageBase, 5) > 6) FROM \"Image/Load\"", "! an address is compared with the number 6 here"},
        {"sum(iif(pid = 4, u64(5), ImageBase) > 6) FROM \"Image/Load\"",
         "! an address is compared with the number 6 here"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageBase = 0", "! an address is compared with the number 0 here"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageBase = 9", "! an address is compared with the number 9 here"},
        {"count(*) FROM (SELECT ImageBase AS b, pid AS p FROM \"Image/Load\" LIMIT 5) WHERE p >= 5 AND b >= u64(5)",
         "5"},
        {"count(*) FROM \"Image/Load\" AS a JOIN \"Image/Load\" AS b ON a.ImageBase = b.ImageBase", "32"},
        {"count(*) FROM \"Image/Load\" AS a JOIN \"Image/Load\" AS b ON a.ImageBase = b.ImageBase AND a.ImageSize > 5",
         "32"},
        {"count(*) FROM \"Image/Load\" AS a JOIN batches AS b ON a.time = b.begin AND a.ImageBase <> 5",
         "! ImageBase is an address, whose numbers are turned: write u64('5')"},
        {"count(*) FROM batches AS b JOIN \"Image/Load\" AS a ON a.time = b.begin AND b.events <> 5", "4"},
    };
    (void)state;
    CHECK(LIST);
}

/* A text that is no number, beside numbers: refused as far as the statement shows that only numbers are compared. */
static void test_texts(void **state) {
    static const expectation LIST[] = {
        {"sum(ImageSize >= 5) FROM \"Image/Load\"", "8"},
        {"sum(ImageSize IN (5, 6)) FROM \"Image/Load\"", "0"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = '0123'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = 'ax12'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = '0x1g'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = '0x'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = '5 x'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = ''", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = ' 5 '", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = 'inf'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = 'nan'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT ImageSize = '1e3'", "8"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT time = '2024-05-17'",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT time + 5 > '2024-05-17'",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT coalesce(time, now()) > '2024-05-17'",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT coalesce(time, now()) = '2024-05-17'", "-9223372036854775803"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT coalesce(time, now()) > 'now'",
         "! a number is compared with the text 'now' here: write time_ns"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT coalesce(time, host) > 'now'", "-9223372036854775803"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT coalesce(time, host) > '2024-05-17'", "-9223372036854775803"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT coalesce(time, now()) > '0x5'", "-9223372036854775803"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT time + 1 > '0x5'",
         "! a number is compared with the text '0x5' here: write u64"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT time + 1 > 'abc'",
         "! a number is compared with the text 'abc' here, which no number equals"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT time + 1 > 'now'",
         "! a number is compared with the text 'now' here: write time_ns"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT now() - 5 > 'yesterday'",
         "! a number is compared with the text 'yesterday' here: write time_ns"},
        {"ImageBase FROM \"Image/Load\" WHERE NOT host = 'yesterday'", "-9223372036854775803"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '0123'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '0'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = 'ax12'",
         "! a number is compared with the text 'ax12' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '0x1g'",
         "! a number is compared with the text '0x1g' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '0x'",
         "! a number is compared with the text '0x' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '5 x'",
         "! a number is compared with the text '5 x' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = ''",
         "! a number is compared with the text '' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = ' 5 '", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = 'inf'",
         "! a number is compared with the text 'inf' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = 'nan'",
         "! a number is compared with the text 'nan' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '1e3'", "8"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '2024-05-17'",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '2024-05-1'",
         "! a number is compared with the text '2024-05-1' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '2024x05-17'",
         "! a number is compared with the text '2024x05-17' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '2024-05x17'",
         "! a number is compared with the text '2024-05x17' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = '/024-05-17'",
         "! a number is compared with the text '/024-05-17' here, which no number equals"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = ':024-05-17'",
         "! a number is compared with the text ':024-05-17' here, which no number equals"},
        {"sum(rowid = 5) FROM \"Image/Load\"", "0"},
        {"sum(host > 5) FROM \"Image/Load\"", "8"},
        {"sum(-time > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(abs(time) > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(time + 0.5 > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(time || '' > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(CAST(time AS TEXT) > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(time_bucket(time, 5) > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(time_text(time) > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(coalesce(NULL, host) > '2024-05-17') FROM \"Image/Load\"", "8"},
        {"sum(iif(pid = 4, time, now()) > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(iif(pid = 4, time, host) > '2024-05-17') FROM \"Image/Load\"", "8"},
        {"sum(iif(pid = 4, time, 'x') > '2024-05-17') FROM \"Image/Load\"", "8"},
        {"sum(unixepoch(host) > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(ago('5s') > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(length(host) > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"count(*) FROM events WHERE NOT pid = 5", "8"},
        {"max(pid) FROM \"Image/Load\" HAVING max(pid) = '0x5'",
         "! a number is compared with the text '0x5' here: write u64"},
        {"max(pid) FROM \"Image/Load\" HAVING max(time_text(time)) > '2024-05-17'", "! no row"},
        {"max(pid) FROM \"Image/Load\" HAVING max(time) > '2024-05-17'",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"count(*) FROM batches WHERE NOT begin = '2024-05-17' AND host = 'x'",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(host || 'x' > '2024-05-17' AND time + 5 > pid + 7) FROM \"Image/Load\"", "8"},
        {"sum('2024-05-17' < host || 'x' AND time + 5 > pid + 7) FROM \"Image/Load\"", "8"},
        {"sum(time + 5 > pid + 7 AND 'now' < host || 'x') FROM \"Image/Load\"", "0"},
        {"sum('2024-05-17' < time + 5) FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum('now' > coalesce(time, now())) FROM \"Image/Load\"",
         "! a number is compared with the text 'now' here: write time_ns"},
        {"count(*) FROM \"Image/Load\" WHERE NOT pid = 'abc'",
         "! a number is compared with the text 'abc' here, which no number equals"},
        {"count(*) FROM batches WHERE coalesce(begin, host) > '2024-05-17'", "0"},
        {"count(*) FROM batches WHERE coalesce(begin, \"end\") > '2024-05-17'",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"count(*) FROM hosts WHERE coalesce(begin, host) > '2024-05-17'", "0"},
        {"count(*) FROM hosts WHERE coalesce(host, begin) > '2024-05-17'", "4"},
        {"sum(coalesce(time, fields) > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(coalesce(time, ImageSize) > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(coalesce(time, activity_id) > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(coalesce(time, FileName) > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(coalesce(time, ?1) > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(coalesce(time, 'x') > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(coalesce(time, host || 'x') > '2024-05-17') FROM \"Image/Load\"", "0"},
        {"sum(coalesce(time, 5) > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(coalesce(time, 5.5) > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
        {"sum(coalesce(time, NULL) > '2024-05-17') FROM \"Image/Load\"",
         "! a number is compared with the text '2024-05-17' here: write time_ns"},
    };
    (void)state;
    CHECK(LIST);
}

/* ---- bounds ---- */

static int holds(const char *op, long double left, long double right) {
    switch (*op) {
    case '=':
        return left == right;
    case '<':
        return op[1] ? left <= right : left < right;
    default:
        return op[1] ? left >= right : left > right;
    }
}

/* By SQLite's own count, and by that of the groups, which trusts the conditions of the scan. All have one file name. */
static void check_count(const char *condition, int64_t expected) {
    char *plain = sqlite3_mprintf("count(*) FROM \"Image/Load\" WHERE %s", condition);
    char *grouped = sqlite3_mprintf("count(*) FROM \"Image/Load\" WHERE %s GROUP BY FileName", condition);
    char *number = sqlite3_mprintf("%lld", (long long)expected);
    const expectation list[] = {{plain, number}, {grouped, expected ? number : "! no row"}};
    CHECK(list);
    sqlite3_free(number);
    sqlite3_free(grouped);
    sqlite3_free(plain);
}

/* Each comparison of a column of whole numbers with whole and real numbers, at and beside the number, and at both ends
 * of 64 bits: the same as in C. The column has one number in all 8 events. */
static void test_bounds(void **state) {
    static const struct {
        const char *column;
        int64_t value;
    } COLUMNS[] = {{"ImageSize", 4096}, {"ImageChecksum", 0x1234}, {"TimeDateStamp", 0}};

    static const struct {
        const char *text;
        long double value;
    } NUMBERS[] = {{"-9223372036854775808", -9223372036854775808.0L},
                   {"-9223372036854775807", -9223372036854775807.0L},
                   {"-1", -1},
                   {"-0.5", -0.5L},
                   {"0", 0},
                   {"0.0", 0},
                   {"0.5", 0.5L},
                   {"1", 1},
                   {"4095", 4095},
                   {"4095.5", 4095.5L},
                   {"4096", 4096},
                   {"4096.0", 4096},
                   {"4096.5", 4096.5L},
                   {"4097", 4097},
                   {"4659.5", 4659.5L},
                   {"4660", 4660},
                   {"4660.0", 4660},
                   {"4660.5", 4660.5L},
                   {"9223372036854775807", 9223372036854775807.0L},
                   {"9223372036854775808.0", 9223372036854775808.0L},
                   {"-9223372036854775808.0", -9223372036854775808.0L},
                   {"1e30", 1e30L},
                   {"-1e30", -1e30L}};

    static const char *const OPS[] = {"=", "<", "<=", ">", ">="};
    (void)state;
    for (size_t c = 0; c < sizeof COLUMNS / sizeof *COLUMNS; c++)
        for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++)
            for (size_t k = 0; k < sizeof OPS / sizeof *OPS; k++) {
                char *condition = sqlite3_mprintf("%s %s %s", COLUMNS[c].column, OPS[k], NUMBERS[i].text);
                check_count(condition, holds(OPS[k], COLUMNS[c].value, NUMBERS[i].value) ? 8 : 0);
                sqlite3_free(condition);
            }
}

/* Conditions of which the index is asked: times, processes, machines, names; each bound at and beside its number. Times
 * of events: alpha 1000 and 2000, beta 500 and 1500, gamma 700 and 3000, delta 800 and 1200. */
static void test_index(void **state) {
    static const struct {
        const char *condition;
        int64_t count;
    } LIST[] = {
        {"time >= 1700000000000001500", 3},
        {"time > 1700000000000001500", 2},
        {"time <= 1700000000000000800", 3},
        {"time < 1700000000000000800", 2},
        {"time = 1700000000000001200", 1},
        {"time BETWEEN 1700000000000000700 AND 1700000000000001000", 3},
        {"time > 1700000000000000700 AND time < 1700000000000001000", 1},
        {"time > 1700000000000001000 AND time >= 1700000000000000500", 4},
        {"time >= 1700000000000000500 AND time > 1700000000000001000", 4},
        {"time <= 1700000000000000700 AND time < 1700000000000002000", 2},
        {"time > 1700000000000001000 AND time < 1700000000000001000", 0},
        {"time >= 1700000000000001000 AND time <= 1700000000000001000", 1},
        {"time IN (1700000000000001000, 1700000000000003000, 1700000000000003001)", 2},
        {"time > 1700000000000003000", 0},
        {"time < 1700000000000000500", 0},
        {"time > NULL", 0},
        {"host = 'alpha'", 2},
        {"host IN ('alpha', 'delta', 'epsilon')", 4},
        {"host IN ('alph', 'alphaa', '')", 0},
        {"host > 'beta'", 4},
        {"host >= 'beta'", 6},
        {"host = 'alpha' AND host = 'beta'", 0},
        {"name = 'Image/Load'", 8},
        {"name = 'Image/Loa'", 0},
        {"name = 'image/load'", 0},
        {"name > 'Image/Load'", 0},
        {"name >= 'Image/Load'", 8},
        {"name <> 'x'", 8},
        {"provider_name <> 'x'", 8},
        {"provider_name = 'x'", 0},
        {"host = 5", 0},
        {"host IN ('alpha', NULL)", 2},
        {"host IN ('alpha', 5)", 2},
        {"FileName = 5", 0},
        {"FileName IN ('a.dll', 5)", 8},
        {"FileName IN (5, 6)", 0},
        {"FileName = NULL", 0},
        {"ImageSize IN (4096, NULL)", 8},
        {"ImageSize IN (4095, NULL)", 0},
        {"ImageSize IN (4096, 'x')", 8},
        {"ImageSize IN (4096.0, 1)", 8},
        {"ImageSize < x'00'", 8},
        {"ImageSize <= x'00'", 8},
        {"ImageSize > x'00'", 0},
        {"ImageSize >= x'00'", 0},
        {"ImageSize = x'00'", 0},
        {"ImageChecksum < x'00'", 8},
        {"ImageChecksum <= x'00'", 8},
        {"ImageChecksum > x'00'", 0},
        {"ImageChecksum >= x'00'", 0},
        {"name IN ('Image/Unload', 'Image/Load')", 8},
        {"name = 'Image/Load' AND host = 'gamma' AND time > 1700000000000000700", 1},
        {"ProcessId = 4", 8},
        {"ProcessId IN (3, 4, 5)", 8},
        {"ProcessId IN (3, 5)", 0},
        {"pid = 4", 0},
        {"pid = 20", 1},
        {"pid = 20.0", 1},
        {"pid = 20.5", 0},
        {"pid <> 10", 7},
        {"pid > 30", 3},
        {"pid >= 30", 4},
        {"pid IN (11, 10)", 2},
        {"pid IN (41, 10, 30)", 3},
        {"pid IN (41, 40, 31, 30, 21)", 5},
        {"pid IN (-1, 10)", 1},
        {"pid IN (10, 4294967316)", 1},
        {"pid = 10 AND pid = 11", 0},
        {"pid IN (10, 11) AND pid IN (11, 20)", 1},
        {"pid IN (10, 11) AND pid > 10", 1},
        {"provider_name = '2CB15D1D-5FC1-11D2-ABE1-00A0C911F518'", 8},
        {"provider_name IN ('x', '2CB15D1D-5FC1-11D2-ABE1-00A0C911F518')", 8},
        {"host IN ('x', 'alpha')", 2},
        {"pid IN (4, 7, 5, 6)", 0},
        {"batch = 1", 8},
        {"batch = 2", 0},
        {"batch = 1 AND position = 1", 4},
        {"position >= 1", 4},
        {"position < 1", 4},
        {"FileName = 'a.dll'", 8},
        {"FileName = 'a.dl'", 0},
        {"FileName = ''", 0},
        {"FileName > 'a.dll'", 0},
        {"FileName >= 'a.dll'", 8},
        {"opcode = 10 AND version = 3", 8},
        {"opcode = 10 AND version = 2", 0},
        {"version > 3", 0},
        {"ImageBase > u64(5)", 4},
        {"ImageBase >= u64(5)", 8},
        {"ImageBase < u64('0xfffff80000000000')", 4},
        {"ImageBase <= u64('0xfffff80000000000')", 8},
        {"ImageBase = u64('0xfffff80000000000') AND host = 'beta'", 1},
        {"ImageBase IN (u64(4), u64(5), u64(6)) AND time < 1700000000000000800", 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++)
        check_count(LIST[i].condition, LIST[i].count);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times_of_data), cmocka_unit_test(test_addresses), cmocka_unit_test(test_texts),
        cmocka_unit_test(test_bounds),        cmocka_unit_test(test_index),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
