/* The .evtx format, reading: a file of chunks becomes records, and a record's binary XML becomes nodes, a text of XML,
 * or an event's fields. Input: files, or chunks in memory. Used by: proto/etl, which makes ETW's records of the events;
 * etwagent dump --xml. Thread: a reader belongs to one thread.
 *
 * Damage never ends the reading: a record is found by its own bytes, wherever it is in its chunk and whatever the
 * chunk's header says. The work is bounded by the file's bytes (EA_EVTX_RECORD_WORK, EA_EVTX_WORK_PER_BYTE).
 * Source of all layouts: [MS-EVEN6] 2.2.12 to 2.2.15 (BinXml), libyal/libevtx documentation (file, chunk, record);
 * checked on logs that Windows wrote. */
#ifndef EA_EVTX_EVTX_H
#define EA_EVTX_EVTX_H

#include "proto/base/platform.h"
#include "proto/base/text.h"

enum {
    EA_EVTX_FILE_HEADER_BYTES = 4096,
    EA_EVTX_CHUNK_BYTES = 65536,
    EA_EVTX_CHUNK_HEADER_BYTES = 512,
    EA_EVTX_RECORD_WORK = 1 << 20, /* bytes of nodes that one record may unfold to */
    EA_EVTX_WORK_PER_BYTE = 256,   /* and all records of a chunk, for each of its bytes; */
                                   /* also bytes of tags that arrays repeat in XML, for each byte of their record */
};

/* ---- files ---- */

/* 1 when a file that begins with these bytes is an event log: by its header, or by its first chunk's. */
int ea_evtx_is_log(const uint8_t *data, size_t len_bytes);

/* The chunk at or after *at, in a file of file_bytes: 1, *at and *ret_bytes (a chunk whose end is missing has fewer
 * than EA_EVTX_CHUNK_BYTES), its bytes in data (room for EA_EVTX_CHUNK_BYTES); 0 at the end of the file. An area of
 * zeros is no chunk. An area whose magic is damaged is one. */
EA_MUST_CHECK int ea_evtx_find_chunk(ea_file *file, uint64_t file_bytes, uint64_t *at, uint8_t *data,
                                     uint32_t *ret_bytes, ea_err *err);

/* ---- chunks ---- */

/* A record's place in its chunk. */
typedef struct ea_evtx_place {
    uint32_t offset, size_bytes;
    uint64_t id;
    int64_t filetime;
} ea_evtx_place;

typedef struct ea_evtx_chunk {
    const uint8_t *data;
    uint32_t bytes;       /* used, by the header; all of them when the header is damaged */
    uint32_t at;          /* where the next record is looked for */
    const char *wrong;    /* NULL, or what is damaged: a sentence */
    uint32_t work;        /* left */
    uint32_t gap, gap_at; /* bytes before the last record, or before the end, that are no record */
} ea_evtx_chunk;

/* data: borrowed as long as the chunk is read. */
void ea_evtx_chunk_open(ea_evtx_chunk *c, const uint8_t *data, uint32_t bytes);
/* The next record: 1, or 0 at the end. c->gap: the bytes before it that are damaged. */
int ea_evtx_chunk_next(ea_evtx_chunk *c, ea_evtx_place *ret);

/* ---- binary XML ---- */

enum ea_evtx_kind {
    EA_EVTX_ELEMENT,   /* data: its name, UTF-16 */
    EA_EVTX_ATTRIBUTE, /* of the element before it; its values follow */
    EA_EVTX_CONTENT,   /* the element's attributes end */
    EA_EVTX_END,       /* of the element whose node's number is len_bytes */
    EA_EVTX_TEXT,      /* data: UTF-16 */
    EA_EVTX_VALUE,     /* data of this type */
    EA_EVTX_CHARACTER, /* len_bytes is a UTF-16 unit */
    EA_EVTX_ENTITY,    /* data: its name, UTF-16 */
};

/* Types of values; those up to HEX64 are the in-types of tdh.h. */
enum ea_evtx_type {
    EA_EVTX_NULL = 0,
    EA_EVTX_STRING = 1,
    EA_EVTX_ANSI = 2,
    EA_EVTX_I8 = 3,
    EA_EVTX_U8 = 4,
    EA_EVTX_I16 = 5,
    EA_EVTX_U16 = 6,
    EA_EVTX_I32 = 7,
    EA_EVTX_U32 = 8,
    EA_EVTX_I64 = 9,
    EA_EVTX_U64 = 10,
    EA_EVTX_F32 = 11,
    EA_EVTX_F64 = 12,
    EA_EVTX_BOOL = 13,
    EA_EVTX_BINARY = 14,
    EA_EVTX_GUID = 15,
    EA_EVTX_SIZE = 16,
    EA_EVTX_FILETIME = 17,
    EA_EVTX_SYSTEMTIME = 18,
    EA_EVTX_SID = 19,
    EA_EVTX_HEX32 = 20,
    EA_EVTX_HEX64 = 21,
    EA_EVTX_HANDLE = 32,
    EA_EVTX_XML = 33,
    EA_EVTX_ARRAY = 128,
};

typedef struct ea_evtx_node {
    uint8_t kind; /* enum ea_evtx_kind */
    uint8_t type; /* enum ea_evtx_type, of a VALUE */
    uint32_t len_bytes;
    const uint8_t *data; /* in the chunk */
} ea_evtx_node;

typedef struct ea_evtx_value {
    uint32_t at, len_bytes;
    uint8_t type;
} ea_evtx_value;

/* Memory that is used again from record to record. All zero to start with. */
typedef struct ea_evtx_reader {
    ea_evtx_node *nodes;
    size_t node_count, node_capacity;
    uint32_t record_bytes; /* of the record that the nodes are of */
    ea_evtx_value *values;
    size_t value_count, value_capacity;
} ea_evtx_reader;

void ea_evtx_reader_deinit(ea_evtx_reader *r);

/* Fills r->nodes from a record; elements are always ended. *ret_wrong: NULL, or why the XML could not be read to its
 * end: a sentence. EA_ENOMEM. */
EA_MUST_CHECK int ea_evtx_read(ea_evtx_reader *r, ea_evtx_chunk *c, const ea_evtx_place *place, const char **ret_wrong);

/* Fills r->nodes from an event's XML in UTF-16, as Windows renders it: values are texts. Comments and instructions are
 * skipped, CDATA is text. *ret_wrong and elements as above. Nodes view data. EA_ENOMEM. */
EA_MUST_CHECK int ea_evtx_parse(ea_evtx_reader *r, const uint8_t *data, uint32_t len_bytes, const char **ret_wrong);
/* The number and the time of an event that was parsed: 1, id and filetime; 0: it lacks one of them. */
int ea_evtx_place_of(const ea_evtx_reader *r, ea_evtx_place *ret);

/* Appends the record's XML as Windows renders it, on one line. An array whose elements would repeat more bytes of tags
 * than are left of the record's (EA_EVTX_WORK_PER_BYTE) is one element, with commas. */
void ea_evtx_put_xml(ea_text *out, const ea_evtx_reader *r);
/* One value as the XML has it, not escaped. */
void ea_evtx_put_value(ea_text *out, uint8_t type, const uint8_t *data, uint32_t len_bytes);
/* Bytes of one element of an array of this type, 0 when they vary (strings) or there is no such type. */
uint32_t ea_evtx_type_bytes(uint8_t type);

/* ---- events ---- */

enum { EA_EVTX_FIELDS_MAX = 256 };

typedef struct ea_evtx_field {
    const char *name; /* UTF-8; unique in its event */
    uint8_t type;     /* enum ea_evtx_type; STRING: UTF-16 without a NUL */
    const uint8_t *data;
    uint32_t len_bytes;
} ea_evtx_field;

/* What a record's System element says, and its other elements' fields. Strings are UTF-8, "" when there is none. */
typedef struct ea_evtx_event {
    ea_guid provider; /* of a provider without a GUID (a classic log's): one made of its name, of UUID version 8 */
    ea_guid activity_id, related_activity_id;
    const char *provider_name, *channel, *computer;
    uint64_t record_id, keyword;
    uint16_t event_id, qualifiers, task;
    uint8_t version, level, opcode;
    uint32_t pid, tid;   /* 0xFFFFFFFF: none */
    const uint8_t *user; /* a SID */
    uint32_t user_bytes;
    size_t field_count;
    const ea_evtx_field *fields;
    size_t left_out; /* fields above EA_EVTX_FIELDS_MAX */

    /* the memory of all that; used again */
    ea_evtx_field own[EA_EVTX_FIELDS_MAX];
    size_t name_at[EA_EVTX_FIELDS_MAX], data_at[EA_EVTX_FIELDS_MAX]; /* in texts; SIZE_MAX: data is the chunk's */
    uint64_t base_hash[EA_EVTX_FIELDS_MAX];                          /* of its name before it was made unique */
    size_t provider_name_at, channel_at, computer_at;                /* in texts */
    uint8_t user_own[EA_SID_MAX_BYTES];                              /* of a SID that was text */
    ea_text texts, text;
} ea_evtx_event;

void ea_evtx_event_init(ea_evtx_event *e);
void ea_evtx_event_deinit(ea_evtx_event *e);
/* Of the nodes in r; valid until the next call, and as long as the chunk is. EA_ENOMEM. */
EA_MUST_CHECK int ea_evtx_event_fill(ea_evtx_event *e, const ea_evtx_reader *r, const ea_evtx_place *place);

#endif
