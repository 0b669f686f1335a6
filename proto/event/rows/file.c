/* File I/O and mini-filters. See rows.h. */
#include "rows.h"

static const ea_provider_row FILE_IO = {
    EA_GUID(0x90cbdc39, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3), EA_KERNEL_TRACE, 1};

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
    {"CreateOptions", EA_U32},
    {"FileAttributes", EA_U32},
    {"ShareAccess", EA_U32},
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
    {"IoFlags", EA_U32},
    {0},
};

static const ea_field_row info_fields[] = {
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"TTID", EA_SIZE, EA_SEM_TID, .until = 2},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileKey", EA_POINTER, EA_SEM_FILE_KEY},
    {"ExtraInfo", EA_POINTER, EA_SEM_ADDRESS},
    {"TTID", EA_U32, EA_SEM_TID, .since = 3},
    {"InfoClass", EA_U32},
    {0},
};

static const ea_field_row dir_enum_fields[] = {
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"TTID", EA_SIZE, EA_SEM_TID, .until = 2},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileKey", EA_POINTER, EA_SEM_FILE_KEY},
    {"TTID", EA_U32, EA_SEM_TID, .since = 3},
    {"Length", EA_U32},
    {"InfoClass", EA_U32},
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
    {"InfoClass", EA_U32},
    {"FileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row pre_op_init_fields[] = {
    {"RoutineAddr", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileContext", EA_POINTER, EA_SEM_ADDRESS},
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"CallbackDataPtr", EA_POINTER, EA_SEM_ADDRESS},
    {"MajorFunction", EA_U32},
    {0},
};

static const ea_field_row pre_op_completion_fields[] = {
    {"InitialTime", EA_U64, EA_SEM_QPC},
    {"RoutineAddr", EA_POINTER, EA_SEM_ADDRESS},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileContext", EA_POINTER, EA_SEM_ADDRESS},
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"CallbackDataPtr", EA_POINTER, EA_SEM_ADDRESS},
    {"MajorFunction", EA_U32},
    {0},
};

static const ea_field_row pre_op_failure_fields[] = {
    {"RoutineAddr", EA_POINTER, EA_SEM_ADDRESS},     {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"FileContext", EA_POINTER, EA_SEM_ADDRESS},     {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"CallbackDataPtr", EA_POINTER, EA_SEM_ADDRESS}, {"MajorFunction", EA_U32},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},           {0},
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
    {"FileIo/FSControl", 75, 2, 3, info_fields},
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
