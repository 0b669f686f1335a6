/* Measures what a filter of the agent's configuration costs an event, all caches warm, beside C loops over the same
 * records that make the same decisions: with the same hash of a value's text, and the same map of counts.
 *
 * usage: filters measure [--runs N]
 * 16,384 context switches of 200 threads in eight seconds go through one filter each of where, drop, sample and limit.
 * Prints the medians in ns per event, and how many events are kept, as one JSON object per filter; fails when both ways
 * do not keep equally many. Thread: one. */
#include "proto/base/map.h"
#include "service/core/filter.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/switches.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SAMPLE = 10, LIMIT = 5, SECONDS = 8, FREQUENCY = 10000000 };

typedef struct world {
    ea_registry *registry;
    const ea_class *c;
    ea_clock clock;
    ea_record records[EVENTS];
    uint8_t payloads[EVENTS][PAYLOAD];
} world;

static void make_events(world *w) {
    w->clock = (ea_clock){.base_utc_ns = INT64_C(1700000000) * 1000000000, .frequency = FREQUENCY};
    for (size_t i = 0; i < EVENTS; i++) {
        uint32_t next = any_thread(), previous = any_thread(), wait = dice(30), cpu = dice(8);
        w->records[i] = make_switch(w->payloads[i], next, previous, wait, cpu,
                                    (int64_t)i * ((int64_t)SECONDS * FREQUENCY / EVENTS));
    }
    w->c = ea_registry_find(w->registry, &w->records[0]);
}

/* ---- the filters ---- */

static int run_filter(const world *w, const ea_filter_config *config, double *ret_ns, uint64_t *ret_kept) {
    ea_event_filters *f = NULL;
    ea_filter_problem problem;
    ea_filter_config one = *config;
    ea_err err = {0};
    uint64_t kept = 0;
    one.classes = (ea_strings){.items = {"Thread/CSwitch"}, .count = 1};
    int rc = ea_event_filters_create(&f, &(ea_tables){&one, 1}, NULL, 0, &problem, &err);
    if (!rc)
        rc = ea_event_filters_use_machine(f, NULL, &err);
    int64_t begun = cpu_ns();
    for (int round = 0; round < ROUNDS && !rc; round++) {
        ea_clock clock = w->clock; /* each round is later: a limit counts by the second */
        clock.base_utc_ns += round * (int64_t)SECONDS * 1000000000;
        for (size_t i = 0; i < EVENTS && !rc; i++) {
            enum ea_counter place = EA_COUNT_events_batched;
            rc = ea_event_filters_judge(f, &w->records[i], &w->records[i], w->c, &clock, &place, &err);
            kept += place == EA_COUNT_events_batched;
        }
    }
    *ret_ns = (double)(cpu_ns() - begun) / (ROUNDS * EVENTS);
    *ret_kept = kept;
    ea_event_filters_destroy(f);
    if (rc)
        fprintf(stderr, "filters: %s%s\n", problem.message, err.message);
    return rc;
}

/* ---- the same decisions ---- */

static uint64_t where_in_c(const world *w) {
    uint64_t kept = 0;
    for (size_t i = 0; i < EVENTS; i++)
        kept += ea_load32(w->records[i].payload + 16) > 10 && ea_load32(w->records[i].payload) != 4000;
    return kept;
}

static uint64_t drop_in_c(const world *w) {
    uint64_t kept = 0;
    for (size_t i = 0; i < EVENTS; i++)
        kept += !(ea_load32(w->records[i].payload + 16) > 10 && ea_load32(w->records[i].payload) != 4000);
    return kept;
}

/* A hash of the number's decimal digits. */
static uint64_t hash_of(uint32_t value) {
    char digits[12];
    int n = snprintf(digits, sizeof digits, "%" PRIu32, value);
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < n; i++)
        h = (h ^ (uint8_t)digits[i]) * UINT64_C(0x100000001b3);
    h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return h ^ h >> 33;
}

static uint64_t sample_in_c(const world *w) {
    uint64_t kept = 0;
    for (size_t i = 0; i < EVENTS; i++)
        kept += hash_of(ea_load32(w->records[i].payload)) % SAMPLE == 0;
    return kept;
}

static uint64_t limit_in_c(const world *w) {
    ea_u64_map counts;
    int64_t at = INT64_MIN;
    uint64_t kept = 0;
    ea_u64_map_init(&counts, 0);
    for (size_t i = 0; i < EVENTS; i++) {
        int64_t second = ea_clock_to_utc_ns(&w->clock, w->records[i].time_raw) / 1000000000;
        if (second != at)
            ea_u64_map_clear(&counts);
        at = second;
        uint64_t value = hash_of(ea_load32(w->records[i].payload)), *n = ea_u64_map_get(&counts, value);
        if (!n)
            kept += ea_u64_map_put(&counts, value, 1) == 0;
        else if (*n < LIMIT)
            kept += ++*n != 0;
    }
    ea_u64_map_deinit(&counts);
    return kept;
}

static double time_in_c(const world *w, uint64_t (*in_c)(const world *w), uint64_t *ret_kept) {
    *ret_kept = 0;
    int64_t begun = cpu_ns();
    for (int round = 0; round < ROUNDS; round++)
        *ret_kept += in_c(w);
    return (double)(cpu_ns() - begun) / (ROUNDS * EVENTS);
}

static int run(const void *arg, int operand_count, char **operands) {
    static const struct {
        const char *name;
        ea_filter_config config;
        uint64_t (*in_c)(const world *w);
    } FILTERS[] = {
        {"where", {.where = "NewThreadWaitTime > 10 && NewThreadId != 4000"}, where_in_c},
        {"drop", {.drop = "NewThreadWaitTime > 10 && NewThreadId != 4000"}, drop_in_c},
        {"sample", {.sample = "1/10 by NewThreadId"}, sample_in_c},
        {"limit", {.limit = "5/s per NewThreadId"}, limit_in_c},
    };

    static double ours[RUNS_MAX], in_c[RUNS_MAX];
    const options *o = arg;
    (void)operand_count;
    (void)operands;
    world *w = calloc(1, sizeof *w);
    if (!w || ea_registry_create(&w->registry, 0, NULL)) {
        free(w);
        return 1;
    }
    make_events(w);
    int rc = 0;
    for (size_t i = 0; i < sizeof FILTERS / sizeof *FILTERS && !rc; i++) {
        uint64_t kept = 0, wanted = 0;
        for (size_t k = 0; k < o->runs && !rc; k++) {
            rc = run_filter(w, &FILTERS[i].config, &ours[k], &kept);
            in_c[k] = time_in_c(w, FILTERS[i].in_c, &wanted);
        }
        if (!rc && kept != wanted) {
            fprintf(stderr, "filters: %s keeps %" PRIu64 " events, the loop in C %" PRIu64 "\n", FILTERS[i].name, kept,
                    wanted);
            rc = 1;
        }
        if (!rc)
            printf("{\"filter\":\"%s\",\"ns\":%.2f,\"c_ns\":%.2f,\"kept\":%" PRIu64 "}\n", FILTERS[i].name,
                   median(ours, o->runs), median(in_c, o->runs), kept / ROUNDS);
    }
    ea_registry_destroy(w->registry);
    free(w);
    return rc ? 1 : 0;
}

int main(int argc, char **argv) {
    return measure_main("filters", "Measures the filters of the configuration.", "Measure filters of the configuration",
                        run, argc, argv);
}
