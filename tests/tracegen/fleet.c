/* A fleet of generated machines. See fleet.h.
 *
 * Threads: the main thread makes certificates while the players make traces, gives the players the time to begin, and
 * sums up. A player prepares its machines, plays them, and waits until their senders are done. Only its player uses a
 * machine, except for the encoder and sender threads inside the libraries. */
#include "tests/tracegen/fleet.h"
#include "collector/ca/ca.h"
#include "proto/base/platform.h"
#include "service/core/pipeline.h"
#include "service/ship/sender.h"
#include "service/source/source.h"
#include "tests/tracegen/make.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    HOSTS_MAX = 100000,
    PLAYERS_MAX = 64,
    NAME_BYTES = 24,
    PATH_BYTES = 4096,
    TURN_NS = 10000000,     /* how often a player looks at all of its machines */
    CHUNK_EVENTS = 4096,    /* that one machine plays at most in a turn when it is late */
    BATCH_BYTES = 64 << 10, /* of payloads: a machine's memory */
    SPOOL_BYTES = 64 << 20,
    TROUBLE_LINES = 10,
    CERTIFICATE_DAYS = 30,
};

static const int64_t SECOND_NS = 1000000000;

typedef struct options {
    const char *collector, *ca_dir, *dir, *preset;
    uint64_t rate, seconds, batch_events, seed, trace_seconds, players;
    int json, keep;
} options;

typedef struct fleet fleet;

typedef struct host {
    fleet *fleet;
    char name[NAME_BYTES];
    uint64_t seed;
    uint8_t stream[EA_STREAM_ID_BYTES];
    ea_source *source;
    const ea_record *next; /* the source's; NULL at the end */
    int64_t begin_ns;      /* monotonic: when its first event is due */
    uint64_t trace_events, played;
    int64_t last_raw;
    int is_played;
    ea_counters counters;
    ea_ledger *ledger;
    ea_spool *spool;
    ea_pipeline *pipeline;
    ea_sender *sender;
    ea_pipeline_status p; /* at the end */
    ea_sender_status s;
    int balanced, complete;
    int rc;
    ea_err err; /* why it failed */
} host;

typedef struct player {
    fleet *fleet;
    unsigned number;
    ea_thread *thread;
    int64_t late_ns; /* the most that an event came later than its time */
} player;

struct fleet {
    const options *o;
    host *hosts;
    size_t host_count;
    player players[PLAYERS_MAX];
    unsigned player_count;
    int64_t start_filetime;
    tg_scenario *scenario;
    _Atomic unsigned trouble_count;
    atomic_int failed; /* set when a preparation failed: no player begins */
    ea_mutex *lock;
    ea_cond *changed;
    int certified;              /* lock: the certificates were made, or `failed` is set */
    unsigned prepared, playing; /* lock: players */
    int64_t begin_ns;           /* lock; 0: not yet, -1: never */
};

static atomic_int stop_asked; /* any thread's signal handler sets it */

static void ask_to_stop(void) {
    atomic_fetch_add(&stop_asked, 1);
}

/* DIR/NAMESUFFIX in a buffer of PATH_BYTES; what does not fit was refused at the start. */
static void path_of(const fleet *f, char *out, const char *folder, const char *name, const char *suffix) {
    snprintf(out, PATH_BYTES, "%s/%s/%s%s", f->o->dir, folder, name, suffix);
}

static void log_host(fleet *f, const char *name, const char *what, const ea_err *err) {
    unsigned n = atomic_fetch_add(&f->trouble_count, 1);
    if (n < TROUBLE_LINES)
        fprintf(stderr, "tracegen fleet: %s: %s%s\n", name, what, err->message);
    else if (n == TROUBLE_LINES)
        fprintf(stderr, "tracegen fleet: more of that is not printed\n");
}

/* ---- callbacks: the sender's thread ---- */

static void on_known(void *arg, const uint8_t *stream, const ea_class_hash *hash) {
    ea_pipeline_known(((host *)arg)->pipeline, stream, hash->bytes);
}

static void on_unknown(void *arg, const uint8_t *stream, const ea_hash_ref *ref) {
    ea_pipeline_unknown(((host *)arg)->pipeline, stream, ref);
}

static void on_error(void *arg, const ea_err *err) {
    host *h = arg;
    if (err->code)
        log_host(h->fleet, h->name, "trying again: ", err);
}

static void on_refused(void *arg, const ea_spool_item *item, const ea_refusal *refusal) {
    host *h = arg;
    ea_err err;
    (void)ea_fail(&err, EA_EREFUSED, "batch %" PRIu64 " was refused: %s", item->number, refusal->text);
    log_host(h->fleet, h->name, "", &err);
}

/* ---- a machine: its player's thread ---- */

static int open_chain(host *h, const char *trace, ea_err *err) {
    const fleet *f = h->fleet;
    char path[PATH_BYTES], cert[PATH_BYTES], key[PATH_BYTES], ca[PATH_BYTES];
    int rc = ea_source_open_files(&h->source, &trace, 1, 0, &(ea_etl_options){.counters = &h->counters}, err);
    if (!rc)
        rc = ea_ledger_create(&h->ledger, &h->counters, err);
    path_of(f, path, h->name, "spool", "");
    if (!rc)
        rc = ea_spool_open(
            &h->spool, path,
            &(ea_spool_options){.limit_bytes = SPOOL_BYTES, .sync = EA_SPOOL_SYNC_NEVER, .counters = &h->counters},
            err);
    if (!rc)
        rc = ea_random_bytes(h->stream, sizeof h->stream, err);
    if (!rc)
        rc = ea_spool_stream(h->spool, h->stream, 0, 0, h->ledger, err);
    if (!rc)
        rc = ea_pipeline_create(&h->pipeline,
                                &(ea_pipeline_options){.stream = h->stream,
                                                       .batch_events = (uint32_t)f->o->batch_events,
                                                       .batch_bytes = BATCH_BYTES,
                                                       .priority = 1,
                                                       .encoders = 1,
                                                       .sources = ea_source_row(h->source, 0),
                                                       .source_count = 1,
                                                       .spool = h->spool,
                                                       .ledger = h->ledger},
                                err);
    path_of(f, cert, "certs", h->name, ".crt");
    path_of(f, key, "certs", h->name, ".key");
    snprintf(ca, sizeof ca, "%s/ca.crt", f->o->ca_dir);
    if (!rc)
        rc = ea_sender_start(&h->sender, h->spool,
                             &(ea_sender_options){.collectors = &f->o->collector,
                                                  .collector_count = 1,
                                                  .cert = cert,
                                                  .key = key,
                                                  .ca = ca,
                                                  .give_up_ns = 300 * SECOND_NS,
                                                  .counters = &h->counters,
                                                  .arg = h,
                                                  .on_known = on_known,
                                                  .on_unknown = on_unknown,
                                                  .on_refused = on_refused,
                                                  .on_error = on_error},
                             err);
    return rc;
}

/* The next record, or that there is none. */
static int advance(host *h, ea_err *err) {
    int rc = ea_source_next(h->source, &h->next, err);
    if (rc == 0)
        h->next = NULL;
    return rc < 0 ? rc : 0;
}

static int make_trace(host *h, ea_err *err) {
    const fleet *f = h->fleet;
    char folder[PATH_BYTES], trace[PATH_BYTES], truth[PATH_BYTES];
    tg_made made;
    path_of(f, folder, h->name, "", "");
    path_of(f, trace, h->name, "trace.etl", "");
    path_of(f, truth, "truth", h->name, ".jsonl");
    int rc = ea_path_make_dirs(folder, err);
    if (!rc)
        rc = tg_make(&(tg_make_options){.scenario = f->scenario,
                                        .preset = f->o->preset,
                                        .seed = h->seed,
                                        .compress = 1,
                                        .start_filetime = f->start_filetime,
                                        .out = trace,
                                        .truth = truth},
                     &made, err);
    if (!rc)
        h->trace_events = made.events;
    return rc;
}

static int open_machine(host *h, ea_err *err) {
    char trace[PATH_BYTES];
    path_of(h->fleet, trace, h->name, "trace.etl", "");
    int rc = open_chain(h, trace, err);
    return rc ? rc : advance(h, err);
}

/* Plays what is due now. At the end, which is that of the trace or of the time, it stops only where the next event has
 * another time than the last, so that the truth can be cut at that time. */
static int play(host *h, int64_t now, int is_over, int64_t *late_ns, ea_err *err) {
    uint64_t rate = h->fleet->o->rate;
    int64_t since = now - h->begin_ns;
    if (since < 0 && !is_over)
        return 0;
    uint64_t due = since < 0 ? 0 : (uint64_t)((double)since / 1e9 * (double)rate) + 1;
    if (due > h->played) {
        int64_t late = since - (int64_t)((double)h->played / (double)rate * 1e9);
        if (late > *late_ns && !is_over)
            *late_ns = late;
    }
    for (unsigned n = 0; h->next && n < CHUNK_EVENTS; n++) {
        if (is_over ? h->played && h->next->time_raw > h->last_raw : h->played >= due)
            break;
        h->last_raw = h->next->time_raw;
        int rc = ea_pipeline_add(h->pipeline, h->next, err);
        if (!rc)
            rc = advance(h, err);
        if (rc)
            return rc;
        h->played++;
    }
    if (h->next && !is_over)
        return 0;
    h->is_played = 1;
    int rc = ea_pipeline_finish(h->pipeline, err);
    if (rc)
        return rc;
    ea_spool_stream_end(h->spool, h->stream, 1);
    ea_sender_drain(h->sender);
    return 0;
}

static void fail_host(host *h, int rc, const ea_err *err) {
    h->rc = rc;
    h->err = *err;
    h->is_played = 1;
    log_host(h->fleet, h->name, "", err);
    if (h->spool)
        ea_spool_cancel(h->spool, NULL);
    if (h->sender)
        ea_sender_stop(h->sender);
}

/* Waits for the sender, checks the ledger, and releases all resources of the machine. */
static void close_host(host *h) {
    ea_err err;
    ea_counters c;
    ea_ledger_families families;
    if (h->sender) {
        while (!ea_sender_wait(h->sender, SECOND_NS))
            if (stop_asked > 1) /* a second stop request: do not wait */
                ea_sender_stop(h->sender);
        int rc = ea_sender_result(h->sender, &err);
        if (rc && !h->rc)
            fail_host(h, rc, &err);
        ea_sender_get_status(h->sender, &h->s);
        ea_ledger_snapshot(h->ledger, &c, &families);
        ea_pipeline_get_status(h->pipeline, &h->p);
        h->balanced = ea_ledger_check(&c, &families, &err) == 0;
        if (!h->balanced)
            log_host(h->fleet, h->name, "", &err);
        h->complete = !h->rc && h->balanced && ea_counter_get(&c, EA_COUNT_events_acknowledged) == h->played &&
                      ea_counter_get(&c, EA_COUNT_events_delivered) == h->played;
    }
    ea_sender_destroy(h->sender);
    ea_pipeline_destroy(h->pipeline);
    if (h->spool && ea_spool_close(h->spool, &err) && !h->rc) {
        h->rc = err.code;
        h->err = err;
        h->complete = 0;
    }
    ea_ledger_destroy(h->ledger);
    ea_source_close(h->source);
    if (!h->fleet->o->keep) {
        char trace[PATH_BYTES];
        path_of(h->fleet, trace, h->name, "trace.etl", "");
        (void)!ea_path_remove(trace, &err);
    }
}

/* ---- a player ---- */

static int64_t wait_for_begin(player *p) {
    fleet *f = p->fleet;
    ea_mutex_lock(f->lock);
    f->prepared++;
    ea_cond_broadcast(f->changed);
    while (!f->begin_ns)
        ea_cond_wait(f->changed, f->lock);
    int64_t begin = f->begin_ns;
    ea_mutex_unlock(f->lock);
    return begin;
}

static void wait_for_certificates(fleet *f) {
    ea_mutex_lock(f->lock);
    while (!f->certified)
        ea_cond_wait(f->changed, f->lock);
    ea_mutex_unlock(f->lock);
}

/* Runs one step for each of the player's machines. When a step fails, no player begins. */
static void prepare(player *p, int (*step)(host *h, ea_err *err)) {
    fleet *f = p->fleet;
    ea_err err;
    for (size_t i = p->number; i < f->host_count && !stop_asked && !atomic_load(&f->failed); i += f->player_count) {
        int rc = step(&f->hosts[i], &err);
        if (rc) {
            fail_host(&f->hosts[i], rc, &err);
            atomic_store(&f->failed, 1);
        }
    }
}

static void player_main(void *arg) {
    player *p = arg;
    fleet *f = p->fleet;
    const size_t step = f->player_count;
    ea_err err;
    prepare(p, make_trace);
    wait_for_certificates(f);
    prepare(p, open_machine);
    int64_t begin = wait_for_begin(p);
    /* the batches of the machines must not become due at the same moment */
    const int64_t spread = (int64_t)((double)f->o->batch_events / (double)f->o->rate * 1e9);
    for (size_t i = p->number; i < f->host_count; i += step)
        f->hosts[i].begin_ns = begin + (int64_t)((double)spread * (double)i / (double)f->host_count);
    for (size_t left = begin > 0; left;) {
        int64_t now = ea_monotonic_ns();
        int over = stop_asked || now - begin >= (int64_t)f->o->seconds * SECOND_NS;
        left = 0;
        for (size_t i = p->number; i < f->host_count; i += step) {
            host *h = &f->hosts[i];
            int rc = h->is_played ? 0 : play(h, ea_monotonic_ns(), over, &p->late_ns, &err);
            if (rc)
                fail_host(h, rc, &err);
            left += !h->is_played;
        }
        int64_t rest = TURN_NS - (ea_monotonic_ns() - now);
        if (left && rest > 0)
            ea_sleep_ns(rest);
    }
    ea_mutex_lock(f->lock);
    f->playing--;
    ea_cond_broadcast(f->changed);
    ea_mutex_unlock(f->lock);
    for (size_t i = p->number; i < f->host_count; i += step) {
        host *h = &f->hosts[i];
        if (begin < 0 && h->sender)
            ea_sender_stop(h->sender);
        close_host(h);
    }
}

/* ---- before and after ---- */

/* A certificate for each machine that has none yet. The CA must be there: the collector's own certificate is of it. */
static int issue_certificates(fleet *f, ea_err *err) {
    char folder[PATH_BYTES];
    size_t count = 0;
    ec_ca_request *requests = calloc(f->host_count, sizeof *requests);
    int rc = requests ? 0 : ea_fail(err, EA_ENOMEM, "issue certificates");
    path_of(f, folder, "certs", "", "");
    if (!rc)
        rc = ea_path_make_dirs(folder, err);
    for (size_t i = 0; !rc && i < f->host_count; i++) {
        char cert[PATH_BYTES];
        path_of(f, cert, "certs", f->hosts[i].name, ".crt");
        if (!ea_path_exists(cert))
            requests[count++] = (ec_ca_request){.name = f->hosts[i].name, .days = CERTIFICATE_DAYS, .out_dir = folder};
    }
    if (!rc)
        rc = ec_ca_issue(f->o->ca_dir, requests, count, NULL, err);
    free(requests);
    return rc;
}

/* DIR/fleet.jsonl: what was played of each machine. */
static int write_list(const fleet *f, ea_err *err) {
    ea_text t;
    char path[PATH_BYTES];
    ea_text_init(&t);
    for (size_t i = 0; i < f->host_count; i++) {
        const host *h = &f->hosts[i];
        ea_text_str(&t, "{\"host\":");
        ea_text_json_str(&t, h->name);
        ea_text_printf(&t, ",\"seed\":%" PRIu64 ",\"stream\":\"", h->seed);
        ea_text_hex(&t, h->stream, sizeof h->stream);
        ea_text_printf(&t,
                       "\",\"events\":%" PRIu64 ",\"trace_events\":%" PRIu64 ",\"last_raw\":%" PRId64
                       ",\"complete\":%s,\"error\":",
                       h->played, h->trace_events, h->last_raw, h->complete ? "true" : "false");
        ea_text_json_str(&t, h->rc ? h->err.message : NULL);
        ea_text_str(&t, "}\n");
    }
    snprintf(path, sizeof path, "%s/fleet.jsonl", f->o->dir);
    int rc =
        t.failed ? ea_fail(err, EA_ENOMEM, "write %s", path) : ea_path_write_all(path, t.data, t.len_bytes, 0, err);
    ea_text_deinit(&t);
    return rc;
}

typedef struct times {
    int64_t start_ns, certified_ns, prepared_ns, played_ns, end_ns;
} times;

static int summarise(const fleet *f, const times *t, ea_err *err) {
    uint64_t events = 0, batches = 0, bytes = 0, requests = 0, failures = 0, ended = 0;
    size_t complete = 0;
    int64_t late = 0;
    for (size_t i = 0; i < f->host_count; i++) {
        const host *h = &f->hosts[i];
        events += h->played;
        batches += h->p.batches;
        bytes += h->p.encoded_bytes;
        requests += h->s.requests;
        failures += h->s.failures;
        ended += h->played == h->trace_events;
        complete += (size_t)h->complete;
    }
    for (unsigned i = 0; i < f->player_count; i++)
        late = f->players[i].late_ns > late ? f->players[i].late_ns : late;
    double certify = (double)(t->certified_ns - t->start_ns) / 1e9,
           prepare_s = (double)(t->prepared_ns - t->start_ns) / 1e9,
           play_s = (double)(t->played_ns - t->prepared_ns) / 1e9, drain = (double)(t->end_ns - t->played_ns) / 1e9;
    double rate = play_s > 0 ? (double)events / play_s : 0;
    if (f->o->json)
        printf("{\"machines\": %zu, \"complete\": %zu, \"events\": %" PRIu64 ", \"batches\": %" PRIu64
               ", \"batch_bytes\": %" PRIu64 ", \"requests\": %" PRIu64 ", \"failures\": %" PRIu64
               ", \"played_to_the_end\": %" PRIu64 ", \"certificate_seconds\": %.3f, \"prepare_seconds\": %.3f, "
               "\"play_seconds\": %.3f, \"drain_seconds\": %.3f, \"events_per_second\": %.0f, \"latest_ms\": %.0f}\n",
               f->host_count, complete, events, batches, bytes, requests, failures, ended, certify, prepare_s, play_s,
               drain, rate, (double)late / 1e6);
    else
        printf("%zu machines, %zu with every event acknowledged and a ledger that balances\n"
               "%" PRIu64 " events in %" PRIu64 " batches, %" PRIu64 " bytes; %" PRIu64 " requests, %" PRIu64
               " failures\n"
               "%.1f s until all was ready (%.1f s for certificates beside the traces), %.1f s of play (%.0f events/s; "
               "the latest event %.0f ms "
               "after its time), %.1f s until the last answer\n",
               f->host_count, complete, events, batches, bytes, requests, failures, prepare_s, certify, play_s, rate,
               (double)late / 1e6, drain);
    return complete == f->host_count ? 0
                                     : ea_fail(err, EA_EREFUSED, "%zu of %zu machines are not complete",
                                               f->host_count - complete, f->host_count);
}

static int play_all(fleet *f, times *t, ea_err *err) {
    int rc = 0;
    unsigned started = 0;
    f->playing = f->player_count;
    for (; !rc && started < f->player_count; started += !rc) {
        player *p = &f->players[started];
        *p = (player){.fleet = f, .number = started};
        rc = ea_thread_start(&p->thread, "player", player_main, p, err);
    }
    if (!rc)
        rc = issue_certificates(f, err);
    if (rc)
        atomic_store(&f->failed, 1);
    t->certified_ns = ea_monotonic_ns();
    ea_mutex_lock(f->lock);
    f->certified = 1;
    ea_cond_broadcast(f->changed);
    while (f->prepared < started)
        ea_cond_wait(f->changed, f->lock);
    t->prepared_ns = ea_monotonic_ns();
    f->begin_ns = atomic_load(&f->failed) || stop_asked ? -1 : t->prepared_ns;
    ea_cond_broadcast(f->changed);
    while (f->playing > f->player_count - started)
        ea_cond_wait(f->changed, f->lock);
    t->played_ns = ea_monotonic_ns();
    ea_mutex_unlock(f->lock);
    for (unsigned i = 0; i < started; i++)
        ea_thread_join(f->players[i].thread);
    t->end_ns = ea_monotonic_ns();
    return rc;
}

static int check(const options *o, uint64_t count, ea_err *err) {
    if (count < 1 || count > HOSTS_MAX)
        return ea_fail(err, EA_EUSAGE, "fleet of %" PRIu64 " machines: expected 1 to %d", count, HOSTS_MAX);
    if (o->rate < 1 || o->rate > 10000000 || o->seconds < 1 || o->seconds > 1000000)
        return ea_fail(err, EA_EUSAGE, "--rate and --seconds: expected 1 to 10000000 and 1 to 1000000");
    if (o->players < 1 || o->players > PLAYERS_MAX)
        return ea_fail(err, EA_EUSAGE, "--players %" PRIu64 ": expected 1 to %d", o->players, PLAYERS_MAX);
    if (o->trace_seconds > TG_DURATION_MAX_MS / 1000)
        return ea_fail(err, EA_EUSAGE, "--trace-seconds: too long");
    if (o->batch_events > 16384)
        return ea_fail(err, EA_EUSAGE, "--batch-events %" PRIu64 ": expected 16384 at most", o->batch_events);
    if (strlen(o->dir) > PATH_BYTES / 2 || strlen(o->ca_dir) > PATH_BYTES / 2)
        return ea_fail(err, EA_EUSAGE, "--dir, --ca-dir: the path is too long");
    return 0;
}

static int fleet_run(fleet *f, ea_err *err) {
    times t = {.start_ns = ea_monotonic_ns()};
    char truth[PATH_BYTES];
    f->start_filetime = ea_utc_ns_to_filetime(ea_utc_ns());
    f->hosts = calloc(f->host_count, sizeof *f->hosts);
    int rc = f->hosts ? 0 : ea_fail(err, EA_ENOMEM, "make a fleet");
    for (size_t i = 0; !rc && i < f->host_count; i++) {
        f->hosts[i].fleet = f;
        f->hosts[i].seed = f->o->seed + i;
        snprintf(f->hosts[i].name, NAME_BYTES, "fleet-%05zu", i + 1);
    }
    path_of(f, truth, "truth", "", "");
    if (!rc)
        rc = ea_path_make_dirs(truth, err);
    if (!rc)
        rc = tg_scenario_read(&f->scenario, f->o->preset, err);
    if (!rc && f->o->trace_seconds)
        f->scenario->duration_ms = (uint32_t)f->o->trace_seconds * 1000;
    if (!rc)
        rc = ea_mutex_create(&f->lock, err);
    if (!rc)
        rc = ea_cond_create(&f->changed, err);
    if (!rc)
        rc = play_all(f, &t, err);
    if (!rc)
        rc = write_list(f, err);
    if (!rc)
        rc = summarise(f, &t, err);
    ea_cond_destroy(f->changed);
    ea_mutex_destroy(f->lock);
    tg_scenario_destroy(f->scenario);
    free(f->hosts);
    return rc;
}

static int run(const void *opts, int operand_count, char **operands) {
    options o = *(const options *)opts;
    fleet f = {.o = &o};
    ea_err err;
    char *end;
    (void)operand_count;
    uint64_t count = strtoull(operands[0], &end, 10);
    if (!o.batch_events)
        o.batch_events = o.rate < 16384 ? o.rate : 16384;
    ea_on_stop(ask_to_stop);
    int rc =
        *end ? ea_fail(&err, EA_EUSAGE, "'%s': expected a number of machines", operands[0]) : check(&o, count, &err);
    if (!rc) {
        f.host_count = (size_t)count;
        f.player_count = (unsigned)(o.players < count ? o.players : count);
        rc = fleet_run(&f, &err);
    }
    if (rc)
        ea_err_print(stderr, "tracegen fleet", &err);
    return ea_exit_code(rc);
}

#define AT(field) offsetof(options, field)
static const ea_option OPTIONS[] = {
    {.name = "collector",
     .letter = 'c',
     .argument = "URL",
     .type = EA_OPT_STRING,
     .offset = AT(collector),
     .required = 1,
     .help = "https://HOST:PORT of the collector"},
    {.name = "ca-dir",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = AT(ca_dir),
     .required = 1,
     .help = "the CA's folder (etwcollector ca init): the machines' certificates are of it, and the collector's too"},
    {.name = "dir",
     .letter = 'd',
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = AT(dir),
     .required = 1,
     .help = "where all that belongs to the machines goes"},
    {.name = "rate",
     .letter = 'r',
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = AT(rate),
     .fallback = "100",
     .help = "events a second of each machine"},
    {.name = "seconds",
     .letter = 's',
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = AT(seconds),
     .fallback = "60",
     .help = "how long to play"},
    {.name = "batch-events",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = AT(batch_events),
     .fallback = "0",
     .help = "events in a batch; 0: those of a second"},
    {.name = "preset",
     .letter = 'p',
     .argument = "NAME",
     .type = EA_OPT_STRING,
     .offset = AT(preset),
     .fallback = "desk",
     .help = "the machines' scenario"},
    {.name = "trace-seconds",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = AT(trace_seconds),
     .fallback = "0",
     .help = "length of each machine's trace in its own time; 0: the preset's"},
    {.name = "seed",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = AT(seed),
     .fallback = "1",
     .help = "the first machine's; each other has the next one"},
    {.name = "players",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = AT(players),
     .fallback = "2",
     .help = "threads that play the machines"},
    {.name = "keep", .type = EA_OPT_FLAG, .offset = AT(keep), .help = "keep the traces"},
    {.name = "json", .type = EA_OPT_FLAG, .offset = AT(json), .help = "print the summary as one JSON object"},
    {.name = NULL},
};

const ea_command tg_fleet_command = {
    .name = "fleet",
    .operands = "N",
    .summary = "Plays N machines against a collector",
    .details =
        "Makes a trace for each machine (seeds in a row) and plays it at the given rate, evenly, whatever the times "
        "in\n"
        "it, each over a connection of its own with a certificate of its own, through the agent's own chain. It ends\n"
        "after --seconds, or when all traces are played, and when every batch is answered. Each machine's clock says\n"
        "that its trace began when the fleet was started.\n\n"
        "DIR/truth/NAME.jsonl   what is true of a machine, as 'make --truth' writes it\n"
        "DIR/fleet.jsonl        a line a machine: host, seed, stream, events (played), trace_events (all that there\n"
        "                       are), last_raw (time of the last event played: the truth holds up to there),\n"
        "                       complete, error\n"
        "DIR/certs, DIR/NAME    certificates; the spools, and while it runs the traces\n\n"
        "A machine takes about 2 MB of memory, two threads and ten file descriptors: see 'ulimit -n'.\n"
        "Exit code 0: every event of every machine is acknowledged, and every ledger balances.\n\n"
        "  etwcollector ca init --dir ca\n"
        "  etwcollector ca issue --dir ca --server --name localhost\n"
        "  etwcollector run --store store --listen 127.0.0.1:8443 --cert ca/localhost.crt --key ca/localhost.key \\\n"
        "      --ca ca/ca.crt --crl ca/ca.crl\n"
        "  tracegen fleet 1000 --collector https://localhost:8443 --ca-dir ca --dir fleet --rate 100 --seconds 60",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = run,
    .min_operands = 1,
    .max_operands = 1,
};
