/* Recorders: what they are called, where they are, and what a cut-off stream left in one.
 *
 * A session with a recorder has two streams. The batches with its events go into a spool of their own, a ring on the
 * agent's disk (spool.h, is_recorder), under the recording's stream; none of them is sent. Its numbers travel: batches
 * without events go through the agent's spool under the session's stream.
 * The recorders of a spool's folder are its folders recorder/NAME; NAME is the session's. What "etwagent recorder keep"
 * copied of one is in recorder/NAME@TIME (until it is complete in recorder/@unfinished), which is read as a recorder is
 * and which no process writes to. Called by: service/core, "etwagent recorder". Calls: spool.h. Thread: any. */
#ifndef EA_SPOOL_RECORDER_H
#define EA_SPOOL_RECORDER_H

#include "service/spool/spool.h"

/* A copy that is not complete; no recorder's name. */
#define EA_RECORDER_UNFINISHED "@unfinished"

/* The recording's stream of a session's stream. */
void ea_recorder_stream(const uint8_t *stream, uint8_t *ret);

/* The folder of a recorder. EA_ELIMIT: the path is too long. */
EA_MUST_CHECK int ea_recorder_folder(const char *root, const char *name, char *ret, size_t capacity, ea_err *err);
/* 1 for the name of a kept copy. */
int ea_recorder_is_kept(const char *name);
/* Calls fn for each recorder and kept copy in the order of their names; none is no error. fn returns non-zero to stop.
 */
EA_MUST_CHECK int ea_recorder_each(const char *root, int (*fn)(const char *dir, const char *name, void *arg), void *arg,
                                   ea_err *err);

/* The events that recorders (not their kept copies) have of a session's stream that was cut off. Its numbers become
 * those of the last recorded batch where those are later; what the oldest recorded batch says was recorded before it
 * counts as removed; when there is none, its last recorded events do. Batches whose key is not in keys (may be NULL)
 * count, but their numbers are unknown. */
EA_MUST_CHECK int ea_recorder_find(const char *root, const ea_spool_keys *keys, const uint8_t *stream,
                                   ea_last_numbers *numbers, uint64_t *ret_events, ea_err *err);

#endif
