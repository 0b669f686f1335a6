/* proto/etl, reading: files that are not the usual ones. Files that grow while they are read, circular logs, sessions
 * that never ended, private loggers, merged sessions, CPU numbers of one byte; and how the order of what is followed is
 * a function of the files alone. (64 files of 1,000 CPUs in one merge: test_etl.c; their memory:
 * tests/e2e/test_scale.py.) */
#include "tests/unit/etl_files.h"

enum { MODE_CIRCULAR = 2, MODE_PREALLOCATE = 0x20, MODE_PRIVATE = 0x800, MODE_PRIVATE_IN_PROC = 0x20000 };

/* ---- following ---- */

typedef struct following {
    ea_etl_set *set;
    ea_counters counters;
    result *r;
    int over;
} following;

static following *follow(const char *const *paths, size_t count, ea_etl_options options) {
    following *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->r = calloc(1, sizeof *f->r);
    assert_non_null(f->r);
    options.follow = 1;
    options.counters = &f->counters;
    options.on_damage = on_damage;
    options.on_damage_arg = f->r;
    must(ea_etl_open(&f->set, paths, count, &options, &f->r->err), &f->r->err);
    return f;
}

/* Takes all that comes now. */
static void look(following *f) {
    const ea_record *r;
    int rc;
    while ((rc = ea_etl_next(f->set, &r, &f->r->err)) == 1) {
        assert_false(f->over);
        add_seen(f->r, r);
    }
    must(rc, &f->r->err);
    assert_true(rc == 0 || rc == EA_ETL_NOTHING_YET);
    f->over = rc == 0;
}

static result *stop_following(following *f) {
    result *r = f->r;
    take_counts(r, &f->counters);
    r->info = *ea_etl_file_info(f->set, 0);
    ea_etl_close(f->set);
    free(f);
    return r;
}

/* The order in which the records of a finished file come to one who follows it. */
static result *follow_finished(const char *const *paths, size_t count, uint64_t memory_limit) {
    following *f = follow(paths, count, (ea_etl_options){.memory_limit_bytes = memory_limit});
    look(f);
    assert_true(f->over);
    return stop_following(f);
}

static void put(const char *name, const uint8_t *data, uint64_t at, size_t len) {
    ea_file *file;
    ea_err err;
    must(ea_file_open(&file, scratch_path(name), EA_OPEN_APPEND, &err), &err);
    must(ea_file_write_at(file, at, data, len, &err), &err);
    ea_file_close(file);
}

static void append(const char *name, const uint8_t *data, size_t from, size_t to) {
    put(name, data + from, from, to - from);
}

/* Same records, whatever their order. */
static void assert_same_set(const result *a, const result *b) {
    assert_int_equal(a->count, b->count);
    assert_int_equal(kept(a, b), b->count);
    assert_int_equal(kept(b, a), a->count);
}

/* The header event is where it is: first in a finished file, late in one that is followed. */
static void drop_header(result *r) {
    size_t n = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].position >> 32 != 0)
            r->items[n++] = r->items[i];
    assert_true(n < r->count);
    r->count = n;
}

static const uint64_t END_AT = EA_ETL_HEADER_BYTES + 32 + 16; /* the end time in a file: 8 bytes */

/* As Windows writes: one time for all CPUs. */
static void make_steady_file(const char *name, const ea_etl_info *info, unsigned count) {
    ea_etl_writer *w = begin(name, info);
    int64_t time = HEADER_TIME;
    for (unsigned i = 0; i < count; i++) {
        time += (int64_t)(rng() % 4);
        add(w, (uint16_t)(rng() % info->cpu_count), time, 1 + i, (uint16_t)(4 + rng() % 60));
    }
    end(w);
}

/* A file that grows by pieces of every size, with its end time written last: however it is looked at meanwhile, the
 * same comes out in the same order, which is the canonical one as far as the window reaches. */
static void grows_as(uint16_t compression, unsigned cpus) {
    ea_etl_info info = plain_info();
    info.buffer_size_bytes = 1024;
    info.cpu_count = cpus;
    info.compression = compression;
    make_steady_file("whole.etl", &info, 400);
    size_t len;
    uint8_t *data = load("whole.etl", &len), over[8];
    result *canonical_order = read_file("whole.etl");
    const char *path = scratch_path("whole.etl");
    result *at_once = follow_finished(&path, 1, 0), *poor = follow_finished(&path, 1, 1);
    assert_same_set(at_once, canonical_order);
    assert_same(at_once, poor);
    if (cpus <= 4) {
        assert_clean(at_once);
        drop_header(canonical_order);
        drop_header(poor);
        assert_same(poor, canonical_order);
    }
    memcpy(over, data + END_AT, 8);
    memset(data + END_AT, 0, 8);
    static const size_t steps[] = {1, 7, 500, 1023, 1024, 1025, 5000, 100000};
    for (size_t s = 0; s < LENGTH(steps); s++) {
        size_t at = 1024 < len ? 1024 : len;
        store("growing.etl", data, at);
        path = scratch_path("growing.etl");
        following *f = follow(&path, 1, (ea_etl_options){0});
        while (at < len) {
            size_t to = at + steps[s] < len ? at + steps[s] : len;
            append("growing.etl", data, at, to);
            at = to;
            look(f);
            assert_false(f->over);
        }
        size_t before = f->r->count;
        look(f);
        assert_int_equal(f->r->count, before); /* the last ones are held: an earlier record may still come */
        memcpy(data + END_AT, over, 8);
        append("growing.etl", data, END_AT, END_AT + 8);
        memset(data + END_AT, 0, 8);
        look(f);
        assert_true(f->over);
        result *r = stop_following(f);
        assert_int_equal(r->damage_count, 0);
        assert_same(r, at_once);
        assert_int_equal(r->late, at_once->late);
        assert_int_equal(r->info.end_filetime, 133000002000000000);
        assert_int_equal(r->info.events_lost, 5);
        done(r);
    }
    done(at_once);
    done(poor);
    done(canonical_order);
    free(data);
}

static void grows(void **state) {
    (void)state;
    grows_as(0, 1);
    grows_as(0, 4);
    grows_as(0, 40); /* more than the window reaches: some come late */
    grows_as(EA_ETL_XPRESS, 3);
}

/* While the writer writes: records are lost at no moment, and the counts of the header come at the end. */
static void grows_under_the_writer(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    ea_err err;
    for (unsigned compression = 0; compression <= EA_ETL_XPRESS; compression += EA_ETL_XPRESS) {
        info.compression = (uint16_t)compression;
        ea_etl_writer *w = begin("live.etl", &info);
        const char *path = scratch_path("live.etl");
        following *f = follow(&path, 1, (ea_etl_options){0});
        for (uint32_t i = 0; i < 20000; i++) {
            add(w, (uint16_t)(i % 4), HEADER_TIME + i, i, (uint16_t)(4 + i % 90));
            if (i % 977 == 0)
                must(ea_etl_writer_flush(w, (uint16_t)(i % 4), &err), &err);
            if (i % 61 == 0)
                look(f);
        }
        assert_true(f->r->count > 15000); /* all but the window */
        end(w);
        look(f);
        assert_true(f->over);
        assert_int_equal(ea_counter_get(&f->counters, EA_COUNT_source_events_lost), 5);
        assert_int_equal(ea_counter_get(&f->counters, EA_COUNT_source_buffers_lost), 6);
        result *r = stop_following(f);
        assert_clean(r);
        assert_int_equal(r->count, 20001);
        drop_header(r);
        assert_int_equal(r->count, 20000);
        assert_canonical(r);
        done(r);
    }
}

/* A reader with a short patience gets the records that exist. Later records with earlier times are counted. */
static void patience(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    ea_err err;
    ea_etl_writer *w = begin("live.etl", &info);
    const char *path = scratch_path("live.etl");
    following *f = follow(&path, 1, (ea_etl_options){.hold_back_ns = 1});
    for (uint32_t i = 0; i < 10; i++)
        add(w, 0, HEADER_TIME + 100 + i, i, 8);
    look(f);
    assert_int_equal(f->r->count, 0); /* the header event alone is in the file, and is not what it will be */
    must(ea_etl_writer_flush(w, 0, &err), &err);
    ea_sleep_ns(2000000);
    look(f);
    ea_sleep_ns(2000000);
    look(f);
    assert_int_equal(f->r->count, 10);
    for (uint32_t i = 0; i < 10; i++)
        add(w, 1, HEADER_TIME + i, 100 + i, 8);
    must(ea_etl_writer_flush(w, 1, &err), &err);
    look(f);
    ea_sleep_ns(2000000);
    look(f);
    assert_int_equal(f->r->count, 20);
    assert_false(f->over);
    end(w);
    look(f);
    assert_true(f->over);
    result *r = stop_following(f);
    assert_int_equal(r->count, 21);
    assert_int_equal(r->late, 10);
    done(r);
}

/* A buffer whose place is there before its bytes are; and a file that was laid out with zeros beforehand. */
static void laid_out_before(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    ea_err err;
    info.buffer_size_bytes = 1024;
    info.log_file_mode = MODE_PREALLOCATE | 1;
    make_file("whole.etl", &info, 300, 1, HEADER_TIME);
    size_t len;
    uint8_t *data = load("whole.etl", &len), over[8];
    result *whole = read_file("whole.etl");
    memcpy(over, data + END_AT, 8);
    memset(data + END_AT, 0, 8);
    uint8_t *zeros = calloc(1, len + 20 * 1024);
    assert_non_null(zeros);
    memcpy(zeros, data, 1024);
    store("growing.etl", zeros, len + 20 * 1024);
    free(zeros);
    const char *path = scratch_path("growing.etl");
    following *f = follow(&path, 1, (ea_etl_options){0});
    look(f);
    for (size_t at = 1024; at < len; at += 1024) {
        append("growing.etl", data, at, at + 1024);
        look(f);
        assert_false(f->over);
    }
    /* the session's end: the rest of the zeros are cut off */
    ea_file *file;
    must(ea_file_open(&file, path, EA_OPEN_APPEND, &err), &err);
    must(ea_file_truncate(file, len, &err), &err);
    must(ea_file_write_at(file, END_AT, over, 8, &err), &err);
    ea_file_close(file);
    look(f);
    assert_true(f->over);
    result *r = stop_following(f);
    assert_clean(r);
    assert_same_set(r, whole);
    done(r);

    /* the last buffer: its header is there, half of its records are zeros for a moment */
    size_t last = len - 1024;
    store("growing.etl", data, last);
    f = follow(&path, 1, (ea_etl_options){.hold_back_ns = 1});
    look(f);
    uint8_t torn[1024] = {0};
    memcpy(torn, data + last, 200);
    must(ea_file_open(&file, path, EA_OPEN_APPEND, &err), &err);
    must(ea_file_write_at(file, last, torn, sizeof torn, &err), &err);
    ea_file_close(file);
    look(f);
    append("growing.etl", data, last, len);
    put("growing.etl", over, END_AT, 8);
    look(f);
    assert_true(f->over);
    r = stop_following(f);
    assert_int_equal(r->damage_count, 0);
    assert_same_set(r, whole);
    done(r);
    done(whole);
    free(data);
}

/* Damage in the middle of a file that grows costs what it costs in one that does not. */
static void grows_damaged(void **state) {
    (void)state;
    for (unsigned compression = 0; compression <= EA_ETL_XPRESS; compression += EA_ETL_XPRESS) {
        ea_etl_info info = plain_info();
        info.buffer_size_bytes = 1024;
        info.compression = (uint16_t)compression;
        make_file("whole.etl", &info, 400, 1, HEADER_TIME);
        size_t len;
        uint8_t *data = load("whole.etl", &len);
        memset(data + len / 2, 0x77, 100);
        for (size_t at = 1024; at + 8 < len; at += 1500)
            data[at] ^= 0x10;
        store("whole.etl", data, len);
        result *plain = read_file("whole.etl");
        const char *path = scratch_path("growing.etl");
        store("growing.etl", data, 1024);
        uint8_t over[8];
        memcpy(over, data + END_AT, 8);
        memset(data + END_AT, 0, 8);
        append("growing.etl", data, END_AT, END_AT + 8);
        following *f = follow(&path, 1, (ea_etl_options){0});
        for (size_t at = 1024; at < len; at += 700) {
            append("growing.etl", data, at, at + 700 < len ? at + 700 : len);
            look(f);
        }
        put("growing.etl", over, END_AT, 8);
        look(f);
        assert_true(f->over);
        result *r = stop_following(f);
        assert_true(plain->damage_count > 0);
        assert_true(r->damage_count > 0);
        assert_true(kept(r, plain) + 5 >= plain->count); /* a record at a guess may differ with what was known then */
        done(r);
        done(plain);
        free(data);
    }
}

/* Several files: a record comes when every window is full or its session is over. */
static void several_grow(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    ea_etl_writer *busy = begin("busy.etl", &info), *quiet = begin("quiet.etl", &info);
    char a[600], b[600];
    snprintf(a, sizeof a, "%s", scratch_path("busy.etl"));
    snprintf(b, sizeof b, "%s", scratch_path("quiet.etl"));
    const char *paths[] = {a, b};
    following *f = follow(paths, 2, (ea_etl_options){0});
    for (uint32_t i = 0; i < 10000; i++) {
        add(busy, (uint16_t)(i % 4), HEADER_TIME + i, i, 40);
        if (i % 1000 == 0) {
            add(quiet, 0, HEADER_TIME + i, 100000 + i, 40);
            look(f);
        }
    }
    assert_int_equal(f->r->count, 0);
    end(quiet);
    look(f);
    assert_true(f->r->count > 9000);
    assert_false(f->over);
    end(busy);
    look(f);
    assert_true(f->over);
    result *r = stop_following(f), *all = read_paths(paths, 2, (ea_etl_options){0});
    assert_clean(r);
    assert_int_equal(r->count, 10012);
    assert_same_set(r, all);
    drop_header(r);
    assert_canonical(r);
    done(r);
    done(all);
}

static void not_followed(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    ea_etl_set *set;
    const ea_record *r;
    ea_err err;
    info.log_file_mode = MODE_CIRCULAR;
    make_file("circular.etl", &info, 100, 1, HEADER_TIME);
    const char *path = scratch_path("circular.etl");
    assert_int_equal(ea_etl_open(&set, &path, 1, &(ea_etl_options){.follow = 1}, &err), EA_EUNSUPPORTED);
    assert_non_null(strstr(err.message, "circular"));
    store("empty.etl", (const uint8_t *)"", 0);
    path = scratch_path("empty.etl");
    assert_int_equal(ea_etl_open(&set, &path, 1, &(ea_etl_options){.follow = 1}, &err), EA_EFORMAT);
    /* another session was started on the same file */
    info = plain_info();
    ea_etl_writer *w = begin("other.etl", &info);
    path = scratch_path("other.etl");
    must(ea_etl_open(&set, &path, 1, &(ea_etl_options){.follow = 1}, &err), &err);
    assert_int_equal(ea_etl_next(set, &r, &err), EA_ETL_NOTHING_YET);
    ea_etl_writer_destroy(w);
    size_t len;
    uint8_t *data = load("other.etl", &len);
    data[EA_ETL_HEADER_BYTES + 32 + 264]++; /* the start time */
    append("other.etl", data, 0, len);
    assert_int_equal(ea_etl_next(set, &r, &err), EA_ECORRUPT);
    ea_etl_close(set);
    free(data);
}

/* ---- other files ---- */

/* A circular log that wrapped at any place: the newest buffers are first in the file, the older ones follow. */
static void circular_as(unsigned cpus) {
    ea_etl_info info = plain_info();
    info.buffer_size_bytes = 1024;
    info.cpu_count = cpus;
    info.log_file_mode = MODE_CIRCULAR;
    info.max_file_size_mib = 1;
    make_file("straight.etl", &info, 600, 1, HEADER_TIME);
    size_t len;
    uint8_t *data = load("straight.etl", &len), *turned = malloc(len);
    assert_non_null(turned);
    result *straight = read_file("straight.etl");
    size_t buffers = len / 1024 - 1;
    assert_true(buffers > 20);
    memcpy(turned, data, 1024);
    for (size_t by = 1; by < buffers; by++) {
        memcpy(turned + 1024, data + 1024 + by * 1024, (buffers - by) * 1024);
        memcpy(turned + 1024 + (buffers - by) * 1024, data + 1024, by * 1024);
        store("turned.etl", turned, len);
        result *r = read_file("turned.etl");
        assert_clean(r);
        assert_canonical(r);
        assert_int_equal(r->disordered, 0);
        assert_same_set(r, straight);
        done(r);
    }
    done(straight);
    free(turned);
    free(data);
}

static void circular(void **state) {
    (void)state;
    circular_as(1);
    circular_as(5);
}

/* What a crash of the machine leaves: no end time, no number of buffers; in compressed files, too. */
static void never_ended(void **state) {
    (void)state;
    for (unsigned compression = 0; compression <= EA_ETL_XPRESS; compression += EA_ETL_XPRESS) {
        ea_etl_info info = plain_info();
        ea_err err;
        info.compression = (uint16_t)compression;
        ea_etl_writer *w = begin("crash.etl", &info);
        for (uint32_t i = 0; i < 1000; i++)
            add(w, (uint16_t)(i % 3), HEADER_TIME + i, i, 50);
        for (uint16_t cpu = 0; cpu < 3; cpu++)
            must(ea_etl_writer_flush(w, cpu, &err), &err);
        ea_etl_writer_destroy(w);
        result *r = read_file("crash.etl");
        assert_clean(r);
        assert_canonical(r);
        assert_int_equal(r->count, 1001);
        assert_int_equal(r->info.end_filetime, 0);
        assert_int_equal(r->info.buffers_written, 0);
        assert_true(r->info.buffer_count > 10);
        done(r);
    }
}

/* A private logger: one file per process ("trace.etl_1234"). The records have cycles instead of kernel and user time,
 * and a flag for that. The buffers of one CPU have the records of all threads of the process. */
static void private_logger(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    info.log_file_mode = MODE_PRIVATE | MODE_PRIVATE_IN_PROC | EA_ETL_MODE_NO_PER_PROCESSOR | 1;
    ea_etl_writer *w = begin("private.etl_1234", &info);
    ea_err err;
    uint8_t payload[32] = {0};

    enum { RECORDS = 2000 };

    ea_record r = {.header_type = EA_HEADER_EVENT64,
                   .provider = {{1, 2, 3}},
                   .id = 7,
                   .flags = EA_FLAG_PRIVATE_SESSION | EA_FLAG_NO_CPUTIME | EA_FLAG_64_BIT_HEADER,
                   .pid = 1234,
                   .pointer_size = 8,
                   .logger = 3,
                   .payload = payload,
                   .payload_bytes = sizeof payload};
    for (uint32_t i = 0; i < RECORDS; i++) {
        uint64_t cycles = UINT64_C(0x123456789) * i; /* ProcessorTime */
        ea_store32(payload, i);
        r.time_raw = HEADER_TIME + (int64_t)i * 10 - (int64_t)(rng() % 40);
        r.tid = 100 + i % 5;
        r.kernel_time = (uint32_t)cycles;
        r.user_time = (uint32_t)(cycles >> 32);
        must(ea_etl_writer_add(w, &r, &err), &err);
    }
    end(w);
    const char *path = scratch_path("private.etl_1234");
    ea_etl_set *set;
    const ea_record *got;
    int rc;
    uint64_t count = 0, sum = 0;
    int64_t previous = INT64_MIN;
    must(ea_etl_open(&set, &path, 1, NULL, &err), &err);
    while ((rc = ea_etl_next(set, &got, &err)) == 1) {
        if (got->hook_id == 0 && got->header_type != EA_HEADER_EVENT64)
            continue; /* the header event */
        uint32_t i = ea_load32(got->payload);
        uint64_t cycles = UINT64_C(0x123456789) * i;
        assert_int_equal(got->kernel_time, (uint32_t)cycles);
        assert_int_equal(got->user_time, (uint32_t)(cycles >> 32));
        assert_int_equal(got->flags, r.flags);
        assert_int_equal(got->pid, 1234);
        assert_int_equal(got->tid, 100 + i % 5);
        assert_true(got->time_raw >= previous);
        previous = got->time_raw;
        sum += i;
        count++;
    }
    must(rc, &err);
    ea_etl_close(set);
    assert_int_equal(count, RECORDS);
    assert_int_equal(sum, RECORDS * (RECORDS - 1) / 2);
}

/* Two sessions merged into one file: buffers of both loggers, the second session's own header event among the records,
 * and flush times that are FILETIMEs by now. And again through the writer: a merged file relogged is the same. */
static void merged_sessions(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    ea_err err;
    ea_etl_set *set;
    const ea_record *r;
    int rc;
    make_file("user.etl", &info, 500, 100001, HEADER_TIME);
    ea_etl_writer *w = begin("merged.etl", &info);
    for (uint32_t i = 0; i < 500; i++)
        add(w, (uint16_t)(i % 4), HEADER_TIME + i, i, 40);
    const char *path = scratch_path("user.etl");
    must(ea_etl_open(&set, &path, 1, NULL, &err), &err);
    while ((rc = ea_etl_next(set, &r, &err)) == 1) {
        ea_record other = *r;
        other.logger = 9;
        must(ea_etl_writer_add(w, &other, &err), &err);
    }
    must(rc, &err);
    ea_etl_close(set);
    end(w);
    size_t len;
    uint8_t *data = load("merged.etl", &len);
    for (size_t at = 0; at < len; at += 4096)
        ea_store64(data + at + 0x10, 133000001000000000 + at);
    store("merged.etl", data, len);
    free(data);
    result *merged = read_file("merged.etl");
    assert_clean(merged);
    assert_canonical(merged);
    assert_int_equal(merged->count, 1002);
    assert_int_equal(merged->info.logger, 3);

    path = scratch_path("merged.etl");
    must(ea_etl_open(&set, &path, 1, NULL, &err), &err);
    w = NULL;
    uint64_t headers = 0, of_nine = 0;
    while ((rc = ea_etl_next(set, &r, &err)) == 1) {
        headers += r->header_type == EA_HEADER_SYSTEM64 && r->hook_id == 0;
        of_nine += r->logger == 9;
        if (!w)
            must(ea_etl_writer_create(
                     &w, scratch_path("relogged.etl"),
                     &(ea_etl_writer_options){.info = ea_etl_file_info(set, 0), .start_raw = HEADER_TIME, .header = r},
                     &err),
                 &err);
        else
            must(ea_etl_writer_add(w, r, &err), &err);
    }
    must(rc, &err);
    assert_int_equal(headers, 2);
    assert_int_equal(of_nine, 501);
    end(w);
    ea_etl_close(set);
    result *relogged = read_file("relogged.etl");
    assert_clean(relogged);
    assert_same_set(relogged, merged);
    for (size_t i = 0; i < merged->count; i++)
        assert_int_equal(relogged->items[i].time, merged->items[i].time);
    done(relogged);
    done(merged);
}

/* Before Windows 8 the CPU's number is one byte, and the next byte is the alignment. */
static void eight_bit_cpus(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    info.os_version = 0x0106;
    info.os_build = 7601;
    info.cpu_count = 256;
    info.buffer_size_bytes = 1024;
    ea_etl_writer *w = begin("seven.etl", &info);
    for (uint32_t i = 0; i < 2560; i++)
        add(w, (uint16_t)(i * 7 % 256), HEADER_TIME + i, i, 8);
    end(w);
    size_t len;
    uint8_t *data = load("seven.etl", &len);
    for (size_t at = 0; at < len; at += 1024) {
        assert_int_equal(data[at + 0x34] & EA_ETL_BUFFER_PROC_INDEX, 0);
        data[at + 0x29] = 8; /* alignment */
    }
    store("seven.etl", data, len);
    free(data);
    result *r = read_file("seven.etl");
    assert_clean(r);
    assert_canonical(r);
    assert_int_equal(r->count, 2561);
    for (size_t i = 1; i < r->count; i++)
        assert_int_equal(r->items[i].cpu, r->items[i].tag * 7 % 256);
    done(r);
}

static int setup(void **state) {
    return scratch_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(grows, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(grows_under_the_writer, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(patience, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(laid_out_before, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(grows_damaged, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(several_grow, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(not_followed, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(circular, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(never_ended, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(private_logger, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(merged_sessions, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(eight_bit_cpus, setup, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
