/* See watch_live.h. */
#include "service/app/watch_live.h"

#include "proto/base/platform.h"
#include "proto/base/stop_flag.h"
#include "service/app/watch_session.h"
#include "service/core/watcher.h"
#include "service/decode/decoder.h"
#include "service/etw/launch.h"
#include "service/etw/live.h"
#include "service/etw/tdh_schemas.h"

#include <inttypes.h>
#include <string.h>

enum { CHECK_EVENTS = 256 };

typedef struct live {
    const ea_watch_live_options *o;
    ea_watch_session session;
    ea_counters counters;
    ea_source *source;
    ea_watcher *watcher;
    ea_lang_run *run;
    ea_decoder *decoder;
    ea_schemas *schemas;
    ea_tdh *tdh;
    ea_schema_lookup ask;
    ea_launch *command;
    ea_clock clock;
    int is_stopped;
} live;

static void watch_live_log_note(void *arg, const char *text) {
    (void)arg;
    fprintf(stderr, "etwagent: watch: %s\n", text);
}

static void watch_live_stop(live *l) {
    if (!l->is_stopped)
        ea_source_stop(l->source);
    l->is_stopped = 1;
}

static int watch_live_flush(live *l) {
    ea_text *out = ea_lang_run_output(l->run);
    return out->len_bytes ? l->o->how.flush(l->o->how.flush_arg, out) : 0;
}

static int watch_live_take(live *l, const ea_record *r, ea_err *err) {
    enum ea_counter outcome;
    const ea_class *c = ea_decoder_find(l->decoder, &r, &outcome);
    return ea_watcher_add(l->watcher, r, c, &l->clock, ea_clock_to_utc_ns(&l->clock, r->time_raw), err);
}

/* Until the session is at its end. Events that it logged before a stop still come; those after exit() do not count. */
static int watch_live_follow(live *l, ea_err *err) {
    const ea_record *r;
    unsigned n = 0;
    size_t source;
    int rc, is_over = 0;
    while ((rc = ea_source_next(l->source, &r, err)) > 0) {
        int is_idle = rc == EA_SOURCE_NOTHING_YET;
        if (!is_over)
            rc = is_idle ? ea_watcher_idle(l->watcher, err) : watch_live_take(l, r, err);
        if (rc < 0)
            return rc;
        if (!is_over && watch_live_flush(l))
            return ea_fail(err, EA_EIO, "write to standard output");
        if (!is_over && rc == 1) {
            is_over = 1;
            watch_live_stop(l);
        }
        if (!is_idle && ++n % CHECK_EVENTS)
            continue;
        (void)ea_source_clock(l->source, &source, &l->clock);
        if (atomic_load(ea_stop_flag()) || (l->command && ea_launch_wait(l->command, 0)))
            watch_live_stop(l);
        if (is_idle && fflush(stdout))
            return ea_fail(err, EA_EIO, "write to standard output");
    }
    return rc;
}

static int watch_live_open_all(live *l, ea_err *err) {
    const ea_watch_live_options *o = l->o;
    ea_watch_session_options wanted = {.name = o->name,
                                       .needs_processes = o->how.pid || o->how.exe || o->command,
                                       .is_plain_stacks = o->how.is_plain_stacks,
                                       .pmc_samples = o->pmc_samples};
    ea_err no_tdh;
    ea_text t;
    uint32_t pid = 0;
    int rc = ea_watch_session_init(&l->session, o->program, &wanted, err);
    if (rc)
        return rc;
    ea_text_init(&t);
    ea_watch_session_describe(&l->session, &t);
    fprintf(stderr, "etwagent: %s\n", t.data ? t.data : "");
    ea_text_deinit(&t);
    rc = ea_schema_options_read(&l->schemas, o->schemas, err);
    if (!rc && ea_tdh_open(&l->tdh, &no_tdh))
        l->tdh = NULL; /* then events without another schema have no names */
    l->ask = (ea_schema_lookup){.answer = ea_tdh_describe, .arg = l->tdh, .counters = &l->counters};
    if (!rc)
        rc = ea_decoder_create(&l->decoder, l->schemas, l->tdh ? &l->ask : NULL, err);
    if (!rc)
        rc = ea_watcher_create(&l->watcher, o->how.limit_bytes, err);
    if (!rc)
        ea_watcher_live(l->watcher);
    if (!rc && o->command)
        rc = ea_launch_suspended(&l->command, o->command, &pid, err);
    if (!rc && o->command)
        rc = ea_watcher_tree(l->watcher, pid, err);
    ea_lang_run_options how = o->how;
    how.wants = o->command ? ea_watcher_is_of_tree : NULL;
    how.wants_arg = l->watcher;
    if (!rc)
        rc = ea_watcher_program(l->watcher, o->program, &how, &l->run, err);
    if (!rc)
        rc = ea_live_open(&l->source,
                          &(ea_live_options){
                              .session = &l->session.session, .counters = &l->counters, .on_note = watch_live_log_note},
                          err);
    if (rc)
        return rc;
    l->clock = ea_source_row(l->source, 0)->clock;
    return o->command ? ea_launch_resume(l->command, err) : 0;
}

static void print_losses(const live *l) {
    ea_live_status s;
    ea_live_get_status(l->source, &s);
    if (s.lost_events || s.lost_buffers)
        fprintf(stderr, "etwagent: watch: Windows lost %" PRIu64 " events and %" PRIu64 " buffers\n", s.lost_events,
                s.lost_buffers);
    ea_dropped d;
    uint64_t dropped = 0;
    while (ea_source_dropped(l->source, &d))
        dropped += d.count;
    if (dropped)
        fprintf(stderr, "etwagent: watch: %" PRIu64 " events came faster than the program ran, and were dropped\n",
                dropped);
}

int ea_watch_live(const ea_watch_live_options *options, ea_err *err) {
    live l = {.o = options};
    (void)ea_stop_flag();
    int rc = watch_live_open_all(&l, err);
    if (!rc)
        rc = watch_live_follow(&l, err);
    if (l.source && !rc)
        print_losses(&l);
    ea_err later;
    int ended = l.run ? ea_watcher_end(l.watcher, rc ? &later : err) : 0;
    if (l.run && !ended && watch_live_flush(&l))
        ended = ea_fail(rc ? &later : err, EA_EIO, "write to standard output");
    if (l.run && !rc)
        options->report(options->report_arg, l.run);
    if (l.source && !l.is_stopped) {
        const ea_record *none;
        ea_err ignored;
        watch_live_stop(&l);
        while (ea_source_next(l.source, &none, &ignored) > 0)
            ;
    }
    ea_source_close(l.source);
    ea_launch_close(l.command);
    ea_watcher_destroy(l.watcher);
    ea_decoder_destroy(l.decoder);
    ea_tdh_close(l.tdh);
    ea_schemas_destroy(l.schemas);
    ea_watch_session_deinit(&l.session);
    return rc ? rc : ended;
}
