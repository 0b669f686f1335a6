/* Synthetic process, thread and image records, laid out as Windows 10 x64 writes them (Process v4, Thread v3, Image v3,
 * ImageID v2, SetName v2): for the tests of the state. */
#ifndef EA_TESTS_UNIT_MACHINE_RECORDS_H
#define EA_TESTS_UNIT_MACHINE_RECORDS_H

#include "proto/base/record.h"

#include <stdio.h>
#include <string.h>

enum { OP_START = 1, OP_END = 2, OP_DC_START = 3, OP_DC_END = 4, OP_LOAD = 10 };

typedef struct made_record {
    ea_record record;
    uint8_t payload[2048];
    size_t len;
} made_record;

static inline void put(made_record *r, const void *data, size_t len) {
    memcpy(r->payload + r->len, data, len);
    r->len += len;
}

static inline void put8(made_record *r, uint8_t v) {
    put(r, &v, 1);
}

static inline void put32(made_record *r, uint32_t v) {
    put(r, &v, 4);
}

static inline void put64(made_record *r, uint64_t v) {
    put(r, &v, 8);
}

static inline void put_ansi(made_record *r, const char *s) {
    put(r, s, strlen(s) + 1);
}

static inline void put_utf16(made_record *r, const char *ascii) {
    do {
        put8(r, (uint8_t)*ascii);
        put8(r, 0);
    } while (*ascii++);
}

static inline void begin_record(made_record *r, uint32_t guid1, uint8_t opcode, uint8_t version, int64_t time) {
    static const ea_guid PROCESS = EA_GUID(0x3d6fa8d0, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
    static const ea_guid THREAD_CLASS =
        EA_GUID(0x3d6fa8d1, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
    static const ea_guid IMAGE = EA_GUID(0x2cb15d1d, 0x5fc1, 0x11d2, 0xab, 0xe1, 0x00, 0xa0, 0xc9, 0x11, 0xf5, 0x18);
    static const ea_guid IMAGE_ID = EA_GUID(0xb3e675d7, 0x2554, 0x4f18, 0x83, 0x0b, 0x27, 0x62, 0x73, 0x25, 0x60, 0xde);
    static const ea_guid EVENT_TRACE =
        EA_GUID(0x68fdd900, 0x4a3e, 0x11d1, 0x84, 0xf4, 0x00, 0x00, 0xf8, 0x04, 0x64, 0xe3);
    static const ea_guid LOST_EVENT =
        EA_GUID(0x6a399ae0, 0x4bc6, 0x4de9, 0x87, 0x0b, 0x36, 0x57, 0xf8, 0x94, 0x7e, 0x7e);
    memset(&r->record, 0, sizeof r->record);
    r->len = 0;
    r->record.provider = guid1 == 0x3d6fa8d0   ? PROCESS
                         : guid1 == 0x3d6fa8d1 ? THREAD_CLASS
                         : guid1 == 0x2cb15d1d ? IMAGE
                         : guid1 == 0x68fdd900 ? EVENT_TRACE
                         : guid1 == 0x6a399ae0 ? LOST_EVENT
                                               : IMAGE_ID;
    r->record.opcode = opcode;
    r->record.version = version;
    r->record.time_raw = time;
    r->record.flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER;
    r->record.pointer_size = 8;
    r->record.pid = r->record.tid = 0xFFFFFFFF;
    r->record.header_type = guid1 == 0xb3e675d7 ? EA_HEADER_FULL64 : EA_HEADER_SYSTEM64;
}

static inline const ea_record *end_record(made_record *r) {
    r->record.payload = r->payload;
    r->record.payload_bytes = (uint16_t)r->len;
    return &r->record;
}

/* key: UniqueProcessKey. */
static inline const ea_record *process_record(made_record *r, uint8_t opcode, int64_t time, uint32_t pid,
                                              uint32_t parent, uint64_t key, const char *name,
                                              const char *command_line) {
    static const uint8_t SID[] = {1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0};
    begin_record(r, 0x3d6fa8d0, opcode, 4, time);
    put64(r, key);
    put32(r, pid);
    put32(r, parent);
    put32(r, 1);
    put32(r, opcode == OP_END ? 7 : 259);
    put64(r, 0x1aa000);
    put32(r, 0);
    put64(r, 0xffffc00000001000u);
    put64(r, 0);
    put(r, SID, sizeof SID);
    put_ansi(r, name);
    put_utf16(r, command_line);
    put_utf16(r, "");
    put_utf16(r, "");
    return end_record(r);
}

static inline const ea_record *thread_record(made_record *r, uint8_t opcode, int64_t time, uint32_t pid, uint32_t tid,
                                             uint64_t stack_base, uint64_t affinity) {
    begin_record(r, 0x3d6fa8d1, opcode, 3, time);
    put32(r, pid);
    put32(r, tid);
    put64(r, stack_base);
    put64(r, stack_base - 0x6000);
    put64(r, 0);
    put64(r, 0);
    put64(r, affinity);
    put64(r, 0x7ff612340000 + tid);
    put64(r, 0x1000u * tid);
    put32(r, 0);
    put32(r, 8);
    return end_record(r);
}

static inline const ea_record *thread_name_record(made_record *r, int64_t time, uint32_t pid, uint32_t tid,
                                                  const char *name) {
    begin_record(r, 0x3d6fa8d1, 72, 2, time);
    put32(r, pid);
    put32(r, tid);
    put_utf16(r, name);
    return end_record(r);
}

static inline const ea_record *image_record(made_record *r, uint8_t opcode, int64_t time, uint32_t pid, uint64_t base,
                                            uint64_t size, const char *path) {
    begin_record(r, 0x2cb15d1d, opcode, 3, time);
    put64(r, base);
    put64(r, size);
    put32(r, pid);
    put32(r, 0x1234);
    put32(r, 0);
    put32(r, 0);
    put64(r, base);
    put64(r, 0);
    put64(r, 0);
    put_utf16(r, path);
    return end_record(r);
}

static inline const ea_record *image_id_record(made_record *r, int64_t time, uint32_t pid, uint64_t base,
                                               uint32_t timestamp, const char *name) {
    begin_record(r, 0xb3e675d7, 0, 2, time);
    put64(r, base);
    put64(r, 0x77000);
    put32(r, pid);
    put32(r, timestamp);
    put_utf16(r, name);
    return end_record(r);
}

static inline const ea_record *pdb_record(made_record *r, int64_t time, uint32_t pid, uint64_t base, uint8_t guid_byte,
                                          uint32_t age, const char *pdb) {
    uint8_t guid[16];
    memset(guid, guid_byte, sizeof guid);
    begin_record(r, 0xb3e675d7, 36, 2, time);
    put64(r, base);
    put32(r, pid);
    put(r, guid, sizeof guid);
    put32(r, age);
    put_ansi(r, pdb);
    return end_record(r);
}

#endif
