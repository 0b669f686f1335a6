/* Programs on a stream that is read once: what waits for stacks, and what was found of them, is given back. */
#include "service/core/watcher.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);

/* The most elements that a list had. */
static size_t most;

int __real_ea_array_grow(void *items_at, size_t *capacity, size_t count, size_t max, size_t element_bytes);
int __wrap_ea_array_grow(void *items_at, size_t *capacity, size_t count, size_t max, size_t element_bytes);

int __wrap_ea_array_grow(void *items_at, size_t *capacity, size_t count, size_t max, size_t element_bytes) {
    if (count > most)
        most = count;
    return __real_ea_array_grow(items_at, capacity, count, max, element_bytes);
}

/* Each event has its stack inside, as those of providers in processes do. */
static void stacks_that_were_taken_are_forgotten(void **state) {
    enum { EVENTS = 100000, FRAMES = 2, MOST = 2000 };

    static const char PROGRAM[] = "Thread/CSwitch { @[stack(3)] = count(); }";
    const ea_clock clock = {.type = EA_CLOCK_QPC, .frequency = 10000000};
    uint8_t payload[24] = {0}, item[8 + 8 * FRAMES] = {0};
    ea_registry *registry = NULL;
    ea_lang_program *program = NULL;
    ea_watcher *w = NULL;
    ea_lang_run *run = NULL;
    ea_lang_problem problem;
    ea_err err;
    (void)state;
    ea_store64(item + 8, 0x7ff000001000);
    ea_store64(item + 16, 0x7ff000002000);
    assert_int_equal(ea_registry_create(&registry, 0, &err), 0);
    assert_int_equal(
        ea_lang_compile(&program, PROGRAM, strlen(PROGRAM), &(ea_lang_sources){.registry = registry}, &problem), 0);
    assert_int_equal(ea_watcher_create(&w, 1 << 20, &err), 0);
    assert_int_equal(ea_watcher_program(w, program, &(ea_lang_run_options){.form = EA_LANG_CSV}, &run, &err), 0);
    ea_ext ext = {.type = EA_EXT_STACK_TRACE64, .size_bytes = sizeof item, .data = item};
    ea_record r = {.provider = THREAD,
                   .flags = EA_FLAG_CLASSIC_HEADER,
                   .opcode = 36,
                   .version = 2,
                   .pointer_size = 8,
                   .pid = 7,
                   .tid = 8,
                   .ext_count = 1,
                   .ext = &ext,
                   .payload = payload,
                   .payload_bytes = sizeof payload};
    const ea_class *c = ea_registry_find(registry, &r);
    for (uint32_t i = 0; i < EVENTS; i++) {
        r.time_raw = (int64_t)i * 100000; /* 10 ms */
        assert_int_equal(ea_watcher_add(w, &r, c, &clock, r.time_raw * 100, &err), 0);
    }
    assert_int_equal(ea_watcher_end(w, &err), 0);
    const char *out = ea_lang_run_output(run)->data;
    assert_non_null(out);
    assert_non_null(strstr(out, "100000")); /* each event had its stack */
    assert_in_range(most, 1, MOST);         /* what a second has */
    ea_watcher_destroy(w);
    ea_lang_program_destroy(program);
    ea_registry_destroy(registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(stacks_that_were_taken_are_forgotten)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
