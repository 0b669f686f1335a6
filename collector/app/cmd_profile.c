/* etwcollector profile: what ran, waited or read, by call stack. Called by: main.c. Calls: collector/query. Thread: the
 * main one. */
#include "collector/app/collector_commands.h"
#include "collector/app/question.h"
#include "collector/app/symbol_options.h"
#include "collector/query/analysis/profile_names.h"
#include "collector/query/export/profile_write.h"
#include "collector/query/scan/data_times.h"
#include "collector/state/state_worker.h"
#include "proto/base/clock.h"

#include <inttypes.h>
#include <string.h>

#define FOLD_WAIT_NS INT64_C(10000000000)

typedef struct options {
    const char *store, *from, *to, *weight, *other_from, *other_to, *other_weight;
    ea_strings hosts, labels, other_hosts, other_labels, pids;
    int format;
    uint64_t window_bytes, stacks_bytes;
    ec_symbol_options symbols;
} options;

#define X(id, name) name,
static const char *const FORMATS[] = {EC_PROFILE_FORMATS(X) NULL};
#undef X

/* "" and NULL: what is given instead. Of several hosts, start and end are those of all that is stored. */
static int profile_parse_time(const options *o, const char *what, const char *text, const ea_strings *hosts,
                              int64_t otherwise, int64_t *ret, ea_err *err) {
    *ret = otherwise;
    if (!text || !*text)
        return 0;
    return ec_data_time(what, text, o->store, hosts->count == 1 ? hosts->items[0] : NULL, NULL, ret, err);
}

static int profile_resolve(void *source, const ec_symbol_module *module, const uint32_t *rvas, size_t count,
                           ec_symbol_fn fn, void *arg, ea_err *err) {
    return ec_symbols_resolve(source, module, rvas, count, fn, arg, NULL, err);
}

/* What a side lacks, a line each. of: its name and a colon in a comparison, where both sides may be of the same
 * records. */
static void profile_print_side(const ec_profile *p, int side, const char *of) {
    uint64_t orphaned = 0, all = 0;
    for (int i = 0; i < EA_STACK_OUTCOME_COUNT; i++) {
        all += p->halves[side][i];
        if (i != EA_STACK_in_event && i != EA_STACK_joined && i != EA_STACK_ambiguous)
            orphaned += p->halves[side][i];
    }
    fprintf(stderr,
            "etwcollector: %s%" PRIu64 " events with weight, %" PRIu64 " of them without a stack; %" PRIu64
            " halves of stacks, %" PRIu64 " without an event, %" PRIu64 " ambiguous; %" PRIu64 " keys undefined\n",
            of, p->events[side], p->without_stack[side], all, orphaned, p->halves[side][EA_STACK_ambiguous],
            p->keys_undefined[side]);
    for (int i = 0; i < EC_LACKS_COUNT; i++)
        if (p->incomplete[side][i])
            fprintf(stderr, "etwcollector: %s%" PRIu64 " events have a stack that is not whole (%s): %s\n", of,
                    p->incomplete[side][i], ec_lack_name(i), ec_lack_text(i));
    if (p->unfinished[side] && p->weight[side] == EC_WEIGHT_DISK)
        fprintf(stderr, "etwcollector: %s%" PRIu64 " disk requests have no end and count nothing\n", of,
                p->unfinished[side]);
    else if (p->unfinished[side])
        fprintf(stderr,
                "etwcollector: %s%" PRIu64 " intervals have no recorded end: %.3f ms of the total, without a stack\n",
                of, p->unfinished[side], (double)p->unfinished_ns[side] / 1e6);
    if (p->unbegun[side])
        fprintf(
            stderr,
            "etwcollector: %s%" PRIu64
            " disk requests have no recorded begin and count nothing: %.3f ms; sessions with DISK_IO_INIT record it\n",
            of, p->unbegun[side], (double)p->unbegun_ns[side] / 1e6);
}

static void profile_print_summary(const ec_profile *p) {
    profile_print_side(p, 0, p->has_other ? "first side: " : "");
    if (p->has_other)
        profile_print_side(p, 1, "other side: ");
    if (!p->events[0] && !p->events[1] && !*p->notes)
        fprintf(stderr,
                "etwcollector: no stored event of these hosts in this range has this weight; \"etwcollector hosts\" "
                "prints the "
                "time range of the events, and \"SELECT name, count(*) FROM events GROUP BY name\" their classes\n");
    if (p->backlog)
        fprintf(stderr,
                "etwcollector: %" PRIu64 " stored batches are not in the history yet: processes and modules from "
                "them are unknown\n",
                p->backlog);
    if (p->is_interval_assumed)
        fprintf(stderr, "etwcollector: the sampling interval is not known: 1 ms is assumed\n");
    if (p->damaged)
        fprintf(stderr, "etwcollector: %" PRIu64 " batches could not be read: %s\n", p->damaged, p->damage);
    if (*p->notes)
        fprintf(stderr, "etwcollector: %s%s\n", p->events[0] || p->events[1] ? "without names: " : "", p->notes);
}

static int profile_run(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ec_profile *p = NULL;
    uint32_t pids[EA_STRINGS_MAX];
    ec_profile_request q = {.store = o->store,
                            .side = {{.hosts = o->hosts.items,
                                      .host_count = o->hosts.count,
                                      .labels = o->labels.items,
                                      .label_count = o->labels.count},
                                     {.hosts = o->other_hosts.items,
                                      .host_count = o->other_hosts.count,
                                      .labels = o->other_labels.items,
                                      .label_count = o->other_labels.count}},
                            .pids = pids,
                            .pid_count = o->pids.count,
                            .limit_window_bytes = (size_t)o->window_bytes,
                            .limit_stacks_bytes = (size_t)o->stacks_bytes,
                            .wants_samples = ec_profile_form_has_times((enum ec_profile_format)o->format)};
    ec_profile_side *side = q.side, *other = &q.side[1];
    (void)operand_count, (void)operands;
    int rc = ec_weight_parse(o->weight, &side->weight, &side->counter, &err);
    if (!rc && o->other_weight)
        rc = ec_weight_parse(o->other_weight, &other->weight, &other->counter, &err);
    if (!rc)
        rc = profile_parse_time(o, "--from", o->from, &o->hosts, INT64_MIN, &side->from_utc_ns, &err);
    if (!rc)
        rc = profile_parse_time(o, "--to", o->to, &o->hosts, INT64_MAX, &side->to_utc_ns, &err);
    if (!rc)
        rc = profile_parse_time(o, "--diff-from", o->other_from, &o->other_hosts, INT64_MIN, &other->from_utc_ns, &err);
    if (!rc)
        rc = profile_parse_time(o, "--diff-to", o->other_to, &o->other_hosts, INT64_MAX, &other->to_utc_ns, &err);
    ec_profile_fill_other(&q, o->other_hosts.count || o->other_labels.count, o->other_from || o->other_to,
                          o->other_weight != NULL);
    for (size_t i = 0; !rc && i < o->pids.count; i++) {
        uint64_t pid = 0;
        rc = ea_u64_parse(o->pids.items[i], &pid)
                 ? ea_fail(&err, EA_EUSAGE, "\"%s\" is no process id", o->pids.items[i])
                 : ec_question_pid(pid, &pids[i], &err);
    }
    ea_text t;
    ea_text_init(&t);
    ec_symbol_desk desk;
    ec_profile_names names = {.resolve = profile_resolve};
    const ec_profile_namer namer = {.name = ec_profile_name_places, .arg = &names};
    int has_symbols = ec_symbol_options_are_given(&o->symbols);
    if (!rc && has_symbols) {
        rc = ec_symbol_desk_open(&desk, &o->symbols, NULL, &err);
        has_symbols = !rc;
        names.source = has_symbols ? desk.symbols : NULL;
        q.namer = &namer;
    }
    uint64_t backlog;
    if (!rc) /* what is missing then, ec_profile_run reports */
        rc = ec_state_worker_catch_up(o->store, o->hosts.count == 1 && !o->other_hosts.count ? o->hosts.items[0] : NULL,
                                      EC_WAIT_FOLDED, FOLD_WAIT_NS, &backlog, &err);
    if (!rc)
        rc = has_symbols ? ec_question_confine_symbols(o->store, &desk.options, &err)
                         : ec_question_confine(o->store, &err);
    if (!rc)
        rc = ec_profile_run(&p, &q, &err);
    if (has_symbols)
        ec_symbol_desk_close(&desk);
    if (!rc)
        rc = ec_profile_write(p, (enum ec_profile_format)o->format, &t, &err);
    if (!rc) {
        profile_print_summary(p);
        rc = ec_answer_write(&t, &err);
    }
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    int exit_code = rc ? ea_exit_code(rc) : p->damaged ? 3 : 0;
    ec_profile_destroy(p);
    ea_text_deinit(&t);
    return exit_code;
}

static const ea_option OPTIONS[] = {
    EC_STORE_OR_TRACES_OPTION(options, store),
    {.name = "host",
     .argument = "HOST",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, hosts),
     .help = "an agent's name; may be repeated; all when none is given"},
    {.name = "label",
     .argument = "NAME=VALUE",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, labels),
     .help = "only runs of agents that had this label; may be repeated: all of them"},
    {EC_FROM_OF(options, from),
     .help = "only events at or after this time: RFC 3339, a date, now, -1h, or such as +10s after the start"},
    {EC_TO_OF(options, to), .help = "only events before this time"},
    {.name = "pid",
     .argument = "PID",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, pids),
     .help = "only this process; may be repeated"},
    {.name = "weight",
     .argument = "WEIGHT",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, weight),
     .fallback = "cpu",
     .help = "what is summed: cpu, samples, pmc:NAME, ready, wait, disk, faults"},
    {.name = "diff-from",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, other_from),
     .help = "compare with the events from this time on"},
    {.name = "diff-to",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, other_to),
     .help = "compare with the events before this time"},
    {.name = "other-host",
     .argument = "HOST",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, other_hosts),
     .help = "compare with this agent's events; may be repeated"},
    {.name = "other-label",
     .argument = "NAME=VALUE",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(options, other_labels),
     .help = "compare with runs of agents that had this label; may be repeated: all of them"},
    {.name = "other-weight",
     .argument = "WEIGHT",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, other_weight),
     .help = "compare with the sums of this weight: top has the ratio"},
    {.name = "format",
     .letter = 'f',
     .argument = "FORMAT",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(options, format),
     .fallback = "top",
     .choices = FORMATS,
     .help = "how it is printed"},
    {.name = "window",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, window_bytes),
     .fallback = "16MiB",
     .min = 1 << 16,
     .max = (uint64_t)16 << 30,
     .help = "memory for the events whose stacks may still come"},
    {.name = "stacks",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, stacks_bytes),
     .fallback = "512MiB",
     .min = 1 << 20,
     .max = (uint64_t)16 << 30,
     .help = "memory for distinct stacks; an event whose stack has no room is counted as no_room"},
    EC_SYMBOL_OPTIONS(options, symbols, EC_SYMBOL_CACHE),
    {.name = NULL},
};

const ea_command ec_cmd_profile = {
    .name = "profile",
    .operands = EC_TRACES_OPERANDS,
    .summary = "Sum CPU time, waits, counters or disk time by call stack, over machines and times",
    .details =
        "Weights: cpu (time by samples, without Idle), samples (their number), pmc:NAME (a hardware counter, by its\n"
        "samples; NAME as Windows calls it, or the number of its source), ready (without a processor), wait, disk "
        "(the\n"
        "time that requests took, where they were issued), faults. Of ready and wait the part inside the range "
        "counts,\n"
        "where the thread went on, however long after it. Times without a stored end are frames of their own, such as\n"
        "[still waiting at the end of the data], and are reported on standard error (json: unfinished). Halves of "
        "stacks, and ends of disk requests, may come up to 30 s after the range.\n"
        "The time that is asked for needs stacks of that kind of event: an event without one is at its own address, or "
        "by\n"
        "itself.\n"
        "Stacks are joined to events, each address is put into the module that was loaded there then, and stacks of\n"
        "all machines are merged by program, module (the same file is the same module) and function. Where none was\n"
        "loaded any more, [unloaded MODULE] is the last one that had been. Code that a .NET runtime or an engine of\n"
        "JavaScript made is in no module: [JIT]!METHOD and [JIT]!FUNCTION URL:LINE:COLUMN, out of their method "
        "events.\n"
        "How many events have a stack of which something is\n"
        "known to be missing, and what, is reported on standard error (json: incomplete). What is stored and not in "
        "the\n"
        "history yet is waited for, for 10 s; then the number of such batches is reported (json: behind).\n"
        "With --diff-from, --diff-to, --other-host, --other-label or --other-weight there is a second side: folded "
        "has\n"
        "two columns (other, this), pprof the difference, speedscope a second profile, json and top more numbers. What "
        "is\n"
        "not given of it is as on the first side. Of two weights top has the ratio: instructions per cycle by "
        "function\n"
        "are --weight pmc:InstructionRetired --other-weight pmc:TotalCycles.\n"
        "Formats: top (functions and modules, the greatest first), folded (flamegraph.pl), speedscope, pprof, chrome\n"
        "(chrome://tracing, speedscope), firefox (profiler.firefox.com, Perfetto), json (for a page). In chrome and "
        "firefox\n"
        "each event is at its time, in its process and thread; the others have sums.\n"
        "With --symbols, --symbol-cache or --lines places become functions (see symbols); modules whose PDBs cannot "
        "be\n"
        "had are named on standard error, and keep their offsets.\n"
        "Exit codes: 0 answered, 1 failed (nothing is stored of a --host or --label), 2 usage, 3 some batches could "
        "not be "
        "read.\n\n"
        "  etwcollector profile --store /var/lib/etwcollector --host pc-17 --from 2024-05-17T14:03:00Z \\\n"
        "    --to 2024-05-17T14:04:00Z --weight cpu --format pprof > cpu.pb.gz",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = profile_run,
};
