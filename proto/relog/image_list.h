/* Facts of image files in a list, for relog --image-ids: what a collector has stored of the modules of its machines, or
 * what another program knows. TSV or JSON lines (list_rows.h) with these columns, which are those of the collector's
 * table "modules"; others are passed over:
 *
 *   path, size_bytes, timestamp   needed; of the path its last part counts; a timestamp of 0 is unknown
 *   pdb_guid, pdb_age, pdb_path   of its PDB; a row without a GUID says nothing, as the collector's of a module
 *                                 whose ids never came
 *   original_name   the last part of the path when absent
 *   file_version, company, product, description   of the file
 *
 * Input: bytes of a file. Called by: image_sources.c. Thread: its owner's. */
#ifndef EA_RELOG_IMAGE_LIST_H
#define EA_RELOG_IMAGE_LIST_H

#include "proto/base/err.h"
#include "proto/relog/image_fact.h"

typedef struct ea_image_list ea_image_list;

enum { EA_IMAGE_LIST_MAX = 1 << 20 };

/* file: its name, for messages. EA_EINVAL with the line and what is wrong there; EA_ELIMIT. */
EA_MUST_CHECK int ea_image_list_read(ea_image_list **ret, const char *file, const char *text, size_t len_bytes,
                                     ea_err *err);
void ea_image_list_close(ea_image_list *l); /* NULL is allowed */
/* 1 and *ret, which borrows from the list; 0: none, or several that differ. */
int ea_image_list_find(const ea_image_list *l, const ea_image_wanted *wanted, ea_image_fact *ret);

#endif
