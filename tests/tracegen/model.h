/* The interface of the simulated machine: it is made from a scenario and a seed, and runs once into a trace and a
 * truth. The same scenario and seed give the same bytes on every compiler: integers only, one queue ordered by (time,
 * number). Input: a scenario. Calls: trace_out.h (the events that Windows would have logged), truth.h (the truth).
 * Thread: its owner's. Inside: subsystems.h. */
#ifndef EA_TESTS_TRACEGEN_MODEL_H
#define EA_TESTS_TRACEGEN_MODEL_H

#include "tests/tracegen/scenario.h"
#include "tests/tracegen/trace_out.h"

typedef struct tg_machine tg_machine;
typedef struct tg_truth tg_truth;

/* seed: chooses everything that the scenario leaves open. scenario: borrowed. */
EA_MUST_CHECK int tg_machine_create(tg_machine **ret, const tg_scenario *scenario, uint64_t seed, ea_err *err);
void tg_machine_destroy(tg_machine *m); /* NULL is allowed */

/* What a trace of this machine has to be made with; path is the caller's. start_filetime: when it begins (0: always the
 * same day; raw times depend on it only where the clock is the system's). info: filled in, and pointed to. */
void tg_machine_trace_options(tg_machine *m, int64_t start_filetime, ea_etl_info *info, tg_trace_options *ret);

/* Runs the scenario from begin to end into trace: rundown, events, rundown; truth may be NULL. Both are borrowed.
 * *ret_end_raw: when it stopped. The machine cannot be run again. */
EA_MUST_CHECK int tg_machine_run(tg_machine *m, tg_trace *trace, tg_truth *truth, int64_t *ret_end_raw, ea_err *err);

size_t tg_machine_process_count(const tg_machine *m); /* all that ever were */

#endif
