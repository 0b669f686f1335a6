/* What an event's class says, as the records in which merging tools of Windows leave schemas in a trace:
 * TRACE_EVENT_INFO, and EVENT_MAP_INFO for the names of numbers. Called by: `etwagent relog --metadata`. Thread: any
 * (nothing is shared). Sources: tdh.h; KernelTraceControl's class bbccf6c1, opcodes 32 and 33 (see
 * proto/event/schema/intrace.h, which reads them). */
#ifndef EA_RELOG_SCHEMA_RECORDS_H
#define EA_RELOG_SCHEMA_RECORDS_H

#include "proto/event/event.h"

/* Gives write the maps of the class's fields, then its information; at the time and on the processor of r, an event of
 * the class. *ret_written: 0 when these records cannot say what the class says (classic classes, those of plug-ins,
 * arrays to the end of a payload, more than 64 KiB of names), and nothing was written. Errors: EA_ENOMEM, and what
 * write returns. */
EA_MUST_CHECK int ea_schema_records(const ea_class *c, const ea_record *r,
                                    int (*write)(void *arg, const ea_record *record), void *arg, int *ret_written,
                                    ea_err *err);

#endif
