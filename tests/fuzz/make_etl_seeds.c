/* Writes the seeds of fuzz_etl and fuzz_xpress: small made-up traces with every header form, pointer size and
 * compression, whole and damaged, and compressed streams. Not run by the tests; its output is kept in corpus/.
 *
 *     make_etl_seeds CORPUS_FOLDER */
#include "proto/base/platform.h"
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"
#include "tests/unit/etl_pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t rng_state = 88172645463325252u;

static uint64_t rng(void) {
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return rng_state * UINT64_C(0x2545F4914F6CDD1D);
}

static void must(int rc, const ea_err *err) {
    if (rc) {
        ea_err_print(stderr, "make_etl_seeds", err);
        exit(1);
    }
}

/* A record of a header form; ext and payload are static. */
static ea_record make_record(uint8_t type, int64_t time, unsigned turn) {
    static ea_ext ext[3];
    static uint8_t bytes[256];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i % 16 * turn);
    int narrow = type == EA_HEADER_SYSTEM32 || type == EA_HEADER_COMPACT32 || type == EA_HEADER_PERFINFO32 ||
                 type == EA_HEADER_FULL32 || type == EA_HEADER_INSTANCE32 || type == EA_HEADER_EVENT32;
    ea_record r = {.header_type = type,
                   .time_raw = time,
                   .pid = 4 + turn,
                   .tid = 8 + turn,
                   .cpu = (uint16_t)(turn % 3),
                   .logger = 2,
                   .pointer_size = narrow ? 4 : 8,
                   .flags =
                       (uint16_t)(EA_FLAG_CLASSIC_HEADER | (narrow ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER)),
                   .ext = ext,
                   .payload = bytes,
                   .payload_bytes = (uint16_t)(rng() % 40)};
    memcpy(r.provider.bytes, bytes + 64, 16);
    switch (type) {
    case EA_HEADER_SYSTEM32:
    case EA_HEADER_SYSTEM64:
    case EA_HEADER_COMPACT32:
    case EA_HEADER_COMPACT64:
    case EA_HEADER_PERFINFO32:
    case EA_HEADER_PERFINFO64:
        r.hook_id = turn & 1 ? 0x0f2e : 0x0301;
        r.opcode = (uint8_t)r.hook_id;
        r.header_word = r.version = 3;
        r.provider = *ea_etl_group_of(r.hook_id);
        if (type < EA_HEADER_PERFINFO32)
            break;
        r.pid = r.tid = UINT32_MAX;
        if (turn & 2) {
            r.header_word |= 0x8200;
            ext[0] = (ea_ext){.type = EA_EXT_PEBS_INDEX, .size_bytes = 8, .data = bytes};
            ext[1] = (ea_ext){.type = EA_EXT_PMC_COUNTERS, .size_bytes = 16, .data = bytes + 8};
            r.ext_count = 2;
        }
        break;
    case EA_HEADER_FULL32:
    case EA_HEADER_FULL64:
        r.header_word = r.version = 1;
        break;
    case EA_HEADER_INSTANCE32:
    case EA_HEADER_INSTANCE64:
        ext[0] = (ea_ext){.type = EA_EXT_INSTANCE_INFO, .size_bytes = 24, .data = bytes};
        r.ext_count = 1;
        break;
    case EA_HEADER_MESSAGE:
        r.flags = EA_FLAG_TRACE_MESSAGE | EA_FLAG_CLASSIC_HEADER;
        r.pointer_size = 8;
        r.header_word = turn & 1 ? 0xab : 0x84;
        if (turn & 1) {
            ext[0] = (ea_ext){.type = EA_EXT_WPP_SEQUENCE, .size_bytes = 4, .data = bytes};
        } else {
            memset(&r.provider, 0, sizeof r.provider);
            r.pid = r.tid = UINT32_MAX;
            ext[0] = (ea_ext){.type = EA_EXT_WPP_COMPONENT, .size_bytes = 4, .data = bytes};
        }
        r.ext_count = 1;
        break;
    default:
        r.flags = 0;
        r.id = 7;
        if (turn & 1) {
            r.flags = EA_FLAG_EXTENDED_INFO;
            ext[0] = (ea_ext){.type = EA_EXT_RELATED_ACTIVITY_ID, .linkage = 1, .size_bytes = 16, .data = bytes};
            ext[1] = (ea_ext){.type = EA_EXT_STACK_TRACE64, .size_bytes = 24, .data = bytes + 16};
            r.ext_count = 2;
        }
        break;
    }
    return r;
}

static void make_trace(const char *path, uint32_t pointer_size, uint32_t clock, uint32_t mode, unsigned count) {
    static const uint8_t types[] = {1, 2, 3, 4, 10, 11, 15, 16, 17, 18, 19, 20, 21};
    static char session[] = "seed", file[] = "C:\\seed.etl";
    ea_err err;
    ea_etl_writer *w;
    ea_etl_info info = {.buffer_size_bytes = 1024,
                        .os_version = 0x0501000a,
                        .os_build = 19045,
                        .cpu_count = 3,
                        .log_file_mode = mode,
                        .pointer_size = pointer_size,
                        .cpu_mhz = 3000,
                        .boot_filetime = 133000000000000000,
                        .perf_frequency = 10000000,
                        .start_filetime = 133000001000000000,
                        .clock_type = clock,
                        .session_name = session,
                        .log_file_name = file,
                        .logger = 2};
    ea_etl_writer_options options = {.info = &info, .start_raw = 1000000};
    ea_etl_writer_end end = {.end_filetime = 133000002000000000};
    must(ea_etl_writer_create(&w, path, &options, &err), &err);
    for (unsigned i = 0; i < count; i++) {
        int64_t back = mode & EA_ETL_MODE_NO_PER_PROCESSOR ? (int64_t)(rng() % 50) : 0;
        ea_record r = make_record(types[i % sizeof types], 1000000 + (int64_t)i * 5 - back, i);
        must(ea_etl_writer_add(w, &r, &err), &err);
    }
    must(ea_etl_writer_finish(w, &end, &err), &err);
    ea_etl_writer_destroy(w);
}

static const char *corpus;

static void save(const char *folder, const char *name, const uint8_t *data, size_t len, int front, uint8_t choice) {
    char path[1024];
    ea_err err;
    uint8_t *all = malloc(len + 1);
    if (!all)
        exit(1);
    memcpy(all + (front ? 1 : 0), data, len);
    all[front ? 0 : len] = choice;
    snprintf(path, sizeof path, "%s/%s", corpus, folder);
    must(ea_path_make_dirs(path, &err), &err);
    snprintf(path, sizeof path, "%s/%s/%s", corpus, folder, name);
    must(ea_path_write_all(path, all, len + 1, 0, &err), &err);
    free(all);
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        uint32_t pointer_size, clock, mode;
        unsigned count;
    } traces[] = {{"plain", 8, EA_CLOCK_QPC, 1, 26},
                  {"narrow", 4, EA_CLOCK_SYSTEM_TIME, 1, 13},
                  {"small", 8, EA_CLOCK_QPC, 1, 12},
                  {"shared", 8, EA_CLOCK_CPU_CYCLES, 1 | EA_ETL_MODE_NO_PER_PROCESSOR, 40}};

    ea_err err;
    if (argc != 2) {
        fprintf(stderr, "usage: make_etl_seeds CORPUS_FOLDER\n");
        return 2;
    }
    corpus = argv[1];
    for (size_t i = 0; i < sizeof traces / sizeof *traces; i++) {
        char path[1024], name[64], *data;
        size_t len;
        uint8_t packed[65536];
        snprintf(path, sizeof path, "%s/scratch.etl", corpus);
        make_trace(path, traces[i].pointer_size, traces[i].clock, traces[i].mode, traces[i].count);
        must(ea_path_read_all(path, 1 << 20, &data, &len, &err), &err);
        must(ea_path_remove(path, &err), &err);
        save("etl", traces[i].name, (const uint8_t *)data, len, 0, i == 3 ? 2 : 0);
        for (unsigned c = EA_ETL_LZNT1; c <= EA_ETL_XPRESS_HUFF; c++) {
            size_t n = pack_file((const uint8_t *)data, len, (uint16_t)c, packed);
            snprintf(name, sizeof name, "%s-packed-%u", traces[i].name, c);
            save("etl", name, packed, n, 0, 1);
            size_t at = ea_load32(packed); /* the second buffer's stream, for the decompressors */
            save("xpress", name, packed + at + 72, ea_load32(packed + at) - 72, 1,
                 (uint8_t)(c == EA_ETL_LZNT1         ? 0xc
                           : c == EA_ETL_XPRESS_HUFF ? 0xd
                                                     : 0xe));
            for (int flip = 0; flip < 3; flip++)
                packed[at + 72 + rng() % (n - at - 72)] ^= (uint8_t)(1 + rng() % 255);
            snprintf(name, sizeof name, "%s-damaged-%u", traces[i].name, c);
            save("etl", name, packed, n, 0, 1);
        }
        for (int flip = 0; flip < 12; flip++)
            data[rng() % len] ^= (char)(1 + rng() % 127);
        snprintf(name, sizeof name, "%s-damaged", traces[i].name);
        save("etl", name, (const uint8_t *)data, len, 0, 0);
        snprintf(name, sizeof name, "%s-cut", traces[i].name);
        save("etl", name, (const uint8_t *)data, len - 300, 0, 0);
        free(data);
    }
    return 0;
}
