/* One ETW session: started as its configuration says, queried, flushed, stopped.
 * Called by: live.c, rundown.c, autologger.c. Configured by: config/sessions.h. Thread: one at a time. */
#ifndef EA_ETW_SESSION_H
#define EA_ETW_SESSION_H

#include "config/kernel_flags.h"
#include "proto/base/counters.h"
#include "service/etw/etw_api.h"
#include "service/etw/live.h"

/* The argument of ControlTrace: the properties, followed by room for both names. */
typedef struct ea_properties {
    EVENT_TRACE_PROPERTIES p;
    WCHAR name[256];
    WCHAR file[1024];
} ea_properties;

/* Clears all but its size and the offsets of the names. */
void ea_properties_clear(ea_properties *p);

/* Called with a line for a person for each part that is not available and is skipped: a counter that the hardware
 * lacks, a provider that is unknown here. */
typedef void (*ea_session_note)(void *arg, const char *text);

/* What a provider's names resolve to: TDH, which may take seconds, is called once. */
typedef struct ea_session_provider {
    ea_guid guid;
    uint64_t any, all;
    int is_known, is_enabled;
} ea_session_provider;

typedef struct ea_session {
    const ea_etw_api *api;
    const ea_session_config *c; /* borrowed */
    ea_session_note note;
    void *note_arg;
    ea_counters *counters; /* borrowed; source_*_refused are counted here. NULL: nowhere */
    WCHAR name[EA_SESSION_NAME_MAX + 32];
    TRACEHANDLE handle;                              /* 0: it does not run */
    ea_properties now;                               /* as of the last answer of Windows */
    uint32_t max_buffers;                            /* requested from Windows; grows */
    unsigned starts;                                 /* times that it was started */
    uint32_t masks[EA_KERNEL_MASK_WORDS];            /* the kernel's group masks as they were set; 0: none */
    ea_session_provider providers[EA_PROVIDERS_MAX]; /* of the configuration's, in its order */
    ea_session_provider announced;                   /* of the option announced-modules */
    uint32_t profiled[1 + EA_PMC_MAX];               /* sources whose interval it set (profile_interval.c) */
    unsigned profiled_count;
    int is_detached; /* it goes on after this process: what it set of the machine stays */
    /* Its losses and written buffers when it was adopted; 0 for a session that was started here. */
    uint32_t had_events, had_log_buffers, had_realtime_buffers, had_written;
} ea_session;

EA_MUST_CHECK int ea_session_init(ea_session *s, const ea_session_config *c, ea_counters *counters,
                                  ea_session_note note, void *note_arg, ea_err *err);
/* Calls the note with a line of at most 511 bytes. */
void ea_session_log(const ea_session *s, const char *format, ...) EA_PRINTF(2, 3);
/* Starts it and enables all parts of its configuration; parts that Windows refuses are logged and skipped. An existing
 * session of its name is stopped or adopted, as configured. */
EA_MUST_CHECK int ea_session_start(ea_session *s, ea_err *err);
/* Reads its properties into now. EA_ENOTFOUND: it is gone. */
EA_MUST_CHECK int ea_session_query(ea_session *s, ea_err *err);
/* Asks Windows to deliver buffers that are not full. A missing session is no error here; ea_session_query detects it.
 */
void ea_session_flush(const ea_session *s);
/* Raises the number of buffers to s->max_buffers. What becomes of the group masks then is not documented: they are read
 * back, and set again when they differ. */
EA_MUST_CHECK int ea_session_grow(ea_session *s, ea_err *err);
/* Stops it; `now` then has its last numbers. A session that has already ended is no error. */
void ea_session_stop(ea_session *s);

/* Ends the session of this name that Windows started at boot; does nothing when there is none. It is recognised by the
 * name of its file; or, when the registry has a boot session of this name (has_key), by a mode without real time. */
void ea_session_stop_boot(ea_session *s, int has_key);

/* enable.c: EVENT_ENABLE_PROPERTY_* of a provider's part of the configuration. */
ULONG ea_provider_properties(const ea_provider_config *p);
/* enable.c: counts the parts that Windows refused; the second one also logs: "WHAT: Windows refuses it". */
void ea_session_lacks(const ea_session *s, enum ea_counter which, uint64_t by);
void ea_session_refused(const ea_session *s, const char *what, ULONG error);

/* enable.c: event classes by name as Windows wants them; returns how many. ids: EA_CLASS_IDS_MAX. */
enum { EA_CLASS_IDS_MAX = 256, EA_LOGGERS_MAX = 256 /* the most that the value EtwMaxLoggers allows */ };

size_t ea_session_class_ids(const ea_strings *names, CLASSIC_EVENT_ID *ids);
/* QueryAllTracesW with EA_LOGGERS_MAX places. Windows may refuse more than "the maximum number of supported sessions"
 * (its documentation), which was 64 before Windows 10: so many are asked for then. */
ULONG ea_session_query_all(const ea_etw_api *api, EVENT_TRACE_PROPERTIES **list, ULONG *ret_count);
/* enable.c: 1 when a session, by its logger's number, has this provider enabled; *ret: with what. 0: it has not, or
 * Windows does not say. */
int ea_provider_is_enabled(const ea_etw_api *api, const GUID *guid, USHORT logger, TRACE_ENABLE_INFO *ret);
/* pmc.c: the profiler's interval, sampled counters, counters on events. */
void ea_session_pmc(ea_session *s);
/* profile_interval.c: the intervals of profile sources are the machine's and outlive a session. keep: remembers the
 * interval of a source before a session sets it. restore: sets those of this session back that no other session of this
 * process uses. recover: sets back what a process that crashed had left. */
void ea_profile_keep(ea_session *s, uint32_t source);
void ea_profile_restore(ea_session *s);
void ea_profile_recover(const ea_etw_api *api);
/* enable.c: the group masks (EA_KERNEL_MASK_WORDS) that Windows has of a session of the kernel. -1: it does not say. */
EA_MUST_CHECK int ea_session_flags(const ea_etw_api *api, TRACEHANDLE session, uint32_t *ret_masks);
/* enable.c: sets the kernel's group masks and system providers again as they were set last. */
void ea_session_restore_masks(const ea_session *s);
/* enable.c: flags, stacks, counters and providers, in the order in which Windows wants them. */
void ea_session_enable(ea_session *s);
/* Asks providers with capture-state or capture-every for their state, once. Called when the consumer runs: what they
 * log before would have to wait in Windows' buffers. */
void ea_session_capture_first(const ea_session *s);
/* Asks providers with capture-every for their state again; ns: since when it is counted. */
void ea_session_capture(const ea_session *s, int64_t now_ns, int64_t *last_ns);

/* system.c: the kernel's events as providers of their own. flags: adds to the masks what stands for them where Windows
 * does not have them, and takes out what pool-tags filter where it does. providers: enables them where it does. */
void ea_session_system_flags(const ea_session *s, uint32_t *masks);
void ea_session_system_providers(const ea_session *s);

/* provider_lookup.c: the GUID of a provider by name or GUID; *Name is hashed, others are asked of Windows.
 * EA_ENOTFOUND. */
EA_MUST_CHECK int ea_provider_find(const ea_etw_api *api, const char *name, ea_guid *ret, ea_err *err);
/* The mask of keywords joined by +, names as the provider's manifest has them. */
EA_MUST_CHECK int ea_provider_keywords(const ea_etw_api *api, const ea_guid *provider, const char *text, uint64_t *ret,
                                       ea_err *err);
/* What a provider is enabled with: any and all of its part of the configuration. Without any it is every bit: of 0
 * Windows makes that for providers with a manifest and of TraceLogging, but one of MOF or WPP logs nothing then, and
 * beside 0 all is not looked at. Source: EnableTraceEx2, learn.microsoft.com */
EA_MUST_CHECK int ea_provider_masks(const ea_etw_api *api, const ea_guid *provider, const ea_provider_config *p,
                                    uint64_t *ret_any, uint64_t *ret_all, ea_err *err);

#endif
