/* How rows get to a receiver: a request with its answer, by HTTP (sink_http.c), to Splunk (sink_splunk.c) or to
 * Kafka (sink_kafka.c). Called by: sink.c. Thread: its owner's; it waits. */
#ifndef EC_SINK_SINK_SENDER_H
#define EC_SINK_SINK_SENDER_H

#include "collector/sink/sink_kinds.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct ec_sink_sender_options {
    const ec_sink_kind *kind;
    const char *to;
    const char *headers, *ca, *index, *table, *properties; /* as ec_sink_options has them */
    int64_t answer_ns, ack_ns;                             /* ack_ns: how long rows that came may wait to be indexed */
    const atomic_int *stop;
} ec_sink_sender_options;

typedef struct ec_sink_answer {
    int64_t retry_after_s; /* as the receiver asks; 0: it does not */
    ea_text *reason;       /* is given: gets why the first row was refused, or has to come again */
} ec_sink_answer;

typedef struct ec_sink_sender {
    /* options are borrowed until destroy. It makes no connection and no thread: the caller confines itself after it.
     * EA_EUSAGE: the URL, a header or a property cannot be used. EA_ENOTFOUND: a library is missing. */
    int (*create)(void **ret, const ec_sink_sender_options *options, ea_err *err);
    void (*destroy)(void *sender); /* NULL is allowed */
    /* Sends rows once. 0: their verdicts are set. EA_EREFUSED: so are they, and rows that wait are refused as they were
     * sent: fewer at a time may be accepted, and of one row it is final. EA_ENET, EA_ETLS, EA_ETIMEOUT, EA_ELIMIT (the
     * answer is too large): no verdict has changed. EA_ECANCELED: stop. Others: this side has failed. */
    int (*send)(void *sender, const char *rows, ec_sink_item **items, size_t count, ec_sink_answer *ret, ea_err *err);
    /* The receiver's name without secrets; *ret_len_bytes of it; borrowed. */
    const char *(*receiver)(const void *sender, size_t *ret_len_bytes);
} ec_sink_sender;

extern const ec_sink_sender EC_SINK_HTTP, EC_SINK_KAFKA, EC_SINK_SPLUNK;

#endif
