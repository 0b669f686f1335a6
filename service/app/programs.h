/* Programs and conditions of the query language, for commands that read traces: compiling with the classes of the
 * trace, and --where. Called by: the commands. Calls: proto/lang, service/decode. Thread: the main one. */
#ifndef EA_APP_PROGRAMS_H
#define EA_APP_PROGRAMS_H

#include "proto/event/class_names.h"
#include "proto/lang/lang.h"
#include "service/core/schema_options.h"

/* Where classes are found that no table has: the traces, the catalogue, the files of the options. */
typedef struct ea_program_classes {
    char **paths;
    int path_count;
    const ea_schema_options *schemas;
} ea_program_classes;

/* A text, of which some bytes at its begin (without a line's end) and its end are not the user's. */
typedef struct ea_program_text {
    const char *text;
    size_t len_bytes, before_bytes, after_bytes;
    const ea_strings *args; /* of $1, $2 ...; NULL: none */
} ea_program_text;

/* Compiles a text. A mistake is printed with its place in the user's part, and is EA_EUSAGE. */
EA_MUST_CHECK int ea_program_compile(ea_lang_program **ret, const char *name, const ea_program_text *text,
                                     const ea_program_classes *from, ea_err *err);

/* A condition on events: --where. */
typedef struct ea_where ea_where;
/* choice: the classes that the condition is about. */
EA_MUST_CHECK int ea_where_create(ea_where **ret, const char *condition, const ea_class_choice *choice,
                                  const ea_program_classes *from, ea_err *err);
void ea_where_destroy(ea_where *w); /* NULL is allowed */
/* 1 when the condition holds, 0, or an error. Each record of the trace is given, so that the state is known. */
EA_MUST_CHECK int ea_where_holds(ea_where *w, const ea_record *record, const ea_class *c, const ea_clock *clock,
                                 ea_err *err);

#endif
