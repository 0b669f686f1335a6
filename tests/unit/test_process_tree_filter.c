/* Which records belong to a process and those that it starts: by their header, by their fields, by what they describe;
 * ids that begin anew elsewhere; records that are cut; the bound. */
#include "proto/state/process_tree_filter.h"
#include "tests/unit/machine_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { ROOT = 100, CHILD = 200, STRANGER = 900, NO_ID = -1, IDS_MAX = 1 << 20 };

static const ea_guid THREAD = EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
                     FILE_IO = EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3),
                     PERF_INFO = EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc),
                     STACK_WALK = EA_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3),
                     EVENT_TRACE = EA_GUID(0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3),
                     CONFIG = EA_GUID(0x01853a65, 0x418f, 0x4f36, 0xae, 0xfc, 0xdc, 0x0f, 0x1d, 0x2f, 0xd2, 0x35),
                     META_DATA = EA_GUID(0xbbccf6c1, 0x6cd1, 0x48c4, 0x80, 0xff, 0x83, 0x94, 0x82, 0xe3, 0x76, 0x71),
                     LOST = EA_GUID(0x6a399ae0, 0x4bc6, 0x4de9, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e),
                     PROVIDER = EA_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4);

typedef struct fixture {
    ea_registry *registry;
    ea_process_tree_filter *lineage;
    made_record made;
} fixture;

static void begin(fixture *f, int with_children) {
    memset(f, 0, sizeof *f);
    assert_int_equal(ea_registry_create(&f->registry, 0, NULL), 0);
    assert_int_equal(ea_process_tree_filter_create(&f->lineage, ROOT, with_children, NULL), 0);
}

static void end(fixture *f) {
    ea_process_tree_filter_destroy(f->lineage);
    ea_registry_destroy(f->registry);
}

static int take(fixture *f, const ea_record *r) {
    return ea_process_tree_filter_take(f->lineage, r, ea_registry_find(f->registry, r), NULL);
}

static int start_process(fixture *f, uint32_t pid, uint32_t parent) {
    return take(f, process_record(&f->made, OP_START, 1, pid, parent, pid, "some.exe", "some"));
}

static int start_thread(fixture *f, uint8_t opcode, uint32_t pid, uint32_t tid) {
    return take(f, thread_record(&f->made, opcode, 1, pid, tid, 0xfffff80000010000, 1));
}

/* A kernel event of any class without a process and a thread in its header. The payload follows by put...(). */
static made_record *kernel(fixture *f, const ea_guid *provider, uint8_t opcode, uint8_t version) {
    begin_record(&f->made, 0x3d6fa8d0, opcode, version, 1);
    f->made.record.provider = *provider;
    return &f->made;
}

static int sample_of(fixture *f, uint32_t tid) {
    made_record *r = kernel(f, &PERF_INFO, 46, 2);
    put64(r, 0xfffff80000001000);
    put32(r, tid);
    put32(r, 1);
    return take(f, end_record(r));
}

static int switch_between(fixture *f, uint32_t new_tid, uint32_t old_tid) {
    made_record *r = kernel(f, &THREAD, 36, 4);
    put32(r, new_tid);
    put32(r, old_tid);
    put64(r, 0);
    put64(r, 0);
    return take(f, end_record(r));
}

/* An event of a manifest's provider. */
static int user_event(fixture *f, uint32_t pid, uint32_t tid, uint32_t field) {
    made_record *r = kernel(f, &PROVIDER, 0, 0);
    r->record.flags = EA_FLAG_64_BIT_HEADER;
    r->record.id = 1;
    r->record.pid = pid;
    r->record.tid = tid;
    put32(r, field);
    return take(f, end_record(r));
}

static void test_headers(void **state) {
    fixture f;
    (void)state;
    begin(&f, 1);
    assert_int_equal(user_event(&f, ROOT, 1, 0), 1);
    assert_int_equal(user_event(&f, STRANGER, 1, ROOT),
                     0); /* a number that happens to be the same is no field of ours */
    assert_int_equal(user_event(&f, (uint32_t)NO_ID, (uint32_t)NO_ID, 0), 0);
    assert_int_equal(user_event(&f, (uint32_t)NO_ID, 101, 0), 0); /* a thread without an earlier event */
    assert_int_equal(start_thread(&f, OP_START, ROOT, 101), 1);
    assert_int_equal(user_event(&f, (uint32_t)NO_ID, 101, 0), 1);
    assert_int_equal(user_event(&f, STRANGER, 101, 0), 0); /* the header's process decides where there is one */
    assert_int_equal(ea_process_tree_filter_processes(f.lineage), 1);
    end(&f);
    ea_process_tree_filter_destroy(NULL);
}

static void test_children(void **state) {
    fixture f;
    (void)state;
    begin(&f, 1);
    assert_int_equal(start_process(&f, STRANGER, 4), 0);
    assert_int_equal(start_process(&f, CHILD, ROOT), 1);
    assert_int_equal(start_process(&f, CHILD + 1, CHILD), 1); /* and theirs */
    assert_int_equal(start_process(&f, STRANGER + 1, STRANGER), 0);
    assert_int_equal(ea_process_tree_filter_processes(f.lineage), 3);
    assert_int_equal(user_event(&f, CHILD + 1, 7, 0), 1);
    assert_int_equal(user_event(&f, STRANGER + 1, 7, 0), 0);
    /* a rundown names existing processes; it makes none of them a child */
    assert_int_equal(take(&f, process_record(&f.made, OP_DC_START, 1, 300, ROOT, 300, "old.exe", "old")), 0);
    assert_int_equal(user_event(&f, 300, 7, 0), 0);
    assert_int_equal(ea_process_tree_filter_processes(f.lineage), 3);
    /* events after the end of a process still belong to it */
    assert_int_equal(take(&f, process_record(&f.made, OP_END, 1, CHILD, ROOT, CHILD, "some.exe", "some")), 1);
    assert_int_equal(user_event(&f, CHILD, 7, 0), 1);
    end(&f);
}

static void test_alone(void **state) {
    fixture f;
    (void)state;
    begin(&f, 0);
    assert_int_equal(start_process(&f, CHILD, ROOT), 0);
    assert_int_equal(user_event(&f, CHILD, 7, 0), 0);
    assert_int_equal(start_thread(&f, OP_START, CHILD, 201), 0);
    assert_int_equal(sample_of(&f, 201), 0);
    assert_int_equal(start_thread(&f, OP_START, ROOT, 101), 1);
    assert_int_equal(sample_of(&f, 101), 1);
    assert_int_equal(ea_process_tree_filter_processes(f.lineage), 1);
    end(&f);
}

static void test_ids_come_again(void **state) {
    fixture f;
    (void)state;
    begin(&f, 1);
    assert_int_equal(start_process(&f, CHILD, ROOT), 1);
    assert_int_equal(start_thread(&f, OP_START, CHILD, 201), 1);
    assert_int_equal(start_process(&f, CHILD, 4), 0); /* a foreign process has that id now */
    assert_int_equal(user_event(&f, CHILD, 7, 0), 0);
    assert_int_equal(sample_of(&f, 201), 1); /* its thread's id is still the old one's */
    assert_int_equal(start_thread(&f, OP_START, CHILD, 201), 0);
    assert_int_equal(sample_of(&f, 201), 0);
    assert_int_equal(start_process(&f, CHILD, ROOT), 1); /* and a child of ours again, another one */
    assert_int_equal(ea_process_tree_filter_processes(f.lineage), 3);
    assert_int_equal(start_process(&f, ROOT, 4), 0); /* the first one's, too */
    assert_int_equal(user_event(&f, ROOT, 7, 0), 0);
    assert_int_equal(start_process(&f, CHILD + 1, ROOT), 0); /* so what that starts is not ours */
    assert_int_equal(user_event(&f, CHILD, 7, 0), 1);
    end(&f);
}

static void test_threads(void **state) {
    fixture f;
    (void)state;
    begin(&f, 1);
    assert_int_equal(start_thread(&f, OP_DC_START, ROOT, 101), 1); /* one that is there already */
    assert_int_equal(start_thread(&f, OP_START, STRANGER, 901), 0);
    assert_int_equal(sample_of(&f, 101), 1);
    assert_int_equal(sample_of(&f, 901), 0);
    assert_int_equal(switch_between(&f, 901, 101), 1); /* to it or from it */
    assert_int_equal(switch_between(&f, 101, 0), 1);
    assert_int_equal(switch_between(&f, 901, 0), 0);
    assert_int_equal(start_thread(&f, OP_END, ROOT, 101), 1);
    assert_int_equal(switch_between(&f, 901, 101), 1); /* its last switch comes after its end */
    assert_int_equal(start_thread(&f, OP_DC_START, STRANGER, 101), 0);
    assert_int_equal(switch_between(&f, 901, 101), 0);
    end(&f);
}

/* A field as wide as a pointer. */
static int read_by(fixture *f, uint64_t tid, uint8_t version) {
    made_record *r = kernel(f, &FILE_IO, 67, version);
    put64(r, 0);
    put64(r, 0xffffc00000000010);
    put64(r, tid);
    put64(r, 0);
    put64(r, 0);
    put64(r, 0);
    return take(f, end_record(r));
}

static void test_fields(void **state) {
    fixture f;
    (void)state;
    begin(&f, 1);
    assert_int_equal(start_thread(&f, OP_START, ROOT, 101), 1);
    assert_int_equal(read_by(&f, 101, 2), 1);
    assert_int_equal(read_by(&f, 102, 2), 0);
    assert_int_equal(read_by(&f, (UINT64_C(1) << 32) + 101, 2), 0); /* all eight bytes count */
    assert_int_equal(take(&f, image_record(&f.made, OP_LOAD, 1, ROOT, 0x10000, 0x1000, "a.dll")), 1);
    assert_int_equal(take(&f, image_record(&f.made, OP_LOAD, 1, STRANGER, 0x10000, 0x1000, "a.dll")), 0);
    /* a stack names its process and thread */
    for (uint32_t pid = ROOT; pid <= STRANGER; pid += STRANGER - ROOT) {
        made_record *r = kernel(&f, &STACK_WALK, 32, 2);
        put64(r, 1);
        put32(r, pid);
        put32(r, 4242);
        put64(r, 0x7ff600000000);
        assert_int_equal(take(&f, end_record(r)), pid == ROOT);
    }
    end(&f);
}

static void test_descriptions(void **state) {
    const struct {
        const ea_guid *provider;
        uint8_t opcode;
        int belongs;
    } CASES[] = {{&EVENT_TRACE, 0, 1}, {&EVENT_TRACE, 8, 1}, {&EVENT_TRACE, 255, 1}, {&CONFIG, 10, 1},
                 {&META_DATA, 32, 1},  {&LOST, 32, 1},       {&FILE_IO, 0, 1},       {&FILE_IO, 31, 0},
                 {&FILE_IO, 32, 1},    {&FILE_IO, 36, 1},    {&FILE_IO, 37, 0},      {&PERF_INFO, 47, 0},
                 {&PERF_INFO, 48, 1},  {&PERF_INFO, 49, 0},  {&PERF_INFO, 71, 0},    {&PERF_INFO, 72, 1},
                 {&PERF_INFO, 74, 1},  {&PERF_INFO, 75, 0},  {&STACK_WALK, 33, 0},   {&STACK_WALK, 34, 1},
                 {&STACK_WALK, 38, 1}, {&STACK_WALK, 39, 0}, {&PROVIDER, 0, 0}};

    fixture f;
    (void)state;
    begin(&f, 1);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        made_record *r = kernel(&f, CASES[i].provider, CASES[i].opcode, 2);
        if (take(&f, end_record(r)) != CASES[i].belongs)
            fail_msg("description %zu, opcode %u", i, CASES[i].opcode);
        r->record.flags = EA_FLAG_64_BIT_HEADER; /* the same GUID, but not from the kernel */
        assert_int_equal(take(&f, end_record(r)), 0);
    }
    /* the kernel's images, and their ids; not those of other processes */
    for (uint32_t pid = 0; pid <= 8; pid += 4) {
        assert_int_equal(take(&f, image_record(&f.made, OP_DC_START, 1, pid, 0x10000, 0x1000, "ntoskrnl.exe")),
                         pid != 8);
        assert_int_equal(take(&f, image_id_record(&f.made, 1, pid, 0x10000, 7, "ntoskrnl.exe")), pid != 8);
        assert_int_equal(take(&f, pdb_record(&f.made, 1, pid, 0x10000, 7, 1, "ntkrnlmp.pdb")), pid != 8);
    }
    end(&f);
}

/* Payloads of each length shorter than complete: a missing field neither adds nor removes a process. */
static void test_cut_records(void **state) {
    fixture f;
    (void)state;
    begin(&f, 1);
    const ea_record *whole = process_record(&f.made, OP_START, 1, CHILD, ROOT, 1, "some.exe", "some");
    ea_record cut = *whole;

    enum { NAMED = 16 }; /* up to ProcessId and ParentId */

    for (cut.payload_bytes = 0; cut.payload_bytes < NAMED; cut.payload_bytes++) {
        assert_int_equal(take(&f, &cut), 0);
        assert_int_equal(user_event(&f, CHILD, 7, 0), 0);
        whole = process_record(&f.made, OP_START, 1, CHILD, ROOT, 1, "some.exe", "some");
    }
    assert_int_equal(start_process(&f, CHILD, ROOT), 1);
    cut = *process_record(&f.made, OP_START, 1, CHILD, 4, 1, "other.exe", "other");
    for (cut.payload_bytes = 0; cut.payload_bytes < NAMED; cut.payload_bytes++)
        assert_int_equal(take(&f, &cut), cut.payload_bytes >= 12); /* its process id came, and is ours */
    assert_int_equal(user_event(&f, CHILD, 7, 0), 1);
    cut = *thread_record(&f.made, OP_START, 1, ROOT, 101, 0, 1);
    for (cut.payload_bytes = 0; cut.payload_bytes < 8; cut.payload_bytes++)
        assert_int_equal(take(&f, &cut), cut.payload_bytes >= 4);
    assert_int_equal(user_event(&f, (uint32_t)NO_ID, 101, 0), 0);
    end(&f);
}

static void test_bounds(void **state) {
    fixture f;
    ea_err err = {0};
    (void)state;
    begin(&f, 1);
    for (uint32_t tid = 1; tid <= IDS_MAX; tid++)
        assert_int_equal(start_thread(&f, OP_START, ROOT, tid), 1);
    const ea_record *r = thread_record(&f.made, OP_START, 1, ROOT, IDS_MAX + 1, 0, 1);
    assert_int_equal(ea_process_tree_filter_take(f.lineage, r, ea_registry_find(f.registry, r), &err), EA_ELIMIT);
    assert_non_null(strstr(err.message, "too many"));
    assert_int_equal(start_thread(&f, OP_START, ROOT, IDS_MAX), 1);     /* one that is known needs no room */
    assert_int_equal(start_thread(&f, OP_START, STRANGER, IDS_MAX), 0); /* an id that goes makes room */
    assert_int_equal(start_thread(&f, OP_START, ROOT, IDS_MAX + 1), 1);
    assert_int_equal(sample_of(&f, IDS_MAX + 1), 1);
    for (uint32_t pid = 1; pid < IDS_MAX; pid++) /* the root is the first */
        assert_int_equal(start_process(&f, IDS_MAX + pid, ROOT), 1);
    r = process_record(&f.made, OP_START, 1, 3 * IDS_MAX, ROOT, 1, "some.exe", "some");
    assert_int_equal(ea_process_tree_filter_take(f.lineage, r, ea_registry_find(f.registry, r), &err), EA_ELIMIT);
    assert_int_equal(ea_process_tree_filter_processes(f.lineage), IDS_MAX);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_headers),        cmocka_unit_test(test_children),    cmocka_unit_test(test_alone),
        cmocka_unit_test(test_ids_come_again), cmocka_unit_test(test_threads),     cmocka_unit_test(test_fields),
        cmocka_unit_test(test_descriptions),   cmocka_unit_test(test_cut_records), cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
