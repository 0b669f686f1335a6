/* Modes. See private.h. */
#include "collector/store/private.h"

#include "proto/base/platform.h"

#include <errno.h>
#include <ftw.h>
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
    if (chmod(path, st.st_mode & 0700))
        return ea_fail_os(err, EA_EIO, errno, "others can read %s (mode %03o): chmod it", path,
                          (unsigned)st.st_mode & 0777);
    *ret_mode = st.st_mode & 0777;
    return 0;
}

static uid_t new_owner;
static gid_t new_group;

static int give(const char *path, const struct stat *st, int type, struct FTW *place) {
    (void)place;
    if (st->st_uid == 0 && ((type == FTW_F && st->st_nlink == 1) || type == FTW_D))
        (void)!lchown(path, new_owner, new_group); /* what it does not reach stays root's, as before */
    return 0;
}

void ec_store_give_to_owner(const char *dir) {
    enum { OPEN_FOLDERS = 8 };

    char folder[PATH_BYTES]; /* a last / follows a link, as systemd makes one for a DynamicUser */
    struct stat st;
    int n = snprintf(folder, sizeof folder, "%s/", dir);
    if (geteuid() != 0 || n < 0 || (size_t)n >= sizeof folder || stat(folder, &st) || st.st_uid == 0)
        return;
    new_owner = st.st_uid;
    new_group = st.st_gid;
    (void)nftw(folder, give, OPEN_FOLDERS, FTW_PHYS | FTW_MOUNT);
}

typedef struct narrowing {
    const char *dir;
    void (*note)(void *arg, const char *text);
    void *arg;
    ea_err *err;
} narrowing;

static int narrow(const char *name, int is_dir, void *arg) {
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
    return ea_path_exists(dir) ? ea_path_list(dir, narrow, &n, err) : 0;
}
