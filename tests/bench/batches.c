/* Batches of real traces: what they weigh, what they cost, and whether every record comes back bit for bit.
 *
 * usage: batches [--check] [--level N|none] [--events N] [--runs N] [--out FOLDER] TRACE...
 * All files of one call are one merged set. Prints one JSON object: events, batches, bytes, and the fastest of N runs
 * in ns an event: read (decompress and merge), add (the builder), encode (columns, compression, envelope), decode
 * (every record of every batch), verify (with checksum). --check compares every record with the source's. --out keeps
 * the batches. Thread: one. */
#include "builder.h"
#include "etl.h"
#include "platform.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct options {
    int check, level;
    uint32_t events;
    unsigned runs;
    const char *out;
    const char *const *paths;
    size_t path_count;
} options;

typedef struct totals {
    uint64_t events, batches, bytes, described_bytes;
    int64_t read_ns, add_ns, encode_ns, open_ns, decode_ns, verify_ns;
} totals;

static int fail(const ea_err *err) {
    ea_err_print(stderr, "batches", err);
    return 1;
}

/* Sources of a file's set, as service/source makes them. */
static int make_sources(const ea_etl_set *set, ea_wire_source *rows, size_t room) {
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
    return (int)n;
}

static int add_description(const uint8_t *data, size_t n, void *arg) {
    (void)data;
    *(uint64_t *)arg += n;
    return 0;
}

/* Marks what the batch described as known, as an acknowledgement would. */
static void acknowledge(ea_encoder *encoder, ea_batch_view *v) {
    for (size_t k = 0; k < ea_batch_group_count(v); k++)
        ea_encoder_known(encoder, ea_batch_group_hash(v, k));
}

static int check_batch(ea_batch_view *v, ea_etl_set *again, ea_registry *registry, ea_err *err) {
    const ea_record *got, *expected;
    const ea_class *c;
    int rc;
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

static int run(const options *o, totals *t, ea_err *err) {
    ea_etl_set *set = NULL, *again = NULL;
    ea_registry *agent = NULL, *collector = NULL, *judge = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    ea_wire_source sources[16];
    ea_etl_options etl = {0};
    const ea_record *r;
    *t = (totals){0};
    int rc = ea_etl_open(&set, o->paths, o->path_count, &etl, err);
    if (!rc)
        rc = ea_etl_open(&again, o->paths, o->path_count, &etl, err);
    if (!rc)
        rc = ea_registry_create(&agent, 0, err);
    if (!rc)
        rc = ea_registry_create(&collector, 0, err);
    if (!rc)
        rc = ea_registry_create(&judge, 0, err);
    if (rc)
        goto out;
    int source_count = make_sources(set, sources, sizeof sources / sizeof *sources);
    ea_builder_options bo = {.max_events = o->events, .sources = sources, .source_count = (size_t)source_count};
    ea_encoder_options eo = {.zstd_level = o->level, .stream = "batches bench  "};
    rc = ea_builder_create(&builder, &bo, err);
    if (!rc)
        rc = ea_encoder_create(&encoder, &eo, err);
    int64_t t0 = ea_monotonic_ns();
    int more = 1;
    while (!rc && more) {
        int full = 0;
        while (!full && (more = ea_etl_next(set, &r, err)) > 0) {
            full = ea_builder_add(builder, r, ea_registry_find(agent, r));
            if (full == EA_EFULL)
                break;
            if (full < 0) {
                rc = ea_fail(err, full, "add event %" PRIu64, t->events);
                break;
            }
        }
        if (more < 0)
            rc = more;
        ea_open_batch *batch;
        while (!rc && (batch = ea_builder_take(builder))) {
            const uint8_t *data;
            size_t n;
            ea_batch_stamp stamp = {.number = ++t->batches};
            int64_t t1 = ea_monotonic_ns();
            t->add_ns += t1 - t0;
            rc = ea_encoder_encode(encoder, batch, &stamp, &data, &n, err);
            t0 = ea_monotonic_ns();
            t->encode_ns += t0 - t1;
            t->events += ea_open_batch_events(batch);
            t->bytes += n;
            ea_open_batch_release(batch);
            if (rc)
                break;
            if (o->out) {
                char path[4096];
                snprintf(path, sizeof path, "%s/%06" PRIu64 ".batch", o->out, stamp.number);
                rc = ea_path_write_all(path, data, n, 0, err);
            }
            ea_batch_view *v = NULL;
            t1 = ea_monotonic_ns();
            if (!rc)
                rc = ea_batch_open(&v, data, n, collector, err);
            int64_t t2 = ea_monotonic_ns();
            t->open_ns += t2 - t1;
            const ea_class *c;
            while (!rc && (rc = ea_batch_next(v, &r, &c, err)) > 0)
                rc = 0;
            t1 = ea_monotonic_ns();
            t->decode_ns += t1 - t2;
            if (!rc && o->check) {
                ea_batch_rewind(v);
                rc = check_batch(v, again, judge, err);
                t1 = ea_monotonic_ns();
            }
            if (!rc)
                rc = ea_batch_verify(v, err);
            t->verify_ns += ea_monotonic_ns() - t1;
            if (!rc)
                rc = ea_batch_each_description(data, n, add_description, &t->described_bytes, err);
            if (!rc)
                acknowledge(encoder, v);
            ea_batch_close(v);
            /* a record that found the batch full goes into the next one */
            if (!rc && full == EA_EFULL) {
                full = ea_builder_add(builder, r, ea_registry_find(agent, r));
                rc = full < 0 ? ea_fail(err, full, "add event %" PRIu64, t->events) : 0;
            }
            t0 = ea_monotonic_ns();
            if (more)
                break;
        }
    }
    if (!rc && o->check && ea_etl_next(again, &r, err) != 0)
        rc = ea_fail(err, EA_ECORRUPT, "the source has more records than the batches");
    ea_etl_close(set);
    set = NULL;
    if (!rc) {
        rc = ea_etl_open(&set, o->paths, o->path_count, &etl, err);
        t0 = ea_monotonic_ns();
        while (!rc && (rc = ea_etl_next(set, &r, err)) > 0)
            rc = 0;
        t->read_ns = ea_monotonic_ns() - t0;
    }
out:
    ea_etl_close(set);
    ea_etl_close(again);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(agent);
    ea_registry_destroy(collector);
    ea_registry_destroy(judge);
    return rc;
}

static void keep_fastest(int64_t *best, int64_t ns) {
    if (*best == 0 || ns < *best)
        *best = ns;
}

int main(int argc, char **argv) {
    options o = {.level = 1, .runs = 1};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--check") == 0)
            o.check = 1;
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
        fprintf(stderr, "usage: batches [--check] [--level N|none] [--events N] [--runs N] [--out FOLDER] TRACE...\n");
        return 2;
    }
    o.paths = (const char *const *)(argv + i);
    o.path_count = (size_t)(argc - i);
    totals best = {0};
    for (unsigned k = 0; k < o.runs; k++) {
        totals t;
        ea_err err = {0};
        if (run(&o, &t, &err))
            return fail(&err);
        best.events = t.events;
        best.batches = t.batches;
        best.bytes = t.bytes;
        best.described_bytes = t.described_bytes;
        keep_fastest(&best.read_ns, t.read_ns);
        keep_fastest(&best.add_ns, t.add_ns);
        keep_fastest(&best.encode_ns, t.encode_ns);
        keep_fastest(&best.open_ns, t.open_ns);
        keep_fastest(&best.decode_ns, t.decode_ns);
        keep_fastest(&best.verify_ns, t.verify_ns);
    }
    double n = best.events ? (double)best.events : 1;
    printf("{\"events\":%" PRIu64 ",\"batches\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"description_bytes\":%" PRIu64
           ",\"bytes_per_event\":%.3f,\"read_ns\":%.1f,\"read_add_ns\":%.1f,\"encode_ns\":%.1f,\"open_ns\":%.1f,"
           "\"decode_ns\":%.1f,\"verify_ns\":%.1f}\n",
           best.events, best.batches, best.bytes, best.described_bytes, (double)best.bytes / n,
           (double)best.read_ns / n, (double)best.add_ns / n, (double)best.encode_ns / n, (double)best.open_ns / n,
           (double)best.decode_ns / n, (double)best.verify_ns / n);
    return 0;
}
