/* Writing a keyframe. See keyframe.h; the layouts are in proto/event/classes/keyframe.c. */
#include "proto/state/keyframe.h"

#include "proto/base/platform.h"

#include <string.h>

/* A payload has at most 65,535 bytes: the longest text of a record comes last and gets what the others leave. */
enum { TEXT_MAX = 8000, FILE_TEXT_MAX = 1000, LONG_TEXT_MAX = 30000, MODULE_VERSION = 2, PROCESS_VERSION = 1 };

typedef struct writer {
    ea_record record;
    ea_text payload;
    uint32_t counts[3];
    int (*emit)(void *arg, const ea_record *record);
    void *arg;
    int rc;
} writer;

static void keyframe_begin(writer *w, const ea_interval *life) {
    ea_text_clear(&w->payload);
    if (!life)
        return;
    ea_text_le64(&w->payload, (uint64_t)life->begin_utc_ns);
    ea_text_le64(&w->payload, (uint64_t)life->seen_utc_ns);
    ea_text_char(&w->payload, (char)life->begin_cause);
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
    ea_text_le32(&w->payload, p->pid);
    ea_text_le32(&w->payload, p->parent_pid);
    ea_text_le32(&w->payload, p->session_id);
    ea_text_le32(&w->payload, p->flags);
    ea_text_le64(&w->payload, p->unique_key);
    ea_text_le64(&w->payload, p->directory_table_base);
    ea_text_str_nul(&w->payload, p->sid, TEXT_MAX);
    ea_text_str_nul(&w->payload, p->image_name, TEXT_MAX);
    ea_text_str_nul(&w->payload, p->package, TEXT_MAX);
    ea_text_str_nul(&w->payload, p->application, TEXT_MAX);
    ea_text_str_nul(&w->payload, p->mandatory_label, FILE_TEXT_MAX);
    ea_text_le32(&w->payload, p->elevation_type);
    ea_text_le32(&w->payload, p->elevated);
    ea_text_le64(&w->payload, p->logon_id);
    ea_text_str_nul(&w->payload, p->command_line, LONG_TEXT_MAX);
    w->record.version = PROCESS_VERSION;
    keyframe_finish(w, EA_KEYFRAME_PROCESS);
    w->record.version = 0;
}

static void put_thread(void *arg, const ea_thread_row *t) {
    writer *w = arg;
    uint16_t cpu = w->record.cpu;
    keyframe_begin(w, &t->life);
    ea_text_le32(&w->payload, t->pid);
    ea_text_le32(&w->payload, t->tid);
    ea_text_le64(&w->payload, t->stack_base);
    ea_text_le64(&w->payload, t->start_address);
    ea_text_le64(&w->payload, t->win32_start_address);
    ea_text_le64(&w->payload, t->teb);
    ea_text_str_nul(&w->payload, t->name, LONG_TEXT_MAX);
    if (t->tid == 0)
        w->record.cpu = t->cpu; /* each CPU has a thread 0, and the header says which this is */
    keyframe_finish(w, EA_KEYFRAME_THREAD);
    w->record.cpu = cpu;
}

static void put_module(void *arg, const ea_module *mod) {
    static const ea_guid NONE;
    writer *w = arg;
    keyframe_begin(w, &mod->life);
    ea_text_le32(&w->payload, mod->pid);
    ea_text_le64(&w->payload, mod->base);
    ea_text_le64(&w->payload, mod->size_bytes);
    ea_text_le64(&w->payload, mod->default_base);
    ea_text_le32(&w->payload, mod->checksum);
    ea_text_le32(&w->payload, mod->timestamp);
    ea_text_add(&w->payload, mod->has_pdb ? &mod->pdb_guid : &NONE, sizeof NONE);
    ea_text_le32(&w->payload, mod->pdb_age);
    ea_text_str_nul(&w->payload, mod->path, LONG_TEXT_MAX);
    ea_text_str_nul(&w->payload, mod->pdb_path, TEXT_MAX);
    ea_text_str_nul(&w->payload, mod->original_name, TEXT_MAX);
    ea_text_le64(&w->payload, mod->file_bytes);
    ea_text_str_nul(&w->payload, mod->sha256, FILE_TEXT_MAX);
    ea_text_str_nul(&w->payload, mod->file_version, FILE_TEXT_MAX);
    ea_text_str_nul(&w->payload, mod->company, FILE_TEXT_MAX);
    ea_text_str_nul(&w->payload, mod->product, FILE_TEXT_MAX);
    ea_text_str_nul(&w->payload, mod->md5, FILE_TEXT_MAX);
    ea_text_str_nul(&w->payload, mod->sha1, FILE_TEXT_MAX);
    ea_text_str_nul(&w->payload, mod->imphash, FILE_TEXT_MAX);
    ea_text_str_nul(&w->payload, mod->description, FILE_TEXT_MAX);
    ea_text_le32(&w->payload, mod->kind);
    w->record.version = MODULE_VERSION;
    keyframe_finish(w, EA_KEYFRAME_MODULE);
    w->record.version = 0;
}

static void keyframe_put_name(void *arg, const ea_name_row *name) {
    writer *w = arg;
    keyframe_begin(w, NULL);
    ea_text_le64(&w->payload, (uint64_t)name->begin_utc_ns);
    ea_text_char(&w->payload, (char)name->kind);
    ea_text_le64(&w->payload, name->address);
    ea_text_str_nul(&w->payload, name->name, LONG_TEXT_MAX);
    keyframe_finish(w, EA_KEYFRAME_NAME);
}

static void keyframe_put_volume(void *arg, const ea_volume *volume) {
    writer *w = arg;
    keyframe_begin(w, NULL);
    ea_text_str_nul(&w->payload, volume->nt, LONG_TEXT_MAX);
    ea_text_str_nul(&w->payload, volume->dos, LONG_TEXT_MAX);
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
    ea_text_le64(&w->payload, number);
    for (int i = 0; i < 3; i++)
        ea_text_le32(&w->payload, w->counts[i]);
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
