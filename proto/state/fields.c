/* Class rows as the state sees them. See fields.h.
 * Source of provider GUIDs, opcodes and field names: Windows' MOF schema (the class rows of proto/event/classes have
 * the same names); ImageID: microsoft/perfview SymbolTraceEventParser.cs. */
#include "proto/state/fields.h"

#include "proto/base/array.h"
#include "proto/base/provider_guids.h"
#include "proto/event/value.h"
#include "proto/state/image_facts.h"
#include "proto/state/keyframe.h"
#include "proto/state/machine.h"

#include <stdlib.h>
#include <string.h>

const ea_guid ea_keyframe_provider = EA_PROVIDER_KEYFRAME;
static const ea_guid PROCESS = EA_PROVIDER_PROCESS;
static const ea_guid THREAD = EA_PROVIDER_THREAD;
static const ea_guid IMAGE = EA_PROVIDER_IMAGE;
static const ea_guid IMAGE_ID = EA_PROVIDER_IMAGE_ID;
static const ea_guid KERNEL_PROCESS = EA_PROVIDER_KERNEL_PROCESS;
static const ea_guid SECURITY = EA_PROVIDER_SECURITY;
static const ea_guid ANNOUNCE = EA_PROVIDER_ANNOUNCE;
static const ea_guid EVENT_TRACE = EA_PROVIDER_EVENT_TRACE;
static const ea_guid LOST_EVENT = EA_PROVIDER_LOST_EVENT;

enum {
    OP_START = 1,
    OP_END = 2,
    OP_DC_START = 3,
    OP_DC_END = 4,
    OP_LOAD = 10,
    OP_SET_NAME = 72,
    ID_PROCESS_START = 1, /* of Kernel-Process */
    ID_PROCESS_RUNDOWN = 15,
    ID_PROCESS_CREATED = 4688, /* of Security-Auditing */
    ID_MODULE_LOAD = 1,        /* of Etwagent-Announce; they are as OP_START, OP_END and OP_DC_START */
    ID_MODULE_DC_START = 3,
    OP_ID_INFO = 0,
    OP_ID_RSDS = 36,
    OP_RUNDOWN_COMPLETE = 8,
    OP_LOST_EVENT = 32, /* and a buffer, and a file of a session in real time */
    OP_LOST_FILE = 34,
    PLANS_MAX = 4096, /* classes come from outside: beyond this the plans are made anew */
};

/* The first 32 bits distinguish the providers from nearly all others; the switch costs no memory access beside the
 * record's own. */
int ea_machine_concerns(const ea_guid *provider, uint16_t opcode) {
    switch (ea_load32(provider->bytes)) {
    case 0x3d6fa8d0:
        return opcode >= OP_START && opcode <= OP_DC_END && ea_guid_equal(provider, &PROCESS);
    case 0x3d6fa8d1:
        return ((opcode >= OP_START && opcode <= OP_DC_END) || opcode == OP_SET_NAME) &&
               ea_guid_equal(provider, &THREAD);
    case 0x2cb15d1d:
        return ((opcode >= OP_END && opcode <= OP_DC_END) || opcode == OP_LOAD) && ea_guid_equal(provider, &IMAGE);
    case 0xb3e675d7:
        return (opcode == OP_ID_INFO || opcode == OP_ID_RSDS) && ea_guid_equal(provider, &IMAGE_ID);
    case 0xc2a7f6b1:
        return opcode >= EA_KEYFRAME_BEGIN && opcode <= EA_KEYFRAME_END &&
               ea_guid_equal(provider, &ea_keyframe_provider);
    case 0x7be2d0c4:
        return opcode == EA_IMAGE_FACTS_OPCODE && ea_guid_equal(provider, &ea_image_facts_provider);
    case 0x22fb2cd6:
        return (opcode == ID_PROCESS_START || opcode == ID_PROCESS_RUNDOWN) && ea_guid_equal(provider, &KERNEL_PROCESS);
    case 0x54849625:
        return opcode == ID_PROCESS_CREATED && ea_guid_equal(provider, &SECURITY);
    case 0x0c87d9d8:
        return opcode >= ID_MODULE_LOAD && opcode <= ID_MODULE_DC_START && ea_guid_equal(provider, &ANNOUNCE);
    case 0x68fdd900:
        return opcode == OP_RUNDOWN_COMPLETE && ea_guid_equal(provider, &EVENT_TRACE);
    case 0x6a399ae0:
        return opcode >= OP_LOST_EVENT && opcode <= OP_LOST_FILE && ea_guid_equal(provider, &LOST_EVENT);
    default:
        return 0;
    }
}

static enum verb fields_verb_of(uint16_t opcode) {
    switch (opcode) {
    case OP_END:
        return VERB_END;
    case OP_DC_START:
        return VERB_RUNDOWN_START;
    case OP_DC_END:
        return VERB_RUNDOWN_END;
    default:
        return VERB_START;
    }
}

static enum subject fields_subject_of(const ea_class *c) {
    if (!ea_machine_concerns(&c->provider, c->code))
        return SUBJECT_NONE;
    if (ea_guid_equal(&c->provider, &KERNEL_PROCESS) || ea_guid_equal(&c->provider, &SECURITY))
        return c->classic ? SUBJECT_NONE : SUBJECT_PROCESS_FACTS;
    if (ea_guid_equal(&c->provider, &ANNOUNCE))
        return c->classic ? SUBJECT_NONE : SUBJECT_MODULE;
    if (!c->classic)
        return SUBJECT_NONE;
    if (ea_guid_equal(&c->provider, &PROCESS))
        return SUBJECT_PROCESS;
    if (ea_guid_equal(&c->provider, &ea_keyframe_provider))
        switch (c->code) {
        case EA_KEYFRAME_PROCESS:
            return SUBJECT_PROCESS;
        case EA_KEYFRAME_THREAD:
            return SUBJECT_THREAD;
        case EA_KEYFRAME_MODULE:
            return SUBJECT_MODULE;
        default:
            return SUBJECT_KEYFRAME; /* begin and end */
        }
    if (ea_guid_equal(&c->provider, &ea_image_facts_provider))
        return SUBJECT_MODULE_FACTS;
    if (ea_guid_equal(&c->provider, &EVENT_TRACE))
        return SUBJECT_RUNDOWN_COMPLETE;
    if (ea_guid_equal(&c->provider, &LOST_EVENT))
        return SUBJECT_LOSS;
    if (ea_guid_equal(&c->provider, &THREAD))
        return c->code == OP_SET_NAME ? SUBJECT_THREAD_NAME : SUBJECT_THREAD;
    return ea_guid_equal(&c->provider, &IMAGE) ? SUBJECT_MODULE : SUBJECT_MODULE_ID;
}

static const struct {
    const char *field;
    uint8_t role;
} NAMES[] = {
    {"ProcessId", ROLE_PID},
    {"ParentId", ROLE_PARENT_PID},
    {"SessionId", ROLE_SESSION_ID},
    {"ExitStatus", ROLE_EXIT_STATUS},
    {"UniqueProcessKey", ROLE_UNIQUE_KEY},
    {"DirectoryTableBase", ROLE_PAGE_TABLE},
    {"PageDirectoryBase", ROLE_PAGE_TABLE}, /* Process v1 */
    {"Flags", ROLE_FLAGS},
    {"UserSID", ROLE_SID},
    {"ImageFileName", ROLE_IMAGE_NAME},
    {"CommandLine", ROLE_COMMAND_LINE},
    {"PackageFullName", ROLE_PACKAGE},
    {"ApplicationId", ROLE_APPLICATION},
    {"MandatoryLabel", ROLE_MANDATORY_LABEL}, /* Kernel-Process, Security-Auditing, and keyframes */
    {"ProcessTokenElevationType", ROLE_ELEVATION_TYPE},
    {"TokenElevationType", ROLE_ELEVATION_TYPE}, /* Security-Auditing, as a text */
    {"ElevationType", ROLE_ELEVATION_TYPE},
    {"ProcessTokenIsElevated", ROLE_ELEVATED},
    {"Elevated", ROLE_ELEVATED},
    {"TargetLogonId", ROLE_LOGON_ID},
    {"LogonId", ROLE_LOGON_ID},
    {"SubjectLogonId", ROLE_CREATOR_LOGON_ID},
    {"CreateTime", ROLE_CREATE_TIME},
    {"ProcessID", ROLE_PID},              /* Kernel-Process */
    {"ParentProcessID", ROLE_PARENT_PID}, /* Kernel-Process */
    {"NewProcessId", ROLE_PID},           /* Security-Auditing, whose ProcessId is the creator's */
    {"TThreadId", ROLE_TID},
    {"ThreadId", ROLE_TID}, /* SetName */
    {"StackBase", ROLE_STACK_BASE},
    {"StartAddr", ROLE_START_ADDRESS},
    {"Win32StartAddr", ROLE_WIN32_START_ADDRESS},
    {"TebBase", ROLE_TEB},
    {"Affinity", ROLE_AFFINITY},
    {"ThreadName", ROLE_THREAD_NAME},
    {"ImageBase", ROLE_BASE},
    {"BaseAddress", ROLE_BASE}, /* Image v0 */
    {"ImageSize", ROLE_SIZE},
    {"ModuleSize", ROLE_SIZE}, /* Image v0 */
    {"ImageChecksum", ROLE_CHECKSUM},
    {"TimeDateStamp", ROLE_TIMESTAMP},
    {"DefaultBase", ROLE_DEFAULT_BASE},
    {"FileName", ROLE_PATH},
    {"OriginalFileName", ROLE_ORIGINAL_NAME},
    {"GuidSig", ROLE_PDB_GUID},
    {"Age", ROLE_PDB_AGE},
    {"PdbFileName", ROLE_PDB_PATH},
    {"FileSize", ROLE_FILE_SIZE}, /* of image files, and keyframes */
    {"Sha256", ROLE_SHA256},
    {"FileVersion", ROLE_FILE_VERSION},
    {"CompanyName", ROLE_COMPANY},
    {"ProductName", ROLE_PRODUCT},
    {"Md5", ROLE_MD5},
    {"Sha1", ROLE_SHA1},
    {"ImpHash", ROLE_IMPHASH},
    {"FileDescription", ROLE_DESCRIPTION},
    {"ModuleKind", ROLE_MODULE_KIND}, /* keyframes */
    {"BeginTime", ROLE_BEGIN_TIME},
    {"SeenTime", ROLE_SEEN_TIME},
    {"BeginCause", ROLE_BEGIN_CAUSE},
    {"ProcessCount", ROLE_PROCESS_COUNT},
    {"ThreadCount", ROLE_THREAD_COUNT},
    {"ModuleCount", ROLE_MODULE_COUNT},
};

static void fields_make_plan(class_plan *p, const ea_class *c) {
    *p = (class_plan){.c = c, .subject = (uint8_t)fields_subject_of(c), .verb = (uint8_t)fields_verb_of(c->code)};
    if (ea_guid_equal(&c->provider, &ea_keyframe_provider))
        p->verb = VERB_KEYFRAME;
    p->is_announced = p->subject == SUBJECT_MODULE && ea_guid_equal(&c->provider, &ANNOUNCE);
    memcpy(p->hash, c->hash, sizeof p->hash);
    for (int r = 0; r < ROLE_COUNT; r++)
        p->slice[r] = -1;
    if (p->subject == SUBJECT_NONE)
        return;
    for (size_t field = 0, top = 0; field < c->field_count; field += c->fields[field].span, top++) {
        const ea_field *f = &c->fields[field];
        for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
            if (strcmp(f->name, NAMES[i].field) != 0)
                continue;
            if (ea_guid_equal(&c->provider, &SECURITY) && strcmp(f->name, "ProcessId") == 0)
                break;
            /* Image v0 calls its path ImageFileName. */
            int role = p->subject == SUBJECT_MODULE && NAMES[i].role == ROLE_IMAGE_NAME ? ROLE_PATH : NAMES[i].role;
            p->slice[role] = (int16_t)top;
            p->field[role] = (int16_t)field;
            break;
        }
    }
}

void ea_plans_init(plans *p) {
    *p = (plans){0};
    ea_u64_map_init(&p->by_class, PLANS_MAX);
}

void ea_plans_deinit(plans *p) {
    ea_u64_map_deinit(&p->by_class);
    free(p->all);
    *p = (plans){0};
}

const class_plan *ea_plans_get(plans *p, const ea_class *c) {
    uint64_t *known = ea_u64_map_get(&p->by_class, (uintptr_t)c);
    if (known) {
        class_plan *have = &p->all[*known];
        if (memcmp(have->hash, c->hash, sizeof have->hash) != 0)
            fields_make_plan(have, c); /* another class at the address of a freed one */
        return have;
    }
    if (p->count == PLANS_MAX) {
        ea_u64_map_clear(&p->by_class);
        p->count = 0;
    }
    if (EA_GROW(p->all, p->capacity, p->count + 1, PLANS_MAX) || ea_u64_map_put(&p->by_class, (uintptr_t)c, p->count))
        return NULL;
    fields_make_plan(&p->all[p->count], c);
    return &p->all[p->count++];
}

/* The field and its bytes when there is exactly one and it is whole; NULL otherwise. */
static const ea_field *fields_whole(const fields *f, enum role role, const ea_slice **ret) {
    int16_t i = f->plan->slice[role];
    if (i < 0 || (size_t)i >= f->whole_count || f->slices[i].element_count != 1)
        return NULL;
    *ret = &f->slices[i];
    return &f->c->fields[f->plan->field[role]];
}

int ea_fields_u64(const fields *f, enum role role, uint64_t *ret) {
    const ea_slice *s;
    const ea_field *field = fields_whole(f, role, &s);
    return field && ea_value_u64(field, s->data, ret);
}

uint64_t ea_fields_u64_or_0(const fields *f, enum role role) {
    uint64_t v = 0;
    (void)ea_fields_u64(f, role, &v);
    return v;
}

void ea_fields_text(const fields *f, enum role role, ea_text *out) {
    const ea_slice *s;
    const ea_field *field = fields_whole(f, role, &s);
    ea_text_clear(out);
    if (field && (field->type == EA_WBEM_SID || field->type == EA_SID))
        (void)ea_value_sid(field, f->c->pointer_size, s, out);
    else if (field)
        (void)ea_value_text(field, s, out);
}

int ea_fields_guid(const fields *f, enum role role, ea_guid *ret) {
    const ea_slice *s;
    const ea_field *field = fields_whole(f, role, &s);
    if (!field || field->type != EA_GUID)
        return 0;
    memcpy(ret->bytes, s->data, sizeof ret->bytes);
    return 1;
}
