/* Reads the columns of a batch: the place of each column's data, and its rows on demand.
 * Input: an unpacked Directory and the frames. Called by: view.c, view_records.c. Thread: its view's. */
#ifndef EA_WIRE_UNPACK_H
#define EA_WIRE_UNPACK_H

#include "proto/base/arena.h"
#include "proto/wire/batch.pb-c.h"
#include "proto/wire/wire.h"

#include <zstd.h>

/* Frame 0 is the directory's pool. */
typedef struct ea_frame {
    const uint8_t *data;
    size_t len_bytes;
    size_t raw_bytes;     /* decompressed */
    const uint8_t *bytes; /* decompressed; NULL: not yet */
    size_t used_bytes;    /* claimed by columns so far */
} ea_frame;

typedef struct ea_rows_reader {
    ea_arena *arena;
    ea_frame *frames;
    size_t frame_count;
    struct ea_rows *dictionaries; /* the shared ones */
    uint32_t *dictionary_counts;
    size_t dictionary_count;
    ZSTD_DCtx *zstd;
    uint64_t *scratch;
    size_t scratch_count;
    /* What reading the batch has cost so far, and what it may: see EA_COST_BASE. */
    uint64_t cost, cost_max, paid_bytes;
} ea_rows_reader;

/* Adds cost to r->cost, the work of reading the batch. EA_ELIMIT: the sum exceeds r->cost_max. The sum of a batch is at
 * least the same for every reader, and the batch's writer must keep it below the limit. */
EA_MUST_CHECK int ea_rows_spend(ea_rows_reader *r, uint64_t cost, ea_err *err);

/* What the rows of a group are relative to. */
typedef struct ea_rows_context {
    const ea_batch_events *events;
    const uint32_t *rows; /* indexes of the group's events */
} ea_rows_context;

enum { EA_ROWS_UNKNOWN = -1 }; /* as uint32_t: known when the lengths around it are */

typedef struct ea_rows {
    const Etwagent__V1__Column *m; /* NULL: absent */
    uint32_t width;                /* of an element; 0: only rows know */
    unsigned stored_width;         /* bytes that an element takes in the data; 0 for varints, bits and constants */
    unsigned bits;                 /* bits that it takes; 0: bytes */
    size_t offset, bytes;          /* of the data in its frame */
    uint32_t value_count;
    struct ea_rows *lengths, *values;
    int is_decoded;
    ea_column column; /* when is_decoded */
} ea_rows;

/* Checks m, which must be a column of `rows` rows of width (0: any), and claims its data and that of all its parts.
 * in_dictionary: inside a dictionary, where shared dictionaries are refused. */
EA_MUST_CHECK int ea_rows_build(ea_rows_reader *r, ea_rows *ret, const Etwagent__V1__Column *m, uint32_t rows,
                                uint32_t width, int in_dictionary, ea_err *err);
/* The rows; decoded once. context may be NULL where no base but the element before is allowed; initial is what the
 * first element is relative to. */
EA_MUST_CHECK int ea_rows_decode(ea_rows_reader *r, ea_rows *c, uint32_t rows, const ea_rows_context *context,
                                 uint64_t initial, ea_err *err);
/* The distinct rows of a column that is a dictionary (and no list), and which of them each row is: 1; 0 when it is
 * stored otherwise. */
EA_MUST_CHECK int ea_rows_dictionary(ea_rows_reader *r, ea_rows *c, uint32_t rows, ea_column *ret_values,
                                     const uint32_t **ret_index, ea_err *err);
/* What an allocation of the arena that failed is: EA_ENOMEM when there is no memory, EA_ELIMIT when a batch may take no
 * more. what: the operation. */
int ea_rows_no_memory(const ea_arena *arena, const char *what, ea_err *err);
/* Memory of the view, or NULL. */
void *ea_rows_alloc(ea_rows_reader *r, size_t count, size_t size_bytes);

#endif
