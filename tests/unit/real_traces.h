/* Real traces for unit tests. tests/traces.py unpacks them first. Without them a test that needs one is skipped, or
 * fails when EA_REQUIRE_TRACES is set. Include after cmocka.h. */
#ifndef EA_TESTS_UNIT_REAL_TRACES_H
#define EA_TESTS_UNIT_REAL_TRACES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* run_all.py counts lines that begin so. */
#define REAL_TRACES_SKIPPED "SKIPPED, since it needs real traces: "

static inline int real_traces_required(void) {
    const char *required = getenv("EA_REQUIRE_TRACES");
    return required && *required && strcmp(required, "0") != 0;
}

/* The folder with <trace>/<file>.etl, which EA_UNPACKED names. what: what the caller shows with them, for the list of
 * skipped tests. Without traces in the folder the calling test is skipped (cmocka leaves it). */
static inline const char *real_traces(const char *what) {
    const char *folder = getenv("EA_UNPACKED");
    char path[1024];
    snprintf(path, sizeof path, "%s/clr-kernel-win8-x64/trace.etl", folder ? folder : "");
    FILE *file = folder ? fopen(path, "rb") : NULL;
    if (file) {
        fclose(file);
        return folder;
    }
    if (real_traces_required())
        fail_msg("EA_REQUIRE_TRACES is set, and there is no %s", path);
    printf(REAL_TRACES_SKIPPED "%s\n", what);
    fflush(stdout);
    skip();
    return NULL;
}

#endif
