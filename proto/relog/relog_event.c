/* Events that a program owns, and the descriptions of TraceLogging events. See relog.h. Called by: programs with a
 * relogger. Thread: any (nothing is shared). Source: TraceLoggingProvider.h, _tlgEventMetadata_t. */
#include "proto/relog/relog.h"

#include "proto/base/bytes.h"
#include "proto/base/err.h"

#include <stdlib.h>
#include <string.h>

enum { TLG_CHAIN = 0x80, TLG_NAME_AT = 3 /* after the size and the tags */ };

ea_relog_event *ea_relog_clone(const ea_relog_event *event) {
    size_t items_at = (sizeof *event + 15) & ~(size_t)15;
    size_t bytes = items_at + event->item_count * sizeof *event->items + event->payload_bytes;
    for (unsigned i = 0; i < event->item_count; i++)
        bytes += event->items[i].size_bytes;
    uint8_t *p = malloc(bytes);
    if (!p)
        return NULL;
    ea_relog_event *copy = (ea_relog_event *)p;
    ea_relog_item *items = (ea_relog_item *)(p + items_at);
    *copy = *event;
    copy->items = items;
    p += items_at + event->item_count * sizeof *items;
    for (unsigned i = 0; i < event->item_count; i++) {
        items[i] = event->items[i];
        items[i].data = p;
        if (items[i].size_bytes)
            memcpy(p, event->items[i].data, items[i].size_bytes);
        p += items[i].size_bytes;
    }
    copy->payload = p;
    if (event->payload_bytes)
        memcpy(p, event->payload, event->payload_bytes);
    return copy;
}

void ea_relog_free(ea_relog_event *event) {
    free(event);
}

/* Appends a name with its NUL, and completes the size in the first two bytes. */
static int put_tlg_name(uint8_t *out, size_t capacity, size_t *used, const char *name, size_t more) {
    size_t n = strlen(name) + 1;
    if (*used + n + more > capacity || *used + n + more > UINT16_MAX)
        return EA_ELIMIT;
    memcpy(out + *used, name, n);
    *used += n;
    ea_store16(out, (uint16_t)(*used + more));
    return 0;
}

int ea_relog_schema_begin(uint8_t *out, size_t capacity, size_t *used, const char *name) {
    if (capacity < TLG_NAME_AT)
        return EA_ELIMIT;
    size_t at = TLG_NAME_AT;
    out[2] = 0; /* no tags */
    int rc = put_tlg_name(out, capacity, &at, name, 0);
    if (!rc)
        *used = at;
    return rc;
}

int ea_relog_schema_field(uint8_t *out, size_t capacity, size_t *used, const char *name, uint8_t in_type,
                          uint8_t out_type) {
    size_t at = *used, more = out_type ? 2 : 1;
    int rc = put_tlg_name(out, capacity, &at, name, more);
    if (rc)
        return rc;
    out[at++] = (uint8_t)(in_type | (out_type ? TLG_CHAIN : 0));
    if (out_type)
        out[at++] = out_type;
    *used = at;
    return 0;
}
