/* A disk that fails on purpose: a preload library that makes writes and syncs fail, for the files of one folder only.
 * The settings are environment variables:
 *
 *   EA_FAULT_FOLDER  the folder, resolved; files elsewhere are not affected
 *   EA_FAULT_FILES   a pattern for the files' names (fnmatch); all files when it is absent
 *   EA_FAULT_RULES   call:what@when, separated by ';':
 *                      call   sync (fsync, fdatasync), write (write, pwrite and their vector forms), truncate (and
 *                             fallocate), create (opening a file that does not exist yet), rename
 *                      what   EIO, ENOSPC or EDQUOT: nothing is done, the call fails
 *                             full: as ENOSPC, but existing bytes of a file may be overwritten (write only)
 *                             short: a part is written (write only)
 *                             kill: a part is written, the process is killed: a torn write (sync: killed before it)
 *                      when   @7 the 7th such call, @7-9 the 7th to the 9th, @7- all from the 7th on, %2.5 each call
 * with a probability of 2.5 percent
 *   EA_FAULT_SEED    for the percentages and for the parts; the same seed makes the same faults for the same calls
 *   EA_FAULT_FROM    a path: before a file exists there, no call fails and no call is counted
 *   EA_FAULT_UNTIL   a path: as soon as a file exists there, all calls succeed again ("there is space again")
 *   EA_FAULT_LOG     a file that gets one line for each fault: call, what, file
 *   EA_FAULT_UNDO    a file that gets the data to undo every write that was not followed by a sync (disk.py undoes
 * them: this is a power cut, whereas kill -9 alone leaves everything in the system's cache)
 *
 * Called by: programs that the tests start with LD_PRELOAD. Calls: the kernel; every system call is made by number, so
 * that no symbol is looked up in a program that may have a sanitizer's runtime. Thread: any; state is atomic, the undo
 * file is written under a lock. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum call { CALL_SYNC, CALL_WRITE, CALL_TRUNCATE, CALL_CREATE, CALL_RENAME, CALL_COUNT };

static const char *const call_names[CALL_COUNT] = {"sync", "write", "truncate", "create", "rename"};

/* What a rule does: an errno above 0, or one of these. */
enum { DO_NOTHING = 0, DO_SHORT = -1, DO_KILL = -2, DO_FULL = -3 };

static const struct {
    const char *name;
    int what;
} whats[] = {{"EIO", EIO},      {"ENOSPC", ENOSPC},  {"EDQUOT", EDQUOT},
             {"full", DO_FULL}, {"short", DO_SHORT}, {"kill", DO_KILL}};

typedef struct rule {
    enum call call;
    int what;
    const char *name;
    uint64_t first, last; /* calls from 1; first 0: by chance */
    uint64_t chance;      /* of 2^32 */
} rule;

enum { MAX_RULES = 32, MAX_PATH = 4096, MAX_UNDO = 16 << 20 };

/* Set once before main; read only after that. */
static struct {
    char folder[MAX_PATH];
    size_t folder_len;
    const char *files, *from, *until;
    rule rules[MAX_RULES];
    size_t rule_count;
    uint64_t seed;
    int log_fd, undo_fd;
} setting = {.log_fd = -1, .undo_fd = -1};

static atomic_uint_fast64_t calls[CALL_COUNT];
static pthread_mutex_t undo_lock = PTHREAD_MUTEX_INITIALIZER;

static _Noreturn void complain(const char *text) {
    fprintf(stderr, "faults: EA_FAULT_RULES: cannot read \"%s\"\n", text);
    _exit(125);
}

static void parse_rule(const char *text) {
    rule *r = &setting.rules[setting.rule_count];
    size_t n = strcspn(text, ":");
    for (r->call = 0; r->call < CALL_COUNT; r->call++)
        if (strlen(call_names[r->call]) == n && strncmp(text, call_names[r->call], n) == 0)
            break;
    if (r->call == CALL_COUNT || !text[n] || setting.rule_count == MAX_RULES)
        complain(text);
    const char *what = text + n + 1;
    size_t len = strcspn(what, "@%"), i = 0;
    while (i < sizeof whats / sizeof *whats &&
           !(strlen(whats[i].name) == len && strncmp(what, whats[i].name, len) == 0))
        i++;
    if (i == sizeof whats / sizeof *whats)
        complain(text);
    r->what = whats[i].what;
    r->name = whats[i].name;
    const char *when = what + len;
    char *end;
    if (*when == '%') {
        r->chance = (uint64_t)(strtod(when + 1, &end) / 100 * 4294967296.0);
    } else if (*when == '@' && isdigit((unsigned char)when[1])) {
        r->first = r->last = strtoull(when + 1, &end, 10);
        if (*end == '-') {
            const char *last = end + 1;
            r->last = isdigit((unsigned char)*last) ? strtoull(last, &end, 10) : UINT64_MAX;
            if (r->last == UINT64_MAX)
                end++;
        }
    } else {
        complain(text);
    }
    if (*end || (!r->first && !r->chance))
        complain(text);
    setting.rule_count++;
}

/* Our own files are out of the way of a program's low numbers, and are not handed on to its children. */
static int open_own(const char *path) {
    long fd = syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0)
        return -1;
    long high = syscall(SYS_fcntl, (int)fd, F_DUPFD_CLOEXEC, 900);
    if (high < 0)
        return (int)fd;
    syscall(SYS_close, (int)fd);
    return (int)high;
}

__attribute__((constructor)) static void set_up(void) {
    const char *folder = getenv("EA_FAULT_FOLDER"), *rules = getenv("EA_FAULT_RULES");
    const char *log = getenv("EA_FAULT_LOG"), *undo = getenv("EA_FAULT_UNDO"), *seed = getenv("EA_FAULT_SEED");
    if (!folder)
        return;
    setting.files = getenv("EA_FAULT_FILES");
    setting.from = getenv("EA_FAULT_FROM");
    setting.until = getenv("EA_FAULT_UNTIL");
    setting.seed = seed ? strtoull(seed, NULL, 10) : 0;
    char *copy = strdup(rules ? rules : ""), *rest = copy;
    for (char *text; copy && (text = strsep(&rest, ";"));)
        if (*text)
            parse_rule(text);
    free(copy);
    setting.log_fd = log ? open_own(log) : -1;
    setting.undo_fd = undo ? open_own(undo) : -1;
    if ((log && setting.log_fd < 0) || (undo && setting.undo_fd < 0)) {
        fprintf(stderr, "faults: cannot open %s\n", log && setting.log_fd < 0 ? log : undo);
        _exit(125);
    }
    size_t n = strlen(folder);
    if (n >= sizeof setting.folder)
        complain(folder);
    memcpy(setting.folder, folder, n + 1);
    setting.folder_len = n; /* last: from now on calls are looked at */
}

/* ---- which calls, which faults ---- */

static int ours(const char *path) {
    size_t n = setting.folder_len;
    if (!n || strncmp(path, setting.folder, n) != 0 || (path[n] != '/' && path[n] != 0))
        return 0;
    const char *slash = strrchr(path, '/');
    return !setting.files || fnmatch(setting.files, slash ? slash + 1 : path, 0) == 0;
}

/* 1 and the path when the file is one of the folder's. */
static int path_of(int fd, char out[MAX_PATH]) {
    if (!setting.folder_len || fd < 0)
        return 0;
    int kept = errno;
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long n = syscall(SYS_readlinkat, AT_FDCWD, link, out, MAX_PATH - 1);
    errno = kept;
    if (n <= 0)
        return 0;
    out[n] = 0;
    return ours(out);
}

static uint64_t mix(uint64_t x) { /* splitmix64 */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static int exists(const char *path) {
    struct stat st;
    return syscall(SYS_newfstatat, AT_FDCWD, path, &st, 0) == 0;
}

/* What happens to this call: DO_NOTHING, an errno, DO_SHORT, DO_KILL. *ret_random goes with it. grows: it is a write
 * that needs room. */
static int fate(enum call call, const char *path, int grows, uint64_t *ret_random) {
    if ((setting.from && !exists(setting.from)) || (setting.until && exists(setting.until)))
        return DO_NOTHING;
    uint64_t n = atomic_fetch_add(&calls[call], 1) + 1;
    uint64_t random = mix(setting.seed * CALL_COUNT + call + mix(n));
    for (size_t i = 0; i < setting.rule_count; i++) {
        const rule *r = &setting.rules[i];
        int hit = r->first ? n >= r->first && n <= r->last : (mix(random + i) >> 32) < r->chance;
        if (r->call != call || !hit || (r->what == DO_FULL && !grows))
            continue;
        if (setting.log_fd >= 0) {
            char line[MAX_PATH + 64];
            int len = snprintf(line, sizeof line, "%s %s %s\n", call_names[call], r->name, path);
            syscall(SYS_write, setting.log_fd, line, (size_t)len);
        }
        *ret_random = random;
        return r->what == DO_FULL ? ENOSPC : r->what;
    }
    return DO_NOTHING;
}

static _Noreturn void die(void) {
    for (;;)
        syscall(SYS_kill, (int)syscall(SYS_getpid), SIGKILL);
}

/* ---- the undo file: each record has a head and the previous bytes of the file. Files are identified by inode, since
 * they are renamed. The system may reuse an inode's number after its file is deleted, so deletions are recorded, too.
 * ---- */

typedef struct undo_head {
    char kind[4]; /* "W" write, "T" truncate, "S" sync, "D" deleted */
    uint32_t old_bytes;
    uint64_t inode, offset, size_before;
} undo_head;

static void undo_write(const undo_head *head, const void *old) {
    const struct iovec parts[] = {{(void *)(uintptr_t)head, sizeof *head}, {(void *)(uintptr_t)old, head->old_bytes}};
    if (syscall(SYS_writev, setting.undo_fd, parts, 2) < 0) {
        fprintf(stderr, "faults: the undo file cannot be written\n");
        _exit(125);
    }
}

/* Keeps what a write of len bytes at offset, or a truncation to offset, will destroy. The lock is held until undo_end.
 */
static void undo_begin(char kind, int fd, const char *path, uint64_t offset, uint64_t len) {
    pthread_mutex_lock(&undo_lock);
    struct stat st = {.st_size = 0};
    syscall(SYS_fstat, fd, &st);
    undo_head head = {{kind}, 0, st.st_ino, offset, (uint64_t)st.st_size};
    uint64_t end = kind == 'T' ? head.size_before : offset + len;
    if (end > head.size_before)
        end = head.size_before;
    uint64_t n = end > offset ? end - offset : 0;
    char *old = n && n <= MAX_UNDO ? malloc(n) : NULL;
    if (n && !old) {
        fprintf(stderr, "faults: cannot keep %llu bytes of %s\n", (unsigned long long)n, path);
        _exit(125);
    }
    /* the file may be open for writing only */
    long reader = n ? syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0) : -1;
    long got = reader >= 0 ? syscall(SYS_pread64, (int)reader, old, n, offset) : 0;
    if (reader >= 0)
        syscall(SYS_close, (int)reader);
    head.old_bytes = got > 0 ? (uint32_t)got : 0;
    undo_write(&head, old);
    free(old);
}

static void undo_end(void) {
    pthread_mutex_unlock(&undo_lock);
}

/* "S": the file is synced; "D": it is about to go. */
static void undo_note(const char *kind, uint64_t inode) {
    pthread_mutex_lock(&undo_lock);
    undo_head head = {.inode = inode};
    head.kind[0] = kind[0];
    undo_write(&head, NULL);
    pthread_mutex_unlock(&undo_lock);
}

static void undo_deleted(const char *path) {
    struct stat st;
    if (setting.undo_fd >= 0 && ours(path) && syscall(SYS_newfstatat, AT_FDCWD, path, &st, 0) == 0)
        undo_note("D", st.st_ino);
}

/* ---- the calls ---- */

/* offset -1: at the file's own position. */
static ssize_t do_write(int fd, const struct iovec *parts, int count, int64_t offset) {
    if (offset >= 0)
        return count == 1 ? syscall(SYS_pwrite64, fd, parts->iov_base, parts->iov_len, offset)
                          : syscall(SYS_pwritev, fd, parts, count, offset, 0);
    return count == 1 ? syscall(SYS_write, fd, parts->iov_base, parts->iov_len) : syscall(SYS_writev, fd, parts, count);
}

static ssize_t any_write(int fd, const struct iovec *parts, int count, int64_t offset) {
    char path[MAX_PATH];
    if (!path_of(fd, path))
        return do_write(fd, parts, count, offset);
    uint64_t random = 0, len = 0;
    struct stat st = {.st_size = 0};
    for (int i = 0; i < count; i++)
        len += parts[i].iov_len;
    syscall(SYS_fstat, fd, &st);
    int what = fate(CALL_WRITE, path, offset < 0 || (uint64_t)offset + len > (uint64_t)st.st_size, &random);
    if (what > 0) {
        errno = what;
        return -1;
    }
    struct iovec part = {0};
    if (what != DO_NOTHING && len > 0) { /* of the first part, some */
        while (parts->iov_len == 0)
            parts++;
        uint64_t least = what == DO_SHORT;
        part.iov_base = parts->iov_base;
        part.iov_len = least + (parts->iov_len > least ? random % (parts->iov_len - least) : 0);
        parts = &part;
        count = 1;
        len = part.iov_len;
    }
    if (setting.undo_fd >= 0) {
        int64_t at = offset;
        if (at < 0) {
            long flags = syscall(SYS_fcntl, fd, F_GETFL);
            at = syscall(SYS_lseek, fd, 0, flags & O_APPEND ? SEEK_END : SEEK_CUR);
        }
        undo_begin('W', fd, path, (uint64_t)at, len);
    }
    ssize_t n = do_write(fd, parts, count, offset);
    if (what == DO_KILL)
        die();
    if (setting.undo_fd >= 0)
        undo_end();
    return n;
}

static int any_sync(int fd, long number) {
    char path[MAX_PATH];
    if (!path_of(fd, path))
        return (int)syscall(number, fd);
    uint64_t random;
    int what = fate(CALL_SYNC, path, 0, &random);
    if (what == DO_KILL)
        die();
    if (what > 0) {
        errno = what;
        return -1;
    }
    int rc = (int)syscall(number, fd);
    struct stat st;
    if (rc == 0 && setting.undo_fd >= 0 && syscall(SYS_fstat, fd, &st) == 0)
        undo_note("S", st.st_ino);
    return rc;
}

/* 0: go on; otherwise the error is in errno. */
static int may(enum call call, const char *path) {
    uint64_t random;
    int what = fate(call, path, 0, &random);
    if (what == DO_KILL)
        die();
    if (what > 0) {
        errno = what;
        return -1;
    }
    return 0;
}

/* Their prototypes come from the system's headers. */
ssize_t write(int fd, const void *data, size_t len) {
    struct iovec part = {(void *)(uintptr_t)data, len};
    return any_write(fd, &part, 1, -1);
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t offset) {
    struct iovec part = {(void *)(uintptr_t)data, len};
    return any_write(fd, &part, 1, offset);
}

ssize_t pwrite64(int fd, const void *data, size_t len, off64_t offset) {
    struct iovec part = {(void *)(uintptr_t)data, len};
    return any_write(fd, &part, 1, offset);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    return any_write(fd, parts, count, -1);
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    return any_write(fd, parts, count, offset);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t offset) {
    return any_write(fd, parts, count, offset);
}

/* With flags (RWF_*), which none of the faults depends on. */
ssize_t pwritev2(int fd, const struct iovec *parts, int count, off_t offset, int flags) {
    return flags ? syscall(SYS_pwritev2, fd, parts, count, offset, 0, flags) : any_write(fd, parts, count, offset);
}

ssize_t pwritev64v2(int fd, const struct iovec *parts, int count, off64_t offset, int flags) {
    return pwritev2(fd, parts, count, offset, flags);
}

int fsync(int fd) {
    return any_sync(fd, SYS_fsync);
}

int fdatasync(int fd) {
    return any_sync(fd, SYS_fdatasync);
}

static int any_truncate(int fd, off64_t len) {
    char path[MAX_PATH];
    if (!path_of(fd, path))
        return (int)syscall(SYS_ftruncate, fd, len);
    if (may(CALL_TRUNCATE, path))
        return -1;
    if (setting.undo_fd >= 0)
        undo_begin('T', fd, path, (uint64_t)len, 0);
    int rc = (int)syscall(SYS_ftruncate, fd, len);
    if (setting.undo_fd >= 0)
        undo_end();
    return rc;
}

int ftruncate(int fd, off_t len) {
    return any_truncate(fd, len);
}

int ftruncate64(int fd, off64_t len) {
    return any_truncate(fd, len);
}

static int any_fallocate(int fd, int mode, off64_t offset, off64_t len) {
    char path[MAX_PATH];
    if (path_of(fd, path) && may(CALL_TRUNCATE, path))
        return -1;
    return (int)syscall(SYS_fallocate, fd, mode, offset, len);
}

int fallocate(int fd, int mode, off_t offset, off_t len) {
    return any_fallocate(fd, mode, offset, len);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t len) {
    return any_fallocate(fd, mode, offset, len);
}

/* These two return the error, and leave errno alone. */
int posix_fallocate(int fd, off_t offset, off_t len) {
    int kept = errno, rc = any_fallocate(fd, 0, offset, len) ? errno : 0;
    errno = kept;
    return rc;
}

int posix_fallocate64(int fd, off64_t offset, off64_t len) {
    return posix_fallocate(fd, offset, len);
}

static int any_open(int dir, const char *path, int flags, mode_t mode) {
    if (setting.folder_len && (flags & O_CREAT) && path[0] == '/' && ours(path) && !exists(path) &&
        may(CALL_CREATE, path))
        return -1;
    return (int)syscall(SYS_openat, dir, path, flags, mode);
}

#define MODE_OF(flags)                                                                                                 \
    mode_t mode = 0;                                                                                                   \
    if ((flags) & (O_CREAT | O_TMPFILE)) {                                                                             \
        va_list list;                                                                                                  \
        va_start(list, flags);                                                                                         \
        mode = va_arg(list, mode_t);                                                                                   \
        va_end(list);                                                                                                  \
    }

int open(const char *path, int flags, ...) {
    MODE_OF(flags)
    return any_open(AT_FDCWD, path, flags, mode);
}

int open64(const char *path, int flags, ...) {
    MODE_OF(flags)
    return any_open(AT_FDCWD, path, flags | O_LARGEFILE, mode);
}

int openat(int dir, const char *path, int flags, ...) {
    MODE_OF(flags)
    return any_open(dir, path, flags, mode);
}

int openat64(int dir, const char *path, int flags, ...) {
    MODE_OF(flags)
    return any_open(dir, path, flags | O_LARGEFILE, mode);
}

int rename(const char *from, const char *to) {
    if (setting.folder_len && ours(to) && may(CALL_RENAME, to))
        return -1;
    undo_deleted(to);
    return (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlink(const char *path) {
    undo_deleted(path);
    return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}
