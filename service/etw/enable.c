/* Enables what a session logs: kernel flags, stacks, counters, providers and their filters. See session.h.
 *
 * Windows requires this order: the profile's interval and sources, counters and stacks before the kernel's flags, whose
 * rundown starts when they are set; providers last. A part that Windows refuses is logged and skipped: a session
 * without stacks is better than none. */
#include "service/etw/session.h"

#include "config/kernel_flags.h"
#include "config/system_providers.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "proto/event/event.h"
#include "service/etw/filters.h"

#include <stdlib.h>
#include <string.h>

/* Returns whether Windows took it. */
static int enable_set(const ea_session *s, TRACE_INFO_CLASS which, void *data, size_t bytes, const char *what) {
    ULONG error = s->api->TraceSetInformation ? s->api->TraceSetInformation(s->handle, which, data, (ULONG)bytes)
                                              : ERROR_CALL_NOT_IMPLEMENTED;
    if (error)
        ea_session_refused(s, what, error);
    return !error;
}

/* ---- the kernel ---- */

/* Windows may return some flags as EnableFlags has them, in the first mask: their own bits take their place. Source:
 * EVENT_TRACE_GROUPMASK_INFORMATION, geoffchappell.com. */
static void from_enable_flags(uint32_t *masks) {
    static const struct {
        uint32_t bit; /* of the first mask */
        const char *name;
    } FORMS[] = {{0x10, "CSWITCH"},     {0x20, "DPC"},          {0x40, "INTERRUPT"},   {0x80, "SYSCALL"},
                 {0x800, "DISPATCHER"}, {0x4000, "VIRT_ALLOC"}, {0x800000, "DRIVERS"}, {0x1000000, "PROFILE"}};

    for (size_t i = 0; i < sizeof FORMS / sizeof *FORMS; i++) {
        const ea_kernel_flag *f = ea_kernel_flag_find(FORMS[i].name, strlen(FORMS[i].name));
        if (!(masks[0] & FORMS[i].bit))
            continue;
        masks[0] &= ~FORMS[i].bit;
        masks[ea_kernel_flag_word(f->mask)] |= ea_kernel_flag_bits(f->mask);
    }
}

int ea_session_flags(const ea_etw_api *api, TRACEHANDLE session, uint32_t *ret_masks) {
    uint32_t masks[EA_KERNEL_MASK_WORDS] = {0};
    ULONG bytes = 0;
    if (!api->TraceQueryInformation ||
        api->TraceQueryInformation(session, TraceSystemTraceEnableFlagsInfo, masks, sizeof masks, &bytes))
        return -1;
    from_enable_flags(masks);
    memcpy(ret_masks, masks, sizeof masks);
    return 0;
}

/* Windows accepts flags that it does not know and ignores them. They are logged if Windows can return the applied
 * flags. */
static void report_flags(const ea_session *s, const uint32_t *asked) {
    uint32_t applied[EA_KERNEL_MASK_WORDS];
    ea_text t;
    if (ea_session_flags(s->api, s->handle, applied))
        return;
    ea_text_init(&t);
    for (const ea_kernel_flag *f = ea_kernel_flags; f->name; f++) {
        unsigned word = ea_kernel_flag_word(f->mask);
        uint32_t bits = ea_kernel_flag_bits(f->mask);
        if ((asked[word] & bits) == bits && (applied[word] & bits) != bits)
            ea_text_printf(&t, "%s%s", t.len_bytes ? ", " : "", f->name);
    }
    if (t.len_bytes && !t.failed)
        ea_session_log(s, "flags: these are not among what Windows says the session has: %s", t.data);
    ea_text_deinit(&t);
}

/* Windows refuses all masks when one of these flags is among them and SeSystemProfilePrivilege is not enabled. Source:
 * EVENT_TRACE_GROUPMASK_INFORMATION, geoffchappell.com. */
static const char *const PROFILE_FLAGS[] = {"PROFILE", "PMC_PROFILE"};

/* Takes the flags that need the privilege out of the masks, and logs their names. Returns their number. */
static size_t take_profile_flags_out(const ea_session *s, uint32_t *masks) {
    size_t count = 0;
    for (size_t i = 0; i < sizeof PROFILE_FLAGS / sizeof *PROFILE_FLAGS; i++) {
        const ea_kernel_flag *f = ea_kernel_flag_find(PROFILE_FLAGS[i], strlen(PROFILE_FLAGS[i]));
        unsigned word = ea_kernel_flag_word(f->mask);
        if (!(masks[word] & ea_kernel_flag_bits(f->mask)))
            continue;
        masks[word] &= ~ea_kernel_flag_bits(f->mask);
        ea_session_lacks(s, EA_COUNT_source_parts_refused, 1);
        ea_session_log(s, "flag %s: this account may not profile the system (SeSystemProfilePrivilege); it is left out",
                       f->name);
        count++;
    }
    return count;
}

static int set_masks(const ea_session *s, uint32_t *masks) {
    ULONG error = s->api->TraceSetInformation
                      ? s->api->TraceSetInformation(s->handle, TraceSystemTraceEnableFlagsInfo, masks,
                                                    EA_KERNEL_MASK_WORDS * (ULONG)sizeof *masks)
                      : ERROR_CALL_NOT_IMPLEMENTED;
    if (error == ERROR_PRIVILEGE_NOT_HELD && take_profile_flags_out(s, masks))
        error = s->api->TraceSetInformation(s->handle, TraceSystemTraceEnableFlagsInfo, masks,
                                            EA_KERNEL_MASK_WORDS * (ULONG)sizeof *masks);
    if (error)
        ea_session_refused(s, "flags", error);
    return !error;
}

void ea_session_restore_masks(const ea_session *s) {
    uint32_t masks[EA_KERNEL_MASK_WORDS];
    int any = 0;
    memcpy(masks, s->masks, sizeof masks);
    for (size_t i = 0; i < EA_KERNEL_MASK_WORDS; i++)
        any |= masks[i] != 0;
    if (any)
        (void)set_masks(s, masks);
    ea_session_system_providers(s);
}

static void enable_kernel(ea_session *s) {
    const ea_session_config *c = s->c;
    uint32_t masks[EA_KERNEL_MASK_WORDS];
    ea_session_pmc(s);
    if (c->stacks.count) {
        CLASSIC_EVENT_ID ids[EA_CLASS_IDS_MAX];
        size_t n = ea_session_class_ids(&c->stacks, ids);
        (void)enable_set(s, TraceStackTracingInfo, ids, n * sizeof *ids, "stacks");
    }
    ea_session_masks(c, masks);
    ea_session_system_flags(s, masks);
    int any = 0;
    for (size_t i = 0; i < EA_KERNEL_MASK_WORDS; i++)
        any |= masks[i] != 0;
    memset(s->masks, 0, sizeof s->masks);
    int is_set = any && set_masks(s, masks);
    if (is_set)
        memcpy(s->masks, masks, sizeof masks);
    if (is_set)
        report_flags(s, masks);
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
    if (p->stacks || p->stack_event_ids.count || p->stack_event_names.count || p->stack_level)
        bits |= EVENT_ENABLE_PROPERTY_STACK_TRACE;
    if (p->groups)
        bits |= EA_ENABLE_PROVIDER_GROUP;
    return bits;
}

/* Level and keywords reach the provider's callback, and providers choose by them what they log of their state: it gets
 * those that it was enabled with. */
static void capture(const ea_session *s, const ea_session_provider *known, const ea_provider_config *p) {
    uint8_t level = TRACE_LEVEL_VERBOSE;
    GUID id;
    memcpy(&id, known->guid.bytes, sizeof id);
    if (ea_level_parse(p->level, &level))
        level = TRACE_LEVEL_VERBOSE;
    ULONG error = s->api->EnableTraceEx2(s->handle, &id, EVENT_CONTROL_CODE_CAPTURE_STATE, level,
                                         known->any ? known->any : UINT64_MAX, known->all, 0, NULL);
    if (error)
        ea_session_refused(s, p->provider, error);
}

/* ---- reading back what Windows applied ---- */

typedef struct guid_question {
    const ea_etw_api *api;
    GUID guid;
} guid_question;

static ULONG call_guid(const void *arg, void *data, ULONG *bytes) {
    const guid_question *q = arg;
    GUID guid = q->guid;
    ULONG room = *bytes;
    return q->api->EnumerateTraceGuidsEx(TraceGuidQueryInfo, &guid, sizeof guid, data, room, bytes);
}

/* The registrations of a provider, and what this session has enabled of it. */
typedef struct registrations {
    unsigned count; /* by programs that run; Windows keeps an entry for the others, too */
    int in_kernel;  /* one of them is a driver's, or the kernel's own: Windows names process 0 */
    int is_ours;    /* enabled is this session's */
    TRACE_ENABLE_INFO enabled;
} registrations;

static void read_registrations(const uint8_t *data, size_t bytes, USHORT logger, registrations *ret) {
    TRACE_GUID_INFO head;
    TRACE_PROVIDER_INSTANCE_INFO instance;
    size_t at = sizeof head;
    if (bytes < at)
        return;
    memcpy(&head, data, sizeof head);
    for (ULONG i = 0; i < head.InstanceCount && bytes - at >= sizeof instance; i++) {
        memcpy(&instance, data + at, sizeof instance);
        size_t room = (bytes - at - sizeof instance) / sizeof ret->enabled;
        ret->count += !(instance.Flags & TRACE_PROVIDER_FLAG_PRE_ENABLE);
        ret->in_kernel |= !(instance.Flags & TRACE_PROVIDER_FLAG_PRE_ENABLE) && !instance.Pid;
        for (size_t k = 0; k < instance.EnableCount && k < room && !ret->is_ours; k++) {
            memcpy(&ret->enabled, data + at + sizeof instance + k * sizeof ret->enabled, sizeof ret->enabled);
            ret->is_ours = ret->enabled.IsEnabled && ret->enabled.LoggerId == logger;
        }
        if (instance.NextOffset < sizeof instance || instance.NextOffset > bytes - at)
            break;
        at += instance.NextOffset;
    }
}

static int ask_registrations(const ea_etw_api *api, const GUID *guid, USHORT logger, registrations *ret) {
    guid_question q = {api, *guid};
    void *data;
    ULONG bytes;
    *ret = (registrations){.count = 0};
    if (!api->EnumerateTraceGuidsEx || ea_tdh_get(call_guid, &q, &data, &bytes, NULL))
        return -1;
    read_registrations(data, bytes, logger, ret);
    free(data);
    return 0;
}

int ea_provider_is_enabled(const ea_etw_api *api, const GUID *guid, USHORT logger, TRACE_ENABLE_INFO *ret) {
    registrations r;
    if (ask_registrations(api, guid, logger, &r) || !r.is_ours)
        return 0;
    *ret = r.enabled;
    return 1;
}

/* Windows accepts a provider that no program has registered, and other programs may change the applied level and
 * keywords. Both are logged if this Windows can return them. */
static void report_applied(const ea_session *s, const GUID *guid, const ea_provider_config *p,
                           const TRACE_ENABLE_INFO *asked) {
    registrations r;
    if (p->groups || ask_registrations(s->api, guid, (USHORT)s->handle, &r))
        return;
    if (!r.count)
        ea_session_log(s, "provider %.128s: no program has it registered now; its events come when one does",
                       p->provider);
    if (r.is_ours && (r.enabled.Level != asked->Level || r.enabled.MatchAnyKeyword != asked->MatchAnyKeyword ||
                      r.enabled.MatchAllKeyword != asked->MatchAllKeyword))
        ea_session_log(
            s,
            "provider %.128s: Windows applies level %u and keywords 0x%llx, 0x%llx (%u and 0x%llx, 0x%llx were "
            "asked for)",
            p->provider, r.enabled.Level, r.enabled.MatchAnyKeyword, r.enabled.MatchAllKeyword, asked->Level,
            asked->MatchAnyKeyword, asked->MatchAllKeyword);
}

/* What its names stand for, once. */
static int enable_look_up(const ea_session *s, const ea_provider_config *p, ea_session_provider *ret, ea_err *err) {
    ea_session_provider found = {.is_known = 1};
    if (ret->is_known)
        return 0;
    int rc = ea_provider_find(s->api, p->provider, &found.guid, err);
    if (!rc)
        rc = ea_provider_masks(s->api, &found.guid, p, &found.any, &found.all, err);
    if (!rc)
        *ret = found;
    return rc;
}

/* Under a filter by process Windows enables a provider in programs alone: a driver that registered the same provider
 * logs nothing. Such filters are taken out then: more events are better than none. Source: EVENT_FILTER_DESCRIPTOR,
 * learn.microsoft.com. */
static void take_process_filters_out(const ea_session *s, const ea_guid *guid, ea_provider_config *p) {
    registrations r;
    GUID id;
    memcpy(&id, guid->bytes, sizeof id);
    if (p->groups || !ea_provider_has_process_filter(p) || ask_registrations(s->api, &id, (USHORT)s->handle, &r) ||
        !r.in_kernel)
        return;
    p->pids.count = p->executables.count = p->packages.count = p->app_ids.count = p->containers.count = 0;
    ea_session_lacks(s, EA_COUNT_source_parts_refused, 1);
    ea_session_log(s,
                   "provider %.128s: a driver has it registered, and Windows gives none of a driver's events to a "
                   "session that filters by process; this filter is left out",
                   p->provider);
}

static void enable_provider(const ea_session *s, const ea_provider_config *given, ea_session_provider *known) {
    ea_err err = {0};
    uint8_t level = 0;
    ea_provider_config own = *given, *p = &own;
    known->is_enabled = 0;
    int rc = enable_look_up(s, p, known, &err);
    if (!rc)
        rc = ea_level_parse(p->level, &level);
    if (rc) {
        ea_session_lacks(s, EA_COUNT_source_parts_refused, 1);
        ea_session_log(s, "provider %.128s is left out: %s", p->provider, err.message);
        return;
    }
    take_process_filters_out(s, &known->guid, p);
    ea_filters *f;
    if (ea_filters_create(&f, s->api, &known->guid, p, &err)) {
        ea_session_lacks(s, EA_COUNT_source_parts_refused, 1);
        ea_session_log(s, "provider %.128s is left out: %s", p->provider, err.message);
        return;
    }
    if (err.code) { /* one filter is not available */
        ea_session_lacks(s, EA_COUNT_source_parts_refused, 1);
        ea_session_log(s, "provider %.128s: %s", p->provider, err.message);
    }
    ENABLE_TRACE_PARAMETERS parameters = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2,
                                          .EnableProperty = ea_provider_properties(p),
                                          .EnableFilterDesc = f->count ? f->items : NULL,
                                          .FilterDescCount = f->count};
    GUID id;
    memcpy(&id, known->guid.bytes, sizeof id);
    ULONG error = s->api->EnableTraceEx2(s->handle, &id, EVENT_CONTROL_CODE_ENABLE_PROVIDER, level, known->any,
                                         known->all, 0, &parameters);
    if (error && f->count) { /* more events are better than none, and stages can still filter them */
        ea_session_refused(s, p->provider, error);
        ea_session_log(s, "provider %.128s: it is enabled without filters", p->provider);
        parameters.EnableFilterDesc = NULL;
        parameters.FilterDescCount = 0;
        error = s->api->EnableTraceEx2(s->handle, &id, EVENT_CONTROL_CODE_ENABLE_PROVIDER, level, known->any,
                                       known->all, 0, &parameters);
    }
    ea_filters_destroy(f);
    if (error) {
        ea_session_refused(s, p->provider, error);
        return;
    }
    known->is_enabled = 1;
    report_applied(s, &id, p,
                   &(TRACE_ENABLE_INFO){.Level = level, .MatchAnyKeyword = known->any, .MatchAllKeyword = known->all});
}

/* Windows gives a provider's arguments to programs that run when it is enabled, and not to those that start later:
 * enabling it again does. Source: TraceEventSession.cs of perfview. */
static void give_arguments(const ea_session *s, const ea_session_provider *known, const ea_provider_config *p) {
    ea_err err = {0};
    uint8_t level = 0;
    ea_filters *f;
    if (ea_level_parse(p->level, &level) || ea_filters_create(&f, s->api, &known->guid, p, &err))
        return; /* it was enabled so, but there is no memory now */
    ENABLE_TRACE_PARAMETERS parameters = {.Version = ENABLE_TRACE_PARAMETERS_VERSION_2,
                                          .EnableProperty = ea_provider_properties(p),
                                          .EnableFilterDesc = f->items,
                                          .FilterDescCount = f->count};
    GUID id;
    memcpy(&id, known->guid.bytes, sizeof id);
    ULONG error = s->api->EnableTraceEx2(s->handle, &id, EVENT_CONTROL_CODE_ENABLE_PROVIDER, level, known->any,
                                         known->all, 0, &parameters);
    ea_filters_destroy(f);
    if (error)
        ea_session_refused(s, p->provider, error);
}

/* The .NET runtimes log their modules and methods when they see this provider enabled: keywords Loader 0x8, Jit 0x10,
 * NGen 0x20, StartRundown 0x40. Source: dotnet/runtime src/coreclr/vm/ClrEtwAll.man. */
static const ea_provider_config DOTNET_RUNDOWN = {
    .provider = "a669021c-c450-4609-a035-5af59af4df18", .level = "verbose", .any = "0x78"};

static int wants_dotnet(const ea_session_config *c) {
    for (size_t i = 0; i < c->rundown.count; i++)
        if (strcmp(c->rundown.items[i], "dotnet") == 0)
            return 1;
    return 0;
}

/* Keywords: modules 1, functions 2 (etwagent_announce.h). */
static const ea_provider_config ANNOUNCED = {
    .provider = "0c87d9d8-75dd-5ffe-41f3-d32f3c1cd564", .level = "information", .any = "0x3"};

void ea_session_enable(ea_session *s) {
    const ea_provider_config *providers = s->c->providers.items;
    ea_session_provider dotnet = {0};
    if (s->c->kind != EA_SESSION_USER)
        enable_kernel(s);
    if (wants_dotnet(s->c))
        enable_provider(s, &DOTNET_RUNDOWN, &dotnet);
    s->announced = (ea_session_provider){0};
    if (s->c->announced_modules)
        enable_provider(s, &ANNOUNCED, &s->announced);
    for (size_t i = 0; i < s->c->providers.count; i++)
        if (!ea_system_provider_find(providers[i].provider)) /* those were enabled with the kernel's part */
            enable_provider(s, &providers[i], &s->providers[i]);
}

void ea_session_capture_first(const ea_session *s) {
    const ea_provider_config *providers = s->c->providers.items;
    if (s->announced.is_enabled)
        capture(s, &s->announced, &ANNOUNCED);
    for (size_t i = 0; i < s->c->providers.count; i++)
        if ((providers[i].capture_state || (providers[i].capture_every_ns && !providers[i].arguments.count)) &&
            s->providers[i].is_enabled)
            capture(s, &s->providers[i], &providers[i]);
}

void ea_session_capture(const ea_session *s, int64_t now_ns, int64_t *last_ns) {
    const ea_provider_config *providers = s->c->providers.items;
    for (size_t i = 0; i < s->c->providers.count; i++) {
        const ea_provider_config *p = &providers[i];
        if (!p->capture_every_ns || now_ns / p->capture_every_ns == *last_ns / p->capture_every_ns ||
            !s->providers[i].is_enabled)
            continue;
        if (p->arguments.count)
            give_arguments(s, &s->providers[i], p);
        else
            capture(s, &s->providers[i], p);
    }
    *last_ns = now_ns;
}
