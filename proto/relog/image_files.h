/* Facts of image files in a folder, for relog --image-ids: what a merging tool of Windows adds to a trace, out of files
 * that are at hand. A file is taken for a module when its name is the last part of the module's path, in any case, and
 * its header has the module's time stamp and size in memory. Input: a folder, with all folders in it. Called by:
 * `etwagent relog`. Calls: proto/image. Thread: its owner's. */
#ifndef EA_RELOG_IMAGE_FILES_H
#define EA_RELOG_IMAGE_FILES_H

#include "proto/image/pe.h"

typedef struct ea_image_files ea_image_files;

enum { EA_IMAGE_FILES_MAX = 1 << 20 };

/* Lists the files; links are followed, but those that lead back to a folder that they are in. EA_ELIMIT: more than
 * EA_IMAGE_FILES_MAX files, or folders. */
EA_MUST_CHECK int ea_image_files_open(ea_image_files **ret, const char *folder, ea_err *err);
void ea_image_files_close(ea_image_files *x); /* NULL is allowed */

/* The facts of a module's file, borrowed until the next call; NULL: no such file. Files that are no images are passed
 * over. timestamp 0: any. */
const ea_pe_facts *ea_image_files_find(ea_image_files *x, const char *path, size_t path_bytes, uint64_t size_bytes,
                                       uint32_t timestamp);

#endif
