/* The age of segments, independent of steps of the wall clock. See store_parts.h.
 *
 * Batches carry the wall clock's time of their arrival. Steps of that clock are noted with the segments that existed
 * before, and are subtracted from their ages. While a process runs, the monotonic clock shows such steps. Between two
 * processes it is unknown whether the clock was set or the machine was off: such a pause counts at the most as much as
 * the caller allows. The last time at which a process ran is kept for that.
 *
 * Called by: append.c and retention.c, which look at the clock before each group and each step. Thread: its store's. */
#include "collector/store/store_parts.h"

enum {
    STEP_S = 5,   /* a difference of the two clocks above this is a step; slewing is less, and adds up */
    PAUSE_S = 60, /* no longer between two processes: nothing to note */
    SEEN_S = 60,  /* how often it is noted that a process runs */
};

static const int64_t S_TO_NS = INT64_C(1000000000);

/* The clock has moved by so much beside what passed; it holds for all segments that have something. */
static int segment_clock_note(ec_store *s, int64_t by_ns, int is_pause, ea_err *err) {
    uint64_t before = 0, open = 0;
    int rc = ec_store_open_segment(s, 0, &before, err);
    if (!rc)
        rc = ec_store_open_segment(s, 1, &open, err);
    /* an open one that holds nothing stays open, and is none of those before */
    return rc ? rc
              : ec_db_run(s,
                          ec_db_bind(s, EC_ST_ADD_CLOCK_STEP, "iii", (int64_t)(open == before ? before - 1 : before),
                                     (int64_t)is_pause, by_ns),
                          "note a step of the clock", err);
}

static int segment_clock_look_back(ec_store *s, int64_t now_ns, ea_err *err) {
    int64_t seen_ns = 0;
    int rc =
        ec_db_number(s, ec_db_statement(s, EC_ST_FIND_CLOCK_SEEN), "look when the store was used last", &seen_ns, err);
    if (rc <= 0)
        return rc;
    int64_t pause_ns = now_ns - seen_ns;
    return pause_ns < -STEP_S * S_TO_NS || pause_ns > PAUSE_S * S_TO_NS ? segment_clock_note(s, pause_ns, 1, err) : 0;
}

int ec_segment_clock_look(ec_store *s, ea_err *err) {
    int64_t now_ns = ea_utc_ns(), mono_ns = ea_monotonic_ns(), rc = 0;
    if (!s->clock_mono_ns) {
        if ((rc = segment_clock_look_back(s, now_ns, err)) < 0)
            return (int)rc;
        s->clock_utc_ns = now_ns;
        s->clock_mono_ns = mono_ns;
    }
    int64_t by_ns = (now_ns - s->clock_utc_ns) - (mono_ns - s->clock_mono_ns);
    int stepped = by_ns > STEP_S * S_TO_NS || by_ns < -STEP_S * S_TO_NS;
    if (stepped) {
        if ((rc = segment_clock_note(s, by_ns, 0, err)) < 0)
            return (int)rc;
        s->clock_utc_ns = now_ns;
        s->clock_mono_ns = mono_ns;
    }
    if (!s->seen_mono_ns || stepped || mono_ns - s->seen_mono_ns > SEEN_S * S_TO_NS) {
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_SET_CLOCK_SEEN, "i", now_ns), "note when the store was used", err);
        if (rc < 0)
            return (int)rc;
        s->seen_mono_ns = mono_ns;
    }
    return 0;
}

int ec_segment_clock_wall_ns(ec_store *s, uint64_t segment, int64_t allowed_ns, int64_t *ret_ns, ea_err *err) {
    int64_t moved_ns = 0;
    int rc = ec_db_number(s, ec_db_bind(s, EC_ST_SUM_CLOCK_STEPS, "ii", (int64_t)segment, allowed_ns),
                          "look how the clock was set", &moved_ns, err);
    if (rc < 0)
        return rc;
    *ret_ns = ea_utc_ns() - moved_ns;
    return 0;
}
