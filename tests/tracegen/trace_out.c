/* The trace being generated. See trace_out.h. */
#include "tests/tracegen/trace_out.h"
#include "proto/etl/layout.h"

#include <stdlib.h>
#include <string.h>

enum { CHANNEL_TRACELOGGING = 11 };

static const ea_guid IMAGE_ID = EA_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde);
static const ea_guid SYS_CONFIG_EX =
    EA_GUID(0x9b79ee91, 0xb5fd, 0x41c0, 0xa2, 0x43, 0x42, 0x48, 0xe2, 0x66, 0xe9, 0xd0);

static const ea_guid METADATA = EA_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71);
static const ea_guid LOST_EVENT = EA_GUID(0x6a399ae0, 0x4bc6, 0x4de9, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e);

/* A form made ready: the record's constant part and the payload's plan. */
typedef struct ready_form {
    ea_record record;
    tg_plan plan;
    uint64_t count;
} ready_form;

typedef struct cpu_loss {
    int losing;
    uint64_t events, bytes;
} cpu_loss;

struct tg_trace {
    ea_etl_writer *writer; /* NULL: nothing is written */
    ea_registry *registry;
    ea_clock clock;
    uint32_t groups, buffer_bytes, cpu_count;
    uint8_t pointer_size;
    uint16_t logger;
    int rc;
    ea_err err;
    uint64_t events, payload_bytes;
    uint32_t events_lost, buffers_lost;
    cpu_loss *losses;
    ready_form forms[TG_FORM_COUNT];
    uint8_t payload[EA_ETL_RECORD_MAX_BYTES];
};

/* Of events with a FULL header. */
static const ea_guid *full_provider(uint8_t group) {
    switch (group) {
    case TG_GROUP_CONFIG:
        return &SYS_CONFIG_EX;
    case TG_GROUP_LOST:
        return &LOST_EVENT;
    case TG_GROUP_MANIFEST:
        return &METADATA;
    default:
        return &IMAGE_ID;
    }
}

static int make_ready(tg_trace *t, enum tg_form_id id, enum tg_windows_age age, ea_err *err) {
    const tg_form *f = &tg_forms[id];
    int is_32_bit = t->pointer_size == 4;
    uint8_t version = f->versions[age];
    ea_record *r = &t->forms[id].record;
    *r = (ea_record){.header_word = version,
                     .version = version,
                     .opcode = (uint8_t)f->hook_id,
                     .pid = UINT32_MAX,
                     .tid = UINT32_MAX,
                     .logger = t->logger,
                     .pointer_size = t->pointer_size};
    r->flags = EA_FLAG_CLASSIC_HEADER;
    r->flags |= is_32_bit ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER;
    if (f->header == TG_FULL) {
        r->header_type = is_32_bit ? EA_HEADER_FULL32 : EA_HEADER_FULL64;
        r->provider = *full_provider(f->group);
    } else {
        r->hook_id = f->hook_id;
        r->provider = *ea_etl_group_of(f->hook_id);
        if (f->header == TG_SYSTEM)
            r->header_type = is_32_bit ? EA_HEADER_SYSTEM32 : EA_HEADER_SYSTEM64;
        else
            r->header_type = is_32_bit ? EA_HEADER_PERFINFO32 : EA_HEADER_PERFINFO64;
    }
    return tg_plan_make(&t->forms[id].plan, ea_registry_find(t->registry, r), f->fields, err);
}

int tg_trace_create(tg_trace **ret, const tg_trace_options *o, ea_err *err) {
    tg_trace *t = calloc(1, sizeof *t);
    cpu_loss *losses = calloc(o->info->cpu_count, sizeof *losses);
    if (!t || !losses) {
        free(t);
        free(losses);
        return ea_fail(err, EA_ENOMEM, "make a trace");
    }
    t->losses = losses;
    t->cpu_count = o->info->cpu_count;
    t->groups = o->groups;
    t->buffer_bytes = o->info->buffer_size_bytes;
    t->pointer_size = (uint8_t)o->info->pointer_size;
    t->logger = o->info->logger;
    t->events = 1;
    t->clock = (ea_clock){.type = o->info->clock_type,
                          .frequency = (uint64_t)o->info->perf_frequency,
                          .base_raw = o->start_raw,
                          .base_utc_ns = ea_filetime_to_utc_ns(o->info->start_filetime)};
    if (o->info->clock_type == EA_CLOCK_CPU_CYCLES)
        t->clock.frequency = (uint64_t)o->info->cpu_mhz * 1000000;
    ea_etl_writer_options options = {.info = o->info,
                                     .start_raw = o->start_raw,
                                     .pid = 4,
                                     .tid = 8,
                                     .held_buffers = o->held_buffers,
                                     .seed = o->seed};
    int rc = ea_registry_create(&t->registry, 0, err);
    for (int id = 0; !rc && id < TG_FORM_COUNT; id++)
        rc = make_ready(t, (enum tg_form_id)id, o->age, err);
    if (!rc && o->path)
        rc = ea_etl_writer_create(&t->writer, o->path, &options, err);
    if (rc) {
        tg_trace_destroy(t);
        return rc;
    }
    *ret = t;
    return 0;
}

int tg_trace_finish(tg_trace *t, int64_t end_raw, ea_err *err) {
    if (t->rc) {
        if (err)
            *err = t->err;
        return t->rc;
    }
    ea_etl_writer_end end = {.end_filetime = ea_utc_ns_to_filetime(ea_clock_to_utc_ns(&t->clock, end_raw))};
    return t->writer ? ea_etl_writer_finish(t->writer, &end, err) : 0;
}

void tg_trace_destroy(tg_trace *t) {
    if (!t)
        return;
    ea_etl_writer_destroy(t->writer);
    ea_registry_destroy(t->registry);
    free(t->losses);
    free(t);
}

int tg_records(const tg_trace *t, enum tg_group group) {
    return (int)(t->groups >> group & 1);
}

/* The record's header and payload are complete. */
static int put(tg_trace *t, ea_record *r, const tg_context *who) {
    r->time_raw = who->time_raw;
    r->cpu = who->cpu;
    cpu_loss *loss = &t->losses[who->cpu];
    if (loss->losing) {
        loss->events++;
        loss->bytes += 80u + r->payload_bytes;
        return 0;
    }
    if (t->writer)
        t->rc = ea_etl_writer_add(t->writer, r, &t->err);
    t->events++;
    t->payload_bytes += r->payload_bytes;
    return !t->rc;
}

int tg_emit(tg_trace *t, enum tg_form_id id, const tg_context *who, const tg_v *values) {
    const tg_form *f = &tg_forms[id];
    if (t->rc || !(t->groups >> f->group & 1))
        return 0;
    ready_form *ready = &t->forms[id];
    ea_record *r = &ready->record;
    int fits;
    r->payload = t->payload;
    r->payload_bytes = (uint16_t)tg_plan_encode(&ready->plan, values, t->payload, sizeof t->payload - 128, &fits);
    if (!fits) {
        t->rc = ea_fail(&t->err, EA_ELIMIT, "encode %s: larger than an event may be", ready->plan.class->name);
        return 0;
    }
    uint8_t pmc[8 * TG_PMC_MAX];
    ea_ext item = {.type = EA_EXT_PMC_COUNTERS, .data = pmc, .size_bytes = 8 * who->pmc_count};
    if (f->header != TG_PERFINFO) {
        r->pid = who->pid;
        r->tid = who->tid;
        r->kernel_time = who->kernel_time;
        r->user_time = who->user_time;
    } else if (who->pmc_count) {
        for (unsigned i = 0; i < who->pmc_count && i < TG_PMC_MAX; i++)
            ea_store64(pmc + 8 * (size_t)i, who->pmc[i]);
        r->header_word = (uint16_t)(r->version | who->pmc_count << 8);
        r->ext = &item;
        r->ext_count = 1;
    }
    int logged = put(t, r, who);
    r->header_word = r->version;
    r->ext = NULL;
    r->ext_count = 0;
    ready->count += (uint64_t)logged;
    return logged;
}

int tg_emit_raw(tg_trace *t, ea_record *r, const tg_context *who, uint64_t *count) {
    if (t->rc)
        return 0;
    int is_32_bit = t->pointer_size == 4 || who->is_wow64;
    r->header_type = is_32_bit ? EA_HEADER_EVENT32 : EA_HEADER_EVENT64;
    r->flags |= is_32_bit ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER;
    r->pointer_size = is_32_bit ? 4 : 8;
    r->logger = t->logger;
    r->pid = who->pid;
    r->tid = who->tid;
    r->kernel_time = who->kernel_time;
    r->user_time = who->user_time;
    int logged = put(t, r, who);
    *count += (uint64_t)logged;
    return logged;
}

int tg_emit_event(tg_trace *t, tg_event *e, const tg_context *who, const tg_v *values, const tg_event_extra *extra) {
    if (t->rc || !(t->groups >> e->group & 1))
        return 0;
    int fits;
    size_t n = tg_plan_encode(&e->plan, values, t->payload, sizeof t->payload - 4096, &fits);
    if (!fits) {
        t->rc = ea_fail(&t->err, EA_ELIMIT, "encode %s: larger than an event may be", e->name);
        return 0;
    }
    ea_ext items[4];
    uint8_t item_count = 0, stack[8 + 8 * TG_STACK_MAX];
    if (extra && extra->related)
        items[item_count++] =
            (ea_ext){.type = EA_EXT_RELATED_ACTIVITY_ID, .data = extra->related->bytes, .size_bytes = 16};
    if (extra && extra->key) { /* EVENT_EXTENDED_ITEM_STACK_KEY32 is padded to as many bytes */
        ea_store64(stack, extra->match_id);
        ea_store64(stack + 8, extra->key);
        items[item_count++] = (ea_ext){
            .type = t->pointer_size == 4 ? EA_EXT_STACK_KEY32 : EA_EXT_STACK_KEY64, .data = stack, .size_bytes = 16};
    } else if (extra && extra->frame_count) {
        size_t width = t->pointer_size; /* the machine's: a 32-bit program's frames have 64 bits on a 64-bit one */
        ea_store64(stack, extra->match_id);
        for (size_t i = 0; i < extra->frame_count; i++) {
            if (width == 4)
                ea_store32(stack + 8 + 4 * i, (uint32_t)extra->frames[i]);
            else
                ea_store64(stack + 8 + 8 * i, extra->frames[i]);
        }
        items[item_count++] = (ea_ext){.type = width == 4 ? EA_EXT_STACK_TRACE32 : EA_EXT_STACK_TRACE64,
                                       .data = stack,
                                       .size_bytes = (uint32_t)(8 + width * extra->frame_count)};
    }
    if (e->metadata)
        items[item_count++] =
            (ea_ext){.type = EA_EXT_SCHEMA_TL, .data = e->metadata, .size_bytes = (uint32_t)e->metadata_bytes};
    if (e->traits)
        items[item_count++] =
            (ea_ext){.type = EA_EXT_PROV_TRAITS, .data = e->traits, .size_bytes = (uint32_t)e->traits_bytes};
    for (uint8_t i = 0; i + 1 < item_count; i++)
        items[i].linkage = 1;
    ea_record r = {.provider = e->provider,
                   .id = e->id,
                   .version = e->version,
                   .channel = e->metadata ? CHANNEL_TRACELOGGING : e->channel,
                   .level = e->level,
                   .opcode = e->opcode,
                   .task = e->task,
                   .keyword = e->keyword,
                   .flags = item_count ? EA_FLAG_EXTENDED_INFO : 0,
                   .ext = items,
                   .ext_count = item_count,
                   .payload = t->payload,
                   .payload_bytes = (uint16_t)n};
    if (extra && extra->activity)
        r.activity_id = *extra->activity;
    return tg_emit_raw(t, &r, who, &e->count);
}

void tg_trace_lose(tg_trace *t, uint16_t cpu) {
    t->losses[cpu].losing = 1;
}

uint64_t tg_trace_found(tg_trace *t, uint16_t cpu, int as_buffers, uint32_t *ret_buffers) {
    cpu_loss loss = t->losses[cpu];
    t->losses[cpu] = (cpu_loss){0};
    *ret_buffers = as_buffers && loss.events ? (uint32_t)(loss.bytes / t->buffer_bytes) + 1 : 0;
    uint32_t events = *ret_buffers ? 0 : (uint32_t)loss.events;
    t->events_lost += events;
    t->buffers_lost += *ret_buffers;
    if (t->writer && !t->rc)
        t->rc = ea_etl_writer_lose(t->writer, cpu, events, *ret_buffers, &t->err);
    return loss.events;
}

const ea_clock *tg_trace_clock(const tg_trace *t) {
    return &t->clock;
}

uint64_t tg_trace_events(const tg_trace *t) {
    return t->events;
}

uint64_t tg_trace_payload(const tg_trace *t) {
    return t->payload_bytes;
}

uint32_t tg_trace_events_lost(const tg_trace *t) {
    return t->events_lost;
}

uint32_t tg_trace_buffers_lost(const tg_trace *t) {
    return t->buffers_lost;
}

void tg_trace_each_class(const tg_trace *t, void (*fn)(void *arg, const ea_class *c, uint16_t hook_id, uint64_t count),
                         void *arg) {
    for (size_t i = 0; i < TG_FORM_COUNT; i++)
        if (t->forms[i].count)
            fn(arg, t->forms[i].plan.class, t->forms[i].record.hook_id, t->forms[i].count);
}
