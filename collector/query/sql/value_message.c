/* See value_message.h. */
#include "collector/query/sql/value_message.h"

#include <string.h>

void ec_message_value(ea_text *t, const ec_value *v) {
    uint64_t bits;
    ec_message_u8(t, (uint8_t)v->type);
    switch (v->type) {
    case EC_NULL:
        break;
    case EC_INT:
        ec_message_u64(t, (uint64_t)v->i);
        break;
    case EC_REAL:
        memcpy(&bits, &v->r, sizeof bits);
        ec_message_u64(t, bits);
        break;
    case EC_TEXT:
    case EC_BLOB:
        ec_message_bytes(t, v->data, v->len_bytes);
    }
}

ec_value ec_message_get_value(ec_message *m) {
    ec_value v = {.type = (enum ec_value_type)ec_message_get(m, 1)};
    uint64_t bits;
    switch (v.type) {
    case EC_NULL:
        break;
    case EC_INT:
        v.i = (int64_t)ec_message_get(m, 8);
        break;
    case EC_REAL:
        bits = ec_message_get(m, 8);
        memcpy(&v.r, &bits, sizeof v.r);
        break;
    case EC_TEXT:
    case EC_BLOB:
        v.data = ec_message_get_bytes(m, &v.len_bytes);
        break;
    default:
        m->failed = 1;
        v = (ec_value){.type = EC_NULL};
    }
    return v;
}
