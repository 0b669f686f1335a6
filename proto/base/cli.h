/* Command lines: one row an option gives parsing, storage, default and help text; one row a command gives dispatch.
 * Before it: main(). After it: each command. Thread: the main one. */
#ifndef EA_BASE_CLI_H
#define EA_BASE_CLI_H

#include "err.h"

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
};

enum { EA_STRINGS_MAX = 64 };
typedef struct ea_strings {
    const char *items[EA_STRINGS_MAX];
    size_t count;
} ea_strings;

typedef struct ea_option {
    const char *name;     /* "collector", without the dashes */
    char letter;          /* short form, 0 for none */
    const char *argument; /* "URL" in the help text; NULL for a flag */
    enum ea_option_type type;
    size_t offset;              /* of the target in the command's options struct */
    const char *fallback;       /* default, parsed like an argument; NULL: the target stays zero */
    const char *const *choices; /* EA_OPT_CHOICE: NULL-terminated */
    int required;
    const char *help; /* one sentence, lower case, no full stop */
} ea_option;

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
} ea_command;

/* A program: dispatches argv[1] to a command (names may be two words: "ca init"), serves --help, --version and
 * "help COMMAND". "PROGRAM --complete bash|zsh|fish" prints a completion script, "PROGRAM --man" a man page, both made
 * from the same rows. Returns the exit code; usage errors are printed with the nearest known name and give 2. */
int ea_cli_main(const char *program, const char *version, const char *summary, const ea_command *const *commands,
                int argc, char **argv);

#endif
