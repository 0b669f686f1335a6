/* See thrift.h. */
#include "collector/columnar/thrift.h"

#include <string.h>

enum { SHORT_LIST_MAX = 14, LONG_LIST = 15, SHORT_DELTA_MAX = 15 };

static uint64_t zigzag(int64_t v) {
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

void ec_thrift_begin(ec_thrift *t, ea_text *out) {
    *t = (ec_thrift){.out = out, .depth = 1};
}

void ec_thrift_end(ec_thrift *t) {
    ea_text_char(t->out, 0);
    t->depth--;
}

static void open_struct(ec_thrift *t) {
    if (t->depth == EC_THRIFT_DEPTH) { /* no metadata of a file is so deep */
        t->out->failed = 1;
        t->depth--;
    }
    t->last[t->depth++] = 0;
}

static void add_field(ec_thrift *t, int16_t field, enum ec_thrift_type type) {
    int16_t *last = &t->last[t->depth - 1];
    int delta = field - *last;
    if (delta > 0 && delta <= SHORT_DELTA_MAX) {
        ea_text_char(t->out, (char)(delta << 4 | (int)type));
    } else {
        ea_text_char(t->out, (char)type);
        ea_text_varint(t->out, zigzag(field));
    }
    *last = field;
}

void ec_thrift_i8(ec_thrift *t, int16_t field, int8_t v) {
    add_field(t, field, EC_THRIFT_I8);
    ea_text_char(t->out, (char)v);
}

void ec_thrift_i16(ec_thrift *t, int16_t field, int16_t v) {
    add_field(t, field, EC_THRIFT_I16);
    ea_text_varint(t->out, zigzag(v));
}

void ec_thrift_i32(ec_thrift *t, int16_t field, int32_t v) {
    add_field(t, field, EC_THRIFT_I32);
    ea_text_varint(t->out, zigzag(v));
}

void ec_thrift_i64(ec_thrift *t, int16_t field, int64_t v) {
    add_field(t, field, EC_THRIFT_I64);
    ea_text_varint(t->out, zigzag(v));
}

void ec_thrift_bool(ec_thrift *t, int16_t field, int v) {
    add_field(t, field, v ? EC_THRIFT_TRUE : EC_THRIFT_FALSE);
}

void ec_thrift_element_binary(ec_thrift *t, const void *data, size_t len_bytes) {
    ea_text_varint(t->out, len_bytes);
    ea_text_add(t->out, data, len_bytes);
}

void ec_thrift_binary(ec_thrift *t, int16_t field, const void *data, size_t len_bytes) {
    add_field(t, field, EC_THRIFT_BINARY);
    ec_thrift_element_binary(t, data, len_bytes);
}

void ec_thrift_string(ec_thrift *t, int16_t field, const char *s) {
    ec_thrift_binary(t, field, s, strlen(s));
}

void ec_thrift_struct(ec_thrift *t, int16_t field) {
    add_field(t, field, EC_THRIFT_STRUCT);
    open_struct(t);
}

void ec_thrift_list(ec_thrift *t, int16_t field, enum ec_thrift_type type, size_t count) {
    add_field(t, field, EC_THRIFT_LIST);
    if (count <= SHORT_LIST_MAX) {
        ea_text_char(t->out, (char)(count << 4 | (size_t)type));
    } else {
        ea_text_char(t->out, (char)(LONG_LIST << 4 | (int)type));
        ea_text_varint(t->out, count);
    }
}

void ec_thrift_element(ec_thrift *t) {
    open_struct(t);
}

void ec_thrift_element_int(ec_thrift *t, int64_t v) {
    ea_text_varint(t->out, zigzag(v));
}

void ec_thrift_element_bool(ec_thrift *t, int v) {
    ea_text_char(t->out, v ? EC_THRIFT_TRUE : EC_THRIFT_FALSE);
}
