/* Where the ids of image files come from, for relog --image-ids: image files, folders of them, lists of stored facts
 * and symbol servers, in the order in which they are named. Called by: `etwagent relog`. Calls: image_files.h,
 * image_list.h, image_server.h. Thread: its owner's; a symbol server is waited for. */
#ifndef EA_RELOG_IMAGE_SOURCES_H
#define EA_RELOG_IMAGE_SOURCES_H

#include "proto/relog/image_server.h"

typedef struct ea_image_sources ea_image_sources;

enum { EA_IMAGE_SOURCES_MAX = 16 };

typedef struct ea_image_sources_options {
    const char *const *words; /* FILE, FOLDER, FILE.jsonl, FILE.tsv, http://..., https://... ; borrowed */
    size_t count;
    const char *cache; /* of symbol servers; borrowed; NULL: none */
    const atomic_int *stop;
} ea_image_sources_options;

/* EA_EUSAGE: too many, or a symbol server without a cache; else the errors of the sources. */
EA_MUST_CHECK int ea_image_sources_open(ea_image_sources **ret, const ea_image_sources_options *options, ea_err *err);
void ea_image_sources_close(ea_image_sources *x); /* NULL is allowed */
/* *ret_found: 1 and *ret, which is valid until the next call; 0: no source has the image. Errors: those of symbol
 * servers. */
EA_MUST_CHECK int ea_image_sources_find(ea_image_sources *x, const char *path, size_t path_bytes, uint64_t size_bytes,
                                        uint32_t timestamp, ea_image_fact *ret, int *ret_found, ea_err *err);
/* Of all symbol servers together; *ret_has: there are any. */
ea_image_server_counts ea_image_sources_count(const ea_image_sources *x, int *ret_has);

#endif
