/* Schema cache files. See cache.h. */
#include "proto/event/schema/cache.h"

#include "proto/base/map.h"

#include <stdlib.h>

enum { VERSION = 1, HEAD_BYTES = 40, ENTRIES_MAX = 256 };

static const char MAGIC[EA_SCHEMA_CACHE_MAGIC_BYTES + 1] = "EASCHEMA";

/* ---- reading ---- */

typedef struct reader {
    const uint8_t *at, *end;
    int wrong;
} reader;

static const uint8_t *cache_take(reader *r, size_t bytes) {
    if (bytes > (size_t)(r->end - r->at)) {
        r->wrong = 1;
        return NULL;
    }
    const uint8_t *p = r->at;
    r->at += bytes;
    return p;
}

static uint32_t take32(reader *r) {
    const uint8_t *p = cache_take(r, 4);
    return p ? ea_load32(p) : 0;
}

static const char *take_text(reader *r) {
    uint32_t n = take32(r);
    const uint8_t *p = n < UINT32_MAX ? cache_take(r, (size_t)n + 1) : NULL;
    if (!p || p[n] || memchr(p, 0, n)) {
        r->wrong = 1;
        return "";
    }
    return (const char *)p;
}

static size_t take_entries(reader *r, ea_map_entry entries[ENTRIES_MAX]) {
    uint32_t n = take32(r);
    if (n > ENTRIES_MAX) {
        r->wrong = 1;
        return 0;
    }
    for (uint32_t i = 0; i < n && !r->wrong; i++) {
        const uint8_t *p = cache_take(r, 8);
        entries[i] = (ea_map_entry){p ? ea_load64(p) : 0, take_text(r)};
    }
    return r->wrong ? 0 : n;
}

static int cache_read_provider(reader *r, ea_schemas *into, enum ea_schema_layer layer, ea_err *err) {
    ea_map_entry keywords[ENTRIES_MAX], levels[ENTRIES_MAX];
    ea_schema_provider p = {.keywords = keywords, .levels = levels, .layer = (uint8_t)layer};
    const uint8_t *guid = cache_take(r, sizeof p.guid);
    if (guid)
        memcpy(&p.guid, guid, sizeof p.guid);
    p.name = take_text(r);
    p.origin = take_text(r);
    p.message = take_text(r);
    p.keyword_count = take_entries(r, keywords);
    p.level_count = take_entries(r, levels);
    return r->wrong ? ea_fail(err, EA_ECORRUPT, "a provider's description ends early")
                    : ea_schemas_add_provider(into, &p, err);
}

int ea_schema_cache_is(const void *data, size_t len_bytes) {
    return len_bytes >= EA_SCHEMA_CACHE_MAGIC_BYTES && memcmp(data, MAGIC, EA_SCHEMA_CACHE_MAGIC_BYTES) == 0;
}

static int read_body(reader *r, ea_schemas *into, uint32_t provider_count, uint32_t schema_count,
                     enum ea_schema_layer layer, ea_err *err) {
    int rc = 0;
    for (uint32_t i = 0; i < provider_count && !rc; i++)
        rc = cache_read_provider(r, into, layer, err);
    for (uint32_t i = 0; i < schema_count && !rc; i++) {
        uint32_t n = take32(r);
        const uint8_t *description = cache_take(r, n);
        rc = description ? ea_schemas_add(into, layer, description, n, NULL, err)
                         : ea_fail(err, EA_ECORRUPT, "it ends inside schema %u of %u", i + 1, schema_count);
    }
    if (!rc && r->at != r->end)
        rc = ea_fail(err, EA_ECORRUPT, "%zu bytes too many", (size_t)(r->end - r->at));
    return rc;
}

int ea_schema_cache_read(ea_schemas *into, const char *file, const void *data, size_t len_bytes,
                         enum ea_schema_layer layer, size_t *ret_events, ea_err *err) {
    const uint8_t *p = data;
    ea_err why;
    if (!ea_schema_cache_is(data, len_bytes) || len_bytes < HEAD_BYTES)
        return ea_fail(err, EA_EFORMAT, "%s: expected a schema cache file", file);
    if (ea_load32(p + 8) != VERSION)
        return ea_fail(err, EA_EUNSUPPORTED,
                       "%s: a schema cache of version %u; this program reads version %d: compile it again", file,
                       ea_load32(p + 8), VERSION);
    if (ea_load64(p + 24) != len_bytes - HEAD_BYTES ||
        ea_load64(p + 32) != ea_hash64(p + HEAD_BYTES, len_bytes - HEAD_BYTES, ea_load64(p + 12)))
        return ea_fail(err, EA_ECORRUPT, "%s: the schema cache is damaged (its checksum is another): compile it again",
                       file);
    reader r = {p + HEAD_BYTES, p + len_bytes, 0};
    int rc = read_body(&r, into, ea_load32(p + 12), ea_load32(p + 16), layer, &why);
    if (rc)
        return ea_fail(err, rc, "%s: schema cache: %s", file, why.message);
    *ret_events = ea_load32(p + 16);
    return 0;
}

/* ---- writing ---- */

static void cache_put_text(ea_text *out, const char *s) {
    ea_text_le32(out, (uint32_t)strlen(s));
    ea_text_add(out, s, strlen(s) + 1);
}

static void cache_put_entries(ea_text *out, const ea_map_entry *entries, size_t count) {
    ea_text_le32(out, (uint32_t)count);
    for (size_t i = 0; i < count; i++) {
        ea_text_add(out, &entries[i].value, sizeof entries[i].value);
        cache_put_text(out, entries[i].name);
    }
}

static int by_bytes(const void *a, const void *b) {
    const ea_schema *x = a, *y = b;
    uint32_t n = x->len_bytes < y->len_bytes ? x->len_bytes : y->len_bytes;
    int c = memcmp(x->description, y->description, n);
    return c ? c : (x->len_bytes > y->len_bytes) - (x->len_bytes < y->len_bytes);
}

static uint32_t put_body(const ea_schemas *from, enum ea_schema_layer layer, ea_text *out, ea_schema *sorted,
                         uint32_t *ret_schemas) {
    uint32_t providers = 0, count = 0;
    size_t cursor = 0;
    ea_schema schema;
    for (size_t i = 0; i < ea_schemas_provider_count(from); i++) {
        const ea_schema_provider *p = ea_schemas_provider_at(from, i);
        if (p->layer != layer)
            continue;
        ea_text_add(out, &p->guid, sizeof p->guid);
        cache_put_text(out, p->name);
        cache_put_text(out, p->origin);
        cache_put_text(out, p->message);
        cache_put_entries(out, p->keywords, p->keyword_count);
        cache_put_entries(out, p->levels, p->level_count);
        providers++;
    }
    while (ea_schemas_next(from, &cursor, &schema))
        if (schema.layer == layer)
            sorted[count++] = schema;
    qsort(sorted, count, sizeof *sorted, by_bytes);
    for (uint32_t i = 0; i < count; i++) {
        ea_text_le32(out, sorted[i].len_bytes);
        ea_text_add(out, sorted[i].description, sorted[i].len_bytes);
    }
    *ret_schemas = count;
    return providers;
}

int ea_schema_cache_write(const ea_schemas *from, enum ea_schema_layer layer, ea_text *out, ea_err *err) {
    uint8_t head[HEAD_BYTES] = {0};
    uint32_t schemas;
    ea_schema *sorted = calloc(ea_schemas_count(from) + 1, sizeof *sorted);
    ea_text body;
    ea_text_init(&body);
    int rc = sorted ? 0 : ea_fail(err, EA_ENOMEM, "write a schema cache");
    if (!rc) {
        uint32_t providers = put_body(from, layer, &body, sorted, &schemas);
        memcpy(head, MAGIC, EA_SCHEMA_CACHE_MAGIC_BYTES);
        ea_store32(head + 8, VERSION);
        ea_store32(head + 12, providers);
        ea_store32(head + 16, schemas);
        ea_store64(head + 24, body.len_bytes);
        ea_store64(head + 32, ea_hash64(body.data, body.len_bytes, ea_load64(head + 12)));
        ea_text_add(out, head, sizeof head);
        ea_text_add(out, body.data, body.len_bytes);
        if (body.failed || out->failed)
            rc = ea_fail(err, EA_ENOMEM, "write a schema cache");
    }
    ea_text_deinit(&body);
    free(sorted);
    return rc;
}
