/* The catalogue: what ships with the program about providers that security and performance people enable first.
 * config/schemas holds it, a manifest a provider; it is part of the program. Before it: nothing. After it: schemas.h.
 * Thread: that of the schemas. */
#ifndef EA_SCHEMA_CATALOGUE_H
#define EA_SCHEMA_CATALOGUE_H

#include "proto/event/schemas.h"

/* From now on a provider of the catalogue is read into the layer EA_SCHEMA_CATALOGUE when it is first asked for and
 * nobody else describes the event. */
void ea_catalogue_use(ea_schemas *s);
/* Reads all of them now. EA_ENOMEM, EA_ELIMIT. */
EA_MUST_CHECK int ea_catalogue_read(ea_schemas *s, ea_err *err);

#endif
