/* Triggers: firing, and the thread that sends windows. See triggers.h. */
#include "service/core/triggers.h"

#include "proto/base/array.h"
#include "service/core/agent_log.h"
#include "service/core/triggers_parts.h"

#include <stdlib.h>
#include <string.h>

static const int64_t TRY_AGAIN_NS = (int64_t)10 * 1000000000, DAY_NS = (int64_t)86400 * 1000000000;
static const int64_t ASKED_MAX_NS = (int64_t)366 * 86400 * 1000000000;

static char *triggers_path(const ea_spool *recorder) {
    static const char NAME[] = "/triggers";
    const char *dir = ea_spool_folder(recorder);
    size_t n = strlen(dir) + sizeof NAME;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s%s", dir, NAME);
    return path;
}

int ea_triggers_left(const ea_spool *recorder) {
    char *path = triggers_path(recorder);
    int is_there = path && ea_path_exists(path);
    free(path);
    return is_there;
}

/* ---- firing ---- */

void ea_triggers_each_fired(const ea_triggers *t,
                            void (*fn)(void *arg, const char *program, const char *trigger, int64_t utc_ns),
                            void *arg) {
    for (size_t i = 0; i < t->fired_count; i++)
        fn(arg, t->fired[i].program, t->fired[i].trigger, t->fired[i].utc_ns);
}

/* A time that a file can have. */
static int64_t since_1970(int64_t utc_ns) {
    return utc_ns < 0 ? 0 : utc_ns;
}

/* With lock. Firings that no limit counts any more leave: they are a day old, or others of this trigger came after
 * them. So does the oldest of all where there are too many. */
static int triggers_note_fired(ea_triggers *t, const char *program, const char *trigger, int64_t utc_ns) {
    size_t first = t->fired_count, of_this = 0; /* those that stay end where all do */
    for (size_t i = t->fired_count; i--;) {
        const trigger_fired *f = &t->fired[i];
        if (utc_ns - f->utc_ns >= DAY_NS || t->fired_count - first == TRIGGER_FIRED_MAX - 1)
            continue;
        if (strcmp(f->program, program) == 0 && strcmp(f->trigger, trigger) == 0 && ++of_this >= EA_LANG_TRIGGER_MOST)
            continue;
        t->fired[--first] = *f;
    }
    t->fired_count -= first;
    if (first)
        memmove(t->fired, t->fired + first, t->fired_count * sizeof *t->fired);
    if (EA_GROW(t->fired, t->fired_capacity, t->fired_count + 1, TRIGGER_FIRED_MAX))
        return EA_ENOMEM;
    trigger_fired *f = &t->fired[t->fired_count++];
    snprintf(f->program, sizeof f->program, "%s", program);
    snprintf(f->trigger, sizeof f->trigger, "%s", trigger);
    f->utc_ns = utc_ns;
    return 0;
}

void ea_triggers_fire(ea_triggers *t, const char *program, const ea_lang_trigger *trigger, int64_t utc_ns,
                      int64_t row_utc_ns) {
    int is_lost = 0;
    utc_ns = since_1970(utc_ns);
    ea_mutex_lock(t->lock);
    if (triggers_note_fired(t, program, trigger->name, utc_ns) ||
        EA_GROW(t->windows, t->window_capacity, t->window_count + 1, TRIGGER_WINDOWS_MAX)) {
        is_lost = 1;
    } else {
        int64_t end = utc_ns > INT64_MAX - trigger->after_ns ? INT64_MAX : utc_ns + trigger->after_ns;
        t->windows[t->window_count++] =
            (trigger_window){.from_utc_ns = since_1970(utc_ns - trigger->before_ns),
                             .to_utc_ns = row_utc_ns > end ? row_utc_ns : end,
                             .due_ns = ea_monotonic_ns() + trigger->after_ns + t->o.slack_ns};
    }
    t->is_unsaved = 1;
    ea_cond_broadcast(t->changed);
    ea_mutex_unlock(t->lock);
    ea_ledger_post(t->o.ledger, (ea_posting[]){{EA_COUNT_triggers_fired, 1}, {EA_COUNT_windows_untriggered, is_lost}},
                   2, NULL, 0);
}

int ea_triggers_ask(ea_triggers *t, const ea_triggers_request *r, ea_err *err) {
    int64_t utc_ns = ea_utc_ns(), left = r->to_utc_ns > utc_ns ? r->to_utc_ns - utc_ns : 0;
    ea_mutex_lock(t->lock);
    int rc = EA_GROW(t->windows, t->window_capacity, t->window_count + 1, TRIGGER_WINDOWS_MAX);
    if (!rc)
        t->windows[t->window_count++] = (trigger_window){
            .from_utc_ns = since_1970(r->from_utc_ns),
            .to_utc_ns = r->to_utc_ns - 1,
            .due_ns = ea_monotonic_ns() + (left ? (left < ASKED_MAX_NS ? left : ASKED_MAX_NS) + t->o.slack_ns : 0),
            .serial = r->serial,
            .limit_bytes = r->limit_bytes};
    ea_cond_broadcast(t->changed);
    ea_mutex_unlock(t->lock);
    return rc ? ea_fail(err, rc, "too many windows wait") : 0;
}

/* ---- the thread ---- */

static void triggers_warn(ea_triggers *t, const ea_err *why) {
    if (strcmp(t->warned, why->message) != 0)
        ea_log_warning("session %.128s: windows of triggers are not sent: %s", t->o.name, why->message);
    memcpy(t->warned, why->message, sizeof t->warned);
}

/* With lock. The windows that are due come first. Returns how many are planned together: a request's alone. */
static size_t sort_due(ea_triggers *t, int64_t now_ns) {
    size_t due = 0;
    for (size_t i = 0; i < t->window_count; i++) {
        trigger_window w = t->windows[i];
        if (!t->is_finishing && w.due_ns > now_ns)
            continue;
        t->windows[i] = t->windows[due];
        t->windows[due++] = w;
    }
    size_t together = 0;
    while (together < due && !t->windows[together].serial)
        together++;
    return due && !together ? 1 : together;
}

/* Plans the windows that are due; the file has them, or the plans. Returns how many there were, or an error. */
static int plan_due(ea_triggers *t, ea_err *err) {
    trigger_window *windows = NULL;
    ea_mutex_lock(t->lock);
    size_t due = sort_due(t, ea_monotonic_ns());
    if (due && (windows = malloc(due * sizeof *windows)))
        memcpy(windows, t->windows, due * sizeof *windows);
    ea_mutex_unlock(t->lock);
    if (!due)
        return 0;
    ea_triggers_outcome outcome = {0};
    int rc = windows ? triggers_plan(t, windows, due, &outcome, err) : ea_fail(err, EA_ENOMEM, "plan windows");
    uint64_t asked = windows ? windows->serial : 0;
    free(windows);
    if (rc)
        return rc;
    t->asked = asked;
    t->outcome = outcome;
    ea_mutex_lock(t->lock); /* others only add windows, after these */
    t->window_count -= due;
    memmove(t->windows, t->windows + due, t->window_count * sizeof *t->windows);
    ea_mutex_unlock(t->lock);
    rc = triggers_save(t, err);
    return rc ? rc : (int)due;
}

/* What is to be done now. Returns 0 when there is nothing, 1, or an error. */
static int do_work(ea_triggers *t, int is_unsaved, ea_err *err) {
    int rc = is_unsaved ? triggers_save(t, err) : 0;
    if (!rc && !t->plan_count)
        rc = plan_due(t, err);
    if (rc < 0)
        return rc;
    if (t->plan_count) {
        rc = triggers_send(t, err);
        if (rc)
            return rc;
        ea_mutex_lock(t->lock);
        triggers_drop_plans(t);
        ea_mutex_unlock(t->lock);
        rc = triggers_save(t, err);
        if (rc)
            return rc;
        rc = 1;
    }
    if (t->asked)
        t->o.on_requested(t->o.arg, t->o.name, t->asked, &t->outcome);
    t->asked = 0;
    return rc;
}

/* With lock: until a window is due, at most so long. */
static int64_t until_due(const ea_triggers *t, int64_t now_ns, int64_t most_ns) {
    for (size_t i = 0; i < t->window_count; i++)
        if (t->windows[i].due_ns - now_ns < most_ns)
            most_ns = t->windows[i].due_ns - now_ns;
    return most_ns > 1000000 ? most_ns : 1000000;
}

static void triggers_main(void *arg) {
    ea_triggers *t = arg;
    ea_mutex_lock(t->lock);
    while (!atomic_load(&t->stop)) {
        ea_err err = {0};
        int is_unsaved = t->is_unsaved, is_finishing = t->is_finishing;
        ea_mutex_unlock(t->lock);
        int rc = do_work(t, is_unsaved, &err);
        if (rc < 0 && rc != EA_ECANCELED)
            triggers_warn(t, &err);
        else if (rc > 0)
            t->warned[0] = 0;
        ea_mutex_lock(t->lock);
        if (is_finishing && rc <= 0) { /* all is sent, or cannot be */
            t->is_finished = 1;
            ea_cond_broadcast(t->changed);
        }
        if (rc > 0 || atomic_load(&t->stop) || (t->is_unsaved && rc >= 0) || t->is_finishing != is_finishing)
            continue;
        ea_cond_wait_for(t->changed, t->lock, rc < 0 ? TRY_AGAIN_NS : until_due(t, ea_monotonic_ns(), DAY_NS));
    }
    t->is_finished = 1;
    ea_cond_broadcast(t->changed);
    ea_mutex_unlock(t->lock);
}

/* ---- from begin to end ---- */

/* An earlier process's windows: when their ends are over, by the clock. */
static void make_due(ea_triggers *t) {
    int64_t now_ns = ea_monotonic_ns(), utc_ns = ea_utc_ns();
    for (size_t i = 0; i < t->window_count; i++) {
        trigger_window *w = &t->windows[i];
        int64_t left = w->to_utc_ns > utc_ns ? w->to_utc_ns - utc_ns : 0;
        w->due_ns = now_ns + (left < DAY_NS ? left : DAY_NS) + t->o.slack_ns;
    }
}

int ea_triggers_create(ea_triggers **ret, const ea_triggers_options *options, ea_err *err) {
    ea_triggers *t = calloc(1, sizeof *t);
    if (!t)
        return ea_fail(err, EA_ENOMEM, "start triggers");
    t->o = *options;
    t->path = triggers_path(options->recorder);
    int rc = t->path ? ea_mutex_create(&t->lock, err) : ea_fail(err, EA_ENOMEM, "start triggers");
    if (!rc)
        rc = ea_cond_create(&t->changed, err);
    if (!rc)
        rc = triggers_read(t, err);
    make_due(t);
    if (!rc)
        rc = ea_thread_start(&t->thread, "triggers", triggers_main, t, err);
    if (rc) {
        ea_triggers_destroy(t);
        return rc;
    }
    *ret = t;
    return 0;
}

void ea_triggers_finish(ea_triggers *t) {
    ea_mutex_lock(t->lock);
    t->is_finishing = 1;
    ea_cond_broadcast(t->changed);
    while (!t->is_finished)
        ea_cond_wait(t->changed, t->lock);
    ea_mutex_unlock(t->lock);
}

void ea_triggers_stop(ea_triggers *t) {
    ea_mutex_lock(t->lock);
    atomic_store(&t->stop, 1);
    for (size_t i = 0; i < t->plan_count; i++)
        if (t->plans[i].is_open)
            ea_spool_cancel(t->o.spool, t->plans[i].stream);
    ea_cond_broadcast(t->changed);
    ea_mutex_unlock(t->lock);
}

void ea_triggers_destroy(ea_triggers *t) {
    ea_err err = {0};
    if (!t)
        return;
    if (t->thread) {
        ea_triggers_stop(t);
        ea_thread_join(t->thread);
        if (t->is_unsaved && triggers_save(t, &err)) /* triggers fire until the source's last event, after the stop */
            triggers_warn(t, &err);
    }
    triggers_drop_plans(t);
    triggers_drop_sent(t);
    free(t->sent);
    free(t->plans);
    free(t->windows);
    free(t->fired);
    ea_cond_destroy(t->changed);
    ea_mutex_destroy(t->lock);
    free(t->path);
    free(t);
}
