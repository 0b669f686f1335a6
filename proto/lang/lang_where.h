/* Conditions of the query language, as of --where and of filters, and the compiling that all users of the language
 * share: a program may name classes that no table has; they are collected once, when a program names one.
 * Calls: lang.h, proto/event/schema. Called by: the commands, service/core. Thread: the owner's. */
#ifndef EA_LANG_LANG_WHERE_H
#define EA_LANG_LANG_WHERE_H

#include "proto/base/cli.h"
#include "proto/event/schema/described.h"
#include "proto/lang/lang.h"

/* The classes that programs may name: those of the tables, and further ones when a program names one. */
typedef struct ea_lang_classes {
    ea_registry *registry; /* borrowed */
    const ea_schemas
        *schemas; /* classes of these and of the catalogue are further ones; NULL: of the catalogue alone */
    int (*collect)(void *arg, ea_class_list *list, ea_err *err); /* adds others, as those of a trace; NULL: none */
    void *arg;
    int is_collected;
    ea_class_list further; /* ea_lang_classes_deinit frees it */
} ea_lang_classes;

void ea_lang_classes_deinit(ea_lang_classes *c);

/* Reads a file with a program, of EA_LANG_TEXT_MAX_BYTES at the most. *ret_text: the caller's to free, also after a
 * failure. */
EA_MUST_CHECK int ea_lang_read_text(char **ret_text, size_t *ret_len_bytes, const char *path, ea_err *err);

/* Compiles a text. args: of $1, $2 ..., they outlive the program; NULL: none. When the text is no program, the result
 * is EA_EINVAL, *ret_problem says why and *err is not written. Other errors are in *err, and ret_problem->line is 0. */
EA_MUST_CHECK int ea_lang_compile_text(ea_lang_program **ret, const char *text, size_t len_bytes,
                                       const ea_strings *args, ea_lang_classes *classes, ea_lang_problem *ret_problem,
                                       ea_err *err);
/* The same of an expression between two other texts, after a probe of each pattern (none: of all classes). The place of
 * a problem is that in the expression. An expression that would end the text before it is a problem. */
EA_MUST_CHECK int ea_lang_compile_expression(ea_lang_program **ret, const ea_strings *patterns, const char *before,
                                             const char *expression, const char *after, ea_lang_classes *classes,
                                             ea_lang_problem *ret_problem, ea_err *err);
/* The same of a condition: a program that calls exit() for an event for which it holds. Stacks are no part of it. */
EA_MUST_CHECK int ea_lang_compile_condition(ea_lang_program **ret, const ea_strings *patterns, const char *condition,
                                            ea_lang_classes *classes, ea_lang_problem *ret_problem, ea_err *err);

/* Prints a problem with its place on standard error, for a command. EA_EUSAGE. */
EA_MUST_CHECK int ea_lang_report_problem(const ea_lang_problem *p, const char *name, const char *text, size_t len_bytes,
                                         ea_err *err);

/* ---- watch ---- */

/* What the commands that run a program have in common. */
typedef struct ea_lang_options {
    const char *program, *exe;
    ea_strings args;
    int json, csv, addresses;
    uint64_t keys, memory, pid;
} ea_lang_options;

/* Their rows of a command's options, at an offset of an ea_lang_options. */
#define EA_LANG_AT(at, field) ((at) + offsetof(ea_lang_options, field))
#define EA_LANG_OPTIONS(at)                                                                                            \
    {.name = "execute",                                                                                                \
     .letter = 'e',                                                                                                    \
     .argument = "PROGRAM",                                                                                            \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = EA_LANG_AT(at, program),                                                                                \
     .help = "the program; without it the first operand is the file with the program"},                                \
        {.name = "arg",                                                                                                \
         .letter = 'a',                                                                                                \
         .argument = "VALUE",                                                                                          \
         .type = EA_OPT_STRINGS,                                                                                       \
         .offset = EA_LANG_AT(at, args),                                                                               \
         .help = "what $1 in the program stands for, the second one $2; a number or a text; may be repeated"},         \
        {.name = "pid",                                                                                                \
         .letter = 'p',                                                                                                \
         .argument = "PID",                                                                                            \
         .type = EA_OPT_U64,                                                                                           \
         .offset = EA_LANG_AT(at, pid),                                                                                \
         .min = 1,                                                                                                     \
         .max = UINT32_MAX,                                                                                            \
         .help = "run the clauses of events only for events of this process; begin, end and tick run always"},         \
        {.name = "exe",                                                                                                \
         .argument = "PATTERN",                                                                                        \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = EA_LANG_AT(at, exe),                                                                                \
         .help = "run the clauses of events only for processes whose image name fits the pattern (* is any text)"},    \
        {.name = "json", .type = EA_OPT_FLAG, .offset = EA_LANG_AT(at, json), .help = "print JSON lines"},             \
        {.name = "csv", .type = EA_OPT_FLAG, .offset = EA_LANG_AT(at, csv), .help = "print CSV"},                      \
        {.name = "addresses",                                                                                          \
         .type = EA_OPT_FLAG,                                                                                          \
         .offset = EA_LANG_AT(at, addresses),                                                                          \
         .help = "stacks are addresses; otherwise each frame is its module and the offset in it, where the module is " \
                 "known"},                                                                                             \
        {.name = "keys",                                                                                               \
         .argument = "N",                                                                                              \
         .type = EA_OPT_U64,                                                                                           \
         .offset = EA_LANG_AT(at, keys),                                                                               \
         .fallback = "65536",                                                                                          \
         .min = 1,                                                                                                     \
         .max = 16777216,                                                                                              \
         .help = "how many keys an aggregation or a map has at the most; values of further keys are counted under "    \
                 "(others)"},                                                                                          \
    {                                                                                                                  \
        .name = "memory", .argument = "SIZE", .type = EA_OPT_SIZE, .offset = EA_LANG_AT(at, memory),                   \
        .fallback = "64MiB", .min = 1 << 20, .max = (uint64_t)16 << 30,                                                \
        .help = "memory of all variables, aggregations and texts of the program together"                              \
    }

/* The program's text, of the option or of a file (path: NULL: none is named), and its name for messages. *ret_text: the
 * caller's to free, also after a failure. */
EA_MUST_CHECK int ea_lang_options_read(const ea_lang_options *o, const char *path, const char **ret_name,
                                       char **ret_text, size_t *ret_len_bytes, ea_err *err);
/* What they say of a run that prints to standard output. */
ea_lang_run_options ea_lang_options_run(const ea_lang_options *o);
/* Prints on standard error what a run could not do. */
void ea_lang_report_counts(const ea_lang_run *run, const char *command);

/* ---- --where ---- */

typedef struct ea_where ea_where;

/* A condition on events of the classes that fit a pattern. A mistake is printed, and is EA_EUSAGE. classes are borrowed
 * during the call. */
EA_MUST_CHECK int ea_where_create(ea_where **ret, const char *condition, const ea_strings *patterns,
                                  ea_lang_classes *classes, ea_err *err);
void ea_where_destroy(ea_where *w); /* NULL is allowed */
/* 1 when the condition reads what events before say: of processes, threads, modules, or names. */
int ea_where_needs_state(const ea_where *w);
/* Events of another source begin: their classes are others, and nothing is known of the machine's state. */
EA_MUST_CHECK int ea_where_begin(ea_where *w, ea_err *err);
/* Their classes are about to be freed. */
void ea_where_end(ea_where *w);
/* 1 when the condition holds, 0, or an error. Each event is given, so that the state is known. */
EA_MUST_CHECK int ea_where_holds(ea_where *w, const ea_record *record, const ea_class *c, const ea_clock *clock,
                                 ea_err *err);

#endif
