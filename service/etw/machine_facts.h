/* Facts of the machine that a real-time session's header does not have, or has wrong.
 * Called by: live.c; the tests' emulator (cycles). Calls: Windows. Thread: any. */
#ifndef EA_ETW_MACHINE_FACTS_H
#define EA_ETW_MACHINE_FACTS_H

#include <stdint.h>

typedef struct ea_machine_facts {
    int64_t boot_filetime;
    uint32_t pointer_size, cpu_count; /* of the kernel; of all processor groups */
    uint32_t os_version, os_build;    /* os_version: as TRACE_LOGFILE_HEADER has it: major, minor */
} ea_machine_facts;

void ea_machine_facts_read(ea_machine_facts *ret);

/* The processor's cycle counter, and its frequency, measured once against the performance counter: the first call takes
 * MEASURE_MS (machine_facts.c). */
int64_t ea_machine_cycles(void);
uint64_t ea_machine_cycle_frequency(void);

#endif
