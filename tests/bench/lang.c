/* Measures what a program of the query language costs an event, from an empty run on, beside C loops over the same
 * records that do the same work with the hash table that the language has. On both sides tables grow; the language
 * names each stack once, too.
 *
 * usage: lang measure [--runs N]
 * 16,384 context switches among 200 threads go N times through two programs: a condition and a count by two keys; the
 * time off the processor by thread and stack (200 stacks of 12 to 43 frames, of 1,000 places in 64 modules). Prints the
 * medians in ns per event, as one JSON object per program. Thread: one. */
#include "proto/lang/lang.h"
#include "proto/lang/lang_table.h"
#include "tests/bench/cpu_time.h"
#include "tests/bench/switches.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { STACKS = 200, MODULES = 64, PLACES = 1000, PID = 4321 };

static const uint64_t CODE = 0x7ff600000000; /* 256 MiB of it */

typedef struct world {
    ea_registry *registry;
    const ea_class *c;
    ea_record records[EVENTS];
    uint8_t payloads[EVENTS][PAYLOAD];
    uint32_t stacks[EVENTS];
    uint64_t frames[STACKS][43];
    size_t frame_counts[STACKS];
    ea_machine *machine; /* with modules at the frames' addresses */
} world;

static const uint64_t *frames_of(const void *arg, uint32_t number, size_t *ret_count) {
    const world *w = arg;
    *ret_count = w->frame_counts[number - 1];
    return w->frames[number - 1];
}

static void make_events(world *w) {
    uint64_t places[PLACES];
    for (size_t i = 0; i < PLACES; i++)
        places[i] = CODE + 16 * (uint64_t)dice(1u << 24);
    for (size_t i = 0; i < STACKS; i++) {
        w->frame_counts[i] = 12 + dice(32);
        for (size_t k = 0; k < w->frame_counts[i]; k++)
            w->frames[i][k] = places[dice(PLACES)];
    }
    uint32_t running[8];
    for (size_t i = 0; i < 8; i++)
        running[i] = any_thread();
    for (size_t i = 0; i < EVENTS; i++) {
        uint32_t cpu = dice(8), next = any_thread(), wait = dice(30);
        w->records[i] = make_switch(w->payloads[i], next, running[cpu], wait, cpu, (int64_t)i * 100);
        running[cpu] = next;
        w->stacks[i] = 1 + dice(STACKS);
    }
    w->c = ea_registry_find(w->registry, &w->records[0]);
}

static int make_modules(world *w) {
    int rc = ea_machine_create(&w->machine, &(ea_machine_options){0}, NULL);
    for (uint64_t i = 0; i < MODULES && !rc; i++) {
        char path[64];
        snprintf(path, sizeof path, "\\Windows\\System32\\module%" PRIu64 ".dll", i);
        rc = ea_machine_restore_module(w->machine, &(ea_module){.life = {.instance = i + 1, .end_utc_ns = INT64_MAX},
                                                                .pid = PID,
                                                                .base = CODE + (i << 22),
                                                                .size_bytes = 1 << 22,
                                                                .path = path,
                                                                .pdb_path = "",
                                                                .original_name = "",
                                                                .sha256 = "",
                                                                .file_version = "",
                                                                .company = "",
                                                                .product = "",
                                                                .md5 = "",
                                                                .sha1 = "",
                                                                .imphash = "",
                                                                .description = ""});
    }
    return rc;
}

static int run_language(const world *w, const char *text, double *ret_ns) {
    ea_lang_program *program = NULL;
    ea_lang_run *run = NULL;
    ea_lang_problem problem;
    ea_lang_sources from = {.registry = w->registry};
    int rc = ea_lang_compile(&program, text, strlen(text), &from, &problem);
    if (rc) {
        fprintf(stderr, "%s\n", problem.message);
        return rc;
    }
    ea_lang_run_options o = {.form = EA_LANG_JSON, .frames = frames_of, .frames_arg = w, .machine = w->machine};
    rc = ea_lang_run_create(&run, program, &o, NULL);
    int64_t begun = cpu_ns();
    for (int round = 0; round < ROUNDS && rc == 0; round++)
        for (size_t i = 0; i < EVENTS && rc == 0; i++) {
            ea_lang_event event = {.record = &w->records[i],
                                   .c = w->c,
                                   .utc_ns = w->records[i].time_raw,
                                   .stack = {0, w->stacks[i]},
                                   .stack_pid = PID};
            rc = ea_lang_run_event(run, &event);
        }
    *ret_ns = (double)(cpu_ns() - begun) / (ROUNDS * EVENTS);
    ea_lang_run_destroy(run);
    ea_lang_program_destroy(program);
    return rc;
}

/* The same as the first program: a condition, and a count by two keys. */
static double count_in_c(const world *w) {
    lang_memory memory = {.limit_bytes = SIZE_MAX, .seed = 1};
    lang_table table;
    lang_table_init(&table, 2, 1, 65536, &memory);
    int64_t begun = cpu_ns();
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < EVENTS; i++) {
            const uint8_t *p = w->records[i].payload;
            if (ea_load32(p + 16) <= 10)
                continue;
            uint64_t keys[2] = {ea_load32(p), (uint64_t)(int64_t)(int8_t)p[12]};
            uint64_t *count = lang_table_put(&table, keys);
            if (count)
                ++*count;
        }
    double ns = (double)(cpu_ns() - begun) / (ROUNDS * EVENTS);
    lang_table_deinit(&table);
    return ns;
}

/* The same as the second one: stacks by their number. */
static double off_cpu_in_c(const world *w) {
    lang_memory memory = {.limit_bytes = SIZE_MAX, .seed = 1};
    lang_table sums, since;
    lang_table_init(&sums, 2, 1, 65536, &memory);
    lang_table_init(&since, 1, 1, 65536, &memory);
    int64_t begun = cpu_ns();
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < EVENTS; i++) {
            const ea_record *r = &w->records[i];
            uint64_t next = ea_load32(r->payload), old = ea_load32(r->payload + 4);
            uint64_t *time = lang_table_put(&since, &old);
            if (time)
                *time = (uint64_t)r->time_raw;
            time = lang_table_get(&since, &next);
            if (!time || !*time)
                continue;
            uint64_t keys[2] = {next, w->stacks[i]};
            uint64_t *sum = lang_table_put(&sums, keys);
            if (sum)
                *sum += (uint64_t)r->time_raw - *time;
            lang_table_remove(&since, &next);
        }
    double ns = (double)(cpu_ns() - begun) / (ROUNDS * EVENTS);
    lang_table_deinit(&sums);
    lang_table_deinit(&since);
    return ns;
}

static int run(const void *arg, int operand_count, char **operands) {
    static const struct {
        const char *name, *text;
        double (*in_c)(const world *w);
    } PROGRAMS[] = {
        {"a condition and a count by two keys",
         "Thread/CSwitch /NewThreadWaitTime > 10/ { @[NewThreadId, OldThreadWaitReason] = count(); }", count_in_c},
        {"time off the processor by thread and stack",
         "sched:::off-cpu { self.ts = timestamp; } "
         "sched:::on-cpu /self.ts/ { @[tid, ustack()] = sum(timestamp - self.ts); self.ts = 0; }",
         off_cpu_in_c},
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
    int rc = make_modules(w);
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS && !rc; i++) {
        for (size_t k = 0; k < o->runs && !rc; k++) {
            rc = run_language(w, PROGRAMS[i].text, &ours[k]);
            in_c[k] = PROGRAMS[i].in_c(w);
        }
        if (!rc)
            printf("{\"program\":\"%s\",\"ns\":%.2f,\"c_ns\":%.2f}\n", PROGRAMS[i].name, median(ours, o->runs),
                   median(in_c, o->runs));
    }
    ea_machine_destroy(w->machine);
    ea_registry_destroy(w->registry);
    free(w);
    return rc ? 1 : 0;
}

int main(int argc, char **argv) {
    return measure_main("lang", "Measures the query language.", "Measure programs of the query language", run, argc,
                        argv);
}
