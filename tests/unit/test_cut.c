/* proto/relog/cut.c: its memory is that of the things that are open, however many the trace opens; image ids find their
 * modules in linear time. */
#include "proto/relog/cut.h"
#include "tests/unit/etl_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/unit/scratch.h"

static const ea_guid FILE_IO = EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);

/* The most elements that a list had. */
static size_t most;

int __real_ea_array_grow(void *items_at, size_t *capacity, size_t count, size_t max, size_t element_bytes);
int __wrap_ea_array_grow(void *items_at, size_t *capacity, size_t count, size_t max, size_t element_bytes);

int __wrap_ea_array_grow(void *items_at, size_t *capacity, size_t count, size_t max, size_t element_bytes) {
    if (count > most)
        most = count;
    return __real_ea_array_grow(items_at, capacity, count, max, element_bytes);
}

enum { FILES = 100000, STAYS_OPEN = 1000, OP_CREATE = 32, OP_DELETE = 35, OP_READ = 67 };

typedef struct job {
    ea_registry *registry;
    ea_cut *cut;
    ea_cut_counts counts;
} job;

static int emit(void *arg, const ea_relog_event *event) {
    return ea_relog_emit(arg, 0, event);
}

static int take(job *j, unsigned opcode, uint64_t address, int64_t time_raw) {
    uint8_t payload[12] = {[8] = 'a'};
    ea_err err;
    ea_record r = {.provider = FILE_IO,
                   .flags = EA_FLAG_CLASSIC_HEADER,
                   .opcode = (uint8_t)opcode,
                   .version = 2,
                   .pointer_size = 8,
                   .time_raw = time_raw,
                   .payload = payload,
                   .payload_bytes = sizeof payload};
    ea_store64(payload, address);
    return ea_cut_take(j->cut, &r, ea_registry_find(j->registry, &r), 1, &err);
}

/* With the first event: files that are opened and closed, and some that stay open, before a cut. */
static int on_event(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    job *j = arg;
    int64_t from = event->time_raw;
    ea_err err;
    (void)input;
    if (j->cut)
        return EA_RELOG_KEEP;
    assert_int_equal(
        ea_cut_create(
            &j->cut,
            &(ea_cut_options){
                .from_raw = from, .to_raw = INT64_MAX, .limit_bytes = 1 << 20, .emit = emit, .emit_arg = relog},
            &err),
        0);
    most = 0;
    for (uint64_t i = 1; i <= FILES; i++) {
        assert_int_equal(take(j, OP_CREATE, i, from - 1), EA_RELOG_DROP);
        if (i % STAYS_OPEN)
            assert_int_equal(take(j, OP_DELETE, i, from - 1), EA_RELOG_DROP);
    }
    for (uint64_t i = STAYS_OPEN; i <= FILES / 2; i += STAYS_OPEN) /* they are found after others went */
        assert_int_equal(take(j, OP_DELETE, i, from - 1), EA_RELOG_DROP);
    assert_in_range(most, 1, FILES / 10);
    assert_true(take(j, OP_READ, 1, from) >= 0);
    j->counts = *ea_cut_count(j->cut);
    return EA_RELOG_KEEP;
}

/* Relogs a made-up trace with callbacks whose argument is a job; the caller destroys the relogger and what the job has.
 */
static ea_relog *relog_made_up(job *j, const ea_relog_callbacks *callbacks) {
    const char *in = scratch_path("in.etl");
    made_up m;
    ea_relog *g;
    ea_err err;
    assert_int_equal(made_up_write(in, 5, &m, NULL, NULL, &err), 0);
    assert_int_equal(ea_registry_create(&j->registry, 0, &err), 0);
    assert_int_equal(ea_relog_create(&g), 0);
    assert_int_equal(ea_relog_add_input(g, in, NULL, NULL), 0);
    assert_int_equal(ea_relog_add_output(g, scratch_path("out.etl"), NULL, NULL), 0);
    assert_int_equal(ea_relog_run(g, callbacks, j), 0);
    return g;
}

static void things_that_are_over_go(void **state) {
    (void)state;
    job j = {0};
    ea_relog *g = relog_made_up(&j, &(ea_relog_callbacks){.on_event = on_event});
    assert_int_equal(j.counts.file_names, FILES / STAYS_OPEN / 2);
    assert_int_equal(ea_relog_count(g)->added, FILES / STAYS_OPEN / 2);
    ea_cut_destroy(j.cut);
    ea_relog_destroy(g);
    ea_registry_destroy(j.registry);
}

/* ---- image ids ---- */

static const ea_guid IMAGE = EA_GUID(0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0x00, 0xa0, 0xc9, 0x11, 0xf5, 0x18);
static const ea_guid IMAGE_ID = EA_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde);

enum { MODULES = 80000, IDS_OF_FIRST = 9, IDS_KEPT = 4, OP_LOAD = 10, OP_RSDS = 36 };

static int take_image(job *j, const ea_guid *provider, unsigned opcode, uint64_t base, int64_t time_raw) {
    uint8_t payload[64] = {0}; /* Image_Load: base, size, process, checksum, time, reserved, base, reserved, name */
    ea_err err;
    ea_record r = {.provider = *provider,
                   .flags = EA_FLAG_CLASSIC_HEADER,
                   .opcode = (uint8_t)opcode,
                   .version = 2,
                   .pointer_size = 8,
                   .time_raw = time_raw,
                   .payload = payload,
                   .payload_bytes = sizeof payload};
    ea_store64(payload, base);
    ea_store32(payload + 16, 77);
    return ea_cut_take(j->cut, &r, ea_registry_find(j->registry, &r), 1, &err);
}

/* A file may give all its image ids one time, and all modules after them. */
static int on_image(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    job *j = arg;
    int64_t from = event->time_raw;
    ea_err err;
    (void)input;
    if (j->cut)
        return EA_RELOG_KEEP;
    assert_int_equal(
        ea_cut_create(&j->cut,
                      &(ea_cut_options){.from_raw = from, .to_raw = INT64_MAX, .emit = emit, .emit_arg = relog}, &err),
        0);
    clock_t begin = clock();
    assert_int_equal(take_image(j, &IMAGE_ID, OP_RSDS, 0x10000, from - 2), EA_RELOG_DROP); /* of another time */
    for (unsigned i = 1; i < IDS_OF_FIRST; i++)
        assert_int_equal(take_image(j, &IMAGE_ID, OP_RSDS, 0x10000, from - 1), EA_RELOG_DROP);
    for (uint64_t i = 1; i <= MODULES; i++)
        assert_int_equal(take_image(j, &IMAGE_ID, OP_RSDS, i << 16, from - 1), EA_RELOG_DROP);
    for (uint64_t i = 1; i <= MODULES; i++)
        assert_int_equal(take_image(j, &IMAGE, OP_LOAD, i << 16, from - 1), EA_RELOG_DROP);
    assert_true((clock() - begin) / CLOCKS_PER_SEC < 3);
    assert_true(take(j, OP_READ, 1, from) >= 0);
    j->counts = *ea_cut_count(j->cut);
    return EA_RELOG_KEEP;
}

static void ids_are_found_in_linear_time(void **state) {
    (void)state;
    job j = {0};
    ea_relog *g = relog_made_up(&j, &(ea_relog_callbacks){.on_event = on_image});
    assert_int_equal(j.counts.modules, MODULES);
    assert_int_equal(j.counts.image_ids, MODULES - 1 + IDS_KEPT);
    ea_cut_destroy(j.cut);
    ea_relog_destroy(g);
    ea_registry_destroy(j.registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(things_that_are_over_go, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(ids_are_found_in_linear_time, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
