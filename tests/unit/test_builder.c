/* Batches there and back: what the builder and the encoder write, the reader gives back bit for bit; when batches
 * close; what travels beside the events. */
#include "proto/base/platform.h"
#include "proto/wire/definitions.h"
#include "proto/wire/envelope.h"
#include "service/batch/builder.h"
#include "service/source/ring.h"
#include "tests/unit/batch_samples.h"
#include "tests/unit/definition_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const ea_wire_source SOURCES[2] = {{.name = "NT Kernel Logger",
                                           .host = "MACHINE",
                                           .clock = {.type = EA_CLOCK_QPC,
                                                     .frequency = 10000000,
                                                     .base_raw = 500,
                                                     .base_utc_ns = INT64_C(1600000000000000000)},
                                           .boot_filetime = INT64_C(132400000000000000),
                                           .pointer_size = 8,
                                           .cpu_count = 4,
                                           .os_version = 0x0A000000,
                                           .os_build = 19041,
                                           .log_file_mode = 1,
                                           .logger = 3,
                                           .bias_minutes = -60},
                                          {.name = "user \xC3\xA9",
                                           .host = "MACHINE",
                                           .clock = {.type = EA_CLOCK_SYSTEM_TIME,
                                                     .frequency = 10000000,
                                                     .base_raw = 2000000,
                                                     .base_utc_ns = INT64_C(1600000000300000000)},
                                           .pointer_size = 4}};

typedef struct rig {
    ea_registry *agent, *collector;
    ea_builder *builder;
    ea_encoder *encoder;
    definition_cache kept;
} rig;

static void rig_open(rig *g, const ea_builder_options *options, int level) {
    ea_err err;
    ea_encoder_options e = {.zstd_level = level, .stream = "stream 16 bytes"};
    g->kept = (definition_cache){0};
    assert_int_equal(ea_registry_create(&g->agent, 0, &err), 0);
    assert_int_equal(ea_registry_create(&g->collector, 0, &err), 0);
    assert_int_equal(ea_builder_create(&g->builder, options, &err), 0);
    assert_int_equal(ea_encoder_create(&g->encoder, &e, &err), 0);
}

static void rig_close(rig *g) {
    ea_encoder_destroy(g->encoder);
    definition_cache_deinit(&g->kept);
    ea_builder_destroy(g->builder);
    ea_registry_destroy(g->collector);
    ea_registry_destroy(g->agent);
}

static void encode(rig *g, ea_open_batch *o, uint64_t number, const uint8_t **data, size_t *n) {
    ea_err err = {0};
    ea_batch_stamp stamp = {.number = number};
    int rc = ea_encoder_encode(g->encoder, o, &stamp, data, n, &err);
    if (rc)
        ea_err_print(stderr, "encode", &err);
    assert_int_equal(rc, 0);
}

/* Opens a batch that must be good, and checks its checksum. */
static ea_batch_view *view(rig *g, const uint8_t *data, size_t n) {
    ea_err err = {0};
    ea_batch_view *v = NULL;
    int rc = definition_cache_receive(&g->kept, &data, &n, &err);
    if (!rc)
        rc = ea_batch_open(&v, data, n, g->collector, &err);
    if (!rc)
        rc = ea_batch_verify(v, &err);
    if (rc)
        ea_err_print(stderr, "view", &err);
    assert_int_equal(rc, 0);
    return v;
}

/* Every field of every group, by column, is what splitting its payload gives. */
static void check_columns(ea_batch_view *v) {
    ea_err err;
    ea_slice slices[EA_FIELDS_MAX];
    const ea_batch_events *events;
    assert_int_equal(ea_batch_get_events(v, &events, &err), 0);
    for (size_t k = 0; k < ea_batch_group_count(v); k++) {
        const ea_class *c = ea_batch_group_class(v, k);
        uint32_t n = ea_batch_group_events(v, k);
        ea_column payloads;
        const uint32_t *rows;
        assert_int_equal(ea_batch_payloads(v, k, &payloads, &err), 0);
        assert_int_equal(ea_batch_group_rows(v, k, &rows, &err), 0);
        assert_int_equal(payloads.count, n);
        for (uint32_t i = 0; i < n; i++)
            assert_int_equal(events->group[rows[i]], k);
        for (size_t f = 0; f < c->top_count; f++) {
            ea_column column;
            assert_int_equal(ea_batch_column(v, k, f, &column, &err), 0);
            assert_int_equal(column.count, n);
            for (uint32_t i = 0; i < n; i++) {
                ea_slice row = ea_column_row(&payloads, i), got = ea_column_row(&column, i);
                size_t used, whole = ea_class_split(c, row.data, row.len_bytes, slices, &used);
                assert_int_equal(ea_column_missing(&column, i), f >= whole);
                if (f >= whole)
                    continue;
                assert_int_equal(got.len_bytes, slices[f].len_bytes);
                if (got.len_bytes)
                    assert_memory_equal(got.data, slices[f].data, got.len_bytes);
            }
        }
        ea_column none;
        assert_int_equal(ea_batch_column(v, k, c->top_count, &none, &err), EA_EINVAL);
    }
}

/* Sends so many sample records through batches and compares each. */
static void round_trip(uint64_t seed, uint32_t records, uint32_t batch_events, int level) {
    rig g;
    ea_builder_options options = {.max_events = batch_events, .sources = SOURCES, .source_count = 2};
    samples *in = malloc(sizeof *in), *again = malloc(sizeof *again);
    assert_non_null(in);
    assert_non_null(again);
    samples_init(in, seed, 2);
    samples_init(again, seed, 2);
    rig_open(&g, &options, level);
    uint64_t number = 0;
    for (uint32_t i = 0; i < records; i++) {
        ea_record r, expected;
        samples_next(in, &r);
        int full = ea_builder_add(g.builder, &r, ea_registry_find(g.agent, &r));
        assert_int_equal(full, (i + 1) % batch_events == 0);
        if (!full && i + 1 < records)
            continue;
        ea_open_batch *o = ea_builder_take(g.builder);
        const uint8_t *data;
        size_t n;
        assert_non_null(o);
        uint32_t count = ea_open_batch_events(o);
        encode(&g, o, ++number, &data, &n);
        ea_open_batch_release(o);
        ea_batch_view *v = view(&g, data, n);
        const ea_batch_head *h = ea_batch_get_head(v);
        assert_int_equal(h->number, number);
        assert_int_equal(h->event_count, count);
        assert_string_equal(h->host, "MACHINE");
        const ea_record *got;
        const ea_class *c;
        ea_err err;
        uint32_t seen = 0;
        int64_t lowest = INT64_MAX, highest = INT64_MIN;
        for (; ea_batch_next(v, &got, &c, &err) == 1; seen++) {
            samples_next(again, &expected);
            assert_true(ea_record_equal(got, &expected));
            assert_memory_equal(c->hash, ea_registry_find(g.agent, &expected)->hash, sizeof c->hash);
            assert_int_equal(got->position, seen);
            int64_t t = ea_clock_to_utc_ns(&SOURCES[expected.source].clock, expected.time_raw);
            lowest = t < lowest ? t : lowest;
            highest = t > highest ? t : highest;
        }
        assert_int_equal(seen, count);
        /* two clocks, one axis: ticks of the first source are 100 ns */
        assert_true(h->utc_min_ns <= lowest && lowest - h->utc_min_ns < 100);
        assert_true(h->utc_max_ns <= highest && highest - h->utc_max_ns < 100);
        check_columns(v);
        ea_batch_close(v);
    }
    rig_close(&g);
    free(in);
    free(again);
}

static void test_round_trip(void **state) {
    (void)state;
    round_trip(1, 20000, 4096, 1);
    round_trip(2, 3000, 1000, EA_ZSTD_NONE);
    round_trip(3, 2000, 20, 3);
    round_trip(4, 40, 1, 1);
    for (uint64_t seed = 10; seed < 40; seed++)
        round_trip(seed, 300, 1 + (uint32_t)seed * 3, seed % 2 ? 1 : EA_ZSTD_NONE);
}

static ea_record plain(const uint8_t *payload, size_t n) {
    ea_record r = {
        .id = 5, .pointer_size = 8, .header_type = EA_HEADER_EVENT64, .payload = payload, .payload_bytes = (uint16_t)n};
    r.provider.bytes[3] = 9;
    return r;
}

static void test_extremes(void **state) {
    (void)state;

    enum { N = 6 };

    static uint8_t bytes[65535];
    static ea_ext many[EA_EXT_MAX];
    static uint8_t large[UINT16_MAX];
    ea_record r[N];
    rig g;
    rig_open(&g, &(ea_builder_options){.sources = SOURCES, .source_count = 1}, 1);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * i >> 3);
    for (unsigned i = 0; i < EA_EXT_MAX; i++)
        many[i] = (ea_ext){.type = (uint16_t)(i % 20), .linkage = 1, .size_bytes = i % 7, .data = bytes + i};
    for (unsigned i = 0; i < N; i++)
        r[i] = plain(bytes, 0);
    r[0].time_raw = INT64_MIN; /* a clock gone mad */
    r[1].time_raw = INT64_MAX;
    r[2].payload_bytes = 65535;
    r[3].ext = many;
    r[3].ext_count = EA_EXT_MAX;
    ea_ext big = {.type = 77, .size_bytes = sizeof large, .data = large};
    r[4].ext = &big;
    r[4].ext_count = 1;
    memset(&r[5].activity_id, 0xFF, sizeof r[5].activity_id);
    r[5].provider.bytes[0] = 0xFF;
    r[5].id = r[5].task = r[5].flags = r[5].property = r[5].hook_id = r[5].header_word = r[5].logger = 0xFFFF;
    r[5].version = r[5].channel = r[5].level = r[5].opcode = r[5].header_type = 0xFF;
    r[5].keyword = UINT64_MAX;
    r[5].pid = r[5].tid = r[5].kernel_time = r[5].user_time = UINT32_MAX;
    r[5].cpu = 0xFFFF;
    for (unsigned i = 0; i < N; i++)
        assert_int_equal(ea_builder_add(g.builder, &r[i], ea_registry_find(g.agent, &r[i])), 0);
    const uint8_t *data;
    size_t n;
    ea_open_batch *o = ea_builder_take(g.builder);
    encode(&g, o, EA_BATCH_MAX_NUMBER, &data, &n);
    ea_open_batch_release(o);
    ea_batch_view *v = view(&g, data, n);
    const ea_record *got;
    const ea_class *c;
    ea_err err;
    for (unsigned i = 0; i < N; i++) {
        assert_int_equal(ea_batch_next(v, &got, &c, &err), 1);
        assert_true(ea_record_equal(got, &r[i]));
    }
    assert_int_equal(ea_batch_next(v, &got, &c, &err), 0);
    assert_int_equal(ea_batch_get_head(v)->time_max, INT64_MAX);
    ea_batch_close(v);
    rig_close(&g);
}

static void test_source_table(void **state) {
    (void)state;
    rig g;
    rig_open(&g, &(ea_builder_options){.sources = SOURCES, .source_count = 2}, 1);
    ea_record r = plain(NULL, 0);
    r.source = 1;
    r.time_raw = 2000010;
    assert_int_equal(ea_builder_add(g.builder, &r, ea_registry_find(g.agent, &r)), 0);
    const uint8_t *data;
    size_t n;
    ea_open_batch *o = ea_builder_take(g.builder);
    encode(&g, o, 7, &data, &n);
    ea_open_batch_release(o);
    ea_batch_view *v = view(&g, data, n);
    assert_int_equal(ea_batch_source_count(v), 2);
    for (size_t i = 0; i < 2; i++) {
        const ea_wire_source *s = ea_batch_source(v, i), *e = &SOURCES[i];
        assert_string_equal(s->name, e->name);
        assert_string_equal(s->host, e->host);
        assert_memory_equal(&s->clock.frequency, &e->clock.frequency, sizeof s->clock.frequency);
        assert_int_equal(s->clock.type, e->clock.type);
        assert_int_equal(s->clock.base_raw, e->clock.base_raw);
        assert_int_equal(s->clock.base_utc_ns, e->clock.base_utc_ns);
        assert_int_equal(s->boot_filetime, e->boot_filetime);
        assert_int_equal(s->pointer_size, e->pointer_size);
        assert_int_equal(s->cpu_count, e->cpu_count);
        assert_int_equal(s->os_version, e->os_version);
        assert_int_equal(s->os_build, e->os_build);
        assert_int_equal(s->log_file_mode, e->log_file_mode);
        assert_int_equal(s->logger, e->logger);
        assert_int_equal(s->bias_minutes, e->bias_minutes);
    }
    /* the second source's time, on the first one's clock */
    ea_batch_head head;
    ea_err err;
    assert_int_equal(ea_batch_read_head(data, n, &head, &err), 0);
    assert_int_equal(head.utc_min_ns, INT64_C(1600000000300001000));
    assert_int_equal(head.clock.frequency, 10000000);
    assert_int_equal(head.source_count, 2);
    ea_batch_close(v);
    rig_close(&g);
}

static void test_closing(void **state) {
    (void)state;
    static uint8_t bytes[65535];
    rig g;
    ea_counters counters = {0};
    rig_open(&g,
             &(ea_builder_options){.max_events = 3,
                                   .max_bytes = 100000,
                                   .spare_batches = 1,
                                   .sources = SOURCES,
                                   .source_count = 1,
                                   .counters = &counters},
             1);
    ea_record small = plain(bytes, 10), large = plain(bytes, sizeof bytes);
    const ea_class *c = ea_registry_find(g.agent, &small);
    assert_null(ea_builder_take(g.builder));
    /* by count */
    assert_int_equal(ea_builder_add(g.builder, &small, c), 0);
    assert_int_equal(ea_builder_add(g.builder, &small, c), 0);
    assert_int_equal(ea_builder_pending(g.builder), 2);
    assert_int_equal(ea_builder_add(g.builder, &small, c), 1);
    assert_int_equal(ea_builder_add(g.builder, &small, c), EA_EFULL);
    ea_open_batch *first = ea_builder_take(g.builder);
    assert_int_equal(ea_open_batch_events(first), 3);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_events_batched), 3);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_batches_closed), 1);
    /* by bytes */
    assert_int_equal(ea_builder_add(g.builder, &large, c), 0);
    assert_int_equal(ea_builder_add(g.builder, &large, c), 1);
    /* no spare batch is left: nothing is lost, nothing is taken */
    assert_null(ea_builder_take(g.builder));
    assert_int_equal(ea_builder_pending(g.builder), 2);
    ea_open_batch_release(first);
    ea_builder_wait(g.builder);
    ea_open_batch *second = ea_builder_take(g.builder);
    assert_int_equal(ea_open_batch_events(second), 2);
    ea_open_batch_release(second);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_events_batched), 5);
    /* a record that no batch can hold, and one of a source that is not there */
    ea_ext huge = {.type = 1, .size_bytes = 9 << 20, .data = bytes};
    small.ext = &huge;
    small.ext_count = 1;
    assert_int_equal(ea_builder_add(g.builder, &small, c), EA_ELIMIT);
    huge.size_bytes = UINT16_MAX + 1;
    assert_int_equal(ea_builder_add(g.builder, &small, c), EA_ELIMIT);
    small.ext_count = 0;
    small.source = 1;
    assert_int_equal(ea_builder_add(g.builder, &small, c), EA_ELIMIT);
    assert_int_equal(ea_builder_pending(g.builder), 0);
    rig_close(&g);
}

/* An item that travels once for its group counts for each record: the batch closes before the reader's bound. */
static void test_closing_by_items(void **state) {
    (void)state;

    enum { FIT = EA_BATCH_MAX_RAW_BYTES / (4 + UINT16_MAX) };

    static uint8_t bytes[UINT16_MAX];
    rig g;
    rig_open(&g, &(ea_builder_options){.max_events = 2 * FIT, .sources = SOURCES, .source_count = 1}, 1);
    ea_ext schema = {.type = EA_EXT_SCHEMA_TL, .size_bytes = sizeof bytes, .data = bytes};
    ea_record r = plain(bytes, 10);
    r.ext = &schema;
    r.ext_count = 1;
    const ea_class *c = ea_registry_find(g.agent, &r);
    for (int batch = 0; batch < 2; batch++) {
        for (int i = 0; i < FIT; i++)
            assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
        assert_int_equal(ea_builder_add(g.builder, &r, c), EA_EFULL);
        const uint8_t *data;
        size_t n;
        ea_err err;
        ea_open_batch *o = ea_builder_take(g.builder);
        assert_int_equal(ea_open_batch_events(o), FIT);
        encode(&g, o, 1 + (uint64_t)batch, &data, &n);
        ea_open_batch_release(o);
        ea_batch_view *v = view(&g, data, n);
        assert_int_equal(ea_batch_verify(v, &err), 0);
        ea_batch_close(v);
    }
    rig_close(&g);
}

/* A batch that compresses to next to nothing is padded, so that its bytes allow what reading it costs. */
static void test_padding(void **state) {
    (void)state;
    static uint8_t bytes[100];
    rig g;
    rig_open(&g, &(ea_builder_options){.max_events = EA_BATCH_MAX_EVENTS, .sources = SOURCES, .source_count = 1}, 1);
    ea_record r = plain(bytes, sizeof bytes);
    const ea_class *c = ea_registry_find(g.agent, &r);
    while (ea_builder_add(g.builder, &r, c) == 0)
        ;
    const uint8_t *data;
    size_t n, offset = 0, begin = 0;
    ea_err err;
    ea_open_batch *o = ea_builder_take(g.builder);
    assert_true(ea_open_batch_events(o) > 40000);
    encode(&g, o, 1, &data, &n);
    ea_open_batch_release(o);
    ea_batch_view *v = view(&g, data, n);
    assert_int_equal(ea_batch_verify(v, &err), 0);
    assert_true(ea_batch_cost(v) > EA_COST_BASE);
    ea_batch_close(v);

    ea_text bare;
    ea_pb_field f;
    ea_text_init(&bare);
    for (; ea_pb_next(data, n, &offset, &f) > 0; begin = offset)
        if (f.number != EA_BATCH_PADDING)
            ea_text_add(&bare, data + begin, offset - begin);
    assert_true(n - bare.len_bytes > 10000);
    v = NULL;
    int rc = ea_batch_open(&v, (uint8_t *)bare.data, bare.len_bytes, g.collector, &err);
    if (!rc)
        rc = ea_batch_verify(v, &err);
    assert_int_equal(rc, EA_ELIMIT);
    assert_non_null(strstr(err.message, "it asks for more work than its "));
    ea_batch_close(v);
    ea_text_deinit(&bare);
    rig_close(&g);
}

/* More groups than one batch may have: it closes, and the rest goes on. */
static void test_many_groups(void **state) {
    (void)state;
    rig g;
    rig_open(&g, &(ea_builder_options){.sources = SOURCES, .source_count = 1}, 1);
    ea_record r = plain((const uint8_t *)"payload", 7);
    const ea_class *c = ea_registry_find(g.agent, &r);
    unsigned batches = 0, sent = 0, got = 0;
    for (unsigned i = 0; i < 9000; i++) {
        r.task = (uint16_t)i;
        r.keyword = i;
        int rc = ea_builder_add(g.builder, &r, c);
        if (rc != EA_EFULL && i + 1 < 9000) {
            assert_int_equal(rc, 0);
            sent++;
            continue;
        }
        ea_open_batch *o = ea_builder_take(g.builder);
        const uint8_t *data;
        size_t n;
        encode(&g, o, ++batches, &data, &n);
        ea_open_batch_release(o);
        ea_batch_view *v = view(&g, data, n);
        assert_true(ea_batch_group_count(v) <= EA_BATCH_MAX_GROUPS);
        got += ea_batch_get_head(v)->event_count;
        ea_batch_close(v);
        if (rc == EA_EFULL)
            i--;
    }
    assert_int_equal(batches, 2);
    assert_int_equal(got, 9000);
    assert_true(sent < 9000);
    rig_close(&g);
}

/* Payloads that are cut make a group of their own, and groups are in the order of their first events: also when another
 * group begins before the first cut payload comes, and when the first payload of all is cut. */
static void test_cut_payloads(void **state) {
    (void)state;
    static const uint8_t PAYLOAD[18] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18};
    static const ea_guid DOTNET = EA_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4);

    enum { ROWS = 300, MEASUREMENT = 58, WAIT_STOP = 302 };

    for (int cut_first = 0; cut_first < 2; cut_first++) {
        rig g;
        rig_open(&g, &(ea_builder_options){.sources = SOURCES, .source_count = 1}, 1);
        for (unsigned i = 0; i < 3 * ROWS + 1; i++) {
            int is_cut = cut_first ? i == 0 : i == 2 * ROWS;
            ea_record r = plain(PAYLOAD, 2);
            r.provider = DOTNET;
            r.id = i < ROWS || i >= 2 * ROWS ? MEASUREMENT : WAIT_STOP;
            if (r.id == MEASUREMENT && !is_cut)
                r.payload_bytes = 18;
            assert_true(ea_builder_add(g.builder, &r, ea_registry_find(g.agent, &r)) >= 0);
        }
        ea_open_batch *o = ea_builder_take(g.builder);
        const uint8_t *data;
        size_t n;
        encode(&g, o, 1, &data, &n);
        ea_open_batch_release(o);
        ea_batch_view *v = view(&g, data, n);
        assert_int_equal(ea_batch_group_count(v), 3);
        check_columns(v);
        ea_batch_close(v);
        rig_close(&g);
    }
}

static uint8_t *encode_samples(uint64_t seed, uint32_t n, size_t *ret_bytes) {
    rig g;
    samples *in = malloc(sizeof *in);
    assert_non_null(in);
    rig_open(&g, &(ea_builder_options){.max_events = n, .sources = SOURCES, .source_count = 2}, 1);
    samples_init(in, seed, 2);
    for (uint32_t i = 0; i < n; i++) {
        ea_record r;
        samples_next(in, &r);
        assert_true(ea_builder_add(g.builder, &r, ea_registry_find(g.agent, &r)) >= 0);
    }
    const uint8_t *data;
    ea_open_batch *o = ea_builder_take(g.builder);
    /* what the encoder did before must not show */
    for (int k = 0; k < 2; k++)
        encode(&g, o, 1, &data, ret_bytes);
    uint8_t *copy = malloc(*ret_bytes);
    assert_non_null(copy);
    memcpy(copy, data, *ret_bytes);
    ea_open_batch_release(o);
    rig_close(&g);
    free(in);
    return copy;
}

static void test_deterministic(void **state) {
    (void)state;
    size_t a_bytes, b_bytes, c_bytes;
    uint8_t *a = encode_samples(5, 2000, &a_bytes), *b = encode_samples(5, 2000, &b_bytes);
    uint8_t *c = encode_samples(6, 2000, &c_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(a, b, a_bytes);
    assert_true(a_bytes != c_bytes || memcmp(a, c, a_bytes) != 0);
    free(a);
    free(b);
    free(c);
}

static int count_descriptions(const uint8_t *data, size_t n, void *arg) {
    (void)data;
    (void)n;
    ++*(unsigned *)arg;
    return 0;
}

typedef struct ledger {
    uint64_t delivered, full, others, incarnation;
    int64_t utc_ns;
} ledger;

static int take_count(const ea_ledger_count *c, void *arg) {
    ledger *l = arg;
    assert_string_equal(c->family, "");
    l->incarnation = c->incarnation;
    l->utc_ns = c->utc_ns;
    if (c->counter == 1)
        l->delivered = c->value;
    else if (c->counter == 6)
        l->full = c->value;
    else
        l->others++;
    return 0;
}

static void test_beside_the_events(void **state) {
    (void)state;
    rig g;
    ea_err err;
    rig_open(&g, &(ea_builder_options){.sources = SOURCES, .source_count = 1}, 1);
    ea_record r = plain(NULL, 0), other = r;
    other.id = 6;
    const ea_class *c = ea_registry_find(g.agent, &r), *d = ea_registry_find(g.agent, &other);
    assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
    r.task = 1; /* a second group of the same class */
    assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
    assert_int_equal(ea_builder_add(g.builder, &other, d), 0);
    ea_open_batch *o = ea_builder_take(g.builder);
    ea_counters counters = {0};
    ea_count(&counters, EA_COUNT_events_delivered, UINT64_C(1) << 40);
    ea_count(&counters, EA_COUNT_events_dropped_full, 3);
    ea_batch_stamp stamp = {.number = 9,
                            .priority = 2,
                            .kind = EA_BATCH_KEYFRAME,
                            .ledger = &counters,
                            .ledger_utc_ns = -5,
                            .incarnation = 77};
    const uint8_t *data;
    size_t n;
    unsigned described = 0;
    assert_int_equal(ea_encoder_encode(g.encoder, o, &stamp, &data, &n, &err), 0);
    assert_int_equal(ea_batch_each_description(data, n, count_descriptions, &described, &err), 0);
    assert_int_equal(described, 2);
    ledger l = {0};
    assert_int_equal(ea_batch_each_count(data, n, take_count, &l, &err), 0);
    assert_int_equal(l.delivered, UINT64_C(1) << 40);
    assert_int_equal(l.full, 3);
    assert_int_equal(l.others, 0);
    assert_int_equal(l.incarnation, 77);
    assert_int_equal(l.utc_ns, -5);
    ea_batch_head h;
    assert_int_equal(ea_batch_read_head(data, n, &h, &err), 0);
    assert_int_equal(h.kind, EA_BATCH_KEYFRAME);
    assert_int_equal(h.priority, 2);
    assert_int_equal(h.description_count, 2);
    assert_memory_equal(h.stream, "stream 16 bytes", 16);
    uint64_t checksum = h.checksum;

    /* acknowledged descriptions are left out; without them a stranger cannot read the batch, and says what is missing
     */
    ea_encoder_known(g.encoder, c->hash);
    ea_encoder_known(g.encoder, d->hash);
    encode(&g, o, 9, &data, &n);
    assert_int_equal(ea_batch_read_head(data, n, &h, &err), 0);
    assert_int_equal(h.description_count, 0);
    assert_true(h.checksum == checksum); /* of the records alone */
    ea_batch_view *v = NULL;
    assert_int_equal(ea_batch_open(&v, data, n, g.collector, &err), EA_ENOTFOUND);
    assert_null(v);
    char hex[33];
    for (unsigned i = 0; i < 16; i++)
        snprintf(hex + 2 * i, 3, "%02x", c->hash[i]);
    assert_non_null(strstr(err.message, hex));

    /* the index needs no classes */
    assert_int_equal(ea_batch_open(&v, data, n, NULL, &err), 0);
    assert_int_equal(ea_batch_group_count(v), 3);
    assert_memory_equal(ea_batch_group_hash(v, 2), d->hash, 16);
    assert_int_equal(ea_batch_group_events(v, 0), 1);
    const uint32_t *pids;
    size_t pid_count;
    assert_int_equal(ea_batch_pids(v, &pids, &pid_count, &err), 0);
    assert_int_equal(pid_count, 1);
    assert_int_equal(pids[0], 0);
    const ea_record *got;
    assert_int_equal(ea_batch_next(v, &got, &c, &err), EA_EINVAL);
    ea_batch_close(v);

    /* the collector lacks one after all */
    c = ea_registry_find(g.agent, &r);
    ea_hash_ref lacking = {.len_bytes = 7};
    memcpy(lacking.bytes, c->hash, 7);
    ea_encoder_unknown(g.encoder, &lacking);
    encode(&g, o, 10, &data, &n);
    described = 0;
    assert_int_equal(ea_batch_each_description(data, n, count_descriptions, &described, &err), 0);
    assert_int_equal(described, 1);

    ea_open_batch_release(o);
    rig_close(&g);
}

/* ---- two threads: one adds, one encodes, one acknowledges on the side ---- */

enum { THREADED_RECORDS = 30000, QUEUE = 4 };

typedef struct pipeline {
    rig g;
    ea_mutex *lock;
    ea_cond *changed;
    ea_open_batch *queue[QUEUE];
    size_t count;
    int done;
    uint64_t events, batches;
    int failed;
} pipeline;

static void encode_thread(void *arg) {
    pipeline *p = arg;
    for (;;) {
        ea_mutex_lock(p->lock);
        while (!p->count && !p->done)
            ea_cond_wait(p->changed, p->lock);
        ea_open_batch *o = p->count ? p->queue[0] : NULL;
        if (o)
            memmove(p->queue, p->queue + 1, --p->count * sizeof *p->queue);
        ea_mutex_unlock(p->lock);
        if (!o)
            return;
        const uint8_t *data;
        size_t n;
        ea_err err;
        ea_batch_view *v = NULL;
        ea_batch_stamp stamp = {.number = ++p->batches};
        p->failed |= ea_encoder_encode(p->g.encoder, o, &stamp, &data, &n, &err) != 0;
        p->events += ea_open_batch_events(o);
        ea_open_batch_release(o);
        p->failed |= p->failed || definition_cache_receive(&p->g.kept, &data, &n, &err) ||
                     ea_batch_open(&v, data, n, p->g.collector, &err) || ea_batch_verify(v, &err);
        for (size_t k = 0; v && k < p->g.kept.count; k++)
            ea_encoder_known(p->g.encoder, p->g.kept.list[k].hash);
        ea_batch_close(v);
    }
}

static void hand_over(pipeline *p) {
    ea_open_batch *o;
    while (!(o = ea_builder_take(p->g.builder)))
        ea_builder_wait(p->g.builder);
    ea_mutex_lock(p->lock);
    assert_true(p->count < QUEUE);
    p->queue[p->count++] = o;
    ea_cond_signal(p->changed);
    ea_mutex_unlock(p->lock);
}

static void test_threads(void **state) {
    (void)state;
    static samples in;
    pipeline p = {0};
    ea_err err;
    ea_thread *thread;
    samples_init(&in, 99, 2);
    rig_open(
        &p.g,
        &(ea_builder_options){.max_events = 500, .spare_batches = QUEUE - 1, .sources = SOURCES, .source_count = 2}, 1);
    assert_int_equal(ea_mutex_create(&p.lock, &err), 0);
    assert_int_equal(ea_cond_create(&p.changed, &err), 0);
    assert_int_equal(ea_thread_start(&thread, "encode", encode_thread, &p, &err), 0);
    for (unsigned i = 0; i < THREADED_RECORDS; i++) {
        ea_record r;
        samples_next(&in, &r);
        int rc = ea_builder_add(p.g.builder, &r, ea_registry_find(p.g.agent, &r));
        assert_true(rc >= 0);
        if (rc)
            hand_over(&p);
    }
    if (ea_builder_pending(p.g.builder))
        hand_over(&p);
    ea_mutex_lock(p.lock);
    p.done = 1;
    ea_cond_signal(p.changed);
    ea_mutex_unlock(p.lock);
    ea_thread_join(thread);
    assert_int_equal(p.failed, 0);
    assert_int_equal(p.events, THREADED_RECORDS);
    ea_cond_destroy(p.changed);
    ea_mutex_destroy(p.lock);
    rig_close(&p.g);
}

/* ---- once the collector has it all ---- */

static void acknowledge(void *encoder, const uint8_t *hash) {
    ea_encoder_known(encoder, hash);
}

/* The same few records, as a batch. */
static size_t same_batch(rig *g, uint64_t number, const uint8_t **ret_data) {
    samples *s = malloc(sizeof *s);
    ea_record r;
    size_t n;
    assert_non_null(s);
    samples_init(s, 77, 2);
    for (int i = 0; i < 20; i++) {
        samples_next(s, &r);
        assert_in_range(ea_builder_add(g->builder, &r, ea_registry_find(g->agent, &r)), 0, 1);
    }
    free(s);
    ea_open_batch *o = ea_builder_take(g->builder);
    assert_non_null(o);
    encode(g, o, number, ret_data, &n);
    ea_open_batch_release(o);
    return n;
}

static void check_same_batch(rig *g, const uint8_t *data, size_t n) {
    samples *s = malloc(sizeof *s);
    ea_record expected;
    const ea_record *got;
    const ea_class *c;
    ea_err err;
    assert_non_null(s);
    samples_init(s, 77, 2);
    ea_batch_view *v = view(g, data, n);
    for (int i = 0; i < 20; i++) {
        samples_next(s, &expected);
        assert_int_equal(ea_batch_next(v, &got, &c, &err), 1);
        assert_true(ea_record_equal(got, &expected));
    }
    assert_int_equal(ea_batch_next(v, &got, &c, &err), 0);
    ea_batch_close(v);
    free(s);
}

typedef struct counted {
    size_t by_kind[256];
    const uint8_t *hash; /* that is looked for */
    int has_it;
} counted;

static int count_definition(enum ea_definition_kind kind, const uint8_t *data, size_t n, void *arg) {
    counted *k = arg;
    uint8_t hash[EA_CLASS_HASH_BYTES];
    assert_int_equal(ea_definition_hash(data, n, hash, NULL), 0);
    k->by_kind[kind & 255]++;
    k->has_it |= k->hash && memcmp(hash, k->hash, sizeof hash) == 0;
    return 0;
}

static counted definitions_in(const uint8_t *data, size_t n, const uint8_t *hash) {
    counted k = {.hash = hash};
    ea_err err;
    assert_int_equal(ea_batch_each_definition(data, n, count_definition, &k, &err), 0);
    return k;
}

static int large_definition(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref, const uint8_t **ret_data,
                            size_t *ret_len_bytes, ea_err *err) {
    static uint8_t data[1 << 16];
    (void)kind;
    (void)ref;
    (void)err;
    ++*(unsigned *)arg;
    *ret_data = data;
    *ret_len_bytes = sizeof data;
    return 1;
}

/* A few bytes that name large definitions which a collector keeps: what is made of them is bounded. */
static void named_definitions_are_bounded(void **state) {
    enum { NAMES = 257 }; /* of 64 KiB each: one more than 16 MiB */

    (void)state;
    for (uint32_t names = NAMES - 1; names <= NAMES; names++) {
        unsigned asked = 0;
        uint8_t list[(NAMES + 8) * EA_NAME_BYTES], hash[EA_CLASS_HASH_BYTES];
        ea_text context, batch, whole;
        ea_err err;
        for (uint32_t i = 0; i < names; i++)
            ea_store64(list + (size_t)i * EA_NAME_BYTES, i);
        ea_text_init(&context);
        ea_text_init(&batch);
        ea_text_init(&whole);
        ea_pb_put_bytes(&context, 1, list, (size_t)names * EA_NAME_BYTES);
        assert_int_equal(ea_definition_hash((const uint8_t *)context.data, context.len_bytes, hash, &err), 0);
        static const uint8_t HEAD[] = {1 << 3, 1}, NUMBER[] = {3 << 3, 1}, STREAM[EA_STREAM_ID_BYTES] = "large";
        ea_text_add(&batch, HEAD, sizeof HEAD);
        ea_pb_put_bytes(&batch, 2, STREAM, sizeof STREAM);
        ea_text_add(&batch, NUMBER, sizeof NUMBER);
        ea_pb_put_bytes(&batch, EA_BATCH_CONTEXT, hash, EA_NAME_BYTES);
        ea_pb_put_bytes(&batch, EA_DEFINES_CONTEXT, context.data, context.len_bytes);
        ea_definitions known = {.arg = &asked, .find = large_definition};
        int rc = ea_batch_complete((const uint8_t *)batch.data, batch.len_bytes, &known, &whole, &err);
        assert_int_equal(asked, names);
        assert_int_equal(rc, names < NAMES ? 1 : EA_ELIMIT);
        if (rc == EA_ELIMIT)
            assert_non_null(strstr(err.message, "the sources and shapes that it names have more than 16777216 bytes"));
        ea_text_deinit(&context);
        ea_text_deinit(&batch);
        ea_text_deinit(&whole);
    }
}

/* A batch whose envelope is read once becomes the same batch, and opens as it does. */
static void check_read_once(rig *g, const uint8_t *data, size_t n, const ea_definitions *known, const ea_text *whole) {
    ea_batch *batch = NULL;
    ea_batch_view *v = NULL;
    ea_text out;
    ea_err err;
    ea_text_init(&out);
    assert_int_equal(ea_batch_parse(&batch, data, n, &err), 0);
    assert_true(ea_batch_parsed_head(batch)->is_incomplete);
    assert_int_equal(ea_batch_open_parsed(&v, batch, g->collector, &err), EA_ENOTFOUND);
    assert_int_equal(ea_batch_complete_parsed(batch, known, &out, &err), 0);
    assert_false(ea_batch_parsed_head(batch)->is_incomplete);
    assert_int_equal(out.len_bytes, whole->len_bytes);
    assert_memory_equal(out.data, whole->data, whole->len_bytes);
    assert_int_equal(ea_batch_complete_parsed(batch, known, &out, &err), 0); /* there is nothing to do */
    assert_int_equal(ea_batch_open_parsed(&v, batch, g->collector, &err), 0);
    assert_int_equal(ea_batch_verify(v, &err), 0);
    ea_batch_close(v);
    ea_batch_free(batch);
    ea_text_deinit(&out);
}

/* Definitions travel until they are acknowledged; a batch without them is completed by those that came before, and
 * names each one that is nowhere. */
static void test_definitions(void **state) {
    (void)state;
    rig g;
    ea_err err;
    const uint8_t *data;
    ea_batch_view *v = NULL;
    ea_builder_options options = {.max_events = 64, .sources = SOURCES, .source_count = 2};
    rig_open(&g, &options, 1);
    static uint8_t dictionary[4096]; /* any content will do; this one is of use */
    const uint8_t *directory;
    size_t directory_bytes;
    same_batch(&g, 1, &data);
    ea_encoder_last_directory(g.encoder, &directory, &directory_bytes);
    assert_in_range(directory_bytes, 100, 1 << 20);
    memcpy(dictionary, directory, directory_bytes < sizeof dictionary ? directory_bytes : sizeof dictionary);
    ea_encoder_destroy(g.encoder);
    assert_int_equal(ea_encoder_create(&g.encoder,
                                       &(ea_encoder_options){.zstd_level = 1,
                                                             .stream = "stream 16 bytes",
                                                             .dictionary = dictionary,
                                                             .dictionary_bytes = sizeof dictionary},
                                       &err),
                     0);
    /* nothing is acknowledged: each batch stands for itself */
    size_t first_bytes = 0;
    for (uint64_t number = 1; number <= 3; number++) {
        size_t n = same_batch(&g, number, &data);
        counted k = definitions_in(data, n, NULL);
        assert_true(k.by_kind[EA_DEFINES_CLASS] && k.by_kind[EA_DEFINES_SHAPE] && k.by_kind[EA_DEFINES_SOURCE]);
        assert_int_equal(k.by_kind[EA_DEFINES_DICTIONARY], number == 1); /* it travels now and then */
        check_same_batch(&g, data, n);
        first_bytes = n;
    }
    for (size_t i = 0; i < g.kept.count; i++)
        ea_encoder_known(g.encoder, g.kept.list[i].hash);
    size_t n = same_batch(&g, 4, &data);
    counted none = definitions_in(data, n, NULL);
    for (size_t i = 0; i < 256; i++)
        assert_int_equal(none.by_kind[i], 0);
    assert_true(n < first_bytes / 2);
    assert_int_equal(ea_batch_open(&v, data, n, g.collector, &err), EA_ENOTFOUND);
    check_same_batch(&g, data, n);
    /* each one that the collector lacks */
    for (size_t i = 0; i < g.kept.count; i++) {
        kept_definition *one = &g.kept.list[i];
        if (one->kind == EA_DEFINES_CLASS)
            continue; /* a reader's registry has them */
        n = same_batch(&g, 5 + i, &data);
        ea_text whole;
        ea_text_init(&whole);
        ea_definitions known = {.arg = &g.kept, .find = definition_cache_find, .on_missing = definition_cache_missing};
        one->hash[0] ^= 1;
        g.kept.missing = 0;
        assert_int_equal(ea_batch_complete(data, n, &known, &whole, &err), EA_ENOTFOUND);
        assert_int_equal(g.kept.missing, 1);
        one->hash[0] ^= 1;
        assert_int_equal(ea_batch_complete(data, n, &known, &whole, &err), 1);
        check_read_once(&g, data, n, &known, &whole);
        ea_text_deinit(&whole);
        ea_hash_ref ref = {.len_bytes = 6};
        memcpy(ref.bytes, one->hash, 6);
        ea_encoder_unknown(g.encoder, &ref);
        n = same_batch(&g, 5 + i, &data);
        /* it is there again; a dictionary is at least not used */
        if (one->kind != EA_DEFINES_DICTIONARY)
            assert_true(definitions_in(data, n, one->hash).has_it);
        check_same_batch(&g, data, n);
        ea_encoder_known(g.encoder, one->hash);
    }
    /* and so it goes when the acknowledgement comes by itself */
    g.kept.acknowledge = acknowledge;
    g.kept.arg = g.encoder;
    n = same_batch(&g, 1000, &data);
    check_same_batch(&g, data, n);
    rig_close(&g);
}

static int see_count(const ea_ledger_count *c, void *arg) {
    assert_int_equal(c->counter, ea_counter_row(EA_COUNT_source_events_lost)->number);
    *(uint64_t *)arg += c->value;
    return 0;
}

/* Counts after the last event travel in a batch without events. */
static void test_ledger_alone(void **state) {
    (void)state;
    rig g;
    ea_err err;
    const uint8_t *data;
    size_t n;
    ea_counters counters = {0};
    ea_batch_head head;
    uint64_t seen = 0;
    rig_open(&g, &(ea_builder_options){.sources = SOURCES, .source_count = 1}, 1);
    ea_count(&counters, EA_COUNT_source_events_lost, 41);
    ea_batch_stamp stamp = {.number = 7, .priority = 2, .ledger = &counters};
    assert_int_equal(ea_encoder_encode(g.encoder, NULL, &stamp, &data, &n, &err), 0);
    assert_int_equal(ea_batch_read_head(data, n, &head, &err), 0);
    assert_true(head.number == 7 && head.priority == 2 && !head.event_count && !head.is_incomplete);
    assert_int_equal(ea_batch_each_count(data, n, see_count, &seen, &err), 0);
    assert_int_equal(seen, 41);
    stamp.number = 0;
    assert_int_equal(ea_encoder_encode(g.encoder, NULL, &stamp, &data, &n, &err), EA_EINVAL);
    rig_close(&g);
}

/* Closes the open batch and checks its numbers of arrival: NULL: consecutive ones from `first` on. */
static void check_numbers(rig *g, uint64_t number, const uint64_t *expected, uint64_t first, uint32_t count) {
    const uint8_t *data;
    const uint64_t *numbers = NULL;
    uint64_t got_first = 0;
    size_t n;
    ea_err err;
    ea_open_batch *o = ea_builder_take(g->builder);
    assert_non_null(o);
    assert_int_equal(ea_open_batch_events(o), count);
    encode(g, o, number, &data, &n);
    ea_batch_view *v = view(g, data, n);
    assert_int_equal(ea_batch_sequence(v, &numbers, &got_first, &err), expected != NULL);
    if (expected)
        assert_memory_equal(numbers, expected, count * sizeof *expected);
    else
        assert_true(got_first == first);
    ea_batch_close(v);
    ea_open_batch_release(o);
}

/* What a live session's ring had no room for leaves a hole in the numbers, what comes late keeps its number, and
 * without either no column travels. A batch of a file has no numbers. */
static void test_numbers_of_arrival(void **state) {
    (void)state;

    enum { PAYLOAD = 60000, MORE = 30, FAR = 200 };

    static uint8_t bytes[PAYLOAD];
    static uint64_t kept[MORE];
    rig g;
    ea_err err;
    ea_ring *ring = NULL;
    const ea_record *taken;
    rig_open(&g, &(ea_builder_options){.sources = SOURCES, .source_count = 1}, 3);
    ea_encoder_destroy(g.encoder);
    assert_int_equal(
        ea_encoder_create(&g.encoder,
                          &(ea_encoder_options){.zstd_level = 3, .stream = "stream 16 bytes", .is_numbered = 1}, &err),
        0);
    assert_int_equal(ea_ring_create(&ring, 1 << 20, &err), 0);
    ea_record r = plain(bytes, PAYLOAD);
    const ea_class *c = ea_registry_find(g.agent, &r);
    uint64_t put = 0;
    uint32_t n = 0;
    for (; put < 3; put++)
        assert_int_equal(ea_ring_put(ring, &r), 0);
    while (ea_ring_take(ring, &taken))
        assert_int_equal(ea_builder_add(g.builder, taken, c), 0);
    check_numbers(&g, 1, NULL, 0, 3);
    for (; put < 3 + MORE; put++) { /* more than fits, twice */
        if (ea_ring_put(ring, &r) == 0)
            kept[n++] = put;
        if (put == MORE && ea_ring_take(ring, &taken))
            assert_int_equal(ea_builder_add(g.builder, taken, c), 0);
        if (put == MORE)
            assert_int_equal(ea_ring_take(ring, &taken), 1); /* the first one's place is free now */
        if (put == MORE)
            assert_int_equal(ea_builder_add(g.builder, taken, c), 0);
    }
    assert_in_range(n, 10, MORE - 5);
    assert_true(kept[n - 1] > kept[0] + n - 1);
    while (ea_ring_take(ring, &taken))
        assert_int_equal(ea_builder_add(g.builder, taken, c), 0);
    check_numbers(&g, 2, kept, 0, n);

    static const uint64_t LATE[] = {(1ull << 40) + 5, (1ull << 40) + 6, (1ull << 40) + 8, (1ull << 40) + 7, 1ull << 40};
    r.payload_bytes = 4;
    for (size_t i = 0; i < sizeof LATE / sizeof *LATE; i++) {
        r.position = LATE[i];
        assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
    }
    check_numbers(&g, 3, LATE, 0, sizeof LATE / sizeof *LATE);
    for (uint32_t i = 0; i < FAR; i++) { /* beyond a small batch, over the end of 32 bits */
        r.position = (1ull << 33) - 100 + i;
        assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
    }
    check_numbers(&g, 4, NULL, (1ull << 33) - 100, FAR);
    ea_encoder_destroy(g.encoder);
    assert_int_equal(
        ea_encoder_create(&g.encoder, &(ea_encoder_options){.zstd_level = 3, .stream = "stream 16 bytes"}, &err), 0);
    r.position = 900;
    assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
    check_numbers(&g, 5, NULL, 0, 1);
    ea_ring_destroy(ring);
    rig_close(&g);
}

/* The labels of the first source of a batch with one record of two sources, as JSON. */
static void check_labels(rig *g, ea_open_batch *o, uint64_t number, const char *expected) {
    ea_err err;
    const uint8_t *data;
    size_t n;
    ea_batch_head head;
    ea_text version, labels;
    ea_text_init(&version);
    ea_text_init(&labels);
    encode(g, o, number, &data, &n);
    assert_int_equal(ea_batch_read_head(data, n, &head, &err), 0);
    assert_non_null(head.source);
    assert_int_equal(ea_source_origin(head.source, head.source_bytes, &version, &labels, &err), 0);
    assert_string_equal(labels.len_bytes ? labels.data : "", expected);
    ea_text_deinit(&version);
    ea_text_deinit(&labels);
    ea_open_batch_release(o);
}

/* Other labels are those of the next batch that is taken; one in other hands keeps its own. */
static void test_labels(void **state) {
    (void)state;
    rig g;
    ea_err err;
    ea_label first[] = {{"site", "north"}}, second[] = {{"site", "south"}, {"rack", "7"}};
    ea_wire_source sources[2] = {SOURCES[0], SOURCES[1]};
    sources[0].labels = (ea_labels){first, 1};
    rig_open(&g, &(ea_builder_options){.sources = sources, .source_count = 2, .spare_batches = 3}, 1);
    ea_record r = {.payload_bytes = 0};
    const ea_class *c = ea_registry_find(g.agent, &r);
    ea_open_batch *taken[3];
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
        if (i) /* an event waits in the open batch */
            assert_int_equal(ea_builder_set_labels(g.builder, &(ea_labels){second, 3 - i}, &err), 0);
        taken[i] = ea_builder_take(g.builder);
        assert_non_null(taken[i]);
    }
    assert_int_equal(ea_builder_set_labels(g.builder, &(ea_labels){0}, &err), 0);
    check_labels(&g, taken[1], 2, "{\"site\": \"south\", \"rack\": \"7\"}");
    check_labels(&g, taken[0], 1, "{\"site\": \"north\"}");
    check_labels(&g, taken[2], 3, "{\"site\": \"south\"}");
    assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
    check_labels(&g, ea_builder_take(g.builder), 4, "");
    rig_close(&g);
}

/* A name in a trace may hold a lone surrogate (WTF-8 by then), a machine's or a file's on Linux any bytes: a string of
 * proto3 is valid UTF-8 in any case, else a strict reader refuses the whole batch. */
static void test_names_are_valid_utf8(void **state) {
    (void)state;
    rig g;
    ea_err err;
    const uint8_t *data;
    size_t n;
    ea_batch_view *v;
    ea_batch_head head;
    ea_text labels;
    ea_label label = {"site", "n\xE2\x82"};
    ea_wire_source source = SOURCES[0];
    source.name = "a\xED\xA0\x80z\xED\xBF\xBF";
    source.host = "h\xFF\xC3\xA9";
    source.agent_version = "1\xC0\x80";
    source.labels = (ea_labels){&label, 1};
    rig_open(&g, &(ea_builder_options){.sources = &source, .source_count = 1}, 1);
    ea_record r = {.payload_bytes = 0};
    assert_int_equal(ea_builder_add(g.builder, &r, ea_registry_find(g.agent, &r)), 0);
    ea_open_batch *o = ea_builder_take(g.builder);
    assert_non_null(o);
    encode(&g, o, 1, &data, &n);
    assert_int_equal(ea_batch_open(&v, data, n, g.collector, &err), 0);
    assert_string_equal(ea_batch_source(v, 0)->name, "a\xEF\xBF\xBDz\xEF\xBF\xBD");
    assert_string_equal(ea_batch_source(v, 0)->host, "h?\xC3\xA9");
    ea_batch_close(v);
    assert_int_equal(ea_batch_read_head(data, n, &head, &err), 0);
    ea_text version;
    ea_text_init(&version);
    ea_text_init(&labels);
    assert_int_equal(ea_source_origin(head.source, head.source_bytes, &version, &labels, &err), 0);
    assert_string_equal(labels.data, "{\"site\": \"n??\"}");
    assert_string_equal(version.data, "1??");
    ea_text_deinit(&version);
    ea_text_deinit(&labels);
    ea_open_batch_release(o);
    rig_close(&g);
}

/* Checks the clocks of a batch with one record of two sources. */
static void check_clock(rig *g, ea_open_batch *o, uint64_t number, const ea_clock *first) {
    const ea_clock *expected[] = {first, &SOURCES[1].clock};
    const uint8_t *data;
    size_t n;
    encode(g, o, number, &data, &n);
    ea_batch_view *v = view(g, data, n);
    for (size_t i = 0; i < 2; i++) {
        const ea_wire_source *s = ea_batch_source(v, i);
        assert_int_equal(s->clock.base_raw, expected[i]->base_raw);
        assert_int_equal(s->clock.base_utc_ns, expected[i]->base_utc_ns);
        assert_int_equal(s->clock.frequency, expected[i]->frequency);
        assert_string_equal(s->name, SOURCES[i].name);
    }
    ea_batch_close(v);
    ea_open_batch_release(o);
}

/* Another clock of a source is that of the next batch that is taken; one in other hands keeps its own. */
static void test_clocks(void **state) {
    (void)state;
    rig g;
    ea_err err;
    ea_clock clocks[3] = {SOURCES[0].clock, SOURCES[0].clock, SOURCES[0].clock};
    ea_label label = {"site", "north"};
    rig_open(&g, &(ea_builder_options){.sources = SOURCES, .source_count = 2, .spare_batches = 3}, 1);
    ea_record r = {.time_raw = 700};
    const ea_class *c = ea_registry_find(g.agent, &r);
    ea_open_batch *taken[3];
    for (unsigned i = 0; i < 3; i++) {
        clocks[i].base_raw += (int64_t)i * 100000000;
        clocks[i].base_utc_ns += (int64_t)i * (INT64_C(10000000000) - 1500000);
        assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
        if (i) /* an event waits in the open batch */
            assert_int_equal(ea_builder_set_clock(g.builder, 0, &clocks[i], &err), 0);
        taken[i] = ea_builder_take(g.builder);
        assert_non_null(taken[i]);
    }
    check_clock(&g, taken[1], 2, &clocks[1]);
    check_clock(&g, taken[0], 1, &clocks[0]);
    check_clock(&g, taken[2], 3, &clocks[2]);
    assert_int_equal(ea_builder_set_labels(g.builder, &(ea_labels){&label, 1}, &err), 0);
    assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
    check_clock(&g, ea_builder_take(g.builder), 4, &clocks[2]); /* other labels change no clock */
    assert_int_equal(ea_builder_set_clock(g.builder, 0, &clocks[1], &err), 0);
    assert_int_equal(ea_builder_add(g.builder, &r, c), 0);
    check_labels(&g, ea_builder_take(g.builder), 5, "{\"site\": \"north\"}"); /* nor another clock labels */
    rig_close(&g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_source_table),
        cmocka_unit_test(test_closing),
        cmocka_unit_test(test_closing_by_items),
        cmocka_unit_test(test_padding),
        cmocka_unit_test(test_many_groups),
        cmocka_unit_test(test_cut_payloads),
        cmocka_unit_test(test_deterministic),
        cmocka_unit_test(test_beside_the_events),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_definitions),
        cmocka_unit_test(test_ledger_alone),
        cmocka_unit_test(test_numbers_of_arrival),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_names_are_valid_utf8),
        cmocka_unit_test(named_definitions_are_bounded),
        cmocka_unit_test(test_clocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
