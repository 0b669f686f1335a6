/* See stack_missed.h. */
#include "collector/query/analysis/stack_missed.h"

#include "proto/base/array.h"

#include <stdlib.h>

enum { AWAITED_MAX = 1 << 24, TAGS_MAX = 1 << 20 };

void ec_stack_missed_init(ec_stack_missed *m, int (*fn)(void *arg, const ec_missed_half *m), void *arg,
                          int64_t from_utc_ns, int64_t to_utc_ns) {
    *m = (ec_stack_missed){.fn = fn, .arg = arg, .from_utc_ns = from_utc_ns, .to_utc_ns = to_utc_ns};
    ea_u64_map_init(&m->by_tag, TAGS_MAX);
}

void ec_stack_missed_deinit(ec_stack_missed *m) {
    free(m->clocks);
    free(m->awaited);
    ea_u64_map_deinit(&m->by_tag);
}

void ec_stack_missed_clock(ec_stack_missed *m, uint64_t place, const ea_clock *clock) {
    if (EA_GROW(m->clocks, m->clock_capacity, m->clock_count + 1, SIZE_MAX))
        m->rc = m->rc ? m->rc : EA_ENOMEM;
    else
        m->clocks[m->clock_count++] = (struct ec_clock_since){place, *clock};
}

/* The clock of a record: a walk may wait in the window until another one is in force. */
static const ea_clock *clock_at(const ec_stack_missed *m, uint64_t place) {
    size_t low = 0, high = m->clock_count; /* the first one after it */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (m->clocks[middle].place <= place)
            low = middle + 1;
        else
            high = middle;
    }
    return &m->clocks[low ? low - 1 : 0].clock;
}

static void report_half(ec_stack_missed *m, ec_missed_half half) {
    if (m->rc || half.utc_ns < m->from_utc_ns || half.utc_ns >= m->to_utc_ns)
        return;
    if (half.pid == UINT32_MAX)
        half.pid = ec_address_space_pid_of_thread(m->space, half.tid, half.utc_ns);
    uint32_t process = ec_address_space_process(m->space, half.pid, half.utc_ns);
    half.image = ec_address_space_process_name(m->space, process);
    half.process_key = ec_address_space_process_key(m->space, process);
    m->rc = m->fn(m->arg, &half);
}

void ec_stack_missed_add(ec_stack_missed *m, const ea_stack_missed *half) {
    if (m->rc) /* there may be no clock: no memory */
        return;
    report_half(m, (ec_missed_half){.place = half->from.tag,
                                    .utc_ns = ea_clock_to_utc_ns(clock_at(m, half->from.tag), half->from.time),
                                    .half = half->half == EA_STACK_KERNEL ? "kernel"
                                            : half->half == EA_STACK_USER ? "user"
                                                                          : NULL,
                                    .outcome = ea_stack_outcome_name(half->outcome),
                                    .pid = half->from.pid,
                                    .tid = half->from.tid});
}

int ec_stack_missed_await(ec_stack_missed *m, uint64_t tag, const ec_missed_half *event) {
    int rc = EA_GROW(m->awaited, m->awaited_capacity, m->awaited_count + 1, AWAITED_MAX);
    if (!rc)
        rc = ea_u64_map_put(&m->by_tag, tag, m->awaited_count);
    if (rc)
        return rc;
    m->awaited[m->awaited_count] = *event;
    m->awaited[m->awaited_count].half = "user";
    m->awaited[m->awaited_count++].outcome = "no_answer";
    return 0;
}

void ec_stack_missed_answer(ec_stack_missed *m, uint64_t tag) {
    const uint64_t *index = ea_u64_map_get(&m->by_tag, tag);
    if (index)
        m->awaited[*index].outcome = NULL;
}

int ec_stack_missed_end(ec_stack_missed *m) {
    for (size_t i = 0; i < m->awaited_count; i++)
        if (m->awaited[i].outcome)
            report_half(m, m->awaited[i]);
    return m->rc;
}
