/* Inside proto/wire: what the two halves of a batch's reader share: view.c, which opens it, and view_records.c, which
 * reads its columns and records. See wire.h. Thread: a view belongs to one. */
#ifndef EA_WIRE_VIEW_PARTS_H
#define EA_WIRE_VIEW_PARTS_H

#include "proto/wire/envelope.h"
#include "proto/wire/unpack.h"

typedef struct ea_view_item {
    ea_rows data;
} ea_view_item;

typedef struct ea_view_group {
    const Etwagent__V1__Group *m;
    const ea_class *c; /* NULL without a registry */
    uint32_t count;
    const uint32_t *rows; /* indexes of its events */
    ea_view_item *items;
    ea_rows kernel_time, user_time, activity, payload; /* .m NULL: absent */
    ea_rows *fields;
    size_t field_count;
    int has_payloads, has_counted_payloads;
    ea_column payloads; /* when has_payloads: fields and tail put together */
    ea_column *split;   /* top-level fields out of the payloads, when one was asked for; NULL before */
    uint64_t constants; /* for the checksum */
    /* the iteration */
    ea_record record; /* constants filled in once */
    ea_ext *ext;
    uint32_t next;
} ea_view_group;

struct ea_batch_view {
    ea_envelope envelope;
    ea_arena arena;
    ea_rows_reader reader;
    ea_registry *registry;
    Etwagent__V1__Directory *directory; /* NULL: none */
    ea_wire_source *sources;
    ea_view_group *groups;
    size_t group_count;
    uint32_t thread_count;
    ea_rows group_of, time, cpu, thread, source, sequence, pids, tids;
    ea_rows kernel_time, user_time, activity, payload; /* of all events; .m NULL: only the groups have them, or none
                                                        * exist */
    int has_events, is_prepared;
    uint64_t payload_bytes, item_bytes; /* of the groups that are prepared, each at most EA_BATCH_MAX_RAW_BYTES */
    ea_batch_events events;
    const uint32_t *distinct_pids;
    size_t distinct_pid_count;
    uint32_t cursor;
    const uint8_t *batch;
    size_t batch_bytes;
};

static inline int ea_view_corrupt(ea_err *err, const char *what) {
    return ea_fail(err, EA_ECORRUPT, "read a batch's directory: %s", what);
}

/* An allocation of the view's failed: EA_ENOMEM, which says nothing of the batch, or EA_ELIMIT. */
static inline int ea_view_no_memory(const ea_batch_view *v, ea_err *err) {
    return ea_rows_no_memory(&v->arena, "read a batch's directory", err);
}

/* Whether the payloads of a group are neither in fields nor in a column of its own. */
static inline int ea_view_is_whole(const ea_view_group *g) {
    return !g->field_count && !g->payload.m;
}

/* Events whose payloads are in the batch's own column, where there is one. */
uint32_t ea_view_whole_payloads(const ea_batch_view *v);

#endif
