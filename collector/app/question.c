/* See question.h. */
#include "collector/app/question.h"

#include "collector/query/sql/confine.h"
#include "proto/base/clock.h"

#include <inttypes.h>

int ec_question_open(const ec_question_options *o, ec_query **ret, uint64_t *ret_backlog, ea_err *err) {
    int rc = ec_query_open(ret, o->store, o->host, o->wait_ns, ret_backlog, err);
    if (!rc && *ret_backlog)
        fprintf(stderr, "etwcollector: %" PRIu64 " stored batches are not in the history yet\n", *ret_backlog);
    return rc;
}

int ec_question_moment(const ec_question_options *o, ec_query *q, const char *at, ec_moment *ret, ea_err *err) {
    int rc = ec_query_moment(q, o->host, o->stream, at, ret, err);
    if (rc || !ret->beyond)
        return rc;
    ea_text t;
    ea_text_init(&t);
    ea_text_utc_ns(&t, ret->fold.end_utc_ns);
    fprintf(stderr, "etwcollector: the events end at %s: this is the state of then\n", t.data ? t.data : "");
    ea_text_deinit(&t);
    return 0;
}

int ec_question_confine(const char *store, ea_err *err) {
    return ec_query_confine(store, UINT64_MAX, NULL, err); /* the answer may be a file of any size */
}

int ec_answer_write(ea_text *t, ea_err *err) {
    if (t->failed)
        return ea_fail(err, EA_ENOMEM, "print the answer");
    if (t->len_bytes && fwrite(t->data, 1, t->len_bytes, stdout) != t->len_bytes)
        return ea_fail(err, EA_EIO, "write to standard output");
    if (fflush(stdout))
        return ea_fail(err, EA_EIO, "write to standard output");
    ea_text_clear(t);
    return 0;
}

void ec_answer_begin(ea_text *t, const ea_interval *life) {
    if (life->begin_cause != EA_BEGIN_EVENT)
        ea_text_str(t, "before ");
    ea_text_utc_ns(t, life->begin_cause == EA_BEGIN_EVENT ? life->begin_utc_ns : life->seen_utc_ns);
}

int ec_question_pid(uint64_t pid, uint32_t *ret, ea_err *err) {
    if (pid > UINT32_MAX)
        return ea_fail(err, EA_EUSAGE, "%" PRIu64 " is no process id", pid);
    *ret = (uint32_t)pid;
    return 0;
}
