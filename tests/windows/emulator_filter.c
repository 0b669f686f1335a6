/* Which events a session of the emulator logs: kernel flags, levels, keywords, filters; and what Windows adds to them.
 * See emulator_stream.h. */
#include "tests/windows/emulator_stream.h"

#include "proto/event/event.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

/* Which kernel classes a flag turns on: masks in the first word (EnableFlags) and in the next two (PERF_*).
 * Source: config/kernel_flags.c, and the documentation of EnableFlags. */
static const struct {
    uint32_t guid; /* its first word */
    uint8_t low, high;
    uint32_t bits[3];
} FLAGS[] = {
    {0x3d6fa8d0, 0, 255, {0x1, 0}},         /* Process */
    {0x3d6fa8d1, 36, 36, {0x10, 0x4}},      /* Thread/CSwitch */
    {0x3d6fa8d1, 50, 50, {0x800, 0x200}},   /* Thread/ReadyThread */
    {0x3d6fa8d1, 0, 255, {0x2, 0}},         /* Thread */
    {0x2cb15d1d, 0, 255, {0x4, 0}},         /* Image */
    {0x3d6fa8d4, 0, 255, {0x500, 0}},       /* DiskIo */
    {0x90cbdc39, 0, 255, {0x6000200, 0}},   /* FileIo */
    {0x3d6fa8d3, 0, 255, {0xf000, 0x8001}}, /* PageFault */
    {0x9a280ac0, 0, 255, {0x10000, 0}},     /* TcpIp */
    {0xbf3a50c5, 0, 255, {0x10000, 0}},     /* UdpIp */
    {0xae53722e, 0, 255, {0x20000, 0}},     /* Registry */
    {0xce1dbfb4, 46, 46, {0x1000000, 0x2}}, /* PerfInfo/SampleProf */
    {0xce1dbfb4, 47, 47, {0, 0x400}},       /* PerfInfo/PmcCounterProf */
    {0xce1dbfb4, 51, 52, {0x80, 0, 0x40}},  /* PerfInfo/SysCl */
    {0xce1dbfb4, 66, 69, {0x60, 0x4080}},   /* PerfInfo/DPC, ISR */
    {0x45d8cccd, 0, 255, {0x100000, 0}},    /* ALPC */
};

/* A file's kernel event: by the form of its header, or, of what a merge added, by its class. */
int emul_is_kernel(const ea_record *r) {
    switch (r->header_type) {
    case EA_HEADER_SYSTEM32:
    case EA_HEADER_SYSTEM64:
    case EA_HEADER_COMPACT32:
    case EA_HEADER_COMPACT64:
    case EA_HEADER_PERFINFO32:
    case EA_HEADER_PERFINFO64:
        return 1;
    default:
        break;
    }
    return (r->flags & EA_FLAG_CLASSIC_HEADER) && ea_event_family_of(&r->provider, 1) != 0;
}

/* ---- stacks and counters of the kernel's events ---- */

enum { STACK_WALK = 0xdef2fe46, STACK = 32, STACK_KEY_KERNEL = 37, STACK_KEY_USER = 38, BUCKETS = 16384, PLACES = 4 };

struct emul_recent {
    struct {
        int64_t time_raw;
        uint32_t guid; /* its first word */
        uint8_t opcode;
    } at[BUCKETS][PLACES];

    uint8_t next[BUCKETS];
};

static size_t bucket_of(int64_t time_raw) {
    return (size_t)((uint64_t)time_raw * UINT64_C(0x9e3779b97f4a7c15) >> 50);
}

emul_recent *emul_recent_create(void) {
    return calloc(1, sizeof(emul_recent));
}

void emul_recent_destroy(emul_recent *recent) {
    free(recent);
}

void emul_recent_add(emul_recent *recent, const ea_record *r) {
    uint32_t guid = ea_load32(r->provider.bytes);
    if (guid == STACK_WALK || !emul_is_kernel(r))
        return;
    size_t bucket = bucket_of(r->time_raw), place = recent->next[bucket]++ % PLACES;
    recent->at[bucket][place].time_raw = r->time_raw;
    recent->at[bucket][place].guid = guid;
    recent->at[bucket][place].opcode = r->opcode;
}

static int is_listed(const CLASSIC_EVENT_ID *ids, uint32_t count, uint32_t guid, uint8_t opcode) {
    for (uint32_t i = 0; i < count; i++)
        if (ids[i].EventGuid.Data1 == guid && ids[i].Type == opcode)
            return 1;
    return 0;
}

/* Whether a stack, which begins with its event's time, is of a class that the session walks. One whose event is not in
 * the trace is, and all are where the session named no class. */
static int is_walked(const emul_session *s, const emul_recent *recent, const ea_record *r) {
    int is_known = 0;
    if (!recent || !s->stacks || (r->opcode != STACK && r->opcode != STACK_KEY_KERNEL && r->opcode != STACK_KEY_USER) ||
        r->payload_bytes < sizeof(uint64_t))
        return 1;
    int64_t time_raw = (int64_t)ea_load64(r->payload);
    size_t bucket = bucket_of(time_raw);
    for (size_t i = 0; i < PLACES; i++) {
        uint32_t guid = recent->at[bucket][i].guid;
        if (!guid || recent->at[bucket][i].time_raw != time_raw)
            continue;
        if (is_listed(s->stack_ids, s->stacks, guid, recent->at[bucket][i].opcode))
            return 1;
        is_known = 1;
    }
    return !is_known;
}

/* Whether the session asked for counters, and for none on events of this class. */
static int has_counters_unasked(const emul_session *s, const ea_record *r) {
    return s->counter_count && ea_record_ext(r, EA_EXT_PMC_COUNTERS) &&
           !is_listed(s->pmc_ids, s->pmc_events, ea_load32(r->provider.bytes), r->opcode);
}

/* ---- which events ---- */

static int wants_kernel(const emul_session *s, const emul_recent *recent, const ea_record *r) {
    uint32_t first = ea_load32(r->provider.bytes), any = 0;
    for (size_t i = 0; i < 8; i++)
        any |= s->masks[i];
    if (first == STACK_WALK && !is_walked(s, recent, r))
        return 0;
    for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++)
        if (FLAGS[i].guid == first && r->opcode >= FLAGS[i].low && r->opcode <= FLAGS[i].high)
            return (s->masks[0] & FLAGS[i].bits[0]) || (s->masks[1] & FLAGS[i].bits[1]) ||
                   (s->masks[2] & FLAGS[i].bits[2]);
    return any != 0; /* configuration, stacks, names: they come with any flag */
}

/* Whether ids as they were given let an event through; without them all go. */
static int id_passes(const emul_ids *ids, uint16_t id) {
    for (size_t i = 0; i < ids->count; i++)
        if (ids->ids[i] == id)
            return ids->filter_in;
    return !ids->is_given || !ids->filter_in;
}

/* A name in a list of names separated by semicolons, in any case; an empty list has all. */
static int in_list(const uint16_t *list, const WCHAR *name) {
    size_t n = wcslen(name);
    if (!*list)
        return 1;
    for (const WCHAR *at = (const WCHAR *)list; *at; at += *at != 0) {
        size_t len = wcscspn(at, L";");
        if (len == n && _wcsnicmp(at, name, n) == 0)
            return 1;
        at += len;
        if (!*at)
            break;
    }
    return 0;
}

/* A process that the script does not describe is in no list. */
static int process_passes(const emul_lists *l, uint32_t pid) {
    static const emul_process NO_PROCESS = {.names = {L"-", L"-", L"-", L"-"}};
    const emul_script *w = emul_what();
    const emul_process *p = &NO_PROCESS;
    for (uint32_t i = 0; i < w->process_count; i++)
        if (w->processes[i].pid == pid)
            p = &w->processes[i];
    return in_list(l->executables, p->names[0]) && in_list(l->packages, p->names[1]) &&
           in_list(l->app_ids, p->names[2]) && in_list(l->containers, p->names[3]);
}

/* Whether level and keywords are those that a filter means; events without a keyword have none of them. */
static int is_meant(const ea_record *r, uint8_t level, uint64_t any, uint64_t all) {
    return r->level <= level && (!any || ((r->keyword & any) && (r->keyword & all) == all));
}

/* The name of a TraceLogging event is in its metadata, after a size and tags. Other events have no name: NULL.
 * *ret_bytes: with its end. */
static const uint8_t *name_of(const ea_record *r, size_t *ret_bytes) {
    const ea_ext *item = ea_record_ext(r, EA_EXT_SCHEMA_TL);
    size_t at = 2, left = item ? item->size_bytes : 0;
    while (at < left && item->data[at] & 0x80)
        at++;
    at++;
    *ret_bytes = at < left ? strnlen((const char *)item->data + at, left - at) + 1 : 0;
    return *ret_bytes ? item->data + at : NULL;
}

/* The counters of an EventSource: it writes them when a session has given it an interval. */
static int is_counted(const emul_lists *l, const ea_record *r) {
    static const char COUNTERS[] = "EventCounters", INTERVAL[] = "EventCounterIntervalSec";
    size_t bytes;
    const uint8_t *name = name_of(r, &bytes);
    if (bytes != sizeof COUNTERS || memcmp(name, COUNTERS, sizeof COUNTERS - 1) != 0)
        return 1;
    for (size_t at = 0; l && at < l->argument_bytes;) {
        const char *key = (const char *)l->arguments + at, *value = key + strlen(key) + 1;
        if (strcmp(key, INTERVAL) == 0 && atof(value) > 0)
            return 1;
        at += (size_t)(value - key) + strlen(value) + 1;
    }
    return 0;
}

static int has_name(const ea_record *r, const emul_event_names *n) {
    size_t bytes;
    const uint8_t *own = name_of(r, &bytes), *name = n->names;
    for (unsigned i = 0; bytes && i < n->head.count; i++) {
        size_t len = strlen((const char *)name) + 1;
        if (len == bytes && memcmp(name, own, len - 1) == 0)
            return 1;
        name += len;
    }
    return 0;
}

static int name_passes(const emul_event_names *n, const ea_record *r) {
    int is_in = n->head.count && is_meant(r, n->head.level, n->head.any, n->head.all) && has_name(r, n);
    return !n->head.count || is_in == n->head.filter_in;
}

/* The provider itself, or a group that it is in. */
static int is_of(const emul_provider *p, const ea_guid *provider) {
    const emul_script *w = emul_what();
    if (!(p->property & EA_ENABLE_PROVIDER_GROUP))
        return ea_guid_equal(&p->guid, provider);
    for (uint32_t i = 0; i < w->group_count; i++)
        if (ea_guid_equal(&w->groups[i][0], &p->guid) && ea_guid_equal(&w->groups[i][1], provider))
            return 1;
    return 0;
}

/* By process: such a filter enables the provider in programs alone. */
static int is_by_process(const emul_provider *p) {
    const emul_lists *l = p->lists ? &emul_shared()->lists[p->lists - 1] : NULL;
    return p->pid_count || (l && (l->executables[0] || l->packages[0] || l->app_ids[0] || l->containers[0]));
}

static int passes(const emul_provider *p, const ea_record *r) {
    if (is_by_process(p) && emul_is_driver(r->provider.bytes))
        return 0;
    if (p->level && r->level > p->level)
        return 0;
    if (!p->any && (r->flags & (EA_FLAG_CLASSIC_HEADER | EA_FLAG_TRACE_MESSAGE)))
        return 0; /* to a provider of MOF or WPP no bit means nothing */
    if (!r->keyword && (p->property & EA_ENABLE_IGNORE_KEYWORD_0))
        return 0;
    if (r->keyword && p->any && (!(r->keyword & p->any) || (r->keyword & p->all) != p->all))
        return 0; /* without any, all is not looked at */
    if (!id_passes(&p->ids, r->id))
        return 0;
    int found = !p->pid_count;
    for (size_t k = 0; k < p->pid_count; k++)
        found |= p->pids[k] == r->pid;
    if (!is_counted(p->lists ? &emul_shared()->lists[p->lists - 1] : NULL, r))
        return 0;
    if (!found || !p->lists)
        return found;
    const emul_lists *l = &emul_shared()->lists[p->lists - 1];
    return process_passes(l, r->pid) && name_passes(&l->event_names, r) &&
           (!l->payload_bytes || emul_payload_passes(l->payload, l->payload_bytes, r));
}

/* The provider's part of the session that lets the event through. */
static const emul_provider *part_of(const emul_session *s, const ea_record *r) {
    for (size_t i = 0; i < s->provider_count; i++)
        if (is_of(&s->providers[i], &r->provider) && passes(&s->providers[i], r))
            return &s->providers[i];
    return NULL;
}

static int wants_user(const emul_session *s, const ea_record *r) {
    return part_of(s, r) != NULL;
}

static int wants_stack(const emul_provider *p, const ea_record *r) {
    const ea_filter_level_kw *l = &p->stack_level;
    if (!(p->property & EVENT_ENABLE_PROPERTY_STACK_TRACE))
        return 0;
    if (p->has_stack_level)
        return is_meant(r, l->level, l->any, l->all) == l->filter_in;
    if (p->lists && emul_shared()->lists[p->lists - 1].stack_names.head.count)
        return name_passes(&emul_shared()->lists[p->lists - 1].stack_names, r);
    return id_passes(&p->stack_ids, r->id);
}

static void add_item(emul_dressed *d, uint16_t type, const void *data, uint32_t bytes) {
    if (d->record.ext_count >= EA_EXT_MAX || ea_record_ext(&d->record, type))
        return;
    uint8_t *at = d->data + 16 * d->added++;
    memcpy(at, data, bytes);
    if (d->record.ext_count)
        d->ext[d->record.ext_count - 1].linkage |= 1;
    d->ext[d->record.ext_count++] = (ea_ext){.type = type, .size_bytes = bytes, .data = at};
    d->record.flags |= EA_FLAG_EXTENDED_INFO;
}

/* The record without its counters. */
static const ea_record *without_counters(const ea_record *r, emul_dressed *d) {
    enum { COUNTERS = 7 << 8 }; /* how many follow a PERFINFO header, in its version word */

    d->record = *r;
    d->record.ext = d->ext;
    d->record.ext_count = 0;
    for (size_t i = 0; i < r->ext_count; i++)
        if (r->ext[i].type != EA_EXT_PMC_COUNTERS)
            d->ext[d->record.ext_count++] = r->ext[i];
    for (size_t i = 0; i < d->record.ext_count; i++)
        d->ext[i].linkage = (uint16_t)((d->ext[i].linkage & 0xfffe) | (i + 1 < d->record.ext_count));
    if (!d->record.ext_count)
        d->record.flags &= (uint16_t)~EA_FLAG_EXTENDED_INFO;
    d->record.header_word &= (uint16_t)~COUNTERS;
    return &d->record;
}

/* The place after a text of UTF-16 with its end; 0: it has none. */
static size_t after_text(const ea_record *r, size_t at) {
    for (; r->payload_bytes - at >= 2; at += 2)
        if (!ea_load16(r->payload + at))
            return at + 2;
    return 0;
}

/* Kernel-Registry's SetValueKey has a value's data, and the data from before, only under a filter with 0x2 and without
 * 0x4, as other projects measured it: of 0 to 4, only 2 and 3 bring it. */
static const ea_record *without_data(const emul_provider *p, const ea_record *r, emul_dressed *d) {
    enum { SET_VALUE = 5, DATA = 2, NO_DATA = 4 };

    size_t at = r->pointer_size + 12u; /* KeyObject, Status, Type, DataSize */
    if (r->id != SET_VALUE || !ea_guid_equal(&r->provider, &EMUL_KERNEL_REGISTRY) || at >= r->payload_bytes ||
        (p->registry_filter & (DATA | NO_DATA)) == DATA)
        return r;
    if (!(at = after_text(r, at)) || !(at = after_text(r, at)) || r->payload_bytes - at < 2)
        return r;
    size_t before = at + 2 + ea_load16(r->payload + at); /* its type and size, then a size and the data */
    if (before > r->payload_bytes || r->payload_bytes - before < 10)
        return r;
    memcpy(d->payload, r->payload, at);
    ea_store16(d->payload + at, 0);
    memcpy(d->payload + at + 2, r->payload + before, 8);
    ea_store16(d->payload + at + 10, 0);
    d->bare = *r;
    d->bare.payload = d->payload;
    d->bare.payload_bytes = (uint16_t)(at + 12);
    return &d->bare;
}

const ea_record *emul_dress(const emul_session *s, const ea_record *r, emul_dressed *d) {
    static const uint8_t SYSTEM_SID[12] = {1, 1, 0, 0, 0, 0, 0, 5, 18};
    const emul_provider *p = emul_is_kernel(r) ? NULL : part_of(s, r);
    if (emul_is_kernel(r) && has_counters_unasked(s, r))
        return without_counters(r, d);
    if (p)
        r = without_data(p, r, d);
    if (!p || !(p->property || emul_what()->items_asked))
        return r;
    uint64_t stack[2] = {0, 0x7ff700001000}, start = (uint64_t)r->pid << 16 | 1, key = r->position + 1, psm = r->pid;
    uint32_t terminal = 1;
    d->record = *r;
    d->record.ext = d->ext;
    d->added = 0;
    d->record.ext_count = 0;
    for (size_t i = 0; i < r->ext_count; i++)
        if (wants_stack(p, r) || !emul_what()->items_asked || r->ext[i].type != EA_EXT_STACK_TRACE64) {
            d->ext[d->record.ext_count] = r->ext[i];
            d->ext[d->record.ext_count].linkage &= 0xfffe;
            if (d->record.ext_count++)
                d->ext[d->record.ext_count - 2].linkage |= 1;
        }
    if (p->property & EVENT_ENABLE_PROPERTY_SID)
        add_item(d, EA_EXT_SID, SYSTEM_SID, sizeof SYSTEM_SID);
    if (p->property & EVENT_ENABLE_PROPERTY_TS_ID)
        add_item(d, EA_EXT_TS_ID, &terminal, sizeof terminal);
    if (wants_stack(p, r))
        add_item(d, EA_EXT_STACK_TRACE64, stack, sizeof stack);
    if (p->property & EA_ENABLE_PSM_KEY)
        add_item(d, EA_EXT_PSM_KEY, &psm, sizeof psm);
    if (p->property & EA_ENABLE_EVENT_KEY)
        add_item(d, EA_EXT_EVENT_KEY, &key, sizeof key);
    if (p->property & EA_ENABLE_PROCESS_START_KEY)
        add_item(d, EA_EXT_PROCESS_START_KEY, &start, sizeof start);
    return &d->record;
}

int emul_logs_something(const emul_session *s) {
    uint32_t any = s->provider_count;
    for (size_t i = 0; i < 8; i++)
        any |= s->masks[i];
    return any != 0;
}

int emul_wants(const emul_session *s, const emul_recent *recent, const ea_record *r) {
    return emul_is_kernel(r) ? wants_kernel(s, recent, r) : wants_user(s, r);
}
