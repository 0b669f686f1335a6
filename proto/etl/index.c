/* The index of a file: where its buffers are and when each begins.
 * Input: a file whose header event is read. Called by: merge.c, which activates buffers in the order of their keys.
 * Thread: the source's.
 *
 * Buffers follow each other in the file. In an ordinary file all have the same size, so that a damaged header costs
 * only the facts that it states. In a compressed file sizes differ, and after a damaged header the next header is
 * searched. A file that is still being written is indexed piece by piece, by an indexer that stays (ea_etl_tail). */
#include "proto/etl/layout.h"

#include <stdlib.h>
#include <string.h>

enum {
    PEEK_BYTES = EA_ETL_HEADER_BYTES + 1024, /* read of each buffer: its header and the first records' headers */
    FIRST_BYTES = 512,                       /* decompressed of each buffer */
    SEARCH_BYTES = 1 << 16,
    RESERVE_COUNT = 1 << 24,
    HALF_HEADER = 4, /* of the 8 points of a score: more than chance, less than sound */
};

typedef struct indexer {
    ea_etl_index *index;
    ea_etl_file *file;
    uint16_t file_number;
    const ea_etl_options *options;
    ea_err *err;
    int packed; /* sizes differ from buffer to buffer */
    int any_compressed;
    uint32_t grid_bytes; /* size of every buffer when not packed */
    uint64_t at, end;    /* what is to be indexed now: bytes of the file */
    uint64_t number;     /* of the next buffer */
    size_t *last_of_cpu; /* 1 + entry of the last buffer of each CPU; 0: none */
    size_t cpu_capacity;
    int64_t believed_raw; /* the last key */
    ea_etl_buffer scan_buffer;
    ea_etl_scratch scratch;
    uint8_t *search;                /* SEARCH_BYTES + PEEK_BYTES, made when needed */
    uint64_t zeros_at, zeros_bytes; /* a run of zeroed buffers not reported yet */
} indexer;

static int index_fail_memory(indexer *x) {
    return ea_fail(x->err, EA_ENOMEM, "index %s", x->file->info.path);
}

static int index_read_at(indexer *x, uint64_t offset, uint8_t *out, size_t wanted, size_t *got) {
    int rc = ea_file_read_at(x->file->handle, offset, out, wanted, got, x->err);
    if (!rc && *got < wanted)
        memset(out + *got, 0, wanted - *got);
    return rc;
}

/* The score of the header at offset; 0, and a header of zeros, when it does not fit into the file. */
static int score_at(indexer *x, uint64_t offset, unsigned *ret, ea_etl_buffer_header *ret_header) {
    uint8_t p[EA_ETL_HEADER_BYTES];
    size_t got;
    *ret = 0;
    *ret_header = (ea_etl_buffer_header){0};
    if (offset >= x->file->info.file_bytes)
        return 0;
    int rc = index_read_at(x, offset, p, sizeof p, &got);
    if (rc || got < sizeof p)
        return rc;
    ea_etl_parse_buffer_header(p, ret_header);
    *ret = ea_etl_score_buffer_header(ret_header);
    return 0;
}

static int is_zero(const uint8_t *p, size_t len) {
    return len == 0 || (p[0] == 0 && memcmp(p, p + 1, len - 1) == 0);
}

/* The next header of a packed file at or after from; file_bytes when there is none. A candidate must be sound and
 * compressed as the file is, and another likely header or the file's end must follow it. */
static int find_header(indexer *x, uint64_t from, uint64_t *ret) {
    uint64_t end = x->file->info.file_bytes;
    int rc;
    if (!x->search && !(x->search = malloc(SEARCH_BYTES + EA_ETL_HEADER_BYTES)))
        return index_fail_memory(x);
    for (uint64_t base = from; base < end; base += SEARCH_BYTES) {
        size_t got;
        if ((rc = index_read_at(x, base, x->search, SEARCH_BYTES + EA_ETL_HEADER_BYTES, &got)))
            return rc;
        if (is_zero(x->search, SEARCH_BYTES + EA_ETL_HEADER_BYTES)) {
            /* a header may begin with zeros: the search goes on a little before the first other byte can be */
            uint64_t data = ea_file_skip_hole(x->file->handle, base);
            if (data - base > SEARCH_BYTES + EA_ETL_HEADER_BYTES)
                base = data - SEARCH_BYTES - EA_ETL_HEADER_BYTES;
            continue;
        }
        size_t places = got >= EA_ETL_HEADER_BYTES ? got - EA_ETL_HEADER_BYTES + 1 : 0;
        if (places > SEARCH_BYTES)
            places = SEARCH_BYTES;
        for (size_t i = 0; i < places; i++) {
            const uint8_t *p = x->search + i;
            ea_etl_buffer_header h;
            if (p[0x35] || !(p[0x34] & EA_ETL_BUFFER_COMPRESSED) || p[0x34] >= 0x80 || p[0x36] >= 8 || p[0x37])
                continue;
            ea_etl_parse_buffer_header(p, &h);
            if (ea_etl_score_buffer_header(&h) != EA_ETL_HEADER_SOUND || h.size_bytes < EA_ETL_HEADER_BYTES + 8)
                continue;
            uint64_t next = base + i + h.size_bytes;
            if (next < end) {
                unsigned score;
                if ((rc = score_at(x, next, &score, &h)))
                    return rc;
                if (score < EA_ETL_HEADER_LIKELY)
                    continue;
            } else if (next > end) {
                continue;
            }
            *ret = base + i;
            return 0;
        }
    }
    *ret = end;
    return 0;
}

/* The time of the first record in data, the start of a buffer with used_bytes of records: 1 and *ret_raw, or 0 when the
 * time is not known without reading the whole buffer. */
static int first_time(const uint8_t *data, size_t data_bytes, uint32_t used_bytes, int64_t *ret_raw) {
    enum { TIME_ENDS = 48 }; /* a record's time ends before this offset */

    uint32_t size = data_bytes >= TIME_ENDS ? ea_etl_record_bytes(data, used_bytes) : 0;
    if (!size)
        return 0;
    int64_t t = ea_etl_record_time(data, INT64_MIN), second;
    if (t == INT64_MIN)
        return 0;
    uint32_t next = (size + 7) & ~7u;
    if (next < used_bytes && next + TIME_ENDS <= data_bytes && ea_etl_record_bytes(data + next, used_bytes - next)) {
        second = ea_etl_record_time(data + next, t);
        if (second < t)
            return 0;
    }
    *ret_raw = t;
    return 1;
}

/* Decodes the whole buffer for its earliest time; the key stays when there is none. */
static int index_scan(indexer *x, ea_etl_entry *e) {
    int rc = ea_etl_decode(x->file, e, 0, &x->scan_buffer, &x->scratch, NULL, x->err);
    if (!rc && x->scan_buffer.walk.count && x->scan_buffer.walk.min_time <= x->scan_buffer.walk.max_time)
        e->key = x->scan_buffer.walk.min_time;
    return rc;
}

static int grow_cpus(indexer *x, uint16_t cpu) {
    size_t capacity = 64;
    while (capacity <= cpu)
        capacity *= 2;
    size_t *last = realloc(x->last_of_cpu, capacity * sizeof *last);
    if (!last)
        return index_fail_memory(x);
    memset(last + x->cpu_capacity, 0, (capacity - x->cpu_capacity) * sizeof *last);
    x->last_of_cpu = last;
    x->cpu_capacity = capacity;
    return 0;
}

/* Adds the buffer at offset. peek: its first PEEK_BYTES, of which got are the file's. */
static int add_buffer(indexer *x, uint64_t offset, uint64_t size, int damaged, const uint8_t *peek, size_t got) {
    ea_etl_buffer_header h;
    ea_etl_parse_buffer_header(peek, &h);
    ea_etl_entry e = {.offset = offset & ((UINT64_C(1) << 48) - 1),
                      .file = x->file_number,
                      .size_bytes = size < EA_ETL_MAX_BUFFER_BYTES ? (uint32_t)size : EA_ETL_MAX_BUFFER_BYTES,
                      .number = (uint32_t)x->number,
                      .key = x->believed_raw};
    x->number++;
    x->file->info.buffer_count++;
    /* Compression is a flag of each buffer. When a buffer's flag differs from the file's other buffers, the first
     * record decides: the flag may be the damaged part. */
    e.compressed = (h.flags & EA_ETL_BUFFER_COMPRESSED) != 0;
    if (e.compressed != x->packed || damaged) {
        int plain = got > EA_ETL_HEADER_BYTES + 8 && ea_etl_record_bytes(peek + EA_ETL_HEADER_BYTES, UINT16_MAX) > 0;
        if (!plain == !e.compressed && h.used_bytes > EA_ETL_HEADER_BYTES) {
            e.compressed = x->packed && !plain;
            damaged = 1;
        }
    }
    if (!damaged && h.used_bytes == EA_ETL_HEADER_BYTES)
        return 0; /* empty */
    e.damaged = damaged != 0;

    uint32_t used = h.used_bytes > EA_ETL_HEADER_BYTES && h.used_bytes <= EA_ETL_MAX_BUFFER_BYTES
                        ? h.used_bytes - EA_ETL_HEADER_BYTES
                        : UINT16_MAX;
    x->any_compressed |= e.compressed;
    int known = 0;
    if (!x->file->scan_buffers && !damaged) {
        if (e.compressed) {
            uint8_t first[FIRST_BYTES + EA_ETL_SLACK_BYTES];
            size_t made = 0;
            size_t in_bytes = got - EA_ETL_HEADER_BYTES;
            int rc = 0;
            if (in_bytes > (size_t)e.size_bytes - EA_ETL_HEADER_BYTES)
                in_bytes = e.size_bytes - EA_ETL_HEADER_BYTES;
            if (x->file->info.compression == EA_ETL_XPRESS)
                rc = ea_xpress_decompress(peek + EA_ETL_HEADER_BYTES, in_bytes, first, FIRST_BYTES, &made);
            else if (x->file->info.compression == EA_ETL_LZNT1)
                rc = ea_lznt1_decompress(peek + EA_ETL_HEADER_BYTES, in_bytes, first, FIRST_BYTES, &made);
            else
                rc = ea_xpress_huff_decompress(peek + EA_ETL_HEADER_BYTES, in_bytes, first, FIRST_BYTES, &made);
            (void)rc; /* the peek ends in the middle of the stream: what came out counts */
            known = first_time(first, made, used, &e.key);
        } else {
            known = first_time(peek + EA_ETL_HEADER_BYTES, PEEK_BYTES - EA_ETL_HEADER_BYTES, used, &e.key);
        }
    }
    int rc = known ? 0 : index_scan(x, &e);
    if (rc)
        return rc;
    /* One CPU's buffers begin in the order of the file. Where they do not, one of the two first records has a damaged
     * time, or a circular file wrapped: both are read whole for their earliest time. */
    if (h.cpu >= x->cpu_capacity && (rc = grow_cpus(x, h.cpu)))
        return rc;
    size_t *last = &x->last_of_cpu[h.cpu];
    if (*last && known && x->index->entries[*last - 1].key > e.key) {
        if ((rc = index_scan(x, &x->index->entries[*last - 1])) || (rc = index_scan(x, &e)))
            return rc;
    }
    x->believed_raw = e.key;
    if ((rc = ea_etl_index_add(x->index, &e, x->err)))
        return rc;
    *last = x->index->count;
    return 0;
}

/* Bytes of whole buffers of the grid at offset that hold nothing but zeros (the file's last buffer may be cut): all
 * those in a hole of the file, or this one, or none. */
static int count_zeros(indexer *x, uint64_t offset, uint64_t *ret) {
    uint64_t data = ea_file_skip_hole(x->file->handle, offset), size = x->grid_bytes;
    if (!x->search && !(x->search = malloc(SEARCH_BYTES + EA_ETL_HEADER_BYTES)))
        return index_fail_memory(x);
    if (data >= x->end)
        *ret = x->end - offset;
    else
        *ret = (data - offset) / size * size;
    if (*ret)
        return 0;
    if (size > x->end - offset)
        size = x->end - offset;
    for (uint64_t at = 0; at < size; at += SEARCH_BYTES) {
        size_t want = size - at < SEARCH_BYTES ? (size_t)(size - at) : SEARCH_BYTES, got;
        int rc = index_read_at(x, offset + at, x->search, want, &got);
        if (rc)
            return rc;
        if (!is_zero(x->search, want))
            return 0;
    }
    *ret = size;
    return 0;
}

/* A run of zeroed buffers (the unused tail of a file that was laid out beforehand, or a hole) is one report. */
static void flush_zeros(indexer *x) {
    if (!x->zeros_bytes)
        return;
    if (x->options && x->options->counters) {
        ea_count(x->options->counters, EA_COUNT_source_bad_bytes, x->zeros_bytes);
        ea_count(x->options->counters, EA_COUNT_source_bad_buffers,
                 x->packed ? 1 : (x->zeros_bytes + x->grid_bytes - 1) / x->grid_bytes);
    }
    ea_etl_report(x->options, x->file, x->zeros_at, 0, x->zeros_bytes, "expected a buffer header, found zeros only");
    x->zeros_bytes = 0;
}

/* Buffers of one size. */
static int index_grid(indexer *x) {
    uint64_t end = x->end, at = x->at;
    uint8_t peek[PEEK_BYTES];
    while (at < end) {
        size_t got;
        ea_etl_buffer_header h, other;
        unsigned score, next_score;
        uint64_t size = x->grid_bytes;
        int rc = index_read_at(x, at, peek, sizeof peek, &got), damaged = 0;
        if (rc)
            return rc;
        ea_etl_parse_buffer_header(peek, &h);
        score = ea_etl_score_buffer_header(&h);
        if (score < EA_ETL_HEADER_SOUND || h.size_bytes != size) {
            damaged = 1;
            if (h.size_bytes != size && score == EA_ETL_HEADER_SOUND) { /* a buffer of another size: does one follow? */
                if ((rc = score_at(x, at + h.size_bytes, &next_score, &other)))
                    return rc;
                if (next_score == EA_ETL_HEADER_SOUND || at + h.size_bytes == end) {
                    size = h.size_bytes;
                    damaged = 0;
                }
            } else if (score < EA_ETL_HEADER_SOUND && is_zero(peek, sizeof peek)) {
                uint64_t zeros = 0;
                if ((rc = count_zeros(x, at, &zeros)))
                    return rc;
                if (zeros) {
                    if (!x->zeros_bytes)
                        x->zeros_at = at;
                    x->zeros_bytes += zeros;
                    x->number += (zeros + size - 1) / size;
                    at += zeros;
                    continue;
                }
            }
        }
        flush_zeros(x);
        if (got < EA_ETL_HEADER_BYTES + 8) { /* a stump */
            ea_etl_report(x->options, x->file, at, 0, got, "the file ends inside a buffer header");
            if (x->options && x->options->counters)
                ea_count(x->options->counters, EA_COUNT_source_bad_bytes, got);
            at = end;
            break;
        }
        if ((rc = add_buffer(x, at, size, damaged, peek, got)))
            return rc;
        at += size;
    }
    flush_zeros(x);
    x->at = at;
    return 0;
}

/* Whether [from, to) holds nothing but zeros; holes are not read. The search memory is there. */
static int only_zeros(indexer *x, uint64_t from, uint64_t to, int *ret) {
    *ret = 0;
    while ((from = ea_file_skip_hole(x->file->handle, from)) < to) {
        size_t want = to - from < SEARCH_BYTES ? (size_t)(to - from) : SEARCH_BYTES, got;
        int rc = index_read_at(x, from, x->search, want, &got);
        if (rc)
            return rc;
        if (!is_zero(x->search, want))
            return 0;
        from += want;
    }
    *ret = 1;
    return 0;
}

/* Between two headers there may be more bytes than a buffer can have: the bytes after one buffer's bytes are
 * skipped. */
static void skip_excess(indexer *x, uint64_t at, uint64_t size) {
    if (size <= EA_ETL_MAX_BUFFER_BYTES)
        return;
    if (x->options && x->options->counters)
        ea_count(x->options->counters, EA_COUNT_source_bad_bytes, size - EA_ETL_MAX_BUFFER_BYTES);
    ea_etl_report(x->options, x->file, at + EA_ETL_MAX_BUFFER_BYTES, 0, size - EA_ETL_MAX_BUFFER_BYTES,
                  "expected a buffer header");
}

/* Buffers of any size. */
static int index_packed(indexer *x) {
    uint64_t end = x->end, at = x->at;
    uint8_t peek[PEEK_BYTES];
    while (at < end) {
        size_t got;
        ea_etl_buffer_header h, other;
        unsigned score, next_score = 0;
        int rc = index_read_at(x, at, peek, sizeof peek, &got), damaged = 0;
        if (rc)
            return rc;
        if (got < EA_ETL_HEADER_BYTES + 8) {
            ea_etl_report(x->options, x->file, at, 0, got, "the file ends inside a buffer header");
            if (x->options && x->options->counters)
                ea_count(x->options->counters, EA_COUNT_source_bad_bytes, got);
            at = end;
            break;
        }
        ea_etl_parse_buffer_header(peek, &h);
        score = ea_etl_score_buffer_header(&h);
        uint64_t size = h.size_bytes, found = end;
        int size_good = size >= EA_ETL_HEADER_BYTES && size <= EA_ETL_MAX_BUFFER_BYTES;
        if (size_good && at + size < end) {
            if ((rc = score_at(x, at + size, &next_score, &other)))
                return rc;
        } else if (size_good && at + size == end) {
            next_score = EA_ETL_HEADER_SOUND;
        }
        if (score < EA_ETL_HEADER_SOUND || next_score < EA_ETL_HEADER_LIKELY) {
            if ((rc = find_header(x, at + EA_ETL_HEADER_BYTES, &found)))
                return rc;
            int zeros = 0;
            if (is_zero(peek, sizeof peek) && (rc = only_zeros(x, at, found, &zeros)))
                return rc;
            if (zeros) {
                x->zeros_at = at;
                x->zeros_bytes = found - at;
                flush_zeros(x);
                x->number++;
                at = found;
                continue;
            }
            /* The size is kept when the next header is sound, or when a later header is found and half a header is at
             * the place that the size gives. */
            int keep =
                size_good && (next_score >= EA_ETL_HEADER_LIKELY || (found > at + size && next_score >= HALF_HEADER) ||
                              (found == end && at + size > end));
            if (!keep)
                size = found - at;
            damaged = !keep || score < EA_ETL_HEADER_SOUND;
        }
        if ((rc = add_buffer(x, at, size, damaged, peek, got)))
            return rc;
        skip_excess(x, at, size);
        at += size;
    }
    x->at = at;
    return 0;
}

/* Whether all buffers have one size, and which size: the mode states it, and the first headers show it. Either may be
 * damaged. */
static int index_choose_layout(indexer *x) {
    const ea_etl_info *info = &x->file->info;
    ea_etl_buffer_header first = {0}, second;
    unsigned first_score, score = 0;
    int rc = score_at(x, 0, &first_score, &first);
    if (rc)
        return rc;
    x->grid_bytes = info->buffer_size_bytes;
    x->packed = (info->log_file_mode & EA_ETL_MODE_COMPRESSED) != 0;
    if (x->packed || first.size_bytes == x->grid_bytes)
        return 0;
    if (first.size_bytes >= 512 && first.size_bytes <= EA_ETL_MAX_BUFFER_BYTES) {
        if ((rc = score_at(x, first.size_bytes, &score, &second)))
            return rc;
        if (score == EA_ETL_HEADER_SOUND) {
            x->grid_bytes = first.size_bytes;
            x->packed = (second.flags & EA_ETL_BUFFER_COMPRESSED) != 0;
            return 0;
        }
    }
    if ((rc = score_at(x, x->grid_bytes, &score, &second)))
        return rc;
    if (score < EA_ETL_HEADER_SOUND) { /* no buffer at either place: is there a compressed one? */
        uint64_t found;
        if ((rc = find_header(x, EA_ETL_HEADER_BYTES, &found)))
            return rc;
        x->packed = found < info->file_bytes;
    }
    return 0;
}

/* Room for the buffers of a file of equal ones at once, within reason: no growing, nothing to spare. */
static int index_reserve(indexer *x) {
    ea_etl_index *index = x->index;
    uint64_t buffers = x->file->info.file_bytes / x->grid_bytes + 1;
    if (buffers > RESERVE_COUNT) /* a buffer size may be a lie */
        buffers = RESERVE_COUNT;
    size_t capacity = index->count + (size_t)buffers;
    if (capacity <= index->capacity)
        return 0;
    ea_etl_entry *entries = realloc(index->entries, capacity * sizeof *entries);
    if (!entries)
        return index_fail_memory(x);
    index->entries = entries;
    index->capacity = capacity;
    return 0;
}

static void indexer_deinit(indexer *x) {
    free(x->last_of_cpu);
    free(x->search);
    ea_etl_scratch_deinit(&x->scratch);
    ea_etl_buffer_deinit(&x->scan_buffer);
}

int ea_etl_index_file(ea_etl_index *index, ea_etl_file *file, uint16_t file_number, const ea_etl_options *options,
                      ea_err *err) {
    if (file->is_evtx)
        return ea_etl_index_evtx(index, file, file_number, err);
    indexer x = {.index = index,
                 .file = file,
                 .file_number = file_number,
                 .options = options,
                 .err = err,
                 .end = file->info.file_bytes,
                 .believed_raw = file->info.clock.base_raw};
    int rc = index_choose_layout(&x);
    if (!rc && !x.packed)
        rc = index_reserve(&x);
    if (!rc)
        rc = x.packed ? index_packed(&x) : index_grid(&x);
    indexer_deinit(&x);
    if (!x.any_compressed)
        file->info.compression = EA_ETL_NONE;
    return rc;
}

/* ---- a file that grows ---- */

struct ea_etl_tail {
    indexer x;
    ea_etl_index index; /* what was found and not taken yet, from next on */
    size_t next;
    int laid_out;        /* packed and grid_bytes are known */
    uint64_t doubted_at; /* the last buffer that did not read well when it was seen first; 0: none */
    int ended;           /* the session is over, and all of the file is indexed */
    /* The first buffer holds the header event, which changes when the session ends: it comes last. */
    ea_etl_entry header;
    int has_header;
};

int ea_etl_tail_create(ea_etl_tail **ret, ea_etl_file *file, uint16_t file_number, const ea_etl_options *options,
                       ea_err *err) {
    ea_etl_tail *t = calloc(1, sizeof *t);
    if (!t)
        return ea_fail(err, EA_ENOMEM, "follow %s", file->info.path);
    t->x = (indexer){.index = &t->index,
                     .file = file,
                     .file_number = file_number,
                     .options = options,
                     .err = err,
                     .believed_raw = file->info.clock.base_raw};
    *ret = t;
    return 0;
}

void ea_etl_tail_destroy(ea_etl_tail *t) {
    if (!t)
        return;
    indexer_deinit(&t->x);
    free(t->index.entries);
    free(t);
}

/* Whether the buffer at the file's end reads without a gap: its first bytes may be there before its last ones. */
static int reads_well(indexer *x, uint64_t offset, uint64_t size, int *ret) {
    ea_etl_buffer_header h;
    unsigned score;
    int rc = score_at(x, offset, &score, &h);
    if (rc)
        return rc;
    ea_etl_entry e = {.offset = offset & ((UINT64_C(1) << 48) - 1),
                      .file = x->file_number,
                      .size_bytes = (uint32_t)size,
                      .compressed = (h.flags & EA_ETL_BUFFER_COMPRESSED) != 0,
                      .key = x->believed_raw};
    rc = ea_etl_decode(x->file, &e, 0, &x->scan_buffer, &x->scratch, NULL, x->err);
    *ret = x->scan_buffer.walk.gap_count == 0 && x->scan_buffer.used_bytes == h.used_bytes;
    return rc;
}

/* What the header event does not say (a relogged file may be compressed without a word) the second buffer shows. */
static int index_lay_out(ea_etl_tail *t, int over) {
    const ea_etl_info *info = &t->x.file->info;
    ea_etl_buffer_header first;
    unsigned score;
    int rc = score_at(&t->x, 0, &score, &first);
    if (rc)
        return rc;
    if (!over && !(info->log_file_mode & EA_ETL_MODE_COMPRESSED) && first.size_bytes != info->buffer_size_bytes &&
        info->file_bytes < (uint64_t)first.size_bytes + EA_ETL_HEADER_BYTES)
        return 0;
    t->laid_out = 1;
    return index_choose_layout(&t->x);
}

/* The end of the whole buffers in the file. After an invalid header, there must be a valid later header; otherwise the
 * invalid header is taken for one that is not written yet. *ret_last: where the last buffer begins. */
static int whole_end(indexer *x, uint64_t *ret_end, uint64_t *ret_last) {
    uint64_t size = x->file->info.file_bytes, at = x->at;
    int rc = 0;
    *ret_end = *ret_last = x->at;
    while (at + EA_ETL_HEADER_BYTES < size) {
        ea_etl_buffer_header h;
        unsigned score;
        if ((rc = score_at(x, at, &score, &h)))
            return rc;
        uint64_t bytes = x->packed ? h.size_bytes : x->grid_bytes;
        if (score == EA_ETL_HEADER_SOUND && (!x->packed || bytes >= EA_ETL_HEADER_BYTES)) {
            if (at + bytes > size)
                return 0;
            *ret_last = at;
            at = *ret_end = at + bytes;
        } else if (!x->packed) {
            at += bytes;
        } else {
            if ((rc = find_header(x, at + EA_ETL_HEADER_BYTES, &at)))
                return rc;
        }
    }
    return 0;
}

int ea_etl_tail_poll(ea_etl_tail *t, int *ret_found, ea_err *err) {
    indexer *x = &t->x;
    ea_etl_info *info = &x->file->info;
    size_t before;
    uint64_t size, last;
    int over = 0, good;
    *ret_found = 0;
    if (t->ended)
        return 0;
    x->err = err;
    if (x->file->is_evtx)
        return ea_fail(err, EA_EUNSUPPORTED, "follow %s: an event log is read as it is, and not while it grows",
                       info->path);
    /* taken entries go, so that the list stays as long as the window is */
    if (t->next) {
        t->index.count -= t->next;
        memmove(t->index.entries, t->index.entries + t->next, t->index.count * sizeof *t->index.entries);
        memset(x->last_of_cpu, 0, x->cpu_capacity * sizeof *x->last_of_cpu);
        t->next = 0;
    }
    before = t->index.count;
    /* what the header says comes before the size: when it says "over", the rest is written already */
    int rc = ea_etl_reread_header(x->file, &over, err);
    if (!rc)
        rc = ea_file_size(x->file->handle, &size, err);
    if (rc)
        return rc;
    info->file_bytes = size;
    x->end = size;
    if (!t->laid_out && ((rc = index_lay_out(t, over)) || !t->laid_out))
        return rc;
    if (!over) {
        if ((rc = whole_end(x, &x->end, &last)))
            return rc;
        if (x->end == size && x->end > x->at && t->doubted_at != last) {
            if ((rc = reads_well(x, last, size - last, &good)))
                return rc;
            if (!good) { /* the next poll takes it as it is then */
                t->doubted_at = last;
                x->end = last;
            }
        }
    }
    if (x->end > x->at)
        rc = x->packed ? index_packed(x) : index_grid(x);
    t->ended = over && !rc;
    *ret_found = t->index.count > before || t->ended;
    return rc;
}

int ea_etl_tail_take(ea_etl_tail *t, ea_etl_entry *ret) {
    if (t->next < t->index.count && t->index.entries[t->next].offset == 0) {
        t->header = t->index.entries[t->next++];
        t->has_header = 1;
    }
    if (t->next < t->index.count) {
        *ret = t->index.entries[t->next++];
        return 1;
    }
    if (!t->ended || !t->has_header)
        return 0;
    *ret = t->header;
    t->has_header = 0;
    return 1;
}

int ea_etl_tail_ended(const ea_etl_tail *t) {
    return t->ended && t->next == t->index.count && !t->has_header;
}

/* ---- sorting ---- */

/* Positions in the merged order; no two entries are equal. */
static int index_compare_entries(const void *left, const void *right) {
    const ea_etl_entry *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->file != b->file)
        return a->file < b->file ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

void ea_etl_index_sort(ea_etl_index *index) {
    const ea_etl_entry *e = index->entries;
    size_t n = index->count, sorted = 1;
    while (sorted < n && index_compare_entries(&e[sorted - 1], &e[sorted]) <= 0)
        sorted++;
    if (sorted < n)
        qsort(index->entries, n, sizeof *e, index_compare_entries);
}
