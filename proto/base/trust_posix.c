/* The POSIX half of trust.h: owners and modes, walked from the root without following a link. Thread: any. */
#if !defined(_WIN32)
#include "proto/base/trust.h"

#include "proto/base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct ea_trusted_file {
    int fd;
    char path[48];
};

enum place { THE_FILE, ITS_FOLDER, ABOVE };

static int is_trusted(uid_t owner) {
    return owner == 0 || owner == geteuid();
}

static int trust_judge(const struct stat *st, const char *path, enum place place, ea_err *err) {
    if (!is_trusted(st->st_uid))
        return ea_fail(err, EA_EREFUSED, "%s belongs to user %u; expected root or user %u (chown it)", path,
                       (unsigned)st->st_uid, (unsigned)geteuid());
    int others_write = (st->st_mode & (S_IWGRP | S_IWOTH)) != 0;
    if (others_write && !(place == ABOVE && st->st_mode & S_ISVTX))
        return ea_fail(err, EA_EREFUSED, "others may write to %s: its mode is %03o (chmod go-w)", path,
                       (unsigned)st->st_mode & 07777);
    return 0;
}

static int fail_errno(ea_err *err, const char *path) {
    int os = errno;
    if (os == ELOOP)
        return ea_fail(err, EA_EREFUSED, "%s is a symbolic link; expected the file itself", path);
    return ea_fail_os(err, os == ENOENT ? EA_ENOTFOUND : EA_EIO, os, "open %s", path);
}

/* Judges the open folder; takes fd, also on failure. *ret_fd: the entry `name` of it. end: of the name in path, to
 * print what was judged. */
static int trust_step(int fd, char *path, char *name, char *end, int is_last, int *ret_fd, ea_err *err) {
    struct stat st;
    int rc = fstat(fd, &st) ? fail_errno(err, path) : 0;
    if (!rc) {
        char kept = *name;
        *name = 0; /* the folder, with the slash at its end */
        rc = trust_judge(&st, path, is_last ? ITS_FOLDER : ABOVE, err);
        *name = kept;
    }
    if (!rc) {
        char kept = *end;
        *end = 0;
        int next = openat(fd, name, O_NOFOLLOW | O_CLOEXEC | (is_last ? O_RDONLY | O_NONBLOCK : O_PATH | O_DIRECTORY));
        if (next < 0)
            rc = fail_errno(err, path);
        else
            *ret_fd = next;
        *end = kept;
    }
    close(fd);
    return rc;
}

/* path: without links but its last part. */
static int trust_walk(char *path, int *ret_fd, ea_err *err) {
    int rc = 0, fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return fail_errno(err, "/");
    for (char *name = path + 1, *end; !rc; name = end + 1) {
        end = name + strcspn(name, "/");
        int is_last = !*end;
        rc = trust_step(fd, path, name, end, is_last, &fd, err);
        if (is_last)
            break;
    }
    if (!rc)
        *ret_fd = fd;
    return rc;
}

/* The real path of the folder that contains path, followed by path's own name; allocated. */
static char *trust_resolve(const char *path, ea_err *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup("."), *real = NULL, *all = NULL;
    if (!folder)
        ea_fail(err, EA_ENOMEM, "open %s", path);
    else if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        ea_fail(err, EA_EINVAL, "open %s: expected the name of a file", path);
    else if (!(real = realpath(folder, NULL)))
        fail_errno(err, folder);
    else if (!(all = malloc(strlen(real) + strlen(name) + 2)))
        ea_fail(err, EA_ENOMEM, "open %s", path);
    else
        snprintf(all, strlen(real) + strlen(name) + 2, "%s%s%s", real, strcmp(real, "/") == 0 ? "" : "/", name);
    free(folder);
    free(real);
    return all;
}

int ea_trusted_open(ea_trusted_file **ret, const char *path, ea_err *err) {
    ea_err why = {0};
    char *full = trust_resolve(path, &why);
    int fd = -1, rc = full ? trust_walk(full, &fd, &why) : why.code;
    struct stat st;
    if (!rc && fstat(fd, &st))
        rc = fail_errno(&why, full);
    if (!rc && !S_ISREG(st.st_mode))
        rc = ea_fail(&why, EA_EREFUSED, "%s is no file", full);
    if (!rc)
        rc = trust_judge(&st, full, THE_FILE, &why);
    free(full);
    ea_trusted_file *f = rc ? NULL : calloc(1, sizeof *f);
    if (!rc && !f)
        rc = ea_fail(&why, EA_ENOMEM, "open %s", path);
    if (rc) {
        if (fd >= 0)
            close(fd);
        if (err)
            *err = why;
        return rc;
    }
    f->fd = fd;
    snprintf(f->path, sizeof f->path, "/proc/%ld/fd/%d", (long)getpid(), fd);
    *ret = f;
    return 0;
}

const char *ea_trusted_path(const ea_trusted_file *f) {
    return f->path;
}

void ea_trusted_close(ea_trusted_file *f) {
    if (!f)
        return;
    close(f->fd);
    free(f);
}

int ea_trust_check(const char *path, ea_err *err) {
    ea_trusted_file *f;
    int rc = ea_trusted_open(&f, path, err);
    if (!rc)
        ea_trusted_close(f);
    return rc;
}

typedef struct claim {
    const char *folder;
    int depth;
    ea_err *err;
} claim;

static int check_entries(const char *folder, int depth, ea_err *err);

static int trust_on_entry(const char *name, int is_dir, void *arg) {
    const claim *c = arg;
    char path[PATH_MAX];
    struct stat st;
    int n = snprintf(path, sizeof path, "%s/%s", c->folder, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return ea_fail(c->err, EA_ELIMIT, "look at %.200s: its name is too long", c->folder);
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : fail_errno(c->err, path);
    if (S_ISLNK(st.st_mode))
        return ea_fail(c->err, EA_EREFUSED, "%s is a symbolic link; expected a file or folder (remove it)", path);
    int rc = trust_judge(&st, path, THE_FILE, c->err);
    return rc || !is_dir ? rc : check_entries(path, c->depth + 1, c->err);
}

static int check_entries(const char *folder, int depth, ea_err *err) {
    enum { DEEPEST = 16 };

    claim c = {folder, depth, err};
    return depth > DEEPEST
               ? ea_fail(err, EA_ELIMIT, "look at %.200s: expected at most %d folders in each other", folder, DEEPEST)
               : ea_path_list(folder, trust_on_entry, &c, err);
}

int ea_trust_claim(const char *folder, ea_trust_note *on_note, void *arg, ea_err *err) {
    struct stat st;
    int rc = ea_path_make_dirs(folder, err);
    if (rc)
        return rc;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return ea_fail(err, EA_EREFUSED, "%s is a symbolic link; expected a folder (remove it)", folder);
    if (fd < 0 || fstat(fd, &st))
        rc = fail_errno(err, folder);
    else if (!is_trusted(st.st_uid))
        rc = trust_judge(&st, folder, ITS_FOLDER, err);
    else if (st.st_mode & 077 && fchmod(fd, 0700))
        rc = ea_fail_os(err, EA_EIO, errno, "make %s private", folder);
    if (!rc && st.st_mode & 077) {
        char line[512];
        snprintf(line, sizeof line, "%s was open to others (mode %03o): its mode is 700 now", folder,
                 (unsigned)st.st_mode & 07777);
        on_note(arg, line);
    }
    if (fd >= 0)
        close(fd);
    return rc ? rc : check_entries(folder, 0, err);
}
#else
typedef int ea_trust_posix_is_not_empty;
#endif
