/* The agent: runs the sources and sessions of a configuration until it is asked to stop. A part that cannot run now (a
 * missing certificate, a missing trace, a full disk, no collector) is logged once and tried again; no such failure ends
 * the agent.
 *
 *     main thread: starts what is missing, reads the configuration again when asked, writes the status file
 *     a thread for each source (source_task.h), its encoders, one sender
 *
 *                 a configuration                    request to stop
 *     "waiting" ──────────────────▶ "running" ◀──┐ ────────────────▶ sources end, batches are sent ──▶ "stopped"
 *       ▲    │                           └───────┘                   (for three seconds)
 *       └────┘ none can be read, and         reload: changed parts are restarted; or the new
 *              with wait_for_config          configuration is refused, and nothing changes
 *
 * Called by: "etwagent run", the service. Calls: ingest_session.h, service/spool, service/ship. */
#ifndef EA_CORE_AGENT_H
#define EA_CORE_AGENT_H

#include "proto/base/platform.h"

#include <stdatomic.h>
#include <stddef.h>

/* Requests to a running agent; any thread or a signal handler may set them. */
typedef struct ea_agent_control {
    atomic_int stop;
    atomic_int no_drain; /* with stop: batches on disk are not sent before it ends */
    atomic_int reload;   /* read the configuration again; the agent resets it to 0, and the two below, too */
    atomic_int flush;    /* sync the spool to the disk, and send without a pause */
    atomic_int status;   /* write the status file now */
    atomic_uint beats;   /* the main thread increments it in each round, for a watchdog */
    ea_wake *wake;       /* set after a request, so that it is seen at once; NULL: it is seen within a second */
} ea_agent_control;

/* Makes the request `what`, a field of control. Thread: any, and signal handlers. */
void ea_agent_request(ea_agent_control *control, atomic_int *what);

struct ea_agent_config;

typedef struct ea_agent_options {
    const char *config_path;
    ea_agent_control *control;
    int wait_for_config; /* a service: wait for a configuration that can be read and has sources or sessions */
    int log_by_default;  /* without "service.log" the folder for state has a log file */
    /* Called before the configuration is read, at the start and at each reload; if it fails, the configuration cannot
     * be read. May be NULL. */
    int (*check_config)(const char *path, ea_err *err);
    void *arg;
    /* The main thread calls them; both may be NULL. The status is one JSON object, borrowed for the call. */
    void (*on_status)(void *arg, const char *json, size_t len_bytes);
    void (*on_config)(void *arg, const struct ea_agent_config *config); /* at the start and after each reload */
} ea_agent_options;

/* The keys of a status, for a person: part of the help of "etwagent status". */
#define EA_AGENT_STATUS_TEXT                                                                                           \
    "JSON keys: state, version, pid, configuration, started_utc_ns, written_utc_ns, every_ns, reloads, "               \
    "reloads_refused,\nsources [name, state, stream, progress_permille, batches, ledger_balanced, error, and "         \
    "counters: events_delivered,\nevents_synthesised, events_acknowledged, events_pending, events_compressing, "       \
    "events_spooled, events_unanswered,\nevents_evicted_size, events_evicted_age, events_evicted_damage, "             \
    "events_evicted_refused, events_dropped_oversize,\nevents_filtered, events_sampled_out, events_limited, "          \
    "events_repeated, events_aggregated, events_redacted, watch_skipped, watch_others, watch_dropped, "                \
    "watch_shipped,\n"                                                                                                 \
    "source_held_seconds, source_paced_seconds, events_unrecorded; of a session with a recorder also recorder "        \
    "{batches, "                                                                                                       \
    "events,\ndisk_bytes, limit_bytes, first_utc_ns, events_recorded, events_removed_size, events_removed_age, "       \
    "recorder_files_removed,\nrecorder_earlier_removed, spool_torn_bytes, spool_bad_bytes, triggers_fired, "           \
    "triggers_limited, events_triggered,\nbatches_untriggered, windows_untriggered}; of channels of the event log "    \
    "also channels,\n"                                                                                                 \
    "source_records_missing, source_bad_records, source_parts_refused; of an ETW session also session {name, runs,\n"  \
    "logger, buffer_bytes, min_buffers,\nmax_buffers, buffers, free_buffers, mode, "                                   \
    "flush_seconds, clock, file_mib, starts, ended_by_others, grown, rundowns,\nrundown_events, events, "              \
    "written_buffers, lost_events, lost_buffers, dropped_events, refused_counters, refused_parts,\nring_used_bytes, "  \
    "decode_asked, decode_unanswered, images_asked, images_told, images_read, images_cached, images_absent,\n"         \
    "images_refused, images_unreadable, images_other, images_left_full, images_left_end, "                             \
    "accounts_asked,\naccounts_named, accounts_unnamed, accounts_left}], spool {batches, "                             \
    "disk_bytes,\nspool_torn_bytes, spool_bad_bytes, spool_locked_events, error}, shipping {requests, failures, "      \
    "sent_bytes, collector,\nbatches_sent, batches_refused, collector_moves, shipping_held_seconds, error}, "          \
    "remote {accepts,\nrequests_accepted, requests_refused_malformed, requests_refused_key, "                          \
    "requests_refused_signature,\nrequests_refused_host, requests_refused_replayed, requests_refused_reordered, "      \
    "requests_refused_expired,\nrequests_refused_policy, requests_refused_limits, error}, "                            \
    "enrolment {state, until_utc_ns,\nerror}, ledger_balanced. While it waits for its configuration: the first "       \
    "seven, error and ledger_balanced. trouble is the old name of error, until version 0.2."

/* Runs until control->stop. Returns 0 then, or at the start: what ea_config_read says of the file (EA_EFORMAT: its
 * mistakes are printed), EA_ENOMEM, EA_EUSAGE when there is nothing that could run. The main thread. */
EA_MUST_CHECK int ea_agent_run(const ea_agent_options *options, ea_err *err);

#endif
