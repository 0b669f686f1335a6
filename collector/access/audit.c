/* The audit log: what a line says, and how many there are of refusals. See audit.h. */
#include "collector/access/audit.h"

#include "collector/access/audit_chain.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <syslog.h>
#include <unistd.h>

enum {
    DEFAULT_MIB = 16,
    DEFAULT_REFUSALS = 10,
    FIELD_MAX = 512,   /* bytes of an address, a name, a path, a note */
    REFUSED_MAX = 128, /* ... of a path that was refused */
    TEXT_MAX = 1024,   /* of a query string, a statement */
    CALLERS = 256,     /* whose refusals are counted apart in a minute */
    KEY_BYTES = 80,
    LOCK_TRIES = 100,
};

static const int64_t LOCK_PAUSE_NS = 10 * INT64_C(1000000), MINUTE_NS = 60 * INT64_C(1000000000);

enum which { GRANTED, REFUSED };

/* The refusals of one caller in this minute: a token, without one an address. */
typedef struct caller {
    char key[KEY_BYTES];
    int is_token;
    uint64_t lines, held; /* held: not written */
    int status;           /* of the last one */
} caller;

struct ec_audit {
    ea_mutex *mutex; /* guards all that follows */
    ec_audit_options options;
    int lock_fd;
    ec_audit_chain chains[2];
    ea_text members, line; /* scratch */
    int64_t minute_ns;     /* when the minute began */
    size_t caller_count;
    caller callers[CALLERS + 1]; /* the last one: all others */
};

int ec_audit_open(ec_audit **ret, const char *dir, const ec_audit_options *options, ea_err *err) {
    char path[EC_AUDIT_PATH_BYTES];
    ec_audit *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "open the audit log");
    a->options = *options;
    if (!a->options.max_bytes)
        a->options.max_bytes = (uint64_t)DEFAULT_MIB << 20;
    if (!a->options.refusals)
        a->options.refusals = DEFAULT_REFUSALS;
    ea_text_init(&a->members);
    ea_text_init(&a->line);
    for (int i = 0; i < 2; i++)
        ec_audit_chain_init(&a->chains[i], dir, EC_AUDIT_NAMES[i]);
    snprintf(path, sizeof path, "%s/audit.lock", dir);
    a->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int rc = a->lock_fd < 0 ? ea_fail_os(err, EA_EIO, errno, "open %s", path) : ea_mutex_create(&a->mutex, err);
    if (rc) {
        ec_audit_close(a);
        return rc;
    }
    if (a->options.to_syslog)
        openlog("etwcollector", LOG_PID, LOG_AUTHPRIV);
    *ret = a;
    return 0;
}

/* ---- writing. All under the mutex ---- */

static int audit_lock(ec_audit *a, ea_err *err) {
    for (int i = 0; flock(a->lock_fd, LOCK_EX | LOCK_NB); i++) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return ea_fail_os(err, EA_EIO, errno, "lock the audit log");
        if (i == LOCK_TRIES)
            return ea_fail(err, EA_EBUSY, "lock the audit log: another process has held audit.lock for a second");
        ea_sleep_ns(LOCK_PAUSE_NS);
    }
    return 0;
}

/* Writes a line of a->members. */
static void audit_put(ec_audit *a, enum which which) {
    ec_audit_chain *c = &a->chains[which];
    ea_err err = {0};
    int rc = a->members.failed ? EA_ENOMEM : audit_lock(a, &err);
    if (!rc) {
        rc = ec_audit_chain_add(c, &a->members, a->options.max_bytes, &a->line, &err);
        (void)flock(a->lock_fd, LOCK_UN);
    }
    if (rc) {
        c->unwritten++;
        if (a->options.counters)
            ea_count(a->options.counters, EA_COUNT_audit_unwritten, 1);
    } else if (a->options.to_syslog) {
        syslog(LOG_INFO, "%.*s", (int)(a->line.len_bytes - 1), a->line.data);
    }
}

static void audit_add(ea_text *t, const char *key, const char *value, size_t max_bytes) {
    if (!value)
        return;
    size_t n = strnlen(value, max_bytes);
    ea_text_printf(t, ",\"%s\":\"", key);
    ea_text_json(t, value, n);
    ea_text_char(t, '"');
}

static void add_statement(ea_text *t, const char *statement) {
    uint8_t hash[EC_AUDIT_HASH_BYTES];
    if (!statement)
        return;
    size_t n = strlen(statement);
    ec_audit_hash(statement, n, hash);
    audit_add(t, "sql", statement, TEXT_MAX);
    ea_text_printf(t, ",\"sql_bytes\":%zu,\"sql_sha256\":\"", n);
    ea_text_hex(t, hash, sizeof hash);
    ea_text_char(t, '"');
}

/* ---- refusals ---- */

/* Ends the minute: a line for each caller of whom not all was written. */
static void end_minute(ec_audit *a) {
    for (size_t i = 0; i <= CALLERS; i++) {
        const caller *r = &a->callers[i];
        if (!r->held)
            continue;
        ea_text_clear(&a->members);
        if (i == CALLERS)
            ea_text_str(&a->members, ",\"note\":\"further refusals of other callers in the minute before\"");
        else
            audit_add(&a->members, r->is_token ? "token" : "address", r->key, FIELD_MAX);
        ea_text_printf(&a->members, ",\"status\":%d,\"held\":%" PRIu64, r->status, r->held);
        if (i < CALLERS)
            ea_text_str(&a->members, ",\"note\":\"further refusals in the minute before\"");
        audit_put(a, REFUSED);
    }
    memset(a->callers, 0, sizeof a->callers);
    a->caller_count = 0;
    a->minute_ns = 0;
}

static void end_minute_when_due(ec_audit *a) {
    if (a->minute_ns && ea_monotonic_ns() - a->minute_ns >= MINUTE_NS)
        end_minute(a);
}

/* 1 when the refusal is written as a line of its own. */
static int has_line(ec_audit *a, const ec_audited *what) {
    const char *key = what->token ? what->token : what->address ? what->address : "";
    int is_token = what->token != NULL;
    caller *r = a->callers;
    end_minute_when_due(a);
    if (!a->minute_ns)
        a->minute_ns = ea_monotonic_ns();
    while (r < a->callers + a->caller_count && (r->is_token != is_token || strncmp(r->key, key, KEY_BYTES - 1) != 0))
        r++;
    if (r == a->callers + a->caller_count) {
        if (a->caller_count < CALLERS) {
            a->caller_count++;
            snprintf(r->key, KEY_BYTES, "%s", key);
            r->is_token = is_token;
        } else {
            r = &a->callers[CALLERS];
        }
    }
    r->status = what->status;
    if (r->lines < a->options.refusals) {
        r->lines++;
        return 1;
    }
    r->held++;
    if (a->options.counters)
        ea_count(a->options.counters, EA_COUNT_audit_held, 1);
    return 0;
}

void ec_audit_add(ec_audit *a, const ec_audited *what) {
    enum which which = what->status >= 400 ? REFUSED : GRANTED;
    if (what->status == 429)
        return;
    ea_mutex_lock(a->mutex);
    if (which == GRANTED || has_line(a, what)) {
        ea_text *t = &a->members;
        ea_text_clear(t);
        audit_add(t, "address", what->address, FIELD_MAX);
        audit_add(t, "token", what->token, FIELD_MAX);
        audit_add(t, "method", what->method, FIELD_MAX);
        audit_add(t, "path", what->path, which == REFUSED ? REFUSED_MAX : FIELD_MAX);
        if (which == GRANTED || what->token) {
            audit_add(t, "query", what->query, TEXT_MAX);
            add_statement(t, what->statement);
        }
        if (what->status)
            ea_text_printf(t, ",\"status\":%d", what->status);
        audit_add(t, "note", what->note, FIELD_MAX);
        audit_put(a, which);
    }
    ea_mutex_unlock(a->mutex);
}

void ec_audit_tick(ec_audit *a) {
    if (!a)
        return;
    ea_mutex_lock(a->mutex);
    end_minute_when_due(a);
    ea_mutex_unlock(a->mutex);
}

void ec_audit_close(ec_audit *a) {
    if (!a)
        return;
    if (a->mutex)
        end_minute(a);
    for (int i = 0; i < 2; i++)
        ec_audit_chain_close(&a->chains[i]);
    if (a->lock_fd >= 0)
        close(a->lock_fd);
    ea_text_deinit(&a->members);
    ea_text_deinit(&a->line);
    ea_mutex_destroy(a->mutex);
    free(a);
}
