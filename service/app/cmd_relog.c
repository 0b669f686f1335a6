/* etwagent relog: traces into one trace, record for record, or a cut of them. Called by: main.c. Calls: proto/relog.
 * Thread: the main one; Ctrl-C ends the run without an output. */
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "proto/relog/payload_times.h"
#include "service/app/agent_commands.h"
#include "service/app/input.h"
#include "service/app/relog_job.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PROGRESS_EVENTS = 1 << 16 };

static const char *const CLOCKS[] = {"same", "convert", NULL};
static const char *const UNKNOWNS[] = {"zero", "drop", NULL};
static const char *const COMPRESSIONS[] = {"same", "none", "lznt1", "xpress", "xpress-huffman", NULL};
static const uint32_t COMPRESSION_CODES[] = {EA_RELOG_COMPRESSION_SAME, EA_RELOG_COMPRESSION_NONE,
                                             EA_RELOG_COMPRESSION_LZNT1, EA_RELOG_COMPRESSION_XPRESS,
                                             EA_RELOG_COMPRESSION_XPRESS_HUFF};

static int has_choice(const relog_options *o) {
    return o->choice.classes.count || o->choice.ids.count || o->choice.providers.count;
}

static int is_filtered(const relog_options *o) {
    return o->where || o->processes.count || o->cpus.count || has_choice(o);
}

/* "2s", "+2s" or "-150ms". */
static int parse_shift(relog_job *j, int64_t *ret_ns) {
    const char *text = j->o->shift, *digits = text + (*text == '+' || *text == '-');
    if (ea_duration_parse(digits, ret_ns) || *ret_ns % 100)
        return ea_fail(&j->err, EA_EUSAGE, "--shift %s: expected a time as in 2s, +2s or -150ms, 100 ns at least",
                       text);
    *ret_ns = *text == '-' ? -*ret_ns : *ret_ns;
    return 0;
}

/* Moves the outputs' times as the options say. */
static int relog_shift(relog_job *j, ea_relog *relog) {
    int64_t shift_ns = 0, at;
    int rc = 0;
    if (j->o->shift)
        rc = parse_shift(j, &shift_ns);
    if (!rc && j->o->start_at) {
        const ea_time_reference reference = {.now_utc_ns = ea_utc_ns()};
        if (ea_time_parse(j->o->start_at, &reference, &at))
            return ea_fail(&j->err, EA_EUSAGE, "--start-at %s: expected a date and time, or now", j->o->start_at);
        if (__builtin_sub_overflow(at, j->clock.base_utc_ns, &shift_ns))
            return ea_fail(&j->err, EA_EUSAGE, "--start-at %s: it is too far from the trace's time", j->o->start_at);
        shift_ns = shift_ns / 100 * 100;
    }
    for (unsigned i = 0; !rc && shift_ns && i < (j->part_names ? j->part_count : 1); i++)
        rc = ea_relog_shift(relog, i, shift_ns);
    return rc;
}

/* Once an input, in each run. */
static int cmd_relog_begin(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *header, void *arg) {
    relog_job *j = arg;
    int64_t end = j->last_utc_ns > INT64_MIN ? j->last_utc_ns
                  : input->end_utc_ns        ? input->end_utc_ns
                                             : input->begin_utc_ns; /* no time refers to it */
    j->clocks[header->input] = (ea_clock){.type = input->clock_type,
                                          .frequency = input->ticks_per_second,
                                          .base_raw = input->begin_raw,
                                          .base_utc_ns = input->begin_utc_ns};
    j->clock = j->clocks[0];
    if (!header->input) {
        j->os_build = input->os_build;
        j->pointer_size = (uint8_t)input->pointer_size;
    }
    if (j->begin_utc_ns == INT64_MIN || input->begin_utc_ns < j->begin_utc_ns)
        j->begin_utc_ns = input->begin_utc_ns;
    j->end_utc_ns = end > j->end_utc_ns ? end : j->end_utc_ns;
    if (relog != j->relog || header->input) /* a run before that of the outputs, or it has begun */
        return 0;
    int rc = j->o->dry_run ? 0 : relog_shift(j, relog);
    return !rc && j->rewrite ? ea_rewrite_begin(j->rewrite, &j->clock, &j->err) : rc;
}

static int parse_bound(relog_job *j, const ea_relog *relog, const char *name, const char *text, int64_t *ret_raw) {
    int64_t utc_ns;
    if (!text)
        return 0;
    ea_time_reference reference = {
        .now_utc_ns = ea_utc_ns(), .begin_utc_ns = j->begin_utc_ns, .end_utc_ns = j->end_utc_ns, .has_data = 1};
    if (ea_time_parse(text, &reference, &utc_ns))
        return ea_fail(&j->err, EA_EUSAGE, "--%s %s: expected " EA_TIME_FORMS_OF_DATA, name, text);
    *ret_raw = ea_relog_raw(relog, utc_ns);
    return 0;
}

/* What is written of an event: 1 and *ret, which borrows from it; 0: nothing. */
static int relog_change(relog_job *j, const ea_record *r, const ea_class *c, ea_record *ret) {
    ea_record set = *r;
    int rc = j->rewrite ? ea_rewrite_apply(j->rewrite, r, c, &set, &j->err) : 0;
    *ret = set;
    if (rc < 0 || !j->redact)
        return rc < 0 ? rc : 1;
    return ea_redact_apply(j->redact, &set, rc ? ea_registry_find(j->registry, &set) : c, ret, &j->err);
}

static int relog_emit_added(void *arg, const ea_relog_event *event) {
    relog_part *part = arg;
    relog_job *j = part->job;
    const ea_record *r = (const ea_record *)event;
    ea_record changed;
    int rc = relog_change(j, r, ea_registry_find(j->registry, r), &changed);
    return rc > 0 && !j->o->dry_run ? ea_relog_emit(j->relog, part->output, (const ea_relog_event *)&changed)
           : rc < 0                 ? rc
                                    : 0;
}

/* The times between which events are wanted, in ticks. */
static int parse_window(relog_job *j, const ea_relog *relog, int64_t *ret_from, int64_t *ret_to) {
    const relog_options *o = j->o;
    *ret_from = INT64_MIN;
    *ret_to = INT64_MAX;
    int rc = parse_bound(j, relog, "from", o->from, ret_from);
    if (!rc)
        rc = parse_bound(j, relog, "to", o->to, ret_to);
    if (!rc && *ret_from >= *ret_to)
        rc = ea_fail(&j->err, EA_EUSAGE, "--from %s: expected a time before --to", o->from ? o->from : "start");
    return rc;
}

/* At the first event: the inputs' times are known. */
static int relog_make_cuts(relog_job *j, ea_relog *relog) {
    int64_t from_raw = 0, to_raw = 0;
    int rc = j->o->split ? 0 : parse_window(j, relog, &from_raw, &to_raw);
    for (size_t i = 0; !rc && i < j->part_count; i++) {
        if (!j->o->split) {
            j->parts[i].from_raw = from_raw;
            j->parts[i].to_raw = to_raw;
        }
        const ea_cut_options cut = {.from_raw = j->parts[i].from_raw,
                                    .to_raw = j->parts[i].to_raw,
                                    .bare = j->o->bare,
                                    .is_filtered = is_filtered(j->o) || j->parts[i].where,
                                    .emit = relog_emit_added,
                                    .emit_arg = &j->parts[i]};
        rc = ea_cut_create(&j->parts[i].cut, &cut, &j->err);
    }
    return rc;
}

/* 1: an event that the options name; 0: another one. */
static int relog_wants(relog_job *j, const ea_relog *relog, const ea_record *r, const ea_class *c) {
    const relog_options *o = j->o;
    int64_t utc_ns = j->processes ? ea_relog_utc_ns(relog, r->time_raw) : 0;
    int wanted = 1;
    if (j->where) /* it is given each record, so that it knows the state */
        wanted = ea_where_holds(j->where, r, c, &j->clock, &j->err);
    if (wanted > 0 && o->cpus.count)
        wanted = j->cpus[r->cpu / 8] >> r->cpu % 8 & 1;
    if (wanted > 0 && j->has_chooser)
        wanted = ea_class_chooser_wants(&j->chooser, c);
    if (wanted > 0 && j->processes)
        wanted = ea_process_choice_wants(j->processes, r, c, utc_ns);
    return wanted;
}

/* Whether the event is kept, and as what. */
static int relog_keep_changed(relog_job *j, ea_relog *relog, const ea_record *r, const ea_class *c) {
    ea_record changed;
    int rc = relog_change(j, r, c, &changed);
    if (rc <= 0)
        return rc ? rc : EA_RELOG_DROP;
    rc = ea_relog_replace(relog, (const ea_relog_event *)&changed);
    return rc ? rc : EA_RELOG_KEEP;
}

static const ea_class *relog_class(relog_job *j, const ea_record *r) {
    if (ea_trace_schemas_concerns(r) && ea_trace_schemas_feed(j->from_trace, r)) {
        j->has_late_schema |= j->has_unknown;
        ea_registry_schemas_changed(j->registry);
        if (j->has_chooser)
            ea_class_chooser_forget(&j->chooser);
    }
    return ea_registry_find(j->registry, r);
}

/* Whether a part wants what the options want; a condition is given each record, so that it knows the state. */
static int part_wants(relog_job *j, const relog_part *part, const ea_record *r, const ea_class *c, int wanted) {
    int holds = part->where && !j->injects_own ? ea_where_holds(part->where, r, c, &j->clock, &j->err) : 1;
    return holds < 0 ? holds : wanted && holds;
}

static int give_schema(void *arg, const ea_record *r) {
    return relog_emit_added(arg, (const ea_relog_event *)r);
}

/* Gives an event to a part. A bare one keeps no schemas that came before: it gets that of the event now. */
static int relog_take_part(relog_job *j, relog_part *part, const ea_record *r, const ea_class *c, int wanted) {
    int verdict = ea_cut_take(part->cut, r, c, wanted, &j->err), rc = 0;
    if (verdict == EA_RELOG_KEEP && j->o->metadata && j->o->bare)
        rc = ea_relog_inject_schema(j, part, r, c, give_schema, part);
    return rc ? rc : verdict;
}

/* Gives an event to the parts. */
static int relog_take(relog_job *j, ea_relog *relog, const ea_record *r, const ea_class *c, int wanted) {
    ea_record changed;
    int is_kept = 0;
    if (!j->part_names)
        return relog_take_part(j, &j->parts[0], r, c, wanted);
    for (size_t i = 0; i < j->part_count; i++) {
        int rc = part_wants(j, &j->parts[i], r, c, wanted);
        if (rc >= 0)
            rc = relog_take_part(j, &j->parts[i], r, c, rc);
        if (rc == EA_RELOG_DROP)
            continue;
        if (rc == EA_RELOG_KEEP)
            rc = relog_change(j, r, c, &changed);
        is_kept |= rc > 0;
        if (rc > 0 && !j->o->dry_run)
            rc = ea_relog_emit(relog, j->parts[i].output, (const ea_relog_event *)&changed);
        if (rc < 0)
            return rc;
    }
    j->kept += (uint64_t)is_kept;
    return EA_RELOG_DROP;
}

/* A record that was not read goes the way of those that are; one of the caller's own is always wanted. */
static int take_injected(void *arg, const ea_record *r) {
    relog_job *j = arg;
    const ea_class *c = ea_registry_find(j->registry, r);
    int rc = j->rewrite ? ea_rewrite_note(j->rewrite, r, c, &j->err) : 0, verdict = EA_RELOG_KEEP;
    uint64_t kept = j->kept;
    if (rc)
        return rc;
    if (j->cuts) {
        int wanted = j->injects_own ? 1 : relog_wants(j, j->relog, r, c);
        verdict = wanted < 0 ? wanted : relog_take(j, j->relog, r, c, wanted);
    }
    j->own_written += j->injects_own && (verdict == EA_RELOG_KEEP || j->kept > kept);
    j->kept = kept;
    return verdict == EA_RELOG_KEEP ? relog_emit_added(&j->parts[0], (const ea_relog_event *)r)
           : verdict < 0            ? verdict
                                    : 0;
}

static int relog_chosen_event(relog_job *j, ea_relog *relog, const ea_record *r) {
    int rc = !j->cuts || j->parts[0].cut ? 0 : relog_make_cuts(j, relog);
    if (!rc && (j->adds_moments || j->images))
        rc = ea_relog_inject(j, relog, r);
    if (rc)
        return rc;
    if (j->o->announce && (rc = ea_relog_inject_announced(j, r)))
        return rc < 0 ? rc : EA_RELOG_DROP; /* image events are in its place */
    const ea_class *c = relog_class(j, r);
    int verdict = EA_RELOG_KEEP;
    if (j->o->metadata && !j->o->bare)
        rc = ea_relog_inject_schema(j, NULL, r, c, j->take_injected, j);
    if (!rc && j->rewrite)
        rc = ea_rewrite_note(j->rewrite, r, c, &j->err);
    if (rc)
        return rc;
    if (j->cuts) {
        int wanted = relog_wants(j, relog, r, c);
        verdict = wanted < 0 ? wanted : relog_take(j, relog, r, c, wanted);
    }
    return verdict == EA_RELOG_KEEP && (j->redact || j->rewrite || r == &j->converted)
               ? relog_keep_changed(j, relog, r, c)
               : verdict;
}

/* The event with the times of its payload in ticks of the first clock. */
static const ea_record *relog_convert(relog_job *j, const ea_record *r) {
    j->converted = *r;
    ea_payload_times_convert(&j->clocks[r->source], &j->clock, r, ea_registry_find(j->registry, r), j->payload);
    j->converted.payload = j->payload;
    return &j->converted;
}

static int relog_event(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    relog_job *j = arg;
    const ea_record *r = (const ea_record *)event;
    if (++j->seen % PROGRESS_EVENTS == 0) {
        if (atomic_load(ea_stop_flag()))
            ea_relog_cancel(relog);
        if (j->shows_progress)
            fprintf(stderr, "\r%3.0f %%  %" PRIu64 " events ", 100 * ea_relog_progress(relog), j->seen);
    }
    if (j->payload && input->is_converted)
        r = relog_convert(j, r);
    return j->registry ? relog_chosen_event(j, relog, r) : EA_RELOG_KEEP;
}

static int relog_end(ea_relog *relog, void *arg) {
    relog_job *j = arg;
    int rc = j->has_chooser ? ea_class_chooser_check(&j->chooser, &j->err) : 0;
    if (!rc && j->adds_moments && j->cuts && !j->parts[0].cut) /* the traces have no event */
        rc = relog_make_cuts(j, relog);
    if (!rc && j->adds_moments)
        rc = ea_relog_inject_rest(j, relog);
    for (size_t i = 0; !rc && i < j->part_count; i++)
        rc = j->parts[i].cut ? ea_cut_finish(j->parts[i].cut) : 0;
    return !rc && j->rewrite ? ea_rewrite_check(j->rewrite, &j->err) : rc;
}

/* ---- which events ---- */

static int parse_cpus(relog_job *j) {
    for (size_t i = 0; i < j->o->cpus.count; i++) {
        const char *word = j->o->cpus.items[i], *at = word;
        uint64_t first = 0, last;
        int ok = ea_digits_parse(&at, 10, &first);
        last = first;
        if (ok && *at == '-') {
            at++;
            ok = ea_digits_parse(&at, 10, &last);
        }
        if (!ok || *at || first > last || last >= RELOG_CPUS_MAX)
            return ea_fail(&j->err, EA_EUSAGE, "--cpu %s: expected a processor's number, or two as in 4-7", word);
        for (; first <= last; first++)
            j->cpus[first / 8] |= (uint8_t)(1u << first % 8);
    }
    return 0;
}

/* A relogger with all inputs. */
static int cmd_relog_open_inputs(relog_job *j, ea_relog **ret, char **paths, int path_count) {
    int rc = ea_relog_create(ret);
    if (rc)
        return ea_fail(&j->err, rc, "relog");
    if (j->o->clock)
        ea_relog_convert_clocks(*ret);
    for (int i = 0; !rc && i < path_count; i++)
        rc = ea_relog_add_input(*ret, paths[i], NULL, NULL);
    return rc ? ea_fail(&j->err, rc, "%s", ea_relog_error(*ret)) : 0;
}

typedef struct relog_first_pass {
    relog_job *job;
    ea_registry *registry;
} relog_first_pass;

static int learn_event(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    relog_first_pass *pass = arg;
    const ea_record *r = (const ea_record *)event;
    (void)input;
    if (atomic_load(ea_stop_flag()))
        ea_relog_cancel(relog);
    int rc = ea_process_choice_learn(pass->job->processes, r, ea_registry_find(pass->registry, r),
                                     ea_relog_utc_ns(relog, r->time_raw), &pass->job->err);
    return rc ? rc : EA_RELOG_KEEP;
}

static int learn_begin(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *header, void *arg) {
    return cmd_relog_begin(relog, input, header, ((relog_first_pass *)arg)->job);
}

/* NAME, PID, or one of them with @TIME. */
static int choose_process(relog_job *j, const char *word) {
    const char *at = strrchr(word, '@');
    char name[512];
    size_t len = at ? (size_t)(at - word) : strlen(word);
    uint64_t pid = 0;
    int64_t utc_ns = INT64_MIN;
    ea_time_reference reference = {
        .now_utc_ns = ea_utc_ns(), .begin_utc_ns = j->begin_utc_ns, .end_utc_ns = j->end_utc_ns, .has_data = 1};
    if (len == 0 || len >= sizeof name)
        return ea_fail(&j->err, EA_EUSAGE, "--process %s: expected a name or a process id", word);
    if (at && ea_time_parse(at + 1, &reference, &utc_ns))
        return ea_fail(&j->err, EA_EUSAGE, "--process %s: expected after @ " EA_TIME_FORMS_OF_DATA, word);
    memcpy(name, word, len);
    name[len] = 0;
    const char *end = name;
    int is_pid = ea_digits_parse(&end, 10, &pid) && !*end && pid <= UINT32_MAX;
    if (ea_process_choice_add(j->processes, is_pid ? NULL : name, is_pid, (uint32_t)pid, utc_ns))
        return 0;
    ea_near near = {.distance = 0};
    if (!is_pid)
        near = ea_process_choice_near(j->processes, name);
    int is_similar = near.name[0] && near.distance; /* 0: there is one of this name, at another time */
    return ea_fail(&j->err, EA_ENOTFOUND, "--process %s: the traces have no such process%s%s%s%s", word,
                   at ? " at that time" : "", is_similar ? "; did you mean '" : "", is_similar ? near.name : "",
                   is_similar ? "'?" : "");
}

/* Reads the traces once for the lifetimes of processes. */
static int choose_processes(relog_job *j, char **paths, int path_count) {
    const ea_relog_callbacks callbacks = {.on_begin = learn_begin, .on_event = learn_event};
    relog_first_pass pass = {.job = j};
    ea_relog *relog = NULL;
    int rc = ea_process_choice_create(&j->processes, &j->err);
    if (!rc)
        rc = ea_registry_create(&pass.registry, 0, &j->err);
    if (!rc)
        rc = cmd_relog_open_inputs(j, &relog, paths, path_count);
    if (!rc)
        rc = ea_relog_run(relog, &callbacks, &pass);
    if (rc && !j->err.code)
        rc = ea_fail(&j->err, rc, "%s", ea_relog_error(relog));
    for (size_t i = 0; !rc && i < j->o->processes.count; i++)
        rc = choose_process(j, j->o->processes.items[i]);
    if (!rc && j->o->tree)
        ea_process_choice_add_children(j->processes);
    if (!rc)
        ea_process_choice_settle(j->processes);
    ea_relog_destroy(relog);
    ea_registry_destroy(pass.registry);
    return rc;
}

/* ---- the traces' end ---- */

/* 1: a time of the options, or of a list, refers to the traces' end. */
static int needs_end(const relog_job *j) {
    const relog_options *o = j->o;
    size_t count = 0;
    int needs = ea_input_names_end(o->from) || ea_input_names_end(o->to);
    for (size_t i = 0; i < o->processes.count; i++) {
        const char *at = strrchr(o->processes.items[i], '@');
        needs |= at && ea_input_names_end(at + 1);
    }
    const ea_listed_module *modules = j->modules ? ea_module_list_items(j->modules, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        needs |= ea_input_names_end(modules[i].load) || ea_input_names_end(modules[i].unload);
    count = 0;
    const ea_own_event *own = j->own ? ea_own_events_items(j->own, &count) : NULL;
    for (size_t i = 0; i < count; i++)
        needs |= ea_input_names_end(own[i].time);
    return needs;
}

/* The end is the moment after the last event. The traces are read for it when a time refers to it. */
static int relog_find_end(relog_job *j, char **paths, int path_count) {
    return needs_end(j) ? ea_input_read_end(paths, path_count, ea_stop_flag(), &j->last_utc_ns, &j->err) : 0;
}

/* ---- which processes ---- */

static int open_selection(relog_job *j, char **paths, int path_count) {
    const relog_options *o = j->o;
    int rc = parse_cpus(j);
    if (!rc && has_choice(o)) {
        rc = ea_class_chooser_init(&j->chooser, &o->choice, &j->err);
        j->has_chooser = !rc;
    }
    if (!rc && o->processes.count)
        rc = choose_processes(j, paths, path_count);
    return rc;
}

/* ---- redaction ---- */

static int open_redact(relog_job *j) {
    if (!j->o->key)
        return ea_fail(&j->err, EA_EUSAGE, "--redact needs --key FILE");
    return ea_redact_open(&j->redact, j->o->redact, j->o->key, j->o->unknown ? EA_REDACT_DROP : EA_REDACT_ZERO,
                          &j->err);
}

/* What will be added has names, too. */
static int learn_injected(void *arg, const ea_record *r) {
    relog_job *j = arg;
    return ea_redact_learn(j->redact, r, ea_registry_find(j->registry, r), &j->err);
}

static int learn_names(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    relog_job *j = arg;
    const ea_record *r = (const ea_record *)event;
    (void)input;
    if (atomic_load(ea_stop_flag()))
        ea_relog_cancel(relog);
    int rc = j->adds_moments || j->images ? ea_relog_inject(j, relog, r) : 0;
    if (rc)
        return rc;
    const ea_class *c = relog_class(j, r);
    j->has_unknown |= c->status == EA_CLASS_UNKNOWN;
    rc = ea_redact_learn(j->redact, r, c, &j->err);
    return rc ? rc : EA_RELOG_KEEP;
}

static int learn_end(ea_relog *relog, void *arg) {
    relog_job *j = arg;
    return j->adds_moments ? ea_relog_inject_rest(j, relog) : 0;
}

static int read_names_once(relog_job *j, char **paths, int path_count) {
    const ea_relog_callbacks callbacks = {.on_begin = cmd_relog_begin, .on_event = learn_names, .on_end = learn_end};
    ea_relog *relog = NULL;
    j->take_injected = learn_injected;
    int rc = cmd_relog_open_inputs(j, &relog, paths, path_count);
    if (!rc)
        rc = ea_relog_run(relog, &callbacks, j);
    if (rc && !j->err.code)
        rc = ea_fail(&j->err, rc, "%s", ea_relog_error(relog));
    ea_relog_destroy(relog);
    ea_relog_rewind_injected(j);
    j->take_injected = take_injected;
    return rc;
}

/* Reads the traces, and what is added to them, for names of users and machines: once, and again when events came before
 * their schemas. */
static int relog_read_names(relog_job *j, char **paths, int path_count) {
    int rc = read_names_once(j, paths, path_count);
    if (rc || !j->has_late_schema)
        return rc;
    return read_names_once(j, paths, path_count);
}

/* ---- parts ---- */

static int make_parts(relog_job *j, const int64_t *bounds, size_t bound_count) {
    j->part_count = bound_count + 1;
    j->parts = calloc(j->part_count, sizeof *j->parts);
    if (!j->parts)
        return ea_fail(&j->err, EA_ENOMEM, "relog");
    for (size_t i = 0; i < j->part_count; i++)
        j->parts[i] = (relog_part){.job = j,
                                   .output = (unsigned)i,
                                   .from_raw = i ? bounds[i - 1] : INT64_MIN,
                                   .to_raw = i < bound_count ? bounds[i] : INT64_MAX};
    return 0;
}

typedef struct relog_plan {
    relog_job *job;
    int64_t step_ns;      /* of a part; 0: limit_bytes bounds it */
    uint64_t limit_bytes; /* of a part's events */
    int64_t from_raw, to_raw;
    int has_window;
    int is_open;    /* a trace has no end: its last event is that */
    uint64_t bytes; /* of the part at hand */
    int64_t bounds[RELOG_PARTS_MAX];
    size_t count;
} relog_plan;

static int too_many_parts(const relog_plan *plan) {
    return ea_fail(&plan->job->err, EA_ELIMIT, "--split %s: that would be more than %d parts", plan->job->o->split,
                   RELOG_PARTS_MAX);
}

static int add_bound(relog_plan *plan, int64_t raw) {
    if (plan->count && raw <= plan->bounds[plan->count - 1])
        return 0;
    if (plan->count == RELOG_PARTS_MAX - 1)
        return too_many_parts(plan);
    plan->bounds[plan->count++] = raw;
    return 0;
}

/* Parts of a length of time. */
static int plan_times(relog_plan *plan) {
    const relog_job *j = plan->job;
    int64_t begin = plan->from_raw == INT64_MIN ? j->begin_utc_ns : ea_clock_to_utc_ns(&j->clock, plan->from_raw);
    int64_t end = plan->to_raw == INT64_MAX ? j->end_utc_ns : ea_clock_to_utc_ns(&j->clock, plan->to_raw);
    uint64_t length = end > begin ? (uint64_t)end - (uint64_t)begin : 0, step = (uint64_t)plan->step_ns;
    if (length && (length - 1) / step >= RELOG_PARTS_MAX) /* however coarse the clock is */
        return too_many_parts(plan);
    int rc = 0;
    for (int64_t at = begin; !rc && at < end && (uint64_t)end - (uint64_t)at > step;) {
        at += plan->step_ns;
        rc = add_bound(plan, ea_clock_from_utc_ns(&j->clock, at));
    }
    return rc;
}

/* Of an event in a file, about. */
static uint64_t event_bytes(const ea_record *r) {
    enum { HEADER = 80, ITEM = 16, ALIGNMENT = 8 };

    uint64_t n = HEADER + (uint64_t)r->payload_bytes + ALIGNMENT;
    for (unsigned i = 0; i < r->ext_count; i++)
        n += ITEM + r->ext[i].size_bytes;
    return n;
}

static int plan_event(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg) {
    relog_plan *plan = arg;
    const ea_record *r = (const ea_record *)event;
    (void)input;
    if (atomic_load(ea_stop_flag()))
        ea_relog_cancel(relog);
    int rc = plan->has_window ? 0 : parse_window(plan->job, relog, &plan->from_raw, &plan->to_raw);
    plan->has_window = 1;
    if (!rc && plan->step_ns)
        return EA_ECANCELED; /* no other event is needed */
    if (rc || r->time_raw < plan->from_raw || r->time_raw >= plan->to_raw)
        return rc ? rc : EA_RELOG_DROP;
    uint64_t bytes = event_bytes(r);
    if (plan->bytes && plan->bytes + bytes > plan->limit_bytes) {
        plan->bytes = 0;
        rc = add_bound(plan, r->time_raw);
    }
    plan->bytes += bytes;
    return rc ? rc : EA_RELOG_DROP;
}

static int plan_begin(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *header, void *arg) {
    relog_plan *plan = arg;
    plan->is_open |= !input->end_utc_ns;
    return cmd_relog_begin(relog, input, header, plan->job);
}

/* OUT.etl becomes OUT.001.etl. */
static char *relog_part_name(const char *output, size_t number) {
    enum { ROOM = 24 };

    size_t len = strlen(output), name = len;
    while (name && output[name - 1] != '/' && output[name - 1] != '\\')
        name--;
    const char *dot = strrchr(output + name, '.');
    size_t stem = dot && dot > output + name ? (size_t)(dot - output) : len;
    char *made = malloc(len + ROOM);
    if (made)
        snprintf(made, len + ROOM, "%.*s.%03zu%s", (int)stem, output, number, output + stem);
    return made;
}

static int name_parts(relog_job *j) {
    j->part_names = calloc(j->part_count, sizeof *j->part_names);
    for (size_t i = 0; j->part_names && i < j->part_count; i++)
        if (!(j->part_names[i] = relog_part_name(j->trace ? j->trace : "", i + 1)))
            return ea_fail(&j->err, EA_ENOMEM, "relog");
    return j->part_names ? 0 : ea_fail(&j->err, EA_ENOMEM, "relog");
}

/* Reads the traces once, for the times between which the parts are. */
static int plan_parts(relog_job *j, char **paths, int path_count) {
    const ea_relog_callbacks callbacks = {.on_begin = plan_begin, .on_event = plan_event};
    relog_plan plan = {.job = j, .from_raw = INT64_MIN, .to_raw = INT64_MAX};
    ea_relog *relog = NULL;
    if (ea_duration_parse(j->o->split, &plan.step_ns) && ea_size_parse(j->o->split, &plan.limit_bytes))
        return ea_fail(&j->err, EA_EUSAGE, "--split %s: expected a time as in 10s, or a size as in 2GiB", j->o->split);
    if (plan.step_ns <= 0 && plan.limit_bytes < RELOG_PART_LEAST)
        return ea_fail(&j->err, EA_EUSAGE, "--split %s: expected some time, or 64KiB at least", j->o->split);
    if (plan.limit_bytes && is_filtered(j->o))
        return ea_fail(&j->err, EA_EUSAGE, "--split SIZE goes with no choice of events: choose first, then split");
    int rc = cmd_relog_open_inputs(j, &relog, paths, path_count);
    if (!rc)
        rc = ea_relog_run(relog, &callbacks, &plan);
    if (rc == EA_ECANCELED && plan.step_ns && plan.has_window && !atomic_load(ea_stop_flag()))
        rc = 0;
    if (!rc && plan.step_ns && plan.is_open && j->last_utc_ns == INT64_MIN && plan.to_raw == INT64_MAX)
        rc = ea_input_read_end(paths, path_count, ea_stop_flag(), &j->end_utc_ns, &j->err);
    if (!rc && plan.step_ns && plan.has_window)
        rc = plan_times(&plan);
    if (rc && !j->err.code)
        rc = ea_fail(&j->err, rc, "%s", ea_relog_error(relog));
    ea_relog_destroy(relog);
    if (!rc)
        rc = make_parts(j, plan.bounds, plan.count);
    if (rc)
        return rc;
    j->parts[0].from_raw = plan.from_raw;
    j->parts[j->part_count - 1].to_raw = plan.to_raw;
    return name_parts(j);
}

/* FILE: CONDITION. The part of --output, if there is one, has all that is wanted. */
static int open_part(relog_job *j, const char *word, char **paths, int path_count) {
    const char *colon = strstr(word, ": ");
    relog_part *part = &j->parts[j->part_count];
    if (!colon || colon == word)
        return ea_fail(&j->err, EA_EUSAGE, "--part %.200s: expected FILE: CONDITION", word);
    char *name = strdup(word);
    if (!name)
        return ea_fail(&j->err, EA_ENOMEM, "relog");
    name[colon - word] = 0;
    j->part_names[j->part_count] = name;
    *part = (relog_part){.job = j, .output = (unsigned)j->part_count};
    j->part_count++;
    if (ea_relog_form_kind(name) != RELOG_TRACE)
        return ea_fail(&j->err, EA_EUSAGE, "--part %.200s: a part is a trace", word);
    return ea_program_where(&part->where, colon + 2, &(ea_class_choice){.ids.count = 0},
                            &(ea_program_classes){paths, path_count, &j->o->schemas}, &j->err);
}

static int open_parts(relog_job *j, char **paths, int path_count) {
    const ea_strings *words = &j->o->parts;
    int rc = 0;
    j->parts = calloc(words->count + 1, sizeof *j->parts);
    j->part_names = calloc(words->count + 1, sizeof *j->part_names);
    if (!j->parts || !j->part_names)
        return ea_fail(&j->err, EA_ENOMEM, "relog");
    if (j->trace) {
        if (!(j->part_names[0] = strdup(j->trace)))
            return ea_fail(&j->err, EA_ENOMEM, "relog");
        j->parts[j->part_count++] = (relog_part){.job = j};
    }
    for (size_t i = 0; !rc && i < words->count; i++)
        rc = open_part(j, words->items[i], paths, path_count);
    return rc;
}

/* ---- outputs ---- */

/* Which output is the trace. */
static int choose_trace(relog_job *j) {
    static const char END[] = ".etl";
    const ea_strings *outputs = &j->o->outputs;
    for (size_t i = 0; i < outputs->count; i++) {
        enum relog_form_kind kind = ea_relog_form_kind(outputs->items[i]);
        if (kind == RELOG_PCAPNG && j->o->redact)
            return ea_fail(&j->err, EA_EUSAGE,
                           "--output %s: --redact zeroes packets, so there are none to write: leave out one of them",
                           outputs->items[i]);
        if (kind != RELOG_TRACE)
            continue;
        if (j->trace)
            return ea_fail(&j->err, EA_EUSAGE,
                           "--output %s: all outputs have the same events, so that one trace is enough; other ones are "
                           ".jsonl, .csv or .pcapng",
                           outputs->items[i]);
        j->trace = outputs->items[i];
    }
    if (j->trace || !outputs->count)
        return 0;
    size_t len = strlen(outputs->items[0]);
    j->temporary = malloc(len + sizeof END);
    if (!j->temporary)
        return ea_fail(&j->err, EA_ENOMEM, "relog");
    memcpy(j->temporary, outputs->items[0], len);
    memcpy(j->temporary + len, END, sizeof END);
    j->trace = j->temporary;
    return 0;
}

static int add_form(relog_job *j, const char *path, size_t part) {
    relog_form *form = &j->forms[j->form_count];
    *form = (relog_form){.kind = (int)ea_relog_form_kind(path), .trace = (unsigned)part};
    form->path = j->o->split ? relog_part_name(path, part + 1) : strdup(path);
    if (!form->path)
        return ea_fail(&j->err, EA_ENOMEM, "relog");
    j->form_count++;
    int rc = ea_relog_add_output(j->relog, form->path, &(ea_relog_output){.kind = EA_RELOG_OTHER}, &form->output);
    return rc ? ea_fail(&j->err, rc, "%s", ea_relog_error(j->relog)) : 0;
}

static int add_trace(relog_job *j, const char *path, int is_temporary) {
    const relog_options *o = j->o;
    const ea_relog_output trace = {.compression =
                                       is_temporary ? EA_RELOG_COMPRESSION_NONE : COMPRESSION_CODES[o->compression],
                                   .buffer_size_bytes = (uint32_t)o->buffer_bytes,
                                   .only_emitted = j->part_names != NULL,
                                   .no_names = j->redact != NULL,
                                   .kind = is_temporary ? EA_RELOG_TEMPORARY : EA_RELOG_TRACE};
    int rc = ea_relog_add_output(j->relog, path, &trace, NULL);
    return rc ? ea_fail(&j->err, rc, "%s", ea_relog_error(j->relog)) : 0;
}

/* Traces first: a part's number is that of its trace. Of parts by condition only the one of all events has forms. */
static int add_outputs(relog_job *j) {
    const relog_options *o = j->o;
    size_t traces = j->part_names ? j->part_count : 1, parts = o->split ? traces : 1;
    int rc = 0;
    if (!(j->forms = calloc(parts * o->outputs.count + 1, sizeof *j->forms)))
        return ea_fail(&j->err, EA_ENOMEM, "relog");
    for (size_t i = 0; !rc && i < traces; i++)
        rc = add_trace(j, j->part_names ? j->part_names[i] : j->trace, j->temporary && i < parts);
    for (size_t i = 0; i < o->outputs.count; i++)
        for (size_t k = 0; !rc && k < parts; k++)
            if (ea_relog_form_kind(o->outputs.items[i]) != RELOG_TRACE)
                rc = add_form(j, o->outputs.items[i], k);
    return rc;
}

static int relog_write_forms(ea_relog *relog, void *arg) {
    relog_job *j = arg;
    int rc = 0;
    for (size_t i = 0; !rc && i < j->form_count; i++)
        rc = ea_relog_make_form(j, relog, &j->forms[i]);
    return rc;
}

static int open_relog_job(relog_job *j, char **paths, int path_count) {
    const relog_options *o = j->o;
    if (o->tree && !o->processes.count)
        return ea_fail(&j->err, EA_EUSAGE, "--tree goes with --process");
    if (!o->outputs.count && !o->parts.count && !o->dry_run)
        return ea_fail(&j->err, EA_EUSAGE, "expected --output FILE");
    if (o->split && o->parts.count)
        return ea_fail(&j->err, EA_EUSAGE, "--split and --part exclude each other: split a part afterwards");
    j->cuts = o->from || o->to || o->split || o->parts.count || is_filtered(o);
    if (!j->cuts && o->bare)
        return ea_fail(&j->err, EA_EUSAGE,
                       "--bare goes with --from, --to, --split, --part, --where or another choice of events");
    if (!o->redact && (o->key || o->dry_run))
        return ea_fail(&j->err, EA_EUSAGE, "%s goes with --redact", o->key ? "--key" : "--dry-run");
    if (o->image_cache && !o->image_ids.count)
        return ea_fail(&j->err, EA_EUSAGE, "--image-cache goes with --image-ids");
    if (o->shift && o->start_at)
        return ea_fail(&j->err, EA_EUSAGE, "--shift and --start-at exclude each other: give one of them");
    int rc = choose_trace(j);
    if (rc || (!j->cuts && !o->redact && !o->sets.count && !o->clock && !o->modules && !o->image_ids.count &&
               !o->events && !o->metadata && !o->marks.count && !o->announce))
        return rc;
    if (o->clock && !(j->payload = malloc(UINT16_MAX)))
        return ea_fail(&j->err, EA_ENOMEM, "relog");
    j->take_injected = take_injected;
    rc = ea_relog_open_injected(j);
    if (!rc)
        rc = relog_find_end(j, paths, path_count);
    if (!rc)
        rc = open_selection(j, paths, path_count);
    if (!rc)
        rc = o->split         ? plan_parts(j, paths, path_count)
             : o->parts.count ? open_parts(j, paths, path_count)
                              : make_parts(j, NULL, 0);
    if (!rc && o->redact)
        rc = open_redact(j);
    if (rc)
        return rc;
    rc = ea_schema_options_read(&j->schemas, &o->schemas, &j->err);
    if (!rc)
        rc = ea_trace_schemas_create(&j->from_trace, j->schemas, &j->err);
    if (!rc)
        rc = ea_registry_create(&j->registry, 0, &j->err);
    if (!rc)
        ea_registry_set_schemas(j->registry, j->schemas);
    if (!rc && o->where)
        rc = ea_program_where(&j->where, o->where, &(ea_class_choice){.ids.count = 0},
                              &(ea_program_classes){paths, path_count, &o->schemas}, &j->err);
    if (!rc && o->sets.count)
        rc = ea_program_rewrite(&j->rewrite, &o->sets, &(ea_program_classes){paths, path_count, &o->schemas}, &j->err);
    return !rc && j->redact ? relog_read_names(j, paths, path_count) : rc;
}

static void close_relog_job(relog_job *j) {
    for (size_t i = 0; i < j->part_count; i++) {
        ea_cut_destroy(j->parts[i].cut);
        ea_where_destroy(j->parts[i].where);
        if (j->part_names)
            free(j->part_names[i]);
    }
    free(j->parts);
    free(j->part_names);
    for (size_t i = 0; i < j->form_count; i++)
        free(j->forms[i].path);
    free(j->forms);
    free(j->temporary);
    free(j->clocks);
    free(j->payload);
    ea_relog_close_injected(j);
    ea_rewrite_destroy(j->rewrite);
    ea_redact_destroy(j->redact);
    ea_process_choice_destroy(j->processes);
    if (j->has_chooser)
        ea_class_chooser_deinit(&j->chooser);
    ea_where_destroy(j->where);
    ea_registry_destroy(j->registry);
    ea_trace_schemas_destroy(j->from_trace);
    ea_schemas_destroy(j->schemas);
}

static int relog_files(relog_job *j) {
    const ea_relog_callbacks callbacks = {
        .on_begin = cmd_relog_begin, .on_event = relog_event, .on_end = relog_end, .on_written = relog_write_forms};
    int rc = j->o->dry_run ? 0 : add_outputs(j);
    if (!rc)
        rc = ea_relog_run(j->relog, &callbacks, j);
    if (j->shows_progress && (j->seen >= PROGRESS_EVENTS || j->asked_shown))
        fputs("\r                                        \r", stderr);
    if (rc && !j->err.code)
        return ea_fail(&j->err, rc, "%s", ea_relog_error(j->relog));
    return rc;
}

static int relog_run(const void *arg, int operand_count, char **operands) {
    relog_job job = {.o = arg,
                     .shows_progress = ea_is_terminal(stderr),
                     .begin_utc_ns = INT64_MIN,
                     .end_utc_ns = INT64_MIN,
                     .last_utc_ns = INT64_MIN};
    (void)ea_stop_flag();
    ea_text_init(&job.path);
    ea_u64_map_init(&job.described, 0);
    ea_u64_map_init(&job.versions, 0);
    job.clocks = calloc((size_t)operand_count, sizeof *job.clocks);
    int rc = job.clocks ? open_relog_job(&job, operands, operand_count) : ea_fail(&job.err, EA_ENOMEM, "relog");
    if (!rc)
        rc = cmd_relog_open_inputs(&job, &job.relog, operands, operand_count);
    if (!rc)
        rc = relog_files(&job);
    if (!rc)
        rc = ea_relog_print_summary(&job, job.relog, operand_count, &job.err);
    if (rc)
        ea_err_print(stderr, "etwagent", &job.err);
    ea_relog_destroy(job.relog);
    close_relog_job(&job);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "FILE",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(relog_options, outputs),
     .help = "the trace to write, needed but for --dry-run; it is FILE.partial until it is complete, and replaces an "
             "existing FILE then; may be repeated: FILE.jsonl and FILE.csv are what dump prints of that trace, "
             "FILE.pcapng its packets"},
    {.name = "compression",
     .argument = "KIND",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(relog_options, compression),
     .choices = COMPRESSIONS,
     .fallback = "same",
     .help = "of the output's buffers; same: that of the first trace"},
    {.name = "buffer-size",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(relog_options, buffer_bytes),
     .min = 1024,
     .max = 16 << 20,
     .help = "of the output, a multiple of 512 bytes; default: the largest of the traces'"},
    {.name = "from",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, from),
     .help = "only events from this time on, and what their readers need of the rest: " EA_TIME_FORMS_OF_DATA},
    {.name = "to",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, to),
     .help = "only events before this time; likewise"},
    {.name = "modules",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, modules),
     .help = "add these modules, as image events with their ids: TSV with a first line of column names, or JSON lines, "
             "with pid, base, size, path and, as known, load, unload, guid, age, pdb, timestamp, checksum, "
             "default_base, name"},
    {.name = "image-ids",
     .argument = "FROM",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(relog_options, image_ids),
     .help = "add to image events without ids those of image files: FROM is a file, a folder, a list of stored facts "
             "(FILE.jsonl, FILE.tsv: rows of the collector's table modules), or the http: or https: address of a "
             "symbol server, which gets names, time stamps and sizes of modules; may be repeated, the first that has "
             "the image counts"},
    {.name = "image-cache",
     .argument = "FOLDER",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, image_cache),
     .help = "with a symbol server: where its files are kept, and looked for before it is asked; it grows without a "
             "limit"},
    {.name = "announce",
     .type = EA_OPT_FLAG,
     .offset = offsetof(relog_options, announce),
     .help = "modules that programs announced (etwagent_announce.h) become image events with their ids"},
    {.name = "events",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, events),
     .help =
         "add these events, with their schemas: JSON lines with time, provider, name and, as wanted, pid, tid, cpu, "
         "level, opcode, keyword, fields"},
    {.name = "mark",
     .argument = "TIME=TEXT",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(relog_options, marks),
     .help = "add the event Mark with this text; may be repeated"},
    {.name = "metadata",
     .type = EA_OPT_FLAG,
     .offset = offsetof(relog_options, metadata),
     .help = "add the schemas of events, so that tools decode the trace that lack their manifests"},
    {.name = "clock",
     .argument = "HOW",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(relog_options, clock),
     .choices = CLOCKS,
     .fallback = "same",
     .help =
         "same: all traces have one clock; convert: times of another clock become those of the first trace's, by way "
         "of UTC"},
    {.name = "shift",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, shift),
     .help = "all happens so much later, as in 2s; earlier, as in -150ms"},
    {.name = "start-at",
     .argument = "TIME",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, start_at),
     .help = "all happens so much later or earlier that the first trace's session began at this time"},
    {.name = "split",
     .argument = "TIME|SIZE",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, split),
     .help = "write parts, as in 10s or 2GiB (of events before compression): of FILE.etl these are FILE.001.etl, "
             "FILE.002.etl, ...; each is a cut. The traces are read twice"},
    {.name = "part",
     .argument = "FILE: CONDITION",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(relog_options, parts),
     .help = "write to this trace, too, those of the events for which the condition holds; a cut; may be repeated"},
    {.name = "where",
     .argument = "CONDITION",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, where),
     .help = "only events for which this condition of the query language holds, as in 'pid == 4711'"},
    {.name = "process",
     .argument = "NAME|PID[@TIME]",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(relog_options, processes),
     .help = "only events of these processes: by image name in any case, or by id; @TIME selects the process that "
             "lived then; "
             "may be repeated. The traces are read twice"},
    {.name = "tree",
     .type = EA_OPT_FLAG,
     .offset = offsetof(relog_options, tree),
     .help = "with --process: of the processes that they started, too"},
    EA_CLASS_OPTIONS(relog_options, choice),
    {.name = "cpu",
     .argument = "N[-M]",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(relog_options, cpus),
     .help = "only events of these processors; may be repeated"},
    {.name = "bare",
     .type = EA_OPT_FLAG,
     .offset = offsetof(relog_options, bare),
     .help = "with a choice of events or times: add nothing, and keep nothing else"},
    {.name = "set",
     .argument = "RULE",
     .type = EA_OPT_STRINGS,
     .offset = offsetof(relog_options, sets),
     .help = "'CLASS: TARGET = EXPRESSION' sets a field of the class's events, or of their header provider, pid, tid, "
             "cpu, time, level, ..., to a value of the query language; may be repeated"},
    {.name = "redact",
     .argument = "KINDS",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, redact),
     .help = "replace values by pseudonyms: all (but text), or of " EA_REDACT_KIND_LIST
             ", with commas between. The traces are read twice, or "
             "three times when schemas come late"},
    {.name = "key",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(relog_options, key),
     .help = "with --redact: a file of 16 to 4096 bytes, the key of the pseudonyms; the same key gives the same value "
             "the same pseudonym"},
    {.name = "unknown",
     .argument = "WHAT",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(relog_options, unknown),
     .choices = UNKNOWNS,
     .fallback = "zero",
     .help = "with --redact: what becomes of bytes that no known layout explains; drop: of their events"},
    {.name = "dry-run",
     .type = EA_OPT_FLAG,
     .offset = offsetof(relog_options, dry_run),
     .help = "with --redact: count, and write nothing"},
    EA_SCHEMA_OPTIONS(offsetof(relog_options, schemas)),
    {.name = "json", .type = EA_OPT_FLAG, .offset = offsetof(relog_options, json), .help = "print one JSON object"},
    {.name = NULL},
};

const ea_command ea_cmd_relog = {
    .name = "relog",
    .operands = "TRACE...",
    .summary = "Write traces again as one trace, record for record",
    .details =
        "Several traces of one machine are merged by time (then file, CPU, position); they need one clock, or "
        "--clock convert. Every record keeps\n"
        "its header form, extended items and payload. Of the header event the first trace's is written; buffer size,\n"
        "compression, number of buffers, end and losses are those of the output. Records of several sessions get the\n"
        "session number 0. Damaged records are skipped and counted.\n"
        "A cut (--from, --to, --split, --part, or a choice of events) contains what its readers need of the rest: at "
        "its "
        "beginning and "
        "end rundowns "
        "of\n"
        "processes, threads, modules with their image ids, names of files and registry keys, stack keys; "
        "configuration,\n"
        "schemas and methods of runtimes; of its events' call stacks also those that came later. What comes from "
        "outside\n"
        "has the time of the cut's beginning or end, and processor 0.\n"
        "With --set the expression sees the event as it was read; a value that has no room in its target ends the run. "
        "A kernel event whose header has no place for a member gets that of a classic event.\n"
        "The summary counts events without header events; written = read - dropped + added, or there is no output.\n"
        "JSON keys: output, bytes, inputs, headers, read, dropped, added, written, damaged, events_lost, "
        "buffers_lost,\n"
        "parts (with --split, --part: output, written, bytes of each), forms (of outputs that are no trace: output, "
        "form, "
        "events\n"
        "or packets, bytes), added_kinds (of a cut), injected (with --modules), announced (with --announce), "
        "image_ids (with --image-ids), events_added (with --events, --mark), schemas (with --metadata), set (with "
        "--set), redacted "
        "(with --redact).\n"
        "Exit codes: 0 written, 1 failed, 2 usage, 3 not a trace.",
    .options = OPTIONS,
    .options_size = sizeof(relog_options),
    .run = relog_run,
    .min_operands = 1,
    .max_operands = -1,
};
