/* The way of an event through the filters. See filter.h. */
#include "service/core/filter_parts.h"

#include "proto/base/array.h"
#include "proto/state/object_names.h"

#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000, BACK_SECONDS = 60;

enum { FILE_OPERATIONS = 64, MANIFEST_EVENT = 0xFFFE };

/* ---- what filters do with a class ---- */

int ea_filter_is_state(const ea_class *c) {
    static const char *const FAMILIES[] = {"event_trace",    "lost_event",     "system_config", "image_id",
                                           "sys_config_ex",  "event_metadata", "keyframe",      "image_file",
                                           "dotnet_rundown", "jscript"};
    static const char *const METHODS[] = {"Method/Load", "Method/Unload", "Method/DC", "Loader/"};

    if (ea_machine_concerns(&c->provider, c->code) || (!c->classic && c->code == MANIFEST_EVENT) ||
        strcmp(c->name, "PerfInfo/PmcCtrConfig") == 0)
        return 1;
    const char *family = ea_event_family_name(c->family);
    for (size_t i = 0; i < sizeof FAMILIES / sizeof *FAMILIES; i++)
        if (strcmp(family, FAMILIES[i]) == 0)
            return 1;
    for (size_t i = 0; strncmp(family, "dotnet", 6) == 0 && i < sizeof METHODS / sizeof *METHODS; i++)
        if (strncmp(c->name, METHODS[i], strlen(METHODS[i])) == 0)
            return 1;
    return c->classic && ea_object_names_concerns(&c->provider, c->code) &&
           (strcmp(family, "file_io") != 0 || c->code < FILE_OPERATIONS);
}

static int has_condition(const filter *r) {
    return r->where.program || r->drop.program || r->repeat_ns || r->sample_n || r->limit_n;
}

/* The one class of events beyond the registry's limit: it has lost which provider they are of. */
static int is_overflow(const ea_class *c) {
    return !*c->name && ea_guid_is_zero(&c->provider);
}

static filter_class *filter_add_class(ea_event_filters *f, const ea_class *c) {
    filter_class *n = calloc(1, sizeof *n);
    if (!n || EA_GROW(f->known, f->known_capacity, f->known_count + 1, SIZE_MAX) ||
        ea_u64_map_put(&f->classes, (uintptr_t)c, f->known_count + 1)) {
        free(n);
        return NULL;
    }
    f->known[f->known_count++] = n;
    n->c = c;
    n->informs = strcmp(c->name, "Thread/CSwitch") == 0 || strcmp(c->name, "PerfInfo/PmcCtrConfig") == 0;
    int is_state = ea_filter_is_state(c);
    for (size_t i = 0; i < f->count; i++) {
        const filter *r = &f->items[i];
        int concerns = ea_lang_concerns(r->classes.program, c);
        if (r->field_count && (concerns || is_overflow(c)))
            n->redacts |= 1u << i;
        if (!concerns)
            continue;
        if (has_condition(r) && (!is_state || (r->explicit.program && ea_lang_concerns(r->explicit.program, c))))
            n->rules |= 1u << i;
    }
    return n;
}

static EA_RARE const filter_class *filter_find_class(ea_event_filters *f, const ea_class *c) {
    const uint64_t *known = ea_u64_map_get(&f->classes, (uintptr_t)c);
    return f->last = known ? f->known[*known - 1] : filter_add_class(f, c);
}

const filter_class *filters_find(ea_event_filters *f, const ea_class *c) {
    return f->last && f->last->c == c ? f->last : filter_find_class(f, c);
}

/* ---- an event ---- */

int ea_event_filters_redact(ea_event_filters *f, const ea_record **in_out, const ea_class *c) {
    const filter_class *of = filters_find(f, c);
    if (!of)
        return EA_ENOMEM;
    if (!of->redacts || !filters_redact_fields(f, *in_out, c, of->redacts))
        return 0;
    *in_out = &f->record;
    return 1;
}

/* The program's answer: 1, 0, or EA_ENOMEM. */
static int filter_holds(filter_program *p, const ea_lang_event *event) {
    int rc = ea_lang_run_holds(p->run, event);
    ea_text *out = ea_lang_run_output(p->run);
    if (out->len_bytes)
        ea_text_clear(out);
    return rc;
}

/* A hash of the text of the program's value: 1; 0 when the event has none; or EA_ENOMEM. FNV-1a over the text, and the
 * last step of MurmurHash3, so that each of its bits depends on all of the text's. It is a part of the language's
 * reference: all versions keep the same events. */
static int filter_value_of(filter_program *p, const ea_lang_event *event, uint64_t *ret) {
    static const size_t BEFORE = sizeof "k=" - 1;
    int rc = ea_lang_run_event(p->run, event);
    ea_text *out = ea_lang_run_output(p->run);
    size_t n = out->len_bytes;
    if (rc < 0)
        return rc;
    if (n <= BEFORE)
        return 0;
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = BEFORE; i + 1 < n; i++) /* without the end of the line */
        h = (h ^ (uint8_t)out->data[i]) * UINT64_C(0x100000001b3);
    ea_text_clear(out);
    h = (h ^ h >> 33) * UINT64_C(0xff51afd7ed558ccd);
    h = (h ^ h >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    *ret = h ^ h >> 33;
    return 1;
}

/* 1 when the second has room for another event of this value, and counts it. Seconds begin anew in their order; an
 * event from before the second at hand counts there, unless the clock was set back. */
static int is_within_limit(filter *r, uint64_t value, int64_t utc_ns) {
    value ^= r->seed; /* no one can choose values that share a slot of the map */
    int64_t second = utc_ns / SECOND_NS;
    if (second > r->second || second < r->second - BACK_SECONDS) {
        r->second = second;
        ea_u64_map_clear(&r->counts);
    }
    uint64_t *n = ea_u64_map_get(&r->counts, value);
    if (!n && r->counts.count >= LIMIT_KEYS)
        n = ea_u64_map_get(&r->counts, value = UINT64_MAX);
    if (n)
        return *n < r->limit_n ? ++*n, 1 : 0;
    return ea_u64_map_put(&r->counts, value, 1) == 0;
}

/* A process and a class, mixed into the hash of a value. */
static uint64_t repeat_key(const filter *r, uint64_t value, const ea_lang_event *event) {
    uint64_t of;
    memcpy(&of, event->c->hash, sizeof of);
    of = (of ^ event->record->pid) * UINT64_C(0xff51afd7ed558ccd);
    return value ^ of ^ of >> 33 ^ r->seed;
}

/* 1 when an event of this key was kept less than the duration before. Two maps, of the period at hand and of the one
 * before, so that what is over is forgotten in whole maps. */
static int is_repeated(filter *r, uint64_t key, int64_t utc_ns) {
    int64_t period = utc_ns / r->repeat_ns;
    if (period == r->period + 1) {
        ea_u64_map before = r->kept[1];
        r->kept[1] = r->kept[0];
        r->kept[0] = before;
        ea_u64_map_clear(&r->kept[0]);
        r->period = period;
    } else if (period != r->period && period != r->period - 1) { /* a gap, or the clock was set back */
        for (size_t i = 0; i < 2; i++)
            ea_u64_map_clear(&r->kept[i]);
        r->period = period;
    }
    for (size_t i = 0; i < 2; i++) {
        const uint64_t *kept = ea_u64_map_get(&r->kept[i], key);
        if (kept && utc_ns - (int64_t)*kept < r->repeat_ns)
            return 1;
    }
    return 0;
}

/* One filter's answer: EA_COUNT_events_batched, or where the event ends. */
static int judge_by(filter *r, const ea_lang_event *event, enum ea_counter *ret_place) {
    uint64_t value = 0, key = 0;
    int rc, has_key = 0;
    if (r->where.run && (rc = filter_holds(&r->where, event)) != 1) {
        *ret_place = EA_COUNT_events_filtered;
        return rc;
    }
    if (r->drop.run && (rc = filter_holds(&r->drop, event)) != 0) {
        *ret_place = EA_COUNT_events_filtered;
        return rc < 0 ? rc : 0;
    }
    if (r->repeat.run) {
        has_key = filter_value_of(&r->repeat, event, &value);
        if (has_key < 0)
            return has_key;
        key = repeat_key(r, value, event);
        if (has_key && is_repeated(r, key, event->utc_ns)) {
            *ret_place = EA_COUNT_events_repeated;
            return 0;
        }
    }
    if (r->sample.run) {
        rc = filter_value_of(&r->sample, event, &value);
        if (rc < 0)
            return rc;
        if (rc && value % r->sample_n) {
            *ret_place = EA_COUNT_events_sampled_out;
            return 0;
        }
    }
    if (r->limit_n) {
        value = 0;
        rc = r->limit.run ? filter_value_of(&r->limit, event, &value) : 0;
        if (rc < 0)
            return rc;
        if (!is_within_limit(r, value, event->utc_ns)) {
            *ret_place = EA_COUNT_events_limited;
            return 0;
        }
    }
    return has_key && r->kept[0].count < REPEAT_KEYS ? ea_u64_map_put(&r->kept[0], key, (uint64_t)event->utc_ns) : 0;
}

/* What later events need of this one: which thread runs, which counters there are. */
static int inform(filter_program *p, const ea_lang_event *event) {
    int rc = p->run ? filter_holds(p, event) : 0;
    return rc < 0 ? rc : 0;
}

static EA_RARE int inform_others(ea_event_filters *f, uint32_t but, const ea_lang_event *event) {
    int rc = 0;
    for (size_t i = 0; i < f->count && !rc; i++) {
        filter *r = &f->items[i];
        if (but >> i & 1)
            continue;
        filter_program *const ALL[] = {&r->where, &r->drop, &r->repeat, &r->sample, &r->limit};
        for (size_t k = 0; k < sizeof ALL / sizeof *ALL && !rc; k++)
            rc = inform(ALL[k], event);
    }
    return rc;
}

int ea_event_filters_judge(ea_event_filters *f, const ea_record *record, const ea_record *redacted, const ea_class *c,
                           const ea_clock *clock, enum ea_counter *ret_place, ea_err *err) {
    const filter_class *of = filters_find(f, c);
    *ret_place = EA_COUNT_events_batched;
    if (!of)
        return ea_fail(err, EA_ENOMEM, "filter an event");
    int is_applied = f->own && ea_machine_concerns(&c->provider, c->code);
    if (!of->rules && !of->informs && !is_applied)
        return 0;
    ea_lang_event event = {
        .record = record, .c = c, .clock = clock, .utc_ns = ea_clock_to_utc_ns(clock, record->time_raw)};
    int rc = is_applied ? ea_machine_apply(f->own, redacted, c, event.utc_ns, err) : 0;
    if (rc)
        return rc;
    uint32_t done = 0;
    for (size_t i = 0; i < f->count && of->rules >> i && *ret_place == EA_COUNT_events_batched && !rc; i++) {
        if (!(of->rules >> i & 1))
            continue;
        done |= 1u << i;
        rc = judge_by(&f->items[i], &event, ret_place);
    }
    if (!rc && of->informs)
        rc = inform_others(f, done, &event);
    return rc ? ea_fail(err, rc, "filter an event") : 0;
}
