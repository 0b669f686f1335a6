/* See rundown_records.h. Source of classes and fields: proto/event/classes; of header forms: a kernel session writes
 * its own events with SYSTEM headers. */
#include "collector/pull/rundown_records.h"

#include "proto/base/provider_guids.h"
#include "proto/event/encode.h"
#include "proto/relog/module_records.h"

#include <stdlib.h>
#include <string.h>

enum {
    OP_DC_START = 3,
    OP_SET_NAME = 72,
    OP_FILE_RUNDOWN = 36,
    OP_KCB_RUNDOWN = 24,
    OP_VOLUME = 35,
    VALUES_MAX = 32,
    PAYLOAD_MAX = 65000,           /* with any header it is a record */
    MODULE_TEXT_MAX_BYTES = 32000, /* in UTF-16, too, it is a record's payload */
    IMAGE_VERSION = 2,             /* version 3 has the signature's level, which the history does not keep */
    SID_POINTER = 8,               /* of TOKEN_USER: not 0, which would say that there is no SID */
};

typedef struct record_kind {
    ea_guid provider;
    uint8_t opcode, version;
    uint8_t group; /* of the kernel's hook id; 0: a FULL header */
} record_kind;

static const record_kind PROCESS = {EA_PROVIDER_PROCESS, OP_DC_START, 4, 3};
static const record_kind THREAD = {EA_PROVIDER_THREAD, OP_DC_START, 3, 5};
static const record_kind OLD_THREAD = {EA_PROVIDER_THREAD, OP_DC_START, 2, 5}; /* it has the address of its start */
static const record_kind THREAD_NAME = {EA_PROVIDER_THREAD, OP_SET_NAME, 2, 5};
static const record_kind FILE_NAME = {EA_PROVIDER_FILE_IO, OP_FILE_RUNDOWN, 2, 4};
static const record_kind KEY_NAME = {EA_PROVIDER_REGISTRY, OP_KCB_RUNDOWN, 2, 9};
static const record_kind VOLUME = {EA_PROVIDER_CONFIG_EX, OP_VOLUME, 0, 0};

struct ec_rundown_records {
    ec_rundown_options options;
    ea_registry *registry;
    uint64_t altered;
    /* the record being made */
    ea_record record;
    const ea_class *c;
    ea_event_value values[VALUES_MAX];
    size_t count;
    uint8_t payload[PAYLOAD_MAX];
};

int ec_rundown_records_create(ec_rundown_records **ret, const ec_rundown_options *options, ea_err *err) {
    ec_rundown_records *w = calloc(1, sizeof *w);
    if (!w)
        return ea_fail(err, EA_ENOMEM, "describe the machine");
    w->options = *options;
    int rc = ea_registry_create(&w->registry, 0, err);
    if (rc) {
        free(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ec_rundown_records_destroy(ec_rundown_records *w) {
    if (!w)
        return;
    ea_registry_destroy(w->registry);
    free(w);
}

uint64_t ec_rundown_altered(const ec_rundown_records *w) {
    return w->altered;
}

/* ---- one record ---- */

static ea_event_value nothing(const ea_field *f) {
    static const uint8_t ZEROS[16];
    switch (f->type) {
    case EA_UTF16Z:
    case EA_ANSIZ:
    case EA_UTF8Z:
        return (ea_event_value){.kind = EA_VALUE_TEXT, .data = "", .count = 0};
    case EA_GUID:
        return (ea_event_value){.kind = EA_VALUE_BYTES, .data = ZEROS, .count = sizeof ZEROS};
    case EA_WBEM_SID:
        return (ea_event_value){.kind = EA_VALUE_LIST};
    default:
        return (ea_event_value){.kind = EA_VALUE_NUMBER};
    }
}

static int begin_record(ec_rundown_records *w, const record_kind *kind, uint32_t pid, uint32_t tid, ea_err *err) {
    int is_32_bit = w->options.pointer_size == 4;
    w->record = (ea_record){
        .provider = kind->provider,
        .opcode = kind->opcode,
        .version = kind->version,
        .flags = (uint16_t)(EA_FLAG_CLASSIC_HEADER | (is_32_bit ? EA_FLAG_32_BIT_HEADER : EA_FLAG_64_BIT_HEADER)),
        .pointer_size = (uint8_t)w->options.pointer_size,
        .header_type = EA_HEADER_NONE,
        .time_raw = w->options.time_raw,
        .pid = pid,
        .tid = tid};
    if (kind->group) {
        w->record.header_type = is_32_bit ? EA_HEADER_SYSTEM32 : EA_HEADER_SYSTEM64;
        w->record.hook_id = (uint16_t)(kind->group << 8 | kind->opcode);
        w->record.header_word = kind->version;
    }
    w->c = ea_registry_find(w->registry, &w->record);
    w->count = 0;
    if (w->c->status != EA_CLASS_KNOWN || w->c->top_count > VALUES_MAX)
        return ea_fail(err, EA_EUNSUPPORTED, "describe the machine: no layout of opcode %u", kind->opcode);
    for (size_t field = 0; field < w->c->field_count; field += w->c->fields[field].span)
        w->values[w->count++] = nothing(&w->c->fields[field]);
    return 0;
}

static ea_event_value *rundown_records_value_of(ec_rundown_records *w, const char *name) {
    for (size_t i = 0; i < w->count; i++)
        if (strcmp(w->c->fields[ea_class_top_field(w->c, i)].name, name) == 0)
            return &w->values[i];
    return NULL;
}

/* What a field of the machine's pointer size cannot hold, an agent made up: its low bits are written. */
static void rundown_records_set_number(ec_rundown_records *w, const char *name, uint64_t number) {
    ea_event_value *v = rundown_records_value_of(w, name);
    if (!v)
        return;
    unsigned width = w->c->fields[ea_class_top_field(w->c, (size_t)(v - w->values))].width;
    v->number = width < 8 ? number & ((UINT64_C(1) << 8 * width) - 1) : number;
}

static void rundown_records_set_text(ec_rundown_records *w, const char *name, const char *text) {
    ea_event_value *v = rundown_records_value_of(w, name);
    if (v)
        *v = (ea_event_value){.kind = EA_VALUE_TEXT, .data = text, .count = strlen(text)};
}

static int write_payload(ec_rundown_records *w, ea_err *err) {
    size_t bytes;
    int rc = ea_event_write_values(w->c, w->values, w->count, w->payload, sizeof w->payload, &bytes, err);
    if (rc)
        return rc;
    w->record.payload = w->payload;
    w->record.payload_bytes = (uint16_t)bytes;
    return 0;
}

/* The longest text goes. 0: there is none. */
static int leave_longest_out(ec_rundown_records *w) {
    ea_event_value *longest = NULL;
    for (size_t i = 0; i < w->count; i++)
        if (w->values[i].kind == EA_VALUE_TEXT && w->values[i].count &&
            (!longest || w->values[i].count > longest->count))
            longest = &w->values[i];
    if (!longest)
        return 0;
    longest->data = "";
    longest->count = 0;
    return 1;
}

static int finish_record(ec_rundown_records *w, ea_err *err) {
    int rc = write_payload(w, err);
    for (; rc == EA_ELIMIT && leave_longest_out(w); rc = write_payload(w, err))
        w->altered++;
    return rc ? rc : w->options.emit(w->options.arg, &w->record, w->c, err);
}

/* ---- rows ---- */

/* All characters beyond ASCII become question marks. */
static const char *rundown_records_narrow(const char *text, char *latin, size_t capacity) {
    size_t n = 0;
    for (const char *p = text; *p && n + 1 < capacity; p++)
        if (((unsigned char)*p & 0xC0) != 0x80)
            latin[n++] = *p;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)latin[i] >= 0x80)
            latin[i] = '?';
    latin[n] = 0;
    return latin;
}

int ec_rundown_process(ec_rundown_records *w, const ea_process *p, ea_err *err) {
    uint8_t sid[EA_SID_MAX_BYTES];
    char latin[512];
    ea_event_value parts[3] = {{.kind = EA_VALUE_NUMBER, .number = SID_POINTER}, {.kind = EA_VALUE_NUMBER}};
    int rc = begin_record(w, &PROCESS, p->pid, UINT32_MAX, err);
    if (rc)
        return rc;
    rundown_records_set_number(w, "UniqueProcessKey", p->unique_key);
    rundown_records_set_number(w, "ProcessId", p->pid);
    rundown_records_set_number(w, "ParentId", p->parent_pid);
    rundown_records_set_number(w, "SessionId", p->session_id);
    rundown_records_set_number(w, "DirectoryTableBase", p->directory_table_base);
    rundown_records_set_number(w, "Flags", p->flags);
    rundown_records_set_text(w, "ImageFileName", p->image_name);
    rundown_records_set_text(w, "CommandLine", p->command_line);
    rundown_records_set_text(w, "PackageFullName", p->package);
    rundown_records_set_text(w, "ApplicationId", p->application);
    size_t n = ea_sid_parse(p->sid, sid);
    ea_event_value *user = rundown_records_value_of(w, "UserSID");
    if (n && user) {
        parts[2] = (ea_event_value){.kind = EA_VALUE_BYTES, .data = sid, .count = n};
        *user = (ea_event_value){.kind = EA_VALUE_LIST, .items = parts, .count = 3};
    }
    if (write_payload(w, NULL) == EA_EINVAL) {
        rundown_records_set_text(w, "ImageFileName", rundown_records_narrow(p->image_name, latin, sizeof latin));
        w->altered++;
    }
    return finish_record(w, err);
}

int ec_rundown_thread(ec_rundown_records *w, const ea_thread_row *t, ea_err *err) {
    /* version 3 has the affinity, which says of each processor's idle thread which one it is */
    const record_kind *kind = t->start_address && t->tid ? &OLD_THREAD : &THREAD;
    int rc = begin_record(w, kind, t->pid, t->tid, err);
    if (rc)
        return rc;
    rundown_records_set_number(w, "ProcessId", t->pid);
    rundown_records_set_number(w, "TThreadId", t->tid);
    rundown_records_set_number(w, "StackBase", t->stack_base);
    rundown_records_set_number(w, "StartAddr", t->start_address);
    rundown_records_set_number(w, "Win32StartAddr", t->win32_start_address);
    rundown_records_set_number(w, "TebBase", t->teb);
    if (!t->tid && t->cpu < 8 * w->options.pointer_size)
        rundown_records_set_number(w, "Affinity", UINT64_C(1) << t->cpu);
    rundown_records_set_text(w, "ThreadName", t->name);
    rc = finish_record(w, err);
    if (rc || !*t->name || kind != &OLD_THREAD)
        return rc;
    rc = begin_record(w, &THREAD_NAME, t->pid, t->tid, err);
    if (rc)
        return rc;
    rundown_records_set_number(w, "ProcessId", t->pid);
    rundown_records_set_number(w, "ThreadId", t->tid);
    rundown_records_set_text(w, "ThreadName", t->name);
    return finish_record(w, err);
}

typedef struct module_emit {
    ec_rundown_records *w;
    ea_err *err;
} module_emit;

static int emit_module(void *arg, const ea_record *r) {
    const module_emit *e = arg;
    return e->w->options.emit(e->w->options.arg, r, ea_registry_find(e->w->registry, r), e->err);
}

/* A text that is too long for a record goes. */
static const char *rundown_records_fit(ec_rundown_records *w, const char *text) {
    if (strlen(text) <= MODULE_TEXT_MAX_BYTES)
        return text;
    w->altered++;
    return "";
}

int ec_rundown_module(ec_rundown_records *w, const ea_module *row, ea_err *err) {
    const uint64_t mask = w->options.pointer_size == 4 ? UINT32_MAX : UINT64_MAX; /* as set_number does */
    const ea_module_place place = {.verb = EA_MODULE_DC_START,
                                   .time_raw = w->options.time_raw,
                                   .tid = UINT32_MAX,
                                   .version = IMAGE_VERSION,
                                   .pointer_size = (uint8_t)w->options.pointer_size};
    module_emit emit = {w, err};
    ea_module m = *row;
    m.base &= mask;
    m.size_bytes &= mask;
    m.default_base &= mask;
    m.path = rundown_records_fit(w, m.path);
    m.pdb_path = rundown_records_fit(w, m.pdb_path);
    m.original_name = rundown_records_fit(w, m.original_name);
    return m.has_pdb || *m.original_name ? ea_module_records(&m, &place, emit_module, &emit, err)
                                         : ea_module_image(&m, &place, emit_module, &emit, err);
}

int ec_rundown_name(ec_rundown_records *w, const ea_name_row *name, ea_err *err) {
    int is_key = name->kind == EA_NAME_KEY;
    int rc = begin_record(w, is_key ? &KEY_NAME : &FILE_NAME, UINT32_MAX, UINT32_MAX, err);
    if (rc)
        return rc;
    rundown_records_set_number(w, is_key ? "KeyHandle" : "FileObject", name->address);
    rundown_records_set_text(w, is_key ? "KeyName" : "FileName", name->name);
    return finish_record(w, err);
}

int ec_rundown_volume(ec_rundown_records *w, const char *nt, const char *dos, ea_err *err) {
    int rc = begin_record(w, &VOLUME, UINT32_MAX, UINT32_MAX, err);
    if (rc)
        return rc;
    rundown_records_set_text(w, "NtPath", nt);
    rundown_records_set_text(w, "DosPath", dos);
    return finish_record(w, err);
}
