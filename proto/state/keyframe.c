/* Writing a keyframe. See keyframe.h; the layouts are in proto/event/classes/keyframe.c. */
#include "proto/state/keyframe.h"

#include "proto/base/platform.h"

#include <string.h>

/* A payload has at most 65,535 bytes: the longest text of a record comes last and gets what the others leave. */
enum { TEXT_MAX = 8000, FILE_TEXT_MAX = 1000, LONG_TEXT_MAX = 30000 };

typedef struct writer {
    ea_record record;
    ea_text payload;
    uint32_t counts[3];
    int (*emit)(void *arg, const ea_record *record);
    void *arg;
    int rc;
} writer;

static void put8(writer *w, uint8_t v) {
    ea_text_add(&w->payload, &v, 1);
}

static void keyframe_put32(writer *w, uint32_t v) {
    uint8_t bytes[4];
    ea_store32(bytes, v);
    ea_text_add(&w->payload, bytes, sizeof bytes);
}

static void keyframe_put64(writer *w, uint64_t v) {
    uint8_t bytes[8];
    ea_store64(bytes, v);
    ea_text_add(&w->payload, bytes, sizeof bytes);
}

static void keyframe_put_text(writer *w, const char *s, size_t max_bytes) {
    size_t n = strlen(s);
    if (n > max_bytes)
        for (n = max_bytes; n && ((unsigned char)s[n] & 0xC0) == 0x80;)
            n--;
    ea_text_add(&w->payload, s, n);
    put8(w, 0);
}

static void keyframe_begin(writer *w, const ea_interval *life) {
    ea_text_clear(&w->payload);
    if (!life)
        return;
    keyframe_put64(w, (uint64_t)life->begin_utc_ns);
    keyframe_put64(w, (uint64_t)life->seen_utc_ns);
    put8(w, life->begin_cause);
}

static void keyframe_finish(writer *w, enum ea_keyframe_code code) {
    if (w->rc)
        return;
    if (w->payload.failed) {
        w->rc = EA_ENOMEM;
        return;
    }
    w->record.opcode = (uint8_t)code;
    w->record.payload = (const uint8_t *)w->payload.data;
    w->record.payload_bytes = (uint16_t)w->payload.len_bytes;
    w->rc = w->emit(w->arg, &w->record);
}

static void keyframe_put_process(void *arg, const ea_process *p) {
    writer *w = arg;
    keyframe_begin(w, &p->life);
    keyframe_put32(w, p->pid);
    keyframe_put32(w, p->parent_pid);
    keyframe_put32(w, p->session_id);
    keyframe_put32(w, p->flags);
    keyframe_put64(w, p->unique_key);
    keyframe_put64(w, p->directory_table_base);
    keyframe_put_text(w, p->sid, TEXT_MAX);
    keyframe_put_text(w, p->image_name, TEXT_MAX);
    keyframe_put_text(w, p->package, TEXT_MAX);
    keyframe_put_text(w, p->application, TEXT_MAX);
    keyframe_put_text(w, p->command_line, LONG_TEXT_MAX);
    keyframe_finish(w, EA_KEYFRAME_PROCESS);
}

static void put_thread(void *arg, const ea_thread_row *t) {
    writer *w = arg;
    uint16_t cpu = w->record.cpu;
    keyframe_begin(w, &t->life);
    keyframe_put32(w, t->pid);
    keyframe_put32(w, t->tid);
    keyframe_put64(w, t->stack_base);
    keyframe_put64(w, t->start_address);
    keyframe_put64(w, t->win32_start_address);
    keyframe_put64(w, t->teb);
    keyframe_put_text(w, t->name, LONG_TEXT_MAX);
    if (t->tid == 0)
        w->record.cpu = t->cpu; /* each CPU has a thread 0, and the header says which this is */
    keyframe_finish(w, EA_KEYFRAME_THREAD);
    w->record.cpu = cpu;
}

static void put_module(void *arg, const ea_module *mod) {
    static const ea_guid NONE;
    writer *w = arg;
    keyframe_begin(w, &mod->life);
    keyframe_put32(w, mod->pid);
    keyframe_put64(w, mod->base);
    keyframe_put64(w, mod->size_bytes);
    keyframe_put64(w, mod->default_base);
    keyframe_put32(w, mod->checksum);
    keyframe_put32(w, mod->timestamp);
    ea_text_add(&w->payload, mod->has_pdb ? &mod->pdb_guid : &NONE, sizeof NONE);
    keyframe_put32(w, mod->pdb_age);
    keyframe_put_text(w, mod->path, LONG_TEXT_MAX);
    keyframe_put_text(w, mod->pdb_path, TEXT_MAX);
    keyframe_put_text(w, mod->original_name, TEXT_MAX);
    keyframe_put64(w, mod->file_bytes);
    keyframe_put_text(w, mod->sha256, FILE_TEXT_MAX);
    keyframe_put_text(w, mod->file_version, FILE_TEXT_MAX);
    keyframe_put_text(w, mod->company, FILE_TEXT_MAX);
    keyframe_put_text(w, mod->product, FILE_TEXT_MAX);
    keyframe_finish(w, EA_KEYFRAME_MODULE);
}

static void keyframe_put_name(void *arg, const ea_name_row *name) {
    writer *w = arg;
    keyframe_begin(w, NULL);
    keyframe_put64(w, (uint64_t)name->begin_utc_ns);
    put8(w, name->kind);
    keyframe_put64(w, name->address);
    keyframe_put_text(w, name->name, LONG_TEXT_MAX);
    keyframe_finish(w, EA_KEYFRAME_NAME);
}

static void keyframe_put_volume(void *arg, const ea_volume *volume) {
    writer *w = arg;
    keyframe_begin(w, NULL);
    keyframe_put_text(w, volume->nt, LONG_TEXT_MAX);
    keyframe_put_text(w, volume->dos, LONG_TEXT_MAX);
    keyframe_finish(w, EA_KEYFRAME_VOLUME);
}

static void count_process(void *arg, const ea_process *p) {
    (void)p;
    ((writer *)arg)->counts[0]++;
}

static void count_thread(void *arg, const ea_thread_row *t) {
    (void)t;
    ((writer *)arg)->counts[1]++;
}

static void count_module(void *arg, const ea_module *mod) {
    (void)mod;
    ((writer *)arg)->counts[2]++;
}

static void put_bound(writer *w, enum ea_keyframe_code code, uint64_t number) {
    keyframe_begin(w, NULL);
    keyframe_put64(w, number);
    for (int i = 0; i < 3; i++)
        keyframe_put32(w, w->counts[i]);
    keyframe_finish(w, code);
}

int ea_keyframe_write(const ea_machine *m, const ea_open_object_names *names, uint64_t number, const ea_record *at,
                      int (*emit)(void *arg, const ea_record *record), void *arg, ea_err *err) {
    writer w = {.emit = emit,
                .arg = arg,
                .record = {.provider = ea_keyframe_provider,
                           .time_raw = at->time_raw,
                           .pid = UINT32_MAX,
                           .tid = UINT32_MAX,
                           .cpu = at->cpu,
                           .logger = at->logger,
                           .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                           .pointer_size = 8,
                           .source = at->source}};
    ea_text_init(&w.payload);
    ea_machine_each_process(m, count_process, &w);
    ea_machine_each_thread(m, count_thread, &w);
    ea_machine_each_module(m, count_module, &w);
    put_bound(&w, EA_KEYFRAME_BEGIN, number);
    ea_machine_each_process(m, keyframe_put_process, &w);
    ea_machine_each_thread(m, put_thread, &w);
    ea_machine_each_module(m, put_module, &w);
    if (names)
        ea_open_object_names_each(names, keyframe_put_name, keyframe_put_volume, &w);
    /* A full table may have evicted rows that are still open. Their number is added to a count, so that the counts
     * differ from the named rows, and the reader closes no unnamed row. */
    uint64_t evicted = ea_machine_evicted(m);
    w.counts[0] += evicted > INT32_MAX ? INT32_MAX : (uint32_t)evicted;
    put_bound(&w, EA_KEYFRAME_END, number);
    ea_text_deinit(&w.payload);
    return w.rc == EA_ENOMEM ? ea_fail(err, w.rc, "write a keyframe") : w.rc;
}
