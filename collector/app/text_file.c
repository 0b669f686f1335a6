/* See text_file.h. */
#include "collector/app/text_file.h"

#include "proto/base/platform.h"

#include <string.h>

int ec_text_file_read(const char *path, size_t max_bytes, const char *expected, char **ret, ea_err *err) {
    size_t len = 0;
    int rc = ea_path_read_all(path, max_bytes, ret, &len, err);
    if (!rc && strlen(*ret) != len)
        rc = ea_fail(err, EA_EUSAGE, "%.300s contains a NUL: expected %s", path, expected);
    return rc;
}
