/* Columns, read. See unpack.h and FORMAT.md, "Columns". */
#include "proto/wire/unpack.h"
#include "proto/wire/column.h"

#include <inttypes.h>

static int unpack_corrupt(ea_err *err, const char *what) {
    return ea_fail(err, EA_ECORRUPT, "read a batch's column: %s", what);
}

int ea_rows_spend(ea_rows_reader *r, uint64_t cost, ea_err *err) {
    r->cost += cost; /* each addend is far below 2^63, and the first sum above cost_max ends the reading */
    if (r->cost > r->cost_max)
        return ea_fail(err, EA_ELIMIT, "read a batch: it asks for more work than its %" PRIu64 " bytes allow",
                       r->paid_bytes);
    return 0;
}

int ea_rows_no_memory(const ea_arena *arena, const char *what, ea_err *err) {
    int rc = ea_arena_error(arena);
    return ea_fail(err, rc, "%s: %s", what,
                   rc == EA_ENOMEM ? "out of memory" : "it needs more memory than a batch may take");
}

static int unpack_no_memory(const ea_rows_reader *r, ea_err *err) {
    return ea_rows_no_memory(r->arena, "read a batch's column", err);
}

void *ea_rows_alloc(ea_rows_reader *r, size_t count, size_t size_bytes) {
    if (size_bytes && count > SIZE_MAX / size_bytes)
        return NULL;
    return ea_arena_alloc(r->arena, count * size_bytes);
}

/* A dictionary's values, or the shared ones that it names, and the width of its indexes. */
static int unpack_dictionary(ea_rows_reader *r, ea_rows *c, int in_dictionary, ea_err *err) {
    const Etwagent__V1__Column *m = c->m;
    if (m->relative_to)
        return unpack_corrupt(err, "a relative dictionary");
    if (m->shared) {
        if (in_dictionary)
            return unpack_corrupt(err, "a dictionary's values name a shared dictionary");
        if (m->shared > r->dictionary_count)
            return ea_fail(err, EA_ECORRUPT, "read a batch's column: it names shared dictionary %" PRIu32 " of %zu",
                           m->shared, r->dictionary_count);
        if (m->values || m->value_count)
            return unpack_corrupt(err, "it names a shared dictionary, and has values of its own");
        c->value_count = r->dictionary_counts[m->shared - 1];
    } else {
        if (!m->values)
            return unpack_corrupt(err, "a dictionary without values");
        if (m->value_count > EA_BATCH_MAX_EVENTS)
            return ea_fail(err, EA_ELIMIT,
                           "read a batch's column: a dictionary of %" PRIu32 " values, at most %d are allowed",
                           m->value_count, EA_BATCH_MAX_EVENTS);
        c->value_count = m->value_count;
        if (!(c->values = ea_arena_zalloc(r->arena, 1, sizeof *c->values)))
            return unpack_no_memory(r, err);
        int rc = ea_rows_build(r, c->values, m->values, c->value_count, c->width, 1, err);
        if (rc)
            return rc;
    }
    c->bits = m->planes;
    c->stored_width = c->value_count > 1 && !c->bits ? ea_bytes_of(c->value_count - 1) : 0;
    if (c->bits > 32 || (c->bits && c->value_count < 2))
        return ea_fail(err, EA_ECORRUPT, "read a batch's column: indexes of %u bits into %" PRIu32 " values", c->bits,
                       c->value_count);
    return 0;
}

/* How the elements are kept, and whether that is allowed. */
static int unpack_encoding(ea_rows_reader *r, ea_rows *c, int in_dictionary, ea_err *err) {
    const Etwagent__V1__Column *m = c->m;
    switch ((int)m->encoding) {
    case ETWAGENT__V1__ENCODING__ENCODING_CONSTANT:
        if (c->width && m->constant.len > c->width)
            return ea_fail(err, EA_ECORRUPT,
                           "read a batch's column: a constant of %zu bytes, its elements have %" PRIu32,
                           m->constant.len, c->width);
        return 0;
    case ETWAGENT__V1__ENCODING__ENCODING_PLAIN:
        if (c->width == 0)
            return unpack_corrupt(err, "plain elements have no width");
        if (m->relative_to)
            return unpack_corrupt(err, "plain elements are relative");
        c->stored_width = c->width;
        return 0;
    case ETWAGENT__V1__ENCODING__ENCODING_PLANES:
        if (c->width == 0)
            return unpack_corrupt(err, "elements in planes have no width");
        if (m->planes > c->width || (c->width > 8 && m->planes))
            return ea_fail(err, EA_ECORRUPT,
                           "read a batch's column: %" PRIu32 " planes of elements of %" PRIu32 " bytes", m->planes,
                           c->width);
        c->stored_width = m->planes ? m->planes : c->width;
        return 0;
    case ETWAGENT__V1__ENCODING__ENCODING_VARINT:
    case ETWAGENT__V1__ENCODING__ENCODING_BITS:
        if (c->width == 0 || c->width > 8)
            return ea_fail(err, EA_ECORRUPT, "read a batch's column: numbers of %" PRIu32 " bytes, expected 1 to 8",
                           c->width);
        if (m->encoding == ETWAGENT__V1__ENCODING__ENCODING_VARINT)
            return 0;
        if (m->planes == 0 || m->planes > 8 * c->width)
            return ea_fail(err, EA_ECORRUPT,
                           "read a batch's column: %" PRIu32 " bits of an element, expected 1 to %" PRIu32, m->planes,
                           8 * c->width);
        c->bits = m->planes;
        return 0;
    case ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY:
        return unpack_dictionary(r, c, in_dictionary, err);
    default:
        return ea_fail(err, EA_EUNSUPPORTED, "read a batch's column: encoding %d is not known", (int)m->encoding);
    }
}

/* The column's bytes, and where in its frame they are. */
static int unpack_place(const ea_rows_reader *r, ea_rows *c, uint32_t rows, ea_err *err) {
    const Etwagent__V1__Column *m = c->m;
    if (m->encoding == ETWAGENT__V1__ENCODING__ENCODING_VARINT || rows == (uint32_t)EA_ROWS_UNKNOWN) {
        if (m->bytes > EA_BATCH_MAX_RAW_BYTES)
            return unpack_corrupt(err, "it is larger than a batch may be");
        c->bytes = (size_t)m->bytes;
    } else {
        if (m->bytes)
            return unpack_corrupt(err, "its size follows from its rows, but is given, too");
        if ((uint64_t)rows * c->stored_width > EA_BATCH_MAX_RAW_BYTES)
            return unpack_corrupt(err, "it is larger than a batch may be");
        c->bytes = c->bits ? ea_bits_bytes(rows, c->bits) : (size_t)rows * c->stored_width;
    }
    if (m->frame >= r->frame_count)
        return ea_fail(err, EA_ECORRUPT, "read a batch's column: it is in frame %" PRIu32 " of %zu", m->frame,
                       r->frame_count);
    ea_frame *f = &r->frames[m->frame];
    if (c->bytes > f->raw_bytes - f->used_bytes)
        return ea_fail(err, EA_ECORRUPT, "read a batch's column: frame %" PRIu32 " is too short for it", m->frame);
    c->offset = f->used_bytes;
    f->used_bytes += c->bytes;
    return 0;
}

int ea_rows_build(ea_rows_reader *r, ea_rows *ret, const Etwagent__V1__Column *m, uint32_t rows, uint32_t width,
                  int in_dictionary, ea_err *err) {
    ea_rows c = {.m = m, .width = m->width};
    int rc = 0;
    if (!c.width)
        c.width = m->lengths && !width ? 1 : width;
    if (width && c.width != width)
        return unpack_corrupt(err, "its width is not the one of its place");
    int in_bits = m->encoding == ETWAGENT__V1__ENCODING__ENCODING_BITS ||
                  m->encoding == ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY;
    if (c.width > EA_BATCH_MAX_RAW_BYTES || m->constant.len > EA_BATCH_MAX_RAW_BYTES ||
        (m->planes > EA_BATCH_MAX_RAW_BYTES))
        return ea_fail(err, EA_ELIMIT, "read a batch's column: elements of %" PRIu32 " bytes", c.width);
    if (m->planes && !in_bits && m->encoding != ETWAGENT__V1__ENCODING__ENCODING_PLANES)
        return unpack_corrupt(err, "an encoding without planes says how many there are");
    if (m->lengths) {
        if (width)
            return unpack_corrupt(err, "a list is where numbers are expected");
        if (!(c.lengths = ea_arena_zalloc(r->arena, 1, sizeof *c.lengths)))
            return unpack_no_memory(r, err);
        rc = ea_rows_build(r, c.lengths, m->lengths, rows, 4, in_dictionary, err);
        if (rc)
            return rc;
        rows = (uint32_t)EA_ROWS_UNKNOWN;
    }
    rc = unpack_encoding(r, &c, in_dictionary, err);
    if (rc)
        return rc;
    if ((unsigned)m->relative_to > ETWAGENT__V1__BASE__BASE_TID)
        return ea_fail(err, EA_EUNSUPPORTED, "read a batch's column: base %d is not known", (int)m->relative_to);
    if (m->relative_to && (c.width == 0 || c.width > 8))
        return ea_fail(err, EA_ECORRUPT,
                       "read a batch's column: relative elements of %" PRIu32 " bytes, expected 1 to 8", c.width);
    rc = unpack_place(r, &c, rows, err);
    if (!rc)
        *ret = c;
    return rc;
}

static int frame_bytes(ea_rows_reader *r, const ea_rows *c, const uint8_t **ret, ea_err *err) {
    ea_frame *f = &r->frames[c->m->frame];
    if (!f->bytes) {
        uint8_t *out = ea_arena_alloc(r->arena, f->raw_bytes);
        if (!out)
            return unpack_no_memory(r, err);
        size_t n = ZSTD_decompressDCtx(r->zstd, out, f->raw_bytes, f->data, f->len_bytes);
        if (ZSTD_isError(n) || n != f->raw_bytes)
            return unpack_corrupt(err, ZSTD_isError(n) ? ZSTD_getErrorName(n) : "a frame is shorter than it says");
        f->bytes = out;
    }
    *ret = f->bytes + c->offset;
    return 0;
}

/* Room for count numbers, valid until the next call. */
static uint64_t *numbers(ea_rows_reader *r, size_t count) {
    if (count > r->scratch_count || !r->scratch) {
        size_t room = count < 4096 ? 4096 : count;
        uint64_t *p = ea_rows_alloc(r, room, sizeof *p);
        if (!p)
            return NULL;
        r->scratch = p;
        r->scratch_count = room;
    }
    return r->scratch;
}

/* Adds to each value what it is relative to. */
static int unpack_rebase(const ea_rows *c, uint64_t *v, uint32_t n, const ea_rows_context *context, uint64_t initial,
                         ea_err *err) {
    Etwagent__V1__Base base = c->m->relative_to;
    if (base == ETWAGENT__V1__BASE__BASE_NONE)
        return 0;
    if (base == ETWAGENT__V1__BASE__BASE_PREVIOUS) {
        uint64_t last = initial;
        for (uint32_t i = 0; i < n; i++)
            v[i] = last += ea_unzigzag(v[i]);
        return 0;
    }
    if (!context)
        return unpack_corrupt(err, "it is relative to events where there are none");
    const ea_batch_events *e = context->events;
    const uint32_t *ids = base == ETWAGENT__V1__BASE__BASE_PID ? e->pid : e->tid;
    if (base == ETWAGENT__V1__BASE__BASE_TIME)
        for (uint32_t i = 0; i < n; i++)
            v[i] = (uint64_t)e->time[context->rows[i]] + ea_unzigzag(v[i]);
    else
        for (uint32_t i = 0; i < n; i++)
            v[i] = ids[e->thread[context->rows[i]]] + ea_unzigzag(v[i]);
    return 0;
}

static void store_narrow(uint8_t *out, const uint64_t *v, uint32_t n, uint32_t width) {
    switch (width) {
    case 1:
        for (uint32_t i = 0; i < n; i++)
            out[i] = (uint8_t)v[i];
        break;
    case 2:
        for (uint32_t i = 0; i < n; i++)
            ea_store16(out + 2 * (size_t)i, (uint16_t)v[i]);
        break;
    case 4:
        for (uint32_t i = 0; i < n; i++)
            ea_store32(out + 4 * (size_t)i, (uint32_t)v[i]);
        break;
    default:
        for (uint32_t i = 0; i < n; i++)
            memcpy(out + (size_t)width * i, &v[i], width);
        break;
    }
}

/* Small numbers in few planes, which are relative to nothing: at once as wide as their column. */
static int decode_narrow(ea_rows_reader *r, const ea_rows *c, uint32_t n, const uint8_t *data, ea_column *ret,
                         ea_err *err) {
    void *out = ea_rows_alloc(r, n, c->width);
    if (!out)
        return unpack_no_memory(r, err);
    if (c->width == 4)
        ea_planes_get32(out, data, n, c->stored_width);
    else
        ea_planes_get16(out, data, n, c->stored_width);
    *ret = (ea_column){.count = n, .width = c->width, .stride = c->width, .data = out};
    return 0;
}

/* Numbers in planes or varints. */
static int decode_numbers(ea_rows_reader *r, ea_rows *c, uint32_t n, const ea_rows_context *context, uint64_t initial,
                          const uint8_t *data, ea_column *ret, ea_err *err) {
    uint8_t *out = ea_rows_alloc(r, n, c->width);
    uint64_t *v = c->width == 8 ? (void *)out : numbers(r, n);
    if (!out || !v)
        return unpack_no_memory(r, err);
    if (c->m->encoding == ETWAGENT__V1__ENCODING__ENCODING_VARINT) {
        if (ea_varint_get(v, n, data, c->bytes))
            return unpack_corrupt(err, "its numbers do not fill its bytes");
        if (!c->m->relative_to && c->width < 8)
            for (uint32_t i = 0; i < n; i++)
                if (v[i] >> (8 * c->width))
                    return unpack_corrupt(err, "a number is too large for its width");
    } else if (c->bits) {
        ea_bits_get(v, data, n, c->bits);
    } else {
        ea_planes_get(v, data, n, c->stored_width);
    }
    int rc = unpack_rebase(c, v, n, context, initial, err);
    if (rc)
        return rc;
    if (c->width != 8)
        store_narrow(out, v, n, c->width);
    *ret = (ea_column){.count = n, .width = c->width, .stride = c->width, .data = out};
    return 0;
}

/* Rows of no bytes at all. */
static int empty_rows(ea_rows_reader *r, uint32_t n, ea_column *ret, ea_err *err) {
    uint32_t *zeros = ea_arena_zalloc(r->arena, n ? n : 1, sizeof *zeros);
    if (!zeros)
        return unpack_no_memory(r, err);
    *ret = (ea_column){.count = n, .data = (const uint8_t *)zeros, .start = zeros, .len_bytes = zeros};
    return 0;
}

static int decode_constant(ea_rows_reader *r, ea_rows *c, uint32_t n, const ea_rows_context *context, uint64_t initial,
                           ea_column *ret, ea_err *err) {
    const ProtobufCBinaryData *k = &c->m->constant;
    uint32_t width = c->width ? c->width : (uint32_t)k->len;
    if (width == 0)
        return empty_rows(r, n, ret, err);
    if (c->m->relative_to) { /* the same difference in every row */
        uint64_t difference = 0;
        if (k->len)
            memcpy(&difference, k->data, k->len);
        uint8_t *out = ea_rows_alloc(r, n, width);
        uint64_t *v = width == 8 ? (void *)out : numbers(r, n);
        if (!out || !v)
            return unpack_no_memory(r, err);
        for (uint32_t i = 0; i < n; i++)
            v[i] = difference;
        int rc = unpack_rebase(c, v, n, context, initial, err);
        if (!rc && width != 8)
            store_narrow(out, v, n, width);
        if (!rc)
            *ret = (ea_column){.count = n, .width = width, .stride = width, .data = out};
        return rc;
    }
    const uint8_t *data = k->data;
    if (k->len < width) {
        uint8_t *padded = ea_arena_zalloc(r->arena, 1, width);
        if (!padded)
            return unpack_no_memory(r, err);
        if (k->len)
            memcpy(padded, k->data, k->len);
        data = padded;
    }
    *ret = (ea_column){.count = n, .width = width, .stride = 0, .data = data};
    return 0;
}

/* The width that all rows of a column have by its messages alone; 0: only its rows know. What decode_elements makes of
 * a column whose width is known this way has rows of just that width. */
static uint32_t width_of_rows(const ea_rows *c) {
    if (c->lengths)
        return 0;
    if (c->width)
        return c->width;
    if (c->m->encoding == ETWAGENT__V1__ENCODING__ENCODING_CONSTANT)
        return (uint32_t)c->m->constant.len;
    return c->values ? width_of_rows(c->values) : 0;
}

/* Decodes a dictionary's values and checks its indexes: *ret_index is n of them. */
static int decode_indexes(ea_rows_reader *r, ea_rows *c, uint32_t n, const uint8_t *data, const ea_column **ret_values,
                          uint32_t **ret_index, ea_err *err) {
    ea_rows *values = c->m->shared ? &r->dictionaries[c->m->shared - 1] : c->values;
    /* values of its own were built with the column's width; shared ones are placed after the columns that use them */
    if (c->width && width_of_rows(values) != c->width)
        return unpack_corrupt(err, "the rows of its dictionary have another width than the column");
    int rc = ea_rows_decode(r, values, c->value_count, NULL, 0, err);
    if (rc)
        return rc;
    if (n && !c->value_count)
        return unpack_corrupt(err, "an empty dictionary");
    uint32_t *index = ea_rows_alloc(r, n, sizeof *index), largest = 0;
    uint64_t *wide = c->bits ? numbers(r, n) : NULL;
    if (!index || (c->bits && !wide))
        return unpack_no_memory(r, err);
    if (c->bits) {
        ea_bits_get(wide, data, n, c->bits);
        for (uint32_t i = 0; i < n; i++)
            index[i] = (uint32_t)wide[i];
    } else if (c->stored_width) {
        ea_planes_get32(index, data, n, c->stored_width);
    } else {
        memset(index, 0, n * sizeof *index);
    }
    for (uint32_t i = 0; i < n; i++)
        largest = index[i] > largest ? index[i] : largest;
    if (n && largest >= c->value_count)
        return unpack_corrupt(err, "an index beyond its dictionary");
    *ret_values = &values->column;
    *ret_index = index;
    return 0;
}

/* The bytes of n elements; that they are as many as n elements take was checked. */
static int element_bytes(ea_rows_reader *r, ea_rows *c, uint32_t n, const uint8_t **ret, ea_err *err) {
    if ((c->stored_width && (uint64_t)n * c->stored_width != c->bytes) ||
        (c->bits && ea_bits_bytes(n, c->bits) != c->bytes))
        return unpack_corrupt(err, "its elements do not fill its bytes");
    if (!c->bytes) {
        static const uint8_t none;
        *ret = &none; /* no arithmetic is done with NULL */
        return 0;
    }
    int rc = frame_bytes(r, c, ret, err);
    unsigned padding = c->bits ? (unsigned)(8 * (uint64_t)c->bytes - (uint64_t)n * c->bits) : 0; /* below 8 */
    if (!rc && padding && (*ret)[c->bytes - 1] >> (8 - padding))
        return unpack_corrupt(err, "there are bits after its last element");
    return rc;
}

int ea_rows_dictionary(ea_rows_reader *r, ea_rows *c, uint32_t rows, ea_column *ret_values, const uint32_t **ret_index,
                       ea_err *err) {
    if (!c->m || c->lengths || c->m->encoding != ETWAGENT__V1__ENCODING__ENCODING_DICTIONARY)
        return 0;
    const ea_column *values = NULL;
    const uint8_t *data = NULL;
    uint32_t *index = NULL;
    int rc = element_bytes(r, c, rows, &data, err);
    if (!rc)
        rc = decode_indexes(r, c, rows, data, &values, &index, err);
    if (rc)
        return rc;
    *ret_values = *values;
    *ret_index = index;
    return 1;
}

static int decode_dictionary(ea_rows_reader *r, ea_rows *c, uint32_t n, const uint8_t *data, ea_column *ret,
                             ea_err *err) {
    const ea_column *from = NULL;
    uint32_t *index = NULL;
    int rc = decode_indexes(r, c, n, data, &from, &index, err);
    if (rc)
        return rc;
    if (from->width && from->width <= 16) {
        uint32_t w = from->width;
        uint8_t *out = ea_rows_alloc(r, n, w);
        if (!out)
            return unpack_no_memory(r, err);
        if (w == 8)
            for (uint32_t i = 0; i < n; i++)
                memcpy(out + 8 * (size_t)i, from->data + (size_t)index[i] * from->stride, 8);
        else if (w == 4)
            for (uint32_t i = 0; i < n; i++)
                memcpy(out + 4 * (size_t)i, from->data + (size_t)index[i] * from->stride, 4);
        else
            for (uint32_t i = 0; i < n; i++)
                memcpy(out + (size_t)w * i, from->data + (size_t)index[i] * from->stride, w);
        *ret = (ea_column){.count = n, .width = w, .stride = w, .data = out};
        return 0;
    }
    uint32_t *start = ea_rows_alloc(r, n, sizeof *start), *len_bytes = ea_rows_alloc(r, n, sizeof *len_bytes);
    if (!start || !len_bytes)
        return unpack_no_memory(r, err);
    for (uint32_t i = 0; i < n; i++) {
        start[i] = from->width ? (uint32_t)(index[i] * from->stride) : from->start[index[i]];
        len_bytes[i] = from->width ? from->width : from->len_bytes[index[i]];
    }
    *ret = (ea_column){.count = n, .data = from->data, .start = start, .len_bytes = len_bytes};
    return 0;
}

static int decode_elements(ea_rows_reader *r, ea_rows *c, uint32_t n, const ea_rows_context *context, uint64_t initial,
                           ea_column *ret, ea_err *err) {
    const uint8_t *data = NULL;
    int rc = element_bytes(r, c, n, &data, err);
    if (rc)
        return rc;
    switch ((int)c->m->encoding) {
    case ETWAGENT__V1__ENCODING__ENCODING_CONSTANT:
        if (c->bytes)
            return unpack_corrupt(err, "a constant with data");
        return decode_constant(r, c, n, context, initial, ret, err);
    case ETWAGENT__V1__ENCODING__ENCODING_PLAIN:
        *ret = (ea_column){.count = n, .width = c->width, .stride = c->width, .data = data};
        return 0;
    case ETWAGENT__V1__ENCODING__ENCODING_PLANES:
        if (c->width > 8 || (c->stored_width == c->width && c->width < 8 && !c->m->relative_to)) {
            uint8_t *out = ea_rows_alloc(r, n, c->width);
            if (!out)
                return unpack_no_memory(r, err);
            ea_planes_join(out, data, n, c->width);
            *ret = (ea_column){.count = n, .width = c->width, .stride = c->width, .data = out};
            return 0;
        }
        if ((c->width == 4 || c->width == 2) && !c->m->relative_to)
            return decode_narrow(r, c, n, data, ret, err);
        return decode_numbers(r, c, n, context, initial, data, ret, err);
    case ETWAGENT__V1__ENCODING__ENCODING_VARINT:
    case ETWAGENT__V1__ENCODING__ENCODING_BITS:
        return decode_numbers(r, c, n, context, initial, data, ret, err);
    default: /* a dictionary: ea_rows_build let nothing else through */
        if (!c->stored_width && !c->bits && c->bytes)
            return unpack_corrupt(err, "indexes of a single value");
        return decode_dictionary(r, c, n, data, ret, err);
    }
}

/* Elements become rows of so many elements each. */
static int unpack_gather(ea_rows_reader *r, const ea_column *elements, const ea_column *lengths, uint32_t n,
                         uint32_t total, ea_column *ret, ea_err *err) {
    uint32_t *start = ea_rows_alloc(r, n, sizeof *start), *len_bytes = ea_rows_alloc(r, n, sizeof *len_bytes);
    if (!start || !len_bytes)
        return unpack_no_memory(r, err);
    if (elements->width && elements->stride == elements->width) { /* they follow each other already */
        uint32_t at = 0;
        for (uint32_t i = 0; i < n; i++) {
            start[i] = at;
            len_bytes[i] = (uint32_t)ea_column_u64(lengths, i) * elements->width;
            at += len_bytes[i];
        }
        *ret = (ea_column){.count = n, .data = elements->data, .start = start, .len_bytes = len_bytes};
        return 0;
    }
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < total; i++)
        bytes += ea_column_row(elements, i).len_bytes;
    uint8_t *out = bytes > EA_BATCH_MAX_RAW_BYTES ? NULL : ea_arena_alloc(r->arena, (size_t)bytes);
    if (!out)
        return unpack_no_memory(r, err);
    uint32_t at = 0, k = 0;
    for (uint32_t i = 0; i < n; i++) {
        start[i] = at;
        for (uint64_t left = ea_column_u64(lengths, i); left; left--, k++) {
            ea_slice s = ea_column_row(elements, k);
            if (s.len_bytes)
                memcpy(out + at, s.data, s.len_bytes);
            at += s.len_bytes;
        }
        len_bytes[i] = at - start[i];
    }
    *ret = (ea_column){.count = n, .data = out, .start = start, .len_bytes = len_bytes};
    return 0;
}

int ea_rows_decode(ea_rows_reader *r, ea_rows *c, uint32_t rows, const ea_rows_context *context, uint64_t initial,
                   ea_err *err) {
    if (c->is_decoded)
        return c->column.count == rows ? 0 : unpack_corrupt(err, "one column in two places");
    uint32_t n = rows;
    int rc;
    if (c->lengths) {
        rc = ea_rows_decode(r, c->lengths, rows, NULL, 0, err);
        if (rc)
            return rc;
        uint64_t total = 0;
        for (uint32_t i = 0; i < rows; i++) {
            uint64_t length = ea_column_u64(&c->lengths->column, i);
            if (length > EA_BATCH_MAX_RAW_BYTES - total)
                return ea_fail(err, EA_ELIMIT, "read a batch's column: a list of more than %d elements",
                               EA_BATCH_MAX_RAW_BYTES);
            total += length;
        }
        if (total * c->width > EA_BATCH_MAX_RAW_BYTES) /* at most 2^26 times 2^26 */
            return ea_fail(err, EA_ELIMIT, "read a batch's column: a list of more than %d bytes",
                           EA_BATCH_MAX_RAW_BYTES);
        n = (uint32_t)total;
        context = NULL;
        initial = 0;
    }
    if ((rc = ea_rows_spend(r, (uint64_t)n + rows, err)) != 0)
        return rc;
    ea_column elements = {0};
    rc = decode_elements(r, c, n, context, initial, &elements, err);
    if (!rc && c->lengths)
        rc = unpack_gather(r, &elements, &c->lengths->column, rows, n, &c->column, err);
    else if (!rc)
        c->column = elements;
    c->is_decoded = !rc;
    return rc;
}
