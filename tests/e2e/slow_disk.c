/* A disk that hangs: a preload library under which each read at a place of certain files takes long. Told in the
 * environment:
 *
 *   EA_SLOW_FILE  what the files' names end with
 *   EA_SLOW_MS    how long a read takes
 *
 * Before it: tests/windows/test_images.py, which sets LD_PRELOAD. After it: the kernel. Thread: any; it keeps nothing.
 */
#undef _FORTIFY_SOURCE /* under which the headers define these functions themselves */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

static int is_slow(int fd) {
    const char *end = getenv("EA_SLOW_FILE");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = end ? readlink(link, path, sizeof path) : -1;
    size_t length = n > 0 ? strlen(end) : 0;
    return length && (size_t)n >= length && memcmp(path + (size_t)n - length, end, length) == 0;
}

static ssize_t read_at(int fd, void *out, size_t bytes, int64_t at) {
    const char *text = getenv("EA_SLOW_MS");
    long ms = text && is_slow(fd) ? strtol(text, NULL, 10) : 0;
    struct timespec rest = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (ms && nanosleep(&rest, &rest)) { /* a signal is no end of it, as with a disk */
    }
    return syscall(SYS_pread64, fd, out, bytes, at);
}

ssize_t pread(int fd, void *out, size_t bytes, off_t at) {
    return read_at(fd, out, bytes, at);
}

ssize_t pread64(int fd, void *out, size_t bytes, off_t at) {
    return read_at(fd, out, bytes, at);
}
