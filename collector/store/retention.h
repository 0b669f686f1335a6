/* Retention: the oldest segments are deleted when they are too old, or when the store is too large.
 * Called by: collector/ingest's writer, between two groups. Calls: the file system. Thread: its store's.
 *
 * A segment is deleted in steps. After each step the store is consistent, so a crash at any time is harmless. Its rows
 * are deleted from the index, some thousands in a transaction. The index notes, durably, that the segment is deleted.
 * kept.db is written with the data that only that segment has and that is still needed (definitions that later batches
 * name, the totals of each stream), so that a lost index can still be built again. The file is deleted. The next call
 * does what a crash left undone. Rows are deleted on the store's thread; kept.db, the deletion of files and the erasure
 * of records take longer, and run on a thread of their own, one at a time, while the store's thread stores uploads.
 *
 * When the store is too large, the batches of the agent that is furthest above its share of the store are deleted
 * first, the oldest before the others: their rows are deleted from the index, and their space in the segment files is
 * freed (segment.h, ec_segment_erase), also between batches of other agents. Only when no agent is above its share, the
 * oldest segment is deleted. An agent's use of the store is its batches, 256 bytes of the index for each, and its
 * definitions there. With the rows of batches, the definitions that no batch of their stream uses any more are deleted
 * (definition_uses).
 *
 * With an archive, a segment's events become files before its first row is deleted (collector/query/files/archiver.h).
 * A segment that cannot be archived stays, unless the store is larger than its limit by an eighth, or less than 256 MiB
 * of its disk are free: then it is deleted, and its events are counted as missing in the archive. So are batches that
 * are deleted since their agent is above its share.
 *
 * What is deleted stays counted: a stream's totals say what was ever stored, and a batch that comes again is still a
 * duplicate, or a conflict. */
#ifndef EC_STORE_RETENTION_H
#define EC_STORE_RETENTION_H

#include "collector/store/store.h"

enum { EC_RETAIN_BUSY = 2 };

/* What a step of the archive returns beside EC_RETAIN_BUSY and errors. */
enum { EC_ARCHIVE_KEEP = 0, EC_ARCHIVE_DONE = 1, EC_ARCHIVE_LOST = 3 };

/* What makes files of a segment's events, before its first row is deleted. */
typedef struct ec_archive_hook {
    /* EC_ARCHIVE_DONE: the segment may be deleted, and *ret_events of it are archived. EC_RETAIN_BUSY: it is being
     * archived. EC_ARCHIVE_KEEP: it could not be archived, and stays for now. EC_ARCHIVE_LOST: it could not, and has to
     * go since is_pressing. An error: it has just failed. */
    int (*step)(void *arg, uint64_t segment, int is_pressing, uint64_t *ret_events, ea_err *err);
    void *arg;
} ec_archive_hook;

typedef struct ec_retention {
    /* since a batch was received; 0: any. Steps of the clock do not count (segment_clock.c). The time between two
     * processes counts as an eighth of the age at the most, since it is unknown whether it passed or the clock was set
     */
    int64_t age_ns;
    uint64_t bytes; /* of segments, index.db and state.db together; 0: any. The open segment always stays */
    /* what was received since so long is not deleted for its size; 0: no such bound. When bytes cannot be kept without
     * it, ec_store_may_grow refuses */
    int64_t min_age_ns;
    const ec_archive_hook *archive; /* borrowed; NULL: what is deleted goes nowhere */
} ec_retention;

/* What a store takes on disk. */
typedef struct ec_store_size {
    uint64_t segment_count, segment_bytes;
    uint64_t index_bytes, state_bytes; /* pages in use of index.db and state.db, without their logs */
} ec_store_size;

EA_MUST_CHECK int ec_store_measure(ec_store *s, ec_store_size *ret, ea_err *err);

/* One step of the work that the limits require, between groups; bounded, so that uploads do not wait for long. 1 when
 * there is more to do now, EC_RETAIN_BUSY when there is more to do as soon as a thread of the store's own is done with
 * its files (some milliseconds), 0 when there is nothing to do. When both limits are 0, it deletes only what an
 * interrupted deletion left. An error of that thread is returned by a later call. */
EA_MUST_CHECK int ec_store_retain(ec_store *s, const ec_retention *limits, ea_err *err);

/* 1 when the agent may store more, 0 when the store is full and the agent has more than its share, or an error. The
 * store is full when the last ec_store_retain could not keep limits->bytes without deleting what is younger than
 * min_age_ns. A share is limits->bytes by the number of agents of which anything is stored. */
EA_MUST_CHECK int ec_store_may_grow(ec_store *s, const char *agent, ea_err *err);

/* Waits until the thread that a step may have begun ends. What is left is done after the next start. */
void ec_retention_close(ec_store *s);

/* Segments below this number have been deleted; 0: none. */
EA_MUST_CHECK int ec_store_first_segment(ec_store *s, uint64_t *ret, ea_err *err);

/* What is left of a stream: 1 with its lowest number and the time at which its events begin, about; 0 when nothing is;
 * EA_ENOTFOUND when the stream is forgotten. */
EA_MUST_CHECK int ec_store_what_is_left(ec_store *s, const char *agent, const uint8_t *stream, uint64_t *ret_number,
                                        int64_t *ret_begin_utc_ns, ea_err *err);

/* Writes DIR/kept.db anew, when there is one. */
EA_MUST_CHECK int ec_retention_keep(ec_store *s, ea_err *err);

/* Makes DIR/index.db out of DIR/kept.db when the former is lost; the rest of it is then built from the segments. */
EA_MUST_CHECK int ec_retention_restore_index(const char *dir, ea_err *err);

#endif
