/* See question.h. */
#include "collector/app/question.h"

#include "collector/app/confine_run.h"
#include "collector/query/sql/confine.h"
#include "collector/sandbox/child.h"
#include "collector/symbols/symbol_confine.h"
#include "proto/base/clock.h"

#include <inttypes.h>
#include <unistd.h>

#define MEMORY_MAX_BYTES (UINT64_C(8) << 30) /* of a command, beyond what it has when it confines itself */

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

/* The answer may be a file of any size. */
static int question_confine(const char *store, const ec_sandbox *more, uint64_t memory_bytes, ea_err *err) {
    ec_child_limit_memory(memory_bytes);
    return ec_query_confine_with(store, UINT64_MAX, more, err);
}

int ec_question_confine(const char *store, ea_err *err) {
    return question_confine(store, NULL, MEMORY_MAX_BYTES, err);
}

int ec_question_confine_with(const char *store, const ec_sandbox *more, ea_err *err) {
    return question_confine(store, more, MEMORY_MAX_BYTES, err);
}

int ec_question_confine_symbols(const char *store, const ec_symbols_options *symbols, ea_err *err) {
    ec_symbols_needs *needs = NULL;
    ec_sandbox more = {.rights = 0};
    int rc = ec_symbols_needs_open(&needs, symbols, err);
    if (rc)
        return rc;
    more.rights = ec_symbols_needs_rights(needs);
    more.paths = ec_symbols_needs_paths(needs, &more.path_count);
    rc = question_confine(store, &more, MEMORY_MAX_BYTES, err);
    ec_symbols_needs_close(needs);
    return rc;
}

void ec_answer_none(const char *what, int64_t begin_utc_ns, int64_t end_utc_ns) {
    ea_text t;
    ea_text_init(&t);
    ea_text_printf(&t, "etwcollector: %s; ", what);
    if (begin_utc_ns <= end_utc_ns) {
        ea_text_str(&t, "events are stored from ");
        ea_text_utc_ns(&t, begin_utc_ns);
        ea_text_str(&t, " to ");
        ea_text_utc_ns(&t, end_utc_ns);
    } else {
        ea_text_str(&t, "no events are stored");
    }
    if (!t.failed)
        fprintf(stderr, "%s\n", t.data);
    ea_text_deinit(&t);
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
