/* See history_rundown.h. SCHEMA.md beside state_db.h describes the tables. */
#include "collector/pull/history_rundown.h"

/* ?1 a stream, ?2 the moment, ?3 the bytes of an id that a run's streams share. */
#define OF_RUN(table)                                                                                                  \
    " WHERE t.stream = (SELECT s.stream FROM streams r JOIN streams s"                                                 \
    " ON s.host = r.host AND substr(s.id, 1, ?3) = substr(r.id, 1, ?3)"                                                \
    " WHERE r.stream = ?1 AND s.begin_utc_ns <= ?2 AND EXISTS (SELECT 1 FROM " table " x WHERE x.stream = s.stream)"   \
    " ORDER BY s.begin_utc_ns DESC, s.stream DESC LIMIT 1)"
#define ALIVE " AND t.begin_utc_ns <= ?2 AND t.end_utc_ns > ?2"

static const char DOING[] = "describe the machine";

static const char PROCESSES[] =
    "SELECT " EC_PROCESS_COLUMNS " FROM processes t" OF_RUN("processes") ALIVE " ORDER BY t.instance";
static const char THREADS[] =
    "SELECT " EC_THREAD_COLUMNS " FROM threads t" OF_RUN("threads") ALIVE " ORDER BY t.instance";
static const char MODULES[] =
    "SELECT " EC_MODULE_COLUMNS " FROM modules t" OF_RUN("modules") ALIVE " ORDER BY t.instance";
static const char NAMES[] = "SELECT kind, address, name FROM names t" OF_RUN("names") ALIVE
    " ORDER BY t.kind, t.address, t.begin_utc_ns DESC, t.end_utc_ns DESC"; /* the first one of an address counts */
static const char VOLUMES[] = "SELECT nt_path, dos_path FROM volumes t" OF_RUN("volumes");

static int row_of_process(sqlite3_stmt *s, ec_rundown_records *w, ea_err *err) {
    ea_process p;
    ec_read_process(s, &p);
    return ec_rundown_process(w, &p, err);
}

static int row_of_thread(sqlite3_stmt *s, ec_rundown_records *w, ea_err *err) {
    ea_thread_row t;
    ec_read_thread(s, &t);
    return ec_rundown_thread(w, &t, err);
}

static int row_of_module(sqlite3_stmt *s, ec_rundown_records *w, ea_err *err) {
    ea_module m;
    ec_read_module(s, &m);
    return ec_rundown_module(w, &m, err);
}

static const char *history_rundown_text_at(sqlite3_stmt *s, int column) {
    const char *text = (const char *)sqlite3_column_text(s, column);
    return text ? text : "";
}

static int row_of_name(sqlite3_stmt *s, ec_rundown_records *w, ea_err *err) {
    const ea_name_row name = {.kind = (uint8_t)sqlite3_column_int(s, 0),
                              .address = ec_u64_from_sql(sqlite3_column_int64(s, 1)),
                              .name = history_rundown_text_at(s, 2)};
    return ec_rundown_name(w, &name, err);
}

static int row_of_volume(sqlite3_stmt *s, ec_rundown_records *w, ea_err *err) {
    return ec_rundown_volume(w, history_rundown_text_at(s, 0), history_rundown_text_at(s, 1), err);
}

static int history_rundown_each_row(ec_state_db *tables, const char *sql, int64_t stream_number, int64_t utc_ns,
                                    int (*fn)(sqlite3_stmt *s, ec_rundown_records *w, ea_err *err),
                                    ec_rundown_records *w, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int code, rc = ec_sqlite_prepare(ec_state_db_database(tables), &s, sql, DOING, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, stream_number);
    sqlite3_bind_int64(s, 2, utc_ns);
    sqlite3_bind_int(s, 3, EA_STREAM_RUN_BYTES);
    while ((code = sqlite3_step(s)) == SQLITE_ROW && !rc)
        rc = fn(s, w, err);
    rc = ec_sqlite_end(s, code, rc, DOING, err);
    sqlite3_finalize(s);
    return rc;
}

int ec_history_rundown(ec_state_db *tables, int64_t stream_number, int64_t utc_ns, int volumes, ec_rundown_records *w,
                       ea_err *err) {
    static const struct {
        const char *sql;
        int (*fn)(sqlite3_stmt *s, ec_rundown_records *w, ea_err *err);
    } TABLES[] = {
        {PROCESSES, row_of_process}, {THREADS, row_of_thread}, {MODULES, row_of_module}, {NAMES, row_of_name}};

    int rc = 0;
    for (size_t i = 0; !rc && i < sizeof TABLES / sizeof *TABLES; i++)
        rc = history_rundown_each_row(tables, TABLES[i].sql, stream_number, utc_ns, TABLES[i].fn, w, err);
    return !rc && volumes ? history_rundown_each_row(tables, VOLUMES, stream_number, utc_ns, row_of_volume, w, err)
                          : rc;
}
