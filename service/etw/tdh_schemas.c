/* TDH. See tdh_schemas.h. */
#include "service/etw/tdh_schemas.h"

#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "proto/base/text.h"
#include "proto/event/schema/event_info.h"
#include "service/etw/etw_api.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAPS_MAX_BYTES = 32 << 20,
    MAP_NAME_MAX = 256,
    ORIGIN_MANIFEST = 0,
    TEXTS_MAX_BYTES = 16 << 20,
    LEVELS_MAX = 256
};

/* A map's name and provider; the bytes after the name are zero. */
typedef struct map_key {
    ea_guid provider;
    char name[MAP_NAME_MAX];
} map_key;

struct ea_tdh {
    const ea_etw_api *api;
    ea_arena arena;
    ea_bytes_map maps; /* map_key -> ea_enum; without entries: there is none */
};

/* One question to TDH. */
typedef struct question {
    const ea_etw_api *api;
    EVENT_RECORD *event;
    WCHAR *map;
    GUID *provider;
    EVENT_DESCRIPTOR *descriptor;
    int kind;
} question;

static ULONG call_event(const void *arg, void *data, ULONG *bytes) {
    const question *q = arg;
    return q->api->TdhGetEventInformation(q->event, 0, NULL, data, bytes);
}

static ULONG call_map(const void *arg, void *data, ULONG *bytes) {
    const question *q = arg;
    return q->api->TdhGetEventMapInformation(q->event, q->map, data, bytes);
}

static ULONG call_list(const void *arg, void *data, ULONG *bytes) {
    const question *q = arg;
    return q->api->TdhEnumerateProviders(data, bytes);
}

static ULONG call_fields(const void *arg, void *data, ULONG *bytes) {
    const question *q = arg;
    return q->api->TdhEnumerateProviderFieldInformation(q->provider, q->kind, data, bytes);
}

static ULONG tdh_schemas_call_events(const void *arg, void *data, ULONG *bytes) {
    const question *q = arg;
    return q->api->TdhEnumerateManifestProviderEvents(q->provider, data, bytes);
}

static ULONG call_manifest_event(const void *arg, void *data, ULONG *bytes) {
    const question *q = arg;
    return q->api->TdhGetManifestEventInformation(q->provider, q->descriptor, data, bytes);
}

int ea_tdh_open(ea_tdh **ret, ea_err *err) {
    ea_tdh *t = calloc(1, sizeof *t);
    if (!t)
        return ea_fail(err, EA_ENOMEM, "ask TDH");
    int rc = ea_etw_load(&t->api, err);
    if (!rc && (!t->api->TdhGetEventInformation || !t->api->TdhGetEventMapInformation))
        rc = ea_fail(err, EA_EUNSUPPORTED, "this Windows knows no schemas");
    if (rc) {
        free(t);
        return rc;
    }
    ea_arena_init(&t->arena, MAPS_MAX_BYTES);
    ea_bytes_map_init(&t->maps, 0);
    *ret = t;
    return 0;
}

void ea_tdh_close(ea_tdh *t) {
    if (!t)
        return;
    ea_bytes_map_deinit(&t->maps);
    ea_arena_deinit(&t->arena);
    free(t);
}

/* ---- one event ---- */

/* An event of a provider's, for the maps that its fields name. */
typedef struct asking {
    ea_tdh *tdh;
    EVENT_RECORD *event;
} asking;

/* Asks Windows for a map; one without entries when there is none. NULL: no memory. */
static const ea_enum *get_map(ea_tdh *t, EVENT_RECORD *event, const char *name) {
    WCHAR wide[MAP_NAME_MAX + 1] = {0};
    void *data = NULL;
    ULONG bytes = 0;
    ea_enum *map = ea_arena_zalloc(&t->arena, 1, sizeof *map);
    if (!map)
        return NULL;
    ea_utf8_to_utf16(name, strlen(name), wide, sizeof wide - sizeof *wide);
    if (!ea_tdh_get(call_map, &(question){.api = t->api, .event = event, .map = wide}, &data, &bytes, NULL) &&
        ea_event_map_read(&t->arena, data, bytes, map, NULL))
        map->count = 0;
    free(data);
    return map;
}

static const ea_enum *tdh_schemas_find_map(void *arg, const ea_guid *provider, const char *name) {
    asking *a = arg;
    map_key k = {.provider = *provider};
    size_t len = strlen(name);
    if (len >= sizeof k.name)
        return NULL;
    memcpy(k.name, name, len);
    const ea_enum *map = ea_bytes_map_get(&a->tdh->maps, &k, sizeof k);
    if (!map) {
        map = get_map(a->tdh, a->event, name);
        const void *own = map ? ea_arena_copy(&a->tdh->arena, &k, sizeof k) : NULL;
        if (!own || ea_bytes_map_put(&a->tdh->maps, own, sizeof k, (void *)(uintptr_t)map))
            return NULL;
    }
    return map->count ? map : NULL;
}

static EVENT_RECORD event_of(const ea_record *r) {
    EVENT_RECORD e = {.EventHeader = {.Size = sizeof e.EventHeader,
                                      .Flags = r->flags,
                                      .EventProperty = r->property,
                                      .ThreadId = r->tid,
                                      .ProcessId = r->pid,
                                      .TimeStamp = {.QuadPart = r->time_raw},
                                      .EventDescriptor = {.Id = r->id,
                                                          .Version = r->version,
                                                          .Channel = r->channel,
                                                          .Level = r->level,
                                                          .Opcode = r->opcode,
                                                          .Task = r->task,
                                                          .Keyword = r->keyword}}};
    memcpy(&e.EventHeader.ProviderId, r->provider.bytes, sizeof e.EventHeader.ProviderId);
    return e;
}

int ea_tdh_describe(void *arg, const ea_record *record, ea_schemas *into, ea_err *err) {
    ea_tdh *t = arg;
    EVENT_RECORD event = event_of(record);
    void *data = NULL;
    ULONG bytes = 0;
    int changed;
    int rc = ea_tdh_get(call_event, &(question){.api = t->api, .event = &event}, &data, &bytes, err);
    if (!rc)
        rc = ea_event_info_read(into, EA_SCHEMA_WINDOWS, data, bytes,
                                &(ea_event_maps){tdh_schemas_find_map, &(asking){t, &event}}, &changed, err);
    free(data);
    return rc;
}

/* ---- providers ---- */

/* UTF-16 at an offset of an answer, without the trailing blanks that TDH adds to names; NULL: outside, or no memory. */
static const char *tdh_schemas_text_at(ea_arena *arena, const void *data, ULONG bytes, ULONG offset) {
    const uint8_t *p = data;
    size_t n = 0;
    ea_text t;
    if (!offset)
        return "";
    while (offset + n + 2 <= bytes && ea_load16(p + offset + n))
        n += 2;
    while (n && ea_load16(p + offset + n - 2) == ' ')
        n -= 2;
    ea_text_init(&t);
    if (offset < bytes)
        ea_text_utf16(&t, p + offset, n);
    const char *own = t.failed || offset >= bytes ? NULL : ea_arena_strdup(arena, t.data ? t.data : "");
    ea_text_deinit(&t);
    return own;
}

static size_t room_for(ULONG bytes, size_t head_bytes, size_t item_bytes) {
    return bytes >= head_bytes ? (bytes - head_bytes) / item_bytes : 0;
}

int ea_tdh_list(ea_tdh *t, ea_schemas *into, ea_err *err) {
    void *data;
    ULONG bytes;
    ea_arena arena;
    if (!t->api->TdhEnumerateProviders)
        return ea_fail(err, EA_EUNSUPPORTED, "this Windows cannot list providers");
    int rc = ea_tdh_get(call_list, &(question){.api = t->api}, &data, &bytes, err);
    if (rc)
        return rc;
    const ea_tdh_providers *all = data;
    size_t room = room_for(bytes, offsetof(ea_tdh_providers, items), sizeof *all->items);
    ea_arena_init(&arena, TEXTS_MAX_BYTES);
    for (size_t i = 0; room && i < all->count && i < room && !rc; i++) {
        const char *name = tdh_schemas_text_at(&arena, data, bytes, all->items[i].name_offset);
        ea_schema_provider p = {.name = name ? name : "",
                                .origin = all->items[i].source == ORIGIN_MANIFEST ? "TDH: a manifest" : "TDH: MOF",
                                .message = "",
                                .layer = EA_SCHEMA_WINDOWS};
        memcpy(p.guid.bytes, &all->items[i].guid, sizeof p.guid.bytes);
        rc = ea_schemas_add_provider(into, &p, err);
    }
    ea_arena_deinit(&arena);
    free(data);
    return rc;
}

/* Keywords or levels; none when Windows knows none. */
static size_t get_fields(const ea_tdh *t, ea_arena *arena, GUID *guid, int kind, size_t max, ea_map_entry **ret) {
    void *data;
    ULONG bytes;
    size_t n = 0;
    if (!t->api->TdhEnumerateProviderFieldInformation ||
        ea_tdh_get(call_fields, &(question){.api = t->api, .provider = guid, .kind = kind}, &data, &bytes, NULL))
        return 0;
    const ea_tdh_fields *all = data;
    size_t room = room_for(bytes, offsetof(ea_tdh_fields, items), sizeof *all->items);
    ea_map_entry *entries = ea_arena_zalloc(arena, max, sizeof *entries);
    for (size_t i = 0; entries && room && i < all->count && i < room && n < max; i++) {
        const char *name = tdh_schemas_text_at(arena, data, bytes, all->items[i].name_offset);
        if (name && *name)
            entries[n++] = (ea_map_entry){all->items[i].value, name};
    }
    free(data);
    *ret = entries;
    return n;
}

/* Each event of a manifest; one that cannot be read is left out. */
static int get_events(ea_tdh *t, GUID *guid, ea_schemas *into, ea_err *err) {
    void *data, *info;
    ULONG bytes, info_bytes;
    if (!t->api->TdhEnumerateManifestProviderEvents || !t->api->TdhGetManifestEventInformation ||
        ea_tdh_get(tdh_schemas_call_events, &(question){.api = t->api, .provider = guid}, &data, &bytes, NULL))
        return 0;
    ea_tdh_events *all = data;
    size_t room = room_for(bytes, offsetof(ea_tdh_events, items), sizeof *all->items);
    int rc = 0;
    for (size_t i = 0; room && i < all->count && i < room && rc != EA_ELIMIT; i++) {
        EVENT_RECORD event = {
            .EventHeader = {.Size = sizeof event.EventHeader, .ProviderId = *guid, .EventDescriptor = all->items[i]}};
        int changed;
        question q = {.api = t->api, .provider = guid, .descriptor = &all->items[i]};
        if (ea_tdh_get(call_manifest_event, &q, &info, &info_bytes, NULL))
            continue;
        rc = ea_event_info_read(into, EA_SCHEMA_WINDOWS, info, info_bytes,
                                &(ea_event_maps){tdh_schemas_find_map, &(asking){t, &event}}, &changed, err);
        free(info);
    }
    free(data);
    return rc == EA_ELIMIT ? rc : 0;
}

int ea_tdh_show(ea_tdh *t, const ea_guid *guid, const char *name, ea_schemas *into, ea_err *err) {
    ea_arena arena;
    GUID id;
    ea_map_entry *keywords = NULL, *levels = NULL;
    memcpy(&id, guid->bytes, sizeof id);
    ea_arena_init(&arena, TEXTS_MAX_BYTES);
    ea_schema_provider p = {.guid = *guid, .name = name, .origin = "TDH", .message = "", .layer = EA_SCHEMA_WINDOWS};
    p.keyword_count = get_fields(t, &arena, &id, EA_TDH_KEYWORDS, 64, &keywords);
    p.level_count = get_fields(t, &arena, &id, EA_TDH_LEVELS, LEVELS_MAX, &levels);
    p.keywords = keywords;
    p.levels = levels;
    int rc = ea_schemas_add_provider(into, &p, err);
    ea_arena_deinit(&arena);
    return rc ? rc : get_events(t, &id, into, err);
}

const char *ea_tdh_lacks(const ea_tdh *t) {
    int has_events = t->api->TdhEnumerateManifestProviderEvents && t->api->TdhGetManifestEventInformation;
    if (!t->api->TdhEnumerateProviderFieldInformation)
        return has_events ? "keywords and levels" : "keywords, levels and events";
    return has_events ? NULL : "events";
}
