/* The agent as a Windows service: "install", "uninstall", "start", "stop", "reload", "flush", and "service", which only
 * the service control manager starts. Called by: main.c, the SCM. Calls: agent.h, service/scm. Thread: the main one;
 * what the SCM asks comes on another. */
#include "proto/base/platform.h"
#include "proto/base/trust.h"
#include "service/app/agent_commands.h"
#include "service/core/agent.h"
#include "service/core/agent_config.h"
#include "service/core/agent_log.h"
#include "service/etw/autologger.h"
#include "service/host/win/wide.h"
#include "service/scm/eventlog.h"
#include "service/scm/pipe.h"
#include "service/scm/scm.h"
#include "service/scm/watchdog.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { STATUS_WAIT_MS = 2000 };

static const char CONFIG_NAME[] = "etwagent.yaml", DUMP_FOLDER[] = "dumps";

typedef struct options {
    const char *config;
    int start;
} options;

typedef struct uninstall_options {
    int boot;
} uninstall_options;

typedef struct purge_options {
    int yes, token;
} purge_options;

/* ---- the service ---- */

typedef struct service {
    ea_agent_control control;
    char config[EA_AGENT_PATH_BYTES];
    ea_watchdog *watchdog;
    ea_pipe *pipe;
    ea_mutex *lock;
    ea_cond *fresh;
    ea_text status;  /* lock, like the next two */
    unsigned writes; /* of the status */
    int over;
} service;

static void service_on_request(void *arg, enum ea_service_request request) {
    service *s = arg;
    switch (request) {
    case EA_SERVICE_STOP:
        ea_agent_request(&s->control, &s->control.stop);
        break;
    case EA_SERVICE_SHUTDOWN:
        atomic_store(&s->control.no_drain, 1);
        ea_agent_request(&s->control, &s->control.stop);
        break;
    case EA_SERVICE_RELOAD:
        ea_agent_request(&s->control, &s->control.reload);
        break;
    case EA_SERVICE_FLUSH:
        ea_agent_request(&s->control, &s->control.flush);
        break;
    case EA_SERVICE_STATUS:
        ea_agent_request(&s->control, &s->control.status);
        break;
    }
}

static void on_status(void *arg, const char *json, size_t len_bytes) {
    service *s = arg;
    ea_mutex_lock(s->lock);
    ea_text_deinit(&s->status);
    ea_text_init(&s->status);
    ea_text_add(&s->status, json, len_bytes);
    s->writes++;
    ea_cond_broadcast(s->fresh);
    ea_mutex_unlock(s->lock);
}

/* The pipe's thread: the status as it is now; as it was last when the main thread has no time for it. */
static void service_answer(void *arg, ea_text *out) {
    service *s = arg;
    int64_t until = ea_monotonic_ns() + (int64_t)STATUS_WAIT_MS * 1000000;
    ea_mutex_lock(s->lock);
    unsigned before = s->writes;
    ea_agent_request(&s->control, &s->control.status);
    while (s->writes == before && !s->over && ea_monotonic_ns() < until)
        ea_cond_wait_for(s->fresh, s->lock, until - ea_monotonic_ns());
    if (!s->status.failed)
        ea_text_add(out, s->status.data, s->status.len_bytes);
    ea_mutex_unlock(s->lock);
}

static void log_info(void *arg, const char *line) {
    (void)arg;
    ea_log_info("%s", line);
}

static void on_log_line(void *arg, enum ea_log_kind kind, const char *line) {
    static const enum ea_eventlog_kind KINDS[] = {
        [EA_LOG_STARTED] = EA_EVENTLOG_STARTED,   [EA_LOG_STOPPED] = EA_EVENTLOG_STOPPED,
        [EA_LOG_RELOADED] = EA_EVENTLOG_RELOADED, [EA_LOG_REFUSED] = EA_EVENTLOG_REFUSED,
        [EA_LOG_WARNING] = EA_EVENTLOG_WARNING,   [EA_LOG_WORKS] = EA_EVENTLOG_WORKS,
        [EA_LOG_LOST] = EA_EVENTLOG_LOST,         [EA_LOG_FAILED] = EA_EVENTLOG_FAILED};

    (void)arg;
    if (kind != EA_LOG_INFO)
        ea_eventlog_write(KINDS[kind], line);
}

/* The failure of an optional part of the service: it is logged and ignored. */
static void without(int rc, const ea_err *err) {
    if (rc)
        ea_log_warning("%s (%s)", err->message, ea_code_text(rc));
}

static void on_config(void *arg, const struct ea_agent_config *config) {
    service *s = arg;
    const ea_service_config *c = &config->service;
    ea_watchdog_limit(&(ea_watchdog_limits){.memory_bytes = c->memory_limit_bytes,
                                            .cpu_percent = (unsigned)c->cpu_limit_percent,
                                            .priority = c->priority},
                      log_info, NULL);
    if (s->watchdog)
        ea_watchdog_set(s->watchdog, c->watchdog_ns);
    ea_err err;
    without(ea_autologgers_write(&config->sessions, log_info, NULL, &err), &err);
}

static void keep_line(void *arg, const char *line) {
    ea_text *t = arg;
    ea_text_printf(t, "%s%s", t->len_bytes ? "; " : "", line);
}

/* The folder for state becomes the system's and administrators' own before anything in it is read. *said: what was
 * changed, for when there is a log. */
static int service_claim_state(ea_text *said, ea_err *err) {
    char folder[EA_AGENT_PATH_BYTES];
    int rc = ea_state_dir(folder, sizeof folder, err);
    return rc ? rc : ea_trust_claim(folder, keep_line, said, err);
}

static int run_agent(service *s, ea_err *err) {
    char path[EA_AGENT_PATH_BYTES];
    ea_err e = {0};
    int rc = ea_agent_file_path(NULL, DUMP_FOLDER, path, &e);
    without(rc ? rc : ea_watchdog_crashes(path, &e), &e);
    without(ea_watchdog_start(&s->watchdog, &s->control.beats, &e), &e);
    without(ea_pipe_serve(&s->pipe, EA_STATUS_PIPE, service_answer, s, &e), &e);
    return ea_agent_run(&(ea_agent_options){.config_path = s->config,
                                            .control = &s->control,
                                            .wait_for_config = 1,
                                            .log_by_default = 1,
                                            .check_config = ea_trust_check,
                                            .arg = s,
                                            .on_status = on_status,
                                            .on_config = on_config},
                        err);
}

static int service_serve(void *arg, ea_err *err) {
    service *s = arg;
    char path[EA_AGENT_PATH_BYTES];
    ea_err e = {0};
    ea_text claimed;
    int rc = ea_mutex_create(&s->lock, err);
    if (!rc)
        rc = ea_cond_create(&s->fresh, err);
    if (rc)
        return rc;
    ea_text_init(&s->status);
    ea_text_init(&claimed);
    int refused = service_claim_state(&claimed, err);
    int opened = ea_eventlog_open(&e);
    int logs = ea_agent_file_path(NULL, "log.txt", path, &e);
    if (!logs)
        logs = refused; /* a log in a folder that others may change is none: then the event log has it alone */
    logs = ea_log_open(&(ea_log_options){.quiet = 1,
                                         .path = logs ? NULL : path,
                                         .file_bytes = 4 << 20,
                                         .lines_a_minute = 120,
                                         .on_line = on_log_line},
                       &e);
    if (!refused)
        without(logs, &e);
    without(opened, &e);
    if (claimed.len_bytes && !claimed.failed)
        ea_log_warning("%s", claimed.data);
    ea_text_deinit(&claimed);
    rc = refused ? refused : run_agent(s, err);
    if (rc)
        ea_log_line(EA_LOG_FAILED, "%s (%s)", err->message, ea_code_text(rc));
    ea_mutex_lock(s->lock);
    s->over = 1;
    ea_cond_broadcast(s->fresh);
    ea_mutex_unlock(s->lock);
    ea_pipe_close(s->pipe);
    ea_watchdog_stop(s->watchdog);
    ea_text_deinit(&s->status);
    ea_cond_destroy(s->fresh);
    ea_mutex_destroy(s->lock);
    ea_log_close();
    ea_eventlog_close();
    return rc;
}

static int service_report(int rc, const ea_err *err) {
    if (rc)
        ea_err_print(stderr, "etwagent", err);
    return ea_exit_code(rc);
}

static int run_service(const void *arg, int operand_count, char **operands) {
    static service s;
    const options *o = arg;
    ea_err err = {0};
    (void)operand_count;
    (void)operands;
    int rc = ea_agent_file_path(o->config, CONFIG_NAME, s.config, &err);
    if (!rc)
        rc = ea_wake_create(&s.control.wake, &err); /* requests come until the process ends */
    if (!rc)
        rc = ea_service_main(&(ea_service){.arg = &s, .run = service_serve, .on_request = service_on_request}, &err);
    return service_report(rc, &err);
}

/* ---- the commands of a person or an installer ---- */

static void service_print_line(void *arg, const char *line) {
    (void)arg;
    fprintf(stderr, "etwagent: %s\n", line);
}

static const ea_service_report TO_PERSON = {.on_note = service_print_line};

/* The service's program runs as the system: no other account may be able to write to it, or to a folder above it. */
static int service_check_program(const char *program, ea_err *err) {
    ea_err why = {0};
    int rc = ea_trust_check(program, &why);
    return rc ? ea_fail(err, rc, "install %.100s as a service: %s; copy it into \"Program Files\" first", program,
                        why.message)
              : 0;
}

static int run_install(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    char config[EA_AGENT_PATH_BYTES], program[EA_AGENT_PATH_BYTES], full[EA_AGENT_PATH_BYTES];
    char state[EA_AGENT_PATH_BYTES];
    ea_err err = {0};
    (void)operand_count;
    (void)operands;
    int rc = ea_program_path(program, sizeof program, &err);
    if (!rc)
        rc = service_check_program(program, &err);
    if (!rc)
        rc = ea_state_dir(state, sizeof state, &err);
    if (!rc)
        rc = ea_trust_claim(state, service_print_line, NULL, &err);
    if (!rc)
        rc = ea_agent_file_path(o->config, CONFIG_NAME, config, &err);
    if (!rc)
        rc = ea_path_full(config, full, sizeof full, &err);
    if (!rc)
        rc = ea_path_make_parent(full, &err);
    if (!rc)
        rc = ea_service_install(program, full, &TO_PERSON, &err);
    if (!rc) {
        printf("installed %s as a service with the configuration %s\n", program, full);
        if (!ea_path_exists(full))
            printf("that file is not there yet: the service waits for it\n");
    }
    if (!rc && o->start)
        rc = ea_service_start(&err);
    return service_report(rc, &err);
}

/* Removes an unused token, which any reader of the file could use. */
static int forget_token(ea_err *err) {
    char path[EA_AGENT_PATH_BYTES];
    int rc = ea_agent_file_path(NULL, "token", path, err);
    return rc || !ea_path_exists(path) ? rc : ea_path_remove(path, err);
}

static int run_uninstall(const void *arg, int operand_count, char **operands) {
    const uninstall_options *o = arg;
    char folder[EA_AGENT_PATH_BYTES];
    ea_err err = {0}, later;
    (void)operand_count;
    (void)operands;
    int rc = ea_autologgers_write(NULL, NULL, NULL, &err);
    if (o->boot)
        return service_report(rc, &err);
    if (rc)
        service_print_line(NULL, err.message);
    rc = ea_service_uninstall(&TO_PERSON, &err);
    if (!rc)
        rc = forget_token(&err);
    if (!rc && !ea_state_dir(folder, sizeof folder, &later))
        printf("the service is gone; configuration, keys, spool and log stay in %s\n", folder);
    return service_report(rc, &err);
}

/* Removes a folder with all that is in it. depth bounds what a hostile folder could make of it. */
typedef struct removal {
    const char *folder;
    int depth;
    ea_err *err;
} removal;

static int remove_folder(const char *folder, int depth, ea_err *err);

static int service_remove_entry(const char *name, int is_dir, void *arg) {
    const removal *r = arg;
    char path[EA_AGENT_PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s\\%s", r->folder, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return ea_fail(r->err, EA_ELIMIT, "remove %s: its name is too long", r->folder);
    return is_dir ? remove_folder(path, r->depth + 1, r->err) : ea_path_remove(path, r->err);
}

static int remove_folder(const char *folder, int depth, ea_err *err) {
    enum { DEEPEST = 16 };

    if (depth > DEEPEST)
        return ea_fail(err, EA_ELIMIT, "remove %s: too many folders in each other", folder);
    removal r = {.folder = folder, .depth = depth, .err = err};
    int rc = ea_path_is_link(folder) ? 0 : ea_path_list(folder, service_remove_entry, &r, err);
    return rc ? rc : ea_path_remove_folder(folder, err);
}

static int run_purge(const void *arg, int operand_count, char **operands) {
    const purge_options *o = arg;
    char folder[EA_AGENT_PATH_BYTES];
    ea_err err = {0};
    (void)operand_count;
    (void)operands;
    if (o->token)
        return service_report(forget_token(&err), &err);
    int rc = o->yes ? ea_state_dir(folder, sizeof folder, &err)
                    : ea_fail(&err, EA_EUSAGE, "configuration, keys, spool and log are removed: say --yes");
    if (!rc && ea_path_exists(folder))
        rc = remove_folder(folder, 0, &err);
    return service_report(rc, &err);
}

static int run_harden(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    (void)arg;
    (void)operand_count;
    (void)operands;
    return service_report(ea_service_harden(&TO_PERSON, &err), &err);
}

static int service_run_start(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    (void)arg;
    (void)operand_count;
    (void)operands;
    return service_report(ea_service_start(&err), &err);
}

static int service_run_stop(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    (void)arg;
    (void)operand_count;
    (void)operands;
    return service_report(ea_service_stop(&err), &err);
}

static int run_reload(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    (void)arg;
    (void)operand_count;
    (void)operands;
    return service_report(ea_service_request_send(EA_SERVICE_RELOAD, &err), &err);
}

static int service_run_flush(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    (void)arg;
    (void)operand_count;
    (void)operands;
    return service_report(ea_service_request_send(EA_SERVICE_FLUSH, &err), &err);
}

#define CONFIG_OPTION                                                                                                  \
    {                                                                                                                  \
        .name = "config", .argument = "FILE", .type = EA_OPT_STRING, .offset = offsetof(options, config),              \
        .help = "the configuration, YAML; default: etwagent.yaml in the folder for state"                              \
    }
static const ea_option NO_OPTIONS[] = {{.name = NULL}};

const ea_command ea_cmd_service = {
    .name = "service",
    .operands = "",
    .summary = "Run as a service; only Windows' service control manager starts this",
    .details =
        "A configuration that cannot be read, or that has no sources or sessions, is logged once; the service waits "
        "for it to change. Controls: stop, "
        "shutdown,\npreshutdown, paramchange (read the configuration again), 200 (flush now), 201 (write the status "
        "now).\nWhat it says is in the Windows event log and in log.txt in the folder for state.",
    .options = (const ea_option[]){CONFIG_OPTION, {.name = NULL}},
    .options_size = sizeof(options),
    .run = run_service,
};

const ea_command ea_cmd_install = {
    .name = "install",
    .operands = "",
    .summary = "Install this program as a Windows service, or bring an installed one up to date",
    .details =
        "The service is started with the machine (delayed) as LocalSystem with only the privileges that sessions need, "
        "has\na SID of its own, and is started again after a crash. A step that this Windows refuses is reported and "
        "skipped.",
    .options =
        (const ea_option[]){
            CONFIG_OPTION,
            {.name = "start", .type = EA_OPT_FLAG, .offset = offsetof(options, start), .help = "start it, too"},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = run_install,
};

const ea_command ea_cmd_harden = {
    .name = "harden",
    .operands = "",
    .summary = "Give the installed service its recovery actions, SID and privileges",
    .details =
        "What \"install\" does beyond creating the service; the MSI runs it, because its own tables may be ignored.",
    .options = NO_OPTIONS,
    .options_size = sizeof(options),
    .run = run_harden,
};

const ea_command ea_cmd_purge = {
    .name = "purge",
    .operands = "",
    .summary = "Remove the folder for state: configuration, keys, spool, log",
    .details = "For a machine that leaves for good; what is in the spool and was not sent is lost. The service must be "
               "stopped.",
    .options =
        (const ea_option[]){
            {.name = "yes", .type = EA_OPT_FLAG, .offset = offsetof(purge_options, yes), .help = "yes, do it"},
            {.name = "token",
             .type = EA_OPT_FLAG,
             .offset = offsetof(purge_options, token),
             .help = "only an enrolment token that has not served yet"},
            {.name = NULL}},
    .options_size = sizeof(purge_options),
    .run = run_purge,
};

const ea_command ea_cmd_uninstall = {
    .name = "uninstall",
    .operands = "",
    .summary = "Stop the Windows service and take it out",
    .details =
        "Configuration, keys, spool and log stay; the command says where. The sessions that Windows starts at boot "
        "(boot-file) go.",
    .options = (const ea_option[]){{.name = "boot",
                                    .type = EA_OPT_FLAG,
                                    .offset = offsetof(uninstall_options, boot),
                                    .help = "only take out what Windows starts at boot, for the MSI's removal"},
                                   {.name = NULL}},
    .options_size = sizeof(uninstall_options),
    .run = run_uninstall,
};

const ea_command ea_cmd_start = {
    .name = "start",
    .operands = "",
    .summary = "Start the Windows service and wait until it runs",
    .options = NO_OPTIONS,
    .options_size = sizeof(options),
    .run = service_run_start,
};

const ea_command ea_cmd_stop = {
    .name = "stop",
    .operands = "",
    .summary = "Stop the Windows service and wait until it has ended",
    .options = NO_OPTIONS,
    .options_size = sizeof(options),
    .run = service_run_stop,
};

const ea_command ea_cmd_reload = {
    .name = "reload",
    .operands = "",
    .summary = "Have the Windows service read its configuration again",
    .options = NO_OPTIONS,
    .options_size = sizeof(options),
    .run = run_reload,
};

const ea_command ea_cmd_flush = {
    .name = "flush",
    .operands = "",
    .summary = "Have the Windows service force its spool to the disk and send it without a pause",
    .options = NO_OPTIONS,
    .options_size = sizeof(options),
    .run = service_run_flush,
};
