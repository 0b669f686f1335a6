/* See profile_worker.h. */
#include "profile_worker.h"

#include "child.h"
#include "clerk.h"
#include "confine.h"
#include "message.h"
#include "platform.h"
#include "profile_names.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 18, LIST_MAX = 4096 };
static const int64_t GRACE_NS = 2 * INT64_C(1000000000); /* what the child gets to say that its time is over */

/* ---- who asks ---- */

static void put_list(ea_text *t, const char *const *items, size_t count) {
    ec_message_u32(t, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        ec_message_string(t, items[i]);
}

static void put_side(ea_text *t, const ec_profile_side *s) {
    ec_message_u32(t, (uint32_t)s->weight);
    ec_message_u32(t, s->counter != NULL);
    ec_message_string(t, s->counter);
    ec_message_u64(t, (uint64_t)s->from_utc_ns);
    ec_message_u64(t, (uint64_t)s->to_utc_ns);
    put_list(t, s->hosts, s->host_count);
    put_list(t, s->labels, s->label_count);
}

static int send_request(int in, const ec_profile_question *q, ea_err *err) {
    const ec_profile_request *r = q->request;
    ea_text t;
    ea_text_init(&t);
    ec_message_begin(&t, 'P');
    ec_message_u64(&t, (uint64_t)getpid());
    ec_message_u64(&t, (uint64_t)q->limit_ns);
    ec_message_u64(&t, q->limit_bytes);
    ec_message_u64(&t, q->limit_temp_bytes);
    ec_message_u32(&t, (uint32_t)q->format);
    ec_message_u32(&t, q->symbols != NULL);
    ec_message_string(&t, r->store);
    ec_message_u32(&t, r->shown != NULL);
    ec_message_string(&t, r->shown);
    ec_message_u32(&t, (uint32_t)r->has_other);
    for (int i = 0; i < 2; i++)
        put_side(&t, &r->side[i]);
    ec_message_u64(&t, r->limit_stacks);
    ec_message_u32(&t, (uint32_t)r->pid_count);
    for (size_t i = 0; i < r->pid_count; i++)
        ec_message_u32(&t, r->pids[i]);
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

static int listen_to(const ec_profile_question *q, int out, atomic_int *stop, ea_err *err) {
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
    ec_clerk_process clerk = {.in = -1, .out = -1};
    ec_child_options options = {.name = EC_PROFILE_WORKER_NAME};
    pid_t pid = 0;
    int in = -1, out = -1, status;
    int rc = q->symbols ? ec_clerk_start(&clerk, q->symbols, q->broker, q->limit_ns, err) : 0;
    if (rc)
        return rc;
    options.has_extra = q->symbols != NULL;
    options.extra_in = clerk.out;
    options.extra_out = clerk.in;
    rc = ec_child_start(&options, &pid, &in, &out, err);
    ec_clerk_leave(&clerk);
    if (!rc) {
        ec_broker_lower(q->broker, pid);
        rc = send_request(in, q, err);
        close(in);
        if (!rc)
            rc = listen_to(q, out, stop, err);
        close(out);
        (void)kill(pid, SIGKILL); /* ours, and not waited for yet */
        *ret_processor_ns = ec_child_wait(pid, &status);
    }
    if (q->symbols)
        ec_clerk_end(&clerk);
    return rc;
}

/* ---- the child ---- */

typedef struct worker {
    ec_profile_request request;
    enum ec_profile_format format;
    int has_names;
    uint64_t parent, limit_bytes, limit_temp_bytes;
    int64_t limit_ns, deadline_ns;
    int is_late;
    const char *lists[4][LIST_MAX]; /* hosts and labels of each side */
    uint32_t pids[LIST_MAX];
} worker;

/* A list of strings, which point into the message: how many, more than LIST_MAX when they are too many. */
static size_t take_list(ec_message *m, const char **to) {
    size_t count = (size_t)ec_message_get(m, 4);
    for (size_t i = 0; i < count && i < LIST_MAX; i++)
        to[i] = ec_message_get_string(m);
    return count;
}

static int take_side(worker *w, ec_message *m, int number) {
    ec_profile_side *s = &w->request.side[number];
    s->weight = (enum ec_weight)ec_message_get(m, 4);
    int has_counter = (int)ec_message_get(m, 4);
    s->counter = ec_message_get_string(m);
    s->counter = has_counter ? s->counter : NULL;
    s->from_utc_ns = (int64_t)ec_message_get(m, 8);
    s->to_utc_ns = (int64_t)ec_message_get(m, 8);
    s->hosts = w->lists[2 * number];
    s->host_count = take_list(m, w->lists[2 * number]);
    s->labels = w->lists[2 * number + 1];
    s->label_count = take_list(m, w->lists[2 * number + 1]);
    return s->host_count > LIST_MAX || s->label_count > LIST_MAX || (unsigned)s->weight >= EC_WEIGHT_COUNT ? EA_ECORRUPT
                                                                                                           : 0;
}

/* The request; its strings point into the message. */
static int read_request(worker *w, ec_message *m) {
    ec_profile_request *r = &w->request;
    w->parent = ec_message_get(m, 8);
    w->limit_ns = (int64_t)ec_message_get(m, 8);
    w->limit_bytes = ec_message_get(m, 8);
    w->limit_temp_bytes = ec_message_get(m, 8);
    w->format = (enum ec_profile_format)ec_message_get(m, 4);
    w->has_names = (int)ec_message_get(m, 4);
    r->store = ec_message_get_string(m);
    int has_shown = (int)ec_message_get(m, 4);
    r->shown = ec_message_get_string(m);
    r->has_other = (int)ec_message_get(m, 4);
    for (int i = 0; i < 2; i++)
        if (take_side(w, m, i))
            return EA_ECORRUPT;
    r->limit_stacks = (size_t)ec_message_get(m, 8);
    r->pid_count = (size_t)ec_message_get(m, 4);
    for (size_t i = 0; i < r->pid_count && i < LIST_MAX; i++)
        w->pids[i] = (uint32_t)ec_message_get(m, 4);
    r->shown = has_shown ? r->shown : NULL;
    r->pids = w->pids;
    return m->failed || r->pid_count > LIST_MAX || w->limit_ns <= 0 ? EA_ECORRUPT : 0;
}

static int goes_on(void *arg) {
    worker *w = arg;
    w->is_late |= ea_monotonic_ns() > w->deadline_ns;
    return !w->is_late;
}

static int resolve(void *source, const ec_symbol_module *module, const uint32_t *rvas, size_t count, ec_symbol_fn fn,
                   void *arg, ea_err *err) {
    return ec_clerk_resolve(source, module, rvas, count, fn, arg, err);
}

/* Makes the answer. */
static int make(worker *w, ea_text *out, ea_err *err) {
    ec_clerk *clerk = NULL;
    ec_profile *p = NULL;
    int rc = ec_query_confine(w->request.store, w->limit_temp_bytes, err);
    if (!rc && w->has_names)
        rc = ec_clerk_open(&clerk, EC_CHILD_EXTRA_OUT, EC_CHILD_EXTRA_IN, w->deadline_ns, err);
    ec_profile_names names = {.resolve = resolve, .source = clerk};
    const ec_profile_namer namer = {.name = ec_profile_name_places, .arg = &names};
    w->request.namer = clerk ? &namer : NULL;
    w->request.keep_going = goes_on;
    w->request.arg = w;
    if (!rc)
        rc = ec_profile_run(&p, &w->request, err);
    if (!rc)
        rc = ec_profile_write(p, w->format, out, err);
    if (rc == EA_ECANCELED && w->is_late)
        rc = from_reader(EA_ETIMEOUT, &(ec_profile_question){.limit_ns = w->limit_ns}, err);
    if (rc == EA_ENOMEM)
        rc = ea_fail(err, EA_ELIMIT, "the profile needs more than %" PRIu64 " MiB: ask about a shorter range",
                     w->limit_bytes >> 20);
    ec_profile_destroy(p);
    ec_clerk_close(clerk);
    return rc;
}

/* 0, or what ended it: nobody listens. */
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
    if (!w || ec_message_next(&in, &m) <= 0 || m.letter != 'P' || read_request(w, &m)) {
        fprintf(stderr, "etwcollector: %s is started by the command run\n", EC_PROFILE_WORKER_NAME);
        ec_message_reader_deinit(&in);
        free(w);
        return 2;
    }
    int64_t now = ea_monotonic_ns(), limit_s = w->limit_ns / INT64_C(1000000000);
    ea_text out;
    ea_text_init(&out);
    w->deadline_ns = w->limit_ns > INT64_MAX - now ? INT64_MAX : now + w->limit_ns;
    ec_child_limit(w->parent, limit_s > INT32_MAX ? 0 : (uint64_t)limit_s + 5, w->limit_bytes);
    int code = make(w, &out, &err);
    int rc = send_answer(&out, code, &err);
    ea_text_deinit(&out);
    ec_message_reader_deinit(&in);
    free(w);
    return rc ? 1 : 0;
}
