/* Whether a request is accepted. See remote_parts.h. Thread: the sender's, with the lock. */
#include "service/core/remote_parts.h"

static const int64_t EXPIRES_MAX_NS = (int64_t)31 * 86400 * 1000000000, WINDOW_MAX_NS = (int64_t)7 * 86400 * 1000000000;

static const struct {
    enum ea_counter counter;
    const char *text;
} REFUSALS[REMOTE_REFUSALS] = {
    [REMOTE_ACCEPTED] = {EA_COUNT_requests_accepted, "accepted"},
    [REMOTE_MALFORMED] = {EA_COUNT_requests_refused_malformed, "malformed: it has no valid form"},
    [REMOTE_FOREIGN_KEY] = {EA_COUNT_requests_refused_key, "foreign key: another key signed it"},
    [REMOTE_CHANGED] = {EA_COUNT_requests_refused_signature, "changed: its signature is not that of its content"},
    [REMOTE_OTHER_HOST] = {EA_COUNT_requests_refused_host, "foreign: it is of other hosts"},
    [REMOTE_REPLAYED] = {EA_COUNT_requests_refused_replayed, "replayed: it came before"},
    [REMOTE_REORDERED] = {EA_COUNT_requests_refused_reordered, "reordered: a later one came before"},
    [REMOTE_EXPIRED] = {EA_COUNT_requests_refused_expired, "expired"},
    [REMOTE_FORBIDDEN] = {EA_COUNT_requests_refused_policy, "forbidden: the local policy does not allow its kind"},
    [REMOTE_BEYOND_LIMITS] = {EA_COUNT_requests_refused_limits,
                              "beyond limits: a window of more than 7 days, an expiry after more than 31 days, or 32 "
                              "open requests"},
};

const char *remote_refusal_text(enum remote_refusal why) {
    return REFUSALS[why].text;
}

enum ea_counter remote_refusal_counter(enum remote_refusal why) {
    return REFUSALS[why].counter;
}

static int has_seen(const ea_remote *r, uint64_t serial) {
    for (size_t i = 0; i < r->seen_count; i++)
        if (r->seen[i] == serial)
            return 1;
    return 0;
}

enum remote_refusal remote_check(const ea_remote *r, const uint8_t *data, size_t len_bytes, int64_t now_utc_ns,
                                 ea_request *ret) {
    ea_signed_request s;
    ea_err ignored;
    *ret = (ea_request){.serial = 0};
    if (ea_signed_request_decode(&s, data, len_bytes, &ignored) ||
        ea_request_decode(ret, s.request, s.request_bytes, &ignored))
        return REMOTE_MALFORMED;
    enum ea_request_signer signer = ea_request_key_check(r->key, &s);
    if (signer != EA_REQUEST_SIGNED)
        return signer == EA_REQUEST_FOREIGN ? REMOTE_FOREIGN_KEY : REMOTE_CHANGED;
    if (!ea_name_in(ret->hosts, r->name))
        return REMOTE_OTHER_HOST;
    if (ret->serial <= r->serial)
        return has_seen(r, ret->serial) ? REMOTE_REPLAYED : REMOTE_REORDERED;
    if (ret->expires_utc_ns <= now_utc_ns)
        return REMOTE_EXPIRED;
    if (ret->kind >= 32 || !(r->allowed & UINT32_C(1) << ret->kind))
        return REMOTE_FORBIDDEN;
    if (r->open_count == REMOTE_OPEN_MAX || ret->to_utc_ns - ret->from_utc_ns > WINDOW_MAX_NS ||
        ret->expires_utc_ns - now_utc_ns > EXPIRES_MAX_NS)
        return REMOTE_BEYOND_LIMITS;
    return REMOTE_ACCEPTED;
}
