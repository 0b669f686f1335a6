/* See activity.h. */
#include "collector/query/analysis/activity.h"

#include "collector/query/analysis/address_space.h"
#include "collector/query/analysis/methods.h"
#include "collector/query/analysis/query.h"
#include "collector/query/analysis/sched_tracker.h"
#include "collector/query/analysis/stack_query.h"
#include "collector/query/scan/counter_names.h"
#include "collector/query/scan/event_cursor.h"
#include "collector/state/state_db.h"
#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/event/compact_cswitch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 1 << 20, CPUS_MAX = 4096, IRPS_MAX = 1 << 20, SOURCES_MAX = 65536 };

/* What a row's keys, texts and sums are, by table. Most tables have the first two keys, and more after them. */
enum key_of_any { KEY_PID, KEY_TID };

enum key_of_waits { KEY_REASON = 2 };

enum key_of_wakes { KEY_WAKER_PID, KEY_WAKER_TID, KEY_WOKEN_PID, KEY_WOKEN_TID };

enum key_of_counters { KEY_NUMBER = 2 };

enum key_of_samples {
    KEY_OFFSET = 1, /* of code_counters; else 0 */
    KEY_SOURCE = 2,
    KEY_INTERVAL = 3,        /* of counter_samples; 0: unknown */
    KEY_HAS_NO_INTERVAL = 3, /* of module_counters and code_counters */
};

enum key_of_problems { KEY_PROBLEM_CPU = 0, KEY_PROBLEM_SOURCE = 2 };

enum key_of_interrupts { KEY_ROUTINE = 1, KEY_CPU = 2 };

enum key_of_requests { KEY_DISK = 1, KEY_FILE_OBJECT = 2 };

enum key_of_stacks { KEY_STACK_HASH = 2, KEY_STACK_DEPTH = 3 };

enum key_of_missed { KEY_BATCH = 2, KEY_POSITION = 3 };

enum key_of_usage { KEY_IS_MANIFEST = 1 };

enum text_of_counters { TEXT_COUNTER, TEXT_MODULE, TEXT_METHOD }; /* the counter's or the source's name */

enum text_of_problems { TEXT_PROBLEM };

enum text_of_interrupts { TEXT_INTERRUPT };

enum text_of_requests { TEXT_OPERATION, TEXT_FILE };

enum text_of_stacks { TEXT_CLASS, TEXT_FRAMES };

enum text_of_missed { TEXT_OUTCOME, TEXT_HALF };

/* The times are in the order of the states, from EC_SCHED_RUNNING on. */
enum sum_of_threads {
    SUM_RUNNING_NS,
    SUM_READY_NS,
    SUM_WAITING_NS,
    SUM_SWITCHES,
    SUM_WAITS,
    SUM_UNFINISHED_RUNNING_NS,
    SUM_UNFINISHED_READY_NS,
    SUM_UNFINISHED_WAITING_NS
};

enum sum_of_latencies {
    SUM_COUNT,
    SUM_NS,
    SUM_MAX_NS,
    SUM_BYTES,
    SUM_UNFINISHED_NS = SUM_BYTES, /* of waits */
    SUM_COUNTED = SUM_NS,          /* of samples: events of the counter */
};

enum sum_of_counted { SUM_EVENTS, SUM_VALUE };

enum sum_of_stacks { SUM_STACKS, SUM_FIRST_UTC_NS, SUM_LAST_UTC_NS };

enum sum_of_missed { SUM_HALVES, SUM_UTC_NS };

enum sum_of_transfers { SUM_IN, SUM_IN_BYTES, SUM_OUT, SUM_OUT_BYTES };

#define FIRST_COLUMNS                                                                                                  \
    {"host", EC_KIND_TEXT, EC_OF_HOST, 0}, {                                                                           \
        "stream", EC_KIND_TEXT, EC_OF_STREAM, 0                                                                        \
    }
#define PROCESS_COLUMNS                                                                                                \
    {"process_key", EC_KIND_INT, EC_OF_PROCESS, 0}, {"pid", EC_KIND_INT, EC_OF_KEY, KEY_PID}, {                        \
        "image", EC_KIND_TEXT, EC_OF_IMAGE, 0                                                                          \
    }
#define BUCKET                                                                                                         \
    { "bucket", EC_KIND_TIME, EC_OF_BUCKET, 0 }
#define SUM(name, index)                                                                                               \
    { name, EC_KIND_INT, EC_OF_SUM, index }

// clang-format off
static const ec_activity_table TABLES[] = {
    [EC_ACTIVITY_THREADS] = {.name = "thread_times", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"tid", EC_KIND_INT, EC_OF_KEY, KEY_TID},
        SUM("running_ns", SUM_RUNNING_NS), SUM("ready_ns", SUM_READY_NS), SUM("waiting_ns", SUM_WAITING_NS), SUM("switches", SUM_SWITCHES), SUM("waits", SUM_WAITS),
        SUM("unfinished_running_ns", SUM_UNFINISHED_RUNNING_NS), SUM("unfinished_ready_ns", SUM_UNFINISHED_READY_NS),
        SUM("unfinished_waiting_ns", SUM_UNFINISHED_WAITING_NS)}},
    [EC_ACTIVITY_WAITS] = {.name = "waits", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"tid", EC_KIND_INT, EC_OF_KEY, KEY_TID},
        {"reason", EC_KIND_INT, EC_OF_KEY, KEY_REASON}, {"reason_name", EC_KIND_TEXT, EC_OF_REASON, KEY_REASON}, SUM("count", SUM_COUNT), SUM("ns", SUM_NS), SUM("max_ns", SUM_MAX_NS),
        SUM("unfinished_ns", SUM_UNFINISHED_NS)}},
    [EC_ACTIVITY_WAKES] = {.name = "wakes", .columns = {FIRST_COLUMNS, {"waker_process_key", EC_KIND_INT, EC_OF_PROCESS, 0}, {"waker_pid", EC_KIND_INT, EC_OF_KEY, KEY_WAKER_PID},
        {"waker_image", EC_KIND_TEXT, EC_OF_IMAGE, 0}, {"waker_tid", EC_KIND_INT, EC_OF_KEY, KEY_WAKER_TID}, {"process_key", EC_KIND_INT, EC_OF_PROCESS, 1},
        {"pid", EC_KIND_INT, EC_OF_KEY, KEY_WOKEN_PID}, {"image", EC_KIND_TEXT, EC_OF_IMAGE, 1},
        {"tid", EC_KIND_INT, EC_OF_KEY, KEY_WOKEN_TID}, SUM("count", SUM_COUNT), SUM("waited_ns", SUM_NS)}},
    [EC_ACTIVITY_COUNTERS] = {.name = "thread_counters", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"tid", EC_KIND_INT, EC_OF_KEY, KEY_TID},
        {"number", EC_KIND_INT, EC_OF_KEY, KEY_NUMBER}, {"counter", EC_KIND_TEXT, EC_OF_TEXT, TEXT_COUNTER}, SUM("value", SUM_VALUE), SUM("stretches", SUM_EVENTS)}},
    [EC_ACTIVITY_COUNTER_SAMPLES] = {.name = "counter_samples", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"tid", EC_KIND_INT, EC_OF_KEY, KEY_TID},
        {"source", EC_KIND_INT, EC_OF_KEY, KEY_SOURCE}, {"source_name", EC_KIND_TEXT, EC_OF_TEXT, TEXT_COUNTER}, {"interval", EC_KIND_INT, EC_OF_INTERVAL, KEY_INTERVAL},
        SUM("samples", SUM_COUNT)}},
    [EC_ACTIVITY_MODULE_COUNTERS] = {.name = "module_counters", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"module", EC_KIND_TEXT, EC_OF_TEXT, TEXT_MODULE},
        {"source", EC_KIND_INT, EC_OF_KEY, KEY_SOURCE}, {"source_name", EC_KIND_TEXT, EC_OF_TEXT, TEXT_COUNTER}, SUM("samples", SUM_COUNT), {"events", EC_KIND_INT, EC_OF_EVENTS, SUM_COUNTED}}},
    [EC_ACTIVITY_CODE_COUNTERS] = {.name = "code_counters", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"module", EC_KIND_TEXT, EC_OF_TEXT, TEXT_MODULE},
        {"offset", EC_KIND_HEX, EC_OF_KEY, KEY_OFFSET}, {"method", EC_KIND_TEXT, EC_OF_TEXT, TEXT_METHOD}, {"source", EC_KIND_INT, EC_OF_KEY, KEY_SOURCE}, {"source_name", EC_KIND_TEXT, EC_OF_TEXT, TEXT_COUNTER},
        SUM("samples", SUM_COUNT), {"events", EC_KIND_INT, EC_OF_EVENTS, SUM_COUNTED}}},
    [EC_ACTIVITY_COUNTER_PROBLEMS] = {.name = "counter_problems", .columns = {FIRST_COLUMNS, {"cpu", EC_KIND_INT, EC_OF_KEY, KEY_PROBLEM_CPU},
        {"problem", EC_KIND_TEXT, EC_OF_TEXT, TEXT_PROBLEM}, {"source", EC_KIND_INT, EC_OF_KEY, KEY_PROBLEM_SOURCE}, SUM("count", SUM_COUNT)}},
    [EC_ACTIVITY_INTERRUPTS] = {.name = "interrupt_times", .columns = {FIRST_COLUMNS, {"kind", EC_KIND_TEXT, EC_OF_TEXT, TEXT_INTERRUPT}, {"routine", EC_KIND_ADDRESS, EC_OF_KEY, KEY_ROUTINE},
        {"module", EC_KIND_TEXT, EC_OF_MODULE, KEY_ROUTINE}, {"cpu", EC_KIND_INT, EC_OF_KEY, KEY_CPU}, SUM("count", SUM_COUNT), SUM("ns", SUM_NS), SUM("max_ns", SUM_MAX_NS)}},
    [EC_ACTIVITY_DISK] = {.name = "disk_times", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"operation", EC_KIND_TEXT, EC_OF_TEXT, TEXT_OPERATION},
        {"disk", EC_KIND_INT, EC_OF_KEY, KEY_DISK}, {"file_object", EC_KIND_ADDRESS, EC_OF_KEY, KEY_FILE_OBJECT}, {"file", EC_KIND_TEXT, EC_OF_TEXT, TEXT_FILE},
        SUM("count", SUM_COUNT), SUM("ns", SUM_NS), SUM("max_ns", SUM_MAX_NS), SUM("bytes", SUM_BYTES)}},
    [EC_ACTIVITY_FILES] = {.name = "file_times", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"operation", EC_KIND_TEXT, EC_OF_TEXT, TEXT_OPERATION},
        {"file_object", EC_KIND_ADDRESS, EC_OF_KEY, KEY_FILE_OBJECT}, {"file", EC_KIND_TEXT, EC_OF_TEXT, TEXT_FILE},
        SUM("count", SUM_COUNT), SUM("ns", SUM_NS), SUM("max_ns", SUM_MAX_NS)}},
    [EC_ACTIVITY_FAULTS] = {.name = "fault_times", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS,
        {"file_object", EC_KIND_ADDRESS, EC_OF_KEY, KEY_FILE_OBJECT}, {"file", EC_KIND_TEXT, EC_OF_TEXT, TEXT_FILE},
        SUM("count", SUM_COUNT), SUM("ns", SUM_NS), SUM("max_ns", SUM_MAX_NS), SUM("bytes", SUM_BYTES)}},
    [EC_ACTIVITY_STACKS] = {.name = "stacks", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"tid", EC_KIND_INT, EC_OF_KEY, KEY_TID}, {"name", EC_KIND_TEXT, EC_OF_TEXT, TEXT_CLASS},
        {"hash", EC_KIND_HEX, EC_OF_KEY, KEY_STACK_HASH}, {"depth", EC_KIND_INT, EC_OF_KEY, KEY_STACK_DEPTH}, SUM("count", SUM_STACKS), {"first", EC_KIND_TIME, EC_OF_SUM, SUM_FIRST_UTC_NS},
        {"last", EC_KIND_TIME, EC_OF_SUM, SUM_LAST_UTC_NS}, {"frames", EC_KIND_TEXT, EC_OF_TEXT, TEXT_FRAMES}}},
    [EC_ACTIVITY_MISSED_STACKS] = {.name = "missed_stacks", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"tid", EC_KIND_INT, EC_OF_KEY, KEY_TID},
        {"time", EC_KIND_TIME, EC_OF_SUM, SUM_UTC_NS}, {"outcome", EC_KIND_TEXT, EC_OF_TEXT, TEXT_OUTCOME}, {"half", EC_KIND_TEXT, EC_OF_TEXT, TEXT_HALF},
        {"batch", EC_KIND_INT, EC_OF_KEY, KEY_BATCH}, {"position", EC_KIND_INT, EC_OF_KEY, KEY_POSITION}, SUM("halves", SUM_HALVES)}},
    [EC_ACTIVITY_CPU_USAGE] = {.name = "cpu_usage", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, BUCKET, SUM("samples", SUM_EVENTS)}, .has_buckets = 1},
    [EC_ACTIVITY_DISK_USAGE] = {.name = "disk_usage", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, BUCKET,
        SUM("reads", SUM_IN), SUM("read_bytes", SUM_IN_BYTES), SUM("writes", SUM_OUT), SUM("written_bytes", SUM_OUT_BYTES)}, .has_buckets = 1},
    [EC_ACTIVITY_FILE_USAGE] = {.name = "file_usage", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, BUCKET,
        SUM("reads", SUM_IN), SUM("read_bytes", SUM_IN_BYTES), SUM("writes", SUM_OUT), SUM("written_bytes", SUM_OUT_BYTES)}, .has_buckets = 1},
    [EC_ACTIVITY_NETWORK_USAGE] = {.name = "network_usage", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, BUCKET,
        SUM("receives", SUM_IN), SUM("received_bytes", SUM_IN_BYTES), SUM("sends", SUM_OUT), SUM("sent_bytes", SUM_OUT_BYTES)}, .has_buckets = 1},
};

/* wdm.h KWAIT_REASON */
static const char *const REASONS[] = {"Executive", "FreePage", "PageIn", "PoolAllocation", "DelayExecution", "Suspended",
    "UserRequest", "WrExecutive", "WrFreePage", "WrPageIn", "WrPoolAllocation", "WrDelayExecution", "WrSuspended",
    "WrUserRequest", "WrEventPair", "WrQueue", "WrLpcReceive", "WrLpcReply", "WrVirtualMemory", "WrPageOut", "WrRendezvous",
    "WrKeyedEvent", "WrTerminated", "WrProcessInSwap", "WrCpuRateControl", "WrCalloutStack", "WrKernel", "WrResource",
    "WrPushLock", "WrMutex", "WrQuantumEnd", "WrDispatchInt", "WrPreempted", "WrYieldExecution", "WrFastMutex",
    "WrGuardedMutex", "WrRundown", "WrAlertByThreadId", "WrDeferredPreempt", "WrPhysicalFault"};

/* What a transfer's bytes do: the sums are of reads and receives, then of writes and sends. */
static const char IN[] = "read", OUT[] = "write";

/* What of classes counts for which kind. */
enum what { SWITCH, COMPACT, READY, THREAD_BEGIN, THREAD_END, SAMPLE, INTERVAL, CORRUPTION, INTERRUPT, DISK_BEGIN, DISK_END, FILE_BEGIN, FILE_END, FAULT, CPU_SAMPLE, TRANSFER, LOST };
#define BIT(kind) (1u << EC_ACTIVITY_##kind)
#define DISK_KINDS (BIT(DISK) | BIT(DISK_USAGE))
#define SAMPLE_KINDS (BIT(COUNTER_SAMPLES) | BIT(MODULE_COUNTERS) | BIT(CODE_COUNTERS))
#define THREAD_KINDS (BIT(THREADS) | BIT(WAITS) | BIT(WAKES))
static const struct {
    const char *class_name;
    enum what what;
    uint32_t kinds;
    const char *text; /* what it is called in the table */
    const char *fields[EC_EVENT_CURSOR_FIELDS];
} CLASSES[] = {
    {"Thread/CSwitch", SWITCH, THREAD_KINDS | BIT(COUNTERS) | BIT(COUNTER_PROBLEMS), NULL, {"NewThreadId", "OldThreadId", "OldThreadState", "OldThreadWaitReason"}},
    {"Thread/CompCS", COMPACT, BIT(THREADS), NULL, {NULL}},
    {"Thread/ReadyThread", READY, THREAD_KINDS, NULL, {"TThreadId"}},
    {"Thread/Start", THREAD_BEGIN, THREAD_KINDS, NULL, {"TThreadId"}},
    {"Thread/End", THREAD_END, THREAD_KINDS, NULL, {"TThreadId"}},
    {"LostEvent/RTLostEvent", LOST, THREAD_KINDS | BIT(COUNTERS) | BIT(COUNTER_PROBLEMS), NULL, {NULL}},
    {"LostEvent/RTLostBuffer", LOST, THREAD_KINDS | BIT(COUNTERS) | BIT(COUNTER_PROBLEMS), NULL, {NULL}},
    {"LostEvent/RTLostFile", LOST, THREAD_KINDS | BIT(COUNTERS) | BIT(COUNTER_PROBLEMS), NULL, {NULL}},
    {"PerfInfo/PmcCounterProf", SAMPLE, SAMPLE_KINDS, NULL, {"ThreadId", "ProfileSource", "InstructionPointer"}},
    {"PerfInfo/SetInterval", INTERVAL, SAMPLE_KINDS, NULL, {"Source", "NewInterval", "SourceName"}},
    {"PerfInfo/CollectionStart", INTERVAL, SAMPLE_KINDS, NULL, {"Source", "NewInterval", "SourceName"}},
    {"PerfInfo/PmcCtrConrruption", CORRUPTION, BIT(COUNTER_PROBLEMS), "corruption", {"ProcessorNumber", "CounterStatus"}},
    {"PerfInfo/ISR", INTERRUPT, BIT(INTERRUPTS), "isr", {"InitialTime", "Routine"}},
    {"PerfInfo/ISR-MSI", INTERRUPT, BIT(INTERRUPTS), "isr", {"InitialTime", "Routine"}},
    {"PerfInfo/ISR-PASS", INTERRUPT, BIT(INTERRUPTS), "isr", {"InitialTime", "Routine"}},
    {"PerfInfo/DPC", INTERRUPT, BIT(INTERRUPTS), "dpc", {"InitialTime", "Routine"}},
    {"PerfInfo/TimerDPC", INTERRUPT, BIT(INTERRUPTS), "timer_dpc", {"InitialTime", "Routine"}},
    {"PerfInfo/ThreadedDPC", INTERRUPT, BIT(INTERRUPTS), "threaded_dpc", {"InitialTime", "Routine"}},
    {"PerfInfo/SampleProf", CPU_SAMPLE, BIT(CPU_USAGE), NULL, {"ThreadId"}},
    {"DiskIo/ReadInit", DISK_BEGIN, DISK_KINDS, NULL, {"Irp", "IssuingThreadId"}},
    {"DiskIo/WriteInit", DISK_BEGIN, DISK_KINDS, NULL, {"Irp", "IssuingThreadId"}},
    {"DiskIo/FlushInit", DISK_BEGIN, BIT(DISK), NULL, {"Irp", "IssuingThreadId"}},
    {"DiskIo/Read", DISK_END, DISK_KINDS, "read", {"Irp", "HighResResponseTime", "FileObject", "TransferSize", "DiskNumber", "IssuingThreadId"}},
    {"DiskIo/Write", DISK_END, DISK_KINDS, "write", {"Irp", "HighResResponseTime", "FileObject", "TransferSize", "DiskNumber", "IssuingThreadId"}},
    {"DiskIo/FlushBuffers", DISK_END, BIT(DISK), "flush", {"Irp", "HighResResponseTime", "", "", "DiskNumber", "IssuingThreadId"}},
    {"FileIo/Create", FILE_BEGIN, BIT(FILES), "create", {"IrpPtr", "FileObject"}},
    {"FileIo/Cleanup", FILE_BEGIN, BIT(FILES), "cleanup", {"IrpPtr", "FileObject"}},
    {"FileIo/Close", FILE_BEGIN, BIT(FILES), "close", {"IrpPtr", "FileObject"}},
    {"FileIo/Read", FILE_BEGIN, BIT(FILES), "read", {"IrpPtr", "FileObject"}},
    {"FileIo/Write", FILE_BEGIN, BIT(FILES), "write", {"IrpPtr", "FileObject"}},
    {"FileIo/SetInfo", FILE_BEGIN, BIT(FILES), "set_info", {"IrpPtr", "FileObject"}},
    {"FileIo/Delete", FILE_BEGIN, BIT(FILES), "delete", {"IrpPtr", "FileObject"}},
    {"FileIo/Rename", FILE_BEGIN, BIT(FILES), "rename", {"IrpPtr", "FileObject"}},
    {"FileIo/DirEnum", FILE_BEGIN, BIT(FILES), "dir_enum", {"IrpPtr", "FileObject"}},
    {"FileIo/Flush", FILE_BEGIN, BIT(FILES), "flush", {"IrpPtr", "FileObject"}},
    {"FileIo/QueryInfo", FILE_BEGIN, BIT(FILES), "query_info", {"IrpPtr", "FileObject"}},
    {"FileIo/FSControl", FILE_BEGIN, BIT(FILES), "fs_control", {"IrpPtr", "FileObject"}},
    {"FileIo/Read", TRANSFER, BIT(FILE_USAGE), IN, {"IoSize", "TTID"}},
    {"FileIo/Write", TRANSFER, BIT(FILE_USAGE), OUT, {"IoSize", "TTID"}},
    {"TcpIp/RecvIPV4", TRANSFER, BIT(NETWORK_USAGE), IN, {"size", "", "PID"}},
    {"TcpIp/SendIPV4", TRANSFER, BIT(NETWORK_USAGE), OUT, {"size", "", "PID"}},
    {"TcpIp/RecvIPV6", TRANSFER, BIT(NETWORK_USAGE), IN, {"size", "", "PID"}},
    {"TcpIp/SendIPV6", TRANSFER, BIT(NETWORK_USAGE), OUT, {"size", "", "PID"}},
    {"TcpIp/Recv", TRANSFER, BIT(NETWORK_USAGE), IN, {"size", "", "PID"}},
    {"TcpIp/Send", TRANSFER, BIT(NETWORK_USAGE), OUT, {"size", "", "PID"}},
    {"UdpIp/RecvIPV4", TRANSFER, BIT(NETWORK_USAGE), IN, {"size", "", "PID"}},
    {"UdpIp/SendIPV4", TRANSFER, BIT(NETWORK_USAGE), OUT, {"size", "", "PID"}},
    {"UdpIp/RecvIPV6", TRANSFER, BIT(NETWORK_USAGE), IN, {"size", "", "PID"}},
    {"UdpIp/SendIPV6", TRANSFER, BIT(NETWORK_USAGE), OUT, {"size", "", "PID"}},
    {"UdpIp/Recv", TRANSFER, BIT(NETWORK_USAGE), IN, {"size", "", "PID"}},
    {"UdpIp/Send", TRANSFER, BIT(NETWORK_USAGE), OUT, {"size", "", "PID"}},
    {"FileIo/OperationEnd", FILE_END, BIT(FILES), NULL, {"IrpPtr"}},
    {"PageFault/HardFault", FAULT, BIT(FAULTS), NULL, {"InitialTime", "FileObject", "TThreadId", "ByteCount"}},
};

// clang-format on

typedef struct plan {
    ec_event_cursor_plan tape; /* first */
    uint8_t what;
    const char *text;
} plan;

typedef struct row_key {
    uint64_t key[EC_ACTIVITY_KEYS];
    const char *text[3];  /* interned: equal texts have equal addresses */
    const char *image[2]; /* of the processes that it is about */
    int64_t process[2];   /* their instances: ec_address_space_process_key */
    int64_t bucket;       /* INT64_MIN: none */
    const ec_archive_stream *stream;
} row_key;

typedef struct row {
    row_key k;
    const char *module;
    uint64_t sum[EC_ACTIVITY_SUMS];
} row;

/* A request on its way. */
typedef struct request {
    int64_t time;
    uint64_t file_object;
    uint32_t tid, pid;
    const char *operation;
} request;

typedef struct cpu_counters {
    uint64_t last[EC_COUNTERS_MAX];
    const ec_counter_config *config; /* that last is of */
    int64_t since;                   /* its last compact switch; INT64_MIN: unknown */
    uint32_t tid;
    uint8_t count;
} cpu_counters;

struct ec_activity {
    enum ec_activity_kind kind;
    ec_archive *archive;
    ea_arena arena;
    ea_bytes_map texts, index;
    row *rows;
    size_t count, capacity;
    uint32_t *by_hash; /* rows by the hash column, then by number; NULL: not requested */
    int64_t from_utc_ns, to_utc_ns, every_ns;
    ea_bytes_map kernel_network; /* runs, as host and id, of which TcpIp or UdpIp events were met */
    /* of a stream */
    const ec_archive_stream *stream;
    ec_address_space *places;
    ec_sched *sched;
    ec_event_cursor *tape;
    ea_clock clock;                /* of the last event */
    int64_t last_utc_ns;           /* of the last event */
    ea_cswitch_expander *expander; /* of compact switches; NULL: there was none yet */
    ea_u64_map by_irp;             /* -> index of a request */
    request *requests;
    uint32_t *unused; /* requests that have ended */
    size_t request_count, request_capacity, unused_count, unused_capacity;
    cpu_counters *cpus;
    ec_counter_names *names;                    /* of the counters on switches; NULL: the table is not about them */
    ec_methods *methods;                        /* NULL: the table is not about code */
    const ec_counter_config *config;            /* whose names counter_texts are */
    const char *counter_texts[EC_COUNTERS_MAX]; /* interned; NULL: it has none */
    ea_u64_map intervals;                       /* source -> interval */
    ea_u64_map source_names;                    /* source -> text */
    ea_text scratch;
    int is_short; /* there was no memory for a text: rows lack it */
};

const ec_activity_table *ec_activity_table_of(enum ec_activity_kind kind) {
    return &TABLES[kind];
}

int ec_activity_hash_column(enum ec_activity_kind kind) {
    for (int i = 0; kind == EC_ACTIVITY_STACKS && TABLES[kind].columns[i].name; i++)
        if (TABLES[kind].columns[i].kind == EC_KIND_HEX)
            return i;
    return -1;
}

static const char *keep(ec_activity *a, const char *text, size_t len_bytes) {
    const char *known = ea_bytes_map_get(&a->texts, text, len_bytes);
    if (known)
        return known;
    char *copy = ea_arena_alloc(&a->arena, len_bytes + 1);
    if (copy) {
        memcpy(copy, text, len_bytes);
        copy[len_bytes] = 0;
        copy = ea_bytes_map_put(&a->texts, copy, len_bytes, copy) ? NULL : copy;
    }
    a->is_short |= !copy;
    return copy;
}

/* The row of a key, which is made when it is new. */
static int find_row(ec_activity *a, row_key *k, row **ret) {
    k->stream = a->stream;
    const void *known = ea_bytes_map_get(&a->index, k, sizeof *k);
    if (known) {
        *ret = &a->rows[(uintptr_t)known - 1];
        return 0;
    }
    int rc = EA_GROW(a->rows, a->capacity, a->count + 1, ROWS_MAX);
    if (rc)
        return rc;
    const void *copy = ea_arena_copy(&a->arena, k, sizeof *k);
    if (!copy || ea_bytes_map_put(&a->index, copy, sizeof *k, (void *)(uintptr_t)(a->count + 1)))
        return EA_ENOMEM;
    a->rows[a->count] = (row){.k = *k};
    *ret = &a->rows[a->count++];
    return 0;
}

/* The process that had a pid at a time: its instance and image, as the first or second one that a row is about. */
static void put_process(ec_activity *a, row_key *k, unsigned which, uint32_t pid, int64_t utc_ns) {
    uint32_t at = ec_address_space_process(a->places, pid, utc_ns);
    const ea_process *p = ec_address_space_get_process(a->places, at);
    const char *name = p ? ec_base_name(p->image_name) : "";
    k->image[which] = keep(a, name, strlen(name));
    k->process[which] = ec_address_space_process_key(a->places, at);
}

static const char *file_of(ec_activity *a, uint64_t file_object, int64_t utc_ns) {
    ea_resolver resolver;
    ea_text_clear(&a->scratch);
    int rc = file_object ? ec_archive_names(a->archive, a->stream, &resolver, NULL) : 0;
    a->is_short |= rc == EA_ENOMEM;
    if (rc != 1 || !resolver.number(resolver.arg, EA_SEM_FILE_OBJECT, file_object, utc_ns, &a->scratch))
        return NULL;
    a->is_short |= a->scratch.failed;
    return keep(a, a->scratch.data ? a->scratch.data : "", a->scratch.len_bytes);
}

static uint32_t pid_of(ec_activity *a, uint32_t tid, int64_t utc_ns) {
    return ec_address_space_pid_of_thread(a->places, tid, utc_ns);
}

static int is_in_range(const ec_activity *a, int64_t utc_ns) {
    return utc_ns >= a->from_utc_ns && utc_ns < a->to_utc_ns;
}

/* One more of a key: count, ns, the longest, bytes. */
static int add_latency(ec_activity *a, row_key *k, uint64_t ns, uint64_t bytes) {
    row *r = NULL;
    int rc = find_row(a, k, &r);
    if (rc)
        return rc;
    r->sum[SUM_COUNT]++;
    r->sum[SUM_NS] += ns;
    if (ns > r->sum[SUM_MAX_NS])
        r->sum[SUM_MAX_NS] = ns;
    r->sum[SUM_BYTES] += bytes;
    return 0;
}

static uint64_t span_ns(const ec_activity *a, int64_t begin_raw, int64_t end_raw) {
    int64_t begin = ea_clock_to_utc_ns(ec_event_cursor_clock(a->tape), begin_raw);
    int64_t end = ea_clock_to_utc_ns(ec_event_cursor_clock(a->tape), end_raw);
    return end > begin ? (uint64_t)(end - begin) : 0;
}

/* ---- threads ---- */

/* What CPUs did until now is not known any more. */
static void forget_cpus(ec_activity *a) {
    for (size_t i = 0; i < CPUS_MAX; i++) {
        a->cpus[i].count = 0;
        a->cpus[i].since = INT64_MIN;
    }
    ea_cswitch_expander_destroy(a->expander);
    a->expander = NULL;
}

/* The part of a time that is inside the range: 1, *begin, which becomes its beginning, and *ret_ns; 0 when there is
 * none. */
static int clip(const ec_activity *a, int64_t *begin, int64_t end, uint64_t *ret_ns) {
    if (end < a->from_utc_ns || *begin >= a->to_utc_ns)
        return 0;
    if (*begin < a->from_utc_ns)
        *begin = a->from_utc_ns;
    if (end > a->to_utc_ns)
        end = a->to_utc_ns;
    *ret_ns = end > *begin ? (uint64_t)(end - *begin) : 0;
    return end >= *begin;
}

static int add_stretch(ec_activity *a, const ec_sched_slice *s, const ea_clock *clock) {
    int64_t begin = ea_clock_to_utc_ns(clock, s->begin), at = ea_clock_to_utc_ns(clock, s->end);
    uint64_t ns;
    if (!clip(a, &begin, at, &ns))
        return 0;
    uint32_t pid = pid_of(a, s->tid, begin);
    row_key k = {.key = {[KEY_PID] = pid, [KEY_TID] = s->tid}};
    row *r = NULL;
    int rc = 0;
    put_process(a, &k, 0, pid, begin);
    if (a->kind == EC_ACTIVITY_THREADS) {
        rc = find_row(a, &k, &r);
        if (!rc)
            r->sum[SUM_RUNNING_NS + s->state - EC_SCHED_RUNNING] += ns;
    } else if (s->state == EC_SCHED_WAITING && a->kind == EC_ACTIVITY_WAITS) {
        k.key[KEY_REASON] = s->reason;
        rc = add_latency(a, &k, ns, 0);
    } else if (s->state == EC_SCHED_WAITING && a->kind == EC_ACTIVITY_WAKES && s->waker != UINT32_MAX &&
               is_in_range(a, at)) {
        uint32_t waker_pid = pid_of(a, s->waker, at);
        k = (row_key){.key = {[KEY_WAKER_PID] = waker_pid,
                              [KEY_WAKER_TID] = s->waker,
                              [KEY_WOKEN_PID] = pid,
                              [KEY_WOKEN_TID] = s->tid}};
        put_process(a, &k, 0, waker_pid, at);
        put_process(a, &k, 1, pid, begin);
        rc = add_latency(a, &k, ns, 0);
    }
    return rc;
}

static int add_stretches(ec_activity *a, const ec_sched_slice *s, size_t n) {
    int rc = 0;
    for (size_t i = 0; !rc && i < n; i++)
        rc = add_stretch(a, &s[i], ec_event_cursor_clock(a->tape));
    return rc;
}

/* Adds a slice whose end was not recorded, as far as the thread is known to have continued. */
static int add_unfinished(ec_activity *a, const ec_sched_slice *s, int64_t until_utc_ns) {
    int64_t begin = ea_clock_to_utc_ns(&a->clock, s->begin);
    int is_wait = a->kind == EC_ACTIVITY_WAITS && s->state == EC_SCHED_WAITING;
    uint64_t ns;
    row *r = NULL;
    if ((a->kind != EC_ACTIVITY_THREADS && !is_wait) || !clip(a, &begin, until_utc_ns, &ns) || !ns)
        return 0;
    uint32_t pid = pid_of(a, s->tid, begin);
    row_key k = {.key = {[KEY_PID] = pid, [KEY_TID] = s->tid, [KEY_REASON] = is_wait ? s->reason : 0}};
    put_process(a, &k, 0, pid, begin);
    int rc = find_row(a, &k, &r);
    if (!rc)
        r->sum[is_wait ? SUM_UNFINISHED_NS : SUM_UNFINISHED_RUNNING_NS + s->state - EC_SCHED_RUNNING] += ns;
    return rc;
}

/* Nothing is known of any thread, or CPU, from then on. */
static int know_nothing(ec_activity *a, int64_t until_utc_ns) {
    ec_sched_slice s;
    int rc = 0;
    for (size_t cursor = 0; !rc && ec_sched_next_open(a->sched, &cursor, &s);)
        rc = add_unfinished(a, &s, until_utc_ns);
    ec_sched_lost(a->sched);
    forget_cpus(a);
    return rc;
}

/* Every switch counts for the thread that begins to run, every wait for the thread that begins to wait. */
static int count_switch(ec_activity *a, uint32_t tid, enum sum_of_threads sum, int64_t utc_ns) {
    row *r = NULL;
    if (!tid || a->kind != EC_ACTIVITY_THREADS || !is_in_range(a, utc_ns))
        return 0;
    uint32_t pid = pid_of(a, tid, utc_ns);
    row_key k = {.key = {[KEY_PID] = pid, [KEY_TID] = tid}};
    put_process(a, &k, 0, pid, utc_ns);
    int rc = find_row(a, &k, &r);
    if (!rc)
        r->sum[sum]++;
    return rc;
}

static int add_problem(ec_activity *a, uint64_t cpu, uint64_t source, const char *what) {
    row_key k = {.key = {[KEY_PROBLEM_CPU] = cpu, [KEY_PROBLEM_SOURCE] = source},
                 .text = {[TEXT_PROBLEM] = keep(a, what, strlen(what))}};
    return a->kind == EC_ACTIVITY_COUNTER_PROBLEMS ? add_latency(a, &k, 0, 0) : 0;
}

/* Windows says of counters that they are wrong: of each its source and when it was last right. */
static int on_corruption(ec_activity *a, const ec_event_cursor_event *e, const char *what) {
    enum { STATUS_BYTES = 12 };

    uint64_t cpu = ec_event_cursor_u64_or_0(a->tape, e, 0);
    ea_slice list = ec_event_cursor_bytes(a->tape, e, 1);
    int rc = 0;
    for (size_t i = 0; !rc && i + STATUS_BYTES <= list.len_bytes; i += STATUS_BYTES)
        rc = add_problem(a, cpu, ea_load32(list.data + i), what);
    return rc;
}

/* Interns the names of a configuration: once, not for each event that has them. */
static int use_config(ec_activity *a, const ec_counter_config *config) {
    for (uint32_t i = 0; i < EC_COUNTERS_MAX; i++) {
        const char *name = config && i < config->name_count ? config->names[i] : "";
        a->counter_texts[i] = *name ? keep(a, name, strlen(name)) : NULL;
        if (*name && !a->counter_texts[i])
            return EA_ENOMEM;
    }
    a->config = config;
    return 0;
}

static int add_counted(ec_activity *a, row_key *k, uint64_t value) {
    row *r = NULL;
    int rc = find_row(a, k, &r);
    if (!rc) {
        r->sum[SUM_EVENTS]++;
        r->sum[SUM_VALUE] += value;
    }
    return rc;
}

/* Why nothing is known of what counters counted since the CPU's last switch; NULL: it is. n: how many are on this one.
 */
static const char *gap_of(const cpu_counters *c, const ec_counter_config *config, size_t n, uint32_t old_tid) {
    if (!n)
        return "a switch without counters";
    if (c->config != config)
        return "other counters from here on";
    if (c->count != n)
        return "another number of counters";
    return c->tid != old_tid ? "a switch is missing" : NULL;
}

/* Counters on a switch: what they counted since the CPU's last switch is the old thread's. */
static int count_counters(ec_activity *a, const ec_event_cursor_event *e, uint32_t old_tid, uint32_t new_tid,
                          int64_t utc_ns) {
    ea_ext item;
    unsigned i = 0;
    int rc = 0, has_item, is_inside = is_in_range(a, utc_ns);
    while ((has_item = ec_event_cursor_item(a->tape, e, i, &item)) && item.type != EA_EXT_PMC_COUNTERS)
        i++;
    if (e->cpu >= CPUS_MAX)
        return 0;
    size_t n = !has_item ? 0 : item.size_bytes / 8 < EC_COUNTERS_MAX ? item.size_bytes / 8 : EC_COUNTERS_MAX;
    const ec_counter_config *config = ec_counter_names_at(a->names, ec_event_position(a->tape));
    int is_named = config && config->count == n;
    if (config != a->config)
        rc = use_config(a, config);
    cpu_counters *c = &a->cpus[e->cpu];
    const char *gap = c->count ? gap_of(c, config, n, old_tid) : NULL;
    if (!rc && gap && is_inside)
        rc = add_problem(a, e->cpu, UINT32_MAX, gap);
    if (!rc && is_inside && n && config && config->count && config->count != n)
        rc = add_problem(a, e->cpu, UINT32_MAX, "not the counters that were configured");
    int is_known = c->count && !gap, is_counted = is_known && a->kind == EC_ACTIVITY_COUNTERS && is_inside;
    uint32_t pid = is_counted ? pid_of(a, old_tid, utc_ns) : 0;
    row_key of = {.key = {[KEY_PID] = pid, [KEY_TID] = old_tid}};
    if (is_counted)
        put_process(a, &of, 0, pid, utc_ns);
    for (size_t k = 0; !rc && k < n; k++) {
        uint64_t now = ea_load64(item.data + 8 * k);
        if (is_known && is_inside && now < c->last[k])
            rc = add_problem(a, e->cpu, k, "a counter went backwards");
        else if (is_counted) {
            of.key[KEY_NUMBER] = k;
            of.text[TEXT_COUNTER] = is_named ? a->counter_texts[k] : NULL;
            rc = add_counted(a, &of, now - c->last[k]);
        }
        c->last[k] = now;
    }
    c->count = (uint8_t)n;
    c->tid = new_tid;
    c->config = config;
    return rc;
}

static int on_switch(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    enum { NEW, OLD, STATE, REASON, WAITING = 5 };

    ec_sched_slice stretches[3];
    uint64_t new_tid, old_tid, state, reason = ec_event_cursor_u64_or_0(a->tape, e, REASON);
    if (!ec_event_cursor_u64(a->tape, e, NEW, &new_tid) || !ec_event_cursor_u64(a->tape, e, OLD, &old_tid) ||
        !ec_event_cursor_u64(a->tape, e, STATE, &state))
        return 0;
    if (a->kind == EC_ACTIVITY_COUNTERS || a->kind == EC_ACTIVITY_COUNTER_PROBLEMS)
        return count_counters(a, e, (uint32_t)old_tid, (uint32_t)new_tid, utc_ns);
    size_t n = ec_sched_switch(a->sched, e->time, e->cpu, (uint32_t)old_tid, (uint8_t)state, (uint8_t)reason,
                               (uint32_t)new_tid, stretches);
    int rc = add_stretches(a, stretches, n);
    if (!rc)
        rc = count_switch(a, (uint32_t)new_tid, SUM_SWITCHES, utc_ns);
    return rc || state != WAITING ? rc : count_switch(a, (uint32_t)old_tid, SUM_WAITS, utc_ns);
}

/* A compact switch says who ran since the CPU's last one, and nothing that is known of what the thread does next. */
static int on_compact_switch(void *arg, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    enum { OLD_AT = 1, NEW_AT = 11, WHOLE_BYTES = 15 }; /* rows/thread.c, Thread/CompactCSwitch */

    ec_activity *a = arg;
    (void)c;
    if (record->cpu >= CPUS_MAX)
        return 0;
    cpu_counters *cpu = &a->cpus[record->cpu];
    uint32_t old_tid = ea_load32(record->payload + OLD_AT);
    int64_t since = cpu->since;
    int rc = 0;
    cpu->since = record->time_raw;
    if (old_tid && since != INT64_MIN && since <= record->time_raw)
        rc = add_stretch(a,
                         &(ec_sched_slice){.tid = old_tid,
                                           .state = EC_SCHED_RUNNING,
                                           .cpu = record->cpu,
                                           .begin = since,
                                           .end = record->time_raw,
                                           .waker = UINT32_MAX},
                         clock);
    return rc || record->payload_bytes < WHOLE_BYTES
               ? rc
               : count_switch(a, ea_load32(record->payload + NEW_AT), SUM_SWITCHES,
                              ea_clock_to_utc_ns(clock, record->time_raw));
}

static int on_compact_switches(ec_activity *a, const ec_event_cursor_event *e) {
    ea_record record;
    int rc = a->expander ? 0 : ea_cswitch_expander_create(&a->expander, NULL);
    ec_event_cursor_record(a->tape, e, &record);
    return rc ? rc
              : ea_cswitch_expand(a->expander, &record, e->c, ec_event_cursor_clock(a->tape), on_compact_switch, a,
                                  NULL);
}

/* The waker of a wake by an interrupt or a DPC is the interrupted thread, as everywhere. */
static int on_ready(ec_activity *a, const ec_event_cursor_event *e) {
    ec_sched_slice stretches[3];
    uint32_t waker = e->tid != UINT32_MAX ? e->tid : ec_sched_running(a->sched, e->cpu);
    size_t n = ec_sched_ready(a->sched, e->time, (uint32_t)ec_event_cursor_u64_or_0(a->tape, e, 0), waker, stretches);
    return add_stretches(a, stretches, n);
}

/* ---- samples of counters ---- */

static int on_interval(ec_activity *a, const ec_event_cursor_event *e) {
    uint64_t source = ec_event_cursor_u64_or_0(a->tape, e, 0);
    ea_slice name = ec_event_cursor_bytes(a->tape, e, 2);
    int rc = ea_u64_map_put(&a->intervals, source, ec_event_cursor_u64_or_0(a->tape, e, 1));
    if (rc || !name.data)
        return rc == EA_ELIMIT ? 0 : rc;
    size_t n = 0;
    while (n + 1 < name.len_bytes && ea_load16(name.data + n))
        n += 2;
    ea_text_clear(&a->scratch);
    ea_text_utf16(&a->scratch, name.data, n);
    const char *text = keep(a, a->scratch.data ? a->scratch.data : "", a->scratch.len_bytes);
    rc = text ? ea_u64_map_put(&a->source_names, source, (uintptr_t)text) : EA_ENOMEM;
    return rc == EA_ELIMIT ? 0 : rc;
}

/* NULL: no memory. */
static const char *module_name(ec_activity *a, const ea_module *m, int is_unloaded) {
    char marked[1024];
    const char *name = ec_base_name(m->path);
    if (is_unloaded)
        name = ec_unloaded_name(name, marked, sizeof marked);
    return keep(a, name, strlen(name));
}

/* The file that an address was in; NULL: in none that is known. *ret_offset: from the module's base; without one the
 * address. */
static const char *module_of(ec_activity *a, uint32_t pid, uint64_t address, unsigned pointer_size, int64_t utc_ns,
                             uint64_t *ret_offset) {
    uint32_t process = ec_address_space_process(a->places, pid, utc_ns);
    int unloaded, is_kernel = ea_stack_is_kernel(address, pointer_size);
    const ea_module *m = ec_address_space_module(a->places, process, ec_address_space_epoch(a->places, process, utc_ns),
                                                 address, is_kernel, &unloaded);
    *ret_offset = m ? address - m->base : address;
    return m ? module_name(a, m, unloaded) : NULL;
}

/* The .NET method that an address was in; NULL: in none that is known. */
static const char *method_of(ec_activity *a, uint32_t pid, uint64_t address, int64_t utc_ns) {
    const ec_method *m = ec_methods_find(a->methods, pid, address, utc_ns);
    const ea_process *p =
        m ? ec_address_space_get_process(a->places, ec_address_space_process(a->places, pid, utc_ns)) : NULL;
    if (!p || (m->begin_utc_ns != INT64_MIN && m->begin_utc_ns < p->life.begin_utc_ns))
        return NULL; /* of a process that had this number before */
    return keep(a, m->name, strlen(m->name));
}

static int on_sample(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    uint32_t tid = (uint32_t)ec_event_cursor_u64_or_0(a->tape, e, 0), pid = pid_of(a, tid, utc_ns);
    uint64_t source = ec_event_cursor_u64_or_0(a->tape, e, 1);
    const uint64_t *interval = ea_u64_map_get(&a->intervals, source), *name = ea_u64_map_get(&a->source_names, source);
    row_key k = {
        .key = {[KEY_PID] = pid, [KEY_TID] = tid, [KEY_SOURCE] = source, [KEY_INTERVAL] = interval ? *interval : 0}};
    put_process(a, &k, 0, pid, utc_ns);
    int16_t top = -1;
    for (size_t i = 0; i < ea_class_top_count(e->c); i++)
        if (strcmp(e->c->fields[ea_class_top_field(e->c, i)].name, "ProfileSource") == 0)
            top = (int16_t)i;
    const ea_enum *map = top >= 0 ? e->c->fields[ea_class_top_field(e->c, (size_t)top)].map : NULL;
    for (size_t i = 0; map && i < map->count; i++)
        if (map->entries[i].value == source)
            k.text[TEXT_COUNTER] = keep(a, map->entries[i].name, strlen(map->entries[i].name));
    if (name)
        memcpy(&k.text[TEXT_COUNTER], name, sizeof k.text[TEXT_COUNTER]);
    if (a->kind != EC_ACTIVITY_COUNTER_SAMPLES) {
        uint64_t offset = 0, address = ec_event_cursor_u64_or_0(a->tape, e, 2);
        k.text[TEXT_MODULE] = module_of(a, pid, address, e->c->pointer_size, utc_ns, &offset);
        if (a->kind == EC_ACTIVITY_CODE_COUNTERS && !ea_stack_is_kernel(address, e->c->pointer_size))
            k.text[TEXT_METHOD] = method_of(a, pid, address, utc_ns);
        k.key[KEY_OFFSET] = a->kind == EC_ACTIVITY_CODE_COUNTERS ? offset : 0;
        k.key[KEY_HAS_NO_INTERVAL] =
            !interval || !*interval; /* samples whose events are unknown are rows of their own */
    }
    return is_in_range(a, utc_ns) ? add_latency(a, &k, interval ? *interval : 0, 0) : 0;
}

/* ---- what processes use ---- */

/* The beginning of the bucket that a time is in. */
static int64_t bucket_of(const ec_activity *a, int64_t utc_ns) {
    if (!a->every_ns)
        return INT64_MIN;
    int64_t rest = utc_ns % a->every_ns;
    if (rest < 0)
        rest += a->every_ns;
    return utc_ns < INT64_MIN + 1 + rest ? INT64_MIN + 1 : utc_ns - rest;
}

static int on_cpu_sample(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    if (!is_in_range(a, utc_ns))
        return 0;
    uint32_t pid = pid_of(a, (uint32_t)ec_event_cursor_u64_or_0(a->tape, e, 0), utc_ns);
    row_key k = {.key = {[KEY_PID] = pid}, .bucket = bucket_of(a, utc_ns)};
    put_process(a, &k, 0, pid, utc_ns);
    return add_counted(a, &k, 0);
}

/* direction: IN or OUT. is_manifest: the event is of Microsoft-Windows-Kernel-Network, which logs the same bytes as the
 * kernel logger's TcpIp and UdpIp. */
static int add_transfer(ec_activity *a, uint32_t pid, int64_t utc_ns, const char *direction, uint64_t bytes,
                        int is_manifest) {
    row *r = NULL;
    row_key k = {.key = {[KEY_PID] = pid, [KEY_IS_MANIFEST] = is_manifest != 0}, .bucket = bucket_of(a, utc_ns)};
    put_process(a, &k, 0, pid, utc_ns);
    int rc = find_row(a, &k, &r), at = *direction == *OUT ? SUM_OUT : SUM_IN;
    if (rc)
        return rc;
    r->sum[at]++;
    r->sum[at + SUM_IN_BYTES - SUM_IN] += bytes;
    return 0;
}

enum { RUN_KEY_MAX = 256 + EA_STREAM_RUN_BYTES };

/* A run of an agent, as bytes: how many. */
static size_t run_key(const ec_archive_stream *s, char *to) {
    size_t n = strlen(s->row.host);
    n = n < RUN_KEY_MAX - EA_STREAM_RUN_BYTES ? n : RUN_KEY_MAX - EA_STREAM_RUN_BYTES;
    memcpy(to, s->row.stream, EA_STREAM_RUN_BYTES);
    memcpy(to + EA_STREAM_RUN_BYTES, s->row.host, n);
    return n + EA_STREAM_RUN_BYTES;
}

static int note_kernel_network(ec_activity *a) {
    char key[RUN_KEY_MAX];
    size_t n = run_key(a->stream, key);
    if (ea_bytes_map_get(&a->kernel_network, key, n))
        return 0;
    const char *copy = ea_arena_copy(&a->arena, key, n);
    return copy ? ea_bytes_map_put(&a->kernel_network, copy, n, (void *)(uintptr_t)1) : EA_ENOMEM;
}

/* Where both were recorded in one run, what the manifest's provider said is left out. */
static void drop_doubles(ec_activity *a) {
    size_t kept = 0;
    for (size_t i = 0; i < a->count; i++) {
        char key[RUN_KEY_MAX];
        size_t n = run_key(a->rows[i].k.stream, key);
        if (!a->rows[i].k.key[KEY_IS_MANIFEST] || !ea_bytes_map_get(&a->kernel_network, key, n))
            a->rows[kept++] = a->rows[i];
    }
    a->count = kept;
}

static int on_transfer(ec_activity *a, const ec_event_cursor_event *e, const plan *p, int64_t utc_ns) {
    enum { SIZE, TID, PID };

    uint64_t pid = e->pid, tid = e->tid;
    if (!is_in_range(a, utc_ns))
        return 0;
    (void)ec_event_cursor_u64(a->tape, e, TID, &tid);
    if (!ec_event_cursor_u64(a->tape, e, PID, &pid) && pid == UINT32_MAX)
        pid = pid_of(a, (uint32_t)tid, utc_ns);
    int is_manifest = a->kind == EC_ACTIVITY_NETWORK_USAGE && !e->c->classic;
    int rc = a->kind == EC_ACTIVITY_NETWORK_USAGE && !is_manifest ? note_kernel_network(a) : 0;
    return rc ? rc
              : add_transfer(a, (uint32_t)pid, utc_ns, p->text, ec_event_cursor_u64_or_0(a->tape, e, SIZE),
                             is_manifest);
}

/* ---- requests ---- */

/* A request begins; one that still has its IRP never ended. */
static int begin_request(ec_activity *a, uint64_t irp, const request *q) {
    const uint64_t *known = ea_u64_map_get(&a->by_irp, irp);
    size_t at = known ? (size_t)*known : a->unused_count ? a->unused[--a->unused_count] : a->request_count;
    int rc = EA_GROW(a->requests, a->request_capacity, at + 1, IRPS_MAX);
    if (rc)
        return rc;
    if (at == a->request_count)
        a->request_count++;
    a->requests[at] = *q;
    return known ? 0 : ea_u64_map_put(&a->by_irp, irp, at);
}

/* Those on their way have ended unseen. */
static void forget_requests(ec_activity *a) {
    ea_u64_map_clear(&a->by_irp);
    a->request_count = a->unused_count = 0;
}

/* Its end: 1 and *ret. */
static int end_request(ec_activity *a, uint64_t irp, request *ret) {
    const uint64_t *known = ea_u64_map_get(&a->by_irp, irp);
    if (!known)
        return 0;
    size_t at = (size_t)*known;
    *ret = a->requests[at];
    ea_u64_map_remove(&a->by_irp, irp);
    if (!EA_GROW(a->unused, a->unused_capacity, a->unused_count + 1, SIZE_MAX)) /* else its place stays unused */
        a->unused[a->unused_count++] = (uint32_t)at;
    return 1;
}

static int on_disk_end(ec_activity *a, const ec_event_cursor_event *e, const plan *p, int64_t utc_ns) {
    enum { IRP, RESPONSE, FILE_OBJECT, SIZE, DISK, TID };

    request q = {.tid = UINT32_MAX, .pid = UINT32_MAX};
    uint64_t tid;
    int is_known = end_request(a, ec_event_cursor_u64_or_0(a->tape, e, IRP), &q);
    if (ec_event_cursor_u64(a->tape, e, TID, &tid))
        q.tid = (uint32_t)tid;
    if (!is_in_range(a, utc_ns))
        return 0;
    /* whose thread it is decides: an IRP is used again, and a begin may be lost or belong to another request */
    uint32_t pid = pid_of(a, q.tid, utc_ns);
    if (pid == UINT32_MAX && is_known)
        pid = q.pid;
    if (a->kind == EC_ACTIVITY_DISK_USAGE)
        return add_transfer(a, pid, utc_ns, p->text, ec_event_cursor_u64_or_0(a->tape, e, SIZE), 0);
    uint64_t ticks = ec_event_cursor_u64_or_0(a->tape, e, RESPONSE),
             file_object = ec_event_cursor_u64_or_0(a->tape, e, FILE_OBJECT);
    row_key k = {
        .key =
            {[KEY_PID] = pid, [KEY_DISK] = ec_event_cursor_u64_or_0(a->tape, e, DISK), [KEY_FILE_OBJECT] = file_object},
        .text = {[TEXT_OPERATION] = p->text, [TEXT_FILE] = file_of(a, file_object, utc_ns)}};
    put_process(a, &k, 0, pid, utc_ns);
    return add_latency(a, &k, span_ns(a, e->time - (int64_t)(ticks & INT64_MAX), e->time),
                       ec_event_cursor_u64_or_0(a->tape, e, SIZE));
}

static int on_file_end(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    request q;
    if (!end_request(a, ec_event_cursor_u64_or_0(a->tape, e, 0), &q) || !is_in_range(a, utc_ns))
        return 0;
    int64_t begin = ea_clock_to_utc_ns(ec_event_cursor_clock(a->tape), q.time);
    uint32_t pid = q.pid != UINT32_MAX ? q.pid : pid_of(a, q.tid, begin);
    row_key k = {.key = {[KEY_PID] = pid, [KEY_FILE_OBJECT] = q.file_object},
                 .text = {[TEXT_OPERATION] = q.operation, [TEXT_FILE] = file_of(a, q.file_object, begin)}};
    put_process(a, &k, 0, pid, begin);
    return add_latency(a, &k, span_ns(a, q.time, e->time), 0);
}

static int on_fault(ec_activity *a, const ec_event_cursor_event *e, int64_t utc_ns) {
    enum { BEGIN, FILE_OBJECT, TID, SIZE };

    uint32_t tid = (uint32_t)ec_event_cursor_u64_or_0(a->tape, e, TID), pid = pid_of(a, tid, utc_ns);
    uint64_t file_object = ec_event_cursor_u64_or_0(a->tape, e, FILE_OBJECT);
    row_key k = {.key = {[KEY_PID] = pid, [KEY_FILE_OBJECT] = file_object},
                 .text = {[TEXT_FILE] = file_of(a, file_object, utc_ns)}};
    put_process(a, &k, 0, pid, utc_ns);
    return is_in_range(a, utc_ns)
               ? add_latency(a, &k, span_ns(a, (int64_t)ec_event_cursor_u64_or_0(a->tape, e, BEGIN), e->time),
                             ec_event_cursor_u64_or_0(a->tape, e, SIZE))
               : 0;
}

static int on_interrupt(ec_activity *a, const ec_event_cursor_event *e, const plan *p, int64_t utc_ns) {
    uint64_t begin, routine;
    int unloaded;
    if (!is_in_range(a, utc_ns) || !ec_event_cursor_u64(a->tape, e, 0, &begin) ||
        !ec_event_cursor_u64(a->tape, e, 1, &routine))
        return 0;
    row_key k = {.key = {[KEY_ROUTINE] = routine, [KEY_CPU] = e->cpu}, .text = {[TEXT_INTERRUPT] = p->text}};
    int rc = add_latency(a, &k, span_ns(a, (int64_t)begin, e->time), 0);
    row *r = NULL;
    if (!rc)
        rc = find_row(a, &k, &r);
    if (rc || r->module)
        return rc;
    const ea_module *m = ec_address_space_module(a->places, (uint32_t)EC_NO_PROCESS,
                                                 ec_address_space_epoch(a->places, (uint32_t)EC_NO_PROCESS, utc_ns),
                                                 routine, 1, &unloaded);
    r->module = m ? module_name(a, m, unloaded) : keep(a, "", 0);
    return r->module ? 0 : EA_ENOMEM;
}

/* ---- a stream ---- */

/* Events of Microsoft-Windows-Kernel-Network, by id: sent and received, over TCP and UDP, of IPv4 and IPv6. */
static const char *transfer_of(const ea_class *c) {
    static const ea_guid KERNEL_NETWORK =
        EA_GUID(0x7dd42a49, 0x5329, 0x4832, 0x8d, 0xfd, 0x43, 0xd9, 0x79, 0x15, 0x3a, 0x88);
    if (c->classic || memcmp(&c->provider, &KERNEL_NETWORK, sizeof KERNEL_NETWORK) != 0)
        return NULL;
    switch (c->code) {
    case 10:
    case 26:
    case 42:
    case 58:
        return "UdpIp/SendIPV4";
    case 11:
    case 27:
    case 43:
    case 59:
        return "UdpIp/RecvIPV4";
    default:
        return NULL;
    }
}

static const ec_event_cursor_plan *plan_class(void *arg, const ea_class *c) {
    ec_activity *a = arg;
    const char *same = transfer_of(c), *name = same ? same : c->name;
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
        if (strcmp(name, CLASSES[i].class_name) != 0 || !(CLASSES[i].kinds >> a->kind & 1))
            continue;
        plan *p = ea_arena_zalloc(&a->arena, 1, sizeof *p);
        if (!p)
            return &EC_EVENT_CURSOR_NO_MEMORY;
        p->what = (uint8_t)CLASSES[i].what;
        p->text = CLASSES[i].text ? keep(a, CLASSES[i].text, strlen(CLASSES[i].text)) : NULL;
        p->tape.addresses = -1;
        p->tape.wants_items = p->what == SWITCH && !(THREAD_KINDS >> a->kind & 1);
        p->tape.wants_record = p->what == COMPACT;
        for (unsigned k = 0; k < EC_EVENT_CURSOR_FIELDS; k++) {
            p->tape.fields[k] = -1;
            for (size_t f = 0; CLASSES[i].fields[k] && f < ea_class_top_count(c); f++)
                if (strcmp(c->fields[ea_class_top_field(c, f)].name, CLASSES[i].fields[k]) == 0)
                    p->tape.fields[k] = (int16_t)f;
        }
        return &p->tape;
    }
    return NULL;
}

static int on_thread_life(ec_activity *a, const ec_event_cursor_event *e, const plan *p, int64_t utc_ns) {
    uint32_t tid = (uint32_t)ec_event_cursor_u64_or_0(a->tape, e, 0);
    ec_sched_slice s;
    int is_open = p->what == THREAD_BEGIN ? ec_sched_begin(a->sched, tid, &s) : ec_sched_end(a->sched, tid, &s);
    return is_open ? add_unfinished(a, &s, utc_ns) : 0;
}

static int on_event(ec_activity *a, const ec_event_cursor_event *e) {
    const plan *p = (const plan *)e->plan;
    int64_t utc_ns = ec_event_cursor_utc_ns(e);
    int rc = 0;
    if (e->is_behind_gap) {
        rc = know_nothing(a, a->last_utc_ns);
        forget_requests(a);
    }
    if (rc)
        return rc;
    a->clock = *e->clock;
    a->last_utc_ns = utc_ns;
    switch (p->what) {
    case SWITCH:
        return on_switch(a, e, utc_ns);
    case COMPACT:
        return on_compact_switches(a, e);
    case READY:
        return on_ready(a, e);
    case THREAD_BEGIN:
    case THREAD_END:
        return on_thread_life(a, e, p, utc_ns);
    case LOST:
        return know_nothing(a, utc_ns);
    case SAMPLE:
        return on_sample(a, e, utc_ns);
    case INTERVAL:
        return on_interval(a, e);
    case CORRUPTION:
        return is_in_range(a, utc_ns) ? on_corruption(a, e, p->text) : 0;
    case INTERRUPT:
        return on_interrupt(a, e, p, utc_ns);
    case CPU_SAMPLE:
        return on_cpu_sample(a, e, utc_ns);
    case TRANSFER:
        return on_transfer(a, e, p, utc_ns);
    case DISK_BEGIN: {
        uint64_t tid = e->tid, irp = ec_event_cursor_u64_or_0(a->tape, e, 0);
        (void)ec_event_cursor_u64(a->tape, e, 1, &tid);
        return begin_request(a, irp, &(request){.time = e->time, .tid = (uint32_t)tid, .pid = e->pid});
    }
    case DISK_END:
        return on_disk_end(a, e, p, utc_ns);
    case FILE_BEGIN:
        return begin_request(a, ec_event_cursor_u64_or_0(a->tape, e, 0),
                             &(request){.time = e->time,
                                        .tid = e->tid,
                                        .pid = e->pid,
                                        .file_object = ec_event_cursor_u64_or_0(a->tape, e, 1),
                                        .operation = p->text});
    case FILE_END:
        return on_file_end(a, e, utc_ns);
    default:
        return on_fault(a, e, utc_ns);
    }
}

static void end_stream(ec_activity *a) {
    ec_event_cursor_close(a->tape);
    ec_sched_destroy(a->sched);
    ec_address_space_close(a->places);
    ec_counter_names_close(a->names);
    ec_methods_close(a->methods);
    a->methods = NULL;
    a->tape = NULL;
    a->sched = NULL;
    a->places = NULL;
    a->names = NULL;
    a->config = NULL;
    forget_requests(a);
    ea_u64_map_clear(&a->intervals);
    ea_u64_map_clear(&a->source_names);
    forget_cpus(a);
}

static int add_stack(void *arg, const ec_stack_sum *s) {
    ec_activity *a = arg;
    row *r = NULL;
    row_key k = {
        .key = {[KEY_PID] = s->pid, [KEY_TID] = s->tid, [KEY_STACK_HASH] = s->hash, [KEY_STACK_DEPTH] = s->depth},
        .text =
            {[TEXT_CLASS] = keep(a, s->name, strlen(s->name)), [TEXT_FRAMES] = keep(a, s->frames, strlen(s->frames))},
        .image = {keep(a, s->image, strlen(s->image))},
        .process = {s->process_key}};
    int rc = k.text[TEXT_CLASS] && k.text[TEXT_FRAMES] && k.image[0] ? find_row(a, &k, &r) : EA_ENOMEM;
    if (rc)
        return rc;
    if (!r->sum[SUM_STACKS] || (int64_t)r->sum[SUM_FIRST_UTC_NS] > s->first_utc_ns)
        r->sum[SUM_FIRST_UTC_NS] = (uint64_t)s->first_utc_ns;
    if (!r->sum[SUM_STACKS] || (int64_t)r->sum[SUM_LAST_UTC_NS] < s->last_utc_ns)
        r->sum[SUM_LAST_UTC_NS] = (uint64_t)s->last_utc_ns;
    r->sum[SUM_STACKS] += s->count;
    return 0;
}

static int add_missed(void *arg, const ec_missed_half *m) {
    ec_activity *a = arg;
    row *r = NULL;
    row_key k = {.key = {[KEY_PID] = m->pid,
                         [KEY_TID] = m->tid,
                         [KEY_BATCH] = ec_event_position_batch(m->place),
                         [KEY_POSITION] = ec_event_position_in_batch(m->place)},
                 .text = {[TEXT_OUTCOME] = keep(a, m->outcome, strlen(m->outcome)),
                          [TEXT_HALF] = m->half ? keep(a, m->half, strlen(m->half)) : NULL},
                 .image = {keep(a, m->image, strlen(m->image))},
                 .process = {m->process_key}};
    int rc = find_row(a, &k, &r); /* a text that found no memory is noted in is_short */
    if (rc)
        return rc;
    r->sum[SUM_HALVES]++;
    r->sum[SUM_UTC_NS] = (uint64_t)m->utc_ns;
    return 0;
}

static int run_stream(ec_activity *a, ea_err *err) {
    if (a->kind == EC_ACTIVITY_MISSED_STACKS) {
        int rc = ec_stack_query_missed(a->archive, a->stream, a->from_utc_ns, a->to_utc_ns, add_missed, a, err);
        return !rc && a->is_short ? ea_fail(err, EA_ENOMEM, "sum events up") : rc;
    }
    if (a->kind == EC_ACTIVITY_STACKS)
        return ec_stack_query_sums(a->archive, a->stream, a->from_utc_ns, a->to_utc_ns, add_stack, a, err);
    ec_event_cursor_event e;
    int rc = ec_address_space_open(&a->places, a->archive, a->stream, 1, err);
    if (!rc)
        rc = ec_sched_create(&a->sched, 0, err);
    if (!rc && (a->kind == EC_ACTIVITY_COUNTERS || a->kind == EC_ACTIVITY_COUNTER_PROBLEMS))
        rc = ec_counter_names_open(&a->names, a->archive, a->stream, err);
    if (!rc && a->kind == EC_ACTIVITY_CODE_COUNTERS)
        rc = ec_methods_open(&a->methods, a->archive, a->stream, NULL, NULL, err);
    /* Read from the beginning: what begins before the range may end in it. Read threads to the end: the event that ends
     * a slice says what the thread did at the range's end. */
    if (!rc)
        rc = ec_event_cursor_open(
            &a->tape, a->archive,
            &(ec_event_cursor_options){.stream = a->stream,
                                       .from_utc_ns = INT64_MIN,
                                       .to_utc_ns = THREAD_KINDS >> a->kind & 1 ? INT64_MAX : a->to_utc_ns,
                                       .plan = plan_class,
                                       .arg = a,
                                       .wants_gaps = 1},
            err);
    while (!rc && (rc = ec_event_cursor_next(a->tape, &e, err)) == 1) {
        rc = on_event(a, &e);
        if (rc)
            rc = ea_fail(err, rc,
                         rc == EA_ELIMIT ? "sum events up: more than 1,048,576 rows; take less time" : "sum events up");
    }
    if (!rc && a->expander && (rc = ea_cswitch_expand_end(a->expander, on_compact_switch, a)))
        rc = ea_fail(err, rc, "sum events up");
    if (!rc && (rc = know_nothing(a, a->stream->row.end_utc_ns)))
        rc = ea_fail(err, rc, "sum events up");
    if (!rc && (a->is_short || ec_sched_is_short(a->sched)))
        rc = ea_fail(err, EA_ENOMEM, "sum events up");
    end_stream(a);
    return rc;
}

int ec_activity_run(ec_activity **ret, ec_archive *archive, enum ec_activity_kind kind, const char *host,
                    int64_t from_utc_ns, int64_t to_utc_ns, int64_t every_ns, ea_err *err) {
    size_t count = 0;
    const ec_archive_stream *streams = NULL;
    ec_activity *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "sum events up");
    a->kind = kind;
    a->archive = archive;
    a->from_utc_ns = from_utc_ns;
    a->to_utc_ns = to_utc_ns;
    a->every_ns = every_ns;
    ea_arena_init(&a->arena, 0);
    ea_bytes_map_init(&a->kernel_network, 0);
    ea_bytes_map_init(&a->texts, 0);
    ea_bytes_map_init(&a->index, 0);
    ea_u64_map_init(&a->by_irp, IRPS_MAX);
    ea_u64_map_init(&a->intervals, SOURCES_MAX);
    ea_u64_map_init(&a->source_names, SOURCES_MAX);
    ea_text_init(&a->scratch);
    a->cpus = calloc(CPUS_MAX, sizeof *a->cpus);
    int rc = a->cpus ? 0 : ea_fail(err, EA_ENOMEM, "sum events up");
    if (!rc) {
        forget_cpus(a);
        rc = ec_archive_streams(archive, &streams, &count, err);
    }
    for (size_t i = 0; !rc && i < count; i++) {
        const ec_find_row *row_of = &streams[i].row;
        if ((host && strcmp(host, row_of->host) != 0) || row_of->end_utc_ns < from_utc_ns ||
            row_of->begin_utc_ns >= to_utc_ns)
            continue;
        a->stream = &streams[i];
        rc = run_stream(a, err);
    }
    if (kind == EC_ACTIVITY_NETWORK_USAGE)
        drop_doubles(a);
    if (rc) {
        ec_activity_destroy(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void ec_activity_destroy(ec_activity *a) {
    if (!a)
        return;
    if (a->cpus)
        end_stream(a);
    ea_bytes_map_deinit(&a->kernel_network);
    ea_bytes_map_deinit(&a->texts);
    ea_bytes_map_deinit(&a->index);
    ea_u64_map_deinit(&a->by_irp);
    ea_u64_map_deinit(&a->intervals);
    ea_u64_map_deinit(&a->source_names);
    ea_text_deinit(&a->scratch);
    ea_arena_deinit(&a->arena);
    free(a->rows);
    free(a->by_hash);
    free(a->requests);
    free(a->unused);
    free(a->cpus);
    free(a);
}

size_t ec_activity_count(const ec_activity *a) {
    return a->count;
}

static uint64_t hash_at(const ec_activity *a, uint32_t at) {
    return a->rows[at].k.key[KEY_STACK_HASH];
}

/* A row on its way into the order by hash. */
typedef struct hashed_row {
    uint64_t hash;
    uint32_t at;
} hashed_row;

static int compare_hashed(const void *a, const void *b) {
    const hashed_row *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->at > y->at) - (x->at < y->at);
}

static int sort_by_hash(ec_activity *a) {
    hashed_row *rows = malloc((a->count + 1) * sizeof *rows);
    uint32_t *by_hash = malloc((a->count + 1) * sizeof *by_hash);
    for (size_t i = 0; rows && i < a->count; i++)
        rows[i] = (hashed_row){hash_at(a, (uint32_t)i), (uint32_t)i};
    if (rows && by_hash) {
        qsort(rows, a->count, sizeof *rows, compare_hashed);
        for (size_t i = 0; i < a->count; i++)
            by_hash[i] = rows[i].at;
        a->by_hash = by_hash;
    } else {
        free(by_hash);
    }
    free(rows);
    return a->by_hash ? 0 : EA_ENOMEM;
}

int ec_activity_find(ec_activity *a, uint64_t value, const uint32_t **ret, size_t *ret_count) {
    size_t low = 0, high = a->count;
    if (!a->by_hash && sort_by_hash(a))
        return EA_ENOMEM;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hash_at(a, a->by_hash[middle]) < value)
            low = middle + 1;
        else
            high = middle;
    }
    *ret = a->by_hash + low;
    *ret_count = 0;
    while (low + *ret_count < a->count && hash_at(a, a->by_hash[low + *ret_count]) == value)
        ++*ret_count;
    return 0;
}

uint64_t ec_activity_number(const ec_activity *a, size_t at) {
    const row_key *k = &a->rows[at].k;
    const int64_t range[] = {a->from_utc_ns, a->to_utc_ns};
    uint64_t hash = ea_hash64(k->stream->id, sizeof k->stream->id, ea_hash64(range, sizeof range, 0));
    hash = ea_hash64(k->key, sizeof k->key, hash);
    for (size_t i = 0; i < sizeof k->text / sizeof *k->text; i++)
        hash = k->text[i] ? ea_hash64(k->text[i], strlen(k->text[i]) + 1, hash) : ~hash;
    hash = ea_hash64(k->process, sizeof k->process, ea_hash64(&k->bucket, sizeof k->bucket, hash));
    for (size_t i = 0; i < 2; i++)
        hash = k->image[i] ? ea_hash64(k->image[i], strlen(k->image[i]) + 1, hash) : ~hash;
    return hash;
}

static void set_text(ec_value *ret, const char *text) {
    if (text && *text)
        *ret = (ec_value){.type = EC_TEXT, .data = text, .len_bytes = strlen(text)};
}

void ec_activity_value(const ec_activity *a, size_t at, size_t column, ec_value *ret) {
    const ec_activity_column *c = &TABLES[a->kind].columns[column];
    const row *r = &a->rows[at];
    *ret = (ec_value){.type = EC_NULL};
    switch (c->source) {
    case EC_OF_HOST:
        set_text(ret, r->k.stream->row.host);
        break;
    case EC_OF_STREAM:
        set_text(ret, r->k.stream->id);
        break;
    case EC_OF_TEXT:
        set_text(ret, r->k.text[c->index]);
        break;
    case EC_OF_IMAGE:
        set_text(ret, r->k.image[c->index]);
        break;
    case EC_OF_PROCESS:
        if (r->k.process[c->index])
            *ret = (ec_value){.type = EC_INT, .i = r->k.process[c->index]};
        break;
    case EC_OF_BUCKET:
        if (r->k.bucket != INT64_MIN)
            *ret = (ec_value){.type = EC_INT, .i = r->k.bucket};
        break;
    case EC_OF_MODULE:
        set_text(ret, r->module);
        break;
    case EC_OF_REASON:
        set_text(ret, r->k.key[c->index] < sizeof REASONS / sizeof *REASONS ? REASONS[r->k.key[c->index]] : NULL);
        break;
    case EC_OF_INTERVAL:
        if (r->k.key[c->index])
            *ret = (ec_value){.type = EC_INT, .i = (int64_t)r->k.key[c->index]};
        break;
    case EC_OF_EVENTS:
        if (r->k.key[KEY_HAS_NO_INTERVAL])
            break;
        /* fall through */
    case EC_OF_SUM:
        *ret = (ec_value){.type = EC_INT, .i = (int64_t)(r->sum[c->index] & INT64_MAX)};
        break;
    default:
        *ret = (ec_value){.type = EC_INT,
                          .i = c->kind == EC_KIND_ADDRESS ? ec_u64_to_sql(r->k.key[c->index])
                                                          : (int64_t)r->k.key[c->index]};
        if (c->kind == EC_KIND_INT && r->k.key[c->index] == UINT32_MAX)
            *ret = (ec_value){.type = EC_NULL};
    }
}
