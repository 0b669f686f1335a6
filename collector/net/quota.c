/* Quotas. See quota.h. */
#include "collector/net/quota.h"

#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 4096,
    DROP_LOOKS = 64,   /* names that are looked at for one to drop */
    MAX_WAIT_S = 3600, /* most that a client is asked to wait */
    IS_RATE = 0,       /* how a resource is counted: the table's words */
    IS_HELD = 1,
};

static const int64_t S_NS = INT64_C(1000000000);

static const ec_quota_info ROWS[EC_QUOTA_COUNT] = {
#define X(quota, whose, how, type, argument, fallback, period, periods, units, sentence)                               \
    {.name = #quota,                                                                                                   \
     .unit = units,                                                                                                    \
     .text = sentence,                                                                                                 \
     .who = EC_QUOTA_##whose,                                                                                          \
     .is_held = IS_##how,                                                                                              \
     .period_s = period,                                                                                               \
     .burst = periods,                                                                                                 \
     .refused = EA_COUNT_quota_refused_##quota},
    EC_QUOTAS(X)
#undef X
};

typedef struct bucket {
    double left;            /* of a rate */
    uint64_t used, refused; /* used: of a held resource what is held */
    int64_t refused_ns;     /* monotonic: the last refusal; 0: none */
    int64_t above_since_utc_ns;
} bucket;

typedef struct entry {
    struct entry *chain;         /* of the slot */
    struct entry *newer, *older; /* in the order of their last use */
    enum ec_quota_who who;
    int64_t filled_ns; /* when the buckets were filled last */
    bucket buckets[EC_QUOTA_COUNT];
    char name[EC_QUOTA_NAME_BYTES + 1];
} entry;

struct ec_quota {
    ea_mutex *mutex;
    ec_quota_amounts limits;
    ea_counters *counters;
    size_t count, max_names;
    entry *newest, *oldest;
    entry *slots[SLOTS];
};

const ec_quota_info *ec_quota_row(enum ec_quota_resource which) {
    return &ROWS[which];
}

const char *ec_quota_who_name(enum ec_quota_who who) {
    return who == EC_QUOTA_AGENT ? "agent" : "reader";
}

int ec_quota_create(ec_quota **ret, const ec_quota_amounts *limits, size_t max_names, ea_counters *counters,
                    ea_err *err) {
    ec_quota *q = calloc(1, sizeof *q);
    if (!q)
        return ea_fail(err, EA_ENOMEM, "make the quotas");
    q->limits = *limits;
    q->counters = counters;
    q->max_names = max_names ? max_names : EC_QUOTA_NAMES;
    int rc = ea_mutex_create(&q->mutex, err);
    if (rc) {
        free(q);
        return rc;
    }
    *ret = q;
    return 0;
}

void ec_quota_destroy(ec_quota *q) {
    if (!q)
        return;
    for (entry *e = q->newest; e;) {
        entry *next = e->older;
        free(e);
        e = next;
    }
    ea_mutex_destroy(q->mutex);
    free(q);
}

/* ---- names ---- */

static double capacity(const ec_quota *q, int which) {
    return (double)q->limits.of[which] * ROWS[which].burst;
}

static void quota_fill(const ec_quota *q, entry *e, int64_t now_ns) {
    double passed_s = now_ns > e->filled_ns ? (double)(now_ns - e->filled_ns) / 1e9 : 0;
    for (int i = 0; i < EC_QUOTA_COUNT; i++) {
        bucket *b = &e->buckets[i];
        if (ROWS[i].who != e->who || ROWS[i].is_held)
            continue;
        b->left += passed_s * (double)q->limits.of[i] / ROWS[i].period_s;
        if (b->left > capacity(q, i))
            b->left = capacity(q, i);
    }
    if (now_ns > e->filled_ns)
        e->filled_ns = now_ns;
}

static int is_above(const bucket *b, int64_t now_ns) {
    return b->refused_ns && now_ns - b->refused_ns < EC_QUOTA_QUIET_S * S_NS;
}

static int holds_something(const entry *e) {
    for (int i = 0; i < EC_QUOTA_COUNT; i++)
        if (ROWS[i].is_held && e->buckets[i].used)
            return 1;
    return 0;
}

/* Nothing is lost with it but how much was used: all buckets are full. */
static int is_idle(const ec_quota *q, entry *e, int64_t now_ns) {
    quota_fill(q, e, now_ns);
    for (int i = 0; i < EC_QUOTA_COUNT; i++)
        if (ROWS[i].who == e->who &&
            ((!ROWS[i].is_held && e->buckets[i].left < capacity(q, i)) || is_above(&e->buckets[i], now_ns)))
            return 0;
    return !holds_something(e);
}

static void unlink_entry(ec_quota *q, entry *e) {
    EA_ASSERT(!e->newer == (q->newest == e) && !e->older == (q->oldest == e));
    *(e->newer ? &e->newer->older : &q->newest) = e->older;
    *(e->older ? &e->older->newer : &q->oldest) = e->newer;
    e->newer = e->older = NULL;
}

static void quota_link_newest(ec_quota *q, entry *e) {
    EA_ASSERT(!e->newer && !e->older && q->newest != e);
    e->older = q->newest;
    *(q->newest ? &q->newest->newer : &q->oldest) = e;
    q->newest = e;
}

static entry **quota_slot_of(ec_quota *q, enum ec_quota_who who, const char *name) {
    entry **at = &q->slots[ea_hash64(name, strlen(name), (uint64_t)who) % SLOTS];
    while (*at && ((*at)->who != who || strcmp((*at)->name, name) != 0))
        at = &(*at)->chain;
    return at;
}

/* Makes room for one name: the oldest whose buckets are full; else the oldest that holds nothing, counted. */
static void drop_one(ec_quota *q, int64_t now_ns) {
    entry *found = NULL, *e = q->oldest;
    int idle = 0;
    for (int i = 0; e && !idle && (i < DROP_LOOKS || !found); i++, e = e->newer) {
        idle = is_idle(q, e, now_ns);
        if (idle || (!found && !holds_something(e)))
            found = e;
    }
    if (!found)
        return; /* all hold memory, which is bounded elsewhere: one more name */
    if (!idle && q->counters)
        ea_count(q->counters, EA_COUNT_quota_names_dropped, 1);
    entry **at = quota_slot_of(q, found->who, found->name);
    EA_ASSERT(*at == found && q->count);
    *at = found->chain;
    unlink_entry(q, found);
    free(found);
    q->count--;
}

/* The name's entry, filled, the newest now; NULL when memory runs out: then there is no limit. */
static entry *quota_entry_of(ec_quota *q, enum ec_quota_who who, const char *long_name, int64_t now_ns) {
    char name[EC_QUOTA_NAME_BYTES + 1];
    ea_mutex_assert_held(q->mutex);
    snprintf(name, sizeof name, "%s", long_name);
    entry *e = *quota_slot_of(q, who, name);
    if (e) {
        quota_fill(q, e, now_ns);
        if (q->newest != e) {
            unlink_entry(q, e);
            quota_link_newest(q, e);
        }
        return e;
    }
    e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    if (q->count >= q->max_names)
        drop_one(q, now_ns);
    memcpy(e->name, name, sizeof e->name);
    e->who = who;
    e->filled_ns = now_ns;
    for (int i = 0; i < EC_QUOTA_COUNT; i++)
        e->buckets[i].left = capacity(q, i);
    *quota_slot_of(q, who, name) = e; /* the end of its chain */
    quota_link_newest(q, e);
    q->count++;
    return e;
}

/* ---- taking ---- */

static void note_refusal(ec_quota *q, entry *e, int which, int64_t now_ns) {
    bucket *b = &e->buckets[which];
    ea_mutex_assert_held(q->mutex);
    EA_ASSERT(ROWS[which].who == e->who);
    if (!is_above(b, now_ns))
        b->above_since_utc_ns = ea_utc_ns();
    b->refused++;
    b->refused_ns = now_ns ? now_ns : 1;
    if (q->counters)
        ea_count(q->counters, ROWS[which].refused, 1);
}

/* missing: what the bucket needs before the request is granted. */
static int quota_refuse(ec_quota *q, entry *e, int which, double missing, int64_t now_ns, ec_quota_refusal *ret) {
    const ec_quota_info *row = &ROWS[which];
    double wait_s = missing * row->period_s / (double)q->limits.of[which];
    note_refusal(q, e, which, now_ns);
    if (!ret)
        return 0;
    ret->resource = (enum ec_quota_resource)which;
    ret->retry_after_s = wait_s >= MAX_WAIT_S ? MAX_WAIT_S : (unsigned)wait_s + 1;
    snprintf(ret->text, sizeof ret->text,
             "%s %.200s is above its quota of %s: %" PRIu64 " %s in %u s are allowed (--quota-%s)",
             ec_quota_who_name(e->who), e->name, row->name, q->limits.of[which], row->unit, row->period_s, row->name);
    return 0;
}

static int is_limited_rate(const ec_quota *q, const entry *e, int which) {
    return ROWS[which].who == e->who && !ROWS[which].is_held && q->limits.of[which];
}

int ec_quota_take(ec_quota *q, enum ec_quota_who who, const char *name, const ec_quota_amounts *needed, int64_t now_ns,
                  ec_quota_refusal *ret) {
    int granted = 1;
    if (!q)
        return 1;
    ea_mutex_lock(q->mutex);
    entry *e = quota_entry_of(q, who, name, now_ns);
    for (int i = 0; e && granted && i < EC_QUOTA_COUNT; i++) {
        double amount = (double)needed->of[i], most = capacity(q, i);
        if (amount > most)
            amount = most;
        if (amount > 0 && is_limited_rate(q, e, i) && e->buckets[i].left < amount)
            granted = quota_refuse(q, e, i, amount - e->buckets[i].left, now_ns, ret);
    }
    for (int i = 0; e && granted && i < EC_QUOTA_COUNT; i++)
        if (ROWS[i].who == e->who && !ROWS[i].is_held && needed->of[i]) {
            e->buckets[i].left -= (double)needed->of[i];
            e->buckets[i].used += needed->of[i];
        }
    ea_mutex_unlock(q->mutex);
    return granted;
}

int ec_quota_check(ec_quota *q, enum ec_quota_who who, const char *name, int64_t now_ns, ec_quota_refusal *ret) {
    int granted = 1;
    if (!q)
        return 1;
    ea_mutex_lock(q->mutex);
    entry *e = quota_entry_of(q, who, name, now_ns);
    for (int i = 0; e && granted && i < EC_QUOTA_COUNT; i++)
        if (is_limited_rate(q, e, i) && e->buckets[i].left < 0)
            granted = quota_refuse(q, e, i, -e->buckets[i].left, now_ns, ret);
    ea_mutex_unlock(q->mutex);
    return granted;
}

void ec_quota_charge(ec_quota *q, enum ec_quota_resource which, const char *name, uint64_t amount, int64_t now_ns) {
    if (!q || !amount)
        return;
    ea_mutex_lock(q->mutex);
    entry *e = quota_entry_of(q, ROWS[which].who, name, now_ns);
    if (e) {
        e->buckets[which].left -= (double)amount;
        e->buckets[which].used += amount;
    }
    ea_mutex_unlock(q->mutex);
}

void ec_quota_refund(ec_quota *q, enum ec_quota_resource which, const char *name, uint64_t amount, int64_t now_ns) {
    if (!q)
        return;
    ea_mutex_lock(q->mutex);
    entry *e = quota_entry_of(q, ROWS[which].who, name, now_ns);
    if (e) {
        bucket *b = &e->buckets[which];
        b->left += (double)amount;
        if (b->left > capacity(q, which))
            b->left = capacity(q, which);
        b->used -= amount < b->used ? amount : b->used;
    }
    ea_mutex_unlock(q->mutex);
}

int ec_quota_has_room(ec_quota *q, enum ec_quota_resource which, const char *name, int is_counted, int64_t now_ns) {
    int has = 1;
    if (!q || !q->limits.of[which])
        return 1;
    ea_mutex_lock(q->mutex);
    entry *e = quota_entry_of(q, ROWS[which].who, name, now_ns);
    if (e && (ROWS[which].is_held ? e->buckets[which].used >= q->limits.of[which] : e->buckets[which].left < 0)) {
        if (is_counted)
            note_refusal(q, e, which, now_ns);
        has = 0;
    }
    ea_mutex_unlock(q->mutex);
    return has;
}

void ec_quota_hold(ec_quota *q, enum ec_quota_resource which, const char *name, int64_t amount, int64_t now_ns) {
    if (!q || !amount)
        return;
    ea_mutex_lock(q->mutex);
    entry *e = quota_entry_of(q, ROWS[which].who, name, now_ns);
    if (e) {
        bucket *b = &e->buckets[which];
        uint64_t given = amount < 0 ? (uint64_t)-amount : 0;
        b->used = given > b->used ? 0 : b->used - given + (amount > 0 ? (uint64_t)amount : 0);
    }
    ea_mutex_unlock(q->mutex);
}

/* ---- listing ---- */

int ec_quota_list(ec_quota *q, int64_t now_ns, ec_quota_use **ret, size_t *ret_count, ea_err *err) {
    if (!q) {
        *ret = NULL;
        *ret_count = 0;
        return 0;
    }
    ea_mutex_lock(q->mutex);
    size_t n = 0;
    ec_quota_use *list = calloc(q->count + 1, sizeof *list);
    for (entry *e = q->newest; list && e; e = e->older) {
        ec_quota_use *u = &list[n++];
        quota_fill(q, e, now_ns);
        u->who = e->who;
        memcpy(u->name, e->name, sizeof u->name);
        for (int i = 0; i < EC_QUOTA_COUNT; i++) {
            const bucket *b = &e->buckets[i];
            u->of[i].limit = q->limits.of[i];
            u->of[i].used = b->used;
            u->of[i].refused = b->refused;
            u->of[i].left = b->left;
            u->of[i].above_since_utc_ns = is_above(b, now_ns) ? b->above_since_utc_ns : 0;
        }
    }
    ea_mutex_unlock(q->mutex);
    if (!list)
        return ea_fail(err, EA_ENOMEM, "list the quotas");
    *ret = list;
    *ret_count = n;
    return 0;
}
