/* The archive of a store: before retention deletes a segment, the segment's events become Parquet files in a folder
 * (event_files.h), FOLDER/day=.../host=.../class=.../segment-<16 hex digits>.parquet. Input: a segment's number. Called
 * by: collector/store's retention, by its hook. Calls: event_files.h on a thread of its own, one segment at a time.
 * Thread: the writer's.
 *
 * FOLDER/segments/segment-<16 hex digits>.json is written last, and says how many events were archived: a segment that
 * has it is not archived again after a crash. */
#ifndef EC_QUERY_FILES_ARCHIVER_H
#define EC_QUERY_FILES_ARCHIVER_H

#include "collector/store/retention.h"

typedef struct ec_archiver ec_archiver;

/* Makes the folder; store: the store's folder. EA_ECONFLICT: the folder is the archive of another store. EA_EIO,
 * EA_ENOMEM. */
EA_MUST_CHECK int ec_archiver_create(ec_archiver **ret, const char *store, const char *folder, const char *created_by,
                                     ea_err *err);
/* What retention asks; valid until close. */
const ec_archive_hook *ec_archiver_hook(const ec_archiver *a);
void ec_archiver_close(ec_archiver *a); /* NULL is allowed; a segment that is being archived is given up */

#endif
