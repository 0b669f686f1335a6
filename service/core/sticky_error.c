/* What is wrong now. See sticky_error.h. */
#include "service/core/sticky_error.h"

#include "service/core/agent_log.h"

#include <string.h>

void ea_sticky_error_set(ea_sticky_error *e, const char *whose, int rc, const ea_err *err) {
    const char *now = rc ? err->message : "";
    if (strcmp(e->text, now) == 0)
        return;
    if (rc)
        ea_log_warning("%s%s%s (%s); it is tried again", whose, *whose ? ": " : "", now, ea_code_text(rc));
    else
        ea_log_line(EA_LOG_WORKS, "%s%sworks again", whose, *whose ? ": " : "");
    snprintf(e->text, sizeof e->text, "%s", now);
}
