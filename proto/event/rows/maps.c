/* Names of numbers that several families share. See rows.h. */
#include "rows.h"

/* one line a field, one line a class */
// clang-format off

/* wdm.h IRP_MJ_* */
static const ea_map_entry irp_major_names[] = {
    {0, "Create"},
    {1, "CreateNamedPipe"},
    {2, "Close"},
    {3, "Read"},
    {4, "Write"},
    {5, "QueryInformation"},
    {6, "SetInformation"},
    {7, "QueryEa"},
    {8, "SetEa"},
    {9, "FlushBuffers"},
    {10, "QueryVolumeInformation"},
    {11, "SetVolumeInformation"},
    {12, "DirectoryControl"},
    {13, "FileSystemControl"},
    {14, "DeviceControl"},
    {15, "InternalDeviceControl"},
    {16, "Shutdown"},
    {17, "LockControl"},
    {18, "Cleanup"},
    {19, "CreateMailslot"},
    {20, "QuerySecurity"},
    {21, "SetSecurity"},
    {22, "Power"},
    {23, "SystemControl"},
    {24, "DeviceChange"},
    {25, "QueryQuota"},
    {26, "SetQuota"},
    {27, "Pnp"},
};
const ea_enum ea_irp_major = EA_VALUES("IrpMajorFunction", irp_major_names);
