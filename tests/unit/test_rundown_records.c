/* collector/pull/rundown_records.h: rows of the history become records, and a machine that reads these has the rows
 * again, with pointers of 8 and of 4 bytes; texts that a record cannot hold. */
#include "collector/pull/rundown_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { LONG_TEXT = 60000 };

typedef struct reading {
    ea_machine *machine;
    unsigned records, ids, names, volumes;
} reading;

static int read_back(void *arg, const ea_record *r, const ea_class *c, ea_err *err) {
    reading *x = arg;
    x->records++;
    x->ids += strncmp(c->name, "ImageID/", 8) == 0;
    x->names += strcmp(c->name, "FileIo/FileRundown") == 0 || strcmp(c->name, "Registry/KCBRundownBegin") == 0;
    x->volumes += strcmp(c->name, "SysConfigEx/VolumeMapping") == 0;
    assert_int_equal(r->time_raw, 4711);
    return ea_machine_apply(x->machine, r, c, 5000, err);
}

static ec_rundown_records *make(reading *x, unsigned pointer_size) {
    ec_rundown_records *w;
    ea_err err;
    const ec_rundown_options options = {.pointer_size = pointer_size, .time_raw = 4711, .emit = read_back, .arg = x};
    assert_int_equal(ea_machine_create(&x->machine, &(ea_machine_options){0}, &err), 0);
    assert_int_equal(ec_rundown_records_create(&w, &options, &err), 0);
    return w;
}

static void end(reading *x, ec_rundown_records *w) {
    ec_rundown_records_destroy(w);
    ea_machine_destroy(x->machine);
}

static const ea_process A_PROCESS = {.pid = 4712,
                                     .parent_pid = 4,
                                     .session_id = 1,
                                     .unique_key = 0xffff8001,
                                     .directory_table_base = 0x1000,
                                     .flags = 3,
                                     .image_name = "caf\xc3\xa9.exe",
                                     .command_line = "caf\xc3\xa9.exe \xe4\xb8\xad",
                                     .sid = "S-1-5-21-1-2-4294967295-500",
                                     .package = "Package",
                                     .application = "App"};

static void check_module(void *arg, const ea_module *m) {
    const ea_module *wanted = arg;
    assert_int_equal(m->pid, wanted->pid);
    assert_int_equal(m->base, wanted->base);
    assert_int_equal(m->size_bytes, wanted->size_bytes);
    assert_int_equal(m->default_base, wanted->default_base);
    assert_int_equal(m->checksum, wanted->checksum);
    assert_int_equal(m->timestamp, wanted->timestamp);
    assert_string_equal(m->path, wanted->path);
    assert_int_equal(m->has_pdb, 1);
    assert_memory_equal(&m->pdb_guid, &wanted->pdb_guid, sizeof m->pdb_guid);
    assert_int_equal(m->pdb_age, wanted->pdb_age);
    assert_string_equal(m->pdb_path, wanted->pdb_path);
    assert_string_equal(m->original_name, wanted->original_name);
}

typedef struct seen_modules {
    unsigned count;
    uint64_t bases;
} seen_modules;

static void see_module(void *arg, const ea_module *m) {
    seen_modules *seen = arg;
    seen->count++;
    seen->bases += m->base;
    assert_string_equal(m->path, "");
    assert_string_equal(m->pdb_path, "");
}

static void check_idle(void *arg, const ea_thread_row *t) {
    int *seen = arg;
    if (t->tid == 0) {
        assert_true(t->cpu == 0 || t->cpu == 5);
        *seen += t->cpu == 5;
    }
}

static void rows_come_back(void **state) {
    (void)state;
    for (unsigned pointer_size = 4; pointer_size <= 8; pointer_size += 4) {
        reading x = {0};
        ec_rundown_records *w = make(&x, pointer_size);
        ea_err err;
        ea_module m = {.pid = 4712,
                       .base = 0x400000,
                       .size_bytes = 0x8000,
                       .default_base = 0x10000,
                       .checksum = 5,
                       .timestamp = 77,
                       .path = "\\Device\\HarddiskVolume1\\a.dll",
                       .has_pdb = 1,
                       .pdb_guid = {{1, 2, 3}},
                       .pdb_age = 9,
                       .pdb_path = "a.pdb",
                       .original_name = "A.DLL"};
        const ea_thread_row threads[] = {
            {.tid = 0, .pid = 0, .cpu = 0, .stack_base = 0x7000, .name = ""},
            {.tid = 0, .pid = 0, .cpu = 5, .stack_base = 0x8000, .name = ""},
            {.tid = 10, .pid = 4712, .stack_base = 1, .win32_start_address = 2, .teb = 3, .name = "worker"},
            {.tid = 11, .pid = 4712, .start_address = 4, .win32_start_address = 5, .name = "old"}};
        const ea_name_row file = {.kind = EA_NAME_FILE, .address = 0x1234, .name = "\\Device\\x"},
                          key = {.kind = EA_NAME_KEY, .address = 0x5678, .name = "\\REGISTRY\\MACHINE"};
        int seen = 0;
        assert_int_equal(ec_rundown_process(w, &A_PROCESS, &err), 0);
        for (size_t i = 0; i < sizeof threads / sizeof *threads; i++)
            assert_int_equal(ec_rundown_thread(w, &threads[i], &err), 0);
        assert_int_equal(ec_rundown_module(w, &m, &err), 0);
        assert_int_equal(ec_rundown_name(w, &file, &err), 0);
        assert_int_equal(ec_rundown_name(w, &key, &err), 0);
        assert_int_equal(ec_rundown_volume(w, "\\Device\\HarddiskVolume1", "C:", &err), 0);
        assert_int_equal(x.ids, 2);
        assert_int_equal(x.names, 2);
        assert_int_equal(x.volumes, 1);
        assert_int_equal(x.records, 1 + 5 + 3 + 2 + 1);
        const ea_process *p = ea_machine_process(x.machine, 4712);
        assert_non_null(p);
        assert_int_equal(p->parent_pid, 4);
        assert_int_equal(p->session_id, 1);
        assert_int_equal(p->unique_key, A_PROCESS.unique_key);
        assert_int_equal(p->directory_table_base, A_PROCESS.directory_table_base);
        assert_int_equal(p->flags, 3);
        assert_string_equal(p->image_name, A_PROCESS.image_name);
        assert_string_equal(p->command_line, A_PROCESS.command_line);
        assert_string_equal(p->sid, A_PROCESS.sid);
        assert_string_equal(p->package, "Package");
        assert_string_equal(p->application, "App");
        const ea_thread_row *t = ea_machine_thread(x.machine, 10);
        assert_non_null(t);
        assert_string_equal(t->name, "worker");
        assert_int_equal(t->teb, 3);
        t = ea_machine_thread(x.machine, 11);
        assert_non_null(t);
        assert_string_equal(t->name, "old");
        assert_int_equal(t->start_address, 4);
        ea_machine_each_thread(x.machine, check_idle, &seen);
        assert_int_equal(seen, 1);
        ea_machine_each_module(x.machine, check_module, &m);
        assert_int_equal(ec_rundown_altered(w), 0);
        end(&x, w);
    }
}

static void what_a_record_cannot_hold(void **state) {
    (void)state;
    reading x = {0};
    ec_rundown_records *w = make(&x, 4);
    ea_err err;
    char *line = malloc(LONG_TEXT + 1);
    ea_process p = A_PROCESS;
    assert_non_null(line);
    memset(line, 'x', LONG_TEXT); /* 120,000 bytes of UTF-16 */
    line[LONG_TEXT] = 0;
    p.command_line = line;
    assert_int_equal(ec_rundown_process(w, &p, &err), 0);
    assert_int_equal(ec_rundown_altered(w), 1);
    assert_string_equal(ea_machine_process(x.machine, p.pid)->command_line, "");
    assert_string_equal(ea_machine_process(x.machine, p.pid)->image_name, p.image_name);
    p.pid = 8;
    p.command_line = "";
    p.image_name = "a\xe4\xb8\xad.exe"; /* no character of Windows-1252 */
    p.sid = "S-1-x";
    p.unique_key = UINT64_C(0xffff800000000001); /* more than a pointer of this machine holds */
    assert_int_equal(ec_rundown_process(w, &p, &err), 0);
    assert_int_equal(ec_rundown_altered(w), 2);
    assert_string_equal(ea_machine_process(x.machine, 8)->image_name, "a?.exe");
    assert_string_equal(ea_machine_process(x.machine, 8)->sid, "");
    assert_int_equal(ea_machine_process(x.machine, 8)->unique_key, 1);
    const ea_module
        unknown = {.pid = 8, .base = UINT64_C(0x100020000), .path = line, .pdb_path = "", .original_name = ""},
        known = {.pid = 8, .base = 0x30000, .path = "", .pdb_path = line, .original_name = line, .has_pdb = 1};
    seen_modules seen = {0};
    assert_int_equal(ec_rundown_module(w, &unknown, &err), 0);
    assert_int_equal(x.ids, 0); /* ids would say that it has no PDB */
    assert_int_equal(ec_rundown_altered(w), 3);
    assert_int_equal(ec_rundown_module(w, &known, &err), 0);
    assert_int_equal(x.ids, 2);
    assert_int_equal(ec_rundown_altered(w), 5);
    ea_machine_each_module(x.machine, see_module, &seen);
    assert_int_equal(seen.count, 2);
    assert_int_equal(seen.bases, 0x20000 + 0x30000);
    free(line);
    end(&x, w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_come_back),
        cmocka_unit_test(what_a_record_cannot_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
