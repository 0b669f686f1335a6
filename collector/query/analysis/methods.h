/* Code that a .NET runtime, an engine of JavaScript or a program that announces its functions made at run time, and
 * where it was: which method an address of a process is in, at a time. No module covers such addresses. Input:
 * event_cursor.h (method events of the runtime, of its rundown, of Microsoft-JScript and V8.js, of Etwagent-Announce),
 * script_names.h. Used by: cmd_where.c, profile.c. Thread: its owner's.
 *
 * A method that the runtime loads (Method/LoadVerbose) is at its address from then on; one that a rundown names
 * (Method/DCStartVerbose, DCStopVerbose) may have been there since ever. It ends when it is unloaded or when another
 * one is loaded at the same address. Of JavaScript the events are MethodLoad, MethodUnload, MethodDCStart and
 * MethodDCEnd. V8 does not log the end of code: where methods overlap, an address belongs to the last loaded one.
 */
#ifndef EC_QUERY_ANALYSIS_METHODS_H
#define EC_QUERY_ANALYSIS_METHODS_H

#include "collector/query/scan/archive.h"

typedef struct ec_methods ec_methods;

typedef struct ec_method {
    uint32_t pid;
    uint64_t start, size_bytes;
    int64_t begin_utc_ns, end_utc_ns; /* INT64_MIN: since ever; INT64_MAX: to the end */
    const char *name;                 /* "Namespace.Class.Method"; of JavaScript "function url:line:column"; UTF-8 */
    const char *signature;            /* as the runtime writes it; of JavaScript the engine's name; else "file:line" */
} ec_method;

enum { EC_METHODS_MAX = 1 << 20 };

/* Reads the methods of a stream, or, where its session has none, of another session of its run (EA_STREAM_RUN_BYTES):
 * of one process, or with pid NULL of all. At most EC_METHODS_MAX are read; *ret_left_out counts those beyond and may
 * be NULL. Damaged events are skipped and reported to the archive. */
EA_MUST_CHECK int ec_methods_open(ec_methods **ret, ec_archive *archive, const ec_archive_stream *stream,
                                  const uint32_t *pid, uint64_t *ret_left_out, ea_err *err);
void ec_methods_close(ec_methods *m); /* NULL is allowed */

/* The method that an address of a process was in at a time; NULL: none that is known. Valid as long as m. */
const ec_method *ec_methods_find(const ec_methods *m, uint32_t pid, uint64_t address, int64_t utc_ns);

/* Times between two changes that could make an address of a process another method's: a number for the stretch that a
 * time is in. Within one an address is in one method at most, from the time on at which that one is there. */
uint32_t ec_methods_epoch(const ec_methods *m, uint32_t pid, int64_t utc_ns);

#endif
