/* See batch_columns.h. This file computes the size of column data independently of the reader (FORMAT.md, "Columns").
 * When a frame is too short, it takes the bytes that the frame has. */
#include "tests/fuzz/batch_columns.h"

#include "proto/wire/column.h"
#include "proto/wire/definitions.h"
#include "proto/wire/short_directory.h"
#include "proto/wire/unpack.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

typedef Etwagent__V1__Column pb_column;
typedef Etwagent__V1__Group pb_group;
typedef Etwagent__V1__Directory pb_directory;
typedef Etwagent__V1__Batch pb_batch;

enum {
    SLOTS = 4096,             /* columns of a batch */
    FRAMES = 64,              /* of a batch, with the pool */
    NUMBERS_MAX = 1 << 16,    /* rows of a column that is stored anew */
    RAW_BYTES_MAX = 80 << 20, /* decompressed; more than a batch may have */
    DEPTH = 14,               /* of messages inside messages */
    MANY_EVENTS = EA_BATCH_MAX_EVENTS,
    PAYLOAD_LIMIT = UINT16_MAX,
    PERCENT = 100,
};

/* The location of a column. */
typedef struct slot {
    pb_column **at;
    uint32_t rows, width; /* that its place implies; width 0: any */
    int inside;           /* `bytes` says how large it is */
    int is_lengths, in_dictionary;
} slot;

/* The data of a column. */
typedef struct piece {
    const pb_column *m;
    const uint8_t *data;
    size_t len_bytes;
} piece;

typedef struct frame {
    const uint8_t *data;
    size_t len_bytes, used_bytes;
    ea_text out;
} frame;

typedef struct draft {
    ea_arena arena;
    ProtobufCAllocator allocator;
    pb_batch *batch;
    pb_directory *d;
    slot slots[SLOTS];
    size_t slot_count;
    piece pieces[2 * SLOTS];
    size_t piece_count;
    frame frames[FRAMES];
    size_t frame_count;

    enum { TAKE, LIST, PLACE } pass; /* columns' data comes out of frames; stays where it is; goes into frames */

    int failed;
    int depth; /* of numbers inside numbers */
    unsigned *random;
    jmp_buf give_up;
} draft;

static unsigned below(draft *t, unsigned n) {
    return batch_random(t->random) % n;
}

static int percent(draft *t, unsigned chance) {
    return below(t, PERCENT) < chance;
}

static void *allocate(void *arg, size_t bytes) {
    return ea_arena_alloc(arg, bytes);
}

static void release(void *arg, void *p) {
    (void)arg;
    (void)p;
}

/* Returns zeroed memory. When no memory is left, the change is abandoned: control returns to the caller of the setjmp
 * in `changed`. */
static void *room(draft *t, size_t count, size_t bytes) {
    void *p = ea_arena_zalloc(&t->arena, count ? count : 1, bytes);
    if (!p)
        longjmp(t->give_up, 1);
    return p;
}

static pb_column *new_column(draft *t, Etwagent__V1__Encoding encoding, uint32_t width) {
    pb_column *m = room(t, 1, sizeof *m);
    etwagent__v1__column__init(m);
    m->encoding = encoding;
    m->width = width;
    return m;
}

/* ---- locations of columns ---- */

static void keep(draft *t, const pb_column *m, const uint8_t *data, size_t len_bytes) {
    if (t->piece_count == sizeof t->pieces / sizeof *t->pieces)
        t->failed = 1;
    else
        t->pieces[t->piece_count++] = (piece){m, data, len_bytes};
}

/* The newest, so that a column's data can be replaced. */
static piece data_of(const draft *t, const pb_column *m) {
    for (size_t i = t->piece_count; i--;)
        if (t->pieces[i].m == m)
            return t->pieces[i];
    return (piece){.m = m};
}

static uint32_t value_count(const draft *t, const pb_column *m) {
    if (!m->shared)
        return m->value_count;
    return m->shared <= t->d->n_dictionaries ? t->d->dictionaries[m->shared - 1]->count : 0;
}

static uint32_t width_of(const pb_column *m, uint32_t implied) {
    return m->width ? m->width : m->lengths && !implied ? 1 : implied;
}

static uint64_t size_of(const draft *t, const pb_column *m, uint64_t n, uint32_t width) {
    uint32_t values;
    switch ((int)m->encoding) {
    case ETWAGENT__V1__ENCODING__ENCODING_PLAIN:
        return n * width;
    case ETWAGENT__V1__ENCODING__ENCODING_PLANES:
        return n * (m->planes ? m->planes : width);
    case ETWAGENT__V1__ENCODING__ENCODING_BITS:
        return (n * m->planes + 7) / 8;
    case ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY:
        values = value_count(t, m);
        return m->planes ? (n * m->planes + 7) / 8 : values > 1 ? n * ea_bytes_of(values - 1) : 0;
    default:
        return 0;
    }
}

static void place(draft *t, pb_column *m, int nested) {
    piece p = data_of(t, m);
    if (m->frame >= t->frame_count)
        return;
    ea_text_add(&t->frames[m->frame].out, p.data, p.len_bytes);
    m->bytes = nested || m->encoding == ETWAGENT__V1__ENCODING__ENCODING_VARINT ? p.len_bytes : 0;
}

static void take(draft *t, const pb_column *m, const slot *s, int nested) {
    if (m->frame >= t->frame_count)
        return;
    frame *f = &t->frames[m->frame];
    uint64_t n = nested || m->encoding == ETWAGENT__V1__ENCODING__ENCODING_VARINT
                     ? m->bytes
                     : size_of(t, m, s->rows, width_of(m, s->width));
    if (n > f->len_bytes - f->used_bytes)
        n = f->len_bytes - f->used_bytes;
    if (n)
        keep(t, m, f->data + f->used_bytes, (size_t)n);
    f->used_bytes += (size_t)n;
}

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH bounds it */
static void visit(draft *t, pb_column **at, slot s, int depth) {
    pb_column *m = *at;
    if (!m)
        return;
    if (t->slot_count == SLOTS || depth > DEPTH) {
        t->failed = 1;
        return;
    }
    s.at = at;
    t->slots[t->slot_count++] = s;
    int nested = s.inside || m->lengths;
    if (m->lengths)
        visit(t, &m->lengths,
              (slot){.rows = s.rows, .width = 4, .inside = s.inside, .is_lengths = 1, .in_dictionary = s.in_dictionary},
              depth + 1);
    if (m->encoding == ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY && !m->shared)
        visit(t, &m->values, (slot){.rows = m->value_count, .width = width_of(m, s.width), .in_dictionary = 1},
              depth + 1);
    if (t->pass == TAKE)
        take(t, m, &s, nested);
    if (t->pass == PLACE)
        place(t, m, nested);
}

static uint32_t events_of(const pb_group *g) {
    return g->count ? g->count : 1;
}

/* Visits all columns, in the order of their data in the frames. */
static void visit_all(draft *t) {
    pb_directory *d = t->d;
    uint32_t n = t->batch->event_count, whole = 0;
    t->slot_count = 0;
    for (size_t k = 0; k < d->n_groups; k++) {
        pb_group *g = d->groups[k];
        slot s = {.rows = events_of(g)}, four = {.rows = s.rows, .width = 4}, sixteen = {.rows = s.rows, .width = 16};
        for (size_t i = 0; i < g->n_items; i++)
            visit(t, &g->items[i]->data, s, 0);
        visit(t, &g->kernel_time, four, 0);
        visit(t, &g->user_time, four, 0);
        visit(t, &g->activity, sixteen, 0);
        for (size_t i = 0; i < g->n_fields; i++)
            visit(t, &g->fields[i], s, 0);
        visit(t, &g->payload, s, 0);
        whole += g->n_fields || g->payload ? 0 : s.rows;
    }

    const struct {
        pb_column **at;
        slot s;
    } columns[] = {
        {&d->group, {.rows = n, .width = 4}},
        {&d->time, {.rows = n, .width = 8}},
        {&d->cpu, {.rows = n, .width = 2}},
        {&d->thread, {.rows = n, .width = 4}},
        {&d->source, {.rows = n, .width = 2}},
        {&d->sequence, {.rows = n, .width = 8}},
        {&d->thread_pids, {.rows = d->thread_count, .width = 4}},
        {&d->thread_tids, {.rows = d->thread_count, .width = 4}},
        {&d->kernel_time, {.rows = n, .width = 4}},
        {&d->user_time, {.rows = n, .width = 4}},
        {&d->activity, {.rows = n, .width = 16}},
        {&d->payload, {.rows = whole}},
    };

    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        visit(t, columns[i].at, columns[i].s, 0);
    for (size_t i = 0; i < d->n_dictionaries; i++)
        visit(t, &d->dictionaries[i]->values, (slot){.rows = d->dictionaries[i]->count, .in_dictionary = 1}, 0);
}

/* ---- numbers ---- */

static void rebase(const pb_column *m, uint64_t *v, uint32_t n, uint32_t width) {
    uint64_t last = 0, mask = width < 8 ? ((uint64_t)1 << 8 * width) - 1 : UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        if (m->relative_to == ETWAGENT__V1__BASE__BASE_PREVIOUS)
            v[i] = last += (v[i] >> 1) ^ (0 - (v[i] & 1));
        v[i] &= mask;
    }
}

static uint64_t bits_at(const piece *p, uint64_t at, unsigned bits) {
    uint64_t v = 0;
    for (unsigned k = 0; k < bits && (at + k) / 8 < p->len_bytes; k++)
        v |= (uint64_t)(p->data[(at + k) / 8] >> (at + k) % 8 & 1) << k;
    return v;
}

static uint64_t plane_at(const piece *p, uint32_t n, uint32_t i, unsigned planes) {
    uint64_t v = 0;
    for (unsigned k = 0; k < planes && k < 8 && (size_t)k * n + i < p->len_bytes; k++)
        v |= (uint64_t)p->data[(size_t)k * n + i] << 8 * k;
    return v;
}

static uint64_t *numbers(draft *t, const pb_column *m, uint32_t n, uint32_t implied);

/* NOLINTNEXTLINE(misc-no-recursion): DEPTH bounds it */
static uint64_t *numbers_of(draft *t, const pb_column *m, uint32_t n, uint32_t implied) {
    uint32_t width = width_of(m, implied), values = value_count(t, m);
    piece p = data_of(t, m);
    if (m->encoding == ETWAGENT__V1__ENCODING__ENCODING_CONSTANT && !width)
        width = (uint32_t)(m->constant.len ? m->constant.len : 1);
    if (n > NUMBERS_MAX || ((!width || width > 8) && m->encoding != ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY))
        return NULL;
    uint64_t *v = room(t, n, sizeof *v), *from = NULL;
    size_t at = 0;
    switch ((int)m->encoding) {
    case ETWAGENT__V1__ENCODING__ENCODING_CONSTANT:
        for (uint32_t i = 0; i < n; i++)
            for (size_t k = 0; k < m->constant.len && k < 8; k++)
                v[i] |= (uint64_t)m->constant.data[k] << 8 * k;
        break;
    case ETWAGENT__V1__ENCODING__ENCODING_PLAIN:
        for (uint32_t i = 0; i < n; i++)
            v[i] = bits_at(&p, (uint64_t)i * width * 8, 8 * width);
        break;
    case ETWAGENT__V1__ENCODING__ENCODING_PLANES:
        for (uint32_t i = 0; i < n; i++)
            v[i] = plane_at(&p, n, i, m->planes ? m->planes : width);
        break;
    case ETWAGENT__V1__ENCODING__ENCODING_BITS:
        for (uint32_t i = 0; i < n; i++)
            v[i] = bits_at(&p, (uint64_t)i * m->planes, m->planes < 64 ? m->planes : 64);
        break;
    case ETWAGENT__V1__ENCODING__ENCODING_VARINT:
        for (uint32_t i = 0; i < n; i++) {
            unsigned shift = 0;
            for (; at < p.len_bytes && p.data[at] & 0x80; at++, shift += shift < 56 ? 7 : 0)
                v[i] |= (uint64_t)(p.data[at] & 0x7f) << shift;
            v[i] |= at < p.len_bytes ? (uint64_t)p.data[at++] << shift : 0;
        }
        break;
    case ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY:
        if (m->shared && m->shared <= t->d->n_dictionaries && t->d->dictionaries[m->shared - 1]->values)
            from = numbers(t, t->d->dictionaries[m->shared - 1]->values, values, 0);
        else if (!m->shared && m->values)
            from = numbers(t, m->values, values, width);
        for (uint32_t i = 0; from && i < n; i++) {
            uint64_t k = m->planes ? bits_at(&p, (uint64_t)i * m->planes, m->planes < 32 ? m->planes : 32)
                                   : plane_at(&p, n, i, values > 1 ? ea_bytes_of(values - 1) : 0);
            v[i] = k < values ? from[k] : 0;
        }
        return from ? v : NULL;
    default:
        return NULL;
    }
    rebase(m, v, n, width);
    return v;
}

/* The elements of a column as numbers, or NULL. Differences from what an event has stay as they are. A shared
 * dictionary may name itself here. */
/* NOLINTNEXTLINE(misc-no-recursion): DEPTH bounds it */
static uint64_t *numbers(draft *t, const pb_column *m, uint32_t n, uint32_t implied) {
    if (t->depth == DEPTH)
        return NULL;
    t->depth++;
    uint64_t *v = numbers_of(t, m, n, implied);
    t->depth--;
    return v;
}

static void set_data(draft *t, const pb_column *m, const uint64_t *v, uint32_t n, unsigned unit, int in_bits) {
    size_t bytes = in_bits ? ((size_t)n * unit + 7) / 8 : (size_t)n * unit;
    uint8_t *out = room(t, bytes, 1);
    for (uint32_t i = 0; i < n; i++)
        for (unsigned k = 0; k < unit; k++)
            if (in_bits && k < 64)
                out[((size_t)i * unit + k) / 8] |= (uint8_t)((v[i] >> k & 1) << ((size_t)i * unit + k) % 8);
            else if (!in_bits && m->encoding == ETWAGENT__V1__ENCODING__ENCODING_PLAIN)
                out[(size_t)i * unit + k] = k < 8 ? (uint8_t)(v[i] >> 8 * k) : 0;
            else if (!in_bits)
                out[(size_t)k * n + i] = k < 8 ? (uint8_t)(v[i] >> 8 * k) : 0;
    keep(t, m, out, bytes);
}

static void set_varints(draft *t, const pb_column *m, const uint64_t *v, uint32_t n) {
    uint8_t *out = room(t, n, 10);
    size_t at = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t x = v[i];
        for (; x >= 0x80; x >>= 7)
            out[at++] = (uint8_t)(x | 0x80);
        out[at++] = (uint8_t)x;
    }
    keep(t, m, out, at);
}

static uint32_t any_width(draft *t, uint32_t width) {
    static const uint32_t WIDTHS[] = {1, 2, 3, 4, 5, 8, 8, 16, 0};
    return percent(t, 50) ? width : WIDTHS[below(t, sizeof WIDTHS / sizeof *WIDTHS)];
}

/* Distinct numbers as values, in a dictionary of its own or a shared one, and indexes into them. */
static pb_column *as_dictionary(draft *t, const uint64_t *v, uint32_t n, uint32_t width, uint32_t said, int shared) {
    pb_column *m = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY, said);
    pb_column *values = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_PLAIN, width);
    uint64_t *distinct = room(t, n + 1, sizeof *v), *index = room(t, n + 1, sizeof *v), count = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t k = 0;
        while (k < count && distinct[k] != v[i])
            k++;
        if (k == count)
            distinct[count++] = v[i];
        index[i] = k;
        if (count > 4096) /* what follows takes too long */
            return NULL;
    }
    uint32_t stored = shared ? any_width(t, width) : width;
    values->width = stored;
    if (!stored) { /* only its rows know: a constant */
        values->encoding = ETWAGENT__V1__ENCODING__ENCODING_CONSTANT;
        values->constant = (ProtobufCBinaryData){.len = width, .data = room(t, 1, width + 8)};
        memcpy(values->constant.data, distinct, sizeof *distinct);
    } else {
        set_data(t, values, distinct, (uint32_t)count, stored, 0);
    }
    if (shared) {
        pb_directory *d = t->d;
        Etwagent__V1__Dictionary *one = room(t, 1, sizeof *one);
        Etwagent__V1__Dictionary **list = room(t, d->n_dictionaries + 1, sizeof *list);
        etwagent__v1__dictionary__init(one);
        one->count = (uint32_t)count;
        one->values = values;
        if (d->n_dictionaries)
            memcpy(list, d->dictionaries, d->n_dictionaries * sizeof *list);
        list[d->n_dictionaries++] = one;
        d->dictionaries = list;
        m->shared = (uint32_t)d->n_dictionaries;
    } else {
        m->value_count = (uint32_t)count;
        m->values = values;
    }
    unsigned bits = 1;
    while (count >> bits && bits < 32)
        bits++;
    if (count > 1 && percent(t, 50)) {
        m->planes = bits;
        set_data(t, m, index, n, bits, 1);
    } else if (count > 1) {
        set_data(t, m, index, n, ea_bytes_of(count - 1), 0);
    }
    return m;
}

static void disturb(draft *t, uint64_t *v, uint32_t n, uint32_t width) {
    static const uint64_t DELTAS[] = {1, 2, 5, 255, 4096, (1u << 18), 200000000, UINT32_MAX, 1ull << 32, 1ull << 63};
    uint64_t by = DELTAS[below(t, sizeof DELTAS / sizeof *DELTAS)];
    uint64_t mask = width && width < 8 ? ((uint64_t)1 << 8 * width) - 1 : UINT64_MAX;
    uint32_t a = n ? below(t, n) : 0, b = n ? below(t, n) : 0;
    if (!n || percent(t, 60))
        return;
    v[a] = (v[a] + by) & mask;
    if (percent(t, 75)) /* their sum stays the same, modulo the width */
        v[b] = (v[b] - by) & mask;
}

/* The same numbers in another encoding, or nearly so. */
static void store_anew(draft *t, const slot *s) {
    pb_column *m = *s->at, *made = NULL;
    uint32_t n = s->rows, width = width_of(m, s->width);
    if (m->lengths) { /* its elements */
        uint64_t total = 0, *lengths = numbers(t, m->lengths, s->rows, 4);
        for (uint32_t i = 0; lengths && i < s->rows; i++)
            total = total > NUMBERS_MAX ? total : total + lengths[i];
        if (!lengths || total > NUMBERS_MAX)
            return;
        n = (uint32_t)total;
    }
    uint64_t *v = numbers(t, m, n, s->width);
    if (!width)
        width = m->constant.len ? (uint32_t)m->constant.len : 1;
    if (!v || width > 16)
        return;
    unsigned kind = s->is_lengths && percent(t, 40) ? 6 : below(t, 7);
    if (kind == 6 && percent(t, 50)) /* what the width of the place does not hold, a shared dictionary may */
        disturb(t, v, n, 8);
    else
        disturb(t, v, n, width);
    uint32_t said = s->width && !m->lengths && percent(t, 80) ? 0 : width;
    uint64_t largest = 0, *stored = room(t, n, sizeof *v), last = 0;
    int relative = kind < 4 && kind && percent(t, 30);
    for (uint32_t i = 0; i < n; i++) {
        int64_t step = (int64_t)(v[i] - last);
        stored[i] = relative ? (uint64_t)step << 1 ^ (uint64_t)(step >> 63) : v[i];
        last = v[i];
        largest = stored[i] > largest ? stored[i] : largest;
    }
    unsigned bits = 1;
    while (bits < 64 && largest >> bits)
        bits++;
    switch (kind) {
    case 0:
        made = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_PLAIN, said);
        set_data(t, made, v, n, width, 0);
        break;
    case 1:
        made = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_PLANES, said);
        made->planes = (bits + 7) / 8;
        set_data(t, made, stored, n, made->planes, 0);
        break;
    case 2:
        made = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_VARINT, said);
        set_varints(t, made, stored, n);
        break;
    case 3:
        made = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_BITS, said);
        made->planes = bits;
        set_data(t, made, stored, n, bits, 1);
        break;
    case 4:
        made = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_CONSTANT, said);
        made->constant = (ProtobufCBinaryData){.len = width < 8 ? width : 8, .data = room(t, 1, 8)};
        if (n)
            memcpy(made->constant.data, v, made->constant.len);
        break;
    default:
        made = as_dictionary(t, v, n, width, said, kind == 6);
        break;
    }
    if (!made)
        return;
    if (relative)
        made->relative_to = ETWAGENT__V1__BASE__BASE_PREVIOUS;
    made->lengths = m->lengths;
    made->frame = m->frame;
    *s->at = made;
}

/* ---- other changes ---- */

static void set_constant(draft *t, pb_column *m, size_t bytes, uint8_t fill) {
    m->constant = (ProtobufCBinaryData){.len = bytes, .data = room(t, bytes, 1)};
    memset(m->constant.data, fill, bytes);
}

static size_t any_size(draft *t) {
    static const size_t SIZES[] = {0, 1, 2, 4, 8, 16, 255, 4096, PAYLOAD_LIMIT, PAYLOAD_LIMIT + 1, 1 << 20, 60 << 20};
    return SIZES[below(t, percent(t, 80) ? 9 : 12)];
}

static void enlarge(draft *t, const slot *s) {
    pb_column *m = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_CONSTANT, 0);
    set_constant(t, m, any_size(t), (uint8_t)below(t, 256));
    if (percent(t, 20)) {
        m->lengths = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_CONSTANT, 0);
        set_constant(t, m->lengths, 1 + below(t, 4), (uint8_t)below(t, 4));
    }
    *s->at = m;
}

static void to_list(draft *t, const slot *s) {
    pb_column *m = *s->at, *lengths = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_CONSTANT, 0);
    if (m->lengths) {
        m->lengths = percent(t, 50) ? NULL : m->lengths;
        return;
    }
    set_constant(t, lengths, 1, 1);
    pb_column *made = room(t, 1, sizeof *made);
    *made = *m;
    made->lengths = lengths;
    piece p = data_of(t, m);
    keep(t, made, p.data, p.len_bytes);
    *s->at = made;
}

static void move_frame(draft *t, const slot *s) {
    pb_column *m = *s->at;
    if (t->frame_count < FRAMES && percent(t, 40)) {
        frame *f = &t->frames[t->frame_count++];
        *f = (frame){.data = NULL};
        ea_text_init(&f->out);
    }
    m->frame = below(t, (unsigned)t->frame_count + (percent(t, 5) ? 1 : 0));
}

/* Any other number of events in one group, all alike. */
static void flatten(draft *t) {
    static const uint32_t COUNTS[] = {1, 2, 3, 7, 20, 100, 400, 1000, MANY_EVENTS, MANY_EVENTS + 1};
    pb_directory *d = t->d;
    uint32_t n = COUNTS[below(t, sizeof COUNTS / sizeof *COUNTS)];
    if (!d->n_groups)
        return;
    d->groups[0] = d->groups[below(t, (unsigned)d->n_groups)];
    if (t->batch->context.len > EA_NAME_BYTES)
        t->batch->context.len = EA_NAME_BYTES + 1;
    d->n_groups = d->thread_count = 1;
    d->groups[0]->count = t->batch->event_count = n;
    d->n_dictionaries = 0;
    visit_all(t);
    for (size_t i = 0; i < t->slot_count; i++) {
        const slot *s = &t->slots[i];
        pb_column *m = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_CONSTANT, 0);
        if (!s->width)
            set_constant(t, m, percent(t, 25) ? any_size(t) : below(t, 9), 'f');
        if (s->at == &d->time || percent(t, 30)) {
            m->relative_to = s->width && s->width <= 8 ? ETWAGENT__V1__BASE__BASE_PREVIOUS : 0;
            m->width = 0;
        }
        if (!s->inside && !s->is_lengths && !s->in_dictionary)
            *s->at = m;
    }
}

static void change_groups(draft *t) {
    pb_directory *d = t->d;
    if (!d->n_groups)
        return;
    pb_group *g = d->groups[below(t, (unsigned)d->n_groups)], *other = d->groups[below(t, (unsigned)d->n_groups)];
    Etwagent__V1__Item *item = room(t, 1, sizeof *item);
    switch (below(t, 7)) {
    case 0: /* one more item, a constant */
        etwagent__v1__item__init(item);
        item->type = t->batch->context.len ? 0 : below(t, 12);
        item->data = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_CONSTANT, 0);
        set_constant(t, item->data, below(t, 40), 'i');
        Etwagent__V1__Item **items = room(t, g->n_items + 1, sizeof(void *));
        if (g->n_items)
            memcpy(items, g->items, g->n_items * sizeof *items);
        items[g->n_items++] = item;
        g->items = items;
        break;
    case 1:
        g->n_items -= g->n_items ? 1 : 0;
        break;
    case 2: /* the last field into the payload's place */
        if (g->n_fields)
            g->payload = g->fields[--g->n_fields];
        break;
    case 3:
        g->n_fields = 0;
        g->payload = NULL;
        d->payload = new_column(t, ETWAGENT__V1__ENCODING__ENCODING_CONSTANT, 0);
        set_constant(t, d->payload, below(t, 64), 'p');
        break;
    case 4:
        g->activity = percent(t, 50) ? NULL : other->activity;
        g->payload = percent(t, 50) ? g->payload : other->payload;
        break;
    case 5: /* counts in step */
        if (g != other && events_of(g) > 1) {
            g->count = events_of(g) - 1;
            other->count = events_of(other) + 1;
        }
        break;
    default:
        d->activity = percent(t, 50) ? NULL : g->activity;
        break;
    }
}

static ProtobufCBinaryData packed(draft *t, const ProtobufCMessage *m) {
    ProtobufCBinaryData out = {.len = protobuf_c_message_get_packed_size(m)};
    out.data = room(t, out.len, 1);
    protobuf_c_message_pack(m, out.data);
    return out;
}

static void put_name(uint8_t *out, ProtobufCBinaryData definition) {
    uint8_t hash[EA_CLASS_HASH_BYTES];
    ea_err err;
    if (ea_definition_hash(definition.data, definition.len, hash, &err))
        abort();
    memcpy(out, hash, EA_NAME_BYTES);
}

/* Groups get shapes, and the batch a context with them and its sources. */
static void to_context(draft *t) {
    pb_batch *b = t->batch;
    pb_directory *d = t->d;
    if (b->context.len || !d->n_groups || d->n_groups > EA_SHAPES_MAX || !b->n_sources || b->n_sources > 64)
        return;
    Etwagent__V1__Context *c = room(t, 1, sizeof *c);
    etwagent__v1__context__init(c);
    c->priority = b->priority;
    c->sources = (ProtobufCBinaryData){.len = b->n_sources * EA_NAME_BYTES, .data = room(t, b->n_sources, 8)};
    c->shapes = (ProtobufCBinaryData){.len = d->n_groups * EA_NAME_BYTES, .data = room(t, d->n_groups, 8)};
    b->shapes = room(t, d->n_groups, sizeof *b->shapes);
    b->n_shapes = d->n_groups;
    b->context = (ProtobufCBinaryData){.len = EA_NAME_BYTES, .data = room(t, d->n_groups, 2 + EA_NAME_BYTES)};
    for (size_t i = 0; i < b->n_sources; i++)
        put_name(c->sources.data + i * EA_NAME_BYTES, packed(t, &b->sources[i]->base));
    for (size_t k = 0; k < d->n_groups; k++) {
        pb_group *g = d->groups[k];
        Etwagent__V1__Shape shape = ETWAGENT__V1__SHAPE__INIT;
        shape.class_hash = g->class_hash;
        shape.header = g->header;
        shape.n_items = g->n_items;
        shape.items = room(t, g->n_items, sizeof(void *));
        size_t own = 0;
        for (size_t i = 0; i < g->n_items; i++) {
            Etwagent__V1__Item *said = room(t, 1, sizeof *said);
            *said = *g->items[i];
            int is_constant = said->data && said->data->encoding == ETWAGENT__V1__ENCODING__ENCODING_CONSTANT &&
                              !said->data->lengths && !said->data->width && !said->data->relative_to;
            said->data = is_constant ? said->data : NULL;
            shape.items[i] = said;
            g->items[i]->type = g->items[i]->linkage = 0;
            if (!is_constant)
                g->items[own++] = g->items[i];
        }
        g->n_items = own;
        b->shapes[k] = packed(t, &shape.base);
        g->class_hash = (ProtobufCBinaryData){0};
        g->header = NULL;
        put_name(c->shapes.data + k * EA_NAME_BYTES, b->shapes[k]);
        size_t index = k; /* a varint of two bytes at most */
        if (index >= 0x80)
            b->context.data[b->context.len++] = (uint8_t)(index | 0x80);
        b->context.data[b->context.len++] = (uint8_t)(index >= 0x80 ? index >> 7 : index);
    }
    b->contexts = room(t, 1, sizeof *b->contexts);
    b->n_contexts = 1;
    b->contexts[0] = packed(t, &c->base);
    put_name(b->context.data, b->contexts[0]);
}

/* A column other than m that has none inside; NULL: it is another one this time. */
static pb_column *leaf(draft *t, const pb_column *m) {
    pb_column *found = *t->slots[below(t, (unsigned)t->slot_count)].at;
    return found && found != m && !found->lengths && !found->values ? found : NULL;
}

static void tweak(draft *t, const slot *s) {
    static const uint32_t NUMBERS[] = {0, 1, 2, 3, 4, 7, 8, 9, 16, 32, 33, 64, 255, 256, 262144, 262145, UINT32_MAX};
    pb_column *m = *s->at;
    uint32_t v = NUMBERS[below(t, sizeof NUMBERS / sizeof *NUMBERS)];
    switch (below(t, 8)) {
    case 0:
        m->width = v;
        break;
    case 1:
        m->planes = v;
        break;
    case 2:
        m->relative_to = below(t, 6);
        break;
    case 3:
        m->value_count = percent(t, 50) ? m->value_count + 1 : v;
        break;
    case 4:
        m->shared = below(t, (unsigned)t->d->n_dictionaries + 2);
        break;
    case 5:
        m->encoding = below(t, 8);
        break;
    case 6:
        m->values = leaf(t, m);
        break;
    default:
        m->lengths = leaf(t, m);
        break;
    }
}

static void change(draft *t) {
    pb_column *other;
    slot s = t->slots[below(t, (unsigned)t->slot_count)];
    for (unsigned i = 0; i < 8 && percent(t, 30) && !s.is_lengths; i++)
        s = t->slots[below(t, (unsigned)t->slot_count)];
    switch (below(t, 16)) {
    case 0:
        enlarge(t, &s);
        break;
    case 1:
        to_list(t, &s);
        break;
    case 2:
    case 3:
        move_frame(t, &s);
        break;
    case 4:
        *s.at = (other = leaf(t, *s.at)) ? other : *s.at;
        break;
    case 5:
        flatten(t);
        break;
    case 6:
    case 7:
        change_groups(t);
        break;
    case 8:
        to_context(t);
        break;
    case 9:
        tweak(t, &s);
        break;
    default:
        store_anew(t, &s);
        break;
    }
}

/* ---- taken apart, and put together again ---- */

static int inflate(draft *t, const uint8_t *data, size_t len_bytes, uint64_t raw_bytes, ProtobufCBinaryData *ret) {
    if (raw_bytes > RAW_BYTES_MAX)
        return 0;
    ret->data = room(t, (size_t)raw_bytes, 1);
    ret->len = ZSTD_decompress(ret->data, (size_t)raw_bytes, data, len_bytes);
    return !ZSTD_isError(ret->len);
}

static int open_directory(draft *t) {
    pb_batch *b = t->batch;
    ProtobufCBinaryData raw = b->directory;
    ea_err err;
    if (b->directory_bytes) {
        if (!inflate(t, b->directory.data, b->directory.len, b->directory_bytes, &raw))
            return 0;
    } else if (raw.len && raw.data[0] == EA_SHORT_DIRECTORY_PLAIN) {
        return !ea_short_directory_unpack(raw.data + 1, raw.len - 1, &t->arena, &t->d, &err);
    } else if (raw.len && raw.data[0] == EA_SHORT_DIRECTORY_ZSTD) {
        ea_pb_field f;
        size_t offset = 0; /* as if its head were the varint of a field with the number 1 */
        raw.data[0] = 1 << 3;
        uint8_t *framed = room(t, raw.len + EA_ZSTD_HEAD_BYTES, 1);
        if (ea_pb_next(raw.data, raw.len, &offset, &f) <= 0 || raw.len > EA_SHORT_DIRECTORY_MAX_BYTES)
            return 0;
        ea_short_directory_frame((size_t)f.value, raw.data + offset, raw.len - offset, framed);
        return inflate(t, framed, raw.len - offset + EA_ZSTD_HEAD_BYTES, f.value, &raw) &&
               !ea_short_directory_unpack(raw.data, raw.len, &t->arena, &t->d, &err);
    }
    if (ea_pb_check(&etwagent__v1__directory__descriptor, raw.data, raw.len, DEPTH + 4))
        return 0;
    t->d = etwagent__v1__directory__unpack(&t->allocator, raw.len, raw.data);
    return t->d != NULL;
}

static int open_draft(draft *t, const uint8_t *data, size_t size) {
    if (ea_pb_check(&etwagent__v1__batch__descriptor, data, size, DEPTH))
        return 0;
    t->batch = etwagent__v1__batch__unpack(&t->allocator, size, data);
    if (!t->batch || !t->batch->directory.len || t->batch->n_frames >= FRAMES || !open_directory(t))
        return 0;
    t->frame_count = t->batch->n_frames + 1;
    t->frames[0] = (frame){.data = t->d->pool.data, .len_bytes = t->d->pool.len};
    for (size_t k = 0; k < t->batch->n_frames; k++) {
        const Etwagent__V1__Frame *f = t->batch->frames[k];
        ProtobufCBinaryData raw = f->data;
        if (f->raw_bytes && !inflate(t, f->data.data, f->data.len, f->raw_bytes, &raw))
            return 0;
        t->frames[k + 1] = (frame){.data = raw.data, .len_bytes = raw.len};
    }
    for (size_t k = 0; k < t->frame_count; k++)
        ea_text_init(&t->frames[k].out);
    visit_all(t);
    t->pass = LIST;
    return t->slot_count > 0 && !t->failed;
}

static ProtobufCBinaryData deflated(draft *t, ProtobufCBinaryData raw) {
    size_t most = ZSTD_compressBound(raw.len);
    ProtobufCBinaryData out = {.data = room(t, most, 1)};
    out.len = ZSTD_compress(out.data, most, raw.data, raw.len, 1);
    if (ZSTD_isError(out.len))
        abort();
    return out;
}

static void put_frames(draft *t) {
    pb_batch *b = t->batch;
    b->n_frames = t->frame_count - 1;
    b->frames = room(t, b->n_frames, sizeof *b->frames);
    for (size_t k = 0; k < t->frame_count; k++) {
        const ea_text *out = &t->frames[k].out;
        ProtobufCBinaryData raw = {.len = out->len_bytes, .data = (uint8_t *)out->data};
        t->failed |= out->failed;
        if (!k) {
            t->d->pool = raw;
            continue;
        }
        Etwagent__V1__Frame *f = b->frames[k - 1] = room(t, 1, sizeof *f);
        etwagent__v1__frame__init(f);
        f->data = raw;
        if (raw.len && percent(t, 30)) {
            f->raw_bytes = raw.len;
            f->data = deflated(t, raw);
        }
    }
}

static void put_directory(draft *t, size_t max_size) {
    pb_batch *b = t->batch;
    b->directory_bytes = 0;
    if (b->context.len && percent(t, 40)) {
        uint8_t *out = room(t, EA_SHORT_DIRECTORY_MAX_BYTES + 1, 1);
        size_t n;
        if (ea_short_directory_pack(t->d, out + 1, EA_SHORT_DIRECTORY_MAX_BYTES, &n)) {
            out[0] = EA_SHORT_DIRECTORY_PLAIN;
            b->directory = (ProtobufCBinaryData){.len = n + 1, .data = out};
            return;
        }
    }
    size_t n = etwagent__v1__directory__get_packed_size(t->d);
    ProtobufCBinaryData raw = {.len = n, .data = room(t, n, 1)};
    etwagent__v1__directory__pack(t->d, raw.data);
    b->directory = raw;
    if (n && (n > max_size / 2 || percent(t, 10))) {
        b->directory_bytes = n;
        b->directory = deflated(t, raw);
    }
}

static size_t changed(draft *t, uint8_t *data, size_t size, size_t max_size) {
    if (setjmp(t->give_up) || !open_draft(t, data, size))
        return 0;
    for (unsigned n = 1 + below(t, 4); n && !t->failed && t->slot_count; n--) {
        change(t);
        visit_all(t); /* the locations after the change */
    }
    t->pass = PLACE;
    visit_all(t);
    if (t->failed)
        return 0;
    put_frames(t);
    put_directory(t, max_size);
    size_t n = etwagent__v1__batch__get_packed_size(t->batch);
    return !t->failed && n && n <= max_size ? etwagent__v1__batch__pack(t->batch, data) : 0;
}

size_t batch_change_columns(uint8_t *data, size_t size, size_t max_size, unsigned *random) {
    draft *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    t->random = random;
    ea_arena_init(&t->arena, (size_t)4 * RAW_BYTES_MAX);
    t->allocator = (ProtobufCAllocator){.alloc = allocate, .free = release, .allocator_data = &t->arena};
    size_t made = changed(t, data, size, max_size);
    for (size_t k = 0; k < t->frame_count; k++)
        ea_text_deinit(&t->frames[k].out);
    ea_arena_deinit(&t->arena);
    free(t);
    return made;
}
