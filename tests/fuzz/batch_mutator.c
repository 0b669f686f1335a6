/* See batch_mutator.h. */
#include "tests/fuzz/batch_mutator.h"
#include "tests/fuzz/batch_columns.h"

#include "proto/wire/checksum.h"
#include "proto/wire/envelope.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

enum { FIELDS = 512, DEEPEST = 8, MOST_BYTES = 1 << 20 };

static size_t put_varint(uint8_t *out, uint64_t v) {
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    return n;
}

typedef struct place {
    size_t begin, end; /* with its tag */
    ea_pb_field f;
} place;

static size_t fields_of(const uint8_t *data, size_t size, place *at) {
    size_t n = 0, offset = 0;
    while (n < FIELDS) {
        at[n].begin = offset;
        if (ea_pb_next(data, size, &offset, &at[n].f) <= 0)
            break;
        at[n++].end = offset;
    }
    return n;
}

/* Puts new_bytes where [begin, end) is; 0 when there is no room. */
static size_t splice(uint8_t *data, size_t size, size_t max, size_t begin, size_t end, const uint8_t *bytes, size_t n) {
    if (size - (end - begin) + n > max)
        return 0;
    memmove(data + begin + n, data + end, size - end);
    if (n)
        memcpy(data + begin, bytes, n);
    return size - (end - begin) + n;
}

static size_t put_field(uint8_t *data, size_t size, size_t max, const place *p, const uint8_t *content, size_t n) {
    uint8_t *whole = malloc(n + 20);
    size_t head = put_varint(whole, (uint64_t)p->f.number << 3 | 2);
    head += put_varint(whole + head, n);
    if (n)
        memcpy(whole + head, content, n);
    size = splice(data, size, max, p->begin, p->end, whole, head + n);
    free(whole);
    return size;
}

static size_t mutate(uint8_t *data, size_t size, size_t max, unsigned depth, unsigned *random) {
    static const uint64_t NUMBERS[] = {
        0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 64, 255, 65535, 262144, UINT32_MAX, 1ull << 32, (1ull << 32) + 1, UINT64_MAX};
    place *at = calloc(FIELDS, sizeof *at);
    size_t n = fields_of(data, size, at), made = 0;
    if (n && batch_random(random) % 16) {
        const place *p = &at[batch_random(random) % n], *other = &at[batch_random(random) % n];
        unsigned what = batch_random(random) % 12;
        if (what == 0) {
            made = splice(data, size, max, p->begin, p->end, NULL, 0);
        } else if (what <= 2) { /* another field in its place, or before it */
            size_t bytes = other->end - other->begin;
            uint8_t *copy = malloc(bytes);
            memcpy(copy, data + other->begin, bytes);
            made = splice(data, size, max, p->begin, what == 1 ? p->end : p->begin, copy, bytes);
            free(copy);
        } else if (p->f.type == 0) {
            uint8_t whole[20];
            uint64_t v = what < 6 ? NUMBERS[batch_random(random) % (sizeof NUMBERS / sizeof *NUMBERS)]
                                  : p->f.value + batch_random(random) % 5 - 2;
            size_t head = put_varint(whole, (uint64_t)p->f.number << 3);
            made = splice(data, size, max, p->begin, p->end, whole, head + put_varint(whole + head, v));
        } else if (p->f.type == 2) {
            size_t room = p->f.len_bytes * 2 + 64;
            uint8_t *content = malloc(room);
            if (p->f.len_bytes)
                memcpy(content, p->f.data, p->f.len_bytes);
            size_t bytes = depth < DEEPEST && what < 10 ? mutate(content, p->f.len_bytes, room, depth + 1, random)
                                                        : LLVMFuzzerMutate(content, p->f.len_bytes, room);
            made = put_field(data, size, max, p, content, bytes);
            free(content);
        }
    }
    free(at);
    return made ? made : LLVMFuzzerMutate(data, size, max);
}

/* Replaces a message's zstd frame in field `frame` by its uncompressed bytes. Removes field `bytes`,
 * which has the size of the uncompressed bytes. */
static size_t opened(uint8_t *data, size_t size, size_t max, uint32_t frame, uint32_t bytes) {
    place *at = calloc(FIELDS, sizeof *at);
    size_t n = fields_of(data, size, at);
    const place *f = NULL, *b = NULL;
    for (size_t i = 0; i < n; i++) {
        f = at[i].f.number == frame && at[i].f.type == 2 ? &at[i] : f;
        b = at[i].f.number == bytes && at[i].f.type == 0 ? &at[i] : b;
    }
    if (f && b && b->f.value && b->f.value <= MOST_BYTES) {
        uint8_t *raw = malloc((size_t)b->f.value);
        size_t got = ZSTD_decompress(raw, (size_t)b->f.value, f->f.data, f->f.len_bytes);
        if (!ZSTD_isError(got) && size + got <= max) {
            place first = *f, second = *b;
            if (first.begin < second.begin) /* the later one first, so that the other stays where it is */
                size = splice(data, size, max, second.begin, second.end, NULL, 0);
            size = put_field(data, size, max, &first, raw, got);
            if (first.begin > second.begin)
                size = splice(data, size, max, second.begin, second.end, NULL, 0);
        }
        free(raw);
    }
    free(at);
    return size;
}

static size_t open_frames(uint8_t *data, size_t size, size_t max) {
    place *at = calloc(FIELDS, sizeof *at);
    size = opened(data, size, max, EA_BATCH_DIRECTORY, EA_BATCH_DIRECTORY_BYTES);
    size_t n = fields_of(data, size, at);
    while (n--)
        if (at[n].f.number == EA_BATCH_FRAMES && at[n].f.type == 2 && at[n].f.len_bytes < MOST_BYTES) {
            size_t room = max - size + at[n].f.len_bytes;
            uint8_t *frame = malloc(room ? room : 1);
            if (at[n].f.len_bytes)
                memcpy(frame, at[n].f.data, at[n].f.len_bytes);
            size_t bytes = opened(frame, at[n].f.len_bytes, room, 1, 2), made;
            made = put_field(data, size, max, &at[n], frame, bytes);
            size = made ? made : size;
            free(frame);
        }
    free(at);
    return size;
}

/* Appends the checksum and the time range of the current records after all other fields. In protobuf the last value of
 * a field counts. */
static size_t seal(uint8_t *data, size_t size, size_t max) {
    ea_err err;
    ea_registry *registry = NULL;
    ea_batch_view *v = NULL;
    const ea_record *r;
    const ea_class *c;
    uint64_t checksum = 0, number = 0, bytes = 0;
    int64_t low = INT64_MAX, high = INT64_MIN;
    int rc = ea_registry_create(&registry, 1000, &err);
    if (!rc && !(rc = ea_batch_open(&v, data, size, registry, &err))) {
        /* what a reader lets through beyond all bounds is for the target to find, which has a time-out */
        while (bytes <= (uint64_t)4 * EA_BATCH_MAX_RAW_BYTES && (rc = ea_batch_next(v, &r, &c, &err)) > 0) {
            bytes += r->payload_bytes;
            for (unsigned i = 0; i < r->ext_count; i++)
                bytes += r->ext[i].size_bytes;
            int64_t t =
                ea_clock_convert(&ea_batch_source(v, r->source)->clock, &ea_batch_source(v, 0)->clock, r->time_raw);
            low = t < low ? t : low;
            high = t > high ? t : high;
            checksum += ea_record_checksum(number++, r);
        }
        ea_batch_close(v);
    }
    ea_registry_destroy(registry);
    if (rc || low > high || (uint64_t)high - (uint64_t)low > INT64_MAX)
        return size;
    place *at = calloc(FIELDS, sizeof *at);
    for (size_t n = fields_of(data, size, at); n--;)
        if (at[n].f.number == 6 || at[n].f.number == 8)
            size = splice(data, size, max, at[n].begin, at[n].end, NULL, 0);
    free(at);
    uint8_t tail[32];
    tail[0] = 6 << 3 | 1;
    ea_store64(tail + 1, checksum);
    tail[9] = 8 << 3;
    size_t n = 10 + put_varint(tail + 10, (uint64_t)high - (uint64_t)low);
    size_t made = splice(data, size, max, size, size, tail, n);
    return made ? made : size;
}

size_t batch_mutate(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    unsigned random = seed;
    if (batch_random(&random) % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    size_t made = batch_random(&random) % 4 ? batch_change_columns(data, size, max_size, &random) : 0;
    if (made) {
        size = made;
    } else {
        size = open_frames(data, size, max_size);
        size = mutate(data, size, max_size, 0, &random);
    }
    return batch_random(&random) % 4 ? seal(data, size, max_size) : size;
}
