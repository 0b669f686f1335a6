/* Inside collector/query/scan: what the two halves of a scan share: scan.c, which finds batches and keeps events, and
 * scan_values.c, which returns values. See scan.h. */
#ifndef EC_QUERY_SCAN_SCAN_PARTS_H
#define EC_QUERY_SCAN_SCAN_PARTS_H

#include "collector/query/scan/scan.h"
#include "collector/state/state_db.h"

typedef struct ec_scan_condition ec_scan_condition; /* scan.c's */

/* A column of the block at hand. */
typedef struct ec_scan_cell {
    uint64_t block; /* number of the block that the rest is about; 0: none */
    int top;        /* top-level field, -1: the class lacks it */
    const ea_field *field;
    size_t field_index;
    int is_slow; /* rows need a split of the whole payload */
    int has_data;
    ea_column data;
} ec_scan_cell;

struct ec_scan {
    ec_archive *archive;
    const ec_table_schema *shape; /* of the columns of the block at hand */
    const ec_table_schema *own;   /* of the scan */
    ec_annotator annotator;       /* stack NULL: there is none */
    ec_scan_condition *conditions;
    size_t condition_count;
    int is_nothing; /* the conditions contradict themselves */
    int64_t from_utc_ns, to_utc_ns;
    ea_class_hash *classes; /* of the wanted classes; NULL: all */
    size_t class_count;
    uint32_t *pids;
    size_t pid_count;
    int has_pids;
    ec_row_filter rows;
    int is_counting;      /* the owner takes whole blocks */
    int is_of_constants;  /* the conditions are on constants and one range of time */
    uint64_t whole_batch; /* the ordinal of the batch of which is_whole_batch speaks */
    int is_whole_batch;   /* all its groups are wanted */
    ec_index_query_filter filter;
    ec_index_query *find;
    ec_index_query_counts counts; /* find's, when the stream at hand began */
    size_t next_stream;
    int is_in_stream; /* find is at a batch of the one before next_stream */
    const ec_archive_stream *stream;
    ec_found found;
    uint64_t ordinal;
    uint8_t *data; /* the batch's bytes */
    size_t data_capacity;
    ea_batch_view *view;
    ea_batch_view *spare; /* the one before, whose memory the next one gets */
    size_t next_group;
    ec_block block;
    uint64_t block_number;
    ec_scan_cell *cells; /* of shape's columns */
    size_t cell_capacity;
    uint32_t *selected;
    size_t selected_capacity;
    uint8_t *marks; /* of threads */
    size_t marks_capacity;

    struct {
        int64_t first, last; /* raw ticks inside [from, to] */
    } * raw;                 /* by source */

    size_t raw_capacity;
    int has_raw; /* for the batch at hand */
    ea_text text;
};

/* The column of a field for the block at hand; the scan's, until the next block. */
ec_scan_cell *ec_scan_find_cell(ec_scan *s, size_t column);

/* A column that all events of a block have alike. */
static inline int64_t ec_scan_constant(const ec_block *b, int common) {
    const ea_record *r = b->constants;
    switch (common) {
    case EC_ID:
        return r->id;
    case EC_VERSION:
        return r->version;
    case EC_CHANNEL:
        return r->channel;
    case EC_LEVEL:
        return r->level;
    case EC_OPCODE:
        return r->opcode;
    case EC_TASK:
        return r->task;
    default:
        return ec_u64_to_sql(r->keyword);
    }
}

/* A column of numbers that every event has; event: index into the block's. */
static inline int64_t ec_scan_number(const ec_scan *s, int common, uint32_t event) {
    const ea_batch_events *e = s->block.events;
    switch (common) {
    case EC_CPU:
        return e->cpu[event];
    case EC_POSITION:
        return event;
    case EC_SOURCE:
        return e->source[event];
    case EC_CLOCK:
        return e->time[event];
    case EC_PID:
        return e->pid[e->thread[event]];
    case EC_TID:
        return e->tid[e->thread[event]];
    default:
        return ec_scan_utc_ns(s, event);
    }
}

static inline int ec_is_signed(const ea_field *f) {
    return f->type == EA_I8 || f->type == EA_I16 || f->type == EA_I32 || f->type == EA_I64;
}

#endif
