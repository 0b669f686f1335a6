/* Import: converts what a command line of xperf, logman or PerfView, or a recording profile of WPR, would record, to
 * sessions of our configuration. An element without a counterpart is reported in a note, never skipped silently. Called
 * by: "etwagent import". Its results go to sessions.h, which writes them as YAML. Thread: its owner's. */
#ifndef EA_IMPORT_IMPORT_H
#define EA_IMPORT_IMPORT_H

#include "config/sessions.h"
#include "proto/base/arena.h"

enum { EA_IMPORT_WORDS_MAX = 1024, EA_IMPORT_TEXT_MAX_BYTES = 1 << 20 };

typedef struct ea_import {
    ea_arena arena; /* all that the sessions point to */
    ea_session_config sessions[EA_SESSIONS_MAX];
    size_t count;
    ea_text notes; /* one a line */
} ea_import;

void ea_import_init(ea_import *im);
void ea_import_deinit(ea_import *im);

/* Finds out by the first word which tool's command line it is: xperf, logman, PerfView (with or without a path and
 * .exe). words: of the command line, quotes taken off. Errors: EA_EUSAGE with what was expected, EA_ENOMEM. */
EA_MUST_CHECK int ea_import_command(ea_import *im, const char *const *words, size_t count, ea_err *err);
/* Splits a command line as Windows does: spaces between words, "double quotes" around them, \" inside; single quotes
 * stay. words has room for capacity; they live in the arena. EA_ELIMIT: too many. */
EA_MUST_CHECK int ea_import_split(ea_import *im, const char *line, const char **words, size_t capacity,
                                  size_t *ret_count, ea_err *err);
/* PerfView's provider strings alone: "Name:Keywords:Level:Options,...". */
EA_MUST_CHECK int ea_import_perfview_providers(ea_import *im, const char *text, ea_err *err);

/* A recording profile of WPR (.wprp), len_bytes of XML; file: for messages. profile: Id or name of one of its profiles;
 * NULL: the first. */
EA_MUST_CHECK int ea_import_wpr(ea_import *im, const char *file, const void *data, size_t len_bytes,
                                const char *profile, ea_err *err);

/* The notes as comments, then "sessions:" and all of them. */
void ea_import_write(const ea_import *im, ea_text *t);

#endif
