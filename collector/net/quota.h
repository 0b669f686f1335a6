/* Quotas: what one agent or one reader may use, so that none of them takes the resources of the others. Called by:
 * collector/ingest (uploads), collector/enroll (renewals), collector/web (questions). Read by: counters, the watch's
 * incidents, the command quota. Thread: any; one mutex guards all.
 *
 * Two kinds of resources. A rate is a token bucket: a limit gives its amount a period, the bucket holds `burst`
 * periods, time fills it. A request that needs more than is in the bucket is refused; what is only known afterwards is
 * charged, and may put the bucket into debt. A held resource is an amount at one moment, such as memory: what is taken
 * is returned. A limit of 0 is no limit.
 *
 * Buckets are in memory: they are full after a restart. */
#ifndef EC_NET_QUOTA_H
#define EC_NET_QUOTA_H

#include "proto/base/counters.h"
#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* name (option --quota-NAME, counter quota_refused_NAME), whose quota it is, RATE or HELD, type of the option
 * (EA_OPT_...) and its argument, default amount, period in s (0: held), burst in periods, unit, sentence. The default
 * of an agent is several times what a busy machine sends; the default of a reader is more than a person with a
 * dashboard can use. */
#define EC_QUOTAS(X)                                                                                                   \
    X(bytes, AGENT, RATE, SIZE, "SIZE", "128MiB", 1, 16, "bytes", "bytes of an agent's uploads in a second")           \
    X(received, AGENT, RATE, SIZE, "SIZE", "256MiB", 1, 8, "bytes",                                                    \
      "bytes that come from an agent in a second, whatever they are; a read counts 4 KiB at least, a request 64 KiB "  \
      "more")                                                                                                          \
    X(batches, AGENT, RATE, U64, "N", "20000", 1, 16, "batches", "batches of an agent in a second")                    \
    X(events, AGENT, RATE, U64, "N", "50000000", 1, 16, "events", "events of an agent in a second")                    \
    X(processor, AGENT, RATE, DURATION, "TIME", "500ms", 1, 60, "ns",                                                  \
      "processor time that an agent's uploads, folding them and asking the rules about them, take in a second")        \
    X(streams, AGENT, RATE, U64, "N", "1000", 3600, 4, "streams", "new streams of an agent in an hour")                \
    X(classes, AGENT, RATE, U64, "N", "20000", 86400, 1, "classes",                                                    \
      "classes in a day that an agent is the first to describe")                                                       \
    X(tombstones, AGENT, RATE, U64, "N", "20000", 3600, 4, "tombstones", "tombstones of an agent in an hour")          \
    X(renewals, AGENT, RATE, U64, "N", "4", 86400, 1, "renewals", "renewals of an agent's certificate in a day")       \
    X(uploads, AGENT, HELD, SIZE, "SIZE", "32MiB", 0, 1, "bytes",                                                      \
      "memory for an agent's uploads at a time, and one upload more; at most an eighth of max-waiting")                \
    X(answers, READER, RATE, DURATION, "TIME", "1s", 1, 120, "ns",                                                     \
      "processor time that the questions of a reader take in a second")                                                \
    X(downloads, READER, RATE, SIZE, "SIZE", "64MiB", 1, 120, "bytes", "bytes of the answers to a reader in a second")

enum ec_quota_resource {

#define X(name, who, how, type, argument, fallback, period_s, burst, unit, text) EC_QUOTA_##name,
    EC_QUOTAS(X)
#undef X
        EC_QUOTA_COUNT
};

enum ec_quota_who {
    EC_QUOTA_AGENT, /* named by its certificate */
    EC_QUOTA_READER /* named by its token's id */
};

enum {
    EC_QUOTA_NAMES = 16384,    /* buckets are kept for so many names; then those of full ones are dropped first */
    EC_QUOTA_NAME_BYTES = 255, /* longer names are cut */
    EC_QUOTA_QUIET_S = 60,     /* a name is above its quota until nothing of it was refused for so long */
};

typedef struct ec_quota ec_quota;

/* Amounts by resource: limits (a period's, or held), or what a request needs. */
typedef struct ec_quota_amounts {
    uint64_t of[EC_QUOTA_COUNT];
} ec_quota_amounts;

typedef struct ec_quota_info {
    const char *name, *unit, *text;
    enum ec_quota_who who;
    int is_held;
    unsigned period_s, burst;
    enum ea_counter refused; /* counts refused requests */
} ec_quota_info;

const ec_quota_info *ec_quota_row(enum ec_quota_resource which);
const char *ec_quota_who_name(enum ec_quota_who who); /* "agent", "reader" */

/* Why something was refused. */
typedef struct ec_quota_refusal {
    enum ec_quota_resource resource;
    unsigned retry_after_s; /* at least 1 */
    char text[512];         /* a sentence for the client */
} ec_quota_refusal;

/* max_names 0: EC_QUOTA_NAMES. counters: borrowed, may be NULL. */
EA_MUST_CHECK int ec_quota_create(ec_quota **ret, const ec_quota_amounts *limits, size_t max_names,
                                  ea_counters *counters, ea_err *err);
void ec_quota_destroy(ec_quota *q); /* NULL is allowed */

/* All functions below: q NULL is allowed and means no limits. now_ns: monotonic. */

/* Takes what a request needs, all or nothing: 1, or 0 with *ret (may be NULL) and a counter. Rates only. A bucket that
 * holds less than the amount gives it nevertheless when it is full. */
int ec_quota_take(ec_quota *q, enum ec_quota_who who, const char *name, const ec_quota_amounts *needed, int64_t now_ns,
                  ec_quota_refusal *ret);
/* Gives back what was taken for a request that used nothing. */
void ec_quota_refund(ec_quota *q, enum ec_quota_resource which, const char *name, uint64_t amount, int64_t now_ns);
/* 1 while none of the name's buckets is in debt, else 0 as above. */
int ec_quota_check(ec_quota *q, enum ec_quota_who who, const char *name, int64_t now_ns, ec_quota_refusal *ret);
/* Charges what was used; never refuses. */
void ec_quota_charge(ec_quota *q, enum ec_quota_resource which, const char *name, uint64_t amount, int64_t now_ns);

/* 1 while less than the limit is held (of a rate: while the bucket is not in debt), else 0. is_counted: as a refusal.
 */
int ec_quota_has_room(ec_quota *q, enum ec_quota_resource which, const char *name, int is_counted, int64_t now_ns);
/* Adds to what is held; negative: returns it. Never refuses. */
void ec_quota_hold(ec_quota *q, enum ec_quota_resource which, const char *name, int64_t amount, int64_t now_ns);

/* One name's use. */
typedef struct ec_quota_use {
    enum ec_quota_who who;
    char name[EC_QUOTA_NAME_BYTES + 1];

    struct {
        uint64_t limit;   /* 0: none */
        uint64_t used;    /* since the name's bucket was made; held: at the moment */
        uint64_t refused; /* requests, likewise */
        double left;      /* in the bucket; negative: debt */
        /* when it went above its quota (UTC); 0: it is not above it, see EC_QUOTA_QUIET_S */
        int64_t above_since_utc_ns;
    } of[EC_QUOTA_COUNT];
} ec_quota_use;

/* All names that have a bucket; *ret is the caller's to free. */
EA_MUST_CHECK int ec_quota_list(ec_quota *q, int64_t now_ns, ec_quota_use **ret, size_t *ret_count, ea_err *err);

#endif
