/* What a batch's sources say of their session: when it began, and whether it runs or is a file; and how many records of
 * losses are kept of a stream. */
#include "collector/state/gaps.h"
#include "service/batch/builder.h"
#include "tests/unit/machine_records.h"
#include "tests/unit/scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { SEQUENTIAL = 0x1, CIRCULAR = 0x2, NEW_FILE = 0x8, REAL_TIME = 0x100, SOURCES_MAX = 4, FREQUENCY = 10000000 };

typedef struct source {
    int clock;
    int64_t base_utc_ns;
    uint32_t log_file_mode;
} source;

static void must(int rc, const ea_err *err) {
    if (rc)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

/* A record of a batch: of LostEvent, or of a process that starts. */
typedef struct event {
    uint8_t opcode;
    uint16_t cpu;
    int64_t time;
} event;

enum { LOST_EVENT = 32, LOST_BUFFER = 33, LOST_FILE = 34 };

static void add_event(ea_builder *builder, ea_registry *registry, const event *e) {
    made_record r;
    if (e->opcode == OP_START) {
        process_record(&r, OP_START, e->time, 4, 0, 1, "a.exe", "");
    } else {
        begin_record(&r, 0x6a399ae0, e->opcode, 0, e->time);
        end_record(&r);
    }
    r.record.cpu = e->cpu;
    assert_true(ea_builder_add(builder, &r.record, ea_registry_find(registry, &r.record)) >= 0);
}

/* Calls look(view, arg) with a batch of these sources and events. */
static void with_batch(const source *from, size_t source_count, const event *events, size_t event_count,
                       void (*look)(ea_batch_view *view, void *arg), void *arg) {
    ea_wire_source sources[SOURCES_MAX];
    ea_err err = {0};
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    ea_batch_view *view = NULL;
    const uint8_t *data;
    size_t n;
    assert_true(source_count <= SOURCES_MAX);
    for (size_t i = 0; i < source_count; i++)
        sources[i] = (ea_wire_source){
            .name = "",
            .host = "MACHINE",
            .clock = {.type = from[i].clock, .frequency = FREQUENCY, .base_utc_ns = from[i].base_utc_ns},
            .pointer_size = 8,
            .cpu_count = 4,
            .log_file_mode = from[i].log_file_mode};
    ea_builder_options bo = {.sources = sources, .source_count = (uint32_t)source_count};
    ea_encoder_options eo = {.all_descriptions = 1, .stream = {1}};
    must(ea_registry_create(&registry, 0, &err), &err);
    must(ea_builder_create(&builder, &bo, &err), &err);
    must(ea_encoder_create(&encoder, &eo, &err), &err);
    for (size_t i = 0; i < event_count; i++)
        add_event(builder, registry, &events[i]);
    ea_open_batch *open = ea_builder_take(builder);
    assert_non_null(open);
    must(ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = 1}, &data, &n, &err), &err);
    must(ea_batch_open(&view, data, n, registry, &err), &err);
    assert_int_equal(ea_batch_source_count(view), source_count);
    look(view, arg);
    ea_batch_close(view);
    ea_open_batch_release(open);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
}

static void look_at_facts(ea_batch_view *view, void *arg) {
    ec_session_facts_of(view, arg);
}

/* The facts of a batch of one event that has these sources. */
static ec_session_facts facts_of(const source *from, size_t count) {
    const event one = {OP_START, 0, 1000};
    ec_session_facts facts;
    with_batch(from, count, &one, 1, look_at_facts, &facts);
    return facts;
}

#define FACTS(...) facts_of((const source[]){__VA_ARGS__}, sizeof((const source[]){__VA_ARGS__}) / sizeof(source))

/* The first of the clocks' beginnings. A time of 0 is none, and a clock of system time does not begin with its session.
 */
static void test_begin(void **state) {
    (void)state;
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, 0}).begin_utc_ns, 500);
    assert_int_equal(FACTS({EA_CLOCK_CPU_CYCLES, 1, 0}).begin_utc_ns, 1);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 0, 0}).begin_utc_ns, INT64_MIN);
    assert_int_equal(FACTS({EA_CLOCK_QPC, -500, 0}).begin_utc_ns, INT64_MIN);
    assert_int_equal(FACTS({EA_CLOCK_SYSTEM_TIME, 500, 0}).begin_utc_ns, INT64_MIN);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 700, 0}, {EA_CLOCK_QPC, 500, 0}, {EA_CLOCK_QPC, 600, 0}).begin_utc_ns, 500);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, 0}, {EA_CLOCK_QPC, 700, 0}).begin_utc_ns, 500);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 0, 0}, {EA_CLOCK_QPC, 700, 0}, {EA_CLOCK_SYSTEM_TIME, 1, 0}).begin_utc_ns,
                     700);
}

/* A session runs when it delivers its events, and writes them to no file. */
static void test_live(void **state) {
    (void)state;
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, REAL_TIME}).is_live, 1);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, 0}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, REAL_TIME | SEQUENTIAL}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, REAL_TIME | CIRCULAR}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, REAL_TIME | NEW_FILE}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, SEQUENTIAL}).is_live, 0);
    assert_int_equal(FACTS({EA_CLOCK_QPC, 500, SEQUENTIAL}, {EA_CLOCK_QPC, 500, REAL_TIME}).is_live, 1);
    assert_int_equal(FACTS({EA_CLOCK_SYSTEM_TIME, 500, REAL_TIME}, {EA_CLOCK_QPC, 500, 0}).is_live, 1);
}

/* ---- Windows' records of losses ---- */

typedef struct losses {
    ec_lost_record records[EC_LOST_RECORDS];
    size_t count, open;
} losses;

static void look_for_losses(ea_batch_view *view, void *arg) {
    losses *f = arg;
    ea_err err = {0};
    must(ec_lost_find(view, f->records, &f->count, &err), &err);
}

static void look_back(ea_batch_view *view, void *arg) {
    losses *f = arg;
    ea_err err = {0};
    must(ec_lost_look_back(view, f->records, f->count, &f->open, &err), &err);
}

/* The clock of these batches: 100 ns a tick, from the beginning of time. */
static const source PLAIN = {EA_CLOCK_QPC, 1, 0};

static int64_t at(int64_t time) {
    return 1 + 100 * time;
}

static void check_lost(const ec_lost_record *got, uint32_t cause, uint32_t count, uint16_t cpu, int64_t begin_utc_ns,
                       int64_t end_utc_ns) {
    assert_int_equal(got->cause, cause);
    assert_int_equal(got->count, count);
    assert_int_equal(got->cpu, cpu);
    assert_int_equal(got->begin_utc_ns, begin_utc_ns);
    assert_int_equal(got->end_utc_ns, end_utc_ns);
}

/* A record's time begins with the last event of its CPU before it. Nothing follows from the others. */
static void test_lost(void **state) {
    static const event EVENTS[] = {
        {OP_START, 0, 10},       {OP_START, 1, 20},   {LOST_EVENT, 0, 30}, /* since 10 */
        {LOST_BUFFER, 1, 40},                                              /* since 20 */
        {LOST_FILE, 2, 50},                                                /* the first of its CPU */
        {LOST_EVENT, 0, 45},                                               /* since the record at 30 */
        {OP_START, 0, 60},       {LOST_EVENT, 0, 55},                      /* late */
        {LOST_EVENT, 0, 58},     /* later than the one before it, and late beside the event at 60 */
        {LOST_EVENT, 0, 70},     /* since 60 */
        {LOST_BUFFER, 65535, 80} /* the last CPU that can be */
    };

    static const event NONE[] = {{OP_START, 0, 10}, {OP_START, 1, 20}, {OP_START, 0, 30}};
    losses f = {.count = 1};
    (void)state;
    with_batch(&PLAIN, 1, EVENTS, sizeof EVENTS / sizeof *EVENTS, look_for_losses, &f);
    assert_int_equal(f.count, 8);
    check_lost(&f.records[0], EC_GAP_LOST_EVENT, 1, 0, at(10), at(30));
    check_lost(&f.records[1], EC_GAP_LOST_BUFFER, 1, 1, at(20), at(40));
    check_lost(&f.records[2], EC_GAP_LOST_FILE, 1, 2, INT64_MIN, at(50));
    check_lost(&f.records[3], EC_GAP_LOST_EVENT, 1, 0, at(30), at(45));
    check_lost(&f.records[4], EC_GAP_LOST_EVENT, 1, 0, at(55), at(55));
    check_lost(&f.records[5], EC_GAP_LOST_EVENT, 1, 0, at(58), at(58));
    check_lost(&f.records[6], EC_GAP_LOST_EVENT, 1, 0, at(60), at(70));
    check_lost(&f.records[7], EC_GAP_LOST_BUFFER, 1, 65535, INT64_MIN, at(80));
    with_batch(&PLAIN, 1, NONE, sizeof NONE / sizeof *NONE, look_for_losses, &f);
    assert_int_equal(f.count, 0);
}

/* What is beyond the rows of a batch extends the last one, whose end is the latest. */
static void test_many_lost(void **state) {
    event events[EC_LOST_RECORDS + 3];
    losses f;
    (void)state;
    for (int i = 0; i < EC_LOST_RECORDS + 3; i++)
        events[i] = (event){LOST_EVENT, 0, 10 + i};
    events[EC_LOST_RECORDS + 2].time = 5;
    with_batch(&PLAIN, 1, events, EC_LOST_RECORDS, look_for_losses, &f);
    assert_int_equal(f.count, EC_LOST_RECORDS);
    check_lost(&f.records[EC_LOST_RECORDS - 1], EC_GAP_LOST_EVENT, 1, 0, at(10 + EC_LOST_RECORDS - 2),
               at(10 + EC_LOST_RECORDS - 1));
    with_batch(&PLAIN, 1, events, EC_LOST_RECORDS + 3, look_for_losses, &f);
    assert_int_equal(f.count, EC_LOST_RECORDS);
    check_lost(&f.records[EC_LOST_RECORDS - 1], EC_GAP_LOST_EVENT, 4, 0, at(10 + EC_LOST_RECORDS - 2),
               at(10 + EC_LOST_RECORDS + 1));
}

/* Batches before a record's own are looked at as long as its CPU has no event. */
static void test_look_back(void **state) {
    static const event BEFORE[] = {{OP_START, 0, 10}, {OP_START, 1, 90}, {OP_START, 0, 30}, {OP_START, 0, 20}},
                       EARLIER[] = {{OP_START, 0, 5}, {OP_START, 2, 15}};

    losses f = {.count = 4,
                .records = {{.cause = EC_GAP_LOST_EVENT, .cpu = 0, .begin_utc_ns = INT64_MIN, .end_utc_ns = at(50)},
                            {.cause = EC_GAP_LOST_EVENT, .cpu = 0, .begin_utc_ns = at(25), .end_utc_ns = at(50)},
                            {.cause = EC_GAP_LOST_FILE, .cpu = 1, .begin_utc_ns = INT64_MIN, .end_utc_ns = at(60)},
                            {.cause = EC_GAP_LOST_FILE, .cpu = 2, .begin_utc_ns = INT64_MIN, .end_utc_ns = at(60)}}};
    (void)state;
    with_batch(&PLAIN, 1, BEFORE, sizeof BEFORE / sizeof *BEFORE, look_back, &f);
    assert_int_equal(f.open, 1);
    assert_int_equal(f.records[0].begin_utc_ns, at(30));
    assert_int_equal(f.records[1].begin_utc_ns, at(25));
    assert_int_equal(f.records[2].begin_utc_ns, at(60)); /* an event that came late */
    assert_int_equal(f.records[3].begin_utc_ns, INT64_MIN);
    with_batch(&PLAIN, 1, EARLIER, sizeof EARLIER / sizeof *EARLIER, look_back, &f);
    assert_int_equal(f.open, 0);
    assert_int_equal(f.records[0].begin_utc_ns, at(30));
    assert_int_equal(f.records[3].begin_utc_ns, at(15));
}

/* ---- the table ---- */

static int64_t ask(ec_state_db *t, const char *sql) {
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(ec_state_db_database(t), sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t found = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return found;
}

/* Windows' record of a lost event in a batch of the fold's stream, whose gaps are opened for it. */
static void add_lost_event(ec_state_db *t, const ec_state_fold *fold, uint64_t number) {
    const ec_lost_record lost = {.cause = EC_GAP_LOST_EVENT, .count = 1, .begin_utc_ns = 1000, .end_utc_ns = 2000};
    const ec_batch_row row = {.number = number, .event_count = 1, .begin_utc_ns = 1000, .end_utc_ns = 2000};
    ec_gaps *gaps = NULL;
    ea_err err = {0};
    must(ec_gaps_open(&gaps, t, fold, &err), &err);
    must(ec_gaps_begin(gaps, fold, &row, NULL, &err), &err);
    must(ec_gaps_recorded(gaps, &lost, 1, &err), &err);
    ec_gaps_close(gaps);
}

/* 10,000 records of losses are kept of a stream, and those of another one do not count. */
static void test_recorded_limit(void **state) {
    enum { RECORDED_MAX = 10000 };

    static const char FULL[] = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)"
                               " INSERT INTO gaps SELECT 2, i, i, 1001 + i % 3, 0, 0, NULL, 0, 0, 1, 1, 2 FROM n";
    static const char OWN[] = "SELECT count(*) FROM gaps WHERE stream = 1",
                      OTHERS[] = "SELECT count(*) FROM gaps WHERE stream = 2";
    const uint8_t one[EA_STREAM_ID_BYTES] = {1}, two[EA_STREAM_ID_BYTES] = {2};
    ec_state_db *t = NULL;
    ec_state_fold own, others;
    ea_err err = {0};
    (void)state;
    must(ea_path_make_dirs(scratch_path("store"), &err), &err);
    must(ec_state_db_open(&t, scratch_path("store"), 1, &err), &err);
    must(ec_state_db_begin(t, &err), &err);
    must(ec_state_db_get_fold(t, "pc-1", one, &own, &err), &err);
    must(ec_state_db_get_fold(t, "pc-2", two, &others, &err), &err);
    assert_int_equal(own.stream_number, 1);
    assert_int_equal(others.stream_number, 2);
    assert_int_equal(sqlite3_exec(ec_state_db_database(t), FULL, NULL, NULL, NULL), SQLITE_OK);
    add_lost_event(t, &own, 1);
    assert_int_equal(ask(t, OWN), 1);
    add_lost_event(t, &others, RECORDED_MAX + 1);
    assert_int_equal(ask(t, OTHERS), RECORDED_MAX);
    must(ec_state_db_commit(t, &err), &err);
    ec_state_db_close(t);
}

/* What a counter had is read back of that counter, of the session's own counts, and not of another stream. */
static void test_greatest(void **state) {
    const uint8_t one[EA_STREAM_ID_BYTES] = {1};
    const ec_batch_row row = {.number = 9, .event_count = 1, .begin_utc_ns = 1000, .end_utc_ns = 2000};
    static const char COUNTS[] =
        "INSERT INTO ledger_counts VALUES(1, '', 30, 5, 7), (1, '', 30, 6, 9), (1, '', 30, 7, 8),"
        " (1, '', 31, 7, 50), (1, 'disk', 30, 7, 60), (2, '', 30, 7, 70)";
    ec_state_db *t = NULL;
    ec_state_fold fold;
    ec_gaps *gaps = NULL;
    ea_err err = {0};
    (void)state;
    must(ea_path_make_dirs(scratch_path("store"), &err), &err);
    must(ec_state_db_open(&t, scratch_path("store"), 1, &err), &err);
    must(ec_state_db_begin(t, &err), &err);
    must(ec_state_db_get_fold(t, "pc-1", one, &fold, &err), &err);
    assert_int_equal(fold.stream_number, 1);
    assert_int_equal(sqlite3_exec(ec_state_db_database(t), COUNTS, NULL, NULL, NULL), SQLITE_OK);
    must(ec_gaps_open(&gaps, t, &fold, &err), &err);
    must(ec_gaps_begin(gaps, &fold, &row, NULL, &err), &err);
    must(ec_gaps_counted(gaps, EA_COUNT_source_events_lost, 9, INT64_MIN, &err), &err);
    assert_int_equal(ask(t, "SELECT count(*) FROM gaps"), 0);
    must(ec_gaps_counted(gaps, EA_COUNT_source_events_lost, 10, INT64_MIN, &err), &err);
    assert_int_equal(ask(t, "SELECT counted FROM gaps WHERE cause = 30"), 1);
    ec_gaps_close(gaps);
    must(ec_state_db_commit(t, &err), &err);
    ec_state_db_close(t);
}

/* A tombstone may claim any cause: one that is another kind of gap, or none of batches, is not believed. */
static void test_tombstone_cause(void **state) {
    static const struct {
        uint32_t claimed, kept;
    } LIST[] = {{999, 999}, {EC_GAP_MISSING, 0}, {EC_GAP_LOST_EVENT, 0}, {EC_GAP_LOST_FILE, 0}, {1004, 0}};

    static const char CAUSE[] = "SELECT cause FROM gaps ORDER BY first DESC LIMIT 1";
    const uint8_t one[EA_STREAM_ID_BYTES] = {1};
    const ec_batch_row row = {.number = 100, .event_count = 1, .begin_utc_ns = 1000, .end_utc_ns = 2000};
    ec_state_db *t = NULL;
    ec_state_fold fold;
    ec_gaps *gaps = NULL;
    ea_err err = {0};
    (void)state;
    must(ea_path_make_dirs(scratch_path("store"), &err), &err);
    must(ec_state_db_open(&t, scratch_path("store"), 1, &err), &err);
    must(ec_state_db_begin(t, &err), &err);
    must(ec_state_db_get_fold(t, "pc-1", one, &fold, &err), &err);
    must(ec_gaps_open(&gaps, t, &fold, &err), &err);
    must(ec_gaps_begin(gaps, &fold, &row, NULL, &err), &err);
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        const ea_tombstone claim = {
            .first = i + 1, .last = i + 1, .cause = LIST[i].claimed, .utc_min_ns = 1000, .utc_max_ns = 2000};
        must(ec_gaps_tombstone(gaps, &claim, &err), &err);
        assert_int_equal(ask(t, CAUSE), LIST[i].kept);
    }
    /* a time of 0 is one when the other is not */
    const ea_tombstone early = {.first = 20, .last = 22, .cause = 999, .utc_min_ns = 0, .utc_max_ns = 1500};
    must(ec_gaps_tombstone(gaps, &early, &err), &err);
    assert_int_equal(ask(t, "SELECT begin_utc_ns FROM gaps WHERE first = 20"), 0);
    assert_int_equal(ask(t, "SELECT end_utc_ns FROM gaps WHERE first = 20"), 1500);
    assert_int_equal(ask(t, "SELECT batch_count FROM gaps WHERE first = 20"), 3);
    ec_gaps_close(gaps);
    must(ec_state_db_commit(t, &err), &err);
    ec_state_db_close(t);
}

/* ---- counts, and the records beside them ---- */

typedef struct counting {
    ec_state_db *t;
    ec_gaps *gaps;
    ec_state_fold fold;
} counting;

static void reopen_gaps(counting *c) {
    ea_err err = {0};
    ec_gaps_close(c->gaps);
    must(ec_gaps_open(&c->gaps, c->t, &c->fold, &err), &err);
}

/* The next batch of a session that runs, from one time to another, with a record of a loss unless its cause is 0. */
static void next_batch(counting *c, uint64_t number, int64_t begin, int64_t end, uint32_t cause) {
    const ec_batch_row row = {.number = number, .event_count = 1, .begin_utc_ns = begin, .end_utc_ns = end};
    const ec_session_facts facts = {.begin_utc_ns = 1, .is_live = 1};
    const ec_lost_record lost = {.cause = cause, .count = 1, .begin_utc_ns = begin, .end_utc_ns = end};
    ea_err err = {0};
    must(ec_gaps_begin(c->gaps, &c->fold, &row, &facts, &err), &err);
    if (cause)
        must(ec_gaps_recorded(c->gaps, &lost, 1, &err), &err);
}

static void count_loss(counting *c, enum ea_counter counter, uint64_t value, int64_t begin) {
    ea_err err = {0};
    must(ec_gaps_counted(c->gaps, counter, value, begin, &err), &err);
}

static void check_counted(counting *c, uint64_t number, enum ea_counter counter, int64_t count, int64_t records,
                          int64_t begin, int64_t end) {
    const char *const columns[] = {"counted", "record_count", "begin_utc_ns", "end_utc_ns"};
    const int64_t expected[] = {count, records, begin, end};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        char sql[160];
        snprintf(sql, sizeof sql, "SELECT %s FROM gaps WHERE first = %d AND cause = %d", columns[i], (int)number,
                 (int)ea_counter_row(counter)->number);
        assert_int_equal(ask(c->t, sql), expected[i]);
    }
}

/* A count has the time of the records up to it, and of those after it until the next count; without one the time since
 * the count before. Also when the rows are read back in between. */
static void test_counted(void **state) {
    static const struct {
        enum ea_counter counter;
        uint32_t record;
    } KINDS[] = {{EA_COUNT_source_events_lost, EC_GAP_LOST_EVENT}, {EA_COUNT_source_buffers_lost, EC_GAP_LOST_BUFFER}};

    counting c = {0};
    ea_err err = {0};
    (void)state;
    must(ea_path_make_dirs(scratch_path("store"), &err), &err);
    must(ec_state_db_open(&c.t, scratch_path("store"), 1, &err), &err);
    must(ec_state_db_begin(c.t, &err), &err);
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++) {
        const uint8_t id[EA_STREAM_ID_BYTES] = {(uint8_t)(i + 1)};
        enum ea_counter counter = KINDS[i].counter;
        must(ec_state_db_get_fold(c.t, i ? "pc-2" : "pc-1", id, &c.fold, &err), &err);
        reopen_gaps(&c);
        next_batch(&c, 5, 1000, 2000, KINDS[i].record);
        count_loss(&c, counter, 3, 900);
        check_counted(&c, 5, counter, 3, 1, 1000, 2000);
        next_batch(&c, 6, 3000, 4000, KINDS[i].record);
        check_counted(&c, 5, counter, 3, 2, 1000, 4000);
        count_loss(&c, counter, 3, 2900); /* none is new */
        check_counted(&c, 5, counter, 3, 2, 1000, 4000);
        count_loss(&c, counter, 4, 2900);
        check_counted(&c, 5, counter, 3, 1, 1000, 2000);
        check_counted(&c, 6, counter, 1, 1, 3000, 4000);
        reopen_gaps(&c);
        next_batch(&c, 7, 5000, 6000, KINDS[i].record);
        check_counted(&c, 6, counter, 1, 2, 3000, 6000);
        next_batch(&c, 8, 6000, 6500, 0);
        count_loss(&c, counter, 9,
                   6100); /* the count that was read back is of no ledger: all 9 are new, with 7's record */
        check_counted(&c, 6, counter, 1, 1, 3000, 4000);
        check_counted(&c, 8, counter, 9, 1, 5000, 6000);
        next_batch(&c, 9, 7000, 8000, 0);
        count_loss(&c, counter, 10, 6900); /* without a record */
        check_counted(&c, 9, counter, 1, 0, 6900, 8000);
        reopen_gaps(&c);
        next_batch(&c, 10, 8500, 9000, KINDS[i].record);
        check_counted(&c, 9, counter, 1, 1, 8500, 9000);
        count_loss(&c, counter, 11, 8400);
        check_counted(&c, 9, counter, 1, 0, 6900, 8000);
        check_counted(&c, 10, counter, 11, 1, 8500, 9000);
        /* a batch without events: the end is not known, and the next event's when it comes */
        const ec_batch_row empty = {.number = 11};
        must(ec_gaps_begin(c.gaps, &c.fold, &empty, NULL, &err), &err);
        count_loss(&c, counter, 12, 9100);
        check_counted(&c, 11, counter, 1, 0, 9100, INT64_MAX);
        reopen_gaps(&c);
        next_batch(&c, 12, 9500, 9600, 0);
        check_counted(&c, 11, counter, 1, 0, 9100, 9500);
        assert_int_equal(sqlite3_exec(ec_state_db_database(c.t), "DELETE FROM gaps", NULL, NULL, NULL), SQLITE_OK);
    }
    /* a hole after the first batch is not before it, also when it ends */
    const uint8_t third[EA_STREAM_ID_BYTES] = {3};
    const ec_batch_row empty = {.number = 4};
    must(ec_state_db_get_fold(c.t, "pc-3", third, &c.fold, &err), &err);
    reopen_gaps(&c);
    next_batch(&c, 1, 1000, 2000, EC_GAP_LOST_EVENT);
    count_loss(&c, EA_COUNT_source_events_lost, 3, 900);
    c.fold.position = 1;
    c.fold.end_utc_ns = 2000;
    must(ec_gaps_begin(c.gaps, &c.fold, &empty, NULL, &err), &err);
    must(ec_gaps_missing(c.gaps, 2, NULL, &err), &err);
    next_batch(&c, 5, 9000, 9500, 0);
    check_counted(&c, 1, EA_COUNT_source_events_lost, 3, 1, 1000, 2000);
    assert_int_equal(ask(c.t, "SELECT end_utc_ns FROM gaps WHERE first = 2"), 9000);
    ec_gaps_close(c.gaps);
    ec_gaps_close(NULL);
    must(ec_state_db_commit(c.t, &err), &err);
    ec_state_db_close(c.t);
}

static void test_names(void **state) {
    static const struct {
        uint32_t cause;
        const char *name, *kind;
    } LIST[] = {{999, "other", "batches"},
                {EC_GAP_MISSING, "missing", "batches"},
                {EC_GAP_LOST_EVENT, "RTLostEvent", "recorded"},
                {EC_GAP_LOST_BUFFER, "RTLostBuffer", "recorded"},
                {EC_GAP_LOST_FILE, "RTLostFile", "recorded"},
                {1004, "other", "batches"},
                {30, "source_events_lost", "counted"},
                {1, "events_delivered", "batches"}};

    (void)state;
    for (size_t i = 0; i < sizeof LIST / sizeof *LIST; i++) {
        assert_string_equal(ec_gap_name(LIST[i].cause), LIST[i].name);
        assert_string_equal(ec_gap_kind(LIST[i].cause), LIST[i].kind);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_begin),
        cmocka_unit_test(test_live),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_lost),
        cmocka_unit_test(test_many_lost),
        cmocka_unit_test(test_look_back),
        cmocka_unit_test_setup_teardown(test_greatest, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_counted, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_tombstone_cause, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_recorded_limit, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
