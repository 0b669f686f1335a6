/* SQL's own part: the order-keeping mapping of 64-bit numbers, the functions that print and parse, at their edges, and
 * what a connection refuses. Over an empty store. */
#include "collector/query/sql/sql.h"
#include "collector/state/state_db.h"
#include "collector/store/store.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static ec_sql *sql;

static int setup(void **state) {
    ec_store *store = NULL;
    ea_err err = {0};
    if (scratch_make(state) || ec_store_open(&store, scratch_path("."), &(ec_store_options){.writable = 1}, &err))
        return -1;
    ec_store_close(store);
    return ec_sql_open(&sql, scratch_path("."), &(ec_sql_options){0}, &err);
}

static int teardown(void **state) {
    ec_sql_close(sql);
    return scratch_clear(state);
}

/* The first cell as text, "NULL", or "! " and the error; malloc'd. */
static char *first_cell(const char *statement) {
    sqlite3 *db = ec_sql_database(sql);
    sqlite3_stmt *s = NULL;
    ea_err err;
    char *out = NULL;
    int code = ec_sql_prepare(sql, statement, &s, NULL, &err);
    if (code == SQLITE_OK)
        code = sqlite3_step(s);
    if (code == SQLITE_ROW && sqlite3_column_type(s, 0) == SQLITE_NULL)
        out = sqlite3_mprintf("NULL");
    else if (code == SQLITE_ROW)
        out = sqlite3_mprintf("%s", (const char *)sqlite3_column_text(s, 0));
    else
        out = sqlite3_mprintf("! %s", code == SQLITE_DONE ? "no row" : sqlite3_errmsg(db));
    sqlite3_finalize(s);
    assert_non_null(out);
    return out;
}

typedef struct expectation {
    const char *sql, *expected; /* an expression; "! ..." is how an error begins */
} expectation;

static void check(const expectation *list, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char *statement = sqlite3_mprintf("SELECT %s", list[i].sql);
        assert_non_null(statement);
        char *got = first_cell(statement);
        int is_error = list[i].expected[0] == '!';
        if (is_error ? strncmp(got, list[i].expected, strlen(list[i].expected)) != 0
                     : strcmp(got, list[i].expected) != 0)
            fail_msg("%s gives %s, not %s", list[i].sql, got, list[i].expected);
        sqlite3_free(got);
        sqlite3_free(statement);
    }
}

#define CHECK(list) check(list, sizeof(list) / sizeof((list)[0]))

static void test_mapping(void **state) {
    static const uint64_t EDGES[] = {0,
                                     1,
                                     0xffff,
                                     0x7ff700000000u,
                                     0x7fffffffffffffffu,
                                     0x8000000000000000u,
                                     0x8000000000000001u,
                                     0xfffff80000000000u,
                                     0xfffffffffffffffeu,
                                     UINT64_MAX};

    enum { COUNT = sizeof EDGES / sizeof EDGES[0] };

    uint64_t seed = 7;
    (void)state;
    assert_int_equal(ec_u64_to_sql(0), INT64_MIN);
    assert_int_equal(ec_u64_to_sql(UINT64_MAX), INT64_MAX);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < COUNT; k++)
            assert_int_equal(ec_u64_to_sql(EDGES[i]) < ec_u64_to_sql(EDGES[k]), EDGES[i] < EDGES[k]);
    for (int i = 0; i < 100000; i++) {
        uint64_t pair[2];
        for (int k = 0; k < 2; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            pair[k] = seed ^ seed >> 29;
        }
        assert_true(ec_u64_from_sql(ec_u64_to_sql(pair[0])) == pair[0]);
        assert_int_equal(ec_u64_to_sql(pair[0]) < ec_u64_to_sql(pair[1]), pair[0] < pair[1]);
        /* differences are kept, too */
        assert_true((uint64_t)ec_u64_to_sql(pair[0]) - (uint64_t)ec_u64_to_sql(pair[1]) == pair[0] - pair[1]);
    }
}

static void test_u64(void **state) {
    static const expectation LIST[] = {
        {"u64('0xFFFFF80000000000') > u64('0x7FF700000000')", "1"},
        {"u64(0xFFFFF80000000000) > u64(0x7FF700000000)", "1"},
        {"0xFFFFF80000000000 > 0x7FF700000000", "0"}, /* SQLite's literals are signed: what u64() is for */
        {"u64('0xfffff80000001000') - u64('0xfffff80000000000')", "4096"},
        {"u64('0')", "-9223372036854775808"},
        {"u64('0xffffffffffffffff')", "9223372036854775807"},
        {"u64('18446744073709551615')", "9223372036854775807"},
        {"u64('0x8000000000000000')", "0"},
        {"u64(-1) = u64('0xffffffffffffffff')", "1"},
        {"u64(NULL)", "NULL"},
        {"u64('18446744073709551616')", "! u64: expected"},
        {"u64('0x10000000000000000')", "! u64: expected"},
        {"u64('-1')", "! u64: expected"},
        {"u64('')", "! u64: expected"},
        {"u64('0x')", "! u64: expected"},
        {"u64(' 5')", "! u64: expected"},
        {"u64('5 ')", "! u64: expected"},
        {"u64(1.5)", "! u64: expected"},
        {"u64(X'00')", "! u64: expected"},
        {"u64_text(u64('0xfffff80000000000'))", "0xfffff80000000000"},
        {"u64_text(u64(0))", "0x0"},
        {"u64_text(u64('18446744073709551615'))", "0xffffffffffffffff"},
        {"u64_text(NULL)", "NULL"},
        {"u64_text('0x5')", "! u64_text: expected"},
        {"u64_text(1.0)", "! u64_text: expected"},
        {"u64_number(u64('9223372036854775807'))", "9223372036854775807"},
        {"u64_number(u64('9223372036854775808'))", "09223372036854775808"},
        {"u64_number(u64('18446744073709551615'))", "18446744073709551615"},
        {"u64_number(u64('18446744073709551615')) > 9223372036854775807", "1"}, /* sorts after all numbers */
        {"u64_number(u64(5)) + 1", "6"},
        {"u64_number(NULL)", "NULL"},
        {"u64_number('5')", "! u64_number: expected"},
        {"hex_text(255)", "0xff"},
        {"hex_text(-1)", "0xffffffffffffffff"},
        {"hex_text(0)", "0x0"},
        {"hex_text(NULL)", "NULL"},
    };
    (void)state;
    CHECK(LIST);
}

static void test_times(void **state) {
    static const expectation LIST[] = {
        {"time_ns('1970-01-01T00:00:00Z')", "0"},
        {"time_ns('1970-01-01T00:00:00.000000001Z')", "1"},
        {"time_ns('1969-12-31T23:59:59.9999999Z')", "-100"},
        {"time_ns('2024-02-29T12:00:00Z')", "1709208000000000000"},
        {"time_ns('2262-04-11T23:47:16.854775807Z')", "9223372036854775807"},
        {"time_ns('2024-05-17T14:03:07+02:00') < time_ns('2024-05-17T14:03:07Z')", "1"},
        {"time_ns('2023-02-29T12:00:00Z')", "! time_ns: expected"},
        {"time_ns('2024-13-01T00:00:00Z')", "! time_ns: expected"},
        {"time_ns('9999-01-01T00:00:00Z')", "! time_ns: expected"},
        {"time_ns('2024-02-29')", "1709164800000000000"},
        {"time_ns('2024-02-29 12:00')", "1709208000000000000"},
        {"time_ns('2024-02-29T12:00:00')", "1709208000000000000"},
        {"time_ns('now') - now() BETWEEN 0 AND 1000000000", "1"},
        {"now() - time_ns('-1h')", "3600000000000"},
        {"now() - ago('24h')", "86400000000000"},
        {"now() - ago(5)", "5"},
        {"now() - ago(0)", "0"},
        {"now() BETWEEN time_ns('today') AND time_ns('today+1d')", "1"},
        {"time_ns('today') - time_ns('yesterday')", "86400000000000"},
        {"ago(NULL)", "NULL"},
        {"ago('soon')", "! ago: expected"},
        {"ago(-1)", "! ago: expected"},
        {"time_ns('someday')", "! time_ns: expected"},
        {"time_ns('24h')", "! time_ns: expected"},
        {"time_ns('+10s')", "! '+10s': nothing is stored, so there is no first"},
        {"time_ns('')", "! time_ns: expected"},
        {"time_ns(NULL)", "NULL"},
        {"time_text(0)", "1970-01-01T00:00:00.0000000Z"},
        {"time_text(-1)", "1969-12-31T23:59:59.9999999Z"},
        {"time_ns(time_text(1709208000123456700))", "1709208000123456700"},
        {"time_text(NULL)", "NULL"},
        {"time_bucket(1999, 1000)", "1000"},
        {"time_bucket(-1, 1000)", "-1000"},
        {"time_bucket(-1000, 1000)", "-1000"},
        {"time_bucket(1500000000, '1s')", "1000000000"},
        {"time_bucket(-9223372036854775807, '1h')", "-9223372036854775808"},
        {"time_bucket(NULL, '1s')", "NULL"},
        {"time_bucket(5, NULL)", "NULL"},
        {"time_bucket(5, 0)", "! time_bucket: expected"},
        {"time_bucket(5, -1)", "! time_bucket: expected"},
        {"time_bucket(5, 'often')", "! time_bucket: expected"},
        {"duration_ns('5ms')", "5000000"},
        {"duration_ns('2h')", "7200000000000"},
        {"duration_ns('5')", "! duration_ns: expected"},
        {"duration_ns('99999999999h')", "! duration_ns: expected"},
        {"duration_ns(NULL)", "NULL"},
    };
    (void)state;
    CHECK(LIST);
}

static void test_printf(void **state) {
    static const expectation LIST[] = {
        {"printf('%d-%s%%', 5, 'a')", "5-a%"},
        {"printf('%s%', 'a')", "a%"},
        {"printf('%d-%d-%d', 1, 2, 3)", "1-2-3"}, /* more arguments than the statement before had */
        {"format('%.*c', 3, 'x')", "xxx"},
        {"printf(NULL, 1) IS NULL", "1"},
        {"printf('')", "NULL"},
        {"printf('%.*c', 1000000000, 'x')", "! string or blob too big"},
        {"printf('%s', printf('%d', 7))", "7"},
        {"format('%.*c', 64000000, 'x')", "! string or blob too big"},
    };
    (void)state;
    CHECK(LIST);
}

static void test_guids(void **state) {
    static const expectation LIST[] = {
        {"guid('{3D6FA8D0-FE05-11D0-9DDA-00C04FD7BA7C}')", "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c"},
        {"guid('3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c')", "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c"},
        {"hex(guid_bytes('3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c'))", "D0A86F3D05FED0119DDA00C04FD7BA7C"},
        {"guid(guid_bytes('3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c'))", "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c"},
        {"guid(zeroblob(16))", "00000000-0000-0000-0000-000000000000"},
        {"guid(NULL)", "NULL"},
        {"guid_bytes(NULL)", "NULL"},
        {"guid(zeroblob(15))", "! guid: expected"},
        {"guid(zeroblob(17))", "! guid: expected"},
        {"guid('3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7')", "! guid: expected"},
        {"guid('3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7g')", "! guid: expected"},
        {"guid(5)", "! guid: expected"},
        {"guid_bytes('x')", "! guid_bytes: expected"},
    };
    (void)state;
    CHECK(LIST);
}

static void test_sids(void **state) {
    static const expectation LIST[] = {
        {"sid('S-1-5-18')", "S-1-5-18"},
        {"sid('s-1-5-18')", "S-1-5-18"},
        {"hex(sid_bytes('S-1-5-18'))", "010100000000000512000000"},
        {"sid(sid_bytes('S-1-5-21-1-2-4294967295-1001'))", "S-1-5-21-1-2-4294967295-1001"},
        {"length(sid_bytes('S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15'))", "68"}, /* 15 sub-authorities */
        {"sid_bytes('S-1-5-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16')", "! sid_bytes: expected"},
        {"sid_bytes('S-1-5-4294967296')", "! sid_bytes: expected"},
        {"sid_bytes('S-2-5-18')", "! sid_bytes: expected"},
        {"sid_bytes('S-1-281474976710656-1')", "! sid_bytes: expected"},
        {"sid_bytes('S-1-5-')", "! sid_bytes: expected"},
        {"sid_bytes('S-1')", "! sid_bytes: expected"},
        {"sid_bytes('X-1-5-18')", "! sid_bytes: expected"},
        {"sid_bytes('S_1-5-18')", "! sid_bytes: expected"},
        {"sid('S-1-5-00000000000000000000018')", "S-1-5-18"}, /* a number has 23 digits at most */
        {"sid('S-1-5-000000000000000000000018')", "! sid: expected"},
        {"hex(sid_bytes('S-1-5'))", "0100000000000005"},
        {"sid(X'0100000000000005')", "S-1-5"},
        {"sid_bytes('')", "! sid_bytes: expected"},
        {"sid(X'0101000000000005')", "! sid: expected"}, /* a sub-authority is missing */
        {"sid(X'0110000000000005')", "! sid: expected"},
        {"sid(zeroblob(69))", "! sid: expected"},
        {"sid(NULL)", "NULL"},
        {"sid_bytes(NULL)", "NULL"},
        {"account_name('S-1-5-18')", "NT AUTHORITY\\SYSTEM"},
        {"account_name('s-1-5-18')", "NT AUTHORITY\\SYSTEM"},
        {"account_name(sid_bytes('S-1-5-32-544'))", "BUILTIN\\Administrators"},
        {"account_name('S-1-1-0')", "Everyone"},
        {"account_name('S-1-5-90-0-3')", "Window Manager\\DWM-3"},
        {"account_name('S-1-5-90-0')", "Window Manager\\Window Manager Group"},
        {"account_name('S-1-5-96-0-4294967295')", "Font Driver Host\\UMFD-4294967295"},
        {"account_name('S-1-5-96-0')", "NULL"},
        {"account_name('S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464')",
         "NT SERVICE\\TrustedInstaller"},
        {"account_name('S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478465')", "NULL"},
        {"account_name('S-1-5-18', 'any')", "NT AUTHORITY\\SYSTEM"},
        {"account_name('S-1-5-90-0-1-2')", "NULL"},
        {"account_name('S-1-5-18-1')", "NULL"},
        {"account_name('S-1-5-21-1-2-3-500')", "NULL"}, /* the machine's own: it may have another name */
        {"account_name('S-1-5-')", "NULL"},             /* an agent's text may be none: no error */
        {"account_name('')", "NULL"},
        {"account_name(X'0101000000000005')", "NULL"},
        {"account_name(18)", "NULL"},
        {"account_name(NULL)", "NULL"},
    };
    (void)state;
    CHECK(LIST);
}

static void test_registry(void **state) {
    static const expectation LIST[] = {
        {"registry_data(4, 4, X'01000000')", "DWORD (0x00000001)"},
        {"registry_data(4, 4, X'efbeadde')", "DWORD (0xdeadbeef)"},
        {"registry_data(4, 4, X'0100')", "NULL"}, /* cut */
        {"registry_data(4, 2, X'0100')", "Binary Data"},
        {"registry_data(11, 8, X'0100000002000000')", "QWORD (0x00000002-0x00000001)"},
        {"registry_data(11, 8, X'01000000')", "NULL"},
        {"registry_data(11, 4, X'01000000')", "Binary Data"},
        {"registry_data(1, 6, X'680069000000')", "hi"},
        {"registry_data(2, 10, X'250061002500')", "%a%"}, /* cut: the rest */
        {"registry_data(1, 4, X'68006900')", "hi"},       /* without its end */
        {"registry_data(1, 3, X'680069')", "h"},
        {"registry_data(6, 4, X'68006900')", "hi"},
        {"registry_data(1, 2, X'0000')", "(Empty)"},
        {"registry_data(1, 0, X'')", "(Empty)"},
        {"registry_data(3, 0, NULL)", "(Empty)"},
        {"registry_data(3, 5, X'0102030405')", "Binary Data"},
        {"registry_data(7, 8, X'6100000062000000')", "Binary Data"},
        {"registry_data(0, 1, X'01')", "Binary Data"},
        {"registry_data(4294967295, 1, X'01')", "Binary Data"},
        {"registry_data(4, 4, X'')", "NULL"}, /* absent stays absent */
        {"registry_data(4, 4, NULL)", "NULL"},
        {"registry_data(3, 5, 'text')", "NULL"},
        {"registry_data(NULL, 4, X'01000000')", "NULL"},
        {"registry_data(4, NULL, X'01000000')", "NULL"},
        {"registry_data(-1, 4, X'01000000')", "NULL"},
        {"registry_data(4, -1, X'01000000')", "NULL"},
        {"registry_data(4294967296, 4, X'01000000')", "NULL"},
        {"registry_data('4', 4, X'01000000')", "NULL"},
        {"registry_path('\\REGISTRY\\MACHINE\\SOFTWARE\\Run')", "HKLM\\SOFTWARE\\Run"},
        {"registry_path('\\Registry\\Machine')", "HKLM"},
        {"registry_path('\\REGISTRY\\MACHINEX\\a')", "\\REGISTRY\\MACHINEX\\a"},
        {"registry_path('\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001\\Services\\a')",
         "HKLM\\System\\CurrentControlSet\\Services\\a"},
        {"registry_path('\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet12\\a')", "HKLM\\SYSTEM\\ControlSet12\\a"},
        {"registry_path('\\REGISTRY\\MACHINE\\SYSTEM\\ControlSet001x')", "HKLM\\SYSTEM\\ControlSet001x"},
        {"registry_path('\\REGISTRY\\MACHINE\\SYSTEM\\Select')", "HKLM\\SYSTEM\\Select"},
        {"registry_path('\\REGISTRY\\MACHINE\\SOFTWARE\\Classes\\.exe')", "HKCR\\.exe"},
        {"registry_path('\\REGISTRY\\MACHINE\\SOFTWARE\\Classes')", "HKCR"},
        {"registry_path('\\REGISTRY\\USER\\S-1-5-18_Classes\\a')", "HKU\\S-1-5-18_Classes\\a"},
        {"registry_path('\\REGISTRY\\A\\{1}')", "\\REGISTRY\\A\\{1}"},
        {"registry_path('')", ""},
        {"registry_path(NULL)", "NULL"},
        {"registry_path(5)", "NULL"},
    };
    (void)state;
    CHECK(LIST);
}

static void test_paths(void **state) {
    static const expectation LIST[] = {
        {"path_on_volume('\\Device\\HarddiskVolume3\\Windows\\System32\\A.dll')", "\\windows\\system32\\a.dll"},
        {"path_on_volume('\\device\\harddiskvolume12\\a.dll')", "\\a.dll"},
        {"path_on_volume('\\Device\\HarddiskVolumeShadowCopy1\\a.dll')", "\\device\\harddiskvolumeshadowcopy1\\a.dll"},
        {"path_on_volume('\\Device\\HarddiskVolume3')", "\\device\\harddiskvolume3"},
        {"path_on_volume('\\Device\\HarddiskVolume3x\\a')", "\\device\\harddiskvolume3x\\a"},
        {"path_on_volume('\\Device\\HarddiskVolume\\a')", "\\device\\harddiskvolume\\a"}, /* no number */
        {"path_on_volume('C:\\Windows\\A.dll')", "\\windows\\a.dll"},
        {"path_on_volume('A:\\A.dll')", "\\a.dll"},
        {"path_on_volume('Z:\\A.dll')", "\\a.dll"},
        {"path_on_volume('a:\\A.dll')", "\\a.dll"},
        {"path_on_volume('z:\\A.dll')", "\\a.dll"},
        {"path_on_volume('@:\\A.dll')", "@:\\a.dll"},
        {"path_on_volume('[:\\A.dll')", "[:\\a.dll"},
        {"path_on_volume('\\??\\c:\\Windows\\A.dll')", "\\windows\\a.dll"},
        {"path_on_volume('\\\\?\\c:\\Windows\\A.dll')", "\\windows\\a.dll"},
        {"path_on_volume('\\SystemRoot\\System32\\A.sys')", "\\windows\\system32\\a.sys"},
        {"path_on_volume('\\Windows\\A.dll')", "\\windows\\a.dll"},
        {"path_on_volume('\\Device\\Mup\\Server\\Share\\a.dll')", "\\device\\mup\\server\\share\\a.dll"},
        {"path_on_volume('a.dll')", "a.dll"},
        {"path_on_volume('1:\\a')", "1:\\a"},
        {"path_on_volume('C:')", "c:"},
        {"path_on_volume('')", ""},
        {"path_on_volume(NULL)", "NULL"},
        {"path_on_volume(4)", "! path_on_volume: expected"},
    };
    (void)state;
    CHECK(LIST);
}

static void test_addresses(void **state) {
    static const expectation LIST[] = {
        {"ip('192.0.2.1')", "192.0.2.1"},
        {"ip(X'C0000201')", "192.0.2.1"},
        {"ip('2001:DB8:0:0:0:0:0:1')", "2001:db8::1"},
        {"hex(ip_bytes('::1'))", "00000000000000000000000000000001"},
        {"ip(ip_bytes('fe80::1'))", "fe80::1"},
        {"ip('192.0.2.256')", "! ip: expected"},
        {"ip(X'C00002')", "! ip: expected"},
        {"ip(NULL)", "NULL"},
        {"ip_in('10.1.2.3', '10.0.0.0/8')", "1"},
        {"ip_in('11.1.2.3', '10.0.0.0/8')", "0"},
        {"ip_in('10.1.2.3', '0.0.0.0/0')", "1"},
        {"ip_in('10.1.2.3', '10.1.2.3/32')", "1"},
        {"ip_in('10.1.2.2', '10.1.2.3/32')", "0"},
        {"ip_in('10.1.2.129', '10.1.2.128/25')", "1"},
        {"ip_in('10.1.2.127', '10.1.2.128/25')", "0"},
        {"ip_in('fe80::1', 'fe80::/10')", "1"},
        {"ip_in('10.1.2.3', 'fe80::/10')", "0"},
        {"ip_in('10.1.2.3', '10.0.0.0/33')", "! ip_in: expected"},
        {"ip_in('10.1.2.3', '10.0.0.0')", "! ip_in: expected"},
        {"ip_in('10.1.2.3', '/8')", "! ip_in: expected"},
        {"ip_in(NULL, '10.0.0.0/8')", "NULL"},
        {"ip_in('10.1.2.3', NULL)", "NULL"},
        {"ntstatus(0)", "SUCCESS"},
        {"ntstatus(0xC0000022)", "ACCESS_DENIED"},
        {"ntstatus(0x12345678)", "NULL"},
        {"ntstatus(NULL)", "NULL"},
    };
    (void)state;
    CHECK(LIST);
}

static void test_refused(void **state) {
    static const char *const LIST[] = {"ATTACH ':memory:' AS x",
                                       "CREATE TABLE t(x)",
                                       "CREATE TEMP TABLE t(x)",
                                       "CREATE TEMP TRIGGER t AFTER INSERT ON hosts BEGIN SELECT 1; END",
                                       "PRAGMA writable_schema = 1",
                                       "PRAGMA journal_mode",
                                       "INSERT INTO hosts VALUES (1)",
                                       "DELETE FROM sqlite_master",
                                       "UPDATE sqlite_master SET name = 'x'",
                                       "BEGIN",
                                       "SELECT load_extension('x')"};
    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof LIST[0]; i++) {
        ea_err err;
        sqlite3_stmt *s = NULL;
        if (ec_sql_prepare(sql, LIST[i], &s, NULL, &err) == SQLITE_OK)
            fail_msg("allowed: %s", LIST[i]);
        sqlite3_finalize(s);
    }
}

/* Where SQLite itself would compare a number with the text of a time, the statement is refused; texts with texts, and
 * what a table compares itself, are not. */
static void test_texts_of_times(void **state) {
#define TIME    "'2024-05-17T14:03:07Z'"
#define REFUSED "! a number is compared with the text '2024-05-17T14:03:07Z'"
#define NUMBER  "! a number is compared with the text 'abc'"
    static const expectation LIST[] = {
        {"count(*) FROM batches WHERE begin > " TIME, "0"},
        {"count(*) FROM batches WHERE " TIME " >= begin", "0"},
        {"count(*) FROM batches WHERE begin BETWEEN " TIME " AND " TIME, "0"},
        {"count(*) FROM batches WHERE begin IN (" TIME ", 5)", "0"},
        {"count(*) FROM events WHERE time < " TIME, "0"},
        {"count(*) FROM batches WHERE begin > '5'", "0"},
        {"count(*) FROM batches WHERE begin > '2024-05-17'", "0"},
        {"count(*) FROM batches WHERE begin BETWEEN 'yesterday' AND 'now'", "0"},
        {"count(*) FROM batches WHERE host > '0x10'", "0"},
        {"count(*) FROM hosts WHERE begin > '0x10'", "! a number is compared with the text '0x10'"},
        {"count(*) FROM batches WHERE time_text(begin) > " TIME, "0"},
        {"count(*) FROM batches WHERE host > " TIME, "0"},
        {"count(*) FROM batches HAVING max(time_text(begin)) > " TIME, "! no row"},
        {"count(*) FROM batches HAVING max(begin) > time_ns(" TIME ")", "! no row"},
        {"time_text(5) < " TIME, "1"},
        {"count(*) FROM (SELECT time_text(begin) AS t FROM batches ORDER BY host, begin LIMIT 5) WHERE t > " TIME, "0"},
        {"count(*) FROM json_each('[\"2024-05-18\", \"2024-05-16\"]') WHERE value > '2024-05-17'", "1"},
        {"count(*) FROM batches WHERE begin <> " TIME, REFUSED},
        {"count(*) FROM batches WHERE NOT begin > " TIME, REFUSED},
        {"count(*) FROM batches WHERE CASE WHEN begin > " TIME " THEN 1 END", REFUSED},
        {"sum(begin > " TIME ") FROM batches", REFUSED},
        {"count(*) FROM hosts WHERE begin > " TIME, REFUSED},
        {"count(*) FROM hosts WHERE begin >= " TIME, REFUSED},
        {"count(*) FROM hosts WHERE begin < " TIME, REFUSED},
        {"count(*) FROM hosts WHERE begin <= " TIME, REFUSED},
        {"count(*) FROM hosts WHERE begin = " TIME, REFUSED},
        {"count(*) FROM batches WHERE begin - 1 > " TIME, REFUSED},
        {"count(*) FROM batches WHERE begin * 2 > " TIME, REFUSED},
        {"count(*) FROM batches WHERE begin / 2 > " TIME, REFUSED},
        {"count(*) FROM batches WHERE begin % 2 > " TIME, REFUSED},
        {"count(*) FROM batches WHERE unixepoch(host) > " TIME, REFUSED},
        {"count(*) FROM batches WHERE begin <> '1999-09-09'",
         "! a number is compared with the text '1999-09-09' here: write time_ns("},
        {"count(*) FROM batches WHERE begin <> '1999-09-0x'", "0"},
        {"count(*) FROM batches HAVING max(begin) > " TIME, REFUSED},
        {"host FROM batches GROUP BY host HAVING min(begin) > " TIME, REFUSED},
        {"count(*) FROM (SELECT begin FROM batches LIMIT 5) WHERE begin > " TIME, REFUSED},
        {"count(*) FROM events WHERE pid = ' 4'", "0"},
        {"count(*) FROM events WHERE pid < '-1e3'", "0"},
        {"count(*) FROM events WHERE name = 'abc'", "0"},
        {"count(*) FROM batches WHERE host = 'abc' AND events = '5'", "0"},
        {"count(*) FROM events WHERE pid > 'abc'", NUMBER},
        {"count(*) FROM events WHERE 'abc' = pid", NUMBER},
        {"count(*) FROM batches WHERE events <> 'abc'", NUMBER},
        {"count(*) FROM batches WHERE NOT events = 'abc'", NUMBER},
        {"sum(events = 'abc') FROM batches", NUMBER},
        {"count(*) FROM hosts WHERE CASE WHEN batches = 'abc' THEN 1 END", NUMBER},
        {"count(*) FROM hosts WHERE NOT CASE WHEN batches = '0XA' THEN 1 END",
         "! a number is compared with the text '0XA' here: write u64('0XA') for an address"},
        {"count(*) FROM hosts WHERE NOT CASE WHEN batches = '0x10' THEN 1 END",
         "! a number is compared with the text '0x10' here: write u64('0x10') for an address, 0x10 for any other"},
    };
    /* at run time, as only then the value is known */
    static const char *const WRONG[] = {"begin > 'someday'", "begin > '2024-05-32'", "begin > '24h'",
                                        "begin LIKE '2024%'", "begin GLOB '2024*'"};
    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof LIST[0]; i++) {
        char *statement = sqlite3_mprintf("SELECT %s", LIST[i].sql);
        sqlite3_stmt *s = NULL;
        ea_err err = {0};
        assert_non_null(statement);
        if (*LIST[i].expected == '!' && LIST[i].expected[2] == 'a') {
            int code = ec_sql_prepare(sql, statement, &s, NULL, &err); /* ours, or that of a table, which SQLite has */
            const char *said = code == SQLITE_IOERR ? err.message : sqlite3_errmsg(ec_sql_database(sql));
            assert_int_not_equal(code, SQLITE_OK);
            assert_null(s);
            assert_true(code != SQLITE_IOERR || err.code == EA_EUSAGE);
            assert_int_equal(strncmp(said, LIST[i].expected + 2, strlen(LIST[i].expected + 2)), 0);
        } else {
            check(&LIST[i], 1);
        }
        sqlite3_free(statement);
    }
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        char *statement = sqlite3_mprintf("SELECT count(*) FROM batches WHERE %s", WRONG[i]);
        assert_non_null(statement);
        char *got = first_cell(statement);
        assert_int_equal(*got, '!');
        assert_non_null(strstr(got, "ns since 1970"));
        sqlite3_free(got);
        sqlite3_free(statement);
    }
}

/* Seconds that a person compares with a time are refused. Other statements compare times of events, which are in 1970
 * where a clock is wrong: they must not fail for them. */
static void test_seconds(void **state) {
    static const char *const LIST[] = {
        "count(*) FROM batches WHERE begin > 1714730000", "count(*) FROM batches WHERE begin > '2024'",
        "count(*) FROM events WHERE time IN (now(), 1714730000)", "count(*) FROM events WHERE time > julianday('now')",
        "max(pid) FROM events WHERE time < 1.5e12"};
    ec_sql *own = sql, *written = NULL;
    ea_err err = {0};
    (void)state;
    assert_int_equal(ec_sql_open(&written, scratch_path("."), &(ec_sql_options){.is_written = 1}, &err), 0);
    for (size_t i = 0; i < sizeof LIST / sizeof LIST[0]; i++) {
        char *statement = sqlite3_mprintf("SELECT %s", LIST[i]);
        assert_non_null(statement);
        char *right = first_cell(statement);
        assert_true(strcmp(right, "0") == 0 || strcmp(right, "NULL") == 0);
        sql = written;
        char *refused = first_cell(statement);
        sql = own;
        assert_non_null(strstr(refused, "would be in 1970"));
        sqlite3_free(right);
        sqlite3_free(refused);
        sqlite3_free(statement);
    }
    ec_sql_close(written);
}

/* What is absent is of no process, thread or key; a time that is none is an error. */
static void test_instances(void **state) {
    static const expectation LIST[] = {
        {"process_at('a', 'b', 4, NULL)", "NULL"},
        {"process_at('a', 'b', 4, 'x')", "! process_at: expected"},
        {"process_at('a', 'b', 'x', 5)", "NULL"},
        {"thread_at(NULL, 'b', 4, 5)", "NULL"},
        {"thread_at('a', 'b', 4, 1.5)", "! thread_at: expected"},
        {"registry_key_at('a', 'b', 4, NULL)", "NULL"},
        {"registry_key_at('a', 'b', 4, 'x')", "! registry_key_at: expected"},
        {"registry_key_at('a', 'b', X'04', 5)", "NULL"},
    };
    (void)state;
    CHECK(LIST);
}

static void test_empty(void **state) {
    static const expectation LIST[] = {
        {"count(*) FROM events", "0"},
        {"count(*) FROM hosts", "0"},
        {"count(*) FROM classes", "0"},
        {"count FROM events_by(NULL)", "0"},
        {"count FROM events_by('pid')", "! no row"},
        {"count FROM events_by", "! no query solution"},
        {"count FROM events_by('pid', NULL, NULL, 0)", "! every: expected a duration"},
        {"count FROM events_by('pid', NULL, NULL, 1)", "! no row"},
        {"count FROM events_by('pid', NULL, NULL, NULL, 0)", "! top: expected a number above 0"},
        {"count FROM events_by('pid', NULL, NULL, NULL, 1)", "! no row"},
        {"* FROM processes", "! "}, /* no history exists */
        {"count(*) FROM cpu_usage(5, 4)", "! from and to: the range ends before it begins"},
        {"count(*) FROM cpu_usage(5, 5)", "0"},
        {"count(*) FROM cpu_usage(NULL, NULL, 0)", "! every: expected a duration"},
        {"count(*) FROM cpu_usage(NULL, NULL, 1)", "0"},
        {"count(*) FROM pragma_table_xinfo('events') WHERE hidden = 0", "8"},
    };
    (void)state;
    CHECK(LIST);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mapping),        cmocka_unit_test(test_u64),
        cmocka_unit_test(test_times),          cmocka_unit_test(test_guids),
        cmocka_unit_test(test_sids),           cmocka_unit_test(test_registry),
        cmocka_unit_test(test_paths),          cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_seconds),
        cmocka_unit_test(test_texts_of_times), cmocka_unit_test(test_instances),
        cmocka_unit_test(test_empty),          cmocka_unit_test(test_printf),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
