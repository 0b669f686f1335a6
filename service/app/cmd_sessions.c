/* etwagent sessions: the ETW sessions that Windows runs now, started by any program.
 * Called by: main.c. Calls: service/etw/control.h. Thread: the main one. */
#include "service/app/agent_commands.h"
#include "service/app/session_text.h"
#include "service/etw/control.h"

#include <stddef.h>
#include <stdio.h>

typedef struct options {
    int all, json;
} options;

typedef struct listing {
    int json;
    size_t count;
    ea_text text;
} listing;

static int sessions_add(const ea_live_status *s, void *arg) {
    listing *l = arg;
    if (l->json) {
        ea_text_str(&l->text, l->count ? ",\n {" : "{");
        ea_session_text_json(&l->text, s);
        ea_text_char(&l->text, '}');
    } else {
        ea_session_text_line(&l->text, s);
    }
    l->count++;
    return 0;
}

static int sessions_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    listing l = {.json = o->json};
    ea_err err = {0};
    int more = 0;
    (void)operand_count, (void)operands;
    ea_text_init(&l.text);
    if (o->json)
        ea_text_char(&l.text, '[');
    int rc = ea_control_list(o->all, sessions_add, &l, &more, &err);
    if (o->json)
        ea_text_str(&l.text, "]\n");
    else if (!l.count)
        ea_text_str(&l.text, "no session of etwagent runs\n");
    if (!rc && l.text.failed)
        rc = ea_fail(&err, EA_ENOMEM, "list the sessions");
    if (!rc && fwrite(l.text.data, 1, l.text.len_bytes, stdout) != l.text.len_bytes)
        rc = ea_fail(&err, EA_EIO, "write the list");
    if (!rc && more)
        fprintf(stderr, "etwagent: more sessions run than Windows lists at a time; the list is not complete\n");
    if (rc)
        ea_err_print(stderr, "etwagent", &err);
    ea_text_deinit(&l.text);
    return ea_exit_code(rc);
}

const ea_command ea_cmd_sessions = {
    .name = "sessions",
    .operands = "",
    .summary = "List the agent's ETW sessions, or all, as Windows has them now",
    .details = "Without --all: those whose names begin with etwagent-, started by an agent that runs or left over from "
               "one that does not, and the\n"
               "NT Kernel Logger, which may be another program's. Each line has what Windows reports of the session's "
               "buffers,\n"
               "and what it lost since it was started. \"etwagent status\" has the numbers over all restarts,\n"
               "\"etwagent session show NAME\" one session with its providers.\n"
               "JSON keys: " EA_SESSION_TEXT_KEYS ".\n"
               "Exit codes: 0 listed, 1 failed, or no Windows.",
    .options =
        (const ea_option[]){
            {.name = "all",
             .type = EA_OPT_FLAG,
             .offset = offsetof(options, all),
             .help = "list the sessions of other programs, too"},
            {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(options, json), .help = "print a JSON array"},
            {.name = NULL}},
    .options_size = sizeof(options),
    .run = sessions_run,
};
