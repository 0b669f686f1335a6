/* Measures what it costs to turn events of one class into columns when all caches are warm. The
 * reference is a copy of the same records from memory to memory. The classes are two fixed kernel classes, and an event
 * of six fields (two of them text) that is described by a manifest, or by TraceLogging metadata in each event. "miss"
 * measures the first lookup of a schema.
 *
 * usage: hot_class measure [--runs N]
 *        hot_class miss [--runs N]
 * "measure" makes 16,384 records of a class in memory, as a busy machine would log them. It does three steps N times:
 * find the class of each record and add the record to a batch (add: what runs in Windows' callback); turn the batch
 * into columns, not compressed (encode: the work of another thread); copy the header fields and the payload of each
 * record to a buffer (copy). It prints the medians in ns per event, as one JSON object per class. "miss" looks up 1,024
 * schemas, each for the first time, and prints the median of N rounds. It also prints what it costs to load a schema
 * cache file of so many events. Thread: one. */
#include "proto/base/cli.h"
#include "proto/event/schema/cache.h"
#include "proto/event/schema/manifest.h"
#include "service/batch/builder.h"
#include "tests/bench/cpu_time.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS = 16384, PAYLOAD = 96, RUNS_MAX = 1001, MISSES = 1024, METADATA = 128 };

static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
static const ea_guid PERF_INFO = EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc);

static const ea_guid GIVEN = EA_GUID(0x11111111, 0x2222, 0x3333, 0x44, 0x44, 0x55, 0x55, 0x66, 0x66, 0x77, 0x77);

typedef struct options {
    uint64_t runs;
} options;

enum origin { ROW, MANIFEST, TRACELOGGING };

typedef struct work {
    const ea_guid *provider;
    uint8_t opcode, version;
    uint16_t hook_id;
    const char *name;
    enum origin origin;
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

static size_t put_text(uint8_t *p, const char *s, size_t width) {
    size_t n = strlen(s) + 1;
    for (size_t i = 0; i < n; i++) {
        p[i * width] = (uint8_t)s[i];
        if (width == 2)
            p[i * width + 1] = 0;
    }
    return n * width;
}

/* Six fields: u32, hexadecimal u32, u64, UTF-16, u16, 8-bit text. */
static uint16_t make_six_fields(uint8_t *p) {
    static const char *const NAMES[] = {"svchost.exe", "explorer.exe", "chrome.exe", "lsass.exe"};
    put32(p, 4000 + 4 * dice(200));
    put32(p + 4, dice(4) ? 0 : 0xC0000022u);
    put32(p + 8, dice(1u << 30));
    put32(p + 12, 0);
    size_t at = 16 + put_text(p + 16, NAMES[dice(4)], 2);
    ea_store16(p + at, (uint16_t)dice(512));
    at += 2;
    return (uint16_t)(at + put_text(p + at, dice(8) ? "read" : "write", 1));
}

/* A context switch among 200 threads, or a sample at one of 5,000 addresses. */
static uint16_t make_payload(const work *w, uint8_t *p) {
    memset(p, 0, PAYLOAD);
    if (w->origin != ROW)
        return make_six_fields(p);
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

/* Metadata of an event with those six fields. number: makes its name another one. */
static uint32_t make_metadata(uint8_t *p, unsigned number) {
    static const struct {
        const char *name;
        uint8_t in, out; /* out 0: none */
    } FIELDS[] = {{"ProcessId", 8, 5}, {"Status", 8, 14}, {"Offset", 10, 0},
                  {"ImageName", 1, 0}, {"Count", 6, 0},   {"Operation", 2, 0}};

    char name[32];
    snprintf(name, sizeof name, "Request%u", number);
    size_t n = 3; /* size, tag */
    p[2] = 0;
    n += put_text(p + n, name, 1);
    for (size_t i = 0; i < sizeof FIELDS / sizeof FIELDS[0]; i++) {
        n += put_text(p + n, FIELDS[i].name, 1);
        p[n++] = (uint8_t)(FIELDS[i].in | (FIELDS[i].out ? 0x80 : 0));
        if (FIELDS[i].out)
            p[n++] = FIELDS[i].out;
    }
    ea_store16(p, (uint16_t)n);
    return (uint32_t)n;
}

/* A manifest with so many events of those six fields. */
static int make_manifest(ea_schemas **ret, unsigned count, ea_err *err) {
    ea_schemas *schemas;
    ea_manifest_options mo = {.file = "bench.man", .layer = EA_SCHEMA_GIVEN};
    ea_manifest_result result;
    ea_text t;
    ea_text_init(&t);
    ea_text_str(&t,
                "<instrumentationManifest><instrumentation><events><provider name=\"Bench\" "
                "guid=\"{11111111-2222-3333-4444-555566667777}\" symbol=\"B\"><templates><template tid=\"t\">"
                "<data name=\"ProcessId\" inType=\"win:UInt32\" outType=\"win:PID\"/>"
                "<data name=\"Status\" inType=\"win:UInt32\" outType=\"win:NTSTATUS\"/>"
                "<data name=\"Offset\" inType=\"win:UInt64\"/><data name=\"ImageName\" inType=\"win:UnicodeString\"/>"
                "<data name=\"Count\" inType=\"win:UInt16\"/><data name=\"Operation\" inType=\"win:AnsiString\"/>"
                "</template></templates><events>");
    for (unsigned i = 0; i < count; i++)
        ea_text_printf(&t, "<event value=\"%u\" symbol=\"Request%u\" template=\"t\" message=\"%%1 did %%6\"/>", i, i);
    ea_text_str(&t, "</events></provider></events></instrumentation></instrumentationManifest>");
    int rc = t.failed ? ea_fail(err, EA_ENOMEM, "make a manifest") : ea_schemas_create(&schemas, 0, err);
    if (!rc && (rc = ea_manifest_read(schemas, t.data, t.len_bytes, &mo, &result, err)) != 0)
        ea_schemas_destroy(schemas);
    ea_text_deinit(&t);
    if (!rc && (result.events != count || result.problems)) {
        ea_schemas_destroy(schemas);
        rc = ea_fail(err, EA_EFORMAT, "the manifest of this program has mistakes");
    }
    if (!rc)
        *ret = schemas;
    return rc;
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
    ea_schemas *schemas = NULL;
    ea_record *records = calloc(EVENTS, sizeof *records);
    uint8_t metadata[METADATA];
    const ea_ext item = {.type = EA_EXT_SCHEMA_TL, .data = metadata, .size_bytes = make_metadata(metadata, 0)};
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
    if (!rc && w->origin == MANIFEST && (rc = make_manifest(&schemas, 1, err)) == 0)
        ea_registry_set_schemas(registry, schemas);
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
        if (w->origin != ROW) {
            records[i].flags = EA_FLAG_64_BIT_HEADER;
            records[i].header_type = EA_HEADER_EVENT64;
            records[i].pid = 4000;
            records[i].tid = 4000 + 4 * dice(16);
        }
        if (w->origin == TRACELOGGING) {
            records[i].channel = 11;
            records[i].ext = &item;
            records[i].ext_count = 1;
        }
    }
    if (!rc && ea_registry_find(registry, records)->status != EA_CLASS_KNOWN)
        rc = ea_fail(err, EA_EINVAL, "%s: no schema", w->name);
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
    ea_schemas_destroy(schemas);
    free(records);
    free(payloads);
    free(to);
    return rc;
}

static options limited(const void *opaque) {
    options o = *(const options *)opaque;
    if (o.runs < 1 || o.runs > RUNS_MAX)
        o.runs = RUNS_MAX;
    return o;
}

/* Nanoseconds that each of MISSES first questions took, into s. */
static int miss_once(enum origin origin, ea_schemas *schemas, uint8_t (*metadata)[METADATA], series *s, ea_err *err) {
    ea_registry *registry;
    int rc = ea_registry_create(&registry, 0, err);
    if (rc)
        return rc;
    ea_registry_set_schemas(registry, schemas);
    size_t known = 0;
    int64_t start = cpu_ns();
    for (unsigned i = 0; i < MISSES; i++) {
        ea_ext item = {.type = EA_EXT_SCHEMA_TL, .data = metadata[i], .size_bytes = ea_load16(metadata[i])};
        ea_record record = {.provider = GIVEN,
                            .id = (uint16_t)(origin == MANIFEST ? i : 0),
                            .flags = EA_FLAG_64_BIT_HEADER,
                            .pointer_size = 8,
                            .ext = &item,
                            .ext_count = origin == TRACELOGGING};
        known += ea_registry_find(registry, &record)->status == EA_CLASS_KNOWN;
    }
    s->ns[s->count++] = (double)(cpu_ns() - start) / MISSES;
    ea_registry_destroy(registry);
    return known == MISSES ? 0 : ea_fail(err, EA_EINVAL, "%zu of %d schemas were found", known, MISSES);
}

/* Nanoseconds that a cache file's events take to be loaded, each. */
static int measure_load(const ea_schemas *schemas, uint64_t runs, series *s, ea_err *err) {
    ea_text file;
    size_t events;
    ea_text_init(&file);
    int rc = ea_schema_cache_write(schemas, EA_SCHEMA_GIVEN, &file, err);
    s->count = 0;
    for (uint64_t run = 0; !rc && run < runs; run++) {
        ea_schemas *loaded;
        int64_t start = cpu_ns();
        rc = ea_schemas_create(&loaded, 0, err);
        if (rc)
            break;
        rc = ea_schema_cache_read(loaded, "bench", file.data, file.len_bytes, EA_SCHEMA_GIVEN, &events, err);
        s->ns[s->count++] = (double)(cpu_ns() - start) / MISSES;
        ea_schemas_destroy(loaded);
    }
    ea_text_deinit(&file);
    return rc;
}

static int run_miss(const void *opaque, int count, char **operands) {
    static series s;
    static uint8_t metadata[MISSES][METADATA];
    options o = limited(opaque);
    ea_err err = {0};
    ea_schemas *schemas = NULL;
    (void)count, (void)operands;
    for (unsigned i = 0; i < MISSES; i++)
        make_metadata(metadata[i], i);
    int rc = make_manifest(&schemas, MISSES, &err);
    for (enum origin origin = MANIFEST; !rc && origin <= TRACELOGGING; origin++) {
        s.count = 0;
        for (uint64_t run = 0; !rc && run < o.runs; run++)
            rc = miss_once(origin, schemas, metadata, &s, &err);
        if (!rc)
            printf("{\"class\":\"%s\",\"miss_ns\":%.0f}\n", origin == MANIFEST ? "manifest" : "TraceLogging",
                   median(&s));
    }
    if (!rc && (rc = measure_load(schemas, o.runs, &s, &err)) == 0)
        printf("{\"class\":\"schema cache\",\"load_ns\":%.0f}\n", median(&s));
    ea_schemas_destroy(schemas);
    if (rc)
        ea_err_print(stderr, "hot_class", &err);
    return ea_exit_code(rc);
}

static int run_measure(const void *opaque, int count, char **operands) {
    static const work WORKS[] = {{&THREAD, 36, 4, 0x0524, "Thread/CSwitch", ROW},
                                 {&PERF_INFO, 46, 2, 0x0f2e, "PerfInfo/SampleProf", ROW},
                                 {&GIVEN, 0, 0, 0, "manifest, six fields", MANIFEST},
                                 {&GIVEN, 0, 0, 0, "TraceLogging, six fields", TRACELOGGING}};
    options o = limited(opaque);
    ea_err err = {0};
    int rc = 0;
    (void)count, (void)operands;
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
static const ea_command miss_command = {.name = "miss",
                                        .operands = "",
                                        .summary = "Ask for schemas that were not asked for before",
                                        .details = "",
                                        .options = rows,
                                        .options_size = sizeof(options),
                                        .run = run_miss};
static const ea_command *const commands[] = {&command, &miss_command, NULL};

int main(int argc, char **argv) {
    return ea_cli_main("hot_class", "0.1.0", "One fixed class into columns.", commands, argc, argv);
}
