/* What benchmarks of programs and filters share: context switches among 200 threads, a median, the command line. Each
 * program includes it once. Thread: one. */
#ifndef EA_TESTS_BENCH_SWITCHES_H
#define EA_TESTS_BENCH_SWITCHES_H

#include "proto/base/bytes.h"
#include "proto/base/cli.h"
#include "proto/base/record.h"

#include <stdlib.h>

enum { EVENTS = 16384, PAYLOAD = 24, RUNS_MAX = 1001, ROUNDS = 4 };

typedef struct options {
    uint64_t runs;
} options;

static uint32_t dice(uint32_t sides) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % sides;
}

static uint32_t any_thread(void) {
    return 4000 + 4 * dice(200);
}

/* A switch between two threads, in payload of PAYLOAD bytes. */
static ea_record make_switch(uint8_t *payload, uint32_t next, uint32_t previous, uint32_t wait_time, uint32_t cpu,
                             int64_t time_raw) {
    static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
    ea_store32(payload, next);
    ea_store32(payload + 4, previous);
    payload[12] = (uint8_t)dice(40);
    ea_store32(payload + 16, wait_time);
    return (ea_record){.provider = THREAD,
                       .flags = EA_FLAG_CLASSIC_HEADER,
                       .opcode = 36,
                       .version = 2,
                       .pointer_size = 8,
                       .pid = UINT32_MAX,
                       .tid = UINT32_MAX,
                       .cpu = (uint16_t)cpu,
                       .time_raw = time_raw,
                       .payload = payload,
                       .payload_bytes = PAYLOAD};
}

static int compare_times(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t count) {
    qsort(values, count, sizeof *values, compare_times);
    return values[count / 2];
}

/* The command "measure" of a program. */
static int measure_main(const char *program, const char *details, const char *summary,
                        int (*run)(const void *arg, int operand_count, char **operands), int argc, char **argv) {
    static const ea_option OPTIONS[] = {
        {.name = "runs",
         .argument = "N",
         .type = EA_OPT_U64,
         .offset = offsetof(options, runs),
         .fallback = "11",
         .min = 1,
         .max = RUNS_MAX,
         .help = "how often each one is measured"},
        {.name = NULL},
    };
    const ea_command measure = {.name = "measure",
                                .operands = "",
                                .summary = summary,
                                .options = OPTIONS,
                                .options_size = sizeof(options),
                                .run = run};
    const ea_command *const commands[] = {&measure, NULL};
    return ea_cli_main(program, "", details, commands, argc, argv);
}

#endif
