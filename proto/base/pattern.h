/* Names in which ASCII letters of either case are equal, among them agents', and patterns of such names. Called by: all
 * folders. Thread: any. */
#ifndef EA_BASE_PATTERN_H
#define EA_BASE_PATTERN_H

#include <stddef.h>

/* 1 when a name fits one of the patterns, which commas separate: * is any text, even none; letters of either case are
 * alike, as in Windows' names. */
int ea_name_in(const char *patterns, const char *name);
/* 1 when each name that fits one of the patterns fits one of the wider ones. 0 also when several of the wider ones
 * together would be needed for one pattern. */
int ea_patterns_within(const char *patterns, const char *wider);

/* A letter of ASCII in lower case; any other byte as it is. */
static inline char ea_ascii_lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

/* Puts ASCII letters into lower case, in place: the one form under which a name is stored and looked up. */
void ea_name_to_lower(char *name);
/* 1 when two names differ in the case of ASCII letters at most. */
int ea_name_equal(const char *a, const char *b);
/* 1 when so many bytes may be an agent's name, a certificate's common name: 1 to EA_AGENT_NAME_MAX ASCII letters,
 * digits, . _ -, of which the first is no dot. */
int ea_name_is_agent(const char *name, size_t len_bytes);

enum { EA_AGENT_NAME_MAX = 64 }; /* X.520's bound for a common name */

#endif
