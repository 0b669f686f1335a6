/* Packets that Windows captured, out of events of Microsoft-Windows-NDIS-PacketCapture ("netsh trace") and
 * Microsoft-Windows-PktMon ("pktmon"), as a pcapng file. Called by: `etwagent relog`. Input: a trace's records, by
 * time. Output: bytes, by a function. Thread: its owner's.
 *
 * Sources: layouts of the events in the NetMon parsers (microsoft/NetMon_Parsers_for_PacketMon,
 * etl_Microsoft-Windows-PktMon-Events.npl) and in the description of microsoft/etl2pcapng, src/main.c;
 * draft-ietf-opsawg-pcapng, sections 4.1 to 4.3 (section header, interface description, enhanced packet). */
#ifndef EA_RELOG_PACKETS_H
#define EA_RELOG_PACKETS_H

#include "proto/base/err.h"
#include "proto/base/record.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ea_packets ea_packets;

typedef struct ea_packets_options {
    const char *program; /* what writes the file; copied during the call */
    int (*write)(void *arg, const void *data, size_t len_bytes, ea_err *err);
    void *arg;
} ea_packets_options;

typedef struct ea_packets_counts {
    uint64_t packets;    /* that were written */
    uint64_t incomplete; /* whose first or last part is missing, or that came in parts of more than 256 KiB */
    uint64_t unknown;    /* events whose layout, or the layer that their packet begins with, is unknown */
} ea_packets_counts;

/* Writes the beginning of the file. EA_ENOMEM, and what write returns. */
EA_MUST_CHECK int ea_packets_create(ea_packets **ret, const ea_packets_options *options, ea_err *err);
void ea_packets_destroy(ea_packets *p); /* NULL is allowed */

/* Notes the name of a component of PktMon. The caller gives all records before the first to ea_packets_add: names may
 * come last in a trace. EA_ENOMEM. */
EA_MUST_CHECK int ea_packets_learn(ea_packets *p, const ea_record *r, ea_err *err);
/* Writes the packet that the event completes, and its interface before its first packet. Other events do nothing.
 * EA_ENOMEM, and what write returns. */
EA_MUST_CHECK int ea_packets_add(ea_packets *p, const ea_record *r, int64_t utc_ns, ea_err *err);
/* After the last event: writes what is left. */
EA_MUST_CHECK int ea_packets_finish(ea_packets *p, ea_err *err);

const ea_packets_counts *ea_packets_count(const ea_packets *p);

#endif
