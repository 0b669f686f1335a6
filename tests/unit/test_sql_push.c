/* GROUP BY handed down to the native grouping: each statement gives the rows, in their order, the names and the types
 * that SQLite gives alone; EXPLAIN QUERY PLAN shows which statements are handed down. Random statements, and
 * those at the edges: sums beyond 64 bits, numbers beyond 2^63, groups beyond the memory limit. */
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

enum { STREAMS = 3, BATCHES = 3, EVENTS = 80, STATEMENTS = 2000, SMALL_SORT = 1024 };

#define EPOCH_NS INT64_C(1700000000000000000)

static ec_sql *pushed, *plain, *tight; /* tight: groups never fit into its memory */
static uint64_t seed;
static int is_over; /* what the connections' keep_going says */

static uint32_t draw(uint32_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % below);
}

/* ---- the store ---- */

static const ea_record *disk_record(made_record *r, int64_t time) {
    static const ea_guid DISK_IO = EA_GUID(0x3d6fa8d4, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
    begin_record(r, 0x3d6fa8d0, 10, 3, time);
    r->record.provider = DISK_IO;
    put32(r, draw(3));
    put32(r, 0x60043 + draw(2));
    put32(r, 512u << draw(5));
    put32(r, 0);
    put64(r, draw(20) ? 4096 * (uint64_t)draw(6) : (uint64_t)INT64_MAX + draw(3)); /* a count beyond 2^63 */
    put64(r, 0xffffe00000000000u + draw(4));
    put64(r, draw(2) ? 0x7ff700000000u : 0xfffff80000000000u);
    put64(r, draw(1000));
    put32(r, 4 * draw(9));
    const ea_record *record = end_record(r);
    if (draw(8) == 0) /* cut: the last fields are missing */
        r->record.payload_bytes = (uint16_t)(r->record.payload_bytes - 4 * (1 + draw(8)));
    return record;
}

static const ea_record *random_record(made_record *r, int64_t t) {
    static const char *const NAMES[] = {"a.exe", "A.exe", "b.exe", "", "\xC3\xBC.exe"};
    static const char *const PATHS[] = {"x.dll", "X.dll", "y.dll", "", "5"};
    uint32_t pid = 4 * draw(6);
    switch (draw(4)) {
    case 0:
        return process_record(r, draw(2) ? OP_START : OP_DC_START, t, pid, 4 * draw(6), draw(3), NAMES[draw(5)],
                              "cmd \"x\"");
    case 1:
        return image_record(r, OP_LOAD, t, pid, draw(2) ? 0x10000u * draw(5) : 0xfffff80000000000u + draw(5),
                            0x1000u * (1 + draw(4)), PATHS[draw(5)]);
    default:
        return disk_record(r, t);
    }
}

static int make_stream(ec_store *store, unsigned which, ea_err *err) {
    ea_wire_source sources[2] = {
        {.name = "",
         .host = "MACHINE",
         .clock = {.type = EA_CLOCK_QPC, .frequency = which ? 1000000000 : 3579545, .base_utc_ns = EPOCH_NS},
         .pointer_size = 8,
         .cpu_count = 4},
        {.name = "second",
         .host = "MACHINE",
         .clock = {.type = EA_CLOCK_QPC, .frequency = 10000000, .base_utc_ns = EPOCH_NS},
         .pointer_size = 8,
         .cpu_count = 4}};
    const unsigned source_count = which == 2 ? 2 : 1; /* the last stream has two clocks */
    ea_builder_options bo = {.sources = sources, .source_count = source_count};
    ea_encoder_options eo = {.all_descriptions = 1};
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    made_record r;
    int64_t t = 1000;
    memset(eo.stream, (int)which + 1, sizeof eo.stream);
    int rc = ea_registry_create(&registry, 0, err);
    if (!rc)
        rc = ea_builder_create(&builder, &bo, err);
    if (!rc)
        rc = ea_encoder_create(&encoder, &eo, err);
    for (uint64_t b = 1; !rc && b <= BATCHES; b++) {
        const uint8_t *data;
        size_t n;
        for (int i = 0; i < EVENTS; i++, t += draw(4)) {
            /* a batch spans 2^63 ticks at the most; those of the slower clock are beyond the first and the last ns */
            int64_t last = INT64_MAX / 2 - draw(3), far_time = draw(2) ? last : -last;
            const ea_record *record = random_record(&r, which == 0 && draw(16) == 0 ? far_time : t);
            r.record.cpu = (uint16_t)draw(4);
            r.record.pid = draw(5) ? 4 * draw(6) : UINT32_MAX;
            r.record.tid = 4 * draw(9);
            r.record.level = (uint8_t)draw(3);
            r.record.source = (uint16_t)(source_count > 1 ? draw(source_count) : 0);
            assert_true(ea_builder_add(builder, record, ea_registry_find(registry, record)) >= 0);
        }
        ea_open_batch *open = ea_builder_take(builder);
        assert_non_null(open);
        rc = ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = b}, &data, &n, err);
        ea_open_batch_release(open);
        if (!rc && ec_store_append(store, which == 1 ? "beta" : "alpha", data, n, err) != EC_STORED)
            rc = EA_EINVAL;
    }
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
    return rc ? rc : ec_store_commit(store, err);
}

static int keep_going(void *arg) {
    (void)arg;
    return !is_over;
}

static int setup(void **state) {
    ec_store *store = NULL;
    ea_err err = {0};
    seed = 1;
    if (scratch_make(state) || ec_store_open(&store, scratch_path("."), &(ec_store_options){.writable = 1}, &err))
        return -1;
    int rc = 0;
    for (unsigned i = 0; !rc && i < STREAMS; i++)
        rc = make_stream(store, i, &err);
    ec_store_close(store);
    if (!rc)
        rc = ec_sql_open(&pushed, scratch_path("."), &(ec_sql_options){.keep_going = keep_going}, &err);
    if (!rc)
        rc = ec_sql_open(&tight, scratch_path("."), &(ec_sql_options){.sort_bytes = SMALL_SORT}, &err);
    return rc ? rc : ec_sql_open(&plain, scratch_path("."), &(ec_sql_options){.no_grouping = 1}, &err);
}

static int teardown(void **state) {
    ec_sql_close(pushed);
    ec_sql_close(tight);
    ec_sql_close(plain);
    return scratch_clear(state);
}

/* ---- asking ---- */

/* The answer as a text: names, declared types, rows with the type of each cell; or the error. parameters: numbers for
 * ?1, ?2; binds as many as the statement has. */
static void ask(ec_sql *s, const char *sql, ea_text *ret) {
    static const char *const TYPES[] = {
        [SQLITE_INTEGER] = "i", [SQLITE_FLOAT] = "r", [SQLITE_TEXT] = "t", [SQLITE_BLOB] = "b", [SQLITE_NULL] = "n"};
    sqlite3_stmt *st = NULL;
    ea_err err = {0};
    ea_text_clear(ret);
    int code = ec_sql_prepare(s, sql, &st, NULL, &err);
    for (int i = 1; code == SQLITE_OK && i <= sqlite3_bind_parameter_count(st); i++)
        code = sqlite3_bind_int64(st, i, i * 4);
    for (int i = 0; code == SQLITE_OK && i < sqlite3_column_count(st); i++) {
        const char *type = sqlite3_column_decltype(st, i);
        ea_text_printf(ret, "%s:%s|", sqlite3_column_name(st, i), type ? type : "");
    }
    while (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        ea_text_char(ret, '\n');
        for (int i = 0; i < sqlite3_column_count(st); i++) {
            ea_text_str(ret, TYPES[sqlite3_column_type(st, i)]);
            const void *text = sqlite3_column_text(st, i);
            ea_text_add(ret, text ? text : "", (size_t)sqlite3_column_bytes(st, i));
            ea_text_char(ret, '|');
        }
        code = SQLITE_OK;
    }
    if (code != SQLITE_DONE)
        ea_text_printf(ret, "\n! %d %s", code, err.code ? err.message : sqlite3_errmsg(ec_sql_database(s)));
    sqlite3_finalize(st);
    assert_false(ret->failed);
}

/* The plan of a statement, all rows of it. */
static void explain(ec_sql *s, const char *sql, ea_text *ret) {
    char *text = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", sql);
    assert_non_null(text);
    ask(s, text, ret);
    sqlite3_free(text);
}

static int is_pushed(const char *sql) {
    ea_text plan;
    ea_text_init(&plan);
    explain(pushed, sql, &plan);
    int found = strstr(plan.data, "(grouped ") != NULL;
    ea_text_deinit(&plan);
    return found;
}

static void check(const char *sql) {
    ea_text a, b, c;
    ea_text_init(&a);
    ea_text_init(&b);
    ea_text_init(&c);
    ask(pushed, sql, &a);
    ask(plain, sql, &b);
    ask(tight, sql, &c);
    if (strcmp(a.data, b.data) != 0 || strcmp(c.data, b.data) != 0)
        fail_msg("%s\nhanded down: %s\nwithout memory: %s\nby SQLite: %s", sql, a.data, c.data, b.data);
    ea_text_deinit(&a);
    ea_text_deinit(&b);
    ea_text_deinit(&c);
}

/* ---- tests ---- */

static void test_pushed(void **state) {
    static const char *const LIST[] = {
        "SELECT count(*) FROM events",
        "SELECT count(*) + 1 AS n, 'x' FROM events WHERE pid = 4",
        "SELECT count(*) FROM events WHERE pid = 12345678",
        ("SELECT FileName, pid, tid, cpu, ImageSize, count(*), sum(ImageSize) FROM \"Image/Load\" GROUP BY 1, 2, 3, 4, "
         "5"),
        "SELECT ImageFileName, ParentId, tid, count(*), count(DISTINCT cpu) FROM \"Process/Start\" GROUP BY 1, 2, 3",
        "SELECT IssuingThreadId, pid, name, count(*), sum(cpu) FROM \"DiskIo/Read\" GROUP BY 1, 2, 3",
        "SELECT HighResResponseTime, count(*), min(tid), sum(tid) FROM \"DiskIo/Read\" GROUP BY 1 ORDER BY 1 DESC",
        "SELECT FileObject, TransferSize, count(*) FROM \"DiskIo/Read\" GROUP BY 1, 2",
        "SELECT time / 1000, time / 5000000000000000000, count(*) FROM events GROUP BY 1, 2",
        "SELECT sum(pid), avg(pid), total(pid), min(pid), max(pid), count(pid) FROM events WHERE pid > 99999999",
        "SELECT name, count(*) AS n FROM events GROUP BY name ORDER BY n DESC, name LIMIT 3",
        "SELECT name, count(*) FROM events GROUP BY 1 LIMIT 2 OFFSET 1",
        "SELECT PID, Count ( * ) FROM Events GROUP BY PID ORDER BY 2 DESC",
        "SELECT e.\"pid\", sum(e.TransferSize) FROM \"diskio/read\" e GROUP BY e.pid",
        "SELECT pid p, sum(TransferSize) FROM \"DiskIo/Read\" GROUP BY p ORDER BY p DESC",
        "SELECT pid AS tid, tid AS pid, count(*) FROM events GROUP BY pid, tid ORDER BY pid, tid",
        "SELECT pid AS x, count(*) AS pid FROM events GROUP BY 1 ORDER BY pid, x",
        "SELECT pid, count(*) AS pid FROM events GROUP BY 1 HAVING pid > 4 ORDER BY pid + 0",
        "SELECT time_bucket(time, '10us') AS t, count(*) FROM events GROUP BY t ORDER BY t",
        "SELECT time_text(time_bucket(time, '100ns')), count(*) FROM events GROUP BY time_bucket(time, '100ns')",
        "SELECT time_bucket(time, 1000), time_bucket(time, 7), count(*) FROM events GROUP BY 1, 2",
        "SELECT time_bucket(TransferSize, 1000), count(*) FROM \"DiskIo/Read\" GROUP BY 1",
        "SELECT ImageFileName, ImageFileName, count(*) FROM \"Process/Start\" GROUP BY 1, 2",
        "SELECT lower(ImageFileName) || '!', count(*) FROM \"Process/Start\" GROUP BY ImageFileName",
        ("SELECT FileName, min(ImageBase), max(ImageBase), max(ImageBase) - min(ImageBase) FROM \"Image/Load\" GROUP "
         "BY "
         "1"),
        "SELECT ImageBase, typeof(ImageBase), count(*) FROM \"Image/Load\" GROUP BY ImageBase",
        "SELECT ByteOffset, typeof(ByteOffset), count(*) FROM \"DiskIo/Read\" GROUP BY ByteOffset",
        "SELECT count(ByteOffset), count(DISTINCT ByteOffset), min(ByteOffset), max(ByteOffset) FROM \"DiskIo/Read\"",
        "SELECT sum(ByteOffset), avg(ByteOffset), total(ByteOffset) FROM \"DiskIo/Read\"",
        "SELECT pid, sum(ByteOffset) FROM \"DiskIo/Read\" WHERE ByteOffset < 100000 GROUP BY pid",
        "SELECT sum(ImageBase) FROM \"Image/Load\"",
        "SELECT avg(time), avg(tid) FROM events",
        "SELECT total(tid), sum(time - 0) FROM events WHERE 1 = 0 GROUP BY pid",
        "SELECT host, count(DISTINCT pid), count(DISTINCT name), count(DISTINCT tid) FROM events GROUP BY host",
        "SELECT min(name), max(name), count(name) FROM events GROUP BY pid",
        "SELECT IssuingThreadId, count(*), count(IssuingThreadId) FROM \"DiskIo/Read\" GROUP BY 1",
        "SELECT pid, count(*) FROM events WHERE time >= 1700000000000001000 AND time < '2024-01-01' GROUP BY 1",
        "SELECT pid, count(*) FROM events WHERE time BETWEEN time_ns('2023-11-14T22:13:20Z') AND now() GROUP BY pid",
        "SELECT pid, count(*) FROM events WHERE (pid IN (4, 8, 8, ?1) AND (4 < tid)) AND 20 >= tid GROUP BY pid",
        "SELECT tid, count(*) FROM events WHERE name = 'DiskIo/Read' AND host = 'alpha' AND pid <> 5 - 5 GROUP BY 1",
        "SELECT tid, count(*) FROM events WHERE host = 5 GROUP BY 1",
        "SELECT tid, count(*) FROM events WHERE pid = ?1 AND tid = ?2 GROUP BY 1 LIMIT ?3",
        "SELECT tid, count(*) FROM events WHERE pid = '4' AND tid < '99999' AND cpu > 0.5 GROUP BY tid",
        "SELECT count(*) FROM \"Image/Load\" WHERE ImageBase >= u64('0xfffff80000000000') GROUP BY FileName",
        "SELECT tid FROM events GROUP BY tid HAVING count(*) > 10 OR tid = 8 ORDER BY count(*), tid",
        "SELECT tid, sum(pid) AS s FROM events GROUP BY tid HAVING s > 5 AND tid IN (4, 8) ORDER BY -s",
        "SELECT CASE WHEN pid = 4 THEN 'four' ELSE pid END, CAST(count(*) AS TEXT) FROM events GROUP BY pid",
        "SELECT pid, sum(time) FROM events GROUP BY pid HAVING pid = 12345678",
        "SELECT pid, sum(time) AS s FROM events GROUP BY pid HAVING count(*) > 0 AND pid > 12345678",
        "SELECT pid, sum(time) FROM events GROUP BY pid HAVING count(*) = 12345678",
        "SELECT pid, sum(tid) AS s FROM events GROUP BY pid HAVING s > 5 ORDER BY s, pid",
        "SELECT count(*) FROM events HAVING count(*) > 5",
        "SELECT count(*) FROM events HAVING count(*) > 5000000",
        "SELECT max(pid) = '20', max(pid) = 20, pid = '20' FROM events GROUP BY pid",
        "SELECT name = max(provider_name), host < max(host) FROM events GROUP BY name, host",
        "SELECT max(pid, 5), min(count(*), 7) FROM events GROUP BY pid",
        "SELECT level, opcode, provider, keyword, count(*) FROM events GROUP BY level, opcode, provider, keyword",
        "SELECT activity_id, stream, batch, count(*) FROM events GROUP BY 1, 2, 3",
        "SELECT position, count(*) FROM events GROUP BY position ORDER BY position DESC LIMIT 5",
        "SELECT clock, count(*) FROM events GROUP BY clock",
        "SELECT count(*), min(tid) FROM events WHERE tid > 8 AND tid = 4 AND 3 = cpu",
        "SELECT pid, tid, count(*) FROM events GROUP BY 1, 2 ORDER BY pid DESC, 2 LIMIT 3",
        "SELECT pid, count(*) FROM events GROUP BY pid ORDER BY count(*) / 100 DESC LIMIT 4",
        "SELECT pid, sum(ByteOffset) FROM \"DiskIo/Read\" GROUP BY pid ORDER BY pid LIMIT 1",
        "SELECT count(*) -- how many\nFROM events /* of all */ ;",
    };

    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        check(LIST[i]);
        int is = is_pushed(LIST[i]);
        int expected = !strstr(LIST[i], "1 = 0");
        if (is != expected)
            fail_msg("%s is %shanded down", LIST[i], is ? "" : "not ");
        count += (size_t)is;
    }
    assert_true(count > 40);
}

/* Whether a table has rows of a condition: the scan must choose those that SQLite does. */
static size_t check_scan(const char *table, const char *name, const char *op, const char *value) {
    ea_text scanned, compared;
    ea_text_init(&scanned);
    ea_text_init(&compared);
    char *a = sqlite3_mprintf("SELECT rowid AS r FROM \"%w\" WHERE %s %s %s ORDER BY r", table, name, op, value);
    char *b = sqlite3_mprintf("SELECT rowid AS r FROM \"%w\" WHERE +%s %s %s ORDER BY r", table, name, op, value);
    assert_true(a && b);
    ask(plain, a, &scanned);
    ask(plain, b, &compared);
    if (strcmp(scanned.data, compared.data) != 0)
        fail_msg("%s\nscanned: %s\nby SQLite: %s", a, scanned.data, compared.data);
    size_t some = strchr(scanned.data, '\n') != NULL;
    sqlite3_free(a);
    sqlite3_free(b);
    ea_text_deinit(&scanned);
    ea_text_deinit(&compared);
    return some;
}

static const char *const OPERATORS[] = {"=", "<", "<=", ">", ">="};

/* Numbers at the ends of 64 bits and between two whole ones, NULL and bytes. */
static void test_far_numbers(void **state) {
    static const char *const VALUES[] = {
        "9223372036854775808.0", "-9223372036854775808.0",   "1e19", "-1e19", "4.0",        "4.5",  "-0.5",
        "9223372036854775807",   "-9223372036854775807 - 1", "4",    "0",     "4294967295", "NULL", "X'00'"};

    static const struct {
        const char *table, *column;
    } OF[] = {{"events", "time"},
              {"events", "pid"},
              {"events", "tid"},
              {"events", "cpu"},
              {"events", "batch"},
              {"events", "level"},
              {"DiskIo/Read", "TransferSize"},
              {"DiskIo/Read", "IssuingThreadId"}};

    size_t some = 0;
    (void)state;
    for (size_t i = 0; i < sizeof OF / sizeof *OF; i++)
        for (size_t k = 0; k < sizeof OPERATORS / sizeof *OPERATORS; k++)
            for (size_t v = 0; v < sizeof VALUES / sizeof *VALUES; v++)
                some += check_scan(OF[i].table, OF[i].column, OPERATORS[k], VALUES[v]);
    assert_true(some > 200);
}

/* Times at the ends of 64 bits: the scan chooses the events that SQLite does. */
static void test_far_times(void **state) {
    static const char *const TIMES[] = {"1700000000000000000",    "1700000000000001000",    "0",
                                        "9223372036854775807",    "9223372036854775806",    "-9223372036854775807",
                                        "-9223372036854775807-1", "1700000000000000500 - 1"};
    size_t some = 0;
    (void)state;
    for (size_t i = 0; i < sizeof OPERATORS / sizeof *OPERATORS; i++)
        for (size_t k = 0; k < sizeof TIMES / sizeof *TIMES; k++)
            some += check_scan("events", "time", OPERATORS[i], TIMES[k]);
    assert_true(some > 20);
    check("SELECT count(*), min(time), max(time) FROM events WHERE time > 9223372036854775804");
    check("SELECT time_bucket(time, '1h') AS t, count(*) FROM events GROUP BY t ORDER BY t");
    check("SELECT time_bucket(time, '1h') AS t, host, min(time), max(time), count(DISTINCT batch), sum(batch)"
          " FROM events GROUP BY t, host");
    check("SELECT time_bucket(time, '10ms') AS t, time_bucket(time, '7ms') AS u, count(*) FROM events GROUP BY t, u");
    check("SELECT stream, min(time), max(time), count(*) FROM events GROUP BY stream");
    check("SELECT time / 1000, time % 1000, count(*), max(time - 5) FROM events GROUP BY 1, 2");
    for (int i = 1; i < 4; i++) {
        char sql[100];
        snprintf(sql, sizeof sql, "SELECT rowid, time FROM events ORDER BY time LIMIT %d", 7 * i * i);
        check(sql);
        snprintf(sql, sizeof sql, "SELECT rowid, time FROM events ORDER BY time DESC LIMIT %d", 7 * i * i);
        check(sql);
    }
    check("SELECT time_bucket(time, 9223372036854775807) AS t, count(*) FROM events GROUP BY t ORDER BY t");
}

/* What is computed once a group of all columns that it reads. */
static void test_partial(void **state) {
    static const char *const LIST[] = {
        "SELECT pid + 1, count(*) FROM events GROUP BY pid + 1",
        "SELECT pid, count(*) FROM events WHERE name LIKE 'Disk%' GROUP BY pid",
        "SELECT pid, count(*) FROM events WHERE pid = 4 OR tid = 4 GROUP BY pid",
        "SELECT pid, count(*) FROM events WHERE pid = tid GROUP BY pid",
        "SELECT pid, count(*) FILTER (WHERE tid > 8) FROM events GROUP BY pid",
        "SELECT lower(name), count(*), avg(cpu), sum(tid), total(pid) FROM events GROUP BY 1 ORDER BY 2 DESC, 1",
        "SELECT lower(name) AS n, count(*) FROM events GROUP BY n HAVING count(*) > 9 ORDER BY n DESC LIMIT 2",
        "SELECT substr(name, 1, 3) || cpu, count(DISTINCT upper(host)), min(lower(name)) FROM events GROUP BY 1",
        "SELECT count(*) FROM events WHERE name NOT LIKE '%Read' AND pid IS NOT NULL AND cpu % 2 = 1",
        "SELECT count(*), sum(pid), avg(pid), min(pid) FROM events WHERE name GLOB 'nothing*'",
        "SELECT host, sum(CASE WHEN pid = 4 THEN 1 END), sum(pid = tid), count(nullif(pid, 4)) FROM events GROUP BY 1",
        "SELECT count(*) FILTER (WHERE name LIKE 'I%'), sum(pid) FILTER (WHERE cpu = 1) FROM events WHERE tid < 20",
        "SELECT avg(TransferSize) FILTER (WHERE IssuingThreadId IS NULL) FROM \"DiskIo/Read\" GROUP BY DiskNumber",
        "SELECT avg(ByteOffset) FROM \"DiskIo/Read\" WHERE DiskNumber <> 1 AND ByteOffset < 100000",
        "SELECT sum(ByteOffset), max(ByteOffset), count(ByteOffset) FROM \"DiskIo/Read\" WHERE DiskNumber <> 1",
        "SELECT iif(pid > 9, 'a', 'b'), count(*), min(ImageFileName) FROM \"Process/Start\" GROUP BY 1",
        "SELECT CASE WHEN TransferSize > 9 THEN 1 END AS s, count(*) FROM \"DiskIo/Read\" GROUP BY s ORDER BY 1",
        "SELECT DISTINCT name FROM events",
        "SELECT DISTINCT name, pid / 8 FROM events WHERE cpu <> 2 ORDER BY 2 DESC, 1 LIMIT 5",
        "SELECT DISTINCT upper(ImageFileName) AS n FROM \"Process/Start\" ORDER BY n",
        "SELECT strftime('%H:%M', time / 1000000000, 'unixepoch'), count(*) FROM events WHERE pid <> 4 GROUP BY 1",
        "SELECT time_bucket(time, 1000) / 3, count(*) FROM events WHERE pid <> 4 GROUP BY 1 ORDER BY 1",
        "SELECT min(tid) FILTER (WHERE pid = 4), count(DISTINCT tid % 3) FROM events WHERE NOT cpu IN (0)",
        "SELECT tid, count(*) FROM events WHERE ?1 = pid OR tid BETWEEN ?1 AND ?2 GROUP BY tid",
        "SELECT pid, count(*) FROM events GROUP BY CASE WHEN pid = 4 THEN 'x' ELSE pid END, pid",
        "SELECT e.pid & 4, count(*) FROM events e WHERE e.tid | 1 > 9 GROUP BY e.pid & 4",
        "SELECT count(*) FROM events WHERE cpu AND NOT pid = 4 GROUP BY 'x'",
        "SELECT count(*), max(1), sum(1 = 1), count(DISTINCT 2) FROM events WHERE pid = 12345678",
        ("SELECT count(*) FROM events WHERE tid >= 0 AND tid >= 1 AND tid >= 2 AND tid >= 3 AND tid >= 4 AND tid >= 4"
         " AND tid >= 0 AND tid >= 1 AND tid >= 2 AND tid >= 3 AND tid >= 4 AND tid >= 4 AND tid >= 4"),
    };

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        check(LIST[i]);
        if (!is_pushed(LIST[i]))
            fail_msg("%s is not handed down", LIST[i]);
    }
}

/* Conditions that the scan does not know are filters: of texts, of numbers, of values that an event may lack, over
 * several columns, and more than fit. */
static void test_filters(void **state) {
    static const char *const LIST[] = {
        "SELECT pid, count(*) FROM events WHERE fields > 'a' GROUP BY pid",
        "SELECT pid, count(*) FROM events WHERE time % 2 = 0 OR position = 5 GROUP BY pid",
        "SELECT count(*) FROM events WHERE fields LIKE '%dll%'",
        "SELECT count(*) FROM events GROUP BY 'x'",
        "SELECT count(*) FROM events WHERE pid <> 4 AND tid <> 8 AND 1 <> cpu AND level != 0",
        "SELECT count(*) FROM events WHERE name <> 'DiskIo/Read' AND lower(host) NOT LIKE 'B%'",
        "SELECT count(*), count(IssuingThreadId) FROM \"DiskIo/Read\" WHERE IssuingThreadId <> 8",
        "SELECT count(*) FROM \"DiskIo/Read\" WHERE NOT (IssuingThreadId <> 8)",
        "SELECT count(*) FROM \"DiskIo/Read\" WHERE NOT (IssuingThreadId <> 8 AND pid = 4)",
        "SELECT count(*) FROM \"DiskIo/Read\" WHERE NOT (IssuingThreadId <> 8 OR pid = 4)",
        "SELECT count(*) FROM \"DiskIo/Read\" WHERE (IssuingThreadId > 8 OR pid = 4) AND (tid IN (4, 8) OR pid <> 8)",
        "SELECT count(*) FROM \"DiskIo/Read\" WHERE IssuingThreadId IS NULL OR HighResResponseTime > 500",
        "SELECT pid, sum(TransferSize) FROM \"DiskIo/Read\" WHERE ByteOffset <> 4096 GROUP BY pid",
        "SELECT min(ByteOffset), count(*) FROM \"DiskIo/Read\" WHERE ByteOffset > 8192 OR tid = 4",
        "SELECT count(*) FROM \"DiskIo/Read\" d WHERE d.TransferSize <> 7 AND d.pid / 8 = 1",
        "SELECT count(*) FROM \"DiskIo/Read\" WHERE \"DiskIo/Read\".TransferSize & 512 AND (\"pid\") <> 0",
        "SELECT pid, count(*) FROM \"Process/Start\" WHERE ImageFileName LIKE 'A%' GROUP BY pid",
        "SELECT pid, count(*) FROM \"Process/Start\" WHERE ImageFileName NOT IN ('a.exe', '') GROUP BY pid",
        "SELECT count(*) FROM \"Process/Start\" WHERE ImageFileName = 5 OR ImageFileName GLOB '[A-B]*'",
        "SELECT count(*) FROM \"Image/Load\" WHERE FileName = 5 OR 'X.dll' < FileName",
        "SELECT count(*) FROM \"Image/Load\" WHERE FileName IN (5, 'y') OR ImageSize < 0 OR pid = 4",
        "SELECT count(*) FROM \"Image/Load\" WHERE length(FileName) BETWEEN 1 AND 5 AND FileName <> 'x.dll'",
        "SELECT FileName, count(*) FROM \"Image/Load\" WHERE CASE FileName WHEN '5' THEN 1 END GROUP BY FileName",
        "SELECT count(*) FROM events WHERE CAST(pid AS TEXT) LIKE '%4' AND typeof(tid) = 'integer'",
        "SELECT count(*) FROM events WHERE abs(pid - 4294967295 - 9223372032559808513) > 3",
        "SELECT pid, count(*) FROM events WHERE tid <> ?1 AND pid <> 4 GROUP BY pid",
    };

    ea_text sql;
    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        check(LIST[i]);
        if (!is_pushed(LIST[i]))
            fail_msg("%s is not handed down", LIST[i]);
    }
    ea_text_init(&sql);
    for (int count = 15; count < 40; count++) { /* more roots, and more nodes, than a filter has */
        ea_text_clear(&sql);
        ea_text_str(&sql, "SELECT count(*) FROM events WHERE pid <> 12");
        for (int i = 1; i < count; i++)
            ea_text_printf(&sql, " AND pid <> %d", 4 * i + 100);
        check(sql.data);
        ea_text_clear(&sql);
        ea_text_str(&sql, "SELECT count(*) FROM events WHERE pid = tid OR pid = 4");
        for (int i = 1; i < count; i++)
            ea_text_printf(&sql, " OR %s = %d", i % 2 ? "tid" : "pid", i);
        check(sql.data);
    }
    ea_text_deinit(&sql);
}

/* The first rows of an order: the values, the order of equal ones, and NULLs are SQLite's. */
static void test_rows(void **state) {
    static const char *const LIST[] = {
        "SELECT * FROM events ORDER BY time DESC LIMIT 5",
        "SELECT *, rowid FROM events ORDER BY time LIMIT 7",
        "SELECT *, upper(name) AS u FROM \"DiskIo/Read\" ORDER BY time DESC, TransferSize LIMIT 20",
        "SELECT rowid, pid FROM events ORDER BY pid LIMIT 10",
        "SELECT rowid, pid FROM events ORDER BY pid DESC LIMIT 10 OFFSET 5",
        "SELECT rowid, pid AS p, tid FROM events ORDER BY p, 3 DESC LIMIT 3, 10",
        "SELECT rowid, name FROM events ORDER BY name DESC, host, cpu LIMIT 12",
        "SELECT rowid, ByteOffset FROM \"DiskIo/Read\" ORDER BY ByteOffset DESC, pid LIMIT 10",
        "SELECT rowid, ByteOffset FROM \"DiskIo/Read\" ORDER BY ByteOffset LIMIT 200",
        "SELECT rowid, FileObject FROM \"DiskIo/Read\" ORDER BY FileObject DESC LIMIT 9",
        "SELECT rowid, ImageBase FROM \"Image/Load\" ORDER BY ImageBase DESC, FileName LIMIT 30",
        "SELECT rowid, FileName FROM \"Image/Load\" ORDER BY FileName LIMIT 30",
        "SELECT rowid, FileName FROM \"Image/Load\" ORDER BY FileName DESC, time DESC LIMIT 30",
        "SELECT rowid, IssuingThreadId FROM \"DiskIo/Read\" ORDER BY IssuingThreadId LIMIT 150",
        "SELECT rowid, IssuingThreadId FROM \"DiskIo/Read\" ORDER BY IssuingThreadId DESC LIMIT 400",
        "SELECT rowid, IssuingThreadId FROM \"DiskIo/Read\" ORDER BY IssuingThreadId NULLS LAST LIMIT 400",
        "SELECT rowid, IssuingThreadId FROM \"DiskIo/Read\" ORDER BY IssuingThreadId DESC NULLS FIRST LIMIT 9",
        "SELECT e.rowid, e.pid + 1 FROM events e WHERE e.pid <> 4 AND e.name LIKE 'D%' ORDER BY e.time DESC LIMIT 4",
        "SELECT rowid, fields FROM events WHERE pid IN (4, 8) AND time > 5 ORDER BY fields LIMIT 4",
        "SELECT rowid FROM events WHERE batch = 2 AND cpu = 1 ORDER BY position DESC, clock LIMIT 8",
        "SELECT rowid FROM events WHERE tid = ?1 ORDER BY time DESC LIMIT 8",
        "SELECT rowid FROM events WHERE tid < '99999' ORDER BY time DESC LIMIT 8",
        "SELECT rowid FROM events WHERE tid = 12345678 ORDER BY time DESC LIMIT 8",
        "SELECT rowid FROM \"DiskIo/Read\" WHERE ByteOffset = 4096.5 ORDER BY time DESC LIMIT 8",
        "SELECT rowid FROM \"DiskIo/Read\" WHERE ByteOffset < 'y' ORDER BY time, pid LIMIT 8",
        "SELECT count(*) FROM (SELECT 1), (SELECT 2)",
        "SELECT pid FROM events ORDER BY pid + 1 LIMIT 3",
        "SELECT pid FROM events ORDER BY pid LIMIT 0",
        "SELECT pid FROM events ORDER BY pid LIMIT -1",
        "SELECT pid FROM events ORDER BY pid LIMIT ?1",
        "SELECT pid FROM events ORDER BY pid LIMIT 3 OFFSET 20000",
        "SELECT max(pid) FROM events ORDER BY pid LIMIT 3",
        "SELECT *, group_concat(pid) FROM events ORDER BY pid LIMIT 3",
        "SELECT pid FROM events WHERE pid = tid ORDER BY pid LIMIT 3",
        "SELECT DISTINCT pid, position FROM events ORDER BY pid LIMIT 3",
        "SELECT * FROM events GROUP BY pid ORDER BY time LIMIT 3",
    };

    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        check(LIST[i]);
        int is = is_pushed(LIST[i]);
        if (is != (strncmp(LIST[i], "SELECT count(*) FROM (", 22) != 0 && count == i))
            fail_msg("%s is %shanded down", LIST[i], is ? "" : "not ");
        count += (size_t)is;
    }
    assert_int_equal(count, 25);
}

/* Rows that a filter lets through: SQLite checks it again, so that errors are SQLite's, too. */
static void test_filtered_rows(void **state) {
    static const char *const LIST[] = {
        "SELECT rowid, * FROM events WHERE name LIKE 'D%' AND pid = 4",
        "SELECT rowid, FileName FROM \"Image/Load\" WHERE FileName LIKE '%.dll' AND pid <> 4 AND (tid = 8 OR cpu <> 1)",
        ("SELECT time, name AS n FROM events e WHERE e.pid IN (4, 8) AND e.level <> 0 ORDER BY upper(n), +time DESC "
         "LIMIT 7"),
        "SELECT DISTINCT pid, position FROM events WHERE pid <> 4",
        ("SELECT rowid, ByteOffset FROM \"DiskIo/Read\" WHERE ByteOffset <> 4096 AND TransferSize > ?1 LIMIT ?2 OFFSET "
         "2"),
        "SELECT rowid FROM \"DiskIo/Read\" WHERE ByteOffset < 'y' AND pid <> 4",
        "SELECT rowid FROM \"DiskIo/Read\" WHERE IssuingThreadId <> 8 AND NOT (IssuingThreadId = 4) LIMIT 5",
        "SELECT rowid FROM \"DiskIo/Read\" WHERE IssuingThreadId IS NULL",
        "SELECT pid FROM events WHERE pid <> 4 AND abs(pid - 4294967295 - 9223372032559808513) > 3",
        "SELECT pid FROM events WHERE pid = 4 AND (tid = 4 OR tid = 8 OR cpu <> 2) ORDER BY position, stream",
        "SELECT pid FROM events WHERE pid = 4",
        "SELECT random() IS NULL FROM events WHERE pid <> 4",
        "SELECT pid FROM events WHERE pid <> tid",
        "SELECT pid FROM events WHERE pid <> ?1",
        "SELECT pid FROM events WHERE pid <> 4 GROUP BY pid, position",
        "SELECT *, max(pid) FROM events WHERE pid <> 4",
    };

    enum { HANDED_DOWN = 10 };

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        check(LIST[i]);
        ea_text plan;
        ea_text_init(&plan);
        explain(pushed, LIST[i], &plan);
        if ((strstr(plan.data, ") rows of ") != NULL) != (i < HANDED_DOWN))
            fail_msg("%s: %s", LIST[i], plan.data);
        ea_text_deinit(&plan);
    }
}

/* What a statement reads of the store, handed down. */
static ec_reads reads_of(const char *sql) {
    ec_reads *reads = ec_archive_reads(ec_sql_archive(pushed));
    ea_text rows;
    ea_text_init(&rows);
    *reads = (ec_reads){0};
    ask(pushed, sql, &rows);
    ea_text_deinit(&rows);
    return *reads;
}

/* What a filter says of a host, a stream, a batch or a process, the store's index knows, too. Rows for which it knows
 * something else in each branch of an OR are SQLite's: how it reads them depends on the size of the store. */
static void test_index(void **state) {
    enum { ANY = 1000 };

#define IN_ORDER " ORDER BY stream, batch, position"

    static const struct {
        const char *sql;
        uint64_t batches;
        int is_pushed;
    } LIST[] = {
        {"cpu FROM events WHERE host = 'beta' OR host = 'gamma'" IN_ORDER, BATCHES, 1},
        {"cpu FROM events WHERE (host = 'beta' AND pid = 4) OR (cpu = 1 AND 'beta' = host)" IN_ORDER, BATCHES, 1},
        {"cpu FROM events WHERE stream = '02020202020202020202020202020202' OR stream IN ('x', 'y')" IN_ORDER, BATCHES,
         1},
        {"tid FROM \"DiskIo/Read\" d WHERE (d.batch = 1 AND pid = 4) OR (tid = 8 AND 2.0 = batch)" IN_ORDER,
         2 * STREAMS, 1},
        {"tid FROM events WHERE batch IN (1, 3) AND (cpu <> 1 OR tid = 4) OR batch = 3" IN_ORDER, 2 * STREAMS, 1},
        {"tid FROM events WHERE pid = 12345678 OR (cpu <> 1 AND pid = 12345679)" IN_ORDER, 0, 1},
        {"name, count(*) FROM events WHERE host = 'beta' OR host = '' GROUP BY name", BATCHES, 1},
        {"lower(name), count(*) FROM events WHERE batch = 2 OR batch = 4 GROUP BY 1", STREAMS, 1},
        {"lower(name), count(*) FROM events WHERE batch = 2 OR batch = 2 + 0 GROUP BY 1", BATCHES * STREAMS, 1},
        {"max(tid) FROM events WHERE batch = 2 OR cpu = 1", BATCHES * STREAMS, 1},
        {"tid FROM events WHERE batch = 1 OR cpu = 1" IN_ORDER, BATCHES * STREAMS, 1},
        {"tid FROM events WHERE NOT (batch = 1 OR batch = 2)" IN_ORDER, BATCHES * STREAMS, 1},
        {"tid FROM events WHERE (batch = 1) = 0 OR batch = 1" IN_ORDER, BATCHES * STREAMS, 1},
        {"tid FROM events WHERE cpu <> 1 AND host = lower('BETA')" IN_ORDER, BATCHES, 0},
        {"tid FROM events WHERE batch > 2 OR (batch = 2 AND position > 5)" IN_ORDER, ANY, 0},
        {"tid FROM events WHERE (host = 'beta' AND cpu <> 1) OR (batch BETWEEN 2 AND 2 AND cpu = 1)" IN_ORDER, ANY, 0},
        {"tid FROM events WHERE time BETWEEN 5 AND 6 OR 1700000000000001500 > time" IN_ORDER, ANY, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        char sql[200];
        snprintf(sql, sizeof sql, "SELECT %s", LIST[i].sql);
        check(sql);
        ec_reads r = reads_of(sql);
        int is = is_pushed(sql);
        if (is != LIST[i].is_pushed || (r.batches != LIST[i].batches && LIST[i].batches != ANY))
            fail_msg("%s is %shanded down, and reads %d batches", sql, is ? "" : "not ", (int)r.batches);
    }
}

/* Sums that are certain whatever the order of the events are computed in one reading; SQLite computes the others from
 * rows that are read again. */
static void test_certain(void **state) {
    static const struct {
        const char *sql;
        unsigned readings;
    } LIST[] = {
        {"SELECT sum(tid), avg(pid), total(cpu), min(tid), max(pid), count(level) FROM events", 1},
        {"SELECT tid, sum(pid), avg(level), sum(batch) FROM events WHERE level < 3 GROUP BY tid", 1},
        {"SELECT cpu, sum(tid - pid), total(pid % 8), avg(tid * 1000) FROM events GROUP BY cpu", 1},
        {"SELECT sum(TransferSize), avg(TransferSize), total(IssuingThreadId) FROM \"DiskIo/Read\"", 1},
        {"SELECT pid, total(HighResResponseTime) FROM \"DiskIo/Read\" WHERE pid <> 4 GROUP BY pid", 1},
        {"SELECT total(ByteOffset) FROM \"DiskIo/Read\"", 2},
        {"SELECT total(time) FROM events WHERE host = 'beta'", 2},
    };

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        check(LIST[i].sql);
        uint64_t once = strstr(LIST[i].sql, "'beta'") ? BATCHES : BATCHES * STREAMS, n = reads_of(LIST[i].sql).batches;
        if (n != LIST[i].readings * once)
            fail_msg("%s: %d batches were read, not %d times %d", LIST[i].sql, (int)n, (int)LIST[i].readings,
                     (int)once);
    }
}

/* Events that are counted are not decoded, where what decides about them is the same for all of their block. */
static void test_counting(void **state) {
    static const char *const COUNTED[] = {
        "SELECT count(*) FROM events",
        "SELECT count(*), count(name), min(name), max(level), sum(level), avg(version), total(opcode) FROM events",
        "SELECT name, count(*) FROM events GROUP BY name",
        "SELECT host, name, count(DISTINCT level), count(DISTINCT stream), sum(batch) FROM events GROUP BY 1, 2",
        "SELECT level, count(*) FROM events WHERE name LIKE 'D%' AND level <> 1 GROUP BY level",
        "SELECT name, count(*) FROM events WHERE host = 'alpha' AND level IN (0, 2) AND batch > 1 GROUP BY name",
        ("SELECT name, count(*) FROM events WHERE host = 'beta' AND time > 5 AND time < 9000000000000000000 GROUP BY "
         "name"),
        "SELECT lower(name), level, count(*) FROM events GROUP BY 1, 2",
        "SELECT count(*), count(*) FILTER (WHERE level = 1) FROM events",
        "SELECT version, count(*) FROM \"DiskIo/Read\" GROUP BY 1 HAVING count(*) > 1",
        "SELECT count(*), min(time), max(time), count(time) FROM events WHERE host = 'beta'",
        "SELECT batch, min(time), max(time) FROM events WHERE host = 'beta' GROUP BY batch",
        "SELECT count(*), min(time) FROM events WHERE pid = 4 AND name = 'No/Such'",
    };
    static const char *const DECODED[] = {
        "SELECT count(*), sum(pid) FROM events",
        "SELECT count(*) FROM events WHERE pid = 4",
        "SELECT count(*) FROM events WHERE name LIKE 'D%' AND pid <> 4",
        "SELECT name, min(time), max(time) FROM events GROUP BY name",
        "SELECT min(time), max(time) FROM events WHERE level = 1",
        "SELECT min(time), max(time) FROM events WHERE level <> 1",
        "SELECT min(time), max(time) FROM \"DiskIo/Read\"",
        "SELECT count(*) FROM events WHERE time > 1700000000000050000",
        "SELECT sum(keyword), count(*) FROM events",
        "SELECT min(time), sum(time - 1700000000000000000) FROM events",
    };

    (void)state;
    for (size_t i = 0; i < sizeof COUNTED / sizeof *COUNTED; i++) {
        check(COUNTED[i]);
        ec_reads r = reads_of(COUNTED[i]);
        if (r.decoded_events || r.counted_events != r.kept_events || (!r.kept_events && !strstr(COUNTED[i], "No/Such")))
            fail_msg("%s: %d events were decoded, %d counted, %d kept", COUNTED[i], (int)r.decoded_events,
                     (int)r.counted_events, (int)r.kept_events);
    }
    for (size_t i = 0; i < sizeof DECODED / sizeof *DECODED; i++) {
        check(DECODED[i]);
        if (!reads_of(DECODED[i]).decoded_events)
            fail_msg("%s: no event was decoded", DECODED[i]);
    }
    ec_reads r = reads_of("SELECT count(*), min(time), max(time) FROM events"); /* one stream has two clocks */
    assert_true(r.decoded_events >= BATCHES * EVENTS && r.counted_events >= BATCHES * EVENTS);
    assert_int_equal(r.decoded_events + r.counted_events, STREAMS * BATCHES * EVENTS);
    check("SELECT count(*), min(time), max(time) FROM events");
    check("SELECT stream, min(time), max(time) FROM events GROUP BY stream");
}

/* EXPLAIN ANALYZE says what was skipped, read and decoded, and refuses what it cannot run. */
static void test_analyze(void **state) {
    static const char *const REFUSED[] = {
        "EXPLAIN ANALYZE SELECT ?1",
        "EXPLAIN ANALYZE EXPLAIN ANALYZE SELECT 1",
        "EXPLAIN ANALYZE EXPLAIN QUERY PLAN SELECT 1",
        "EXPLAIN ANALYZE DELETE FROM events",
        "EXPLAIN ANALYZE ",
        "EXPLAIN ANALYZE SELECT no_such FROM events",
        "SELECT * FROM \"(explain analyze)\"('SELECT * FROM \"(explain analyze)\"(''SELECT 1'')')",
        "SELECT * FROM \"(explain analyze)\"",
    };

    static const struct {
        const char *sql, *expected; /* a part of the answer */
    } LIST[] = {
        {"EXPLAIN ANALYZE SELECT count(*) FROM events WHERE host = 'beta'",
         "|\ntskipped: of other hosts or streams|i6|n|\ntread, in scans: 1|i3|i240|\ntcounted|n|i240|\ntdecoded|n|i0|\n"
         "tkept|n|i240|\ntrows of the answer: 1|n|n|"},
        {"explain\n analyze SELECT pid FROM events WHERE host = 'beta' AND time < 5;",
         "tskipped: of other times|i3|n|"},
        {"EXPLAIN ANALYZE SELECT pid FROM \"DiskIo/Read\" WHERE name = 'it''s'", "tskipped: of other classes|i9|n|"},
        {"EXPLAIN ANALYZE SELECT count(*) FROM events WHERE pid = 12345678", "tskipped: of other processes|i9|n|"},
        {"EXPLAIN ANALYZE SELECT pid FROM events WHERE batch = 2",
         "of the first rows|i6|n|\ntread, in scans: 1|i3|i240|"},
        {"EXPLAIN ANALYZE SELECT pid FROM events WHERE pid = 8 -- a comment", "tcounted|n|i0|\ntdecoded|n|i"},
        {"EXPLAIN ANALYZE SELECT time_bucket(time, '1h') AS t, name, count(*), max(batch) FROM events WHERE host = "
         "'beta' GROUP"
         " BY 1, 2",
         "tcounted|n|i240|\ntdecoded|n|i0|"},
        {"EXPLAIN ANALYZE SELECT time_bucket(time, '10us') AS t, count(*) FROM events WHERE host = 'beta' GROUP BY 1",
         "tcounted|n|i0|\ntdecoded|n|i240|"},
        {"EXPLAIN ANALYZE SELECT 1 UNION ALL SELECT 2", "trows of the answer: 2|n|n|"},
        {"EXPLAIN ANALYZE SELECT name, count(*) FROM events GROUP BY name", ") count(*) of events by "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof REFUSED / sizeof *REFUSED; i++) {
        ea_text rows;
        ea_text_init(&rows);
        ask(pushed, REFUSED[i], &rows);
        if (!strstr(rows.data, "\n! "))
            fail_msg("%s is not refused: %s", REFUSED[i], rows.data);
        ea_text_deinit(&rows);
    }
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        ea_text rows;
        ea_text_init(&rows);
        ask(pushed, LIST[i].sql, &rows);
        if (!strstr(rows.data, LIST[i].expected) || strstr(rows.data, "\n! ") ||
            strncmp(rows.data, "step:TEXT|batches:INTEGER|events:INTEGER|\nt", 43) != 0)
            fail_msg("%s has no %s: %s", LIST[i].sql, LIST[i].expected, rows.data);
        ea_text_deinit(&rows);
    }
}

/* Whole numbers out of columns and constants, as SQL computes them, are keys. */
static void test_computed(void **state) {
    static const char *const LIST[] = {
        "SELECT time / 1000, count(*) FROM events GROUP BY 1 ORDER BY 1 DESC",
        "SELECT time - time % 700, count(*) FROM events GROUP BY 1",
        "SELECT (time - 1700000000000000000) / 7 * 7, count(*), max(tid) FROM events GROUP BY 1",
        "SELECT pid / cpu, tid % cpu, count(*) FROM events GROUP BY 1, 2",
        "SELECT tid * 9223372036854775807, count(*) FROM events GROUP BY 1",
        "SELECT TransferSize / 4096 + IssuingThreadId, count(*) FROM \"DiskIo/Read\" GROUP BY 1",
        "SELECT ByteOffset % 4095, count(*) FROM \"DiskIo/Read\" GROUP BY 1",
        "SELECT FileObject - 5, count(*) FROM \"DiskIo/Read\" GROUP BY FileObject - 5",
        "SELECT count(*) FROM events WHERE time % 3 = 1",
        "SELECT pid, count(*) FROM events WHERE (time - 1700000000000000000) / 1000 % 2 = 0 GROUP BY pid",
        ("SELECT pid, sum(tid + 1), avg(tid * 2), total(pid - tid), max(tid % 5), min((pid + tid))"
         " FROM events GROUP BY 1"),
        "SELECT count(DISTINCT time_bucket(time, 3000)), count(DISTINCT tid / 8), max(time - 5), max(time) FROM events",
        ("SELECT lower(name), sum(TransferSize / 512 * cpu) FILTER (WHERE pid = 4), count(IssuingThreadId / 0),"
         " avg(IssuingThreadId + 1), max(time_bucket(IssuingThreadId, 7)) FROM \"DiskIo/Read\" GROUP BY 1"),
        "SELECT sum(tid * 9223372036854775807), sum(tid * 9223372036854775807) FROM events",
        "SELECT name, sum(ByteOffset - 1), max(FileObject - Irp) FROM \"DiskIo/Read\" GROUP BY name",
        "SELECT pid, sum(tid + 1) + 1 AS s FROM events GROUP BY pid HAVING sum(tid + 1) > 100 ORDER BY sum(tid+1), s",
        "SELECT pid - (tid - (cpu - (pid - (tid - (cpu - pid))))), count(*) FROM events GROUP BY 1",
    };

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        check(LIST[i]);
        if (!is_pushed(LIST[i]) && !strstr(LIST[i], "(pid - (tid"))
            fail_msg("%s is not handed down", LIST[i]);
    }
}

static void test_not_pushed(void **state) {
    static const char *const LIST[] = {
        "SELECT pid FROM events LIMIT 3",
        "SELECT pid, tid, count(*) FROM events GROUP BY pid",
        "SELECT rowid, count(*) FROM events GROUP BY pid",
        "SELECT count(*) AS oid FROM events GROUP BY pid HAVING oid > 0",
        "SELECT group_concat(DISTINCT name) FROM events GROUP BY pid",
        "SELECT json_group_array(pid) FROM events GROUP BY pid",
        "SELECT sum(name) FROM events",
        "SELECT pid, count(*) FROM events WHERE name = 'DiskIo/Read' OR pid = 4 GROUP BY pid",
        "SELECT pid, count(*) FROM events WHERE keyword = '0x0' OR pid = 4 GROUP BY pid",
        "SELECT DISTINCT pid FROM events LIMIT 3",
        "SELECT DISTINCT position FROM events",
        "SELECT DISTINCT pid, count(*) FROM events GROUP BY tid",
        "SELECT DISTINCT pid, max(tid), count(*) FROM events",
        "SELECT keyword, count(*) FROM events GROUP BY keyword HAVING keyword = '0x0'",
        "SELECT ImageBase AS b, count(*) FROM \"Image/Load\" GROUP BY 1 HAVING b >= '0xfffff80000000000'",
        "SELECT lower(host), FileObject, count(*) FROM \"DiskIo/Read\" GROUP BY 1, 2 HAVING FileObject > '0x1'",
        "SELECT time, count(*) FROM events GROUP BY time HAVING time >= '2023-11-14T22:13:20Z'",
        "SELECT lower(name), tid, max(pid) FROM events GROUP BY 1",
        "SELECT sum(pid * 1.5) FROM events",
        "SELECT avg(CASE WHEN pid = 4 THEN 1 ELSE 0 END) FROM events",
        "SELECT sum(CASE WHEN pid = 4 THEN 12345 ELSE 0 END) FROM events",
        "SELECT sum(CASE pid WHEN 4 THEN 1 ELSE 0 END) FROM events",
        "SELECT random() % 1, count(*) FROM events GROUP BY 1",
        "SELECT sum(DISTINCT pid) FROM events",
        "SELECT count(payload) FROM events",
        "SELECT count(*) FROM events AS a, hosts",
        "SELECT count(*) FROM hosts",
        "SELECT count(*) FROM runtime_counters",
        "SELECT count(*), random() IS NULL FROM events",
        "SELECT pid, count(*) FROM events GROUP BY pid ORDER BY name",
        "SELECT count(*) AS \"(grouped key 0)\" FROM events GROUP BY pid HAVING \"(grouped key 0)\" > 1",
        "SELECT pid, count(*) OVER () FROM events GROUP BY pid",
        "SELECT count(*) FROM events_by('pid')",
        "SELECT count(*) FROM events UNION SELECT count(*) FROM hosts",
        "SELECT sum(pid) FROM events GROUP BY nothing",
        "SELECT count(*) FROM \"No/Such\"",
        "SELECT max(host) = 'alpha' FROM",
        "SELECT count(*) FROM events WHERE time > 'no time'",
        "SELECT min(time) > '2024-01-01' FROM events",
    };

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        check(LIST[i]);
        if (is_pushed(LIST[i]) && !strstr(LIST[i], "(time)"))
            fail_msg("%s is handed down", LIST[i]);
    }
}

/* What is handed down, in words. */
static void test_explain(void **state) {
    ea_text plan;
    (void)state;
    ea_text_init(&plan);
    explain(pushed, "SELECT pid, sum(TransferSize) FROM \"DiskIo/Read\" WHERE time >= ?1 AND pid = 4 GROUP BY pid",
            &plan);
    assert_non_null(strstr(plan.data, "sum(\"TransferSize\") of DiskIo/Read by \"pid\""));
    assert_non_null(strstr(plan.data, "where time >=, pid ="));
    assert_null(strstr(plan.data, "GROUP BY"));
    explain(pushed, "SELECT lower(name), count(*) FROM events WHERE pid = 4 AND tid <> 8 GROUP BY 1", &plan);
    assert_non_null(strstr(plan.data, "count(*) of events, parts by \"name\" if tid <> 8"));
    assert_non_null(strstr(plan.data, "where pid ="));
    explain(plain, "SELECT pid, sum(TransferSize) FROM \"DiskIo/Read\" GROUP BY pid", &plan);
    assert_non_null(strstr(plan.data, "GROUP BY"));
    ea_text_deinit(&plan);
}

/* A token that may see some hosts sees these alone, in both ways. */
static void test_hosts(void **state) {
    static const char *const LIST[] = {
        "SELECT host, count(*) FROM events GROUP BY host",
        "SELECT upper(host) || '/' || host, count(*) FROM events WHERE host LIKE '%a' OR pid = 4 GROUP BY 1",
        "SELECT DISTINCT host FROM events",
    };

    (void)state;
    for (size_t k = 0; k < sizeof LIST / sizeof *LIST; k++) {
        ec_sql *of[2] = {NULL, NULL};
        ea_err err = {0};
        ea_text a, b;
        ea_text_init(&a);
        ea_text_init(&b);
        assert_true(is_pushed(LIST[k]));
        for (int i = 0; i < 2; i++)
            assert_int_equal(
                ec_sql_open(&of[i], scratch_path("."), &(ec_sql_options){.shown = "beta", .no_grouping = i}, &err), 0);
        ask(of[0], LIST[k], &a);
        ask(of[1], LIST[k], &b);
        assert_string_equal(a.data, b.data);
        assert_non_null(strstr(a.data, "beta"));
        assert_null(strstr(a.data, "alpha"));
        ec_sql_close(of[0]);
        ec_sql_close(of[1]);
        ea_text_deinit(&a);
        ea_text_deinit(&b);
    }
}

static void test_canceled(void **state) {
    sqlite3_stmt *st = NULL;
    ea_err err = {0};
    (void)state;
    assert_int_equal(ec_sql_prepare(pushed, "SELECT pid, count(*) FROM events GROUP BY pid", &st, NULL, &err),
                     SQLITE_OK);
    is_over = 1;
    assert_int_equal(sqlite3_step(st), SQLITE_INTERRUPT);
    is_over = 0;
    sqlite3_reset(st);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW); /* and it can be asked again */
    sqlite3_finalize(st);
}

/* Two statements of one connection, one inside the other, each with its own groups. */
static void test_nested(void **state) {
    sqlite3_stmt *a = NULL, *b = NULL;
    ea_err err = {0};
    int rows = 0;
    (void)state;
    assert_int_equal(ec_sql_prepare(pushed, "SELECT pid, count(*) FROM events GROUP BY pid", &a, NULL, &err), 0);
    assert_int_equal(ec_sql_prepare(pushed, "SELECT count(*) FROM events WHERE pid = ?1 GROUP BY pid", &b, NULL, &err),
                     0);
    for (; sqlite3_step(a) == SQLITE_ROW; rows++) {
        assert_int_equal(sqlite3_bind_value(b, 1, sqlite3_column_value(a, 0)), SQLITE_OK);
        assert_int_equal(sqlite3_step(b), SQLITE_ROW);
        assert_int_equal(sqlite3_column_int64(b, 0), sqlite3_column_int64(a, 1));
        assert_int_equal(sqlite3_step(b), SQLITE_DONE);
        sqlite3_reset(b);
    }
    assert_true(rows > 3);
    sqlite3_finalize(a);
    sqlite3_finalize(b);
}

/* ---- random statements ---- */

static const char *const COLUMNS[] = {"host",        "pid",    "tid",           "cpu",   "name",
                                      "time",        "level",  "provider_name", "batch", "position",
                                      "activity_id", "stream", "keyword",       "opcode"};
static const char *const DISK[] = {
    "DiskNumber",      "IrpFlags", "TransferSize", "ByteOffset", "FileObject", "Irp", "HighResResponseTime",
    "IssuingThreadId", "pid",      "tid",          "host",       "time",       "cpu"};

static const char *column(int of_disk) {
    return of_disk ? DISK[draw(sizeof DISK / sizeof *DISK)] : COLUMNS[draw(sizeof COLUMNS / sizeof *COLUMNS)];
}

/* A form whose first %s is the column, and %% a %. */
static void put_form(ea_text *t, const char *form, const char *of) {
    for (; *form; form++) {
        if (form[0] == '%' && form[1] == 's')
            ea_text_str(t, of);
        else
            ea_text_char(t, *form);
        form += *form == '%';
    }
}

static void put_key(ea_text *t, int of_disk) {
    static const char *const FORMS[] = {"lower(%s)",   "%s + 1",           "%s / 3",
                                        "%s IS NULL",  "substr(%s, 1, 2)", "CASE WHEN %s > 8 THEN 'x' ELSE 5 END",
                                        "%s %% 5 - 2", "abs(%s)"};
    uint32_t form = draw(8);
    if (form == 0)
        ea_text_printf(t, "time_bucket(time, %u)", 100 + draw(9000));
    else if (form == 1)
        ea_text_printf(t, "time / %u", 100 + draw(9000));
    else if (form == 2)
        put_form(t, FORMS[draw(sizeof FORMS / sizeof *FORMS)], column(of_disk));
    else
        ea_text_str(t, column(of_disk));
}

static void put_aggregate(ea_text *t, int of_disk) {
    static const char *const NAMES[] = {"count", "sum", "avg", "min", "max", "total", "count(DISTINCT", "group_concat"};
    uint32_t which = draw(draw(10) ? 7 : 8);
    if (draw(4) == 0) {
        ea_text_str(t, "count(*)");
    } else {
        ea_text_str(t, NAMES[which]);
        ea_text_str(t, which == 6 ? " " : "(");
        if (draw(8))
            ea_text_str(t, column(of_disk));
        else
            put_key(t, of_disk);
        ea_text_char(t, ')');
    }
    if (draw(12) == 0)
        ea_text_printf(t, " FILTER (WHERE %s > 5)", column(of_disk));
}

static void put_condition(ea_text *t, int of_disk) {
    static const char *const OPS[] = {"=", "<", "<=", ">", ">=", "<>"};
    static const char *const VALUES[] = {"4",
                                         "8",
                                         "'alpha'",
                                         "'DiskIo/Read'",
                                         "0",
                                         "2.5",
                                         "1700000000000001500",
                                         "u64('0xfffff80000000000')",
                                         "?1",
                                         "?2",
                                         "1024",
                                         "-1",
                                         "'4'",
                                         "u64(4096)"};
    const char *c = column(of_disk);
    switch (draw(14)) {
    case 12:
        ea_text_printf(t, "NOT (%s %s %u AND %s)", c, OPS[draw(6)], draw(9), column(of_disk));
        return;
    case 13:
        ea_text_printf(t, "(%s %s %u OR %s IS NULL) IS NOT TRUE", c, OPS[draw(6)], draw(9), column(of_disk));
        return;
    case 8:
        ea_text_printf(t, "(%s = 4 OR %s < 9)", c, column(of_disk));
        return;
    case 9:
        ea_text_printf(t, "%s %sLIKE '%%%u%%'", c, draw(2) ? "NOT " : "", draw(9));
        return;
    case 10:
        ea_text_printf(t, "%s = %s", c, column(of_disk));
        return;
    case 0:
        ea_text_printf(t, "%s BETWEEN %s AND %s", c, VALUES[draw(14)], VALUES[draw(14)]);
        return;
    case 1:
        ea_text_printf(t, "%s IN (%s, %s, %s)", c, VALUES[draw(14)], VALUES[draw(14)], VALUES[draw(14)]);
        return;
    case 2:
        ea_text_printf(t, "%s %s %s", VALUES[draw(14)], OPS[draw(6)], c);
        return;
    default:
        ea_text_printf(t, "%s %s %s", c, OPS[draw(draw(10) ? 5 : 6)], VALUES[draw(14)]);
    }
}

static void put_statement(ea_text *t) {
    int of_disk = draw(2) != 0;
    uint32_t keys = draw(4), aggregates = draw(4) + (keys == 0), conditions = draw(3);
    ea_text_clear(t);
    ea_text_str(t, "SELECT ");
    for (uint32_t i = 0; i < keys; i++) {
        ea_text_str(t, i ? ", " : "");
        put_key(t, of_disk);
        if (draw(3) == 0)
            ea_text_printf(t, " AS k%u", i);
    }
    for (uint32_t i = 0; i < aggregates; i++) {
        ea_text_str(t, i || keys ? ", " : "");
        put_aggregate(t, of_disk);
        if (draw(5) == 0)
            ea_text_str(t, " + 1");
        if (draw(3) == 0)
            ea_text_printf(t, " AS a%u", i);
    }
    ea_text_str(t, of_disk ? " FROM \"DiskIo/Read\"" : " FROM events");
    for (uint32_t i = 0; i < conditions; i++) {
        ea_text_str(t, i ? " AND " : " WHERE ");
        put_condition(t, of_disk);
    }
    for (uint32_t i = 0; i < keys; i++)
        ea_text_printf(t, "%s%u", i ? ", " : " GROUP BY ", i + 1);
    if (draw(4) == 0) {
        ea_text_str(t, " HAVING ");
        put_aggregate(t, of_disk);
        ea_text_printf(t, " %s %u", draw(2) ? ">" : "<>", draw(20));
    }
    if (draw(2)) {
        ea_text_printf(t, " ORDER BY %u%s", 1 + draw(keys + aggregates), draw(2) ? " DESC" : "");
        if (draw(2)) {
            ea_text_str(t, ", ");
            put_aggregate(t, of_disk);
        }
    }
    if (draw(3) == 0)
        ea_text_printf(t, " LIMIT %u", draw(6));
}

static void test_random(void **state) {
    int handed_down = 0;
    ea_text sql;
    (void)state;
    ea_text_init(&sql);
    seed = 20240517;
    for (int i = 0; i < STATEMENTS; i++) {
        put_statement(&sql);
        check(sql.data);
        handed_down += is_pushed(sql.data);
    }
    assert_in_range(handed_down, STATEMENTS / 3, STATEMENTS);
    ea_text_deinit(&sql);
}

static void test_random_rows(void **state) {
    static const char *const ORDERS[] = {"", " DESC", " ASC", " NULLS LAST", " DESC NULLS FIRST", " DESC"};
    int handed_down = 0;
    ea_text sql;
    (void)state;
    ea_text_init(&sql);
    seed = 20240518;
    for (int i = 0; i < STATEMENTS; i++) {
        int of_disk = draw(2) != 0;
        uint32_t conditions = draw(3), keys = 1 + draw(3);
        ea_text_clear(&sql);
        ea_text_printf(&sql, "SELECT %s, rowid FROM %s", draw(4) ? column(of_disk) : "*",
                       of_disk ? "\"DiskIo/Read\"" : "events");
        for (uint32_t k = 0; k < conditions; k++) {
            ea_text_str(&sql, k ? " AND " : " WHERE ");
            put_condition(&sql, of_disk);
        }
        for (uint32_t k = 0; k < keys && i % 4; k++)
            ea_text_printf(&sql, "%s%s%s", k ? ", " : " ORDER BY ", column(of_disk), ORDERS[draw(6)]);
        if (i % 5)
            ea_text_printf(&sql, " LIMIT %u", 1 + draw(draw(4) ? 20 : 500));
        check(sql.data);
        handed_down += is_pushed(sql.data);
    }
    assert_in_range(handed_down, STATEMENTS / 3, STATEMENTS);
    ea_text_deinit(&sql);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pushed),        cmocka_unit_test(test_partial),     cmocka_unit_test(test_computed),
        cmocka_unit_test(test_not_pushed),    cmocka_unit_test(test_explain),     cmocka_unit_test(test_hosts),
        cmocka_unit_test(test_canceled),      cmocka_unit_test(test_nested),      cmocka_unit_test(test_filters),
        cmocka_unit_test(test_rows),          cmocka_unit_test(test_counting),    cmocka_unit_test(test_analyze),
        cmocka_unit_test(test_filtered_rows), cmocka_unit_test(test_far_times),   cmocka_unit_test(test_index),
        cmocka_unit_test(test_certain),       cmocka_unit_test(test_far_numbers), cmocka_unit_test(test_random_rows),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
