/* An ETW for tests: the functions of advapi32.dll and tdh.dll that the agent takes by name, with Windows' rules and a
 * session table that all processes of a Wine prefix share. EMULATOR.md lists the rules, where each is documented and
 * which test needs it.
 *
 * What it plays, and how, C:\etwemul.txt says, a line each:
 *     trace=PATH          an .etl file; several are merged
 *     rate=N              events a second of each session; 0: as fast as they are taken
 *     slow=F              events come when the emulator's clock, which goes F times slower than the machine's, reaches
 *                         their time; those that find no free buffer are lost
 *     late=CPU MS         buffers of that processor come MS later, by the emulator's clock
 *     state=GUID ID       events of that provider which it logs when it is asked for its state
 *     fail=FUNCTION N C   the next C calls of FUNCTION answer N
 *     provider=GUID NAME  TdhEnumerateProviders knows it
 *     keyword=GUID N NAME a keyword of it
 *     counter=N MIN MAX NAME   a performance counter
 *     counters=N          how many of them the machine has at a time
 *     schemas=PATH        an .etl file whose event and map information TDH knows, beside that of the traces
 *     field=KIND GUID N NAME  a level (1), task (3) or opcode (4) of a provider; keyword= is kind 0
 *     tdh-delay=MS        each answer of TDH takes so long
 *     profile-privilege=0 the caller may not profile the system
 * Before it: the agent's etw_api.c, emulctl.c. After it: proto/etl reads the traces. Thread: any. */
#ifndef EA_TESTS_EMULATOR_H
#define EA_TESTS_EMULATOR_H

#include "bytes.h"
#include "etw.h"

enum {
    EMUL_SESSIONS = 64,
    EMUL_SYSTEM_SESSIONS = 8,
    EMUL_PROVIDERS = 64,
    EMUL_IDS = 64,
    EMUL_NAME = 256,
    EMUL_FILE = 1024,
};

typedef struct emul_provider {
    ea_guid guid;
    uint8_t level, has_ids, ids_in;
    uint32_t property, captures;
    uint64_t any, all;
    uint32_t id_count, pid_count;
    uint16_t ids[EMUL_IDS];
    uint32_t pids[EA_FILTER_PID_MAX];
} emul_provider;

/* One session, in memory that all processes share. */
typedef struct emul_session {
    int32_t used;    /* it runs */
    int32_t readers; /* ProcessTrace calls at work, and what writes its file */
    int32_t over;    /* all of the trace was logged for it */
    uint32_t id, incarnation;
    uint16_t name[EMUL_NAME];
    uint16_t file[EMUL_FILE];
    ea_guid guid;
    uint32_t buffer_kib, min_buffers, max_buffers, max_file_mib, mode, flush_timer, clock;
    uint32_t masks[8];
    uint32_t lost_events, lost_log_buffers, lost_realtime_buffers, written;
    uint32_t stacks, pmc_sources, pmc_events, flushes, captures;
    uint64_t file_events; /* in its file, or on the way there */
    uint64_t logged;      /* events for it, those that were lost included */
    uint64_t played;      /* records of the trace that this name's sessions have gone past */
    uint32_t provider_count;
    emul_provider providers[EMUL_PROVIDERS];
} emul_session;

typedef struct emul_table {
    uint32_t next_incarnation;
    emul_session sessions[EMUL_SESSIONS];
} emul_table;

/* emulator.c */
emul_table *emul_lock(void);
void emul_unlock(void);
/* What the script wants a function to answer now; 0: nothing. */
ULONG emul_fault(const char *function);
typedef struct emul_named {
    ea_guid guid;
    int kind; /* of a field: EA_TDH_KEYWORDS, ... */
    uint64_t value;
    uint32_t low, high;
    WCHAR name[128];
} emul_named;
typedef struct emul_script {
    char traces[8][EMUL_FILE], schemas[8][EMUL_FILE];
    uint32_t trace_count, schema_count, rate, tdh_delay_ms, counters_at_once, may_profile, late_cpu, late_ms;
    double slow;
    emul_named providers[64], fields[64], counters[32], states[16];
    uint32_t provider_count, field_count, counter_count, state_count;
} emul_script;
const emul_script *emul_what(void);

/* emulator_file.c. begin: a session with a file was started; the table is locked. wait: until its file is complete,
 * when it is this program's; the table is not locked. index: its place in the table. */
void emul_file_begin(emul_session *s, size_t index);
void emul_file_wait(size_t index, uint32_t incarnation);
/* emulator_schema.c: reads what TDH knows, which takes as long as reading the traces; once. */
void emul_read_schemas(void);

#endif
