/* The symbolizer's parent. See symbolizer.h. */
#include "collector/symbols/symbolizer.h"
#include "collector/symbols/pe_image.h"
#include "collector/symbols/symbol_confine.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child finds both files among its own descriptors: an image beside its PDB, without a folder on disk. */
#define CHILD_IMAGE "/proc/self/fd/10"
#define CHILD_PDB   "11"

enum { CHILD_IMAGE_FD = 10, CHILD_PDB_FD = 11, OWN_FD_MIN = 32 };

enum {
    FAILURES_MAX = 3,
    CPU_SECONDS = 600,
    FILES_MAX = 64,
    MORE_NICE = 10, /* than the caller */
    CHUNK = 4096,
};

struct ec_symbolizer {
    const ec_symbolizer_options *options;
    ec_symbolizer_files files;
    int image, pdb; /* descriptors of both files */
    pid_t pid;      /* 0: no child */
    int in, out;    /* its standard input (a socket, which raises no signal), its standard output */
    char *answer;   /* its output that was not taken yet */
    size_t answer_bytes, answer_capacity;
    int failures;
};

static const char *program_of(const ec_symbolizer *s) {
    const char *slash = strrchr(s->options->program, '/');
    return slash ? slash + 1 : s->options->program;
}

static void symbolizer_end_child(ec_symbolizer *s) {
    int status;
    if (!s->pid)
        return;
    close(s->in);
    close(s->out);
    (void)kill(s->pid, SIGKILL); /* ours, and not waited for yet */
    while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR)
        ;
    s->pid = 0;
    s->answer_bytes = 0;
}

/* Moves a descriptor above those that the child's are made at, so that none overwrites another on the way. */
static int move_up(int fd) {
    int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, OWN_FD_MIN);
    if (fd >= 0)
        close(fd);
    return moved;
}

static void symbolizer_limit(int what, uint64_t value) {
    struct rlimit l = {.rlim_cur = (rlim_t)value, .rlim_max = (rlim_t)value};
    (void)setrlimit((__rlimit_resource_t)what, &l);
}

/* The child until it is the symbolizer: 0 never comes back. Between fork and exec: nothing is allocated. status: where
 * an error goes; it closes when the program runs. */
static int become(const ec_symbolizer *s, const ec_symbolizer_files *files, int in, int out, int status, ea_err *err) {
    static char json[] = "--output-style=JSON", relative[] = "--relative-address", inlines[] = "--inlines";
    static char locale[] = "LC_ALL=C", name[] = "llvm-symbolizer";
    char *const argv[] = {name, json, relative, inlines, NULL}, *const environment[] = {locale, NULL};
    ec_sandbox_path paths[EC_SYMBOLIZER_PATHS];
    sigset_t none;
    memcpy(paths, files->paths, files->path_count * sizeof paths[0]);
    paths[files->path_count] = (ec_sandbox_path){.fd = s->pdb, .access = EC_SANDBOX_READ};
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int signal_number = 1; signal_number < NSIG; signal_number++)
        (void)signal(signal_number, SIG_DFL);
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(null, STDERR_FILENO) < 0 ||
        dup2(s->image, CHILD_IMAGE_FD) < 0 || dup2(s->pdb, CHILD_PDB_FD) < 0)
        return ea_fail_os(err, EA_EIO, errno, "start %s", s->options->program);
    symbolizer_limit(RLIMIT_AS, s->options->limit_bytes ? s->options->limit_bytes : (uint64_t)4 << 30);
    symbolizer_limit(RLIMIT_CPU, CPU_SECONDS);
    symbolizer_limit(RLIMIT_NOFILE, FILES_MAX);
    symbolizer_limit(RLIMIT_FSIZE, 0);
    symbolizer_limit(RLIMIT_CORE, 0);
    EA_IGNORE(nice(MORE_NICE)); /* a symbol worker is as nice already, and may change it no more */
    int rc = ec_sandbox_enter(
        &(ec_sandbox){.rights = EC_SANDBOX_PROGRAMS, .paths = paths, .path_count = files->path_count + 1}, err);
    if (rc)
        return rc;
    (void)close_range(STDERR_FILENO + 1, CHILD_IMAGE_FD - 1, 0);
    (void)close_range(CHILD_PDB_FD + 1, (unsigned)status - 1, 0);
    (void)close_range((unsigned)status + 1, UINT_MAX, 0);
    (void)execve(files->program, argv, environment);
    return ea_fail_os(err, errno == ENOENT ? EA_ENOTFOUND : EA_EIO, errno, "start %s", s->options->program);
}

/* Starts the child with everything that it gets. in: it reads, out: it writes. */
static int symbolizer_spawn(ec_symbolizer *s, int in, int out, ea_err *err) {
    ea_err child_err = {0};
    int status[2] = {-1, -1};
    int rc = ec_symbolizer_find(&s->files, s->options->program, err);
    if (rc)
        return rc;
    if (pipe2(status, O_CLOEXEC))
        return ea_fail_os(err, EA_EIO, errno, "start %s", s->options->program);
    status[1] = move_up(status[1]);
    s->pid = status[1] < 0 ? -1 : fork();
    if (s->pid == 0) {
        (void)become(s, &s->files, in, out, status[1], &child_err);
        EA_IGNORE(write(status[1], &child_err, sizeof child_err)); /* fits a pipe's buffer */
        _exit(1);
    }
    int os_error = errno;
    close(status[1]);
    if (s->pid < 0) {
        s->pid = 0;
        rc = ea_fail_os(err, EA_EIO, os_error, "start %s", s->options->program);
    }
    ssize_t n = -1;
    while (!rc && (n = read(status[0], &child_err, sizeof child_err)) < 0 && errno == EINTR)
        ;
    close(status[0]);
    if (n > 0) { /* it is not the program */
        while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
            ;
        s->pid = 0;
        child_err.message[sizeof child_err.message - 1] = 0;
        rc = n == (ssize_t)sizeof child_err && child_err.code < 0
                 ? (ea_fail)(err, child_err.code, "%s", child_err.message)
                 : ea_fail(err, EA_EIO, "start %s", s->options->program);
    }
    return rc;
}

static int symbolizer_start_child(ec_symbolizer *s, ea_err *err) {
    int in[2], out[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in))
        return ea_fail_os(err, EA_EIO, errno, "start %s", s->options->program);
    if (pipe2(out, O_CLOEXEC)) {
        int os_error = errno;
        close(in[0]);
        close(in[1]);
        return ea_fail_os(err, EA_EIO, os_error, "start %s", s->options->program);
    }
    int rc = symbolizer_spawn(s, in[1], out[1], err);
    close(in[1]);
    close(out[1]);
    if (rc) {
        close(in[0]);
        close(out[0]);
        return rc;
    }
    s->in = in[0];
    s->out = out[0];
    return 0;
}

int ec_symbolizer_create(ec_symbolizer **ret, const ec_symbolizer_options *options, const ec_pdb *pdb, const char *path,
                         ea_err *err) {
    ea_text image;
    ec_symbolizer *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "start %s", options->program);
    s->options = options;
    s->image = move_up(memfd_create("image", MFD_CLOEXEC));
    s->pdb = move_up(open(path, O_RDONLY | O_CLOEXEC));
    ea_text_init(&image);
    int rc = 0;
    if (s->image < 0 || s->pdb < 0)
        rc = ea_fail_os(err, EA_EIO, errno, "open %s for %s", path, options->program);
    if (!rc)
        rc = ec_pe_stand_in(&image, pdb, CHILD_PDB, err);
    for (size_t at = 0; !rc && at < image.len_bytes;) {
        ssize_t n = write(s->image, image.data + at, image.len_bytes - at);
        if (n > 0)
            at += (size_t)n;
        else if (n == 0 || errno != EINTR)
            rc = ea_fail_os(err, EA_EIO, errno, "write an image for %s", options->program);
    }
    ea_text_deinit(&image);
    if (!rc)
        rc = symbolizer_start_child(s, err);
    if (rc)
        ec_symbolizer_destroy(s);
    else
        *ret = s;
    return rc;
}

void ec_symbolizer_destroy(ec_symbolizer *s) {
    if (!s)
        return;
    symbolizer_end_child(s);
    if (s->image >= 0)
        close(s->image);
    if (s->pdb >= 0)
        close(s->pdb);
    free(s->answer);
    free(s);
}

/* Sends the question whole: it is shorter than any socket's buffer, and the child has taken all before it. */
static int symbolizer_send_question(ec_symbolizer *s, uint32_t rva, ea_err *err) {
    char question[64];
    int n = snprintf(question, sizeof question, "\"%s\" 0x%" PRIx32 "\n", CHILD_IMAGE, rva);
    ssize_t sent;
    do
        sent = send(s->in, question, (size_t)n, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == n ? 0 : ea_fail_os(err, EA_EIO, errno, "%s ended", program_of(s));
}

static int symbolizer_read_some(ec_symbolizer *s, ea_err *err) {
    if (s->answer_capacity - s->answer_bytes < CHUNK) {
        if (s->answer_bytes > EC_ANSWER_MAX_BYTES)
            return ea_fail(err, EA_EFORMAT, "%s answers in lines of more than %d bytes", program_of(s),
                           EC_ANSWER_MAX_BYTES);
        if (EA_GROW(s->answer, s->answer_capacity, s->answer_bytes + 2 * CHUNK, SIZE_MAX))
            return ea_fail(err, EA_ENOMEM, "read an answer of %s", program_of(s));
    }
    ssize_t n = read(s->out, s->answer + s->answer_bytes, s->answer_capacity - s->answer_bytes);
    if (n < 0 && errno == EINTR)
        return 0;
    if (n < 0)
        return ea_fail_os(err, EA_EIO, errno, "read an answer of %s", program_of(s));
    if (n == 0)
        return ea_fail(err, EA_EIO, "%s ended without an answer", program_of(s));
    s->answer_bytes += (size_t)n;
    return 0;
}

/* Waits for a whole line; *ret_bytes without its newline. */
static int wait_line(ec_symbolizer *s, size_t *ret_bytes, ea_err *err) {
    int64_t timeout = s->options->limit_ns ? s->options->limit_ns : (int64_t)30 * 1000000000;
    int64_t deadline = ea_monotonic_ns() + timeout;
    size_t seen = 0;
    for (;;) {
        const char *newline = seen < s->answer_bytes ? memchr(s->answer + seen, '\n', s->answer_bytes - seen) : NULL;
        if (newline) {
            *ret_bytes = (size_t)(newline - s->answer);
            return 0;
        }
        seen = s->answer_bytes;
        int64_t left_ms = (deadline - ea_monotonic_ns()) / 1000000;
        struct pollfd p = {.fd = s->out, .events = POLLIN};
        int n = left_ms > 0 ? poll(&p, 1, left_ms < 1000 ? (int)left_ms : 1000) : 0;
        if (n < 0 && errno != EINTR)
            return ea_fail_os(err, EA_EIO, errno, "wait for %s", program_of(s));
        if (left_ms <= 0)
            return ea_fail(err, EA_ETIMEOUT, "%s did not answer within %" PRId64 " ms", program_of(s),
                           timeout / 1000000);
        int rc = n > 0 ? symbolizer_read_some(s, err) : 0;
        if (rc)
            return rc;
    }
}

int ec_symbolizer_ask(ec_symbolizer *s, uint32_t rva, ec_frames *ret, ea_err *err) {
    size_t n = 0;
    if (s->failures >= FAILURES_MAX)
        return ea_fail(err, EA_ELIMIT, "%s failed %d times with this file", program_of(s), FAILURES_MAX);
    int rc = s->pid ? 0 : symbolizer_start_child(s, err);
    if (!rc)
        rc = symbolizer_send_question(s, rva, err);
    if (!rc)
        rc = wait_line(s, &n, err);
    int is_over = rc != 0;
    if (!rc) {
        rc = ec_answer_read(ret, s->answer, n, err);
        is_over = rc == EA_EFORMAT;
        memmove(s->answer, s->answer + n + 1, s->answer_bytes - n - 1);
        s->answer_bytes -= n + 1;
        if (!is_over && s->answer_bytes) { /* more than was asked: answers would be taken for others */
            is_over = 1;
            rc = ea_fail(err, EA_EFORMAT, "%s answers more than it was asked", program_of(s));
        }
    }
    if (is_over) {
        symbolizer_end_child(s);
        s->failures++;
    }
    return rc;
}
