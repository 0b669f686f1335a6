/* Made-up records of every header form and whole made-up files of them, for the writer's tests and for made_up.c, which
 * writes the same files for an independent parser to read. One translation unit uses it; thread: any. */
#ifndef EA_TESTS_UNIT_ETL_SAMPLES_H
#define EA_TESTS_UNIT_ETL_SAMPLES_H

#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"

#include <string.h>

#define LENGTH(a) (sizeof(a) / sizeof *(a))

static uint64_t rng_state;

static uint64_t rng(void) {
    rng_state ^= rng_state >> 12;
    rng_state ^= rng_state << 25;
    rng_state ^= rng_state >> 27;
    return rng_state * 0x2545F4914F6CDD1Du;
}

/* ---- records ---- */

/* A made-up record with all that its header form can hold; the buffers belong to the caller. */
typedef struct sample {
    ea_record r;
    ea_ext ext[4];
    uint8_t data[4][96];
    uint8_t payload[512];
} sample;

static void add_item(sample *s, uint16_t type, uint32_t size_bytes) {
    ea_ext *x = &s->ext[s->r.ext_count];
    *x = (ea_ext){.type = type, .size_bytes = size_bytes, .data = s->data[s->r.ext_count]};
    s->r.ext_count++;
}

static void make_sample(sample *s, uint8_t type) {
    for (size_t i = 0; i < sizeof s->payload; i++)
        s->payload[i] = (uint8_t)rng();
    for (size_t i = 0; i < LENGTH(s->data); i++)
        for (size_t k = 0; k < sizeof s->data[i]; k++)
            s->data[i][k] = (uint8_t)rng();
    ea_record *r = &s->r;
    *r = (ea_record){.header_type = type,
                     .time_raw = (int64_t)rng(),
                     .pid = UINT32_MAX,
                     .tid = UINT32_MAX,
                     .ext = s->ext,
                     .payload = s->payload,
                     .payload_bytes = (uint16_t)(rng() % sizeof s->payload)};
    int narrow = type == EA_HEADER_SYSTEM32 || type == EA_HEADER_COMPACT32 || type == EA_HEADER_PERFINFO32 ||
                 type == EA_HEADER_FULL32 || type == EA_HEADER_INSTANCE32 || type == EA_HEADER_EVENT32;
    r->pointer_size = narrow ? 4 : 8;
    uint16_t width = narrow ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER;
    switch (type) {
    case EA_HEADER_SYSTEM32:
    case EA_HEADER_SYSTEM64:
        r->kernel_time = (uint32_t)rng();
        r->user_time = (uint32_t)rng();
        /* fall through */
    case EA_HEADER_COMPACT32:
    case EA_HEADER_COMPACT64:
        r->tid = (uint32_t)rng();
        r->pid = (uint32_t)rng();
        /* fall through */
    case EA_HEADER_PERFINFO32:
    case EA_HEADER_PERFINFO64:
        r->hook_id = (uint16_t)((rng() % 28) << 8); /* one call a statement: compilers order them */
        r->hook_id |= (uint16_t)(rng() & 0xFF);
        r->header_word = (uint16_t)rng();
        r->opcode = (uint8_t)r->hook_id;
        r->version = (uint8_t)r->header_word;
        r->provider = *ea_etl_group_guid(r->hook_id);
        r->flags = EA_FLAG_CLASSIC_HEADER | width;
        if (type == EA_HEADER_SYSTEM32 || type == EA_HEADER_SYSTEM64)
            break;
        r->flags |= EA_FLAG_NO_CPUTIME;
        if (type != EA_HEADER_COMPACT32 && type != EA_HEADER_COMPACT64) {
            if (r->header_word & 0x8000)
                add_item(s, EA_EXT_PEBS_INDEX, 8);
            if (r->header_word & 0x0700)
                add_item(s, EA_EXT_PMC_COUNTERS, 8 * (r->header_word >> 8 & 7u));
        }
        break;
    case EA_HEADER_MESSAGE:
        r->header_word = (uint16_t)(rng() & 0x3F);
        r->id = (uint16_t)rng();
        r->flags = EA_FLAG_TRACE_MESSAGE | EA_FLAG_CLASSIC_HEADER;
        r->header_word |= 0x80; /* 64-bit pointers */
        if (r->header_word & 1)
            add_item(s, EA_EXT_WPP_SEQUENCE, 4);
        if (r->header_word & 2)
            memcpy(r->provider.bytes, s->payload, 16);
        if (r->header_word & 4)
            add_item(s, EA_EXT_WPP_COMPONENT, 4);
        if (!(r->header_word & 0x18))
            r->time_raw = 0; /* the caller's */
        if (r->header_word & 0x20) {
            r->tid = (uint32_t)rng();
            r->pid = (uint32_t)rng();
        }
        break;
    case EA_HEADER_INSTANCE32:
    case EA_HEADER_INSTANCE64:
        add_item(s, EA_EXT_INSTANCE_INFO, 24);
        /* fall through */
    case EA_HEADER_FULL32:
    case EA_HEADER_FULL64:
        memcpy(r->provider.bytes, s->payload + 16, 16);
        r->opcode = (uint8_t)rng();
        r->level = (uint8_t)rng();
        r->header_word = (uint16_t)rng();
        r->version = (uint8_t)r->header_word;
        r->tid = (uint32_t)rng();
        r->pid = (uint32_t)rng();
        r->kernel_time = (uint32_t)rng();
        r->user_time = (uint32_t)rng();
        r->flags = EA_FLAG_CLASSIC_HEADER | width;
        break;
    default:
        memcpy(r->provider.bytes, s->payload + 16, 16);
        memcpy(r->activity_id.bytes, s->payload + 32, 16);
        r->id = (uint16_t)rng();
        r->version = (uint8_t)rng();
        r->channel = (uint8_t)rng();
        r->level = (uint8_t)rng();
        r->opcode = (uint8_t)rng();
        r->task = (uint16_t)rng();
        r->keyword = rng();
        r->property = (uint16_t)rng();
        r->tid = (uint32_t)rng();
        r->pid = (uint32_t)rng();
        r->kernel_time = (uint32_t)rng();
        r->user_time = (uint32_t)rng();
        r->flags = (uint16_t)(rng() & ~(uint64_t)EA_FLAG_EXTENDED_INFO);
        for (unsigned n = (unsigned)(rng() % 5), i = 0; i < n; i++) {
            uint16_t item_type = (uint16_t)(1 + rng() % 40);
            add_item(s, item_type, (uint32_t)(rng() % sizeof s->data[0]));
            s->ext[i].linkage = (uint16_t)((rng() & 0xFFFE) | (i + 1 < n));
            r->flags |= EA_FLAG_EXTENDED_INFO;
        }
        break;
    }
}

static const uint8_t TYPES[] = {EA_HEADER_SYSTEM32,   EA_HEADER_SYSTEM64,   EA_HEADER_COMPACT32,  EA_HEADER_COMPACT64,
                                EA_HEADER_FULL32,     EA_HEADER_FULL64,     EA_HEADER_INSTANCE32, EA_HEADER_INSTANCE64,
                                EA_HEADER_PERFINFO32, EA_HEADER_PERFINFO64, EA_HEADER_EVENT32,    EA_HEADER_EVENT64,
                                EA_HEADER_MESSAGE};

/* ---- files ---- */

/* A file of MADE_UP_RECORDS such records; number: which of MADE_UP_FILES, each with other options. Seeded by it. */
enum { MADE_UP_FILES = 24, MADE_UP_RECORDS = 4000, MADE_UP_START = 1000 };

typedef struct made_up {
    ea_etl_info info;
    ea_etl_writer_options options;
    ea_etl_writer_end end;
    uint64_t buffers;
    uint32_t header_records; /* the header event and the records that follow it */
    uint32_t events_lost, buffers_lost;
} made_up;

static void made_up_options(unsigned number, made_up *m) {
    static char session[] = "A session", log[] = "C:\\tr\xC3\xA4"
                                                 "ce\xF0\x9F\x98\x80.etl";
    static const uint32_t versions[] = {0x0501000A, 0x05010206, 0x0501000A, 0x05010106},
                          builds[] = {26100, 9200, 17763, 7601};
    static const uint16_t compressions[] = {0, 3, 0, 2, 0, 4};
    unsigned age = number % LENGTH(versions);
    *m = (made_up){.info = {.buffer_size_bytes = number & 1   ? 8192
                                                 : number % 3 ? 0
                                                              : 128 << 10,
                            .os_version = versions[age],
                            .os_build = builds[age],
                            .cpu_count = 4,
                            .timer_resolution = 156250,
                            .max_file_size_mib = number,
                            .log_file_mode = 0x00010001,
                            .start_buffers = 1 + number,
                            .pointer_size = number % 3 == 1 ? 4 : 8,
                            .cpu_mhz = 3000,
                            .bias_minutes = -60,
                            .boot_filetime = 133000000000000000,
                            .perf_frequency = 10000000,
                            .start_filetime = 133400000000000000,
                            .clock_type = 1 + number % 3,
                            .session_name = session,
                            .log_file_name = log,
                            .logger = 7,
                            .compression = compressions[number % LENGTH(compressions)]},
                   .end = {.end_filetime = 133400000100000000, .events_lost = 5, .buffers_lost = 6}};
    if (m->info.compression)
        m->info.log_file_mode |= EA_ETL_MODE_COMPRESSED;
    m->info.time_zone[5] = 'z';
    m->info.name_pointers[0] = 9;
    m->options = (ea_etl_writer_options){.info = &m->info,
                                         .start_raw = MADE_UP_START,
                                         .pid = 4,
                                         .tid = 8,
                                         .session = (enum ea_etl_session)(number % 3),
                                         .merged = number % 5 == 2,
                                         .held_buffers = number % 4 == 0 ? 5 : 0,
                                         .seed = number};
}

/* Writes it; keep is called for each record but those of the header, and may be NULL. */
static int made_up_write(const char *path, unsigned number, made_up *m, void (*keep)(void *arg, const ea_record *r),
                         void *arg, ea_err *err) {
    static sample s;
    ea_etl_writer *w;
    rng_state = 51 + number;
    made_up_options(number, m);
    int rc = ea_etl_writer_create(&w, path, &m->options, err);
    if (rc)
        return rc;
    m->header_records = (uint32_t)ea_etl_writer_records(w);
    unsigned cpus = m->info.os_build < 9200 ? 255 : 600; /* the highest number */
    int64_t now = MADE_UP_START;
    for (int i = 0; !rc && i < MADE_UP_RECORDS; i++) {
        do
            make_sample(&s, TYPES[rng() % LENGTH(TYPES)]);
        while (s.r.header_type == EA_HEADER_MESSAGE && !(s.r.header_word & 0x18)); /* each has a time */
        now += (int64_t)(1 + rng() % 3);
        s.r.time_raw = now;
        s.r.cpu = (uint16_t)(rng() % 4 ? rng() % 4 : rng() % 8 ? rng() % 24 : cpus - rng() % 3);
        s.r.logger = (uint16_t)(rng() % 50 ? 7 : 9);
        rc = ea_etl_writer_add(w, &s.r, err);
        if (keep)
            keep(arg, &s.r);
        if (!rc && i == 2000)
            rc = ea_etl_writer_flush(w, 1, err);
        if (!rc && i % 1000 == 500) {
            m->events_lost += 3;
            m->buffers_lost += i == 500;
            rc = ea_etl_writer_lose(w, 2, 3, i == 500, err);
        }
    }
    if (!rc)
        rc = ea_etl_writer_flush(w, 9999, err); /* a CPU that there is not */
    if (!rc)
        rc = ea_etl_writer_finish(w, &m->end, err);
    m->buffers = ea_etl_writer_buffers(w);
    m->events_lost += m->end.events_lost;
    m->buffers_lost += m->end.buffers_lost;
    ea_etl_writer_destroy(w);
    return rc;
}

#endif
