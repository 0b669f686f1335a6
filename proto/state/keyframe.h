/* A keyframe: all open rows of a machine's state, as records of the classes of proto/event/classes/keyframe.c. A reader
 * of the keyframe knows the machine's state from then on, even when earlier records were lost.
 * Calls: machine.h. Called by: service/core (batches of kind EA_BATCH_KEYFRAME); the other side folds the records with
 * ea_machine_apply. Thread: the machine's. */
#ifndef EA_STATE_KEYFRAME_H
#define EA_STATE_KEYFRAME_H

#include "proto/state/machine.h"
#include "proto/state/open_object_names.h"

/* Opcodes of the provider. */
enum ea_keyframe_code {
    EA_KEYFRAME_BEGIN = 1,
    EA_KEYFRAME_PROCESS = 2,
    EA_KEYFRAME_THREAD = 3,
    EA_KEYFRAME_MODULE = 4,
    EA_KEYFRAME_END = 5,
    EA_KEYFRAME_NAME = 6, /* before the end, like the next */
    EA_KEYFRAME_VOLUME = 7,
};

extern const ea_guid ea_keyframe_provider; /* fields.c */

/* Calls emit with each record (borrowed during the call); what it returns when that is not 0 ends it. names: NULL:
 * none; they complete what the other side knows and close nothing there. at: a record
 * whose time, source, session and CPU are the keyframe's: the last one that was applied. Texts beyond what a record can
 * hold are cut. Of a machine whose tables were full once it says in its end that it is not whole. */
EA_MUST_CHECK int ea_keyframe_write(const ea_machine *m, const ea_open_object_names *names, uint64_t number,
                                    const ea_record *at, int (*emit)(void *arg, const ea_record *record), void *arg,
                                    ea_err *err);

#endif
