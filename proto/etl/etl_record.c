/* Record headers of an .etl file: finding the records of a decoded buffer, and making ea_record views of them. Input: a
 * decoded buffer. Used by: merge.c. Thread: the source's. Source: winsiderss/systeminformer phnt/include/ntwmi.h
 * (SYSTEM_TRACE_HEADER, PERFINFO_TRACE_HEADER, EVENT_INSTANCE_GUID_HEADER, MESSAGE_TRACE_HEADER, TRACE_HEADER_* marks),
 * evntcons.h (EVENT_HEADER and extended items), evntrace.h (EVENT_TRACE_HEADER, TRACE_MESSAGE_*). */
#include "proto/etl/layout.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    PERFINFO_PEBS = 0x8000,
    PERFINFO_PMC_MASK = 0x0700,
    PERFINFO_PMC_SHIFT = 8,

    MESSAGE_SEQUENCE = 0x01,
    MESSAGE_GUID = 0x02,
    MESSAGE_COMPONENT = 0x04,
    MESSAGE_TIME = 0x08 | 0x10, /* either asks for the 8 bytes */
    MESSAGE_SYSTEM_INFO = 0x20,
    MESSAGE_POINTER32 = 0x40,
    MESSAGE_POINTER64 = 0x80,
    MESSAGE_HEADER_BYTES = 8,

    SUSPICIOUS_BYTES = 1024,  /* a record from this size on may have swallowed others */
    SWALLOWED_STEPS = 16384,  /* that are spent on finding out */
    INSTANCE_ITEM_BYTES = 24, /* EVENT_EXTENDED_ITEM_INSTANCE: two ids and the parent's GUID */
};

const ea_etl_header_form ea_etl_header_forms[EA_ETL_TYPES] = {
    [EA_HEADER_SYSTEM32] = {32, 32, 16},  [EA_HEADER_SYSTEM64] = {32, 32, 16},  [EA_HEADER_COMPACT32] = {24, 32, 16},
    [EA_HEADER_COMPACT64] = {24, 32, 16}, [EA_HEADER_FULL32] = {48, 0, 16},     [EA_HEADER_FULL64] = {48, 0, 16},
    [EA_HEADER_INSTANCE32] = {72, 0, 16}, [EA_HEADER_INSTANCE64] = {72, 0, 16}, [EA_HEADER_PERFINFO32] = {16, 32, 8},
    [EA_HEADER_PERFINFO64] = {16, 32, 8}, [EA_HEADER_EVENT32] = {80, 0, 16},    [EA_HEADER_EVENT64] = {80, 0, 16},
};

/* ---- WPP messages ---- the header's parts are in this order; each is present only when its option flag is set */

static uint32_t message_time_at(unsigned options) {
    uint32_t at = MESSAGE_HEADER_BYTES;
    if (options & MESSAGE_SEQUENCE)
        at += 4;
    if (options & MESSAGE_GUID)
        at += 16;
    if (options & MESSAGE_COMPONENT)
        at += 4;
    return at;
}

static uint32_t message_header_bytes(unsigned options) {
    uint32_t at = message_time_at(options);
    if (options & MESSAGE_TIME)
        at += 8;
    if (options & MESSAGE_SYSTEM_INFO)
        at += 8;
    return at;
}

/* ---- finding records ---- */

uint32_t ea_etl_message_bytes(const uint8_t *p) {
    uint32_t size = ea_load16(p);
    return size >= message_header_bytes(ea_load16(p + 6)) ? size : 0;
}

int64_t ea_etl_message_time(const uint8_t *p, int64_t fallback) {
    unsigned options = ea_load16(p + 6);
    return options & MESSAGE_TIME ? (int64_t)ea_load64(p + message_time_at(options)) : fallback;
}

/* 1 and the time, or 0 when the header has none. p was accepted. */
static inline int record_time(const uint8_t *p, int64_t *ret) {
    if (p[3] == EA_ETL_MARKER_MESSAGE && !(ea_load16(p + 6) & MESSAGE_TIME))
        return 0;
    *ret = ea_etl_record_time(p, 0);
    return 1;
}

void ea_etl_walk_deinit(ea_etl_walk *walk) {
    free(walk->offsets);
    memset(walk, 0, sizeof *walk);
}

EA_RARE static int record_reserve(ea_etl_walk *walk, uint32_t more) {
    if (walk->capacity - walk->count >= more)
        return 0;
    uint32_t capacity = walk->capacity ? walk->capacity * 2 : 1024;
    uint32_t *offsets = realloc(walk->offsets, capacity * sizeof *offsets);
    if (!offsets)
        return EA_ENOMEM;
    walk->offsets = offsets;
    walk->capacity = capacity;
    return 0;
}

static int near_time(int64_t t, int64_t believed, int64_t window) {
    uint64_t distance = t > believed ? (uint64_t)t - (uint64_t)believed : (uint64_t)believed - (uint64_t)t;
    return distance <= (uint64_t)window;
}

/* Whether a record can start at `at` after damage: a known header whose time can be believed. What follows it has to
 * be the end, another such header, or it must be the last that fits. */
EA_APART static int plausible(const uint8_t *data, uint32_t at, uint32_t to, int64_t believed, int64_t window) {
    for (int depth = 0; depth < 2; depth++) {
        uint32_t size = ea_etl_record_bytes(data + at, to - at);
        int64_t t;
        if (!size)
            return 0;
        if (record_time(data + at, &t) && !near_time(t, believed, window))
            return 0;
        uint32_t next = at + ((size + 7) & ~7u);
        if (next >= to || to - next < 8)
            return 1;
        at = next;
    }
    return 1;
}

/* A damaged size can lead, over many records, to where one really begins. Such a record has others inside that follow
 * one upon the other to its very end, at times between its own and that of the next: 0, or where the first of them
 * starts. Only large records are looked at: they are few, and a small one cannot hide much. */
EA_APART static uint32_t swallowed(const uint8_t *data, uint32_t at, uint32_t size, uint32_t to) {
    uint32_t end = at + ((size + 7) & ~7u), steps_left = SWALLOWED_STEPS;
    int64_t from_time, to_time = INT64_MAX;
    if (!record_time(data + at, &from_time))
        return 0;
    if (end < to && ea_etl_record_bytes(data + end, to - end))
        record_time(data + end, &to_time);
    for (uint32_t i = at + 16; i + 16 < end; i += 8) {
        if (data[i + 3] != EA_ETL_MARKER_EVENT)
            continue;
        uint32_t next = i, inside, count = 0;
        int64_t t, previous = from_time;
        while (next < end && steps_left-- && (inside = ea_etl_record_bytes(data + next, end - next)) != 0 &&
               record_time(data + next, &t) && t >= previous && t <= to_time) {
            previous = t;
            next += (inside + 7) & ~7u;
            count++;
        }
        if (next == end && count >= 2)
            return i;
        if (steps_left > SWALLOWED_STEPS) /* went below zero: made to cost time */
            return 0;
    }
    return 0;
}

static const char *etl_record_describe(const uint8_t *p, uint32_t available) {
    if (available < 8)
        return "expected a record, found fewer than 8 bytes";
    unsigned marker = p[3], type = p[2];
    if (marker == EA_ETL_MARKER_EVENT && type < EA_ETL_TYPES && ea_etl_header_forms[type].bytes) {
        uint32_t size = ea_etl_header_forms[type].size_shift ? ea_load16(p + 4) : ea_load16(p);
        return size < ea_etl_header_forms[type].bytes ? "a record is smaller than its header"
                                                      : "a record runs over the buffer's end";
    }
    if (marker == EA_ETL_MARKER_MESSAGE)
        return "a WPP message does not fit its size";
    if (marker == EA_ETL_MARKER_EVENT)
        return "a record's header type is none that is known";
    return "expected a record marker, found something else";
}

EA_RARE static void report_gap(ea_etl_walk *walk, const ea_etl_walk_options *options, uint32_t offset, uint32_t bytes,
                               const char *reason) {
    ea_etl_gap gap = {.offset = offset, .bytes = bytes, .reason = reason};
    walk->gap_count++;
    if (options->on_gap)
        options->on_gap(&gap, options->arg);
}

/* Positions are offsets rounded up to 8: records are 8-byte aligned in the buffer, and the buffer's data are.
 *
 * After damage, reading resumes at the next place where a record is plausible, at least 8 bytes after the start of the
 * last record. When that place is inside the last record, the size of the last record was damaged, and the last record
 * is given up. */
int ea_etl_walk_buffer(ea_etl_walk *walk, const uint8_t *data, uint32_t from, uint32_t to,
                       const ea_etl_walk_options *options) {
    uint32_t at = from, last = from;
    int64_t min = INT64_MAX, max = INT64_MIN, previous = INT64_MIN, t;
    int disordered = 0;
    walk->count = 0;
    walk->gap_count = 0;
    for (;;) {
        while (at < to) {
            uint32_t size = ea_etl_record_bytes(data + at, to - at);
            if (!size)
                break;
            if (size >= SUSPICIOUS_BYTES) {
                uint32_t inside = swallowed(data, at, size, to);
                if (inside) {
                    report_gap(walk, options, at, inside - at, "a record's size leads over other records");
                    at = last = inside;
                    continue;
                }
            }
            uint32_t count = walk->count;
            if (count == walk->capacity && record_reserve(walk, 1))
                return EA_ENOMEM;
            walk->offsets[count] = at;
            walk->count = count + 1;
            if (record_time(data + at, &t)) {
                disordered |= t < previous;
                previous = t;
                min = t < min ? t : min;
                max = t > max ? t : max;
            }
            last = at;
            at += (size + 7) & ~7u;
        }
        if (at >= to || to - at < 8) /* less than a header: padding, and no record was lost */
            break;
        uint32_t gap_at = at;
        const char *reason = etl_record_describe(data + at, to - at);
        int64_t believed = walk->count && previous != INT64_MIN ? previous : options->near_raw;
        uint32_t resume = walk->count ? last + 8 : at + 8;
        while (resume < to && !plausible(data, resume, to, believed, options->window_raw) &&
               (believed == options->near_raw || !plausible(data, resume, to, options->near_raw, options->window_raw)))
            resume += 8;
        if (resume > to)
            resume = to;
        if (walk->count && resume < at) { /* inside the last record: its size was wrong */
            walk->count--;
            gap_at = last;
            reason = "a record's size leads nowhere";
        }
        report_gap(walk, options, gap_at, resume - gap_at, reason);
        at = resume;
        last = resume;
    }
    walk->min_time = min;
    walk->max_time = max;
    walk->disordered = disordered;
    walk->end = at < to ? at : to;
    return 0;
}

typedef struct timed {
    int64_t time;
    uint32_t offset;
} timed;

static int compare_timed(const void *a, const void *b) {
    const timed *x = a, *y = b;
    if (x->time != y->time)
        return x->time < y->time ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

int ea_etl_walk_sort(ea_etl_walk *walk, const uint8_t *data) {
    if (!walk->count)
        return 0;
    timed *all = malloc(walk->count * sizeof *all);
    if (!all)
        return EA_ENOMEM;
    int64_t t = walk->min_time;
    for (uint32_t i = 0; i < walk->count; i++) {
        t = ea_etl_record_time(data + walk->offsets[i], t);
        all[i].time = t;
        all[i].offset = walk->offsets[i];
    }
    qsort(all, walk->count, sizeof *all, compare_timed);
    for (uint32_t i = 0; i < walk->count; i++)
        walk->offsets[i] = all[i].offset;
    free(all);
    return 0;
}

/* ---- filling ---- */

static ea_guid load_guid(const uint8_t *p) {
    ea_guid g;
    memcpy(g.bytes, p, sizeof g.bytes);
    return g;
}

static uint16_t width_flag(uint8_t pointer_size) {
    return pointer_size == 4 ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER;
}

/* The kind's numbers in words as they are compared and hashed later: a wide load of what narrow stores have just
 * written waits for them. logger and unused are zero, and stay so. */
static void set_kind(ea_record *r, uint64_t ids, uint16_t flags, uint16_t property, uint8_t pointer_size, unsigned type,
                     uint32_t hook) {
    uint64_t form =
        (uint64_t)flags << 16 | (uint64_t)property << 32 | (uint64_t)pointer_size << 48 | (uint64_t)type << 56;
    uint8_t *to = (uint8_t *)r;
    ea_store64(to + offsetof(ea_record, id), ids);
    ea_store64(to + offsetof(ea_record, logger), form);
    ea_store64(to + offsetof(ea_record, hook_id), hook);
}

/* id, task, version, channel, level, opcode */
static uint64_t etl_record_ids_of(uint16_t id, uint16_t task, uint32_t rest) {
    return id | (uint32_t)task << 16 | (uint64_t)rest << 32;
}

static void set_thread(ea_record *r, uint32_t pid, uint32_t tid) {
    ea_store64((uint8_t *)r + offsetof(ea_record, pid), pid | (uint64_t)tid << 32);
}

/* Both times as they are at p. */
static void etl_record_set_times(ea_record *r, const uint8_t *p) {
    ea_store64((uint8_t *)r + offsetof(ea_record, kernel_time), ea_load64(p));
}

static void set_payload(ea_record *r, const uint8_t *p, uint32_t at, uint32_t size) {
    r->payload = p + at;
    r->payload_bytes = (uint16_t)(size - at);
}

static uint32_t fill_perfinfo(ea_record *r, ea_ext *ext, const uint8_t *p, uint32_t size) {
    uint32_t at = 16, damaged = 0;
    unsigned version = ea_load16(p), pmc = (version & PERFINFO_PMC_MASK) >> PERFINFO_PMC_SHIFT;
    unsigned pebs = version & PERFINFO_PEBS ? 8 : 0;
    if (version & (PERFINFO_PMC_MASK | PERFINFO_PEBS)) {
        if (at + pebs + 8 * pmc > size) {
            damaged = size - at; /* the version says more than there is: all of it stays payload */
        } else {
            if (pebs)
                ext[r->ext_count++] = (ea_ext){.type = EA_EXT_PEBS_INDEX, .size_bytes = 8, .data = p + at};
            at += pebs;
            if (pmc)
                ext[r->ext_count++] = (ea_ext){.type = EA_EXT_PMC_COUNTERS, .size_bytes = 8 * pmc, .data = p + at};
            at += 8 * pmc;
        }
    }
    set_payload(r, p, at, size);
    return damaged;
}

/* EVENT_HEADER_EXTENDED_DATA_ITEM as on disk: u16 size of item and padding, u16 type, u16 linkage (bit 0: another item
 * follows), u16 data size, data, padding to 8. */
static uint32_t fill_event(ea_record *r, ea_ext *ext, const uint8_t *p, uint32_t size) {
    uint32_t at = 80;
    int more = r->flags & EA_FLAG_EXTENDED_INFO;
    while (more) {
        if (size - at < 8 || r->ext_count == EA_EXT_MAX)
            break;
        uint32_t item = ea_load16(p + at), data_bytes = ea_load16(p + at + 6);
        uint16_t linkage = ea_load16(p + at + 4);
        uint32_t needed = 8 + data_bytes;
        if (needed > size - at)
            break;
        if (item != ((needed + 7) & ~7u)) /* so Windows writes it, always; anything else could not be written back */
            break;
        ext[r->ext_count++] =
            (ea_ext){.type = ea_load16(p + at + 2), .linkage = linkage, .size_bytes = data_bytes, .data = p + at + 8};
        at += item;
        if (at > size) /* the last item of a record without payload may lack its padding */
            at = size;
        more = linkage & 1;
    }
    set_payload(r, p, at, size);
    return more ? size - at : 0;
}

static void fill_message(ea_record *r, ea_ext *ext, const uint8_t *p, uint32_t size, uint8_t file_pointer_size) {
    unsigned options = ea_load16(p + 6);
    uint32_t at = MESSAGE_HEADER_BYTES;
    r->header_type = EA_HEADER_MESSAGE;
    r->header_word = (uint16_t)options;
    r->id = ea_load16(p + 4);
    r->flags = EA_FLAG_TRACE_MESSAGE | EA_FLAG_CLASSIC_HEADER;
    r->pointer_size = options & MESSAGE_POINTER32 ? 4 : options & MESSAGE_POINTER64 ? 8 : file_pointer_size;
    r->pid = r->tid = UINT32_MAX;
    if (options & MESSAGE_SEQUENCE) {
        ext[r->ext_count++] = (ea_ext){.type = EA_EXT_WPP_SEQUENCE, .size_bytes = 4, .data = p + at};
        at += 4;
    }
    if (options & MESSAGE_GUID) {
        r->provider = load_guid(p + at);
        at += 16;
    }
    if (options & MESSAGE_COMPONENT) {
        ext[r->ext_count++] = (ea_ext){.type = EA_EXT_WPP_COMPONENT, .size_bytes = 4, .data = p + at};
        at += 4;
    }
    if (options & MESSAGE_TIME)
        at += 8;
    if (options & MESSAGE_SYSTEM_INFO) {
        r->tid = ea_load32(p + at);
        r->pid = ea_load32(p + at + 4);
        at += 8;
    }
    if (p[2] != EA_HEADER_MESSAGE)
        ext[r->ext_count++] = (ea_ext){.type = EA_EXT_WPP_RESERVED, .size_bytes = 1, .data = p + 2};
    set_payload(r, p, at, size);
}

uint32_t ea_etl_fill_record(ea_record *r, ea_ext *ext, const uint8_t *p, uint32_t size, uint8_t file_pointer_size) {
    uint32_t damaged = 0;
    /* in two runs, for which compilers take a few stores; for a whole record they take the slow string instruction */
    memset(r, 0, EA_RECORD_KIND_BYTES);
    memset((uint8_t *)r + offsetof(ea_record, time_raw), 0, EA_RECORD_OWN_BYTES);
    r->ext = ext;
    if (p[3] == EA_ETL_MARKER_MESSAGE) {
        fill_message(r, ext, p, size, file_pointer_size);
        return 0;
    }
    unsigned type = p[2];
    uint8_t width;
    switch (type) {
    case EA_HEADER_SYSTEM32:
    case EA_HEADER_SYSTEM64:
    case EA_HEADER_COMPACT32:
    case EA_HEADER_COMPACT64:
    case EA_HEADER_PERFINFO32:
    case EA_HEADER_PERFINFO64: {
        uint16_t hook_id = ea_load16(p + 6), flags = EA_FLAG_CLASSIC_HEADER;
        int is_32_bit = type == EA_HEADER_SYSTEM32 || type == EA_HEADER_COMPACT32 || type == EA_HEADER_PERFINFO32;
        width = is_32_bit ? 4 : 8;
        flags |= width_flag(width);
        if (type >= EA_HEADER_COMPACT32)
            flags |= EA_FLAG_NO_CPUTIME;
        r->provider = *ea_etl_group_of(hook_id);
        set_kind(r, etl_record_ids_of(0, 0, p[0] | (uint32_t)p[6] << 24), flags, 0, width, type,
                 hook_id | (uint32_t)ea_load16(p) << 16);
        if (type >= EA_HEADER_PERFINFO32) {
            set_thread(r, UINT32_MAX, UINT32_MAX);
            damaged = fill_perfinfo(r, ext, p, size);
            break;
        }
        set_thread(r, ea_load32(p + 12), ea_load32(p + 8));
        if (type >= EA_HEADER_COMPACT32) {
            set_payload(r, p, 24, size);
        } else {
            etl_record_set_times(r, p + 24);
            set_payload(r, p, 32, size);
        }
        break;
    }
    case EA_HEADER_FULL32:
    case EA_HEADER_FULL64:
    case EA_HEADER_INSTANCE32:
    case EA_HEADER_INSTANCE64: {
        width = type == EA_HEADER_FULL32 || type == EA_HEADER_INSTANCE32 ? 4 : 8;
        r->provider = load_guid(p + 24);
        set_kind(r, etl_record_ids_of(0, 0, p[6] | (uint32_t)p[5] << 16 | (uint32_t)p[4] << 24),
                 (uint16_t)(EA_FLAG_CLASSIC_HEADER | width_flag(width)), 0, width, type,
                 (uint32_t)ea_load16(p + 6) << 16);
        set_thread(r, ea_load32(p + 12), ea_load32(p + 8));
        etl_record_set_times(r, p + 40);
        if (type == EA_HEADER_INSTANCE32 || type == EA_HEADER_INSTANCE64) {
            ext[r->ext_count++] =
                (ea_ext){.type = EA_EXT_INSTANCE_INFO, .size_bytes = INSTANCE_ITEM_BYTES, .data = p + 48};
            set_payload(r, p, 72, size);
        } else {
            set_payload(r, p, 48, size);
        }
        break;
    }
    default: { /* EVENT32, EVENT64: record_bytes accepted no other */
        uint16_t flags = ea_load16(p + 4);
        width = type == EA_HEADER_EVENT32 ? 4 : 8;
        r->provider = load_guid(p + 24);
        r->keyword = ea_load64(p + 48);
        set_kind(r, etl_record_ids_of(ea_load16(p + 40), ea_load16(p + 46), ea_load32(p + 42)), flags, ea_load16(p + 6),
                 width, type, 0);
        set_thread(r, ea_load32(p + 12), ea_load32(p + 8));
        etl_record_set_times(r, p + 56);
        r->activity_id = load_guid(p + 64);
        if (flags & EA_FLAG_EXTENDED_INFO)
            damaged = fill_event(r, ext, p, size);
        else
            set_payload(r, p, 80, size);
        break;
    }
    }
    return damaged;
}
