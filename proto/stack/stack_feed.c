/* See stack_feed.h. */
#include "proto/stack/stack_feed.h"

#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/provider_guids.h"

#include <stdlib.h>

static const ea_guid STACK_WALK = EA_PROVIDER_STACK_WALK;
static const ea_guid EVENT_TRACING = EA_PROVIDER_EVENT_TRACING;
/* Events that merging adds about images, at the time of the Image event. No stack is ever walked for them. */
static const ea_guid IMAGE_ID = EA_PROVIDER_IMAGE_ID;
/* runtime, rundown, stress, private: ClrEtwAll.man */
static const ea_guid CLR[] = {
    EA_PROVIDER_DOTNET_RUNTIME,
    EA_PROVIDER_DOTNET_RUNDOWN,
    EA_PROVIDER_DOTNET_STRESS,
    EA_PROVIDER_DOTNET_PRIVATE,
};

enum { WALK = 32, KEY_CREATE = 34, KEY_RUNDOWN = 36, KEY_KERNEL = 37, KEY_USER = 38, USER_MODE_STACK = 18 };

enum { RECENT = 64 };

/* A plan, and the offsets of its fields in payloads where the fields before them have a fixed size: such a record needs
 * no walk over its fields. Offsets in bytes. */
typedef struct layout {
    ea_stack_plan plan;
    uint16_t thread_at;   /* of an event; EA_OFFSET_NONE: the header has the thread */
    uint16_t fixed_bytes; /* of a walk or a definition: the bytes before its addresses, which take the rest; 0: the
                           * record is split field by field */
    uint16_t time_at, pid_at, tid_at, key_at;
    uint8_t key_bytes;
} layout;

/* What a walk or a definition says. Members that the plan has no field for are 0. */
typedef struct members {
    int64_t time;
    uint64_t key;
    uint32_t pid, tid;
    const uint8_t *addresses; /* in the record */
    size_t count;
} members;

struct ea_stack_feed {
    ea_stack_join *join;
    ea_u64_map by_class; /* address of the class -> index */

    struct {
        const ea_class *c;
        uint32_t index;
    } recent[RECENT]; /* by the class's address: what the map would say */

    layout *layouts;
    size_t count, capacity;
};

static int16_t field_of(const ea_class *c, enum ea_semantic semantic, const char *name) {
    for (size_t i = 0; i < ea_class_top_count(c); i++) {
        const ea_field *f = &c->fields[ea_class_top_field(c, i)];
        if (name ? strcmp(f->name, name) == 0 : f->semantic == semantic)
            return (int16_t)i;
    }
    return -1;
}

static ea_stack_plan plan_of_walk(const ea_class *c, ea_stack_plan p) {
    p.time = field_of(c, EA_SEM_QPC, NULL);
    p.pid = field_of(c, EA_SEM_PID, NULL);
    p.tid = field_of(c, EA_SEM_TID, NULL);
    p.key = field_of(c, EA_SEM_STACK_KEY, NULL);
    p.addresses = field_of(c, EA_SEM_STACK, NULL);
    int is_walk = p.time >= 0 && p.tid >= 0 && p.pid >= 0;
    p.role = EA_STACK_IS_NOTHING;
    p.opcode = (uint8_t)c->code;
    if (c->code == WALK && is_walk && p.addresses >= 0)
        p.role = EA_STACK_IS_WALK;
    else if (c->code >= KEY_CREATE && c->code <= KEY_RUNDOWN && p.key >= 0 && p.addresses >= 0)
        p.role = EA_STACK_IS_DEFINITION;
    else if (c->code == KEY_KERNEL && is_walk && p.key >= 0)
        p.role = EA_STACK_IS_KEY_KERNEL;
    else if (c->code == KEY_USER && is_walk && p.key >= 0)
        p.role = EA_STACK_IS_KEY_USER;
    return p;
}

ea_stack_plan ea_stack_plan_of(const ea_class *c) {
    ea_stack_plan p = {.time = -1, .pid = -1, .tid = -1, .thread = -1, .key = -1, .addresses = -1};
    if (c->classic && ea_guid_equal(&c->provider, &STACK_WALK))
        return plan_of_walk(c, p);
    if (c->classic && ea_guid_equal(&c->provider, &IMAGE_ID))
        p.role = EA_STACK_IS_NOTHING;
    if (!c->classic && c->code == USER_MODE_STACK && ea_guid_equal(&c->provider, &EVENT_TRACING))
        p.role = EA_STACK_IS_MATCH;
    for (size_t i = 0; i < sizeof CLR / sizeof *CLR; i++)
        if (!c->classic && ea_guid_equal(&c->provider, &CLR[i]))
            p.clr = (uint8_t)(i + 1);
    if (p.clr && strcmp(c->name, "ClrStack/Walk") == 0) {
        p.addresses = field_of(c, EA_SEM_STACK, NULL);
        p.role = p.addresses >= 0 ? EA_STACK_IS_CLR_WALK : EA_STACK_IS_NOTHING;
    }
    if (strcmp(c->name, "PerfInfo/SampleProf") == 0 || strcmp(c->name, "PerfInfo/PmcCounterProf") == 0)
        p.thread = field_of(c, EA_SEM_NONE, "ThreadId");
    else if (strcmp(c->name, "Thread/CSwitch") == 0)
        p.thread = field_of(c, EA_SEM_NONE, "NewThreadId");
    return p;
}

size_t ea_stack_kernel_count(const uint8_t *addresses, size_t count, unsigned pointer_size) {
    size_t kernel = 0;
    while (kernel < count &&
           ea_stack_is_kernel(ea_load_uint(addresses + kernel * pointer_size, pointer_size), pointer_size))
        kernel++;
    return kernel;
}

size_t ea_stack_halves(ea_stacks *stacks, const uint8_t *addresses, size_t count, unsigned pointer_size,
                       uint32_t ret_half[EA_STACK_HALVES]) {
    size_t kernel = ea_stack_kernel_count(addresses, count, pointer_size);
    const ea_stack_list lists[EA_STACK_HALVES] = {
        [EA_STACK_KERNEL] = {addresses, kernel},
        [EA_STACK_USER] = {addresses + kernel * pointer_size, count - kernel},
    };
    ea_stacks_add_all(stacks, lists, EA_STACK_HALVES, pointer_size, ret_half);
    return kernel;
}

static void stack_feed_inside(ea_stack_join *j, const uint8_t *addresses, size_t count, unsigned pointer_size,
                              uint64_t match_id, enum ea_stack_role role) {
    uint32_t half[EA_STACK_HALVES];
    if (!count) {
        ea_stack_join_unusable(j);
        return;
    }
    size_t kernel = ea_stack_halves(ea_stack_join_stacks(j), addresses, count, pointer_size, half);
    if (role == EA_STACK_IS_MATCH) {
        ea_stack_join_match(j, match_id, half[EA_STACK_USER] ? half[EA_STACK_USER] : half[EA_STACK_KERNEL]);
        return;
    }
    if (kernel)
        ea_stack_join_inside(j, EA_STACK_KERNEL, half[EA_STACK_KERNEL], match_id);
    if (kernel < count)
        ea_stack_join_inside(j, EA_STACK_USER, half[EA_STACK_USER], match_id);
}

static int stack_feed_is_trace(uint16_t type) {
    return type == EA_EXT_STACK_TRACE32 || type == EA_EXT_STACK_TRACE64;
}

static int is_key(uint16_t type) {
    return type == EA_EXT_STACK_KEY32 || type == EA_EXT_STACK_KEY64;
}

/* Layouts: evntcons.h EVENT_EXTENDED_ITEM_STACK_TRACE32/64 and _STACK_KEY32/64: u64 match id, then addresses or one
 * key. A key with a match id stands for the kernel's half, whose other half comes by that id; else for the user's. */
void ea_stack_feed_item(ea_stack_join *j, const ea_ext *item, enum ea_stack_role role) {
    unsigned width = item->type == EA_EXT_STACK_TRACE32 || item->type == EA_EXT_STACK_KEY32 ? 4 : 8;
    if (!stack_feed_is_trace(item->type) && !is_key(item->type))
        return;
    if (item->size_bytes < 8 + width) {
        ea_stack_join_unusable(j);
        return;
    }
    uint64_t match_id = ea_load64(item->data);
    if (stack_feed_is_trace(item->type)) {
        stack_feed_inside(j, item->data + 8, (item->size_bytes - 8) / width, width, match_id, role);
        return;
    }
    enum ea_stack_half half = match_id && role != EA_STACK_IS_MATCH ? EA_STACK_KERNEL : EA_STACK_USER;
    uint32_t number = ea_stacks_use(ea_stack_join_stacks(j), half, ea_load_uint(item->data + 8, width));
    if (role == EA_STACK_IS_MATCH)
        ea_stack_join_match(j, match_id, number);
    else
        ea_stack_join_inside(j, half, number, match_id);
}

int ea_stack_feed_create(ea_stack_feed **ret, ea_stack_join *j, ea_err *err) {
    ea_stack_feed *f = calloc(1, sizeof *f);
    if (!f)
        return ea_fail(err, EA_ENOMEM, "join stacks");
    f->join = j;
    ea_u64_map_init(&f->by_class, 0);
    *ret = f;
    return 0;
}

void ea_stack_feed_destroy(ea_stack_feed *f) {
    if (!f)
        return;
    ea_u64_map_deinit(&f->by_class);
    free(f->layouts);
    free(f);
}

/* 1 when every record that has the leading fields has this one, of so many bytes, too (or the plan has none such). */
static int stands_fixed(const ea_class *c, int16_t field, unsigned bytes, uint16_t *ret_at) {
    if (field < 0)
        return 1;
    if (field >= c->fixed_fields || c->fields[field].width != bytes || c->fields[field].count != 1)
        return 0;
    *ret_at = c->fields[field].offset;
    return 1;
}

static layout stack_feed_layout_of(const ea_class *c) {
    layout l = {.plan = ea_stack_plan_of(c), .thread_at = EA_OFFSET_NONE};
    const ea_stack_plan *p = &l.plan;
    if (p->thread >= 0)
        l.thread_at = c->fields[ea_class_top_field(c, (size_t)p->thread)].offset;
    if (p->key >= 0 && p->key < c->fixed_fields)
        l.key_bytes = c->fields[p->key].width;
    const ea_field *list = p->addresses >= 0 ? &c->fields[ea_class_top_field(c, (size_t)p->addresses)] : NULL;
    int is_last = p->addresses < 0 || (p->addresses == c->fixed_fields && list->count_field < 0 &&
                                       list->count == EA_COUNT_REST && list->width == c->pointer_size);
    if (is_last && stands_fixed(c, p->time, 8, &l.time_at) && stands_fixed(c, p->pid, 4, &l.pid_at) &&
        stands_fixed(c, p->tid, 4, &l.tid_at) && stands_fixed(c, p->key, l.key_bytes, &l.key_at))
        l.fixed_bytes = c->fixed_bytes;
    return l;
}

static const layout *add_layout(ea_stack_feed *f, const ea_class *c) {
    if (EA_GROW(f->layouts, f->capacity, f->count + 1, SIZE_MAX) ||
        ea_u64_map_put(&f->by_class, (uintptr_t)c, f->count))
        return NULL;
    f->layouts[f->count] = stack_feed_layout_of(c);
    return &f->layouts[f->count++];
}

static const layout *find_layout(ea_stack_feed *f, const ea_class *c) {
    size_t at = (uintptr_t)c / sizeof(ea_class) % RECENT;
    if (f->recent[at].c == c)
        return &f->layouts[f->recent[at].index];
    const uint64_t *known = ea_u64_map_get(&f->by_class, (uintptr_t)c);
    const layout *l = known ? &f->layouts[*known] : add_layout(f, c);
    if (l) {
        f->recent[at].c = c;
        f->recent[at].index = (uint32_t)(l - f->layouts);
    }
    return l;
}

void ea_stack_feed_begin(ea_stack_feed *f, ea_stack_join *j) {
    f->join = j;
}

int ea_stack_feed_brings(ea_stack_feed *f, const ea_record *r, const ea_class *c) {
    const layout *l = find_layout(f, c);
    if (!l)
        return EA_ENOMEM;
    if (l->plan.role != EA_STACK_IS_EVENT && l->plan.role != EA_STACK_IS_NOTHING)
        return EA_STACK_BRINGS_WALK;
    for (unsigned i = 0; i < r->ext_count; i++)
        if (stack_feed_is_trace(r->ext[i].type) || is_key(r->ext[i].type))
            return EA_STACK_BRINGS_INSIDE;
    return 0;
}

static uint32_t stack_feed_thread_of(const layout *l, const ea_record *r) {
    return l->thread_at != EA_OFFSET_NONE && l->thread_at + 4u <= r->payload_bytes
               ? ea_load32(r->payload + l->thread_at)
               : r->tid;
}

int ea_stack_feed_thread(ea_stack_feed *f, const ea_record *r, const ea_class *c, uint32_t *ret_tid) {
    const layout *l = find_layout(f, c);
    if (!l)
        return EA_ENOMEM;
    if (l->plan.role != EA_STACK_IS_EVENT)
        return 0;
    *ret_tid = stack_feed_thread_of(l, r);
    return 1;
}

static uint64_t number_in(const ea_slice *slices, int16_t field) {
    return field >= 0 ? ea_load_uint(slices[field].data, slices[field].len_bytes) : 0;
}

/* 0 when the payload ends before what the plan names. */
static int split_walk(const ea_record *r, const ea_class *c, const ea_stack_plan *p, members *ret) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, r->payload, r->payload_bytes, slices, &used);
    if (whole <= (size_t)(p->addresses > p->key ? p->addresses : p->key))
        return 0;
    ea_slice list = p->addresses >= 0 ? slices[p->addresses] : (ea_slice){0};
    *ret = (members){.time = (int64_t)number_in(slices, p->time),
                     .key = number_in(slices, p->key),
                     .pid = (uint32_t)number_in(slices, p->pid),
                     .tid = (uint32_t)number_in(slices, p->tid),
                     .addresses = list.data,
                     .count = list.len_bytes / c->pointer_size};
    return 1;
}

static int walk_members(const ea_record *r, const ea_class *c, const layout *l, members *ret) {
    const ea_stack_plan *p = &l->plan;
    if (!l->fixed_bytes || r->payload_bytes < l->fixed_bytes)
        return split_walk(r, c, p, ret);
    const uint8_t *at = r->payload;
    size_t left = p->addresses >= 0 ? (size_t)r->payload_bytes - l->fixed_bytes : 0;
    ret->time = p->time >= 0 ? (int64_t)ea_load64(at + l->time_at) : 0;
    ret->key = p->key >= 0 ? ea_load_uint(at + l->key_at, l->key_bytes) : 0;
    ret->pid = p->pid >= 0 ? ea_load32(at + l->pid_at) : 0;
    ret->tid = p->tid >= 0 ? ea_load32(at + l->tid_at) : 0;
    ret->addresses = at + l->fixed_bytes;
    ret->count = c->pointer_size == 8 ? left / 8 : left / 4;
    return 1;
}

static int stack_feed_walk(ea_stack_join *j, const ea_record *r, const ea_class *c, const layout *l) {
    ea_stacks *stacks = ea_stack_join_stacks(j);
    const ea_stack_plan *p = &l->plan;
    unsigned width = c->pointer_size;
    int has_key = p->role == EA_STACK_IS_KEY_KERNEL || p->role == EA_STACK_IS_KEY_USER;
    members m;
    if (!walk_members(r, c, l, &m) || (!has_key && !m.count)) {
        ea_stack_join_unusable(j);
        return 0;
    }
    if (p->role == EA_STACK_IS_DEFINITION) {
        ea_stacks_define(stacks, p->opcode, m.key, m.addresses, m.count, width);
        return 0;
    }
    if (p->role == EA_STACK_IS_CLR_WALK) {
        ea_stack_join_clr_walk(j, (uint64_t)p->clr << 32 | r->tid, ea_stacks_add(stacks, m.addresses, m.count, width));
        return 0;
    }
    if (has_key) {
        enum ea_stack_half half = p->role == EA_STACK_IS_KEY_KERNEL ? EA_STACK_KERNEL : EA_STACK_USER;
        return ea_stack_join_walk(j, m.time, m.pid, m.tid, r->cpu, half, ea_stacks_use(stacks, half, m.key));
    }
    uint32_t half[EA_STACK_HALVES];
    size_t kernel = ea_stack_halves(stacks, m.addresses, m.count, width, half);
    if (kernel && kernel < m.count)
        return ea_stack_join_walks(j, m.time, m.pid, m.tid, r->cpu, half);
    enum ea_stack_half which = kernel ? EA_STACK_KERNEL : EA_STACK_USER;
    return ea_stack_join_walk(j, m.time, m.pid, m.tid, r->cpu, which, half[which]);
}

int ea_stack_feed_record(ea_stack_feed *f, const ea_record *r, const ea_class *c, uint64_t tag) {
    const layout *l = find_layout(f, c);
    ea_stack_join *j = f->join;
    int rc = 0;
    if (!l)
        return EA_ENOMEM;
    const ea_stack_plan *p = &l->plan;
    if (p->role == EA_STACK_IS_NOTHING)
        return 0;
    if (p->role != EA_STACK_IS_EVENT && p->role != EA_STACK_IS_MATCH)
        return stack_feed_walk(j, r, c, l);
    if (p->role == EA_STACK_IS_EVENT) {
        rc = ea_stack_join_event(j, r->time_raw, stack_feed_thread_of(l, r), r->cpu, tag);
        if (p->clr)
            ea_stack_join_clr_event(j, (uint64_t)p->clr << 32 | r->tid);
    }
    for (unsigned i = 0; i < r->ext_count; i++)
        ea_stack_feed_item(j, &r->ext[i], p->role);
    return rc;
}
