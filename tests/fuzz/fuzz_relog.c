/* The relogger on any file: what it accepts comes out equal, record for record, in order unless some of the
 * file's own records are late or have no time; a cut of it is a trace that can be read again. The last byte chooses
 * compression, buffer size and cut. */
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/etl/etl.h"
#include "proto/relog/cut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST_BYTES = 1 << 16 };

static char in_path[64], folder[] = "/dev/shm/fuzz_relog_XXXXXX", out_path[64]; /* in memory: outputs are synced */

typedef struct cutting {
    ea_registry *registry;
    ea_cut *cut;
    int64_t from_raw, to_raw;
    int is_filtered;
    uint64_t seen;
    ea_relog *relog;
} cutting;

static void clean(void) {
    unlink(out_path);
    rmdir(folder);
}

static ea_etl_set *open_etl(const char *path) {
    ea_etl_set *set = NULL;
    ea_err err;
    return ea_etl_open(&set, &path, 1, NULL, &err) ? NULL : set;
}

static const ea_record *next_event(ea_etl_set *set) {
    const ea_record *r = NULL;
    ea_err err;
    int rc;
    do
        rc = ea_etl_next(set, &r, &err);
    while (rc > 0 && ea_etl_is_header_record(r));
    return rc > 0 ? r : NULL;
}

/* A message without a time has that of the record before it, which may not be in the
 * output. */
static int is_timeless(const ea_record *r) {
    enum { WPP_TIME = 0x18 };

    return r->header_type == EA_HEADER_MESSAGE && !(r->header_word & WPP_TIME);
}

static uint64_t hash_of(const ea_record *r) {
    uint64_t hash = ea_hash64(r->payload, r->payload_bytes, is_timeless(r) ? 0 : (uint64_t)r->time_raw);
    for (unsigned i = 0; i < r->ext_count; i++)
        hash = ea_hash64(r->ext[i].data, r->ext[i].size_bytes, hash ^ r->ext[i].type);
    return ea_hash64(&r->provider, sizeof r->provider, hash ^ (uint64_t)r->cpu << 32 ^ r->hook_id);
}

/* 1: some record comes after one of a later time, or has none. */
static int has_no_order(const char *path) {
    ea_etl_set *set = open_etl(path);
    const ea_record *r;
    int64_t last = INT64_MIN;
    int late = 0;
    while (set && (r = next_event(set)) != NULL) {
        late |= r->time_raw < last || is_timeless(r);
        last = r->time_raw;
    }
    ea_etl_close(set);
    return late;
}

/* Late records are found at their own times in the output, so that of files with some only the sums are compared. */
static void compare(void) {
    ea_etl_set *a = open_etl(in_path), *b = open_etl(out_path);
    const ea_record *x, *y;
    uint64_t sum_a = 0, sum_b = 0;
    int late = has_no_order(in_path);
    if (!a || !b)
        abort();
    for (;;) {
        x = next_event(a);
        y = next_event(b);
        if (!x || !y)
            break;
        sum_a += hash_of(x);
        sum_b += hash_of(y);
        if (!late && !ea_record_equal(x, y))
            abort();
    }
    if (x || y || sum_a != sum_b)
        abort();
    ea_etl_close(a);
    ea_etl_close(b);
}

static int emit(void *arg, const ea_relog_event *event) {
    return ea_relog_emit(((cutting *)arg)->relog, 0, event);
}

static int on_event(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    cutting *c = arg;
    const ea_record *r = (const ea_record *)event;
    ea_err err;
    (void)input;
    int wanted = !c->is_filtered || c->seen++ % 3 != 0;
    c->relog = relog;
    return ea_cut_take(c->cut, r, ea_registry_find(c->registry, r), wanted, &err);
}

static int on_end(ea_relog *relog, void *arg) {
    cutting *c = arg;
    c->relog = relog;
    return ea_cut_finish(c->cut);
}

/* Runs it; c NULL: an identical copy. Returns what the run returned. */
static int run(const ea_relog_output *output, cutting *c, uint64_t *ret_read) {
    static const ea_relog_callbacks callbacks = {.on_event = on_event, .on_end = on_end};
    ea_relog *g;
    if (ea_relog_create(&g) || ea_relog_add_input(g, in_path, NULL, NULL) ||
        ea_relog_add_output(g, out_path, output, NULL))
        abort();
    int rc = ea_relog_run(g, c ? &callbacks : NULL, c);
    if (rc && (!*ea_relog_error(g) || ea_path_exists(out_path)))
        abort();
    *ret_read = ea_relog_count(g)->read;
    ea_relog_destroy(g);
    return rc;
}

static void cut_a_part(const ea_relog_output *output, unsigned choice, uint64_t count) {
    cutting c = {.from_raw = INT64_MIN, .to_raw = INT64_MAX, .is_filtered = choice & 1};
    ea_etl_set *set = open_etl(in_path);
    const ea_record *r;
    ea_err err;
    for (uint64_t i = 0; set && (r = next_event(set)) != NULL; i++) {
        if (i == count / 3)
            c.from_raw = r->time_raw;
        if (i == 2 * count / 3)
            c.to_raw = r->time_raw;
    }
    ea_etl_close(set);
    if (c.from_raw >= c.to_raw)
        return;
    const ea_cut_options options = {.from_raw = c.from_raw,
                                    .to_raw = c.to_raw,
                                    .is_filtered = c.is_filtered,
                                    .limit_bytes = 64 << 20,
                                    .emit = emit,
                                    .emit_arg = &c};
    if (ea_registry_create(&c.registry, 0, &err) || ea_cut_create(&c.cut, &options, &err))
        abort();
    if (run(output, &c, &count) == 0) {
        if (!(set = open_etl(out_path)))
            abort();
        while ((r = next_event(set)) != NULL)
            if (!is_timeless(r) && (r->time_raw < c.from_raw || r->time_raw > c.to_raw))
                abort();
        ea_etl_close(set);
        unlink(out_path);
    }
    ea_cut_destroy(c.cut);
    ea_registry_destroy(c.registry);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint32_t COMPRESSIONS[] = {EA_RELOG_COMPRESSION_SAME, EA_RELOG_COMPRESSION_NONE,
                                            EA_RELOG_COMPRESSION_LZNT1, EA_RELOG_COMPRESSION_XPRESS,
                                            EA_RELOG_COMPRESSION_XPRESS_HUFF};
    static int fd = -1;
    if (size == 0 || size > MOST_BYTES)
        return 0;
    uint8_t choice = data[--size];
    if (fd < 0) {
        fd = memfd_create("trace", 0);
        if (fd < 0 || !mkdtemp(folder) || atexit(clean))
            abort();
        snprintf(in_path, sizeof in_path, "/proc/self/fd/%d", fd);
        snprintf(out_path, sizeof out_path, "%s/out.etl", folder);
    }
    if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    const ea_relog_output output = {.compression =
                                        COMPRESSIONS[(choice >> 1) % (sizeof COMPRESSIONS / sizeof *COMPRESSIONS)],
                                    .buffer_size_bytes = choice & 0x40 ? 1 << 17 : 0};
    uint64_t count;
    if (run(&output, NULL, &count) == 0) {
        compare();
        unlink(out_path);
        cut_a_part(&output, choice >> 7, count);
    }
    return 0;
}
