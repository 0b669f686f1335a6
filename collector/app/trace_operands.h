/* Trace files in place of a store: "etwcollector ps x.etl" reads the file into a store that lasts as long as the
 * command, and is then "etwcollector ps --store DIR". Called by: main.c. Calls: collector/traces, then the command.
 * Thread: the main one. */
#ifndef EC_APP_TRACE_OPERANDS_H
#define EC_APP_TRACE_OPERANDS_H

#include "collector/traces/trace_ingest.h"

/* 1 when argv is of a command that reads a store (see the .c file) and names .etl files: then it has been run by
 * dispatch, with --store, in a process of its own, and *ret_code is its exit code. 0: it is another command line. */
int ec_run_with_traces(int argc, char **argv, int (*dispatch)(int argc, char **argv), int *ret_code);

/* What a person should know about a trace that was read: damage, and what Windows lost; on standard error. */
void ec_trace_warn(const ec_trace_report *report);

#endif
