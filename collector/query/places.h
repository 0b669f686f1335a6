/* Which process a thread's event belongs to, and which module an address is in, at a time: the history of a stream, in
 * memory.
 * Before it: collector/state's tables. After it: profile.c, activity.c. Thread: its owner's. */
#ifndef EC_QUERY_PLACES_H
#define EC_QUERY_PLACES_H

#include "archive.h"
#include "machine.h"

typedef struct ec_places ec_places;

/* Reads the processes, threads and modules of a stream. A stream that the history does not know has none. */
EA_MUST_CHECK int ec_places_open(ec_places **ret, ec_archive *archive, const ec_archive_stream *stream, ea_err *err);
void ec_places_close(ec_places *p); /* NULL is allowed */

enum { EC_NO_PROCESS = -1 }; /* as uint32_t */

/* Index of the process that had this pid at a time (else the one that had it nearest before, or first behind);
 * EC_NO_PROCESS when no process ever had it. */
uint32_t ec_places_process(ec_places *p, uint32_t pid, int64_t utc_ns);
/* The pid of a thread at a time, by the same rule; UINT32_MAX unknown. Thread 0 is of process 0. */
uint32_t ec_places_pid_of_thread(ec_places *p, uint32_t tid, int64_t utc_ns);
const ea_process *ec_places_get_process(const ec_places *p, uint32_t index);

/* Times between two changes of a process's modules, or of the drivers: a number for the stretch that a time is in.
 * Within one, an address is always in the same module. */
uint32_t ec_places_epoch(ec_places *p, uint32_t process, int64_t utc_ns);
/* The module that an address of a process is in, in an epoch: NULL when there is none. is_kernel: among the drivers.
 * *ret_unloaded: it had been unloaded by then (the last one that was there). */
const ea_module *ec_places_module(ec_places *p, uint32_t process, uint32_t epoch, uint64_t address, int is_kernel,
                                  int *ret_unloaded);

/* What such a module is called wherever modules are summed: "[unloaded NAME]", in buffer. */
const char *ec_unloaded_name(const char *name, char *buffer, size_t capacity);

#endif
