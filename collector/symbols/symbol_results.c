/* Kept answers. See symbol_results.h. */
#include "collector/symbols/symbol_results.h"

#include "collector/sqlite/sqlite.h"
#include "collector/symbols/symbol_cache.h"
#include "proto/base/bytes.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUSY_MS = 10000, VERSION = 1, SHARE_THAT_GOES = 8, PUTS_BETWEEN = 4096 };

#define STATEMENTS(X)                                                                                                  \
    X(USE, ("INSERT INTO modules(name, used_utc_ns) VALUES(?1, ?2)"                                                    \
            " ON CONFLICT(name) DO UPDATE SET used_utc_ns = excluded.used_utc_ns RETURNING number"))                   \
    X(GET, "SELECT frames FROM results WHERE module = ?1 AND rva = ?2")                                                \
    X(PUT, ("INSERT OR REPLACE INTO results SELECT ?1, ?2, ?3"                                                         \
            " WHERE EXISTS(SELECT 1 FROM modules WHERE number = ?1)"))                                                 \
    X(LAST_USE, "SELECT max(used_utc_ns) FROM modules")                                                                \
    X(MOVE, "UPDATE modules SET used_utc_ns = used_utc_ns + ?1")                                                       \
    X(OLDEST, "SELECT number FROM modules ORDER BY used_utc_ns LIMIT 1")                                               \
    X(TOO_OLD, "SELECT number FROM modules WHERE used_utc_ns < ?1 LIMIT 1")                                            \
    X(DROP_RESULTS, "DELETE FROM results WHERE module = ?1")                                                           \
    X(DROP_MODULE, "DELETE FROM modules WHERE number = ?1")                                                            \
    X(USED_PAGES, "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count")

enum statement {

#define X(name, sql) S_##name,
    STATEMENTS(X)
#undef X
        STATEMENT_COUNT
};
static const char *const SQL[] = {
#define X(name, sql) sql,
    STATEMENTS(X)
#undef X
};

struct ec_symbol_results {
    sqlite3 *db;
    sqlite3_stmt *prepared[STATEMENT_COUNT];
    uint64_t limit_bytes;
    int64_t limit_age_ns;
    uint64_t page_bytes;
    unsigned puts; /* since the bound was looked at */
};

static const char DOING[] = "the kept results of symbols"; /* in errors of the database */

static int symbol_results_prepare(ec_symbol_results *r, enum statement which, sqlite3_stmt **ret, ea_err *err) {
    int rc = ec_sqlite_prepare(r->db, &r->prepared[which], SQL[which], DOING, err);
    if (!rc)
        *ret = r->prepared[which];
    return rc;
}

/* One statement with at most one number: the first column of its row in *ret, untouched without one. */
static int symbol_results_run(ec_symbol_results *r, enum statement which, int64_t number, int64_t *ret, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = symbol_results_prepare(r, which, &s, err);
    if (rc)
        return rc;
    if (sqlite3_bind_parameter_count(s))
        sqlite3_bind_int64(s, 1, number);
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW && ret)
        *ret = sqlite3_column_int64(s, 0);
    return ec_sqlite_end(s, code, 0, DOING, err);
}

/* ---- opening ---- */

static void close_database(ec_symbol_results *r) {
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(r->prepared[i]);
    memset(r->prepared, 0, sizeof r->prepared);
    sqlite3_close(r->db);
    r->db = NULL;
}

static int symbol_results_open_database(ec_symbol_results *r, const char *path, ea_err *err) {
    static const char SCHEMA[] =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;"
        "CREATE TABLE IF NOT EXISTS modules(number INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE,"
        " used_utc_ns INTEGER NOT NULL);"
        "CREATE TABLE IF NOT EXISTS results(module INTEGER NOT NULL, rva INTEGER NOT NULL, frames BLOB NOT NULL,"
        " PRIMARY KEY(module, rva)) WITHOUT ROWID; PRAGMA user_version = 1;";
    sqlite3_stmt *s = NULL;
    int64_t version = -1;
    if (sqlite3_open_v2(path, &r->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) !=
            SQLITE_OK ||
        sqlite3_busy_timeout(r->db, BUSY_MS) != SQLITE_OK ||
        sqlite3_prepare_v2(r->db, "PRAGMA user_version", -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(err, r->db, path);
    if (sqlite3_step(s) == SQLITE_ROW)
        version = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    if (version != 0 && version != VERSION)
        return ea_fail(err, EA_EDATABASE, "%s: another version wrote it", path);
    if (sqlite3_exec(r->db, SCHEMA, NULL, NULL, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(r->db, "PRAGMA page_size", -1, &s, NULL) != SQLITE_OK)
        return ec_fail_sqlite(err, r->db, path);
    if (sqlite3_step(s) == SQLITE_ROW)
        r->page_bytes = (uint64_t)sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return 0;
}

static int symbol_results_drop(ec_symbol_results *r, int64_t number, ea_err *err) {
    int rc = symbol_results_run(r, S_DROP_RESULTS, number, NULL, err);
    return rc ? rc : symbol_results_run(r, S_DROP_MODULE, number, NULL, err);
}

/* Takes away what is too old, and what is too much: a module at a time, at most until an eighth is free again. */
static int symbol_results_make_room(ec_symbol_results *r, ea_err *err) {
    int64_t pages = 0, number = 0;
    int rc;
    do {
        number = 0;
        rc = symbol_results_run(r, S_TOO_OLD, ea_utc_ns() - r->limit_age_ns, &number, err);
        if (!rc && number)
            rc = symbol_results_drop(r, number, err);
    } while (!rc && number);
    if (!rc)
        rc = symbol_results_run(r, S_USED_PAGES, 0, &pages, err);
    if (rc || (uint64_t)pages * r->page_bytes <= r->limit_bytes)
        return rc;
    do {
        number = 0;
        rc = symbol_results_run(r, S_OLDEST, 0, &number, err);
        if (!rc && number)
            rc = symbol_results_drop(r, number, err);
        if (!rc)
            rc = symbol_results_run(r, S_USED_PAGES, 0, &pages, err);
    } while (!rc && number && (uint64_t)pages * r->page_bytes > r->limit_bytes - r->limit_bytes / SHARE_THAT_GOES);
    return rc;
}

int ec_symbol_results_open(ec_symbol_results **ret, const char *path, uint64_t limit_bytes, int64_t limit_age_ns,
                           ea_err *err) {
    static const char *const FILES[] = {"", "-wal", "-shm"};
    ec_symbol_results *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "open the kept results of symbols");
    r->limit_bytes = limit_bytes;
    r->limit_age_ns = limit_age_ns;
    int64_t last_ns = 0;
    int rc = symbol_results_open_database(r, path, err);
    if (rc && sqlite3_errcode(r->db) != SQLITE_BUSY) { /* nothing in it that could not be asked for again */
        char file[1100];
        close_database(r);
        for (int i = 0; i < 3; i++) {
            snprintf(file, sizeof file, "%s%s", path, FILES[i]);
            (void)unlink(file);
        }
        rc = symbol_results_open_database(r, path, err);
    }
    if (!rc)
        rc = symbol_results_run(r, S_LAST_USE, 0, &last_ns, err);
    int64_t step_ns = rc ? 0 : ec_symbol_clock_step_ns(last_ns, limit_age_ns);
    if (step_ns)
        rc = symbol_results_run(r, S_MOVE, step_ns, NULL, err);
    if (!rc)
        rc = symbol_results_make_room(r, err);
    if (rc)
        ec_symbol_results_close(r);
    else
        *ret = r;
    return rc;
}

void ec_symbol_results_close(ec_symbol_results *r) {
    if (!r)
        return;
    close_database(r);
    free(r);
}

/* ---- answers ---- */

int ec_symbol_results_module(ec_symbol_results *r, const char *module, int64_t *ret_number, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = symbol_results_prepare(r, S_USE, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_text(s, 1, module, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, ea_utc_ns());
    if (sqlite3_step(s) == SQLITE_ROW) {
        *ret_number = sqlite3_column_int64(s, 0);
        while (sqlite3_step(s) == SQLITE_ROW) /* it is done when it has no more rows */
            ;
    } else {
        rc = ec_fail_sqlite(err, r->db, DOING);
    }
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return rc;
}

/* An answer: 0, or 1 and how far into the last frame's function it is (u32). A frame: line, length of the function,
 * length of the file (u32 each), then both texts. */
enum { ANSWER_HEAD_BYTES = 5, FRAME_HEAD_BYTES = 12 };

static int symbol_results_read_frames(const uint8_t *d, size_t n, ec_frames *f) {
    ec_frames_clear(f);
    if (n < ANSWER_HEAD_BYTES)
        return EA_ECORRUPT;
    uint32_t offset_bytes = ea_load32(d + 1);
    int has_offset = d[0];
    d += ANSWER_HEAD_BYTES;
    n -= ANSWER_HEAD_BYTES;
    while (n) {
        if (n < FRAME_HEAD_BYTES)
            return EA_ECORRUPT;
        size_t function = ea_load32(d + 4), file = ea_load32(d + 8);
        if (function > n - FRAME_HEAD_BYTES || file > n - FRAME_HEAD_BYTES - function)
            return EA_ECORRUPT;
        const char *text = (const char *)d + FRAME_HEAD_BYTES;
        int rc = ec_frames_add(f, text, function, text + function, file, ea_load32(d));
        if (rc)
            return rc;
        d += FRAME_HEAD_BYTES + function + file;
        n -= FRAME_HEAD_BYTES + function + file;
    }
    f->offset_bytes = offset_bytes;
    f->has_offset = has_offset;
    return 0;
}

int ec_symbol_results_get(ec_symbol_results *r, int64_t module, uint32_t rva, ec_frames *f, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = symbol_results_prepare(r, S_GET, &s, err), found = 0;
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 1, module);
    sqlite3_bind_int64(s, 2, rva);
    int code = sqlite3_step(s);
    if (code == SQLITE_ROW) {
        rc = symbol_results_read_frames(sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0), f);
        found = !rc;
        if (rc == EA_ECORRUPT) /* asked for again, and written over */
            rc = 0;
        else if (rc)
            rc = ea_fail(err, rc, "read a kept result of symbols");
    } else if (code != SQLITE_DONE) {
        rc = ec_fail_sqlite(err, r->db, DOING);
    }
    sqlite3_reset(s);
    return rc ? rc : found;
}

int ec_symbol_results_put(ec_symbol_results *r, int64_t module, uint32_t rva, const ec_frames *f, ea_err *err) {
    sqlite3_stmt *s = NULL;
    ea_text t;
    int rc = symbol_results_prepare(r, S_PUT, &s, err);
    if (rc)
        return rc;
    ea_text_init(&t);
    uint8_t answer[ANSWER_HEAD_BYTES] = {f->has_offset != 0};
    ea_store32(answer + 1, f->offset_bytes);
    ea_text_add(&t, answer, sizeof answer);
    for (size_t i = 0; i < f->count; i++) {
        uint8_t head[FRAME_HEAD_BYTES];
        size_t function = strlen(f->items[i].function), file = strlen(f->items[i].file);
        ea_store32(head, f->items[i].line);
        ea_store32(head + 4, (uint32_t)function);
        ea_store32(head + 8, (uint32_t)file);
        ea_text_add(&t, head, sizeof head);
        ea_text_add(&t, f->items[i].function, function);
        ea_text_add(&t, f->items[i].file, file);
    }
    sqlite3_bind_int64(s, 1, module);
    sqlite3_bind_int64(s, 2, rva);
    sqlite3_bind_blob64(s, 3, t.data, t.len_bytes, SQLITE_STATIC);
    if (t.failed)
        rc = ea_fail(err, EA_ENOMEM, "keep a result of symbols");
    else if (sqlite3_step(s) != SQLITE_DONE)
        rc = ec_fail_sqlite(err, r->db, DOING);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    ea_text_deinit(&t);
    if (!rc && ++r->puts >= PUTS_BETWEEN) {
        r->puts = 0;
        rc = symbol_results_make_room(r, err);
    }
    return rc;
}
