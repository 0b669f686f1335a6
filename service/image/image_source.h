/* A session's source with a worker beside it that looks at the files of the images that are loaded: the source's own
 * records, and between them what was found, as records that the agent makes (proto/state/image_facts.h) with the time
 * and CPU of the record before them.
 *
 * What was found is told when the source has nothing else at the moment. Before it: a live session's source. After it:
 * service/core/ingest_session.h. Thread: the source's. */
#ifndef EA_IMAGE_IMAGE_SOURCE_H
#define EA_IMAGE_IMAGE_SOURCE_H

#include "service/image/images.h"
#include "service/source/source.h"

/* Takes the inner source, also when it fails, and closes it with itself. */
EA_MUST_CHECK int ea_image_source_open(ea_source **ret, ea_source *inner, const ea_images_options *options,
                                       ea_err *err);

#endif
