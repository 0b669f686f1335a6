/* Measures how much of a damaged trace the reader recovers. It flips random bytes of a real trace, reads the trace, and
 * compares the records with those of the undamaged trace.
 *
 *     damage_etl TRACE SCRATCH RUNS FLIPS SEED MIN_PERMILLE
 *
 * SCRATCH is a file that the program creates: a copy of TRACE, which is damaged and restored in each run. Prints one
 * line. Fails when, over all runs, fewer than MIN_PERMILLE of the records were read bit-identical, or when more than 1
 * record in 1000 was read at an offset where the undamaged trace has none. */
#include "proto/base/platform.h"
#include "proto/etl/etl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct seen {
    uint64_t position;
    uint64_t hash;
} seen;

typedef struct list {
    seen *items;
    size_t count, capacity;
} list;

static uint64_t random_state;

static uint64_t next_random(void) { /* splitmix64 */
    uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t mix(uint64_t h, const void *data, size_t len) {
    const uint8_t *p = data;
    for (; len >= 8; p += 8, len -= 8)
        h = (h ^ ea_load64(p)) * UINT64_C(0x9fb21c651e98df25), h ^= h >> 32;
    for (; len; p++, len--)
        h = (h ^ *p) * UINT64_C(0x9fb21c651e98df25), h ^= h >> 32;
    return h;
}

static uint64_t hash_record(const ea_record *r) {
    uint64_t words[10] = {r->id | (uint64_t)r->version << 16 | (uint64_t)r->channel << 24 | (uint64_t)r->level << 32 |
                              (uint64_t)r->opcode << 40 | (uint64_t)r->task << 48,
                          r->keyword,
                          (uint64_t)r->time_raw,
                          r->pid | (uint64_t)r->tid << 32,
                          r->cpu | (uint64_t)r->logger << 16 | (uint64_t)r->flags << 32 | (uint64_t)r->property << 48,
                          r->kernel_time | (uint64_t)r->user_time << 32,
                          r->pointer_size | (uint64_t)r->ext_count << 8 | (uint64_t)r->payload_bytes << 16,
                          r->header_type | (uint64_t)r->hook_id << 16 | (uint64_t)r->header_word << 32};
    uint64_t h = mix(1, words, sizeof words);
    h = mix(h, r->provider.bytes, 16);
    h = mix(h, r->activity_id.bytes, 16);
    for (unsigned i = 0; i < r->ext_count; i++) {
        uint64_t head = r->ext[i].type | (uint64_t)r->ext[i].linkage << 16 | (uint64_t)r->ext[i].size_bytes << 32;
        h = mix(h, &head, sizeof head);
        h = mix(h, r->ext[i].data, r->ext[i].size_bytes);
    }
    return mix(h, r->payload, r->payload_bytes);
}

static int by_hash(const void *a, const void *b) {
    const seen *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

static int by_position(const void *a, const void *b) {
    const seen *x = a, *y = b;
    return x->position < y->position ? -1 : x->position > y->position;
}

static void die(const ea_err *err) {
    ea_err_print(stderr, "damage_etl", err);
    exit(1);
}

/* 0, or the code with which opening failed. */
static int read_all(const char *path, list *ret, ea_counters *counters, ea_err *err) {
    ea_etl_set *set;
    ea_etl_options options = {.counters = counters};
    const ea_record *r;
    ret->count = 0;
    int rc = ea_etl_open(&set, &path, 1, &options, err);
    if (rc)
        return rc;
    while ((rc = ea_etl_next(set, &r, err)) > 0) {
        if (ret->count == ret->capacity) {
            ret->capacity = ret->capacity ? 2 * ret->capacity : 65536;
            ret->items = realloc(ret->items, ret->capacity * sizeof *ret->items);
            if (!ret->items)
                exit(1);
        }
        ret->items[ret->count++] = (seen){.position = r->position, .hash = hash_record(r)};
    }
    ea_etl_close(set);
    if (rc < 0)
        die(err);
    return 0;
}

/* How many items of a have an equal in b, each used once; both sorted with the same order. */
static size_t common(const list *a, const list *b, int (*order)(const void *, const void *)) {
    size_t i = 0, j = 0, n = 0;
    while (i < a->count && j < b->count) {
        int c = order(&a->items[i], &b->items[j]);
        n += c == 0;
        i += c <= 0;
        j += c >= 0;
    }
    return n;
}

enum { SKIPPED = 77 }; /* the exit code that ctest counts as skipped */

int main(int argc, char **argv) {
    if (argc != 7) {
        fprintf(stderr, "usage: damage_etl TRACE SCRATCH RUNS FLIPS SEED MIN_PERMILLE\n");
        return 2;
    }
    unsigned long runs = strtoul(argv[3], NULL, 10), flips = strtoul(argv[4], NULL, 10);
    unsigned long min_permille = strtoul(argv[6], NULL, 10);
    random_state = strtoull(argv[5], NULL, 10);
    FILE *there = fopen(argv[1], "rb");
    if (!there) {
        printf("SKIPPED, since it needs real traces: damage of %s\n", argv[1]);
        const char *required = getenv("EA_REQUIRE_TRACES");
        return required && *required && strcmp(required, "0") != 0 ? 1 : SKIPPED;
    }
    fclose(there);
    ea_err err;
    char *data;
    size_t size;
    int verbose = getenv("DAMAGE_VERBOSE") != NULL;
    if (ea_path_read_all(argv[1], (size_t)1 << 30, &data, &size, &err) ||
        ea_path_write_all(argv[2], data, size, 0, &err))
        die(&err);
    ea_file *f;
    if (ea_file_open(&f, argv[2], EA_OPEN_APPEND, &err))
        die(&err);
    list good = {0}, good_places, got = {0};
    if (read_all(argv[1], &good, NULL, &err))
        die(&err);
    good_places = good;
    good_places.items = malloc((good.count + 1) * sizeof *good.items);
    if (!good_places.items)
        return 1;
    memcpy(good_places.items, good.items, good.count * sizeof *good.items);
    qsort(good.items, good.count, sizeof *good.items, by_hash);
    qsort(good_places.items, good.count, sizeof *good.items, by_position);

    uint64_t wanted = 0, identical = 0, invented = 0, came = 0, worst = 1000;
    unsigned long refused = 0;
    uint64_t *places = malloc(flips * sizeof *places + 1);
    ea_counters *counters = calloc(1, sizeof *counters);
    if (!places || !counters)
        return 1;
    int64_t start = ea_monotonic_ns();
    for (unsigned long run = 0; run < runs; run++) {
        for (unsigned long i = 0; i < flips; i++) {
            uint64_t at = places[i] = next_random() % size;
            uint8_t byte = (uint8_t)data[at] ^ (uint8_t)(1 + next_random() % 255);
            if (ea_file_write_at(f, at, &byte, 1, &err))
                die(&err);
        }
        int rc = read_all(argv[2], &got, counters, &err);
        if (rc)
            refused++;
        qsort(got.items, got.count, sizeof *got.items, by_hash);
        size_t same = common(&good, &got, by_hash);
        qsort(got.items, got.count, sizeof *got.items, by_position);
        size_t placed = common(&good_places, &got, by_position);
        wanted += good.count;
        identical += same;
        came += got.count;
        invented += got.count - placed;
        uint64_t permille = good.count ? same * 1000 / good.count : 1000;
        worst = permille < worst ? permille : worst;
        if (verbose)
            printf("run %lu: %zu of %zu identical, %zu came, %zu invented%s%s\n", run, same, good.count, got.count,
                   got.count - placed, rc ? ", refused: " : "", rc ? err.message : "");
        for (unsigned long i = 0; i < flips; i++)
            if (ea_file_write_at(f, places[i], data + places[i], 1, &err))
                die(&err);
    }
    ea_file_close(f);
    if (ea_path_remove(argv[2], &err))
        die(&err);
    double seconds = (double)(ea_monotonic_ns() - start) / 1e9;
    printf("%s: %lu runs of %lu flips: %.3f %% identical (worst run %.1f %%), %.4f %% invented, %" PRIu64 " of %" PRIu64
           " came, %lu runs refused, %.1f s; bad records %" PRIu64 ", buffers %" PRIu64 ", late %" PRIu64 "\n",
           argv[1], runs, flips, 100.0 * (double)identical / (double)(wanted ? wanted : 1), (double)worst / 10,
           100.0 * (double)invented / (double)(wanted ? wanted : 1), came, wanted, refused, seconds,
           ea_counter_get(counters, EA_COUNT_source_bad_records), ea_counter_get(counters, EA_COUNT_source_bad_buffers),
           ea_counter_get(counters, EA_COUNT_source_late_records));
    int good_enough = identical * 1000 >= wanted * min_permille && invented * 1000 <= wanted;
    free(data);
    free(good.items);
    free(good_places.items);
    free(got.items);
    free(places);
    free(counters);
    return good_enough ? 0 : 1;
}
