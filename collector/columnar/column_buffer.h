/* A column of a file while its rows are collected: values in memory, in the form from which Parquet and Arrow files are
 * written. Called by: collector/query/files, which fills them; parquet.c and arrow.c, which write them. Thread: its
 * owner's.
 *
 * Values that are all equal take no memory for each row. Texts are kept once each (as a dictionary) until there are too
 * many different ones. */
#ifndef EC_COLUMNAR_COLUMN_BUFFER_H
#define EC_COLUMNAR_COLUMN_BUFFER_H

#include "proto/base/arena.h"
#include "proto/base/err.h"
#include "proto/base/map.h"
#include "proto/base/text.h"

#include <stddef.h>
#include <stdint.h>

enum ec_column_kind {
    EC_COLUMN_SIGNED,   /* a whole number of `bits` bits: 8, 16, 32, 64 */
    EC_COLUMN_UNSIGNED, /* the same without a sign */
    EC_COLUMN_REAL,     /* IEEE 754, 64 bits */
    EC_COLUMN_TIME,     /* ns since 1970, UTC, signed, 64 bits */
    EC_COLUMN_TEXT,     /* UTF-8 */
    EC_COLUMN_BYTES,
};

typedef struct ec_file_column {
    const char *name; /* borrowed */
    enum ec_column_kind kind;
    uint8_t bits;        /* of whole numbers */
    uint8_t is_optional; /* rows may have no value */
} ec_file_column;

/* Bytes of a number in a file: 4 or 8; 0: texts and bytes. */
unsigned ec_file_column_bytes(const ec_file_column *c);

enum {
    EC_COLUMN_ROWS_MAX = 1 << 24,        /* of a buffer */
    EC_COLUMN_TEXTS_MAX = 1 << 15,       /* of a dictionary */
    EC_COLUMN_TEXTS_BYTES_MAX = 1 << 20, /* of all of its texts */
    EC_COLUMN_BYTES_MAX = 0x70000000,    /* of all values of a buffer */
};

typedef struct ec_column_buffer {
    const ec_file_column *column;
    uint32_t rows, nulls;
    uint8_t *present; /* for each row 0 or 1; NULL: all are, or (with nulls == rows) none is */
    size_t present_capacity;
    uint32_t values; /* rows with a value */
    /* numbers: the values, as 64 bits (of a real: its bits). texts: the places of the values among the texts. NULL
     * while all are equal to first */
    uint64_t *numbers;
    size_t number_capacity;
    uint64_t first;
    /* texts: distinct ones while is_dictionary, else one for each value in order */
    int is_dictionary;
    ea_text bytes;
    uint32_t *starts; /* text_count + 1 of them, once there is a text */
    size_t start_capacity;
    uint32_t text_count;
    uint32_t *slots; /* hash -> text + 1 */
    uint32_t slot_mask;
} ec_column_buffer;

/* column: borrowed until deinit. */
void ec_column_buffer_init(ec_column_buffer *b, const ec_file_column *column);
void ec_column_buffer_deinit(ec_column_buffer *b);
void ec_column_buffer_clear(ec_column_buffer *b); /* gives its memory back, too */
size_t ec_column_buffer_memory(const ec_column_buffer *b);

/* Each adds `count` rows. EA_ENOMEM; EA_ELIMIT: more than a buffer may have. After an error the buffer is to be
 * cleared. A column that is not optional gets no NULL (EA_EINVAL). */
EA_MUST_CHECK int ec_column_add_null(ec_column_buffer *b, uint32_t count);
EA_MUST_CHECK int ec_column_add_number(ec_column_buffer *b, uint64_t value, uint32_t count);
/* A text (bytes that are no UTF-8 become U+FFFD or question marks) or bytes as they are. */
EA_MUST_CHECK int ec_column_add_text(ec_column_buffer *b, const char *data, size_t len_bytes, uint32_t count);
/* Makes room for count more numbers, and returns where they are to be written; the rows are added. NULL: EA_ENOMEM or
 * EA_ELIMIT. */
uint64_t *ec_column_append(ec_column_buffer *b, uint32_t count);
/* A text for ec_column_add_known: its place in the dictionary, or -1 when the buffer has no dictionary any more;
 * EA_ENOMEM and EA_ELIMIT as *ret_rc. */
int64_t ec_column_learn(ec_column_buffer *b, const char *data, size_t len_bytes, int *ret_rc);
/* Rows with texts of the dictionary, by their places. Only while b->is_dictionary. */
EA_MUST_CHECK int ec_column_add_known(ec_column_buffer *b, uint32_t place, uint32_t count);

static inline uint64_t ec_column_number(const ec_column_buffer *b, uint32_t value) {
    return b->numbers ? b->numbers[value] : b->first;
}

static inline const char *ec_column_text(const ec_column_buffer *b, uint32_t text, uint32_t *ret_len_bytes) {
    *ret_len_bytes = b->starts[text + 1] - b->starts[text];
    return b->bytes.data ? b->bytes.data + b->starts[text] : "";
}

static inline int ec_column_is_present(const ec_column_buffer *b, uint32_t row) {
    return b->present ? b->present[row] : b->nulls == 0;
}

/* Of whole numbers and times: -1, 0, 1, as the column orders its values. */
static inline int ec_column_compare(const ec_file_column *c, uint64_t x, uint64_t y) {
    if (c->kind == EC_COLUMN_UNSIGNED)
        return (x > y) - (x < y);
    return ((int64_t)x > (int64_t)y) - ((int64_t)x < (int64_t)y);
}

#endif
