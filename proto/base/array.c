/* See array.h. */
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 16 };

int ea_array_grow(void *items_at, size_t *capacity, size_t count, size_t max, size_t element_bytes) {
    if (count <= *capacity)
        return 0;
    if (count > max)
        return EA_ELIMIT;
    if (max > SIZE_MAX / 2 / element_bytes)
        max = SIZE_MAX / 2 / element_bytes;
    size_t bigger = *capacity < FIRST_CAPACITY / 2 ? FIRST_CAPACITY : *capacity > max / 2 ? max : *capacity * 2;
    if (bigger > max)
        bigger = max;
    if (bigger < count)
        bigger = count;
    void *items;
    memcpy(&items, items_at, sizeof items); /* a pointer of any type, which no void ** may stand for */
    items = bigger > SIZE_MAX / 2 / element_bytes ? NULL : realloc(items, bigger * element_bytes);
    if (!items)
        return EA_ENOMEM;
    memcpy(items_at, &items, sizeof items);
    *capacity = bigger;
    return 0;
}
