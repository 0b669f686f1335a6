/* What it costs to turn events of one fixed kernel class into columns when everything is hot, beside a copy of the same
 * records from memory to memory.
 *
 * usage: hot_class measure [--runs N]
 * Makes 16,384 records of a class in memory, as a busy machine would log them, and does N times: find their class and
 * add them to a batch (add: what runs in Windows' callback), turn the batch into columns, not compressed (encode:
 * another thread's work), and copy each record's header fields and payload to a buffer (copy). Prints the medians in ns
 * an event as one JSON object a class. Thread: one. */
#include "builder.h"
#include "cli.h"
#include "cpu_time.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 16384, PAYLOAD = 64, RUNS_MAX = 1001 };

static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
static const ea_guid PERF_INFO = EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc);

typedef struct options {
    uint64_t runs;
} options;

typedef struct work {
    const ea_guid *provider;
    uint8_t opcode, version;
    uint16_t hook_id;
    const char *name;
} work;

typedef struct series {
    double ns[RUNS_MAX];
    size_t count;
} series;

static uint64_t state = 88172645463325252u;
static uint32_t dice(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

static void put32(uint8_t *p, uint32_t v) {
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* A context switch among 200 threads, or a sample at one of 5,000 addresses. */
static uint16_t make_payload(const work *w, uint8_t *p) {
    memset(p, 0, PAYLOAD);
    if (w->opcode == 36) {
        put32(p, 4000 + 4 * dice(200));
        put32(p + 4, 4000 + 4 * dice(200));
        put32(p + 8, (8 + dice(8)) | ((8 + dice(8)) << 8));
        put32(p + 12, dice(40) | (dice(2) << 8) | (2u << 16));
        put32(p + 16, dice(30));
        put32(p + 20, 0);
        return 24;
    }
    put32(p, 0x80200000u + 16 * dice(5000));
    put32(p + 4, 0xfffff803u);
    put32(p + 8, 4000 + 4 * dice(200));
    put32(p + 12, 1);
    return 16;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(series *s) {
    qsort(s->ns, s->count, sizeof *s->ns, compare);
    return s->ns[s->count / 2];
}

static int measure(const work *w, const options *o, ea_err *err) {
    static series add, encode, whole, copy, ratio;
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    ea_record *records = calloc(EVENTS, sizeof *records);
    uint8_t *payloads = calloc(EVENTS, PAYLOAD), *to = malloc((size_t)EVENTS * (sizeof *records + PAYLOAD));
    ea_wire_source source = {.name = "",
                             .host = "",
                             .clock = {.type = EA_CLOCK_QPC, .frequency = 10000000},
                             .pointer_size = 8,
                             .cpu_count = 8};
    ea_builder_options bo = {.max_events = EVENTS, .sources = &source, .source_count = 1};
    ea_encoder_options eo = {.zstd_level = EA_ZSTD_NONE, .stream = "hot class bench"};
    int rc = records && payloads && to ? 0 : ea_fail(err, EA_ENOMEM, "measure");
    if (!rc)
        rc = ea_registry_create(&registry, 0, err);
    if (!rc)
        rc = ea_builder_create(&builder, &bo, err);
    if (!rc)
        rc = ea_encoder_create(&encoder, &eo, err);
    int64_t clock = 1000000;
    size_t bytes = 0;
    for (size_t i = 0; !rc && i < EVENTS; i++) {
        uint8_t *p = payloads + i * PAYLOAD;
        clock += 1 + dice(200);
        records[i] = (ea_record){.provider = *w->provider,
                                 .opcode = w->opcode,
                                 .version = w->version,
                                 .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                                 .pointer_size = 8,
                                 .time_raw = clock,
                                 .cpu = (uint16_t)dice(8),
                                 .pid = UINT32_MAX,
                                 .tid = UINT32_MAX,
                                 .header_type = EA_HEADER_PERFINFO64,
                                 .hook_id = w->hook_id,
                                 .payload = p,
                                 .payload_bytes = make_payload(w, p)};
    }
    add.count = encode.count = whole.count = copy.count = ratio.count = 0;
    for (uint64_t run = 0; !rc && run <= o->runs; run++) { /* the first warms */
        const uint8_t *data;
        size_t n;
        int64_t t0 = cpu_ns();
        for (size_t i = 0; i < EVENTS && rc >= 0; i++)
            rc = ea_builder_add(builder, &records[i], ea_registry_find(registry, &records[i]));
        int64_t t1 = cpu_ns();
        ea_open_batch *batch = rc < 0 ? NULL : ea_builder_take(builder);
        if (!batch || ea_open_batch_events(batch) != EVENTS) {
            rc = ea_fail(err, rc < 0 ? rc : EA_EINVAL, "fill a batch");
            break;
        }
        int64_t t2 = cpu_ns();
        rc = ea_encoder_encode(encoder, batch, &(ea_batch_stamp){.number = run + 1}, &data, &n, err);
        int64_t t3 = cpu_ns();
        ea_open_batch_release(batch);
        bytes = n;
        uint8_t *at = to;
        int64_t t4 = cpu_ns();
        for (size_t i = 0; i < EVENTS; i++) {
            memcpy(at, &records[i], sizeof records[i]);
            at += sizeof records[i];
            memcpy(at, records[i].payload, records[i].payload_bytes);
            at += records[i].payload_bytes;
        }
        int64_t t5 = cpu_ns();
        if (to[EVENTS] == 0xFF && to[1] == 0x7F)
            fputs("", stderr); /* the copy is used */
        if (run == 0)
            continue;
        double a = (double)(t1 - t0) / EVENTS, e = (double)(t3 - t2) / EVENTS, c = (double)(t5 - t4) / EVENTS;
        add.ns[add.count++] = a;
        encode.ns[encode.count++] = e;
        whole.ns[whole.count++] = a + e;
        copy.ns[copy.count++] = c;
        ratio.ns[ratio.count++] = (a + e) / c;
    }
    if (!rc)
        printf(
            "{\"class\":\"%s\",\"events\":%d,\"add_ns\":%.2f,\"encode_ns\":%.2f,\"columns_ns\":%.2f,\"copy_ns\":%.2f,"
            "\"ratio\":%.2f,\"bytes_per_event\":%.2f}\n",
            w->name, EVENTS, median(&add), median(&encode), median(&whole), median(&copy), median(&ratio),
            (double)bytes / EVENTS);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
    free(records);
    free(payloads);
    free(to);
    return rc;
}

static int run_measure(const void *opaque, int count, char **operands) {
    static const work WORKS[] = {{&THREAD, 36, 4, 0x0524, "Thread/CSwitch"},
                                 {&PERF_INFO, 46, 2, 0x0f2e, "PerfInfo/SampleProf"}};
    options o = *(const options *)opaque;
    ea_err err = {0};
    int rc = 0;
    (void)count, (void)operands;
    if (o.runs < 1 || o.runs > RUNS_MAX)
        o.runs = RUNS_MAX;
    for (size_t i = 0; !rc && i < sizeof WORKS / sizeof WORKS[0]; i++)
        rc = measure(&WORKS[i], &o, &err);
    if (rc)
        ea_err_print(stderr, "hot_class", &err);
    return ea_exit_code(rc);
}

static const ea_option rows[] = {
    {.name = "runs", .argument = "N", .type = EA_OPT_U64, .offset = offsetof(options, runs), .fallback = "51"},
    {.name = NULL},
};
static const ea_command command = {.name = "measure",
                                   .operands = "",
                                   .summary = "Turn hot events into columns, beside a copy of them",
                                   .details = "",
                                   .options = rows,
                                   .options_size = sizeof(options),
                                   .run = run_measure};
static const ea_command *const commands[] = {&command, NULL};

int main(int argc, char **argv) {
    return ea_cli_main("hot_class", "0.1.0", "One fixed class into columns.", commands, argc, argv);
}
