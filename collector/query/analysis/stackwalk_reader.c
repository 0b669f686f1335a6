/* See stackwalk_reader.h. */
#include "collector/query/analysis/stackwalk_reader.h"

/* The cursor's fields. */
enum { WALK_TIME, WALK_PID, WALK_TID, WALK_KEY };

void ec_stackwalk_reader_plan(ec_event_cursor_plan *cursor, const ea_stack_plan *plan) {
    cursor->fields[WALK_TIME] = plan->time;
    cursor->fields[WALK_PID] = plan->pid;
    cursor->fields[WALK_TID] = plan->tid;
    cursor->fields[WALK_KEY] = plan->key;
    cursor->addresses = plan->addresses;
}

/* A walk's halves in one number: numbers of stacks are below 2^31, so there is room for which halves it has. */
static const uint64_t IS_KERNEL = UINT64_C(1) << 63, HAS_USER = UINT64_C(1) << 31;

static uint64_t pack_halves(size_t kernel, size_t count, const uint32_t half[EA_STACK_HALVES]) {
    return (uint64_t)half[EA_STACK_KERNEL] << 32 | half[EA_STACK_USER] | (kernel ? IS_KERNEL : 0) |
           (kernel < count ? HAS_USER : 0);
}

/* Finds the halves of a walk that the batch stores once, and those of the next ones, which are needed soon. */
static void learn_halves(const ec_stackwalk_reader *w, const ec_event_cursor_event *e) {
    enum { WALKS = EA_STACKS_AT_ONCE / EA_STACK_HALVES };

    ea_stack_list halves[EA_STACKS_AT_ONCE];
    uint64_t *memories[WALKS], *memory;
    uint32_t numbers[EA_STACKS_AT_ONCE];
    unsigned width = e->c->pointer_size;
    size_t n = 0;
    ea_slice list;
    for (uint32_t i = 0; i < WALKS && ec_event_cursor_repeated_next(w->cursor, e, i, &list, &memory); i++) {
        size_t count = list.len_bytes / width;
        if (*memory || !list.data || !count)
            continue;
        size_t kernel = ea_stack_kernel_count(list.data, count, width);
        memories[n] = memory;
        halves[EA_STACK_HALVES * n + EA_STACK_KERNEL] = (ea_stack_list){list.data, kernel};
        halves[EA_STACK_HALVES * n++ + EA_STACK_USER] = (ea_stack_list){list.data + kernel * width, count - kernel};
    }
    ea_stacks_add_all(w->stacks, halves, EA_STACK_HALVES * n, width, numbers);
    for (size_t i = 0; i < n; i++) {
        const ea_stack_list *pair = halves + EA_STACK_HALVES * i;
        *memories[i] = pack_halves(pair[EA_STACK_KERNEL].count, pair[EA_STACK_KERNEL].count + pair[EA_STACK_USER].count,
                                   numbers + EA_STACK_HALVES * i);
    }
}

static int halves_of(const ec_stackwalk_reader *w, const ec_event_cursor_event *e, uint32_t half[EA_STACK_HALVES],
                     int *ret_is_kernel, int *ret_has_user) {
    uint64_t *memory, known;
    unsigned width = e->c->pointer_size;
    ea_slice list = ec_event_cursor_repeated(w->cursor, e, &memory);
    if (!list.data || list.len_bytes < width)
        return 0;
    if (memory) {
        if (!*memory)
            learn_halves(w, e);
        known = *memory;
    } else {
        size_t count = list.len_bytes / width;
        known = pack_halves(ea_stack_halves(w->stacks, list.data, count, width, half), count, half);
    }
    half[EA_STACK_KERNEL] = (uint32_t)((known & ~IS_KERNEL) >> 32);
    half[EA_STACK_USER] = (uint32_t)(known & ~HAS_USER);
    *ret_is_kernel = (known & IS_KERNEL) != 0;
    *ret_has_user = (known & HAS_USER) != 0;
    return 1;
}

static void stackwalk_define(const ec_stackwalk_reader *w, const ec_event_cursor_event *e, const ea_stack_plan *p) {
    uint64_t *memory, key;
    unsigned width = e->c->pointer_size;
    ea_slice list = ec_event_cursor_repeated(w->cursor, e, &memory);
    if (list.data && ec_event_cursor_u64(w->cursor, e, WALK_KEY, &key))
        ea_stacks_define(w->stacks, p->opcode, key, list.data, list.len_bytes / width, width);
    else
        ea_stack_join_unusable(w->join);
}

static void clr_walk(const ec_stackwalk_reader *w, const ec_event_cursor_event *e, const ea_stack_plan *p) {
    uint64_t *memory;
    unsigned width = e->c->pointer_size;
    ea_slice list = ec_event_cursor_repeated(w->cursor, e, &memory);
    if (!list.data || list.len_bytes < width)
        ea_stack_join_unusable(w->join);
    else
        ea_stack_join_clr_walk(w->join, (uint64_t)p->clr << 32 | e->tid,
                               ea_stacks_add(w->stacks, list.data, list.len_bytes / width, width));
}

static int stackwalk_walk(const ec_stackwalk_reader *w, const ec_event_cursor_event *e, const ea_stack_plan *p) {
    uint64_t time, pid, tid, key;
    uint32_t half[EA_STACK_HALVES];
    int is_kernel = 0, has_user = 0;
    if (!ec_event_cursor_u64(w->cursor, e, WALK_TIME, &time) || !ec_event_cursor_u64(w->cursor, e, WALK_PID, &pid) ||
        !ec_event_cursor_u64(w->cursor, e, WALK_TID, &tid)) {
        ea_stack_join_unusable(w->join);
        return 0;
    }
    if ((int64_t)time < w->raw_from || (int64_t)time >= w->raw_to)
        return 0;
    if (p->role != EA_STACK_IS_WALK) {
        enum ea_stack_half which = p->role == EA_STACK_IS_KEY_KERNEL ? EA_STACK_KERNEL : EA_STACK_USER;
        if (!ec_event_cursor_u64(w->cursor, e, WALK_KEY, &key)) {
            ea_stack_join_unusable(w->join);
            return 0;
        }
        return ea_stack_join_walk(w->join, (int64_t)time, (uint32_t)pid, (uint32_t)tid, e->cpu, which,
                                  ea_stacks_use(w->stacks, which, key));
    }
    if (!halves_of(w, e, half, &is_kernel, &has_user)) {
        ea_stack_join_unusable(w->join);
        return 0;
    }
    if (is_kernel && has_user)
        return ea_stack_join_walks(w->join, (int64_t)time, (uint32_t)pid, (uint32_t)tid, e->cpu, half);
    enum ea_stack_half which = is_kernel ? EA_STACK_KERNEL : EA_STACK_USER;
    return ea_stack_join_walk(w->join, (int64_t)time, (uint32_t)pid, (uint32_t)tid, e->cpu, which, half[which]);
}

int ec_stackwalk_reader_add(const ec_stackwalk_reader *w, const ec_event_cursor_event *e, const ea_stack_plan *plan) {
    switch (plan->role) {
    case EA_STACK_IS_DEFINITION:
        stackwalk_define(w, e, plan);
        return 0;
    case EA_STACK_IS_CLR_WALK:
        clr_walk(w, e, plan);
        return 0;
    default:
        return stackwalk_walk(w, e, plan);
    }
}
