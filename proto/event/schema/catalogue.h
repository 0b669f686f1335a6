/* The catalogue: what ships with the program about providers that security and performance people enable first.
 * config/schemas holds it, a manifest a provider; it is part of the program. Output: schemas.h. Thread: that of the
 * schemas. */
#ifndef EA_EVENT_SCHEMA_CATALOGUE_H
#define EA_EVENT_SCHEMA_CATALOGUE_H

#include "proto/event/schemas.h"

/* After this call a provider of the catalogue is read into the layer EA_SCHEMA_CATALOGUE at the first request for an
 * event of it that no schema describes yet. */
void ea_catalogue_use(ea_schemas *s);
/* Reads all of them now. EA_ENOMEM, EA_ELIMIT. */
EA_MUST_CHECK int ea_catalogue_read(ea_schemas *s, ea_err *err);

#endif
