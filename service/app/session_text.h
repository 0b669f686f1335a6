/* How a session of Windows is printed. Used by: cmd_sessions.c, cmd_session.c. Thread: the main one. */
#ifndef EA_APP_SESSION_TEXT_H
#define EA_APP_SESSION_TEXT_H

#include "proto/base/text.h"
#include "service/etw/live.h"

/* The keys that ea_session_text_json writes, for help texts. */
#define EA_SESSION_TEXT_KEYS                                                                                           \
    "name, logger, mode, buffer_bytes, min_buffers, max_buffers, buffers, free_buffers, flush_seconds,\n"              \
    "clock (1: performance counter, 2: system time, 3: processor cycles), file (null without one), file_mib (how\n"    \
    "large it may become), written_buffers, lost_events, lost_buffers, flags (of the kernel, as Windows has them)"

/* The members of a JSON object, without its braces. */
void ea_session_text_json(ea_text *t, const ea_live_status *s);
/* One line. */
void ea_session_text_line(ea_text *t, const ea_live_status *s);

#endif
