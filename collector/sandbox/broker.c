/* The broker, seen from both sides. See broker.h.
 *
 * Its setup comes on standard input, once: strings, each as its length (u32) and its bytes: the daemon's process id,
 * what is written, how many children, of each its name, its variables and its greeting, then the paths. Requests and
 * replies are packets on one socket, with descriptors beside a reply. */
#include "collector/sandbox/broker.h"

#include "collector/sandbox/child.h"
#include "proto/base/bytes.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SETUP_MAX = 1 << 20, VARIABLES_MAX = 16 };

enum {
    PARENT,
    WRITTEN,
    CHILDREN,
    REST,
    OF_CHILD = 3, /* strings: */
    NAME = 0,
    VARIABLES = 1, /* a line each */
    GREETING = 2,
    STRINGS_MAX = REST + OF_CHILD * EC_BROKER_CHILDREN_MAX + EC_BROKER_PATHS_MAX
};

enum kind { OPEN, WRITE, START, LOOK, ASK, END, LOWER };

typedef struct request {
    uint32_t kind, number; /* number: of a path, of a child, of bytes, or a process id */
    char data[EC_BROKER_WRITE_MAX];
} request;

typedef struct reply {
    int32_t os_error; /* 0: it was done */
    int32_t value;    /* of LOOK: 1 when the child has ended */
    int32_t status;
} reply;

struct ec_broker {
    ea_mutex *mutex;
    pid_t pid;
    int setup, socket;
    int has_ended;
    char *paths[EC_BROKER_PATHS_MAX];
    size_t path_count;
};

/* ---- packets ---- */

/* fds: count descriptors, at most 2, that go along. */
static int send_packet(int to, const void *data, size_t n, const int *fds, size_t count) {
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control = {.room = {0}};
    struct iovec part = {.iov_base = (void *)(uintptr_t)data, .iov_len = n};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (count) {
        m.msg_control = control.room;
        m.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, count * sizeof(int));
    }
    ssize_t sent;
    while ((sent = sendmsg(to, &m, MSG_NOSIGNAL)) < 0 && errno == EINTR)
        ;
    return sent == (ssize_t)n ? 0 : -1;
}

/* fds: at most 2 that came along; -1 where none did. */
static int receive_packet(int from, void *data, size_t n, int *fds) {
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct iovec part = {.iov_base = data, .iov_len = n};
    struct msghdr m = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = fds ? control.room : NULL,
                       .msg_controllen = fds ? sizeof control.room : 0};
    ssize_t got;
    while ((got = recvmsg(from, &m, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR)
        ;
    struct cmsghdr *c = got == (ssize_t)n && fds ? CMSG_FIRSTHDR(&m) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
        memcpy(fds, CMSG_DATA(c),
               c->cmsg_len - CMSG_LEN(0) > 2 * sizeof(int) ? 2 * sizeof(int) : c->cmsg_len - CMSG_LEN(0));
    return got == (ssize_t)n ? 0 : -1;
}

/* ---- the daemon's side ---- */

int ec_broker_start(ec_broker **ret, const char *const *variables, ea_err *err) {
    int ends[2], out = -1;
    ec_broker *b = calloc(1, sizeof *b);
    if (!b)
        return ea_fail(err, EA_ENOMEM, "start the broker");
    b->setup = b->socket = -1;
    int rc = ea_mutex_create(&b->mutex, err);
    if (!rc && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        rc = ea_fail_os(err, EA_EIO, errno, "start the broker");
    if (!rc) {
        b->socket = ends[0];
        rc = ec_child_start(&(ec_child_options){.name = EC_BROKER_NAME,
                                                .variables = variables,
                                                .has_extra = 1,
                                                .extra_in = ends[1],
                                                .extra_out = ends[1]},
                            &b->pid, &b->setup, &out, err);
        close(ends[1]);
    }
    if (out >= 0)
        close(out);
    if (rc) {
        b->pid = 0;
        ec_broker_stop(b);
        return rc;
    }
    *ret = b;
    return 0;
}

pid_t ec_broker_pid(const ec_broker *b) {
    return b->pid;
}

static void broker_put_string(ea_text *t, const void *data, size_t n) {
    uint8_t head[4];
    ea_store32(head, (uint32_t)n);
    ea_text_add(t, head, sizeof head);
    ea_text_add(t, data, n);
}

static void put_child(ea_text *t, const ec_broker_child *c) {
    ea_text names;
    ea_text_init(&names);
    for (const char *const *v = c->variables; v && *v; v++)
        ea_text_printf(&names, "%s\n", *v);
    broker_put_string(t, c->name, strlen(c->name));
    broker_put_string(t, names.data, names.len_bytes);
    broker_put_string(t, c->greeting, c->greeting_bytes);
    t->failed |= names.failed;
    ea_text_deinit(&names);
}

static int write_whole(int fd, const char *data, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t sent = write(fd, data + at, n - at);
        if (sent > 0)
            at += (size_t)sent;
        else if (sent == 0 || errno != EINTR)
            return -1;
    }
    return 0;
}

int ec_broker_settle(ec_broker *b, const ec_broker_duties *d, ea_err *err) {
    ea_text t;
    char parent[24], children[24];
    int rc = d->child_count <= EC_BROKER_CHILDREN_MAX
                 ? 0
                 : ea_fail(err, EA_ELIMIT, "start the broker: more than %d children", EC_BROKER_CHILDREN_MAX);
    ea_text_init(&t);
    snprintf(children, sizeof children, "%zu", d->child_count);
    snprintf(parent, sizeof parent, "%ld", (long)getpid());
    for (size_t i = 0; !rc && i < d->path_count; i++)
        if (d->paths[i]) {
            if (b->path_count == EC_BROKER_PATHS_MAX)
                rc = ea_fail(err, EA_ELIMIT, "start the broker: more than %d paths", EC_BROKER_PATHS_MAX);
            else if (!(b->paths[b->path_count++] = strdup(d->paths[i])))
                rc = ea_fail(err, EA_ENOMEM, "start the broker");
        }
    broker_put_string(&t, parent, strlen(parent));
    broker_put_string(&t, d->written ? d->written : "", d->written ? strlen(d->written) : 0);
    broker_put_string(&t, children, strlen(children));
    for (size_t i = 0; !rc && i < d->child_count; i++)
        put_child(&t, &d->children[i]);
    for (size_t i = 0; !rc && i < b->path_count; i++)
        broker_put_string(&t, b->paths[i], strlen(b->paths[i]));
    if (!rc && t.failed)
        rc = ea_fail(err, EA_ENOMEM, "start the broker");
    if (!rc && t.len_bytes > SETUP_MAX)
        rc = ea_fail(err, EA_ELIMIT, "start the broker: its setup has %zu bytes, at most %d are allowed", t.len_bytes,
                     SETUP_MAX);
    if (!rc && write_whole(b->setup, t.data, t.len_bytes))
        rc = ea_fail_os(err, EA_EIO, errno, "start the broker");
    close(b->setup);
    b->setup = -1;
    ea_text_deinit(&t);
    return rc;
}

void ec_broker_stop(ec_broker *b) {
    int status;
    if (!b)
        return;
    if (b->setup >= 0)
        close(b->setup);
    if (b->socket >= 0)
        close(b->socket); /* by which it notices */
    if (b->pid)
        (void)ec_child_wait(b->pid, &status);
    for (size_t i = 0; i < b->path_count; i++)
        free(b->paths[i]);
    ea_mutex_destroy(b->mutex);
    free(b);
}

int ec_broker_has_ended(ec_broker *b) {
    int status;
    if (b && b->pid && waitpid(b->pid, &status, WNOHANG) == b->pid)
        b->pid = 0;
    return b && !b->pid;
}

static int broker_call(ec_broker *b, const request *q, reply *ret, int *fds) {
    ea_mutex_lock(b->mutex);
    int rc = b->has_ended || send_packet(b->socket, q, sizeof *q, NULL, 0) ||
             receive_packet(b->socket, ret, sizeof *ret, fds);
    b->has_ended = rc;
    ea_mutex_unlock(b->mutex);
    if (rc)
        *ret = (reply){.os_error = EPIPE};
    return ret->os_error;
}

static int read_fd(int fd, const char *path, size_t max_bytes, char **ret, size_t *ret_bytes, ea_err *err) {
    struct stat st;
    size_t n = 0;
    if (fstat(fd, &st))
        return ea_fail_os(err, EA_EIO, errno, "read %s", path);
    if (st.st_size < 0 || (uint64_t)st.st_size > max_bytes)
        return ea_fail(err, EA_ELIMIT, "read %s: %lld bytes, at most %zu are allowed", path, (long long)st.st_size,
                       max_bytes);
    size_t room = (size_t)st.st_size;
    char *data = malloc(room + 1);
    if (!data)
        return ea_fail(err, EA_ENOMEM, "read %s", path);
    while (n < room) {
        ssize_t got = read(fd, data + n, room - n);
        if (got == 0)
            break; /* it became shorter */
        if (got < 0 && errno != EINTR) {
            int os_error = errno;
            free(data);
            return ea_fail_os(err, EA_EIO, os_error, "read %s", path);
        }
        n += got > 0 ? (size_t)got : 0;
    }
    data[n] = 0;
    *ret = data;
    *ret_bytes = n;
    return 0;
}

int ec_broker_read(ec_broker *b, const char *path, size_t max_bytes, char **ret, size_t *ret_bytes, ea_err *err) {
    request q = {.kind = OPEN};
    reply answer;
    int fds[2] = {-1, -1};
    if (!b)
        return ea_path_read_all(path, max_bytes, ret, ret_bytes, err);
    while (q.number < b->path_count && strcmp(b->paths[q.number], path) != 0)
        q.number++;
    if (broker_call(b, &q, &answer, fds))
        return ea_fail_os(err, answer.os_error == ENOENT ? EA_ENOTFOUND : EA_EIO, answer.os_error, "read %s", path);
    int rc = read_fd(fds[0], path, max_bytes, ret, ret_bytes, err);
    close(fds[0]);
    return rc;
}

int ec_broker_write(ec_broker *b, const void *data, size_t len_bytes, ea_err *err) {
    request q = {.kind = WRITE, .number = (uint32_t)len_bytes};
    reply answer;
    if (len_bytes > sizeof q.data)
        return ea_fail(err, EA_ELIMIT, "write a file: %zu bytes, at most %zu are allowed", len_bytes, sizeof q.data);
    memcpy(q.data, data, len_bytes);
    return broker_call(b, &q, &answer, NULL) ? ea_fail_os(err, EA_EIO, answer.os_error, "write the port's file") : 0;
}

int ec_broker_start_child(ec_broker *b, size_t child, int *ret_in, int *ret_out, ea_err *err) {
    reply answer;
    int fds[2] = {-1, -1};
    if (broker_call(b, &(request){.kind = START, .number = (uint32_t)child}, &answer, fds))
        return ea_fail_os(err, answer.os_error == EBUSY ? EA_EBUSY : EA_EIO, answer.os_error, "start a process");
    *ret_in = fds[0];
    *ret_out = fds[1];
    return 0;
}

int ec_broker_child_ended(ec_broker *b, size_t child, int *ret_status) {
    reply answer;
    if (broker_call(b, &(request){.kind = LOOK, .number = (uint32_t)child}, &answer, NULL) || !answer.value)
        return 0;
    *ret_status = answer.status;
    return 1;
}

void ec_broker_ask_child(ec_broker *b, size_t child) {
    reply answer;
    (void)broker_call(b, &(request){.kind = ASK, .number = (uint32_t)child}, &answer, NULL);
}

void ec_broker_end_child(ec_broker *b, size_t child) {
    reply answer;
    (void)broker_call(b, &(request){.kind = END, .number = (uint32_t)child}, &answer, NULL);
}

void ec_broker_lower(ec_broker *b, pid_t child) {
    reply answer;
    if (b)
        (void)broker_call(b, &(request){.kind = LOWER, .number = (uint32_t)child}, &answer, NULL);
}

/* ---- the process ---- */

typedef struct duties {
    char *setup; /* owns all texts */
    char *strings[STRINGS_MAX];
    size_t bytes[STRINGS_MAX], count;
    uint64_t child_count;
    const char *variables[EC_BROKER_CHILDREN_MAX][VARIABLES_MAX + 1];
    size_t paths;                                   /* the first one's place in strings */
    pid_t parent, children[EC_BROKER_CHILDREN_MAX]; /* 0: none */
} duties;

/* A string of a child. */
static size_t child_string(size_t child, size_t which) {
    return REST + OF_CHILD * child + which;
}

/* Cuts lines into names, up to a NULL. */
static void take_variables(char *lines, const char **ret) {
    size_t count = 0;
    for (char *at = lines; *at && count < VARIABLES_MAX;) {
        char *end = at + strcspn(at, "\n");
        ret[count++] = at;
        at = *end ? end + 1 : end;
        *end = 0;
    }
    ret[count] = NULL;
}

/* Reads the setup to its end. Each string gets a NUL in place of the next one's length. 1 when it is sound. */
static int take_setup(duties *d, int from) {
    uint64_t parent = 0;
    size_t n = 0;
    d->setup = malloc(SETUP_MAX + 1);
    if (!d->setup)
        return 0;
    for (ssize_t got; n < SETUP_MAX && (got = read(from, d->setup + n, SETUP_MAX - n)) != 0;)
        if (got > 0)
            n += (size_t)got;
        else if (errno != EINTR)
            return 0;
    for (size_t at = 0; at < n;) {
        if (n - at < 4 || d->count == STRINGS_MAX)
            return 0;
        size_t bytes = ea_load32((const uint8_t *)d->setup + at);
        d->setup[at] = 0;
        if (bytes > n - at - 4)
            return 0;
        d->strings[d->count] = d->setup + at + 4;
        d->bytes[d->count++] = bytes;
        at += 4 + bytes;
    }
    d->setup[n] = 0;
    if (d->count < REST || ea_u64_parse(d->strings[PARENT], &parent) || parent > INT32_MAX ||
        ea_u64_parse(d->strings[CHILDREN], &d->child_count) || d->child_count > EC_BROKER_CHILDREN_MAX ||
        d->count - REST < OF_CHILD * d->child_count)
        return 0;
    d->paths = child_string((size_t)d->child_count, 0);
    for (size_t i = 0; i < d->child_count; i++)
        take_variables(d->strings[child_string(i, VARIABLES)], d->variables[i]);
    d->parent = (pid_t)parent;
    return 1;
}

static int broker_write_file(const duties *d, const request *q) {
    ea_err err = {0};
    if (!d->bytes[WRITTEN] || q->number > sizeof q->data)
        return EPERM;
    int rc = ea_path_write_all(d->strings[WRITTEN], q->data, q->number, 0, &err);
    return rc ? (err.os_error ? err.os_error : EIO) : 0;
}

static int broker_start_child(duties *d, uint32_t child, int *ret_fds) {
    ea_err err = {0};
    if (child >= d->child_count)
        return EPERM;
    if (d->children[child])
        return EBUSY;
    size_t greeting = child_string(child, GREETING);
    if (ec_child_start(
            &(ec_child_options){.name = d->strings[child_string(child, NAME)], .variables = d->variables[child]},
            &d->children[child], &ret_fds[0], &ret_fds[1], &err)) {
        d->children[child] = 0;
        return err.os_error ? err.os_error : EIO;
    }
    (void)write_whole(ret_fds[0], d->strings[greeting], d->bytes[greeting]); /* its end is detected later */
    return 0;
}

static void look_at_child(duties *d, uint32_t child, reply *ret) {
    int status = 0;
    if (child < d->child_count && d->children[child] &&
        waitpid(d->children[child], &status, WNOHANG) == d->children[child]) {
        d->children[child] = 0;
        *ret = (reply){.value = 1, .status = status};
    }
}

static void broker_ask_child(const duties *d, uint32_t child) {
    if (child < d->child_count && d->children[child])
        (void)kill(d->children[child], SIGTERM); /* ours, and not waited for yet */
}

static void broker_end_child(duties *d, uint32_t child) {
    int status;
    if (child >= d->child_count || !d->children[child])
        return;
    (void)kill(d->children[child], SIGKILL);
    (void)ec_child_wait(d->children[child], &status);
    d->children[child] = 0;
}

/* Only of a process that the daemon started, and only upward. */
static int lower(const duties *d, uint32_t pid) {
    enum { STATE_BYTES = 4 }; /* ") R " before the parent's number */

    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%lu/stat", (unsigned long)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return ESRCH;
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    const char *at = strrchr(text, ')');
    int is_parent = at && strlen(at) > STATE_BYTES && strtol(at + STATE_BYTES, NULL, 10) == (long)d->parent;
    return is_parent ? ec_child_set_score((pid_t)pid) : EPERM;
}

static void broker_serve(duties *d, int fd) {
    request q;
    while (receive_packet(fd, &q, sizeof q, NULL) == 0) {
        reply answer = {.os_error = 0};
        int fds[2] = {-1, -1};
        size_t count = 0;
        switch ((enum kind)q.kind) {
        case OPEN:
            if (q.number < d->count - d->paths &&
                (fds[0] = open(d->strings[d->paths + q.number], O_RDONLY | O_CLOEXEC)) >= 0)
                count = 1;
            else
                answer.os_error = q.number < d->count - d->paths ? errno : EPERM;
            break;
        case WRITE:
            answer.os_error = broker_write_file(d, &q);
            break;
        case START:
            answer.os_error = broker_start_child(d, q.number, fds);
            count = answer.os_error ? 0 : 2;
            break;
        case LOOK:
            look_at_child(d, q.number, &answer);
            break;
        case ASK:
            broker_ask_child(d, q.number);
            break;
        case END:
            broker_end_child(d, q.number);
            break;
        case LOWER:
            answer.os_error = lower(d, q.number);
            break;
        default:
            answer.os_error = EINVAL;
        }
        int rc = send_packet(fd, &answer, sizeof answer, fds, count);
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        if (rc)
            break;
    }
}

int ec_broker_main(void) {
    duties d = {.count = 0};
    if (!take_setup(&d, STDIN_FILENO)) {
        fprintf(stderr, "etwcollector: %s is started by the command run\n", EC_BROKER_NAME);
        free(d.setup);
        return 2;
    }
    ec_child_follow((uint64_t)d.parent);
    (void)signal(SIGTERM, SIG_IGN); /* they go to all processes of a service or terminal; the daemon decides */
    (void)signal(SIGHUP, SIG_IGN);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* no ptrace, and no /proc/PID/mem, by other processes of this user */
    close(EC_CHILD_EXTRA_OUT);
    broker_serve(&d, EC_CHILD_EXTRA_IN);
    for (uint32_t i = 0; i < d.child_count; i++)
        broker_end_child(&d, i);
    free(d.setup);
    return 0;
}
