/* A run of a program: what lang_run.c, lang_execute.c, lang_values.c, lang_stacks.c and lang_print.c share. See lang.h.
 * Thread: the run's. */
#ifndef EA_LANG_LANG_RUN_H
#define EA_LANG_LANG_RUN_H

#include "proto/base/map.h"
#include "proto/lang/lang_aggregate.h"
#include "proto/lang/lang_program.h"
#include "proto/lang/lang_strings.h"
#include "proto/lang/lang_table.h"

/* How a field of a class is read. */
enum bound_how {
    BOUND_ABSENT,
    BOUND_FIXED,  /* width bytes at offset, little-endian, with or without sign */
    BOUND_NUMBER, /* any integer, by its slice */
    BOUND_CLOCK,  /* ticks of the trace's clock: as UTC ns */
    BOUND_SPAN,   /* a number of such ticks: as ns */
    BOUND_F32,
    BOUND_F64,
    BOUND_TEXT,
    BOUND_NAME, /* what its number is called */
};

typedef struct bound_field {
    uint64_t sign;        /* of a quick one with a sign: its highest bit */
    uint32_t quick_bytes; /* a payload of so many bytes has eight from the offset on; 0: the field is not quick */
    uint16_t offset, field, top; /* top: the index of its slice */
    uint8_t how, width, is_signed;
    uint8_t to_float; /* the clause reads it as TYPE_FLOAT */
    uint8_t shift;    /* of a quick one: the bits of the eight bytes that are not its own */
} bound_field;

typedef struct bound_clause {
    const lang_clause *clause;
    const bound_field *fields;
    bound_field subject; /* the field that names the thread; absent: the usual rule */
} bound_clause;

/* What runs on events of a class. */
typedef struct plan {
    const ea_class *c;
    bound_clause *clauses;
    uint32_t clause_count;
    bound_field thread, process; /* the first fields that name a thread, a process */
    bound_field place;           /* and an address of code */
    bound_field owner;           /* names the process, whatever the header says */
    /* of what the program reads alone: */
    uint8_t is_switch;                  /* a context switch: `thread` now runs */
    uint8_t names_counters;             /* the class says which counters come with events */
    uint8_t begins_thread, ends_thread; /* the class says that a thread begins, has ended: no variables are its own */
    uint32_t provider, probe;           /* texts */
    struct plan *before;                /* made before it */
} plan;

typedef struct process_texts {
    uint64_t instance; /* 0: free */
    uint32_t execname, exepath, cmdline, user;
    uint8_t has_path;
} process_texts;

typedef struct stack_cache {
    uint64_t halves, changes; /* changes: of the process's modules */
    uint32_t imm, text;       /* imm 0: free */
    uint32_t pid, machine;
} stack_cache;

/* Where an address of a process is; texts of modules without a name, and of unknown functions, are empty. */
typedef struct lang_place_name {
    uint64_t address, changes, offset;
    uint32_t pid, machine;
    uint32_t module, function; /* function: "module!function" */
    uint32_t form;             /* 0: free; 1 + whether it is a return address */
} lang_place_name;

/* What a run keeps of each machine. */
typedef struct lang_place {
    uint32_t host_text;         /* 0: not asked for yet */
    int counters[COUNTERS_MAX]; /* of the program's: its place among those of an event; -1: unknown */
    uint32_t cpu_threads[];     /* CPUS_MAX */
} lang_place;

enum { PROCESS_CACHE = 1024, NAME_CACHE = 4096, STACK_CACHE = 4096, PLACE_CACHE = 8192, CPUS_MAX = 4096 };

typedef struct name_cache {
    const ea_field *field;
    uint64_t value;
    uint32_t text;
} name_cache;

/* When a trigger fired last: a ring. */
typedef struct lang_firings {
    int64_t utc_ns[EA_LANG_TRIGGER_MOST];
    uint64_t count; /* ever; the last one is at (count - 1) % EA_LANG_TRIGGER_MOST */
} lang_firings;

struct ea_lang_run {
    const ea_lang_program *p;
    ea_lang_run_options o;
    lang_memory memory;
    lang_strings strings;
    uint64_t *constants;
    size_t first_text; /* texts before this one are constants */
    lang_aggregate *aggregates;
    lang_table *tables;                  /* of maps and self.x, by variable */
    uint64_t *scalars;                   /* of globals and this.x */
    lang_table deltas[EA_LANG_KEYS_MAX]; /* by number of keys */
    ea_arena arena;                      /* plans */
    ea_u64_map plans;                    /* class -> plan */
    plan *last, *newest;
    plan nothing; /* of clauses without an event */
    bound_field *absent;
    int64_t *due; /* of each clause: its next tick */
    uint32_t *ticks, tick_count, *unmatched, unmatched_count, *missing, missing_count;
    uint64_t registers[LANG_REGISTERS]; /* of the clause at hand */
    uint64_t this_number;               /* of events, so that this.x begins anew */
    uint8_t has_self, needs_threads;
    uint64_t thread_key; /* where a statement's self.x is */
    /* the event at hand */
    const ea_lang_event *event;
    const uint8_t *payload; /* of its record */
    uint32_t payload_bytes;
    const plan *plan;
    const bound_clause *bound;
    ea_slice slices[EA_FIELDS_MAX];
    size_t whole;
    int is_split, is_shipped, is_thread_known, is_process_known, has_subject, is_thread_of_cpu;
    int has_missed; /* a clause read the event's stack, and there was none */
    int64_t pid, tid;
    int64_t now_utc_ns, first_utc_ns;
    int has_first;
    uint32_t machine; /* the number of the one at hand */
    lang_place *place;
    lang_place **places; /* by number; NULL: none yet */
    size_t place_count, place_capacity;
    process_texts *processes;
    name_cache *names;
    int has_places; /* the program reads stacks or modules: the next two have all their places */
    stack_cache *stacks;
    lang_place_name *place_names;
    ea_text scratch, stack_text, place_text, out;
    ea_lang_counts counts;
    lang_firings *firings;                /* of each trigger */
    uint64_t visits;                      /* of keys by print and trunc */
    int redraws;                          /* the next table is the first one of the ticks that are due */
    int is_over, is_ending, is_selective; /* is_selective: clauses run for some processes alone */
    int printed_csv; /* whose columns were printed last: aggregation + 1, -1 - row, CSV_OF_TRIGGERS; 0: none */
};

static inline uint64_t lang_fixed(const bound_field *b, const uint8_t *at) {
    switch (b->width) {
    case 1:
        return b->is_signed ? (uint64_t)(int64_t)(int8_t)*at : *at;
    case 2:
        return b->is_signed ? (uint64_t)(int64_t)(int16_t)ea_load16(at) : ea_load16(at);
    case 4:
        return b->is_signed ? (uint64_t)(int64_t)(int32_t)ea_load32(at) : ea_load32(at);
    default:
        return ea_load64(at);
    }
}

/* A number of the event at hand: 1; 0 when the payload ends too early, or the field is read in another way. */
static inline int lang_read_quickly(const ea_lang_run *r, const bound_field *b, uint64_t *ret) {
    if (b->quick_bytes - 1 >= r->payload_bytes) /* 0 is beyond all */
        return 0;
    uint64_t v = ea_load64(r->payload + b->offset) << b->shift >> b->shift;
    *ret = (v ^ b->sign) - b->sign;
    return 1;
}

enum { MACHINE_SHIFT = 33 }; /* where keys have a machine's number */

/* A text that stays after the event at hand: its number, or STRING_NO_ROOM. */
static inline uint64_t lang_keep(ea_lang_run *r, uint64_t number) {
    uint64_t kept = lang_strings_keep(&r->strings, number);
    r->strings.refused += kept != number;
    return kept;
}

static inline int lang_has_text(unsigned type) {
    return type == TYPE_TEXT || type == TYPE_STACK;
}

/* The key of a thread's variables: threads of two machines may have one id. -1, no thread, has bit 32 as no id has. */
static inline uint64_t lang_thread_key(const ea_lang_run *r, int64_t tid) {
    return (uint64_t)tid ^ (uint64_t)r->machine << MACHINE_SHIFT;
}

/* ---- lang_execute.c ---- */

/* Runs one clause on the event at hand. The verifier has proved that each index is good and that jumps go forward. */
void lang_execute(ea_lang_run *r, const lang_clause *c, const bound_field *fields);

/* ---- lang_values.c ---- */

/* Reads a field of the event at hand: 1; 0 when it has none. */
int lang_read_field(ea_lang_run *r, const bound_field *b, uint64_t *ret);
/* Reads so many bytes of a field as it is in the event, the highest first: 1; 0 when it has not so many. */
int lang_read_bytes(ea_lang_run *r, const bound_field *b, uint64_t place, uint32_t count, uint64_t *ret);
uint64_t lang_read_value(ea_lang_run *r, uint32_t value);
uint64_t lang_read_parent(ea_lang_run *r, uint32_t value);
/* Finds which thread the event is about: r->tid; its process: r->pid. */
void lang_find_thread(ea_lang_run *r);

/* The same; where the clause's probe names the field, most often without a call. */
static inline void lang_know_thread(ea_lang_run *r) {
    uint64_t tid;
    if (r->is_thread_known)
        return;
    if (!r->bound || !lang_read_quickly(r, &r->bound->subject, &tid)) {
        lang_find_thread(r);
        return;
    }
    r->is_thread_known = r->has_subject = 1;
    r->is_thread_of_cpu = 0;
    r->tid = (int64_t)(uint32_t)tid;
}

void lang_find_process(ea_lang_run *r);
/* Notes the new thread of a context switch, so that later events of its CPU have a thread. */
void lang_find_switched(ea_lang_run *r);

static inline void lang_note_switch(ea_lang_run *r) {
    uint16_t cpu = r->event->record->cpu;
    uint64_t tid;
    if (cpu < CPUS_MAX && lang_read_quickly(r, &r->plan->thread, &tid))
        r->place->cpu_threads[cpu] = (uint32_t)tid;
    else
        lang_find_switched(r);
}

/* Notes the names of counters. */
void lang_note_counters(ea_lang_run *r);
/* The event's value of a counter of the program: 1; 0 when it has none. */
int lang_read_counter(ea_lang_run *r, uint32_t counter, uint64_t *ret);

/* ---- lang_stacks.c ---- */

/* The text of the event's stack, a line a frame. imm: as of CODE_STACK. */
uint64_t lang_read_stack(ea_lang_run *r, uint32_t imm);
/* The name of the module with the event's code address. */
uint64_t lang_read_module(ea_lang_run *r);

/* ---- lang_print.c ---- */

/* rows: of the aggregation at the most. */
void lang_print_aggregate(ea_lang_run *r, uint32_t number, uint64_t rows);
void lang_print_format(ea_lang_run *r, uint32_t format, const uint64_t *args);
void lang_print_row(ea_lang_run *r, uint32_t row, const uint64_t *values);
void lang_print_trigger(ea_lang_run *r, const ea_lang_trigger *t);

#endif
