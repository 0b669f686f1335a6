/* The query language: what is refused, with its place and the nearest name; types; every operation, function and
 * statement on made-up context switches; bounds of length and depth. */
#include "proto/base/provider_guids.h"
#include "tests/unit/lang_rig.h"

/* ---- what is refused ---- */

typedef struct refusal {
    const char *text;
    uint32_t line, column;
    const char *message; /* a part of it */
} refusal;

static const refusal REFUSALS[] = {
    {"", 1, 1, "the program is empty"},
    {"Thread/CSwitch", 1, 15, "expected {"},
    {"Thread/CSwitch { @ = count() ", 1, 30, "expected ; after the statement"},
    {"Thread/CSwitch { @ = count();", 1, 30, "expected }"},
    {"Thread/CSwitch /tid == / { }", 1, 24, "expected a value"},
    {"Thread/CSwich { }", 1, 1, "did you mean Thread/CSwitch?"},
    {"sched:::on-cp { }", 1, 1, "did you mean sched:::on-cpu?"},
    {"begin { }\n  Thread/CSwitch\n{ @[OldThreadID] = count(); }", 3, 5, "did you mean OldThreadId?"},
    {"Thread/CSwitch { @[timestmp] = count(); }", 1, 20, "did you mean timestamp?"},
    {"begin { @ = cont(); }", 1, 13, "did you mean count?"},
    {"begin { printff(\"x\"); }", 1, 9, "did you mean printf?"},
    {"begin { x = 1 + \"a\"; }", 1, 15, "needs numbers; this is a text"},
    {"begin { x = 1; x = \"a\"; }", 1, 16, "is a text here and a number elsewhere"},
    {"begin { x = x; }", 1, 9, "gets its value from itself alone"},
    {"begin { x = y; }", 1, 13, "unknown name y"},
    {"begin { pid = 1; }", 1, 9, "is a value of the event"},
    {"begin { x = execname < \"a\"; }", 1, 22, "has no order"},
    {"begin { x = execname == 1; }", 1, 22, "a text is compared with a number"},
    {"begin { x = execname =~ execname; }", 1, 25, "expected a pattern that is written out"},
    {"begin { @ = quantize(execname); }", 1, 22, "needs a number"},
    {"begin { @ = sum(1, 2); }", 1, 13, "expected sum(x)"},
    {"begin { @ = sum(1); @ = count(); }", 1, 25, "has another function"},
    {"begin { @[1] = sum(1); @[1, 2] = sum(1); }", 1, 24, "2 keys here and 1 elsewhere"},
    {"begin { @[1] = sum(1); @[\"a\"] = sum(1); }", 1, 26, "is a text here and a number elsewhere"},
    {"begin { @[1,2,3,4,5,6,7,8,9] = count(); }", 1, 9, "more than 8 keys"},
    {"begin { print(@x); }", 1, 15, "no statement aggregates into @x"},
    {"begin { @wait = count(); print(@wai); }", 1, 32, "did you mean @wait?"},
    {"begin { @q = quantize(1); x = @q; }", 1, 31, "it has no single value"},
    {"begin { @ = lquantize(1, 10, 0, 1); }", 1, 13, "give no buckets"},
    {"begin { @ = lquantize(1, 0, 10000, 1); }", 1, 13, "more than 1024"},
    {"begin { @ = llquantize(1, 10, 0, 3, 7); }", 1, 13, "give no buckets"},
    {"begin { @ = top(1, 101); }", 1, 13, "expected n of 1 to 100"},
    {"begin { printf(\"%d\"); }", 1, 9, "fewer arguments"},
    {"begin { printf(\"x\", 1); }", 1, 9, "more arguments"},
    {"begin { printf(\"%s\", 1); }", 1, 22, "does not fit a number"},
    {"begin { printf(\"%d\", 1.5); }", 1, 22, "use %f"},
    {"begin { printf(\"%q\", 1); }", 1, 16, "printf knows"},
    {"begin { x[1] = 2; y = x; }", 1, 23, "unknown name x"},
    {"begin { x[1] = 2; x = 3; }", 1, 19, "with keys and without"},
    {"begin { 1 = 2; }", 1, 9, "cannot be assigned to"},
    {"begin { 1; }", 1, 9, "a value alone does nothing"},
    {"begin { x = 10q; }", 1, 15, "unknown unit"},
    {"begin { x = 99999999999999999999; }", 1, 13, "more than 64 bits"},
    {"begin { x = \"a; }", 1, 13, "no closing quote"},
    {"begin { x = \"\\q\"; }", 1, 14, "unknown escape"},
    {"begin { /* x }", 1, 9, "the comment has no end"},
    {"tick:1us { }", 1, 1, "expected an interval of 1ms"},
    {"tick:soon { }", 1, 1, "expected an interval"},
    {"begin { x = $1; }", 1, 13, "there is no argument $1; 0 were given"},
    {"Thread/CSwitch { NewThreadId = 1; }\nThread/CSwitch { @[NewThreadId] = count(); }", 2, 20,
     "is a variable and a field"},
    {"Thread/CSwitch { @[NewThreadId_name] = count(); }", 1, 20, "have no names"},
    {"begin { emit(1); }", 1, 14, "expected name = value"},
    {"begin { x = strlen(1); }", 1, 13, "strlen needs a text"},
    {"begin { x = 1.5 % 2; }", 1, 17, "needs whole numbers"},
    {"begin { x = parent.pidd; }", 1, 13, "expected execname"},
    {"begin { x = count(); }", 1, 13, "write @name = count()"},
    {"begin { @ = llquantize(1, 2, 0, 61, 4611686018427387904); }", 1, 13, "give no buckets"},
    {"begin { @ = lquantize(1, 0, 2047, 2); }", 1, 13, "more than 1024"},
    {"begin { @a = sum(@a); }", 1, 9, "@a gets its value from itself alone"},
    {"begin { ship(); }", 1, 9, "is about an event"},
    {"Thread/CSwitch { @ = sum(bytes(NewThreadId, 0, 2)); }", 1, 32, "reads a text or binary data"},
    {"FileIo/Create { @ = sum(bytes(OpenPath, 0, 9)); }", 1, 25, "count of 1 to 8"},
    {"Thread/CSwitch, tick:1s { ship(); }", 1, 27, "is about an event"},
    {"Thread/CSwitch { ship(1); }", 1, 18, "expected ship()"},
    {"Thread/CSwitch { trigger(\"slow\", 1m, 10s, 3); }", 1, 34, "before TIME, after TIME"},
    {"Thread/CSwitch { trigger(\"slow\", before 2d); }", 1, 41, "up to 1d"},
    {"Thread/CSwitch { trigger(\"slow\", at most 0/d); }", 1, 42, "as in 3/d"},
    {"Thread/CSwitch { trigger(\"slow\", at most 101/h); }", 1, 42, "up to 100"},
    {"Thread/CSwitch { trigger(\"slow\", at least 1/h); }", 1, 37, "at most N/d"},
    {"Thread/CSwitch { trigger(\"slow\", after 1s, after 2s); }", 1, 44, "each once"},
    {"Thread/CSwitch { trigger(\"a b\"); }", 1, 26, "letters, digits"},
    {"Thread/CSwitch { trigger(slow); }", 1, 26, "the trigger's name"},
    {"begin { x = trigger(\"slow\"); }", 1, 13, "is a statement"},
    {"Thread/CSwitch { trigger(\"slow\"); } end { trigger(\"slow\"); }", 1, 51, "two triggers"},
    {"Thread/CSwitch, begin { trigger(\"slow\"); }", 1, 25, "before the first one"},
    {"Thread/CSwitch { @ = count(); }\nstack-missing { @m = count(); }", 2, 1, "no clause reads a stack"},
    {"begin { emitt(a = 1); }", 1, 9, "did you mean emit?"},
    {"begin { x = strlem(\"a\"); }", 1, 13, "did you mean strlen?"},
    {"begin { @ = quantise(1); }", 1, 13, "did you mean quantize?"},
    {"begin { x = 1 < 2 < 3; }", 1, 19, "have no chains"},
    {"begin { x = 1 == 2 != 3; }", 1, 20, "have no chains"},
    {"begin { printf(\"%.3s\", \"abc\"); }", 1, 16, "%f alone has a precision"},
    {"begin { emit(a = 1, a = 2); }", 1, 21, "has a twice"},
    {"begin { x = \"\x1b[2J\"; }", 1, 14, "no control characters"},
    {"begin { @[stack(0)] = count(); }", 1, 11, "n of 1 to 1000"},
};

static void wrong_programs_are_refused_with_place_and_nearest_name(void **state) {
    world *w = *state;
    for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++) {
        const refusal *r = &REFUSALS[i];
        ea_lang_problem problem;
        print_message("%s\n", r->text);
        assert_int_equal(compile(w, r->text, &problem), EA_EINVAL);
        if (!strstr(problem.message, r->message) || problem.line != r->line || problem.column != r->column)
            fail_msg("expected %u:%u: %s; found %u:%u: %s", r->line, r->column, r->message, problem.line,
                     problem.column, problem.message);
        assert_null(w->program);
    }
}

static void a_problem_is_printed_with_its_line_and_a_caret(void **state) {
    static const char TEXT[] = "begin { }\nThread/CSwitch { @[Foo] = count(); }\n";
    world *w = *state;
    ea_lang_problem problem;
    ea_text out;
    ea_text_init(&out);
    assert_int_equal(compile(w, TEXT, &problem), EA_EINVAL);
    ea_lang_problem_print(&problem, "a.watch", TEXT, sizeof TEXT - 1, &out);
    assert_string_equal(out.data, "a.watch:2:20: unknown field Foo of Thread/CSwitch\n"
                                  "  Thread/CSwitch { @[Foo] = count(); }\n"
                                  "                     ^\n");
    /* nothing of the text steers a terminal, and the caret is where it is shown */
    static const char STEERS[] = "begin { x =\t\"\xc2\x9b"
                                 "1\xff\"; y; }";
    ea_text_clear(&out);
    assert_int_equal(compile(w, STEERS, &problem), EA_EINVAL);
    ea_lang_problem_print(&problem, "a.watch", STEERS, sizeof STEERS - 1, &out);
    assert_string_equal(out.data, "a.watch:1:21: a value alone does nothing; expected an assignment or a call\n"
                                  "  begin { x = \"\\xc2\\x9b1\\xff\"; y; }\n"
                                  "                               ^\n");
    ea_text_deinit(&out);
}

static void length_and_depth_are_bounded(void **state) {
    world *w = *state;
    ea_lang_problem problem;
    size_t room = EA_LANG_TEXT_MAX_BYTES + 64;
    char *text = malloc(room);
    assert_non_null(text);
    /* nesting: as deep as it may be, and one level more */
    for (int deep = 0; deep < 2; deep++) {
        int depth = EA_LANG_DEPTH_MAX - 2 + deep;
        memset(text, '(', (size_t)depth);
        text[depth] = 0;
        char *open = strdup(text);
        memset(text, ')', (size_t)depth);
        char *close = strdup(text);
        assert_non_null(open);
        assert_non_null(close);
        snprintf(text, room, "begin { x = %s1%s; }", open, close);
        free(open);
        free(close);
        int rc = compile(w, text, &problem);
        assert_int_equal(rc, deep ? EA_EINVAL : 0);
        if (deep)
            assert_non_null(strstr(problem.message, "levels are nested"));
        end_run(w);
    }
    /* instructions of a clause */
    size_t n = (size_t)snprintf(text, room, "begin {");
    for (int i = 0; i < EA_LANG_OPS_MAX; i++)
        n += (size_t)snprintf(text + n, room - n, "x=1;");
    snprintf(text + n, room - n, "}");
    assert_int_equal(compile(w, text, &problem), EA_EINVAL);
    assert_non_null(strstr(problem.message, "instructions"));
    /* operators that follow each other: as many as the page says, and as many as the text holds */
    for (int many = 0; many < 2; many++) {
        n = (size_t)snprintf(text, room, "begin { x = 1");
        for (int i = 1; i < (many ? 32000 : 1000); i++)
            n += (size_t)snprintf(text + n, room - n, "+1");
        snprintf(text + n, room - n, "; }");
        assert_int_equal(compile(w, text, &problem), many ? EA_EINVAL : 0);
        if (many)
            assert_non_null(strstr(problem.message, "operators follow each other"));
        end_run(w);
    }
    /* many texts, which together are short */
    n = 0;
    for (int i = 0; i < 3000; i++)
        n += (size_t)snprintf(text + n, room - n, "%sx=\"a\";", i % 1000 ? "" : i ? "} begin {" : "begin {");
    snprintf(text + n, room - n, "}");
    assert_int_equal(compile(w, text, &problem), 0);
    end_run(w);
    /* fields of many classes, and types that come from 200 statements away: each clause looks for a field once */
    n = (size_t)snprintf(text, room, "begin {");
    for (int i = 0; i < 200; i++)
        n += (size_t)snprintf(text + n, room - n, "v%d=v%d;", i, i + 1);
    n += (size_t)snprintf(text + n, room - n, "v200=1.5;} * {");
    for (int i = 0; i < 1000; i++)
        n += (size_t)snprintf(text + n, room - n, "%s", i % 2 ? "x=v0;" : "x=has(ProcessId);");
    n += (size_t)snprintf(text + n, room - n, "}");
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(text + n, room - n, "* { x = has(Irp) + has(TThreadId) + has(TransferSize); }");
    clock_t begin = clock();
    assert_int_equal(compile(w, text, &problem), 0);
    assert_true(was_enough(begin, 2));
    end_run(w);
    /* the name of a probe, however long, is read once */
    memset(text, '/', EA_LANG_TEXT_MAX_BYTES);
    text[0] = 'a';
    text[EA_LANG_TEXT_MAX_BYTES] = 0;
    clock_t before = clock();
    assert_int_equal(compile(w, text, &problem), EA_EINVAL);
    assert_true(was_enough(before, 0.2));
    /* bytes of a pattern */
    char pattern[EA_LANG_PATTERN_MAX_BYTES + 2];
    memset(pattern, 'a', sizeof pattern);
    for (size_t bytes = EA_LANG_PATTERN_MAX_BYTES; bytes <= EA_LANG_PATTERN_MAX_BYTES + 1; bytes++) {
        pattern[bytes] = 0;
        snprintf(text, room, "begin { x = execname =~ \"%s\"; }", pattern);
        pattern[bytes] = 'a';
        assert_int_equal(compile(w, text, &problem), bytes > EA_LANG_PATTERN_MAX_BYTES ? EA_EINVAL : 0);
        end_run(w);
    }
    assert_non_null(strstr(problem.message, "longer than 128"));
    /* bytes of the text */
    memset(text, ' ', EA_LANG_TEXT_MAX_BYTES + 1);
    text[EA_LANG_TEXT_MAX_BYTES + 1] = 0;
    memcpy(text, "begin { }", 9);
    assert_int_equal(compile(w, text, &problem), EA_EINVAL);
    assert_non_null(strstr(problem.message, "longer than"));
    text[EA_LANG_TEXT_MAX_BYTES] = 0;
    assert_int_equal(compile(w, text, &problem), 0);
    end_run(w);
    free(text);
}

/* ---- values ---- */

typedef struct value_case {
    const char *expression, *value;
} value_case;

static const value_case VALUES[] = {
    {"1 + 2 * 3", "7"},
    {"(1 + 2) * 3", "9"},
    {"10 - 4 - 3", "3"},
    {"7 / 2", "3"},
    {"-7 / 2", "-3"},
    {"-7 % 4", "-3"},
    {"7.0 / 2", "3.5"},
    {"1 - 2", "-1"},
    {"2 << 3 | 1", "17"},
    {"-16 >> 2", "-4"},
    {"1 << 64", "0"},
    {"0xFF & ~0xF", "240"},
    {"5 ^ 3", "6"},
    {"1 < 2 && 2 < 1 || 3", "1"},
    {"!5", "0"},
    {"!0.5", "0"},
    {"!\"\"", "1"},
    {"1 ? 2 : 3 ? 4 : 5", "2"},
    {"0 ? 2 : 0 ? 4 : 5", "5"},
    {"1.5 > 1", "1"},
    {"-1 < NewThreadId", "1"},
    {"NewThreadId > -1", "1"},
    {"NewThreadId == -1", "0"},
    {"OldThreadId - NewThreadId", "-6"},
    {"NewThreadPriority", "-2"},
    {"NewThreadPriority < 0", "1"},
    {"NewThreadWaitTime", "\"0x5\""},
    {"NewThreadWaitTime * 2", "\"0xa\""},
    {"NewThreadWaitTime + 0.5", "5.5"},
    {"OldThreadWaitReason", "6"},
    {"OldThreadWaitReason_name", "\"UserRequest\""},
    {"event.NewThreadId", "10"},
    {"has(NewThreadId) + has(NewThreadQuantum)", "1"},
    {"10ms", "10000000"},
    {"1.5s", "1500000000"},
    {"64KiB", "65536"},
    {"18446744073709551615", "18446744073709551615"},
    {"strlen(\"abc\")", "3"},
    {"\"SQLservr.exe\" =~ \"sql*.EXE\"", "1"},
    {"\"abc\" =~ \"a?c\"", "1"},
    {"\"abc\" !~ \"*d*\"", "1"},
    {"\"a\" == \"a\"", "1"},
    {"\"a\" != \"a\"", "0"},
    {"probe", "\"Thread/CSwitch\""},
    {"cpu", "3"},
    {"opcode", "36"},
    {"version", "2"},
    {"payload_bytes", "24"},
    {"pid", "-1"},
    {"tid", "10"},
    {"timestamp", "1000000000"},
    {"elapsed", "0"},
    {"activity", "\"00000000-0000-0000-0000-000000000000\""},
    {"execname", "\"\""},
    {"\"\\\"\\n\"", "\"\\\"\\n\""},
    {"\"a\xc3\xa9\" =~ \"a?\"", "1"},
    {"\"\xc3\xa9\" =~ \"*??\"", "0"},
    {"1234567.25 + 0.5", "1234567.75"},
    {"0.1 + 0.2", "0.30000000000000004"},
};

static void values_and_operations_are_as_the_reference_says(void **state) {
    world *w = *state;
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
        char text[256], expected[256];
        snprintf(text, sizeof text, "Thread/CSwitch { emit(x = %s); }", VALUES[i].expression);
        print_message("%s\n", text);
        start(w, text);
        assert_int_equal(switch_to(w, 10, 4, -2, 5), 0);
        snprintf(expected, sizeof expected, "{\"row\":{\"x\":%s},\"time\":\"1970-01-01T00:00:01.0000000Z\"}\n",
                 VALUES[i].value);
        ends_with(w, expected);
    }
}

static void comparisons_are_right_whatever_the_signs(void **state) {
    static const char *const NUMBERS[] = {
        "(0 - 9223372036854775807)", "(0 - 1)", "0", "1", "NewThreadId", "9223372036854775807",
        "(NewThreadWaitTime << 63)"};
    static const char *const OPS[] = {"<", "<=", "==", "!=", ">=", ">"};
    world *w = *state;
    for (size_t a = 0; a < 7; a++)
        for (size_t b = 0; b < 7; b++)
            for (size_t k = 0; k < 6; k++) {
                char text[256], expected[128];
                int d = (a > b) - (a < b), is[] = {d<0, d <= 0, d == 0, d != 0, d >= 0, d> 0};
                snprintf(text, sizeof text, "Thread/CSwitch { emit(x = %s %s %s); }", NUMBERS[a], OPS[k], NUMBERS[b]);
                start(w, text);
                assert_int_equal(switch_to(w, 10, 4, 0, 1), 0);
                snprintf(expected, sizeof expected, "{\"row\":{\"x\":%d},\"time\":\"1970-01-01T00:00:01.0000000Z\"}\n",
                         is[k]);
                if (strcmp(output(w), expected) != 0)
                    fail_msg("%s: %s", text, output(w));
                end_run(w);
            }
}

/* A field compared with a number that is written out is one instruction; an `if`, the parts of && and the clause's
 * condition have it. Each is compared with C's own answer. */
static void a_field_compared_with_a_number_is_right_at_the_edges(void **state) {
    static const char *const OPS[] = {"<", "<=", "==", "!=", ">=", ">"};

    static const struct {
        const char *text;
        uint64_t number;
    } NUMBERS[] = {{"0", 0},
                   {"1", 1},
                   {"5", 5},
                   {"127", 127},
                   {"128", 128},
                   {"4294967295", UINT32_MAX},
                   {"0x80000000", 1u << 31},
                   {"9223372036854775807", INT64_MAX}};

    static const uint32_t WAITS[] = {0, 1, 5, 127, 128, 1u << 31, UINT32_MAX};
    static const int PRIORITIES[] = {-128, -1, 0, 1, 5, 127, 4};
    world *w = *state;
    for (size_t b = 0; b < sizeof NUMBERS / sizeof *NUMBERS; b++)
        for (size_t k = 0; k < 6; k++) {
            char text[512];
            const char *op = OPS[k], *n = NUMBERS[b].text;
            snprintf(text, sizeof text,
                     "Thread/CSwitch /NewThreadWaitTime %s %s/ { @w[NewThreadId] = count(); }"
                     "Thread/CSwitch { if (tid > 0 && event.NewThreadPriority %s %s && cpu == 3)"
                     " { @p[NewThreadId] = count(); } else { @o[NewThreadId] = count(); } }",
                     op, n, op, n);
            start(w, text);
            uint64_t got[3] = {0}, wanted[3] = {0};
            for (uint32_t i = 0; i < 7; i++) {
                int64_t p = PRIORITIES[i], c = (int64_t)NUMBERS[b].number;
                uint64_t wait = WAITS[i], u = NUMBERS[b].number;
                int of_wait[] = {wait<u, wait <= u, wait == u, wait != u, wait >= u, wait> u};
                int of_priority[] = {p<c, p <= c, p == c, p != c, p >= c, p> c};
                wanted[0] |= (uint64_t)of_wait[k] << i;
                wanted[1] |= (uint64_t)of_priority[k] << i;
                wanted[2] |= (uint64_t)!of_priority[k] << i;
                assert_int_equal(switch_to(w, 100 + i, 4, PRIORITIES[i], WAITS[i]), 0);
            }
            assert_int_equal(ea_lang_run_end(w->run), 0);
            for (const char *at = output(w); (at = strstr(at, "\"aggregation\":\"@")); at += 16) {
                unsigned which = at[16] == 'w' ? 0 : at[16] == 'p' ? 1 : 2;
                const char *key = strstr(at, "\"keys\":[");
                assert_non_null(key);
                got[which] |= (uint64_t)1 << (strtoul(key + 8, NULL, 10) - 100);
            }
            if (memcmp(got, wanted, sizeof got) != 0)
                fail_msg("%s: %s", text, output(w));
            end_run(w);
        }
}

static void a_chain_of_conditions_has_the_limit_of_operators(void **state) {
    world *w = *state;
    char *text = malloc(20000);
    ea_lang_problem problem;
    for (int count = 900; count <= 1100; count += 200) {
        size_t n = (size_t)snprintf(text, 20000, "Thread/CSwitch /cpu<9");
        for (int i = 0; i < count; i++)
            n += (size_t)snprintf(text + n, 20000 - n, "&&cpu<9");
        snprintf(text + n, 20000 - n, "/ { }");
        int rc = compile(w, text, &problem);
        assert_int_equal(rc, count < 1000 ? 0 : EA_EINVAL);
        if (rc)
            assert_non_null(strstr(problem.message, "more than 1000 operators"));
        end_run(w);
    }
    free(text);
}

static void a_statement_whose_value_is_absent_is_skipped_and_counted(void **state) {
    world *w = *state;
    start(w, "Thread/End { @a = count(); @b = sum(TThreadId); if (TThreadId) { @c = count(); } else { @d = count(); } "
             "@e = sum(1 / (pid - 7)); @f = sum(delta(1)); @g = count(); @i = sum(1.5 / (pid - 7)); }"
             "Thread/End /TThreadId == 5 || 1/ { @h = count(); }");
    assert_int_equal(end_thread(w, 5, 4), 0);
    ea_lang_counts c = ea_lang_run_counts(w->run);
    assert_int_equal(c.absent, 4); /* @b, if, delta, the condition */
    assert_int_equal(c.divided_by_zero, 2);
    ends_with(w, "{\"aggregation\":\"@a\",\"time\":\"1970-01-01T00:00:01.0000000Z\",\"keys\":[],\"count\":1}\n"
                 "{\"aggregation\":\"@g\",\"time\":\"1970-01-01T00:00:01.0000000Z\",\"keys\":[],\"count\":1}\n");
}

/* An opened file, by its path in UTF-16. */
static int create_file(world *w, const char *path) {
    uint8_t payload[64] = {0};
    size_t n = 32;
    for (const char *at = path; n < sizeof payload - 1; n += 2) {
        payload[n] = (uint8_t)*at;
        if (!*at++)
            break;
    }
    ea_record record = {.provider = EA_PROVIDER_FILE_IO,
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .opcode = 64,
                        .version = 3,
                        .pointer_size = 8,
                        .payload = payload,
                        .payload_bytes = n + 2};
    ea_lang_event event = {.record = &record, .utc_ns = w->now_ns};
    event.c = ea_registry_find(w->registry, &record);
    return ea_lang_run_event(w->run, &event);
}

static void bytes_are_those_that_the_field_has(void **state) {
    static const struct {
        const char *place_and_count, *value; /* NULL: the event lacks it */
    } CASES[] = {{"0, 1", "97"},
                 {"0, 2", "24832"},
                 {"2, 1", "98"},
                 {"event.ShareAccess + 1, 3", "25088"},
                 {"0, 8", "6989694375479476224"},
                 {"7, 1", "0"},
                 {"8, 1", NULL},
                 {"7, 2", NULL},
                 {"1, 8", NULL},
                 {"0 - 1, 1", NULL},
                 {"0 - 1, 8", NULL},
                 {"9223372036854775807, 8", NULL},
                 {"18446744073709551615, 1", NULL},
                 {"18446744073709551609, 8", NULL}};

    world *w = *state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char text[128], expected[128] = "";
        snprintf(text, sizeof text, "FileIo/Create { emit(x = bytes(OpenPath, %s)); }", CASES[i].place_and_count);
        print_message("%s\n", text);
        start(w, text);
        assert_int_equal(create_file(w, "abc"), 0);
        assert_int_equal(ea_lang_run_counts(w->run).absent, !CASES[i].value);
        if (CASES[i].value)
            snprintf(expected, sizeof expected, "{\"row\":{\"x\":%s},\"time\":\"1970-01-01T00:00:01.0000000Z\"}\n",
                     CASES[i].value);
        ends_with(w, expected);
    }
    /* a probe without an event has no field */
    start(w, "FileIo/Create, tick:1ms { @[probe] = sum(bytes(OpenPath, 0, 1)); }");
    assert_int_equal(create_file(w, "abc"), 0);
    w->now_ns += 5000000;
    assert_int_equal(create_file(w, "abc"), 0);
    assert_int_equal(ea_lang_run_counts(w->run).absent, 1);
    ends_with(
        w,
        "{\"aggregation\":\"@\",\"time\":\"1970-01-01T00:00:01.0050000Z\",\"keys\":[\"FileIo/Create\"],\"sum\":194}\n");
}

/* By the events' times, from whichever run a firing is. */
static void triggers_fire_within_their_limits(void **state) {
    static const struct {
        int64_t at_s;
        int fires;
    } EVENTS[] = {{10, 1}, {19, 0}, {20, 1}, {5, 0}, {31, 0}, {71, 1}, {79, 0}, {81, 1}};

    world *w = *state;
    uint64_t unfired = 0;
    start(w, "Thread/CSwitch { trigger(\"slow-gc\", before 5m, after 0s, at most 2/m, cooldown 10s); }");
    ea_lang_run_fired(w->run, "other", 10 * INT64_C(1000000000));
    for (size_t i = 0; i < sizeof EVENTS / sizeof *EVENTS; i++) {
        size_t before = strlen(output(w));
        w->now_ns = EVENTS[i].at_s * 1000000000;
        assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
        assert_int_equal(strlen(output(w)) > before, EVENTS[i].fires);
        unfired += !EVENTS[i].fires;
        assert_int_equal(ea_lang_run_counts(w->run).unfired, unfired);
    }
    assert_non_null(
        strstr(output(w),
               "{\"trigger\":\"slow-gc\",\"event\":\"Thread/CSwitch\",\"time\":\"1970-01-01T00:00:10.0000000Z\"}\n"));
    end_run(w);
    start(w, "Thread/CSwitch { trigger(\"slow\", cooldown 1m, at most 5/d); }");
    ea_lang_run_fired(w->run, "slow", 0);
    w->now_ns = INT64_C(59) * 1000000000;
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    assert_string_equal(output(w), "");
    w->now_ns = INT64_C(60) * 1000000000;
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    assert_non_null(strstr(output(w), "slow"));
    end_run(w);
    start_with(w, "Thread/CSwitch { trigger(\"a\", cooldown 0s); trigger(\"b\", cooldown 0s); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV});
    assert_int_equal(switch_to(w, 1, 2, 0, 0) + switch_to(w, 2, 1, 0, 0), 0);
    assert_string_equal(output(w), "trigger,event\na,Thread/CSwitch\nb,Thread/CSwitch\n"
                                   "a,Thread/CSwitch\nb,Thread/CSwitch\n");
    end_run(w);
    start(w, "end { trigger(\"none\"); }"); /* no event: no time */
    assert_true(ea_lang_run_end(w->run) >= 0);
    assert_string_equal(output(w), "");
    assert_int_equal(ea_lang_run_counts(w->run).unfired, 0);
    end_run(w);
}

static void sum_with_a_negative_number_has_a_sign(void **state) {
    world *w = *state;
    start(w, "Thread/CSwitch { a = NewThreadId; a += -OldThreadId; b = NewThreadId; b += (NewThreadId - OldThreadId); }"
             "end { printf(\"%d %d %d\", a, a / 2, b > 0); }");
    assert_int_equal(switch_to(w, 1, 9, 0, 0), 0);
    assert_true(ea_lang_run_end(w->run) >= 0);
    assert_non_null(strstr(output(w), "\"printf\":\"-8 -4 0\""));
    end_run(w);
}

static void variables_live_as_long_as_their_scope(void **state) {
    world *w = *state;
    start(w, "begin { g = 5; m[1, \"a\"] = 7; }"
             "Thread/CSwitch { printf(\"%d %d %d %d\", g, m[1, \"a\"], this.x, self.n); this.x = 3; }"
             "Thread/CSwitch { g += this.x; m[1, \"a\"]--; self->n++; m[2, \"b\"] = 0; }"
             "Thread/CSwitch /NewThreadId == 9/ { clear(m); }");
    assert_int_equal(switch_to(w, 8, 4, 0, 0), 0);
    assert_int_equal(switch_to(w, 9, 8, 0, 0), 0);
    assert_int_equal(switch_to(w, 8, 9, 0, 0), 0);
    assert_int_equal(end_thread(w, 8, 8), 0);
    assert_int_equal(switch_to(w, 8, 9, 0, 0), 0);
    assert_int_equal(thread_event(w, 1, 8, 8), 0); /* another thread of this id: its predecessor's end is lost */
    assert_int_equal(switch_to(w, 8, 9, 0, 0), 0);
    assert_true(ea_lang_run_end(w->run) >= 0);
    const char *at = output(w);
    static const char *const LINES[] = {"\"5 7 0 0\"", "\"8 6 0 0\"", "\"11 0 0 1\"", "\"14 -1 0 0\"", "\"17 -2 0 0\""};
    for (size_t i = 0; i < 5; i++) {
        at = strstr(at, "\"printf\":");
        assert_non_null(at);
        at += strlen("\"printf\":");
        if (strncmp(at, LINES[i], strlen(LINES[i])) != 0)
            fail_msg("line %zu: expected %s, found %s", i, LINES[i], at);
    }
    end_run(w);
}

static void delta_is_the_time_between_a_begin_and_its_end(void **state) {
    world *w = *state;
    start(w, "sched:::off-cpu { delta(OldThreadId); } sched:::on-cpu { @[NewThreadId] = sum(delta(NewThreadId)); }");
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0); /* 2 goes */
    assert_int_equal(switch_to(w, 3, 1, 0, 0), 0);
    assert_int_equal(switch_to(w, 2, 3, 0, 0), 0); /* 2 comes back after 2,000 ns */
    assert_int_equal(switch_to(w, 2, 9, 0, 0), 0); /* without a begin of its own */
    ends_with(w, "{\"aggregation\":\"@\",\"time\":\"1970-01-01T00:00:01.0000030Z\",\"keys\":[2],\"sum\":2000}\n");
}

static void a_text_and_a_number_are_different_keys_of_delta(void **state) {
    world *w = *state;
    start(w, "Thread/CSwitch { delta(NewThreadId); } Thread/End { @ = sum(delta(probe)); }");
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(switch_to(w, i, 2, 0, 0), 0);
    assert_int_equal(end_thread(w, 5, 8), 0);
    assert_int_equal(ea_lang_run_counts(w->run).absent, 1);
    ends_with(w, "");
}

static void a_number_may_grow_out_of_itself(void **state) {
    world *w = *state;
    start(w, "Thread/CSwitch { x = x + 1; streak = NewThreadId == 3 ? streak + 1 : 0; } "
             "end { printf(\"%d %d\", x, streak); }");
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(switch_to(w, i == 2 ? 9 : 3, 2, 0, 0), 0);
    ends_with(w, "{\"printf\":\"6 3\",\"time\":\"1970-01-01T00:00:01.0000050Z\"}\n");
    /* the type of the last variable is that of the first, 200 statements before it */
    char text[8192];
    size_t n = (size_t)snprintf(text, sizeof text, "begin { ");
    for (int i = 0; i < 200; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "v%d = v%d; ", i, i + 1);
    snprintf(text + n, sizeof text - n, "v200 = 1.5; printf(\"%%f\", v0); }");
    start(w, text);
    ends_with(w, "{\"printf\":\"0.000000\"}\n");
}

static void a_clause_may_be_of_events_and_of_none(void **state) {
    world *w = *state;
    start(w, "begin, tick:1ms, Thread/CSwitch, end { @all = count(); @[NewThreadId] = count(); @h = "
             "sum(has(NewThreadId)); }");
    assert_int_equal(switch_to(w, 3, 2, 0, 0), 0);
    assert_int_equal(ea_lang_run_counts(w->run).absent, 1);
    ends_with(w, "{\"aggregation\":\"@all\",\"time\":\"1970-01-01T00:00:01.0000000Z\",\"keys\":[],\"count\":3}\n"
                 "{\"aggregation\":\"@\",\"time\":\"1970-01-01T00:00:01.0000000Z\",\"keys\":[3],\"count\":1}\n"
                 "{\"aggregation\":\"@h\",\"time\":\"1970-01-01T00:00:01.0000000Z\",\"keys\":[],\"sum\":1}\n");
}

static void times_may_be_as_far_apart_as_numbers_are(void **state) {
    world *w = *state;
    start_with(w, "tick:1s { printf(\"%d\\n\", timestamp); } Thread/CSwitch { n++; }",
               &(ea_lang_run_options){.form = EA_LANG_TEXT});
    w->now_ns = -9000000000000000000;
    assert_int_equal(switch_to(w, 3, 2, 0, 0), 0);
    w->now_ns = 9000000000000000000;
    assert_int_equal(switch_to(w, 3, 2, 0, 0), 0);
    ends_with(w, "9000000000000000000\n");
    /* a span of the clock's ticks that is no number of ns */
    uint8_t payload[52] = {0};
    memset(payload + 40, 0xFF, 7);
    payload[47] = 0x7F;
    ea_record record = {.provider = EA_GUID(0x3d6fa8d4, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c),
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .opcode = 10,
                        .version = 3,
                        .pointer_size = 8,
                        .payload = payload,
                        .payload_bytes = sizeof payload};
    ea_lang_event event = {.record = &record, .clock = &(ea_clock){.frequency = 1}};
    start_with(w, "DiskIo/Read { printf(\"%d\\n\", HighResResponseTime); }",
               &(ea_lang_run_options){.form = EA_LANG_TEXT});
    event.c = ea_registry_find(w->registry, &record);
    assert_int_equal(ea_lang_run_event(w->run, &event), 0);
    ends_with(w, "9223372036854775807\n");
}

static void probes_are_by_guid_too(void **state) {
    world *w = *state;
    start(w, "begin { }; Thread/End, 3d6fa8d1-fe05-11d0-9dda-00c04fd7ba7c:36 { @ = count(); };"
             "3D6FA8D1-*:36 { @b = count(); }");
    assert_int_equal(switch_to(w, 3, 2, 0, 0), 0);
    ends_with(w, "{\"aggregation\":\"@\",\"time\":\"1970-01-01T00:00:01.0000000Z\",\"keys\":[],\"count\":1}\n"
                 "{\"aggregation\":\"@b\",\"time\":\"1970-01-01T00:00:01.0000000Z\",\"keys\":[],\"count\":1}\n");
}

static void ticks_follow_the_time_of_the_data(void **state) {
    world *w = *state;
    start(w, "tick:1ms { printf(\"%d %d\", elapsed, @n); clear(@n); } Thread/CSwitch { @n = count(); } tick-10sec { "
             "exit(); }"
             "end { printf(\"over\"); }");
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    w->now_ns = 1000999999;
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    w->now_ns = 1001000000;
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0); /* the tick precedes it */
    w->now_ns = 1007500000;
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0); /* one tick for a gap */
    w->now_ns = 11000000000;
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 1); /* exit */
    assert_true(ea_lang_run_end(w->run) >= 0);
    const char *at = output(w);
    static const char *const LINES[] = {"\"1000000 2\"", "\"7000000 1\"", "\"10000000000 1\"", "\"over\""};
    for (size_t i = 0; i < 4; i++) {
        at = strstr(at, "\"printf\":");
        assert_non_null(at);
        at += strlen("\"printf\":");
        if (strncmp(at, LINES[i], strlen(LINES[i])) != 0)
            fail_msg("line %zu: expected %s, found %s", i, LINES[i], at);
    }
    end_run(w);
}

/* On a terminal: tables of ticks that are due together are all there, those of the last ones are not. */
static void ticks_share_the_screen(void **state) {
    world *w = *state;
    start_with(w,
               "tick:1s { print(@one); } tick:2s { print(@two); } Thread/CSwitch { @one = count(); @two = count(); }",
               &(ea_lang_run_options){.form = EA_LANG_TEXT, .is_redrawn = 1});
    for (unsigned second = 1; second <= 3; second++) {
        static const unsigned TABLES[] = {0, 1, 2};
        unsigned screens = 0, tables = 0;
        w->now_ns = (int64_t)second * 1000000000;
        assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
        for (const char *at = output(w); (at = strstr(at, "\x1b[H\x1b[2J")) != NULL; at++)
            screens++;
        for (const char *at = output(w); (at = strchr(at, '@')) != NULL; at++)
            tables++;
        assert_int_equal(screens, TABLES[second - 1] != 0);
        assert_int_equal(tables, TABLES[second - 1]);
        ea_text_clear(ea_lang_run_output(w->run));
    }
    end_run(w);
}

/* A clock that is set back, and an event whose time is far ahead, do not stop the ticks. */
static void ticks_go_on_when_the_clock_is_set_back(void **state) {
    static const struct {
        int64_t seconds;
        unsigned ticks;
    } STEPS[] = {{1000, 0}, {1001, 1}, {90000, 2}, {1002, 2}, {1003, 3}, {1004, 4}, {1003, 4}, /* a little disorder */
                 {1005, 5}, {10, 5},   {11, 6}};

    world *w = *state;
    start(w, "tick:1s { printf(\"tick\"); }");
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
        unsigned ticks = 0;
        w->now_ns = STEPS[i].seconds * 1000000000;
        assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
        for (const char *at = output(w); (at = strstr(at, "\"tick\"")) != NULL; at++)
            ticks++;
        if (ticks != STEPS[i].ticks)
            fail_msg("step %zu: %u ticks, expected %u", i, ticks, STEPS[i].ticks);
    }
    end_run(w);
}

static void ticks_need_no_event(void **state) {
    world *w = *state;
    start(w, "tick:1s { printf(\"%d\", elapsed); } tick:3s { exit(); } Thread/CSwitch { @n = count(); }");
    assert_int_equal(ea_lang_run_time(w->run, 1000000000), 0); /* they count from here */
    assert_int_equal(ea_lang_run_time(w->run, 1999999999), 0);
    assert_string_equal(output(w), "");
    assert_int_equal(ea_lang_run_time(w->run, 2000000000), 0);
    assert_non_null(strstr(output(w), "\"printf\":\"1000000000\""));
    assert_int_equal(ea_lang_run_time(w->run, 4000000000), 1); /* exit */
    end_run(w);
}

static void events_without_a_clause_are_unmatched(void **state) {
    world *w = *state;
    start(w, "unmatched { @[probe] = count(); } Thread/End { @e = count(); }");
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    assert_int_equal(end_thread(w, 1, 8), 0);
    ends_with(
        w,
        "{\"aggregation\":\"@\",\"time\":\"1970-01-01T00:00:01.0000010Z\",\"keys\":[\"Thread/CSwitch\"],\"count\":1}\n"
        "{\"aggregation\":\"@e\",\"time\":\"1970-01-01T00:00:01.0000010Z\",\"keys\":[],\"count\":1}\n");
}

static void unmatched_is_of_the_process_that_the_options_name(void **state) {
    world *w = *state;
    start_with(w, "unmatched { @ = count(); }", &(ea_lang_run_options){.form = EA_LANG_CSV, .pid = 7});
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0); /* of a process that is not known */
    assert_int_equal(end_thread(w, 1, 8), 0);      /* of 7 */
    ends_with(w, "aggregation,count\n@,1\n");
}

/* Frames of one half alone. */
static const uint64_t *frames_of_half(const void *arg, uint32_t number, size_t *ret_count) {
    static const uint64_t FRAMES[] = {1, 2};
    (void)arg;
    *ret_count = number == 5 ? 2 : 0;
    return FRAMES;
}

static void stacks_that_a_clause_misses_are_known(void **state) {
    world *w = *state;
    ea_lang_run_options how = {.form = EA_LANG_CSV, .frames = frames_of_half};
    start_with(w,
               "Thread/CSwitch /NewThreadId < 5/ { @[ustack()] = count(); @k = top(kstack(), 2); } Thread/End { @e = "
               "count(); } stack-missing { @missing[probe, tid] = count(); }",
               &how);
    w->stack[1] = 5; /* the user's half alone: the kernel's is missing */
    assert_int_equal(switch_to(w, 1, 2, 0, 0), 0);
    w->stack[0] = 5;
    assert_int_equal(switch_to(w, 2, 3, 0, 0), 0); /* both are there */
    w->stack[0] = w->stack[1] = 0;
    assert_int_equal(switch_to(w, 3, 4, 0, 0), 0); /* neither: once */
    assert_int_equal(switch_to(w, 6, 7, 0, 0), 0); /* no clause asks */
    assert_int_equal(end_thread(w, 1, 8), 0);      /* nor of this class */
    assert_int_equal(ea_lang_run_end(w->run), 0);
    const char *found = strstr(output(w), "aggregation,probe,tid,count\n");
    assert_non_null(found);
    assert_string_equal(found, "aggregation,probe,tid,count\n@missing,Thread/CSwitch,1,1\n"
                               "@missing,Thread/CSwitch,3,1\n");
    end_run(w);
}

/* ---- completion ---- */

static int take_word(void *arg, const char *word) {
    ea_text_printf(arg, " %s", word);
    return 0;
}

static void completions_are(world *w, const char *text, const char *has, const char *lacks) {
    ea_lang_sources from = {.registry = w->registry};
    ea_text t;
    ea_text_init(&t);
    assert_int_equal(ea_lang_complete(text, strlen(text), &from, take_word, &t), 0);
    ea_text_char(&t, ' ');
    if ((*has && !strstr(t.data, has)) || (!*has && t.len_bytes != 1) || (*lacks && strstr(t.data, lacks)))
        fail_msg("%s: expected%s without%s, got%s", text, has, lacks, t.data);
    ea_text_deinit(&t);
}

static void words_that_may_follow_are_known(void **state) {
    world *w = *state;
    completions_are(w, "", " begin ", " execname ");
    completions_are(w, "thread/cs", " Thread/CSwitch ", " Thread/Start ");
    completions_are(w, "begin { x = 1; } Thread/CSwitch, st", " stack-missing ", " begin ");
    completions_are(w, "sched:::o", " sched:::on-cpu ", " sched:::wakeup ");
    completions_are(w, "\"Thread/C", " Thread/CSwitch ", " Thread/Start ");
    completions_are(w, "Thread/CSwitch { @[New", " NewThreadId ", " OldThreadId ");
    completions_are(w, "Thread/CSwitch /Old", " OldThreadWaitReason_name ", " NewThreadId ");
    completions_are(w, "Thread/CSwitch /NewThreadId > 1/ { if (Old", " OldThreadId ", " NewThreadId ");
    completions_are(w, "sched:::on-cpu { @a = sum(event.New", " NewThreadWaitTime ", " execname ");
    completions_are(w, "Thread/CSwitch { this.x = ", " execname ", " printf ");
    completions_are(w, "Thread/CSwitch { x = 1; pr", " printf ", " probe ");
    completions_are(w, "begin { @ = ll", " llquantize ", " sum ");
    completions_are(w, "begin { @[cpu] = sum(el", " elapsed ", " sum ");
    completions_are(w, "begin { x = parent.p", " ppid ", " probe ");
    completions_are(w, "begin { x = self.", "", "");
    completions_are(w, "begin { printf(\"%d", "", "");
    completions_are(w, "begin { # pr", "", "");
    completions_are(w, "// how often {\nthread/cs", " Thread/CSwitch ", " Thread/Start ");
    completions_are(w, "/* how \"often { */ Thread/CSwitch { @[New", " NewThreadId ", " begin ");
    completions_are(w, "Thread/CSwitch { // \"one\n@[New", " NewThreadId ", " OldThreadId ");
    completions_are(w, "begin { // pr", "", "");
    completions_are(w, "begin { /* pr", "", "");
    completions_are(w, "FileIo/* { @[pro", " probe ", " begin ");
    completions_are(w, "No/Such/Class { @[Ne", "", "");
    completions_are(w, "{{{}}/{\"", "", "");
}

/* A record of a class with ids neither of a thread nor of a process, on the processor of switch_to. */
static void event_of_cpu(world *w, ea_machine *machine, const ea_guid *provider, uint8_t opcode,
                         const uint32_t payload[8]) {
    ea_record record = {.provider = *provider,
                        .flags = EA_FLAG_CLASSIC_HEADER,
                        .opcode = opcode,
                        .version = 2,
                        .pointer_size = 8,
                        .pid = UINT32_MAX,
                        .tid = UINT32_MAX,
                        .cpu = 3,
                        .payload = (const uint8_t *)payload,
                        .payload_bytes = 8 * sizeof *payload};
    ea_lang_event event = {.record = &record, .utc_ns = w->now_ns};
    event.c = ea_registry_find(w->registry, &record);
    assert_int_equal(ea_machine_apply(machine, &record, event.c, event.utc_ns, NULL), 0);
    assert_int_equal(ea_lang_run_event(w->run, &event), 0);
}

static void process_of_an_event_of_a_cpu_is_its_own_or_the_threads(void **state) {
    static const ea_guid OBJECT = EA_PROVIDER_OBJECT, TCP = EA_PROVIDER_TCP_IP;
    world *w = *state;
    ea_machine *machine = NULL;
    assert_int_equal(ea_machine_create(&machine, &(ea_machine_options){0}, NULL), 0);
    start_with(w, "TcpIp/RecvIPV4, \"Object/*Handle\" { @[probe, pid] = count(); }",
               &(ea_lang_run_options){.form = EA_LANG_CSV, .machine = machine});
    size_t count;
    const ea_lang_need *needs = ea_lang_needs(w->program, &count);
    for (size_t i = 0; i < count; i++) /* the others need context switches beside them */
        assert_int_equal(needs[i].has_thread, strcmp(needs[i].name, "TcpIp/RecvIPV4") == 0);
    event_of_cpu(w, machine, &THREAD, 3, (const uint32_t[8]){70, 5}); /* thread 5 is of process 70, and runs */
    switch_to(w, 5, 0, 8, 0);
    event_of_cpu(w, machine, &TCP, 11, (const uint32_t[8]){80, 1000});
    event_of_cpu(w, machine, &OBJECT, 32, (const uint32_t[8]){1, 0, 4});
    event_of_cpu(w, machine, &OBJECT, 34, (const uint32_t[8]){1, 0, 4, 8, 90}); /* 90 gets the handle */
    assert_int_equal(ea_lang_run_end(w->run), 0);
    assert_non_null(strstr(output(w), "@,TcpIp/RecvIPV4,80,1\n"));
    assert_non_null(strstr(output(w), "@,Object/CreateHandle,70,1\n"));
    assert_non_null(strstr(output(w), "@,Object/DuplicateHandle,70,1\n"));
    end_run(w);
    ea_machine_destroy(machine);
}

static void printf_has_widths_and_precisions(void **state) {
    world *w = *state;
    start_with(w,
               "begin { printf(\"[%5d|%-5d|%05d|%x|%8.2f|%-6s|%s|%%|%u]\\n\", -42, 42, -42, 255, 3.14159, \"ab\", "
               "\"c\", 7); }",
               &(ea_lang_run_options){.form = EA_LANG_TEXT});
    ends_with(w, "[  -42|42   |-0042|ff|    3.14|ab    |c|%|7]\n");
}

static void every_alias_of_dtrace_is_a_class(void **state) {
    static const char *const ALIASES[] = {
        "proc:::create",
        "proc:::start",
        "proc:::exit",
        "proc:::lwp-create",
        "proc:::lwp-start",
        "proc:::lwp-exit",
        "proc:::module-load",
        "proc:::module-unload",
        "sched:::on-cpu",
        "sched:::off-cpu",
        "sched:::wakeup",
        "io:::start",
        "io:::done",
        "fsinfo:::create",
        "fsinfo:::open",
        "fsinfo:::read",
        "fsinfo:::write",
        "fsinfo:::close",
        "fsinfo:::cleanup",
        "fsinfo:::delete",
        "fsinfo:::rename",
        "fsinfo:::flush",
        "fsinfo:::dirs",
        "fsinfo:::queryinfo",
        "fsinfo:::setinfo",
        "fsinfo:::done",
        "reg:::create",
        "reg:::open",
        "reg:::delete",
        "reg:::query",
        "reg:::setvalue",
        "reg:::deletevalue",
        "reg:::queryvalue",
        "reg:::enumeratekey",
        "reg:::enumeratevalue",
        "reg:::close",
        "pf:::hard-flt",
        "pf:::trans-flt",
        "pf:::zero-flt",
        "pf:::copyw-flt",
        "pf:::guard-flt",
        "pf:::access-flt",
        "tcpip:::send",
        "tcpip:::receive",
        "tcpip:::connect-established",
        "tcpip:::accept-established",
        "tcpip:::disconnect",
        "udpip:::send",
        "udpip:::receive",
        "profile:::profile-997",
        "pmc:::profile",
        "dpc:::dpc",
        "dpc:::thread-dpc",
        "dpc:::timer-dpc",
        "isr:::isr",
        "syscall:::entry",
        "syscall:::return",
        "dnet:::excp",
        "dnet:::gc-start",
        "dnet:::gc-stop",
        "dnet:::lock",
        "dnet:::jit",
        "dnet:::gc",
        "dnet:::loader",
        "diag:::events",
        "hwconfig:::events",
        "diag:::lostevent",
        "lost",
    };
    world *w = *state;
    for (size_t i = 0; i < sizeof ALIASES / sizeof *ALIASES; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s { @[execname] = count(); }", ALIASES[i]);
        start(w, text);
        end_run(w);
    }
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, make_world, free_world)
    const struct CMUnitTest tests[] = {
        T(wrong_programs_are_refused_with_place_and_nearest_name),
        T(a_problem_is_printed_with_its_line_and_a_caret),
        T(length_and_depth_are_bounded),
        T(values_and_operations_are_as_the_reference_says),
        T(comparisons_are_right_whatever_the_signs),
        T(a_field_compared_with_a_number_is_right_at_the_edges),
        T(a_chain_of_conditions_has_the_limit_of_operators),
        T(a_statement_whose_value_is_absent_is_skipped_and_counted),
        T(bytes_are_those_that_the_field_has),
        T(variables_live_as_long_as_their_scope),
        T(triggers_fire_within_their_limits),
        T(sum_with_a_negative_number_has_a_sign),
        T(delta_is_the_time_between_a_begin_and_its_end),
        T(a_text_and_a_number_are_different_keys_of_delta),
        T(a_number_may_grow_out_of_itself),
        T(a_clause_may_be_of_events_and_of_none),
        T(times_may_be_as_far_apart_as_numbers_are),
        T(probes_are_by_guid_too),
        T(unmatched_is_of_the_process_that_the_options_name),
        T(ticks_follow_the_time_of_the_data),
        T(ticks_share_the_screen),
        T(ticks_go_on_when_the_clock_is_set_back),
        T(ticks_need_no_event),
        T(events_without_a_clause_are_unmatched),
        T(stacks_that_a_clause_misses_are_known),
        T(words_that_may_follow_are_known),
        T(process_of_an_event_of_a_cpu_is_its_own_or_the_threads),
        T(printf_has_widths_and_precisions),
        T(every_alias_of_dtrace_is_a_class),
    };
#undef T
    return cmocka_run_group_tests(tests, NULL, NULL);
}
