/* Scenarios: what kind of machine it is, which programs it has, what they do and how often, and what the session
 * records. A scenario is a YAML file; scenario_options.c has the one table of all its options. Input: a file or a
 * preset. Used by: the model. Thread: any (constant once it is read). */
#ifndef EA_TESTS_TRACEGEN_SCENARIO_H
#define EA_TESTS_TRACEGEN_SCENARIO_H

#include "proto/base/arena.h"
#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Sets of DLLs; a program loads the union of those that it names. */
enum {
    TG_DLLS_DRIVER = 1,
    TG_DLLS_BASE = 2,
    TG_DLLS_GUI = 4,
    TG_DLLS_NET = 8,
    TG_DLLS_COM = 16,
    TG_DLLS_C = 32,
    TG_DLLS_CRYPTO = 64,
    TG_DLLS_DOTNET = 128,
    TG_DLLS_SERVER = 256,
    TG_DLLS_WOW64 = 512 /* what every 32-bit program needs of a 64-bit machine */
};

enum tg_user { TG_USER_SYSTEM, TG_USER_LOCAL_SERVICE, TG_USER_NETWORK_SERVICE, TG_USER_PERSON };

enum tg_os { TG_WINDOWS_7, TG_WINDOWS_8, TG_WINDOWS_10, TG_WINDOWS_11, TG_SERVER_2019, TG_SERVER_2022 };

/* What a running thread can do next; programs give each a weight (does). */
// clang-format off
#define TG_WORKS(X)                                                                                                    \
    X(COMPUTE, compute) X(SYSCALL, syscalls) X(FILE, files) X(REGISTRY, registry) X(NETWORK, network)                  \
    X(MEMORY, memory) X(DISK, disk) X(DOTNET, dotnet) X(EVENTS, events) X(HANDLE, handles) X(WAIT, waits)

// clang-format on
enum tg_work {

#define X(name, text) TG_WORK_##name,
    TG_WORKS(X)
#undef X
        TG_WORK_COUNT
};

/* What a stack may belong to: percent of such events that get one. */
// clang-format off
#define TG_STACKS(X)                                                                                                   \
    X(SAMPLE, samples) X(CSWITCH, cswitch) X(READY, readythread) X(SYSCALL, syscalls) X(FILE, files)                   \
    X(REGISTRY, registry) X(DISK, disk) X(MEMORY, memory) X(PMC, pmc) X(EVENT, events) X(THREAD, threads)

// clang-format on
enum tg_stack_of {

#define X(name, text) TG_STACK_OF_##name,
    TG_STACKS(X)
#undef X
        TG_STACK_OF_COUNT
};

typedef struct tg_range {
    uint32_t low, high; /* both included */
} tg_range;

typedef struct tg_dll {
    const char *file; /* path below the system root, or a full path when it begins with a backslash */
    uint32_t size_bytes;
    uint64_t sets;  /* bits TG_DLLS_* */
    uint32_t wow64; /* 1: lies below 4 GB, for 32-bit programs on a 64-bit machine */
} tg_dll;

typedef struct tg_program {
    const char *name;    /* image file name as Process events have it */
    const char *path;    /* as tg_dll.file; NULL: a process without an image (System, Registry) */
    const char *command; /* command line; # becomes a number, | parts alternatives */
    const char *service; /* of svchost.exe and the like: the service's name; NULL */
    uint32_t size_bytes;
    uint64_t dlls;
    uint32_t user;    /* enum tg_user */
    uint32_t session; /* Windows session */
    tg_range threads, life_ms, burst_us, wait_us, plugin_ms;
    uint32_t priority;
    uint32_t wow64;                  /* 1: a 32-bit program on a 64-bit machine */
    uint32_t plugins;                /* 1: loads and unloads DLLs at one and the same address */
    uint32_t listens;                /* TCP port; 0: none */
    uint32_t weights[TG_WORK_COUNT]; /* by enum tg_work */
    uint32_t weight_sum;
} tg_program;

/* A process that runs when the trace begins (or that the boot starts). Parents precede their children. */
typedef struct tg_start {
    const char *program, *parent; /* parent NULL: none; of several instances the first is meant */
    uint32_t count;
} tg_start;

/* While a process of program `parent` runs, it starts `child` in random intervals. */
typedef struct tg_activity {
    const char *parent, *child;
    tg_range every_ms;
} tg_activity;

enum tg_step_kind {
    TG_STEP_START,
    TG_STEP_LOAD,
    TG_STEP_CONNECT,
    TG_STEP_SET_VALUE,
    TG_STEP_DELETE_VALUE,
    TG_STEP_WRITE_FILE,
    TG_STEP_READ_FILE,
    TG_STEP_DELETE_FILE,
    TG_STEP_OPEN_PROCESS,
    TG_STEP_INJECT_THREAD,
    TG_STEP_EXIT
};

/* One step of a script: at a time of the trace, a process does something. */
typedef struct tg_script_step {
    uint32_t at_ms, kind; /* enum tg_step_kind */
    const char *technique, *by, *program, *path, *command, *value, *address;
    uint32_t port, sent_bytes, received_bytes;
} tg_script_step;

/* Computers that flows go to. */
typedef struct tg_remote {
    const char *name, *address; /* IPv4 or IPv6 as text */
    uint32_t port, weight;
} tg_remote;

typedef struct tg_name_row {
    const char *name;
} tg_name_row;

typedef struct tg_scenario {
    const char *name; /* of the preset, or the file's path */
    const char *summary, *base;
    uint32_t duration_ms;
    /* machine */
    uint32_t cpus, pointer_bytes, os, mhz, clock, clock_back_ms, uptime_s, id_rest_ms, boots,
        clock_interrupts_per_second;
    uint32_t jit_methods, gc_every_ms, incoming_per_second;
    /* session */
    uint64_t events; /* bits 1 << enum tg_group */
    uint32_t buffer_kib, held_buffers, samples_per_second, events_per_second, image_ids, announced, event_infos;
    /* pmc */
    uint32_t pmc_on_switches, pmc_samples_per_second;
    /* stacks */
    uint32_t stacks[TG_STACK_OF_COUNT]; /* percent */
    uint32_t stack_keys, stack_key_cache, far_percent, recursion_percent, plugin_percent, user_paths, kernel_paths;
    uint32_t late_percent, odd_percent, header_keys;
    /* loss */
    uint32_t lost_events_windows, lost_buffers_windows, loss_us;
    /* logons */
    tg_range logon_every_ms, logon_lasts_ms;
    uint32_t logons;
    tg_range boot_gap_us; /* between the starts of two processes of a boot */

    tg_dll *dlls;
    tg_program *programs;
    tg_start *starts;
    tg_activity *activities;
    tg_script_step *script;
    tg_remote *remotes;
    tg_name_row *folders, *files, *keys, *values, *methods, *logon_programs;
    size_t dll_count, program_count, start_count, activity_count, script_count, remote_count, folder_count, file_count,
        key_count, value_count, method_count, logon_program_count;

    ea_arena arena; /* of all texts and lists */
} tg_scenario;

/* The preset of a name, or the file of a path. Errors: EA_EUSAGE (no such preset), EA_EFORMAT with file, line and
 * column, those of files. */
EA_MUST_CHECK int tg_scenario_read(tg_scenario **ret, const char *preset_or_path, ea_err *err);
void tg_scenario_destroy(tg_scenario *s); /* NULL is allowed */

/* Presets in the program: name and text; a NULL entry follows the last one. A preset without a summary is a base of
 * other presets. */
typedef struct tg_preset {
    const char *name;
    const unsigned char *text;
    size_t len_bytes;
} tg_preset;

extern const tg_preset tg_presets[];

/* Writes the table of all options to standard output, as in README.md. */
void tg_options_print(void);

#endif
