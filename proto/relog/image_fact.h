/* What a trace needs to know of a module's image file, and how a module in a trace is that file: the last part of its
 * path, in any case, its size in memory and its time stamp. Used by: image_files.c, image_list.c, image_server.c,
 * image_sources.c. Thread: any. */
#ifndef EA_RELOG_IMAGE_FACT_H
#define EA_RELOG_IMAGE_FACT_H

#include "proto/base/bytes.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ea_image_fact {
    uint32_t timestamp, pdb_age;
    int has_pdb;
    ea_guid pdb_guid;
    const char *pdb_path, *original_name;                  /* "" without one */
    const char *version, *company, *product, *description; /* of the file; "" without one */
} ea_image_fact;

/* A module of a trace. */
typedef struct ea_image_wanted {
    const char *name; /* the last part of its path, not ended by a NUL */
    size_t name_bytes;
    uint64_t size_bytes;
    uint32_t timestamp; /* 0: unknown */
} ea_image_wanted;

/* The last part of a path; *ret_bytes of it. */
const char *ea_image_name(const char *path, size_t path_bytes, size_t *ret_bytes);
/* How a name in lower case compares with another name, in any case. */
int ea_image_name_compare(const char *lower, const char *name, size_t name_bytes);

#endif
