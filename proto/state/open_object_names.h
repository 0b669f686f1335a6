/* The names that hold now: of open files and registry keys, and of volumes. A keyframe contains them in addition to
 * processes, threads and modules. The rules are those of object_names.h. A name that ends is removed; when the table is
 * full, the name that was added first is evicted.
 * Calls: object_names.h. Called by: keyframe.h. Thread: its owner's. */
#ifndef EA_STATE_OPEN_OBJECT_NAMES_H
#define EA_STATE_OPEN_OBJECT_NAMES_H

#include "proto/state/object_names.h"

typedef struct ea_open_object_names ea_open_object_names;

/* limit_bytes: of rows and texts together. counters: borrowed; state_evicted counts evicted names, state_texts_left_out
 * counts names for which no room could be made. */
EA_MUST_CHECK int ea_open_object_names_create(ea_open_object_names **ret, size_t limit_bytes, ea_counters *counters,
                                              ea_err *err);
void ea_open_object_names_destroy(ea_open_object_names *n); /* NULL is allowed */
/* Folds one record in. A record that says nothing about names costs a few comparisons. */
EA_MUST_CHECK int ea_open_object_names_apply(ea_open_object_names *n, const ea_record *record, const ea_class *c,
                                             int64_t utc_ns, ea_err *err);
size_t ea_open_object_names_count(const ea_open_object_names *n);
/* Calls back with each name, in the order in which the names were added; then with each volume. */
void ea_open_object_names_each(const ea_open_object_names *n, void (*name)(void *arg, const ea_name_row *row),
                               void (*volume)(void *arg, const ea_volume *volume), void *arg);

#endif
