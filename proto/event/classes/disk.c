/* Disk and split I/O. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row DISK_IO = {
    EA_PROVIDER_DISK_IO, EA_KERNEL_TRACE, 1};

static const ea_field_row transfer_v0_fields[] = {
    {"DiskNumber", EA_U32},
    {"IrpFlags", EA_HEX32, .map = &ea_irp_flags},
    {"TransferSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"Reserved", EA_U32},
    {"ByteOffset", EA_U64},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {0},
};

static const ea_field_row transfer_fields[] = {
    {"DiskNumber", EA_U32},
    {"IrpFlags", EA_HEX32, .map = &ea_irp_flags},
    {"TransferSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"ResponseTime", EA_U32, .until = 1},
    {"Reserved", EA_U32, .since = 2},
    {"ByteOffset", EA_U64},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"Irp", EA_POINTER, EA_SEM_IRP, .since = 2},
    {"HighResResponseTime", EA_U64, EA_SEM_DURATION_QPC},
    {"IssuingThreadId", EA_U32, EA_SEM_TID, .since = 3},
    {0},
};

static const ea_field_row init_fields[] = {
    {"Irp", EA_POINTER, EA_SEM_IRP},
    {0},
};

static const ea_field_row read_init_v3_fields[] = {
    {"Irp", EA_POINTER, EA_SEM_IRP},
    {"IssuingThreadId", EA_U32, EA_SEM_TID},
    {0},
};

static const ea_field_row flush_buffers_fields[] = {
    {"DiskNumber", EA_U32},
    {"IrpFlags", EA_HEX32, .map = &ea_irp_flags},
    {"HighResResponseTime", EA_U64, EA_SEM_DURATION_QPC},
    {"Irp", EA_POINTER, EA_SEM_IRP},
    {"IssuingThreadId", EA_U32, EA_SEM_TID, .since = 3},
    {0},
};

static const ea_field_row drv_mj_fn_call_fields[] = {
    {"UniqMatchId", EA_U32, .until = 1},
    {"RoutineAddr", EA_POINTER, EA_SEM_ADDRESS, .until = 1},
    {"Irp", EA_POINTER, EA_SEM_IRP, .until = 1},
    {"MajorFunction", EA_U32, .map = &ea_irp_major},
    {"MinorFunction", EA_U32},
    {"RoutineAddr", EA_POINTER, EA_SEM_ADDRESS, .since = 2},
    {"FileObject", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"Irp", EA_POINTER, EA_SEM_IRP, .since = 2},
    {"UniqMatchId", EA_U32, .since = 2},
    {0},
};

static const ea_field_row drv_mj_fn_ret_fields[] = {
    {"UniqMatchId", EA_U32},
    {"Irp", EA_POINTER, EA_SEM_IRP},
    {0},
};

static const ea_field_row drv_mj_fn_ret_v2_fields[] = {
    {"Irp", EA_POINTER, EA_SEM_IRP},
    {"UniqMatchId", EA_U32},
    {0},
};

static const ea_field_row drv_compl_req_fields[] = {
    {"RoutineAddr", EA_POINTER, EA_SEM_ADDRESS},
    {"Irp", EA_POINTER, EA_SEM_IRP},
    {"UniqMatchId", EA_U32},
    {0},
};

static const ea_field_row drv_compl_rout_fields[] = {
    {"Routine", EA_POINTER, EA_SEM_ADDRESS},
    {"IrpPtr", EA_POINTER, EA_SEM_IRP},
    {"UniqMatchId", EA_U32},
    {0},
};

static const ea_class_row disk_io_rows[] = {
    {"DiskIo/Read", 10, 0, 0, transfer_v0_fields},
    {"DiskIo/Read", 10, 1, 3, transfer_fields},
    {"DiskIo/Write", 11, 0, 0, transfer_v0_fields},
    {"DiskIo/Write", 11, 1, 3, transfer_fields},
    {"DiskIo/ReadInit", 12, 2, 2, init_fields},
    {"DiskIo/ReadInit", 12, 3, 3, read_init_v3_fields},
    {"DiskIo/WriteInit", 13, 2, 2, init_fields},
    {"DiskIo/WriteInit", 13, 3, 3, read_init_v3_fields},
    {"DiskIo/FlushBuffers", 14, 2, 3, flush_buffers_fields},
    {"DiskIo/FlushInit", 15, 2, 2, init_fields},
    {"DiskIo/FlushInit", 15, 3, 3, read_init_v3_fields},
    {"DiskIo/DrvMjFnCall", 34, 1, 2, drv_mj_fn_call_fields},
    {"DiskIo/DrvMjFnRet", 35, 1, 1, drv_mj_fn_ret_fields},
    {"DiskIo/DrvMjFnRet", 35, 2, 2, drv_mj_fn_ret_v2_fields},
    {"DiskIo/DrvComplRout", 37, 2, 2, drv_compl_rout_fields},
    {"DiskIo/DrvComplReq", 52, 1, 2, drv_compl_req_fields},
    {"DiskIo/DrvComplReqRet", 53, 1, 2, drv_mj_fn_ret_v2_fields},
    {"DiskIo/OpticalRead", 55, 3, 3, transfer_fields},
    {"DiskIo/OpticalWrite", 56, 3, 3, transfer_fields},
    {"DiskIo/OpticalFlushBuffers", 57, 3, 3, flush_buffers_fields},
    {"DiskIo/OpticalReadInit", 58, 3, 3, read_init_v3_fields},
    {"DiskIo/OpticalWriteInit", 59, 3, 3, read_init_v3_fields},
    {"DiskIo/OpticalFlushInit", 60, 3, 3, read_init_v3_fields},
};

const ea_family ea_family_disk_io = EA_FAMILY(DISK_IO, disk_io_rows, EA_MOF);

static const ea_provider_row SPLIT_IO = {
    EA_PROVIDER_SPLIT_IO, EA_KERNEL_TRACE, 1};

static const ea_field_row vol_mgr_fields[] = {
    {"ParentIrp", EA_POINTER, EA_SEM_IRP},
    {"ChildIrp", EA_POINTER, EA_SEM_IRP},
    {0},
};

static const ea_class_row split_io_rows[] = {
    {"SplitIo/VolMgr", 32, 2, 2, vol_mgr_fields},
};

const ea_family ea_family_split_io = EA_FAMILY(SPLIT_IO, split_io_rows, EA_MOF);
