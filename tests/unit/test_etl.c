/* proto/etl, reading: header forms byte by byte, canonical order, clocks, compressions, damage of every kind, prefixes.
 * Files are made with the project's writer and then bent by hand; what the writer cannot do (LZNT1, XPRESS_HUFF) is
 * compressed here. Byte strings of single headers: single-records-kernel.json beside the real traces. */
#include "proto/base/platform.h"
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"
#include "tests/unit/etl_files.h"
#include "tests/unit/etl_pack.h"
#include "tests/unit/scratch.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "tests/unit/real_traces.h"

/* ---- header forms ---- */

typedef struct image {
    uint8_t data[1024];
    uint32_t len;
} image;

/* Makes a record from the hex of a header and a payload. Sets the record's size, which is at size_at. */
static void record_image(image *b, const char *hex, const char *payload, unsigned size_at) {
    size_t got;
    assert_int_equal(ea_hex_parse(hex, b->data, sizeof b->data, &got), 0);
    memcpy(b->data + got, payload, strlen(payload));
    b->len = (uint32_t)(got + strlen(payload));
    ea_store16(b->data + size_at, (uint16_t)b->len);
}

/* Fills from b, and checks that what it was filled with gives the same bytes again. */
static uint32_t fill(ea_record *r, ea_ext *ext, const image *b) {
    uint8_t again[2048];
    size_t len;
    ea_err err;
    uint8_t *exact = malloc(b->len); /* so that a sanitizer sees a byte too far */
    assert_non_null(exact);
    memcpy(exact, b->data, b->len);
    assert_int_equal(ea_etl_record_bytes(exact, b->len), b->len);
    uint32_t damaged = ea_etl_fill_record(r, ext, b->data, b->len, 8);
    r->time_raw = ea_etl_record_time(exact, 0);
    free(exact);
    must(ea_etl_encode_record(r, again, sizeof again, &len, &err), &err);
    assert_int_equal(len, b->len);
    assert_memory_equal(again, b->data, b->len);
    return damaged;
}

static void assert_payload(const ea_record *r, const char *text) {
    assert_int_equal(r->payload_bytes, strlen(text));
    assert_memory_equal(r->payload, text, strlen(text));
}

static void assert_guid(const ea_guid *g, const char *text) {
    char out[37];
    ea_guid_format(g, out);
    assert_string_equal(out, text);
}

static void kernel_headers(void **state) {
    (void)state;
    image b;
    ea_record r;
    ea_ext ext[EA_EXT_MAX];

    record_image(&b, "020002c06c01000078470000444c000085cc0542cb0200000100000002000000", "hello", 4);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.header_type, EA_HEADER_SYSTEM64);
    assert_int_equal(r.version, 2);
    assert_int_equal(r.tid, 18296);
    assert_int_equal(r.pid, 19524);
    assert_int_equal(r.time_raw, 3072009292933);
    assert_int_equal(r.kernel_time, 1);
    assert_int_equal(r.user_time, 2);
    assert_int_equal(r.flags, EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER);
    assert_int_equal(r.pointer_size, 8);
    assert_guid(&r.provider, "68fdd900-4a3e-11d1-84f4-0000f80464e3");
    assert_payload(&r, "hello");

    record_image(&b, "ff0103c06c010a0378470000444c000085cc0542cb020000", "image load", 4);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.header_type, EA_HEADER_COMPACT32);
    assert_int_equal(r.header_word, 0x1ff);
    assert_int_equal(r.version, 0xff);
    assert_int_equal(r.hook_id, 0x030a);
    assert_int_equal(r.opcode, 10);
    assert_int_equal(r.tid, 18296);
    assert_int_equal(r.pointer_size, 4);
    assert_int_equal(r.flags, EA_FLAG_CLASSIC_HEADER | EA_FLAG_32_BIT_HEADER | EA_FLAG_NO_CPUTIME);
    assert_guid(&r.provider, "2cb15d1d-5fc1-11d2-abe1-00a0c911f518");
    assert_payload(&r, "image load");

    record_image(&b, "020011c020002e0f6d110642cb020000", "sixteen bytes...", 4);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.header_type, EA_HEADER_PERFINFO64);
    assert_int_equal(r.time_raw, 3072009310573);
    assert_int_equal(r.pid, UINT32_MAX);
    assert_int_equal(r.tid, UINT32_MAX);
    assert_int_equal(r.ext_count, 0);
    assert_int_equal(r.hook_id, 0x0f2e);
    assert_guid(&r.provider, "ce1dbfb4-137e-4da6-87b0-3f59aa102cbc");
    assert_payload(&r, "sixteen bytes...");

    record_image(&b, "040211c038002405ff2efccd61010000380f000000000000b824000000000000", "switch", 4);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.version, 4);
    assert_int_equal(r.header_word, 0x204);
    assert_int_equal(r.ext_count, 1);
    assert_int_equal(ext[0].type, EA_EXT_PMC_COUNTERS);
    assert_int_equal(ext[0].size_bytes, 16);
    assert_int_equal(ea_load64(ext[0].data), 3896);
    assert_int_equal(ea_load64(ext[0].data + 8), 9400);
    assert_payload(&r, "switch");

    record_image(&b, "048211c038002405ff2efccd610100005945c94ff77f0000380f000000000000b824000000000000", "switch", 4);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.ext_count, 2);
    assert_int_equal(ext[0].type, EA_EXT_PEBS_INDEX);
    assert_int_equal(ea_load64(ext[0].data), 0x7ff74fc94559);
    assert_int_equal(ext[1].type, EA_EXT_PMC_COUNTERS);
    assert_int_equal(ea_load64(ext[1].data), 3896);
    assert_payload(&r, "switch");

    /* The version promises 7 counters, but the record is too short for any. No byte is lost, and 5 damaged bytes are
     * reported. */
    record_image(&b, "040711c038002405ff2efccd61010000", "short", 4);
    assert_int_equal(fill(&r, ext, &b), 5);
    assert_int_equal(r.ext_count, 0);
    assert_payload(&r, "short");
}

static void other_headers(void **state) {
    (void)state;
    image b;
    ea_record r;
    ea_ext ext[EA_EXT_MAX];

    record_image(&b, "840114c040030201206700000b0000001c180642cb020000d775e6b35425184f830b2762732560de0300000004000000",
                 "full", 0);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.header_type, EA_HEADER_FULL64);
    assert_int_equal(r.opcode, 64);
    assert_int_equal(r.level, 3);
    assert_int_equal(r.version, 2);
    assert_int_equal(r.header_word, 0x102);
    assert_int_equal(r.tid, 26400);
    assert_int_equal(r.pid, 11);
    assert_int_equal(r.time_raw, 3072009312284);
    assert_guid(&r.provider, "b3e675d7-2554-4f18-830b-2762732560de");
    assert_int_equal(r.kernel_time, 3);
    assert_int_equal(r.user_time, 4);
    assert_payload(&r, "full");

    record_image(&b,
                 "84010bc040000000206700000b0000001c180642cb020000d775e6b35425184f830b2762732560de0000000000000000"
                 "0700000008000000000102030405060708090a0b0c0d0e0f",
                 "instance", 0);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.header_type, EA_HEADER_INSTANCE32);
    assert_int_equal(r.pointer_size, 4);
    assert_int_equal(r.ext_count, 1);
    assert_int_equal(ext[0].type, EA_EXT_INSTANCE_INFO);
    assert_int_equal(ext[0].size_bytes, 24);
    assert_int_equal(ea_load32(ext[0].data), 7);
    assert_int_equal(ea_load32(ext[0].data + 4), 8);
    assert_int_equal(ext[0].data[23], 15);
    assert_payload(&r, "instance");

    record_image(&b,
                 "640013c0000002000500000006000000b176f143cb02000046905f9ec643624fba137b19896253ff"
                 "060001020304050007000000000000801100000012000000000102030405060708090a0b0c0d0e0f",
                 "event", 0);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.header_type, EA_HEADER_EVENT64);
    assert_int_equal(r.property, 2);
    assert_int_equal(r.tid, 5);
    assert_int_equal(r.pid, 6);
    assert_int_equal(r.id, 6);
    assert_int_equal(r.version, 1);
    assert_int_equal(r.channel, 2);
    assert_int_equal(r.level, 3);
    assert_int_equal(r.opcode, 4);
    assert_int_equal(r.task, 5);
    assert_int_equal(r.keyword, 0x8000000000000007u);
    assert_int_equal(r.kernel_time, 0x11);
    assert_int_equal(r.user_time, 0x12);
    assert_int_equal(r.activity_id.bytes[15], 15);
    assert_payload(&r, "event");
}

static const char event_head[] = "640012c0010000000500000006000000b176f143cb02000046905f9ec643624fba137b19896253ff"
                                 "06000000000000000000000000000000000000000000000000000000000000000000000000000000";

static void extended_items(void **state) {
    (void)state;
    image b;
    ea_record r;
    ea_ext ext[EA_EXT_MAX];
    char hex[1000];

    /* a related activity id (16 bytes), then an item of an unknown type (3 bytes, padded) */
    snprintf(hex, sizeof hex, "%s%s%s", event_head, "1800010001001000000102030405060708090a0b0c0d0e0f",
             "1000630000000300aabbcc0000000000");
    record_image(&b, hex, "rest", 0);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.pointer_size, 4);
    assert_int_equal(r.ext_count, 2);
    assert_int_equal(ext[0].type, EA_EXT_RELATED_ACTIVITY_ID);
    assert_int_equal(ext[0].linkage, 1);
    assert_int_equal(ext[0].size_bytes, 16);
    assert_int_equal(ext[1].type, 0x63);
    assert_int_equal(ext[1].linkage, 0);
    assert_int_equal(ext[1].size_bytes, 3);
    assert_memory_equal(ext[1].data, "\xaa\xbb\xcc", 3);
    assert_payload(&r, "rest");
    assert_ptr_equal(ea_record_ext(&r, 0x63), &ext[1]);

    /* The chain announces one more item, but the bytes that follow are no item. They become payload and are counted. */
    snprintf(hex, sizeof hex, "%s%s%s", event_head, "1800010001001000000102030405060708090a0b0c0d0e0f",
             "0c00630000000300aabbcc00000000"); /* its size of 12 is not padded to 8 */
    record_image(&b, hex, "rest", 0);
    uint32_t damaged = fill(&r, ext, &b);
    assert_int_equal(r.ext_count, 1);
    assert_int_equal(damaged, 15 + 4);
    assert_int_equal(r.payload_bytes, 15 + 4);

    /* an item that extends beyond the end of the record */
    snprintf(hex, sizeof hex, "%s%s", event_head, "f0ff0100000be8ff");
    record_image(&b, hex, "rest", 0);
    assert_int_equal(fill(&r, ext, &b), 12);
    assert_int_equal(r.ext_count, 0);

    /* more items than a record can have: 64 are items, the others payload */
    record_image(&b, event_head, "", 0);
    for (int i = 0; i < 70; i++) {
        ea_store16(b.data + b.len, 8);
        ea_store16(b.data + b.len + 2, 100);
        ea_store16(b.data + b.len + 4, i < 69);
        ea_store16(b.data + b.len + 6, 0);
        b.len += 8;
    }
    ea_store16(b.data, (uint16_t)b.len);
    assert_int_equal(fill(&r, ext, &b), 6 * 8);
    assert_int_equal(r.ext_count, EA_EXT_MAX);
    assert_int_equal(r.payload_bytes, 6 * 8);
}

static void messages(void **state) {
    (void)state;
    image b;
    ea_record r;
    ea_ext ext[EA_EXT_MAX];

    /* sequence, GUID, time, thread and process, 64-bit pointers */
    record_image(&b, "00000f900a00ab0001000000d775e6b35425184f830b2762732560de1c180642cb0200000700000008000000", "wpp",
                 0);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_int_equal(r.header_type, EA_HEADER_MESSAGE);
    assert_int_equal(r.header_word, 0xab);
    assert_int_equal(r.id, 10);
    assert_int_equal(r.flags, EA_FLAG_TRACE_MESSAGE | EA_FLAG_CLASSIC_HEADER);
    assert_guid(&r.provider, "b3e675d7-2554-4f18-830b-2762732560de");
    assert_int_equal(r.time_raw, 3072009312284);
    assert_int_equal(r.tid, 7);
    assert_int_equal(r.pid, 8);
    assert_int_equal(r.pointer_size, 8);
    assert_int_equal(r.ext_count, 1);
    assert_int_equal(ext[0].type, EA_EXT_WPP_SEQUENCE);
    assert_int_equal(ea_load32(ext[0].data), 1);
    assert_payload(&r, "wpp");

    /* a component id, nothing else; 32-bit pointers */
    record_image(&b, "00000f900b004400efbeadde", "wpp", 0);
    assert_int_equal(fill(&r, ext, &b), 0);
    assert_true(ea_guid_is_zero(&r.provider));
    assert_int_equal(r.pid, UINT32_MAX);
    assert_int_equal(r.tid, UINT32_MAX);
    assert_int_equal(r.pointer_size, 4);
    assert_int_equal(ext[0].type, EA_EXT_WPP_COMPONENT);
    assert_int_equal(ea_load32(ext[0].data), 0xdeadbeef);
    assert_int_equal(ea_etl_record_time(b.data, 42), 42);

    /* a size that does not hold what the options promise is no record */
    b.data[0] = 11;
    assert_int_equal(ea_etl_record_bytes(b.data, b.len), 0);
}

static void group_guids(void **state) {
    (void)state;
    assert_guid(ea_etl_group_of(0x0301), "3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c");
    assert_guid(ea_etl_group_of(0x030a), "2cb15d1d-5fc1-11d2-abe1-00a0c911f518");
    assert_guid(ea_etl_group_of(0x140a), "2cb15d1d-5fc1-11d2-abe1-00a0c911f518");
    assert_guid(ea_etl_group_of(0x0524), "3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c");
    assert_guid(ea_etl_group_of(0x1820), "def2fe46-7bd6-4b80-bd94-f57fe20d0ce3");
    assert_true(ea_guid_is_zero(ea_etl_group_of(0x0c01)));
    assert_true(ea_guid_is_zero(ea_etl_group_of(0xff01)));
}

/* ---- files ---- */

static void merged_order(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    make_file("a.etl", &info, 3000, 1, HEADER_TIME);
    info.cpu_count = 7;
    info.compression = EA_ETL_XPRESS;
    make_file("b.etl", &info, 2000, 100001, HEADER_TIME);
    info.compression = 0;
    info.os_version = 0x0105; /* before Windows 8: CPU numbers of one byte */
    make_file("c.etl", &info, 1000, 200001, HEADER_TIME + 100);
    char a[600], b[600], c[600];
    snprintf(a, sizeof a, "%s", scratch_path("a.etl"));
    snprintf(b, sizeof b, "%s", scratch_path("b.etl"));
    snprintf(c, sizeof c, "%s", scratch_path("c.etl"));
    const char *paths[] = {a, b, c};
    result *all = read_paths(paths, 3, (ea_etl_options){0});
    assert_clean(all);
    assert_int_equal(all->count, 6000 + 3); /* the header events too */
    assert_canonical(all);
    /* each alone gives its part of it */
    for (size_t f = 0; f < 3; f++) {
        result *one = read_paths(paths + f, 1, (ea_etl_options){0});
        assert_clean(one);
        assert_canonical(one);
        size_t k = 0;
        for (size_t i = 0; i < all->count; i++)
            if (all->items[i].source == f) {
                assert_true(k < one->count);
                assert_int_equal(all->items[i].hash, one->items[k++].hash);
            }
        assert_int_equal(k, one->count);
        done(one);
    }
    /* with next to no memory buffers are given up and decoded again: the same comes out */
    result *poor = read_paths(paths, 3, (ea_etl_options){.memory_limit_bytes = 1});
    assert_clean(poor);
    assert_same(all, poor);
    done(poor);
    done(all);
}

/* Many files, many CPUs, and little memory: the order is the same. */
static void many_files_and_cpus(void **state) {
    (void)state;

    enum { FILES = 64, CPUS = 1000, RECORDS = 100 };

    static char names[FILES][600];
    const char *paths[FILES];
    ea_etl_info info = plain_info();
    info.cpu_count = CPUS;
    for (unsigned f = 0; f < FILES; f++) {
        char name[32];
        snprintf(name, sizeof name, "many-%02u.etl", f);
        snprintf(names[f], sizeof names[f], "%s", scratch_path(name));
        paths[f] = names[f];
        ea_etl_writer *w = begin(name, &info);
        int64_t time = HEADER_TIME;
        for (unsigned i = 0; i < RECORDS; i++) {
            time += (int64_t)(rng() % 3);
            add(w, (uint16_t)(rng() % CPUS), time, f * RECORDS + i, 8);
        }
        end(w);
    }
    result *r = read_paths(paths, FILES, (ea_etl_options){0});
    assert_clean(r);
    assert_int_equal(r->count, FILES * (RECORDS + 1));
    assert_canonical(r);
    result *poor = read_paths(paths, FILES, (ea_etl_options){.memory_limit_bytes = 100000});
    assert_clean(poor);
    assert_same(r, poor);
    done(poor);
    done(r);
}

/* Buffers that all overlap: without memory for them, each record would cost the decoding of a buffer. */
static void decoding_again_has_a_limit(void **state) {
    (void)state;

    enum { CPUS = 20, RECORDS = 20000 };

    ea_etl_info info = plain_info();
    info.cpu_count = CPUS;
    ea_etl_writer *w = begin("overlap.etl", &info);
    for (unsigned i = 0; i < RECORDS; i++)
        add(w, (uint16_t)(i % CPUS), HEADER_TIME + i, i, 8);
    end(w);
    const char *path = scratch_path("overlap.etl");
    for (int limited = 0; limited < 2; limited++) {
        const ea_etl_options options = {.memory_limit_bytes = 1, .again_limit_bytes = limited ? 1 : 0};
        ea_etl_set *set;
        const ea_record *r;
        ea_err err;
        unsigned count = 0;
        int rc;
        must(ea_etl_open(&set, &path, 1, &options, &err), &err);
        while ((rc = ea_etl_next(set, &r, &err)) > 0)
            count++;
        assert_int_equal(rc, limited ? EA_ELIMIT : 0);
        if (limited) {
            assert_non_null(strstr(err.message, "too many buffers overlap in time"));
            assert_true(count > 0 && count < RECORDS / 10);
        } else {
            assert_int_equal(count, RECORDS + 1);
        }
        ea_etl_close(set);
    }
}

/* A file as tools merge them: several sessions have a buffer of each processor at a time, of the largest size that
 * Windows allows. It is sparse: each buffer uses a small part. */
static void merged_sessions_are_decoded_once(void **state) {
    (void)state;

    enum {
        CPUS = 4,
        SESSIONS = 5,
        RECORDS = 20000,
        SMALL = 64 << 10,
        LARGE = 16 << 20,
        SIZE_AT = EA_ETL_HEADER_BYTES + 32 /* of a buffer, in the header event */
    };

    ea_etl_info info = plain_info();
    info.buffer_size_bytes = SMALL;
    info.cpu_count = CPUS;
    ea_etl_writer *w = begin("small.etl", &info);
    for (unsigned i = 0; i < RECORDS; i++)
        add(w, (uint16_t)(i % (CPUS * SESSIONS)), HEADER_TIME + i, i, 8);
    end(w);
    char *data;
    size_t bytes;
    ea_err err;
    ea_file *f;
    must(ea_path_read_all(scratch_path("small.etl"), 64 << 20, &data, &bytes, &err), &err);
    assert_int_equal(bytes, (CPUS * SESSIONS + 1) * SMALL);
    assert_int_equal(ea_load32((uint8_t *)data + SIZE_AT), SMALL);
    ea_store32((uint8_t *)data + SIZE_AT, LARGE);
    must(ea_file_open(&f, scratch_path("large.etl"), EA_OPEN_CREATE, &err), &err);
    must(ea_file_truncate(f, (uint64_t)LARGE * (CPUS * SESSIONS + 1), &err), &err);
    for (size_t i = 0; i < bytes / SMALL; i++) {
        ea_store32((uint8_t *)data + i * SMALL, LARGE);
        must(ea_file_write_at(f, (uint64_t)i * LARGE, data + i * SMALL, SMALL, &err), &err);
    }
    ea_file_close(f);
    free(data);
    const char *path = scratch_path("large.etl");
    ea_etl_set *set;
    const ea_record *r;
    unsigned count = 0;
    int rc;
    must(ea_etl_open(&set, &path, 1, &(ea_etl_options){.again_limit_bytes = 1}, &err), &err);
    while ((rc = ea_etl_next(set, &r, &err)) > 0)
        count++;
    assert_int_equal(rc, 0);
    assert_int_equal(count, RECORDS + 1);
    ea_etl_close(set);
}

static void info_and_clocks(void **state) {
    (void)state;
    for (uint32_t pointer_size = 4; pointer_size <= 8; pointer_size += 4)
        for (uint32_t clock = EA_CLOCK_QPC; clock <= EA_CLOCK_CPU_CYCLES; clock++) {
            ea_etl_info info = plain_info(), *got;
            info.pointer_size = pointer_size;
            info.clock_type = clock;
            ea_etl_writer *w = begin("clock.etl", &info);
            for (uint32_t i = 0; i < 10; i++)
                add(w, 0, HEADER_TIME + i, i, 8);
            end(w);
            const char *path = scratch_path("clock.etl");
            ea_etl_set *set;
            ea_err err;
            must(ea_etl_open(&set, &path, 1, NULL, &err), &err);
            assert_int_equal(ea_etl_file_count(set), 1);
            assert_null(ea_etl_file_info(set, 1));
            ea_etl_info copy = *ea_etl_file_info(set, 0);
            got = &copy;
            assert_string_equal(got->path, path);
            assert_string_equal(got->session_name, "session");
            assert_string_equal(got->log_file_name, "C:\\trace.etl");
            assert_int_equal(got->buffer_size_bytes, 4096);
            assert_int_equal(got->os_version, 0x0501000a);
            assert_int_equal(got->os_build, 19045);
            assert_int_equal(got->cpu_count, 4);
            assert_int_equal(got->end_filetime, 133000002000000000);
            assert_int_equal(got->timer_resolution, 156250);
            assert_int_equal(got->log_file_mode, 1);
            assert_int_equal(got->buffers_written, 2);
            assert_int_equal(got->buffer_count, 2);
            assert_int_equal(got->pointer_size, pointer_size);
            assert_int_equal(got->events_lost, 5);
            assert_int_equal(got->buffers_lost, 6);
            assert_int_equal(got->cpu_mhz, 3000);
            assert_int_equal(got->bias_minutes, -60);
            assert_int_equal(got->boot_filetime, 133000000000000000);
            assert_int_equal(got->perf_frequency, 10000000);
            assert_int_equal(got->start_filetime, 133000001000000000);
            assert_int_equal(got->clock_type, clock);
            assert_int_equal(got->compression, 0);
            assert_int_equal(got->logger, 3);
            assert_int_equal(got->clock.type, clock);
            int64_t start_ns = ea_filetime_to_utc_ns(133000001000000000);
            switch (clock) {
            case EA_CLOCK_QPC:
                assert_int_equal(got->clock.frequency, 10000000);
                assert_int_equal(ea_clock_to_utc_ns(&got->clock, HEADER_TIME + 10000000), start_ns + 1000000000);
                break;
            case EA_CLOCK_SYSTEM_TIME:
                assert_int_equal(ea_clock_to_utc_ns(&got->clock, 133000001000000001), start_ns + 100);
                break;
            default:
                assert_int_equal(got->clock.frequency, 3000000000u);
                assert_int_equal(ea_clock_to_utc_ns(&got->clock, HEADER_TIME + 3), start_ns + 1);
            }
            ea_etl_close(set);
        }
}

/* Two runs of a machine, or two machines: raw times cannot be compared, UTC can. */
static void merged_by_utc(void **state) {
    (void)state;
    ea_etl_info one = plain_info(), two = plain_info();
    two.boot_filetime += 36000000000;                  /* booted an hour later, its counter runs at another rate */
    two.start_filetime = one.start_filetime + 5000000; /* started half a second later */
    two.perf_frequency = 1000000;
    ea_etl_writer *w = begin("one.etl", &one);
    for (uint32_t i = 0; i < 100; i++)
        add(w, 0, HEADER_TIME + (int64_t)i * 100000, 2 * i, 100); /* every 10 ms */
    end(w);
    w = begin("two.etl", &two);
    for (uint32_t i = 0; i < 100; i++)
        add(w, 0, HEADER_TIME + (int64_t)i * 10000 + 5000, 1 + 2 * i, 100); /* every 10 ms, 505 ms later */
    end(w);
    char a[600], b[600];
    snprintf(a, sizeof a, "%s", scratch_path("one.etl"));
    snprintf(b, sizeof b, "%s", scratch_path("two.etl"));
    const char *paths[] = {a, b};
    result *r = read_paths(paths, 2, (ea_etl_options){0});
    assert_clean(r);
    assert_int_equal(r->count, 202);
    int64_t previous = INT64_MIN;
    for (size_t i = 0; i < r->count; i++) {
        int64_t t = r->items[i].time - HEADER_TIME;
        int64_t utc = r->items[i].source ? t * 1000 + 500000000 : t * 100;
        assert_true(utc >= previous);
        previous = utc;
    }
    done(r);
}

static void disordered_buffers(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    for (int pairs = 1; pairs <= 2; pairs++) {
        ea_etl_writer *w = begin("disorder.etl", &info);
        for (uint32_t i = 0; i < 20; i++) /* backwards, one by one or in pairs of ties */
            add(w, 1, HEADER_TIME + 100 - (int64_t)(i / (uint32_t)pairs) * 5, i, 30);
        for (uint32_t i = 0; i < 20; i++)
            add(w, 2, HEADER_TIME + (int64_t)i * 7, 100 + i, 30);
        end(w);
        result *r = read_file("disorder.etl");
        assert_int_equal(r->rc, 0);
        assert_int_equal(r->count, 41);
        assert_int_equal(r->disordered, 1);
        if (pairs == 1) { /* the first two records show it: the whole buffer is read for its earliest time */
            assert_canonical(r);
            assert_int_equal(r->late, 0);
        } else { /* nothing showed it: the buffer came too late, is in order in itself, and what is late is counted */
            uint64_t late = 0;
            int64_t latest = INT64_MIN, previous = INT64_MIN;
            for (size_t i = 0; i < r->count; i++) {
                late += r->items[i].time < latest;
                latest = r->items[i].time > latest ? r->items[i].time : latest;
                if (r->items[i].cpu == 1) {
                    assert_true(r->items[i].time >= previous);
                    previous = r->items[i].time;
                }
            }
            assert_true(late > 0);
            assert_int_equal(r->late, late);
        }
        done(r);
    }

    /* without per-processor buffering every buffer may be so, and buffers overlap */
    info.log_file_mode |= EA_ETL_MODE_NO_PER_PROCESSOR;
    ea_etl_writer *w = begin("shared.etl", &info);
    for (uint32_t i = 0; i < 5000; i++)
        add(w, 0, HEADER_TIME + (int64_t)i * 10 - (int64_t)(rng() % 3000), i, (uint16_t)(4 + rng() % 60));
    end(w);
    result *r = read_file("shared.etl");
    assert_int_equal(r->rc, 0);
    assert_int_equal(r->count, 5001);
    assert_true(r->disordered > 30);
    assert_int_equal(r->late, 0);
    assert_int_equal(r->damage_count, 0);
    assert_canonical(r);
    done(r);
}

/* A message without a time is placed where it was written: after the previous record. */
static void records_without_time(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    ea_err err;
    ea_etl_writer *w = begin("wpp.etl", &info);
    uint8_t payload[4];
    ea_record m = {.header_type = EA_HEADER_MESSAGE,
                   .header_word = 0x80,
                   .flags = EA_FLAG_TRACE_MESSAGE | EA_FLAG_CLASSIC_HEADER,
                   .pid = UINT32_MAX,
                   .tid = UINT32_MAX,
                   .pointer_size = 8,
                   .cpu = 1,
                   .logger = 3,
                   .payload = payload,
                   .payload_bytes = 4};
    for (uint32_t i = 0; i < 60; i++) {
        if (i % 3 == 1)
            add(w, 1, HEADER_TIME + i, i, 4);
        else {
            ea_store32(payload, i);
            must(ea_etl_writer_add(w, &m, &err), &err);
        }
        add(w, 2, HEADER_TIME + i, 1000 + i, 4);
    }
    end(w);
    result *r = read_file("wpp.etl");
    assert_clean(r);
    assert_int_equal(r->disordered, 0);
    assert_int_equal(r->count, 121);
    uint32_t next = 0;
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].cpu == 1) {
            assert_int_equal(r->items[i].tag, next);
            assert_int_equal(r->items[i].time, HEADER_TIME + (next == 0 ? 1 : next - (next + 2) % 3));
            next++;
        }
    assert_int_equal(next, 60);
    done(r);
}

static void repack(const char *from, const char *to, uint16_t compression) {
    size_t len;
    uint8_t *data = load(from, &len), *out = malloc(2 * len + 70000);
    assert_non_null(out);
    store(to, out, pack_file(data, len, compression, out));
    free(data);
    free(out);
}

static void compressions(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    info.buffer_size_bytes = 1 << 18; /* more than a block of XPRESS_HUFF */
    make_file("plain.etl", &info, 12000, 1, HEADER_TIME);
    result *plain = read_file("plain.etl");
    assert_clean(plain);
    assert_int_equal(plain->info.compression, 0);
    for (unsigned c = EA_ETL_LZNT1; c <= EA_ETL_XPRESS_HUFF; c++) {
        repack("plain.etl", "packed.etl", (uint16_t)c);
        result *packed = read_file("packed.etl");
        assert_clean(packed);
        assert_int_equal(packed->info.compression, c);
        assert_int_equal(packed->count, plain->count);
        for (size_t i = 1; i < plain->count; i++) /* the first is the header event, whose mode differs */
            assert_int_equal(packed->items[i].hash, plain->items[i].hash);
        done(packed);
    }
    done(plain);
}

/* ---- no traces ---- */

static void refused(void **state) {
    (void)state;
    uint8_t junk[20000];
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (uint8_t)rng();
    store("junk", junk, sizeof junk);
    memset(junk, 0, sizeof junk);
    store("zeros", junk, sizeof junk);
    memset(junk, 'a', sizeof junk);
    store("text", junk, sizeof junk);
    store("short", junk, 100);
    store("empty", junk, 0);
    static const char *const names[] = {"junk", "zeros", "text", "short", "empty"};
    for (size_t i = 0; i < LENGTH(names); i++) {
        result *r = read_file(names[i]);
        assert_int_equal(r->rc, EA_EFORMAT);
        assert_int_equal(r->err.code, EA_EFORMAT);
        assert_non_null(strstr(r->err.message, "expected"));
        assert_null(strchr(r->err.message, '\n'));
        done(r);
    }
    result *r = read_file("missing");
    assert_true(r->rc == EA_ENOTFOUND || r->rc == EA_EIO);
    done(r);
    r = read_paths(NULL, 0, (ea_etl_options){0});
    assert_int_equal(r->rc, EA_EINVAL);
    done(r);
}

/* ---- damage ---- */

/* Every prefix, byte by byte, opens or is refused as no trace. Nothing comes out that was not there; every record of
 * the buffers that are whole does; and it takes its header to be a trace, no more. */
static void prefixes_of(const char *name) {
    size_t len, refused_at = 0;
    uint8_t *data = load(name, &len);
    result *whole = read_file(name);
    ea_file *file;
    ea_err err;
    assert_int_equal(whole->damage_count, 0);
    store("prefix.etl", data, len);
    must(ea_file_open(&file, scratch_path("prefix.etl"), EA_OPEN_APPEND, &err), &err);
    for (size_t cut = len; cut-- > 0;) {
        must(ea_file_truncate(file, cut, &err), &err);
        result *r = read_file("prefix.etl");
        if (r->rc) {
            assert_int_equal(r->rc, EA_EFORMAT);
            assert_non_null(strstr(r->err.message, "expected"));
            assert_true(cut < 1024);
            refused_at = refused_at ? refused_at : cut;
        } else {
            assert_int_equal(refused_at, 0); /* a longer one opens, too */
            assert_int_equal(kept(whole, r), r->count);
            size_t number = 0, at = 0, expected = 0, came = 0;
            for (uint32_t size;
                 at + 4 <= cut && (size = ea_load32(data + at)) >= EA_ETL_HEADER_BYTES && at + size <= cut; at += size)
                number++;
            for (size_t i = 0; i < whole->count; i++)
                expected += whole->items[i].position >> 32 < number;
            for (size_t i = 0; i < r->count; i++)
                came += r->items[i].position >> 32 < number;
            assert_int_equal(came, expected);
        }
        done(r);
    }
    assert_true(refused_at > EA_ETL_HEADER_BYTES);
    ea_file_close(file);
    done(whole);
    free(data);
}

static void prefixes(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    info.buffer_size_bytes = 1024;
    make_file("small.etl", &info, 60, 1, HEADER_TIME);
    prefixes_of("small.etl");
    for (unsigned c = EA_ETL_LZNT1; c <= EA_ETL_XPRESS_HUFF; c++) {
        repack("small.etl", "packed.etl", (uint16_t)c);
        prefixes_of("packed.etl");
    }
}

/* The same of real traces. */
static void prefixes_of_traces(void **state) {
    (void)state;
    static const char *const names[] = {"small-32bit-xpress", "tracelogging-struct"};
    const char *folder = real_traces("unit.etl: every prefix of two real traces");
    for (size_t i = 0; i < LENGTH(names); i++) {
        char path[1024], *data;
        size_t len;
        ea_err err;
        snprintf(path, sizeof path, "%s/%s/trace.etl", folder, names[i]);
        must(ea_path_read_all(path, 1 << 20, &data, &len, &err), &err);
        store("real.etl", (const uint8_t *)data, len);
        free(data);
        prefixes_of("real.etl");
    }
}

typedef struct bent {
    uint8_t *data;
    size_t len;
    result *good; /* before it was bent */
} bent;

static bent take(const char *name) {
    bent b;
    b.good = read_file(name);
    assert_clean(b.good);
    b.data = load(name, &b.len);
    return b;
}

static result *read_bent(const bent *b) {
    store("bent.etl", b->data, b->len);
    result *r = read_file("bent.etl");
    assert_int_equal(r->rc, 0);
    return r;
}

static void put_back(bent *b, result *r) {
    free(b->data);
    done(b->good);
    done(r);
}

/* Where the record with this tag starts in a file of plain buffers. */
static size_t find_tag(const uint8_t *data, size_t len, uint32_t tag) {
    for (size_t at = 72; at + 40 < len; at += 8)
        if (data[at + 3] == 0xc0 && data[at + 2] == EA_HEADER_SYSTEM64 && ea_load32(data + at + 12) == tag &&
            ea_load32(data + at + 32) == tag && ea_load16(data + at + 6) == 0x0501)
            return at;
    fail_msg("no record with tag %u", tag);
    return 0;
}

static void damaged_records(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    make_file("plain.etl", &info, 2000, 1, HEADER_TIME);

    bent b = take("plain.etl"); /* a marker */
    size_t at = find_tag(b.data, b.len, 500);
    uint32_t size = ea_load16(b.data + at + 4);
    b.data[at + 3] = 0x40;
    result *r = read_bent(&b);
    assert_int_equal(r->count, b.good->count - 1);
    assert_int_equal(kept(r, b.good), b.good->count - 1);
    assert_int_equal(r->bad_records, 1);
    assert_int_equal(r->bad_bytes, (size + 7) & ~7u);
    assert_int_equal(r->damage_count, 1);
    assert_int_equal(r->damage[0].offset, at / 4096 * 4096);
    assert_int_equal(r->damage[0].inside, at % 4096);
    assert_canonical(r);
    put_back(&b, r);

    b = take("plain.etl"); /* a size that is too large, too small, and larger than the buffer */
    for (unsigned wrong = 0; wrong < 3; wrong++) {
        at = find_tag(b.data, b.len, 700);
        uint16_t was = ea_load16(b.data + at + 4);
        ea_store16(b.data + at + 4, (uint16_t)(wrong == 0 ? was + 24 : wrong == 1 ? was - 8 : 65000));
        r = read_bent(&b);
        assert_true(kept(r, b.good) >= b.good->count - 2);
        assert_true(r->bad_records >= 1);
        assert_true(r->damage_count >= 1);
        ea_store16(b.data + at + 4, was);
        done(r);
    }
    /* a size that leads over many records to where one begins */
    at = find_tag(b.data, b.len, 900);
    size_t to = at;
    while (to - at < 1200)
        to += (ea_load16(b.data + to + 4) + 7u) & ~7u;
    if (at / 4096 == to / 4096) {
        uint16_t was = ea_load16(b.data + at + 4);
        ea_store16(b.data + at + 4, (uint16_t)(to - at));
        r = read_bent(&b);
        assert_int_equal(r->count, b.good->count - 1);
        assert_int_equal(kept(r, b.good), b.good->count - 1);
        ea_store16(b.data + at + 4, was);
        done(r);
    }
    r = read_bent(&b);
    put_back(&b, r);

    b = take("plain.etl"); /* a time in the far future, in the middle and at the start of a buffer */
    size_t first = 0;
    for (size_t p = 3 * 4096 + 72; !first; p += 4096)
        if (ea_load32(b.data + p - 72 + 0x30) > 200)
            first = p;
    ea_store64(b.data + first + 16, INT64_MAX / 2);
    at = find_tag(b.data, b.len, 1200);
    ea_store64(b.data + at + 16, INT64_MAX / 3);
    r = read_bent(&b);
    assert_int_equal(r->count, b.good->count);
    assert_int_equal(kept(r, b.good), b.good->count - 2);
    assert_int_equal(r->late, 0); /* the others are not held up by it */
    assert_canonical(r);
    put_back(&b, r);
}

/* No order is known of a clock that passes 2^63 ticks: the buffers with such times are counted, and no record is lost.
 */
static void clock_passes_63_bits(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    make_file("plain.etl", &info, 2000, 1, HEADER_TIME);

    enum { BUFFER = 5 };

    static const struct {
        int64_t time;
        unsigned buffers;
    } CASES[] = {{INT64_MAX, 0}, {INT64_MIN + HEADER_TIME, 0}, {INT64_MIN + HEADER_TIME - 1, 1}, {INT64_MIN, 1}};

    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        bent b = take("plain.etl");
        size_t at = BUFFER * 4096 + 72; /* the buffer's first record */
        ea_store64(b.data + at + 16, (uint64_t)CASES[i].time);
        result *r = read_bent(&b);
        assert_int_equal(r->count, b.good->count);
        assert_int_equal(r->bad_buffers, CASES[i].buffers);
        assert_int_equal(r->damage_count, CASES[i].buffers);
        if (CASES[i].buffers) {
            assert_int_equal(r->damage[0].offset, BUFFER * 4096);
            assert_non_null(strstr(r->damage[0].reason, "2^63 ticks"));
        }
        put_back(&b, r);
    }
}

static void damaged_buffers(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    make_file("plain.etl", &info, 2000, 1, HEADER_TIME);
    size_t per_buffer = 0; /* records of buffer 5 */

    enum { BUFFER = 5 };

    size_t base = BUFFER * 4096;

    bent b = take("plain.etl");
    for (size_t i = 0; i < b.good->count; i++)
        per_buffer += b.good->items[i].position >> 32 == BUFFER;
    assert_true(per_buffer > 10);
    memset(b.data + base, 0, 4096); /* a hole */
    result *r = read_bent(&b);
    assert_int_equal(r->count, b.good->count - per_buffer);
    assert_int_equal(kept(r, b.good), r->count);
    assert_int_equal(r->bad_buffers, 1);
    assert_int_equal(r->bad_bytes, 4096);
    assert_int_equal(r->damage_count, 1);
    assert_int_equal(r->damage[0].offset, base);
    assert_int_equal(r->damage[0].bytes, 4096);
    put_back(&b, r);

    b = take("plain.etl"); /* zeros at the end, as in a preallocated file */
    b.data = realloc(b.data, b.len + 40960);
    assert_non_null(b.data);
    memset(b.data + b.len, 0, 40960);
    b.len += 40960;
    r = read_bent(&b);
    assert_int_equal(kept(r, b.good), b.good->count);
    assert_int_equal(r->damage_count, 1);
    assert_int_equal(r->bad_buffers, 10);
    put_back(&b, r);

    b = take("plain.etl"); /* each field of a header in turn: no record is lost, save what it says about itself */

    static const struct {
        unsigned at, value;
    } fields[] = {{0x00, 0x12345}, {0x00, 0},    {0x30, 10},  {0x30, 0x7fffffff},
                  {0x34, 0xff60},  {0x34, 0x40}, {0x36, 0x99}};

    for (size_t i = 0; i < LENGTH(fields); i++) {
        uint32_t was = ea_load32(b.data + base + fields[i].at);
        ea_store32(b.data + base + fields[i].at, fields[i].value | (fields[i].at == 0x34 ? was & 0x20 : 0));
        r = read_bent(&b);
        assert_int_equal(kept(r, b.good), b.good->count);
        assert_int_equal(r->count, b.good->count);
        assert_true(r->damage_count >= 1);
        ea_store32(b.data + base + fields[i].at, was);
        done(r);
    }
    /* a length that cuts a record: the saved one is believed */
    uint32_t was = ea_load32(b.data + base + 0x30);
    ea_store32(b.data + base + 0x30, was / 2 + 4);
    r = read_bent(&b);
    assert_int_equal(kept(r, b.good), b.good->count);
    assert_true(r->damage_count >= 1);
    put_back(&b, r);

    b = take("plain.etl"); /* swapped buffers: order comes from time */
    uint8_t *spare = malloc(4096);
    assert_non_null(spare);
    memcpy(spare, b.data + base, 4096);
    memcpy(b.data + base, b.data + base + 8192, 4096);
    memcpy(b.data + base + 8192, spare, 4096);
    free(spare);
    r = read_bent(&b);
    assert_int_equal(kept(r, b.good), b.good->count);
    assert_int_equal(r->count, b.good->count);
    assert_int_equal(r->late, 0);
    assert_int_equal(r->damage_count, 0);
    put_back(&b, r);

    b = take("plain.etl"); /* a repeated buffer is there twice */
    memcpy(b.data + base + 4096, b.data + base, 4096);
    r = read_bent(&b);
    assert_int_equal(r->late, 0);
    assert_canonical(r);
    put_back(&b, r);

    b = take("plain.etl"); /* every NUL made a space, as a bad transfer does, in two buffers */
    for (size_t i = base; i < base + 8192; i++)
        if (b.data[i] == 0)
            b.data[i] = ' ';
    r = read_bent(&b);
    assert_true(kept(r, b.good) >= b.good->count - 200);
    assert_true(r->damage_count >= 1);
    put_back(&b, r);
}

static void damaged_file_header(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    make_file("plain.etl", &info, 500, 1, HEADER_TIME);
    info.compression = EA_ETL_XPRESS;
    make_file("packed.etl", &info, 500, 1, HEADER_TIME);
    static const char *const names[] = {"plain.etl", "packed.etl"};
    /* sizes, marker, version, pointer size, flags: one of them is always forgiven */
    static const size_t places[] = {0, 1, 3, 0x30, 0x34, 72 + 2, 72 + 3, 72 + 6, 104, 105, 108, 104 + 44, 104 + 47};
    for (size_t n = 0; n < LENGTH(names); n++) {
        bent b = take(names[n]);
        for (size_t i = 0; i < LENGTH(places); i++) {
            b.data[places[i]] ^= 0xff;
            result *r = read_bent(&b);
            if (kept(r, b.good) + 1 < b.good->count)
                fail_msg("%s, byte %zu: %zu of %zu", names[n], places[i], kept(r, b.good), b.good->count);
            b.data[places[i]] ^= 0xff;
            done(r);
        }
        result *r = read_bent(&b);
        put_back(&b, r);
    }
}

static void damaged_compression(void **state) {
    (void)state;
    ea_etl_info info = plain_info();
    info.buffer_size_bytes = 65536;
    info.compression = EA_ETL_XPRESS;
    make_file("packed.etl", &info, 6000, 1, HEADER_TIME);
    bent b = take("packed.etl");
    size_t total = 0, saved = 0, rounds = 40;
    for (size_t i = 0; i < rounds; i++) {
        size_t at = 5000 + rng() % (b.len - 5000);
        uint8_t was = b.data[at];
        b.data[at] = (uint8_t)(was ^ (1 + rng() % 255));
        result *r = read_bent(&b);
        total += b.good->count;
        saved += kept(r, b.good);
        assert_true(r->count <= b.good->count);
        done(r);
        b.data[at] = was;
    }
    assert_true(saved * 100 >= total * 97);

    /* a wrong size in a header: the next header is searched, and the buffer is as long as it takes */
    size_t first = ea_load32(b.data), second = first + ea_load32(b.data + first);
    static const uint32_t wrong[] = {0, 73, 5000, 1 << 25, UINT32_MAX};
    for (size_t i = 0; i < LENGTH(wrong); i++) {
        uint32_t was = ea_load32(b.data + second);
        ea_store32(b.data + second, wrong[i]);
        result *r = read_bent(&b);
        assert_int_equal(kept(r, b.good), b.good->count);
        assert_true(r->damage_count >= 1);
        ea_store32(b.data + second, was);
        done(r);
    }
    /* mending can be forbidden */
    size_t at = second + 72 + 300;
    uint8_t was = b.data[at];
    b.data[at] ^= 0x55;
    store("bent.etl", b.data, b.len);
    const char *path = scratch_path("bent.etl");
    result *mended = read_paths(&path, 1, (ea_etl_options){0});
    result *left = read_paths(&path, 1, (ea_etl_options){.no_mending = 1});
    assert_true(kept(left, b.good) <= kept(mended, b.good));
    done(left);
    b.data[at] = was;
    put_back(&b, mended);
}

static int setup(void **state) {
    return scratch_make(state);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernel_headers),
        cmocka_unit_test(other_headers),
        cmocka_unit_test(extended_items),
        cmocka_unit_test(messages),
        cmocka_unit_test(group_guids),
        cmocka_unit_test_setup_teardown(merged_order, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(many_files_and_cpus, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(decoding_again_has_a_limit, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(merged_sessions_are_decoded_once, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(info_and_clocks, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(merged_by_utc, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(disordered_buffers, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(records_without_time, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(compressions, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(refused, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(prefixes, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(prefixes_of_traces, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(damaged_records, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(clock_passes_63_bits, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(damaged_buffers, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(damaged_file_header, setup, scratch_clear),
        cmocka_unit_test_setup_teardown(damaged_compression, setup, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
