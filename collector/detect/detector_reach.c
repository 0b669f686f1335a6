/* See detector_reach.h. */
#include "collector/detect/detector_reach.h"

#include "collector/detect/detector.h"
#include "proto/base/platform.h"

enum {
    REACH_MAX = 10000, /* batches of a stream in a round */
    LATE_WAIT_S = 60,  /* for the history to begin again with a late batch */
};

#define NS_OF_MS(ms) ((int64_t)(ms)*1000000)

/* What the index says of a stream. */
typedef struct reach_stored {
    uint64_t highest;          /* number of a batch; 0: nothing is stored */
    uint64_t count;            /* batches up to the folded one, of a stream with a late batch */
    int64_t received_last_ns;  /* of the newest arrival */
    int64_t received_after_ns; /* of the first batch that is not folded; INT64_MAX: there is none */
} reach_stored;

static int read_stored(ec_store *store, const ec_detections_stream *s, uint64_t folded, reach_stored *ret,
                       ea_err *err) {
    static const char STREAM_SQL[] =
        "SELECT s.received_last_utc_ns, (SELECT max(number) FROM batches b WHERE b.stream_id = s.stream_id),"
        " CASE WHEN ?4 THEN (SELECT count(*) FROM batches b WHERE b.stream_id = s.stream_id AND b.number <= ?3) END,"
        " coalesce((SELECT received_utc_ns FROM batches b WHERE b.stream_id = s.stream_id AND b.number > ?3 ORDER BY"
        " b.number LIMIT 1), 9223372036854775807) FROM streams s WHERE s.agent = ?1 AND s.stream = ?2";
    sqlite3_stmt *st = NULL;
    *ret = (reach_stored){.highest = 0};
    int rc = ec_sqlite_prepare(ec_store_database(store), &st, STREAM_SQL, "read the streams", err);
    if (!rc) {
        sqlite3_bind_text(st, 1, s->host, -1, SQLITE_STATIC);
        sqlite3_bind_blob(st, 2, s->id, EA_STREAM_ID_BYTES, SQLITE_STATIC);
        sqlite3_bind_int64(st, 3, (sqlite3_int64)folded);
        sqlite3_bind_int(st, 4, s->is_late);
        rc = ec_sqlite_step(st, "read the streams", err);
    }
    if (rc > 0)
        *ret = (reach_stored){.received_last_ns = sqlite3_column_int64(st, 0),
                              .highest = (uint64_t)sqlite3_column_int64(st, 1),
                              .count = (uint64_t)sqlite3_column_int64(st, 2),
                              .received_after_ns = sqlite3_column_int64(st, 3)};
    sqlite3_finalize(st);
    return rc < 0 ? rc : 0;
}

/* Ends the reach before the first batch that was received after young_ns, but not in what the clock takes for the
 * future. */
static int hold_young(ec_store *store, const ec_detections_stream *s, int64_t young_ns, int64_t now_ns,
                      ec_detector_reach *reach, ea_err *err) {
    static const char YOUNG_SQL[] =
        "SELECT min(b.number) FROM batches b JOIN streams s ON s.stream_id = b.stream_id WHERE s.agent = ?1 AND"
        " s.stream = ?2 AND b.number >= ?3 AND b.number <= ?4 AND b.received_utc_ns > ?5 AND b.received_utc_ns <= ?6";
    sqlite3_stmt *st = NULL;
    if (reach->last > s->next && reach->last - s->next > REACH_MAX)
        reach->last = s->next + REACH_MAX; /* the query is bounded; the next round has the others */
    int rc = ec_sqlite_prepare(ec_store_database(store), &st, YOUNG_SQL, "read the batches", err);
    if (!rc) {
        sqlite3_bind_text(st, 1, s->host, -1, SQLITE_STATIC);
        sqlite3_bind_blob(st, 2, s->id, EA_STREAM_ID_BYTES, SQLITE_STATIC);
        sqlite3_bind_int64(st, 3, (sqlite3_int64)s->next);
        sqlite3_bind_int64(st, 4, (sqlite3_int64)reach->last);
        sqlite3_bind_int64(st, 5, young_ns);
        sqlite3_bind_int64(st, 6, now_ns);
        rc = ec_sqlite_step(st, "read the batches", err);
    }
    if (rc > 0 && sqlite3_column_type(st, 0) != SQLITE_NULL)
        reach->last = (uint64_t)sqlite3_column_int64(st, 0) - 1;
    sqlite3_finalize(st);
    return rc < 0 ? rc : 0;
}

int ec_detector_read_reach(ec_store *store, ec_state_db *state, const ec_detections_stream *s, ec_detector_reach *ret,
                           ea_err *err) {
    ec_state_fold fold;
    reach_stored stored;
    int64_t now_ns = ea_utc_ns();
    *ret = (ec_detector_reach){0};
    int found = ec_state_db_find_fold(state, s->host, s->id, &fold, err), rc = found < 0 ? found : 0;
    if (!rc)
        rc = read_stored(store, s, found ? fold.position : 0, &stored, err);
    if (rc)
        return rc;
    ret->highest = stored.highest;
    if (!found || !ret->highest)
        return 0;
    ret->last = fold.position < ret->highest ? fold.position : ret->highest;
    int64_t seen_ns = stored.received_after_ns < now_ns ? stored.received_after_ns : now_ns;
    int64_t age_ns = now_ns - stored.received_last_ns;
    int is_quiet = stored.received_after_ns == INT64_MAX && (age_ns < 0 || age_ns >= NS_OF_MS(EC_DETECTOR_HOLD_MS));
    if (ret->last >= s->next && !is_quiet)
        rc = hold_young(store, s, seen_ns - NS_OF_MS(EC_DETECTOR_HOLD_MS), now_ns, ret, err);
    if (!rc && s->is_late && fold.batch_count < stored.count &&
        now_ns - s->noticed_utc_ns < NS_OF_MS(1000) * LATE_WAIT_S)
        ret->last = 0; /* the history begins again, with the late batch */
    return rc;
}
