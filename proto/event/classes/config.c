/* Hardware and system configuration. See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

static const ea_provider_row SYSTEM_CONFIG = {
    EA_PROVIDER_SYSTEM_CONFIG, EA_KERNEL_TRACE, 1};

/* winsvc.h SERVICE_* */
static const ea_map_entry service_state_names[] = {
    {1, "Stopped"},
    {2, "StartPending"},
    {3, "StopPending"},
    {4, "Running"},
    {5, "ContinuePending"},
    {6, "PausePending"},
    {7, "Paused"},
};
static const ea_enum service_state = EA_VALUES("ServiceState", service_state_names);

/* winnt.h FIRMWARE_TYPE */
static const ea_map_entry firmware_type_names[] = {
    {0, "Unknown"},
    {1, "Bios"},
    {2, "Uefi"},
};
static const ea_enum firmware_type = EA_VALUES("FirmwareType", firmware_type_names);

static const ea_field_row pnp_fields[] = {
    {"IDLength", EA_U32},
    {"DescriptionLength", EA_U32},
    {"FriendlyNameLength", EA_U32},
    {"DeviceID", EA_UTF16Z},
    {"DeviceDescription", EA_UTF16Z},
    {"FriendlyName", EA_UTF16Z},
    {"PdoName", EA_UTF16Z, .since = 3},
    {0},
};

static const ea_field_row pnp_v4_fields[] = {
    {"ClassGuid", EA_GUID},
    {"UpperFiltersCount", EA_U32},
    {"LowerFiltersCount", EA_U32},
    {"DevStatus", EA_U32, .since = 5},
    {"DevProblem", EA_U32, .since = 5},
    {"DeviceID", EA_UTF16Z},
    {"DeviceDescription", EA_UTF16Z},
    {"FriendlyName", EA_UTF16Z},
    {"PdoName", EA_UTF16Z},
    {"ServiceName", EA_UTF16Z},
    {"UpperFilters", EA_UTF16Z, .count_field = "UpperFiltersCount"},
    {"LowerFilters", EA_UTF16Z, .count_field = "LowerFiltersCount"},
    {0},
};

static const ea_field_row cpu_fields[] = {
    {"MHz", EA_U32},
    {"NumberOfProcessors", EA_U32},
    {"MemSize", EA_U32},
    {"PageSize", EA_U32},
    {"AllocationGranularity", EA_U32},
    {"ComputerName", EA_UTF16_FIXED, .count = 256},
    {"DomainName", EA_UTF16_FIXED, .count = 132},
    {"HyperThreadingFlag", EA_POINTER},
    {0},
};

static const ea_field_row cpu_v2_fields[] = {
    {"MHz", EA_U32},
    {"NumberOfProcessors", EA_U32},
    {"MemSize", EA_U32},
    {"PageSize", EA_U32},
    {"AllocationGranularity", EA_U32},
    {"ComputerName", EA_UTF16_FIXED, .count = 256},
    {"DomainName", EA_UTF16_FIXED, .count = 134},
    {"HyperThreadingFlag", EA_POINTER},
    {"HighestUserAddress", EA_POINTER, EA_SEM_ADDRESS, .since = 3},
    {"ProcessorArchitecture", EA_U16, .since = 3},
    {"ProcessorLevel", EA_U16, .since = 3},
    {"ProcessorRevision", EA_U16, .since = 3},
    {"PaeEnabled", EA_U8, .since = 3},
    {"NxEnabled", EA_U8, .since = 3},
    {"MemorySpeed", EA_U32, .since = 3},
    {0},
};

static const ea_field_row services_fields[] = {
    {"ServiceName", EA_UTF16_FIXED, .count = 34},
    {"DisplayName", EA_UTF16_FIXED, .count = 256},
    {"ProcessName", EA_UTF16_FIXED, .count = 34},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {0},
};

static const ea_field_row services_v2_fields[] = {
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ServiceState", EA_HEX32, .map = &service_state},
    {"SubProcessTag", EA_HEX32},
    {"ServiceName", EA_UTF16Z},
    {"DisplayName", EA_UTF16Z},
    {"ProcessName", EA_UTF16Z},
    {"LoadOrderGroup", EA_UTF16Z, .since = 3},
    {"SvchostGroup", EA_UTF16Z, .since = 3},
    {0},
};

static const ea_field_row irq_fields[] = {
    {"IRQAffinity", EA_HEX64},
    {"IRQGroup", EA_U16, .since = 3},
    {"Reserved", EA_U16, .since = 3},
    {"IRQNum", EA_U32},
    {"DeviceDescriptionLen", EA_U32},
    {"DeviceDescription", EA_UTF16Z},
    {0},
};

static const ea_field_row phy_disk_fields[] = {
    {"DiskNumber", EA_U32},
    {"BytesPerSector", EA_U32},
    {"SectorsPerTrack", EA_U32},
    {"TracksPerCylinder", EA_U32},
    {"Cylinders", EA_U64},
    {"SCSIPort", EA_U32},
    {"SCSIPath", EA_U32},
    {"SCSITarget", EA_U32},
    {"SCSILun", EA_U32},
    {"Manufacturer", EA_UTF16_FIXED, .count = 256},
    {"PartitionCount", EA_U32},
    {"WriteCacheEnabled", EA_U8},
    {"Pad", EA_U8},
    {"BootDriveLetter", EA_UTF16_FIXED, .count = 3},
    {"Spare", EA_UTF16_FIXED, .count = 2},
    {0},
};

/* documentation of SystemConfig_LogDisk */
static const ea_map_entry drive_type_names[] = {
    {1, "Partition"},
    {2, "Volume"},
    {3, "ExtendedPartition"},
};
static const ea_enum drive_type = EA_VALUES("DriveType", drive_type_names);

static const ea_field_row log_disk_fields[] = {
    {"StartOffset", EA_U64},
    {"PartitionSize", EA_U64},
    {"DiskNumber", EA_U32},
    {"Size", EA_U32},
    {"DriveType", EA_U32, .map = &drive_type},
    {"DriveLetterString", EA_UTF16_FIXED, .count = 4},
    {"Pad1", EA_U32},
    {"PartitionNumber", EA_U32},
    {"SectorsPerCluster", EA_U32},
    {"BytesPerSector", EA_U32},
    {"Pad2", EA_U32},
    {"NumberOfFreeClusters", EA_I64},
    {"TotalNumberOfClusters", EA_I64},
    {"FileSystem", EA_UTF16_FIXED, .count = 16},
    {"VolumeExt", EA_U32},
    {"Pad3", EA_U32, .since = 2},
    {0},
};

static const ea_field_row nic_fields[] = {
    {"NICName", EA_UTF16_FIXED, .count = 256},
    {"Index", EA_U32},
    {"PhysicalAddrLen", EA_U32},
    {"PhysicalAddr", EA_UTF16_FIXED, .count = 8},
    {"Size", EA_U32},
    {"IpAddress", EA_IPV4, EA_SEM_IP},
    {"SubnetMask", EA_IPV4, EA_SEM_IP},
    {"DhcpServer", EA_IPV4, EA_SEM_IP},
    {"Gateway", EA_IPV4, EA_SEM_IP},
    {"PrimaryWinsServer", EA_IPV4, EA_SEM_IP},
    {"SecondaryWinsServer", EA_IPV4, EA_SEM_IP},
    {"DnsServer1", EA_IPV4, EA_SEM_IP},
    {"DnsServer2", EA_IPV4, EA_SEM_IP},
    {"DnsServer3", EA_IPV4, EA_SEM_IP},
    {"DnsServer4", EA_IPV4, EA_SEM_IP},
    {"Data", EA_U32},
    {0},
};

static const ea_field_row nic_v2_fields[] = {
    {"PhysicalAddr", EA_HEX64},
    {"PhysicalAddrLen", EA_U32},
    {"Ipv4Index", EA_U32},
    {"Ipv6Index", EA_U32},
    {"NICDescription", EA_UTF16Z},
    {"IpAddresses", EA_UTF16Z},
    {"DnsServerAddresses", EA_UTF16Z},
    {0},
};

static const ea_field_row video_fields[] = {
    {"MemorySize", EA_U32},
    {"XResolution", EA_U32},
    {"YResolution", EA_U32},
    {"BitsPerPixel", EA_U32},
    {"VRefresh", EA_U32},
    {"ChipType", EA_UTF16_FIXED, .count = 256},
    {"DACType", EA_UTF16_FIXED, .count = 256},
    {"AdapterString", EA_UTF16_FIXED, .count = 256},
    {"BiosString", EA_UTF16_FIXED, .count = 256},
    {"DeviceId", EA_UTF16_FIXED, .count = 256},
    {"StateFlags", EA_HEX32},
    {0},
};

static const ea_field_row power_fields[] = {
    {"S1", EA_U8},
    {"S2", EA_U8},
    {"S3", EA_U8},
    {"S4", EA_U8},
    {"S5", EA_U8},
    {"Pad1", EA_U8},
    {"Pad2", EA_U8},
    {"Pad3", EA_U8},
    {0},
};

static const ea_field_row mobile_platform_fields[] = {
    {"BootLoaderVersion", EA_UTF16Z},
    {"FirmwareRevision", EA_UTF16Z},
    {"FriendlyName", EA_UTF16Z},
    {"HardwareRevision", EA_UTF16Z},
    {"Manufacturer", EA_UTF16Z},
    {"ManufacturerDisplayName", EA_UTF16Z},
    {"ManufacturerModelName", EA_UTF16Z},
    {"MobileOperatorDisplayName", EA_UTF16Z},
    {"MobileOperatorName", EA_UTF16Z},
    {"ModelName", EA_UTF16Z},
    {"RadioHardwareRevision", EA_UTF16Z},
    {"RadioSoftwareRevision", EA_UTF16Z},
    {"ROMVersion", EA_UTF16Z},
    {"SOCVersion", EA_UTF16Z},
    {"HardwareVariant", EA_UTF16Z},
    {0},
};

static const ea_field_row mobile_platform_v3_fields[] = {
    {"DeviceManufacturer", EA_UTF16Z},
    {"DeviceManufacturerDisplayName", EA_UTF16Z},
    {"DeviceModel", EA_UTF16Z},
    {"DeviceModelDisplayName", EA_UTF16Z},
    {"MobileOperator", EA_UTF16Z},
    {"MobileOperatorDisplayName", EA_UTF16Z, .until = 3},
    {"HardwareVersion", EA_UTF16Z, .until = 3},
    {"SocVersion", EA_UTF16Z},
    {"RadioHardwareVersion", EA_UTF16Z, .until = 3},
    {"RadioSoftwareVersion", EA_UTF16Z, .until = 3},
    {"BspVersion", EA_UTF16Z},
    {"OemSoftwareVersion", EA_UTF16Z, .until = 3},
    {0},
};

static const ea_field_row network_fields[] = {
    {"TcbTablePartitions", EA_U32},
    {"MaxHashTableSize", EA_U32},
    {"MaxUserPort", EA_U32},
    {"TcpTimedWaitDelay", EA_U32},
    {0},
};

static const ea_field_row optical_disk_fields[] = {
    {"DiskNumber", EA_U16},
    {"BusType", EA_U16},
    {"DeviceType", EA_U16},
    {"MediaType", EA_U16},
    {"StartingOffset", EA_U64},
    {"Size", EA_U64},
    {"NumberOfFreeBlocks", EA_U64},
    {"TotalNumberOfBlocks", EA_U64},
    {"NextWritableAddress", EA_U64},
    {"NumberOfSessions", EA_U32},
    {"NumberOfTracks", EA_U32},
    {"BytesPerSector", EA_U32},
    {"DiscStatus", EA_U16},
    {"LastSessionStatus", EA_U16},
    {"DriveLetter", EA_UTF16Z},
    {"FileSystemName", EA_UTF16Z},
    {"DeviceName", EA_ANSIZ},
    {"ManufacturerName", EA_ANSIZ},
    {0},
};

static const ea_field_row ide_channel_fields[] = {
    {"TargetId", EA_U32},
    {"DeviceType", EA_HEX32},
    {"DeviceTimingMode", EA_HEX32},
    {"LocationInformationLen", EA_U32},
    {"LocationInformation", EA_UTF16Z},
    {0},
};

/* The schema has one 64-bit mask a node; Windows 11 writes a GROUP_AFFINITY (winnt.h). */
static const ea_field_row numa_node_fields[] = {
    {"NodeCount", EA_U32},
    {"NodeMap", EA_STRUCT, .count_field = "NodeCount", .child_count = 3},
    {"Mask", EA_POINTER},
    {"Group", EA_U16},
    {"Reserved", EA_U16, .count = 3},
    {0},
};

static const ea_field_row platform_fields[] = {
    {"SystemManufacturer", EA_UTF16Z},
    {"SystemProductName", EA_UTF16Z},
    {"BiosDate", EA_UTF16Z},
    {"BiosVersion", EA_UTF16Z},
    {0},
};

static const ea_field_row processor_group_fields[] = {
    {"GroupCount", EA_U32},
    {"Affinity", EA_POINTER, .count_field = "GroupCount"},
    {0},
};

static const ea_field_row processor_number_fields[] = {
    {"ProcessorCount", EA_U32},
    {"ProcessorNumber", EA_HEX32, EA_SEM_CPU, .count_field = "ProcessorCount"},
    {0},
};

static const ea_field_row dpi_fields[] = {
    {"MachineDPI", EA_U32},
    {"UserDPI", EA_U32},
    {0},
};

static const ea_field_row code_integrity_fields[] = {
    {"CodeIntegrityInfo", EA_U32},
    {0},
};

static const ea_field_row telemetry_configuration_fields[] = {
    {"MachineId", EA_GUID},
    {0},
};

static const ea_field_row defragmentation_fields[] = {
    {"AlignmentClusters", EA_U64},
    {"AvgFreeSpaceSize", EA_U64},
    {"ClustersPerSlab", EA_U64},
    {"FragmentedDirectoryExtents", EA_U64},
    {"FragmentedExtents", EA_U64},
    {"FreeSpaceCount", EA_U64},
    {"LargestFreeSpaceSize", EA_U64},
    {"LastRunActualPurgeClusters", EA_U64},
    {"LastRunClustersTrimmed", EA_U64},
    {"LastRunFullDefragTime", EA_U64},
    {"LastRunTime", EA_U64},
    {"MFTSize", EA_U64},
    {"TotalClusters", EA_U64},
    {"TotalUsedClusters", EA_U64},
    {"AvgFragmentsPerFile", EA_U32},
    {"BytesPerCluster", EA_U32},
    {"DirectoryCount", EA_U32},
    {"FragmentedDirectories", EA_U32},
    {"FragmentedFiles", EA_U32},
    {"FragmentedSpace", EA_U32},
    {"HardwareIssue", EA_U32},
    {"InUseMFTRecords", EA_U32},
    {"InUseSlabs", EA_U32},
    {"LastRunActualPurgeSlabs", EA_U32},
    {"LastRunInitialBackedSlabs", EA_U32},
    {"LastRunPercentFragmentation", EA_U32},
    {"LastRunPinnedSlabs", EA_U32},
    {"LastRunPotentialPurgeSlabs", EA_U32},
    {"LastRunSpaceInefficientSlabs", EA_U32},
    {"LastRunTrimmedSlabs", EA_U32},
    {"LastRunUnknownEvictFailSlabs", EA_U32},
    {"LastRunVolsnapPinnedSlabs", EA_U32},
    {"MFTFragmentCount", EA_U32},
    {"MovableFiles", EA_U32},
    {"TotalMFTRecords", EA_U32},
    {"TotalSlabs", EA_U32},
    {"UnmovableFiles", EA_U32},
    {"VolumeId", EA_GUID},
    {"VolumePathNames", EA_UTF16Z},
    {0},
};

static const ea_field_row device_family_fields[] = {
    {"UAPInfo", EA_U64},
    {"DeviceFamily", EA_U32},
    {"DeviceForm", EA_U32},
    {0},
};

static const ea_field_row flight_ids_fields[] = {
    {"UpdateId", EA_UTF16Z},
    {"FlightIdList", EA_UTF16Z},
    {0},
};

static const ea_field_row processors_fields[] = {
    {"ProcessorIndex", EA_U32, EA_SEM_CPU},
    {"FeatureSet", EA_U32},
    {"ProcessorSpeed", EA_U32},
    {"ProcessorName", EA_UTF16_FIXED, .count = 64},
    {"VendorIdentifier", EA_UTF16_FIXED, .count = 16},
    {"ProcessorIdentifier", EA_UTF16_FIXED, .count = 128},
    {0},
};

static const ea_field_row virtualization_config_info_fields[] = {
    {"VbsEnabled", EA_U8},
    {"HvciEnabled", EA_U8},
    {"HyperVisorEnabled", EA_U8},
    {"Reserved", EA_U8},
    {0},
};

static const ea_field_row boot_config_info_fields[] = {
    {"BootFlags", EA_U64},
    {"FirmwareType", EA_U32, .map = &firmware_type},
    {"SecureBootEnabled", EA_U8},
    {"SecureBootCapable", EA_U8},
    {"Reserved1", EA_U8},
    {"Reserved2", EA_U8},
    {0},
};

static const ea_class_row system_config_rows[] = {
    {"SystemConfig/CPU", 10, 0, 1, cpu_fields},
    {"SystemConfig/CPU", 10, 2, 3, cpu_v2_fields},
    {"SystemConfig/PhyDisk", 11, 0, 2, phy_disk_fields},
    {"SystemConfig/LogDisk", 12, 0, 2, log_disk_fields},
    {"SystemConfig/NIC", 13, 0, 1, nic_fields},
    {"SystemConfig/NIC", 13, 2, 2, nic_v2_fields},
    {"SystemConfig/Video", 14, 0, 2, video_fields},
    {"SystemConfig/Services", 15, 0, 1, services_fields},
    {"SystemConfig/Services", 15, 2, 3, services_v2_fields},
    {"SystemConfig/Power", 16, 0, 2, power_fields},
    {"SystemConfig/Network", 17, 2, 2, network_fields},
    {"SystemConfig/OpticalDisk", 18, 2, 2, optical_disk_fields},
    {"SystemConfig/PhyDiskEx", 19, 2, 2, NULL}, /* evntrace.h has the name; no source has the layout */
    {"SystemConfig/IRQ", 21, 0, 3, irq_fields},
    {"SystemConfig/PnP", 22, 0, 3, pnp_fields},
    {"SystemConfig/PnP", 22, 4, 5, pnp_v4_fields},
    {"SystemConfig/IDEChannel", 23, 2, 2, ide_channel_fields},
    {"SystemConfig/NumaNode", 24, 2, 2, numa_node_fields},
    {"SystemConfig/Platform", 25, 2, 2, platform_fields},
    {"SystemConfig/ProcessorGroup", 26, 2, 2, processor_group_fields},
    {"SystemConfig/ProcessorNumber", 27, 2, 2, processor_number_fields},
    {"SystemConfig/DPI", 28, 2, 2, dpi_fields},
    {"SystemConfig/CodeIntegrity", 29, 2, 2, code_integrity_fields},
    {"SystemConfig/TelemetryConfiguration", 30, 2, 2, telemetry_configuration_fields},
    {"SystemConfig/Defragmentation", 31, 2, 2, defragmentation_fields},
    {"SystemConfig/MobilePlatform", 32, 2, 2, mobile_platform_fields},
    {"SystemConfig/MobilePlatform", 32, 3, 4, mobile_platform_v3_fields},
    {"SystemConfig/DeviceFamily", 33, 2, 2, device_family_fields},
    {"SystemConfig/FlightIds", 34, 2, 2, flight_ids_fields},
    {"SystemConfig/Processors", 35, 2, 2, processors_fields},
    {"SystemConfig/Virtualization Config Info", 36, 2, 2, virtualization_config_info_fields},
    {"SystemConfig/Boot Config Info", 37, 2, 2, boot_config_info_fields},
};

const ea_family ea_family_system_config = EA_FAMILY(SYSTEM_CONFIG, system_config_rows, EA_MOF);
