/* The spool's files on disk: segment files of checksummed records, and the state file.
 *
 * A segment is a head and a sequence of records; integers are little-endian.
 *   head, 40 bytes; 64 in a segment with sealed (encrypted) records
 *      0  "EASPOOL" and the version of the format, '1'
 *      8  u64  sequence of the segment; also its file name, 16 hex digits + ".seg"
 *     16  u32  priority
 *     20  u32  0; 1: records may be sealed, and the next two members exist
 *     24  i64  time of creation, ns since 1970 UTC, by the spool's clock (ea_spool_age_clock)
 *     32  key id, 8 bytes (spool_key.h)
 *     40  salt, 16 random bytes
 *     32 or 56  u64  checksum of all preceding bytes
 *   record
 *      0  u32  magic "EASR"
 *      4  u32  length of the batch
 *      8  u64  checksum of bytes 16 to the batch's end and of the length, seeded with the segment's sequence (so that
 *              a record of another file is invalid)
 *     16  stream, 16 bytes
 *     32  u64  number
 *     40  u32  event count
 *     44  u16  priority
 *     46  u16  flags: 1 the stream is resumable, 2 a tombstone, 4 sealed, 8 a summary
 *     48  the batch; sealed: u64 nonce, the batch encrypted, tag of 16 bytes (the length counts these, too)
 * Checksums are XXH3-64. A record counts only when it is whole; a crash leaves a torn tail at the most.
 * The last record of a recorder's closed segment is a summary, so that the segment is not read to know what it has
 * (spool_summary.c). It is not sealed. In place of a batch it has:
 *      0  i64  UTC in ns of the first event, INT64_MAX: unknown;  8  i64  of the last one, INT64_MIN: unknown
 *     16  u32  1: it has a keyframe;  20  u32  number of shares
 *     24  each share: stream, 16 bytes; u64 batches; u64 events; u32 number of ranges; each range: u64 first, u64 last
 *     then u32 length of the whole record, u32 magic "EASS"
 * A sealed batch is encrypted by AES-256-GCM with the sealing key of label "etwagent spool segment" and the head's
 * bytes 0..55, so that each segment has its own key. The nonce counts the attempts to write into this segment, also
 * those that failed: a process never appends to a segment that another process began. Bytes 16..47 of the record are
 * authenticated with it. Tombstones are not sealed. A reader without the key therefore still knows which batches the
 * segment has, how many events each has, and whether they are whole; it does not know their content.
 *
 * The state file is text, replaced as a whole (write, sync, rename). The line of a stream ends with its acknowledged
 * numbers, 1-5,7-9 or -:
 *   etwagent spool state 1     (the version of the format)
 *   stream <32 hex> <kind: 0 live, 1 replay, 2 complete replay> <target, 16 hex> <highest number> <acknowledged>
 *   moved <32 hex: former stream> <base> <numbers, as above>    (belongs to the stream above it: see ea_spool_moved)
 *   ledger <incarnation> <priority> <family>:<counter>=<value>,... ...    (at most one, after the moved lines: the last
 *              numbers of a live stream without a closing batch; family empty: the session; see last_numbers.h)
 *   end <16 hex: checksum of all lines above>
 *
 * Called by: spool.c, spool_write.c, spool_open.c, spool_recorded.c. Thread: any (functions on the caller's memory). */
#ifndef EA_SPOOL_SPOOL_FILE_H
#define EA_SPOOL_SPOOL_FILE_H

#include "proto/base/err.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "proto/wire/ack.h"
#include "proto/wire/wire.h"
#include "service/spool/last_numbers.h"
#include "service/spool/spool_key.h"

#include <stddef.h>
#include <stdint.h>

enum {
    EA_SPOOL_VERSION = 1, /* of segments and of the state file */
    EA_SPOOL_HEAD_BYTES = 40,
    EA_SPOOL_SEALED_HEAD_BYTES = 64,
    EA_SPOOL_RECORD_BYTES = 48,
    EA_SPOOL_PRIORITIES = 3,
    EA_SPOOL_RESUMABLE = 1, /* flags of a record */
    EA_SPOOL_TOMBSTONE = 2,
    EA_SPOOL_SEALED = 4,
    EA_SPOOL_SUMMARY = 8,
    EA_SPOOL_SEAL_BYTES = 8 + EA_SPOOL_TAG_BYTES, /* what sealing adds to a batch */
    EA_SPOOL_SEGMENT_MAX = 96 << 20,              /* bytes of a segment file that a reader accepts */
    EA_SPOOL_STATE_MAX = 16 << 20,                /* bytes of the state file, likewise */
    EA_SPOOL_STREAMS_MAX = 1024,
    EA_SPOOL_MOVED_MAX = 4096, /* rows of one stream */
};

typedef struct ea_spool_record {
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t number;
    uint32_t event_count;
    uint16_t priority, flags;
    uint64_t offset;      /* of the record in its segment; set by the scan */
    const uint8_t *batch; /* borrowed; as on disk, so possibly encrypted */
    uint32_t len_bytes;   /* of that */
} ea_spool_record;

typedef struct ea_spool_head {
    uint32_t priority;
    int64_t created_utc_ns;
    int is_sealed;
    uint8_t key_id[EA_SPOOL_KEY_ID_BYTES], salt[EA_SPOOL_SALT_BYTES];
} ea_spool_head;

/* Writes a segment's head; returns its bytes, EA_SPOOL_SEALED_HEAD_BYTES at the most. */
size_t ea_spool_put_head(uint8_t *out, uint64_t sequence, const ea_spool_head *head);
/* The bytes of the head when data begins with that of this segment, else 0. ret may be NULL. */
size_t ea_spool_is_head(const uint8_t *data, size_t len_bytes, uint64_t sequence, ea_spool_head *ret);
/* 1 when data is the torn head of a segment whose creation was interrupted. */
int ea_spool_is_torn_head(const uint8_t *data, size_t len_bytes, uint64_t sequence);
/* Derives the sealing key of a segment with that head (is_sealed). EA_ENOTFOUND: keys (may be NULL) lack its key. */
EA_MUST_CHECK int ea_spool_segment_key(const ea_spool_keys *keys, uint64_t sequence, const ea_spool_head *head,
                                       ea_sealing_key *ret, ea_err *err);
/* Seals a record's batch into out, which has room for EA_SPOOL_SEAL_BYTES more, and makes r the sealed record. nonce:
 * see above. */
EA_MUST_CHECK int ea_spool_seal(const ea_sealing_key *key, uint64_t nonce, ea_spool_record *r, uint8_t *out,
                                ea_err *err);
/* The other way: out has room for the batch. EA_ECORRUPT. */
EA_MUST_CHECK int ea_spool_unseal(const ea_sealing_key *key, ea_spool_record *r, uint8_t *out, ea_err *err);

/* Bytes of the batch in a record, sealed or not. */
static inline uint32_t ea_spool_batch_bytes(const ea_spool_record *r) {
    return r->flags & EA_SPOOL_SEALED ? r->len_bytes - EA_SPOOL_SEAL_BYTES : r->len_bytes;
}

/* Writes the 48 bytes that precede a record's batch. */
void ea_spool_put_record(uint8_t *out, const ea_spool_record *r, uint64_t sequence);
/* One record at the start of data: 1 and *ret (borrows data), 0 when there is no whole record. */
int ea_spool_get_record(const uint8_t *data, size_t len_bytes, uint64_t sequence, ea_spool_record *ret);

typedef struct ea_spool_scanned {
    uint64_t records;
    uint64_t whole_bytes; /* the file up to the end of its last whole record */
    uint64_t bad_bytes;   /* unreadable ones before that */
    uint64_t torn_bytes;  /* after that */
} ea_spool_scanned;

/* Walks a segment in memory, without its summary. After damage it searches for the next whole record. fn returns
 * non-zero to stop; the
 * function then returns that value. EA_EFORMAT when the data is not a segment of that sequence, EA_EUNSUPPORTED when it
 * has another version. */
EA_MUST_CHECK int ea_spool_scan(const uint8_t *data, size_t len_bytes, uint64_t sequence,
                                int (*fn)(const ea_spool_record *record, void *arg), void *arg, ea_spool_scanned *ret,
                                ea_err *err);

/* A set of numbers as ranges in order, none of which touch. Zero-initialise; free(ranges). */
typedef struct ea_range_set {
    ea_range *ranges;
    size_t count, capacity;
} ea_range_set;

/* Adds first..last. EA_ENOMEM. */
EA_MUST_CHECK int ea_range_set_add(ea_range_set *s, uint64_t first, uint64_t last);
int ea_range_set_has(const ea_range_set *s, uint64_t number);
/* 1 and how many numbers of the set are smaller, when it has this one. */
int ea_range_set_rank(const ea_range_set *s, uint64_t number, uint64_t *ret);
/* 1-5,7-9 or -, and the end of the line. */
void ea_range_set_put(ea_text *out, const ea_range_set *s);
/* Reads that. 1, and *at is after it; 0: it is wrong, or no memory. */
int ea_range_set_parse(const char **at, ea_range_set *ret);
/* Reads a stream's name in hex, and the space after it; likewise. */
int ea_stream_id_parse(const char **at, uint8_t *ret);

/* What a recorder's segment has of one stream, under the stream's name on disk. */
typedef struct ea_spool_share {
    uint8_t stream[EA_STREAM_ID_BYTES];
    ea_range_set numbers;
    uint64_t batches, events;
} ea_spool_share;

typedef struct ea_spool_summary {
    int64_t first_utc_ns, last_utc_ns; /* of its events; INT64_MAX, INT64_MIN: unknown */
    int has_keyframe;
    ea_spool_share *shares;
    size_t share_count;
} ea_spool_summary;

enum { EA_SPOOL_SUMMARY_MAX = 1 << 20 }; /* bytes of a summary's record */

/* Adds the record of a summary to out. EA_ELIMIT: it would be too large. EA_ENOMEM. */
EA_MUST_CHECK int ea_spool_put_summary(ea_text *out, uint64_t sequence, uint16_t priority, const ea_spool_summary *s);
/* Reads the summary at the end of a segment's file. 1 and *ret, for ea_spool_summary_deinit; 0: it has none that is
 * whole; EA_EIO and others. */
EA_MUST_CHECK int ea_spool_read_summary(ea_file *file, uint64_t sequence, ea_spool_summary *ret, ea_err *err);
void ea_spool_summary_deinit(ea_spool_summary *s);

enum ea_spool_stream_kind {
    EA_SPOOL_LIVE = 0,            /* a lost batch cannot be made again */
    EA_SPOOL_REPLAY = 1,          /* its batches are made again when it is resumed */
    EA_SPOOL_REPLAY_COMPLETE = 2, /* it was read to its end: dropped when it has no batch in the spool */
};

/* Records of another stream that were moved to this one (ea_spool_renew): the i-th of its numbers, from 0, is base + i
 * here. On disk they keep their old name. */
typedef struct ea_spool_moved {
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t base;
    ea_range_set numbers;
} ea_spool_moved;

typedef struct ea_spool_stream_state {
    uint8_t stream[EA_STREAM_ID_BYTES];
    int resumable;             /* enum ea_spool_stream_kind */
    uint64_t target;           /* hash of the destination; see ea_spool_stream */
    uint64_t highest;          /* number seen */
    ea_range_set acknowledged; /* all settled numbers: also evicted ones with a tombstone */
    ea_spool_moved *moved;
    size_t moved_count;
    ea_last_numbers *numbers; /* of its ledger, while it needs a closing batch; else NULL */
} ea_spool_stream_state;

/* Frees the memory that s points to. */
void ea_spool_state_deinit(ea_spool_stream_state *s);
/* 1 and the number in this stream, when that record was moved to it. */
int ea_spool_state_has_moved(const ea_spool_stream_state *s, const uint8_t *stream, uint64_t number, uint64_t *ret);

void ea_spool_state_begin(ea_text *out);
void ea_spool_state_stream(ea_text *out, const ea_spool_stream_state *s);
void ea_spool_state_end(ea_text *out);
/* Parses a NUL-terminated state file in memory. fn takes ownership of the members of s. EA_ECORRUPT when the checksum
 * or a line is wrong, EA_EUNSUPPORTED when it has another version: then fn was not called. */
EA_MUST_CHECK int ea_spool_state_parse(const char *data, size_t len_bytes,
                                       int (*fn)(ea_spool_stream_state *s, void *arg), void *arg, ea_err *err);

#endif
