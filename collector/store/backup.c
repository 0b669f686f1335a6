/* Backup and restore. See backup.h. */
#include "collector/store/backup.h"

#include "collector/sqlite/sqlite.h"
#include "collector/store/private.h"
#include "collector/store/segment.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COPY_BYTES = 1 << 20, PAGES_A_STEP = 1024, BUSY_TIMEOUT_MS = 20000, PATH_BYTES = 1200 };

enum { ALARMS_MAX = 64, ALARM_BYTES = 100 };

/* UNFINISHED is locked by the process that makes the copy, and removed after MARK is written. */
static const char MARK[] = "backup.json", UNFINISHED[] = "backup.unfinished";

static void backup_join(char out[PATH_BYTES], const char *dir, const char *name) {
    snprintf(out, PATH_BYTES, "%s/%s", dir, name);
}

static void segment_path(char out[PATH_BYTES], const char *dir, uint64_t number) {
    snprintf(out, PATH_BYTES, "%s/segments/%016" PRIx64 ".seg", dir, number);
}

/* ---- files ---- */

/* A backup comes from elsewhere: its files are files, not links to other ones, nor pipes. */
static int open_plain(int *ret_fd, uint64_t *ret_bytes, const char *path, ea_err *err) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ELOOP ? ea_fail(err, EA_EUSAGE, "%s is a link, expected a file", path)
                              : ea_fail_os(err, errno == ENOENT ? EA_ENOTFOUND : EA_EIO, errno, "open %s", path);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return ea_fail(err, EA_EUSAGE, "%s is no file", path);
    }
    *ret_fd = fd;
    *ret_bytes = (uint64_t)st.st_size;
    return 0;
}

static int check_plain(const char *path, ea_err *err) {
    int fd;
    uint64_t size;
    int rc = open_plain(&fd, &size, path, err);
    if (!rc)
        (void)close(fd);
    return rc;
}

static int read_plain(int fd, uint64_t at, char *buffer, size_t wanted, const char *path, size_t *ret, ea_err *err) {
    ssize_t n;
    do
        n = pread(fd, buffer, wanted, (off_t)at);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return ea_fail_os(err, EA_EIO, errno, "read %s", path);
    if (!n)
        return ea_fail(err, EA_ETRUNCATED, "copy %s: it became shorter", path);
    *ret = (size_t)n;
    return 0;
}

/* The first max_bytes of a file (UINT64_MAX: all), durably. EA_ETRUNCATED when it has fewer. */
static int backup_copy_file(const char *from, const char *to, uint64_t max_bytes, ea_err *err) {
    ea_file *out = NULL;
    int in = -1;
    uint64_t at = 0, size = 0;
    char *buffer = malloc(COPY_BYTES);
    int rc = buffer ? open_plain(&in, &size, from, err) : ea_fail(err, EA_ENOMEM, "copy %s", from);
    if (!rc && max_bytes == UINT64_MAX)
        max_bytes = size;
    if (!rc && size < max_bytes)
        rc = ea_fail(err, EA_ETRUNCATED, "copy %s: it ends at %" PRIu64 " of %" PRIu64 " bytes", from, size, max_bytes);
    if (!rc)
        rc = ea_file_open(&out, to, EA_OPEN_CREATE, err);
    while (!rc && at < max_bytes) {
        size_t n = 0;
        rc = read_plain(in, at, buffer, max_bytes - at < COPY_BYTES ? (size_t)(max_bytes - at) : COPY_BYTES, from, &n,
                        err);
        if (!rc)
            rc = ea_file_write_at(out, at, buffer, n, err);
        at += n;
    }
    if (!rc)
        rc = ea_file_sync(out, err);
    if (in >= 0)
        (void)close(in);
    ea_file_close(out);
    free(buffer);
    return rc;
}

static int any_entry(const char *name, int is_dir, void *arg) {
    (void)name, (void)is_dir, (void)arg;
    return EA_EUSAGE;
}

/* ---- databases ---- */

static int backup_fail(ea_err *err, sqlite3 *db, const char *path) {
    return ea_fail(err, ec_sqlite_error(db), "%s: %s", path, ec_sqlite_text(db));
}

/* As it is at one moment, while others write to it. */
static int copy_database(const char *from, const char *to, ea_err *err) {
    sqlite3 *in = NULL, *out = NULL;
    sqlite3_backup *b = NULL;
    int rc = 0, code;
    if (sqlite3_open_v2(from, &in, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK)
        rc = backup_fail(err, in, from);
    else if (sqlite3_open(to, &out) != SQLITE_OK)
        rc = backup_fail(err, out, to);
    if (!rc) {
        (void)sqlite3_busy_timeout(in, BUSY_TIMEOUT_MS);
        /* one read transaction for all of it: else each write of the collector's begins the copy anew */
        if (sqlite3_exec(in, "BEGIN; SELECT count(*) FROM sqlite_master", NULL, NULL, NULL) != SQLITE_OK)
            rc = backup_fail(err, in, from);
        else if (!(b = sqlite3_backup_init(out, "main", in, "main")))
            rc = backup_fail(err, out, to);
    }
    if (!rc) {
        while (sqlite3_backup_step(b, PAGES_A_STEP) == SQLITE_OK)
            ;
        code = sqlite3_backup_finish(b); /* a step's error comes again */
        if (code != SQLITE_OK || sqlite3_exec(out, "PRAGMA journal_mode = DELETE", NULL, NULL, NULL) != SQLITE_OK)
            rc = backup_fail(err, out, to);
    }
    sqlite3_close(out);
    sqlite3_close(in);
    return rc;
}

static int backup_number_of(const char *path, const char *sql, uint64_t *ret, ea_err *err) {
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    int rc = 0;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, sql, -1, &st, NULL) != SQLITE_OK)
        rc = backup_fail(err, db, path);
    if (!rc && sqlite3_step(st) == SQLITE_ROW)
        *ret = (uint64_t)sqlite3_column_int64(st, 0);
    else if (!rc)
        rc = backup_fail(err, db, path);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return rc;
}

/* Sentences of the check that turned out to be false alarms. */
typedef struct alarms {
    char text[ALARMS_MAX][ALARM_BYTES];
    size_t count;
} alarms;

/* SQLite 3.40.1 says "NULL value in TABLE.COLUMN" of each row of a table WITHOUT ROWID whose primary key's columns do
 * not come first. 1: the text says that of such a table, and the column has no NULL. Each text is looked into once. */
static int is_false_alarm(sqlite3 *db, const char *text, alarms *a) {
    static const char BEGIN[] = "NULL value in ", NAME[] = "abcdefghijklmnopqrstuvwxyz_";
    const char *table = text + sizeof BEGIN - 1;
    sqlite3_stmt *st = NULL;
    int is_false = 0;
    for (size_t i = 0; i < a->count; i++)
        if (strcmp(a->text[i], text) == 0)
            return 1;
    if (a->count == ALARMS_MAX || strlen(text) >= ALARM_BYTES || strncmp(text, BEGIN, sizeof BEGIN - 1) != 0)
        return 0;
    int table_bytes = (int)strspn(table, NAME);
    const char *column = table + table_bytes + 1;
    if (table[table_bytes] != '.' || column[strspn(column, NAME)])
        return 0;
    /* typeof: for a column that is declared NOT NULL, "IS NULL" is false without a look at any row */
    char *sql =
        sqlite3_mprintf("SELECT (SELECT wr FROM pragma_table_list('%.*s') WHERE schema = 'main') = 1 AND NOT EXISTS"
                        "(SELECT * FROM main.\"%.*s\" AS t WHERE typeof(t.\"%s\") = 'null')",
                        table_bytes, table, table_bytes, table, column);
    if (sql && sqlite3_prepare_v2(db, sql, -1, &st, NULL) == SQLITE_OK && sqlite3_step(st) == SQLITE_ROW)
        is_false = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_free(sql);
    if (is_false)
        snprintf(a->text[a->count++], ALARM_BYTES, "%s", text);
    return is_false;
}

/* A trigger would change what the collector writes, in each store that is made of the backup. sql: counts those, and
 * views, that a collector does not make. */
static int check_schema(const char *path, const char *sql, ea_err *err) {
    uint64_t count = 0;
    int rc = backup_number_of(path, sql, &count, err);
    if (!rc && count)
        rc = ea_fail(err, EA_ECORRUPT, "%s has triggers or views that no collector makes", path);
    return rc;
}

static int check_database(const char *path, ea_err *err) {
    alarms known = {.count = 0};
    sqlite3 *db = NULL;
    sqlite3_stmt *st = NULL;
    int rc = 0, code = SQLITE_ERROR;
    if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK &&
        sqlite3_busy_timeout(db, BUSY_TIMEOUT_MS) == SQLITE_OK && /* a running collector writes meanwhile */
        sqlite3_prepare_v2(db, "PRAGMA quick_check(2147483647)", -1, &st, NULL) == SQLITE_OK) /* false alarms count */
        while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
            const char *text = (const char *)sqlite3_column_text(st, 0);
            if (!text || (strcmp(text, "ok") != 0 && !is_false_alarm(db, text, &known)))
                rc = ea_fail(err, EA_ECORRUPT, "%s: %s", path, text ? text : "no memory");
        }
    if (!rc && code != SQLITE_DONE)
        rc = backup_fail(err, db, path);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return rc;
}

/* ---- backup ---- */

typedef struct copying {
    const char *store, *to;
    uint64_t open; /* the segment that grows; closed ones are below */
    uint64_t first;
    ec_backup *report;
    ea_err *err;
} copying;

static int highest(uint64_t number, void *arg) {
    uint64_t *at = arg;
    *at = number > *at ? number : *at;
    return 0;
}

static int take_segment(uint64_t number, void *arg) {
    copying *c = arg;
    char from[PATH_BYTES], to[PATH_BYTES];
    segment_path(from, c->store, number);
    segment_path(to, c->to, number);
    if (number >= c->open || ea_path_exists(to))
        return 0;
    if (link(from, to) == 0) {
        c->report->linked_count++;
        return 0;
    }
    if (errno == ENOENT) /* retention was faster */
        return 0;
    return backup_copy_file(from, to, UINT64_MAX, c->err);
}

/* What is in the copy and not named by the copied index. */
static int drop_segment(uint64_t number, void *arg) {
    copying *c = arg;
    char path[PATH_BYTES];
    if (number >= c->first && number <= c->open) {
        c->report->segment_count++;
        return 0;
    }
    segment_path(path, c->to, number);
    return ea_path_remove(path, c->err);
}

static int copy_if_there(const char *store, const char *to, const char *name, ea_err *err) {
    char a[PATH_BYTES], b[PATH_BYTES];
    backup_join(a, store, name);
    backup_join(b, to, name);
    if (!ea_path_exists(a))
        return 0;
    char *data = NULL;
    size_t len_bytes = 0;
    int rc = ea_path_read_all(a, (size_t)1 << 32, &data, &len_bytes, err);
    if (!rc)
        rc = ea_path_write_all(b, data, len_bytes, 1, err);
    free(data);
    return rc;
}

static int take_all(copying *c, ea_err *err) {
    char from[PATH_BYTES], to[PATH_BYTES], segments[PATH_BYTES], copied[PATH_BYTES];
    uint64_t offset = 0;
    backup_join(segments, c->store, "segments");
    backup_join(copied, c->to, "segments");
    /* closed ones first: retention deletes those alone, and what is linked stays */
    int rc = ec_segment_each(segments, highest, &c->open, err);
    if (!rc)
        rc = ec_segment_each(segments, take_segment, c, err);
    backup_join(from, c->store, "state.db");
    backup_join(to, c->to, "state.db");
    if (!rc && ea_path_exists(from))
        rc = copy_database(from, to, err);
    backup_join(from, c->store, "alarms.db");
    backup_join(to, c->to, "alarms.db");
    if (!rc && ea_path_exists(from))
        rc = copy_database(from, to, err);
    backup_join(from, c->store, "sinks.db"); /* before the index: places are not after its end */
    backup_join(to, c->to, "sinks.db");
    if (!rc && ea_path_exists(from))
        rc = copy_database(from, to, err);
    backup_join(from, c->store, "requests.db");
    backup_join(to, c->to, "requests.db");
    if (!rc && ea_path_exists(from))
        rc = copy_database(from, to, err);
    backup_join(from, c->store, "index.db");
    backup_join(to, c->to, "index.db");
    if (!rc)
        rc = copy_database(from, to, err);
    if (!rc)
        rc = backup_number_of(to, "SELECT segment FROM position", &c->open, err);
    if (!rc)
        rc = backup_number_of(to, "SELECT offset FROM position", &offset, err);
    if (!rc)
        rc = backup_number_of(to, "SELECT ifnull((SELECT first_segment FROM retention), 0)", &c->first, err);
    if (!rc) /* those that were closed meanwhile */
        rc = ec_segment_each(segments, take_segment, c, err);
    segment_path(from, c->store, c->open);
    segment_path(to, c->to, c->open);
    if (!rc && ea_path_exists(to)) /* linked, since another one grows by now: the copy gets its own */
        rc = ea_path_remove(to, err);
    if (!rc)
        rc = backup_copy_file(from, to, offset, err);
    if (!rc)
        rc = ec_segment_each(copied, drop_segment, c, err);
    if (!rc)
        rc = copy_if_there(c->store, c->to, "kept.db", err);
    if (!rc)
        rc = copy_if_there(c->store, c->to, "tokens", err);
    return rc ? rc : ea_path_sync_dir(copied, err);
}

static int write_mark(const char *to, const ec_backup *b, ea_err *err) {
    char path[PATH_BYTES];
    ea_text t;
    ea_text_init(&t);
    ea_text_str(&t, "{\"version\": 1, \"created\": \"");
    ea_text_utc_ns(&t, ea_utc_ns());
    ea_text_printf(&t,
                   "\", \"segments\": %" PRIu64 ", \"batches\": %" PRIu64 ", \"events\": %" PRIu64
                   ", \"bytes\": %" PRIu64 "}\n",
                   b->segment_count, b->batch_count, b->event_count, b->byte_count);
    backup_join(path, to, MARK);
    int rc =
        t.failed ? ea_fail(err, EA_ENOMEM, "write %s", path) : ea_path_write_all(path, t.data, t.len_bytes, 1, err);
    ea_text_deinit(&t);
    return rc;
}

static int backup_count_rows(const char *dir, ec_backup *b, ea_err *err) {
    char path[PATH_BYTES];
    backup_join(path, dir, "index.db");
    int rc = backup_number_of(path, "SELECT count(*) FROM batches", &b->batch_count, err);
    if (!rc)
        rc = backup_number_of(path, "SELECT ifnull(sum(event_count), 0) FROM batches", &b->event_count, err);
    return rc ? rc : backup_number_of(path, "SELECT ifnull(sum(len_bytes), 0) FROM batches", &b->byte_count, err);
}

/* ---- what an interrupted backup left ---- */

static int remove_segment(uint64_t number, void *arg) {
    const copying *c = arg;
    char path[PATH_BYTES];
    segment_path(path, c->to, number);
    return ea_path_remove(path, c->err);
}

static const char *const PART_FILES[] = {"index.db",    "state.db", "alarms.db", "sinks.db",
                                         "requests.db", "kept.db",  "tokens"};
static const char *const PART_ENDINGS[] = {"", "-journal", "-wal", "-shm", ".tmp"};

enum { FILE_COUNT = sizeof PART_FILES / sizeof *PART_FILES, ENDING_COUNT = sizeof PART_ENDINGS / sizeof *PART_ENDINGS };

/* Whether a backup that was interrupted may have left a file of that name. */
static int is_part(const char *name) {
    size_t n = sizeof MARK - 1;
    if (strcmp(name, UNFINISHED) == 0 || (strncmp(name, MARK, n) == 0 && strcmp(name + n, ".tmp") == 0))
        return 1;
    for (size_t i = 0; i < FILE_COUNT * ENDING_COUNT; i++) {
        n = strlen(PART_FILES[i / ENDING_COUNT]);
        if (strncmp(name, PART_FILES[i / ENDING_COUNT], n) == 0 &&
            strcmp(name + n, PART_ENDINGS[i % ENDING_COUNT]) == 0)
            return 1;
    }
    return 0;
}

static int is_strange(const char *name, int is_dir, void *arg) {
    const copying *c = arg;
    int is_ours = is_dir ? strcmp(name, "segments") == 0 : is_part(name);
    return is_ours ? 0 : ea_fail(c->err, EA_EUSAGE, "%s is not empty: it has '%.200s'", c->to, name);
}

/* Segments may be links, which are removed: a store's own file is never written to. */
static int remove_rest(copying *c, ea_err *err) {
    char path[PATH_BYTES];
    backup_join(path, c->to, "segments");
    int rc = ec_segment_each(path, remove_segment, c, err);
    for (size_t i = 0; !rc && i < FILE_COUNT * ENDING_COUNT; i++) {
        snprintf(path, sizeof path, "%s/%s%s", c->to, PART_FILES[i / ENDING_COUNT], PART_ENDINGS[i % ENDING_COUNT]);
        if (ea_path_exists(path))
            rc = ea_path_remove(path, err);
    }
    snprintf(path, sizeof path, "%s/%s.tmp", c->to, MARK);
    return !rc && ea_path_exists(path) ? ea_path_remove(path, err) : rc;
}

/* A rest is removed only where no other user can have made it: its folder of segments could be a link to a store's. */
static int check_owner(const char *to, ea_err *err) {
    char segments[PATH_BYTES];
    struct stat st;
    backup_join(segments, to, "segments");
    int is_ours = stat(to, &st) == 0 && st.st_uid == geteuid() && !(st.st_mode & (S_IWGRP | S_IWOTH)) &&
                  (lstat(segments, &st) != 0 || S_ISDIR(st.st_mode));
    return is_ours ? 0
                   : ea_fail(err, EA_EUSAGE,
                             "%s is not empty: it has what an interrupted backup left, and is a folder in which others "
                             "can write, or has a link in place of its segments",
                             to);
}

/* The folder with nothing in it but the lock. What an earlier backup that did not end left is removed, once it is known
 * that there is nothing else. */
static int begin_copy(copying *c, ea_file **lock, ea_err *err) {
    char path[PATH_BYTES], segments[PATH_BYTES], mark[PATH_BYTES];
    backup_join(path, c->to, UNFINISHED);
    backup_join(segments, c->to, "segments");
    backup_join(mark, c->to, MARK);
    int is_rest = ea_path_exists(path);
    if (!is_rest && ea_path_exists(c->to) && ea_path_list(c->to, any_entry, NULL, err))
        return ea_fail(err, EA_EUSAGE, "%s is not empty", c->to);
    int rc = is_rest ? check_owner(c->to, err) : 0;
    if (!rc)
        rc = ea_path_make_dirs(segments, err);
    if (!rc)
        rc = ea_file_open(lock, path, EA_OPEN_APPEND, err);
    if (rc)
        return rc;
    rc = ea_file_try_lock(*lock, err);
    if (rc)
        return rc == EA_EBUSY ? ea_fail(err, rc, "another backup is being made in %s", c->to) : rc;
    rc = ea_path_list(c->to, is_strange, c, err);
    if (rc && ea_path_exists(mark)) { /* a whole backup, which ended just now, or was killed when it had ended */
        ea_err ignored;
        EA_IGNORE(ea_path_remove(path, &ignored));
    }
    return rc || !is_rest ? rc : remove_rest(c, err);
}

int ec_store_begin_backup(const char *store, const char *to, unsigned *ret_mode, ea_err *err) {
    *ret_mode = 0;
    int rc = ec_store_check_readable(store, err);
    if (!rc)
        rc = ea_path_make_dirs(to, err);
    return rc || ea_path_list(to, any_entry, NULL, err) ? rc : ec_make_private(to, ret_mode, err);
}

int ec_store_backup(const char *store, const char *to, ec_backup *ret, ea_err *err) {
    char path[PATH_BYTES];
    ec_backup made = {0};
    copying c = {.store = store, .to = to, .report = &made, .err = err};
    int rc = ec_store_check_readable(store, err);
    if (rc)
        return rc;
    ea_file *lock = NULL;
    rc = begin_copy(&c, &lock, err);
    if (!rc)
        rc = ec_make_private(to, &made.mode_before, err);
    if (!rc)
        rc = take_all(&c, err);
    if (!rc)
        rc = backup_count_rows(to, &made, err);
    if (!rc)
        rc = write_mark(to, &made, err);
    backup_join(path, to, UNFINISHED);
    if (!rc)
        rc = ea_path_remove(path, err);
    ea_file_close(lock);
    if (!rc)
        *ret = made;
    return rc;
}

/* ---- verify ---- */

typedef struct verifying {
    ec_store *store;
    ec_backup *report;
    ea_err *err;
    int rc;
} verifying;

static int verify_stream(const ec_stream_row *stream, void *arg) {
    verifying *v = arg;
    ec_batch_row row = {0};
    while ((v->rc = ec_store_next_batch(v->store, stream->stream_id, row.number, &row, v->err)) == 1) {
        const uint8_t *data;
        size_t len_bytes;
        v->rc = ec_store_read(v->store, &row, &data, &len_bytes, v->err);
        if (v->rc) {
            char why[400];
            snprintf(why, sizeof why, "%s", v->err->message);
            v->rc = ea_fail(v->err, EA_ECORRUPT, "batch %" PRIu64 " of %s cannot be read: %s", row.number, stream->host,
                            why);
            return 1;
        }
        v->report->batch_count++;
        v->report->event_count += row.event_count;
        v->report->byte_count += row.len_bytes;
    }
    return v->rc != 0;
}

static int count_segment(uint64_t number, void *arg) {
    ec_backup *b = arg;
    (void)number;
    b->segment_count++;
    return 0;
}

int ec_store_verify(const char *dir, const char *foreign_sql, ec_backup *ret, ea_err *err) {
    static const char *const DATABASES[] = {"index.db", "state.db", "kept.db", "alarms.db", "sinks.db", "requests.db"};
    static const char ANY[] = "SELECT count(*) FROM sqlite_master WHERE type IN ('trigger', 'view')";
    char path[PATH_BYTES];
    ec_backup found = {0};
    verifying v = {.report = &found, .err = err};
    int rc = ec_store_open(&v.store, dir, &(ec_store_options){0}, err);
    for (size_t i = 0; !rc && i < sizeof DATABASES / sizeof *DATABASES; i++) {
        backup_join(path, dir, DATABASES[i]);
        if (ea_path_exists(path))
            rc = check_database(path, err);
        if (!rc && ea_path_exists(path))
            rc = check_schema(path, strcmp(DATABASES[i], "state.db") == 0 ? foreign_sql : ANY, err);
    }
    if (!rc)
        rc = ec_store_each_stream(v.store, NULL, verify_stream, &v, err);
    if (!rc)
        rc = v.rc;
    backup_join(path, dir, "segments");
    if (!rc)
        rc = ec_segment_each(path, count_segment, &found, err);
    ec_store_close(v.store);
    if (!rc)
        *ret = found;
    return rc;
}

/* ---- restore ---- */

static int copy_segment(uint64_t number, void *arg) {
    const copying *c = arg;
    char from[PATH_BYTES], to[PATH_BYTES];
    segment_path(from, c->store, number);
    segment_path(to, c->to, number);
    return backup_copy_file(from, to, UINT64_MAX, c->err);
}

static int check_segment(uint64_t number, void *arg) {
    const copying *c = arg;
    char path[PATH_BYTES];
    segment_path(path, c->store, number);
    return check_plain(path, c->err);
}

int ec_store_begin_restore(const char *from, const char *to, char made[EC_RESTORING_BYTES], ea_err *err) {
    char path[PATH_BYTES];
    int64_t made_ns;
    backup_join(path, from, MARK);
    int rc = ea_path_modified(path, &made_ns, err);
    if (rc)
        return rc == EA_ENOTFOUND ? ea_fail(err, EA_EUSAGE, "%s is no whole backup: it has no %s", from, MARK) : rc;
    if (snprintf(made, EC_RESTORING_BYTES, "%s.restoring", to) >= EC_RESTORING_BYTES)
        return ea_fail(err, EA_EUSAGE, "the path of the store is too long");
    if (ea_path_exists(to) || ea_path_exists(made))
        return ea_fail(err, EA_EUSAGE, "%s, or %s, exists: a store is restored to a new folder", to, made);
    return ea_path_make_dirs(made, err);
}

int ec_store_restore(const char *from, const char *made, int with_tokens, const char *foreign_sql, ec_backup *ret,
                     ea_err *err) {
    static const char *const FILES[] = {"index.db", "state.db",    "kept.db", "alarms.db",
                                        "sinks.db", "requests.db", "tokens"};
    char path[PATH_BYTES], a[PATH_BYTES], b[PATH_BYTES];
    copying c = {.store = from, .to = made, .err = err};
    backup_join(a, from, "segments");
    int rc = ec_segment_each(a, check_segment, &c, err);
    for (size_t i = 0; !rc && i < sizeof FILES / sizeof *FILES; i++) {
        backup_join(b, from, FILES[i]);
        rc = check_plain(b, err);
        rc = rc == EA_ENOTFOUND ? 0 : rc;
    }
    if (!rc)
        rc = ec_store_verify(from, foreign_sql, ret, err);
    backup_join(path, made, "segments");
    if (!rc)
        rc = ea_path_make_dirs(path, err);
    if (!rc)
        rc = ec_segment_each(a, copy_segment, &c, err);
    for (size_t i = 0; !rc && i < sizeof FILES / sizeof *FILES; i++) {
        int is_tokens = strcmp(FILES[i], "tokens") == 0;
        backup_join(a, from, FILES[i]);
        backup_join(b, made, FILES[i]);
        if (ea_path_exists(a) && (!is_tokens || with_tokens))
            rc = is_tokens ? copy_if_there(from, made, FILES[i], err) : backup_copy_file(a, b, UINT64_MAX, err);
    }
    return rc ? rc : ea_path_sync_dir(path, err);
}

int ec_store_end_restore(const char *made, const char *to, ea_err *err) {
    if (!to) {
        (void)rmdir(made);
        return 0;
    }
    return ea_path_rename(made, to, err);
}
