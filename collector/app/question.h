/* What the commands that ask the history (ps, modules, where) share: their options, the moment that is meant, the
 * answer's way to standard output. Called by: the commands that ask a store. Calls: collector/query. Thread: the main
 * one. */
#ifndef EC_APP_QUESTION_H
#define EC_APP_QUESTION_H

#include "collector/app/collector_commands.h"
#include "collector/query/analysis/query.h"
#include "collector/sandbox/sandbox.h"
#include "collector/symbols/symbols.h"
#include "proto/base/cli.h"

/* The first member of such a command's options. */
typedef struct ec_question_options {
    const char *store, *host, *stream, *at;
    int64_t wait_ns;
    int json;
} ec_question_options;

/* Rows of the option table; member is the ec_question_options in options. */
#define EC_QUESTION_OPTIONS(options, member)                                                                           \
    EC_STORE_OR_TRACES_OPTION(options, member.store),                                                                  \
        {EC_HOST_OF(options, member.host), .help = "the agent's name; not needed when there is only one"},             \
        {.name = "stream",                                                                                             \
         .argument = "ID",                                                                                             \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = offsetof(options, member.stream),                                                                   \
         .help = "one run of the agent, by the first digits of its id (see hosts)"},                                   \
        {.name = "at",                                                                                                 \
         .argument = "TIME",                                                                                           \
         .type = EA_OPT_STRING,                                                                                        \
         .offset = offsetof(options, member.at),                                                                       \
         .fallback = "end",                                                                                            \
         .help =                                                                                                       \
             "start, end, +1500ms (after the start), end-10s, now, -1h, a date, or such as 2024-05-17T14:03:07.25Z"},  \
        {EC_WAIT_OF(options, member.wait_ns), .help = "how long to wait until all stored batches are in the history"}, \
    {                                                                                                                  \
        .name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, member.json), .help = "print JSON"            \
    }

/* Help text about the moment, for the end of a command's details. */
#define EC_QUESTION_DETAILS                                                                                            \
    "The history is built from the stored batches, by the collector while it runs, else by this command. Batches not " \
    "in\n"                                                                                                             \
    "it yet after --wait are reported on standard error. Without --stream the agent's run is taken that had begun "    \
    "last\n"                                                                                                           \
    "by that time. Exit codes: 0 answered, 1 failed or nothing found, 2 usage."

/* Opens the query. The number of stored batches that the history lacks is reported on standard error. */
EA_MUST_CHECK int ec_question_open(const ec_question_options *o, ec_query **ret, uint64_t *ret_backlog, ea_err *err);
/* Finds the moment that `at` means. When `at` is after the last event, that is reported on standard error. */
EA_MUST_CHECK int ec_question_moment(const ec_question_options *o, ec_query *q, const char *at, ec_moment *ret,
                                     ea_err *err);

/* Gives up what the command does not need any more, once its files are open and the history is folded: what it reads
 * from then on, as a process that answers a question does, are the store's segments and databases. Standard output
 * stays, and its memory has a bound. A command that starts processes or connects to a symbol server calls one of the
 * next two. Errors: as ec_query_confine. */
EA_MUST_CHECK int ec_question_confine(const char *store, ea_err *err);
/* The same, and beside it what symbols need with these options. */
EA_MUST_CHECK int ec_question_confine_symbols(const char *store, const ec_symbols_options *symbols, ea_err *err);
/* The same, and what `more` lists and allows beside the store. */
EA_MUST_CHECK int ec_question_confine_with(const char *store, const ec_sandbox *more, ea_err *err);
/* Says on standard error that an answer has nothing, and from when to when events are stored; nothing is, when the
 * begin is after the end. */
void ec_answer_none(const char *what, int64_t begin_utc_ns, int64_t end_utc_ns);

/* Writes and clears t. */
EA_MUST_CHECK int ec_answer_write(ea_text *t, ea_err *err);

/* "2024-05-17T14:03:07.2500000Z", or with "before " when the beginning itself was not seen. */
void ec_answer_begin(ea_text *t, const ea_interval *life);

/* --pid as it came: EA_EUSAGE when no process id can be so large. */
EA_MUST_CHECK int ec_question_pid(uint64_t pid, uint32_t *ret, ea_err *err);

#endif
