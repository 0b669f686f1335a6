/* See counter_names.h. */
#include "collector/query/scan/counter_names.h"

#include "collector/query/scan/event_cursor.h"
#include "proto/base/arena.h"
#include "proto/base/array.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHANGES_MAX = 4096, NAME_UNITS = 64 };

enum { COUNT, NAMES }; /* the cursor's fields */

struct ec_counter_names {
    ea_arena arena;
    ec_counter_config *configs; /* by place */
    size_t count, capacity;
};

static const ec_event_cursor_plan *counters_plan_class(void *arg, const ea_class *c) {
    static const char *const FIELDS[] = {[COUNT] = "CounterCount", [NAMES] = "CounterName"};
    ec_counter_names *n = arg;
    if (strcmp(c->name, "PerfInfo/PmcCtrConfig") != 0)
        return NULL;
    ec_event_cursor_plan *plan = ea_arena_zalloc(&n->arena, 1, sizeof *plan);
    if (!plan)
        return &EC_EVENT_CURSOR_NO_MEMORY;
    plan->addresses = -1;
    for (unsigned i = 0; i < EC_EVENT_CURSOR_FIELDS; i++)
        plan->fields[i] = -1;
    for (size_t f = 0; f < ea_class_top_count(c); f++)
        for (unsigned i = 0; i < sizeof FIELDS / sizeof *FIELDS; i++)
            if (strcmp(c->fields[ea_class_top_field(c, f)].name, FIELDS[i]) == 0)
                plan->fields[i] = (int16_t)f;
    return plan;
}

static int counters_is_same(const ec_counter_config *a, const ec_counter_config *b) {
    return a->count == b->count && a->name_count == b->name_count && memcmp(a->names, b->names, sizeof a->names) == 0;
}

/* Names end with a zero each: UTF-16. */
static int take_names(const ea_slice *list, ec_counter_config *to) {
    ea_text name;
    int rc = 0;
    ea_text_init(&name);
    for (size_t at = 0; list->data && at + 1 < list->len_bytes && to->name_count < EC_COUNTERS_MAX;) {
        size_t end = at;
        while (end + 1 < list->len_bytes && ea_load16(list->data + end))
            end += 2;
        ea_text_clear(&name);
        ea_text_utf16(&name, list->data + at, end - at < NAME_UNITS * 2 ? end - at : NAME_UNITS * 2);
        if (name.failed)
            rc = EA_ENOMEM;
        snprintf(to->names[to->name_count++], EC_COUNTER_NAME_BYTES, "%s", name.data ? name.data : "");
        at = end + 2;
    }
    ea_text_deinit(&name);
    return rc;
}

/* Keeps a configuration that is not the one before it. */
static int counters_add(ec_counter_names *n, const ec_counter_config *c) {
    if (n->count && counters_is_same(&n->configs[n->count - 1], c))
        return 0;
    int rc = EA_GROW(n->configs, n->capacity, n->count + 1, CHANGES_MAX + 1);
    if (!rc)
        n->configs[n->count++] = *c;
    return rc;
}

int ec_counter_names_open(ec_counter_names **ret, ec_archive *archive, const ec_archive_stream *stream, ea_err *err) {
    ec_event_cursor *cursor = NULL;
    ec_event_cursor_event e;
    ec_counter_names *n = calloc(1, sizeof *n);
    if (!n)
        return ea_fail(err, EA_ENOMEM, "read the counters' names");
    ea_arena_init(&n->arena, 0);
    int rc = ec_event_cursor_open(
        &cursor, archive,
        &(ec_event_cursor_options){
            .stream = stream, .from_utc_ns = INT64_MIN, .to_utc_ns = INT64_MAX, .plan = counters_plan_class, .arg = n},
        err);
    while (!rc && n->count <= CHANGES_MAX && (rc = ec_event_cursor_next(cursor, &e, err)) == 1) {
        ec_counter_config c = {.place = ec_event_position(cursor)};
        rc = 0;
        if (n->count < CHANGES_MAX) {
            ea_slice names = ec_event_cursor_bytes(cursor, &e, NAMES);
            c.count = ec_event_cursor_u64_or_0(cursor, &e, COUNT);
            rc = take_names(&names, &c);
        }
        if (rc || (rc = counters_add(n, &c)))
            rc = ea_fail(err, rc, "read the counters' names");
    }
    ec_event_cursor_close(cursor);
    if (rc) {
        ec_counter_names_close(n);
        return rc;
    }
    *ret = n;
    return 0;
}

void ec_counter_names_close(ec_counter_names *n) {
    if (!n)
        return;
    ea_arena_deinit(&n->arena);
    free(n->configs);
    free(n);
}

const ec_counter_config *ec_counter_names_at(const ec_counter_names *n, uint64_t place) {
    size_t low = 0, high = n->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (n->configs[middle].place <= place)
            low = middle + 1;
        else
            high = middle;
    }
    return n->count ? &n->configs[low ? low - 1 : 0] : NULL;
}

const char *ec_counter_name(const ec_counter_config *c, size_t count, size_t i) {
    return c && c->count == count && i < c->name_count && *c->names[i] ? c->names[i] : NULL;
}
