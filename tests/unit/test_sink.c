/* Sinks without a receiver: the order of batches, what retention removes, places that move, and what an answer to _bulk
 * says. tests/e2e/test_sinks.py has the rest. */

/* Promises (tests/promises.py --write puts them into docs/verification/promises.md):
 * - Delivery 24: Of events that retention removes before a sink has sent them, each is counted. | counts of a sink add
 *   up to what the store ever had | 2026-11-28 */

#include "collector/metrics/metrics.h"
#include "collector/sink/outbox.h"
#include "collector/sink/sink_kinds.h"
#include "collector/sink/sink_process.h"
#include "collector/sink/sink_turns.h"
#include "collector/state/state_db.h"
#include "tests/unit/store_rig.h"

static const char SINK[] = "x";

/* Five batches of one agent, and one of another after the second: a segment each. Events: 3, 4, 3, 5, 6, 7. */
static void fill_store(fixture *f) {
    test_batch sent[SENT], other;
    test_maker m;
    make_all(sent, SENT);
    test_maker_init(&m, 9);
    test_make(&m, 1, 3, 0, &other);
    test_maker_deinit(&m);
    f->segment_bytes = 1;
    open_store(f);
    for (size_t i = 0; i < SENT; i++) {
        assert_int_equal(append(f, "alpha", &sent[i]), EC_STORED);
        commit(f);
        if (i == 1) {
            assert_int_equal(append(f, "beta", &other), EC_STORED);
            commit(f);
        }
    }
    free_all(sent, SENT);
    free(other.data);
}

static void batches_come_as_they_arrived(void **state) {
    static const struct {
        const char *host;
        uint64_t number;
    } ORDER[] = {{"alpha", 1}, {"alpha", 2}, {"beta", 1}, {"alpha", 3}, {"alpha", 4}, {"alpha", 5}};

    fixture *f = *state;
    ec_outbox *o = NULL;
    ec_outbox_batch b;
    ec_sink_place place = {0}, end;
    fill_store(f);
    assert_int_equal(ec_outbox_open(&o, f->dir, &f->err), 0);
    for (size_t i = 0; i < sizeof ORDER / sizeof *ORDER; i++) {
        assert_int_equal(ec_outbox_next(o, &place, NULL, &b, &f->err), 1);
        assert_int_equal(ec_outbox_next(o, &place, NULL, &b, &f->err), 1); /* the same again */
        assert_string_equal(b.host, ORDER[i].host);
        assert_int_equal(b.row.number, ORDER[i].number);
        assert_int_equal(ec_outbox_has(o, &b, &f->err), 1);
        place = (ec_sink_place){b.row.segment, b.row.offset + 1, 0};
    }
    assert_int_equal(ec_outbox_next(o, &place, NULL, &b, &f->err), 0);
    place = (ec_sink_place){0}; /* moved back */
    assert_int_equal(ec_outbox_next(o, &place, NULL, &b, &f->err), 1);
    assert_int_equal(b.row.number, 1);
    assert_int_equal(ec_outbox_at(o, INT64_MIN, &place, &f->err), 0);
    assert_int_equal(place.segment, b.row.segment);
    assert_int_equal(ec_outbox_end(o, &end, &f->err), 0);
    assert_int_equal(ec_outbox_at(o, INT64_MAX, &place, &f->err), 0);
    assert_memory_equal(&place, &end, sizeof end);
    assert_int_equal(ec_outbox_next(o, &end, NULL, &b, &f->err), 0);
    ec_outbox_close(o);
}

typedef struct arrivals {
    fixture *f;
    const test_batch *sent;
    int have_come;
} arrivals;

/* When a page was read, a batch comes to the last segment, and one to a segment after it. */
static int arrive(unsigned what, void *arg, void *statement, void *duration) {
    arrivals *a = arg;
    (void)what, (void)duration;
    if (a->have_come || !strstr(sqlite3_sql(statement), "JOIN streams s"))
        return 0;
    a->have_come = 1;
    assert_int_equal(append(a->f, "alpha", &a->sent[1]), EC_STORED);
    commit(a->f);
    close_store(a->f);
    a->f->segment_bytes = 1;
    open_store(a->f);
    assert_int_equal(append(a->f, "alpha", &a->sent[2]), EC_STORED);
    commit(a->f);
    return 0;
}

static void a_segment_that_ends_meanwhile_is_read_to_its_end(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    arrivals a = {.f = f, .sent = sent};
    ec_outbox *o = NULL;
    ec_outbox_batch b;
    ec_sink_place place = {0};
    make_all(sent, SENT);
    open_store(f);
    assert_int_equal(append(f, "alpha", &sent[0]), EC_STORED);
    commit(f);
    assert_int_equal(ec_outbox_open(&o, f->dir, &f->err), 0);
    assert_int_equal(ec_outbox_next(o, &place, NULL, &b, &f->err), 1);
    sqlite3_trace_v2(ec_store_database(ec_outbox_store(o)), SQLITE_TRACE_PROFILE, arrive, &a);
    for (uint64_t number = 2; number <= 3; number++) {
        place = (ec_sink_place){b.row.segment, b.row.offset + 1, 0};
        int rc = ec_outbox_next(o, &place, NULL, &b, &f->err);
        if (!rc)
            rc = ec_outbox_next(o, &place, NULL, &b, &f->err);
        assert_int_equal(rc, 1);
        assert_int_equal(b.row.number, number);
    }
    assert_int_equal(a.have_come, 1);
    assert_int_equal(ask_index(f, "SELECT count(DISTINCT segment) FROM batches"), 2);
    ec_outbox_close(o);
    free_all(sent, SENT);
}

typedef struct pages {
    int count, sorts;
} pages;

static int count_page(unsigned what, void *arg, void *statement, void *duration) {
    pages *p = arg;
    (void)what, (void)duration;
    if (strstr(sqlite3_sql(statement), "JOIN streams s")) {
        p->count++;
        p->sorts += sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_SORT, 0);
    }
    return 0;
}

/* A look for arrivals begins at its place: it does not go through the segment, which may have 100,000 batches. */
static void a_page_needs_no_sort_of_its_segment(void **state) {
    fixture *f = *state;
    test_batch sent[SENT];
    ec_outbox *o = NULL;
    ec_outbox_batch b;
    ec_sink_place place = {0};
    pages p = {0};
    make_all(sent, SENT);
    open_store(f);
    for (size_t i = 0; i < SENT; i++)
        assert_int_equal(append(f, "alpha", &sent[i]), EC_STORED);
    commit(f);
    assert_int_equal(ec_outbox_open(&o, f->dir, &f->err), 0);
    sqlite3_trace_v2(ec_store_database(ec_outbox_store(o)), SQLITE_TRACE_PROFILE, count_page, &p);
    while (ec_outbox_next(o, &place, NULL, &b, &f->err) == 1)
        place = (ec_sink_place){b.row.segment, b.row.offset + 1, 0};
    assert_int_equal(b.row.number, SENT);
    assert_int_equal(p.count, 3); /* none of segment 0, all, no more */
    assert_int_equal(p.sorts, 0);
    ec_outbox_close(o);
    free_all(sent, SENT);
}

typedef struct books {
    fixture *f;
    ec_outbox *outbox;
    ec_sinks *sinks;
    uint64_t removed; /* as it was reported */
} books;

static void on_removed(void *arg, const char *host, const char *stream, uint64_t events) {
    books *b = arg;
    assert_true(strcmp(host, "alpha") == 0 || strcmp(host, "beta") == 0);
    assert_int_equal(strlen(stream), 2 * EA_STREAM_ID_BYTES);
    b->removed += events;
}

static void audit(books *b, ec_sink_place place, int is_new, enum ec_sink_fate fate) {
    const ec_outbox_audit a = {.outbox = b->outbox,
                               .sinks = b->sinks,
                               .sink = SINK,
                               .places = {.place = place},
                               .fate = fate,
                               .is_new = is_new,
                               .on_removed = on_removed,
                               .arg = b};
    assert_int_equal(ec_sinks_begin(b->sinks, &b->f->err), 0);
    assert_int_equal(ec_outbox_run_audit(&a, &b->f->err), 0);
    assert_int_equal(ec_sinks_commit(b->sinks, &b->f->err), 0);
}

typedef struct sums {
    int64_t before;
    uint64_t counts[EC_SINK_FATE_COUNT], stored, waiting;
} sums;

static int add_stream(const ec_sink_stream *s, void *arg) {
    sums *t = arg;
    t->before += s->before;
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        t->counts[i] += s->counts[i];
    return 0;
}

static int add_waiting(const ec_outbox_stream *s, void *arg) {
    sums *t = arg;
    t->stored += s->event_count;
    t->waiting += s->waiting_events;
    return 0;
}

/* The sums of all streams; every event is in one of them. */
static sums sum(books *b, ec_sink_place place) {
    sums t = {0};
    int64_t all = 0;
    assert_int_equal(ec_sinks_each_stream(b->sinks, SINK, add_stream, &t, &b->f->err), 0);
    assert_int_equal(ec_outbox_measure(b->outbox, &(ec_outbox_places){.place = place}, add_waiting, &t, &b->f->err), 0);
    for (int i = 0; i < EC_SINK_FATE_COUNT; i++)
        all += (int64_t)t.counts[i];
    assert_int_equal(all + t.before + (int64_t)t.waiting, t.stored);
    return t;
}

static void removed_events_are_counted(void **state) {
    fixture *f = *state;
    books b = {.f = f};
    ec_outbox_batch batch;
    ec_sink_place place = {0};
    uint64_t counts[EC_SINK_FATE_COUNT] = {[EC_SINK_sent] = 3};
    fill_store(f);
    assert_int_equal(ec_outbox_open(&b.outbox, f->dir, &f->err), 0);
    assert_int_equal(ec_sinks_open(&b.sinks, f->dir, 1, &f->err), 0);
    audit(&b, place, 1, EC_SINK_removed);
    assert_int_equal(sum(&b, place).waiting, 28);

    /* the first batch, and two events of the second, are sent */
    assert_int_equal(ec_outbox_next(b.outbox, &place, NULL, &batch, &f->err), 1);
    assert_int_equal(ec_sinks_count(b.sinks, SINK, batch.host, batch.stream, counts, &f->err), 0);
    place = (ec_sink_place){batch.row.segment, batch.row.offset + 1, 0};
    assert_int_equal(ec_outbox_next(b.outbox, &place, NULL, &batch, &f->err), 1);
    counts[EC_SINK_sent] = 2;
    assert_int_equal(ec_sinks_count(b.sinks, SINK, batch.host, batch.stream, counts, &f->err), 0);
    place = (ec_sink_place){batch.row.segment, batch.row.offset, 2};
    audit(&b, place, 0, EC_SINK_removed);
    assert_int_equal(sum(&b, place).waiting, 23);
    assert_int_equal(b.removed, 0);

    /* retention takes what was sent: nothing is lost to the sink; then what waited */
    for (int64_t left; (left = ask_index(f, "SELECT count(*) FROM batches")) > 3;) {
        ec_store_size size;
        assert_int_equal(ec_store_measure(f->store, &size, &f->err), 0);
        retain_all(f, &(ec_retention){.bytes = size.segment_bytes + size.index_bytes - 1});
        audit(&b, place, 0, EC_SINK_removed);
        sums t = sum(&b, place);
        assert_int_equal(t.counts[EC_SINK_removed], b.removed);
        assert_int_equal(t.counts[EC_SINK_sent], 5);
        assert_int_equal(t.waiting + b.removed, 23);
        if (left == 6)
            assert_int_equal(b.removed, 0);
    }
    assert_int_equal(b.removed, 2 + 3); /* the rest of alpha's second batch, and beta's */
    assert_int_equal(ec_outbox_has(b.outbox, &batch, &f->err), 0);
    assert_int_equal(ec_outbox_next(b.outbox, &place, NULL, &batch, &f->err), 1);
    assert_int_equal(batch.row.number, 3);

    /* what is skipped, and what is sent again */
    place = (ec_sink_place){batch.row.segment, batch.row.offset + 1, 0};
    audit(&b, place, 0, EC_SINK_skipped);
    assert_int_equal(sum(&b, place).counts[EC_SINK_skipped], 5);
    audit(&b, (ec_sink_place){0}, 0, EC_SINK_FATE_COUNT);
    sums t = sum(&b, (ec_sink_place){0});
    assert_int_equal(t.counts[EC_SINK_skipped], 5);
    assert_int_equal(t.counts[EC_SINK_removed], 5);
    assert_int_equal(t.waiting, 18);
    audit(&b, (ec_sink_place){0}, 0, EC_SINK_removed);
    assert_int_equal(sum(&b, (ec_sink_place){0}).counts[EC_SINK_removed], 5);

    /* metrics: a line for each number; what waits has come just now */
    static const char *const LINES[] = {"etwcollector_sink_events_total{sink=\"x\",fate=\"removed\"} 5\n",
                                        "etwcollector_sink_events_total{sink=\"x\",fate=\"skipped\"} 5\n",
                                        "etwcollector_sink_requests_total{sink=\"x\"} 7\n",
                                        "etwcollector_sink_retried_rows_total{sink=\"x\"} 8\n",
                                        "etwcollector_sink_redacted_values_total{sink=\"x\"} 6\n",
                                        "etwcollector_sink_running{sink=\"x\"} 0\n",
                                        "etwcollector_sink_last_sent_timestamp_seconds{sink=\"x\"} 9.500\n"};
    ec_sink_row row = {
        .name = "x", .request_count = 7, .retried_count = 8, .redacted_count = 6, .sent_utc_ns = 9500000000};
    ea_text text;
    ea_text_init(&text);
    assert_int_equal(ec_sinks_put(b.sinks, &row, &f->err), 0);
    assert_int_equal(ec_metrics_text(f->dir, &f->counters, 1, 0, &text, &f->err), 0);
    for (size_t i = 0; i < sizeof LINES / sizeof *LINES; i++)
        assert_non_null(strstr(text.data, LINES[i]));
    static const char LAG[] = "\netwcollector_sink_lag_seconds{sink=\"x\"} ";
    assert_non_null(strstr(text.data, LAG));
    double lag_s = strtod(strstr(text.data, LAG) + sizeof LAG - 1, NULL);
    assert_true(lag_s > 0 && lag_s < 600);
    assert_int_equal(ec_outbox_end(b.outbox, &row.place, &f->err), 0);
    assert_int_equal(ec_sinks_put(b.sinks, &row, &f->err), 0);
    ea_text_clear(&text);
    struct ea_file *lock = NULL;
    assert_int_equal(ec_sinks_lock(&lock, f->dir, SINK, &f->err), 0);
    assert_int_equal(ec_metrics_text(f->dir, &f->counters, 1, 0, &text, &f->err), 0);
    ea_file_close(lock);
    assert_non_null(strstr(text.data, "etwcollector_sink_running{sink=\"x\"} 1\n"));
    assert_int_equal(ec_sinks_is_locked(f->dir, SINK), 0);
    assert_int_equal(strtod(strstr(text.data, LAG) + sizeof LAG - 1, NULL) == 0, 1);

    /* an agent that is apart has what is stored of it from its place on; the others have nothing */
    const ec_sink_apart apart = {.host = "alpha"}, other = {.host = "beta"};
    ec_sink_apart *found = NULL;
    size_t found_count = 0;
    assert_int_equal(ec_sinks_put_apart(b.sinks, SINK, &apart, &f->err), 0);
    t = (sums){0};
    assert_int_equal(ec_outbox_measure(b.outbox, &(ec_outbox_places){row.place, &apart, 1}, add_waiting, &t, &f->err),
                     0);
    assert_int_equal(t.waiting,
                     ask_index(f, "SELECT sum(batches.event_count) FROM batches JOIN streams USING(stream_id)"
                                  " WHERE agent = 'alpha'"));
    assert_true(t.waiting > 0);
    for (place = (ec_sink_place){0}; ec_outbox_next(b.outbox, &place, "alpha", &batch, &f->err) == 1; place.offset++) {
        assert_string_equal(batch.host, "alpha");
        place = (ec_sink_place){batch.row.segment, batch.row.offset, 0};
        t.waiting -= batch.row.event_count;
    }
    assert_int_equal(t.waiting, 0);
    ea_text_clear(&text);
    assert_int_equal(ec_metrics_text(f->dir, &f->counters, 1, 0, &text, &f->err), 0);
    static const char APART_LAG[] = "\netwcollector_sink_apart_lag_seconds{sink=\"x\"} ";
    assert_non_null(strstr(text.data, "etwcollector_sink_agents_apart{sink=\"x\"} 1\n"));
    assert_true(strtod(strstr(text.data, APART_LAG) + sizeof APART_LAG - 1, NULL) > 0);
    ea_text_deinit(&text);

    /* a host is forgotten, and what names it */
    snprintf(row.refusal, sizeof row.refusal, "beta/0/1/0: status 400");
    snprintf(row.error, sizeof row.error, "the receiver accepts nothing and refuses rows, such as %s", row.refusal);
    assert_int_equal(ec_sinks_put(b.sinks, &row, &f->err), 0);
    assert_int_equal(ec_sinks_put_apart(b.sinks, SINK, &other, &f->err), 0);
    assert_int_equal(ec_sinks_forget(f->dir, "beta", NULL, &f->err), 0);
    assert_int_equal(ec_sinks_find(b.sinks, "x", &row, &f->err), 1);
    assert_string_equal(row.refusal, "");
    assert_string_equal(row.error, "");
    assert_int_equal(row.request_count, 7);
    assert_int_equal(row.redacted_count, 6);
    t = (sums){0};
    assert_int_equal(ec_sinks_each_stream(b.sinks, SINK, add_stream, &t, &f->err), 0);
    assert_int_equal(t.counts[EC_SINK_removed], 2);
    assert_int_equal(ec_sinks_read_apart(b.sinks, SINK, &found, &found_count, &f->err), 0);
    assert_int_equal(found_count, 1);
    assert_string_equal(found[0].host, "alpha");
    free(found);
    ec_sinks_close(b.sinks);
    ec_outbox_close(b.outbox);
}

/* Ten agents share requests, two are apart. Each of these has a twelfth of the time, whatever its turns take, and at
 * most about one turn between two shared requests; time that was not wanted gives nothing later. */
static void turns_are_fair(void **state) {
    fixture *f = *state;
    ec_sink_turns t;
    int64_t used_ns[3] = {0}, now_ns = 1;
    size_t since = 0, most = 0;
    assert_int_equal(ec_sink_turns_init(&t, 2000, 1, &f->err), 0);
    assert_ptr_equal(ec_sink_turns_choose(&t, now_ns), &t.all);
    assert_non_null(ec_sink_turns_add(&t, "a", &(ec_sink_place){0}));
    assert_non_null(ec_sink_turns_add(&t, "b", &(ec_sink_place){0}));
    for (int i = 0; i < 100; i++) { /* the others have nothing */
        t.now = ec_sink_turns_choose(&t, now_ns);
        if (t.now == &t.all)
            ec_sink_turns_quiet(&t);
        else
            ec_sink_turns_charge(&t, 1000000, 1);
    }
    for (int i = 0; i < 12000; i++) {
        t.now = ec_sink_turns_choose(&t, now_ns);
        int which = t.now == &t.all ? 0 : strcmp(t.now->own.host, "a") == 0 ? 1 : 2;
        int64_t took_ns = which == 1 ? 5000000 : 1000000;
        ec_sink_turns_charge(&t, took_ns, which ? 1 : 10);
        used_ns[which] += took_ns;
        since = which ? since + 1 : 0;
        most = since > most ? since : most;
    }
    for (int i = 1; i < 3; i++)
        assert_true(used_ns[i] * 10 < used_ns[0] * 11 / 10 && used_ns[i] * 10 > used_ns[0] * 9 / 10);
    assert_true(most <= 6); /* b has five of its turns for one of a's */
    assert_int_equal(ec_sink_turns_find(&t, "a")->rows_max, 2000);

    /* an agent apart that waited has nothing of that time later */
    ec_sink_turns_find(&t, "a")->not_before_ns = 2;
    for (int i = 0; i < 1000; i++) {
        t.now = ec_sink_turns_choose(&t, 1);
        assert_string_not_equal(t.now->own.host, "a");
        ec_sink_turns_charge(&t, 1000000, 1);
    }
    since = 0;
    for (int i = 0; i < 30; i++) {
        t.now = ec_sink_turns_choose(&t, 2);
        since += strcmp(t.now->own.host, "a") == 0;
        ec_sink_turns_charge(&t, 1000000, 1);
    }
    assert_in_range(since, 9, 12);

    t.now = ec_sink_turns_find(&t, "a");
    ec_sink_turns_charge(&t, INT64_C(2000000000), 1);
    assert_int_equal(t.now->rows_max, 1000);
    t.apart[0].not_before_ns = t.apart[1].not_before_ns = 100;
    ec_sink_turns_quiet(&t);
    assert_null(ec_sink_turns_choose(&t, 99));
    assert_non_null(ec_sink_turns_choose(&t, 100));
    for (size_t i = t.count; i < EC_TURNS_MAX; i++)
        assert_non_null(ec_sink_turns_add(&t, "c", &(ec_sink_place){0}));
    assert_null(ec_sink_turns_add(&t, "d", &(ec_sink_place){0}));
    ec_sink_turns_deinit(&t);
}

static void names_are_checked(void **state) {
    fixture *f = *state;
    ec_sinks *s = NULL;
    ec_sink_row row;
    static const char *const BAD[] = {
        "", ".x", "a/b", "a b", "\xc3\xa4", "..", "0123456789012345678901234567890123456789012345678901234567890123x"};
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_int_equal(ec_sinks_check_name(BAD[i], &f->err), EA_EUSAGE);
    assert_int_equal(ec_sinks_check_name("es-1.a_B", &f->err), 0);
    assert_int_equal(ec_sinks_open(&s, f->dir, 0, &f->err), 0); /* no file: no sinks */
    assert_int_equal(ec_sinks_find(s, "x", &row, &f->err), 0);
    ec_sinks_close(s);
    assert_int_equal(ec_sinks_forget(f->dir, "a", NULL, &f->err), 0);
}

/* ---- processes ---- */

static void run_sql(sqlite3 *db, const char *sql) {
    if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK)
        fail_msg("%s: %s", sql, sqlite3_errmsg(db));
}

static const char *name_at(fixture *f, ec_sink_process *p, int64_t utc_ns) {
    const char *name = "?";
    assert_int_equal(ec_sink_process_name(p, 8, utc_ns, &name, &f->err), 0);
    return name;
}

static void add_process(sqlite3 *db, int begin_utc_ns, int end_utc_ns, const char *name) {
    char sql[256];
    snprintf(
        sql, sizeof sql,
        "INSERT INTO processes VALUES(1, %d, %d, %d, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, '%s', '', '', '', '', '', 0, 0,"
        " 0)",
        begin_utc_ns, begin_utc_ns, end_utc_ns, name);
    run_sql(db, sql);
}

/* A pid of no process costs one look in a batch, not one an event. */
static void processes_that_are_unknown_are_looked_for_once(void **state) {
    fixture *f = *state;
    ec_state_db *tables = NULL;
    ec_sink_process *p = NULL;
    const ec_outbox_batch batch = {.host = "alpha", .row = {.number = 1}};
    open_store(f);
    assert_int_equal(ec_state_db_open(&tables, f->dir, 1, &f->err), 0);
    sqlite3 *db = ec_state_db_database(tables);
    run_sql(db, "INSERT INTO streams VALUES(1, 'alpha', zeroblob(16), 1, 1, 1, 0, 0, 3, 0, 1000)");
    add_process(db, 100, 200, "first.exe");
    add_process(db, 500, 600, "second.exe");
    assert_int_equal(ec_sink_process_open(&p, f->dir, &f->err), 0);
    assert_int_equal(ec_sink_process_begin(p, &batch, &f->err), 1);
    assert_null(name_at(f, p, 300));
    add_process(db, 250, 450, "late.exe");
    assert_null(name_at(f, p, 301)); /* known already */
    assert_null(name_at(f, p, 499));
    assert_null(name_at(f, p, 200));
    assert_string_equal(name_at(f, p, 199), "first.exe");
    assert_string_equal(name_at(f, p, 500), "second.exe");
    assert_null(name_at(f, p, 600));
    assert_null(name_at(f, p, INT64_MAX));
    assert_string_equal(name_at(f, p, 300), "late.exe"); /* another one was asked for in between */
    assert_null(name_at(f, p, 99));
    assert_null(name_at(f, p, INT64_MIN));
    ec_sink_process_close(p);
    ec_state_db_close(tables);
}

/* ---- answers ---- */

enum { ITEMS = 3 };

static int judge(ec_sink_judge *j, const char *answer, enum ec_sink_verdict *ret, ea_text *reason, ea_err *err) {
    ec_sink_item items[ITEMS] = {{0}}, *asked[ITEMS];
    for (size_t i = 0; i < ITEMS; i++)
        asked[i] = &items[i];
    ea_text_clear(reason);
    int rc = EC_SINK_KINDS[1]->judge(j, answer, strlen(answer), asked, ITEMS, reason, err);
    for (size_t i = 0; i < ITEMS; i++)
        ret[i] = items[i].verdict;
    return rc;
}

static void answers_of_bulk(void **state) {
    fixture *f = *state;
    ec_sink_judge *j = NULL;
    enum ec_sink_verdict v[ITEMS];
    ea_text reason, deep;
    ea_text_init(&reason);
    ea_text_init(&deep);
    assert_string_equal(EC_SINK_KIND_NAMES[1], "bulk");
    assert_int_equal(ec_sink_judge_open(&j, &f->err), 0);
    assert_int_equal(
        judge(j,
              "{\"errors\": true, \"items\": [{\"create\": {\"status\": 201}}, {\"create\": {\"status\": 409}},"
              " {\"create\": {\"status\": 429, \"error\": {\"type\": \"t\", \"reason\": \"busy\"}}}]}",
              v, &reason, &f->err),
        0);
    assert_int_equal(v[0], EC_VERDICT_ACCEPTED);
    assert_int_equal(v[1], EC_VERDICT_KNOWN);
    assert_int_equal(v[2], EC_VERDICT_WAITS);
    assert_string_equal(reason.data, "status 429: t: busy");
    assert_int_equal(judge(j,
                           "{\"items\": [{\"create\": {\"status\": 503}}, {\"create\": {\"status\": 400, \"error\":"
                           " {\"type\": \"m\", \"reason\": \"no date\"}}}, {\"create\": {\"status\": 403}}]}",
                           v, &reason, &f->err),
                     0);
    assert_int_equal(v[0], EC_VERDICT_WAITS);
    assert_int_equal(v[1], EC_VERDICT_REFUSED);
    assert_int_equal(v[2], EC_VERDICT_WAITS);
    assert_string_equal(reason.data, "status 400: m: no date"); /* what is final */

    /* answers that say nothing of the rows change nothing */
    static const char *const BAD[] = {
        "",
        "x",
        "{}",
        "[]",
        "{\"items\": 1}",
        "{\"items\": []}",
        "{\"items\": [{\"create\": {\"status\": 201}}, {\"create\": {\"status\": 201}}]}",
        "{\"items\": [{\"create\": {\"status\": 201}}, {\"create\": {\"status\": 201}}, {\"create\": {\"status\": "
        "201}},"
        " {\"create\": {\"status\": 201}}]}",
        "{\"items\": [{\"create\": {\"status\": 201}}, {\"create\": {\"status\": \"201\"}}, {\"create\": {\"status\": "
        "1}}]}",
        "{\"items\": [{\"create\": {\"status\": 201}}, 7, null]}",
        "{\"items\": [{\"index\": {\"status\": 201}}, {\"create\": {\"status\": 201}}, {\"create\": {\"status\": "
        "201}}]}",
        "{\"items\": {\"a\": {\"create\": {\"status\": 201}}, \"b\": {\"create\": {\"status\": 201}}, \"c\": "
        "{\"create\":"
        " {\"status\": 201}}}}",
        "{\"items\": [{\"create\": {\"status\": 201}}, {\"create\": {\"status\": 201}}, {\"create\": {\"status\": "
        "201}}",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        int rc = judge(j, BAD[i], v, &reason, &f->err);
        if (rc != EA_EFORMAT)
            fail_msg("%s: %d", BAD[i], rc);
        assert_int_equal(reason.len_bytes, 0);
        for (size_t k = 0; k < ITEMS; k++)
            assert_int_equal(v[k], EC_VERDICT_WAITS);
    }
    for (int i = 0; i < 100000; i++)
        ea_text_str(&deep, "{\"items\": [");
    assert_int_equal(judge(j, deep.data, v, &reason, &f->err), EA_EFORMAT);
    ea_text_deinit(&deep);
    ea_text_deinit(&reason);
    ec_sink_judge_close(j);
}

static void bodies(void **state) {
#define ROW_BEGIN "{\"row\":\"a\\\"/s/1/0\",\"process\":\"\\\"time\\\":\\\"1\\\"\","
#define ROW_END   "\"time\":\"2020-01-01T00:00:00.0000000Z\",\"pid\":1}"
    static const char ROW[] = ROW_BEGIN ROW_END;
    ec_sink_item item = {.len_bytes = sizeof ROW - 1,
                         .id_bytes = sizeof "\"a\\\"/s/1/0\"" - 1,
                         .time_offset = sizeof ROW_BEGIN - 1},
                 *items[] = {&item};
    ea_text t;
    (void)state;
    ea_text_init(&t);
    EC_SINK_KINDS[0]->body(&t, ROW, items, 1, NULL);
    assert_string_equal(t.data, ROW_BEGIN ROW_END "\n");
    ea_text_clear(&t);
    EC_SINK_KINDS[1]->body(&t, ROW, items, 1, NULL);
    EC_SINK_KINDS[1]->body(&t, ROW, items, 1, "logs-\"x");
    assert_non_null(strstr(t.data, "{\"create\":{\"_id\":\"a\\\"/s/1/0\"}}\n"
                                   "{\"@timestamp\":\"2020-01-01T00:00:00.0000000Z\",\"row\":\"a\\\"/s/1/0\","));
    assert_non_null(strstr(t.data, "\"pid\":1}\n{\"create\":{\"_index\":\"logs-\\\"x\",\"_id\":\"a\\\"/s/1/0\"}}\n"));
    ea_text_deinit(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(batches_come_as_they_arrived, setup, teardown),
        cmocka_unit_test_setup_teardown(a_segment_that_ends_meanwhile_is_read_to_its_end, setup, teardown),
        cmocka_unit_test_setup_teardown(a_page_needs_no_sort_of_its_segment, setup, teardown),
        cmocka_unit_test_setup_teardown(removed_events_are_counted, setup, teardown),
        cmocka_unit_test_setup_teardown(turns_are_fair, setup, teardown),
        cmocka_unit_test_setup_teardown(names_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(processes_that_are_unknown_are_looked_for_once, setup, teardown),
        cmocka_unit_test_setup_teardown(answers_of_bulk, setup, teardown),
        cmocka_unit_test(bodies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
