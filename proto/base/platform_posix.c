/* The POSIX half of platform.h. */
#if !defined(_WIN32)
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct ea_thread {
    pthread_t handle;
    void (*fn)(void *);
    void *arg;
    char name[16];
};

struct ea_mutex {
    pthread_mutex_t handle;
};

struct ea_cond {
    pthread_cond_t handle;
};

struct ea_wake {
    sem_t set;
};

struct ea_file {
    int fd;
    char *path;
};

static void *thread_main(void *arg) {
    ea_thread *t = arg;
    pthread_setname_np(pthread_self(), t->name);
    t->fn(t->arg);
    return NULL;
}

int ea_thread_start(ea_thread **ret, const char *name, void (*fn)(void *), void *arg, ea_err *err) {
    ea_thread *t = calloc(1, sizeof *t);
    if (!t)
        return ea_fail(err, EA_ENOMEM, "start thread %s", name);
    t->fn = fn;
    t->arg = arg;
    snprintf(t->name, sizeof t->name, "%s", name);
    int rc = pthread_create(&t->handle, NULL, thread_main, t);
    if (rc) {
        free(t);
        return ea_fail_os(err, EA_EIO, rc, "start thread %s", name);
    }
    *ret = t;
    return 0;
}

void ea_thread_join(ea_thread *thread) {
    if (!thread)
        return;
    pthread_join(thread->handle, NULL);
    free(thread);
}

void ea_thread_leave(ea_thread *thread) {
    pthread_detach(thread->handle);
    free(thread);
}

void ea_thread_lower(enum ea_bulk_priority priority) {
    enum { WHO_THREAD = 1, CLASS_SHIFT = 13, BEST_EFFORT = 2, IDLE = 3, LAST = 7 }; /* linux/ioprio.h */

    long thread = syscall(SYS_gettid);
    int background = priority == EA_BULK_BACKGROUND;
    /* Linux counts niceness and the disk's class by thread; a refusal leaves it as it is */
    (void)setpriority(PRIO_PROCESS, (id_t)thread, getpriority(PRIO_PROCESS, (id_t)thread) + (background ? 19 : 5));
    (void)syscall(SYS_ioprio_set, WHO_THREAD, thread,
                  background ? IDLE << CLASS_SHIFT : BEST_EFFORT << CLASS_SHIFT | LAST);
}

void ea_thread_background(int on) {
    if (on)
        ea_thread_lower(EA_BULK_BACKGROUND);
}

int ea_mutex_create(ea_mutex **ret, ea_err *err) {
    ea_mutex *m = calloc(1, sizeof *m);
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
#if defined(EA_ASSERTIONS)
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK); /* knows its owner */
#endif
    int rc = m ? pthread_mutex_init(&m->handle, &attr) : ENOMEM;
    pthread_mutexattr_destroy(&attr);
    if (rc) {
        free(m);
        return ea_fail(err, EA_ENOMEM, "create a mutex");
    }
    *ret = m;
    return 0;
}

void ea_mutex_destroy(ea_mutex *m) {
    if (!m)
        return;
    pthread_mutex_destroy(&m->handle);
    free(m);
}

void ea_mutex_lock(ea_mutex *m) EA_NO_THREAD_SAFETY_ANALYSIS {
    int rc = pthread_mutex_lock(&m->handle);
    EA_ASSERT(rc == 0);
    (void)rc;
}

void ea_mutex_unlock(ea_mutex *m) EA_NO_THREAD_SAFETY_ANALYSIS {
    int rc = pthread_mutex_unlock(&m->handle);
    EA_ASSERT(rc == 0);
    (void)rc;
}

#if defined(EA_ASSERTIONS)
void ea_mutex_assert_held(ea_mutex *m) EA_NO_THREAD_SAFETY_ANALYSIS {
    int rc = pthread_mutex_lock(&m->handle);
    EA_ASSERT(rc == EDEADLK);
    (void)rc;
}
#endif

int ea_cond_create(ea_cond **ret, ea_err *err) {
    ea_cond *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, "create a condition variable");
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    int rc = pthread_cond_init(&c->handle, &attr);
    pthread_condattr_destroy(&attr);
    if (rc) {
        free(c);
        return ea_fail_os(err, EA_ENOMEM, rc, "create a condition variable");
    }
    *ret = c;
    return 0;
}

void ea_cond_destroy(ea_cond *c) {
    if (!c)
        return;
    pthread_cond_destroy(&c->handle);
    free(c);
}

void ea_cond_wait(ea_cond *c, ea_mutex *m) {
    pthread_cond_wait(&c->handle, &m->handle);
}

int ea_cond_wait_for(ea_cond *c, ea_mutex *m, int64_t timeout_ns) {
    int64_t at = ea_monotonic_ns() + (timeout_ns > 0 ? timeout_ns : 0);
    struct timespec ts = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    return pthread_cond_timedwait(&c->handle, &m->handle, &ts) == 0 ? 0 : EA_ETIMEOUT;
}

void ea_cond_signal(ea_cond *c) {
    pthread_cond_signal(&c->handle);
}

void ea_cond_broadcast(ea_cond *c) {
    pthread_cond_broadcast(&c->handle);
}

int ea_wake_create(ea_wake **ret, ea_err *err) {
    ea_wake *w = calloc(1, sizeof *w);
    if (!w || sem_init(&w->set, 0, 0)) {
        free(w);
        return ea_fail(err, EA_ENOMEM, "create a semaphore");
    }
    *ret = w;
    return 0;
}

void ea_wake_destroy(ea_wake *w) {
    if (w)
        sem_destroy(&w->set);
    free(w);
}

void ea_wake_set(ea_wake *w) { /* sem_post is async-signal-safe (POSIX) */
    if (w)
        sem_post(&w->set);
}

void ea_wake_wait(ea_wake *w, int64_t timeout_ns) {
    int64_t at = ea_monotonic_ns() + (timeout_ns > 0 ? timeout_ns : 0);
    struct timespec ts = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    while (sem_clockwait(&w->set, CLOCK_MONOTONIC, &ts) == -1 && errno == EINTR)
        ;
    while (sem_trywait(&w->set) == 0) /* set several times: one wake */
        ;
}

static int64_t clock_ns(clockid_t id) {
    struct timespec ts;
    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

int64_t ea_monotonic_ns(void) {
    return clock_ns(CLOCK_MONOTONIC);
}

int64_t ea_utc_ns(void) {
    return clock_ns(CLOCK_REALTIME);
}

int64_t ea_process_cpu_ns(void) {
    return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

int64_t ea_thread_cpu_ns(void) {
    return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

void ea_sleep_ns(int64_t ns) {
    struct timespec ts = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (ns > 0 && nanosleep(&ts, &ts) == -1 && errno == EINTR)
        ;
}

void *ea_large_alloc(size_t size_bytes) {
    void *p = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
#ifdef MADV_HUGEPAGE
    (void)madvise(p, size_bytes, MADV_HUGEPAGE); /* small pages will do */
#endif
    return p;
}

void ea_large_free(void *p, size_t size_bytes) {
    if (p)
        (void)munmap(p, size_bytes);
}

int ea_random_bytes(void *out, size_t len_bytes, ea_err *err) {
    uint8_t *p = out;
    while (len_bytes) {
        ssize_t n = getrandom(p, len_bytes, 0);
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return ea_fail_os(err, EA_EIO, errno, "read random bytes");
        }
        p += n;
        len_bytes -= (size_t)n;
    }
    return 0;
}

/* Takes fd, also on failure. */
static int platform_file_of(ea_file **ret, int fd, const char *path, ea_err *err) {
    ea_file *f = calloc(1, sizeof *f);
    char *copy = strdup(path);
    if (!f || !copy) {
        free(f);
        free(copy);
        close(fd);
        return ea_fail(err, EA_ENOMEM, "open %s", path);
    }
    f->fd = fd;
    f->path = copy;
    *ret = f;
    return 0;
}

int ea_file_open(ea_file **ret, const char *path, enum ea_open_mode mode, ea_err *err) {
    static const int flags[] = {
        [EA_OPEN_READ] = O_RDONLY, [EA_OPEN_APPEND] = O_RDWR | O_CREAT, [EA_OPEN_CREATE] = O_RDWR | O_CREAT | O_TRUNC};
    int fd = open(path, flags[mode] | O_CLOEXEC, 0600);
    if (fd < 0)
        return ea_fail_os(err, errno == ENOENT ? EA_ENOTFOUND : EA_EIO, errno, "open %s", path);
    struct stat st;
    if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        return ea_fail(err, EA_EINVAL, "open %s: it is a folder", path);
    }
    return platform_file_of(ret, fd, path, err);
}

/* 1: the name is that of the open file. */
static int platform_has_name(int fd, const char *path) {
    struct stat st, named;
    return fstat(fd, &st) == 0 && lstat(path, &named) == 0 && st.st_dev == named.st_dev && st.st_ino == named.st_ino;
}

/* Removes a file that no process has locked. */
static int remove_left(const char *path, ea_err *err) {
    struct stat named;
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), rc = 0;
    if (fd < 0 && errno == ENOENT) /* removed meanwhile */
        return 0;
    if (lstat(path, &named) == 0 && !S_ISREG(named.st_mode))
        rc = ea_fail(err, EA_EEXIST, "make %s: it is no file, but a link, a folder, a pipe or a device", path);
    else if (fd < 0)
        rc = ea_fail_os(err, EA_EIO, errno, "open %s", path);
    else if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        rc = ea_fail(err, EA_EBUSY, "make %s", path);
    /* the last holder of the lock may have removed the file, and another process may have made the next */
    else if (!platform_has_name(fd, path))
        rc = ea_fail(err, EA_EBUSY, "make %s", path);
    else
        rc = ea_path_remove(path, err);
    if (fd >= 0)
        close(fd);
    return rc;
}

int ea_file_claim(ea_file **ret, const char *path, ea_err *err) {
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
    int fd = open(path, flags, 0600);
    if (fd < 0 && errno == EEXIST) {
        int rc = remove_left(path, err);
        if (rc)
            return rc;
        fd = open(path, flags, 0600);
    }
    if (fd < 0) {
        int code = errno == ENOENT ? EA_ENOTFOUND : errno == EEXIST ? EA_EBUSY : EA_EIO;
        return ea_fail_os(err, code, errno, "make %s", path);
    }
    /* another process found it before it was locked: it holds it, or has removed it already and made the next */
    if ((flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) || !platform_has_name(fd, path)) {
        close(fd);
        return ea_fail(err, EA_EBUSY, "make %s", path);
    }
    return platform_file_of(ret, fd, path, err);
}

void ea_file_close(ea_file *f) {
    if (!f)
        return;
    close(f->fd);
    free(f->path);
    free(f);
}

int ea_file_read_at(ea_file *f, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read, ea_err *err) {
    size_t done = 0;
    while (done < len_bytes) {
        ssize_t n = pread(f->fd, (char *)out + done, len_bytes - done, (off_t)(offset + done));
        if (n < 0) {
            if (errno == EINTR)
                continue;
            return ea_fail_os(err, EA_EIO, errno, "read %s at offset %llu", f->path, (unsigned long long)offset);
        }
        if (n == 0)
            break;
        done += (size_t)n;
    }
    *ret_read = done;
    return 0;
}

int ea_file_write_at(ea_file *f, uint64_t offset, const void *data, size_t len_bytes, ea_err *err) {
    size_t done = 0;
    while (done < len_bytes) {
        ssize_t n = pwrite(f->fd, (const char *)data + done, len_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return ea_fail_os(err, errno == ENOSPC || errno == EDQUOT ? EA_EFULL : EA_EIO, errno,
                              "write %s at offset %llu", f->path, (unsigned long long)offset);
        done += (size_t)n;
    }
    return 0;
}

int ea_file_clear(ea_file *f, uint64_t offset, uint64_t len_bytes, ea_err *err) {
    static const uint8_t zeros[1 << 16];
    int rc = 0;
    if (len_bytes && fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)len_bytes) == 0)
        return 0;
    for (uint64_t done = 0; !rc && done < len_bytes; done += sizeof zeros)
        rc = ea_file_write_at(f, offset + done, zeros,
                              len_bytes - done < sizeof zeros ? (size_t)(len_bytes - done) : sizeof zeros, err);
    return rc;
}

int ea_file_sync(ea_file *f, ea_err *err) {
    if (fdatasync(f->fd) == 0)
        return 0;
    return ea_fail_os(err, EA_EIO, errno, "sync %s", f->path);
}

int ea_file_size(ea_file *f, uint64_t *ret_bytes, ea_err *err) {
    struct stat st;
    if (fstat(f->fd, &st))
        return ea_fail_os(err, EA_EIO, errno, "ask for the size of %s", f->path);
    *ret_bytes = (uint64_t)st.st_size;
    return 0;
}

uint64_t ea_file_skip_hole(ea_file *f, uint64_t offset) {
    /* moves the descriptor's own position, which nothing here uses */
    off_t data = lseek(f->fd, (off_t)offset, SEEK_DATA);
    struct stat st;
    if (data < 0 && errno == ENXIO && fstat(f->fd, &st) == 0)
        data = st.st_size;
    return data > 0 && (uint64_t)data > offset ? (uint64_t)data : offset;
}

int ea_file_truncate(ea_file *f, uint64_t len_bytes, ea_err *err) {
    if (ftruncate(f->fd, (off_t)len_bytes) == 0)
        return 0;
    return ea_fail_os(err, EA_EIO, errno, "truncate %s", f->path);
}

int ea_file_try_lock(ea_file *f, ea_err *err) {
    if (flock(f->fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    return ea_fail_os(err, errno == EWOULDBLOCK ? EA_EBUSY : EA_EIO, errno, "lock %s", f->path);
}

int ea_path_make_dirs(const char *path, ea_err *err) {
    size_t n = strlen(path);
    char *copy = malloc(n + 1);
    if (!copy)
        return ea_fail(err, EA_ENOMEM, "make folder %s", path);
    memcpy(copy, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (copy[i] != '/' && copy[i] != 0)
            continue;
        char kept = copy[i];
        copy[i] = 0;
        if (mkdir(copy, 0700) != 0 && errno != EEXIST) {
            int os = errno;
            free(copy);
            return ea_fail_os(err, EA_EIO, os, "make folder %s", path);
        }
        copy[i] = kept;
    }
    free(copy);
    struct stat st;
    if (stat(path, &st) || !S_ISDIR(st.st_mode))
        return ea_fail(err, EA_EINVAL, "make folder %s: a file of that name is in the way", path);
    return 0;
}

int ea_path_sync_dir(const char *path, ea_err *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return ea_fail_os(err, EA_EIO, errno, "open folder %s", path);
    int rc = fsync(fd), os = errno;
    close(fd);
    return rc ? ea_fail_os(err, EA_EIO, os, "sync folder %s", path) : 0;
}

int ea_path_rename(const char *from, const char *to, ea_err *err) {
    if (rename(from, to))
        return ea_fail_os(err, EA_EIO, errno, "rename %s to %s", from, to);
    const char *slash = strrchr(to, '/');
    if (!slash)
        return ea_path_sync_dir(".", err);
    if (slash == to)
        return ea_path_sync_dir("/", err);
    char *dir = strndup(to, (size_t)(slash - to));
    if (!dir)
        return ea_fail(err, EA_ENOMEM, "rename %s to %s", from, to);
    int rc = ea_path_sync_dir(dir, err);
    free(dir);
    return rc;
}

int ea_path_remove(const char *path, ea_err *err) {
    if (unlink(path) == 0)
        return 0;
    return ea_fail_os(err, errno == ENOENT ? EA_ENOTFOUND : EA_EIO, errno, "remove %s", path);
}

int ea_path_remove_folder(const char *path, ea_err *err) {
    if (rmdir(path) == 0)
        return 0;
    return ea_fail_os(err, errno == ENOENT ? EA_ENOTFOUND : EA_EIO, errno, "remove %s", path);
}

int ea_path_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0;
}

int ea_path_is_file(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int ea_path_is_same(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

int ea_path_modified(const char *path, int64_t *ret_utc_ns, ea_err *err) {
    struct stat st;
    if (stat(path, &st))
        return ea_fail_os(err, errno == ENOENT ? EA_ENOTFOUND : EA_EIO, errno, "look at %s", path);
    *ret_utc_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
    return 0;
}

uint64_t ea_path_free_bytes(const char *path) {
    struct statvfs v;
    return statvfs(path, &v) ? 0 : (uint64_t)v.f_bavail * v.f_frsize;
}

/* byte order, whatever the locale */
static int platform_by_name(const void *a, const void *b) {
    const struct dirent *const *x = a, *const *y = b;
    return strcmp((*x)->d_name, (*y)->d_name);
}

int ea_path_list(const char *path, int (*fn)(const char *name, int is_dir, void *arg), void *arg, ea_err *err) {
    struct dirent **list;
    int n = scandir(path, &list, NULL, NULL);
    if (n < 0)
        return ea_fail_os(err, errno == ENOENT ? EA_ENOTFOUND : EA_EIO, errno, "list folder %s", path);
    qsort(list, (size_t)n, sizeof *list, platform_by_name);
    int rc = 0;
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        if (!rc && strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            struct stat st;
            size_t len = strlen(path) + strlen(name) + 2;
            char *full = malloc(len);
            if (!full) {
                rc = ea_fail(err, EA_ENOMEM, "list folder %s", path);
            } else {
                snprintf(full, len, "%s/%s", path, name);
                int is_dir = stat(full, &st) == 0 && S_ISDIR(st.st_mode);
                free(full);
                rc = fn(name, is_dir, arg);
            }
        }
        free(list[i]);
    }
    free(list);
    return rc;
}

int ea_path_write_all(const char *path, const void *data, size_t len_bytes, int mode_private, ea_err *err) {
    size_t n = strlen(path) + 5;
    char *tmp = malloc(n);
    if (!tmp)
        return ea_fail(err, EA_ENOMEM, "write %s", path);
    snprintf(tmp, n, "%s.tmp", path);
    ea_file *f;
    int rc = ea_file_open(&f, tmp, EA_OPEN_CREATE, err);
    if (!rc) {
        if (fchmod(f->fd, mode_private ? 0600 : 0644))
            rc = ea_fail_os(err, EA_EIO, errno, "set the mode of %s", tmp);
        if (!rc)
            rc = ea_file_write_at(f, 0, data, len_bytes, err);
        if (!rc)
            rc = ea_file_sync(f, err);
        ea_file_close(f);
        if (!rc)
            rc = ea_path_rename(tmp, path, err);
        if (rc)
            unlink(tmp);
    }
    free(tmp);
    return rc;
}

int ea_protect(const void *data, size_t len_bytes, uint8_t **ret_data, size_t *ret_len_bytes, ea_err *err) {
    uint8_t *copy = malloc(len_bytes ? len_bytes : 1);
    if (!copy)
        return ea_fail(err, EA_ENOMEM, "protect a secret");
    memcpy(copy, data, len_bytes);
    *ret_data = copy;
    *ret_len_bytes = len_bytes;
    return 0;
}

int ea_unprotect(const void *data, size_t len_bytes, uint8_t **ret_data, size_t *ret_len_bytes, int *ret_is_old,
                 ea_err *err) {
    int rc = ea_protect(data, len_bytes, ret_data, ret_len_bytes, err);
    if (!rc)
        *ret_is_old = 0;
    return rc;
}

int ea_path_check_private(const char *path, ea_err *err) {
    struct stat st;
    if (stat(path, &st))
        return ea_fail_os(err, errno == ENOENT ? EA_ENOTFOUND : EA_EIO, errno, "look at %s", path);
    return st.st_mode & 077
               ? ea_fail(err, EA_EREFUSED, "use %s: its mode is %03o, but only its owner may read it (chmod 600)", path,
                         (unsigned)st.st_mode & 0777)
               : 0;
}

void ea_os_error_text(int os_error, char *out, size_t out_bytes) {
    char buffer[128];
    snprintf(out, out_bytes, "%s", strerror_r(os_error, buffer, sizeof buffer));
}

int ea_is_closed_pipe(FILE *f) {
    struct pollfd p = {.fd = fileno(f)};
    return ferror(f) && poll(&p, 1, 0) == 1 && p.revents & POLLERR;
}

void ea_end_of_closed_pipe(void) {
    signal(SIGPIPE, SIG_DFL);
    raise(SIGPIPE);
}

int ea_is_terminal(FILE *f) {
    return isatty(fileno(f));
}

int ea_terminal_takes_sequences(FILE *f) {
    const char *term = getenv("TERM");
    return ea_is_terminal(f) && term && *term && strcmp(term, "dumb") != 0;
}

uint32_t ea_process_id(void) {
    return (uint32_t)getpid();
}

void ea_host_name(char *out, size_t out_bytes) {
    if (gethostname(out, out_bytes) != 0)
        snprintf(out, out_bytes, "unknown");
    out[out_bytes - 1] = 0;
}

void ea_machine_fact(enum ea_machine_fact fact, char *out, size_t out_bytes) {
    struct utsname u;
    const char *dot = NULL;
    out[0] = 0;
    if (fact == EA_MACHINE_NAME) {
        ea_host_name(out, out_bytes);
    } else if (fact == EA_MACHINE_CPUS || fact == EA_MACHINE_MEMORY) {
        long n = sysconf(fact == EA_MACHINE_CPUS ? _SC_NPROCESSORS_ONLN : _SC_PHYS_PAGES);
        long unit = fact == EA_MACHINE_CPUS ? 1 : sysconf(_SC_PAGESIZE);
        if (n > 0 && unit > 0)
            snprintf(out, out_bytes, "%llu", (unsigned long long)n * (unsigned long long)unit);
    } else if (uname(&u) == 0) {
        dot = strchr(u.nodename, '.');
        const char *texts[] = {[EA_MACHINE_DOMAIN] = dot ? dot + 1 : "",
                               [EA_MACHINE_OS] = u.sysname,
                               [EA_MACHINE_OS_VERSION] = u.release,
                               [EA_MACHINE_ARCHITECTURE] = u.machine};
        snprintf(out, out_bytes, "%s", texts[fact]);
    }
}

int ea_environment(const char *name, char *out, size_t out_bytes) {
    const char *value = getenv(name);
    if (!value)
        return EA_ENOTFOUND;
    snprintf(out, out_bytes, "%s", value);
    return 0;
}

int ea_state_dir(char *out, size_t out_bytes, ea_err *err) {
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    int n;
    if (state && state[0] == '/') /* the specification has relative ones ignored */
        n = snprintf(out, out_bytes, "%s/etwagent", state);
    else if (home && home[0] == '/')
        n = snprintf(out, out_bytes, "%s/.local/state/etwagent", home);
    else
        return ea_fail(err, EA_ENOTFOUND, "find the folder for state: neither XDG_STATE_HOME nor HOME is set");
    return n < 0 || (size_t)n >= out_bytes ? ea_fail(err, EA_ELIMIT, "find the folder for state: its name is too long")
                                           : 0;
}

/* ---- other programs and libraries ---- */

int ea_program_path(char *out, size_t out_bytes, ea_err *err) {
    ssize_t n = readlink("/proc/self/exe", out, out_bytes);
    if (n < 0)
        return ea_fail_os(err, EA_ENOTFOUND, errno, "find this program's own file");
    if ((size_t)n >= out_bytes)
        return ea_fail(err, EA_ELIMIT, "find this program's own file: its name is too long");
    out[n] = 0;
    return 0;
}

/* Starts it in a process group of its own, its output in a pipe. */
static int start_program(const char *const *argv, pid_t *ret_pid, int *ret_fd, ea_err *err) {
    int ends[2];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    if (pipe2(ends, O_CLOEXEC))
        return ea_fail_os(err, EA_EIO, errno, "start %s", argv[0]);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
    int failed = posix_spawn(ret_pid, argv[0], &actions, &attributes, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (failed) {
        close(ends[0]);
        return ea_fail_os(err, EA_EIO, failed, "start %s", argv[0]);
    }
    *ret_fd = ends[0];
    return 0;
}

/* Reads until the end, the deadline (then 1) or max_bytes (then 1). Negative: EA_ENOMEM. */
static int read_output(int fd, int64_t deadline_ns, size_t max_bytes, ea_run_result *r) {
    for (size_t capacity = 0;;) {
        int64_t left_ns = deadline_ns - ea_monotonic_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (EA_GROW(r->output, capacity, r->output_bytes + 4097, SIZE_MAX)) /* one for the end */
            return EA_ENOMEM;
        if (left_ns <= 0)
            return 1;
        int n = poll(&p, 1, left_ns > 1000000000 ? 1000 : (int)(left_ns / 1000000) + 1);
        if (n <= 0)
            continue;
        ssize_t got = read(fd, r->output + r->output_bytes, capacity - r->output_bytes - 1);
        if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN))
            return 0;
        r->output_bytes += got > 0 ? (size_t)got : 0;
        if (r->output_bytes > max_bytes)
            return 1;
    }
}

int ea_run(const char *const *argv, int64_t timeout_ns, size_t max_bytes, ea_run_result *ret, ea_err *err) {
    ea_run_result r = {0};
    int64_t deadline_ns = ea_monotonic_ns() + timeout_ns;
    pid_t pid;
    int fd, status = 0;
    int rc = start_program(argv, &pid, &fd, err);
    if (rc)
        return rc;
    int read_rc = read_output(fd, deadline_ns, max_bytes, &r);
    close(fd);
    /* one that has closed its output may still run */
    while (!read_rc && waitpid(pid, &status, WNOHANG) == 0) {
        read_rc = ea_monotonic_ns() >= deadline_ns;
        ea_sleep_ns(1000000);
    }
    if (read_rc) {
        kill(-pid, SIGKILL); /* its group: ours, and not waited for yet */
        waitpid(pid, &status, 0);
    }
    if (read_rc < 0 || !r.output) {
        free(r.output);
        return ea_fail(err, EA_ENOMEM, "run %s", argv[0]);
    }
    r.output[r.output_bytes] = 0;
    r.timed_out = read_rc;
    r.crashed = !r.timed_out && WIFSIGNALED(status);
    r.exit_code = r.crashed ? WTERMSIG(status) : WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    *ret = r;
    return 0;
}

int ea_library_open(ea_library **ret, const char *path, ea_err *err) {
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return ea_fail(err, EA_EFORMAT, "it is no library that can be loaded: %s", dlerror());
    *ret = handle;
    return 0;
}

const void *ea_library_symbol(ea_library *l, const char *name) {
    return dlsym(l, name);
}

void ea_library_close(ea_library *l) {
    if (l)
        dlclose(l);
}

void ea_stdio_init(void) {
    signal(SIGPIPE, SIG_IGN);
}

static void (*stop_handler)(void), (*reload_handler)(void);

static void on_signal(int number) {
    if (number == SIGHUP)
        reload_handler();
    else
        stop_handler();
}

void ea_on_stop(void (*handler)(void)) {
    stop_handler = handler;
    struct sigaction sa = {.sa_handler = on_signal};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGINT, &sa, NULL);
    sigaction(SIGTERM, &sa, NULL);
}

void ea_on_reload(void (*handler)(void)) {
    reload_handler = handler;
    struct sigaction sa = {.sa_handler = on_signal};
    sigemptyset(&sa.sa_mask);
    sigaction(SIGHUP, &sa, NULL);
}

#endif
