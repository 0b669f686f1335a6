/* An ETW for tests: the functions of advapi32.dll and tdh.dll that the agent resolves by name, with Windows' rules and
 * a session table that all processes of a Wine prefix share. EMULATOR.md lists the rules, where each is documented and
 * which test needs it.
 *
 * The script C:\etwemul.txt defines what the emulator plays. It has one option a line:
 *     trace=PATH          an .etl file; several are merged
 *     rate=N              the maximum events a second of each session; 0: as fast as the consumer takes them
 *     hold=N              sessions pause after the first N records until "emulctl go" continues one; the option may be
 *                         repeated
 *     slow=F              an event is logged when the emulator's clock, which is F times slower than the machine's,
 *                         reaches its time; an event for which there is no free buffer is lost
 *     lost=N SESSION      that session has lost N events when it begins
 *     late=CPU MS         buffers of that processor are delivered MS later, by the emulator's clock
 *     state=GUID ID       the event that the provider logs when its state is captured
 *     from=N              sessions of a new name begin after the first N records, as on a machine that was already up
 *     gap=N               a session of a known name continues N records after the place at which the last one ended
 *     present=SESSION     other sessions begin at the current, or last, place of that session
 *     fail=FUNCTION N C A after A successful calls (default 0) the next C calls of FUNCTION return error N
 *     provider=GUID NAME  a provider that TdhEnumerateProviders lists
 *     driver=GUID         a driver has that provider registered, and no program
 *     keyword=GUID N NAME a keyword of that provider
 *     counter=N MIN MAX NAME   a performance counter
 *     counters=N          the number of performance counters that the machine can use at a time
 *     owner=TAG N         another program holds one of them, for counter N; TAG: four letters or a number; -: no tag
 *     schemas=PATH        an .etl file whose event and map information TDH knows, in addition to that of the traces
 *     field=KIND GUID N NAME  a level (1), task (3) or opcode (4) of a provider; keyword= is kind 0
 *     tdh-delay=MS        each answer of TDH takes so long
 *     interval-step=N     profile intervals are rounded down to a multiple of N
 *     level-kept=N        providers are enabled up to that level, as if another program had changed the level
 *     flags-unknown=N BITS  this Windows does not know those kernel flags of group mask N
 *     profile-privilege=0 the caller may not profile the system
 *     process=PID IMAGE PACKAGE APP CONTAINER   the attributes of a process that filters compare; -: it has none
 *     group=GROUP GUID    that provider is in that group
 *     alias=PID PROGRAM   the running program of that name plays the trace's process of that id
 *     stall=MS SESSION    when that session is stopped, its remaining events are delivered MS later
 *     reported-file=TEXT  a query of a session without real time has TEXT in front of its file's path; -: none
 *     stop-takes=MS       the name of a stopped session is taken for so long
 *     update=resets       an update of a session's properties leaves EnableFlags alone of its group masks
 *     file-names=disk     DISK_FILE_IO without DISK_IO logs no FileRundown
 *     flags-form=enable-flags  a query of group masks has some flags in the first one, as EnableFlags has them
 *     sessions=N          Windows has room for N sessions (64)
 *     playback=N SESSION  no program read the first N bytes of that session: they are in its playback file
 *     header=none         a consumer gets no EventTrace/Header first
 *     items=asked         stacks that are in the trace are removed from events unless the session asked for them
 * Called by: the agent's etw_api.c, emulctl.c. Calls: proto/etl, which reads the traces. Thread: any. */
#ifndef EA_TESTS_WINDOWS_EMULATOR_H
#define EA_TESTS_WINDOWS_EMULATOR_H

#include "proto/base/bytes.h"
#include "proto/base/record.h"
#include "service/etw/etw.h"

enum {
    EMUL_SESSIONS = 256,      /* the most that EtwMaxLoggers allows */
    EMUL_SYSTEM_SESSIONS = 6, /* of 8; two are reserved */
    EMUL_PROVIDERS = 64,
    EMUL_IDS = 64,
    EMUL_NAME = 256,
    EMUL_FILE = 1024,
    EMUL_PIDS = 8,             /* MAX_EVENT_FILTER_PID_COUNT (evntprov.h) */
    EMUL_FILTER_BYTES = 1024,  /* MAX_EVENT_FILTER_DATA_SIZE */
    EMUL_PAYLOAD_BYTES = 4096, /* MAX_EVENT_FILTER_PAYLOAD_SIZE */
    EMUL_NAMES_BYTES = 4096,   /* MAX_EVENT_FILTER_EVENT_NAME_SIZE */
    EMUL_LISTS = 256,
    EMUL_HOOKS = 256,       /* classes of the kernel's events in a list, at the most */
    EMUL_PMC = 4,           /* ETW_MAX_PMC_EVENTS, ETW_MAX_PMC_COUNTERS, ETW_MAX_PROFILING_SOURCES (ntwmi.h) */
    EMUL_WRITTEN = 1 << 18, /* bytes of all events that programs write */
    EMUL_SOURCES = 8,       /* profile sources that are kept to be looked at */
};

/* Microsoft-Windows-Kernel-Registry. */
static const ea_guid EMUL_KERNEL_REGISTRY =
    EA_GUID(0x70eb4f03, 0xc1de, 0x4f73, 0xa0, 0x51, 0x33, 0xd1, 0x3d, 0x54, 0x13, 0xbd);

/* A filter by ids as it was given. */
typedef struct emul_ids {
    uint8_t is_given, filter_in;
    uint16_t count, ids[EMUL_IDS];
} emul_ids;

/* A filter by names of events as it was given. */
typedef struct emul_event_names {
    ea_filter_event_name head; /* count 0: there is none */
    uint8_t names[EMUL_NAMES_BYTES];
} emul_event_names;

/* What else a provider's filters have; few have it. */
typedef struct emul_lists {
    uint32_t incarnation; /* of the session that owns the entry; 0: no session */
    uint16_t executables[EMUL_FILTER_BYTES / 2], packages[EMUL_FILTER_BYTES / 2], app_ids[EMUL_FILTER_BYTES / 2],
        containers[EMUL_FILTER_BYTES / 2];
    uint32_t payload_bytes;
    uint8_t payload[EMUL_PAYLOAD_BYTES];
    emul_event_names event_names, stack_names;
    uint32_t argument_bytes;
    uint8_t arguments[EMUL_FILTER_BYTES]; /* names and values in turn, each with its end */
} emul_lists;

typedef struct emul_provider {
    ea_guid guid;
    uint8_t level, has_stack_level;
    uint32_t property, captures;
    uint8_t state_level; /* of the last request for its state */
    uint64_t state_any, state_all;
    uint64_t any, all;
    emul_ids ids, stack_ids;
    ea_filter_level_kw stack_level;
    uint32_t registry_filter;  /* what Kernel-Registry was given; 0: nothing */
    uint32_t pid_count, lists; /* the place of its lists and one; 0: it has none */
    uint32_t pids[EMUL_PIDS];
} emul_provider;

/* One session, in memory that all processes share. */
typedef struct emul_session {
    int32_t used;    /* it runs */
    int32_t readers; /* ProcessTrace calls at work, and what writes its file */
    uint32_t writer; /* the process that writes its file; 0: none */
    int32_t over;    /* all of the trace was logged for it */
    uint32_t gone;   /* past so many of the script's holds it may go */
    uint32_t id, incarnation;
    uint16_t name[EMUL_NAME];
    uint16_t file[EMUL_FILE];
    ea_guid guid;
    uint32_t buffer_kib, min_buffers, max_buffers, max_file_mib, mode, flush_timer, clock;
    uint32_t masks[8];
    uint32_t lost_events, lost_log_buffers, lost_realtime_buffers, written;
    uint32_t stacks, pmc_events, flushes, captures, arguments_given, system_providers, pool_tags;
    CLASSIC_EVENT_ID stack_ids[EMUL_HOOKS], pmc_ids[EMUL_HOOKS]; /* as many as stacks, pmc_events say */
    uint32_t counter_count, counters[EMUL_SOURCES];
    uint64_t file_events; /* in its file, or on the way there */
    uint64_t logged;      /* events for it, those that were lost included */
    uint32_t late_ms;  /* the maximum delay of an event: an event that was logged later was delivered so much earlier */
    uint64_t played;   /* records of the trace that sessions of this name have passed */
    uint64_t ended_ms; /* when it was stopped, by GetTickCount64 */
    uint64_t away_ms;  /* when it was started: the time since the last session of its name ended */
    uint64_t lost_ms;  /* when "emulctl lose" was called last */
    uint64_t grown_ms; /* the time from lost_ms until it got more buffers */
    uint32_t written_before; /* bytes of the events that programs had written when it was started */
    uint32_t provider_count;
    emul_provider providers[EMUL_PROVIDERS];
} emul_session;

/* An event that a program wrote; its schema, its provider's traits and its payload follow. */
typedef struct emul_written {
    uint32_t bytes, schema_bytes, traits_bytes, payload_bytes; /* bytes: of all of it, a multiple of 8 */
    ea_record record;                                          /* without what follows */
} emul_written;

typedef struct emul_table {
    uint32_t next_incarnation;
    uint32_t intervals[64];                        /* of the machine's profile sources, as they were applied */
    uint32_t sampled_count, sampled[EMUL_SOURCES]; /* the sources that the machine samples */
    emul_session sessions[EMUL_SESSIONS];
    emul_lists lists[EMUL_LISTS];
    uint32_t written_bytes;
    _Alignas(8) uint8_t written[EMUL_WRITTEN];
} emul_table;

/* emulator.c */
/* What the emulator cannot go on without: said on stderr, and the program ends. */
_Noreturn void emul_fail(const char *what);
emul_table *emul_lock(void);
void emul_unlock(void);
/* The same memory without the lock: for what a session that runs does not change. */
const emul_table *emul_shared(void);
/* The session of a handle, NULL when it is gone. The table is locked. */
emul_session *emul_by_handle(emul_table *t, TRACEHANDLE handle);
/* The place of lists for a provider of the session, emptied; the table is locked. EMUL_LISTS: there is none. */
size_t emul_new_lists(emul_table *t, uint32_t incarnation);
/* What the script wants a function to answer now; 0: nothing. */
ULONG emul_fault(const char *function);

typedef struct emul_named {
    ea_guid guid;
    int kind; /* of a field: EA_TDH_KEYWORDS, ... */
    uint64_t value;
    uint32_t low, high;
    WCHAR name[128];
} emul_named;

typedef struct emul_process {
    uint32_t pid;
    WCHAR names[4][128]; /* image, package, app, container */
} emul_process;

typedef struct emul_script {
    char traces[8][EMUL_FILE], schemas[8][EMUL_FILE];
    uint32_t trace_count, schema_count, rate, tdh_delay_ms, counters_at_once, may_profile, interval_step, level_kept,
        late_cpu, late_ms, items_asked;
    uint64_t from, gap, holds[8];
    uint32_t hold_count;
    WCHAR present[EMUL_NAME];
    double slow;
    emul_named providers[64], fields[64], counters[32], states[16];
    emul_process processes[16];
    ea_pmc_owner owners[8];
    uint32_t owner_count;
    uint32_t flags_unknown[8];
    uint32_t tells_counters;   /* of sessions: it is Windows 10 22H2 */
    uint32_t changes_counters; /* a query returns `applied`, not the counters that were set */
    uint32_t applied[EMUL_SOURCES];
    uint32_t applied_count;
    uint32_t lost_events;
    WCHAR lost_session[EMUL_NAME];
    uint32_t update_resets, sessions_max, has_no_header, names_need_disk, flags_translated, stop_takes_ms;
    uint32_t stall_ms;
    WCHAR stall_session[EMUL_NAME], playback_session[EMUL_NAME];
    uint32_t playback_bytes;
    WCHAR reported_file[32];
    uint32_t alias_pid; /* 0: none */
    WCHAR alias_program[128];
    ea_guid drivers[8];
    uint32_t driver_count;
    ea_guid groups[16][2]; /* a group and a provider in it */
    uint32_t provider_count, field_count, counter_count, state_count, process_count, group_count;
} emul_script;

const emul_script *emul_what(void);
/* 1 when a driver has the provider registered (driver= of the script). */
int emul_is_driver(const uint8_t *guid);

/* emulator_file.c. begin: a session with a file was started; the table is locked. wait: until its file is complete,
 * when it is this program's; the table is not locked. index: its place in the table. */
void emul_file_begin(emul_session *s, size_t index);
void emul_file_wait(size_t index, uint32_t incarnation);
/* emulator_system.c: enables one of the kernel's providers for a session, the table being locked. 0: the GUID is no
 * such provider's, or this Windows is too old for them; 1: *ret_error is the answer. */
int emul_enable_system(emul_session *s, const GUID *provider, ULONGLONG any, const ENABLE_TRACE_PARAMETERS *e,
                       ULONG *ret_error);
/* emulator_payload.c: whether what TdhAggregatePayloadFilters made is whole; whether an event passes it. */
int emul_payload_is_whole(const uint8_t *data, size_t bytes);
int emul_payload_passes(const uint8_t *data, size_t bytes, const ea_record *r);
/* emulator_schema.c: whether TDH knows the event, and a field of that name in it. */
int emul_knows_event(const GUID *provider, const EVENT_DESCRIPTOR *d);
int emul_knows_field(const GUID *provider, const EVENT_DESCRIPTOR *d, const WCHAR *field);
/* emulator_schema.c: reads what TDH knows, which takes as long as reading the traces; once. */
void emul_read_schemas(void);

#endif
