/* The inside of the spool, shared by its files: spool.c (streams, appending, sending), spool_write.c
 * (segments and records), spool_open.c (recovery, closing,
 * looking), spool_evict.c (what gives way when it is full), spool_deferred.c (tombstones without room), spool_core.c
 * (the rest).
 *
 * Locks, outermost first; none is taken while a later one is held:
 *   save_lock    writing the state file, deleting segments
 *   write_lock   the open segments' files
 *   read_lock    the sender's open segment
 *   lock         everything in memory; never held during input or output
 * An append reserves its room before it takes write_lock, so that a full spool blocks only its appenders. */
#ifndef EA_SPOOL_CORE_H
#define EA_SPOOL_CORE_H

#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "service/spool/spool.h"

typedef struct ea_spool_entry entry;
typedef struct ea_spool_segment segment;
typedef struct ea_spool_known_stream stream;

/* The segments that are open at a time: each priority has one for live streams and one for those that can be taken up
 * again, so that what gives way lies apart from what never does. */
enum { LANES = 2 * EA_SPOOL_PRIORITIES };

static inline unsigned ea_spool_lane(uint32_t priority, int is_resumable) {
    return priority + (is_resumable ? EA_SPOOL_PRIORITIES : 0);
}

/* A batch (or a tombstone) that is on disk and not done with. */
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
    uint8_t tombstone; /* it stands for batches that are gone */
    uint8_t sealed;    /* on disk it is EA_SPOOL_SEAL_BYTES longer */
    uint8_t locked;    /* sealed with a key that is not here: it waits for it in a queue that nobody is served from */
    uint8_t moved;     /* the record on disk has the name of an earlier stream: see ea_spool_renew */
    uint8_t family_count;
    ea_family_count *families; /* of its events, when they are counted */
};

typedef struct queue {
    entry *first, *last;
    size_t count;
} queue;

struct ea_spool_segment {
    segment *next;
    uint64_t sequence, size_bytes;
    int64_t begun_ns; /* monotonic; of an earlier process: see set_ages */
    uint32_t priority;
    int is_resumable;   /* a stream that can be taken up again has records in its file: it never gives way */
    size_t live, taken; /* entries; how many of them are on their way */
    stream **streams;   /* whose records are in its file, dead ones included */
    size_t stream_count;
    ea_file *file; /* while it is open for appending; write_lock */
    int is_sealed, is_locked;
    ea_sealing_key key;     /* of a sealed one, unless it is locked */
    uint64_t seal_attempts; /* nonces used; write_lock */
};

struct ea_spool_known_stream {
    stream *next;
    ea_spool_stream_state state;
    ea_ledger *ledger;    /* of the session behind it, when this process opened it */
    int open;             /* by this process */
    int canceled;         /* while it is open: nothing is appended to it */
    int recorded;         /* the state file knew it */
    size_t live, waiting; /* entries (and whoever needs it to stay); entries in queues */
    size_t segments;      /* with records of it on disk: as long as there are any, what is acknowledged must be known */
    ea_u64_map entries;   /* number -> entry */
    /* Numbers that gave way when there was no room for their tombstones, which are written when there is some again:
     * with the next batch of any stream, or by the keeper; spool_deferred.c. Changed with write_lock and lock. */
    ea_tombstone *owed;
    size_t owed_count;
    uint64_t owed_under;  /* the number that they will go under: one of theirs, which nobody calls settled before */
    ea_range_set covered; /* while it is recovered: what tombstones that are here name, but for their own numbers */
};

struct ea_spool {
    char *dir;
    char owner[EA_SPOOL_OWNER_BYTES]; /* "": nobody's yet; the opener's thread, before the sender starts */
    ea_spool_options o;
    ea_file *lock_file;
    ea_descriptions *descriptions;
    ea_spool_keys *keys; /* NULL: nothing is sealed */
    ea_mutex *save_lock, *write_lock, *read_lock, *lock;
    ea_cond *room, *work, *tick; /* with lock */
    ea_thread *keeper;           /* syncs and evicts by age; NULL: nothing of that is wanted */

    /* lock */
    queue waiting[EA_SPOOL_PRIORITIES], locked[EA_SPOOL_PRIORITIES];
    size_t taken_count, waiting_count, locked_count;
    size_t streams_waiting;    /* how many streams have entries in queues */
    const stream *last_served; /* only compared, never followed */
    segment *segments;         /* all on disk but the dead */
    segment *dead;             /* to be deleted */
    segment *active[LANES];
    stream *streams;
    size_t stream_count;
    uint64_t disk_bytes, reserved_bytes, next_sequence;
    size_t reserved_batches, damaged_count;
    int canceled, woken, closing;
    int has_unsynced; /* something was appended since the last sync by interval */
    ea_err trouble;   /* of the keeper: the first */
    size_t owing;     /* streams that owe tombstones */
    int dirty;        /* the state file is behind */
    int opened;       /* recovery came to its end: what is in memory may be saved */

    int64_t opened_ns, opened_age_ns; /* the opening, by the monotonic clock and by ea_spool_age_clock */
    int64_t saved_ns;                 /* save_lock */
    int unsynced;                     /* write_lock: lanes whose open segments were written to */
    ea_file *owed_file; /* write_lock: see spool_deferred.c; NULL: nothing has been owed, or there was no room for it */
    uint64_t owed_turn;
    uint32_t owed_rows; /* in the file when it was opened */
    int owed_unsynced;
    ea_file *reader; /* read_lock */
    uint64_t reader_sequence;
};

/* UTC as it was when the spool was opened (but never far from what is in it) and what passed since then by the
 * monotonic clock: what segments' ages are told by, which nobody who sets the wall clock changes. Any thread. */
int64_t ea_spool_age_clock(const ea_spool *s);

/* Paths are allocated; NULL without memory. */
char *ea_spool_join(const char *dir, const char *name);
char *ea_spool_segment_path(const char *dir, uint64_t sequence);
/* 1 when name is a segment's. */
int ea_spool_segment_sequence(const char *name, uint64_t *ret);

/* Starts the keeper's thread where the options want one; ends it. */
EA_MUST_CHECK int ea_spool_start_maintenance(ea_spool *s, ea_err *err);
void ea_spool_end_maintenance(ea_spool *s);

/* All of the following are called with lock, or before there are threads. */
void ea_spool_enqueue(ea_spool *s, entry *e, int at_the_front);
void ea_spool_dequeue(ea_spool *s, entry *e);
stream *ea_spool_find_stream(const ea_spool *s, const uint8_t *id);
/* The stream in which a record on disk stands now, and *number is its number there; NULL when none is known. */
stream *ea_spool_home(const ea_spool *s, const uint8_t *id, uint64_t *number);
void ea_spool_free_stream(stream *k);
/* Takes state's memory. The oldest record of an abandoned replay gives way when there are too many. */
int ea_spool_add_stream(ea_spool *s, const ea_spool_stream_state *state, stream **ret);
/* Somebody does not need the stream any more; it is forgotten when nobody does. */
void ea_spool_let_go(ea_spool *s, stream *k);
entry *ea_spool_find_entry(const stream *k, uint64_t number);
/* Moves an entry's events in its stream's ledger. */
void ea_spool_move(const entry *e, enum ea_counter from, enum ea_counter to);
/* The segment's file holds a record of the stream. EA_ENOMEM. */
int ea_spool_attach(segment *g, stream *k);
void ea_spool_free_segment(segment *g);
/* Adds a record that is on disk to the index, at the end of its queue. */
int ea_spool_add_entry(ea_spool *s, stream *k, segment *g, const ea_spool_record *r, int counted,
                       const ea_family_count *families, size_t family_count);
/* Keeps a copy of the families in the entry. EA_ENOMEM. */
int ea_spool_set_families(entry *e, const ea_family_count *families, size_t family_count);
void ea_spool_free_entry(entry *e);
/* The entry is done with; it is in no queue. */
void ea_spool_remove_entry(ea_spool *s, entry *e);
/* Moves a segment without live entries to the dead; ea_spool_reap deletes it. */
void ea_spool_bury(ea_spool *s, segment *g);

/* Without any lock: deletes the dead segments, after the state that says why has been saved. force_save: saves also
 * without a segment. */
EA_MUST_CHECK int ea_spool_reap(ea_spool *s, int force_save, ea_err *err);
/* With write_lock: 1 when tombstones may be added; they may go a little beyond both bounds. */
int ea_spool_has_place(ea_spool *s);
/* Without any lock: takes the room on disk that owing needs, while there is some. */
void ea_spool_reserve_deferred(ea_spool *s);
/* With write_lock: the stream owes tombstones, under that number if they are its first ones. Beyond the bounds, or
 * without memory: the next opening finds a hole. */
void ea_spool_owe(ea_spool *s, stream *k, uint64_t under, const ea_tombstone *rows, size_t count);
/* With write_lock: what is owed now is noted on disk, if there is room for that. */
void ea_spool_note_deferred(ea_spool *s);
/* With write_lock: writes the tombstones that streams owe, as far as there is room now; at_the_end: beyond the bounds,
 * too. */
void ea_spool_write_deferred(ea_spool *s, int at_the_end);
/* While it is opened, when all records are known: what an earlier process owed. */
EA_MUST_CHECK int ea_spool_recover_deferred(ea_spool *s, ea_err *err);
/* Adds what of first..last is not among known. EA_ENOMEM. */
EA_MUST_CHECK int ea_spool_add_rest(ea_range_set *to, uint64_t first, uint64_t last, const ea_range_set *known);
/* ---- spool_write.c; with write_lock ---- */

/* Writes one record and adds its entry. EA_EFULL: the disk is full. */
EA_MUST_CHECK int ea_spool_write_record(ea_spool *s, const ea_spool_record *given, const ea_family_count *families,
                                        size_t family_count, ea_err *err);
/* Writes tombstones of a stream as a batch with this number. */
EA_MUST_CHECK int ea_spool_write_tombstones(ea_spool *s, const uint8_t *stream, uint64_t number,
                                            const ea_tombstone *tombstones, size_t count, ea_err *err);
/* Forces to the disk what was appended and is not synced yet. */
EA_MUST_CHECK int ea_spool_sync_open(ea_spool *s, ea_err *err);

/* Without any lock: the oldest segment of live streams of the lowest priority up to max_priority gives way, if it was
 * begun before before_ns (monotonic) and nothing of it is on its way. Tombstones stand for its batches. 1, 0 when there
 * is none. */
EA_MUST_CHECK int ea_spool_evict(ea_spool *s, uint32_t max_priority, int64_t before_ns, enum ea_counter cause,
                                 ea_err *err);
/* With write_lock: the tombstone of a batch that is gone alone; without room for it the stream owes it. */
EA_MUST_CHECK int ea_spool_mark_one(ea_spool *s, stream *k, const ea_tombstone *t, ea_err *err);
/* Without any lock: the same for a batch that has not even come in; its events are compressing. */
EA_MUST_CHECK int ea_spool_evict_record(ea_spool *s, const ea_spool_record *r, const ea_family_count *families,
                                        size_t family_count, enum ea_counter cause, ea_err *err);

#endif
