/* A module as the records with which Windows and its merging tools describe one: ImageID/Info, then what names its PDB,
 * then the Image event, with one time and one processor. Readers take an id only with exactly the time of the Image
 * event; of a load they believe the header's process. Input: a module. Called by: `etwagent relog`, collector/pull.
 * Calls: proto/base. Thread: any. */
#ifndef EA_RELOG_MODULE_RECORDS_H
#define EA_RELOG_MODULE_RECORDS_H

#include "proto/base/record.h"
#include "proto/state/machine.h"

enum ea_module_verb {
    EA_MODULE_UNLOAD = 2,
    EA_MODULE_DC_START = 3, /* it is there when the trace begins */
    EA_MODULE_DC_END = 4,   /* when it ends */
    EA_MODULE_LOAD = 10,
};

typedef struct ea_module_place {
    enum ea_module_verb verb;
    int64_t time_raw;
    uint16_t cpu, logger; /* logger: the session's number; a change of it within a processor takes a buffer */
    uint32_t tid;
    uint8_t version;      /* of the Image event: 2, or 3 from Windows 8.1 on */
    uint8_t pointer_size; /* 4 or 8 */
} ea_module_place;

/* Emits the ids of a module (Info, then DbgID_RSDS, or None without a PDB). emit takes a record, which is borrowed for
 * the call; what it returns other than 0 ends this call, which returns it. EA_EINVAL: an address does not fit into a
 * pointer; EA_ELIMIT: a text is too long. */
EA_MUST_CHECK int ea_module_ids(const ea_module *m, const ea_module_place *place,
                                int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err);

/* What its file says of itself, which merging tools write before the ids of the first module that is the file. The
 * module's size has to fit into 32 bits: else EA_EINVAL. */
typedef struct ea_module_version {
    const char *version, *company, *product, *description;
} ea_module_version;

EA_MUST_CHECK int ea_module_file_version(const ea_module *m, const ea_module_version *version,
                                         const ea_module_place *place, int (*emit)(void *arg, const ea_record *r),
                                         void *arg, ea_err *err);
/* The Image event alone: of a module whose PDB is unknown. m->path is an NT path. */
EA_MUST_CHECK int ea_module_image(const ea_module *m, const ea_module_place *place,
                                  int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err);
/* The ids, then the Image event. */
EA_MUST_CHECK int ea_module_records(const ea_module *m, const ea_module_place *place,
                                    int (*emit)(void *arg, const ea_record *r), void *arg, ea_err *err);

#endif
