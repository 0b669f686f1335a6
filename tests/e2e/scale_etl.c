/* Writes traces of any shape, fast or slowly, and measures the memory that their reader takes: for test_scale.py and
 * test_follow.py.
 *
 *   scale_etl write [options] TRACE        options for CPUs, records, buffers; with --pause the trace is that of a
 * session that is still running; with --wait-at N the program writes N records and then waits until its standard input
 * ends
 *   scale_etl read [--memory SIZE] TRACE…  prints {"records", "hash", "peak_bytes"}: the hash is over every record in
 * the order of arrival; the peak is that of the whole process
 *
 * Called by: the tests. Calls: proto/etl. Thread: one. */
#include "proto/base/cli.h"
#include "proto/base/platform.h"
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { START = 1000000 };

typedef struct options {
    uint64_t cpus, records, buffer, payload, pause_every, wait_at, memory, seed;
    int64_t pause_ns;
    int compressed, unfinished;
} options;

static int write_trace(const options *o, ea_etl_writer *w, ea_err *err) {
    static uint8_t payload[UINT16_MAX];
    uint64_t random = o->seed * 2 + 1;
    int rc = 0;
    for (uint64_t i = 0; !rc && i < o->records; i++) {
        random ^= random >> 12;
        random ^= random << 25;
        random ^= random >> 27;
        ea_record r = {.header_type = EA_HEADER_SYSTEM64,
                       .hook_id = 0x0501,
                       .header_word = 3,
                       .version = 3,
                       .opcode = 1,
                       .provider = *ea_etl_group_of(0x0501),
                       .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                       .pointer_size = 8,
                       .time_raw = START + (int64_t)i,
                       .pid = 4,
                       .tid = (uint32_t)i,
                       .cpu = (uint16_t)(random * UINT64_C(0x2545F4914F6CDD1D) % o->cpus),
                       .logger = 1,
                       .payload = payload,
                       .payload_bytes = (uint16_t)o->payload};
        ea_store64(payload, i);
        rc = ea_etl_writer_add(w, &r, err);
        if (!rc && o->pause_every && i % o->pause_every == 0)
            ea_sleep_ns(o->pause_ns);
        while (!rc && o->wait_at && i == o->wait_at && getchar() != EOF) {
        }
    }
    for (uint64_t cpu = 0; !rc && cpu < o->cpus; cpu++)
        rc = ea_etl_writer_flush(w, (uint16_t)cpu, err);
    if (!rc && !o->unfinished)
        rc = ea_etl_writer_finish(w, &(ea_etl_writer_end){.end_filetime = 133000002000000000}, err);
    return rc;
}

static int run_write(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    char name[] = "scale";
    ea_err err = {0};
    ea_etl_writer *w;
    (void)operand_count;
    if (!o->cpus || o->cpus > 65535 || o->payload < 8 || o->payload > 60000 || o->buffer > 16 << 20)
        return 2;
    ea_etl_info info = {.buffer_size_bytes = (uint32_t)o->buffer,
                        .os_version = 0x0000000a,
                        .os_build = 26100,
                        .cpu_count = (uint32_t)o->cpus,
                        .timer_resolution = 156250,
                        .log_file_mode = o->compressed ? 0x04000001 : 1,
                        .compression = o->compressed ? 3 : 0,
                        .pointer_size = 8,
                        .cpu_mhz = 3000,
                        .boot_filetime = 133000000000000000,
                        .perf_frequency = 10000000,
                        .start_filetime = 133000001000000000,
                        .clock_type = EA_CLOCK_QPC,
                        .session_name = name,
                        .log_file_name = name,
                        .logger = 1};
    int rc = ea_etl_writer_create(&w, operands[0], &(ea_etl_writer_options){.info = &info, .start_raw = START}, &err);
    if (!rc) {
        rc = write_trace(o, w, &err);
        ea_etl_writer_destroy(w);
    }
    if (rc)
        ea_err_print(stderr, "scale_etl", &err);
    return rc ? 1 : 0;
}

static uint64_t mix(uint64_t h, const void *data, size_t len) {
    const uint8_t *p = data;
    while (len--)
        h = (h ^ *p++) * UINT64_C(0x100000001b3);
    return h;
}

static int run_read(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ea_etl_set *set;
    const ea_record *r;
    uint64_t records = 0, hash = 1;
    struct rusage usage;
    int rc = ea_etl_open(&set, (const char *const *)operands, (size_t)operand_count,
                         &(ea_etl_options){.memory_limit_bytes = o->memory}, &err);
    if (!rc) {
        while ((rc = ea_etl_next(set, &r, &err)) == 1) {
            hash = mix(hash, &r->time_raw, sizeof r->time_raw);
            hash = mix(hash, &r->cpu, sizeof r->cpu);
            hash = mix(hash, &r->source, sizeof r->source);
            hash = mix(hash, r->payload, r->payload_bytes < 8 ? r->payload_bytes : 8);
            records++;
        }
        ea_etl_close(set);
    }
    if (rc)
        ea_err_print(stderr, "scale_etl", &err);
    else if (getrusage(RUSAGE_SELF, &usage) == 0)
        printf("{\"records\":%" PRIu64 ",\"hash\":\"%016" PRIx64 "\",\"peak_bytes\":%" PRIu64 "}\n", records, hash,
               (uint64_t)usage.ru_maxrss * 1024);
    return rc ? 1 : 0;
}

#define NUMBER(n, kind, f, value)                                                                                      \
    { .name = n, .argument = "N", .type = kind, .offset = offsetof(options, f), .fallback = value }

static const ea_option WRITE_OPTIONS[] = {
    NUMBER("cpus", EA_OPT_U64, cpus, "4"),
    NUMBER("records", EA_OPT_U64, records, "10000"),
    NUMBER("buffer", EA_OPT_SIZE, buffer, "8KiB"),
    NUMBER("payload", EA_OPT_U64, payload, "40"),
    NUMBER("seed", EA_OPT_U64, seed, "1"),
    NUMBER("pause", EA_OPT_DURATION, pause_ns, "0"),
    NUMBER("pause-every", EA_OPT_U64, pause_every, "0"),
    NUMBER("wait-at", EA_OPT_U64, wait_at, "0"),
    {.name = "compressed", .type = EA_OPT_FLAG, .offset = offsetof(options, compressed)},
    {.name = "unfinished", .type = EA_OPT_FLAG, .offset = offsetof(options, unfinished)},
    {.name = NULL},
};
static const ea_option READ_OPTIONS[] = {
    NUMBER("memory", EA_OPT_SIZE, memory, "0"),
    {.name = NULL},
};
static const ea_command WRITE = {.name = "write",
                                 .operands = "TRACE",
                                 .summary = "Write a trace",
                                 .details = "",
                                 .options = WRITE_OPTIONS,
                                 .options_size = sizeof(options),
                                 .run = run_write,
                                 .min_operands = 1,
                                 .max_operands = 1};
static const ea_command READ = {.name = "read",
                                .operands = "TRACE...",
                                .summary = "Read traces as one and say what it took",
                                .details = "",
                                .options = READ_OPTIONS,
                                .options_size = sizeof(options),
                                .run = run_read,
                                .min_operands = 1,
                                .max_operands = -1};
static const ea_command *const COMMANDS[] = {&WRITE, &READ, NULL};

int main(int argc, char **argv) {
    return ea_cli_main("scale_etl", "0.1.0", "Traces of any shape.", COMMANDS, argc, argv);
}
