/* The owner of a spool. A collector stores batches under the name of the certificate with which they are sent, so a
 * spool's batches may only be sent with a certificate of the name that they were made for.
 *
 * The file "owner" in a spool's folder has that name, case-folded as collectors do; it is replaced as a whole (write,
 * sync, rename) before the spool takes its first batch:
 *   etwagent spool owner 1     (the version of the format)
 *   name <name>
 *   end <16 hex: checksum of all lines above>
 * A spool without that file (an older version's, or one of a service that waits for its first certificate) gets the
 * name of the first certificate that opens or sends it.
 *
 * A folder is the spool of one name. Batches of other names for the same folder are in subfolders, "of-NAME.spool".
 * Each of these is a spool with its own limits.
 *
 * Called by: shipping.c, spool_open.c. Calls: files. Thread: any. */
#ifndef EA_SPOOL_SPOOL_OWNER_H
#define EA_SPOOL_SPOOL_OWNER_H

#include "proto/base/err.h"

#include <stddef.h>

enum { EA_SPOOL_OWNER_BYTES = 65 }; /* a name with its NUL */

/* EA_ENOTFOUND: the file is missing. EA_ECORRUPT, EA_EUNSUPPORTED: it cannot be used. */
EA_MUST_CHECK int ea_spool_owner_read(const char *dir, char ret[EA_SPOOL_OWNER_BYTES], ea_err *err);
/* Durable when it returns. name: folded. EA_EINVAL when no collector accepts it. */
EA_MUST_CHECK int ea_spool_owner_write(const char *dir, const char *name, ea_err *err);

/* The folder of that owner's spool at root: root itself when its spool has that owner or none yet; else the owner's
 * folder in root. Creates nothing. */
EA_MUST_CHECK int ea_spool_folder_of(const char *root, const char *name, char *ret, size_t capacity, ea_err *err);

/* Calls fn for root and for each owner's folder in it. owner: "" when there is none yet, or it is unreadable; why: the
 * reason for that, else NULL. Stops at the first non-zero result and returns it. */
EA_MUST_CHECK int ea_spool_each_folder(const char *root,
                                       int (*fn)(const char *dir, const char *owner, const char *why, void *arg),
                                       void *arg, ea_err *err);

#endif
