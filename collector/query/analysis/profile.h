/* Profiles: what ran, waited or read, by call stack, over machines and times: stacks joined to stored events, each
 * address put into its module as it was loaded then, stacks of all machines merged by module identity and function.
 * Input: stack_query.h. Used by: the command profile; collector/web. Thread: the caller's; it reads a lot, so it
 * belongs into a process of its own (ask.h) where others wait. */
#ifndef EC_QUERY_ANALYSIS_PROFILE_H
#define EC_QUERY_ANALYSIS_PROFILE_H

#include "collector/query/analysis/weight.h"
#include "collector/query/scan/archive.h"
#include "proto/stack/stack_join.h"

/* The pseudo-module of all methods that .NET runtimes compiled at run time: they are in no module. */
#define EC_PROFILE_METHODS "[JIT]"

/* The pseudo-module of times without a recorded end: each is a frame, named as it is. */
#define EC_PROFILE_OPEN "[no recorded end]"

/* A module, whichever machine and process it was loaded in: the same file is the same module. */
typedef struct ec_profile_module {
    const char *name; /* without folders; "?" for addresses that were in no module */
    const char *path; /* of the first one that was met */
    int is_unloaded;  /* loaded before, and no module was there at the event: name is "[unloaded NAME]" */
    int has_pdb;
    ea_guid pdb_guid;
    uint32_t pdb_age;
    const char *pdb_path;
    uint32_t timestamp, size_bytes;
    int is_kernel;
} ec_profile_module;

/* A function of a module, or a place in it while its name is unknown. */
typedef struct ec_profile_frame {
    uint32_t module;
    uint64_t offset;      /* from the module's base; of module 0 the address; of a method 0 */
    const char *function; /* NULL: unknown */
    const char *file;     /* NULL: unknown */
    uint32_t line;
    const char
        *label; /* "ntdll.dll!RtlUserThreadStart", "ntdll.dll+0x1234", "[JIT]!Namespace.Class.Method", "0x7ff..." */
} ec_profile_frame;

/* Stacks that are alike: of one program and with the same frames. weight[1] and events[1] are of the other side, that a
 * difference is made with. */
typedef struct ec_profile_stack {
    uint32_t number;        /* of profile_merge.c */
    uint32_t process;       /* index into processes */
    const uint32_t *frames; /* the innermost first */
    uint32_t count;
    uint64_t weight[2], events[2];
} ec_profile_stack;

/* A thread, and an event of it with a stack. */
typedef struct ec_profile_thread {
    const char *host;
    uint32_t owner;    /* the same number for all threads of one instance of a process, and for no others */
    uint32_t process;  /* its program, an index into processes */
    uint32_t pid, tid; /* as Windows had them, UINT32_MAX: unknown; two instances may have the same */
} ec_profile_thread;

typedef struct ec_profile_sample {
    uint32_t stack, thread; /* indexes */
    int64_t utc_ns;
    uint64_t weight;
} ec_profile_sample;

/* How the rest is called; the innermost of several inlined functions first. */
typedef struct ec_profile_function {
    const char *name, *file; /* file may be NULL */
    uint32_t line;
} ec_profile_function;

typedef int (*ec_profile_named_fn)(void *arg, size_t index, const ec_profile_function *functions, size_t count);

/* The source of names (collector/symbols): called once a module with all places in it that occur, ascending. It calls
 * put for the places that it knows: put returns 0, or an error that ends the call. When the call fails, the module's
 * places stay without names and the error is added to notes. */
typedef struct ec_profile_namer {
    int (*name)(void *arg, const ec_profile_module *module, const uint32_t *offsets, size_t count,
                ec_profile_named_fn put, void *put_arg, ea_err *err);
    void *arg;
} ec_profile_namer;

/* What is summed, when and of which machines. */
typedef struct ec_profile_side {
    const char *const *hosts;  /* agents' names; merged */
    size_t host_count;         /* 0: all */
    const char *const *labels; /* "NAME=VALUE": only runs of agents that had all of these labels */
    size_t label_count;
    int64_t from_utc_ns, to_utc_ns; /* from is included, to is not */
    enum ec_weight weight;
    const char *counter; /* EC_WEIGHT_PMC: its name, in any case, or the number of its source */
} ec_profile_side;

typedef struct ec_profile_request {
    const char *store;
    const char *shown; /* of the hosts only those that fit these patterns (pattern.h); NULL: all of them */
    ec_profile_side side[2];
    int has_other;                 /* a difference: side[0] minus side[1] */
    const uint32_t *pids;          /* of both */
    size_t pid_count;              /* 0: all */
    const ec_profile_namer *namer; /* NULL: places stay places */
    size_t limit_window_bytes;     /* of the join; 0: 16 MiB */
    size_t limit_stacks_bytes;     /* of the stacks; 0: 512 MiB */
    size_t limit_stacks;           /* of the answer: EA_ELIMIT beyond; 0: 4,194,304 */
    int wants_samples;             /* the events of side 0 by themselves, too: at most 4,194,304 */
    int (*keep_going)(void *arg);  /* asked now and then; 0 ends with EA_ECANCELED; may be NULL */
    void *arg;
} ec_profile_request;

typedef struct ec_profile {
    enum ec_weight weight[2];
    const char *counter[2];
    int64_t from_utc_ns[2], to_utc_ns[2];
    int has_other;
    const char **hosts[2]; /* those that had events in the range */
    size_t host_count[2];
    const char **processes; /* programs: names of their images */
    size_t process_count;
    ec_profile_module *modules; /* [0] is none */
    size_t module_count;
    ec_profile_frame *frames;
    size_t frame_count;
    ec_profile_stack *stacks; /* the greatest weight first */
    size_t stack_count;
    ec_profile_thread *threads; /* with wants_samples */
    size_t thread_count;
    ec_profile_sample *samples; /* with wants_samples, in the order of time */
    size_t sample_count;
    uint64_t total[2], events[2];           /* all weight; events that had some */
    uint64_t without_stack[2];              /* of the events: only their own address is known, or nothing */
    uint64_t incomplete[2][EC_LACKS_COUNT]; /* of the events: those whose stacks are known to lack something */
    uint64_t backlog; /* stored batches that the history has not folded yet: whose processes and modules are unknown */
    /* disk: requests whose end did not come: they are in no sum. ready, wait: times inside the range whose end was not
     * recorded: the thread did not continue in the stored events, it ended meanwhile, or events were lost. They are in
     * the sums, without a stack, each under a frame of EC_PROFILE_OPEN. */
    uint64_t unfinished[2];
    uint64_t unfinished_ns[2]; /* ready, wait: so much of the total is theirs: what is known to be inside the range */
    uint64_t unbegun[2], unbegun_ns[2]; /* disk: requests whose begin in the range is not stored, and their time: in no
                                           sum */
    uint64_t halves[2][EA_STACK_OUTCOME_COUNT]; /* both sides may be of the same records: no sum over sides */
    uint64_t keys_undefined[2];
    int is_interval_assumed; /* nothing stored says the sampling interval: 1 ms */
    uint64_t damaged;        /* batches that could not be read */
    char damage[640];
    char notes[1024]; /* in words: what symbols could not say; of a counter without samples, which ones have some; "" */
    struct ec_merge *memory;
} ec_profile;

/* What was given of the other side: the rest is as on the first side. Its hosts and labels belong together, and so do
 * the ends of its range. has_other is set when anything was given. */
void ec_profile_fill_other(ec_profile_request *request, int has_machines, int has_range, int has_weight);
/* EA_EUSAGE: a range ends before it begins, a label without '='. */
EA_MUST_CHECK int ec_profile_check(const ec_profile_request *request, ea_err *err);
/* Makes a profile; waits up to 10 s for the history to have folded what is stored. Errors: EA_ENOTFOUND (no store,
 * nothing stored of a host that was named), EA_EUSAGE, EA_ELIMIT, EA_ECANCELED, EA_ENOMEM, EA_EDATABASE. */
EA_MUST_CHECK int ec_profile_run(ec_profile **ret, const ec_profile_request *request, ea_err *err);
void ec_profile_destroy(ec_profile *p); /* NULL is allowed */
/* 1 when the sides are sums of two things: their ratio means something, their difference does not. */
int ec_profile_has_two_weights(const ec_profile *p);

#endif
