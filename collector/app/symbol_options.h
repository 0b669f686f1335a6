/* What the commands that name addresses (symbols, where) share: their options, and how a symbol is printed. Called by:
 * main.c. Calls: collector/symbols. Thread: the main one. */
#ifndef EC_APP_SYMBOL_OPTIONS_H
#define EC_APP_SYMBOL_OPTIONS_H

#include "collector/symbols/symbols.h"
#include "proto/base/cli.h"

/* A member of such a command's options. */
typedef struct ec_symbol_options {
    const char *path, *cache, *symbolizer;
    int has_lines;
    int64_t limit_ns;
} ec_symbol_options;

#define EC_SYMBOL_CACHE "$XDG_CACHE_HOME/etwcollector/symbols"
/* Rows of the option table; member is the ec_symbol_options in options, cache_text says which cache is taken otherwise.
 */
#define EC_SYMBOL_OPTIONS(options, member, cache_text)                                                                 \
    {.name = "symbols",                                                                                                \
     .argument = "PATH",                                                                                               \
     .type = EA_OPT_STRING,                                                                                            \
     .offset = offsetof(options, member.path),                                                                         \
     .help = "where PDBs are looked for, as in _NT_SYMBOL_PATH: srv*CACHE*URL, cache*FOLDER, FOLDER; between them ;"}, \
        {.name = "symbol-cache",                                                                                       \
         .argument = "DIR",                                                                                            \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = offsetof(options, member.cache),                                                                    \
         .help = "where what was fetched and found out is kept; " cache_text " otherwise"},                            \
        {.name = "lines",                                                                                              \
         .type = EA_OPT_FLAG,                                                                                          \
         .offset = offsetof(options, member.has_lines),                                                                \
         .help = "files, lines and inlined functions too, by llvm-symbolizer"},                                        \
        {.name = "symbolizer",                                                                                         \
         .argument = "PROGRAM",                                                                                        \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = offsetof(options, member.symbolizer),                                                               \
         .fallback = "llvm-symbolizer",                                                                                \
         .help = "llvm-symbolizer, version 13 or later"},                                                              \
    {                                                                                                                  \
        .name = "symbol-time", .argument = "TIME", .type = EA_OPT_DURATION,                                            \
        .offset = offsetof(options, member.limit_ns), .fallback = "30s", .min = 1000000,                               \
        .max = (uint64_t)3600 * 1000000000, .help = "how long the symbolizer may take for an answer"                   \
    }

/* Symbols by such options. */
typedef struct ec_symbol_desk {
    ec_symbols *symbols;        /* NULL: not opened */
    ec_symbols_options options; /* their strings are the desk's */
    ea_text path, folder;
} ec_symbol_desk;

/* folder: looked into first, with no other layout than the files' names; NULL: none. Without --symbols the
 * environment's _NT_SYMBOL_PATH is taken. */
EA_MUST_CHECK int ec_symbol_desk_open(ec_symbol_desk *ret, const ec_symbol_options *o, const char *folder, ea_err *err);
/* The options alone: another process opens the symbols. */
EA_MUST_CHECK int ec_symbol_desk_prepare(ec_symbol_desk *ret, const ec_symbol_options *o, const char *folder,
                                         ea_err *err);
/* Whether a command that names functions on request was asked for it. */
int ec_symbol_options_are_given(const ec_symbol_options *o);
void ec_symbol_desk_close(ec_symbol_desk *d);

/* What follows an address, for people: " middle+0x5 a.c:6", an inlined function before it with " (inlined)"; between
 * frames a newline and prefix. " ?" when nothing is known. */
void ec_symbol_print(ea_text *t, const ec_symbol *symbol, const char *prefix);
/* The value of "frames": [{"function", "file", "line", "inlined"}, ...], the innermost first. */
void ec_symbol_json(ea_text *t, const ec_symbol *symbol);

#endif
