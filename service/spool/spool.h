/* The spool: closed batches on disk between the encoder and the collector's acknowledgement.
 *
 * A folder with append-only segment files (spool_file.h has their format), a small state file (which numbers of which
 * stream are acknowledged), the class descriptions that passed through (descriptions.h), and a lock: one process at a
 * time. Priorities have segments of their own. With a key file what is written is encrypted (spool_key.h). A batch
 * leaves only when it is acknowledged, refused for good or evicted; a segment without live batches is deleted, after
 * the state file says why. It survives a kill at any byte: a torn tail is cut off and counted.
 *
 * Bounds: limit_bytes on disk (and a segment's slack), limit_batches in memory (some 280 bytes each). What gives way
 * when it is full goes by the stream, not by the spool:
 *   a live one never waits: the oldest segment of the lowest priority gives way, up to the new batch's, or the new
 *   batch when all else matters more. What went is counted, and tombstones stand under its numbers.
 *   One that can be taken up again loses nothing: its appends wait. Its batches have segments of their own, which never
 *   give way, by age neither. Where live streams come, too (see live), it comes in only while the spool is less than
 *   half full, so that it cannot starve them, and so that no live batch ever gives way to it.
 *
 * Before it: the encoder threads (append). After it: the sender's thread (take, read, settle).
 * Thread: each function says which; none holds a lock during input or output that another thread's event needs. */
#ifndef EA_SPOOL_H
#define EA_SPOOL_H

#include "service/spool/descriptions.h"
#include "service/spool/ledger.h"
#include "service/spool/spool_file.h"
#include "service/spool/spool_owner.h"

typedef struct ea_spool ea_spool;

enum ea_spool_sync {
    EA_SPOOL_SYNC_INTERVAL = 0, /* by a thread of the spool, sync_interval_ns after a batch was appended */
    EA_SPOOL_SYNC_ALWAYS,       /* before append returns */
    EA_SPOOL_SYNC_NEVER,        /* when the operating system likes; survives a killed process, not a power cut */
};

typedef struct ea_spool_options {
    uint64_t limit_bytes;   /* 0: 1 GiB */
    uint64_t segment_bytes; /* 0: 8 MiB; at most 64 MiB and a quarter of the limit */
    size_t limit_batches;   /* 0: 131,072 */
    /* Live streams' segments that were begun longer ago give way, by the same thread; 0: none. A segment is appended to
     * for an eighth of it, so that no batch gives way that has not waited for seven eighths. The time since then is the
     * monotonic clock's; from the newest segment of an earlier process to this opening it is UTC's, an eighth of
     * the bound at the most, since nobody knows whether it passed or the clock was set. */
    int64_t limit_age_ns;
    int live; /* live streams may come: others leave half of both bounds to them */
    enum ea_spool_sync sync;
    int64_t sync_interval_ns; /* 0: one second */
    /* What is written is encrypted with the newest key of this file (made when it is missing). NULL: not encrypted.
     * What is here under a key that the file lacks is locked: it stays until the key is back (at an opening), or gives
     * way like all else; of a replay it is made again. */
    const char *key_path;
    /* The name, folded, of the certificate that its batches are made for: see spool_owner.h. NULL: not known yet. */
    const char *owner;
    /* Told in a sentence that batches are locked, or that a file was set aside. May be NULL. */
    void (*on_note)(void *arg, const char *text);
    void *arg;
    ea_counters *counters; /* borrowed: spool_torn_bytes, spool_bad_bytes, batches_closed */
} ea_spool_options;

/* Opens or makes the folder and recovers what is in it. EA_EBUSY when another process has it; EA_ECONFLICT when it is
 * of another owner; the errors of ea_spool_keys_read and ea_spool_owner_read. */
EA_MUST_CHECK int ea_spool_open(ea_spool **ret, const char *dir, const ea_spool_options *options, ea_err *err);
/* Saves the state and lets go. No other thread may be inside. */
EA_MUST_CHECK int ea_spool_close(ea_spool *s, ea_err *err);

/* Whose it is; "" before somebody owns it. Any thread but that of ea_spool_own. */
const char *ea_spool_owner(const ea_spool *s);
/* Makes it that name's for good when it is nobody's yet; on_note is told when batches are in it. EA_ECONFLICT when it
 * is another's. The thread that opened it, before it is sent. */
EA_MUST_CHECK int ea_spool_own(ea_spool *s, const char *name, ea_err *err);

/* ---- the stream's side: the source's thread ---- */

/* Opens a stream in this process. resumable: its batches are made again when its source is read again (a replay).
 * target: a hash of where it goes; when a stream is taken up again with another target, what was acknowledged then does
 * not count now. ledger: of the session whose events these are, borrowed until ea_spool_detach or the spool is closed;
 * NULL: none. It counts what is claimed in this process, under the stream's later names (ea_spool_renew), too. */
EA_MUST_CHECK int ea_spool_stream(ea_spool *s, const uint8_t *stream, int resumable, uint64_t target, ea_ledger *ledger,
                                  ea_err *err);
/* Everything of a stream that is here goes on in a new one (open, not resumable), with numbers from 1 in the old order:
 * the collector has other content under the old numbers, because the machine was reverted to a snapshot or cloned.
 * Nothing is written again: what is sent gets its new name then, without its ledger, whose numbers belonged to the old
 * one. The sender's thread, while nothing is taken. Durable when it returns. *ret_count: the numbers given out.
 * EA_EBUSY when something of it is on its way, EA_ENOTFOUND. */
EA_MUST_CHECK int ea_spool_renew(ea_spool *s, const uint8_t *stream, const uint8_t *fresh, uint64_t *ret_count,
                                 ea_err *err);
/* The stream is at its end. complete: its source was read to the end; a record of it is then kept only while it has
 * batches here. */
void ea_spool_stream_end(ea_spool *s, const uint8_t *stream, int complete);

/* Nothing is posted to the ledger any more; batches that are claimed again in this process count in the ledger that
 * their stream has then. Any thread. */
void ea_spool_detach(ea_spool *s, const ea_ledger *ledger);

enum ea_spool_claim {
    EA_SPOOL_NEW = 0,          /* encode and append it */
    EA_SPOOL_KEPT = 1,         /* it is in the spool since an earlier run */
    EA_SPOOL_ACKNOWLEDGED = 2, /* an earlier run delivered it */
};

/* A batch was closed: moves its events from pending to batched and to what it is now. EA_ECONFLICT when the
 * spool holds another content under this number. families: of which the events are, for the ledger; may be NULL. */
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

/* Writes a claimed batch; its events move from compressing to spooled, or to evicted_size when a live stream's finds no
 * room. One of a stream that can be taken up again waits for room: EA_ECANCELED after ea_spool_cancel, EA_ELIMIT when
 * it never fits, EA_EFULL when the disk is full and nothing here can make room. Any thread. */
EA_MUST_CHECK int ea_spool_append(ea_spool *s, const ea_spool_batch *batch, ea_err *err);
/* Appends to an open stream end with EA_ECANCELED from now on, waits end at once; NULL: to all, and the sender's waits
 * end too. Any thread. */
void ea_spool_cancel(ea_spool *s, const uint8_t *stream);

/* ---- the sender's side: one thread ---- */

/* Waits until a batch waits to be sent, ea_spool_cancel or ea_spool_wake, at most timeout_ns. How many wait. */
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
 * frames) and EA_UPLOAD_MAX_EVENTS, one batch at the least: their events move from spooled to unanswered. Returns how
 * many. */
size_t ea_spool_take(ea_spool *s, size_t max_bytes, ea_spool_item *items, size_t capacity);
/* Appends a taken batch's bytes to out. EA_ECORRUPT, EA_EIO: settle it as EA_SPOOL_DAMAGED. */
EA_MUST_CHECK int ea_spool_read(ea_spool *s, const ea_spool_item *item, ea_text *out, ea_err *err);

enum ea_spool_outcome {
    EA_SPOOL_AGAIN = 0, /* not answered: it waits again, in its old place */
    EA_SPOOL_DONE,      /* acknowledged */
    EA_SPOOL_REFUSED,   /* refused for good */
    EA_SPOOL_DAMAGED,   /* cannot be read back */
};

/* Says what became of all items of one take, in their order. Under the number of a live stream's batch that was refused
 * or damaged a tombstone waits then. Deletes what is done with; saves the state before that. */
EA_MUST_CHECK int ea_spool_settle(ea_spool *s, const ea_spool_item *items, const uint8_t *outcomes, size_t count,
                                  ea_err *err);
/* Forces to the disk what was appended and is not there yet, whatever the options say. Any thread. */
EA_MUST_CHECK int ea_spool_sync(ea_spool *s, ea_err *err);
/* What failed behind everybody's back, in the spool's own thread (a sync, an eviction by age): that error, from then
 * on; else 0. Asked now and then by the sender's thread. */
EA_MUST_CHECK int ea_spool_trouble(ea_spool *s, ea_err *err);

ea_descriptions *ea_spool_descriptions(ea_spool *s);

typedef struct ea_spool_status {
    uint64_t disk_bytes;
    size_t waiting, taken; /* batches */
    size_t locked;         /* batches whose key is not here; they do not wait */
    size_t damaged;        /* that were settled as EA_SPOOL_DAMAGED since it was opened */
    size_t streams;
} ea_spool_status;

void ea_spool_get_status(ea_spool *s, ea_spool_status *ret); /* any thread */

/* ---- looking into a spool that may be in use by another process: no lock, nothing is changed ---- */

typedef struct ea_spool_seen {
    const char *segment;           /* the name of its file */
    const ea_spool_record *record; /* as on disk, but unsealed when that can be done */
    const uint8_t *stream;         /* where it stands now; another name than the record's after ea_spool_renew */
    uint64_t number;
    int acknowledged;
    int opened; /* 1; 0 when the batch is still sealed, because keys lacks its key; EA_ECORRUPT when it was changed */
} ea_spool_seen;

typedef struct ea_spool_visitor {
    /* each may be NULL; non-zero stops */
    int (*on_bad_state)(const char *why, void *arg);           /* then nothing is known to be acknowledged */
    int (*on_stream)(ea_spool_stream_state *state, void *arg); /* state's memory is the spool's */
    /* why: it cannot be read; NULL: it can. */
    int (*on_segment)(const char *name, uint64_t len_bytes, const ea_spool_scanned *scanned, const char *why,
                      void *arg);
    int (*on_record)(const ea_spool_seen *seen, void *arg);
    const ea_spool_keys *keys; /* may be NULL */
    void *arg;
} ea_spool_visitor;

EA_MUST_CHECK int ea_spool_visit(const char *dir, const ea_spool_visitor *visitor, ea_err *err);

#endif
