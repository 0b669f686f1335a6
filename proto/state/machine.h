/* A machine's state, folded from records: the processes, threads, modules and drivers that are open now, and a
 * notification each time one of them begins, changes or ends. The collector keeps the history of the notifications; the
 * agent keeps the table for keyframes and process filters.
 * Calls: proto/event. Called by: collector/state, service (keyframes). Thread: its owner's.
 *
 * Rules (tests/judges/naive_state.py has the same in Python, as a judge):
 * - The records are Process, Thread and Image Start/Load (opcode 1; images 10), End/Unload (2), DCStart (3), DCEnd (4),
 *   Thread SetName (72), ImageID (0) and DbgID_RSDS (36), and those named below. Others, Process Terminate (11) and
 * Defunct (39) among them, change nothing.
 * - Processes are keyed by pid, threads by tid, modules by (pid, base). Thread 0, which every CPU has, is keyed by its
 *   kernel stack's base too: its rundown records all come from one CPU. Modules of pid 0 are drivers.
 * - A Start record opens an instance at its time. An instance of the same key that is still open is closed at that time
 *   first (missed end). The Start of a process also ends the threads and modules under its pid that began earlier.
 *   Threads and modules whose beginning is unknown and that a rundown named later than the Start belong to the new
 *   process, and began no earlier than it.
 * - A Start record may come late, after younger records of its own instance (buffers of two processors). The last
 *   instance of its key, open or ended, may be the instance that it is about (not another UniqueProcessKey, process of
 *   a thread, image size). If that instance also began at an unknown time and was first seen later than the Start's
 *   time, then it began at the Start's time and is completed; nothing is opened, and nothing closed.
 * - A DCStart or DCEnd record (a rundown) of a key that is open completes the fields that are missing (zero or empty)
 *   and changes nothing else. For a key that is not open it opens an instance that began at an unknown time, not before
 *   the end of the last instance of that key, nor the beginning of the data. A record that names another instance than
 *   the open one (another UniqueProcessKey, a thread of another process, another image size) closes the open one at its
 *   time (missed end) and opens its own, which then began no earlier.
 * - A rundown's record may come late, too, after records of later events on another processor or in another session.
 *   When the last instance of its key ended up to a minute later than the record's time and may be the instance that
 *   the record names (as above), that instance is completed, and nothing is opened. A thread or module that the record
 *   opens, of a process that ended up to a minute later, ends with that process.
 * - A rundown at a session's start begins with process 0 and is complete with the session's RDComplete record (opcode 8
 *   of EventTrace). Then the open instances that were first seen before the rundown began, and that it did not name,
 *   are closed at its beginning: processes, and threads and modules of those processes of which it named a thread or a
 *   module. A record of lost events in the rundown, or the beginning of another rundown, makes it incomplete: nothing
 *   is closed.
 * - An End record completes and closes the open instance at its time. When there is none (or another, as above), it
 *   makes an instance that began at an unknown time and ended then (missed start). If the last instance of that key was
 *   ended by its process's end or a rundown, or was evicted from a full table, the End record only moves that end to
 *   its own time.
 * - The end of a process ends its threads and modules that are still open.
 * - An ImageID or DbgID_RSDS record describes a module (pid, base of its payload). It is the module of the next Image
 *   record of that key at the very same time (merged traces have the records in this order). Without such a record, it
 *   is the open or else the last module of that key, as soon as a later record of the classes above comes. The record
 *   completes the fields that are missing.
 * - Announce ModuleLoad (id 1), ModuleUnload (2) and ModuleDCStart (3) are to a module of the header's process what the
 *   Image records Load, UnLoad and DCStart are. A module that such a record opens is of kind "announced" and stays so;
 *   as no rundown of the kernel names it, none closes it.
 * - An ImageFile/Facts record (image_facts.h) describes the module (pid, base, path of its payload) that is open, or
 *   else the last one of that key, and completes the fields that are missing.
 * - A Kernel-Process ProcessStart (id 1) or ProcessRundown (15), and event 4688 of Security-Auditing describe a
 * process: mandatory label, elevation, logon session. It is the open or else the last one of the pid that was there
 * when the described one was made (CreateTime; the record's time for 4688), has the same parent (Kernel-Process), and
 * began within a second of that, or was seen first no more than a second before it. The record completes the fields
 * that are missing. Without such a process it waits for records of that pid up to a minute; at most 64 wait, then the
 *   oldest is dropped. The logon session of 4688 is that of the target, without one that of the subject; versions of
 *   4688 without a target do not have it.
 * - A keyframe (keyframe.h) names all open instances of the other side. An instance that it names and that is open here
 *   is completed, its beginning too. Another open instance of the same key (another instance as above, or another
 *   beginning) is closed when the named one began (missed end). An instance that is not open here is opened with the
 *   beginning in the keyframe. At the keyframe's end, the instances that it did not name are closed at its time, unless
 *   parts of the keyframe are missing: then nothing is closed.
 * - An interval includes its beginning and excludes its end. */
#ifndef EA_STATE_MACHINE_H
#define EA_STATE_MACHINE_H

#include "proto/base/counters.h"
#include "proto/event/event.h"

enum ea_begin { EA_BEGIN_EVENT = 0, EA_BEGIN_RUNDOWN_START = 1, EA_BEGIN_RUNDOWN_END = 2, EA_BEGIN_END_ONLY = 3 };

enum ea_finish {
    EA_FINISH_OPEN = 0,
    EA_FINISH_EVENT = 1,
    EA_FINISH_REPLACED = 2,
    EA_FINISH_PROCESS_END = 3,
    EA_FINISH_EVICTED = 4,  /* the full table gave it up; it may live on */
    EA_FINISH_KEYFRAME = 5, /* a keyframe does not name it any more; it ended at some time before */
    EA_FINISH_RUNDOWN = 6,  /* likewise a complete rundown */
};

/* begin_utc_ns is the time of the Start record when begin_cause is EA_BEGIN_EVENT; else the earliest time at which the
 * instance can have begun (the end of its predecessor, or the beginning of the data). Strings are UTF-8, owned by the
 * machine, valid during the notification. */
typedef struct ea_interval {
    uint64_t instance;                /* number of this instance on this machine, from 1 */
    int64_t begin_utc_ns, end_utc_ns; /* end INT64_MAX while open */
    int64_t seen_utc_ns;              /* of the first record about it: it began no later */
    uint8_t begin_cause, end_cause;
} ea_interval;

typedef struct ea_process {
    ea_interval life;
    uint32_t pid, parent_pid, session_id;
    uint64_t parent_instance; /* the parent that was open when this one was first seen; 0 unknown */
    uint64_t unique_key, directory_table_base;
    int32_t exit_status; /* valid when life.end_cause is EA_FINISH_EVENT */
    uint32_t flags;
    const char *image_name, *command_line, *sid, *package, *application; /* "" when absent */
    const char *mandatory_label;                                         /* "S-1-16-8192"; "" when absent */
    uint32_t elevation_type; /* of the token: 1 default, 2 full, 3 limited; 0 unknown */
    uint32_t elevated;       /* 1 no, 2 yes; 0 unknown */
    uint64_t logon_id;       /* of the logon session; 0 unknown */
} ea_process;

/* Facts of a process that wait for its record. */
typedef struct ea_process_facts {
    int64_t utc_ns, created_utc_ns; /* of the record, and when the process was made */
    uint32_t pid, parent_pid;       /* 0: not known */
    const char *mandatory_label;
    uint32_t elevation_type, elevated;
    uint64_t logon_id;
} ea_process_facts;

typedef struct ea_thread_row {
    ea_interval life;
    uint32_t tid, pid;
    uint16_t cpu; /* thread 0 only: the one CPU of its affinity mask, else the record's */
    uint64_t process_instance;
    uint64_t stack_base, start_address, win32_start_address, teb;
    const char *name; /* "" when absent */
} ea_thread_row;

enum ea_module_kind {
    EA_MODULE_IMAGE = 0,
    EA_MODULE_ANNOUNCED = 1, /* by its program (etwagent_announce.h): Windows knows of none */
};

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
    const char *pdb_path, *original_name;                  /* "" when absent */
    uint64_t file_bytes;                                   /* 0: the file was not read */
    const char *sha256, *file_version, *company, *product; /* of the file; "" when absent */
    const char *md5, *sha1, *imphash, *description;        /* of the file too */
    uint32_t kind;                                         /* enum ea_module_kind */
} ea_module;

/* How a keyframe compared with the state. */
typedef struct ea_keyframe_result {
    int64_t utc_ns;
    uint32_t named;                    /* processes, threads and modules */
    uint32_t added, completed, closed; /* differences */
    int whole;                         /* 0: parts of it were missing */
    const char *text;                  /* the first differences in words; "" without any */
} ea_keyframe_result;

/* Each is called when an instance begins, when what is known of it grows, and when it ends. */
typedef struct ea_machine_observer {
    int (*on_process)(void *arg, const ea_process *p);
    int (*on_thread)(void *arg, const ea_thread_row *t);
    int (*on_module)(void *arg, const ea_module *m);
    int (*on_keyframe)(void *arg, const ea_keyframe_result *result); /* at its end */
} ea_machine_observer;

typedef struct ea_machine ea_machine;

/* When a table is full, the instance that has been open longest is given up (EA_FINISH_EVICTED, counted). The last
 * ended instance of a key is kept too, for what comes late; beyond limit_ended those that ended first are forgotten,
 * and "the end of the last instance of that key" is then the latest end that was forgotten. */
typedef struct ea_machine_options {
    size_t limit_processes, limit_threads, limit_modules; /* open ones; 0: 65,536, 1,048,576, 1,048,576 */
    size_t limit_ended;                                   /* of each table; 0: 65,536 */
    size_t limit_text_bytes; /* all texts; further ones are left out and counted; 0: 256 MiB */
    /* Of all three tables and the texts together; it sets the limits that are 0 above, and makes others smaller: half
     * of it for modules, a quarter for threads, an eighth each for processes and texts. At least 64 KiB. 0: no such
     * bound. */
    size_t limit_bytes;
    const ea_machine_observer *observer; /* borrowed; may be NULL */
    void *observer_arg;
    ea_counters *counters; /* borrowed; state_* are counted here; may be NULL */
} ea_machine_options;

EA_MUST_CHECK int ea_machine_create(ea_machine **ret, const ea_machine_options *options, ea_err *err);
void ea_machine_destroy(ea_machine *m);

/* 1 when records of this provider and opcode can say something about the state; a few comparisons. A record for which
 * it is 0 need not be applied at all. */
int ea_machine_concerns(const ea_guid *provider, uint16_t opcode);

/* Folds one record in. utc_ns: its time. Returns 0, or what an observer returned. Records of classes that say nothing
 * about the state cost a few comparisons. Classes may be freed before the machine. */
EA_MUST_CHECK int ea_machine_apply(ea_machine *m, const ea_record *record, const ea_class *c, int64_t utc_ns,
                                   ea_err *err);

/* Puts back an instance as it was stored: for a restart. Calls no observer. First the open ones in the order of their
 * instance numbers, then the ended ones, the last ended first; those that have a newer instance of their key are
 * skipped. Returns 0, EA_ELIMIT when no more ended ones are kept (which it notes), EA_ENOMEM. */
EA_MUST_CHECK int ea_machine_restore_process(ea_machine *m, const ea_process *p);
EA_MUST_CHECK int ea_machine_restore_thread(ea_machine *m, const ea_thread_row *t);
EA_MUST_CHECK int ea_machine_restore_module(ea_machine *m, const ea_module *mod);
/* The highest instance number given out (one series for all three tables), and the beginning of the data: for a
 * restart. Without a call the data begins with the first record applied. */
/* Puts back an id that waits for its image record, as ea_machine_each_pending_id returned it. EA_ELIMIT: more than the
 * 64 ids that may wait. */
EA_MUST_CHECK int ea_machine_restore_pending_id(ea_machine *m, const ea_module *id, int64_t utc_ns);
void ea_machine_restore_position(ea_machine *m, uint64_t last_instance, int64_t begin_utc_ns);
uint64_t ea_machine_last_instance(const ea_machine *m);
int64_t ea_machine_begin_utc_ns(const ea_machine *m); /* INT64_MIN before the first record */

/* Bytes of the tables and the texts: what limit_bytes bounds (but for a small entry that each text has in an index). */
size_t ea_machine_bytes(const ea_machine *m);
/* Processes, threads and modules that are open now. */
size_t ea_machine_open_count(const ea_machine *m);
/* How many open rows full tables evicted, ever: while it is not 0, a row that is missing may still be open. */
uint64_t ea_machine_evicted(const ea_machine *m);

/* The last process of a pid, the last thread of a tid (not 0): open, or ended and not forgotten yet. NULL: none. Valid
 * until the next record. */
const ea_process *ea_machine_process(const ea_machine *m, uint32_t pid);
const ea_thread_row *ea_machine_thread(const ea_machine *m, uint32_t tid);
/* The module of an open process that has the process's image name; NULL: none is known. */
const ea_module *ea_machine_main_module(const ea_machine *m, const ea_process *p);
/* The open module at an address: of the process, else of the kernel. Of several, as when the end of one was lost, the
 * last. NULL: none is known. It visits all modules of the process: callers keep what they found. */
const ea_module *ea_machine_module_at(const ea_machine *m, uint32_t pid, uint64_t address);
/* While this number stays the same, so do all answers of ea_machine_module_at for the process. */
uint64_t ea_machine_module_changes(const ea_machine *m, uint32_t pid);
/* The last part of a path of Windows. */
const char *ea_path_end(const char *path);

/* Visits what is open now, the longest open first. */
void ea_machine_each_process(const ea_machine *m, void (*fn)(void *arg, const ea_process *p), void *arg);
void ea_machine_each_thread(const ea_machine *m, void (*fn)(void *arg, const ea_thread_row *t), void *arg);
void ea_machine_each_module(const ea_machine *m, void (*fn)(void *arg, const ea_module *mod), void *arg);
/* An id waits for an image record of its own time: those of another time than this wait no longer. Each record of the
 * classes above does this with its time; who makes a keyframe does it with that of the last record of any class.
 * Errors: the observer's. */
EA_MUST_CHECK int ea_machine_settle_ids(ea_machine *m, int64_t utc_ns);
/* Puts back facts that wait, in the order of ea_machine_each_pending_facts. EA_ELIMIT: more than the 64 that may wait.
 */
EA_MUST_CHECK int ea_machine_restore_pending_facts(ea_machine *m, const ea_process_facts *facts);
/* Visits the facts that wait (at most 64), the oldest first. */
void ea_machine_each_pending_facts(const ea_machine *m, void (*fn)(void *arg, const ea_process_facts *facts),
                                   void *arg);
/* Visits the ids that wait (at most 64). */
void ea_machine_each_pending_id(const ea_machine *m, void (*fn)(void *arg, const ea_module *id, int64_t utc_ns),
                                void *arg);

#endif
