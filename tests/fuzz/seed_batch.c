/* Writes the seeds of fuzz_batch into a folder: batches of pseudo-random records, packed and not, and a tombstone.
 * usage: seed_batch FOLDER */
#include "proto/base/platform.h"
#include "service/batch/builder.h"
#include "tests/unit/batch_samples.h"

#include <stdlib.h>

static const ea_wire_source SOURCES[2] = {
    {.name = "kernel", .host = "HOST", .clock = {.type = EA_CLOCK_QPC, .frequency = 10000000}, .logger = 3},
    {.name = "user", .host = "HOST", .clock = {.type = EA_CLOCK_SYSTEM_TIME, .frequency = 10000000, .base_raw = 5}}};

static int write_file(const char *folder, const char *name, const void *data, size_t n, ea_err *err) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return ea_path_write_all(path, data, n, 0, err);
}

static int write_batch(const char *folder, const char *name, uint64_t seed, uint32_t events, unsigned sources,
                       int level, ea_err *err) {
    static samples in;
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    ea_builder_options options = {.max_events = events, .sources = SOURCES, .source_count = sources};
    ea_counters counters = {0};
    ea_count(&counters, EA_COUNT_events_delivered, events);
    samples_init(&in, seed, sources);
    int rc = ea_registry_create(&registry, 0, err);
    if (!rc)
        rc = ea_builder_create(&builder, &options, err);
    if (!rc)
        rc = ea_encoder_create(&encoder, &(ea_encoder_options){.zstd_level = level}, err);
    for (uint32_t i = 0; rc >= 0 && i < events; i++) {
        ea_record r;
        samples_next(&in, &r);
        rc = ea_builder_add(builder, &r, ea_registry_find(registry, &r));
    }
    if (rc >= 0) {
        const uint8_t *data;
        size_t n;
        ea_batch_stamp stamp = {.number = 1, .ledger = &counters};
        ea_open_batch *o = ea_builder_take(builder);
        rc = ea_encoder_encode(encoder, o, &stamp, &data, &n, err);
        if (!rc)
            rc = write_file(folder, name, data, n, err);
        ea_open_batch_release(o);
    }
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
    return rc;
}

int main(int argc, char **argv) {
    ea_err err = {0};
    if (argc != 2) {
        fprintf(stderr, "usage: seed_batch FOLDER\n");
        return 2;
    }
    int rc = 0;
    for (uint64_t seed = 1; !rc && seed <= 8; seed++) {
        char name[32];
        snprintf(name, sizeof name, "batch%u", (unsigned)seed);
        static const uint32_t events[] = {1, 3, 12, 40, 66, 100, 150, 200};
        rc = write_batch(argv[1], name, seed, events[seed - 1], 1 + seed % 2, seed % 4 == 1 ? 1 : EA_ZSTD_NONE, &err);
    }
    if (!rc) {
        ea_text out;
        ea_tombstone t[] = {{.first = 2, .last = 7, .cause = 15, .event_count = 1000},
                            {.first = 9, .last = 9, .cause = 16}};
        uint8_t stream[EA_STREAM_ID_BYTES] = {1};
        ea_text_init(&out);
        rc = ea_batch_make_tombstone(stream, 9, t, 2, &out, &err);
        if (!rc)
            rc = write_file(argv[1], "tombstone", out.data, out.len_bytes, &err);
        ea_text_deinit(&out);
    }
    if (rc)
        ea_err_print(stderr, "seed_batch", &err);
    return rc ? 1 : 0;
}
