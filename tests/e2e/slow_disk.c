/* A disk that hangs: a preload library that delays each read at an offset of certain files (pread), or each lookup of
 * such a file by its name (stat), which is Wine's first step to open a file. The settings are environment variables:
 *
 *   EA_SLOW_FILE     the end of the files' names
 *   EA_SLOW_MS       how long a read takes, in milliseconds
 *   EA_SLOW_OPEN_MS  how long a lookup takes, in milliseconds
 *
 * Called by: programs that tests/windows/test_images.py starts with LD_PRELOAD. Calls: the kernel. Thread: any; it
 * keeps no state. */
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
