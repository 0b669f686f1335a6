/* The parent's side of a question. See ask.h. */
#include "collector/query/sql/ask.h"
#include "collector/query/sql/value_message.h"
#include "collector/sandbox/child.h"
#include "collector/state/state_worker.h"
#include "collector/symbols/symbol_worker.h"
#include "proto/base/platform.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    GRACE_MS = 2000, /* what the child gets to say that its time is over */
    CELLS_MAX = 32768,
    FIRST_MAX = 16, /* cells of the first statement's row */
};

typedef struct reader {
    int is_up_to_date, needs_history, needs_names; /* see ask.h */
    const ec_listener *listener;
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

static int ask_send_question(int in, const ec_question *q, int is_up_to_date, int has_names, ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    ec_message_begin(&t, 'Q');
    ec_message_u64(&t, (uint64_t)q->limit_ns);
    ec_message_u64(&t, q->limit_bytes);
    ec_message_u64(&t, q->limit_rows);
    ec_message_u64(&t, (uint64_t)getpid());
    ec_message_u64(&t, q->limit_temp_bytes);
    ec_message_u8(&t, (uint8_t)is_up_to_date);
    ec_message_u8(&t, (uint8_t)has_names);
    ec_message_u8(&t, q->host != NULL);
    ec_message_u8(&t, q->is_written != 0);
    ec_message_string(&t, q->store);
    ec_message_string(&t, q->host);
    ec_message_string(&t, q->shown);
    ec_message_string(&t, q->first_sql);
    ec_message_string(&t, q->sql);
    ec_message_u32(&t, (uint32_t)q->param_count);
    for (size_t i = 0; i < q->param_count; i++)
        ec_message_value(&t, &q->params[i]);
    int rc = ec_message_send(in, &t);
    ea_text_deinit(&t);
    return rc ? ea_fail(err, rc, "ask a question") : 0;
}

/* ---- reading the answer ---- */

static void free_columns(reader *r) {
    for (size_t i = 0; r->names && i < 2 * r->column_count; i++)
        free((void *)(uintptr_t)r->names[i]);
    free((void *)(uintptr_t)r->names);
    free(r->cells);
    r->names = NULL;
    r->cells = NULL;
}

static int on_columns(reader *r, ec_message *m) {
    size_t n = (size_t)ec_message_get(m, 4);
    if (m->failed || r->names || n > CELLS_MAX)
        return EA_ECORRUPT;
    r->column_count = n;
    r->names = calloc(2 * n + 1, sizeof *r->names);
    r->cells = calloc(n + 1, sizeof *r->cells);
    if (!r->names || !r->cells)
        return EA_ENOMEM;
    for (size_t i = 0; i < 2 * n; i++) {
        char *copy = strdup(ec_message_get_string(m));
        if (!copy)
            return EA_ENOMEM;
        r->names[(i % 2) * n + i / 2] = copy;
    }
    if (m->failed)
        return EA_ECORRUPT;
    r->is_canceled |= r->listener->on_columns(r->listener->arg, n, r->names, r->names + n) != 0;
    return 0;
}

static int get_cells(ec_message *m, ec_value *cells, size_t count) {
    for (size_t i = 0; i < count; i++)
        cells[i] = ec_message_get_value(m);
    return m->failed ? EA_ECORRUPT : 0;
}

static int on_first(reader *r, ec_message *m) {
    ec_value cells[FIRST_MAX];
    size_t n = (size_t)ec_message_get(m, 4);
    if (m->failed || n > FIRST_MAX || get_cells(m, cells, n))
        return EA_ECORRUPT;
    r->is_canceled |= r->listener->on_first(r->listener->arg, n, cells) != 0;
    return 0;
}

static int ask_on_row(reader *r, ec_message *m) {
    if (!r->cells || get_cells(m, r->cells, r->column_count))
        return EA_ECORRUPT;
    r->rows++;
    r->is_canceled |= r->listener->on_row(r->listener->arg, r->column_count, r->cells) != 0;
    return 0;
}

static int ask_on_end(reader *r, ec_message *m) {
    r->outcome->ending = (enum ec_ending)ec_message_get(m, 1);
    int code = (int32_t)(uint32_t)ec_message_get(m, 4), os_error = (int32_t)(uint32_t)ec_message_get(m, 4);
    r->outcome->damaged = ec_message_get(m, 8);
    const char *why = ec_message_get_string(m), *damage = ec_message_get_string(m), *notice = ec_message_get_string(m);
    if (m->failed || code > 0 || r->outcome->ending > EC_ENDED_CANCELED)
        return EA_ECORRUPT;
    if (code)
        r->rc = ea_fail_os(r->err, code, os_error, "%.480s", why);
    snprintf(r->outcome->damage, sizeof r->outcome->damage, "%s", damage);
    snprintf(r->outcome->notice, sizeof r->outcome->notice, "%s", notice);
    r->has_ended = 1;
    return 0;
}

static int on_message(reader *r, ec_message *m) {
    switch (m->letter) {
    case 'H':
        r->needs_history = r->has_ended = 1;
        r->needs_names = ec_message_get(m, 1) != 0;
        return r->is_up_to_date || m->failed ? EA_ECORRUPT : 0;
    case 'F':
        return r->listener->on_first ? on_first(r, m) : EA_ECORRUPT;
    case 'C':
        return on_columns(r, m);
    case 'R':
        return ask_on_row(r, m);
    case 'E':
        return ask_on_end(r, m);
    default:
        return EA_ECORRUPT;
    }
}

/* Reads until the child has reported its end, the time is over or the caller cancels. */
static int ask_listen_to(reader *r, int out, int64_t limit_ns, atomic_int *stop) {
    int64_t now = ea_monotonic_ns(), grace = (int64_t)GRACE_MS * 1000000;
    ec_message_reader in = {.fd = out,
                            .deadline_ns = limit_ns > INT64_MAX - grace - now ? INT64_MAX : now + limit_ns + grace,
                            .stop = stop,
                            .max_bytes = EC_QUERY_ROW_MAX};
    int rc = 1;
    while (rc > 0 && !r->has_ended && !r->is_canceled) {
        ec_message m;
        rc = ec_message_next(&in, &m);
        if (rc > 0)
            rc = (rc = on_message(r, &m)) ? rc : 1;
    }
    ec_message_reader_deinit(&in);
    if (rc == EA_ECANCELED) {
        r->is_canceled = 1;
    } else if (rc == EA_ETIMEOUT) {
        r->outcome->ending = EC_ENDED_TIME;
        r->has_ended = 1;
    } else if (rc < 0) {
        return rc;
    }
    return 0;
}

const char *ec_ending_name(enum ec_ending ending) {
    static const char *const NAMES[] = {"whole", "rows", "time", "memory", "temp", "canceled"};
    return (size_t)ending < sizeof NAMES / sizeof *NAMES ? NAMES[ending] : "unknown";
}

/* Starts a child, asks it and waits for its end. */
static int ask_child(reader *r, const ec_question *q, atomic_int *stop, ea_err *err) {
    ec_symbol_worker_process names = {.in = -1, .out = -1};
    pid_t pid = 0;
    int in = -1, out = -1, status = 0, has_names = r->needs_names && q->symbols;
    int rc = has_names ? ec_symbol_worker_start(&names, q->symbols, q->broker, q->limit_ns, err) : 0;
    if (rc)
        return rc;
    rc = ec_child_start(
        &(ec_child_options){
            .name = EC_WORKER_NAME, .has_extra = has_names, .extra_in = names.out, .extra_out = names.in},
        &pid, &in, &out, err);
    ec_symbol_worker_leave(&names);
    if (rc) {
        if (has_names)
            ec_symbol_worker_end(&names);
        return rc;
    }
    ec_broker_lower(q->broker, pid);
    rc = ask_send_question(in, q, r->is_up_to_date, has_names, err);
    close(in);
    if (!rc) {
        rc = ask_listen_to(r, out, q->limit_ns, stop);
        if (rc)
            rc = ea_fail(err, rc, "read the answer of a query");
    }
    close(out);
    if (!r->has_ended || r->is_canceled || rc || r->outcome->ending == EC_ENDED_TIME)
        (void)kill(pid, SIGKILL); /* ours, and not waited for yet */
    r->outcome->processor_ns += ec_child_wait(pid, &status);
    if (has_names)
        ec_symbol_worker_end(&names);
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
    /* one process is enough then; to a store that a collector writes to, mostly something has come since */
    if (q->wait == EC_WAIT_FOLDED && !q->symbols)
        r.is_up_to_date = ec_state_worker_is_caught_up(q->store, q->host);
    int rc = ask_child(&r, q, stop, err);
    if (!rc && r.needs_history) {
        rc = ec_state_worker_catch_up(q->store, q->host, q->wait, q->wait_ns, &outcome.backlog, err);
        r.is_up_to_date = 1;
        r.has_ended = 0;
        if (!rc)
            rc = ask_child(&r, q, stop, err);
    }
    ret->processor_ns = outcome.processor_ns;
    free_columns(&r);
    outcome.rows = r.rows;
    if (!rc)
        *ret = outcome;
    return rc;
}
