/* Reads a line of JSON from left to right: what a program takes of it, in the order in which it comes. Used by: lists
 * of modules and of events (proto/relog). Thread: the cursor's owner's. */
#ifndef EA_BASE_JSON_CURSOR_H
#define EA_BASE_JSON_CURSOR_H

#include "proto/base/text.h"

typedef struct ea_json_cursor {
    const char *at, *end; /* borrowed */
} ea_json_cursor;

void ea_json_skip_blanks(ea_json_cursor *c);
/* Takes the character after blanks: 1; 0: another one, or none, comes. */
int ea_json_take_char(ea_json_cursor *c, char wanted);
/* A text and the quote at its end, after the quote before it. Any bytes are taken as they are. 0: it does not end, has
 * a wrong escape, or there is no memory. */
int ea_json_take_text(ea_json_cursor *c, ea_text *ret);
/* A number or a word (true, false, null) as it is written; 0: there is none. */
int ea_json_take_word(ea_json_cursor *c, ea_text *ret);

#endif
