/* Batches of real traces: what they weigh, what they cost, and whether every record comes back bit for bit.
 *
 * usage: batches [--check] [--agent] [--level N|none] [--events N] [--runs N] [--out FOLDER] TRACE...
 * All files of one call are one merged set. Prints one JSON object: events, batches, bytes, and the fastest of N runs
 * in ns an event: index (where buffers are: what opening takes), buffers (each buffer read, decompressed, its records
 * found and made, in file order), read (the same merged into one order), read_add (read, and the builder), encode
 * (columns, compression, envelope), open and decode (every record of every batch), fold (every record again, into a
 * machine's state), verify (with checksum). --check compares every record with the source's. --out keeps the batches.
 * --agent: only what an agent does, to be looked at with a profiler.
 * Thread: one. */
#include "proto/base/platform.h"
#include "proto/etl/etl.h"
#include "proto/etl/layout.h"
#include "proto/state/machine.h"
#include "service/batch/builder.h"
#include "tests/bench/cpu_time.h"
#include "tests/unit/definition_cache.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct options {
    int check, agent_only, level;
    uint32_t events;
    unsigned runs;
    const char *out;
    const char *const *paths;
    size_t path_count;
} options;

/* The parts of a run that are timed. */
#define PARTS(X) X(index) X(buffers) X(read) X(read_add) X(encode) X(open) X(decode) X(fold) X(verify)

enum part {

#define X(name) PART_##name,
    PARTS(X)
#undef X
        PART_COUNT
};
static const char *const PART_NAMES[] = {
#define X(name) #name,
    PARTS(X)
#undef X
};

typedef struct totals {
    uint64_t events, batches, bytes, described_bytes;
    int64_t ns[PART_COUNT];
} totals;

static int fail(const ea_err *err) {
    ea_err_print(stderr, "batches", err);
    return 1;
}

/* Sources of a file's set, as service/source makes them. */
static size_t make_sources(const ea_etl_set *set, ea_wire_source *rows, size_t room) {
    size_t n = ea_etl_file_count(set);
    if (n > room)
        return 0;
    for (size_t i = 0; i < n; i++) {
        const ea_etl_info *info = ea_etl_file_info(set, i);
        rows[i] = (ea_wire_source){.name = info->session_name,
                                   .host = "host",
                                   .clock = info->clock,
                                   .boot_filetime = info->boot_filetime,
                                   .pointer_size = info->pointer_size,
                                   .cpu_count = info->cpu_count,
                                   .os_version = info->os_version,
                                   .os_build = info->os_build,
                                   .log_file_mode = info->log_file_mode};
    }
    return n;
}

static int add_description(const uint8_t *data, size_t n, void *arg) {
    (void)data;
    *(uint64_t *)arg += n;
    return 0;
}

static void acknowledge(void *encoder, const uint8_t *hash) {
    ea_encoder_known(encoder, hash);
}

static int check_batch(ea_batch_view *v, ea_etl_set *again, ea_registry *registry, ea_err *err) {
    const ea_record *got, *expected;
    const ea_class *c;
    int rc;
    ea_batch_rewind(v);
    while ((rc = ea_batch_next(v, &got, &c, err)) > 0) {
        rc = ea_etl_next(again, &expected, err);
        if (rc < 0)
            return rc;
        if (rc == 0 || !ea_record_equal(got, expected))
            return ea_fail(err, EA_ECORRUPT, "record %" PRIu64 " of batch %" PRIu64 " is not the source's",
                           got->position, ea_batch_get_head(v)->number);
        if (memcmp(c->hash, ea_registry_find(registry, expected)->hash, sizeof c->hash) != 0)
            return ea_fail(err, EA_ECORRUPT, "record %" PRIu64 " has another class", got->position);
    }
    return rc;
}

/* Every record once more, into the state of its machine, as a collector does. */
static int fold(ea_batch_view *v, ea_machine *machine, ea_err *err) {
    const ea_record *r;
    const ea_class *c;
    int rc;
    ea_batch_rewind(v);
    while ((rc = ea_batch_next(v, &r, &c, err)) > 0) {
        if (!ea_machine_concerns(&c->provider, c->code))
            continue;
        const ea_clock *clock = &ea_batch_source(v, r->source)->clock; /* the encoder's own: it is there */
        if ((rc = ea_machine_apply(machine, r, c, ea_clock_to_utc_ns(clock, r->time_raw), err)) != 0)
            return rc;
    }
    return rc;
}

/* Opens a batch, reads every record, folds and verifies it, and compares the records with the source's if that is asked
 * for. */
static int read_back(const options *o, const uint8_t *data, size_t n, definition_cache *kept, ea_registry *collector,
                     ea_etl_set *again, ea_registry *judge, ea_machine *machine, totals *t, ea_err *err) {
    ea_batch_view *v = NULL;
    const ea_record *r;
    const ea_class *c;
    int64_t t0 = cpu_ns();
    int rc = definition_cache_receive(kept, &data, &n, err);
    if (!rc)
        rc = ea_batch_open(&v, data, n, collector, err);
    int64_t t1 = cpu_ns();
    while (!rc && (rc = ea_batch_next(v, &r, &c, err)) > 0)
        rc = 0;
    int64_t t2 = cpu_ns();
    t->ns[PART_open] += t1 - t0;
    t->ns[PART_decode] += t2 - t1;
    if (!rc && o->check)
        rc = check_batch(v, again, judge, err);
    t2 = cpu_ns();
    if (!rc)
        rc = fold(v, machine, err);
    int64_t t3 = cpu_ns();
    t->ns[PART_fold] += t3 - t2;
    if (!rc)
        rc = ea_batch_verify(v, err);
    t->ns[PART_verify] += cpu_ns() - t3;
    if (!rc)
        rc = ea_batch_each_description(data, n, add_description, &t->described_bytes, err);
    ea_batch_close(v);
    return rc;
}

/* What an agent has for as long as it runs: memory that is there is what the passes after the first one measure. */
typedef struct agent {
    ea_registry *registry;
    ea_builder *builder;
    ea_encoder *encoder;
} agent;

static void agent_deinit(agent *a) {
    ea_encoder_destroy(a->encoder);
    ea_builder_destroy(a->builder);
    ea_registry_destroy(a->registry);
    *a = (agent){0};
}

static int agent_init(agent *a, const options *o, ea_err *err) {
    ea_etl_set *set = NULL;
    ea_wire_source sources[16];
    ea_etl_options etl = {0};
    *a = (agent){0};
    int rc = ea_etl_open(&set, o->paths, o->path_count, &etl, err);
    if (rc)
        return rc;
    ea_builder_options bo = {.max_events = o->events,
                             .sources = sources,
                             .source_count = make_sources(set, sources, sizeof sources / sizeof *sources)};
    ea_encoder_options eo = {.zstd_level = o->level, .stream = "batches bench  "};
    rc = ea_registry_create(&a->registry, 0, err);
    if (!rc)
        rc = ea_builder_create(&a->builder, &bo, err);
    if (!rc)
        rc = ea_encoder_create(&a->encoder, &eo, err);
    ea_etl_close(set);
    if (rc)
        agent_deinit(a);
    return rc;
}

/* Reads the next records into the open batch until it is full: 1, 0 at the end of the traces, or an error. A record
 * that found the batch full is *left_over, to be added to the next one. */
static int fill(agent *a, ea_etl_set *set, const ea_record **left_over, ea_err *err) {
    const ea_record *r = *left_over;
    *left_over = NULL;
    for (;;) {
        if (!r) {
            int rc = ea_etl_next(set, &r, err);
            if (rc <= 0)
                return rc;
        }
        int full = ea_builder_add(a->builder, r, ea_registry_find(a->registry, r));
        if (full == EA_EFULL)
            *left_over = r;
        else if (full < 0)
            return ea_fail(err, full, "add an event");
        if (full)
            return 1;
        r = NULL;
    }
}

typedef struct reader {
    ea_registry *collector, *judge;
    ea_machine *machine;
    ea_etl_set *again; /* the source once more, to compare with */
    definition_cache kept;
} reader;

/* One pass over the traces. back: batches are read back, too; NULL: what an agent does, and nothing else. */
static int pass(const options *o, agent *a, reader *back, totals *t, ea_err *err) {
    ea_etl_set *set = NULL;
    ea_etl_options etl = {0};
    const ea_record *left_over = NULL;
    *t = (totals){0};
    int rc = ea_etl_open(&set, o->paths, o->path_count, &etl, err), more = 1;
    while (!rc && more) {
        int64_t t0 = cpu_ns();
        more = fill(a, set, &left_over, err);
        if (more < 0)
            rc = more;
        ea_open_batch *batch = rc ? NULL : ea_builder_take(a->builder);
        int64_t t1 = cpu_ns();
        t->ns[PART_read_add] += t1 - t0;
        if (!batch)
            continue;
        const uint8_t *data;
        size_t n = 0;
        ea_batch_stamp stamp = {.number = ++t->batches};
        rc = ea_encoder_encode(a->encoder, batch, &stamp, &data, &n, err);
        t->ns[PART_encode] += cpu_ns() - t1;
        t->events += ea_open_batch_events(batch);
        t->bytes += n;
        ea_open_batch_release(batch);
        if (!rc && back)
            rc = read_back(o, data, n, &back->kept, back->collector, back->again, back->judge, back->machine, t, err);
        if (!rc && back && o->out) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%06" PRIu64 ".batch", o->out, stamp.number);
            rc = ea_path_write_all(path, data, n, 0, err);
        }
    }
    ea_etl_close(set);
    return rc;
}

static int read_pass(const options *o, totals *t, ea_err *err) {
    ea_etl_set *set = NULL;
    ea_etl_options etl = {0};
    const ea_record *r;
    int64_t t0 = cpu_ns();
    int rc = ea_etl_open(&set, o->paths, o->path_count, &etl, err);
    int64_t t1 = cpu_ns();
    while (!rc && (rc = ea_etl_next(set, &r, err)) > 0)
        rc = 0;
    t->ns[PART_index] = t1 - t0;
    t->ns[PART_read] = cpu_ns() - t1;
    ea_etl_close(set);
    return rc;
}

/* What reading takes without a merge: the buffers of a file one after the other. */
static int buffers_of(const char *path, ea_etl_buffer *b, ea_etl_scratch *scratch, totals *t, ea_err *err) {
    ea_etl_file file = {.info.path = (char *)(uintptr_t)path};
    ea_etl_index index = {0};
    ea_record r = {0};
    ea_ext ext[EA_EXT_MAX];
    uint64_t records = 0;
    int rc = ea_file_open(&file.handle, path, EA_OPEN_READ, err);
    if (!rc)
        rc = ea_file_size(file.handle, &file.info.file_bytes, err);
    if (!rc)
        rc = ea_etl_read_header(&file, err);
    if (!rc)
        rc = ea_etl_index_file(&index, &file, 0, &(ea_etl_options){0}, err);
    int64_t t0 = cpu_ns();
    for (size_t i = 0; !rc && i < index.count; i++) {
        rc = ea_etl_decode(&file, &index.entries[i], 0, b, scratch, NULL, err);
        for (uint32_t k = 0; !rc && k < b->walk.count; k++) {
            const uint8_t *p = b->data + b->walk.offsets[k];
            ea_etl_fill_record(&r, ext, p, ea_etl_accepted_bytes(p), (uint8_t)file.info.pointer_size);
            records++;
        }
    }
    t->ns[PART_buffers] += cpu_ns() - t0;
    t->events += records;
    file.info.path = NULL; /* not ours to free */
    free(index.entries);
    ea_file_close(file.handle);
    ea_etl_info_deinit(&file.info);
    return rc;
}

static int buffers_pass(const options *o, totals *t, ea_err *err) {
    ea_etl_buffer buffer = {0};
    ea_etl_scratch scratch = {0};
    int rc = 0;
    t->events = 0;
    for (size_t i = 0; !rc && i < o->path_count; i++)
        rc = buffers_of(o->paths[i], &buffer, &scratch, t, err);
    ea_etl_buffer_deinit(&buffer);
    ea_etl_scratch_deinit(&scratch);
    return rc;
}

/* The batches of an agent that has just begun, read back. */
static int check_pass(const options *o, totals *t, ea_err *err) {
    agent a;
    reader back = {0};
    ea_etl_options etl = {0};
    const ea_record *r;
    int rc = agent_init(&a, o, err);
    if (rc)
        return rc;
    rc = ea_etl_open(&back.again, o->paths, o->path_count, &etl, err);
    if (!rc)
        rc = ea_registry_create(&back.collector, 0, err);
    if (!rc)
        rc = ea_registry_create(&back.judge, 0, err);
    if (!rc)
        rc = ea_machine_create(&back.machine, &(ea_machine_options){0}, err);
    back.kept.acknowledge = acknowledge;
    back.kept.arg = a.encoder;
    if (!rc)
        rc = pass(o, &a, &back, t, err);
    if (!rc && o->check && ea_etl_next(back.again, &r, err) != 0)
        rc = ea_fail(err, EA_ECORRUPT, "the source has more records than the batches");
    definition_cache_deinit(&back.kept);
    ea_machine_destroy(back.machine);
    ea_registry_destroy(back.judge);
    ea_registry_destroy(back.collector);
    ea_etl_close(back.again);
    agent_deinit(&a);
    return rc;
}

static void keep_fastest(totals *best, const totals *t) {
    for (unsigned i = 0; i < PART_COUNT; i++)
        if (t->ns[i] && (best->ns[i] == 0 || t->ns[i] < best->ns[i]))
            best->ns[i] = t->ns[i];
}

int main(int argc, char **argv) {
    options o = {.level = 1};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--check") == 0)
            o.check = 1;
        else if (strcmp(argv[i], "--agent") == 0)
            o.agent_only = 1;
        else if (strcmp(argv[i], "--level") == 0 && i + 1 < argc)
            o.level = strcmp(argv[++i], "none") == 0 ? EA_ZSTD_NONE : atoi(argv[i]);
        else if (strcmp(argv[i], "--events") == 0 && i + 1 < argc)
            o.events = (uint32_t)atoi(argv[++i]);
        else if (strcmp(argv[i], "--runs") == 0 && i + 1 < argc)
            o.runs = (unsigned)atoi(argv[++i]);
        else if (strcmp(argv[i], "--out") == 0 && i + 1 < argc)
            o.out = argv[++i];
        else
            i = argc;
    }
    if (i >= argc) {
        fprintf(
            stderr,
            "usage: batches [--check] [--agent] [--level N|none] [--events N] [--runs N] [--out FOLDER] TRACE...\n");
        return 2;
    }
    if (!o.runs)
        o.runs = o.check || o.out ? 1 : 3;
    o.paths = (const char *const *)(argv + i);
    o.path_count = (size_t)(argc - i);
    totals best = {0};
    agent a;
    ea_err err = {0};
    if (agent_init(&a, &o, &err))
        return fail(&err);
    for (unsigned k = 0; k < o.runs; k++) {
        totals t, w, buffers = {0};
        if (o.agent_only) {
            if (pass(&o, &a, NULL, &best, &err))
                return fail(&err);
            continue;
        }
        if (pass(&o, &a, NULL, &w, &err) || read_pass(&o, &w, &err) || buffers_pass(&o, &buffers, &err) ||
            check_pass(&o, &t, &err))
            return fail(&err);
        if (buffers.events != t.events) {
            fprintf(stderr, "batches: buffer by buffer there are %" PRIu64 " records, merged %" PRIu64 "\n",
                    buffers.events, t.events);
            return 1;
        }
        t.ns[PART_read_add] = t.ns[PART_encode] = 0; /* of the pass that does nothing else */
        best.events = t.events;
        best.batches = t.batches;
        best.bytes = t.bytes;
        best.described_bytes = t.described_bytes;
        keep_fastest(&best, &w);
        keep_fastest(&best, &buffers);
        keep_fastest(&best, &t);
    }
    agent_deinit(&a);
    double n = best.events ? (double)best.events : 1;
    printf("{\"events\":%" PRIu64 ",\"batches\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"description_bytes\":%" PRIu64
           ",\"bytes_per_event\":%.3f",
           best.events, best.batches, best.bytes, best.described_bytes, (double)best.bytes / n);
    for (unsigned part = 0; part < PART_COUNT; part++)
        printf(",\"%s_ns\":%.1f", PART_NAMES[part], (double)best.ns[part] / n);
    printf("}\n");
    return 0;
}
