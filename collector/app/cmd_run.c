/* etwcollector run: the daemon. Receives batches, stores them, keeps every machine's history, until it is asked to
 * stop. Called by: main.c. Calls: collector/ingest, collector/store, collector/state. Thread: the main one; it starts
 * all others. */
#include "collector/app/collector_commands.h"
#include "collector/app/confine_run.h"
#include "collector/app/quota_options.h"
#include "collector/app/run_calls.h"
#include "collector/app/run_sinks.h"
#include "collector/app/symbol_options.h"
#include "collector/detect/detector.h"
#include "collector/enroll/enroll_server.h"
#include "collector/ingest/ingest.h"
#include "collector/metrics/metrics.h"
#include "collector/net/descriptors.h"
#include "collector/net/log.h"
#include "collector/net/tls.h"
#include "collector/query/files/archiver.h"
#include "collector/sandbox/broker.h"
#include "collector/sandbox/sandbox.h"
#include "collector/state/forget.h"
#include "collector/state/requests.h"
#include "collector/state/state_worker.h"
#include "collector/state/watch.h"
#include "collector/store/private.h"
#include "collector/store/sqlite_memory.h"
#include "collector/web/web.h"
#include "config/config.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "proto/wire/request_key.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *config, *store, *listen, *cert, *key, *ca, *crl, *port_file, *web, *web_cert, *web_key, *request_key,
        *enroll, *ca_dir, *rules, *archive;
    uint64_t state_streams, state_bytes, state_names, state_operations;
    uint64_t threads, max_body, max_waiting, max_connections, max_agent_connections, segment_bytes;
    uint64_t max_handshakes, max_address_handshakes, address_handshake_rate, max_address_connections,
        max_web_connections, max_web_address_connections, min_rate;
    uint64_t retain_bytes, cpu_percent, agent_streams, agent_classes, agent_tombstones, agent_definition_bytes;
    uint64_t audit_bytes, audit_refusals;
    int audit_syslog;
    uint64_t web_questions, web_memory, web_memory_all, web_temp;
    int64_t web_unread, web_tail;
    int64_t handshake_timeout, head_timeout, request_timeout, idle_timeout, hole_wait, silent_after, retain_age,
        retain_min_age, retain_interval;
    int web_tokens;
    ec_quota_amounts quotas;
    ec_symbol_options symbols;
    ea_tables sinks;
    int verify; /* index into VERIFY_CHOICES */
} options;

static const char *const VERIFY_CHOICES[] = {"on", "off", NULL};

enum { AGENT_SHARES = 8 /* of the memory for uploads */, VARIABLES_MAX = 16 };

static const int64_t LOOK_NS = INT64_C(2000000000), CRL_LOOK_NS = INT64_C(10000000000),
                     RENEWED_TWICE_LASTS_NS = INT64_C(3600000000000);

static atomic_int stop_asked, reload_asked; /* any thread's signal handler sets them, and then the wake */
static ea_wake *asked;

static void on_reload(void) {
    atomic_store(&reload_asked, 1);
    ea_wake_set(asked);
}

static const ea_option OPTIONS[];
static const ea_table TABLE = {.rows = OPTIONS, .size = sizeof(options)};

static int run_check(const options *o, ea_err *err) {
    if ((o->web_cert != NULL) != (o->web_key != NULL))
        return ea_fail(err, EA_EUSAGE, "--web-cert and --web-key: both or none");
    if (o->enroll && !o->ca_dir)
        return ea_fail(err, EA_EUSAGE, "--enroll: needs --ca-dir");
    if (o->request_key && !o->web_tokens)
        return ea_fail(err, EA_EUSAGE, "--request-key: only with --web-tokens");
    if (o->web_memory_all < o->web_memory)
        return ea_fail(err, EA_EUSAGE, "--web-memory-all: at least --web-memory");
    if (o->max_waiting < o->max_body)
        return ea_fail(err, EA_EUSAGE, "--max-waiting: at least --max-body");
    return ec_run_sinks_check(&o->sinks, err);
}

/* One line for scripts and people that wait for the daemon; the port's file last, once all is ready. */
static int announce(const options *o, ec_broker *broker, uint16_t port, ea_err *err) {
    size_t host = (size_t)(strrchr(o->listen, ':') - o->listen);
    printf("listening on %.*s:%u\n", (int)host, o->listen, port);
    fflush(stdout);
    if (!o->port_file)
        return 0;
    char text[8];
    int n = snprintf(text, sizeof text, "%u\n", port);
    return ec_broker_write(broker, text, (size_t)n, err);
}

/* ---- the configuration file, read again ---- */

typedef struct reading {
    options values; /* of the file alone */
    void *config;   /* owns their texts */
} reading;

typedef struct reload {
    const options *given; /* command line and file together, at the start */
    reading first, last;  /* the file at the start, and as it was read last */
    ec_retention retention;
    ec_broker *broker;
    ec_log *log;
    const reading *next;
    const char *name;
    int found;
} reload;

static int read_config(ec_broker *broker, const char *path, reading *ret, ea_err *err) {
    char *text = NULL;
    size_t len_bytes = 0;
    *ret = (reading){.config = NULL};
    int rc = ea_option_fallbacks(OPTIONS, &ret->values, err);
    if (!rc)
        rc = ec_broker_read(broker, path, EA_CONFIG_MAX_BYTES, &text, &len_bytes, err);
    if (!rc)
        rc = ea_config_parse_of_command(&ret->config, path, text, len_bytes, OPTIONS, &ret->values, err);
    free(text);
    return rc;
}

static void close_config(reading *r) {
    if (r->config)
        ea_config_of_command.destroy(r->config);
    r->config = NULL;
}

static void find_name(void *arg, const char *name) {
    reload *r = arg;
    if (strcmp(name, r->name) == 0)
        r->found = 1;
}

static void on_change(void *arg, const char *name) {
    reload *r = arg;
    r->name = name;
    r->found = 0;
    ea_config_compare(&TABLE, &r->first.values, r->given, find_name, r);
    if (r->found) /* what the command line says wins */
        return;
    if (strcmp(name, "retain-age") == 0)
        r->retention.age_ns = r->next->values.retain_age;
    else if (strcmp(name, "retain-size") == 0)
        r->retention.bytes = r->next->values.retain_bytes;
    else if (strcmp(name, "retain-min-age") == 0)
        r->retention.min_age_ns = r->next->values.retain_min_age;
    else
        ec_log_line(r->log, "%s has changed in %s: that needs a restart", name, r->given->config);
}

static ec_retention retention_of(const options *o) {
    return (ec_retention){.age_ns = o->retain_age, .bytes = o->retain_bytes, .min_age_ns = o->retain_min_age};
}

static int reload_open(reload *r, const options *o, ec_broker *broker, ec_log *log, ea_err *err) {
    *r = (reload){.given = o, .broker = broker, .log = log, .retention = retention_of(o)};
    if (!o->config)
        return 0;
    int rc = read_config(broker, o->config, &r->first, err);
    return rc ? rc : read_config(broker, o->config, &r->last, err);
}

static void reload_close(reload *r) {
    close_config(&r->first);
    close_config(&r->last);
}

/* Applies the options that can change at run time; other changed options are logged. */
static void reload_now(reload *r, ec_ingest *ingest) {
    ea_err err = {0};
    reading next;
    if (!r->given->config)
        return;
    if (read_config(r->broker, r->given->config, &next, &err)) {
        ec_log_line(r->log, "the configuration stays as it was: %s", err.message);
        close_config(&next);
        return;
    }
    r->next = &next;
    ea_config_compare(&TABLE, &r->last.values, &next.values, on_change, r);
    ec_ingest_set_retention(ingest, &r->retention);
    close_config(&r->last);
    r->last = next;
    ec_log_line(r->log, "read %s again", r->given->config);
}

/* ---- listeners ---- */

/* The bounds and deadlines of each listener's connections. */
typedef struct all_limits {
    ec_guard_limits agents, people; /* people: the dashboard and enrolment, each */
} all_limits;

static all_limits read_limits(const options *o, ec_log *log) {
    uint32_t agents = (uint32_t)o->max_connections, people = (uint32_t)o->max_web_connections;
    ec_descriptors_share shares[] = {
        {.option = "max-connections", .connections = &agents, .listeners = 1},
        {.option = "max-web-connections",
         .connections = &people,
         .listeners = (unsigned)(o->web != NULL) + (unsigned)(o->enroll != NULL)},
    };
    ec_descriptors_divide(ec_descriptors_raise(), shares, sizeof shares / sizeof *shares, log);
    ec_guard_limits limits = {.connections = agents,
                              .address_connections = (uint32_t)o->max_address_connections,
                              .handshakes = (uint32_t)o->max_handshakes,
                              .address_handshakes = (uint32_t)o->max_address_handshakes,
                              .address_handshake_rate = (uint32_t)o->address_handshake_rate,
                              .handshake_ns = o->handshake_timeout,
                              .head_ns = o->head_timeout,
                              .body_ns = o->request_timeout,
                              .rate_bytes = o->min_rate,
                              .idle_ns = o->idle_timeout};
    all_limits all = {.agents = limits, .people = limits};
    all.people.connections = people;
    all.people.address_connections = (uint32_t)o->max_web_address_connections;
    return all;
}

/* No agent may take more than its share of the memory for uploads. */
static ec_quota_amounts read_quotas(const options *o) {
    ec_quota_amounts quotas = o->quotas;
    uint64_t *uploads = &quotas.of[EC_QUOTA_uploads], share = o->max_waiting / AGENT_SHARES;
    if (!*uploads || *uploads > share)
        *uploads = share;
    return quotas;
}

/* ---- people ---- */

typedef struct web_parts {
    ec_web *web;
    ec_symbols_options symbols;
    int has_symbols;
    ea_text symbol_folder;
    struct ec_tls *tls;
    ec_access *access;
    ec_audit *audit;
    ea_request_key *request_key;
} web_parts;

static void stop_web(web_parts *w) {
    ec_web_stop(w->web);
    ec_audit_close(w->audit);
    ec_access_close(w->access);
    ec_tls_destroy(w->tls);
    ea_request_key_destroy(w->request_key);
    ea_text_deinit(&w->symbol_folder);
}

/* Prepares the symbols that profiles are named with. A wrong path is reported at the start, not with each profile. */
static int prepare_symbols(web_parts *w, const options *o, ea_err *err) {
    ec_symbols *symbols = NULL;
    w->has_symbols = o->web && (o->symbols.path || o->symbols.cache || o->symbols.has_lines);
    if (!w->has_symbols)
        return 0;
    if (o->symbols.cache)
        ea_text_str(&w->symbol_folder, o->symbols.cache);
    else
        ea_text_printf(&w->symbol_folder, "%s/symbols", o->store);
    if (w->symbol_folder.failed)
        return ea_fail(err, EA_ENOMEM, "open symbols");
    w->symbols = (ec_symbols_options){
        .path = o->symbols.path ? o->symbols.path : "",
        .folder = w->symbol_folder.data,
        .has_lines = o->symbols.has_lines,
        .symbolizer = {.program = o->symbols.symbolizer, .limit_ns = o->symbols.limit_ns},
    };
    int rc = ec_symbols_open(&symbols, &w->symbols, err);
    ec_symbols_close(symbols);
    return rc;
}

static int open_audit(ec_audit **ret, const options *o, ea_counters *counters, ea_err *err) {
    return ec_audit_open(ret, o->store,
                         &(ec_audit_options){.max_bytes = o->audit_bytes,
                                             .refusals = o->audit_refusals,
                                             .to_syslog = o->audit_syslog,
                                             .counters = counters},
                         err);
}

static int start_web(web_parts *w, const options *o, const ec_guard_limits *limits, ea_counters *counters,
                     ec_quota *quota, ec_broker *broker, const ec_gauges *gauges, ec_log *log, ea_err *err) {
    ec_tls_options to = {.cert_path = o->web_cert ? o->web_cert : o->cert,
                         .key_path = o->web_key ? o->web_key : o->key,
                         .log = log,
                         .broker = broker};
    int rc = 0;
    if (o->web_tokens)
        rc = ec_tls_create(&w->tls, &to, err);
    if (!rc && o->web_tokens)
        rc = ec_access_open(&w->access, o->store, err);
    if (!rc && o->web_tokens)
        rc = open_audit(&w->audit, o, counters, err);
    ec_web_options wo = {.listen = o->web,
                         .store = o->store,
                         .counters = counters,
                         .tls = w->tls,
                         .access = w->access,
                         .audit = w->audit,
                         .request_key = w->request_key,
                         .quota = quota,
                         .gauges = gauges,
                         .log = log,
                         .broker = broker,
                         .limits = *limits,
                         .symbols = w->has_symbols ? &w->symbols : NULL,
                         .limit_bytes = o->web_memory,
                         .limit_temp_bytes = o->web_temp,
                         .limit_all_bytes = o->web_memory_all,
                         .questions_of_one = o->web_questions,
                         .unread_ns = o->web_unread,
                         .tail_ns = o->web_tail};
    if (!rc)
        rc = ec_web_start(&w->web, &wo, err);
    if (!rc)
        printf("dashboard on %s://%.*s:%u/\n", w->tls ? "https" : "http", (int)(strrchr(o->web, ':') - o->web), o->web,
               ec_web_port(w->web));
    if (!rc && !o->web_tokens)
        ec_log_line(log, "the dashboard has no tokens: every user and program of this machine can read all that is "
                         "stored; --web-tokens asks for one");
    return rc;
}

/* ---- enrolment ---- */

typedef struct enroll_parts {
    const char *crl; /* NULL: none */
    ea_text default_crl;
    ec_signer *signer;
    ec_watch *watch;
    ec_enroll *enroll;
    struct ec_tls *tls;
    ec_audit *audit; /* NULL: the dashboard's is used */
} enroll_parts;

static void stop_enroll(enroll_parts *e) {
    ec_enroll_stop(e->enroll);
    ec_signer_stop(e->signer);
    ec_audit_close(e->audit);
    ec_tls_destroy(e->tls);
    ea_text_deinit(&e->default_crl);
}

/* The revocation list in force: the CA's, when none is given. */
static int choose_crl(enroll_parts *e, const options *o, ec_log *log, ea_err *err) {
    e->crl = o->crl;
    if (!o->enroll) {
        if (!o->crl)
            ec_log_line(log, "--crl is not given: revoked certificates are accepted until they expire");
        return 0;
    }
    ea_text_printf(&e->default_crl, "%s/ca.crl", o->ca_dir);
    if (e->default_crl.failed)
        return ea_fail(err, EA_ENOMEM, "start the signer");
    if (!e->crl)
        e->crl = e->default_crl.data;
    return 0;
}

/* The variables that the signer or the sinks need, which the broker hands on to them, up to a NULL. */
static void list_variables(const options *o, const char **ret) {
    const char *const *const lists[] = {o->enroll ? ec_signer_variables : NULL,
                                        o->sinks.count ? ec_run_sinks_variables : NULL};
    size_t count = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        for (const char *const *v = lists[i]; v && *v && count < VARIABLES_MAX; v++)
            ret[count++] = *v;
    ret[count] = NULL;
}

/* Starts the broker: it opens files for this process once this process is confined, and starts the signer and the
 * sinks. */
static int start_broker(ec_broker **ret, const enroll_parts *e, const options *o, ea_err *err) {
    const char *const paths[] = {o->config, o->cert, o->key, o->ca, e->crl, o->web_cert, o->web_key};
    const char *variables[VARIABLES_MAX + 1];
    ec_broker_child children[1 + EC_RUN_SINKS_MAX];
    ec_broker_duties d = {
        .paths = paths, .path_count = sizeof paths / sizeof *paths, .written = o->port_file, .children = children};
    ea_text greeting, sinks;
    ea_text_init(&greeting);
    ea_text_init(&sinks);
    list_variables(o, variables);
    int rc = ec_broker_start(ret, variables, err);
    if (!rc && o->enroll) {
        rc = ec_signer_greeting(*ret, o->ca_dir, o->ca, &greeting, err);
        children[d.child_count++] = (ec_broker_child){.name = EC_SIGNER_NAME,
                                                      .variables = ec_signer_variables,
                                                      .greeting = greeting.data,
                                                      .greeting_bytes = greeting.len_bytes};
    }
    if (!rc)
        rc = ec_run_sinks_children(&o->sinks, o->store, *ret, &sinks, children + d.child_count, err);
    d.child_count += o->sinks.count;
    if (!rc)
        rc = ec_broker_settle(*ret, &d, err);
    ea_text_deinit(&greeting);
    ea_text_deinit(&sinks);
    return rc;
}

/* All that needs files which this process cannot open later; then it gives up that right. The signer starts before
 * anything listens; it makes the CA's revocation list when that is missing. */
static int run_confine(const options *o, ec_broker *broker, enroll_parts *e, web_parts *w, ec_gauges *gauges,
                       ea_counters *counters, ec_log *log, ea_err *err) {
    int ca_in_reach = 0;
    const ec_signer_options so = {.broker = broker, .counters = counters, .log = log};
    int rc = o->enroll ? ec_signer_start(&e->signer, &so, err) : 0;
    if (!rc)
        rc = ec_store_make_private(o->store, ec_run_on_store_note, log, err);
    if (!rc)
        rc = prepare_symbols(w, o, err);
    if (!rc && o->request_key)
        rc = ea_request_key_read(&w->request_key, o->request_key, err);
    if (!rc)
        rc = ec_run_confine(&(ec_run_confinement){.store = o->store,
                                                  .symbols = w->has_symbols ? &w->symbols : NULL,
                                                  .ca_dir = o->enroll ? o->ca_dir : NULL,
                                                  .archive = o->archive,
                                                  .rules = o->rules,
                                                  .log = log},
                            &ca_in_reach, err);
    atomic_store(&gauges->has_ca, o->enroll != NULL);
    atomic_store(&gauges->ca_in_reach, ca_in_reach);
    return rc;
}

static void on_renewed_twice(void *arg, const char *name, const char *text) {
    const enroll_parts *e = arg;
    char host[EC_AGENT_NAME_BYTES + 1];
    snprintf(host, sizeof host, "%s", name);
    ea_name_to_lower(host); /* as ingest calls the agent */
    ec_watch_raise(
        e->watch,
        &(ec_watch_report){.host = host, .kind = "renewed-twice", .text = text, .lasts_ns = RENEWED_TWICE_LASTS_NS});
}

/* When certificates end. A revocation list that its CA should have replaced is in force still, and an incident. */
static void look_at_ends(ec_ingest *ingest, ec_watch *watch, ec_gauges *gauges, int64_t *next_ns) {
    char text[160];
    if (ea_monotonic_ns() < *next_ns)
        return;
    *next_ns = ea_monotonic_ns() + CRL_LOOK_NS;
    const ec_crl_times times = ec_ingest_crl_times(ingest);
    int64_t late_s = ea_utc_ns() / INT64_C(1000000000) - times.end_s;
    atomic_store(&gauges->crl_made_s, times.made_s);
    atomic_store(&gauges->crl_end_s, times.end_s);
    const ec_tls_ends ends = ec_ingest_certificate_ends(ingest);
    atomic_store(&gauges->own_end_s, ends.own_s);
    atomic_store(&gauges->ca_end_s, ends.ca_s);
    atomic_store(&gauges->agent_end_s, ends.client_s);
    if (!times.end_s || late_s <= 0)
        return;
    snprintf(text, sizeof text,
             "the revocation list was to be replaced %" PRId64
             " s ago: certificates that were revoked since are accepted",
             late_s);
    ec_watch_raise(
        watch,
        &(ec_watch_report){.host = EC_WATCH_COLLECTOR, .kind = "crl-stale", .text = text, .lasts_ns = 3 * CRL_LOOK_NS});
}

/* audit: the dashboard's, NULL: it has none. */
static int start_enroll(enroll_parts *e, const options *o, ec_audit *audit, const ec_guard_limits *limits,
                        ea_counters *counters, ec_quota *quota, ec_broker *broker, ec_log *log, ea_err *err) {
    ec_tls_options to = {.cert_path = o->cert,
                         .key_path = o->key,
                         .ca_path = o->ca,
                         .client_optional = 1,
                         .crl_path = e->crl,
                         .broker = broker,
                         .log = log};
    int rc = ec_tls_create(&e->tls, &to, err);
    if (!rc && !audit)
        rc = open_audit(&e->audit, o, counters, err);
    ec_enroll_options eo = {.listen = o->enroll,
                            .signer = e->signer,
                            .tls = e->tls,
                            .audit = audit ? audit : e->audit,
                            .counters = counters,
                            .quota = quota,
                            .log = log,
                            .on_renewed_twice = on_renewed_twice,
                            .arg = e,
                            .limits = *limits};
    if (!rc)
        rc = ec_enroll_start(&e->enroll, &eo, err);
    if (!rc)
        printf("enrolment on https://%.*s:%u\n", (int)(strrchr(o->enroll, ':') - o->enroll), o->enroll,
               ec_enroll_port(e->enroll));
    return rc;
}

/* Certificates that were replaced, for connections from now on. */
static void renew_certificates(ec_ingest *ingest, const web_parts *w, const enroll_parts *e, ec_log *log) {
    ea_err err = {0};
    if (ec_ingest_renew(ingest, &err))
        ec_log_line(log, "the certificate for agents stays as it was: %s", err.message);
    if (w->tls && ec_tls_renew(w->tls, &err))
        ec_log_line(log, "the dashboard's certificate stays as it was: %s", err.message);
    if (e->tls && ec_tls_renew(e->tls, &err))
        ec_log_line(log, "the certificate for enrolments stays as it was: %s", err.message);
}

/* All that runs, in the order in which it is started; NULL: not yet. */
typedef struct serving {
    const options *o;
    ea_counters *counters;
    ec_quota *quota;
    ec_log *log;
    all_limits limits;
    ec_broker *broker;
    reload reloading;
    ec_store *store;
    ec_archiver *archiver; /* NULL: what retention deletes goes nowhere */
    ec_run_uses uses;
    ec_state_worker_worker *history;
    ec_watch *watch;
    ec_detector *detector; /* NULL: there are no rules */
    web_parts web;
    enroll_parts enroll;
    ec_requests *requests;
    ec_ingest *ingest;
    ec_run_sinks *sinks;
    ec_gauges gauges;
    int64_t crl_look_ns;
} serving;

static void serve_stop(serving *v) {
    ec_run_sinks_stop(v->sinks);
    ec_ingest_stop(v->ingest);
    ec_requests_close(v->requests);
    stop_enroll(&v->enroll);
    stop_web(&v->web);
    ec_detector_stop(v->detector);
    ec_watch_stop(v->watch);
    ec_state_worker_stop(v->history);
    ec_archiver_close(v->archiver);
    ec_store_close(v->store);
    reload_close(&v->reloading);
    ec_broker_stop(v->broker);
}

/* Opens what the confined process cannot open any more, confines it, and opens the store. */
static int serve_open(serving *v, ea_err *err) {
    const options *o = v->o;
    ec_store_options so = {.writable = 1,
                           .segment_bytes = o->segment_bytes,
                           .trusts_checksums = o->verify != 0,
                           .counters = v->counters,
                           .agent_streams = o->agent_streams,
                           .agent_classes = o->agent_classes,
                           .agent_tombstones = o->agent_tombstones,
                           .agent_definition_bytes = o->agent_definition_bytes};
    int rc = choose_crl(&v->enroll, o, v->log, err);
    if (!rc)
        rc = start_broker(&v->broker, &v->enroll, o, err);
    if (!rc)
        rc = reload_open(&v->reloading, o, v->broker, v->log, err);
    if (!rc)
        rc = run_confine(o, v->broker, &v->enroll, &v->web, &v->gauges, v->counters, v->log, err);
    if (!rc)
        rc = ec_store_open(&v->store, o->store, &so, err);
    if (!rc && o->archive)
        rc = ec_archiver_create(&v->archiver, o->store, o->archive, "etwcollector version " EA_VERSION, err);
    if (!rc && v->archiver)
        v->reloading.retention.archive = ec_archiver_hook(v->archiver);
    return rc;
}

/* Finishes what an earlier run left undone, and logs what it lost. */
static int serve_recover(serving *v, ea_err *err) {
    char forgotten[256];
    int rc = ec_forget_resume(v->store, forgotten, err);
    if (rc < 0)
        return rc;
    if (rc)
        ec_log_line(v->log, "the removal of host %s, which was interrupted, is finished", forgotten);
    uint64_t torn = ea_counter_get(v->counters, EA_COUNT_store_torn_bytes),
             damaged = ea_counter_get(v->counters, EA_COUNT_store_damaged_bytes);
    if (torn)
        ec_log_line(v->log, "%" PRIu64 " bytes of a torn tail were cut off; nothing of them was acknowledged", torn);
    if (damaged)
        ec_log_line(v->log, "%" PRIu64 " bytes of the store cannot be read any more", damaged);
    return 0;
}

static int serve_start_history(serving *v, ea_err *err) {
    const options *o = v->o;
    v->uses = (ec_run_uses){.log = v->log, .quota = v->quota};
    ec_state_worker_options ho = {.live_streams = (uint32_t)o->state_streams,
                                  .limit_state_bytes = (size_t)o->state_bytes,
                                  .limit_names = o->state_names,
                                  .limit_operations = o->state_operations,
                                  .hole_wait_ns = o->hole_wait,
                                  .cpu_percent = o->cpu_percent,
                                  .counters = v->counters,
                                  .on_note = ec_run_on_history_note,
                                  .on_used = ec_run_on_history_used,
                                  .arg = &v->uses};
    return ec_state_worker_start(&v->history, o->store, &ho, err);
}

static int on_poll(void *arg, const char *agent, const uint8_t *data, size_t len_bytes, ea_text *out, ea_err *err) {
    return ec_requests_poll(arg, agent, data, len_bytes, ea_utc_ns(), out, err);
}

static int serve_start_ingest(serving *v, ea_err *err) {
    const options *o = v->o;
    int rc = ec_requests_open(&v->requests, o->store, err);
    ec_ingest_options io = {.listen = o->listen,
                            .cert_path = o->cert,
                            .key_path = o->key,
                            .ca_path = o->ca,
                            .crl_path = v->enroll.crl,
                            .broker = v->broker,
                            .threads = (unsigned)o->threads,
                            .max_body_bytes = o->max_body,
                            .max_waiting_bytes = o->max_waiting,
                            .limits = v->limits.agents,
                            .max_agent_connections = (uint32_t)o->max_agent_connections,
                            .store = v->store,
                            .trusts_checksums = o->verify != 0,
                            .counters = v->counters,
                            .quota = v->quota,
                            .log = v->log,
                            .on_stored = ec_run_on_stored,
                            .on_space = ec_run_on_space,
                            .wants_keyframe = ec_run_wants_keyframe,
                            .on_stored_arg = v->history,
                            .poll = on_poll,
                            .poll_arg = v->requests,
                            .retention = v->reloading.retention,
                            .retain_every_ns = o->retain_interval,
                            .cpu_percent = o->cpu_percent};
    return rc ? rc : ec_ingest_start(&v->ingest, &io, err);
}

static int serve_start(serving *v, ea_err *err) {
    const options *o = v->o;
    ec_watch_options alarms = {.silent_ns = o->silent_after,
                               .on_note = ec_run_on_watch_note,
                               .arg = v->log,
                               .counters = v->counters,
                               .quota = v->quota};
    int rc = serve_start_history(v, err);
    if (!rc)
        rc = ec_watch_start(&v->watch, o->store, &alarms, err);
    if (!rc && o->rules)
        rc = ec_detector_start(&v->detector,
                               &(ec_detector_options){.store = o->store,
                                                      .rules = o->rules,
                                                      .counters = v->counters,
                                                      .on_used = ec_run_on_history_used,
                                                      .has_room = ec_run_has_processor,
                                                      .on_note = ec_run_on_rules_note,
                                                      .arg = &v->uses},
                               err);
    if (!rc && o->web)
        rc = start_web(&v->web, o, &v->limits.people, v->counters, v->quota, v->broker, &v->gauges, v->log, err);
    v->enroll.watch = v->watch;
    if (!rc && o->enroll)
        rc =
            start_enroll(&v->enroll, o, v->web.audit, &v->limits.people, v->counters, v->quota, v->broker, v->log, err);
    if (!rc)
        rc = serve_start_ingest(v, err);
    if (!rc && o->sinks.count)
        rc = ec_run_sinks_start(&v->sinks,
                                &(ec_run_sinks_options){.sinks = &o->sinks,
                                                        .broker = v->broker,
                                                        .first_child = o->enroll ? 1 : 0,
                                                        .counters = v->counters,
                                                        .log = v->log},
                                err);
    if (!rc)
        look_at_ends(v->ingest, v->watch, &v->gauges, &v->crl_look_ns);
    return rc ? rc : announce(o, v->broker, ec_ingest_port(v->ingest), err);
}

/* Until the process is asked to stop, or the broker has ended. */
static int serve_until_stopped(serving *v, ea_err *err) {
    int rc = 0;
    while (!rc && !atomic_load(&stop_asked)) {
        ea_wake_wait(asked, LOOK_NS);
        ec_audit_tick(v->web.audit);
        ec_audit_tick(v->enroll.audit);
        look_at_ends(v->ingest, v->watch, &v->gauges, &v->crl_look_ns);
        if (ec_broker_has_ended(v->broker))
            rc = ea_fail(err, EA_EIO, "the process %s, which opens files for this one, has ended: start it again",
                         EC_BROKER_NAME);
        ec_run_sinks_look(v->sinks);
        ec_log_renew(v->log);
        if (atomic_exchange(&reload_asked, 0)) {
            reload_now(&v->reloading, v->ingest);
            if (v->detector)
                ec_detector_reload(v->detector);
            renew_certificates(v->ingest, &v->web, &v->enroll, v->log);
        }
    }
    return rc;
}

static int run_serve(const options *o, ea_counters *counters, ec_quota *quota, ec_log *log, ea_err *err) {
    serving v = {.o = o, .counters = counters, .quota = quota, .log = log, .reloading.given = o};
    ea_text_init(&v.web.symbol_folder);
    ea_text_init(&v.enroll.default_crl);
    v.limits = read_limits(o, log);
    int rc = serve_open(&v, err);
    if (!rc)
        rc = serve_recover(&v, err);
    if (!rc)
        rc = serve_start(&v, err);
    if (!rc)
        rc = serve_until_stopped(&v, err);
    serve_stop(&v);
    return rc;
}

/* Which parts of the sandbox this kernel has, when it has not all of them. */
static void log_sandbox(ec_log *log) {
    ec_sandbox_support s;
    ea_text t;
    int count = 0;
    ec_sandbox_probe(&s);
    for (int i = 0; i < EC_SANDBOX_PART_COUNT; i++)
        count += s.has[i];
    if (count == EC_SANDBOX_PART_COUNT)
        return;
    ea_text_init(&t);
    ec_sandbox_describe(&s, &t);
    ec_log_line(log, "processes that read untrusted data are confined by %s", t.failed ? "?" : t.data);
    ea_text_deinit(&t);
}

static int run_command(const void *arg, int operand_count, char **operands) {
    const options *o = arg;
    ea_err err = {0};
    ea_counters counters = {0};
    ec_log *log = NULL;
    ec_quota *quota = NULL;
    (void)operand_count, (void)operands;
    int rc = ea_wake_create(&asked, &err); /* requests come until the process ends */
    ea_stop_flag_use(&stop_asked, asked);
    ea_on_reload(on_reload);
    ec_quota_amounts quotas = read_quotas(o);
    if (!rc)
        rc = run_check(o, &err);
    if (!rc)
        rc = ec_sqlite_memory_start(&err);
    if (!rc)
        rc = ec_log_create(&log, stderr, 0, &counters, &err);
    ec_libevent_log(log);
    if (!rc)
        log_sandbox(log);
    if (!rc)
        rc = ec_quota_create(&quota, &quotas, 0, &counters, &err);
    if (!rc)
        rc = run_serve(o, &counters, quota, log, &err);
    ec_libevent_log(NULL);
    if (rc)
        ea_err_print(stderr, "etwcollector", &err);
    ec_quota_destroy(quota);
    ec_log_destroy(log);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    {.name = "config",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, config),
     .help = "YAML file with these options by name; the command line takes precedence"},
    {.name = "store",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, store),
     .required = 1,
     .help = "folder of all stored data; made when missing"},
    {.name = "listen",
     .argument = "HOST:PORT",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, listen),
     .fallback = "127.0.0.1:8443",
     .help = "address for agents; port 0 takes any free one"},
    {.name = "cert",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, cert),
     .required = 1,
     .help = "this collector's certificate (PEM)"},
    {.name = "key",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, key),
     .required = 1,
     .help = "its private key (PEM)"},
    {.name = "ca",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, ca),
     .required = 1,
     .help = "the CA that signs agents' certificates (PEM)"},
    {.name = "crl",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, crl),
     .help = "revocation list (PEM); looked at on every request, read again when it changes; with --enroll the one of "
             "--ca-dir, unless another is given"},
    {.name = "port-file",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, port_file),
     .help = "write the port to this file once ready"},
    {.name = "web",
     .argument = "HOST:PORT",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, web),
     .help = "serve the dashboard, its API and /metrics here; an address on loopback, or any with --web-tokens; port 0 "
             "takes any free one"},
    {.name = "web-tokens",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, web_tokens),
     .help = "with --web: TLS, and every client needs a token (see token add); requests go to the audit log (see audit "
             "verify)"},
    {.name = "web-cert",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, web_cert),
     .help = "certificate of --web (PEM), one that browsers trust; default: the certificate of --cert"},
    {.name = "web-key",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, web_key),
     .help = "its private key (PEM)"},
    {.name = "request-key",
     .argument = "FILE",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, request_key),
     .help =
         "with --web-tokens: the public half of the key of requests (PEM); tokens of scope operate may hand in what "
         "it signed"},
    {.name = "audit-size",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, audit_bytes),
     .fallback = "16MiB",
     .min = 64 << 10,
     .help = "most bytes of each file of the audit log; there are 5 of what was granted and 5 of what was refused"},
    {.name = "audit-refusals",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, audit_refusals),
     .fallback = "10",
     .min = 1,
     .max = 1000000,
     .help = "refusals of one token or address that are lines of the audit log in a minute; further ones are only "
             "counted there"},
    {.name = "audit-syslog",
     .type = EA_OPT_FLAG,
     .offset = offsetof(options, audit_syslog),
     .help = "copy each line of the audit log to syslog (facility authpriv), to keep it on another machine"},
    {.name = "web-questions",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, web_questions),
     .fallback = "2",
     .min = 1,
     .max = 4,
     .help = "questions of one token that are answered at a time, of the 4 of all; without tokens, of one address"},
    {.name = "web-memory",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, web_memory),
     .fallback = "512MiB",
     .min = 16 << 20,
     .help = "most memory of one question; a question that needs more ends, and its answer reports that"},
    {.name = "web-memory-all",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, web_memory_all),
     .fallback = "2GiB",
     .min = 16 << 20,
     .help = "most memory of all questions at a time: fewer than 4 are answered at a time when 4 do not fit"},
    {.name = "web-temp",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, web_temp),
     .fallback = "1GiB",
     .help =
         "most temporary files of one question, in the folder temp of the store, and at most a quarter of what is free "
         "there: sorts that memory does not hold; a question that needs more ends, and its answer reports that"},
    {.name = "web-unread",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, web_unread),
     .fallback = "10s",
     .min = INT64_C(1000000000),
     .max = UINT64_C(86400000000000),
     .help = "an answer of which its reader takes less than 16 KiB a second for this time is cut off"},
    {.name = "web-tail",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, web_tail),
     .fallback = "1h",
     .min = INT64_C(1000000000),
     .help = "a stream of events ends after this time; browsers connect again"},
    EC_SYMBOL_OPTIONS(options, symbols, "STORE/symbols"),
    {.name = "enroll",
     .argument = "HOST:PORT",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, enroll),
     .help =
         "give certificates to agents here: a first one for a token (see ca token), the next one for the current one; "
         "issued certificates are logged in DIR/audit.jsonl; port 0 takes any free one"},
    {.name = "ca-dir",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, ca_dir),
     .help = "with --enroll: the folder of the CA (see ca init), with its key; the collector writes to it"},
    {.name = "rules",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, rules),
     .help = "folder of Sigma rules (.yml, .yaml) that are run on all that arrives; see detections, rules check and "
             "rules test; SIGHUP reads it again"},
    {.name = "threads",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, threads),
     .fallback = "1",
     .min = 1,
     .max = 64,
     .help = "network threads"},
    {.name = "cpu-percent",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, cpu_percent),
     .fallback = "0",
     .max = 100 * 1024,
     .help = "most processor time, in hundredths of one processor; beyond it uploads and the state wait; 0: no bound"},
    {.name = "max-body",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, max_body),
     .fallback = "17MiB",
     .min = 4096,
     .max = 1 << 30,
     .help = "largest upload"},
    {.name = "max-waiting",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, max_waiting),
     .fallback = "256MiB",
     .help = "most memory for uploads that are being received or stored"},
    {.name = "max-connections",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, max_connections),
     .fallback = "16384",
     .min = 1,
     .max = 1000000,
     .help = "most connections of agents at a time; further ones wait, and connections without a finished handshake or "
             "request are closed for them; lowered when the process may not open so many descriptors"},
    {.name = "max-address-connections",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, max_address_connections),
     .fallback = "0",
     .max = 1000000,
     .help = "most of these of one address (of IPv6 the first 64 bits) on a thread; further ones are closed; 0: no own "
             "bound, for agents behind one proxy"},
    {.name = "max-handshakes",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, max_handshakes),
     .fallback = "1024",
     .min = 1,
     .max = 1000000,
     .help = "most unfinished TLS handshakes of a listener's thread, at most half of its connections; the oldest is "
             "closed for the next one"},
    {.name = "max-address-handshakes",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, max_address_handshakes),
     .fallback = "128",
     .min = 1,
     .max = 1000000,
     .help = "most of these of one address, at most half of max-handshakes; further connections are closed"},
    {.name = "address-handshake-rate",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, address_handshake_rate),
     .fallback = "200",
     .min = 1,
     .max = 1000000,
     .help = "most TLS handshakes that one address begins in a second with a listener's thread, ten seconds of it at "
             "once; further connections are closed"},
    {.name = "max-web-connections",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, max_web_connections),
     .fallback = "2048",
     .min = 1,
     .max = 1000000,
     .help = "most connections to --web and to --enroll, each; the slowest is closed for the next one; lowered like "
             "max-connections"},
    {.name = "max-web-address-connections",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, max_web_address_connections),
     .fallback = "128",
     .min = 1,
     .max = 1000000,
     .help = "most of these of one address, with TLS; further ones are closed"},
    {.name = "max-agent-connections",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, max_agent_connections),
     .fallback = "64",
     .min = 1,
     .max = 1000000,
     .help = "most connections of one agent on a thread"},
    {.name = "handshake-timeout",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, handshake_timeout),
     .fallback = "10s",
     .min = 1000000,
     .help = "a TLS handshake must be finished so long after the connection"},
    {.name = "head-timeout",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, head_timeout),
     .fallback = "10s",
     .min = 1000000,
     .help = "a request's head must be whole so long after its first byte"},
    {.name = "min-rate",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, min_rate),
     .fallback = "4KiB",
     .min = 1,
     .max = 1 << 30,
     .help = "a request's body must come at so much a second, measured over the last request-timeout"},
    {.name = "request-timeout",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, request_timeout),
     .fallback = "30s",
     .min = 1000000,
     .help = "the time over which min-rate is measured"},
    {.name = "idle-timeout",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, idle_timeout),
     .fallback = "10m",
     .help = "a silent connection is closed after this"},
    {.name = "verify-checksums",
     .argument = "WHEN",
     .type = EA_OPT_CHOICE,
     .offset = offsetof(options, verify),
     .fallback = "on",
     .choices = VERIFY_CHOICES,
     .help = "read every record of a batch before it is acknowledged, and compare its checksum with theirs"},
    {.name = "hole-wait",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, hole_wait),
     .fallback = "30s",
     .min = 1000000,
     .help = "how long the state waits for a missing batch before it continues without it"},
    {.name = "silent-after",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, silent_after),
     .fallback = "15m",
     .min = INT64_C(1000000000),
     .help = "an agent that sent nothing for this time is an incident, for a week"},
    {.name = "state-streams",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, state_streams),
     .fallback = "64",
     .min = 1,
     .max = 65536,
     .help = "machines whose state is kept in memory; others are read back when they go on"},
    {.name = "state-bytes",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, state_bytes),
     .fallback = "64MiB",
     .min = 65536,
     .max = (uint64_t)1 << 40,
     .help =
         "most memory of one machine's tables; at the limit the rows that are open longest are dropped, and counted"},
    {.name = "state-names",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, state_names),
     .fallback = "1048576",
     .min = 64,
     .max = (uint64_t)1 << 32,
     .help = "names of files and keys that are kept of one run of an agent"},
    {.name = "state-operations",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, state_operations),
     .fallback = "1048576",
     .min = 64,
     .max = (uint64_t)1 << 32,
     .help = "file operations, likewise"},
    {.name = "segment-size",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, segment_bytes),
     .fallback = "256MiB",
     .help = "a new segment file begins beyond this size"},
    {.name = "retain-age",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, retain_age),
     .help = "delete batches that were received longer ago, a segment file at a time; default: none is deleted"},
    {.name = "retain-size",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, retain_bytes),
     .help = "while segment files, index.db and state.db take more: delete the oldest batches of the agent that is "
             "furthest above its share of this, and the oldest segment files when none is; likewise"},
    {.name = "retain-min-age",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, retain_min_age),
     .help =
         "never delete for the size batches that were received since then; when the size cannot be kept so, uploads of "
         "agents above their share are refused"},
    {.name = "archive",
     .argument = "DIR",
     .type = EA_OPT_STRING,
     .offset = offsetof(options, archive),
     .help = "before a segment file is deleted, write its events to this folder as Parquet files, as export does; a "
             "folder for each store"},
    {.name = "retain-interval",
     .argument = "TIME",
     .type = EA_OPT_DURATION,
     .offset = offsetof(options, retain_interval),
     .fallback = "1m",
     .min = 1000000,
     .max = UINT64_C(86400000000000),
     .help = "how often retention is applied"},
    {.name = "agent-streams",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, agent_streams),
     .fallback = "20000",
     .help = "most streams that are kept of one agent; 0: no limit"},
    {.name = "agent-classes",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, agent_classes),
     .fallback = "20000",
     .help = "most classes that are kept since one agent described them first; 0: no limit"},
    {.name = "agent-tombstones",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, agent_tombstones),
     .fallback = "200000",
     .help = "most tombstones that are kept of one agent; 0: no limit"},
    {.name = "agent-definitions",
     .argument = "SIZE",
     .type = EA_OPT_SIZE,
     .offset = offsetof(options, agent_definition_bytes),
     .fallback = "128MiB",
     .help = "most bytes of sources, shapes and dictionaries that are kept of one agent; 0: no limit"},
    {.name = "sinks",
     .type = EA_OPT_TABLES,
     .offset = offsetof(options, sinks),
     .max = EC_RUN_SINKS_MAX,
     .table = &ec_run_sinks_table,
     .help = "receivers of stored events, each a mapping with the options of sink run (name, to, kind, ...)"},
    EC_QUOTA_OPTIONS{.name = NULL},
};

const ea_command ec_cmd_run = {
    .name = "run",
    .operands = "",
    .summary = "Receive batches over TLS and store them, until SIGTERM or SIGINT",
    .details =
        "Prints \"listening on HOST:PORT\" when it is ready. Agents need a client certificate of the CA; its common "
        "name "
        "is the\nagent's name. A batch is acknowledged once it is on disk. On SIGTERM what has arrived is stored and\n"
        "answered first. SIGHUP reads --config again: retain-age and retain-size change at once, of the rest the log "
        "says\nthat it needs a restart. Exit codes: 0 stopped on request, 1 failed, 2 usage.\n\n"
        "  etwcollector ca init --dir certs\n"
        "  etwcollector ca issue --dir certs --server --name collector.example\n"
        "  etwcollector run --store /var/lib/etwcollector --listen 0.0.0.0:8443 --cert certs/collector.example.crt \\\n"
        "      --key certs/collector.example.key --ca certs/ca.crt --crl certs/ca.crl",
    .options = OPTIONS,
    .options_size = sizeof(options),
    .run = run_command,
    .config = &ea_config_of_command,
};
