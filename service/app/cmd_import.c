/* etwagent import: other tools' command lines and recording profiles as sessions of our configuration. Called by:
 * main.c. Calls: config/import. Thread: the main one. */
#include "config/import/import.h"
#include "proto/base/platform.h"
#include "service/app/agent_commands.h"

#include <stdlib.h>
#include <string.h>

enum { PROFILE_MAX_BYTES = 4 << 20 };

typedef struct options {
    int providers;
    const char *wpr, *profile;
} options;

static int import_read_profile(ea_import *im, const options *o, ea_err *err) {
    char *data;
    size_t len_bytes;
    int rc = ea_path_read_all(o->wpr, PROFILE_MAX_BYTES, &data, &len_bytes, err);
    if (rc)
        return rc;
    rc = ea_import_wpr(im, o->wpr, data, len_bytes, o->profile, err);
    free(data);
    return rc;
}

static int read_words(ea_import *im, const options *o, int count, char **operands, ea_err *err) {
    const char *words[EA_IMPORT_WORDS_MAX];
    size_t n = 0;
    if (o->wpr)
        return count ? ea_fail(err, EA_EUSAGE, "--wpr: expected no command line beside it")
                     : import_read_profile(im, o, err);
    if (o->profile)
        return ea_fail(err, EA_EUSAGE, "--profile goes with --wpr");
    if (!count)
        return ea_fail(err, EA_EUSAGE, "expected a command line, or --wpr FILE");
    if (o->providers)
        return count == 1 ? ea_import_perfview_providers(im, operands[0], err)
                          : ea_fail(err, EA_EUSAGE, "--providers: expected one text");
    if (count == 1) {
        int rc = ea_import_split(im, operands[0], words, EA_IMPORT_WORDS_MAX, &n, err);
        if (rc)
            return rc;
    } else if (count > EA_IMPORT_WORDS_MAX) {
        return ea_fail(err, EA_ELIMIT, "more than %d words", EA_IMPORT_WORDS_MAX);
    }
    for (; count > 1 && n < (size_t)count; n++)
        words[n] = operands[n];
    return ea_import_command(im, words, n, err);
}

static int import_run(const void *arg, int operand_count, char **operands) {
    ea_import *im = malloc(sizeof *im);
    ea_err err = {0};
    ea_text t;
    if (!im)
        return 1;
    ea_text_init(&t);
    ea_import_init(im);
    int rc = read_words(im, arg, operand_count, operands, &err);
    if (!rc) {
        ea_import_write(im, &t);
        if (t.failed)
            rc = ea_fail(&err, EA_ENOMEM, "print");
        else if (fwrite(t.data, 1, t.len_bytes, stdout) != t.len_bytes || fflush(stdout))
            rc = ea_fail(&err, EA_EIO, "write to standard output");
    }
    ea_import_deinit(im);
    ea_text_deinit(&t);
    free(im);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    {.name = "providers",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, providers),
     .help = "the text is PerfView's provider strings alone: Name:Keywords:Level:@Key=Value,..."},
    {.name = "wpr",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, wpr),
     .help = "a recording profile of Windows Performance Recorder (.wprp) instead of a command line"},
    {.name = "profile",
     .argument = "ID",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, profile),
     .help = "with --wpr: Id or name of the profile in the file; default: the first one"},
    {.name = NULL},
};

const ea_command ea_cmd_import = {
    .name = "import",
    .operands = "[COMMAND-LINE]",
    .summary = "Print the configuration that records what a command line of xperf, logman or PerfView would",
    .details =
        "The command line is one text in quotes, or the rest of the line after --. An option without a counterpart is "
        "named "
        "in\n"
        "a comment at the top. The output is the part \"sessions\" of a configuration file.\n\n"
        "  etwagent import 'xperf -on latency -stackwalk profile -start a -on Microsoft-Windows-Win32k:::stack'\n"
        "  etwagent import 'logman start dns -p Microsoft-Windows-DNS-Client 0xff 5 -ets'\n"
        "  etwagent import 'PerfView collect /ThreadTime /Providers=*My-Source:0x3:Informational'\n"
        "  etwagent import --wpr GeneralProfile.wprp --profile CPU.Verbose.File\n"
        "  etwagent import --providers 'Microsoft-Windows-DotNETRuntime:GC+Jit:Verbose:@StacksEnabled=true'",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = import_run,
    .min_operands = 0,
    .max_operands = -1,
};
