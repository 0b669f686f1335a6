/* See clerk.h. */
#include "clerk.h"

#include "array.h"
#include "bytes.h"
#include "child.h"
#include "platform.h"
#include "symbol_confine.h"
#include "text.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 100, /* how often stop is looked at */
    FRAME_MAX = 16 << 20,
    HEAD_BYTES = 5,
    FRAMES_MAX = 64, /* inlined functions at one address */
    CPU_S = 600,
    MORE_NICE = 5, /* than a question */
};
/* What starts the symbolizer, and what libcurl and OpenSSL go by. */
static const char *const VARIABLES[] = {"PATH",          "http_proxy",   "https_proxy", "HTTPS_PROXY",
                                        "all_proxy",     "ALL_PROXY",    "no_proxy",    "NO_PROXY",
                                        "SSL_CERT_FILE", "SSL_CERT_DIR", NULL};
static const uint64_t LIMIT_BYTES = UINT64_C(4) << 30; /* a PDB of 2 GiB, and what is made of it */

struct ec_clerk {
    pid_t pid; /* 0: it has ended */
    int in, out;
    int64_t deadline_ns;
    atomic_int *stop;
    uint8_t *data; /* what came and was not taken */
    size_t bytes, capacity;
};

/* ---- frames ---- */

static void add_u32(ea_text *t, uint32_t v) {
    uint8_t bytes[4];
    ea_store32(bytes, v);
    ea_text_add(t, bytes, sizeof bytes);
}
static void add_u64(ea_text *t, uint64_t v) {
    uint8_t bytes[8];
    ea_store64(bytes, v);
    ea_text_add(t, bytes, sizeof bytes);
}
static void add_string(ea_text *t, const char *s) {
    s = s ? s : "";
    add_u32(t, (uint32_t)strlen(s));
    ea_text_add(t, s, strlen(s) + 1);
}
static void begin_frame(ea_text *t, char letter) {
    ea_text_clear(t);
    ea_text_char(t, letter);
    add_u32(t, 0);
}
/* Writes the frame. EA_ENOMEM, EA_ELIMIT, EA_EIO. */
static int send_frame(int fd, ea_text *t) {
    if (t->failed)
        return EA_ENOMEM;
    if (t->len_bytes > FRAME_MAX)
        return EA_ELIMIT;
    ea_store32((uint8_t *)t->data + 1, (uint32_t)(t->len_bytes - HEAD_BYTES));
    for (size_t at = 0; at < t->len_bytes;) {
        ssize_t n = write(fd, t->data + at, t->len_bytes - at);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return EA_EIO;
    }
    return 0;
}

typedef struct cursor {
    const uint8_t *at, *end;
    int failed;
} cursor;

static uint64_t get(cursor *c, unsigned bytes) {
    if ((size_t)(c->end - c->at) < bytes) {
        c->failed = 1;
        return 0;
    }
    uint64_t v = ea_load_uint(c->at, bytes);
    c->at += bytes;
    return v;
}
/* With a NUL behind it; "" when it is cut. */
static const char *get_string(cursor *c) {
    size_t n = (size_t)get(c, 4);
    if (c->failed || n >= (size_t)(c->end - c->at) || c->at[n]) {
        c->failed = 1;
        return "";
    }
    const char *s = (const char *)c->at;
    c->at += n + 1;
    return s;
}

/* ---- who asks ---- */

static void add_options(ea_text *t, const ec_symbols_options *o, int64_t left_ns) {
    add_u64(t, (uint64_t)getpid());
    add_u64(t, (uint64_t)left_ns);
    add_u32(t, (uint32_t)o->has_lines);
    add_u64(t, (uint64_t)o->symbolizer.limit_ns);
    add_string(t, o->path);
    add_string(t, o->folder);
    add_string(t, o->symbolizer.program);
}

int ec_clerk_start(ec_clerk **ret, const ec_symbols_options *options, int64_t deadline_ns, atomic_int *stop,
                   ea_err *err) {
    ea_text t;
    ec_clerk *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, "name symbols");
    c->in = c->out = -1;
    c->deadline_ns = deadline_ns;
    c->stop = stop;
    ea_text_init(&t);
    int rc = ec_child_start(&(ec_child_options){.name = EC_CLERK_NAME, .variables = VARIABLES}, &c->pid, &c->in,
                            &c->out, err);
    if (!rc) {
        begin_frame(&t, 'O');
        add_options(&t, options, deadline_ns - ea_monotonic_ns());
        rc = send_frame(c->in, &t) ? ea_fail(err, EA_EIO, "ask the process that names symbols") : 0;
    }
    ea_text_deinit(&t);
    if (rc) {
        ec_clerk_end(c);
        return rc;
    }
    *ret = c;
    return 0;
}

static void end_child(ec_clerk *c) {
    int status;
    if (!c->pid)
        return;
    close(c->in);
    close(c->out);
    (void)kill(c->pid, SIGKILL); /* ours, and not waited for yet */
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR)
        ;
    c->pid = 0;
}

void ec_clerk_end(ec_clerk *c) {
    if (!c)
        return;
    end_child(c);
    free(c->data);
    free(c);
}

/* Reads until a whole frame is there: its letter, and what is in it, until the next call. */
static int next_frame(ec_clerk *c, size_t *taken, char *ret_letter, cursor *ret, ea_err *err) {
    enum { CHUNK = 1 << 16 };
    if (*taken)
        memmove(c->data, c->data + *taken, c->bytes - *taken);
    c->bytes -= *taken;
    *taken = 0;
    for (;;) {
        size_t n = c->bytes < HEAD_BYTES ? 0 : ea_load32(c->data + 1);
        if (n > FRAME_MAX)
            return ea_fail(err, EA_ECORRUPT, "read what symbols are called");
        if (c->bytes >= HEAD_BYTES + n && c->bytes >= HEAD_BYTES) {
            *ret_letter = (char)c->data[0];
            *ret = (cursor){.at = c->data + HEAD_BYTES, .end = c->data + HEAD_BYTES + n};
            *taken = HEAD_BYTES + n;
            return 0;
        }
        if (EA_GROW(c->data, c->capacity, c->bytes + CHUNK, SIZE_MAX))
            return ea_fail(err, EA_ENOMEM, "name symbols");
        struct pollfd p = {.fd = c->out, .events = POLLIN};
        if (c->stop && *c->stop)
            return ea_fail(err, EA_ECANCELED, "name symbols");
        if (ea_monotonic_ns() > c->deadline_ns)
            return ea_fail(err, EA_ETIMEOUT, "there was no time left to find its symbols");
        int ready = poll(&p, 1, LOOK_MS);
        ssize_t got = ready > 0 ? read(c->out, c->data + c->bytes, c->capacity - c->bytes) : 1;
        if ((ready < 0 && errno != EINTR) || (got < 0 && errno != EINTR) || got == 0)
            return ea_fail(err, EA_EIO, "the process that names symbols has ended early");
        c->bytes += ready > 0 && got > 0 ? (size_t)got : 0;
    }
}

static int on_symbol_frame(cursor *f, uint32_t rva, ec_symbol_fn fn, void *arg) {
    ec_frame frames[FRAMES_MAX];
    uint32_t count = (uint32_t)get(f, 4);
    if (count > FRAMES_MAX)
        return EA_ECORRUPT;
    for (uint32_t i = 0; i < count; i++) {
        frames[i] = (ec_frame){.line = (uint32_t)get(f, 4)};
        frames[i].function = get_string(f);
        frames[i].file = get_string(f);
    }
    return f->failed ? EA_ECORRUPT : fn(arg, &(ec_symbol){.rva = rva, .frames = frames, .frame_count = count});
}

int ec_clerk_resolve(ec_clerk *c, const ec_symbol_module *m, const uint32_t *rvas, size_t count, ec_symbol_fn fn,
                     void *arg, ea_err *err) {
    ea_text t;
    size_t taken = 0, next = 0;
    if (!c->pid)
        return ea_fail(err, EA_ETIMEOUT, "there was no time left to find its symbols");
    ea_text_init(&t);
    begin_frame(&t, 'M');
    add_u32(&t, m->pdb.age);
    add_u32(&t, m->timestamp);
    add_u32(&t, m->size_bytes);
    ea_text_add(&t, &m->pdb.guid, sizeof m->pdb.guid);
    add_string(&t, m->pdb_name);
    add_string(&t, m->image_name);
    add_u32(&t, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        add_u32(&t, rvas[i]);
    int rc = send_frame(c->in, &t), is_over = 0;
    ea_text_deinit(&t);
    if (rc)
        rc = ea_fail(err, rc, "ask the process that names symbols");
    while (!rc && !is_over) {
        char letter = 0;
        cursor f;
        rc = next_frame(c, &taken, &letter, &f, err);
        if (rc)
            break;
        if (letter == 'S' && next < count) {
            rc = on_symbol_frame(&f, rvas[next++], fn, arg);
            if (rc)
                rc = ea_fail(err, rc, "read what symbols are called");
            continue;
        }
        int code = (int32_t)(uint32_t)get(&f, 4);
        const char *text = get_string(&f);
        if (letter != 'E' || f.failed || code > 0) {
            rc = ea_fail(err, EA_ECORRUPT, "read what symbols are called");
        } else if (code) {
            rc = ea_fail(err, code, "%.480s", text);
            is_over = 1;
        }
        if (!rc)
            is_over = 1;
    }
    if (taken)
        memmove(c->data, c->data + taken, c->bytes - taken);
    c->bytes -= taken;
    if (!is_over)
        end_child(c); /* it is somewhere in an answer that nobody reads */
    return rc;
}

/* ---- the child ---- */

typedef struct answer {
    ea_text t;
    int rc;
} answer;

static int on_symbol(void *arg, const ec_symbol *symbol) {
    answer *a = arg;
    uint32_t count = symbol->frame_count < FRAMES_MAX ? (uint32_t)symbol->frame_count : FRAMES_MAX;
    begin_frame(&a->t, 'S');
    add_u32(&a->t, count);
    for (uint32_t i = 0; i < count; i++) {
        add_u32(&a->t, symbol->frames[i].line);
        add_string(&a->t, symbol->frames[i].function);
        add_string(&a->t, symbol->frames[i].file);
    }
    a->rc = send_frame(STDOUT_FILENO, &a->t);
    return a->rc;
}

/* A frame from standard input, in memory of its own; NULL at the end. */
static uint8_t *read_frame(char *ret_letter, cursor *ret) {
    uint8_t head[HEAD_BYTES], *data = NULL;
    size_t want = sizeof head, n = 0;
    uint8_t *to = head;
    for (;;) {
        ssize_t got = read(STDIN_FILENO, to + n, want - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        n += (size_t)got;
        if (n < want)
            continue;
        if (!data) {
            want = ea_load32(head + 1);
            data = want <= FRAME_MAX ? malloc(want + 1) : NULL;
            if (!data)
                return NULL;
            to = data;
            n = 0;
        }
        if (n == want) {
            *ret_letter = (char)head[0];
            *ret = (cursor){.at = data, .end = data + want};
            return data;
        }
    }
    free(data);
    return NULL;
}

/* symbols: opened with the first module, since that looks through the whole cache. */
static int answer_module(ec_symbols **symbols, const ec_symbols_options *o, cursor *f, answer *a) {
    ea_err err = {0};
    ec_symbol_module m = {.pdb.age = (uint32_t)get(f, 4)};
    m.timestamp = (uint32_t)get(f, 4);
    m.size_bytes = (uint32_t)get(f, 4);
    if (f->failed || (size_t)(f->end - f->at) < sizeof m.pdb.guid)
        return EA_ECORRUPT;
    memcpy(&m.pdb.guid, f->at, sizeof m.pdb.guid);
    f->at += sizeof m.pdb.guid;
    m.pdb_name = get_string(f);
    m.image_name = get_string(f);
    size_t count = (size_t)get(f, 4);
    if (f->failed || count != (size_t)(f->end - f->at) / 4)
        return EA_ECORRUPT;
    uint32_t *rvas = malloc((count + 1) * sizeof *rvas);
    if (!rvas)
        return EA_ENOMEM;
    for (size_t i = 0; i < count; i++)
        rvas[i] = (uint32_t)get(f, 4);
    int rc = *symbols ? 0 : ec_symbols_open(symbols, o, &err);
    if (!rc)
        rc = ec_symbols_resolve(*symbols, &m, rvas, count, on_symbol, a, NULL, &err);
    free(rvas);
    if (a->rc) /* nobody listens */
        return a->rc;
    begin_frame(&a->t, 'E');
    add_u32(&a->t, (uint32_t)rc);
    add_string(&a->t, rc ? err.message : "");
    return send_frame(STDOUT_FILENO, &a->t);
}

int ec_clerk_main(void) {
    char letter = 0;
    cursor f = {0};
    ec_symbols *symbols = NULL;
    ea_err err = {0};
    answer a = {.rc = 0};
    uint8_t *first = read_frame(&letter, &f);
    if (!first || letter != 'O') {
        fprintf(stderr, "etwcollector: %s is started by the command run\n", EC_CLERK_NAME);
        free(first);
        return 2;
    }
    uint64_t parent = get(&f, 8);
    int64_t left_ns = (int64_t)get(&f, 8);
    ec_symbols_options o = {.has_lines = (int)get(&f, 4)};
    o.symbolizer.limit_ns = (int64_t)get(&f, 8);
    o.path = get_string(&f);
    o.folder = get_string(&f);
    o.symbolizer.program = get_string(&f);
    o.timeout_ns = left_ns;
    ec_child_limit(parent, CPU_S, LIMIT_BYTES);
    (void)!nice(MORE_NICE);
    ea_text_init(&a.t);
    int rc = f.failed || left_ns <= 0 ? EA_EINVAL : ec_symbols_confine(&o, &err);
    if (rc && err.code)
        ea_err_print(stderr, "etwcollector", &err);
    while (!rc) {
        uint8_t *data = read_frame(&letter, &f);
        if (!data)
            break;
        rc = letter == 'M' ? answer_module(&symbols, &o, &f, &a) : EA_ECORRUPT;
        free(data);
    }
    ec_symbols_close(symbols);
    ea_text_deinit(&a.t);
    free(first);
    return rc ? 1 : 0;
}
