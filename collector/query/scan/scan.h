/* The native scan: events of a store, block by block, filtered while they are columns. SQL's tables and the aggregates
 * are built on it, and whatever else asks the store for events. Input: archive.h, table_schema.h. Used by: SQL,
 * aggregate.c. Thread: one ec_scan belongs to one thread; several may be open on one archive, in its thread.
 *
 * Batches are skipped by the store's index (stream, time, class, pid), groups by their constants, events by their
 * columns; only the columns that are asked for are decompressed and decoded. A condition on a dictionary column is
 * asked once a distinct value. */
#ifndef EC_QUERY_SCAN_SCAN_H
#define EC_QUERY_SCAN_SCAN_H

#include "collector/query/scan/counter_names.h"
#include "collector/query/scan/table_schema.h"

typedef struct ec_scan ec_scan;

enum ec_value_type { EC_NULL, EC_INT, EC_REAL, EC_TEXT, EC_BLOB };

typedef struct ec_value {
    enum ec_value_type type;
    int64_t i;
    double r;
    const char *data; /* text, blob; borrowed */
    size_t len_bytes;
} ec_value;

enum ec_op { EC_OP_EQ, EC_OP_LT, EC_OP_LE, EC_OP_GT, EC_OP_GE };

/* column op value, as SQL compares: nothing compares with NULL, every number is less than every text, every text less
 * than every blob. With EC_OP_EQ: equal to one of the values. */
typedef struct ec_condition {
    size_t column; /* of the shape */
    enum ec_op op;
    const ec_value *values; /* one, unless op is EC_OP_EQ */
    size_t value_count;
} ec_condition;

/* How well the scan itself keeps a condition on a column: 0 not at all, 1 it may let others through, 2 exactly. */
int ec_scan_keeps(const ec_table_schema *shape, size_t column, enum ec_op op);
/* Whether the scan keeps exactly the rows of a condition with these values: no later check has to follow. */
int ec_condition_is_exact(const ec_table_schema *shape, const ec_condition *c);

/* Events of one group of a batch. rows[selected[0 .. selected_count)] are the indexes, in events' arrays, of those that
 * the conditions let through, ascending. Of a whole block (ec_scan_set_counting) events, rows and selected are NULL. */
typedef struct ec_block {
    const ec_archive_stream *stream;
    uint64_t batch;   /* its number in the stream */
    uint64_t ordinal; /* of the batch in the archive */
    ea_batch_view *view;
    size_t group;
    const ea_class *c;
    const ea_record *constants;
    const ea_batch_events *events;
    const uint32_t *rows;
    uint32_t count; /* of rows */
    const uint32_t *selected;
    uint32_t selected_count;
} ec_block;

/* What other events of its stream say of an event (event_annotations.h): where the columns stack_hash and counters come
 * from. */
typedef struct ec_annotator {
    /* The hash of the stack (ec_stack_sum) of an event at a place (ec_event_position), whose time is in the range, both
     * ends included: 1 and *ret, 0 when it has none. */
    int (*stack)(void *arg, const ec_archive_stream *stream, int64_t from_utc_ns, int64_t to_utc_ns, uint64_t place,
                 uint64_t *ret, ea_err *err);
    /* The configuration of the counters at a place; *ret NULL: there is none. */
    int (*counters)(void *arg, const ec_archive_stream *stream, uint64_t place, const ec_counter_config **ret,
                    ea_err *err);
    void *arg;
} ec_annotator;

/* More than conditions say. arg: of both. */
typedef struct ec_row_filter {
    /* Whether a batch is to be read; called once a batch that the index and the conditions let through, in the order of
     * the scan. NULL: all are. */
    int (*wants)(void *arg, const ec_batch_row *batch);
    /* Keeps some of the events that the conditions let through: indexes as ec_block's selected, in their order. NULL:
     * all are kept. An error for which ec_is_damage holds leaves the group out. */
    int (*keep)(void *arg, ec_scan *s, const ec_block *b, uint32_t *selected, uint32_t *count, ea_err *err);
    int is_of_constants; /* keep reads columns of ec_scan_is_constant alone: it keeps all events of a block, or none */
    void *arg;
} ec_row_filter;

/* A column that all events of a block have alike: it needs no event. */
int ec_scan_is_constant(const ec_table_schema *shape, size_t column);

/* Begins a scan. archive, shape: borrowed until close; annotator: copied, NULL: no event has a stack, nor names of
 * counters; conditions are copied, their texts are not. A shape without a set gives all events (no keyframes). */
EA_MUST_CHECK int ec_scan_open(ec_scan **ret, ec_archive *archive, const ec_table_schema *shape,
                               const ec_annotator *annotator, const ec_condition *conditions, size_t condition_count,
                               ea_err *err);
/* Sets the filter, before the first block. filter: copied; NULL: none. */
void ec_scan_set_filter(ec_scan *s, const ec_row_filter *filter);
/* The owner can count: where the conditions let all events of a group pass, its block is whole, and no event of it is
 * decoded. Only constant columns have values then (ec_scan_value of row 0). Before the first block. */
void ec_scan_set_counting(ec_scan *s);
/* The least and greatest time of a whole block's events: 1; 0 when they have to be decoded. is_of_batch: of those of
 * all groups of its batch that the conditions let through will do. */
int ec_scan_times(ec_scan *s, int is_of_batch, int64_t *ret_least_utc_ns, int64_t *ret_greatest_utc_ns);
/* No event of the batch at hand is earlier or later: 1; 0 when that is not known. */
int ec_scan_bounds(const ec_scan *s, int64_t *ret_begin_utc_ns, int64_t *ret_end_utc_ns);
/* Decodes the events of a whole block, which is not whole any more: 1; 0 when it is damaged, which is reported to the
 * archive: it is to be left out. */
EA_MUST_CHECK int ec_scan_decode(ec_scan *s, ea_err *err);
/* The next block with at least one event: 1 and *ret (borrowed until the next call), 0 at the end. Batches that cannot
 * be read are skipped and reported to the archive (ec_archive_damaged). */
EA_MUST_CHECK int ec_scan_next(ec_scan *s, const ec_block **ret, ea_err *err);
/* Columns of the block at hand are from now on those of another shape, whose set has the block's class: for a scan of
 * all events, each of which is shown as its class's table shows it. Until the next block; borrowed until then. */
EA_MUST_CHECK int ec_scan_show(ec_scan *s, const ec_table_schema *shape, ea_err *err);
void ec_scan_close(ec_scan *s); /* NULL is allowed */

/* The value of a column of the block at hand, for its event rows[row]. Texts and blobs are borrowed until the next
 * call. An event that lacks the field has NULL. EA_ENOMEM; damage is reported to the archive and gives NULL. */
EA_MUST_CHECK int ec_scan_value(ec_scan *s, size_t column, uint32_t row, ec_value *ret, ea_err *err);
/* A field's column of the block at hand, as the batch has it: 1; 0 when the class lacks the field. *ret_field may be
 * NULL. */
EA_MUST_CHECK int ec_scan_column(ec_scan *s, size_t column, ea_column *ret, const ea_field **ret_field, ea_err *err);
/* The distinct values of a field's column and which one each row has, where the batch has it so: 1; else 0. */
EA_MUST_CHECK int ec_scan_dictionary(ec_scan *s, size_t column, ea_column *ret_values, const uint32_t **ret_index,
                                     ea_err *err);
/* A row of a field's column, or of its dictionary, as a value: what ec_scan_value says of the event. */
EA_MUST_CHECK int ec_scan_row_value(ec_scan *s, size_t column, const ea_column *data, uint32_t row, ec_value *ret,
                                    ea_err *err);
/* UTC of an event: index into the block's events. */
int64_t ec_scan_utc_ns(const ec_scan *s, uint32_t event);

#endif
