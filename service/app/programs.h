/* Programs and conditions of the query language, for commands that read traces: compiling with the classes of the
 * trace. Called by: the commands. Calls: proto/lang, service/decode. Thread: the main one. */
#ifndef EA_APP_PROGRAMS_H
#define EA_APP_PROGRAMS_H

#include "proto/event/class_names.h"
#include "proto/lang/lang_where.h"
#include "proto/relog/rewrite.h"
#include "service/core/schema_options.h"

/* Where classes are found that no table has: the traces, the catalogue, the files of the options. */
typedef struct ea_program_classes {
    char **paths;
    int path_count;
    const ea_schema_options *schemas;
} ea_program_classes;

/* Compiles a text; args: of $1, $2 ..., NULL: none. A mistake is printed with its place, and is EA_EUSAGE. */
EA_MUST_CHECK int ea_program_compile(ea_lang_program **ret, const char *name, const char *text, size_t len_bytes,
                                     const ea_strings *args, const ea_program_classes *from, ea_err *err);

/* Prints the words with which a program may go on, one a line, each once. EA_EIO, EA_ENOMEM. */
EA_MUST_CHECK int ea_program_complete(const char *text, const ea_program_classes *from, ea_err *err);

/* A condition on events (--where) of the classes of a choice. Each record of the traces is given to
 * ea_where_holds, so that the state is known. */
EA_MUST_CHECK int ea_program_where(ea_where **ret, const char *condition, const ea_class_choice *choice,
                                   const ea_program_classes *from, ea_err *err);

/* Rules for values of events (relog --set). */
EA_MUST_CHECK int ea_program_rewrite(ea_rewrite **ret, const ea_strings *rules, const ea_program_classes *from,
                                     ea_err *err);

#endif
