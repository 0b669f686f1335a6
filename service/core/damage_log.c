/* Damage in a map and in the log. See damage_log.h. */
#include "service/core/damage_log.h"

#include "service/core/agent_log.h"

#include <inttypes.h>
#include <string.h>

void ea_damage_log_add(const ea_etl_damage *damage, void *arg) {
    ea_damage_log *log = arg;
    char inside[40] = "";
    ea_err place;
    ea_damage_map_add(&log->map, damage);
    if (damage->inside)
        snprintf(inside, sizeof inside, ", byte %" PRIu32 " inside", damage->inside);
    (void)ea_fail(&place, EA_ECORRUPT, "%s: buffer at offset %" PRIu64 "%s: %s (%" PRIu64 " bytes skipped)",
                  damage->path, damage->offset, inside, damage->reason, damage->bytes);
    if (log->map.places == 1)
        log->first = place;
    if (!log->is_silent && log->map.places <= EA_DAMAGE_LINES)
        ea_log_info("%s", place.message);
}

void ea_damage_log_deinit(ea_damage_log *log) {
    ea_damage_map_deinit(&log->map);
    log->first = (ea_err){0};
}
