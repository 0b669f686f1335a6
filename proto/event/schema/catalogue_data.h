/* Inside proto/event/schema: the files of config/schemas, which CMake turns into catalogue_data.c. */
#ifndef EA_EVENT_SCHEMA_CATALOGUE_DATA_H
#define EA_EVENT_SCHEMA_CATALOGUE_DATA_H

#include <stddef.h>

typedef struct ea_catalogue_file {
    const char *name; /* NULL ends the list */
    const char *guid; /* of its one provider */
    const unsigned char *data;
    size_t len_bytes;
} ea_catalogue_file;

extern const ea_catalogue_file ea_catalogue_files[];

#endif
