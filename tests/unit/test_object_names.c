/* Names of files, registry keys and volumes over time, in keyframes too, and the ends of file operations. */
#include "proto/state/keyframe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static const ea_guid FILE_IO = EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
static const ea_guid REGISTRY = EA_GUID(0xae53722e, 0xc863, 0x11d2, 0x86, 0x59, 0x00, 0xc0, 0x4f, 0xa3, 0x21, 0xa1);
static const ea_guid SYS_CONFIG = EA_GUID(0x9b79ee91, 0xb5fd, 0x41c0, 0xa2, 0x43, 0x42, 0x48, 0xe2, 0x66, 0xe9, 0xd0);

typedef struct fixture {
    ea_registry *registry;
    ea_object_names *names;
    ea_open_object_names *open; /* NULL: none */
    uint8_t payload[4096];
    size_t bytes;
    ea_record record;
} fixture;

static void setup(fixture *f, const ea_object_names_options *options) {
    memset(f, 0, sizeof *f);
    assert_int_equal(ea_registry_create(&f->registry, 0, NULL), 0);
    assert_int_equal(ea_object_names_create(&f->names, options, NULL), 0);
}

static void teardown(fixture *f) {
    ea_object_names_destroy(f->names);
    ea_open_object_names_destroy(f->open);
    ea_registry_destroy(f->registry);
}

static void number(fixture *f, uint64_t v, size_t width) {
    for (size_t i = 0; i < width; i++)
        f->payload[f->bytes++] = i < sizeof v ? (uint8_t)(v >> 8 * i) : 0;
}

static void text(fixture *f, const char *s) {
    for (;; s++) {
        number(f, (uint8_t)*s, 2);
        if (!*s)
            return;
    }
}

static const ea_class *begin(fixture *f, const ea_guid *provider, uint8_t opcode, uint8_t version) {
    f->record = (ea_record){.provider = *provider,
                            .opcode = opcode,
                            .version = version,
                            .pointer_size = 8,
                            .flags = EA_FLAG_CLASSIC_HEADER,
                            .payload = f->payload};
    f->bytes = 0;
    return ea_registry_find(f->registry, &f->record);
}

static void apply(fixture *f, const ea_class *c, int64_t utc_ns) {
    f->record.payload_bytes = (uint16_t)f->bytes;
    assert_true(ea_object_names_concerns(&f->record.provider, f->record.opcode));
    assert_int_equal(ea_object_names_apply(f->names, &f->record, c, utc_ns, NULL), 0);
    if (f->open)
        assert_int_equal(ea_open_object_names_apply(f->open, &f->record, c, utc_ns, NULL), 0);
}

static void name_event(fixture *f, uint8_t opcode, uint64_t key, const char *name, int64_t utc_ns) {
    const ea_class *c = begin(f, &FILE_IO, opcode, 2);
    number(f, key, 8);
    text(f, name);
    apply(f, c, utc_ns);
}

static void create_event(fixture *f, uint64_t irp, uint64_t object, const char *path, int64_t utc_ns) {
    const ea_class *c = begin(f, &FILE_IO, 64, 3);
    number(f, irp, 8);
    number(f, object, 8);
    number(f, 77, 4);
    number(f, 0, 12);
    text(f, path);
    apply(f, c, utc_ns);
}

static void simple_event(fixture *f, uint8_t opcode, uint64_t irp, uint64_t object, int64_t utc_ns) {
    const ea_class *c = begin(f, &FILE_IO, opcode, 3);
    number(f, irp, 8);
    number(f, object, 8);
    number(f, 0, 8);
    number(f, 77, 4);
    apply(f, c, utc_ns);
}

static void end_event(fixture *f, uint64_t irp, uint64_t extra, uint32_t status, int64_t utc_ns) {
    const ea_class *c = begin(f, &FILE_IO, 76, 3);
    number(f, irp, 8);
    number(f, extra, 8);
    number(f, status, 4);
    apply(f, c, utc_ns);
}

static void key_event(fixture *f, uint8_t opcode, uint64_t key, const char *name, int64_t utc_ns) {
    const ea_class *c = begin(f, &REGISTRY, opcode, 2);
    number(f, 0, 8); /* InitialTime */
    number(f, 0, 4); /* Status */
    number(f, 0, 4); /* Index */
    number(f, key, 8);
    text(f, name);
    apply(f, c, utc_ns);
}

static void expect(const fixture *f, enum ea_name_kind kind, uint64_t address, int64_t utc_ns, const char *name) {
    const char *found = ea_object_names_find(f->names, kind, address, utc_ns);
    if (name) {
        assert_non_null(found);
        assert_string_equal(found, name);
    } else {
        assert_null(found);
    }
}

static void test_files(void **state) {
    fixture f;
    (void)state;
    setup(&f, &(ea_object_names_options){0});
    name_event(&f, 32, 0x1000, "\\a", 100); /* created */
    name_event(&f, 35, 0x1000, "\\a", 200); /* deleted */
    name_event(&f, 32, 0x1000, "\\b", 300); /* the address again */
    name_event(&f, 36, 0x1000, "\\b", 900); /* rundown: nothing new */
    name_event(&f, 36, 0x2000, "\\c", 900); /* rundown: since ever */
    name_event(&f, 35, 0x3000, "\\d", 400); /* only its end */
    name_event(&f, 32, 0x4000, "\\e", 100);
    name_event(&f, 36, 0x4000, "\\f", 500); /* its end was lost */
    create_event(&f, 1, 0x5000, "\\g", 100);
    simple_event(&f, 66, 2, 0x5000, 150);
    name_event(&f, 36, 0x5000, "\\h", 900);
    expect(&f, EA_NAME_FILE, 0x1000, 150, NULL); /* not sealed: no answer yet */
    ea_object_names_seal(f.names);
    expect(&f, EA_NAME_FILE, 0x1000, 99, NULL);
    expect(&f, EA_NAME_FILE, 0x1000, 100, "\\a");
    expect(&f, EA_NAME_FILE, 0x1000, 200, "\\a"); /* the deletion sees it */
    expect(&f, EA_NAME_FILE, 0x1000, 201, NULL);
    expect(&f, EA_NAME_FILE, 0x1000, 300, "\\b");
    expect(&f, EA_NAME_FILE, 0x1000, INT64_MAX - 1, "\\b");
    expect(&f, EA_NAME_FILE, 0x2000, INT64_MIN, "\\c");
    expect(&f, EA_NAME_FILE, 0x2000, 5000, "\\c");
    expect(&f, EA_NAME_FILE, 0x3000, 1, "\\d");
    expect(&f, EA_NAME_FILE, 0x3000, 401, NULL);
    expect(&f, EA_NAME_FILE, 0x4000, 499, "\\e");
    expect(&f, EA_NAME_FILE, 0x4000, 500, "\\f");
    expect(&f, EA_NAME_FILE, 0x5000, 150, "\\g");
    expect(&f, EA_NAME_FILE, 0x5000, 151, "\\h"); /* since the end of what had the address before */
    expect(&f, EA_NAME_FILE, 0x6000, 100, NULL);
    expect(&f, EA_NAME_KEY, 0x1000, 100, NULL); /* another table */
    teardown(&f);
}

static void test_keys(void **state) {
    fixture f;
    (void)state;
    setup(&f, &(ea_object_names_options){0});
    key_event(&f, 24, 0x1000, "\\REGISTRY\\MACHINE", 10);
    key_event(&f, 22, 0x2000, "\\REGISTRY\\USER", 20);
    key_event(&f, 23, 0x2000, "\\REGISTRY\\USER", 30);
    key_event(&f, 25, 0x3000, "\\REGISTRY\\A", 90);
    key_event(&f, 25, 0, "\\REGISTRY\\NOTHING", 90); /* no address, no name */
    ea_object_names_seal(f.names);
    expect(&f, EA_NAME_KEY, 0x1000, 5, "\\REGISTRY\\MACHINE");
    expect(&f, EA_NAME_KEY, 0x2000, 19, NULL);
    expect(&f, EA_NAME_KEY, 0x2000, 30, "\\REGISTRY\\USER");
    expect(&f, EA_NAME_KEY, 0x2000, 31, NULL);
    expect(&f, EA_NAME_KEY, 0x3000, 0, "\\REGISTRY\\A");
    expect(&f, EA_NAME_KEY, 0, 90, NULL);
    teardown(&f);
}

static void test_volumes(void **state) {
    static const struct {
        const char *path, *dos;
    } CASES[] = {
        {"\\Device\\HarddiskVolume1\\x", "C:\\x"},
        {"\\Device\\HarddiskVolume12\\x", "D:\\x"},
        {"\\device\\harddiskvolume1\\x", "C:\\x"},
        {"\\Device\\HarddiskVolume123\\x", NULL},
        {"\\SystemRoot\\system32\\ntdll.dll", "C:\\Windows\\system32\\ntdll.dll"},
        {"\\Windows\\notepad.exe", "C:\\Windows\\notepad.exe"},
        {"\\??\\E:\\y", "E:\\y"},
        {"relative", NULL},
    };

    fixture f;
    ea_text out;
    (void)state;
    setup(&f, &(ea_object_names_options){0});
    ea_text_init(&out);
    static const char *const VOLUMES[][2] = {{"\\Device\\HarddiskVolume1\\", "C:\\"},
                                             {"\\Device\\HarddiskVolume12\\", "D:\\"},
                                             {"C:\\", "C:\\"},
                                             {"\\??\\", ""}};
    for (size_t i = 0; i < sizeof VOLUMES / sizeof VOLUMES[0]; i++) {
        const ea_class *c = begin(&f, &SYS_CONFIG, 35, 0);
        text(&f, VOLUMES[i][0]);
        text(&f, VOLUMES[i][1]);
        apply(&f, c, 1);
    }
    const ea_class *c = begin(&f, &SYS_CONFIG, 33, 0);
    text(&f, "C:\\Windows\\system32");
    text(&f, "C:\\Windows");
    apply(&f, c, 1);
    ea_object_names_seal(f.names);
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        ea_text_clear(&out);
        int known = ea_object_names_dos_path(f.names, CASES[i].path, strlen(CASES[i].path), &out);
        assert_int_equal(known, CASES[i].dos != NULL);
        if (known)
            assert_string_equal(out.data, CASES[i].dos);
    }
    ea_text_deinit(&out);
    teardown(&f);
}

static int completed(const fixture *f, uint8_t opcode, int64_t utc_ns, ea_completion *ret) {
    ea_record r = f->record;
    r.opcode = opcode;
    ea_resolver resolver = ea_object_names_resolver(f->names);
    return resolver.completion(resolver.arg, &r, ea_registry_find(f->registry, &r), utc_ns, ret);
}

static void test_operations(void **state) {
    fixture f;
    ea_completion end;
    (void)state;
    setup(&f, &(ea_object_names_options){0});
    create_event(&f, 0xAA, 0x1000, "\\a", 100);
    end_event(&f, 0xAA, 1, 0, 140);
    simple_event(&f, 73, 0xAA, 0x1000, 140); /* the IRP again, at the very time of the end */
    end_event(&f, 0xAA, 7, 0xC0000034, 190);
    simple_event(&f, 73, 0xAA, 0x1000, 200); /* its end is lost */
    simple_event(&f, 73, 0xAA, 0x1000, 210);
    end_event(&f, 0xAA, 8, 0, 220);
    end_event(&f, 0xBB, 8, 0, 230); /* its beginning is lost */
    ea_object_names_seal(f.names);
    /* only the IRP of this record matters from here on */
    begin(&f, &FILE_IO, 73, 3);
    number(&f, 0xAA, 8);
    number(&f, 0, 24);
    f.record.payload_bytes = (uint16_t)f.bytes;
    assert_true(completed(&f, 64, 100, &end));
    assert_null(end.operation);
    assert_int_equal(end.latency_ns, 40);
    assert_int_equal(end.information, 1);
    assert_true(completed(&f, 73, 140, &end));
    assert_int_equal(end.latency_ns, 50);
    assert_int_equal(end.status, 0xC0000034);
    assert_false(completed(&f, 73, 200, &end));
    assert_true(completed(&f, 73, 210, &end));
    assert_int_equal(end.information, 8);
    assert_true(completed(&f, 76, 140, &end));
    assert_string_equal(end.operation, "FileIo/Create");
    assert_true(completed(&f, 76, 190, &end));
    assert_string_equal(end.operation, "FileIo/Flush");
    assert_false(completed(&f, 76, 191, &end));
    size_t names, operations;
    uint64_t left_out;
    ea_object_names_counts(f.names, &names, &operations, &left_out);
    assert_int_equal(names, 1);
    assert_int_equal(operations, 3);
    assert_int_equal(left_out, 0);
    teardown(&f);
}

/* An event of a .NET runtime: GC/Start (1, version 1) and GC/Stop (2, version 1) with their number, GC/RestartEEStop
 * (3, version 1), GC/SuspendEEStart (9, version 1). fold: apply it, else only make the record. */
static const ea_class *collection_event(fixture *f, uint16_t id, uint32_t pid, uint32_t count, uint16_t instance,
                                        int64_t utc_ns, int fold) {
    static const ea_guid DOTNET = EA_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4);
    f->record =
        (ea_record){.provider = DOTNET, .id = id, .version = 1, .pid = pid, .pointer_size = 8, .payload = f->payload};
    f->bytes = 0;
    const ea_class *c = ea_registry_find(f->registry, &f->record);
    if (id == 9)
        number(f, 1, 4);
    if (id != 3)
        number(f, count, 4);
    if (id == 1)
        number(f, 0, 12);
    if (id == 2)
        number(f, 0, 4);
    number(f, instance, 2);
    f->record.payload_bytes = (uint16_t)f->bytes;
    assert_true(ea_object_names_concerns(&f->record.provider, id));
    if (fold)
        assert_int_equal(ea_object_names_apply(f->names, &f->record, c, utc_ns, NULL), 0);
    return c;
}

static void expect_collection(fixture *f, uint16_t id, uint32_t pid, uint32_t count, uint16_t instance, int64_t utc_ns,
                              int64_t latency_ns, const char *operation) {
    ea_completion end;
    ea_resolver resolver = ea_object_names_resolver(f->names);
    const ea_class *c = collection_event(f, id, pid, count, instance, utc_ns, 0);
    int known = resolver.completion(resolver.arg, &f->record, c, utc_ns, &end);
    assert_int_equal(known, latency_ns >= 0);
    if (!known)
        return;
    assert_int_equal(end.latency_ns, latency_ns);
    assert_int_equal(end.has_status, 0);
    if (operation)
        assert_string_equal(end.operation, operation);
    else
        assert_null(end.operation);
}

/* Collections of two processes and two runtimes at a time, one inside another; ends without a begin. */
static void test_collections(void **state) {
    fixture f;
    (void)state;
    setup(&f, &(ea_object_names_options){0});
    collection_event(&f, 3, 7, 0, 1, 90, 1);
    collection_event(&f, 9, 7, 4, 1, 100, 1);
    collection_event(&f, 9, 7, 4, 2, 105, 1);
    collection_event(&f, 1, 7, 5, 1, 110, 1);
    collection_event(&f, 1, 7, 6, 1, 120, 1); /* in the background of which */
    collection_event(&f, 1, 8, 5, 1, 125, 1);
    collection_event(&f, 2, 7, 6, 1, 130, 1);
    collection_event(&f, 2, 8, 5, 1, 145, 1);
    collection_event(&f, 3, 7, 0, 1, 150, 1);
    collection_event(&f, 2, 7, 5, 1, 190, 1);
    collection_event(&f, 9, 7, 4, 1, 200, 1);
    ea_object_names_seal(f.names);
    expect_collection(&f, 3, 7, 0, 1, 90, -1, NULL);
    expect_collection(&f, 9, 7, 4, 1, 100, 50, NULL);
    expect_collection(&f, 3, 7, 0, 1, 150, 50, "GC/SuspendEEStart");
    expect_collection(&f, 9, 7, 4, 2, 105, -1, NULL);
    expect_collection(&f, 1, 7, 5, 1, 110, 80, NULL);
    expect_collection(&f, 1, 7, 6, 1, 120, 10, NULL);
    expect_collection(&f, 1, 8, 5, 1, 125, 20, NULL);
    expect_collection(&f, 2, 8, 5, 1, 145, 20, "GC/Start");
    expect_collection(&f, 2, 7, 5, 1, 190, 80, "GC/Start");
    expect_collection(&f, 9, 7, 4, 1, 200, -1, NULL);
    teardown(&f);
}

static void test_bounds(void **state) {
    fixture f;
    ea_counters counters = {0};
    (void)state;
    setup(&f, &(ea_object_names_options){
                  .limit_names = 2, .limit_operations = 1, .limit_text_bytes = 4096, .counters = &counters});
    for (uint64_t i = 1; i <= 5; i++)
        create_event(&f, i, i * 0x1000, "\\x", 10 * (int64_t)i);
    ea_object_names_seal(f.names);
    expect(&f, EA_NAME_FILE, 0x2000, 30, "\\x");
    expect(&f, EA_NAME_FILE, 0x3000, 40, NULL);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_state_texts_left_out), 3 + 4);
    teardown(&f);
}

enum { KEYFRAME_UTC_NS = 1000 };

/* A keyframe's record on the other side. */
static int fold_there(void *arg, const ea_record *record) {
    fixture *there = arg;
    const ea_class *c = ea_registry_find(there->registry, record);
    if (ea_object_names_concerns(&record->provider, record->opcode))
        assert_int_equal(ea_object_names_apply(there->names, record, c, KEYFRAME_UTC_NS, NULL), 0);
    return 0;
}

static void send_keyframe(const fixture *from, fixture *there) {
    ea_machine *machine;
    assert_int_equal(ea_machine_create(&machine, &(ea_machine_options){0}, NULL), 0);
    assert_int_equal(ea_keyframe_write(machine, from->open, 1, &from->record, fold_there, there, NULL), 0);
    ea_machine_destroy(machine);
}

/* A reader that begins in the middle of a stream knows each open name, the time since when it is open, and the paths of
 * volumes. Ended names are not in the keyframe. */
static void test_keyframe(void **state) {
    fixture f, there;
    ea_counters counters = {0};
    (void)state;
    setup(&f, &(ea_object_names_options){0});
    setup(&there, &(ea_object_names_options){0});
    assert_int_equal(ea_open_object_names_create(&f.open, 1 << 20, &counters, NULL), 0);
    name_event(&f, 32, 0x1000, "\\a", 100);
    name_event(&f, 35, 0x1000, "\\a", 200); /* deleted */
    name_event(&f, 32, 0x1000, "\\b", 300); /* the address again */
    name_event(&f, 36, 0x2000, "\\Device\\HarddiskVolume4\\c", 400);
    create_event(&f, 1, 0x3000, "\\d", 500);
    simple_event(&f, 66, 2, 0x3000, 600); /* closed */
    create_event(&f, 3, 0x4000, "\\e", 700);
    create_event(&f, 4, 0x4000, "\\f", 800); /* its end was lost */
    key_event(&f, 22, 0x1000, "\\REGISTRY\\k", 850);
    const ea_class *c = begin(&f, &SYS_CONFIG, 35, 2);
    text(&f, "\\Device\\HarddiskVolume4");
    text(&f, "C:");
    apply(&f, c, 900);
    assert_int_equal(ea_open_object_names_count(f.open), 4);

    name_event(&there, 32, 0x4000, "\\old", 650); /* the other side knows something else of this one */
    name_event(&there, 32, 0x5000, "\\kept", 650);
    send_keyframe(&f, &there);
    send_keyframe(&f, &there); /* the same again says nothing new */
    ea_object_names_seal(there.names);
    expect(&there, EA_NAME_FILE, 0x1000, 299, NULL);
    expect(&there, EA_NAME_FILE, 0x1000, 300, "\\b");
    expect(&there, EA_NAME_FILE, 0x2000, INT64_MIN, "\\Device\\HarddiskVolume4\\c");
    expect(&there, EA_NAME_FILE, 0x3000, KEYFRAME_UTC_NS, NULL);
    expect(&there, EA_NAME_FILE, 0x4000, 799, "\\old");
    expect(&there, EA_NAME_FILE, 0x4000, 800, "\\f");
    expect(&there, EA_NAME_FILE, 0x5000, KEYFRAME_UTC_NS, "\\kept");
    expect(&there, EA_NAME_KEY, 0x1000, 850, "\\REGISTRY\\k");
    size_t names, operations;
    uint64_t left_out;
    ea_object_names_counts(there.names, &names, &operations, &left_out);
    assert_int_equal(names, 6);
    ea_text path;
    ea_text_init(&path);
    assert_int_equal(ea_object_names_dos_path(there.names, "\\Device\\HarddiskVolume4\\c", 26, &path), 1);
    assert_string_equal(path.data, "C:\\c");
    ea_text_deinit(&path);
    teardown(&f);
    teardown(&there);
}

/* When the table is full, the oldest name is dropped and counted. A name that is too long drops no other name. */
static void test_open_names_give_way(void **state) {
    enum { NAMES = 1000, LIMIT_BYTES = 32 << 10, ROWS = LIMIT_BYTES / 2 / 128, LONG = 1500 };

    fixture f, there;
    ea_counters counters = {0};
    char name[LONG + 1];
    (void)state;
    setup(&f, &(ea_object_names_options){0});
    setup(&there, &(ea_object_names_options){0});
    assert_int_equal(ea_open_object_names_create(&f.open, LIMIT_BYTES, &counters, NULL), 0);
    for (uint64_t i = 1; i <= NAMES; i++) {
        snprintf(name, sizeof name, "\\%u", (unsigned)i);
        create_event(&f, i, i * 0x10, name, (int64_t)i);
        assert_true(ea_open_object_names_count(f.open) <= ROWS);
    }
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_state_evicted), NAMES - ROWS);
    memset(name, 'x', LONG);
    name[LONG] = 0;
    create_event(&f, 1, 0x99990, name, 1);
    assert_int_equal(ea_counter_get(&counters, EA_COUNT_state_texts_left_out), 1);
    assert_int_equal(ea_open_object_names_count(f.open), ROWS);
    send_keyframe(&f, &there);
    ea_object_names_seal(there.names);
    expect(&there, EA_NAME_FILE, NAMES * 0x10, KEYFRAME_UTC_NS, "\\1000");
    expect(&there, EA_NAME_FILE, (NAMES - ROWS + 1) * 0x10, KEYFRAME_UTC_NS, "\\873");
    expect(&there, EA_NAME_FILE, (NAMES - ROWS) * 0x10, KEYFRAME_UTC_NS, NULL);
    teardown(&f);
    teardown(&there);
}

/* A payload cut anywhere says what is whole, or nothing. */
static void test_cut(void **state) {
    (void)state;
    for (uint8_t opcode = 0; opcode < 100; opcode++) {
        if (!ea_object_names_concerns(&FILE_IO, opcode))
            continue;
        for (size_t n = 0; n < 64; n++) {
            fixture f;
            setup(&f, &(ea_object_names_options){0});
            const ea_class *c = begin(&f, &FILE_IO, opcode, 3);
            uint8_t *exact = malloc(n ? n : 1);
            assert_non_null(exact);
            memset(exact, 0x41, n ? n : 1);
            f.record.payload = exact;
            f.record.payload_bytes = (uint16_t)n;
            assert_int_equal(ea_object_names_apply(f.names, &f.record, c, 1, NULL), 0);
            ea_object_names_seal(f.names);
            free(exact);
            teardown(&f);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),       cmocka_unit_test(test_keys),
        cmocka_unit_test(test_volumes),     cmocka_unit_test(test_operations),
        cmocka_unit_test(test_collections), cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_keyframe),    cmocka_unit_test(test_open_names_give_way),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
