/* Definitions. See definitions.h, and the part of wire.h that has this name. */
#include "definitions.h"
#include "short_directory.h"

#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <zstd.h>

static int corrupt(ea_err *err, const char *what) {
    return ea_fail(err, EA_ECORRUPT, "read a batch's definitions: %s", what);
}

int ea_definition_hash(const uint8_t *data, size_t len_bytes, uint8_t *ret_hash, ea_err *err) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    if (EVP_Digest(data, len_bytes, digest, NULL, EVP_sha256(), NULL) != 1)
        return ea_fail(err, EA_ECRYPTO, "hash a definition");
    memcpy(ret_hash, digest, EA_CLASS_HASH_BYTES);
    return 0;
}

int ea_batch_each_definition(const uint8_t *batch, size_t len_bytes,
                             int (*fn)(enum ea_definition_kind kind, const uint8_t *data, size_t data_bytes, void *arg),
                             void *arg, ea_err *err) {
    size_t offset = 0;
    ea_pb_field f;
    int rc, by_hash = 0;
    while ((rc = ea_pb_next(batch, len_bytes, &offset, &f)) > 0)
        by_hash |= f.number == EA_BATCH_SOURCE_HASHES;
    offset = 0;
    while (!rc && ea_pb_next(batch, len_bytes, &offset, &f) > 0) {
        if (f.type != 2 || (f.number == EA_BATCH_SOURCES && !by_hash))
            continue;
        switch (f.number) {
        case EA_BATCH_DESCRIPTIONS:
        case EA_BATCH_ENUM_MAPS:
        case EA_BATCH_SOURCES:
        case EA_BATCH_SHAPES:
        case EA_BATCH_DICTIONARIES:
            rc = fn((enum ea_definition_kind)f.number, f.data, f.len_bytes, arg);
            if (rc)
                return rc;
            break;
        default:
            break;
        }
    }
    return rc ? corrupt(err, "it is no protobuf message") : 0;
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
        return corrupt(err, "there are fewer than counted");
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
    for (size_t k = lo + 1; k < count && memcmp(list[k].hash, ref, ref_bytes) == 0; k++)
        if (memcmp(list[k].hash, list[lo].hash, EA_CLASS_HASH_BYTES) != 0)
            return EA_ECORRUPT;
    *ret = &list[lo];
    return 1;
}

int ea_shape_refs(const ea_envelope *e, size_t *ret_ref_bytes, size_t *ret_count, ea_err *err) {
    size_t ref_bytes = e->shape_refs_bytes ? e->shape_refs[0] : 0, count = 0;
    if (e->shape_refs_bytes) {
        if (ref_bytes < EA_REF_MIN_BYTES || ref_bytes > EA_CLASS_HASH_BYTES || (e->shape_refs_bytes - 1) % ref_bytes)
            return corrupt(err, "references to shapes of an unusable size");
        count = (e->shape_refs_bytes - 1) / ref_bytes;
        if (count > EA_SHAPES_MAX)
            return ea_fail(err, EA_ELIMIT, "read a batch's definitions: %zu references to shapes", count);
    }
    *ret_ref_bytes = ref_bytes;
    *ret_count = count;
    return 0;
}

void ea_source_hashes(const uint8_t *batch, size_t len_bytes, uint64_t *ret, uint32_t count) {
    size_t offset = 0;
    ea_pb_field f;
    uint32_t n = 0;
    while (n < count && ea_pb_next(batch, len_bytes, &offset, &f) > 0) {
        if (f.number != EA_BATCH_SOURCE_HASHES)
            continue;
        if (f.type == 1)
            ret[n++] = f.value;
        for (size_t i = 0; f.type == 2 && n < count && i + 8 <= f.len_bytes; i += 8)
            ret[n++] = ea_load64(f.data + i);
    }
    for (; n < count; n++)
        ret[n] = 0;
}

typedef struct filling {
    const uint8_t *batch;
    size_t len_bytes;
    const ea_envelope *e;
    const ea_definitions *known; /* NULL: nothing is looked for */
    ea_text *out;
    int lacking;
    ea_pb_field *first;
} filling;

static int fill(filling *f, enum ea_definition_kind kind, const uint8_t *bytes, size_t ref_bytes, ea_err *err) {
    ea_hash_ref ref = {.len_bytes = (uint8_t)ref_bytes};
    const uint8_t *data;
    size_t n;
    memcpy(ref.bytes, bytes, ref_bytes);
    int rc = f->known ? f->known->find(f->known->arg, kind, &ref, &data, &n, err) : 0;
    if (rc < 0)
        return rc;
    if (rc == 0) {
        f->lacking = 1;
        if (f->known && f->known->on_missing)
            f->known->on_missing(f->known->arg, kind, &ref);
        return 0;
    }
    ea_pb_put_bytes(f->out, (uint32_t)kind, data, n);
    return 0;
}

static int fill_sources(filling *f, ea_err *err) {
    const ea_envelope *e = f->e;
    ea_own_definition one, *own = &one, *many = NULL;
    const ea_own_definition *found = NULL;
    uint64_t *hashes = malloc(e->source_hash_count * sizeof *hashes);
    if (!hashes || (e->source_definitions > 1 && !(own = many = malloc(e->source_definitions * sizeof *many)))) {
        free(hashes);
        return ea_fail(err, EA_ENOMEM, "read a batch's sources");
    }
    ea_source_hashes(f->batch, f->len_bytes, hashes, e->source_hash_count);
    int rc = ea_own_definitions(own, e->source_definitions, EA_DEFINES_SOURCE, f->batch, f->len_bytes, err);
    for (uint32_t k = 0; !rc && k < e->source_hash_count; k++) {
        uint8_t ref[8];
        ea_store64(ref, hashes[k]);
        int there = ea_own_definitions_find(own, e->source_definitions, ref, sizeof ref, &found);
        if (there < 0)
            rc = corrupt(err, "several sources of one name");
        else if (!there)
            rc = fill(f, EA_DEFINES_SOURCE, ref, sizeof ref, err);
        if (k == 0 && f->first)
            *f->first = there > 0 ? (ea_pb_field){.type = 2, .data = found->data, .len_bytes = found->len_bytes}
                                  : (ea_pb_field){0};
    }
    free(many);
    free(hashes);
    return rc;
}

static int fill_shapes(filling *f, ea_err *err) {
    const ea_envelope *e = f->e;
    const ea_own_definition *found = NULL;
    size_t ref_bytes, count;
    int rc = ea_shape_refs(e, &ref_bytes, &count, err);
    if (rc || !count)
        return rc;
    ea_own_definition *own = malloc((e->shape_count + (size_t)1) * sizeof *own);
    if (!own)
        return ea_fail(err, EA_ENOMEM, "read a batch's shapes");
    rc = ea_own_definitions(own, e->shape_count, EA_DEFINES_SHAPE, f->batch, f->len_bytes, err);
    for (size_t k = 0; !rc && k < count; k++) {
        const uint8_t *ref = e->shape_refs + 1 + k * ref_bytes;
        int there = ea_own_definitions_find(own, e->shape_count, ref, ref_bytes, &found);
        int again = 0; /* several groups may have one shape */
        for (size_t i = 0; !there && !again && i < k; i++)
            again = memcmp(e->shape_refs + 1 + i * ref_bytes, ref, ref_bytes) == 0;
        if (there < 0)
            rc = corrupt(err, "several shapes of one name");
        else if (!there && !again)
            rc = fill(f, EA_DEFINES_SHAPE, ref, ref_bytes, err);
        if (!f->known && f->lacking)
            break;
    }
    free(own);
    return rc;
}

int ea_lacks_sources(const uint8_t *batch, size_t len_bytes, const ea_envelope *e, ea_pb_field *ret_first,
                     ea_err *err) {
    filling f = {.batch = batch, .len_bytes = len_bytes, .e = e, .first = ret_first};
    int rc = fill_sources(&f, err);
    return rc ? rc : f.lacking;
}

int ea_lacks_shapes(const uint8_t *batch, size_t len_bytes, const ea_envelope *e, ea_err *err) {
    filling f = {.batch = batch, .len_bytes = len_bytes, .e = e};
    int rc = fill_shapes(&f, err);
    return rc ? rc : f.lacking;
}

/* ---- without the dictionary ---- */

static void put_varint(ea_text *out, uint64_t v) {
    uint8_t bytes[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        bytes[n++] = (uint8_t)(v | 0x80);
    bytes[n++] = (uint8_t)v;
    ea_text_add(out, bytes, n);
}

void ea_pb_put_bytes(ea_text *out, uint32_t number, const void *data, size_t len_bytes) {
    put_varint(out, (uint64_t)number << 3 | 2);
    put_varint(out, len_bytes);
    ea_text_add(out, data, len_bytes);
}

typedef struct inflating {
    ZSTD_DCtx *zstd;
    const uint8_t *dictionary;
    size_t dictionary_bytes;
    size_t left_bytes; /* of what the batch may hold decompressed */
    ea_text raw;
} inflating;

/* Decompresses a frame of raw_bytes into z->raw. */
static int inflate(inflating *z, const uint8_t *data, size_t len_bytes, uint64_t raw_bytes, ea_err *err) {
    if (raw_bytes > z->left_bytes || ZSTD_getFrameContentSize(data, len_bytes) != raw_bytes)
        return corrupt(err, "a frame is not of the size that it says, or too large for one with a dictionary");
    z->left_bytes -= (size_t)raw_bytes;
    if (raw_bytes > z->raw.capacity || !z->raw.data) {
        free(z->raw.data);
        z->raw = (ea_text){.data = malloc((size_t)raw_bytes), .capacity = (size_t)raw_bytes};
        if (!z->raw.data)
            return ea_fail(err, EA_ENOMEM, "read a batch");
    }
    size_t n = ZSTD_decompress_usingDict(z->zstd, z->raw.data, (size_t)raw_bytes, data, len_bytes, z->dictionary,
                                         z->dictionary_bytes);
    if (ZSTD_isError(n) || n != raw_bytes)
        return corrupt(err, ZSTD_isError(n) ? ZSTD_getErrorName(n) : "a frame is shorter than it says");
    z->raw.len_bytes = n;
    return 0;
}

static int copy_frame(inflating *z, const ea_pb_field *frame, ea_text *out, ea_err *err) {
    size_t offset = 0;
    ea_pb_field f, data = {0};
    uint64_t raw_bytes = 0;
    int rc;
    while ((rc = ea_pb_next(frame->data, frame->len_bytes, &offset, &f)) > 0) {
        if (f.number == 1 && f.type == 2)
            data = f;
        else if (f.number == 2 && f.type == 0)
            raw_bytes = f.value;
    }
    if (rc)
        return corrupt(err, "a frame is no message");
    if (raw_bytes == 0) {
        ea_pb_put_bytes(out, EA_BATCH_FRAMES, frame->data, frame->len_bytes);
        return 0;
    }
    rc = inflate(z, data.data, data.len_bytes, raw_bytes, err);
    if (rc)
        return rc;
    size_t head = 1;
    for (uint64_t v = raw_bytes; v; v >>= 7)
        head++;
    put_varint(out, EA_BATCH_FRAMES << 3 | 2);
    put_varint(out, head + raw_bytes);
    ea_pb_put_bytes(out, 1, z->raw.data, z->raw.len_bytes);
    return 0;
}

static void put_directory(ea_text *out, const ea_envelope *e, const void *data, size_t len_bytes) {
    static const uint8_t plain = EA_SHORT_DIRECTORY_PLAIN;
    put_varint(out, EA_BATCH_DIRECTORY << 3 | 2);
    put_varint(out, len_bytes + (e->is_short ? sizeof plain : 0));
    if (e->is_short)
        ea_text_add(out, &plain, sizeof plain);
    ea_text_add(out, data, len_bytes);
}

/* The batch with its directory and frames as they are without compression. */
static int copy_inflated(const uint8_t *batch, size_t len_bytes, const ea_envelope *e, inflating *z, ea_text *out,
                         ea_err *err) {
    size_t offset = 0, begin = 0;
    ea_pb_field f;
    int rc = 0;
    while (!rc && ea_pb_next(batch, len_bytes, &offset, &f) > 0) {
        if (f.number == EA_BATCH_FRAMES)
            rc = copy_frame(z, &f, out, err);
        else if (f.number != EA_BATCH_DIRECTORY && f.number != EA_BATCH_DIRECTORY_BYTES &&
                 f.number != EA_BATCH_DICTIONARY && f.number != EA_BATCH_DICTIONARIES)
            ea_text_add(out, batch + begin, offset - begin);
        begin = offset;
    }
    if (rc)
        return rc;
    if (!e->directory_raw_bytes) {
        put_directory(out, e, e->directory, e->directory_bytes);
        return 0;
    }
    const uint8_t *frame = e->directory;
    size_t frame_bytes = e->directory_bytes;
    uint8_t *whole = NULL;
    if (e->is_short) {
        frame_bytes += EA_ZSTD_MAGIC_BYTES;
        if (!(frame = whole = malloc(frame_bytes)))
            return ea_fail(err, EA_ENOMEM, "read a batch");
        ea_short_directory_frame(e->directory, e->directory_bytes, whole);
    }
    rc = inflate(z, frame, frame_bytes, e->directory_raw_bytes, err);
    if (!rc)
        put_directory(out, e, z->raw.data, z->raw.len_bytes);
    free(whole);
    return rc;
}

static int find_dictionary(filling *f, const uint8_t *ref, const uint8_t **ret, size_t *ret_bytes, ea_err *err) {
    size_t offset = 0;
    ea_pb_field in;
    ea_hash_ref wanted = {.len_bytes = 8};
    memcpy(wanted.bytes, ref, 8);
    while (ea_pb_next(f->batch, f->len_bytes, &offset, &in) > 0) {
        uint8_t hash[EA_CLASS_HASH_BYTES];
        if (in.number != EA_BATCH_DICTIONARIES || in.len_bytes > EA_DICTIONARY_MAX_BYTES)
            continue;
        int rc = ea_definition_hash(in.data, in.len_bytes, hash, err);
        if (rc)
            return rc;
        if (memcmp(hash, ref, 8) == 0) {
            *ret = in.data;
            *ret_bytes = in.len_bytes;
            return 1;
        }
    }
    int rc = f->known->find(f->known->arg, EA_DEFINES_DICTIONARY, &wanted, ret, ret_bytes, err);
    if (rc == 0) {
        f->lacking = 1;
        if (f->known->on_missing)
            f->known->on_missing(f->known->arg, EA_DEFINES_DICTIONARY, &wanted);
    }
    return rc;
}

static int without_dictionary(filling *f, ea_err *err) {
    uint8_t ref[8];
    inflating z = {.left_bytes = EA_DICTIONARY_RAW_MAX_BYTES};
    ea_store64(ref, f->e->dictionary);
    int rc = find_dictionary(f, ref, &z.dictionary, &z.dictionary_bytes, err);
    if (rc <= 0)
        return rc;
    z.zstd = ZSTD_createDCtx();
    rc =
        z.zstd ? copy_inflated(f->batch, f->len_bytes, f->e, &z, f->out, err) : ea_fail(err, EA_ENOMEM, "read a batch");
    ZSTD_freeDCtx(z.zstd);
    free(z.raw.data);
    return rc;
}

int ea_batch_complete(const uint8_t *batch, size_t len_bytes, const ea_definitions *known, ea_text *out, ea_err *err) {
    ea_envelope e;
    int rc = ea_envelope_read(&e, batch, len_bytes, err);
    if (rc || !e.head.is_incomplete)
        return rc;
    ea_text_clear(out);
    filling f = {.batch = batch, .len_bytes = len_bytes, .e = &e, .known = known, .out = out};
    if (e.dictionary)
        rc = without_dictionary(&f, err);
    else
        ea_text_add(out, batch, len_bytes);
    if (!rc && e.source_hash_count)
        rc = fill_sources(&f, err);
    if (!rc)
        rc = fill_shapes(&f, err);
    if (rc)
        return rc;
    if (f.lacking)
        return ea_fail(err, EA_ENOTFOUND,
                       "read batch %" PRIu64 ": sources, shapes or a dictionary that it names are nowhere",
                       e.head.number);
    return out->failed ? ea_fail(err, EA_ENOMEM, "read a batch") : 1;
}
