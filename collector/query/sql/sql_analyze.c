/* EXPLAIN ANALYZE: runs a statement, drops its rows, and says how it was read: the steps of its plan, the batches that
 * were skipped and why, and how many events were decoded. SQLite has no such statement, so that it is put in place of
 *
 *   EXPLAIN ANALYZE SELECT ...
 *   SELECT * FROM "(explain analyze)"('SELECT ...')
 *
 * ec_sql_prepare is here. Called by: worker.c, SQLite. Calls: archive.h, sql_prepare.c. Thread: the connection's. */
#include "collector/query/sql/sql_parts.h"

#include <stdlib.h>
#include <string.h>

#define EXPLAIN_ANALYZE "(explain analyze)"

enum { STEP, BATCHES, EVENTS, STATEMENT };

typedef struct analyze_table {
    sqlite3_vtab base;
    ec_sql *sql;
} analyze_table;

typedef struct step {
    char *text;
    int64_t batches, events; /* below 0: NULL */
} step;

typedef struct analyze_cursor {
    ec_sql_list list;
    step *steps;
    size_t capacity;
    int failed; /* no memory */
} analyze_cursor;

/* ---- the statement ---- */

/* After spaces and a word in any case, and a space; NULL: it is another word. */
static const char *skip_word(const char *at, const char *word) {
    at += strspn(at, " \t\r\n");
    size_t n = strlen(word);
    return sqlite3_strnicmp(at, word, (int)n) == 0 && at[n] && strchr(" \t\r\n", at[n]) ? at + n : NULL;
}

/* The statement after EXPLAIN ANALYZE; NULL: the text is another statement. */
static const char *analyzed(const char *sql) {
    const char *at = skip_word(sql, "EXPLAIN");
    return at ? skip_word(at, "ANALYZE") : NULL;
}

static int refuse_analyze(ea_err *err) {
    (void)ea_fail(err, EA_EUSAGE, "EXPLAIN ANALYZE runs one SELECT without parameters");
    return SQLITE_IOERR;
}

static int prepare_analyze(ec_sql *s, const char *sql, sqlite3_stmt **ret, const char **ret_tail, ea_err *err) {
    const char *tail = "";
    sqlite3_stmt *st = NULL;
    *ret = NULL;
    int code = ec_sql_prepare_statement(s, sql, &st, &tail, err); /* whatever is wrong with it is reported so */
    int is_select = code == SQLITE_OK && st && sqlite3_column_count(st) && sqlite3_stmt_readonly(st);
    int parameters = is_select ? sqlite3_bind_parameter_count(st) : 0, is_explain = st && sqlite3_stmt_isexplain(st);
    sqlite3_finalize(st);
    if (ret_tail)
        *ret_tail = tail;
    if (code != SQLITE_OK)
        return code;
    if (!is_select || is_explain || parameters || tail - sql > INT32_MAX)
        return refuse_analyze(err);
    char *outer =
        sqlite3_mprintf("SELECT step, batches, events FROM \"" EXPLAIN_ANALYZE "\"('%.*q')", (int)(tail - sql), sql);
    code = outer ? sqlite3_prepare_v3(s->db, outer, -1, 0, ret, NULL) : SQLITE_NOMEM;
    sqlite3_free(outer);
    return code;
}

int ec_sql_prepare(ec_sql *s, const char *sql, sqlite3_stmt **ret, const char **ret_tail, ea_err *err) {
    const char *of = analyzed(sql);
    return of ? prepare_analyze(s, of, ret, ret_tail, err) : ec_sql_prepare_statement(s, sql, ret, ret_tail, err);
}

/* ---- running it ---- */

/* text: sqlite3_malloc's, or NULL when there is no memory for it. */
static void analyze_add_step(analyze_cursor *c, char *text, int64_t batches, int64_t events) {
    enum { MORE = 16 };

    if (!text || c->failed) {
        c->failed = 1;
        sqlite3_free(text);
        return;
    }
    if (c->list.count == c->capacity) {
        step *bigger = realloc(c->steps, (c->capacity + MORE) * sizeof *bigger);
        if (!bigger) {
            c->failed = 1;
            sqlite3_free(text);
            return;
        }
        c->steps = bigger;
        c->capacity += MORE;
    }
    c->steps[c->list.count++] = (step){text, batches, events};
}

static void add_count(analyze_cursor *c, const char *text, uint64_t batches, int64_t events) {
    if (batches)
        analyze_add_step(c, sqlite3_mprintf("%s", text), (int64_t)batches, events);
}

static int sql_analyze_run(ec_sql *s, const char *sql, uint64_t *ret_rows, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code = ec_sql_prepare_statement(s, sql, &st, NULL, err);
    while (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        ++*ret_rows;
        code = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

/* Adds the plan's steps, each indented below its parent. */
static int add_plan(analyze_cursor *c, ec_sql *s, const char *sql, ea_err *err) {
    enum { DEPTH_MAX = 32 };

    int64_t open[DEPTH_MAX] = {0};
    int depth = 0;
    sqlite3_stmt *st = NULL;
    char *explain = sqlite3_mprintf("EXPLAIN QUERY PLAN %s", sql);
    int code = explain ? ec_sql_prepare_statement(s, explain, &st, NULL, err) : SQLITE_NOMEM;
    sqlite3_free(explain);
    while (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        const char *detail = (const char *)sqlite3_column_text(st, 3);
        while (depth && open[depth - 1] != sqlite3_column_int64(st, 1))
            depth--;
        analyze_add_step(c, sqlite3_mprintf("%*s%s", 2 * depth, "", detail ? detail : ""), -1, -1);
        if (depth < DEPTH_MAX)
            open[depth++] = sqlite3_column_int64(st, 0);
        code = SQLITE_OK;
    }
    sqlite3_finalize(st);
    return code == SQLITE_DONE ? SQLITE_OK : code;
}

static void add_reads(analyze_cursor *c, const ec_reads *r, uint64_t rows) {
    add_count(c, "skipped: of other hosts or streams", r->other_hosts, -1);
    add_count(c, "skipped: of other times", r->other_times, -1);
    add_count(c, "skipped: of other classes", r->other_classes, -1);
    add_count(c, "skipped: of other processes", r->other_pids, -1);
    add_count(c, "skipped: of other numbers, or none of the first rows", r->other_batches, -1);
    if (r->scans) {
        analyze_add_step(c, sqlite3_mprintf("read, in scans: %llu", (unsigned long long)r->scans), (int64_t)r->batches,
                         (int64_t)r->batch_events);
        analyze_add_step(c, sqlite3_mprintf("counted"), -1, (int64_t)r->counted_events);
        analyze_add_step(c, sqlite3_mprintf("decoded"), -1, (int64_t)r->decoded_events);
        analyze_add_step(c, sqlite3_mprintf("kept"), -1, (int64_t)r->kept_events);
    }
    analyze_add_step(c, sqlite3_mprintf("rows of the answer: %llu", (unsigned long long)rows), -1, -1);
}

/* ---- the table ---- */

static int analyze_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                           char **ret_message) {
    ea_text columns;
    (void)argc, (void)argv;
    ea_text_init(&columns);
    ea_text_str(&columns, "step TEXT,batches INTEGER,events INTEGER,statement TEXT HIDDEN");
    int code = ec_sql_make_table(db, 0, NULL, &columns, sizeof(analyze_table), ret, ret_message);
    if (code == SQLITE_OK)
        ((analyze_table *)*ret)->sql = *(ec_sql *const *)aux;
    return code;
}

static int analyze_disconnect(sqlite3_vtab *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

static int analyze_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    (void)base;
    for (int i = 0; i < info->nConstraint; i++)
        if (info->aConstraint[i].iColumn == STATEMENT && info->aConstraint[i].op == SQLITE_INDEX_CONSTRAINT_EQ &&
            info->aConstraint[i].usable) {
            info->aConstraintUsage[i].argvIndex = 1;
            info->aConstraintUsage[i].omit = 1;
            info->estimatedCost = 1;
            return SQLITE_OK;
        }
    return SQLITE_CONSTRAINT;
}

static int analyze_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    analyze_cursor *c = ec_sql_zalloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *ret = &c->list.base;
    return SQLITE_OK;
}

static void analyze_clear(analyze_cursor *c) {
    for (size_t i = 0; i < c->list.count; i++)
        sqlite3_free(c->steps[i].text);
    c->list.count = 0;
    c->failed = 0;
}

static int analyze_close(sqlite3_vtab_cursor *base) {
    analyze_cursor *c = (analyze_cursor *)base;
    analyze_clear(c);
    free(c->steps);
    sqlite3_free(c);
    return SQLITE_OK;
}

static int analyze_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    analyze_cursor *c = (analyze_cursor *)base;
    ec_sql *s = ((analyze_table *)base->pVtab)->sql;
    const char *sql = argc ? (const char *)sqlite3_value_text(argv[0]) : NULL;
    ec_reads *reads = ec_archive_reads(s->archive);
    uint64_t rows = 0;
    ea_err err = {0};
    (void)number, (void)plan;
    analyze_clear(c);
    if (reads->counts_times) {
        sqlite3_free(base->pVtab->zErrMsg);
        base->pVtab->zErrMsg = sqlite3_mprintf("EXPLAIN ANALYZE is in another one");
        return SQLITE_ERROR;
    }
    int code = sql ? add_plan(c, s, sql, &err) : SQLITE_NOMEM;
    *reads = (ec_reads){.counts_times = 1};
    if (code == SQLITE_OK)
        code = sql_analyze_run(s, sql, &rows, &err);
    reads->counts_times = 0;
    if (code == SQLITE_OK)
        add_reads(c, reads, rows);
    if (code == SQLITE_OK && c->failed)
        code = SQLITE_NOMEM;
    if (code != SQLITE_OK && code != SQLITE_NOMEM) {
        sqlite3_free(base->pVtab->zErrMsg);
        base->pVtab->zErrMsg = sqlite3_mprintf("%s", err.code ? err.message : sqlite3_errmsg(s->db));
    }
    size_t count = c->list.count;
    ec_sql_list_begin(s, &c->list, count);
    return code;
}

static int analyze_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    const analyze_cursor *c = (const analyze_cursor *)base;
    const step *at = &c->steps[c->list.at];
    if (which == STEP)
        sqlite3_result_text(context, at->text, -1, SQLITE_TRANSIENT);
    else if (which == BATCHES && at->batches >= 0)
        sqlite3_result_int64(context, at->batches);
    else if (which == EVENTS && at->events >= 0)
        sqlite3_result_int64(context, at->events);
    return SQLITE_OK;
}

static const sqlite3_module ANALYZE_MODULE = {
    .iVersion = 2,
    .xConnect = analyze_connect,
    .xBestIndex = analyze_best_index,
    .xDisconnect = analyze_disconnect,
    .xOpen = analyze_open,
    .xClose = analyze_close,
    .xFilter = analyze_filter,
    .xNext = ec_sql_list_next,
    .xEof = ec_sql_list_at_end,
    .xColumn = analyze_column,
    .xRowid = ec_sql_list_rowid,
};

int ec_sql_add_analyze(ec_sql *s, ea_err *err) {
    return ec_sql_add_module(s, EXPLAIN_ANALYZE, &ANALYZE_MODULE, &s, sizeof s, err);
}
