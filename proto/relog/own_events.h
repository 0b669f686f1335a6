/* Events of one's own for relog --events and --mark, and for emit and mark: each becomes a TraceLogging event, which
 * has its schema with it. A list is JSON lines, of which each is an object with these keys:
 *
 *   time             needed; as its reader takes it; a live event has none
 *   provider         needed; a GUID, or a name, of which it has the GUID that EventSource and TraceLogging make
 *   name             needed; of the event. In its place id, and version when it is not 0: the event is one that a class
 *                    describes (ea_own_events_describe), and fields has all of the class's, by name, in any order
 *   pid, tid, cpu    of its header; absent: none, none, 0; a live event has none
 *   level, opcode, keyword   4 (information), 0 and 0 when absent; of an event with an id those of its class, as far as
 *                    the class has them
 *   fields           an object of texts, whole numbers, fractions, true and false; absent: no fields
 *
 * Input: bytes of a file. Called by: `etwagent relog`, `emit`, `mark`. Thread: its owner's. */
#ifndef EA_RELOG_OWN_EVENTS_H
#define EA_RELOG_OWN_EVENTS_H

#include "proto/event/event.h"

#include <stddef.h>

enum {
    EA_OWN_EVENTS_MAX = 1 << 20,
    EA_OWN_FIELDS_MAX = 128,             /* of an event; decoders refuse more */
    EA_OWN_SCHEMA_MAX_BYTES = 8 << 10,   /* names of an event's fields */
    EA_OWN_PAYLOAD_MAX_BYTES = 32 << 10, /* their values */
};

typedef struct ea_own_event {
    const char *time; /* NULL: it is live */
    size_t line;      /* in the file, from 1; 0: it is a mark */
    ea_record record; /* its caller sets time, pointer size and form of the header */
} ea_own_event;

typedef struct ea_own_events ea_own_events;

/* is_live: the events are written to ETW now, so that time, process, thread and processor are this program's. */
EA_MUST_CHECK int ea_own_events_create(ea_own_events **ret, int is_live, ea_err *err);
void ea_own_events_destroy(ea_own_events *l); /* NULL is allowed */

/* What describes events with an id; borrowed as long as the list is there. */
void ea_own_events_describe(ea_own_events *l, ea_registry *registry);
/* Removes all events. Lines of what is read next are counted on. */
void ea_own_events_clear(ea_own_events *l);

/* name: of the file, for messages. A later call reads the file's next lines. EA_EINVAL with the line and what is wrong
 * there; EA_ELIMIT. */
EA_MUST_CHECK int ea_own_events_read(ea_own_events *l, const char *name, const char *text, size_t len_bytes,
                                     ea_err *err);
/* The event Mark of the provider Etwagent-Marks, with the field Text. time: NULL of a live one. */
EA_MUST_CHECK int ea_own_events_mark(ea_own_events *l, const char *time, const char *text, ea_err *err);

/* In the order in which they were added; borrowed. */
const ea_own_event *ea_own_events_items(const ea_own_events *l, size_t *ret_count);

#endif
