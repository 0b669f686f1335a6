/* Schemas for people: the list of all providers, or one with its events. Before it: "etwagent schema list", "schema
 * show", "providers". After it: schema_print.h. Thread: the main one. */
#ifndef EA_APP_SCHEMA_SHOW_H
#define EA_APP_SCHEMA_SHOW_H

#include "schemas.h"

/* Prints, to standard output, all providers of these schemas and of our tables, or the one that is wanted (a name in
 * any case or a GUID; NULL: all). EA_ENOTFOUND: nobody knows it. */
EA_MUST_CHECK int ea_schema_show(ea_schemas *schemas, const char *wanted, int json, ea_err *err);

/* 1 when both are the same but for the case of ASCII letters. */
int ea_schema_is_name(const char *a, const char *b);

#endif
