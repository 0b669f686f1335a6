/* What a process can still do in its sandbox. For each set of rights, a child process tries operations that must fail
 * and operations that must succeed, and reports the errno of each. */
#include "collector/sandbox/child.h"
#include "collector/sandbox/sandbox.h"
#include "tests/unit/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char readable[1200], secret[1200], shared[1200], folder[1200];
static ec_sandbox_support support;

/* 0, or errno. */
static int result(long rc) {
    return rc < 0 ? errno : 0;
}

static int try_open(const char *path, int flags) {
    int fd = open(path, flags | O_CLOEXEC, 0600), e = result(fd);
    if (fd >= 0)
        close(fd);
    return e;
}

static int read_passwd(void) {
    return try_open("/etc/passwd", O_RDONLY);
}

static int read_secret(void) {
    return try_open(secret, O_RDONLY);
}

static int read_allowed(void) {
    return try_open(readable, O_RDONLY);
}

static int write_allowed(void) {
    return try_open(readable, O_WRONLY);
}

static int write_shared(void) {
    return try_open(shared, O_RDWR);
}

static int make_file(void) {
    char path[1300];
    snprintf(path, sizeof path, "%s/new", folder);
    return try_open(path, O_WRONLY | O_CREAT);
}

static int remove_file(void) {
    char path[1300];
    snprintf(path, sizeof path, "%s/new", folder);
    return result(unlink(path));
}

static int link_to(const char *from) {
    char path[1300];
    snprintf(path, sizeof path, "%s/linked", folder);
    int e = result(link(from, path));
    (void)unlink(path);
    return e;
}

static int link_inside(void) {
    char path[1300];
    snprintf(path, sizeof path, "%s/old", folder);
    return link_to(path);
}

static int link_secret(void) {
    return link_to(secret);
}

static int change_mode(void) {
    int fd = open(shared, O_RDWR | O_CLOEXEC), e = fd < 0 ? errno : result(fchmod(fd, 0600));
    if (fd >= 0)
        close(fd);
    return e;
}

static int read_parents_memory(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", getppid());
    return try_open(path, O_RDONLY);
}

static int read_parents_environment(void) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", getppid());
    return try_open(path, O_RDONLY);
}

static int make_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), e = result(fd);
    if (fd >= 0)
        close(fd);
    return e;
}

static int make_local_socket(void) {
    return result(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int bind_socket(void) {
    const struct sockaddr_un to = {.sun_family = AF_UNIX};
    return result(bind(0, (const struct sockaddr *)&to, sizeof to));
}

static int connect_socket(void) {
    const struct sockaddr_un to = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
    return result(connect(STDOUT_FILENO, (const struct sockaddr *)&to, sizeof to));
}

static int start_program(void) {
    char name[] = "true", *const argv[] = {name, NULL}, *const environment[] = {NULL};
    (void)execve("/bin/true", argv, environment);
    return errno;
}

static int start_program_by_descriptor(void) {
    static const char *const NONE[] = {NULL};
    (void)syscall(SYS_execveat, AT_FDCWD, "/bin/true", NONE, NONE, 0);
    return errno;
}

static int start_process(void) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    int e = result(pid);
    if (pid > 0)
        (void)waitpid(pid, NULL, 0);
    return e;
}

static void *do_nothing(void *arg) {
    return arg;
}

static int start_thread(void) {
    pthread_t thread;
    int e = pthread_create(&thread, NULL, do_nothing, NULL);
    if (!e)
        (void)pthread_join(thread, NULL);
    return e;
}

static int trace_parent(void) {
    return result(ptrace(PTRACE_SEIZE, getppid(), NULL, NULL)); /* it stops nothing, where it works */
}

static int trace_self(void) {
    if (!support.has[EC_SANDBOX_HAS_SECCOMP])
        return 0; /* it works, and would stop this process at its exec */
    return result(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int read_parent_by_call(void) {
    char byte;
    struct iovec own = {&byte, 1}, other = {&byte, 1};
    return result(process_vm_readv(getppid(), &own, 1, &other, 1, 0));
}

static int signal_parent(void) {
    return result(kill(getppid(), 0));
}

static int signal_parent_thread(void) {
    return result(syscall(SYS_tgkill, getppid(), getppid(), 0));
}

static int signal_all(void) {
    return result(kill(-1, 0));
}

static int signal_self(void) {
    return result(kill(getpid(), 0));
}

static int limit_parent(void) {
    const struct rlimit l = {RLIM_INFINITY, RLIM_INFINITY};
    return result(prlimit(getppid(), RLIMIT_CORE, &l, NULL));
}

static int mount_folder(void) {
    return result(syscall(SYS_mount, "none", "/nowhere", "tmpfs", 0, NULL));
}

static int leave_namespace(void) {
    return result(unshare(CLONE_NEWUSER));
}

static int start_in_namespace(void) {
    long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        _exit(0);
    return result(pid);
}

static int use_keys(void) {
    return result(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, -3, 0));
}

static int use_bpf(void) {
    return result(syscall(SYS_bpf, 0, NULL, 0));
}

static int use_perf(void) {
    return result(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}

static int use_userfaultfd(void) {
    return result(syscall(SYS_userfaultfd, O_CLOEXEC));
}

static int use_io_uring(void) {
    return result(syscall(SYS_io_uring_setup, 1, NULL));
}

static int run_memory(void) {
    void *p = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? errno : 0;
}

static int use_memory(void) {
    void *p = malloc(64 << 20);
    int e = p ? 0 : errno;
    free(p);
    return e;
}

static int unknown_call(void) {
    return result(syscall(999, 0));
}

static int clone_newer(void) {
    return result(syscall(SYS_clone3, NULL, 0));
}

#define TRIES(X)                                                                                                       \
    X(read_passwd)                                                                                                     \
    X(read_secret)                                                                                                     \
    X(read_allowed)                                                                                                    \
    X(write_allowed)                                                                                                   \
    X(write_shared)                                                                                                    \
    X(make_file)                                                                                                       \
    X(remove_file)                                                                                                     \
    X(read_parents_memory)                                                                                             \
    X(read_parents_environment)                                                                                        \
    X(make_socket)                                                                                                     \
    X(make_local_socket)                                                                                               \
    X(bind_socket)                                                                                                     \
    X(connect_socket)                                                                                                  \
    X(start_process)                                                                                                   \
    X(start_thread)                                                                                                    \
    X(link_inside)                                                                                                     \
    X(link_secret)                                                                                                     \
    X(change_mode)                                                                                                     \
    X(trace_parent)                                                                                                    \
    X(trace_self)                                                                                                      \
    X(read_parent_by_call)                                                                                             \
    X(signal_parent)                                                                                                   \
    X(signal_parent_thread)                                                                                            \
    X(signal_all)                                                                                                      \
    X(signal_self)                                                                                                     \
    X(limit_parent)                                                                                                    \
    X(mount_folder)                                                                                                    \
    X(leave_namespace)                                                                                                 \
    X(start_in_namespace)                                                                                              \
    X(use_keys)                                                                                                        \
    X(use_bpf)                                                                                                         \
    X(use_perf)                                                                                                        \
    X(use_userfaultfd)                                                                                                 \
    X(use_io_uring)                                                                                                    \
    X(run_memory)                                                                                                      \
    X(use_memory)                                                                                                      \
    X(unknown_call)                                                                                                    \
    X(clone_newer)                                                                                                     \
    X(start_program_by_descriptor)                                                                                     \
    X(start_program) /* the last: it does not come back when it works */

enum {

#define X(name) TRY_##name,
    TRIES(X)
#undef X
        TRY_COUNT
};

static const struct {
    const char *name;
    int (*run)(void);
} ALL[] = {

#define X(name) {#name, name},
    TRIES(X)
#undef X
};

typedef struct outcome {
    int entered; /* what ec_sandbox_enter returned */
    int errors[TRY_COUNT];
    long no_new_privs, seccomp, capabilities;
} outcome;

/* A number of /proc/self/status, which was opened before. */
static long number_in(int fd, const char *name) {
    char text[8192] = {0};
    if (pread(fd, text, sizeof text - 1, 0) < 0)
        return -1;
    const char *at = strstr(text, name);
    return at ? strtol(at + strlen(name), NULL, 16) : -1;
}

/* Tries everything in a child with such a sandbox. */
static void try_all(const char *title, const ec_sandbox *s, outcome *ret) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        outcome o = {.entered = 1};
        ea_err err = {0};
        for (int i = 0; i < TRY_COUNT; i++)
            o.errors[i] = -1; /* not tried */
        close(ends[0]);
        int status = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
        o.entered = ec_sandbox_enter(s, &err);
        o.no_new_privs = number_in(status, "\nNoNewPrivs:\t");
        o.seccomp = number_in(status, "\nSeccomp:\t");
        o.capabilities = number_in(status, "\nCapEff:\t");
        for (int i = 0; i < TRY_COUNT; i++) {
            if (i >= TRY_start_program_by_descriptor) { /* the results are sent before the process image is replaced */
                o.errors[i] = 0;
                (void)!write(ends[1], &o, sizeof o);
            }
            o.errors[i] = ALL[i].run();
        }
        (void)!write(ends[1], &o, sizeof o);
        _exit(0);
    }
    close(ends[1]);
    memset(ret, 0xff, sizeof *ret);
    for (outcome o; read(ends[0], &o, sizeof o) == (ssize_t)sizeof o;)
        *ret = o;
    close(ends[0]);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    for (int i = 0; i < TRY_COUNT; i++)
        print_message("%-9s %-28s %s\n", title, ALL[i].name,
                      ret->errors[i] < 0    ? "not tried"
                      : ret->errors[i] == 0 ? "works"
                                            : strerrorname_np(ret->errors[i]));
    assert_int_equal(ret->entered, 0);
    assert_true(WIFEXITED(status));
}

static void expect(const outcome *o, int which, int error) {
    if (o->errors[which] != error)
        fail_msg("%s: errno %d, expected %d", ALL[which].name, o->errors[which], error);
}

static void expect_all(const outcome *o, const int *which, size_t count, int error) {
    for (size_t i = 0; i < count; i++)
        expect(o, which[i], error);
}

#define EXPECT(o, error, ...)                                                                                          \
    do {                                                                                                               \
        const int list[] = {__VA_ARGS__};                                                                              \
        expect_all(o, list, sizeof list / sizeof list[0], error);                                                      \
    } while (0)

/* Landlock's part of all profiles. */
static void expect_files(const outcome *o) {
    if (support.has[EC_SANDBOX_HAS_FILES])
        EXPECT(o, EACCES, TRY_read_passwd, TRY_read_secret, TRY_write_allowed, TRY_read_parents_memory,
               TRY_read_parents_environment);
    EXPECT(o, 0, TRY_read_allowed, TRY_write_shared);
}

/* What no profile may do. */
static void expect_calls(const outcome *o) {
    assert_int_equal(o->no_new_privs, 1);
    if (!support.has[EC_SANDBOX_HAS_SECCOMP])
        return;
    assert_int_equal(o->capabilities & ~(1L << CAP_DAC_OVERRIDE | 1L << CAP_DAC_READ_SEARCH), 0);
    assert_int_equal(o->seccomp, SECCOMP_MODE_FILTER);
    EXPECT(o, EPERM, TRY_make_local_socket, TRY_bind_socket, TRY_trace_parent, TRY_trace_self, TRY_read_parent_by_call,
           TRY_signal_parent, TRY_signal_parent_thread, TRY_signal_all, TRY_limit_parent, TRY_mount_folder,
           TRY_leave_namespace, TRY_start_in_namespace, TRY_use_keys, TRY_use_bpf, TRY_use_perf, TRY_use_userfaultfd,
           TRY_use_io_uring, TRY_start_program_by_descriptor);
    EXPECT(o, ENOSYS, TRY_unknown_call, TRY_clone_newer);
    EXPECT(o, 0, TRY_use_memory, TRY_signal_self);
}

static const ec_sandbox_path PATHS[] = {{.path = readable, .access = EC_SANDBOX_READ},
                                        {.path = shared, .access = EC_SANDBOX_SHARE},
                                        {.path = "/nowhere/at/all", .access = EC_SANDBOX_READ}};

/* A question: it reads. */
static void a_reader_can_do_nothing_else(void **state) {
    (void)state;
    outcome o;
    try_all("reader", &(ec_sandbox){.paths = PATHS, .path_count = 3}, &o);
    expect_files(&o);
    expect_calls(&o);
    if (support.has[EC_SANDBOX_HAS_FILES])
        EXPECT(&o, EACCES, TRY_make_file);
    if (support.has[EC_SANDBOX_HAS_SECCOMP])
        EXPECT(&o, EPERM, TRY_make_socket, TRY_connect_socket, TRY_start_process, TRY_start_thread, TRY_start_program,
               TRY_run_memory, TRY_link_inside, TRY_link_secret, TRY_change_mode);
}

/* One that changes a store, or makes a backup: it gives files further names, in its folders alone. */
static void one_that_copies_a_store_reaches_nothing_else(void **state) {
    (void)state;
    const ec_sandbox_path paths[] = {PATHS[0], PATHS[1], {.path = folder, .access = EC_SANDBOX_WRITE}};
    outcome o;
    try_all("copier", &(ec_sandbox){.rights = EC_SANDBOX_LINKS | EC_SANDBOX_MODES, .paths = paths, .path_count = 3},
            &o);
    expect_files(&o);
    expect_calls(&o);
    EXPECT(&o, 0, TRY_make_file, TRY_remove_file, TRY_link_inside, TRY_change_mode);
    if (support.has[EC_SANDBOX_HAS_FILES])
        assert_true(o.errors[TRY_link_secret] == EXDEV || o.errors[TRY_link_secret] == EACCES);
    if (support.has[EC_SANDBOX_HAS_SECCOMP])
        EXPECT(&o, EPERM, TRY_make_socket, TRY_connect_socket, TRY_start_process, TRY_start_thread, TRY_start_program,
               TRY_run_memory);
}

/* One that reads a trace with several threads: it starts no process. */
static void one_with_threads_starts_no_process(void **state) {
    (void)state;
    outcome o;
    try_all("threads", &(ec_sandbox){.rights = EC_SANDBOX_THREADS, .paths = PATHS, .path_count = 3}, &o);
    expect_files(&o);
    expect_calls(&o);
    EXPECT(&o, 0, TRY_start_thread);
    if (support.has[EC_SANDBOX_HAS_SECCOMP])
        EXPECT(&o, EPERM, TRY_make_socket, TRY_connect_socket, TRY_start_process, TRY_start_program, TRY_run_memory);
}

/* One that fetches symbols: it writes to its cache and connects. */
static void one_with_network_starts_no_program(void **state) {
    (void)state;
    const ec_sandbox_path paths[] = {PATHS[0], PATHS[1], {.path = folder, .access = EC_SANDBOX_WRITE}};
    outcome o;
    try_all("network",
            &(ec_sandbox){.rights = EC_SANDBOX_NETWORK | EC_SANDBOX_LIBRARIES, .paths = paths, .path_count = 3}, &o);
    expect_files(&o);
    expect_calls(&o);
    EXPECT(&o, 0, TRY_make_file, TRY_remove_file, TRY_make_socket, TRY_run_memory, TRY_start_process);
    EXPECT(&o, ENOTSOCK, TRY_connect_socket);
    if (support.has[EC_SANDBOX_HAS_SECCOMP])
        EXPECT(&o, EPERM, TRY_start_program);
}

/* One that has loaded the code of a token or a TPM: it connects, and starts nothing. */
static void a_provider_starts_no_program(void **state) {
    (void)state;
    const ec_sandbox_path paths[] = {PATHS[0], PATHS[1], {.path = folder, .access = EC_SANDBOX_WRITE}};
    outcome o;
    for (int i = 0; i < 2; i++) {
        unsigned files = i ? EC_SANDBOX_ALL_FILES : 0;
        try_all("provider",
                &(ec_sandbox){.rights = EC_SANDBOX_PROVIDER | files, .paths = paths, .path_count = files ? 0 : 3}, &o);
        if (!files)
            expect_files(&o);
        else
            EXPECT(&o, 0, TRY_read_passwd);
        EXPECT(&o, 0, TRY_make_file, TRY_remove_file, TRY_make_socket, TRY_make_local_socket, TRY_run_memory,
               TRY_start_thread, TRY_use_memory, TRY_signal_self);
        EXPECT(&o, ENOTSOCK, TRY_connect_socket);
        assert_int_equal(o.no_new_privs, 1);
        if (!support.has[EC_SANDBOX_HAS_SECCOMP])
            continue;
        assert_int_equal(o.seccomp, SECCOMP_MODE_FILTER);
        EXPECT(&o, EPERM, TRY_bind_socket, TRY_start_process, TRY_start_program, TRY_start_program_by_descriptor,
               TRY_trace_parent, TRY_trace_self, TRY_read_parent_by_call, TRY_signal_parent, TRY_signal_parent_thread,
               TRY_signal_all, TRY_limit_parent, TRY_mount_folder, TRY_leave_namespace, TRY_start_in_namespace,
               TRY_use_keys, TRY_use_bpf, TRY_use_perf, TRY_use_userfaultfd, TRY_use_io_uring);
        EXPECT(&o, ENOSYS, TRY_unknown_call, TRY_clone_newer);
    }
}

/* One that starts a program from a folder: none from elsewhere, no network. */
static void one_with_programs_has_no_network(void **state) {
    (void)state;
    ec_sandbox_path paths[] = {PATHS[0], PATHS[1], {.path = "/lib", .access = EC_SANDBOX_EXECUTE}};
    outcome o;
    ec_sandbox s = {.rights = EC_SANDBOX_PROGRAMS, .paths = paths, .path_count = 2};
    try_all("programs", &s, &o);
    expect_files(&o);
    expect_calls(&o);
    EXPECT(&o, 0, TRY_start_process, TRY_run_memory);
    if (support.has[EC_SANDBOX_HAS_SECCOMP])
        EXPECT(&o, EPERM, TRY_make_socket, TRY_connect_socket);
    if (support.has[EC_SANDBOX_HAS_FILES])
        EXPECT(&o, EACCES, TRY_make_file, TRY_start_program);
    const ec_sandbox_path usr[] = {{.path = "/usr", .access = EC_SANDBOX_EXECUTE},
                                   {.path = "/lib", .access = EC_SANDBOX_EXECUTE},
                                   {.path = "/lib64", .access = EC_SANDBOX_EXECUTE},
                                   {.path = "/bin", .access = EC_SANDBOX_EXECUTE}};
    try_all("system", &(ec_sandbox){.rights = EC_SANDBOX_PROGRAMS, .paths = usr, .path_count = 4}, &o);
    if (support.has[EC_SANDBOX_HAS_SECCOMP]) /* without it the try before became that program */
        EXPECT(&o, 0, TRY_start_program);
}

/* The sandbox of a child of a child: a program whose parent has one already can have less. */
static void a_sandbox_inside_another_takes_more_away(void **state) {
    (void)state;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        ea_err err = {0};
        const ec_sandbox outer = {.rights = EC_SANDBOX_PROGRAMS, .paths = PATHS, .path_count = 2};
        const ec_sandbox inner = {.rights = EC_SANDBOX_PROGRAMS, .paths = PATHS + 1, .path_count = 1};
        if (ec_sandbox_enter(&outer, &err) || read_allowed() != 0)
            _exit(1);
        pid_t child = fork();
        if (child == 0)
            _exit(ec_sandbox_enter(&inner, &err) ? 2 : write_shared() ? 3 : read_allowed() != EACCES ? 4 : 0);
        int status = 0;
        _exit(waitpid(child, &status, 0) != child || !WIFEXITED(status) ? 5 : WEXITSTATUS(status));
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (support.has[EC_SANDBOX_HAS_FILES])
        assert_int_equal(WEXITSTATUS(status), 0);
}

/* A part that the kernel has, and that cannot be applied, is an error: the process ends rather than go on without. */
static void a_sandbox_that_cannot_be_entered_is_an_error(void **state) {
    (void)state;
    if (!support.has[EC_SANDBOX_HAS_FILES])
        skip();
    ea_err err = {0};
    const ec_sandbox_path closed[] = {{.fd = 1000000, .access = EC_SANDBOX_READ}};
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int rc = ec_sandbox_enter(&(ec_sandbox){.paths = closed, .path_count = 1}, &err);
        _exit(rc == EA_EIO && strstr(err.message, "enter the sandbox: allow a file") ? 0 : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void missing_parts_are_reported(void **state) {
    (void)state;
    ea_text t;
    ec_sandbox_support s = support;
    ea_text_init(&t);
    ec_sandbox_describe(&s, &t);
    print_message("%s\n", t.data);
    for (int i = 0; i < EC_SANDBOX_PART_COUNT; i++)
        s.has[i] = i == EC_SANDBOX_HAS_NO_NEW_PRIVS;
    s.why = "reason";
    ea_text_clear(&t);
    ec_sandbox_describe(&s, &t);
    assert_non_null(strstr(t.data, "no_new_privs"));
    const char *missing = strstr(t.data, "; missing: ");
    assert_non_null(missing);
    for (int i = 1; i < EC_SANDBOX_PART_COUNT; i++)
        assert_non_null(strstr(missing, ec_sandbox_part_name((enum ec_sandbox_part)i)));
    assert_string_equal(t.data + t.len_bytes - strlen(": reason"), ": reason");
    ea_text_deinit(&t);
}

static void write_file(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fclose(f), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reader_can_do_nothing_else),
        cmocka_unit_test(one_that_copies_a_store_reaches_nothing_else),
        cmocka_unit_test(one_with_threads_starts_no_process),
        cmocka_unit_test(one_with_network_starts_no_program),
        cmocka_unit_test(a_provider_starts_no_program),
        cmocka_unit_test(one_with_programs_has_no_network),
        cmocka_unit_test(a_sandbox_inside_another_takes_more_away),
        cmocka_unit_test(a_sandbox_that_cannot_be_entered_is_an_error),
        cmocka_unit_test(missing_parts_are_reported),
    };
    if (scratch_make(NULL))
        return 1;
    snprintf(readable, sizeof readable, "%s", scratch_path("readable"));
    snprintf(secret, sizeof secret, "%s", scratch_path("secret"));
    snprintf(shared, sizeof shared, "%s", scratch_path("shared"));
    snprintf(folder, sizeof folder, "%s", scratch_path("folder"));
    write_file(readable);
    write_file(secret);
    write_file(shared);
    if (mkdir(folder, 0700) && errno != EEXIST)
        return 1;
    write_file(scratch_path("folder/old"));
    ec_sandbox_probe(&support);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return scratch_clear(NULL) || failed;
}
