/* What a person should know of, with begin and end: hosts that fell silent, ledgers that do not balance. Kept in
 * DIR/alarms.db, which the watch alone writes; what is kept nowhere else survives when index and history are made anew.
 * Called by: watch.c. Read by: SQL's table incidents, the command doctor. Thread: one ec_incidents belongs to one
 * thread.
 */
#ifndef EC_STATE_INCIDENTS_H
#define EC_STATE_INCIDENTS_H

#include "collector/net/quota.h"
#include "proto/base/err.h"

#include <sqlite3.h>
#include <stdint.h>

enum {
    EC_ALARMS_KEPT = 10000, /* that are over */
    EC_ALARMS_USES = 1000,  /* names of which the use of quotas is kept */
};

typedef struct ec_incidents ec_incidents;

/* One incident; what it is about are host, stream, kind and family together. Texts are borrowed. */
typedef struct ec_alarm {
    const char *host, *stream; /* stream: hex; "": of the host as a whole */
    const char *kind, *family; /* "silent", or an alert's name (ec_alert_name); family "": none */
    int64_t begin_utc_ns;
    uint64_t left, right; /* silent: seconds, and the limit; else the sides of the equation */
    const char *text;
} ec_alarm;

/* Opens the alarms of the store in folder dir. Not writable: when there are none yet, as if they were empty. dir NULL:
 * alarms in memory, which end with it; writable. */
EA_MUST_CHECK int ec_incidents_open(ec_incidents **ret, const char *dir, int writable, ea_err *err);
void ec_incidents_close(ec_incidents *a); /* NULL is allowed */
sqlite3 *ec_incidents_database(ec_incidents *a);

/* One look at everything: begin, what holds and what held, end. All of it is one transaction. */
EA_MUST_CHECK int ec_incidents_begin(ec_incidents *a, ea_err *err);
/* What holds now. One that is open goes on with its begin and the new numbers: 0; else it is new: 1. With only_open
 * nothing new is made. */
EA_MUST_CHECK int ec_incidents_holds(ec_incidents *a, const ec_alarm *alarm, int only_open, ea_err *err);
/* What held, and was not seen while it did: 1 when it is new, 0 when it is known. */
EA_MUST_CHECK int ec_incidents_held(ec_incidents *a, const ec_alarm *alarm, int64_t end_utc_ns, ea_err *err);
/* Replaces what is kept of agents' and readers' use of their quotas (table quotas). Inside a look. */
EA_MUST_CHECK int ec_incidents_put_uses(ec_incidents *a, const ec_quota_use *uses, size_t count, int64_t now_utc_ns,
                                        ea_err *err);
/* Ends every open alarm that was not stated to hold since begin. *ret_ended: how many. */
EA_MUST_CHECK int ec_incidents_end(ec_incidents *a, int64_t now_utc_ns, uint64_t *ret_ended, ea_err *err);
/* Gives the look up: nothing of it is kept. */
void ec_incidents_undo(ec_incidents *a);

#endif
