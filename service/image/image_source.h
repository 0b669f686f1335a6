/* A session's source with a worker that reads the files of loaded images: the source's own records, and between them
 * the facts that the worker found, as records that the agent makes (proto/state/image_facts.h) with the time and CPU of
 * the preceding record.
 *
 * Facts are delivered when the source has no other record at the moment. Called by: service/core/source_task.c. Calls:
 * a live session's source, images.h. Thread: the source's. */
#ifndef EA_IMAGE_IMAGE_SOURCE_H
#define EA_IMAGE_IMAGE_SOURCE_H

#include "service/image/images.h"
#include "service/source/source.h"

/* Takes the inner source, also when it fails, and closes it with itself. */
EA_MUST_CHECK int ea_image_source_open(ea_source **ret, ea_source *inner, const ea_images_options *options,
                                       ea_err *err);

#endif
