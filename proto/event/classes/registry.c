/* The registry. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row REGISTRY = {
    EA_PROVIDER_REGISTRY, EA_KERNEL_TRACE, 1};

static const ea_field_row create_fields[] = {
    {"Status", EA_POINTER, EA_SEM_NTSTATUS},
    {"KeyHandle", EA_POINTER, EA_SEM_KCB},
    {"ElapsedTime", EA_I64},
    {"Index", EA_U32, .since = 1},
    {"KeyName", EA_UTF16Z, EA_SEM_REGISTRY_PATH},
    {0},
};

static const ea_field_row create_v2_fields[] = {
    {"InitialTime", EA_I64, EA_SEM_QPC},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {"Index", EA_U32},
    {"KeyHandle", EA_POINTER, EA_SEM_KCB},
    {"KeyName", EA_UTF16Z, EA_SEM_REGISTRY_PATH},
    {0},
};

static const ea_field_row tx_r_commit_fields[] = {
    {"TxrGUID", EA_GUID},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {"UowCount", EA_U32},
    {"OperationTime", EA_U64, EA_SEM_QPC},
    {"Hive", EA_UTF16Z},
    {0},
};

static const ea_field_row counters_fields[] = {
    {"Counter1", EA_U64},
    {"Counter2", EA_U64},
    {"Counter3", EA_U64},
    {"Counter4", EA_U64},
    {"Counter5", EA_U64},
    {"Counter6", EA_U64},
    {"Counter7", EA_U64},
    {"Counter8", EA_U64},
    {"Counter9", EA_U64},
    {"Counter10", EA_U64},
    {"Counter11", EA_U64},
    {0},
};

static const ea_field_row config_fields[] = {
    {"CurrentControlSet", EA_U32},
    {0},
};

static const ea_field_row hive_init_fields[] = {
    {"Hive", EA_POINTER, EA_SEM_ADDRESS},
    {"OperationType", EA_U32},
    {"PoolTag", EA_U32},
    {"Size", EA_U32, EA_SEM_BYTE_COUNT},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row hive_destroy_fields[] = {
    {"Hive", EA_POINTER, EA_SEM_ADDRESS},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {"Path", EA_UTF16Z, EA_SEM_REGISTRY_PATH},
    {0},
};

static const ea_field_row hive_link_fields[] = {
    {"Hive", EA_POINTER, EA_SEM_ADDRESS},
    {"Path", EA_UTF16Z, EA_SEM_REGISTRY_PATH},
    {0},
};

static const ea_field_row hive_dc_end_fields[] = {
    {"Size", EA_U64, EA_SEM_BYTE_COUNT},
    {"Hive", EA_POINTER, EA_SEM_ADDRESS},
    {"LoadedKeyCount", EA_U32},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {"LinkPath", EA_UTF16Z, EA_SEM_REGISTRY_PATH},
    {0},
};

static const ea_field_row hive_dirty_fields[] = {
    {"Hive", EA_POINTER, EA_SEM_ADDRESS},
    {"LinkPath", EA_UTF16Z, EA_SEM_REGISTRY_PATH},
    {"DirtyReason", EA_U32},
    {0},
};

static const ea_field_row change_notify_fields[] = {
    {"Notification", EA_POINTER, EA_SEM_ADDRESS},
    {"KeyHandle", EA_POINTER, EA_SEM_KCB},
    {"Type", EA_U8},
    {"WatchSubtree", EA_U8},
    {"Primary", EA_U8},
    {0},
};

static const ea_class_row registry_rows[] = {
    {"Registry/Create", 10, 0, 1, create_fields},
    {"Registry/Create", 10, 2, 2, create_v2_fields},
    {"Registry/Open", 11, 0, 1, create_fields},
    {"Registry/Open", 11, 2, 2, create_v2_fields},
    {"Registry/Delete", 12, 0, 1, create_fields},
    {"Registry/Delete", 12, 2, 2, create_v2_fields},
    {"Registry/Query", 13, 0, 1, create_fields},
    {"Registry/Query", 13, 2, 2, create_v2_fields},
    {"Registry/SetValue", 14, 0, 1, create_fields},
    {"Registry/SetValue", 14, 2, 2, create_v2_fields},
    {"Registry/DeleteValue", 15, 0, 1, create_fields},
    {"Registry/DeleteValue", 15, 2, 2, create_v2_fields},
    {"Registry/QueryValue", 16, 0, 1, create_fields},
    {"Registry/QueryValue", 16, 2, 2, create_v2_fields},
    {"Registry/EnumerateKey", 17, 0, 1, create_fields},
    {"Registry/EnumerateKey", 17, 2, 2, create_v2_fields},
    {"Registry/EnumerateValueKey", 18, 0, 1, create_fields},
    {"Registry/EnumerateValueKey", 18, 2, 2, create_v2_fields},
    {"Registry/QueryMultipleValue", 19, 0, 1, create_fields},
    {"Registry/QueryMultipleValue", 19, 2, 2, create_v2_fields},
    {"Registry/SetInformation", 20, 0, 1, create_fields},
    {"Registry/SetInformation", 20, 2, 2, create_v2_fields},
    {"Registry/Flush", 21, 0, 1, create_fields},
    {"Registry/Flush", 21, 2, 2, create_v2_fields},
    {"Registry/RunDown", 22, 1, 1, create_fields},
    {"Registry/KCBCreate", 22, 2, 2, create_v2_fields},
    {"Registry/KCBDelete", 23, 2, 2, create_v2_fields},
    {"Registry/KCBRundownBegin", 24, 2, 2, create_v2_fields},
    {"Registry/KCBRundownEnd", 25, 2, 2, create_v2_fields},
    {"Registry/Virtualize", 26, 2, 2, create_v2_fields},
    {"Registry/Close", 27, 2, 2, create_v2_fields},
    {"Registry/SetSecurity", 28, 2, 2, create_v2_fields},
    {"Registry/QuerySecurity", 29, 2, 2, create_v2_fields},
    {"Registry/TxRCommit", 30, 2, 2, tx_r_commit_fields},
    {"Registry/TxRPrepare", 31, 2, 2, tx_r_commit_fields},
    {"Registry/TxRRollback", 32, 2, 2, tx_r_commit_fields},
    {"Registry/Counters", 34, 2, 2, counters_fields},
    {"Registry/Config", 35, 2, 2, config_fields},
    {"Registry/HiveInit", 36, 2, 2, hive_init_fields},
    {"Registry/HiveDestroy", 37, 2, 2, hive_destroy_fields},
    {"Registry/HiveLink", 38, 2, 2, hive_link_fields},
    {"Registry/HiveDCEnd", 39, 2, 2, hive_dc_end_fields},
    {"Registry/HiveDirty", 40, 2, 2, hive_dirty_fields},
    {"Registry/ChangeNotify", 48, 2, 2, change_notify_fields},
};

const ea_family ea_family_registry = EA_FAMILY(REGISTRY, registry_rows, EA_MOF);
