/* The history: the same tables come out whatever the order of arrival, the number of streams in memory and the moments
 * of crashes; and questions to it. */
#include "collector/query/analysis/query.h"
#include "collector/state/state_worker.h"
#include "collector/store/store.h"
#include "proto/base/platform.h"
#include "service/batch/builder.h"
#include "tests/unit/batches.h"
#include "tests/unit/machine_records.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define EPOCH_NS INT64_C(1700000000000000000) /* UTC of raw time 0; the test's clock ticks in ns */

enum { BATCHES = 24, EVENTS = 40 };

typedef struct bytes {
    uint8_t *data;
    size_t len;
} bytes;

/* ---- batches ---- */

typedef struct maker {
    ea_registry *registry;
    ea_builder *builder;
    ea_encoder *encoder;
    uint64_t number;
    made_record r;
} maker;

static void check(int rc, const ea_err *err) {
    if (rc)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

static void maker_init(maker *m, uint8_t stream) {
    ea_wire_source source = {.name = "test",
                             .host = "MACHINE",
                             .clock = {.type = EA_CLOCK_QPC, .frequency = 1000000000, .base_utc_ns = EPOCH_NS},
                             .pointer_size = 8,
                             .cpu_count = 4};
    ea_builder_options bo = {.sources = &source, .source_count = 1};
    ea_encoder_options eo = {.all_descriptions = 0};
    ea_err err = {0};
    memset(eo.stream, stream, sizeof eo.stream);
    *m = (maker){0};
    check(ea_registry_create(&m->registry, 0, &err), &err);
    check(ea_builder_create(&m->builder, &bo, &err), &err);
    check(ea_encoder_create(&m->encoder, &eo, &err), &err);
}

static void maker_deinit(maker *m) {
    ea_encoder_destroy(m->encoder);
    ea_builder_destroy(m->builder);
    ea_registry_destroy(m->registry);
}

static void add(maker *m, const ea_record *record) {
    assert_int_equal(ea_builder_add(m->builder, record, ea_registry_find(m->registry, record)), 0);
}

static bytes take(maker *m) {
    ea_open_batch *open = ea_builder_take(m->builder);
    ea_batch_stamp stamp = {.number = ++m->number};
    const uint8_t *data;
    bytes b;
    ea_err err = {0};
    assert_non_null(open);
    check(ea_encoder_encode(m->encoder, open, &stamp, &data, &b.len, &err), &err);
    ea_open_batch_release(open);
    b.data = malloc(b.len);
    assert_non_null(b.data);
    memcpy(b.data, data, b.len);
    return b;
}

static uint32_t draw(uint64_t *seed, uint32_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % below);
}

/* A busy machine: processes, threads and modules begin and end, ids are reused, some ends and starts are missed. Image
 * ids come before their images at the same time, so that some batches end between the two. */
static void random_batches(bytes *batches, uint8_t stream) {
    static const uint8_t OPS[] = {OP_START, OP_START, OP_END, OP_DC_START, OP_DC_END};
    maker m;
    uint64_t seed = stream;
    int64_t t = 1000000;
    maker_init(&m, stream);
    for (int b = 0; b < BATCHES; b++) {
        for (int i = 0; i < EVENTS; i++, t += draw(&seed, 3) * 1000) {
            uint8_t op = OPS[draw(&seed, 5)];
            uint32_t pid = 4 * draw(&seed, 10), which = draw(&seed, 10);
            char text[64];
            snprintf(text, sizeof text, "p%u-%u.exe", pid, draw(&seed, 4));
            if (which < 2) {
                add(&m,
                    process_record(&m.r, op, t, pid, 4 * draw(&seed, 10), 0x800 + draw(&seed, 8) / 7, text, "a \"b\""));
            } else if (which < 5) {
                add(&m, thread_record(&m.r, op, t, pid, 4 * draw(&seed, 30), 0xfffff80000000000u + pid * 0x10000u, 1));
            } else if (which == 5) {
                begin_record(&m.r, 0x3d6fa8d1, 36, 4, t); /* a context switch */
                put64(&m.r, 0);
                put64(&m.r, 0);
                put64(&m.r, 0);
                add(&m, end_record(&m.r));
            } else {
                uint64_t base = 0x10000u * (1 + draw(&seed, 6));
                add(&m, image_id_record(&m.r, t, pid, base, draw(&seed, 1000), "x.dll"));
                if (draw(&seed, 3) && ++i < EVENTS)
                    add(&m, pdb_record(&m.r, t, pid, base, (uint8_t)draw(&seed, 256), 1, "x.pdb"));
                if (++i == EVENTS) {
                    batches[b] = take(&m);
                    b++;
                    i = 0;
                }
                if (b < BATCHES)
                    add(&m, image_record(&m.r, op == OP_START ? OP_LOAD : op, t, pid, base, 0x5000, text));
            }
        }
        if (b < BATCHES)
            batches[b] = take(&m);
    }
    maker_deinit(&m);
}

static void free_batches(bytes *batches) {
    for (int i = 0; i < BATCHES; i++)
        free(batches[i].data);
}

/* ---- a store ---- */

typedef struct fixture {
    char dir[64], other[64];
    ec_store *store, *other_store;
    bytes batches[BATCHES];
} fixture;

static void open_stores(fixture *f) {
    ea_err err = {0};
    ec_store_options o = {.writable = 1};
    check(ec_store_open(&f->store, f->dir, &o, &err), &err);
    check(ec_store_open(&f->other_store, f->other, &o, &err), &err);
}

static int setup(void **state) {
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/ec-history-XXXXXX");
    snprintf(f->other, sizeof f->other, "/tmp/ec-history-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    assert_non_null(mkdtemp(f->other));
    random_batches(f->batches, 1);
    open_stores(f);
    *state = f;
    return 0;
}

static int teardown(void **state) {
    fixture *f = *state;
    char command[200];
    ec_store_close(f->store);
    ec_store_close(f->other_store);
    free_batches(f->batches);
    snprintf(command, sizeof command, "rm -rf '%s' '%s'", f->dir, f->other);
    int rc = system(command);
    free(f);
    return rc;
}

static void append(ec_store *store, const char *host, const bytes *b) {
    ea_err err = {0};
    int rc = ec_store_append(store, host, b->data, b->len, &err);
    if (rc != EC_STORED)
        fail_msg("append: %d %s", rc, err.message);
    check(ec_store_commit(store, &err), &err);
}

static void append_all(ec_store *store, const char *host, const bytes *batches) {
    for (int i = 0; i < BATCHES; i++)
        append(store, host, &batches[i]);
}

static uint64_t fold(const char *dir, const ec_state_worker_options *options) {
    ec_state_worker *h;
    uint64_t n = 0;
    ea_err err = {0};
    check(ec_state_worker_open(&h, dir, options, &err), &err);
    check(ec_state_worker_fold(h, &n, &err), &err);
    ec_state_worker_close(h);
    return n;
}

/* All rows of a stream, as text that does not depend on the database's own numbers. */
static char *contents(const char *dir, const char *host) {
    static const char *const QUERIES[] = {
        "SELECT id, position, last_instance, begin_utc_ns, end_utc_ns FROM streams WHERE host = ?1 ORDER BY id",
        "SELECT p.* FROM processes p JOIN streams s USING(stream) WHERE host = ?1 ORDER BY id, instance",
        "SELECT p.* FROM threads p JOIN streams s USING(stream) WHERE host = ?1 ORDER BY id, instance",
        "SELECT p.* FROM modules p JOIN streams s USING(stream) WHERE host = ?1 ORDER BY id, instance",
        "SELECT p.* FROM pending_ids p JOIN streams s USING(stream) WHERE host = ?1 ORDER BY id, pid, base",
        "SELECT p.* FROM pending_facts p JOIN streams s USING(stream) WHERE host = ?1 ORDER BY id, number"};
    ec_state_db *t;
    ea_text out;
    ea_err err = {0};
    ea_text_init(&out);
    check(ec_state_db_open(&t, dir, 0, &err), &err);
    for (size_t i = 0; i < sizeof QUERIES / sizeof QUERIES[0]; i++) {
        sqlite3_stmt *s;
        assert_int_equal(sqlite3_prepare_v2(ec_state_db_database(t), QUERIES[i], -1, &s, NULL), SQLITE_OK);
        sqlite3_bind_text(s, 1, host, -1, SQLITE_STATIC);
        int code;
        while ((code = sqlite3_step(s)) == SQLITE_ROW) {
            for (int c = i == 0 ? 0 : 1; c < sqlite3_column_count(s); c++) {
                ea_text_char(&out, ' ');
                if (sqlite3_column_type(s, c) == SQLITE_BLOB)
                    ea_text_hex(&out, sqlite3_column_blob(s, c), (size_t)sqlite3_column_bytes(s, c));
                else if (sqlite3_column_type(s, c) != SQLITE_NULL)
                    ea_text_str(&out, (const char *)sqlite3_column_text(s, c));
            }
            ea_text_char(&out, '\n');
        }
        assert_int_equal(code, SQLITE_DONE);
        sqlite3_finalize(s);
    }
    ec_state_db_close(t);
    assert_false(out.failed);
    return out.data;
}

static void check_same(const char *dir, const char *host, const char *expected) {
    char *got = contents(dir, host);
    if (strcmp(got, expected) != 0) {
        size_t i = 0;
        while (got[i] && got[i] == expected[i])
            i++;
        i = i > 100 ? i - 100 : 0;
        fail_msg("the tables differ: ...%.200s\nexpected ...%.200s", got + i, expected + i);
    }
    free(got);
}

/* What comes out when everything arrives in order and is folded at once. */
static char *reference(fixture *f) {
    append_all(f->other_store, "alpha", f->batches);
    assert_int_equal(fold(f->other, &(ec_state_worker_options){0}), BATCHES);
    char *text = contents(f->other, "alpha");
    assert_true(strlen(text) > 10000);
    return text;
}

/* ---- tests ---- */

static void test_batch_by_batch(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    for (int i = 0; i < BATCHES; i++) {
        append(f->store, "alpha", &f->batches[i]);
        assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), 1); /* a restart after each */
    }
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), 0);
    check_same(f->dir, "alpha", expected);
    free(expected);
}

typedef struct fuse {
    uint32_t left;
} fuse;

static int burn(void *arg) {
    fuse *u = arg;
    if (u->left-- == 0)
        _exit(77); /* as a kill: the transaction is open */
    return 1;
}

static void test_kills(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    append_all(f->store, "alpha", f->batches);
    uint64_t seed = 5;
    int kills = 0, status;
    for (;;) {
        fuse u = {draw(&seed, 6)};
        ec_state_worker_options o = {.batches_per_commit = 1 + draw(&seed, 4), .keep_going = burn, .arg = &u};
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            ec_state_worker *h;
            if (ec_state_worker_open(&h, f->dir, &o, NULL) || ec_state_worker_fold(h, NULL, NULL))
                _exit(1);
            _exit(0);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status));
        if (WEXITSTATUS(status) == 0)
            break;
        assert_int_equal(WEXITSTATUS(status), 77);
        assert_true(++kills < 1000);
    }
    assert_true(kills > 3);
    check_same(f->dir, "alpha", expected);
    free(expected);
}

static int stop_after(void *arg) {
    uint32_t *left = arg;
    return (*left)-- > 1;
}

static void test_stops_between_batches(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    append_all(f->store, "alpha", f->batches);
    uint32_t left = 3;
    ec_state_worker_options o = {.keep_going = stop_after, .arg = &left};
    assert_int_equal(fold(f->dir, &o), 3);
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), BATCHES - 3);
    check_same(f->dir, "alpha", expected);
    free(expected);
}

static void test_any_order_of_arrival(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    int order[BATCHES];
    uint64_t seed = 9;
    ec_state_worker *h;
    ea_err err = {0};
    for (int i = 0; i < BATCHES; i++)
        order[i] = i;
    for (int i = BATCHES - 1; i > 0; i--) {
        int k = (int)draw(&seed, (uint32_t)i + 1), swap = order[i];
        order[i] = order[k];
        order[k] = swap;
    }
    check(ec_state_worker_open(&h, f->dir, &(ec_state_worker_options){0}, &err), &err);
    for (int i = 0; i < BATCHES; i++) {
        append(f->store, "alpha", &f->batches[order[i]]);
        check(ec_state_worker_fold(h, NULL, &err), &err);
    }
    ec_state_worker_close(h);
    check_same(f->dir, "alpha", expected);
    free(expected);
}

static void count_note(void *arg, const char *text) {
    assert_true(strlen(text) > 10);
    ++*(int *)arg;
}

static ec_state_fold fold_of(const char *dir);

static void test_hole_that_is_given_up_and_filled(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    int notes = 0;
    for (int i = 0; i < BATCHES; i++)
        if (i != 4 && i != 5)
            append(f->store, "alpha", &f->batches[i]);
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), 4); /* waits */
    ec_state_worker_options o = {.hole_wait_ns = -1, .on_note = count_note, .arg = &notes};
    assert_int_equal(fold(f->dir, &o), BATCHES - 6);
    assert_int_equal(notes, 1);
    assert_int_equal(fold_of(f->dir).missing_count, 2);
    assert_int_equal(fold_of(f->dir).position, BATCHES);
    append(f->store, "alpha", &f->batches[4]);
    append(f->store, "alpha", &f->batches[5]);
    assert_int_equal(fold(f->dir, &o), BATCHES);
    assert_int_equal(notes, 2);
    assert_int_equal(fold_of(f->dir).missing_count, 0);
    check_same(f->dir, "alpha", expected);
    free(expected);
}

static void test_count_ends_the_waiting(void **state) {
    fixture *f = *state;
    for (int i = 0; i < BATCHES; i++)
        if (i != 4)
            append(f->store, "alpha", &f->batches[i]);
    ec_state_worker_options o = {.hole_batches = BATCHES - 6};
    assert_int_equal(fold(f->dir, &o), BATCHES - 1);
    assert_int_equal(fold_of(f->dir).missing_count, 1);
}

static void test_tombstone(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    ea_tombstone gone = {.first = 5, .last = 7, .cause = ea_counter_row(EA_COUNT_events_evicted_size)->number};
    uint8_t stream[EA_STREAM_ID_BYTES];
    ea_text stone;
    ea_err err = {0};
    memset(stream, 1, sizeof stream);
    ea_text_init(&stone);
    check(ea_batch_make_tombstone(stream, 5, &gone, 1, &stone, &err), &err);
    for (int i = 0; i < BATCHES; i++)
        if (i < 4 || i > 6)
            append(f->store, "alpha", &f->batches[i]);
    append(f->store, "alpha", &(bytes){(uint8_t *)stone.data, stone.len_bytes});
    /* nothing is waited for */
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), BATCHES - 2);
    assert_int_equal(fold_of(f->dir).missing_count, 0);
    assert_int_equal(fold_of(f->dir).position, BATCHES);
    /* the batches come after all */
    for (int i = 4; i < 7; i++)
        append(f->store, "alpha", &f->batches[i]);
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), BATCHES);
    check_same(f->dir, "alpha", expected);
    ea_text_deinit(&stone);
    free(expected);
}

static void test_streams_do_not_mix(void **state) {
    fixture *f = *state;
    static const char *const HOSTS[] = {"alpha", "beta", "gamma"};
    char *expected = reference(f);
    bytes second[BATCHES];
    random_batches(second, 2);
    append_all(f->other_store, "beta", second);
    assert_int_equal(fold(f->other, &(ec_state_worker_options){0}), BATCHES);
    char *expected_second = contents(f->other, "beta");
    /* one machine in memory, three streams in turn; two hosts even have the same stream id */
    ec_state_worker *h;
    ea_err err = {0};
    check(ec_state_worker_open(&h, f->dir, &(ec_state_worker_options){.live_streams = 1}, &err), &err);
    for (int i = 0; i < BATCHES; i++)
        for (int k = 0; k < 3; k++) {
            append(f->store, HOSTS[k], k == 1 ? &second[i] : &f->batches[i]);
            if (i % 3 == 0)
                check(ec_state_worker_fold(h, NULL, &err), &err);
        }
    check(ec_state_worker_fold(h, NULL, &err), &err);
    ec_state_worker_close(h);
    check_same(f->dir, "alpha", expected);
    check_same(f->dir, "beta", expected_second);
    check_same(f->dir, "gamma", expected);
    free_batches(second);
    free(expected);
    free(expected_second);
}

static void test_tables_can_be_lost(void **state) {
    fixture *f = *state;
    char *expected = reference(f), path[100];
    append_all(f->store, "alpha", f->batches);
    fold(f->dir, &(ec_state_worker_options){0});
    snprintf(path, sizeof path, "%s/state.db", f->dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), BATCHES);
    check_same(f->dir, "alpha", expected);
    ea_err err = {0};
    check(ea_path_write_all(path, "this is no database, but long enough to look at it closely ................", 75, 0,
                            &err),
          &err);
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), BATCHES);
    check_same(f->dir, "alpha", expected);
    free(expected);
}

static void test_damaged_batch_costs_itself(void **state) {
    fixture *f = *state;
    append_all(f->store, "alpha", f->batches);
    ec_batch_row row;
    ea_err err = {0};
    assert_int_equal(ec_store_next_batch(f->store, 1, 6, &row, &err), 1);
    char command[300];
    snprintf(command, sizeof command,
             "f=$(find %s -type f -size +1k ! -name '*.db*' | head -1); printf XXXXXXXX | dd of=$f bs=1 seek=%" PRIu64
             " conv=notrunc 2>/dev/null",
             f->dir, row.offset + row.len_bytes / 2);
    assert_int_equal(system(command), 0);
    int notes = 0;
    ec_state_worker_options o = {.on_note = count_note, .arg = &notes};
    assert_int_equal(fold(f->dir, &o), BATCHES);
    assert_int_equal(notes, 1);
    assert_int_equal(fold_of(f->dir).damaged_count, 1);
    assert_int_equal(fold(f->dir, &o), 0); /* once */
}

/* A stream may describe more classes than fit in memory: it is read without the classes that no event needs, and the
 * machines that follow are folded. */
static void test_more_classes_than_memory(void **state) {
    enum { CLASSES = 60, ENTRIES = 100000 };

    static const uint8_t STREAM[EA_STREAM_ID_BYTES] = "crowd";
    const fixture *f = *state;
    const ec_state_worker_options options = {0};
    ea_err err = {0};
    for (uint32_t i = 1; i <= CLASSES + 1; i++) {
        const ea_tombstone t = {.first = i, .last = i, .cause = 15};
        ea_text batch;
        ea_text_init(&batch);
        check(ea_batch_make_tombstone(STREAM, i, &t, 1, &batch, &err), &err);
        if (i <= CLASSES)
            test_describe(&batch, i, ENTRIES);
        append(f->store, "crowd", &(bytes){(uint8_t *)batch.data, batch.len_bytes});
        ea_text_deinit(&batch);
        if (i == CLASSES)
            assert_int_equal(fold(f->dir, &options), CLASSES);
    }
    append_all(f->store, "pc", f->batches);
    assert_int_equal(fold(f->dir, &options), 1 + BATCHES);
}

static void test_worker(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    ec_state_worker_worker *w;
    ea_err err = {0};
    uint64_t backlog;
    check(ec_state_worker_start(&w, f->dir, &(ec_state_worker_options){0}, &err), &err);
    for (int i = 0; i < BATCHES; i++) {
        append(f->store, "alpha", &f->batches[i]);
        ec_state_worker_wake(w);
        if (i == BATCHES / 2) {
            check(ec_state_worker_catch_up(f->dir, NULL, EC_WAIT_FOLDED, INT64_C(20000000000), &backlog, &err), &err);
            assert_int_equal(backlog, 0);
        }
    }
    check(ec_state_worker_catch_up(f->dir, "alpha", EC_WAIT_FOLDED, INT64_C(20000000000), &backlog, &err), &err);
    assert_int_equal(backlog, 0);
    check_same(f->dir, "alpha", expected);
    ec_state_worker_stop(w);
    /* no worker folds now: the caller of catch_up does */
    bytes second[BATCHES];
    random_batches(second, 2);
    append_all(f->store, "beta", second);
    check(ec_state_worker_catch_up(f->dir, "beta", EC_WAIT_FOLDED, 0, &backlog, &err), &err);
    assert_int_equal(backlog, 0);
    /* another worker holds the lock, and makes no progress */
    ec_state_worker *h;
    check(ec_state_worker_open(&h, f->dir, &(ec_state_worker_options){0}, &err), &err);
    append_all(f->store, "gamma", second);
    check(ec_state_worker_catch_up(f->dir, NULL, EC_WAIT_FOLDED, 50000000, &backlog, &err), &err);
    assert_int_equal(backlog, BATCHES);
    check(ec_state_worker_catch_up(f->dir, "alpha", EC_WAIT_FOLDED, 50000000, &backlog, &err), &err);
    assert_int_equal(backlog, 0);
    ec_state_worker_close(h);
    free_batches(second);
    free(expected);
}

static void set_version(const char *dir, int version) {
    char sql[48];
    ec_state_db *t;
    ea_err err = {0};
    check(ec_state_db_open(&t, dir, 1, &err), &err);
    snprintf(sql, sizeof sql, "PRAGMA user_version = %d", version);
    check(ec_sqlite_exec(ec_state_db_database(t), sql, "set the version", &err), &err);
    ec_state_db_close(t);
}

/* The first question after an upgrade: tables of an older version are made anew, also for a host of which nothing is
 * stored. Those of a newer version stay as they are. */
static void test_questions_of_older_tables(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    uint64_t backlog;
    ec_state_db *t;
    ea_err err = {0};
    append_all(f->store, "alpha", f->batches);
    for (int host = 0; host < 2; host++) {
        check(ec_state_worker_catch_up(f->dir, NULL, EC_WAIT_FOLDED, 0, &backlog, &err), &err);
        set_version(f->dir, 3);
        check(ec_state_worker_catch_up(f->dir, host ? "nowhere" : "alpha", EC_WAIT_FOLDED, 0, &backlog, &err), &err);
        assert_int_equal(backlog, 0);
        check(ec_state_db_open(&t, f->dir, 0, &err), &err);
        ec_state_db_close(t);
    }
    check(ec_state_worker_catch_up(f->dir, "alpha", EC_WAIT_FOLDED, 0, &backlog, &err), &err);
    check_same(f->dir, "alpha", expected);
    set_version(f->dir, 4711);
    assert_int_equal(ec_state_worker_catch_up(f->dir, NULL, EC_WAIT_FOLDED, 0, &backlog, &err), EA_EUNSUPPORTED);
    assert_int_equal(ec_state_db_open(&t, f->dir, 0, &err), EA_EUNSUPPORTED); /* it stays */
    free(expected);
}

/* Waits until the daemon's thread has done a round: before, a question folds for itself, and waits for no missing
 * batch. Only reads: who opens the history to write could keep the thread from it for a while. */
static void wait_for_round(const char *dir) {
    ec_store_place looked = {0};
    for (int i = 0; !looked.segment && !looked.offset && i < 1000; i++) {
        ec_state_db *t = NULL;
        if (ec_state_db_open(&t, dir, 0, NULL) == 0 && ec_state_db_get_round(t, &looked, NULL))
            looked = (ec_store_place){0};
        ec_state_db_close(t);
        ea_sleep_ns(10000000);
    }
    assert_true(looked.segment || looked.offset);
}

/* A stream that waits for a missing batch is not waited for: a question waits until a round has looked at it. */
static void test_question_waits_for_a_round(void **state) {
    fixture *f = *state;
    ec_state_worker_worker *w;
    ea_err err = {0};
    uint64_t unfolded;
    check(ec_state_worker_start(&w, f->dir, &(ec_state_worker_options){0}, &err), &err);
    append(f->store, "thief", &f->batches[0]);
    ec_state_worker_wake(w);
    wait_for_round(f->dir);
    for (int i = 2; i < 8; i += 2) { /* each of them renews the wait for the second one */
        append(f->store, "thief", &f->batches[i]);
        append(f->store, "alpha", &f->batches[i / 2 - 1]);
        ec_state_worker_wake(w);
        int64_t begin_ns = ea_monotonic_ns();
        check(ec_state_worker_catch_up(f->dir, NULL, EC_WAIT_ROUND, INT64_C(30000000000), &unfolded, &err), &err);
        assert_true(ea_monotonic_ns() - begin_ns < INT64_C(15000000000));
        assert_int_equal(unfolded, i / 2);
        check(ec_state_worker_catch_up(f->dir, "alpha", EC_WAIT_ROUND, INT64_C(30000000000), &unfolded, &err), &err);
        assert_int_equal(unfolded, 0);
    }
    check(ec_state_worker_catch_up(f->dir, NULL, EC_WAIT_FOLDED, 50000000, &unfolded, &err), &err);
    assert_int_equal(unfolded, 3);
    ec_state_worker_stop(w);
}

static uint64_t position_of(const char *dir, const char *host, uint8_t stream) {
    uint8_t id[EA_STREAM_ID_BYTES];
    ec_state_db *t;
    ec_state_fold found = {0};
    ea_err err = {0};
    memset(id, stream, sizeof id);
    check(ec_state_db_open(&t, dir, 0, &err), &err);
    assert_true(ec_state_db_find_fold(t, host, id, &found, &err) >= 0);
    ec_state_db_close(t);
    return found.position;
}

/* Each agent has one turn in a round, and its streams share it. */
static void test_turns(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    ec_state_worker_options o = {.turn_ns = 1}; /* one batch, and its turn is over */
    ec_state_worker *h;
    ea_err err = {0};
    uint64_t n;
    bytes second[BATCHES];
    random_batches(second, 2);
    append_all(f->store, "thief", f->batches);
    append_all(f->store, "thief", second);
    append_all(f->store, "alpha", f->batches);
    check(ec_state_worker_open(&h, f->dir, &o, &err), &err);
    for (int i = 1; i <= BATCHES; i++) {
        check(ec_state_worker_fold(h, &n, &err), &err);
        assert_int_equal(n, 2);
        assert_int_equal(position_of(f->dir, "alpha", 1), i);
        assert_int_equal(position_of(f->dir, "thief", 1) + position_of(f->dir, "thief", 2), i);
        assert_in_range(position_of(f->dir, "thief", 2), i / 3, i - i / 3);
    }
    for (int i = 0; i < 2 * BATCHES; i++)
        check(ec_state_worker_fold(h, &n, &err), &err);
    assert_int_equal(n, 0);
    ec_state_worker_close(h);
    check_same(f->dir, "alpha", expected);
    free_batches(second);
    free(expected);
}

typedef struct used {
    char host[32];
    int64_t cpu_ns;
    unsigned calls;
} used;

static void note_use(void *arg, const char *host, int64_t cpu_ns) {
    used *u = arg;
    snprintf(u->host, sizeof u->host, "%s", host);
    u->cpu_ns += cpu_ns;
    u->calls++;
}

/* The processor time of new batches is their agent's; batches of before are folded without such an account. */
static void test_processor_time_of_new_batches(void **state) {
    fixture *f = *state;
    used u = {.calls = 0};
    ec_state_worker_options o = {.on_used = note_use, .arg = &u};
    ec_state_worker *h;
    ea_err err = {0};
    uint64_t n;
    for (int i = 0; i < BATCHES / 2; i++)
        append(f->store, "alpha", &f->batches[i]);
    check(ec_state_worker_open(&h, f->dir, &o, &err), &err);
    check(ec_state_worker_fold(h, &n, &err), &err);
    assert_int_equal(n, BATCHES / 2);
    assert_int_equal(u.calls, 0);
    for (int i = BATCHES / 2; i < BATCHES; i++)
        append(f->store, "alpha", &f->batches[i]);
    check(ec_state_worker_fold(h, &n, &err), &err);
    assert_int_equal(n, BATCHES / 2);
    assert_int_equal(u.calls, 1);
    assert_string_equal(u.host, "alpha");
    assert_in_range(u.cpu_ns, 1000, INT64_C(10000000000));
    ec_state_worker_close(h);
}

/* A database error of one stream that does not go away as long as the trigger is there. */
static void break_stream(const char *dir, const char *host, int broken) {
    ea_err err = {0};
    ec_state_db *t;
    char *sql = broken ? sqlite3_mprintf("CREATE TRIGGER broken_%s BEFORE UPDATE ON streams WHEN NEW.host = '%s' BEGIN "
                                         "SELECT RAISE(ABORT, 'this row is broken'); END",
                                         host, host)
                       : sqlite3_mprintf("DROP TRIGGER broken_%s", host);
    check(ec_state_db_open(&t, dir, 1, &err), &err);
    assert_int_equal(sqlite3_exec(ec_state_db_database(t), sql, NULL, NULL, NULL), SQLITE_OK);
    ec_state_db_close(t);
    sqlite3_free(sql);
}

enum { BROKEN = 9 }; /* more than may fail in a row before a round ends */

/* Stores streams that fail, and after them one that succeeds. */
static void store_broken_streams(fixture *f) {
    append(f->store, "alpha", &f->batches[0]);
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), 1); /* the tables are there */
    for (int k = 0; k < BROKEN; k++) {
        char host[16];
        snprintf(host, sizeof host, "bad%d", k);
        append(f->store, host, &f->batches[0]);
        break_stream(f->dir, host, 1);
    }
    append_all(f->store, "zulu", f->batches);
}

static void test_failure_of_some_streams(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    ea_counters counters = {0};
    int notes = 0;
    uint64_t backlog, n = 0;
    ec_state_worker *h;
    ea_err err = {0};
    store_broken_streams(f);
    ec_state_worker_options o = {.counters = &counters, .on_note = count_note, .arg = &notes};
    check(ec_state_worker_open(&h, f->dir, &o, &err), &err);
    assert_int_not_equal(ec_state_worker_fold(h, &n, &err), 0); /* eight in a row */
    assert_non_null(strstr(err.message, "this row is broken"));
    assert_int_equal(n, 0);
    assert_int_not_equal(ec_state_worker_fold(h, &n, &err), 0); /* the ninth failure, then the good stream */
    assert_int_equal(n, BATCHES);
    check_same(f->dir, "zulu", expected);
    check(ec_state_worker_fold(h, &n, &err), &err); /* all nine are left alone */
    assert_int_equal(n, 0);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_state_failures), BROKEN);
    assert_int_equal(notes, 1);
    ec_state_worker_close(h);
    /* a query about another machine is answered */
    check(ec_state_worker_catch_up(f->dir, "zulu", EC_WAIT_FOLDED, 0, &backlog, &err), &err);
    assert_int_equal(backlog, 0);
    assert_int_not_equal(ec_state_worker_catch_up(f->dir, "bad3", EC_WAIT_FOLDED, 0, &backlog, &err), 0);
    assert_non_null(strstr(err.message, "this row is broken"));
    break_stream(f->dir, "bad3", 0);
    check(ec_state_worker_catch_up(f->dir, "bad3", EC_WAIT_FOLDED, 0, &backlog, &err), &err);
    assert_int_equal(backlog, 0);
    free(expected);
}

/* ---- a disk that takes no more ---- */

static int refused_errno; /* why writes of SQLite fail */

static ssize_t refuse_write(int fd, const void *data, size_t len_bytes, off_t offset) {
    (void)fd, (void)data, (void)len_bytes, (void)offset;
    errno = refused_errno;
    return -1;
}

/* From now on writes of SQLite's files fail with this errno; 0: they succeed again. */
static void let_writes_fail(int os_error) {
    static const char *const CALLS[] = {"write", "pwrite", "pwrite64"};
    sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
    refused_errno = os_error;
    for (size_t i = 0; i < sizeof CALLS / sizeof *CALLS; i++)
        (void)vfs->xSetSystemCall(vfs, CALLS[i], os_error ? (sqlite3_syscall_ptr)refuse_write : NULL);
}

static sqlite3 *open_tables(const char *dir) {
    sqlite3 *s;
    char path[4096];
    snprintf(path, sizeof path, "%s/state.db", dir);
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL), SQLITE_OK);
    return s;
}

/* What failed for lack of space is left alone like other failures, and tried as soon as there is space. */
static void test_full_disk(void **state) {
    static const int CAUSES[] = {ENOSPC, EDQUOT};
    fixture *f = *state;
    char *expected = reference(f);
    append(f->store, "alpha", &f->batches[0]);
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), 1); /* the tables are there */
    for (size_t i = 0; i < 2; i++) {
        const char *host = i ? "quota" : "full";
        ec_state_worker *h;
        uint64_t n = 0;
        ea_err err = {0};
        append_all(f->store, host, f->batches);
        /* a question is answered without what cannot be folded; the tables are open in another process, as they are in
         * a collector's */
        sqlite3 *other = open_tables(f->dir);
        let_writes_fail(CAUSES[i]);
        int rc = ec_state_worker_catch_up(f->dir, NULL, EC_WAIT_FOLDED, 0, &n, &err);
        let_writes_fail(0);
        sqlite3_close(other);
        check(rc, &err);
        assert_int_equal(n, BATCHES);
        check(ec_state_worker_open(&h, f->dir, &(ec_state_worker_options){0}, &err), &err);
        let_writes_fail(CAUSES[i]);
        rc = ec_state_worker_fold(h, &n, &err);
        let_writes_fail(0);
        if (rc != EA_EFULL)
            fail_msg("%s: %s", ea_code_name(rc), err.message);
        assert_int_equal(err.os_error == EDQUOT, CAUSES[i] == EDQUOT);
        assert_non_null(strstr(err.message, i ? "Disk quota exceeded" : "No space left on device"));
        check(ec_state_worker_fold(h, &n, &err), &err);
        assert_int_equal(n, 0); /* it is left alone */
        ec_state_worker_has_space(h);
        check(ec_state_worker_fold(h, &n, &err), &err);
        assert_int_equal(n, BATCHES);
        check_same(f->dir, host, expected);
        ec_state_worker_close(h);
    }
    free(expected);
}

static int has_all(const char *dir, const char *host, const char *expected) {
    char *got = contents(dir, host);
    int same = got && strcmp(got, expected) == 0; /* NULL: nothing is folded yet */
    free(got);
    return same;
}

static void test_worker_beside_failures(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    ec_state_worker_worker *w;
    ea_err err = {0};
    store_broken_streams(f);
    check(ec_state_worker_start(&w, f->dir, &(ec_state_worker_options){0}, &err), &err);
    for (int i = 0; i < 200 && !has_all(f->dir, "zulu", expected); i++)
        ea_sleep_ns(100000000);
    ec_state_worker_stop(w);
    check_same(f->dir, "zulu", expected);
    free(expected);
}

static void note_failure(void *arg, const char *text) {
    if (strstr(text, "No space left on device"))
        atomic_fetch_add((atomic_int *)arg, 1);
}

/* The daemon's thread, which would wait for ten seconds. */
static void test_worker_after_a_full_disk(void **state) {
    fixture *f = *state;
    char *expected = reference(f);
    atomic_int failures = 0;
    ec_state_worker_worker *w;
    ea_err err = {0};
    append(f->store, "alpha", &f->batches[0]);
    assert_int_equal(fold(f->dir, &(ec_state_worker_options){0}), 1);
    append_all(f->store, "zulu", f->batches);
    let_writes_fail(ENOSPC);
    check(
        ec_state_worker_start(&w, f->dir, &(ec_state_worker_options){.on_note = note_failure, .arg = &failures}, &err),
        &err);
    for (int i = 0; i < 200 && !atomic_load(&failures); i++)
        ea_sleep_ns(50000000);
    assert_true(atomic_load(&failures));
    let_writes_fail(0);
    int64_t began_ns = ea_monotonic_ns();
    ec_state_worker_retry(w);
    for (int i = 0; i < 300 && !has_all(f->dir, "zulu", expected); i++)
        ea_sleep_ns(50000000);
    int64_t took_ns = ea_monotonic_ns() - began_ns;
    ec_state_worker_stop(w);
    check_same(f->dir, "zulu", expected);
    assert_in_range(took_ns, 0, INT64_C(7000000000));
    free(expected);
}

/* Of more than 1,024 streams with a gap the first are forgotten: no keyframe is asked for on their account. */
static void test_gaps_are_bounded(void **state) {
    enum { STREAMS = 1026, REMEMBERED = 1024 };

    fixture *f = *state;
    ec_state_worker_worker *w;
    char host[16];
    int wanted = 0, last = 0;
    ea_err err = {0};
    for (int i = 0; i < STREAMS; i++) { /* the second batch of each, without the first */
        snprintf(host, sizeof host, "pc-%04d", i);
        assert_int_equal(ec_store_append(f->store, host, f->batches[1].data, f->batches[1].len, &err), EC_STORED);
    }
    check(ec_store_commit(f->store, &err), &err);
    check(ec_state_worker_start(&w, f->dir, &(ec_state_worker_options){.hole_wait_ns = -1}, &err), &err);
    uint8_t stream[EA_STREAM_ID_BYTES];
    memset(stream, 1, sizeof stream);
    for (int i = 0; i < 600 && !last; i++) {
        ea_sleep_ns(100000000);
        last = ec_state_worker_wants_keyframe(w, host, stream);
    }
    assert_true(last);
    for (int i = 0; i < STREAMS - 1; i++) {
        snprintf(host, sizeof host, "pc-%04d", i);
        int wants = ec_state_worker_wants_keyframe(w, host, stream);
        assert_int_equal(wants, i >= STREAMS - REMEMBERED);
        wanted += wants;
    }
    assert_int_equal(wanted, REMEMBERED - 1);
    ec_state_worker_stop(w);
}

/* ---- questions ---- */

static int keep_fold(const ec_state_fold *fold_row, void *arg) {
    *(ec_state_fold *)arg = *fold_row;
    return 1;
}

static ec_state_fold fold_of(const char *dir) {
    ec_state_db *t;
    ec_state_fold found = {0};
    ea_err err = {0};
    check(ec_state_db_open(&t, dir, 0, &err), &err);
    assert_int_equal(ec_state_db_each_fold(t, NULL, keep_fold, &found, &err), 1);
    ec_state_db_close(t);
    return found;
}

/* system(4) - wininit(8) - services(12) - svc(16), and app(20) whose parent is gone and whose parent's pid is reused.
 */
static void story(ec_store *store, const char *host, uint8_t stream) {
    maker m;
    maker_init(&m, stream);
    made_record *r = &m.r;
    add(&m, process_record(r, OP_DC_START, 0, 4, 0, 0x400, "System", ""));
    add(&m, process_record(r, OP_DC_START, 1000, 8, 4, 0x800, "wininit.exe", ""));
    add(&m, process_record(r, OP_DC_START, 2000, 20, 24, 0x2000, "app.exe", "app \x1b[31m"));
    add(&m, image_record(r, OP_DC_START, 3000, 0, 0xfffff80000000000u, 0x100000, "\\SystemRoot\\ntoskrnl.exe"));
    add(&m, image_record(r, OP_DC_START, 3000, 20, 0x7ff700000000u, 0x10000, "C:\\app.exe"));
    add(&m, process_record(r, OP_START, 10000, 12, 8, 0xc00, "services.exe", "services"));
    add(&m, process_record(r, OP_START, 20000, 16, 12, 0x1000, "svc.exe", "svc -k"));
    add(&m, process_record(r, OP_START, 20000, 24, 12, 0x3000, "late.exe", "late"));
    bytes b = take(&m);
    append(store, host, &b);
    free(b.data);
    add(&m, image_record(r, OP_LOAD, 30000, 20, 0x7ff800000000u, 0x2000, "C:\\Windows\\a.dll"));
    add(&m, image_record(r, OP_END, 40000, 20, 0x7ff800000000u, 0x2000, "C:\\Windows\\a.dll"));
    add(&m, image_record(r, OP_LOAD, 50000, 20, 0x7ff800000000u, 0x3000, "C:\\Windows\\b.dll"));
    add(&m, process_record(r, OP_END, 60000, 16, 12, 0x1000, "svc.exe", "svc -k"));
    add(&m, process_record(r, OP_END, 90000, 12, 8, 0xc00, "services.exe", "services"));
    b = take(&m);
    append(store, host, &b);
    free(b.data);
    maker_deinit(&m);
}

typedef struct found {
    char names[16][64];
    uint64_t offset, address;
    size_t count;
} found;

static int on_module(const ea_module *m, void *arg) {
    found *n = arg;
    snprintf(n->names[n->count++], sizeof n->names[0], "%s", ec_base_name(m->path));
    return 0;
}

static void on_place(const ea_module *m, void *arg) {
    found *n = arg;
    n->offset = n->address - m->base;
    (void)on_module(m, arg);
}

static void check_names(ec_query *q, const char *at, const char *expected) {
    ec_moment moment;
    ec_processes list;
    ea_err err = {0};
    char got[256] = "";
    check(ec_query_moment(q, "alpha", NULL, at, &moment, &err), &err);
    check(ec_query_processes(q, moment.fold.stream_number, &moment.utc_ns, &list, &err), &err);
    size_t *order = calloc(list.count + 1, sizeof *order);
    uint32_t *depth = calloc(list.count + 1, sizeof *depth);
    assert_non_null(order);
    assert_non_null(depth);
    check(ec_processes_tree(&list, order, depth, &err), &err);
    for (size_t i = 0; i < list.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%u%.*s ", list.items[order[i]].pid, (int)depth[i],
                 "'''''''");
    assert_string_equal(got, expected);
    free(order);
    free(depth);
    ec_processes_deinit(&list);
}

static void check_where(ec_query *q, const char *at, uint32_t pid, uint64_t address, const char *name,
                        uint64_t offset) {
    ec_moment moment;
    found n = {.address = address};
    ea_err err = {0};
    check(ec_query_moment(q, "alpha", NULL, at, &moment, &err), &err);
    int rc = ec_query_where(q, moment.fold.stream_number, pid, moment.utc_ns, address, on_place, &n, &err);
    assert_int_equal(rc, name ? 1 : 0);
    if (name) {
        assert_string_equal(n.names[0], name);
        assert_int_equal(n.offset, offset);
    }
}

static void test_questions(void **state) {
    fixture *f = *state;
    ec_query *q = NULL;
    ec_moment moment;
    uint64_t backlog;
    ea_err err = {0};
    assert_int_equal(ec_query_open(&q, f->dir, NULL, 0, &backlog, &err), EA_ENOTFOUND);
    story(f->store, "alpha", 7);
    check(ec_query_open(&q, f->dir, NULL, 0, &backlog, &err), &err);
    assert_int_equal(backlog, 0);
    check_names(q, "start", "4 8' 20 ");
    check_names(q, "+9us", "4 8' 20 ");
    check_names(q, "+10us", "4 8' 12'' 20 "); /* its beginning belongs to it */
    check_names(q, "+20us", "4 8' 12'' 16''' 24''' 20 ");
    check_names(q, "+59us", "4 8' 12'' 16''' 24''' 20 ");
    check_names(q, "+60us", "4 8' 12'' 24''' 20 "); /* its end does not */
    check_names(q, "2023-11-14T22:13:20.000020Z", "4 8' 12'' 16''' 24''' 20 ");
    check_names(q, "end", "4 8' 20 24 "); /* the parent is gone */
    check_names(q, "+1h", "4 8' 20 24 ");
    check_where(q, "start", 20, 0x7ff700000123u, "app.exe", 0x123);
    check_where(q, "start", 20, 0x7ff700010000u, NULL, 0); /* just after its end */
    check_where(q, "start", 20, 0x7ff6ffffffffu, NULL, 0);
    check_where(q, "start", 20, 0x7ff800000000u, NULL, 0); /* not loaded yet */
    check_where(q, "+30us", 20, 0x7ff800000000u, "a.dll", 0);
    check_where(q, "+40us", 20, 0x7ff800000000u, NULL, 0);
    check_where(q, "+50us", 20, 0x7ff800002fffu, "b.dll", 0x2fff);
    check_where(q, "start", 20, 0xfffff80000000010u, "ntoskrnl.exe", 0x10); /* the kernel is everywhere */
    check_where(q, "start", 0, 0xfffff80000000010u, "ntoskrnl.exe", 0x10);
    check_where(q, "start", 0, 0x7ff700000123u, NULL, 0);
    check_where(q, "start", 8, 0x7ff700000123u, NULL, 0); /* another process */
    check(ec_query_moment(q, NULL, NULL, "end", &moment, &err), &err);
    assert_int_equal(moment.utc_ns, EPOCH_NS + 90000);
    found modules = {0};
    check(ec_query_modules(q, moment.fold.stream_number, 20, moment.utc_ns, on_module, &modules, &err), &err);
    assert_int_equal(modules.count, 2);
    assert_string_equal(modules.names[0], "app.exe");
    assert_string_equal(modules.names[1], "b.dll");
    check(ec_query_moment(q, NULL, NULL, "+1h", &moment, &err), &err);
    assert_int_equal(moment.beyond, 1);
    ec_query_close(q);

    /* which stream is meant */
    story(f->store, "alpha", 0x7a);
    check(ec_query_open(&q, f->dir, NULL, 0, &backlog, &err), &err);
    check(ec_query_moment(q, NULL, NULL, "start", &moment, &err), &err);
    assert_int_equal(moment.fold.stream[0], 0x7a); /* began as late, came later */
    check(ec_query_moment(q, NULL, "07", "start", &moment, &err), &err);
    assert_int_equal(moment.fold.stream[0], 7);
    assert_int_equal(ec_query_moment(q, NULL, "7", "start", &moment, &err), 0);
    assert_int_equal(ec_query_moment(q, NULL, "1", "start", &moment, &err), EA_ENOTFOUND);
    assert_int_equal(ec_query_moment(q, "beta", NULL, "start", &moment, &err), EA_ENOTFOUND);
    assert_int_equal(ec_query_moment(q, NULL, NULL, "1999-01-01T00:00:00Z", &moment, &err), EA_ENOTFOUND);
    check(ec_query_moment(q, NULL, NULL, "yesterday", &moment, &err), &err);
    assert_int_equal(moment.beyond, 1);
    assert_int_equal(ec_query_moment(q, NULL, NULL, "noon", &moment, &err), EA_EUSAGE);
    assert_int_equal(ec_query_moment(q, NULL, NULL, "+", &moment, &err), EA_EUSAGE);
    ec_query_close(q);
    story(f->store, "beta", 9);
    check(ec_query_open(&q, f->dir, NULL, 0, &backlog, &err), &err);
    assert_int_equal(ec_query_moment(q, NULL, NULL, "start", &moment, &err), EA_EUSAGE);
    check(ec_query_moment(q, "beta", NULL, "start", &moment, &err), &err);
    assert_string_equal(moment.fold.host, "beta");
    ec_query_close(q);
}

static void test_addresses_keep_their_order(void **state) {
    static const uint64_t ASCENDING[] = {
        0, 1, 0x7ff700000000u, INT64_MAX, 0x8000000000000000u, 0xfffff80000000000u, UINT64_MAX};
    (void)state;
    for (size_t i = 0; i < sizeof ASCENDING / sizeof ASCENDING[0]; i++) {
        assert_true(ec_u64_from_sql(ec_u64_to_sql(ASCENDING[i])) == ASCENDING[i]);
        if (i)
            assert_true(ec_u64_to_sql(ASCENDING[i - 1]) < ec_u64_to_sql(ASCENDING[i]));
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_batch_by_batch),
        TEST(test_kills),
        TEST(test_stops_between_batches),
        TEST(test_any_order_of_arrival),
        TEST(test_hole_that_is_given_up_and_filled),
        TEST(test_count_ends_the_waiting),
        TEST(test_tombstone),
        TEST(test_streams_do_not_mix),
        TEST(test_tables_can_be_lost),
        TEST(test_damaged_batch_costs_itself),
        TEST(test_more_classes_than_memory),
        TEST(test_worker),
        TEST(test_questions_of_older_tables),
        TEST(test_question_waits_for_a_round),
        TEST(test_turns),
        TEST(test_processor_time_of_new_batches),
        TEST(test_gaps_are_bounded),
        TEST(test_failure_of_some_streams),
        TEST(test_worker_beside_failures),
        TEST(test_full_disk),
        TEST(test_worker_after_a_full_disk),
        TEST(test_questions),
        cmocka_unit_test(test_addresses_keep_their_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
