/* See run_sinks.h.
 *
 * A greeting is strings, each with a NUL: the process id of the parent, then the arguments. */
#include "collector/app/run_sinks.h"

#include "collector/app/sink_options.h"
#include "collector/sandbox/child.h"
#include "collector/sandbox/system_paths.h"
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GREETING_MAX = 32 << 10 /* a pipe holds it */, ARGUMENTS_MAX = 320, EXIT_USAGE = 2 };

static const int64_t SECOND_NS = 1000000000, LOOK_NS = 20000000;
static const int64_t PAUSE_MIN_S = 1, PAUSE_MAX_S = 300, STEADY_S = 60, STOP_S = 5;

const char *const ec_run_sinks_variables[] = {EC_CONNECTION_VARIABLES, NULL};

typedef struct item {
    ec_sink_choice sink;
} item;

static int run_sinks_check_item(const void *table, const char **ret_key, ea_err *err) {
    return ec_sink_choice_check(&((const item *)table)->sink, ret_key, err);
}

static const ea_option ROWS[] = {EC_SINK_OPTIONS(item, sink), {.name = NULL}};

const ea_table ec_run_sinks_table = {
    .summary = "A receiver of stored events, with the options of `etwcollector sink run`.",
    .rows = ROWS,
    .size = sizeof(item),
    .check = run_sinks_check_item,
};

typedef struct running {
    const char *name;
    int is_running;
    int64_t pause_s, begun_ns, next_ns; /* monotonic: when it was started, and when it is started again */
} running;

struct ec_run_sinks {
    ec_run_sinks_options options;
    size_t count;
    running items[EC_RUN_SINKS_MAX];
};

static const ec_sink_choice *choice_of(const ea_tables *sinks, size_t i) {
    return &((const item *)sinks->items)[i].sink;
}

int ec_run_sinks_check(const ea_tables *sinks, ea_err *err) {
    for (size_t i = 0; i < sinks->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(choice_of(sinks, i)->name, choice_of(sinks, k)->name) == 0)
                return ea_fail(err, EA_EUSAGE, "sinks: two have the name %s: give each a name of its own",
                               choice_of(sinks, i)->name);
    return 0;
}

/* ---- the arguments of a child ---- */

static void run_sinks_put_value(const ea_option *o, const char *value, ea_text *t) {
    ea_text_printf(t, "--%s=%s", o->name, value);
    ea_text_char(t, 0);
}

static void run_sinks_put_option(const ea_option *o, const void *options, ea_text *t) {
    const void *at = (const char *)options + o->offset;
    switch (o->type) {
    case EA_OPT_FLAG:
        if (*(const int *)at) {
            ea_text_printf(t, "--%s", o->name);
            ea_text_char(t, 0);
        }
        break;
    case EA_OPT_STRING:
        if (*(const char *const *)at)
            run_sinks_put_value(o, *(const char *const *)at, t);
        break;
    case EA_OPT_STRINGS: {
        const ea_strings *list = at;
        for (size_t i = 0; i < list->count; i++)
            run_sinks_put_value(o, list->items[i], t);
        break;
    }
    case EA_OPT_CHOICE:
        run_sinks_put_value(o, o->choices[*(const int *)at], t);
        break;
    case EA_OPT_U64:
    case EA_OPT_SIZE:
    case EA_OPT_DURATION:
        ea_text_printf(t, "--%s=", o->name);
        ea_option_amount(o, *(const uint64_t *)at, t);
        ea_text_char(t, 0);
        break;
    case EA_OPT_TABLE:
    case EA_OPT_TABLES:
    case EA_OPT_LABELS:
        break; /* a sink has none */
    }
}

int ec_run_sinks_children(const ea_tables *sinks, const char *store, const ec_broker *broker, ea_text *greetings,
                          ec_broker_child *ret, ea_err *err) {
    size_t ends[EC_RUN_SINKS_MAX];
    for (size_t i = 0; i < sinks->count; i++) {
        size_t begin = greetings->len_bytes;
        ea_text_printf(greetings, "%ld", (long)ec_broker_pid(broker));
        ea_text_char(greetings, 0);
        ea_text_printf(greetings, "--store=%s", store);
        ea_text_char(greetings, 0);
        for (const ea_option *o = ROWS; o->name; o++)
            run_sinks_put_option(o, &((const item *)sinks->items)[i], greetings);
        if (greetings->failed)
            return ea_fail(err, EA_ENOMEM, "start the sinks");
        if (greetings->len_bytes - begin > GREETING_MAX)
            return ea_fail(err, EA_ELIMIT, "sink %s: its options have more than %d bytes: use fewer, or shorter ones",
                           choice_of(sinks, i)->name, GREETING_MAX);
        ends[i] = greetings->len_bytes;
    }
    for (size_t i = 0; i < sinks->count; i++) { /* the text does not move any more */
        size_t begin = i ? ends[i - 1] : 0;
        ret[i] = (ec_broker_child){.name = EC_SINK_RUNNER_NAME,
                                   .variables = ec_run_sinks_variables,
                                   .greeting = greetings->data + begin,
                                   .greeting_bytes = ends[i] - begin};
    }
    return 0;
}

/* ---- the collector's side ---- */

static void start_again_later(ec_run_sinks *r, running *s, const char *why) {
    int is_steady = ea_monotonic_ns() - s->begun_ns > STEADY_S * SECOND_NS;
    int64_t pause_s = is_steady || !s->pause_s ? PAUSE_MIN_S : s->pause_s * 2;
    s->pause_s = pause_s < PAUSE_MAX_S ? pause_s : PAUSE_MAX_S;
    s->next_ns = ea_monotonic_ns() + s->pause_s * SECOND_NS;
    ea_count(r->options.counters, EA_COUNT_sinks_ended, 1);
    ec_log_line(r->options.log, "sink %s ended: %s; it is started again in %" PRId64 " s", s->name, why, s->pause_s);
}

static void start_one(ec_run_sinks *r, size_t i) {
    running *s = &r->items[i];
    ea_err err = {0};
    int in = -1, out = -1;
    s->begun_ns = ea_monotonic_ns();
    if (ec_broker_start_child(r->options.broker, r->options.first_child + i, &in, &out, &err)) {
        start_again_later(r, s, err.message);
        return;
    }
    close(in); /* the end of its greeting */
    close(out);
    s->is_running = 1;
}

void ec_run_sinks_look(ec_run_sinks *r) {
    char why[80];
    int status;
    for (size_t i = 0; r && i < r->count; i++) {
        running *s = &r->items[i];
        if (s->is_running && ec_broker_child_ended(r->options.broker, r->options.first_child + i, &status)) {
            s->is_running = 0;
            if (WIFSIGNALED(status))
                snprintf(why, sizeof why, "signal %d", WTERMSIG(status));
            else
                snprintf(why, sizeof why, "exit code %d", WEXITSTATUS(status));
            if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_USAGE)
                s->pause_s = PAUSE_MAX_S; /* its options: only a file that they name may change */
            start_again_later(r, s, why);
        }
        if (!s->is_running && ea_monotonic_ns() >= s->next_ns)
            start_one(r, i);
    }
}

int ec_run_sinks_start(ec_run_sinks **ret, const ec_run_sinks_options *options, ea_err *err) {
    ec_run_sinks *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "start the sinks");
    r->options = *options;
    r->count = options->sinks->count;
    for (size_t i = 0; i < r->count; i++)
        r->items[i].name = choice_of(options->sinks, i)->name;
    ec_run_sinks_look(r);
    *ret = r;
    return 0;
}

void ec_run_sinks_stop(ec_run_sinks *r) {
    int status;
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++)
        if (r->items[i].is_running)
            ec_broker_ask_child(r->options.broker, r->options.first_child + i);
    int64_t end_ns = ea_monotonic_ns() + STOP_S * SECOND_NS;
    for (size_t i = 0; i < r->count; i++) {
        while (r->items[i].is_running && ea_monotonic_ns() < end_ns) {
            r->items[i].is_running = !ec_broker_child_ended(r->options.broker, r->options.first_child + i, &status) &&
                                     !ec_broker_has_ended(r->options.broker);
            if (r->items[i].is_running)
                ea_sleep_ns(LOOK_NS);
        }
        if (r->items[i].is_running) /* its request is repeated by the next one */
            ec_broker_end_child(r->options.broker, r->options.first_child + i);
    }
    free(r);
}

/* ---- the child's side ---- */

int ec_sink_runner_main(int (*dispatch)(int argc, char **argv)) {
    static char program[] = "etwcollector", sink[] = "sink", run[] = "run";
    char *argv[ARGUMENTS_MAX + 1] = {program, sink, run};
    char *text = malloc(GREETING_MAX + 1);
    size_t n = 0;
    int argc = 3;
    uint64_t parent = 0;
    for (ssize_t got = 1; text && got && n < GREETING_MAX;) {
        got = read(STDIN_FILENO, text + n, GREETING_MAX - n);
        if (got < 0 && errno != EINTR)
            break;
        n += got > 0 ? (size_t)got : 0;
    }
    if (!text || !n || text[n - 1] || ea_u64_parse(text, &parent)) {
        fprintf(stderr, "etwcollector: %s is started by the command run\n", EC_SINK_RUNNER_NAME);
        free(text);
        return EXIT_USAGE;
    }
    for (size_t at = strlen(text) + 1; at < n && argc < ARGUMENTS_MAX; at += strlen(text + at) + 1)
        argv[argc++] = text + at;
    (void)ea_stop_flag(); /* from now on SIGTERM is a request */
    ec_child_follow(parent);
    (void)ec_child_set_score(getpid());
    int code = dispatch(argc, argv);
    free(text);
    return code;
}
