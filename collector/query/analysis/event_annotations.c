/* See event_annotations.h. */
#include "collector/query/analysis/event_annotations.h"

#include "collector/query/analysis/stack_query.h"
#include "proto/base/array.h"
#include "proto/base/map.h"

#include <stdlib.h>

enum { LINKS_MAX = 1 << 23 };

/* What is known of a stream. */
typedef struct known {
    int has_stacks;
    int64_t from_utc_ns, to_utc_ns; /* of the stacks; both included */
    ec_stack_links stacks;
    ec_counter_names *names; /* NULL: not requested */
} known;

struct ec_annotations {
    ec_archive *archive;
    known *streams;
    size_t count, capacity;
    ea_u64_map by_stream; /* number in the store -> index */
    size_t link_count;    /* of all streams */
};

int ec_annotations_create(ec_annotations **ret, ec_archive *archive) {
    ec_annotations *l = calloc(1, sizeof *l);
    if (!l)
        return EA_ENOMEM;
    l->archive = archive;
    ea_u64_map_init(&l->by_stream, 0);
    *ret = l;
    return 0;
}

static void forget_stacks(ec_annotations *l, known *k) {
    l->link_count -= k->stacks.count;
    free(k->stacks.links);
    k->stacks = (ec_stack_links){0};
    k->has_stacks = 0;
}

void ec_annotations_destroy(ec_annotations *l) {
    if (!l)
        return;
    for (size_t i = 0; i < l->count; i++) {
        forget_stacks(l, &l->streams[i]);
        ec_counter_names_close(l->streams[i].names);
    }
    ea_u64_map_deinit(&l->by_stream);
    free(l->streams);
    free(l);
}

static int annotations_find(ec_annotations *l, const ec_archive_stream *stream, known **ret, ea_err *err) {
    const uint64_t *at = ea_u64_map_get(&l->by_stream, stream->row.stream_id);
    if (at) {
        *ret = &l->streams[*at];
        return 0;
    }
    int rc = EA_GROW(l->streams, l->capacity, l->count + 1, SIZE_MAX);
    if (!rc)
        rc = ea_u64_map_put(&l->by_stream, stream->row.stream_id, l->count);
    if (rc)
        return ea_fail(err, rc, "join stacks");
    l->streams[l->count] = (known){0};
    *ret = &l->streams[l->count++];
    return 0;
}

static int annotations_join(ec_annotations *l, known *k, const ec_archive_stream *stream, int64_t from_utc_ns,
                            int64_t to_utc_ns, ea_err *err) {
    forget_stacks(l, k);
    k->stacks.limit_count = LINKS_MAX - l->link_count;
    int rc = ec_stack_query_links(l->archive, stream, from_utc_ns, to_utc_ns < INT64_MAX ? to_utc_ns + 1 : INT64_MAX,
                                  &k->stacks, err);
    l->link_count += k->stacks.count;
    if (rc) {
        forget_stacks(l, k);
        if (rc != EA_ELIMIT)
            return rc;
        /* the question is at fault, not what is stored */
        return ea_fail(err, EA_EFULL, "join stacks: more than %d events have one; narrow the time range", LINKS_MAX);
    }
    k->has_stacks = 1;
    k->from_utc_ns = from_utc_ns;
    k->to_utc_ns = to_utc_ns;
    return 0;
}

static int annotations_stack(void *arg, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns,
                             uint64_t place, uint64_t *ret, ea_err *err) {
    ec_annotations *l = arg;
    known *k = NULL;
    int rc = annotations_find(l, stream, &k, err);
    if (!rc && !(k->has_stacks && k->from_utc_ns <= from_utc_ns && to_utc_ns <= k->to_utc_ns))
        rc = annotations_join(l, k, stream, from_utc_ns, to_utc_ns, err);
    if (rc)
        return rc;
    size_t low = 0, high = k->stacks.count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (k->stacks.links[middle].place < place)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == k->stacks.count || k->stacks.links[low].place != place)
        return 0;
    *ret = k->stacks.links[low].hash;
    return 1;
}

static int annotations_counters(void *arg, const ec_archive_stream *stream, uint64_t place,
                                const ec_counter_config **ret, ea_err *err) {
    ec_annotations *l = arg;
    known *k = NULL;
    int rc = annotations_find(l, stream, &k, err);
    if (!rc && !k->names)
        rc = ec_counter_names_open(&k->names, l->archive, stream, err);
    if (!rc)
        *ret = ec_counter_names_at(k->names, place);
    return rc;
}

ec_annotator ec_annotations_annotator(ec_annotations *l) {
    return (ec_annotator){.stack = annotations_stack, .counters = annotations_counters, .arg = l};
}
