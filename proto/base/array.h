/* Arrays that grow. Used by: every folder. Thread: the array's owner's. */
#ifndef EA_BASE_ARRAY_H
#define EA_BASE_ARRAY_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* Makes room for count elements in an array of which there may be max (SIZE_MAX: as many as memory has). Its capacity
 * at least doubles, as far as max allows; what is new is not initialised. EA_ELIMIT: more than max; EA_ENOMEM. Both
 * leave all as it was. items: an lvalue, of malloc, or NULL beside a capacity of 0; its owner frees it. capacity: a
 * size_t. */
#define EA_GROW(items, capacity, count, max) ea_array_grow(&(items), &(capacity), (count), (max), sizeof *(items))

/* What EA_GROW calls. items_at: where the pointer to the first element is. */
EA_MUST_CHECK int ea_array_grow(void *items_at, size_t *capacity, size_t count, size_t max, size_t element_bytes);

#endif
