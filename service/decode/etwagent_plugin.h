/* User-defined decoders for etwagent: the only header that a plug-in includes. Version 2.
 *
 * A plug-in is a shared library (.so, .dll) in the folder that --plugins or the configuration names. It exports
 * etwagent_plugin_1, which returns the events that it decodes and the fields of their payloads. It is loaded and called
 * in a separate process: its description is passed on as data, and a plug-in that crashes, hangs or requests a class
 * that already has a decoder costs one line in the log. If fields cannot describe the layout of a payload, a decode
 * function parses it. This function runs in the agent, after the separate process has tested it on thousands of
 * generated payloads. tests/plugins has an example to copy.
 *
 * Types are the numbers of Microsoft's tdh.h (TDH_INTYPE_*, TDH_OUTTYPE_*); some are defined below. All pointers must
 * stay valid and unchanged until the process ends. This file depends on nothing of etwagent and may be copied. */
#ifndef EA_DECODE_ETWAGENT_PLUGIN_H
#define EA_DECODE_ETWAGENT_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ETWAGENT_PLUGIN_VERSION = 2 };

enum etwagent_in_type {
    ETWAGENT_UNICODE_STRING = 1, /* UTF-16 up to a NUL, or of the length that is given */
    ETWAGENT_ANSI_STRING = 2,    /* bytes up to a NUL, or of the length that is given */
    ETWAGENT_INT8 = 3,
    ETWAGENT_UINT8 = 4,
    ETWAGENT_INT16 = 5,
    ETWAGENT_UINT16 = 6,
    ETWAGENT_INT32 = 7,
    ETWAGENT_UINT32 = 8,
    ETWAGENT_INT64 = 9,
    ETWAGENT_UINT64 = 10,
    ETWAGENT_FLOAT = 11,
    ETWAGENT_DOUBLE = 12,
    ETWAGENT_BOOLEAN = 13, /* four bytes */
    ETWAGENT_BINARY = 14,  /* of the length that is given, or the rest */
    ETWAGENT_GUID = 15,
    ETWAGENT_POINTER = 16, /* as wide as the machine's */
    ETWAGENT_FILETIME = 17,
    ETWAGENT_SYSTEMTIME = 18,
    ETWAGENT_SID = 19,
    ETWAGENT_HEX32 = 20,
    ETWAGENT_HEX64 = 21
};

enum etwagent_out_type {
    ETWAGENT_AS_IT_IS = 0,
    ETWAGENT_AS_PID = 20,
    ETWAGENT_AS_TID = 21,
    ETWAGENT_AS_PORT = 22,
    ETWAGENT_AS_IPV4 = 23,
    ETWAGENT_AS_IPV6 = 24,
    ETWAGENT_AS_SOCKET_ADDRESS = 25,
    ETWAGENT_AS_WIN32_ERROR = 30,
    ETWAGENT_AS_NTSTATUS = 31,
    ETWAGENT_AS_HRESULT = 32,
    ETWAGENT_AS_UTF8 = 35,
    ETWAGENT_AS_CODE_POINTER = 37
};

/* Names of a number's values, or of its bits. */
typedef struct etwagent_name {
    uint64_t value;
    const char *name; /* UTF-8; NULL ends the list */
} etwagent_name;

typedef struct etwagent_names {
    const char *name;
    int is_flags;
    const etwagent_name *entries;
} etwagent_names;

/* A field; a list of them ends with one whose name is NULL. Members that are not named are zero, which says nothing. */
typedef struct etwagent_field {
    const char *name;
    uint16_t in_type, out_type;
    uint16_t count;                       /* an array of so many */
    uint16_t length;                      /* of text in characters, of binary in bytes */
    const char *count_from, *length_from; /* names of earlier fields beside it that hold them */
    const etwagent_names *names;
    const struct etwagent_field *members; /* a struct: its fields; in_type means nothing then */
} etwagent_field;

/* One event, for a decode function. */
typedef struct etwagent_event {
    const uint8_t *payload; /* at any address; whatever is in it may be wrong or cut */
    size_t payload_bytes;   /* 0 to 65,535 */
    uint16_t code;          /* id or opcode */
    uint8_t version;
    uint8_t pointer_size; /* 4 or 8: of the machine that logged it */
} etwagent_event;

/* What takes a decode function's values. put appends bytes; 0, or -1 when they are too many: with the payload they may
 * be 65,535. */
typedef struct etwagent_values {
    void *context;
    int (*put)(void *context, const void *bytes, size_t len_bytes);
} etwagent_values;

/* The lowest len_bytes (1 to 8) of a number, as a payload has them. */
static inline int etwagent_put_number(const etwagent_values *values, uint64_t number, size_t len_bytes) {
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(number >> (8 * i));
    return len_bytes > sizeof bytes ? -1 : values->put(values->context, bytes, len_bytes);
}

/* Puts an event's values, each as a payload has one of its field's type, in the order of the class's fields and exactly
 * so many: 0; or anything else when it cannot read the event, which then travels as one of unknown layout and is
 * counted. The payload itself always travels, too, as a last field, "RawPayload". The same event must give the same
 * values. It is called by several threads at a time, must not wait for anything, and must read nothing outside the
 * payload. */
typedef int (*etwagent_decode)(const etwagent_event *event, const etwagent_values *values);

/* Events of one number. */
typedef struct etwagent_class {
    const char *provider; /* GUID: "22fb2cd6-0e7b-422b-a0c7-2fad1fd0e716" */
    const char *provider_name;
    const char *name;    /* "Task/Opcode" */
    const char *message; /* with %1, %2, ... for the fields; NULL: none */
    int is_classic;      /* identified by opcode, not by id */
    uint16_t code;       /* id or opcode */
    uint8_t first_version, last_version;
    const etwagent_field *fields; /* of the payload; or with decode, of what that puts. NULL: none */
    etwagent_decode decode;       /* NULL: the payload lies as the fields say */
} etwagent_class;

/* What the plug-in is given: it calls add for each of its classes. add returns 0, or -1 when the class cannot be used;
 * then the whole plug-in is refused, and the log says why. */
typedef struct etwagent_host {
    uint32_t version; /* ETWAGENT_PLUGIN_VERSION of the host */
    void *context;
    int (*add)(void *context, const etwagent_class *c);
} etwagent_host;

typedef struct etwagent_plugin {
    uint32_t version; /* ETWAGENT_PLUGIN_VERSION */
    const char *name;
    int (*start)(const etwagent_host *host); /* 0, or it does not want to run */
} etwagent_plugin;

#if defined(_WIN32)
#define ETWAGENT_PLUGIN_EXPORT __declspec(dllexport)
#else
#define ETWAGENT_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* What a plug-in exports: const ETWAGENT_PLUGIN_EXPORT etwagent_plugin etwagent_plugin_1 = {...}; */
#define ETWAGENT_PLUGIN_SYMBOL "etwagent_plugin_1"

#ifdef __cplusplus
}
#endif

#endif
