/* Who may change a file: asked before what is in it runs as code, is believed as a configuration, or is kept as a
 * secret. Trusted are, on POSIX, root and the user of this process; on Windows the system, administrators,
 * TrustedInstaller and the user of this process (for the service that is the system again), but not the user of an
 * elevated process whose token UAC has split: the same user's other programs may write what is that user's. Called by:
 * plug-ins, the service, its installation. Calls: platform.h. Thread: any. */
#ifndef EA_BASE_TRUST_H
#define EA_BASE_TRUST_H

#include "proto/base/err.h"

/* A file that only trusted users may change, held open. */
typedef struct ea_trusted_file ea_trusted_file;

/* Opens the file and checks it, its folder and all folders above: the owner of each is trusted; others may not write to
 * the file, nor make files in its folder, nor rename what is in a folder above (POSIX: the mode's w for group and
 * others; above, a sticky folder is as good. Windows: the access list). The path's last part may not be a link, and on
 * Windows the file is on a local drive. ret: ea_trusted_close. EA_EREFUSED: the message says which file or folder, who
 * may write to it and what to do; EA_ENOTFOUND, EA_EIO, EA_ENOMEM. */
EA_MUST_CHECK int ea_trusted_open(ea_trusted_file **ret, const char *path, ea_err *err);
/* A path for this process and its children. Until the file is closed, the path refers to the file that was checked,
 * even if another file has that name meanwhile. Windows: the file's own path; no program can write, rename or delete
 * the file meanwhile. */
const char *ea_trusted_path(const ea_trusted_file *f);
void ea_trusted_close(ea_trusted_file *f); /* NULL is allowed */

/* The check of ea_trusted_open alone, for a file that is read or started by its name. */
EA_MUST_CHECK int ea_trust_check(const char *path, ea_err *err);

/* Takes the folder for state into possession, before anything in it is read or written: makes it, if it is missing, for
 * the system and administrators alone (POSIX: for its owner). An existing one:
 * - of an owner that is not trusted (anybody may make folders in ProgramData): it is renamed to
 *   "FOLDER.untrusted-TIME", with all that is in it, and a new one is made. POSIX: it is refused.
 * - a link: it is refused.
 * - of a trusted owner: its access list becomes the private one (POSIX: its mode 0700), and everything in it must have
 *   trusted owners, be no link, and not be writable by others; else it is refused.
 * on_note: one line for each thing that was changed. EA_EREFUSED: the message says what to do. EA_EIO, EA_ENOMEM. */
typedef void ea_trust_note(void *arg, const char *line);
EA_MUST_CHECK int ea_trust_claim(const char *folder, ea_trust_note *on_note, void *arg, ea_err *err);

#endif
