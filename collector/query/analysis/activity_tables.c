/* See activity.h: the columns of each table, and their values. */
#include "collector/query/analysis/activity_internal.h"

#include "collector/state/state_db.h"

#include <string.h>

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
    [EC_ACTIVITY_FUNCTION_COUNTERS] = {.name = "function_counters", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"module", EC_KIND_TEXT, EC_OF_TEXT, TEXT_MODULE},
        {"function", EC_KIND_TEXT, EC_OF_TEXT, TEXT_FUNCTION}, {"source", EC_KIND_INT, EC_OF_KEY, KEY_SOURCE}, {"source_name", EC_KIND_TEXT, EC_OF_TEXT, TEXT_COUNTER},
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
        SUM("reads", SUM_IN), SUM("read_bytes", SUM_IN_BYTES), SUM("writes", SUM_OUT), SUM("written_bytes", SUM_OUT_BYTES), SUM("ns", SUM_TRANSFER_NS),
        SUM("max_ns", SUM_TRANSFER_MAX_NS)}, .has_buckets = 1},
    [EC_ACTIVITY_FILE_USAGE] = {.name = "file_usage", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, BUCKET,
        SUM("reads", SUM_IN), SUM("read_bytes", SUM_IN_BYTES), SUM("writes", SUM_OUT), SUM("written_bytes", SUM_OUT_BYTES)}, .has_buckets = 1},
    [EC_ACTIVITY_NETWORK_USAGE] = {.name = "network_usage", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, BUCKET,
        SUM("receives", SUM_IN), SUM("received_bytes", SUM_IN_BYTES), SUM("sends", SUM_OUT), SUM("sent_bytes", SUM_OUT_BYTES)}, .has_buckets = 1},
    [EC_ACTIVITY_GC_PAUSES] = {.name = "gc_pauses", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"clr_instance", EC_KIND_INT, EC_OF_KEY, KEY_DOTNET_INSTANCE},
        {"number", EC_KIND_INT, EC_OF_KEY, KEY_GC_NUMBER}, {"generation", EC_KIND_INT, EC_OF_KEY, KEY_GC_GENERATION}, {"reason", EC_KIND_TEXT, EC_OF_TEXT, TEXT_GC_REASON},
        {"type", EC_KIND_TEXT, EC_OF_TEXT, TEXT_GC_TYPE}, {"begin", EC_KIND_TIME, EC_OF_KNOWN, SUM_GC_BEGIN}, {"ns", EC_KIND_INT, EC_OF_KNOWN, SUM_GC_NS},
        {"pauses", EC_KIND_INT, EC_OF_KNOWN, SUM_GC_PAUSES}, {"pause_begin", EC_KIND_TIME, EC_OF_KNOWN, SUM_GC_PAUSE_BEGIN},
        {"pause_end", EC_KIND_TIME, EC_OF_KNOWN, SUM_GC_PAUSE_END}, {"pause_ns", EC_KIND_INT, EC_OF_KNOWN, SUM_GC_PAUSE_NS},
        {"suspension_ns", EC_KIND_INT, EC_OF_KNOWN, SUM_GC_SUSPENSION_NS}, {"before_bytes", EC_KIND_INT, EC_OF_KNOWN, SUM_GC_BEFORE}, {"after_bytes", EC_KIND_INT, EC_OF_KNOWN, SUM_GC_AFTER}}},
    [EC_ACTIVITY_JIT_METHODS] = {.name = "jit_methods", .columns = {FIRST_COLUMNS, PROCESS_COLUMNS, {"tid", EC_KIND_INT, EC_OF_KEY, KEY_TID},
        {"clr_instance", EC_KIND_INT, EC_OF_KEY, KEY_JIT_INSTANCE}, {"method_id", EC_KIND_HEX, EC_OF_KEY, KEY_JIT_METHOD}, {"method", EC_KIND_TEXT, EC_OF_TEXT, TEXT_JIT_METHOD},
        {"tier", EC_KIND_TEXT, EC_OF_MODULE, 0}, {"begin", EC_KIND_TIME, EC_OF_KNOWN, SUM_JIT_BEGIN}, {"ns", EC_KIND_INT, EC_OF_KNOWN, SUM_JIT_NS},
        {"own_ns", EC_KIND_INT, EC_OF_KNOWN, SUM_JIT_OWN_NS},
        {"il_bytes", EC_KIND_INT, EC_OF_KNOWN, SUM_JIT_IL_BYTES}, {"native_bytes", EC_KIND_INT, EC_OF_KNOWN, SUM_JIT_NATIVE_BYTES}}},
};

/* wdm.h KWAIT_REASON */
static const char *const REASONS[] = {"Executive", "FreePage", "PageIn", "PoolAllocation", "DelayExecution", "Suspended",
    "UserRequest", "WrExecutive", "WrFreePage", "WrPageIn", "WrPoolAllocation", "WrDelayExecution", "WrSuspended",
    "WrUserRequest", "WrEventPair", "WrQueue", "WrLpcReceive", "WrLpcReply", "WrVirtualMemory", "WrPageOut", "WrRendezvous",
    "WrKeyedEvent", "WrTerminated", "WrProcessInSwap", "WrCpuRateControl", "WrCalloutStack", "WrKernel", "WrResource",
    "WrPushLock", "WrMutex", "WrQuantumEnd", "WrDispatchInt", "WrPreempted", "WrYieldExecution", "WrFastMutex",
    "WrGuardedMutex", "WrRundown", "WrAlertByThreadId", "WrDeferredPreempt", "WrPhysicalFault"};

// clang-format on

const ec_activity_table *ec_activity_table_of(enum ec_activity_kind kind) {
    return &TABLES[kind];
}

int ec_activity_names_functions(enum ec_activity_kind kind) {
    return kind == EC_ACTIVITY_FUNCTION_COUNTERS;
}

int ec_activity_hash_column(enum ec_activity_kind kind) {
    for (int i = 0; kind == EC_ACTIVITY_STACKS && TABLES[kind].columns[i].name; i++)
        if (TABLES[kind].columns[i].kind == EC_KIND_HEX)
            return i;
    return -1;
}

static void set_text_value(ec_value *ret, const char *text) {
    if (text && *text)
        *ret = (ec_value){.type = EC_TEXT, .data = text, .len_bytes = strlen(text)};
}

void ec_activity_value(const ec_activity *a, size_t at, size_t column, ec_value *ret) {
    const ec_activity_column *c = &TABLES[a->kind].columns[column];
    const ec_activity_row *r = &a->rows[at];
    *ret = (ec_value){.type = EC_NULL};
    switch (c->source) {
    case EC_OF_HOST:
        set_text_value(ret, r->k.stream->row.host);
        break;
    case EC_OF_STREAM:
        set_text_value(ret, r->k.stream->id);
        break;
    case EC_OF_TEXT:
        set_text_value(ret, r->k.text[c->index]);
        break;
    case EC_OF_IMAGE:
        set_text_value(ret, r->k.image[c->index]);
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
        set_text_value(ret, r->module);
        break;
    case EC_OF_REASON:
        set_text_value(ret, r->k.key[c->index] < sizeof REASONS / sizeof *REASONS ? REASONS[r->k.key[c->index]] : NULL);
        break;
    case EC_OF_INTERVAL:
        if (r->k.key[c->index])
            *ret = (ec_value){.type = EC_INT, .i = (int64_t)r->k.key[c->index]};
        break;
    case EC_OF_KNOWN:
        if (r->sum[c->index] != EC_SUM_UNKNOWN)
            *ret = (ec_value){.type = EC_INT, .i = (int64_t)r->sum[c->index]};
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
