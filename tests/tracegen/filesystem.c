/* Files and the disk. A file has a key (the file system's control block) from its first use until it is deleted, and
 * every open of it a file object of its own; addresses of both come again. Reads that the cache does not have go to the
 * disk, and their thread waits. See subsystems.h.
 *
 * Who names what, as Windows logs it: Create names the object; FileCreate a key that is made while the trace runs;
 * FileDelete one that goes; all others are named only by the rundown at the end. */
#include "tests/tracegen/subsystems.h"

#include <string.h>

enum {
    FILES_MAX = 900,
    STATUS_NOT_FOUND = 0xC0000034,
    STATUS_CANCELLED = 0xC0000120,
    INFO_BASIC = 4,
    INFO_DISPOSITION = 13,
    INFO_STANDARD = 5,
    IO_FLAGS = 0x60900,
    IRP_PAGING_READ = 0x60043,
};

typedef struct tg_file {
    const char *path;
    uint64_t key; /* 0: none */
    uint32_t opens;
    uint64_t disk_offset, size_bytes;
    tg_life named; /* of the key */
} tg_file;

enum phase { PHASE_QUERY, PHASE_TRANSFER, PHASE_TRANSFER_END, PHASE_CLOSE };

/* An open file and what its thread is doing with it. */
struct tg_operation_state {
    tg_file *file;
    uint64_t object, irp;
    uint64_t offset;
    uint32_t left, size_bytes; /* transfers to go; of each */
    enum phase phase;
    uint8_t writes;
    tg_life named; /* the object */
    tg_operation_state *next_free;
};

typedef struct disk_request {
    tg_thread *thread;
    uint64_t irp, file_key, offset, address;
    uint32_t size_bytes, tid;
    int64_t issued;
    uint8_t is_write, is_fault;
    struct disk_request *next_free;
} disk_request;

struct tg_filesystem {
    tg_file *files;
    size_t count, capacity;
    tg_addresses objects, keys, irps;
    tg_operation_state *free_operations;
    disk_request *free_requests;
};

/* ---- existing files, file objects and requests ---- */

static tg_file *add_file(tg_machine *m, const char *path) {
    tg_filesystem *fs = m->filesystem;
    if (fs->count == fs->capacity)
        return NULL;
    tg_file *f = &fs->files[fs->count++];
    uint64_t pages = 1 + tg_below(&m->dice, 400);
    *f = (tg_file){.path = path,
                   .size_bytes = 4096 * pages,
                   .disk_offset = 4096 * tg_below(&m->dice, 1 << 28),
                   .named = {.begin = INT64_MIN, .end = INT64_MAX}};
    return f;
}

static const char *new_path(tg_machine *m) {
    const tg_scenario *s = m->scenario;
    const char *folder = s->folders[tg_below(&m->dice, s->folder_count)].name;
    const char *pattern = s->files[tg_below(&m->dice, s->file_count)].name;
    ea_text t;
    ea_text_init(&t);
    ea_text_printf(&t, "\\Device\\HarddiskVolume3%s\\", folder);
    for (; *pattern; pattern++) {
        if (*pattern == '#')
            ea_text_u64(&t, tg_below(&m->dice, 900) + 100);
        else
            ea_text_char(&t, *pattern);
    }
    return tg_keep_text(m, &t);
}

void tg_make_filesystem(tg_machine *m) {
    tg_filesystem *fs = m->filesystem = tg_new(m, sizeof *fs);
    if (!fs)
        return;
    int is_32_bit = m->scenario->pointer_bytes == 4;
    fs->capacity = FILES_MAX + m->scenario->script_count;
    fs->files = ea_arena_zalloc(&m->arena, fs->capacity, sizeof *fs->files);
    fs->objects = (tg_addresses){.next = is_32_bit ? 0x85100028 : 0xFFFFC00C10000070, .step = 0x150};
    fs->keys = (tg_addresses){.next = is_32_bit ? 0x93200910 : 0xFFFF8A0840000170, .step = 0x4A0};
    fs->irps = (tg_addresses){.next = is_32_bit ? 0x87300818 : 0xFFFFC00C30000A30, .step = 0x1D0};
    if (!fs->files) {
        m->failed = 1;
        return;
    }
    for (size_t i = 0; i < FILES_MAX; i++) {
        tg_file *f = add_file(m, new_path(m));
        if (f && !m->scenario->boots && tg_chance(&m->dice, 40))
            f->key = tg_take_address(m, &fs->keys); /* in use since before the trace */
    }
}

/* ---- the disk ---- */

static void disk_done(tg_machine *m, void *subject) {
    disk_request *r = subject;
    uint32_t interrupts = m->scenario->cpus < 4 ? m->scenario->cpus : 4;
    tg_cpu *cpu = &m->cpus[tg_below(&m->dice, interrupts)];
    tg_interrupt(m, cpu, TG_DEVICE_DISK);
    int64_t at = tg_stamp(m, cpu, NULL);
    if (r->thread && r->thread->pinned_by == r && r->thread->last >= at)
        at = tg_stamp(m, cpu, r->thread);
    tg_context who = tg_who(m, cpu, NULL, at);
    TG_EMIT(m->trace, r->is_write ? TG_DISK_WRITE : TG_DISK_READ, &who, tg_n(0), tg_n(IRP_PAGING_READ),
            tg_n(r->size_bytes), tg_n(r->offset), tg_n(r->file_key), tg_n(r->irp),
            tg_n(tg_raw_between(m, r->issued, at)), tg_n(r->tid));
    if (r->is_fault) {
        who = tg_who(m, cpu, NULL, tg_stamp(m, cpu, NULL));
        TG_EMIT(m->trace, TG_FAULT_HARD, &who, tg_n((uint64_t)tg_raw(m, r->issued)), tg_n(r->offset), tg_n(r->address),
                tg_n(r->file_key), tg_n(r->tid), tg_n(r->size_bytes));
    }
    tg_give_address_back(m, &m->filesystem->irps, r->irp);
    tg_thread *t = r->thread;
    if (t && t->pinned_by == r)
        tg_wake(m, cpu, t, 1);
    r->next_free = m->filesystem->free_requests;
    m->filesystem->free_requests = r;
}

/* Sends a request; its issuer goes on. NULL when there is no memory. */
static disk_request *issue(tg_machine *m, tg_cpu *cpu, tg_thread *t, const tg_file *f, int is_write, uint32_t size) {
    tg_filesystem *fs = m->filesystem;
    disk_request *r = fs->free_requests;
    if (r)
        fs->free_requests = r->next_free;
    else
        r = tg_new(m, sizeof *r);
    if (!r)
        return NULL;
    uint64_t page = tg_below(&m->dice, f->size_bytes / 4096);
    *r = (disk_request){.irp = tg_take_address(m, &fs->irps),
                        .file_key = f->key,
                        .offset = f->disk_offset + 4096 * page,
                        .size_bytes = size,
                        .tid = t->tid,
                        .is_write = (uint8_t)is_write};
    r->issued = tg_stamp(m, cpu, t);
    tg_context who = tg_who(m, cpu, t, r->issued);
    TG_EMIT(m->trace, is_write ? TG_DISK_WRITE_INIT : TG_DISK_READ_INIT, &who, tg_n(r->irp), tg_n(t->tid));
    tg_stack_of(m, cpu, t, r->issued, TG_STACK_OF_DISK, 1);
    int64_t begin = m->disk.busy_until > r->issued ? m->disk.busy_until : r->issued;
    m->disk.busy_until = begin + 200 + size / 64; /* a flash disk: 20 us and 640 MB/s */
    tg_schedule(m, m->disk.busy_until + tg_between(&m->dice, 300, 3000), disk_done, r);
    return r;
}

static void wait_for(tg_machine *m, tg_thread *t, disk_request *r, uint8_t reason) {
    if (!r)
        return;
    r->thread = t;
    tg_wait(m, t, reason, INT64_MAX);
    t->pinned_by = r;
}

static tg_file *any_known_file(tg_machine *m) {
    tg_filesystem *fs = m->filesystem;
    for (int tries = 0; tries < 8; tries++) {
        tg_file *f = &fs->files[tg_below(&m->dice, fs->count)];
        if (f->key)
            return f;
    }
    return NULL;
}

int64_t tg_disk_work(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    const tg_file *f = any_known_file(m);
    if (!f)
        return TG_TICKS_PER_MS / 100;
    uint32_t size = 4096u << tg_below(&m->dice, 5);
    if (tg_chance(&m->dice, 40)) {
        issue(m, cpu, t, f, 1, size);
        return TG_TICKS_PER_MS / 50;
    }
    wait_for(m, t, issue(m, cpu, t, f, 0, size), TG_WAIT_EXECUTIVE);
    return 0;
}

void tg_hard_fault(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint64_t address) {
    const tg_file *f = any_known_file(m);
    disk_request *r = f ? issue(m, cpu, t, f, 0, 4096u << tg_below(&m->dice, 4)) : NULL;
    if (!r)
        return;
    r->is_fault = 1;
    r->address = address;
    wait_for(m, t, r, TG_WAIT_PAGE_IN);
}

/* ---- file operations ---- */

/* The end of what runs under an IRP, which is free again then. */
static void operation_end(tg_machine *m, tg_cpu *cpu, tg_thread *t, uint64_t irp, uint64_t information,
                          uint32_t status) {
    tg_spend(m, cpu, 5, 60);
    tg_context who = tg_who(m, cpu, t, tg_stamp(m, cpu, t));
    TG_EMIT(m->trace, TG_FILE_OPERATION_END, &who, tg_n(irp), tg_n(information), tg_n(status));
    tg_give_address_back(m, &m->filesystem->irps, irp);
}

static void make_key(tg_machine *m, tg_cpu *cpu, tg_thread *t, tg_file *f) {
    f->key = tg_take_address(m, &m->filesystem->keys);
    f->named.begin = tg_stamp_state(m, cpu, t);
    tg_context who = tg_who(m, cpu, NULL, f->named.begin);
    f->named.begin_lost = !TG_EMIT(m->trace, TG_FILE_NAME_CREATE, &who, tg_n(f->key), tg_text(f->path));
}

static void delete_key(tg_machine *m, tg_cpu *cpu, tg_thread *t, tg_file *f) {
    f->named.end = tg_stamp_state(m, cpu, t);
    tg_context who = tg_who(m, cpu, NULL, f->named.end);
    f->named.end_lost = !TG_EMIT(m->trace, TG_FILE_NAME_DELETE, &who, tg_n(f->key), tg_text(f->path));
    tg_truth_name(m->truth, m, TG_NAME_FILE_KEY, f->key, f->path, &f->named);
    tg_give_address_back(m, &m->filesystem->keys, f->key);
    f->key = 0;
    f->named = (tg_life){.begin = INT64_MIN, .end = INT64_MAX};
}

/* Opens a file; 0 when the open fails. */
static int open_file(tg_machine *m, tg_cpu *cpu, tg_thread *t, tg_operation_state *o, int fails) {
    tg_filesystem *fs = m->filesystem;
    o->object = tg_take_address(m, &fs->objects);
    uint64_t irp = tg_take_address(m, &fs->irps);
    o->named = (tg_life){.begin = tg_stamp_state(m, cpu, t), .end = INT64_MAX};
    tg_context who = tg_who(m, cpu, t, o->named.begin);
    o->named.begin_lost =
        !TG_EMIT(m->trace, TG_FILE_CREATE, &who, tg_n(irp), tg_n(o->object), tg_n(t->tid),
                 tg_n(o->writes ? 0x05000060 : 0x01000060), tg_n(0x80), tg_n(7), tg_text(o->file->path));
    tg_stack_of(m, cpu, t, o->named.begin, TG_STACK_OF_FILE, 1);
    if (!fails && !o->file->key)
        make_key(m, cpu, t, o->file);
    operation_end(m, cpu, t, irp, fails ? 0 : 1, fails ? STATUS_NOT_FOUND : 0);
    if (fails) {
        o->named.end = cpu->clock;
        tg_truth_name(m->truth, m, TG_NAME_FILE_OBJECT, o->object, o->file->path, &o->named);
        tg_give_address_back(m, &fs->objects, o->object);
        return 0;
    }
    o->file->opens++;
    return 1;
}

static void close_file(tg_machine *m, tg_cpu *cpu, tg_thread *t, tg_operation_state *o) {
    tg_filesystem *fs = m->filesystem;
    uint64_t irp = tg_take_address(m, &fs->irps);
    tg_context who = tg_who(m, cpu, t, tg_stamp(m, cpu, t));
    TG_EMIT(m->trace, TG_FILE_CLEANUP, &who, tg_n(irp), tg_n(o->object), tg_n(o->file->key), tg_n(t->tid));
    operation_end(m, cpu, t, irp, 0, 0);
    irp = tg_take_address(m, &fs->irps);
    o->named.end = tg_stamp_state(m, cpu, t);
    who = tg_who(m, cpu, t, o->named.end);
    o->named.end_lost =
        !TG_EMIT(m->trace, TG_FILE_CLOSE, &who, tg_n(irp), tg_n(o->object), tg_n(o->file->key), tg_n(t->tid));
    tg_truth_name(m->truth, m, TG_NAME_FILE_OBJECT, o->object, o->file->path, &o->named);
    operation_end(m, cpu, t, irp, 0, 0);
    tg_give_address_back(m, &fs->objects, o->object);
    o->file->opens--;
}

static void delete_file(tg_machine *m, tg_cpu *cpu, tg_thread *t, tg_operation_state *o) {
    uint64_t irp = tg_take_address(m, &m->filesystem->irps);
    tg_context who = tg_who(m, cpu, t, tg_stamp(m, cpu, t));
    TG_EMIT(m->trace, TG_FILE_DELETE, &who, tg_n(irp), tg_n(o->object), tg_n(o->file->key), tg_n(t->tid), tg_n(1),
            tg_n(INFO_DISPOSITION));
    operation_end(m, cpu, t, irp, 0, 0);
}

static void transfer(tg_machine *m, tg_cpu *cpu, tg_thread *t, tg_operation_state *o) {
    o->irp = tg_take_address(m, &m->filesystem->irps);
    int64_t at = tg_stamp(m, cpu, t);
    tg_context who = tg_who(m, cpu, t, at);
    TG_EMIT(m->trace, o->writes ? TG_FILE_WRITE : TG_FILE_READ, &who, tg_n(o->irp), tg_n(o->object), tg_n(o->file->key),
            tg_n(t->tid), tg_n(o->offset), tg_n(o->size_bytes), tg_n(IO_FLAGS));
    tg_stack_of(m, cpu, t, at, TG_STACK_OF_FILE, 1);
}

static void end_operation(tg_machine *m, tg_thread *t) {
    t->operation->next_free = m->filesystem->free_operations;
    m->filesystem->free_operations = t->operation;
    t->operation = NULL;
}

static int64_t begin_operation(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    tg_filesystem *fs = m->filesystem;
    tg_operation_state *o = fs->free_operations;
    if (o)
        fs->free_operations = o->next_free;
    else
        o = tg_new(m, sizeof *o);
    if (!o)
        return TG_TICKS_PER_MS;
    /* some files are in use much more than others */
    size_t range = fs->count >> tg_below(&m->dice, 5);
    *o = (tg_operation_state){.file = &fs->files[tg_below(&m->dice, range)]};
    o->left = 1 + (uint32_t)tg_below(&m->dice, 6);
    o->size_bytes = 512u << tg_below(&m->dice, 8);
    o->writes = (uint8_t)tg_chance(&m->dice, 30);
    t->operation = o;
    tg_system_call_enter(m, cpu, t);
    int fails = tg_chance(&m->dice, 8), is_open = open_file(m, cpu, t, o, fails);
    tg_system_call_exit(m, cpu, t, fails ? STATUS_NOT_FOUND : 0);
    if (!is_open)
        end_operation(m, t);
    return tg_between(&m->dice, 20, 400);
}

int64_t tg_file_work(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    tg_operation_state *o = t->operation;
    if (!o)
        return begin_operation(m, cpu, t);
    switch (o->phase) {
    case PHASE_QUERY:
        if (tg_chance(&m->dice, 50)) {
            tg_system_call_enter(m, cpu, t);
            uint64_t irp = tg_take_address(m, &m->filesystem->irps);
            tg_context who = tg_who(m, cpu, t, tg_stamp(m, cpu, t));
            TG_EMIT(m->trace, TG_FILE_QUERY_INFO, &who, tg_n(irp), tg_n(o->object), tg_n(o->file->key), tg_n(t->tid),
                    tg_n(0), tg_n(tg_chance(&m->dice, 50) ? INFO_BASIC : INFO_STANDARD));
            operation_end(m, cpu, t, irp, 24, 0);
            tg_system_call_exit(m, cpu, t, 0);
        }
        o->phase = PHASE_TRANSFER;
        break;
    case PHASE_TRANSFER:
        tg_system_call_enter(m, cpu, t);
        transfer(m, cpu, t, o);
        o->phase = PHASE_TRANSFER_END;
        if (o->writes) {
            if (tg_chance(&m->dice, 30))
                issue(m, cpu, t, o->file, 1, o->size_bytes < 4096 ? 4096 : o->size_bytes);
        } else if (tg_chance(&m->dice, 25)) {
            wait_for(m, t, issue(m, cpu, t, o->file, 0, o->size_bytes < 4096 ? 4096 : o->size_bytes),
                     TG_WAIT_EXECUTIVE);
            return 0;
        }
        return 20;
    case PHASE_TRANSFER_END:
        operation_end(m, cpu, t, o->irp, o->size_bytes, 0);
        tg_system_call_exit(m, cpu, t, 0);
        o->irp = 0;
        o->offset += o->size_bytes;
        o->phase = --o->left ? PHASE_TRANSFER : PHASE_CLOSE;
        break;
    default: {
        tg_system_call_enter(m, cpu, t);
        tg_file *f = o->file;
        int deletes = f->opens == 1 && tg_chance(&m->dice, 6);
        if (deletes)
            delete_file(m, cpu, t, o);
        close_file(m, cpu, t, o);
        if (deletes)
            delete_key(m, cpu, t, f);
        tg_system_call_exit(m, cpu, t, 0);
        end_operation(m, t);
    }
    }
    return tg_pick_us(m, &t->process->program->burst_us) / 4 + 10;
}

void tg_drop_operation(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    if (!t->operation)
        return;
    if (t->operation->irp)
        operation_end(m, cpu, t, t->operation->irp, 0, STATUS_CANCELLED);
    close_file(m, cpu, t, t->operation);
    end_operation(m, t);
}

void tg_file_step(tg_machine *m, tg_thread *t, const char *path, int kind) {
    tg_filesystem *fs = m->filesystem;
    tg_cpu *cpu = tg_cpu_of(m, t);
    tg_operation_state o = {.writes = kind == TG_STEP_WRITE_FILE, .size_bytes = 4096};
    for (size_t i = 0; i < fs->count && !o.file; i++)
        if (strcmp(fs->files[i].path, path) == 0)
            o.file = &fs->files[i];
    if (!o.file)
        o.file = add_file(m, path);
    if (!o.file || !open_file(m, cpu, t, &o, 0))
        return;
    for (int i = 0; i < 3 && kind != TG_STEP_DELETE_FILE; i++) {
        transfer(m, cpu, t, &o);
        operation_end(m, cpu, t, o.irp, o.size_bytes, 0);
        o.offset += o.size_bytes;
    }
    int deletes = kind == TG_STEP_DELETE_FILE && o.file->opens == 1;
    if (deletes)
        delete_file(m, cpu, t, &o);
    close_file(m, cpu, t, &o);
    if (deletes)
        delete_key(m, cpu, t, o.file);
}

void tg_file_rundown(tg_machine *m, tg_cpu *cpu) {
    tg_filesystem *fs = m->filesystem;
    for (size_t i = 0; i < fs->count; i++) {
        tg_file *f = &fs->files[i];
        if (!f->key)
            continue;
        tg_context who = tg_who(m, cpu, NULL, tg_stamp(m, cpu, NULL));
        TG_EMIT(m->trace, TG_FILE_NAME_RUNDOWN, &who, tg_n(f->key), tg_text(f->path));
        tg_truth_name(m->truth, m, TG_NAME_FILE_KEY, f->key, f->path, &f->named);
    }
    for (size_t i = 0; i < m->processes.count; i++) {
        const tg_process *p = m->processes.items[i];
        for (size_t k = 0; k < p->threads.count; k++) {
            const tg_operation_state *o = ((tg_thread *)p->threads.items[k])->operation;
            if (o)
                tg_truth_name(m->truth, m, TG_NAME_FILE_OBJECT, o->object, o->file->path, &o->named);
        }
    }
}
