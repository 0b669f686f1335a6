/* Modules that programs announce (etwagent_announce.h) as the records with which Windows describes images: WPA and
 * PerfView name samples inside them then. Input: records of Etwagent-Announce. Called by: `etwagent relog`,
 * collector/pull. Calls: module_records.h. Thread: any. */
#ifndef EA_RELOG_ANNOUNCED_RECORDS_H
#define EA_RELOG_ANNOUNCED_RECORDS_H

#include "proto/base/record.h"
#include "proto/base/text.h"
#include "proto/relog/module_records.h"

/* Longer announcements are left as they are: their texts may not fit into image records. */
enum { EA_ANNOUNCED_BYTES_MAX = 40000 };

/* 1: the record announces a load, an unload or an existing module, as etwagent_announce.h writes it. */
int ea_is_announced_module(const ea_record *r);
/* Emits the ids and the Image event of a record for which ea_is_announced_module is 1, with its time, processor, thread
 * and process. version: of the Image event, as ea_module_place has it; pointer_size: 4 or 8. emit takes a record, which
 * is borrowed for the call; what it returns other than 0 ends this call, which returns it. Returns 0 when all is
 * emitted; EA_ENOTFOUND, and nothing is emitted: its payload is cut or too long, or an address has more than
 * pointer_size bytes; EA_ENOMEM. */
EA_MUST_CHECK int ea_announced_records(const ea_record *r, uint8_t version, uint8_t pointer_size,
                                       int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err);

#endif
