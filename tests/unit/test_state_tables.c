/* The tables of the state: the sums of gaps and alerts are those of their rows, tables of earlier versions are
 * completed with all that they have, and a reader refuses those of another version. */
#include "tests/unit/ledger_kit.h"

/* A stream with gaps of several causes, losses and alerts. */
static void add_troubles(fixture *f) {
    const ea_tombstone t = {
        .first = 4, .last = 6, .cause = 15, .event_count = 30, .utc_min_ns = 310, .utc_max_ns = 320};
    size_t len_bytes;
    TAKE(f, 1, 10, {"", C(events_delivered), 10}, {"", C(events_batched), 10}, {"", C(events_compressing), 10});
    TAKE(f, 3, 10, {"", C(events_delivered), 40}, {"", C(events_batched), 20}, {"", C(source_events_lost), 7});
    for (int i = 0; i < 2; i++) { /* the rows of a batch that is folded again take the place of those before */
        uint8_t *data = pack(f, NULL, 0, &t, &len_bytes);
        take_bytes(f, 7 + (uint64_t)i, 0, data, len_bytes);
        free(data);
    }
    const ec_lost_record record = {.cause = EC_GAP_LOST_EVENT, .count = 2, .begin_utc_ns = 5, .end_utc_ns = 6};
    for (int i = 0; i < 2; i++)
        must(ec_ledger_take_lost(f->ledger, &record, 1, &err));
}

static void sums_follow_their_rows(void **state) {
    (void)state;
    fixture f;
    start(&f, 16);
    add_troubles(&f);
    assert_int_equal(ask(&f, "SELECT row_count FROM gap_sums WHERE stream = ?1 AND cause = 15"), 1);
    assert_int_equal(ask(&f, "SELECT batch_count FROM gap_sums WHERE stream = ?1 AND cause = 15"), 3);
    assert_int_equal(ask(&f, "SELECT row_count FROM gap_sums WHERE stream = ?1 AND cause = 1001"), 1);
    assert_int_equal(ask(&f, "SELECT unrecorded_count FROM gap_sums WHERE stream = ?1 AND cause = 1001"), 0);
    assert_true(alerts(&f) > 0);
    check_sums(&f);
    must(ec_state_db_prune(f.tables, &f.fold, INT64_MAX - 1, 2, &err)); /* retention deleted what is older */
    check_sums(&f);
    assert_int_equal(ask(&f, "SELECT count(*) FROM gap_sums WHERE cause IN (15, 1001)"), 0);
    assert_int_equal(ask(&f, "SELECT row_count FROM alert_sums WHERE stream = ?1"), alerts(&f));
    add_troubles(&f);
    must(ec_state_db_reset_fold(f.tables, &f.fold, &err)); /* a late batch: the stream is folded again */
    check_sums(&f);
    assert_int_equal(ask(&f, "SELECT count(*) FROM gap_sums"), 0);
    assert_int_equal(ask(&f, "SELECT count(*) FROM alert_sums"), 0);
    finish(&f);
}

#define LESS_OF_FILES                                                                                                  \
    "ALTER TABLE modules DROP COLUMN md5; ALTER TABLE modules DROP COLUMN sha1; ALTER TABLE modules DROP COLUMN"       \
    " imphash; ALTER TABLE modules DROP COLUMN description;"
#define LESS_OF_MODULES "ALTER TABLE modules DROP COLUMN kind;"
#define LESS_OF_PROCESSES                                                                                              \
    "ALTER TABLE processes DROP COLUMN mandatory_label; ALTER TABLE processes DROP COLUMN elevation_type; ALTER TABLE" \
    " processes DROP COLUMN elevated; ALTER TABLE processes DROP COLUMN logon_id; DROP TABLE pending_facts;"

/* Makes the tables of a finished stream those of an older version, which a reader refuses and the writer completes.
 * f->tables: of the writer. */
static void go_back_and_complete(fixture *f, int old_version, const char *sql, const char *more_sql) {
    char set_version[48];
    must(ec_state_db_open(&f->tables, scratch_path("store"), 1, &err));
    const int64_t version = ask(f, "PRAGMA user_version");
    snprintf(set_version, sizeof set_version, "PRAGMA user_version = %d", old_version);
    run_sql(ec_state_db_database(f->tables), sql);
    run_sql(ec_state_db_database(f->tables), more_sql);
    run_sql(ec_state_db_database(f->tables), set_version);
    ec_state_db_close(f->tables);
    assert_int_equal(ec_state_db_open(&f->tables, scratch_path("store"), 0, &err), EA_EUNSUPPORTED);
    must(ec_state_db_open(&f->tables, scratch_path("store"), 1, &err));
    assert_int_equal(ask(f, "PRAGMA user_version"), version);
}

/* Tables of version 5, which has no sums, and of version 6, which has other names, are completed, not built again. */
static void older_tables_are_completed(int old_version, const char *more_sql) {
    fixture f;
    start(&f, 17);
    add_troubles(&f);
    const int64_t periods = ask(&f, "SELECT count(*) FROM gaps");
    finish(&f);
    go_back_and_complete(
        &f, old_version,
        "DROP VIEW blindness; DROP VIEW blind; DROP VIEW gap_periods; DROP TRIGGER gap_added; DROP TRIGGER gap_changed;"
        " DROP TRIGGER gap_removed; DROP TABLE gap_sums; DROP INDEX gaps_end; ALTER TABLE gaps RENAME TO blindness;"
        " CREATE VIEW blind AS SELECT * FROM blindness;" LESS_OF_FILES LESS_OF_PROCESSES LESS_OF_MODULES,
        more_sql);
    assert_int_equal(ask(&f, "SELECT count(*) FROM gaps"), periods);
    assert_int_equal(ask(&f, "SELECT count(*) FROM gap_periods"), periods);
    assert_int_equal(ask(&f, "SELECT count(*) FROM blindness"), periods); /* the old name, until version 0.2 */
    assert_int_equal(ask(&f, "SELECT count(*) FROM blind"), periods);
    assert_int_equal(ask(&f, "SELECT count(*) FROM sqlite_schema WHERE name IN ('blind_sums', 'blindness_end')"), 0);
    assert_true(periods > 2);
    check_sums(&f);
    run_sql(ec_state_db_database(f.tables), "DELETE FROM gaps WHERE cause = 15; DELETE FROM alerts");
    check_sums(&f);
    ec_state_db_close(f.tables);
}

static void sums_are_added_to_older_tables(void **state) {
    (void)state;
    older_tables_are_completed(5, "DROP TRIGGER alert_added; DROP TRIGGER alert_removed; DROP TABLE alert_sums; DROP"
                                  " TABLE rounds");
}

static void tables_of_before_get_the_new_names(void **state) {
    (void)state;
    older_tables_are_completed(
        6, "CREATE TABLE blind_sums(stream INTEGER NOT NULL, cause INTEGER NOT NULL); CREATE INDEX blindness_end ON"
           " blindness(stream, end_utc_ns); CREATE TRIGGER blind_added AFTER INSERT ON blindness BEGIN INSERT INTO"
           " blind_sums VALUES(NEW.stream, NEW.cause); END; CREATE TRIGGER blind_removed AFTER DELETE ON blindness"
           " BEGIN DELETE FROM blind_sums WHERE stream = OLD.stream; END");
}

/* Version 7 has not all columns of modules: rows that are there stay, with empty texts. */
static void tables_of_before_get_more_columns_of_files(void **state) {
    (void)state;
    fixture f;
    start(&f, 23);
    add_troubles(&f);
    const int64_t gaps = ask(&f, "SELECT count(*) FROM gaps");
    finish(&f);
    go_back_and_complete(
        &f, 7, LESS_OF_FILES LESS_OF_PROCESSES LESS_OF_MODULES,
        "INSERT INTO modules VALUES(9, 1, 2, 3, 4, 0, 0, 5, 6, 7, 8, 9, 10, 11, 'a.dll', NULL, 0, '', '', 12, 'ab',"
        " '1.2', 'Maker', 'Thing')");
    assert_int_equal(ask(&f, "SELECT count(*) FROM modules WHERE product = 'Thing' AND sha256 = 'ab' AND md5 = '' AND"
                             " sha1 = '' AND imphash = '' AND description = ''"),
                     1);
    assert_int_equal(ask(&f, "SELECT count(*) FROM gaps"), gaps);
    check_sums(&f);
    ec_state_db_close(f.tables);
}

/* Version 8 has not all columns of processes: rows that are there stay, and nothing is known of the new ones. */
static void tables_of_before_get_more_columns_of_processes(void **state) {
    (void)state;
    fixture f;
    start(&f, 29);
    finish(&f);
    go_back_and_complete(
        &f, 8, LESS_OF_PROCESSES LESS_OF_MODULES,
        "INSERT INTO processes VALUES(9, 1, 2, 3, 4, 0, 0, 5, 6, 7, 8, 9, 10, 11, 12, 'a.exe', 'a /b', 'S-1-5-18',"
        " '', '')");
    sqlite3_stmt *s;
    ea_process p;
    assert_int_equal(sqlite3_prepare_v2(ec_state_db_database(f.tables),
                                        "SELECT " EC_PROCESS_COLUMNS " FROM processes WHERE stream = 9", -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    ec_read_process(s, &p);
    assert_string_equal(p.command_line, "a /b");
    assert_string_equal(p.mandatory_label, "");
    assert_int_equal(p.elevation_type, 0);
    assert_int_equal(p.elevated, 0);
    assert_int_equal(p.logon_id, 0);
    sqlite3_finalize(s);
    assert_int_equal(ask(&f, "SELECT count(*) FROM pending_facts"), 0);
    ec_state_db_close(f.tables);
}

/* Version 9 does not have the kind of modules: those that are there are images. */
static void tables_of_before_get_kinds_of_modules(void **state) {
    (void)state;
    fixture f;
    start(&f, 31);
    finish(&f);
    go_back_and_complete(
        &f, 9, LESS_OF_MODULES,
        "INSERT INTO modules VALUES(9, 1, 2, 3, 4, 0, 0, 5, 6, 7, 8, 9, 10, 11, 'a.dll', NULL, 0, '', '', 12, 'ab',"
        " '1.2', 'Maker', 'Thing', '', '', '', '')");
    assert_int_equal(ask(&f, "SELECT count(*) FROM modules WHERE product = 'Thing' AND kind = 0"), 1);
    ec_state_db_close(f.tables);
}

/* A view of this version that an earlier program made is made again, and nothing else is. */
static void a_view_of_before_is_made_again(void **state) {
    (void)state;
    fixture f;
    start(&f, 19);
    const int64_t length = ask(&f, "SELECT length(sql) FROM sqlite_schema WHERE name = 'gap_periods'");
    add_troubles(&f);
    const int64_t gaps = ask(&f, "SELECT count(*) FROM gaps");
    finish(&f);
    must(ec_state_db_open(&f.tables, scratch_path("store"), 1, &err));
    const int64_t before = ask(&f, "PRAGMA schema_version");
    run_sql(ec_state_db_database(f.tables),
            "DROP VIEW gap_periods; CREATE VIEW gap_periods AS SELECT * FROM gaps WHERE stream < 0");
    assert_int_equal(ask(&f, "SELECT count(*) FROM gap_periods"), 0);
    ec_state_db_close(f.tables);
    must(ec_state_db_open(&f.tables, scratch_path("store"), 1, &err));
    assert_int_equal(ask(&f, "SELECT length(sql) FROM sqlite_schema WHERE name = 'gap_periods'"), length);
    assert_int_equal(ask(&f, "SELECT count(*) FROM gap_periods"), gaps);
    assert_int_equal(ask(&f, "SELECT count(*) FROM blind"), gaps);
    const int64_t after = ask(&f, "PRAGMA schema_version");
    assert_true(after > before);
    ec_state_db_close(f.tables);
    must(ec_state_db_open(&f.tables, scratch_path("store"), 1, &err)); /* the present one stays */
    assert_int_equal(ask(&f, "PRAGMA schema_version"), after);
    ec_state_db_close(f.tables);
}

/* A reader refuses tables of another version, with the version in the error. A writer creates them anew. */
static void tables_of_another_version_are_called_so(void **state) {
    (void)state;
    fixture f;
    ec_state_db *tables = NULL;
    start(&f, 15);
    const int64_t version = ask(&f, "PRAGMA user_version");
    char expected[96];
    finish(&f);
    must(ec_state_db_open(&tables, scratch_path("store"), 0, &err));
    ec_state_db_close(tables);
    must(ec_state_db_open(&tables, scratch_path("store"), 1, &err));
    run_sql(ec_state_db_database(tables), "PRAGMA user_version = 4711");
    ec_state_db_close(tables);
    assert_int_equal(ec_state_db_open(&tables, scratch_path("store"), 0, &err), EA_EUNSUPPORTED);
    snprintf(expected, sizeof expected, "is of another format (version 4711, this program reads %d)", (int)version);
    if (!strstr(err.message, expected))
        fail_msg("expected '%s', got: %s", expected, err.message);
    assert_non_null(strstr(err.message, "state.db"));
    /* none at all is no other one */
    assert_int_equal(ec_state_db_open(&tables, scratch_path("nowhere"), 0, &err), EA_ENOTFOUND);
    must(ec_state_db_open(&tables, scratch_path("store"), 1, &err));
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(ec_state_db_database(tables), "SELECT count(*) FROM streams", -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(s, 0), 0);
    sqlite3_finalize(s);
    ec_state_db_close(tables);
    must(ec_state_db_open(&tables, scratch_path("store"), 0, &err));
    ec_state_db_close(tables);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(sums_follow_their_rows),
        T(sums_are_added_to_older_tables),
        T(tables_of_before_get_the_new_names),
        T(tables_of_before_get_more_columns_of_files),
        T(tables_of_before_get_more_columns_of_processes),
        T(tables_of_before_get_kinds_of_modules),
        T(a_view_of_before_is_made_again),
        T(tables_of_another_version_are_called_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
