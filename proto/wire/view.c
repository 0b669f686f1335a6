/* A whole batch, opened: frames, directory, sources, groups. See wire.h; FORMAT.md is the specification. Input:
 * envelope.c, unpack.c. Used by: view_records.c. Thread: a view belongs to one. */
#include "proto/wire/view_parts.h"

#include "proto/wire/checksum.h"
#include "proto/wire/definitions.h"
#include "proto/wire/short_directory.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    /* Everything that one view may take, decoded columns and payloads included. */
    VIEW_LIMIT_BYTES = 3 * EA_BATCH_MAX_RAW_BYTES,
    SHARED_DICTIONARIES_MAX = 64,
};

/* ---- opening ---- */

/* Whether data is one zstd frame, whose header states raw_bytes, without any bytes after it. */
static int is_one_frame(const uint8_t *data, size_t len_bytes, uint64_t raw_bytes) {
    return ZSTD_getFrameContentSize(data, len_bytes) == raw_bytes &&
           ZSTD_findFrameCompressedSize(data, len_bytes) == len_bytes;
}

static int view_read_frames(ea_batch_view *v, ea_err *err) {
    const ea_envelope *e = &v->envelope;
    size_t offset = 0, k = 1;
    if (e->is_short && e->directory_raw_bytes == UINT64_MAX)
        return ea_view_corrupt(err, "it is short, and does not say its size");
    if (e->is_short &&
        (e->directory_raw_bytes > EA_SHORT_DIRECTORY_MAX_BYTES || e->directory_bytes > EA_SHORT_DIRECTORY_MAX_BYTES))
        return ea_fail(err, EA_ELIMIT, "read a batch's directory: a short one has at most %d bytes",
                       EA_SHORT_DIRECTORY_MAX_BYTES);
    uint64_t total = e->directory_raw_bytes ? e->directory_raw_bytes : e->directory_bytes;
    if (total > EA_BATCH_MAX_RAW_BYTES)
        return ea_fail(err, EA_ELIMIT, "read a batch: decompressed it is larger than %d bytes", EA_BATCH_MAX_RAW_BYTES);
    ea_pb_field f;
    uint64_t paid = e->padding_bytes + (e->is_short ? 0 : e->directory_bytes);
    v->reader.frame_count = (size_t)v->envelope.frame_count + 1;
    v->reader.frames = ea_arena_zalloc(&v->arena, v->reader.frame_count, sizeof *v->reader.frames);
    if (!v->reader.frames)
        return ea_view_no_memory(v, err);
    while (ea_pb_next(v->batch, v->batch_bytes, &offset, &f) > 0) {
        if (f.number != EA_BATCH_FRAMES)
            continue;
        ea_frame *frame = &v->reader.frames[k++];
        ea_pb_field in;
        size_t at = 0;
        uint64_t raw_bytes = 0;
        int rc;
        while ((rc = ea_pb_next(f.data, f.len_bytes, &at, &in)) > 0) {
            if ((in.number == 1 && in.type != 2) || (in.number == 2 && in.type != 0))
                return ea_view_corrupt(err, "a frame's field is of another type");
            if (in.number == 1) {
                frame->data = in.data;
                frame->len_bytes = in.len_bytes;
            } else if (in.number == 2) {
                raw_bytes = in.value;
            }
        }
        if (rc)
            return ea_view_corrupt(err, "a frame is no message");
        if (raw_bytes == 0) {
            frame->bytes = frame->data;
            frame->raw_bytes = frame->len_bytes;
        } else {
            if (raw_bytes <= EA_BATCH_MAX_RAW_BYTES && !is_one_frame(frame->data, frame->len_bytes, raw_bytes))
                return ea_fail(err, EA_ECORRUPT, "read a batch: frame %zu is not one zstd frame of %" PRIu64 " bytes",
                               k - 1, raw_bytes);
            frame->raw_bytes = (size_t)raw_bytes;
        }
        total = raw_bytes > EA_BATCH_MAX_RAW_BYTES ? raw_bytes : total + frame->raw_bytes;
        if (total > EA_BATCH_MAX_RAW_BYTES)
            return ea_fail(err, EA_ELIMIT, "read a batch: decompressed it is larger than %d bytes",
                           EA_BATCH_MAX_RAW_BYTES);
        paid += frame->len_bytes;
    }
    v->reader.paid_bytes = paid;
    v->reader.cost_max = EA_COST_BASE + EA_COST_A_BYTE * paid; /* 2^10 times 2^24 bytes of a batch */
    return ea_rows_spend(&v->reader, total + EA_COST_AN_EVENT * (uint64_t)e->head.event_count, err);
}

static int view_read_directory(ea_batch_view *v, ea_err *err) {
    const ea_envelope *e = &v->envelope;
    const uint8_t *data = e->directory;
    size_t len_bytes = e->directory_bytes;
    if (!data)
        return 0;
    if (e->is_short && e->directory_raw_bytes) {
        uint8_t *frame = ea_arena_alloc(&v->arena, len_bytes + EA_ZSTD_HEAD_BYTES);
        if (!frame)
            return ea_view_no_memory(v, err);
        ea_short_directory_frame((size_t)e->directory_raw_bytes, data, len_bytes, frame);
        data = frame;
        len_bytes += EA_ZSTD_HEAD_BYTES;
    }
    if (e->directory_raw_bytes) {
        if (!is_one_frame(data, len_bytes, e->directory_raw_bytes))
            return ea_fail(err, EA_ECORRUPT, "read a batch's directory: it is not one zstd frame of %" PRIu64 " bytes",
                           e->directory_raw_bytes);
        uint8_t *out = ea_arena_alloc(&v->arena, (size_t)e->directory_raw_bytes);
        if (!out)
            return ea_view_no_memory(v, err);
        size_t n = ZSTD_decompressDCtx(v->reader.zstd, out, (size_t)e->directory_raw_bytes, data, len_bytes);
        if (ZSTD_isError(n) || n != e->directory_raw_bytes)
            return ea_view_corrupt(err, ZSTD_isError(n) ? ZSTD_getErrorName(n) : "it is shorter than it says");
        data = out;
        len_bytes = n;
    }
    if (e->is_short) {
        int rc = ea_short_directory_unpack(data, len_bytes, &v->arena, &v->directory, err);
        if (rc)
            return rc;
    } else {
        size_t unknown = ea_pb_unknown_bytes(&etwagent__v1__directory__descriptor, data, len_bytes, EA_PB_DEPTH_MAX);
        if (unknown > EA_BATCH_MAX_UNKNOWN_BYTES)
            return ea_fail(err, EA_ELIMIT,
                           "read a batch's directory: fields that are not known here have %zu bytes, at most %d are "
                           "allowed",
                           unknown, EA_BATCH_MAX_UNKNOWN_BYTES);
        ProtobufCMessage *m;
        int rc =
            ea_pb_unpack(&etwagent__v1__directory__descriptor, &v->arena, data, len_bytes, "its directory", &m, err);
        if (rc)
            return rc;
        v->directory = (Etwagent__V1__Directory *)m;
    }
    v->reader.frames[0].bytes = v->directory->pool.data;
    v->reader.frames[0].raw_bytes = v->reader.frames[0].len_bytes = v->directory->pool.len;
    return 0;
}

static int read_sources(ea_batch_view *v, ea_err *err) {
    size_t count = v->envelope.head.source_count, offset = 0, k = 0;
    ea_pb_field f;
    v->sources = ea_arena_zalloc(&v->arena, count ? count : 1, sizeof *v->sources);
    if (!v->sources)
        return ea_view_no_memory(v, err);
    ea_own_definition *own = NULL;
    uint32_t *places = NULL; /* of each definition: 1 + the first source that it is, so that it is read once */
    const uint8_t *names = v->envelope.context.sources;
    uint32_t definitions = v->envelope.source_count;
    if (names) {
        own = ea_rows_alloc(&v->reader, definitions, sizeof *own);
        places = ea_arena_zalloc(&v->arena, definitions ? definitions : 1, sizeof *places);
        if (!own || !places)
            return ea_view_no_memory(v, err);
        int rc = ea_own_definitions(own, definitions, EA_DEFINES_SOURCE, v->batch, v->batch_bytes, err);
        if (rc)
            return rc;
    }
    while (k < count) {
        const ea_own_definition *found = NULL;
        if (names) {
            if (ea_own_definitions_find(own, definitions, names + k * EA_NAME_BYTES, EA_NAME_BYTES, &found) <= 0)
                return ea_view_corrupt(err, "a source is not there");
            if (places[found - own]) {
                v->sources[k++] = v->sources[places[found - own] - 1];
                continue;
            }
            places[found - own] = (uint32_t)k + 1;
            f = (ea_pb_field){.number = EA_BATCH_SOURCES, .data = found->data, .len_bytes = found->len_bytes};
        } else if (ea_pb_next(v->batch, v->batch_bytes, &offset, &f) <= 0) {
            return ea_view_corrupt(err, "a source is not there");
        }
        if (f.number != EA_BATCH_SOURCES)
            continue;
        if (f.len_bytes > EA_MESSAGE_MAX_BYTES)
            return ea_fail(err, EA_ELIMIT, "read a batch: a source of %zu bytes, at most %d are allowed", f.len_bytes,
                           EA_MESSAGE_MAX_BYTES);
        ProtobufCMessage *m;
        int rc = ea_pb_unpack(&etwagent__v1__source__descriptor, &v->arena, f.data, f.len_bytes, "a source", &m, err);
        if (rc)
            return rc;
        const Etwagent__V1__Source *s = (const Etwagent__V1__Source *)m;
        rc = ea_envelope_check_labels(s, err);
        if (rc)
            return rc;
        ea_wire_source *out = &v->sources[k++];
        *out = (ea_wire_source){.name = s->name,
                                .host = s->host,
                                .boot_filetime = s->boot_filetime,
                                .pointer_size = s->pointer_size,
                                .cpu_count = s->cpu_count,
                                .os_version = s->os_version,
                                .os_build = s->os_build,
                                .log_file_mode = s->log_file_mode,
                                .logger = s->logger,
                                .bias_minutes = s->bias_minutes};
        ea_envelope_clock(s, &out->clock);
    }
    return 0;
}

typedef struct describe {
    ea_batch_view *v;
    ea_err *err;
} describe;

static int add_description(const uint8_t *data, size_t data_bytes, void *arg) {
    describe *d = arg;
    const ea_class *c;
    return ea_registry_add_description(d->v->registry, data, data_bytes, &c, d->err);
}

static int fill_constants(ea_view_group *g, const ea_record *before, ea_err *err) {
    static const Etwagent__V1__Header none = ETWAGENT__V1__HEADER__INIT;
    const Etwagent__V1__Header *h = g->m->header ? g->m->header : &none;
    const ea_class *c = g->c;
    ea_record *r = &g->record;
    uint32_t id = h->id ^ (c->classic ? 0u : c->code), version = h->version ^ c->version;
    uint32_t opcode = h->opcode ^ (c->classic ? c->code : 0u), pointer_size = h->pointer_size ^ c->pointer_size;
    uint32_t channel = h->channel ^ before->channel, level = h->level ^ before->level, task = h->task ^ before->task;
    uint32_t flags = h->flags ^ before->flags, property = h->property ^ before->property;
    uint32_t header_type = h->header_type ^ before->header_type, hook_id = h->hook_id ^ before->hook_id;
    uint32_t header_word = h->header_word ^ before->header_word;
    uint32_t logger = h->logger ^ before->logger;
    if ((version | opcode | pointer_size | channel | level | header_type) > UINT8_MAX ||
        (id | task | flags | property | hook_id | header_word | logger) > UINT16_MAX)
        return ea_view_corrupt(err, "a number of a header exceeds its member of the record");
    r->provider = c->provider;
    if (h->provider.len) {
        if (h->provider.len != sizeof r->provider)
            return ea_fail(err, EA_ECORRUPT, "read a batch's directory: a provider has 16 bytes, this one %zu",
                           h->provider.len);
        memcpy(&r->provider, h->provider.data, sizeof r->provider);
    }
    r->id = (uint16_t)id;
    r->version = (uint8_t)version;
    r->channel = (uint8_t)channel;
    r->level = (uint8_t)level;
    r->opcode = (uint8_t)opcode;
    r->task = (uint16_t)task;
    r->keyword = h->keyword ^ before->keyword;
    r->logger = (uint16_t)logger;
    r->flags = (uint16_t)flags;
    r->property = (uint16_t)property;
    r->pointer_size = (uint8_t)pointer_size;
    r->header_type = (uint8_t)header_type;
    r->hook_id = (uint16_t)hook_id;
    r->header_word = (uint16_t)header_word;
    r->ext_count = (uint16_t)g->m->n_items;
    g->constants = ea_checksum_constants(r);
    return 0;
}

/* A column that may be absent. */
static int build(ea_batch_view *v, ea_rows *ret, const Etwagent__V1__Column *m, uint32_t rows, uint32_t width,
                 ea_err *err) {
    *ret = (ea_rows){0};
    return m ? ea_rows_build(&v->reader, ret, m, rows, width, 0, err) : 0;
}

static int read_group(ea_batch_view *v, ea_view_group *g, const Etwagent__V1__Group *m, const ea_record *before,
                      ea_err *err) {
    g->m = m;
    g->count = m->count ? m->count : 1;
    g->field_count = m->n_fields;
    if (m->class_hash.len != EA_CLASS_HASH_BYTES)
        return ea_fail(err, EA_ECORRUPT, "read a batch's directory: a class's hash has 16 bytes, this one %zu",
                       m->class_hash.len);
    if (m->n_items > EA_EXT_MAX)
        return ea_fail(err, EA_ELIMIT,
                       "read a batch's directory: a group of %zu extended items, at most %d are allowed", m->n_items,
                       EA_EXT_MAX);
    if (m->n_fields > EA_FIELDS_MAX)
        return ea_fail(err, EA_ELIMIT, "read a batch's directory: a group of %zu fields, at most %d are allowed",
                       m->n_fields, EA_FIELDS_MAX);
    if (v->registry) {
        g->c = ea_registry_find_hash(v->registry, m->class_hash.data);
        if (!g->c) {
            char hex[2 * EA_CLASS_HASH_BYTES + 1];
            for (size_t i = 0; i < EA_CLASS_HASH_BYTES; i++)
                snprintf(hex + 2 * i, 3, "%02x", m->class_hash.data[i]);
            return ea_fail(err, EA_ENOTFOUND, "read a batch: class %s is not described", hex);
        }
        if (g->field_count > g->c->top_count)
            return ea_fail(err, EA_ECORRUPT, "read a batch's directory: a group has %zu fields, and its class %zu",
                           g->field_count, (size_t)g->c->top_count);
        int rc = fill_constants(g, before, err);
        if (rc)
            return rc;
    }
    g->items = ea_arena_zalloc(&v->arena, m->n_items ? m->n_items : 1, sizeof *g->items);
    g->fields = ea_arena_zalloc(&v->arena, m->n_fields ? m->n_fields : 1, sizeof *g->fields);
    if (!g->items || !g->fields)
        return ea_view_no_memory(v, err);
    const Etwagent__V1__Directory *d = v->directory;
    if ((d->kernel_time && m->kernel_time) || (d->user_time && m->user_time) || (d->activity && m->activity))
        return ea_view_corrupt(err, "a group has a column that the batch has for all events");
    int rc = 0;
    for (size_t i = 0; !rc && i < m->n_items; i++) {
        if (!m->items[i]->data)
            return ea_view_corrupt(err, "an extended item without data");
        if (m->items[i]->type > UINT16_MAX || m->items[i]->linkage > UINT16_MAX)
            return ea_view_corrupt(err, "an extended item's type or linkage exceeds 16 bits");
        rc = build(v, &g->items[i].data, m->items[i]->data, g->count, 0, err);
    }
    if (!rc)
        rc = build(v, &g->kernel_time, m->kernel_time, g->count, 4, err);
    if (!rc)
        rc = build(v, &g->user_time, m->user_time, g->count, 4, err);
    if (!rc)
        rc = build(v, &g->activity, m->activity, g->count, 16, err);
    for (size_t i = 0; !rc && i < m->n_fields; i++)
        rc = build(v, &g->fields[i], m->fields[i], g->count, 0, err);
    if (!rc)
        rc = build(v, &g->payload, m->payload, g->count, 0, err);
    return rc;
}

/* A shape that is in the batch, as a message. A constant's column is nothing but its bytes. */
static int read_shape(ea_batch_view *v, const ea_own_definition *d, const Etwagent__V1__Shape **ret, ea_err *err) {
    ProtobufCMessage *m;
    int rc = ea_pb_unpack(&etwagent__v1__shape__descriptor, &v->arena, d->data, d->len_bytes, "a shape", &m, err);
    if (rc)
        return rc;
    const Etwagent__V1__Shape *s = (const Etwagent__V1__Shape *)m;
    if (s->n_items > EA_EXT_MAX)
        return ea_view_corrupt(err, "a shape has too many items");
    for (size_t i = 0; i < s->n_items; i++) {
        const Etwagent__V1__Column *c = s->items[i]->data;
        if (c && (c->encoding || c->width || c->relative_to || c->planes || c->frame || c->bytes || c->lengths ||
                  c->values || c->value_count || c->shared))
            return ea_view_corrupt(err, "a shape's item is no constant");
    }
    *ret = s;
    return 0;
}

/* The group as it would be without a shape. */
static int put_together(ea_batch_view *v, const Etwagent__V1__Shape *s, const Etwagent__V1__Group *m,
                        const Etwagent__V1__Group **ret, ea_err *err) {
    Etwagent__V1__Group *whole = ea_arena_alloc(&v->arena, sizeof *whole);
    Etwagent__V1__Item **list = ea_rows_alloc(&v->reader, s->n_items + 1, sizeof(void *));
    Etwagent__V1__Item *items = ea_rows_alloc(&v->reader, s->n_items + 1, sizeof *items);
    size_t used = 0;
    if (!whole || !list || !items)
        return ea_view_no_memory(v, err);
    if (m->class_hash.len)
        return ea_view_corrupt(err, "a group has a shape and a class");
    if (m->header)
        return ea_view_corrupt(err, "a group has a shape and a header");
    *whole = *m;
    whole->class_hash = s->class_hash;
    whole->header = s->header;
    whole->n_items = s->n_items;
    whole->items = list;
    for (size_t i = 0; i < s->n_items; i++) {
        list[i] = &items[i];
        items[i] = *s->items[i];
        if (items[i].data)
            continue;
        if (used == m->n_items)
            return ea_view_corrupt(err, "a group has fewer items than its shape");
        if (m->items[used]->type || m->items[used]->linkage)
            return ea_view_corrupt(err, "an item has a type or linkage, and is in a group that has a shape");
        items[i].data = m->items[used++]->data;
    }
    if (used != m->n_items)
        return ea_view_corrupt(err, "a group has more items than its shape");
    *ret = whole;
    return 0;
}

/* Puts the groups of a batch that names shapes together: in place of the directory's. */
static int apply_shapes(ea_batch_view *v, ea_err *err) {
    const ea_envelope *e = &v->envelope;
    size_t n = e->shape_count, count = v->directory->n_groups;
    const uint8_t *at = e->shape_indexes, *name = NULL;
    if (!e->has_context)
        return 0;
    ea_own_definition *own = ea_rows_alloc(&v->reader, n + 1, sizeof *own);
    const Etwagent__V1__Shape **shapes = ea_arena_zalloc(&v->arena, n + 1, sizeof(void *));
    if (!own || !shapes)
        return ea_view_no_memory(v, err);
    int rc = ea_own_definitions(own, n, EA_DEFINES_SHAPE, v->batch, v->batch_bytes, err);
    for (size_t k = 0; !rc && k < count; k++) {
        const ea_own_definition *found = NULL;
        const Etwagent__V1__Group *whole = NULL;
        if (ea_context_next_shape(&e->context, e, &at, &name) <= 0)
            return ea_view_corrupt(err, "not each group has a shape");
        if (ea_own_definitions_find(own, n, name, EA_NAME_BYTES, &found) <= 0)
            return ea_view_corrupt(err, "a shape is not there");
        if (!shapes[found - own])
            rc = read_shape(v, found, &shapes[found - own], err);
        if (!rc)
            rc = put_together(v, shapes[found - own], v->directory->groups[k], &whole, err);
        if (!rc)
            v->directory->groups[k] = (Etwagent__V1__Group *)(uintptr_t)whole;
    }
    if (!rc && at != e->shape_indexes + e->shape_indexes_bytes)
        return ea_view_corrupt(err, "more shapes than groups");
    return rc;
}

uint32_t ea_view_whole_payloads(const ea_batch_view *v) {
    uint32_t n = 0;
    for (size_t k = 0; k < v->group_count; k++)
        n += ea_view_is_whole(&v->groups[k]) ? v->groups[k].count : 0;
    return n;
}

static int read_groups(ea_batch_view *v, ea_err *err) {
    const Etwagent__V1__Directory *d = v->directory;
    uint32_t n = v->envelope.head.event_count;
    int rc;
    if (!d)
        return n ? ea_view_corrupt(err, "it is missing") : 0;

    const struct {
        const char *what;
        size_t count, most;
    } bounds[] = {{"groups", d->n_groups, EA_BATCH_MAX_GROUPS},
                  {"shared dictionaries", d->n_dictionaries, SHARED_DICTIONARIES_MAX},
                  {"threads", d->thread_count, n}};

    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++)
        if (bounds[i].count > bounds[i].most)
            return ea_fail(err, EA_ELIMIT, "read a batch's directory: %zu %s, at most %zu are allowed", bounds[i].count,
                           bounds[i].what, bounds[i].most);
    v->group_count = d->n_groups;
    v->thread_count = d->thread_count;
    v->groups = ea_arena_zalloc(&v->arena, d->n_groups ? d->n_groups : 1, sizeof *v->groups);
    ea_rows_reader *r = &v->reader;
    r->dictionary_count = d->n_dictionaries;
    r->dictionaries = ea_arena_zalloc(&v->arena, d->n_dictionaries + 1, sizeof *r->dictionaries);
    r->dictionary_counts = ea_arena_zalloc(&v->arena, d->n_dictionaries + 1, sizeof *r->dictionary_counts);
    if (!v->groups || !r->dictionaries || !r->dictionary_counts)
        return ea_view_no_memory(v, err);
    for (size_t i = 0; i < d->n_dictionaries; i++) {
        r->dictionary_counts[i] = d->dictionaries[i]->count;
        if (!d->dictionaries[i]->values)
            return ea_view_corrupt(err, "a shared dictionary without values");
        if (d->dictionaries[i]->count > EA_BATCH_MAX_EVENTS)
            return ea_fail(err, EA_ELIMIT,
                           "read a batch's directory: a shared dictionary of %" PRIu32
                           " values, at most %d are allowed",
                           d->dictionaries[i]->count, EA_BATCH_MAX_EVENTS);
    }
    /* what predicts the first group's header */
    ea_record nothing = {.logger = (uint16_t)(v->envelope.head.source_count ? v->sources[0].logger : 0)};
    const ea_record *before = &nothing;
    if ((rc = apply_shapes(v, err)))
        return rc;
    uint64_t total = 0;
    for (size_t i = 0; !rc && i < d->n_groups; i++) {
        /* before any column is looked at, so that no size is larger than the batch's count allows */
        total += d->groups[i]->count ? d->groups[i]->count : 1;
        if (total > n)
            return ea_view_corrupt(err, "its groups have more events than the batch");
        rc = read_group(v, &v->groups[i], d->groups[i], before, err);
        before = v->envelope.has_context ? &nothing : &v->groups[i].record;
    }
    if (!rc && total != n)
        return ea_view_corrupt(err, "its groups have fewer events than the batch");
    if (!rc && n && (!d->group || !d->time || !d->cpu || !d->thread || !d->thread_pids || !d->thread_tids))
        return ea_view_corrupt(err, "a column that every batch has is missing");
    if (!rc)
        rc = build(v, &v->group_of, d->group, n, 4, err);
    if (!rc)
        rc = build(v, &v->time, d->time, n, 8, err);
    if (!rc)
        rc = build(v, &v->cpu, d->cpu, n, 2, err);
    if (!rc)
        rc = build(v, &v->thread, d->thread, n, 4, err);
    if (!rc)
        rc = build(v, &v->source, d->source, n, 2, err);
    if (!rc)
        rc = build(v, &v->sequence, d->sequence, n, 8, err);
    if (!rc)
        rc = build(v, &v->pids, d->thread_pids, d->thread_count, 4, err);
    if (!rc)
        rc = build(v, &v->tids, d->thread_tids, d->thread_count, 4, err);
    if (!rc)
        rc = build(v, &v->kernel_time, d->kernel_time, n, 4, err);
    if (!rc)
        rc = build(v, &v->user_time, d->user_time, n, 4, err);
    if (!rc)
        rc = build(v, &v->activity, d->activity, n, 16, err);
    if (!rc)
        rc = build(v, &v->payload, d->payload, ea_view_whole_payloads(v), 0, err);
    for (size_t i = 0; !rc && i < d->n_dictionaries; i++)
        rc = ea_rows_build(r, &r->dictionaries[i], d->dictionaries[i]->values, d->dictionaries[i]->count, 0, 1, err);
    for (size_t i = 0; !rc && i < r->frame_count; i++)
        if (r->frames[i].used_bytes != r->frames[i].raw_bytes)
            return ea_fail(err, EA_ECORRUPT, "read a batch's directory: frame %zu has %zu bytes of no column", i,
                           r->frames[i].raw_bytes - r->frames[i].used_bytes);
    return rc;
}

/* A view without a batch: a new one, or one whose batch is over. */
static ea_batch_view *make_view(ea_batch_view *used) {
    ea_batch_view *v = used ? used : calloc(1, sizeof *v);
    if (!v)
        return NULL;
    ea_arena arena = v->arena;
    ZSTD_DCtx *zstd = v->reader.zstd;
    if (used)
        ea_arena_recycle(&arena);
    else
        ea_arena_init(&arena, VIEW_LIMIT_BYTES);
    *v = (ea_batch_view){.arena = arena, .reader = {.zstd = zstd ? zstd : ZSTD_createDCtx()}};
    v->reader.arena = &v->arena;
    if (!v->reader.zstd) {
        ea_batch_close(v);
        return NULL;
    }
    return v;
}

/* Reads the parts of the batch after the envelope, which was read. */
static int open_envelope(ea_batch_view *v, ea_err *err) {
    int rc = 0;
    if (v->envelope.head.is_incomplete)
        rc = ea_fail(err, EA_ENOTFOUND,
                     "read batch %" PRIu64 ": sources, shapes or a dictionary that it names are not in it",
                     v->envelope.head.number);
    if (!rc)
        rc = view_read_frames(v, err);
    if (!rc)
        rc = view_read_directory(v, err);
    if (!rc)
        rc = read_sources(v, err);
    if (!rc && v->registry)
        rc = ea_batch_each_description(v->batch, v->batch_bytes, add_description, &(describe){v, err}, err);
    if (!rc)
        rc = read_groups(v, err);
    return rc;
}

int ea_batch_open(ea_batch_view **ret, const uint8_t *batch, size_t len_bytes, ea_registry *registry, ea_err *err) {
    ea_batch_view *v = NULL;
    int rc = ea_batch_open_next(&v, batch, len_bytes, registry, err);
    if (!rc)
        *ret = v;
    return rc;
}

int ea_batch_open_parsed(ea_batch_view **ret, const ea_batch *batch, ea_registry *registry, ea_err *err) {
    ea_batch_view *v = make_view(NULL);
    if (!v)
        return ea_fail(err, EA_ENOMEM, "open a batch");
    v->batch = batch->data;
    v->batch_bytes = batch->len_bytes;
    v->registry = registry;
    v->envelope = batch->envelope;
    int rc = open_envelope(v, err);
    if (rc)
        ea_batch_close(v);
    else
        *ret = v;
    return rc;
}

int ea_batch_open_next(ea_batch_view **view, const uint8_t *batch, size_t len_bytes, ea_registry *registry,
                       ea_err *err) {
    ea_batch_view *v = make_view(*view);
    int rc = v ? 0 : ea_fail(err, EA_ENOMEM, "open a batch");
    *view = NULL;
    if (!rc) {
        v->batch = batch;
        v->batch_bytes = len_bytes;
        v->registry = registry;
        rc = ea_envelope_read(&v->envelope, batch, len_bytes, err);
    }
    if (!rc)
        rc = open_envelope(v, err);
    if (rc) {
        ea_batch_close(v);
        return rc;
    }
    *view = v;
    return 0;
}

void ea_batch_close(ea_batch_view *v) {
    if (!v)
        return;
    ZSTD_freeDCtx(v->reader.zstd);
    ea_arena_deinit(&v->arena);
    free(v);
}

uint64_t ea_batch_cost(const ea_batch_view *v) {
    return v->reader.cost;
}

const ea_batch_head *ea_batch_get_head(const ea_batch_view *v) {
    return &v->envelope.head;
}

size_t ea_batch_source_count(const ea_batch_view *v) {
    return v->envelope.head.source_count;
}

const ea_wire_source *ea_batch_source(const ea_batch_view *v, size_t source) {
    return &v->sources[source];
}

size_t ea_batch_group_count(const ea_batch_view *v) {
    return v->group_count;
}

const uint8_t *ea_batch_group_hash(const ea_batch_view *v, size_t k) {
    return v->groups[k].m->class_hash.data;
}

const ea_class *ea_batch_group_class(const ea_batch_view *v, size_t k) {
    return v->groups[k].c;
}

uint32_t ea_batch_group_events(const ea_batch_view *v, size_t k) {
    return v->groups[k].count;
}

const ea_record *ea_batch_group_constants(const ea_batch_view *v, size_t k) {
    return &v->groups[k].record;
}
