/* proto/etl, writing: what is written reads back equal, for made-up records of every form and for every real trace. */
#include "etl_writer.h"
#include "layout.h"
#include "platform.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#define LENGTH(a) (sizeof(a) / sizeof *(a))

static uint64_t rng_state;
static uint64_t rng(void) {
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return rng_state * 0x2545F4914F6CDD1Du;
}

/* ---- records ---- */

/* A made-up record with all that its header form can hold; the buffers belong to the caller. */
typedef struct sample {
    ea_record r;
    ea_ext ext[4];
    uint8_t data[4][96];
    uint8_t payload[512];
} sample;

static void add_item(sample *s, uint16_t type, uint32_t size_bytes) {
    ea_ext *x = &s->ext[s->r.ext_count];
    *x = (ea_ext){.type = type, .size_bytes = size_bytes, .data = s->data[s->r.ext_count]};
    s->r.ext_count++;
}

static void make_sample(sample *s, uint8_t type) {
    for (size_t i = 0; i < sizeof s->payload; i++)
        s->payload[i] = (uint8_t)rng();
    for (size_t i = 0; i < LENGTH(s->data); i++)
        for (size_t k = 0; k < sizeof s->data[i]; k++)
            s->data[i][k] = (uint8_t)rng();
    ea_record *r = &s->r;
    *r = (ea_record){.header_type = type,
                     .time_raw = (int64_t)rng(),
                     .pid = UINT32_MAX,
                     .tid = UINT32_MAX,
                     .ext = s->ext,
                     .payload = s->payload,
                     .payload_bytes = (uint16_t)(rng() % sizeof s->payload)};
    int narrow = type == EA_HEADER_SYSTEM32 || type == EA_HEADER_COMPACT32 || type == EA_HEADER_PERFINFO32 ||
                 type == EA_HEADER_FULL32 || type == EA_HEADER_INSTANCE32 || type == EA_HEADER_EVENT32;
    r->pointer_size = narrow ? 4 : 8;
    uint16_t width = narrow ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER;
    switch (type) {
    case EA_HEADER_SYSTEM32:
    case EA_HEADER_SYSTEM64:
        r->kernel_time = (uint32_t)rng();
        r->user_time = (uint32_t)rng();
        /* fall through */
    case EA_HEADER_COMPACT32:
    case EA_HEADER_COMPACT64:
        r->tid = (uint32_t)rng();
        r->pid = (uint32_t)rng();
        /* fall through */
    case EA_HEADER_PERFINFO32:
    case EA_HEADER_PERFINFO64:
        r->hook_id = (uint16_t)((rng() % 28) << 8 | (rng() & 0xFF));
        r->header_word = (uint16_t)rng();
        r->opcode = (uint8_t)r->hook_id;
        r->version = (uint8_t)r->header_word;
        r->provider = *ea_etl_group_guid(r->hook_id);
        r->flags = EA_FLAG_CLASSIC_HEADER | width;
        if (type == EA_HEADER_SYSTEM32 || type == EA_HEADER_SYSTEM64)
            break;
        r->flags |= EA_FLAG_NO_CPUTIME;
        if (type != EA_HEADER_COMPACT32 && type != EA_HEADER_COMPACT64) {
            if (r->header_word & 0x8000)
                add_item(s, EA_EXT_PEBS_INDEX, 8);
            if (r->header_word & 0x0700)
                add_item(s, EA_EXT_PMC_COUNTERS, 8 * (r->header_word >> 8 & 7u));
        }
        break;
    case EA_HEADER_MESSAGE:
        r->header_word = (uint16_t)(rng() & 0x3F);
        r->id = (uint16_t)rng();
        r->flags = EA_FLAG_TRACE_MESSAGE | EA_FLAG_CLASSIC_HEADER;
        r->header_word |= 0x80; /* 64-bit pointers */
        if (r->header_word & 1)
            add_item(s, EA_EXT_WPP_SEQUENCE, 4);
        if (r->header_word & 2)
            memcpy(r->provider.bytes, s->payload, 16);
        if (r->header_word & 4)
            add_item(s, EA_EXT_WPP_COMPONENT, 4);
        if (!(r->header_word & 0x18))
            r->time_raw = 0; /* the caller's */
        if (r->header_word & 0x20) {
            r->tid = (uint32_t)rng();
            r->pid = (uint32_t)rng();
        }
        break;
    case EA_HEADER_INSTANCE32:
    case EA_HEADER_INSTANCE64:
        add_item(s, EA_EXT_INSTANCE_INFO, 24);
        /* fall through */
    case EA_HEADER_FULL32:
    case EA_HEADER_FULL64:
        memcpy(r->provider.bytes, s->payload + 16, 16);
        r->opcode = (uint8_t)rng();
        r->level = (uint8_t)rng();
        r->header_word = (uint16_t)rng();
        r->version = (uint8_t)r->header_word;
        r->tid = (uint32_t)rng();
        r->pid = (uint32_t)rng();
        r->kernel_time = (uint32_t)rng();
        r->user_time = (uint32_t)rng();
        r->flags = EA_FLAG_CLASSIC_HEADER | width;
        break;
    default:
        memcpy(r->provider.bytes, s->payload + 16, 16);
        memcpy(r->activity_id.bytes, s->payload + 32, 16);
        r->id = (uint16_t)rng();
        r->version = (uint8_t)rng();
        r->channel = (uint8_t)rng();
        r->level = (uint8_t)rng();
        r->opcode = (uint8_t)rng();
        r->task = (uint16_t)rng();
        r->keyword = rng();
        r->property = (uint16_t)rng();
        r->tid = (uint32_t)rng();
        r->pid = (uint32_t)rng();
        r->kernel_time = (uint32_t)rng();
        r->user_time = (uint32_t)rng();
        r->flags = (uint16_t)(rng() & ~(uint64_t)EA_FLAG_EXTENDED_INFO);
        for (unsigned n = (unsigned)(rng() % 5), i = 0; i < n; i++) {
            add_item(s, (uint16_t)(1 + rng() % 40), (uint32_t)(rng() % sizeof s->data[0]));
            s->ext[i].linkage = (uint16_t)((rng() & 0xFFFE) | (i + 1 < n));
            r->flags |= EA_FLAG_EXTENDED_INFO;
        }
        break;
    }
}

static const uint8_t TYPES[] = {EA_HEADER_SYSTEM32,   EA_HEADER_SYSTEM64,   EA_HEADER_COMPACT32,  EA_HEADER_COMPACT64,
                                EA_HEADER_FULL32,     EA_HEADER_FULL64,     EA_HEADER_INSTANCE32, EA_HEADER_INSTANCE64,
                                EA_HEADER_PERFINFO32, EA_HEADER_PERFINFO64, EA_HEADER_EVENT32,    EA_HEADER_EVENT64,
                                EA_HEADER_MESSAGE};

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
        /* one byte too little is told, and nothing is written behind the room */
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

    /* a record from a live session has no header form: it gets the one that Windows would choose */
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

static void check_xpress(const uint8_t *in, size_t n) {
    size_t bound = ea_xpress_bound(n), got = 0;
    uint8_t *packed = malloc(bound), *back = malloc(n + 1);
    assert_non_null(packed);
    assert_non_null(back);
    size_t used = ea_xpress_compress(in, n, packed);
    assert_true(used <= bound);
    assert_int_equal(ea_xpress_decompress(packed, used, back, n, &got), 0);
    assert_int_equal(got, n);
    if (n)
        assert_memory_equal(in, back, n);
    free(packed);
    free(back);
}

static void compression(void **state) {
    (void)state;
    enum { N = 300000 };
    uint8_t *in = malloc(N);
    assert_non_null(in);
    rng_state = 41;
    for (size_t n = 0; n < 400; n++) {
        for (size_t i = 0; i < n; i++)
            in[i] = (uint8_t)(rng() % 3);
        check_xpress(in, n);
    }
    /* runs of every length class: in the token, a nibble, a byte, 16 bits, 32 bits */
    static const size_t runs[] = {1,   2,   3,   4,     8,     9,     10,    11,     24,     25,    26,
                                  279, 280, 281, 65537, 65538, 65539, 65560, 131072, 200000, 65536, 70000};
    for (size_t i = 0; i < LENGTH(runs); i++) {
        memset(in, 'r', runs[i]);
        check_xpress(in, runs[i]);
        in[0] = 'x';
        in[runs[i] - 1] = 'y';
        check_xpress(in, runs[i]);
    }
    for (size_t i = 0; i < N; i++)
        in[i] = (uint8_t)rng(); /* nothing to find */
    check_xpress(in, N);
    for (size_t i = 0; i < N; i++)
        in[i] =
            i >= 8192 && i % 100 < 90 ? in[i - (i % 700 < 350 ? 8192 : 8191)] : (uint8_t)rng(); /* the window's edge */
    check_xpress(in, N);
    for (size_t i = 0; i < N; i++)
        in[i] = (uint8_t)("event payloads repeat, "[i % 23] + (i / 1000) % 2);
    size_t bound = ea_xpress_bound(N);
    uint8_t *packed = malloc(bound);
    assert_non_null(packed);
    assert_true(ea_xpress_compress(in, N, packed) < N / 20);
    free(packed);
    check_xpress(in, N);
    free(in);
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

static void made_up_files(void **state) {
    (void)state;
    rng_state = 51;
    static sample s;
    for (int round = 0; round < 12; round++) {
        static char session[] = "A session", log[] = "C:\\tr\xC3\xA4"
                                                     "ce\xF0\x9F\x98\x80.etl";
        int before_8 = round % 4 == 3, narrow = round % 3 == 1;
        ea_etl_info info = {.buffer_size_bytes = round & 1 ? 8192 : 0,
                            .os_version = before_8 ? 0x05010106 : 0x0501000A,
                            .os_build = 22631,
                            .cpu_count = 4,
                            .timer_resolution = 156250,
                            .log_file_mode = 0x00010001,
                            .pointer_size = narrow ? 4 : 8,
                            .cpu_mhz = 3000,
                            .bias_minutes = -60,
                            .boot_filetime = 133000000000000000,
                            .perf_frequency = 10000000,
                            .start_filetime = 133400000000000000,
                            .clock_type = (uint32_t)(1 + round % 3),
                            .session_name = session,
                            .log_file_name = log,
                            .logger = 7,
                            .compression = round % 2 ? 3 : 0};
        ea_etl_writer_options options = {.info = &info, .start_raw = 1000, .pid = 4, .tid = 8};
        ea_err err = {0};
        ea_etl_writer *w;
        assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), 0);
        kept wrote = {0}, got = {0};
        int64_t now = 2000;
        unsigned cpus = before_8 ? 200 : 600;
        for (int i = 0; i < 4000; i++) {
            do
                make_sample(&s, TYPES[rng() % LENGTH(TYPES)]);
            while (s.r.header_type == EA_HEADER_MESSAGE && !(s.r.header_word & 0x18)); /* each has a time */
            now += (int64_t)(rng() % 3);
            s.r.time_raw = now;
            s.r.cpu = (uint16_t)(rng() % 4 ? rng() % 4 : rng() % cpus);
            s.r.logger = (uint16_t)(rng() % 50 ? 7 : 9);
            assert_int_equal(ea_etl_writer_add(w, &s.r, &err), 0);
            keep(&wrote, &s.r);
            if (i == 2000)
                assert_int_equal(ea_etl_writer_flush(w, 1, &err), 0);
        }
        assert_int_equal(ea_etl_writer_flush(w, 9999, &err), 0);
        ea_etl_writer_end end = {.end_filetime = 133400000100000000, .events_lost = 5, .buffers_lost = 6};
        assert_int_equal(ea_etl_writer_finish(w, &end, &err), 0);
        assert_int_equal(ea_etl_writer_records(w), 4001);
        uint64_t buffers = ea_etl_writer_buffers(w);
        ea_etl_writer_destroy(w);

        ea_etl_info back;
        read_all(WRITTEN, &got, &back);
        assert_int_equal(back.buffer_count, buffers);
        assert_int_equal(back.buffers_written, buffers);
        assert_int_equal(back.buffer_size_bytes, info.buffer_size_bytes ? info.buffer_size_bytes : 65536);
        assert_int_equal(back.os_version, info.os_version);
        assert_int_equal(back.os_build, info.os_build);
        assert_int_equal(back.cpu_count, info.cpu_count);
        assert_int_equal(back.timer_resolution, info.timer_resolution);
        assert_int_equal(back.log_file_mode, info.log_file_mode);
        assert_int_equal(back.pointer_size, info.pointer_size);
        assert_int_equal(back.cpu_mhz, info.cpu_mhz);
        assert_int_equal(back.bias_minutes, info.bias_minutes);
        assert_true(back.boot_filetime == info.boot_filetime && back.start_filetime == info.start_filetime);
        assert_true(back.perf_frequency == info.perf_frequency && back.end_filetime == end.end_filetime);
        assert_int_equal(back.clock_type, info.clock_type);
        assert_int_equal(back.events_lost, 5);
        assert_int_equal(back.buffers_lost, 6);
        assert_string_equal(back.session_name, session);
        assert_string_equal(back.log_file_name, log);
        free_names(&back);

        assert_int_equal(got.count, wrote.count + 1);
        assert_int_equal(got.items[0].r.hook_id, 0); /* the header event */
        assert_true(got.items[0].r.time_raw == 1000);
        assert_int_equal(got.items[0].r.pid, 4);
        qsort(wrote.items, wrote.count, sizeof *wrote.items, canonical);
        for (size_t i = 0; i < wrote.count; i++)
            if (!ea_record_equal(&wrote.items[i].r, &got.items[i + 1].r))
                fail_msg("round %d: record %zu differs", round, i);
        drop(&wrote);
        drop(&got);
    }
    ea_err err;
    assert_int_equal(ea_path_remove(WRITTEN, &err), 0);
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
    info.compression = 4;
    assert_int_equal(ea_etl_writer_create(&w, WRITTEN, &options, &err), EA_EUNSUPPORTED);
    info.compression = 0;
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

static void for_each_trace(void (*visit)(const char *path)) {
    walker w = {.visit = visit, .folder = getenv("EA_UNPACKED")};
    ea_err err = {0};
    if (!w.folder)
        fail_msg("EA_UNPACKED does not name the folder of unpacked traces");
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
    for_each_trace(copy_trace);
}

/* Every record of a real trace, filled and encoded, gives the bytes that stand in the file. */
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
            records++;
        }
    }
    assert_true(records > 0);
    ea_etl_buffer_deinit(&buffer);
    free(scratch.data);
    free(index.entries);
    ea_file_close(file.handle);
    ea_etl_info_deinit(&file.info);
}

static void traces_byte_for_byte(void **state) {
    (void)state;
    for_each_trace(same_bytes);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_round_trip),   cmocka_unit_test(records_refused), cmocka_unit_test(compression),
        cmocka_unit_test(made_up_files),        cmocka_unit_test(files_refused),   cmocka_unit_test(traces_copied),
        cmocka_unit_test(traces_byte_for_byte),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
