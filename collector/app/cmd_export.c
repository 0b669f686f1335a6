/* etwcollector export: stored events as `etwagent dump` prints them, or JSON lines with their whole raw identity. Names
 * come from the state tables (object_names_db.h). Called by: main.c. Calls: collector/store, collector/state,
 * proto/wire, proto/event (printing). Thread: the main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/export_files.h"
#include "collector/app/question.h"
#include "collector/query/scan/archive.h"
#include "collector/state/object_names_db.h"
#include "collector/state/state_worker.h"
#include "collector/store/store.h"
#include "proto/event/print.h"
#include "proto/lang/lang_where.h"

#include <inttypes.h>
#include <string.h>

enum { WAIT_SECONDS = 10 };

#define WAIT_NS (INT64_C(1000000000) * WAIT_SECONDS)

typedef struct options {
    const char *store, *host, *stream, *where, *out;
    ea_print_options print;
    int verify, keyframes, json;
} options;

/* The printer's formats, and files of columns. */
static const char *const FORMATS[] = {"text", "jsonl", "csv", "raw", "parquet", "arrow", NULL};

enum { FORMAT_PARQUET = EA_PRINT_RAW + 1, FORMAT_ARROW };

typedef struct export {
    const options *options;
    ec_store *store;
    ec_state_db *tables; /* NULL: no names */
    ea_printer *printer;
    ea_where *where; /* NULL: all events */
    ea_err *err;
    int rc;
    uint64_t streams, damaged;
    int64_t begin_utc_ns, end_utc_ns; /* of the host's events */
}

export;

/* Says which batch is damaged, and goes on. */
static void export_damaged(export *x, const ec_stream_row *stream, const ec_batch_row *batch, const ea_err *err) {
    ea_text t;
    ea_text_init(&t);
    ea_text_hex(&t, stream->stream, sizeof stream->stream);
    fprintf(stderr, "etwcollector: stream %s batch %" PRIu64 ": %s\n", t.data ? t.data : "", batch->number,
            err->message);
    ea_text_deinit(&t);
    x->damaged++;
}

static int export_is_damage(int rc) {
    return rc == EA_ECORRUPT || rc == EA_ETRUNCATED || rc == EA_EFORMAT || rc == EA_ELIMIT || rc == EA_ENOTFOUND ||
           rc == EA_EUNSUPPORTED;
}

/* Prints one batch's events; *ret_damage gets what is wrong with it. Other errors end the export. */
static int print_batch(export *x, uint64_t stream_id, const uint8_t *data, size_t len_bytes, ea_registry *registry,
                       ea_err *ret_damage) {
    ea_batch_view *view = NULL;
    const ea_record *r;
    const ea_class *c;
    int rc = ea_batch_open(&view, data, len_bytes, registry, ret_damage);
    if (rc == EA_ENOTFOUND) {
        rc = ec_store_load_classes(x->store, stream_id, data, len_bytes, registry, ret_damage);
        if (!rc)
            rc = ea_batch_open(&view, data, len_bytes, registry, ret_damage);
    }
    if (!rc && x->options->verify)
        rc = ea_batch_verify(view, ret_damage);
    int left_out = !rc && ea_batch_get_head(view)->kind == EA_BATCH_KEYFRAME && !x->options->keyframes;
    /* --where follows the state that a keyframe has, though it is not printed */
    while (!rc && (!left_out || x->where) && (rc = ea_batch_next(view, &r, &c, ret_damage)) == 1) {
        const ea_clock *clock = &ea_batch_source(view, r->source)->clock;
        int holds = x->where ? ea_where_holds(x->where, r, c, clock, x->err) : 1;
        rc = holds < 0 ? holds : 0;
        if (holds > 0 && !left_out)
            rc = ea_printer_event(x->printer, r, c, clock, x->err);
        else if (!holds && !left_out)
            ea_printer_pass(x->printer, r, c, clock);
        if (rc) { /* printing failed, not the batch */
            ea_batch_close(view);
            x->rc = rc;
            return 0;
        }
    }
    ea_batch_close(view);
    return rc;
}

/* The tables with the names of what is stored now; *ret stays NULL when there are none and none can be made. */
static int export_open_tables(export *x, ec_state_db **ret) {
    uint64_t backlog = 0;
    int rc = ec_state_worker_catch_up(x->options->store, x->options->host, EC_WAIT_FOLDED, WAIT_NS, &backlog, x->err);
    if (!rc)
        rc = ec_state_db_open(ret, x->options->store, 0, x->err);
    if (rc == EA_ENOTFOUND || (!rc && backlog))
        fprintf(stderr,
                "etwcollector: %" PRIu64 " stored batches are not in the history yet: names from them are missing\n",
                backlog);
    return rc == EA_ENOTFOUND ? 0 : rc;
}

/* *ret stays NULL when nothing of the stream is folded. */
static int open_naming(export *x, const ec_stream_row *stream, ec_object_names_db **ret) {
    ec_state_fold fold;
    int found = x->tables ? ec_state_db_find_fold(x->tables, x->options->host, stream->stream, &fold, x->err) : 0;
    return found > 0
               ? ec_object_names_db_open(ret, x->tables, fold.stream_number, &(ec_object_names_db_options){0}, x->err)
               : found;
}

/* A batch's range is in ticks of its first source; another source's time can be off by one of them. */
static int outside(const ec_batch_row *b, int64_t from, int64_t to) {
    enum { TICK_NS = 1000000 };

    return (b->end_utc_ns < INT64_MAX - TICK_NS && b->end_utc_ns + TICK_NS < from) ||
           (b->begin_utc_ns > INT64_MIN + TICK_NS && b->begin_utc_ns - TICK_NS >= to);
}

static int print_stream(export *x, const ec_stream_row *stream, ea_registry *registry) {
    ec_batch_row batch = {0};
    int64_t from, to;
    int rc;
    ea_printer_window(x->printer, &from, &to);
    while ((rc = ec_store_next_batch(x->store, stream->stream_id, batch.number, &batch, x->err)) == 1) {
        const uint8_t *data;
        size_t len_bytes;
        ea_err damage = {0};
        if (batch.event_count == 0 || (!x->where && outside(&batch, from, to))) /* --where needs the state before */
            continue;
        int one = ec_store_read(x->store, &batch, &data, &len_bytes, &damage);
        if (!one)
            one = print_batch(x, stream->stream_id, data, len_bytes, registry, &damage);
        if (x->rc)
            return x->rc;
        if (export_is_damage(one))
            export_damaged(x, stream, &batch, &damage);
        else if (one) {
            *x->err = damage;
            return one;
        }
    }
    return rc;
}

/* When the host's events are. */
static int on_times(const ec_stream_row *stream, void *arg) {
    export *x = arg;
    if (!stream->event_count)
        return 0;
    x->begin_utc_ns = stream->begin_utc_ns < x->begin_utc_ns ? stream->begin_utc_ns : x->begin_utc_ns;
    x->end_utc_ns = stream->end_utc_ns > x->end_utc_ns ? stream->end_utc_ns : x->end_utc_ns;
    return 0;
}

static int export_on_stream(const ec_stream_row *stream, void *arg) {
    export *x = arg;
    ea_text id;
    ea_text_init(&id);
    ea_text_hex(&id, stream->stream, sizeof stream->stream);
    if (id.failed)
        x->rc = ea_fail(x->err, EA_ENOMEM, "export");
    int wanted = !x->rc && (!x->options->stream || strcmp(x->options->stream, id.data) == 0);
    ea_text_deinit(&id);
    if (wanted) {
        ea_registry *registry = NULL;
        x->streams++;
        ec_object_names_db *naming = NULL;
        ea_resolver resolver;
        x->rc = ea_registry_create(&registry, 0, x->err);
        if (!x->rc && ea_printer_wants_names(x->printer))
            x->rc = open_naming(x, stream, &naming);
        if (!x->rc && naming) {
            resolver = ec_object_names_db_resolver(naming);
            ea_printer_set_resolver(x->printer, &resolver);
        }
        if (!x->rc && x->where)
            x->rc = ea_where_begin(x->where, x->err);
        if (!x->rc)
            x->rc = print_stream(x, stream, registry);
        if (x->where)
            ea_where_end(x->where);
        if (!x->rc)
            x->rc = ea_printer_end(x->printer, x->err);
        if (!x->rc && naming && ec_object_names_db_error(naming)) {
            *x->err = *ec_object_names_db_error(naming);
            x->rc = x->err->code;
        }
        ea_printer_set_resolver(x->printer, NULL);
        ea_printer_forget_classes(x->printer);
        ea_registry_destroy(registry);
        ec_object_names_db_close(naming);
    }
    return x->rc;
}

static int export_compile_where(export *x, ea_err *err) {
    ea_lang_classes classes = {.registry = NULL};
    int rc = ea_registry_create(&classes.registry, 0, err);
    if (!rc)
        rc = ea_where_create(&x->where, x->options->where, NULL, &classes, err);
    ea_lang_classes_deinit(&classes);
    ea_registry_destroy(classes.registry);
    return rc;
}

/* Files of columns. */
static int export_to_files(const options *o) {
    ea_err err = {0};

    const struct {
        const char *name;
        int is_given;
    } refused[] = {{"where", o->where != NULL},     {"pid", o->print.pids.count != 0}, {"raw", o->print.raw},
                   {"no-names", o->print.no_names}, {"keyframes", o->keyframes},       {"verify", o->verify}};

    int rc = o->out && *o->out
                 ? 0
                 : ea_fail(&err, EA_EUSAGE, "--format %s: --out DIR is required", FORMATS[o->print.format]);
    for (size_t i = 0; i < sizeof refused / sizeof *refused && !rc; i++)
        if (refused[i].is_given)
            rc = ea_fail(&err, EA_EUSAGE, "--%s: not with --format %s", refused[i].name, FORMATS[o->print.format]);
    if (!rc)
        rc = ec_export_files_run(
            &(ec_export_files){.store = o->store,
                               .host = o->host,
                               .stream = o->stream,
                               .folder = o->out,
                               .format = o->print.format == FORMAT_ARROW ? EC_FILE_ARROW : EC_FILE_PARQUET,
                               .print = &o->print,
                               .json = o->json},
            &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    return ea_exit_code(rc);
}

static int export_run(const void *arg, int operand_count, char **operands) {
    ea_err err = {0};
    const options *o = arg;
    if (o->print.format >= FORMAT_PARQUET)
        return export_to_files(o);
    int usage = o->host ? 0
                        : ea_fail(&err, EA_EUSAGE,
                                  "--host HOST is required unless trace files (.etl) are named, or files are written");
    if (!usage && (o->out || o->json))
        usage = ea_fail(&err, EA_EUSAGE, "--%s: only with --format parquet or arrow", o->out ? "out" : "json");
    if (usage) {
        ea_err_print(stderr, "etwcollector", &err);
        return ea_exit_code(usage);
    }
    export x = {.options = arg, .err = &err, .begin_utc_ns = INT64_MAX, .end_utc_ns = INT64_MIN};
    (void)operand_count, (void)operands;
    int rc = x.options->where ? export_compile_where(&x, &err) : 0;
    if (!rc)
        rc = ea_printer_create(&x.printer, &x.options->print, stdout, &err);
    if (!rc)
        rc = ec_store_open(&x.store, x.options->store, &(ec_store_options){0}, &err);
    if (!rc && ea_printer_wants_names(x.printer))
        rc = export_open_tables(&x, &x.tables);
    if (!rc)
        rc = ec_question_confine(x.options->store, &err);
    if (!rc)
        rc = ec_store_each_stream(x.store, x.options->host, on_times, &x, &err);
    if (!rc && x.begin_utc_ns <= x.end_utc_ns)
        rc = ea_printer_set_data(x.printer, x.begin_utc_ns, x.end_utc_ns + (x.end_utc_ns < INT64_MAX), &err);
    if (!rc)
        rc = ec_store_each_stream(x.store, x.options->host, export_on_stream, &x, &err);
    if (!rc)
        rc = x.rc;
    if (!rc)
        rc = ea_printer_flush(x.printer, &err);
    if (x.printer)
        ea_printer_report_left_over(x.printer, "etwcollector");
    if (!rc && !x.streams && !x.options->stream)
        rc = ec_unknown_host(x.options->host, &err);
    else if (!rc && !x.streams)
        rc = ea_fail(&err, EA_ENOTFOUND, "nothing is stored of host %.200s, stream %.40s", x.options->host,
                     x.options->stream);
    if (!rc && x.damaged)
        rc = ea_fail(&err, EA_ECORRUPT, "%" PRIu64 " batches are damaged and were left out from where the damage is",
                     x.damaged);
    if (!rc)
        rc = ea_printer_check(x.printer, &err);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    else if (x.options->where && !ea_printer_printed(x.printer))
        ec_answer_none("no event in the range fits --where", x.begin_utc_ns, x.end_utc_ns);
    ec_state_db_close(x.tables);
    ec_store_close(x.store);
    ea_printer_destroy(x.printer);
    ea_where_destroy(x.where);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    EC_STORE_OR_TRACES_OPTION(options, store),
    {EC_HOST_OF(options, host),
     .help =
         "the agent whose events are printed; not needed for trace files (.etl), nor for files of columns, which are "
         "of all agents then"},
    {.name = "stream",
     .argument = "ID",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, stream),
     .help = "only this stream, 32 hex digits as `hosts` prints it"},
    EA_PRINT_OPTIONS_OF(
        options, print, "jsonl", FORMATS,
        "how events are printed; raw is jsonl with --raw; parquet and arrow are files of columns: --out"),
    {.name = "out",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, out),
     .help = "with parquet and arrow: the folder for the files, one for each day, host and class"},
    {.name = "json",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, json),
     .help = "with parquet and arrow: print the counts as one JSON object"},
    {.name = "where",
     .argument = "CONDITION",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, where),
     .help = "only events for which an expression of the query language holds, such as 'TransferSize > 64KiB'"},
    {.name = "keyframes",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, keyframes),
     .help = "the agent's keyframes too: what it knew the machine to hold, in records that it made itself"},
    {.name = "verify",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, verify),
     .help = "compute each batch's checksum again from its records"},
    {.name = NULL},
};

const ea_command ec_cmd_export = {
    .name = "export",
    .operands = EC_TRACES_OPERANDS,
    .summary = "Print a host's stored events, as `etwagent dump` prints them",
    .details =
        "Streams come in the order of their first arrival, a stream's batches by number, events in the order in which "
        "the\n"
        "agent saw them. A batch that is damaged in the store is named on standard error and costs only itself.\n"
        "\n"
        "--format parquet writes files in place of printing, DIR/day=DAY/host=HOST/class=CLASS/part-0.parquet, with "
        "the "
        "columns\n"
        "of the class's table in SQL: all but those of names, the payload of classes whose fields explain it, and host "
        "and "
        "class,\n"
        "which the folders have, escaped as in a URL. --fields chooses others. An existing file is not replaced, and "
        "nothing has\n"
        "its name before all files are whole. JSON keys: folder, format, events, damaged_batches, files (path, day, "
        "host,\n"
        "class, events, bytes).\n"
        "Exit codes: 0 all printed or written, 1 failed, 2 usage, 3 something is damaged.",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = export_run,
};
