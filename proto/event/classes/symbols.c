/* What a trace merge adds about images, so that symbols are found on another machine (provider KernelTraceControl,
 * class ImageID), and about the machine's paths and volumes (class SysConfigEx). Windows publishes no schema for them.
 * Sources: ntwmi.h (WMI_IMAGEID_INFORMATION), microsoft/perfview SymbolTraceEventParser.cs and
 * KernelTraceEventParser.cs (SystemPathsTraceData, VolumeMappingTraceData, BuildInfoTraceData), checked on real traces.
 * See classes.h. */
#include "proto/base/provider_guids.h"
#include "proto/event/classes/classes.h"

/* one line a field, one line a class */
// clang-format off

#define KERNEL_TRACE_CONTROL "KernelTraceControl"

static const ea_provider_row IMAGE_ID = {
    EA_PROVIDER_IMAGE_ID, KERNEL_TRACE_CONTROL, 1};

static const ea_field_row image_id_fields[] = {
    {"ImageBase", EA_POINTER, EA_SEM_IMAGE_BASE},
    {"ImageSize", EA_SIZE, EA_SEM_BYTE_COUNT},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"TimeDateStamp", EA_U32, EA_SEM_UNIX_TIME},
    {"OriginalFileName", EA_UTF16Z},
    {0},
};

static const ea_field_row image_fields[] = {
    {"ImageBase", EA_POINTER, EA_SEM_IMAGE_BASE},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {0},
};

static const ea_field_row rsds_fields[] = {
    {"ImageBase", EA_POINTER, EA_SEM_IMAGE_BASE},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"GuidSig", EA_GUID},
    {"Age", EA_U32},
    {"PdbFileName", EA_UTF8Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row file_version_fields[] = {
    {"ImageSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"TimeDateStamp", EA_U32, EA_SEM_UNIX_TIME},
    {"OrigFileName", EA_UTF16Z},
    {"FileDescription", EA_UTF16Z},
    {"FileVersion", EA_UTF16Z},
    {"BinFileVersion", EA_UTF16Z},
    {"VerLanguage", EA_UTF16Z},
    {"ProductName", EA_UTF16Z},
    {"CompanyName", EA_UTF16Z},
    {"ProductVersion", EA_UTF16Z},
    {"FileId", EA_UTF16Z},
    {"ProgramId", EA_UTF16Z},
    {0},
};

/* A CodeView-less "DBG" file of old compilers. No public source; read off Windows 11 traces, where the name ends in
 * .dbg and TimeDateStamp is the ImageID record's. */
static const ea_field_row dbg_fields[] = {
    {"ImageBase", EA_POINTER, EA_SEM_IMAGE_BASE},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"ImageChecksum", EA_U32},
    {"TimeDateStamp", EA_U32, EA_SEM_UNIX_TIME},
    {"ImageSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"DbgFileName", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row portable_pdb_fields[] = {
    {"ImageBase", EA_POINTER, EA_SEM_IMAGE_BASE},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"TimeDateStamp", EA_U32, EA_SEM_UNIX_TIME},
    {"MajorVersion", EA_U16},
    {"MinorVersion", EA_U16},
    {0},
};

/* A portable PDB inside the image: the debug directory's versions (0x100 and 0x100), then what RSDS has. No public
 * source; read off Windows 11 traces. */
static const ea_field_row embedded_pdb_fields[] = {
    {"ImageBase", EA_POINTER, EA_SEM_IMAGE_BASE},
    {"ProcessId", EA_U32, EA_SEM_PID},
    {"MajorVersion", EA_U16},
    {"MinorVersion", EA_U16},
    {"GuidSig", EA_GUID},
    {"Age", EA_U32},
    {0},
};

/* Why an image could not be read. No public source; read off Windows 11 traces: one text. */
static const ea_field_row error_fields[] = {
    {"Message", EA_UTF16Z},
    {0},
};

static const ea_class_row image_id_rows[] = {
    {"ImageID/Info", 0, 0, 2, image_id_fields},
    {"ImageID/None", 32, 0, 2, image_fields},
    {"ImageID/DbgID_DBG", 34, 0, 2, dbg_fields},
    {"ImageID/DbgID_RSDS", 36, 0, 2, rsds_fields},
    {"ImageID/DbgID_ILRSDS", 37, 0, 2, rsds_fields},
    {"ImageID/DbgPPDB", 38, 0, 2, portable_pdb_fields},
    {"ImageID/DbgEmbeddedPPDB", 39, 0, 1, embedded_pdb_fields},
    {"ImageID/DbgDeterm", 40, 0, 1, image_fields},
    {"ImageID/Error", 41, 0, 1, error_fields},
    {"ImageID/FileVersion", 64, 0, 0, file_version_fields},
};

const ea_family ea_family_image_id = EA_FAMILY(IMAGE_ID, image_id_rows, "ntwmi.h, SymbolTraceEventParser.cs");

static const ea_provider_row SYS_CONFIG_EX = {
    EA_PROVIDER_CONFIG_EX, EA_KERNEL_TRACE, 1};

static const ea_field_row build_info_fields[] = {
    {"InstallDate", EA_FILETIME},
    {"BuildLab", EA_UTF16Z},
    {"ProductName", EA_UTF16Z},
    {0},
};

static const ea_field_row system_paths_fields[] = {
    {"SystemDirectory", EA_UTF16Z, EA_SEM_PATH},
    {"SystemWindowsDirectory", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row unknown_volume_fields[] = {
    {"Value", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

static const ea_field_row volume_mapping_fields[] = {
    {"NtPath", EA_UTF16Z, EA_SEM_PATH},
    {"DosPath", EA_UTF16Z, EA_SEM_PATH},
    {0},
};

/* MIB_IF_ROW2, with its padding. Source: netioapi.h; the size and the fields of real records agree. */
/* ipifcons.h IF_TYPE_* (IANA's ifType): the usual ones */
static const ea_map_entry if_type_names[] = {
    {1, "Other"},
    {6, "Ethernet"},
    {9, "TokenRing"},
    {23, "Ppp"},
    {24, "Loopback"},
    {37, "Atm"},
    {71, "Ieee80211"},
    {131, "Tunnel"},
    {144, "Ieee1394"},
    {243, "Wwan"},
    {244, "Wwan2"},
};
static const ea_enum if_type = EA_VALUES("IfType", if_type_names);

/* ifdef.h TUNNEL_TYPE */
static const ea_map_entry tunnel_type_names[] = {
    {0, "None"},
    {1, "Other"},
    {2, "Direct"},
    {11, "6to4"},
    {13, "Isatap"},
    {14, "Teredo"},
    {15, "IpHttps"},
};
static const ea_enum tunnel_type = EA_VALUES("TunnelType", tunnel_type_names);

/* ifdef.h NET_IF_ACCESS_TYPE */
static const ea_map_entry access_type_names[] = {
    {1, "Loopback"},
    {2, "Broadcast"},
    {3, "PointToPoint"},
    {4, "PointToMultiPoint"},
};
static const ea_enum access_type = EA_VALUES("NetIfAccessType", access_type_names);

/* ifdef.h NET_IF_DIRECTION_TYPE */
static const ea_map_entry direction_type_names[] = {
    {0, "SendReceive"},
    {1, "SendOnly"},
    {2, "ReceiveOnly"},
};
static const ea_enum direction_type = EA_VALUES("NetIfDirectionType", direction_type_names);

/* ifdef.h IF_OPER_STATUS */
static const ea_map_entry oper_status_names[] = {
    {1, "Up"},
    {2, "Down"},
    {3, "Testing"},
    {4, "Unknown"},
    {5, "Dormant"},
    {6, "NotPresent"},
    {7, "LowerLayerDown"},
};
static const ea_enum oper_status = EA_VALUES("IfOperStatus", oper_status_names);

/* ifdef.h NET_IF_ADMIN_STATUS */
static const ea_map_entry admin_status_names[] = {
    {1, "Up"},
    {2, "Down"},
    {3, "Testing"},
};
static const ea_enum admin_status = EA_VALUES("NetIfAdminStatus", admin_status_names);

/* ifdef.h NET_IF_MEDIA_CONNECT_STATE */
static const ea_map_entry media_state_names[] = {
    {0, "Unknown"},
    {1, "Connected"},
    {2, "Disconnected"},
};
static const ea_enum media_state = EA_VALUES("NetIfMediaConnectState", media_state_names);

/* ifdef.h NET_IF_CONNECTION_TYPE */
static const ea_map_entry connection_type_names[] = {
    {1, "Dedicated"},
    {2, "Passive"},
    {3, "Demand"},
};
static const ea_enum connection_type = EA_VALUES("NetIfConnectionType", connection_type_names);

/* netioapi.h MIB_IF_ROW2 */
static const ea_map_entry if_status_flags_names[] = {
    {0x1, "HardwareInterface"},
    {0x2, "FilterInterface"},
    {0x4, "ConnectorPresent"},
    {0x8, "NotAuthenticated"},
    {0x10, "NotMediaConnected"},
    {0x20, "Paused"},
    {0x40, "LowPower"},
    {0x80, "EndPointInterface"},
};
static const ea_enum if_status_flags = EA_FLAGS("InterfaceAndOperStatusFlags", if_status_flags_names);

static const ea_field_row network_interface_fields[] = {
    {"InterfaceLuid", EA_HEX64},
    {"InterfaceIndex", EA_U32},
    {"InterfaceGuid", EA_GUID},
    {"Alias", EA_UTF16_FIXED, .count = 257},
    {"Description", EA_UTF16_FIXED, .count = 257},
    {"PhysicalAddressLength", EA_U32},
    {"PhysicalAddress", EA_BYTES, .count = 32},
    {"PermanentPhysicalAddress", EA_BYTES, .count = 32},
    {"Mtu", EA_U32},
    {"Type", EA_U32, .map = &if_type},
    {"TunnelType", EA_U32, .map = &tunnel_type},
    {"MediaType", EA_U32},
    {"PhysicalMediumType", EA_U32},
    {"AccessType", EA_U32, .map = &access_type},
    {"DirectionType", EA_U32, .map = &direction_type},
    {"InterfaceAndOperStatusFlags", EA_HEX8, .map = &if_status_flags},
    {"Padding1", EA_BYTES, .count = 3},
    {"OperStatus", EA_U32, .map = &oper_status},
    {"AdminStatus", EA_U32, .map = &admin_status},
    {"MediaConnectState", EA_U32, .map = &media_state},
    {"NetworkGuid", EA_GUID},
    {"ConnectionType", EA_U32, .map = &connection_type},
    {"Padding2", EA_U32},
    {"TransmitLinkSpeed", EA_U64},
    {"ReceiveLinkSpeed", EA_U64},
    {"InOctets", EA_U64},
    {"InUcastPkts", EA_U64},
    {"InNUcastPkts", EA_U64},
    {"InDiscards", EA_U64},
    {"InErrors", EA_U64},
    {"InUnknownProtos", EA_U64},
    {"InUcastOctets", EA_U64},
    {"InMulticastOctets", EA_U64},
    {"InBroadcastOctets", EA_U64},
    {"OutOctets", EA_U64},
    {"OutUcastPkts", EA_U64},
    {"OutNUcastPkts", EA_U64},
    {"OutDiscards", EA_U64},
    {"OutErrors", EA_U64},
    {"OutUcastOctets", EA_U64},
    {"OutMulticastOctets", EA_U64},
    {"OutBroadcastOctets", EA_U64},
    {"OutQLen", EA_U64},
    {0},
};

static const ea_class_row sys_config_ex_rows[] = {
    {"SysConfigEx/BuildInfo", 32, 0, 0, build_info_fields},
    {"SysConfigEx/SystemPaths", 33, 0, 0, system_paths_fields},
    {"SysConfigEx/UnknownVolume", 34, 0, 0, unknown_volume_fields},
    {"SysConfigEx/VolumeMapping", 35, 0, 0, volume_mapping_fields},
    {"SysConfigEx/NetworkInterface", 36, 0, 0, network_interface_fields},
};

const ea_family ea_family_sys_config_ex = EA_FAMILY(SYS_CONFIG_EX, sys_config_ex_rows, "KernelTraceEventParser.cs");

/* Schemas of other events, so that a trace explains itself elsewhere. */
static const ea_provider_row EVENT_METADATA = {
    EA_PROVIDER_META_DATA, KERNEL_TRACE_CONTROL, 1};

/* TRACE_EVENT_INFO; the offsets are from the payload's beginning. Source: tdh.h. */
static const ea_field_row event_info_fields[] = {
    {"ProviderGuid", EA_GUID},
    {"EventGuid", EA_GUID},
    {"Id", EA_U16},
    {"Version", EA_U8},
    {"Channel", EA_U8},
    {"Level", EA_U8, .map = &ea_trace_level},
    {"Opcode", EA_U8},
    {"Task", EA_U16},
    {"Keyword", EA_HEX64},
    {"DecodingSource", EA_U32},
    {"ProviderNameOffset", EA_U32},
    {"LevelNameOffset", EA_U32},
    {"ChannelNameOffset", EA_U32},
    {"KeywordsNameOffset", EA_U32},
    {"TaskNameOffset", EA_U32},
    {"OpcodeNameOffset", EA_U32},
    {"EventMessageOffset", EA_U32},
    {"ProviderMessageOffset", EA_U32},
    {"BinaryXMLOffset", EA_U32},
    {"BinaryXMLSize", EA_U32},
    {"ActivityIDNameOffset", EA_U32},
    {"RelatedActivityIDNameOffset", EA_U32},
    {"PropertyCount", EA_U32},
    {"TopLevelPropertyCount", EA_U32},
    {"Flags", EA_HEX32},
    {"Properties", EA_BYTES, .count = EA_COUNT_REST},
    {0},
};

/* The provider's GUID, then EVENT_MAP_INFO. Source: tdh.h. */
static const ea_field_row event_map_info_fields[] = {
    {"ProviderGuid", EA_GUID},
    {"NameOffset", EA_U32},
    {"Flag", EA_HEX32},
    {"EntryCount", EA_U32},
    {"FormatStringOffset", EA_U32},
    {"Entries", EA_BYTES, .count = EA_COUNT_REST},
    {0},
};

static const ea_class_row event_metadata_rows[] = {
    {"MetaData/EventInfo", 32, 0, 0, event_info_fields},
    {"MetaData/EventMapInfo", 33, 0, 0, event_map_info_fields},
};

const ea_family ea_family_event_metadata =
    EA_FAMILY(EVENT_METADATA, event_metadata_rows, "tdh.h, RegisteredTraceEventParser.cs");

/* The machine's performance assessment: compressed XML. */
static const ea_provider_row WIN_SAT = {
    EA_GUID(0xed54dff8, 0xc409, 0x4cf6, 0xbf, 0x83, 0x05, 0xe1, 0xe6, 0x1a, 0x09, 0xc4), KERNEL_TRACE_CONTROL, 1};

static const ea_field_row xml_fields[] = {
    {"Version", EA_U32},
    {"UncompressedSize", EA_U32, EA_SEM_BYTE_COUNT},
    {"Data", EA_BYTES, .count = EA_COUNT_REST},
    {0},
};

static const ea_class_row win_sat_rows[] = {
    {"WinSat/WinSPR", 33, 0, 0, xml_fields},
    {"WinSat/Metrics", 35, 0, 0, xml_fields},
    {"WinSat/SystemConfig", 37, 0, 0, xml_fields},
};

const ea_family ea_family_win_sat = EA_FAMILY(WIN_SAT, win_sat_rows, "SymbolTraceEventParser.cs (WinSatXmlTraceData)");
