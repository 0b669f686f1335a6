/* The machine that a trace is of: a discrete-event model of processes, threads, modules and a sampling profiler.
 * Seeded and deterministic: integers only, one queue ordered by (time, number).
 * Before it: a scenario. After it: trace_out.h (what Windows would have logged), truth.h (what really was).
 * Thread: its owner's. */
#ifndef EA_TRACEGEN_MODEL_H
#define EA_TRACEGEN_MODEL_H

#include "scenario.h"
#include "trace_out.h"

/* Times are raw ticks. Before the trace: INT64_MIN; not ended in it: INT64_MAX. */
typedef struct tg_life {
    int64_t begin_raw, end_raw;
} tg_life;

typedef struct tg_image {
    char *path;       /* as Image events have it */
    const char *file; /* the last part of path */
    uint64_t base;    /* the same in every process, until the next boot */
    uint32_t size_bytes, checksum, timestamp;
    ea_guid pdb_guid;
    uint32_t pdb_age;
    char *pdb_name;
    uint8_t sets; /* as tg_dll.sets */
} tg_image;

typedef struct tg_module {
    const tg_image *image;
    tg_life life;
} tg_module;

typedef struct tg_process tg_process;
typedef struct tg_thread {
    tg_process *process;
    tg_life life;
    uint32_t tid;
    uint16_t cpu; /* of an idle thread; where others were seen last */
    uint64_t stack_base, user_stack_base, start_address, teb;
    const char *name; /* NULL: none */
} tg_thread;

/* A growing array of pointers. */
typedef struct tg_list {
    void **items;
    size_t count, capacity;
} tg_list;

struct tg_process {
    const tg_program *program;
    const tg_process *parent;
    tg_life life;
    uint32_t pid, parent_pid;
    uint64_t unique_key, directory_table_base;
    char *command_line;
    int32_t exit_status;
    tg_list threads, modules; /* all that it ever had, in the order of their beginning */
    size_t first_plugin;      /* modules before it stay as long as the process */
    tg_module *plugin;        /* the one that is loaded now */
};

typedef struct tg_machine tg_machine;

/* seed: chooses everything that the scenario leaves open. trace: borrowed; must have been made from tg_machine_info. */
EA_MUST_CHECK int tg_machine_create(tg_machine **ret, const tg_scenario *scenario, uint64_t seed, ea_err *err);
void tg_machine_destroy(tg_machine *m);

/* What the trace's header says of this machine. start_raw gets the time at which the trace begins. */
void tg_machine_info(const tg_machine *m, ea_etl_info *ret, int64_t *ret_start_raw);

/* Runs the scenario from begin to end into trace: rundown, events, rundown. *ret_end_raw: when it stopped. */
EA_MUST_CHECK int tg_machine_run(tg_machine *m, tg_trace *trace, int64_t *ret_end_raw, ea_err *err);

const tg_list *tg_machine_processes(const tg_machine *m); /* of tg_process, all that ever were */
/* The SID as Windows stores it; *ret_len_bytes its length. */
const uint8_t *tg_user_sid(const tg_machine *m, uint8_t user, size_t *ret_len_bytes);

#endif
