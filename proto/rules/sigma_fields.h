/* Which events and fields of this program a Sigma rule's log source and fields stand for. config/sigma has the tables,
 * one a category and one of all services; they are part of the program. Calls: proto/base. Called by: the commands.
 * Thread: the tables are constant after ea_sigma_tables_create, and may be read by several threads.
 *
 * A row says: the rule's field FIELD of this log source is OUR_FIELD of the events EVENTS, and OPTION brings it.
 *
 *   events     classes of events (class_names.h) between commas: each of them has the field. A class may be followed by
 *              +CLASS: the value needs events of that class, too. "-": no event.
 *   our field  NAME        a field of the event itself; NAME:path is a path with a drive letter
 *              SOURCE.NAME something about the event: SOURCES of sigma_fields.c lists the sources and their names
 *              =TEXT       the same text for each of these events
 *              *           the event's field of the same name (the rule's field is * as well)
 *              Rows whose rule's field begins with @ are about the events: @when says which are meant (NAME=VALUE,
 *              NAME!=VALUE); @process and @target name the field with the number of the process that process. and
 *              target. are about (without @process: the process of the event's head).
 *   option     parts with " + " between them, ea_sigma_option_next */
#ifndef EA_RULES_SIGMA_FIELDS_H
#define EA_RULES_SIGMA_FIELDS_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ea_sigma_row {
    const char *sigma, *events, *field, *option;
    uint32_t number; /* among the rows of all tables */
} ea_sigma_row;

typedef struct ea_sigma_source {
    const char *name; /* a category or a service */
    int is_service;
    const char *channel; /* of a service; else "" */
    const ea_sigma_row *rows;
    size_t row_count;
} ea_sigma_source;

/* A file of tab-separated columns; a list of files ends with a name of NULL. */
typedef struct ea_sigma_file {
    const char *name; /* without .tsv: the category; "services": the table of all services */
    const unsigned char *data;
    size_t len_bytes;
} ea_sigma_file;

extern const ea_sigma_file ea_sigma_files[]; /* config/sigma, which CMake puts into the program */

typedef struct ea_sigma_tables ea_sigma_tables;

/* Errors: EA_ENOMEM; EA_EFORMAT with the file and the line. */
EA_MUST_CHECK int ea_sigma_tables_create(ea_sigma_tables **ret, const ea_sigma_file *files, ea_err *err);
void ea_sigma_tables_destroy(ea_sigma_tables *t); /* NULL is allowed */
/* Of all tables. */
size_t ea_sigma_row_count(const ea_sigma_tables *t);
const ea_sigma_source *ea_sigma_sources(const ea_sigma_tables *t, size_t *ret_count);
/* The events that serve a log source of Windows; "": not given. NULL: none do. */
const ea_sigma_source *ea_sigma_source_find(const ea_sigma_tables *t, const char *product, const char *category,
                                            const char *service);
/* The rows of a field, one after the other; after: NULL at first. NULL: no more. */
const ea_sigma_row *ea_sigma_row_next(const ea_sigma_source *s, const char *field, const ea_sigma_row *after);

enum ea_sigma_option {
    EA_SIGMA_FLAGS,    /* "flags: NAME": of a kernel session */
    EA_SIGMA_IMAGES,   /* "images: true": of a session */
    EA_SIGMA_VALUES,   /* "registry-values: true": of a provider of a session */
    EA_SIGMA_PROVIDER, /* "provider: NAME": of a session */
    EA_SIGMA_POLICY,   /* "policy: TEXT": of Windows, beside the others */
    EA_SIGMA_LOG,      /* "log: CHANNEL": a channel of the event log, or a file of it (.evtx) */
    EA_SIGMA_PART,     /* "part: REASON": why the value is not all that the rule's field is */
    EA_SIGMA_NONE      /* "none: REASON": nothing brings the field */
};

/* The next part of a row's option: 1, its kind, its whole text, and the text after the colon. at: the row's option at
 * first. 0: no more. */
int ea_sigma_option_next(const char **at, enum ea_sigma_option *ret_kind, const char **ret_text, size_t *ret_len,
                         const char **ret_value, size_t *ret_value_len);

#endif
