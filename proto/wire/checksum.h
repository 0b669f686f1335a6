/* The parts of a record's checksum, for those who hash many records with the same header constants.
 * Before it: a record. After it: checksum.c, view.c, the encoder. Thread: any. */
#ifndef EA_WIRE_CHECKSUM_H
#define EA_WIRE_CHECKSUM_H

#include "record.h"

/* Hash of what the events of a group have in common; only the header constants of record are read. */
uint64_t ea_checksum_constants(const ea_record *record);
/* Hash of extended items; 0 when there are none. */
uint64_t ea_checksum_items(const ea_ext *ext, unsigned count);
/* What is hashed of an event. */
typedef struct ea_checksum_block {
    uint64_t constants;
    uint64_t own[EA_RECORD_OWN_BYTES / 8]; /* as they stand in a record from time_raw on */
    uint64_t items;
    uint64_t payload, before; /* ea_checksum_event's to fill */
} ea_checksum_block;
/* Chains an event whose block is filled but for its last two members. */
uint64_t ea_checksum_event(uint64_t checksum, ea_checksum_block *block, const uint8_t *payload, size_t payload_bytes);
/* The same of a record whose constants hash is known. */
uint64_t ea_checksum_record(uint64_t checksum, uint64_t constants, const ea_record *record);

#endif
