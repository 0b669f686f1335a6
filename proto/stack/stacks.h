/* Stacks, each kept once: lists of return addresses by number, and the keys that stand for stacks in traces with stack
 * caching.
 * Input: payloads and extended items with addresses. Called by: stack_join.h, profiles. Thread: its owner's.
 *
 * Keys (StackWalk 34 to 38; etw-facts, "Stacks"): the kernel's and the user's halves have tables of their own, in which
 * the same key means different stacks. A use of a key gets a number at once; the definition fills the number in when it
 * comes. KeyDelete (35) defines the key for the uses before it and removes the key, KeyRundown (36) defines it,
 * KeyCreate (34) defines it for the uses after it. The first address of a definition decides to which table the
 * definition belongs. */
#ifndef EA_STACK_STACKS_H
#define EA_STACK_STACKS_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

enum ea_stack_half { EA_STACK_KERNEL = 0, EA_STACK_USER = 1, EA_STACK_HALVES = 2 };

/* 1 when an address is the kernel's: its highest bit is set, in as many bits as the machine's pointers have. */
static inline int ea_stack_is_kernel(uint64_t address, unsigned pointer_size) {
    return pointer_size == 4 ? address >> 31 != 0 : address >> 63 != 0;
}

typedef struct ea_stacks ea_stacks;

typedef struct ea_stacks_counts {
    uint64_t stacks;    /* distinct ones */
    uint64_t bytes;     /* of memory */
    uint64_t left_out;  /* stacks that had no room any more: they are number 0, as no stack is */
    uint64_t undefined; /* numbers of keys that no definition has filled in (so far) */
    uint64_t defined;   /* definitions that filled in a number */
    uint64_t unused;    /* definitions of keys that had no use */
} ea_stacks_counts;

/* limit_bytes: of all memory; 0: 512 MiB. */
EA_MUST_CHECK int ea_stacks_create(ea_stacks **ret, size_t limit_bytes, ea_err *err);
void ea_stacks_destroy(ea_stacks *s); /* NULL is allowed */

/* In the functions that give out numbers, s may be NULL for a caller that needs no addresses: then nothing is kept, and
 * each stack is number 1. */

/* The number of the stack with these addresses (count of pointer_size bytes each, little-endian, any alignment; the
 * innermost first), from 1; the same for the same addresses, of either width. 0 for no addresses, or no room. */
uint32_t ea_stacks_add(ea_stacks *s, const uint8_t *addresses, size_t count, unsigned pointer_size);

/* The same for several stacks at once, of EA_STACKS_AT_ONCE at most: what they need is fetched from memory together. */
enum { EA_STACKS_AT_ONCE = 32 };

typedef struct ea_stack_list {
    const uint8_t *addresses;
    size_t count;
} ea_stack_list;

void ea_stacks_add_all(ea_stacks *s, const ea_stack_list *lists, size_t list_count, unsigned pointer_size,
                       uint32_t *ret_numbers);
/* The number that stands for a key's stack now. 0: no room. */
uint32_t ea_stacks_use(ea_stacks *s, enum ea_stack_half half, uint64_t key);
/* A definition: opcode 34, 35 or 36. */
void ea_stacks_define(ea_stacks *s, unsigned opcode, uint64_t key, const uint8_t *addresses, size_t count,
                      unsigned pointer_size);

/* The addresses of a number and how many there are, valid until the next call that adds; none for 0 and for a key that
 * is not defined. */
const uint64_t *ea_stacks_get(const ea_stacks *s, uint32_t number, size_t *ret_count);
/* The number that a key's number has become: the same for all that have the same addresses. Others are themselves. */
uint32_t ea_stacks_final(const ea_stacks *s, uint32_t number);
/* 1 when the number stands for a key that is not defined. */
int ea_stacks_is_undefined(const ea_stacks *s, uint32_t number);
ea_stacks_counts ea_stacks_count(const ea_stacks *s);

#endif
