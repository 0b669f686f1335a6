/* Batches as bytes: writing one from columns of records, reading one back into records or columns.
 * FORMAT.md beside this file is the specification; batch.proto the envelope.
 * Before it: service/batch (writer side), a spool or a socket (reader side). After it: service/ship, collector/store.
 * Thread: one writer or reader belongs to one thread. */
#ifndef EA_WIRE_WIRE_H
#define EA_WIRE_WIRE_H

#include "clock.h"
#include "event.h"

#include <stddef.h>
#include <stdint.h>

enum { EA_STREAM_ID_BYTES = 16, EA_CLASS_HASH_BYTES = 16 };

/* Bounds of one batch; a reader refuses what exceeds them before it allocates. */
enum {
    EA_BATCH_MAX_EVENTS = 1 << 18,
    EA_BATCH_MAX_BYTES = 16 << 20,     /* on the wire */
    EA_BATCH_MAX_RAW_BYTES = 64 << 20, /* all frames and the directory, decompressed */
    EA_BATCH_MAX_GROUPS = 1 << 14,
};

/* What a source's clock, machine and session are: one row of the source table. Strings are borrowed. */
typedef struct ea_wire_source {
    const char *name, *host;
    ea_clock clock;
    int64_t boot_filetime;
    uint32_t pointer_size, cpu_count, os_version, os_build, log_file_mode, logger;
    int32_t bias_minutes;
} ea_wire_source;

/* ---- reading ---- */

typedef struct ea_batch_view ea_batch_view;

typedef struct ea_batch_head {
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t number;
    uint32_t kind, event_count, priority;
    uint64_t checksum;
    int64_t time_min, time_max; /* raw */
} ea_batch_head;

/* Reads the envelope only (no decompression): what ingest and the index need. */
EA_MUST_CHECK int ea_batch_read_head(const uint8_t *batch, size_t len_bytes, ea_batch_head *ret, ea_err *err);

/* Opens a whole batch: checks every size against the bounds, decompresses the directory; columns when they are asked for.
 * batch is borrowed until close. registry: gets the batch's descriptions, and must hold those sent earlier; a class that
 * is nowhere is EA_ENOTFOUND and named in err. */
EA_MUST_CHECK int ea_batch_open(ea_batch_view **ret, const uint8_t *batch, size_t len_bytes, ea_registry *registry, ea_err *err);
void ea_batch_close(ea_batch_view *v);

const ea_batch_head *ea_batch_get_head(const ea_batch_view *v);
size_t ea_batch_source_count(const ea_batch_view *v);
const ea_wire_source *ea_batch_source(const ea_batch_view *v, size_t source);

size_t ea_batch_group_count(const ea_batch_view *v);
const ea_class *ea_batch_group_class(const ea_batch_view *v, size_t group);
uint32_t ea_batch_group_events(const ea_batch_view *v, size_t group);

/* Records in arrival order: 1 and *ret_record (borrowed until the next call) with *ret_class, 0 at the end, negative when
 * the batch is corrupt. */
EA_MUST_CHECK int ea_batch_next(ea_batch_view *v, const ea_record **ret_record, const ea_class **ret_class, ea_err *err);

/* Recomputes the checksum from the records: 0, or EA_ECORRUPT. Leaves the iteration at the start. */
EA_MUST_CHECK int ea_batch_verify(ea_batch_view *v, ea_err *err);

/* Chains one record into a checksum (start with 0). FORMAT.md, "Checksum". */
uint64_t ea_record_checksum(uint64_t checksum, const ea_record *record);

#endif
