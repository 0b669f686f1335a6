/* The spool's formats on disk. See spool_file.h. */
#include "service/spool/spool_file.h"
#include "proto/base/array.h"
#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

static const char HEAD_MAGIC[8] = {'E', 'A', 'S', 'P', 'O', 'O', 'L', '0' + EA_SPOOL_VERSION};
#define RECORD_MAGIC  0x52534145u /* "EASR" */
#define HEAD_SEED     0x6c6f6f7073u
#define SEGMENT_LABEL "etwagent spool segment"

enum { FIELDS_BYTES = EA_SPOOL_RECORD_BYTES - 16 };

static const char STATE_FIRST_WORDS[] = "etwagent spool state ";

static int other_version(const char *what, uint64_t version, ea_err *err) {
    return ea_fail(err, EA_EUNSUPPORTED, "read %s: another format (version %llu, this program reads %d)", what,
                   (unsigned long long)version, EA_SPOOL_VERSION);
}

size_t ea_spool_put_head(uint8_t *out, uint64_t sequence, const ea_spool_head *head) {
    size_t n = 32;
    memcpy(out, HEAD_MAGIC, 8);
    ea_store64(out + 8, sequence);
    ea_store32(out + 16, head->priority);
    ea_store32(out + 20, head->is_sealed ? 1 : 0);
    ea_store64(out + 24, (uint64_t)head->created_utc_ns);
    if (head->is_sealed) {
        memcpy(out + 32, head->key_id, sizeof head->key_id);
        memcpy(out + 40, head->salt, sizeof head->salt);
        n = 56;
    }
    ea_store64(out + n, ea_hash64(out, n, HEAD_SEED));
    return n + 8;
}

size_t ea_spool_is_head(const uint8_t *data, size_t len_bytes, uint64_t sequence, ea_spool_head *ret) {
    if (len_bytes < EA_SPOOL_HEAD_BYTES || memcmp(data, HEAD_MAGIC, 8) != 0 || ea_load64(data + 8) != sequence ||
        ea_load32(data + 16) >= EA_SPOOL_PRIORITIES || ea_load32(data + 20) > 1)
        return 0;
    ea_spool_head head = {.priority = ea_load32(data + 16),
                          .created_utc_ns = (int64_t)ea_load64(data + 24),
                          .is_sealed = ea_load32(data + 20) == 1};
    size_t n = head.is_sealed ? EA_SPOOL_SEALED_HEAD_BYTES : EA_SPOOL_HEAD_BYTES;
    if (len_bytes < n || ea_load64(data + n - 8) != ea_hash64(data, n - 8, HEAD_SEED))
        return 0;
    if (head.is_sealed) {
        memcpy(head.key_id, data + 32, sizeof head.key_id);
        memcpy(head.salt, data + 40, sizeof head.salt);
    }
    if (ret)
        *ret = head;
    return n;
}

int ea_spool_is_torn_head(const uint8_t *data, size_t len_bytes, uint64_t sequence) {
    return len_bytes < EA_SPOOL_HEAD_BYTES ||
           (len_bytes < EA_SPOOL_SEALED_HEAD_BYTES && memcmp(data, HEAD_MAGIC, 8) == 0 &&
            ea_load64(data + 8) == sequence && ea_load32(data + 20) == 1);
}

int ea_spool_segment_key(const ea_spool_keys *keys, uint64_t sequence, const ea_spool_head *head, ea_sealing_key *ret,
                         ea_err *err) {
    uint8_t bytes[EA_SPOOL_SEALED_HEAD_BYTES];
    size_t n = ea_spool_put_head(bytes, sequence, head);
    return ea_sealing_key_derive(ret, keys, head->key_id, SEGMENT_LABEL, bytes, n - 8, err);
}

static void spool_file_put_fields(uint8_t *out, const ea_spool_record *r) {
    memcpy(out, r->stream, EA_STREAM_ID_BYTES);
    ea_store64(out + 16, r->number);
    ea_store32(out + 24, r->event_count);
    ea_store16(out + 28, r->priority);
    ea_store16(out + 30, r->flags);
}

int ea_spool_seal(const ea_sealing_key *key, uint64_t nonce, ea_spool_record *r, uint8_t *out, ea_err *err) {
    ea_spool_record sealed = *r;
    uint8_t fields[FIELDS_BYTES];
    sealed.flags |= EA_SPOOL_SEALED;
    sealed.batch = out;
    sealed.len_bytes += EA_SPOOL_SEAL_BYTES;
    spool_file_put_fields(fields, &sealed);
    ea_store64(out, nonce);
    int rc = ea_seal(key, nonce, fields, sizeof fields, r->batch, r->len_bytes, out + 8, err);
    if (!rc)
        *r = sealed;
    return rc;
}

int ea_spool_unseal(const ea_sealing_key *key, ea_spool_record *r, uint8_t *out, ea_err *err) {
    uint8_t fields[FIELDS_BYTES];
    spool_file_put_fields(fields, r);
    int rc = ea_unseal(key, ea_load64(r->batch), fields, sizeof fields, r->batch + 8, r->len_bytes - 8, out, err);
    if (rc)
        return rc;
    r->batch = out;
    r->len_bytes -= EA_SPOOL_SEAL_BYTES;
    r->flags &= (uint16_t)~EA_SPOOL_SEALED;
    return 0;
}

/* Chained over the two parts, which are not contiguous when a record is written. The length is in the seed: a record
 * with a damaged length must be refused. */
static uint64_t checksum(const uint8_t *fields, const uint8_t *batch, uint32_t len_bytes, uint64_t sequence) {
    uint64_t h = ea_hash64(fields, FIELDS_BYTES, sequence ^ (uint64_t)len_bytes << 32);
    return ea_hash64(batch, len_bytes, h);
}

void ea_spool_put_record(uint8_t *out, const ea_spool_record *r, uint64_t sequence) {
    ea_store32(out, RECORD_MAGIC);
    ea_store32(out + 4, r->len_bytes);
    spool_file_put_fields(out + 16, r);
    ea_store64(out + 8, checksum(out + 16, r->batch, r->len_bytes, sequence));
}

int ea_spool_get_record(const uint8_t *data, size_t len_bytes, uint64_t sequence, ea_spool_record *ret) {
    if (len_bytes < EA_SPOOL_RECORD_BYTES || ea_load32(data) != RECORD_MAGIC)
        return 0;
    uint32_t n = ea_load32(data + 4);
    uint32_t seal_bytes = ea_load16(data + 46) & EA_SPOOL_SEALED ? EA_SPOOL_SEAL_BYTES : 0;
    if (n <= seal_bytes || n - seal_bytes > EA_BATCH_MAX_BYTES || n > len_bytes - EA_SPOOL_RECORD_BYTES)
        return 0;
    ea_spool_record r = {.batch = data + EA_SPOOL_RECORD_BYTES,
                         .len_bytes = n,
                         .number = ea_load64(data + 32),
                         .event_count = ea_load32(data + 40),
                         .priority = ea_load16(data + 44),
                         .flags = ea_load16(data + 46)};
    memcpy(r.stream, data + 16, EA_STREAM_ID_BYTES);
    if (ea_load64(data + 8) != checksum(data + 16, r.batch, n, sequence) || r.number == 0 ||
        r.priority >= EA_SPOOL_PRIORITIES)
        return 0;
    *ret = r;
    return 1;
}

int ea_spool_scan(const uint8_t *data, size_t len_bytes, uint64_t sequence,
                  int (*fn)(const ea_spool_record *record, void *arg), void *arg, ea_spool_scanned *ret, ea_err *err) {
    size_t at = ea_spool_is_head(data, len_bytes, sequence, NULL);
    if (!at && len_bytes >= 16 && memcmp(data, HEAD_MAGIC, 7) == 0 && data[7] >= '1' && data[7] <= '9' &&
        data[7] != '0' + EA_SPOOL_VERSION && ea_load64(data + 8) == sequence)
        return other_version("a spool segment", data[7] - '0', err);
    if (!at)
        return ea_fail(err, EA_EFORMAT, "read a spool segment: expected the head of segment %llu",
                       (unsigned long long)sequence);
    ea_spool_scanned scanned = {.whole_bytes = at};
    while (at < len_bytes) {
        ea_spool_record r;
        if (!ea_spool_get_record(data + at, len_bytes - at, sequence, &r)) {
            /* damage, or the torn tail: on to the next byte that could open a record */
            const uint8_t *next = memchr(data + at + 1, RECORD_MAGIC & 0xff, len_bytes - at - 1);
            at = next ? (size_t)(next - data) : len_bytes;
            continue;
        }
        r.offset = at;
        scanned.bad_bytes += at - scanned.whole_bytes;
        at += EA_SPOOL_RECORD_BYTES + (size_t)r.len_bytes;
        scanned.whole_bytes = at;
        if (r.flags & EA_SPOOL_SUMMARY)
            continue;
        scanned.records++;
        int rc = fn(&r, arg);
        if (rc)
            return rc;
    }
    scanned.torn_bytes = len_bytes - scanned.whole_bytes;
    *ret = scanned;
    return 0;
}

int ea_range_set_add(ea_range_set *s, uint64_t first, uint64_t last) {
    /* lo: the first range that ends at or after first - 1; hi: the first one that begins after last + 1 */
    size_t lo = 0, n = s->count;
    while (n) {
        size_t half = n / 2;
        if (s->ranges[lo + half].last < first && first - s->ranges[lo + half].last > 1) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    size_t hi = lo;
    while (hi < s->count && (s->ranges[hi].first <= last || s->ranges[hi].first - last == 1))
        hi++;
    if (lo == hi) {
        if (EA_GROW(s->ranges, s->capacity, s->count + 1, SIZE_MAX))
            return EA_ENOMEM;
        memmove(s->ranges + lo + 1, s->ranges + lo, (s->count - lo) * sizeof *s->ranges);
        s->ranges[lo] = (ea_range){first, last};
        s->count++;
        return 0;
    }
    ea_range merged = {s->ranges[lo].first < first ? s->ranges[lo].first : first,
                       s->ranges[hi - 1].last > last ? s->ranges[hi - 1].last : last};
    s->ranges[lo] = merged;
    memmove(s->ranges + lo + 1, s->ranges + hi, (s->count - hi) * sizeof *s->ranges);
    s->count -= hi - lo - 1;
    return 0;
}

int ea_range_set_has(const ea_range_set *s, uint64_t number) {
    size_t lo = 0, n = s->count;
    while (n) {
        size_t half = n / 2;
        if (s->ranges[lo + half].last < number) {
            lo += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return lo < s->count && s->ranges[lo].first <= number;
}

int ea_range_set_rank(const ea_range_set *s, uint64_t number, uint64_t *ret) {
    uint64_t before = 0;
    for (size_t i = 0; i < s->count && s->ranges[i].first <= number; i++) {
        if (number <= s->ranges[i].last) {
            *ret = before + (number - s->ranges[i].first);
            return 1;
        }
        before += s->ranges[i].last - s->ranges[i].first + 1;
    }
    return 0;
}

void ea_spool_state_deinit(ea_spool_stream_state *s) {
    for (size_t i = 0; i < s->moved_count; i++)
        free(s->moved[i].numbers.ranges);
    free(s->moved);
    free(s->acknowledged.ranges);
    free(s->numbers);
    s->moved = NULL;
    s->moved_count = 0;
    s->numbers = NULL;
    s->acknowledged = (ea_range_set){0};
}

int ea_spool_state_has_moved(const ea_spool_stream_state *s, const uint8_t *stream, uint64_t number, uint64_t *ret) {
    uint64_t rank;
    for (size_t i = 0; i < s->moved_count; i++)
        if (memcmp(s->moved[i].stream, stream, EA_STREAM_ID_BYTES) == 0 &&
            ea_range_set_rank(&s->moved[i].numbers, number, &rank)) {
            *ret = s->moved[i].base + rank;
            return 1;
        }
    return 0;
}

void ea_range_set_put(ea_text *out, const ea_range_set *set) {
    for (size_t i = 0; i < set->count; i++)
        ea_text_printf(out, "%s%llu-%llu", i ? "," : "", (unsigned long long)set->ranges[i].first,
                       (unsigned long long)set->ranges[i].last);
    ea_text_str(out, set->count ? "\n" : "-\n");
}

void ea_spool_state_begin(ea_text *out) {
    ea_text_printf(out, "%s%d\n", STATE_FIRST_WORDS, EA_SPOOL_VERSION);
}

void ea_spool_state_stream(ea_text *out, const ea_spool_stream_state *s) {
    ea_text_str(out, "stream ");
    ea_text_hex(out, s->stream, sizeof s->stream);
    ea_text_printf(out, " %d %016llx %llu ", s->resumable, (unsigned long long)s->target,
                   (unsigned long long)s->highest);
    ea_range_set_put(out, &s->acknowledged);
    for (size_t i = 0; i < s->moved_count; i++) {
        ea_text_str(out, "moved ");
        ea_text_hex(out, s->moved[i].stream, EA_STREAM_ID_BYTES);
        ea_text_printf(out, " %llu ", (unsigned long long)s->moved[i].base);
        ea_range_set_put(out, &s->moved[i].numbers);
    }
    if (s->numbers)
        ea_last_numbers_put(out, s->numbers);
}

void ea_spool_state_end(ea_text *out) {
    if (!out->failed)
        ea_text_printf(out, "end %016llx\n", (unsigned long long)ea_hash64(out->data, out->len_bytes, HEAD_SEED));
}

int ea_range_set_parse(const char **at, ea_range_set *ret) {
    int good = 1;
    if (!ea_text_parse(at, "-")) {
        do {
            uint64_t first, last;
            good = ea_digits_parse(at, 10, &first) && ea_text_parse(at, "-") && ea_digits_parse(at, 10, &last) &&
                   first && first <= last && !ea_range_set_add(ret, first, last);
        } while (good && ea_text_parse(at, ","));
    }
    return good && ea_text_parse(at, "\n");
}

int ea_stream_id_parse(const char **at, uint8_t *ret) {
    char hex[2 * EA_STREAM_ID_BYTES + 1];
    size_t n = 0;
    while (n < sizeof hex - 1 && (*at)[n] && (*at)[n] != ' ') {
        hex[n] = (*at)[n];
        n++;
    }
    hex[n] = 0;
    *at += n;
    size_t got;
    return !ea_hex_parse(hex, ret, EA_STREAM_ID_BYTES, &got) && got == EA_STREAM_ID_BYTES && ea_text_parse(at, " ");
}

static int parse_moved(const char **at, ea_spool_stream_state *s) {
    ea_spool_moved *grown = realloc(s->moved, (s->moved_count + 1) * sizeof *grown);
    if (!grown)
        return 0;
    s->moved = grown;
    ea_spool_moved *m = &s->moved[s->moved_count++];
    *m = (ea_spool_moved){.base = 0};
    return ea_stream_id_parse(at, m->stream) && ea_digits_parse(at, 10, &m->base) && m->base &&
           ea_text_parse(at, " ") && ea_range_set_parse(at, &m->numbers);
}

/* 1 and the stream (which then owns memory), 0 when the line is wrong. */
static int parse_stream(const char **at, ea_spool_stream_state *ret) {
    ea_spool_stream_state s = {0};
    uint64_t resumable;
    if (!ea_stream_id_parse(at, s.stream) || !ea_digits_parse(at, 10, &resumable) ||
        resumable > EA_SPOOL_REPLAY_COMPLETE || !ea_text_parse(at, " ") || !ea_digits_parse(at, 16, &s.target) ||
        !ea_text_parse(at, " ") || !ea_digits_parse(at, 10, &s.highest) || !ea_text_parse(at, " "))
        return 0;
    s.resumable = (int)resumable;
    int good = ea_range_set_parse(at, &s.acknowledged);
    while (good && ea_text_parse(at, "moved "))
        good = s.moved_count < EA_SPOOL_MOVED_MAX && parse_moved(at, &s);
    if (good && ea_text_parse(at, "ledger "))
        good = (s.numbers = ea_last_numbers_parse(at)) != NULL;
    if (!good) {
        ea_spool_state_deinit(&s);
        return 0;
    }
    *ret = s;
    return 1;
}

int ea_spool_state_parse(const char *data, size_t len_bytes, int (*fn)(ea_spool_stream_state *s, void *arg), void *arg,
                         ea_err *err) {
    const char *at = data;
    int rc = 0;
    size_t count = 0;
    ea_spool_stream_state *streams = calloc(EA_SPOOL_STREAMS_MAX, sizeof *streams);
    if (!streams)
        return ea_fail(err, EA_ENOMEM, "read the spool's state");
    uint64_t version = 0;
    int good = strlen(data) == len_bytes && ea_text_parse(&at, STATE_FIRST_WORDS) &&
               ea_digits_parse(&at, 10, &version) && ea_text_parse(&at, "\n");
    if (good && version && version != EA_SPOOL_VERSION) {
        free(streams);
        return other_version("the spool's state", version, err);
    }
    while (good && ea_text_parse(&at, "stream "))
        good = count < EA_SPOOL_STREAMS_MAX && parse_stream(&at, &streams[count]) && ++count;
    uint64_t said, is = ea_hash64(data, (size_t)(at - data), HEAD_SEED);
    good = good && ea_text_parse(&at, "end ") && ea_digits_parse(&at, 16, &said) && ea_text_parse(&at, "\n") &&
           *at == 0 && said == is;
    if (!good)
        rc = ea_fail(err, EA_ECORRUPT, "read the spool's state: damaged at offset %zu", (size_t)(at - data));
    for (size_t i = 0; i < count; i++) {
        if (!rc)
            rc = fn(&streams[i], arg);
        else
            ea_spool_state_deinit(&streams[i]);
    }
    free(streams);
    return rc;
}
