/* File I/O and mini-filters. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row FILE_IO = {
    EA_PROVIDER_FILE_IO, EA_KERNEL_TRACE, 1};

/* wdm.h FILE_* of NtCreateFile; the top byte is the disposition, a number: entries with two bits come first */
static const ea_map_entry create_options_names[] = {
    {0x5000000, "OVERWRITE_IF"},
    {0x3000000, "OPEN_IF"},
    {0x4000000, "OVERWRITE"},
    {0x2000000, "CREATE"},
    {0x1000000, "OPEN"},
    {0x1, "DIRECTORY_FILE"},
    {0x2, "WRITE_THROUGH"},
    {0x4, "SEQUENTIAL_ONLY"},
    {0x8, "NO_INTERMEDIATE_BUFFERING"},
    {0x10, "SYNCHRONOUS_IO_ALERT"},
    {0x20, "SYNCHRONOUS_IO_NONALERT"},
    {0x40, "NON_DIRECTORY_FILE"},
    {0x80, "CREATE_TREE_CONNECTION"},
    {0x100, "COMPLETE_IF_OPLOCKED"},
    {0x200, "NO_EA_KNOWLEDGE"},
    {0x400, "OPEN_REMOTE_INSTANCE"},
    {0x800, "RANDOM_ACCESS"},
    {0x1000, "DELETE_ON_CLOSE"},
    {0x2000, "OPEN_BY_FILE_ID"},
    {0x4000, "OPEN_FOR_BACKUP_INTENT"},
    {0x8000, "NO_COMPRESSION"},
    {0x10000, "OPEN_REQUIRING_OPLOCK"},
    {0x20000, "DISALLOW_EXCLUSIVE"},
    {0x40000, "SESSION_AWARE"},
    {0x100000, "RESERVE_OPFILTER"},
    {0x200000, "OPEN_REPARSE_POINT"},
    {0x400000, "OPEN_NO_RECALL"},
    {0x800000, "OPEN_FOR_FREE_SPACE_QUERY"},
};
static const ea_enum create_options = EA_FLAGS("CreateOptions", create_options_names);

/* winnt.h FILE_ATTRIBUTE_* */
static const ea_map_entry file_attributes_names[] = {
    {0x1, "READONLY"},
    {0x2, "HIDDEN"},
    {0x4, "SYSTEM"},
    {0x10, "DIRECTORY"},
    {0x20, "ARCHIVE"},
    {0x40, "DEVICE"},
    {0x80, "NORMAL"},
    {0x100, "TEMPORARY"},
    {0x200, "SPARSE_FILE"},
    {0x400, "REPARSE_POINT"},
    {0x800, "COMPRESSED"},
    {0x1000, "OFFLINE"},
    {0x2000, "NOT_CONTENT_INDEXED"},
    {0x4000, "ENCRYPTED"},
    {0x8000, "INTEGRITY_STREAM"},
    {0x10000, "VIRTUAL"},
    {0x20000, "NO_SCRUB_DATA"},
    {0x80000, "PINNED"},
    {0x100000, "UNPINNED"},
};
static const ea_enum file_attributes = EA_FLAGS("FileAttributes", file_attributes_names);

/* winnt.h FILE_SHARE_* */
static const ea_map_entry share_access_names[] = {
    {0x1, "READ"},
    {0x2, "WRITE"},
    {0x4, "DELETE"},
};
static const ea_enum share_access = EA_FLAGS("ShareAccess", share_access_names);

/* wdm.h FILE_INFORMATION_CLASS, without "File" and "Information" */
static const ea_map_entry information_class_names[] = {
    {1, "Directory"},
    {2, "FullDirectory"},
    {3, "BothDirectory"},
    {4, "Basic"},
    {5, "Standard"},
    {6, "Internal"},
    {7, "Ea"},
    {8, "Access"},
    {9, "Name"},
    {10, "Rename"},
    {11, "Link"},
    {12, "Names"},
    {13, "Disposition"},
    {14, "Position"},
    {15, "FullEa"},
    {16, "Mode"},
    {17, "Alignment"},
    {18, "All"},
    {19, "Allocation"},
    {20, "EndOfFile"},
    {21, "AlternateName"},
    {22, "Stream"},
    {23, "Pipe"},
    {24, "PipeLocal"},
    {25, "PipeRemote"},
    {26, "MailslotQuery"},
    {27, "MailslotSet"},
    {28, "Compression"},
    {29, "ObjectId"},
    {30, "Completion"},
    {31, "MoveCluster"},
    {32, "Quota"},
    {33, "ReparsePoint"},
    {34, "NetworkOpen"},
    {35, "AttributeTag"},
    {36, "Tracking"},
    {37, "IdBothDirectory"},
    {38, "IdFullDirectory"},
    {39, "ValidDataLength"},
    {40, "ShortName"},
    {41, "IoCompletionNotification"},
    {42, "IoStatusBlockRange"},
    {43, "IoPriorityHint"},
    {44, "SfioReserve"},
    {45, "SfioVolume"},
    {46, "HardLink"},
    {47, "ProcessIdsUsingFile"},
    {48, "NormalizedName"},
    {49, "NetworkPhysicalName"},
    {50, "IdGlobalTxDirectory"},
    {51, "IsRemoteDevice"},
    {52, "Unused"},
    {53, "NumaNode"},
    {54, "StandardLink"},
    {55, "RemoteProtocol"},
    {56, "RenameBypassAccessCheck"},
    {57, "LinkBypassAccessCheck"},
    {58, "VolumeName"},
    {59, "Id"},
    {60, "IdExtdDirectory"},
    {61, "ReplaceCompletion"},
    {62, "HardLinkFullId"},
    {63, "IdExtdBothDirectory"},
    {64, "DispositionEx"},
    {65, "RenameEx"},
    {66, "RenameExBypassAccessCheck"},
    {67, "DesiredStorageClass"},
    {68, "Stat"},
    {69, "MemoryPartition"},
    {70, "StatLx"},
    {71, "CaseSensitive"},
    {72, "LinkEx"},
    {73, "LinkExBypassAccessCheck"},
    {74, "StorageReserveId"},
    {75, "CaseSensitiveForceAccessCheck"},
    {76, "KnownFolder"},
};
static const ea_enum information_class = EA_VALUES("FileInformationClass", information_class_names);

static const ea_field_row name_fields[] = {
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row create_fields[] = {
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"TTID", EA_SIZE, EA_SEM_TID, .until = 2},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"TTID", EA_U32, EA_SEM_TID, .since = 3},
    {"CreateOptions", EA_U32, .map = &create_options},
    {"FileAttributes", EA_U32, .map = &file_attributes},
    {"ShareAccess", EA_U32, .map = &share_access},
    {"OpenPath", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row simple_fields[] = {
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"TTID", EA_SIZE, EA_SEM_TID, .until = 2},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileKey", EA_POINTER, EA_SEM_FILE_KEY},
    {"TTID", EA_U32, EA_SEM_TID, .since = 3},
    {0},
};

static const ea_field_row transfer_fields[] = {
    {"Offset", EA_U64},
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"TTID", EA_SIZE, EA_SEM_TID, .until = 2},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileKey", EA_POINTER, EA_SEM_FILE_KEY},
    {"TTID", EA_U32, EA_SEM_TID, .since = 3},
    {"IoSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"IoFlags", EA_U32, .map = &ea_irp_flags},
    {0},
};

static const ea_field_row info_fields[] = {
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"TTID", EA_SIZE, EA_SEM_TID, .until = 2},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileKey", EA_POINTER, EA_SEM_FILE_KEY},
    {"ExtraInfo", EA_POINTER, EA_SEM_ADDRESS},
    {"TTID", EA_U32, EA_SEM_TID, .since = 3},
    {"InfoClass", EA_U32, .map = &information_class},
    {0},
};

/* FSControl: InfoClass is the FSCTL code. */
static const ea_field_row control_fields[] = {
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"TTID", EA_SIZE, EA_SEM_TID, .until = 2},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileKey", EA_POINTER, EA_SEM_FILE_KEY},
    {"ExtraInfo", EA_POINTER, EA_SEM_ADDRESS},
    {"TTID", EA_U32, EA_SEM_TID, .since = 3},
    {"InfoClass", EA_HEX32},
    {0},
};

static const ea_field_row dir_enum_fields[] = {
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"TTID", EA_SIZE, EA_SEM_TID, .until = 2},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileKey", EA_POINTER, EA_SEM_FILE_KEY},
    {"TTID", EA_U32, EA_SEM_TID, .since = 3},
    {"Length", EA_U32},
    {"InfoClass", EA_U32, .map = &information_class},
    {"FileIndex", EA_U32},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row operation_end_fields[] = {
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"ExtraInfo", EA_POINTER, EA_SEM_ADDRESS},
    {"NtStatus", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

static const ea_field_row map_file_fields[] = {
    {"ViewBase", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"MiscInfo", EA_HEX64},
    {"ViewSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {0},
};

static const ea_field_row path_fields[] = {
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileKey", EA_POINTER, EA_SEM_FILE_KEY},
    {"ExtraInfo", EA_POINTER, EA_SEM_ADDRESS},
    {"TTID", EA_U32, EA_SEM_TID},
    {"InfoClass", EA_U32, .map = &information_class},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row pre_op_init_fields[] = {
    {"RoutineAddr", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileContext", EA_POINTER, EA_SEM_ADDRESS},
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"CallbackDataPtr", EA_POINTER, EA_SEM_ADDRESS},
    {"MajorFunction", EA_U32, .map = &ea_irp_major},
    {0},
};

static const ea_field_row pre_op_completion_fields[] = {
    {"InitialTime", EA_U64, EA_SEM_QPC},
    {"RoutineAddr", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileContext", EA_POINTER, EA_SEM_ADDRESS},
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"CallbackDataPtr", EA_POINTER, EA_SEM_ADDRESS},
    {"MajorFunction", EA_U32, .map = &ea_irp_major},
    {0},
};

static const ea_field_row pre_op_failure_fields[] = {
    {"RoutineAddr", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileContext", EA_POINTER, EA_SEM_ADDRESS},
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"CallbackDataPtr", EA_POINTER, EA_SEM_ADDRESS},
    {"MajorFunction", EA_U32, .map = &ea_irp_major},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {0},
};

static const ea_class_row file_io_rows[] = {
    {"FileIo/Name", 0, 0, 3, name_fields},
    {"FileIo/FileCreate", 32, 1, 3, name_fields},
    {"FileIo/FileDelete", 35, 2, 3, name_fields},
    {"FileIo/FileRundown", 36, 2, 3, name_fields},
    {"FileIo/MapFile", 37, 2, 2, map_file_fields},
    {"FileIo/UnmapFile", 38, 2, 2, map_file_fields},
    {"FileIo/MapFileDCStart", 39, 2, 2, map_file_fields},
    {"FileIo/MapFileDCEnd", 40, 2, 2, map_file_fields},
    {"FileIo/Create", 64, 2, 3, create_fields},
    {"FileIo/Cleanup", 65, 2, 3, simple_fields},
    {"FileIo/Close", 66, 2, 3, simple_fields},
    {"FileIo/Read", 67, 2, 3, transfer_fields},
    {"FileIo/Write", 68, 2, 3, transfer_fields},
    {"FileIo/SetInfo", 69, 2, 3, info_fields},
    {"FileIo/Delete", 70, 2, 3, info_fields},
    {"FileIo/Rename", 71, 2, 3, info_fields},
    {"FileIo/DirEnum", 72, 2, 3, dir_enum_fields},
    {"FileIo/Flush", 73, 2, 3, simple_fields},
    {"FileIo/QueryInfo", 74, 2, 3, info_fields},
    {"FileIo/FSControl", 75, 2, 3, control_fields},
    {"FileIo/OperationEnd", 76, 2, 3, operation_end_fields},
    {"FileIo/DirNotify", 77, 2, 3, dir_enum_fields},
    {"FileIo/DletePath", 79, 3, 3, path_fields},
    {"FileIo/RenamePath", 80, 3, 3, path_fields},
    {"FileIo/SetLinkPath", 81, 3, 3, path_fields},
    {"FileIo/PreOpInit", 96, 3, 3, pre_op_init_fields},
    {"FileIo/PostOpInit", 97, 3, 3, pre_op_init_fields},
    {"FileIo/PreOpCompletion", 98, 3, 3, pre_op_completion_fields},
    {"FileIo/PostOpCompletion", 99, 3, 3, pre_op_completion_fields},
    {"FileIo/PreOpFailure", 100, 3, 3, pre_op_failure_fields},
    {"FileIo/PostOpFailure", 101, 3, 3, pre_op_failure_fields},
};

const ea_family ea_family_file_io = EA_FAMILY(FILE_IO, file_io_rows, EA_MOF);
