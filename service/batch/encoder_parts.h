/* Inside service/batch: what the two halves of the encoder share: encoder.c, which makes frames and the envelope, and
 * encoder_events.c, which makes columns out of rows. See builder.h. Thread: the encoder's. */
#ifndef EA_BATCH_ENCODER_PARTS_H
#define EA_BATCH_ENCODER_PARTS_H

#include "service/batch/acked_definitions.h"
#include "service/batch/columns.h"
#include "service/batch/context.h"

#include <zstd.h>

/* A group as it is written: rows of one open group whose payloads are all split alike. */
typedef struct ea_out_group {
    const ea_open_group *from;
    const ea_row *rows;     /* its events, in order of arrival */
    const uint16_t *places; /* see split_rows; NULL: every field is at its class's offset */
    uint32_t count;
    size_t field_count; /* in columns of their own; 0: the payloads stay whole */
} ea_out_group;

struct ea_encoder {
    ea_encoder_options options;
    ZSTD_CCtx *zstd;
    ea_arena arena;
    size_t arena_reserved; /* size of its one block */
    ea_columns columns;
    uint8_t *out;
    size_t out_capacity;
    /* by event of the batch at hand */
    uint32_t capacity;
    ea_row *rows;        /* events by group */
    ea_row *spare_rows;  /* scratch of split_rows */
    uint32_t *wholes;    /* the same */
    uint32_t *group_of;  /* index of the written group */
    uint32_t *thread_of; /* index of its (pid, tid) */
    uint16_t *cpu_of, *source_of;
    uint64_t *times;  /* used up by the time column */
    uint64_t *values; /* scratch of one column */
    ea_slice *slices;
    uint32_t *threads; /* look-up table of (pid, tid) */
    uint64_t *thread_ids;
    size_t thread_mask;
    uint32_t thread_count;
    int has_sources; /* not all events are of the first one */
    ea_acked_definitions known;
    ea_context_writer context;
    ZSTD_CCtx *zstd_dictionary; /* NULL: none */
    ZSTD_CDict *dictionary;
    uint8_t dictionary_hash[EA_CLASS_HASH_BYTES];
    unsigned until_dictionary; /* small batches until it is sent (again) */
    const uint8_t *last_directory;
    size_t last_directory_bytes;
};

/* In a small batch groups share what columns they can. */
static inline int ea_encoder_is_flat(const ea_open_batch *o) {
    return o->count <= EA_SMALL_BATCH_EVENTS;
}

/* Makes room for a batch of so many events. */
EA_MUST_CHECK int ea_encoder_reserve(ea_encoder *e, uint32_t n);
void ea_encoder_free_rows(ea_encoder *e);
/* The batch's groups as they are written, each with its rows; groups of fewer than transpose_rows keep their payloads
 * whole. In the arena; NULL: no memory. */
ea_out_group *ea_encoder_list_groups(ea_encoder *e, const ea_open_batch *o, uint32_t transpose_rows,
                                     uint32_t *ret_count);
/* Columns of a group. shaped: a shape has the class, the header and the constant items. before: the header that
 * predicts this one. */
EA_MUST_CHECK int ea_encoder_put_group(ea_encoder *e, const ea_open_batch *o, const ea_out_group *g, int shaped,
                                       const ea_record *before, Etwagent__V1__Group *m, ea_record *ret_header);
/* Columns of all events; a failure is left in e->columns. */
void ea_encoder_put_events(ea_encoder *e, const ea_open_batch *o, int is_numbered, int64_t time_min,
                           Etwagent__V1__Directory *d);
/* The columns of a small batch: what others have by group, here in order of arrival. */
void ea_encoder_put_flat(ea_encoder *e, const ea_open_batch *o, const ea_out_group *groups, Etwagent__V1__Directory *d);
/* The summary of all events: the checksum; the smallest and largest time, in ticks of the first source's clock. */
EA_MUST_CHECK int ea_encoder_sum_up(ea_encoder *e, const ea_open_batch *o, uint64_t *ret_checksum, int64_t *ret_min,
                                    int64_t *ret_max);

#endif
