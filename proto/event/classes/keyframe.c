/* Keyframes: the open processes, threads, modules and names at a moment, as the agent's state has them. The agent makes
 * these records itself (proto/state/keyframe.h); no Windows logs them. A keyframe is Begin, then processes, threads,
 * modules and names, then End.
 * Fields that the kernel's own classes have are named as in those classes. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row KEYFRAME = {
    EA_PROVIDER_KEYFRAME, "etwagent", 1, EA_KIND_KEYFRAME};

static const ea_field_row bound_fields[] = {
    {"Number", EA_U64},
    {"ProcessCount", EA_U32},
    {"ThreadCount", EA_U32},
    {"ModuleCount", EA_U32},
    {0},
};

/* Times are UTC in ns since 1970; BeginCause: enum ea_begin of proto/state/machine.h. */
#define LIFE {"BeginTime", EA_I64}, {"SeenTime", EA_I64}, {"BeginCause", EA_U8}

/* Version 1 has the mandatory label, elevation and logon session; 0, an empty text: unknown. Elevated: 1 no, 2 yes. */
#define KEPT_PROCESS                                                                                                   \
    LIFE,                                                                                                              \
    {"ProcessId", EA_U32, EA_SEM_PID},                                                                                 \
    {"ParentId", EA_U32, EA_SEM_PARENT_PID},                                                                           \
    {"SessionId", EA_U32, EA_SEM_SESSION_ID},                                                                          \
    {"Flags", EA_HEX32, .map = &ea_process_flags},                                                                     \
    {"UniqueProcessKey", EA_HEX64, EA_SEM_PROCESS_KEY},                                                                \
    {"DirectoryTableBase", EA_HEX64, EA_SEM_ADDRESS},                                                                  \
    {"UserSID", EA_UTF8Z},                                                                                             \
    {"ImageFileName", EA_UTF8Z},                                                                                       \
    {"PackageFullName", EA_UTF8Z},                                                                                     \
    {"ApplicationId", EA_UTF8Z}

static const ea_field_row process_0_fields[] = {
    KEPT_PROCESS,
    {"CommandLine", EA_UTF8Z, EA_SEM_COMMAND_LINE},
    {0},
};

static const ea_field_row process_fields[] = {
    KEPT_PROCESS,
    {"MandatoryLabel", EA_UTF8Z},
    {"ElevationType", EA_U32},
    {"Elevated", EA_U32},
    {"LogonId", EA_HEX64},
    {"CommandLine", EA_UTF8Z, EA_SEM_COMMAND_LINE},
    {0},
};

static const ea_field_row thread_fields[] = {
    LIFE,
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"TThreadId", EA_U32, EA_SEM_TID},
    {"StackBase", EA_HEX64, EA_SEM_ADDRESS},
    {"StartAddr", EA_HEX64, EA_SEM_ADDRESS},
    {"Win32StartAddr", EA_HEX64, EA_SEM_ADDRESS},
    {"TebBase", EA_HEX64, EA_SEM_ADDRESS},
    {"ThreadName", EA_UTF8Z},
    {0},
};

/* GuidSig of zeros, FileSize 0: unknown. Version 1 has further hashes and the description; version 2 the kind: enum
 * ea_module_kind of proto/state/machine.h. */
#define MODULE                                                                                                         \
    LIFE,                                                                                                              \
    {"ProcessId", EA_U32, EA_SEM_PID},                                                                                 \
    {"ImageBase", EA_HEX64, EA_SEM_IMAGE_BASE},                                                                        \
    {"ImageSize", EA_U64, EA_SEM_BYTE_COUNT},                                                                          \
    {"DefaultBase", EA_HEX64, EA_SEM_ADDRESS},                                                                         \
    {"ImageChecksum", EA_U32},                                                                                         \
    {"TimeDateStamp", EA_U32, EA_SEM_UNIX_TIME},                                                                       \
    {"GuidSig", EA_GUID},                                                                                              \
    {"Age", EA_U32},                                                                                                   \
    {"FileName", EA_UTF8Z, EA_SEM_PATH},                                                                               \
    {"PdbFileName", EA_UTF8Z, EA_SEM_PATH},                                                                            \
    {"OriginalFileName", EA_UTF8Z},                                                                                    \
    {"FileSize", EA_U64, EA_SEM_BYTE_COUNT},                                                                           \
    {"Sha256", EA_UTF8Z},                                                                                              \
    {"FileVersion", EA_UTF8Z},                                                                                         \
    {"CompanyName", EA_UTF8Z},                                                                                         \
    {"ProductName", EA_UTF8Z}

static const ea_field_row module_0_fields[] = {
    MODULE,
    {0},
};

#define MODULE_1 MODULE, {"Md5", EA_UTF8Z}, {"Sha1", EA_UTF8Z}, {"ImpHash", EA_UTF8Z}, {"FileDescription", EA_UTF8Z}

static const ea_field_row module_1_fields[] = {
    MODULE_1,
    {0},
};

static const ea_field_row module_fields[] = {
    MODULE_1,
    {"ModuleKind", EA_U32},
    {0},
};

/* The name of a kernel address. BeginTime: the time from which it has the name; the least value: the time is unknown.
 * Kind: enum ea_name_kind of proto/state/object_names.h. */
static const ea_field_row name_fields[] = {
    {"BeginTime", EA_I64},
    {"Kind", EA_U8},
    {"Address", EA_HEX64, EA_SEM_ADDRESS},
    {"Name", EA_UTF8Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row volume_fields[] = {
    {"NtPath", EA_UTF8Z, EA_SEM_PATH},
    {"DosPath", EA_UTF8Z, EA_SEM_PATH},
    {0},
};

static const ea_class_row keyframe_rows[] = {
    {"Keyframe/Begin", 1, 0, 0, bound_fields},
    {"Keyframe/Process", 2, 0, 0, process_0_fields},
    {"Keyframe/Process", 2, 1, 1, process_fields},
    {"Keyframe/Thread", 3, 0, 0, thread_fields},
    {"Keyframe/Module", 4, 0, 0, module_0_fields},
    {"Keyframe/Module", 4, 1, 1, module_1_fields},
    {"Keyframe/Module", 4, 2, 2, module_fields},
    {"Keyframe/End", 5, 0, 0, bound_fields},
    {"Keyframe/Name", 6, 0, 0, name_fields},
    {"Keyframe/Volume", 7, 0, 0, volume_fields},
};

const ea_family ea_family_keyframe = EA_FAMILY(KEYFRAME, keyframe_rows, "proto/state/keyframe.c");
