/* A folder of its own for each test, below the working directory: made before it, emptied and removed after it. */
#ifndef EA_TESTS_UNIT_SCRATCH_H
#define EA_TESTS_UNIT_SCRATCH_H

#include "proto/base/platform.h"

#include <stdio.h>
#include <string.h>
#if defined(_WIN32)
#include <direct.h>
#define rmdir _rmdir /* Windows' remove() takes files only */
#else
#include <unistd.h>
#endif

static char scratch[64];

static inline int scratch_make(void **state) {
    unsigned salt = 0;
    ea_err err;
    (void)state;
    if (ea_random_bytes(&salt, sizeof salt, &err))
        return -1;
    snprintf(scratch, sizeof scratch, "scratch-%08x", salt);
    return ea_path_make_dirs(scratch, &err);
}

/* A path in the folder; the last eight are valid. */
static const char *scratch_path(const char *name) {
    static char paths[8][512];
    static unsigned turn;
    char *p = paths[turn++ % 8];
    snprintf(p, sizeof paths[0], "%s/%s", scratch, name);
    return p;
}

static int scratch_remove_entry(const char *name, int is_dir, void *arg);

static int scratch_remove_folder(const char *path) {
    ea_err err;
    int rc = ea_path_list(path, scratch_remove_entry, (void *)(size_t)path, &err);
    return rc ? rc : rmdir(path);
}

static int scratch_remove_entry(const char *name, int is_dir, void *arg) {
    char path[1024];
    ea_err err;
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    return is_dir ? scratch_remove_folder(path) : ea_path_remove(path, &err);
}

static int scratch_clear(void **state) {
    (void)state;
    return scratch_remove_folder(scratch);
}

#endif
