/* Two threads at a builder; what is left out of batches once the collector has it; labels, clocks and ledgers. See
 * test_builder.c. */
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
