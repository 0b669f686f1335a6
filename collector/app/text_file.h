/* Files of lines that options name, such as headers of requests. Called by: the commands sink run, detections send.
 * Thread: any. */
#ifndef EC_APP_TEXT_FILE_H
#define EC_APP_TEXT_FILE_H

#include "proto/base/err.h"

#include <stddef.h>

/* Reads a file as a text, which the caller frees, also after a failure. expected: what it should have, for the error.
 * Errors: of ea_path_read_all; EA_EUSAGE: it has a NUL. */
EA_MUST_CHECK int ec_text_file_read(const char *path, size_t max_bytes, const char *expected, char **ret, ea_err *err);

#endif
