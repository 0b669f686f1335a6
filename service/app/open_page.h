/* A page of what is in traces, for browsers: a flame graph of samples by module, and tables. One HTML file that refers
 * to nothing outside of itself and has no script. Input: the rows of a run of the query language. Called by:
 * cmd_open.c. Calls: proto/base. Thread: the main one. */
#ifndef EA_APP_OPEN_PAGE_H
#define EA_APP_OPEN_PAGE_H

#include "proto/lang/lang.h"

typedef struct ea_open_page ea_open_page;

/* How the page calls an aggregation of the program. Tables come in the order of their first rows. */
typedef struct ea_open_title {
    const char *aggregation, *title;
} ea_open_title;

/* titles: borrowed; the last one has a NULL. The aggregation "stacks" is the flame graph: its first key is a program,
 * its second one a stack, its value a count. */
EA_MUST_CHECK int ea_open_page_create(ea_open_page **ret, const ea_open_title *titles, ea_err *err);
void ea_open_page_destroy(ea_open_page *p); /* NULL is allowed */
/* on_row of a run; arg: the ea_open_page. EA_ENOMEM. */
EA_MUST_CHECK int ea_open_page_row(void *arg, const ea_lang_output *row);
/* Appends the page. title: of the traces; summary: lines, of which each is a paragraph. */
void ea_open_page_write(const ea_open_page *p, const char *title, const ea_text *summary, ea_text *out);

#endif
