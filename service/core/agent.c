/* The agent. See agent.h. */
#include "agent.h"

#include "agent_config.h"
#include "autologger.h"
#include "boot_files.h"
#include "damage_log.h"
#include "enroller.h"
#include "feed.h"
#include "image_source.h"
#include "labels.h"
#include "live.h"
#include "platform.h"
#include "say.h"
#include "tdh_schemas.h"
#include "thrift.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const int64_t TICK_NS = 50000000, RETRY_NS = (int64_t)5 * 1000000000, LAST_WORDS_NS = (int64_t)3 * 1000000000;

/* A configuration that was read, and how many of its sources still run. */
typedef struct generation {
    ea_config *memory;
    ea_agent_config c;
    ea_arena arena;   /* of labels */
    ea_labels labels; /* with their values */
    unsigned users;
    unsigned *boot_files_lost; /* of each session, until its ledger has them; NULL: there is no session */
} generation;

/* What goes wrong with one thing, said once for each change. */
typedef struct trouble {
    char text[sizeof((ea_err){0}).message]; /* "": nothing */
} trouble;

enum runner_state { WAITS, READS, READ };

/* A source or a session that the configuration names. */
typedef struct runner {
    struct runner *next;
    struct agent *agent;
    generation *generation;
    generation *labelled; /* whose labels it has: that one, or a later one that left it untouched; lock */
    const char *name;     /* the generation's, as are the next two, of which one is NULL */
    const ea_file_source_config *c;
    const ea_session_config *session;
    ea_thread *thread;
    atomic_int stop;
    atomic_int over; /* its thread is at its end */

    /* the agent's lock */
    ea_feed *feed;
    ea_schemas *schemas; /* of the feed; its thread, and whoever closes it */
    enum runner_state state;
    trouble trouble;
    ea_counters *counters; /* of the feed */
    ea_source *live;       /* the feed's, of a session */
    ea_tdh *tdh;           /* of a session; its feed's asker, and whoever closes that; NULL: Windows has none */
    ea_ask ask;            /* of it */

    ea_damage_log damage;    /* its thread */
    uint64_t starts_refused; /* of a session, since its ledger has them; its thread */
    int is_put_away;         /* a boot session's file: it was shipped, and has another name; the agent's thread */
} runner;

typedef struct agent {
    const ea_agent_options *o;
    ea_agent_asks *asks;
    const char *path;
    uint64_t lost;        /* events, as far as it was said */
    ea_counters counters; /* the spool's and the sender's */
    ea_mutex *lock;       /* runners, their feeds and troubles; held for moments */
    ea_cond *wake;        /* runners that wait for their next attempt */
    runner *runners;
    generation *generation;
    int64_t started_utc_ns, tried_ns, status_ns;
    uint64_t reloads, reloads_refused;
    uint8_t run[EA_STREAM_RUN_BYTES]; /* how the streams of this run's sessions begin */
    atomic_uint streams;              /* of sessions, so far */
    ea_spool *spool;
    ea_sender *sender;
    ea_sender_events events; /* its callbacks */
    ea_enroller *enroller;   /* NULL: certificates are somebody else's care */
    ea_thrift thrift;        /* the sender's thread */
    trouble config_trouble, log_trouble, enroll_trouble, spool_trouble, sender_trouble, status_trouble;
    trouble line_trouble; /* the collector's line; lock */
} agent;

/* Notes what is wrong now (rc 0: nothing) and says it when that is news. */
static void note(trouble *t, const char *whose, int rc, const ea_err *err) {
    const char *now = rc ? err->message : "";
    if (strcmp(t->text, now) == 0)
        return;
    if (rc)
        ea_say(EA_SAID_TROUBLE, "%s%s%s (%s); it is tried again", whose, *whose ? ": " : "", now, ea_code_text(rc));
    else
        ea_say(EA_SAID_WORKS, "%s%sworks again", whose, *whose ? ": " : "");
    snprintf(t->text, sizeof t->text, "%s", now);
}

/* ---- generations ---- */

static void release(generation *g) {
    if (!g || --g->users)
        return;
    ea_config_destroy(g->memory);
    ea_arena_deinit(&g->arena);
    free(g);
}

static void say_left_out(const char *label, const char *variable) {
    ea_say(EA_SAID_NOTE, "label %s is left out: there is no environment variable %s", label, variable);
}

static void say_problem(void *arg, const char *line) {
    (void)arg;
    ea_say(EA_SAID_NOTE, "%s", line);
}

/* How many sources and sessions this program can run. */
static size_t runnable(const ea_agent_config *c) {
    return c->sources.count + (ea_live_is_possible() ? c->sessions.count : 0);
}

static void say_of_boot(void *arg, const char *line) {
    ea_say(EA_SAID_TROUBLE, "session %s: %s", (const char *)arg, line);
}

/* Appends a session's boot files that wait to be read to the sources. Returns how many there are now. */
static size_t add_boot_files(generation *g, const ea_session_config *s, ea_file_source_config *sources, size_t n) {
    for (int age = 0; age < EA_BOOT_FILES_MAX; age++) {
        char path[EA_BOOT_PATH_BYTES], taken[EA_BOOT_PATH_BYTES], name[EA_SESSION_NAME_MAX + 16];
        ea_boot_file_path(s, age, path);
        if (!ea_path_exists(path))
            continue;
        taken[0] = 0;
        if (age == 0)
            ea_boot_file_path(s, -1, taken);
        snprintf(name, sizeof name, age ? "%s-boot.%d" : "%s-boot", s->name, age);
        ea_file_source_config *c = &sources[n];
        c->name = ea_arena_strdup(&g->arena, name);
        c->files = (ea_strings){.items = {ea_arena_strdup(&g->arena, path)}, .count = 1};
        c->taken = ea_arena_strdup(&g->arena, taken);
        c->priority = s->priority;
        n += c->name && c->files.items[0] && c->taken;
    }
    return n;
}

/* What Windows logged at boot for a session with a boot-file is a source like any other: its name is NAME-boot, and
 * NAME-boot.1 and so on of earlier boots, as far as they are not in the spool yet. */
static void add_boot_sources(generation *g) {
    const ea_session_config *sessions = g->c.sessions.items;
    size_t n = g->c.sources.count, count = g->c.sessions.count;
    ea_file_source_config *all = count ? ea_arena_zalloc(&g->arena, n + count * EA_BOOT_FILES_MAX, sizeof *all) : NULL;
    g->boot_files_lost = count ? ea_arena_zalloc(&g->arena, count, sizeof *g->boot_files_lost) : NULL;
    if (!all || !g->boot_files_lost)
        return;
    if (n)
        memcpy(all, g->c.sources.items, n * sizeof *all);
    for (size_t i = 0; i < count; i++) {
        ea_err why = {0};
        if (!sessions[i].boot_file)
            continue;
        if (ea_autologger_take(&sessions[i], say_of_boot, (void *)(uintptr_t)sessions[i].name, &g->boot_files_lost[i],
                               &why))
            ea_say(EA_SAID_TROUBLE, "session %s: %s", sessions[i].name, why.message);
        n = add_boot_files(g, &sessions[i], all, n);
    }
    g->c.sources = (ea_tables){all, n};
}

static int read_config(const char *path, generation **ret, ea_err *err) {
    generation *g = calloc(1, sizeof *g);
    if (!g)
        return ea_fail(err, EA_ENOMEM, "read %s", path);
    int rc = ea_config_read(&g->memory, path, &ea_agent_table, &g->c, say_problem, NULL, err);
    if (!rc && runnable(&g->c) && !g->c.shipping.collectors.count) {
        rc = ea_fail(err, EA_EUSAGE, "%s: it has no part \"shipping\" with a collector to send to", path);
        ea_config_destroy(g->memory);
    }
    if (rc) {
        free(g);
        return rc;
    }
    g->users = 1;
    ea_arena_init(&g->arena, 0);
    rc = ea_labels_resolve(&g->labels, &g->c.labels, &g->arena, say_left_out, err);
    if (rc) {
        release(g);
        return rc;
    }
    for (size_t i = 0; !ea_live_is_possible() && i < g->c.sessions.count; i++)
        ea_say(EA_SAID_NOTE, "session %s is left out: only Windows has ETW sessions",
               ((const ea_session_config *)g->c.sessions.items)[i].name);
    *ret = g;
    return 0;
}

/* ---- a source's thread ---- */

static void set_trouble(runner *r, int rc, const ea_err *err) {
    char whose[160];
    snprintf(whose, sizeof whose, "%s %.128s", r->c ? "source" : "session", r->name);
    ea_mutex_lock(r->agent->lock);
    note(&r->trouble, whose, rc, err);
    ea_mutex_unlock(r->agent->lock);
}

static void note_session(void *arg, const char *text) {
    const runner *r = arg;
    ea_say(EA_SAID_NOTE, "session %s: %s", r->name, text);
}

/* A worker looks at the files of the images that the session says are loaded, where the configuration wants it. */
static int add_images(const runner *r, ea_source **source, ea_err *err) {
    const ea_session_config *s = r->session;
    return s->images ? ea_image_source_open(source, *source,
                                            &(ea_images_options){.rate_bytes = s->image_rate_bytes,
                                                                 .hash_bytes = s->image_hash_bytes,
                                                                 .counters = r->counters},
                                            err)
                     : 0;
}

/* Starts the session and makes a feed of it, under a stream of this run. */
static int open_session(runner *r, ea_feed **ret, ea_err *err) {
    agent *a = r->agent;
    uint8_t stream[EA_STREAM_ID_BYTES];
    ea_source *source = NULL;
    ea_err no_tdh;
    int rc = ea_live_open(
        &source,
        &(ea_live_options){.session = r->session, .counters = r->counters, .on_note = note_session, .on_note_arg = r},
        err);
    ea_source *live = source;
    r->starts_refused += rc != 0;
    if (!rc)
        rc = add_images(r, &source, err);
    if (rc)
        return rc;
    ea_tdh_close(r->tdh);
    r->tdh = NULL;
    if (ea_tdh_open(&r->tdh, &no_tdh)) /* then what nobody else knows has no names */
        note_session(r, no_tdh.message);
    r->ask = (ea_ask){.answer = ea_tdh_describe, .arg = r->tdh, .counters = r->counters};
    memcpy(stream, a->run, sizeof a->run);
    ea_store32(stream + sizeof a->run, atomic_fetch_add(&a->streams, 1) + 1);
    rc = ea_feed_open(ret,
                      &(ea_feed_options){.source = source,
                                         .stream = stream,
                                         .delay_ns = r->session->flush_ns,
                                         .keyframe_ns = r->session->keyframe_ns,
                                         .live = 1,
                                         .priority = ea_priority_of(r->session->priority),
                                         .batching = &r->generation->c.batching,
                                         .schemas = r->schemas,
                                         .ask = r->tdh ? &r->ask : NULL,
                                         .counters = r->counters},
                      err);
    r->live = rc ? NULL : live;
    return rc;
}

/* They were lost before there was a ledger. */
static void count_lost_boot_files(runner *r) {
    generation *g = r->generation;
    if (!r->session || !g->boot_files_lost)
        return;
    unsigned *lost = &g->boot_files_lost[r->session - (const ea_session_config *)g->c.sessions.items];
    ea_count(r->counters, EA_COUNT_source_boot_files_lost, *lost);
    *lost = 0;
}

/* One attempt. The feed stays when it came to its end, so that its ledger goes on. */
static int attempt(runner *r, ea_err *err) {
    agent *a = r->agent;
    const ea_agent_config *c = &r->generation->c;
    ea_feed *feed = NULL;
    uint64_t target = 0;
    memset(r->counters, 0, sizeof *r->counters);
    ea_damage_log_deinit(&r->damage);
    ea_schemas_destroy(r->schemas);
    r->schemas = NULL;
    /* a session records from the first moment on, whoever this machine will be */
    int rc = r->session ? 0 : ea_shipping_target(&c->shipping, &target, err);
    if (!rc)
        rc = ea_schema_options_read(&r->schemas, &c->schemas, err);
    if (!rc && r->session)
        rc = open_session(r, &feed, err);
    else if (!rc)
        rc = ea_feed_open(&feed,
                          &(ea_feed_options){.paths = r->c->files.items,
                                             .path_count = r->c->files.count,
                                             .speed = (double)r->c->speed,
                                             .remember = 1,
                                             .priority = ea_priority_of(r->c->priority),
                                             .batching = &c->batching,
                                             .schemas = r->schemas,
                                             .counters = r->counters,
                                             .on_damage = ea_damage_log_add,
                                             .on_damage_arg = &r->damage},
                          err);
    if (rc)
        return rc;
    rc = ea_feed_attach(feed, a->spool, r->session ? 0 : target, err);
    if (!rc) {
        ea_mutex_lock(a->lock);
        rc = ea_pipeline_set_labels(feed->pipeline, &r->labelled->labels, err);
        r->feed = rc ? NULL : feed;
        r->state = rc ? WAITS : READS;
        ea_mutex_unlock(a->lock);
    }
    if (!rc) {
        set_trouble(r, 0, NULL);
        count_lost_boot_files(r);
        ea_count(r->counters, EA_COUNT_source_starts_refused, r->starts_refused);
        r->starts_refused = 0;
        rc = ea_feed_run(feed, err);
    }
    ea_mutex_lock(a->lock);
    if (rc)
        r->feed = NULL;
    r->state = rc ? WAITS : READ;
    ea_mutex_unlock(a->lock);
    if (rc)
        ea_feed_close(feed);
    return rc;
}

static void work(void *arg) {
    runner *r = arg;
    agent *a = r->agent;
    while (!atomic_load(&r->stop)) {
        ea_err err = {0};
        int rc = attempt(r, &err);
        if (!rc || atomic_load(&r->stop))
            break;
        set_trouble(r, rc, &err);
        int64_t until = ea_monotonic_ns() + RETRY_NS;
        ea_mutex_lock(a->lock);
        while (!atomic_load(&r->stop) && ea_monotonic_ns() < until)
            ea_cond_wait_for(a->wake, a->lock, until - ea_monotonic_ns());
        ea_mutex_unlock(a->lock);
    }
    atomic_store(&r->over, 1);
}

/* c or session is NULL. */
static int start_runner(agent *a, generation *g, const ea_file_source_config *c, const ea_session_config *session,
                        ea_err *err) {
    const char *name = c ? c->name : session->name;
    runner *r = calloc(1, sizeof *r);
    if (r)
        r->counters = calloc(1, sizeof *r->counters);
    if (!r || !r->counters) {
        free(r);
        return ea_fail(err, EA_ENOMEM, "start %.128s", name);
    }
    r->agent = a;
    r->generation = r->labelled = g;
    g->users += 2;
    r->name = name;
    r->c = c;
    r->session = session;
    int rc = ea_thread_start(&r->thread, "source", work, r, err);
    if (rc) {
        g->users -= 2;
        free(r->counters);
        free(r);
        return rc;
    }
    ea_mutex_lock(a->lock);
    r->next = a->runners;
    a->runners = r;
    ea_mutex_unlock(a->lock);
    return 0;
}

/* Asks it to end; may be called again and again. */
static void ask_runner(runner *r) {
    agent *a = r->agent;
    ea_mutex_lock(a->lock);
    atomic_store(&r->stop, 1);
    if (r->feed && r->state == READS)
        ea_feed_stop(r->feed);
    ea_cond_broadcast(a->wake);
    ea_mutex_unlock(a->lock);
}

/* Makes the closing batch of each stream whose source is at its end and whose events are all acknowledged; at_once: of
 * each session's stream too, since no later run continues it. Returns how many streams still wait for theirs. */
static size_t end_streams(agent *a, runner *only, int at_once) {
    size_t left = 0;
    for (runner *r = only ? only : a->runners; r; r = only ? NULL : r->next) {
        ea_err err;
        ea_mutex_lock(a->lock);
        ea_feed *feed = r->state == READ ? r->feed : NULL;
        ea_mutex_unlock(a->lock);
        int rc = feed ? ea_feed_end(feed, at_once && r->session, &err) : 1;
        if (rc < 0)
            ea_say(EA_SAID_TROUBLE, "the end of %.128s: %s", r->name, err.message);
        left += rc == 0;
    }
    return left;
}

/* Ends it; what it has in the spool is still its. */
static void halt_runner(runner *r) {
    while (!atomic_load(&r->over)) {
        ask_runner(r);
        ea_sleep_ns(TICK_NS / 10);
    }
    ea_thread_join(r->thread);
    r->thread = NULL;
}

/* Ends it and takes it out of the list. */
static void stop_runner(agent *a, runner *r) {
    halt_runner(r);
    (void)end_streams(a, r, 1);
    ea_mutex_lock(a->lock);
    for (runner **p = &a->runners; *p; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            break;
        }
    ea_feed *feed = r->feed;
    r->feed = NULL;
    ea_mutex_unlock(a->lock);
    ea_feed_close(feed);
    ea_tdh_close(r->tdh);
    ea_schemas_destroy(r->schemas);
    ea_damage_log_deinit(&r->damage);
    release(r->generation);
    release(r->labelled);
    free(r->counters);
    free(r);
}

/* ---- what the collector says ---- */

static void each_pipeline(void *arg, ea_pipeline_visit visit, void *visit_arg) {
    agent *a = arg;
    char name[EA_SESSION_NAME_MAX + 16];
    ea_mutex_lock(a->lock); /* until a renewed stream's next batches have the new name: a moment of encoding */
    int found = 0;
    for (runner *r = a->runners; r && !found; r = r->next) {
        snprintf(name, sizeof name, "%s %.*s", r->c ? "source" : "session", EA_SESSION_NAME_MAX, r->name);
        found = r->feed && visit(visit_arg, name, r->feed->pipeline);
    }
    ea_mutex_unlock(a->lock);
}

static void on_trouble(void *arg, const ea_err *err) {
    agent *a = arg;
    ea_mutex_lock(a->lock);
    note(&a->line_trouble, "shipping", err->code, err);
    ea_mutex_unlock(a->lock);
}

static enum ea_sender_pace pace_now(void *thrift) {
    return ea_thrift_pace(thrift, ea_monotonic_ns());
}

/* ---- starting and stopping the rest ---- */

/* The agent's certificate: 1 when there is one that can be sent under. */
static int see_to_certificate(agent *a) {
    const ea_shipping_options *o = &a->generation->c.shipping;
    ea_enroller_status s;
    ea_err err = {0};
    if (!o->enroll)
        return 1;
    if (!a->enroller && ea_enroller_start(&a->enroller, o, &err)) {
        note(&a->enroll_trouble, "enrolment", err.code, &err);
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
    note(&a->enroll_trouble, "enrolment", s.trouble.code, &s.trouble);
    return s.state == EA_ENROLLER_HAS;
}

static int has_runner(const agent *a, const char *name, int is_session) {
    for (const runner *r = a->runners; r; r = r->next)
        if (strcmp(r->name, name) == 0 && !!r->session == is_session)
            return 1;
    return 0;
}

/* Starts what the configuration asks for and what does not run. */
static void start_missing(agent *a) {
    generation *g = a->generation;
    char name[EA_CERTIFICATE_NAME_BYTES];
    ea_err err = {0};
    int may_send = see_to_certificate(a); /* also where there is nothing to send yet */
    if (!runnable(&g->c))
        return;
    if (!a->spool) {
        ea_err
            unknown; /* without a certificate yet, or with one that cannot be used: that is said when it is to send */
        int is_known = ea_shipping_name(&g->c.shipping, name, &unknown) == 0;
        int rc = ea_shipping_open_spool(&a->spool, &g->c.shipping, is_known ? name : NULL, 1, &a->counters, &err);
        note(&a->spool_trouble, "spool", rc, &err);
        if (rc)
            return;
    }
    if (!a->sender && may_send) {
        a->events =
            (ea_sender_events){.spool = a->spool, .each_pipeline = each_pipeline, .on_trouble = on_trouble, .arg = a};
        ea_sender_options so = ea_shipping_sender(&g->c.shipping, &a->counters, &a->events);
        so.fail_fast = 0;
        so.give_up_ns = 0;
        so.renew = ea_sender_events_renew;
        ea_thrift_init(&a->thrift, (enum ea_sender_pace)g->c.shipping.on_battery,
                       (enum ea_sender_pace)g->c.shipping.on_metered, &ea_thrift_of_machine, say_problem, NULL);
        so.pace = pace_now;
        so.pace_arg = &a->thrift;
        int rc = ea_shipping_name(&g->c.shipping, name, &err);
        if (!rc)
            rc = ea_spool_own(a->spool, name, &err);
        so.name = name;
        if (!rc)
            rc = ea_sender_start(&a->sender, a->spool, &so, &err);
        note(&a->sender_trouble, "shipping", rc, &err);
    }
    const ea_file_source_config *sources = g->c.sources.items;
    for (size_t i = 0; may_send && i < g->c.sources.count; i++)
        if (!has_runner(a, sources[i].name, 0) && start_runner(a, g, &sources[i], NULL, &err))
            ea_say(EA_SAID_TROUBLE, "%s", err.message);
    const ea_session_config *sessions = g->c.sessions.items;
    for (size_t i = 0; ea_live_is_possible() && i < g->c.sessions.count; i++)
        if (!has_runner(a, sessions[i].name, 1) && start_runner(a, g, NULL, &sessions[i], &err))
            ea_say(EA_SAID_TROUBLE, "%s", err.message);
}

static void stop_shipping(agent *a) {
    ea_err err;
    ea_enroller_stop(a->enroller);
    a->enroller = NULL;
    ea_sender_destroy(a->sender);
    a->sender = NULL;
    if (a->spool && ea_spool_close(a->spool, &err))
        ea_say(EA_SAID_TROUBLE, "%s", err.message);
    a->spool = NULL;
}

/* ---- another configuration ---- */

static void count_change(void *arg, const char *path) {
    (void)path;
    ++*(unsigned *)arg;
}

static unsigned changes(const ea_table *table, const void *before, const void *after) {
    unsigned n = 0;
    ea_config_compare(table, before, after, count_change, &n);
    return n;
}

static int same_labels(const ea_labels *a, const ea_labels *b) {
    int same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->items[i].name, b->items[i].name) == 0 && strcmp(a->items[i].value, b->items[i].value) == 0;
    return same;
}

/* What goes on untouched says from its next batch on what the new configuration calls the machine. */
static void relabel(agent *a, runner *r, generation *g) {
    ea_err err;
    ea_mutex_lock(a->lock);
    generation *before = r->labelled;
    r->labelled = g;
    g->users++;
    int rc = r->feed ? ea_pipeline_set_labels(r->feed->pipeline, &g->labels, &err) : 0;
    ea_mutex_unlock(a->lock);
    release(before);
    if (rc)
        ea_say(EA_SAID_TROUBLE, "%s %.128s: %s", r->c ? "source" : "session", r->name, err.message);
}

/* A source or session goes on untouched when nothing that it reads of the configuration differs. */
static int same_source(const runner *r, const generation *g) {
    const ea_session_config *sessions = g->c.sessions.items;
    for (size_t i = 0; r->session && i < g->c.sessions.count; i++)
        if (strcmp(sessions[i].name, r->name) == 0)
            return !changes(&ea_session_table, r->session, &sessions[i]);
    const ea_file_source_config *sources = g->c.sources.items;
    for (size_t i = 0; r->c && i < g->c.sources.count; i++)
        if (strcmp(sources[i].name, r->name) == 0)
            return !changes(&ea_file_source_table, r->c, &sources[i]);
    return 0;
}

static int read_checked_config(const agent *a, generation **ret, ea_err *err) {
    int rc = a->o->check_config ? a->o->check_config(a->path, err) : 0;
    return rc ? rc : read_config(a->path, ret, err);
}

static void reload(agent *a) {
    generation *g;
    ea_err err = {0};
    if (read_checked_config(a, &g, &err)) {
        if (err.code != EA_EFORMAT) /* its mistakes were said */
            ea_say(EA_SAID_TROUBLE, "%s", err.message);
        ea_say(EA_SAID_REFUSED, "the configuration that runs stays as it is");
        a->reloads_refused++;
        return;
    }
    add_boot_sources(g);
    const ea_agent_config *before = &a->generation->c;
    int line = changes(&ea_shipping_table, &before->shipping, &g->c.shipping) != 0;
    int all = line || changes(&ea_batching_table, &before->batching, &g->c.batching) ||
              changes(&ea_schemas_table, &before->schemas, &g->c.schemas);
    int labels = !same_labels(&a->generation->labels, &g->labels);
    size_t kept = 0, ended = 0;
    runner *next;
    for (runner *r = a->runners; r; r = r->next)
        if (all || !same_source(r, g))
            ask_runner(r);
    for (runner *r = a->runners; r; r = next) {
        next = r->next;
        if (all || !same_source(r, g)) {
            stop_runner(a, r);
            ended++;
        } else {
            if (labels)
                relabel(a, r, g);
            kept++;
        }
    }
    if (line)
        stop_shipping(a);
    release(a->generation);
    a->generation = g;
    a->tried_ns = 0;
    a->reloads++;
    size_t fresh = runnable(&g->c) - kept;
    ea_say(EA_SAID_RELOADED, "configuration read again: %zu source%s, %zu ended, %zu %s%s%s", kept,
           kept == 1 ? " goes on" : "s go on", ended, fresh, fresh == 1 ? "begins" : "begin",
           line ? "; shipping begins anew" : "", labels ? "; new labels go out with the next batches" : "");
}

/* ---- the status file ---- */

static void put_trouble(ea_text *t, const trouble *x) {
    ea_text_str(t, ", \"trouble\": ");
    ea_text_json_str(t, x->text);
}

/* By their names; which ends with EA_COUNTER_COUNT. */
static void put_counters(ea_text *t, const ea_counters *c, const enum ea_counter *which) {
    for (; *which != EA_COUNTER_COUNT; which++)
        ea_text_printf(t, ", \"%s\": %" PRIu64, ea_counter_row(*which)->name, ea_counter_get(c, *which));
}

/* What Windows made of a session, and what it admits to. With the agent's lock. */
static void put_session(ea_text *t, const runner *r, const ea_counters *c) {
    ea_live_status s = {.name = ""};
    if (r->feed && r->live)
        ea_live_get_status(r->live, &s);
    ea_text_str(t, ",\n   \"session\": {\"name\": ");
    ea_text_json_str(t, s.name);
    ea_text_printf(t,
                   ", \"runs\": %s, \"logger\": %" PRIu32 ", \"buffer_bytes\": %" PRIu64 ", \"min_buffers\": %" PRIu32
                   ", \"max_buffers\": %" PRIu32 ", \"buffers\": %" PRIu32 ", \"free_buffers\": %" PRIu32
                   ", \"mode\": \"0x%08" PRIx32 "\", \"flush_seconds\": %" PRIu32 ", \"clock\": %" PRIu32
                   ", \"file_mib\": %" PRIu32 ", \"starts\": %" PRIu64 ", \"ended_by_others\": %" PRIu64
                   ", \"grown\": %" PRIu64 ", \"rundowns\": %" PRIu64 ", \"rundown_events\": %" PRIu64
                   ", \"events\": %" PRIu64 ", \"written_buffers\": %" PRIu64 ", \"lost_events\": %" PRIu64
                   ", \"lost_buffers\": %" PRIu64 ", \"dropped_events\": %" PRIu64 ", \"refused_counters\": %" PRIu64
                   ", \"refused_parts\": %" PRIu64 ", \"ring_used_bytes\": %zu",
                   s.runs ? "true" : "false", s.logger, s.buffer_bytes, s.min_buffers, s.max_buffers, s.buffers,
                   s.free_buffers, s.mode, s.flush_seconds, s.clock, s.file_mib, s.starts, s.steals, s.grown,
                   s.rundowns, s.rundown_records, s.delivered, s.written_buffers, s.lost_events, s.lost_buffers,
                   ea_counter_get(c, EA_COUNT_events_dropped_full), ea_counter_get(c, EA_COUNT_source_counters_refused),
                   ea_counter_get(c, EA_COUNT_source_parts_refused), s.ring_used_bytes);
    put_counters(t, c, (const enum ea_counter[]){EA_COUNT_decode_asked, EA_COUNT_decode_unanswered, EA_COUNTER_COUNT});
    static const enum ea_counter IMAGES[] = {
        EA_COUNT_images_asked,     EA_COUNT_images_told,    EA_COUNT_images_read,       EA_COUNT_images_cached,
        EA_COUNT_images_absent,    EA_COUNT_images_refused, EA_COUNT_images_unreadable, EA_COUNT_images_other,
        EA_COUNT_images_left_full, EA_COUNT_images_left_end};
    for (size_t i = 0; r->session->images && i < sizeof IMAGES / sizeof *IMAGES; i++)
        ea_text_printf(t, ", \"%s\": %" PRIu64, ea_counter_row(IMAGES[i])->name, ea_counter_get(c, IMAGES[i]));
    ea_text_char(t, '}');
}

/* With the agent's lock. Adds to *lost. */
static int put_source(ea_text *t, const runner *r, uint64_t *lost) {
    static const char *const STATES[] = {[WAITS] = "waiting", [READS] = "reading", [READ] = "read"};
    uint8_t stream[EA_STREAM_ID_BYTES] = {0};
    ea_pipeline_status p = {0};
    ea_counters c = {0};
    ea_ledger_families families;
    ea_err err;
    int balanced = 1, shipped = 0;
    if (r->feed) {
        ea_pipeline_stream(r->feed->pipeline, stream);
        ea_pipeline_get_status(r->feed->pipeline, &p);
        ea_ledger_snapshot(r->feed->ledger, &c, &families);
        balanced = ea_ledger_check(&c, &families, &err) == 0;
        shipped = r->state == READ &&
                  ea_counter_get(&c, EA_COUNT_events_acknowledged) ==
                      ea_counter_get(&c, EA_COUNT_events_batched) + ea_counter_get(&c, EA_COUNT_events_synthesised);
    }
    ea_text_str(t, "{\"name\": ");
    ea_text_json_str(t, r->name);
    ea_text_printf(t, ", \"state\": \"%s\", \"stream\": \"", shipped ? "shipped" : STATES[r->state]);
    ea_text_hex(t, stream, sizeof stream);
    ea_text_printf(t, "\", \"progress_permille\": %u", r->feed ? atomic_load(&r->feed->progress_permille) : 0);
    static const enum ea_counter SHOWN[] = {
        EA_COUNT_events_delivered,      EA_COUNT_events_synthesised,     EA_COUNT_events_acknowledged,
        EA_COUNT_events_pending,        EA_COUNT_events_compressing,     EA_COUNT_events_spooled,
        EA_COUNT_events_unanswered,     EA_COUNT_events_evicted_size,    EA_COUNT_events_evicted_age,
        EA_COUNT_events_evicted_damage, EA_COUNT_events_evicted_refused, EA_COUNT_events_dropped_oversize};
    enum { FIRST_LOST = 7 }; /* of SHOWN: from here on they are gone */
    for (size_t i = 0; i < sizeof SHOWN / sizeof *SHOWN; i++) {
        ea_text_printf(t, ", \"%s\": %" PRIu64, ea_counter_row(SHOWN[i])->name, ea_counter_get(&c, SHOWN[i]));
        if (i >= FIRST_LOST)
            *lost += ea_counter_get(&c, SHOWN[i]);
    }
    put_counters(
        t, &c,
        (const enum ea_counter[]){EA_COUNT_source_held_seconds, EA_COUNT_source_paced_seconds, EA_COUNTER_COUNT});
    ea_text_printf(t, ", \"batches\": %" PRIu64 ", \"ledger_balanced\": %s", p.batches, balanced ? "true" : "false");
    put_trouble(t, &r->trouble);
    if (r->session) {
        *lost += ea_counter_get(&c, EA_COUNT_events_dropped_full) + ea_counter_get(&c, EA_COUNT_source_events_lost);
        put_session(t, r, &c);
    }
    ea_text_char(t, '}');
    return balanced;
}

/* What each status begins with. */
static void put_status_head(const agent *a, const char *state, int64_t every_ns, ea_text *t) {
    ea_text_printf(t, "{\"state\": \"%s\", \"version\": \"%s\", \"pid\": %" PRIu32 ", \"configuration\": ", state,
                   EA_VERSION, ea_process_id());
    ea_text_json_str(t, a->path);
    ea_text_printf(t, ", \"started_utc_ns\": %" PRId64 ", \"written_utc_ns\": %" PRId64 ", \"every_ns\": %" PRId64,
                   a->started_utc_ns, ea_utc_ns(), every_ns);
}

static void put_enrolment(const agent *a, ea_text *t) {
    static const char *const STATES[] = {
        [EA_ENROLLER_WANTS] = "waiting", [EA_ENROLLER_HAS] = "enrolled", [EA_ENROLLER_FRESH] = "enrolled"};
    ea_enroller_status s = {.state = EA_ENROLLER_WANTS};
    if (!a->enroller)
        return;
    ea_enroller_get_status(a->enroller, &s);
    ea_text_printf(t, "},\n \"enrolment\": {\"state\": \"%s\", \"until_utc_ns\": %" PRId64, STATES[s.state],
                   s.not_after_s * INT64_C(1000000000));
    put_trouble(t, &a->enroll_trouble);
}

static void put_status(agent *a, const char *state, ea_text *t, uint64_t *lost) {
    const ea_agent_config *c = &a->generation->c;
    int balanced = 1;
    put_status_head(a, state, c->service.status_every_ns, t);
    ea_text_printf(t, ", \"reloads\": %" PRIu64 ", \"reloads_refused\": %" PRIu64 ",\n \"sources\": [", a->reloads,
                   a->reloads_refused);
    ea_mutex_lock(a->lock);
    for (const runner *r = a->runners; r; r = r->next) {
        balanced &= put_source(t, r, lost);
        ea_text_str(t, r->next ? ",\n  " : "");
    }
    ea_spool_status s = {0};
    ea_sender_status n = {0};
    if (a->spool)
        ea_spool_get_status(a->spool, &s);
    if (a->sender)
        ea_sender_get_status(a->sender, &n);
    ea_text_printf(t, "],\n \"spool\": {\"batches\": %zu, \"disk_bytes\": %" PRIu64, s.waiting + s.taken, s.disk_bytes);
    put_counters(t, &a->counters,
                 (const enum ea_counter[]){EA_COUNT_spool_torn_bytes, EA_COUNT_spool_bad_bytes,
                                           EA_COUNT_spool_locked_events, EA_COUNTER_COUNT});
    put_trouble(t, &a->spool_trouble);
    ea_text_printf(t,
                   "},\n \"shipping\": {\"requests\": %" PRIu64 ", \"failures\": %" PRIu64 ", \"sent_bytes\": %" PRIu64
                   ", \"collector\": ",
                   n.requests, n.failures, n.sent_bytes);
    ea_text_json_str(
        t, a->sender && n.collector < c->shipping.collectors.count ? c->shipping.collectors.items[n.collector] : "");
    put_counters(t, &a->counters,
                 (const enum ea_counter[]){EA_COUNT_batches_sent, EA_COUNT_batches_refused, EA_COUNT_collector_moves,
                                           EA_COUNT_shipping_held_seconds, EA_COUNTER_COUNT});
    put_trouble(t, a->sender_trouble.text[0] ? &a->sender_trouble : &a->line_trouble);
    ea_mutex_unlock(a->lock);
    put_enrolment(a, t);
    ea_text_printf(t, "},\n \"ledger_balanced\": %s}\n", balanced ? "true" : "false");
}

/* Hands a status to who asked for it, and writes it where "etwagent status" looks. configured: the path that the
 * configuration names; NULL: the usual one. */
static void publish_status(agent *a, const ea_text *t, const char *configured) {
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
    note(&a->status_trouble, "status file", rc, &err);
}

static void write_status(agent *a, const char *state) {
    ea_text t;
    uint64_t lost = 0;
    ea_text_init(&t);
    put_status(a, state, &t, &lost);
    if (lost > a->lost)
        ea_say(EA_SAID_LOST, "%" PRIu64 " more events were lost; \"etwagent status\" says where", lost - a->lost);
    a->lost = lost;
    publish_status(a, &t, a->generation->c.service.status);
    ea_text_deinit(&t);
}

/* ---- the run ---- */

/* What the part "service" says of the program itself. */
static void apply_service(agent *a) {
    const ea_service_config *c = &a->generation->c.service;
    char path[EA_AGENT_PATH_BYTES];
    ea_err err = {0};
    int rc = 0;
    if (c->log || a->o->log_by_default) {
        rc = ea_agent_file_path(c->log, "log.txt", path, &err);
        if (!rc)
            rc = ea_path_make_parent(path, &err);
    }
    if (!rc)
        rc = ea_say_file(c->log || a->o->log_by_default ? path : NULL, c->log_bytes, (unsigned)c->log_lines, &err);
    note(&a->log_trouble, "log", rc, &err);
    ea_set_bulk_priority((enum ea_bulk_priority)c->bulk_priority);
    if (a->o->on_config)
        a->o->on_config(a->o->arg, &a->generation->c);
}

/* What waits on this machine is forced to the disk, and sent without the pause behind a failure. */
static void flush(agent *a) {
    ea_err err;
    if (a->spool && ea_spool_sync(a->spool, &err))
        ea_say(EA_SAID_TROUBLE, "%s", err.message);
    if (a->sender)
        ea_sender_hurry(a->sender);
}

/* Its end was read, and all of it is in batches that the spool holds or a collector has; one who was asked to end may
 * have stopped before. With the agent's lock. */
static int is_in_spool(const runner *r) {
    ea_counters c = {0};
    ea_ledger_families families;
    if (!r->feed || r->state != READ || atomic_load(&r->stop))
        return 0;
    ea_ledger_snapshot(r->feed->ledger, &c, &families);
    return ea_counter_get(&c, EA_COUNT_events_pending) + ea_counter_get(&c, EA_COUNT_events_compressing) == 0;
}

/* A boot session's file whose events the spool has on disk makes room for those of later boots. It is still open; so is
 * no file that has the name which it gets. */
static void put_away_boot_files(agent *a) {
    for (runner *r = a->runners; r; r = r->next) {
        ea_err err;
        if (!r->c || !r->c->taken || r->is_put_away)
            continue;
        ea_mutex_lock(a->lock);
        r->is_put_away = is_in_spool(r);
        ea_mutex_unlock(a->lock);
        if (!r->is_put_away)
            continue;
        const char *file = r->c->files.items[0], *name = r->c->taken;
        int rc = ea_spool_sync(a->spool, &err);
        if (!rc)
            rc = *name ? ea_path_rename(file, name, &err) : ea_path_remove(file, &err);
        if (rc)
            ea_say(EA_SAID_TROUBLE, "source %.128s: %s", r->name, err.message);
    }
}

static void tick(agent *a) {
    int64_t now = ea_monotonic_ns();
    atomic_fetch_add(&a->asks->beats, 1);
    if (atomic_exchange(&a->asks->reload, 0)) {
        reload(a);
        apply_service(a);
    }
    if (a->enroller)
        (void)see_to_certificate(a);
    if (!a->tried_ns || now - a->tried_ns >= RETRY_NS) {
        a->tried_ns = now;
        start_missing(a);
    }
    if (atomic_exchange(&a->asks->flush, 0))
        flush(a);
    (void)end_streams(a, NULL, 0);
    if (atomic_exchange(&a->asks->status, 0) || !a->status_ns ||
        now - a->status_ns >= a->generation->c.service.status_every_ns) {
        a->status_ns = now;
        put_away_boot_files(a);
        write_status(a, "running");
    }
}

/* Why nothing runs yet. */
static void tell_waiting(agent *a) {
    ea_text t;
    ea_text_init(&t);
    put_status_head(a, "waiting", RETRY_NS, &t);
    put_trouble(&t, &a->config_trouble);
    ea_text_str(&t, ", \"ledger_balanced\": true}\n");
    publish_status(a, &t, NULL);
    ea_text_deinit(&t);
}

/* Reads the configuration; a patient agent waits for one that can be read. EA_ECANCELED: asked to stop meanwhile. */
static int first_config(agent *a, ea_err *err) {
    for (;;) {
        int rc = read_checked_config(a, &a->generation, err);
        if (!rc && !runnable(&a->generation->c) && !a->o->patient) {
            release(a->generation);
            a->generation = NULL;
            return ea_fail(err, EA_EUSAGE, "%s asks for nothing that this program can run: name a source", a->path);
        }
        if (!rc || !a->o->patient)
            return rc;
        note(&a->config_trouble, "configuration", rc, err);
        tell_waiting(a);
        int64_t until = ea_monotonic_ns() + RETRY_NS;
        while (ea_monotonic_ns() < until && !atomic_exchange(&a->asks->reload, 0)) {
            if (atomic_load(&a->asks->stop))
                return ea_fail(err, EA_ECANCELED, "read %s", a->path);
            atomic_fetch_add(&a->asks->beats, 1);
            if (atomic_exchange(&a->asks->status, 0))
                tell_waiting(a);
            ea_sleep_ns(TICK_NS);
        }
    }
}

static void run_until_stopped(agent *a) {
    note(&a->config_trouble, "configuration", 0, NULL);
    apply_service(a);
    add_boot_sources(a->generation); /* what is said of them goes into the log */
    size_t sources = a->generation->c.sources.count, sessions = runnable(&a->generation->c) - sources;
    ea_say(EA_SAID_STARTED, "started with %s, %zu source%s, %zu session%s", a->path, sources, sources == 1 ? "" : "s",
           sessions, sessions == 1 ? "" : "s");
    while (!atomic_load(&a->asks->stop)) {
        tick(a);
        ea_sleep_ns(TICK_NS);
    }
    for (runner *r = a->runners; r; r = r->next) /* all at once, then one after the other */
        ask_runner(r);
    for (runner *r = a->runners; r; r = r->next)
        halt_runner(r);
    if (a->sender && !atomic_load(&a->asks->hurry)) { /* what waits may go now; else it goes after the next start */
        int64_t until = ea_monotonic_ns() + LAST_WORDS_NS;
        while (end_streams(a, NULL, 0) && ea_monotonic_ns() < until && !ea_sender_wait(a->sender, TICK_NS / 10))
            ;
        (void)end_streams(a, NULL, 1);
        ea_sender_drain(a->sender);
        int64_t left = until - ea_monotonic_ns();
        (void)ea_sender_wait(a->sender, left > 0 ? left : 0);
    }
    write_status(a, "stopped");
    while (a->runners)
        stop_runner(a, a->runners);
    stop_shipping(a);
    ea_say(EA_SAID_STOPPED, "stopped");
}

int ea_agent_run(const ea_agent_options *options, ea_err *err) {
    agent *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "run");
    a->o = options;
    a->asks = options->asks;
    a->path = options->config_path;
    a->started_utc_ns = ea_utc_ns();
    int rc = ea_mutex_create(&a->lock, err);
    if (!rc)
        rc = ea_cond_create(&a->wake, err);
    if (!rc)
        rc = ea_random_bytes(a->run, sizeof a->run, err);
    if (!rc)
        rc = first_config(a, err);
    if (!rc)
        run_until_stopped(a);
    if (rc == EA_ECANCELED)
        rc = 0;
    release(a->generation);
    ea_cond_destroy(a->wake);
    ea_mutex_destroy(a->lock);
    free(a);
    return rc;
}
