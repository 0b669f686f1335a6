/* proto/etl, writing: what is written reads back equal, for made-up records of every form and for every real trace. */
#include "proto/base/platform.h"
#include "tests/unit/etl_samples.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "tests/unit/real_traces.h"

static void records_round_trip(void **state) {
    (void)state;
    rng_state = 31;
    static sample s;
    for (int i = 0; i < 60000; i++) {
        make_sample(&s, TYPES[(size_t)i % LENGTH(TYPES)]);
        uint8_t bytes[4096];
        size_t n, again;
        ea_err err;
        assert_int_equal(ea_etl_encode_record(&s.r, bytes, sizeof bytes, &n, &err), 0);
        assert_int_equal(ea_etl_record_bytes(bytes, (uint32_t)n), n);
        ea_record back;
        ea_ext ext[EA_EXT_MAX];
        assert_int_equal(ea_etl_fill_record(&back, ext, bytes, (uint32_t)n, s.r.pointer_size), 0);
        back.time_raw = ea_etl_record_time(bytes, 0);
        assert_true(ea_record_equal(&s.r, &back));
        uint8_t second[4096];
        assert_int_equal(ea_etl_encode_record(&back, second, sizeof second, &again, &err), 0);
        assert_int_equal(again, n);
        assert_memory_equal(bytes, second, n);
        /* A buffer that is one byte too small is an error, and no byte after the buffer is written. */
        bytes[n - 1] ^= 0xFF;
        uint8_t kept = bytes[n - 1];
        assert_int_equal(ea_etl_encode_record(&s.r, bytes, n - 1, &again, &err), EA_ELIMIT);
        assert_int_equal(bytes[n - 1], kept);
    }
}

static void records_refused(void **state) {
    (void)state;
    static uint8_t out[EA_ETL_RECORD_MAX_BYTES], payload[EA_ETL_RECORD_MAX_BYTES];
    ea_err err;
    size_t n = 77;
    ea_ext items[2] = {{.type = EA_EXT_PMC_COUNTERS, .size_bytes = 16, .data = payload},
                       {.type = EA_EXT_SID, .size_bytes = 12, .data = payload}};
    ea_record perfinfo = {.header_type = EA_HEADER_PERFINFO64, .header_word = 0x0302, .ext = items, .ext_count = 1};
    assert_int_equal(ea_etl_encode_record(&perfinfo, out, sizeof out, &n, &err), EA_EINVAL); /* promises three */
    perfinfo.header_word = 0x8202;
    assert_int_equal(ea_etl_encode_record(&perfinfo, out, sizeof out, &n, &err), EA_EINVAL); /* promises PEBS */
    perfinfo.header_word = 0x0002;
    assert_int_equal(ea_etl_encode_record(&perfinfo, out, sizeof out, &n, &err), EA_EINVAL); /* promises none */
    perfinfo.header_word = 0x0202;
    assert_int_equal(ea_etl_encode_record(&perfinfo, out, sizeof out, &n, &err), 0);
    assert_int_equal(n, 32);
    perfinfo.ext_count = 0;
    perfinfo.payload = payload;
    perfinfo.payload_bytes = 16; /* would read back as counters */
    assert_int_equal(ea_etl_encode_record(&perfinfo, out, sizeof out, &n, &err), EA_EINVAL);
    ea_record system = {.header_type = EA_HEADER_SYSTEM64, .ext = items, .ext_count = 1};
    assert_int_equal(ea_etl_encode_record(&system, out, sizeof out, &n, &err), EA_EINVAL);
    ea_record instance = {.header_type = EA_HEADER_INSTANCE64};
    assert_int_equal(ea_etl_encode_record(&instance, out, sizeof out, &n, &err), EA_EINVAL);
    ea_record event = {.header_type = EA_HEADER_EVENT64, .ext = items, .ext_count = 2};
    assert_int_equal(ea_etl_encode_record(&event, out, sizeof out, &n, &err), EA_EINVAL); /* flags say none */
    event.flags = EA_FLAG_EXTENDED_INFO;
    event.payload = payload;
    event.payload_bytes = 65535;
    assert_int_equal(ea_etl_encode_record(&event, out, sizeof out, &n, &err), EA_ELIMIT);
    event.ext_count = 0;
    event.flags = 0;
    event.payload_bytes = 65535 - 80;
    assert_int_equal(ea_etl_encode_record(&event, out, sizeof out, &n, &err), 0);
    assert_int_equal(n, 65535);
    ea_record unknown = {.header_type = 9};
    assert_int_equal(ea_etl_encode_record(&unknown, out, sizeof out, &n, &err), EA_EINVAL);

    /* A record of a live session has no header type. The writer chooses the same type as Windows. */
    ea_record live = {.flags = EA_FLAG_64_BIT_HEADER, .pointer_size = 8};
    assert_int_equal(ea_etl_encode_record(&live, out, sizeof out, &n, &err), 0);
    assert_int_equal(out[2], EA_HEADER_EVENT64);
    live.flags = EA_FLAG_32_BIT_HEADER | EA_FLAG_CLASSIC_HEADER;
    live.pointer_size = 4;
    live.version = 3;
    assert_int_equal(ea_etl_encode_record(&live, out, sizeof out, &n, &err), 0);
    assert_int_equal(out[2], EA_HEADER_FULL32);
    assert_int_equal(ea_load16(out + 6), 3);
}

/* ---- compression ---- */

typedef struct codec {
    size_t (*bound)(size_t in_bytes);
    size_t (*compress)(const uint8_t *in, size_t in_bytes, uint8_t *out);
    int (*decompress)(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes, size_t *ret_bytes);
} codec;

static const codec CODECS[] = {{ea_xpress_bound, ea_xpress_compress, ea_xpress_decompress},
                               {ea_lznt1_bound, ea_lznt1_compress, ea_lznt1_decompress},
                               {ea_xpress_huff_bound, ea_xpress_huff_compress, ea_xpress_huff_decompress}};

static void check_codec(const codec *c, const uint8_t *in, size_t n) {
    size_t bound = c->bound(n), got = 0;
    uint8_t *packed = malloc(bound), *back = malloc(n + 1);
    assert_non_null(packed);
    assert_non_null(back);
    size_t used = c->compress(in, n, packed);
    assert_true(used <= bound);
    if (n) { /* a size of 0 is never requested */
        int rc = c->decompress(packed, used, back, n, &got);
        if (rc || got != n || memcmp(in, back, n) != 0)
            fail_msg("codec %zu: %zu bytes, %d, %zu came back", (size_t)(c - CODECS), n, rc, got);
    }
    free(packed);
    free(back);
}

static void compress_all(const codec *c) {
    enum { N = 300000 };

    uint8_t *in = malloc(N);
    assert_non_null(in);
    rng_state = 41;
    for (size_t n = 0; n < 400; n++) {
        for (size_t i = 0; i < n; i++)
            in[i] = (uint8_t)(rng() % 3);
        check_codec(c, in, n);
    }
    /* runs of every length class: in the token, a nibble, a byte, 16 bits, 32 bits */
    static const size_t runs[] = {1,   2,   3,   4,     8,     9,     10,    11,     24,     25,    26,
                                  279, 280, 281, 65537, 65538, 65539, 65560, 131072, 200000, 65536, 70000};
    for (size_t i = 0; i < LENGTH(runs); i++) {
        memset(in, 'r', runs[i]);
        check_codec(c, in, runs[i]);
        in[0] = 'x';
        in[runs[i] - 1] = 'y';
        check_codec(c, in, runs[i]);
    }
    for (size_t i = 0; i < N; i++)
        in[i] = (uint8_t)rng(); /* nothing to find */
    check_codec(c, in, N);
    for (size_t i = 0; i < N; i++)
        in[i] =
            i >= 8192 && i % 100 < 90 ? in[i - (i % 700 < 350 ? 8192 : 8191)] : (uint8_t)rng(); /* the window's edge */
    check_codec(c, in, N);
    for (size_t i = 0; i < N; i++)
        in[i] = (uint8_t)("event payloads repeat, "[i % 23] + (i / 1000) % 2);
    size_t bound = c->bound(N);
    uint8_t *packed = malloc(bound);
    assert_non_null(packed);
    assert_true(c->compress(in, N, packed) < N / 5); /* LZNT1's matches are short in the second half of a chunk */
    free(packed);
    check_codec(c, in, N);
    /* weights that want codes of more than 15 bits: each byte twice as often as the one before it */
    size_t at = 0;
    for (unsigned k = 0; k < 18; k++)
        for (size_t i = 0; i < (size_t)1 << k && at < N; i++)
            in[at++] = (uint8_t)k;
    for (size_t i = 0; i < at; i++) { /* shuffled: no matches */
        size_t other = i + (size_t)(rng() % (at - i));
        uint8_t byte = in[i];
        in[i] = in[other];
        in[other] = byte;
    }
    check_codec(c, in, at);
    free(in);
}

static void compression(void **state) {
    (void)state;
    for (size_t i = 0; i < LENGTH(CODECS); i++)
        compress_all(&CODECS[i]);
}

/* ---- files ---- */

/* Records kept apart from any source. */
typedef struct kept_record {
    ea_record r;
    size_t order;
} kept_record;

typedef struct kept {
    kept_record *items;
    size_t count, capacity;
} kept;

static void *copy_bytes(const void *data, size_t n) {
    void *p = malloc(n ? n : 1);
    assert_non_null(p);
    if (n)
        memcpy(p, data, n);
    return p;
}

static void keep(kept *k, const ea_record *r) {
    if (k->count == k->capacity) {
        k->capacity = k->capacity ? k->capacity * 2 : 1024;
        k->items = realloc(k->items, k->capacity * sizeof *k->items);
        assert_non_null(k->items);
    }
    kept_record *item = &k->items[k->count];
    *item = (kept_record){.r = *r, .order = k->count};
    item->r.payload = copy_bytes(r->payload, r->payload_bytes);
    ea_ext *ext = copy_bytes(r->ext, r->ext_count * sizeof *r->ext);
    for (unsigned i = 0; i < r->ext_count; i++)
        ext[i].data = copy_bytes(r->ext[i].data, r->ext[i].size_bytes);
    item->r.ext = ext;
    k->count++;
}

static void drop(kept *k) {
    for (size_t i = 0; i < k->count; i++) {
        ea_record *r = &k->items[i].r;
        for (unsigned e = 0; e < r->ext_count; e++)
            free((void *)(uintptr_t)r->ext[e].data);
        free((void *)(uintptr_t)r->ext);
        free((void *)(uintptr_t)r->payload);
    }
    free(k->items);
    *k = (kept){0};
}

static void read_all(const char *path, kept *k, ea_etl_info *info) {
    ea_err err = {0};
    ea_etl_set *set;
    int rc = ea_etl_open(&set, &path, 1, NULL, &err);
    if (rc)
        fail_msg("%s", err.message);
    if (info) {
        *info = *ea_etl_file_info(set, 0);
        info->path = NULL;
        info->session_name = copy_bytes(info->session_name, strlen(info->session_name) + 1);
        info->log_file_name = copy_bytes(info->log_file_name, strlen(info->log_file_name) + 1);
    }
    const ea_record *r;
    while ((rc = ea_etl_next(set, &r, &err)) > 0)
        keep(k, r);
    assert_int_equal(rc, 0);
    ea_etl_close(set);
}

static void free_names(ea_etl_info *info) {
    free(info->session_name);
    free(info->log_file_name);
}

static int canonical(const void *a, const void *b) {
    const kept_record *x = a, *y = b;
    if (x->r.time_raw != y->r.time_raw)
        return x->r.time_raw < y->r.time_raw ? -1 : 1;
    if (x->r.cpu != y->r.cpu)
        return x->r.cpu < y->r.cpu ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static const char *const WRITTEN = "test-etl-writer.etl";

/* Of all made-up files: changes when the writer or the samples do. */
static const uint64_t MADE_UP_HASH = 0xdadb83936a33498d;

static void keep_it(void *arg, const ea_record *r) {
    keep(arg, r);
}

/* FNV-1a of a file. */
static uint64_t file_hash(const char *path) {
    char *data;
    size_t n;
    ea_err err;
    uint64_t h = 0xcbf29ce484222325u;
    assert_int_equal(ea_path_read_all(path, (size_t)64 << 20, &data, &n, &err), 0);
    for (size_t i = 0; i < n; i++)
        h = (h ^ (uint8_t)data[i]) * 0x100000001b3u;
    free(data);
    return h;
}

static void made_up_files(void **state) {
    (void)state;
    uint64_t all = 0;
    for (unsigned number = 0; number < MADE_UP_FILES; number++) {
        ea_err err = {0};
        made_up m;
        kept wrote = {0}, got = {0};
        if (made_up_write(WRITTEN, number, &m, keep_it, &wrote, &err))
            fail_msg("file %u: %s", number, err.message);
        all = (all ^ file_hash(WRITTEN)) * 0x100000001b3u;
        const ea_etl_info *info = &m.info;
        ea_etl_info back;
        read_all(WRITTEN, &got, &back);
        assert_int_equal(back.buffer_count, m.buffers);
        assert_int_equal(back.buffers_written, m.buffers);
        assert_int_equal(back.buffer_size_bytes, info->buffer_size_bytes ? info->buffer_size_bytes : 65536);
        assert_int_equal(back.os_version, info->os_version);
        assert_int_equal(back.os_build, info->os_build);
        assert_int_equal(back.cpu_count, info->cpu_count);
        assert_int_equal(back.timer_resolution, info->timer_resolution);
        assert_int_equal(back.max_file_size_mib, info->max_file_size_mib);
        assert_int_equal(back.log_file_mode, info->log_file_mode);
        assert_int_equal(back.start_buffers, info->start_buffers);
        assert_int_equal(back.pointer_size, info->pointer_size);
        assert_int_equal(back.cpu_mhz, info->cpu_mhz);
        assert_int_equal(back.bias_minutes, info->bias_minutes);
        assert_int_equal(back.time_zone[5], 'z');
        assert_true(back.name_pointers[0] == 9 && back.name_pointers[1] == 0);
        assert_true(back.boot_filetime == info->boot_filetime && back.start_filetime == info->start_filetime);
        assert_true(back.perf_frequency == info->perf_frequency && back.end_filetime == m.end.end_filetime);
        assert_int_equal(back.clock_type, info->clock_type);
        assert_int_equal(back.events_lost, m.events_lost);
        assert_int_equal(back.buffers_lost, m.buffers_lost);
        assert_true(m.events_lost == 17 && m.buffers_lost == 7);
        if (info->compression)
            assert_int_equal(back.compression, info->compression);
        assert_string_equal(back.session_name, info->session_name);
        assert_string_equal(back.log_file_name, info->log_file_name);
        free_names(&back);

        assert_int_equal(got.count, wrote.count + m.header_records);
        assert_int_equal(got.items[0].r.hook_id, 0); /* the header event */
        for (uint32_t i = 0; i < m.header_records; i++) {
            assert_true(got.items[i].r.time_raw == MADE_UP_START);
            assert_int_equal(got.items[i].r.pid, 4);
        }
        qsort(wrote.items, wrote.count, sizeof *wrote.items, canonical);
        for (size_t i = 0; i < wrote.count; i++)
            if (!ea_record_equal(&wrote.items[i].r, &got.items[i + m.header_records].r))
                fail_msg("file %u: record %zu differs", number, i);
        drop(&wrote);
        drop(&got);
    }
    ea_err err;
    assert_int_equal(ea_path_remove(WRITTEN, &err), 0);
    /* the same on every compiler: this is run under gcc, clang and their sanitizers */
    if (all != MADE_UP_HASH)
        fail_msg("the files' bytes have the hash 0x%016llx: other bytes than before, or than another compiler's",
                 (unsigned long long)all);
}

static void files_refused(void **state) {
    (void)state;
    static char none[] = "";
    ea_etl_info info = {
        .session_name = none, .log_file_name = none, .buffer_size_bytes = 1024, .os_version = 6 | 1 << 8};
    ea_etl_writer_options options = {.info = &info};
    ea_err err;
    ea_etl_writer *w;
    info.buffer_size_bytes = 1000;
    assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), EA_EINVAL);
    info.buffer_size_bytes = 1024;
    info.pointer_size = 5;
    assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), EA_EINVAL);
    info.pointer_size = 0;
    info.compression = 5;
    assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), EA_EUNSUPPORTED);
    info.compression = 1;
    assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), EA_EUNSUPPORTED);
    info.compression = 0;
    options.held_buffers = EA_ETL_HELD_BUFFERS_MAX + 1;
    assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), EA_EINVAL);
    options.held_buffers = 0;
    assert_int_not_equal(ea_etl_writer_create(&w, "no/such/folder/x.etl", &options, &err), 0);
    assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), 0);
    static const uint8_t payload[2000];
    ea_record r = {.header_type = EA_HEADER_SYSTEM64, .payload = payload, .payload_bytes = 2000};
    assert_int_equal(ea_etl_writer_add(w, &r, &err), EA_ELIMIT);
    r.payload_bytes = 1024 - 72 - 32;
    assert_int_equal(ea_etl_writer_add(w, &r, &err), 0); /* fills a buffer to its last byte */
    assert_int_equal(ea_etl_writer_add(w, &r, &err), 0);
    r.cpu = 256; /* Windows 7 has one byte for it */
    assert_int_equal(ea_etl_writer_add(w, &r, &err), EA_EINVAL);
    assert_int_equal(ea_etl_writer_records(w), 3);
    ea_etl_writer_destroy(w); /* without a finish: as after a crash, what was written out can be read */
    kept got = {0};
    read_all(WRITTEN, &got, NULL);
    assert_int_equal(got.count, 2);
    drop(&got);
    assert_int_equal(ea_path_remove(WRITTEN, &err), 0);
}

/* ---- real traces ---- */

typedef struct walker {
    void (*visit)(const char *path);
    const char *folder;
    unsigned files;
} walker;

static int visit_file(const char *name, int is_dir, void *arg) {
    walker *w = arg;
    size_t n = strlen(name);
    char path[1024];
    if (is_dir || n < 4 || strcmp(name + n - 4, ".etl") != 0)
        return 0;
    snprintf(path, sizeof path, "%s/%s", w->folder, name);
    w->visit(path);
    w->files++;
    return 0;
}

static int visit_folder(const char *name, int is_dir, void *arg) {
    walker *w = arg;
    char path[900];
    ea_err err;
    if (!is_dir)
        return 0;
    const char *top = w->folder;
    snprintf(path, sizeof path, "%s/%s", top, name);
    w->folder = path;
    int rc = ea_path_list(path, visit_file, w, &err);
    w->folder = top;
    return rc;
}

static void for_each_trace(const char *what, void (*visit)(const char *path)) {
    walker w = {.visit = visit, .folder = real_traces(what)};
    ea_err err = {0};
    assert_int_equal(ea_path_list(w.folder, visit_folder, &w, &err), 0);
    assert_true(w.files >= 18);
}

/* Read, write with and without compression, read again: the same records in the same order. */
static void copy_trace(const char *path) {
    kept original = {0};
    ea_etl_info info;
    read_all(path, &original, &info);
    const ea_record *header = NULL;
    for (size_t i = 0; i < original.count && !header; i++)
        if (original.items[i].r.hook_id == 0 && original.items[i].r.header_type <= EA_HEADER_SYSTEM64)
            header = &original.items[i].r;
    assert_non_null(header);
    if (info.buffer_size_bytes < 128 * 1024)
        info.buffer_size_bytes = 128 * 1024; /* a compressed buffer may expand beyond the size that its file names */
    for (int compressed = 0; compressed < 2; compressed++) {
        ea_err err = {0};
        ea_etl_writer *w;
        ea_etl_writer_options options = {.info = &info, .header = header};
        ea_etl_writer_end end = {0};
        info.compression = compressed ? 3 : 0;
        assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), 0);
        for (size_t i = 0; i < original.count; i++)
            if (&original.items[i].r != header && ea_etl_writer_add(w, &original.items[i].r, &err))
                fail_msg("%s: record %zu: %s", path, i, err.message);
        assert_int_equal(ea_etl_writer_finish(w, &end, &err), 0);
        assert_int_equal(ea_etl_writer_records(w), original.count);
        ea_etl_writer_destroy(w);
        kept copy = {0};
        read_all(WRITTEN, &copy, NULL);
        assert_int_equal(copy.count, original.count);
        for (size_t i = 0; i < copy.count; i++)
            if (!ea_record_equal(&original.items[i].r, &copy.items[i].r))
                fail_msg("%s: record %zu differs in the copy", path, i);
        drop(&copy);
    }
    drop(&original);
    free_names(&info);
    ea_err err;
    assert_int_equal(ea_path_remove(WRITTEN, &err), 0);
}

static void traces_copied(void **state) {
    (void)state;
    for_each_trace("unit.etl_writer: real traces copied, with and without compression", copy_trace);
}

/* Every buffer header, record and trace header of a real trace is read and written again. The result is identical to
 * the bytes of the file (in its decompressed buffers). */
static void same_bytes(const char *path) {
    ea_err err = {0};
    ea_etl_file file = {0};
    ea_etl_index index = {0};
    ea_etl_buffer buffer = {0};
    ea_etl_scratch scratch = {0};
    file.info.path = copy_bytes(path, strlen(path) + 1);
    assert_int_equal(ea_file_open(&file.handle, path, EA_OPEN_READ, &err), 0);
    assert_int_equal(ea_etl_read_header(&file, &err), 0);
    assert_int_equal(ea_file_size(file.handle, &file.info.file_bytes, &err), 0);
    assert_int_equal(ea_etl_index_file(&index, &file, 0, NULL, &err), 0);
    unsigned long records = 0;
    for (size_t b = 0; b < index.count; b++) {
        assert_int_equal(ea_etl_decode(&file, &index.entries[b], 0, &buffer, &scratch, NULL, &err), 0);
        uint8_t there[EA_ETL_HEADER_BYTES], again[EA_ETL_HEADER_BYTES];
        ea_etl_buffer_header header;
        size_t got;
        assert_int_equal(ea_file_read_at(file.handle, index.entries[b].offset, there, EA_ETL_HEADER_BYTES, &got, &err),
                         0);
        assert_int_equal(got, EA_ETL_HEADER_BYTES);
        ea_etl_parse_buffer_header(there, &header);
        memset(again, 0xEE, sizeof again);
        ea_etl_put_buffer_header(again, &header);
        if (memcmp(there, again, sizeof there) != 0)
            fail_msg("%s: the header of buffer %zu differs from the file's bytes", path, b);
        uint32_t records_end = EA_ETL_HEADER_BYTES;
        for (uint32_t i = 0; i < buffer.walk.count; i++) {
            static uint8_t out[EA_ETL_RECORD_MAX_BYTES];
            const uint8_t *p = buffer.data + buffer.walk.offsets[i];
            uint32_t n = ea_etl_record_bytes(p, buffer.used_bytes - buffer.walk.offsets[i]);
            ea_record r;
            ea_ext ext[EA_EXT_MAX];
            size_t wrote;
            assert_int_equal(ea_etl_fill_record(&r, ext, p, n, (uint8_t)file.info.pointer_size), 0);
            r.time_raw = ea_etl_record_time(p, 0);
            assert_int_equal(ea_etl_encode_record(&r, out, sizeof out, &wrote, &err), 0);
            if (wrote != n || memcmp(out, p, n) != 0)
                fail_msg("%s: buffer %zu, record at %u differs from the file's bytes", path, b, buffer.walk.offsets[i]);
            assert_int_equal(buffer.walk.offsets[i], records_end); /* the records are adjacent: no byte is skipped */
            records_end += (n + 7) & ~7u;
            if (b == 0 && i == 0) {
                size_t len = ea_etl_put_info(&file.info, out, sizeof out);
                if (len != r.payload_bytes || memcmp(out, r.payload, len) != 0)
                    fail_msg("%s: the trace header differs from the file's bytes", path);
            }
            records++;
        }
        assert_in_range(buffer.used_bytes, records_end - 7, records_end);
    }
    assert_true(records > 0);
    ea_etl_buffer_deinit(&buffer);
    free(scratch.data);
    free(index.entries);
    ea_file_close(file.handle);
    ea_etl_info_deinit(&file.info);
}

/* Builds the first buffer of a trace from the values of its header and the type of the session that wrote it. The
 * result is identical to the buffer in the file, except for the fields that are known only at the end. */
static void same_first_buffer(const char *path, enum ea_etl_session session, int merged) {
    static uint8_t there[8192], made[8192];
    ea_err err = {0};
    ea_etl_file file = {0};
    ea_etl_buffer_header h;
    ea_etl_writer *w;
    size_t got;
    file.info.path = copy_bytes(path, strlen(path) + 1);
    assert_int_equal(ea_file_open(&file.handle, path, EA_OPEN_READ, &err), 0);
    assert_int_equal(ea_etl_read_header(&file, &err), 0);
    assert_int_equal(ea_file_read_at(file.handle, 0, there, sizeof there, &got, &err), 0);
    ea_etl_parse_buffer_header(there, &h);
    assert_true(h.used_bytes <= got);
    const uint8_t *event = there + EA_ETL_HEADER_BYTES;
    if (!(file.info.log_file_mode & EA_ETL_MODE_COMPRESSED))
        file.info.compression = 0;
    ea_etl_writer_options options = {.info = &file.info,
                                     .start_raw = (int64_t)ea_load64(event + 16),
                                     .tid = ea_load32(event + 8),
                                     .pid = ea_load32(event + 12),
                                     .kernel_time = ea_load32(event + 24),
                                     .user_time = ea_load32(event + 28),
                                     .session = session,
                                     .merged = merged};
    assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), 0);
    ea_etl_writer_destroy(w);
    ea_file *f;
    assert_int_equal(ea_file_open(&f, WRITTEN, EA_OPEN_READ, &err), 0);
    assert_int_equal(ea_file_read_at(f, 0, made, h.used_bytes, &got, &err), 0);
    ea_file_close(f);
    assert_int_equal(got, h.used_bytes);
    /* end time, buffers written, events lost, buffers lost */
    size_t fields = EA_ETL_HEADER_BYTES + 32, lost = fields + (file.info.pointer_size == 8 ? 276 : 268);
    const size_t late[][2] = {{fields + 16, 8}, {fields + 36, 4}, {fields + 48, 4}, {lost, 4}};
    for (size_t i = 0; i < LENGTH(late); i++)
        memset(there + late[i][0], 0, late[i][1]), memset(made + late[i][0], 0, late[i][1]);
    /* a 32-bit program left stale memory in the padding after its only record */
    size_t end = session == EA_ETL_HEADER_ALONE ? EA_ETL_HEADER_BYTES + (size_t)ea_load16(event + 4) : h.used_bytes;
    for (size_t i = 0; i < end; i++)
        if (there[i] != made[i])
            fail_msg("%s: byte %zu of the first buffer is 0x%02x, in the file 0x%02x", path, i, made[i], there[i]);
    ea_file_close(file.handle);
    ea_etl_info_deinit(&file.info);
}

static void first_buffers(void **state) {
    (void)state;

    static const struct {
        const char *trace;
        enum ea_etl_session session;
        int merged;
    } traces[] = {
        {"http-server-win7/trace.etl", EA_ETL_USER_SESSION, 0}, /* Windows 7 */
        {"kernel-network-provider/trace.etl", EA_ETL_USER_SESSION, 0},
        {"kernel-process-provider/trace.etl", EA_ETL_USER_SESSION, 0},
        {"clr-kernel-win8-x64/trace.etl", EA_ETL_HEADER_ALONE, 1}, /* Windows 8, compressed */
        {"amsi-eventslost/trace.etl", EA_ETL_USER_SESSION, 0},     /* Windows 10 */
        {"shutdown-win10/trace.etl", EA_ETL_KERNEL_SESSION, 0},
        {"clr-gc-events/trace.etl", EA_ETL_USER_SESSION, 0},
        {"tracelogging-primitive-types/trace.etl", EA_ETL_USER_SESSION, 0},
        {"lxcore-tracelogging/trace.etl", EA_ETL_USER_SESSION, 0},
        {"diagsession-four-files/diaghub.etl", EA_ETL_HEADER_ALONE, 1},
        {"small-32bit-xpress/trace.etl", EA_ETL_HEADER_ALONE, 1},
        {"tracelogging-struct/trace.etl", EA_ETL_USER_SESSION, 1}, /* Windows 11 */
    };

    const char *folder = real_traces("unit.etl_writer: the first buffers of twelve real traces");
    char path[1024];
    for (size_t i = 0; i < LENGTH(traces); i++) {
        snprintf(path, sizeof path, "%s/%s", folder, traces[i].trace);
        same_first_buffer(path, traces[i].session, traces[i].merged);
    }
    ea_err err;
    assert_int_equal(ea_path_remove(WRITTEN, &err), 0);
}

static void traces_byte_for_byte(void **state) {
    (void)state;
    for_each_trace("unit.etl_writer: real traces written again byte for byte", same_bytes);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_round_trip),   cmocka_unit_test(records_refused), cmocka_unit_test(compression),
        cmocka_unit_test(made_up_files),        cmocka_unit_test(files_refused),   cmocka_unit_test(traces_copied),
        cmocka_unit_test(traces_byte_for_byte), cmocka_unit_test(first_buffers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
