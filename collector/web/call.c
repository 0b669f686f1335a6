/* Operations of handlers on a call: read its parameters, run a query for it, send the finished part of its answer. See
 * call.h. */
#include "collector/web/server_parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    UNSENT_MAX = 1 << 20, /* bytes of one answer that the other side has not taken */
    TAKEN_A_S = 16 << 10, /* bytes of an answer that its reader has to take in a second */
};

static const int64_t HISTORY_WAIT_NS = INT64_C(1000000000); /* of a question that reads the history */
static const int64_t CHECK_NS = INT64_C(1000000000);        /* of an open answer's token */

/* ---- what is asked, and by whom ---- */

const char *ec_call_param(const ec_call *c, const char *name) {
    for (size_t i = 0; i < c->param_count; i++)
        if (strcmp(c->params[i].name, name) == 0)
            return c->params[i].value;
    return NULL;
}

static int is_word_of(const char *list, const char *word) {
    size_t n = strlen(word);
    for (const char *at = list; n && (at = strstr(at, word)); at += n)
        if ((at == list || at[-1] == ' ') && (!at[n] || at[n] == ' ') && !strchr(word, ' '))
            return 1;
    return 0;
}

int ec_call_check_params(const ec_call *c, const char *known, ea_err *err) {
    for (size_t i = 0; i < c->param_count; i++)
        if (!is_word_of(known, c->params[i].name))
            return ea_fail(err, EA_EUSAGE, "there is no parameter '%.60s' here; expected %s%s", c->params[i].name,
                           *known ? "one of: " : "none", known);
    return 0;
}

int ec_call_may_see(const ec_call *c, const char *host, ea_err *err) {
    if (c->token && !ec_token_sees(c->token, host))
        return ea_fail(err, EA_EREFUSED, "this token reads hosts %s", c->token->hosts);
    return 0;
}

const char *ec_call_shown(const ec_call *c) {
    return c->token && *c->token->hosts ? c->token->hosts : NULL;
}

int ec_call_ask(ec_call *c, const ec_question *question, const ec_listener *listener, ec_outcome *ret, ea_err *err) {
    ec_question q = *question;
    int rc = q.host ? ec_call_may_see(c, q.host, err) : 0;
    q.shown = ec_call_shown(c);
    q.broker = c->options->broker;
    q.symbols = c->options->symbols;
    q.wait_ns = HISTORY_WAIT_NS;
    q.wait = EC_WAIT_ROUND;
    q.limit_temp_bytes = c->options->limit_temp_bytes;
    if (rc)
        return rc;
    ret->processor_ns = 0;
    rc = ec_ask(&q, listener, &c->canceled, ret, err);
    ec_call_charge(c, ret->processor_ns);
    return rc;
}

void ec_call_charge(const ec_call *c, int64_t processor_ns) {
    ec_quota_charge(c->options->quota, EC_QUOTA_answers, c->caller, (uint64_t)processor_ns, ea_monotonic_ns());
}

/* ---- from the answering thread to the loop ---- */

/* Takes the text of the call. */
int ec_call_leave(ec_sender *s, int is_last, int is_whole, int is_broken) {
    ec_web *w = s->web;
    ec_piece *p = calloc(1, sizeof *p);
    if (!p)
        return EA_ENOMEM;
    *p = (ec_piece){.from = s, .text = s->call.out, .is_last = is_last, .is_whole = is_whole, .is_broken = is_broken};
    ea_text_init(&s->call.out);
    ea_mutex_lock(w->mutex);
    s->queued_bytes += p->text.len_bytes;
    *w->pieces_last = p;
    w->pieces_last = &p->next;
    ea_mutex_unlock(w->mutex);
    ec_wake_now(&w->http.wake);
    return 0;
}

/* Once a second: EA_EREFUSED when the call's token was revoked meanwhile. */
static int check_token(ec_sender *s, ea_err *err) {
    int64_t now = ea_monotonic_ns();
    if (!s->call.token || now - s->checked_ns < CHECK_NS)
        return 0;
    s->checked_ns = now;
    return ec_access_check(s->web->options.access, s->call.token, err);
}

/* Waits while more than so many bytes of what was sent are not taken. EA_ETIMEOUT when the reader takes too little for
 * too long. */
static int wait_for_reader(ec_sender *s, size_t most_bytes, ea_err *err) {
    ec_web *w = s->web;
    int64_t begin = ea_monotonic_ns(), unread_ns = w->options.unread_ns;
    uint64_t least = (uint64_t)((double)unread_ns / 1e9 * TAKEN_A_S);
    int is_late = 0, rc = 0;
    ea_mutex_lock(w->mutex);
    uint64_t taken = s->taken_bytes;
    while (!rc && !is_late && s->queued_bytes + s->output_bytes > most_bytes && !s->call.canceled) {
        (void)ea_cond_wait_for(w->changed, w->mutex, CHECK_NS);
        if (ea_monotonic_ns() - begin >= unread_ns) {
            is_late = s->taken_bytes - taken < least;
            begin = ea_monotonic_ns();
            taken = s->taken_bytes;
        }
        ea_mutex_unlock(w->mutex);
        rc = check_token(s, err);
        ea_mutex_lock(w->mutex);
    }
    ea_mutex_unlock(w->mutex);
    if (is_late)
        ea_count(w->options.counters, EA_COUNT_web_unread, 1);
    return rc                 ? rc
           : is_late          ? ea_fail(err, EA_ETIMEOUT, "the answer was not read")
           : s->call.canceled ? ea_fail(err, EA_ECANCELED, "answer")
                              : 0;
}

int ec_call_flush_to(ec_call *c, size_t most_bytes, ea_err *err) {
    ec_sender *s = c->sender;
    if (c->out.failed)
        return ea_fail(err, EA_ENOMEM, "answer");
    int rc = check_token(s, err);
    if (rc)
        return rc;
    if (c->out.len_bytes && ec_call_leave(s, 0, 0, 0))
        return ea_fail(err, EA_ENOMEM, "answer");
    s->was_flushed = 1;
    return wait_for_reader(s, most_bytes, err);
}

int ec_call_flush(ec_call *c, ea_err *err) {
    return ec_call_flush_to(c, UNSENT_MAX, err);
}

int ec_call_wait(ec_call *c, int64_t ns, ea_err *err) {
    ec_sender *s = c->sender;
    int64_t end = ea_monotonic_ns() + ns;
    ea_mutex_lock(s->web->mutex);
    for (int64_t left = ns; left > 0 && !c->canceled; left = end - ea_monotonic_ns())
        (void)ea_cond_wait_for(s->web->changed, s->web->mutex, left);
    ea_mutex_unlock(s->web->mutex);
    return c->canceled ? ea_fail(err, EA_ECANCELED, "wait") : check_token(s, err);
}
