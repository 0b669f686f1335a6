/* A record: a view of one event exactly as Windows logged it. Sources yield records, batches carry them, the store
 * returns them, and tests compare them bit for bit.
 * Input: a source (service/source, service/etw) or a stored batch (proto/wire). Called by: proto/event.
 * Thread: the one on which the source returned the record; a record and all that it points to are valid only until the
 * next call on its source. */
#ifndef EA_BASE_RECORD_H
#define EA_BASE_RECORD_H

#include "proto/base/bytes.h"

#include <stddef.h>

/* Extended item types (evntcons.h EVENT_HEADER_EXT_TYPE_*; 7 and up also in ntwmi.h). */
enum ea_ext_type {
    EA_EXT_RELATED_ACTIVITY_ID = 1,
    EA_EXT_SID = 2,
    EA_EXT_TS_ID = 3,
    EA_EXT_INSTANCE_INFO = 4,
    EA_EXT_STACK_TRACE32 = 5,
    EA_EXT_STACK_TRACE64 = 6,
    EA_EXT_PEBS_INDEX = 7,
    EA_EXT_PMC_COUNTERS = 8,
    EA_EXT_PSM_KEY = 9,
    EA_EXT_EVENT_KEY = 10,
    EA_EXT_SCHEMA_TL = 11,
    EA_EXT_PROV_TRAITS = 12,
    EA_EXT_PROCESS_START_KEY = 13,
    EA_EXT_CONTROL_GUID = 14,
    EA_EXT_QPC_DELTA = 15,
    EA_EXT_CONTAINER_ID = 16,
    EA_EXT_STACK_KEY32 = 17,
    EA_EXT_STACK_KEY64 = 18,
    /* Ours, for what a WPP message header holds and an event header has no place for: */
    EA_EXT_WPP_SEQUENCE = 0xFF00,  /* u32 */
    EA_EXT_WPP_COMPONENT = 0xFF01, /* u32; the provider is then zero */
    EA_EXT_WPP_RESERVED = 0xFF02,  /* u8: the header's third byte, where it is not 15 as Windows writes it */
};

/* Record header forms of an .etl file (etw-facts: "The .etl container"). 0 when there is no file. */
enum ea_header_type {
    EA_HEADER_NONE = 0,
    EA_HEADER_SYSTEM32 = 1,
    EA_HEADER_SYSTEM64 = 2,
    EA_HEADER_COMPACT32 = 3,
    EA_HEADER_COMPACT64 = 4,
    EA_HEADER_FULL32 = 10,
    EA_HEADER_INSTANCE32 = 11,
    EA_HEADER_MESSAGE = 15,
    EA_HEADER_PERFINFO32 = 16,
    EA_HEADER_PERFINFO64 = 17,
    EA_HEADER_EVENT32 = 18,
    EA_HEADER_EVENT64 = 19,
    EA_HEADER_FULL64 = 20,
    EA_HEADER_INSTANCE64 = 21,
};

/* EVENT_HEADER.Flags (evntcons.h EVENT_HEADER_FLAG_*). */
enum ea_event_flag {
    EA_FLAG_EXTENDED_INFO = 0x01,
    EA_FLAG_PRIVATE_SESSION = 0x02,
    EA_FLAG_STRING_ONLY = 0x04,
    EA_FLAG_TRACE_MESSAGE = 0x08,
    EA_FLAG_NO_CPUTIME = 0x10,
    EA_FLAG_32_BIT_HEADER = 0x20,
    EA_FLAG_64_BIT_HEADER = 0x40,
    EA_FLAG_DECODE_GUID = 0x80,
    EA_FLAG_CLASSIC_HEADER = 0x100,
    EA_FLAG_PROCESSOR_INDEX = 0x200,
};

typedef struct ea_ext {
    uint16_t type;       /* enum ea_ext_type, or any other number: kept as it is */
    uint16_t linkage;    /* the whole 16-bit word that holds the linkage bit */
    uint32_t size_bytes; /* of data */
    const uint8_t *data; /* borrowed */
} ea_ext;

/* Windows allows 64 KiB an event; an extended item takes 8 bytes at the least, but real events have a handful. */
#define EA_EXT_MAX 64

/* Members are in the order of the checksum's two blocks (proto/wire/FORMAT.md, "Checksum"), so that each block is
 * compared, copied and hashed as it is. All of them but the last group are a record's identity or its attributes. An
 * attribute that only files have is 0 for a record from another source. */
typedef struct ea_record {
    /* what events of a kind have alike: EA_RECORD_KIND_BYTES */
    ea_guid provider; /* for a kernel event the class GUID of its hook group */
    uint64_t keyword;
    uint16_t id; /* 0 for classic events; a WPP message's number */
    uint16_t task;
    uint8_t version;
    uint8_t channel;
    uint8_t level;
    uint8_t opcode;       /* a classic event's type */
    uint16_t logger;      /* logger (session) id */
    uint16_t flags;       /* enum ea_event_flag; made up for classic headers as Windows makes them up */
    uint16_t property;    /* EVENT_HEADER.EventProperty */
    uint8_t pointer_size; /* bytes: 4 or 8 */
    uint8_t header_type;  /* attribute: enum ea_header_type */
    uint16_t hook_id;     /* attribute; kernel headers: group in the high byte, opcode in the low one */
    uint16_t header_word; /* attribute; kernel, FULL and INSTANCE headers: the whole version word; WPP: option flags */
    uint32_t unused;      /* whatever it holds, it is no part of a comparison, nor of the checksum */

    /* what each event has of its own: EA_RECORD_OWN_BYTES, from time_raw on */
    int64_t time_raw;     /* ticks of the source's clock, see clock.h */
    uint32_t pid;         /* 0xFFFFFFFF when the header has none */
    uint32_t tid;         /* 0xFFFFFFFF when the header has none */
    uint32_t kernel_time; /* low half of ProcessorTime for user-mode-only sessions */
    uint32_t user_time;
    ea_guid activity_id;
    uint16_t cpu;
    uint16_t source; /* attribute: index of the file (or session) in its set */
    uint16_t ext_count;
    uint16_t payload_bytes;

    const ea_ext *ext;      /* ext_count items in their order; borrowed */
    const uint8_t *payload; /* borrowed */

    /* the record's place; no part of a comparison */
    uint64_t position; /* (buffer's number in file order << 32) + offset inside the decoded buffer */
} ea_record;

enum { EA_RECORD_KIND_BYTES = 48, EA_RECORD_OWN_BYTES = 48 };

_Static_assert(offsetof(ea_record, id) == 24 && offsetof(ea_record, logger) == 32 &&
                   offsetof(ea_record, hook_id) == 40 && offsetof(ea_record, unused) == 44 &&
                   offsetof(ea_record, time_raw) == EA_RECORD_KIND_BYTES,
               "the checksum's block of constants, but for its last four bytes, which are 0 there");
_Static_assert(offsetof(ea_record, payload_bytes) + 2 - offsetof(ea_record, time_raw) == EA_RECORD_OWN_BYTES,
               "the checksum's block of an event, from its eighth byte on");

/* 1 when every identity field and attribute of a and b is bit for bit the same (position is not compared). */
int ea_record_equal(const ea_record *a, const ea_record *b);

/* The item's data, or NULL: the first extended item of that type. */
const ea_ext *ea_record_ext(const ea_record *r, uint16_t type);

#endif
