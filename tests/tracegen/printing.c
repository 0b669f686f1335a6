/* A print spooler whose event schemas only the traced machine knows. The trace has TRACE_EVENT_INFO and EVENT_MAP_INFO
 * records for them. They precede the first event of a kind and have its time, as in a trace that Windows' merge tool
 * wrote: first the event's information, then its maps that the trace does not have yet. See subsystems.h. Source of the
 * layouts: tdh.h; of the order: real traces. */
#include "proto/event/tdh_types.h"
#include "tests/tracegen/subsystems.h"

#include <string.h>

enum {
    EVENTS = 2,
    MAPS = 2,
    EVENT_HEAD_BYTES = 112,
    PROPERTY_BYTES = 24,
    MAP_HEAD_BYTES = 16,
    ENTRY_BYTES = 8,
    NAME_AT = 4, /* in EVENT_PROPERTY_INFO */
    IN_TYPE_AT = 8,
    MAP_AT = 12,
    COUNT_AT = 16,
    MAP_VALUES = 1, /* EVENTMAP_INFO_FLAG_MANIFEST_VALUEMAP */
    MAP_BITS = 2,   /* EVENTMAP_INFO_FLAG_MANIFEST_BITMAP */
    RECORD_BYTES = 1024
};

#define PROVIDER_NAME "Contoso-Desk-Printing"
#define PROVIDER      EA_GUID(0x77c1a2be, 0x1d40, 0x4c1f, 0x93, 0x5e, 0x0b, 0x6a, 0x2f, 0x98, 0xe1, 0x3c)
static const ea_guid GUID = PROVIDER;

static const tg_event_row rows[EVENTS] = {
    {PROVIDER_NAME, PROVIDER, 7, 7, 0, 4, 0, TG_GROUP_MANIFEST, 0x1, "JobQueued", "Job:u32 Options:u32 Document:text"},
    {PROVIDER_NAME, PROVIDER, 8, 8, 0, 4, 0, TG_GROUP_MANIFEST, 0x1, "JobPrinted", "Job:u32 Options:u32 Status:u32"},
};

/* The values of fields of a name. */
static const struct {
    const char *field, *name;
    uint32_t flags, count;
    ea_map_entry entries[3];
} maps[MAPS] = {{"Options", "JobOptions", MAP_BITS, 3, {{1, "Duplex"}, {2, "Color"}, {4, "Staple"}}},
                {"Status", "JobStatus", MAP_VALUES, 3, {{0, "Done"}, {1, "Cancelled"}, {2, "Jammed"}}}};

struct tg_printing {
    tg_event events[EVENTS];
    int is_in_truth[EVENTS], is_map_written[MAPS];
    uint32_t jobs;
};

int tg_printing_make(tg_machine *m, ea_err *err) {
    int rc = 0;
    if (!m->scenario->event_infos)
        return 0;
    m->printing = tg_new(m, sizeof *m->printing);
    if (!m->printing)
        return ea_fail(err, EA_ENOMEM, "make a print spooler");
    for (int i = 0; !rc && i < EVENTS; i++)
        rc = tg_event_make(m, &rows[i], &m->printing->events[i], err);
    return rc;
}

/* The bytes after the fixed part of a record. Offsets are relative to the beginning of the fixed part. */
typedef struct variable_part {
    uint8_t bytes[RECORD_BYTES];
    size_t head_bytes, len_bytes;
} variable_part;

/* Adds a name as TDH writes it: UTF-16, followed by a blank and a zero. Returns the name's offset. */
static uint32_t add_name(variable_part *v, const char *name) {
    size_t at = v->len_bytes;
    for (; *name; name++, v->len_bytes += 2)
        v->bytes[v->len_bytes] = (uint8_t)*name;
    v->bytes[v->len_bytes] = ' ';
    v->len_bytes += 4;
    return (uint32_t)(v->head_bytes + at);
}

static int find_map(const char *field) {
    for (int i = 0; i < MAPS; i++)
        if (strcmp(maps[i].field, field) == 0)
            return i;
    return -1;
}

static int tell_event(tg_machine *m, const tg_context *who, const tg_event *e) {
    const ea_class *c = e->plan.class;
    variable_part v = {.head_bytes = EVENT_HEAD_BYTES, .len_bytes = (size_t)c->field_count * PROPERTY_BYTES};
    uint32_t provider = add_name(&v, PROVIDER_NAME), task = add_name(&v, e->name);
    for (size_t i = 0; i < c->field_count; i++) {
        uint8_t *p = v.bytes + i * PROPERTY_BYTES;
        int map = find_map(c->fields[i].name);
        ea_store32(p + NAME_AT, add_name(&v, c->fields[i].name));
        ea_store16(p + IN_TYPE_AT, c->fields[i].type == EA_U32 ? EA_IN_UINT32 : EA_IN_UNICODE_STRING);
        if (map >= 0)
            ea_store32(p + MAP_AT, add_name(&v, maps[map].name));
        ea_store16(p + COUNT_AT, 1);
    }
    return TG_EMIT(m->trace, TG_EVENT_INFO, who, tg_bytes(GUID.bytes, sizeof GUID.bytes), tg_n(e->id), tg_n(e->level),
                   tg_n(e->task), tg_n(e->keyword), tg_n(provider), tg_n(task), tg_n(c->field_count),
                   tg_n(c->field_count), tg_bytes(v.bytes, v.len_bytes));
}

static int write_map(tg_machine *m, const tg_context *who, int map) {
    variable_part v = {.head_bytes = MAP_HEAD_BYTES, .len_bytes = (size_t)maps[map].count * ENTRY_BYTES};
    uint32_t name = add_name(&v, maps[map].name);
    for (uint32_t i = 0; i < maps[map].count; i++) {
        ea_store32(v.bytes + i * (size_t)ENTRY_BYTES, add_name(&v, maps[map].entries[i].name));
        ea_store32(v.bytes + i * (size_t)ENTRY_BYTES + 4, (uint32_t)maps[map].entries[i].value);
    }
    return TG_EMIT(m->trace, TG_MAP_INFO, who, tg_bytes(GUID.bytes, sizeof GUID.bytes), tg_n(name),
                   tg_n(maps[map].flags), tg_n(maps[map].count), tg_bytes(v.bytes, v.len_bytes));
}

static void log_job(tg_machine *m, tg_cpu *cpu, tg_thread *t, int event, const tg_v *values) {
    tg_printing *p = m->printing;
    tg_event *e = &p->events[event];
    tg_context who = tg_who(m, cpu, t, tg_stamp(m, cpu, t));
    if (!p->is_in_truth[event] && tell_event(m, &who, e)) {
        p->is_in_truth[event] = 1;
        for (size_t i = 0; i < e->plan.class->field_count; i++) {
            int map = find_map(e->plan.class->fields[i].name);
            if (map >= 0 && !p->is_map_written[map])
                p->is_map_written[map] = write_map(m, &who, map);
        }
    }
    tg_emit_event(m->trace, e, &who, values, NULL);
}

void tg_print(tg_machine *m, tg_cpu *cpu, tg_thread *t, const char *document) {
    if (!m->printing)
        return;
    uint32_t job = ++m->printing->jobs;
    log_job(m, cpu, t, 0, (const tg_v[]){tg_n(job), tg_n(job % 8), tg_text(document)});
    tg_spend(m, cpu, 50, 1000);
    log_job(m, cpu, t, 1, (const tg_v[]){tg_n(job), tg_n(job % 8), tg_n(job % 4)});
}

void tg_printing_tell(tg_machine *m) {
    for (int i = 0; m->printing && i < EVENTS; i++)
        tg_truth_provider_event(m->truth, &m->printing->events[i]);
}
