/* A store as questions see it: its streams and classes at one moment. What arrives later is not in it. Input:
 * collector/store. Used by: scan.c, the tables of SQL. Thread: one ec_archive belongs to one thread. */
#ifndef EC_QUERY_SCAN_ARCHIVE_H
#define EC_QUERY_SCAN_ARCHIVE_H

#include "collector/store/index_query.h"
#include "proto/event/render.h"

typedef struct ec_archive ec_archive;

typedef struct ec_archive_stream {
    ec_index_query_row row;
    char id[2 * EA_STREAM_ID_BYTES + 1]; /* hex */
} ec_archive_stream;

/* All classes of one name: its versions, pointer sizes, and the providers that use the name. */
typedef struct ec_class_set {
    const char *name; /* as the first of them writes it */
    const ea_class **classes;
    size_t count;
    size_t number; /* among the archive's sets, from 0 */
    /* Of a part (ec_archive_parts): a class of each part, whose other columns are NULL. */
    const ea_class *const *others;
    size_t other_count;
} ec_class_set;

enum { EC_CLASS_PARTS_MAX = 32 };

/* Opens the store in folder dir for reading; host: only this agent's streams, NULL for all. shown: only streams of
 * hosts that fit these patterns (pattern.h), borrowed until close, and the classes that these have sent; NULL: all. The
 * store is held in its present state: a writer goes on meanwhile. */
EA_MUST_CHECK int ec_archive_open(ec_archive **ret, const char *dir, const char *host, const char *shown, ea_err *err);
void ec_archive_close(ec_archive *a); /* NULL is allowed */

ec_store *ec_archive_store(ec_archive *a);
/* Holds no class before ec_archive_classes or ec_archive_set. */
ea_registry *ec_archive_registry(ec_archive *a);
/* The streams, in the order in which they were first received; borrowed until close. They are read when they are first
 * asked for: a question about classes or machines' tables needs none of them. */
EA_MUST_CHECK int ec_archive_streams(ec_archive *a, const ec_archive_stream **ret, size_t *ret_count, ea_err *err);
/* EA_ENOTFOUND, with the sentence of all commands and routes for a host of which nothing is stored. */
EA_MUST_CHECK int ec_unknown_host(const char *host, ea_err *err);
/* EA_ENOTFOUND: nothing is stored of one of these hosts. */
EA_MUST_CHECK int ec_archive_has_hosts(ec_archive *a, const char *const *hosts, size_t host_count, ea_err *err);
/* All classes, those without a name too; borrowed until close. They are read, and added to the registry, when they are
 * first asked for: a question about machines' tables needs none of them. */
EA_MUST_CHECK int ec_archive_classes(ec_archive *a, const ea_class *const **ret, size_t *ret_count, ea_err *err);
/* The set of classes of a name, in any case, or of an alias (class_names.h); *ret is NULL when there is none. Borrowed
 * until close. */
EA_MUST_CHECK int ec_archive_set(ec_archive *a, const char *name, const ec_class_set **ret, ea_err *err);
/* A set in parts whose classes agree in the columns that they have, so that a class of one agent does not change what
 * the columns of the others are: the set itself when all of it agrees. Of more than EC_CLASS_PARTS_MAX those are given
 * that most hosts have sent (*ret_left_out: the number of the others). A part's name (the set's, a tab, a hash) is
 * found by ec_archive_set. *ret: borrowed until close. EA_ENOMEM, EA_EDATABASE. */
EA_MUST_CHECK int ec_archive_parts(ec_archive *a, const ec_class_set *set, const ec_class_set *const **ret,
                                   size_t *ret_count, size_t *ret_left_out, ea_err *err);

/* What a stream's events call files, keys and volumes, out of the machine's tables (collector/state/object_names_db.h):
 * 1 and *ret, borrowed until the next stream is asked for; 0 when there are no tables of it yet. */
EA_MUST_CHECK int ec_archive_names(ec_archive *a, const ec_archive_stream *stream, ea_resolver *ret, ea_err *err);

/* A number for a batch, the same each time it is asked for, from 1; 0 when there is no memory for it. */
uint64_t ec_archive_ordinal(ec_archive *a, const ec_batch_row *row);

/* What scans have read since the archive was opened, or since its owner set the numbers to 0. */
typedef struct ec_reads {
    uint64_t scans;
    uint64_t batches, batch_events, batch_bytes; /* that were read, and the events that are in them */
    uint64_t counted_events;                     /* whose number was enough */
    uint64_t decoded_events;                     /* of which columns were looked at */
    uint64_t kept_events;                        /* that the conditions let through */
    /* batches that were not read, and why */
    uint64_t other_hosts, other_times, other_classes, other_pids, other_batches;
    int counts_times; /* 1: other_hosts and other_times are counted, for which the index is read once more */
} ec_reads;

ec_reads *ec_archive_reads(ec_archive *a);

/* keep_going is called before each batch that a scan reads; 0 ends the scan with EA_ECANCELED. NULL: it is not called.
 */
void ec_archive_on_batch(ec_archive *a, int (*keep_going)(void *arg), void *arg);
int ec_archive_goes_on(const ec_archive *a);

/* 1 when an error is about what is stored: the batch is left out, or the value, and reading goes on. */
int ec_is_damage(int rc);
/* A batch that could not be read, as a whole or in part: counted once, and the first one's reason kept. */
void ec_archive_damaged(ec_archive *a, const ec_archive_stream *stream, uint64_t number, const ea_err *err);
uint64_t ec_archive_damage(const ec_archive *a, const char **ret_first);

#endif
