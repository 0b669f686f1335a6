/* What a session is to log: kernel flags, stacks, counters, providers and their filters. See session.h.
 *
 * The order is Windows': the profile's interval and sources, counters and stacks before the kernel's flags, whose
 * rundown comes when they are set; providers last. What is refused is told and left out: a session without stacks is
 * better than none. */
#include "session.h"

#include "event.h"
#include "filters.h"
#include "kernel_flags.h"
#include "platform.h"
#include "system_providers.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { EVENTS_MAX = 256, SOURCES_MAX = 8, LIST_MAX_BYTES = 1 << 20 };

/* "is left out: TEXT of the error" */
static void say_refused(const ea_session *s, const char *what, ULONG error) {
    char text[160] = "";
    ea_os_error_text((int)error, text, sizeof text);
    ea_session_say(s, "%s: Windows refuses it (%lu: %s); it is left out", what, error, text);
}

static int set(const ea_session *s, TRACEHANDLE handle, TRACE_INFO_CLASS which, void *data, size_t bytes,
               const char *what) {
    ULONG error = s->api->TraceSetInformation ? s->api->TraceSetInformation(handle, which, data, (ULONG)bytes)
                                              : ERROR_NOT_SUPPORTED;
    if (error)
        say_refused(s, what, error);
    return error ? -1 : 0;
}

/* Why counters cannot be had, for a person; NULL: Windows' own word has to do. */
static const char *why_no_counters(ULONG error) {
    switch (error) {
    case ERROR_NO_SYSTEM_RESOURCES:
    case ERROR_BUSY:
        return "another profiler or the hypervisor holds the machine's counters";
    case ERROR_NOT_SUPPORTED:
    case ERROR_INVALID_FUNCTION:
    case ERROR_NOT_FOUND:
        return "this machine shows no performance counters, as under many hypervisors";
    case ERROR_ACCESS_DENIED:
    case ERROR_PRIVILEGE_NOT_HELD:
        return "this account may not profile the system";
    default:
        return NULL;
    }
}

static void say_no_counters(const ea_session *s, const char *what, ULONG error) {
    const char *why = why_no_counters(error);
    if (why)
        ea_session_say(s, "%s: %s (error %lu); it is left out", what, why, error);
    else
        say_refused(s, what, error);
}

static int set_counters(const ea_session *s, TRACE_INFO_CLASS which, void *data, size_t bytes, const char *what) {
    ULONG error = s->api->TraceSetInformation ? s->api->TraceSetInformation(s->handle, which, data, (ULONG)bytes)
                                              : ERROR_NOT_SUPPORTED;
    if (error)
        say_no_counters(s, what, error);
    return error ? -1 : 0;
}

/* How many counters the machine has at a time: Windows refuses more and does not multiplex. An older one does not say.
 */
static ULONG most_counters(const ea_session *s) {
    ULONG most = 0, bytes = 0;
    if (!s->api->TraceQueryInformation ||
        s->api->TraceQueryInformation(0, (TRACE_INFO_CLASS)EA_TRACE_MAX_PMC_COUNTER_QUERY, &most, sizeof most, &bytes))
        return SOURCES_MAX;
    return most;
}

/* Sets an interval for the whole machine, reads back what Windows made of it, and says when that is another. unit: how
 * many of the structure's one of the text is. */
static int set_interval(const ea_session *s, ULONG source, ULONG interval, const char *what, double unit,
                        const char *unit_text) {
    TRACE_PROFILE_INTERVAL value = {source, interval}, applied = {.Source = source};
    ULONG bytes = 0;
    ULONG error = s->api->TraceSetInformation
                      ? s->api->TraceSetInformation(0, TraceSampledProfileIntervalInfo, &value, sizeof value)
                      : ERROR_NOT_SUPPORTED;
    if (error) {
        say_no_counters(s, what, error);
        return -1;
    }
    if (s->api->TraceQueryInformation &&
        !s->api->TraceQueryInformation(0, TraceSampledProfileIntervalInfo, &applied, sizeof applied, &bytes) &&
        applied.Interval && applied.Interval != interval)
        ea_session_say(s, "%s: a sample each %.4f%s is asked for, Windows takes one each %.4f%s", what, interval / unit,
                       unit_text, applied.Interval / unit, unit_text);
    return 0;
}

/* Samples and counters need a privilege that administrators have and that is off. */
static void take_privilege(const ea_session *s) {
    HANDLE token;
    TOKEN_PRIVILEGES p = {.PrivilegeCount = 1, .Privileges = {{.Attributes = SE_PRIVILEGE_ENABLED}}};
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &token))
        return;
    if (!LookupPrivilegeValueW(NULL, L"SeSystemProfilePrivilege", &p.Privileges[0].Luid) ||
        !AdjustTokenPrivileges(token, FALSE, &p, sizeof p, NULL, NULL) || GetLastError() == ERROR_NOT_ALL_ASSIGNED)
        ea_session_say(s, "this account may not profile the system (SeSystemProfilePrivilege)");
    CloseHandle(token);
}

/* ---- the kernel ---- */

/* Event classes by name as Windows wants them. */
static size_t class_ids(const ea_strings *names, CLASSIC_EVENT_ID *ids) {
    size_t families, n = 0;
    const ea_family *const *all = ea_event_families(&families);
    for (size_t i = 0; i < names->count; i++)
        for (size_t f = 0; f < families; f++)
            for (size_t k = 0; all[f]->provider->classic && k < all[f]->row_count; k++) {
                const ea_class_row *row = &all[f]->rows[k];
                CLASSIC_EVENT_ID id = {.Type = (UCHAR)row->code};
                memcpy(&id.EventGuid, all[f]->provider->guid.bytes, sizeof id.EventGuid);
                if (strcmp(row->name, names->items[i]) == 0 && n < EVENTS_MAX &&
                    !(n && memcmp(&ids[n - 1], &id, sizeof id) == 0)) /* rows of other versions of the same */
                    ids[n++] = id;
            }
    return n;
}

static int same_text(const WCHAR *wide, size_t wide_max, const char *name) {
    size_t i = 0;
    for (; i < wide_max && wide[i] && name[i]; i++)
        if ((wide[i] | 32) != ((unsigned char)name[i] | 32))
            return 0;
    return (i == wide_max || !wide[i]) && !name[i];
}

/* The number and bounds of a profile source by name; 0 when there is none. */
static int find_source(const uint8_t *list, size_t bytes, const char *name, const PROFILE_SOURCE_INFO **ret) {
    for (size_t at = 0; at + sizeof(PROFILE_SOURCE_INFO) <= bytes;) {
        const PROFILE_SOURCE_INFO *p = (const PROFILE_SOURCE_INFO *)(const void *)(list + at);
        size_t room = (bytes - at - offsetof(PROFILE_SOURCE_INFO, Description)) / sizeof(WCHAR);
        if (same_text(p->Description, room, name)) {
            *ret = p;
            return 1;
        }
        if (!p->NextEntryOffset || p->NextEntryOffset % 8 || p->NextEntryOffset > bytes - at)
            break;
        at += p->NextEntryOffset;
    }
    return 0;
}

static uint8_t *list_sources(const ea_session *s, ULONG *ret_bytes) {
    ULONG bytes = 0;
    uint8_t *list = NULL;
    ULONG error = s->api->TraceQueryInformation
                      ? s->api->TraceQueryInformation(0, TraceProfileSourceListInfo, NULL, 0, &bytes)
                      : ERROR_NOT_SUPPORTED;
    if ((error == ERROR_BAD_LENGTH || error == ERROR_INSUFFICIENT_BUFFER || error == ERROR_MORE_DATA) && bytes &&
        bytes <= LIST_MAX_BYTES && (list = calloc(1, bytes)))
        error = s->api->TraceQueryInformation(0, TraceProfileSourceListInfo, list, bytes, &bytes);
    if (!error && list) {
        *ret_bytes = bytes;
        return list;
    }
    free(list);
    say_no_counters(s, "pmc-samples and pmc-counters", error);
    return NULL;
}

static void set_pmc(const ea_session *s) {
    const ea_session_config *c = s->c;
    const ea_pmc_sample_config *samples = c->pmc_samples.items;
    ULONG sources[SOURCES_MAX], n = 0, bytes = 0;
    const PROFILE_SOURCE_INFO *found;
    if (!c->pmc_samples.count && !c->pmc_counters.count)
        return;
    uint8_t *list = list_sources(s, &bytes);
    if (!list)
        return;
    for (size_t i = 0; i < c->pmc_samples.count && n < SOURCES_MAX; i++) {
        if (!find_source(list, bytes, samples[i].source, &found)) {
            ea_session_say(s, "this machine has no performance counter %.64s; it is left out", samples[i].source);
            continue;
        }
        uint64_t interval = samples[i].interval;
        interval = interval < found->MinInterval ? found->MinInterval : interval;
        interval = interval > found->MaxInterval ? found->MaxInterval : interval;
        if (interval != samples[i].interval)
            ea_session_say(s, "%.64s is sampled each %" PRIu64 ", which is the machine's bound", samples[i].source,
                           interval);
        if (!set_interval(s, found->Source, (ULONG)interval, samples[i].source, 1, ""))
            sources[n++] = found->Source;
    }
    if (n)
        (void)set_counters(s, TraceProfileSourceConfigInfo, sources, n * sizeof *sources, "pmc-samples");
    n = 0;
    for (size_t i = 0; i < c->pmc_counters.count && n < SOURCES_MAX; i++)
        if (find_source(list, bytes, c->pmc_counters.items[i], &found))
            sources[n++] = found->Source;
        else
            ea_session_say(s, "this machine has no performance counter %.64s; it is left out",
                           c->pmc_counters.items[i]);
    free(list);
    ULONG most = most_counters(s);
    if (n > most) {
        ea_session_say(s, "pmc-counters: %lu are asked for, and this machine counts %lu at a time; the first are taken",
                       n, most);
        n = most;
    }
    if (!n || set_counters(s, TracePmcCounterListInfo, sources, n * sizeof *sources, "pmc-counters"))
        return;
    CLASSIC_EVENT_ID ids[EVENTS_MAX];
    size_t events = class_ids(&c->pmc_events, ids);
    if (events)
        (void)set(s, s->handle, TracePmcEventListInfo, ids, events * sizeof *ids, "pmc-events");
}

static void enable_kernel(const ea_session *s) {
    const ea_session_config *c = s->c;
    uint32_t masks[EA_KERNEL_MASK_WORDS];
    if (c->profile_interval_ns || c->pmc_samples.count || c->pmc_counters.count)
        take_privilege(s);
    if (c->profile_interval_ns) {
        (void)set_interval(s, 0, (ULONG)(c->profile_interval_ns / 100), "profile-interval", 10000, " ms");
    }
    set_pmc(s);
    if (c->stacks.count) {
        CLASSIC_EVENT_ID ids[EVENTS_MAX];
        size_t n = class_ids(&c->stacks, ids);
        (void)set(s, s->handle, TraceStackTracingInfo, ids, n * sizeof *ids, "stacks");
    }
    ea_session_masks(c, masks);
    ea_session_system_flags(s, masks);
    int any = 0;
    for (size_t i = 0; i < EA_KERNEL_MASK_WORDS; i++)
        any |= masks[i] != 0;
    if (any)
        (void)set(s, s->handle, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks, "flags");
    ea_session_system_providers(s);
}

/* ---- providers ---- */

ULONG ea_provider_properties(const ea_provider_config *p) {
    static const struct {
        const char *name;
        ULONG bit;
    } PROPERTIES[] = {{"sid", EVENT_ENABLE_PROPERTY_SID},
                      {"terminal-session", EVENT_ENABLE_PROPERTY_TS_ID},
                      {"psm-key", EA_ENABLE_PSM_KEY},
                      {"process-start-key", EA_ENABLE_PROCESS_START_KEY},
                      {"event-key", EA_ENABLE_EVENT_KEY},
                      {"exclude-in-private", EA_ENABLE_EXCLUDE_INPRIVATE},
                      {"ignore-keyword-0", EA_ENABLE_IGNORE_KEYWORD_0}};
    ULONG bits = 0;
    for (size_t i = 0; i < p->properties.count; i++)
        for (size_t k = 0; k < sizeof PROPERTIES / sizeof *PROPERTIES; k++)
            if (strcmp(p->properties.items[i], PROPERTIES[k].name) == 0)
                bits |= PROPERTIES[k].bit;
    if (p->stacks || p->stack_event_ids.count || p->stack_level)
        bits |= EVENT_ENABLE_PROPERTY_STACK_TRACE;
    if (p->groups)
        bits |= EA_ENABLE_PROVIDER_GROUP;
    return bits;
}

static void capture(const ea_session *s, const GUID *guid, const ea_provider_config *p) {
    ULONG error =
        s->api->EnableTraceEx2(s->handle, guid, EVENT_CONTROL_CODE_CAPTURE_STATE, TRACE_LEVEL_VERBOSE, 0, 0, 0, NULL);
    if (error)
        say_refused(s, p->provider, error);
}

static void enable_provider(const ea_session *s, const ea_provider_config *p) {
    ea_guid guid;
    ea_err err = {0};
    uint64_t any = 0, all = 0;
    uint8_t level = 0;
    int rc = ea_provider_find(s->api, p->provider, &guid, &err);
    if (!rc)
        rc = ea_provider_keywords(s->api, &guid, p->any, &any, &err);
    if (!rc)
        rc = ea_provider_keywords(s->api, &guid, p->all, &all, &err);
    if (!rc)
        rc = ea_level_parse(p->level, &level);
    if (rc) {
        ea_session_say(s, "provider %.128s is left out: %s", p->provider, err.message);
        return;
    }
    ea_filters *f;
    if (ea_filters_create(&f, s->api, &guid, p, &err)) {
        ea_session_say(s, "provider %.128s is left out: %s", p->provider, err.message);
        return;
    }
    if (err.code) /* one filter could not be had */
        ea_session_say(s, "provider %.128s: %s", p->provider, err.message);
    ENABLE_TRACE_PARAMETERS parameters = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2,
                                          .EnableProperty = ea_provider_properties(p),
                                          .EnableFilterDesc = f->count ? f->items : NULL,
                                          .FilterDescCount = f->count};
    GUID id;
    memcpy(&id, guid.bytes, sizeof id);
    ULONG error =
        s->api->EnableTraceEx2(s->handle, &id, EVENT_CONTROL_CODE_ENABLE_PROVIDER, level, any, all, 0, &parameters);
    if (error && f->count) { /* more events are better than none, and stages can still leave out what is not wanted */
        say_refused(s, p->provider, error);
        ea_session_say(s, "provider %.128s: it is enabled without filters", p->provider);
        parameters.EnableFilterDesc = NULL;
        parameters.FilterDescCount = 0;
        error =
            s->api->EnableTraceEx2(s->handle, &id, EVENT_CONTROL_CODE_ENABLE_PROVIDER, level, any, all, 0, &parameters);
    }
    ea_filters_destroy(f);
    if (error)
        say_refused(s, p->provider, error);
    else if (p->capture_state || p->capture_every_ns)
        capture(s, &id, p);
}

/* The runtimes tell their modules and methods when they see it enabled: keywords Loader 0x8, Jit 0x10, NGen 0x20,
 * StartRundown 0x40. Source: dotnet/runtime src/coreclr/vm/ClrEtwAll.man. */
static const ea_provider_config DOTNET_RUNDOWN = {
    .provider = "a669021c-c450-4609-a035-5af59af4df18", .level = "verbose", .any = "0x78"};

static int wants_dotnet(const ea_session_config *c) {
    for (size_t i = 0; i < c->rundown.count; i++)
        if (strcmp(c->rundown.items[i], "dotnet") == 0)
            return 1;
    return 0;
}

void ea_session_enable(ea_session *s) {
    const ea_provider_config *providers = s->c->providers.items;
    if (s->c->kind != EA_SESSION_USER)
        enable_kernel(s);
    if (wants_dotnet(s->c))
        enable_provider(s, &DOTNET_RUNDOWN);
    for (size_t i = 0; i < s->c->providers.count; i++)
        if (!ea_system_provider_find(providers[i].provider)) /* those were enabled with the kernel's part */
            enable_provider(s, &providers[i]);
}

void ea_session_capture(const ea_session *s, int64_t now_ns, int64_t *last_ns) {
    const ea_provider_config *providers = s->c->providers.items;
    for (size_t i = 0; i < s->c->providers.count; i++) {
        const ea_provider_config *p = &providers[i];
        ea_guid guid;
        GUID id;
        if (!p->capture_every_ns || now_ns / p->capture_every_ns == *last_ns / p->capture_every_ns ||
            ea_provider_find(s->api, p->provider, &guid, NULL))
            continue;
        memcpy(&id, guid.bytes, sizeof id);
        capture(s, &id, p);
    }
    *last_ns = now_ns;
}
