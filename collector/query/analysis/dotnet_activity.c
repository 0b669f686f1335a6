/* See activity.h: gc_pauses and jit_methods, out of the events of Microsoft-Windows-DotNETRuntime.
 *
 * A pause of a runtime is from SuspendEEStart to RestartEEStop; the suspension is its part until SuspendEEStop. A pause
 * belongs to the collection that began first in it. A pause for a collection in which none began belongs to the last
 * collection that had begun before it and had not ended, which is the background collection. No time counts twice. A
 * method is compiled from JittingStarted to the LoadVerbose of the same method in the same thread; its own time is that
 * without the compilations that began and ended in it. */
#include "collector/query/analysis/activity_internal.h"
#include "collector/query/analysis/event_roles.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* NESTED_MAX: compilations that are looked through for one that ends. */
enum { OPEN_MAX = 8, UNKNOWN_ROW = 0, OUT_OF_RANGE = -1, NESTED_MAX = 64 };

/* A collection that has begun: its number and its row. */
typedef struct collection {
    uint64_t number;
    int64_t begin_utc_ns;
    intptr_t row; /* from 1; UNKNOWN_ROW: there is none; OUT_OF_RANGE */
} collection;

/* A .NET runtime of a process. */
typedef struct runtime {
    int64_t suspend_utc_ns, suspended_utc_ns; /* of the current pause; INT64_MIN: unknown */
    intptr_t paused_for;                      /* the row of the collection that began first in it */
    intptr_t open_at_pause;                   /* the row of the collection that had not ended when it began */
    int is_paused_for_gc;
    collection open[OPEN_MAX]; /* in the order in which they began */
    size_t open_count;
    intptr_t stopped; /* the row of the collection that ended last */
} runtime;

/* A method that is being compiled. */
typedef struct compilation {
    struct compilation *outer; /* what its thread was compiling when it began; NULL: nothing */
    int64_t begin_utc_ns;
    uint64_t nested_ns; /* of the compilations that began and ended in it */
    intptr_t row;       /* from 1; OUT_OF_RANGE */
    int is_ended;
} compilation;

/* A thread that compiles. */
typedef struct compiler {
    compilation *innermost; /* NULL: none has begun that has not ended */
} compiler;

/* What distinguishes runtimes, threads that compile, and methods that are being compiled. */
enum key_kind { OF_RUNTIME, OF_METHOD, OF_THREAD };

typedef struct runtime_key {
    int64_t process;
    uint64_t method;
    uint32_t pid, instance, tid, kind;
} runtime_key;

static uint32_t instance_of(ec_activity *a, const ec_event_cursor_event *e) {
    return (uint32_t)ec_event_cursor_u64_or_0(a->cursor, e, EC_DOTNET_INSTANCE);
}

/* The runtime that an event is of, created when it is new; NULL: no memory. */
static runtime *runtime_of(ec_activity *a, const ec_activity_key *k, uint32_t instance) {
    const runtime_key key = {.process = k->process[0], .pid = (uint32_t)k->key[KEY_PID], .instance = instance};
    runtime *r = ea_bytes_map_get(&a->runtimes, &key, sizeof key);
    if (r)
        return r;
    const void *copy = ea_arena_copy(&a->arena, &key, sizeof key);
    r = ea_arena_zalloc(&a->arena, 1, sizeof *r);
    if (!copy || !r || ea_bytes_map_put(&a->runtimes, copy, sizeof key, r))
        return NULL;
    r->suspend_utc_ns = r->suspended_utc_ns = INT64_MIN;
    return r;
}

static ec_activity_row *row_at(ec_activity *a, intptr_t row) {
    return row > 0 ? &a->rows[row - 1] : NULL;
}

static uint64_t span_ns(int64_t begin, int64_t end) {
    return end > begin ? (uint64_t)(end - begin) : 0;
}

static void add_to(uint64_t *sum, uint64_t n) {
    *sum = *sum == EC_SUM_UNKNOWN ? n : *sum + n;
}

/* The name of a field's value, the number where it has none: newer runtimes have values that no map names; NULL: the
 * event lacks the field. */
static const char *value_name(ec_activity *a, const ec_event_cursor_event *e, unsigned field) {
    uint64_t value;
    char number[24];
    int16_t at = e->plan->fields[field];
    const ea_enum *map = at < 0 ? NULL : e->c->fields[ea_class_top_field(e->c, (size_t)at)].map;
    if (!ec_event_cursor_u64(a->cursor, e, field, &value))
        return NULL;
    for (size_t i = 0; map && !map->is_flags && i < map->count; i++)
        if (map->entries[i].value == value)
            return ec_activity_text(a, map->entries[i].name, strlen(map->entries[i].name));
    int n = snprintf(number, sizeof number, "%" PRIu64, value);
    return ec_activity_text(a, number, (size_t)n);
}

/* A new row of a key, whose sums are unknown. */
static int make_row(ec_activity *a, ec_activity_key *k, ec_activity_row **ret) {
    int rc = ec_activity_row_of(a, k, ret);
    for (size_t i = 0; !rc && i < EC_ACTIVITY_SUMS; i++)
        (*ret)->sum[i] = EC_SUM_UNKNOWN;
    return rc;
}

/* ---- collections ---- */

static int on_collection(ec_activity *a, const ec_event_cursor_event *e, ec_activity_key *k, runtime *r,
                         int64_t utc_ns) {
    collection c = {.number = ec_event_cursor_u64_or_0(a->cursor, e, EC_GC_NUMBER), .begin_utc_ns = utc_ns};
    uint64_t generation;
    int rc = 0;
    for (size_t i = 0; i < r->open_count; i++)
        if (r->open[i].number == c.number) /* .NET Framework logs two versions of the event */
            return 0;
    c.row = OUT_OF_RANGE;
    if (ec_activity_is_in_range(a, utc_ns)) {
        ec_activity_row *row = NULL;
        k->key[KEY_GC_NUMBER] = c.number;
        k->key[KEY_GC_GENERATION] =
            ec_event_cursor_u64(a->cursor, e, EC_GC_GENERATION, &generation) ? generation : UINT32_MAX;
        k->key[KEY_DOTNET_PLACE] = ec_event_position(a->cursor);
        k->text[TEXT_GC_REASON] = value_name(a, e, EC_GC_REASON);
        k->text[TEXT_GC_TYPE] = value_name(a, e, EC_GC_TYPE);
        rc = make_row(a, k, &row);
        if (rc)
            return rc;
        row->sum[SUM_GC_BEGIN] = (uint64_t)utc_ns;
        row->sum[SUM_GC_PAUSES] = 0;
        c.row = (intptr_t)(row - a->rows) + 1;
    }
    if (r->suspend_utc_ns != INT64_MIN && r->paused_for == UNKNOWN_ROW)
        r->paused_for = c.row;
    if (r->open_count == OPEN_MAX) /* their ends were lost */
        memmove(r->open, r->open + 1, --r->open_count * sizeof *r->open);
    r->open[r->open_count++] = c;
    return rc;
}

static void on_collected(ec_activity *a, const ec_event_cursor_event *e, runtime *r, int64_t utc_ns) {
    uint64_t number = ec_event_cursor_u64_or_0(a->cursor, e, EC_GC_NUMBER);
    r->stopped = UNKNOWN_ROW;
    for (size_t i = r->open_count; i-- > 0;) {
        collection c = r->open[i];
        if (c.number != number)
            continue;
        ec_activity_row *row = row_at(a, c.row);
        if (row)
            row->sum[SUM_GC_NS] = span_ns(c.begin_utc_ns, utc_ns);
        memmove(r->open + i, r->open + i + 1, (--r->open_count - i) * sizeof *r->open);
        r->stopped = c.row;
        break;
    }
}

static void on_suspend(ec_activity *a, const ec_event_cursor_event *e, runtime *r, int64_t utc_ns) {
    enum { FOR_GC = 1, FOR_GC_PREPARATION = 6 };

    uint64_t reason = ec_event_cursor_u64_or_0(a->cursor, e, EC_GC_SUSPEND_REASON);
    r->suspend_utc_ns = utc_ns;
    r->suspended_utc_ns = INT64_MIN;
    r->paused_for = UNKNOWN_ROW;
    r->is_paused_for_gc = reason == FOR_GC || reason == FOR_GC_PREPARATION;
    r->open_at_pause = r->open_count ? r->open[r->open_count - 1].row : UNKNOWN_ROW;
}

static void on_restarted(ec_activity *a, runtime *r, int64_t utc_ns) {
    intptr_t at = r->paused_for != UNKNOWN_ROW ? r->paused_for : r->is_paused_for_gc ? r->open_at_pause : UNKNOWN_ROW;
    ec_activity_row *row = r->suspend_utc_ns == INT64_MIN ? NULL : row_at(a, at);
    if (row) {
        if (!row->sum[SUM_GC_PAUSES]++)
            row->sum[SUM_GC_PAUSE_BEGIN] = (uint64_t)r->suspend_utc_ns;
        row->sum[SUM_GC_PAUSE_END] = (uint64_t)utc_ns;
        add_to(&row->sum[SUM_GC_PAUSE_NS], span_ns(r->suspend_utc_ns, utc_ns));
        if (r->suspended_utc_ns != INT64_MIN)
            add_to(&row->sum[SUM_GC_SUSPENSION_NS], span_ns(r->suspend_utc_ns, r->suspended_utc_ns));
    }
    r->suspend_utc_ns = INT64_MIN;
    r->paused_for = UNKNOWN_ROW;
}

/* The heap after a collection: the sizes of its generations. */
static void on_heap_sizes(ec_activity *a, const ec_event_cursor_event *e, runtime *r) {
    ec_activity_row *row = row_at(a, r->stopped);
    uint64_t bytes, sum = 0;
    for (unsigned i = EC_GC_HEAP_0; row && i <= EC_GC_HEAP_4; i++)
        if (ec_event_cursor_u64(a->cursor, e, i, &bytes))
            sum += bytes;
    if (row)
        row->sum[SUM_GC_AFTER] = sum;
    r->stopped = UNKNOWN_ROW;
}

/* A heap before a collection: its generations' sizes, the first of ten pointers each. */
static void on_heap_history(ec_activity *a, const ec_event_cursor_event *e, runtime *r) {
    enum { POINTERS = 10 };

    uint64_t count = ec_event_cursor_u64_or_0(a->cursor, e, EC_GC_HISTORY_COUNT);
    ea_slice list = ec_event_cursor_bytes(a->cursor, e, EC_GC_HISTORY_VALUES);
    ec_activity_row *row = r->open_count ? row_at(a, r->open[r->open_count - 1].row) : NULL;
    size_t pointer_bytes = e->c->pointer_size == 4 ? 4 : 8, step = pointer_bytes * POINTERS;
    if (!row || !count || list.len_bytes != count * step)
        return;
    for (size_t at = 0; at < list.len_bytes; at += step)
        add_to(&row->sum[SUM_GC_BEFORE], pointer_bytes == 4 ? ea_load32(list.data + at) : ea_load64(list.data + at));
}

static int on_gc(ec_activity *a, const ec_event_cursor_event *e, enum ec_role role, int64_t utc_ns) {
    ec_activity_key k = {.key = {[KEY_PID] = e->pid, [KEY_DOTNET_INSTANCE] = instance_of(a, e)}};
    ec_activity_put_process(a, &k, 0, e->pid, utc_ns);
    runtime *r = runtime_of(a, &k, (uint32_t)k.key[KEY_DOTNET_INSTANCE]);
    if (!r)
        return EA_ENOMEM;
    switch (role) {
    case EC_ROLE_GC_BEGIN:
        return on_collection(a, e, &k, r, utc_ns);
    case EC_ROLE_GC_END:
        on_collected(a, e, r, utc_ns);
        break;
    case EC_ROLE_GC_SUSPEND:
        on_suspend(a, e, r, utc_ns);
        break;
    case EC_ROLE_GC_SUSPENDED:
        r->suspended_utc_ns = utc_ns;
        break;
    case EC_ROLE_GC_RESTARTED:
        on_restarted(a, r, utc_ns);
        break;
    case EC_ROLE_GC_HEAPS:
        on_heap_sizes(a, e, r);
        break;
    default:
        on_heap_history(a, e, r);
        break;
    }
    return 0;
}

/* ---- compilations ---- */

/* Namespace.Class.Method, as profiles name it; NULL: no memory. */
static const char *method_name(ec_activity *a, const ec_event_cursor_event *e) {
    ea_slice parts[] = {ec_event_cursor_bytes(a->cursor, e, EC_JIT_NAMESPACE),
                        ec_event_cursor_bytes(a->cursor, e, EC_JIT_NAME)};
    ea_text_clear(&a->scratch);
    for (size_t i = 0; i < 2; i++) {
        while (parts[i].len_bytes >= 2 && !ea_load16(parts[i].data + parts[i].len_bytes - 2))
            parts[i].len_bytes -= 2;
        if (i && a->scratch.len_bytes && parts[i].len_bytes)
            ea_text_char(&a->scratch, '.');
        ea_text_utf16(&a->scratch, parts[i].data, parts[i].len_bytes);
    }
    a->is_short |= a->scratch.failed;
    return ec_activity_text(a, a->scratch.data ? a->scratch.data : "", a->scratch.len_bytes);
}

/* MethodFlags of the runtime say in three bits how a method was compiled. */
static const char *tier_name(uint64_t flags) {
    static const char *const TIERS[8] = {NULL,
                                         "MinOptJitted",
                                         "Optimized",
                                         "QuickJitted",
                                         "OptimizedTier1",
                                         "OptimizedTier1OSR",
                                         "InstrumentedTier",
                                         "InstrumentedTierOptimized"};

    enum { SHIFT = 7, MASK = 7 };

    return TIERS[flags >> SHIFT & MASK];
}

/* The thread of a key, created when it is new; NULL: no memory. */
static compiler *compiler_of(ec_activity *a, const runtime_key *of) {
    runtime_key key = *of;
    key.method = 0;
    key.kind = OF_THREAD;
    compiler *t = ea_bytes_map_get(&a->runtimes, &key, sizeof key);
    if (t)
        return t;
    const void *copy = ea_arena_copy(&a->arena, &key, sizeof key);
    t = ea_arena_zalloc(&a->arena, 1, sizeof *t);
    return copy && t && !ea_bytes_map_put(&a->runtimes, copy, sizeof key, t) ? t : NULL;
}

/* A compilation ends that took so long: its own part. Those that began in it and have not ended never will. */
static uint64_t own_ns(compiler *t, const compilation *c, uint64_t ns) {
    uint64_t nested_ns = 0;
    compilation *at = t->innermost;
    for (int i = 0; at && at != c && i < NESTED_MAX; i++, at = at->outer)
        nested_ns += at->nested_ns;
    if (at != c) /* it had begun before one that has ended since */
        return ns;
    nested_ns += c->nested_ns;
    t->innermost = c->outer;
    if (c->outer)
        c->outer->nested_ns += ns;
    return ns > nested_ns ? ns - nested_ns : 0;
}

static int on_jit_begin(ec_activity *a, const ec_event_cursor_event *e, ec_activity_key *k, const runtime_key *key,
                        compiler *t, int64_t utc_ns) {
    ec_activity_row *row = NULL;
    compilation *c = ea_arena_zalloc(&a->arena, 1, sizeof *c);
    const void *copy = ea_arena_copy(&a->arena, key, sizeof *key);
    if (!c || !copy)
        return EA_ENOMEM;
    *c = (compilation){.outer = t->innermost, .begin_utc_ns = utc_ns, .row = OUT_OF_RANGE};
    if (ec_activity_is_in_range(a, utc_ns)) {
        k->key[KEY_JIT_METHOD] = key->method;
        k->key[KEY_JIT_INSTANCE] = key->instance;
        k->key[KEY_DOTNET_PLACE] = ec_event_position(a->cursor);
        k->text[TEXT_JIT_METHOD] = method_name(a, e);
        int rc = make_row(a, k, &row);
        if (rc)
            return rc;
        row->sum[SUM_JIT_BEGIN] = (uint64_t)utc_ns;
        uint64_t il_bytes;
        if (ec_event_cursor_u64(a->cursor, e, EC_JIT_SIZE, &il_bytes))
            row->sum[SUM_JIT_IL_BYTES] = il_bytes;
        c->row = (intptr_t)(row - a->rows) + 1;
    }
    t->innermost = c;
    return ea_bytes_map_put(&a->runtimes, copy, sizeof *key, c) ? EA_ENOMEM : 0;
}

static void on_jit_end(ec_activity *a, const ec_event_cursor_event *e, compiler *t, compilation *c, int64_t utc_ns) {
    uint64_t bytes, ns = span_ns(c->begin_utc_ns, utc_ns), own = own_ns(t, c, ns);
    ec_activity_row *row = row_at(a, c->row);
    c->is_ended = 1;
    if (!row)
        return;
    row->sum[SUM_JIT_NS] = ns;
    row->sum[SUM_JIT_OWN_NS] = own;
    if (ec_event_cursor_u64(a->cursor, e, EC_JIT_SIZE, &bytes))
        row->sum[SUM_JIT_NATIVE_BYTES] = bytes;
    row->module = tier_name(ec_event_cursor_u64_or_0(a->cursor, e, EC_JIT_FLAGS));
}

static int on_jit(ec_activity *a, const ec_event_cursor_event *e, enum ec_role role, int64_t utc_ns) {
    ec_activity_key k = {.key = {[KEY_PID] = e->pid, [KEY_TID] = e->tid}};
    ec_activity_put_process(a, &k, 0, e->pid, utc_ns);
    const runtime_key key = {.process = k.process[0],
                             .pid = e->pid,
                             .instance = instance_of(a, e),
                             .tid = e->tid,
                             .method = ec_event_cursor_u64_or_0(a->cursor, e, EC_JIT_METHOD),
                             .kind = OF_METHOD};
    compilation *c = ea_bytes_map_get(&a->runtimes, &key, sizeof key);
    if (role != EC_ROLE_JIT_BEGIN && (!c || c->is_ended))
        return 0;
    compiler *t = compiler_of(a, &key);
    if (!t)
        return EA_ENOMEM;
    if (role == EC_ROLE_JIT_BEGIN)
        return on_jit_begin(a, e, &k, &key, t, utc_ns);
    on_jit_end(a, e, t, c, utc_ns);
    return 0;
}

int ec_activity_dotnet(ec_activity *a, const ec_event_cursor_event *e, int role, int64_t utc_ns) {
    return a->kind == EC_ACTIVITY_GC_PAUSES ? on_gc(a, e, (enum ec_role)role, utc_ns)
                                            : on_jit(a, e, (enum ec_role)role, utc_ns);
}
