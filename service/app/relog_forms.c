/* Outputs of "etwagent relog" that are no traces: JSON lines and CSV, as `etwagent dump` prints the trace that is
 * written, and its packets as pcapng. They are made when that trace is complete, because names of files and keys come
 * at its end. See relog_job.h. */
#include "proto/base/pattern.h"
#include "proto/base/stop_flag.h"
#include "proto/event/print.h"
#include "proto/relog/packets.h"
#include "service/app/input.h"
#include "service/app/relog_job.h"
#include "service/app/trace_classes.h"

#include <string.h>

static const struct {
    const char *name;
    int format; /* enum ea_print_format */
} FORMS[] = {
    [RELOG_TRACE] = {"etl", 0},
    [RELOG_JSONL] = {"jsonl", EA_PRINT_JSONL},
    [RELOG_CSV] = {"csv", EA_PRINT_CSV},
    [RELOG_PCAPNG] = {"pcapng", 0},
};

const char *ea_relog_form_name(enum relog_form_kind kind) {
    return FORMS[kind].name;
}

enum relog_form_kind ea_relog_form_kind(const char *path) {
    const char *dot = strrchr(path, '.');
    for (int kind = RELOG_JSONL; dot && kind <= RELOG_PCAPNG; kind++)
        if (ea_name_equal(dot + 1, FORMS[kind].name))
            return (enum relog_form_kind)kind;
    return RELOG_TRACE;
}

typedef struct form_run {
    ea_relog *relog;
    relog_form *form;
} form_run;

static int write_bytes(void *arg, const void *data, size_t len_bytes, ea_err *err) {
    form_run *run = arg;
    int rc = ea_relog_write(run->relog, run->form->output, data, len_bytes);
    run->form->bytes += rc ? 0 : len_bytes;
    return rc ? ea_fail(err, rc, "%s", ea_relog_error(run->relog)) : 0;
}

/* The next record; 0: there is none. EA_ECANCELED after Ctrl-C. */
static int next_record(ea_etl_set *set, uint64_t *seen, const ea_record **ret, ea_err *err) {
    enum { LOOK_EVERY = 1 << 16 };

    if (++*seen % LOOK_EVERY == 0 && atomic_load(ea_stop_flag()))
        return ea_fail(err, EA_ECANCELED, "relog");
    return ea_etl_next(set, ret, err);
}

/* ---- text ---- */

static int print_trace(relog_job *j, form_run *run, ea_printer *printer, ea_etl_set *set, ea_trace_classes *classes) {
    const ea_clock *clock = &ea_etl_file_info(set, 0)->clock;
    const ea_record *r;
    uint64_t seen = 0;
    int rc;
    while ((rc = next_record(set, &seen, &r, &j->err)) > 0) {
        run->form->written += !ea_etl_is_header_record(r);
        const ea_class *c = ea_trace_classes_next(classes, &r);
        if ((rc = ea_printer_event(printer, r, c, clock, &j->err)))
            return rc;
    }
    if (!rc)
        rc = ea_printer_end(printer, &j->err);
    ea_printer_report_left_over(printer, "etwagent");
    return rc ? rc : ea_printer_flush(printer, &j->err);
}

static int form_text(relog_job *j, form_run *run, char *path, ea_etl_set *set) {
    const ea_print_options options = {.format = FORMS[run->form->kind].format};
    ea_trace_classes classes = {0};
    ea_printer *printer = NULL;
    ea_object_names *names = NULL;
    ea_resolver resolver;
    int rc = ea_printer_create(&printer, &options, NULL, &j->err);
    if (!rc)
        rc = ea_trace_classes_open(&classes, &j->o->schemas, &j->err);
    if (!rc)
        rc = ea_input_names(&names, &path, 1, classes.registry, &j->err);
    if (!rc) {
        resolver = ea_object_names_resolver(names);
        ea_printer_set_resolver(printer, &resolver);
        ea_printer_set_output(printer, write_bytes, run);
        rc = print_trace(j, run, printer, set, &classes);
    }
    ea_printer_destroy(printer);
    ea_trace_classes_close(&classes);
    ea_object_names_destroy(names);
    return rc;
}

/* ---- packets ---- */

/* Reads a trace for the names of interfaces, or for packets. */
static int read_packets(relog_job *j, ea_packets *packets, ea_etl_set *set, int learns) {
    const ea_clock *clock = &ea_etl_file_info(set, 0)->clock;
    const ea_record *r;
    uint64_t seen = 0;
    int rc;
    while ((rc = next_record(set, &seen, &r, &j->err)) > 0) {
        rc = learns ? ea_packets_learn(packets, r, &j->err)
                    : ea_packets_add(packets, r, ea_clock_to_utc_ns(clock, r->time_raw), &j->err);
        if (rc)
            return rc;
    }
    return rc;
}

static int form_packets(relog_job *j, form_run *run, const char *path, ea_etl_set *set) {
    const ea_packets_options options = {.program = "etwagent " EA_VERSION, .write = write_bytes, .arg = run};
    ea_packets *packets = NULL;
    ea_etl_set *first = NULL;
    int rc = ea_packets_create(&packets, &options, &j->err);
    if (!rc)
        rc = ea_etl_open(&first, &path, 1, NULL, &j->err);
    if (!rc)
        rc = read_packets(j, packets, first, 1);
    ea_etl_close(first);
    if (!rc)
        rc = read_packets(j, packets, set, 0);
    if (!rc)
        rc = ea_packets_finish(packets, &j->err);
    if (!rc) {
        const ea_packets_counts *n = ea_packets_count(packets);
        run->form->written = n->packets;
        run->form->incomplete = n->incomplete;
        run->form->unknown = n->unknown;
    }
    ea_packets_destroy(packets);
    return rc;
}

int ea_relog_make_form(relog_job *j, ea_relog *relog, relog_form *form) {
    form_run run = {relog, form};
    const char *path = ea_relog_partial(relog, form->trace);
    ea_etl_set *set = NULL;
    int rc = ea_etl_open(&set, &path, 1, NULL, &j->err);
    if (!rc)
        rc = form->kind == RELOG_PCAPNG ? form_packets(j, &run, path, set)
                                        : form_text(j, &run, (char *)(uintptr_t)path, set);
    ea_etl_close(set);
    return rc;
}
