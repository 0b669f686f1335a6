/* Scenarios: what kind of machine it is, which programs it has, who starts what and how often. Tables, no code.
 * Before it: nothing. After it: model.c. Thread: any (constants). */
#ifndef EA_TRACEGEN_SCENARIO_H
#define EA_TRACEGEN_SCENARIO_H

#include <stddef.h>
#include <stdint.h>

/* Sets of DLLs; a program loads the union of those that it names. */
enum tg_dlls {
    TG_DLLS_BASE = 1, /* every process: ntdll, kernel32, KernelBase ... */
    TG_DLLS_GUI = 2,
    TG_DLLS_NET = 4,
    TG_DLLS_COM = 8,
    TG_DLLS_C = 16,
    TG_DLLS_CRYPTO = 32,
};

enum tg_user { TG_USER_SYSTEM, TG_USER_LOCAL_SERVICE, TG_USER_NETWORK_SERVICE, TG_USER_PERSON };

typedef struct tg_dll {
    const char *file; /* path below the system root, or a full path when it begins with a backslash */
    uint32_t size_bytes;
    uint8_t sets; /* bits of enum tg_dlls; 0: a driver */
} tg_dll;

typedef struct tg_program {
    const char *name;    /* image file name as Process events have it */
    const char *path;    /* as tg_dll.file; NULL: a process without an image (System, Registry) */
    const char *command; /* command line; # becomes a number, | parts alternatives */
    uint32_t size_bytes;
    uint8_t dlls;
    uint8_t user;    /* enum tg_user */
    uint8_t session; /* Windows session */
    uint8_t threads_min, threads_max;
    uint8_t busy;                      /* weight when a CPU looks for a thread to run */
    uint32_t life_ms_min, life_ms_max; /* 0: as long as the machine runs */
    uint8_t plugins;                   /* 1: loads and unloads DLLs at one and the same address */
} tg_program;

/* A process that runs when the trace begins; parents stand before their children. */
typedef struct tg_start {
    const char *program, *parent; /* parent NULL: none; of several instances the first is meant */
} tg_start;

/* While a process of program `parent` runs, it starts `child` in random intervals. */
typedef struct tg_activity {
    const char *parent, *child;
    uint32_t every_ms_min, every_ms_max;
} tg_activity;

typedef struct tg_scenario {
    const char *name, *summary;
    uint32_t seconds;
    uint16_t cpus;
    uint16_t samples_per_second; /* a CPU; 0: none */
    uint8_t idle_percent;        /* of the samples */
    uint32_t os_version, os_build;
    const tg_dll *dlls;         /* ends with file NULL */
    const tg_program *programs; /* ends with name NULL */
    const tg_start *starts;
    const tg_activity *activities;
} tg_scenario;

/* All presets, by number; NULL behind the last. */
const tg_scenario *tg_preset(size_t number);
const tg_scenario *tg_find_preset(const char *name);

#endif
