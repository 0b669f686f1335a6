/* The agents' ledgers as time series, and the check of their equations (service/spool/ledger.h has the agent's side).
 * Called by: state_worker.c, which gives each stored batch in the order of its numbers. Read by: the command ledger,
 * the metrics, collector/web. Thread: the one of its ec_state_db.
 *
 * Held against every batch's numbers:
 *     delivered             = batched + dropped_* + filtered + sampled_out + limited + repeated + pending
 *     batched + synthesised = compressing + spooled + unanswered + acknowledged + evicted_*
 *     stored before it      >= acknowledged - what another collector may have (ec_ledger_elsewhere)
 * and a cumulative counter does not go back within an incarnation. What does not hold is an alert with both numbers;
 * one that merely persists is not repeated. Everything is written in the transaction of the fold, and is made anew from
 * the segments with it. */
#ifndef EC_STATE_LEDGER_REPORT_H
#define EC_STATE_LEDGER_REPORT_H

#include "collector/state/gaps.h"
#include "collector/state/state_db.h"
#include "collector/store/store.h"

/* Numbers are the `kind` column of alerts; never reused. */
enum ec_alert_kind {
    EC_ALERT_DELIVERED = 1,  /* left: delivered, right: accounted for */
    EC_ALERT_BATCHED = 2,    /* left: batched + synthesised, right: accounted for */
    EC_ALERT_STORED = 3,     /* left: stored, right: acknowledged */
    EC_ALERT_BACKWARDS = 4,  /* left: before, right: now */
    EC_ALERT_UNREADABLE = 5, /* the ledger's bytes; both 0 */
    EC_ALERT_KEYFRAME = 6,   /* a keyframe differed from the state: left: what it had to add, right: to close */
};

const char *ec_alert_name(uint32_t kind); /* "delivered" ...; "other" for an unknown number */

/* The sides of an equation (EC_ALERT_DELIVERED or EC_ALERT_BATCHED) in the agent's numbers. */
void ec_ledger_sides(enum ec_alert_kind which, const uint64_t *values, uint64_t *ret_left, uint64_t *ret_right);

/* What the check of one stream remembers of the batch before. */
typedef struct ec_ledger ec_ledger;

/* Reads back where the stream's ledger is. */
EA_MUST_CHECK int ec_ledger_open(ec_ledger **ret, ec_state_db *t, const ec_state_fold *fold, ea_err *err);
void ec_ledger_close(ec_ledger *l); /* NULL is allowed */

/* Takes the ledger and the tombstones of a batch. fold: before the batch; missing_count: numbers between its position
 * and row that have not come; facts: NULL when they are unknown. on_alert (may be NULL) gets a line for a person. */
EA_MUST_CHECK int ec_ledger_take(ec_ledger *l, const ec_state_fold *fold, const ec_batch_row *row, const uint8_t *batch,
                                 size_t len_bytes, uint64_t missing_count, const ec_session_facts *facts,
                                 void (*on_alert)(void *arg, const char *text), void *arg, ea_err *err);
/* Where Windows logged, in the batch that was taken last, that something was lost. */
EA_MUST_CHECK int ec_ledger_take_lost(ec_ledger *l, const ec_lost_record *records, size_t count, ea_err *err);
/* The last value of each counter of a stream in batches up to number (INT64_MAX: all), by family and number. */
EA_MUST_CHECK int ec_ledger_each_last(ec_state_db *t, int64_t stream_number, int64_t number,
                                      int (*fn)(const char *family, uint32_t counter, uint64_t value, void *arg),
                                      void *arg, ea_err *err);
/* Events of a stream, up to batch number, that may be with other collectors: the events of the hole at its beginning,
 * and, if the agent reports that it moved (collector_moves), of any other hole. UINT64_MAX: unknown. */
EA_MUST_CHECK int ec_ledger_elsewhere(ec_state_db *t, int64_t stream_number, int64_t number, const uint64_t *values,
                                      uint64_t *ret, ea_err *err);

/* The third equation: whether stored + elsewhere >= acknowledged. EC_UNKNOWN: it depends on an unknown number. */
enum ec_verdict { EC_FAILS, EC_HOLDS, EC_UNKNOWN };
enum ec_verdict ec_ledger_is_stored(uint64_t stored, uint64_t elsewhere, const uint64_t *values);
/* When the newest run of an agent ended in order. index: the store's database (ec_store_database). Borrows both; closed
 * before either. One thread. */
typedef struct ec_ends ec_ends;
EA_MUST_CHECK int ec_ends_open(ec_ends **ret, ec_state_db *t, sqlite3 *index, ea_err *err);
void ec_ends_close(ec_ends *e); /* NULL is allowed */
/* 1 when all streams of an agent's newest run (those whose ids have the same first EA_STREAM_RUN_BYTES as the stream
 * that was received last) have their closing batch, and *ret_utc_ns is the last of their times by the agent's clock; 0
 * when not, or when it is not folded yet. */
EA_MUST_CHECK int ec_ends_of(ec_ends *e, const char *agent, int64_t *ret_utc_ns, ea_err *err);
/* 1 when a batch with events had the agent's numbers: a stream without any has parts of a recording. */
int ec_ledger_has_numbers(const ec_ledger *l);
/* Adds an alert of another origin. */
EA_MUST_CHECK int ec_ledger_alert(ec_ledger *l, uint64_t number, const char *family, enum ec_alert_kind kind,
                                  int64_t utc_ns, uint64_t left, uint64_t right, const char *text, ea_err *err);

#endif
