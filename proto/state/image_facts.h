/* The facts from an image's file about one loaded module, as a record that the agent makes
 * (proto/event/classes/image_file.c). The record is among the events of the session in which the image was loaded. The
 * fold completes the module with it (machine.h).
 * Called by: service/image. Output: the session's batches, machine.c. Thread: any. */
#ifndef EA_STATE_IMAGE_FACTS_H
#define EA_STATE_IMAGE_FACTS_H

#include "proto/base/record.h"
#include "proto/base/text.h"

enum { EA_IMAGE_FACTS_OPCODE = 1, EA_IMAGE_FACTS_VERSION = 1 };

extern const ea_guid ea_image_facts_provider;

typedef struct ea_image_facts {
    uint64_t file_bytes;          /* of the file */
    uint64_t image_bytes;         /* in memory; this and the following members: 0 or "" when unknown */
    uint32_t timestamp, checksum; /* of the header */
    ea_guid pdb_guid;             /* zeros: no PDB */
    uint32_t pdb_age;
    const char *sha256;                            /* of the whole file, in hex */
    const char *version;                           /* "10.0.19041.1" */
    const char *company, *product, *original_name; /* texts of its version resource */
    const char *md5, *sha1, *imphash;              /* in hex */
    const char *description;                       /* of the version resource */
    const char *pdb_path;
} ea_image_facts;

/* Makes a record's payload (cleared first; payload->failed: no memory). path: as the image's own event has it. */
void ea_image_facts_write(ea_text *payload, uint32_t pid, uint64_t base, const char *path, const ea_image_facts *facts);
/* The rest of the record: with the time, source, session and CPU of another one. Borrows the payload. */
ea_record ea_image_facts_record(const ea_record *at, const ea_text *payload);

#endif
