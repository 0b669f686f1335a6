/* Boot sessions: the registry keys by which Windows starts sessions before any service runs, and how the agent takes
 * them over when it starts. Configured by: config/sessions.h (boot-file). Called by: agent.c, which ships their files.
 * Thread: the main one. On other systems the functions do nothing.
 *
 * Source of the keys: "Configuring and Starting an AutoLogger Session", learn.microsoft.com. */
#ifndef EA_ETW_AUTOLOGGER_H
#define EA_ETW_AUTOLOGGER_H

#include "config/sessions.h"

/* Called with a line for a person for each part of a session that is not available. */
typedef void (*ea_autologger_note)(void *arg, const char *text);

/* Makes the registry have exactly the configuration's boot sessions: writes those of each session with a boot-file and
 * removes others of this program. sessions: of ea_session_config; NULL: none. A part of a provider that is unknown on
 * this machine is logged and skipped. EA_EREFUSED, EA_EIO. */
EA_MUST_CHECK int ea_autologgers_write(const ea_tables *sessions, ea_autologger_note note, void *note_arg, ea_err *err);

/* Ends the boot session, if it runs, and takes its files, including those of earlier boots (boot_files.h). *ret_lost:
 * the number of lost files; each is logged. Does nothing without a boot-file. */
EA_MUST_CHECK int ea_autologger_take(const ea_session_config *session, ea_autologger_note note, void *note_arg,
                                     unsigned *ret_lost, ea_err *err);

#endif
