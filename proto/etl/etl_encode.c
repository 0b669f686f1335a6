/* Record headers, written: the inverse of etl_record.c. Input: records of a model or of another trace. Used by:
 * etl_writer.c. Thread: any (pure functions). Source: as etl_record.c says. */
#include "proto/etl/etl_writer.h"
#include "proto/etl/layout.h"

#include <string.h>

enum {
    MARKER_EVENT = 0xc0,
    MARKER_MESSAGE = 0x90,

    PERFINFO_PEBS = 0x8000,
    PERFINFO_PMC_SHIFT = 8,
    PERFINFO_PMC_MAX = 7,

    MESSAGE_SEQUENCE = 0x01,
    MESSAGE_GUID = 0x02,
    MESSAGE_COMPONENT = 0x04,
    MESSAGE_TIME = 0x08 | 0x10,
    MESSAGE_SYSTEM_INFO = 0x20,

    INSTANCE_ITEM_BYTES = 24,
    ITEM_HEADER_BYTES = 8,
};

/* A place to write to that knows its end. What does not fit is counted all the same, and not written. */
typedef struct sink {
    uint8_t *out;
    size_t room, used;
} sink;

static void etl_encode_put(sink *s, const void *data, size_t len_bytes) {
    if (len_bytes && s->used <= s->room && len_bytes <= s->room - s->used)
        memcpy(s->out + s->used, data, len_bytes);
    s->used += len_bytes;
}

static void put8(sink *s, uint8_t v) {
    etl_encode_put(s, &v, 1);
}

static void etl_encode_put16(sink *s, uint16_t v) {
    etl_encode_put(s, &v, 2);
}

static void etl_encode_put32(sink *s, uint32_t v) {
    etl_encode_put(s, &v, 4);
}

static void put64(sink *s, uint64_t v) {
    etl_encode_put(s, &v, 8);
}

static void etl_encode_put_guid(sink *s, const ea_guid *g) {
    etl_encode_put(s, g->bytes, sizeof g->bytes);
}

/* A kernel header's first 8 bytes; the size comes at the end. */
static void put_kernel_marker(sink *s, const ea_record *r) {
    etl_encode_put16(s, r->header_word);
    put8(s, r->header_type);
    put8(s, MARKER_EVENT);
    etl_encode_put16(s, 0);
    etl_encode_put16(s, r->hook_id);
}

static int no_items(const ea_record *r, ea_err *err) {
    if (r->ext_count == 0)
        return 0;
    return ea_fail(err, EA_EINVAL, "write a record: header type %u holds no extended items, the record has %u",
                   r->header_type, r->ext_count);
}

/* The counts in the version word say which items are between header and payload: the record must have exactly these
 * items. */
static int put_perfinfo(sink *s, const ea_record *r, ea_err *err) {
    put_kernel_marker(s, r);
    put64(s, (uint64_t)r->time_raw);
    unsigned pmc = r->header_word >> PERFINFO_PMC_SHIFT & PERFINFO_PMC_MAX, item = 0;
    unsigned promised = 8 * pmc + (r->header_word & PERFINFO_PEBS ? 8 : 0);
    if (r->ext_count == 0 && promised > r->payload_bytes) { /* a damaged record, kept as it was found */
        etl_encode_put(s, r->payload, r->payload_bytes);
        return 0;
    }
    if (r->header_word & PERFINFO_PEBS) {
        if (item == r->ext_count || r->ext[item].type != EA_EXT_PEBS_INDEX || r->ext[item].size_bytes != 8)
            return ea_fail(err, EA_EINVAL, "write a record: the version word promises a PEBS index of 8 bytes");
        etl_encode_put(s, r->ext[item++].data, 8);
    }
    if (pmc) {
        if (item == r->ext_count || r->ext[item].type != EA_EXT_PMC_COUNTERS || r->ext[item].size_bytes != 8 * pmc)
            return ea_fail(err, EA_EINVAL, "write a record: the version word promises %u performance counters", pmc);
        etl_encode_put(s, r->ext[item++].data, (size_t)8 * pmc);
    }
    if (item != r->ext_count)
        return ea_fail(err, EA_EINVAL, "write a record: %u extended items, the version word promises %u", r->ext_count,
                       item);
    etl_encode_put(s, r->payload, r->payload_bytes);
    return 0;
}

static int put_full(sink *s, const ea_record *r, uint8_t type, ea_err *err) {
    int instance = type == EA_HEADER_INSTANCE32 || type == EA_HEADER_INSTANCE64;
    const ea_ext *parent = instance && r->ext_count == 1 ? &r->ext[0] : NULL;
    if (instance && (!parent || parent->type != EA_EXT_INSTANCE_INFO || parent->size_bytes != INSTANCE_ITEM_BYTES))
        return ea_fail(err, EA_EINVAL, "write a record: an INSTANCE header needs one instance item of %d bytes",
                       INSTANCE_ITEM_BYTES);
    if (!instance && no_items(r, err))
        return EA_EINVAL;
    etl_encode_put16(s, 0);
    put8(s, type);
    put8(s, MARKER_EVENT);
    put8(s, r->opcode);
    put8(s, r->level);
    etl_encode_put16(s, r->header_type == EA_HEADER_NONE ? r->version : r->header_word);
    etl_encode_put32(s, r->tid);
    etl_encode_put32(s, r->pid);
    put64(s, (uint64_t)r->time_raw);
    etl_encode_put_guid(s, &r->provider);
    etl_encode_put32(s, r->kernel_time);
    etl_encode_put32(s, r->user_time);
    if (instance)
        etl_encode_put(s, parent->data, INSTANCE_ITEM_BYTES);
    etl_encode_put(s, r->payload, r->payload_bytes);
    return 0;
}

static int etl_encode_put_event(sink *s, const ea_record *r, uint8_t type, ea_err *err) {
    if (r->ext_count && !(r->flags & EA_FLAG_EXTENDED_INFO))
        return ea_fail(err, EA_EINVAL, "write a record: %u extended items, and the flags say that there are none",
                       r->ext_count);
    etl_encode_put16(s, 0);
    put8(s, type);
    put8(s, MARKER_EVENT);
    etl_encode_put16(s, r->flags);
    etl_encode_put16(s, r->property);
    etl_encode_put32(s, r->tid);
    etl_encode_put32(s, r->pid);
    put64(s, (uint64_t)r->time_raw);
    etl_encode_put_guid(s, &r->provider);
    etl_encode_put16(s, r->id);
    put8(s, r->version);
    put8(s, r->channel);
    put8(s, r->level);
    put8(s, r->opcode);
    etl_encode_put16(s, r->task);
    put64(s, r->keyword);
    etl_encode_put32(s, r->kernel_time);
    etl_encode_put32(s, r->user_time);
    etl_encode_put_guid(s, &r->activity_id);
    for (unsigned i = 0; i < r->ext_count; i++) {
        static const uint8_t zero[8];
        const ea_ext *x = &r->ext[i];
        if (x->size_bytes > EA_ETL_RECORD_MAX_BYTES)
            return ea_fail(err, EA_ELIMIT, "write a record: an extended item of %u bytes", x->size_bytes);
        uint32_t padding = (0 - x->size_bytes) & 7;
        etl_encode_put16(s, (uint16_t)(ITEM_HEADER_BYTES + x->size_bytes + padding));
        etl_encode_put16(s, x->type);
        etl_encode_put16(s, x->linkage);
        etl_encode_put16(s, (uint16_t)x->size_bytes);
        etl_encode_put(s, x->data, x->size_bytes);
        etl_encode_put(s, zero, padding);
    }
    etl_encode_put(s, r->payload, r->payload_bytes);
    return 0;
}

/* The next item of a WPP message, which must be of this type and size. */
static int put_message_item(sink *s, const ea_record *r, unsigned *item, uint16_t type, uint32_t size_bytes,
                            ea_err *err) {
    if (*item >= r->ext_count || r->ext[*item].type != type || r->ext[*item].size_bytes != size_bytes)
        return ea_fail(err, EA_EINVAL, "write a message: its options promise an item of type 0x%x", type);
    etl_encode_put(s, r->ext[(*item)++].data, size_bytes);
    return 0;
}

static int etl_encode_put_message(sink *s, const ea_record *r, ea_err *err) {
    unsigned options = r->header_word, item = 0, count = r->ext_count;
    uint8_t type = EA_HEADER_MESSAGE;
    if (count && r->ext[count - 1].type == EA_EXT_WPP_RESERVED && r->ext[count - 1].size_bytes == 1)
        type = r->ext[--count].data[0];
    etl_encode_put16(s, 0);
    put8(s, type);
    put8(s, MARKER_MESSAGE);
    etl_encode_put16(s, r->id);
    etl_encode_put16(s, r->header_word);
    if ((options & MESSAGE_SEQUENCE) && put_message_item(s, r, &item, EA_EXT_WPP_SEQUENCE, 4, err))
        return EA_EINVAL;
    if (options & MESSAGE_GUID)
        etl_encode_put_guid(s, &r->provider);
    if ((options & MESSAGE_COMPONENT) && put_message_item(s, r, &item, EA_EXT_WPP_COMPONENT, 4, err))
        return EA_EINVAL;
    if (options & MESSAGE_TIME)
        put64(s, (uint64_t)r->time_raw);
    if (options & MESSAGE_SYSTEM_INFO) {
        etl_encode_put32(s, r->tid);
        etl_encode_put32(s, r->pid);
    }
    if (item != count)
        return ea_fail(err, EA_EINVAL, "write a message: %u items, its options promise %u", count, item);
    etl_encode_put(s, r->payload, r->payload_bytes);
    return 0;
}

int ea_etl_encode_record(const ea_record *r, uint8_t *out, size_t out_bytes, size_t *ret_bytes, ea_err *err) {
    sink s = {.out = out, .room = out_bytes};
    size_t size_at = 0;
    int rc = 0;
    switch (r->header_type) {
    case EA_HEADER_SYSTEM32:
    case EA_HEADER_SYSTEM64:
    case EA_HEADER_COMPACT32:
    case EA_HEADER_COMPACT64:
        rc = no_items(r, err);
        put_kernel_marker(&s, r);
        etl_encode_put32(&s, r->tid);
        etl_encode_put32(&s, r->pid);
        put64(&s, (uint64_t)r->time_raw);
        if (r->header_type == EA_HEADER_SYSTEM32 || r->header_type == EA_HEADER_SYSTEM64) {
            etl_encode_put32(&s, r->kernel_time);
            etl_encode_put32(&s, r->user_time);
        }
        etl_encode_put(&s, r->payload, r->payload_bytes);
        size_at = 4;
        break;
    case EA_HEADER_PERFINFO32:
    case EA_HEADER_PERFINFO64:
        rc = put_perfinfo(&s, r, err);
        size_at = 4;
        break;
    case EA_HEADER_FULL32:
    case EA_HEADER_FULL64:
    case EA_HEADER_INSTANCE32:
    case EA_HEADER_INSTANCE64:
        rc = put_full(&s, r, r->header_type, err);
        break;
    case EA_HEADER_EVENT32:
    case EA_HEADER_EVENT64:
        rc = etl_encode_put_event(&s, r, r->header_type, err);
        break;
    case EA_HEADER_MESSAGE:
        rc = etl_encode_put_message(&s, r, err);
        break;
    case EA_HEADER_NONE:
        if (r->flags & EA_FLAG_TRACE_MESSAGE)
            return ea_fail(err, EA_EUNSUPPORTED, "write a message whose options are not known");
        if (r->flags & EA_FLAG_CLASSIC_HEADER)
            rc = put_full(&s, r, r->pointer_size == 4 ? EA_HEADER_FULL32 : EA_HEADER_FULL64, err);
        else
            rc = etl_encode_put_event(&s, r, r->pointer_size == 4 ? EA_HEADER_EVENT32 : EA_HEADER_EVENT64, err);
        break;
    default:
        return ea_fail(err, EA_EINVAL, "write a record: no header type is numbered %u", r->header_type);
    }
    if (rc)
        return rc;
    if (s.used > EA_ETL_RECORD_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "write a record: %zu bytes, at most %d fit", s.used, EA_ETL_RECORD_MAX_BYTES);
    if (s.used > out_bytes)
        return ea_fail(err, EA_ELIMIT, "write a record: %zu bytes, there is room for %zu", s.used, out_bytes);
    ea_store16(out + size_at, (uint16_t)s.used);
    *ret_bytes = s.used;
    return 0;
}
