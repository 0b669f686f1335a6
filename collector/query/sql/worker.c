/* The process that answers one question. See ask.h. It has one thread. */
#include "collector/query/analysis/profile_names.h"
#include "collector/query/scan/archive.h"
#include "collector/query/sql/ask.h"
#include "collector/query/sql/confine.h"
#include "collector/query/sql/sql.h"
#include "collector/query/sql/temp_files.h"
#include "collector/query/sql/value_message.h"
#include "collector/sandbox/child.h"
#include "collector/sqlite/sqlite.h"
#include "collector/symbols/symbol_worker.h"
#include "proto/base/platform.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FLUSH_BYTES = 1 << 16,
    OUT_BYTES = 2 * FLUSH_BYTES,
    COLUMNS_SHOWN_MAX = 2000,
    NS = 1000000000,
};

typedef struct worker {
    ec_message_reader in;                               /* owns the question, into which the strings below point */
    const char *store, *host, *shown, *first_sql, *sql; /* NULL: none, but for store and sql */
    ec_message params;
    uint32_t param_count;
    int64_t deadline_ns;
    uint64_t limit_bytes, limit_rows, limit_temp_bytes;
    uint64_t parent;   /* process that asks */
    int is_up_to_date; /* the history */
    int has_names;     /* a symbol worker is at the extra descriptors */
    int is_written;    /* the statement, by a person */
    ec_symbol_worker *symbols;
    ec_profile_names names;
    ec_profile_namer namer;
    int is_late;
    uint64_t rows;
    ea_text out;
    size_t begin; /* of the message at hand */
    int failed;   /* the reader is gone, no memory for a message, or it is too long */
} worker;

/* ---- messages ---- */

static void worker_flush(worker *w) {
    if (!w->failed && ec_message_flush(STDOUT_FILENO, &w->out))
        w->failed = 1;
    ea_text_clear(&w->out);
}

static void worker_begin_message(worker *w, char letter) {
    w->begin = ec_message_append(&w->out, letter);
}

static void worker_end_message(worker *w) {
    if (w->failed)
        return;
    if (ec_message_end(&w->out, w->begin, EC_QUERY_ROW_MAX))
        w->failed = 1;
    else if (w->out.len_bytes >= FLUSH_BYTES)
        worker_flush(w);
}

/* ---- the question ---- */

/* u64 limit_ns, limit_bytes, limit_rows, process that asks, limit_temp_bytes; u8 the history is up to date, has names,
 * has a host, is a person's statement; five strings; u32 parameters, each of them a value. */
static int read_question(worker *w) {
    ec_message m;
    w->in = (ec_message_reader){.fd = STDIN_FILENO, .deadline_ns = INT64_MAX};
    if (ec_message_next(&w->in, &m) <= 0 || m.letter != 'Q')
        return -1;
    int64_t limit = (int64_t)ec_message_get(&m, 8), now = ea_monotonic_ns();
    w->deadline_ns = limit > INT64_MAX - now ? INT64_MAX : now + limit;
    w->limit_bytes = ec_message_get(&m, 8);
    w->limit_rows = ec_message_get(&m, 8);
    w->parent = ec_message_get(&m, 8);
    w->limit_temp_bytes = ec_message_get(&m, 8);
    w->is_up_to_date = ec_message_get(&m, 1) != 0;
    w->has_names = ec_message_get(&m, 1) != 0;
    int has_host = ec_message_get(&m, 1) != 0;
    w->is_written = ec_message_get(&m, 1) != 0;
    w->store = ec_message_get_string(&m);
    w->host = ec_message_get_string(&m);
    w->shown = ec_message_get_string(&m);
    w->first_sql = ec_message_get_string(&m);
    w->sql = ec_message_get_string(&m);
    w->param_count = (uint32_t)ec_message_get(&m, 4);
    w->params = m;
    if (!has_host)
        w->host = NULL;
    if (!*w->shown)
        w->shown = NULL;
    if (!*w->first_sql)
        w->first_sql = NULL;
    return m.failed ? -1 : 0;
}

/* ---- limits ---- */

static int worker_keep_going(void *arg) {
    worker *w = arg;
    w->is_late |= ea_monotonic_ns() > w->deadline_ns;
    return !w->is_late && !w->failed;
}

static void worker_limit(worker *w) {
    int64_t left_s = (w->deadline_ns - ea_monotonic_ns()) / NS;
    ec_child_limit(w->parent, left_s < 0 ? 2 : left_s > INT32_MAX ? 0 : (uint64_t)left_s + 5, w->limit_bytes);
    if (w->limit_bytes)
        sqlite3_hard_heap_limit64(w->limit_bytes > INT64_MAX ? INT64_MAX : (sqlite3_int64)w->limit_bytes);
}

/* ---- the answer ---- */

static const int64_t NOTICE_NS = NS; /* for what is found out about an answer that is complete */

static void send_columns(worker *w, sqlite3_stmt *st) {
    int n = sqlite3_column_count(st);
    worker_begin_message(w, 'C');
    ec_message_u32(&w->out, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        ec_message_string(&w->out, sqlite3_column_name(st, i));
        ec_message_string(&w->out, sqlite3_column_decltype(st, i));
    }
    worker_end_message(w);
}

static void put_cells(worker *w, sqlite3_stmt *st) {
    int n = sqlite3_data_count(st);
    for (int i = 0; i < n; i++) {
        ec_value v = ec_sql_cell(st, i);
        ec_message_value(&w->out, &v);
    }
}

static void send_row(worker *w, sqlite3_stmt *st) {
    worker_begin_message(w, 'R');
    put_cells(w, st);
    worker_end_message(w);
    w->rows++;
}

static void worker_send_end(worker *w, enum ec_ending ending, const ea_err *err, ec_sql *sql) {
    ec_archive *archive = sql ? ec_sql_archive(sql) : NULL;
    const char *damage = "";
    ea_err notice = {0};
    if (sql && w->is_written && !err->code && ending == EC_ENDED_WHOLE) {
        int64_t latest_ns = ea_monotonic_ns() + NOTICE_NS;
        w->deadline_ns = w->deadline_ns < latest_ns ? w->deadline_ns : latest_ns;
        EA_IGNORE(ec_sql_check_known(sql, w->sql, w->rows < 2, &notice)); /* one row may be a count of none */
    }
    uint64_t damaged = archive ? ec_archive_damage(archive, &damage) : 0;
    worker_begin_message(w, 'E');
    ec_message_u8(&w->out, (uint8_t)ending);
    ec_message_u32(&w->out, (uint32_t)err->code);
    ec_message_u32(&w->out, (uint32_t)err->os_error);
    ec_message_u64(&w->out, damaged);
    ec_message_string(&w->out, err->message);
    ec_message_string(&w->out, damage);
    ec_message_string(&w->out, notice.message);
    worker_end_message(w);
    worker_flush(w);
}

/* What a failure of SQLite means. */
static enum ec_ending worker_judge(worker *w, sqlite3 *db, int code, ea_err *err) {
    if (ec_temp_files_are_full()) /* whatever failed for it */
        return EC_ENDED_TEMP;
    if (ec_sqlite_lacks_memory(code))
        return EC_ENDED_MEMORY;
    switch (code & 0xff) {
    case SQLITE_INTERRUPT:
        return w->is_late ? EC_ENDED_TIME : EC_ENDED_CANCELED;
    case SQLITE_ERROR:
    case SQLITE_AUTH:
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
        (void)ea_fail(err, EA_EUSAGE, "%s", sqlite3_errmsg(db));
        return EC_ENDED_WHOLE;
    default:
        (void)ea_fail(err, EA_EDATABASE, "%s", sqlite3_errmsg(db));
        return EC_ENDED_WHOLE;
    }
}

/* The first so many. SQLITE_OK; SQLITE_RANGE when there are more parameters than the statement has, or they are cut
 * off. */
static int bind_params(const worker *w, ec_sql *sql, sqlite3_stmt *st, uint32_t count) {
    ea_err err;
    ec_message m = w->params;
    int code = SQLITE_OK;
    for (uint32_t i = 0; code == SQLITE_OK && i < count; i++) {
        ec_value v = ec_message_get_value(&m);
        if (m.failed)
            return SQLITE_RANGE;
        switch (v.type) {
        case EC_INT:
            code = sqlite3_bind_int64(st, (int)i + 1, v.i);
            break;
        case EC_REAL:
            code = sqlite3_bind_double(st, (int)i + 1, v.r);
            break;
        case EC_TEXT:
            code = ec_sql_describes_tables(sql) && ec_sql_use(sql, v.data, v.len_bytes, &err)
                       ? SQLITE_NOMEM
                       : sqlite3_bind_text64(st, (int)i + 1, v.data, v.len_bytes, SQLITE_STATIC, SQLITE_UTF8);
            break;
        case EC_BLOB:
            code = sqlite3_bind_blob64(st, (int)i + 1, v.data, v.len_bytes, SQLITE_STATIC);
            break;
        default:
            code = sqlite3_bind_null(st, (int)i + 1);
        }
    }
    return code;
}

static int worker_is_space(const char *s) {
    for (; *s; s++)
        if (!strchr(" \t\r\n;", *s))
            return 0;
    return 1;
}

/* A statement with the question's parameters: SQLITE_OK; otherwise what that means is in *ret_ending and err. */
static int worker_prepare(worker *w, ec_sql *s, const char *sql, sqlite3_stmt **ret, enum ec_ending *ret_ending,
                          ea_err *err) {
    const char *tail = "";
    int code = ec_sql_prepare(s, sql, ret, &tail, err);
    if (code == SQLITE_OK &&
        (!*ret || !worker_is_space(tail) || sqlite3_column_count(*ret) == 0 || !sqlite3_stmt_readonly(*ret))) {
        (void)ea_fail(err, EA_EUSAGE, "one SELECT is expected");
        return SQLITE_MISUSE;
    }
    if (code == SQLITE_OK) {
        uint32_t known = (uint32_t)sqlite3_bind_parameter_count(*ret);
        code = bind_params(w, s, *ret, sql == w->first_sql && known < w->param_count ? known : w->param_count);
    }
    if (code != SQLITE_OK && !(code == SQLITE_IOERR && err->code)) /* else err says it */
        *ret_ending = worker_judge(w, ec_sql_database(s), code, err);
    return code;
}

/* Runs the first statement and gives its row's cells to the second as parameters: SQLITE_ROW, SQLITE_DONE when there is
 * no row; otherwise what that means is in *ret_ending and err. */
static int run_first(worker *w, ec_sql *s, sqlite3_stmt *second, enum ec_ending *ret_ending, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code = worker_prepare(w, s, w->first_sql, &st, ret_ending, err);
    if (code == SQLITE_OK) {
        code = sqlite3_step(st);
        if (code != SQLITE_ROW && code != SQLITE_DONE)
            *ret_ending = worker_judge(w, ec_sql_database(s), code, err);
    }
    if (code == SQLITE_ROW) {
        int n = sqlite3_data_count(st);
        worker_begin_message(w, 'F');
        ec_message_u32(&w->out, (uint32_t)n);
        put_cells(w, st);
        worker_end_message(w);
        for (int i = 0; i < n; i++)
            if (sqlite3_bind_value(second, i + 1, sqlite3_column_value(st, i)) != SQLITE_OK)
                code = SQLITE_NOMEM;
        if (code == SQLITE_NOMEM)
            *ret_ending = EC_ENDED_MEMORY;
    }
    sqlite3_finalize(st);
    return code;
}

/* Runs the question's statements. */
static enum ec_ending worker_run(worker *w, ec_sql *s, ea_err *err) {
    sqlite3_stmt *st = NULL;
    enum ec_ending ending = EC_ENDED_WHOLE;
    int code = worker_prepare(w, s, w->sql, &st, &ending, err);
    if (code == SQLITE_OK && w->first_sql && (code = run_first(w, s, st, &ending, err)) == SQLITE_ROW)
        code = SQLITE_OK;
    if (code != SQLITE_OK) {
        sqlite3_finalize(st);
        return ending;
    }
    send_columns(w, st);
    while (!w->failed && (code = sqlite3_step(st)) == SQLITE_ROW) {
        if (w->limit_rows && w->rows == w->limit_rows) {
            ending = EC_ENDED_ROWS;
            break;
        }
        send_row(w, st);
    }
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        ending = worker_judge(w, ec_sql_database(s), code, err);
    if (w->failed) { /* see there; when the reader is gone, this is not read */
        w->failed = 0;
        ea_text_clear(&w->out);
        ending = EC_ENDED_MEMORY;
    }
    sqlite3_finalize(st);
    return ending;
}

/* What a sort may hold in memory: a part of the limit, as several may be under way. */
static uint64_t sort_bytes(uint64_t limit_bytes) {
    enum { PART = 16 };

    const uint64_t least = UINT64_C(1) << 20, most = UINT64_C(64) << 20;
    uint64_t bytes = limit_bytes ? limit_bytes / PART : most;
    return bytes < least ? least : bytes < most ? bytes : most;
}

static int worker_resolve(void *source, const ec_symbol_module *module, const uint32_t *rvas, size_t count,
                          ec_symbol_fn fn, void *arg, ea_err *err) {
    return ec_symbol_worker_resolve(source, module, rvas, count, fn, arg, err);
}

/* The source of functions' names. */
static int worker_open_names(worker *w, ea_err *err) {
    int rc = w->has_names
                 ? ec_symbol_worker_open(&w->symbols, EC_CHILD_EXTRA_OUT, EC_CHILD_EXTRA_IN, w->deadline_ns, err)
                 : 0;
    w->names = (ec_profile_names){.resolve = worker_resolve, .source = w->symbols};
    w->namer = (ec_profile_namer){.name = ec_profile_name_places, .arg = &w->names};
    return rc;
}

/* EA_ENOTFOUND when nothing is stored of the question's host: a misspelt name must not be answered with no rows. */
static int open_sql(worker *w, ec_sql **ret, ea_err *err) {
    int rc = ec_sql_open(ret, w->store,
                         &(ec_sql_options){.host = w->host,
                                           .shown = w->shown,
                                           .is_written = w->is_written,
                                           .keep_going = worker_keep_going,
                                           .arg = w,
                                           .namer = w->symbols ? &w->namer : NULL,
                                           .sort_bytes = sort_bytes(w->limit_bytes)},
                         err);
    return rc || !w->host ? rc : ec_archive_has_hosts(ec_sql_archive(*ret), &w->host, 1, err);
}

/* Whether the question's statements read the history. What is wrong with a statement is found again when it is run. */
static int reads_history(worker *w, ec_sql *sql) {
    const char *const statements[] = {w->first_sql, w->sql};
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++) {
        sqlite3_stmt *st = NULL;
        const char *tail = "";
        ea_err ignored = {0};
        if (statements[i])
            EA_IGNORE(ec_sql_prepare(sql, statements[i], &st, &tail, &ignored));
        sqlite3_finalize(st);
    }
    return ec_sql_uses_history(sql);
}

int ec_worker_main(void) {
    worker w = {0};
    ea_err err = {0};
    ec_sql *sql = NULL;
    enum ec_ending ending = EC_ENDED_WHOLE;
    /* so that the end can be reported without further memory */
    w.out = (ea_text){.data = calloc(1, OUT_BYTES), .capacity = OUT_BYTES};
    if (!w.out.data || read_question(&w)) {
        fprintf(stderr, "etwcollector: %s is started by the command query\n", EC_WORKER_NAME);
        ec_message_reader_deinit(&w.in);
        ea_text_deinit(&w.out);
        return 2;
    }
    worker_limit(&w);
    int rc = ec_query_confine(w.store, w.limit_temp_bytes, &err);
    if (!rc)
        rc = worker_open_names(&w, &err);
    if (!rc)
        rc = open_sql(&w, &sql, &err);
    if (!rc && !w.is_up_to_date && reads_history(&w, sql)) {
        worker_begin_message(&w, 'H');
        ec_message_u8(&w.out, (uint8_t)ec_sql_names_functions(sql));
        worker_end_message(&w);
        worker_flush(&w);
    } else {
        if (!rc)
            ending = worker_run(&w, sql, &err);
        if (rc == EA_ENOMEM) {
            ending = EC_ENDED_MEMORY;
            err = (ea_err){0};
        }
        worker_send_end(&w, ending, &err, sql);
    }
    ec_sql_close(sql);
    ec_symbol_worker_close(w.symbols);
    ec_message_reader_deinit(&w.in);
    ea_text_deinit(&w.out);
    return 0;
}
