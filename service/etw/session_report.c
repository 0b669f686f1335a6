/* What a session reports while it is set up, and the ids of event classes. See session.h. */
#include "service/etw/session.h"

#include "proto/base/platform.h"
#include "proto/event/event.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void ea_session_log(const ea_session *s, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    s->note(s->note_arg, line);
}

void ea_session_lacks(const ea_session *s, enum ea_counter which, uint64_t by) {
    if (s->counters)
        ea_count(s->counters, which, by);
}

void ea_session_refused(const ea_session *s, const char *what, ULONG error) {
    char text[160] = "";
    ea_os_error_text((int)error, text, sizeof text);
    ea_session_lacks(s, EA_COUNT_source_parts_refused, 1);
    ea_session_log(s, "%s: Windows refuses it (%lu: %s); it is left out", what, error, text);
}

size_t ea_session_class_ids(const ea_strings *names, CLASSIC_EVENT_ID *ids) {
    size_t families, n = 0;
    const ea_family *const *all = ea_event_families(&families);
    for (size_t i = 0; i < names->count; i++)
        for (size_t f = 0; f < families; f++)
            for (size_t k = 0; all[f]->provider->classic && k < all[f]->row_count; k++) {
                const ea_class_row *row = &all[f]->rows[k];
                CLASSIC_EVENT_ID id = {.Type = (UCHAR)row->code};
                memcpy(&id.EventGuid, all[f]->provider->guid.bytes, sizeof id.EventGuid);
                if (strcmp(row->name, names->items[i]) == 0 && n < EA_CLASS_IDS_MAX &&
                    !(n && memcmp(&ids[n - 1], &id, sizeof id) == 0)) /* rows of other versions of the same */
                    ids[n++] = id;
            }
    return n;
}
