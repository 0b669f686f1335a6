/* A disk that hangs: a preload library under which each read at a place of certain files takes long, or each look for
 * one by its name, which is how Wine begins to open it. Told in the environment:
 *
 *   EA_SLOW_FILE     what the files' names end with
 *   EA_SLOW_MS       how long a read takes
 *   EA_SLOW_OPEN_MS  how long a look for it takes
 *
 * Before it: tests/windows/test_images.py, which sets LD_PRELOAD. After it: the kernel. Thread: any; it keeps nothing.
 */
#undef _FORTIFY_SOURCE /* under which the headers define these functions themselves */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int is_slow(const char *path, size_t n) {
    const char *end = getenv("EA_SLOW_FILE");
    size_t length = end ? strlen(end) : 0;
    return length && n >= length && memcmp(path + n - length, end, length) == 0;
}

static int is_slow_file(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path);
    return n > 0 && is_slow(path, (size_t)n);
}

/* As long as the variable says. */
static void hang(const char *variable) {
    const char *text = getenv(variable);
    long ms = text ? strtol(text, NULL, 10) : 0;
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (ms && nanosleep(&rest, &rest)) { /* a signal is no end of it, as with a disk */
    }
}

static ssize_t read_at(int fd, void *out, size_t bytes, int64_t at) {
    if (is_slow_file(fd))
        hang("EA_SLOW_MS");
    return syscall(SYS_pread64, fd, out, bytes, at);
}

ssize_t pread(int fd, void *out, size_t bytes, off_t at) {
    return read_at(fd, out, bytes, at);
}

ssize_t pread64(int fd, void *out, size_t bytes, off_t at) {
    return read_at(fd, out, bytes, at);
}

int stat(const char *restrict path, struct stat *restrict ret) {
    if (is_slow(path, strlen(path)))
        hang("EA_SLOW_OPEN_MS");
    return fstatat(AT_FDCWD, path, ret, 0);
}
