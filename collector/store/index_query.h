/* Which stored batches can hold an answer: the index asked by stream, time, class and process id. Input: the index,
 * which append.c wrote. Used by: collector/query, which reads the batches. Thread: its store's. */
#ifndef EC_STORE_INDEX_QUERY_H
#define EC_STORE_INDEX_QUERY_H

#include "collector/store/store.h"

typedef struct ec_index_query ec_index_query;

typedef struct ec_index_query_filter {
    int64_t from_utc_ns, to_utc_ns; /* both included */
    const ea_class_hash *classes;   /* any of these; NULL: of all classes */
    size_t class_count;
    const uint32_t *pids; /* any of these in the events' headers, ascending; NULL: all */
    size_t pid_count;
} ec_index_query_filter;

/* A stream as a search needs it: fewer of its numbers than ec_stream_row has, which are dear for ten thousand streams.
 */
typedef struct ec_index_query_row {
    uint64_t stream_id; /* in this store, from 1 */
    const char *host;   /* the agent's name */
    uint8_t stream[EA_STREAM_ID_BYTES];
    uint64_t event_count;
    int64_t begin_utc_ns, end_utc_ns; /* of its events */
} ec_index_query_row;

/* Streams in the order in which they were first received; row is borrowed for the call, fn returns non-zero to stop.
 * host NULL: of all hosts. */
EA_MUST_CHECK int ec_index_query_streams(ec_store *store, const char *host,
                                         int (*fn)(const ec_index_query_row *row, void *arg), void *arg, ea_err *err);

typedef struct ec_found {
    ec_batch_row row;
    uint32_t kind; /* enum ea_batch_kind */
} ec_found;

/* Prepares a search; the filter is borrowed until close. */
EA_MUST_CHECK int ec_index_query_open(ec_index_query **ret, ec_store *store, const ec_index_query_filter *filter,
                                      ea_err *err);
/* Begins with a stream; may be called again, for one stream after the other. The index is not asked about a stream
 * whose events are all at other times. */
void ec_index_query_stream(ec_index_query *f, const ec_index_query_row *stream);
/* The next batch of the stream with events that may match the filter, by number: 1 and *ret, 0 at the end. A batch that
 * is not returned has no match; a returned batch may have none, too. */
EA_MUST_CHECK int ec_index_query_next(ec_index_query *f, ec_found *ret, ea_err *err);

/* Batches that a search has come across: given, and those that are of other classes or process ids alone. */
typedef struct ec_index_query_counts {
    uint64_t given, other_classes, other_pids;
} ec_index_query_counts;

const ec_index_query_counts *ec_index_query_counted(const ec_index_query *f);
/* How many batches with events a stream has. */
EA_MUST_CHECK int ec_index_query_batches(ec_index_query *f, uint64_t stream_id, uint64_t *ret, ea_err *err);
/* Whether all batches of the stream from first to last are there, whatever is in them: 1, 0 when one is not (a
 * tombstone stands for batches that are not), or an error. */
EA_MUST_CHECK int ec_index_query_has_all(ec_index_query *f, uint64_t first, uint64_t last, ea_err *err);
void ec_index_query_close(ec_index_query *f); /* NULL is allowed */

/* Adds stored class descriptions to a registry, up to its limit (batches with the other classes cannot be read), and
 * calls fn with each class; non-zero stops and is returned. */
EA_MUST_CHECK int ec_index_query_classes(ec_store *store, ea_registry *registry,
                                         int (*fn)(const ea_class *c, void *arg), void *arg, ea_err *err);

#endif
