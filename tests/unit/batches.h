/* Small batches for the collector's tests, packed here from the messages themselves, so that these tests need nothing
 * of the agent. */
#ifndef EA_TESTS_UNIT_BATCHES_H
#define EA_TESTS_UNIT_BATCHES_H

#include "proto/base/text.h"
#include "proto/wire/batch.pb-c.h"
#include "proto/wire/wire.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define TEST_HOST "TEST-MACHINE"

typedef struct test_batch {
    uint8_t *data; /* malloc'd */
    size_t len_bytes;
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint32_t event_count;
    int64_t begin_utc_ns, end_utc_ns;
} test_batch;

typedef struct test_maker {
    uint8_t stream[EA_STREAM_ID_BYTES];
    ea_registry *registry;
    const ea_class *c;
    int with_descriptions;
    uint32_t pointer_size; /* of the machine */
} test_maker;

static inline void test_maker_init(test_maker *m, uint8_t stream) {
    ea_err err;
    ea_record r = {.provider = {{0xE5, 1, 2, 3}}, .id = 77, .version = 2, .pointer_size = 8};
    memset(m->stream, stream, sizeof m->stream);
    m->registry = NULL;
    if (ea_registry_create(&m->registry, 0, &err))
        abort();
    m->c = ea_registry_find(m->registry, &r);
    m->with_descriptions = 1;
    m->pointer_size = 8;
}

static inline void test_maker_deinit(test_maker *m) {
    ea_registry_destroy(m->registry);
}

/* As an agent does once the collector has acknowledged them. */
static inline void test_maker_forget_descriptions(test_maker *m) {
    m->with_descriptions = 0;
}

/* A batch of event_count events of one class, from time on, 24 bytes of payload each. */
static inline void test_make(const test_maker *m, uint64_t number, size_t event_count, int64_t time, test_batch *ret) {
    enum { PAYLOAD = 24 };

    ea_clock clock = {.type = EA_CLOCK_QPC, .frequency = 1000, .base_utc_ns = INT64_C(1600000000000000000)};
    size_t pool_bytes = event_count * (PAYLOAD + 8);
    uint8_t *pool = malloc(pool_bytes);
    char name[] = "test", host[] = TEST_HOST;
    uint8_t stream[EA_STREAM_ID_BYTES], hash[EA_CLASS_HASH_BYTES], pid[] = {0x34, 0x12};
    if (!pool)
        abort();
    memcpy(stream, m->stream, sizeof stream);
    memcpy(hash, m->c->hash, sizeof hash);
    for (size_t i = 0; i < event_count; i++) {
        for (size_t k = 0; k < PAYLOAD; k++)
            pool[i * PAYLOAD + k] = (uint8_t)(number * 7 + i * 31 + k + (size_t)time);
        ea_store64(pool + event_count * PAYLOAD + 8 * i, (uint64_t)time + i);
    }

    Etwagent__V1__Column constant = ETWAGENT__V1__COLUMN__INIT, pids = constant, times = constant, payload = constant;
    pids.constant = (ProtobufCBinaryData){.len = sizeof pid, .data = pid};
    payload.encoding = times.encoding = ETWAGENT__V1__ENCODING__ENCODING_PLAIN;
    payload.width = PAYLOAD;
    Etwagent__V1__Group group = ETWAGENT__V1__GROUP__INIT, *groups[] = {&group};
    group.class_hash = (ProtobufCBinaryData){.len = sizeof hash, .data = hash};
    group.count = (uint32_t)event_count;
    group.payload = &payload;
    Etwagent__V1__Directory directory = ETWAGENT__V1__DIRECTORY__INIT;
    directory.n_groups = 1;
    directory.groups = groups;
    directory.group = directory.cpu = directory.thread = directory.thread_tids = &constant;
    directory.time = &times;
    directory.thread_pids = &pids;
    directory.thread_count = 1;
    directory.pool = (ProtobufCBinaryData){.len = pool_bytes, .data = pool};
    size_t directory_bytes = etwagent__v1__directory__get_packed_size(&directory);
    uint8_t *packed = malloc(directory_bytes);
    if (!packed)
        abort();
    etwagent__v1__directory__pack(&directory, packed);

    Etwagent__V1__ClockPair pair = ETWAGENT__V1__CLOCK_PAIR__INIT, *pairs[] = {&pair};
    pair.utc_ns = clock.base_utc_ns;
    Etwagent__V1__Source source, *sources[] = {&source};
    etwagent__v1__source__init(&source);
    source.name = name;
    source.host = host;
    source.clock_type = clock.type;
    source.frequency = clock.frequency;
    source.n_clock_pairs = 1;
    source.clock_pairs = pairs;
    source.pointer_size = m->pointer_size;
    ProtobufCBinaryData description = {.len = m->c->description_bytes, .data = malloc(m->c->description_bytes)};
    if (!description.data)
        abort();
    memcpy(description.data, m->c->description, description.len);
    Etwagent__V1__Batch batch;
    etwagent__v1__batch__init(&batch);
    batch.format = 1;
    batch.stream = (ProtobufCBinaryData){.len = sizeof stream, .data = stream};
    batch.number = number;
    batch.event_count = (uint32_t)event_count;
    batch.time_min = time;
    batch.time_span = event_count - 1;
    batch.directory = (ProtobufCBinaryData){.len = directory_bytes, .data = packed};
    batch.n_sources = 1;
    batch.sources = sources;
    batch.n_descriptions = m->with_descriptions ? 1 : 0;
    batch.descriptions = &description;

    /* twice: the checksum is what the reader's records give */
    for (int pass = 0; pass < 2; pass++) {
        ea_err err;
        ea_batch_view *v = NULL;
        const ea_record *r;
        const ea_class *c;
        ret->len_bytes = etwagent__v1__batch__get_packed_size(&batch);
        ret->data = malloc(ret->len_bytes);
        if (!ret->data)
            abort();
        etwagent__v1__batch__pack(&batch, ret->data);
        if (pass)
            break;
        if (ea_batch_open(&v, ret->data, ret->len_bytes, m->registry, &err)) {
            ea_err_print(stderr, "test_make", &err);
            abort();
        }
        for (uint64_t i = 0; ea_batch_next(v, &r, &c, &err) == 1; i++)
            batch.checksum += ea_record_checksum(i, r);
        ea_batch_close(v);
        free(ret->data);
    }
    free(packed);
    free(pool);
    free(description.data);
    memcpy(ret->stream, m->stream, sizeof ret->stream);
    ret->event_count = (uint32_t)event_count;
    ret->begin_utc_ns = ea_clock_to_utc_ns(&clock, time);
    ret->end_utc_ns = ea_clock_to_utc_ns(&clock, time + (int64_t)event_count - 1);
}

/* Adds a description of a class of its own to a batch, with one map of so many entries. */
static inline void test_describe(ea_text *batch, uint32_t which, size_t entries) {
    /* format, kind, status, flags, pointer size, version, code; the provider, two names; a map's name and kind */
    static const uint8_t HEAD[] = {1, 0, 0, 0, 8, 0, 1}, MAP[] = {1, 0, 0}, ENTRY[] = {0, 0}, FIELDS[] = {0};
    uint8_t provider_and_names[18] = {0};
    ea_text t;
    ea_text_init(&t);
    ea_store32(provider_and_names, which);
    ea_text_add(&t, HEAD, sizeof HEAD);
    ea_text_add(&t, provider_and_names, sizeof provider_and_names);
    ea_text_add(&t, MAP, entries ? sizeof MAP : 0);
    if (entries)
        ea_text_varint(&t, entries);
    else
        ea_text_add(&t, FIELDS, sizeof FIELDS); /* no maps */
    for (size_t i = 0; i < entries; i++)
        ea_text_add(&t, ENTRY, sizeof ENTRY);
    ea_text_add(&t, FIELDS, sizeof FIELDS);
    if (t.failed)
        abort();
    ea_text_varint(batch, EA_DEFINES_CLASS << 3 | 2);
    ea_text_varint(batch, t.len_bytes);
    ea_text_add(batch, t.data, t.len_bytes);
    ea_text_deinit(&t);
}

#endif
