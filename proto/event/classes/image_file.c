/* What an image's file says of itself, and what an account is called. The agent asks the machine and makes these
 * records itself (service/image, proto/state/image_facts.h, account_facts.h); no Windows logs them. Fields that the
 * kernel's own classes have are named as there. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row IMAGE_FILE = {
    EA_PROVIDER_IMAGE_FILE, "etwagent", 1};

/* GuidSig of zeros, empty texts: unknown. ProcessId, ImageBase and FileName are the image event's. */
static const ea_field_row facts_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ImageBase", EA_HEX64, EA_SEM_IMAGE_BASE},
    {"ImageSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"ImageChecksum", EA_U32},
    {"TimeDateStamp", EA_U32, EA_SEM_UNIX_TIME},
    {"FileSize", EA_U64, EA_SEM_BYTE_COUNT},
    {"GuidSig", EA_GUID},
    {"Age", EA_U32},
    {"Sha256", EA_UTF8Z},
    {"FileVersion", EA_UTF8Z},
    {"CompanyName", EA_UTF8Z},
    {"ProductName", EA_UTF8Z},
    {"OriginalFileName", EA_UTF8Z},
    {"PdbFileName", EA_UTF8Z, EA_SEM_PATH},
    {"FileName", EA_UTF8Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row account_fields[] = {
    {"Sid", EA_UTF8Z},
    {"Account", EA_UTF8Z},
    {0},
};

static const ea_class_row image_file_rows[] = {
    {"ImageFile/Facts", 1, 0, 0, facts_fields},
    {"Account/Name", 2, 0, 0, account_fields},
};

const ea_family ea_family_image_file = EA_FAMILY(IMAGE_FILE, image_file_rows, "proto/state/image_facts.c");
