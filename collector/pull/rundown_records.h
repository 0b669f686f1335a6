/* Rows of the history as the records with which Windows describes the machine at the beginning of a trace: rundowns of
 * processes, threads, modules with their image ids, names of files and registry keys, drive letters. Input: rows of
 * collector/state. Called by: history_rundown.c. Calls: proto/event (encoding), proto/relog (modules). Thread: its
 * owner's.
 *
 * Members that the history does not keep are 0 or empty: stack limits, priorities, times of exit, signatures. */
#ifndef EC_PULL_RUNDOWN_RECORDS_H
#define EC_PULL_RUNDOWN_RECORDS_H

#include "proto/event/event.h"
#include "proto/state/machine.h"
#include "proto/state/object_names.h"

typedef struct ec_rundown_records ec_rundown_records;

typedef struct ec_rundown_options {
    unsigned pointer_size; /* of the machine, 4 or 8 */
    int64_t time_raw;      /* of all records */
    /* Takes a record, which is borrowed for the call; what it returns other than 0 ends the call that led to it. */
    int (*emit)(void *arg, const ea_record *record, const ea_class *c, ea_err *err);
    void *arg;
} ec_rundown_options;

EA_MUST_CHECK int ec_rundown_records_create(ec_rundown_records **ret, const ec_rundown_options *options, ea_err *err);
void ec_rundown_records_destroy(ec_rundown_records *w); /* NULL is allowed */

/* Each emits the records of one row. */
EA_MUST_CHECK int ec_rundown_process(ec_rundown_records *w, const ea_process *p, ea_err *err);
EA_MUST_CHECK int ec_rundown_thread(ec_rundown_records *w, const ea_thread_row *t, ea_err *err);
EA_MUST_CHECK int ec_rundown_module(ec_rundown_records *w, const ea_module *m, ea_err *err);
EA_MUST_CHECK int ec_rundown_name(ec_rundown_records *w, const ea_name_row *name, ea_err *err);
EA_MUST_CHECK int ec_rundown_volume(ec_rundown_records *w, const char *nt, const char *dos, ea_err *err);

/* Texts that a record could not hold as they are: of an image name with a character that Windows-1252 lacks the
 * characters beyond ASCII are question marks, and the longest text of a record that would be too long is missing. */
uint64_t ec_rundown_altered(const ec_rundown_records *w);

#endif
