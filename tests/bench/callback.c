/* What Windows' callback costs for an event of a fixed kernel class: from an EVENT_RECORD in memory into the ring,
 * beside a copy of the same record and its payload.
 *
 * usage: callback measure [--runs N]
 * Makes 16,384 events of a class and puts them into the ring N times; they are taken out again while the clock does not
 * count. Prints the medians in ns an event as one JSON object a class. Thread: one. */
#include "proto/base/cli.h"
#include "service/etw/event_record.h"
#include "tests/bench/cpu_time.h"

#include <stdlib.h>
#include <string.h>

enum { EVENTS = 16384, PAYLOAD = 64, RUNS_MAX = 1001, REPEATS = 8 };

typedef struct options {
    uint64_t runs;
} options;

typedef struct work {
    const char *name;
    uint32_t guid;
    uint8_t opcode;
    uint16_t payload_bytes;
} work;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int measure_class(const work *w, size_t runs, ea_err *err) {
    static double put[RUNS_MAX], copy[RUNS_MAX];
    static ea_event_record events[EVENTS];
    static uint8_t payloads[EVENTS][PAYLOAD], copies[EVENTS][sizeof(ea_event_record) + PAYLOAD];
    ea_ring *ring = NULL;
    int rc = ea_ring_create(&ring, (size_t)64 << 20, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < EVENTS; i++) {
        events[i] = (ea_event_record){.flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                                      .time = (int64_t)i * 137,
                                      .opcode = w->opcode,
                                      .cpu = (uint16_t)(i % 8),
                                      .payload_bytes = w->payload_bytes,
                                      .payload = payloads[i]};
        ea_store32(events[i].provider.bytes, w->guid);
        for (size_t k = 0; k < PAYLOAD; k++)
            payloads[i][k] = (uint8_t)(i * 31 + k);
    }
    for (size_t r = 0; r < runs && !rc; r++) {
        const ea_record *got;
        int64_t spent = 0;
        for (size_t k = 0; k < REPEATS && !rc; k++) {
            int64_t begin = cpu_ns();
            for (size_t i = 0; i < EVENTS; i++)
                rc |= ea_event_put(ring, &events[i]);
            spent += cpu_ns() - begin;
            while (ea_ring_take(ring, &got))
                ;
        }
        put[r] = (double)spent / (EVENTS * REPEATS);
        int64_t begin = cpu_ns();
        for (size_t k = 0; k < REPEATS; k++)
            for (size_t i = 0; i < EVENTS; i++) {
                memcpy(copies[i], &events[i], sizeof events[i]);
                memcpy(copies[i] + sizeof events[i], payloads[i], w->payload_bytes);
            }
        copy[r] = (double)(cpu_ns() - begin) / (EVENTS * REPEATS);
    }
    ea_ring_destroy(ring);
    if (rc)
        return ea_fail(err, EA_EFULL, "put events into the ring");
    qsort(put, runs, sizeof *put, compare);
    qsort(copy, runs, sizeof *copy, compare);
    printf("{\"class\": \"%s\", \"events\": %d, \"put_ns\": %.2f, \"copy_ns\": %.2f}\n", w->name, EVENTS, put[runs / 2],
           copy[runs / 2]);
    return 0;
}

static int run(const void *arg, int operand_count, char **operands) {
    static const work WORKS[] = {{"Thread/CSwitch", 0x3d6fa8d1, 36, 24}, {"PerfInfo/SampleProf", 0xce1dbfb4, 46, 16}};
    const options *o = arg;
    ea_err err = {0};
    int rc = 0;
    (void)operand_count, (void)operands;
    for (size_t i = 0; i < sizeof WORKS / sizeof *WORKS && !rc; i++)
        rc = measure_class(&WORKS[i], (size_t)o->runs, &err);
    if (rc)
        ea_err_print(stderr, "callback", &err);
    return ea_exit_code(rc);
}

int main(int argc, char **argv) {
    static const ea_option OPTIONS[] = {{.name = "runs",
                                         .argument = "N",
                                         .type = EA_OPT_U64,
                                         .offset = offsetof(options, runs),
                                         .fallback = "21",
                                         .min = 1,
                                         .max = RUNS_MAX,
                                         .help = "medians of so many"},
                                        {.name = NULL}};
    static const ea_command MEASURE = {.name = "measure",
                                       .operands = "",
                                       .summary = "Measure what the callback costs",
                                       .options = OPTIONS,
                                       .options_size = sizeof(options),
                                       .run = run};
    static const ea_command *const COMMANDS[] = {&MEASURE, NULL};
    return ea_cli_main("callback", "1", "What a callback of ETW costs.", COMMANDS, argc, argv);
}
