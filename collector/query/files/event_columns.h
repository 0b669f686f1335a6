/* The columns of a class's events as columns of a file, and the events of a block as their values. Input: scan.h. Used
 * by: event_files.c. Thread: its owner's. */
#ifndef EC_QUERY_FILES_EVENT_COLUMNS_H
#define EC_QUERY_FILES_EVENT_COLUMNS_H

#include "collector/columnar/column_buffer.h"
#include "collector/query/scan/scan.h"

typedef struct ec_event_columns {
    ec_table_schema shape;
    ec_file_column *columns; /* of the file */
    size_t *of;              /* which column of the shape each is */
    uint32_t count;
    const char *versions; /* of the class: numbers, with commas between them */
    ea_arena arena;
    uint64_t *memo; /* of one column of a block: what each value of its dictionary is */
    size_t memo_capacity;
} ec_event_columns;

/* Columns of a file that the names of its folders have, in lower case: a field of that name gets another one. */
#define EC_FOLDER_COLUMNS(X) X("day") X("host") X("class")

/* set: borrowed until deinit. names: the columns, in their order, as SQL names them; those that the class lacks are
 * left out. Without names: time, cpu, pid, tid, the class's fields, where the event is, its header, activity ids, stack
 * and counters; the payload where the class does not explain all of it. is_known[i] is set when the class has names[i].
 * EA_ENOMEM. */
EA_MUST_CHECK int ec_event_columns_init(ec_event_columns *c, const ec_class_set *set, const char *const *names,
                                        size_t name_count, uint8_t *is_known, ea_err *err);
void ec_event_columns_deinit(ec_event_columns *c); /* harmless on a zeroed one */

/* Adds events of the block at hand: `count` indexes as ec_block's selected. buffers: one for each column. */
EA_MUST_CHECK int ec_event_columns_add(ec_event_columns *c, ec_scan *s, const ec_block *b, const uint32_t *selected,
                                       uint32_t count, ec_column_buffer *buffers, ea_err *err);

#endif
