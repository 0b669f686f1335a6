/* Definitions. See definitions.h, and the part of wire.h that has this name. */
#include "proto/wire/definitions.h"
#include "proto/wire/column.h"
#include "proto/wire/short_directory.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <zstd.h>

static int definitions_corrupt(ea_err *err, const char *what) {
    return ea_fail(err, EA_ECORRUPT, "read a batch's definitions: %s", what);
}

int ea_definition_hash(const uint8_t *data, size_t len_bytes, uint8_t *ret_hash, ea_err *err) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    if (EVP_Digest(data, len_bytes, digest, NULL, EVP_sha256(), NULL) != 1)
        return ea_fail(err, EA_ENOMEM, "hash a definition");
    memcpy(ret_hash, digest, EA_CLASS_HASH_BYTES);
    return 0;
}

int ea_batch_each_definition(const uint8_t *batch, size_t len_bytes,
                             int (*fn)(enum ea_definition_kind kind, const uint8_t *data, size_t data_bytes, void *arg),
                             void *arg, ea_err *err) {
    size_t offset = 0;
    ea_pb_field f;
    int rc, has_context = 0;
    while ((rc = ea_pb_next(batch, len_bytes, &offset, &f)) > 0)
        has_context |= f.number == EA_BATCH_CONTEXT;
    offset = 0;
    while (!rc && ea_pb_next(batch, len_bytes, &offset, &f) > 0) {
        if (f.type != 2 || (f.number == EA_BATCH_SOURCES && !has_context))
            continue;
        switch (f.number) {
        case EA_BATCH_DESCRIPTIONS:
        case EA_BATCH_SOURCES:
        case EA_BATCH_SHAPES:
        case EA_BATCH_DICTIONARIES:
        case EA_BATCH_CONTEXTS:
            rc = fn((enum ea_definition_kind)f.number, f.data, f.len_bytes, arg);
            if (rc)
                return rc;
            break;
        default:
            break;
        }
    }
    return rc ? definitions_corrupt(err, "it is no protobuf message") : 0;
}

/* ---- those that the batch holds ---- */

static int by_hash(const void *a, const void *b) {
    return memcmp(((const ea_own_definition *)a)->hash, ((const ea_own_definition *)b)->hash, EA_CLASS_HASH_BYTES);
}

int ea_own_definitions(ea_own_definition *list, size_t count, enum ea_definition_kind kind, const uint8_t *batch,
                       size_t len_bytes, ea_err *err) {
    size_t offset = 0, n = 0;
    ea_pb_field f;
    while (n < count && ea_pb_next(batch, len_bytes, &offset, &f) > 0) {
        if (f.number != (uint32_t)kind || f.type != 2)
            continue;
        size_t most = kind == EA_DEFINES_DICTIONARY ? EA_DICTIONARY_MAX_BYTES : EA_SHAPE_MAX_BYTES;
        if (f.len_bytes > most)
            return ea_fail(err, EA_ELIMIT, "read a batch's definitions: one of %zu bytes", f.len_bytes);
        int rc = ea_definition_hash(f.data, f.len_bytes, list[n].hash, err);
        if (rc)
            return rc;
        list[n].data = f.data;
        list[n++].len_bytes = f.len_bytes;
    }
    if (n < count)
        return definitions_corrupt(err, "there are fewer than counted");
    if (n)
        qsort(list, n, sizeof *list, by_hash);
    return 0;
}

int ea_own_definitions_find(const ea_own_definition *list, size_t count, const uint8_t *ref, size_t ref_bytes,
                            const ea_own_definition **ret) {
    size_t lo = 0, n = count;
    while (n) {
        size_t half = n / 2;
        if (memcmp(list[lo + half].hash, ref, ref_bytes) < 0) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    if (lo == count || memcmp(list[lo].hash, ref, ref_bytes) != 0)
        return 0;
    /* Those whose hash begins so follow each other. All are one definition when the last one is the first one's. */
    size_t last = lo;
    for (n = count - lo - 1; n;) {
        size_t half = (n + 1) / 2;
        if (memcmp(list[last + half].hash, ref, ref_bytes) == 0) {
            last += half;
            n -= half;
        } else {
            n = half - 1;
        }
    }
    if (memcmp(list[last].hash, list[lo].hash, EA_CLASS_HASH_BYTES) != 0)
        return EA_ECORRUPT;
    *ret = &list[lo];
    return 1;
}

/* ---- contexts ---- */

/* f: all zero when the context has none. */
static int definitions_read_names(const ea_pb_field *f, const char *what, uint32_t most, const uint8_t **ret,
                                  uint32_t *ret_count, ea_err *err) {
    if (f->len_bytes % EA_NAME_BYTES)
        return ea_fail(err, EA_ECORRUPT,
                       "read a batch's definitions: a context's names of %s have 8 bytes each, these have %zu", what,
                       f->len_bytes);
    if (f->len_bytes / EA_NAME_BYTES > most)
        return ea_fail(err, EA_ELIMIT, "read a batch's definitions: a context names %zu %s, at most %" PRIu32,
                       f->len_bytes / EA_NAME_BYTES, what, most);
    *ret = f->data;
    *ret_count = (uint32_t)(f->len_bytes / EA_NAME_BYTES);
    return 0;
}

/* Reads a Context message. EA_ECORRUPT, EA_ELIMIT. */
static int read_context(const uint8_t *data, size_t len_bytes, ea_context *ret, ea_err *err) {
    static const uint8_t types[] = {[1] = 2, [2] = 2, [3] = 1, [4] = 0};
    size_t offset = 0;
    ea_pb_field f, last[sizeof types] = {{0}};
    int rc;
    ea_context c = {0};
    while ((rc = ea_pb_next(data, len_bytes, &offset, &f)) > 0) {
        if (f.number >= sizeof types)
            continue; /* a newer writer's */
        if (types[f.number] != f.type)
            return definitions_corrupt(err, "a context's field is of another type");
        last[f.number] = f;
    }
    if (rc)
        return definitions_corrupt(err, "a context is no message");
    rc = definitions_read_names(&last[1], "sources", EA_BATCH_MAX_SOURCES, &c.sources, &c.source_count, err);
    if (!rc)
        rc = definitions_read_names(&last[2], "shapes", EA_SHAPES_MAX, &c.shapes, &c.shape_count, err);
    if (rc)
        return rc;
    if (!c.source_count)
        return definitions_corrupt(err, "a context without sources");
    c.dictionary = last[3].value;
    c.priority = (uint32_t)last[4].value;
    if (c.priority > UINT8_MAX)
        return ea_fail(err, EA_EUNSUPPORTED,
                       "read a batch's definitions: a priority is at most 255, a context's is %" PRIu32, c.priority);
    *ret = c;
    return 0;
}

int ea_context_next_shape(const ea_context *c, const ea_envelope *e, const uint8_t **at, const uint8_t **ret_name) {
    uint64_t index;
    if (*at == e->shape_indexes + e->shape_indexes_bytes)
        return 0;
    if (ea_varint_next(at, e->shape_indexes + e->shape_indexes_bytes, &index) || index >= c->shape_count)
        return EA_ECORRUPT;
    *ret_name = c->shapes + index * EA_NAME_BYTES;
    return 1;
}

/* ---- what is named, and where it is ---- */

typedef struct filling {
    const uint8_t *batch;
    size_t len_bytes;
    const ea_envelope *e;
    const ea_context *context;
    const ea_definitions *known; /* NULL: nothing is looked for */
    ea_text *out;
    size_t filled_bytes; /* of the definitions in out: EA_BATCH_MAX_BYTES at the most */
    int lacking;
    ea_pb_field *first;
} filling;

/* 1 and what the collector keeps under that name, 0 when it is nowhere, or an error. */
static int definitions_find(filling *f, enum ea_definition_kind kind, const uint8_t *name, const uint8_t **ret_data,
                            size_t *ret_len_bytes, ea_err *err) {
    ea_hash_ref ref = {.len_bytes = EA_NAME_BYTES};
    memcpy(ref.bytes, name, EA_NAME_BYTES);
    int rc = f->known ? f->known->find(f->known->arg, kind, &ref, ret_data, ret_len_bytes, err) : 0;
    if (rc)
        return rc;
    f->lacking = 1;
    if (f->known && f->known->on_missing)
        f->known->on_missing(f->known->arg, kind, &ref);
    return 0;
}

static int definitions_fill(filling *f, enum ea_definition_kind kind, const uint8_t *name, ea_err *err) {
    const uint8_t *data;
    size_t n;
    int rc = definitions_find(f, kind, name, &data, &n, err);
    if (rc > 0 && n > EA_BATCH_MAX_BYTES - f->filled_bytes)
        return ea_fail(err, EA_ELIMIT, "read a batch: the sources and shapes that it names have more than %d bytes",
                       EA_BATCH_MAX_BYTES);
    if (rc > 0) {
        f->filled_bytes += n;
        ea_pb_put_bytes(f->out, (uint32_t)kind, data, n);
    }
    return rc < 0 ? rc : 0;
}

/* All definitions of a kind in the batch; the caller frees them. */
static int list_own(const filling *f, enum ea_definition_kind kind, size_t count, ea_own_definition **ret,
                    ea_err *err) {
    *ret = calloc(count + 1, sizeof **ret);
    if (!*ret)
        return ea_fail(err, EA_ENOMEM, "read a batch's definitions");
    return ea_own_definitions(*ret, count, kind, f->batch, f->len_bytes, err);
}

typedef struct missing {
    const uint8_t *name;
    uint32_t place; /* in the context */
} missing;

static int definitions_by_name(const void *a, const void *b) {
    const missing *x = a, *y = b;
    int order = memcmp(x->name, y->name, EA_NAME_BYTES);
    return order ? order : (x->place > y->place) - (x->place < y->place);
}

static int definitions_by_place(const void *a, const void *b) {
    const missing *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

/* Removes repeated names; returns how many names are left, in the order of the context. */
static size_t once_each(missing *list, size_t count) {
    size_t n = 0;
    qsort(list, count, sizeof *list, definitions_by_name);
    for (size_t i = 0; i < count; i++)
        if (!n || memcmp(list[n - 1].name, list[i].name, EA_NAME_BYTES) != 0)
            list[n++] = list[i];
    qsort(list, n, sizeof *list, definitions_by_place);
    return n;
}

static int fill_sources(filling *f, ea_err *err) {
    const ea_context *c = f->context;
    ea_own_definition *own;
    const ea_own_definition *found = NULL;
    size_t count = 0;
    int rc = list_own(f, EA_DEFINES_SOURCE, f->e->source_count, &own, err);
    missing *list = calloc(c->source_count, sizeof *list); /* a context has one source at the least */
    if (!rc && !list)
        rc = ea_fail(err, EA_ENOMEM, "read a batch's sources");
    for (uint32_t k = 0; !rc && k < c->source_count; k++) {
        const uint8_t *name = c->sources + (size_t)k * EA_NAME_BYTES;
        int there = ea_own_definitions_find(own, f->e->source_count, name, EA_NAME_BYTES, &found);
        if (there < 0)
            rc = definitions_corrupt(err, "several sources of one name");
        else if (!there)
            list[count++] = (missing){name, k};
        if (k == 0 && f->first)
            *f->first = there > 0 ? (ea_pb_field){.type = 2, .data = found->data, .len_bytes = found->len_bytes}
                                  : (ea_pb_field){0};
    }
    count = rc ? 0 : once_each(list, count);
    for (size_t i = 0; !rc && i < count; i++)
        rc = definitions_fill(f, EA_DEFINES_SOURCE, list[i].name, err);
    free(own);
    free(list);
    return rc;
}

static int fill_shapes(filling *f, ea_err *err) {
    ea_own_definition *own;
    const ea_own_definition *found = NULL;
    const uint8_t *at = f->e->shape_indexes, *name = NULL;
    int more, rc = list_own(f, EA_DEFINES_SHAPE, f->e->shape_count, &own, err);
    uint8_t *seen = calloc(f->context->shape_count + (size_t)1, 1);
    if (!rc && !seen)
        rc = ea_fail(err, EA_ENOMEM, "read a batch's shapes");
    while (!rc && (more = ea_context_next_shape(f->context, f->e, &at, &name)) != 0) {
        size_t index = more < 0 ? 0 : (size_t)(name - f->context->shapes) / EA_NAME_BYTES;
        if (more < 0)
            rc = definitions_corrupt(err, "a group's shape is not in the context");
        else if (seen[index])
            continue; /* several groups may have one shape */
        seen[index] = 1;
        int there = rc ? 1 : ea_own_definitions_find(own, f->e->shape_count, name, EA_NAME_BYTES, &found);
        if (there < 0)
            rc = definitions_corrupt(err, "several shapes of one name");
        else if (!there)
            rc = definitions_fill(f, EA_DEFINES_SHAPE, name, err);
    }
    free(own);
    free(seen);
    return rc;
}

/* Of a batch that has a context: 1 when it does not hold all that it names, 0, or an error. Fills e->context when that
 * is in it. *ret_first: the table's first source, when it is there. */
static int lacks_definitions(const uint8_t *batch, size_t len_bytes, ea_envelope *e, ea_pb_field *ret_first,
                             ea_err *err) {
    filling f = {.batch = batch, .len_bytes = len_bytes, .e = e, .context = &e->context, .first = ret_first};
    ea_own_definition *own;
    const ea_own_definition *found = NULL;
    int rc = list_own(&f, EA_DEFINES_CONTEXT, e->context_count, &own, err);
    if (!rc) {
        rc = ea_own_definitions_find(own, e->context_count, e->context_name, EA_NAME_BYTES, &found);
        if (rc < 0)
            rc = definitions_corrupt(err, "several contexts of one name");
    }
    if (rc > 0 && found)
        rc = read_context(found->data, found->len_bytes, &e->context, err);
    else if (!rc)
        rc = 1; /* nowhere */
    free(own);
    if (rc)
        return rc;
    e->has_context = 1;
    rc = fill_sources(&f, err);
    if (!rc)
        rc = fill_shapes(&f, err);
    return rc ? rc : f.lacking || e->needs_dictionary;
}

int ea_envelope_read(ea_envelope *ret, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    ea_envelope e;
    int rc = ea_envelope_walk(&e, batch, len_bytes, err);
    if (rc)
        return rc;
    ea_pb_field source = e.first_source;
    if (e.context_name) {
        source = (ea_pb_field){0};
        rc = lacks_definitions(batch, len_bytes, &e, &source, err);
        if (rc < 0)
            return rc;
        e.head.is_incomplete = rc;
        e.head.priority = e.context.priority;
        e.head.source_count = e.context.source_count;
    } else if (e.needs_dictionary) {
        return definitions_corrupt(err, "a dictionary without a context");
    }
    rc = ea_envelope_take_source(&e, &source, err);
    if (!rc)
        *ret = e;
    return rc;
}

int ea_batch_read_head(const uint8_t *batch, size_t len_bytes, ea_batch_head *ret, ea_err *err) {
    ea_envelope e;
    int rc = ea_envelope_read(&e, batch, len_bytes, err);
    if (!rc)
        *ret = e.head;
    return rc;
}

/* ---- without the dictionary ---- */

void ea_pb_put_bytes(ea_text *out, uint32_t number, const void *data, size_t len_bytes) {
    ea_text_varint(out, (uint64_t)number << 3 | 2);
    ea_text_varint(out, len_bytes);
    ea_text_add(out, data, len_bytes);
}

typedef struct inflating {
    ZSTD_DCtx *zstd;
    const uint8_t *dictionary;
    size_t dictionary_bytes;
    ea_text raw;
} inflating;

/* Decompresses a frame of raw_bytes into z->raw. */
static int inflate(inflating *z, const uint8_t *data, size_t len_bytes, uint64_t raw_bytes, ea_err *err) {
    z->raw = (ea_text){.data = malloc((size_t)raw_bytes + 1), .capacity = (size_t)raw_bytes};
    if (!z->raw.data)
        return ea_fail(err, EA_ENOMEM, "read a batch");
    size_t n = ZSTD_decompress_usingDict(z->zstd, z->raw.data, (size_t)raw_bytes, data, len_bytes, z->dictionary,
                                         z->dictionary_bytes);
    if (ZSTD_isError(n) || n != raw_bytes)
        return definitions_corrupt(err, ZSTD_isError(n) ? ZSTD_getErrorName(n) : "a frame is shorter than it says");
    z->raw.len_bytes = n;
    return 0;
}

/* The batch with its directory as it is without compression. */
static int copy_inflated(const filling *f, inflating *z, ea_err *err) {
    static const uint8_t plain = EA_SHORT_DIRECTORY_PLAIN;
    const ea_envelope *e = f->e;
    size_t offset = 0, begin = 0, frame_bytes = e->directory_bytes + EA_ZSTD_HEAD_BYTES;
    ea_pb_field field;
    for (; ea_pb_next(f->batch, f->len_bytes, &offset, &field) > 0; begin = offset)
        if (field.number != EA_BATCH_DIRECTORY)
            ea_text_add(f->out, f->batch + begin, offset - begin);
    if (e->directory_raw_bytes > EA_SHORT_DIRECTORY_MAX_BYTES || e->directory_bytes > EA_SHORT_DIRECTORY_MAX_BYTES)
        return definitions_corrupt(err, "a short directory of no size, or too large for one");
    uint8_t *frame = malloc(frame_bytes);
    if (!frame)
        return ea_fail(err, EA_ENOMEM, "read a batch");
    ea_short_directory_frame((size_t)e->directory_raw_bytes, e->directory, e->directory_bytes, frame);
    int rc = inflate(z, frame, frame_bytes, e->directory_raw_bytes, err);
    free(frame);
    if (rc)
        return rc;
    ea_text_varint(f->out, EA_BATCH_DIRECTORY << 3 | 2);
    ea_text_varint(f->out, sizeof plain + z->raw.len_bytes);
    ea_text_add(f->out, &plain, sizeof plain);
    ea_text_add(f->out, z->raw.data, z->raw.len_bytes);
    return 0;
}

static int without_dictionary(filling *f, ea_err *err) {
    uint8_t name[EA_NAME_BYTES];
    inflating z = {0};
    ea_own_definition *own;
    const ea_own_definition *found = NULL;
    size_t offset = 0, count = 0;
    ea_pb_field field;
    while (ea_pb_next(f->batch, f->len_bytes, &offset, &field) > 0)
        count += field.number == EA_BATCH_DICTIONARIES;
    ea_store64(name, f->context->dictionary);
    if (!f->context->dictionary)
        return definitions_corrupt(err, "a directory needs a dictionary, and the context names none");
    int rc = list_own(f, EA_DEFINES_DICTIONARY, count, &own, err);
    if (rc) {
        free(own);
        return rc;
    }
    rc = ea_own_definitions_find(own, count, name, sizeof name, &found);
    if (rc > 0) {
        z.dictionary = found->data;
        z.dictionary_bytes = found->len_bytes;
    } else {
        rc = rc < 0 ? definitions_corrupt(err, "several dictionaries of one name")
                    : definitions_find(f, EA_DEFINES_DICTIONARY, name, &z.dictionary, &z.dictionary_bytes, err);
    }
    if (rc > 0) {
        z.zstd = ZSTD_createDCtx();
        rc = z.zstd ? copy_inflated(f, &z, err) : ea_fail(err, EA_ENOMEM, "read a batch");
        ZSTD_freeDCtx(z.zstd);
        free(z.raw.data);
    }
    free(own);
    return rc;
}

/* Into out, with the context. */
static int definitions_complete(filling *f, ea_err *err) {
    int rc = 0;
    if (f->e->needs_dictionary)
        rc = without_dictionary(f, err);
    else
        ea_text_add(f->out, f->batch, f->len_bytes);
    if (!rc)
        rc = fill_sources(f, err);
    return rc ? rc : fill_shapes(f, err);
}

/* An incomplete batch whose envelope was read: 1, or an error. */
static int complete_batch(ea_envelope *e, const uint8_t *batch, size_t len_bytes, const ea_definitions *known,
                          ea_text *out, ea_err *err) {
    ea_text kept; /* the context, when it is not in the batch */
    const uint8_t *data;
    size_t n;
    ea_text_clear(out);
    ea_text_init(&kept);
    filling f = {.batch = batch, .len_bytes = len_bytes, .e = e, .context = &e->context, .known = known, .out = out};
    int rc = e->has_context ? 1 : definitions_find(&f, EA_DEFINES_CONTEXT, e->context_name, &data, &n, err);
    if (rc > 0 && !e->has_context) {
        ea_text_add(&kept, data, n);
        rc = kept.failed ? ea_fail(err, EA_ENOMEM, "read a batch")
                         : read_context((const uint8_t *)kept.data, kept.len_bytes, &e->context, err);
        rc = rc ? rc : 1;
    }
    if (rc > 0) {
        rc = definitions_complete(&f, err);
        if (!rc && !e->has_context)
            ea_pb_put_bytes(out, EA_DEFINES_CONTEXT, kept.data, kept.len_bytes);
    }
    ea_text_deinit(&kept);
    if (rc)
        return rc;
    if (f.lacking)
        return ea_fail(err, EA_ENOTFOUND,
                       "read batch %" PRIu64 ": a context, sources, shapes or a dictionary that it names are nowhere",
                       e->head.number);
    return out->failed ? ea_fail(err, EA_ENOMEM, "read a batch") : 1;
}

int ea_batch_complete(const uint8_t *batch, size_t len_bytes, const ea_definitions *known, ea_text *out, ea_err *err) {
    ea_envelope e;
    int rc = ea_envelope_read(&e, batch, len_bytes, err);
    return rc || !e.head.is_incomplete ? rc : complete_batch(&e, batch, len_bytes, known, out, err);
}

/* ---- a batch that is read once ---- */

int ea_batch_parse(ea_batch **batch, const uint8_t *data, size_t len_bytes, ea_err *err) {
    ea_batch *b = *batch ? *batch : calloc(1, sizeof *b);
    if (!b)
        return ea_fail(err, EA_ENOMEM, "read a batch");
    *batch = b;
    b->data = data;
    b->len_bytes = len_bytes;
    return ea_envelope_read(&b->envelope, data, len_bytes, err);
}

void ea_batch_free(ea_batch *b) {
    free(b);
}

const ea_batch_head *ea_batch_parsed_head(const ea_batch *b) {
    return &b->envelope.head;
}

int ea_batch_complete_parsed(ea_batch *b, const ea_definitions *known, ea_text *out, ea_err *err) {
    if (!b->envelope.head.is_incomplete)
        return 0;
    int rc = complete_batch(&b->envelope, b->data, b->len_bytes, known, out, err);
    if (rc < 0)
        return rc;
    return ea_batch_parse(&b, (const uint8_t *)out->data, out->len_bytes, err);
}
