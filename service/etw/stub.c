/* What autologger.h, control.h, emitter.h, launch.h, live.h and tdh_schemas.h are on other systems than Windows:
 * nothing. */
#include "service/etw/autologger.h"
#include "service/etw/control.h"
#include "service/etw/emitter.h"
#include "service/etw/launch.h"
#include "service/etw/live.h"
#include "service/etw/tdh_schemas.h"

int ea_live_is_possible(void) {
    return 0;
}

int ea_live_open(ea_source **ret, const ea_live_options *options, ea_err *err) {
    (void)ret;
    return ea_fail(err, EA_EUNSUPPORTED, "session %s: only Windows has ETW sessions", options->session->name);
}

void ea_live_get_status(const ea_source *s, ea_live_status *ret) {
    (void)s;
    *ret = (ea_live_status){.name = ""};
}

static int no_sessions(ea_err *err) {
    return ea_fail(err, EA_EUNSUPPORTED, "only Windows has ETW sessions");
}

int ea_emitter_create(ea_emitter **ret, ea_err *err) {
    (void)ret;
    return no_sessions(err);
}

void ea_emitter_destroy(ea_emitter *e) {
    (void)e;
}

int ea_emitter_write(ea_emitter *e, const ea_record *r, int *ret_heard, ea_err *err) {
    (void)e, (void)r, (void)ret_heard;
    return no_sessions(err);
}

int ea_control_list(int all, int (*fn)(const ea_live_status *session, void *arg), void *arg, int *ret_more,
                    ea_err *err) {
    (void)all, (void)fn, (void)arg, (void)ret_more;
    return no_sessions(err);
}

int ea_control_start(const ea_session_config *c, ea_control_note note, void *arg, ea_live_status *ret, ea_err *err) {
    (void)c, (void)note, (void)arg, (void)ret;
    return no_sessions(err);
}

int ea_control_query(const char *name, ea_live_status *ret, ea_err *err) {
    (void)name, (void)ret;
    return no_sessions(err);
}

int ea_control_stop(const char *name, ea_live_status *ret, ea_err *err) {
    (void)name, (void)ret;
    return no_sessions(err);
}

int ea_control_flush(const char *name, ea_live_status *ret, ea_err *err) {
    (void)name, (void)ret;
    return no_sessions(err);
}

int ea_control_enable(const char *name, const ea_provider_config *p, ea_control_note note, void *arg, ea_err *err) {
    (void)name, (void)p, (void)note, (void)arg;
    return no_sessions(err);
}

int ea_control_disable(const char *name, const char *provider, ea_err *err) {
    (void)name, (void)provider;
    return no_sessions(err);
}

int ea_control_providers(const ea_live_status *session, int (*fn)(const ea_control_provider *provider, void *arg),
                         void *arg, ea_err *err) {
    (void)session, (void)fn, (void)arg;
    return no_sessions(err);
}

int ea_control_counters(int (*fn)(const ea_control_counter *counter, void *arg), void *arg, uint32_t *ret_at_once,
                        ea_err *err) {
    (void)fn, (void)arg, (void)ret_at_once;
    return no_sessions(err);
}

int ea_tdh_open(ea_tdh **ret, ea_err *err) {
    (void)ret;
    return ea_fail(err, EA_EUNSUPPORTED, "ask TDH: only Windows has it");
}

void ea_tdh_close(ea_tdh *t) {
    (void)t;
}

int ea_tdh_describe(void *arg, const ea_record *event, ea_schemas *into, ea_err *err) {
    (void)arg, (void)event, (void)into;
    return ea_fail(err, EA_EUNSUPPORTED, "ask TDH: only Windows has it");
}

int ea_tdh_list(ea_tdh *t, ea_schemas *into, ea_err *err) {
    (void)t, (void)into;
    return ea_fail(err, EA_EUNSUPPORTED, "ask TDH: only Windows has it");
}

int ea_tdh_show(ea_tdh *t, const ea_guid *guid, const char *name, ea_schemas *into, ea_err *err) {
    (void)t, (void)guid, (void)name, (void)into;
    return ea_fail(err, EA_EUNSUPPORTED, "ask TDH: only Windows has it");
}

const char *ea_tdh_lacks(const ea_tdh *t) {
    (void)t;
    return NULL;
}

int ea_launch_suspended(ea_launch **ret, const char *command, uint32_t *ret_pid, ea_err *err) {
    (void)ret, (void)ret_pid;
    return ea_fail(err, EA_EUNSUPPORTED, "trace %.128s: only Windows has ETW sessions", command);
}

int ea_launch_system(ea_launch **ret, const char *program, const char *arguments, ea_err *err) {
    (void)ret, (void)arguments;
    return ea_fail(err, EA_EUNSUPPORTED, "only Windows has %s", program);
}

int ea_launch_resume(ea_launch *l, ea_err *err) {
    (void)l;
    return ea_fail(err, EA_EUNSUPPORTED, "only Windows has ETW sessions");
}

int ea_launch_wait(ea_launch *l, int64_t ns) {
    (void)l, (void)ns;
    return 1;
}

int ea_launch_exit_code(const ea_launch *l, uint32_t *ret) {
    (void)l, (void)ret;
    return 0;
}

void ea_launch_close(ea_launch *l) {
    (void)l;
}

int ea_autologgers_write(const ea_tables *sessions, ea_autologger_note note, void *note_arg, ea_err *err) {
    (void)sessions, (void)note, (void)note_arg;
    return ea_fail(err, EA_EUNSUPPORTED, "boot sessions: only Windows has ETW sessions");
}

int ea_autologger_take(const ea_session_config *session, ea_autologger_note note, void *note_arg, unsigned *ret_lost,
                       ea_err *err) {
    (void)session, (void)note, (void)note_arg, (void)err;
    *ret_lost = 0;
    return 0;
}
