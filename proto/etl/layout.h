/* The bytes of an .etl file: buffer headers, record headers, and what the files of this folder share. Input: files.
 * Used by: merge.c, which makes records in canonical order out of these parts. Inside this folder only. Thread: the
 * source's. Source of all layouts: winsiderss/systeminformer phnt/include/ntwmi.h (WMI_BUFFER_HEADER, *_TRACE_HEADER,
 * EVENT_TRACE_GROUP_*), evntcons.h (EVENT_HEADER, extended items), evntrace.h (TRACE_MESSAGE_*, TRACE_LOGFILE_HEADER).
 */
#ifndef EA_ETL_LAYOUT_H
#define EA_ETL_LAYOUT_H

#include "proto/base/platform.h"
#include "proto/etl/etl.h"

/* ---- buffers ---- */

enum {
    EA_ETL_HEADER_BYTES = 0x48,
    EA_ETL_MAX_BUFFER_BYTES = 64 << 20, /* Windows: 16 MiB; a size above ours is damage */
    EA_ETL_SLACK_BYTES = 64,            /* readable and writable after every decoded buffer */
};

/* WMI_BUFFER_HEADER.BufferFlag */
enum {
    EA_ETL_BUFFER_FIRST_OR_LAST = 0x01, /* so real files have it */
    EA_ETL_BUFFER_EVENTS_LOST = 0x02,
    EA_ETL_BUFFER_BUFFERS_LOST = 0x04,
    EA_ETL_BUFFER_PROC_INDEX = 0x20,
    EA_ETL_BUFFER_COMPRESSED = 0x40,
};

enum ea_etl_compression {
    EA_ETL_NONE = 0,
    EA_ETL_LZNT1 = 2,
    EA_ETL_XPRESS = 3,
    EA_ETL_XPRESS_HUFF = 4,
};

/* LogFileMode */
enum {
    EA_ETL_MODE_CIRCULAR = 0x00000002,
    EA_ETL_MODE_COMPRESSED = 0x04000000,
    EA_ETL_MODE_NO_PER_PROCESSOR = 0x10000000,
};

typedef struct ea_etl_buffer_header {
    uint32_t size_bytes;   /* on disk, this header included */
    uint32_t saved_offset; /* 0 or short in many good files: never the first choice */
    uint32_t current_offset;
    uint32_t reference_count;
    int64_t flush_time; /* ticks, or FILETIME in files that were merged */
    int64_t sequence;
    uint64_t link; /* a list's pointer, or a session's clock: means nothing outside of Windows */
    uint16_t cpu;
    uint8_t alignment; /* before Windows 8 only: of records, as a power of two or in bytes */
    uint16_t logger;
    uint32_t state;      /* low half of the first buffer's: the file's compression */
    uint32_t used_bytes; /* "Offset": valid length, decompressed, this header included */
    uint16_t flags;
    uint16_t type;
    uint8_t lists[16]; /* more pointers */
} ea_etl_buffer_header;

/* p: EA_ETL_HEADER_BYTES. Checks nothing. */
void ea_etl_parse_buffer_header(const uint8_t *p, ea_etl_buffer_header *ret);
/* The way back: the same bytes. */
void ea_etl_put_buffer_header(uint8_t *p, const ea_etl_buffer_header *h);

/* How much of a header's content can be true, of 8 points; EA_ETL_HEADER_SOUND: all that can be checked is. */
enum { EA_ETL_HEADER_SOUND = 8, EA_ETL_HEADER_LIKELY = 6 };

unsigned ea_etl_score_buffer_header(const ea_etl_buffer_header *h);

/* ---- one file ---- */

typedef struct ea_etl_file {
    ea_etl_info info;
    ea_file *handle;
    uint8_t scan_buffers;   /* buffers may be disordered inside: index by each one's minimum */
    uint8_t by_utc;         /* its clock is not the other files': merge by UTC */
    uint8_t is_evtx;        /* an event log: evtx_buffer.c makes its buffers */
    int64_t mend_work_left; /* mending stops when it cost that much */
    int64_t window_raw;     /* one day in ticks: how far a time may be off and still be believed after damage */
} ea_etl_file;

/* One buffer of the index: exactly 24 bytes. Offsets up to 256 TiB, sizes up to 256 MiB, 65,536 files. */
typedef struct ea_etl_entry {
    int64_t key;          /* time of its earliest record, in the merge's time */
    uint64_t offset : 48; /* in the file */
    uint64_t file : 16;
    uint64_t size_bytes : 28; /* on disk */
    uint64_t number : 32;     /* in file order */
    uint64_t compressed : 1;
    uint64_t damaged : 1; /* its header contradicts itself or its surroundings */
    uint64_t unused : 2;
} ea_etl_entry;

_Static_assert(sizeof(ea_etl_entry) == 24, "the index promises 24 bytes a buffer");

typedef struct ea_etl_index {
    ea_etl_entry *entries;
    size_t count, capacity;
} ea_etl_index;

/* Calls options->on_damage. */
void ea_etl_report(const ea_etl_options *options, const ea_etl_file *file, uint64_t offset, uint32_t inside,
                   uint64_t bytes, const char *reason);

/* ---- header.c ---- */

/* Reads the first buffer's start and fills file->info, scan_buffers, window_raw. info.path and handle are set already.
 */
EA_MUST_CHECK int ea_etl_read_header(ea_etl_file *file, ea_err *err);
void ea_etl_info_deinit(ea_etl_info *info);
/* The header event itself; data as ea_etl_header_record has it. */
EA_MUST_CHECK int ea_etl_read_header_record(ea_etl_file *file, uint8_t *data, ea_record *ret, ea_err *err);

/* The reverse: writes TRACE_LOGFILE_HEADER and its two names, which the header event has after its header. pointer_size
 * is 4 or 8. Returns the number of bytes; 0 when capacity is too small for the fields without the names. A name that
 * does not fit is left empty. */
enum { EA_ETL_FIELDS_MAX_BYTES = 288 + 2 * 2 * 1024 };

uint32_t ea_etl_put_info(const ea_etl_info *info, uint8_t *out, size_t capacity);
/* Changes of such fields what depends on the file that they are written to: buffer size, mode, buffers written, end,
 * losses. Fields that end before one of them stay as they are. */
void ea_etl_patch_info(const ea_etl_info *info, uint8_t *fields, size_t len_bytes);
/* Reads the header event again, for what changes while the session runs: end_filetime, buffers_written, what was lost.
 * *ret_over: the session has ended. */
EA_MUST_CHECK int ea_etl_reread_header(ea_etl_file *file, int *ret_over, ea_err *err);

/* ---- etl_record.c ---- */

/* The record positions of one decoded buffer. */
typedef struct ea_etl_walk {
    uint32_t *offsets; /* of records in the buffer, in file order; after ea_etl_walk_sort by time */
    uint32_t count, capacity;
    int64_t min_time, max_time; /* of the records that have a time; min > max when none has */
    int disordered;             /* a time went backwards */
    uint32_t gap_count;         /* damaged places */
    uint32_t end;               /* where reading stopped */
} ea_etl_walk;

typedef struct ea_etl_gap {
    uint32_t offset, bytes;
    const char *reason;
} ea_etl_gap;

typedef struct ea_etl_walk_options {
    int64_t window_raw;                               /* after damage a time must lie within this of a believed one */
    int64_t near_raw;                                 /* a believed time; used until a record gave a better one */
    void (*on_gap)(const ea_etl_gap *gap, void *arg); /* may be NULL */
    void *arg;
} ea_etl_walk_options;

/* Finds the records of data[from, to). Returns 0, or EA_ENOMEM. walk's memory is reused. */
EA_MUST_CHECK int ea_etl_walk_buffer(ea_etl_walk *walk, const uint8_t *data, uint32_t from, uint32_t to,
                                     const ea_etl_walk_options *options);
/* Sorts the positions by time, stably. A record without a time stays after the record that precedes it. */
EA_MUST_CHECK int ea_etl_walk_sort(ea_etl_walk *walk, const uint8_t *data);
void ea_etl_walk_deinit(ea_etl_walk *walk);

enum {
    EA_ETL_MARKER_EVENT = 0xc0,   /* TRACE_HEADER_FLAG | TRACE_HEADER_EVENT_TRACE */
    EA_ETL_MARKER_MESSAGE = 0x90, /* TRACE_HEADER_FLAG | TRACE_MESSAGE */
    EA_ETL_TYPES = 32,            /* of which no record has a number above 21 */
};

/* The facts that follow from the header type alone. bytes 0: no record has this type. */
typedef struct ea_etl_header_form {
    uint8_t bytes;
    uint8_t size_shift; /* of the 16-bit record size in the first 8 bytes */
    uint8_t time_at;
} ea_etl_header_form;

extern const ea_etl_header_form ea_etl_header_forms[EA_ETL_TYPES];

/* The same of a WPP message: its bytes, 0 when it cannot be one; its time. */
uint32_t ea_etl_message_bytes(const uint8_t *p);
int64_t ea_etl_message_time(const uint8_t *p, int64_t fallback);

/* Bytes of the record at p (not rounded up), 0 when no record can start there. available: readable bytes from p, the
 * record has to fit. */
static inline uint32_t ea_etl_record_bytes(const uint8_t *p, uint32_t available) {
    if (available < 8)
        return 0;
    uint64_t w = ea_load64(p);
    unsigned marker = (unsigned)(w >> 24) & 0xff, type = (unsigned)(w >> 16) & 0xff;
    uint32_t size = 0;
    if (marker == EA_ETL_MARKER_EVENT && type < EA_ETL_TYPES) {
        const ea_etl_header_form *f = &ea_etl_header_forms[type];
        size = (uint32_t)(w >> f->size_shift) & 0xffff;
        if (!f->bytes || size < f->bytes)
            return 0;
    } else if (marker == EA_ETL_MARKER_MESSAGE) {
        size = ea_etl_message_bytes(p);
    }
    return size <= available ? size : 0;
}

/* The same of a record that it accepted before. */
static inline uint32_t ea_etl_accepted_bytes(const uint8_t *p) {
    uint64_t w = ea_load64(p);
    unsigned shift = p[3] == EA_ETL_MARKER_EVENT ? ea_etl_header_forms[p[2] & (EA_ETL_TYPES - 1)].size_shift : 0;
    return (uint32_t)(w >> shift) & 0xffff;
}

/* Time of a record that ea_etl_record_bytes accepted; fallback when its header has none. */
static inline int64_t ea_etl_record_time(const uint8_t *p, int64_t fallback) {
    if (p[3] == EA_ETL_MARKER_EVENT)
        return (int64_t)ea_load64(p + ea_etl_header_forms[p[2] & (EA_ETL_TYPES - 1)].time_at);
    return ea_etl_message_time(p, fallback);
}

/* ---- group.c ---- */

/* By the hook id's group; zero where no public source names one. */
enum { EA_ETL_GROUPS = 256 };

extern const ea_guid ea_etl_groups[EA_ETL_GROUPS];

/* The class GUID that Windows gives the events of a kernel group (hook id >> 8; group 3 opcode 10 is an image load);
 * zero for a group that no public source names. */
static inline const ea_guid *ea_etl_group_of(uint16_t hook_id) {
    enum { LOAD_IMAGE = 0x030a, IMAGE_GROUP = 0x14 }; /* named under Process, an image load by class */

    return &ea_etl_groups[hook_id == LOAD_IMAGE ? IMAGE_GROUP : hook_id >> 8];
}

/* ---- etl_record.c ---- */

/* Fills r and its extended items (room for EA_EXT_MAX) from the record at p, which is size_bytes long and was accepted.
 * The caller sets r->time_raw, cpu, logger, source and position. Returns the number of bytes at the record's end that
 * should have been extended items and are not readable as such, normally 0. These bytes are then the start of the
 * payload. */
uint32_t ea_etl_fill_record(ea_record *r, ea_ext *ext, const uint8_t *p, uint32_t size_bytes,
                            uint8_t file_pointer_size);

/* ---- decode.c ---- */

/* One decoded buffer. Its memory is reused from buffer to buffer; zero to start with. */
typedef struct ea_etl_buffer {
    ea_etl_buffer_header header;
    uint8_t *data; /* EA_ETL_HEADER_BYTES of header, then records */
    size_t data_capacity;
    uint32_t used_bytes;
    ea_etl_walk walk;
    uint64_t mend_work; /* what mending cost */
} ea_etl_buffer;

typedef struct ea_etl_evtx ea_etl_evtx;

/* Compressed bytes on their way, and an event log's events. Shared by all buffers of a set; zero to start with. */
typedef struct ea_etl_scratch {
    uint8_t *data;
    size_t capacity;
    ea_etl_evtx *evtx;
} ea_etl_scratch;

void ea_etl_scratch_deinit(ea_etl_scratch *s);

/* Reads, decompresses and walks one buffer; sorts it when it is disordered. Damage is counted and reported when options
 * is not NULL, and never an error: what can be read is in ret, perhaps nothing. mend: damaged compressed data are
 * mended where only one value of a byte makes sense of what follows (repair.c). */
EA_MUST_CHECK int ea_etl_decode(const ea_etl_file *file, const ea_etl_entry *entry, int mend, ea_etl_buffer *ret,
                                ea_etl_scratch *scratch, const ea_etl_options *options, ea_err *err);
void ea_etl_buffer_deinit(ea_etl_buffer *b);

/* ---- evtx_buffer.c: event logs ---- */

/* Fills file->info of an event log: its clock, and the time of its first event. */
EA_MUST_CHECK int ea_etl_read_evtx_header(ea_etl_file *file, ea_err *err);
/* As ea_etl_index_file: a chunk is a buffer. */
EA_MUST_CHECK int ea_etl_index_evtx(ea_etl_index *index, ea_etl_file *file, uint16_t file_number, ea_err *err);
/* Reads a chunk and makes its events records, in ret->data. Reports as ea_etl_decode does. */
EA_MUST_CHECK int ea_etl_decode_evtx(const ea_etl_file *file, const ea_etl_entry *entry, ea_etl_buffer *ret,
                                     ea_etl_scratch *scratch, const ea_etl_options *options, ea_err *err);

/* ---- repair.c ---- */

/* Bytes that are decoded at most to mend one buffer, and all buffers of a file: some tenths of a second, some seconds.
 */
#define EA_ETL_MEND_WORK      ((uint64_t)128 << 20)
#define EA_ETL_MEND_FILE_WORK ((int64_t)8 << 30)

/* Looks for the bytes of a plain LZ77 stream whose damage explains why out, its records from EA_ETL_HEADER_BYTES on,
 * stops making sense, and puts into in what makes sense again. out has room for claimed bytes. *ret_work: bytes
 * decoded. ordered: times do not go backwards. Returns the number of bytes of in that it changed, or EA_ENOMEM; out is
 * garbage afterwards. */
EA_MUST_CHECK int ea_etl_repair(uint8_t *in, size_t in_bytes, uint8_t *out, uint32_t claimed, int64_t near_raw,
                                int64_t window_raw, int ordered, uint64_t *ret_work);

/* ---- index.c ---- */

/* Appends a file's buffers to the index, in file order; keys are raw times. */
EA_MUST_CHECK int ea_etl_index_file(ea_etl_index *index, ea_etl_file *file, uint16_t file_number,
                                    const ea_etl_options *options, ea_err *err);
EA_MUST_CHECK int ea_etl_index_add(ea_etl_index *index, const ea_etl_entry *e, ea_err *err);
/* By (key, file, number), in place. */
void ea_etl_index_sort(ea_etl_index *index);

/* A file that is still being written, indexed as it grows. */
typedef struct ea_etl_tail ea_etl_tail;
EA_MUST_CHECK int ea_etl_tail_create(ea_etl_tail **ret, ea_etl_file *file, uint16_t file_number,
                                     const ea_etl_options *options, ea_err *err);
void ea_etl_tail_destroy(ea_etl_tail *t); /* NULL is allowed */
/* Looks at the file again. New buffers count when they are whole, or when the header says that the session is over:
 * then the file is read to its end. *ret_found: there is something new. Updates file->info. */
EA_MUST_CHECK int ea_etl_tail_poll(ea_etl_tail *t, int *ret_found, ea_err *err);
/* The next buffer in file order, with its raw key: 1; 0 when none is known. The first one, with the header event, comes
 * last: until the session is over it changes. */
int ea_etl_tail_take(ea_etl_tail *t, ea_etl_entry *ret);
/* 1 when the session is over and every buffer was taken. */
int ea_etl_tail_ended(const ea_etl_tail *t);

/* ---- decompression ---- all of [MS-XCA]; like ea_xpress_decompress in shape */

EA_MUST_CHECK int ea_lznt1_decompress(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes,
                                      size_t *ret_bytes);
EA_MUST_CHECK int ea_xpress_huff_decompress(const uint8_t *in, size_t in_bytes, uint8_t *out, size_t out_bytes,
                                            size_t *ret_bytes);

/* A plain LZ77 stream between two symbols, so that it can be taken up again there. All zero: at the start. */
typedef struct ea_xpress_state {
    size_t in, out;      /* bytes consumed and made */
    uint32_t flags;      /* the next symbol's flag is the top bit */
    unsigned flag_count; /* flags left */
    size_t nibble;       /* 1 + place of the byte whose high half is the next long length; 0: none */
} ea_xpress_state;

/* Runs until out has at least stop_bytes (a match may go beyond, up to out_bytes), or the input ends (0), or the input
 * is damaged (EA_ECORRUPT; the state is that before the bad symbol). */
EA_MUST_CHECK int ea_xpress_run(ea_xpress_state *state, const uint8_t *in, size_t in_bytes, uint8_t *out,
                                size_t stop_bytes, size_t out_bytes);

#endif
