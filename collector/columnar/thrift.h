/* Thrift's compact protocol, writing: the form of a Parquet file's metadata. Source: the specification "Thrift compact
 * protocol" of Apache Thrift. Called by: parquet*.c. Thread: its owner's.
 *
 * Fields of a struct are written in the order of their numbers. Errors stick in the text (ea_text.failed). */
#ifndef EC_COLUMNAR_THRIFT_H
#define EC_COLUMNAR_THRIFT_H

#include "proto/base/text.h"

enum ec_thrift_type {
    EC_THRIFT_TRUE = 1,
    EC_THRIFT_FALSE = 2,
    EC_THRIFT_I8 = 3,
    EC_THRIFT_I16 = 4,
    EC_THRIFT_I32 = 5,
    EC_THRIFT_I64 = 6,
    EC_THRIFT_BINARY = 8,
    EC_THRIFT_LIST = 9,
    EC_THRIFT_STRUCT = 12,
};

enum { EC_THRIFT_DEPTH = 12 };

typedef struct ec_thrift {
    ea_text *out;                  /* borrowed */
    int16_t last[EC_THRIFT_DEPTH]; /* the number of the field before, of each open struct */
    unsigned depth;
} ec_thrift;

/* Begins with a struct, the root: it ends with ec_thrift_end. */
void ec_thrift_begin(ec_thrift *t, ea_text *out);
void ec_thrift_end(ec_thrift *t); /* of a struct */

void ec_thrift_i8(ec_thrift *t, int16_t field, int8_t v);
void ec_thrift_i16(ec_thrift *t, int16_t field, int16_t v);
void ec_thrift_i32(ec_thrift *t, int16_t field, int32_t v);
void ec_thrift_i64(ec_thrift *t, int16_t field, int64_t v);
void ec_thrift_bool(ec_thrift *t, int16_t field, int v);
void ec_thrift_binary(ec_thrift *t, int16_t field, const void *data, size_t len_bytes);
void ec_thrift_string(ec_thrift *t, int16_t field, const char *s);
void ec_thrift_struct(ec_thrift *t, int16_t field); /* until ec_thrift_end */

/* A list of count elements, which follow: structs each between ec_thrift_element and ec_thrift_end. */
void ec_thrift_list(ec_thrift *t, int16_t field, enum ec_thrift_type type, size_t count);
void ec_thrift_element(ec_thrift *t);
void ec_thrift_element_int(ec_thrift *t, int64_t v);
void ec_thrift_element_bool(ec_thrift *t, int v);
void ec_thrift_element_binary(ec_thrift *t, const void *data, size_t len_bytes);

#endif
