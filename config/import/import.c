/* A command line is read by the reader of the tool that it names. See import.h, importer.h. */
#include "config/import/importer.h"

static int read_command(ea_import *im, const char *const *words, size_t count, ea_err *err) {
    if (!count)
        return ea_fail(err, EA_EUSAGE, "expected a command line of xperf, logman or PerfView");
    const char *name = words[0];
    for (const char *p = words[0]; *p; p++)
        if (*p == '/' || *p == '\\')
            name = p + 1;
    if (ea_import_is(name, "xperf") || ea_import_is(name, "xperf.exe"))
        return ea_import_xperf(im, words + 1, count - 1, err);
    if (ea_import_is(name, "logman") || ea_import_is(name, "logman.exe"))
        return ea_import_logman(im, words + 1, count - 1, err);
    if (ea_import_is(name, "perfview") || ea_import_is(name, "perfview.exe") || ea_import_is(name, "perfview64.exe"))
        return ea_import_perfview(im, words + 1, count - 1, err);
    return ea_fail(
        err, EA_EUSAGE,
        "'%.64s': expected a command line that begins with xperf, logman or PerfView (a trace file is read by: "
        "etwcollector open FILE)",
        name);
}

int ea_import_command(ea_import *im, const char *const *words, size_t count, ea_err *err) {
    for (size_t i = 0; i < count; i++) {
        int bad = ea_import_check_text(words[i], err);
        if (bad)
            return bad;
    }
    int rc = read_command(im, words, count, err);
    return rc ? rc : ea_import_check(im, err);
}
