/* Inside config/import: what the readers of the several command lines share. See import.h. */
#ifndef EA_IMPORT_IMPORTER_H
#define EA_IMPORT_IMPORTER_H

#include "config/import/import.h"
#include "config/kernel_flags.h"

EA_MUST_CHECK int ea_import_xperf(ea_import *im, const char *const *words, size_t count, ea_err *err);
EA_MUST_CHECK int ea_import_logman(ea_import *im, const char *const *words, size_t count, ea_err *err);
EA_MUST_CHECK int ea_import_perfview(ea_import *im, const char *const *words, size_t count, ea_err *err);

/* Text from a command line: UTF-8 without control characters. EA_EUSAGE, EA_ENOMEM. */
EA_MUST_CHECK int ea_import_check_text(const char *text, ea_err *err);
/* What our configuration refuses has been asked for: by the rows' own checks. EA_EUSAGE. */
EA_MUST_CHECK int ea_import_check(const ea_import *im, ea_err *err);
/* A line for the notes. */
void ea_import_note(ea_import *im, const char *format, ...) EA_PRINTF(2, 3);
/* A copy of len_bytes in the arena, NUL-terminated; NULL without memory. */
const char *ea_import_text(ea_import *im, const char *s, size_t len_bytes);
/* A session with all defaults and a name that fits and is free; name may be anything. NULL: too many, or no memory. */
ea_session_config *ea_import_session(ea_import *im, const char *name, size_t len_bytes, int kind);
/* A provider of that session with all defaults; given twice, it is the same one. NULL: too many, or no memory. */
ea_provider_config *ea_import_provider(ea_import *im, ea_session_config *s, const char *name, size_t len_bytes);
/* Adds a word unless it is there. EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ea_import_add(ea_import *im, ea_strings *list, const char *word, size_t len_bytes, ea_err *err);
/* Adds a kernel flag, or the flags of a group. */
EA_MUST_CHECK int ea_import_flag(ea_import *im, ea_session_config *s, const char *word, size_t len_bytes, ea_err *err);
/* Adds the class of an event that a tool names; a note when it has none. wpr: by WPR's names, else by xperf's. */
EA_MUST_CHECK int ea_import_stack(ea_import *im, ea_session_config *s, const char *word, size_t len_bytes, int wpr,
                                  ea_err *err);
/* min and max as given in bytes and counts (0: not given), brought into the rows' ranges, with a note where they were
 * not. */
void ea_import_buffers(ea_import *im, ea_session_config *s, uint64_t buffer_bytes, uint64_t min, uint64_t max);
/* Equal in any case. */
int ea_import_is(const char *word, const char *name);

#endif
