/* .NET processes: methods are compiled when they are first called, and from time to time all threads stop for a garbage
 * collection. At the end the rundown provider says what is compiled. See subsystems.h.
 * Layouts: Microsoft's ClrEtwAll.man (templates MethodJittingStarted_V1, MethodLoadUnloadVerbose_V1, GCStart_V2,
 * GCEnd_V1, GCHeapStats_V1, GCSuspendEE_V1, GCNoUserData and those of the rundown provider). */
#include "tests/tracegen/subsystems.h"

#include <string.h>

#define RUNTIME                                                                                                        \
    "Microsoft-Windows-DotNETRuntime",                                                                                 \
        EA_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4)
#define RUNDOWN                                                                                                        \
    "Microsoft-Windows-DotNETRuntimeRundown",                                                                          \
        EA_GUID(0xa669021c, 0xc450, 0x4609, 0xa0, 0x35, 0x5a, 0xf5, 0x9a, 0xf4, 0xdf, 0x18)
#define METHOD_FIELDS                                                                                                  \
    "MethodID:hex64 ModuleID:hex64 MethodStartAddress:hex64 MethodSize:u32 MethodToken:u32 MethodFlags:u32 "           \
    "MethodNamespace:text MethodName:text MethodSignature:text ClrInstanceID:u16"

enum event_number {
    JITTING,
    LOADED,
    GC_START,
    GC_END,
    GC_HEAPS,
    SUSPEND,
    SUSPENDED,
    RESUME,
    RESUMED,
    METHOD_END,
    EVENTS
};

enum { KEYWORD_GC = 1, KEYWORD_JIT = 0x10, TASK_GC = 1, TASK_METHOD = 9, CLR_INSTANCE = 9, FLAG_JITTED = 8 };

static const tg_event_row rows[EVENTS] = {
    [JITTING] = {RUNTIME, 145, TASK_METHOD, 1, 5, 42, TG_GROUP_DOTNET, KEYWORD_JIT, "Method/JittingStarted",
                 "MethodID:hex64 ModuleID:hex64 MethodToken:u32 MethodILSize:u32 MethodNamespace:text MethodName:text "
                 "MethodSignature:text ClrInstanceID:u16"},
    [LOADED] = {RUNTIME, 143, TASK_METHOD, 1, 4, 37, TG_GROUP_DOTNET, KEYWORD_JIT, "Method/LoadVerbose", METHOD_FIELDS},
    [GC_START] = {RUNTIME, 1, TASK_GC, 2, 4, 1, TG_GROUP_DOTNET, KEYWORD_GC, "GC/Start",
                  "Count:u32 Depth:u32 Reason:u32 Type:u32 ClrInstanceID:u16 ClientSequenceNumber:u64"},
    [GC_END] = {RUNTIME, 2, TASK_GC, 1, 4, 2, TG_GROUP_DOTNET, KEYWORD_GC, "GC/Stop",
                "Count:u32 Depth:u32 ClrInstanceID:u16"},
    [GC_HEAPS] =
        {RUNTIME, 4, TASK_GC, 1, 4, 133, TG_GROUP_DOTNET, KEYWORD_GC, "GC/HeapStats",
         "GenerationSize0:hex64 TotalPromotedSize0:hex64 GenerationSize1:hex64 TotalPromotedSize1:hex64 "
         "GenerationSize2:hex64 TotalPromotedSize2:hex64 GenerationSize3:hex64 TotalPromotedSize3:hex64 "
         "FinalizationPromotedSize:hex64 FinalizationPromotedCount:u64 PinnedObjectCount:u32 SinkBlockCount:u32 "
         "GCHandleCount:u32 ClrInstanceID:u16"},
    [SUSPEND] = {RUNTIME, 9, TASK_GC, 1, 4, 10, TG_GROUP_DOTNET, KEYWORD_GC, "GC/SuspendEEStart",
                 "Reason:u32 Count:u32 ClrInstanceID:u16"},
    [SUSPENDED] = {RUNTIME, 8, TASK_GC, 1, 4, 11, TG_GROUP_DOTNET, KEYWORD_GC, "GC/SuspendEEStop", "ClrInstanceID:u16"},
    [RESUME] = {RUNTIME, 7, TASK_GC, 1, 4, 12, TG_GROUP_DOTNET, KEYWORD_GC, "GC/RestartEEStart", "ClrInstanceID:u16"},
    [RESUMED] = {RUNTIME, 3, TASK_GC, 1, 4, 132, TG_GROUP_DOTNET, KEYWORD_GC, "GC/RestartEEStop", "ClrInstanceID:u16"},
    [METHOD_END] = {RUNDOWN, 144, 1, 1, 4, 40, TG_GROUP_DOTNET, KEYWORD_JIT, "Method/DCEndVerbose", METHOD_FIELDS},
};

typedef struct method {
    uint64_t id, address;
    uint32_t size_bytes, token;
    const char *name; /* Namespace.Class::Method */
} method;

struct tg_dotnet {
    tg_list methods;
    uint64_t next_code, heap_bytes[3];
    uint32_t collections;
    int64_t next_collection;
};

int tg_dotnet_make(tg_machine *m, ea_err *err) {
    m->dotnet_events = tg_new(m, EVENTS * sizeof *m->dotnet_events);
    if (!m->dotnet_events)
        return ea_fail(err, EA_ENOMEM, "make the .NET events");
    int rc = 0;
    for (int i = 0; !rc && i < EVENTS; i++)
        rc = tg_event_make(m, &rows[i], &m->dotnet_events[i], err);
    return rc;
}

static void emit(tg_machine *m, tg_cpu *cpu, tg_thread *t, enum event_number e, const tg_v *values) {
    tg_context who = tg_who(m, cpu, t, tg_stamp(m, cpu, t));
    tg_emit_event(m->trace, &m->dotnet_events[e], &who, values, NULL);
}

#define EMIT(e, ...) emit(m, cpu, t, e, (const tg_v[]){__VA_ARGS__})

/* The parts of a method's name; the namespace is shared scratch. */
static const char *split_name(const char *name, char *space, size_t capacity) {
    const char *method_name = strstr(name, "::");
    size_t n = method_name ? (size_t)(method_name - name) : strlen(name);
    snprintf(space, capacity, "%.*s", (int)n, name);
    return method_name ? method_name + 2 : "";
}

static void compile(tg_machine *m, tg_cpu *cpu, tg_thread *t, struct tg_dotnet *d) {
    const tg_scenario *s = m->scenario;
    method *x = tg_new(m, sizeof *x);
    if (!x)
        return;
    uint64_t number = d->methods.count;
    uint32_t size_bytes = 40 + (uint32_t)tg_below(&m->dice, 3000);
    *x = (method){.id = d->next_code + 0x40,
                  .address = d->next_code + 0x1000,
                  .size_bytes = size_bytes,
                  .token = 0x06000001 + (uint32_t)number,
                  .name = s->methods[tg_below(&m->dice, s->method_count)].name};
    d->next_code += 0x4000;
    tg_push(m, &d->methods, x);
    char space[128];
    const char *name = split_name(x->name, space, sizeof space);
    EMIT(JITTING, tg_n(x->id), tg_n(x->id & ~(uint64_t)0xFFF), tg_n(x->token), tg_n(x->size_bytes / 2), tg_text(space),
         tg_text(name), tg_text("instance void (int32)"), tg_n(CLR_INSTANCE));
    tg_spend(m, cpu, 500, 9000);
    EMIT(LOADED, tg_n(x->id), tg_n(x->id & ~(uint64_t)0xFFF), tg_n(x->address), tg_n(x->size_bytes), tg_n(x->token),
         tg_n(FLAG_JITTED), tg_text(space), tg_text(name), tg_text("instance void (int32)"), tg_n(CLR_INSTANCE));
}

static void collect(tg_machine *m, tg_cpu *cpu, tg_thread *t, struct tg_dotnet *d) {
    uint32_t depth = d->collections % 10 == 9 ? 2 : d->collections % 3 == 2, n = ++d->collections;
    EMIT(SUSPEND, tg_n(1), tg_n(n), tg_n(CLR_INSTANCE));
    tg_spend(m, cpu, 50, 900);
    EMIT(SUSPENDED, tg_n(CLR_INSTANCE));
    EMIT(GC_START, tg_n(n), tg_n(depth), tg_n(0), tg_n(0), tg_n(CLR_INSTANCE), tg_n(0));
    tg_spend(m, cpu, 2000 * (depth + 1), 30000 * (depth + 1));
    for (uint32_t g = 0; g <= depth; g++) { /* a tenth of a generation's heap survives into the next generation */
        uint64_t lives = d->heap_bytes[g] / 10;
        if (g < 2)
            d->heap_bytes[g + 1] += lives;
        d->heap_bytes[g] = g == 2 ? d->heap_bytes[g] / 2 : 0;
    }
    EMIT(GC_END, tg_n(n), tg_n(depth), tg_n(CLR_INSTANCE));
    EMIT(GC_HEAPS, tg_n(d->heap_bytes[0]), tg_n(0), tg_n(d->heap_bytes[1]), tg_n(0), tg_n(d->heap_bytes[2]), tg_n(0),
         tg_n(0x30000), tg_n(0), tg_n(0), tg_n(0), tg_n(3), tg_n(1), tg_n(120), tg_n(CLR_INSTANCE));
    EMIT(RESUME, tg_n(CLR_INSTANCE));
    EMIT(RESUMED, tg_n(CLR_INSTANCE));
}

void tg_dotnet_work(tg_machine *m, tg_cpu *cpu, tg_thread *t) {
    tg_process *p = t->process;
    const tg_scenario *s = m->scenario;
    if (!tg_records(m->trace, TG_GROUP_DOTNET) || !s->method_count)
        return;
    struct tg_dotnet *d = p->dotnet;
    if (!d) {
        d = p->dotnet = tg_new(m, sizeof *d);
        if (!d)
            return;
        d->next_code = tg_is_narrow(m, p->program) ? 0x04C00000 : 0x7FF900000000;
        d->next_collection = m->now + (int64_t)s->gc_every_ms * TG_TICKS_PER_MS;
    }
    d->heap_bytes[0] += tg_below(&m->dice, 1 << 20);
    if (m->now >= d->next_collection) {
        collect(m, cpu, t, d);
        d->next_collection = m->now + (int64_t)s->gc_every_ms * TG_TICKS_PER_MS;
    } else if (d->methods.count < s->jit_methods && tg_below(&m->dice, s->jit_methods) >= d->methods.count) {
        compile(m, cpu, t, d); /* the more is compiled, the less is new */
    }
}

void tg_dotnet_rundown(tg_machine *m, tg_cpu *cpu) {
    if (!tg_records(m->trace, TG_GROUP_DOTNET))
        return;
    for (size_t i = 0; i < m->processes.count; i++) {
        tg_process *p = m->processes.items[i];
        if (!tg_is_alive(&p->life) || !p->dotnet)
            continue;
        tg_thread *t = p->threads.items[0];
        for (size_t k = 0; k < p->dotnet->methods.count; k++) {
            const method *x = p->dotnet->methods.items[k];
            char space[128];
            const char *name = split_name(x->name, space, sizeof space);
            EMIT(METHOD_END, tg_n(x->id), tg_n(x->id & ~(uint64_t)0xFFF), tg_n(x->address), tg_n(x->size_bytes),
                 tg_n(x->token), tg_n(FLAG_JITTED), tg_text(space), tg_text(name), tg_text("instance void (int32)"),
                 tg_n(CLR_INSTANCE));
        }
    }
}

void tg_dotnet_tell(tg_machine *m) {
    for (int i = 0; i < EVENTS; i++)
        tg_truth_provider_event(m->truth, &m->dotnet_events[i]);
}
