/* See child.h. */
#include "collector/sandbox/child.h"

#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HAS_SHADOW_MEMORY 1 /* a sanitizer, which takes the address space for itself */
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef HAS_SHADOW_MEMORY
#define HAS_SHADOW_MEMORY 1
#endif

enum {
    NICE = 5,
    OOM_SCORE = 500, /* of 1,000: far above the daemon's 0 */
    VARIABLES_MAX = 32,
    EXTRA_FD_MIN = 32, /* above those that the child's are made at */
};

/* "NAME=value" out of this environment; NULL: it is not there. */
static char *find_variable(const char *name) {
    size_t n = strlen(name);
    for (char **at = environ; *at; at++)
        if (strncmp(*at, name, n) == 0 && (*at)[n] == '=')
            return *at;
    return NULL;
}

/* The child's environment, in `out`; its strings live as long as the program. */
static void make_environment(const char *const *variables, char **out) {
    static char locale[] = "LC_ALL=C", zone[] = "TZ=:/etc/localtime";
    static const char *const SANITIZERS[] = {"ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS", NULL};
    const char *const *const lists[] = {variables, SANITIZERS};
    char *at = find_variable("TZ");
    size_t count = 0;
    out[count++] = locale;
    out[count++] = at ? at : zone;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
        for (const char *const *name = lists[i]; name && *name; name++)
            if (count < VARIABLES_MAX && (at = find_variable(*name)))
                out[count++] = at;
    out[count] = NULL;
}

/* What is done between fork and exec. extra: both descriptors, above those that they become. */
static int add_actions(posix_spawn_file_actions_t *actions, int in, int out, const int *extra) {
    int code = posix_spawn_file_actions_adddup2(actions, in, STDIN_FILENO);
    if (!code)
        code = posix_spawn_file_actions_adddup2(actions, out, STDOUT_FILENO);
    if (!code && extra)
        code = posix_spawn_file_actions_adddup2(actions, extra[0], EC_CHILD_EXTRA_IN);
    if (!code && extra)
        code = posix_spawn_file_actions_adddup2(actions, extra[1], EC_CHILD_EXTRA_OUT);
    if (!code)
        code = posix_spawn_file_actions_addclosefrom_np(actions, extra ? EC_CHILD_EXTRA_OUT + 1 : EC_CHILD_EXTRA_IN);
    return code;
}

static int child_spawn(const ec_child_options *options, int in, int out, const int *extra, pid_t *ret_pid) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char program[] = "etwcollector", argument[64], *environment[VARIABLES_MAX + 1];
    char *const argv[] = {program, argument, NULL};
    snprintf(argument, sizeof argument, "%s", options->name);
    make_environment(options->variables, environment);
    sigemptyset(&none);
    sigfillset(&all);
    int code = posix_spawn_file_actions_init(&actions);
    if (code)
        return code;
    code = posix_spawnattr_init(&attributes);
    if (!code) {
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &all);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        code = add_actions(&actions, in, out, extra);
        if (!code)
            code = posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, argv, environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return code;
}

static void close_two(const int *fds) {
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

int ec_child_start(const ec_child_options *options, pid_t *ret_pid, int *ret_in, int *ret_out, ea_err *err) {
    int in[2] = {-1, -1}, out[2] = {-1, -1}, extra[2] = {-1, -1}, code = 0;
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC))
        code = errno;
    if (!code && options->has_extra) {
        extra[0] = fcntl(options->extra_in, F_DUPFD_CLOEXEC, EXTRA_FD_MIN);
        extra[1] = fcntl(options->extra_out, F_DUPFD_CLOEXEC, EXTRA_FD_MIN);
        code = extra[0] < 0 || extra[1] < 0 ? errno : 0;
    }
    if (!code)
        code = child_spawn(options, in[0], out[1], options->has_extra ? extra : NULL, ret_pid);
    close_two(extra);
    if (code) {
        close_two(in);
        close_two(out);
        return ea_fail_os(err, EA_EIO, code, "start the process %s", options->name);
    }
    close(in[0]);
    close(out[1]);
    *ret_in = in[1];
    *ret_out = out[0];
    return 0;
}

static void child_limit_one(int which, uint64_t value) {
    struct rlimit l = {.rlim_cur = value, .rlim_max = value};
    (void)setrlimit((__rlimit_resource_t)which, &l);
}

void ec_child_follow(uint64_t parent) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((uint64_t)getppid() != parent) /* it ended before, and sends no signal any more */
        _exit(0);
    (void)signal(SIGINT, SIG_IGN); /* the terminal sends it to parent and child; the parent decides */
    (void)signal(SIGPIPE, SIG_IGN);
}

int ec_child_set_score(pid_t pid) {
    char score[16], path[64];
    int score_bytes = snprintf(score, sizeof score, "%d", OOM_SCORE), os_error = 0;
    snprintf(path, sizeof path, "/proc/%ld/oom_score_adj", (long)pid);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, score, (size_t)score_bytes) != score_bytes)
        os_error = errno;
    if (fd >= 0)
        close(fd);
    return os_error;
}

void ec_child_limit(uint64_t parent, uint64_t cpu_s, uint64_t limit_bytes) {
    ec_child_follow(parent);
    (void)ec_child_set_score(getpid());
    EA_IGNORE(nice(NICE));
    child_limit_one(RLIMIT_CORE, 0);
    child_limit_one(RLIMIT_CPU, cpu_s ? cpu_s : RLIM_INFINITY);
    if (limit_bytes)
        ec_child_limit_memory(limit_bytes);
}

void ec_child_limit_memory(uint64_t limit_bytes) {
#if defined(HAS_SHADOW_MEMORY)
    (void)limit_bytes;
#else
    char *text = NULL;
    size_t len_bytes = 0;
    uint64_t pages = 0;
    ea_err ignored;
    if (ea_path_read_all("/proc/self/statm", 4096, &text, &len_bytes, &ignored) == 0) {
        text[strcspn(text, " ")] = 0;
        EA_IGNORE(ea_u64_parse(text, &pages));
    }
    free(text);
    uint64_t base = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    child_limit_one(RLIMIT_AS, limit_bytes > UINT64_MAX - base ? RLIM_INFINITY : base + limit_bytes);
#endif
}

int64_t ec_child_wait(pid_t pid, int *ret_status) {
    struct rusage used = {0};
    while (wait4(pid, ret_status, 0, &used) < 0 && errno == EINTR)
        ;
    int64_t s = (int64_t)used.ru_utime.tv_sec + used.ru_stime.tv_sec,
            us = (int64_t)used.ru_utime.tv_usec + used.ru_stime.tv_usec;
    return s * 1000000000 + us * 1000;
}
