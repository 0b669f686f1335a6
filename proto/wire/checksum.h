/* The parts of a record's checksum, for those who hash many records with the same header constants.
 * Before it: a record. After it: checksum.c, view.c, the encoder. Thread: any. */
#ifndef EA_WIRE_CHECKSUM_H
#define EA_WIRE_CHECKSUM_H

#include "record.h"

/* Hash of what the events of a group have in common; only the header constants of record are read. */
uint64_t ea_checksum_constants(const ea_record *record);
/* Chains a record whose constants hash is known. */
uint64_t ea_checksum_record(uint64_t checksum, uint64_t constants, const ea_record *record);

#endif
