/* SQLite's temporary files: what a sorter or a temporary table cannot hold in memory. They have no name after they are
 * made, their bytes are bounded, and they end with the process. Called by: confine.h. Calls: SQLite. Thread: the
 * process has one; SQLite's own settings are the process's, and so are these. */
#ifndef EC_QUERY_SQL_TEMP_FILES_H
#define EC_QUERY_SQL_TEMP_FILES_H

#include "proto/base/err.h"

#include <stdint.h>

/* From now on SQLite's temporary files are made in folder (copied; NULL: none can be made) and take at most limit_bytes
 * together, and at most a quarter of what is free in the folder now. Call once, before the first connection is opened.
 * EA_ENOMEM. */
EA_MUST_CHECK int ec_temp_files_start(const char *folder, uint64_t limit_bytes, ea_err *err);
/* 1 when a write was refused: the statement that it was for failed. */
int ec_temp_files_are_full(void);

#endif
