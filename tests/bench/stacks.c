/* What stacks cost: the join of a trace's records that are in memory already, and a profile over a store.
 *
 * usage: stacks join [--runs N] TRACE     ns for each record of joining and interning, and the memory of the stacks
 *        stacks waits [--samples N] DIR   makes a store of N context switches in the folder DIR, unless it is there
 * already, and times the tables of threads and of waits: seconds of processor time, and the most memory
 *        stacks counters [--samples N] DIR   the same with four counters on each switch: the table of threads' counters
 *        stacks flame [--samples N] DIR   makes a store of N samples, each with a stack, in the folder DIR, unless it
 * is there already, and times a profile as JSON: seconds of processor time, and the most memory that the program had
 * Each prints JSON objects, one a line. Thread: one. */
#include "collector/query/analysis/activity.h"
#include "collector/query/export/profile_write.h"
#include "collector/query/scan/archive.h"
#include "collector/store/store.h"
#include "proto/base/arena.h"
#include "proto/base/cli.h"
#include "proto/base/platform.h"
#include "proto/etl/etl.h"
#include "proto/stack/stack_feed.h"
#include "service/batch/builder.h"
#include "tests/bench/cpu_time.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BATCH_EVENTS = 16384, STACKS = 4096, DEPTH_MAX = 40, THREADS = 256, RUNS_MAX = 1001 };

#define EPOCH_NS INT64_C(1700000000000000000)

typedef struct options {
    uint64_t runs, samples;
} options;

/* ---- join ---- */

typedef struct held {
    ea_record record;
    const ea_class *c;
} held;

static int hold(ea_arena *arena, const ea_record *r, const ea_class *c, held *to) {
    to->record = *r;
    to->c = c;
    ea_ext *items = ea_arena_copy(arena, r->ext, r->ext_count * sizeof *items);
    to->record.payload = ea_arena_copy(arena, r->payload, r->payload_bytes);
    for (unsigned i = 0; items && i < r->ext_count; i++)
        if (!(items[i].data = ea_arena_copy(arena, items[i].data, items[i].size_bytes)))
            return EA_ENOMEM;
    to->record.ext = items;
    return to->record.payload && items ? 0 : EA_ENOMEM;
}

static int join_once(const held *records, size_t count, ea_err *err) {
    ea_stacks *stacks = NULL;
    ea_stack_join *join = NULL;
    ea_stack_feed *feed = NULL;
    int rc = ea_stacks_create(&stacks, 0, err);
    if (!rc)
        rc = ea_stack_join_create(&join, stacks, &(ea_stack_join_options){0}, err);
    if (!rc)
        rc = ea_stack_feed_create(&feed, join, err);
    int64_t begin = cpu_ns();
    for (size_t i = 0; !rc && i < count; i++)
        rc = ea_stack_feed_record(feed, &records[i].record, records[i].c, i);
    if (!rc)
        rc = ea_stack_join_end(join);
    int64_t end = cpu_ns();
    if (!rc) {
        const uint64_t *counts = ea_stack_join_counts(join);
        uint64_t halves = 0;
        for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++)
            halves += counts[i];
        ea_stacks_counts c = ea_stacks_count(stacks);
        printf("{\"join_ns\":%.2f,\"events\":%zu,\"halves\":%" PRIu64 ",\"stacks\":%" PRIu64 ",\"stack_bytes\":%" PRIu64
               "}\n",
               (double)(end - begin) / (double)count, count, halves, c.stacks, c.bytes);
    }
    ea_stack_feed_destroy(feed);
    ea_stack_join_destroy(join);
    ea_stacks_destroy(stacks);
    return rc;
}

static int run_join(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ea_etl_set *set = NULL;
    ea_registry *registry = NULL;
    ea_arena arena;
    held *records = NULL;
    size_t count = 0, capacity = 0;
    const ea_record *r;
    (void)operand_count;
    ea_arena_init(&arena, 0);
    int rc = ea_registry_create(&registry, 0, &err);
    const char *paths[] = {operands[0]};
    if (!rc)
        rc = ea_etl_open(&set, paths, 1, NULL, &err);
    while (!rc && (rc = ea_etl_next(set, &r, &err)) == 1) {
        if (count == capacity) {
            capacity = capacity ? capacity * 2 : 65536;
            held *grown = realloc(records, capacity * sizeof *grown);
            if (!grown) {
                rc = ea_fail(&err, EA_ENOMEM, "hold the records");
                break;
            }
            records = grown;
        }
        rc = hold(&arena, r, ea_registry_find(registry, r), &records[count++]);
    }
    for (uint64_t i = 0; !rc && count && i < o->runs; i++)
        rc = join_once(records, count, &err);
    ea_etl_close(set);
    ea_registry_destroy(registry);
    ea_arena_deinit(&arena);
    free(records);
    if (rc)
        ea_err_print(stderr, "stacks", &err);
    return ea_exit_code(rc);
}

/* ---- flame ----
 * A few paths are walked most, so that about an eighth of a batch's stacks are different ones, as in
 * clr-kernel-win8-x64: batches hold such stacks once. */

static const ea_guid PERF_INFO = EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc);
static const ea_guid STACK_WALK = EA_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3);

static uint64_t state = 88172645463325252u;

static uint32_t dice(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

typedef struct maker {
    ec_store *store;
    ea_registry *registry;
    ea_builder *builder;
    ea_encoder *encoder;
    uint64_t number;
    uint32_t in_batch;
} maker;

static int flush(maker *m, ea_err *err) {
    const uint8_t *data;
    size_t n;
    ea_open_batch *batch = ea_builder_take(m->builder);
    m->in_batch = 0;
    if (!batch)
        return 0;
    int rc = ea_encoder_encode(m->encoder, batch, &(ea_batch_stamp){.number = ++m->number}, &data, &n, err);
    ea_open_batch_release(batch);
    if (!rc)
        rc = ec_store_append(m->store, "bench", data, n, err);
    return rc == EC_STORED ? 0 : rc < 0 ? rc : ea_fail(err, EA_EINVAL, "store a batch");
}

/* item: an extended one, or NULL. */
static int add(maker *m, const ea_guid *provider, uint8_t opcode, int64_t time, uint16_t cpu, const uint8_t *payload,
               size_t payload_bytes, const ea_ext *item, ea_err *err) {
    ea_record record = {.provider = *provider,
                        .opcode = opcode,
                        .version = 2,
                        .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                        .pointer_size = 8,
                        .time_raw = time,
                        .cpu = cpu,
                        .pid = UINT32_MAX,
                        .tid = UINT32_MAX,
                        .header_type = EA_HEADER_PERFINFO64,
                        .payload = payload,
                        .payload_bytes = (uint16_t)payload_bytes,
                        .ext = item,
                        .ext_count = item != NULL};
    int rc = ea_builder_add(m->builder, &record, ea_registry_find(m->registry, &record));
    return rc < 0 ? rc : ++m->in_batch == BATCH_EVENTS ? flush(m, err) : 0;
}

static int open_maker(maker *m, const char *dir, ea_err *err) {
    static const ea_wire_source SOURCE = {
        .name = "",
        .host = "",
        .clock = {.type = EA_CLOCK_QPC, .frequency = 10000000, .base_utc_ns = EPOCH_NS},
        .pointer_size = 8,
        .cpu_count = 8};
    int rc = ec_store_open(&m->store, dir, &(ec_store_options){.writable = 1, .trusts_checksums = 1}, err);
    if (!rc)
        rc = ea_registry_create(&m->registry, 0, err);
    if (!rc)
        rc = ea_builder_create(
            &m->builder, &(ea_builder_options){.max_events = BATCH_EVENTS, .sources = &SOURCE, .source_count = 1}, err);
    return rc ? rc : ea_encoder_create(&m->encoder, &(ea_encoder_options){.stream = "stacks bench"}, err);
}

/* Stores what is left and closes everything; rc: what went before. */
static int close_maker(maker *m, int rc, ea_err *err) {
    if (!rc)
        rc = flush(m, err);
    if (!rc)
        rc = ec_store_commit(m->store, err);
    ea_encoder_destroy(m->encoder);
    ea_builder_destroy(m->builder);
    ea_registry_destroy(m->registry);
    ec_store_close(m->store);
    return rc;
}

static int make_store(const char *dir, uint64_t samples, ea_err *err) {
    static uint64_t frames[STACKS][DEPTH_MAX];
    static uint8_t depth[STACKS];
    maker m = {0};
    uint8_t payload[16 + 8 * DEPTH_MAX];
    int64_t clock = 0;
    for (size_t i = 0; i < STACKS; i++) {
        depth[i] = (uint8_t)(8 + dice(DEPTH_MAX - 8));
        for (size_t k = 0; k < depth[i]; k++)
            frames[i][k] = (k < 6 ? 0xFFFFF80000000000u : 0x7FF700000000u) + 64 * (uint64_t)dice(8192);
    }
    int rc = open_maker(&m, dir, err);
    for (uint64_t i = 0; !rc && i < samples; i++) {
        uint32_t which = dice(1 + dice(1 + dice(STACKS))), tid = 1000 + 4 * dice(THREADS);
        uint16_t cpu = (uint16_t)dice(8);
        int64_t sampled = clock += 1 + dice(500);
        ea_store64(payload, frames[which][0]);
        ea_store32(payload + 8, tid);
        ea_store32(payload + 12, 1);
        rc = add(&m, &PERF_INFO, 46, sampled, cpu, payload, 16, NULL, err);
        ea_store64(payload, (uint64_t)sampled);
        ea_store32(payload + 8, 1000 + tid % 64 * 4);
        ea_store32(payload + 12, tid);
        memcpy(payload + 16, frames[which], 8 * (size_t)depth[which]);
        if (!rc)
            rc =
                add(&m, &STACK_WALK, 32, clock += 1 + dice(20), cpu, payload, 16 + 8 * (size_t)depth[which], NULL, err);
    }
    return close_maker(&m, rc, err);
}

static int run_flame(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ea_text t;
    struct rusage usage;
    ec_profile *p = NULL;
    (void)operand_count;
    ea_text_init(&t);
    int rc = ea_path_exists(operands[0]) ? 0 : make_store(operands[0], o->samples, &err);
    ec_profile_request q = {.store = operands[0],
                            .side = {{.from_utc_ns = INT64_MIN, .to_utc_ns = INT64_MAX, .weight = EC_WEIGHT_SAMPLES}}};
    if (!rc) /* the first run folds the state, which a collector does as events come */
        rc = ec_profile_run(&p, &q, &err);
    for (uint64_t i = 0; !rc && i < o->runs; i++) {
        ec_profile_destroy(p);
        p = NULL;
        ea_text_clear(&t);
        int64_t begin = cpu_ns();
        rc = ec_profile_run(&p, &q, &err);
        if (!rc)
            rc = ec_profile_write(p, EC_PROFILE_JSON, &t, &err);
        int64_t end = cpu_ns();
        if (!rc && (p->events[0] != o->samples || p->without_stack[0]))
            rc = ea_fail(&err, EA_EINVAL, "the profile has %" PRIu64 " samples, %" PRIu64 " without a stack",
                         p->events[0], p->without_stack[0]);
        getrusage(RUSAGE_SELF, &usage);
        if (!rc)
            printf("{\"flame_s\":%.3f,\"samples\":%" PRIu64 ",\"stacks\":%zu,\"peak_mib\":%.1f}\n",
                   (double)(end - begin) / 1e9, o->samples, p->stack_count, (double)usage.ru_maxrss / 1024);
    }
    ec_profile_destroy(p);
    ea_text_deinit(&t);
    if (rc)
        ea_err_print(stderr, "stacks", &err);
    return ea_exit_code(rc);
}

/* ---- waits ---- */

/* Context switches of eight processors. Each processor switches between its own threads; each switch ends a wait or a
 * period in the ready state. has_counters: each switch carries the values of four counters of its processor, as in a
 * session for which hardware counters are enabled. */
static int make_switches(const char *dir, uint64_t switches, int has_counters, ea_err *err) {
    static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);

    enum { CPUS = 8, COUNTERS = 4, SWITCH_BYTES = 24, STATE_AT = 14, REASON_AT = 12 };

    enum { WAITING = 5, READY = 1, REASONS = 39 };

    maker m = {0};
    uint32_t running[CPUS] = {0};
    uint64_t counters[CPUS][COUNTERS] = {{0}};
    int64_t clock = 0;
    int rc = open_maker(&m, dir, err);
    for (uint64_t i = 0; !rc && i < switches; i++) {
        uint8_t payload[SWITCH_BYTES] = {0};
        uint16_t cpu = (uint16_t)dice(CPUS);
        uint32_t next = 1000 + 4 * (cpu + CPUS * dice(THREADS / CPUS));
        ea_store32(payload, next);
        ea_store32(payload + 4, running[cpu]);
        payload[REASON_AT] = (uint8_t)dice(REASONS);
        payload[STATE_AT] = dice(4) ? WAITING : READY;
        running[cpu] = next;
        for (unsigned k = 0; k < COUNTERS && has_counters; k++)
            counters[cpu][k] += dice(100000 >> 3 * k);
        const ea_ext item = {
            .type = EA_EXT_PMC_COUNTERS, .data = (const uint8_t *)counters[cpu], .size_bytes = sizeof counters[cpu]};
        rc = add(&m, &THREAD, 36, clock += 1 + dice(100), cpu, payload, sizeof payload, has_counters ? &item : NULL,
                 err);
    }
    return close_maker(&m, rc, err);
}

/* Times tables over a store of switches; name: of the figure. */
static int run_tables(const options *o, const char *dir, int has_counters, const enum ec_activity_kind *kinds,
                      size_t kind_count, const char *name) {
    ea_err err = {0};
    struct rusage usage;
    int rc = ea_path_exists(dir) ? 0 : make_switches(dir, o->samples, has_counters, &err);
    for (uint64_t i = 0; !rc && i < o->runs; i++) {
        int64_t begin = cpu_ns();
        size_t rows = 0;
        for (size_t k = 0; !rc && k < kind_count; k++) {
            ec_archive *archive = NULL;
            ec_activity *a = NULL;
            rc = ec_archive_open(&archive, dir, NULL, NULL, &err);
            if (!rc)
                rc = ec_activity_run(&a, archive, kinds[k], NULL, INT64_MIN, INT64_MAX, 0, NULL, &err);
            rows += a ? ec_activity_count(a) : 0;
            ec_activity_destroy(a);
            ec_archive_close(archive);
        }
        int64_t end = cpu_ns();
        getrusage(RUSAGE_SELF, &usage);
        if (!rc)
            printf("{\"%s\":%.3f,\"switches\":%" PRIu64 ",\"rows\":%zu,\"peak_mib\":%.1f}\n", name,
                   (double)(end - begin) / 1e9, o->samples, rows, (double)usage.ru_maxrss / 1024);
    }
    if (rc)
        ea_err_print(stderr, "stacks", &err);
    return ea_exit_code(rc);
}

static int run_waits(const void *arg, int operand_count, char **operands) {
    static const enum ec_activity_kind KINDS[] = {EC_ACTIVITY_THREADS, EC_ACTIVITY_WAITS};

    (void)operand_count;
    return run_tables(arg, operands[0], 0, KINDS, sizeof KINDS / sizeof *KINDS, "waits_s");
}

static int run_counters(const void *arg, int operand_count, char **operands) {
    static const enum ec_activity_kind KINDS[] = {EC_ACTIVITY_COUNTERS};

    (void)operand_count;
    return run_tables(arg, operands[0], 1, KINDS, sizeof KINDS / sizeof *KINDS, "counters_s");
}

static const ea_option OPTIONS[] = {
    {.name = "runs",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, runs),
     .fallback = "5",
     .min = 1,
     .max = RUNS_MAX - 1,
     .help = "how often"},
    {.name = "samples",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, samples),
     .fallback = "10000000",
     .min = 1,
     .max = 1000000000,
     .help = "in the store"},
    {.name = NULL},
};
static const ea_command JOIN = {.name = "join",
                                .operands = "TRACE",
                                .summary = "Measure the stack join of a trace",
                                .options = OPTIONS,
                                .options_size = sizeof(options),
                                .run = run_join,
                                .min_operands = 1,
                                .max_operands = 1};
static const ea_command FLAME = {.name = "flame",
                                 .operands = "DIR",
                                 .summary =
                                     "Measure a profile over a store that is made in a folder, unless it is there",
                                 .options = OPTIONS,
                                 .options_size = sizeof(options),
                                 .run = run_flame,
                                 .min_operands = 1,
                                 .max_operands = 1};
static const ea_command WAITS = {.name = "waits",
                                 .operands = "DIR",
                                 .summary = "Measure the tables of threads and waits over a store that is made in a "
                                            "folder, unless it is there",
                                 .options = OPTIONS,
                                 .options_size = sizeof(options),
                                 .run = run_waits,
                                 .min_operands = 1,
                                 .max_operands = 1};
static const ea_command COUNTERS = {.name = "counters",
                                    .operands = "DIR",
                                    .summary = "Measure the table of threads' counters over a store that is made in a "
                                               "folder, unless it is there",
                                    .options = OPTIONS,
                                    .options_size = sizeof(options),
                                    .run = run_counters,
                                    .min_operands = 1,
                                    .max_operands = 1};
static const ea_command *const COMMANDS[] = {&JOIN, &FLAME, &WAITS, &COUNTERS, NULL};

int main(int argc, char **argv) {
    return ea_cli_main("stacks", "0.1.0", "What stacks cost.", COMMANDS, argc, argv);
}
