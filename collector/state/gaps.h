/* The gaps of a stream, and their times: batches that are missing, and losses that Windows or the agent reported. They
 * are rows of the table `gaps`; readers use the view `gap_periods` (state_db.c), which gives open ends. Called by:
 * ledger_report.c, which hands over each batch's numbers, and state_worker.c, which hands over the records that Windows
 * logs where events were lost. Read by: the command ledger, SQL, the metrics. Thread: the thread of its ec_state_db.
 *
 * There are three kinds of rows:
 * - batches: batches first..last are missing. They span the time from the last event before them to the first event
 *   after them. With nothing before them the time begins with the session; with nothing after them it has no end.
 * - recorded: a record RTLostEvent, RTLostBuffer or RTLostFile of batch first. It spans the time from the last event of
 *   its CPU to the record.
 * - counted: a counter of losses grew in the ledger of batch first. Its time is the time of the records about such a
 *   loss: the records since the count before, and, as long as no further count follows, the records after it (a file
 *   has the number of losses in its header, before its records), and that of missing batches which may have held some:
 *   of a file of all, of a live session of those immediately before first. Without a record it is the time since the
 *   ledger before, or, for a count from a file's header, all of the stream's time; where the first batches are missing
 * that begins with theirs, where the last ones are missing it ends with theirs, and each is unknown when nothing says
 *   when they began or ended. */
#ifndef EC_STATE_GAPS_H
#define EC_STATE_GAPS_H

#include "collector/state/state_db.h"
#include "collector/store/store.h"
#include "proto/base/counters.h"
#include "proto/wire/wire.h"

/* Numbers are the `cause` column of gaps; never reused. Below 1000: a counter's number on the wire. */
enum {
    EC_GAP_MISSING = 1000, /* batches that have not come */
    EC_GAP_LOST_EVENT = 1001,
    EC_GAP_LOST_BUFFER = 1002,
    EC_GAP_LOST_FILE = 1003,
};

enum { EC_LOST_RECORDS = 64 }; /* rows of a batch; further records extend the last one */

/* No machine has so many events; what is beyond is kept as this, so that sums stay below 2^63. */
#define EC_GAP_COUNT_MAX ((INT64_C(1) << 40) - 1)

/* Counters (of source_events_lost, source_buffers_lost, source_bad_buffers, source_bad_bytes) of which a file's header
 * or index says all at once. A row of theirs without begin and end is of all of the stream's time, and of that of the
 * batches missing before its first event and after its last one. */
#define EC_GAP_AT_ONCE "30, 31, 34, 35"

const char *ec_gap_name(uint32_t cause); /* "missing", "RTLostEvent", a counter's name, "other" */
const char *ec_gap_kind(uint32_t cause); /* "batches", "recorded", "counted" */
/* 1 for a counter of events or buffers that are lost and that no batch or tombstone stands for. */
int ec_gap_is_counted(enum ea_counter c);

/* What a batch with events says of its session. Those of a batch without events are the ones of the last batch before
 * it that has some. */
typedef struct ec_session_facts {
    int64_t begin_utc_ns; /* of the session; INT64_MIN: unknown */
    int is_live;          /* its events come from a session that runs, and from no file */
} ec_session_facts;

void ec_session_facts_of(const ea_batch_view *v, ec_session_facts *ret);

/* A record of Windows that something was lost, or several that became one. */
typedef struct ec_lost_record {
    uint32_t cause, count;
    uint16_t cpu;
    int64_t begin_utc_ns; /* the last event of its CPU before it; INT64_MIN: none is known yet */
    int64_t end_utc_ns;
} ec_lost_record;

/* The records of a batch: at most EC_LOST_RECORDS. v needs a registry. */
EA_MUST_CHECK int ec_lost_find(ea_batch_view *v, ec_lost_record *ret, size_t *ret_count, ea_err *err);
/* Looks in an earlier batch for the events whose CPU was not in the ones after it. *ret_open: how many lack theirs. */
EA_MUST_CHECK int ec_lost_look_back(ea_batch_view *v, ec_lost_record *records, size_t count, size_t *ret_open,
                                    ea_err *err);

typedef struct ec_gaps ec_gaps;

/* Reads back where the stream's rows are. */
EA_MUST_CHECK int ec_gaps_open(ec_gaps **ret, ec_state_db *t, const ec_state_fold *fold, ea_err *err);
void ec_gaps_close(ec_gaps *b); /* NULL is allowed */

/* A batch's turn: one with events ends the periods that had no event after them. facts: NULL when they are unknown. */
EA_MUST_CHECK int ec_gaps_begin(ec_gaps *b, const ec_state_fold *fold, const ec_batch_row *row,
                                const ec_session_facts *facts, ea_err *err);
/* Batches before the one at hand that have not come. events: how many they hold; NULL: unknown. */
EA_MUST_CHECK int ec_gaps_missing(ec_gaps *b, uint64_t batch_count, const uint64_t *events, ea_err *err);
EA_MUST_CHECK int ec_gaps_tombstone(ec_gaps *b, const ea_tombstone *t, ea_err *err);
/* A counter of the ledger at hand. begin_utc_ns: the last event of the batch of the ledger before it; INT64_MIN: none.
 */
EA_MUST_CHECK int ec_gaps_counted(ec_gaps *b, enum ea_counter c, uint64_t value, int64_t begin_utc_ns, ea_err *err);
/* The records of the batch at hand. */
EA_MUST_CHECK int ec_gaps_recorded(ec_gaps *b, const ec_lost_record *records, size_t count, ea_err *err);

#endif
