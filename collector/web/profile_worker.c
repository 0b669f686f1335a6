/* See profile_worker.h. */
#include "collector/web/profile_worker.h"

#include "collector/query/analysis/profile_names.h"
#include "collector/query/sql/confine.h"
#include "collector/sandbox/child.h"
#include "collector/sandbox/message.h"
#include "collector/symbols/symbol_worker.h"
#include "collector/web/profile_order.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 18 };

static const int64_t GRACE_NS = 2 * INT64_C(1000000000); /* what the child gets to say that its time is over */

/* ---- the caller ---- */

static int send_request(int in, const ec_profile_question *q, ea_err *err) {
    const ec_profile_order order = {.request = *q->request,
                                    .format = q->format,
                                    .has_names = q->symbols != NULL,
                                    .parent = (uint64_t)getpid(),
                                    .limit_ns = q->limit_ns,
                                    .limit_bytes = q->limit_bytes,
                                    .limit_temp_bytes = q->limit_temp_bytes};
    ea_text t;
    ea_text_init(&t);
    ec_profile_order_print(&order, &t);
    int rc = ec_message_send(in, &t);
    ea_text_deinit(&t);
    return rc ? ea_fail(err, rc, "ask the process that makes a profile") : 0;
}

/* What a failure to read means. */
static int from_reader(int rc, const ec_profile_question *q, ea_err *err) {
    switch (rc) {
    case EA_ETIMEOUT:
        return ea_fail(err, rc, "the profile was not made within %" PRId64 " s: ask about a shorter range",
                       q->limit_ns / INT64_C(1000000000));
    case EA_ECANCELED:
        return ea_fail(err, rc, "stopped on request");
    case 0:
        return ea_fail(err, EA_EIO, "the process that makes a profile has ended early");
    default:
        return ea_fail(err, rc, "read a profile");
    }
}

static int profile_worker_listen_to(const ec_profile_question *q, int out, atomic_int *stop, ea_err *err) {
    int64_t now = ea_monotonic_ns();
    ec_message_reader reader = {.fd = out, .stop = stop};
    reader.deadline_ns = q->limit_ns > INT64_MAX - GRACE_NS - now ? INT64_MAX : now + q->limit_ns + GRACE_NS;
    int rc = 0, has_ended = 0;
    while (!rc && !has_ended) {
        ec_message m;
        rc = ec_message_next(&reader, &m);
        if (rc <= 0) {
            rc = from_reader(rc, q, err);
        } else if (m.letter == 'D') {
            reader.deadline_ns = INT64_MAX; /* it is made; how long it is read is not the child's affair */
            rc = q->on_piece(q->arg, m.at, (size_t)(m.end - m.at), err);
        } else {
            int code = (int32_t)(uint32_t)ec_message_get(&m, 4);
            const char *text = ec_message_get_string(&m);
            has_ended = 1;
            rc = m.letter != 'E' || m.failed || code > 0 ? ea_fail(err, EA_ECORRUPT, "read a profile")
                 : code                                  ? ea_fail(err, code, "%.480s", text)
                                                         : 0;
        }
    }
    ec_message_reader_deinit(&reader);
    return rc;
}

int ec_profile_ask(const ec_profile_question *q, atomic_int *stop, int64_t *ret_processor_ns, ea_err *err) {
    ec_symbol_worker_process symbol_worker = {.in = -1, .out = -1};
    ec_child_options options = {.name = EC_PROFILE_WORKER_NAME};
    pid_t pid = 0;
    int in = -1, out = -1, status;
    int rc = q->symbols ? ec_symbol_worker_start(&symbol_worker, q->symbols, q->broker, q->limit_ns, err) : 0;
    if (rc)
        return rc;
    options.has_extra = q->symbols != NULL;
    options.extra_in = symbol_worker.out;
    options.extra_out = symbol_worker.in;
    rc = ec_child_start(&options, &pid, &in, &out, err);
    ec_symbol_worker_leave(&symbol_worker);
    if (!rc) {
        ec_broker_lower(q->broker, pid);
        rc = send_request(in, q, err);
        close(in);
        if (!rc)
            rc = profile_worker_listen_to(q, out, stop, err);
        close(out);
        (void)kill(pid, SIGKILL); /* ours, and not waited for yet */
        *ret_processor_ns = ec_child_wait(pid, &status);
    }
    if (q->symbols)
        ec_symbol_worker_end(&symbol_worker);
    return rc;
}

/* ---- the child ---- */

typedef struct worker {
    ec_profile_order order;
    ec_profile_order_room room;
    int64_t deadline_ns;
    int is_late;
} worker;

static int profile_worker_goes_on(void *arg) {
    worker *w = arg;
    w->is_late |= ea_monotonic_ns() > w->deadline_ns;
    return !w->is_late;
}

static int profile_worker_resolve(void *source, const ec_symbol_module *module, const uint32_t *rvas, size_t count,
                                  ec_symbol_fn fn, void *arg, ea_err *err) {
    return ec_symbol_worker_resolve(source, module, rvas, count, fn, arg, err);
}

/* Makes the answer. */
static int make(worker *w, ea_text *out, ea_err *err) {
    ec_symbol_worker *symbol_worker = NULL;
    ec_profile *p = NULL;
    int rc = ec_query_confine(w->order.request.store, w->order.limit_temp_bytes, err);
    if (!rc && w->order.has_names)
        rc = ec_symbol_worker_open(&symbol_worker, EC_CHILD_EXTRA_OUT, EC_CHILD_EXTRA_IN, w->deadline_ns, err);
    ec_profile_names names = {.resolve = profile_worker_resolve, .source = symbol_worker};
    const ec_profile_namer namer = {.name = ec_profile_name_places, .arg = &names};
    w->order.request.namer = symbol_worker ? &namer : NULL;
    w->order.request.wants_samples = ec_profile_form_has_times(w->order.format);
    w->order.request.keep_going = profile_worker_goes_on;
    w->order.request.arg = w;
    if (!rc)
        rc = ec_profile_run(&p, &w->order.request, err);
    if (!rc)
        rc = ec_profile_write(p, w->order.format, out, err);
    if (rc == EA_ECANCELED && w->is_late)
        rc = from_reader(EA_ETIMEOUT, &(ec_profile_question){.limit_ns = w->order.limit_ns}, err);
    if (rc == EA_ENOMEM)
        rc = ea_fail(err, EA_ELIMIT, "the profile needs more than %" PRIu64 " MiB: ask about a shorter range",
                     w->order.limit_bytes >> 20);
    ec_profile_destroy(p);
    ec_symbol_worker_close(symbol_worker);
    return rc;
}

/* Sends the answer. 0, or the error of a write: the reader is gone. */
static int send_answer(const ea_text *out, int code, const ea_err *err) {
    ea_text t;
    int rc = 0;
    ea_text_init(&t);
    size_t at = 0;
    do { /* an empty answer is one piece, too */
        size_t left = out->len_bytes - at, n = left < PIECE_BYTES ? left : PIECE_BYTES;
        if (code)
            break;
        ec_message_begin(&t, 'D');
        if (n)
            ea_text_add(&t, out->data + at, n);
        rc = ec_message_send(STDOUT_FILENO, &t);
        at += n;
    } while (!rc && at < out->len_bytes);
    ec_message_begin(&t, 'E');
    ec_message_u32(&t, (uint32_t)code);
    ec_message_string(&t, code ? err->message : "");
    if (!rc)
        rc = ec_message_send(STDOUT_FILENO, &t);
    ea_text_deinit(&t);
    return rc;
}

int ec_profile_worker_main(void) {
    ea_err err = {0};
    ec_message m;
    ec_message_reader in = {.fd = STDIN_FILENO, .deadline_ns = INT64_MAX};
    worker *w = calloc(1, sizeof *w);
    if (!w || ec_message_next(&in, &m) <= 0 || m.letter != 'P' || ec_profile_order_parse(&m, &w->order, &w->room)) {
        fprintf(stderr, "etwcollector: %s is started by the command run\n", EC_PROFILE_WORKER_NAME);
        ec_message_reader_deinit(&in);
        free(w);
        return 2;
    }
    int64_t now = ea_monotonic_ns(), limit_s = w->order.limit_ns / INT64_C(1000000000);
    ea_text out;
    ea_text_init(&out);
    w->deadline_ns = w->order.limit_ns > INT64_MAX - now ? INT64_MAX : now + w->order.limit_ns;
    ec_child_limit(w->order.parent, limit_s > INT32_MAX ? 0 : (uint64_t)limit_s + 5, w->order.limit_bytes);
    int code = make(w, &out, &err);
    int rc = send_answer(&out, code, &err);
    ea_text_deinit(&out);
    ec_message_reader_deinit(&in);
    free(w);
    return rc ? 1 : 0;
}
