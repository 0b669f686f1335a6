/* What Windows' in and out types are here. The numbers are those of tdh.h, which compiled manifests and
 * TRACE_EVENT_INFO hold, too. Used by: proto/event/schema, tracelogging.c. Result: event.h's types. Thread: any
 * (constants). */
#ifndef EA_EVENT_TDH_TYPES_H
#define EA_EVENT_TDH_TYPES_H

#include "proto/event/event.h"

/* TDH_INTYPE_*. Source: tdh.h, _TDH_IN_TYPE. */
enum ea_in_type {
    EA_IN_NULL = 0,
    EA_IN_UNICODE_STRING = 1,
    EA_IN_ANSI_STRING = 2,
    EA_IN_INT8 = 3,
    EA_IN_UINT8 = 4,
    EA_IN_INT16 = 5,
    EA_IN_UINT16 = 6,
    EA_IN_INT32 = 7,
    EA_IN_UINT32 = 8,
    EA_IN_INT64 = 9,
    EA_IN_UINT64 = 10,
    EA_IN_FLOAT = 11,
    EA_IN_DOUBLE = 12,
    EA_IN_BOOLEAN = 13,
    EA_IN_BINARY = 14,
    EA_IN_GUID = 15,
    EA_IN_POINTER = 16,
    EA_IN_FILETIME = 17,
    EA_IN_SYSTEMTIME = 18,
    EA_IN_SID = 19,
    EA_IN_HEXINT32 = 20,
    EA_IN_HEXINT64 = 21,
    EA_IN_COUNTED_UNICODE = 22, /* MANIFEST_COUNTEDSTRING */
    EA_IN_COUNTED_ANSI = 23,
    EA_IN_COUNTED_BINARY = 25,
    EA_IN_OLD_COUNTED_UNICODE = 300,
    EA_IN_OLD_COUNTED_ANSI = 301,
    EA_IN_NON_NUL_UNICODE = 304,
    EA_IN_NON_NUL_ANSI = 305,
    EA_IN_UNICODE_CHAR = 306,
    EA_IN_ANSI_CHAR = 307,
    EA_IN_SIZET = 308,
    EA_IN_HEXDUMP = 309,
    EA_IN_WBEM_SID = 310
};

/* TDH_OUTTYPE_*. Source: tdh.h, _TDH_OUT_TYPE. */
enum ea_out_type {
    EA_OUT_NULL = 0,
    EA_OUT_STRING = 1,
    EA_OUT_DATETIME = 2,
    EA_OUT_BYTE = 3,
    EA_OUT_UNSIGNED_BYTE = 4,
    EA_OUT_SHORT = 5,
    EA_OUT_UNSIGNED_SHORT = 6,
    EA_OUT_INT = 7,
    EA_OUT_UNSIGNED_INT = 8,
    EA_OUT_LONG = 9,
    EA_OUT_UNSIGNED_LONG = 10,
    EA_OUT_FLOAT = 11,
    EA_OUT_DOUBLE = 12,
    EA_OUT_BOOLEAN = 13,
    EA_OUT_GUID = 14,
    EA_OUT_HEX_BINARY = 15,
    EA_OUT_HEXINT8 = 16,
    EA_OUT_HEXINT16 = 17,
    EA_OUT_HEXINT32 = 18,
    EA_OUT_HEXINT64 = 19,
    EA_OUT_PID = 20,
    EA_OUT_TID = 21,
    EA_OUT_PORT = 22,
    EA_OUT_IPV4 = 23,
    EA_OUT_IPV6 = 24,
    EA_OUT_SOCKET_ADDRESS = 25,
    EA_OUT_CIM_DATETIME = 26,
    EA_OUT_ETW_TIME = 27,
    EA_OUT_XML = 28,
    EA_OUT_ERROR_CODE = 29,
    EA_OUT_WIN32_ERROR = 30,
    EA_OUT_NTSTATUS = 31,
    EA_OUT_HRESULT = 32,
    EA_OUT_CULTURE_INSENSITIVE_DATETIME = 33,
    EA_OUT_JSON = 34,
    EA_OUT_UTF8 = 35,
    EA_OUT_PKCS7 = 36,
    EA_OUT_CODE_POINTER = 37,
    EA_OUT_DATETIME_UTC = 38
};

/* "win:UInt32", "xs:string", "win:PID": the number, or -1 for a name that does not exist. */
int ea_in_type_of(const char *name);
int ea_out_type_of(const char *name);

/* Type and semantic of a value. has_length: its length is given, as a number or by another field, so that a string has
 * no NUL; length: that number, 0 when another field gives it. 1, or 0 for an in type that does not exist. An out type
 * that does not go with the in type changes nothing. */
int ea_field_of_types(int in_type, int out_type, int has_length, unsigned length, ea_field *ret);

#endif
