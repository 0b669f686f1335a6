/* The open batch: records in, bytes of closed batches out. Input: service/decode. Output: service/spool. Thread: add()
 * and take() on the source's thread, encode() on another.
 *
 * add() copies a record into the open batch and finds its group (same class, same header constants): one look-up, two
 * copies, no allocation but when a batch holds more groups or larger records than any before. All memory is made by
 * create(). Columns, encodings and compression are encode()'s.
 * A batch closes by count and bytes only, so that a replay of the same files makes the same batches. */
#ifndef EA_BATCH_BUILDER_H
#define EA_BATCH_BUILDER_H

#include "proto/base/counters.h"
#include "proto/wire/wire.h"

typedef struct ea_builder ea_builder;
typedef struct ea_open_batch ea_open_batch; /* rows of one closed, not yet encoded batch */

typedef struct ea_builder_options {
    uint32_t max_events;           /* 0: 16,384 */
    uint32_t max_bytes;            /* of records' payloads and extended items; 0: 4 MiB */
    uint32_t spare_batches;        /* how many may be in the encoder's hands at once; 0: 2 */
    const ea_wire_source *sources; /* copied */
    size_t source_count;           /* 1 at the least */
    ea_counters *counters;         /* borrowed; may be NULL. take() adds to events_batched and batches_closed. */
} ea_builder_options;

EA_MUST_CHECK int ea_builder_create(ea_builder **ret, const ea_builder_options *options, ea_err *err);
/* All batches must have been released. NULL is allowed. */
void ea_builder_destroy(ea_builder *b);

/* Batches that are taken from now on have these labels with each of their sources. labels is copied. EA_ENOMEM: they
 * stay as they are. Any thread. */
EA_MUST_CHECK int ea_builder_set_labels(ea_builder *b, const ea_labels *labels, ea_err *err);
/* ... this clock with that source, which is below source_count. */
EA_MUST_CHECK int ea_builder_set_clock(ea_builder *b, size_t source, const ea_clock *clock, ea_err *err);

/* Adds a record of class c (the registry of the source's thread; c must live until the batch is released). Returns 1
 * when the batch is full now and must be taken, 0 when there is room, EA_EFULL when the record was not added because
 * the batch must be taken first, EA_ELIMIT when the record can be in no batch (its items exceed 8 MiB, one of them
 * exceeds 65,535 bytes, or it names a source that is not in the table), EA_ENOMEM. */
EA_MUST_CHECK int ea_builder_add(ea_builder *b, const ea_record *record, const ea_class *c);

/* Closes the open batch and starts the next; NULL when it is empty, or when all spare batches are in other hands (then
 * a live source drops and counts, a file's waits). The result belongs to the caller until ea_open_batch_release, which
 * gives its memory back to the builder (any thread). */
ea_open_batch *ea_builder_take(ea_builder *b);
/* Waits until take() can succeed. */
void ea_builder_wait(ea_builder *b);
uint32_t ea_builder_pending(const ea_builder *b); /* events in the open batch */
uint32_t ea_open_batch_events(const ea_open_batch *batch);
void ea_open_batch_release(ea_open_batch *batch);

typedef struct ea_encoder ea_encoder;

typedef struct ea_encoder_options {
    int zstd_level; /* 0: 1; EA_ZSTD_NONE: columns, but neither zstd nor dictionaries */
    uint8_t stream[EA_STREAM_ID_BYTES];
    int all_descriptions; /* 1: send every class's description in each batch that uses it */
    /* A zstd dictionary for small batches, used once the collector has it; borrowed as long as the encoder lives. */
    const uint8_t *dictionary;
    size_t dictionary_bytes; /* 0: none; at most EA_DICTIONARY_MAX_BYTES */
    int is_numbered;         /* records' positions are their numbers of arrival, which travel with batches of events */
} ea_encoder_options;

enum { EA_ZSTD_NONE = -1000 };

EA_MUST_CHECK int ea_encoder_create(ea_encoder **ret, const ea_encoder_options *options, ea_err *err);
void ea_encoder_destroy(ea_encoder *e); /* NULL is allowed */

/* What travels with a batch beside its events. */
typedef struct ea_batch_stamp {
    uint64_t number;
    uint32_t priority;
    uint32_t kind;                        /* enum ea_batch_kind: EA_BATCH_EVENTS or EA_BATCH_KEYFRAME */
    const ea_counters *ledger;            /* borrowed; NULL: none */
    int64_t ledger_utc_ns;                /* when the ledger was taken; 0: not said */
    const ea_ledger_count *family_counts; /* of single families, grouped by family; borrowed */
    size_t family_count_count;
    uint64_t incarnation; /* the ledger restarts when it changes */
} ea_batch_stamp;

/* Columns, encodings, compression, envelope; batch NULL: the stamp alone. *ret_data is owned by the encoder until its
 * next call. The same batch, options, stamp and known classes give the same bytes. Thread: one at a time; the batch may
 * come from another. Errors: EA_ENOMEM; EA_ELIMIT when it would exceed EA_BATCH_MAX_BYTES. */
EA_MUST_CHECK int ea_encoder_encode(ea_encoder *e, const ea_open_batch *batch, const ea_batch_stamp *stamp,
                                    const uint8_t **ret_data, size_t *ret_len_bytes, ea_err *err);
/* The collector has this definition (EA_CLASS_HASH_BYTES of its hash) durably: it need not be sent again on this
 * stream. Any thread. */
void ea_encoder_known(ea_encoder *e, const uint8_t *hash);
/* The collector said that it lacks this one: send it again. Any thread. */
void ea_encoder_unknown(ea_encoder *e, const ea_hash_ref *ref);
/* The directory of the last batch, when it was a small one (EA_SMALL_BATCH_EVENTS) and not compressed by itself yet:
 * what a dictionary for small batches is trained with. 0 bytes: it was none. Borrowed until the next call. */
void ea_encoder_last_directory(const ea_encoder *e, const uint8_t **ret_data, size_t *ret_len_bytes);

enum { EA_SMALL_BATCH_EVENTS = 64 };

#endif
