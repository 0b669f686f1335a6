/* What a small batch weighs: 20 security events of real traces, once the collector has every definition that the batch
 * names, compared with zstd -3 over nothing but the pooled payloads of the same events: no batch is more than 250 bytes
 * beyond it. And with a dictionary that was made of the other half of the trace's batches. Sizes that grow fail. (The
 * ledger that an agent's batches carry besides is not in these figures.) */

/* Promises (tests/promises.py --write puts them into docs/verification/promises.md):
 * - Records 5: A small batch is small: 20 security events whose descriptions are acknowledged. | worst batch of
 *   seven traces: at most 246 bytes more than zstd of its pooled payloads | 2026-11-22
 * - Records 6: A trained dictionary makes small batches smaller. | six of seven traces: 39 to 386 bytes less than
 *   that zstd on average (each batch on three of them) | 2026-11-22
 * - Records 7: ... except where the payloads repeat each other. | one trace: 49 bytes more; its payloads take 101
 *   bytes | 2026-11-22 */

#include "proto/base/platform.h"
#include "proto/etl/etl.h"
#include "service/batch/builder.h"
#include "service/batch/dictionary.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "tests/unit/real_traces.h"

enum { EVENTS = 20, POOL_BYTES = 4 << 20 };

typedef struct traced {
    const char *trace;
    int classic; /* only the kernel's security-relevant classes */
    /* Most bytes beyond zstd's: on average, and with a dictionary on average and of a single batch; measured, and a
     * little more for another version of libzstd. */
    int bound, bound_with_dictionary, bound_of_one_with_dictionary;
} traced;

enum { BOUND_OF_ONE = 250 };

/* With a dictionary the format's aim is below 0: a batch is smaller than zstd of its payloads alone. What a batch says
 * beside payloads cannot go below about 75 bytes: 18 of the stream, 8 of the checksum, 8 of the context, some 12 of
 * numbers and field heads, and 1 to 2 of each event's time, thread and processor. Where payloads are new, or take
 * hardly more than that (the network provider's: 20 in 101 bytes, since they repeat each other), no dictionary makes
 * up for it. */
static const traced ROWS[] = {
    {"shutdown-win10", 1, 0, -350, -50},
    {"clr-kernel-win8-x64", 1, 14, -285, 66},
    {"tracelogging-win11-20cpu", 1, -18, -375, -100},
    {"kernel-process-provider", 0, 165, -30, 142},
    {"kernel-network-provider", 0, 143, 58, 128},
    {"tracelogging-ebpf", 0, 163, -115, 58},
    {"http-server-win7", 0, 231, -75, -10}, /* each third event has ids of 16 bytes in its header and in an item */
};

static void must(int rc, const ea_err *err) {
    if (rc < 0)
        fail_msg("%s: %s", ea_code_name(rc), err->message);
}

static int concerns_security(const ea_class *c) {
    static const char *const CLASSES[] = {"Process/", "Image/", "TcpIp/", "UdpIp/", "Registry/"};
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++)
        if (strncmp(c->name, CLASSES[i], strlen(CLASSES[i])) == 0)
            return 1;
    return 0;
}

typedef struct measured {
    uint64_t batches, bytes, zstd_bytes, smaller;
    int64_t most;
} measured;

typedef struct samples {
    uint8_t *data;
    size_t sizes[1 << 16], len_bytes, count;
} samples;

enum { SAMPLES_BYTES = 64 << 20 };

static int know(enum ea_definition_kind kind, const uint8_t *data, size_t len_bytes, void *encoder) {
    uint8_t hash[EA_CLASS_HASH_BYTES];
    (void)kind;
    assert_int_equal(ea_definition_hash(data, len_bytes, hash, NULL), 0);
    ea_encoder_known(encoder, hash);
    return 0;
}

static void measure(ea_encoder *e, const ea_open_batch *batch, uint64_t number, const uint8_t *pool, size_t pool_bytes,
                    measured *m) {
    static uint8_t packed[POOL_BYTES + (POOL_BYTES >> 7)];
    ea_batch_stamp stamp = {.number = number, .priority = 2};
    const uint8_t *data;
    size_t n = 0;
    ea_err err;
    for (int again = 0; again < 2; again++) {
        must(ea_encoder_encode(e, batch, &stamp, &data, &n, &err), &err);
        must(ea_batch_each_definition(data, n, know, e, &err), &err);
    }
    size_t z = ZSTD_compress(packed, sizeof packed, pool, pool_bytes, 3);
    assert_false(ZSTD_isError(z));
    z = z < pool_bytes ? z : pool_bytes;
    int64_t beyond = (int64_t)n - (int64_t)z;
    m->batches++;
    m->bytes += n;
    m->zstd_bytes += z;
    m->smaller += n < z;
    m->most = m->batches == 1 || beyond > m->most ? beyond : m->most;
}

/* Without a dictionary: every batch is measured, every second one becomes a sample. With one: the others. */
static measured read_trace(const char *folder, const traced *row, samples *s, const uint8_t *dictionary,
                           size_t dictionary_bytes) {
    static uint8_t pool[POOL_BYTES];
    char path[1024];
    const char *paths[] = {path};
    const ea_record *r;
    size_t pool_bytes = 0;
    uint64_t number = 0;
    measured m = {0};
    ea_etl_set *set = NULL;
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *e = NULL;
    ea_err err;
    snprintf(path, sizeof path, "%s/%s/trace.etl", folder, row->trace);
    must(ea_etl_open(&set, paths, 1, &(ea_etl_options){0}, &err), &err);
    const ea_etl_info *info = ea_etl_file_info(set, 0);
    ea_wire_source source = {.name = "trace.etl",
                             .host = "",
                             .clock = info->clock,
                             .boot_filetime = info->boot_filetime,
                             .pointer_size = info->pointer_size,
                             .cpu_count = info->cpu_count,
                             .os_version = info->os_version,
                             .os_build = info->os_build};
    must(ea_registry_create(&registry, 0, &err), &err);
    must(ea_builder_create(&builder, &(ea_builder_options){.max_events = EVENTS, .sources = &source, .source_count = 1},
                           &err),
         &err);
    must(ea_encoder_create(&e,
                           &(ea_encoder_options){.stream = "no two are alike",
                                                 .dictionary = dictionary,
                                                 .dictionary_bytes = dictionary_bytes},
                           &err),
         &err);
    if (dictionary)
        know(EA_DEFINES_DICTIONARY, dictionary, dictionary_bytes, e);
    int rc;
    while ((rc = ea_etl_next(set, &r, &err)) > 0) {
        const ea_class *c = ea_registry_find(registry, r);
        if (row->classic && !concerns_security(c))
            continue;
        assert_in_range(r->payload_bytes, 0, POOL_BYTES - pool_bytes);
        if (r->payload_bytes)
            memcpy(pool + pool_bytes, r->payload, r->payload_bytes);
        pool_bytes += r->payload_bytes;
        int full = ea_builder_add(builder, r, c);
        must(full, &(ea_err){0});
        if (!full)
            continue;
        ea_open_batch *batch = ea_builder_take(builder);
        const uint8_t *directory;
        size_t n;
        number++;
        if (!dictionary || number % 2 == 0)
            measure(e, batch, number, pool, pool_bytes, &m);
        ea_encoder_last_directory(e, &directory, &n);
        if (!dictionary && number % 2 && n && s->len_bytes + n <= SAMPLES_BYTES &&
            s->count < sizeof s->sizes / sizeof *s->sizes) {
            memcpy(s->data + s->len_bytes, directory, n);
            s->len_bytes += n;
            s->sizes[s->count++] = n;
        }
        pool_bytes = 0;
        ea_open_batch_release(batch);
    }
    must(rc, &err);
    ea_encoder_destroy(e);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
    ea_etl_close(set);
    return m;
}

static int64_t average_beyond(const measured *m) {
    return ((int64_t)m->bytes - (int64_t)m->zstd_bytes) / (int64_t)m->batches;
}

static void twenty_security_events(void **state) {
    const char *folder = real_traces("unit.sizes: the weight of small batches of real traces");

    (void)state;
    samples *s = malloc(sizeof *s);
    assert_true(s && (s->data = malloc(SAMPLES_BYTES)));
    int failed = 0;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        s->len_bytes = s->count = 0;
        measured plain = read_trace(folder, &ROWS[i], s, NULL, 0);
        assert_true(plain.batches >= 10);
        uint8_t *dictionary = NULL;
        size_t n = 0;
        ea_err err;
        must(ea_dictionary_make(s->data, s->sizes, s->count, EA_DICTIONARY_MAX_BYTES, &dictionary, &n, &err), &err);
        measured with = read_trace(folder, &ROWS[i], s, dictionary, n);
        free(dictionary);
        int64_t beyond = average_beyond(&plain), beyond_with = average_beyond(&with);
        printf("%-25s %5" PRIu64 " batches: %4" PRIu64 " bytes, zstd %4" PRIu64 ": %+4" PRId64 " (at most %+" PRId64
               "); with a dictionary %4" PRIu64 " bytes: %+4" PRId64 " (at most %+" PRId64 ", smaller %.0f %%)\n",
               ROWS[i].trace, plain.batches, plain.bytes / plain.batches, plain.zstd_bytes / plain.batches, beyond,
               plain.most, with.bytes / with.batches, beyond_with, with.most,
               100.0 * (double)with.smaller / (double)with.batches);
        const traced *row = &ROWS[i];
        if (beyond > row->bound || plain.most > BOUND_OF_ONE || beyond_with > row->bound_with_dictionary ||
            with.most > row->bound_of_one_with_dictionary) {
            printf("  FAILED: at most %+d (%+d); %+d (%+d) were expected\n", row->bound, BOUND_OF_ONE,
                   row->bound_with_dictionary, row->bound_of_one_with_dictionary);
            failed = 1;
        }
    }
    free(s->data);
    free(s);
    assert_false(failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(twenty_security_events)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
