/* The embedded store: batches kept as they arrived, in append-only segment files, and an index in SQLite. The index
 * (and the state tables beside it) can always be rebuilt from the segments; what is acknowledged is in a synced
 * segment. Written by: collector/ingest. Read by: collector/state, query, web. Thread: one ec_store per thread (each
 * opens its own); one process at a time may write (EA_EBUSY otherwise), any number may read meanwhile. */
#ifndef EC_STORE_STORE_H
#define EC_STORE_STORE_H

#include "proto/base/counters.h"
#include "proto/base/err.h"
#include "proto/event/event.h"
#include "proto/wire/ack.h"
#include "proto/wire/wire.h"

typedef struct ec_store ec_store;

typedef struct ec_store_options {
    int writable;
    uint64_t segment_bytes; /* 0: 256 MiB */
    int trusts_checksums;   /* 1: append does not compute a batch's checksum from its records */
    int is_scratch;         /* 1: the store is removed after its use: a commit does not make its data durable */
    ea_counters *counters;  /* borrowed; may be NULL */
    /* Most that is kept of one agent; 0: no bound. Classes are those that it was the first to describe. Bytes of
     * definitions are those of what else its streams name by hash (sources, shapes, dictionaries), each once, and 512
     * for each stream that names it. */
    uint64_t agent_streams, agent_classes, agent_tombstones, agent_definition_bytes;
} ec_store_options;

/* EA_ENOTFOUND when the folder has no store, EA_EIO with the operating system's reason when this user may not read it.
 */
EA_MUST_CHECK int ec_store_check_readable(const char *dir, ea_err *err);
/* Opens (writable: makes and recovers) the store in folder dir. Recovery: a torn tail of the last segment is cut off
 * and counted; batches that are in segments and not in the index are indexed. */
EA_MUST_CHECK int ec_store_open(ec_store **ret, const char *dir, const ec_store_options *options, ea_err *err);
void ec_store_close(ec_store *s);
/* The store's SQLite connection, for the tables of collector/state (struct sqlite3 *). */
void *ec_store_database(ec_store *s);
/* What the store calls the agent of a name in lower case: the name itself, or, in a store that was begun by a version
 * that kept the case of letters, the spelling under which the agent's streams are. Of a writable store; borrowed.
 * Thread: any.
 */
const char *ec_store_agent_name(const ec_store *s, const char *name);
/* The store's folder; borrowed. */
const char *ec_store_folder(const ec_store *s);

enum ec_append { EC_STORED = 1, EC_DUPLICATE = 2 };

/* What the last append found, whatever it returned (as far as it came); valid until the next call. */
typedef struct ec_store_notes {
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t number; /* 0: the envelope could not be read */
    uint32_t event_count;
    ea_class_hash *described; /* definitions that it carries; durable after the commit */
    size_t described_count;
    ea_hash_ref *missing; /* definitions that are nowhere */
    size_t missing_count;
    uint64_t new_streams, new_classes, new_tombstones; /* that were stored with it */
} ec_store_notes;

const ec_store_notes *ec_store_last_notes(const ec_store *s);

/* Appends one batch of an agent (its certificate's name). Checks the envelope, reads every record and compares the
 * batch's checksum with theirs (unless trusts_checksums); refuses what could never be read back. Returns EC_STORED,
 * EC_DUPLICATE (same stream, number and checksum: nothing done), or an error: EA_ECONFLICT (the number is taken by
 * another checksum), EA_ECORRUPT, EA_EFORMAT, EA_ELIMIT, EA_ENOTFOUND (a definition is missing; then
 * ec_store_last_notes has the hashes), EA_EREFUSED (as many streams, classes or tombstones of the agent are kept as the
 * options allow). Durable only after ec_store_commit. Any other error (EA_EIO, EA_EFULL,
 * EA_EDATABASE, EA_ENOMEM) may cost the whole group: then the commit returns an error. */
EA_MUST_CHECK int ec_store_append(ec_store *s, const char *agent, const uint8_t *batch, size_t len_bytes, ea_err *err);

/* What is known of a batch's records before it is appended. */
typedef struct ec_check {
    int rc;           /* EC_CHECK_..., or the error of reading its records */
    const char *text; /* of the error, or of EC_CHECK_LATER; borrowed */
    /* of the descriptions in the batch, in their order, when all of them could be read; borrowed */
    const ea_class_hash *classes;
    size_t class_count;
} ec_check;

enum {
    EC_CHECK_NONE = 0,  /* nothing */
    EC_CHECK_SOUND = 1, /* its records give its checksum */
    EC_CHECK_EARLY = 2, /* a definition is not durable yet: only the appending thread can read its records */
    EC_CHECK_LATER = 3, /* the caller's: it is not to be appended now */
};

/* Reads every record of a batch as ec_store_append does, and compares its checksum with theirs, by what is durable. s
 * was opened for reading, on a thread of its own, so that the appending thread need not do it: see
 * ec_store_append_checked. EC_CHECK_SOUND, EC_CHECK_EARLY, EC_CHECK_NONE (a repeat, or an error that append finds
 * itself with little work), or EA_ECORRUPT, EA_EFORMAT, EA_ELIMIT, EA_ETRUNCATED, EA_EUNSUPPORTED, as append returns
 * them. */
EA_MUST_CHECK int ec_store_check(ec_store *s, const char *agent, const uint8_t *batch, size_t len_bytes, ea_err *err);
/* The classes that the batch of the last ec_store_check describes, as ec_check has them; valid until the next call. */
const ea_class_hash *ec_store_checked_classes(const ec_store *s, size_t *ret_count);
/* ec_store_append of a batch about which ec_store_check said this; NULL: nothing. */
EA_MUST_CHECK int ec_store_append_checked(ec_store *s, const char *agent, const uint8_t *batch, size_t len_bytes,
                                          const ec_check *check, ea_err *err);
/* Makes all appended batches durable (one fdatasync), then indexes them. When it fails, nothing since the last commit
 * is stored, and the store goes on with the next append. */
EA_MUST_CHECK int ec_store_commit(ec_store *s, ea_err *err);

/* The numbers of a stream that are durable, as ranges in order; at most capacity, *ret_count of them. */
typedef struct ec_range {
    uint64_t first, last;
} ec_range;

EA_MUST_CHECK int ec_store_ranges(ec_store *s, const char *agent, const uint8_t *stream, ec_range *ranges,
                                  size_t capacity, size_t *ret_count, ea_err *err);

/* The kinds of notices: findings that are made while batches arrive, and are in no batch. The last 10,000 are
 * kept beside the index. An index that is built again from the segments has none. Numbers are the `kind` column; never
 * reused. */
enum ec_notice_kind {
    EC_NOTICE_TWICE = 1,     /* two agents with one identity at a time */
    EC_NOTICE_CONFLICT = 2,  /* a batch whose number is taken by another content */
    EC_NOTICE_RETENTION = 3, /* segments were deleted since they were too old, or too much was kept */
    EC_NOTICE_SHARE = 4,     /* an agent has more than its share: its batches were deleted, or refused */
    EC_NOTICE_KEPT = 5,      /* so many streams, classes or tombstones of an agent are kept that no more are */
};

typedef struct ec_notice {
    int64_t utc_ns;
    uint32_t kind;
    char host[256], text[512];
} ec_notice;

const char *ec_notice_name(uint32_t kind); /* "identity-twice" ...; "other" for an unknown number */
/* Durable after the next ec_store_commit. The writer's. */
EA_MUST_CHECK int ec_store_add_notice(ec_store *s, const char *agent, enum ec_notice_kind kind, const char *text,
                                      ea_err *err);
/* Calls fn for each notice in the order of their detection; fn returns non-zero to stop. host NULL: of all hosts. */
EA_MUST_CHECK int ec_store_each_notice(ec_store *s, const char *host, int (*fn)(const ec_notice *notice, void *arg),
                                       void *arg, ea_err *err);

typedef struct ec_stream_row {
    uint64_t stream_id; /* in this store, from 1 */
    char host[256];     /* the agent's name: what --host names */
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t batch_count, event_count, byte_count,
        missing_count; /* ever stored; missing: numbers below the highest that never were */
    uint64_t expired_batch_count, expired_event_count; /* of them, deleted by retention */
    uint64_t highest_number;
    int64_t begin_utc_ns, end_utc_ns; /* of its events */
    int64_t received_first_utc_ns, received_last_utc_ns;
    char source_host[256]; /* the machine's own name, as the source table says; "" unknown */
    char agent_version[EA_AGENT_VERSION_MAX_BYTES + 1];
    const char *labels; /* a JSON object, borrowed for the call; NULL: none */
} ec_stream_row;

/* A place in the segments. Places of later batches are greater. */
typedef struct ec_store_place {
    uint64_t segment, offset;
} ec_store_place;

/* The end of what is stored and in the index; all 0 in an empty store. */
EA_MUST_CHECK int ec_store_position(ec_store *s, ec_store_place *ret, ea_err *err);

/* Whether a run of an agent had a label, "NAME=VALUE": 1, 0 (also of a text without =), or an error. */
EA_MUST_CHECK int ec_store_has_label(ec_store *s, uint64_t stream_id, const char *label, ea_err *err);

/* Streams in the order in which they were first received; fn returns non-zero to stop. host NULL: of all hosts. */
EA_MUST_CHECK int ec_store_each_stream(ec_store *s, const char *host, int (*fn)(const ec_stream_row *row, void *arg),
                                       void *arg, ea_err *err);

typedef struct ec_batch_row {
    uint64_t stream_id, number;
    uint32_t event_count;
    int64_t begin_utc_ns, end_utc_ns;
    uint64_t len_bytes;
    uint64_t segment, offset;
} ec_batch_row;

/* The first batch of a stream with a number above after: 1 and *ret, 0 when there is none (yet). */
EA_MUST_CHECK int ec_store_next_batch(ec_store *s, uint64_t stream_id, uint64_t after, ec_batch_row *ret, ea_err *err);
/* The batch's bytes as they arrived, checked against the segment's checksum, and complete (ea_batch_complete); owned by
 * s until its next call. */
EA_MUST_CHECK int ec_store_read(ec_store *s, const ec_batch_row *row, const uint8_t **ret_data, size_t *ret_len_bytes,
                                ea_err *err);
/* Closes the segment file that was read last, so that a reader that waits does not keep the space of a deleted one.
 * What ec_store_read gave stays. */
void ec_store_rest(ec_store *s);
/* Adds to a registry the classes of a batch's events that it lacks, as the stream has described them; what the stream
 * did not describe stays missing. EA_ELIMIT: the registry is full. A batch of ec_store_read stays valid. */
EA_MUST_CHECK int ec_store_load_classes(ec_store *s, uint64_t stream_id, const uint8_t *batch, size_t len_bytes,
                                        ea_registry *registry, ea_err *err);

#endif
