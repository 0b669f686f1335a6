/* The parent's side of a question. See ask.h. */
#include "collector/query/sql/ask.h"
#include "collector/sandbox/child.h"
#include "collector/state/state_worker.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    GRACE_MS = 2000,       /* what the child gets to say that its time is over */
    LOOK_MS = 100,         /* how often stop is looked at */
    FRAME_MAX = 256 << 20, /* of a row */
    CELLS_MAX = 32768,
    FIRST_MAX = 16, /* cells of the first statement's row */
};

typedef struct reader {
    int is_up_to_date, needs_history; /* see ask.h */
    const ec_listener *listener;
    uint8_t *data;
    size_t bytes, capacity;
    const char **names; /* names, then types */
    ec_value *cells;
    size_t column_count;
    uint64_t rows;
    int is_canceled, has_ended;
    ec_outcome *outcome;
    ea_err *err;
    int rc; /* what the child says */
} reader;

/* ---- the question ---- */

static void add_string(ea_text *t, const char *s) {
    uint8_t bytes[4];
    ea_store32(bytes, (uint32_t)strlen(s));
    ea_text_add(t, bytes, sizeof bytes);
    ea_text_add(t, s, strlen(s) + 1);
}

static void add_param(ea_text *t, const ec_value *v) {
    uint8_t head[9] = {(uint8_t)v->type};
    if (v->type == EC_INT)
        ea_store64(head + 1, (uint64_t)v->i);
    else if (v->type == EC_REAL)
        memcpy(head + 1, &v->r, sizeof v->r);
    else if (v->type != EC_NULL)
        ea_store64(head + 1, v->len_bytes);
    ea_text_add(t, head, sizeof head);
    if (v->type == EC_TEXT || v->type == EC_BLOB)
        ea_text_add(t, v->data, v->len_bytes);
}

static int send_question(int in, const ec_question *q, int is_up_to_date, ea_err *err) {
    ea_text t;
    uint8_t head[42];
    ea_store64(head, (uint64_t)q->limit_ns);
    ea_store64(head + 8, q->limit_bytes);
    ea_store64(head + 16, q->limit_rows);
    ea_store64(head + 24, (uint64_t)getpid());
    ea_store64(head + 32, q->limit_temp_bytes);
    head[40] = (uint8_t)is_up_to_date;
    head[41] = q->host != NULL;
    ea_text_init(&t);
    ea_text_add(&t, head, sizeof head);
    add_string(&t, q->store);
    add_string(&t, q->host ? q->host : "");
    add_string(&t, q->shown ? q->shown : "");
    add_string(&t, q->first_sql ? q->first_sql : "");
    add_string(&t, q->sql);
    ea_store32(head, (uint32_t)q->param_count);
    ea_text_add(&t, head, 4);
    for (size_t i = 0; i < q->param_count; i++)
        add_param(&t, &q->params[i]);
    int rc = t.failed ? ea_fail(err, EA_ENOMEM, "ask a question") : 0;
    for (size_t at = 0; !rc && at < t.len_bytes;) {
        ssize_t n = write(in, t.data + at, t.len_bytes - at);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            rc = ea_fail_os(err, EA_EIO, errno, "ask a question");
    }
    ea_text_deinit(&t);
    return rc;
}

/* ---- reading the answer ---- */

typedef struct frame {
    const uint8_t *at, *end;
    int failed;
} frame;

static uint64_t ask_get(frame *f, unsigned bytes) {
    if ((size_t)(f->end - f->at) < bytes) {
        f->failed = 1;
        return 0;
    }
    uint64_t v = ea_load_uint(f->at, bytes);
    f->at += bytes;
    return v;
}

static const char *get_string(frame *f, size_t *ret) {
    size_t n = (size_t)ask_get(f, 4);
    if (n > (size_t)(f->end - f->at)) {
        f->failed = 1;
        n = 0;
    }
    const char *s = (const char *)f->at;
    f->at += n;
    *ret = n;
    return s;
}

static void free_columns(reader *r) {
    for (size_t i = 0; r->names && i < 2 * r->column_count; i++)
        free((void *)(uintptr_t)r->names[i]);
    free((void *)(uintptr_t)r->names);
    free(r->cells);
    r->names = NULL;
    r->cells = NULL;
}

static int on_columns(reader *r, frame *f) {
    size_t n = (size_t)ask_get(f, 4);
    if (f->failed || r->names || n > CELLS_MAX)
        return EA_ECORRUPT;
    r->column_count = n;
    r->names = calloc(2 * n + 1, sizeof *r->names);
    r->cells = calloc(n + 1, sizeof *r->cells);
    if (!r->names || !r->cells)
        return EA_ENOMEM;
    for (size_t i = 0; i < 2 * n; i++) {
        size_t bytes;
        const char *s = get_string(f, &bytes);
        char *copy = malloc(bytes + 1);
        if (!copy)
            return EA_ENOMEM;
        memcpy(copy, s, bytes);
        copy[bytes] = 0;
        r->names[(i % 2) * n + i / 2] = copy;
    }
    if (f->failed)
        return EA_ECORRUPT;
    r->is_canceled |= r->listener->on_columns(r->listener->arg, n, r->names, r->names + n) != 0;
    return 0;
}

static int get_cells(frame *f, ec_value *cells, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ec_value *v = &cells[i];
        uint64_t bits;
        *v = (ec_value){.type = (enum ec_value_type)ask_get(f, 1)};
        switch (v->type) {
        case EC_NULL:
            break;
        case EC_INT:
            v->i = (int64_t)ask_get(f, 8);
            break;
        case EC_REAL:
            bits = ask_get(f, 8);
            memcpy(&v->r, &bits, sizeof v->r);
            break;
        case EC_TEXT:
        case EC_BLOB:
            v->data = get_string(f, &v->len_bytes);
            break;
        default:
            f->failed = 1;
        }
    }
    return f->failed ? EA_ECORRUPT : 0;
}

static int on_first(reader *r, frame *f) {
    ec_value cells[FIRST_MAX];
    size_t n = (size_t)ask_get(f, 4);
    if (f->failed || n > FIRST_MAX || get_cells(f, cells, n))
        return EA_ECORRUPT;
    r->is_canceled |= r->listener->on_first(r->listener->arg, n, cells) != 0;
    return 0;
}

static int on_row(reader *r, frame *f) {
    if (!r->cells || get_cells(f, r->cells, r->column_count))
        return EA_ECORRUPT;
    r->rows++;
    r->is_canceled |= r->listener->on_row(r->listener->arg, r->column_count, r->cells) != 0;
    return 0;
}

static int on_end(reader *r, frame *f) {
    size_t bytes;
    r->outcome->ending = (enum ec_ending)ask_get(f, 1);
    int code = (int32_t)(uint32_t)ask_get(f, 4);
    r->outcome->damaged = ask_get(f, 8);
    const char *s = get_string(f, &bytes);
    if (f->failed || code > 0)
        return EA_ECORRUPT;
    if (code)
        r->rc = ea_fail(r->err, code, "%.*s", (int)(bytes < 480 ? bytes : 480), s);
    s = get_string(f, &bytes);
    if (f->failed)
        return EA_ECORRUPT;
    snprintf(r->outcome->damage, sizeof r->outcome->damage, "%.*s", (int)bytes, s);
    r->has_ended = 1;
    return 0;
}

/* Takes the whole frames that are there. */
static int take_frames(reader *r) {
    size_t at = 0;
    int rc = 0;
    while (!rc && !r->is_canceled && !r->has_ended && r->bytes - at >= 5) {
        size_t n = ea_load32(r->data + at + 1);
        if (n > FRAME_MAX)
            return EA_ECORRUPT;
        if (r->bytes - at - 5 < n)
            break;
        frame f = {.at = r->data + at + 5, .end = r->data + at + 5 + n};
        switch (r->data[at]) {
        case 'H':
            r->needs_history = r->has_ended = 1;
            rc = r->is_up_to_date ? EA_ECORRUPT : 0;
            break;
        case 'F':
            rc = r->listener->on_first ? on_first(r, &f) : EA_ECORRUPT;
            break;
        case 'C':
            rc = on_columns(r, &f);
            break;
        case 'R':
            rc = on_row(r, &f);
            break;
        case 'E':
            rc = on_end(r, &f);
            break;
        default:
            rc = EA_ECORRUPT;
        }
        at += 5 + n;
    }
    memmove(r->data, r->data + at, r->bytes - at);
    r->bytes -= at;
    return rc;
}

/* Reads the available output: 1, 0 at the end, or an error. */
static int read_some(reader *r, int out) {
    enum { CHUNK = 1 << 16 };

    if (EA_GROW(r->data, r->capacity, r->bytes + CHUNK, SIZE_MAX))
        return EA_ENOMEM;
    ssize_t n = read(out, r->data + r->bytes, r->capacity - r->bytes);
    if (n < 0)
        return errno == EINTR ? 1 : EA_EIO;
    if (n == 0)
        return 0;
    r->bytes += (size_t)n;
    int rc = take_frames(r);
    return rc ? rc : 1;
}

/* Reads until the child has reported its end, the time is over or the caller cancels. */
static int listen_to(reader *r, int out, int64_t limit_ns, atomic_int *stop) {
    int64_t begin = ea_monotonic_ns(), patience = (int64_t)GRACE_MS * 1000000;
    int64_t limit = limit_ns > INT64_MAX - patience ? INT64_MAX : limit_ns + patience;
    while (!r->has_ended && !r->is_canceled) {
        struct pollfd p = {.fd = out, .events = POLLIN};
        if (stop && *stop) {
            r->is_canceled = 1;
            break;
        }
        if (ea_monotonic_ns() - begin > limit) {
            r->outcome->ending = EC_ENDED_TIME;
            r->has_ended = 1;
            break;
        }
        int n = poll(&p, 1, LOOK_MS);
        if (n < 0 && errno != EINTR)
            return EA_EIO;
        if (n > 0) {
            int rc = read_some(r, out);
            if (rc <= 0)
                return rc;
        }
    }
    return 0;
}

const char *ec_ending_name(enum ec_ending ending) {
    static const char *const NAMES[] = {"whole", "rows", "time", "memory", "temp", "canceled"};
    return (size_t)ending < sizeof NAMES / sizeof *NAMES ? NAMES[ending] : "unknown";
}

/* Starts a child, asks it and waits for its end. */
static int ask_child(reader *r, const ec_question *q, atomic_int *stop, ea_err *err) {
    pid_t pid = 0;
    int in = -1, out = -1, status = 0;
    int rc = ec_child_start(&(ec_child_options){.name = EC_WORKER_NAME}, &pid, &in, &out, err);
    if (rc)
        return rc;
    ec_broker_lower(q->broker, pid);
    rc = send_question(in, q, r->is_up_to_date, err);
    close(in);
    if (!rc) {
        rc = listen_to(r, out, q->limit_ns, stop);
        if (rc)
            rc = ea_fail(err, rc, "read the answer of a query");
    }
    close(out);
    if (!r->has_ended || r->is_canceled || rc || r->outcome->ending == EC_ENDED_TIME)
        (void)kill(pid, SIGKILL); /* ours, and not waited for yet */
    r->outcome->processor_ns += ec_child_wait(pid, &status);
    if (!rc && r->is_canceled)
        r->outcome->ending = EC_ENDED_CANCELED;
    else if (!rc && !r->has_ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU)
        r->outcome->ending = EC_ENDED_TIME;
    else if (!rc && !r->has_ended)
        rc = ea_fail(err, EA_EIO, "the query's process ended early (%s %d)", WIFSIGNALED(status) ? "signal" : "code",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return rc ? rc : r->rc;
}

int ec_ask(const ec_question *q, const ec_listener *listener, atomic_int *stop, ec_outcome *ret, ea_err *err) {
    ec_outcome outcome = {.ending = EC_ENDED_WHOLE};
    reader r = {.listener = listener, .outcome = &outcome, .err = err};
    int rc = ask_child(&r, q, stop, err);
    if (!rc && r.needs_history) {
        rc = ec_state_worker_catch_up(q->store, q->host, q->wait_ns, &outcome.backlog, err);
        r.is_up_to_date = 1;
        r.has_ended = 0;
        if (!rc)
            rc = ask_child(&r, q, stop, err);
    }
    ret->processor_ns = outcome.processor_ns;
    free(r.data);
    free_columns(&r);
    outcome.rows = r.rows;
    if (!rc)
        *ret = outcome;
    return rc;
}
