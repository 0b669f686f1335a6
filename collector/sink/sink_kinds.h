/* The kinds of receivers: how rows become the body of a request, and what an answer says of each row. Called by:
 * sink.c, which sends. Calls: SQLite's JSON functions, by which an answer is read. Thread: a judge belongs to one. */
#ifndef EC_SINK_SINK_KINDS_H
#define EC_SINK_SINK_KINDS_H

#include "collector/sink/sink_rows.h"
#include "proto/base/text.h"

#include <stddef.h>

enum ec_sink_verdict {
    EC_VERDICT_WAITS, /* to be sent, again or for the first time */
    EC_VERDICT_ACCEPTED,
    EC_VERDICT_KNOWN,   /* the receiver had it */
    EC_VERDICT_REFUSED, /* however often it comes */
};

/* A row of a request. */
typedef struct ec_sink_item {
    size_t offset, len_bytes;   /* in the text of rows: the row, mostly a JSON object */
    size_t id_offset, id_bytes; /* in the text of rows: the JSON text that names it */
    size_t time_offset;         /* in the object: of EC_SINK_ROW_TIME */
    uint32_t stream;            /* the caller's */
    const char *host;           /* is set in a request */
    enum ec_sink_verdict verdict;
    int is_doubtful; /* refused, while nothing was ever accepted */
    int is_failing;  /* again and again, where each of other agents' rows may not */
} ec_sink_item;

/* Reads answers. */
typedef struct ec_sink_judge ec_sink_judge;

/* Whether a status, of an answer or of a row in it, says that the row is never accepted. */
int ec_sink_is_refusal(int64_t status);
EA_MUST_CHECK int ec_sink_judge_open(ec_sink_judge **ret, ea_err *err);
void ec_sink_judge_close(ec_sink_judge *j); /* NULL is allowed */
/* The judge of the kind bulk, as below. */
EA_MUST_CHECK int ec_sink_judge_bulk(ec_sink_judge *j, const char *answer, size_t len_bytes, ec_sink_item **items,
                                     size_t count, ea_text *reason, ea_err *err);

typedef struct ec_sink_splunk_answer {
    int64_t code;    /* Splunk's own; -1: it has none */
    int64_t ack_id;  /* under which it is asked whether the rows are indexed; -1: the token has no acknowledgement */
    int64_t refused; /* the place of the first event that it does not take; -1: it does not say */
} ec_sink_splunk_answer;

/* What an answer of Splunk's event collector says. reason gets its text. EA_EFORMAT: it is no JSON. */
EA_MUST_CHECK int ec_sink_judge_splunk(ec_sink_judge *j, const char *answer, size_t len_bytes,
                                       ec_sink_splunk_answer *ret, ea_text *reason, ea_err *err);
/* Whether the answer to a question about acknowledgements says that those rows are indexed: 1, 0. EA_EFORMAT. */
EA_MUST_CHECK int ec_sink_judge_splunk_ack(ec_sink_judge *j, const char *answer, size_t len_bytes, int64_t ack_id,
                                           ea_err *err);

struct ec_sink_sender;

typedef struct ec_sink_kind {
    const char *name;
    const struct ec_sink_sender *sender;
    int has_threads; /* the sender makes some when it sends */
    /* Makes a row, as ec_sink_row_add does. */
    size_t (*row)(ea_text *out, ea_text *scratch, const ec_outbox_batch *batch, uint64_t position, const char *process,
                  const ea_record *record, const ea_class *c, const ea_clock *clock);
    /* with HTTP: */
    void (*query)(ea_text *out, const char *table); /* the statement in the URL; NULL: none */
    const char *type;                               /* of the body */
    /* Appends the rows of a request. target: as the option --index has it; NULL: none. */
    void (*body)(ea_text *body, const char *rows, ec_sink_item **items, size_t count, const char *target);
    /* What an answer with 2xx says of the rows of a request, in their order, into their verdicts. reason gets why the
     * first one was refused, or has to come again. EA_EFORMAT: the answer cannot be read; no verdict has changed. */
    int (*judge)(ec_sink_judge *j, const char *answer, size_t len_bytes, ec_sink_item **items, size_t count,
                 ea_text *reason, ea_err *err);
    void (*why)(ea_text *reason, const char *answer,
                size_t len_bytes); /* of one that is no 2xx; NULL: it says nothing */
    size_t answer_max_bytes;       /* 0: it is not read */
} ec_sink_kind;

extern const char *const EC_SINK_KIND_NAMES[]; /* NULL at the end */
extern const ec_sink_kind *const EC_SINK_KINDS[];

#endif
