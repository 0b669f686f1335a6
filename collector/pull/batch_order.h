/* The records of stored batches of several streams in the order of their times. Input: batches of an archive. Called
 * by: pull.c. Calls: collector/query/scan, proto/wire. Thread: its owner's.
 *
 * Times are ticks of one clock. Those of a source whose clock counts the same ticks stay as they are. Those of another
 * kind of clock go by way of UTC, and so do times in payloads (proto/relog/payload_times.h). A batch is in memory while
 * its range of times has the record at hand: at most LANES_MAX at once, beyond which later records may come out before
 * earlier ones. */
#ifndef EC_PULL_BATCH_ORDER_H
#define EC_PULL_BATCH_ORDER_H

#include "collector/query/scan/archive.h"

typedef struct ec_batch_order ec_batch_order;

typedef struct ec_batch_order_options {
    ec_archive *archive;
    const ec_archive_stream *const *streams; /* borrowed */
    size_t stream_count;
    /* Of classes; NULL: of all. Batches without one of these are not read. */
    int (*wants)(void *arg, const ea_class *c);
    void *arg;
    ea_clock clock;        /* of the times that come out; frequency 0: that of the first source */
    int64_t boot_filetime; /* of clock; 0: unknown */
    unsigned pointer_size; /* of the machine whose clock it is; 0: unknown */
} ec_batch_order_options;

/* Begins with the batches that have events of [from, to) of UTC; records of other times come, too. */
EA_MUST_CHECK int ec_batch_order_open(ec_batch_order **ret, const ec_batch_order_options *options, int64_t from_utc_ns,
                                      int64_t to_utc_ns, ea_err *err);
void ec_batch_order_close(ec_batch_order *b); /* NULL is allowed */

/* The next record, borrowed until the next call: 1 and *ret, *ret_class, 0 at the end. Header events of traces and
 * keyframes of the agent do not come. Damaged batches are reported to the archive and skipped. EA_EUNSUPPORTED: a
 * source is of another start of the machine than the clock, or has pointers of another size. */
EA_MUST_CHECK int ec_batch_order_next(ec_batch_order *b, const ea_record **ret, const ea_class **ret_class,
                                      ea_err *err);

/* What the sources of the first batch of each stream say. */
typedef struct ec_batch_order_sources {
    ea_wire_source first; /* its texts are session_name and host */
    char session_name[256];
    uint32_t cpu_count; /* the most */
    size_t source_count;
    int several_loggers; /* they have different session numbers */
    int is_found;        /* 0: there is no batch */
} ec_batch_order_sources;

/* Of the options' streams in [from, to). */
EA_MUST_CHECK int ec_batch_order_look(const ec_batch_order_options *options, int64_t from_utc_ns, int64_t to_utc_ns,
                                      ec_batch_order_sources *ret, ea_err *err);

#endif
