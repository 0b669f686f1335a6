/* An event of an event log as a record. See evtx_record.h. */
#include "proto/etl/evtx_record.h"

#include <stdlib.h>
#include <string.h>

enum {
    NAME_MAX_BYTES = 512,
    ITEMS_MAX_BYTES = 256, /* headers and padding of the items, and those of a fixed size */
    IN_COUNTED_STRING = 22,
    IN_ARRAY = 0x40,
};

/* What of a text fits into room, whole characters of UTF-8. */
static uint32_t evtx_record_fit(const char *s, size_t room) {
    return (uint32_t)ea_utf8_fit(s, strlen(s), room);
}

static uint32_t room_left(const ea_evtx_record *b) {
    return EA_ETL_RECORD_MAX_BYTES - 80 - ITEMS_MAX_BYTES - b->traits_bytes - b->metadata_bytes - b->payload_bytes;
}

/* Room for a field's name and type, and for payload bytes: 1, or 0 and b->is_cut. */
static int evtx_record_add_name(ea_evtx_record *b, const char *name, unsigned in, uint32_t payload_bytes) {
    uint32_t len = evtx_record_fit(name, NAME_MAX_BYTES), need = len + 2;
    if (need > EA_EVTX_METADATA_MAX_BYTES - b->metadata_bytes || need + (uint64_t)payload_bytes > room_left(b)) {
        b->is_cut = 1;
        return 0;
    }
    memcpy(b->metadata + b->metadata_bytes, name, len);
    b->metadata[b->metadata_bytes + len] = 0;
    b->metadata[b->metadata_bytes + len + 1] = (uint8_t)in;
    b->metadata_bytes += need;
    return 1;
}

static void evtx_record_add_payload(ea_evtx_record *b, const void *data, uint32_t len_bytes) {
    if (len_bytes)
        memcpy(b->payload + b->payload_bytes, data, len_bytes);
    b->payload_bytes += len_bytes;
}

/* A number of this many bytes, zero-extended or cut to them. */
static void evtx_record_add_number(ea_evtx_record *b, const char *name, unsigned in, uint64_t v, uint32_t len_bytes) {
    if (evtx_record_add_name(b, name, in, len_bytes))
        evtx_record_add_payload(b, &v, len_bytes); /* little-endian */
}

/* A string or bytes, after their u16 length. What is too long is cut. */
static void evtx_record_add_counted(ea_evtx_record *b, const char *name, unsigned in, const uint8_t *data,
                                    uint32_t len_bytes) {
    uint32_t room = room_left(b), taken = evtx_record_fit(name, NAME_MAX_BYTES) + 4, len = len_bytes;
    uint8_t count[2];
    if (taken > room || len > room - taken) {
        len = taken > room ? 0 : (room - taken) & ~1u;
        b->is_cut = 1;
    }
    if (!evtx_record_add_name(b, name, in, 2 + len))
        return;
    ea_store16(count, (uint16_t)len);
    evtx_record_add_payload(b, count, sizeof count);
    evtx_record_add_payload(b, data, len);
}

static uint32_t utf16_bytes(const uint8_t *data, uint32_t len_bytes) {
    uint32_t n = 0;
    while (n + 2 <= len_bytes && ea_load16(data + n))
        n += 2;
    return n;
}

static void evtx_record_add_text(ea_evtx_record *b, const char *name, const char *utf8) {
    uint8_t utf16[2 * NAME_MAX_BYTES];
    size_t need = ea_utf8_to_utf16(utf8, evtx_record_fit(utf8, NAME_MAX_BYTES), utf16, sizeof utf16);
    evtx_record_add_counted(b, name, IN_COUNTED_STRING, utf16, (uint32_t)(need < sizeof utf16 ? need : sizeof utf16));
}

/* Numbers of one width after their u16 count. */
static void add_array(ea_evtx_record *b, const ea_evtx_field *f, unsigned in, uint32_t width) {
    uint32_t count = f->len_bytes / width, room = room_left(b), taken = evtx_record_fit(f->name, NAME_MAX_BYTES) + 4;
    uint8_t number[2];
    if (taken > room || count > (room - taken) / width) {
        count = taken > room ? 0 : (room - taken) / width;
        b->is_cut = 1;
    }
    if (!evtx_record_add_name(b, f->name, in | IN_ARRAY, 2 + count * width))
        return;
    ea_store16(number, (uint16_t)count);
    evtx_record_add_payload(b, number, sizeof number);
    evtx_record_add_payload(b, f->data, count * width);
}

/* Every value that is not of its type's width, and every other array, is text as the XML has it. */
static int add_as_text(ea_evtx_record *b, const ea_evtx_field *f) {
    ea_text text;
    uint8_t *utf16 = NULL;
    ea_text_init(&text);
    ea_evtx_put_value(&text, f->type, f->data, f->len_bytes);
    size_t need = text.failed ? 0 : ea_utf8_to_utf16(text.data, text.len_bytes, NULL, 0);
    int rc = text.failed || !(utf16 = malloc(need + 1)) ? EA_ENOMEM : 0;
    if (!rc) {
        ea_utf8_to_utf16(text.data, text.len_bytes, utf16, need);
        evtx_record_add_counted(b, f->name, IN_COUNTED_STRING, utf16, (uint32_t)need);
    }
    free(utf16);
    ea_text_deinit(&text);
    return rc;
}

static int add_evtx_field(ea_evtx_record *b, const ea_evtx_field *f) {
    unsigned of = f->type & (EA_EVTX_ARRAY - 1u);
    uint32_t width = ea_evtx_type_bytes((uint8_t)of);
    if (f->type == EA_EVTX_STRING)
        evtx_record_add_counted(b, f->name, IN_COUNTED_STRING, f->data, utf16_bytes(f->data, f->len_bytes));
    else if (f->type == EA_EVTX_BINARY)
        evtx_record_add_counted(b, f->name, of, f->data, f->len_bytes);
    else if (f->type == EA_EVTX_SIZE && (f->len_bytes == 4 || f->len_bytes == 8))
        evtx_record_add_number(b, f->name, EA_EVTX_HEX64, ea_load_uint(f->data, f->len_bytes), 8);
    else if (f->type == EA_EVTX_SID && f->len_bytes >= 8 && f->len_bytes == 8 + 4u * f->data[1]) {
        if (evtx_record_add_name(b, f->name, of, f->len_bytes))
            evtx_record_add_payload(b, f->data, f->len_bytes);
    } else if (width && f->type == of && f->len_bytes == width) {
        if (evtx_record_add_name(b, f->name, of, width))
            evtx_record_add_payload(b, f->data, width);
    } else if (width && f->type != of && f->len_bytes % width == 0)
        add_array(b, f, of, width);
    else
        return add_as_text(b, f);
    return 0;
}

/* The event's name is its channel and number, as in Security/4688. */
static int describe_event(ea_evtx_record *b, const ea_evtx_event *e) {
    uint32_t len = evtx_record_fit(e->channel, NAME_MAX_BYTES),
             name_len = evtx_record_fit(e->provider_name, EA_EVTX_TRAITS_MAX_BYTES - 3);
    uint8_t *m = b->metadata;
    int rc = 0;
    b->is_cut = e->left_out != 0;
    b->payload_bytes = 0;
    m[2] = 0; /* no tag */
    memcpy(m + 3, e->channel, len);
    len += 3;
    m[len++] = '/';
    char digits[8];
    size_t n = 0;
    for (unsigned id = e->event_id; n == 0 || id; id /= 10)
        digits[n++] = (char)('0' + id % 10);
    while (n)
        m[len++] = (uint8_t)digits[--n];
    m[len++] = 0;
    b->metadata_bytes = len;
    b->traits_bytes = 3 + name_len;
    ea_store16(b->traits, (uint16_t)b->traits_bytes);
    memcpy(b->traits + 2, e->provider_name, name_len);
    b->traits[2 + name_len] = 0;

    evtx_record_add_number(b, "EventRecordID", EA_EVTX_U64, e->record_id, 8);
    evtx_record_add_text(b, "Channel", e->channel);
    evtx_record_add_text(b, "Provider_Name", e->provider_name);
    evtx_record_add_number(b, "EventID", EA_EVTX_U16, e->event_id, 2);
    evtx_record_add_text(b, "Computer", e->computer);
    if (e->qualifiers)
        evtx_record_add_number(b, "Qualifiers", EA_EVTX_U16, e->qualifiers, 2);
    for (size_t i = 0; i < e->field_count && !rc; i++)
        rc = add_evtx_field(b, &e->fields[i]);
    ea_store16(m, (uint16_t)b->metadata_bytes);
    return rc;
}

int ea_evtx_record_fill(ea_evtx_record *b, const ea_evtx_event *e, int64_t filetime) {
    int rc = describe_event(b, e);
    ea_record *r = &b->record;
    *r = (ea_record){.provider = e->provider,
                     .keyword = e->keyword,
                     .id = e->event_id,
                     .task = e->task,
                     .version = e->version,
                     .level = e->level,
                     .opcode = e->opcode,
                     .flags = EA_FLAG_64_BIT_HEADER | EA_FLAG_EXTENDED_INFO,
                     .pointer_size = 8,
                     .header_type = EA_HEADER_EVENT64,
                     .time_raw = filetime,
                     .pid = e->pid,
                     .tid = e->tid,
                     .activity_id = e->activity_id,
                     .payload_bytes = (uint16_t)b->payload_bytes,
                     .payload = b->payload,
                     .ext = b->ext};
    if (!ea_guid_is_zero(&e->related_activity_id))
        b->ext[r->ext_count++] = (ea_ext){EA_EXT_RELATED_ACTIVITY_ID, 1, 16, e->related_activity_id.bytes};
    if (e->user && e->user_bytes <= EA_SID_MAX_BYTES)
        b->ext[r->ext_count++] = (ea_ext){EA_EXT_SID, 1, e->user_bytes, e->user};
    b->ext[r->ext_count++] = (ea_ext){EA_EXT_SCHEMA_TL, 1, b->metadata_bytes, b->metadata};
    b->ext[r->ext_count++] = (ea_ext){EA_EXT_PROV_TRAITS, 0, b->traits_bytes, b->traits};
    return rc;
}
