/* The truth beside a generated trace. See truth.h. */
#include "proto/base/platform.h"
#include "tests/tracegen/subsystems.h"

#include <inttypes.h>
#include <stdlib.h>

enum { FLUSH_BYTES = 1 << 20 };

struct tg_truth {
    ea_file *file;
    uint64_t file_bytes;
    ea_text text;
    int rc;
    ea_err err;
    tg_truth_head head;
};

int tg_truth_create(tg_truth **ret, const char *path, const tg_truth_head *head, ea_err *err) {
    tg_truth *t = calloc(1, sizeof *t);
    if (!t)
        return ea_fail(err, EA_ENOMEM, "write %s", path);
    t->head = *head;
    ea_text_init(&t->text);
    int rc = ea_file_open(&t->file, path, EA_OPEN_CREATE, err);
    if (rc) {
        free(t);
        return rc;
    }
    *ret = t;
    return 0;
}

static void flush(tg_truth *t) {
    if (!t->rc && t->text.failed)
        t->rc = ea_fail(&t->err, EA_ENOMEM, "write the truth");
    if (!t->rc && t->text.len_bytes)
        t->rc = ea_file_write_at(t->file, t->file_bytes, t->text.data, t->text.len_bytes, &t->err);
    t->file_bytes += t->text.len_bytes;
    ea_text_clear(&t->text);
}

int tg_truth_close(tg_truth *t, ea_err *err) {
    if (!t)
        return 0;
    flush(t);
    int rc = t->rc;
    if (rc && err)
        *err = t->err;
    ea_file_close(t->file);
    ea_text_deinit(&t->text);
    free(t);
    return rc;
}

/* ---- parts of lines ---- */

static void end_line(tg_truth *t) {
    ea_text_str(&t->text, "}\n");
    if (t->text.len_bytes > FLUSH_BYTES)
        flush(t);
}

static void begin_line(tg_truth *t, const char *type) {
    ea_text_str(&t->text, "{\"type\":\"");
    ea_text_str(&t->text, type);
    ea_text_char(&t->text, '"');
}

static void add_text(tg_truth *t, const char *key, const char *value) {
    ea_text_printf(&t->text, ",\"%s\":", key);
    ea_text_json_str(&t->text, value);
}

static void add_number(tg_truth *t, const char *key, uint64_t v) {
    ea_text_str(&t->text, ",\"");
    ea_text_str(&t->text, key);
    ea_text_str(&t->text, "\":");
    ea_text_u64(&t->text, v);
}

static void add_hex(tg_truth *t, const char *key, uint64_t v) {
    ea_text_str(&t->text, ",\"");
    ea_text_str(&t->text, key);
    ea_text_str(&t->text, "\":\"");
    ea_text_hex64(&t->text, v);
    ea_text_char(&t->text, '"');
}

static void add_raw(tg_truth *t, const tg_machine *m, const char *key, int64_t raw) {
    ea_text_printf(&t->text, ",\"%s_raw\":%" PRId64 ",\"%s_utc_ns\":%" PRId64, key, raw, key,
                   ea_clock_to_utc_ns(tg_trace_clock(m->trace), raw));
}

static void add_time(tg_truth *t, const tg_machine *m, const char *key, int64_t ticks) {
    if (ticks == INT64_MIN || ticks == INT64_MAX)
        ea_text_printf(&t->text, ",\"%s_raw\":null,\"%s_utc_ns\":null", key, key);
    else
        add_raw(t, m, key, tg_raw(m, ticks));
}

static void add_life(tg_truth *t, const tg_machine *m, const tg_life *life) {
    add_time(t, m, "begin", life->begin);
    add_time(t, m, "end", life->end);
    if (life->begin_lost)
        ea_text_str(&t->text, ",\"begin_lost\":true");
    if (life->end_lost)
        ea_text_str(&t->text, ",\"end_lost\":true");
}

static void add_sid(tg_truth *t, const uint8_t *sid) {
    ea_text_printf(&t->text, ",\"sid\":\"S-%u-%u", sid[0], sid[7]);
    for (unsigned i = 0; i < sid[1]; i++)
        ea_text_printf(&t->text, "-%" PRIu32, ea_load32(sid + 8 + 4 * (size_t)i));
    ea_text_char(&t->text, '"');
}

/* ---- while the machine runs ---- */

void tg_truth_name(tg_truth *t, const tg_machine *m, enum tg_name_kind kind, uint64_t address, const char *name,
                   const tg_life *life) {
    static const char *const kinds[] = {"file_object", "file_key", "registry_key"};
    if (!t)
        return;
    begin_line(t, "name");
    add_text(t, "kind", kinds[kind]);
    add_hex(t, "address", address);
    add_text(t, "name", name);
    add_life(t, m, life);
    end_line(t);
}

void tg_truth_handle(tg_truth *t, const tg_machine *m, const tg_thread *thread, uint64_t handle, uint64_t object,
                     unsigned type, const tg_life *life) {
    if (!t)
        return;
    begin_line(t, "handle");
    add_number(t, "pid", thread->process->pid);
    add_number(t, "tid", thread->tid);
    add_number(t, "handle", handle);
    add_hex(t, "object", object);
    add_number(t, "object_type", type);
    add_life(t, m, life);
    end_line(t);
}

void tg_truth_stack(tg_truth *t, const tg_machine *m, tg_stack *s, const tg_half_facts *h) {
    if (!t)
        return;
    if (!s->is_in_truth) {
        s->is_in_truth = 1;
        begin_line(t, "frames");
        add_number(t, "id", s->id);
        ea_text_str(&t->text, ",\"addresses\":[");
        for (unsigned i = 0; i < s->count; i++)
            ea_text_printf(&t->text, "%s\"0x%" PRIx64 "\"", i ? "," : "", s->frames[i]);
        ea_text_char(&t->text, ']');
        end_line(t);
    }
    begin_line(t, "stack");
    add_text(t, "of", h->what);
    add_text(t, "half", s->is_kernel ? "kernel" : "user");
    add_number(t, "event_raw", (uint64_t)tg_raw(m, h->of));
    add_number(t, "at_raw", (uint64_t)tg_raw(m, h->at));
    add_number(t, "cpu", h->cpu);
    add_number(t, "pid", h->thread->process->pid);
    add_number(t, "tid", h->thread->tid);
    add_number(t, "frames", s->id);
    if (h->key)
        add_hex(t, "key", h->key);
    if (h->match_id)
        add_number(t, "match_id", h->match_id);
    if (h->is_in_header)
        ea_text_str(&t->text, ",\"in_header\":true");
    if (h->is_again)
        ea_text_str(&t->text, ",\"again\":true");
    if (h->is_lost)
        ea_text_str(&t->text, ",\"lost\":true");
    end_line(t);
}

void tg_truth_flow(tg_truth *t, const tg_machine *m, const tg_flow_facts *f, const tg_life *life) {
    if (!t)
        return;
    begin_line(t, "flow");
    add_text(t, "protocol", f->is_tcp ? "tcp" : "udp");
    add_number(t, "ip", f->is_ipv6 ? 6 : 4);
    ea_text_printf(&t->text, ",\"accepted\":%s", f->is_accepted ? "true" : "false");
    add_number(t, "id", f->id);
    add_number(t, "pid", f->pid);
    add_text(t, "local", f->local);
    add_number(t, "local_port", f->local_port);
    add_text(t, "remote", f->remote);
    add_number(t, "remote_port", f->remote_port);
    add_number(t, "sends", f->sends);
    add_number(t, "sent_bytes", f->sent_bytes);
    add_number(t, "receives", f->receives);
    add_number(t, "received_bytes", f->received_bytes);
    add_number(t, "retransmits", f->retransmits);
    add_life(t, m, life);
    end_line(t);
}

void tg_truth_loss(tg_truth *t, const tg_machine *m, uint16_t cpu, int64_t from, int64_t to, uint64_t events,
                   uint32_t buffers) {
    if (!t)
        return;
    begin_line(t, "loss");
    add_number(t, "cpu", cpu);
    add_time(t, m, "begin", from);
    add_time(t, m, "end", to);
    add_number(t, "events", events);
    add_number(t, "buffers", buffers);
    end_line(t);
}

void tg_truth_step(tg_truth *t, const tg_machine *m, const char *technique, const char *what, uint32_t pid,
                   uint32_t tid, int64_t at) {
    if (!t)
        return;
    begin_line(t, "step");
    add_text(t, "technique", technique);
    add_text(t, "does", what);
    add_number(t, "pid", pid);
    add_number(t, "tid", tid);
    add_time(t, m, "at", at);
    end_line(t);
}

void tg_truth_provider_event(tg_truth *t, const tg_event *e) {
    if (!t || !e->count)
        return;
    begin_line(t, "provider_event");
    ea_text_str(&t->text, ",\"provider\":\"");
    ea_text_guid(&t->text, &e->provider);
    ea_text_char(&t->text, '"');
    add_number(t, "id", e->id);
    add_number(t, "version", e->version);
    add_text(t, "name", e->name);
    add_number(t, "count", e->count);
    end_line(t);
}

/* ---- at the end ---- */

static void add_thread(tg_truth *t, const tg_machine *m, const tg_thread *thread) {
    begin_line(t, "thread");
    add_number(t, "tid", thread->tid);
    add_number(t, "pid", thread->process->pid);
    add_hex(t, "stack_base", thread->stack_base);
    add_hex(t, "start", thread->start_address);
    add_text(t, "name", thread->name ? thread->name : "");
    add_life(t, m, &thread->life);
    add_number(t, "cpu_ticks", thread->run_ticks);
    add_number(t, "wait_ticks", thread->wait_ticks);
    add_number(t, "ready_ticks", thread->ready_ticks);
    add_number(t, "switches", thread->switches);
    add_number(t, "waits", thread->waits);
    add_number(t, "samples", thread->samples);
    add_number(t, "cycles", thread->pmc[0]);
    add_number(t, "instructions", thread->pmc[1]);
    add_number(t, "cache_misses", thread->pmc[2]);
    end_line(t);
}

static void add_process(tg_truth *t, const tg_machine *m, const tg_process *p) {
    begin_line(t, "process");
    add_number(t, "pid", p->pid);
    add_number(t, "parent_pid", p->parent_pid);
    add_number(t, "session_id", p->session);
    ea_text_printf(&t->text, ",\"exit_status\":%d", p->exit_status);
    add_text(t, "image", p->program->name);
    add_text(t, "command_line", p->command_line);
    if (p->program->service)
        add_text(t, "service", p->program->service);
    add_sid(t, m->sids[p->user].bytes);
    add_hex(t, "unique_key", p->unique_key);
    add_life(t, m, &p->life);
    end_line(t);
    for (size_t i = 0; i < p->threads.count; i++)
        add_thread(t, m, p->threads.items[i]);
    for (size_t i = 0; i < p->modules.count; i++) {
        const tg_module *module = p->modules.items[i];
        const tg_image *image = module->image;
        begin_line(t, "module");
        add_number(t, "pid", p->pid);
        add_hex(t, "base", image->base);
        add_number(t, "size", image->size_bytes);
        add_number(t, "checksum", image->checksum);
        add_number(t, "timestamp", image->timestamp);
        add_text(t, "path", image->path);
        ea_text_str(&t->text, ",\"pdb_guid\":\"");
        ea_text_guid(&t->text, &image->pdb_guid);
        ea_text_char(&t->text, '"');
        add_number(t, "pdb_age", image->pdb_age);
        add_text(t, "pdb_name", image->pdb_name);
        add_life(t, m, &module->life);
        end_line(t);
    }
}

static void add_class(void *arg, const ea_class *c, uint16_t hook_id, uint64_t count) {
    tg_truth *t = arg;
    begin_line(t, "class");
    add_text(t, "name", c->name);
    ea_text_str(&t->text, ",\"provider\":\"");
    ea_text_guid(&t->text, &c->provider);
    ea_text_char(&t->text, '"');
    add_number(t, "opcode", c->code);
    add_number(t, "version", c->version);
    if (hook_id)
        add_number(t, "hook_id", hook_id);
    add_number(t, "count", count);
    end_line(t);
}

void tg_truth_finish(tg_truth *t, const tg_machine *m, int64_t end_raw) {
    if (!t)
        return;
    begin_line(t, "machine");
    add_text(t, "preset", t->head.preset);
    add_number(t, "seed", t->head.seed);
    add_number(t, "frequency", tg_trace_clock(m->trace)->frequency);
    add_number(t, "ticks_per_second", TG_TICKS_PER_SECOND);
    add_number(t, "cpus", m->scenario->cpus);
    add_number(t, "pointer_bytes", m->scenario->pointer_bytes);
    add_time(t, m, "start", m->start);
    add_raw(t, m, "end", end_raw);
    end_line(t);
    for (size_t i = 0; i < m->processes.count; i++)
        add_process(t, m, m->processes.items[i]);
    tg_trace_each_class(m->trace, add_class, t);
    begin_line(t, "totals");
    add_number(t, "events", tg_trace_events(m->trace));
    add_number(t, "events_lost", tg_trace_events_lost(m->trace));
    add_number(t, "buffers_lost", tg_trace_buffers_lost(m->trace));
    add_number(t, "payload_bytes", tg_trace_payload(m->trace));
    end_line(t);
}
