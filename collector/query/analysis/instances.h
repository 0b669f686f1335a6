/* Which instance of a process or thread had a number at a time, in any stream of an archive: SQL's process_at and
 * thread_at. Input: address_space.h. Used by: sql_functions.c, activity.c. Thread: the archive's. */
#ifndef EC_QUERY_ANALYSIS_INSTANCES_H
#define EC_QUERY_ANALYSIS_INSTANCES_H

#include "collector/query/analysis/address_space.h"
#include "collector/query/scan/archive.h"

typedef struct ec_instances ec_instances;

EA_MUST_CHECK int ec_instances_create(ec_instances **ret, ec_archive *archive, ea_err *err); /* archive: borrowed */
void ec_instances_destroy(ec_instances *i);                                                  /* NULL is allowed */

/* The stream of a host by its id of 32 hex digits; NULL: the archive has none. Borrowed until the archive is closed. */
const ec_archive_stream *ec_instances_stream(ec_instances *i, const char *host, const char *stream);

enum ec_instance_kind { EC_INSTANCE_PROCESS, EC_INSTANCE_THREAD };

/* The key (ec_address_space_process_key, ec_address_space_thread_key) of the process or thread that had a number at a
 * time: the instance that lived then, else the last one that had the number before; 0 when none had it by then, or the
 * host has no such stream. stream: 32 hex digits. For a session without processes, or without threads, the other
 * sessions of its agent's run are used. A stream's history is read at the first request, and kept; then an answer is a
 * binary search. Errors: EA_EDATABASE, EA_ENOMEM. */
EA_MUST_CHECK int ec_instances_at(ec_instances *i, enum ec_instance_kind kind, const char *host, const char *stream,
                                  uint32_t number, int64_t utc_ns, int64_t *ret, ea_err *err);

/* The history that has a session's processes, or threads, at a time, by the same rule. */
typedef struct ec_instances_answer {
    ec_address_space *space; /* borrowed; the session's own, without any, when no session of the run has some; NULL: the
                                host has no such stream */
    int64_t from_utc_ns, to_utc_ns; /* it is the answer at each time from the first one on and before the second one */
} ec_instances_answer;

/* Errors as above. */
EA_MUST_CHECK int ec_instances_space(ec_instances *i, enum ec_instance_kind kind, const char *host, const char *stream,
                                     int64_t utc_ns, ec_instances_answer *ret, ea_err *err);
/* What was read of the sessions of a stream's run is released: what ec_instances_space gave of them, too. */
void ec_instances_forget(ec_instances *i, const char *host, const char *stream);

#endif
