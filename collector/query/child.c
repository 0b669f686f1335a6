/* See child.h. */
#include "child.h"

#include "platform.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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

int ec_child_start(const char *name, pid_t *ret_pid, int *ret_in, int *ret_out, ea_err *err) {
    int in[2] = {-1, -1}, out[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char program[] = "etwcollector", argument[64];
    char *const argv[] = {program, argument, NULL};
    snprintf(argument, sizeof argument, "%s", name);
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC)) {
        int os_error = errno;
        for (int i = 0; i < 2; i++) {
            if (in[i] >= 0)
                close(in[i]);
            if (out[i] >= 0)
                close(out[i]);
        }
        return ea_fail_os(err, EA_EIO, os_error, "start a process for a question");
    }
    sigemptyset(&none);
    sigfillset(&all);
    int code = posix_spawn_file_actions_init(&actions);
    if (!code)
        code = posix_spawnattr_init(&attributes);
    if (!code) {
        (void)posix_spawnattr_setsigmask(&attributes, &none);
        (void)posix_spawnattr_setsigdefault(&attributes, &all);
        (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        code = posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
        if (!code)
            code = posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
        if (!code)
            code = posix_spawn(ret_pid, "/proc/self/exe", &actions, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
    }
    close(in[0]);
    close(out[1]);
    if (code) {
        close(in[1]);
        close(out[0]);
        return ea_fail_os(err, EA_EIO, code, "start a process for a question");
    }
    *ret_in = in[1];
    *ret_out = out[0];
    return 0;
}

static void limit_one(int which, uint64_t value) {
    struct rlimit l = {.rlim_cur = value, .rlim_max = value};
    (void)setrlimit((__rlimit_resource_t)which, &l);
}

void ec_child_limit(uint64_t parent, uint64_t cpu_s, uint64_t limit_bytes) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((uint64_t)getppid() != parent) /* it ended before, and sends no signal any more */
        _exit(0);
    (void)signal(SIGINT, SIG_IGN); /* the terminal sends it to parent and child; the parent decides */
    (void)signal(SIGPIPE, SIG_IGN);
    limit_one(RLIMIT_CORE, 0);
    limit_one(RLIMIT_CPU, cpu_s ? cpu_s : RLIM_INFINITY);
#if defined(HAS_SHADOW_MEMORY)
    (void)limit_bytes;
#else
    if (!limit_bytes)
        return;
    char *text = NULL;
    size_t len_bytes = 0;
    uint64_t pages = 0;
    ea_err ignored;
    if (ea_path_read_all("/proc/self/statm", 4096, &text, &len_bytes, &ignored) == 0) {
        text[strcspn(text, " ")] = 0;
        (void)!ea_u64_parse(text, &pages);
    }
    free(text);
    uint64_t base = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    limit_one(RLIMIT_AS, limit_bytes > UINT64_MAX - base ? RLIM_INFINITY : base + limit_bytes);
#endif
}
