/* A program of the query language, and events for it. Used by: test_lang.c, test_lang_aggregations.c.
 * Thread: the test's. */
#ifndef EA_TESTS_UNIT_LANG_RIG_H
#define EA_TESTS_UNIT_LANG_RIG_H

#include "proto/lang/lang.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);

typedef struct world {
    ea_registry *registry;
    ea_lang_program *program;
    ea_lang_run *run;
    int64_t now_ns;
    ea_guid activity;  /* of the next context switch */
    uint32_t stack[2]; /* likewise */
} world;

static inline int make_world(void **state) {
    world *w = calloc(1, sizeof *w);
    assert_int_equal(ea_registry_create(&w->registry, 0, NULL), 0);
    w->now_ns = 1000000000;
    *state = w;
    return 0;
}

static inline void end_run(world *w) {
    ea_lang_run_destroy(w->run);
    ea_lang_program_destroy(w->program);
    w->run = NULL;
    w->program = NULL;
    w->now_ns = 1000000000;
}

static inline int free_world(void **state) {
    world *w = *state;
    end_run(w);
    ea_registry_destroy(w->registry);
    free(w);
    return 0;
}

static inline int compile(world *w, const char *text, ea_lang_problem *problem) {
    ea_lang_sources from = {.registry = w->registry};
    return ea_lang_compile(&w->program, text, strlen(text), &from, problem);
}

static inline void start_with(world *w, const char *text, const ea_lang_run_options *options) {
    ea_lang_problem problem;
    if (compile(w, text, &problem))
        fail_msg("%s:%u:%u: %s", text, problem.line, problem.column, problem.message);
    assert_int_equal(ea_lang_run_create(&w->run, w->program, options, NULL), 0);
    assert_true(ea_lang_run_begin(w->run) >= 0);
}

static inline void start(world *w, const char *text) {
    start_with(w, text, &(ea_lang_run_options){.form = EA_LANG_JSON});
}

/* A context switch, of which each number is as it is given. */
static inline int switch_to(world *w, uint32_t new_thread, uint32_t old_thread, int priority, uint32_t wait) {
    uint8_t payload[24] = {0};
    memcpy(payload, &new_thread, 4);
    memcpy(payload + 4, &old_thread, 4);
    payload[8] = (uint8_t)priority;
    payload[12] = 6; /* UserRequest */
    payload[14] = 5;
    memcpy(payload + 16, &wait, 4);
    ea_record record = {.provider = THREAD,
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .opcode = 36,
                        .version = 2,
                        .pointer_size = 8,
                        .pid = UINT32_MAX,
                        .tid = UINT32_MAX,
                        .cpu = 3,
                        .activity_id = w->activity,
                        .payload = payload,
                        .payload_bytes = sizeof payload};
    ea_lang_event event = {.record = &record, .utc_ns = w->now_ns, .stack = {w->stack[0], w->stack[1]}};
    event.c = ea_registry_find(w->registry, &record);
    w->now_ns += 1000;
    return ea_lang_run_event(w->run, &event);
}

/* A record of Thread/Start (1) or Thread/End (2), shortened to so many bytes. */
static inline int thread_event(world *w, uint8_t opcode, uint32_t tid, uint16_t bytes) {
    uint8_t payload[8] = {0};
    memcpy(payload + 4, &tid, 4);
    ea_record record = {.provider = THREAD,
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .opcode = opcode,
                        .version = 1,
                        .pointer_size = 8,
                        .pid = 7,
                        .tid = 8,
                        .payload = payload,
                        .payload_bytes = bytes};
    ea_lang_event event = {.record = &record, .utc_ns = w->now_ns};
    event.c = ea_registry_find(w->registry, &record);
    return ea_lang_run_event(w->run, &event);
}

static inline int end_thread(world *w, uint32_t tid, uint16_t bytes) {
    return thread_event(w, 2, tid, bytes);
}

/* A sanitizer has memory of its own, and takes ten times as long. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED
#endif
#endif

/* Whether so much processor time was enough since then; where clock() counts all time, ten times as much. */
static inline int was_enough(clock_t since, double seconds) {
#ifdef _WIN32
    seconds *= 10;
#elif defined(IS_SANITIZED)
    seconds *= 4;
#endif
    return (double)(clock() - since) < seconds * CLOCKS_PER_SEC;
}

static inline const char *output(world *w) {
    ea_text *out = ea_lang_run_output(w->run);
    return out->data ? out->data : "";
}

static inline void ends_with(world *w, const char *expected) {
    assert_true(ea_lang_run_end(w->run) >= 0);
    assert_string_equal(output(w), expected);
    end_run(w);
}

#endif
