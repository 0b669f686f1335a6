/* Internals of the spool, shared by its files: spool.c (streams, appending, sending), spool_write.c (segments and
 * records), spool_open.c (recovery, closing, inspection), spool_evict.c (eviction), spool_recorded.c (what a recorder
 * has, by segment), spool_deferred.c (deferred tombstones), spool_cut_off.c (streams of killed processes), spool_core.c
 * (common parts).
 *
 * Locks, outermost first. A thread never takes a lock while it holds a later one of this list:
 *   save_lock    writing the state file, deleting segments
 *   write_lock   the open segments' files
 *   read_lock    the sender's open segment
 *   lock         all data in memory; never held during input or output
 * An append reserves its room before it takes write_lock, so that a full spool blocks only threads that append. */
#ifndef EA_SPOOL_SPOOL_CORE_H
#define EA_SPOOL_SPOOL_CORE_H

#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "service/spool/spool.h"

typedef struct ea_spool_entry entry;
typedef struct ea_spool_segment segment;
typedef struct ea_spool_known_stream stream;

/* The number of segments that can be open at the same time: each priority has one for live streams and one for
 * resumable streams, so that evictable batches are in other segments than those that are never evicted. */
enum { SEGMENT_CLASSES = 2 * EA_SPOOL_PRIORITIES };

static inline unsigned ea_spool_segment_class(uint32_t priority, int is_resumable) {
    return priority + (is_resumable ? EA_SPOOL_PRIORITIES : 0);
}

/* A batch (or a tombstone) that is on disk and not settled. */
struct ea_spool_entry {
    entry *prev, *next; /* in a queue */
    segment *segment;
    stream *stream;
    uint64_t number, disk_number;    /* now, and as the record on disk has it */
    uint32_t offset;                 /* of the record in its segment */
    uint32_t len_bytes, event_count; /* bytes of the batch */
    uint8_t priority;
    uint8_t taken;
    uint8_t counted;   /* its events are in this process's ledger */
    uint8_t tombstone; /* it represents evicted, refused or damaged batches */
    uint8_t sealed;    /* encrypted: on disk it is EA_SPOOL_SEAL_BYTES longer */
    uint8_t locked;    /* encrypted with a missing key: it is in a queue from which no batch is sent */
    uint8_t moved;     /* the record on disk has the name of an earlier stream: see ea_spool_renew */
    uint8_t family_count;
    ea_family_count *families; /* of its events, when they are counted */
};

/* Batches of one stream in a recorder's segment. No batch of a recorder has an entry of its own. */
typedef struct ea_spool_holding {
    ea_spool_share share; /* under its name on disk */
    stream *stream;
    int counted;                           /* its events are in this process's ledger */
    uint32_t families[EA_LEDGER_FAMILIES]; /* of its events, which are at most UINT32_MAX */
} holding;

typedef struct queue {
    entry *first, *last;
    size_t count;
    uint64_t events;
} queue;

struct ea_spool_segment {
    segment *next;
    uint64_t sequence, size_bytes;
    int64_t begun_ns; /* monotonic; of an earlier process: see set_ages */
    /* in a recorder: the times of its first and last event (INT64_MAX, INT64_MIN: unknown), and what it has in place of
     * entries */
    int64_t first_utc_ns, last_utc_ns;
    int has_keyframe;
    struct ea_spool_holding *holdings;
    size_t holding_count;
    int is_summed_up; /* its file ends with a summary */
    uint32_t priority;
    int is_resumable;   /* a resumable stream has records in its file: it is never evicted */
    size_t live, taken; /* entries, or a recorder's batches; those of them that are taken */
    stream **streams;   /* that have records in its file, settled ones included */
    size_t stream_count;
    ea_file *file; /* while it is open for appending; write_lock */
    int is_sealed, is_locked;
    ea_sealing_key key;     /* of an encrypted segment, unless it is locked */
    uint64_t seal_attempts; /* nonces used; write_lock */
};

struct ea_spool_known_stream {
    stream *next;
    ea_spool_stream_state state;
    ea_ledger *ledger;    /* of its session, when this process opened it */
    int open;             /* by this process */
    int canceled;         /* while it is open: no batch is appended to it */
    int recorded;         /* it was in the state file */
    size_t live, waiting; /* entries, holdings (and other references to the stream); entries in queues */
    size_t segments;      /* with records of it on disk; while there are any, its acknowledged numbers are kept */
    ea_u64_map entries;   /* number -> entry */
    /* Numbers of evicted batches whose tombstones found no room: deferred tombstones (spool_deferred.c). They are
     * written when there is room: after the next append of any stream, or by the maintenance thread. To change these
     * members, the caller holds `write_lock` and `lock`. */
    ea_tombstone *deferred;
    size_t deferred_count;
    uint64_t deferred_under;     /* their tombstones' own number; it is one of theirs and not settled yet */
    ea_last_numbers *base;       /* what its ledger counted under an earlier name; NULL: nothing */
    uint64_t saved_acknowledged; /* found in the state file: events that its ledger had as acknowledged */
    ea_range_set covered;        /* during recovery: what its tombstones cover, except their own numbers */
};

struct ea_spool {
    char *dir;
    char owner[EA_SPOOL_OWNER_BYTES]; /* "": no owner yet; the opener's thread, before the sender starts */
    ea_spool_options o;
    ea_file *lock_file;
    ea_descriptions *descriptions;
    ea_spool_keys *keys; /* NULL: no encryption */
    ea_mutex *save_lock, *write_lock, *read_lock, *lock;
    ea_cond *room, *work, *tick; /* the caller holds `lock` */
    ea_thread *maintenance;      /* the maintenance thread: syncs, evicts by age; NULL: not needed */

    /* lock */
    queue waiting[EA_SPOOL_PRIORITIES], locked[EA_SPOOL_PRIORITIES];
    size_t taken_count, waiting_count, locked_count;
    size_t streams_waiting;    /* number of streams that have entries in queues */
    const stream *last_served; /* only compared, never followed */
    segment *segments;         /* all on disk except the dead */
    segment *dead;             /* to be deleted */
    segment *active[SEGMENT_CLASSES];
    stream *streams;
    size_t stream_count;
    uint64_t disk_bytes, reserved_bytes, next_sequence;
    size_t reserved_batches, damaged_count;
    int canceled, woken, closing;
    int has_unsynced;         /* something was appended since the last sync by interval */
    ea_err error;             /* the first error of the maintenance thread */
    size_t deferring_streams; /* with deferred tombstones */
    int dirty;                /* the state file is out of date */
    int opened;               /* recovery is complete: the state in memory may be saved */
    int is_shared; /* other threads may use the spool: from the end of its opening to the beginning of its close */

    int64_t opened_ns, opened_age_ns; /* the opening, by the monotonic clock and by ea_spool_age_clock */
    int64_t saved_ns;                 /* save_lock */
    int unsynced;                     /* write_lock: segment classes whose open segments were written to */
    ea_file *deferred_file;           /* write_lock: see spool_deferred.c; NULL: not needed yet, or no room for it */
    uint64_t deferred_turn;
    uint32_t deferred_rows; /* in the file when it was opened */
    int deferred_unsynced;
    ea_file *reader; /* read_lock */
    uint64_t reader_sequence;
};

/* Checks an invariant of all functions below that say which lock the caller holds. One thread alone opens and closes a
 * spool, and holds none then. */
static inline void ea_spool_assert_held(const ea_spool *s, ea_mutex *lock) EA_NO_THREAD_SAFETY_ANALYSIS {
    if (s->is_shared)
        ea_mutex_assert_held(lock);
}

/* A function of the opening or the close, during which no other thread uses the spool: it needs no lock. */
#define EA_SPOOL_ALONE EA_NO_THREAD_SAFETY_ANALYSIS

/* The clock for the ages of segments: UTC at the opening of the spool (limited as in set_ages) plus the monotonic time
 * since then. A step of the wall clock does not change it. Any thread. */
int64_t ea_spool_age_clock(const ea_spool *s);

/* The counter of a batch's events in a spool or, in its place, in a recorder. */
static inline enum ea_counter ea_spool_counter(const ea_spool *s, enum ea_counter of_spool) {
    if (!s->o.is_recorder)
        return of_spool;
    return of_spool == EA_COUNT_events_spooled       ? EA_COUNT_events_recorded
           : of_spool == EA_COUNT_events_evicted_age ? EA_COUNT_events_removed_age
                                                     : EA_COUNT_events_removed_size;
}

/* Paths are allocated; NULL without memory. */
char *ea_spool_join(const char *dir, const char *name);
char *ea_spool_segment_path(const char *dir, uint64_t sequence);
/* 1 when name is a segment's. */
int ea_spool_segment_sequence(const char *name, uint64_t *ret);

/* Starts the maintenance thread if the options need it; ends it. */
EA_MUST_CHECK int ea_spool_start_maintenance(ea_spool *s, ea_err *err);
void ea_spool_end_maintenance(ea_spool *s);

/* For all of the following the caller holds `lock`, or no other thread exists yet. */
void ea_spool_enqueue(ea_spool *s, entry *e, int at_the_front) EA_REQUIRES(s->lock);
void ea_spool_dequeue(ea_spool *s, entry *e) EA_REQUIRES(s->lock);
stream *ea_spool_find_stream(const ea_spool *s, const uint8_t *id) EA_REQUIRES(s->lock);
/* The current stream of a record on disk; sets *number to its number in that stream. NULL when there is none. */
stream *ea_spool_resolve_stream(const ea_spool *s, const uint8_t *id, uint64_t *number) EA_REQUIRES(s->lock);
void ea_spool_free_stream(stream *k);
/* Takes state's memory. When there are EA_SPOOL_STREAMS_MAX streams, the record of the oldest unused one is dropped;
 * EA_ELIMIT when all are in use. */
int ea_spool_add_stream(ea_spool *s, const ea_spool_stream_state *state, stream **ret) EA_REQUIRES(s->lock);
/* Called after a reference to the stream ended; removes the stream from memory when there is no other. */
void ea_spool_unref_stream(ea_spool *s, stream *k) EA_REQUIRES(s->lock);
entry *ea_spool_find_entry(const stream *k, uint64_t number);
/* Brings the stream's last numbers up to date. */
void ea_spool_take_numbers(stream *k);
/* Moves an entry's events in its stream's ledger. */
void ea_spool_move(const entry *e, enum ea_counter from, enum ea_counter to);
/* The segment's file holds a record of the stream. EA_ENOMEM. */
int ea_spool_attach(segment *g, stream *k);
void ea_spool_free_segment(segment *g);
/* Adds a record that is on disk to the index, at the end of its queue. */
int ea_spool_add_entry(ea_spool *s, stream *k, segment *g, const ea_spool_record *r, int counted,
                       const ea_family_count *families, size_t family_count) EA_REQUIRES(s->lock);
/* Keeps a copy of the families in the entry. EA_ENOMEM. */
int ea_spool_set_families(entry *e, const ea_family_count *families, size_t family_count);
void ea_spool_free_entry(entry *e);
/* Removes a settled entry, which is in no queue. */
void ea_spool_remove_entry(ea_spool *s, entry *e) EA_REQUIRES(s->lock);
/* Moves a segment without live entries to the dead; ea_spool_reap deletes it. */
void ea_spool_retire_segment(ea_spool *s, segment *g) EA_REQUIRES(s->lock);

/* The caller holds no lock. Saves the state, then deletes the dead segments. force_save: saves the state also when
 * there is no dead segment. */
EA_MUST_CHECK int ea_spool_reap(ea_spool *s, int force_save, ea_err *err) EA_EXCLUDES(s->lock, s->write_lock);
/* The caller holds `write_lock`. 1 when tombstones may be added; they may exceed both limits a little: limit_bytes by
 * half a segment, limit_batches by an eighth. */
int ea_spool_has_place(ea_spool *s) EA_REQUIRES(s->write_lock);
/* The caller holds no lock. Allocates the disk space for deferred tombstones while there is room. */
void ea_spool_reserve_deferred(ea_spool *s) EA_EXCLUDES(s->lock, s->write_lock);
/* The caller holds `write_lock`. Defers tombstones of the stream, to be written under that number if they are its first
 * ones. Above the limits, or without memory, they are dropped: the next opening finds a hole. */
void ea_spool_defer_tombstones(ea_spool *s, stream *k, uint64_t under, const ea_tombstone *rows, size_t count)
    EA_REQUIRES(s->write_lock);
/* The caller holds `write_lock`. Writes the deferred tombstones to the file "owed", if the file has room. */
void ea_spool_note_deferred(ea_spool *s) EA_REQUIRES(s->write_lock);
/* The caller holds `write_lock`. Writes the deferred tombstones of all streams, as far as there is room; at_the_end:
 * also above the limits. */
void ea_spool_write_deferred(ea_spool *s, int at_the_end) EA_REQUIRES(s->write_lock);
/* Called during the opening, after all records were read: recovers the tombstones that an earlier process deferred. */
EA_MUST_CHECK int ea_spool_recover_deferred(ea_spool *s, ea_err *err);
/* Adds the numbers of first..last that are not in known. EA_ENOMEM. */
EA_MUST_CHECK int ea_spool_add_rest(ea_range_set *to, uint64_t first, uint64_t last, const ea_range_set *known);
/* ---- spool_recorded.c: a recorder ---- */

/* Brings the times of a segment up to date with the head of one of its batches, which is not sealed. */
void ea_spool_note_time(const ea_spool *s, segment *g, const uint8_t *batch, size_t len_bytes);
/* Adds a record that is on disk to what its segment has. number: what it is in the stream. */
int ea_spool_hold(ea_spool *s, stream *k, segment *g, const ea_spool_record *r, int counted,
                  const ea_family_count *families, size_t family_count) EA_REQUIRES(s->lock);
/* Takes all from a segment, moves the events to that counter, and returns how many of them are an earlier process's.
 * The streams stay in memory: they are the segment's until it is deleted. */
uint64_t ea_spool_let_go(ea_spool *s, segment *g, enum ea_counter to) EA_REQUIRES(s->lock);
/* What the recorder has of a stream goes to fresh under the same numbers, which follow fresh's `moved` rows. EA_ENOMEM,
 * EA_ELIMIT: nothing was changed. */
EA_MUST_CHECK int ea_spool_renew_held(ea_spool *s, stream *k, stream *fresh) EA_REQUIRES(s->lock);
/* Ends a closed segment's file with its summary. What fails costs time at the next opening alone. The caller holds
 * `write_lock`, and none else. */
void ea_spool_sum_up(ea_spool *s, segment *g, ea_file *file) EA_REQUIRES(s->write_lock);
/* Takes what an earlier process's segment has from its summary. 1; 0: it has none; an error. */
EA_MUST_CHECK int ea_spool_recover_summed_up(ea_spool *s, segment *g, ea_file *file, ea_err *err);

/* ---- spool_write.c; the caller holds `write_lock` ---- */

/* Writes one record and adds its entry. EA_EFULL: the disk is full. */
EA_MUST_CHECK int ea_spool_write_record(ea_spool *s, const ea_spool_record *given, const ea_family_count *families,
                                        size_t family_count, ea_err *err) EA_REQUIRES(s->write_lock);
/* Writes tombstones of a stream as a batch with this number. */
EA_MUST_CHECK int ea_spool_write_tombstones(ea_spool *s, const uint8_t *stream, uint64_t number,
                                            const ea_tombstone *tombstones, size_t count, ea_err *err)
    EA_REQUIRES(s->write_lock);
/* Syncs appended data that is not synced yet to the disk. */
EA_MUST_CHECK int ea_spool_sync_open(ea_spool *s, ea_err *err) EA_REQUIRES(s->write_lock);

/* The caller holds no lock. Evicts the oldest segment of live streams of the lowest priority that is at most
 * max_priority, if it was begun before before_ns (monotonic) and none of its batches is taken. Tombstones replace its
 * batches. Returns 1; 0 when there is no such segment. */
EA_MUST_CHECK int ea_spool_evict(ea_spool *s, uint32_t max_priority, int64_t before_ns, enum ea_counter cause,
                                 ea_err *err) EA_EXCLUDES(s->lock, s->write_lock);
/* The caller holds `write_lock`. Writes the tombstone of a single batch; without room it is deferred. */
EA_MUST_CHECK int ea_spool_mark_one(ea_spool *s, stream *k, const ea_tombstone *t, ea_err *err)
    EA_REQUIRES(s->write_lock);
/* The caller holds no lock. The same for a batch that was not written; its events are compressing. */
EA_MUST_CHECK int ea_spool_evict_record(ea_spool *s, const ea_spool_record *r, const ea_family_count *families,
                                        size_t family_count, enum ea_counter cause, ea_err *err)
    EA_EXCLUDES(s->lock, s->write_lock);

#endif
