/* Command lines. See cli.h. */
#include "cli.h"
#include "clock.h"
#include "text.h"

#include <stdlib.h>
#include <string.h>

/* Levenshtein distance of short names, for "did you mean". */
static size_t distance(const char *a, const char *b) {
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

static int store(const ea_option *o, const char *value, void *options, ea_err *err) {
    char *target = (char *)options + o->offset;
    int rc = 0;
    switch (o->type) {
    case EA_OPT_FLAG:
        *(int *)(void *)target = 1;
        break;
    case EA_OPT_STRING:
        *(const char **)(void *)target = value;
        break;
    case EA_OPT_STRINGS: {
        ea_strings *list = (void *)target;
        if (list->count == EA_STRINGS_MAX)
            return ea_fail(err, EA_EUSAGE, "--%s may be given at most %d times", o->name, EA_STRINGS_MAX);
        list->items[list->count++] = value;
        break;
    }
    case EA_OPT_U64:
        rc = ea_u64_parse(value, (void *)target);
        break;
    case EA_OPT_DURATION:
        rc = ea_duration_parse(value, (void *)target);
        break;
    case EA_OPT_SIZE:
        rc = ea_size_parse(value, (void *)target);
        break;
    case EA_OPT_CHOICE:
        rc = EA_EINVAL;
        for (int i = 0; o->choices[i]; i++)
            if (strcmp(value, o->choices[i]) == 0) {
                *(int *)(void *)target = i;
                rc = 0;
            }
        break;
    }
    if (rc) {
        ea_text t;
        ea_text_init(&t);
        static const char *const wanted[] = {[EA_OPT_U64] = "a whole number",
                                             [EA_OPT_DURATION] = "a duration such as 250ms, 10s or 5m",
                                             [EA_OPT_SIZE] = "a size such as 64KiB or 1MiB"};
        if (o->type == EA_OPT_CHOICE) {
            ea_text_str(&t, "one of");
            for (int i = 0; o->choices[i]; i++)
                ea_text_printf(&t, "%s %s", i ? "," : "", o->choices[i]);
        } else {
            ea_text_str(&t, wanted[o->type]);
        }
        ea_fail(err, EA_EUSAGE, "--%s '%s': expected %s", o->name, value, t.failed ? "another value" : t.data);
        ea_text_deinit(&t);
        return EA_EUSAGE;
    }
    return 0;
}

static const ea_option *find(const ea_option *options, const char *name, size_t len, char letter) {
    for (const ea_option *o = options; o->name; o++)
        if (letter ? o->letter == letter : strlen(o->name) == len && memcmp(o->name, name, len) == 0)
            return o;
    return NULL;
}

static void print_help(const char *program, const ea_command *c, FILE *out) {
    fprintf(out, "usage: %s %s [options]%s%s\n\n%s.\n", program, c->name, *c->operands ? " " : "", c->operands,
            c->summary);
    if (c->details)
        fprintf(out, "\n%s\n", c->details);
    fprintf(out, "\noptions:\n");
    for (const ea_option *o = c->options; o->name; o++) {
        char left[64];
        if (o->letter)
            snprintf(left, sizeof left, "-%c, --%s%s%s", o->letter, o->name, o->argument ? " " : "",
                     o->argument ? o->argument : "");
        else
            snprintf(left, sizeof left, "    --%s%s%s", o->name, o->argument ? " " : "",
                     o->argument ? o->argument : "");
        fprintf(out, "  %-28s %s", left, o->help);
        for (int i = 0; o->choices && o->choices[i]; i++)
            fprintf(out, "%s%s", i ? ", " : ": ", o->choices[i]);
        if (o->fallback)
            fprintf(out, " (default %s)", o->fallback);
        if (o->required)
            fprintf(out, " (required)");
        fprintf(out, "\n");
    }
    fprintf(out, "  %-28s %s\n", "-h, --help", "print this text");
}

static int usage(const char *program, const char *command, const ea_err *err) {
    fprintf(stderr, "%s%s%s: %s\n", program, command ? " " : "", command ? command : "", err->message);
    fprintf(stderr, "try '%s%s%s --help'\n", program, command ? " " : "", command ? command : "");
    return 2;
}

static int parse_option(const ea_command *c, void *options, int argc, char **argv, int *i, ea_err *err) {
    const char *arg = argv[*i], *name = arg + 2, *equals = strchr(arg, '=');
    const ea_option *o;
    const char *value = NULL;
    if (arg[1] == '-') {
        size_t len = equals ? (size_t)(equals - name) : strlen(name);
        o = find(c->options, name, len, 0);
        value = equals ? equals + 1 : NULL;
    } else {
        o = find(c->options, NULL, 0, arg[1]);
        value = arg[2] ? arg + 2 : NULL;
    }
    if (!o) {
        const char *nearest = NULL;
        size_t best = 4;
        for (const ea_option *k = c->options; k->name && arg[1] == '-'; k++)
            if (distance(k->name, name) < best) {
                best = distance(k->name, name);
                nearest = k->name;
            }
        return nearest ? ea_fail(err, EA_EUSAGE, "unknown option %s; did you mean --%s?", arg, nearest)
                       : ea_fail(err, EA_EUSAGE, "unknown option %s", arg);
    }
    if (o->type == EA_OPT_FLAG) {
        if (value)
            return ea_fail(err, EA_EUSAGE, "--%s takes no value", o->name);
        return store(o, NULL, options, err);
    }
    if (!value) {
        if (*i + 1 >= argc)
            return ea_fail(err, EA_EUSAGE, "--%s needs a value: %s", o->name, o->argument);
        value = argv[++*i];
    }
    return store(o, value, options, err);
}

static int run_command(const char *program, const ea_command *c, int argc, char **argv) {
    void *options = calloc(1, c->options_size ? c->options_size : 1);
    char **operands = malloc(sizeof *operands * (size_t)(argc + 1));
    unsigned char *given = calloc(256, 1);
    ea_err err = {0};
    int n = 0, rc = options && operands && given ? 0 : ea_fail(&err, EA_ENOMEM, "parse the command line");
    for (const ea_option *o = c->options; !rc && o->name; o++)
        if (o->fallback)
            rc = store(o, o->fallback, options, &err);
    int only_operands = 0;
    for (int i = 0; !rc && i < argc; i++) {
        const char *a = argv[i];
        if (only_operands || a[0] != '-' || !a[1]) {
            operands[n++] = argv[i];
        } else if (strcmp(a, "--") == 0) {
            only_operands = 1;
        } else if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
            print_help(program, c, stdout);
            free(options);
            free(operands);
            free(given);
            return 0;
        } else {
            int at = i;
            rc = parse_option(c, options, argc, argv, &i, &err);
            for (size_t k = 0; !rc && c->options[k].name && k < 256; k++) {
                size_t len = strlen(c->options[k].name);
                if ((argv[at][1] == '-' && strncmp(argv[at] + 2, c->options[k].name, len) == 0 &&
                     (argv[at][2 + len] == 0 || argv[at][2 + len] == '=')) ||
                    (argv[at][1] != '-' && argv[at][1] == c->options[k].letter))
                    given[k] = 1;
            }
        }
    }
    for (size_t k = 0; !rc && c->options[k].name && k < 256; k++)
        if (c->options[k].required && !given[k])
            rc = ea_fail(&err, EA_EUSAGE, "--%s %s is required", c->options[k].name,
                         c->options[k].argument ? c->options[k].argument : "");
    if (!rc && n < c->min_operands)
        rc = ea_fail(&err, EA_EUSAGE, "expected %s", c->operands);
    if (!rc && c->max_operands >= 0 && n > c->max_operands)
        rc = ea_fail(&err, EA_EUSAGE, "unexpected argument '%s'", operands[c->max_operands]);
    int exit_code = rc ? usage(program, c->name, &err) : c->run(options, n, operands);
    free(options);
    free(operands);
    free(given);
    return exit_code;
}

static void print_program_help(const char *program, const char *summary, const ea_command *const *commands, FILE *out) {
    fprintf(out, "usage: %s COMMAND [options] [arguments]\n\n%s\n\ncommands:\n", program, summary);
    for (; *commands; commands++)
        fprintf(out, "  %-12s %s\n", (*commands)->name, (*commands)->summary);
    fprintf(out,
            "\n'%s COMMAND --help' explains a command, '%s --version' prints the version.\n"
            "'%s --complete bash|zsh|fish' prints a completion script, '%s --man' a man page.\n",
            program, program, program, program);
}

static int print_completion(const char *program, const char *shell, const ea_command *const *commands) {
    int fish = strcmp(shell, "fish") == 0;
    if (!fish && strcmp(shell, "bash") != 0 && strcmp(shell, "zsh") != 0) {
        fprintf(stderr, "%s: --complete '%s': expected bash, zsh or fish\n", program, shell);
        return 2;
    }
    if (fish) {
        for (; *commands; commands++) {
            const ea_command *c = *commands;
            printf("complete -c %s -n __fish_use_subcommand -a '%s' -d '%s'\n", program, c->name, c->summary);
            for (const ea_option *o = c->options; o->name; o++)
                printf("complete -c %s -n '__fish_seen_subcommand_from %s' -l %s%s\n", program, c->name, o->name,
                       o->argument ? " -r" : "");
        }
        return 0;
    }
    if (strcmp(shell, "zsh") == 0)
        printf("autoload -U +X bashcompinit && bashcompinit\n");
    printf("_%s() {\n  local cur=${COMP_WORDS[COMP_CWORD]} words=\n  case \"${COMP_WORDS[1]}\" in\n", program);
    for (const ea_command *const *k = commands; *k; k++) {
        size_t first = strcspn((*k)->name, " ");
        printf("  %.*s) words=\"$words", (int)first, (*k)->name);
        for (const ea_command *const *j = k; *j && strncmp((*j)->name, (*k)->name, first) == 0 && (*k)->name[first];
             j++)
            printf(" %s", (*j)->name + first + 1);
        for (const ea_option *o = (*k)->options; o->name; o++)
            printf(" --%s", o->name);
        printf(" --help\";;\n");
    }
    printf("  esac\n  if [ \"$COMP_CWORD\" = 1 ]; then words=\"");
    for (const ea_command *const *k = commands; *k; k++)
        printf("%.*s ", (int)strcspn((*k)->name, " "), (*k)->name);
    printf("--help --version\"; fi\n  COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "  [ ${#COMPREPLY[@]} = 0 ] && COMPREPLY=($(compgen -f -- \"$cur\"))\n}\ncomplete -o filenames -F _%s %s\n",
           program, program);
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
            printf(".TP\n.B \\-\\-");
            print_troff(o->name);
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
                return run_command(program, *k, count - used, words + used);
            }
            nearest = name;
        } else if (distance(name, words[0]) < best) {
            best = distance(name, words[0]);
            nearest = name;
        }
    }
    if (nearest)
        ea_fail(&err, EA_EUSAGE, "unknown command '%s'; did you mean '%s'?", words[0], nearest);
    else
        ea_fail(&err, EA_EUSAGE, "unknown command '%s'", words[0]);
    return usage(program, NULL, &err);
}
