/* Stored stacks, joined to the stored events of a stream: summed by process and stack, or event by event. What a
 * profile, the tables of stacks and the column stack_hash are made of. Input: event_cursor.h, stackwalk_reader.h,
 * address_space.h, methods.h, proto/stack. Used by: profile.c, activity.c, event_annotations.c. Thread: the caller's.
 */
#ifndef EC_QUERY_ANALYSIS_STACK_QUERY_H
#define EC_QUERY_ANALYSIS_STACK_QUERY_H

#include "collector/query/analysis/address_space.h"
#include "collector/query/analysis/methods.h"
#include "collector/query/analysis/weight.h"
#include "proto/stack/stack_join.h"

typedef struct ec_stack_query_options {
    enum ec_weight weight;
    const char *counter;            /* EC_WEIGHT_PMC: its name, in any case, or the number of its source; borrowed */
    int64_t from_utc_ns, to_utc_ns; /* from is included, to is not */
    const uint32_t *pids;           /* borrowed */
    size_t pid_count;               /* 0: all */
    size_t limit_window_bytes;      /* of the join; 0: 16 MiB */
    size_t limit_stacks_bytes;      /* of the stacks; 0: 512 MiB */
    int wants_samples;              /* each event by itself, too: ec_stack_query_sample */
    int (*keep_going)(void *arg);   /* asked now and then; 0 ends with EA_ECANCELED; may be NULL */
    void *arg;
} ec_stack_query_options;

enum { EC_OTHER_SOURCES = 8 };

/* What is counted beside the sums; each stream adds to it. */
typedef struct ec_stack_counts {
    uint64_t total, events;              /* all weight; events that had some */
    uint64_t without_stack;              /* of the events: only their own address is known, or nothing */
    uint64_t incomplete[EC_LACKS_COUNT]; /* of the events: those whose stacks are known to lack something */
    uint64_t unfinished, unfinished_ns;  /* see ec_profile */
    uint64_t unbegun, unbegun_ns;        /* likewise */
    uint64_t halves[EA_STACK_OUTCOME_COUNT];
    uint64_t keys_undefined;
    uint64_t methods_left_out;                /* of methods.h */
    int is_interval_assumed;                  /* nothing stored says the sampling interval: 1 ms */
    uint64_t other_sources[EC_OTHER_SOURCES]; /* of counter samples that were not asked for: the first ones */
    size_t other_source_count;
} ec_stack_counts;

typedef struct ec_stack_query ec_stack_query;

/* Joins and sums a stream. archive, stream: borrowed until close. Errors: EA_ELIMIT, EA_ECANCELED, EA_ENOMEM,
 * EA_EDATABASE. */
EA_MUST_CHECK int ec_stack_query_run(ec_stack_query **ret, ec_archive *archive, const ec_archive_stream *stream,
                                     const ec_stack_query_options *options, ec_stack_counts *counts, ea_err *err);
void ec_stack_query_close(ec_stack_query *q); /* NULL is allowed */
size_t ec_stack_query_count(const ec_stack_query *q);

/* One sum: events of a process with the same stack. */
typedef struct ec_stack_weight {
    const char *image; /* of the process, "?" unknown; borrowed */
    const char *open;  /* of times without a recorded end, which have no stack: their name; else NULL */
    uint64_t weight, events;
} ec_stack_weight;

void ec_stack_query_get(const ec_stack_query *q, size_t i, ec_stack_weight *ret);

/* An event of a sum. */
typedef struct ec_stack_sample {
    size_t sum;        /* its number */
    uint32_t process;  /* the instance: an index of the stream, or EC_NO_PROCESS */
    uint32_t pid, tid; /* UINT32_MAX: unknown */
    int64_t utc_ns;    /* of a time without a recorded end: its beginning */
    uint64_t weight;
} ec_stack_sample;

size_t ec_stack_query_sample_count(const ec_stack_query *q);
void ec_stack_query_sample(const ec_stack_query *q, size_t i, ec_stack_sample *ret);

/* Borrowed during the call. */
typedef struct ec_stack_frame {
    uint64_t address;
    int is_return;           /* the address is where a call returns to */
    const ea_module *module; /* NULL: none */
    int is_unloaded;         /* the module had been unloaded by then */
    const ec_method *method; /* of .NET; NULL: none */
} ec_stack_frame;

/* The frames of a sum's stack, the innermost first, at most 4,096: 0, or what fn returned. */
EA_MUST_CHECK int ec_stack_query_frames(const ec_stack_query *q, size_t i,
                                        int (*fn)(void *arg, const ec_stack_frame *f), void *arg);

/* ---- event by event ---- */

/* A stack, and how many events of a class a thread had with it. Borrowed during the call. */
typedef struct ec_stack_sum {
    const char *name;  /* of the class */
    const char *image; /* of the process, "?" unknown */
    uint32_t pid, tid;
    int64_t process_key;  /* ec_address_space_process_key */
    uint64_t count, hash; /* hash: of the addresses */
    int64_t first_utc_ns, last_utc_ns;
    size_t depth;
    const char *frames; /* JSON, the innermost first: [{"address","module","offset"} or {"address","method"}, ...] */
} ec_stack_sum;

/* All stacks of a stream's events from one time to another, each event of whatever class joined to its own. fn returns
 * 0, or what ends it. Errors: EA_ELIMIT, EA_ENOMEM, EA_EDATABASE. */
EA_MUST_CHECK int ec_stack_query_sums(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns,
                                      int64_t to_utc_ns, int (*fn)(void *arg, const ec_stack_sum *s), void *arg,
                                      ea_err *err);

/* The stack of one event. */
typedef struct ec_stack_link {
    uint64_t place; /* of the event: ec_event_position */
    uint64_t hash;  /* as in ec_stack_sum */
} ec_stack_link;

typedef struct ec_stack_links {
    ec_stack_link *links; /* by place; the caller's: free */
    size_t count, capacity;
    size_t limit_count;
} ec_stack_links;

/* The stacks of a stream's events from one time to another, event by event, added to *ret, which the caller has zeroed
 * but for its limit. Errors: EA_ELIMIT, EA_ENOMEM, EA_EDATABASE, EA_ECANCELED. */
EA_MUST_CHECK int ec_stack_query_links(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns,
                                       int64_t to_utc_ns, ec_stack_links *ret, ea_err *err);

/* A half of a stack that joined no event. Borrowed during the call. */
typedef struct ec_missed_half {
    uint64_t place;      /* ec_event_position: of the record that brought it; "no_answer": of the event */
    int64_t utc_ns;      /* of the event that the walk names; without one, of the record */
    const char *half;    /* "kernel", "user"; NULL: the record could not be read */
    const char *outcome; /* ea_stack_outcome_name, or "no_answer": an event named a match id, and no user half came */
    const char *image;   /* of the process, "?" unknown */
    uint32_t pid, tid;
    int64_t process_key; /* ec_address_space_process_key */
} ec_missed_half;

/* All halves of a stream that joined no event, of times from one to another. The stream is read from its beginning. fn
 * returns 0, or what ends it. Errors: EA_ELIMIT, EA_ENOMEM, EA_EDATABASE. */
EA_MUST_CHECK int ec_stack_query_missed(ec_archive *archive, const ec_archive_stream *stream, int64_t from_utc_ns,
                                        int64_t to_utc_ns, int (*fn)(void *arg, const ec_missed_half *m), void *arg,
                                        ea_err *err);

#endif
