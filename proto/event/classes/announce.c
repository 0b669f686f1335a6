/* Modules and functions of formats of their own, which the programs that load them announce by the header
 * etwagent_announce.h. The process is that of the record's header: a program speaks of itself alone. Addresses have 64
 * bits in programs of any size. Fields are named as those of Image, ImageID and MethodLoad. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row ANNOUNCE = {
    EA_PROVIDER_ANNOUNCE, "Etwagent-Announce", 0};

/* GuidSig of zeros: it has no PDB. */
static const ea_field_row module_fields[] = {
    {"ImageBase", EA_HEX64, EA_SEM_IMAGE_BASE},
    {"ImageSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"GuidSig", EA_GUID},
    {"Age", EA_U32},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {"PdbFileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

/* Line 0: unknown. */
static const ea_field_row function_fields[] = {
    {"MethodStartAddress", EA_HEX64, EA_SEM_ADDRESS},
    {"MethodSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"Line", EA_U32},
    {"MethodName", EA_UTF16Z},
    {"Url", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_class_row announce_rows[] = {
    {"Announce/ModuleLoad", 1, 0, 0, module_fields},
    {"Announce/ModuleUnload", 2, 0, 0, module_fields},
    {"Announce/ModuleDCStart", 3, 0, 0, module_fields},
    {"Announce/FunctionLoad", 4, 0, 0, function_fields},
    {"Announce/FunctionUnload", 5, 0, 0, function_fields},
    {"Announce/FunctionDCStart", 6, 0, 0, function_fields},
};

const ea_family ea_family_announce = EA_FAMILY(ANNOUNCE, announce_rows, "proto/announce/etwagent_announce.h");
