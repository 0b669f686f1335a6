/* The damage map: where traces are damaged, how often for which reason, within fixed memory however bad the files are.
 * Input: each place that proto/etl reports (damage_log.c). Used by: `etwagent stats`. Thread: the main one. */
#ifndef EA_CORE_DAMAGE_MAP_H
#define EA_CORE_DAMAGE_MAP_H

#include "proto/base/text.h"
#include "proto/etl/etl.h"

enum { EA_DAMAGE_MARKS = 64, EA_DAMAGE_REASONS = 32, EA_DAMAGE_PLACES = 1000 };

/* Of one file: how many places there are in each stretch of mark_bytes. The stretches double when the file is longer.
 */
typedef struct ea_damage_file {
    char *path;
    uint64_t places, bytes, mark_bytes;
    uint64_t marks[EA_DAMAGE_MARKS];
} ea_damage_file;

typedef struct ea_damage_reason {
    const char *reason; /* a constant of proto/etl */
    uint64_t places, bytes;
} ea_damage_reason;

typedef struct ea_damage_place {
    size_t file; /* index into files */
    uint64_t offset, bytes;
    uint32_t inside;
    const char *reason;
} ea_damage_place;

/* All zero: empty. */
typedef struct ea_damage_map {
    uint64_t places, bytes;
    ea_damage_file *files;
    size_t file_count, file_capacity;
    ea_damage_reason reasons[EA_DAMAGE_REASONS];
    size_t reason_count;
    ea_damage_place *first; /* the first EA_DAMAGE_PLACES of them */
    size_t first_count;
    int incomplete; /* memory ran out: places and bytes are right, the rest lacks some */
} ea_damage_map;

void ea_damage_map_add(ea_damage_map *m, const ea_etl_damage *damage);
void ea_damage_map_deinit(ea_damage_map *m);

/* A few lines for a person; nothing when there is no damage. */
void ea_damage_map_text(const ea_damage_map *m, ea_text *out);
/* {"places":…,"bytes":…,"reasons":[{reason,places,bytes}],"files":[{path,places,bytes,mark_bytes,marks:[…]}],
 * "first":[{path,offset,inside,bytes,reason}]}: marks are places in each stretch of mark_bytes. */
void ea_damage_map_json(const ea_damage_map *m, ea_text *out);

#endif
