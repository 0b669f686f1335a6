/* Disks, files, network, registry and ALPC: events that Windows' own schema leaves out and a public header names. As in
 * native_sched.c. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row DISK_IO = {
    EA_PROVIDER_DISK_IO, EA_KERNEL_TRACE, 1};

/* ntwmi.h WMI_DISKIO_IO_REDIRECTED_INIT */
static const ea_field_row redirected_fields[] = {
    {"Irp", EA_POINTER, EA_SEM_IRP},
    {"FileKey", EA_POINTER, EA_SEM_FILE_KEY},
    {0},
};

/* ntwmi.h PERFINFO_BOOT_PREFETCH_INFORMATION */
static const ea_field_row boot_prefetch_fields[] = {
    {"Action", EA_I32},
    {"Status", EA_HEX32, EA_SEM_NTSTATUS},
    {"Pages", EA_I32},
    {0},
};

static const ea_class_row disk_io_native_rows[] = {
    {"DiskIo/RedirectedInit", 16, 0, 2, redirected_fields},
    {"DiskIo/DrvInit", 32, 0, 2, NULL},
    {"DiskIo/DrvInitComplete", 33, 0, 2, NULL},
    {"DiskIo/DrvComplRoutCall", 36, 0, 2, NULL},
    {"DiskIo/DrvAddDeviceCall", 38, 0, 2, NULL},
    {"DiskIo/DrvAddDeviceRet", 39, 0, 2, NULL},
    {"DiskIo/DrvStartIoCall", 40, 0, 2, NULL},
    {"DiskIo/DrvStartIoRet", 41, 0, 2, NULL},
    {"DiskIo/PrefetchAction", 48, 0, 2, NULL},
    {"DiskIo/PrefetchRequest", 49, 0, 2, NULL},
    {"DiskIo/PrefetchReadList", 50, 0, 2, NULL},
    {"DiskIo/PrefetchRead", 51, 0, 2, NULL},
    {"DiskIo/BootPrefetchInformation", 54, 0, 2, boot_prefetch_fields},
};

const ea_family ea_family_disk_io_native =
    EA_FAMILY(DISK_IO, disk_io_native_rows, "ntwmi.h WMI_DISKIO_IO_REDIRECTED_INIT, PERFINFO_BOOT_PREFETCH_INFORMATION, PERFINFO_LOG_TYPE_DRIVER_*");

static const ea_provider_row FILE_IO = {
    EA_PROVIDER_FILE_IO, EA_KERNEL_TRACE, 1};

/* ntwmi.h PERFINFO_FILENAME_SAME_INFORMATION */
static const ea_field_row name_same_fields[] = {
    {"OldFile", EA_POINTER, EA_SEM_FILE_OBJECT},
    {"NewFile", EA_POINTER, EA_SEM_FILE_OBJECT},
    {0},
};

static const ea_class_row file_io_native_rows[] = {
    {"FileIo/NameSame", 33, 0, 2, name_same_fields},
    {"FileIo/NameNull", 34, 0, 2, NULL},
    {"FileIo/CreateNew", 78, 0, 2, NULL},
    {"FileIo/SetLink", 82, 0, 2, NULL},
};

const ea_family ea_family_file_io_native =
    EA_FAMILY(FILE_IO, file_io_native_rows, "ntwmi.h PERFINFO_FILENAME_SAME_INFORMATION, PERFINFO_LOG_TYPE_FILE*");

static const ea_provider_row TCP_IP = {
    EA_PROVIDER_TCP_IP, EA_KERNEL_TRACE, 1};

/* ntwmi.h WMI_TCPIP_V6: all events but sends; order as in the schema's other events of version 2 */
static const ea_field_row tcp_ipv6_fields[] = {
    {"PID", EA_U32, EA_SEM_PID},
    {"size", EA_U32, EA_SEM_BYTE_COUNT},
    {"daddr", EA_IPV6, EA_SEM_IP},
    {"saddr", EA_IPV6, EA_SEM_IP},
    {"dport", EA_PORT, EA_SEM_PORT},
    {"sport", EA_PORT, EA_SEM_PORT},
    {"seqnum", EA_U32},
    {"connid", EA_POINTER},
    {0},
};

static const ea_class_row tcp_ip_native_rows[] = {
    {"TcpIp/FailIPV6", 33, 0, 2, NULL},
    {"TcpIp/ARPCopyIPV6", 35, 0, 2, tcp_ipv6_fields},
    {"TcpIp/FullACKIPV6", 36, 0, 2, tcp_ipv6_fields},
    {"TcpIp/PartACKIPV6", 37, 0, 2, tcp_ipv6_fields},
    {"TcpIp/DupACKIPV6", 38, 0, 2, tcp_ipv6_fields},
};

const ea_family ea_family_tcp_ip_native =
    EA_FAMILY(TCP_IP, tcp_ip_native_rows, "ntwmi.h WMI_TCPIP_V6, WMI_LOG_TYPE_TCPIP_*_IPV6");

static const ea_provider_row REGISTRY = {
    EA_PROVIDER_REGISTRY, EA_KERNEL_TRACE, 1};

static const ea_class_row registry_native_rows[] = {
    {"Registry/PerfSetValue", 33, 0, 2, NULL},
    {"Registry/NotifyDeliver", 49, 0, 2, NULL},
};

const ea_family ea_family_registry_native =
    EA_FAMILY(REGISTRY, registry_native_rows, "ntwmi.h PERFINFO_LOG_TYPE_REG_SET_VALUE, PERFINFO_LOG_TYPE_REG_NOTIF_DELIVER");

static const ea_provider_row ALPC = {
    EA_PROVIDER_ALPC, EA_KERNEL_TRACE, 1};

static const ea_class_row alpc_native_rows[] = {
    {"ALPC/ALPC-Connect-Request", 38, 0, 2, NULL},
    {"ALPC/ALPC-Connect-Success", 39, 0, 2, NULL},
    {"ALPC/ALPC-Connect-Fail", 40, 0, 2, NULL},
    {"ALPC/ALPC-Close-Port", 41, 0, 2, NULL},
};

const ea_family ea_family_alpc_native =
    EA_FAMILY(ALPC, alpc_native_rows, "ntwmi.h WMI_LOG_TYPE_ALPC_*");

static const ea_provider_row IMAGE = {
    EA_PROVIDER_IMAGE, EA_KERNEL_TRACE, 1};

static const ea_class_row image_native_rows[] = {
    {"Image/Relocation", 32, 0, 2, NULL},
};

const ea_family ea_family_image_native =
    EA_FAMILY(IMAGE, image_native_rows, "ntwmi.h WMI_LOG_TYPE_IMAGE_RELOCATION");
