/* Classes as "etwagent schema" prints them, field by field. Uses: event.h. Used by: the commands. Thread: any. */
#ifndef EA_APP_SCHEMA_PRINT_H
#define EA_APP_SCHEMA_PRINT_H

#include "proto/event/event.h"

/* One JSON object, without a newline. source: where its layout is from. */
void ea_schema_print_json(ea_text *t, const ea_class *c, const char *source);
/* Lines for a person; what came from files cannot steer a terminal. */
void ea_schema_print_text(ea_text *t, const ea_class *c);

#endif
