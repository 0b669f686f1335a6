/* A batch as the builder fills it and the encoder reads it.
 * Written by: builder.c. Read by: encoder_events.c. Thread: the source's until the batch is taken, then the taker's. */
#ifndef EA_BATCH_OPEN_BATCH_H
#define EA_BATCH_OPEN_BATCH_H

#include "service/batch/builder.h"

#include <stddef.h>

enum {
    EA_NO_CONSTANT = -1,   /* as uint32_t */
    EA_CONTENT_SLACK = 32, /* bytes after the content that may be read */
};

/* An event. It begins with the members that differ between events, in the layout of a record from time_raw on. */
typedef struct ea_event {
    int64_t time;
    uint32_t pid, tid;
    uint32_t kernel_time, user_time;
    ea_guid activity;
    uint16_t cpu, source, ext_count, payload_bytes;
    /* Offsets in the batch's content: of the data of those items that are not constants of the group, each after a u32
     * length; of the payload, which follows them. */
    uint32_t items, payload;
    uint32_t group;    /* index */
    uint32_t position; /* the low half of the record's */
} ea_event;

_Static_assert(sizeof(ea_event) == 64 && offsetof(ea_event, items) == EA_RECORD_OWN_BYTES &&
                   offsetof(ea_event, payload_bytes) - offsetof(ea_event, cpu) == 6 &&
                   offsetof(ea_record, payload_bytes) - offsetof(ea_record, cpu) == 6,
               "copied and hashed as it is");

/* An extended item of all events of a group. */
typedef struct ea_item_shape {
    uint16_t type, linkage;
    uint32_t size_bytes; /* of the constant */
    uint32_t constant;   /* offset of the data in content; EA_NO_CONSTANT: each event has its own */
} ea_item_shape;

/* The header constants of a group's events in the layout of a record; the four bytes that a record does not use have
 * the number of items. */
enum { EA_KEY_WORDS = EA_RECORD_KIND_BYTES / 8 };

typedef struct ea_open_group {
    const ea_class *c;
    uint64_t key[EA_KEY_WORDS];
    uint32_t count;
    uint32_t shapes; /* index of its first item shape */
    uint32_t slot;   /* in the look-up table */
    uint16_t ext_count;
    uint16_t payload_min, payload_max; /* bytes */
    uint32_t times;                    /* kernel and user times of all events, ored */
    uint64_t activities;               /* both halves of all activity ids, ored */
} ea_open_group;

typedef struct ea_sources ea_sources; /* the builder's */

struct ea_open_batch {
    ea_builder *builder;
    uint32_t count;
    ea_event *events;

    uint8_t *content;
    size_t content_bytes, content_capacity;
    uint64_t
        item_bytes; /* of all records' extended items, constants counted for each: at most EA_BATCH_MAX_RAW_BYTES */
    ea_open_group *groups;
    uint32_t group_count, group_capacity;
    uint64_t first_position; /* of the first event's record */
    ea_item_shape *shapes;
    uint32_t shape_count, shape_capacity;
    uint16_t *table;               /* group + 1 by hash; 0: free */
    uint16_t *latest;              /* group + 1 that a class had last, by its number; 0: none */
    const ea_wire_source *sources; /* once it is taken; in held */
    size_t source_count;
    ea_sources *held;
    ea_open_batch *next; /* in the builder's list of free ones */
};

/* Fills the header constants of a record of group g. */
void ea_open_group_header(const ea_open_group *g, ea_record *ret);

#endif
