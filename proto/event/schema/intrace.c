/* Schemas inside traces. See intrace.h.
 * Sources: System.Diagnostics.Tracing's ManifestEnvelope (event 0xFFFE of an EventSource: u8 format 1, u8 major, u8
 * minor, u8 0x5B, u16 pieces, u16 number, UTF-8 text); KernelTraceControl's class bbccf6c1: opcode 32,
 * TRACE_EVENT_INFO, and opcode 33, the provider's GUID and EVENT_MAP_INFO (microsoft/perfview
 * RegisteredTraceEventParser.cs, and real traces: each event's information precedes the first such event, and the maps
 * of the event that are new in the trace follow it). */
#include "proto/event/schema/intrace.h"

#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "proto/base/provider_guids.h"
#include "proto/event/schema/event_info.h"
#include "proto/event/schema/manifest.h"

#include <stdlib.h>

enum {
    MANIFEST_EVENT = 0xFFFE,
    ENVELOPE_BYTES = 8,
    ENVELOPE_FORMAT = 1,
    ENVELOPE_MAGIC = 0x5B,
    EVENT_INFO_OPCODE = 32,
    MAP_INFO_OPCODE = 33,
    SETS_MAX = 64,           /* manifests in the making at once */
    PIECES_MAX = 1024,       /* of one */
    SET_BYTES_MAX = 8 << 20, /* of one */
    MANIFESTS_MAX = 4096,    /* different ones of a trace */
    MAPS_MAX = 8192,         /* different ones of a trace */
    MAPS_BYTES_MAX = 16 << 20,
    MAP_SCRATCH_BYTES = 1 << 20,
    MAP_NAME_MAX = 256,
    WAITING_MAX = 64, /* event infos whose maps have not come */
    MISSING_MAX = 64  /* maps of one that are waited for */
};

static const ea_guid METADATA = EA_PROVIDER_META_DATA;

/* The pieces of one manifest from one process. */
typedef struct set {
    ea_guid provider;
    uint32_t pid;
    uint16_t version; /* major and minor */
    uint16_t total, have;
    uint64_t used; /* when, by the count of pieces */
    uint8_t **pieces;
    uint32_t *sizes;
    size_t bytes;
} set;

/* A map's name and provider; the bytes after the name are zero. */
typedef struct map_key {
    ea_guid provider;
    char name[MAP_NAME_MAX];
} map_key;

/* The information of an event whose fields name maps that the trace has not had. */
typedef struct waiting {
    uint8_t *info; /* a copy of the record's payload; NULL: free */
    size_t len_bytes;
    uint64_t used; /* when, by the count of event infos */
    size_t missing_count;
    uint64_t missing[MISSING_MAX]; /* hashes of map_key */
} waiting;

struct ea_trace_schemas {
    ea_schemas *into;
    set sets[SETS_MAX];
    ea_u64_map known; /* hash of the provider's GUID -> hash of its manifest that holds */
    ea_arena arena, scratch;
    ea_bytes_map maps; /* map_key -> ea_enum, which lives in arena */
    waiting waiting[WAITING_MAX];
    ea_trace_schemas_counts counts;
};

int ea_trace_schemas_create(ea_trace_schemas **ret, ea_schemas *into, ea_err *err) {
    ea_trace_schemas *t = calloc(1, sizeof *t);
    if (!t)
        return ea_fail(err, EA_ENOMEM, "keep a trace's schemas");
    t->into = into;
    ea_u64_map_init(&t->known, MANIFESTS_MAX);
    ea_bytes_map_init(&t->maps, MAPS_MAX);
    ea_arena_init(&t->arena, MAPS_BYTES_MAX);
    ea_arena_init(&t->scratch, MAP_SCRATCH_BYTES);
    *ret = t;
    return 0;
}

static void clear(set *s) {
    for (unsigned i = 0; s->pieces && i < s->total; i++)
        free(s->pieces[i]);
    free(s->pieces);
    free(s->sizes);
    *s = (set){.pieces = NULL};
}

void ea_trace_schemas_destroy(ea_trace_schemas *t) {
    if (!t)
        return;
    for (size_t i = 0; i < SETS_MAX; i++)
        clear(&t->sets[i]);
    for (size_t i = 0; i < WAITING_MAX; i++)
        free(t->waiting[i].info);
    ea_u64_map_deinit(&t->known);
    ea_bytes_map_deinit(&t->maps);
    ea_arena_deinit(&t->arena);
    ea_arena_deinit(&t->scratch);
    free(t);
}

int ea_trace_schemas_concerns(const ea_record *r) {
    return r->id == MANIFEST_EVENT || ((r->opcode | 1) == MAP_INFO_OPCODE && r->flags & EA_FLAG_CLASSIC_HEADER &&
                                       ea_guid_equal(&r->provider, &METADATA));
}

/* The set of this provider and process. When there is none, an empty set, which replaces the set that has waited
 * longest when all are in use. NULL: no memory. */
static set *find_set(ea_trace_schemas *t, const ea_record *r, uint16_t version, uint16_t total, uint16_t number) {
    set *oldest = &t->sets[0];
    for (size_t i = 0; i < SETS_MAX; i++) {
        set *s = &t->sets[i];
        if (s->pieces && s->pid == r->pid && ea_guid_equal(&s->provider, &r->provider)) {
            if (s->version == version && s->total == total && !s->pieces[number])
                return s;
            oldest = s; /* the manifest begins anew: the pieces of the old one will not be completed */
            break;
        }
        if (s->used < oldest->used)
            oldest = s;
    }
    if (oldest->pieces)
        t->counts.given_up++;
    clear(oldest);
    oldest->pieces = calloc(total, sizeof *oldest->pieces);
    oldest->sizes = calloc(total, sizeof *oldest->sizes);
    if (!oldest->pieces || !oldest->sizes) {
        clear(oldest);
        return NULL;
    }
    oldest->provider = r->provider;
    oldest->pid = r->pid;
    oldest->version = version;
    oldest->total = total;
    return oldest;
}

/* All pieces are there. */
static int take_manifest(ea_trace_schemas *t, const set *s) {
    ea_manifest_options o = {.file = "trace", .layer = EA_SCHEMA_TRACE};
    ea_manifest_result result = {0};
    uint64_t provider = ea_hash64(&s->provider, sizeof s->provider, 0);
    char *text = malloc(s->bytes ? s->bytes : 1);
    size_t at = 0;
    if (!text)
        return 0;
    for (unsigned i = 0; i < s->total; i++) {
        memcpy(text + at, s->pieces[i], s->sizes[i]);
        at += s->sizes[i];
    }
    uint64_t hash = ea_hash64(text, at, 0), *before = ea_u64_map_get(&t->known, provider);
    int is_new = !before || *before != hash;
    t->counts.manifests++;
    if (is_new && ea_u64_map_put(&t->known, provider, hash)) {
        t->counts.given_up++;
        is_new = 0;
    }
    if (is_new && ea_manifest_read(t->into, text, at, &o, &result, NULL)) {
        t->counts.unreadable++;
        result.changed = 0;
    }
    free(text);
    return result.changed;
}

static int feed_piece(ea_trace_schemas *t, const ea_record *r) {
    const uint8_t *p = r->payload;
    if (r->payload_bytes < ENVELOPE_BYTES || p[0] != ENVELOPE_FORMAT || p[3] != ENVELOPE_MAGIC)
        return 0;
    uint16_t total = ea_load16(p + 4), number = ea_load16(p + 6);
    size_t size = r->payload_bytes - (size_t)ENVELOPE_BYTES;
    if (!total || total > PIECES_MAX || number >= total)
        return 0;
    set *s = find_set(t, r, (uint16_t)(p[1] | p[2] << 8), total, number);
    uint8_t *copy = s && s->bytes + size <= SET_BYTES_MAX ? malloc(size ? size : 1) : NULL;
    if (!copy) {
        if (s)
            clear(s);
        t->counts.given_up++;
        return 0;
    }
    memcpy(copy, p + ENVELOPE_BYTES, size);
    s->used = ++t->counts.pieces;
    s->pieces[number] = copy;
    s->sizes[number] = (uint32_t)size;
    s->bytes += size;
    if (++s->have < s->total)
        return 0;
    int changed = take_manifest(t, s);
    clear(s);
    return changed;
}

/* ---- event information, and maps ---- */

/* 0: the name is too long for a map that anybody keeps. */
static int intrace_make_key(const ea_guid *provider, const char *name, map_key *ret) {
    size_t len = strlen(name);
    if (len >= sizeof ret->name)
        return 0;
    *ret = (map_key){.provider = *provider};
    memcpy(ret->name, name, len);
    return 1;
}

/* One reading of an event's information. */
typedef struct reading {
    const ea_trace_schemas *of;
    size_t missing_count;
    uint64_t missing[MISSING_MAX]; /* as in waiting */
} reading;

static const ea_enum *intrace_find_map(void *arg, const ea_guid *provider, const char *name) {
    reading *r = arg;
    map_key k;
    if (!intrace_make_key(provider, name, &k))
        return NULL;
    const ea_enum *map = ea_bytes_map_get(&r->of->maps, &k, sizeof k);
    if (!map && r->missing_count < MISSING_MAX)
        r->missing[r->missing_count++] = ea_hash64(&k, sizeof k, 0);
    return map;
}

/* Reads an event's information with the maps that are known; when it would be too large with them, without. What is
 * missing is in *ret. */
static int intrace_read_info(ea_trace_schemas *t, const uint8_t *data, size_t len_bytes, reading *ret,
                             int *ret_changed) {
    *ret = (reading){.of = t};
    int rc = ea_event_info_read(t->into, EA_SCHEMA_TRACE, data, len_bytes, &(ea_event_maps){intrace_find_map, ret},
                                ret_changed, NULL);
    return rc ? ea_event_info_read(t->into, EA_SCHEMA_TRACE, data, len_bytes, NULL, ret_changed, NULL) : 0;
}

/* Keeps an event's information until its maps come. When all places are in use, the information that has waited longest
 * is dropped and counted in given_up. */
static void intrace_wait_for(ea_trace_schemas *t, const ea_record *r, const reading *missing) {
    waiting *w = &t->waiting[0];
    for (size_t i = 0; i < WAITING_MAX && w->info; i++)
        if (!t->waiting[i].info || t->waiting[i].used < w->used)
            w = &t->waiting[i];
    t->counts.given_up += w->info != NULL;
    free(w->info);
    w->info = malloc(r->payload_bytes);
    if (!w->info) {
        t->counts.given_up++;
        return;
    }
    memcpy(w->info, r->payload, r->payload_bytes);
    w->len_bytes = r->payload_bytes;
    w->used = t->counts.event_infos;
    w->missing_count = missing->missing_count;
    memcpy(w->missing, missing->missing, missing->missing_count * sizeof *missing->missing);
}

static int feed_info(ea_trace_schemas *t, const ea_record *r) {
    reading missing;
    int changed = 0;
    if (t->counts.event_infos >= UINT16_MAX)
        return 0;
    t->counts.event_infos++;
    if (intrace_read_info(t, r->payload, r->payload_bytes, &missing, &changed)) {
        t->counts.unreadable++;
        return 0;
    }
    if (missing.missing_count)
        intrace_wait_for(t, r, &missing);
    return changed;
}

static int intrace_is_same(const ea_enum *a, const ea_enum *b) {
    int same = a->is_flags == b->is_flags && a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = a->entries[i].value == b->entries[i].value && strcmp(a->entries[i].name, b->entries[i].name) == 0;
    return same;
}

/* 1 when this map is not there like that, and is now. */
static int keep_map(ea_trace_schemas *t, const map_key *k, const uint8_t *data, size_t len_bytes) {
    ea_enum fresh;
    const ea_enum *before = ea_bytes_map_get(&t->maps, k, sizeof *k);
    int same = 0;
    if (before && !ea_event_map_read(&t->scratch, data, len_bytes, &fresh, NULL))
        same = intrace_is_same(before, &fresh);
    ea_arena_reset(&t->scratch);
    if (same)
        return 0;
    ea_enum *own = ea_arena_zalloc(&t->arena, 1, sizeof *own);
    void *own_key = own ? ea_arena_copy(&t->arena, k, sizeof *k) : NULL;
    if (!own_key || ea_event_map_read(&t->arena, data, len_bytes, own, NULL) ||
        ea_bytes_map_put(&t->maps, own_key, sizeof *k, own)) {
        t->counts.given_up++;
        return 0;
    }
    return 1;
}

/* What waited for this map is read again. Each map of each is looked for once, so that hostile input costs at most
 * MISSING_MAX readings an event's information. */
static int intrace_complete(ea_trace_schemas *t, const map_key *k) {
    uint64_t hash = ea_hash64(k, sizeof *k, 0);
    int any = 0;
    for (size_t i = 0; i < WAITING_MAX; i++) {
        waiting *w = &t->waiting[i];
        size_t before = w->missing_count;
        reading missing;
        int changed = 0;
        for (size_t m = 0; w->info && m < w->missing_count;)
            if (w->missing[m] == hash)
                w->missing[m] = w->missing[--w->missing_count];
            else
                m++;
        if (!w->info || w->missing_count == before)
            continue;
        any |= !intrace_read_info(t, w->info, w->len_bytes, &missing, &changed) && changed;
        if (w->missing_count)
            continue;
        free(w->info);
        *w = (waiting){.info = NULL};
    }
    return any;
}

static int feed_map(ea_trace_schemas *t, const ea_record *r) {
    ea_guid provider;
    ea_enum map;
    map_key k;
    t->counts.map_infos++;
    size_t len_bytes = r->payload_bytes > sizeof provider ? r->payload_bytes - sizeof provider : 0;
    const uint8_t *data = len_bytes ? r->payload + sizeof provider : NULL;
    int is_readable = data && !ea_event_map_read(&t->scratch, data, len_bytes, &map, NULL);
    if (is_readable) {
        memcpy(&provider, r->payload, sizeof provider);
        is_readable = intrace_make_key(&provider, map.name, &k);
    }
    ea_arena_reset(&t->scratch);
    if (!is_readable) {
        t->counts.unreadable++;
        return 0;
    }
    return keep_map(t, &k, data, len_bytes) && intrace_complete(t, &k);
}

int ea_trace_schemas_feed(ea_trace_schemas *t, const ea_record *r) {
    if (!ea_trace_schemas_concerns(r))
        return 0;
    if (r->id == MANIFEST_EVENT)
        return r->flags & EA_FLAG_CLASSIC_HEADER ? 0 : feed_piece(t, r);
    return r->opcode == MAP_INFO_OPCODE ? feed_map(t, r) : feed_info(t, r);
}

ea_trace_schemas_counts ea_trace_schemas_get(const ea_trace_schemas *t) {
    return t->counts;
}
