/* What platform.h promises and both operating systems can share. */
#include "platform.h"

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
