/* A cut and what it needs of the rest. See cut.h for the rules. */
#include "proto/relog/cut.h"

#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/provider_guids.h"
#include "proto/event/schema/intrace.h"

#include <stdlib.h>
#include <string.h>

static const ea_guid PROCESS = EA_PROVIDER_PROCESS;
static const ea_guid THREAD = EA_PROVIDER_THREAD;
static const ea_guid IMAGE = EA_PROVIDER_IMAGE;
static const ea_guid IMAGE_ID = EA_PROVIDER_IMAGE_ID;
static const ea_guid FILE_IO = EA_PROVIDER_FILE_IO;
static const ea_guid REGISTRY = EA_PROVIDER_REGISTRY;
static const ea_guid STACK_WALK = EA_PROVIDER_STACK_WALK;
static const ea_guid CONFIG = EA_PROVIDER_SYSTEM_CONFIG;
static const ea_guid CONFIG_EX = EA_PROVIDER_CONFIG_EX;
static const ea_guid EVENT_TRACE = EA_PROVIDER_EVENT_TRACE;
static const ea_guid PERF_INFO = EA_PROVIDER_PERF_INFO;
static const ea_guid META_DATA = EA_PROVIDER_META_DATA;
static const ea_guid EVENT_TRACING = EA_PROVIDER_EVENT_TRACING;
static const ea_guid DOTNET = EA_PROVIDER_DOTNET_RUNTIME;
static const ea_guid RUNDOWN = EA_PROVIDER_DOTNET_RUNDOWN;
static const ea_guid JSCRIPT = EA_PROVIDER_JSCRIPT, ANNOUNCE = EA_PROVIDER_ANNOUNCE;

enum {
    OP_START = 1,
    OP_END = 2,
    OP_DC_START = 3,
    OP_DC_END = 4,
    OP_LOAD = 10,
    OP_SET_NAME = 72,
    OP_FILE_VERSION = 64,
    OP_NAME = 0,
    OP_FILE_CREATE = 32,
    OP_FILE_DELETE = 35,
    OP_FILE_RUNDOWN = 36,
    OP_CREATE = 64,
    OP_CLOSE = 66,
    OP_KCB_CREATE = 22, /* of version 1: a rundown's */
    OP_KCB_DELETE = 23,
    OP_KCB_BEGIN = 24,
    OP_KCB_END = 25,
    OP_STACK = 32,
    OP_KEY_CREATE = 34,
    OP_KEY_DELETE = 35,
    OP_KEY_RUNDOWN = 36,
    OP_STACK_KEY_KERNEL = 37,
    OP_STACK_KEY_USER = 38,
    HOOK_IMAGE = 0x1400,
    HOOK_LOAD = 0x030a,
    ID_CLR_STACK = 82,
    ID_MATCH = 18,
    IDS_MAX = 4, /* of a module's records */
    THINGS_LEAST = 4096,
    DECIDED = 1,
    NAMED = 2, /* its last record may follow */
};

#define LIMIT_BYTES ((size_t)1 << 30)

enum kind { KIND_PROCESS, KIND_THREAD, KIND_MODULE, KIND_FILE, KIND_KEY, KIND_STACK_KEY, KIND_COUNT };

/* What a record does to a thing. */
enum verb { VERB_OPENS, VERB_NAMES, VERB_CLOSES, VERB_ADDS };

typedef struct subject {
    enum kind kind;
    enum verb verb;
    uint64_t address; /* pid, tid, base, address or key */
    uint32_t pid;     /* its process; 0 for things of the kernel */
} subject;

typedef struct thing {
    ea_relog_event *event; /* that opened or named it; NULL: it is over */
    ea_relog_event *ids[IDS_MAX];
    ea_relog_event *name; /* of a thread */
    uint64_t hash;        /* by which index has its place */
    enum kind kind;
    uint32_t pid;
    uint8_t id_count;
    uint8_t is_late; /* only a record after the cut named it */
} thing;

typedef struct held_list {
    ea_relog_event **items;
    size_t count, capacity;
} held_list;

struct ea_cut {
    ea_cut_options options;
    int has_begun; /* the things at from are written */
    thing *things;
    size_t thing_count, thing_capacity;
    size_t drop_at;     /* so many things, and those that are over go */
    ea_u64_map index;   /* hash of (kind, pid, address): its place in things + 1; 0: it is over */
    ea_u64_map ended;   /* pid: threads and modules before this place ended with the process */
    ea_u64_map decided; /* hashes of things about which a record after the cut spoke already: DECIDED or NAMED */
    held_list before, methods_before, after, methods_after, stacks_after;
    held_list ids;     /* of modules whose records come next, with the same time */
    size_t *id_before; /* of ids: 1 + the place of the one before it that is of the same module; 0: none */
    size_t id_before_capacity;
    ea_u64_map last_id; /* a module's base: 1 + the place of its last one in ids */
    int64_t ids_raw;
    ea_u64_map kept_times; /* is_filtered: of events whose stacks are wanted */
    ea_u64_map matches;    /* match ids of kept events that wait for their user's half */
    ea_u64_map used_keys;  /* of stacks that are kept */
    ea_u64_map clr;        /* threads whose last event of a runtime was kept and may get a stack */
    size_t held_bytes;
    ea_cut_counts counts;
};

int ea_cut_create(ea_cut **ret, const ea_cut_options *options, ea_err *err) {
    ea_cut *cut = calloc(1, sizeof *cut);
    if (!cut)
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    cut->options = *options;
    cut->drop_at = THINGS_LEAST;
    if (!cut->options.limit_bytes)
        cut->options.limit_bytes = LIMIT_BYTES;
    ea_u64_map *maps[] = {&cut->index,   &cut->ended, &cut->decided,   &cut->kept_times,
                          &cut->matches, &cut->clr,   &cut->used_keys, &cut->last_id};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ea_u64_map_init(maps[i], 0);
    *ret = cut;
    return 0;
}

static void list_deinit(held_list *l) {
    for (size_t i = 0; i < l->count; i++)
        ea_relog_free(l->items[i]);
    free(l->items);
}

/* ---- records that are held ---- */

static size_t cut_cost_of(const ea_relog_event *e) {
    size_t n = sizeof *e + e->payload_bytes + 64;
    for (unsigned i = 0; i < e->item_count; i++)
        n += sizeof *e->items + e->items[i].size_bytes;
    return n;
}

static int hold(ea_cut *cut, const ea_record *r, ea_relog_event **ret, ea_err *err) {
    const ea_relog_event *e = (const ea_relog_event *)r;
    size_t cost = cut_cost_of(e);
    if (cost > cut->options.limit_bytes - cut->held_bytes)
        return ea_fail(err, EA_ELIMIT, "cut a trace: the records that the cut needs take more than %zu bytes",
                       cut->options.limit_bytes);
    *ret = ea_relog_clone(e);
    if (!*ret)
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    cut->held_bytes += cost;
    return 0;
}

static void release(ea_cut *cut, ea_relog_event **e) {
    if (*e)
        cut->held_bytes -= cut_cost_of(*e);
    ea_relog_free(*e);
    *e = NULL;
}

static int list_add(ea_cut *cut, held_list *l, const ea_record *r, ea_err *err) {
    if (EA_GROW(l->items, l->capacity, l->count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    int rc = hold(cut, r, &l->items[l->count], err);
    if (!rc)
        l->count++;
    return rc;
}

static void list_clear(ea_cut *cut, held_list *l) {
    for (size_t i = 0; i < l->count; i++)
        release(cut, &l->items[i]);
    l->count = 0;
}

static void thing_clear(ea_cut *cut, thing *t) {
    release(cut, &t->event);
    release(cut, &t->name);
    for (unsigned i = 0; i < t->id_count; i++)
        release(cut, &t->ids[i]);
    t->id_count = 0;
}

void ea_cut_destroy(ea_cut *cut) {
    if (!cut)
        return;
    for (size_t i = 0; i < cut->thing_count; i++)
        thing_clear(cut, &cut->things[i]);
    free(cut->things);
    ea_u64_map *maps[] = {&cut->index,   &cut->ended, &cut->decided,   &cut->kept_times,
                          &cut->matches, &cut->clr,   &cut->used_keys, &cut->last_id};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ea_u64_map_deinit(maps[i]);
    held_list *lists[] = {&cut->before,        &cut->methods_before, &cut->after,
                          &cut->methods_after, &cut->stacks_after,   &cut->ids};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        list_deinit(lists[i]);
    free(cut->id_before);
    free(cut);
}

/* ---- what a record is about ---- */

static int cut_address_of(const ea_record *r, const ea_class *c, const char *field, uint64_t *ret) {
    return ea_event_u64(c, r, field, ret);
}

static int pid_of(const ea_record *r, const ea_class *c, uint32_t *ret) {
    uint64_t pid;
    if (!ea_event_u64(c, r, "ProcessId", &pid))
        return 0;
    *ret = (uint32_t)pid;
    return 1;
}

static enum verb cut_verb_of(unsigned opcode) {
    return opcode == OP_START || opcode == OP_LOAD ? VERB_OPENS : opcode == OP_END ? VERB_CLOSES : VERB_NAMES;
}

/* A record of a file's name: *ret_verb, or 0 for another one. */
static int file_verb(unsigned opcode, enum verb *ret_verb) {
    switch (opcode) {
    case OP_NAME:
    case OP_FILE_RUNDOWN:
        *ret_verb = VERB_NAMES;
        return 1;
    case OP_FILE_CREATE:
    case OP_CREATE:
        *ret_verb = VERB_OPENS;
        return 1;
    case OP_FILE_DELETE:
    case OP_CLOSE:
        *ret_verb = VERB_CLOSES;
        return 1;
    default:
        return 0;
    }
}

/* The thing that a record is about; 0: none. */
static int cut_subject_of(const ea_record *r, const ea_class *c, subject *ret) {
    unsigned op = r->opcode;
    *ret = (subject){0};
    if (!(r->flags & EA_FLAG_CLASSIC_HEADER))
        return 0;
    switch (ea_load32(r->provider.bytes)) {
    case 0x3d6fa8d0:
        *ret = (subject){.kind = KIND_PROCESS, .verb = cut_verb_of(op)};
        if (op < OP_START || op > OP_DC_END || !ea_guid_equal(&r->provider, &PROCESS) || !pid_of(r, c, &ret->pid))
            return 0;
        ret->address = ret->pid;
        return 1;
    case 0x3d6fa8d1:
        *ret = (subject){.kind = KIND_THREAD, .verb = op == OP_SET_NAME ? VERB_ADDS : cut_verb_of(op)};
        if (((op < OP_START || op > OP_DC_END) && op != OP_SET_NAME) || !ea_guid_equal(&r->provider, &THREAD) ||
            !pid_of(r, c, &ret->pid))
            return 0;
        if (!cut_address_of(r, c, "TThreadId", &ret->address) && !cut_address_of(r, c, "ThreadId", &ret->address))
            return 0;
        if (ret->address == 0) { /* each processor has one */
            uint64_t base = 0;
            (void)cut_address_of(r, c, "StackBase", &base);
            ret->address = base | UINT64_C(1) << 63;
        }
        return 1;
    case 0x2cb15d1d:
        *ret = (subject){.kind = KIND_MODULE, .verb = cut_verb_of(op)};
        return ((op >= OP_END && op <= OP_DC_END) || op == OP_LOAD) && ea_guid_equal(&r->provider, &IMAGE) &&
               pid_of(r, c, &ret->pid) && cut_address_of(r, c, "ImageBase", &ret->address);
    case 0x90cbdc39:
        ret->kind = KIND_FILE;
        if (!file_verb(op, &ret->verb) || !ea_guid_equal(&r->provider, &FILE_IO))
            return 0;
        return cut_address_of(r, c, "FileObject", &ret->address);
    case 0xae53722e:
        *ret = (subject){.kind = KIND_KEY,
                         .verb = op == OP_KCB_DELETE                      ? VERB_CLOSES
                                 : op == OP_KCB_CREATE && r->version != 1 ? VERB_OPENS
                                                                          : VERB_NAMES};
        return op >= OP_KCB_CREATE && op <= OP_KCB_END && ea_guid_equal(&r->provider, &REGISTRY) &&
               cut_address_of(r, c, "KeyHandle", &ret->address);
    case 0xdef2fe46:
        *ret = (subject){.kind = KIND_STACK_KEY,
                         .verb = op == OP_KEY_CREATE   ? VERB_OPENS
                                 : op == OP_KEY_DELETE ? VERB_CLOSES
                                                       : VERB_NAMES};
        if (op < OP_KEY_CREATE || op > OP_KEY_RUNDOWN || !ea_guid_equal(&r->provider, &STACK_WALK) ||
            r->payload_bytes < 2u * r->pointer_size)
            return 0;
        /* the kernel's and the user's stacks have tables of their own; the first address says which */
        ret->address = ea_load_uint(r->payload, r->pointer_size);
        ret->pid = (uint32_t)(ea_load_uint(r->payload + r->pointer_size, r->pointer_size) >> (8 * r->pointer_size - 1));
        return 1;
    default:
        return 0;
    }
}

/* Facts that hold for the whole trace. */
static int is_definition(const ea_record *r) {
    const ea_guid *p = &r->provider;
    unsigned op = r->opcode;
    return ea_guid_equal(p, &CONFIG) || ea_guid_equal(p, &CONFIG_EX) || ea_guid_equal(p, &META_DATA) ||
           (ea_guid_equal(p, &EVENT_TRACE) && (op == 5 || op == 32 || op == 80)) ||
           (ea_guid_equal(p, &PERF_INFO) && (op == 48 || (op >= 72 && op <= 76))) ||
           (ea_guid_equal(p, &IMAGE_ID) && op == OP_FILE_VERSION) || ea_trace_schemas_concerns(r);
}

static int is_script_engine(const ea_class *c) {
    return strcmp(c->provider_name, "V8.js") == 0;
}

/* Methods, modules and scripts of runtimes. *ret_after: it also speaks of the time before it. */
static int is_method(const ea_record *r, const ea_class *c, int *ret_after) {
    unsigned id = r->id;
    *ret_after = 0;
    if (r->flags & EA_FLAG_CLASSIC_HEADER)
        return 0;
    if (ea_guid_equal(&r->provider, &RUNDOWN)) {
        *ret_after = 1;
        return 1;
    }
    if (ea_guid_equal(&r->provider, &DOTNET)) {
        *ret_after =
            id == 139 || id == 140 || id == 142 || id == 144 || id == 153 || id == 155 || id == 157 || id == 187;
        return (id >= 136 && id <= 159) || id == 187 || id == 190;
    }
    if (ea_guid_equal(&r->provider, &ANNOUNCE)) { /* unloads and rundowns */
        *ret_after = id == 2 || id == 3 || id == 5 || id == 6;
        return *ret_after || id == 1 || id == 4;
    }
    if (ea_guid_equal(&r->provider, &JSCRIPT) || is_script_engine(c)) {
        *ret_after = id == 5 || id == 6 || id == 10 || id == 39 || id == 40;
        return *ret_after || id == 9 || id == 41;
    }
    return 0;
}

static int is_clr(const ea_record *r) {
    return !(r->flags & EA_FLAG_CLASSIC_HEADER) &&
           (ea_guid_equal(&r->provider, &DOTNET) || ea_guid_equal(&r->provider, &RUNDOWN));
}

/* ---- things ---- */

static uint64_t cut_hash_of(const subject *s) {
    uint64_t key[3] = {s->kind, s->kind == KIND_MODULE || s->kind == KIND_STACK_KEY ? s->pid : 0, s->address};
    return ea_hash64(key, sizeof key, 0);
}

static thing *find_thing(const ea_cut *cut, uint64_t hash) {
    const uint64_t *place = ea_u64_map_get(&cut->index, hash);
    thing *t = place && *place ? &cut->things[*place - 1] : NULL;
    if (!t || !t->event)
        return NULL;
    if (t->kind == KIND_THREAD || t->kind == KIND_MODULE) {
        const uint64_t *ended = ea_u64_map_get(&cut->ended, t->pid);
        if (ended && *place - 1 < *ended)
            return NULL;
    }
    return t;
}

/* The ids that came with the same time and are of this module: each is looked at once, however many have that time. */
static void take_ids(ea_cut *cut, thing *t, const ea_record *r, const subject *s) {
    const uint64_t *last = cut->ids_raw == r->time_raw ? ea_u64_map_get(&cut->last_id, s->address) : NULL;
    unsigned count = 0;
    if (!last)
        return;
    size_t at = *last;
    for (size_t i = at; i; i = cut->id_before[i - 1])
        count++;
    (void)ea_u64_map_remove(&cut->last_id, s->address);
    for (; at; at = cut->id_before[at - 1]) {
        if (--count < IDS_MAX) {
            t->ids[count] = cut->ids.items[at - 1];
            t->id_count++;
            cut->ids.items[at - 1] = NULL;
        } else {
            release(cut, &cut->ids.items[at - 1]);
        }
    }
}

static int is_gone(const ea_cut *cut, size_t place) {
    const thing *t = &cut->things[place];
    if (!t->event)
        return 1;
    if (t->kind != KIND_THREAD && t->kind != KIND_MODULE)
        return 0;
    const uint64_t *ended = ea_u64_map_get(&cut->ended, t->pid);
    return ended && place < *ended;
}

/* Things that are over go, and the others keep their order. So the memory is that of the things that are open at once,
 * however many files a trace opens. What ended with a process is gone then, so that `ended` has nothing left to say. */
static int drop_gone(ea_cut *cut) {
    size_t kept = 0;
    int rc = 0;
    for (size_t i = 0; i < cut->thing_count; i++) {
        if (is_gone(cut, i))
            thing_clear(cut, &cut->things[i]);
        else
            cut->things[kept++] = cut->things[i];
    }
    cut->thing_count = kept;
    cut->drop_at = 2 * kept < THINGS_LEAST ? THINGS_LEAST : 2 * kept;
    ea_u64_map_clear(&cut->ended);
    ea_u64_map_clear(&cut->index);
    for (size_t i = 0; !rc && i < kept; i++)
        rc = ea_u64_map_put(&cut->index, cut->things[i].hash, i + 1);
    return rc;
}

static int open_thing(ea_cut *cut, const ea_record *r, const subject *s, uint64_t hash, int is_late, ea_err *err) {
    if (cut->thing_count >= cut->drop_at && drop_gone(cut))
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    if (EA_GROW(cut->things, cut->thing_capacity, cut->thing_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    thing *t = &cut->things[cut->thing_count];
    *t = (thing){.hash = hash, .kind = s->kind, .pid = s->pid, .is_late = (uint8_t)is_late};
    int rc = hold(cut, r, &t->event, err);
    if (rc)
        return rc;
    if (ea_u64_map_put(&cut->index, hash, ++cut->thing_count))
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    if (s->kind == KIND_MODULE)
        take_ids(cut, t, r, s);
    return 0;
}

/* A record up to the cut's end changes the things that are open. */
static int fold(ea_cut *cut, const ea_record *r, const subject *s, ea_err *err) {
    uint64_t hash = cut_hash_of(s);
    thing *t = find_thing(cut, hash);
    int rc = 0;
    if (s->verb == VERB_ADDS) {
        if (!t)
            return 0;
        release(cut, &t->name);
        return hold(cut, r, &t->name, err);
    }
    if (s->kind == KIND_PROCESS && s->verb != VERB_NAMES)
        rc = ea_u64_map_put(&cut->ended, s->pid, cut->thing_count);
    if (rc)
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    if (s->verb == VERB_NAMES && t)
        return 0;
    if (t)
        thing_clear(cut, t);
    if (s->verb == VERB_CLOSES)
        return 0;
    return open_thing(cut, r, s, hash, 0, err);
}

/* A record after the cut says what was open at its end: the first one of a thing. A module's unload, or its rundown at
 * the trace's end, may come after that; of these two some have the image's time stamp, others lack it. */
static int fold_after(ea_cut *cut, const ea_record *r, const ea_class *c, const subject *s, ea_err *err) {
    uint64_t hash = cut_hash_of(s);
    const uint64_t *said = ea_u64_map_get(&cut->decided, hash);
    int is_first = !said, is_module = s->kind == KIND_MODULE;
    int is_last = r->opcode == OP_DC_END || (is_module && s->verb == VERB_CLOSES);
    if (s->verb == VERB_ADDS || (said && (*said == DECIDED || (s->verb != VERB_OPENS && !is_last))))
        return 0;
    if (ea_u64_map_put(&cut->decided, hash, is_module && s->verb == VERB_NAMES && !is_last ? NAMED : DECIDED))
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    thing *t = find_thing(cut, hash);
    if (s->verb == VERB_OPENS || (s->kind == KIND_FILE && r->opcode == OP_CLOSE) ||
        (s->kind == KIND_KEY && s->verb == VERB_CLOSES))
        return 0;
    if (!t)
        return is_first ? open_thing(cut, r, s, hash, 1, err) : 0;
    uint64_t timestamp = 1;
    if (is_module)
        (void)ea_event_u64(c, r, "TimeDateStamp", &timestamp);
    if (s->kind > KIND_MODULE || !is_last || !timestamp)
        return 0;
    release(cut, &t->event); /* the trace's own rundown knows no less */
    return hold(cut, r, &t->event, err);
}

/* ---- writing ---- */

static int put(ea_cut *cut, const ea_relog_event *e, int64_t time_raw, uint64_t *count) {
    ea_relog_event moved = *e;
    moved.time_raw = time_raw;
    moved.cpu = 0;
    ++*count;
    return cut->options.emit(cut->options.emit_arg, &moved);
}

/* A Create names a file by its last field; a rundown has the object and the name alone. */
static int put_created(ea_cut *cut, const ea_relog_event *e, int64_t time_raw) {
    unsigned width = e->pointer_size;
    /* FileIo_Create: IrpPtr, TTID or FileObject, FileObject or TTID, three u32, OpenPath (versions 2 and 3 and later)
     */
    size_t at = e->version >= 3 ? 2u * width + 4u + 12u : 3u * width + 12u;
    size_t object_at = e->version >= 3 ? width : 2u * width;
    uint8_t payload[UINT16_MAX];
    if (e->payload_bytes < at)
        return 0;
    size_t n = e->payload_bytes - at;
    memcpy(payload, e->payload + object_at, width);
    memcpy(payload + width, e->payload + at, n);
    ea_relog_event rundown = *e;
    rundown.opcode = OP_FILE_RUNDOWN;
    rundown.hook_id = (uint16_t)((e->hook_id & 0xFF00) | (e->hook_id ? OP_FILE_RUNDOWN : 0));
    rundown.version = 2;
    rundown.header_word = (uint16_t)((e->header_word & 0xFF00) | 2);
    rundown.payload = payload;
    rundown.payload_bytes = (uint16_t)(width + n);
    return put(cut, &rundown, time_raw, &cut->counts.file_names);
}

static void set_opcode(ea_relog_event *e, unsigned opcode) {
    if (e->hook_id)
        e->hook_id = (uint16_t)((e->hook_id == HOOK_LOAD ? HOOK_IMAGE : e->hook_id & 0xFF00) | opcode);
    e->opcode = (uint8_t)opcode;
}

static int put_thing(ea_cut *cut, const thing *t, int64_t time_raw, int at_end) {
    uint64_t *counts[KIND_COUNT] = {&cut->counts.processes,  &cut->counts.threads,   &cut->counts.modules,
                                    &cut->counts.file_names, &cut->counts.key_names, &cut->counts.stack_keys};
    ea_relog_event e = *t->event;
    int rc = 0;
    switch (t->kind) {
    case KIND_FILE:
        if (e.opcode == OP_CREATE)
            return put_created(cut, &e, time_raw);
        set_opcode(&e, OP_FILE_RUNDOWN);
        break;
    case KIND_KEY:
        if (e.version != 1)
            set_opcode(&e, at_end ? OP_KCB_END : OP_KCB_BEGIN);
        break;
    case KIND_STACK_KEY:
        break;
    default:
        set_opcode(&e, at_end ? OP_DC_END : OP_DC_START);
        break;
    }
    for (unsigned i = 0; !rc && i < t->id_count; i++)
        rc = put(cut, t->ids[i], time_raw, &cut->counts.image_ids);
    if (!rc)
        rc = put(cut, &e, time_raw, counts[t->kind]);
    if (!rc && t->name && !at_end)
        rc = put(cut, t->name, time_raw, &cut->counts.threads);
    return rc;
}

static int cut_put_list(ea_cut *cut, held_list *l, int64_t time_raw, uint64_t *count) {
    int rc = 0;
    for (size_t i = 0; !rc && i < l->count; i++)
        rc = put(cut, l->items[i], time_raw, count);
    list_clear(cut, l);
    return rc;
}

static int begin_cut(ea_cut *cut) {
    int64_t at = cut->options.from_raw;
    int rc = cut_put_list(cut, &cut->before, at, &cut->counts.definitions);
    cut->has_begun = 1;
    for (int kind = 0; kind < KIND_COUNT; kind++) /* processes before their threads and modules */
        for (size_t i = 0; !rc && i < cut->thing_count; i++)
            if (cut->things[i].kind == (enum kind)kind && !is_gone(cut, i))
                rc = put_thing(cut, &cut->things[i], at, 0);
    return rc ? rc : cut_put_list(cut, &cut->methods_before, at, &cut->counts.methods);
}

/* ---- stacks ---- */

/* 1: the record is a stack of an event with this time. */
static int names_event(const ea_record *r, int64_t *ret_time) {
    unsigned op = r->opcode;
    if (!ea_guid_equal(&r->provider, &STACK_WALK) || r->payload_bytes < 8 ||
        (op != OP_STACK && op != OP_STACK_KEY_KERNEL && op != OP_STACK_KEY_USER))
        return 0;
    *ret_time = (int64_t)ea_load64(r->payload);
    return 1;
}

static int cut_is_inside(const ea_cut *cut, int64_t time_raw) {
    return time_raw >= cut->options.from_raw && time_raw < cut->options.to_raw;
}

static uint64_t cut_key_hash(uint64_t key, int is_kernel) {
    uint64_t both[2] = {key, (uint64_t)is_kernel};
    return ea_hash64(both, sizeof both, 0);
}

/* A stack that is kept; its key, when it names one, has to be defined. */
static int note_key(ea_cut *cut, const ea_record *r, ea_err *err) {
    enum { KEY_AT = 16 }; /* after time, process and thread */

    if (r->opcode == OP_STACK || r->payload_bytes < KEY_AT + r->pointer_size)
        return 0;
    uint64_t key = ea_load_uint(r->payload + KEY_AT, r->pointer_size);
    if (ea_u64_map_put(&cut->used_keys, cut_key_hash(key, r->opcode == OP_STACK_KEY_KERNEL), 1))
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    return 0;
}

static int stack_is_wanted(const ea_cut *cut, int64_t event_raw) {
    return cut_is_inside(cut, event_raw) &&
           (!cut->options.is_filtered || ea_u64_map_get(&cut->kept_times, (uint64_t)event_raw));
}

static int is_stack_item(const ea_ext *x) {
    return x->type >= EA_EXT_STACK_TRACE32 && x->size_bytes >= 8 &&
           (x->type <= EA_EXT_STACK_TRACE64 || x->type == EA_EXT_STACK_KEY32 || x->type == EA_EXT_STACK_KEY64);
}

/* Stacks inside a kept record: a match id by which a half comes later (awaits 1), and a key. Returns 0, or what the
 * maps return. */
static int note_items(ea_cut *cut, const ea_record *r, int awaits) {
    int rc = 0;
    for (unsigned i = 0; !rc && i < r->ext_count; i++) {
        const ea_ext *x = &r->ext[i];
        if (!is_stack_item(x))
            continue;
        if (awaits && ea_load64(x->data))
            rc = ea_u64_map_put(&cut->matches, ea_load64(x->data), 1);
        unsigned width = x->type == EA_EXT_STACK_KEY64 ? 8 : 4;
        if (rc || x->type < EA_EXT_STACK_KEY32 || x->size_bytes < 8 + width)
            continue;
        uint64_t key = ea_load_uint(x->data + 8, width);
        rc = ea_u64_map_put(&cut->used_keys, cut_key_hash(key, 0), 1);
        if (!rc)
            rc = ea_u64_map_put(&cut->used_keys, cut_key_hash(key, 1), 1);
    }
    return rc;
}

static int is_match_record(const ea_record *r) {
    return r->id == ID_MATCH && !(r->flags & EA_FLAG_CLASSIC_HEADER) && ea_guid_equal(&r->provider, &EVENT_TRACING);
}

/* Such a record brings the half of a kept event. */
static int is_awaited(ea_cut *cut, const ea_record *r) {
    for (unsigned i = 0; i < r->ext_count; i++)
        if (is_stack_item(&r->ext[i]))
            return ea_u64_map_remove(&cut->matches, ea_load64(r->ext[i].data));
    return 0;
}

/* A kept event: what its stacks will name. */
static int cut_note_kept(ea_cut *cut, const ea_record *r, ea_err *err) {
    int rc = 0;
    if (cut->options.is_filtered)
        rc = ea_u64_map_put(&cut->kept_times, (uint64_t)r->time_raw, 1);
    if (!rc && r->ext_count)
        rc = note_items(cut, r, 1);
    if (!rc && is_clr(r)) {
        if (r->id == ID_CLR_STACK)
            (void)ea_u64_map_remove(&cut->clr, r->tid);
        else
            rc = ea_u64_map_put(&cut->clr, r->tid, 1);
    }
    return rc ? ea_fail(err, EA_ENOMEM, "cut a trace") : 0;
}

/* Whether a record after the cut is a stack of an event in it. */
static int is_late_stack(ea_cut *cut, const ea_record *r) {
    int64_t event_raw;
    if (names_event(r, &event_raw))
        return stack_is_wanted(cut, event_raw);
    if (is_match_record(r))
        return is_awaited(cut, r);
    if (!is_clr(r))
        return 0;
    int waits = ea_u64_map_remove(&cut->clr, r->tid);
    return waits && r->id == ID_CLR_STACK;
}

/* ---- the records ---- */

/* The module of an image id; 0: it has none. */
static int base_of_id(const ea_record *r, uint64_t *ret) {
    if (r->payload_bytes < r->pointer_size)
        return 0;
    *ret = ea_load_uint(r->payload, r->pointer_size);
    return 1;
}

static void forget_ids(ea_cut *cut) {
    uint64_t base;
    for (size_t i = 0; i < cut->ids.count; i++)
        if (cut->ids.items[i] && base_of_id((const ea_record *)cut->ids.items[i], &base))
            (void)ea_u64_map_remove(&cut->last_id, base);
    list_clear(cut, &cut->ids);
}

static int note_ids(ea_cut *cut, const ea_record *r, ea_err *err) {
    uint64_t base;
    if (cut->ids_raw != r->time_raw)
        forget_ids(cut);
    cut->ids_raw = r->time_raw;
    if (!base_of_id(r, &base))
        return 0;
    const uint64_t *last = ea_u64_map_get(&cut->last_id, base);
    size_t place = cut->ids.count, before = last ? (size_t)*last : 0;
    int rc = list_add(cut, &cut->ids, r, err);
    if (rc)
        return rc;
    if (EA_GROW(cut->id_before, cut->id_before_capacity, place + 1, SIZE_MAX) ||
        ea_u64_map_put(&cut->last_id, base, place + 1))
        return ea_fail(err, EA_ENOMEM, "cut a trace");
    cut->id_before[place] = before;
    return 0;
}

static int take_before(ea_cut *cut, const ea_record *r, const ea_class *c, ea_err *err) {
    subject s;
    int after;
    if (cut_subject_of(r, c, &s))
        return fold(cut, r, &s, err);
    if (is_definition(r))
        return list_add(cut, &cut->before, r, err);
    return is_method(r, c, &after) ? list_add(cut, &cut->methods_before, r, err) : 0;
}

static int take_after(ea_cut *cut, const ea_record *r, const ea_class *c, ea_err *err) {
    subject s;
    int after;
    int is_thing = cut_subject_of(r, c, &s);
    if (is_thing && s.kind == KIND_STACK_KEY) /* a late stack may use what came before it */
        return list_add(cut, &cut->stacks_after, r, err);
    if (is_thing)
        return fold_after(cut, r, c, &s, err);
    if (is_definition(r))
        return list_add(cut, &cut->after, r, err);
    if (is_late_stack(cut, r)) {
        int64_t event_raw;
        int rc = names_event(r, &event_raw) ? note_key(cut, r, err)
                 : note_items(cut, r, 0)    ? ea_fail(err, EA_ENOMEM, "cut a trace")
                                            : 0;
        return rc ? rc : list_add(cut, &cut->stacks_after, r, err);
    }
    return is_method(r, c, &after) && after ? list_add(cut, &cut->methods_after, r, err) : 0;
}

/* A record inside: EA_RELOG_KEEP or EA_RELOG_DROP. */
static int take_inside(ea_cut *cut, const ea_record *r, const ea_class *c, int wanted, ea_err *err) {
    subject s;
    int64_t event_raw;
    int after, rc = 0;
    if (names_event(r, &event_raw)) {
        if (!stack_is_wanted(cut, event_raw))
            return EA_RELOG_DROP;
        rc = note_key(cut, r, err);
        return rc ? rc : EA_RELOG_KEEP;
    }
    if (is_match_record(r)) {
        if (!is_awaited(cut, r))
            return EA_RELOG_DROP;
        return note_items(cut, r, 0) ? ea_fail(err, EA_ENOMEM, "cut a trace") : EA_RELOG_KEEP;
    }
    if (cut_subject_of(r, c, &s)) {
        rc = fold(cut, r, &s, err);
        /* operations on files are events like others, beside the name that they give */
        wanted |= s.kind != KIND_FILE || (r->opcode != OP_CREATE && r->opcode != OP_CLOSE);
    } else if (!wanted) {
        wanted = is_definition(r) || ea_guid_equal(&r->provider, &IMAGE_ID) || is_method(r, c, &after);
    }
    if (!rc && wanted)
        rc = cut_note_kept(cut, r, err);
    return rc ? rc : wanted ? EA_RELOG_KEEP : EA_RELOG_DROP;
}

int ea_cut_take(ea_cut *cut, const ea_record *r, const ea_class *c, int wanted, ea_err *err) {
    const ea_cut_options *o = &cut->options;
    int rc = 0;
    if (o->bare)
        return cut_is_inside(cut, r->time_raw) && wanted ? EA_RELOG_KEEP : EA_RELOG_DROP;
    if (ea_guid_equal(&r->provider, &IMAGE_ID) && r->opcode != OP_FILE_VERSION)
        rc = note_ids(cut, r, err);
    if (rc)
        return rc;
    if (r->time_raw < o->from_raw) {
        rc = take_before(cut, r, c, err);
        return rc ? rc : EA_RELOG_DROP;
    }
    if (!cut->has_begun && (rc = begin_cut(cut)) != 0)
        return rc;
    if (r->time_raw < o->to_raw)
        return take_inside(cut, r, c, wanted, err);
    rc = take_after(cut, r, c, err);
    return rc ? rc : EA_RELOG_DROP;
}

/* Late stacks, and the definitions of keys that stacks of the cut use, in the order of the trace: the same key stands
 * for different stacks at different times. */
static int put_stacks(ea_cut *cut) {
    held_list *l = &cut->stacks_after;
    int rc = 0;
    for (size_t i = 0; !rc && i < l->count; i++) {
        const ea_relog_event *e = l->items[i];
        subject s;
        if (!cut_subject_of((const ea_record *)e, NULL, &s))
            rc = put(cut, e, cut->options.to_raw, &cut->counts.late_stacks);
        else if (ea_u64_map_get(&cut->used_keys, cut_key_hash(s.address, (int)s.pid)))
            rc = put(cut, e, cut->options.to_raw, &cut->counts.stack_keys);
    }
    list_clear(cut, l);
    return rc;
}

void ea_cut_end(ea_cut *cut, int64_t to_raw) {
    cut->options.to_raw = to_raw;
}

int ea_cut_finish(ea_cut *cut) {
    int64_t at = cut->options.to_raw;
    int rc = 0;
    if (cut->options.bare)
        return 0;
    if (!cut->has_begun)
        rc = begin_cut(cut);
    if (rc || at == INT64_MAX)
        return rc;
    rc = put_stacks(cut);
    if (!rc)
        rc = cut_put_list(cut, &cut->after, at, &cut->counts.definitions);
    for (int kind = KIND_COUNT; !rc && kind-- > 0;) /* processes end after their threads and modules */
        for (size_t i = 0; !rc && i < cut->thing_count; i++) {
            const thing *t = &cut->things[i];
            if (t->kind == (enum kind)kind && !is_gone(cut, i) && (t->is_late || kind <= KIND_MODULE))
                rc = put_thing(cut, t, at, 1);
        }
    return rc ? rc : cut_put_list(cut, &cut->methods_after, at, &cut->counts.methods);
}

unsigned ea_cut_needs(const ea_class *c) {
    ea_record r = {.provider = c->provider,
                   .id = c->classic ? 0 : c->code,
                   .opcode = c->classic ? (uint8_t)c->code : 0,
                   .version = c->version,
                   .flags = c->classic ? EA_FLAG_CLASSIC_HEADER : 0};
    int after = 0, is_method_class = is_method(&r, c, &after), is_walk = ea_guid_equal(&c->provider, &STACK_WALK);
    unsigned needs = 0;
    if (is_definition(&r))
        needs |= EA_CUT_NEEDS_BEFORE | EA_CUT_NEEDS_AFTER;
    if (is_method_class)
        needs |= EA_CUT_NEEDS_BEFORE | (after ? EA_CUT_NEEDS_AFTER : 0);
    if (is_walk && r.opcode >= OP_KEY_CREATE && r.opcode <= OP_KEY_RUNDOWN)
        needs |= EA_CUT_NEEDS_BEFORE | EA_CUT_NEEDS_SOON;
    if ((is_walk && (r.opcode == OP_STACK || r.opcode == OP_STACK_KEY_KERNEL || r.opcode == OP_STACK_KEY_USER)) ||
        is_match_record(&r) || is_clr(&r))
        needs |= EA_CUT_NEEDS_SOON;
    return needs;
}

const ea_cut_counts *ea_cut_count(const ea_cut *cut) {
    return &cut->counts;
}
