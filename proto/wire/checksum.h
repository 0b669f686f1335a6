/* The parts of a record's checksum, for those who hash many records with the same header constants. Input: a record.
 * Used by: checksum.c, view.c, view_records.c, the encoder. Thread: any. */
#ifndef EA_WIRE_CHECKSUM_H
#define EA_WIRE_CHECKSUM_H

#include "proto/base/record.h"

/* Hash of what the events of a group have in common; only the header constants of record are read. */
uint64_t ea_checksum_constants(const ea_record *record);
/* Hash of extended items; 0 when there are none. */
uint64_t ea_checksum_items(const ea_ext *ext, unsigned count);

/* What an event's hash begins with, but for its payload. number: of the event in its batch. */
static inline uint64_t ea_checksum_seed(uint64_t constants, uint64_t items, uint64_t number) {
    return constants + items * 0x9E3779B185EBCA87u + number * 0x165667B19E3779F9u;
}

/* The part of the checksum that an event adds. own: EA_RECORD_OWN_BYTES as they are in a record from time_raw on. */
uint64_t ea_checksum_event(const void *own, uint64_t seed, const uint8_t *payload, size_t payload_bytes);
/* The same of a record whose constants hash is known. */
uint64_t ea_checksum_record(uint64_t number, uint64_t constants, const ea_record *record);

#endif
