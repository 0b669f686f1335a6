/* A copy of a store, made while its collector goes on; and the way back. Called by: the commands backup and restore.
 * Calls: the file system. Thread: its caller's.
 *
 * The state is copied before the index, so that it is never ahead of it, and the index before the segment that grows:
 * what the index names is in segments already. Closed segments never change: they are linked where the file system can,
 * else copied. backup.json is written last: a folder without it is no backup. */
#ifndef EC_STORE_BACKUP_H
#define EC_STORE_BACKUP_H

#include "collector/store/store.h"

typedef struct ec_backup {
    uint64_t segment_count, linked_count; /* linked: share their bytes with the store */
    uint64_t batch_count, event_count, byte_count;
    unsigned mode_before; /* of a target folder that others could read: it is 0700 now; else 0 */
} ec_backup;

/* Makes the folder of a copy where it is missing, and makes an empty one its owner's alone; ret_mode: as of
 * ec_make_private. A process that makes the copy need not be able to. */
EA_MUST_CHECK int ec_store_begin_backup(const char *store, const char *to, unsigned *ret_mode, ea_err *err);
/* to: missing, empty, or what an interrupted backup left, which is removed first. EA_EUSAGE when it is neither, has
 * anything else, or such a rest is in a folder in which others can write; EA_EBUSY when another backup is made there.
 * Only its owner can read the copy. */
EA_MUST_CHECK int ec_store_backup(const char *store, const char *to, ec_backup *ret, ea_err *err);
/* Reads a whole store or backup: the databases' own check, their triggers and views, each segment that is named, each
 * batch with its checksum. foreign_sql: counts those of state.db that the history has not made
 * (ec_state_db_foreign_sql). EA_ECORRUPT with the first thing that is wrong. */
EA_MUST_CHECK int ec_store_verify(const char *dir, const char *foreign_sql, ec_backup *ret, ea_err *err);

/* A restored store appears at the end, whole: its files are first in the folder `made`, whose path begin_restore
 * writes. That is all that a process that reads the backup has to change, beside SQLite's own files in it. */
enum { EC_RESTORING_BYTES = 1200 };

/* EA_EUSAGE: from is no whole backup, or a folder of the names exists. */
EA_MUST_CHECK int ec_store_begin_restore(const char *from, const char *to, char made[EC_RESTORING_BYTES], ea_err *err);
/* Verifies the backup and copies it. */
EA_MUST_CHECK int ec_store_restore(const char *from, const char *made, int with_tokens, const char *foreign_sql,
                                   ec_backup *ret, ea_err *err);
/* to: the store's name; NULL: it failed, and made is removed while it is empty. */
EA_MUST_CHECK int ec_store_end_restore(const char *made, const char *to, ea_err *err);

#endif
