/* Schemas inside traces. See intrace.h.
 * Sources: System.Diagnostics.Tracing's ManifestEnvelope (event 0xFFFE of an EventSource: u8 format 1, u8 major, u8
 * minor, u8 0x5B, u16 pieces, u16 number, UTF-8 text); KernelTraceControl's class bbccf6c1, opcode 32 (etw-facts). */
#include "intrace.h"

#include "event_info.h"
#include "manifest.h"
#include "map.h"

#include <stdlib.h>

enum {
    MANIFEST_EVENT = 0xFFFE,
    ENVELOPE_BYTES = 8,
    ENVELOPE_FORMAT = 1,
    ENVELOPE_MAGIC = 0x5B,
    EVENT_INFO_OPCODE = 32,
    SETS_MAX = 64,           /* manifests in the making at once */
    PIECES_MAX = 1024,       /* of one */
    SET_BYTES_MAX = 8 << 20, /* of one */
    MANIFESTS_MAX = 4096     /* different ones of a trace */
};

static const ea_guid EVENT_INFO = EA_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71);

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

struct ea_trace_schemas {
    ea_schemas *into;
    set sets[SETS_MAX];
    ea_u64_map known; /* hash of the provider's GUID -> hash of its manifest that holds */
    ea_trace_schemas_counts counts;
};

int ea_trace_schemas_create(ea_trace_schemas **ret, ea_schemas *into, ea_err *err) {
    ea_trace_schemas *t = calloc(1, sizeof *t);
    if (!t)
        return ea_fail(err, EA_ENOMEM, "keep a trace's schemas");
    t->into = into;
    ea_u64_map_init(&t->known, MANIFESTS_MAX);
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
    ea_u64_map_deinit(&t->known);
    free(t);
}

int ea_trace_schemas_concerns(const ea_record *r) {
    return r->id == MANIFEST_EVENT || (r->opcode == EVENT_INFO_OPCODE && r->flags & EA_FLAG_CLASSIC_HEADER &&
                                       ea_guid_equal(&r->provider, &EVENT_INFO));
}

/* The set of this provider and process, or an empty one in place of the one that waits longest; NULL: no memory. */
static set *find_set(ea_trace_schemas *t, const ea_record *r, uint16_t version, uint16_t total, uint16_t number) {
    set *oldest = &t->sets[0];
    for (size_t i = 0; i < SETS_MAX; i++) {
        set *s = &t->sets[i];
        if (s->pieces && s->pid == r->pid && ea_guid_equal(&s->provider, &r->provider)) {
            if (s->version == version && s->total == total && !s->pieces[number])
                return s;
            oldest = s; /* it begins anew: what is there will not be completed */
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

int ea_trace_schemas_feed(ea_trace_schemas *t, const ea_record *r) {
    int changed = 0;
    if (r->id == MANIFEST_EVENT && !(r->flags & EA_FLAG_CLASSIC_HEADER))
        return feed_piece(t, r);
    if (!ea_trace_schemas_concerns(r) || r->id == MANIFEST_EVENT || t->counts.event_infos >= UINT16_MAX)
        return 0;
    t->counts.event_infos++;
    if (ea_event_info_read(t->into, EA_SCHEMA_TRACE, r->payload, r->payload_bytes, NULL, &changed, NULL)) {
        t->counts.unreadable++;
        return 0;
    }
    return changed;
}

ea_trace_schemas_counts ea_trace_schemas_get(const ea_trace_schemas *t) {
    return t->counts;
}
