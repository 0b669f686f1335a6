/* Loss is data, not an error: one list of counters. It names the metrics, the ledger's fields on the wire and the
 * sentences that a person reads. Counters are 64-bit and cumulative for one stream (agent) or one process (collector).
 * Used by: every stage that can keep, change or lose an event. Thread: relaxed atomics; any thread may add, any may
 * read. */
#ifndef EA_BASE_COUNTERS_H
#define EA_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

enum ea_metric_type { EA_COUNTER, EA_GAUGE };

enum ea_severity {
    EA_INFO,    /* how much went through */
    EA_NOTICE,  /* worth knowing; no event was lost */
    EA_LOSS,    /* events were lost or damaged, and this says how many */
    EA_UNKNOWN, /* events were lost, and their number is unknown */
};

/* What a counter is about. */
enum ea_counter_part {
    EA_OF_LEDGER,    /* an agent's stream: its delivery, and what its source lost */
    EA_OF_STREAM,    /* more about an agent's stream: decoding, call stacks, images, its end */
    EA_OF_COLLECTOR, /* the collector itself */
};

/* Counters that were removed, with their wire numbers, which no other counter gets. */
#define EA_REMOVED_COUNTERS(X) X(events_dropped_memory, 8)

/* name, wire number (never reused), severity, part, sentence. Add new ones at the end of their block.
 * X: a counter, which only grows. Of several streams its last values are added.
 * S: such a counter of an agent's source: what it handed over, dropped or lost, and how that was decoded. When one has
 *    changed since the last batch, its value is news, which travels even if no event does.
 * G: a gauge, how much is in some place now. It goes up and down, so that only the last value of a stream counts. */
#define EA_COUNTERS(X, G, S)                                                                                           \
    /* the agent's ledger: delivered = batched + dropped_* + filtered + sampled_out + limited + repeated + aggregated  \
     * + pending */                                                                                                    \
    S(events_delivered, 1, EA_INFO, EA_OF_LEDGER, "events that the source handed over")                                \
    S(events_batched, 2, EA_INFO, EA_OF_LEDGER, "events written into batches")                                         \
    S(events_dropped_full, 6, EA_LOSS, EA_OF_LEDGER, "events dropped because the pipeline was full")                   \
    S(events_dropped_oversize, 7, EA_LOSS, EA_OF_LEDGER, "events dropped because they exceed the format's limits")     \
    S(events_filtered, 3, EA_INFO, EA_OF_LEDGER, "events dropped by the conditions of a filter in the configuration")  \
    S(events_sampled_out, 4, EA_INFO, EA_OF_LEDGER, "events dropped by a filter's sampling")                           \
    S(events_aggregated, 5, EA_INFO, EA_OF_LEDGER,                                                                     \
      "events that do not travel because a program in the configuration aggregated them")                              \
    S(events_limited, 192, EA_NOTICE, EA_OF_LEDGER, "events dropped because a filter's limit of a second was reached") \
    S(events_repeated, 198, EA_INFO, EA_OF_LEDGER, "events dropped because a filter's repeat had kept an equal one")   \
    S(events_redacted, 193, EA_INFO, EA_OF_LEDGER, "events of which a filter replaced fields")                         \
    G(events_pending, 9, EA_INFO, EA_OF_LEDGER, "events parked or in the open batch")                                  \
    X(events_synthesised, 10, EA_INFO, EA_OF_LEDGER, "events made by the agent itself: keyframes")                     \
    /* batched + synthesised = compressing + spooled + unanswered + acknowledged + evicted_* + recorded + removed_*    \
     * + unrecorded */                                                                                                 \
    G(events_compressing, 11, EA_INFO, EA_OF_LEDGER, "events in batches that are being compressed")                    \
    G(events_spooled, 12, EA_INFO, EA_OF_LEDGER, "events in batches that wait in the spool, not sent yet")             \
    G(events_unanswered, 13, EA_INFO, EA_OF_LEDGER, "events in batches sent and not answered yet")                     \
    X(events_acknowledged, 14, EA_INFO, EA_OF_LEDGER, "events in batches that a collector has acknowledged")           \
    X(events_evicted_size, 15, EA_LOSS, EA_OF_LEDGER, "events in batches evicted because the spool was full")          \
    X(events_evicted_age, 16, EA_LOSS, EA_OF_LEDGER, "events in batches evicted because they were too old")            \
    X(events_evicted_damage, 17, EA_LOSS, EA_OF_LEDGER, "events in batches that the spool could not read back")        \
    G(events_recorded, 230, EA_INFO, EA_OF_LEDGER, "events in batches that a recorder keeps on this machine")          \
    X(events_removed_size, 231, EA_INFO, EA_OF_LEDGER, "events in batches that a full recorder removed")               \
    X(events_removed_age, 232, EA_INFO, EA_OF_LEDGER, "events in batches that a recorder removed as too old")          \
    X(events_unrecorded, 233, EA_LOSS, EA_OF_LEDGER,                                                                   \
      "events in batches for which a recorder found no room on the disk")                                              \
    X(recorder_files_removed, 234, EA_INFO, EA_OF_LEDGER,                                                              \
      "files that a recorder removed: it was full, or they were too old")                                              \
    X(recorder_earlier_removed, 235, EA_INFO, EA_OF_LEDGER,                                                            \
      "events of earlier runs that a recorder removed: their own ledgers have ended")                                  \
    G(recorder_oldest_seconds, 244, EA_INFO, EA_OF_LEDGER,                                                             \
      "the time of the oldest event that a recorder has, in seconds since 1970; 0: it has none")                       \
    S(triggers_fired, 250, EA_INFO, EA_OF_LEDGER, "times a trigger fired, whose window of the recorder is sent")       \
    S(triggers_limited, 251, EA_NOTICE, EA_OF_LEDGER, "times a trigger did not fire: its limit or its cooldown")       \
    S(events_triggered, 252, EA_INFO, EA_OF_LEDGER,                                                                    \
      "events of a recorder that triggers sent, beside those that it keeps")                                           \
    S(batches_untriggered, 253, EA_NOTICE, EA_OF_LEDGER,                                                               \
      "batches of a trigger's window that the recorder did not have")                                                  \
    S(windows_untriggered, 254, EA_NOTICE, EA_OF_LEDGER,                                                               \
      "windows of triggers that were not sent: the recorder had nothing of them, or too many waited")                  \
    X(requests_accepted, 265, EA_INFO, EA_OF_LEDGER, "requests of a collector that were accepted")                     \
    X(requests_refused_malformed, 256, EA_NOTICE, EA_OF_LEDGER, "requests refused: they have no valid form")           \
    X(requests_refused_key, 257, EA_NOTICE, EA_OF_LEDGER, "requests refused: another key signed them")                 \
    X(requests_refused_signature, 258, EA_NOTICE, EA_OF_LEDGER,                                                        \
      "requests refused: their signature is not that of their content")                                                \
    X(requests_refused_host, 259, EA_NOTICE, EA_OF_LEDGER, "requests refused: they are of other hosts")                \
    X(requests_refused_replayed, 260, EA_NOTICE, EA_OF_LEDGER, "requests refused: they came before")                   \
    X(requests_refused_reordered, 261, EA_NOTICE, EA_OF_LEDGER, "requests refused: a later one came before")           \
    X(requests_refused_expired, 262, EA_NOTICE, EA_OF_LEDGER, "requests refused: they had expired")                    \
    X(requests_refused_policy, 263, EA_NOTICE, EA_OF_LEDGER,                                                           \
      "requests refused: the local policy does not allow their kind")                                                  \
    X(requests_refused_limits, 264, EA_NOTICE, EA_OF_LEDGER, "requests refused: beyond the limits of an agent")        \
    X(batches_closed, 18, EA_INFO, EA_OF_LEDGER, "batches closed")                                                     \
    X(batches_sent, 19, EA_INFO, EA_OF_LEDGER, "batches sent, repeats included")                                       \
    X(batches_refused, 20, EA_LOSS, EA_OF_LEDGER, "batches that a collector refused for good")                         \
    X(events_evicted_refused, 21, EA_LOSS, EA_OF_LEDGER, "events in batches that a collector refused for good")        \
    X(spool_torn_bytes, 22, EA_NOTICE, EA_OF_LEDGER, "bytes of half-written batches cut off the spool after a crash")  \
    X(spool_bad_bytes, 23, EA_UNKNOWN, EA_OF_LEDGER, "bytes inside the spool that could not be read back")             \
    X(spool_locked_events, 28, EA_NOTICE, EA_OF_LEDGER,                                                                \
      "events in the spool when it was opened that none of its keys opens")                                            \
    X(streams_renewed, 24, EA_NOTICE, EA_OF_LEDGER,                                                                    \
      "streams that were renamed: another machine had used their numbers")                                             \
    X(keyframes_written, 25, EA_INFO, EA_OF_LEDGER, "keyframes written")                                               \
    X(keyframe_rows_given_up, 27, EA_NOTICE, EA_OF_LEDGER, "rows and texts that a full table for keyframes left out")  \
    X(source_held_seconds, 49, EA_NOTICE, EA_OF_LEDGER,                                                                \
      "seconds that a source waited for its encoders, or for room in the spool")                                       \
    X(shipping_held_seconds, 26, EA_NOTICE, EA_OF_LEDGER,                                                              \
      "seconds that nothing was sent since a collector had asked for a pause")                                         \
    X(collector_moves, 29, EA_NOTICE, EA_OF_LEDGER, "times that the agent switched to another collector")              \
    G(stream_ended, 120, EA_INFO, EA_OF_STREAM, "1 in the last numbers of a stream that came to its end in order")     \
    G(stream_cut_off, 121, EA_NOTICE, EA_OF_STREAM,                                                                    \
      "1 in the last numbers of a stream whose agent ended without closing it: the next start of the agent did")       \
    G(stream_recorded, 236, EA_INFO, EA_OF_STREAM,                                                                     \
      "1 in a stream whose events a recorder keeps on their machine: they do not travel")                              \
    /* what the source admits to */                                                                                    \
    S(source_events_lost, 30, EA_LOSS, EA_OF_LEDGER, "events that Windows says it lost (EventsLost)")                  \
    S(source_buffers_lost, 31, EA_UNKNOWN, EA_OF_LEDGER,                                                               \
      "buffers that Windows says it lost (LogBuffersLost, RealTimeBuffersLost)")                                       \
    S(source_lost_records, 32, EA_NOTICE, EA_OF_LEDGER, "lost-event records found in the stream")                      \
    S(source_bad_records, 33, EA_LOSS, EA_OF_LEDGER, "records in a file that could not be read")                       \
    S(source_bad_buffers, 34, EA_UNKNOWN, EA_OF_LEDGER, "buffers in a file that could not be read")                    \
    S(source_bad_bytes, 35, EA_UNKNOWN, EA_OF_LEDGER, "bytes of a file that were skipped")                             \
    S(source_disordered_buffers, 36, EA_NOTICE, EA_OF_LEDGER, "buffers disordered inside, and sorted")                 \
    S(source_late_records, 37, EA_NOTICE, EA_OF_LEDGER, "records found too late to be in canonical order")             \
    S(source_session_ends, 38, EA_UNKNOWN, EA_OF_LEDGER,                                                               \
      "times that another program ended a session, which was started again")                                           \
    S(source_clock_steps, 39, EA_NOTICE, EA_OF_LEDGER, "times that the system's clock was set while a session ran")    \
    S(source_paced_seconds, 40, EA_NOTICE, EA_OF_LEDGER, "seconds that a file was left alone to keep to cpu-percent")  \
    S(source_rundowns, 41, EA_INFO, EA_OF_LEDGER,                                                                      \
      "second sessions that recorded the objects that existed before a session")                                       \
    S(source_rundown_records, 42, EA_INFO, EA_OF_LEDGER, "records of objects that existed before a session")           \
    S(source_rundown_failures, 43, EA_NOTICE, EA_OF_LEDGER,                                                            \
      "second sessions that could not be started, or did not end in time")                                             \
    S(source_counters_refused, 44, EA_NOTICE, EA_OF_LEDGER,                                                            \
      "performance counters and sampled sources that a session's start asked for and could not have")                  \
    S(source_parts_refused, 45, EA_NOTICE, EA_OF_LEDGER,                                                               \
      "providers, filters, flags and stacks that Windows refused a session, and channels of the event log")            \
    S(source_boot_files_lost, 46, EA_UNKNOWN, EA_OF_LEDGER,                                                            \
      "files of boot sessions that were deleted unread, or that Windows may have replaced")                            \
    S(source_starts_refused, 47, EA_UNKNOWN, EA_OF_LEDGER,                                                             \
      "times that Windows refused to start a session, which was tried again")                                          \
    S(source_stale_sessions, 48, EA_NOTICE, EA_OF_LEDGER,                                                              \
      "sessions of that name that were there at a start, stopped or adopted")                                          \
    S(source_stale_bytes, 122, EA_UNKNOWN, EA_OF_LEDGER,                                                               \
      "bytes that no program had read of sessions of that name that were stopped at a start")                          \
    S(source_records_missing, 199, EA_LOSS, EA_OF_LEDGER,                                                              \
      "records that a channel of the event log no longer had when it was read, by their numbers")                      \
    /* decoding */                                                                                                     \
    S(decode_whole, 50, EA_INFO, EA_OF_STREAM, "events of a known class, every field whole")                           \
    S(decode_partial, 51, EA_NOTICE, EA_OF_STREAM,                                                                     \
      "events of a known class whose payload ended early or was newer than known")                                     \
    S(decode_unknown, 52, EA_NOTICE, EA_OF_STREAM, "events of no known class, kept whole and raw")                     \
    S(decode_asked, 53, EA_INFO, EA_OF_STREAM, "kinds of events that Windows (TDH) was asked about")                   \
    S(decode_unanswered, 54, EA_NOTICE, EA_OF_STREAM, "kinds of events that Windows (TDH) could say nothing of")       \
    S(decode_unread, 55, EA_NOTICE, EA_OF_STREAM, "events of no known class whose plug-in could not read them")        \
    /* call stacks: halves, the kernel's and the user's; joined + ambiguous + the rest are all */                      \
    S(stacks_joined, 110, EA_INFO, EA_OF_STREAM, "halves of call stacks that found their event")                       \
    S(stacks_ambiguous, 111, EA_NOTICE, EA_OF_STREAM, "halves of call stacks that fit several events equally well")    \
    S(stacks_no_event, 112, EA_NOTICE, EA_OF_STREAM, "halves of call stacks whose event was lost, or is not recorded") \
    S(stacks_too_late, 113, EA_NOTICE, EA_OF_STREAM,                                                                   \
      "halves of call stacks that came so late that their event was not looked for")                                   \
    S(stacks_other_thread, 114, EA_NOTICE, EA_OF_STREAM,                                                               \
      "halves of call stacks of whose time there are events of other threads")                                         \
    S(stacks_taken, 115, EA_NOTICE, EA_OF_STREAM, "halves of call stacks whose event had such a half already")         \
    S(stacks_no_match_id, 116, EA_NOTICE, EA_OF_STREAM,                                                                \
      "late halves of call stacks that no event that is known waits for")                                              \
    S(stacks_no_clr_event, 117, EA_NOTICE, EA_OF_STREAM,                                                               \
      "call stacks of a .NET runtime without an event on their thread")                                                \
    S(stacks_too_short, 118, EA_NOTICE, EA_OF_STREAM, "records of call stacks that hold no whole one")                 \
    /* programs in the configuration */                                                                                \
    S(watch_skipped, 195, EA_NOTICE, EA_OF_STREAM,                                                                     \
      "statements of programs that were skipped: their events lack a value, or they divide by zero")                   \
    S(watch_others, 196, EA_NOTICE, EA_OF_STREAM,                                                                      \
      "values that programs counted under others: the limit of keys or of memory was reached")                         \
    S(watch_dropped, 197, EA_NOTICE, EA_OF_STREAM,                                                                     \
      "variables, texts and prints of programs that were dropped at a limit")                                          \
    S(watch_shipped, 255, EA_INFO, EA_OF_STREAM, "events that a program raised to the priority security: ship()")      \
    /* images: images_asked = images_told + absent + refused + unreadable + other + left_* + modules that wait */      \
    S(images_asked, 56, EA_INFO, EA_OF_STREAM, "modules whose image files were to be looked at")                       \
    S(images_told, 57, EA_INFO, EA_OF_STREAM,                                                                          \
      "modules of which size, PDB, version and hash of the image's file were recorded")                                \
    S(images_read, 58, EA_INFO, EA_OF_STREAM, "image files that were read")                                            \
    S(images_cached, 59, EA_INFO, EA_OF_STREAM, "image files that were as they had been when they were read")          \
    S(images_forgotten, 60, EA_NOTICE, EA_OF_STREAM, "image files forgotten since others took their place")            \
    S(images_unhashed, 61, EA_NOTICE, EA_OF_STREAM, "image files recorded without a hash since they are too large")    \
    S(images_damaged, 62, EA_NOTICE, EA_OF_STREAM, "image files that are no PE image, or a damaged one")               \
    S(images_absent, 63, EA_NOTICE, EA_OF_STREAM, "modules whose image file is not there")                             \
    S(images_refused, 64, EA_NOTICE, EA_OF_STREAM,                                                                     \
      "modules whose image file may not be opened, or is on no disk of the machine")                                   \
    S(images_unreadable, 65, EA_NOTICE, EA_OF_STREAM,                                                                  \
      "modules whose image file could not be read, or changed meanwhile")                                              \
    S(images_other, 66, EA_NOTICE, EA_OF_STREAM, "modules whose image file is another one than was loaded")            \
    S(images_left_full, 67, EA_NOTICE, EA_OF_STREAM, "modules not looked at since too many waited, or memory ran out") \
    S(images_left_end, 68, EA_NOTICE, EA_OF_STREAM,                                                                    \
      "modules not looked at, or not recorded, when their session ended")                                              \
    /* accounts: accounts_asked = accounts_named + unnamed + left + those that wait */                                 \
    S(accounts_asked, 123, EA_INFO, EA_OF_STREAM, "accounts whose names were to be asked of the machine")              \
    S(accounts_named, 124, EA_INFO, EA_OF_STREAM, "accounts whose names were recorded")                                \
    S(accounts_unnamed, 125, EA_NOTICE, EA_OF_STREAM, "accounts that the machine has no name of")                      \
    S(accounts_left, 126, EA_NOTICE, EA_OF_STREAM, "accounts not asked of: too many, or the session ended")            \
    /* the collector */                                                                                                \
    X(ingest_requests, 70, EA_INFO, EA_OF_COLLECTOR, "upload requests served")                                         \
    X(ingest_refused, 71, EA_NOTICE, EA_OF_COLLECTOR, "upload requests refused")                                       \
    X(ingest_refused_disk_full, 194, EA_NOTICE, EA_OF_COLLECTOR,                                                       \
      "upload requests refused since the disk of the store is full")                                                   \
    X(ingest_batches, 72, EA_INFO, EA_OF_COLLECTOR, "batches received and stored")                                     \
    X(ingest_duplicates, 73, EA_INFO, EA_OF_COLLECTOR, "batches received again, stored once")                          \
    X(ingest_conflicts, 74, EA_NOTICE, EA_OF_COLLECTOR, "batches whose number was taken by another content")           \
    X(ingest_bad_batches, 75, EA_LOSS, EA_OF_COLLECTOR, "batches refused because they contradict themselves")          \
    X(ingest_bad_checksums, 85, EA_LOSS, EA_OF_COLLECTOR,                                                              \
      "batches refused because their records do not give their checksum")                                              \
    X(ingest_handshakes, 86, EA_INFO, EA_OF_COLLECTOR, "TLS handshakes that ended well")                               \
    X(ingest_resumed, 87, EA_INFO, EA_OF_COLLECTOR, "TLS handshakes that took a session up again")                     \
    X(ingest_paced_seconds, 105, EA_NOTICE, EA_OF_COLLECTOR,                                                           \
      "seconds that uploads and the state waited to keep to cpu-percent")                                              \
    X(ingest_identities_twice, 88, EA_NOTICE, EA_OF_COLLECTOR, "uploads of an identity that two agents use at a time") \
    X(store_events, 76, EA_INFO, EA_OF_COLLECTOR, "events stored")                                                     \
    X(store_bytes, 77, EA_INFO, EA_OF_COLLECTOR, "bytes of batches stored")                                            \
    X(store_torn_bytes, 78, EA_NOTICE, EA_OF_COLLECTOR,                                                                \
      "bytes of a torn tail cut off after a crash; never acknowledged")                                                \
    X(state_records, 79, EA_INFO, EA_OF_COLLECTOR, "records folded into the machines' state")                          \
    X(state_late, 80, EA_NOTICE, EA_OF_COLLECTOR, "records that came too late for the fold and amended the history")   \
    X(state_missed_starts, 81, EA_NOTICE, EA_OF_COLLECTOR,                                                             \
      "ends of processes, threads or modules whose start was never seen")                                              \
    X(state_missed_ends, 82, EA_NOTICE, EA_OF_COLLECTOR,                                                               \
      "processes, threads or modules replaced without an end event")                                                   \
    X(state_evicted, 83, EA_NOTICE, EA_OF_COLLECTOR, "rows that a full state table gave up")                           \
    X(state_texts_left_out, 90, EA_NOTICE, EA_OF_COLLECTOR,                                                            \
      "names and command lines that a full state table left out")                                                      \
    X(state_keyframes, 91, EA_INFO, EA_OF_COLLECTOR, "keyframes compared with the state, whole")                       \
    X(state_keyframes_partial, 92, EA_NOTICE, EA_OF_COLLECTOR,                                                         \
      "keyframes of which parts were missing: nothing was closed by them")                                             \
    X(state_keyframe_added, 93, EA_NOTICE, EA_OF_COLLECTOR,                                                            \
      "processes, threads and modules that only a keyframe named")                                                     \
    X(state_keyframe_completed, 94, EA_NOTICE, EA_OF_COLLECTOR,                                                        \
      "processes, threads and modules that a keyframe completed")                                                      \
    X(state_keyframe_closed, 95, EA_NOTICE, EA_OF_COLLECTOR,                                                           \
      "processes, threads and modules closed since a keyframe lacked them")                                            \
    X(state_rundown_closed, 106, EA_NOTICE, EA_OF_COLLECTOR,                                                           \
      "processes, threads and modules closed since a rundown lacked them")                                             \
    X(state_failures, 119, EA_NOTICE, EA_OF_COLLECTOR,                                                                 \
      "times that a stream's state could not go on, to be tried again in a while")                                     \
    X(store_damaged_bytes, 84, EA_UNKNOWN, EA_OF_COLLECTOR,                                                            \
      "bytes of segment files that were stored whole and cannot be read any more")                                     \
    X(store_expired_events, 100, EA_INFO, EA_OF_COLLECTOR, "events deleted by retention, too old or too many")         \
    X(store_expired_bytes, 101, EA_INFO, EA_OF_COLLECTOR, "bytes of segment files deleted by retention")               \
    X(store_expired_segments, 102, EA_INFO, EA_OF_COLLECTOR, "segment files deleted by retention")                     \
    X(archived_events, 246, EA_INFO, EA_OF_COLLECTOR, "events written to the archive before retention deleted them")   \
    X(archive_missed_events, 247, EA_NOTICE, EA_OF_COLLECTOR,                                                          \
      "events that retention deleted though the archive does not have them")                                           \
    X(web_requests, 103, EA_INFO, EA_OF_COLLECTOR, "requests of browsers, scripts and monitoring")                     \
    X(web_refused, 104, EA_NOTICE, EA_OF_COLLECTOR, "requests of browsers, scripts and monitoring that were refused")  \
    X(web_limited, 154, EA_NOTICE, EA_OF_COLLECTOR, "refused requests whose address or token had sent too many")       \
    X(web_unread, 155, EA_NOTICE, EA_OF_COLLECTOR, "answers that ended early since their reader did not take them")    \
    X(web_unqueued, 245, EA_NOTICE, EA_OF_COLLECTOR,                                                                   \
      "signed requests to agents that were handed in with a token and refused")                                        \
    X(audit_held, 152, EA_NOTICE, EA_OF_COLLECTOR, "refusals of which the audit log has the number alone")             \
    X(audit_unwritten, 153, EA_NOTICE, EA_OF_COLLECTOR, "lines of the audit log that could not be written")            \
    X(enroll_granted, 107, EA_INFO, EA_OF_COLLECTOR, "certificates given to agents with a token")                      \
    X(enroll_renewed, 108, EA_INFO, EA_OF_COLLECTOR, "certificates given to agents with a certificate that ends soon") \
    X(enroll_refused, 109, EA_NOTICE, EA_OF_COLLECTOR, "requests for a certificate that were refused")                 \
    X(log_suppressed, 140, EA_NOTICE, EA_OF_COLLECTOR,                                                                 \
      "lines of the log that were suppressed since too many of their kind came")                                       \
    X(quota_refused_bytes, 160, EA_NOTICE, EA_OF_COLLECTOR,                                                            \
      "uploads refused since their agent was above its quota of bytes")                                                \
    X(quota_refused_received, 187, EA_NOTICE, EA_OF_COLLECTOR,                                                         \
      "reads and requests that waited: their agent sent more than its quota")                                          \
    X(quota_refused_batches, 161, EA_NOTICE, EA_OF_COLLECTOR,                                                          \
      "uploads refused since their agent was above its quota of batches")                                              \
    X(quota_refused_events, 162, EA_NOTICE, EA_OF_COLLECTOR,                                                           \
      "uploads refused since their agent was above its quota of events")                                               \
    X(quota_refused_processor, 163, EA_NOTICE, EA_OF_COLLECTOR,                                                        \
      "uploads refused since their agent was above its quota of processor time")                                       \
    X(quota_refused_streams, 164, EA_NOTICE, EA_OF_COLLECTOR,                                                          \
      "uploads refused since their agent was above its quota of new streams")                                          \
    X(quota_refused_classes, 165, EA_NOTICE, EA_OF_COLLECTOR,                                                          \
      "uploads refused since their agent was above its quota of new classes")                                          \
    X(quota_refused_tombstones, 166, EA_NOTICE, EA_OF_COLLECTOR,                                                       \
      "uploads refused since their agent was above its quota of tombstones")                                           \
    X(quota_refused_renewals, 167, EA_NOTICE, EA_OF_COLLECTOR,                                                         \
      "renewals of certificates refused since their agent was above its quota")                                        \
    X(quota_refused_uploads, 168, EA_NOTICE, EA_OF_COLLECTOR,                                                          \
      "uploads not read on since their agent was above its quota of memory")                                           \
    X(quota_refused_answers, 170, EA_NOTICE, EA_OF_COLLECTOR,                                                          \
      "questions refused since their reader was above its quota of processor time")                                    \
    X(quota_refused_downloads, 185, EA_NOTICE, EA_OF_COLLECTOR,                                                        \
      "requests refused since their reader was above its quota of bytes of answers")                                   \
    X(store_erased_bytes, 175, EA_INFO, EA_OF_COLLECTOR,                                                               \
      "bytes of batches deleted since their agent was above its share of the store")                                   \
    X(store_refused_full, 176, EA_NOTICE, EA_OF_COLLECTOR,                                                             \
      "uploads refused since the store is full of what is too young to be deleted")                                    \
    X(store_refused_streams, 177, EA_NOTICE, EA_OF_COLLECTOR,                                                          \
      "batches refused since too many streams of their agent are kept")                                                \
    X(store_refused_classes, 178, EA_NOTICE, EA_OF_COLLECTOR,                                                          \
      "batches refused since too many classes of their agent are kept")                                                \
    X(store_refused_tombstones, 179, EA_NOTICE, EA_OF_COLLECTOR,                                                       \
      "batches refused since too many tombstones of their agent are kept")                                             \
    X(store_refused_definitions, 183, EA_NOTICE, EA_OF_COLLECTOR,                                                      \
      "batches refused since too many bytes of definitions of their agent are kept")                                   \
    X(quota_names_dropped, 171, EA_NOTICE, EA_OF_COLLECTOR,                                                            \
      "agents and readers whose use was forgotten since too many have one")                                            \
    X(enroll_renewed_twice, 180, EA_NOTICE, EA_OF_COLLECTOR,                                                           \
      "renewals that were refused since another key was certified before")                                             \
    X(signer_ended, 181, EA_NOTICE, EA_OF_COLLECTOR, "times that the process that signs certificates ended")           \
    X(sinks_ended, 270, EA_NOTICE, EA_OF_COLLECTOR,                                                                    \
      "times that the process of a sink ended, and was to be started again")                                           \
    X(incidents_dropped, 182, EA_NOTICE, EA_OF_COLLECTOR,                                                              \
      "incidents that were not kept since 256 of the collector are open")                                              \
    X(rules_events, 200, EA_INFO, EA_OF_COLLECTOR,                                                                     \
      "events that Sigma rules were asked about, once for each log source")                                            \
    X(rules_matched, 201, EA_INFO, EA_OF_COLLECTOR, "new detections")                                                  \
    X(rules_left_out, 202, EA_NOTICE, EA_OF_COLLECTOR,                                                                 \
      "matches that were not kept since their rule has too many in the hour on their host")                            \
    X(rules_suppressed, 204, EA_INFO, EA_OF_COLLECTOR, "matches that a Sigma filter excepted")                         \
    X(rules_skipped, 203, EA_NOTICE, EA_OF_COLLECTOR,                                                                  \
      "batches that some Sigma rules were not asked about: they took too long, or could not be read")                  \
    X(rules_refused, 206, EA_NOTICE, EA_OF_COLLECTOR,                                                                  \
      "events that Sigma rules were not asked about since SQL refuses them")                                           \
    X(rules_correlations_cut, 207, EA_NOTICE, EA_OF_COLLECTOR,                                                         \
      "times that a Sigma correlation looked at a part of a group's matches: there are too many")                      \
    X(rules_matches_deleted, 208, EA_NOTICE, EA_OF_COLLECTOR,                                                          \
      "matches for Sigma correlations that were deleted since too many are kept")                                      \
    X(rules_waited, 205, EA_NOTICE, EA_OF_COLLECTOR,                                                                   \
      "times that Sigma rules left a stream for later: its agent was above its quota of processor time")               \
    /* the collector's listeners */                                                                                    \
    X(net_refused_connections, 141, EA_NOTICE, EA_OF_COLLECTOR, "connections refused: their address had too many")     \
    X(net_refused_handshakes, 142, EA_NOTICE, EA_OF_COLLECTOR,                                                         \
      "connections refused: their address had too many unfinished handshakes")                                         \
    X(net_refused_rates, 184, EA_NOTICE, EA_OF_COLLECTOR,                                                              \
      "connections refused: their address began too many TLS handshakes a second")                                     \
    X(net_evicted, 143, EA_NOTICE, EA_OF_COLLECTOR,                                                                    \
      "slow connections closed since a listener or their address had too many")                                        \
    X(net_late_handshakes, 144, EA_NOTICE, EA_OF_COLLECTOR, "connections closed: the TLS handshake took too long")     \
    X(net_late_heads, 145, EA_NOTICE, EA_OF_COLLECTOR, "connections closed: the head of a request took too long")      \
    X(net_slow_bodies, 146, EA_NOTICE, EA_OF_COLLECTOR, "connections closed: the body of a request came too slowly")   \
    X(net_idle, 147, EA_INFO, EA_OF_COLLECTOR, "connections closed after the time that they may be idle")              \
    X(net_refused_agents, 148, EA_NOTICE, EA_OF_COLLECTOR,                                                             \
      "connections closed: their agent had too many, or was refused")                                                  \
    X(net_accept_pauses, 149, EA_NOTICE, EA_OF_COLLECTOR, "times that a connection waited since a listener was full")  \
    X(net_accept_errors, 150, EA_NOTICE, EA_OF_COLLECTOR,                                                              \
      "times that the operating system gave no descriptor for a connection")                                           \
    X(net_refused_messages, 186, EA_NOTICE, EA_OF_COLLECTOR,                                                           \
      "connections closed: they sent too many TLS messages without a request")                                         \
    X(net_refused_bodies, 188, EA_NOTICE, EA_OF_COLLECTOR,                                                             \
      "connections closed: bodies of requests took too much memory")                                                   \
    X(ingest_upload_waits, 151, EA_NOTICE, EA_OF_COLLECTOR,                                                            \
      "times that an upload waited for memory, its agent's share or that of all")

enum ea_counter {

#define X(name, number, severity, part, text) EA_COUNT_##name,
    EA_COUNTERS(X, X, X)
#undef X
        EA_COUNTER_COUNT
};

typedef struct ea_counters {
    _Atomic uint64_t values[EA_COUNTER_COUNT];
} ea_counters;

typedef struct ea_counter_info {
    const char *name;
    uint32_t number; /* on the wire */
    enum ea_severity severity;
    enum ea_counter_part part;
    enum ea_metric_type type;
    int is_news; /* a change of it travels even if no event does */
    const char *text;
} ea_counter_info;

static inline void ea_count(ea_counters *c, enum ea_counter which, uint64_t by) {
    atomic_fetch_add_explicit(&c->values[which], by, memory_order_relaxed);
}

/* For counters that are states (pending, spooled): takes away. */
static inline void ea_uncount(ea_counters *c, enum ea_counter which, uint64_t by) {
    atomic_fetch_sub_explicit(&c->values[which], by, memory_order_relaxed);
}

static inline uint64_t ea_counter_get(const ea_counters *c, enum ea_counter which) {
    return atomic_load_explicit(&c->values[which], memory_order_relaxed);
}

/* The row of a counter. */
const ea_counter_info *ea_counter_row(enum ea_counter which);
/* The counter of a number on the wire; EA_COUNTER_COUNT: this version has none. */
enum ea_counter ea_counter_of_number(uint64_t number);

#endif
