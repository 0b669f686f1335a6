/* Common code of the commands that read traces: opening files, following growing files until Ctrl-C or the end of their
 * sessions, and reporting damage without flooding the terminal. Called by: the commands. Calls: proto/etl. Thread: the
 * main one. */
#ifndef EA_APP_INPUT_H
#define EA_APP_INPUT_H

#include "proto/etl/etl.h"
#include "proto/state/object_names.h"
#include "service/core/damage_log.h"

#include <stdatomic.h>

typedef struct ea_input {
    ea_etl_set *set;
    ea_counters counters;
    int follow; /* the files are still being written */
    int strict; /* the first damage ends the reading */
    ea_damage_log damage;
} ea_input;

/* Opens the files; prints why and returns the exit code when that fails, else 0. */
int ea_input_open(ea_input *in, char **paths, int path_count, int follow, int strict);
/* As ea_etl_next, with two differences. When it follows files, it waits a moment before it returns EA_ETL_NOTHING_YET,
 * and returns 0 after Ctrl-C. With in->strict the first damage is EA_ECORRUPT. */
EA_MUST_CHECK int ea_input_next(ea_input *in, const ea_record **ret_record, ea_err *err);
/* Reads the files once for the names of files and registry keys, which come at a trace's end, and for the ends of
 * operations; damage is not reported. *ret is sealed; prints what full tables left out. */
EA_MUST_CHECK int ea_input_names(ea_object_names **ret, char **paths, int path_count, ea_registry *registry,
                                 ea_err *err);
/* 1: a time, as ea_time_parse takes it, refers to the end of the data. NULL is allowed. */
int ea_input_names_end(const char *time);
/* Just after the last event of the files, which are read once: events may follow the end that a header names, a cut
 * file ends before it, and a session that was not stopped has none. Without an event, *ret_utc_ns stays. stop (NULL:
 * nothing does): ends the reading with EA_ECANCELED when it is not 0. */
EA_MUST_CHECK int ea_input_read_end(char **paths, int path_count, atomic_int *stop, int64_t *ret_utc_ns, ea_err *err);
/* Closes the set. Prints how many places were damaged when not all were printed. Returns the exit code: rc's when the
 * reading failed, else 0. err: of a failed reading. */
int ea_input_close(ea_input *in, int rc, const ea_err *err);

#endif
