/* Which process a thread's event belongs to, and which module an address is in, at a time: the history of a stream, in
 * memory. Input: collector/state's tables. Used by: stack_query.c, activity.c, instances.c. Thread: its owner's. */
#ifndef EC_QUERY_ANALYSIS_ADDRESS_SPACE_H
#define EC_QUERY_ANALYSIS_ADDRESS_SPACE_H

#include "collector/query/scan/archive.h"
#include "proto/state/machine.h"

typedef struct ec_address_space ec_address_space;

/* Reads the processes and threads of a stream and, with has_modules, its modules. A stream that the history does not
 * know has none. */
EA_MUST_CHECK int ec_address_space_open(ec_address_space **ret, ec_archive *archive, const ec_archive_stream *stream,
                                        int has_modules, ea_err *err);
/* The same with modules; where the session has no processes, those of all sessions of its run (EA_STREAM_RUN_BYTES) and
 * their modules, where it has no threads, theirs. */
EA_MUST_CHECK int ec_address_space_open_run(ec_address_space **ret, ec_archive *archive,
                                            const ec_archive_stream *stream, ea_err *err);
void ec_address_space_close(ec_address_space *p); /* NULL is allowed */

enum { EC_NO_PROCESS = -1 }; /* as uint32_t */

/* Index of the process that had this pid at a time; else the last process that had it before, or else the first one
 * after; EC_NO_PROCESS when no process ever had it. */
uint32_t ec_address_space_process(ec_address_space *p, uint32_t pid, int64_t utc_ns);
/* The pid of a thread at a time, by the same rule; UINT32_MAX unknown. Thread 0 is of process 0. */
uint32_t ec_address_space_pid_of_thread(ec_address_space *p, uint32_t tid, int64_t utc_ns);
/* Index of the thread that had this number at a time, by the same rule; EC_NO_THREAD when no thread ever had it. Thread
 * 0 is none: each CPU has one of its own. */
uint32_t ec_address_space_thread(const ec_address_space *p, uint32_t tid, int64_t utc_ns);

enum { EC_NO_THREAD = -1 }; /* as uint32_t */

const ea_process *ec_address_space_get_process(const ec_address_space *p, uint32_t index);
/* The file name of its image; "Idle" for process 0; "?" when it is unknown. */
const char *ec_address_space_process_name(const ec_address_space *p, uint32_t index);
size_t ec_address_space_process_count(const ec_address_space *p);
size_t ec_address_space_thread_count(const ec_address_space *p);

enum { EC_INSTANCE_BITS = 40 };

static inline int64_t ec_instance_key(int64_t stream_number, uint64_t instance) {
    return (int64_t)((uint64_t)stream_number << EC_INSTANCE_BITS | instance);
}

/* An instance of any stream as one number: process_key and thread_key of SQL's tables. It holds as long as the history
 * is not made anew. 0: EC_NO_PROCESS, EC_NO_THREAD. */
int64_t ec_address_space_process_key(const ec_address_space *p, uint32_t index);
int64_t ec_address_space_thread_key(const ec_address_space *p, uint32_t index);
/* When it began; INT64_MAX for EC_NO_PROCESS, EC_NO_THREAD. */
int64_t ec_address_space_process_begin(const ec_address_space *p, uint32_t index);
int64_t ec_address_space_thread_begin(const ec_address_space *p, uint32_t index);

/* Times between two changes of a process's modules, or of the drivers: a number for the stretch that a time is in.
 * Within one, an address is always in the same module. */
uint32_t ec_address_space_epoch(ec_address_space *p, uint32_t process, int64_t utc_ns);
/* The module that an address of a process is in, in an epoch: NULL when there is none. is_kernel: among the drivers.
 * *ret_unloaded: it had been unloaded by then (the last one that was there). */
const ea_module *ec_address_space_module(ec_address_space *p, uint32_t process, uint32_t epoch, uint64_t address,
                                         int is_kernel, int *ret_unloaded);

/* What such a module is called wherever modules are summed: "[unloaded NAME]", in buffer. */
const char *ec_unloaded_name(const char *name, char *buffer, size_t capacity);

#endif
