/* etwcollector where: which module an address was in. Called by: main.c. Calls: collector/query. Thread: the main one.
 */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/symbol_options.h"
#include "collector/query/analysis/methods.h"
#include "proto/base/clock.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <string.h>

typedef struct options {
    ec_question_options q;
    uint64_t pid;
    ec_symbol_options symbols;
} options;

typedef struct place {
    ea_text t;
    uint64_t address;
    int json;
    int has_symbols; /* else modules only */
    ec_symbol_desk desk;
    ea_err without; /* why there is no symbol, or none with lines */
} place;

static int where_add_symbol(void *arg, const ec_symbol *symbol) {
    place *p = arg;
    if (p->json)
        ec_symbol_json(&p->t, symbol);
    else
        ec_symbol_print(&p->t, symbol, " ");
    return 0;
}

/* The symbol of an offset into a module; that there is none is no failure of the question. */
static void look_up_symbol(place *p, const ea_module *m, uint64_t offset) {
    const ec_symbol_module module = {.pdb_name = m->has_pdb ? m->pdb_path : NULL,
                                     .pdb = {m->pdb_guid, m->pdb_age},
                                     .image_name = m->path,
                                     .timestamp = m->timestamp,
                                     .size_bytes = m->size_bytes <= UINT32_MAX ? (uint32_t)m->size_bytes : 0};
    uint32_t rva = (uint32_t)offset;
    ea_err e = p->without; /* of the options */
    int rc = e.code                ? e.code
             : offset > UINT32_MAX ? ea_fail(&e, EA_ELIMIT, "an image of more than 4 GiB")
                                   : ec_symbols_open(&p->desk.symbols, &p->desk.options, &e);
    if (!rc)
        rc = ec_symbols_resolve(p->desk.symbols, &module, &rva, 1, where_add_symbol, p, &p->without, &e);
    if (rc) {
        p->without = e;
        if (p->json)
            ea_text_str(&p->t, "[]");
    }
}

static void where_add_place(const ea_module *m, void *arg) {
    place *p = arg;
    const char *name = ec_base_name(m->path);
    if (p->json) {
        ea_text_str(&p->t, ", \"name\": ");
        ea_text_json_str(&p->t, name);
        ea_text_printf(&p->t, ", \"offset\": \"0x%" PRIx64 "\", \"module\": ", p->address - m->base);
        ec_json_module(&p->t, m);
        if (p->has_symbols) {
            ea_text_str(&p->t, ", \"frames\": ");
            look_up_symbol(p, m, p->address - m->base);
        }
    } else {
        ea_text_safe(&p->t, *name ? name : "?", *name ? strlen(name) : 1);
        ea_text_printf(&p->t, "+0x%" PRIx64, p->address - m->base);
        if (p->has_symbols)
            look_up_symbol(p, m, p->address - m->base);
        ea_text_char(&p->t, '\n');
    }
}

static void add_method(place *p, const ec_method *m) {
    if (p->json) {
        ea_text_str(&p->t, ", \"name\": ");
        ea_text_json_str(&p->t, m->name);
        ea_text_printf(&p->t,
                       ", \"offset\": \"0x%" PRIx64 "\", \"module\": null, \"method\": {\"start\": \"0x%" PRIx64
                       "\", \"size\": %" PRIu64 ", \"signature\": ",
                       p->address - m->start, m->start, m->size_bytes);
        ea_text_json_str(&p->t, m->signature);
        ea_text_char(&p->t, '}');
    } else {
        ea_text_safe(&p->t, m->name, strlen(m->name));
        ea_text_printf(&p->t, "+0x%" PRIx64 "\n", p->address - m->start);
    }
}

/* The managed method that the address was in, out of the stored events: 1 found, 0 not. */
static int look_up_method(const options *o, uint32_t pid, place *p, const ec_moment *moment, ea_err *err) {
    ec_archive *archive = NULL;
    ec_methods *methods = NULL;
    const ec_method *m = NULL;
    size_t count = 0;
    const ec_archive_stream *streams = NULL;
    int rc = ec_archive_open(&archive, o->q.store, moment->fold.host, NULL, err);
    if (!rc)
        rc = ec_archive_streams(archive, &streams, &count, err);
    for (size_t i = 0; i < count && !rc && !methods; i++)
        if (memcmp(streams[i].row.stream, moment->fold.stream, EA_STREAM_ID_BYTES) == 0)
            rc = ec_methods_open(&methods, archive, &streams[i], &pid, NULL, err);
    if (!rc && methods)
        m = ec_methods_find(methods, pid, p->address, moment->utc_ns);
    if (m)
        add_method(p, m);
    ec_methods_close(methods);
    ec_archive_close(archive);
    return rc ? rc : m != NULL;
}

/* Without names of functions, the rest is answered: why is in p->without. */
static int confine_place(const options *o, place *p, ea_err *err) {
    if (!p->has_symbols || ec_symbol_desk_prepare(&p->desk, &o->symbols, NULL, &p->without) ||
        ea_path_make_dirs(p->desk.options.folder, &p->without))
        return ec_question_confine(o->q.store, err);
    int rc = ec_question_confine_symbols(o->q.store, &p->desk.options, err);
    if (rc != EA_EUSAGE)
        return rc;
    p->without = *err; /* of the path */
    *err = (ea_err){0};
    return ec_question_confine(o->q.store, err);
}

/* Looks the address up and fills p->t: 1 found, 0 not. */
static int where_look_up(const options *o, uint32_t pid, place *p, ec_moment *moment, ea_err *err) {
    ec_query *q = NULL;
    uint64_t backlog = 0;
    int rc = ec_question_open(&o->q, &q, &backlog, err);
    if (!rc)
        rc = confine_place(o, p, err);
    if (!rc)
        rc = ec_question_moment(&o->q, q, o->q.at, moment, err);
    if (!rc && p->json) {
        ea_text_char(&p->t, '{');
        ec_json_moment(&p->t, moment, backlog);
        ea_text_printf(&p->t, ", \"pid\": %" PRIu32 ", \"address\": \"0x%" PRIx64 "\"", pid, p->address);
    }
    if (!rc)
        rc = ec_query_where(q, moment->fold.stream_number, pid, moment->utc_ns, p->address, where_add_place, p, err);
    ec_query_close(q);
    if (!rc)
        rc = look_up_method(o, pid, p, moment, err);
    if (rc >= 0 && p->json)
        ea_text_str(&p->t, rc ? "}\n" : ", \"name\": null, \"offset\": null, \"module\": null}\n");
    return rc;
}

static int where_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ec_moment moment = {0};
    uint32_t pid = 0;
    ea_err err = {0};
    place p = {.json = o->q.json, .has_symbols = ec_symbol_options_are_given(&o->symbols)};
    (void)operand_count;
    ea_text_init(&p.t);
    int rc = ec_question_pid(o->pid, &pid, &err);
    if (!rc && ea_u64_parse(operands[0], &p.address))
        rc = ea_fail(&err, EA_EUSAGE, "\"%s\" is no address: decimal, or hex after 0x", operands[0]);
    if (!rc) {
        int found = where_look_up(o, pid, &p, &moment, &err);
        rc = found < 0 ? found : ec_answer_write(&p.t, &err);
        if (!rc && !found) {
            ea_text_utc_ns(&p.t, moment.utc_ns);
            rc = ea_fail(&err, EA_ENOTFOUND, "0x%" PRIx64 " is in no module that is known of process %" PRIu32 " at %s",
                         p.address, pid, p.t.data ? p.t.data : "that time");
        }
    }
    if (!rc && p.without.code)
        ea_err_print(stderr, "etwcollector: without symbols", &p.without);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_symbol_desk_close(&p.desk);
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
    EC_SYMBOL_OPTIONS(options, symbols, EC_SYMBOL_CACHE),
    {.name = NULL},
};

const ea_command ec_cmd_where = {
    .name = "where",
    .operands = EC_TRACES_OPERANDS " ADDRESS",
    .summary = "Say which module or managed method of a process an address was in, and how far into it",
    .details =
        "Prints MODULE+OFFSET, such as ntdll.dll+0x1234. Kernel addresses are found in every process. Code that a "
        ".NET\n"
        "runtime or an engine of JavaScript made at run time is in no module: METHOD+OFFSET, out of their method\n"
        "events. When neither\n"
        "covers the address, an error is printed and the exit code is 1. With --symbols, --symbol-cache or --lines the "
        "function\n"
        "follows (see symbols); a missing PDB is reported on standard error, and the rest is printed.\n"
        "--json: {host, stream, time, data_begin, data_end, behind, pid, address, name, offset, module}, with symbols\n"
        "also frames (as of the command symbols); module as of the command modules; of a method, module is null and\n"
        "method has start, size and signature.\n" EC_QUESTION_DETAILS "\n\n"
        "  etwcollector where --store /var/lib/etwcollector --host pc-17 --at end --pid 4242 0x7ff8a9b21234",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = where_run,
    .min_operands = 1,
    .max_operands = 1,
};
