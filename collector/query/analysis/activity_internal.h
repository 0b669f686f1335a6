/* An activity between its files: the rows of all tables in one form, the columns that they become, the trackers of
 * a stream. Called by: activity.c, activity_rows.c, activity_tables.c, activity_events.c,
 * dotnet_activity.c. Calls: the trackers of this
 * folder. Thread: the activity's owner's. */
#ifndef EC_QUERY_ANALYSIS_ACTIVITY_INTERNAL_H
#define EC_QUERY_ANALYSIS_ACTIVITY_INTERNAL_H

#include "collector/query/analysis/activity.h"
#include "collector/query/analysis/address_space.h"
#include "collector/query/analysis/instances.h"
#include "collector/query/analysis/methods.h"
#include "collector/query/analysis/request_tracker.h"
#include "collector/query/analysis/sample_sources.h"
#include "collector/query/analysis/sched_tracker.h"
#include "collector/query/scan/counter_names.h"
#include "collector/query/scan/event_cursor.h"
#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "proto/event/compact_cswitch.h"

enum { EC_ACTIVITY_CPUS = 4096 };

/* What a row's keys, texts and sums are, by table. Most tables have the first two keys, and more after them. */
enum key_of_any { KEY_PID, KEY_TID };

enum key_of_waits { KEY_REASON = 2 };

enum key_of_wakes { KEY_WAKER_PID, KEY_WAKER_TID, KEY_WOKEN_PID, KEY_WOKEN_TID };

enum key_of_counters { KEY_NUMBER = 2 };

enum key_of_samples {
    KEY_OFFSET = 1, /* of code_counters; else 0 */
    KEY_PLACE = 1,  /* of function_counters, until places have names: ec_merge's */
    KEY_SOURCE = 2,
    KEY_INTERVAL = 3,        /* of counter_samples; 0: unknown */
    KEY_HAS_NO_INTERVAL = 3, /* of module_counters, code_counters and function_counters */
};

enum key_of_problems { KEY_PROBLEM_CPU = 0, KEY_PROBLEM_SOURCE = 2 };

enum key_of_interrupts { KEY_ROUTINE = 1, KEY_CPU = 2 };

enum key_of_requests { KEY_DISK = 1, KEY_FILE_OBJECT = 2 };

enum key_of_stacks { KEY_STACK_HASH = 2, KEY_STACK_DEPTH = 3 };

enum key_of_missed { KEY_BATCH = 2, KEY_POSITION = 3 };

enum key_of_usage { KEY_IS_MANIFEST = 1 };

enum key_of_dotnet { KEY_DOTNET_PLACE = 4 /* of the event that began it */ };

enum key_of_collections { KEY_DOTNET_INSTANCE = 1, KEY_GC_NUMBER = 2, KEY_GC_GENERATION = 3 };

enum key_of_compilations { KEY_JIT_METHOD = 2, KEY_JIT_INSTANCE = 3 };

enum text_of_counters {
    TEXT_COUNTER, /* the counter's or the source's name */
    TEXT_MODULE,
    TEXT_METHOD,                /* of code_counters */
    TEXT_FUNCTION = TEXT_METHOD /* of function_counters */
};

enum text_of_problems { TEXT_PROBLEM };

enum text_of_interrupts { TEXT_INTERRUPT };

enum text_of_requests { TEXT_OPERATION, TEXT_FILE };

enum text_of_stacks { TEXT_CLASS, TEXT_FRAMES };

enum text_of_missed { TEXT_OUTCOME, TEXT_HALF };

enum text_of_collections { TEXT_GC_REASON, TEXT_GC_TYPE };

enum text_of_compilations { TEXT_JIT_METHOD };

/* The times are in the order of the states, from EC_SCHED_RUNNING on. */
enum sum_of_threads {
    SUM_RUNNING_NS,
    SUM_READY_NS,
    SUM_WAITING_NS,
    SUM_SWITCHES,
    SUM_WAITS,
    SUM_UNFINISHED_RUNNING_NS,
    SUM_UNFINISHED_READY_NS,
    SUM_UNFINISHED_WAITING_NS
};

enum sum_of_latencies {
    SUM_COUNT,
    SUM_NS,
    SUM_MAX_NS,
    SUM_BYTES,
    SUM_UNFINISHED_NS = SUM_BYTES, /* of waits */
    SUM_COUNTED = SUM_NS,          /* of samples: events of the counter */
};

enum sum_of_counted { SUM_EVENTS, SUM_VALUE };

enum sum_of_stacks { SUM_STACKS, SUM_FIRST_UTC_NS, SUM_LAST_UTC_NS };

enum sum_of_missed { SUM_HALVES, SUM_UTC_NS };

enum sum_of_transfers { SUM_IN, SUM_IN_BYTES, SUM_OUT, SUM_OUT_BYTES, SUM_TRANSFER_NS, SUM_TRANSFER_MAX_NS };

enum sum_of_collections {
    SUM_GC_BEGIN,
    SUM_GC_NS,
    SUM_GC_PAUSES,
    SUM_GC_PAUSE_BEGIN, /* of the first pause */
    SUM_GC_PAUSE_END,   /* of the last one */
    SUM_GC_PAUSE_NS,
    SUM_GC_SUSPENSION_NS,
    SUM_GC_BEFORE,
    SUM_GC_AFTER
};

enum sum_of_compilations { SUM_JIT_BEGIN, SUM_JIT_NS, SUM_JIT_OWN_NS, SUM_JIT_IL_BYTES, SUM_JIT_NATIVE_BYTES };

#define EC_SUM_UNKNOWN UINT64_MAX /* of EC_OF_KNOWN */

typedef struct ec_activity_key {
    uint64_t key[EC_ACTIVITY_KEYS];
    const char *text[3];  /* interned: equal texts have equal addresses */
    const char *image[2]; /* of the processes that it is about */
    int64_t process[2];   /* their instances: ec_address_space_process_key */
    int64_t bucket;       /* INT64_MIN: none */
    const ec_archive_stream *stream;
} ec_activity_key;

typedef struct ec_activity_row {
    ec_activity_key k;
    const char *module; /* of interrupts; of compilations: how the method was compiled */
    uint64_t sum[EC_ACTIVITY_SUMS];
} ec_activity_row;

typedef struct ec_cpu_counters {
    uint64_t last[EC_COUNTERS_MAX];
    const ec_counter_config *config; /* that last is of */
    int64_t since;                   /* its last compact switch; INT64_MIN: unknown */
    uint32_t tid;
    uint8_t count;
} ec_cpu_counters;

/* Rows and images that are found without a hash map: powers of two. */
enum { EC_ACTIVITY_RECENT = 8192, EC_ACTIVITY_IMAGES = 1024 };

struct ec_activity {
    enum ec_activity_kind kind;
    ec_archive *archive;
    ea_arena arena;
    ea_bytes_map texts, index;
    ec_activity_row *rows;
    size_t count, capacity;
    uint32_t recent[EC_ACTIVITY_RECENT]; /* rows met last, by numbers of their keys: index + 1 */
    uint32_t *by_hash;                   /* rows by the hash column, then by number; NULL: not requested */
    int64_t from_utc_ns, to_utc_ns, every_ns;
    struct ec_merge *places;     /* of code whose functions are named; NULL: the table is not about them */
    ea_bytes_map kernel_network; /* runs, as host and id, of which TcpIp or UdpIp events were met */
    int is_short;                /* there was no memory for a text: rows lack it */
    ea_text scratch;
    /* of a stream */
    const ec_archive_stream *stream;
    ec_address_space *space;
    ec_instances *instances;       /* of all streams; NULL: none without processes was met */
    int has_none[2];               /* of processes, threads: its session records none. enum ec_instance_kind */
    ec_instances_answer others[2]; /* where its session has none: what the run's other sessions gave last */
    ec_event_cursor *cursor;
    ea_clock clock;      /* of the last event */
    int64_t last_utc_ns; /* of the last event */
    ec_sched *sched;
    ea_cswitch_expander *expander; /* of compact switches; NULL: there was none yet */
    ec_request_tracker requests;
    ec_sample_sources sources;
    ec_cpu_counters *cpus;

    struct {
        const ea_process *process;
        const char *name;
    } images[EC_ACTIVITY_IMAGES]; /* names of images, interned, by the number of the process */

    ec_counter_names *names;                    /* of the counters on switches; NULL: the table is not about them */
    ec_methods *methods;                        /* NULL: the table is not about code */
    const ec_counter_config *config;            /* whose names counter_texts are */
    const char *counter_texts[EC_COUNTERS_MAX]; /* interned; NULL: it has none */
    ea_bytes_map runtimes;                      /* of .NET, and methods that are being compiled: dotnet_activity.c */
};

/* ---- activity_rows.c ---- */

/* A copy of a text that lives as long as a: equal texts have equal addresses. NULL: no memory, which a->is_short notes.
 */
const char *ec_activity_text(ec_activity *a, const char *text, size_t len_bytes);
/* The row of a key in the current stream, created when it is new. EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ec_activity_row_of(ec_activity *a, ec_activity_key *k, ec_activity_row **ret);
int ec_activity_is_in_range(const ec_activity *a, int64_t utc_ns);
/* The history that has the stream's processes, or threads, at a time: where its session records none, another one of
 * the same run. */
ec_address_space *ec_activity_space(ec_activity *a, enum ec_instance_kind kind, int64_t utc_ns);
/* The process that had a pid at a time: its instance and image, as the first or second one that a row is about. */
void ec_activity_put_process(ec_activity *a, ec_activity_key *k, unsigned which, uint32_t pid, int64_t utc_ns);

/* ---- activity_events.c ---- */

/* The plan of a class for the table that a makes; arg: the activity. */
const ec_event_cursor_plan *ec_activity_plan_class(void *arg, const ea_class *c);
int ec_activity_reads_threads(enum ec_activity_kind kind);
/* Whether the table is read to the stream's end, whatever the range: what begins in the range may end after it. */
int ec_activity_reads_on(enum ec_activity_kind kind);
/* The cursor's event is added to the rows. EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ec_activity_event(ec_activity *a, const ec_event_cursor_event *e);
/* The stream ends. */
EA_MUST_CHECK int ec_activity_end_events(ec_activity *a, int64_t until_utc_ns);
/* The states of threads, CPUs and requests are forgotten. */
void ec_activity_forget(ec_activity *a);
/* Functions take the place of places, and rows of the same function become one. errors: EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ec_activity_name_functions(ec_activity *a, const ec_profile_namer *namer);
/* Where both providers of network events were recorded in one run, the rows of the manifest's provider are removed. */
void ec_activity_drop_doubles(ec_activity *a);

/* ---- dotnet_activity.c ---- */

/* An event of a .NET runtime, for the tables gc_pauses and jit_methods; role: enum ec_role. EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ec_activity_dotnet(ec_activity *a, const ec_event_cursor_event *e, int role, int64_t utc_ns);

#endif
