/* Events as people and tools read them: text, JSON lines, CSV. `etwagent dump` and `etwcollector export` print through
 * this, so that they print the same bytes.
 * Before it: event.h. After it: the commands. Thread: its owner's. */
#ifndef EA_EVENT_RENDER_H
#define EA_EVENT_RENDER_H

#include "clock.h"
#include "event.h"

/* One record as one JSON object without a newline. Keys, in this order: time, clock, provider, provider_name, name, id,
 * version, channel, level, opcode, task, keyword, cpu, pid, tid, activity_id, related_activity_id, fields, stack; with
 * raw also flags, property, kernel_time, user_time, logger, pointer_size, header, payload, extended. */
void ea_render_json(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock, int raw);
/* One line for a person. */
void ea_render_text(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock);
/* One CSV line of the named columns ("time", "pid", ... or a field's name). */
void ea_render_csv(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock,
                   const char *const *columns, size_t column_count);
/* One field's value as JSON (a number, a string, an array, an object for a struct). */
void ea_render_field_json(ea_text *out, const ea_class *c, size_t field, const ea_slice *slice);

#endif
