/* Facts of image files in a folder, for relog --image-ids: what a merging tool of Windows adds to a trace, out of files
 * that are at hand. A file is taken for a module when its name is the last part of the module's path, in any case, and
 * its header has the module's time stamp and size in memory. Input: a folder, with all folders in it, or one file.
 * Called by: image_sources.c. Calls: proto/image. Thread: its owner's. */
#ifndef EA_RELOG_IMAGE_FILES_H
#define EA_RELOG_IMAGE_FILES_H

#include "proto/base/err.h"
#include "proto/relog/image_fact.h"

typedef struct ea_image_files ea_image_files;

enum { EA_IMAGE_FILES_MAX = 1 << 20 };

/* Lists the files; links are followed, but those that lead back to a folder that they are in. EA_ELIMIT: more than
 * EA_IMAGE_FILES_MAX files, or folders. */
EA_MUST_CHECK int ea_image_files_open(ea_image_files **ret, const char *path, ea_err *err);
void ea_image_files_close(ea_image_files *x); /* NULL is allowed */

/* 1 and *ret, which is valid until the next call; 0: no such file. Files that are no images are passed over. */
int ea_image_files_find(ea_image_files *x, const ea_image_wanted *wanted, ea_image_fact *ret);

#endif
