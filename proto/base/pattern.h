/* Patterns of names, as tokens have them for hosts.
 * Before it: nothing. After it: collector/access, collector/query. Thread: any. */
#ifndef EA_BASE_PATTERN_H
#define EA_BASE_PATTERN_H

/* 1 when a name fits one of the patterns, which commas separate: * is any text, even none; letters of either case are
 * alike, as in Windows' names. */
int ea_name_in(const char *patterns, const char *name);

#endif
