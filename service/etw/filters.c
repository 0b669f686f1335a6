/* Filters of a provider. See filters.h. */
#include "service/etw/filters.h"

#include "proto/base/text.h"

#include <stdlib.h>
#include <string.h>

static uint8_t *filters_add(ea_filters *f, int type, size_t bytes) {
    EA_ASSERT(f->count < EA_FILTERS_MAX); /* each kind is added once */
    uint8_t *data = (uint8_t *)f->data[f->count];
    f->items[f->count++] = (EVENT_FILTER_DESCRIPTOR){.Ptr = (uintptr_t)data, .Size = (ULONG)bytes, .Type = (ULONG)type};
    return data;
}

static void filters_add_ids(ea_filters *f, const ea_strings *given, int type, int filter_in) {
    uint16_t ids[EA_FILTER_IDS_MAX];
    size_t n = ea_ids_expand(given, ids, EA_FILTER_IDS_MAX);
    if (!n || n > EA_FILTER_IDS_MAX)
        return;
    uint8_t *data = filters_add(f, type, offsetof(ea_filter_event_id, events) + n * sizeof *ids);
    data[0] = (uint8_t)filter_in;
    ea_store16(data + 2, (uint16_t)n);
    memcpy(data + 4, ids, n * sizeof *ids);
}

/* Names separated by semicolons, with an end. */
static void filters_add_names(ea_filters *f, const ea_strings *given, int type) {
    if (!given->count)
        return;
    uint8_t *data = filters_add(f, type, 0);
    size_t at = 0, room = EA_FILTER_BYTES_MAX - 2;
    for (size_t i = 0; i < given->count; i++) {
        if (i && at < room) {
            ea_store16(data + at, ';');
            at += 2;
        }
        at += ea_utf8_to_utf16(given->items[i], strlen(given->items[i]), data + at, room - at);
        if (at > room) { /* the configuration's check knows better */
            f->count--;
            return;
        }
    }
    ea_store16(data + at, 0);
    f->items[f->count - 1].Size = (ULONG)(at + 2);
}

/* An EventSource's arguments: names and values in turn, each with its end. Source: dotnet/runtime EventProvider.cs,
 * ParseFilterData. */
static void add_arguments(ea_filters *f, const ea_strings *given) {
    size_t at = 0;
    if (!given->count)
        return;
    uint8_t *data = filters_add(f, EA_FILTER_NONE, 0);
    for (size_t i = 0; i < given->count; i++) {
        size_t n = strlen(given->items[i]) + 1;
        const char *equals = strchr(given->items[i], '=');
        if (n > EA_FILTER_BYTES_MAX - at || !equals) { /* the configuration's check knows better */
            f->count--;
            return;
        }
        memcpy(data + at, given->items[i], n);
        data[at + (size_t)(equals - given->items[i])] = 0;
        at += n;
    }
    f->items[f->count - 1].Size = (ULONG)at;
}

/* Kernel-Registry declares the data of a value (CapturedData) and leaves it out unless the filter has this bit. It is
 * undocumented; 0x2 and 0x3 bring the data, 0x0, 0x1 and 0x4 do not, on Windows 11 build 26200. Source: pull request
 * 310 of Karib0u/rustinel, fibratus pull request 527. */
enum { REGISTRY_CAPTURE_DATA = 0x2 };

static void add_filter_data(ea_filters *f, const ea_provider_config *c) {
    uint8_t data[EA_FILTER_BYTES_MAX];
    size_t bytes = 0;
    if (c->registry_values)
        ea_store32(filters_add(f, EA_FILTER_NONE, 4), REGISTRY_CAPTURE_DATA);
    if (c->filter_data && ea_filter_data_parse(c->filter_data, data, sizeof data, &bytes) == 0)
        memcpy(filters_add(f, (int)c->filter_data_type, bytes), data, bytes);
}

static void add_pids(ea_filters *f, const ea_strings *given) {
    if (!given->count || given->count > EA_FILTER_PIDS_MAX)
        return;
    uint8_t *data = filters_add(f, EA_FILTER_PID, 4 * given->count);
    for (size_t i = 0; i < given->count; i++)
        ea_store32(data + 4 * i, (uint32_t)strtoul(given->items[i], NULL, 0));
}

/* Names of events, and which events are meant: those up to a level that have one of some keywords. */
typedef struct named_events {
    const ea_strings *names;
    const char *level, *any, *all;
    int type, filter_in;
} named_events;

static int add_event_names(ea_filters *f, const ea_guid *provider, const named_events *e, uint64_t *room, ea_err *err) {
    ea_filter_event_name head = {.filter_in = (BOOLEAN)e->filter_in, .count = (USHORT)e->names->count};
    uint8_t *data = (uint8_t *)room;
    size_t at = offsetof(ea_filter_event_name, names);
    uint64_t any = 0, all = 0;
    _Static_assert(offsetof(ea_filter_event_name, names) == EA_FILTER_NAMES_HEAD_BYTES, "what the check counts with");
    if (!e->names->count)
        return 0;
    int rc = ea_level_parse(e->level, &head.level);
    if (!rc)
        rc = ea_provider_keywords(f->api, provider, e->any, &any, err);
    if (!rc)
        rc = ea_provider_keywords(f->api, provider, e->all, &all, err);
    if (rc)
        return rc;
    head.any = any;
    head.all = all;
    memcpy(data, &head, at);
    for (size_t i = 0; i < e->names->count; i++) {
        size_t bytes = strlen(e->names->items[i]) + 1;
        if (bytes > EA_FILTER_NAMES_BYTES_MAX - at)
            return 0; /* the configuration's check knows better */
        memcpy(data + at, e->names->items[i], bytes);
        at += bytes;
    }
    f->items[f->count++] = (EVENT_FILTER_DESCRIPTOR){.Ptr = (uintptr_t)data, .Size = (ULONG)at, .Type = (ULONG)e->type};
    return 0;
}

/* If the names have no level or keywords of their own, those of the provider apply. */
static int add_all_names(ea_filters *f, const ea_guid *provider, const ea_provider_config *c, ea_err *err) {
    named_events logged = {.names = c->event_names.count ? &c->event_names : &c->exclude_event_names,
                           .level = c->names_level ? c->names_level : c->level,
                           .any = c->names_any ? c->names_any : c->any,
                           .all = c->names_any ? NULL : c->all,
                           .type = EA_FILTER_EVENT_NAME,
                           .filter_in = c->event_names.count != 0};
    named_events walked = {.names = &c->stack_event_names,
                           .level = c->stack_level ? c->stack_level : c->level,
                           .any = c->stack_any ? c->stack_any : c->any,
                           .all = c->stack_any ? NULL : c->all,
                           .type = EA_FILTER_STACKWALK_NAME,
                           .filter_in = 1};
    int rc = add_event_names(f, provider, &logged, f->names[0], err);
    return rc ? rc : add_event_names(f, provider, &walked, f->names[1], err);
}

static int add_stack_level(ea_filters *f, const ea_guid *provider, const ea_provider_config *c, ea_err *err) {
    ea_filter_level_kw filter = {.filter_in = 1};
    uint64_t any = 0;
    if (!c->stack_level || c->stack_event_names.count)
        return 0;
    int rc = ea_level_parse(c->stack_level, &filter.level);
    if (!rc)
        rc = ea_provider_keywords(f->api, provider, c->stack_any, &any, err);
    filter.any = any;
    if (!rc)
        memcpy(filters_add(f, EA_FILTER_STACKWALK_LEVEL_KW, sizeof filter), &filter, sizeof filter);
    return rc;
}

/* ---- conditions on payloads ---- */

typedef struct question {
    const ea_etw_api *api;
    GUID provider;
} question;

static ULONG filters_call_events(const void *arg, void *data, ULONG *bytes) {
    const question *q = arg;
    GUID provider = q->provider;
    return q->api->TdhEnumerateManifestProviderEvents(&provider, data, bytes);
}

typedef struct predicates {
    ea_payload_predicate items[EA_FILTER_PREDICATES_MAX];
    WCHAR texts[EA_FILTER_PREDICATES_MAX][2][256];
    ULONG count;
} predicates;

static WCHAR *filters_to_wide(const char *utf8, WCHAR *out, size_t capacity) {
    size_t bytes = ea_utf8_to_utf16(utf8, strlen(utf8), out, (capacity - 1) * sizeof *out);
    out[bytes / sizeof *out < capacity ? bytes / sizeof *out : capacity - 1] = 0;
    return out;
}

static void filters_collect(predicates *to, const ea_provider_config *c, uint64_t event) {
    const ea_payload_config *all = c->payload.items;
    to->count = 0;
    for (size_t i = 0; i < c->payload.count && to->count < EA_FILTER_PREDICATES_MAX; i++)
        if (all[i].event == event) {
            WCHAR(*texts)[256] = to->texts[to->count];
            to->items[to->count++] = (ea_payload_predicate){.field = filters_to_wide(all[i].field, texts[0], 256),
                                                            .compare = ea_payload_compares[all[i].compare].number,
                                                            .value = filters_to_wide(all[i].value, texts[1], 256)};
        }
}

/* TDH's filters: one of each event, and of each version that the provider has of it. */
typedef struct made_filters {
    void *items[64];
    ULONG count;
} made_filters;

static int filters_make(made_filters *to, const question *q, const ea_tdh_events *events, size_t room,
                        const ea_provider_config *c, uint64_t event, ea_err *err) {
    predicates p;
    int known = 0;
    filters_collect(&p, c, event);
    for (size_t i = 0; i < events->count && i < room; i++) {
        if (events->items[i].Id != event || to->count == sizeof to->items / sizeof *to->items)
            continue;
        ULONG error = q->api->TdhCreatePayloadFilter(&q->provider, &events->items[i], FALSE, p.count, p.items,
                                                     &to->items[to->count]);
        if (error)
            return ea_fail_os(err, ea_etw_code(error), (int)error, "payload filter of event %u ignored",
                              (unsigned)event);
        to->count++;
        known = 1;
    }
    return known ? 0
                 : ea_fail(err, EA_ENOTFOUND, "payload filter of event %u ignored: this machine knows no such event",
                           (unsigned)event);
}

static void filters_add_payload(ea_filters *f, const ea_guid *provider, const ea_provider_config *c, ea_err *err) {
    const ea_payload_config *all = c->payload.items;
    question q = {.api = f->api};
    made_filters made = {.count = 0};
    void *data;
    ULONG bytes;
    memcpy(&q.provider, provider->bytes, sizeof q.provider);
    if (!f->api->TdhCreatePayloadFilter || !f->api->TdhAggregatePayloadFilters || !f->api->TdhDeletePayloadFilter ||
        !f->api->TdhCleanupPayloadEventFilterDescriptor || !f->api->TdhEnumerateManifestProviderEvents) {
        (void)ea_fail(err, EA_EUNSUPPORTED, "payload filters ignored: this Windows cannot check them");
        return;
    }
    ea_err why = {0};
    int rc = ea_tdh_get(filters_call_events, &q, &data, &bytes, &why);
    if (rc) {
        (void)ea_fail(err, rc, "payload filters ignored: %s", why.message);
        return;
    }
    const ea_tdh_events *events = data;
    size_t room = bytes >= offsetof(ea_tdh_events, items)
                      ? (bytes - offsetof(ea_tdh_events, items)) / sizeof(EVENT_DESCRIPTOR)
                      : 0;
    for (size_t i = 0; room && i < c->payload.count; i++) {
        int is_first = 1;
        for (size_t k = 0; k < i; k++)
            is_first &= all[k].event != all[i].event;
        if (is_first)
            (void)filters_make(&made, &q, events, room, c, all[i].event, err);
    }
    free(data);
    ULONG error = made.count ? f->api->TdhAggregatePayloadFilters(made.count, made.items, NULL, &f->payload) : 0;
    for (ULONG i = 0; i < made.count; i++)
        f->api->TdhDeletePayloadFilter(&made.items[i]);
    if (error)
        f->payload.Ptr = 0;
    if (error || f->payload.Size > EA_FILTER_PAYLOAD_MAX)
        (void)ea_fail_os(err, error ? ea_etw_code(error) : EA_ELIMIT, (int)error, "payload filters ignored%s",
                         error ? "" : ": too many conditions");
    else if (f->payload.Ptr) {
        EA_ASSERT(f->count < sizeof f->items / sizeof *f->items);
        f->items[f->count++] = f->payload;
    }
}

int ea_filters_create(ea_filters **ret, const ea_etw_api *api, const ea_guid *provider, const ea_provider_config *c,
                      ea_err *err) {
    ea_filters *f = calloc(1, sizeof *f);
    if (!f)
        return ea_fail(err, EA_ENOMEM, "make filters");
    f->api = api;
    add_arguments(f, &c->arguments); /* the first, as controllers of EventSources have it */
    add_filter_data(f, c);
    filters_add_ids(f, &c->event_ids, EA_FILTER_EVENT_ID, 1);
    filters_add_ids(f, &c->exclude_event_ids, EA_FILTER_EVENT_ID, 0);
    filters_add_ids(f, &c->stack_event_ids, EA_FILTER_STACKWALK, 1);
    add_pids(f, &c->pids);
    filters_add_names(f, &c->executables, EA_FILTER_EXECUTABLE_NAME);
    filters_add_names(f, &c->packages, EA_FILTER_PACKAGE_ID);
    filters_add_names(f, &c->app_ids, EA_FILTER_PACKAGE_APP_ID);
    filters_add_names(f, &c->containers, EA_FILTER_CONTAINER);
    int rc = add_all_names(f, provider, c, err);
    if (!rc)
        rc = add_stack_level(f, provider, c, err);
    if (rc) {
        ea_filters_destroy(f);
        return rc;
    }
    if (c->payload.count)
        filters_add_payload(f, provider, c, err);
    *ret = f;
    return 0;
}

void ea_filters_destroy(ea_filters *f) {
    if (f->payload.Ptr)
        f->api->TdhCleanupPayloadEventFilterDescriptor(&f->payload);
    free(f);
}
