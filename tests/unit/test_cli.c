/* proto/base's command lines: values, mistakes, help. */
#include "proto/base/cli.h"
#include "proto/base/platform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#if !defined(_WIN32)
#include <unistd.h>
#endif

#define LENGTH(a) (sizeof(a) / sizeof *(a))

typedef struct {
    int verbose;
    const char *name;
    ea_strings tags;
    uint64_t count;
    int64_t wait_ns;
    uint64_t size_bytes;
    int format;
} sample_options;

static const char *const FORMATS[] = {"text", "jsonl", "csv", NULL};
#define AT(field) offsetof(sample_options, field)
static const ea_option SAMPLE_OPTIONS[] = {
    {.name = "verbose", .letter = 'v', .type = EA_OPT_FLAG, .offset = AT(verbose), .help = "say more"},
    {.name = "name",
     .letter = 'n',
     .argument = "NAME",
     .type = EA_OPT_STRING,
     .offset = AT(name),
     .required = 1,
     .unless = "a FILE is named",
     .help = "who"},
    {.name = "tag", .letter = 't', .argument = "TAG", .type = EA_OPT_STRINGS, .offset = AT(tags), .help = "a label"},
    {.name = "count", .argument = "N", .type = EA_OPT_U64, .offset = AT(count), .fallback = "5", .help = "how many"},
    {.name = "wait",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = AT(wait_ns),
     .fallback = "10s",
     .help = "how long"},
    {.name = "size", .argument = "SIZE", .type = EA_OPT_SIZE, .offset = AT(size_bytes), .help = "how large"},
    {.name = "format",
     .argument = "FORMAT",
     .type = EA_OPT_CHOICE,
     .offset = AT(format),
     .fallback = "jsonl",
     .choices = FORMATS,
     .help = "the form"},
    {.name = NULL}};

static struct {
    int calls, operands;
    sample_options options;
    char first_operand[32];
} seen;

static int sample_run(const void *options, int operand_count, char **operands) {
    seen.calls++;
    seen.operands = operand_count;
    seen.options = *(const sample_options *)options;
    snprintf(seen.first_operand, sizeof seen.first_operand, "%s", operand_count ? operands[0] : "");
    return 40;
}

static const ea_command SAMPLE = {.name = "sample",
                                  .operands = "[FILE]...",
                                  .summary = "A command for the test",
                                  .details = "More about it.",
                                  .options = SAMPLE_OPTIONS,
                                  .options_size = sizeof(sample_options),
                                  .run = sample_run,
                                  .min_operands = 0,
                                  .max_operands = 2};
static const ea_option NO_OPTIONS[] = {{.name = NULL}};

static int two_run(const void *options, int operand_count, char **operands) {
    (void)options;
    (void)operands;
    return operand_count + 50;
}

static const ea_command TWO = {.name = "ca init",
                               .operands = "DIR",
                               .summary = "Two words",
                               .options = NO_OPTIONS,
                               .run = two_run,
                               .min_operands = 1,
                               .max_operands = -1};
static const ea_command TOOL = {
    .name = "tool", .operands = "", .summary = "A machine's tool", .options = NO_OPTIONS, .run = two_run};
static const ea_command TOOL_SAMPLE = {
    .name = "tool sample", .operands = "", .summary = "A tool's sample", .options = NO_OPTIONS, .run = two_run};
static const ea_command *const COMMANDS[] = {&SAMPLE, &TWO, &TOOL_SAMPLE, &TOOL, NULL};

/* Runs a command line (words parted by spaces) with stdout and stderr in files; the exit code and what was printed. */
static int cli(const char *line, char *out, size_t out_bytes) {
    char copy[256], *argv[32] = {copy};
    int argc = 0;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *p = copy; *p && argc < 31;) {
        argv[argc++] = p;
        p += strcspn(p, " ");
        if (*p)
            *p++ = 0;
    }
    argv[argc] = NULL;
    memset(&seen, 0, sizeof seen);
#if defined(_WIN32)
    int code = ea_cli_main("prog", "1.2", "A program.", COMMANDS, argc, argv);
    out[0] = 0;
    (void)out_bytes;
#else
    fflush(stdout);
    fflush(stderr);
    int kept_out = dup(1), kept_err = dup(2);
    FILE *capture = tmpfile();
    assert_non_null(capture);
    dup2(fileno(capture), 1);
    dup2(fileno(capture), 2);
    int code = ea_cli_main("prog", "1.2", "A program.", COMMANDS, argc, argv);
    fflush(stdout);
    fflush(stderr);
    dup2(kept_out, 1);
    dup2(kept_err, 2);
    close(kept_out);
    close(kept_err);
    rewind(capture);
    size_t n = fread(out, 1, out_bytes - 1, capture);
    out[n] = 0;
    fclose(capture);
#endif
    return code;
}

static void cli_values(void **state) {
    (void)state;
    char out[16384];
    assert_int_equal(cli("prog sample --name x", out, sizeof out), 40);
    assert_int_equal(seen.options.verbose, 0);
    assert_int_equal(seen.options.count, 5);
    assert_true(seen.options.wait_ns == 10000000000);
    assert_int_equal(seen.options.size_bytes, 0);
    assert_int_equal(seen.options.format, 1);
    assert_int_equal(seen.operands, 0);

    assert_int_equal(
        cli("prog sample -v --name=a=b a.etl -t one --tag=two --count 0x10 --wait=250ms --size 64KiB --format csv "
            "-- -b.etl",
            out, sizeof out),
        40);
    assert_int_equal(seen.options.verbose, 1);
    assert_int_equal(seen.options.tags.count, 2);
    assert_int_equal(seen.options.count, 16);
    assert_true(seen.options.wait_ns == 250000000);
    assert_int_equal(seen.options.size_bytes, 65536);
    assert_int_equal(seen.options.format, 2);
    assert_int_equal(seen.operands, 2);
    assert_string_equal(seen.first_operand, "a.etl");

    assert_int_equal(cli("prog sample -nx -", out, sizeof out), 40); /* a lone dash is an operand */
    assert_string_equal(seen.first_operand, "-");
    assert_int_equal(cli("prog ca init d e f", out, sizeof out), 53);
}

static void cli_errors(void **state) {
    (void)state;

    static const struct {
        const char *line, *says;
    } rows[] = {
        {"prog", "usage: prog COMMAND"},
        {"prog sampel --name x", "did you mean 'sample'?"},
        {"prog zzzzzzzzzz", "unknown command 'zzzzzzzzzz'\n"},
        {"prog ca", "did you mean 'ca init'?"},
        {"prog ca inti d", "unknown command"},
        {"prog ca init", "expected DIR"},
        {"prog sample", "--name NAME is required unless a FILE is named"},
        {"prog sample --name", "--name needs a value: NAME"},
        {"prog sample --nmae x", "unknown option --nmae; did you mean --name?"},
        {"prog sample -x", "unknown option -x\n"},
        {"prog sample --name x --count ten", "--count 'ten': expected a whole number"},
        {"prog sample --name x --wait 5", "expected a duration such as"},
        {"prog sample --name x --size 5K", "expected a size such as"},
        {"prog sample --name x --format xml", "expected one of text, jsonl, csv"},
        {"prog sample --name x --verbose=yes", "--verbose takes no value"},
        {"prog sample --name x a b c", "unexpected argument 'c'"},
        {"prog sample --name x --name y", "--name is given twice; expected it once"},
        {"prog sample --name x -ny", "--name is given twice; expected it once"},
        {"prog sample --name x --count 1 --count=1", "--count is given twice"},
        {"prog sample --name x -v --verbose", "--verbose is given twice"},
        {"prog sample --name x --format csv --format csv", "--format is given twice"},
        {"prog --complete tcsh", "expected bash, zsh or fish"},
    };

    for (size_t i = 0; i < LENGTH(rows); i++) {
        char out[16384];
        assert_int_equal(cli(rows[i].line, out, sizeof out), 2);
        assert_int_equal(seen.calls, 0);
#if !defined(_WIN32)
        if (!strstr(out, rows[i].says))
            fail_msg("'%s' printed '%s', without '%s'", rows[i].line, out, rows[i].says);
#endif
    }
    /* more of a list than fits is refused, not cut */
    static char many[65][8];
    char *argv[4 + 2 * 65] = {many[0]};
    int argc = 0;
    static char words[4][8] = {"prog", "sample", "-nx", "-t"};
    argv[argc++] = words[0];
    argv[argc++] = words[1];
    argv[argc++] = words[2];
    for (int i = 0; i < 65; i++) {
        snprintf(many[i], sizeof many[i], "%d", i);
        argv[argc++] = words[3];
        argv[argc++] = many[i];
    }
    seen.calls = 0;
    assert_int_equal(ea_cli_main("prog", "1.2", "A program.", COMMANDS, argc, argv), 2);
    assert_int_equal(seen.calls, 0);
}

static void cli_help(void **state) {
    (void)state;

    static const struct {
        const char *line, *says;
    } rows[] = {
        {"prog --help", "sample      A command for the test"},
        {"prog help", "ca init"},
        {"prog --version", "prog 1.2\n"},
        {"prog sample --help", "usage: prog sample [options] [FILE]..."},
        {"prog sample -h", "More about it."},
        {"prog help sample", "(default 10s)"},
        {"prog sample --help", "-n, --name NAME"},
        {"prog sample --help", "the form: text, jsonl, csv (default jsonl)"},
        {"prog sample --help", "who (required unless a FILE is named)"},
        {"prog help ca init", "usage: prog ca init [options] DIR"},
        {"prog --man", ".SH COMMANDS"},
        {"prog --complete bash", "--verbose --name"},
        {"prog --complete bash", "'ca init') words=\"--help\";;"},
        {"prog --complete bash", "'tool '*) words=\"--help\";;"},
        {"prog --complete bash", "ca) words=\"$words init\";;"},
        {"prog --complete bash", "tool) words=\"$words sample\";;"},
        {"prog --complete bash", "words=\"sample ca tool --help --version\""},
        {"prog --complete fish", "-n __fish_use_subcommand -a tool -d 'A machine\\'s tool'"},
        {"prog --complete fish",
         "-n '__fish_seen_subcommand_from ca; and not __fish_seen_subcommand_from init' -a init -d 'Two words'"},
        {"prog --complete fish",
         "-n '__fish_seen_subcommand_from sample; and not __fish_seen_subcommand_from tool' -l name -r"},
        {"prog --complete zsh", "bashcompinit"},
    };

    for (size_t i = 0; i < LENGTH(rows); i++) {
        char out[16384];
        assert_int_equal(cli(rows[i].line, out, sizeof out), 0);
        assert_int_equal(seen.calls, 0);
#if !defined(_WIN32)
        if (!strstr(out, rows[i].says))
            fail_msg("'%s' printed '%s', without '%s'", rows[i].line, out, rows[i].says);
#endif
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(cli_values),
        cmocka_unit_test(cli_errors),
        cmocka_unit_test(cli_help),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
