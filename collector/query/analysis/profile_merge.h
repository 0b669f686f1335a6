/* The part of a profile that outlives a stream: modules, frames and stacks of all machines, each once. Input:
 * profile.c, stream by stream. Used by: profile_write.c. Thread: its owner's. */
#ifndef EC_QUERY_ANALYSIS_PROFILE_MERGE_H
#define EC_QUERY_ANALYSIS_PROFILE_MERGE_H

#include "collector/query/analysis/profile.h"
#include "proto/state/machine.h"

typedef struct ec_merge ec_merge;

EA_MUST_CHECK int ec_merge_create(ec_merge **ret, size_t limit_stacks, int has_names);
void ec_merge_destroy(ec_merge *m); /* NULL is allowed */

/* The number of a program, of a place in a module (module NULL: of an address). Returns 0 or EA_ENOMEM. is_return: the
 * address is a return address, which follows the call that ran. is_unloaded: the module was loaded before, which is
 * another module for the sums. */
EA_MUST_CHECK int ec_merge_process(ec_merge *m, const char *name, uint32_t *ret);
EA_MUST_CHECK int ec_merge_frame(ec_merge *m, const ea_module *module, int is_unloaded, uint64_t address, int is_return,
                                 uint32_t *ret);
/* The number of a .NET method. module: of the native image that its code was compiled into ahead of time; NULL: the
 * runtime made it, in no module. EA_ENOMEM. */
EA_MUST_CHECK int ec_merge_method(ec_merge *m, const ea_module *module, const char *name, uint32_t *ret);
/* The number of the frame of times without a recorded end, EC_PROFILE_OPEN. EA_ENOMEM. */
EA_MUST_CHECK int ec_merge_open(ec_merge *m, const char *name, uint32_t *ret);
/* side 0 or 1: the range, the other range. *ret: the number of the stack. EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ec_merge_stack(ec_merge *m, int side, uint32_t process, const uint32_t *frames, size_t count,
                                 uint64_t weight, uint64_t events, uint32_t *ret);

/* A thread that samples are of. stream, instance: of its process; process: the program, by ec_merge_process. */
typedef struct ec_merge_thread {
    const char *host; /* borrowed as long as the merge lives */
    uint32_t stream, instance, process, pid, tid;
} ec_merge_thread;

/* An event of a stack of side 0. EA_ELIMIT, EA_ENOMEM. */
EA_MUST_CHECK int ec_merge_sample(ec_merge *m, uint32_t stack, const ec_merge_thread *thread, int64_t utc_ns,
                                  uint64_t weight);

/* The innermost function at a place, after ec_merge_finish; borrowed. */
const ec_profile_frame *ec_merge_innermost(const ec_merge *m, uint32_t place);
/* Names all places, and hands the result over: p's modules, frames, processes and stacks, which live as long as
 * p->memory. */
EA_MUST_CHECK int ec_merge_finish(ec_merge *m, const ec_profile_namer *namer, ec_profile *p);

#endif
