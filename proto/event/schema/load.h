/* Files with schemas, whatever they are: a manifest (.man), a PE file with a compiled one in it (exe, dll, mui), a
 * schema cache, or a trace message format file (.tmf). Input: a command line, a configuration. Calls: manifest.h,
 * wevt.h, cache.h, tmf.h. Thread: any. */
#ifndef EA_EVENT_SCHEMA_LOAD_H
#define EA_EVENT_SCHEMA_LOAD_H

#include "proto/event/schema/manifest.h"

/* Reads the file options->file. Its first bytes determine its format; a .tmf file is known by its name, and only its
 * first mistake is reported. With a PE file "dir/x.dll" its language file "dir/LANGUAGE/x.dll.mui" is read, too, if it
 * exists. Errors as ea_manifest_read's. */
EA_MUST_CHECK int ea_schema_file_read(ea_schemas *into, const ea_manifest_options *options, ea_manifest_result *ret,
                                      ea_err *err);

/* The same for a file that a user named; the first mistake is the error: EA_EFORMAT with "FILE:LINE:COLUMN: what".
 * language: of texts; NULL: "en-US". */
EA_MUST_CHECK int ea_schema_file_load(ea_schemas *into, const char *path, const char *language, ea_err *err);

#endif
