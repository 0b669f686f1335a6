/* Contexts. See context.h. */
#include "service/batch/context.h"
#include "proto/wire/column.h"

#include <stdlib.h>

enum {
    SHAPES_MAX = 1024, /* then the list begins anew */
    ROOM = (SHAPES_MAX + EA_CONTEXT_SOURCES) * EA_NAME_BYTES + 32,
    INDEX_MAX_BYTES = 2, /* of a varint below SHAPES_MAX */
};

int ea_context_writer_init(ea_context_writer *w, ea_err *err) {
    *w = (ea_context_writer){.shapes = malloc((size_t)SHAPES_MAX * EA_NAME_BYTES), .packed = malloc(ROOM)};
    ea_u64_map_init(&w->index, SHAPES_MAX);
    return w->shapes && w->packed ? 0 : ea_fail(err, EA_ENOMEM, "make an encoder");
}

void ea_context_writer_deinit(ea_context_writer *w) {
    ea_u64_map_deinit(&w->index);
    free(w->shapes);
    free(w->packed);
}

/* ---- shapes ---- */

int ea_group_header(ea_arena *arena, const ea_open_group *g, const ea_record *before, Etwagent__V1__Header **ret_header,
                    ea_record *ret) {
    const ea_class *c = g->c;
    ea_record r = {0};
    ea_open_group_header(g, &r);
    Etwagent__V1__Header h = ETWAGENT__V1__HEADER__INIT;
    h.id = r.id ^ (c->classic ? 0u : c->code);
    h.version = (uint32_t)r.version ^ c->version;
    h.opcode = r.opcode ^ (c->classic ? c->code : 0u);
    h.pointer_size = (uint32_t)r.pointer_size ^ c->pointer_size;
    h.channel = (uint32_t)r.channel ^ before->channel;
    h.level = (uint32_t)r.level ^ before->level;
    h.task = (uint32_t)r.task ^ before->task;
    h.keyword = r.keyword ^ before->keyword;
    h.flags = (uint32_t)r.flags ^ before->flags;
    h.property = (uint32_t)r.property ^ before->property;
    h.header_type = (uint32_t)r.header_type ^ before->header_type;
    h.hook_id = (uint32_t)r.hook_id ^ before->hook_id;
    h.header_word = (uint32_t)r.header_word ^ before->header_word;
    h.logger = (uint32_t)r.logger ^ before->logger;
    *ret = r;
    if (!ea_guid_equal(&r.provider, &c->provider)) {
        h.provider.data = ea_arena_copy(arena, &r.provider, sizeof r.provider);
        h.provider.len = sizeof r.provider;
        if (!h.provider.data)
            return EA_ENOMEM;
    }
    if (etwagent__v1__header__get_packed_size(&h) == 0)
        return 0;
    *ret_header = ea_arena_copy(arena, &h, sizeof h);
    return *ret_header ? 0 : EA_ENOMEM;
}

static int fill_shape(ea_arena *arena, const ea_open_batch *o, const ea_open_group *g, Etwagent__V1__Shape *m) {
    ea_record before = {.logger = (uint16_t)o->sources[0].logger}, header;
    etwagent__v1__shape__init(m);
    m->class_hash.data = (uint8_t *)(uintptr_t)g->c->hash;
    m->class_hash.len = EA_CLASS_HASH_BYTES;
    int rc = ea_group_header(arena, g, &before, &m->header, &header);
    if (rc || !g->ext_count)
        return rc;
    m->items = ea_arena_alloc(arena, g->ext_count * sizeof(void *));
    Etwagent__V1__Item *items = ea_arena_alloc(arena, g->ext_count * sizeof *items);
    Etwagent__V1__Column *columns = ea_arena_alloc(arena, g->ext_count * sizeof *columns);
    if (!m->items || !items || !columns)
        return EA_ENOMEM;
    for (unsigned k = 0; k < g->ext_count; k++) {
        const ea_item_shape *shape = &o->shapes[g->shapes + k];
        etwagent__v1__item__init(&items[k]);
        items[k].type = shape->type;
        items[k].linkage = shape->linkage;
        if (shape->constant != (uint32_t)EA_NO_CONSTANT) {
            etwagent__v1__column__init(&columns[k]);
            columns[k].constant = (ProtobufCBinaryData){.len = shape->size_bytes, .data = o->content + shape->constant};
            items[k].data = &columns[k];
        }
        m->items[m->n_items++] = &items[k];
    }
    return 0;
}

int ea_shapes_make(ea_arena *arena, const ea_open_batch *o, const ea_open_group *const *groups, uint32_t count,
                   ea_shapes *ret) {
    ret->count = 0;
    ret->hashes = ea_arena_alloc(arena, count * sizeof *ret->hashes);
    ret->packed = ea_arena_alloc(arena, count * sizeof *ret->packed);
    if (!ret->hashes || !ret->packed)
        return EA_ENOMEM;
    for (uint32_t k = 0; k < count; k++) {
        Etwagent__V1__Shape m;
        if (k && groups[k] == groups[k - 1]) {
            ret->packed[k] = ret->packed[k - 1];
            memcpy(ret->hashes[k], ret->hashes[k - 1], sizeof ret->hashes[k]);
            continue;
        }
        int rc = fill_shape(arena, o, groups[k], &m);
        size_t len_bytes = rc ? 0 : etwagent__v1__shape__get_packed_size(&m);
        if (rc || len_bytes > EA_SHAPE_MAX_BYTES)
            return rc;
        ret->packed[k] = (ProtobufCBinaryData){.len = len_bytes, .data = ea_arena_alloc(arena, len_bytes)};
        if (!ret->packed[k].data)
            return EA_ENOMEM;
        etwagent__v1__shape__pack(&m, ret->packed[k].data);
        rc = ea_definition_hash(ret->packed[k].data, len_bytes, ret->hashes[k], NULL);
        if (rc)
            return rc;
    }
    ret->count = count;
    return 0;
}

/* ---- the context ---- */

static void forget_shapes(ea_context_writer *w) {
    ea_u64_map_deinit(&w->index);
    ea_u64_map_init(&w->index, SHAPES_MAX);
    w->count = 0;
}

/* The place of each group's shape in the list, as varints; 1 when one has no place any more, EA_ENOMEM. */
static int place_shapes(ea_context_writer *w, const ea_shapes *s, uint8_t *out, size_t *ret_len_bytes) {
    uint8_t *at = out;
    for (uint32_t k = 0; k < s->count; k++) {
        uint64_t name = ea_load64(s->hashes[k]);
        const uint64_t *place = ea_u64_map_get(&w->index, name);
        uint64_t index = place ? *place - 1 : w->count;
        if (!place) {
            if (w->count == SHAPES_MAX)
                return 1;
            if (ea_u64_map_put(&w->index, name, index + 1))
                return EA_ENOMEM;
            memcpy(w->shapes + (size_t)w->count++ * EA_NAME_BYTES, s->hashes[k], EA_NAME_BYTES);
        }
        at += ea_varint_put(at, &index, 1);
    }
    *ret_len_bytes = (size_t)(at - out);
    return 0;
}

/* The message is hashed only when it is another one than before. */
static int pack_context(ea_context_writer *w, ea_arena *arena, const Etwagent__V1__Context *m) {
    size_t n = etwagent__v1__context__get_packed_size(m);
    uint8_t *packed = ea_arena_alloc(arena, n);
    if (!packed)
        return EA_ENOMEM;
    etwagent__v1__context__pack(m, packed);
    if (n == w->packed_bytes && memcmp(packed, w->packed, n) == 0)
        return 0;
    memcpy(w->packed, packed, n);
    w->packed_bytes = n;
    return ea_definition_hash(packed, n, w->hash, NULL);
}

static int context_is_known(ea_acked_definitions *known, const uint8_t *hash) {
    return known && ea_acked_definitions_has(known, hash);
}

/* Names the sources; those that the collector has are left out. */
static int context_put_sources(ea_arena *arena, uint8_t *names, ea_acked_definitions *known, Etwagent__V1__Batch *b) {
    size_t kept = 0;
    for (size_t i = 0; i < b->n_sources; i++) {
        uint8_t hash[EA_CLASS_HASH_BYTES];
        size_t n = etwagent__v1__source__get_packed_size(b->sources[i]);
        uint8_t *packed = ea_arena_alloc(arena, n);
        if (!packed)
            return EA_ENOMEM;
        etwagent__v1__source__pack(b->sources[i], packed);
        int rc = ea_definition_hash(packed, n, hash, NULL), repeated = 0;
        if (rc)
            return rc;
        memcpy(names + i * EA_NAME_BYTES, hash, EA_NAME_BYTES);
        for (size_t k = 0; k < i; k++)
            repeated |= memcmp(names + k * EA_NAME_BYTES, hash, EA_NAME_BYTES) == 0;
        if (!repeated && !context_is_known(known, hash))
            b->sources[kept++] = b->sources[i];
    }
    b->n_sources = kept;
    return 0;
}

static int put_shapes(ea_arena *arena, const ea_shapes *s, ea_acked_definitions *known, Etwagent__V1__Batch *b) {
    b->shapes = ea_arena_alloc(arena, s->count * sizeof *b->shapes);
    if (!b->shapes)
        return EA_ENOMEM;
    for (uint32_t k = 0; k < s->count; k++) {
        int repeated = k && memcmp(s->hashes[k], s->hashes[k - 1], sizeof s->hashes[k]) == 0;
        if (!repeated && !context_is_known(known, s->hashes[k]))
            b->shapes[b->n_shapes++] = s->packed[k];
    }
    return 0;
}

int ea_context_put(ea_context_writer *w, ea_arena *arena, const ea_shapes *shapes, uint64_t dictionary,
                   uint32_t priority, ea_acked_definitions *known, Etwagent__V1__Batch *b) {
    Etwagent__V1__Context m = ETWAGENT__V1__CONTEXT__INIT;
    size_t indexes_bytes = 0, source_count = b->n_sources;
    uint8_t *name = ea_arena_alloc(arena, EA_NAME_BYTES + (size_t)shapes->count * INDEX_MAX_BYTES);
    uint8_t *sources = ea_arena_alloc(arena, source_count * EA_NAME_BYTES);
    b->contexts = ea_arena_alloc(arena, sizeof *b->contexts);
    if (!name || !sources || !b->contexts)
        return EA_ENOMEM;
    int rc = context_put_sources(arena, sources, known, b);
    if (!rc)
        rc = put_shapes(arena, shapes, known, b);
    if (!rc && (rc = place_shapes(w, shapes, name + EA_NAME_BYTES, &indexes_bytes)) > 0) {
        forget_shapes(w);
        rc = place_shapes(w, shapes, name + EA_NAME_BYTES, &indexes_bytes);
    }
    m.sources = (ProtobufCBinaryData){.len = source_count * EA_NAME_BYTES, .data = sources};
    m.shapes = (ProtobufCBinaryData){.len = (size_t)w->count * EA_NAME_BYTES, .data = w->shapes};
    m.dictionary = dictionary;
    m.priority = priority;
    if (!rc)
        rc = pack_context(w, arena, &m);
    if (rc)
        return rc;
    memcpy(name, w->hash, EA_NAME_BYTES);
    b->context = (ProtobufCBinaryData){.len = EA_NAME_BYTES + indexes_bytes, .data = name};
    if (!context_is_known(known, w->hash))
        b->contexts[b->n_contexts++] = (ProtobufCBinaryData){.len = w->packed_bytes, .data = w->packed};
    return 0;
}
