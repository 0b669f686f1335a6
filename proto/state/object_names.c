/* Names of kernel addresses over time. See object_names.h.
 * First the rules, then the backing in memory: while records come in, a map leads from an address to its last entry;
 * sealing sorts the entries by address and time, and a question is a binary search. */
#include "proto/state/object_names.h"

#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/provider_guids.h"
#include "proto/state/keyframe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ea_guid FILE_IO = EA_PROVIDER_FILE_IO;
static const ea_guid REGISTRY = EA_PROVIDER_REGISTRY;
static const ea_guid SYS_CONFIG_EX = EA_PROVIDER_CONFIG_EX;

static const ea_guid DOTNET = EA_PROVIDER_DOTNET_RUNTIME;

enum {
    OP_NAME = 0,
    OP_FILE_CREATE = 32,
    OP_FILE_DELETE = 35,
    OP_FILE_RUNDOWN = 36,
    OP_CREATE = 64,
    OP_CLOSE = 66,
    OP_OPERATION_END = 76,
    OP_DIR_NOTIFY = 77,
    OP_DELETE_PATH = 79,
    OP_SET_LINK_PATH = 81,
    OP_KCB_CREATE = 22,
    OP_KCB_DELETE = 23,
    OP_KCB_RUNDOWN_BEGIN = 24,
    OP_KCB_RUNDOWN_END = 25,
    OP_SYSTEM_PATHS = 33,
    OP_VOLUME_MAPPING = 35,
    ID_GC_START = 1,
    ID_GC_STOP = 2,
    ID_RESTART_STOP = 3,
    ID_SUSPEND_START = 9,
    MAX_PATH_BYTES = 4096, /* of a volume's or directory's name */
};

static int is_operation(uint16_t opcode) {
    return (opcode >= OP_CREATE && opcode <= OP_DIR_NOTIFY && opcode != OP_OPERATION_END) ||
           (opcode >= OP_DELETE_PATH && opcode <= OP_SET_LINK_PATH);
}

static int is_collection(uint16_t id) {
    return id == ID_GC_START || id == ID_GC_STOP || id == ID_RESTART_STOP || id == ID_SUSPEND_START;
}

int ea_object_names_concerns(const ea_guid *provider, uint16_t opcode) {
    switch (ea_load32(provider->bytes)) {
    case 0x90cbdc39:
        return (opcode == OP_NAME || opcode == OP_FILE_CREATE || opcode == OP_FILE_DELETE ||
                opcode == OP_FILE_RUNDOWN || opcode == OP_OPERATION_END || is_operation(opcode)) &&
               ea_guid_equal(provider, &FILE_IO);
    case 0xae53722e:
        return opcode >= OP_KCB_CREATE && opcode <= OP_KCB_RUNDOWN_END && ea_guid_equal(provider, &REGISTRY);
    case 0x9b79ee91:
        return (opcode == OP_SYSTEM_PATHS || opcode == OP_VOLUME_MAPPING) && ea_guid_equal(provider, &SYS_CONFIG_EX);
    case 0xe13c0d23:
        return is_collection(opcode) && ea_guid_equal(provider, &DOTNET);
    case 0xc2a7f6b1:
        return (opcode == EA_KEYFRAME_NAME || opcode == EA_KEYFRAME_VOLUME) &&
               ea_guid_equal(provider, &ea_keyframe_provider);
    default:
        return 0;
    }
}

/* ---- the rules ---- */

/* What one record is folded with. */
typedef struct fold {
    const ea_object_names_backing *backing;
    void *arg;
    ea_text *scratch;
    const ea_record *record;
    const ea_class *c;
    int64_t utc_ns;
    ea_err *err;
} fold;

/* from_utc_ns: when the name in scratch began to hold; INT64_MIN: since the end of what had the address before. */
static int object_names_add_name(const fold *f, uint8_t kind, uint64_t address, int64_t from_utc_ns) {
    ea_name_row last;
    int rc = f->backing->last_name(f->arg, kind, address, &last, f->err);
    if (rc < 0)
        return rc;
    if (rc && last.end_utc_ns == INT64_MAX) {
        if (strcmp(last.name, f->scratch->data) == 0)
            return 0;
        if (from_utc_ns <= last.begin_utc_ns)
            from_utc_ns = f->utc_ns;
        last.end_utc_ns = from_utc_ns;
        int put = f->backing->put_name(f->arg, &last, f->err);
        if (put)
            return put;
    }
    if (from_utc_ns == INT64_MIN && rc)
        from_utc_ns = last.end_utc_ns;
    return f->backing->put_name(f->arg,
                                &(ea_name_row){.kind = kind,
                                               .address = address,
                                               .begin_utc_ns = from_utc_ns,
                                               .end_utc_ns = INT64_MAX,
                                               .name = f->scratch->data},
                                f->err);
}

static int end_name(const fold *f, uint8_t kind, uint64_t address) {
    ea_name_row last;
    int rc = f->backing->last_name(f->arg, kind, address, &last, f->err);
    if (rc <= 0 || last.end_utc_ns != INT64_MAX)
        return rc < 0 ? rc : 0;
    last.end_utc_ns = f->utc_ns == INT64_MAX ? f->utc_ns : f->utc_ns + 1; /* the event at its end sees it */
    return f->backing->put_name(f->arg, &last, f->err);
}

/* A name and its address out of the event: the name goes into scratch. 0 when one of them is not there. */
static int object_names_read_name(const fold *f, const char *address_field, const char *name_field,
                                  uint64_t *ret_address) {
    ea_text_clear(f->scratch);
    return ea_event_u64(f->c, f->record, address_field, ret_address) && *ret_address != 0 &&
           ea_event_text(f->c, f->record, name_field, f->scratch) && f->scratch->len_bytes != 0 && !f->scratch->failed;
}

/* The key of a collection (or of the time in which a runtime's threads are stopped) among IRPs: an address that no
 * kernel has, made of process, runtime instance and, for a collection, its number. */
static uint64_t collection_key(const ea_record *record, const ea_class *c) {
    uint64_t instance = 0, number = 0;
    int pause = c->code == ID_SUSPEND_START || c->code == ID_RESTART_STOP;
    (void)ea_event_u64(c, record, "ClrInstanceID", &instance);
    if (!pause)
        (void)ea_event_u64(c, record, "Count", &number);
    return UINT64_C(1) << 62 | (uint64_t)pause << 61 | (instance & 0x1FFF) << 48 | (uint64_t)record->pid << 16 |
           (number & 0xFFFF);
}

static int begin_operation(const fold *f) {
    uint64_t irp;
    int is_end;
    if (!ea_object_names_operation(f->record, f->c, &irp, &is_end) || irp == 0)
        return 0;
    return f->backing->put_operation(
        f->arg, &(ea_operation_row){.irp = irp, .begin_utc_ns = f->utc_ns, .end_utc_ns = INT64_MIN, .name = f->c->name},
        f->err);
}

static int end_operation(const fold *f) {
    uint64_t irp, status = 0;
    int is_end;
    ea_operation_row o;
    if (!ea_object_names_operation(f->record, f->c, &irp, &is_end) ||
        (f->c->classic && !ea_event_u64(f->c, f->record, "NtStatus", &status)))
        return 0;
    int rc = f->backing->last_operation(f->arg, irp, &o, f->err);
    if (rc <= 0 || o.end_utc_ns != INT64_MIN)
        return rc < 0 ? rc : 0;
    o.information = 0;
    (void)ea_event_u64(f->c, f->record, "ExtraInfo", &o.information);
    o.status = (uint32_t)status;
    o.end_utc_ns = f->utc_ns < o.begin_utc_ns ? o.begin_utc_ns : f->utc_ns;
    return f->backing->put_operation(f->arg, &o, f->err);
}

static int add_volume(const fold *f, const char *nt, const char *dos) {
    size_t nt_bytes = strlen(nt);
    if (!nt_bytes || !*dos || strcmp(nt, dos) == 0 || nt_bytes > MAX_PATH_BYTES || strlen(dos) > MAX_PATH_BYTES)
        return 0;
    return f->backing->put_volume(f->arg, nt, dos, f->err);
}

static int apply_keyframe_name(const fold *f) {
    uint64_t address, kind, begin;
    if (!object_names_read_name(f, "Address", "Name", &address) || !ea_event_u64(f->c, f->record, "Kind", &kind) ||
        !ea_event_u64(f->c, f->record, "BeginTime", &begin) || kind > EA_NAME_KEY)
        return 0;
    int64_t begin_utc_ns = (int64_t)begin; /* from outside: not later than the keyframe */
    return object_names_add_name(f, (uint8_t)kind, address, begin_utc_ns < f->utc_ns ? begin_utc_ns : f->utc_ns);
}

static int apply_volume(const fold *f) {
    ea_text first, second;
    int rc = 0;
    ea_text_init(&first);
    ea_text_init(&second);
    if (!ea_guid_equal(&f->c->provider, &SYS_CONFIG_EX) || f->c->code == OP_VOLUME_MAPPING) {
        if (ea_event_text(f->c, f->record, "NtPath", &first) && ea_event_text(f->c, f->record, "DosPath", &second) &&
            first.len_bytes && second.len_bytes)
            rc = add_volume(f, first.data, second.data);
    } else if (ea_event_text(f->c, f->record, "SystemWindowsDirectory", &first) && first.len_bytes > 3 &&
               first.data[1] == ':') {
        /* "\SystemRoot\" is that folder; a path that begins with its name lies on the same volume. Either form of the
         * folder may end with a backslash. */
        if (first.data[first.len_bytes - 1] != '\\')
            ea_text_char(&first, '\\');
        if (!first.failed)
            rc = add_volume(f, "\\SystemRoot\\", first.data);
        if (!rc && !first.failed)
            rc = add_volume(f, first.data + 2, first.data);
    }
    ea_text_deinit(&first);
    ea_text_deinit(&second);
    return rc;
}

static int apply_file(const fold *f) {
    uint64_t address;
    int rc = 0;
    switch (f->c->code) {
    case OP_NAME:
    case OP_FILE_RUNDOWN:
    case OP_FILE_CREATE:
        if (!object_names_read_name(f, "FileObject", "FileName", &address))
            return 0;
        return object_names_add_name(f, EA_NAME_FILE, address, f->c->code == OP_FILE_CREATE ? f->utc_ns : INT64_MIN);
    case OP_FILE_DELETE:
        if (object_names_read_name(f, "FileObject", "FileName", &address))
            rc = object_names_add_name(f, EA_NAME_FILE, address, INT64_MIN);
        if (!rc && ea_event_u64(f->c, f->record, "FileObject", &address))
            rc = end_name(f, EA_NAME_FILE, address);
        return rc;
    case OP_OPERATION_END:
        return end_operation(f);
    default:
        rc = begin_operation(f);
        if (!rc && f->c->code == OP_CREATE && object_names_read_name(f, "FileObject", "OpenPath", &address))
            rc = object_names_add_name(f, EA_NAME_FILE, address, f->utc_ns);
        if (!rc && f->c->code == OP_CLOSE && ea_event_u64(f->c, f->record, "FileObject", &address))
            rc = end_name(f, EA_NAME_FILE, address);
        return rc;
    }
}

static int apply_key(const fold *f) {
    uint64_t address;
    int rc = 0;
    if (object_names_read_name(f, "KeyHandle", "KeyName", &address))
        rc = object_names_add_name(f, EA_NAME_KEY, address,
                                   f->c->code == OP_KCB_CREATE && f->c->version >= 2 ? f->utc_ns : INT64_MIN);
    if (!rc && f->c->code == OP_KCB_DELETE && ea_event_u64(f->c, f->record, "KeyHandle", &address))
        rc = end_name(f, EA_NAME_KEY, address);
    return rc;
}

int ea_object_names_fold(const ea_object_names_backing *backing, void *arg, ea_text *scratch, const ea_record *record,
                         const ea_class *c, int64_t utc_ns, ea_err *err) {
    if (!ea_object_names_concerns(&c->provider, c->code) || c->classic == ea_guid_equal(&c->provider, &DOTNET))
        return 0;
    fold f = {backing, arg, scratch, record, c, utc_ns, err};
    if (!c->classic)
        return c->code == ID_GC_STOP || c->code == ID_RESTART_STOP ? end_operation(&f) : begin_operation(&f);
    if (ea_guid_equal(&c->provider, &FILE_IO))
        return apply_file(&f);
    if (ea_guid_equal(&c->provider, &REGISTRY))
        return apply_key(&f);
    if (c->code == EA_KEYFRAME_NAME && ea_guid_equal(&c->provider, &ea_keyframe_provider))
        return apply_keyframe_name(&f);
    return apply_volume(&f);
}

int ea_object_names_operation(const ea_record *record, const ea_class *c, uint64_t *ret_irp, int *ret_is_end) {
    if (!c->classic && is_collection(c->code) && ea_guid_equal(&c->provider, &DOTNET)) {
        *ret_is_end = c->code == ID_GC_STOP || c->code == ID_RESTART_STOP;
        *ret_irp = collection_key(record, c);
        return 1;
    }
    *ret_is_end = c->code == OP_OPERATION_END;
    return c->classic && (*ret_is_end || is_operation(c->code)) && ea_guid_equal(&c->provider, &FILE_IO) &&
           ea_event_u64(c, record, "IrpPtr", ret_irp);
}

int ea_object_names_matches(const ea_operation_row *row, const ea_class *c, int is_end, int64_t utc_ns,
                            ea_completion *ret, int *ret_go_on) {
    int it_is = is_end ? row->end_utc_ns == utc_ns
                       : row->begin_utc_ns == utc_ns && row->end_utc_ns != INT64_MIN && strcmp(row->name, c->name) == 0;
    *ret_go_on = !it_is && row->begin_utc_ns >= utc_ns;
    if (it_is)
        *ret = (ea_completion){is_end ? row->name : NULL, row->end_utc_ns - row->begin_utc_ns, row->status,
                               row->information, (uint8_t)c->classic};
    return it_is;
}

/* ---- volumes ---- */

static int compare_volumes(const void *a, const void *b) {
    const ea_volume *x = a, *y = b;
    return x->nt_bytes < y->nt_bytes ? 1 : x->nt_bytes > y->nt_bytes ? -1 : strcmp(x->nt, y->nt);
}

int ea_volumes_add(ea_volume *volumes, size_t *count, ea_string_pool *kept, const char *nt, const char *dos) {
    for (size_t i = 0; i < *count; i++)
        if (strcmp(volumes[i].nt, nt) == 0)
            return 1;
    const char *from = *count < EA_VOLUMES_MAX ? ea_string_pool_take(kept, nt, strlen(nt)) : NULL;
    const char *to = from ? ea_string_pool_take(kept, dos, strlen(dos)) : NULL;
    if (to)
        volumes[(*count)++] = (ea_volume){from, to, strlen(nt)};
    else if (from)
        ea_string_pool_release(kept, from);
    return to != NULL;
}

void ea_volumes_sort(ea_volume *volumes, size_t count) {
    if (count)
        qsort(volumes, count, sizeof *volumes, compare_volumes);
}

static int begins_with(const char *path, size_t len_bytes, const char *prefix, size_t prefix_bytes) {
    if (len_bytes < prefix_bytes)
        return 0;
    for (size_t i = 0; i < prefix_bytes; i++)
        if (ea_ascii_lower(path[i]) != ea_ascii_lower(prefix[i]))
            return 0;
    return 1;
}

int ea_volumes_path(const ea_volume *volumes, size_t count, const char *path, size_t len_bytes, ea_text *out) {
    for (size_t i = 0; i < count; i++) {
        const ea_volume *v = &volumes[i];
        /* "\Device\HarddiskVolume1" is no prefix of "\Device\HarddiskVolume12" */
        if (!begins_with(path, len_bytes, v->nt, v->nt_bytes) ||
            (v->nt[v->nt_bytes - 1] != '\\' && len_bytes > v->nt_bytes && path[v->nt_bytes] != '\\'))
            continue;
        ea_text_str(out, v->dos);
        ea_text_add(out, path + v->nt_bytes, len_bytes - v->nt_bytes);
        return 1;
    }
    if (len_bytes > 6 && memcmp(path, "\\??\\", 4) == 0 && path[5] == ':') {
        ea_text_add(out, path + 4, len_bytes - 4);
        return 1;
    }
    return 0;
}

/* ---- in memory ---- */

typedef struct entry {
    uint64_t address;
    int64_t begin_utc_ns, end_utc_ns; /* [begin, end) */
    const char *name;                 /* in texts */
} entry;

typedef struct operation {
    uint64_t irp, extra;
    int64_t begin_utc_ns, end_utc_ns; /* INT64_MIN while it runs */
    const char *name;                 /* in texts: the class that began it */
    uint32_t status;
} operation;

typedef struct table {
    entry *items;
    size_t count, capacity;
    ea_u64_map last; /* address -> index of its last entry */
} table;

struct ea_object_names {
    ea_object_names_options options;
    ea_string_pool texts;
    table tables[2]; /* by enum ea_name_kind */
    operation *operations;
    size_t operation_count, operation_capacity;
    ea_u64_map running; /* IRP -> index of its last operation */
    ea_volume volumes[EA_VOLUMES_MAX];
    size_t volume_count;
    ea_text scratch;
    uint64_t left_out;
    int sealed;
};

int ea_object_names_create(ea_object_names **ret, const ea_object_names_options *options, ea_err *err) {
    ea_object_names *n = calloc(1, sizeof *n);
    if (!n)
        return ea_fail(err, EA_ENOMEM, "make the name tables");
    n->options = *options;
    if (!n->options.limit_names)
        n->options.limit_names = (size_t)1 << 22;
    if (!n->options.limit_operations)
        n->options.limit_operations = (size_t)1 << 23;
    ea_string_pool_init(&n->texts, options->limit_text_bytes ? options->limit_text_bytes : (size_t)512 << 20);
    for (int i = 0; i < 2; i++)
        ea_u64_map_init(&n->tables[i].last, n->options.limit_names);
    ea_u64_map_init(&n->running, n->options.limit_operations);
    ea_text_init(&n->scratch);
    *ret = n;
    return 0;
}

void ea_object_names_destroy(ea_object_names *n) {
    if (!n)
        return;
    for (int i = 0; i < 2; i++) {
        free(n->tables[i].items);
        ea_u64_map_deinit(&n->tables[i].last);
    }
    free(n->operations);
    ea_u64_map_deinit(&n->running);
    ea_string_pool_deinit(&n->texts);
    ea_text_deinit(&n->scratch);
    free(n);
}

static void left_out(ea_object_names *n) {
    n->left_out++;
    if (n->options.counters)
        ea_count(n->options.counters, EA_COUNT_state_texts_left_out, 1);
}

/* ---- keeping rows ---- */

static int memory_last_name(void *arg, uint8_t kind, uint64_t address, ea_name_row *ret, ea_err *err) {
    const ea_object_names *n = arg;
    const uint64_t *at = ea_u64_map_get(&n->tables[kind].last, address);
    (void)err;
    if (!at)
        return 0;
    const entry *e = &n->tables[kind].items[*at];
    *ret = (ea_name_row){*at + 1, e->address, e->begin_utc_ns, e->end_utc_ns, e->name, kind};
    return 1;
}

static int memory_put_name(void *arg, const ea_name_row *row, ea_err *err) {
    ea_object_names *n = arg;
    table *t = &n->tables[row->kind];
    if (row->number) {
        t->items[row->number - 1].end_utc_ns = row->end_utc_ns;
        return 0;
    }
    int rc = EA_GROW(t->items, t->capacity, t->count + 1, n->options.limit_names);
    const char *text = rc ? NULL : ea_string_pool_take(&n->texts, row->name, strlen(row->name));
    if (rc == EA_ELIMIT || (!rc && !text)) {
        left_out(n);
        return 0;
    }
    if (!rc)
        rc = ea_u64_map_put(&t->last, row->address, t->count);
    if (rc)
        return ea_fail(err, rc, "keep a name");
    t->items[t->count++] = (entry){row->address, row->begin_utc_ns, row->end_utc_ns, text};
    return 0;
}

static int memory_last_operation(void *arg, uint64_t irp, ea_operation_row *ret, ea_err *err) {
    const ea_object_names *n = arg;
    const uint64_t *at = ea_u64_map_get(&n->running, irp);
    (void)err;
    if (!at)
        return 0;
    const operation *o = &n->operations[*at];
    *ret = (ea_operation_row){*at + 1, o->irp, o->extra, o->begin_utc_ns, o->end_utc_ns, o->status, o->name};
    return 1;
}

static int memory_put_operation(void *arg, const ea_operation_row *row, ea_err *err) {
    ea_object_names *n = arg;
    if (row->number) {
        operation *o = &n->operations[row->number - 1];
        o->extra = row->information;
        o->status = row->status;
        o->end_utc_ns = row->end_utc_ns;
        (void)ea_u64_map_remove(&n->running, row->irp);
        return 0;
    }
    int rc = EA_GROW(n->operations, n->operation_capacity, n->operation_count + 1, n->options.limit_operations);
    const char *name = rc ? NULL : ea_string_pool_take(&n->texts, row->name, strlen(row->name));
    if (rc == EA_ELIMIT || (!rc && !name)) {
        left_out(n);
        (void)ea_u64_map_remove(&n->running, row->irp); /* its end is not the end of an older one */
        return 0;
    }
    if (!rc)
        rc = ea_u64_map_put(&n->running, row->irp, n->operation_count);
    if (rc)
        return ea_fail(err, rc, "keep an operation");
    n->operations[n->operation_count++] = (operation){row->irp, 0, row->begin_utc_ns, INT64_MIN, name, 0};
    return 0;
}

static int memory_put_volume(void *arg, const char *nt, const char *dos, ea_err *err) {
    ea_object_names *n = arg;
    (void)err;
    if (!ea_volumes_add(n->volumes, &n->volume_count, &n->texts, nt, dos))
        left_out(n);
    return 0;
}

int ea_object_names_apply(ea_object_names *n, const ea_record *record, const ea_class *c, int64_t utc_ns, ea_err *err) {
    static const ea_object_names_backing MEMORY = {memory_last_name, memory_put_name, memory_last_operation,
                                                   memory_put_operation, memory_put_volume};
    return n->sealed ? 0 : ea_object_names_fold(&MEMORY, n, &n->scratch, record, c, utc_ns, err);
}

/* ---- sealing ---- */

static int object_names_compare_entries(const void *a, const void *b) {
    const entry *x = a, *y = b;
    if (x->address != y->address)
        return x->address < y->address ? -1 : 1;
    if (x->begin_utc_ns != y->begin_utc_ns)
        return x->begin_utc_ns < y->begin_utc_ns ? -1 : 1;
    return x->end_utc_ns < y->end_utc_ns ? -1 : x->end_utc_ns > y->end_utc_ns;
}

static int compare_operations(const void *a, const void *b) {
    const operation *x = a, *y = b;
    if (x->irp != y->irp)
        return x->irp < y->irp ? -1 : 1;
    if (x->begin_utc_ns != y->begin_utc_ns)
        return x->begin_utc_ns < y->begin_utc_ns ? -1 : 1;
    return x->end_utc_ns < y->end_utc_ns ? -1 : x->end_utc_ns > y->end_utc_ns;
}

void ea_object_names_seal(ea_object_names *n) {
    for (int i = 0; i < 2; i++) {
        if (n->tables[i].count)
            qsort(n->tables[i].items, n->tables[i].count, sizeof(entry), object_names_compare_entries);
        ea_u64_map_clear(&n->tables[i].last);
    }
    if (n->operation_count)
        qsort(n->operations, n->operation_count, sizeof(operation), compare_operations);
    ea_u64_map_clear(&n->running);
    ea_volumes_sort(n->volumes, n->volume_count);
    n->sealed = 1;
}

/* ---- questions ---- */

const char *ea_object_names_find(const ea_object_names *n, enum ea_name_kind kind, uint64_t address, int64_t utc_ns) {
    const table *t = &n->tables[kind];
    size_t low = 0, high = n->sealed ? t->count : 0;
    while (low < high) { /* the first entry after (address, utc_ns) */
        size_t middle = low + (high - low) / 2;
        const entry *e = &t->items[middle];
        if (e->address < address || (e->address == address && e->begin_utc_ns <= utc_ns))
            low = middle + 1;
        else
            high = middle;
    }
    /* entries that began at the same time are next to each other */
    while (low > 0 && t->items[low - 1].address == address) {
        const entry *e = &t->items[--low];
        if (utc_ns < e->end_utc_ns)
            return e->name;
        if (low == 0 || t->items[low - 1].begin_utc_ns != e->begin_utc_ns)
            break;
    }
    return NULL;
}

int ea_object_names_dos_path(const ea_object_names *n, const char *path, size_t len_bytes, ea_text *out) {
    return ea_volumes_path(n->volumes, n->sealed ? n->volume_count : 0, path, len_bytes, out);
}

/* ---- for rendering ---- */

static int object_names_resolve_number(const void *arg, uint8_t semantic, uint64_t value, int64_t utc_ns,
                                       ea_text *out) {
    const ea_object_names *n = arg;
    const char *name = NULL;
    if (semantic == EA_SEM_FILE_OBJECT || semantic == EA_SEM_FILE_KEY)
        name = ea_object_names_find(n, EA_NAME_FILE, value, utc_ns);
    else if (semantic == EA_SEM_KCB)
        name = ea_object_names_find(n, EA_NAME_KEY, value, utc_ns);
    if (!name)
        return 0;
    if (semantic == EA_SEM_KCB || !ea_object_names_dos_path(n, name, strlen(name), out))
        ea_text_str(out, name);
    return 1;
}

static int object_names_resolve_path(const void *arg, const char *path, size_t len_bytes, ea_text *out) {
    return ea_object_names_dos_path(arg, path, len_bytes, out);
}

static int object_names_completion(const void *arg, const ea_record *r, const ea_class *c, int64_t utc_ns,
                                   ea_completion *ret) {
    const ea_object_names *n = arg;
    uint64_t irp;
    int is_end, go_on = 1;
    if (!n->operation_count || !ea_object_names_operation(r, c, &irp, &is_end))
        return 0;
    size_t low = 0, high = n->operation_count;
    while (low < high) { /* the first operation after (irp, utc_ns) */
        size_t middle = low + (high - low) / 2;
        const operation *o = &n->operations[middle];
        if (o->irp < irp || (o->irp == irp && o->begin_utc_ns <= utc_ns))
            low = middle + 1;
        else
            high = middle;
    }
    for (; go_on && low > 0 && n->operations[low - 1].irp == irp; low--) {
        const operation *o = &n->operations[low - 1];
        ea_operation_row row = {low, o->irp, o->extra, o->begin_utc_ns, o->end_utc_ns, o->status, o->name};
        if (ea_object_names_matches(&row, c, is_end, utc_ns, ret, &go_on))
            return 1;
    }
    return 0;
}

ea_resolver ea_object_names_resolver(const ea_object_names *n) {
    return (ea_resolver){n, object_names_resolve_number, object_names_resolve_path, object_names_completion};
}

void ea_object_names_counts(const ea_object_names *n, size_t *ret_names, size_t *ret_operations,
                            uint64_t *ret_left_out) {
    size_t ended = 0;
    for (size_t i = 0; i < n->operation_count; i++)
        ended += n->operations[i].end_utc_ns != INT64_MIN;
    *ret_names = n->tables[0].count + n->tables[1].count;
    *ret_operations = ended;
    *ret_left_out = n->left_out;
}

void ea_object_names_report_left_out(const ea_object_names *n, const char *program) {
    if (n->left_out)
        fprintf(stderr, "%s: %" PRIu64 " names and file operations did not fit into the tables and are not shown\n",
                program, n->left_out);
}
