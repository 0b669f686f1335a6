/* Segment files: batches as they arrived, one record after another, append-only.
 * Called by: append.c, which writes; store_read.c and backup.c, which read. Calls: the file system. Thread: its
 * store's.
 *
 * File DIR/segments/%016x.seg, all numbers little-endian:
 *   header, 40 bytes: magic u64, header bytes u32, zero u32, number u64, seed u64, hash u64 of the 32 bytes before it
 *   records, each at a multiple of 8:
 *     magic u32, header bytes u32 (with the agent's name), data bytes u64, received i64 (ns since 1970), hash u64 of
 * the data, agent bytes u32, zero u32, hash u64 of the 40 bytes before it and the agent's name; the agent's name, zeros
 * to a multiple of 8; the data, zeros to a multiple of 8
 * Hashes are ea_hash64. A record header's hash starts from the segment's random seed and the record's offset, so that
 * bytes inside a batch, which an agent chooses, can never pass for a record. An erased record has another magic and
 * keeps both lengths; all else of it is zeros. */
#ifndef EC_STORE_SEGMENT_H
#define EC_STORE_SEGMENT_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EC_SEGMENT_HEADER_BYTES = 40,
    EC_RECORD_HEADER_BYTES = 48,
    EC_AGENT_BYTES = 255, /* longest name of an agent */
};

typedef struct ec_segment {
    struct ea_file *file;
    uint64_t number, seed;
    uint64_t end; /* where the next record goes */
    char path[512];
} ec_segment;

typedef struct ec_record {
    uint64_t offset;      /* of its header */
    uint64_t data_offset; /* of the batch */
    uint64_t data_bytes;
    uint64_t next; /* offset after it */
    int64_t received_utc_ns;
    uint64_t data_hash;
    char agent[EC_AGENT_BYTES + 1]; /* "": the record is erased */
} ec_record;

/* Makes a new segment, durable with its name in the folder before this returns. */
EA_MUST_CHECK int ec_segment_create(ec_segment *s, const char *dir, uint64_t number, ea_err *err);
/* Opens one: writable with the end at the file's end. EA_ENOTFOUND; EA_ETRUNCATED when the file is shorter than its
 * header, EA_ECORRUPT when the header is damaged. */
EA_MUST_CHECK int ec_segment_open(ec_segment *s, const char *dir, uint64_t number, int writable, ea_err *err);
void ec_segment_close(ec_segment *s); /* harmless on a zeroed one */

/* Writes a record at the end; durable only after ec_segment_sync. On failure the end stays where it was. */
EA_MUST_CHECK int ec_segment_append(ec_segment *s, const char *agent, const uint8_t *data, size_t data_bytes,
                                    int64_t received_utc_ns, ec_record *ret, ea_err *err);
EA_MUST_CHECK int ec_segment_sync(ec_segment *s, ea_err *err);
/* Cuts the file at offset, durably; the next record goes there. */
EA_MUST_CHECK int ec_segment_cut(ec_segment *s, uint64_t offset, ea_err *err);

/* The header of the record at offset: 1; 0 when offset is the file's end; EA_ETRUNCATED or EA_ECORRUPT. */
EA_MUST_CHECK int ec_segment_header(ec_segment *s, uint64_t offset, ec_record *ret, ea_err *err);
/* Erases the record at offset: its data, the agent's name, its time. Harmless when it is erased. The segment must be
 * writable and a file of its own (ec_segment_own); durable after ec_segment_sync. */
EA_MUST_CHECK int ec_segment_erase(ec_segment *s, uint64_t offset, ea_err *err);
/* Whether an erased record still has data: a process that was killed between its header and its data left them. 1, 0,
 * or an error. */
EA_MUST_CHECK int ec_segment_has_rest(ec_segment *s, const ec_record *r, ea_err *err);
/* Opens a segment for erasing. A file that a backup shares (a second link) is replaced by a copy first, durably. */
EA_MUST_CHECK int ec_segment_open_own(ec_segment *s, const char *dir, uint64_t number, ea_err *err);

/* The record at offset, whole and with right hashes: 1 with *ret and its data (malloc'd into *data, capacity *capacity,
 * both grown as needed); 0 when offset is the file's end; EA_ETRUNCATED or EA_ECORRUPT when there is no sound record.
 */
EA_MUST_CHECK int ec_segment_scan(ec_segment *s, uint64_t offset, ec_record *ret, uint8_t **data, size_t *capacity,
                                  ea_err *err);
/* The next offset above offset that has a sound record: 1, or 0 when there is none. */
EA_MUST_CHECK int ec_segment_resync(ec_segment *s, uint64_t offset, uint64_t *ret_offset, uint8_t **data,
                                    size_t *capacity, ea_err *err);
/* The data of the record at offset, when it has data_bytes and the right hash; EA_ENOTFOUND when it is erased. Needs no
 * sound segment header. */
EA_MUST_CHECK int ec_segment_read(ec_segment *s, uint64_t offset, uint64_t data_bytes, uint8_t **data, size_t *capacity,
                                  ea_err *err);
/* Calls fn for the number of each segment file in the folder, in order. */
EA_MUST_CHECK int ec_segment_each(const char *dir, int (*fn)(uint64_t number, void *arg), void *arg, ea_err *err);

#endif
