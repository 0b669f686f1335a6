/* Sessions of boot time: what the registry tells Windows to start before any service runs, and what becomes of them
 * when the agent does. Before it: config/sessions.h (boot-file). After it: Windows; agent.c ships their files. Thread:
 * the main one. Elsewhere nothing is there and nothing is done.
 *
 * Source of the keys: "Configuring and Starting an AutoLogger Session", learn.microsoft.com. */
#ifndef EA_ETW_AUTOLOGGER_H
#define EA_ETW_AUTOLOGGER_H

#include "config/sessions.h"

/* Told what could not be had, a line for a person. */
typedef void (*ea_autologger_note)(void *arg, const char *text);

/* Makes the registry have exactly the boot sessions that the configuration wants: those of each session with a
 * boot-file are written, others of ours removed. sessions: of ea_session_config; NULL: none is wanted. What of a
 * provider is not known here is told and left out. EA_EREFUSED, EA_EIO. */
EA_MUST_CHECK int ea_autologgers_write(const ea_tables *sessions, ea_autologger_note note, void *note_arg, ea_err *err);

/* Ends the session of boot time, if it runs, and takes its files, those of earlier boots, too (boot_files.h).
 * *ret_lost: how many of them were lost, each of which was told. Nothing is done without a boot-file. */
EA_MUST_CHECK int ea_autologger_take(const ea_session_config *session, ea_autologger_note note, void *note_arg,
                                     unsigned *ret_lost, ea_err *err);

#endif
