/* Inside config: what the parts of sessions.h share. session_providers.c has the providers, sessions.c the sessions,
 * session_words.c writes them. Thread: any. */
#ifndef EA_SESSION_PARTS_H
#define EA_SESSION_PARTS_H

#include "proto/base/cli.h"

/* 1 when the list, which ends with NULL, has the word. */
int ea_word_is_in(const char *const *list, const char *word);
/* 0 when each of the given words is in the list; else EA_EINVAL with what was expected. */
EA_MUST_CHECK int ea_words_are_of(const ea_strings *given, const char *const *known, ea_err *err);

extern const char *const ea_session_priorities[]; /* by ea_session_config.priority; ends with NULL */

#endif
