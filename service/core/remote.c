/* Requests of a collector. See remote.h. */
#include "service/core/remote.h"

#include "proto/base/clock.h"
#include "proto/base/line_log.h"
#include "service/core/agent_log.h"
#include "service/core/remote_parts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { AUDIT_BYTES = 1 << 20, STATUS_OK = 200, STATUS_NOT_FOUND = 404 };

static const int64_t BACKOFF_MAX_NS = (int64_t)3600 * 1000000000, NOT_FOUND_NS = (int64_t)600 * 1000000000;
static const int64_t SETTLE_NS = (int64_t)2 * 1000000000; /* after a start, until all sessions have their recorders */

int ea_remote_kind(const char *word, uint32_t *ret_kind) {
    if (strcmp(word, "window") != 0)
        return 0;
    *ret_kind = EA_REQUEST_WINDOW;
    return 1;
}

/* ---- the audit log ---- */

static void remote_warn(ea_remote *r, const ea_err *why) {
    if (strcmp(r->warned, why->message) != 0)
        ea_log_warning("requests: %s", why->message);
    memcpy(r->warned, why->message, sizeof r->warned);
}

/* Appends the lines that were added since the last time; a full file is renamed to .1 first. */
static int audit_append(const ea_remote *r, ea_err *err) {
    ea_file *file = NULL;
    ea_text older;
    uint64_t size_bytes = 0;
    ea_text_init(&older);
    int rc = ea_file_open(&file, r->audit_path, EA_OPEN_APPEND, err);
    if (!rc)
        rc = ea_file_size(file, &size_bytes, err);
    if (!rc && size_bytes && size_bytes + r->lines.len_bytes > AUDIT_BYTES) {
        ea_file_close(file);
        file = NULL;
        size_bytes = 0;
        ea_text_printf(&older, "%s.1", r->audit_path);
        rc = older.failed ? ea_fail(err, EA_ENOMEM, "write %s", r->audit_path)
                          : ea_path_rename(r->audit_path, older.data, err);
        if (!rc)
            rc = ea_file_open(&file, r->audit_path, EA_OPEN_APPEND, err);
    }
    if (!rc)
        rc = ea_file_write_at(file, size_bytes, r->lines.data, r->lines.len_bytes, err);
    if (!rc)
        rc = ea_file_sync(file, err);
    ea_file_close(file);
    ea_text_deinit(&older);
    return rc;
}

static void audit_flush(ea_remote *r) {
    ea_err err = {0};
    if (r->lines.failed)
        (void)ea_fail(&err, EA_ENOMEM, "write %s", r->audit_path);
    else if (r->lines.len_bytes)
        (void)audit_append(r, &err);
    if (err.code)
        remote_warn(r, &err);
    ea_text_clear(&r->lines);
}

/* Into the audit log, with audit_flush, and the agent's own. */
static void remote_audit(ea_remote *r, enum ea_log_kind kind, const ea_text *what) {
    ea_text safe;
    ea_text_init(&safe);
    if (!what->failed)
        ea_text_safe(&safe, what->data, what->len_bytes);
    if (!what->failed && !safe.failed) {
        ea_log_line(kind, "%s", safe.data);
        ea_line_log_date(&r->lines, safe.data, safe.len_bytes);
    }
    r->lines.failed |= what->failed || safe.failed;
    ea_text_deinit(&safe);
}

static void remote_put_request(ea_text *t, const ea_request *q) {
    ea_text_printf(t, "request %" PRIu64 " of hosts %s, window ", q->serial, q->hosts);
    ea_text_utc_ns(t, q->from_utc_ns);
    ea_text_str(t, " to ");
    ea_text_utc_ns(t, q->to_utc_ns);
    ea_text_printf(t, ", at most %" PRIu64 " bytes, expires ", q->limit_bytes);
    ea_text_utc_ns(t, q->expires_utc_ns);
}

/* ---- reports ---- */

/* The oldest one leaves when there are too many. */
static ea_report *add_report(ea_remote *r, uint64_t serial, enum ea_report_state state, const char *text) {
    if (r->report_count == EA_POLL_MAX_REPORTS) {
        memmove(r->reports, r->reports + 1, --r->report_count * sizeof *r->reports);
        r->asked_count -= r->asked_count != 0;
    }
    ea_report *p = &r->reports[r->report_count++];
    *p = (ea_report){.serial = serial, .state = (uint32_t)state, .utc_ns = ea_utc_ns()};
    snprintf(p->text, sizeof p->text, "%s", text);
    r->is_unsaved = 1;
    return p;
}

/* Of an open request: its end. */
static void remote_end(ea_remote *r, size_t index, enum ea_report_state state) {
    const remote_open *o = &r->open[index];
    const ea_triggers_outcome *x = &o->outcome;
    char text[EA_REPORT_TEXT_BYTES] = "";
    ea_text line;
    if (state == EA_REPORT_EXPIRED)
        snprintf(text, sizeof text, "no recorder sent it before it expired");
    else if (x->withheld_batches)
        snprintf(text, sizeof text, "the limit was reached: %" PRIu64 " batches were not sent", x->withheld_batches);
    else if (!x->batches)
        snprintf(text, sizeof text, "the recorders have nothing of the window");
    ea_report *p = add_report(r, o->request.serial, state, text);
    p->batches = x->batches;
    p->events = x->events;
    p->bytes = x->bytes;
    ea_text_init(&line);
    ea_text_printf(&line, "request %" PRIu64 " %s: %" PRIu64 " batches, %" PRIu64 " events, %" PRIu64 " bytes%s%s",
                   o->request.serial, state == EA_REPORT_SENT ? "is in the spool" : "expired", x->batches, x->events,
                   x->bytes, *text ? "; " : "", text);
    remote_audit(r, EA_LOG_INFO, &line);
    ea_text_deinit(&line);
    memmove(r->open + index, r->open + index + 1, (--r->open_count - index) * sizeof *r->open);
}

/* ---- recorders ---- */

/* Gives open requests to the recorders that do not have them. */
static void remote_give(ea_remote *r) {
    ea_err err;
    for (size_t i = 0; i < r->open_count; i++)
        for (size_t k = 0; k < r->recorder_count; k++) {
            remote_open *o = &r->open[i];
            const ea_triggers_request q = {.serial = o->request.serial,
                                           .from_utc_ns = o->request.from_utc_ns,
                                           .to_utc_ns = o->request.to_utc_ns,
                                           .limit_bytes = o->request.limit_bytes};
            if (r->recorders[k].triggers && o->given[k] == REMOTE_NOT_GIVEN) {
                if (ea_triggers_ask(r->recorders[k].triggers, &q, &err)) /* again at the next poll */
                    remote_warn(r, &err);
                else
                    o->given[k] = REMOTE_GIVEN;
            }
        }
}

/* Ends requests that all recorders have sent, and those that expired. */
static void remote_end_done(ea_remote *r) {
    int64_t now_utc_ns = ea_utc_ns();
    int is_settled = ea_monotonic_ns() - r->created_ns > SETTLE_NS;
    for (size_t i = 0; i < r->open_count; i++) {
        size_t waiting = 0, done = 0;
        for (size_t k = 0; k < r->recorder_count; k++) {
            waiting += r->recorders[k].triggers && r->open[i].given[k] != REMOTE_DONE;
            done += r->open[i].given[k] == REMOTE_DONE;
        }
        int is_done = done && !waiting && is_settled;
        if (is_done || r->open[i].request.expires_utc_ns <= now_utc_ns)
            remote_end(r, i--, is_done || done ? EA_REPORT_SENT : EA_REPORT_EXPIRED);
    }
}

void ea_remote_attach(ea_remote *r, const char *session, ea_triggers *t) {
    size_t k = 0;
    ea_mutex_lock(r->lock);
    while (k < r->recorder_count && strcmp(r->recorders[k].session, session) != 0)
        k++;
    if (k == r->recorder_count && k < REMOTE_RECORDERS_MAX)
        r->recorder_count++;
    if (k < REMOTE_RECORDERS_MAX) {
        snprintf(r->recorders[k].session, sizeof r->recorders[k].session, "%s", session);
        r->recorders[k].triggers = t;
        remote_give(r);
    }
    ea_mutex_unlock(r->lock);
}

void ea_remote_detach(ea_remote *r, const char *session) {
    ea_mutex_lock(r->lock);
    for (size_t k = 0; k < r->recorder_count; k++) {
        if (strcmp(r->recorders[k].session, session) != 0)
            continue;
        r->recorders[k].triggers = NULL;
        for (size_t i = 0; i < r->open_count; i++)
            if (r->open[i].given[k] == REMOTE_GIVEN)
                r->open[i].given[k] = REMOTE_NOT_GIVEN;
    }
    ea_mutex_unlock(r->lock);
}

void ea_remote_on_requested(void *remote, const char *session, uint64_t serial, const ea_triggers_outcome *outcome) {
    ea_remote *r = remote;
    ea_mutex_lock(r->lock);
    for (size_t i = 0; i < r->open_count; i++)
        for (size_t k = 0; r->open[i].request.serial == serial && k < r->recorder_count; k++) {
            ea_triggers_outcome *sum = &r->open[i].outcome;
            if (strcmp(r->recorders[k].session, session) != 0 || r->open[i].given[k] != REMOTE_GIVEN)
                continue;
            r->open[i].given[k] = REMOTE_DONE;
            sum->batches += outcome->batches;
            sum->events += outcome->events;
            sum->bytes += outcome->bytes;
            sum->withheld_batches += outcome->withheld_batches;
        }
    ea_mutex_unlock(r->lock);
}

/* ---- polls ---- */

void ea_remote_ask(void *remote, ea_text *out) {
    ea_remote *r = remote;
    ea_err err = {0};
    ea_mutex_lock(r->lock);
    remote_give(r);
    remote_end_done(r);
    audit_flush(r);
    if (r->is_unsaved && remote_save(r, &err))
        remote_warn(r, &err);
    r->asked_count = r->is_unsaved ? 0 : r->report_count; /* what would be forgotten is not reported */
    ea_poll_encode(r->serial, r->reports, r->asked_count, out);
    ea_mutex_unlock(r->lock);
}

/* A signed request of this host is not taken again, whatever became of it. */
static void note_serial(ea_remote *r, uint64_t serial) {
    if (r->seen_count == REMOTE_SEEN_MAX)
        memmove(r->seen, r->seen + 1, --r->seen_count * sizeof *r->seen);
    r->seen[r->seen_count++] = serial;
    r->serial = serial;
    r->is_unsaved = 1;
}

/* Returns 1 when it is accepted. */
static int take_request(ea_remote *r, const uint8_t *data, size_t len_bytes) {
    ea_request q;
    ea_text line;
    enum remote_refusal why = remote_check(r, data, len_bytes, ea_utc_ns(), &q);
    ea_count(r->counters, remote_refusal_counter(why), 1);
    ea_text_init(&line);
    if (why == REMOTE_MALFORMED)
        ea_text_printf(&line, "a request of %zu bytes", len_bytes);
    else
        remote_put_request(&line, &q);
    ea_text_printf(&line, "%s%s", why ? " refused: " : " ", remote_refusal_text(why));
    remote_audit(r, why ? EA_LOG_WARNING : EA_LOG_INFO, &line);
    ea_text_deinit(&line);
    if (why == REMOTE_ACCEPTED || why >= REMOTE_EXPIRED)
        note_serial(r, q.serial);
    add_report(r, q.serial, why ? EA_REPORT_REFUSED : EA_REPORT_ACCEPTED, why ? remote_refusal_text(why) : "");
    if (!why)
        r->open[r->open_count++] = (remote_open){.request = q};
    return !why;
}

/* Returns how many were refused. */
static size_t take_offer(ea_remote *r, const uint8_t *data, size_t len_bytes) {
    const uint8_t *one;
    size_t at = 0, n = 0, count = 0, refused = 0;
    ea_err ignored;
    int rc = 0;
    while (count < EA_OFFER_MAX_REQUESTS && (rc = ea_offer_next(data, len_bytes, &at, &one, &n, &ignored)) == 1) {
        count++;
        refused += !take_request(r, one, n);
    }
    if (rc < 0 || (count == EA_OFFER_MAX_REQUESTS && ea_offer_next(data, len_bytes, &at, &one, &n, &ignored) != 0))
        refused += !take_request(r, NULL, 0); /* of the answer's own form */
    return refused;
}

int64_t ea_remote_answer(void *remote, long status, const uint8_t *data, size_t len_bytes) {
    ea_remote *r = remote;
    ea_err err = {0};
    ea_mutex_lock(r->lock);
    int64_t pause_ns = status == STATUS_NOT_FOUND && r->poll_ns < NOT_FOUND_NS ? NOT_FOUND_NS : r->poll_ns;
    if (status == STATUS_OK) {
        r->report_count -= r->asked_count;
        memmove(r->reports, r->reports + r->asked_count, r->report_count * sizeof *r->reports);
        r->is_unsaved |= r->asked_count != 0;
        r->asked_count = 0;
        size_t refused = take_offer(r, data, len_bytes);
        r->backoff_ns = !refused ? r->poll_ns : r->backoff_ns < BACKOFF_MAX_NS / 2 ? r->backoff_ns * 2 : BACKOFF_MAX_NS;
        pause_ns = r->backoff_ns;
        audit_flush(r);
        if (r->is_unsaved && remote_save(r, &err)) /* after a kill the collector offers them again */
            remote_warn(r, &err);
        remote_give(r);
    }
    r->asked_count = 0;
    ea_mutex_unlock(r->lock);
    return pause_ns;
}

/* ---- from begin to end ---- */

static char *remote_path(const char *folder, const char *name) {
    size_t n = strlen(folder) + strlen(name) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s", folder, name);
    return path;
}

int ea_remote_create(ea_remote **ret, const ea_remote_options *options, ea_err *err) {
    ea_remote *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "take requests");
    r->counters = options->counters;
    r->poll_ns = r->backoff_ns = options->config->poll_ns;
    r->created_ns = ea_monotonic_ns();
    ea_text_init(&r->lines);
    r->path = remote_path(options->folder, "requests");
    r->audit_path = remote_path(options->folder, "requests.log");
    int rc = r->path && r->audit_path ? ea_mutex_create(&r->lock, err) : ea_fail(err, EA_ENOMEM, "take requests");
    for (size_t i = 0; !rc && i < options->config->allow.count; i++) {
        uint32_t kind;
        if (ea_remote_kind(options->config->allow.items[i], &kind))
            r->allowed |= UINT32_C(1) << kind;
        else
            rc = ea_fail(err, EA_EINVAL, "'%.64s' is nothing that can be allowed; expected window",
                         options->config->allow.items[i]);
    }
    if (!rc)
        rc = ea_request_key_read(&r->key, options->config->key, err);
    if (!rc)
        rc = remote_read(r, err);
    if (rc) {
        ea_remote_destroy(r);
        return rc;
    }
    *ret = r;
    return 0;
}

void ea_remote_destroy(ea_remote *r) {
    ea_err err = {0};
    if (!r)
        return;
    if (r->is_unsaved && remote_save(r, &err))
        remote_warn(r, &err);
    ea_text_deinit(&r->lines);
    ea_request_key_destroy(r->key);
    ea_mutex_destroy(r->lock);
    free(r->path);
    free(r->audit_path);
    free(r);
}

void ea_remote_set_name(ea_remote *r, const char *name) {
    ea_mutex_lock(r->lock);
    snprintf(r->name, sizeof r->name, "%s", name);
    ea_mutex_unlock(r->lock);
}
