/* In and out types. See tdh_types.h. */
#include "proto/event/tdh_types.h"

typedef struct name {
    const char *name;
    int type;
} name;

/* Source: winmeta.xml, inTypes and outTypes. */
static const name IN_NAMES[] = {
    {"win:UnicodeString", EA_IN_UNICODE_STRING},
    {"win:AnsiString", EA_IN_ANSI_STRING},
    {"win:Int8", EA_IN_INT8},
    {"win:UInt8", EA_IN_UINT8},
    {"win:Int16", EA_IN_INT16},
    {"win:UInt16", EA_IN_UINT16},
    {"win:Int32", EA_IN_INT32},
    {"win:UInt32", EA_IN_UINT32},
    {"win:Int64", EA_IN_INT64},
    {"win:UInt64", EA_IN_UINT64},
    {"win:Float", EA_IN_FLOAT},
    {"win:Double", EA_IN_DOUBLE},
    {"win:Boolean", EA_IN_BOOLEAN},
    {"win:Binary", EA_IN_BINARY},
    {"win:GUID", EA_IN_GUID},
    {"win:Pointer", EA_IN_POINTER},
    {"win:FILETIME", EA_IN_FILETIME},
    {"win:SYSTEMTIME", EA_IN_SYSTEMTIME},
    {"win:SID", EA_IN_SID},
    {"win:HexInt32", EA_IN_HEXINT32},
    {"win:HexInt64", EA_IN_HEXINT64},
    {"win:CountedUnicodeString", EA_IN_COUNTED_UNICODE},
    {"win:CountedAnsiString", EA_IN_COUNTED_ANSI},
    {"win:CountedBinary", EA_IN_COUNTED_BINARY},
    {"trace:UnicodeChar", EA_IN_UNICODE_CHAR},
    {"trace:AnsiChar", EA_IN_ANSI_CHAR},
    {"trace:SizeT", EA_IN_SIZET},
    {"trace:WBEMSid", EA_IN_WBEM_SID},
};

static const name OUT_NAMES[] = {
    {"xs:string", EA_OUT_STRING},
    {"xs:dateTime", EA_OUT_DATETIME},
    {"xs:byte", EA_OUT_BYTE},
    {"xs:unsignedByte", EA_OUT_UNSIGNED_BYTE},
    {"xs:short", EA_OUT_SHORT},
    {"xs:unsignedShort", EA_OUT_UNSIGNED_SHORT},
    {"xs:int", EA_OUT_INT},
    {"xs:unsignedInt", EA_OUT_UNSIGNED_INT},
    {"xs:long", EA_OUT_LONG},
    {"xs:unsignedLong", EA_OUT_UNSIGNED_LONG},
    {"xs:float", EA_OUT_FLOAT},
    {"xs:double", EA_OUT_DOUBLE},
    {"xs:boolean", EA_OUT_BOOLEAN},
    {"xs:GUID", EA_OUT_GUID},
    {"xs:hexBinary", EA_OUT_HEX_BINARY},
    {"win:HexInt8", EA_OUT_HEXINT8},
    {"win:HexInt16", EA_OUT_HEXINT16},
    {"win:HexInt32", EA_OUT_HEXINT32},
    {"win:HexInt64", EA_OUT_HEXINT64},
    {"xs:HexInt8", EA_OUT_HEXINT8},
    {"xs:HexInt16", EA_OUT_HEXINT16},
    {"xs:HexInt32", EA_OUT_HEXINT32},
    {"xs:HexInt64", EA_OUT_HEXINT64},
    {"win:PID", EA_OUT_PID},
    {"win:TID", EA_OUT_TID},
    {"win:Port", EA_OUT_PORT},
    {"win:IPv4", EA_OUT_IPV4},
    {"win:IPv6", EA_OUT_IPV6},
    {"win:SocketAddress", EA_OUT_SOCKET_ADDRESS},
    {"win:CIMDateTime", EA_OUT_CIM_DATETIME},
    {"win:ETWTIME", EA_OUT_ETW_TIME},
    {"win:Xml", EA_OUT_XML},
    {"win:ErrorCode", EA_OUT_ERROR_CODE},
    {"win:Win32Error", EA_OUT_WIN32_ERROR},
    {"win:NTSTATUS", EA_OUT_NTSTATUS},
    {"win:HResult", EA_OUT_HRESULT},
    {"win:DateTimeCultureInsensitive", EA_OUT_CULTURE_INSENSITIVE_DATETIME},
    {"win:Json", EA_OUT_JSON},
    {"win:Utf8", EA_OUT_UTF8},
    {"win:Pkcs7WithTypeInfo", EA_OUT_PKCS7},
    {"win:CodePointer", EA_OUT_CODE_POINTER},
    {"win:DateTimeUtc", EA_OUT_DATETIME_UTC},
};

static int type_of(const name *names, size_t count, const char *s) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i].name, s) == 0)
            return names[i].type;
    return -1;
}

int ea_in_type_of(const char *s) {
    return type_of(IN_NAMES, sizeof IN_NAMES / sizeof IN_NAMES[0], s);
}

int ea_out_type_of(const char *s) {
    return type_of(OUT_NAMES, sizeof OUT_NAMES / sizeof OUT_NAMES[0], s);
}

static int tdh_types_is_hex(int out_type) {
    return (out_type >= EA_OUT_HEXINT8 && out_type <= EA_OUT_HEXINT64) || out_type == EA_OUT_ERROR_CODE ||
           out_type == EA_OUT_NTSTATUS || out_type == EA_OUT_HRESULT || out_type == EA_OUT_CODE_POINTER;
}

/* JSON is UTF-8 by its nature; Windows' tools show strings of that out type so. */
static int is_utf8(int out_type) {
    return out_type == EA_OUT_UTF8 || out_type == EA_OUT_JSON || out_type == EA_OUT_XML;
}

static uint8_t semantic_of(int out_type) {
    switch (out_type) {
    case EA_OUT_PID:
        return EA_SEM_PID;
    case EA_OUT_TID:
        return EA_SEM_TID;
    case EA_OUT_NTSTATUS:
        return EA_SEM_NTSTATUS;
    case EA_OUT_WIN32_ERROR:
        return EA_SEM_WIN32_ERROR;
    case EA_OUT_HRESULT:
        return EA_SEM_HRESULT;
    case EA_OUT_CODE_POINTER:
        return EA_SEM_ADDRESS;
    default:
        return EA_SEM_NONE;
    }
}

static uint8_t integer_type(int in_type, int out_type) {
    int hex = tdh_types_is_hex(out_type);
    switch (in_type) {
    case EA_IN_INT8:
        return out_type == EA_OUT_STRING ? EA_CHAR8 : out_type == EA_OUT_BOOLEAN ? EA_BOOL8 : hex ? EA_HEX8 : EA_I8;
    case EA_IN_UINT8:
        return out_type == EA_OUT_STRING ? EA_CHAR8 : out_type == EA_OUT_BOOLEAN ? EA_BOOL8 : hex ? EA_HEX8 : EA_U8;
    case EA_IN_INT16:
        return hex ? EA_HEX16 : EA_I16;
    case EA_IN_UINT16:
        return out_type == EA_OUT_STRING ? EA_CHAR16 : out_type == EA_OUT_PORT ? EA_PORT : hex ? EA_HEX16 : EA_U16;
    case EA_IN_INT32:
        return out_type == EA_OUT_BOOLEAN ? EA_BOOL32 : hex ? EA_HEX32 : EA_I32;
    case EA_IN_UINT32:
        return out_type == EA_OUT_IPV4 ? EA_IPV4 : hex ? EA_HEX32 : EA_U32;
    case EA_IN_INT64:
        return hex ? EA_HEX64 : EA_I64;
    default:
        return hex ? EA_HEX64 : EA_U64;
    }
}

static uint8_t narrow_string(int out_type, uint8_t ansi, uint8_t utf8) {
    return is_utf8(out_type) ? utf8 : ansi;
}

int ea_field_of_types(int in_type, int out_type, int has_length, unsigned length, ea_field *ret) {
    uint8_t type, semantic = semantic_of(out_type);
    switch (in_type) {
    case EA_IN_UNICODE_STRING:
        type = has_length ? EA_UTF16_FIXED : EA_UTF16Z;
        break;
    case EA_IN_ANSI_STRING:
        type = has_length ? narrow_string(out_type, EA_ANSI_FIXED, EA_UTF8_FIXED)
                          : narrow_string(out_type, EA_ANSIZ, EA_UTF8Z);
        break;
    case EA_IN_INT8:
    case EA_IN_UINT8:
    case EA_IN_INT16:
    case EA_IN_UINT16:
    case EA_IN_INT32:
    case EA_IN_UINT32:
    case EA_IN_INT64:
    case EA_IN_UINT64:
        type = integer_type(in_type, out_type);
        break;
    case EA_IN_FLOAT:
        type = EA_F32;
        break;
    case EA_IN_DOUBLE:
        type = EA_F64;
        break;
    case EA_IN_BOOLEAN:
        type = EA_BOOL32;
        break;
    case EA_IN_BINARY:
    case EA_IN_HEXDUMP:
        type = out_type == EA_OUT_IPV6 && has_length && length == 16 ? EA_IPV6 : EA_BYTES;
        semantic = out_type == EA_OUT_SOCKET_ADDRESS ? EA_SEM_SOCKET_ADDRESS : EA_SEM_NONE;
        break;
    case EA_IN_GUID:
        type = EA_GUID;
        break;
    case EA_IN_POINTER:
        type = EA_POINTER;
        break;
    case EA_IN_SIZET:
        type = EA_SIZE;
        break;
    case EA_IN_FILETIME:
        type = EA_FILETIME;
        break;
    case EA_IN_SYSTEMTIME:
        type = EA_SYSTEMTIME;
        break;
    case EA_IN_SID:
        type = EA_SID;
        break;
    case EA_IN_WBEM_SID:
        type = EA_WBEM_SID;
        break;
    case EA_IN_HEXINT32:
        type = EA_HEX32;
        break;
    case EA_IN_HEXINT64:
        type = EA_HEX64;
        break;
    case EA_IN_COUNTED_UNICODE:
    case EA_IN_OLD_COUNTED_UNICODE:
        type = EA_UTF16_COUNTED;
        break;
    case EA_IN_COUNTED_ANSI:
    case EA_IN_OLD_COUNTED_ANSI:
        type = narrow_string(out_type, EA_ANSI_COUNTED, EA_UTF8_COUNTED);
        break;
    case EA_IN_COUNTED_BINARY:
        type = EA_BYTES;
        semantic = out_type == EA_OUT_SOCKET_ADDRESS ? EA_SEM_SOCKET_ADDRESS : EA_SEM_NONE;
        break;
    case EA_IN_NON_NUL_UNICODE:
        type = EA_UTF16_REST;
        break;
    case EA_IN_UNICODE_CHAR:
        type = EA_CHAR16;
        break;
    case EA_IN_ANSI_CHAR:
        type = EA_CHAR8;
        break;
    default:
        return 0;
    }
    ret->type = type;
    ret->semantic = semantic;
    return 1;
}
