/* etwcollector modules: what was loaded in a process at a moment. Called by: main.c. Calls: collector/query. Thread:
 * the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "proto/base/clock.h"

#include <inttypes.h>
#include <string.h>

typedef struct options {
    ec_question_options q;
    uint64_t pid;
} options;

typedef struct listing {
    ea_text t;
    int json;
    uint64_t count;
} listing;

static int add_module(const ea_module *m, void *arg) {
    listing *l = arg;
    ea_text *t = &l->t;
    if (l->json) {
        ea_text_str(t, l->count++ ? ",\n  " : "\n  ");
        ec_json_module(t, m);
        return 0;
    }
    if (l->count++ == 0)
        ea_text_printf(t, "%-18s %10s  %-35s  %s\n", "BASE", "SIZE", "LOADED", "PATH, PDB");
    ea_text_printf(t, "0x%016" PRIx64 " %10" PRIu64 "  ", m->base, m->size_bytes);
    size_t from = t->len_bytes;
    ec_answer_begin(t, &m->life);
    for (size_t n = t->len_bytes - from; n < 37; n++)
        ea_text_char(t, ' ');
    ea_text_safe(t, m->path, strlen(m->path));
    if (m->has_pdb) {
        ea_text_str(t, "  ");
        ea_text_safe(t, m->pdb_path, strlen(m->pdb_path));
        ea_text_char(t, ' ');
        ea_text_guid(t, &m->pdb_guid);
        ea_text_printf(t, " %" PRIu32, m->pdb_age);
    }
    if (m->kind == EA_MODULE_ANNOUNCED)
        ea_text_str(t, "  (announced)");
    ea_text_char(t, '\n');
    return 0;
}

static int modules_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ec_query *q = NULL;
    ec_moment moment;
    uint64_t backlog = 0;
    uint32_t pid = 0;
    ea_err err = {0};
    listing l = {.json = o->q.json};
    (void)operand_count, (void)operands;
    ea_text_init(&l.t);
    int rc = ec_question_pid(o->pid, &pid, &err);
    if (!rc)
        rc = ec_question_open(&o->q, &q, &backlog, &err);
    if (!rc)
        rc = ec_question_confine(o->q.store, &err);
    if (!rc)
        rc = ec_question_moment(&o->q, q, o->q.at, &moment, &err);
    if (!rc && l.json) {
        ea_text_char(&l.t, '{');
        ec_json_moment(&l.t, &moment, backlog);
        ea_text_printf(&l.t, ", \"pid\": %" PRIu32 ", \"modules\": [", pid);
    }
    if (!rc)
        rc = ec_query_modules(q, moment.fold.stream_number, pid, moment.utc_ns, add_module, &l, &err);
    if (!rc && l.json)
        ea_text_str(&l.t, "\n]}\n");
    if (!rc)
        rc = ec_answer_write(&l.t, &err);
    if (!rc && l.count == 0)
        rc = ea_fail(&err, EA_ENOTFOUND, "no module of process %" PRIu32 " is known at that time", pid);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_query_close(q);
    ea_text_deinit(&l.t);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    EC_QUESTION_OPTIONS(options, q),
    {.name = "pid",
     .argument = "PID",
     .type = EA_OPT_U64,
     .offset = offsetof(options, pid),
     .required = 1,
     .help = "the process; 0: the kernel and its drivers"},
    {.name = NULL},
};

const ea_command ec_cmd_modules = {
    .name = "modules",
    .operands = EC_TRACES_OPERANDS,
    .summary = "List the modules that were loaded in a process at a time",
    .details =
        "Prints base, size, when it was loaded, path, and the name, GUID and age of its PDB, by address.\n"
        "--json: {host, stream, time, data_begin, data_end, behind, pid, modules: [{base, size, path, original_name,\n"
        "kind (image, or announced by the program itself), pdb: {guid, age, path} or null, pid, instance, begin, "
        "not_before, not_after, known_by, end, ended_by,\n"
        "process_instance, default_base, checksum, timestamp, file: {size, sha256, version, company, product, "
        "description,\n"
        "md5, sha1, imphash} or null\n"
        "(what the agent found in the image's file, where a session's option 'images' has it "
        "look)}]}.\n" EC_QUESTION_DETAILS "\n\n"
        "  etwcollector modules --store /var/lib/etwcollector --host pc-17 --at end --pid 4242",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = modules_run,
};
