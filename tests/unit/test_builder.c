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

#include "tests/unit/builder_rig.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_source_table),     cmocka_unit_test(test_closing),
        cmocka_unit_test(test_closing_by_items), cmocka_unit_test(test_padding),
        cmocka_unit_test(test_many_groups),      cmocka_unit_test(test_cut_payloads),
        cmocka_unit_test(test_deterministic),    cmocka_unit_test(test_beside_the_events),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
