/* Writes the made-up files of etl_samples.h into a folder, for tests/e2e/test_written_traces.py, which asks a parser
 * that the project did not write what is in them.
 *
 * usage: made_up FOLDER
 * Prints a JSON line a file: its name and how many records of each header form, buffers, extended items of each type
 * and so on were written. Thread: one. */
#include "tests/unit/etl_samples.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct tally {
    uint64_t headers[32], items[65536], pmc, pebs;
} tally;

static void count(void *arg, const ea_record *r) {
    tally *t = arg;
    int is_perfinfo = r->header_type == EA_HEADER_PERFINFO32 || r->header_type == EA_HEADER_PERFINFO64;
    t->headers[r->header_type]++;
    t->pmc += is_perfinfo && (r->header_word & 0x0700);
    t->pebs += is_perfinfo && (r->header_word & 0x8000);
    if (r->header_type == EA_HEADER_EVENT32 || r->header_type == EA_HEADER_EVENT64)
        for (unsigned i = 0; i < r->ext_count; i++)
            t->items[r->ext[i].type]++;
}

static void print_counts(const char *key, const uint64_t *counts, size_t n) {
    const char *comma = "";
    printf(",\"%s\":{", key);
    for (size_t i = 0; i < n; i++)
        if (counts[i]) {
            printf("%s\"%zu\":%" PRIu64, comma, i, counts[i]);
            comma = ",";
        }
    printf("}");
}

int main(int argc, char **argv) {
    static tally t;
    if (argc != 2)
        return 2;
    for (unsigned number = 0; number < MADE_UP_FILES; number++) {
        char path[4096];
        made_up m;
        ea_err err;
        memset(&t, 0, sizeof t);
        snprintf(path, sizeof path, "%s/%u.etl", argv[1], number);
        if (made_up_write(path, number, &m, count, &t, &err)) {
            ea_err_print(stderr, "made_up", &err);
            return 1;
        }
        t.headers[m.info.pointer_size == 8 ? EA_HEADER_SYSTEM64 : EA_HEADER_SYSTEM32] += m.header_records;
        printf("{\"file\":\"%u.etl\",\"events\":%u,\"header_records\":%u,\"buffers\":%" PRIu64
               ",\"pointer_size\":%u,\"compression\":%u,\"events_lost\":%u,\"buffers_lost\":%u,\"clock\":%u"
               ",\"pmc\":%" PRIu64 ",\"pebs\":%" PRIu64,
               number, MADE_UP_RECORDS + m.header_records, m.header_records, m.buffers, m.info.pointer_size,
               m.info.compression, m.events_lost, m.buffers_lost, m.info.clock_type, t.pmc, t.pebs);
        print_counts("headers", t.headers, LENGTH(t.headers));
        print_counts("items", t.items, LENGTH(t.items));
        printf("}\n");
    }
    return 0;
}
