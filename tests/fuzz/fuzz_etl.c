/* The .etl reader on any file: every record it gives can be read to its last byte and written again, and scarce memory
 * changes nothing about what comes out. The last byte chooses: 1 mending, 2 a second file merged with the first. */
#include "proto/etl/etl.h"
#include "proto/etl/etl_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 16, MOST_MENDED_BYTES = 2000 };

typedef struct outcome {
    uint64_t hash, records, late;
    int rc;
} outcome;

static uint64_t mix(uint64_t h, const uint8_t *p, size_t len) {
    while (len--)
        h = (h ^ *p++) * UINT64_C(0x100000001b3);
    return h;
}

static void on_damage(const ea_etl_damage *damage, void *arg) {
    size_t *sum = arg;
    *sum += strlen(damage->path) + strlen(damage->reason);
}

static outcome read_all(const char *const *paths, size_t count, uint64_t memory_limit, int no_mending) {
    static uint8_t encoded[EA_ETL_RECORD_MAX_BYTES];
    static ea_counters counters;
    size_t sum = 0;
    ea_etl_options options = {.counters = &counters,
                              .on_damage = on_damage,
                              .on_damage_arg = &sum,
                              .memory_limit_bytes = memory_limit,
                              .no_mending = no_mending};
    outcome o = {.hash = 1};
    ea_etl_set *set;
    const ea_record *r;
    ea_err err;
    memset(&counters, 0, sizeof counters);
    o.rc = ea_etl_open(&set, paths, count, &options, &err);
    if (o.rc) {
        if (o.rc != EA_EFORMAT || !strstr(err.message, "expected"))
            abort();
        return o;
    }
    uint64_t late = 0;
    int64_t latest = INT64_MIN;
    while ((o.rc = ea_etl_next(set, &r, &err)) > 0) {
        size_t len;
        if (ea_etl_encode_record(r, encoded, sizeof encoded, &len, &err))
            abort();
        o.hash = mix(o.hash, encoded, len);
        o.hash = mix(o.hash, (const uint8_t *)&r->position, sizeof r->position);
        o.records++;
        late += r->time_raw < latest;
        latest = r->time_raw > latest ? r->time_raw : latest;
    }
    if (o.rc < 0 && o.rc != EA_ELIMIT) /* decoding again has a limit */
        abort();
    o.late = ea_counter_get(&counters, EA_COUNT_source_late_records);
    if (count == 1 && o.late != late)
        abort();
    ea_etl_close(set);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int fd = -1;
    static char path[64];
    if (size == 0 || size > MOST_BYTES)
        return 0;
    uint8_t choice = data[--size];
    if (fd < 0) {
        fd = memfd_create("trace", 0);
        if (fd < 0)
            abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    const char *paths[2] = {path, path};
    size_t count = choice & 2 ? 2 : 1;
    int no_mending = !(choice & 1) || size > MOST_MENDED_BYTES;
    outcome rich = read_all(paths, count, 0, no_mending), poor = read_all(paths, count, 1, no_mending);
    if (rich.rc == EA_ELIMIT || poor.rc == EA_ELIMIT)
        return 0;
    if (rich.rc != poor.rc || rich.hash != poor.hash || rich.records != poor.records || rich.late != poor.late)
        abort();
    return 0;
}
