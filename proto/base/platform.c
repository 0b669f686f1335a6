/* What platform.h promises and both operating systems can share. */
#include "proto/base/platform.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

int ea_path_read_all(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len_bytes, ea_err *err) {
    ea_file *f;
    int rc = ea_file_open(&f, path, EA_OPEN_READ, err);
    if (rc)
        return rc;
    uint64_t size = 0;
    char *data = NULL;
    rc = ea_file_size(f, &size, err);
    if (!rc && size > max_bytes)
        rc = ea_fail(err, EA_ELIMIT, "read %s: %llu bytes, at most %llu are allowed", path, (unsigned long long)size,
                     (unsigned long long)max_bytes);
    if (!rc && !(data = malloc((size_t)size + 1)))
        rc = ea_fail(err, EA_ENOMEM, "read %s", path);
    size_t n = 0;
    if (!rc)
        rc = ea_file_read_at(f, 0, data, (size_t)size, &n, err);
    ea_file_close(f);
    if (rc) {
        free(data);
        return rc;
    }
    data[n] = 0;
    *ret_data = data;
    *ret_len_bytes = n;
    return 0;
}

int ea_path_make_parent(const char *path, ea_err *err) {
    size_t n = strlen(path);
    while (n && path[n - 1] != '/' && path[n - 1] != '\\')
        n--;
    if (n < 2)
        return 0; /* the folder that the process is in, or the root */
    char *folder = malloc(n);
    if (!folder)
        return ea_fail(err, EA_ENOMEM, "make the folder of %s", path);
    memcpy(folder, path, n - 1);
    folder[n - 1] = 0;
    int rc = ea_path_make_dirs(folder, err);
    free(folder);
    return rc;
}

static atomic_int bulk_priority = EA_BULK_NORMAL;

void ea_set_bulk_priority(enum ea_bulk_priority priority) {
    atomic_store(&bulk_priority, (int)priority);
}

void ea_thread_is_bulk(void) {
    int priority = atomic_load(&bulk_priority);
    if (priority != EA_BULK_NORMAL)
        ea_thread_lower((enum ea_bulk_priority)priority);
}
