/* Facts about processes and modules in other events: identities of images, what the agent read in their files, and
 * labels, elevation and logon sessions of processes. */
#include "proto/state/image_facts.h"
#include "tests/unit/machine_kit.h"

static void count_id(void *arg, const ea_module *id, int64_t utc_ns) {
    (void)id, (void)utc_ns;
    ++*(size_t *)arg;
}

/* An id after whose time no record of a process, thread or image follows. It is settled when a keyframe is made. */
static void test_module_ids_settle(void **state) {
    world *w = *state;
    size_t waiting = 0;
    image(w, OP_LOAD, 100, 8, 0x10000);
    apply(w, pdb_record(&w->r, 200, 8, 0x10000, 0xab, 2, "a.pdb"));
    apply(w, pdb_record(&w->r, 200, 8, 0x20000, 0xac, 2, "absent.pdb"));
    assert_int_equal(ea_machine_settle_ids(w->machine, 200), 0); /* its image may still come */
    ea_machine_each_pending_id(w->machine, count_id, &waiting);
    assert_int_equal(waiting, 2);
    assert_int_equal(w->history.modules[0].has_pdb, 0);
    assert_int_equal(ea_machine_settle_ids(w->machine, 201), 0);
    waiting = 0;
    ea_machine_each_pending_id(w->machine, count_id, &waiting);
    assert_int_equal(waiting, 0);
    assert_int_equal(w->history.module_count, 1);
    assert_int_equal(w->history.modules[0].has_pdb, 1);
    assert_string_equal(w->history.modules[0].pdb_path, "a.pdb");
}

static void image_facts(world *w, int64_t t, uint32_t pid, uint64_t base, const char *path,
                        const ea_image_facts *facts) {
    ea_text payload;
    ea_text_init(&payload);
    ea_image_facts_write(&payload, pid, base, path, facts);
    ea_record r = ea_image_facts_record(&(ea_record){.time_raw = t, .cpu = 1, .logger = 2}, &payload);
    apply(w, &r);
    ea_text_deinit(&payload);
}

static void assert_more_facts(const ea_module *m) {
    assert_string_equal(m->md5, "0102");
    assert_string_equal(m->sha1, "0304");
    assert_string_equal(m->imphash, "0506");
    assert_string_equal(m->description, "A thing");
}

/* What an image's file says completes the module of that path, open or ended, and changes nothing that is known. */
static void test_module_facts(void **state) {
    world *w = *state;
    static const ea_image_facts FACTS = {.file_bytes = 4711,
                                         .image_bytes = 0x99000,
                                         .timestamp = 0x5000,
                                         .checksum = 77,
                                         .pdb_guid = EA_GUID(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
                                         .pdb_age = 3,
                                         .sha256 = "ab12",
                                         .version = "1.2.3.4",
                                         .company = "Maker",
                                         .product = "Thing",
                                         .original_name = "A.DLL",
                                         .md5 = "0102",
                                         .sha1 = "0304",
                                         .imphash = "0506",
                                         .description = "A thing",
                                         .pdb_path = "a.pdb"};
    static const ea_image_facts NOTHING = {.file_bytes = 1,
                                           .sha256 = "cd",
                                           .version = "",
                                           .company = "",
                                           .product = "",
                                           .original_name = "",
                                           .md5 = "",
                                           .sha1 = "",
                                           .imphash = "",
                                           .description = "",
                                           .pdb_path = ""};
    image(w, OP_LOAD, 100, 8, 0x10000);
    image(w, OP_LOAD, 100, 8, 0x20000);
    image(w, OP_END, 110, 8, 0x20000);
    size_t calls = w->history.calls;
    image_facts(w, 120, 8, 0x10000, "\\Windows\\b.dll", &FACTS); /* another path, base, process */
    image_facts(w, 120, 8, 0x30000, "\\Windows\\a.dll", &FACTS);
    image_facts(w, 120, 12, 0x10000, "\\Windows\\a.dll", &FACTS);
    assert_int_equal(w->history.calls, calls);
    image_facts(w, 130, 8, 0x20000, "\\Windows\\a.dll", &FACTS);
    image_facts(w, 130, 8, 0x10000, "\\Windows\\a.dll", &FACTS);
    restart(w);
    image_facts(w, 140, 8, 0x10000, "\\Windows\\a.dll", &NOTHING);
    assert_int_equal(w->history.calls, calls + 2);
    for (int i = 0; i < 2; i++) {
        const ea_module *m = &w->history.modules[i];
        check_life(&m->life, 100, i ? 110 : INT64_MAX, EA_BEGIN_EVENT, i ? EA_FINISH_EVENT : EA_FINISH_OPEN);
        assert_int_equal(m->size_bytes, 0x77000); /* the event's */
        assert_int_equal(m->timestamp, 0x5000);
        assert_int_equal(m->file_bytes, 4711);
        assert_true(m->has_pdb && ea_guid_equal(&m->pdb_guid, &FACTS.pdb_guid));
        assert_int_equal(m->pdb_age, 3);
        assert_string_equal(m->pdb_path, "a.pdb");
        assert_string_equal(m->sha256, "ab12");
        assert_string_equal(m->file_version, "1.2.3.4");
        assert_string_equal(m->company, "Maker");
        assert_string_equal(m->product, "Thing");
        assert_string_equal(m->original_name, "A.DLL");
        assert_more_facts(m);
    }
    /* a keyframe carries them: another machine that knows nothing else has them from it */
    ea_machine *from = w->machine;
    assert_int_equal(ea_machine_create(&w->machine, &w->options, NULL), 0);
    history_deinit(&w->history);
    ea_err err = {0};
    assert_int_equal(ea_keyframe_write(from, NULL, 1, &(ea_record){.time_raw = 200}, apply_made, w, &err), 0);
    ea_machine_destroy(from);
    assert_int_equal(w->history.module_count, 1);
    assert_int_equal(w->history.modules[0].file_bytes, 4711);
    assert_string_equal(w->history.modules[0].sha256, "ab12");
    assert_string_equal(w->history.modules[0].file_version, "1.2.3.4");
    assert_string_equal(w->history.modules[0].company, "Maker");
    assert_string_equal(w->history.modules[0].product, "Thing");
    assert_more_facts(w->history.modules);
}

/* ---- facts of processes ---- */

static const int64_t MS = 1000000, T0 = (int64_t)1700000000 * 1000000000;

static void put_sid(made_record *r, uint32_t level) {
    put(r, (const uint8_t[]){1, 1, 0, 0, 0, 0, 0, 16}, 8);
    put32(r, level);
}

static void add_field(ea_text *t, const char *name, uint8_t type) {
    ea_text_add(t, name, strlen(name) + 1);
    ea_text_char(t, (char)type);
}

/* Applies the record with a class of these fields ("NAME type"), as TraceLogging describes it. */
static void apply_described(world *w, const ea_guid *provider, uint16_t id, int64_t t, const ea_text *fields) {
    ea_text metadata;
    ea_text_init(&metadata);
    uint8_t size[2];
    ea_store16(size, (uint16_t)(5 + fields->len_bytes));
    ea_text_add(&metadata, size, sizeof size);
    ea_text_add(&metadata, "\0P", 3);
    ea_text_add(&metadata, fields->data, fields->len_bytes);
    const ea_ext schema = {EA_EXT_SCHEMA_TL, 1, (uint16_t)metadata.len_bytes, (const uint8_t *)metadata.data};
    w->r.record = (ea_record){.provider = *provider,
                              .id = id,
                              .flags = EA_FLAG_64_BIT_HEADER,
                              .pointer_size = 8,
                              .header_type = EA_HEADER_EVENT64,
                              .time_raw = t,
                              .payload = w->r.payload,
                              .payload_bytes = (uint16_t)w->r.len,
                              .ext = &schema,
                              .ext_count = 1};
    assert_false(metadata.failed);
    apply(w, &w->r.record);
    ea_text_deinit(&metadata);
}

enum { TL_STRING = 1, TL_U32 = 8, TL_U64 = 10, TL_FILETIME = 17, TL_SID = 19 };

/* Kernel-Process ProcessStart (1) or ProcessRundown (15). */
static void kernel_process(world *w, uint16_t id, int64_t t, int64_t created, uint32_t pid, uint32_t parent,
                           uint32_t type, uint32_t level) {
    static const ea_guid PROVIDER = EA_GUID(0x22fb2cd6, 0x0e7b, 0x422b, 0xa0, 0xc7, 0x2f, 0xad, 0x1f, 0xd0, 0xe7, 0x16);
    ea_text fields;
    ea_text_init(&fields);
    add_field(&fields, "ProcessID", TL_U32);
    add_field(&fields, "CreateTime", TL_FILETIME);
    add_field(&fields, "ParentProcessID", TL_U32);
    add_field(&fields, "ProcessTokenElevationType", TL_U32);
    add_field(&fields, "ProcessTokenIsElevated", TL_U32);
    add_field(&fields, "MandatoryLabel", TL_SID);
    w->r.len = 0;
    put32(&w->r, pid);
    put64(&w->r, (uint64_t)created / 100 + 116444736000000000u);
    put32(&w->r, parent);
    put32(&w->r, type);
    put32(&w->r, type == 2);
    put_sid(&w->r, level);
    apply_described(w, &PROVIDER, id, t, &fields);
    ea_text_deinit(&fields);
}

/* Security-Auditing 4688; target: 0: none; UINT64_MAX: a version without the field. */
static void process_created(world *w, int64_t t, uint32_t pid, uint64_t subject, uint64_t target) {
    static const ea_guid PROVIDER = EA_GUID(0x54849625, 0x5478, 0x4994, 0xa5, 0xba, 0x3e, 0x3b, 0x03, 0x28, 0xc3, 0x0d);
    ea_text fields;
    ea_text_init(&fields);
    add_field(&fields, "SubjectLogonId", TL_U64);
    add_field(&fields, "NewProcessId", TL_U64);
    add_field(&fields, "TokenElevationType", TL_STRING);
    add_field(&fields, "ProcessId", TL_U64);
    w->r.len = 0;
    put64(&w->r, subject);
    put64(&w->r, pid);
    put_utf16(&w->r, "%%1938");
    put64(&w->r, 4);
    if (target != UINT64_MAX) {
        add_field(&fields, "TargetLogonId", TL_U64);
        put64(&w->r, target);
    }
    apply_described(w, &PROVIDER, 4688, t, &fields);
    ea_text_deinit(&fields);
}

static void count_facts(void *arg, const ea_process_facts *facts) {
    (void)facts;
    ++*(size_t *)arg;
}

static size_t waiting_facts(const world *w) {
    size_t count = 0;
    ea_machine_each_pending_facts(w->machine, count_facts, &count);
    return count;
}

static void check_facts(const ea_process *p, const char *label, uint32_t type, uint32_t elevated, uint64_t logon) {
    assert_string_equal(p->mandatory_label, label);
    assert_int_equal(p->elevation_type, type);
    assert_int_equal(p->elevated, elevated);
    assert_int_equal(p->logon_id, logon);
}

/* Facts that come before or after the process's own record, and those that are of another one. */
static void test_process_facts(void **state) {
    world *w = *state;
    const ea_process *of;
    process(w, OP_START, T0, 8, 4, 0x800);
    kernel_process(w, 1, T0 + MS, T0 - MS, 8, 4, 2, 12288);
    process_created(w, T0 + MS, 8, 0x3e7, 0);
    check_facts(&w->history.processes[0], "S-1-16-12288", 2, 2, 0x3e7);
    kernel_process(w, 1, T0 + 2 * MS, T0 - MS, 8, 4, 3, 8192); /* what is known stays */
    check_facts(&w->history.processes[0], "S-1-16-12288", 2, 2, 0x3e7);
    assert_int_equal(waiting_facts(w), 0);

    /* the pid begins again: facts before its record wait, also over a restart */
    process(w, OP_END, T0 + 10 * MS, 8, 4, 0x800);
    kernel_process(w, 1, T0 + 20 * MS, T0 + 20 * MS, 8, 4, 1, 8192);
    assert_int_equal(waiting_facts(w), 1);
    restart(w);
    process_created(w, T0 + 20 * MS, 8, 0x3e7, 0x12345);
    assert_int_equal(waiting_facts(w), 2);
    process(w, OP_START, T0 + 21 * MS, 8, 4, 0x900);
    assert_int_equal(waiting_facts(w), 0);
    check_facts(&w->history.processes[0], "S-1-16-12288", 2, 2, 0x3e7);
    check_facts(&w->history.processes[1], "S-1-16-8192", 1, 1, 0x12345);

    /* of another parent, of a process a second older or younger; an older version of 4688 */
    process(w, OP_START, T0, 12, 4, 0xc00);
    kernel_process(w, 1, T0, T0, 12, 8, 2, 12288);
    kernel_process(w, 1, T0, T0 - 1001 * MS, 12, 4, 2, 12288);
    kernel_process(w, 1, T0, T0 + 1001 * MS, 12, 4, 2, 12288);
    process_created(w, T0, 12, 0x3e7, UINT64_MAX);
    assert_int_equal(waiting_facts(w), 3);
    check_facts(&w->history.processes[2], "", 3, 1, 0);

    /* a rundown: the process is older than all that is known of it; a minute later nothing waits for the pid */
    process(w, OP_DC_START, T0 + 61000 * MS, 12, 4, 0xc00);
    assert_int_equal(waiting_facts(w), 0);
    process(w, OP_DC_START, T0, 16, 4, 0x1000);
    kernel_process(w, 15, T0, T0 - 5000000 * MS, 16, 4, 0, 16384);
    check_facts(&w->history.processes[3], "S-1-16-16384", 0, 1, 0);
    kernel_process(w, 15, T0, T0 + 2000 * MS, 16, 4, 2, 8192);
    assert_int_equal(waiting_facts(w), 1);

    /* at most 64 wait */
    for (uint32_t i = 0; i < 70; i++)
        kernel_process(w, 1, T0, T0, 1000 + i, 4, 2, 12288);
    assert_int_equal(waiting_facts(w), 64);
    process(w, OP_START, T0, 1005, 4, 0);
    process(w, OP_START, T0, 1006, 4, 0);
    check_facts(ea_machine_process(w->machine, 1005), "", 0, 0, 0);
    check_facts(ea_machine_process(w->machine, 1006), "S-1-16-12288", 2, 2, 0);

    /* a keyframe carries them: another machine that knows nothing else has them from it */
    ea_machine *from = w->machine;
    assert_int_equal(ea_machine_create(&w->machine, &w->options, NULL), 0);
    history_deinit(&w->history);
    assert_int_equal(ea_keyframe_write(from, NULL, 1, &(ea_record){.time_raw = T0 + 70000 * MS}, apply_made, w, NULL),
                     0);
    ea_machine_destroy(from);
    of = ea_machine_process(w->machine, 8);
    assert_non_null(of);
    check_facts(of, "S-1-16-8192", 1, 1, 0x12345);
}

static void test_module_ids(void **state) {
    world *w = *state;
    /* An id before its load, at the same time: it applies to the new module, not to the replaced one. */
    image(w, OP_LOAD, 100, 8, 0x10000);
    apply(w, image_id_record(&w->r, 200, 8, 0x10000, 0x5000, "a.dll"));
    restart(w);
    apply(w, pdb_record(&w->r, 200, 8, 0x10000, 0xab, 2, "a.pdb"));
    restart(w);
    image(w, OP_LOAD, 200, 8, 0x10000);
    const ea_module *m = w->history.modules;
    assert_int_equal(m[0].has_pdb, 0);
    assert_int_equal(m[0].timestamp, 0);
    assert_int_equal(m[1].has_pdb, 1);
    assert_int_equal(m[1].pdb_guid.bytes[5], 0xab);
    assert_int_equal(m[1].pdb_age, 2);
    assert_string_equal(m[1].pdb_path, "a.pdb");
    assert_string_equal(m[1].original_name, "a.dll");
    assert_int_equal(m[1].timestamp, 0x5000);
    /* An id that comes late, after its module was unloaded: it is applied when time advances. Existing values are
     * kept. */
    image(w, OP_LOAD, 300, 8, 0x20000);
    image(w, OP_END, 310, 8, 0x20000);
    apply(w, pdb_record(&w->r, 400, 8, 0x20000, 0xcd, 1, "b.pdb"));
    apply(w, pdb_record(&w->r, 400, 8, 0x10000, 0xee, 9, "wrong.pdb"));
    apply(w, pdb_record(&w->r, 400, 8, 0x30000, 0xee, 9, "nowhere.pdb"));
    thread(w, OP_START, 401, 8, 80);
    m = w->history.modules;
    assert_int_equal(m[2].has_pdb, 1);
    assert_string_equal(m[2].pdb_path, "b.pdb");
    check_life(&m[2].life, 300, 310, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    assert_string_equal(m[1].pdb_path, "a.pdb");
    assert_int_equal(w->history.module_count, 3);
    /* more at one time than are remembered: none is lost */
    for (uint32_t i = 0; i < 200; i++)
        image(w, OP_LOAD, 500, 16, 0x100000 + i * 0x1000);
    for (uint32_t i = 0; i < 200; i++)
        apply(w, pdb_record(&w->r, 600, 16, 0x100000 + i * 0x1000, (uint8_t)i, 1, "c.pdb"));
    thread(w, OP_END, 601, 8, 80);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(w->history.modules[3 + i].has_pdb, 1);
        assert_int_equal(w->history.modules[3 + i].pdb_guid.bytes[0], (uint8_t)i);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_module_ids_settle),
        TEST(test_module_facts),
        TEST(test_process_facts),
        TEST(test_module_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
