/* See column_file.h. */
#include "collector/columnar/column_file.h"

#include "proto/base/platform.h"

#include <string.h>

int ec_column_file_make(ec_column_file *f, const char *path, ea_err *err) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    ea_file *file = NULL;
    *f = (ec_column_file){.len_bytes = 0};
    ea_text_init(&f->path);
    ea_text_init(&f->partial);
    ea_text_str(&f->path, path);
    ea_text_add(&f->partial, path, (size_t)(name - path));
    ea_text_printf(&f->partial, ".%s.partial", name);
    int rc = f->path.failed || f->partial.failed ? ea_fail(err, EA_ENOMEM, "write %.500s", path) : 0;
    if (!rc)
        rc = ea_path_make_parent(path, err);
    if (!rc && ea_path_exists(path))
        rc = ea_fail(err, EA_EEXIST, "write %.500s: the file exists already", path);
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

int ec_column_file_sync(ec_column_file *f, ea_err *err) {
    ea_file *file = NULL;
    int rc = ea_file_open(&file, f->partial.data, EA_OPEN_APPEND, err);
    if (!rc)
        rc = ea_file_sync(file, err);
    ea_file_close(file);
    return rc;
}

int ec_column_file_publish(ec_column_file *f, ea_err *err) {
    if (ea_path_exists(f->path.data))
        return ea_fail(err, EA_EEXIST, "write %.500s: the file exists already", f->path.data);
    int rc = ea_path_rename(f->partial.data, f->path.data, err);
    f->is_made = ea_path_exists(f->partial.data); /* it has its name also when only the folder could not be synced */
    return rc;
}

void ec_column_file_deinit(ec_column_file *f) {
    if (f->is_made)
        EA_IGNORE(ea_path_remove(f->partial.data, NULL)); /* it may be gone already */
    ea_text_deinit(&f->path);
    ea_text_deinit(&f->partial);
    *f = (ec_column_file){.len_bytes = 0};
}
