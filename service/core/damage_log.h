/* Damage of trace files, as the reader reports it: all of it in a map, the first few places in the log.
 * Called by: proto/etl, through ea_etl_options.on_damage. Calls: damage_map.h, agent_log.h. Thread: the reader's. */
#ifndef EA_CORE_DAMAGE_LOG_H
#define EA_CORE_DAMAGE_LOG_H

#include "service/core/damage_map.h"

enum { EA_DAMAGE_LINES = 10 }; /* this many places are logged */

/* All zero: empty. */
typedef struct ea_damage_log {
    ea_damage_map map;
    int is_silent; /* logs nothing */
    ea_err first;  /* code 0: no damage yet */
} ea_damage_log;

/* arg: an ea_damage_log. */
void ea_damage_log_add(const ea_etl_damage *damage, void *arg);
/* Frees the map; the log is empty then. */
void ea_damage_log_deinit(ea_damage_log *log);

#endif
