/* Fuzz target: the query language. A text is compiled, verified and, when it is a program, run on made-up events, with
 * few keys and little memory, in one of the forms of output. Input: the text, a zero byte, then so many times: u8 which
 * class (the upper half: version), u8 length, the payload. Before the events there may be changes of the compiled
 * program, each u8 255, u8 clause, u16 instruction, u8 part of it, u16 value: what the verifier lets pass has to run
 * all the same. */
#include "proto/lang/lang_program.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { EVENTS_MAX = 64 };

static const struct {
    ea_guid provider;
    uint8_t opcode;
} CLASSES[] = {
    {EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c), 36}, /* Thread/CSwitch */
    {EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c), 2},  /* Thread/End */
    {EA_GUID(0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c), 1},  /* Process/Start */
    {EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c), 1},  /* Thread/Start */
    {EA_GUID(0x3d6fa8d4, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c), 10}, /* DiskIo/Read */
    {EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3), 64}, /* FileIo/Create */
    {EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc), 46}, /* SampleProf */
    {EA_GUID(0xae53722e, 0xc863, 0x11d2, 0x86, 0x59, 0x00, 0xc0, 0x4f, 0xa3, 0x21, 0xa1), 11}, /* Registry/Open */
};

static const uint64_t FRAMES[] = {0xfffff80000001000u, 0xfffff80000002000u, 0x7ff600001000u, 0x7ff600002000u};

static const uint64_t *frames_of(const void *arg, uint32_t number, size_t *ret_count) {
    (void)arg;
    *ret_count = number % 4;
    return FRAMES + number % 2;
}

static int run_event(ea_lang_run *run, ea_machine *machine, ea_registry *registry, const uint8_t *p, size_t n,
                     int64_t number) {
    static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 3000000};
    ea_record r = {.provider = CLASSES[p[0] & 7].provider,
                   .opcode = CLASSES[p[0] & 7].opcode,
                   .version = p[0] >> 5,
                   .pointer_size = p[0] & 16 ? 4 : 8,
                   .flags = EA_FLAG_CLASSIC_HEADER,
                   .pid = p[0] & 8 ? 4 : UINT32_MAX,
                   .tid = p[0] & 8 ? 8 : UINT32_MAX,
                   .cpu = p[1] & 3,
                   .payload = p + 2,
                   .payload_bytes = (uint16_t)n};
    ea_lang_event event = {.record = &r, .clock = &CLOCK, .utc_ns = number * 7000000, .stack = {p[1] & 7, p[0] & 3}};
    event.c = ea_registry_find(registry, &r);
    if (ea_machine_apply(machine, &r, event.c, event.utc_ns, NULL))
        abort();
    return ea_lang_run_event(run, &event);
}

static void run_program(const ea_lang_program *program, ea_registry *registry, const uint8_t *p, const uint8_t *end,
                        enum ea_lang_form form) {
    ea_lang_run *run = NULL;
    ea_machine *machine = NULL;
    if (ea_machine_create(&machine, &(ea_machine_options){.limit_bytes = 1 << 16}, NULL))
        abort();
    ea_lang_run_options options = {
        .form = form, .machine = machine, .frames = frames_of, .limit_entries = 5, .limit_bytes = 1 << 16};
    if (ea_lang_run_create(&run, program, &options, NULL))
        abort();
    int rc = ea_lang_run_begin(run);
    for (int64_t i = 0; rc == 0 && i < EVENTS_MAX && end - p >= 2; i++) {
        size_t n = p[1] <= end - p - 2 ? p[1] : (size_t)(end - p - 2);
        rc = run_event(run, machine, registry, p, n, i);
        p += 2 + n;
        ea_text_clear(ea_lang_run_output(run));
    }
    if (rc < 0 || ea_lang_run_end(run) < 0)
        abort(); /* memory alone is a reason, and there is enough */
    ea_lang_counts c = ea_lang_run_counts(run);
    if (c.matched > c.events)
        abort();
    ea_lang_run_destroy(run);
    ea_machine_destroy(machine);
}

/* Changes one instruction; 0: the verifier refuses the program now. */
static int change(ea_lang_program *p, const uint8_t *how) {
    const lang_clause *c = &p->clauses[how[1] % p->clause_count];
    size_t at = ea_load16(how + 2) % c->op_count;
    lang_op *op = (lang_op *)(uintptr_t)&c->ops[at];
    uint32_t clause_number, op_number;
    switch (how[4] % 6) {
    case 0:
        op->code = how[5];
        break;
    case 1:
        op->dst = how[5];
        break;
    case 2:
        op->a = how[5];
        break;
    case 3:
        op->b = how[5];
        break;
    case 4:
        op->imm = ea_load16(how + 5);
        break;
    default:
        ((uint16_t *)(uintptr_t)c->skips)[at] = ea_load16(how + 5);
    }
    return lang_verify(p, &clause_number, &op_number);
}

static int take_word(void *arg, const char *word) {
    *(size_t *)arg += strlen(word);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static ea_registry *registry;
    ea_lang_program *program = NULL;
    ea_lang_problem problem;
    if (!registry && ea_registry_create(&registry, 0, NULL))
        abort();
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    size_t len = zero ? (size_t)(zero - data) : size;
    ea_lang_sources from = {.registry = registry};
    size_t offered = 0;
    if (size % 8 == 0 && ea_lang_complete((const char *)data, len, &from, take_word, &offered)) /* it is slow */
        abort();
    int rc = ea_lang_compile(&program, (const char *)data, len, &from, &problem);
    if (rc) {
        ea_text out;
        ea_text_init(&out);
        ea_lang_problem_print(&problem, "fuzz", (const char *)data, len, &out);
        if (rc != EA_EINVAL || !problem.line || !problem.column || !*problem.message ||
            strncmp(problem.message, "the verifier refused", 20) == 0)
            abort();
        ea_text_deinit(&out);
        return 0;
    }
    const uint8_t *events = zero ? zero + 1 : data + size;
    int is_good = 1;
    for (; is_good && data + size - events >= 7 && *events == 255; events += 7)
        is_good = change(program, events);
    if (is_good)
        run_program(program, registry, events, data + size, (enum ea_lang_form)(size % 3));
    ea_lang_program_destroy(program);
    return 0;
}
