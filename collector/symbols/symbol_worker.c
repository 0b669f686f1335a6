/* See symbol_worker.h. */
#include "collector/symbols/symbol_worker.h"

#include "collector/sandbox/child.h"
#include "collector/sandbox/message.h"
#include "collector/sandbox/system_paths.h"
#include "collector/symbols/symbol_confine.h"
#include "proto/base/platform.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FRAMES_MAX = 64, /* inlined functions at one address */
    CPU_S = 600,
    MORE_NICE = 5, /* than a question */
};

static const char *const VARIABLES[] = {"PATH" /* of the symbolizer */, EC_CONNECTION_VARIABLES, NULL};
static const uint64_t LIMIT_BYTES = UINT64_C(4) << 30; /* a PDB of 2 GiB, and what is made of it */

struct ec_symbol_worker {
    int in;
    int is_over; /* no further question is answered */
    ec_message_reader reader;
};

/* ---- who starts it ---- */

int ec_symbol_worker_start(ec_symbol_worker_process *ret, const ec_symbols_options *o, ec_broker *broker,
                           int64_t limit_ns, ea_err *err) {
    ea_text t;
    ec_symbol_worker_process p = {.in = -1, .out = -1};
    int rc = ec_child_start(&(ec_child_options){.name = EC_SYMBOL_WORKER_NAME, .variables = VARIABLES}, &p.pid, &p.in,
                            &p.out, err);
    if (rc)
        return rc;
    ec_broker_lower(broker, p.pid);
    ea_text_init(&t);
    ec_message_begin(&t, 'O');
    ec_message_u64(&t, (uint64_t)getpid());
    ec_message_u64(&t, (uint64_t)limit_ns);
    ec_message_u32(&t, (uint32_t)o->has_lines);
    ec_message_u64(&t, (uint64_t)o->symbolizer.limit_ns);
    ec_message_string(&t, o->path);
    ec_message_string(&t, o->folder);
    ec_message_string(&t, o->symbolizer.program);
    rc = ec_message_send(p.in, &t) ? ea_fail(err, EA_EIO, "ask the process that names symbols") : 0;
    ea_text_deinit(&t);
    if (rc)
        ec_symbol_worker_end(&p);
    else
        *ret = p;
    return rc;
}

void ec_symbol_worker_leave(ec_symbol_worker_process *p) {
    if (p->in >= 0)
        close(p->in);
    if (p->out >= 0)
        close(p->out);
    p->in = p->out = -1;
}

void ec_symbol_worker_end(ec_symbol_worker_process *p) {
    int status;
    ec_symbol_worker_leave(p);
    (void)kill(p->pid, SIGKILL); /* ours, and not waited for yet */
    (void)ec_child_wait(p->pid, &status);
}

/* ---- the caller ---- */

int ec_symbol_worker_open(ec_symbol_worker **ret, int in, int out, int64_t deadline_ns, ea_err *err) {
    ec_symbol_worker *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, "name symbols");
    c->in = in;
    c->reader = (ec_message_reader){.fd = out, .deadline_ns = deadline_ns};
    *ret = c;
    return 0;
}

void ec_symbol_worker_close(ec_symbol_worker *c) {
    if (!c)
        return;
    ec_message_reader_deinit(&c->reader);
    free(c);
}

static int next_message(ec_symbol_worker *c, ec_message *ret, ea_err *err) {
    int rc = ec_message_next(&c->reader, ret);
    if (rc == EA_ETIMEOUT)
        return ea_fail(err, rc, "there was no time left to find its symbols");
    if (rc == 0)
        return ea_fail(err, EA_EIO, "the process that names symbols has ended early");
    return rc < 0 ? ea_fail(err, rc, "read what symbols are called") : 0;
}

static int on_symbol_message(ec_message *m, uint32_t rva, ec_symbol_fn fn, void *arg) {
    ec_frame frames[FRAMES_MAX];
    uint32_t count = (uint32_t)ec_message_get(m, 4);
    if (count > FRAMES_MAX)
        return EA_ECORRUPT;
    for (uint32_t i = 0; i < count; i++) {
        frames[i] = (ec_frame){.line = (uint32_t)ec_message_get(m, 4)};
        frames[i].function = ec_message_get_string(m);
        frames[i].file = ec_message_get_string(m);
    }
    return m->failed ? EA_ECORRUPT : fn(arg, &(ec_symbol){.rva = rva, .frames = frames, .frame_count = count});
}

/* Reads the answer of an M. *ret_is_whole: the next question can be asked. */
static int symbol_worker_read_answer(ec_symbol_worker *c, const uint32_t *rvas, size_t count, ec_symbol_fn fn,
                                     void *arg, int *ret_is_whole, ea_err *err) {
    for (size_t next = 0;;) {
        ec_message m;
        int rc = next_message(c, &m, err);
        if (rc)
            return rc;
        if (m.letter == 'S' && next < count) {
            rc = on_symbol_message(&m, rvas[next++], fn, arg);
            if (rc)
                return ea_fail(err, rc, "read what symbols are called");
            continue;
        }
        int code = (int32_t)(uint32_t)ec_message_get(&m, 4);
        const char *text = ec_message_get_string(&m);
        if (m.letter != 'E' || m.failed || code > 0)
            return ea_fail(err, EA_ECORRUPT, "read what symbols are called");
        *ret_is_whole = 1;
        return code ? ea_fail(err, code, "%.480s", text) : 0;
    }
}

int ec_symbol_worker_resolve(ec_symbol_worker *c, const ec_symbol_module *m, const uint32_t *rvas, size_t count,
                             ec_symbol_fn fn, void *arg, ea_err *err) {
    ea_text t;
    int is_whole = 0;
    if (c->is_over)
        return ea_fail(err, EA_ETIMEOUT, "there was no time left to find its symbols");
    ea_text_init(&t);
    ec_message_begin(&t, 'M');
    ec_message_u32(&t, m->pdb.age);
    ec_message_u32(&t, m->timestamp);
    ec_message_u32(&t, m->size_bytes);
    ea_text_add(&t, &m->pdb.guid, sizeof m->pdb.guid);
    ec_message_string(&t, m->pdb_name);
    ec_message_string(&t, m->image_name);
    ec_message_u32(&t, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        ec_message_u32(&t, rvas[i]);
    int rc = ec_message_send(c->in, &t);
    ea_text_deinit(&t);
    if (rc)
        rc = ea_fail(err, rc, "ask the process that names symbols");
    else
        rc = symbol_worker_read_answer(c, rvas, count, fn, arg, &is_whole, err);
    c->is_over = !is_whole; /* the worker may be in the middle of an answer that is not read */
    return rc;
}

/* ---- the process ---- */

typedef struct answer {
    ea_text t;
    int rc;
} answer;

static int symbol_worker_on_symbol(void *arg, const ec_symbol *symbol) {
    answer *a = arg;
    uint32_t count = symbol->frame_count < FRAMES_MAX ? (uint32_t)symbol->frame_count : FRAMES_MAX;
    ec_message_begin(&a->t, 'S');
    ec_message_u32(&a->t, count);
    for (uint32_t i = 0; i < count; i++) {
        ec_message_u32(&a->t, symbol->frames[i].line);
        ec_message_string(&a->t, symbol->frames[i].function);
        ec_message_string(&a->t, symbol->frames[i].file);
    }
    a->rc = ec_message_send(STDOUT_FILENO, &a->t);
    return a->rc;
}

/* symbols: opened with the first module, since that looks through the whole cache. */
static int answer_module(ec_symbols **symbols, const ec_symbols_options *o, ec_message *f, answer *a) {
    ea_err err = {0};
    ec_symbol_module m = {.pdb.age = (uint32_t)ec_message_get(f, 4)};
    m.timestamp = (uint32_t)ec_message_get(f, 4);
    m.size_bytes = (uint32_t)ec_message_get(f, 4);
    if (f->failed || (size_t)(f->end - f->at) < sizeof m.pdb.guid)
        return EA_ECORRUPT;
    memcpy(&m.pdb.guid, f->at, sizeof m.pdb.guid);
    f->at += sizeof m.pdb.guid;
    m.pdb_name = ec_message_get_string(f);
    m.image_name = ec_message_get_string(f);
    size_t count = (size_t)ec_message_get(f, 4);
    if (f->failed || count != (size_t)(f->end - f->at) / 4)
        return EA_ECORRUPT;
    uint32_t *rvas = malloc((count + 1) * sizeof *rvas);
    if (!rvas)
        return EA_ENOMEM;
    for (size_t i = 0; i < count; i++)
        rvas[i] = (uint32_t)ec_message_get(f, 4);
    int rc = *symbols ? 0 : ec_symbols_open(symbols, o, &err);
    if (!rc)
        rc = ec_symbols_resolve(*symbols, &m, rvas, count, symbol_worker_on_symbol, a, NULL, &err);
    free(rvas);
    if (a->rc) /* the reader is gone */
        return a->rc;
    ec_message_begin(&a->t, 'E');
    ec_message_u32(&a->t, (uint32_t)rc);
    ec_message_string(&a->t, rc ? err.message : "");
    return ec_message_send(STDOUT_FILENO, &a->t);
}

/* Answers until its input ends. The strings of o are copied: each message takes the place of the one before. */
static int symbol_worker_serve(ec_message_reader *in, ec_symbols_options *o) {
    ec_symbols *symbols = NULL;
    ec_message m;
    answer a = {.rc = 0};
    char *path = strdup(o->path), *folder = strdup(o->folder), *program = strdup(o->symbolizer.program);
    int rc = path && folder && program ? 0 : EA_ENOMEM;
    o->path = path;
    o->folder = folder;
    o->symbolizer.program = program;
    ea_text_init(&a.t);
    while (!rc && (rc = ec_message_next(in, &m)) > 0)
        rc = m.letter == 'M' ? answer_module(&symbols, o, &m, &a) : EA_ECORRUPT;
    ec_symbols_close(symbols);
    ea_text_deinit(&a.t);
    free(path);
    free(folder);
    free(program);
    return rc;
}

int ec_symbol_worker_main(void) {
    ea_err err = {0};
    ec_message m;
    ec_message_reader in = {.fd = STDIN_FILENO, .deadline_ns = INT64_MAX};
    if (ec_message_next(&in, &m) <= 0 || m.letter != 'O') {
        fprintf(stderr, "etwcollector: %s is started by the command run\n", EC_SYMBOL_WORKER_NAME);
        ec_message_reader_deinit(&in);
        return 2;
    }
    uint64_t parent = ec_message_get(&m, 8);
    int64_t left_ns = (int64_t)ec_message_get(&m, 8);
    ec_symbols_options o = {.has_lines = (int)ec_message_get(&m, 4)};
    o.symbolizer.limit_ns = (int64_t)ec_message_get(&m, 8);
    o.path = ec_message_get_string(&m);
    o.folder = ec_message_get_string(&m);
    o.symbolizer.program = ec_message_get_string(&m);
    o.timeout_ns = left_ns;
    ec_child_limit(parent, CPU_S, LIMIT_BYTES);
    EA_IGNORE(nice(MORE_NICE));
    int rc = m.failed || left_ns <= 0 ? EA_EINVAL : ec_symbols_confine(&o, &err);
    if (rc && err.code)
        ea_err_print(stderr, "etwcollector", &err);
    if (!rc)
        rc = symbol_worker_serve(&in, &o);
    ec_message_reader_deinit(&in);
    return rc ? 1 : 0;
}
