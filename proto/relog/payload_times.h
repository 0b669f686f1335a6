/* Times in payloads, when a record gets the ticks of another clock: fields of EA_SEM_QPC, spans of such ticks, and the
 * time of the event that a stack's record names. Input: a record and its class. Called by: `etwagent relog`,
 * collector/pull. Thread: any. */
#ifndef EA_RELOG_PAYLOAD_TIMES_H
#define EA_RELOG_PAYLOAD_TIMES_H

#include "proto/base/clock.h"
#include "proto/event/event.h"

/* Writes the record's payload, with its times converted, to out, which has room for UINT16_MAX bytes. Fields after one
 * of variable length are not converted. */
void ea_payload_times_convert(const ea_clock *from, const ea_clock *to, const ea_record *r, const ea_class *c,
                              uint8_t *out);

#endif
