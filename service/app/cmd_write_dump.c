/* etwagent write-dump: the minidump of another process. The service starts it when it crashes or hangs. Called by:
 * main.c, service/scm/watchdog.c. Calls: service/scm/minidump.c. Windows only. Thread: the main one. */
#include "service/app/agent_commands.h"
#include "service/scm/minidump.h"

#include <errno.h>
#include <stdlib.h>

static int write_dump_read_number(const char *text, uint64_t max, uint64_t *ret, ea_err *err) {
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    return errno || end == text || *end || *ret > max ? ea_fail(err, EA_EUSAGE, "'%.40s': expected a number", text) : 0;
}

static int write_dump_run(const void *arg, int operand_count, char **operands) {
    uint64_t pid = 0, thread = 0, address = 0;
    ea_err err = {0};
    (void)arg, (void)operand_count;
    int rc = write_dump_read_number(operands[0], UINT32_MAX, &pid, &err);
    if (!rc)
        rc = write_dump_read_number(operands[1], UINT32_MAX, &thread, &err);
    if (!rc)
        rc = write_dump_read_number(operands[2], UINT64_MAX, &address, &err);
    if (!rc)
        rc = ea_minidump_write((uint32_t)pid, (uint32_t)thread, address, operands[3], &err);
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {{.name = NULL}};

const ea_command ea_cmd_write_dump = {
    .name = "write-dump",
    .operands = "PID THREAD ADDRESS FILE",
    .summary = "Write the minidump of another process (the service calls this)",
    .details =
        "The service starts this command when it crashes, so that a dump that hangs cannot keep it alive: after 120 "
        "s both\n"
        "processes are ended. THREAD and ADDRESS: of its exception; 0: it has none.",
    .options = OPTIONS,
    .options_size = sizeof(char),
    .run = write_dump_run,
    .min_operands = 4,
    .max_operands = 4,
};
