/* What the commands that read traces share: opening files, and telling a person about damage without flooding the
 * terminal.
 * Before it: a command line. After it: proto/etl. Thread: the main one. */
#ifndef EA_APP_INPUT_H
#define EA_APP_INPUT_H

#include "etl.h"

typedef struct ea_input {
    ea_etl_set *set;
    ea_counters counters;
    uint64_t damage_count; /* places where a file was damaged; the first few were printed */
} ea_input;

/* For ea_etl_options.on_damage, with the ea_input as its argument: counts, and prints the first few. */
void ea_input_on_damage(const ea_etl_damage *damage, void *arg);
/* Opens the files; prints why and returns the exit code when that fails, else 0. */
int ea_input_open(ea_input *in, char **paths, int path_count);
/* Closes the set. Prints how many places were damaged when not all were printed. Returns the exit code: rc when the
 * reading failed, 3 when strict is set and a file was damaged, else 0. err: of a failed reading. */
int ea_input_close(ea_input *in, int rc, int strict, const ea_err *err);

#endif
