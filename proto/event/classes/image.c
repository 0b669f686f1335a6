/* Images (modules) and the loader. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row IMAGE = {
    EA_PROVIDER_IMAGE, EA_KERNEL_TRACE, 1};

static const ea_field_row load_v0_fields[] = {
    {"BaseAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"ModuleSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"ImageFileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row load_v1_fields[] = {
    {"ImageBase", EA_POINTER, EA_SEM_IMAGE_BASE},
    {"ImageSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

/* winnt.h SE_SIGNING_LEVEL_* */
static const ea_map_entry signature_level_names[] = {
    {0, "Unchecked"},
    {1, "Unsigned"},
    {2, "Enterprise"},
    {3, "Developer"},
    {4, "Authenticode"},
    {5, "Custom2"},
    {6, "Store"},
    {7, "Antimalware"},
    {8, "Microsoft"},
    {9, "Custom4"},
    {10, "Custom5"},
    {11, "DynamicCodegen"},
    {12, "Windows"},
    {13, "WindowsProtectedLight"},
    {14, "WindowsTcb"},
    {15, "Custom6"},
};
static const ea_enum signature_level = EA_VALUES("SignatureLevel", signature_level_names);

/* ntpsapi.h SE_IMAGE_SIGNATURE_TYPE */
static const ea_map_entry signature_type_names[] = {
    {0, "None"},
    {1, "Embedded"},
    {2, "Cache"},
    {3, "CatalogCached"},
    {4, "CatalogNotCached"},
    {5, "CatalogHint"},
    {6, "PackageCatalog"},
    {7, "PplMitigated"},
};
static const ea_enum signature_type = EA_VALUES("SignatureType", signature_type_names);

static const ea_field_row image_fields[] = {
    {"ImageBase", EA_POINTER, EA_SEM_IMAGE_BASE},
    {"ImageSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ImageChecksum", EA_U32},
    {"TimeDateStamp", EA_U32, EA_SEM_UNIX_TIME},
    {"Reserved0", EA_U32, .until = 2},
    {"SignatureLevel", EA_U8, .since = 3, .map = &signature_level},
    {"SignatureType", EA_U8, .since = 3, .map = &signature_type},
    {"Reserved0", EA_U16, .since = 3},
    {"DefaultBase", EA_POINTER, EA_SEM_ADDRESS},
    {"Reserved1", EA_U32},
    {"Reserved2", EA_U32},
    {"Reserved3", EA_U32},
    {"Reserved4", EA_U32},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row kernel_base_fields[] = {
    {"ImageBase", EA_POINTER, EA_SEM_IMAGE_BASE},
    {0},
};

static const ea_field_row hypercall_page_fields[] = {
    {"HypercallPageVa", EA_POINTER, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row loader_base_fields[] = {
    {"BaseAddress", EA_HEX64, EA_SEM_ADDRESS},
    {0},
};

static const ea_field_row loader_coded_fields[] = {
    {"BaseAddress", EA_HEX64, EA_SEM_ADDRESS},
    {"ErrorOpcode", EA_HEX8},
    {"Code", EA_I8},
    {"String", EA_UTF16Z},
    {0},
};

static const ea_field_row new_dll_load_fields[] = {
    {"NewDllBaseAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"ParentDllBaseAddress", EA_POINTER, EA_SEM_ADDRESS},
    {"LoadReason", EA_HEX32},
    {"FilePath", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row loader_path_fields[] = {
    {"BaseAddress", EA_HEX64, EA_SEM_ADDRESS},
    {"ErrorOpcode", EA_HEX8},
    {"Code", EA_I8},
    {"String1", EA_UTF16Z},
    {"String2", EA_UTF16Z},
    {0},
};

static const ea_field_row dll_search_results_fields[] = {
    {"LdrLoadFlags", EA_HEX32},
    {"LdrSearchFlags", EA_HEX32},
    {"SearchInfo", EA_HEX32},
    {"LoadReason", EA_HEX32},
    {"FullDllName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row dll_path_search_results_fields[] = {
    {"SearchInfo", EA_HEX32},
    {"Cwd", EA_UTF16Z, EA_SEM_PATH},
    {"AppDir", EA_UTF16Z, EA_SEM_PATH},
    {"DllDir", EA_UTF16Z, EA_SEM_PATH},
    {"DllLoadDir", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_class_row image_rows[] = {
    {"Image/UnLoad", 2, 2, 3, image_fields},
    {"Image/DCStart", 3, 2, 3, image_fields},
    {"Image/DCEnd", 4, 2, 3, image_fields},
    {"Image/Load", 10, 0, 0, load_v0_fields},
    {"Image/Load", 10, 1, 1, load_v1_fields},
    {"Image/Load", 10, 2, 3, image_fields},
    {"Image/KernelBase", 33, 2, 2, kernel_base_fields},
    {"Image/HypercallPage", 34, 2, 2, hypercall_page_fields},
    {"Image/LoaderLockAttempt", 128, 2, 2, ea_no_fields},
    {"Image/LoaderLockAcquire", 129, 2, 2, ea_no_fields},
    {"Image/LoaderLockTriedAndFailed", 130, 2, 2, ea_no_fields},
    {"Image/LoaderLockWait", 131, 2, 2, ea_no_fields},
    {"Image/ProcessInitDone", 132, 2, 2, ea_no_fields},
    {"Image/CreateSectionBegin", 133, 2, 2, ea_no_fields},
    {"Image/CreateSectionEnd", 134, 2, 2, ea_no_fields},
    {"Image/MapViewBegin", 135, 2, 2, ea_no_fields},
    {"Image/RelocateImageBegin", 144, 2, 2, loader_base_fields},
    {"Image/RelocateImageEnd", 145, 2, 2, loader_base_fields},
    {"Image/HandleOldDescsBegin", 146, 2, 2, loader_base_fields},
    {"Image/HandleOldDescsEnd", 147, 2, 2, loader_base_fields},
    {"Image/HandleNewDescsBegin", 148, 2, 2, loader_base_fields},
    {"Image/HandleNewDescsEnd", 149, 2, 2, loader_base_fields},
    {"Image/DllMainExit", 150, 2, 2, loader_base_fields},
    {"Image/FindDllByName", 160, 2, 2, loader_coded_fields},
    {"Image/MapViewEnd", 161, 2, 2, loader_coded_fields},
    {"Image/LoaderLockRelease", 162, 2, 2, loader_coded_fields},
    {"Image/DllMainEnter", 163, 2, 2, loader_coded_fields},
    {"Image/LoaderError", 164, 2, 2, loader_coded_fields},
    {"Image/MapViewStart", 165, 3, 3, loader_coded_fields},
    {"Image/SnappingStart", 166, 3, 3, loader_coded_fields},
    {"Image/SnappingEnd", 167, 3, 3, loader_coded_fields},
    {"Image/LoadingStart", 168, 3, 3, loader_coded_fields},
    {"Image/LoadingEnd", 169, 3, 3, loader_coded_fields},
    {"Image/FoundKnownDll", 170, 3, 3, loader_coded_fields},
    {"Image/AbnormalTermination", 171, 3, 3, loader_coded_fields},
    {"Image/ModulePlaceHolder", 172, 3, 3, loader_coded_fields},
    {"Image/ReadyToInit", 173, 3, 3, loader_coded_fields},
    {"Image/ReadyToRun", 174, 3, 3, loader_coded_fields},
    {"Image/NewDllLoad", 176, 3, 3, new_dll_load_fields},
    {"Image/NewDllLoadAsData", 177, 3, 3, new_dll_load_fields},
    {"Image/DllSearchPathExternal", 192, 3, 3, loader_path_fields},
    {"Image/DllSearchPathInternal", 193, 3, 3, loader_path_fields},
    {"Image/ApiSetResolving", 208, 3, 3, loader_coded_fields},
    {"Image/ApiSetHosted", 209, 3, 3, loader_coded_fields},
    {"Image/ApiSetUnhosted", 210, 3, 3, loader_coded_fields},
    {"Image/ApiSetUnresolved", 211, 3, 3, loader_coded_fields},
    {"Image/DllSearchResults", 212, 3, 3, dll_search_results_fields},
    {"Image/DllPathSearchResults", 213, 3, 3, dll_path_search_results_fields},
};

const ea_family ea_family_image = EA_FAMILY(IMAGE, image_rows, EA_MOF);
