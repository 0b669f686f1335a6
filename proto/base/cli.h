/* Options: one row gives parsing, storage, default, range and help text, on a command line and in a configuration file
 * (config/config.h) alike; one row a command gives dispatch. Input: the arguments of main(), a configuration file.
 * Calls: the command. Thread: the main one. */
#ifndef EA_BASE_CLI_H
#define EA_BASE_CLI_H

#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stddef.h>
#include <stdint.h>

enum ea_option_type {
    EA_OPT_FLAG,     /* int, set to 1 */
    EA_OPT_STRING,   /* const char * into argv */
    EA_OPT_STRINGS,  /* ea_strings: may be given several times */
    EA_OPT_U64,      /* uint64_t, decimal or 0x hex */
    EA_OPT_DURATION, /* int64_t ns: "10s" */
    EA_OPT_SIZE,     /* uint64_t bytes: "64MiB" */
    EA_OPT_CHOICE,   /* int, index into choices */
    /* in configuration files only: */
    EA_OPT_TABLE,  /* a mapping into the struct at offset, as .table says */
    EA_OPT_TABLES, /* a list of such mappings: ea_tables at offset */
    EA_OPT_LABELS, /* a mapping of names to texts: ea_labels at offset */
};

enum { EA_STRINGS_MAX = 64 };

typedef struct ea_strings {
    const char *items[EA_STRINGS_MAX];
    size_t count;
} ea_strings;

typedef struct ea_tables {
    void *items; /* count structs of .table->size bytes */
    size_t count;
} ea_tables;

typedef struct ea_table ea_table;

typedef struct ea_option {
    const char *name;     /* "collector", without the dashes */
    char letter;          /* short form, 0 for none */
    const char *argument; /* "URL" in the help text; NULL for a flag */
    enum ea_option_type type;
    size_t offset;              /* of the target in the command's options struct */
    const char *fallback;       /* default, parsed like an argument; NULL: the target stays zero */
    const char *const *choices; /* EA_OPT_CHOICE: NULL-terminated */
    int required;
    const char *unless;    /* when a required option may be missing, for people; NULL: never */
    const char *help;      /* one sentence, lower case, no full stop */
    uint64_t min, max;     /* of a number, of ns, of bytes, both included; of a list: its length. max 0: any */
    const ea_table *table; /* EA_OPT_TABLE, EA_OPT_TABLES */
    const char *example;   /* in the example of a configuration file, when it differs from the default; of a list of
                              mappings: not NULL when the example has one */
} ea_option;

/* A value in a configuration file. */
typedef struct ea_option_place {
    char path[160];        /* names of options and places in lists: "sessions/0/filters/1/where" */
    uint32_t line, column; /* in the value's text, from 1; 0: its begin */
} ea_option_place;

/* The rows of one mapping of a configuration file. */
struct ea_table {
    const char *summary;   /* what such a mapping is, for the reference page */
    const ea_option *rows; /* ends with a row whose name is NULL */
    size_t size;           /* of the struct */
    int passes_unknown;    /* keys without a row are passed over; else they are mistakes */
    /* What rows cannot say: an error's message, and in *ret_key the key that is wrong (untouched: the whole mapping).
     * May be NULL. */
    int (*check)(const void *table, const char **ret_key, ea_err *err);
    /* The same of values inside of lists and mappings, after check: *ret_place says which, and where in its text. */
    int (*check_values)(const void *table, ea_option_place *ret_place, ea_err *err);
};

/* Levenshtein distance of two short names, for "did you mean"; above 3 it says nothing. */
size_t ea_name_distance(const char *a, const char *b);
/* Parses value as o says and stores it in options. An error's message says what was expected ("expected one of always,
 * never"), without the option's name. Not for tables and labels. */
EA_MUST_CHECK int ea_option_store(const ea_option *o, const char *value, void *options, ea_err *err);
/* A number of the row's unit as one writes it: "64KiB", "1500ms", "7". */
void ea_option_amount(const ea_option *o, uint64_t v, ea_text *t);
/* "1 to 64", "4KiB to 1GiB": of a row with a max. */
void ea_option_range(const ea_option *o, ea_text *t);
/* Stores the fallbacks of all rows, those of embedded tables too. */
EA_MUST_CHECK int ea_option_fallbacks(const ea_option *rows, void *options, ea_err *err);
/* The row of that name, or NULL; then *ret_nearest is the name that was probably meant, or NULL. */
const ea_option *ea_option_find(const ea_option *rows, const char *name, size_t len, const char **ret_nearest);

/* How a command reads its options from a file as well (config/config.h has the only one): its option --config FILE is
 * read before the command line's other options, which win. *ret_config owns what the options then point to. */
typedef struct ea_config_reader {
    int (*read)(void **ret_config, const char *path, const ea_option *rows, void *options, ea_err *err);
    void (*destroy)(void *config);
} ea_config_reader;

typedef struct ea_command {
    const char *name;
    const char *operands;     /* "TRACE...", "" */
    const char *summary;      /* one line */
    const char *details;      /* paragraphs for --help: what it prints, exit codes, examples; may be NULL */
    const ea_option *options; /* ends with a row whose name is NULL */
    size_t options_size;      /* sizeof the options struct; zeroed before the parse */
    /* options: the struct, filled in; operands: borrowed from argv. Returns the process's exit code. */
    int (*run)(const void *options, int operand_count, char **operands);
    int min_operands, max_operands; /* max -1: any number */
    const ea_config_reader *config; /* NULL: no --config */
} ea_command;

/* A program: dispatches argv[1] to a command (names may be two words: "ca init"), serves --help, --version and
 * "help COMMAND". "PROGRAM --complete bash|zsh|fish" prints a completion script, "PROGRAM --man" a man page, both made
 * from the same rows. Returns the exit code; usage errors are printed with the nearest known name and give 2. */
int ea_cli_main(const char *program, const char *version, const char *summary, const ea_command *const *commands,
                int argc, char **argv);

#endif
