/* Files of boot sessions, from the moment at which Windows has written them until the spool has their events: which
 * there are, what they are called, and which of them gives way.
 *
 *     FILE.etl.0001 ... Windows', one a boot, the oldest of which it replaces when all its numbers are used
 *     FILE-booted.etl, FILE-booted.1.etl, ... waiting to be read, the newest first; here the oldest gives way
 *     FILE-taken.etl the newest one, once it is in the spool; older ones are removed then
 *
 * Before it: autologger.c. After it: agent.c, whose sources they are. Thread: the agent's main one.
 * Source of Windows' names: FileMax in "Configuring and Starting an AutoLogger Session", learn.microsoft.com. */
#ifndef EA_ETW_BOOT_FILES_H
#define EA_ETW_BOOT_FILES_H

#include "config/sessions.h"

enum { EA_BOOT_FILES_MAX = 16, EA_BOOT_PATH_BYTES = 1040 }; /* FileMax; a boot-file has 1,000 bytes at the most */

/* How many boots in a row leave a file each while nobody takes them: keep-files beside the newest, within Windows'
 * limits. As many wait to be read. */
unsigned ea_boot_files_count(const ea_session_config *session);

/* Moves what Windows has written to the names under which it waits. Returns how many files were lost by it: those that
 * gave way unread, and one when Windows had used all its numbers, so that it may have replaced some. Each is told in
 * a line. A file that cannot be moved is told, too, and stays. */
unsigned ea_boot_files_take(const ea_session_config *session, void (*note)(void *arg, const char *text), void *arg);

/* The name under which the file of an age waits, 0 being the newest, or, of an age below 0, that of the newest one
 * once it is in the spool. path: EA_BOOT_PATH_BYTES. */
void ea_boot_file_path(const ea_session_config *session, int age, char *path);

#endif
