/* Modes. See private.h. */
#include "collector/store/private.h"

#include "proto/base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 1400, OTHERS = 077 };

int ec_make_private(const char *path, unsigned *ret_mode, ea_err *err) {
    struct stat st;
    *ret_mode = 0;
    if (lstat(path, &st))
        return errno == ENOENT ? 0 : ea_fail_os(err, EA_EIO, errno, "look at %s", path);
    if (S_ISLNK(st.st_mode) || !(st.st_mode & OTHERS))
        return 0;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    int os_error = fd < 0 || fchmod(fd, st.st_mode & 0700) ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (os_error)
        return ea_fail_os(err, EA_EIO, os_error, "others can read %s (mode %03o): chmod it", path,
                          (unsigned)st.st_mode & 0777);
    *ret_mode = st.st_mode & 0777;
    return 0;
}

/* The folder's owner may write there meanwhile, and change a path that was looked at into a link to a file elsewhere.
 * So nothing is given by its path: each entry is opened, looked at and given by the same descriptor. */
typedef struct giving {
    int folder; /* a descriptor of it */
    int depth;
    uid_t owner;
    gid_t group;
    dev_t device; /* other file systems are left alone */
} giving;

enum { FOLDERS_DEEP = 16 };

static void give_entries(giving g);

static int give_one(const char *name, int is_dir, void *arg) {
    const giving *g = arg;
    struct stat st;
    int fd = openat(g->folder, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    (void)is_dir;
    if (fd < 0)
        return 0;
    int is_seen = !fstat(fd, &st) && st.st_dev == g->device, is_folder = is_seen && S_ISDIR(st.st_mode);
    /* what it does not reach stays root's, as before */
    if (is_seen && st.st_uid == 0 && (is_folder || (S_ISREG(st.st_mode) && st.st_nlink == 1)))
        EA_IGNORE(fchownat(fd, "", g->owner, g->group, AT_EMPTY_PATH));
    if (is_folder && g->depth < FOLDERS_DEEP)
        give_entries((giving){fd, g->depth + 1, g->owner, g->group, g->device});
    close(fd);
    return 0;
}

static void give_entries(giving g) {
    char path[64];
    ea_err ignored;
    snprintf(path, sizeof path, "/proc/self/fd/%d", g.folder);
    EA_IGNORE(ea_path_list(path, give_one, &g, &ignored));
}

void ec_store_give_to_owner(const char *dir) {
    struct stat st;
    /* a link is followed here alone, as systemd makes one for a DynamicUser */
    int fd = geteuid() == 0 ? open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    if (!fstat(fd, &st) && st.st_uid != 0)
        give_entries((giving){fd, 0, st.st_uid, st.st_gid, st.st_dev});
    close(fd);
}

typedef struct narrowing {
    const char *dir;
    void (*note)(void *arg, const char *text);
    void *arg;
    ea_err *err;
} narrowing;

static int private_narrow(const char *name, int is_dir, void *arg) {
    const narrowing *n = arg;
    char path[PATH_BYTES], text[PATH_BYTES + 100];
    unsigned mode;
    if (is_dir || (!strstr(name, ".db") && strncmp(name, "audit", 5) != 0))
        return 0;
    snprintf(path, sizeof path, "%s/%s", n->dir, name);
    int rc = ec_make_private(path, &mode, n->err);
    if (!rc && mode) {
        snprintf(text, sizeof text, "others could read %s (mode %03o); now only its owner can", path, mode);
        n->note(n->arg, text);
    }
    return rc;
}

int ec_store_make_private(const char *dir, void (*note)(void *arg, const char *text), void *arg, ea_err *err) {
    narrowing n = {dir, note, arg, err};
    return ea_path_exists(dir) ? ea_path_list(dir, private_narrow, &n, err) : 0;
}
