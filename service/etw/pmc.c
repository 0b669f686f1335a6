/* The profiler's interval, sampled counters, and counters on events, as far as the machine has them. See session.h.
 *
 * Windows gives counters to the first program that requests them, and does not multiplex: another profiler, the
 * hypervisor or virtualisation-based security may hold some or all. Unavailable counters are logged, with their holder
 * where Windows names it, counted (source_counters_refused), and skipped. */
#include "service/etw/control.h"
#include "service/etw/session.h"

#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SOURCES_MAX = EA_PMC_MAX,
    LIST_BYTES = 4096,
    LIST_MAX_BYTES = 1 << 20,
    OWNERS_SAID = 4,
    OWNERS_TEXT_BYTES = 320
};

/* The counters that the machine has: a sequence of PROFILE_SOURCE_INFO. */
typedef struct source_list {
    uint8_t *data; /* NULL: none */
    size_t bytes;
} source_list;

/* ---- available counters ---- */

/* Queries Windows without a session, for an answer of unknown length, which the caller frees. NULL: *ret_error has the
 * reason. */
static uint8_t *ask_windows(const ea_etw_api *api, int which, ULONG *ret_bytes, ULONG *ret_error) {
    ULONG room = LIST_BYTES, bytes = 0, error = ERROR_CALL_NOT_IMPLEMENTED;
    uint8_t *list = NULL;
    for (int i = 0; api->TraceQueryInformation && i < 2 && room <= LIST_MAX_BYTES; i++) {
        free(list);
        list = calloc(1, room);
        error =
            list ? api->TraceQueryInformation(0, (TRACE_INFO_CLASS)which, list, room, &bytes) : ERROR_NOT_ENOUGH_MEMORY;
        if ((error != ERROR_BAD_LENGTH && error != ERROR_INSUFFICIENT_BUFFER && error != ERROR_MORE_DATA) ||
            bytes <= room)
            break;
        room = bytes;
    }
    *ret_error = error;
    *ret_bytes = bytes < room ? bytes : room;
    if (!error)
        return list;
    free(list);
    return NULL;
}

static int pmc_same_text(const WCHAR *wide, size_t wide_max, const char *name) {
    size_t i = 0;
    for (; i < wide_max && wide[i] && name[i]; i++)
        if ((wide[i] | 32) != ((unsigned char)name[i] | 32))
            return 0;
    return (i == wide_max || !wide[i]) && !name[i];
}

/* The next source of the list, from *at on; *ret_room: how many characters its name has at the most. NULL: no more. */
static const PROFILE_SOURCE_INFO *next_source(const source_list *l, size_t *at, size_t *ret_room) {
    if (*at + sizeof(PROFILE_SOURCE_INFO) > l->bytes)
        return NULL;
    const PROFILE_SOURCE_INFO *p = (const PROFILE_SOURCE_INFO *)(const void *)(l->data + *at);
    *ret_room = (l->bytes - *at - offsetof(PROFILE_SOURCE_INFO, Description)) / sizeof(WCHAR);
    if (!p->NextEntryOffset || p->NextEntryOffset % 8 || p->NextEntryOffset > l->bytes - *at)
        *at = l->bytes;
    else
        *at += p->NextEntryOffset;
    return p;
}

/* The number and the limits of a profile source by name; NULL when there is none. */
static const PROFILE_SOURCE_INFO *pmc_find_source(const source_list *l, const char *name) {
    const PROFILE_SOURCE_INFO *p;
    for (size_t at = 0, room; (p = next_source(l, &at, &room));)
        if (pmc_same_text(p->Description, room, name))
            return p;
    return NULL;
}

/* ---- the holders of the other counters ---- */

static void pmc_add_source(ea_text *t, const source_list *l, ULONG source) {
    const PROFILE_SOURCE_INFO *p;
    for (size_t at = 0, room; (p = next_source(l, &at, &room));) {
        size_t chars = 0;
        if (p->Source != source)
            continue;
        while (chars < room && chars < 64 && p->Description[chars])
            chars++;
        ea_text_utf16(t, p->Description, chars * sizeof(WCHAR));
        return;
    }
    ea_text_printf(t, "source %lu", source);
}

/* A tag is four letters, as those of pool memory are, or a number. */
static void add_tag(ea_text *t, ULONG tag) {
    uint8_t letters[4];
    memcpy(letters, &tag, sizeof letters);
    int is_text = 1;
    for (int i = 0; i < 4; i++)
        is_text &= letters[i] >= 0x20 && letters[i] < 0x7f;
    if (is_text)
        ea_text_printf(t, "'%.4s'", (const char *)letters);
    else
        ea_text_printf(t, "0x%08lx", tag);
}

static void add_owner(ea_text *t, const source_list *l, const ea_pmc_owner *o) {
    if (o->type == EA_PMC_OWNER_TAGGED_WITH_SOURCE)
        pmc_add_source(t, l, o->source);
    else
        ea_text_str(t, "one");
    ea_text_str(t, " by ");
    if (o->type == EA_PMC_OWNER_UNTAGGED)
        ea_text_str(t, "an owner without a name");
    else
        add_tag(t, o->tag);
}

/* The holders of a processor's counters: "; 2 of 4 are held: TotalIssues by 'VTSS', one by 0x00000007". Empty where
 * Windows does not return them, which is before 10 21H2. Source: TracePmcCounterOwners, evntrace.h. */
static void list_owners(const ea_session *s, const source_list *l, char *out, size_t capacity) {
    ULONG bytes = 0, error = 0;
    ea_text t;
    *out = 0;
    uint8_t *list = ask_windows(s->api, EA_TRACE_PMC_COUNTER_OWNERS, &bytes, &error);
    if (!list)
        return;
    const ea_pmc_owners *o = (const ea_pmc_owners *)(const void *)list;
    size_t room = bytes < offsetof(ea_pmc_owners, owners)
                      ? 0
                      : (bytes - offsetof(ea_pmc_owners, owners)) / sizeof(ea_pmc_owner),
           count = room && o->count < room ? o->count : room, held = 0, said = 0;
    for (size_t i = 0; i < count; i++)
        held += o->owners[i].type != EA_PMC_OWNER_FREE;
    ea_text_init(&t);
    ea_text_printf(&t, "; %zu of %zu are held", held, count);
    for (size_t i = 0; i < count && said < OWNERS_SAID; i++)
        if (o->owners[i].type != EA_PMC_OWNER_FREE) {
            ea_text_str(&t, said++ ? ", " : ": ");
            add_owner(&t, l, &o->owners[i]);
        }
    if (said < held)
        ea_text_printf(&t, ", and %zu more", held - said);
    if (count && !t.failed)
        snprintf(out, capacity, "%.*s", (int)t.len_bytes, t.data);
    ea_text_deinit(&t);
    free(list);
}

/* ---- refusals ---- */

/* Why counters are not available, for a person; NULL: use Windows' own text. */
static const char *why_no_counters(ULONG error) {
    switch (error) {
    case ERROR_NO_SYSTEM_RESOURCES:
    case ERROR_BUSY:
        return "another profiler or the hypervisor holds the machine's counters";
    case ERROR_NOT_SUPPORTED:
    case ERROR_INVALID_FUNCTION:
    case ERROR_NOT_FOUND:
        return "this machine shows no performance counters, as under many hypervisors";
    case ERROR_INCORRECT_SIZE:
        return "Windows takes at most 4 counters, sampled sources, or events with counters";
    case ERROR_CALL_NOT_IMPLEMENTED: /* ours: it lacks the function */
        return "this Windows has no performance counters for sessions";
    case ERROR_ACCESS_DENIED:
    case ERROR_PRIVILEGE_NOT_HELD:
        return "this account may not profile the system";
    default:
        return NULL;
    }
}

/* Counts counters or sampled sources that are not available. */
static void lacks(const ea_session *s, size_t count) {
    ea_session_lacks(s, EA_COUNT_source_counters_refused, count);
}

static void log_refused(const ea_session *s, const source_list *l, const char *what, size_t count, ULONG error) {
    char owners[OWNERS_TEXT_BYTES] = "", text[160] = "";
    const char *why = why_no_counters(error);
    lacks(s, count);
    if (error == ERROR_NO_SYSTEM_RESOURCES || error == ERROR_BUSY)
        list_owners(s, l, owners, sizeof owners);
    if (!why)
        ea_os_error_text((int)error, text, sizeof text);
    ea_session_log(s, "%s: %s%s (error %lu)%s; it is left out", what, why ? why : "Windows refuses it: ", text, error,
                   owners);
}

/* handle: the session's; 0 for a list of the whole machine. */
static int set_list(const ea_session *s, const source_list *l, TRACEHANDLE handle, TRACE_INFO_CLASS which,
                    ULONG *sources, size_t count, const char *what) {
    ULONG error = s->api->TraceSetInformation
                      ? s->api->TraceSetInformation(handle, which, sources, (ULONG)(count * sizeof *sources))
                      : ERROR_CALL_NOT_IMPLEMENTED;
    if (error)
        log_refused(s, l, what, count, error);
    return error ? -1 : 0;
}

/* The number of counters that can be in use at the same time: Windows refuses more and does not multiplex. An older
 * Windows does not return it. */
static ULONG most_counters(const ea_etw_api *api, ULONG otherwise) {
    ULONG most = 0, bytes = 0;
    if (!api->TraceQueryInformation ||
        api->TraceQueryInformation(0, (TRACE_INFO_CLASS)EA_TRACE_MAX_PMC_COUNTER_QUERY, &most, sizeof most, &bytes))
        return otherwise;
    return most;
}

/* Sets an interval for the whole machine, reads back what Windows made of it, and says when that is another. unit: how
 * many of the structure's one of the text is. */
static int set_interval(ea_session *s, const source_list *l, ULONG source, ULONG interval, const char *what,
                        double unit, const char *unit_text) {
    TRACE_PROFILE_INTERVAL value = {source, interval}, applied = {.Source = source};
    ULONG bytes = 0;
    ea_profile_keep(s, source);
    ULONG error = s->api->TraceSetInformation
                      ? s->api->TraceSetInformation(0, TraceSampledProfileIntervalInfo, &value, sizeof value)
                      : ERROR_CALL_NOT_IMPLEMENTED;
    if (error) {
        log_refused(s, l, what, 1, error);
        return -1;
    }
    if (s->api->TraceQueryInformation &&
        !s->api->TraceQueryInformation(0, TraceSampledProfileIntervalInfo, &applied, sizeof applied, &bytes) &&
        applied.Interval && applied.Interval != interval)
        ea_session_log(s, "%s: a sample each %.4f%s is asked for, Windows takes one each %.4f%s", what, interval / unit,
                       unit_text, applied.Interval / unit, unit_text);
    return 0;
}

/* Enables SeSystemProfilePrivilege, which samples and counters need: an administrator's token has it, disabled. 0: this
 * account does not have it. */
static int take_privilege(void) {
    HANDLE token;
    TOKEN_PRIVILEGES p = {.PrivilegeCount = 1, .Privileges = {{.Attributes = SE_PRIVILEGE_ENABLED}}};
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &token))
        return 0;
    int took = LookupPrivilegeValueW(NULL, L"SeSystemProfilePrivilege", &p.Privileges[0].Luid) &&
               AdjustTokenPrivileges(token, FALSE, &p, sizeof p, NULL, NULL) &&
               GetLastError() != ERROR_NOT_ALL_ASSIGNED;
    CloseHandle(token);
    return took;
}

/* ---- the machine's list ---- */

int ea_control_counters(int (*fn)(const ea_control_counter *counter, void *arg), void *arg, uint32_t *ret_at_once,
                        ea_err *err) {
    const ea_etw_api *api;
    ULONG bytes = 0, error = 0;
    int rc = ea_etw_load(&api, err);
    if (rc)
        return rc;
    source_list l = {.data = ask_windows(api, TraceProfileSourceListInfo, &bytes, &error)};
    if (!l.data) {
        const char *why = why_no_counters(error);
        return ea_fail_os(err, ea_etw_code(error), (int)error, "list the hardware counters%s%s", why ? ": " : "",
                          why ? why : "");
    }
    l.bytes = bytes;
    const PROFILE_SOURCE_INFO *p;
    for (size_t at = 0, room; (p = next_source(&l, &at, &room));) {
        ea_control_counter c = {.source = p->Source, .least = p->MinInterval, .most = p->MaxInterval};
        TRACE_PROFILE_INTERVAL applied = {.Source = p->Source};
        size_t chars = 0;
        while (chars < room && p->Description[chars])
            chars++;
        int n = WideCharToMultiByte(CP_UTF8, 0, p->Description, (int)chars, c.name, sizeof c.name - 1, NULL, NULL);
        c.name[n > 0 ? n : 0] = 0;
        if (!api->TraceQueryInformation(0, TraceSampledProfileIntervalInfo, &applied, sizeof applied, &bytes))
            c.interval = applied.Interval;
        if (fn(&c, arg))
            break;
    }
    free(l.data);
    *ret_at_once = most_counters(api, 0);
    return 0;
}

/* ---- the configuration's counters ---- */

static void log_unknown(const ea_session *s, const char *name) {
    lacks(s, 1);
    ea_session_log(s, "this machine has no performance counter %.64s; it is left out", name);
}

/* Sets the list of sampled sources. It applies to the whole machine, and the samples go to each session that has the
 * flag PMC_PROFILE. Source: TraceProfileSourceConfigInfo, evntrace.h. */
static void set_samples(ea_session *s, const source_list *l) {
    const ea_pmc_sample_config *samples = s->c->pmc_samples.items;
    ULONG sources[SOURCES_MAX], n = 0;
    for (size_t i = 0; i < s->c->pmc_samples.count; i++) {
        const PROFILE_SOURCE_INFO *found = pmc_find_source(l, samples[i].source);
        if (!found) {
            log_unknown(s, samples[i].source);
            continue;
        }
        if (n == SOURCES_MAX) {
            lacks(s, 1);
            ea_session_log(s, "%.64s: at most %d counters are sampled; it is left out", samples[i].source, SOURCES_MAX);
            continue;
        }
        uint64_t interval = samples[i].interval;
        interval = interval < found->MinInterval ? found->MinInterval : interval;
        interval = interval > found->MaxInterval ? found->MaxInterval : interval;
        if (interval != samples[i].interval)
            ea_session_log(s, "%.64s is sampled each %" PRIu64 ", which is the machine's bound", samples[i].source,
                           interval);
        if (!set_interval(s, l, found->Source, (ULONG)interval, samples[i].source, 1, ""))
            sources[n++] = found->Source;
    }
    if (n)
        (void)set_list(s, l, 0, TraceProfileSourceConfigInfo, sources, n, "pmc-samples");
}

/* The entry of this session among those that have counters; NULL: it is not there, or does not fit into the list. */
static const ea_pmc_session *find_session(const uint8_t *list, ULONG bytes, USHORT logger) {
    for (size_t at = 0; at + sizeof(ea_pmc_session) <= bytes;) {
        const ea_pmc_session *p = (const ea_pmc_session *)(const void *)(list + at);
        size_t room = bytes - at - sizeof *p;
        if (p->logger == logger)
            return p->source_count <= room / sizeof(ULONG) ? p : NULL;
        if (!p->next_offset || p->next_offset % sizeof(ULONG) || p->next_offset > bytes - at)
            break;
        at += p->next_offset;
    }
    return NULL;
}

static void add_sources(ea_text *t, const source_list *l, const ULONG *sources, size_t count) {
    for (size_t i = 0; i < count && i < SOURCES_MAX; i++) {
        ea_text_str(t, i ? ", " : "");
        pmc_add_source(t, l, sources[i]);
    }
    if (!count)
        ea_text_str(t, "none");
}

/* Reads back which counters the session has now. Logs when they, or their order, differ from those that Windows has
 * just accepted: the values on events have no names of their own. Windows before 10 22H2 does not return them. Source:
 * TracePmcSessionInformation, evntrace.h. */
static void check_counters(const ea_session *s, const source_list *l, const ULONG *sources, size_t count,
                           size_t events) {
    ULONG bytes = 0, error = 0;
    uint8_t *list = ask_windows(s->api, EA_TRACE_PMC_SESSION_INFORMATION, &bytes, &error);
    if (!list)
        return;
    const ea_pmc_session *p = find_session(list, bytes, (USHORT)(s->handle & 0xffff));
    const ULONG *applied = p ? (const ULONG *)(const void *)(p + 1) : NULL;
    size_t applied_count = p ? p->source_count : 0, missing = 0;
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        while (k < applied_count && applied[k] != sources[i])
            k++;
        missing += k == applied_count;
    }
    lacks(s, missing);
    if (applied_count != count || memcmp(applied, sources, count * sizeof *sources) != 0) {
        ea_text t;
        ea_text_init(&t);
        add_sources(&t, l, sources, count);
        ea_text_str(&t, " were taken, and Windows counts ");
        add_sources(&t, l, applied, applied_count);
        ea_session_log(s, "pmc-counters: %s", t.data);
        ea_text_deinit(&t);
    }
    if (p && p->hook_count < events)
        ea_session_log(s, "pmc-events: %zu were taken, and Windows puts counters on %lu", events, p->hook_count);
    free(list);
}

static void set_counters(const ea_session *s, const source_list *l) {
    const ea_strings *names = &s->c->pmc_counters;
    ULONG sources[SOURCES_MAX], n = 0; /* the configuration has no more */
    for (size_t i = 0; i < names->count && n < SOURCES_MAX; i++) {
        const PROFILE_SOURCE_INFO *found = pmc_find_source(l, names->items[i]);
        if (found)
            sources[n++] = found->Source;
        else
            log_unknown(s, names->items[i]);
    }
    ULONG most = most_counters(s->api, SOURCES_MAX);
    if (n > most) {
        lacks(s, n - most);
        ea_session_log(s, "pmc-counters: %lu are asked for, and this machine counts %lu at a time; the first are taken",
                       n, most);
        n = most;
    }
    if (!n || set_list(s, l, s->handle, TracePmcCounterListInfo, sources, n, "pmc-counters"))
        return;
    CLASSIC_EVENT_ID ids[EA_CLASS_IDS_MAX];
    size_t events = ea_session_class_ids(&s->c->pmc_events, ids);
    if (events > EA_PMC_MAX) { /* a name may stand for several */
        ea_session_log(s, "pmc-events: %zu are asked for, and Windows puts counters on %d; the first are taken", events,
                       EA_PMC_MAX);
        events = EA_PMC_MAX;
    }
    ULONG error =
        events ? s->api->TraceSetInformation(s->handle, TracePmcEventListInfo, ids, (ULONG)(events * sizeof *ids)) : 0;
    if (error)
        log_refused(s, l, "pmc-events", n, error);
    else
        check_counters(s, l, sources, n, events);
}

void ea_session_pmc(ea_session *s) {
    const ea_session_config *c = s->c;
    size_t asked = c->pmc_samples.count + c->pmc_counters.count;
    ULONG bytes = 0, error = 0;
    source_list list = {NULL, 0};
    int may_profile = take_privilege(); /* also for the flags PROFILE and PMC_PROFILE (enable.c) */
    ea_profile_recover(s->api);
    if (!c->profile_interval_ns && !asked)
        return;
    if (!may_profile)
        ea_session_log(s, "this account may not profile the system (SeSystemProfilePrivilege)");
    if (asked) {
        list.data = ask_windows(s->api, TraceProfileSourceListInfo, &bytes, &error);
        list.bytes = list.data ? bytes : 0;
    }
    if (c->profile_interval_ns)
        (void)set_interval(s, &list, 0, (ULONG)(c->profile_interval_ns / 100), "profile-interval", 10000, " ms");
    if (list.data) {
        set_samples(s, &list);
        set_counters(s, &list);
    } else if (asked) {
        log_refused(s, &list, "pmc-samples and pmc-counters", asked, error);
    }
    free(list.data);
}
