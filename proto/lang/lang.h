/* The query language: programs over decoded events. docs/reference/language.md describes the language.
 * A text is compiled to a typed program over the fields of event classes, which the verifier checks; a run executes the
 * program on events and keeps variables and aggregations. Calls: proto/event, proto/state. Called by: the commands.
 * Thread: the owner's; a compiled program is constant and may serve several runs.
 *
 * Every program ends: jumps go forward only, there are no loops and no calls of a program's own functions, so that an
 * event costs at most as many steps as the program has instructions. */
#ifndef EA_LANG_LANG_H
#define EA_LANG_LANG_H

#include "proto/base/clock.h"
#include "proto/event/event.h"
#include "proto/event/render.h"
#include "proto/state/machine.h"

enum {
    EA_LANG_KEYS_MAX = 8,             /* of an aggregation or a map */
    EA_LANG_TEXT_MAX_BYTES = 1 << 16, /* of a program's text */
    EA_LANG_DEPTH_MAX = 100,          /* of nested expressions and statements */
    EA_LANG_CLAUSES_MAX = 256,
    EA_LANG_OPS_MAX = 4096,          /* instructions of a clause */
    EA_LANG_NAME_MAX_BYTES = 60,     /* of an aggregation, and of a value of emit: they name tables and columns */
    EA_LANG_PATTERN_MAX_BYTES = 128, /* of =~: what a comparison costs grows with it */
    EA_LANG_TRIGGERS_MAX = 16,       /* of a program */
    EA_LANG_TRIGGER_NAME_MAX = 40,   /* bytes: a-z, A-Z, 0-9, _, - and . */
    EA_LANG_TRIGGER_MOST = 100,      /* firings in a time */
    EA_LANG_ENTRIES = 65536          /* keys of an aggregation or a map, unless the options say otherwise */
};

/* Why a text is no program. The place is that of the first byte concerned, both from 1. */
typedef struct ea_lang_problem {
    uint32_t line, column;
    int is_class; /* a probe names no class that is known, or a field that none of them has: those of a trace may */
    char message[400];
} ea_lang_problem;

/* Appends "NAME:LINE:COLUMN: MESSAGE", the line of the program and a caret below the place. */
void ea_lang_problem_print(const ea_lang_problem *p, const char *name, const char *text, size_t len_bytes,
                           ea_text *out);

typedef struct ea_lang_program ea_lang_program;

typedef struct ea_lang_sources {
    ea_registry *registry;          /* finds the classes of the tables; borrowed during the call */
    const ea_class *const *classes; /* further ones that probes may name, as those of a trace; borrowed likewise */
    size_t class_count;
    const char *const *args; /* what $1, $2 ... stand for: a number, when it is digits or 0x and hex digits, else a
                                text; they outlive the program */
    size_t arg_count;
} ea_lang_sources;

/* Compiles and verifies. Errors: EA_EINVAL with *ret_problem filled in, EA_ENOMEM. */
EA_MUST_CHECK int ea_lang_compile(ea_lang_program **ret, const char *text, size_t len_bytes,
                                  const ea_lang_sources *sources, ea_lang_problem *ret_problem);
/* 0 when the text is one expression and nothing else; it says nothing about names. Errors as of ea_lang_compile. */
EA_MUST_CHECK int ea_lang_check_expression(const char *text, size_t len_bytes, ea_lang_problem *ret_problem);
void ea_lang_program_destroy(ea_lang_program *p); /* NULL is allowed */
/* 1 when a clause of the program runs on events of the class. */
int ea_lang_concerns(const ea_lang_program *p, const ea_class *c);
/* 1 when the program uses stacks of events: the caller has to join them. */
int ea_lang_needs_stacks(const ea_lang_program *p);
/* 1 when it uses names that other events give: of file objects, file keys, registry keys and device paths. */
int ea_lang_needs_names(const ea_lang_program *p);

/* A class of events on which clauses of a program run, as the compiler knew it; the texts live as long as the program.
 */
typedef struct ea_lang_need {
    ea_guid provider;
    const char *provider_name, *name; /* "": unknown */
    uint16_t code;                    /* opcode (classic) or id */
    uint8_t is_classic;
    uint8_t has_thread;               /* a field names a thread or a process */
    uint8_t has_stacks, has_counters; /* a clause reads the events' stacks, their performance counters */
} ea_lang_need;

const ea_lang_need *ea_lang_needs(const ea_lang_program *p, size_t *ret_count);
/* 1 when a probe is about all events: *, unmatched. */
int ea_lang_needs_all(const ea_lang_program *p);
/* 1 when the program reads what is known of processes and threads, or has variables of threads. */
int ea_lang_needs_processes(const ea_lang_program *p);
/* 1 when it reads stacks or the module of an address. */
int ea_lang_needs_modules(const ea_lang_program *p);

/* What trigger() says. A recorder sends its window: from so long before the event to so long after it. */
typedef struct ea_lang_trigger {
    const char *name;
    int64_t before_ns, after_ns;
    uint32_t most; /* firings in per_ns */
    int64_t per_ns, cooldown_ns;
    uint32_t line, column;
} ea_lang_trigger;

/* From i = 0; NULL: there is no further one. Their names differ. */
const ea_lang_trigger *ea_lang_trigger_at(const ea_lang_program *p, size_t i);
/* 1 and where the first ship() is in the text, from 1; 0: there is none. */
int ea_lang_ships(const ea_lang_program *p, uint32_t *ret_line, uint32_t *ret_column);

/* What the program gives apart: an aggregation, by its name without @; "emit", "printf" or "trigger", when a statement
 * is one. line and column: of its first statement; 0 of these three. From i = 0; 0: there is no further one. */
typedef struct ea_lang_result {
    const char *name;
    size_t name_bytes;
    uint32_t line, column;
} ea_lang_result;

int ea_lang_result_at(const ea_lang_program *p, size_t i, ea_lang_result *ret);
/* The performance counters that it reads, by name, from 0; NULL: there is no further one. */
const char *ea_lang_counter(const ea_lang_program *p, size_t i);

/* EA_LANG_ROWS: nothing is printed; on_row takes what would be. */
enum ea_lang_form { EA_LANG_TEXT, EA_LANG_JSON, EA_LANG_CSV, EA_LANG_ROWS };

enum ea_lang_column_kind {
    EA_LANG_COLUMN_I64,
    EA_LANG_COLUMN_U64,
    EA_LANG_COLUMN_HEX,
    EA_LANG_COLUMN_F64,
    EA_LANG_COLUMN_TEXT,
    EA_LANG_COLUMN_STACK
};

enum { EA_LANG_COLUMNS_MAX = 16 };

typedef struct ea_lang_column {
    const char *name;
    uint8_t kind;     /* enum ea_lang_column_kind */
    uint64_t bits;    /* of numbers; of F64 those of a double */
    const char *data; /* of texts: UTF-8 without an end; of stacks: a list of texts as JSON, the innermost first */
    size_t len_bytes;
} ea_lang_column;

/* An entry of an aggregation (of a distribution: a bucket; of top: a value), what printf printed, what emit gave, or a
 * trigger that fired: its name, and the event's class.
 * Keys of the entry that holds the sum of keys without room are 0 and "". All is borrowed during the call. */
typedef struct ea_lang_output {
    const char *name; /* of the aggregation, without @; "printf", "emit", "trigger" */
    size_t name_bytes;
    int is_aggregation, is_others;
    int64_t utc_ns;                 /* when; 0: before the first event */
    const ea_lang_trigger *trigger; /* NULL: it is none */
    const ea_lang_column *columns;
    size_t column_count;
} ea_lang_output;

/* The words of the language, from i = 0; 0: there is no further one. */
enum ea_lang_word_kind {
    EA_LANG_WORD_KEYWORD,   /* if */
    EA_LANG_WORD_PROBE,     /* begin */
    EA_LANG_WORD_BASE,      /* self, before a point */
    EA_LANG_WORD_VALUE,     /* execname */
    EA_LANG_WORD_CALL,      /* strlen, in an expression */
    EA_LANG_WORD_STATEMENT, /* printf */
    EA_LANG_WORD_FUNCTION   /* count, of an aggregation */
};

typedef struct ea_lang_word {
    const char *text;
    enum ea_lang_word_kind kind;
} ea_lang_word;

int ea_lang_word_at(size_t i, ea_lang_word *ret);
/* DTrace's names of probes, from i = 0; one may come several times; NULL: there is no further one. */
const char *ea_lang_alias_at(size_t i);
/* Calls fn with each word with which the text may go on: what is begun at its end, completed; some come several times.
 * A result of fn that is not 0 ends it, and is returned. Before a clause's { these are probes, and in its condition and
 * its statements words and the fields of its classes. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ea_lang_complete(const char *text, size_t len_bytes, const ea_lang_sources *sources,
                                   int (*fn)(void *arg, const char *word), void *arg);

typedef struct ea_lang_run ea_lang_run;

typedef struct ea_lang_run_options {
    enum ea_lang_form form;
    const ea_machine *machine; /* the state at the time of the events; borrowed; NULL: none */
    /* The addresses of a stack number, as of ea_stacks_get; NULL: there are no stacks. */
    const uint64_t *(*frames)(const void *arg, uint32_t number, size_t *ret_count);
    const void *frames_arg;
    int is_plain_stacks; /* stacks are addresses, not places in modules */
    /* Appends the function at an offset of a module: 1; 0 when it is unknown. NULL: stacks have modules alone. */
    int (*function)(void *arg, const ea_module *module, uint64_t offset, ea_text *out);
    void *function_arg;
    const ea_resolver *resolver; /* names that other events give; borrowed; NULL: none */
    /* Takes what was printed and clears it, between the entries of a large aggregation; not 0: failed, and the rest is
     * dropped. NULL: the caller does that after each event alone. */
    int (*flush)(void *arg, ea_text *out);
    void *flush_arg;
    uint64_t pid;          /* clauses of events run for those of this process alone; 0: of all */
    const char *exe;       /* the same of the processes whose image name fits this pattern; NULL: of all */
    size_t limit_entries;  /* keys of each aggregation and map; 0: EA_LANG_ENTRIES */
    size_t limit_bytes;    /* of variables, aggregations and texts together; 0: 64 MiB */
    uint64_t limit_visits; /* of keys by print and trunc, beside 256 an event; 0: 268,435,456 */
    int (*on_row)(void *arg, const ea_lang_output *row); /* of EA_LANG_ROWS; not 0: failed */
    void *on_row_arg;
    int (*wants)(const void *arg, int64_t pid); /* likewise: whether they run for this process; NULL: for all */
    const void *wants_arg;
    int is_terminal;  /* the output goes to a terminal: of CSV, too, nothing steers it */
    int is_redrawn;   /* of text: what ticks that are due together print replaces all on the terminal */
    const char *host; /* what the value `host` is; borrowed; NULL: the empty text */
    int is_clocked;   /* ticks come from ea_lang_run_time alone, whose time is that of a clock of the caller's */
} ea_lang_run_options;

/* The program is borrowed. */
EA_MUST_CHECK int ea_lang_run_create(ea_lang_run **ret, const ea_lang_program *p, const ea_lang_run_options *options,
                                     ea_err *err);
void ea_lang_run_destroy(ea_lang_run *r); /* NULL is allowed */

typedef struct ea_lang_event {
    const ea_record *record;
    const ea_class *c;     /* lives as long as the run */
    const ea_clock *clock; /* of the record's times */
    int64_t utc_ns;
    uint32_t stack[2];  /* numbers of the kernel's and the user's half; 0: none */
    uint32_t stack_pid; /* whose stack it is; 0xFFFFFFFF: that of the header's process */
} ea_lang_event;

/* The trigger of this name fired at that time in an earlier run: it counts for its limits. Before the first event. */
void ea_lang_run_fired(ea_lang_run *r, const char *trigger, int64_t utc_ns);
/* Runs `begin` clauses; before the first event. */
EA_MUST_CHECK int ea_lang_run_begin(ea_lang_run *r);
/* Runs `tick` clauses that are due and the clauses of the event. Returns 0, 1 when the program has ended by exit(), or
 * EA_ENOMEM. */
EA_MUST_CHECK int ea_lang_run_event(ea_lang_run *r, const ea_lang_event *event);
/* The same for a program that is a condition: 1 when it called exit() for this event. It goes on with the next one. */
EA_MUST_CHECK int ea_lang_run_holds(ea_lang_run *r, const ea_lang_event *event);
/* Runs `tick` clauses that are due at a time that is later than the last event's, where no event has come for a while.
 * Where none has come at all, ticks count from the first such time. Results are as of ea_lang_run_event. */
EA_MUST_CHECK int ea_lang_run_time(ea_lang_run *r, int64_t utc_ns);

/* One machine of several whose events a run takes together: aggregations, maps and other variables are common to all of
 * them; the state, variables of threads, times of delta() and what runs on a CPU are each machine's own. */
typedef struct ea_lang_machine {
    uint32_t number; /* below 2^24 */
    const char *host;
    const ea_machine *state;
    const ea_resolver *resolver;
} ea_lang_machine;

/* Events that follow are of this machine; what it names is borrowed until another one follows. A run begins with number
 * 0, which has what the options say. EA_ENOMEM. */
EA_MUST_CHECK int ea_lang_run_machine(ea_lang_run *r, const ea_lang_machine *machine);
/* No event of the machine at hand follows: what is its own makes room. The machine is then number 0. */
void ea_lang_run_leave(ea_lang_run *r);
/* An event that no clause is to see, before those that follow: which thread runs where, and which counters there are.
 * EA_ENOMEM. */
EA_MUST_CHECK int ea_lang_run_note(ea_lang_run *r, const ea_lang_event *event);
/* 1 when clauses run on events of the class, 0 (after exit() for all classes), or EA_ENOMEM. */
int ea_lang_run_concerns(ea_lang_run *r, const ea_class *c);
/* Runs `end` clauses and prints the aggregations that none of them printed. */
EA_MUST_CHECK int ea_lang_run_end(ea_lang_run *r);
/* What the program printed since it was cleared; the caller takes it and clears it. */
ea_text *ea_lang_run_output(ea_lang_run *r);

/* What a run could not do as the program says, and what its caller has to do. */
typedef struct ea_lang_counts {
    uint64_t events, matched; /* events that came, and those that a clause was of */
    uint64_t absent;          /* statements that were skipped: the event lacks a value */
    uint64_t divided_by_zero; /* likewise: a division by zero */
    uint64_t others;  /* values of aggregations that were counted under others: the limit of keys, or of memory */
    uint64_t dropped; /* values of variables that were dropped for the same reason */
    uint64_t texts;   /* texts that were replaced by "(no room)" */
    uint64_t costly;  /* print and trunc that were skipped: they would visit too many keys */
    uint64_t unfired; /* triggers that did not fire: their limit, or their cooldown */
    uint64_t shipped; /* events for which ship() ran */
} ea_lang_counts;

ea_lang_counts ea_lang_run_counts(const ea_lang_run *r);
/* Appends a line for each count that a person should know, with the command's name before it. */
void ea_lang_counts_print(const ea_lang_counts *counts, const char *command, ea_text *out);

#endif
