/* Schemas for people: the list of all providers, or one with its events. Called by: "etwagent schema list", "schema
 * show", "providers". Calls: schema_print.h. Thread: the main one. */
#ifndef EA_APP_SCHEMA_SHOW_H
#define EA_APP_SCHEMA_SHOW_H

#include "service/core/schema_options.h"

/* Adds schemas from another source: the list of all providers, and the wanted one (NULL: none). */
typedef int (*ea_schema_more)(const void *arg, const char *wanted, ea_schemas *into, ea_err *err);

/* Reads the schemas that the options name and the catalogue, calls more (NULL: nothing; its failure is logged, and the
 * rest is printed) and prints to standard output all providers of these schemas and of our tables, or only the wanted
 * one (a name in any case or a GUID; NULL: all). Returns the exit code; errors are logged. */
int ea_schema_print(const ea_schema_options *options, const char *wanted, int json, ea_schema_more more,
                    const void *arg);
/* 1 when both are the same but for the case of ASCII letters. */
int ea_schema_is_name(const char *a, const char *b);

#endif
