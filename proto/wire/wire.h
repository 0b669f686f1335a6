/* Batches as bytes: reading one back into records or columns, and the small writers that both ends need. FORMAT.md
 * beside this file is the specification; batch.proto the envelope. Input: service/batch (writer side), a spool or a
 * socket (reader side). Used by: service/ship, collector/store. Thread: a view belongs to one thread; functions on
 * bytes alone may be called from any. */
#ifndef EA_WIRE_WIRE_H
#define EA_WIRE_WIRE_H

#include "proto/base/clock.h"
#include "proto/base/text.h"
#include "proto/event/event.h"

#include <stddef.h>
#include <stdint.h>

enum { EA_STREAM_ID_BYTES = 16, EA_CLASS_HASH_BYTES = 16 };

/* Streams whose ids begin with the same EA_STREAM_RUN_BYTES are the sessions of one run of an agent: one machine at one
 * time, whose state they describe together. */
enum { EA_STREAM_RUN_BYTES = 12 };

/* Bounds of one batch; a reader refuses what exceeds them before it allocates. */
enum {
    EA_BATCH_MAX_EVENTS = 1 << 18,
    EA_BATCH_MAX_BYTES = 16 << 20, /* on the wire */
    /* All frames and the directory, decompressed; all payloads of the records; all data of their extended items. */
    EA_BATCH_MAX_RAW_BYTES = 64 << 20,
    /* Fields that this reader does not know, in the batch and the messages in it; likewise in its directory. */
    EA_BATCH_MAX_UNKNOWN_BYTES = 64 << 10,
    EA_BATCH_MAX_GROUPS = 1 << 14,
    EA_BATCH_MAX_SOURCES = 1 << 12,
    EA_LABELS_MAX = 32,
    EA_LABEL_NAME_MAX_BYTES = 64,
    EA_LABEL_VALUE_MAX_BYTES = 256,
    EA_AGENT_VERSION_MAX_BYTES = 64,
    EA_SHAPE_MAX_BYTES = 1 << 16,
    EA_SHAPES_MAX = 1 << 12,                /* that one batch holds, or a context names */
    EA_CONTEXTS_MAX = 64,                   /* that one batch holds */
    EA_BATCH_MAX_DESCRIPTIONS = 1 << 14,    /* of classes, that one batch holds */
    EA_BATCH_MAX_DICTIONARIES = 16,         /* that one batch holds */
    EA_BATCH_MAX_TOMBSTONES = 1 << 18,      /* that one batch holds: earlier writers had no bound of their own */
    EA_WRITER_TOMBSTONES = 1 << 12,         /* that a writer puts into one: each is rows of a collector's index */
    EA_DICTIONARY_MAX_BYTES = 1 << 18,      /* a zstd dictionary */
    EA_SHORT_DIRECTORY_MAX_BYTES = 1 << 17, /* decompressed; what one zstd block may hold */
};

enum ea_batch_kind {
    EA_BATCH_EVENTS = 0,
    EA_BATCH_TOMBSTONE = 1, /* stands for batches that are gone: tombstones, no events */
    EA_BATCH_KEYFRAME = 2,  /* events of keyframe classes only */
};

#define EA_BATCH_MAX_NUMBER ((UINT64_C(1) << 63) - 2) /* a number and the next number are signed numbers, too */

/* What a source's clock, machine and session are: one row of the source table. Strings are borrowed. */
typedef struct ea_wire_source {
    const char *name, *host;
    ea_clock clock;
    int64_t boot_filetime;
    uint32_t pointer_size, cpu_count, os_version, os_build, log_file_mode, logger;
    int32_t bias_minutes;
    /* For writing; a reader has them by ea_source_origin. */
    const char *agent_version; /* NULL: unknown */
    ea_labels labels;
} ea_wire_source;

/* ---- the envelope alone: no decompression, no registry; what a spool, ingest and the index need ---- */

typedef struct ea_batch_head {
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t number;
    uint32_t kind, event_count, priority; /* kind: enum ea_batch_kind */
    uint64_t checksum;
    int64_t time_min, time_max; /* raw ticks of the first source's clock; both 0 without events */
    /* The same in UTC, by the first source's clock. */
    int64_t utc_min_ns, utc_max_ns;
    ea_clock clock;        /* of the first source */
    char host[256];        /* the first source's machine, UTF-8, cut at a character; "" unknown */
    const uint8_t *source; /* the first Source message, borrowed from the batch; NULL: it is not in it */
    size_t source_bytes;
    uint32_t source_count, description_count, tombstone_count;
    /* It names a context, sources, shapes or a dictionary by hash that it does not hold: ea_batch_complete. Without its
     * context, priority and source_count are 0; without its first source, clock, host and times. */
    int is_incomplete;
} ea_batch_head;

/* Reads and checks the envelope. EA_EFORMAT (no batch), EA_EUNSUPPORTED (a newer format), EA_ECORRUPT, EA_ELIMIT. */
EA_MUST_CHECK int ea_batch_read_head(const uint8_t *batch, size_t len_bytes, ea_batch_head *ret, ea_err *err);

/* What the agent says of itself in a Source message: its version as text, its labels as a JSON object; both are added
 * to, and empty when it says nothing. EA_ECORRUPT, EA_ELIMIT. */
EA_MUST_CHECK int ea_source_origin(const uint8_t *source, size_t len_bytes, ea_text *version, ea_text *labels,
                                   ea_err *err);

/* Calls fn for each class description that the batch carries; data is borrowed from batch. fn returns non-zero to stop,
 * which is then returned. */
EA_MUST_CHECK int ea_batch_each_description(const uint8_t *batch, size_t len_bytes,
                                            int (*fn)(const uint8_t *data, size_t data_bytes, void *arg), void *arg,
                                            ea_err *err);

/* ---- definitions: what travels once a stream, and is named by its hash from then on ---- */

/* Numbers are those of the Batch message's fields. */
enum ea_definition_kind {
    EA_DEFINES_CLASS = 12,
    EA_DEFINES_SOURCE = 17,
    EA_DEFINES_SHAPE = 22,
    EA_DEFINES_DICTIONARY = 24,
    EA_DEFINES_CONTEXT = 25,
};

/* The first bytes of a definition's hash. */
typedef struct ea_hash_ref {
    uint8_t bytes[EA_CLASS_HASH_BYTES];
    uint8_t len_bytes; /* EA_REF_MIN_BYTES to EA_CLASS_HASH_BYTES; the bytes after them are zero */
} ea_hash_ref;

enum { EA_REF_MIN_BYTES = 4, EA_NAME_BYTES = 8 }; /* batches name definitions but classes by EA_NAME_BYTES */

/* The first half of the SHA-256 of a definition. EA_ENOMEM. */
EA_MUST_CHECK int ea_definition_hash(const uint8_t *data, size_t len_bytes, uint8_t *ret_hash, ea_err *err);
/* Calls fn for each definition that a batch carries (sources only when it has a context, which names them). */
EA_MUST_CHECK int ea_batch_each_definition(const uint8_t *batch, size_t len_bytes,
                                           int (*fn)(enum ea_definition_kind kind, const uint8_t *data,
                                                     size_t data_bytes, void *arg),
                                           void *arg, ea_err *err);

/* Where definitions that came before are kept: of one stream. */
typedef struct ea_definitions {
    void *arg;
    /* 1 and the only definition of that kind whose hash begins so (borrowed until the next call), 0 when there is none,
     * or an error. */
    int (*find)(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref, const uint8_t **ret_data,
                size_t *ret_len_bytes, ea_err *err);
    /* One is nowhere. May be NULL. */
    void (*on_missing)(void *arg, enum ea_definition_kind kind, const ea_hash_ref *ref);
} ea_definitions;

/* Makes a batch that stands for itself but for its class descriptions: the context, sources and shapes that it names
 * are appended, and its directory needs no dictionary any more. 1 and the batch in out (which is emptied first); 0 when
 * there is nothing to do (out is not touched); EA_ENOTFOUND when something is nowhere (on_missing was called for each);
 * EA_ELIMIT when the sources and shapes that are appended have more than EA_BATCH_MAX_BYTES.
 */
EA_MUST_CHECK int ea_batch_complete(const uint8_t *batch, size_t len_bytes, const ea_definitions *known, ea_text *out,
                                    ea_err *err);

/* A batch whose envelope is read once, for all that is done with it. The bytes are borrowed. */
typedef struct ea_batch ea_batch;
/* Reads and checks the envelope (ea_batch_read_head). *batch: NULL, or one whose memory is used again; it stands for
 * nothing after an error. */
EA_MUST_CHECK int ea_batch_parse(ea_batch **batch, const uint8_t *data, size_t len_bytes, ea_err *err);
void ea_batch_free(ea_batch *b); /* NULL is allowed */
const ea_batch_head *ea_batch_parsed_head(const ea_batch *b);
/* Makes it complete, as ea_batch_complete does: 0, and b is complete, its bytes perhaps those in out, or an error. */
EA_MUST_CHECK int ea_batch_complete_parsed(ea_batch *b, const ea_definitions *known, ea_text *out, ea_err *err);

/* Batches first..last of this stream are gone. */
typedef struct ea_tombstone {
    uint64_t first, last;
    uint32_t cause; /* number of an events_evicted_* counter (ea_counter_row) */
    uint64_t event_count;
    int64_t utc_min_ns, utc_max_ns; /* of the events that are gone; 0 unknown */
} ea_tombstone;

EA_MUST_CHECK int ea_batch_each_tombstone(const uint8_t *batch, size_t len_bytes,
                                          int (*fn)(const ea_tombstone *tombstone, void *arg), void *arg, ea_err *err);
/* Appends a batch without events to out: kind EA_BATCH_TOMBSTONE under number. */
EA_MUST_CHECK int ea_batch_make_tombstone(const uint8_t *stream, uint64_t number, const ea_tombstone *tombstones,
                                          size_t count, ea_text *out, ea_err *err);

/* Appends the batch to out under another name: another stream and number, without its ledger, whose numbers belong to
 * the old one; what its tombstones say is gone is then this number alone. Nothing else changes, the checksum neither.
 */
EA_MUST_CHECK int ea_batch_rename(const uint8_t *batch, size_t len_bytes, const uint8_t *stream, uint64_t number,
                                  ea_text *out, ea_err *err);

/* The ledger: one number of it. family "" is the whole session. */
typedef struct ea_ledger_count {
    uint32_t counter; /* its wire number, see ea_counter_row; a newer agent may know more */
    uint64_t value;
    const char *family;
    uint64_t incarnation; /* counts restart when it changes */
    int64_t utc_ns;       /* when they were taken; 0 unknown */
} ea_ledger_count;

EA_MUST_CHECK int ea_batch_each_count(const uint8_t *batch, size_t len_bytes,
                                      int (*fn)(const ea_ledger_count *count, void *arg), void *arg, ea_err *err);

/* ---- a whole batch ---- */

/* What reading a batch costs: a byte that is decompressed, a byte of a payload and a row of a column 1 each, an event
 * EA_COST_AN_EVENT. At most EA_COST_BASE, and EA_COST_A_BYTE for each byte of its frames, of a directory that is not
 * short, and of its padding. FORMAT.md, "Bounds". */
#define EA_COST_BASE     (UINT64_C(1) << 22)
#define EA_COST_A_BYTE   UINT64_C(1024)
#define EA_COST_AN_EVENT UINT64_C(64)

typedef struct ea_batch_view ea_batch_view;

/* Opens a whole batch: checks every size against the bounds and decompresses the directory; columns are decompressed
 * when they are asked for. A batch that is_incomplete is refused with EA_ENOTFOUND. batch is borrowed until close.
 * registry: gets the batch's descriptions, and must hold those sent earlier; a class that is nowhere is EA_ENOTFOUND
 * and named in err. NULL: classes stay unresolved, and only head, sources, groups, hashes, counts and pids can be asked
 * for. */
EA_MUST_CHECK int ea_batch_open(ea_batch_view **ret, const uint8_t *batch, size_t len_bytes, ea_registry *registry,
                                ea_err *err);
/* The same of a batch whose envelope was read; only its bytes are borrowed. */
EA_MUST_CHECK int ea_batch_open_parsed(ea_batch_view **ret, const ea_batch *batch, ea_registry *registry, ea_err *err);
/* The same with the memory of *view, whose batch is not needed any more; NULL: there is none yet. After an error *view
 * is NULL. */
EA_MUST_CHECK int ea_batch_open_next(ea_batch_view **view, const uint8_t *batch, size_t len_bytes,
                                     ea_registry *registry, ea_err *err);
void ea_batch_close(ea_batch_view *v); /* NULL is allowed */

/* What reading it has cost so far; after ea_batch_verify all that it can cost. */
uint64_t ea_batch_cost(const ea_batch_view *v);
const ea_batch_head *ea_batch_get_head(const ea_batch_view *v);
size_t ea_batch_source_count(const ea_batch_view *v);
const ea_wire_source *ea_batch_source(const ea_batch_view *v, size_t source);

/* Groups: the events of one class with the same header constants. A class may have several. */
size_t ea_batch_group_count(const ea_batch_view *v);
const uint8_t *ea_batch_group_hash(const ea_batch_view *v, size_t group);   /* EA_CLASS_HASH_BYTES; the class's */
const ea_class *ea_batch_group_class(const ea_batch_view *v, size_t group); /* NULL without a registry */
uint32_t ea_batch_group_events(const ea_batch_view *v, size_t group);
/* What the group's events have in common: provider, id, version, channel, level, opcode, task, keyword, logger, flags,
 * property, pointer_size, header_type, hook_id, header_word, ext_count. The other members mean nothing. Needs a
 * registry; borrowed until close. */
const ea_record *ea_batch_group_constants(const ea_batch_view *v, size_t group);
/* The distinct process ids of the events' headers, ascending; borrowed until close. */
EA_MUST_CHECK int ea_batch_pids(ea_batch_view *v, const uint32_t **ret_pids, size_t *ret_count, ea_err *err);

/* Records in arrival order: 1 and *ret_record (borrowed until the next call) with *ret_class, 0 at the end, negative
 * when the batch is corrupt. */
EA_MUST_CHECK int ea_batch_next(ea_batch_view *v, const ea_record **ret_record, const ea_class **ret_class,
                                ea_err *err);
/* Puts the iteration back at the start. */
void ea_batch_rewind(ea_batch_view *v);

/* Recomputes checksum and time range from the records: 0, or EA_ECORRUPT. Leaves the iteration at the start. */
EA_MUST_CHECK int ea_batch_verify(ea_batch_view *v, ea_err *err);

/* ---- columns: a query reads only those that it needs ---- */

/* Rows of bytes. Fixed width: row i is width bytes at data + i * stride (stride 0: all rows are the same). Otherwise
 * width is 0 and row i is len_bytes[i] bytes at data + start[i]; EA_ROW_MISSING in len_bytes when the event lacks it.
 */
typedef struct ea_column {
    uint32_t count, width;
    size_t stride;
    const uint8_t *data;
    const uint32_t *start, *len_bytes;
} ea_column;

enum { EA_ROW_MISSING = -1 }; /* as uint32_t */

static inline int ea_column_missing(const ea_column *c, size_t row) {
    /* NOLINTNEXTLINE(clang-analyzer-*): width 0 comes with lengths */
    return c->width == 0 && c->len_bytes[row] == (uint32_t)EA_ROW_MISSING;
}

static inline ea_slice ea_column_row(const ea_column *c, size_t row) {
    if (c->width)
        return (ea_slice){.data = c->data + row * c->stride, .len_bytes = c->width, .element_count = 1};
    if (ea_column_missing(c, row))
        return (ea_slice){0};
    return (ea_slice){.data = c->data + c->start[row], .len_bytes = c->len_bytes[row], .element_count = 1};
}

/* The row as a number: 0 unless it is 1, 2, 4 or 8 bytes. */
static inline uint64_t ea_column_u64(const ea_column *c, size_t row) {
    ea_slice s = ea_column_row(c, row);
    return ea_load_uint(s.data, s.len_bytes);
}

/* What every event has, in arrival order; arrays of event_count, borrowed until close. */
typedef struct ea_batch_events {
    uint32_t count;
    const uint32_t *group; /* index of its group */
    const int64_t *time;   /* raw ticks of its source's clock */
    const uint16_t *cpu;
    const uint16_t *source; /* index into the source table */
    const uint32_t *thread; /* index into pid[] and tid[] */
    const uint32_t *pid, *tid;
    uint32_t thread_count; /* of pid[] and tid[] */
} ea_batch_events;

EA_MUST_CHECK int ea_batch_get_events(ea_batch_view *v, const ea_batch_events **ret, ea_err *err);
/* The events' numbers of arrival in their session, where some came late: 1 and event_count numbers, borrowed until
 * close; 0 when they came in order, and *ret_first is the first one's number. */
EA_MUST_CHECK int ea_batch_sequence(ea_batch_view *v, const uint64_t **ret_numbers, uint64_t *ret_first, ea_err *err);
/* The group's events: indexes into the arrays above, ascending; ea_batch_group_events of them. */
EA_MUST_CHECK int ea_batch_group_rows(ea_batch_view *v, size_t group, const uint32_t **ret_rows, ea_err *err);
/* The group's payloads, one row an event. */
EA_MUST_CHECK int ea_batch_payloads(ea_batch_view *v, size_t group, ea_column *ret, ea_err *err);
/* One top-level field (ea_class_top_field) of a group's events. When the batch holds the field as a column, only that
 * column is decoded; otherwise the payloads are split. Borrowed until close. */
EA_MUST_CHECK int ea_batch_column(ea_batch_view *v, size_t group, size_t top_field, ea_column *ret, ea_err *err);
/* A field that the batch holds as a dictionary: its distinct rows, and which of them each event has. 1 and *ret_values
 * (any number of rows) with *ret_index (ea_batch_group_events of them, each below ret_values->count); 0 when the field
 * is stored otherwise. Borrowed until close. */
EA_MUST_CHECK int ea_batch_dictionary(ea_batch_view *v, size_t group, size_t top_field, ea_column *ret_values,
                                      const uint32_t **ret_index, ea_err *err);
/* The group's activity ids, 16 bytes a row: 1 and *ret; 0 when they are all zero. */
EA_MUST_CHECK int ea_batch_activities(ea_batch_view *v, size_t group, ea_column *ret, ea_err *err);
/* The data of one extended item (below ext_count of the constants) of the group's events, and its type. */
EA_MUST_CHECK int ea_batch_item(ea_batch_view *v, size_t group, size_t item, uint16_t *ret_type, ea_column *ret,
                                ea_err *err);

/* What record number `number` of a batch, from 0, adds to the batch's checksum. FORMAT.md, "Checksum". */
uint64_t ea_record_checksum(uint64_t number, const ea_record *record);

#endif
