/* The rows of a list in a file: TSV, of which the first line names the columns, or JSON lines, of which each is an
 * object with the columns as keys. Numbers are decimal, or hex after 0x. Input: bytes of a file. Called by:
 * module_list.c, image_list.c. Thread: any. */
#ifndef EA_RELOG_LIST_ROWS_H
#define EA_RELOG_LIST_ROWS_H

#include "proto/base/arena.h"
#include "proto/base/err.h"

#include <stdint.h>

enum { EA_LIST_COLUMNS_MAX = 16, EA_LIST_ALL_COLUMNS_MAX = 256 };

typedef struct ea_list_row {
    const char *file; /* for messages */
    size_t line;      /* from 1 */
    const char *const *columns;
    const char *values[EA_LIST_COLUMNS_MAX]; /* by column, in the arena; NULL: absent, empty or null */
} ea_list_row;

typedef struct ea_list_options {
    const char *file; /* for messages */
    const char *const *columns;
    size_t column_count;
    int passes_others; /* columns of other names are passed over; 0: they are mistakes */
    ea_arena *arena;   /* what values are in */
    int (*row)(void *arg, const ea_list_row *row, ea_err *err);
    void *arg;
} ea_list_options;

/* EA_EINVAL with the line and what is wrong there; what row returns. */
EA_MUST_CHECK int ea_list_read(const ea_list_options *o, const char *text, size_t len_bytes, ea_err *err);

/* "FILE, line N: WHAT OF". of: NULL: nothing. */
int ea_list_wrong(const ea_list_row *row, const char *what, const char *of, ea_err *err);
/* A number of a row; *ret stays where it is absent and not needed. */
EA_MUST_CHECK int ea_list_number(const ea_list_row *row, size_t column, uint64_t most, int is_needed, uint64_t *ret,
                                 ea_err *err);

#endif
