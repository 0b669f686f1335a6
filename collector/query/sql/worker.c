/* The process that answers one question. See ask.h. It has one thread. */
#include "collector/query/scan/archive.h"
#include "collector/query/sql/ask.h"
#include "collector/query/sql/confine.h"
#include "collector/query/sql/sql.h"
#include "collector/query/sql/temp_files.h"
#include "collector/sandbox/child.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    QUESTION_MAX = 4 << 20,
    FLUSH_BYTES = 1 << 16,
    COLUMNS_SHOWN_MAX = 2000,
    NS = 1000000000,
};

typedef struct worker {
    char *question;                                     /* what came in; the strings below point into it */
    const char *store, *host, *shown, *first_sql, *sql; /* NULL: none, but for store and sql */
    const char *params, *params_end;
    uint32_t param_count;
    int64_t deadline_ns;
    uint64_t limit_bytes, limit_rows, limit_temp_bytes;
    uint64_t parent;   /* process that asks */
    int is_up_to_date; /* the history */
    int is_late;
    uint64_t rows;
    uint8_t *out;
    size_t out_bytes, out_capacity;
    size_t frame; /* where the frame at hand begins */
    int failed;   /* the reader is gone, or no memory for a frame */
} worker;

/* ---- frames ---- */

static int write_all(const uint8_t *data, size_t len_bytes) {
    while (len_bytes) {
        ssize_t n = write(STDOUT_FILENO, data, len_bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data += n;
        len_bytes -= (size_t)n;
    }
    return 0;
}

static void flush(worker *w) {
    if (!w->failed && write_all(w->out, w->out_bytes))
        w->failed = 1;
    w->out_bytes = 0;
}

static void put(worker *w, const void *data, size_t len_bytes) {
    if (EA_GROW(w->out, w->out_capacity, w->out_bytes + len_bytes, SIZE_MAX)) {
        w->failed = 1;
        return;
    }
    if (len_bytes)
        memcpy(w->out + w->out_bytes, data, len_bytes);
    w->out_bytes += len_bytes;
}

static void put_u32(worker *w, uint32_t v) {
    uint8_t bytes[4];
    ea_store32(bytes, v);
    put(w, bytes, sizeof bytes);
}

static void put_u64(worker *w, uint64_t v) {
    uint8_t bytes[8];
    ea_store64(bytes, v);
    put(w, bytes, sizeof bytes);
}

static void put_string(worker *w, const char *s, size_t len_bytes) {
    put_u32(w, (uint32_t)len_bytes);
    put(w, s, len_bytes);
}

static void begin_frame(worker *w, char letter) {
    w->frame = w->out_bytes;
    put(w, &letter, 1);
    put_u32(w, 0);
}

static void end(worker *w) {
    if (w->failed)
        return;
    ea_store32(w->out + w->frame + 1, (uint32_t)(w->out_bytes - w->frame - 5));
    if (w->out_bytes >= FLUSH_BYTES)
        flush(w);
}

/* ---- the question ---- */

static const char *next_string(char **at, const char *stop) {
    if (stop - *at < 4)
        return NULL;
    uint32_t n = ea_load32(*at);
    if (n >= (size_t)(stop - *at) - 4)
        return NULL;
    const char *s = *at + 4;
    *at += 4 + (size_t)n + 1;
    return s[n] == 0 ? s : NULL;
}

/* u64 limit_ns, limit_bytes, limit_rows, process that asks, limit_temp_bytes; u8 the history is up to date, has a host;
 * five strings (u32, bytes, NUL); u32 parameters, each of them u8 type, 8 bytes value or length, bytes. */
static int read_question(worker *w) {
    enum { HEAD = 42 };

    size_t n = 0;
    w->question = malloc(QUESTION_MAX);
    while (w->question && n < QUESTION_MAX) {
        ssize_t got = read(STDIN_FILENO, w->question + n, QUESTION_MAX - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
    }
    if (!w->question || n < HEAD || n == QUESTION_MAX)
        return -1;
    char *at = w->question + HEAD;
    int64_t limit = (int64_t)ea_load64(w->question), now = ea_monotonic_ns();
    w->deadline_ns = limit > INT64_MAX - now ? INT64_MAX : now + limit;
    w->limit_bytes = ea_load64(w->question + 8);
    w->limit_rows = ea_load64(w->question + 16);
    w->parent = ea_load64(w->question + 24);
    w->limit_temp_bytes = ea_load64(w->question + 32);
    w->is_up_to_date = w->question[HEAD - 2] != 0;
    w->store = next_string(&at, w->question + n);
    w->host = w->store ? next_string(&at, w->question + n) : NULL;
    w->shown = w->host ? next_string(&at, w->question + n) : NULL;
    w->first_sql = w->shown ? next_string(&at, w->question + n) : NULL;
    w->sql = w->first_sql ? next_string(&at, w->question + n) : NULL;
    if (!w->sql || w->question + n - at < 4)
        return -1;
    w->param_count = ea_load32(at);
    w->params = at + 4;
    w->params_end = w->question + n;
    if (!w->question[HEAD - 1])
        w->host = NULL;
    if (!*w->shown)
        w->shown = NULL;
    if (!*w->first_sql)
        w->first_sql = NULL;
    return 0;
}

/* ---- limits ---- */

static int keep_going(void *arg) {
    worker *w = arg;
    w->is_late |= ea_monotonic_ns() > w->deadline_ns;
    return !w->is_late && !w->failed;
}

static void limit(worker *w) {
    int64_t left_s = (w->deadline_ns - ea_monotonic_ns()) / NS;
    ec_child_limit(w->parent, left_s < 0 ? 2 : left_s > INT32_MAX ? 0 : (uint64_t)left_s + 5, w->limit_bytes);
    if (w->limit_bytes)
        sqlite3_hard_heap_limit64(w->limit_bytes > INT64_MAX ? INT64_MAX : (sqlite3_int64)w->limit_bytes);
}

/* ---- the answer ---- */

static void send_columns(worker *w, sqlite3_stmt *st) {
    int n = sqlite3_column_count(st);
    begin_frame(w, 'C');
    put_u32(w, (uint32_t)n);
    for (int i = 0; i < n; i++) {
        const char *name = sqlite3_column_name(st, i), *type = sqlite3_column_decltype(st, i);
        name = name ? name : "";
        type = type ? type : "";
        put_string(w, name, strlen(name));
        put_string(w, type, strlen(type));
    }
    end(w);
}

static void put_cells(worker *w, sqlite3_stmt *st) {
    int n = sqlite3_data_count(st);
    for (int i = 0; i < n; i++) {
        uint8_t type = EC_NULL;
        double r;
        uint64_t bits;
        switch (sqlite3_column_type(st, i)) {
        case SQLITE_INTEGER:
            type = EC_INT;
            put(w, &type, 1);
            put_u64(w, (uint64_t)sqlite3_column_int64(st, i));
            break;
        case SQLITE_FLOAT:
            type = EC_REAL;
            r = sqlite3_column_double(st, i);
            memcpy(&bits, &r, sizeof bits);
            put(w, &type, 1);
            put_u64(w, bits);
            break;
        case SQLITE_TEXT:
        case SQLITE_BLOB:
            type = sqlite3_column_type(st, i) == SQLITE_TEXT ? EC_TEXT : EC_BLOB;
            put(w, &type, 1);
            put_string(w, sqlite3_column_blob(st, i), (size_t)sqlite3_column_bytes(st, i));
            break;
        default:
            put(w, &type, 1);
        }
    }
}

static void send_row(worker *w, sqlite3_stmt *st) {
    begin_frame(w, 'R');
    put_cells(w, st);
    end(w);
    w->rows++;
}

static void send_end(worker *w, enum ec_ending ending, const ea_err *err, ec_archive *archive) {
    uint8_t byte = (uint8_t)ending;
    const char *damage = "";
    uint64_t damaged = archive ? ec_archive_damage(archive, &damage) : 0;
    begin_frame(w, 'E');
    put(w, &byte, 1);
    put_u32(w, (uint32_t)err->code);
    put_u64(w, damaged);
    put_string(w, err->message, strlen(err->message));
    put_string(w, damage, strlen(damage));
    end(w);
    flush(w);
}

/* What a failure of SQLite means. */
static enum ec_ending judge(worker *w, sqlite3 *db, int code, ea_err *err) {
    if (ec_temp_files_are_full()) /* whatever failed for it */
        return EC_ENDED_TEMP;
    switch (code & 0xff) {
    case SQLITE_NOMEM:
        return EC_ENDED_MEMORY;
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
    const char *at = w->params;
    int code = SQLITE_OK;
    for (uint32_t i = 0; code == SQLITE_OK && i < count; i++) {
        if (w->params_end - at < 9)
            return SQLITE_RANGE;
        enum ec_value_type type = (enum ec_value_type)(uint8_t)*at;
        uint64_t bits = ea_load64(at + 1);
        double real;
        at += 9;
        if ((type == EC_TEXT || type == EC_BLOB) && bits > (uint64_t)(w->params_end - at))
            return SQLITE_RANGE;
        switch (type) {
        case EC_INT:
            code = sqlite3_bind_int64(st, (int)i + 1, (sqlite3_int64)bits);
            break;
        case EC_REAL:
            memcpy(&real, &bits, sizeof real);
            code = sqlite3_bind_double(st, (int)i + 1, real);
            break;
        case EC_TEXT:
            code = ec_sql_describes_tables(sql) && ec_sql_use(sql, at, bits, &err)
                       ? SQLITE_NOMEM
                       : sqlite3_bind_text64(st, (int)i + 1, at, bits, SQLITE_STATIC, SQLITE_UTF8);
            at += bits;
            break;
        case EC_BLOB:
            code = sqlite3_bind_blob64(st, (int)i + 1, at, bits, SQLITE_STATIC);
            at += bits;
            break;
        default:
            code = sqlite3_bind_null(st, (int)i + 1);
        }
    }
    return code;
}

static int is_space(const char *s) {
    for (; *s; s++)
        if (!strchr(" \t\r\n;", *s))
            return 0;
    return 1;
}

/* A statement with the question's parameters: SQLITE_OK; otherwise what that means is in *ret_ending and err. */
static int prepare(worker *w, ec_sql *s, const char *sql, sqlite3_stmt **ret, enum ec_ending *ret_ending, ea_err *err) {
    const char *tail = "";
    int code = ec_sql_prepare(s, sql, ret, &tail, err);
    if (code == SQLITE_OK &&
        (!*ret || !is_space(tail) || sqlite3_column_count(*ret) == 0 || !sqlite3_stmt_readonly(*ret))) {
        (void)ea_fail(err, EA_EUSAGE, "one SELECT is expected");
        return SQLITE_MISUSE;
    }
    if (code == SQLITE_OK) {
        uint32_t known = (uint32_t)sqlite3_bind_parameter_count(*ret);
        code = bind_params(w, s, *ret, sql == w->first_sql && known < w->param_count ? known : w->param_count);
    }
    if (code != SQLITE_OK && !(code == SQLITE_IOERR && err->code)) /* else err says it */
        *ret_ending = judge(w, ec_sql_database(s), code, err);
    return code;
}

/* Runs the first statement and gives its row's cells to the second as parameters: SQLITE_ROW, SQLITE_DONE when there is
 * no row; otherwise what that means is in *ret_ending and err. */
static int run_first(worker *w, ec_sql *s, sqlite3_stmt *second, enum ec_ending *ret_ending, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int code = prepare(w, s, w->first_sql, &st, ret_ending, err);
    if (code == SQLITE_OK) {
        code = sqlite3_step(st);
        if (code != SQLITE_ROW && code != SQLITE_DONE)
            *ret_ending = judge(w, ec_sql_database(s), code, err);
    }
    if (code == SQLITE_ROW) {
        int n = sqlite3_data_count(st);
        begin_frame(w, 'F');
        put_u32(w, (uint32_t)n);
        put_cells(w, st);
        end(w);
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
static enum ec_ending run(worker *w, ec_sql *s, ea_err *err) {
    sqlite3_stmt *st = NULL;
    enum ec_ending ending = EC_ENDED_WHOLE;
    int code = prepare(w, s, w->sql, &st, &ending, err);
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
        ending = judge(w, ec_sql_database(s), code, err);
    if (w->failed) { /* no memory for a frame; or the reader is gone */
        w->failed = 0;
        w->out_bytes = 0;
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

/* EA_ENOTFOUND when nothing is stored of the question's host: a misspelt name must not be answered with no rows. */
static int open_sql(worker *w, ec_sql **ret, ea_err *err) {
    int rc = ec_sql_open(ret, w->store,
                         &(ec_sql_options){.host = w->host,
                                           .shown = w->shown,
                                           .keep_going = keep_going,
                                           .arg = w,
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
            (void)!ec_sql_prepare(sql, statements[i], &st, &tail, &ignored);
        sqlite3_finalize(st);
    }
    return ec_sql_uses_history(sql);
}

int ec_worker_main(void) {
    worker w = {.out_capacity = 2 * FLUSH_BYTES};
    ea_err err = {0};
    ec_sql *sql = NULL;
    enum ec_ending ending = EC_ENDED_WHOLE;
    w.out = malloc(w.out_capacity);
    if (!w.out || read_question(&w)) {
        fprintf(stderr, "etwcollector: %s is started by the command query\n", EC_WORKER_NAME);
        free(w.out);
        return 2;
    }
    limit(&w);
    int rc = ec_query_confine(w.store, w.limit_temp_bytes, &err);
    if (!rc)
        rc = open_sql(&w, &sql, &err);
    if (!rc && !w.is_up_to_date && reads_history(&w, sql)) {
        begin_frame(&w, 'H');
        end(&w);
        flush(&w);
    } else {
        if (!rc)
            ending = run(&w, sql, &err);
        if (rc == EA_ENOMEM) {
            ending = EC_ENDED_MEMORY;
            err = (ea_err){0};
        }
        send_end(&w, ending, &err, sql ? ec_sql_archive(sql) : NULL);
    }
    ec_sql_close(sql);
    free(w.question);
    free(w.out);
    return 0;
}
