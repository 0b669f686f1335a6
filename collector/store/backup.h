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

/* to: missing, empty, or what an interrupted backup left, which is removed first. EA_EUSAGE when it is neither, has
 * anything else, or such a rest is in a folder in which others can write; EA_EBUSY when another backup is made there.
 * Only its owner can read the copy. */
EA_MUST_CHECK int ec_store_backup(const char *store, const char *to, ec_backup *ret, ea_err *err);
/* Reads a whole store or backup: the databases' own check, each segment that is named, each batch with its checksum.
 * EA_ECORRUPT with the first thing that is wrong. */
EA_MUST_CHECK int ec_store_verify(const char *dir, ec_backup *ret, ea_err *err);
/* Verifies the backup and copies it to a folder that does not exist; that appears at the end, whole. */
EA_MUST_CHECK int ec_store_restore(const char *from, const char *to, int with_tokens, ec_backup *ret, ea_err *err);

#endif
