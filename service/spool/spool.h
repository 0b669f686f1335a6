/* The spool: closed batches on disk between the encoder and the collector's acknowledgement.
 *
 * The spool is a folder with append-only segment files (spool_file.h has their format), a small state file (the
 * acknowledged batch numbers of each stream), the definitions that passed through (descriptions.h), and a lock file:
 * one process at a time can open the spool. Each priority has its own segments. With a key file, batches are encrypted
 * on disk (spool_key.h). A batch leaves the spool only when it is acknowledged, refused permanently, damaged or
 * evicted. A segment without live batches is deleted after the state file has been saved. The spool survives a kill at
 * any byte: a torn tail is truncated and counted in `spool_torn_bytes`.
 *
 * Limits: `limit_bytes` on disk (plus the slack of one segment) and `limit_batches` in memory (about 280 bytes each).
 * What happens at a limit depends on the stream of the new batch:
 *
 * - Live stream: the append never waits. The oldest segment of the lowest priority is evicted, if that priority is not
 *   higher than the new batch's. If there is no such segment, the new batch itself is evicted. The events are counted
 *   in `events_evicted_size`, and tombstones take the numbers of the evicted batches.
 * - Resumable stream (a replay): the append waits for room, and nothing is lost. Its batches have their own segments,
 *   which are never evicted, neither by size nor by age. If the spool also serves live streams (option `live`), a
 *   replay's append has room only while the spool is less than half full. A replay therefore cannot starve live
 *   streams, and no live batch is evicted to make room for a replay.
 *
 * States of a segment ("sealed" is not one of them: in this code a sealed record is an encrypted record):
 *
 *            first record of its class        full, or limit_age_ns / 8 old,
 *            (priority, live or replay)       or its torn tail cannot be cut off
 *     (none) -------------------------> OPEN ---------------------------------> CLOSED <-------- found by an opening
 *                                         |                                       |
 *                                         | evicted; or without a live batch,     | no live batch: all acknowledged,
 *                                         | when it is closed or room is needed   | refused, damaged or evicted
 *                                         +---------------> DEAD <----------------+
 *                                                            |
 *                                                            | the state is saved, then the file is deleted;
 *                                                            v a deletion that failed is tried again
 *                                                        (deleted)
 *
 *     SENDING: OPEN or CLOSED with `taken` > 0. A batch of it is being sent, so it cannot be evicted.
 *     LOCKED:  CLOSED with `is_locked`. Its key is missing, so its batches are not sent; it can be evicted.
 *     A file that is not a readable segment is renamed to NAME.bad by the opening.
 *
 * States of a batch, with the counter of its events in the ledger:
 *
 *     claimed (compressing)
 *       |        |
 *       |        | append
 *       |        v                         take
 *       |     WAITING (spooled) --------------------------> TAKEN (unanswered)
 *       |        |         ^                                  |  |  |
 *       |        |         +---------- EA_SPOOL_AGAIN --------+  |  +-- EA_SPOOL_DONE --> acknowledged
 *       |        | its segment is evicted,                       |
 *       |        | by size or by age                             | EA_SPOOL_REFUSED, EA_SPOOL_DAMAGED
 *       |        v                                               v
 *       |     evicted_size, evicted_age                       evicted_refused, evicted_damage
 *       |
 *       +-- a live stream's batch finds no room --> evicted_size
 *
 *     LOCKED: the opening found a live stream's batch whose key is missing. It is in a queue of its own until an
 *     opening has the key (WAITING) or until its segment is evicted.
 *
 * A live stream's batch that was evicted, refused or damaged gets a tombstone. A replay's batch gets none: the replay
 * makes it again. States of a tombstone:
 *
 *               there is room                    take            acknowledged or refused
 *     (needed) ----------------------> WAITING ---------> TAKEN --------------------------> settled
 *        |                                ^                 |
 *        | the disk is full, or the       |                 | damaged
 *        | spool is above its limits      |                 +-------------> hole
 *        +--------> DEFERRED -------------+
 *                      |     written when there is room: after an append or an eviction, by the maintenance
 *                      |     thread, by an opening; or by the close, even above the limits
 *                      | more than spool_deferred.c's limits, or no memory
 *                      +--------> hole: the next opening writes a tombstone with the cause events_evicted_damage
 *
 *     A WAITING tombstone can be evicted with its segment: the new tombstone then has its rows, too. DEFERRED
 *     tombstones are in memory and in the file "owed".
 *
 * A recorder (option `is_recorder`) is a spool of live streams from which nothing is taken: a ring of segments. Its
 * batches are complete by themselves and count as recorded, not as spooled. A full or too old segment is removed
 * (removed_size, removed_age) without tombstones; a batch that finds no room on the disk is unrecorded. There is no
 * file "classes", and no limit of batches. A later process that opens it continues the ring: what an earlier process
 * recorded stays until the limits remove it (recorder_earlier_removed).
 *
 * Called by: the encoder threads (append), the sender's thread (take, read, settle).
 * Thread: the comment of each function names it. No function holds a lock during input or output that another thread
 * needs for an event. */
#ifndef EA_SPOOL_SPOOL_H
#define EA_SPOOL_SPOOL_H

#include "service/spool/descriptions.h"
#include "service/spool/ledger.h"
#include "service/spool/spool_file.h"
#include "service/spool/spool_owner.h"

typedef struct ea_spool ea_spool;

enum ea_spool_sync {
    EA_SPOOL_SYNC_INTERVAL = 0, /* by the maintenance thread, sync_interval_ns after a batch was appended */
    EA_SPOOL_SYNC_ALWAYS,       /* before append returns */
    EA_SPOOL_SYNC_NEVER,        /* left to the operating system; survives a killed process, not a power failure */
};

typedef struct ea_spool_options {
    uint64_t limit_bytes;   /* 0: 1 GiB */
    uint64_t segment_bytes; /* 0: 8 MiB; at most 64 MiB and a quarter of the limit */
    size_t limit_batches;   /* 0: 131,072 */
    /* A live stream's segment that was begun longer ago than this is evicted by the maintenance thread; 0: no limit. A
     * segment is appended to for an eighth of this time, so that every evicted batch has waited for at least seven
     * eighths of it. The age is measured with the monotonic clock. The time between the newest segment of an earlier
     * process and this opening is measured in UTC and counts as one eighth of the limit at the most, because a step of
     * the wall clock cannot be distinguished from elapsed time. */
    int64_t limit_age_ns;
    int live;        /* live streams may be opened: replays leave half of both limits to them */
    int is_recorder; /* nothing is taken from it, and what is evicted leaves no tombstone: see above */
    enum ea_spool_sync sync;
    int64_t sync_interval_ns; /* 0: one second */
    /* Batches are encrypted with the newest key of this file, which is created when it is missing. NULL: no encryption.
     * A batch whose key is not in the file is locked. A locked batch of a live stream is kept until an opening finds
     * the key, or until it is evicted like any other batch. A locked batch of a replay is made again. */
    const char *key_path;
    /* The case-folded name of the certificate that the batches are made for: see spool_owner.h. NULL: not known yet. */
    const char *owner;
    /* Called with a sentence when batches are locked or a file was renamed to NAME.bad. May be NULL. */
    void (*on_note)(void *arg, const char *text);
    void *arg;
    ea_counters *counters; /* borrowed: spool_torn_bytes, spool_bad_bytes, recorder_files_removed, ... */
} ea_spool_options;

/* Opens or creates the folder and recovers its content. EA_EBUSY when another process has the spool open; EA_ECONFLICT
 * when it has another owner; the errors of ea_spool_keys_read and ea_spool_owner_read. */
EA_MUST_CHECK int ea_spool_open(ea_spool **ret, const char *dir, const ea_spool_options *options, ea_err *err);
/* Saves the state and closes the spool. No other thread may use the spool during this call or after it. */
EA_MUST_CHECK int ea_spool_close(ea_spool *s, ea_err *err);

/* The name of the spool's owner; "" before it has one. Any thread, but not during ea_spool_own. */
const char *ea_spool_owner(const ea_spool *s);
/* Makes the name the spool's permanent owner if it has none; calls on_note when it contains batches. EA_ECONFLICT when
 * it has another owner. The thread that opened the spool, before its batches are sent. */
EA_MUST_CHECK int ea_spool_own(ea_spool *s, const char *name, ea_err *err);

/* ---- the stream's side: the source's thread ---- */

/* Opens a stream in this process. resumable: its batches are made again when its source is read again (a replay).
 * target: a hash of the destination; when a stream is resumed with another target, its earlier acknowledgements are
 * discarded. ledger: of the session whose events these are, borrowed until ea_spool_detach or ea_spool_close; NULL:
 * none. The ledger counts the batches claimed in this process, also under the stream's later names (ea_spool_renew). */
EA_MUST_CHECK int ea_spool_stream(ea_spool *s, const uint8_t *stream, int resumable, uint64_t target, ea_ledger *ledger,
                                  ea_err *err);
/* Moves all batches of a stream to a new stream (open, not resumable), with numbers from 1 in the old order. The
 * reason: the collector has other content under the old numbers, because the machine was reverted to a snapshot or
 * cloned. No record is written again: a batch gets its new name when it is sent, without its ledger, whose numbers
 * belonged to the old stream. The sender's thread, while no batch is taken. Durable when it returns. *ret_count: the
 * number of assigned numbers. EA_EBUSY when a batch of the stream is taken, EA_ENOTFOUND. */
EA_MUST_CHECK int ea_spool_renew(ea_spool *s, const uint8_t *stream, const uint8_t *fresh, uint64_t *ret_count,
                                 ea_err *err);
/* The stream has ended. complete: its source was read to the end; its record is then kept only while the spool has
 * batches of it. */
void ea_spool_stream_end(ea_spool *s, const uint8_t *stream, int complete);

/* Posts nothing to the ledger from now on. Batches that are claimed again in this process count in the ledger that
 * their stream has then. Any thread. */
void ea_spool_detach(ea_spool *s, const ea_ledger *ledger);

/* From now on the state file has the last numbers of this open live stream's ledger, until ea_spool_ledger_end: if the
 * process is killed, the next one makes the closing batch of them (ea_spool_each_cut_off). base: see
 * ea_last_numbers_take; copied. Any thread, which holds no other lock. EA_ENOMEM; the errors of saving the state. */
EA_MUST_CHECK int ea_spool_ledger_begin(ea_spool *s, const uint8_t *stream, uint64_t incarnation, uint32_t priority,
                                        const ea_last_numbers *base, ea_err *err);
/* The stream has its closing batch. */
void ea_spool_ledger_end(ea_spool *s, const uint8_t *stream);

/* A stream that a process left without a closing batch. */
typedef struct ea_spool_cut_off {
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t number;          /* of the closing batch */
    ea_last_numbers numbers;  /* settled: each event is acknowledged, evicted, lost or in the spool */
    int are_families_settled; /* the families' numbers are, too */
} ea_spool_cut_off;

/* The events that a recorder keeps of a cut-off stream with the counter stream_recorded; brings the numbers up to what
 * its batches say. */
typedef int ea_spool_find_recorded(void *arg, const uint8_t *stream, ea_last_numbers *numbers, uint64_t *ret_events,
                                   ea_err *err);

/* Calls fn for each live stream that is not open and has no closing batch. fn appends the batch and calls
 * ea_spool_ledger_end; when it fails, the stream stays for the next call. find: NULL: there is no recorder. After
 * ea_spool_open, before the sender starts; no other thread may use the spool. */
EA_MUST_CHECK int ea_spool_each_cut_off(ea_spool *s, ea_spool_find_recorded *find,
                                        int (*fn)(const ea_spool_cut_off *c, void *arg), void *arg, ea_err *err);

enum ea_spool_claim {
    EA_SPOOL_NEW = 0,          /* encode and append it */
    EA_SPOOL_KEPT = 1,         /* it is in the spool since an earlier run */
    EA_SPOOL_ACKNOWLEDGED = 2, /* an earlier run delivered it */
};

/* A batch was closed: moves its events from pending to batched and to the counter of the batch's state. EA_ECONFLICT
 * when the spool has other content under this number. families: the counts of the events' families, for the ledger; may
 * be NULL. */
EA_MUST_CHECK int ea_spool_claim(ea_spool *s, const uint8_t *stream, uint64_t number, uint32_t event_count,
                                 const ea_family_count *families, size_t family_count, ea_err *err);

/* ---- the encoders' side ---- */

typedef struct ea_spool_batch {
    const uint8_t *stream; /* opened with ea_spool_stream */
    uint64_t number;
    uint32_t priority, event_count;
    const uint8_t *data; /* borrowed during the call */
    size_t len_bytes;
    const ea_family_count *families; /* as claimed */
    size_t family_count;
} ea_spool_batch;

/* Writes a claimed batch; its events move from compressing to spooled, or to evicted_size when a live stream's batch
 * finds no room. A batch of a resumable stream waits for room: EA_ECANCELED after ea_spool_cancel, EA_ELIMIT when the
 * batch is larger than the limit, EA_EFULL when the disk is full and the spool has nothing that could make room. Any
 * thread. */
EA_MUST_CHECK int ea_spool_append(ea_spool *s, const ea_spool_batch *batch, ea_err *err);
/* From now on, appends to this open stream fail with EA_ECANCELED, and its waiting appends return. NULL: those of all
 * streams, and the sender's ea_spool_wait returns. Any thread. */
void ea_spool_cancel(ea_spool *s, const uint8_t *stream);

/* ---- the sender's side: one thread ---- */

/* Blocks until a batch waits to be sent, ea_spool_cancel or ea_spool_wake, at most timeout_ns. Returns the number of
 * waiting batches. */
size_t ea_spool_wait(ea_spool *s, int64_t timeout_ns);
void ea_spool_wake(ea_spool *s); /* any thread */

typedef struct ea_spool_item {
    struct ea_spool_entry *entry; /* the spool's */
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t number;
    uint32_t event_count, len_bytes, priority;
    int is_resumable; /* its stream is */
    int is_tombstone;
} ea_spool_item;

/* Takes batches of one stream (streams take turns), highest priority and oldest first, up to max_bytes (with their
 * frames) and EA_UPLOAD_MAX_EVENTS, at least one batch. Moves their events from spooled to unanswered. Returns the
 * number of taken batches. */
size_t ea_spool_take(ea_spool *s, size_t max_bytes, ea_spool_item *items, size_t capacity);
/* Appends the bytes of a taken batch to out. On EA_ECORRUPT or EA_EIO the caller settles it as EA_SPOOL_DAMAGED. */
EA_MUST_CHECK int ea_spool_read(ea_spool *s, const ea_spool_item *item, ea_text *out, ea_err *err);

enum ea_spool_outcome {
    EA_SPOOL_AGAIN = 0, /* not answered: it waits again, at its old position */
    EA_SPOOL_DONE,      /* acknowledged */
    EA_SPOOL_REFUSED,   /* refused for good */
    EA_SPOOL_DAMAGED,   /* cannot be read back */
};

/* Settles all items of one take, in their order. A tombstone takes the number of a live stream's batch that was refused
 * or damaged. Saves the state, then deletes segments without live batches. */
EA_MUST_CHECK int ea_spool_settle(ea_spool *s, const ea_spool_item *items, const uint8_t *outcomes, size_t count,
                                  ea_err *err);
/* Syncs all appended data to the disk, whatever the options say. Any thread. */
EA_MUST_CHECK int ea_spool_sync(ea_spool *s, ea_err *err);
/* The first error of the maintenance thread (a sync or an eviction by age), from then on; else 0. The sender's thread
 * asks for it periodically. */
EA_MUST_CHECK int ea_spool_error(ea_spool *s, ea_err *err);

ea_descriptions *ea_spool_descriptions(ea_spool *s);
/* Its keys, as they were when it was opened; NULL: it is not encrypted. Any thread. */
const ea_spool_keys *ea_spool_keys_of(const ea_spool *s);
/* Its folder, in which sources have files of their own. Any thread. */
const char *ea_spool_folder(const ea_spool *s);

typedef struct ea_spool_status {
    uint64_t disk_bytes;
    size_t waiting, taken; /* batches */
    size_t locked;         /* batches whose key is missing; they are not sent */
    size_t damaged;        /* batches that were settled as EA_SPOOL_DAMAGED since the spool was opened */
    size_t streams;
    uint64_t events;      /* of waiting and locked batches */
    int64_t first_utc_ns; /* of a recorder: the oldest event that it is known to have; INT64_MAX: none */
    uint64_t limit_bytes;
} ea_spool_status;

void ea_spool_get_status(ea_spool *s, ea_spool_status *ret); /* any thread */

/* ---- looking into a spool that may be in use by another process: no lock, nothing is changed ---- */

typedef struct ea_spool_seen {
    const char *segment;           /* the name of its file */
    const ea_spool_record *record; /* as on disk, but decrypted if that is possible */
    const uint8_t *stream;         /* its current stream; not the record's after ea_spool_renew */
    uint64_t number;
    int acknowledged;
    int opened; /* 1: decrypted or never encrypted; 0: still encrypted, its key is not in keys; EA_ECORRUPT: modified */
} ea_spool_seen;

typedef struct ea_spool_visitor {
    /* each may be NULL; non-zero stops */
    int (*on_bad_state)(const char *why, void *arg);           /* then no batch is known to be acknowledged */
    int (*on_stream)(ea_spool_stream_state *state, void *arg); /* state's memory is the spool's */
    /* why: it cannot be read; NULL: it can. */
    int (*on_segment)(const char *name, uint64_t len_bytes, const ea_spool_scanned *scanned, const char *why,
                      void *arg);
    int (*on_record)(const ea_spool_seen *seen, void *arg);
    /* Of a recorder's file that has a summary, before it is read; the shares' streams are the current ones. 1: its
     * records are wanted; 0: it is not read, and on_segment is not called. NULL: all are read. */
    int (*on_summary)(const char *segment, const ea_spool_summary *summary, void *arg);
    const ea_spool_keys *keys; /* may be NULL */
    void *arg;
} ea_spool_visitor;

EA_MUST_CHECK int ea_spool_visit(const char *dir, const ea_spool_visitor *visitor, ea_err *err);

#endif
