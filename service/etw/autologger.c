/* Sessions of boot time, in the registry. See autologger.h. */
#include "service/etw/autologger.h"

#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "proto/event/provider_name.h"
#include "service/etw/boot_files.h"
#include "service/etw/session.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const WCHAR ROOT[] = L"SYSTEM\\CurrentControlSet\\Control\\WMI\\Autologger", PREFIX[] = L"etwagent-";

enum { NAME_CHARS = EA_SESSION_NAME_MAX + 16, KEYS_MAX = 4096 };

typedef struct writer {
    const ea_etw_api *api;
    ea_autologger_note note;
    void *note_arg;
} writer;

static void autologger_log_line(const writer *w, const char *format, ...) EA_PRINTF(2, 3);

static void autologger_log_line(const writer *w, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (w->note)
        w->note(w->note_arg, line);
}

static void autologger_to_wide(const char *utf8, WCHAR *out, size_t capacity) {
    size_t bytes = ea_utf8_to_utf16(utf8, strlen(utf8), out, (capacity - 1) * sizeof *out);
    out[bytes / sizeof *out < capacity ? bytes / sizeof *out : capacity - 1] = 0;
}

static void name_session(const ea_session_config *s, WCHAR *out) {
    char name[NAME_CHARS];
    snprintf(name, sizeof name, EA_LIVE_PREFIX "%s", s->name);
    autologger_to_wide(name, out, NAME_CHARS);
}

static LSTATUS autologger_set_number(HKEY key, const WCHAR *name, uint64_t value) {
    DWORD number = value < UINT32_MAX ? (DWORD)value : UINT32_MAX;
    return RegSetValueExW(key, name, 0, REG_DWORD, (const BYTE *)&number, sizeof number);
}

static LSTATUS set_mask(HKEY key, const WCHAR *name, uint64_t value) {
    return RegSetValueExW(key, name, 0, REG_QWORD, (const BYTE *)&value, sizeof value);
}

static LSTATUS autologger_set_text(HKEY key, const WCHAR *name, const WCHAR *text) {
    return RegSetValueExW(key, name, 0, REG_SZ, (const BYTE *)text, (DWORD)((wcslen(text) + 1) * sizeof *text));
}

/* {GUID}, as keys and values have it. */
static void guid_text(const ea_guid *guid, WCHAR *out, size_t capacity) {
    ea_text t;
    ea_text_init(&t);
    ea_text_char(&t, '{');
    ea_text_guid(&t, guid);
    ea_text_char(&t, '}');
    autologger_to_wide(t.failed ? "" : t.data, out, capacity);
    ea_text_deinit(&t);
}

static int write_provider(const writer *w, HKEY session, const ea_provider_config *p, ea_err *err) {
    ea_guid guid;
    ea_err why = {0};
    uint64_t any = 0, all = 0;
    uint8_t level = 0;
    WCHAR name[64];
    HKEY key;
    int rc = ea_provider_find(w->api, p->provider, &guid, &why);
    if (!rc)
        rc = ea_provider_masks(w->api, &guid, p, &any, &all, &why);
    if (!rc)
        rc = ea_level_parse(p->level, &level);
    if (rc) {
        autologger_log_line(w, "at boot provider %.128s is left out: %s", p->provider, why.message);
        return 0;
    }
    guid_text(&guid, name, sizeof name / sizeof *name);
    LSTATUS os = RegCreateKeyExW(session, name, 0, NULL, 0, KEY_SET_VALUE, NULL, &key, NULL);
    if (os)
        return ea_fail_os(err, ea_etw_code((ULONG)os), (int)os, "write provider %.128s of a boot session", p->provider);
    if (!(os = autologger_set_number(key, L"Enabled", 1)) &&
        !(os = autologger_set_number(key, L"EnableLevel", level)) &&
        !(os = autologger_set_number(key, L"EnableProperty", ea_provider_properties(p))) &&
        !(os = set_mask(key, L"MatchAnyKeyword", any)))
        os = set_mask(key, L"MatchAllKeyword", all);
    RegCloseKey(key);
    return os ? ea_fail_os(err, ea_etw_code((ULONG)os), (int)os, "write a boot session's provider") : 0;
}

static LSTATUS autologger_write_values(HKEY key, const ea_session_config *s) {
    const int64_t second = 1000000000;
    WCHAR file[1024], guid[64];
    char name[NAME_CHARS];
    ea_guid id;
    snprintf(name, sizeof name, EA_LIVE_PREFIX "%s", s->name);
    if (ea_provider_guid_of_name(name, &id, NULL))
        return ERROR_INVALID_DATA;
    guid_text(&id, guid, sizeof guid / sizeof *guid);
    autologger_to_wide(s->boot_file, file, sizeof file / sizeof *file);

    const struct {
        const WCHAR *name;
        uint64_t value;
    } NUMBERS[] = {{L"BufferSize", s->buffer_bytes / 1024},
                   {L"MinimumBuffers", s->min_buffers},
                   {L"MaximumBuffers", s->max_buffers},
                   {L"FlushTimer", (uint64_t)((s->flush_ns + second - 1) / second)},
                   {L"ClockType", (uint64_t)s->clock + 1},
                   {L"LogFileMode", EVENT_TRACE_FILE_MODE_SEQUENTIAL},
                   {L"MaxFileSize", s->file_bytes >> 20},
                   {L"FileMax", ea_boot_files_count(s)},
                   {L"Start", 1}};

    LSTATUS os = autologger_set_text(key, L"Guid", guid);
    if (!os)
        os = autologger_set_text(key, L"FileName", file);
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS && !os; i++)
        os = autologger_set_number(key, NUMBERS[i].name, NUMBERS[i].value);
    return os;
}

/* Removes the providers of a session that is written again. */
static LSTATUS remove_providers(HKEY session) {
    WCHAR name[256];
    LSTATUS os = 0;
    for (DWORD i = 0; i < KEYS_MAX && !os; i++) {
        DWORD chars = sizeof name / sizeof *name;
        os = RegEnumKeyExW(session, 0, name, &chars, NULL, NULL, NULL, NULL);
        if (!os)
            os = RegDeleteTreeW(session, name);
    }
    return os == ERROR_NO_MORE_ITEMS ? 0 : os;
}

/* The session's key stays: Windows' FileCounter in it is the number of the last boot's file. Without it the numbers
 * begin at 1 again, and a file that could not be moved yet is replaced at the next boot. */
static int write_session(const writer *w, HKEY root, const ea_session_config *s, ea_err *err) {
    const ea_provider_config *providers = s->providers.items;
    WCHAR name[NAME_CHARS];
    HKEY key;
    name_session(s, name);
    LSTATUS os = RegCreateKeyExW(root, name, 0, NULL, 0, KEY_ALL_ACCESS, NULL, &key, NULL);
    if (os)
        return ea_fail_os(err, ea_etw_code((ULONG)os), (int)os, "write boot session %s", s->name);
    int rc = 0;
    if ((os = autologger_set_number(key, L"Start", 0)) || (os = remove_providers(key)))
        rc = ea_fail_os(err, ea_etw_code((ULONG)os), (int)os, "write boot session %s", s->name);
    for (size_t i = 0; i < s->providers.count && !rc; i++)
        rc = write_provider(w, key, &providers[i], err);
    if (!rc && (os = autologger_write_values(key, s))) /* with Start last: a half-written one does not start */
        rc = ea_fail_os(err, ea_etw_code((ULONG)os), (int)os, "write boot session %s", s->name);
    RegCloseKey(key);
    return rc;
}

static int autologger_is_wanted(const ea_tables *sessions, const WCHAR *key) {
    const ea_session_config *all = sessions ? sessions->items : NULL;
    for (size_t i = 0; sessions && i < sessions->count; i++) {
        WCHAR name[NAME_CHARS];
        name_session(&all[i], name);
        if (all[i].boot_file && _wcsicmp(name, key) == 0)
            return 1;
    }
    return 0;
}

/* Removes keys of this program that the configuration no longer has. */
static int remove_others(HKEY root, const ea_tables *sessions, ea_err *err) {
    WCHAR name[256];
    for (DWORD i = 0; i < KEYS_MAX;) {
        DWORD chars = sizeof name / sizeof *name;
        LSTATUS os = RegEnumKeyExW(root, i, name, &chars, NULL, NULL, NULL, NULL);
        if (os == ERROR_NO_MORE_ITEMS)
            return 0;
        int is_ours = !os && _wcsnicmp(name, PREFIX, wcslen(PREFIX)) == 0 && !autologger_is_wanted(sessions, name);
        if (is_ours && (os = RegDeleteTreeW(root, name)))
            return ea_fail_os(err, ea_etw_code((ULONG)os), (int)os, "remove a boot session");
        i += !is_ours;
    }
    return 0;
}

int ea_autologgers_write(const ea_tables *sessions, ea_autologger_note note, void *note_arg, ea_err *err) {
    writer w = {.note = note, .note_arg = note_arg};
    const ea_session_config *all = sessions ? sessions->items : NULL;
    HKEY root;
    size_t wanted = 0;
    int rc = ea_etw_load(&w.api, err);
    if (rc)
        return rc;
    for (size_t i = 0; sessions && i < sessions->count; i++)
        wanted += all[i].boot_file != NULL;
    LSTATUS os = RegOpenKeyExW(HKEY_LOCAL_MACHINE, ROOT, 0, KEY_ALL_ACCESS, &root);
    if (os == ERROR_FILE_NOT_FOUND && wanted)
        os = RegCreateKeyExW(HKEY_LOCAL_MACHINE, ROOT, 0, NULL, 0, KEY_ALL_ACCESS, NULL, &root, NULL);
    if (os)
        return !wanted && os == ERROR_FILE_NOT_FOUND
                   ? 0
                   : ea_fail_os(err, ea_etw_code((ULONG)os), (int)os, "write the sessions of boot time");
    rc = remove_others(root, sessions, err);
    for (size_t i = 0; sessions && i < sessions->count && !rc; i++)
        if (all[i].boot_file && !(rc = ea_path_make_parent(all[i].boot_file, err)))
            rc = write_session(&w, root, &all[i], err);
    RegCloseKey(root);
    return rc;
}

/* 1 when the registry has a boot session of this name. */
static int autologger_has_key(const ea_session_config *s) {
    WCHAR name[NAME_CHARS], path[NAME_CHARS + 128];
    HKEY key;
    name_session(s, name);
    if (_snwprintf(path, sizeof path / sizeof *path, L"%ls\\%ls", ROOT, name) < 0 ||
        RegOpenKeyExW(HKEY_LOCAL_MACHINE, path, 0, KEY_QUERY_VALUE, &key))
        return 0;
    RegCloseKey(key);
    return 1;
}

int ea_autologger_take(const ea_session_config *session, ea_autologger_note note, void *note_arg, unsigned *ret_lost,
                       ea_err *err) {
    ea_session s;
    *ret_lost = 0;
    if (!session->boot_file)
        return 0;
    int rc = ea_session_init(&s, session, NULL, NULL, NULL, err);
    if (rc)
        return rc;
    ea_session_stop_boot(
        &s, autologger_has_key(session)); /* its file is complete then; one that was full has ended by itself */
    *ret_lost = ea_boot_files_take(session, note, note_arg);
    return 0;
}
