/* etwagent schema install, schema uninstall: registers the providers of a manifest with Windows, as "wevtutil im" and
 * "wevtutil um" do, which these commands run. Called by: main.c. Calls: proto/event/schema, service/etw/launch.h.
 * Thread: the main one. */
#include "proto/base/trust.h"
#include "proto/event/schema/load.h"
#include "service/app/agent_commands.h"
#include "service/etw/launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const int64_t WAIT_NS = 100000000;

typedef struct install_options {
    const char *resources;
} install_options;

/* Holds a file that no less privileged user can change or replace until its providers are registered. Its name is one
 * that a command line can hold: Windows has no quotation marks in names. */
static int install_open(ea_trusted_file **ret, const char *path, ea_err *err) {
    for (const char *p = path; *p; p++)
        if (*p == '"' || (unsigned char)*p < ' ')
            return ea_fail(err, EA_EUSAGE, "a name of a file has no quotation mark, and no control character");
    return ea_trusted_open(ret, path, err);
}

/* A manifest with a mistake is refused before Windows has a part of it. */
static int install_open_manifest(ea_trusted_file **ret, const char *path, ea_err *err) {
    ea_schemas *schemas = NULL;
    int rc = install_open(ret, path, err);
    if (!rc)
        rc = ea_schemas_create(&schemas, 0, err);
    if (!rc)
        rc = ea_schema_file_load(schemas, ea_trusted_path(*ret), NULL, err);
    if (!rc && !ea_schemas_provider_count(schemas))
        rc = ea_fail(err, EA_EFORMAT, "%s: expected a manifest with a provider", path);
    ea_schemas_destroy(schemas);
    return rc;
}

/* Runs wevtutil to its end; it prints what it has to say. */
static int install_run_wevtutil(const char *arguments, ea_err *err) {
    ea_launch *l = NULL;
    uint32_t code = 0;
    int rc = ea_launch_system(&l, "wevtutil.exe", arguments, err);
    if (!rc)
        rc = ea_launch_resume(l, err);
    while (!rc && !ea_launch_wait(l, WAIT_NS))
        ;
    if (!rc && !ea_launch_exit_code(l, &code))
        rc = ea_fail(err, EA_EIO, "wevtutil ended without an exit code");
    else if (!rc && code)
        rc = ea_fail(err, EA_EIO, "wevtutil %.400s ended with %" PRIu32, arguments, code);
    ea_launch_close(l);
    return rc;
}

static int install_end(ea_text *arguments, int rc, ea_err *err) {
    if (!rc && arguments->failed)
        rc = ea_fail(err, EA_ENOMEM, "schema install");
    if (!rc)
        rc = install_run_wevtutil(arguments->data, err);
    if (rc)
        ea_err_print(stderr, "etwagent", err);
    ea_text_deinit(arguments);
    return ea_exit_code(rc);
}

static int install_run(const void *arg, int operand_count, char **operands) {
    const install_options *o = arg;
    ea_trusted_file *manifest = NULL, *resources = NULL;
    ea_err err = {0};
    ea_text arguments;
    (void)operand_count;
    ea_text_init(&arguments);
    int rc = install_open_manifest(&manifest, operands[0], &err);
    if (!rc && o->resources)
        rc = install_open(&resources, o->resources, &err);
    if (!rc)
        ea_text_printf(&arguments, "im \"%s\"", ea_trusted_path(manifest));
    if (!rc && resources) /* whole paths: Windows keeps them */
        ea_text_printf(&arguments, " \"/rf:%s\" \"/mf:%s\"", ea_trusted_path(resources), ea_trusted_path(resources));
    int code = install_end(&arguments, rc, &err);
    ea_trusted_close(resources);
    ea_trusted_close(manifest);
    return code;
}

const ea_command ea_cmd_schema_install = {
    .name = "schema install",
    .operands = "FILE",
    .summary = "Register the providers of a manifest with Windows",
    .details =
        "FILE is an instrumentation manifest (.man), which must have no mistake; Windows' own wevtutil registers "
        "it (wevtutil im).\n"
        "It needs the rights of an administrator. Windows reads the texts and the layouts of the events from the "
        "program or library\n"
        "that the message compiler (mc.exe) made of the manifest; every account that decodes must be able to "
        "read that file. Only the system and administrators may be able to change FILE, that "
        "file and their\n"
        "folders: else the command fails and says what to change.\n"
        "Exit codes: 0 registered, 1 failed (wevtutil's words and exit code are printed), or no Windows, 2 usage, "
        "3 not a manifest.",
    .options = (const ea_option[]){{.name = "resources",
                                    .argument = "FILE",
                                    .type = EA_OPT_STRING,
                                    .offset = offsetof(install_options, resources),
                                    .help = "the program or library with the compiled manifest; when absent, the one "
                                            "that the manifest names"},
                                   {.name = NULL}},
    .options_size = sizeof(install_options),
    .run = install_run,
    .min_operands = 1,
    .max_operands = 1,
};

static int uninstall_run(const void *arg, int operand_count, char **operands) {
    ea_trusted_file *manifest = NULL;
    ea_err err = {0};
    ea_text arguments;
    (void)arg, (void)operand_count;
    ea_text_init(&arguments);
    int rc = install_open_manifest(&manifest, operands[0], &err);
    if (!rc)
        ea_text_printf(&arguments, "um \"%s\"", ea_trusted_path(manifest));
    int code = install_end(&arguments, rc, &err);
    ea_trusted_close(manifest);
    return code;
}

const ea_command ea_cmd_schema_uninstall = {
    .name = "schema uninstall",
    .operands = "FILE",
    .summary = "Remove the providers of a manifest from Windows",
    .details =
        "FILE is the manifest with which they were registered; Windows' own wevtutil removes them (wevtutil um). "
        "It needs the\n"
        "rights of an administrator, and only the system and administrators may be able to change FILE.\n"
        "Exit codes: 0 removed, 1 failed (wevtutil's words and exit code are printed), or no Windows, 2 usage, "
        "3 not a manifest.",
    .options = (const ea_option[]){{.name = NULL}},
    .options_size = 1,
    .run = uninstall_run,
    .min_operands = 1,
    .max_operands = 1,
};
