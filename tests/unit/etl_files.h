/* Small traces for the tests of the reader: made with the project's writer, read into a list that can be compared. */
#ifndef EA_TESTS_UNIT_ETL_FILES_H
#define EA_TESTS_UNIT_ETL_FILES_H

#include "proto/base/platform.h"
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"
#include "tests/unit/scratch.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#define LENGTH(a) (sizeof(a) / sizeof *(a))

static uint64_t rng_state = 88172645463325252u;

static inline uint64_t rng(void) {
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return rng_state * UINT64_C(0x2545F4914F6CDD1D);
}

static inline void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

/* ---- files ---- */

enum { HEADER_TIME = 1000000 };

static inline ea_etl_info plain_info(void) {
    static char session[] = "session", file[] = "C:\\trace.etl";
    return (ea_etl_info){.buffer_size_bytes = 4096,
                         .os_version = 0x0501000a,
                         .os_build = 19045,
                         .cpu_count = 4,
                         .timer_resolution = 156250,
                         .log_file_mode = 1,
                         .pointer_size = 8,
                         .cpu_mhz = 3000,
                         .bias_minutes = -60,
                         .boot_filetime = 133000000000000000,
                         .perf_frequency = 10000000,
                         .start_filetime = 133000001000000000,
                         .clock_type = EA_CLOCK_QPC,
                         .session_name = session,
                         .log_file_name = file,
                         .logger = 3};
}

static inline ea_etl_writer *begin(const char *name, const ea_etl_info *info) {
    ea_etl_writer *w;
    ea_err err;
    ea_etl_writer_options options = {.info = info, .start_raw = HEADER_TIME};
    must(ea_etl_writer_create(&w, scratch_path(name), &options, &err), &err);
    return w;
}

static inline void end(ea_etl_writer *w) {
    ea_err err;
    ea_etl_writer_end what = {.end_filetime = 133000002000000000, .events_lost = 5, .buffers_lost = 6};
    must(ea_etl_writer_finish(w, &what, &err), &err);
    ea_etl_writer_destroy(w);
}

static inline void add(ea_etl_writer *w, uint16_t cpu, int64_t time, uint32_t tag, uint16_t payload_bytes) {
    static uint8_t payload[5000];
    ea_err err;
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i / 16 + tag);
    assert_true(payload_bytes >= 4 && payload_bytes <= sizeof payload);
    ea_store32(payload, tag);
    ea_record r = {.header_type = EA_HEADER_SYSTEM64,
                   .hook_id = 0x0501,
                   .header_word = 3,
                   .version = 3,
                   .opcode = 1,
                   .provider = *ea_etl_group_guid(0x0501),
                   .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                   .pointer_size = 8,
                   .time_raw = time,
                   .pid = tag,
                   .tid = tag + 1,
                   .cpu = cpu,
                   .logger = 3,
                   .payload = payload,
                   .payload_bytes = payload_bytes};
    must(ea_etl_writer_add(w, &r, &err), &err);
}

static inline uint8_t *load(const char *name, size_t *ret_len) {
    char *data;
    ea_err err;
    must(ea_path_read_all(scratch_path(name), 1 << 28, &data, ret_len, &err), &err);
    return (uint8_t *)data;
}

static inline void store(const char *name, const uint8_t *data, size_t len) {
    ea_err err;
    must(ea_path_write_all(scratch_path(name), data, len, 0, &err), &err);
}

/* ---- what came out ---- */

typedef struct seen {
    int64_t time;
    uint64_t position;
    uint64_t hash;
    uint32_t tag;
    uint16_t cpu, source;
} seen;

typedef struct result {
    int rc; /* of the opening */
    seen *items;
    size_t count, capacity;
    uint64_t bad_records, bad_buffers, bad_bytes, disordered, late;
    size_t damage_count;
    ea_etl_damage damage[64];
    ea_err err;
    ea_etl_info info; /* of the first file; its texts are gone */
} result;

static inline void on_damage(const ea_etl_damage *damage, void *arg) {
    result *r = arg;
    assert_non_null(damage->reason);
    assert_non_null(damage->path);
    if (r->damage_count < LENGTH(r->damage))
        r->damage[r->damage_count] = *damage;
    r->damage_count++;
}

static inline uint64_t hash_bytes(uint64_t h, const uint8_t *p, size_t len) {
    while (len--)
        h = (h ^ *p++) * UINT64_C(0x100000001b3);
    return h;
}

/* Appends a record to what came out. */
static inline void add_seen(result *res, const ea_record *r) {
    static uint8_t encoded[70000];
    size_t len;
    if (res->count == res->capacity) {
        res->capacity = res->capacity ? 2 * res->capacity : 256;
        res->items = realloc(res->items, res->capacity * sizeof *res->items);
        assert_non_null(res->items);
    }
    must(ea_etl_encode_record(r, encoded, sizeof encoded, &len, &res->err), &res->err);
    res->items[res->count++] = (seen){.time = r->time_raw,
                                      .position = r->position,
                                      .hash = hash_bytes(r->cpu * 31u + r->logger, encoded, len),
                                      .tag = r->payload_bytes >= 4 ? ea_load32(r->payload) : 0,
                                      .cpu = r->cpu,
                                      .source = r->source};
}

/* What the reader counted. */
static inline void take_counts(result *res, const ea_counters *counters) {
    res->bad_records = ea_counter_get(counters, EA_COUNT_source_bad_records);
    res->bad_buffers = ea_counter_get(counters, EA_COUNT_source_bad_buffers);
    res->bad_bytes = ea_counter_get(counters, EA_COUNT_source_bad_bytes);
    res->disordered = ea_counter_get(counters, EA_COUNT_source_disordered_buffers);
    res->late = ea_counter_get(counters, EA_COUNT_source_late_records);
}

static inline result *read_paths(const char *const *paths, size_t count, ea_etl_options options) {
    result *res = calloc(1, sizeof *res);
    ea_counters *counters = calloc(1, sizeof *counters);
    assert_non_null(res);
    assert_non_null(counters);
    ea_etl_set *set;
    const ea_record *r;
    options.counters = counters;
    options.on_damage = on_damage;
    options.on_damage_arg = res;
    res->rc = ea_etl_open(&set, paths, count, &options, &res->err);
    if (res->rc == 0) {
        res->info = *ea_etl_file_info(set, 0);
        int rc;
        double progress = 0;
        while ((rc = ea_etl_next(set, &r, &res->err)) > 0) {
            add_seen(res, r);
            assert_true(ea_etl_progress(set) >= progress);
            progress = ea_etl_progress(set);
        }
        assert_int_equal(rc, 0);
        assert_int_equal(ea_etl_next(set, &r, &res->err), 0); /* and again */
        assert_true(ea_etl_progress(set) >= 1);
        ea_etl_close(set);
    }
    take_counts(res, counters);
    free(counters);
    return res;
}

static inline result *read_file(const char *name) {
    const char *path = scratch_path(name);
    return read_paths(&path, 1, (ea_etl_options){0});
}

static inline void done(result *r) {
    free(r->items);
    free(r);
}

static inline int canonical(const seen *a, const seen *b) {
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    if (a->cpu != b->cpu)
        return a->cpu < b->cpu ? -1 : 1;
    return a->position < b->position ? -1 : a->position > b->position;
}

static inline void assert_canonical(const result *r) {
    for (size_t i = 1; i < r->count; i++)
        assert_true(canonical(&r->items[i - 1], &r->items[i]) < 0);
}

static inline void assert_clean(const result *r) {
    assert_int_equal(r->rc, 0);
    assert_int_equal(r->bad_records, 0);
    assert_int_equal(r->bad_buffers, 0);
    assert_int_equal(r->bad_bytes, 0);
    assert_int_equal(r->late, 0);
    assert_int_equal(r->damage_count, 0);
}

static inline void assert_same(const result *a, const result *b) {
    assert_int_equal(a->count, b->count);
    for (size_t i = 0; i < a->count; i++) {
        assert_int_equal(a->items[i].hash, b->items[i].hash);
        assert_int_equal(a->items[i].time, b->items[i].time);
        assert_int_equal(a->items[i].source, b->items[i].source);
    }
}

/* How many records of `of` are in r, bit for bit. */
static inline size_t kept(const result *r, const result *of) {
    size_t n = 0;
    for (size_t i = 0; i < of->count; i++)
        for (size_t k = 0; k < r->count; k++)
            if (r->items[k].hash == of->items[i].hash) {
                n++;
                break;
            }
    return n;
}

/* A file of `count` records over some CPUs; times go up in steps of 0 to 3, so that ties are common. */
static inline void make_file(const char *name, const ea_etl_info *info, unsigned count, uint32_t first_tag,
                             int64_t start) {
    ea_etl_writer *w = begin(name, info);
    int64_t times[64];
    for (size_t i = 0; i < LENGTH(times); i++)
        times[i] = start;
    for (unsigned i = 0; i < count; i++) {
        uint16_t cpu = (uint16_t)(rng() % info->cpu_count);
        times[cpu] += (int64_t)(rng() % 4);
        add(w, cpu, times[cpu], first_tag + i, (uint16_t)(4 + rng() % 60));
    }
    end(w);
}

#endif
