/* What a trace costs anybody: the references beside which `make bench` prints our figures.
 *
 * usage: reference measure [--runs N] TRACE...
 * Prints one JSON object, the fastest of N runs in ns an event: file (each file read, a window at a time, into memory
 * that is there), decompress (the same, and each buffer decompressed), walk (the same, and its records stepped over: no
 * merge, no order, no records made), copy (the decompressed bytes once more from memory to memory) and zstd (each
 * buffer read, decompressed, and compressed again as it is into one zstd -1 stream), with the bytes an event takes
 * then. raw_bytes: what an event takes decompressed; unpacked_bytes: those that were compressed. Thread: one. */
#include "proto/base/bytes.h"
#include "proto/base/cli.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "proto/etl/etl.h"
#include "tests/bench/cpu_time.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zstd.h>

enum { HEADER_BYTES = 72, LARGEST_BUFFER = 64 << 20, WINDOW_BYTES = 256 << 20, COMPRESSED = 0x40 };

/* What a pass does. DECOMPRESS and WALK include the stages before them. COPY and ZSTD include FILE_ONLY and DECOMPRESS,
 * not WALK. */
enum stage { FILE_ONLY, DECOMPRESS, WALK, COPY, ZSTD, STAGES };

static const char *const STAGE_NAMES[STAGES] = {"file", "decompress", "walk", "copied", "zstd"};

typedef struct totals {
    uint64_t events, raw_bytes, unpacked_bytes, packed_bytes, times;
    int64_t ns[STAGES];
} totals;

typedef struct memory {
    uint8_t *file, *records, *packed;
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

/* The complete buffers of a window of a file. ret_used: their bytes; the rest is the begin of the next window. */
static int window(const char *path, size_t size, int is_last, memory *m, enum stage stage, totals *t, size_t *ret_used,
                  ea_err *err) {
    size_t at = 0;
    int rc = 0;
    while (!rc && size - at >= HEADER_BYTES) {
        const uint8_t *head = m->file + at;
        uint32_t on_disk = ea_load32(head), used = ea_load32(head + 0x30);
        if (on_disk > size - at && on_disk <= LARGEST_BUFFER && !is_last)
            break;
        if (on_disk < HEADER_BYTES || on_disk > size - at || used < HEADER_BYTES || used > LARGEST_BUFFER)
            return ea_fail(err, EA_ECORRUPT, "read %s: a buffer header has wrong sizes (%u, %u)", path, on_disk, used);
        const uint8_t *records = head + HEADER_BYTES;
        size_t bytes = used - HEADER_BYTES;
        if (ea_load16(head + 0x34) & COMPRESSED) {
            rc = ea_xpress_decompress(records, on_disk - HEADER_BYTES, m->records, bytes, &bytes);
            records = m->records;
            t->unpacked_bytes += stage == WALK ? bytes : 0;
        }
        at += on_disk;
        if (stage == WALK) {
            t->events += walk(records, records + bytes, &t->times);
            t->raw_bytes += bytes;
        } else if (stage == COPY) {
            memcpy(m->packed, records, bytes);
        }
        if (stage != ZSTD)
            continue;
        ZSTD_inBuffer in = {.src = records, .size = bytes};
        ZSTD_EndDirective mode = is_last && size - at < HEADER_BYTES ? ZSTD_e_end : ZSTD_e_continue;
        ZSTD_outBuffer out = {.dst = m->packed, .size = m->packed_room};
        if (ZSTD_isError(ZSTD_compressStream2(m->zstd, &out, &in, mode)))
            rc = ea_fail(err, EA_ENOMEM, "compress %s", path);
        t->packed_bytes += out.pos;
    }
    *ret_used = at;
    return rc;
}

/* One file, a window after the other; one zstd stream for the file. */
static int pass(const char *path, memory *m, enum stage stage, totals *t, ea_err *err) {
    ea_file *f;
    uint64_t file_bytes = 0, offset = 0;
    int rc = ea_file_open(&f, path, EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = ea_file_size(f, &file_bytes, err);
    while (!rc && offset < file_bytes) {
        size_t size, used;
        rc = ea_file_read_at(f, offset, m->file, WINDOW_BYTES, &size, err);
        int is_last = size < WINDOW_BYTES || offset + size >= file_bytes;
        used = size;
        if (!rc && stage != FILE_ONLY)
            rc = window(path, size, is_last, m, stage, t, &used, err);
        offset = is_last ? file_bytes : offset + used;
    }
    ea_file_close(f);
    return rc;
}

static int run(char **paths, int count, memory *m, totals *best, ea_err *err) {
    totals t = {0};
    int rc = 0;
    for (unsigned stage = 0; stage < STAGES; stage++) {
        int64_t start = cpu_ns();
        for (int i = 0; !rc && i < count; i++)
            rc = pass(paths[i], m, (enum stage)stage, &t, err);
        t.ns[stage] = cpu_ns() - start;
        if (best->ns[stage] && best->ns[stage] < t.ns[stage])
            t.ns[stage] = best->ns[stage];
    }
    *best = t;
    return rc;
}

typedef struct options {
    uint64_t runs;
} options;

static int run_reference(const void *opaque, int count, char **paths) {
    const options *o = opaque;
    memory m = {.file = malloc(WINDOW_BYTES), .records = malloc(LARGEST_BUFFER), .zstd = ZSTD_createCCtx()};
    m.packed_room = ZSTD_compressBound(LARGEST_BUFFER);
    m.packed = malloc(m.packed_room);
    totals best = {0};
    ea_err err = {0};
    int rc = m.file && m.records && m.packed && m.zstd ? 0 : ea_fail(&err, EA_ENOMEM, "measure");
    if (!rc) { /* what the system does for fresh memory is not what is measured */
        memset(m.file, 1, WINDOW_BYTES);
        memset(m.records, 1, LARGEST_BUFFER);
    }
    if (!rc)
        ZSTD_CCtx_setParameter(m.zstd, ZSTD_c_compressionLevel, 1);
    for (uint64_t i = 0; !rc && i < o->runs; i++)
        rc = run(paths, count, &m, &best, &err);
    free(m.file);
    free(m.records);
    free(m.packed);
    ZSTD_freeCCtx(m.zstd);
    if (rc) {
        ea_err_print(stderr, "reference", &err);
        return ea_exit_code(rc);
    }
    double n = best.events ? (double)best.events : 1;
    printf("{\"events\":%" PRIu64, best.events);
    for (unsigned i = 0; i < STAGES; i++)
        printf(",\"%s_ns\":%.2f", STAGE_NAMES[i], (double)best.ns[i] / n);
    /* the copy alone */
    double copy_ns = (double)(best.ns[COPY] - best.ns[DECOMPRESS]) / n;
    printf(",\"copy_ns\":%.2f,\"raw_bytes\":%.3f,\"unpacked_bytes\":%.3f,\"zstd_bytes\":%.3f,\"times\":%" PRIu64 "}\n",
           copy_ns > 0 ? copy_ns : 0, (double)best.raw_bytes / n, (double)best.unpacked_bytes / n,
           (double)best.packed_bytes / n, best.times);
    return 0;
}

static const ea_option rows[] = {
    {.name = "runs",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, runs),
     .fallback = "1",
     .help = "how often; the fastest counts"},
    {.name = NULL},
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
