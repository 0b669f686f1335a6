/* See sink_process.h. */
#include "collector/sink/sink_process.h"

#include "collector/state/state_db.h"

#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 256,
    NAME_BYTES = 512,
    STREAMS = 32, /* of a run */
    LIVES = 8,    /* of a pid, which begin before the event: one of them is open, but where clocks were set */
};

static const char PROCESS_DOING[] = "look for the process of an event";

/* The stream's own session, and other ones of its agent's run. */
static const char STREAMS_SQL[] =
    "SELECT stream, 1 FROM streams WHERE host = ?1 AND id = ?2 UNION ALL SELECT stream, 0 FROM"
    " (SELECT stream FROM streams WHERE host = ?1 AND id BETWEEN ?3 AND ?4 AND id <> ?2 LIMIT ?5)";
/* As the history may have any number of processes, and SQLite knows nothing of how many: by the pid alone. */
static const char PROCESS_SQL[] =
    "SELECT image_name, begin_utc_ns, end_utc_ns FROM (SELECT image_name, begin_utc_ns, end_utc_ns FROM processes"
    " INDEXED BY processes_pid WHERE stream = ?1 AND pid = ?2 AND begin_utc_ns <= ?3 ORDER BY begin_utc_ns DESC"
    " LIMIT ?4) WHERE end_utc_ns > ?3 LIMIT 1";

/* Of a pid that no process has at a time: when the last one before it ended, and when the next one begins. */
static const char GAP_SQL[] =
    "SELECT (SELECT max(end_utc_ns) FROM (SELECT end_utc_ns FROM processes INDEXED BY processes_pid WHERE stream = ?1"
    " AND pid = ?2 AND begin_utc_ns <= ?3 ORDER BY begin_utc_ns DESC LIMIT ?4)),"
    " (SELECT min(begin_utc_ns) FROM processes INDEXED BY processes_pid WHERE stream = ?1 AND pid = ?2 AND"
    " begin_utc_ns > ?3)";

/* A pid of the batch at hand. */
typedef struct known {
    int is_used, is_found, has_name;
    uint32_t pid;
    int64_t begin_utc_ns, end_utc_ns; /* [begin, end) */
    char name[NAME_BYTES];
} known;

struct ec_sink_process {
    const char *dir;
    ec_state_db *tables; /* NULL: there are none yet */
    sqlite3_stmt *find, *find_gap, *run;
    int64_t streams[STREAMS]; /* of the batch's run, its own one first */
    size_t stream_count;
    int has_own;
    known places[PLACES];
};

int ec_sink_process_open(ec_sink_process **ret, const char *dir, ea_err *err) {
    ec_sink_process *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, "%s", PROCESS_DOING);
    p->dir = dir;
    int rc = ec_state_db_open(&p->tables, dir, 0, err);
    if (rc && rc != EA_ENOTFOUND && rc != EA_EUNSUPPORTED) {
        free(p);
        return rc;
    }
    *ret = p;
    return 0;
}

void ec_sink_process_close(ec_sink_process *p) {
    if (!p)
        return;
    sqlite3_finalize(p->find);
    sqlite3_finalize(p->find_gap);
    sqlite3_finalize(p->run);
    ec_state_db_close(p->tables);
    free(p);
}

static int process_find_streams(ec_sink_process *p, const ec_outbox_batch *batch, ea_err *err) {
    uint8_t first[EA_STREAM_ID_BYTES], last[EA_STREAM_ID_BYTES];
    int rc = ec_sqlite_prepare(ec_state_db_database(p->tables), &p->run, STREAMS_SQL, PROCESS_DOING, err);
    if (rc)
        return rc;
    memcpy(first, batch->stream_id, sizeof first);
    memcpy(last, batch->stream_id, sizeof last);
    memset(first + EA_STREAM_RUN_BYTES, 0, sizeof first - EA_STREAM_RUN_BYTES);
    memset(last + EA_STREAM_RUN_BYTES, 0xff, sizeof last - EA_STREAM_RUN_BYTES);
    sqlite3_bind_text(p->run, 1, batch->host, -1, SQLITE_STATIC);
    sqlite3_bind_blob(p->run, 2, batch->stream_id, EA_STREAM_ID_BYTES, SQLITE_STATIC);
    sqlite3_bind_blob(p->run, 3, first, sizeof first, SQLITE_STATIC);
    sqlite3_bind_blob(p->run, 4, last, sizeof last, SQLITE_STATIC);
    sqlite3_bind_int(p->run, 5, STREAMS - 1);
    while (p->stream_count < STREAMS && (rc = ec_sqlite_step(p->run, PROCESS_DOING, err)) > 0) {
        p->has_own |= sqlite3_column_int(p->run, 1);
        p->streams[p->stream_count++] = sqlite3_column_int64(p->run, 0);
    }
    sqlite3_reset(p->run);
    sqlite3_clear_bindings(p->run);
    return rc < 0 ? rc : 0;
}

int ec_sink_process_begin(ec_sink_process *p, const ec_outbox_batch *batch, ea_err *err) {
    ec_state_fold fold;
    p->stream_count = 0;
    p->has_own = 0;
    for (size_t i = 0; i < PLACES; i++)
        p->places[i].is_used = 0;
    if (!p->tables) {
        int rc = ec_state_db_open(&p->tables, p->dir, 0, err);
        if (rc)
            return rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED ? 0 : rc;
    }
    int rc = process_find_streams(p, batch, err);
    if (!rc)
        rc = ec_state_db_find_fold(p->tables, batch->host, batch->stream_id, &fold, err);
    return rc > 0 ? fold.position >= batch->row.number : rc;
}

/* A statement about a pid in one stream: as ec_sqlite_step. */
static int process_step(sqlite3_stmt *st, int64_t stream, uint32_t pid, int64_t utc_ns, ea_err *err) {
    sqlite3_bind_int64(st, 1, stream);
    sqlite3_bind_int64(st, 2, pid);
    sqlite3_bind_int64(st, 3, utc_ns);
    sqlite3_bind_int(st, 4, LIVES);
    return ec_sqlite_step(st, PROCESS_DOING, err);
}

/* The process in one stream, into k when k has none, or one that began earlier. */
static int process_find_in(ec_sink_process *p, int64_t stream, known *k, uint32_t pid, int64_t utc_ns, ea_err *err) {
    sqlite3_stmt *st = p->find;
    int rc = process_step(st, stream, pid, utc_ns, err);
    if (rc > 0 && (!k->is_found || sqlite3_column_int64(st, 1) > k->begin_utc_ns)) {
        const unsigned char *name = sqlite3_column_text(st, 0);
        k->is_found = 1;
        k->has_name = name && *name;
        snprintf(k->name, sizeof k->name, "%s", k->has_name ? (const char *)name : "");
        ea_utf8_repair(k->name, strlen(k->name)); /* it may have been cut */
        k->begin_utc_ns = sqlite3_column_int64(st, 1);
        k->end_utc_ns = sqlite3_column_int64(st, 2);
    }
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

/* How long no process has the pid, so that its other events in the batch need no further look. */
static int process_find_gap(ec_sink_process *p, known *k, int64_t utc_ns, ea_err *err) {
    int64_t begin = INT64_MIN, end = INT64_MAX;
    int rc = ec_sqlite_prepare(ec_state_db_database(p->tables), &p->find_gap, GAP_SQL, PROCESS_DOING, err);
    for (size_t i = 0; !rc && i < p->stream_count; i++) {
        sqlite3_stmt *st = p->find_gap;
        rc = process_step(st, p->streams[i], k->pid, utc_ns, err);
        if (rc > 0 && sqlite3_column_type(st, 0) == SQLITE_INTEGER && sqlite3_column_int64(st, 0) > begin)
            begin = sqlite3_column_int64(st, 0);
        if (rc > 0 && sqlite3_column_type(st, 1) == SQLITE_INTEGER && sqlite3_column_int64(st, 1) < end)
            end = sqlite3_column_int64(st, 1);
        sqlite3_reset(st);
        rc = rc < 0 ? rc : 0;
    }
    if (!rc) {
        k->begin_utc_ns = begin;
        k->end_utc_ns = end;
    }
    return rc;
}

static int process_find(ec_sink_process *p, known *k, uint32_t pid, int64_t utc_ns, ea_err *err) {
    int rc = ec_sqlite_prepare(ec_state_db_database(p->tables), &p->find, PROCESS_SQL, PROCESS_DOING, err);
    if (rc)
        return rc;
    *k = (known){
        .is_used = 1, .pid = pid, .begin_utc_ns = utc_ns, .end_utc_ns = utc_ns < INT64_MAX ? utc_ns + 1 : utc_ns};
    for (size_t i = 0; !rc && i < p->stream_count && !(p->has_own && i == 1 && k->is_found); i++)
        rc = process_find_in(p, p->streams[i], k, pid, utc_ns, err);
    return rc || k->is_found ? rc : process_find_gap(p, k, utc_ns, err);
}

int ec_sink_process_name(ec_sink_process *p, uint32_t pid, int64_t utc_ns, const char **ret, ea_err *err) {
    known *k = &p->places[pid / 4 % PLACES]; /* pids are multiples of 4 */
    *ret = NULL;
    if (!p->tables || pid == UINT32_MAX)
        return 0;
    if (!k->is_used || k->pid != pid || utc_ns < k->begin_utc_ns || utc_ns >= k->end_utc_ns) {
        int rc = process_find(p, k, pid, utc_ns, err);
        if (rc)
            return rc;
    }
    *ret = k->has_name ? k->name : NULL;
    return 0;
}
