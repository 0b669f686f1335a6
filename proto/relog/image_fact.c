/* See image_fact.h. */
#include "proto/relog/image_fact.h"

#include "proto/base/pattern.h"

const char *ea_image_name(const char *path, size_t path_bytes, size_t *ret_bytes) {
    size_t begin = path_bytes;
    while (begin && path[begin - 1] != '\\' && path[begin - 1] != '/')
        begin--;
    *ret_bytes = path_bytes - begin;
    return path + begin;
}

int ea_image_name_compare(const char *lower, const char *name, size_t name_bytes) {
    size_t i = 0;
    for (; i < name_bytes && lower[i]; i++) {
        uint8_t a = (uint8_t)lower[i], b = (uint8_t)ea_ascii_lower(name[i]);
        if (a != b)
            return a < b ? -1 : 1;
    }
    return lower[i] ? 1 : i < name_bytes ? -1 : 0;
}
