/* Removes one host and all it sent, or one run of it, from a store: its batches in the segment files, its rows in
 * index.db, state.db, alarms.db and sinks.db, what only it had described, and its incidents. A process that is killed
 * meanwhile leaves a mark in the index: the next ec_forget_resume, or the same call, finishes the work. Records are
 * erased in place (segment.h); a segment that a backup shares is copied first, so backups keep what they have. Called
 * by: the commands forget and run. Calls: collector/store. Thread: the main one; no collector may run. */
#ifndef EC_STATE_FORGET_H
#define EC_STATE_FORGET_H

#include "collector/store/store.h"

typedef struct ec_forgotten {
    uint64_t streams, batches, events, incidents; /* in the index when it began, but for batches: records erased */
    uint64_t erased_bytes;                        /* of batches */
    uint64_t damaged_bytes; /* of segment files that cannot be read: whose they were is not known */
    int was_begun;          /* by a call that was interrupted: what that one removed is not counted */
} ec_forgotten;

/* store: open for writing, owned by the caller. stream: EA_STREAM_ID_BYTES of the run; NULL: all of the host. Counts of
 * what is stored of it; nothing changes. */
EA_MUST_CHECK int ec_forget_count(ec_store *s, const char *host, const uint8_t *stream, ec_forgotten *ret, ea_err *err);
/* Removes it, after finishing a removal that was interrupted. Nothing stored of it: 0, with zeros. EA_EBUSY: a sink
 * runs; nothing has changed. */
EA_MUST_CHECK int ec_forget(ec_store *s, const char *host, const uint8_t *stream, ec_forgotten *ret, ea_err *err);
/* The run of the host whose removal was begun and is not finished, and of which the index may have nothing any more: 1
 * with its stream; 0 when there is none. */
int ec_forget_begun_run(ec_store *s, const char *host, uint8_t *ret_stream);
/* Finishes what was begun: 1 with the host's name (256 bytes), 0 when nothing was. */
EA_MUST_CHECK int ec_forget_resume(ec_store *s, char *ret_host, ea_err *err);

#endif
