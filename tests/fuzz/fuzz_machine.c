/* The state machine with hostile records: process, thread, image, image id and announcement records of any version and
 * payload, small bounds, restarts in between. Whatever comes, intervals do not end before they begin, tables stay
 * within their bounds, and a restarted machine knows as many open instances as the one before it. The records that
 * relog and pull make of an announcement have its process, time and base, and are whole; or there are none. */
#include "proto/base/provider_guids.h"
#include "proto/relog/announced_records.h"
#include "proto/state/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LIMIT = 6 };

typedef struct counts {
    size_t processes, threads, modules, ids, facts;
    ea_machine *to; /* where to put them; NULL: only count */
} counts;

static void must_at(int condition, int line) {
    if (condition)
        return;
    fprintf(stderr, "fuzz_machine.c:%d does not hold\n", line);
    abort();
}

#define must(condition) must_at(condition, __LINE__)

static void check_life(const ea_interval *life) {
    must(life->instance > 0 && life->begin_utc_ns <= life->end_utc_ns && life->begin_utc_ns <= life->seen_utc_ns);
    must((life->end_cause == EA_FINISH_OPEN) == (life->end_utc_ns == INT64_MAX));
}

static int on_process(void *arg, const ea_process *p) {
    (void)arg;
    check_life(&p->life);
    must(p->image_name && p->command_line && p->sid && p->package && p->application && p->mandatory_label);
    return 0;
}

static int on_thread(void *arg, const ea_thread_row *t) {
    (void)arg;
    check_life(&t->life);
    must(t->name != NULL);
    return 0;
}

static int on_module(void *arg, const ea_module *m) {
    (void)arg;
    check_life(&m->life);
    must(m->path && m->pdb_path && m->original_name && m->sha256 && m->file_version && m->company && m->product &&
         m->md5 && m->sha1 && m->imphash && m->description);
    return 0;
}

static void each_process(void *arg, const ea_process *p) {
    counts *c = arg;
    c->processes++;
    must(p->life.end_utc_ns == INT64_MAX);
    must(!c->to || ea_machine_restore_process(c->to, p) == 0);
}

static void each_thread(void *arg, const ea_thread_row *t) {
    counts *c = arg;
    c->threads++;
    must(t->life.end_utc_ns == INT64_MAX);
    must(!c->to || ea_machine_restore_thread(c->to, t) == 0);
}

static void each_module(void *arg, const ea_module *m) {
    counts *c = arg;
    c->modules++;
    must(m->life.end_utc_ns == INT64_MAX);
    must(!c->to || ea_machine_restore_module(c->to, m) == 0);
}

static void each_id(void *arg, const ea_module *id, int64_t utc_ns) {
    counts *c = arg;
    c->ids++;
    must(!c->to || ea_machine_restore_pending_id(c->to, id, utc_ns) == 0);
}

static void each_facts(void *arg, const ea_process_facts *facts) {
    counts *c = arg;
    c->facts++;
    must(facts->mandatory_label && facts->elevation_type <= 3 && facts->elevated <= 2);
    must(!c->to || ea_machine_restore_pending_facts(c->to, facts) == 0);
}

static counts visit(const ea_machine *m, ea_machine *to) {
    counts c = {.to = to};
    ea_machine_each_process(m, each_process, &c);
    ea_machine_each_thread(m, each_thread, &c);
    ea_machine_each_module(m, each_module, &c);
    ea_machine_each_pending_id(m, each_id, &c);
    ea_machine_each_pending_facts(m, each_facts, &c);
    must(c.processes <= LIMIT && c.threads <= LIMIT && c.modules <= LIMIT && c.ids <= 64 && c.facts <= 64);
    return c;
}

static ea_machine *create(void) {
    static const ea_machine_observer OBSERVER = {
        .on_process = on_process, .on_thread = on_thread, .on_module = on_module};
    ea_machine_options o = {.limit_processes = LIMIT,
                            .limit_threads = LIMIT,
                            .limit_modules = LIMIT,
                            .limit_ended = 3,
                            .limit_text_bytes = 1000,
                            .observer = &OBSERVER};
    ea_machine *m = NULL;
    must(ea_machine_create(&m, &o, NULL) == 0);
    return m;
}

static ea_machine *restart(ea_machine *m) {
    ea_machine *next = create();
    counts before = visit(m, next);
    ea_machine_restore_position(next, ea_machine_last_instance(m), ea_machine_begin_utc_ns(m));
    counts after = visit(next, NULL);
    must(before.processes == after.processes && before.threads == after.threads && before.modules == after.modules &&
         before.ids == after.ids && before.facts == after.facts);
    ea_machine_destroy(m);
    return next;
}

/* Records made of an announcement. */
typedef struct described {
    const ea_record *from;
    ea_registry *registry;
    unsigned count;
} described;

static int on_described(void *arg, const ea_record *r) {
    described *d = arg;
    const ea_class *c = ea_registry_find(d->registry, r);
    uint64_t base, pid;
    must(c->status == EA_CLASS_KNOWN && r->pid == d->from->pid && r->time_raw == d->from->time_raw);
    must(ea_event_u64(c, r, "ImageBase", &base) && base == ea_load64(d->from->payload));
    must(ea_event_u64(c, r, "ProcessId", &pid) && pid == d->from->pid);
    d->count++;
    return 0;
}

static void describe(ea_registry *registry, const ea_record *r, uint8_t version, uint8_t pointer_size) {
    described d = {.from = r, .registry = registry};
    ea_err err;
    if (!ea_is_announced_module(r))
        return;
    int rc = ea_announced_records(r, version, pointer_size, on_described, &d, &err);
    must(rc == 0 ? d.count == 3 : rc == EA_ENOTFOUND && d.count == 0);
}

/* Each record: class and flags, opcode, version, time step, payload length, payload. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const ea_guid PROVIDERS[] = {
        EA_GUID(0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
        EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
        EA_GUID(0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0x00, 0xa0, 0xc9, 0x11, 0xf5, 0x18),
        EA_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde)};
    /* of Kernel-Process, as TraceLogging: u32 ProcessID, FILETIME CreateTime, u32 ProcessTokenElevationType, SID
     * MandatoryLabel */
    static const uint8_t FACTS[] = "\x47\0\0P\0ProcessID\0\x08"
                                   "CreateTime\0\x11ProcessTokenElevationType\0\x08MandatoryLabel\0\x13";
    ea_registry *registry = NULL;
    must(ea_registry_create(&registry, 0, NULL) == 0);
    ea_machine *m = create();
    int64_t utc_ns = 0;
    while (size >= 5) {
        size_t payload = data[4] < size - 5 ? data[4] : size - 5;
        ea_record record = {.provider = PROVIDERS[data[0] & 3],
                            .opcode = data[1],
                            .version = data[2],
                            .flags = EA_FLAG_CLASSIC_HEADER,
                            .pointer_size = data[0] & 4 ? 4 : 8,
                            .header_type = EA_HEADER_SYSTEM64,
                            .cpu = data[2],
                            .payload = data + 5,
                            .payload_bytes = (uint16_t)payload};
        static const ea_ext SCHEMA = {EA_EXT_SCHEMA_TL, 1, sizeof FACTS - 1, FACTS};
        if (data[0] & 8)
            record = (ea_record){
                .provider = EA_GUID(0x22fb2cd6, 0x0e7b, 0x422b, 0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7, 0x16),
                .id = data[1] & 1 ? 1 : 15,
                .flags = EA_FLAG_64_BIT_HEADER,
                .pointer_size = 8,
                .header_type = EA_HEADER_EVENT64,
                .ext = &SCHEMA,
                .ext_count = 1,
                .payload = data + 5,
                .payload_bytes = (uint16_t)payload};
        if (data[0] & 0x10)
            record = (ea_record){.provider = EA_PROVIDER_ANNOUNCE,
                                 .id = data[1] % 5,
                                 .flags = EA_FLAG_64_BIT_HEADER,
                                 .pointer_size = 8,
                                 .header_type = EA_HEADER_EVENT64,
                                 .pid = data[2] & 3,
                                 .payload = data + 5,
                                 .payload_bytes = (uint16_t)payload};
        if (data[0] & 0x10)
            describe(registry, &record, data[2] & 4 ? 3 : 2, data[2] & 8 ? 4 : 8);
        if (data[0] & 0x80)
            m = restart(m);
        utc_ns += (int8_t)data[3]; /* backwards, too */
        must(ea_machine_apply(m, &record, ea_registry_find(registry, &record), utc_ns, NULL) == 0);
        data += 5 + payload;
        size -= 5 + payload;
    }
    (void)visit(m, NULL);
    ea_machine_destroy(m);
    ea_registry_destroy(registry);
    return 0;
}
