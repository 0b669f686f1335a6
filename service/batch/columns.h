/* Rows become Column messages: the choice of an encoding by cheap statistics, and the encoded bytes. FORMAT.md,
 * "Columns", says what each encoding means; which one is taken is this file's own matter. Called by: encoder_events.c,
 * which gathers rows. Used by: encoder.c, which puts the parts into frames. Thread: the encoder's. */
#ifndef EA_BATCH_COLUMNS_H
#define EA_BATCH_COLUMNS_H

#include "proto/base/arena.h"
#include "proto/wire/batch.pb-c.h"
#include "service/batch/open_batch.h"

enum { EA_OWN_FRAME_BYTES = 1024 }; /* a column of so many bytes gets a frame of its own */

enum ea_part_kind { EA_PART_NUMBERS, EA_PART_BYTES, EA_PART_KINDS };

/* The encoded data of one column, not yet in a frame. */
typedef struct ea_part {
    Etwagent__V1__Column *column;
    const uint8_t *data;
    size_t len_bytes;
    enum ea_part_kind kind;
} ea_part;

/* An event of a group. */
typedef struct ea_row {
    const uint8_t *payload;
    uint32_t payload_bytes;
    uint32_t event; /* number in the batch */
} ea_row;

/* The events that a group's numbers may be relative to: number i belongs to row i. */
typedef struct ea_relations {
    const ea_event *events; /* the batch's */
    const ea_row *rows;
} ea_relations;

/* Where the data of columns with frames of their own are written at once when nothing is compressed: as the batch's
 * leading frames, each with its message's head before it. */
typedef struct ea_direct {
    uint8_t *data; /* borrowed */
    size_t len_bytes, capacity;
    uint32_t count;
} ea_direct;

typedef struct ea_columns {
    ea_arena *arena; /* of this batch: messages and data */
    ea_part *parts;  /* in the order of the directory */
    size_t part_count, part_capacity;
    uint32_t *table; /* scratch of the dictionaries */
    size_t table_size;
    ea_direct direct;    /* capacity 0: there is none; what does not fit is a part */
    int no_dictionaries; /* they are compression; the caller sets it to disable them */
    int failed;          /* memory ran out; sticks */
} ea_columns;

void ea_columns_init(ea_columns *c, ea_arena *arena);
void ea_columns_deinit(ea_columns *c);
/* A new batch begins. */
void ea_columns_reset(ea_columns *c);

/* Rows of numbers of width 1 to 8 bytes; values are cut to width. implied: the place implies the width. initial: what
 * the first difference is taken from. values is used up. */
Etwagent__V1__Column *ea_columns_numbers(ea_columns *c, uint64_t *values, size_t count, unsigned width, int implied,
                                         uint64_t initial, const ea_relations *relations);
/* Numbers of a place of that width that grow or fall slowly: differences, always. */
Etwagent__V1__Column *ea_columns_series(ea_columns *c, uint64_t *values, size_t count, unsigned width,
                                        uint64_t initial);
/* Rows of bytes; EA_CONTENT_SLACK more bytes must be readable after each row. unit: width of the elements of a row (1
 * or 2), if all lengths are multiples of it. */
Etwagent__V1__Column *ea_columns_bytes(ea_columns *c, const ea_slice *rows, size_t count, unsigned unit);
/* Rows of one fixed width above 8. */
Etwagent__V1__Column *ea_columns_wide(ea_columns *c, const ea_slice *rows, size_t count, unsigned width, int implied);

#endif
