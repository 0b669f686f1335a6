/* See column_file.h. */
#include "collector/columnar/column_file.h"

#include "proto/base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int ec_column_file_make(ec_column_file *f, const char *path, int replaces, ea_err *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    ea_file *file = NULL;
    *f = (ec_column_file){.replaces = replaces};
    ea_text_init(&f->path);
    ea_text_init(&f->partial);
    ea_text_str(&f->path, path);
    ea_text_add(&f->partial, path, (size_t)(name - path));
    ea_text_printf(&f->partial, ".%s.partial", name);
    int rc = f->path.failed || f->partial.failed ? ea_fail(err, EA_ENOMEM, "write %.500s", path) : 0;
    if (!rc)
        rc = ea_path_make_parent(path, err);
    if (!rc && !replaces && ea_path_exists(path))
        rc = ea_fail(err, EA_EEXIST,
                     "write %.500s: expected a name that is not taken; remove the file or name another folder", path);
    if (!rc)
        rc = ea_file_claim(&file, f->partial.data, err);
    f->is_made = !rc;
    ea_file_close(file);
    if (rc)
        ec_column_file_deinit(f);
    return rc;
}

int ec_column_file_add(ec_column_file *f, const void *data, size_t len_bytes, ea_err *err) {
    ea_file *file = NULL;
    int rc = ea_file_open(&file, f->partial.data, EA_OPEN_APPEND, err);
    if (!rc)
        rc = ea_file_write_at(file, f->len_bytes, data, len_bytes, err);
    if (!rc)
        f->len_bytes += len_bytes;
    ea_file_close(file);
    return rc;
}

int ec_column_file_publish(ec_column_file *f, ea_err *err) {
    if (!f->replaces && ea_path_exists(f->path.data))
        return ea_fail(err, EA_EEXIST,
                       "write %.500s: expected a name that is not taken; remove the file or name another folder",
                       f->path.data);
    if (rename(f->partial.data, f->path.data))
        return ea_fail_os(err, EA_EIO, errno, "rename %.400s to %.400s", f->partial.data, f->path.data);
    f->is_made = 0;
    return 0;
}

int ec_column_file_sync_all(const char *folder, ea_err *err) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc = fd < 0 || syncfs(fd) ? ea_fail_os(err, EA_EIO, errno, "sync %.500s", folder) : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

void ec_column_file_deinit(ec_column_file *f) {
    if (f->is_made)
        EA_IGNORE(ea_path_remove(f->partial.data, NULL)); /* it may be gone already */
    ea_text_deinit(&f->path);
    ea_text_deinit(&f->partial);
    *f = (ec_column_file){.len_bytes = 0};
}
