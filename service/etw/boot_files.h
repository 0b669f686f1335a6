/* Files of boot sessions, from the time when Windows has written them until the spool has their events: their names,
 * and which file is dropped at the limit.
 *
 *     FILE.etl.001 ...                          Windows' files, one for each boot
 *     FILE-booted.etl, FILE-booted.1.etl, ...   waiting to be read, the newest first
 *     FILE-taken.etl                            the newest one whose events are in the spool
 *
 * Windows replaces its oldest file when all its numbers are used. The folder is listed for any number of digits:
 * Windows writes three, and Microsoft's page says four. At the limit of waiting files the oldest one is dropped. Older
 * taken files are removed.
 *
 * Called by: autologger.c; agent.c, which reads the files as sources. Thread: the agent's main one.
 * Source of Windows' names: FileMax in "Configuring and Starting an AutoLogger Session", learn.microsoft.com. */
#ifndef EA_ETW_BOOT_FILES_H
#define EA_ETW_BOOT_FILES_H

#include "config/sessions.h"

enum { EA_BOOT_FILES_MAX = 16, EA_BOOT_PATH_BYTES = 1040 }; /* FileMax; a boot-file has 1,000 bytes at the most */

/* The number of consecutive boots that leave a file each until the agent takes them: keep-files and the newest, within
 * Windows' limits. It is also the limit of waiting files. */
unsigned ea_boot_files_count(const ea_session_config *session);

/* Renames Windows' files to the names of waiting files. Returns the number of lost files: those that were dropped
 * unread, and one when Windows had used all its numbers, so that it may have replaced some. Each is logged. A file that
 * cannot be renamed is logged, too, and keeps its name. */
unsigned ea_boot_files_take(const ea_session_config *session, void (*note)(void *arg, const char *text), void *arg);

/* The name of the waiting file of an age, 0 being the newest; for an age below 0, the name of the newest file after its
 * events are in the spool. path: EA_BOOT_PATH_BYTES. */
void ea_boot_file_path(const ea_session_config *session, int age, char *path);

#endif
