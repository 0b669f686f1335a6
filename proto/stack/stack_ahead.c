/* See stack_ahead.h. */
#include "proto/stack/stack_ahead.h"

#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

int ea_stack_ahead_take(void *arg, const ea_stack_joined *e) {
    ea_stack_ahead *a = arg;
    a->settled = e->tag + 1;
    if (!e->half[EA_STACK_KERNEL] && !e->half[EA_STACK_USER])
        return 0;
    if (a->first && a->count == a->capacity) {
        memmove(a->found, a->found + a->first, (a->count - a->first) * sizeof *a->found);
        a->count -= a->first;
        a->first = 0;
    }
    if (EA_GROW(a->found, a->capacity, a->count + 1, SIZE_MAX))
        return EA_ENOMEM;
    a->found[a->count++] = (ea_stack_ahead_event){e->tag, {e->half[EA_STACK_KERNEL], e->half[EA_STACK_USER]}, e->pid};
    return 0;
}

void ea_stack_ahead_find(ea_stack_ahead *a, uint64_t number, uint32_t ret_half[EA_STACK_HALVES], uint32_t *ret_pid) {
    ret_half[EA_STACK_KERNEL] = ret_half[EA_STACK_USER] = 0;
    *ret_pid = (uint32_t)EA_STACK_ANY_THREAD;
    while (a->first < a->count && a->found[a->first].number < number)
        a->first++;
    if (a->first < a->count && a->found[a->first].number == number) {
        ret_half[EA_STACK_KERNEL] = a->found[a->first].half[EA_STACK_KERNEL];
        ret_half[EA_STACK_USER] = a->found[a->first].half[EA_STACK_USER];
        *ret_pid = a->found[a->first].pid;
    }
}

void ea_stack_ahead_deinit(ea_stack_ahead *a) {
    free(a->found);
    *a = (ea_stack_ahead){0};
}
