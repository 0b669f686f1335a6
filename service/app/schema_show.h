/* Schemas for people: the list of all providers, or one with its events. Before it: "etwagent schema list", "schema
 * show", "providers". After it: schema_print.h. Thread: the main one. */
#ifndef EA_APP_SCHEMA_SHOW_H
#define EA_APP_SCHEMA_SHOW_H

#include "service/core/schema_options.h"

/* Adds what somebody else knows: of all providers, and of the one that is wanted (NULL: none). */
typedef int (*ea_schema_more)(const void *arg, const char *wanted, ea_schemas *into, ea_err *err);

/* Reads what the options name and the catalogue, adds more (NULL: nothing; what it fails with is told, and the rest is
 * printed) and prints, to standard output, all providers of these schemas and of our tables, or the one that is wanted
 * (a name in any case or a GUID; NULL: all). Returns the exit code; what is wrong is told. */
int ea_schema_tell(const ea_schema_options *options, const char *wanted, int json, ea_schema_more more,
                   const void *arg);
/* 1 when both are the same but for the case of ASCII letters. */
int ea_schema_is_name(const char *a, const char *b);

#endif
