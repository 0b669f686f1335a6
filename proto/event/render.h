/* Events as people and tools read them: text, JSON lines, CSV. `etwagent dump` and `etwcollector export` print through
 * this, so that they print the same bytes. Input: event.h. Used by: the commands. Thread: its owner's. */
#ifndef EA_EVENT_RENDER_H
#define EA_EVENT_RENDER_H

#include "proto/base/clock.h"
#include "proto/event/event.h"

/* How an operation ended: one of a file, or a collection of garbage. */
typedef struct ea_completion {
    const char *operation; /* of the operation's end: the class of what it ended; of an operation: NULL */
    int64_t latency_ns;
    uint32_t status;      /* NTSTATUS; operations only, like: */
    uint64_t information; /* bytes that were read or written, or what else the operation returns */
    uint8_t has_status;   /* 0: status and information mean nothing */
} ea_completion;

/* What other events say about this one: proto/state/object_names.h has one. Texts are UTF-8. */
typedef struct ea_resolver {
    const void *arg;
    /* Appends what a number of that semantic (FILE_OBJECT, FILE_KEY, KCB) was called then: 1, or 0. */
    int (*number)(const void *arg, uint8_t semantic, uint64_t value, int64_t utc_ns, ea_text *out);
    /* Appends a device path with its drive letter: 1, or 0. */
    int (*path)(const void *arg, const char *path, size_t len_bytes, ea_text *out);
    int (*completion)(const void *arg, const ea_record *record, const ea_class *c, int64_t utc_ns, ea_completion *ret);
} ea_resolver;

/* Of one event, or of one value: beyond so much text, names are missing (null), arrays end with their rest in hex, and
 * messages with "...". Any schema may come with an event, and names again and again what its payload has once. */
enum { EA_RENDER_MAX_BYTES = 1 << 20 };

enum ea_render_form { EA_RENDER_TEXT, EA_RENDER_JSON, EA_RENDER_CSV };

/* What the class's schema says of the event in words, with its values in place of %1, %2, ...: a manifest's message. As
 * Windows' FormatMessage reads it: %n is a line's end, %t a tab, %0 the end, %% a percent sign. Adds nothing when the
 * schema says nothing. */
void ea_render_message(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock);

typedef struct ea_rendering {
    enum ea_render_form form;
    const ea_clock *clock;
    const ea_resolver *resolver; /* NULL: values as in the event, and nothing of other events */
    int raw;                     /* JSON without columns: as ea_render_json says */
    const char *const *columns;  /* names of columns and fields; needed for CSV */
    size_t column_count;         /* 0: the whole event */
} ea_rendering;

/* One event in one of the forms below, without a line's end. */
void ea_render(ea_text *out, const ea_record *record, const ea_class *c, const ea_rendering *how);

/* One record as one JSON object without a newline. Keys, in this order: time, clock, provider, provider_name, name, id,
 * version, channel, level, opcode, task, keyword, cpu, pid, tid, activity_id, related_activity_id, fields, stack; with
 * where the class has a schema that names them also level_name, channel_name, task_name, opcode_name, keyword_names and
 * message, and a TraceLogging event tag and provider_group, where it has them; with raw also flags, property,
 * kernel_time, user_time, logger, pointer_size, header {type, hook_id, word, source}, payload, extended [{type, name,
 * linkage, data}]. EA_RENDER_HELP describes the form of each kind of value. */
void ea_render_json(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock, int raw);
/* 1 when events of the class have a column of that name: a key of the JSON form, or a field. */
int ea_render_has(const ea_class *c, const char *column);
/* One line for a person. */
void ea_render_text(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock);
/* Named columns ("time", "pid", ... or a field's name) as a JSON object, null where the event has no such field; as
 * CSV, which ea_render gives, it is empty there. */
void ea_render_columns_json(ea_text *out, const ea_record *record, const ea_class *c, const ea_clock *clock,
                            const char *const *columns, size_t column_count);
/* One field's value as JSON (a number, a string, an array, an object for a struct). field: index into c->fields. */
void ea_render_field_json(ea_text *out, const ea_class *c, size_t field, const ea_slice *slice);

/* Whether fields like this one may have names. */
int ea_field_has_names(const ea_field *f);
/* Appends what a value of a field is called, the name alone: of a mapped number or an NTSTATUS; with a resolver also of
 * a file object, a file key, a registry key, and a device path with its drive letter. 1; 0 when it has no name. slice:
 * a single element; record: with its payload and time when a resolver is asked about a file object, else anything. */
int ea_render_name(ea_text *out, const ea_record *record, const ea_class *c, const ea_field *f, const ea_slice *slice,
                   const ea_rendering *how);

/* "SYSTEM64", "NONE", ...; "" for a number that is not known. */
const char *ea_header_type_name(uint8_t header_type);

/* How values look, for the commands' --help. */
// clang-format off
#define EA_RENDER_HELP                                                                                                 \
    "How values look in JSON lines: time is UTC as RFC 3339 and clock the raw ticks of the trace's\n"                  \
    "clock; pid and tid are 4294967295 where the event's header has none. Counts are numbers, up to\n"                 \
    "64 bits. Addresses, handles and bit fields are \"0x...\" strings. A field whose numbers have\n"                   \
    "names is {\"value\": N, \"name\": \"...\"} (name is null for a number without one; flags are joined\n"            \
    "by |). SIDs are \"S-1-...\", absent ones null. FILETIMEs are RFC 3339. Bytes are hex. Arrays are\n"               \
    "arrays and structs objects. Payload bytes that no field covers (a payload that ends inside a\n"                   \
    "field, a newer version's new fields, an event of unknown layout) are in fields as \"_tail\", in\n"                \
    "hex. In an event's text beyond 1 MiB numbers have no names, arrays end with their rest in hex, and\n"               \
    "a message ends with \"...\". stack holds return addresses that came with the event. A socket address is {\"value\": hex,\n"                \
    "\"name\": \"127.0.0.1:80\"}. Events with a manifest also have level_name, channel_name, task_name,\n"             \
    "opcode_name, keyword_names and message, as far as the manifest has them; TraceLogging events their tag and\n"       \
    "their provider's provider_group.\n\n"                                                  \
    "Unless --raw or --no-names is given, facts from other events of the trace are added: a file\n"                     \
    "object, file key or registry key that has a name at that time is {\"value\": \"0x...\", \"name\":\n"             \
    "\"C:\\\\...\"}, a device path whose volume has a drive letter {\"value\": \"\\\\Device\\\\...\", \"name\":\n"       \
    "\"C:\\\\...\"}; clock ticks are {\"value\": N, \"time\": \"...\"}, spans of them {\"value\": N, \"ns\": N};\n"      \
    "a file operation whose end was logged has completed {status, size, latency_ns}, and that end\n"                   \
    "completes {operation, latency_ns}; a .NET collection (GC/Start) and the time in which all threads\n"                 \
    "of a runtime were stopped (GC/SuspendEEStart) have completed {latency_ns}, and so have their ends\n"                \
    "completes; as columns: completed_status, completed_size, completed_latency_ns, completes_operation,\n"                \
    "completes_latency_ns;\n"                \
    "GC/HeapStats has derived {heap_bytes, promoted_bytes}, sums over its generations; compact context\n"               \
    "switches (Thread/CompCS) are printed one by one, as Thread/CompactCSwitch."
// clang-format on

#endif
