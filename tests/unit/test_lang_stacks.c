/* Stacks and modules in programs of the query language: frames have the modules that were open at the event's time. */
#include "tests/unit/lang_rig.h"
#include "tests/unit/machine_records.h"

#include "proto/base/provider_guids.h"

enum { PID = 8, OTHER = 12, WALK = 5, WHOLE = 6 };

static const uint64_t USER = 0x7ff600000000, KERNEL = 0xfffff80000000000;

typedef struct machine_world {
    world w; /* first: the rig's */
    ea_machine *machine;
    made_record r;
} machine_world;

static int make_machine(void **state) {
    machine_world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    assert_int_equal(ea_registry_create(&w->w.registry, 0, NULL), 0);
    assert_int_equal(ea_machine_create(&w->machine, &(ea_machine_options){0}, NULL), 0);
    w->w.now_ns = 1000000000;
    *state = w;
    return 0;
}

static int free_machine(void **state) {
    machine_world *w = *state;
    ea_machine *machine = w->machine;
    int rc = free_world(state);
    ea_machine_destroy(machine);
    return rc;
}

static void image(machine_world *w, int op, uint32_t pid, uint64_t base, const char *path) {
    const ea_record *r = image_record(&w->r, (uint8_t)op, w->w.now_ns, pid, base, 0x10000, path);
    assert_int_equal(ea_machine_apply(w->machine, r, ea_registry_find(w->w.registry, r), w->w.now_ns, NULL), 0);
}

static const uint64_t *frames_of(const void *arg, uint32_t number, size_t *ret_count) {
    static const uint64_t WALKED[] = {0x7ff600001234, 0x7ff60001ffff, 0x7ff600020000};
    static const uint64_t OF_KERNEL[] = {0xfffff80000000010};
    (void)arg;
    *ret_count = number == WALK ? 3 : number == WHOLE ? 1 : 0;
    return number == WALK ? WALKED : OF_KERNEL;
}

static void begin(machine_world *w, const char *text, ea_lang_run_options how) {
    how.form = EA_LANG_JSON;
    how.frames = frames_of;
    how.machine = w->machine;
    start_with(&w->w, text, &how);
}

/* A sample with a stack of a process. */
static void sample(machine_world *w, uint64_t address, uint32_t pid, uint32_t kernel, uint32_t user) {
    uint8_t payload[16] = {0};
    ea_store64(payload, address);
    ea_store32(payload + 8, 77);
    ea_record record = {.provider = EA_PROVIDER_PERF_INFO,
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .opcode = 46,
                        .version = 2,
                        .pointer_size = 8,
                        .pid = pid,
                        .tid = UINT32_MAX,
                        .payload = payload,
                        .payload_bytes = sizeof payload};
    ea_lang_event event = {.record = &record, .utc_ns = w->w.now_ns, .stack = {kernel, user}, .stack_pid = UINT32_MAX};
    event.c = ea_registry_find(w->w.registry, &record);
    w->w.now_ns += 1000;
    assert_int_equal(ea_lang_run_event(w->w.run, &event), 0);
}

static void frames_are_places_in_modules_of_that_time(void **state) {
    machine_world *w = *state;
    begin(w, "PerfInfo/SampleProf { emit(s = stack()); }", (ea_lang_run_options){0});
    sample(w, USER, PID, WHOLE, WALK); /* no module is known */
    image(w, OP_LOAD, PID, USER, "\\Device\\HarddiskVolume3\\app\\one.exe");
    image(w, OP_LOAD, PID, USER + 0x10000, "\\app\\a \"b\"\n.dll");
    image(w, OP_LOAD, 0, KERNEL, "\\SystemRoot\\system32\\ntoskrnl.exe");
    sample(w, USER, PID, WHOLE, WALK);
    sample(w, USER, OTHER, WHOLE, WALK); /* another process's addresses */
    image(w, OP_END, PID, USER, "\\app\\one.exe");
    image(w, OP_LOAD, PID, USER, "\\app\\two.exe");
    sample(w, USER, PID, WHOLE, WALK);
    ends_with(
        &w->w,
        "{\"row\":{\"s\":[\"0xfffff80000000010\",\"0x7ff600001234\",\"0x7ff60001ffff\",\"0x7ff600020000\"]},"
        "\"time\":\"1970-01-01T00:00:01.0000000Z\"}\n"
        "{\"row\":{\"s\":[\"ntoskrnl.exe+0x10\",\"one.exe+0x1234\",\"a \\\"b\\\"?.dll+0xffff\",\"0x7ff600020000\"]},"
        "\"time\":\"1970-01-01T00:00:01.0000010Z\"}\n"
        "{\"row\":{\"s\":[\"ntoskrnl.exe+0x10\",\"0x7ff600001234\",\"0x7ff60001ffff\",\"0x7ff600020000\"]},"
        "\"time\":\"1970-01-01T00:00:01.0000020Z\"}\n"
        "{\"row\":{\"s\":[\"ntoskrnl.exe+0x10\",\"two.exe+0x1234\",\"a \\\"b\\\"?.dll+0xffff\",\"0x7ff600020000\"]},"
        "\"time\":\"1970-01-01T00:00:01.0000030Z\"}\n");
}

static void stacks_of_one_code_are_one_key(void **state) {
    machine_world *w = *state;
    static const char TEXT[] = "PerfInfo/SampleProf { @[stack(2)] = count(); }";
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        begin(w, TEXT, (ea_lang_run_options){.is_plain_stacks = is_plain});
        image(w, OP_LOAD, PID, USER, "\\a\\one.exe");
        image(w, OP_LOAD, OTHER, USER, "\\b\\one.exe");
        sample(w, USER, PID, WHOLE, WALK);
        sample(w, USER, OTHER, WHOLE, WALK);
        assert_true(ea_lang_run_end(w->w.run) >= 0);
        assert_non_null(strstr(output(&w->w), is_plain ? "[[\"0xfffff80000000010\",\"0x7ff600001234\"]],\"count\":2"
                                                       : "[[\"0xfffff80000000010\",\"one.exe+0x1234\"]],\"count\":2"));
        end_run(&w->w);
    }
}

static int name_function(void *arg, const ea_module *module, uint64_t offset, ea_text *out) {
    assert_string_equal(module->path, "\\a\\one.exe");
    ++*(unsigned *)arg;
    if (offset == 0x1234)
        ea_text_str(out, "inner");
    else
        assert_int_equal(offset, 0xfffe); /* a return address is after its call */
    return offset == 0x1234;
}

static void functions_are_asked_for_once(void **state) {
    machine_world *w = *state;
    unsigned asked = 0;
    begin(w, "PerfInfo/SampleProf { @[ustack(2)] = count(); @k[kstack()] = count(); @m[module] = count(); }",
          (ea_lang_run_options){.function = name_function, .function_arg = &asked});
    image(w, OP_LOAD, PID, USER, "\\a\\one.exe");
    image(w, OP_LOAD, PID, USER + 0x10000, "\\a\\one.exe");
    sample(w, USER + 0x1234, PID, 0, WALK);
    sample(w, USER + 0x1234, PID, 0, WALK);
    assert_int_equal(asked, 2);
    assert_true(ea_lang_run_end(w->w.run) >= 0);
    assert_non_null(strstr(output(&w->w), "[[\"one.exe!inner\",\"one.exe+0xffff\"]],\"count\":2"));
    assert_non_null(strstr(output(&w->w), "\"@m\",\"time\":\"1970-01-01T00:00:01.0000010Z\",\"keys\":[\"one.exe\"]"));
    end_run(&w->w);
}

static int take_row(void *arg, const ea_lang_output *row) {
    ea_text *t = arg;
    for (size_t i = 0; i < row->column_count; i++)
        ea_text_printf(t, "%s=%.*s;", row->columns[i].name, (int)row->columns[i].len_bytes,
                       row->columns[i].data ? row->columns[i].data : "");
    return t->failed;
}

static void rows_have_lists_of_frames(void **state) {
    machine_world *w = *state;
    ea_text rows;
    ea_text_init(&rows);
    ea_lang_run_options how = {
        .form = EA_LANG_ROWS, .frames = frames_of, .machine = w->machine, .on_row = take_row, .on_row_arg = &rows};
    start_with(&w->w, "PerfInfo/SampleProf { emit(k = kstack(), u = ustack(1), none = ustack(2)); }", &how);
    image(w, OP_LOAD, PID, USER, "\\a\\one.exe");
    sample(w, USER, PID, WHOLE, WALK);
    assert_string_equal(rows.data, "k=[\"0xfffff80000000010\"];u=[\"one.exe+0x1234\"];"
                                   "none=[\"one.exe+0x1234\",\"0x7ff60001ffff\"];");
    ea_text_deinit(&rows);
    end_run(&w->w);
}

static void programs_say_whether_they_need_modules(void **state) {
    static const struct {
        const char *text;
        int needs;
    } PROGRAMS[] = {{"PerfInfo/SampleProf { @[ustack(2)] = count(); }", 1},
                    {"PerfInfo/SampleProf /module == \"a.dll\"/ { @ = count(); }", 1},
                    {"PerfInfo/SampleProf { @[execname] = count(); }", 0}};

    machine_world *w = *state;
    for (size_t i = 0; i < sizeof PROGRAMS / sizeof *PROGRAMS; i++) {
        start(&w->w, PROGRAMS[i].text);
        assert_int_equal(ea_lang_needs_modules(w->w.program), PROGRAMS[i].needs);
        end_run(&w->w);
    }
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, make_machine, free_machine)
    const struct CMUnitTest tests[] = {
        T(frames_are_places_in_modules_of_that_time),
        T(stacks_of_one_code_are_one_key),
        T(functions_are_asked_for_once),
        T(rows_have_lists_of_frames),
        T(programs_say_whether_they_need_modules),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
