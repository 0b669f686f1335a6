/* The trace being generated. See trace_out.h. */
#include "trace_out.h"

#include <stdlib.h>
#include <string.h>

enum { CLASSES_MAX = 256 };

struct tg_trace {
    ea_etl_writer *writer;
    ea_registry *registry;
    ea_clock clock;
    uint8_t pointer_size;
    uint16_t logger;
    int rc;
    ea_err err;
    struct {
        const ea_class *class;
        uint64_t count;
    } classes[CLASSES_MAX];
    size_t class_count;
    uint8_t payload[EA_ETL_RECORD_MAX_BYTES];
};

int tg_trace_create(tg_trace **ret, const char *path, const ea_etl_info *info, int64_t start_raw, ea_err *err) {
    tg_trace *t = calloc(1, sizeof *t);
    if (!t)
        return ea_fail(err, EA_ENOMEM, "write %s", path);
    t->pointer_size = (uint8_t)info->pointer_size;
    t->logger = info->logger;
    t->clock = (ea_clock){.type = info->clock_type,
                          .frequency = (uint64_t)info->perf_frequency,
                          .base_raw = start_raw,
                          .base_utc_ns = ea_filetime_to_utc_ns(info->start_filetime)};
    ea_etl_writer_options options = {.info = info, .start_raw = start_raw, .pid = 4, .tid = 8};
    int rc = ea_registry_create(&t->registry, 0, err);
    if (!rc)
        rc = ea_etl_writer_create(&t->writer, path, &options, err);
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
    return ea_etl_writer_finish(t->writer, &end, err);
}

void tg_trace_destroy(tg_trace *t) {
    if (!t)
        return;
    ea_etl_writer_destroy(t->writer);
    ea_registry_destroy(t->registry);
    free(t);
}

static void count(tg_trace *t, const ea_class *c) {
    size_t i = 0;
    while (i < t->class_count && t->classes[i].class != c)
        i++;
    if (i == CLASSES_MAX) {
        t->rc = ea_fail(&t->err, EA_ELIMIT, "more than %d classes of events", CLASSES_MAX);
        return;
    }
    if (i == t->class_count) {
        t->classes[i].class = c;
        t->class_count++;
    }
    t->classes[i].count++;
}

/* The record's header is filled in; the payload is made and all of it written. */
static void add(tg_trace *t, ea_record *r, const tg_context *who, const tg_value *values, size_t value_count) {
    if (t->rc)
        return;
    r->time_raw = who->time_raw;
    r->cpu = who->cpu;
    r->logger = t->logger;
    r->pointer_size = t->pointer_size;
    r->flags = EA_FLAG_CLASSIC_HEADER;
    r->flags |= t->pointer_size == 4 ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER;
    const ea_class *c = ea_registry_find(t->registry, r);
    size_t n = 0;
    t->rc = tg_encode(c, values, value_count, t->payload, sizeof t->payload, &n, &t->err);
    if (t->rc)
        return;
    r->payload = t->payload;
    r->payload_bytes = (uint16_t)n;
    t->rc = ea_etl_writer_add(t->writer, r, &t->err);
    if (!t->rc)
        count(t, c);
}

static ea_record kernel_record(uint16_t hook_id, uint8_t version, uint8_t header_type) {
    return (ea_record){.header_type = header_type,
                       .hook_id = hook_id,
                       .header_word = version,
                       .version = version,
                       .opcode = (uint8_t)hook_id,
                       .provider = *ea_etl_group_guid(hook_id)};
}

void tg_kernel(tg_trace *t, const tg_context *who, uint16_t hook_id, uint8_t version, const tg_value *values,
               size_t value_count) {
    ea_record r = kernel_record(hook_id, version, t->pointer_size == 4 ? EA_HEADER_SYSTEM32 : EA_HEADER_SYSTEM64);
    r.pid = who->pid;
    r.tid = who->tid;
    add(t, &r, who, values, value_count);
}

void tg_perfinfo(tg_trace *t, const tg_context *who, uint16_t hook_id, uint8_t version, const tg_value *values,
                 size_t value_count) {
    ea_record r = kernel_record(hook_id, version, t->pointer_size == 4 ? EA_HEADER_PERFINFO32 : EA_HEADER_PERFINFO64);
    r.pid = r.tid = UINT32_MAX;
    add(t, &r, who, values, value_count);
}

void tg_classic(tg_trace *t, const tg_context *who, const ea_guid *provider, uint8_t opcode, uint8_t version,
                const tg_value *values, size_t value_count) {
    ea_record r = {.header_type = t->pointer_size == 4 ? EA_HEADER_FULL32 : EA_HEADER_FULL64,
                   .header_word = version,
                   .version = version,
                   .opcode = opcode,
                   .provider = *provider,
                   .pid = who->pid,
                   .tid = who->tid};
    add(t, &r, who, values, value_count);
}

const ea_clock *tg_trace_clock(const tg_trace *t) {
    return &t->clock;
}
uint64_t tg_trace_events(const tg_trace *t) {
    return ea_etl_writer_records(t->writer);
}

void tg_trace_each_class(const tg_trace *t, void (*fn)(void *arg, const char *name, uint64_t count), void *arg) {
    for (size_t i = 0; i < t->class_count; i++)
        fn(arg, t->classes[i].class->name, t->classes[i].count);
}
