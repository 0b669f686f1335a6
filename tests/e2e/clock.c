/* A preload library that makes a program's clocks run faster than real time and makes its wall clock jump. Waits of the
 * program get shorter by the same factor. The settings are environment variables:
 *
 *   EA_CLOCK_SPEED  seconds of the program in a second of real time; 1 when it is absent
 *   EA_CLOCK_JUMPS  SECONDS:BY;...: when the program has run for SECONDS of its own seconds, its wall clock jumps by BY
 * seconds (negative: back); the monotonic clock does not jump
 *   EA_CLOCK_FILE   a file of eight bytes, a signed number of seconds: the wall clock is ahead by this number. A test
 * may change the number at any time, so a jump can follow another event of the test
 *
 * Called by: programs that the tests start with LD_PRELOAD. Calls: the kernel and the C library. Thread: any; the
 * settings are written once before main and only read later. Not for programs with a sanitizer's runtime, which
 * intercepts the same calls. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { MAX_JUMPS = 64 };

static const int64_t SECOND_NS = 1000000000;

typedef int (*timed_wait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

static struct {
    double speed;
    int64_t mono_ns, wall_ns; /* when it was loaded */

    struct {
        double at_s, by_s;
    } jumps[MAX_JUMPS];

    size_t jump_count;
    const _Atomic int64_t *ahead_s; /* of the file; NULL: there is none */
    timed_wait wait;
} setting;

static int64_t real_ns(clockid_t id) {
    struct timespec ts = {0};
    syscall(SYS_clock_gettime, id, &ts);
    return ts.tv_sec * SECOND_NS + ts.tv_nsec;
}

static struct timespec to_timespec(int64_t ns) {
    int64_t s = ns / SECOND_NS, rest = ns % SECOND_NS;
    if (rest < 0) {
        s--;
        rest += SECOND_NS;
    }
    return (struct timespec){.tv_sec = s, .tv_nsec = rest};
}

/* Maps the file's number; 0 when it cannot be read. */
static int map_file(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *at = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *setting.ahead_s, PROT_READ, MAP_SHARED, fd, 0);
    if (fd >= 0)
        close(fd);
    setting.ahead_s = at == MAP_FAILED ? NULL : at;
    return at != MAP_FAILED;
}

__attribute__((constructor)) static void load(void) {
    const char *speed = getenv("EA_CLOCK_SPEED"), *jumps = getenv("EA_CLOCK_JUMPS"), *file = getenv("EA_CLOCK_FILE");
    char *end;
    setting.speed = speed ? strtod(speed, NULL) : 1;
    setting.mono_ns = real_ns(CLOCK_MONOTONIC);
    setting.wall_ns = real_ns(CLOCK_REALTIME);
    while (jumps && *jumps && setting.jump_count < MAX_JUMPS) {
        setting.jumps[setting.jump_count].at_s = strtod(jumps, &end);
        if (*end != ':')
            break;
        setting.jumps[setting.jump_count++].by_s = strtod(end + 1, &end);
        jumps = *end == ';' ? end + 1 : end;
    }
    void *found = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    memcpy(&setting.wait, &found, sizeof found);
    if (!(setting.speed > 0) || !setting.wait || (file && !map_file(file))) {
        static const char TEXT[] = "clock: EA_CLOCK_SPEED or EA_CLOCK_FILE cannot be used\n";
        if (write(STDERR_FILENO, TEXT, sizeof TEXT - 1) < 0)
            _exit(126);
        _exit(125);
    }
}

/* How long the program has run, in its own time. */
static int64_t run_ns(void) {
    return (int64_t)((double)(real_ns(CLOCK_MONOTONIC) - setting.mono_ns) * setting.speed);
}

/* A time of the program's as the world's, for so long. */
static int64_t shorter_ns(int64_t ns) {
    return (int64_t)((double)ns / setting.speed);
}

static int64_t wall_ns(void) {
    int64_t ran = run_ns(), now = setting.wall_ns + ran;
    for (size_t i = 0; i < setting.jump_count; i++)
        if ((double)ran >= setting.jumps[i].at_s * 1e9)
            now += (int64_t)(setting.jumps[i].by_s * 1e9);
    return setting.ahead_s ? now + atomic_load(setting.ahead_s) * SECOND_NS : now;
}

int clock_gettime(clockid_t id, struct timespec *ts) {
    if (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)
        *ts = to_timespec(wall_ns());
    else if (id == CLOCK_MONOTONIC || id == CLOCK_MONOTONIC_COARSE || id == CLOCK_MONOTONIC_RAW || id == CLOCK_BOOTTIME)
        *ts = to_timespec(setting.mono_ns + run_ns());
    else
        return (int)syscall(SYS_clock_gettime, id, ts);
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone) {
    struct timespec ts = to_timespec(wall_ns());
    (void)zone;
    *tv = (struct timeval){.tv_sec = ts.tv_sec, .tv_usec = ts.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *ret) {
    time_t now = (time_t)(wall_ns() / SECOND_NS);
    if (ret)
        *ret = now;
    return now;
}

int nanosleep(const struct timespec *want, struct timespec *left) {
    struct timespec real = to_timespec(shorter_ns(want->tv_sec * SECOND_NS + want->tv_nsec)), rest = {0};
    if (syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &real, &rest) == 0)
        return 0;
    if (left)
        *left = to_timespec((int64_t)((double)(rest.tv_sec * SECOND_NS + rest.tv_nsec) * setting.speed));
    return -1;
}

int usleep(useconds_t us) {
    struct timespec ts = to_timespec((int64_t)us * 1000);
    return nanosleep(&ts, NULL);
}

int poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    struct timespec ts;
    if (timeout_ms > 0)
        ts = to_timespec(shorter_ns((int64_t)timeout_ms * 1000000));
    else
        ts = (struct timespec){0};
    return (int)syscall(SYS_ppoll, fds, count, timeout_ms < 0 ? NULL : &ts, NULL, 0);
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict until) {
    /* of the monotonic clock, as all that wait here are; one that waits by the wall clock would name a time that is far
     * away from it */
    int64_t at = until->tv_sec * SECOND_NS + until->tv_nsec;
    int64_t left = at - (setting.mono_ns + run_ns()), by_wall = at - wall_ns();
    int is_wall = (left < 0 ? -left : left) > (by_wall < 0 ? -by_wall : by_wall);
    int64_t base = real_ns(is_wall ? CLOCK_REALTIME : CLOCK_MONOTONIC);
    struct timespec real = to_timespec(base + shorter_ns(is_wall ? by_wall : left));
    return setting.wait(cond, mutex, &real);
}
