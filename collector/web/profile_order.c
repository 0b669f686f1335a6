/* See profile_order.h. */
#include "collector/web/profile_order.h"

enum {

#define X(id, name) +1
    FORMAT_COUNT = 0 EC_PROFILE_FORMATS(X)
#undef X
};

/* ---- writing ---- */

static void profile_order_put_list(ea_text *t, const char *const *items, size_t count) {
    ec_message_u32(t, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        ec_message_string(t, items[i]);
}

static void put_side(ea_text *t, const ec_profile_side *s) {
    ec_message_u32(t, (uint32_t)s->weight);
    ec_message_u32(t, s->counter != NULL);
    ec_message_string(t, s->counter);
    ec_message_u64(t, (uint64_t)s->from_utc_ns);
    ec_message_u64(t, (uint64_t)s->to_utc_ns);
    profile_order_put_list(t, s->hosts, s->host_count);
    profile_order_put_list(t, s->labels, s->label_count);
}

void ec_profile_order_print(const ec_profile_order *o, ea_text *t) {
    const ec_profile_request *r = &o->request;
    ec_message_begin(t, 'P');
    ec_message_u64(t, o->parent);
    ec_message_u64(t, (uint64_t)o->limit_ns);
    ec_message_u64(t, o->limit_bytes);
    ec_message_u64(t, o->limit_temp_bytes);
    ec_message_u32(t, (uint32_t)o->format);
    ec_message_u32(t, o->has_names != 0);
    ec_message_string(t, r->store);
    ec_message_u32(t, r->shown != NULL);
    ec_message_string(t, r->shown);
    ec_message_u32(t, r->has_other != 0);
    for (int i = 0; i < 2; i++)
        put_side(t, &r->side[i]);
    ec_message_u64(t, r->limit_stacks);
    ec_message_u32(t, (uint32_t)r->pid_count);
    for (size_t i = 0; i < r->pid_count; i++)
        ec_message_u32(t, r->pids[i]);
}

/* ---- reading ---- */

/* A list of strings, which point into the message: how many, more than EC_PROFILE_LIST_MAX when they are too many. */
static size_t take_list(ec_message *m, const char **to) {
    size_t count = (size_t)ec_message_get(m, 4);
    for (size_t i = 0; i < count && i < EC_PROFILE_LIST_MAX; i++)
        to[i] = ec_message_get_string(m);
    return count;
}

static int take_side(ec_message *m, ec_profile_side *s, const char **hosts, const char **labels) {
    uint64_t weight = ec_message_get(m, 4);
    int has_counter = ec_message_get(m, 4) != 0;
    s->weight = (enum ec_weight)weight;
    s->counter = ec_message_get_string(m);
    s->counter = has_counter ? s->counter : NULL;
    s->from_utc_ns = (int64_t)ec_message_get(m, 8);
    s->to_utc_ns = (int64_t)ec_message_get(m, 8);
    s->hosts = hosts;
    s->host_count = take_list(m, hosts);
    s->labels = labels;
    s->label_count = take_list(m, labels);
    return s->host_count > EC_PROFILE_LIST_MAX || s->label_count > EC_PROFILE_LIST_MAX || weight >= EC_WEIGHT_COUNT
               ? EA_ECORRUPT
               : 0;
}

int ec_profile_order_parse(ec_message *m, ec_profile_order *ret, ec_profile_order_room *room) {
    ec_profile_order o = {.parent = ec_message_get(m, 8)};
    ec_profile_request *r = &o.request;
    o.limit_ns = (int64_t)ec_message_get(m, 8);
    o.limit_bytes = ec_message_get(m, 8);
    o.limit_temp_bytes = ec_message_get(m, 8);
    uint64_t format = ec_message_get(m, 4);
    o.format = (enum ec_profile_format)format;
    o.has_names = ec_message_get(m, 4) != 0;
    r->store = ec_message_get_string(m);
    int has_shown = ec_message_get(m, 4) != 0;
    r->shown = ec_message_get_string(m);
    r->shown = has_shown ? r->shown : NULL;
    r->has_other = ec_message_get(m, 4) != 0;
    for (size_t i = 0; i < 2; i++)
        if (take_side(m, &r->side[i], room->lists[2 * i], room->lists[2 * i + 1]))
            return EA_ECORRUPT;
    r->limit_stacks = (size_t)ec_message_get(m, 8);
    r->pid_count = (size_t)ec_message_get(m, 4);
    for (size_t i = 0; i < r->pid_count && i < EC_PROFILE_LIST_MAX; i++)
        room->pids[i] = (uint32_t)ec_message_get(m, 4);
    r->pids = room->pids;
    if (m->failed || m->at != m->end || r->pid_count > EC_PROFILE_LIST_MAX || o.limit_ns <= 0 || format >= FORMAT_COUNT)
        return EA_ECORRUPT;
    *ret = o;
    return 0;
}
