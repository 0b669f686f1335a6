/* Files and folders that only their owner may read. A program's umask keeps new files private; this is for existing
 * ones. Called by: the command run, backup.c. Calls: the file system. Thread: any. */
#ifndef EC_STORE_PRIVATE_H
#define EC_STORE_PRIVATE_H

#include "proto/base/err.h"

/* Takes away the rights of group and others. *ret_mode: the mode before; 0: nothing was changed, or nothing is there.
 */
EA_MUST_CHECK int ec_make_private(const char *path, unsigned *ret_mode, ea_err *err);
/* The same of a store's databases and audit logs. note: called with a sentence about each file that was changed. */
EA_MUST_CHECK int ec_store_make_private(const char *dir, void (*note)(void *arg, const char *text), void *arg,
                                        ea_err *err);

/* Gives files that root made in a store (token add, forget, ... typed with sudo) to the owner of the store's folder,
 * under whom the service runs: it could not open them. Nothing when this process is not root's, or the folder is. Links
 * are left alone, also those that the owner makes meanwhile. */
void ec_store_give_to_owner(const char *dir);

#endif
