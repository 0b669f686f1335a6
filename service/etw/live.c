/* A session of this program, kept running, as a source. See live.h. */
#include "service/etw/live.h"

#include "proto/base/platform.h"
#include "service/etw/event_record.h"
#include "service/etw/machine_facts.h"
#include "service/etw/rundown.h"
#include "service/etw/session.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MS_NS = 1000000, SECOND_NS = 1000000000, LOOK_NS = 250000000, STEP_NS = 200000000,
                     PAIR_NS = (int64_t)10 * 1000000000, PAIR_OFF_NS = 1000000, FIRST_RETRY_NS = 100000000,
                     LAST_RETRY_NS = (int64_t)30 * 1000000000, STEADY_NS = (int64_t)30 * 1000000000,
                     RUNDOWN_WAIT_NS = (int64_t)10 * 1000000000, CONSUMER_NS = (int64_t)2 * 1000000000;

enum { RING_MIN_BYTES = 1 << 20, RING_MAX_BYTES = 256 << 20, WAIT_MAX_MS = 16, PAIR_TRIES = 5, LATE_MAX_S = 60 };

_Static_assert(sizeof(EVENT_RECORD) == sizeof(ea_event_record) &&
                   offsetof(EVENT_RECORD, BufferContext) == offsetof(ea_event_record, cpu) &&
                   offsetof(EVENT_RECORD, UserContext) == offsetof(ea_event_record, context),
               "event_record.h");

typedef struct live {
    ea_source base; /* first member */
    ea_live_options o;
    ea_ring *ring;         /* in: the trace's thread; out: the source's */
    ea_ring *rundown_ring; /* in: the rundown's thread; NULL: not needed */
    ea_wire_source row;
    char host[256], name[EA_SESSION_NAME_MAX + 32];
    ea_thread *supervisor;
    atomic_int stop; /* the source was asked to end */
    atomic_int over; /* no more records will be put into the ring */
    ea_mutex *lock;
    ea_cond *wake;         /* the supervisor waits for it */
    ea_live_status status; /* lock */
    ea_clock clock;        /* with its newest pair; only the supervisor changes it; lock */
    int clock_is_new;      /* the source's thread has not taken it yet; lock */

    /* the supervisor's, after its thread was started */
    ea_session session;
    ea_rundown *rundown; /* NULL: none runs */
    ea_thread *trace;
    atomic_int traced;             /* ProcessTrace returned */
    _Atomic int64_t wait_until_ns; /* until when the callback may wait; 0: it may not */
    int64_t start_until_ns;        /* wait_until_ns at the session's start; set before the trace's thread */
    TRACEHANDLE trace_handle;
    EVENT_TRACE_LOGFILEW logfile;
    int64_t looked_ns, flushed_ns, captured_ns, seen_utc_ns, seen_mono_ns, paired_ns;
    int is_first_capture_due;
    uint64_t delivered_before;  /* events at the last start */
    int64_t began_ns, pause_ns; /* time of the last start; pause before the next start */
    uint32_t seen_events, seen_log_buffers, seen_realtime_buffers, seen_written; /* of this start of the session */

    _Atomic uint64_t delivered; /* written by the callback */
    _Atomic uint64_t rundown_delivered;

    /* the source's thread */
    unsigned wait_ms;
    int rundown_turn;
    uint64_t rundown_taken; /* records of that ring */
    uint64_t next_position;
    int64_t youngest_raw;
} live;

static void live_log_line(const live *l, const char *format, ...) EA_PRINTF(2, 3);

static void live_log_line(const live *l, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (l->o.on_note)
        l->o.on_note(l->o.on_note_arg, line);
}

static void live_pass_note(void *arg, const char *text) {
    live_log_line(arg, "%s", text);
}

/* ---- ProcessTrace's thread ---- */

/* An eighth of the capacity of Windows' buffers. */
static size_t ring_bytes(const ea_session_config *c) {
    uint64_t wanted = c->max_buffers * c->buffer_bytes / 8;
    size_t bytes = RING_MIN_BYTES;
    while (bytes < wanted && bytes < RING_MAX_BYTES)
        bytes *= 2;
    return bytes;
}

/* The rundown at a session's start and end, and the buffers of a stopped session, are delivered in one burst. The
 * callback may wait in such a burst: Windows' buffers have eight times the capacity of the ring. */
static void live_wait_for_room(const live *l, int64_t until_ns) {
    while (ea_ring_used(l->ring) > ring_bytes(l->o.session) / 2 && ea_monotonic_ns() < until_ns)
        ea_sleep_ns(MS_NS);
}

/* 1 for EventTrace/RDComplete, which follows the rundown at the start of a kernel session. Source: the MOF class
 * EventTrace_Event. */
static int is_complete(const EVENT_RECORD *e) {
    static const GUID EVENT_TRACE = {0x68fdd900, 0x4a3e, 0x11d1, {0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3}};

    enum { RD_COMPLETE = 8 };

    return e->EventHeader.EventDescriptor.Opcode == RD_COMPLETE &&
           memcmp(&e->EventHeader.ProviderId, &EVENT_TRACE, sizeof EVENT_TRACE) == 0;
}

static void WINAPI live_on_event(EVENT_RECORD *e) {
    live *l = e->UserContext;
    int64_t wait_until_ns = atomic_load_explicit(&l->wait_until_ns, memory_order_relaxed);
    if (wait_until_ns) {
        live_wait_for_room(l, wait_until_ns);
        int64_t start_until_ns = l->start_until_ns;
        if (is_complete(e)) /* ends the wait of the start, not that of a stop */
            atomic_compare_exchange_strong(&l->wait_until_ns, &start_until_ns, 0);
    }
    atomic_store_explicit(&l->delivered, atomic_load_explicit(&l->delivered, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    (void)ea_event_put(l->ring, (const ea_event_record *)(const void *)e); /* the ring counts dropped records */
}

static void live_trace_main(void *arg) {
    live *l = arg;
    ULONG error = l->session.api->ProcessTrace(&l->trace_handle, 1, NULL, NULL);
    if (error && error != ERROR_CANCELLED)
        live_log_line(l, "ProcessTrace ended with error %lu", error);
    atomic_store(&l->traced, 1);
    ea_mutex_lock(l->lock);
    ea_cond_signal(l->wake);
    ea_mutex_unlock(l->lock);
}

/* ---- the supervisor ---- */

static int64_t ticks_now(uint32_t clock_type) {
    LARGE_INTEGER counter;
    if (clock_type != EA_CLOCK_QPC)
        return ea_machine_cycles();
    QueryPerformanceCounter(&counter);
    return counter.QuadPart;
}

/* Takes a raw time and the UTC at that moment. Of PAIR_TRIES tries it keeps the pair with the least time between the
 * two reads of the ticks. */
static void live_take_pair(ea_clock *c) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < PAIR_TRIES; i++) {
        int64_t before = ticks_now(c->type), utc_ns = ea_utc_ns(), took = ticks_now(c->type) - before;
        if (took >= least)
            continue;
        least = took;
        c->base_utc_ns = utc_ns;
        c->base_raw = c->type == EA_CLOCK_SYSTEM_TIME ? ea_utc_ns_to_filetime(utc_ns) : before + took / 2;
    }
}

/* The session's clock: that of an adopted session may differ from the configuration. It is in the consumer's header
 * (ReservedFlags; TRACE_LOGFILE_HEADER) and in the session's properties. */
static uint32_t live_clock_of(const live *l) {
    const ULONG types[] = {l->logfile.LogfileHeader.ReservedFlags, l->session.now.p.Wnode.ClientContext};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i] >= EA_CLOCK_QPC && types[i] <= EA_CLOCK_CPU_CYCLES)
            return types[i];
    return (uint32_t)l->o.session->clock + 1;
}

/* How raw times of this session are converted to UTC: the clock from Windows' header, and a pair taken now. */
static void read_clock(live *l) {
    const TRACE_LOGFILE_HEADER *h = &l->logfile.LogfileHeader;
    LARGE_INTEGER frequency;
    QueryPerformanceFrequency(&frequency);
    ea_clock *c = &l->clock;
    c->type = live_clock_of(l);
    if (c->type == EA_CLOCK_QPC)
        c->frequency = (uint64_t)(h->PerfFreq.QuadPart > 0 ? h->PerfFreq.QuadPart : frequency.QuadPart);
    else if (c->type == EA_CLOCK_SYSTEM_TIME)
        c->frequency = 10000000;
    else
        c->frequency = ea_machine_cycle_frequency();
    live_take_pair(c);
    l->row.clock = *c;
    l->seen_utc_ns = c->base_utc_ns;
    l->seen_mono_ns = l->paired_ns = ea_monotonic_ns();
}

/* What a file's header says of the machine comes from the machine: in the header of a real-time session the pointer
 * size is 4 on x64, the boot time and the processors' frequency may be 0, and the build may be an older one. Source:
 * PerfView, ETWTraceEventSource.cs. */
static void fill_row(live *l) {
    const TRACE_LOGFILE_HEADER *h = &l->logfile.LogfileHeader;
    ea_machine_facts machine;
    ea_machine_facts_read(&machine);
    ea_host_name(l->host, sizeof l->host);
    l->row.name = l->name;
    l->row.host = l->host;
    l->row.boot_filetime = machine.boot_filetime;
    l->row.pointer_size = machine.pointer_size;
    l->row.cpu_count = machine.cpu_count;
    l->row.os_version = machine.os_version;
    l->row.os_build = machine.os_build;
    l->row.log_file_mode = l->session.now.p.LogFileMode;
    l->row.logger = (uint32_t)l->session.handle & 0xffff;
    l->row.bias_minutes = h->TimeZone.Bias;
}

static void note_status(live *l, int runs) {
    const EVENT_TRACE_PROPERTIES *p = &l->session.now.p;
    ea_mutex_lock(l->lock);
    ea_live_status *s = &l->status;
    s->runs = runs;
    s->logger = (uint32_t)p->Wnode.HistoricalContext & 0xffff;
    s->buffer_bytes = (uint64_t)p->BufferSize * 1024;
    s->min_buffers = p->MinimumBuffers;
    s->max_buffers = p->MaximumBuffers;
    s->buffers = p->NumberOfBuffers;
    s->free_buffers = p->FreeBuffers;
    s->mode = p->LogFileMode;
    s->flush_seconds = p->FlushTimer;
    s->clock = p->Wnode.ClientContext;
    s->file_mib = p->MaximumFileSize;
    ea_mutex_unlock(l->lock);
}

/* Adds the losses since the last call to the counters and returns their number. Windows' numbers are 32-bit and start
 * at 0 with the session. An adopted session has earlier losses, which are not counted. */
static uint64_t live_take_losses(live *l) {
    const EVENT_TRACE_PROPERTIES *p = &l->session.now.p;
    uint32_t events = (uint32_t)p->EventsLost - l->seen_events;
    uint32_t buffers = ((uint32_t)p->LogBuffersLost - l->seen_log_buffers) +
                       ((uint32_t)p->RealTimeBuffersLost - l->seen_realtime_buffers);
    uint32_t written = (uint32_t)p->BuffersWritten - l->seen_written;
    l->seen_events = p->EventsLost;
    l->seen_log_buffers = p->LogBuffersLost;
    l->seen_realtime_buffers = p->RealTimeBuffersLost;
    l->seen_written = p->BuffersWritten;
    ea_count(l->o.counters, EA_COUNT_source_events_lost, events);
    ea_count(l->o.counters, EA_COUNT_source_buffers_lost, buffers);
    ea_mutex_lock(l->lock);
    l->status.written_buffers += written;
    ea_mutex_unlock(l->lock);
    if (events || buffers)
        live_log_line(l, "Windows lost %" PRIu32 " events and %" PRIu32 " buffers", events, buffers);
    return (uint64_t)events + buffers;
}

static int live_open_trace(live *l, ea_err *err) {
    memset(&l->logfile, 0, sizeof l->logfile);
    l->logfile.LoggerName = l->session.name;
    l->logfile.ProcessTraceMode =
        PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
    l->logfile.EventRecordCallback = live_on_event;
    l->logfile.Context = l;
    l->trace_handle = l->session.api->OpenTraceW(&l->logfile);
    if (l->trace_handle == INVALID_PROCESSTRACE_HANDLE) {
        ULONG error = GetLastError();
        return ea_fail_os(err, ea_etw_code(error), (int)error, "open session %s", l->o.session->name);
    }
    atomic_store(&l->traced, 0);
    return 0;
}

/* ---- existing objects: the rundown ---- */

static void live_begin_rundown(live *l) {
    EA_ASSERT(!l->rundown);
    if (l->rundown_ring)
        ea_rundown_begin(&l->rundown, &(ea_rundown_options){.session = l->o.session,
                                                            .clock = (int)l->clock.type - 1,
                                                            .ring = l->rundown_ring,
                                                            .counters = l->o.counters,
                                                            .note = live_pass_note,
                                                            .note_arg = l});
}

static void end_rundown(live *l) {
    if (!l->rundown)
        return;
    uint64_t records = ea_rundown_end(l->rundown);
    l->rundown = NULL;
    atomic_fetch_add_explicit(&l->rundown_delivered, records, memory_order_relaxed);
    ea_mutex_lock(l->lock);
    l->status.rundowns++;
    l->status.rundown_records += records;
    ea_mutex_unlock(l->lock);
}

static void look_at_rundown(live *l) {
    if (l->rundown && ea_rundown_look(l->rundown))
        end_rundown(l);
}

/* 1 when the session starts with a rundown of the existing processes, threads or images. */
static int tells_start(const live *l) {
    uint32_t masks[8] = {0};
    ea_session_masks(l->o.session, masks);
    return (masks[0] & 7) != 0;
}

/* Ends the wait for the start's rundown after RUNDOWN_WAIT_NS. */
static void end_rundown_wait(live *l) {
    int64_t until_ns = l->start_until_ns;
    if (until_ns && ea_monotonic_ns() >= until_ns)
        atomic_compare_exchange_strong(&l->wait_until_ns, &until_ns, 0);
}

static void first_capture(live *l) {
    l->is_first_capture_due = 0;
    l->captured_ns = ea_monotonic_ns();
    ea_session_capture_first(&l->session);
}

/* The first request for providers' state follows the first event, which shows that ProcessTrace runs, or CONSUMER_NS.
 */
static void look_at_first_capture(live *l) {
    uint64_t delivered = atomic_load_explicit(&l->delivered, memory_order_relaxed);
    if (l->is_first_capture_due && l->session.handle &&
        (delivered != l->delivered_before || ea_monotonic_ns() - l->began_ns >= CONSUMER_NS))
        first_capture(l);
}

/* Starts the session, and the thread that ProcessTrace needs. */
static int live_begin(live *l, int is_first, ea_err *err) {
    EA_ASSERT(!l->trace && !l->rundown); /* a session that ran before was ended */
    int realtime = l->o.session->output != EA_OUTPUT_FILE;
    int rc = ea_session_start(&l->session, err);
    if (rc)
        return rc;
    l->start_until_ns = tells_start(l) ? ea_monotonic_ns() + RUNDOWN_WAIT_NS : 0;
    atomic_store(&l->wait_until_ns, l->start_until_ns);
    l->seen_events = l->session.had_events;
    l->seen_log_buffers = l->session.had_log_buffers;
    l->seen_realtime_buffers = l->session.had_realtime_buffers;
    l->seen_written = l->session.had_written;
    l->delivered_before = atomic_load_explicit(&l->delivered, memory_order_relaxed);
    if (realtime)
        rc = live_open_trace(l, err);
    if (!rc && is_first) {
        read_clock(l);
        fill_row(l);
    }
    if (!rc && realtime && (rc = ea_thread_start(&l->trace, "trace", live_trace_main, l, err)))
        l->session.api->CloseTrace(l->trace_handle);
    if (rc) {
        ea_session_stop(&l->session);
        return rc;
    }
    note_status(l, 1);
    ea_mutex_lock(l->lock);
    l->status.starts = l->session.starts;
    ea_mutex_unlock(l->lock);
    l->began_ns = ea_monotonic_ns();
    l->is_first_capture_due = 1;
    if (!realtime)
        first_capture(l);
    live_begin_rundown(l);
    return 0;
}

/* Ends what begin() started; delivers the events that are still in Windows' buffers. */
static void live_end(live *l) {
    int had = l->session.handle != 0;
    end_rundown(l);
    atomic_store(&l->wait_until_ns, ea_monotonic_ns() + RUNDOWN_WAIT_NS);
    ea_session_stop(&l->session);
    if (had)
        (void)live_take_losses(l);
    if (l->trace) {
        int64_t until = ea_monotonic_ns() + RUNDOWN_WAIT_NS;
        ea_mutex_lock(l->lock);
        while (!atomic_load(&l->traced) && ea_monotonic_ns() < until)
            ea_cond_wait_for(l->wake, l->lock, LOOK_NS);
        ea_mutex_unlock(l->lock);
        l->session.api->CloseTrace(l->trace_handle); /* if ProcessTrace still runs, it returns soon after this */
        ea_thread_join(l->trace);
        l->trace = NULL;
    }
    note_status(l, 0);
}

/* Replaces the pair in use with a current one, unless the old pair is still accurate to PAIR_OFF_NS. */
static void renew_pair(live *l) {
    ea_clock c = l->clock;
    live_take_pair(&c);
    int64_t off_ns = c.base_utc_ns - ea_clock_to_utc_ns(&l->clock, c.base_raw);
    if (off_ns < PAIR_OFF_NS && off_ns > -PAIR_OFF_NS)
        return;
    ea_mutex_lock(l->lock);
    l->clock = c;
    l->clock_is_new = 1;
    ea_mutex_unlock(l->lock);
}

/* UTC drifts against the session's clock. Steps of the system clock are detected, counted in `source_clock_steps` and
 * logged. Events keep their raw time; batches closed later convert it with a newer pair. */
static void look_at_clock(live *l) {
    int64_t utc_ns = ea_utc_ns(), mono_ns = ea_monotonic_ns();
    int64_t step_ns = (utc_ns - l->seen_utc_ns) - (mono_ns - l->seen_mono_ns);
    int is_step = step_ns >= STEP_NS || step_ns <= -STEP_NS;
    l->seen_utc_ns = utc_ns;
    l->seen_mono_ns = mono_ns;
    if (is_step) {
        ea_count(l->o.counters, EA_COUNT_source_clock_steps, 1);
        live_log_line(l, "the system's clock was set by %.3f s; times of this session follow it",
                      (double)step_ns / 1e9);
    }
    if (!is_step && mono_ns - l->paired_ns < PAIR_NS)
        return;
    l->paired_ns = mono_ns;
    renew_pair(l);
}

/* After a loss: doubles the session's maximum number of buffers, up to the configuration's max_buffers. */
static void live_grow(live *l) {
    ea_err err = {0};
    uint32_t bound = (uint32_t)l->o.session->max_buffers, was = l->session.max_buffers;
    if (was >= bound)
        return;
    l->session.max_buffers = was > bound / 2 ? bound : was * 2;
    if (ea_session_grow(&l->session, &err)) {
        live_log_line(l, "%s", err.message);
        l->session.max_buffers = was;
        return;
    }
    ea_mutex_lock(l->lock);
    l->status.grown++;
    ea_mutex_unlock(l->lock);
    live_log_line(l, "it may have %" PRIu32 " buffers now", l->session.max_buffers);
}

/* Returns 0 when the session has ended. */
static int live_look(live *l) {
    if (atomic_load(&l->traced) || ea_session_query(&l->session, NULL))
        return 0;
    note_status(l, 1);
    if (live_take_losses(l))
        live_grow(l);
    look_at_clock(l);
    if (!l->is_first_capture_due)
        ea_session_capture(&l->session, ea_monotonic_ns(), &l->captured_ns);
    return 1;
}

static void wait_ns(live *l, int64_t ns) {
    ea_mutex_lock(l->lock);
    if (!atomic_load(&l->stop) && !atomic_load(&l->traced))
        ea_cond_wait_for(l->wake, l->lock, ns);
    ea_mutex_unlock(l->lock);
}

/* Waits before a restart. The first pause is 0, the next FIRST_RETRY_NS, then twice the last one, LAST_RETRY_NS at the
 * most. It grows after failed starts and after short runs. */
static void live_rest(live *l) {
    int64_t until_ns = ea_monotonic_ns() + l->pause_ns, left_ns;
    while (!atomic_load(&l->stop) && (left_ns = until_ns - ea_monotonic_ns()) > 0)
        wait_ns(l, left_ns < l->o.look_ns ? left_ns : l->o.look_ns); /* live_stop does not signal */
    l->pause_ns = !l->pause_ns ? FIRST_RETRY_NS : l->pause_ns > LAST_RETRY_NS / 2 ? LAST_RETRY_NS : 2 * l->pause_ns;
}

/* Another program ended the session: restarts it. The pause before it starts at 0 if the session had run for STEADY_NS,
 * else it grows (see live_rest). */
static void begin_again(live *l) {
    char last_error[sizeof((ea_err){0}).message] = "";
    live_log_line(l, "the session was ended by another program; it is started again");
    ea_count(l->o.counters, EA_COUNT_source_session_ends, 1);
    ea_mutex_lock(l->lock);
    l->status.steals++;
    ea_mutex_unlock(l->lock);
    if (ea_monotonic_ns() - l->began_ns >= STEADY_NS)
        l->pause_ns = 0;
    live_end(l);
    atomic_store(&l->traced, 0);
    for (live_rest(l); !atomic_load(&l->stop); live_rest(l)) {
        ea_err err = {0};
        if (!live_begin(l, 0, &err)) {
            live_log_line(l, "the session runs again");
            return;
        }
        ea_count(l->o.counters, EA_COUNT_source_starts_refused, 1);
        if (strcmp(last_error, err.message) != 0)
            live_log_line(l, "%s; it is tried again", err.message);
        memcpy(last_error, err.message, sizeof last_error);
    }
}

/* Logs the session's totals over all its starts. */
static void log_end(live *l) {
    ea_live_status s;
    ea_live_get_status(&l->base, &s);
    live_log_line(l,
                  "it ended after %" PRIu64 " events; Windows wrote %" PRIu64 " buffers and lost %" PRIu64
                  " events and %" PRIu64 " buffers; others ended it %" PRIu64 " times",
                  s.delivered, s.written_buffers, s.lost_events, s.lost_buffers, s.steals);
}

static void supervise(void *arg) {
    live *l = arg;
    /* Windows' own timer has a resolution of one second. Beside a file each flush writes partly filled buffers whole:
     * there Windows' timer is enough. */
    int is_own = l->o.session->flush_ns % SECOND_NS && l->o.session->output != EA_OUTPUT_BOTH;
    int64_t flush_ns = is_own ? l->o.session->flush_ns : INT64_MAX;
    int64_t step_ns = flush_ns < l->o.look_ns ? flush_ns : l->o.look_ns;
    while (!atomic_load(&l->stop)) {
        wait_ns(l, step_ns);
        int64_t now = ea_monotonic_ns();
        look_at_rundown(l);
        end_rundown_wait(l);
        look_at_first_capture(l);
        if (flush_ns != INT64_MAX && now - l->flushed_ns >= flush_ns) {
            l->flushed_ns = now;
            ea_session_flush(&l->session);
        }
        if (!atomic_load(&l->stop) && (atomic_load(&l->traced) || now - l->looked_ns >= l->o.look_ns)) {
            l->looked_ns = now;
            if (!live_look(l))
                begin_again(l);
        }
    }
    live_end(l);
    log_end(l);
    atomic_store(&l->over, 1);
}

/* ---- the source ---- */

/* Windows may deliver buffers of two processors in another order than that of their events, which is counted in
 * `source_late_records`. A difference of LATE_MAX_S or more is a step of the system's clock and is not counted here. */
static void note_order(live *l, const ea_record *r) {
    const int64_t late = LATE_MAX_S * (int64_t)l->row.clock.frequency, by = l->youngest_raw - r->time_raw;
    if (by > 0 && by < late)
        ea_count(l->o.counters, EA_COUNT_source_late_records, 1);
    else
        l->youngest_raw = r->time_raw;
}

/* The next record of the session's own ring. */
static int take_own(live *l, const ea_record **ret) {
    if (!ea_ring_take(l->ring, ret))
        return 0;
    note_order(l, *ret);
    return 1;
}

/* The next record of either ring, in turn. Positions number the records of both rings in the order of this function; a
 * record that the session's own ring dropped leaves a gap. */
static int live_take(live *l, const ea_record **ret) {
    if (!l->rundown_ring)
        return take_own(l, ret);
    for (int i = 0; i < 2; i++) {
        l->rundown_turn ^= 1;
        if (l->rundown_turn && ea_ring_take(l->rundown_ring, ret)) {
            ea_ring_renumber(l->rundown_ring, l->next_position++);
            l->rundown_taken++;
            return 1;
        }
        if (!l->rundown_turn && take_own(l, ret)) {
            l->next_position = (*ret)->position + l->rundown_taken + 1;
            ea_ring_renumber(l->ring, l->next_position - 1);
            return 1;
        }
    }
    return 0;
}

static int live_next(ea_source *source, const ea_record **ret, ea_err *err) {
    live *l = (live *)source;
    (void)err;
    int over = atomic_load(&l->over); /* read before the ring: all records until then are in it */
    if (live_take(l, ret)) {
        l->wait_ms = 0;
        return 1;
    }
    if (over)
        return 0;
    l->wait_ms = l->wait_ms ? l->wait_ms * 2 : 1;
    if (l->wait_ms > WAIT_MAX_MS)
        l->wait_ms = WAIT_MAX_MS;
    ea_sleep_ns((int64_t)l->wait_ms * MS_NS);
    return EA_SOURCE_NOTHING_YET;
}

static void live_stop(ea_source *source) {
    live *l = (live *)source;
    atomic_store(&l->stop, 1); /* the supervisor reads it after its next step; a signal handler may take no lock */
}

static void live_close(ea_source *source) {
    live *l = (live *)source;
    if (l->supervisor) {
        live_stop(source);
        ea_thread_join(l->supervisor);
    }
    ea_cond_destroy(l->wake);
    ea_mutex_destroy(l->lock);
    ea_ring_destroy(l->ring);
    ea_ring_destroy(l->rundown_ring);
    free(l);
}

static size_t live_count(const ea_source *source) {
    (void)source;
    return 1;
}

static const ea_wire_source *live_row(const ea_source *source, size_t which) {
    return which == 0 ? &((const live *)source)->row : NULL;
}

static double live_progress(const ea_source *source) {
    (void)source;
    return 0;
}

static int live_dropped(ea_source *source, ea_dropped *ret) {
    live *l = (live *)source;
    return ea_ring_dropped(l->ring, ret) || (l->rundown_ring && ea_ring_dropped(l->rundown_ring, ret));
}

static int live_clock(ea_source *source, size_t *ret_source, ea_clock *ret) {
    live *l = (live *)source;
    ea_mutex_lock(l->lock);
    int is_new = l->clock_is_new;
    l->clock_is_new = 0;
    if (is_new)
        l->row.clock = *ret = l->clock;
    ea_mutex_unlock(l->lock);
    *ret_source = 0;
    return is_new;
}

static void live_to_utf8(const WCHAR *wide, char *out, size_t capacity) {
    if (!WideCharToMultiByte(CP_UTF8, 0, wide, -1, out, (int)capacity, NULL, NULL))
        out[0] = 0;
}

int ea_live_is_possible(void) {
    return 1;
}

int ea_live_open(ea_source **ret, const ea_live_options *options, ea_err *err) {
    static const ea_source_ops OPS = {.next = live_next,
                                      .stop = live_stop,
                                      .close = live_close,
                                      .count = live_count,
                                      .row = live_row,
                                      .progress = live_progress,
                                      .dropped = live_dropped,
                                      .clock = live_clock};
    live *l = calloc(1, sizeof *l);
    if (!l)
        return ea_fail(err, EA_ENOMEM, "open session %s", options->session->name);
    l->base.ops = &OPS;
    l->o = *options;
    if (!l->o.look_ns)
        l->o.look_ns = LOOK_NS;
    int rc = ea_ring_create(&l->ring, ring_bytes(l->o.session), err);
    if (!rc && l->o.session->output != EA_OUTPUT_FILE && ea_rundown_is_wanted(l->o.session))
        rc = ea_ring_create(&l->rundown_ring, EA_RUNDOWN_RING_BYTES, err);
    if (!rc)
        rc = ea_mutex_create(&l->lock, err);
    if (!rc)
        rc = ea_cond_create(&l->wake, err);
    if (!rc)
        rc = ea_session_init(&l->session, l->o.session, l->o.counters, live_pass_note, l, err);
    if (!rc) {
        live_to_utf8(l->session.name, l->name, sizeof l->name);
        memcpy(l->status.name, l->name, sizeof l->name);
        rc = live_begin(l, 1, err);
    }
    if (!rc && (rc = ea_thread_start(&l->supervisor, "session", supervise, l, err)))
        live_end(l);
    if (rc) {
        live_close(&l->base);
        return rc;
    }
    *ret = &l->base;
    return 0;
}

void ea_live_get_status(const ea_source *source, ea_live_status *ret) {
    const live *l = (const live *)source;
    ea_mutex_lock(l->lock);
    *ret = l->status;
    ea_mutex_unlock(l->lock);
    ret->lost_events = ea_counter_get(l->o.counters, EA_COUNT_source_events_lost);
    ret->lost_buffers = ea_counter_get(l->o.counters, EA_COUNT_source_buffers_lost);
    ret->delivered = atomic_load_explicit(&l->delivered, memory_order_relaxed) +
                     atomic_load_explicit(&l->rundown_delivered, memory_order_relaxed);
    ret->ring_used_bytes = ea_ring_used(l->ring);
}
