/* The catalogue. See catalogue.h. */
#include "proto/event/schema/catalogue.h"

#include "proto/event/schema/catalogue_data.h"
#include "proto/event/schema/manifest.h"

static int catalogue_read_file(ea_schemas *s, const ea_catalogue_file *file, ea_err *err) {
    ea_manifest_options options = {.file = file->name, .layer = EA_SCHEMA_CATALOGUE};
    ea_manifest_result result;
    return ea_manifest_read(s, file->data, file->len_bytes, &options, &result, err);
}

/* The file of a provider; NULL: none. */
static const ea_catalogue_file *catalogue_find(const ea_guid *provider) {
    for (const ea_catalogue_file *f = ea_catalogue_files; f->name; f++) {
        ea_guid guid;
        if (!ea_guid_parse(f->guid, &guid) && ea_guid_equal(&guid, provider))
            return f;
    }
    return NULL;
}

static int on_provider(ea_schemas *s, const ea_guid *provider) {
    const ea_catalogue_file *file = catalogue_find(provider);
    return file && !catalogue_read_file(s, file, NULL);
}

void ea_catalogue_use(ea_schemas *s) {
    ea_schemas_set_last_resort(s, on_provider);
}

int ea_catalogue_read(ea_schemas *s, ea_err *err) {
    int rc = 0;
    for (const ea_catalogue_file *f = ea_catalogue_files; f->name && !rc; f++)
        rc = catalogue_read_file(s, f, err);
    return rc;
}
