/* Looks now and then whether a host fell silent or a ledger does not balance, and keeps that as incidents.
 * Before it: the command run. After it: alarms.h, the index, the history's tables. Thread: one of its own. */
#ifndef EC_STATE_WATCH_H
#define EC_STATE_WATCH_H

#include "err.h"

#include <stdint.h>

typedef struct ec_watch ec_watch;

typedef struct ec_watch_options {
    int64_t silent_ns;                            /* a host is silent after this; and gone for good after a week */
    void (*on_note)(void *arg, const char *text); /* a line for a person; from the watch's thread; may be NULL */
    void *arg;
} ec_watch_options;

/* dir: the store's folder, copied. */
EA_MUST_CHECK int ec_watch_start(ec_watch **ret, const char *dir, const ec_watch_options *options, ea_err *err);
void ec_watch_stop(ec_watch *w); /* NULL is allowed */

#endif
