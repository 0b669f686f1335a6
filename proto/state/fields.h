/* Finds the classes that affect the state, and the places of their fields in the payloads. This is done once for each
 * class.
 * Calls: proto/event. Called by: machine.c. Thread: the machine's. */
#ifndef EA_STATE_FIELDS_H
#define EA_STATE_FIELDS_H

#include "proto/base/map.h"
#include "proto/event/event.h"

enum subject {
    SUBJECT_NONE,
    SUBJECT_PROCESS,
    SUBJECT_PROCESS_FACTS,
    SUBJECT_THREAD,
    SUBJECT_THREAD_NAME,
    SUBJECT_MODULE,
    SUBJECT_MODULE_ID,
    SUBJECT_MODULE_FACTS,
    SUBJECT_KEYFRAME,
    SUBJECT_RUNDOWN_COMPLETE,
    SUBJECT_LOSS
};

enum verb { VERB_START, VERB_END, VERB_RUNDOWN_START, VERB_RUNDOWN_END, VERB_KEYFRAME };

/* What a field is to the state; classes name it differently in different versions (fields.c). */
enum role {
    ROLE_PID,
    ROLE_PARENT_PID,
    ROLE_SESSION_ID,
    ROLE_EXIT_STATUS,
    ROLE_UNIQUE_KEY,
    ROLE_PAGE_TABLE,
    ROLE_FLAGS,
    ROLE_SID,
    ROLE_IMAGE_NAME,
    ROLE_COMMAND_LINE,
    ROLE_PACKAGE,
    ROLE_APPLICATION,
    ROLE_MANDATORY_LABEL,
    ROLE_ELEVATION_TYPE,
    ROLE_ELEVATED,
    ROLE_LOGON_ID,
    ROLE_CREATOR_LOGON_ID,
    ROLE_CREATE_TIME,
    ROLE_TID,
    ROLE_STACK_BASE,
    ROLE_START_ADDRESS,
    ROLE_WIN32_START_ADDRESS,
    ROLE_TEB,
    ROLE_AFFINITY,
    ROLE_THREAD_NAME,
    ROLE_BASE,
    ROLE_SIZE,
    ROLE_CHECKSUM,
    ROLE_TIMESTAMP,
    ROLE_DEFAULT_BASE,
    ROLE_PATH,
    ROLE_ORIGINAL_NAME,
    ROLE_PDB_GUID,
    ROLE_PDB_AGE,
    ROLE_PDB_PATH,
    ROLE_FILE_SIZE,
    ROLE_SHA256,
    ROLE_FILE_VERSION,
    ROLE_COMPANY,
    ROLE_PRODUCT,
    ROLE_MD5,
    ROLE_SHA1,
    ROLE_IMPHASH,
    ROLE_DESCRIPTION,
    ROLE_MODULE_KIND,
    ROLE_BEGIN_TIME,
    ROLE_SEEN_TIME,
    ROLE_BEGIN_CAUSE,
    ROLE_PROCESS_COUNT,
    ROLE_THREAD_COUNT,
    ROLE_MODULE_COUNT,
    ROLE_COUNT,
    ROLE_NONE = ROLE_COUNT
};

/* What one class says. */
typedef struct class_plan {
    const ea_class *c; /* compared, with the hash, never followed: it may have been freed */
    uint8_t hash[16];
    uint8_t subject, verb;
    uint8_t is_announced;      /* a module that its program announced */
    int16_t slice[ROLE_COUNT]; /* index among the top-level fields, -1: the class has no such field */
    int16_t field[ROLE_COUNT]; /* index among all fields */
} class_plan;

typedef struct plans {
    ea_u64_map by_class; /* address of the class -> index in all */
    class_plan *all;
    size_t count, capacity;
} plans;

void ea_plans_init(plans *p);
void ea_plans_deinit(plans *p);
/* The plan of a class, valid until the next call; NULL: no memory. */
const class_plan *ea_plans_get(plans *p, const ea_class *c);

/* One record, split. */
typedef struct fields {
    const ea_class *c;
    const class_plan *plan;
    size_t whole_count;
    ea_slice slices[EA_FIELDS_MAX];
} fields;

/* 1 and *ret when the record holds this number whole. */
int ea_fields_u64(const fields *f, enum role role, uint64_t *ret);
/* The number, or 0. */
uint64_t ea_fields_u64_or_0(const fields *f, enum role role);
/* The text as UTF-8 in out (cleared first); empty when there is none. A SID is "S-1-5-18". */
void ea_fields_text(const fields *f, enum role role, ea_text *out);
int ea_fields_guid(const fields *f, enum role role, ea_guid *ret);

#endif
