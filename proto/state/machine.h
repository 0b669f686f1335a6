/* A machine's state, folded from records: which processes, threads, modules and drivers there are now, and a
 * notification each time one of them begins, changes or ends. The collector keeps the history of the notifications; the
 * agent keeps the table for keyframes and process filters.
 * Before it: proto/event. After it: collector/state, service (keyframes). Thread: its owner's.
 *
 * Rules (tests/e2e has the same in Python, as a judge):
 * - A Start record opens an instance at its time. An instance of the same pid that is still open is closed at that time
 *   first (missed end).
 * - A DCStart or DCEnd record (a rundown) of a pid that is open completes the fields that it lacks and changes nothing else;
 *   of a pid that is not open it opens an instance that began at an unknown time, not before the end of the last
 *   instance of that pid, nor the beginning of the data.
 * - An End record closes the open instance at its time; when there is none, it makes one that began at an unknown time and
 *   ended then (missed start).
 * - Processes are keyed by pid, threads by tid (thread 0 by its CPU, too), modules by (pid, base). Module of pid 0 are
 *   drivers. The end of a process ends its threads and modules that are still open. */
#ifndef EA_STATE_MACHINE_H
#define EA_STATE_MACHINE_H

#include "counters.h"
#include "event.h"

enum ea_begin { EA_BEGIN_EVENT = 0, EA_BEGIN_RUNDOWN_START = 1, EA_BEGIN_RUNDOWN_END = 2, EA_BEGIN_END_ONLY = 3 };
enum ea_finish { EA_FINISH_OPEN = 0, EA_FINISH_EVENT = 1, EA_FINISH_REPLACED = 2, EA_FINISH_PROCESS_END = 3 };

/* begin_utc_ns is the time of the Start record when begin_cause is EA_BEGIN_EVENT; else the earliest time at which the
 * instance can have begun (the end of its predecessor, or the beginning of the data). Strings are UTF-8, owned by the
 * machine, valid during the notification. */
typedef struct ea_interval {
    uint64_t instance;   /* number of this instance on this machine, from 1 */
    int64_t begin_utc_ns, end_utc_ns; /* end INT64_MAX while open */
    uint8_t begin_cause, end_cause;
} ea_interval;

typedef struct ea_process {
    ea_interval life;
    uint32_t pid, parent_pid, session_id;
    uint64_t parent_instance; /* the parent that was open when this one was first seen; 0 unknown */
    uint64_t unique_key, directory_table_base;
    int32_t exit_status;      /* valid when life.end_cause is EA_FINISH_EVENT */
    uint32_t flags;
    const char *image_name, *command_line, *sid, *package, *application; /* "" when absent */
} ea_process;

typedef struct ea_thread_row {
    ea_interval life;
    uint32_t tid, pid;
    uint16_t cpu; /* thread 0 only */
    uint64_t process_instance;
    uint64_t start_address, win32_start_address, teb;
    const char *name;
} ea_thread_row;

typedef struct ea_module {
    ea_interval life;
    uint32_t pid; /* 0: a driver or the kernel */
    uint64_t process_instance;
    uint64_t base, size_bytes, default_base;
    uint32_t checksum, timestamp;
    const char *path;
    int has_pdb;
    ea_guid pdb_guid;
    uint32_t pdb_age;
    const char *pdb_path, *original_name; /* "" when absent */
} ea_module;

/* Each is called when an instance begins, when what is known of it grows, and when it ends. */
typedef struct ea_machine_observer {
    int (*on_process)(void *arg, const ea_process *p);
    int (*on_thread)(void *arg, const ea_thread_row *t);
    int (*on_module)(void *arg, const ea_module *m);
} ea_machine_observer;

typedef struct ea_machine ea_machine;

typedef struct ea_machine_options {
    size_t limit_processes, limit_threads, limit_modules; /* open ones; 0: 65,536, 1,048,576, 1,048,576 */
    const ea_machine_observer *observer;                  /* borrowed; may be NULL */
    void *observer_arg;
    ea_counters *counters; /* borrowed; state_* are counted here; may be NULL */
} ea_machine_options;

EA_MUST_CHECK int ea_machine_create(ea_machine **ret, const ea_machine_options *options, ea_err *err);
void ea_machine_destroy(ea_machine *m);

/* Folds one record in. utc_ns: its time. Returns 0, or what an observer returned. Records of classes that say nothing about
 * the state cost one look-up. */
EA_MUST_CHECK int ea_machine_apply(ea_machine *m, const ea_record *record, const ea_class *c, int64_t utc_ns, ea_err *err);

/* Puts back an open instance as it was stored: for a restart. Calls no observer. */
EA_MUST_CHECK int ea_machine_restore_process(ea_machine *m, const ea_process *p);
EA_MUST_CHECK int ea_machine_restore_thread(ea_machine *m, const ea_thread_row *t);
EA_MUST_CHECK int ea_machine_restore_module(ea_machine *m, const ea_module *mod);
/* The highest instance numbers given out, and the beginning of the data; for a restart. */
void ea_machine_restore_position(ea_machine *m, uint64_t last_instance, int64_t begin_utc_ns);

/* Visits what is open now, in no particular order. */
void ea_machine_each_process(const ea_machine *m, void (*fn)(void *arg, const ea_process *p), void *arg);
void ea_machine_each_thread(const ea_machine *m, void (*fn)(void *arg, const ea_thread_row *t), void *arg);
void ea_machine_each_module(const ea_machine *m, void (*fn)(void *arg, const ea_module *mod), void *arg);

#endif
