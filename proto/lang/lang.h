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
    EA_LANG_PATTERN_MAX_BYTES = 128, /* of =~: what a comparison costs grows with it */
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
    ea_registry *registry; /* finds the classes of the tables; borrowed during the call */
    const ea_class *const
        *classes; /* further classes that probes may name, as those of a trace; they outlive the program */
    size_t class_count;
} ea_lang_sources;

/* Compiles and verifies. Errors: EA_EINVAL with *ret_problem filled in, EA_ENOMEM. */
EA_MUST_CHECK int ea_lang_compile(ea_lang_program **ret, const char *text, size_t len_bytes,
                                  const ea_lang_sources *sources, ea_lang_problem *ret_problem);
void ea_lang_program_destroy(ea_lang_program *p); /* NULL is allowed */
/* 1 when a clause of the program runs on events of the class. */
int ea_lang_concerns(const ea_lang_program *p, const ea_class *c);
/* 1 when the program uses stacks of events: the caller has to join them. */
int ea_lang_needs_stacks(const ea_lang_program *p);
/* 1 when it uses names that other events give: of file objects, file keys, registry keys and device paths. */
int ea_lang_needs_names(const ea_lang_program *p);

enum ea_lang_form { EA_LANG_TEXT, EA_LANG_JSON, EA_LANG_CSV };

typedef struct ea_lang_run ea_lang_run;

typedef struct ea_lang_run_options {
    enum ea_lang_form form;
    const ea_machine *machine; /* the state at the time of the events; borrowed; NULL: none */
    /* The addresses of a stack number, as of ea_stacks_get; NULL: there are no stacks. */
    const uint64_t *(*frames)(const void *arg, uint32_t number, size_t *ret_count);
    const void *frames_arg;
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
    int is_terminal;       /* the output goes to a terminal: of CSV, too, nothing steers it */
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
    uint32_t stack[2]; /* numbers of the kernel's and the user's half; 0: none */
} ea_lang_event;

/* Runs `begin` clauses; before the first event. */
EA_MUST_CHECK int ea_lang_run_begin(ea_lang_run *r);
/* Runs `tick` clauses that are due and the clauses of the event. Returns 0, 1 when the program has ended by exit(), or
 * EA_ENOMEM. */
EA_MUST_CHECK int ea_lang_run_event(ea_lang_run *r, const ea_lang_event *event);
/* The same for a program that is a condition: 1 when it called exit() for this event. It goes on with the next one. */
EA_MUST_CHECK int ea_lang_run_holds(ea_lang_run *r, const ea_lang_event *event);
/* Runs `end` clauses and prints the aggregations that none of them printed. */
EA_MUST_CHECK int ea_lang_run_end(ea_lang_run *r);
/* What the program printed since it was cleared; the caller takes it and clears it. */
ea_text *ea_lang_run_output(ea_lang_run *r);

/* What a run could not do as the program says. */
typedef struct ea_lang_counts {
    uint64_t events, matched; /* events that came, and those that a clause was of */
    uint64_t absent;          /* statements that were skipped: the event lacks a value */
    uint64_t divided_by_zero; /* likewise: a division by zero */
    uint64_t others;  /* values of aggregations that were counted under others: the limit of keys, or of memory */
    uint64_t dropped; /* values of variables that were dropped for the same reason */
    uint64_t texts;   /* texts that were replaced by "(no room)" */
    uint64_t costly;  /* print and trunc that were skipped: they would visit too many keys */
} ea_lang_counts;

ea_lang_counts ea_lang_run_counts(const ea_lang_run *r);

#endif
