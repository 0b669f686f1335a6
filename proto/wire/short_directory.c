/* The short form of a directory. See short_directory.h and FORMAT.md, "Short directories". */
#include "proto/wire/short_directory.h"
#include "proto/wire/column.h"
#include "proto/wire/wire.h"

#include <string.h>

typedef Etwagent__V1__Column pb_column;
typedef Etwagent__V1__Group pb_group;

enum {
    FIRST_SEQUENCE = 1 << 6, /* of the flags, after those of the columns that may be absent */
    FLAGS_END = 1 << 7,
    WIDTH_GIVEN = 1 << 6, /* of a column's first byte: encoding, base << 3 */
    IS_LIST = 1 << 7,
    BASE_SHIFT = 3,
    LOW_BITS = 7,
    DEPTH = 8, /* columns inside columns */
    ITEMS = EA_EXT_MAX + 1,
};

/* The columns of all events in the order of their heads. */
enum { REQUIRED_COLUMNS = 6, OPTIONAL_COLUMNS = 6 };

static pb_column **short_directory_column_of(Etwagent__V1__Directory *d, unsigned k) {
    pb_column **columns[REQUIRED_COLUMNS + OPTIONAL_COLUMNS] = {
        &d->group,  &d->time,     &d->cpu,         &d->thread,    &d->thread_pids, &d->thread_tids,
        &d->source, &d->sequence, &d->kernel_time, &d->user_time, &d->activity,    &d->payload};
    return columns[k];
}

/* ---- writing ---- */

typedef struct writer {
    uint8_t *at, *end;
    int failed;
} writer;

static void short_directory_put(writer *w, uint64_t value) {
    if ((size_t)(w->end - w->at) < ea_varint_bytes(value))
        w->failed = 1;
    else
        w->at += ea_varint_put(w->at, &value, 1);
}

static void short_directory_put_bytes(writer *w, const uint8_t *data, size_t len_bytes) {
    if ((size_t)(w->end - w->at) < len_bytes) {
        w->failed = 1;
    } else if (len_bytes) {
        memcpy(w->at, data, len_bytes);
        w->at += len_bytes;
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH bounds it */
static void short_directory_put_column(writer *w, const pb_column *m, unsigned depth) {
    if (!m || m->frame || m->shared || depth == DEPTH) {
        w->failed = 1;
        return;
    }
    int has_bytes = m->lengths || m->encoding == ETWAGENT__V1__ENCODING__ENCODING_VARINT;
    if (m->bytes && !has_bytes)
        w->failed = 1;
    short_directory_put(w, (uint64_t)m->encoding | (uint64_t)m->relative_to << BASE_SHIFT |
                               (m->width ? WIDTH_GIVEN : 0) | (m->lengths ? IS_LIST : 0));
    if (m->width)
        short_directory_put(w, m->width);
    if (m->lengths)
        short_directory_put_column(w, m->lengths, depth + 1);
    if (has_bytes)
        short_directory_put(w, m->bytes);
    switch ((int)m->encoding) {
    case ETWAGENT__V1__ENCODING__ENCODING_CONSTANT:
        short_directory_put(w, m->constant.len);
        short_directory_put_bytes(w, m->constant.data, m->constant.len);
        break;
    case ETWAGENT__V1__ENCODING__ENCODING_PLANES:
    case ETWAGENT__V1__ENCODING__ENCODING_BITS:
        short_directory_put(w, m->planes);
        break;
    case ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY:
        short_directory_put(w, m->planes);
        short_directory_put(w, m->value_count);
        short_directory_put_column(w, m->values, depth + 1);
        break;
    default:
        break;
    }
}

static void put_group(writer *w, const pb_group *g) {
    short_directory_put(w, g->count ? g->count : 1);
    short_directory_put(w, ((uint64_t)g->n_fields * ITEMS + g->n_items) * 2 + (g->payload ? 1 : 0));
    for (size_t i = 0; i < g->n_items; i++)
        short_directory_put_column(w, g->items[i]->data, 0);
    for (size_t i = 0; i < g->n_fields; i++)
        short_directory_put_column(w, g->fields[i], 0);
    if (g->payload)
        short_directory_put_column(w, g->payload, 0);
    if (g->class_hash.len || g->header || g->kernel_time || g->user_time || g->activity)
        w->failed = 1;
    for (size_t i = 0; i < g->n_items; i++)
        if (g->items[i]->type || g->items[i]->linkage)
            w->failed = 1;
}

int ea_short_directory_pack(const Etwagent__V1__Directory *d, uint8_t *out, size_t room_bytes, size_t *ret_bytes) {
    writer w = {.at = out, .end = out + room_bytes};
    Etwagent__V1__Directory copy = *d; /* column_of gives what may be written */
    unsigned flags = d->first_sequence ? FIRST_SEQUENCE : 0;
    if (d->n_dictionaries)
        return 0;
    for (unsigned k = 0; k < OPTIONAL_COLUMNS; k++)
        flags |= (*short_directory_column_of(&copy, REQUIRED_COLUMNS + k) ? 1u : 0u) << k;
    short_directory_put(&w, flags);
    if (flags & FIRST_SEQUENCE)
        short_directory_put(&w, d->first_sequence);
    short_directory_put(&w, d->thread_count);
    short_directory_put(&w, d->n_groups);
    for (unsigned k = 0; k < REQUIRED_COLUMNS + OPTIONAL_COLUMNS; k++)
        if (k < REQUIRED_COLUMNS || flags >> (k - REQUIRED_COLUMNS) & 1)
            short_directory_put_column(&w, *short_directory_column_of(&copy, k), 0);
    for (size_t k = 0; k < d->n_groups; k++)
        put_group(&w, d->groups[k]);
    short_directory_put_bytes(&w, d->pool.data, d->pool.len);
    *ret_bytes = (size_t)(w.at - out);
    return !w.failed;
}

/* ---- reading ---- */

typedef struct reader {
    const uint8_t *at, *end;
    ea_arena *arena;
    const char *broken; /* what is wrong; NULL: nothing so far */
    int no_memory;
} reader;

static void short_directory_broken(reader *r, const char *what) {
    if (!r->broken)
        r->broken = what;
    r->at = r->end;
}

/* A number of at most `most`; 0 once something is broken. */
static uint64_t get(reader *r, uint64_t most) {
    uint64_t value;
    if (!ea_varint_next(&r->at, r->end, &value) && value <= most)
        return value;
    short_directory_broken(r, "a number of a short directory is too large, or after its end");
    return 0;
}

static void *allocate(reader *r, size_t count, size_t size_bytes) {
    void *p = ea_arena_zalloc(r->arena, count ? count : 1, size_bytes);
    if (!p) {
        r->no_memory = 1;
        short_directory_broken(r, ea_arena_error(r->arena) == EA_ENOMEM ? "out of memory"
                                                                        : "it needs more memory than a batch may take");
    }
    return p;
}

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH bounds it */
static pb_column *get_column(reader *r, unsigned depth) {
    if (depth == DEPTH) {
        short_directory_broken(r, "columns nested too deep");
        return NULL;
    }
    pb_column *m = allocate(r, 1, sizeof *m);
    if (!m)
        return NULL;
    etwagent__v1__column__init(m);
    uint64_t size;
    unsigned head = (unsigned)get(r, UINT8_MAX);
    m->encoding = (Etwagent__V1__Encoding)(head & LOW_BITS);
    m->relative_to = (Etwagent__V1__Base)(head >> BASE_SHIFT & LOW_BITS);
    if (head & WIDTH_GIVEN)
        m->width = (uint32_t)get(r, UINT32_MAX);
    if (head & IS_LIST)
        m->lengths = get_column(r, depth + 1);
    if (m->lengths || m->encoding == ETWAGENT__V1__ENCODING__ENCODING_VARINT)
        m->bytes = get(r, EA_BATCH_MAX_RAW_BYTES);
    switch ((int)m->encoding) {
    case ETWAGENT__V1__ENCODING__ENCODING_CONSTANT:
        size = get(r, UINT64_MAX);
        if (size > (uint64_t)(r->end - r->at)) {
            short_directory_broken(r, "a short directory ends inside a constant");
            break;
        }
        m->constant = (ProtobufCBinaryData){.len = (size_t)size, .data = (uint8_t *)(uintptr_t)r->at};
        r->at += size;
        break;
    case ETWAGENT__V1__ENCODING__ENCODING_PLANES:
    case ETWAGENT__V1__ENCODING__ENCODING_BITS:
        m->planes = (uint32_t)get(r, UINT32_MAX);
        break;
    case ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY:
        m->planes = (uint32_t)get(r, UINT32_MAX);
        m->value_count = (uint32_t)get(r, UINT32_MAX);
        m->values = get_column(r, depth + 1);
        break;
    default: /* the reader of columns refuses an unknown value */
        break;
    }
    return m;
}

static pb_group *get_group(reader *r) {
    pb_group *g = allocate(r, 1, sizeof *g);
    if (!g)
        return NULL;
    etwagent__v1__group__init(g);
    g->count = (uint32_t)get(r, EA_BATCH_MAX_EVENTS);
    uint64_t parts = get(r, (uint64_t)2 * ITEMS * (EA_FIELDS_MAX + 1) - 1);
    if (!g->count)
        short_directory_broken(r, "a group without events");
    g->n_items = (size_t)(parts / 2 % ITEMS);
    g->n_fields = (size_t)(parts / 2 / ITEMS);
    g->items = allocate(r, g->n_items, sizeof *g->items);
    g->fields = allocate(r, g->n_fields, sizeof *g->fields);
    Etwagent__V1__Item *items = allocate(r, g->n_items, sizeof *items);
    if (!g->items || !g->fields || !items)
        return NULL;
    for (size_t i = 0; !r->broken && i < g->n_items; i++) {
        etwagent__v1__item__init(&items[i]);
        items[i].data = get_column(r, 0);
        g->items[i] = &items[i];
    }
    for (size_t i = 0; !r->broken && i < g->n_fields; i++)
        g->fields[i] = get_column(r, 0);
    if (parts & 1)
        g->payload = get_column(r, 0);
    return g;
}

int ea_short_directory_unpack(const uint8_t *data, size_t len_bytes, ea_arena *arena, Etwagent__V1__Directory **ret,
                              ea_err *err) {
    reader r = {.at = data, .end = data + len_bytes, .arena = arena};
    Etwagent__V1__Directory *d = allocate(&r, 1, sizeof *d);
    if (d) {
        etwagent__v1__directory__init(d);
        unsigned flags = (unsigned)get(&r, FLAGS_END - 1);
        if (flags & FIRST_SEQUENCE)
            d->first_sequence = get(&r, UINT64_MAX);
        d->thread_count = (uint32_t)get(&r, EA_BATCH_MAX_EVENTS);
        d->n_groups = (size_t)get(&r, EA_BATCH_MAX_GROUPS);
        for (unsigned k = 0; !r.broken && k < REQUIRED_COLUMNS + OPTIONAL_COLUMNS; k++)
            if (k < REQUIRED_COLUMNS || flags >> (k - REQUIRED_COLUMNS) & 1)
                *short_directory_column_of(d, k) = get_column(&r, 0);
        d->groups = allocate(&r, d->n_groups, sizeof *d->groups);
        for (size_t k = 0; !r.broken && k < d->n_groups; k++)
            d->groups[k] = get_group(&r);
        d->pool = (ProtobufCBinaryData){.len = (size_t)(r.end - r.at), .data = (uint8_t *)(uintptr_t)r.at};
    }
    if (r.broken)
        return ea_fail(err, r.no_memory ? ea_arena_error(arena) : EA_ECORRUPT, "read a batch's directory: %s",
                       r.broken);
    *ret = d;
    return 0;
}

/* ---- its frame ---- */

enum {
    FRAME_DESCRIPTOR = 0xA0, /* one segment, a size of 4 bytes, no dictionary's id, no checksum */
    SINGLE_SEGMENT = 0x20,
    NOT_PLAIN = 0x1F,             /* of a descriptor: checksum, dictionary's id, what is reserved */
    LAST_COMPRESSED = 1 | 2 << 1, /* of a block's head; the block's size follows these 3 bits */
    BLOCK_SIZE_SHIFT = 3,
    BLOCK_HEAD_BYTES = 3,
    MAGIC_BYTES = 4,
};

#define MAGIC 0xFD2FB528u

void ea_short_directory_frame(size_t raw_bytes, const uint8_t *block, size_t len_bytes, uint8_t *out) {
    uint32_t head = LAST_COMPRESSED | (uint32_t)len_bytes << BLOCK_SIZE_SHIFT;
    ea_store32(out, MAGIC);
    out[MAGIC_BYTES] = FRAME_DESCRIPTOR;
    ea_store32(out + MAGIC_BYTES + 1, (uint32_t)raw_bytes);
    for (unsigned i = 0; i < BLOCK_HEAD_BYTES; i++)
        out[MAGIC_BYTES + 1 + 4 + i] = (uint8_t)(head >> 8 * i);
    if (len_bytes)
        memcpy(out + EA_ZSTD_HEAD_BYTES, block, len_bytes);
}

size_t ea_short_directory_block(const uint8_t *frame, size_t len_bytes) {
    static const uint8_t size_bytes[] = {1, 2, 4, 8};
    if (len_bytes < MAGIC_BYTES + 1 || !(frame[MAGIC_BYTES] & SINGLE_SEGMENT) || frame[MAGIC_BYTES] & NOT_PLAIN)
        return 0;
    size_t head = MAGIC_BYTES + 1 + size_bytes[frame[MAGIC_BYTES] >> 6], block = head + BLOCK_HEAD_BYTES;
    if (len_bytes <= block)
        return 0;
    uint32_t word = frame[head] | (uint32_t)frame[head + 1] << 8 | (uint32_t)frame[head + 2] << 16;
    return word == (LAST_COMPRESSED | (uint32_t)(len_bytes - block) << BLOCK_SIZE_SHIFT) ? block : 0;
}
