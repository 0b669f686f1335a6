/* A sink: sends stored events to a receiver, in requests of many rows, each row until the receiver has it
 * or will not take it. The place moves, in the transaction that counts the rows, when all rows of a request are
 * settled: a kill repeats them, under the same names, so that the receiver gets each row at least once and can drop
 * what it has. Called by: the command sink run. Calls: outbox.h, sink_sender.h, collector/state. Thread:
 * the main one; it waits. */
#ifndef EC_SINK_SINK_H
#define EC_SINK_SINK_H

#include "collector/sink/outbox.h"
#include "collector/sink/sink_kinds.h"
#include "proto/event/class_names.h"

#include <stdatomic.h>

enum { EC_SINK_ATTEMPTS = 5 }; /* in a row, of a run that ends */

typedef struct ec_sink_options {
    const char *store, *name, *to;
    const ec_sink_kind *kind;
    const char *headers, *ca, *index, *table, *properties; /* headers, properties: lines; NULL: none */
    const char *where;                                     /* a condition; NULL: all */
    const char *redact, *redact_key; /* kinds, and the file of their key, which is read by open; NULL: none */
    const ea_strings *hosts;         /* names, with * at the end for all that begin so; none: all */
    const ea_strings *labels;        /* NAME=VALUE, all of which a run of an agent has; none: all runs */
    const ea_class_choice *choice;
    uint64_t rows_max, bytes_max; /* of a request */
    int64_t retry_min_ns, retry_max_ns, answer_ns, ack_ns;
    int ends, is_all;       /* ends: when all is sent; is_all: a new sink begins with what is stored */
    const atomic_int *stop; /* borrowed */
    void (*on_note)(void *arg, const char *text); /* a line for a person */
    void *arg;
} ec_sink_options;

typedef struct ec_sink ec_sink;

/* All of options is borrowed until close. EA_EBUSY: another process runs the sink. EA_EUSAGE: the name, the URL, a
 * header or the condition cannot be used, or the sink is of another kind. */
EA_MUST_CHECK int ec_sink_open(ec_sink **ret, const ec_sink_options *options, ea_err *err);
void ec_sink_close(ec_sink *s); /* NULL is allowed */
/* Until it is asked to stop, or with `ends` until all is sent that is stored then: 0. EA_ENET, EA_ETLS, EA_ETIMEOUT,
 * EA_ELIMIT, EA_EFORMAT with `ends`: the receiver took nothing EC_SINK_ATTEMPTS times in a row. Errors of the store. */
EA_MUST_CHECK int ec_sink_run(ec_sink *s, ea_err *err);
/* What this run has sent, by fate. */
const uint64_t *ec_sink_counts(const ec_sink *s);
/* How many values of events pseudonyms replaced in this run. */
uint64_t ec_sink_redacted_count(const ec_sink *s);

#endif
