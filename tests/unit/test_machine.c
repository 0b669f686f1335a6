/* The state's rules, one test each; then random records against a model that searches a plain list, with restarts. */
#include "tests/unit/machine_kit.h"

/* ---- one rule each ---- */

static void test_start_and_end(void **state) {
    world *w = *state;
    process(w, OP_START, 100, 8, 4, 0x800);
    process(w, OP_START, 200, 12, 8, 0xc00);
    assert_int_equal(w->history.process_count, 2);
    const ea_process *p = &w->history.processes[1];
    check_life(&p->life, 200, INT64_MAX, EA_BEGIN_EVENT, EA_FINISH_OPEN);
    assert_int_equal(p->parent_pid, 8);
    assert_int_equal(p->parent_instance, w->history.processes[0].life.instance);
    assert_int_equal(p->session_id, 1);
    assert_int_equal(p->unique_key, 0xc00);
    assert_int_equal(p->directory_table_base, 0x1aa000);
    assert_string_equal(p->image_name, "p12.exe");
    assert_string_equal(p->command_line, "cmd /c x");
    assert_string_equal(p->sid, "S-1-5-18");
    assert_string_equal(p->package, "");
    process(w, OP_END, 300, 12, 8, 0xc00);
    p = &w->history.processes[1];
    check_life(&p->life, 200, 300, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    assert_int_equal(p->exit_status, 7);
    assert_int_equal(w->history.calls, 3);
    assert_int_equal(counted(w, EA_COUNT_state_records), 3);
    assert_int_equal(counted(w, EA_COUNT_state_missed_starts) + counted(w, EA_COUNT_state_missed_ends), 0);
}

static void test_reused_pid_is_another_instance(void **state) {
    world *w = *state;
    process(w, OP_START, 100, 8, 4, 0x800);
    process(w, OP_END, 200, 8, 4, 0x800);
    process(w, OP_START, 300, 8, 4, 0x900);
    assert_int_equal(w->history.process_count, 2);
    check_life(&w->history.processes[0].life, 100, 200, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    check_life(&w->history.processes[1].life, 300, INT64_MAX, EA_BEGIN_EVENT, EA_FINISH_OPEN);
}

static void test_missed_end(void **state) {
    world *w = *state;
    process(w, OP_START, 100, 8, 4, 0x800);
    thread(w, OP_START, 110, 8, 80);
    image(w, OP_LOAD, 120, 8, 0x10000);
    process(w, OP_START, 300, 8, 4, 0x900);
    check_life(&w->history.processes[0].life, 100, 300, EA_BEGIN_EVENT, EA_FINISH_REPLACED);
    check_life(&w->history.processes[1].life, 300, INT64_MAX, EA_BEGIN_EVENT, EA_FINISH_OPEN);
    check_life(&w->history.threads[0].life, 110, 300, EA_BEGIN_EVENT, EA_FINISH_PROCESS_END);
    check_life(&w->history.modules[0].life, 120, 300, EA_BEGIN_EVENT, EA_FINISH_PROCESS_END);
    assert_int_equal(counted(w, EA_COUNT_state_missed_ends), 1);
}

static void test_missed_start(void **state) {
    world *w = *state;
    process(w, OP_START, 50, 4, 0, 0x400);
    process(w, OP_END, 200, 8, 4, 0x800);
    check_life(&w->history.processes[1].life, 50, 200, EA_BEGIN_END_ONLY, EA_FINISH_EVENT);
    /* a second end under the same pid: it began after the first one ended */
    process(w, OP_END, 300, 8, 4, 0x900);
    check_life(&w->history.processes[2].life, 200, 300, EA_BEGIN_END_ONLY, EA_FINISH_EVENT);
    thread(w, OP_END, 310, 8, 80);
    check_life(&w->history.threads[0].life, 50, 310, EA_BEGIN_END_ONLY, EA_FINISH_EVENT);
    image(w, OP_END, 320, 8, 0x10000);
    check_life(&w->history.modules[0].life, 50, 320, EA_BEGIN_END_ONLY, EA_FINISH_EVENT);
    assert_int_equal(counted(w, EA_COUNT_state_missed_starts), 4);
}

/* Buffers of another processor were read later: a Start follows its own End, or a rundown that named it. */
static void test_late_start(void **state) {
    world *w = *state;
    process(w, OP_START, 50, 4, 0, 0x400);
    process(w, OP_END, 200, 8, 4, 0x800);
    thread(w, OP_END, 210, 4, 80);
    image(w, OP_END, 220, 4, 0x10000);
    process(w, OP_START, 150, 8, 4, 0x800);
    thread(w, OP_START, 160, 4, 80);
    image(w, OP_LOAD, 170, 4, 0x10000);
    assert_int_equal(w->history.process_count, 2);
    check_life(&w->history.processes[1].life, 150, 200, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    assert_int_equal(w->history.thread_count, 1);
    check_life(&w->history.threads[0].life, 160, 210, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    assert_int_equal(w->history.module_count, 1);
    check_life(&w->history.modules[0].life, 170, 220, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    /* also of what is open; what it ends goes with it */
    process(w, OP_DC_START, 300, 12, 4, 0xc00);
    thread(w, OP_DC_START, 300, 12, 84);
    process(w, OP_START, 290, 12, 4, 0xc00);
    check_life(&w->history.processes[2].life, 290, INT64_MAX, EA_BEGIN_EVENT, EA_FINISH_OPEN);
    check_life(&w->history.threads[1].life, 50, INT64_MAX, EA_BEGIN_RUNDOWN_START, EA_FINISH_OPEN);
    /* a second Start, one that is no earlier, and one of another key are about other instances */
    process(w, OP_START, 280, 12, 4, 0xc00);
    assert_int_equal(w->history.process_count, 4);
    process(w, OP_END, 400, 16, 4, 0x1000);
    process(w, OP_START, 400, 16, 4, 0x1000);
    assert_int_equal(w->history.process_count, 6);
    process(w, OP_END, 500, 20, 4, 0x1400);
    process(w, OP_START, 490, 20, 4, 0x1800);
    assert_int_equal(w->history.process_count, 8);
    assert_int_equal(counted(w, EA_COUNT_state_missed_starts), 5);
}

static void test_rundown(void **state) {
    world *w = *state;
    process(w, OP_START, 100, 4, 0, 0x400);
    process(w, OP_DC_START, 200, 8, 4, 0x800); /* was there before */
    check_life(&w->history.processes[1].life, 100, INT64_MAX, EA_BEGIN_RUNDOWN_START, EA_FINISH_OPEN);
    size_t calls = w->history.calls;
    process(w, OP_DC_END, 300, 8, 4, 0x800); /* nothing new */
    process(w, OP_DC_END, 300, 4, 0, 0x400);
    assert_int_equal(w->history.calls, calls);
    process(w, OP_DC_END, 300, 16, 4, 0x1000);
    check_life(&w->history.processes[2].life, 100, INT64_MAX, EA_BEGIN_RUNDOWN_END, EA_FINISH_OPEN);
    /* not before the end of the last of its pid */
    process(w, OP_END, 400, 8, 4, 0x800);
    process(w, OP_DC_END, 500, 8, 4, 0x900);
    check_life(&w->history.processes[3].life, 400, INT64_MAX, EA_BEGIN_RUNDOWN_END, EA_FINISH_OPEN);
}

/* The records of a second session's rundown come before or after the events that the first session saw at the same
 * time. */
static void test_rundown_comes_late(void **state) {
    world *w = *state;
    const int64_t minute = (int64_t)60 * 1000000000;
    history *h = &w->history;
    process(w, OP_START, 50, 4, 0, 0x400);
    /* 8 began before its rundown, and its Start comes later. The existing rows under its pid are of another process. */
    thread(w, OP_DC_START, 80, 8, 79);
    thread(w, OP_DC_START, 110, 8, 80);
    image(w, OP_DC_START, 110, 8, 0x10000);
    process(w, OP_START, 100, 8, 4, 0x800);
    check_life(&h->threads[0].life, 50, 100, EA_BEGIN_RUNDOWN_START, EA_FINISH_PROCESS_END);
    check_life(&h->threads[1].life, 100, INT64_MAX, EA_BEGIN_RUNDOWN_START, EA_FINISH_OPEN);
    check_life(&h->modules[0].life, 100, INT64_MAX, EA_BEGIN_RUNDOWN_START, EA_FINISH_OPEN);
    assert_int_equal(h->threads[1].process_instance, h->processes[1].life.instance);
    assert_int_equal(h->modules[0].process_instance, h->processes[1].life.instance);
    /* 8 ended after its rundown, and its End comes earlier */
    process(w, OP_END, 300, 8, 4, 0x800);
    process(w, OP_DC_START, 250, 8, 4, 0x800);
    assert_int_equal(h->process_count, 2);
    thread(w, OP_DC_START, 250, 8, 80);
    image(w, OP_DC_START, 250, 8, 0x10000);
    assert_int_equal(h->thread_count + h->module_count, 3);
    thread(w, OP_DC_START, 250, 8, 84); /* a thread that was unknown */
    image(w, OP_DC_START, 250, 8, 0x20000);
    check_life(&h->threads[2].life, 50, 300, EA_BEGIN_RUNDOWN_START, EA_FINISH_PROCESS_END);
    check_life(&h->modules[1].life, 50, 300, EA_BEGIN_RUNDOWN_START, EA_FINISH_PROCESS_END);
    assert_int_equal(h->threads[2].process_instance, h->processes[1].life.instance);
    /* another one of that pid, which is over as well */
    process(w, OP_DC_START, 250, 8, 4, 0x900);
    assert_int_equal(h->process_count, 2);
    /* so much later that the wall clock was set back in between: the process of the rundown exists */
    process(w, OP_START, 400, 12, 4, 0xc00);
    process(w, OP_END, 500 + minute, 12, 4, 0xc00);
    process(w, OP_DC_START, 500, 12, 4, 0xc00);
    check_life(&h->processes[3].life, 500, INT64_MAX, EA_BEGIN_RUNDOWN_START, EA_FINISH_OPEN);
}

static void test_rundown_completes(void **state) {
    world *w = *state;
    /* a start that ends after the pid: short payloads give the fields that are whole */
    ea_record cut = *process_record(&w->r, OP_START, 100, 8, 4, 0x800, "p8.exe", "cmd");
    cut.payload_bytes = 8 + 4 + 4;
    apply(w, &cut);
    assert_string_equal(w->history.processes[0].image_name, "");
    process(w, OP_DC_END, 200, 8, 9, 0x800);
    const ea_process *p = &w->history.processes[0];
    assert_string_equal(p->image_name, "p8.exe");
    assert_string_equal(p->sid, "S-1-5-18");
    assert_int_equal(p->parent_pid, 4); /* was known: stays */
    check_life(&p->life, 100, INT64_MAX, EA_BEGIN_EVENT, EA_FINISH_OPEN);
    /* Only complete fields are read, and no byte after the payload. Without a pid no process is made. */
    cut.payload_bytes = 8 + 3;
    size_t calls = w->history.calls;
    apply(w, &cut);
    assert_int_equal(w->history.calls, calls);
}

static void test_rundown_names_another_instance(void **state) {
    world *w = *state;
    process(w, OP_START, 100, 8, 4, 0x800);
    thread(w, OP_START, 110, 8, 80);
    image(w, OP_LOAD, 120, 8, 0x10000);
    apply(w, image_record(&w->r, OP_DC_END, 150, 8, 0x10000, 0x99000, "b.dll"));
    check_life(&w->history.modules[0].life, 120, 150, EA_BEGIN_EVENT, EA_FINISH_REPLACED);
    check_life(&w->history.modules[1].life, 150, INT64_MAX, EA_BEGIN_RUNDOWN_END, EA_FINISH_OPEN);
    thread(w, OP_DC_END, 160, 12, 80);
    check_life(&w->history.threads[0].life, 110, 160, EA_BEGIN_EVENT, EA_FINISH_REPLACED);
    assert_int_equal(w->history.threads[1].pid, 12);
    assert_int_equal(w->history.threads[1].process_instance, 0);
    process(w, OP_DC_END, 170, 8, 4, 0x900);
    check_life(&w->history.processes[0].life, 100, 170, EA_BEGIN_EVENT, EA_FINISH_REPLACED);
    check_life(&w->history.processes[1].life, 170, INT64_MAX, EA_BEGIN_RUNDOWN_END, EA_FINISH_OPEN);
    assert_int_equal(counted(w, EA_COUNT_state_missed_ends), 3);
}

static void rundown_complete(world *w, int64_t t, uint16_t logger) {
    begin_record(&w->r, 0x68fdd900, 8, 2, t);
    w->r.record.logger = logger;
    apply(w, end_record(&w->r));
}

/* A rundown at a session's start closes what it does not name, when it is complete and that was there before. */
static void test_rundown_closes_what_is_absent(void **state) {
    world *w = *state;

    enum { BEGIN = 100, DONE = 200 };

    for (uint32_t pid = 4; pid <= 20; pid += 4)
        process(w, OP_START, 10, pid, 0, 0xa000 + pid);
    for (uint32_t pid = 8; pid <= 16; pid += 4) {
        thread(w, OP_START, 11, pid, pid + 1);
        thread(w, OP_START, 11, pid, pid + 2);
        image(w, OP_LOAD, 12, pid, 0x10000);
        image(w, OP_LOAD, 12, pid, 0x20000);
    }
    rundown_complete(w, 50, 0); /* of a session that has no processes */
    assert_int_equal(counted(w, EA_COUNT_state_rundown_closed), 0);
    process(w, OP_DC_START, BEGIN, 0, 0, 0xa000);
    process(w, OP_DC_START, BEGIN + 1, 4, 0, 0xa004);
    process(w, OP_START, BEGIN + 2, 24, 0, 0xa018); /* begins in it: no difference */
    process(w, OP_DC_START, BEGIN + 3, 8, 0, 0xa008);
    thread(w, OP_DC_START, BEGIN + 4, 8, 9);
    image(w, OP_DC_START, BEGIN + 5, 8, 0x10000);
    process(w, OP_DC_START, BEGIN + 6, 12, 0, 0xa00c); /* its threads and modules are missing in the rundown */
    process(w, OP_END, BEGIN + 7, 20, 0, 0xa014);      /* ends in it: no difference */
    rundown_complete(w, DONE - 1, 7);                  /* another session's */
    assert_int_equal(counted(w, EA_COUNT_state_rundown_closed), 0);
    rundown_complete(w, DONE, 0);
    /* process 16; thread 10 and the module at 0x20000 of 8 */
    assert_int_equal(counted(w, EA_COUNT_state_rundown_closed), 3);
    history *h = &w->history;
    for (size_t i = 0; i < h->process_count; i++) {
        const ea_process *p = &h->processes[i];
        int cause = p->pid == 16 ? EA_FINISH_RUNDOWN : p->pid == 20 ? EA_FINISH_EVENT : EA_FINISH_OPEN;
        assert_int_equal(p->life.end_cause, cause);
        assert_true(cause != EA_FINISH_RUNDOWN || p->life.end_utc_ns == BEGIN);
    }
    for (size_t i = 0; i < h->thread_count; i++) {
        const ea_thread_row *t = &h->threads[i];
        assert_int_equal(t->life.end_cause, t->tid == 10   ? EA_FINISH_RUNDOWN
                                            : t->pid == 16 ? EA_FINISH_PROCESS_END
                                                           : EA_FINISH_OPEN);
    }
    for (size_t i = 0; i < h->module_count; i++) {
        const ea_module *m = &h->modules[i];
        assert_int_equal(m->life.end_cause, m->pid == 8 && m->base == 0x20000 ? EA_FINISH_RUNDOWN
                                            : m->pid == 16                    ? EA_FINISH_PROCESS_END
                                                                              : EA_FINISH_OPEN);
    }
    /* it only was late with its end */
    process(w, OP_END, DONE + 1, 16, 0, 0xa010);
    for (size_t i = 0; i < h->process_count; i++)
        if (h->processes[i].pid == 16)
            check_life(&h->processes[i].life, 10, DONE + 1, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    /* one in which events were lost */
    process(w, OP_DC_START, DONE + 10, 0, 0, 0xa000);
    begin_record(&w->r, 0x6a399ae0, 32, 0, DONE + 11);
    apply(w, end_record(&w->r));
    rundown_complete(w, DONE + 12, 0);
    assert_int_equal(counted(w, EA_COUNT_state_rundown_closed), 3);
}

/* id: 1 load, 2 unload, 3 rundown of Etwagent-Announce. */
static void announce(world *w, uint16_t id, int64_t t, uint32_t pid, uint64_t base) {
    static const ea_guid ANNOUNCE = EA_GUID(0x0c87d9d8, 0x75dd, 0x5ffe, 0x41, 0xf3, 0xd3, 0x2f, 0x3c, 0x1c, 0xd5, 0x64);
    static const ea_guid PDB = EA_GUID(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11);
    begin_record(&w->r, 0x2cb15d1d, 0, 0, t);
    w->r.record.provider = ANNOUNCE;
    w->r.record.id = id;
    w->r.record.pid = pid;
    w->r.record.flags = EA_FLAG_64_BIT_HEADER;
    w->r.record.header_type = EA_HEADER_EVENT64;
    put64(&w->r, base);
    put64(&w->r, 0x4000);
    put(&w->r, &PDB, sizeof PDB);
    put32(&w->r, 9);
    put_utf16(&w->r, "\\Device\\x.plug");
    put_utf16(&w->r, "x.pdb");
    apply(w, end_record(&w->r));
}

/* Modules that their program announces have their PDB in the announcement. No rundown of the kernel knows them, also of
 * the same session, and a keyframe and a restart keep their kind. */
static void test_announced_modules(void **state) {
    world *w = *state;
    history *h = &w->history;
    process(w, OP_START, 10, 8, 4, 0x800);
    announce(w, 1, 20, 8, 0x50000);
    announce(w, 3, 21, 8, 0x60000);
    image(w, OP_LOAD, 22, 8, 0x10000);
    image(w, OP_DC_START, 23, 8, 0x50000); /* of another size: it is there in its place */
    assert_int_equal(h->module_count, 4);
    check_life(&h->modules[0].life, 20, 23, EA_BEGIN_EVENT, EA_FINISH_REPLACED);
    announce(w, 1, 24, 8, 0x50000);
    check_life(&h->modules[3].life, 23, 24, EA_BEGIN_RUNDOWN_START, EA_FINISH_REPLACED);
    restart(w);
    process(w, OP_DC_START, 100, 0, 0, 0x900);
    process(w, OP_DC_START, 101, 8, 4, 0x800);
    image(w, OP_DC_START, 102, 8, 0x70000);
    announce(w, 3, 103, 8, 0x60000);
    rundown_complete(w, 110, 0);
    check_life(&h->modules[2].life, 22, 100, EA_BEGIN_EVENT, EA_FINISH_RUNDOWN); /* the image alone */
    check_life(&h->modules[1].life, 10, INT64_MAX, EA_BEGIN_RUNDOWN_START, EA_FINISH_OPEN);
    check_life(&h->modules[4].life, 24, INT64_MAX, EA_BEGIN_EVENT, EA_FINISH_OPEN);
    for (size_t i = 0; i < h->module_count; i++) {
        const ea_module *m = &h->modules[i];
        int announced = m->size_bytes == 0x4000;
        assert_int_equal(m->kind, announced ? EA_MODULE_ANNOUNCED : EA_MODULE_IMAGE);
        assert_int_equal(m->has_pdb, announced);
        assert_int_equal(m->pdb_age, announced ? 9 : 0);
        assert_string_equal(m->pdb_path, announced ? "x.pdb" : "");
        assert_int_equal(m->pid, 8);
    }
    assert_string_equal(h->modules[0].path, "\\Device\\x.plug");
    world other = {.options = w->options, .registry = w->registry};
    ea_machine_options options = w->options;
    options.observer_arg = &other.history;
    assert_int_equal(ea_machine_create(&other.machine, &options, NULL), 0);
    const ea_record at = {.time_raw = 200, .pointer_size = 8};
    assert_int_equal(ea_keyframe_write(w->machine, NULL, 1, &at, apply_made, &other, NULL), 0);
    size_t announced = 0;
    for (size_t i = 0; i < other.history.module_count; i++)
        announced += other.history.modules[i].kind == EA_MODULE_ANNOUNCED;
    assert_int_equal(other.history.module_count, 3);
    assert_int_equal(announced, 2);
    ea_machine_destroy(other.machine);
    history_deinit(&other.history);
    announce(w, 2, 300, 8, 0x60000);
    process(w, OP_END, 310, 8, 4, 0x800);
    check_life(&h->modules[1].life, 10, 300, EA_BEGIN_RUNDOWN_START, EA_FINISH_EVENT);
    check_life(&h->modules[4].life, 24, 310, EA_BEGIN_EVENT, EA_FINISH_PROCESS_END);
}

static void test_process_end_ends_its_own(void **state) {
    world *w = *state;
    process(w, OP_START, 100, 8, 4, 0x800);
    process(w, OP_START, 100, 12, 4, 0xc00);
    for (uint32_t i = 0; i < 3; i++) {
        thread(w, OP_START, 110, i == 1 ? 12 : 8, 80 + i);
        image(w, OP_LOAD, 110, i == 1 ? 12 : 8, 0x10000 * (i + 1));
    }
    assert_int_equal(w->history.threads[0].process_instance, w->history.processes[0].life.instance);
    assert_int_equal(w->history.modules[1].process_instance, w->history.processes[1].life.instance);
    thread(w, OP_END, 120, 8, 80);
    process(w, OP_END, 200, 8, 4, 0x800);
    check_life(&w->history.threads[0].life, 110, 120, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    check_life(&w->history.threads[1].life, 110, INT64_MAX, EA_BEGIN_EVENT, EA_FINISH_OPEN);
    check_life(&w->history.threads[2].life, 110, 200, EA_BEGIN_EVENT, EA_FINISH_PROCESS_END);
    check_life(&w->history.modules[0].life, 110, 200, EA_BEGIN_EVENT, EA_FINISH_PROCESS_END);
    check_life(&w->history.modules[1].life, 110, INT64_MAX, EA_BEGIN_EVENT, EA_FINISH_OPEN);
    /* an end that comes after its process's only moves the end */
    thread(w, OP_END, 210, 8, 82);
    check_life(&w->history.threads[2].life, 110, 210, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    image(w, OP_END, 220, 8, 0x10000);
    check_life(&w->history.modules[0].life, 110, 220, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    assert_int_equal(w->history.thread_count, 3);
    assert_int_equal(w->history.module_count, 3);
}

static void test_seen_before_their_process(void **state) {
    world *w = *state;
    thread(w, OP_DC_START, 100, 8, 80);
    image(w, OP_DC_START, 100, 8, 0x10000);
    assert_int_equal(w->history.threads[0].process_instance, 0);
    process(w, OP_DC_START, 110, 8, 4, 0x800);
    uint64_t instance = w->history.processes[0].life.instance;
    assert_int_equal(w->history.threads[0].process_instance, instance);
    assert_int_equal(w->history.modules[0].process_instance, instance);
    /* The threads and modules of a process with an unseen end are ended by the start of the next process under its
     * pid. */
    thread(w, OP_DC_START, 120, 16, 160);
    process(w, OP_START, 130, 16, 4, 0x1000);
    check_life(&w->history.threads[1].life, 100, 130, EA_BEGIN_RUNDOWN_START, EA_FINISH_PROCESS_END);
}

static void test_idle_threads(void **state) {
    world *w = *state;
    for (uint32_t cpu = 0; cpu < 4; cpu++)
        apply(w, thread_record(&w->r, OP_DC_START, 100, 0, 0, 0xfffff80000010000u + cpu * 0x10000, 1u << cpu));
    assert_int_equal(w->history.thread_count, 4);
    for (uint32_t cpu = 0; cpu < 4; cpu++)
        assert_int_equal(w->history.threads[cpu].cpu, cpu);
    apply(w, thread_record(&w->r, OP_DC_END, 200, 0, 0, 0xfffff80000020000u, 2));
    assert_int_equal(w->history.thread_count, 4);
    /* a tid that equals a stack's address in its low bits is another key */
    apply(w, thread_record(&w->r, OP_DC_END, 200, 4, 0x20000, 0x1111110000, 3));
    assert_int_equal(w->history.thread_count, 5);
}

static void test_thread_name(void **state) {
    world *w = *state;
    thread(w, OP_START, 100, 8, 80);
    apply(w, thread_name_record(&w->r, 110, 8, 80, "worker"));
    assert_string_equal(w->history.threads[0].name, "worker");
    apply(w, thread_name_record(&w->r, 120, 8, 80, "other"));
    assert_string_equal(w->history.threads[0].name, "other");
    apply(w, thread_name_record(&w->r, 130, 8, 84, "absent"));
    assert_int_equal(w->history.thread_count, 1);
}

static void test_module_of_an_address(void **state) {
    world *w = *state;
    uint64_t before = ea_machine_module_changes(w->machine, 8);
    process(w, OP_START, 100, 8, 4, 0x800);
    assert_int_equal(ea_machine_module_changes(w->machine, 8), before);
    assert_null(ea_machine_module_at(w->machine, 8, 0x10000));
    image(w, OP_LOAD, 110, 8, 0x10000);
    image(w, OP_LOAD, 120, 0, 0x200000);
    assert_true(ea_machine_module_changes(w->machine, 8) > before);
    assert_int_equal(ea_machine_module_at(w->machine, 8, 0x10000)->base, 0x10000);
    assert_int_equal(ea_machine_module_at(w->machine, 8, 0x10000 + 0x76fff)->base, 0x10000);
    assert_null(ea_machine_module_at(w->machine, 8, 0x10000 + 0x77000));
    assert_null(ea_machine_module_at(w->machine, 8, 0xffff));
    assert_null(ea_machine_module_at(w->machine, 12, 0x10000)); /* another process's */
    assert_int_equal(ea_machine_module_at(w->machine, 8, 0x200010)->base, 0x200000);
    assert_int_equal(ea_machine_module_at(w->machine, 12, 0x200010)->base, 0x200000);
    image(w, OP_LOAD, 130, 8, 0x20000); /* the end of the first one was lost */
    assert_int_equal(ea_machine_module_at(w->machine, 8, 0x20010)->base, 0x20000);
    before = ea_machine_module_changes(w->machine, 8);
    image(w, OP_END, 140, 8, 0x20000);
    assert_true(ea_machine_module_changes(w->machine, 8) > before);
    assert_int_equal(ea_machine_module_at(w->machine, 8, 0x20010)->base, 0x10000);
    before = ea_machine_module_changes(w->machine, 8);
    process(w, OP_END, 150, 8, 4, 0x800);
    assert_true(ea_machine_module_changes(w->machine, 8) > before);
    assert_null(ea_machine_module_at(w->machine, 8, 0x20010));
}

static void test_other_records_change_nothing(void **state) {
    world *w = *state;
    process(w, OP_START, 100, 8, 4, 0x800);
    begin_record(&w->r, 0x3d6fa8d1, 36, 4, 50); /* a context switch */
    put64(&w->r, 0);
    put64(&w->r, 0);
    put64(&w->r, 0);
    apply(w, end_record(&w->r));
    ea_record r = *process_record(&w->r, 11, 60, 8, 4, 0x800, "x", "");
    apply(w, &r); /* Terminate */
    r = *process_record(&w->r, OP_END, 60, 8, 4, 0x800, "x", "");
    r.provider.bytes[15] ^= 1; /* nearly Process */
    apply(w, &r);
    assert_int_equal(w->history.calls, 1);
    assert_int_equal(counted(w, EA_COUNT_state_records), 1);
    assert_int_equal(counted(w, EA_COUNT_state_late), 0);
    process(w, OP_START, 90, 12, 4, 0xc00);
    assert_int_equal(counted(w, EA_COUNT_state_late), 1);
}

static void count_thread(void *arg, const ea_thread_row *t) {
    (void)t;
    ++*(size_t *)arg;
}

static void count_process(void *arg, const ea_process *p) {
    (void)p;
    ++*(size_t *)arg;
}

static void count_module(void *arg, const ea_module *m) {
    (void)m;
    ++*(size_t *)arg;
}

static void test_bounds(void **state) {
    world *w = *state;
    ea_machine_destroy(w->machine);
    w->options.limit_processes = w->options.limit_threads = w->options.limit_modules = 100;
    w->options.limit_ended = 50;
    w->options.limit_text_bytes = 2048;
    assert_int_equal(ea_machine_create(&w->machine, &w->options, NULL), 0);
    for (uint32_t i = 1; i <= 1000; i++) {
        process(w, OP_START, i, 4 * i, 0, i);
        thread(w, OP_START, i, 4 * i, 8 * i);
        image(w, OP_LOAD, i, 4 * i, 0x1000u * i);
    }
    size_t n = 0;
    ea_machine_each_process(w->machine, count_process, &n);
    assert_int_equal(n, 100);
    ea_machine_each_thread(w->machine, count_thread, &n);
    assert_int_equal(n, 200);
    ea_machine_each_module(w->machine, count_module, &n);
    assert_int_equal(n, 300);
    assert_int_equal(counted(w, EA_COUNT_state_evicted), 3 * 900);
    assert_true(counted(w, EA_COUNT_state_texts_left_out) > 0);
    assert_int_equal(counted(w, EA_COUNT_state_missed_ends), 0);
    check_life(&w->history.processes[0].life, 1, 101, EA_BEGIN_EVENT, EA_FINISH_EVICTED);
    check_life(&w->history.processes[899].life, 900, 1000, EA_BEGIN_EVENT, EA_FINISH_EVICTED);
    /* an end of one that was given up and is still remembered is its end */
    process(w, OP_END, 2000, 4 * 900, 0, 900);
    check_life(&w->history.processes[899].life, 900, 2000, EA_BEGIN_EVENT, EA_FINISH_EVENT);
    /* one that is forgotten may have ended as late as any that was forgotten: opening it evicts 901, and
     * 851, evicted at 951, is forgotten */
    process(w, OP_DC_END, 2000, 4, 0, 77);
    check_life(&w->history.processes[1000].life, 951, INT64_MAX, EA_BEGIN_RUNDOWN_END, EA_FINISH_OPEN);
}

/* One bound in bytes for everything: it holds whatever comes, and what is new is there. */
static void test_bound_in_bytes(void **state) {
    world *w = *state;

    enum { BYTES = 256 << 10, COUNT = 4000 };

    ea_machine_destroy(w->machine);
    w->options.limit_bytes = BYTES;
    assert_int_equal(ea_machine_create(&w->machine, &w->options, NULL), 0);
    for (uint32_t i = 1; i <= COUNT; i++) {
        process(w, OP_START, i, 4 * i, 0, i);
        thread(w, OP_START, i, 4 * i, 8 * i);
        image(w, OP_LOAD, i, 4 * i, 0x1000u * i);
        assert_true(ea_machine_bytes(w->machine) <= BYTES);
    }
    size_t n = 0;
    ea_machine_each_process(w->machine, count_process, &n);
    ea_machine_each_thread(w->machine, count_thread, &n);
    ea_machine_each_module(w->machine, count_module, &n);
    assert_true(n > 250);
    assert_int_equal(counted(w, EA_COUNT_state_evicted), 3 * COUNT - n);
    assert_int_equal(ea_machine_evicted(w->machine), 3 * COUNT - n);
    assert_true(ea_machine_bytes(w->machine) > BYTES / 4);
}

static void test_observer_error_comes_back(void **state) {
    world *w = *state;
    w->history.fail = EA_EDATABASE;
    const ea_record *r = process_record(&w->r, OP_START, 1, 8, 4, 0x800, "a", "");
    assert_int_equal(ea_machine_apply(w->machine, r, ea_registry_find(w->registry, r), 1, NULL), EA_EDATABASE);
}

/* ---- random records against a list ---- */

enum { P, T, M };

typedef struct item {
    int kind;
    uint64_t key, key2, identity, process_instance;
    int64_t begin, end;
    int begin_cause, end_cause;
} item;

typedef struct model {
    item items[20000];
    size_t count; /* the instance number is the index + 1 */
    int64_t begin;
} model;

static item *last_of(model *m, int kind, uint64_t key, uint64_t key2) {
    for (size_t i = m->count; i-- > 0;)
        if (m->items[i].kind == kind && m->items[i].key == key && m->items[i].key2 == key2)
            return &m->items[i];
    return NULL;
}

static uint64_t model_pid(const item *i) {
    return i->kind == P ? i->key : i->kind == T ? i->identity : i->key2;
}

static void model_end(model *m, item *i, int64_t t, int cause) {
    i->end = t;
    i->end_cause = cause;
    if (i->kind == P)
        for (size_t k = 0; k < m->count; k++) {
            item *o = &m->items[k];
            if (o->kind != P && model_pid(o) == i->key && o->end == INT64_MAX &&
                (cause == EA_FINISH_EVENT || o->begin < t)) {
                o->end = t;
                o->end_cause = EA_FINISH_PROCESS_END;
            }
        }
}

static void model_apply(model *m, int kind, int op, int64_t t, uint64_t key, uint64_t key2, uint64_t identity) {
    item *last = last_of(m, kind, key, key2), *open = last && last->end == INT64_MAX ? last : NULL;
    int start = op == OP_START || op == OP_LOAD;
    if (open && (start || open->identity != identity)) {
        model_end(m, open, t, EA_FINISH_REPLACED);
        last = open;
        open = NULL;
    } else if (!open && kind == P && start) {
        item ghost = {.kind = P, .key = key, .end = INT64_MAX};
        model_end(m, &ghost, t, EA_FINISH_REPLACED);
    }
    if (open) {
        if (op == OP_END)
            model_end(m, open, t, EA_FINISH_EVENT);
        return;
    }
    if (op == OP_END && last && kind != P && last->end_cause == EA_FINISH_PROCESS_END && last->identity == identity) {
        last->end = t;
        last->end_cause = EA_FINISH_EVENT;
        return;
    }
    item *i = &m->items[m->count++];
    assert_true(m->count < sizeof m->items / sizeof m->items[0]);
    *i = (item){.kind = kind, .key = key, .key2 = key2, .identity = identity, .end = INT64_MAX};
    i->begin = start ? t : last ? last->end : m->begin;
    i->begin_cause = start               ? EA_BEGIN_EVENT
                     : op == OP_DC_START ? EA_BEGIN_RUNDOWN_START
                     : op == OP_DC_END   ? EA_BEGIN_RUNDOWN_END
                                         : EA_BEGIN_END_ONLY;
    if (kind == P) {
        for (size_t k = 0; k < m->count; k++) {
            item *o = &m->items[k];
            if (o->kind != P && model_pid(o) == key && o->end == INT64_MAX && !o->process_instance)
                o->process_instance = m->count;
        }
    } else {
        item *p = last_of(m, P, model_pid(i), 0);
        i->process_instance = p && p->end == INT64_MAX ? (uint64_t)(p - m->items) + 1 : 0;
    }
    if (op == OP_END)
        model_end(m, i, t, EA_FINISH_EVENT);
}

static void check_item(const model *m, int kind, const ea_interval *life, uint64_t key, uint64_t key2,
                       uint64_t process) {
    assert_in_range(life->instance, 1, m->count);
    const item *i = &m->items[life->instance - 1];
    assert_int_equal(i->kind, kind);
    assert_int_equal(i->key, key);
    assert_int_equal(i->key2, key2);
    check_life(life, i->begin, i->end, i->begin_cause, i->end_cause);
    if (kind != P)
        assert_int_equal(i->process_instance, process);
}

static uint32_t draw(uint64_t *seed, uint32_t below) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % below);
}

static void test_random_against_model(void **state) {
    world *w = *state;
    static model m;
    static const uint8_t OPS[] = {OP_START, OP_START, OP_END, OP_END, OP_DC_START, OP_DC_END};
    uint64_t seed = 20240607;
    for (int round = 0; round < 3; round++) {
        m = (model){.begin = 1000};
        int64_t t = 1000;
        for (int i = 0; i < 6000; i++) {
            uint8_t op = OPS[draw(&seed, 6)];
            uint32_t pid = 4 * draw(&seed, 12), which = draw(&seed, 10);
            if (which < 2) {
                uint64_t key = 0x800 + draw(&seed, 8) / 7; /* mostly the same */
                process(w, op, t, pid, 4, key);
                model_apply(&m, P, op, t, pid, 0, key);
            } else if (which < 6) {
                uint32_t tid = 4 + 4 * draw(&seed, 30);
                thread(w, op, t, pid, tid);
                model_apply(&m, T, op, t, tid, 0, pid);
            } else {
                uint64_t base = 0x10000u * (1 + draw(&seed, 4)), size = 0x1000 + 0x1000 * (draw(&seed, 8) / 7);
                op = op == OP_START ? OP_LOAD : op;
                apply(w, image_record(&w->r, op, t, pid, base, size, "x.dll"));
                model_apply(&m, M, op, t, base, pid, size);
            }
            t += draw(&seed, 3);
            if (draw(&seed, 500) == 0)
                restart(w);
        }
        history *h = &w->history;
        assert_int_equal(h->process_count + h->thread_count + h->module_count, m.count);
        for (size_t i = 0; i < h->process_count; i++)
            check_item(&m, P, &h->processes[i].life, h->processes[i].pid, 0, 0);
        for (size_t i = 0; i < h->thread_count; i++)
            check_item(&m, T, &h->threads[i].life, h->threads[i].tid, 0, h->threads[i].process_instance);
        for (size_t i = 0; i < h->module_count; i++)
            check_item(&m, M, &h->modules[i].life, h->modules[i].base, h->modules[i].pid,
                       h->modules[i].process_instance);
        /* again, from nothing */
        history_deinit(h);
        ea_machine_destroy(w->machine);
        assert_int_equal(ea_machine_create(&w->machine, &w->options, NULL), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_start_and_end),
        TEST(test_reused_pid_is_another_instance),
        TEST(test_missed_end),
        TEST(test_missed_start),
        TEST(test_late_start),
        TEST(test_rundown_comes_late),
        TEST(test_rundown),
        TEST(test_rundown_completes),
        TEST(test_rundown_closes_what_is_absent),
        TEST(test_announced_modules),
        TEST(test_rundown_names_another_instance),
        TEST(test_process_end_ends_its_own),
        TEST(test_seen_before_their_process),
        TEST(test_idle_threads),
        TEST(test_thread_name),
        TEST(test_module_of_an_address),
        TEST(test_other_records_change_nothing),
        TEST(test_bounds),
        TEST(test_bound_in_bytes),
        TEST(test_observer_error_comes_back),
        TEST(test_random_against_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
