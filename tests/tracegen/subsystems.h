/* Inside the model: the parts of the machine, and the functions that its subsystems call. One file a subsystem:
 *   machine.c    the event queue, ids, addresses, begin and end of a run
 *   images.c     the images that can be loaded, and their addresses
 *   processes.c  processes, threads, modules: their beginnings and ends
 *   sessions.c   boot, services, logons, and the programs that programs start
 *   scheduler.c  processors: running, waiting and woken threads; CPU time and counters
 *   work.c       the next action of a running thread
 *   stacks.c     the call graph; halves of stacks, keys
 *   filesystem.c, registry_keys.c, memory.c, network.c, interrupts.c, dotnet.c, providers.c
 *   attack.c     the scenario's script
 *   rundown.c    the session's rundowns at its beginning and its end
 * Input: scenario.h. Calls: trace_out.h, truth.h. Thread: the machine's owner's.
 *
 * Time. m->now is the time of the action that runs. Each processor has a clock that never goes back: an event's time is
 * the later of the two. An event that changes the machine's state (a begin, an end, a name) has a time that no other
 * such event has (tg_stamp_state), so that the truth has one order. */
#ifndef EA_TESTS_TRACEGEN_SUBSYSTEMS_H
#define EA_TESTS_TRACEGEN_SUBSYSTEMS_H

#include "proto/base/arena.h"
#include "proto/base/map.h"
#include "tests/tracegen/dice.h"
#include "tests/tracegen/model.h"
#include "tests/tracegen/truth.h"

enum {
    TG_TICKS_PER_MS = 10000, /* of the model's own time: 100 ns; raw time is made of it at the edge */
    TG_TICKS_PER_SECOND = TG_TICKS_PER_MS * 1000,
    TG_SID_BYTES_MAX = 28,
    TG_STILL_ACTIVE = 259,
    TG_PRIORITIES = 32,
    TG_PLUGIN_BYTES = 0x20000, /* the smallest one */
};

/* wdm.h KWAIT_REASON, KTHREAD_STATE */
enum {
    TG_WAIT_EXECUTIVE = 0,
    TG_WAIT_PAGE_IN = 2,
    TG_WAIT_DELAY = 4,
    TG_WAIT_USER_REQUEST = 6,
    TG_WAIT_QUEUE = 15,
    TG_WAIT_TERMINATED = 22,
    TG_WAIT_QUANTUM_END = 30,
    TG_WAIT_PREEMPTED = 32,
    TG_WAIT_ALERT = 37
};

enum { TG_STATE_READY = 1, TG_STATE_RUNNING = 2, TG_STATE_TERMINATED = 4, TG_STATE_WAITING = 5 };

/* A growing array of pointers. */
typedef struct tg_list {
    void **items;
    size_t count, capacity;
} tg_list;

/* In ticks. begin: INT64_MIN when it began before the trace; end: INT64_MAX when it did not end in the trace.
 * begin_lost, end_lost: the trace does not have the event of the begin or of the end. */
typedef struct tg_life {
    int64_t begin, end;
    uint8_t begin_lost, end_lost;
} tg_life;

typedef struct tg_process tg_process;
typedef struct tg_thread tg_thread;
typedef void tg_action(tg_machine *m, void *subject);
typedef void tg_errand(tg_machine *m, tg_thread *t, void *subject);

typedef struct tg_image {
    char *path;       /* as Image events have it */
    const char *file; /* the last part of path */
    uint64_t base;    /* the same in every process, until the next boot */
    uint32_t size_bytes, checksum, timestamp;
    ea_guid pdb_guid;
    uint32_t pdb_age;
    char *pdb_name;
    uint64_t sets;        /* as tg_dll.sets; 0: a program's own image */
    uint8_t is_narrow;    /* below 4 GB on a 64-bit machine */
    uint8_t is_announced; /* no image to Windows: programs announce it */
} tg_image;

typedef struct tg_module {
    const tg_image *image;
    tg_life life;
} tg_module;

/* A walked half of a stack. A program has a few dozen halves, and each walk gives one of them. */
typedef struct tg_stack {
    uint32_t id;
    uint16_t count;
    uint8_t is_kernel, is_cached, is_in_truth; /* cached: has a key; in_truth: the truth has its frames */
    uint64_t key;
    int64_t keyed_at, used_at; /* when it got its key; the last time that it was logged */
    uint64_t *frames;          /* the innermost first */
} tg_stack;

/* What all processes of one program share. */
typedef struct tg_role {
    const tg_program *program;
    const tg_image *image; /* NULL: none */
    tg_stack **stacks;     /* user halves, stacks.user_paths of them; made when first walked */
    tg_stack **in_plugin;  /* likewise, of those that begin in a plugin, whichever it is */
} tg_role;

typedef struct tg_errand_row {
    tg_errand *run;
    void *subject;
    struct tg_errand_row *next;
} tg_errand_row;

/* The half of a stack that is walked when its thread goes back to user mode. */
typedef struct tg_late_stack {
    int64_t of;
    uint64_t match_id; /* 0: it names its event's time and thread */
    uint16_t cpu;
    uint8_t is_twice; /* with a match id: it is logged twice */
    tg_stack *stack;
    const char *what;
} tg_late_stack;

enum { TG_LATE_STACKS = 4 };

/* The stack that an event carries inside itself. */
typedef struct tg_inner_stack {
    tg_stack *inside;       /* NULL: none */
    tg_stack *late;         /* the user's half, which comes by match id; NULL: inside is all */
    uint64_t match_id, key; /* key: 0, its frames are in the event */
} tg_inner_stack;

typedef struct tg_operation_state tg_operation_state; /* filesystem.c */

struct tg_thread {
    tg_process *process;
    tg_life life;
    uint32_t tid;
    uint16_t cpu, ideal_cpu; /* where it is or was last; where it wants to be */
    uint8_t state, priority, wait_reason, is_idle;
    const void *pinned_by; /* waits for this request of a device: only this request wakes the thread */
    uint64_t stack_base, user_stack_base, start_address, teb;
    const char *name; /* NULL: none */
    int64_t last;     /* the time of its last event: later events of the thread are not earlier */
    int64_t state_since;
    uint64_t wake_number; /* of the action that will wake it */
    tg_thread *next_ready;
    tg_errand_row *errands, *errands_end;
    tg_operation_state *operation; /* a file operation that goes on for several steps */
    uint8_t late_count, late_far;
    tg_late_stack late[TG_LATE_STACKS];
    /* what the truth reports of the thread */
    uint64_t run_ticks, wait_ticks, ready_ticks, switches, waits, samples;
    uint64_t pmc[TG_PMC_MAX];
};

struct tg_process {
    const tg_role *role;
    const tg_program *program;
    const tg_process *parent;
    tg_life life;
    uint32_t pid, parent_pid, session;
    uint64_t unique_key, directory_table_base;
    const char *command_line;
    int32_t exit_status;
    uint8_t user, is_ending;
    tg_list threads, modules;    /* all threads and modules of its life, in the order of their beginning */
    size_t first_plugin;         /* modules before it stay as long as the process */
    tg_module *plugin;           /* the plugin that is loaded now */
    uint64_t heap, next_private; /* addresses that VirtualAlloc gives */
    struct tg_dotnet *dotnet;
};

typedef struct tg_cpu {
    uint16_t number;
    int64_t clock;
    tg_thread *running, *idle;
    tg_thread *ready_first[TG_PRIORITIES], *ready_last[TG_PRIORITIES];
    uint32_t ready_mask;
    uint64_t step_number; /* of the action that is its next step */
    int64_t quantum_end, switched_at, counted_to;
    uint64_t pmc[TG_PMC_MAX];
    int64_t lost_from; /* while it loses its events */
    int lost_as_buffers;
} tg_cpu;

/* Addresses of one kind of kernel object. What was given back comes again, the oldest first. */
typedef struct tg_addresses {
    uint64_t next, step;
    uint64_t *freed;
    size_t first, count, capacity;
} tg_addresses;

typedef struct tg_queue_row {
    int64_t time;
    uint64_t number; /* the order among those of one time */
    tg_action *run;
    void *subject;
} tg_queue_row;

typedef struct tg_freed_id {
    uint32_t id;
    int64_t since;
} tg_freed_id;

typedef struct tg_disk {
    int64_t busy_until;
} tg_disk;

typedef struct tg_filesystem tg_filesystem;
typedef struct tg_registry tg_registry;
typedef struct tg_network tg_network;
typedef struct tg_stacks tg_stacks;
typedef struct tg_providers tg_providers;
typedef struct tg_printing tg_printing;

struct tg_machine {
    const tg_scenario *scenario;
    tg_dice dice;
    ea_arena arena; /* everything that lives as long as the machine */
    tg_trace *trace;
    tg_truth *truth;
    int64_t start_filetime; /* UTC at start */
    int64_t start, now, end, last_state;
    uint64_t number;     /* of the action that runs */
    tg_queue_row *queue; /* a heap */
    size_t queue_count, queue_capacity;
    uint64_t action_count;
    tg_list processes, images;
    tg_role *roles; /* by program */
    tg_cpu *cpus;
    uint64_t idle_cpus[16]; /* one bit a processor: it is idle */
    size_t ready_total;     /* threads in all ready queues */
    tg_list plugins;        /* images that lie at one address in turn */
    tg_list narrow_plugins; /* the same for 32-bit programs on a 64-bit machine */
    uint32_t next_id;
    tg_freed_id *freed;
    size_t freed_first, freed_count, freed_capacity;
    uint64_t next_key, kernel_stack_next;

    struct {
        uint8_t bytes[TG_SID_BYTES_MAX];
        size_t len_bytes;
    } sids[64];

    size_t sid_count;
    uint64_t kernel_low, user_low; /* where the halves of the address space begin to be used */
    uint64_t narrow_low;           /* likewise the part of 32-bit programs on a 64-bit machine */
    tg_disk disk;
    tg_filesystem *filesystem;
    tg_registry *registry;
    tg_network *network;
    tg_stacks *stacks;
    tg_providers *providers;
    tg_printing *printing; /* NULL: the scenario has no print spooler */
    tg_event *dotnet_events;
    uint64_t pace_base; /* events_per_second is counted from here */
    int64_t pace_begin;
    uint32_t next_session;
    int is_placing; /* before the trace: nothing is logged */
    int failed;     /* out of memory; checked once at the end */
};

/* ---- machine.c ---- */
void tg_push(tg_machine *m, tg_list *l, void *item);
void *tg_new(tg_machine *m, size_t size_bytes); /* zeroed; NULL: m->failed */
char *tg_keep_text(tg_machine *m, ea_text *t);  /* takes the text's content and ends it */
void tg_schedule(tg_machine *m, int64_t at, tg_action *run, void *subject);
void tg_schedule_in(tg_machine *m, int64_t in_ticks, tg_action *run, void *subject);
int64_t tg_pick_ms(tg_machine *m, const tg_range *ms); /* ticks */
int64_t tg_pick_us(tg_machine *m, const tg_range *us); /* ticks */
uint32_t tg_take_id(tg_machine *m);                    /* of a process or thread */
void tg_give_id_back(tg_machine *m, uint32_t id);
uint64_t tg_take_address(tg_machine *m, tg_addresses *a);
void tg_give_address_back(tg_machine *m, tg_addresses *a, uint64_t address);
/* The time of an event on a processor, and the time of an event that changes the state. t: the thread that acts; NULL:
 * none. */
int64_t tg_stamp(tg_machine *m, tg_cpu *cpu, tg_thread *t);
int64_t tg_stamp_state(tg_machine *m, tg_cpu *cpu, tg_thread *t);
int64_t tg_raw(const tg_machine *m, int64_t ticks); /* the trace's clock */
/* How long it was in units of the trace's clock, whether or not that was set back meanwhile. */
uint64_t tg_raw_between(const tg_machine *m, int64_t from, int64_t to);
/* Cycles of a processor in so many ticks of 100 ns. */
uint64_t tg_cycles(const tg_machine *m, uint64_t ticks);
/* Time passes on a processor: low to high ticks. */
void tg_spend(tg_machine *m, tg_cpu *cpu, int64_t low, int64_t high);
/* The context of an event: the thread that logs it (its process, its times); t NULL: no thread. time: ticks. */
tg_context tg_who(const tg_machine *m, const tg_cpu *cpu, const tg_thread *t, int64_t time);

static inline int tg_is_alive(const tg_life *life) {
    return life->end == INT64_MAX;
}

/* ---- images.c ---- */
void tg_make_images(tg_machine *m);
tg_image *tg_find_image(tg_machine *m, const char *path); /* made when it is new */
/* 1: every process of the program has it, beside its own image, as soon as it began. */
int tg_loads(const tg_program *program, const tg_image *image);
/* 1: its user addresses have 32 bits. */
int tg_is_narrow(const tg_machine *m, const tg_program *program);

/* ---- processes.c ---- */
void tg_emit_process(tg_machine *m, const tg_context *who, enum tg_form_id form, const tg_process *p, int *ret_logged);
void tg_emit_thread(tg_machine *m, const tg_context *who, enum tg_form_id form, const tg_thread *t, int *ret_logged);
void tg_emit_image(tg_machine *m, const tg_context *who, enum tg_form_id form, const tg_process *p, const tg_image *i,
                   int *ret_logged);
/* Adds a process that already exists when the trace begins. */
tg_process *tg_place_process(tg_machine *m, const tg_program *program, tg_process *parent);
/* A process that `by` starts now, on its processor. command NULL: the program's own. */
tg_process *tg_start_process(tg_machine *m, tg_thread *by, const tg_program *program, const char *command,
                             uint32_t session, uint8_t user);
tg_thread *tg_start_thread(tg_machine *m, tg_thread *by, tg_process *in, uint64_t start_address, const char *name);
void tg_end_thread(tg_machine *m, tg_thread *t);   /* itself, while it runs */
void tg_end_process(tg_machine *m, tg_thread *by); /* by: a thread of it that runs */
void tg_load(tg_machine *m, tg_thread *by, const tg_image *image);
tg_thread *tg_any_thread(tg_machine *m, const tg_process *p); /* one that lives, by chance */
const tg_program *tg_find_program(const tg_machine *m, const char *name, size_t variant);
tg_process *tg_newest(const tg_machine *m, const char *name);      /* the last that began and lives */
const tg_module *tg_main_module(const tg_process *p);              /* NULL: none */
void tg_change_plugin(tg_machine *m, tg_thread *t, void *process); /* an errand */

/* ---- sessions.c ---- */
void tg_place_all(tg_machine *m);
void tg_plan_life(tg_machine *m, tg_process *p); /* everything that it has to do of itself */
void tg_begin_sessions(tg_machine *m);           /* boot and logons */

/* ---- scheduler.c ---- */
void tg_make_cpus(tg_machine *m);
tg_cpu *tg_cpu_of(tg_machine *m, const tg_thread *t);
/* The running thread t waits until it is woken, at the latest until the time `until` (INT64_MAX: no timeout). */
void tg_wait(tg_machine *m, tg_thread *t, uint8_t reason, int64_t until);
/* Makes a waiting thread ready, on behalf of what runs on `cpu`. */
void tg_wake(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint8_t boost);
/* t is new, made by what runs on `cpu`. */
void tg_first_ready(tg_machine *m, tg_cpu *cpu, tg_thread *t);
/* The threads that existed before the trace begin to work. */
void tg_begin_scheduler(tg_machine *m);
/* t has ended: no processor runs it any more. */
void tg_forget_thread(tg_machine *m, tg_thread *t);
/* Makes t run an errand as its next action; a waiting t is woken. */
void tg_send(tg_machine *m, tg_thread *t, tg_errand *run, void *subject);
void tg_count_cycles(tg_machine *m, tg_cpu *cpu, int64_t to); /* counters of the processor and of its running thread */

/* ---- work.c ---- */
/* The running thread's next step. Returns the ticks until the one after it; 0 when it waits or has ended. */
int64_t tg_work(tg_machine *m, tg_cpu *cpu, tg_thread *t);

/* ---- stacks.c ---- */
void tg_make_stacks(tg_machine *m);
EA_MUST_CHECK int tg_stacks_ready(tg_machine *m, ea_err *err);
void tg_stacks_tell(tg_machine *m); /* counts, to the truth */
/* An event of thread t was logged at `of` on `cpu`: its stack, perhaps. */
void tg_stack_of(tg_machine *m, tg_cpu *cpu, tg_thread *t, int64_t of, enum tg_stack_of what, int in_kernel);
/* A half by chance; NULL: it has none (yet). */
tg_stack *tg_user_stack(tg_machine *m, const tg_thread *t);
tg_stack *tg_kernel_stack(tg_machine *m, const tg_thread *t, enum tg_stack_of what);
/* Logs the halves of the stack of the event at `of`: the kernel half now; the user half now or, after a kernel half,
 * late. Either may be NULL. */
void tg_log_stack(tg_machine *m, tg_cpu *cpu, tg_thread *t, int64_t of, enum tg_stack_of what, tg_stack *kernel,
                  tg_stack *user);
/* By chance, what an event of a provider carries; and then: the event was logged at `at`, or lost. */
tg_inner_stack tg_stack_inside(tg_machine *m, tg_cpu *cpu, const tg_thread *t);
void tg_log_stack_inside(tg_machine *m, tg_cpu *cpu, tg_thread *t, const tg_inner_stack *s, int64_t at, int logged);
void tg_late_stacks(tg_machine *m, tg_cpu *cpu, tg_thread *t, int all); /* it goes back to user mode */
void tg_stack_rundown(tg_machine *m, tg_cpu *cpu);

/* ---- filesystem.c ---- */
void tg_make_filesystem(tg_machine *m);
int64_t tg_file_work(tg_machine *m, tg_cpu *cpu, tg_thread *t); /* begins or goes on */
int64_t tg_disk_work(tg_machine *m, tg_cpu *cpu, tg_thread *t); /* a read past the cache, without a file operation */
void tg_hard_fault(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint64_t address);
/* A whole operation at once, for scripts: kind of enum tg_step_kind. */
void tg_file_step(tg_machine *m, tg_thread *t, const char *path, int kind);
void tg_file_rundown(tg_machine *m, tg_cpu *cpu);
void tg_drop_operation(tg_machine *m, tg_cpu *cpu, tg_thread *t); /* t ends inside one */

/* ---- registry_keys.c ---- */
void tg_make_registry(tg_machine *m);
void tg_registry_work(tg_machine *m, tg_cpu *cpu, tg_thread *t);
void tg_registry_step(tg_machine *m, tg_thread *t, const char *key, const char *value, int deletes);
void tg_registry_rundown(tg_machine *m, tg_cpu *cpu, int begins);

/* ---- memory.c ---- */
void tg_memory_work(tg_machine *m, tg_cpu *cpu, tg_thread *t);
void tg_allocate(tg_machine *m, tg_thread *by, tg_process *in, uint64_t size_bytes);

/* ---- network.c ---- */
void tg_make_network(tg_machine *m);
void tg_network_work(tg_machine *m, tg_cpu *cpu, tg_thread *t);
void tg_connect_to(tg_machine *m, tg_thread *t, const char *address, uint32_t port, uint32_t sent, uint32_t received);
void tg_begin_incoming(tg_machine *m);
void tg_end_flows(tg_machine *m, const tg_process *p); /* its process ends: NULL: all, at the end of the trace */

/* ---- interrupts.c ---- */
enum tg_device { TG_DEVICE_CLOCK, TG_DEVICE_DISK, TG_DEVICE_NETWORK, TG_DEVICE_COUNT };

void tg_begin_interrupts(tg_machine *m);
/* The interrupt of a device on a processor, and the DPC that follows it. */
void tg_interrupt(tg_machine *m, tg_cpu *cpu, enum tg_device device);
void tg_system_call(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint32_t status); /* enter and exit */
int64_t tg_system_call_enter(tg_machine *m, tg_cpu *cpu, tg_thread *t);
void tg_system_call_exit(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint32_t status);
void tg_handle_work(tg_machine *m, tg_cpu *cpu, tg_thread *t);
void tg_open_process(tg_machine *m, tg_thread *t, const tg_process *target);

/* ---- dotnet.c, providers.c ---- */
void tg_make_providers(tg_machine *m);
void tg_provider_rundown(tg_machine *m, tg_cpu *cpu); /* the manifest */
void tg_event_work(tg_machine *m, tg_cpu *cpu, tg_thread *t);

/* An event made from a table: fields in the order of the values. is_tracelogging: with metadata of its own. */
typedef struct tg_event_row {
    const char *provider_name;
    ea_guid provider;
    uint16_t id, task;
    uint8_t version, level, opcode, group;
    uint64_t keyword;
    const char *name;
    const char *fields; /* "name:type name:type ..."; types of providers.c */
} tg_event_row;

EA_MUST_CHECK int tg_event_make(tg_machine *m, const tg_event_row *row, tg_event *ret, ea_err *err);
EA_MUST_CHECK int tg_dotnet_make(tg_machine *m, ea_err *err);
EA_MUST_CHECK int tg_providers_ready(tg_machine *m, ea_err *err);
void tg_dotnet_work(tg_machine *m, tg_cpu *cpu, tg_thread *t);
void tg_dotnet_rundown(tg_machine *m, tg_cpu *cpu);
void tg_providers_tell(tg_machine *m); /* counts, to the truth */
void tg_dotnet_tell(tg_machine *m);
/* The program of the thread announces a plugin: form is that of the image event in whose place it comes. 1: it is in
 * the trace. */
int tg_announce(tg_machine *m, const tg_context *who, enum tg_form_id form, const tg_image *i);
void tg_dns_query(tg_machine *m, tg_cpu *cpu, tg_thread *t, const char *name);

/* ---- printing.c ---- */
EA_MUST_CHECK int tg_printing_make(tg_machine *m, ea_err *err);
void tg_print(tg_machine *m, tg_cpu *cpu, tg_thread *t, const char *document); /* when a thread prints */
void tg_printing_tell(tg_machine *m);                                          /* counts, to the truth */

/* ---- attack.c ---- */
void tg_begin_script(tg_machine *m);

/* ---- rundown.c ---- */
/* Counters whose interrupts are recorded: TotalCycles of wdm.h KPROFILE_SOURCE, and one of a processor's own. */
enum { TG_SOURCE_CYCLES = 19, TG_SOURCE_INSTRUCTIONS = 27 };

void tg_begin_session(tg_machine *m);
void tg_end_session(tg_machine *m);
void tg_begin_losses(tg_machine *m);

#endif
