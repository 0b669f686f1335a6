/* An event of an event log as the record that a session would have written of it. The record describes itself
 * (TraceLogging metadata): its fields are those of the System element that rules ask for, then those of its data. Its
 * name is its channel and number, as in Security/4688.
 * Called by: evtx_buffer.c, service/eventlog. Calls: proto/evtx. Thread: the source's. */
#ifndef EA_ETL_EVTX_RECORD_H
#define EA_ETL_EVTX_RECORD_H

#include "proto/base/record.h"
#include "proto/etl/etl_writer.h"
#include "proto/evtx/evtx.h"

enum { EA_EVTX_METADATA_MAX_BYTES = 16384, EA_EVTX_TRAITS_MAX_BYTES = 1024 };

typedef struct ea_evtx_record {
    ea_record record; /* views the rest, and the event */
    int is_cut;       /* the event is too large: its last fields are cut, or left out */

    /* bytes that describe the fields, and the fields' bytes: both grow together, within a record's size */
    uint8_t metadata[EA_EVTX_METADATA_MAX_BYTES], traits[EA_EVTX_TRAITS_MAX_BYTES], payload[EA_ETL_RECORD_MAX_BYTES];
    uint32_t metadata_bytes, traits_bytes, payload_bytes;
    ea_ext ext[4];
} ea_evtx_record;

/* Makes b->record of an event that was logged at that time. Valid as long as the event is, until the next call.
 * EA_ENOMEM. */
EA_MUST_CHECK int ea_evtx_record_fill(ea_evtx_record *b, const ea_evtx_event *e, int64_t filetime);

#endif
