/* The truth beside a generated trace. See truth.h. */
#include "truth.h"
#include "platform.h"

#include <inttypes.h>

static void add_text(ea_text *t, const char *key, const char *value) {
    ea_text_printf(t, ",\"%s\":", key);
    ea_text_json_str(t, value);
}

static void add_time(ea_text *t, const char *key, int64_t raw, const ea_clock *clock) {
    if (raw == INT64_MIN || raw == INT64_MAX)
        ea_text_printf(t, ",\"%s_raw\":null,\"%s_utc_ns\":null", key, key);
    else
        ea_text_printf(t, ",\"%s_raw\":%" PRId64 ",\"%s_utc_ns\":%" PRId64, key, raw, key,
                       ea_clock_to_utc_ns(clock, raw));
}

static void add_life(ea_text *t, const tg_life *life, const ea_clock *clock) {
    add_time(t, "begin", life->begin_raw, clock);
    add_time(t, "end", life->end_raw, clock);
    ea_text_str(t, "}\n");
}

static void add_sid(ea_text *t, const uint8_t *sid) {
    ea_text_printf(t, ",\"sid\":\"S-%u-%u", sid[0], sid[7]);
    for (unsigned i = 0; i < sid[1]; i++)
        ea_text_printf(t, "-%" PRIu32, ea_load32(sid + 8 + 4 * (size_t)i));
    ea_text_char(t, '"');
}

static void add_process(ea_text *t, const tg_machine *m, const tg_process *p, const ea_clock *clock) {
    size_t n;
    ea_text_printf(t, "{\"type\":\"process\",\"pid\":%u,\"parent_pid\":%u,\"session_id\":%u,\"exit_status\":%d", p->pid,
                   p->parent_pid, p->program->session, p->exit_status);
    add_text(t, "image", p->program->name);
    add_text(t, "command_line", p->command_line);
    add_sid(t, tg_user_sid(m, p->program->user, &n));
    ea_text_printf(t, ",\"unique_key\":\"0x%" PRIx64 "\"", p->unique_key);
    add_life(t, &p->life, clock);
    for (size_t i = 0; i < p->threads.count; i++) {
        const tg_thread *thread = p->threads.items[i];
        ea_text_printf(t,
                       "{\"type\":\"thread\",\"tid\":%u,\"pid\":%u,\"stack_base\":\"0x%" PRIx64
                       "\",\"start\":\"0x%" PRIx64 "\"",
                       thread->tid, p->pid, thread->stack_base, thread->start_address);
        add_text(t, "name", thread->name ? thread->name : "");
        add_life(t, &thread->life, clock);
    }
    for (size_t i = 0; i < p->modules.count; i++) {
        const tg_module *module = p->modules.items[i];
        const tg_image *image = module->image;
        ea_text_printf(t,
                       "{\"type\":\"module\",\"pid\":%u,\"base\":\"0x%" PRIx64
                       "\",\"size\":%u,\"checksum\":%u,\"timestamp\":%u",
                       p->pid, image->base, image->size_bytes, image->checksum, image->timestamp);
        add_text(t, "path", image->path);
        ea_text_str(t, ",\"pdb_guid\":\"");
        ea_text_guid(t, &image->pdb_guid);
        ea_text_printf(t, "\",\"pdb_age\":%u", image->pdb_age);
        add_text(t, "pdb_name", image->pdb_name);
        add_life(t, &module->life, clock);
    }
}

static void add_class(void *arg, const char *name, uint64_t count) {
    ea_text *t = arg;
    ea_text_str(t, "{\"type\":\"class\"");
    add_text(t, "name", name);
    ea_text_printf(t, ",\"count\":%" PRIu64 "}\n", count);
}

int tg_truth_write(const char *path, const tg_machine *m, const tg_trace *trace, const tg_truth_head *head,
                   ea_err *err) {
    const ea_clock *clock = tg_trace_clock(trace);
    ea_text t;
    ea_text_init(&t);
    ea_text_str(&t, "{\"type\":\"machine\"");
    add_text(&t, "preset", head->preset);
    ea_text_printf(&t, ",\"seed\":%" PRIu64 ",\"frequency\":%" PRIu64, head->seed, clock->frequency);
    add_time(&t, "start", head->start_raw, clock);
    add_time(&t, "end", head->end_raw, clock);
    ea_text_str(&t, "}\n");
    const tg_list *processes = tg_machine_processes(m);
    for (size_t i = 0; i < processes->count; i++)
        add_process(&t, m, processes->items[i], clock);
    tg_trace_each_class(trace, add_class, &t);
    ea_text_printf(&t, "{\"type\":\"totals\",\"events\":%" PRIu64 ",\"events_lost\":0,\"buffers_lost\":0}\n",
                   tg_trace_events(trace));
    int rc =
        t.failed ? ea_fail(err, EA_ENOMEM, "write %s", path) : ea_path_write_all(path, t.data, t.len_bytes, 0, err);
    ea_text_deinit(&t);
    return rc;
}
