/* etwcollector where: which module an address was in.
 * Before it: main.c. After it: collector/query. Thread: the main one. */
#include "clock.h"
#include "commands.h"
#include "question.h"

#include <inttypes.h>
#include <string.h>

typedef struct options {
    ec_question_options q;
    uint64_t pid;
} options;

typedef struct place {
    ea_text t;
    uint64_t address;
    int json;
} place;

static void add_place(const ea_module *m, void *arg) {
    place *p = arg;
    const char *name = ec_base_name(m->path);
    if (p->json) {
        ea_text_str(&p->t, ", \"name\": ");
        ea_text_json_str(&p->t, name);
        ea_text_printf(&p->t, ", \"offset\": \"0x%" PRIx64 "\", \"module\": ", p->address - m->base);
        ec_json_module(&p->t, m);
    } else {
        ea_text_safe(&p->t, *name ? name : "?", *name ? strlen(name) : 1);
        ea_text_printf(&p->t, "+0x%" PRIx64 "\n", p->address - m->base);
    }
}

/* Looks the address up and fills p->t: 1 found, 0 not. */
static int look_up(const options *o, uint32_t pid, place *p, ec_moment *moment, ea_err *err) {
    ec_query *q = NULL;
    uint64_t behind = 0;
    int rc = ec_question_open(&o->q, &q, &behind, err);
    if (!rc)
        rc = ec_question_moment(&o->q, q, o->q.at, moment, err);
    if (!rc && p->json) {
        ea_text_char(&p->t, '{');
        ec_json_moment(&p->t, moment, behind);
        ea_text_printf(&p->t, ", \"pid\": %" PRIu32 ", \"address\": \"0x%" PRIx64 "\"", pid, p->address);
    }
    if (!rc)
        rc = ec_query_where(q, moment->fold.fold_id, pid, moment->utc_ns, p->address, add_place, p, err);
    if (rc >= 0 && p->json)
        ea_text_str(&p->t, rc ? "}\n" : ", \"name\": null, \"offset\": null, \"module\": null}\n");
    ec_query_close(q);
    return rc;
}

static int run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ec_moment moment = {0};
    uint32_t pid = 0;
    ea_err err = {0};
    place p = {.json = o->q.json};
    (void)operand_count;
    ea_text_init(&p.t);
    int rc = ec_question_pid(o->pid, &pid, &err);
    if (!rc && ea_u64_parse(operands[0], &p.address))
        rc = ea_fail(&err, EA_EUSAGE, "\"%s\" is no address: decimal, or hex after 0x", operands[0]);
    if (!rc) {
        int found = look_up(o, pid, &p, &moment, &err);
        rc = found < 0 ? found : ec_answer_write(&p.t, &err);
        if (!rc && !found) {
            ea_text_utc_ns(&p.t, moment.utc_ns);
            rc = ea_fail(&err, EA_ENOTFOUND, "0x%" PRIx64 " is in no module that is known of process %" PRIu32 " at %s",
                         p.address, pid, p.t.data ? p.t.data : "that time");
        }
    }
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ea_text_deinit(&p.t);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    EC_QUESTION_OPTIONS(options, q),
    {.name = "pid",
     .argument = "PID",
     .type = EA_OPT_U64,
     .offset = offsetof(options, pid),
     .required = 1,
     .help = "the process whose address it is; 0: the kernel"},
    {.name = NULL},
};

const ea_command ec_cmd_where = {
    .name = "where",
    .operands = "ADDRESS",
    .summary = "Say which module of a process an address was in, and how far into it",
    .details =
        "Prints MODULE+OFFSET, such as ntdll.dll+0x1234. Kernel addresses are found in every process. When no module\n"
        "covers the address, that is said and the exit code is 1.\n"
        "--json: {host, stream, time, data_begin, data_end, behind, pid, address, name, offset, module}; module as of\n"
        "the command modules.\n" EC_QUESTION_DETAILS "\n\n"
        "  etwcollector where --store /var/lib/etwcollector --host pc-17 --at end --pid 4242 0x7ff8a9b21234",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = run,
    .min_operands = 1,
    .max_operands = 1,
};
