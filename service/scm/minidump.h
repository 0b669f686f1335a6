/* Writes the minidump of another process, which crashed or hangs. Called by: "etwagent write-dump", which the service
 * starts (watchdog.c). Calls: dbghelp.dll. Thread: the main one. */
#ifndef EA_SCM_MINIDUMP_H
#define EA_SCM_MINIDUMP_H

#include "proto/base/err.h"

#include <stdint.h>

enum { EA_DUMP_MS = 120000 }; /* a dump that takes longer is given up, and the process is ended */

/* thread, address: where the exception is, its EXCEPTION_POINTERS in that process; 0: there is none. The process is
 * ended when the dump takes too long, fails with an exception, or this process is killed: MiniDumpWriteDump suspends
 * its threads. */
EA_MUST_CHECK int ea_minidump_write(uint32_t pid, uint32_t thread, uint64_t address, const char *path, ea_err *err);

#endif
