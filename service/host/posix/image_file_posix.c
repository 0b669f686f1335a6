/* Image files elsewhere than on Windows, where none is loaded; what asks for them is tested with files of this system.
 * See image_file.h. */
#include "service/host/image_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct ea_image_file {
    int fd;
};

static int code_of(int error) {
    return error == ENOENT || error == ENOTDIR ? EA_ENOTFOUND
           : error == EACCES || error == EPERM ? EA_EREFUSED
                                               : EA_EIO;
}

int ea_image_file_open(ea_image_file **ret, const char *path, ea_err *err) {
    struct stat s;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return ea_fail_os(err, code_of(errno), errno, "open %.256s", path);
    ea_image_file *f = fstat(fd, &s) == 0 && S_ISREG(s.st_mode) ? malloc(sizeof *f) : NULL;
    if (!f) {
        close(fd);
        return ea_fail(err, EA_EREFUSED, "%.256s is no file on a disk", path);
    }
    f->fd = fd;
    *ret = f;
    return 0;
}

int ea_image_file_identify(ea_image_file *f, ea_image_identity *ret, ea_err *err) {
    struct stat s;
    if (fstat(f->fd, &s))
        return ea_fail_os(err, EA_EIO, errno, "look at an image's file");
    *ret = (ea_image_identity){.volume = s.st_dev,
                               .number = s.st_ino,
                               .size_bytes = (uint64_t)s.st_size,
                               .changed = (int64_t)s.st_ctim.tv_sec * 1000000000 + s.st_ctim.tv_nsec};
    return 0;
}

int ea_image_file_read(void *arg, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read, ea_err *err) {
    const ea_image_file *f = arg;
    size_t done = 0;
    while (done < len_bytes) {
        ssize_t got = pread(f->fd, (char *)out + done, len_bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return ea_fail_os(err, EA_EIO, errno, "read an image's file");
        if (!got)
            break;
        done += (size_t)got;
    }
    *ret_read = done;
    return 0;
}

void ea_image_file_close(ea_image_file *f) {
    if (!f)
        return;
    close(f->fd);
    free(f);
}
