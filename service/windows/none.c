/* What live.h is on other systems than Windows: nothing. */
#include "live.h"

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

int ea_live_list(int (*fn)(const ea_live_status *session, void *arg), void *arg, ea_err *err) {
    (void)fn, (void)arg;
    return ea_fail(err, EA_EUNSUPPORTED, "list the sessions: only Windows has ETW sessions");
}
