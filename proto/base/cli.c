/* Command lines. See cli.h. */
#include "proto/base/cli.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Levenshtein distance of short names, for "did you mean". */
size_t ea_name_distance(const char *a, const char *b) {
    enum { MAX = 32 };

    size_t row[MAX + 1], n = strlen(a), m = strlen(b);
    if (n > MAX || m > MAX)
        return MAX;
    for (size_t j = 0; j <= m; j++)
        row[j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t kept = row[j], best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            row[j] = best;
            diagonal = kept;
        }
    }
    return row[m];
}

void ea_option_amount(const ea_option *o, uint64_t v, ea_text *t) {
    static const struct unit {
        enum ea_option_type type;
        uint64_t size;
        const char *name;
    } UNITS[] = {
        {EA_OPT_SIZE, 1ull << 40, "TiB"},
        {EA_OPT_SIZE, 1ull << 30, "GiB"},
        {EA_OPT_SIZE, 1ull << 20, "MiB"},
        {EA_OPT_SIZE, 1ull << 10, "KiB"},
        {EA_OPT_DURATION, 86400000000000, "d"},
        {EA_OPT_DURATION, 3600000000000, "h"},
        {EA_OPT_DURATION, 60000000000, "m"},
        {EA_OPT_DURATION, 1000000000, "s"},
        {EA_OPT_DURATION, 1000000, "ms"},
        {EA_OPT_DURATION, 1000, "us"},
        {EA_OPT_DURATION, 1, "ns"},
    };

    for (size_t i = 0; v && i < sizeof UNITS / sizeof *UNITS; i++)
        if (UNITS[i].type == o->type && v % UNITS[i].size == 0) {
            ea_text_printf(t, "%" PRIu64 "%s", v / UNITS[i].size, UNITS[i].name);
            return;
        }
    ea_text_u64(t, v);
}

void ea_option_range(const ea_option *o, ea_text *t) {
    ea_option_amount(o, o->min, t);
    ea_text_str(t, " to ");
    ea_option_amount(o, o->max, t);
}

/* "expected a size such as 64KiB or 1MiB", "expected 1 to 64", "expected one of a, b". */
static int unexpected(const ea_option *o, int in_form, ea_err *err) {
    static const char *const FORM[] = {[EA_OPT_U64] = "a whole number",
                                       [EA_OPT_DURATION] = "a duration such as 250ms, 10s or 5m",
                                       [EA_OPT_SIZE] = "a size such as 64KiB or 1MiB"};
    ea_text t;
    ea_text_init(&t);
    if (o->type == EA_OPT_CHOICE) {
        ea_text_str(&t, "one of");
        for (int i = 0; o->choices[i]; i++)
            ea_text_printf(&t, "%s %s", i ? "," : "", o->choices[i]);
    } else if (!in_form) {
        ea_text_str(&t, FORM[o->type]);
    } else {
        ea_option_range(o, &t);
    }
    ea_fail(err, EA_EUSAGE, "expected %s", t.failed ? "another value" : t.data);
    ea_text_deinit(&t);
    return EA_EUSAGE;
}

int ea_option_store(const ea_option *o, const char *value, void *options, ea_err *err) {
    void *target = (char *)options + o->offset;
    uint64_t number = 0;
    int64_t ns = 0;
    int rc = 0;
    switch (o->type) {
    case EA_OPT_FLAG:
        *(int *)target = 1;
        return 0;
    case EA_OPT_STRING:
        *(const char **)target = value;
        return 0;
    case EA_OPT_STRINGS: {
        ea_strings *list = target;
        if (list->count == EA_STRINGS_MAX)
            return ea_fail(err, EA_EUSAGE, "expected at most %d of them", EA_STRINGS_MAX);
        list->items[list->count++] = value;
        return 0;
    }
    case EA_OPT_CHOICE:
        for (int i = 0; o->choices[i]; i++)
            if (strcmp(value, o->choices[i]) == 0) {
                *(int *)target = i;
                return 0;
            }
        return unexpected(o, 1, err);
    case EA_OPT_U64:
        rc = ea_u64_parse(value, &number);
        break;
    case EA_OPT_SIZE:
        rc = ea_size_parse(value, &number);
        break;
    case EA_OPT_DURATION:
        rc = ea_duration_parse(value, &ns);
        number = (uint64_t)ns;
        break;
    case EA_OPT_TABLE:
    case EA_OPT_TABLES:
    case EA_OPT_LABELS:
        return ea_fail(err, EA_EUSAGE, "expected a mapping");
    }
    if (rc)
        return unexpected(o, 0, err);
    if (o->max && (number < o->min || number > o->max))
        return unexpected(o, 1, err);
    if (o->type == EA_OPT_DURATION)
        *(int64_t *)target = ns;
    else
        *(uint64_t *)target = number;
    return 0;
}

int ea_option_fallbacks(const ea_option *rows, void *options, ea_err *err) {
    int rc = 0;
    for (const ea_option *o = rows; !rc && o->name; o++)
        if (o->type == EA_OPT_TABLE)
            rc = ea_option_fallbacks(o->table->rows, (char *)options + o->offset, err);
        else if (o->fallback)
            rc = ea_option_store(o, o->fallback, options, err);
    return rc;
}

const ea_option *ea_option_find(const ea_option *rows, const char *name, size_t len, const char **ret_nearest) {
    char copy[40];
    size_t best = 4;
    const char *nearest = NULL;
    for (const ea_option *o = rows; o->name; o++)
        if (strlen(o->name) == len && memcmp(o->name, name, len) == 0)
            return o;
    if (len < sizeof copy) {
        memcpy(copy, name, len);
        copy[len] = 0;
        for (const ea_option *o = rows; o->name; o++)
            if (ea_name_distance(o->name, copy) < best) {
                best = ea_name_distance(o->name, copy);
                nearest = o->name;
            }
    }
    *ret_nearest = nearest;
    return NULL;
}

static const ea_option *find_letter(const ea_option *options, char letter) {
    for (const ea_option *o = options; o->name; o++)
        if (o->letter == letter)
            return o;
    return NULL;
}

/* Mappings and lists of them are in configuration files only. */
static int cli_is_of_file(const ea_option *o) {
    return o->type == EA_OPT_TABLE || o->type == EA_OPT_TABLES || o->type == EA_OPT_LABELS;
}

static void print_help(const char *program, const ea_command *c, FILE *out) {
    fprintf(out, "usage: %s %s [options]%s%s\n\n%s.\n", program, c->name, *c->operands ? " " : "", c->operands,
            c->summary);
    if (c->details)
        fprintf(out, "\n%s\n", c->details);
    fprintf(out, "\noptions:\n");
    for (const ea_option *o = c->options; o->name; o++) {
        char left[64];
        if (cli_is_of_file(o))
            snprintf(left, sizeof left, "    %s:", o->name);
        else if (o->letter)
            snprintf(left, sizeof left, "-%c, --%s%s%s", o->letter, o->name, o->argument ? " " : "",
                     o->argument ? o->argument : "");
        else
            snprintf(left, sizeof left, "    --%s%s%s", o->name, o->argument ? " " : "",
                     o->argument ? o->argument : "");
        fprintf(out, "  %-28s %s", left, o->help);
        for (int i = 0; o->choices && o->choices[i]; i++)
            fprintf(out, "%s%s", i ? ", " : ": ", o->choices[i]);
        if (o->max) {
            ea_text range;
            ea_text_init(&range);
            ea_option_range(o, &range);
            fprintf(out, " (%s)", range.failed ? "?" : range.data);
            ea_text_deinit(&range);
        }
        if (o->fallback)
            fprintf(out, " (default %s)", o->fallback);
        if (cli_is_of_file(o))
            fprintf(out, " (in the configuration file only)");
        if (o->required)
            fprintf(out, " (required%s%s)", o->unless ? " unless " : "", o->unless ? o->unless : "");
        fprintf(out, "\n");
    }
    fprintf(out, "  %-28s %s\n", "-h, --help", "print this text");
}

static int usage(const char *program, const char *command, const ea_err *err) {
    fprintf(stderr, "%s%s%s: %s\n", program, command ? " " : "", command ? command : "", err->message);
    fprintf(stderr, "try '%s%s%s --help'\n", program, command ? " " : "", command ? command : "");
    return 2;
}

static int parse_option(const ea_command *c, void *options, unsigned char *given, int argc, char **argv, int *i,
                        ea_err *err) {
    const char *arg = argv[*i], *name = arg + 2, *equals = strchr(arg, '='), *value = NULL, *nearest = NULL;
    const ea_option *o;
    if (arg[1] == '-') {
        o = ea_option_find(c->options, name, equals ? (size_t)(equals - name) : strlen(name), &nearest);
        value = equals ? equals + 1 : NULL;
    } else {
        o = find_letter(c->options, arg[1]);
        value = arg[2] ? arg + 2 : NULL;
    }
    if (!o)
        return nearest ? ea_fail(err, EA_EUSAGE, "unknown option %s; did you mean --%s?", arg, nearest)
                       : ea_fail(err, EA_EUSAGE, "unknown option %s", arg);
    if (cli_is_of_file(o))
        return ea_fail(err, EA_EUSAGE, "--%s: expected it in the file of --config", o->name);
    if (o->type == EA_OPT_FLAG && value)
        return ea_fail(err, EA_EUSAGE, "--%s takes no value", o->name);
    if (o->type != EA_OPT_FLAG && !value) {
        if (*i + 1 >= argc)
            return ea_fail(err, EA_EUSAGE, "--%s needs a value: %s", o->name, o->argument);
        value = argv[++*i];
    }
    size_t k = (size_t)(o - c->options);
    if (given[k] && o->type != EA_OPT_STRINGS) /* the last one would win: what a caller quoted wrongly overrides */
        return ea_fail(err, EA_EUSAGE, "--%s is given twice; expected it once", o->name);
    if (!given[k] && o->type == EA_OPT_STRINGS) /* what a file said is replaced, not added to */
        ((ea_strings *)(void *)((char *)options + o->offset))->count = 0;
    given[k] = 1;
    ea_err why;
    if (ea_option_store(o, value, options, &why))
        return ea_fail(err, EA_EUSAGE, "--%s '%s': %s", o->name, value, why.message);
    return 0;
}

/* The whole command line into options, *ret_count operands. *ret_help: --help was met; the rest is not looked at. */
static int parse_line(const ea_command *c, void *options, unsigned char *given, int argc, char **argv, char **operands,
                      int *ret_count, int *ret_help, ea_err *err) {
    int n = 0, only_operands = 0, rc = 0;
    for (int i = 0; !rc && i < argc; i++) {
        const char *a = argv[i];
        if (only_operands || a[0] != '-' || !a[1]) {
            operands[n++] = argv[i];
        } else if (strcmp(a, "--") == 0) {
            only_operands = 1;
        } else if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
            *ret_help = 1;
            return 0;
        } else {
            rc = parse_option(c, options, given, argc, argv, &i, err);
        }
    }
    *ret_count = n;
    return rc;
}

static int is_set(const ea_option *o, const void *options) {
    const void *target = (const char *)options + o->offset;
    return (o->type == EA_OPT_STRING && *(const char *const *)target) ||
           (o->type == EA_OPT_STRINGS && ((const ea_strings *)target)->count);
}

static int cli_run_command(const char *program, const ea_command *c, int argc, char **argv) {
    size_t rows = 0;
    while (c->options[rows].name)
        rows++;
    void *options = calloc(1, c->options_size ? c->options_size : 1), *config = NULL;
    char **operands = malloc(sizeof *operands * (size_t)(argc + 1));
    unsigned char *given = calloc(rows + 1, 1);
    ea_err err = {0};
    int n = 0, help = 0, exit_code = 0;
    int rc = options && operands && given ? 0 : ea_fail(&err, EA_ENOMEM, "parse the command line");
    if (!rc)
        rc = ea_option_fallbacks(c->options, options, &err);
    if (!rc)
        rc = parse_line(c, options, given, argc, argv, operands, &n, &help, &err);
    const char *nearest;
    const ea_option *file = c->config ? ea_option_find(c->options, "config", 6, &nearest) : NULL;
    const char *path = file && !rc && !help ? *(const char **)(void *)((char *)options + file->offset) : NULL;
    if (path) { /* once more, over what the file says */
        memset(options, 0, c->options_size);
        memset(given, 0, rows);
        rc = c->config->read(&config, path, c->options, options, &err);
        if (!rc)
            rc = parse_line(c, options, given, argc, argv, operands, &n, &help, &err);
    }
    for (size_t k = 0; !rc && !help && k < rows; k++)
        if (c->options[k].required && !given[k] && !is_set(&c->options[k], options))
            rc = ea_fail(&err, EA_EUSAGE, "--%s %s is required%s%s", c->options[k].name,
                         c->options[k].argument ? c->options[k].argument : "", c->options[k].unless ? " unless " : "",
                         c->options[k].unless ? c->options[k].unless : "");
    if (!rc && !help && n < c->min_operands)
        rc = ea_fail(&err, EA_EUSAGE, "expected %s", c->operands);
    if (!rc && !help && c->max_operands >= 0 && n > c->max_operands)
        rc = ea_fail(&err, EA_EUSAGE, "unexpected argument '%s'", operands[c->max_operands]);
    if (rc)
        exit_code = usage(program, c->name, &err);
    else if (help)
        print_help(program, c, stdout);
    else
        exit_code = c->run(options, n, operands);
    if (exit_code && ea_is_closed_pipe(stdout))
        ea_end_of_closed_pipe();
    if (config)
        c->config->destroy(config);
    free(options);
    free(operands);
    free(given);
    return exit_code;
}

static void print_program_help(const char *program, const char *summary, const ea_command *const *commands, FILE *out) {
    int width = 0;
    for (const ea_command *const *c = commands; *c; c++)
        if ((int)strlen((*c)->name) > width)
            width = (int)strlen((*c)->name);
    fprintf(out, "usage: %s COMMAND [options] [arguments]\n\n%s\n\ncommands:\n", program, summary);
    for (; *commands; commands++)
        fprintf(out, "  %-*s %s\n", width, (*commands)->name, (*commands)->summary);
    fprintf(out,
            "\n'%s COMMAND --help' explains a command, '%s --version' prints the version.\n"
            "'%s --complete bash|zsh|fish' prints a completion script, '%s --man' a man page.\n",
            program, program, program, program);
}

/* Of "session start": the length of "session", and "start"; NULL for a command of one word. */
static const char *second_word(const ea_command *c, int *ret_first) {
    size_t n = strcspn(c->name, " ");
    *ret_first = (int)n;
    return c->name[n] ? c->name + n + 1 : NULL;
}

/* Whether a command before k begins with the same word. */
static int is_named(const ea_command *const *commands, const ea_command *const *k, int first) {
    int other;
    for (; commands != k; commands++) {
        (void)second_word(*commands, &other);
        if (other == first && strncmp((*commands)->name, (*k)->name, (size_t)first) == 0)
            return 1;
    }
    return 0;
}

/* " start stop ..." of "session". */
static void print_second_words(const ea_command *const *commands, const char *word, int first) {
    int other;
    for (; *commands; commands++) {
        const char *second = second_word(*commands, &other);
        if (second && other == first && strncmp((*commands)->name, word, (size_t)first) == 0)
            printf(" %s", second);
    }
}

static int has_second_words(const ea_command *const *commands, const char *word, int first) {
    int other;
    for (; *commands; commands++)
        if (second_word(*commands, &other) && other == first && strncmp((*commands)->name, word, (size_t)first) == 0)
            return 1;
    return 0;
}

static void print_bash(const char *program, const ea_command *const *commands) {
    int first;
    printf("_%s() {\n  local cur=${COMP_WORDS[COMP_CWORD]} words=\n"
           "  case \"${COMP_WORDS[1]} ${COMP_WORDS[2]}\" in\n",
           program);
    for (int words = 2; words; words--) /* "schema list" before "schema" */
        for (const ea_command *const *k = commands; *k; k++) {
            int has_two = second_word(*k, &first) != NULL;
            if (has_two != (words == 2))
                continue;
            printf(has_two ? "  '%s') words=\"" : "  '%s '*) words=\"", (*k)->name);
            for (const ea_option *o = (*k)->options; o->name; o++)
                if (!cli_is_of_file(o))
                    printf("--%s ", o->name);
            printf("--help\";;\n");
        }
    printf("  esac\n  [ \"$COMP_CWORD\" = 2 ] && case \"${COMP_WORDS[1]}\" in\n");
    for (const ea_command *const *k = commands; *k; k++) {
        if (!second_word(*k, &first) ||
            (k != commands && strncmp((*k)->name, k[-1]->name, (size_t)first + 1) == 0)) /* the first one has said it */
            continue;
        printf("  %.*s) words=\"$words", first, (*k)->name);
        print_second_words(commands, (*k)->name, first);
        printf("\";;\n");
    }
    printf("  esac\n  [ \"$COMP_CWORD\" = 1 ] && words=\"");
    for (const ea_command *const *k = commands; *k; k++) {
        (void)second_word(*k, &first);
        if (!is_named(commands, k, first))
            printf("%.*s ", first, (*k)->name);
    }
    printf("--help --version\"\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "  [ ${#COMPREPLY[@]} = 0 ] && COMPREPLY=($(compgen -f -- \"$cur\"))\n}\ncomplete -o filenames -F _%s %s\n",
           program, program);
}

/* Inside single quotes of fish. */
static void print_fish_quoted(const char *s) {
    for (; *s; s++)
        printf(*s == '\'' || *s == '\\' ? "\\%c" : "%c", *s);
}

/* The words of the command are on the line, and no command of more words. */
static void print_fish_condition(const ea_command *const *commands, const ea_command *c) {
    int first, other;
    const char *second = second_word(c, &first);
    printf("__fish_seen_subcommand_from %.*s", first, c->name);
    if (second) {
        printf("; and __fish_seen_subcommand_from %s", second);
        return;
    }
    if (has_second_words(commands, c->name, first)) {
        printf("; and not __fish_seen_subcommand_from");
        print_second_words(commands, c->name, first);
    }
    for (; *commands; commands++) /* "schema check" is no "check" */
        if ((second = second_word(*commands, &other)) && strcmp(second, c->name) == 0)
            printf("; and not __fish_seen_subcommand_from %.*s", other, (*commands)->name);
}

static void print_fish(const char *program, const ea_command *const *commands) {
    for (const ea_command *const *k = commands; *k; k++) {
        int first;
        const ea_command *c = *k;
        const char *second = second_word(c, &first);
        if (second) {
            if (!is_named(commands, k, first))
                printf("complete -c %s -n __fish_use_subcommand -a %.*s\n", program, first, c->name);
            printf("complete -c %s -n '__fish_seen_subcommand_from %.*s; and not __fish_seen_subcommand_from", program,
                   first, c->name);
            print_second_words(commands, c->name, first);
            printf("' -a %s -d '", second);
        } else {
            printf("complete -c %s -n __fish_use_subcommand -a %s -d '", program, c->name);
        }
        print_fish_quoted(c->summary);
        printf("'\n");
        for (const ea_option *o = c->options; o->name; o++) {
            if (cli_is_of_file(o))
                continue;
            printf("complete -c %s -n '", program);
            print_fish_condition(commands, c);
            printf("' -l %s%s\n", o->name, o->argument ? " -r" : "");
        }
    }
}

static int print_completion(const char *program, const char *shell, const ea_command *const *commands) {
    int fish = strcmp(shell, "fish") == 0, zsh = strcmp(shell, "zsh") == 0;
    if (!fish && !zsh && strcmp(shell, "bash") != 0) {
        fprintf(stderr, "%s: --complete '%s': expected bash, zsh or fish\n", program, shell);
        return 2;
    }
    if (fish) {
        print_fish(program, commands);
        return 0;
    }
    if (zsh)
        printf("autoload -U +X bashcompinit && bashcompinit\n");
    print_bash(program, commands);
    return 0;
}

/* Text for troff: a leading dot or quote and every backslash and dash would be commands. */
static void print_troff(const char *s) {
    int line_start = 1;
    for (; *s; s++) {
        if (line_start && (*s == '.' || *s == '\''))
            printf("\\&");
        if (*s == '\\')
            printf("\\e");
        else if (*s == '-')
            printf("\\-");
        else
            putchar(*s);
        line_start = *s == '\n';
    }
}

static void print_man(const char *program, const char *version, const char *summary,
                      const ea_command *const *commands) {
    printf(".TH %s 1 \"\" \"%s\"\n.SH NAME\n%s \\- ", program, version, program);
    print_troff(summary);
    printf("\n.SH SYNOPSIS\n.B %s\n.I COMMAND\n[options] [arguments]\n.SH COMMANDS\n", program);
    for (; *commands; commands++) {
        const ea_command *c = *commands;
        printf(".SS %s ", c->name);
        print_troff(c->operands);
        printf("\n");
        print_troff(c->summary);
        printf(".\n");
        if (c->details) {
            printf(".PP\n.nf\n");
            print_troff(c->details);
            printf("\n.fi\n");
        }
        for (const ea_option *o = c->options; o->name; o++) {
            printf(cli_is_of_file(o) ? ".TP\n.B " : ".TP\n.B \\-\\-");
            print_troff(o->name);
            printf(cli_is_of_file(o) ? ":" : "");
            if (o->argument)
                printf(" \\fI%s\\fR", o->argument);
            printf("\n");
            print_troff(o->help);
            if (o->fallback) {
                printf(" (default ");
                print_troff(o->fallback);
                printf(")");
            }
            printf("\n");
        }
    }
    printf(".SH EXIT STATUS\n0 success; 1 failure; 2 the command line is wrong; 3 an input is not usable.\n");
}

int ea_cli_main(const char *program, const char *version, const char *summary, const ea_command *const *commands,
                int argc, char **argv) {
    ea_err err;
    if (argc < 2) {
        print_program_help(program, summary, commands, stderr);
        return 2;
    }
    const char *first = argv[1];
    if (strcmp(first, "--help") == 0 || strcmp(first, "-h") == 0 || (strcmp(first, "help") == 0 && argc == 2)) {
        print_program_help(program, summary, commands, stdout);
        return 0;
    }
    if (strcmp(first, "--version") == 0) {
        printf("%s %s\n", program, version);
        return 0;
    }
    if (strcmp(first, "--man") == 0) {
        print_man(program, version, summary, commands);
        return 0;
    }
    if (strcmp(first, "--complete") == 0)
        return print_completion(program, argc > 2 ? argv[2] : "", commands);
    int help = strcmp(first, "help") == 0;
    char **words = argv + 1 + help;
    int count = argc - 1 - help;
    const char *nearest = NULL;
    size_t best = 4;
    for (const ea_command *const *k = commands; *k; k++) {
        const char *name = (*k)->name, *space = strchr(name, ' ');
        size_t len = space ? (size_t)(space - name) : strlen(name);
        if (strlen(words[0]) == len && memcmp(words[0], name, len) == 0) {
            if (!space || (count > 1 && strcmp(words[1], space + 1) == 0)) {
                if (help) {
                    print_help(program, *k, stdout);
                    return 0;
                }
                int used = space ? 2 : 1;
                return cli_run_command(program, *k, count - used, words + used);
            }
            nearest = name;
        } else if (ea_name_distance(name, words[0]) < best) {
            best = ea_name_distance(name, words[0]);
            nearest = name;
        }
    }
    if (nearest)
        ea_fail(&err, EA_EUSAGE, "unknown command '%s'; did you mean '%s'?", words[0], nearest);
    else
        ea_fail(&err, EA_EUSAGE, "unknown command '%s'", words[0]);
    return usage(program, NULL, &err);
}
