/* What an event means: class rows, compiled classes, and the bounded walk that splits a payload into fields. Uses:
 * proto/base (record.h). Used by: proto/wire (columns are these fields), service/decode, the collector.
 *
 * A row (rows/<family>.c) is what a person writes: one declarative line per event class. A class is what the program
 * uses: a row compiled for one version and pointer size, or a schema found elsewhere (a description from the wire,
 * TraceLogging, a manifest). Thread: a registry belongs to one thread; classes it hands out are constant and live as
 * long as the registry. */
#ifndef EA_EVENT_EVENT_H
#define EA_EVENT_EVENT_H

#include "proto/base/err.h"
#include "proto/base/record.h"
#include "proto/base/text.h"

#include <stddef.h>
#include <stdint.h>

/* Field types: how many bytes, and how to read them. Numbers travel in descriptions: never reuse one. */
// clang-format off
#define EA_TYPES(X)                                                                                                    \
    /* name, wire number, fixed width in bytes (0 variable, -1 pointer-sized), text */                                 \
    X(U8, 1, 1) X(I8, 2, 1) X(U16, 3, 2) X(I16, 4, 2) X(U32, 5, 4) X(I32, 6, 4) X(U64, 7, 8) X(I64, 8, 8)              \
    X(F32, 9, 4) X(F64, 10, 8)                                                                                         \
    X(BOOL8, 11, 1) X(BOOL32, 12, 4)                                                                                   \
    X(HEX8, 13, 1) X(HEX16, 14, 2) X(HEX32, 15, 4) X(HEX64, 16, 8)                                                     \
    X(POINTER, 17, -1)   /* an address, shown in hex */                                                                \
    X(SIZE, 18, -1)      /* SizeT: a pointer-sized number, shown in decimal */                                         \
    X(GUID, 19, 16)                                                                                                    \
    X(FILETIME, 20, 8)                                                                                                 \
    X(SYSTEMTIME, 21, 16)                                                                                              \
    X(IPV4, 22, 4)       /* network byte order */                                                                      \
    X(IPV6, 23, 16)                                                                                                    \
    X(PORT, 24, 2)       /* network byte order */                                                                      \
    X(CHAR8, 25, 1) X(CHAR16, 26, 2)                                                                                   \
    X(UTF16Z, 40, 0)     /* UTF-16LE up to and with a NUL, or the payload's end */                                     \
    X(ANSIZ, 41, 0)      /* bytes up to and with a NUL, or the payload's end */                                        \
    X(UTF16_COUNTED, 42, 0) /* u16 length in bytes, then UTF-16LE */                                                   \
    X(ANSI_COUNTED, 43, 0)  /* u16 length in bytes, then bytes */                                                      \
    X(UTF16_REST, 44, 0) /* UTF-16LE to the payload's end, no NUL */                                                   \
    X(WBEM_SID, 45, 0)   /* u32 0, or two pointers (TOKEN_USER) and a SID */                                           \
    X(SID, 46, 0)        /* revision, count, authority, sub-authorities */                                             \
    X(BYTES, 47, 0)      /* count bytes (count_field), or the rest of the payload */                                   \
    X(STRUCT, 48, 0)     /* the next child_count fields, repeated like any array */                                    \
    X(UTF16_FIXED, 49, 0) /* count characters, shown up to the first NUL */                                            \
    X(ANSI_FIXED, 50, 0)  /* count bytes, shown up to the first NUL */                                                 \
    X(UTF8Z, 51, 0)      /* like ANSIZ, in UTF-8 */                                                                    \
    X(UTF8_COUNTED, 52, 0) /* like ANSI_COUNTED, in UTF-8 */                                                           \
    X(UTF8_FIXED, 53, 0)   /* like ANSI_FIXED, in UTF-8 */
// clang-format on

/* "U32", "POINTER", ...; "" for a number that is not known. */
const char *ea_type_name(uint8_t type);

enum ea_type {

#define X(name, number, width) EA_##name = number,
    EA_TYPES(X)
#undef X
};

/* What a value stands for, so that a sink or a rule needs no decode table. Numbers travel: never reuse one. */
// clang-format off
#define EA_SEMANTICS(X)                                                                                                \
    X(NONE, 0) X(PID, 1) X(TID, 2) X(PARENT_PID, 3) X(QPC, 4) X(ADDRESS, 5) X(IMAGE_BASE, 6) X(FILE_OBJECT, 7)         \
    X(FILE_KEY, 8) X(KCB, 9) X(IRP, 10) X(NTSTATUS, 11) X(WIN32_ERROR, 12) X(HRESULT, 13) X(PORT, 14) X(IP, 15)         \
    X(SID, 16) X(PATH, 17) X(COMMAND_LINE, 18) X(STACK, 19) X(STACK_KEY, 20) X(CPU, 21) X(UNIX_TIME, 22)               \
    X(PROCESS_KEY, 23) X(SESSION_ID, 24) X(REGISTRY_PATH, 25) X(DURATION_QPC, 26) X(BYTE_COUNT, 27)          \
    X(SOCKET_ADDRESS, 28)
// clang-format on

/* "PID", "IRP", ...; "" for NONE and for a number that is not known. */
const char *ea_semantic_name(uint8_t semantic);

enum ea_semantic {

#define X(name, number) EA_SEM_##name = number,
    EA_SEMANTICS(X)
#undef X
};

/* Names of numbers. A flag map names bits, a value map whole values. The number is always kept beside the name. */
typedef struct ea_map_entry {
    uint64_t value;
    const char *name;
} ea_map_entry;

typedef struct ea_enum {
    const char *name;
    int is_flags;
    size_t count;
    const ea_map_entry *entries;
} ea_enum;

/* ---- rows: what a person writes ---- */

enum { EA_COUNT_REST = 0xFFFF }; /* an array up to the payload's end */

typedef struct ea_field_row {
    const char *name;    /* the MOF's or the manifest's; NULL ends the list */
    uint8_t type;        /* enum ea_type */
    uint8_t semantic;    /* enum ea_semantic */
    uint8_t since;       /* first version that has it */
    uint8_t until;       /* last version that has it; 0: all later ones */
    uint16_t count;      /* array of so many; 0 and 1: one; EA_COUNT_REST */
    uint8_t child_count; /* EA_STRUCT: its direct members, which follow it */
    uint8_t optional;    /* some builds of Windows write this version without it, and then without the fields after
                          * it */
    uint8_t only; /* 4 or 8: only machines with pointers of so many bytes have it (a compiler's padding); 0: all */
    const char *count_field; /* name of the earlier field (a sibling) that holds the count; NULL: count */
    const ea_enum *map;
} ea_field_row;

typedef struct ea_provider_row {
    ea_guid guid;
    const char *name; /* "Windows Kernel Trace" or the manifest's; the classes' names have the class family */
    int classic;      /* the opcode, not the id, distinguishes events */
    uint8_t kind;     /* enum ea_class_kind of its classes */
} ea_provider_row;

typedef struct ea_class_row {
    const char *name;     /* "Process/DCStart": task and opcode */
    uint16_t code;        /* opcode (classic) or id */
    uint8_t since, until; /* the versions that this row describes, both included. A newer one than any row of this code
                             knows gets the newest row's fields and a raw tail; an older one has no class. */
    const ea_field_row *fields; /* ends with a NULL name; rows with the same fields share one list; NULL: the layout is
                                 * unknown, and such a class has a name and the status EA_CLASS_UNKNOWN */
} ea_class_row;

/* Rows of one provider (for the kernel: of one class GUID) in one place; rows/rows.h lists all families. */
typedef struct ea_family {
    const ea_provider_row *provider;
    const ea_class_row *rows;
    size_t row_count;
    const char *source; /* where the layouts were read */
} ea_family;

/* All families, in the order of rows/rows.h; constants. */
const ea_family *const *ea_event_families(size_t *ret_count);
/* The number of a provider's family: its place in that order, from 1; 0 is "other": what no row knows. */
uint8_t ea_event_family_of(const ea_guid *provider, int classic);
/* "process", "disk_io", ...; "other". */
const char *ea_event_family_name(uint8_t family);

/* ---- classes: what the program uses ---- */

typedef struct ea_field {
    const char *name;
    uint8_t type;        /* enum ea_type */
    uint8_t semantic;    /* enum ea_semantic */
    uint8_t child_count; /* EA_STRUCT: its direct members, which follow it */
    uint8_t width;       /* bytes of one element; 0 when that varies */
    uint16_t count;      /* fixed number of elements (1 for a plain field); EA_COUNT_REST; unused with count_field */
    int16_t count_field; /* index of the sibling with the number of elements, -1: count */
    uint16_t offset;     /* in the payload while every field before it is fixed; EA_OFFSET_NONE after a variable one and
                          * inside structs */
    uint16_t span;       /* fields that this one takes up: itself and all that is inside it; index + span is the next */
    uint8_t is_count;    /* another field's count_field points here */
    uint8_t optional;    /* a payload may end before it */
    uint8_t hidden;      /* a length that the event's own schema has no name for: not shown, its name is empty */
    uint8_t length;      /* enum ea_field_length */
    const ea_enum *map;  /* may be NULL */
} ea_field;

enum { EA_OFFSET_NONE = 0xFFFF, EA_FIELDS_MAX = 512 };

/* How the length of a field is found, decided once a class, so that no event asks for type, count and width again. */
enum ea_field_length {
    EA_LENGTH_ANY = 0, /* an array, a struct, a count of others, and any type that is not below */
    EA_LENGTH_FIXED,   /* one element of width bytes */
    EA_LENGTH_UTF16Z,  /* one string of that type */
    EA_LENGTH_BYTEZ,   /* one EA_ANSIZ or EA_UTF8Z */
    EA_LENGTH_COUNTED, /* one string of any _COUNTED type */
};

enum ea_class_kind { EA_KIND_EVENT = 0, EA_KIND_KEYFRAME = 1 };

enum ea_class_status {
    EA_CLASS_KNOWN = 0,   /* this version is known */
    EA_CLASS_NEWER = 1,   /* a newer version: the highest known one's fields, then a raw tail */
    EA_CLASS_UNKNOWN = 2, /* no schema: no fields, the payload is raw */
};

/* What a schema says for people. Strings are UTF-8; "" where it says nothing. */
typedef struct ea_class_notes {
    const char *message; /* with %1, %2, ... for the top-level fields; see ea_render_message */
    const char *level, *channel, *task, *opcode;
    size_t keyword_count;
    const ea_map_entry *keywords; /* bits and their names */
} ea_class_notes;

typedef struct ea_class {
    uint8_t hash[16]; /* first half of SHA-256 over the description */
    ea_guid provider;
    const char *provider_name; /* "" when unknown */
    const char *name;          /* "Process/DCStart"; "" when unknown */
    uint16_t code;             /* opcode (classic) or id */
    uint8_t version;
    uint8_t classic;
    uint8_t pointer_size;    /* the fields' */
    uint8_t kind;            /* enum ea_class_kind */
    uint8_t status;          /* enum ea_class_status */
    uint8_t family;          /* ea_event_family_of; no part of the description */
    uint8_t unfolded;        /* its records' payloads are values that a plug-in made, then the payload that Windows
                                logged, which is the last field: see ea_class_logged */
    uint16_t field_count;    /* members of structs included (they follow their struct) */
    uint16_t top_count;      /* top-level fields: what ea_class_split fills */
    uint16_t required_count; /* those that a whole payload has at the least: all but optional ones at the end */
    uint16_t fixed_bytes;    /* bytes that the leading fixed top-level fields take */
    uint16_t fixed_fields; /* number of those top-level fields, structs excluded; they are fields[0 .. fixed_fields) */
    const ea_field *fields;
    const ea_class_notes *notes; /* NULL: none */
    const uint8_t *description;  /* what travels and is stored: DESCRIPTIONS.md */
    uint32_t description_bytes;
    uint32_t number; /* how many classes its registry had before it; no part of the description */
} ea_class;

/* A field's bytes inside a payload; borrowed. */
typedef struct ea_slice {
    const uint8_t *data;
    uint32_t len_bytes;
    uint32_t element_count;
} ea_slice;

/* Splits a payload into top-level fields (members of structs are inside their struct's slice). Every byte belongs to
 * exactly one slice or to the tail: concatenated they are always the payload.
 * slices: room for class->top_count. Returns how many leading top-level fields are whole; *ret_used is the number of
 * their bytes; the bytes after them are the tail; slices of fields that are not whole are not touched. Never reads
 * outside the payload, whatever its counts and lengths are. A string without its NUL at the payload's end is whole; a
 * string without any byte is not. An array up to the payload's end takes whole elements only. */
size_t ea_class_split(const ea_class *c, const uint8_t *payload, size_t payload_bytes, ea_slice *slices,
                      size_t *ret_used);
/* The same for the fields after the leading fixed ones only, and only their offsets: places has room for
 * class->top_count - class->fixed_fields, or is NULL. A payload that lacks a fixed field fills none. */
size_t ea_class_places(const ea_class *c, const uint8_t *payload, size_t payload_bytes, uint16_t *places,
                       size_t *ret_used);
/* 1 when a split of a payload of a known class found every required field and left no byte over: the payload is
 * understood. whole and used: what ea_class_split gave. */
int ea_class_is_whole(const ea_class *c, size_t whole, size_t used, size_t payload_bytes);
/* The payload that Windows logged, out of a record's of this class: all of it, or of an unfolded class its last field.
 */
ea_slice ea_class_logged(const ea_class *c, const uint8_t *payload, size_t payload_bytes);
/* Number of top-level fields (top_count), and the index in fields[] of the i-th; field_count when there is no i-th. */
size_t ea_class_top_count(const ea_class *c);
size_t ea_class_top_field(const ea_class *c, size_t i);
/* Splits one element of a struct into its direct members the same way. field: index of the EA_STRUCT field. bytes: what
 * is left of the struct's slice. slices: room for child_count. *ret_used: the bytes of the whole members; the next
 * element begins there. Returns the number of whole members. */
size_t ea_class_split_element(const ea_class *c, size_t field, const uint8_t *bytes, size_t len_bytes, ea_slice *slices,
                              size_t *ret_used);

/* A class's description (DESCRIPTIONS.md) is everything of ea_class but the hash. Parsing checks every length; the
 * result lives in the registry. */
enum { EA_DESCRIPTION_MAX_BYTES = 1 << 18 };
typedef struct ea_registry ea_registry;

/* A registry knows all rows (rows/rows.h) and whatever is added. limit_classes bounds what hostile input can make it
 * keep (0: 65,536), and so do 256 MiB of memory; beyond it events are of the unknown class of their provider and are
 * counted. */
EA_MUST_CHECK int ea_registry_create(ea_registry **ret, size_t limit_classes, ea_err *err);
/* Another bound of the memory that classes take; before the first one. */
void ea_registry_limit_bytes(ea_registry *r, size_t limit_bytes);
void ea_registry_destroy(ea_registry *r);

/* The class of a record; never NULL: without a schema it is a class of status EA_CLASS_UNKNOWN for that provider, code
 * and version. Cached: a repeated question costs one hash look-up. */
const ea_class *ea_registry_find(ea_registry *r, const ea_record *record);

/* A class out of a description that came from outside; EA_ECORRUPT with the reason, EA_ELIMIT when the registry is
 * full. The same bytes give the same class. */
EA_MUST_CHECK int ea_registry_add_description(ea_registry *r, const uint8_t *description, size_t len_bytes,
                                              const ea_class **ret, ea_err *err);

/* The class with this hash (16 bytes) among those found, or added from outside; NULL. */
const ea_class *ea_registry_find_hash(const ea_registry *r, const uint8_t *hash);
/* Records that got the one class of the overflow (zero provider, no name) because limit_classes was reached. */
uint64_t ea_registry_overflow_count(const ea_registry *r);

/* A provider's name by GUID, "" when unknown. */
const char *ea_registry_provider_name(const ea_registry *r, const ea_guid *provider);

/* The value of a fixed-width integer-like field (also PID, POINTER, enum ...) by name: 1 and *ret, or 0 when the class
 * has no such field or this payload does not hold it whole. For the state's and tests' use, not for hot paths. */
int ea_event_u64(const ea_class *c, const ea_record *record, const char *field, uint64_t *ret);
/* Appends a text field as UTF-8 (without its NUL): 1, or 0. */
int ea_event_text(const ea_class *c, const ea_record *record, const char *field, ea_text *out);

#endif
