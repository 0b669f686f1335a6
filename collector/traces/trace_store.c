/* See trace_store.h. */
#include "collector/traces/trace_store.h"

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN_FOLDERS = 16 };

static volatile sig_atomic_t running; /* the process that is waited for */

int ec_trace_store_make(char ret[EC_TRACE_STORE_BYTES], ea_err *err) {
    const char *base = getenv("TMPDIR");
    if (!base || *base != '/')
        base = "/tmp";
    int n = snprintf(ret, EC_TRACE_STORE_BYTES, "%s/etwcollector-XXXXXX", base);
    if (n < 0 || n >= EC_TRACE_STORE_BYTES)
        return ea_fail(err, EA_ELIMIT, "TMPDIR: the path is too long");
    return mkdtemp(ret) ? 0 : ea_fail_os(err, EA_EIO, errno, "make a folder in %s", base);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *place) {
    (void)st, (void)type, (void)place;
    ea_err err;
    if (remove(path)) {
        (void)ea_fail_os(&err, EA_EIO, errno, "remove %s", path);
        ea_err_print(stderr, "etwcollector", &err);
    }
    return 0;
}

void ec_trace_store_remove(const char *dir) {
    (void)nftw(dir, remove_one, OPEN_FOLDERS, FTW_DEPTH | FTW_PHYS);
}

/* What a terminal sends has reached that process already. */
static void pass_on(int signal_number, siginfo_t *info, void *unused) {
    (void)unused;
    if (running > 0 && info->si_code != SI_KERNEL)
        (void)kill((pid_t)running, signal_number);
}

int ec_trace_store_apart(int (*fn)(void *arg), void *arg, int *ret_code, ea_err *err) {
    static const int PASSED[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_sigaction = pass_on, .sa_flags = SA_SIGINFO}, before[sizeof PASSED / sizeof *PASSED];
    pid_t own = getpid();
    sigset_t passed, mask;
    int status = 0;
    (void)fflush(NULL);
    (void)sigemptyset(&passed);
    for (size_t i = 0; i < sizeof PASSED / sizeof *PASSED; i++)
        (void)sigaddset(&passed, PASSED[i]);
    (void)sigprocmask(SIG_BLOCK, &passed, &mask); /* until one of them ends that process, and not this one alone */
    pid_t pid = fork();
    if (pid == 0) {
        (void)sigprocmask(SIG_SETMASK, &mask, NULL);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != own)
            _exit(1);
        int code = fn(arg);
        (void)fflush(NULL);
        _exit(code);
    }
    if (pid < 0) {
        int code = errno;
        (void)sigprocmask(SIG_SETMASK, &mask, NULL);
        return ea_fail_os(err, EA_EIO, code, "start a process");
    }
    running = pid;
    for (size_t i = 0; i < sizeof PASSED / sizeof *PASSED; i++)
        (void)sigaction(PASSED[i], &action, &before[i]);
    (void)sigprocmask(SIG_SETMASK, &mask, NULL);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    running = 0;
    for (size_t i = 0; i < sizeof PASSED / sizeof *PASSED; i++)
        (void)sigaction(PASSED[i], &before[i], NULL);
    *ret_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return 0;
}
