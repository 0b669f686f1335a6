/* The agent. See agent.h. */
#include "service/core/agent.h"

#include "proto/base/platform.h"
#include "service/core/agent_log.h"
#include "service/core/agent_parts.h"
#include "service/core/boot_sources.h"
#include "service/core/status_json.h"
#include "service/etw/live.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Rounds of the main thread: while something is about to end or begin, and else. */
static const int64_t TICK_NS = 50000000, IDLE_NS = 1000000000;
static const int64_t RETRY_NS = (int64_t)5 * 1000000000, LAST_WORDS_NS = (int64_t)3 * 1000000000;

/* ---- what the sender reports ---- */

static void agent_on_error(void *arg, const ea_err *err) {
    ea_agent *a = arg;
    ea_mutex_lock(a->tasks.lock);
    ea_sticky_error_set(&a->line_error, "shipping", err->code, err);
    ea_mutex_unlock(a->tasks.lock);
}

static enum ea_sender_pace pace_now(void *power_policy) {
    return ea_power_policy_pace(power_policy, ea_monotonic_ns());
}

/* ---- starting and stopping the rest ---- */

/* The agent's certificate: 1 when there is one that can be sent under. */
static int update_certificate(ea_agent *a) {
    const ea_shipping_options *o = &a->snapshot->c.shipping;
    ea_enroller_status s;
    ea_err err = {0};
    if (!o->enroll)
        return 1;
    if (!a->enroller && ea_enroller_start(&a->enroller, o, &err)) {
        ea_sticky_error_set(&a->enroll_error, "enrolment", err.code, &err);
        return 0;
    }
    ea_enroller_get_status(a->enroller, &s);
    if (s.state == EA_ENROLLER_FRESH) {
        ea_sender_destroy(a->sender); /* its connections and their tickets are of the old certificate */
        a->sender = NULL;
        a->tried_ns = 0;
        ea_enroller_install(a->enroller);
        ea_enroller_get_status(a->enroller, &s);
    }
    ea_sticky_error_set(&a->enroll_error, "enrolment", s.error.code, &s.error);
    return s.state == EA_ENROLLER_HAS;
}

/* Before the sessions, whose recorders it gets. Without its key the agent runs, and nothing is accepted. */
static void start_remote(ea_agent *a) {
    const ea_remote_options o = {
        .config = &a->snapshot->c.remote, .folder = ea_spool_folder(a->tasks.spool), .counters = &a->counters};
    ea_err err = {0};
    int rc = o.config->key ? ea_remote_create(&a->tasks.remote, &o, &err) : 0;
    ea_sticky_error_set(&a->remote_error, "requests are not accepted", rc, &err);
}

/* 1 when the spool is open. */
static int start_spool(ea_agent *a) {
    const ea_shipping_options *o = &a->snapshot->c.shipping;
    char name[EA_CERTIFICATE_NAME_BYTES];
    ea_err err = {0}, unknown;
    if (a->tasks.spool)
        return 1;
    /* without a certificate yet, or with one that cannot be used: the sender reports that */
    int is_known = ea_shipping_name(o, name, &unknown) == 0;
    int rc = ea_shipping_open_spool(&a->tasks.spool, o, is_known ? name : NULL, 1, &a->counters, &err);
    ea_sticky_error_set(&a->spool_error, "spool", rc, &err);
    if (!rc)
        start_remote(a);
    return !rc;
}

static void agent_log_line(void *arg, const char *line) {
    (void)arg;
    ea_log_info("%s", line);
}

static void start_sender(ea_agent *a) {
    const ea_shipping_options *o = &a->snapshot->c.shipping;
    char name[EA_CERTIFICATE_NAME_BYTES];
    ea_err err = {0};
    if (a->sender)
        return;
    a->events = (ea_sender_events){.spool = a->tasks.spool,
                                   .each_pipeline = ea_source_tasks_each_pipeline,
                                   .pipelines = &a->tasks,
                                   .on_error = agent_on_error,
                                   .arg = a};
    ea_sender_options so = ea_shipping_sender(o, &a->counters, &a->events);
    so.fail_fast = 0;
    so.give_up_ns = 0;
    so.renew = ea_sender_events_renew;
    ea_power_policy_init(&a->power_policy, (enum ea_sender_pace)o->on_battery, (enum ea_sender_pace)o->on_metered,
                         &ea_power_policy_of_machine, agent_log_line, NULL);
    so.pace = pace_now;
    so.pace_arg = &a->power_policy;
    int rc = ea_shipping_name(o, name, &err);
    if (!rc)
        rc = ea_spool_own(a->tasks.spool, name, &err);
    so.name = name;
    if (a->tasks.remote) {
        a->poll = (ea_sender_poll){.arg = a->tasks.remote, .ask = ea_remote_ask, .answer = ea_remote_answer};
        so.poll = &a->poll;
        if (!rc)
            ea_remote_set_name(a->tasks.remote, name);
    }
    if (!rc)
        rc = ea_sender_start(&a->sender, a->tasks.spool, &so, &err);
    ea_sticky_error_set(&a->sender_error, "shipping", rc, &err);
}

static void start_source(ea_agent *a, const ea_file_source_config *source, const ea_session_config *session) {
    ea_err err;
    const char *name = source ? source->name : session ? session->name : "";
    if (!ea_source_tasks_have(&a->tasks, name, session != NULL) &&
        ea_source_task_start(&a->tasks, a->snapshot, source, session, &err))
        ea_log_warning("%s", err.message);
}

/* Starts what the configuration asks for and what does not run. */
static void start_missing(ea_agent *a) {
    const ea_agent_config *c = &a->snapshot->c;
    const ea_file_source_config *sources = c->sources.items;
    const ea_session_config *sessions = c->sessions.items;
    int may_send = update_certificate(a); /* also where there is nothing to send yet */
    if (!ea_config_runnable(c) || !start_spool(a))
        return;
    if (may_send)
        start_sender(a);
    for (size_t i = 0; i < c->sources.count; i++) /* an event log is read at once, as sessions are */
        if (ea_config_can_run(&sources[i]) && (may_send || sources[i].channels.count))
            start_source(a, &sources[i], NULL);
    for (size_t i = 0; ea_live_is_possible() && i < c->sessions.count; i++)
        start_source(a, NULL, &sessions[i]);
}

static void stop_shipping(ea_agent *a) {
    ea_err err;
    ea_enroller_stop(a->enroller);
    a->enroller = NULL;
    ea_sender_destroy(a->sender);
    a->sender = NULL;
    ea_remote_destroy(a->tasks.remote);
    a->tasks.remote = NULL;
    if (a->tasks.spool && ea_spool_close(a->tasks.spool, &err))
        ea_log_warning("%s", err.message);
    a->tasks.spool = NULL;
}

/* ---- another configuration ---- */

static int read_checked_config(const ea_agent *a, ea_config_snapshot **ret, ea_err *err) {
    int rc = a->o->check_config ? a->o->check_config(a->path, err) : 0;
    return rc ? rc : ea_config_snapshot_read(ret, a->path, err);
}

/* A task goes on untouched when nothing that it reads of the configuration differs. */
static int agent_is_kept(const ea_source_task *t, const ea_config_changes *changes, const ea_config_snapshot *fresh) {
    return !changes->sources && ea_config_snapshot_has_same_source(fresh, t->c, t->session);
}

static void reload(ea_agent *a) {
    ea_config_snapshot *fresh;
    ea_err err = {0};
    if (read_checked_config(a, &fresh, &err)) {
        if (err.code != EA_EFORMAT) /* its mistakes were already reported */
            ea_log_warning("%s", err.message);
        ea_log_line(EA_LOG_REFUSED, "the running configuration stays in force");
        a->reloads_refused++;
        return;
    }
    ea_boot_sources_add(fresh);
    ea_config_changes changes = ea_config_snapshot_compare(a->snapshot, fresh);
    size_t kept = 0, ended = 0;
    ea_source_task *next;
    for (ea_source_task *t = a->tasks.first; t; t = t->next) /* all at once, then one after the other */
        if (!agent_is_kept(t, &changes, fresh))
            ea_source_task_request_stop(t);
    for (ea_source_task *t = a->tasks.first; t; t = next) {
        next = t->next;
        if (!agent_is_kept(t, &changes, fresh)) {
            ea_source_task_stop(t);
            ended++;
        } else {
            if (changes.labels)
                ea_source_task_relabel(t, fresh);
            kept++;
        }
    }
    if (changes.shipping)
        stop_shipping(a);
    ea_config_snapshot_release(a->snapshot);
    a->snapshot = fresh;
    a->tried_ns = 0;
    a->reloads++;
    size_t begin = ea_config_runnable(&fresh->c) - kept;
    ea_log_line(EA_LOG_RELOADED, "configuration read again: %zu source%s, %zu ended, %zu %s%s%s", kept,
                kept == 1 ? " goes on" : "s go on", ended, begin, begin == 1 ? "begins" : "begin",
                changes.shipping ? "; shipping begins anew" : "",
                changes.labels ? "; new labels go out with the next batches" : "");
}

/* ---- the status file ---- */

/* Hands a status to who asked for it, and writes it where "etwagent status" looks. configured: the path that the
 * configuration names; NULL: the usual one. */
static void publish_status(ea_agent *a, const ea_text *t, const char *configured) {
    char path[EA_AGENT_PATH_BYTES];
    ea_err err = {0};
    if (a->o->on_status && !t->failed)
        a->o->on_status(a->o->arg, t->data, t->len_bytes);
    int rc = ea_agent_file_path(configured, "status.json", path, &err);
    if (!rc && t->failed)
        rc = ea_fail(&err, EA_ENOMEM, "write %s", path);
    if (!rc)
        rc = ea_path_make_parent(path, &err);
    if (!rc)
        rc = ea_path_write_all(path, t->data, t->len_bytes, 0, &err);
    ea_sticky_error_set(&a->status_error, "status file", rc, &err);
}

static void write_status(ea_agent *a, const char *state) {
    ea_text t;
    uint64_t lost = 0;
    ea_text_init(&t);
    ea_status_put(a, state, &t, &lost);
    if (lost > a->lost)
        ea_log_line(EA_LOG_LOST, "%" PRIu64 " more events were lost; \"etwagent status\" has the causes",
                    lost - a->lost);
    a->lost = lost;
    publish_status(a, &t, a->snapshot->c.service.status);
    ea_text_deinit(&t);
}

/* ---- the run ---- */

/* What the part "service" says of the program itself. */
static void apply_service(ea_agent *a) {
    const ea_service_config *c = &a->snapshot->c.service;
    char path[EA_AGENT_PATH_BYTES];
    ea_err err = {0};
    int rc = 0;
    if (c->log || a->o->log_by_default) {
        rc = ea_agent_file_path(c->log, "log.txt", path, &err);
        if (!rc)
            rc = ea_path_make_parent(path, &err);
    }
    if (!rc)
        rc = ea_log_set_file(c->log || a->o->log_by_default ? path : NULL, c->log_bytes, (unsigned)c->log_lines, &err);
    ea_sticky_error_set(&a->log_error, "log", rc, &err);
    ea_set_bulk_priority((enum ea_bulk_priority)c->bulk_priority);
    if (a->o->on_config)
        a->o->on_config(a->o->arg, &a->snapshot->c);
}

/* Syncs the spool to the disk, and sends its batches without waiting for the pause after a failure. */
static void agent_flush(ea_agent *a) {
    ea_err err;
    if (a->tasks.spool && ea_spool_sync(a->tasks.spool, &err))
        ea_log_warning("%s", err.message);
    if (a->sender)
        ea_sender_end_pause(a->sender);
}

void ea_agent_request(ea_agent_control *control, atomic_int *what) {
    atomic_store(what, 1);
    ea_wake_set(control->wake);
}

/* Until a request, or ns at most; less where the watchdog expects a beat sooner. */
static void wait_for_request(ea_agent *a, int64_t ns) {
    int64_t watchdog_ns = a->snapshot ? a->snapshot->c.service.watchdog_ns : 0;
    if (watchdog_ns && ns > watchdog_ns / 4)
        ns = watchdog_ns / 4;
    if (a->control->wake)
        ea_wake_wait(a->control->wake, ns);
    else
        ea_sleep_ns(ns < TICK_NS ? ns : TICK_NS);
}

/* Does what is due. Returns the time until the next work is due, unless a request comes first. */
static int64_t tick(ea_agent *a) {
    int64_t now = ea_monotonic_ns();
    int is_busy = 0;
    atomic_fetch_add(&a->control->beats, 1);
    if (atomic_exchange(&a->control->reload, 0)) {
        reload(a);
        apply_service(a);
    }
    if (a->enroller)
        is_busy = !update_certificate(a);
    if (!a->tried_ns || now - a->tried_ns >= RETRY_NS) {
        a->tried_ns = now;
        start_missing(a);
    }
    if (atomic_exchange(&a->control->flush, 0))
        agent_flush(a);
    is_busy = ea_source_tasks_end_streams(&a->tasks, 0) > 0 || is_busy;
    int64_t every_ns = a->snapshot->c.service.status_every_ns;
    if (atomic_exchange(&a->control->status, 0) || !a->status_ns || now - a->status_ns >= every_ns) {
        a->status_ns = now;
        ea_boot_sources_retire(&a->tasks);
        write_status(a, "running");
    }
    int64_t until = is_busy ? now + TICK_NS : now + IDLE_NS;
    if (until > a->status_ns + every_ns)
        until = a->status_ns + every_ns;
    if (until > a->tried_ns + RETRY_NS)
        until = a->tried_ns + RETRY_NS;
    return until - ea_monotonic_ns();
}

/* Why nothing runs yet. */
static void publish_waiting(ea_agent *a) {
    ea_text t;
    ea_text_init(&t);
    ea_status_put_waiting(a, RETRY_NS, &t);
    publish_status(a, &t, NULL);
    ea_text_deinit(&t);
}

/* Reads the configuration; with wait_for_config the agent waits for one that can be read. EA_ECANCELED: asked to stop
 * meanwhile. */
static int first_config(ea_agent *a, ea_err *err) {
    for (;;) {
        int rc = read_checked_config(a, &a->snapshot, err);
        if (!rc && !ea_config_runnable(&a->snapshot->c) && !a->o->wait_for_config) {
            ea_config_snapshot_release(a->snapshot);
            a->snapshot = NULL;
            return ea_fail(err, EA_EUSAGE, "%s: no sources or sessions configured; add at least one", a->path);
        }
        if (!rc || !a->o->wait_for_config)
            return rc;
        ea_sticky_error_set(&a->config_error, "configuration", rc, err);
        publish_waiting(a);
        int64_t until = ea_monotonic_ns() + RETRY_NS;
        while (ea_monotonic_ns() < until && !atomic_exchange(&a->control->reload, 0)) {
            if (atomic_load(&a->control->stop))
                return ea_fail(err, EA_ECANCELED, "read %s", a->path);
            atomic_fetch_add(&a->control->beats, 1);
            if (atomic_exchange(&a->control->status, 0))
                publish_waiting(a);
            wait_for_request(a, IDLE_NS);
        }
    }
}

static void run_until_stopped(ea_agent *a) {
    ea_sticky_error_set(&a->config_error, "configuration", 0, NULL);
    apply_service(a);
    ea_boot_sources_add(a->snapshot); /* their messages are logged */
    size_t sources = ea_config_runnable_sources(&a->snapshot->c);
    size_t sessions = ea_config_runnable(&a->snapshot->c) - sources;
    ea_log_line(EA_LOG_STARTED, "started with %s, %zu source%s, %zu session%s", a->path, sources,
                sources == 1 ? "" : "s", sessions, sessions == 1 ? "" : "s");
    while (!atomic_load(&a->control->stop))
        wait_for_request(a, tick(a));
    for (ea_source_task *t = a->tasks.first; t; t = t->next) /* all at once, then one after the other */
        ea_source_task_request_stop(t);
    for (ea_source_task *t = a->tasks.first; t; t = t->next)
        ea_source_task_join(t);
    if (a->sender &&
        !atomic_load(&a->control->no_drain)) { /* what waits may go now; else it goes after the next start */
        int64_t until = ea_monotonic_ns() + LAST_WORDS_NS;
        while (ea_source_tasks_end_streams(&a->tasks, 0) && ea_monotonic_ns() < until &&
               !ea_sender_wait(a->sender, TICK_NS / 10))
            ;
        (void)ea_source_tasks_end_streams(&a->tasks, 1);
        ea_sender_drain(a->sender);
        int64_t left = until - ea_monotonic_ns();
        (void)ea_sender_wait(a->sender, left > 0 ? left : 0);
    }
    write_status(a, "stopped");
    while (a->tasks.first)
        ea_source_task_stop(a->tasks.first);
    stop_shipping(a);
    ea_log_line(EA_LOG_STOPPED, "stopped");
}

int ea_agent_run(const ea_agent_options *options, ea_err *err) {
    ea_agent *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "run");
    a->o = options;
    a->control = options->control;
    a->path = options->config_path;
    a->started_utc_ns = ea_utc_ns();
    int rc = ea_source_tasks_init(&a->tasks, RETRY_NS, err);
    a->tasks.owner = options->control->wake;
    if (!rc)
        rc = first_config(a, err);
    if (!rc)
        run_until_stopped(a);
    if (rc == EA_ECANCELED)
        rc = 0;
    ea_config_snapshot_release(a->snapshot);
    ea_source_tasks_deinit(&a->tasks);
    free(a);
    return rc;
}
