/* See sink_process.h. */
#include "collector/sink/sink_process.h"

#include "collector/state/state_db.h"

#include <stdlib.h>
#include <string.h>

enum { PLACES = 256, NAME_BYTES = 512 };

static const char PROCESS_DOING[] = "look for the process of an event";

/* Of the stream's own session, or of another one of its agent's run. */
static const char PROCESS_SQL[] =
    "SELECT p.image_name, p.begin_utc_ns, p.end_utc_ns FROM streams r JOIN streams s ON s.host = r.host AND"
    " substr(s.id, 1, ?5) = substr(r.id, 1, ?5) JOIN processes p ON p.stream = s.stream AND p.pid = ?3 AND"
    " p.begin_utc_ns <= ?4 AND p.end_utc_ns > ?4 WHERE r.host = ?1 AND r.id = ?2"
    " ORDER BY s.stream = r.stream DESC, p.begin_utc_ns DESC LIMIT 1";

/* Of a pid that no process has at a time: when the last one before it ended, and when the next one begins. */
static const char PROCESS_GAP_SQL[] =
    "SELECT max(CASE WHEN p.end_utc_ns <= ?4 THEN p.end_utc_ns END), min(CASE WHEN p.begin_utc_ns > ?4 THEN"
    " p.begin_utc_ns END) FROM streams r JOIN streams s ON s.host = r.host AND substr(s.id, 1, ?5) ="
    " substr(r.id, 1, ?5) JOIN processes p ON p.stream = s.stream AND p.pid = ?3 WHERE r.host = ?1 AND r.id = ?2";

/* A pid of the batch at hand. */
typedef struct known {
    int is_used, has_name;
    uint32_t pid;
    int64_t begin_utc_ns, end_utc_ns; /* [begin, end) */
    char name[NAME_BYTES];
} known;

struct ec_sink_process {
    const char *dir;
    ec_state_db *tables; /* NULL: there are none yet */
    sqlite3_stmt *find, *find_gap;
    ec_outbox_batch batch;
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
    ec_state_db_close(p->tables);
    free(p);
}

int ec_sink_process_begin(ec_sink_process *p, const ec_outbox_batch *batch, ea_err *err) {
    ec_state_fold fold;
    p->batch = *batch;
    for (size_t i = 0; i < PLACES; i++)
        p->places[i].is_used = 0;
    if (!p->tables) {
        int rc = ec_state_db_open(&p->tables, p->dir, 0, err);
        if (rc)
            return rc == EA_ENOTFOUND || rc == EA_EUNSUPPORTED ? 0 : rc;
    }
    int rc = ec_state_db_find_fold(p->tables, batch->host, batch->stream_id, &fold, err);
    return rc > 0 ? fold.position >= batch->row.number : rc;
}

static int process_step(ec_sink_process *p, sqlite3_stmt *st, uint32_t pid, int64_t utc_ns, ea_err *err) {
    sqlite3_bind_text(st, 1, p->batch.host, -1, SQLITE_STATIC);
    sqlite3_bind_blob(st, 2, p->batch.stream_id, EA_STREAM_ID_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(st, 3, pid);
    sqlite3_bind_int64(st, 4, utc_ns);
    sqlite3_bind_int(st, 5, EA_STREAM_RUN_BYTES);
    return ec_sqlite_step(st, PROCESS_DOING, err);
}

/* How long no process has the pid, so that its other events in the batch need no further look. */
static int process_find_gap(ec_sink_process *p, known *k, int64_t utc_ns, ea_err *err) {
    int rc = ec_sqlite_prepare(ec_state_db_database(p->tables), &p->find_gap, PROCESS_GAP_SQL, PROCESS_DOING, err);
    if (rc)
        return rc;
    sqlite3_stmt *st = p->find_gap;
    rc = process_step(p, st, k->pid, utc_ns, err);
    if (rc > 0) {
        k->begin_utc_ns = sqlite3_column_type(st, 0) == SQLITE_NULL ? INT64_MIN : sqlite3_column_int64(st, 0);
        k->end_utc_ns = sqlite3_column_type(st, 1) == SQLITE_NULL ? INT64_MAX : sqlite3_column_int64(st, 1);
    }
    sqlite3_reset(st);
    return rc < 0 ? rc : 0;
}

static int process_find(ec_sink_process *p, known *k, uint32_t pid, int64_t utc_ns, ea_err *err) {
    int rc = ec_sqlite_prepare(ec_state_db_database(p->tables), &p->find, PROCESS_SQL, PROCESS_DOING, err);
    if (rc)
        return rc;
    sqlite3_stmt *st = p->find;
    *k = (known){
        .is_used = 1, .pid = pid, .begin_utc_ns = utc_ns, .end_utc_ns = utc_ns < INT64_MAX ? utc_ns + 1 : utc_ns};
    rc = process_step(p, st, pid, utc_ns, err);
    if (rc > 0) {
        const unsigned char *name = sqlite3_column_text(st, 0);
        k->has_name = name && *name;
        snprintf(k->name, sizeof k->name, "%s", k->has_name ? (const char *)name : "");
        ea_utf8_repair(k->name, strlen(k->name)); /* it may have been cut */
        k->begin_utc_ns = sqlite3_column_int64(st, 1);
        k->end_utc_ns = sqlite3_column_int64(st, 2);
    }
    sqlite3_reset(st);
    return rc ? (rc < 0 ? rc : 0) : process_find_gap(p, k, utc_ns, err);
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
