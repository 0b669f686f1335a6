/* Rows become a batch: layout, frames, envelope. FORMAT.md is the specification. Input: encoder_events.c. Output:
 * service/spool. Thread: the encoder's; only the set of known classes is shared.
 */
#include "service/batch/encoder_parts.h"

#include "proto/wire/column.h"
#include "proto/wire/short_directory.h"
#include "service/batch/ledger_message.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    SMALL_POOL_BYTES = 8 << 10,   /* pooled data up to this size is stored in the directory */
    MIN_DIRECTORY_GAIN = 16,      /* compression must save at least this */
    SMALL_BATCH_BYTES = 16 << 10, /* columns data of a batch that is pooled as a whole */
    FLAT_LEVEL = 16,              /* of a small batch: zstd works no less hard */
    DICTIONARY_LEVEL = 16,
    USE_DICTIONARY = -1001,   /* in place of a level */
    DICTIONARY_EVERY = 64,    /* small batches between two that bring the dictionary along */
    TRANSPOSE_ROWS = 6,       /* a group of fewer rows keeps its payloads whole */
    FLAT_TRANSPOSE_ROWS = 12, /* ... in a small batch */
    ARENA_BYTES = 8 << 20,    /* asked for at once; an ordinary batch needs less */
};

static int open_dictionary(ea_encoder *e, ea_err *err) {
    const ea_encoder_options *o = &e->options;
    if (o->dictionary_bytes > EA_DICTIONARY_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "use a zstd dictionary of %zu bytes: at most %d are allowed",
                       o->dictionary_bytes, EA_DICTIONARY_MAX_BYTES);
    e->zstd_dictionary = ZSTD_createCCtx();
    e->dictionary = ZSTD_createCDict(o->dictionary, o->dictionary_bytes, DICTIONARY_LEVEL);
    if (!e->zstd_dictionary || !e->dictionary)
        return ea_fail(err, EA_ENOMEM, "use a zstd dictionary");
    /* the batch names it, so the frame need not */
    size_t bad = ZSTD_CCtx_setParameter(e->zstd_dictionary, ZSTD_c_dictIDFlag, 0);
    if (!ZSTD_isError(bad))
        bad = ZSTD_CCtx_refCDict(e->zstd_dictionary, e->dictionary);
    if (ZSTD_isError(bad))
        return ea_fail(err, EA_EINVAL, "use a zstd dictionary: %s", ZSTD_getErrorName(bad));
    return ea_definition_hash(o->dictionary, o->dictionary_bytes, e->dictionary_hash, err);
}

int ea_encoder_create(ea_encoder **ret, const ea_encoder_options *options, ea_err *err) {
    ea_encoder *e = calloc(1, sizeof *e);
    if (!e)
        return ea_fail(err, EA_ENOMEM, "make an encoder");
    e->options = *options;
    if (e->options.zstd_level == 0)
        e->options.zstd_level = 1;
    ea_arena_init(&e->arena, 0);
    ea_columns_init(&e->columns, &e->arena);
    e->columns.no_dictionaries = e->options.zstd_level == EA_ZSTD_NONE;
    e->zstd = ZSTD_createCCtx();
    int rc = e->zstd ? ea_acked_definitions_init(&e->known, err) : ea_fail(err, EA_ENOMEM, "make an encoder");
    if (!rc)
        rc = ea_context_writer_init(&e->context, err);
    if (!rc && e->options.dictionary_bytes && e->options.zstd_level != EA_ZSTD_NONE)
        rc = open_dictionary(e, err);
    if (rc) {
        ea_encoder_destroy(e);
        return rc;
    }
    *ret = e;
    return 0;
}

void ea_encoder_destroy(ea_encoder *e) {
    if (!e)
        return;
    ZSTD_freeCCtx(e->zstd);
    ZSTD_freeCCtx(e->zstd_dictionary);
    ZSTD_freeCDict(e->dictionary);
    ea_columns_deinit(&e->columns);
    ea_arena_deinit(&e->arena);
    ea_acked_definitions_deinit(&e->known);
    ea_context_writer_deinit(&e->context);
    free(e->out);
    ea_encoder_free_rows(e);
    free(e);
}

void ea_encoder_known(ea_encoder *e, const uint8_t *hash) {
    ea_acked_definitions_add(&e->known, hash);
}

void ea_encoder_unknown(ea_encoder *e, const ea_hash_ref *ref) {
    ea_acked_definitions_remove(&e->known, ref);
}

void ea_encoder_last_directory(const ea_encoder *e, const uint8_t **ret_data, size_t *ret_len_bytes) {
    *ret_data = e->last_directory;
    *ret_len_bytes = e->last_directory_bytes;
}

/* ---- frames and envelope ---- */

/* Compresses into the arena: 0 bytes when that does not pay, or is switched off. */
static size_t compress(ea_encoder *e, const uint8_t *data, size_t len_bytes, int level, uint8_t **ret) {
    if (e->options.zstd_level == EA_ZSTD_NONE)
        return 0;
    size_t room = ZSTD_compressBound(len_bytes);
    uint8_t *out = ea_arena_alloc(&e->arena, room);
    if (!out) {
        e->columns.failed = 1;
        return 0;
    }
    size_t n = level == USE_DICTIONARY ? ZSTD_compress2(e->zstd_dictionary, out, room, data, len_bytes)
                                       : ZSTD_compressCCtx(e->zstd, out, room, data, len_bytes, level);
    if (ZSTD_isError(n) || n >= len_bytes)
        return 0;
    *ret = out;
    return n;
}

static Etwagent__V1__Frame *put_frame(ea_encoder *e, const uint8_t *data, size_t len_bytes) {
    Etwagent__V1__Frame *f = ea_arena_alloc(&e->arena, sizeof *f);
    uint8_t *packed = NULL;
    if (!f) {
        e->columns.failed = 1;
        return NULL;
    }
    etwagent__v1__frame__init(f);
    size_t n = compress(e, data, len_bytes, e->options.zstd_level, &packed);
    f->raw_bytes = n ? len_bytes : 0;
    f->data.data = n ? packed : (uint8_t *)(uintptr_t)data;
    f->data.len = n ? n : len_bytes;
    return f;
}

/* Joins the parts below own_bytes of a kind; kind EA_PART_KINDS: of all kinds. */
static uint8_t *join_parts(ea_encoder *e, unsigned kind, size_t own_bytes, uint32_t frame, size_t *ret_bytes) {
    const ea_columns *c = &e->columns;
    size_t total = 0;
    for (size_t i = 0; i < c->part_count; i++)
        if (c->parts[i].len_bytes < own_bytes && (kind == EA_PART_KINDS || c->parts[i].kind == kind))
            total += c->parts[i].len_bytes;
    uint8_t *out = ea_arena_alloc(&e->arena, total), *at = out;
    for (size_t i = 0; out && i < c->part_count; i++) {
        const ea_part *p = &c->parts[i];
        if (p->len_bytes >= own_bytes || (kind != EA_PART_KINDS && p->kind != kind))
            continue;
        p->column->frame = frame;
        memcpy(at, p->data, p->len_bytes);
        at += p->len_bytes;
    }
    if (!out)
        e->columns.failed = 1;
    *ret_bytes = total;
    return out;
}

static void encoder_put_frames(ea_encoder *e, Etwagent__V1__Directory *d, Etwagent__V1__Batch *b) {
    ea_columns *c = &e->columns;
    size_t all = c->direct.len_bytes, pooled = 0, own_bytes = EA_OWN_FRAME_BYTES, n;
    uint32_t direct = c->direct.count; /* frames before those that are listed here */
    b->frames = ea_arena_alloc(&e->arena, (c->part_count + EA_PART_KINDS) * sizeof(void *));
    if (!b->frames) {
        c->failed = 1;
        return;
    }
    for (size_t i = 0; i < c->part_count; i++) {
        all += c->parts[i].len_bytes;
        pooled += c->parts[i].len_bytes < EA_OWN_FRAME_BYTES ? c->parts[i].len_bytes : 0;
    }
    if (all <= SMALL_BATCH_BYTES)
        own_bytes = SIZE_MAX;
    if (all <= SMALL_BATCH_BYTES || pooled <= SMALL_POOL_BYTES) {
        d->pool.data = join_parts(e, EA_PART_KINDS, own_bytes, 0, &n);
        d->pool.len = n;
    } else {
        for (unsigned kind = 0; kind < EA_PART_KINDS; kind++) {
            uint8_t *data = join_parts(e, kind, own_bytes, direct + (uint32_t)b->n_frames + 1, &n);
            if (n)
                b->frames[b->n_frames++] = put_frame(e, data, n);
        }
    }
    for (size_t i = 0; i < c->part_count; i++) {
        const ea_part *p = &c->parts[i];
        if (p->len_bytes < own_bytes)
            continue;
        b->frames[b->n_frames++] = put_frame(e, p->data, p->len_bytes);
        p->column->frame = direct + (uint32_t)b->n_frames;
    }
}

/* A directory as bytes; in the short form (after a byte with the kind of compression) if it has one. */
typedef struct directory_bytes {
    uint8_t *data; /* with room for one byte before it */
    size_t len_bytes;
    int is_short;
} directory_bytes;

static int pack_directory(ea_encoder *e, const Etwagent__V1__Directory *d, int is_small, directory_bytes *ret) {
    size_t room = etwagent__v1__directory__get_packed_size(d);
    uint8_t *data = ea_arena_alloc(&e->arena, room + 1);
    if (!data) {
        e->columns.failed = 1;
        return EA_ENOMEM;
    }
    *ret = (directory_bytes){.data = data + 1, .len_bytes = room};
    ret->is_short = is_small && ea_short_directory_pack(d, ret->data, room, &ret->len_bytes) &&
                    ret->len_bytes <= EA_SHORT_DIRECTORY_MAX_BYTES;
    if (!ret->is_short)
        ret->len_bytes = etwagent__v1__directory__pack(d, ret->data);
    return 0;
}

/* A short directory in the fewest bytes: a byte that says how, and the directory as it is; or its size and the block of
 * a zstd frame, with the dictionary or without. */
static void put_short(ea_encoder *e, const directory_bytes *plain, int may_use_dictionary, Etwagent__V1__Batch *b) {
    uint64_t n = plain->len_bytes;
    b->directory.data = plain->data - 1;
    b->directory.len = (size_t)n + 1;
    b->directory.data[0] = EA_SHORT_DIRECTORY_PLAIN;
    for (int with = 0; with <= may_use_dictionary; with++) {
        uint8_t *packed = NULL;
        int level = e->options.zstd_level < FLAT_LEVEL ? FLAT_LEVEL : e->options.zstd_level;
        size_t packed_bytes = compress(e, plain->data, (size_t)n, with ? USE_DICTIONARY : level, &packed);
        size_t block = packed_bytes ? ea_short_directory_block(packed, packed_bytes) : 0;
        size_t head = 1 + ea_varint_bytes(n); /* fits into the frame's */
        if (!block || packed_bytes - block + head >= b->directory.len)
            continue;
        b->directory.data = packed + block - head;
        b->directory.len = packed_bytes - block + head;
        b->directory.data[0] = with ? EA_SHORT_DIRECTORY_WITH_DICTIONARY : EA_SHORT_DIRECTORY_ZSTD;
        ea_varint_put(b->directory.data + 1, &n, 1);
    }
}

static void put_directory(ea_encoder *e, const Etwagent__V1__Directory *d, int is_small, int may_use_dictionary,
                          Etwagent__V1__Batch *b) {
    directory_bytes plain;
    uint8_t *packed = NULL;
    if (pack_directory(e, d, is_small && !b->n_frames, &plain))
        return;
    size_t n = plain.len_bytes;
    e->last_directory = plain.data;
    e->last_directory_bytes = is_small ? n : 0;
    if (plain.is_short) {
        put_short(e, &plain, may_use_dictionary, b);
        return;
    }
    int level = e->options.zstd_level;
    size_t packed_bytes = compress(e, plain.data, n, is_small && level < FLAT_LEVEL ? FLAT_LEVEL : level, &packed);
    int pays = packed_bytes && packed_bytes + MIN_DIRECTORY_GAIN < n;
    b->directory.data = pays ? packed : plain.data;
    b->directory.len = pays ? packed_bytes : n;
    b->directory_bytes = pays ? n : 0;
}

static int encoder_is_known(ea_encoder *e, const uint8_t *hash) {
    return !e->options.all_descriptions && ea_acked_definitions_has(&e->known, hash);
}

static int knows_dictionary(ea_encoder *e) {
    return e->dictionary && encoder_is_known(e, e->dictionary_hash);
}

static void put_descriptions(ea_encoder *e, const ea_open_batch *o, Etwagent__V1__Batch *b) {
    ea_u64_map seen;
    ea_u64_map_init(&seen, 0);
    b->descriptions = ea_arena_alloc(&e->arena, o->group_count * sizeof *b->descriptions);
    if (!b->descriptions)
        e->columns.failed = 1;
    for (uint32_t k = 0; !e->columns.failed && k < o->group_count; k++) {
        const ea_class *c = o->groups[k].c;
        uint64_t key = ea_load64(c->hash);
        if (ea_u64_map_get(&seen, key) || encoder_is_known(e, c->hash))
            continue;
        if (ea_u64_map_put(&seen, key, 1))
            e->columns.failed = 1;
        b->descriptions[b->n_descriptions++] =
            (ProtobufCBinaryData){.len = c->description_bytes, .data = (uint8_t *)(uintptr_t)c->description};
    }
    ea_u64_map_deinit(&seen);
}

/* Once in a while, until the collector says that it has it. */
static void put_dictionary(ea_encoder *e, Etwagent__V1__Batch *b) {
    if (e->until_dictionary) {
        e->until_dictionary--;
        return;
    }
    b->dictionaries = ea_arena_alloc(&e->arena, sizeof *b->dictionaries);
    if (!b->dictionaries) {
        e->columns.failed = 1;
        return;
    }
    e->until_dictionary = DICTIONARY_EVERY;
    b->n_dictionaries = 1;
    b->dictionaries[0] =
        (ProtobufCBinaryData){.len = e->options.dictionary_bytes, .data = (uint8_t *)(uintptr_t)e->options.dictionary};
}

/* What the agent says of itself. */
static void put_labels(ea_encoder *e, const ea_wire_source *s, Etwagent__V1__Source *m) {
    size_t n = s->labels.count;
    if (s->agent_version)
        m->agent_version = (char *)(uintptr_t)s->agent_version;
    if (!n)
        return;
    Etwagent__V1__Label *rows = ea_arena_alloc(&e->arena, n * sizeof *rows);
    m->labels = ea_arena_alloc(&e->arena, n * sizeof *m->labels);
    if (!rows || !m->labels) {
        e->columns.failed = 1;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        etwagent__v1__label__init(&rows[i]);
        rows[i].name = (char *)(uintptr_t)s->labels.items[i].name;
        rows[i].value = (char *)(uintptr_t)s->labels.items[i].value;
        m->labels[i] = &rows[i];
    }
    m->n_labels = n;
}

static void encoder_put_sources(ea_encoder *e, const ea_open_batch *o, Etwagent__V1__Batch *b) {
    size_t n = o->source_count;
    b->sources = ea_arena_alloc(&e->arena, n * sizeof(void *));
    Etwagent__V1__Source *rows = ea_arena_alloc(&e->arena, n * sizeof *rows);
    Etwagent__V1__ClockPair *pairs = ea_arena_alloc(&e->arena, n * sizeof *pairs);
    Etwagent__V1__ClockPair **lists = ea_arena_alloc(&e->arena, n * sizeof(void *));
    if (!b->sources || !rows || !pairs || !lists) {
        e->columns.failed = 1;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const ea_wire_source *s = &o->sources[i];
        Etwagent__V1__Source *m = b->sources[i] = &rows[i];
        etwagent__v1__source__init(m);
        etwagent__v1__clock_pair__init(&pairs[i]);
        lists[i] = &pairs[i];
        pairs[i].raw = s->clock.base_raw;
        pairs[i].utc_ns = s->clock.base_utc_ns;
        m->name = (char *)(uintptr_t)s->name;
        m->host = (char *)(uintptr_t)s->host;
        m->clock_type = s->clock.type;
        m->frequency = s->clock.frequency;
        m->n_clock_pairs = 1;
        m->clock_pairs = &lists[i];
        m->boot_filetime = s->boot_filetime;
        m->pointer_size = s->pointer_size;
        m->cpu_count = s->cpu_count;
        m->os_version = s->os_version;
        m->os_build = s->os_build;
        m->log_file_mode = s->log_file_mode;
        m->logger = s->logger;
        m->bias_minutes = s->bias_minutes;
        put_labels(e, s, m);
    }
    b->n_sources = n;
}

/* Empties the arena. It has one block that a batch like the largest so far fits into, so that it asks the system for
 * nothing. */
static void reset_arena(ea_encoder *e) {
    size_t used = e->arena.used_bytes, wanted = e->arena_reserved;
    if (wanted < ARENA_BYTES)
        wanted = ARENA_BYTES;
    if (used > wanted)
        wanted = used + used / 4;
    if (wanted != e->arena_reserved) {
        ea_arena_deinit(&e->arena);
        e->arena_reserved = ea_arena_alloc(&e->arena, wanted) ? wanted : 0;
    }
    ea_arena_reset(&e->arena);
}

/* One way to write the batch's events. */
typedef struct layout {
    Etwagent__V1__Batch batch; /* directory and frames */
    ea_shapes shapes;
    int transposed;           /* some payloads were cut into columns */
    const uint8_t *directory; /* before compression */
    size_t directory_bytes;
} layout;

static size_t size_of(const layout *l) {
    size_t n = l->batch.directory.len + l->batch.n_frames * 8;
    for (size_t i = 0; i < l->batch.n_frames; i++)
        n += l->batch.frames[i]->data.len;
    return n;
}

/* At least what reading the batch costs (wire.h, EA_COST_BASE), from what its records have: columns of fields take a
 * row and at most an element a byte, and are decompressed and put together. */
static uint64_t encoder_cost_of(const ea_open_batch *o, const layout *l) {
    enum { COLUMNS = 24, COLUMN_BYTES = 64, TIMES = 6 };

    uint64_t cost = TIMES * (uint64_t)o->content_bytes + l->batch.directory_bytes + l->batch.directory.len +
                    (EA_COST_AN_EVENT + COLUMNS + COLUMN_BYTES) * (uint64_t)o->count;
    for (size_t k = 0; k < o->group_count; k++)
        cost += o->groups[k].count * TIMES * ((uint64_t)o->groups[k].c->top_count + o->groups[k].ext_count);
    return cost;
}

/* Bytes that mean nothing, so that the batch's bytes allow what reading it may cost. What the records of real traces
 * compress to allows many times as much. */
static ProtobufCBinaryData encoder_pay(ea_encoder *e, const ea_open_batch *o, const layout *l) {
    enum { HEAD_BYTES = 24 }; /* limit, of a frame that is already in the batch */

    const ea_direct *direct = &e->columns.direct;
    uint64_t cost = encoder_cost_of(o, l), paid = ea_encoder_is_flat(o) ? 0 : l->batch.directory.len;
    if (direct->len_bytes > HEAD_BYTES * (size_t)direct->count)
        paid += direct->len_bytes - HEAD_BYTES * (size_t)direct->count;
    for (size_t i = 0; i < l->batch.n_frames; i++)
        paid += l->batch.frames[i]->data.len;
    uint64_t due = cost > EA_COST_BASE ? (cost - EA_COST_BASE) / EA_COST_A_BYTE + 1 : 0;
    ProtobufCBinaryData padding = {.len = due > paid ? (size_t)(due - paid) : 0};
    if (padding.len && !(padding.data = ea_arena_zalloc(&e->arena, 1, padding.len)))
        e->columns.failed = 1;
    return padding;
}

/* Grows the buffer of the encoded batch to len_bytes; keeps its content. */
static int reserve_out(ea_encoder *e, size_t len_bytes) {
    if (len_bytes <= e->out_capacity)
        return 0;
    uint8_t *p = realloc(e->out, len_bytes);
    if (!p)
        return EA_ENOMEM;
    e->out = p;
    e->out_capacity = len_bytes;
    return 0;
}

/* Data that are not compressed are written where they are sent from. Room for more than they mostly take. */
static void open_direct(ea_encoder *e, const ea_open_batch *o) {
    if (e->options.zstd_level == EA_ZSTD_NONE && !ea_encoder_is_flat(o) &&
        !reserve_out(e, o->content_bytes + (o->count + (size_t)1) * sizeof *o->events))
        e->columns.direct = (ea_direct){.data = e->out, .capacity = e->out_capacity};
}

static int has_context(const ea_open_batch *o) {
    return ea_encoder_is_flat(o) && o->source_count <= EA_CONTEXT_SOURCES;
}

static int name_shapes(ea_encoder *e, const ea_open_batch *o, const ea_out_group *groups, uint32_t count,
                       ea_shapes *ret) {
    const ea_open_group **list = ea_arena_alloc(&e->arena, count * sizeof(void *));
    for (uint32_t k = 0; list && k < count; k++)
        list[k] = groups[k].from;
    return list ? ea_shapes_make(&e->arena, o, list, count, ret) : EA_ENOMEM;
}

static int encoder_lay_out(ea_encoder *e, const ea_open_batch *o, uint32_t transpose_rows, int is_numbered,
                           int64_t time_min, layout *l) {
    Etwagent__V1__Directory d = ETWAGENT__V1__DIRECTORY__INIT;
    uint32_t group_count = 0;
    *l = (layout){0};
    etwagent__v1__batch__init(&l->batch);
    ea_columns_reset(&e->columns);
    open_direct(e, o);
    ea_out_group *groups = ea_encoder_list_groups(e, o, transpose_rows, &group_count);
    Etwagent__V1__Group *messages = groups ? ea_arena_alloc(&e->arena, group_count * sizeof *messages) : NULL;
    d.groups = groups ? ea_arena_alloc(&e->arena, group_count * sizeof(void *)) : NULL;
    if (!messages || !d.groups)
        return EA_ENOMEM;
    ea_record before = {.logger = (uint16_t)o->sources[0].logger}, header = {0};
    int rc = has_context(o) ? name_shapes(e, o, groups, group_count, &l->shapes) : 0;
    for (uint32_t k = 0; !rc && k < group_count; k++) {
        rc = ea_encoder_put_group(e, o, &groups[k], l->shapes.count != 0, &before, &messages[k], &header);
        before = header;
        d.groups[d.n_groups++] = &messages[k];
        l->transposed |= groups[k].field_count != 0;
    }
    if (!rc)
        ea_encoder_put_events(e, o, is_numbered, time_min, &d);
    if (!rc && ea_encoder_is_flat(o))
        ea_encoder_put_flat(e, o, groups, &d);
    if (!rc && !e->columns.failed)
        encoder_put_frames(e, &d, &l->batch);
    if (!rc && !e->columns.failed)
        put_directory(e, &d, ea_encoder_is_flat(o), l->shapes.count && knows_dictionary(e), &l->batch);
    l->directory = e->last_directory;
    l->directory_bytes = e->last_directory_bytes;
    return rc ? rc : e->columns.failed ? EA_ENOMEM : 0;
}

/* The better of two ways where that costs little: fields of one kind side by side compress better when they are alike,
 * whole payloads when these are. */
static int encoder_choose_layout(ea_encoder *e, const ea_open_batch *o, int is_numbered, int64_t time_min, layout *l) {
    layout other;
    if (!ea_encoder_is_flat(o))
        return encoder_lay_out(e, o, TRANSPOSE_ROWS, is_numbered, time_min, l);
    int rc = encoder_lay_out(e, o, FLAT_TRANSPOSE_ROWS, is_numbered, time_min, l);
    if (rc || !l->transposed)
        return rc;
    rc = encoder_lay_out(e, o, UINT32_MAX, is_numbered, time_min, &other);
    if (!rc && size_of(&other) < size_of(l))
        *l = other;
    return rc;
}

static int encode_ledger(ea_encoder *e, const ea_batch_stamp *stamp, const uint8_t **ret_data, size_t *ret_len_bytes,
                         ea_err *err) {
    Etwagent__V1__Batch b = ETWAGENT__V1__BATCH__INIT;
    b.format = 1;
    b.stream = (ProtobufCBinaryData){.len = EA_STREAM_ID_BYTES, .data = e->options.stream};
    b.number = stamp->number;
    b.priority = stamp->priority;
    b.ledger = stamp->ledger ? ea_ledger_message(&e->arena, stamp) : NULL;
    e->last_directory_bytes = 0;
    size_t n = etwagent__v1__batch__get_packed_size(&b);
    if ((stamp->ledger && !b.ledger) || reserve_out(e, n))
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);
    etwagent__v1__batch__pack(&b, e->out);
    *ret_data = e->out;
    *ret_len_bytes = n;
    return 0;
}

int ea_encoder_encode(ea_encoder *e, const ea_open_batch *o, const ea_batch_stamp *stamp, const uint8_t **ret_data,
                      size_t *ret_len_bytes, ea_err *err) {
    layout l;
    if ((o && o->count == 0) || stamp->number == 0)
        return ea_fail(err, EA_EINVAL, "encode batch %" PRIu64 " without events", stamp->number);
    reset_arena(e);
    if (!o)
        return encode_ledger(e, stamp, ret_data, ret_len_bytes, err);
    int64_t time_min = 0, time_max = 0;
    uint64_t checksum = 0;
    int rc = ea_encoder_reserve(e, o->count);
    if (!rc)
        rc = ea_encoder_sum_up(e, o, &checksum, &time_min, &time_max);
    if ((uint64_t)time_max - (uint64_t)time_min > INT64_MAX)
        time_min = time_max - INT64_MAX; /* clocks beyond reason: the range is cut, the events are not */
    if (!rc)
        rc = encoder_choose_layout(e, o, e->options.is_numbered && stamp->kind == EA_BATCH_EVENTS, time_min, &l);
    if (rc)
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);
    e->last_directory = l.directory;
    e->last_directory_bytes = l.directory_bytes;

    Etwagent__V1__Batch b = l.batch;
    b.format = 1;
    b.stream.data = e->options.stream;
    b.stream.len = EA_STREAM_ID_BYTES;
    b.number = stamp->number;
    b.kind = stamp->kind == EA_BATCH_KEYFRAME ? ETWAGENT__V1__KIND__KIND_KEYFRAME : ETWAGENT__V1__KIND__KIND_EVENTS;
    b.event_count = o->count;
    b.priority = l.shapes.count ? 0 : stamp->priority;
    b.checksum = checksum;
    b.time_min = (int64_t)((uint64_t)time_min - (uint64_t)o->sources[0].clock.base_raw);
    b.time_span = (uint64_t)time_max - (uint64_t)time_min;
    b.padding = encoder_pay(e, o, &l);
    put_descriptions(e, o, &b);
    encoder_put_sources(e, o, &b);
    if (l.shapes.count && !e->columns.failed &&
        ea_context_put(&e->context, &e->arena, &l.shapes, e->dictionary ? ea_load64(e->dictionary_hash) : 0,
                       stamp->priority, e->options.all_descriptions ? NULL : &e->known, &b))
        e->columns.failed = 1;
    if (l.shapes.count && e->dictionary && !e->columns.failed && !knows_dictionary(e))
        put_dictionary(e, &b);
    if (stamp->ledger)
        b.ledger = ea_ledger_message(&e->arena, stamp);
    if (stamp->ledger && !b.ledger)
        e->columns.failed = 1;
    if (e->columns.failed)
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);

    size_t direct = e->columns.direct.len_bytes, n = direct + etwagent__v1__batch__get_packed_size(&b);
    if (n > EA_BATCH_MAX_BYTES)
        return ea_fail(err, EA_ELIMIT, "encode batch %" PRIu64 ": it would take %zu bytes, at most %d are allowed",
                       stamp->number, n, EA_BATCH_MAX_BYTES);
    if (reserve_out(e, n))
        return ea_fail(err, EA_ENOMEM, "encode batch %" PRIu64, stamp->number);
    etwagent__v1__batch__pack(&b, e->out + direct);
    *ret_data = e->out;
    *ret_len_bytes = n;
    return 0;
}
