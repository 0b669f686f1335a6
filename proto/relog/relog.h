/* etwagent/relog.h: reads .etl traces, gives each event to a function, and writes what that function keeps, changes and
 * adds as .etl traces. It needs nothing else of this project, is C99 and C++, and works on every system.
 * Input: files. Called by: `etwagent relog`, programs of others (tests/plugins/relog_copy.c,
 * relog_fields.c). Output: files, as
 * Microsoft's relogger writes them. Thread: an ea_relog belongs to one thread; ea_relog_cancel may be called by any.
 *
 * Events come in canonical order (time, input, processor, position). The header event of an input is not one of them:
 * on_begin receives it, and each output has one header event, that of the first input completed by what the output
 * itself determines (buffer size, compression, end time, buffers, losses of all inputs).
 * docs/guides/relog.md maps the methods of ITraceRelogger, ITraceEvent and ITraceEventCallback. */
#ifndef EA_RELOG_RELOG_H
#define EA_RELOG_RELOG_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

typedef struct ea_relog ea_relog;

typedef struct ea_relog_guid {
    uint8_t bytes[16]; /* as Windows has them in memory */
} ea_relog_guid;

/* EVENT_HEADER_EXTENDED_DATA_ITEM. Of a WPP message and of performance counters these hold what its header holds. */
typedef struct ea_relog_item {
    uint16_t type;       /* EVENT_HEADER_EXT_TYPE_*, or 0xFF00 and up: see docs/internals/records.md */
    uint16_t linkage;    /* bit 0: another item follows */
    uint32_t size_bytes; /* of data */
    const uint8_t *data; /* borrowed */
} ea_relog_item;

/* An event. It is a value: a copy of the struct may be changed and emitted. What it points to is valid until on_event
 * returns; ea_relog_clone makes an event that is valid longer. */
typedef struct ea_relog_event {
    ea_relog_guid provider; /* of a kernel event: its class, by hook_id */
    uint64_t keyword;
    uint16_t id;
    uint16_t task;
    uint8_t version;
    uint8_t channel;
    uint8_t level;
    uint8_t opcode; /* a classic event's type */
    uint16_t logger;
    uint16_t flags;       /* EVENT_HEADER_FLAG_* */
    uint16_t property;    /* EVENT_HEADER.EventProperty */
    uint8_t pointer_size; /* 4 or 8 */
    uint8_t header_type;  /* the form of the header, see below */
    uint16_t hook_id;     /* of a kernel header: group in the high byte, opcode in the low one */
    uint16_t header_word; /* kernel, FULL and INSTANCE headers: the whole version word; WPP: option flags */
    uint32_t unused;

    int64_t time_raw; /* ticks of the first input's clock: see ea_relog_utc_ns */
    uint32_t pid, tid;
    uint32_t kernel_time, user_time;
    ea_relog_guid activity_id;
    uint16_t cpu;
    uint16_t input; /* number of the input that it came from */
    uint16_t item_count;
    uint16_t payload_bytes;

    const ea_relog_item *items;
    const uint8_t *payload;
    uint64_t position; /* in its file; not written */
} ea_relog_event;

/* ea_relog_event.header_type. NONE: the form with which Windows logs such an event (EVENT, or FULL when flags say
 * classic). In a 32-bit form pointers are 4 bytes. */
enum ea_relog_header {
    EA_RELOG_HEADER_NONE = 0,
    EA_RELOG_HEADER_SYSTEM32 = 1,
    EA_RELOG_HEADER_SYSTEM64 = 2,
    EA_RELOG_HEADER_COMPACT32 = 3,
    EA_RELOG_HEADER_COMPACT64 = 4,
    EA_RELOG_HEADER_FULL32 = 10,
    EA_RELOG_HEADER_INSTANCE32 = 11,
    EA_RELOG_HEADER_MESSAGE = 15,
    EA_RELOG_HEADER_PERFINFO32 = 16,
    EA_RELOG_HEADER_PERFINFO64 = 17,
    EA_RELOG_HEADER_EVENT32 = 18,
    EA_RELOG_HEADER_EVENT64 = 19,
    EA_RELOG_HEADER_FULL64 = 20,
    EA_RELOG_HEADER_INSTANCE64 = 21
};

/* The facts of an input, from its header event. Times are ns since 1970 UTC. */
typedef struct ea_relog_input {
    const char *path;
    const char *session_name; /* UTF-8, "" when absent */
    void *context;            /* as given to ea_relog_add_input */
    uint32_t cpu_count, pointer_size, os_build, clock_type, buffer_size_bytes;
    uint32_t events_lost, buffers_lost;
    int64_t begin_utc_ns, end_utc_ns; /* end 0: the session did not end */
    int64_t begin_raw;                /* ticks of its own clock at begin_utc_ns */
    uint64_t ticks_per_second;
    int is_converted;     /* its clock is another one than the first input's: see ea_relog_convert_clocks */
    uint32_t compression; /* enum ea_relog_compression */
} ea_relog_input;

enum ea_relog_compression {
    EA_RELOG_COMPRESSION_NONE = 0,
    EA_RELOG_COMPRESSION_LZNT1 = 2,
    EA_RELOG_COMPRESSION_XPRESS = 3,
    EA_RELOG_COMPRESSION_XPRESS_HUFF = 4,
    EA_RELOG_COMPRESSION_SAME = 0xFFFF /* as the first input */
};

enum ea_relog_kind {
    EA_RELOG_TRACE = 0,
    EA_RELOG_TEMPORARY = 1, /* a trace that on_written may read, and that is removed afterwards: it gets no name */
    EA_RELOG_OTHER = 2      /* a file of any other form: no event goes to it, on_written makes it by ea_relog_write */
};

typedef struct ea_relog_output {
    uint32_t compression;       /* enum ea_relog_compression */
    uint32_t buffer_size_bytes; /* a multiple of 512; 0: the largest of the inputs' */
    int only_emitted; /* 1: kept events do not go to this output, only those that ea_relog_emit names it for */
    int no_names;     /* 1: the header event is made anew, without the names of the session and of its file */
    uint32_t kind;    /* enum ea_relog_kind */
} ea_relog_output;

/* What on_event returns; a negative number ends the run, which returns it. */
enum ea_relog_verdict { EA_RELOG_DROP = 0, EA_RELOG_KEEP = 1 };

/* Any of them may be NULL: then nothing happens at begin and end, and all events are kept. input: the facts and the
 * context of the event's input. arg: as given to ea_relog_run. on_begin: once an input, before the first event; header:
 * its header event. on_end: once, after the last event; events may still be emitted. on_written: once, when the traces
 * are complete and no output has its name yet. These three return 0, or a negative number. */
typedef struct ea_relog_callbacks {
    int (*on_begin)(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *header, void *arg);
    int (*on_event)(ea_relog *relog, const ea_relog_input *input, const ea_relog_event *event, void *arg);
    int (*on_end)(ea_relog *relog, void *arg);
    int (*on_written)(ea_relog *relog, void *arg);
} ea_relog_callbacks;

typedef struct ea_relog_counts {
    uint64_t headers; /* header events of the inputs */
    uint64_t read;    /* events of the inputs; header events are not counted anywhere below */
    uint64_t kept, dropped;
    uint64_t added;                     /* by ea_relog_emit, all outputs together */
    uint64_t damaged;                   /* records and buffers that could not be read */
    uint64_t events_lost, buffers_lost; /* by Windows, of all inputs */
} ea_relog_counts;

/* All functions that return int return 0, or a negative code; ea_relog_error then has a sentence. */

int ea_relog_create(ea_relog **ret);
void ea_relog_destroy(ea_relog *relog); /* NULL is allowed; outputs that are not complete are removed */

/* Opens nothing yet. context is the caller's. *ret_input (may be NULL): its number. */
int ea_relog_add_input(ea_relog *relog, const char *path, void *context, unsigned *ret_input);
/* options NULL: all zero. *ret_output (may be NULL): its number. An existing file is replaced when the run has
 * succeeded; until then the output is PATH.partial. Neither may be an input, by any name; the path may not be a folder
 * or a device. PATH.partial may be a file that an earlier run left, which is removed; a link is not followed, and the
 * run fails. While several outputs are renamed, what they replace is PATH.replaced, or PATH.replaced.2 and so on: a
 * name that nothing else has. ea_relog_run returns -18 when another run, or another output of this one, writes it, or
 * when another run has just renamed one to this path and not yet the rest of its outputs. */
int ea_relog_add_output(ea_relog *relog, const char *path, const ea_relog_output *options, unsigned *ret_output);

/* Before the run: an input may have another clock than the first one (another kind, another rate, another start of the
 * machine). The times of its events become ticks of the first one's clock, by way of UTC. Times in payloads stay. */
void ea_relog_convert_clocks(ea_relog *relog);

/* In on_begin: in this output all happens so much later (negative: earlier; a multiple of 100 ns). Its header event
 * is made anew with these times; ticks change only of a clock that is the system time. */
int ea_relog_shift(ea_relog *relog, unsigned output, int64_t shift_ns);

/* Reads the inputs and writes the outputs, once. Each output is synced and renamed only after all of them are written
 * and have the number of events that they must have (read - dropped + added). Fails without an input. Without an
 * output, it only reads. After a failure there is no output. */
int ea_relog_run(ea_relog *relog, const ea_relog_callbacks *callbacks, void *arg);

/* Ends the run as soon as possible, without outputs: ea_relog_run returns -19. */
void ea_relog_cancel(ea_relog *relog);

/* In on_event and on_end: writes an event to one output. Its members are used as they are. Events of one processor may
 * be emitted with any time, but each step back in time costs a buffer of the output. */
int ea_relog_emit(ea_relog *relog, unsigned output, const ea_relog_event *event);

/* In on_written: where a trace is until it has its name (valid until the ea_relog is destroyed; NULL for an output that
 * there is not). */
const char *ea_relog_partial(const ea_relog *relog, unsigned output);
/* In on_written: appends bytes to an output of EA_RELOG_OTHER. */
int ea_relog_write(ea_relog *relog, unsigned output, const void *data, size_t len_bytes);

/* In on_event: this event is written in place of the one at hand, when the verdict is to keep it. What it points to is
 * valid until the next on_event. */
int ea_relog_replace(ea_relog *relog, const ea_relog_event *event);

/* A deep copy that is valid until ea_relog_free; NULL without memory. */
ea_relog_event *ea_relog_clone(const ea_relog_event *event);
void ea_relog_free(ea_relog_event *event);

/* While it runs: raw ticks of events to UTC in ns since 1970, and back: the first tick that is not before that time. */
int64_t ea_relog_utc_ns(const ea_relog *relog, int64_t time_raw);
int64_t ea_relog_raw(const ea_relog *relog, int64_t utc_ns);

/* While it runs, in [0, 1]. */
double ea_relog_progress(const ea_relog *relog);
/* Valid until the ea_relog is destroyed. */
const ea_relog_counts *ea_relog_count(const ea_relog *relog);
uint64_t ea_relog_written(const ea_relog *relog, unsigned output); /* events, without the header event */
const char *ea_relog_error(const ea_relog *relog);                 /* "" when nothing failed */

/* ---- fields by name ---- */

/* What is known of the layouts of events: the kernel's, those of the catalogue, of TraceLogging events, and of what it
 * learns. It belongs to one thread. */
typedef struct ea_relog_fields ea_relog_fields;

int ea_relog_fields_create(ea_relog_fields **ret);
void ea_relog_fields_destroy(ea_relog_fields *fields); /* NULL is allowed */
/* Events of the providers that a manifest (.man), PE file or schema cache describes. */
int ea_relog_fields_manifest(ea_relog_fields *fields, const char *path);
/* Takes what the event says of the layouts of later ones (EventSource manifests, TRACE_EVENT_INFO): for each event. */
void ea_relog_fields_learn(ea_relog_fields *fields, const ea_relog_event *event);
/* "Process/Start"; "" when nothing is known. Valid as long as the fields are there. */
const char *ea_relog_event_name(ea_relog_fields *fields, const ea_relog_event *event);
/* Whole numbers, addresses and times, as they are in the payload; sign-extended. -3: there is no such field. */
int ea_relog_get_number(ea_relog_fields *fields, const ea_relog_event *event, const char *field, uint64_t *ret);
/* UTF-8, valid until the next call; NULL: there is no such field. */
const char *ea_relog_get_text(ea_relog_fields *fields, const ea_relog_event *event, const char *field);
/* Write the payload anew; a text may be of any length where the field's own may vary. event: a copy, whose payload is
 * valid until a field of another event is set; several fields of it may be set. A field that counts the text's
 * characters is set with it. set_number takes the bits of a fraction. -3: there is no such field; -5: it is of another
 * kind, or the value has no room in it; -10: the event would be too large. */
int ea_relog_set_number(ea_relog_fields *fields, ea_relog_event *event, const char *field, uint64_t value);
int ea_relog_set_text(ea_relog_fields *fields, ea_relog_event *event, const char *field, const char *text);

/* ---- TraceLogging ---- */

/* The description of a TraceLogging event, for its extended item of type 11 (EVENT_HEADER_EXT_TYPE_EVENT_SCHEMA_TL).
 * begin: *used becomes the bytes in out. field: appends one of TlgIn_* and TlgOut_* (0: none). Returns 0, or -10 when
 * there is no room. */
int ea_relog_schema_begin(uint8_t *out, size_t capacity, size_t *used, const char *name);
int ea_relog_schema_field(uint8_t *out, size_t capacity, size_t *used, const char *name, uint8_t in_type,
                          uint8_t out_type);

#if defined(__cplusplus)
}
#endif

#endif
