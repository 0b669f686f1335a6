/* Builders and encoders of the tests: a rig with both, and views of what it makes. Used by: test_builder.c,
 * test_builder_known.c. Include cmocka.h before. Thread: the test's. */
#ifndef EA_TESTS_UNIT_BUILDER_RIG_H
#define EA_TESTS_UNIT_BUILDER_RIG_H

#include "service/batch/builder.h"
#include "service/source/ring.h"
#include "tests/unit/definition_cache.h"

#include <stdlib.h>

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

static inline void rig_open(rig *g, const ea_builder_options *options, int level) {
    ea_err err;
    ea_encoder_options e = {.zstd_level = level, .stream = "stream 16 bytes"};
    g->kept = (definition_cache){0};
    assert_int_equal(ea_registry_create(&g->agent, 0, &err), 0);
    assert_int_equal(ea_registry_create(&g->collector, 0, &err), 0);
    assert_int_equal(ea_builder_create(&g->builder, options, &err), 0);
    assert_int_equal(ea_encoder_create(&g->encoder, &e, &err), 0);
}

static inline void rig_close(rig *g) {
    ea_encoder_destroy(g->encoder);
    definition_cache_deinit(&g->kept);
    ea_builder_destroy(g->builder);
    ea_registry_destroy(g->collector);
    ea_registry_destroy(g->agent);
}

static inline void encode(rig *g, ea_open_batch *o, uint64_t number, const uint8_t **data, size_t *n) {
    ea_err err = {0};
    ea_batch_stamp stamp = {.number = number};
    int rc = ea_encoder_encode(g->encoder, o, &stamp, data, n, &err);
    if (rc)
        ea_err_print(stderr, "encode", &err);
    assert_int_equal(rc, 0);
}

/* Opens a batch that must be good, and checks its checksum. */
static inline ea_batch_view *view(rig *g, const uint8_t *data, size_t n) {
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

static inline ea_record plain(const uint8_t *payload, size_t n) {
    ea_record r = {
        .id = 5, .pointer_size = 8, .header_type = EA_HEADER_EVENT64, .payload = payload, .payload_bytes = (uint16_t)n};
    r.provider.bytes[3] = 9;
    return r;
}

#endif
