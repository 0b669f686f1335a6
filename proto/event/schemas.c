/* Schemas from outside. See schemas.h. */
#include "proto/event/schemas.h"

#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/event/class.h"

#include <stdlib.h>

enum { LIMIT_BYTES = 256 << 20, SCRATCH_BYTES = 16 << 20, PROVIDERS_MAX = 16384 };

typedef struct key {
    ea_guid provider;
    uint16_t code;
    uint8_t version, classic, layer;
    uint8_t zero[3];
} key;

_Static_assert(sizeof(key) == 24, "hashed as it is");

typedef struct entry {
    key k;
    ea_schema schema;
} entry;

struct ea_schemas {
    ea_bytes_map by_key; /* key -> entry */
    ea_arena arena, scratch;
    ea_schema_provider *providers;
    size_t provider_count, provider_capacity;
    ea_bytes_map by_guid; /* guid and layer -> number of the provider, from 1 */
    ea_schemas_resort last_resort;
    ea_payload_decoder unfolder; /* .unfold NULL: none */
};

int ea_schemas_create(ea_schemas **ret, size_t limit_bytes, ea_err *err) {
    ea_schemas *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "keep schemas");
    ea_bytes_map_init(&s->by_key, 0);
    ea_bytes_map_init(&s->by_guid, 0);
    ea_arena_init(&s->arena, limit_bytes ? limit_bytes : LIMIT_BYTES);
    ea_arena_init(&s->scratch, SCRATCH_BYTES);
    *ret = s;
    return 0;
}

void ea_schemas_destroy(ea_schemas *s) {
    if (!s)
        return;
    if (s->unfolder.unfold)
        s->unfolder.destroy(s->unfolder.arg);
    ea_bytes_map_deinit(&s->by_key);
    ea_bytes_map_deinit(&s->by_guid);
    ea_arena_deinit(&s->arena);
    ea_arena_deinit(&s->scratch);
    free(s->providers);
    free(s);
}

int ea_schemas_add(ea_schemas *s, enum ea_schema_layer layer, const uint8_t *description, size_t len_bytes,
                   int *ret_changed, ea_err *err) {
    ea_class *c;
    int rc = ea_class_parse(&s->scratch, description, len_bytes, &c, err);
    key k = {.layer = (uint8_t)layer};
    if (!rc) {
        k.provider = c->provider;
        k.code = c->code;
        k.version = c->version;
        k.classic = c->classic;
    }
    ea_arena_reset(&s->scratch);
    if (rc)
        return rc;
    entry *e = ea_bytes_map_get(&s->by_key, &k, sizeof k);
    int same = e && e->schema.len_bytes == len_bytes && memcmp(e->schema.description, description, len_bytes) == 0;
    if (ret_changed)
        *ret_changed = !same;
    if (same)
        return 0;
    uint8_t *own = ea_arena_copy(&s->arena, description, len_bytes);
    entry *fresh = own && !e ? ea_arena_zalloc(&s->arena, 1, sizeof *fresh) : e;
    if (!own || !fresh)
        return ea_fail(err, EA_ELIMIT, "keep a schema: no more room for them");
    fresh->k = k;
    fresh->schema = (ea_schema){own, (uint32_t)len_bytes, (uint8_t)layer};
    if (!e && ea_bytes_map_put(&s->by_key, &fresh->k, sizeof fresh->k, fresh))
        return ea_fail(err, EA_ENOMEM, "keep a schema");
    return 0;
}

static const ea_map_entry *copy_entries(ea_arena *arena, const ea_map_entry *from, size_t count) {
    ea_map_entry *to = ea_arena_zalloc(arena, count ? count : 1, sizeof *to);
    for (size_t i = 0; to && i < count; i++) {
        to[i].value = from[i].value;
        to[i].name = ea_arena_strdup(arena, from[i].name);
        if (!to[i].name)
            return NULL;
    }
    return to;
}

int ea_schemas_add_provider(ea_schemas *s, const ea_schema_provider *p, ea_err *err) {
    struct {
        ea_guid guid;
        uint64_t layer;
    } k = {p->guid, p->layer};

    ea_schema_provider own = *p;
    own.name = ea_arena_strdup(&s->arena, p->name);
    own.origin = ea_arena_strdup(&s->arena, p->origin);
    own.message = ea_arena_strdup(&s->arena, p->message);
    own.keywords = copy_entries(&s->arena, p->keywords, p->keyword_count);
    own.levels = copy_entries(&s->arena, p->levels, p->level_count);
    if (!own.name || !own.origin || !own.message || !own.keywords || !own.levels)
        return ea_fail(err, EA_ELIMIT, "keep a provider: no more room for schemas");
    size_t number = (size_t)(uintptr_t)ea_bytes_map_get(&s->by_guid, &k, sizeof k);
    if (number) {
        s->providers[number - 1] = own;
        return 0;
    }
    if (s->provider_count == PROVIDERS_MAX)
        return ea_fail(err, EA_ELIMIT, "keep a provider: there are %d already", PROVIDERS_MAX);
    void *own_key = ea_arena_copy(&s->arena, &k, sizeof k);
    if (!own_key || EA_GROW(s->providers, s->provider_capacity, s->provider_count + 1, PROVIDERS_MAX) ||
        ea_bytes_map_put(&s->by_guid, own_key, sizeof k, (void *)(uintptr_t)(s->provider_count + 1)))
        return ea_fail(err, EA_ENOMEM, "keep a provider");
    s->providers[s->provider_count++] = own;
    return 0;
}

int ea_schemas_merge(ea_schemas *s, const ea_schemas *from) {
    size_t cursor = 0;
    ea_schema schema;
    int changed = 0, any = 0;
    for (size_t i = 0; i < from->provider_count; i++)
        any |= !ea_schemas_add_provider(s, &from->providers[i], NULL);
    while (ea_schemas_next(from, &cursor, &schema))
        any |= !ea_schemas_add(s, schema.layer, schema.description, schema.len_bytes, &changed, NULL) && changed;
    return any;
}

static const entry *find_in(const ea_schemas *s, key *k, uint8_t version) {
    k->version = version;
    return ea_bytes_map_get(&s->by_key, k, sizeof *k);
}

static const ea_schema_provider *provider_of(const ea_schemas *s, const ea_guid *guid, uint64_t layer) {
    struct {
        ea_guid guid;
        uint64_t layer;
    } k = {*guid, layer};

    size_t number = (size_t)(uintptr_t)ea_bytes_map_get(&s->by_guid, &k, sizeof k);
    return number ? &s->providers[number - 1] : NULL;
}

/* 1 when it added something. */
static int ask_last_resort(ea_schemas *s, const ea_guid *provider) {
    return s->last_resort && !provider_of(s, provider, EA_SCHEMA_CATALOGUE) && s->last_resort(s, provider);
}

void ea_schemas_set_last_resort(ea_schemas *s, ea_schemas_resort fn) {
    s->last_resort = fn;
}

void ea_schemas_set_payload_decoder(ea_schemas *s, const ea_payload_decoder *unfolder) {
    s->unfolder = *unfolder;
}

const ea_payload_decoder *ea_schemas_payload_decoder(const ea_schemas *s) {
    return s->unfolder.unfold ? &s->unfolder : NULL;
}

/* Of this version, in the first layer that has it. */
static const entry *find_exact(const ea_schemas *s, key *k, uint8_t version) {
    const entry *e = NULL;
    for (int layer = 0; !e && layer < EA_SCHEMA_LAYERS; layer++) {
        k->layer = (uint8_t)layer;
        e = find_in(s, k, version);
    }
    return e;
}

/* Of the highest version, if that is below this one: a version between two that are known is none of "newer", only
 * above all of them the fields are a prefix. */
static const entry *find_older(const ea_schemas *s, key *k, uint8_t version) {
    for (int layer = 0; layer < EA_SCHEMA_LAYERS; layer++) {
        k->layer = (uint8_t)layer;
        for (int v = UINT8_MAX; v >= 0; v--) {
            const entry *e = find_in(s, k, (uint8_t)v);
            if (e && v > version)
                break;
            if (e)
                return e;
        }
    }
    return NULL;
}

int ea_schemas_find(ea_schemas *s, const ea_guid *provider, uint16_t code, uint8_t version, int classic, ea_schema *ret,
                    int *ret_newer) {
    key k = {.provider = *provider, .code = code, .classic = classic != 0};
    const entry *e = s->by_key.count ? find_exact(s, &k, version) : NULL;
    if (!e && ask_last_resort(s, provider))
        e = find_exact(s, &k, version);
    *ret_newer = 0;
    if (!e && s->by_key.count) {
        *ret_newer = 1;
        e = find_older(s, &k, version);
    }
    if (e)
        *ret = e->schema;
    return e != NULL;
}

int ea_schemas_has(const ea_schemas *s, enum ea_schema_layer layer, const ea_guid *provider, uint16_t code,
                   uint8_t version, int classic) {
    key k = {.provider = *provider, .code = code, .classic = classic != 0, .layer = (uint8_t)layer};
    return s->by_key.count && find_in(s, &k, version) != NULL;
}

const ea_schema_provider *ea_schemas_find_provider(ea_schemas *s, const ea_guid *guid) {
    const ea_schema_provider *p = NULL;
    for (int asked = 0; asked < 2 && !p; asked++) {
        for (uint64_t layer = 0; layer < EA_SCHEMA_LAYERS && !p; layer++)
            p = provider_of(s, guid, layer);
        if (!p && !asked && !ask_last_resort(s, guid))
            break;
    }
    return p;
}

size_t ea_schemas_provider_count(const ea_schemas *s) {
    return s->provider_count;
}

const ea_schema_provider *ea_schemas_provider_at(const ea_schemas *s, size_t i) {
    return &s->providers[i];
}

int ea_schemas_next(const ea_schemas *s, size_t *cursor, ea_schema *ret) {
    const void *k;
    size_t len_bytes;
    void *value;
    if (!ea_bytes_map_next(&s->by_key, cursor, &k, &len_bytes, &value))
        return 0;
    *ret = ((const entry *)value)->schema;
    return 1;
}

size_t ea_schemas_count(const ea_schemas *s) {
    return s->by_key.count;
}
