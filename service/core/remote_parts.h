/* What remote has in memory and in its file. See remote.h.
 *
 *     remote.c        polls, recorders, results, the audit log
 *     remote_check.c  whether a request is accepted
 *     remote_file.c   the file
 *
 * Called by: these files. Thread: all of it has the lock, unless a field says otherwise. */
#ifndef EA_CORE_REMOTE_PARTS_H
#define EA_CORE_REMOTE_PARTS_H

#include "config/sessions.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/wire/request_key.h"
#include "service/core/remote.h"

enum {
    REMOTE_OPEN_MAX = 32, /* requests that are accepted and not done */
    REMOTE_SEEN_MAX = 64, /* of the last serials: a repeated request is no overtaken one */
    REMOTE_RECORDERS_MAX = EA_SESSIONS_MAX,
    REMOTE_FILE_MAX = 1 << 20,
    REMOTE_NAME_BYTES = 129,
};

enum remote_given { REMOTE_NOT_GIVEN, REMOTE_GIVEN, REMOTE_DONE };

/* An accepted request, and what recorders had of it. */
typedef struct remote_open {
    ea_request request;
    uint8_t given[REMOTE_RECORDERS_MAX]; /* enum remote_given, by recorder */
    ea_triggers_outcome outcome;
} remote_open;

typedef struct remote_recorder {
    char session[REMOTE_NAME_BYTES];
    ea_triggers *triggers; /* NULL: detached */
} remote_recorder;

struct ea_remote {
    ea_mutex *lock;
    /* fixed after the creation */
    ea_request_key *key;
    uint32_t allowed; /* bit 1 << kind */
    int64_t poll_ns;
    char *path, *audit_path;
    ea_counters *counters;
    int64_t created_ns; /* monotonic */

    char name[EA_AGENT_NAME_MAX + 1];
    uint64_t serial; /* the largest one */
    uint64_t seen[REMOTE_SEEN_MAX];
    size_t seen_count;
    remote_open open[REMOTE_OPEN_MAX];
    size_t open_count;
    ea_report reports[EA_POLL_MAX_REPORTS]; /* that no collector has */
    size_t report_count, asked_count;       /* asked_count: of them in the poll that is under way */
    remote_recorder recorders[REMOTE_RECORDERS_MAX];
    size_t recorder_count;
    int64_t backoff_ns; /* until the next poll */
    int is_unsaved;
    ea_text lines; /* of the audit log, that are not in its file yet */
    char warned[sizeof((ea_err){0}).message];
};

/* ---- remote_check.c ---- */

/* Why a request is refused. */
enum remote_refusal {
    REMOTE_ACCEPTED,
    REMOTE_MALFORMED,
    REMOTE_FOREIGN_KEY,
    REMOTE_CHANGED,
    REMOTE_OTHER_HOST,
    REMOTE_REPLAYED,
    REMOTE_REORDERED,
    REMOTE_EXPIRED,
    REMOTE_FORBIDDEN,
    REMOTE_BEYOND_LIMITS,
    REMOTE_REFUSALS
};

/* Checks one request as it travels. *ret: what could be read of it, also of one that is refused (serial 0: nothing). */
enum remote_refusal remote_check(const ea_remote *r, const uint8_t *data, size_t len_bytes, int64_t now_utc_ns,
                                 ea_request *ret);
const char *remote_refusal_text(enum remote_refusal why);
enum ea_counter remote_refusal_counter(enum remote_refusal why);

/* ---- remote_file.c ---- */

/* A file that is missing is none; one that is damaged is logged and replaced. EA_ENOMEM, EA_EIO. */
EA_MUST_CHECK int remote_read(ea_remote *r, ea_err *err);
EA_MUST_CHECK int remote_save(ea_remote *r, ea_err *err);

#endif
