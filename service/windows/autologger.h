/* Sessions of boot time: what the registry tells Windows to start before any service runs, and what becomes of them
 * when the agent does. Before it: config/sessions.h (boot-file). After it: Windows; agent.c ships their files. Thread:
 * the main one. Elsewhere nothing is there and nothing is done.
 *
 * Source of the keys: "Configuring and Starting an AutoLogger Session", learn.microsoft.com. */
#ifndef EA_WINDOWS_AUTOLOGGER_H
#define EA_WINDOWS_AUTOLOGGER_H

#include "sessions.h"

/* Told what could not be had, a line for a person. */
typedef void (*ea_autologger_note)(void *arg, const char *text);

/* Makes the registry have exactly the boot sessions that the configuration wants: those of each session with a
 * boot-file are written, others of ours removed. sessions: of ea_session_config; NULL: none is wanted. What of a
 * provider is not known here is told and left out. EA_EREFUSED, EA_EIO. */
EA_MUST_CHECK int ea_autologgers_write(const ea_tables *sessions, ea_autologger_note note, void *note_arg, ea_err *err);

/* Ends the session of boot time, if it runs, and puts its file where it stays until the next boot: ret_path, of
 * ret_bytes. Returns 1 when there is such a file, of this boot or of one before it, 0 when there is none, or negative.
 */
EA_MUST_CHECK int ea_autologger_take(const ea_session_config *session, char *ret_path, size_t ret_bytes, ea_err *err);

#endif
