/* The options and the run of "etwagent relog". Called by: cmd_relog.c (which fills them), relog_forms.c,
 * relog_inject.c, relog_summary.c. Thread: the main one. */
#ifndef EA_APP_RELOG_JOB_H
#define EA_APP_RELOG_JOB_H

#include "proto/base/map.h"
#include "proto/event/class_names.h"
#include "proto/event/schema/intrace.h"
#include "proto/relog/cut.h"
#include "proto/relog/image_sources.h"
#include "proto/relog/module_list.h"
#include "proto/relog/own_events.h"
#include "proto/relog/process_choice.h"
#include "proto/relog/redact.h"
#include "service/app/programs.h"

enum { RELOG_CPUS_MAX = 1 << 16, RELOG_PARTS_MAX = 100, RELOG_PART_LEAST = 64 << 10 };

typedef struct relog_options {
    ea_strings outputs;
    int compression, json;
    uint64_t buffer_bytes;
    const char *from, *to, *where, *split;
    ea_strings processes, cpus;
    int tree;
    ea_class_choice choice;
    int bare;
    ea_strings sets;
    const char *shift, *start_at;
    const char *modules, *image_cache, *events;
    ea_strings image_ids;
    ea_strings marks, parts;
    int clock, metadata, announce;
    const char *redact, *key;
    int unknown, dry_run;
    ea_schema_options schemas;
} relog_options;

typedef struct relog_job relog_job;

/* What goes to one output of a cut. */
typedef struct relog_part {
    relog_job *job;
    unsigned output;
    int64_t from_raw, to_raw;
    ea_where *where; /* of --part; NULL: all that is wanted */
    ea_cut *cut;
} relog_part;

/* An output that is no trace: what is written of one part, in another form. */
typedef struct relog_form {
    int kind; /* enum relog_form_kind */
    char *path;
    unsigned trace, output; /* numbers of outputs: the trace that it is made of, and its own */
    uint64_t written;       /* events, or packets */
    uint64_t incomplete, unknown;
    uint64_t bytes;
} relog_form;

enum relog_form_kind { RELOG_TRACE, RELOG_JSONL, RELOG_CSV, RELOG_PCAPNG };

enum { RELOG_OWN_EVENT = 0xFF };

/* When a listed module is loaded or unloaded, or an event of one's own happens. */
typedef struct relog_moment {
    int64_t time_raw;
    uint32_t item;
    uint8_t verb; /* enum ea_module_verb, or RELOG_OWN_EVENT */
} relog_moment;

struct relog_job {
    const relog_options *o;
    int shows_progress;
    uint64_t seen;
    int64_t begin_utc_ns, end_utc_ns; /* of the inputs */
    int64_t last_utc_ns;              /* after the last event, where a time refers to the end; else INT64_MIN */
    ea_clock clock;                   /* of the first one, which events have */
    ea_clock *clocks;                 /* of each input */
    ea_record converted;              /* the event at hand, with times of the first clock in its payload */
    uint8_t *payload;                 /* its own; NULL: clocks are the same */
    ea_registry *registry;            /* NULL: all of the inputs is wanted */
    ea_schemas *schemas;
    ea_trace_schemas *from_trace;
    ea_where *where;
    ea_process_choice *processes; /* NULL: all */
    ea_class_chooser chooser;
    int has_chooser;
    uint8_t cpus[RELOG_CPUS_MAX / 8]; /* a bit each */
    int cuts;                         /* only some events are wanted, or there are parts */
    relog_part
        *parts; /* one, or those of --split, or --output's and those of --part; cuts are made at the first event */
    size_t part_count;
    const char *trace; /* where the trace goes; NULL: nowhere */
    char *temporary;   /* that name, of a trace that only other forms are made of */
    relog_form *forms; /* by form, then part */
    size_t form_count;
    char **part_names; /* of --split and --part; NULL: there is one part */
    uint64_t kept;     /* of several parts: events that one of them has */
    ea_module_list *modules;
    ea_own_events *own;
    int adds_moments;      /* there are modules or events to add at some time */
    relog_moment *moments; /* by time; made at the first event */
    size_t moment_count, moment_next;
    ea_image_sources *images; /* NULL: no ids are added */
    ea_u64_map versions;      /* hashes of image files whose version is written */
    uint64_t asked_shown;     /* images of symbol servers, on the terminal */
    ea_text path;             /* of the module at hand */
    int64_t id_raw;           /* the last id that came: its time, and the base that it is of */
    uint64_t id_base;
    uint64_t announced, announced_left; /* modules that programs announced: made image events; as they were */
    uint32_t os_build;
    uint8_t pointer_size;
    int (*take_injected)(void *job, const ea_record *r); /* writes a record that was not read */
    int injects_own;                                     /* it is one of own */
    uint64_t own_written;
    ea_u64_map described; /* hashes of provider, id, version and bare part: schemas that are written, or cannot be */
    uint64_t schemas_added, schemas_missing;
    uint64_t injected, ids_added, ids_missing; /* modules (each load, each unload); modules with and without a file */
    ea_rewrite *rewrite;                       /* NULL: no value is set */
    ea_redact *redact;                         /* NULL: values stay */
    int has_unknown, has_late_schema;          /* while names are read: events without a schema; one came after such */
    ea_relog *relog;
    ea_err err;
};

/* Reads the lists and opens the folder of images that the options name. */
EA_MUST_CHECK int ea_relog_open_injected(relog_job *j);
void ea_relog_close_injected(relog_job *j);
/* Writes what comes before an event: modules, events of one's own, ids. */
EA_MUST_CHECK int ea_relog_inject(relog_job *j, const ea_relog *relog, const ea_record *r);
/* 1: the record announces a module, and image events were written in its place. */
EA_MUST_CHECK int ea_relog_inject_announced(relog_job *j, const ea_record *r);
/* Writes the schema of an event's class, once. part NULL: where the trace does not have it so far; else where this
 * part, a bare cut that is about to get the event, has not got it. */
EA_MUST_CHECK int ea_relog_inject_schema(relog_job *j, relog_part *part, const ea_record *r, const ea_class *c,
                                         int (*write)(void *arg, const ea_record *record), void *arg);
/* What was injected so far was only looked at: it comes again. */
void ea_relog_rewind_injected(relog_job *j);
/* After the last event. */
EA_MUST_CHECK int ea_relog_inject_rest(relog_job *j, const ea_relog *relog);

/* By the end of its name. */
enum relog_form_kind ea_relog_form_kind(const char *path);
/* "jsonl", ... */
const char *ea_relog_form_name(enum relog_form_kind kind);
/* Makes an output that is no trace; in on_written. Errors: those of reading and writing. */
EA_MUST_CHECK int ea_relog_make_form(relog_job *j, ea_relog *relog, relog_form *form);

/* Prints what was read, dropped, added and written to standard output, as text or JSON. Errors: EA_EIO, those of
 * reading an output's size. */
EA_MUST_CHECK int ea_relog_print_summary(const relog_job *j, const ea_relog *relog, int input_count, ea_err *err);

#endif
