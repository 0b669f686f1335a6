/* What agents are asked, in DIR/requests.db: signed requests, as they travel, and what each agent reported of them. An
 * agent is offered the requests of its name that have not expired, whose serials are larger than the last one that it
 * decided about. The collector has no key: it passes on what a person signed.
 * Called by: the commands request ..., run (for ingest and the API), SQL, forget. Calls: SQLite. Thread: any, unless it
 * says otherwise; an ec_requests has a lock. */
#ifndef EC_STATE_REQUESTS_H
#define EC_STATE_REQUESTS_H

#include "proto/wire/request.h"

#include <sqlite3.h>

enum {
    EC_REQUESTS_MAX = 1024,           /* that have not expired */
    EC_REQUEST_REPORTS_MAX = 1000000, /* of all requests: more are not kept */
    EC_REQUEST_KEEP_DAYS = 90,        /* after the expiry; then it is removed with its reports */
};

typedef struct ec_requests ec_requests;

/* The file is made when the first request is added. EA_ENOMEM. */
EA_MUST_CHECK int ec_requests_open(ec_requests **ret, const char *dir, ea_err *err);
void ec_requests_close(ec_requests *r); /* NULL is allowed */

/* Keeps a signed request. EA_EINVAL: its serial is not larger than that of each one that is kept, or it has expired;
 * EA_ELIMIT; EA_ECORRUPT: it has no valid form. */
EA_MUST_CHECK int ec_requests_add(ec_requests *r, const uint8_t *signed_request, size_t len_bytes, int64_t now_utc_ns,
                                  ea_err *err);
/* Offers it to no agent any more. EA_ENOTFOUND. */
EA_MUST_CHECK int ec_requests_withdraw(ec_requests *r, uint64_t serial, ea_err *err);
/* The largest serial; 0: there is none. */
EA_MUST_CHECK int ec_requests_last(ec_requests *r, uint64_t *ret_serial, ea_err *err);

/* An agent's poll: keeps its reports, and appends an answer. EA_ECORRUPT, EA_ELIMIT: the poll has no valid form. The
 * caller is a thread of the network: another process that writes is waited for 200 ms (EA_EDATABASE then). */
EA_MUST_CHECK int ec_requests_poll(ec_requests *r, const char *agent, const uint8_t *data, size_t len_bytes,
                                   int64_t now_utc_ns, ea_text *out, ea_err *err);

/* A request, or what one agent reported of it; borrowed for the call. */
typedef struct ec_request_row {
    ea_request request;
    int is_withdrawn;
    int64_t added_utc_ns;
    const char *host; /* NULL: of the request itself, before the rows of its agents */
    ea_report report; /* with a host */
} ec_request_row;

/* Newest first; the agents of one by name. Stops at the first non-zero, which it returns. */
EA_MUST_CHECK int ec_requests_each(ec_requests *r, int (*fn)(const ec_request_row *row, void *arg), void *arg,
                                   ea_err *err);
/* A connection that reads the tables, as requests.c has them; of a store without the file they are empty. */
EA_MUST_CHECK int ec_requests_read(sqlite3 **ret, const char *dir, ea_err *err);
/* "hosts ..., window ... to ..., at most ... bytes of each recorder, expires ...": for logs and lists. */
void ec_request_describe(const ea_request *q, ea_text *t);
/* What became of a request at a machine, and how the request itself is: a report's state (0: none), or "waiting",
 * "withdrawn", "expired". */
const char *ec_request_state(uint32_t reported, int is_withdrawn, int is_expired);
/* Removes what an agent reported. */
EA_MUST_CHECK int ec_requests_forget(const char *dir, const char *host, ea_err *err);

#endif
