/* Which batches of a recorder a time needs: those with its events, all between, and those from the last keyframe before
 * on, which has the state at its time.
 * Called by: "etwagent recorder", service/core/triggers.c. Calls: spool.h. Thread: any (the caller's memory). */
#ifndef EA_SPOOL_RECORDER_WINDOW_H
#define EA_SPOOL_RECORDER_WINDOW_H

#include "service/spool/spool.h"

/* A batch in a recorder. Its times are unknown (INT64_MAX, INT64_MIN) without events, or while it is locked. */
typedef struct ea_recorded {
    uint8_t stream[EA_STREAM_ID_BYTES]; /* as on disk */
    uint64_t number;
    uint32_t events, len_bytes; /* len_bytes: as on disk */
    int is_keyframe, is_locked;
    int is_chosen, is_written; /* of a window; by who copies it */
    int64_t from_utc_ns, to_utc_ns;
} ea_recorded;

/* Zero-initialise; free(items). By stream and number after ea_recorded_sort. */
typedef struct ea_recorded_list {
    ea_recorded *items;
    size_t count, capacity;
} ea_recorded_list;

/* Adds a record. EA_ECORRUPT: it cannot be read; EA_ENOMEM. */
EA_MUST_CHECK int ea_recorded_add(ea_recorded_list *l, const ea_spool_seen *seen, ea_err *err);
void ea_recorded_sort(ea_recorded_list *l);
/* Where the stream that begins at first ends. */
size_t ea_recorded_end(const ea_recorded_list *l, size_t first);
/* NULL: the list has no such batch. */
ea_recorded *ea_recorded_find(const ea_recorded_list *l, const uint8_t *stream, uint64_t number);
/* Chooses the batches that the time [from, to) needs, of each stream. */
void ea_recorded_choose(ea_recorded_list *l, int64_t from_utc_ns, int64_t to_utc_ns);

#endif
