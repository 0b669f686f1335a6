/* etwcollector audit verify: whether the audit log is as it was written. Called by: main.c. Calls: collector/access
 * (audit.h). Thread: the main one. */
#include "collector/access/audit.h"
#include "collector/app/collector_commands.h"

#include <inttypes.h>

typedef struct options {
    const char *store;
} options;

static int audit_verify(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ea_text report;
    uint64_t faults = 0;
    (void)operand_count, (void)operands;
    ea_text_init(&report);
    int rc = ec_audit_verify(o->store, &report, &faults, &err);
    if (report.len_bytes && !report.failed &&
        (fwrite(report.data, 1, report.len_bytes, stdout) != report.len_bytes || fflush(stdout)) && !rc)
        rc = ea_fail(&err, EA_EIO, "write to standard output");
    ea_text_deinit(&report);
    if (!rc && faults)
        rc = ea_fail(&err, EA_ECORRUPT, "the audit log of %s has %" PRIu64 " faults", o->store, faults);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    return ea_exit_code(rc);
}

const ea_command ec_cmd_audit_verify = {
    .name = "audit verify",
    .operands = "",
    .summary = "Check that no line of the audit log was changed, removed or reordered",
    .details =
        "Each line of DIR/audit.jsonl and DIR/audit-refused.jsonl, rotated files included, has a number and the "
        "SHA-256\n"
        "of the line before it. The command prints each fault with file, line and number, and what is kept. "
        "Lines that\n"
        "rotation deleted are no fault: the first line of a file says from which number on lines are kept.\n"
        "FILE.head has the last line's number and hash: lines that are missing at the end are a fault, and so is "
        "a\n"
        "missing file. The next line that is written states such a fault, which is reported until rotation "
        "deletes\n"
        "that line. A power loss can cause the same fault, since lines are not synced one by one. A user who can\n"
        "write to DIR can rewrite the files and .head, or remove all of them when no running collector has written a\n"
        "line: only a copy elsewhere (run --audit-syslog) shows that. While a collector writes, the command can report "
        "a fault "
        "that\n"
        "is none: repeat it.\n"
        "Exit codes: 0 no fault, 1 failed, 2 usage, 3 faults.",
    .options = (const ea_option[]){EC_STORE_OPTION(options, store), {.name = NULL}},
    .options_size = sizeof(options),
    .run = audit_verify,
};
