/* The second session. See rundown.h. */
#include "service/etw/rundown.h"

#include "proto/base/platform.h"
#include "proto/base/provider_guids.h"
#include "service/etw/event_record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MS_NS = 1000000, BEGIN_NS = (int64_t)2 * 1000000000, END_NS = (int64_t)10 * 1000000000;

enum { BUFFER_BYTES = 256 << 10, BUFFERS = 64 };

/* The rundown's records: of each class the opcodes from low to high. Source: Windows' MOF classes of these names. */
static const struct {
    ea_guid provider;
    uint8_t low, high;
} RUNDOWNS[] = {
    {EA_PROVIDER_PROCESS, 3, 3},     /* Process/DCStart */
    {EA_PROVIDER_THREAD, 3, 3},      /* Thread/DCStart */
    {EA_PROVIDER_IMAGE, 3, 3},       /* Image/DCStart */
    {EA_PROVIDER_FILE_IO, 36, 36},   /* FileRundown */
    {EA_PROVIDER_REGISTRY, 24, 25},  /* KCBRundown */
    {EA_PROVIDER_EVENT_TRACE, 8, 8}, /* RDComplete */
};

struct ea_rundown {
    ea_rundown_options o;
    char name[EA_SESSION_NAME_MAX + 16];
    ea_session_config config;
    ea_session session;
    EVENT_TRACE_LOGFILEW logfile;
    TRACEHANDLE handle;
    ea_thread *trace;
    int64_t began_ns, stopped_ns; /* stopped_ns 0: it still runs */
    int is_over;
    atomic_int runs;        /* Windows delivered an event */
    atomic_int traced;      /* ProcessTrace came back */
    atomic_int is_hopeless; /* the callback no longer waits for room in the ring */
    _Atomic uint64_t records;
};

static void rundown_log_line(const ea_rundown *r, const char *format, ...) EA_PRINTF(2, 3);

static void rundown_log_line(const ea_rundown *r, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    r->o.note(r->o.note_arg, line);
}

static void rundown_pass_note(void *arg, const char *text) {
    rundown_log_line(arg, "rundown: %s", text);
}

int ea_rundown_is_wanted(const ea_session_config *session) {
    ea_strings flags;
    ea_session_rundown_flags(session, &flags);
    return flags.count != 0;
}

/* ---- ProcessTrace's thread ---- */

static int rundown_is_of_rundown(const ea_event_record *e) {
    for (size_t i = 0; i < sizeof RUNDOWNS / sizeof *RUNDOWNS; i++)
        if (e->opcode >= RUNDOWNS[i].low && e->opcode <= RUNDOWNS[i].high &&
            ea_guid_equal(&e->provider, &RUNDOWNS[i].provider))
            return 1;
    return 0;
}

/* The session is stopped, or soon will be: that it waits here costs nothing but its own buffers. */
static void rundown_wait_for_room(ea_rundown *r) {
    while (ea_ring_used(r->o.ring) > EA_RUNDOWN_RING_BYTES / 2 && !atomic_load(&r->is_hopeless))
        ea_sleep_ns(MS_NS);
}

static void WINAPI rundown_on_event(EVENT_RECORD *event) {
    ea_rundown *r = event->UserContext;
    const ea_event_record *e = (const ea_event_record *)(const void *)event;
    atomic_store(&r->runs, 1);
    if (!rundown_is_of_rundown(e))
        return;
    rundown_wait_for_room(r);
    atomic_fetch_add_explicit(&r->records, 1, memory_order_relaxed);
    (void)ea_event_put(r->o.ring, e); /* the ring counts dropped records */
}

static void rundown_trace_main(void *arg) {
    ea_rundown *r = arg;
    ULONG error = r->session.api->ProcessTrace(&r->handle, 1, NULL, NULL);
    if (error && error != ERROR_CANCELLED)
        rundown_log_line(r, "rundown: ProcessTrace ended with error %lu", error);
    atomic_store(&r->traced, 1);
}

/* ---- the supervisor's thread ---- */

static int rundown_open_trace(ea_rundown *r, ea_err *err) {
    r->logfile.LoggerName = r->session.name;
    r->logfile.ProcessTraceMode =
        PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    r->logfile.EventRecordCallback = rundown_on_event;
    r->logfile.Context = r;
    r->handle = r->session.api->OpenTraceW(&r->logfile);
    if (r->handle == INVALID_PROCESSTRACE_HANDLE) {
        ULONG error = GetLastError();
        return ea_fail_os(err, ea_etw_code(error), (int)error, "open session %s", r->name);
    }
    int rc = ea_thread_start(&r->trace, "rundown", rundown_trace_main, r, err);
    if (rc)
        r->session.api->CloseTrace(r->handle);
    return rc;
}

static int rundown_start(ea_rundown *r, ea_err *err) {
    const ea_session_config *of = r->o.session;
    snprintf(r->name, sizeof r->name, "%.*s-rundown", EA_SESSION_NAME_MAX, of->name);
    r->config = (ea_session_config){.name = r->name,
                                    .kind = EA_SESSION_SYSTEM,
                                    .clock = r->o.clock, /* its events are merged with those of the first session */
                                    .buffer_bytes = BUFFER_BYTES,
                                    .min_buffers = BUFFERS,
                                    .max_buffers = BUFFERS,
                                    .flush_ns = 1000 * MS_NS,
                                    .per_processor = 1,
                                    .independent = 1};
    ea_session_rundown_flags(of, &r->config.flags);
    int rc = ea_session_init(&r->session, &r->config, r->o.counters, rundown_pass_note, r, err);
    if (!rc)
        rc = ea_session_start(&r->session, err);
    if (!rc && (rc = rundown_open_trace(r, err)))
        ea_session_stop(&r->session);
    return rc;
}

void ea_rundown_begin(ea_rundown **ret, const ea_rundown_options *options) {
    ea_err err = {0};
    ea_rundown *r = calloc(1, sizeof *r);
    *ret = NULL;
    if (r) {
        r->o = *options;
        r->began_ns = ea_monotonic_ns();
        if (!rundown_start(r, &err)) {
            ea_session_flush(&r->session);
            *ret = r;
            return;
        }
        rundown_log_line(r, "rundown of existing objects failed: %s", err.message);
    }
    ea_count(options->counters, EA_COUNT_source_rundown_failures, 1);
    free(r);
}

/* Windows writes the rundown of its end meanwhile. */
static void rundown_stop(ea_rundown *r) {
    EA_ASSERT(!r->stopped_ns && !r->is_over);
    ea_session_stop(&r->session);
    r->stopped_ns = ea_monotonic_ns();
    ea_count(r->o.counters, EA_COUNT_source_events_lost, r->session.now.p.EventsLost);
    ea_count(r->o.counters, EA_COUNT_source_buffers_lost,
             (uint64_t)r->session.now.p.LogBuffersLost + r->session.now.p.RealTimeBuffersLost);
    if (r->session.now.p.EventsLost)
        rundown_log_line(r, "rundown: Windows lost %lu events of it", r->session.now.p.EventsLost);
}

static void rundown_finish(ea_rundown *r) {
    EA_ASSERT(r->stopped_ns && !r->is_over);
    int is_whole = atomic_load(&r->traced);
    atomic_store(&r->is_hopeless, 1);
    r->session.api->CloseTrace(r->handle); /* if ProcessTrace still runs, it returns soon after this */
    ea_thread_join(r->trace);
    r->is_over = 1;
    ea_count(r->o.counters, is_whole ? EA_COUNT_source_rundowns : EA_COUNT_source_rundown_failures, 1);
    ea_count(r->o.counters, EA_COUNT_source_rundown_records, atomic_load(&r->records));
    rundown_log_line(r, "%" PRIu64 " records of objects that existed before it%s", atomic_load(&r->records),
                     is_whole ? "" : "; the rest did not come in time");
}

int ea_rundown_look(ea_rundown *r) {
    int64_t now_ns = ea_monotonic_ns();
    if (!r->is_over && !r->stopped_ns &&
        (atomic_load(&r->runs) || atomic_load(&r->traced) || now_ns - r->began_ns >= BEGIN_NS))
        rundown_stop(r);
    if (!r->is_over && r->stopped_ns && (atomic_load(&r->traced) || now_ns - r->stopped_ns >= END_NS))
        rundown_finish(r);
    return r->is_over;
}

uint64_t ea_rundown_end(ea_rundown *r) {
    if (!r->stopped_ns)
        rundown_stop(r);
    if (!r->is_over)
        rundown_finish(r);
    uint64_t records = atomic_load(&r->records);
    free(r);
    return records;
}
