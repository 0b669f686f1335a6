/* The emulator's sessions: starting, controlling, querying, and what the kernel logs. See emulator.h. */
#include "tests/windows/emulator.h"

#include "config/kernel_flags.h"
#include "proto/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

_Static_assert(sizeof(WCHAR) == sizeof(uint16_t), "UTF-16");

/* ---- the script and the table ---- */

typedef struct fault {
    char function[64];
    ULONG error;
    LONG after, count;
} fault;

static emul_script script;
static fault faults[16];
static size_t fault_count;
static emul_table *table;
static HANDLE mutex;
static DWORD trouble; /* why there is no mutex or no table */
static INIT_ONCE once = INIT_ONCE_STATIC_INIT;

static void read_named(emul_named *to, const char *text) {
    MultiByteToWideChar(CP_UTF8, 0, text, -1, to->name, sizeof to->name / sizeof *to->name - 1);
}

/* GUID N NAME: a keyword, level, task or opcode. */
static void read_field(int kind, char *text) {
    char *rest;
    if (script.field_count == sizeof script.fields / sizeof *script.fields || strlen(text) <= 37)
        return;
    emul_named *p = &script.fields[script.field_count];
    text[36] = 0;
    if (ea_guid_parse(text, &p->guid))
        return;
    p->kind = kind;
    p->value = strtoull(text + 37, &rest, 0);
    read_named(p, rest + (*rest == ' '));
    script.field_count++;
}

/* PID IMAGE PACKAGE APP CONTAINER. */
static void read_process(char *text) {
    if (script.process_count == sizeof script.processes / sizeof *script.processes)
        return;
    emul_process *p = &script.processes[script.process_count++];
    p->pid = (uint32_t)strtoul(text, &text, 0);
    for (size_t i = 0; i < 4; i++) {
        text += *text == ' ';
        size_t n = strcspn(text, " ");
        MultiByteToWideChar(CP_UTF8, 0, text, (int)n, p->names[i], sizeof p->names[i] / sizeof *p->names[i] - 1);
        text += n;
    }
}

/* "as-set", "none", or N N ... */
static void read_applied(const char *text) {
    char *end;
    script.tells_counters = 1;
    script.changes_counters = strcmp(text, "as-set") != 0;
    for (ULONG n = strtoul(text, &end, 0); end != text && script.applied_count < EMUL_SOURCES;
         n = strtoul(text, &end, 0)) {
        script.applied[script.applied_count++] = n;
        text = end;
    }
}

/* TAG N: each may be - */
static void read_owner(const char *text) {
    if (script.owner_count == sizeof script.owners / sizeof *script.owners)
        return;
    ea_pmc_owner *o = &script.owners[script.owner_count++];
    size_t n = strcspn(text, " ");
    const char *source = text + n + (text[n] == ' ');
    int has_tag = *text != '-', has_source = *source && *source != '-';
    o->type = has_tag ? has_source ? EA_PMC_OWNER_TAGGED_WITH_SOURCE : EA_PMC_OWNER_TAGGED : EA_PMC_OWNER_UNTAGGED;
    if (has_tag && n == sizeof o->tag && memcmp(text, "0x", 2) != 0)
        memcpy(&o->tag, text, sizeof o->tag);
    else if (has_tag)
        o->tag = (ULONG)strtoul(text, NULL, 0);
    o->source = has_source ? (ULONG)strtoul(source, NULL, 0) : 0;
}

static void read_line(char *line) {
    char *value = strchr(line, '='), *rest;
    if (!value)
        return;
    *value++ = 0;
    if (strcmp(line, "trace") == 0 && script.trace_count < 8) {
        snprintf(script.traces[script.trace_count++], EMUL_FILE, "%s", value);
    } else if (strcmp(line, "schemas") == 0 && script.schema_count < 8) {
        snprintf(script.schemas[script.schema_count++], EMUL_FILE, "%s", value);
    } else if (strcmp(line, "rate") == 0) {
        script.rate = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(line, "from") == 0) {
        script.from = strtoull(value, NULL, 0);
    } else if (strcmp(line, "gap") == 0) {
        script.gap = strtoull(value, NULL, 0);
    } else if (strcmp(line, "present") == 0) {
        MultiByteToWideChar(CP_UTF8, 0, value, -1, script.present, sizeof script.present / sizeof *script.present);
    } else if (strcmp(line, "hold") == 0 && script.hold_count < 8) {
        script.holds[script.hold_count++] = strtoull(value, NULL, 0);
    } else if (strcmp(line, "slow") == 0) {
        script.slow = strtod(value, NULL);
    } else if (strcmp(line, "late") == 0) {
        script.late_cpu = (uint32_t)strtoul(value, &rest, 0);
        script.late_ms = (uint32_t)strtoul(rest, NULL, 0);
    } else if (strcmp(line, "state") == 0 && script.state_count < 16 && strlen(value) > 37) {
        emul_named *p = &script.states[script.state_count];
        value[36] = 0;
        p->value = strtoul(value + 37, NULL, 0);
        script.state_count += ea_guid_parse(value, &p->guid) == 0;
    } else if (strcmp(line, "tdh-delay") == 0) {
        script.tdh_delay_ms = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(line, "counters") == 0) {
        script.counters_at_once = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(line, "owner") == 0) {
        read_owner(value);
    } else if (strcmp(line, "applied") == 0) {
        read_applied(value);
    } else if (strcmp(line, "interval-step") == 0) {
        script.interval_step = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(line, "level-kept") == 0) {
        script.level_kept = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(line, "flags-unknown") == 0) {
        size_t word = strtoul(value, &rest, 0) % 8;
        script.flags_unknown[word] = (uint32_t)strtoul(rest, NULL, 0);
    } else if (strcmp(line, "profile-privilege") == 0) {
        script.may_profile = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(line, "stall") == 0) {
        script.stall_ms = (uint32_t)strtoul(value, &rest, 0);
        MultiByteToWideChar(CP_UTF8, 0, rest + (*rest == ' '), -1, script.stall_session,
                            sizeof script.stall_session / sizeof *script.stall_session);
    } else if (strcmp(line, "playback") == 0) {
        script.playback_bytes = (uint32_t)strtoul(value, &rest, 0);
        MultiByteToWideChar(CP_UTF8, 0, rest + (*rest == ' '), -1, script.playback_session,
                            sizeof script.playback_session / sizeof *script.playback_session);
    } else if (strcmp(line, "lost") == 0) {
        script.lost_events = (uint32_t)strtoul(value, &rest, 0);
        MultiByteToWideChar(CP_UTF8, 0, rest + (*rest == ' '), -1, script.lost_session,
                            sizeof script.lost_session / sizeof *script.lost_session);
    } else if (strcmp(line, "alias") == 0) {
        script.alias_pid = (uint32_t)strtoul(value, &rest, 0);
        MultiByteToWideChar(CP_UTF8, 0, rest + (*rest == ' '), -1, script.alias_program,
                            sizeof script.alias_program / sizeof *script.alias_program);
    } else if (strcmp(line, "reported-file") == 0) {
        MultiByteToWideChar(CP_UTF8, 0, value, -1, script.reported_file,
                            sizeof script.reported_file / sizeof *script.reported_file);
    } else if (strcmp(line, "driver") == 0 && script.driver_count < 8) {
        script.driver_count += !ea_guid_parse(value, &script.drivers[script.driver_count]);
    } else if (strcmp(line, "flags-form") == 0) {
        script.flags_translated = strcmp(value, "enable-flags") == 0;
    } else if (strcmp(line, "stop-takes") == 0) {
        script.stop_takes_ms = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(line, "file-names") == 0) {
        script.names_need_disk = strcmp(value, "disk") == 0;
    } else if (strcmp(line, "sessions") == 0) {
        script.sessions_max = (uint32_t)strtoul(value, NULL, 0);
    } else if (strcmp(line, "header") == 0) {
        script.has_no_header = strcmp(value, "none") == 0;
    } else if (strcmp(line, "update") == 0) {
        script.update_resets = strcmp(value, "resets") == 0;
    } else if (strcmp(line, "items") == 0) {
        script.items_asked = strcmp(value, "asked") == 0;
    } else if (strcmp(line, "process") == 0) {
        read_process(value);
    } else if (strcmp(line, "group") == 0 && script.group_count < 16 && strlen(value) == 73) {
        value[36] = 0;
        script.group_count += !ea_guid_parse(value, &script.groups[script.group_count][0]) &&
                              !ea_guid_parse(value + 37, &script.groups[script.group_count][1]);
    } else if (strcmp(line, "fail") == 0 && fault_count < 16) {
        fault *f = &faults[fault_count++];
        size_t n = strcspn(value, " ");
        snprintf(f->function, sizeof f->function, "%.*s", (int)n, value);
        f->error = strtoul(value + n, &rest, 0);
        f->count = strtol(rest, &rest, 0);
        f->after = strtol(rest, NULL, 0);
    } else if (strcmp(line, "provider") == 0 && script.provider_count < 64 && strlen(value) > 37) {
        emul_named *p = &script.providers[script.provider_count];
        value[36] = 0;
        if (ea_guid_parse(value, &p->guid) == 0) {
            read_named(p, value + 37);
            script.provider_count++;
        }
    } else if (strcmp(line, "keyword") == 0) {
        read_field(EA_TDH_KEYWORDS, value);
    } else if (strcmp(line, "field") == 0) {
        int kind = (int)strtol(value, &rest, 0);
        read_field(kind, rest + (*rest == ' '));
    } else if (strcmp(line, "counter") == 0 && script.counter_count < 32) {
        emul_named *p = &script.counters[script.counter_count++];
        p->value = strtoull(value, &rest, 0);
        p->low = (uint32_t)strtoul(rest, &rest, 0);
        p->high = (uint32_t)strtoul(rest, &rest, 0);
        read_named(p, rest + (*rest == ' '));
    }
}

static BOOL CALLBACK begin(INIT_ONCE *unused, void *parameter, void **context) {
    (void)unused, (void)parameter, (void)context;
    mutex = CreateMutexW(NULL, FALSE, L"etwemul-lock");
    trouble = mutex ? 0 : GetLastError();
    /* a file, so that sessions outlive the programs that started them, as Windows' own do */
    HANDLE file = CreateFileW(L"C:\\etwemul.table", GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE,
                              NULL, OPEN_ALWAYS, 0, NULL);
    HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READWRITE, 0, sizeof(emul_table), NULL);
    table = mapping ? MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, sizeof(emul_table)) : NULL;
    trouble = table ? trouble : GetLastError();
    script.may_profile = 1;
    script.level_kept = UINT8_MAX;
    script.counters_at_once = 4;
    script.sessions_max = 64;
    FILE *f = _wfopen(L"C:\\etwemul.txt", L"r");
    char line[EMUL_FILE + 64];
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\r\n")] = 0;
        read_line(line);
    }
    if (f)
        fclose(f);
    return TRUE; /* emul_lock reports a mutex or a mapping that is missing */
}

const emul_script *emul_what(void) {
    InitOnceExecuteOnce(&once, begin, NULL, NULL);
    return &script;
}

int emul_is_driver(const uint8_t *guid) {
    (void)emul_what();
    for (uint32_t i = 0; i < script.driver_count; i++)
        if (memcmp(script.drivers[i].bytes, guid, sizeof script.drivers[i]) == 0)
            return 1;
    return 0;
}

_Noreturn void emul_fail(const char *what) {
    fprintf(stderr, "etwemul: %s (error %lu)\n", what, GetLastError());
    abort();
}

emul_table *emul_lock(void) {
    (void)emul_what();
    if (!table || !mutex) {
        SetLastError(trouble);
        emul_fail("no session table");
    }
    DWORD waited = WaitForSingleObject(mutex, INFINITE);
    if (waited != WAIT_OBJECT_0 && waited != WAIT_ABANDONED)
        emul_fail("no lock");
    return table;
}

const emul_table *emul_shared(void) {
    (void)emul_what();
    return table;
}

size_t emul_new_lists(emul_table *t, uint32_t incarnation) {
    for (size_t i = 0; i < EMUL_LISTS; i++) {
        int is_used = 0;
        for (size_t k = 0; k < EMUL_SESSIONS; k++)
            is_used |=
                t->lists[i].incarnation && t->sessions[k].used && t->sessions[k].incarnation == t->lists[i].incarnation;
        if (is_used)
            continue;
        memset(&t->lists[i], 0, sizeof t->lists[i]);
        t->lists[i].incarnation = incarnation;
        return i;
    }
    return EMUL_LISTS;
}

void emul_unlock(void) {
    ReleaseMutex(mutex);
}

ULONG emul_fault(const char *function) {
    (void)emul_what();
    for (size_t i = 0; i < fault_count; i++)
        if (strcmp(faults[i].function, function) == 0 && InterlockedDecrement(&faults[i].after) < 0 &&
            InterlockedDecrement(&faults[i].count) >= 0)
            return faults[i].error;
    return 0;
}

/* ---- finding sessions ---- */

static const GUID KERNEL_LOGGER = {0x9e814aad, 0x3204, 0x11d2, {0x9a, 0x82, 0x00, 0x60, 0x08, 0xa8, 0x69, 0x39}};

static int same_name(const uint16_t *a, const WCHAR *b) {
    return _wcsicmp((const WCHAR *)a, b) == 0; /* session names have no case */
}

static emul_session *by_name(emul_table *t, const WCHAR *name) {
    for (size_t i = 0; i < EMUL_SESSIONS; i++)
        if (t->sessions[i].used && same_name(t->sessions[i].name, name))
            return &t->sessions[i];
    return NULL;
}

/* A handle is a session's number and its incarnation, so that one of a session that is gone means nothing. */
static TRACEHANDLE handle_of(const emul_session *s) {
    return (TRACEHANDLE)s->incarnation << 16 | s->id;
}

emul_session *emul_by_handle(emul_table *t, TRACEHANDLE handle) {
    for (size_t i = 0; i < EMUL_SESSIONS; i++)
        if (t->sessions[i].used && handle_of(&t->sessions[i]) == handle)
            return &t->sessions[i];
    return NULL;
}

/* ---- properties ---- */

/* The part that StartTrace and ControlTrace have alike: the structure is large enough for what its offsets say. */
static ULONG check_properties(const EVENT_TRACE_PROPERTIES *p) {
    if (!p)
        return ERROR_INVALID_PARAMETER;
    if (p->Wnode.BufferSize < sizeof *p)
        return ERROR_BAD_LENGTH;
    if (!(p->Wnode.Flags & WNODE_FLAG_TRACED_GUID))
        return ERROR_INVALID_PARAMETER;
    if (p->LoggerNameOffset && (p->LoggerNameOffset < sizeof *p || p->LoggerNameOffset >= p->Wnode.BufferSize))
        return ERROR_INVALID_PARAMETER;
    if (p->LogFileNameOffset && (p->LogFileNameOffset < sizeof *p || p->LogFileNameOffset >= p->Wnode.BufferSize))
        return ERROR_INVALID_PARAMETER;
    return 0;
}

static ULONG copy_out(const uint16_t *text, EVENT_TRACE_PROPERTIES *p, ULONG offset, ULONG end) {
    size_t bytes = (wcslen((const WCHAR *)text) + 1) * sizeof *text;
    if (!offset)
        return 0;
    if (bytes > end - offset)
        return ERROR_MORE_DATA;
    memcpy((uint8_t *)p + offset, text, bytes);
    return 0;
}

/* The end of the space that follows an offset: the other name, or the end of the structure. */
static ULONG room_end(const EVENT_TRACE_PROPERTIES *p, ULONG offset, ULONG other) {
    return other > offset ? other : p->Wnode.BufferSize;
}

static ULONG report(const emul_session *s, EVENT_TRACE_PROPERTIES *p) {
    p->Wnode.HistoricalContext = handle_of(s);
    memcpy(&p->Wnode.Guid, s->guid.bytes, sizeof p->Wnode.Guid);
    p->Wnode.ClientContext = s->clock;
    p->BufferSize = s->buffer_kib;
    p->MinimumBuffers = s->min_buffers;
    p->MaximumBuffers = s->max_buffers;
    p->MaximumFileSize = s->max_file_mib;
    p->LogFileMode = s->mode;
    p->FlushTimer = s->flush_timer;
    p->EnableFlags = s->masks[0];
    p->NumberOfBuffers = s->min_buffers;
    p->FreeBuffers = s->min_buffers > 2 ? s->min_buffers - 2 : 0;
    p->EventsLost = s->lost_events;
    p->BuffersWritten = s->written;
    p->LogBuffersLost = s->lost_log_buffers;
    p->RealTimeBuffersLost = s->lost_realtime_buffers;
    p->LoggerThreadId = NULL;
    ULONG name = p->LoggerNameOffset, file = p->LogFileNameOffset;
    ULONG error = copy_out(s->name, p, name, room_end(p, name, file));
    WCHAR shown[EMUL_FILE + 32];
    if (!script.reported_file[0] || (s->mode & EVENT_TRACE_REAL_TIME_MODE))
        _snwprintf(shown, sizeof shown / sizeof *shown, L"%ls", (const WCHAR *)s->file);
    else if (wcscmp(script.reported_file, L"-") == 0)
        shown[0] = 0;
    else
        _snwprintf(shown, sizeof shown / sizeof *shown, L"%ls%ls", script.reported_file, (const WCHAR *)s->file);
    return error ? error : copy_out((const uint16_t *)shown, p, file, room_end(p, file, name));
}

static ULONG check_mode(const EVENT_TRACE_PROPERTIES *p, int is_kernel_logger, const WCHAR *file) {
    ULONG mode = p->LogFileMode;
    int kinds = !!(mode & EVENT_TRACE_FILE_MODE_SEQUENTIAL) + !!(mode & EVENT_TRACE_FILE_MODE_CIRCULAR) +
                !!(mode & EVENT_TRACE_FILE_MODE_NEWFILE);
    if (kinds > 1 || (kinds && (mode & EVENT_TRACE_BUFFERING_MODE)))
        return ERROR_INVALID_PARAMETER;
    if ((mode & (EVENT_TRACE_FILE_MODE_CIRCULAR | EVENT_TRACE_FILE_MODE_NEWFILE)) && !p->MaximumFileSize)
        return ERROR_INVALID_PARAMETER;
    if ((mode & (EVENT_TRACE_REAL_TIME_MODE | EVENT_TRACE_BUFFERING_MODE)) == 0 && !kinds && !file[0])
        return ERROR_BAD_PATHNAME; /* events go nowhere */
    if (kinds && !file[0])
        return ERROR_BAD_PATHNAME;
    if ((mode & EVENT_TRACE_REAL_TIME_MODE) && (mode & EVENT_TRACE_BUFFERING_MODE))
        return ERROR_INVALID_PARAMETER;
    if ((mode & EVENT_TRACE_PRIVATE_LOGGER_MODE) && (mode & EVENT_TRACE_REAL_TIME_MODE))
        return ERROR_INVALID_PARAMETER;
    if (is_kernel_logger && (mode & (EVENT_TRACE_INDEPENDENT_SESSION_MODE | EVENT_TRACE_PRIVATE_LOGGER_MODE)))
        return ERROR_INVALID_PARAMETER;
    if (p->EnableFlags && !is_kernel_logger && !(mode & EVENT_TRACE_SYSTEM_LOGGER_MODE))
        return ERROR_INVALID_PARAMETER;
    if (p->BufferSize > 16384 || p->Wnode.ClientContext > 3)
        return ERROR_INVALID_PARAMETER;
    return 0;
}

/* The number of trace records that a session of this name skips: it continues where the last session of this name
 * ended. */
static uint64_t place_of(const emul_table *t, const WCHAR *name) {
    int is_other = script.present[0] && _wcsicmp(script.present, name) != 0, was_there = 0;
    uint64_t place = 0;
    for (size_t i = 0; i < EMUL_SESSIONS; i++)
        if (same_name(t->sessions[i].name, is_other ? script.present : name)) {
            was_there |= !is_other;
            place = t->sessions[i].played > place ? t->sessions[i].played : place;
        }
    if (was_there)
        return place + script.gap;
    return place > script.from ? place : script.from;
}

/* The time in ms, by the machine's clock, since the last session of this name ended; 0: there was no such session. */
static uint64_t away_ms(const emul_table *t, const WCHAR *name) {
    uint64_t ended_ms = 0;
    for (size_t i = 0; i < EMUL_SESSIONS; i++)
        if (same_name(t->sessions[i].name, name) && t->sessions[i].ended_ms > ended_ms)
            ended_ms = t->sessions[i].ended_ms;
    return ended_ms ? GetTickCount64() - ended_ms : 0;
}

static ULONG fill(const emul_table *t, emul_session *s, const EVENT_TRACE_PROPERTIES *p, const WCHAR *name,
                  const WCHAR *file) {
    SYSTEM_INFO info;
    GetNativeSystemInfo(&info);
    uint32_t least = 2 * (uint32_t)info.dwNumberOfProcessors;
    uint64_t played = place_of(t, name), away = away_ms(t, name);
    memset(s, 0, sizeof *s);
    s->played = played;
    s->away_ms = away;
    memcpy(s->name, name, (wcslen(name) + 1) * sizeof *name);
    memcpy(s->file, file, (wcslen(file) + 1) * sizeof *file);
    memcpy(s->guid.bytes, &p->Wnode.Guid, sizeof s->guid);
    s->clock = p->Wnode.ClientContext ? p->Wnode.ClientContext : 1;
    s->buffer_kib = p->BufferSize ? p->BufferSize : 64;
    s->min_buffers = p->MinimumBuffers > least ? p->MinimumBuffers : least;
    s->max_buffers = p->MaximumBuffers > s->min_buffers ? p->MaximumBuffers : s->min_buffers;
    s->max_file_mib = p->MaximumFileSize;
    s->mode = p->LogFileMode;
    s->flush_timer = p->FlushTimer;
    s->masks[0] = p->EnableFlags;
    if (same_name((const uint16_t *)script.lost_session, name))
        s->lost_events = script.lost_events;
    return 0;
}

/* The playback file of the script's session: made when it starts, deleted when it stops. */
static void update_playback(const uint16_t *name, int starts) {
    WCHAR path[EMUL_NAME + 64];
    if (!script.playback_bytes || !same_name(name, script.playback_session))
        return;
    CreateDirectoryW(L"C:\\windows\\system32\\LogFiles", NULL);
    CreateDirectoryW(L"C:\\windows\\system32\\LogFiles\\WMI", NULL);
    CreateDirectoryW(L"C:\\windows\\system32\\LogFiles\\WMI\\RtBackup", NULL);
    _snwprintf(path, sizeof path / sizeof *path, L"C:\\windows\\system32\\LogFiles\\WMI\\RtBackup\\EtwRT%ls.etl",
               script.playback_session);
    if (!starts) {
        DeleteFileW(path);
        return;
    }
    HANDLE file = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
    if (file == INVALID_HANDLE_VALUE || SetFilePointer(file, (LONG)script.playback_bytes, NULL, FILE_BEGIN) == 0 ||
        !SetEndOfFile(file))
        emul_fail("no playback file");
    CloseHandle(file);
}

ULONG WINAPI EmulStartTraceW(PTRACEHANDLE handle, LPCWSTR name, PEVENT_TRACE_PROPERTIES p);

ULONG WINAPI EmulStartTraceW(PTRACEHANDLE handle, LPCWSTR name, PEVENT_TRACE_PROPERTIES p) {
    ULONG error = emul_fault("StartTraceW");
    if (!error)
        error = handle && name ? check_properties(p) : ERROR_INVALID_PARAMETER;
    if (error)
        return error;
    if (!p->LoggerNameOffset)
        return ERROR_INVALID_PARAMETER;
    size_t name_chars = wcslen(name);
    if (name_chars + 1 > EMUL_NAME ||
        (name_chars + 1) * sizeof *name > room_end(p, p->LoggerNameOffset, p->LogFileNameOffset) - p->LoggerNameOffset)
        return ERROR_BAD_LENGTH;
    WCHAR file[EMUL_FILE] = L"";
    if (p->LogFileNameOffset) {
        ULONG end = room_end(p, p->LogFileNameOffset, p->LoggerNameOffset);
        size_t chars = (end - p->LogFileNameOffset) / sizeof *file;
        const WCHAR *given = (const WCHAR *)(const void *)((const uint8_t *)p + p->LogFileNameOffset);
        size_t n = wcsnlen(given, chars);
        if (n == chars || n >= EMUL_FILE)
            return ERROR_BAD_PATHNAME;
        memcpy(file, given, n * sizeof *file);
    }
    int is_kernel_logger = same_name((const uint16_t *)name, KERNEL_LOGGER_NAMEW);
    if (is_kernel_logger != (memcmp(&p->Wnode.Guid, &KERNEL_LOGGER, sizeof KERNEL_LOGGER) == 0))
        return ERROR_INVALID_PARAMETER;
    error = check_mode(p, is_kernel_logger, file);
    if (error)
        return error;
    emul_table *t = emul_lock();
    size_t sessions = 0, system_sessions = 0;
    emul_session *free_one = NULL, *before = NULL;
    for (size_t i = 0; i < EMUL_SESSIONS; i++) {
        emul_session *s = &t->sessions[i];
        sessions += s->used != 0;
        system_sessions += s->used && (s->mode & EVENT_TRACE_SYSTEM_LOGGER_MODE);
        if (!s->used && !s->readers && same_name(s->name, name))
            before = s;
        if (!s->used && !s->readers && (!free_one || !s->name[0]) && !(free_one && !free_one->name[0]))
            free_one = s;
    }
    free_one = before ? before : free_one;
    int is_ending = before && before->ended_ms && GetTickCount64() - before->ended_ms < script.stop_takes_ms;
    if (by_name(t, name) || is_ending)
        error = ERROR_ALREADY_EXISTS;
    else if (!free_one || sessions >= script.sessions_max ||
             ((p->LogFileMode & EVENT_TRACE_SYSTEM_LOGGER_MODE) && system_sessions == EMUL_SYSTEM_SESSIONS))
        error = ERROR_NO_SYSTEM_RESOURCES;
    else
        error = fill(t, free_one, p, name, file);
    if (!error) {
        free_one->used = 1;
        free_one->id = (uint32_t)(free_one - t->sessions) + 1;
        free_one->incarnation = ++t->next_incarnation;
        free_one->written_before = t->written_bytes;
        *handle = handle_of(free_one);
        update_playback(free_one->name, 1);
        if (free_one->file[0])
            emul_file_begin(free_one, (size_t)(free_one - t->sessions));
        error = report(free_one, p);
    }
    emul_unlock();
    return error;
}

static ULONG update(emul_session *s, const EVENT_TRACE_PROPERTIES *p) {
    if (p->LogFileNameOffset) { /* a new file: not emulated */
        return ERROR_NOT_SUPPORTED;
    }
    if (p->MaximumBuffers && s->lost_ms)
        s->grown_ms = GetTickCount64() - s->lost_ms;
    if (p->MaximumBuffers)
        s->max_buffers = p->MaximumBuffers > s->min_buffers ? p->MaximumBuffers : s->min_buffers;
    s->flush_timer = p->FlushTimer;
    if (p->EnableFlags)
        s->masks[0] = p->EnableFlags;
    if (script.update_resets)
        memset(s->masks + 1, 0, sizeof s->masks - sizeof *s->masks);
    return 0;
}

ULONG WINAPI EmulControlTraceW(TRACEHANDLE handle, LPCWSTR name, PEVENT_TRACE_PROPERTIES p, ULONG code);

ULONG WINAPI EmulControlTraceW(TRACEHANDLE handle, LPCWSTR name, PEVENT_TRACE_PROPERTIES p, ULONG code) {
    ULONG error = emul_fault("ControlTraceW");
    if (!error)
        error = check_properties(p);
    if (!error && !handle && !name)
        error = ERROR_INVALID_PARAMETER;
    if (error)
        return error;
    emul_table *t = emul_lock();
    emul_session *s = handle ? emul_by_handle(t, handle) : by_name(t, name), *stopped = NULL;
    uint32_t incarnation = 0;
    if (!s) {
        error = ERROR_WMI_INSTANCE_NOT_FOUND;
    } else if (code == EVENT_TRACE_CONTROL_QUERY) {
        error = report(s, p);
    } else if (code == EVENT_TRACE_CONTROL_STOP) {
        error = report(s, p);
        s->used = 0; /* also when the names had no room (ERROR_MORE_DATA) */
        s->ended_ms = GetTickCount64();
        update_playback(s->name, 0);
        stopped = s;
        incarnation = s->incarnation;
    } else if (code == EVENT_TRACE_CONTROL_FLUSH) {
        s->flushes++;
        error = report(s, p);
    } else if (code == EVENT_TRACE_CONTROL_UPDATE) {
        error = update(s, p);
        if (!error)
            error = report(s, p);
    } else {
        error = ERROR_INVALID_PARAMETER;
    }
    emul_unlock();
    if (stopped)
        emul_file_wait((size_t)(stopped - t->sessions), incarnation);
    return error;
}

ULONG WINAPI EmulQueryAllTracesW(PEVENT_TRACE_PROPERTIES *list, ULONG count, PULONG ret_count);

ULONG WINAPI EmulQueryAllTracesW(PEVENT_TRACE_PROPERTIES *list, ULONG count, PULONG ret_count) {
    ULONG error = emul_fault("QueryAllTracesW"), n = 0;
    if (error || !list || !ret_count || !count || count > script.sessions_max)
        return error ? error : ERROR_INVALID_PARAMETER;
    emul_table *t = emul_lock();
    for (size_t i = 0; i < EMUL_SESSIONS && !error; i++)
        if (t->sessions[i].used && n < count) {
            EVENT_TRACE_PROPERTIES *p = list[n++];
            if (p->Wnode.BufferSize < sizeof *p)
                error = ERROR_INVALID_PARAMETER;
            else
                error = report(&t->sessions[i], p);
        } else if (t->sessions[i].used) {
            error = ERROR_MORE_DATA;
        }
    emul_unlock();
    *ret_count = n;
    return error;
}

/* ---- the kernel ---- */

/* SeSystemProfilePrivilege is in the token of the calling process and enabled. */
static int may_profile(void) {
    HANDLE token;
    PRIVILEGE_SET p = {.PrivilegeCount = 1, .Control = PRIVILEGE_SET_ALL_NECESSARY};
    BOOL has = FALSE;
    if (!script.may_profile || !OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return 0;
    if (LookupPrivilegeValueW(NULL, L"SeSystemProfilePrivilege", &p.Privilege[0].Luid) &&
        !PrivilegeCheck(token, &p, &has))
        has = FALSE;
    CloseHandle(token);
    return has;
}

/* The samples of the profile interrupt and of counters, in word 1 of the group masks. */
static const uint32_t PROFILE_BITS = 0x2 | 0x400;

/* A list of structures of one size, of a session that the kernel logs to. */
static ULONG check_kernel_list(const emul_session *s, ULONG bytes, size_t each) {
    if (!s)
        return ERROR_INVALID_PARAMETER;
    if (!(s->mode & EVENT_TRACE_SYSTEM_LOGGER_MODE) && memcmp(s->guid.bytes, &KERNEL_LOGGER, sizeof KERNEL_LOGGER) != 0)
        return ERROR_INVALID_PARAMETER;
    return bytes % each || bytes / each > EMUL_HOOKS ? ERROR_BAD_LENGTH : 0;
}

static ULONG check_sources(const ULONG *sources, ULONG count) {
    if (!may_profile())
        return ERROR_PRIVILEGE_NOT_HELD;
    if (count + script.owner_count > script.counters_at_once)
        return ERROR_NO_SYSTEM_RESOURCES; /* Windows does not multiplex */
    for (ULONG i = 0; i < count; i++) {
        uint32_t k = 0;
        while (k < script.counter_count && script.counters[k].value != sources[i])
            k++;
        if (k == script.counter_count)
            return ERROR_INVALID_PARAMETER;
    }
    return 0;
}

static uint32_t keep_hooks(CLASSIC_EVENT_ID *to, const void *data, ULONG bytes) {
    memcpy(to, data, bytes); /* as many as check_kernel_list lets through have room */
    return (uint32_t)(bytes / sizeof *to);
}

static uint32_t keep_sources(uint32_t *to, const void *data, ULONG bytes) {
    size_t n = bytes / sizeof *to;
    n = n < EMUL_SOURCES ? n : EMUL_SOURCES;
    memcpy(to, data, n * sizeof *to);
    return (uint32_t)n;
}

ULONG WINAPI EmulTraceSetInformation(TRACEHANDLE handle, TRACE_INFO_CLASS which, PVOID data, ULONG bytes);

ULONG WINAPI EmulTraceSetInformation(TRACEHANDLE handle, TRACE_INFO_CLASS which, PVOID data, ULONG bytes) {
    ULONG error = emul_fault("TraceSetInformation");
    if (!error && !data && bytes)
        error = ERROR_INVALID_PARAMETER;
    if (error)
        return error;
    emul_table *t = emul_lock();
    emul_session *s = emul_by_handle(t, handle);
    switch ((int)which) {
    case TraceSystemTraceEnableFlagsInfo:
        error = check_kernel_list(s, bytes, sizeof s->masks);
        if (!error && bytes != sizeof s->masks)
            error = ERROR_BAD_LENGTH;
        if (!error && (ea_load32((const uint8_t *)data + sizeof *s->masks) & PROFILE_BITS) && !may_profile())
            error = ERROR_PRIVILEGE_NOT_HELD; /* none of the masks is set */
        if (!error)
            memcpy(s->masks, data, sizeof s->masks);
        for (size_t i = 0; !error && i < 8; i++)
            s->masks[i] &= ~script.flags_unknown[i];
        break;
    case TraceStackTracingInfo:
        error = check_kernel_list(s, bytes, sizeof(CLASSIC_EVENT_ID));
        if (!error)
            s->stacks = keep_hooks(s->stack_ids, data, bytes);
        break;
    case TraceSampledProfileIntervalInfo: {
        const TRACE_PROFILE_INTERVAL *interval = data;
        if (handle || bytes != sizeof *interval)
            error = handle ? ERROR_INVALID_PARAMETER : ERROR_BAD_LENGTH;
        else if (!may_profile())
            error = ERROR_PRIVILEGE_NOT_HELD;
        else if (interval->Source == 0 && (interval->Interval < 1221 || interval->Interval > 10000000))
            error = ERROR_INVALID_PARAMETER;
        else if (interval->Source)
            error = check_sources(&interval->Source, 1);
        if (!error && interval->Source < 64)
            t->intervals[interval->Source] =
                interval->Interval - (script.interval_step ? interval->Interval % script.interval_step : 0);
        break;
    }
    case TraceProfileSourceConfigInfo: /* the whole machine's */
        error = handle ? ERROR_INVALID_PARAMETER : bytes % sizeof(ULONG) ? ERROR_BAD_LENGTH : 0;
        if (!error && bytes > EMUL_PMC * sizeof(ULONG))
            error = ERROR_INCORRECT_SIZE;
        if (!error)
            error = emul_fault("counters");
        if (!error)
            error = check_sources(data, bytes / (ULONG)sizeof(ULONG));
        if (!error)
            t->sampled_count = keep_sources(t->sampled, data, bytes);
        break;
    case TracePmcCounterListInfo:
        error = check_kernel_list(s, bytes, sizeof(ULONG));
        if (!error && bytes > EMUL_PMC * sizeof(ULONG))
            error = ERROR_INCORRECT_SIZE;
        if (!error && s->counter_count)
            error = ERROR_INVALID_PARAMETER; /* once in a session's life */
        if (!error)
            error = emul_fault("counters");
        if (!error)
            error = check_sources(data, bytes / (ULONG)sizeof(ULONG));
        if (!error)
            s->counter_count = keep_sources(s->counters, data, bytes);
        break;
    case TracePmcEventListInfo:
        error = check_kernel_list(s, bytes, sizeof(CLASSIC_EVENT_ID));
        if (!error && bytes > EMUL_PMC * sizeof(CLASSIC_EVENT_ID))
            error = ERROR_INCORRECT_SIZE;
        if (!error && (!s->counter_count || s->pmc_events)) /* only once, and only after the counters were set */
            error = ERROR_INVALID_PARAMETER;
        if (!error)
            s->pmc_events = keep_hooks(s->pmc_ids, data, bytes);
        break;
    default:
        error = ERROR_NOT_SUPPORTED;
    }
    emul_unlock();
    return error;
}

/* Who holds the machine's counters: those of the script, and the rest is free. A machine of which the script says
 * nothing is an older one, which does not know the question. */
static ULONG tell_owners(void *data, ULONG bytes, ULONG *ret) {
    ULONG need = (ULONG)(offsetof(ea_pmc_owners, owners) + script.counters_at_once * sizeof(ea_pmc_owner));
    ea_pmc_owners *to = data;
    if (!script.owner_count)
        return ERROR_INVALID_PARAMETER;
    if (ret)
        *ret = need;
    if (!data || bytes < need)
        return ERROR_INSUFFICIENT_BUFFER;
    memset(to, 0, need);
    to->count = script.counters_at_once;
    for (uint32_t i = 0; i < script.owner_count && i < to->count; i++)
        to->owners[i] = script.owners[i];
    return 0;
}

/* Appends the entry of one session. Returns the entry's size in bytes. data NULL: only computes the size. */
static ULONG add_session(uint8_t *data, USHORT logger, const uint32_t *sources, ULONG count, ULONG events) {
    ULONG bytes = (ULONG)(sizeof(ea_pmc_session) + count * sizeof *sources + events * sizeof(USHORT) + 7) & ~7u;
    if (!data)
        return bytes;
    const ea_pmc_session head = {.next_offset = bytes, .logger = logger, .source_count = count, .hook_count = events};
    memset(data, 0, bytes);
    memcpy(data, &head, sizeof head);
    memcpy(data + sizeof head, sources, count * sizeof *sources);
    return bytes;
}

/* Lists the sessions that have counters on their events; the first entry is a session of another program. The hook ids
 * are zeros. */
static ULONG tell_sessions(uint8_t *data, ULONG bytes, ULONG *ret) {
    const uint32_t other = 25;
    ULONG need = 0, error = 0, last = 0;
    if (!script.tells_counters)
        return ERROR_INVALID_PARAMETER;
    for (int pass = 0; pass < 2 && !error; pass++) {
        uint8_t *to = pass ? data : NULL;
        ULONG at = add_session(to, 0xFFF0, &other, 1, 2);
        last = 0;
        const emul_table *t = emul_lock();
        for (size_t i = 0; i < EMUL_SESSIONS; i++) {
            const emul_session *s = &t->sessions[i];
            if (!s->used || !s->counter_count)
                continue;
            last = at;
            at +=
                add_session(to ? to + at : NULL, (USHORT)s->id, script.changes_counters ? script.applied : s->counters,
                            script.changes_counters ? script.applied_count : s->counter_count, s->pmc_events);
        }
        emul_unlock();
        need = at;
        error = !data || bytes < need ? ERROR_INSUFFICIENT_BUFFER : 0;
    }
    if (ret)
        *ret = need;
    if (!error)
        memset(data + last, 0, sizeof(ULONG)); /* next_offset of the last one */
    return error;
}

/* As EnableFlags has them: flags of the masks 1 and 2 that have a bit there. */
static void to_enable_flags(uint32_t *masks) {
    static const uint32_t FORMS[][3] = {{1, 0x4, 0x10},      {1, 0x80, 0x20},    {1, 0x4000, 0x40},
                                        {2, 0x40, 0x80},     {1, 0x200, 0x800},  {1, 0x8000, 0x4000},
                                        {1, 0x10, 0x800000}, {1, 0x2, 0x1000000}};
    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++)
        if (masks[FORMS[i][0]] & FORMS[i][1]) {
            masks[FORMS[i][0]] &= ~FORMS[i][1];
            masks[0] |= FORMS[i][2];
        }
}

static ULONG report_flags(TRACEHANDLE handle, void *data, ULONG bytes, ULONG *ret) {
    const emul_session *s = emul_by_handle(emul_lock(), handle);
    ULONG error = check_kernel_list(s, bytes, sizeof s->masks);
    if (!error && (!data || bytes != sizeof s->masks))
        error = ERROR_BAD_LENGTH;
    if (!error)
        memcpy(data, s->masks, bytes);
    if (!error && script.flags_translated)
        to_enable_flags(data);
    emul_unlock();
    if (ret)
        *ret = sizeof s->masks;
    return error;
}

ULONG WINAPI EmulTraceQueryInformation(TRACEHANDLE handle, TRACE_INFO_CLASS which, PVOID data, ULONG bytes, PULONG ret);

ULONG WINAPI EmulTraceQueryInformation(TRACEHANDLE handle, TRACE_INFO_CLASS which, PVOID data, ULONG bytes,
                                       PULONG ret) {
    ULONG error = emul_fault("TraceQueryInformation"), need = 0;
    const emul_script *w = emul_what();
    if (!error && (int)which == EA_TRACE_MAX_PMC_COUNTER_QUERY) {
        if (!data || bytes != sizeof(ULONG))
            return ERROR_BAD_LENGTH;
        memcpy(data, &w->counters_at_once, sizeof w->counters_at_once);
        return 0;
    }
    if (!error && which == TraceSystemTraceEnableFlagsInfo)
        return report_flags(handle, data, bytes, ret);
    if (!error && (int)which == EA_TRACE_PMC_COUNTER_OWNERS)
        return tell_owners(data, bytes, ret);
    if (!error && (int)which == EA_TRACE_PMC_SESSION_INFORMATION)
        return handle ? ERROR_INVALID_PARAMETER : tell_sessions(data, bytes, ret);
    if (!error && which == TraceSampledProfileIntervalInfo) {
        TRACE_PROFILE_INTERVAL *interval = data;
        if (!interval || bytes != sizeof *interval || handle || interval->Source >= 64)
            return ERROR_INVALID_PARAMETER;
        interval->Interval = emul_lock()->intervals[interval->Source];
        if (!interval->Interval) /* as it is when the machine has started */
            interval->Interval = interval->Source ? 65536 : 10000;
        emul_unlock();
        return 0;
    }
    if (error || which != TraceProfileSourceListInfo || handle)
        return error ? error : ERROR_NOT_SUPPORTED;
    for (uint32_t i = 0; i < w->counter_count; i++)
        need += (ULONG)(24 + (wcslen(w->counters[i].name) + 1) * 2 + 7) & ~7u;
    if (ret)
        *ret = need;
    if (!need)
        return ERROR_NOT_FOUND;
    if (bytes < need)
        return ERROR_BAD_LENGTH;
    uint8_t *at = data;
    for (uint32_t i = 0; i < w->counter_count; i++) {
        size_t chars = wcslen(w->counters[i].name) + 1;
        ULONG each = (ULONG)(24 + chars * 2 + 7) & ~7u;
        PROFILE_SOURCE_INFO info = {.NextEntryOffset = i + 1 < w->counter_count ? each : 0,
                                    .Source = (ULONG)w->counters[i].value,
                                    .MinInterval = w->counters[i].low,
                                    .MaxInterval = w->counters[i].high};
        memcpy(at, &info, offsetof(PROFILE_SOURCE_INFO, Description));
        memcpy(at + offsetof(PROFILE_SOURCE_INFO, Description), w->counters[i].name, chars * 2);
        at += each;
    }
    return 0;
}

/* ---- for emulctl ---- */

/* No function fails in this program. */
void WINAPI EmulCalm(void);

void WINAPI EmulCalm(void) {
    (void)emul_what();
    fault_count = 0;
}

ULONG WINAPI EmulLose(LPCWSTR name, ULONG events, ULONG log_buffers, ULONG realtime_buffers);

ULONG WINAPI EmulLose(LPCWSTR name, ULONG events, ULONG log_buffers, ULONG realtime_buffers) {
    emul_table *t = emul_lock();
    emul_session *s = by_name(t, name);
    if (s) {
        s->lost_events += events;
        s->lost_log_buffers += log_buffers;
        s->lost_realtime_buffers += realtime_buffers;
        s->lost_ms = GetTickCount64();
    }
    emul_unlock();
    return s ? 0 : ERROR_WMI_INSTANCE_NOT_FOUND;
}

/* Blocks the calls of all other processes until EmulTogether, for an operation that needs two calls. */
void WINAPI EmulAlone(void);

void WINAPI EmulAlone(void) {
    (void)emul_lock();
}

void WINAPI EmulTogether(void);

void WINAPI EmulTogether(void) {
    emul_unlock();
}

/* The session continues up to the script's next hold. */
ULONG WINAPI EmulGo(LPCWSTR name);

ULONG WINAPI EmulGo(LPCWSTR name) {
    emul_table *t = emul_lock();
    emul_session *s = by_name(t, name);
    if (s)
        s->gone++;
    emul_unlock();
    return s ? 0 : ERROR_WMI_INSTANCE_NOT_FOUND;
}

/* Copies the ids of the counters that the machine samples; ret has EMUL_SOURCES elements. Returns the number of ids. */
ULONG WINAPI EmulSampled(uint32_t *ret);

ULONG WINAPI EmulSampled(uint32_t *ret) {
    const emul_table *t = emul_lock();
    ULONG count = t->sampled_count;
    memcpy(ret, t->sampled, sizeof t->sampled);
    emul_unlock();
    return count;
}

ULONG WINAPI EmulLook(ULONG which, emul_session *ret);

ULONG WINAPI EmulLook(ULONG which, emul_session *ret) {
    emul_table *t = emul_lock();
    ULONG error = which < EMUL_SESSIONS ? 0 : ERROR_NO_MORE_ITEMS;
    if (!error)
        *ret = t->sessions[which];
    emul_unlock();
    return error;
}
