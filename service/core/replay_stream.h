/* The id of a replay's stream: the same files with the same options that shape batches give the same id, so that a
 * resumed replay continues its stream with the same batch boundaries.
 *
 * It is the first half of SHA-256 over: "etwagent replay 1\n"; u32 events and u32 bytes of a batch; when there are
 * keyframes by count, 8 bytes "keyframe" and u64 events between them; when there are some by time, 8 bytes "key time"
 * and u64 ns between them; when there are any, 8 bytes "keyspace" and u64 bytes of their tables; when schemas were
 * given, 8 bytes "schemas\0" and u64 of their content, since they shape batches; when there are filters or programs, 8
 * bytes "filters\0" and u64 of their content; u32 number of files; then of each file in the order given (a record names
 * its file by its place): u64 size, the first MiB, the last MiB, and 256 pieces of 4 KiB evenly spread between. The
 * hash omits the rest of the content, because hashing a large trace completely takes as long as replaying it: the
 * header, the times in every buffer's head and the end distinguish traces. If two files differ only elsewhere, the
 * collector sees another checksum under a known number and refuses the batch. Names and paths are not part of the hash.
 * Integers are little-endian.
 *
 * Of followed files only the parts that do not change while they are written are hashed: "etwagent follow 1\n", the
 * same numbers, then of each file the u64 start time, boot time, frequency and raw time of the header event, u32 build,
 * CPUs, pointer size, clock type, size of buffers and logger, and the session's name with a NUL. Called by: the
 * commands and the agent that replay files. Used in: the spool and the wire. Thread: any. */
#ifndef EA_CORE_REPLAY_STREAM_H
#define EA_CORE_REPLAY_STREAM_H

#include "proto/base/err.h"
#include "proto/wire/wire.h"

/* ret: EA_STREAM_ID_BYTES. batch_events and batch_bytes as they are used, no defaults. schemas: see
 * ea_schema_options_hash. filters: of them and of programs. *ret_total_bytes: of all files, as they are now. */
EA_MUST_CHECK int ea_replay_stream_id(const char *const *paths, size_t count, uint32_t batch_events,
                                      uint32_t batch_bytes, uint64_t keyframe_events, int64_t keyframe_ns,
                                      uint64_t keyframe_bytes, int follow, uint64_t schemas, uint64_t filters,
                                      uint8_t *ret, uint64_t *ret_total_bytes, ea_err *err);

#endif
