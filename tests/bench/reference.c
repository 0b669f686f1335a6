/* What a trace costs anybody: the references beside which `make bench` prints our figures.
 *
 * usage: reference measure [--runs N] TRACE...
 * Prints one JSON object, the fastest of N runs in ns an event: walk (each buffer read, decompressed, and its records
 * stepped over: no merge, no order, no records made) and zstd (each buffer read, decompressed, and compressed again as
 * it is by zstd -1), with the bytes an event takes then. Thread: one. */
#include "bytes.h"
#include "cli.h"
#include "etl.h"
#include "platform.h"
#include "text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zstd.h>

enum { HEADER_BYTES = 72, LARGEST_BUFFER = 64 << 20, COMPRESSED = 0x40 };

typedef struct totals {
    uint64_t events, packed_bytes, times;
    int64_t walk_ns, zstd_ns;
} totals;

typedef struct memory {
    uint8_t *file_bytes, *records, *packed;
    size_t packed_room;
    ZSTD_CCtx *zstd;
} memory;

/* Steps over the records of one buffer; the sum of their times keeps the compiler honest. */
static uint64_t walk(const uint8_t *p, const uint8_t *end, uint64_t *times) {
    uint64_t n = 0;
    while (end - p >= 8) {
        uint64_t w = ea_load64(p);
        unsigned type = (unsigned)(w >> 16) & 0xFF;
        int kernel = type <= 4 || type == 16 || type == 17;
        uint32_t size = (uint32_t)(kernel ? w >> 32 : w) & 0xFFFF;
        if (!(w & 0x80000000) || size < 16 || size > end - p)
            break;
        *times += ea_load64(p + (type == 16 || type == 17 ? 8 : 16));
        n++;
        p += (size + 7) & ~7u;
    }
    return n;
}

/* All buffers of one file; with_zstd: the second reference. */
static int pass(const char *path, memory *m, int with_zstd, totals *t, ea_err *err) {
    ea_file *f;
    uint64_t size = 0, at = 0;
    int rc = ea_file_open(&f, path, EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = ea_file_size(f, &size, err);
    while (!rc && size - at >= HEADER_BYTES) {
        uint8_t *head = m->file_bytes;
        size_t n;
        rc = ea_file_read_at(f, at, head, HEADER_BYTES, &n, err);
        uint32_t on_disk = ea_load32(head), used = ea_load32(head + 0x30);
        if (!rc && (on_disk < HEADER_BYTES || on_disk > LARGEST_BUFFER || used > LARGEST_BUFFER || used < HEADER_BYTES))
            rc = ea_fail(err, EA_ECORRUPT, "read %s: a buffer header at %" PRIu64 " that makes no sense", path, at);
        if (!rc)
            rc = ea_file_read_at(f, at, head, on_disk, &n, err);
        if (rc)
            break;
        const uint8_t *records = head + HEADER_BYTES;
        size_t bytes = used - HEADER_BYTES;
        if (ea_load16(head + 0x34) & COMPRESSED) {
            rc = ea_xpress_decompress(head + HEADER_BYTES, on_disk - HEADER_BYTES, m->records, bytes, &bytes);
            records = m->records;
        }
        if (with_zstd)
            t->packed_bytes += ZSTD_compressCCtx(m->zstd, m->packed, m->packed_room, records, bytes, 1);
        else
            t->events += walk(records, records + bytes, &t->times);
        at += on_disk;
    }
    ea_file_close(f);
    return rc;
}

static int run(char **paths, int count, memory *m, totals *best, ea_err *err) {
    totals t = {0};
    int64_t start = ea_monotonic_ns();
    int rc = 0;
    for (int i = 0; !rc && i < count; i++)
        rc = pass(paths[i], m, 0, &t, err);
    int64_t middle = ea_monotonic_ns();
    for (int i = 0; !rc && i < count; i++)
        rc = pass(paths[i], m, 1, &t, err);
    t.walk_ns = middle - start;
    t.zstd_ns = ea_monotonic_ns() - middle;
    if (best->walk_ns && best->walk_ns < t.walk_ns)
        t.walk_ns = best->walk_ns;
    if (best->zstd_ns && best->zstd_ns < t.zstd_ns)
        t.zstd_ns = best->zstd_ns;
    *best = t;
    return rc;
}

typedef struct options {
    uint64_t runs;
} options;

static int run_reference(const void *opaque, int count, char **paths) {
    const options *o = opaque;
    memory m = {.file_bytes = malloc(LARGEST_BUFFER), .records = malloc(LARGEST_BUFFER), .zstd = ZSTD_createCCtx()};
    m.packed_room = ZSTD_compressBound(LARGEST_BUFFER);
    m.packed = malloc(m.packed_room);
    totals best = {0};
    ea_err err = {0};
    int rc = m.file_bytes && m.records && m.packed && m.zstd ? 0 : ea_fail(&err, EA_ENOMEM, "measure");
    for (uint64_t i = 0; !rc && i < o->runs; i++)
        rc = run(paths, count, &m, &best, &err);
    free(m.file_bytes);
    free(m.records);
    free(m.packed);
    ZSTD_freeCCtx(m.zstd);
    if (rc) {
        ea_err_print(stderr, "reference", &err);
        return ea_exit_code(rc);
    }
    double n = best.events ? (double)best.events : 1;
    printf("{\"events\":%" PRIu64 ",\"walk_ns\":%.2f,\"zstd_ns\":%.2f,\"zstd_bytes\":%.3f,\"times\":%" PRIu64 "}\n",
           best.events, (double)best.walk_ns / n, (double)best.zstd_ns / n, (double)best.packed_bytes / n, best.times);
    return 0;
}

static const ea_option rows[] = {
    {"runs", 0, "N", EA_OPT_U64, offsetof(options, runs), "1", NULL, 0, "how often; the fastest counts"},
    {NULL, 0, NULL, EA_OPT_FLAG, 0, NULL, NULL, 0, NULL},
};
static const ea_command command = {.name = "measure",
                                   .operands = "TRACE...",
                                   .summary = "Walks and compresses the buffers of traces",
                                   .options = rows,
                                   .options_size = sizeof(options),
                                   .run = run_reference,
                                   .min_operands = 1,
                                   .max_operands = -1};
static const ea_command *const commands[] = {&command, NULL};

int main(int argc, char **argv) {
    return ea_cli_main("reference", "0.1.0", "References for the benchmarks.", commands, argc, argv);
}
