/* The collector's check of agents' ledgers, and the metrics for Prometheus: each kind of alert with its numbers,
 * families, holes, tombstones, the limits, and the same result whether or not the ledger was closed and reopened in
 * between. */
#include "collector/metrics/metrics.h"
#include "tests/unit/ledger_kit.h"

static void a_sound_stream(void **state) {
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        start(&f, (uint8_t)(1 + reopen));
        f.reopen = reopen;
        TAKE(&f, 1, 10, {"", C(events_delivered), 10}, {"", C(events_batched), 10}, {"", C(events_compressing), 10});
        TAKE(&f, 2, 10, {"", C(events_delivered), 25}, {"", C(events_batched), 20}, {"", C(events_dropped_full), 2},
             {"", C(events_pending), 3}, {"", C(events_compressing), 10}, {"", C(events_unanswered), 10});
        TAKE(&f, 3, 10, {"", C(events_delivered), 32}, {"", C(events_batched), 30}, {"", C(events_dropped_full), 2},
             {"", C(events_compressing), 10}, {"", C(events_acknowledged), 20});
        assert_int_equal(alerts(&f), 0);
        assert_int_equal(f.alert_count, 0);
        assert_int_equal(ask(&f, "SELECT count(*) FROM ledger_batches WHERE stream = ?1"), 3);
        assert_int_equal(ask(&f, "SELECT stored_count FROM ledger_batches WHERE stream = ?1 AND number = 3"), 20);
        /* levels that were not named are 0 again: pending after batch 3, unanswered too */
        assert_int_equal(ask(&f, "SELECT value FROM ledger_counts WHERE stream = ?1 AND counter = 9 AND number = 3"),
                         0);
        assert_int_equal(ask(&f, "SELECT value FROM ledger_counts WHERE stream = ?1 AND counter = 13 AND number = 3"),
                         0);
        /* what did not change is not written again */
        assert_int_equal(ask(&f, "SELECT count(*) FROM ledger_counts WHERE stream = ?1 AND counter = 6"), 1);
        finish(&f);
    }
}

static void an_imbalance_is_reported_once(void **state) {
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        start(&f, (uint8_t)(3 + reopen));
        f.reopen = reopen;
        TAKE(&f, 1, 10, {"", C(events_delivered), 17}, {"", C(events_batched), 10}, {"", C(events_compressing), 10});
        one_alert(&f, EC_ALERT_DELIVERED, "", 1, 17, 10);
        assert_non_null(strstr(f.alert_text, "pc-1: batch 1: 17 events were delivered, 10 are accounted for"));
        TAKE(&f, 2, 10, {"", C(events_delivered), 27}, {"", C(events_batched), 20}, {"", C(events_compressing), 20});
        assert_int_equal(alerts(&f), 1); /* it persists */
        TAKE(&f, 3, 10, {"", C(events_delivered), 30}, {"", C(events_batched), 30}, {"", C(events_compressing), 30});
        TAKE(&f, 4, 10, {"", C(events_delivered), 40}, {"", C(events_batched), 40}, {"", C(events_compressing), 39});
        one_alert(&f, EC_ALERT_BATCHED, "", 4, 40, 39);
        /* 40 are in batches, 30 arrived before this batch, and 38 are acknowledged according to the agent */
        TAKE(&f, 5, 10, {"", C(events_delivered), 50}, {"", C(events_batched), 50}, {"", C(events_acknowledged), 41},
             {"", C(events_compressing), 9});
        one_alert(&f, EC_ALERT_STORED, "", 5, 40, 41);
        assert_int_equal(alerts(&f), 3);
        finish(&f);
    }
}

static void counters_go_forward(void **state) {
    (void)state;
    fixture f;
    start(&f, 5);
    TAKE(&f, 1, 10, {"", C(events_delivered), 10}, {"", C(events_batched), 10}, {"", C(events_compressing), 10});
    TAKE(&f, 2, 0, {"", C(events_delivered), 8}, {"", C(events_batched), 8}, {"", C(events_compressing), 8});
    assert_int_equal(ask(&f, "SELECT count(*) FROM alerts WHERE stream = ?1 AND kind = 4"), 1); /* a row a batch */
    assert_int_equal(ask(&f, "SELECT right_count FROM alerts WHERE stream = ?1 AND kind = 4"), 8);
    assert_int_equal(f.alert_count, 2); /* delivered and batched */
    f.incarnation = 2;
    TAKE(&f, 3, 3, {"", C(events_delivered), 3}, {"", C(events_batched), 3}, {"", C(events_compressing), 3});
    assert_int_equal(f.alert_count, 2);
    finish(&f);
}

static void families(void **state) {
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        start(&f, (uint8_t)(6 + reopen));
        f.reopen = reopen;
        TAKE(&f, 1, 10, {"", C(events_delivered), 10}, {"", C(events_batched), 10}, {"", C(events_compressing), 10},
             {"process", C(events_delivered), 4}, {"process", C(events_batched), 4},
             {"process", C(events_compressing), 4}, {"thread", C(events_delivered), 6},
             {"thread", C(events_batched), 6}, {"thread", C(events_compressing), 6});
        /* only threads changed; of them nothing is being compressed any more */
        TAKE(&f, 2, 2, {"", C(events_delivered), 12}, {"", C(events_batched), 12}, {"", C(events_compressing), 4},
             {"", C(events_acknowledged), 8}, {"thread", C(events_delivered), 8}, {"thread", C(events_batched), 8},
             {"thread", C(events_acknowledged), 8});
        assert_int_equal(alerts(&f), 0);
        assert_int_equal(
            ask(&f,
                "SELECT value FROM ledger_counts WHERE stream = ?1 AND family = 'thread' AND counter = 11 AND number "
                "= 2"),
            0);
        assert_int_equal(ask(&f, "SELECT count(*) FROM ledger_counts WHERE stream = ?1 AND family = 'process'"), 3);
        /* in all it adds up; the two families do not */
        TAKE(&f, 3, 2, {"", C(events_delivered), 14}, {"", C(events_batched), 14}, {"", C(events_compressing), 6},
             {"", C(events_acknowledged), 8}, {"process", C(events_delivered), 5}, {"process", C(events_batched), 6},
             {"process", C(events_compressing), 6}, {"thread", C(events_delivered), 9},
             {"thread", C(events_batched), 8}, {"thread", C(events_acknowledged), 8});
        one_alert(&f, EC_ALERT_DELIVERED, "process", 3, 5, 6);
        one_alert(&f, EC_ALERT_DELIVERED, "thread", 3, 9, 8);
        assert_int_equal(alerts(&f), 2);
        TAKE(&f, 4, 1, {"", C(events_delivered), 15}, {"", C(events_batched), 15}, {"", C(events_compressing), 7},
             {"", C(events_acknowledged), 8}, {"process", C(events_delivered), 6}, {"process", C(events_batched), 7},
             {"process", C(events_compressing), 7});
        assert_int_equal(alerts(&f), 2);
        /* A new run of the agent: a family without a reported value is at 0, not at its last value of the earlier
         * run. */
        f.incarnation = 9;
        TAKE(&f, 5, 2, {"", C(events_delivered), 2}, {"", C(events_batched), 2}, {"", C(events_compressing), 2},
             {"thread", C(events_delivered), 2}, {"thread", C(events_batched), 2},
             {"thread", C(events_compressing), 2});
        assert_int_equal(
            ask(&f, "SELECT sum(value) FROM ledger_counts WHERE stream = ?1 AND family = 'process' AND number = 5"), 0);
        assert_int_equal(alerts(&f), 2);
        finish(&f);
    }
}

static void holes_and_tombstones(void **state) {
    (void)state;
    fixture f;
    start(&f, 8);
    TAKE(&f, 1, 10, {"", C(events_delivered), 10}, {"", C(events_batched), 10}, {"", C(events_compressing), 10});
    /* 2 and 3 have not come: they held what went into batches meanwhile */
    TAKE(&f, 4, 10, {"", C(events_delivered), 57}, {"", C(events_batched), 57}, {"", C(events_compressing), 57});
    assert_int_equal(ask(&f, "SELECT event_count FROM gaps WHERE stream = ?1 AND first = 2 AND last = 3"), 37);
    assert_int_equal(ask(&f, "SELECT cause FROM gaps WHERE stream = ?1 AND first = 2"), EC_GAP_MISSING);
    /* A hole before the first number of another run of the agent: its count of events is unknown. */
    f.incarnation = 2;
    TAKE(&f, 6, 5, {"", C(events_delivered), 90}, {"", C(events_batched), 90}, {"", C(events_compressing), 90});
    assert_int_equal(ask(&f, "SELECT batch_count FROM gaps WHERE stream = ?1 AND first = 5"), 1);
    assert_int_equal(ask(&f, "SELECT event_count FROM gaps WHERE stream = ?1 AND first = 5"), -1); /* NULL */
    /* A tombstone has the count itself. Its events are not part of a hole that follows it. */
    ea_tombstone t = {.first = 7, .last = 9, .cause = 15, .event_count = 30, .utc_min_ns = 700, .utc_max_ns = 999};
    size_t n;
    uint8_t *data = pack(&f, NULL, 0, &t, &n);
    take_bytes(&f, 7, 0, data, n);
    free(data);
    assert_int_equal(ask(&f, "SELECT event_count FROM gaps WHERE stream = ?1 AND first = 7 AND cause = 15"), 30);
    f.fold.position = 9; /* the tombstone covers them */
    TAKE(&f, 11, 5, {"", C(events_delivered), 130}, {"", C(events_batched), 130}, {"", C(events_compressing), 100},
         {"", C(events_evicted_size), 30});
    assert_int_equal(ask(&f, "SELECT event_count FROM gaps WHERE stream = ?1 AND first = 10"), 5);
    assert_int_equal(alerts(&f), 0);
    finish(&f);
}

/* A batch's turn with what its session says. */
static void turn(fixture *f, uint64_t number, uint32_t events, int64_t begin, int64_t end,
                 const ec_session_facts *facts, const pair *pairs, size_t count) {
    size_t n;
    uint8_t *data = pack(f, pairs, count, NULL, &n);
    ec_batch_row row = {.number = number, .event_count = events, .begin_utc_ns = begin, .end_utc_ns = end};
    if (f->reopen) {
        ec_ledger_close(f->ledger);
        must(ec_ledger_open(&f->ledger, f->tables, &f->fold, &err));
    }
    must(ec_ledger_take(f->ledger, &f->fold, &row, data, n, number - f->fold.position - 1, facts, on_alert, f, &err));
    free(data);
    f->fold.position = number;
    f->fold.batch_count++;
    f->fold.event_count += events;
    if (events && f->fold.begin_utc_ns == INT64_MIN)
        f->fold.begin_utc_ns = begin;
    if (events && end > f->fold.end_utc_ns)
        f->fold.end_utc_ns = end;
    must(ec_state_db_set_fold(f->tables, &f->fold, &err)); /* the view reads the stream's time */
}

/* The period of the row of a first batch and a cause; -1: NULL. */
static void period(const fixture *f, uint64_t first, uint32_t cause, int64_t begin, int64_t end) {
    char sql[200];
    for (int i = 0; i < 2; i++) {
        snprintf(sql, sizeof sql,
                 "SELECT %s FROM gap_periods WHERE stream = ?1 AND first = %" PRIu64 " AND cause = %" PRIu32,
                 i ? "end_utc_ns" : "begin_utc_ns", first, cause);
        assert_int_equal(ask(f, sql), i ? end : begin);
    }
}

/* Batches that are missing: from the last event before them to the first after them, at each edge of a stream. */
static void times_of_missing_batches(void **state) {
    const ec_session_facts session = {.begin_utc_ns = 500}, unknown = {.begin_utc_ns = INT64_MIN};
    const pair made[] = {{"", C(events_batched), 7}, {"", C(events_compressing), 7}};
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        start(&f, (uint8_t)(30 + reopen));
        f.reopen = reopen;
        /* the first ones: from the session's begin */
        turn(&f, 4, 10, 1000, 1100, &session, NULL, 0);
        period(&f, 1, EC_GAP_MISSING, 500, 1000);
        turn(&f, 6, 10, 1300, 1400, &session, NULL, 0);
        period(&f, 5, EC_GAP_MISSING, 1100, 1300);
        /* events that overlap those before the hole: all of the overlap */
        turn(&f, 8, 10, 1350, 1500, &session, NULL, 0);
        period(&f, 7, EC_GAP_MISSING, 1350, 1400);
        /* nothing but an empty batch follows: no end, until an event comes */
        turn(&f, 10, 0, 0, 0, NULL, NULL, 0);
        period(&f, 9, EC_GAP_MISSING, 1500, -1);
        turn(&f, 11, 0, 0, 0, NULL, NULL, 0);
        period(&f, 9, EC_GAP_MISSING, 1500, -1);
        turn(&f, 12, 1, 1700, 1800, &session, NULL, 0);
        period(&f, 9, EC_GAP_MISSING, 1500, 1700);
        period(&f, 1, EC_GAP_MISSING, 500, 1000); /* those that had an end keep it */
        period(&f, 5, EC_GAP_MISSING, 1100, 1300);
        period(&f, 7, EC_GAP_MISSING, 1350, 1400);
        finish(&f);
        /* all are missing but an empty one: neither end is known, until an event comes */
        start(&f, (uint8_t)(32 + reopen));
        f.reopen = reopen;
        turn(&f, 3, 0, 0, 0, NULL, made, 2);
        assert_int_equal(ask(&f, "SELECT end_utc_ns FROM gap_periods WHERE stream = ?1"), -1);
        turn(&f, 4, 5, 900, 950, &session, NULL, 0);
        period(&f, 1, EC_GAP_MISSING, 500, 900);
        finish(&f);
        /* a session whose clock says nothing: the first event */
        start(&f, (uint8_t)(34 + reopen));
        f.reopen = reopen;
        turn(&f, 2, 5, 900, 950, &unknown, NULL, 0);
        period(&f, 1, EC_GAP_MISSING, 900, 900);
        finish(&f);
    }
}

/* Times of counted losses: the times of the records that report the losses; otherwise the time since the previous
 * ledger (a live session), or any time (a file). */
static void times_of_losses(void **state) {
    const ec_session_facts file = {.begin_utc_ns = 500}, live = {.begin_utc_ns = 500, .is_live = 1};
    const uint32_t events = number_of(C(source_events_lost)), buffers = number_of(C(source_buffers_lost));
    const pair lost[] = {{"", C(source_events_lost), 7}, {"", C(source_buffers_lost), 2}};
    const pair none[] = {{"", C(keyframes_written), 1}}, three[] = {{"", C(source_events_lost), 3}};
    const pair five[] = {{"", C(source_events_lost), 5}}, nine[] = {{"", C(source_events_lost), 9}};
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        ec_lost_record r = {.cause = EC_GAP_LOST_EVENT, .count = 1, .begin_utc_ns = 1150, .end_utc_ns = 1180};
        start(&f, (uint8_t)(36 + reopen));
        f.reopen = reopen;
        turn(&f, 1, 10, 1000, 1100, &file, lost, 2);
        period(&f, 1, events, 1000, 1100);
        turn(&f, 2, 10, 1100, 1200, &file, lost, 2);
        period(&f, 1, events, 1000, 1200); /* all of the file, as far as it is here */
        must(ec_ledger_take_lost(f.ledger, &r, 1, &err));
        period(&f, 1, events, 1150, 1180);
        period(&f, 1, buffers, 1000, 1200);
        turn(&f, 3, 10, 1200, 1300, &file, lost, 2);
        r.begin_utc_ns = 1250, r.end_utc_ns = 1260;
        must(ec_ledger_take_lost(f.ledger, &r, 1, &err));
        period(&f, 1, events, 1150, 1260);
        assert_int_equal(ask(&f, "SELECT record_count FROM gap_periods WHERE stream = ?1 AND cause = 30"), 2);
        assert_int_equal(ask(&f, "SELECT least_count FROM gap_periods WHERE stream = ?1 AND cause = 30"), 7);
        assert_int_equal(ask(&f, "SELECT least_count FROM gap_periods WHERE stream = ?1 AND cause = 31"), 0);
        assert_int_equal(ask(&f, "SELECT counted FROM gap_periods WHERE stream = ?1 AND cause = 31"), 2);
        /* another run of the agent takes the replay up again: it finds the same losses, which were lost once */
        f.incarnation = 2;
        turn(&f, 4, 10, 1300, 1400, &file, three, 1);
        turn(&f, 5, 10, 1400, 1500, &file, lost, 1);
        assert_int_equal(ask(&f, "SELECT count(*) FROM gap_periods WHERE stream = ?1 AND cause = 30"), 1);
        finish(&f);

        start(&f, (uint8_t)(38 + reopen));
        f.reopen = reopen;
        turn(&f, 1, 10, 1000, 1100, &live, none, 1);
        turn(&f, 2, 10, 1100, 1200, &live, five, 1);
        period(&f, 2, events, 1100, 1200); /* since the ledger before */
        turn(&f, 3, 10, 1200, 1300, &live, five, 1);
        r.begin_utc_ns = 1210, r.end_utc_ns = 1220;
        must(ec_ledger_take_lost(f.ledger, &r, 1, &err));
        turn(&f, 4, 10, 1300, 1400, &live, nine, 1);
        period(&f, 4, events, 1210, 1220); /* the record came before this count, and is its */
        if (!reopen)
            period(&f, 2, events, 1100, 1200);
        assert_int_equal(ask(&f, "SELECT counted FROM gap_periods WHERE stream = ?1 AND first = 4 AND cause = 30"), 4);
        finish(&f);
    }
}

/* Which counted losses are of all of a file's time: those of which its header or index says all at once. The others are
 * of the batch that counts them, as all are of a session that runs. */
static void losses_of_a_file(void **state) {
    static const enum ea_counter AT_ONCE[] = {C(source_events_lost), C(source_buffers_lost), C(source_bad_buffers),
                                              C(source_bad_bytes)};

    const ec_session_facts file = {.begin_utc_ns = 500}, live = {.begin_utc_ns = 500, .is_live = 1};
    unsigned at_once_count = 0, counted_count = 0;
    (void)state;
    for (int is_live = 0; is_live < 2; is_live++)
        for (enum ea_counter c = 0; c < EA_COUNTER_COUNT; c++) {
            if (!ec_gap_is_counted(c))
                continue;
            fixture f;
            const pair none[] = {{"", C(keyframes_written), 1}}, lost[] = {{"", c, 7}};
            const ec_session_facts *facts = is_live ? &live : &file;
            int is_at_once = 0;
            for (size_t i = 0; i < sizeof AT_ONCE / sizeof *AT_ONCE; i++)
                is_at_once |= !is_live && AT_ONCE[i] == c;
            start(&f, (uint8_t)(100 + 2 * c + is_live));
            turn(&f, 1, 10, 1000, 1100, facts, none, 1);
            turn(&f, 2, 10, 1100, 1200, facts, lost, 1);
            turn(&f, 3, 10, 1200, 1300, facts, lost, 1);
            period(&f, 2, number_of(c), is_at_once ? 1000 : 1100, is_at_once ? 1300 : 1200);
            finish(&f);
            at_once_count += (unsigned)is_at_once;
            counted_count++;
        }
    assert_int_equal(at_once_count, sizeof AT_ONCE / sizeof *AT_ONCE);
    assert_true(counted_count > 2 * at_once_count);
}

/* A record of a loss may have been in a batch that is missing: the counted loss may be of that time, too. */
static void losses_in_missing_batches(void **state) {
    const ec_session_facts file = {.begin_utc_ns = 500}, live = {.begin_utc_ns = 500, .is_live = 1};
    const uint32_t events = number_of(C(source_events_lost));
    const pair none[] = {{"", C(keyframes_written), 1}}, five[] = {{"", C(source_events_lost), 5}};
    const pair six[] = {{"", C(source_events_lost), 6}}, seven[] = {{"", C(source_events_lost), 7}};
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        ec_lost_record r = {.cause = EC_GAP_LOST_EVENT, .count = 1, .begin_utc_ns = 1050, .end_utc_ns = 1060};
        start(&f, (uint8_t)(60 + reopen));
        f.reopen = reopen;
        turn(&f, 4, 10, 1000, 1100, &file, five, 1);
        must(ec_ledger_take_lost(f.ledger, &r, 1, &err));
        period(&f, 4, events, 500, 1060);
        turn(&f, 5, 10, 1100, 1200, &file, five, 1);
        period(&f, 4, events, 500, 1060);
        turn(&f, 7, 10, 1400, 1500, &file, five, 1);
        period(&f, 4, events, 500, 1400);
        turn(&f, 9, 0, 0, 0, &file, NULL, 0); /* its end is not known before an event comes */
        period(&f, 4, events, 500, -1);
        turn(&f, 10, 1, 1700, 1800, &file, five, 1);
        period(&f, 4, events, 500, 1700);
        r.begin_utc_ns = 1710, r.end_utc_ns = 1720;
        must(ec_ledger_take_lost(f.ledger, &r, 1, &err));
        period(&f, 4, events, 500, 1720);
        finish(&f);

        start(&f, (uint8_t)(62 + reopen)); /* a live session: what was lost since the count before */
        f.reopen = reopen;
        turn(&f, 1, 10, 1000, 1100, &live, none, 1);
        turn(&f, 3, 10, 1200, 1300, &live, five, 1);
        r.begin_utc_ns = 1210, r.end_utc_ns = 1220;
        must(ec_ledger_take_lost(f.ledger, &r, 1, &err));
        period(&f, 3, events, 1100, 1220);
        turn(&f, 4, 10, 1300, 1400, &live, six, 1);
        r.begin_utc_ns = 1310, r.end_utc_ns = 1320;
        must(ec_ledger_take_lost(f.ledger, &r, 1, &err));
        period(&f, 4, events, 1310, 1320);
        turn(&f, 6, 10, 1600, 1700, &live, six, 1);
        period(&f, 4, events, 1310, 1320);
        r.begin_utc_ns = 1610, r.end_utc_ns = 1620;
        must(ec_ledger_take_lost(f.ledger, &r, 1, &err));
        period(&f, 4, events, 1310, 1620);     /* those since its count, and none from before it */
        turn(&f, 8, 0, 0, 0, &live, seven, 1); /* the closing batch: 7 is missing, and nothing says when it ended */
        period(&f, 4, events, 1310, 1320);
        period(&f, 8, events, 1610, -1);
        turn(&f, 9, 10, 2000, 2100, &live, seven, 1);
        period(&f, 8, events, 1610, 2000);
        finish(&f);

        start(&f, (uint8_t)(86 + reopen)); /* the count is in the closing batch, those before it are missing */
        f.reopen = reopen;
        r.begin_utc_ns = 1050, r.end_utc_ns = 1060;
        turn(&f, 1, 10, 1000, 1100, &file, none, 1);
        must(ec_ledger_take_lost(f.ledger, &r, 1, &err));
        turn(&f, 4, 0, 0, 0, &file, five, 1);
        period(&f, 4, events, 1050, -1);
        turn(&f, 5, 10, 1500, 1600, &file, five, 1);
        period(&f, 4, events, 1050, 1500);
        finish(&f);

        start(&f, (uint8_t)(88 + reopen)); /* of a live session it is since the count before it */
        f.reopen = reopen;
        turn(&f, 1, 10, 1000, 1100, &live, none, 1);
        turn(&f, 2, 0, 0, 0, &live, five, 1);
        period(&f, 2, events, 1100, -1);
        finish(&f);
    }
}

/* A count of a file's header, of which no record says when: it is of all of the file, also of what its first batches
 * held. */
static void losses_before_the_first_batch(void **state) {
    const ec_session_facts file = {.begin_utc_ns = 500}, unknown = {.begin_utc_ns = INT64_MIN};
    const uint32_t buffers = number_of(C(source_buffers_lost));
    const pair two[] = {{"", C(source_buffers_lost), 2}};
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        start(&f, (uint8_t)(64 + reopen));
        f.reopen = reopen;
        turn(&f, 4, 10, 1000, 1100, &file, two, 1);
        period(&f, 4, buffers, 500, 1100);
        turn(&f, 6, 10, 1200, 1300, &file, two, 1); /* a later hole is within the stream's time */
        period(&f, 4, buffers, 500, 1300);
        finish(&f);

        start(&f, (uint8_t)(66 + reopen)); /* the hole's begin is not known */
        f.reopen = reopen;
        turn(&f, 4, 10, 1000, 1100, &unknown, two, 1);
        period(&f, 4, buffers, -1, 1100);
        finish(&f);

        start(&f, (uint8_t)(68 + reopen)); /* the first batch is here */
        f.reopen = reopen;
        turn(&f, 1, 10, 1000, 1100, &file, two, 1);
        turn(&f, 3, 10, 1300, 1400, &file, two, 1);
        period(&f, 1, buffers, 1000, 1400);
        finish(&f);

        start(&f, (uint8_t)(70 + reopen)); /* the agent evicted the first batches, and says of which time they were */
        ea_tombstone t = {.first = 1, .last = 3, .cause = 15, .event_count = 30, .utc_min_ns = 300, .utc_max_ns = 900};
        size_t n;
        uint8_t *data = pack(&f, NULL, 0, &t, &n);
        take_bytes(&f, 4, 0, data, n);
        free(data);
        f.reopen = reopen;
        turn(&f, 5, 10, 1000, 1100, &file, two, 1);
        period(&f, 5, buffers, 300, 1100);
        finish(&f);
    }
}

/* The same where the last batches are missing: the count has no end as long as theirs is unknown. */
static void losses_after_the_last_batch(void **state) {
    const ec_session_facts file = {.begin_utc_ns = 500};
    const uint32_t buffers = number_of(C(source_buffers_lost));
    const pair two[] = {{"", C(source_buffers_lost), 2}};
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        start(&f, (uint8_t)(80 + reopen));
        f.reopen = reopen;
        turn(&f, 1, 10, 1000, 1100, &file, two, 1);
        period(&f, 1, buffers, 1000, 1100);
        turn(&f, 4, 0, 0, 0, NULL, two, 1); /* the closing batch: 2 and 3 are missing, and no event is after them */
        period(&f, 2, EC_GAP_MISSING, 1100, -1);
        period(&f, 1, buffers, 1000, -1);
        turn(&f, 5, 10, 1500, 1600, &file, two, 1); /* the session went on */
        period(&f, 2, EC_GAP_MISSING, 1100, 1500);
        period(&f, 1, buffers, 1000, 1600);
        finish(&f);

        start(&f, (uint8_t)(82 + reopen)); /* the agent evicted the last batches, and says of which time they were */
        f.reopen = reopen;
        turn(&f, 1, 10, 1000, 1100, &file, two, 1);
        ea_tombstone t = {
            .first = 2, .last = 3, .cause = 15, .event_count = 30, .utc_min_ns = 1150, .utc_max_ns = 1900};
        size_t n;
        uint8_t *data = pack(&f, NULL, 0, &t, &n);
        take_bytes(&f, 2, 0, data, n);
        free(data);
        period(&f, 1, buffers, 1000, 1900);
        finish(&f);
    }
}

/* A hole beside batches that a tombstone names does not have their numbers. */
static void holes_beside_tombstones(void **state) {
    const ec_session_facts file = {.begin_utc_ns = 500};
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        start(&f, (uint8_t)(84 + reopen));
        f.reopen = reopen;
        turn(&f, 1, 10, 1000, 1100, &file, NULL, 0);
        ea_tombstone t = {
            .first = 2, .last = 3, .cause = 15, .event_count = 30, .utc_min_ns = 1150, .utc_max_ns = 1190};
        size_t n;
        uint8_t *data = pack(&f, NULL, 0, &t, &n);
        take_bytes(&f, 2, 0, data, n);
        free(data);
        turn(&f, 5, 10, 1500, 1600, &file, NULL, 0); /* 4 has not come */
        assert_int_equal(ask(&f, "SELECT group_concat(first || '-' || last) = '2-3,4-4' FROM gaps WHERE stream = ?1"),
                         1);
        t = (ea_tombstone){
            .first = 7, .last = 8, .cause = 15, .event_count = 30, .utc_min_ns = 1650, .utc_max_ns = 1690};
        data = pack(&f, NULL, 0, &t, &n);
        take_bytes(&f, 8, 0, data, n); /* under the last of the numbers: 6 has not come */
        free(data);
        assert_int_equal(ask(&f, "SELECT last FROM gaps WHERE stream = ?1 AND first = 6"), 6);
        /* 9 to 108 are named by a tombstone each, and 120 to 219; 109 to 119 have not come */
        ask(&f, "WITH RECURSIVE n(k) AS (SELECT 9 UNION ALL SELECT k + 1 FROM n WHERE k < 219) INSERT INTO gaps"
                " SELECT ?1, k, k, 15, 0, 1, 1, 1, 0, 0, 1700, 1701 FROM n WHERE k NOT BETWEEN 109 AND 119");
        turn(&f, 220, 10, 1800, 1900, &file, NULL, 0);
        assert_int_equal(ask(&f, "SELECT first FROM gaps WHERE stream = ?1 AND first > 8 AND cause <> 15"), 109);
        assert_int_equal(ask(&f, "SELECT last FROM gaps WHERE stream = ?1 AND first > 8 AND cause <> 15"), 119);
        finish(&f);
    }
}

/* The third equation, with events that other collectors may have, and with an unknown number of such events. */
static void what_is_elsewhere_is_judged(void **state) {
    const uint64_t values[EA_COUNTER_COUNT] = {[C(events_acknowledged)] = 100};
    (void)state;
    assert_int_equal(ec_ledger_is_stored(100, 0, values), EC_HOLDS);
    assert_int_equal(ec_ledger_is_stored(99, 0, values), EC_FAILS);
    assert_int_equal(ec_ledger_is_stored(60, 40, values), EC_HOLDS);
    assert_int_equal(ec_ledger_is_stored(60, 39, values), EC_FAILS);
    assert_int_equal(ec_ledger_is_stored(60, UINT64_MAX, values), EC_UNKNOWN);
    assert_int_equal(ec_ledger_is_stored(100, UINT64_MAX, values), EC_HOLDS);
}

/* The value of a sample, by its beginning; -1: there is none. */
static double sample(const ea_text *t, const char *what) {
    for (const char *at = t->data; (at = strstr(at, what)); at++)
        if (at == t->data || at[-1] == '\n')
            return strtod(strrchr(what, '}') ? at + strlen(what) : strchr(at, ' '), NULL);
    return -1;
}

/* The numbers of an agent may be larger than on any real machine, and their sum may exceed 64 bits. They are stored and
 * published nevertheless; otherwise they would block the numbers of all other agents. */
static void numbers_that_no_machine_has(void **state) {
    const uint64_t MOST = (uint64_t)3 << 61; /* twice that is beyond 63 bits */
    ea_counters counters = {0};
    ea_text t;
    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        size_t n;
        start(&f, (uint8_t)(16 + reopen));
        f.reopen = reopen;
        TAKE(&f, 2, 0, {"", C(events_batched), MOST}, {"", C(events_acknowledged), 1}, {"", C(collector_moves), 1});
        TAKE(&f, 4, 0, {"", C(events_batched), 2 * MOST}, {"", C(events_acknowledged), UINT64_MAX},
             {"", C(collector_moves), 1});
        assert_int_equal(ask(&f, "SELECT count(*) FROM gaps WHERE stream = ?1 AND event_count = (1 << 40) - 1"), 2);
        one_alert(&f, EC_ALERT_STORED, "", 4, 0, UINT64_MAX);
        ea_tombstone t5 = {.first = 5, .last = EA_BATCH_MAX_NUMBER, .cause = 15, .event_count = UINT64_MAX};
        uint8_t *data = pack(&f, NULL, 0, &t5, &n);
        take_bytes(&f, 5, 0, data, n);
        free(data);
        assert_int_equal(ask(&f, "SELECT event_count FROM gaps WHERE stream = ?1 AND first = 5"), EC_GAP_COUNT_MAX);
        finish(&f);
    }
    ea_text_init(&t);
    must(ec_metrics_text(scratch_path("store"), &counters, 8, 0, &t, &err));
    assert_true(sample(&t, "etwcollector_ledger_balanced{host=\"pc-1\",stream=\"10101010101010101010101010101010\","
                           "equation=\"stored\"}") == 0);
    ea_text_deinit(&t);
}

static void unreadable(void **state) {
    (void)state;
    fixture f;
    static pair many[PAIRS_MAX];
    start(&f, 9);
    /* a field 14 (the ledger) that is no message */
    const uint8_t bad[] = {14 << 3 | 2, 3, 0xff, 0xff, 0xff};
    take_bytes(&f, 1, 1, bad, sizeof bad);
    one_alert(&f, EC_ALERT_UNREADABLE, "", 1, 0, 0);
    /* more counters than anybody keeps */
    for (size_t i = 0; i < PAIRS_MAX; i++)
        many[i] = (pair){"", (enum ea_counter)(100000 + i), 1 + i};
    size_t n;
    uint8_t *data = pack(&f, many, PAIRS_MAX, NULL, &n);
    take_bytes(&f, 2, 1, data, n);
    free(data);
    assert_int_equal(ask(&f, "SELECT count(*) FROM alerts WHERE stream = ?1 AND kind = 5 AND number = 2"), 1);
    assert_int_equal(ask(&f, "SELECT count(*) FROM ledger_counts WHERE stream = ?1"), 2048);
    finish(&f);
}

/* What contradicts itself anywhere is reported, and nothing of it is taken; the batch's events are none the worse. */
static void half_unreadable(void **state) {
    (void)state;
    fixture f;
    start(&f, 18);
    TAKE(&f, 1, 4, {"", C(events_delivered), 4}, {"", C(events_batched), 4}, {"", C(events_compressing), 4});
    /* valid numbers, and after them a family with two counters and one value */
    const uint8_t half[] = {14 << 3 | 2, 18, 0x0a, 1, 1, 0x12, 1, 5, 0x2a, 10, 0x0a, 1, 'p', 0x12, 2, 1, 2, 0x1a, 1, 1};
    take_bytes(&f, 2, 1, half, sizeof half);
    one_alert(&f, EC_ALERT_UNREADABLE, "", 2, 0, 0);
    assert_int_equal(alerts(&f), 1);
    assert_int_equal(ask(&f, "SELECT count(*) FROM ledger_counts WHERE stream = ?1 AND number = 2"), 0);
    TAKE(&f, 3, 5, {"", C(events_delivered), 10}, {"", C(events_batched), 10}, {"", C(events_compressing), 10});
    assert_int_equal(alerts(&f), 1);
    finish(&f);
}

/* The equations of the first 128 families are checked. The counters of further families are stored nevertheless. */
static void families_that_are_checked_are_bounded(void **state) {
    enum { FAMILIES = 140, CHECKED = 128 };

    (void)state;
    for (int reopen = 0; reopen < 2; reopen++) {
        fixture f;
        char names[FAMILIES][8];
        pair pairs[3 + 3 * FAMILIES];
        size_t n = 0, len_bytes;
        start(&f, (uint8_t)(13 + reopen));
        f.reopen = reopen;
        for (uint64_t number = 1; number <= 2; number++) {
            const uint64_t events = FAMILIES * number;
            n = 0;
            pairs[n++] = (pair){"", C(events_delivered), events};
            pairs[n++] = (pair){"", C(events_batched), events};
            pairs[n++] = (pair){"", C(events_compressing), events};
            for (int i = 0; i < FAMILIES; i++) {
                snprintf(names[i], sizeof names[i], "f%03d", i);
                pairs[n++] = (pair){names[i], C(events_delivered), number + (number == 2)}; /* one too many */
                pairs[n++] = (pair){names[i], C(events_batched), number};
                pairs[n++] = (pair){names[i], C(events_compressing), number};
            }
            uint8_t *data = pack(&f, pairs, n, NULL, &len_bytes);
            take_bytes(&f, number, FAMILIES, data, len_bytes);
            free(data);
        }
        assert_int_equal(ask(&f, "SELECT count(*) FROM alerts WHERE stream = ?1 AND kind = 1 AND number = 2"), CHECKED);
        assert_int_equal(alerts(&f), CHECKED);
        one_alert(&f, EC_ALERT_DELIVERED, "f127", 2, 3, 2);
        assert_int_equal(ask(&f, "SELECT count(*) FROM alerts WHERE stream = ?1 AND family >= 'f128'"), 0);
        assert_int_equal(ask(&f, "SELECT count(DISTINCT family) FROM ledger_counts WHERE stream = ?1"), FAMILIES + 1);
        finish(&f);
    }
}

static void alerts_are_bounded(void **state) {
    (void)state;
    fixture f;
    ea_counters counters = {0};
    ea_text t;
    start(&f, 10);
    TAKE(&f, 1, 1, {"", C(events_delivered), 1}, {"", C(events_batched), 1}, {"", C(events_compressing), 1});
    for (uint64_t i = 1; i <= 12000; i++)
        must(ec_ledger_alert(f.ledger, i, "", EC_ALERT_KEYFRAME, 0, 1, 2, "x", &err));
    assert_int_equal(alerts(&f), 10000);
    assert_int_equal(ask(&f, "SELECT max(number) FROM alerts WHERE stream = ?1"), 10000);
    ec_ledger_close(f.ledger); /* those of the database count after a restart, too */
    must(ec_ledger_open(&f.ledger, f.tables, &f.fold, &err));
    must(ec_ledger_alert(f.ledger, 12001, "", EC_ALERT_KEYFRAME, 0, 1, 2, "x", &err));
    assert_int_equal(alerts(&f), 10000);
    finish(&f);
    ea_text_init(&t);
    must(ec_metrics_text(scratch_path("store"), &counters, 1, 0, &t, &err));
    assert_true(sample(&t, "etwcollector_ledger_alerts{host=\"pc-1\",stream=\"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a\"}") ==
                10000);
    ea_text_deinit(&t);
}

/* How many lines begin so. */
static size_t samples(const ea_text *t, const char *what) {
    size_t count = 0;
    for (const char *at = t->data; (at = strstr(at, what)); at++)
        count += at == t->data || at[-1] == '\n';
    return count;
}

/* The sums of the first 64 families of a stream are published. The ledger stores the sums of all families. */
static void exposed_families_are_bounded(void **state) {
    enum { FAMILIES = 70, EXPOSED = 64 };

    (void)state;
    fixture f;
    char names[FAMILIES][8];
    pair pairs[FAMILIES];
    ea_counters counters = {0};
    ea_text t;
    size_t len_bytes;
    start(&f, 21);
    for (int i = 0; i < FAMILIES; i++) {
        snprintf(names[i], sizeof names[i], "f%03d", i);
        pairs[i] = (pair){names[i], C(events_delivered), 1};
    }
    uint8_t *data = pack(&f, pairs, FAMILIES, NULL, &len_bytes);
    take_bytes(&f, 1, 1, data, len_bytes);
    free(data);
    assert_int_equal(ask(&f, "SELECT count(DISTINCT family) FROM ledger_counts WHERE stream = ?1 AND family <> ''"),
                     FAMILIES);
    finish(&f);
    ea_text_init(&t);
    must(ec_metrics_text(scratch_path("store"), &counters, 1, 0, &t, &err));
    assert_int_equal(samples(&t, "etwagent_family_delivered_events_total{"), EXPOSED);
    assert_non_null(strstr(t.data, "family=\"f063\""));
    assert_null(strstr(t.data, "family=\"f064\""));
    ea_text_deinit(&t);
}

/* Of 260 streams, the 256 with the latest numbers are published. The others are counted. */
static void exposed_streams_are_bounded(void **state) {
    (void)state;
    ec_state_db *tables = NULL;
    ea_counters counters = {0};
    ea_text t;
    must(ec_state_db_open(&tables, scratch_path("store"), 1, &err));
    must(ec_state_db_begin(tables, &err));
    /* a stream's number is the second of its last numbers, but for the first three of all: they are the latest */
    run_sql(
        ec_state_db_database(tables),
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 260)"
        " INSERT INTO streams SELECT i, printf('pc-%03d', i), CAST(printf('stream-%09d', i) AS BLOB), 1, 1, 7, 0, 0, 0,"
        " 0, 0 FROM n");
    run_sql(ec_state_db_database(tables),
            "INSERT INTO ledger_batches(stream, number, incarnation, utc_ns, begin_utc_ns, end_utc_ns, stored_count)"
            " SELECT stream, 1, 1, CASE WHEN stream <= 3 THEN 1000 + stream ELSE stream END, 0, 0, 0 FROM streams");
    must(ec_state_db_commit(tables, &err));
    ec_state_db_close(tables);
    ea_text_init(&t);
    must(ec_metrics_text(scratch_path("store"), &counters, EC_METRICS_STREAMS, 0, &t, &err));
    assert_int_equal(samples(&t, "etwcollector_stored_events_total{"), 256);
    assert_int_equal(samples(&t, "etwagent_events_delivered_total{"), 256);
    assert_true(sample(&t, "etwcollector_ledger_streams_left_out ") == 4);
    static const char *const SILENT[] = {"004", "005", "006", "007"}, *const HEARD[] = {"001", "002", "003", "008",
                                                                                        "260"};
    char what[64];
    for (size_t i = 0; i < sizeof SILENT / sizeof *SILENT; i++) {
        snprintf(what, sizeof what, "{host=\"pc-%s\",stream=", SILENT[i]);
        assert_null(strstr(t.data, what));
        snprintf(what, sizeof what, "etwcollector_host_stored_events{host=\"pc-%s\"} 7\n",
                 SILENT[i]); /* sums have all */
        assert_non_null(strstr(t.data, what));
    }
    for (size_t i = 0; i < sizeof HEARD / sizeof *HEARD; i++) {
        snprintf(what, sizeof what, "etwcollector_stored_events_total{host=\"pc-%s\"", HEARD[i]);
        assert_int_equal(samples(&t, what), 1);
    }
    ea_text_deinit(&t);
}

/* Of 16,390 agents those are named that were heard last, 16,384 of them; the others are counted. */
static void exposed_agents_are_bounded(void **state) {
    (void)state;
    static const char NAME[] = "etwcollector_host_last_received_timestamp_seconds{host=\"";
    ec_state_db *tables = NULL;
    ec_store *store = NULL;
    ea_counters counters = {0};
    ea_text t;
    must(ec_store_open(&store, scratch_path("store"), &(ec_store_options){.writable = 1, .counters = &counters}, &err));
    /* each has two streams: it was heard with the later one */
    run_sql(
        ec_store_database(store),
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 32780)"
        " INSERT INTO streams SELECT i, printf('pc-%05d', (i + 1) / 2), CAST(printf('stream-%09d', i) AS BLOB), 'x', 1,"
        " 1, 1, 0, 0, 0, 1000000000 * (CASE WHEN i % 2 THEN 1 ELSE i END) FROM n");
    ec_store_close(store);
    must(ec_state_db_open(&tables, scratch_path("store"), 1, &err));
    ec_state_db_close(tables);
    ea_text_init(&t);
    must(ec_metrics_text(scratch_path("store"), &counters, EC_METRICS_STREAMS, 0, &t, &err));
    assert_int_equal(samples(&t, NAME), 16384);
    assert_true(sample(&t, "etwcollector_hosts ") == 16390);
    assert_true(sample(&t, "etwcollector_hosts_left_out ") == 6);
    assert_null(strstr(t.data, "\"pc-00006\""));
    assert_true(sample(&t, "etwcollector_host_last_received_timestamp_seconds{host=\"pc-00007\"}") == 14);
    assert_true(sample(&t, "etwcollector_host_last_received_timestamp_seconds{host=\"pc-16390\"}") == 32780);
    ea_text_deinit(&t);
}

static void metrics(void **state) {
    (void)state;
    fixture f;
    ea_counters counters = {0};
    ea_text t;
    start(&f, 11);
    TAKE(&f, 1, 10, {"", C(events_delivered), 13}, {"", C(events_batched), 10}, {"", C(events_compressing), 7},
         {"", C(events_evicted_age), 3}, {"odd\"fam\\ily", C(events_delivered), 3},
         {"odd\"fam\\ily", C(events_batched), 3}, {"odd\"fam\\ily", C(events_evicted_age), 3},
         {"process", C(events_delivered), 10}, {"process", C(events_batched), 7},
         {"process", C(events_compressing), 7});
    finish(&f);
    start(&f, 12);
    TAKE(&f, 1, 1, {"", C(events_delivered), 1}, {"", C(events_batched), 1}, {"", C(events_compressing), 1});
    finish(&f);
    ea_count(&counters, EA_COUNT_ingest_batches, 77);
    ea_text_init(&t);
    must(ec_metrics_text(scratch_path("store"), &counters, 8, 0, &t, &err));
#define LABELS(id) "{host=\"pc-1\",stream=\"" id "\""
#define ELEVEN     "0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"
    assert_true(sample(&t, "etwcollector_ingest_batches_total ") == 77);
    assert_true(sample(&t, "etwcollector_ledger_streams_left_out ") == 0);
    assert_true(sample(&t, "etwagent_events_delivered_total" LABELS(ELEVEN) "}") == 13);
    assert_true(sample(&t, "etwagent_events_compressing" LABELS(ELEVEN) "}") == 7);
    assert_true(sample(&t, "etwcollector_stored_events_total" LABELS(ELEVEN) "}") == 10);
    assert_true(sample(&t, "etwcollector_ledger_balanced" LABELS(ELEVEN) ",equation=\"delivered\"}") == 0);
    assert_true(sample(&t, "etwcollector_ledger_balanced" LABELS(ELEVEN) ",equation=\"batched\"}") == 1);
    assert_true(sample(&t, "etwcollector_ledger_alerts" LABELS(ELEVEN) "}") == 2);
    assert_true(sample(&t, "etwcollector_ledger_unbalanced_families" LABELS(ELEVEN) "}") == 1);
    assert_true(sample(&t, "etwagent_family_delivered_events_total" LABELS(ELEVEN) ",family=\"process\"}") == 10);
    assert_true(sample(&t, "etwagent_family_lost_events_total" LABELS(ELEVEN) ",family=\"odd\\\"fam\\\\ily\"}") == 3);
    assert_true(sample(&t, "etwagent_events_delivered_total" LABELS("0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c") "}") == 1);
    ea_text_clear(&t);
    must(ec_metrics_text(scratch_path("store"), &counters, 1, 0, &t, &err));
    assert_true(sample(&t, "etwcollector_ledger_streams_left_out ") == 1);
    ea_text_clear(&t);
    must(ec_metrics_text(scratch_path("nowhere"), &counters, 1, 0, &t, &err)); /* no tables yet */
    assert_true(sample(&t, "etwcollector_ingest_batches_total ") == 77);
    ea_text_deinit(&t);
}

static void names_of_alerts(void **state) {
    (void)state;
    assert_string_equal(ec_alert_name(0), "other");
    assert_string_equal(ec_alert_name(EC_ALERT_DELIVERED), "delivered");
    assert_string_equal(ec_alert_name(EC_ALERT_KEYFRAME), "keyframe");
    assert_string_equal(ec_alert_name(EC_ALERT_KEYFRAME + 1), "other");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        T(names_of_alerts),
        T(a_sound_stream),
        T(an_imbalance_is_reported_once),
        T(counters_go_forward),
        T(families),
        T(holes_and_tombstones),
        T(times_of_missing_batches),
        T(times_of_losses),
        T(losses_of_a_file),
        T(losses_in_missing_batches),
        T(losses_before_the_first_batch),
        T(losses_after_the_last_batch),
        T(holes_beside_tombstones),
        T(what_is_elsewhere_is_judged),
        T(numbers_that_no_machine_has),
        T(unreadable),
        T(half_unreadable),
        T(alerts_are_bounded),
        T(metrics),
        T(families_that_are_checked_are_bounded),
        T(exposed_streams_are_bounded),
        T(exposed_families_are_bounded),
        T(exposed_agents_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
