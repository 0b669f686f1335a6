/* Plug-ins that misbehave, one for each value of MISBEHAVE: for tests/e2e/test_plugins.py. */
#include "etwagent_plugin.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    NEWER = 1,
    TAKEN_BY_TABLES,
    TAKEN_BY_EXAMPLE,
    CRASHES,
    HANGS,
    PRINTS,
    REFUSES,
    WRONG_FIELDS,
    EMPTY,
    CRASHES_WHEN_LOADED,
    BAD_GUID
};

static const etwagent_field WRONG[] = {{.name = "Text", .in_type = ETWAGENT_BINARY, .length_from = "Nothing"},
                                       {.name = NULL}};
static const etwagent_class CLASSES[] = {
    [TAKEN_BY_TABLES] = {"3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c", "Other", "Other/One", NULL, 1, 1, 4, 4, NULL},
    [TAKEN_BY_EXAMPLE] = {"7f0d5c1e-3a44-4b8e-9d15-0c2f6a7b8c9d", "Other", "Other/Two", NULL, 0, 2, 0, 0, NULL},
    [WRONG_FIELDS] = {"00000000-0000-0000-0000-000000000001", "Other", "Other/Three", NULL, 0, 1, 0, 0, WRONG},
    [BAD_GUID] = {"nonsense", "Other", "Other/Four", NULL, 0, 1, 0, 0, NULL},
};

#if MISBEHAVE == 10
__attribute__((constructor)) static void constructor(void) {
    abort();
}
#endif

static int start(const etwagent_host *host) {
    switch (MISBEHAVE) {
    case CRASHES:
        abort();
    case HANGS:
        for (volatile int forever = 1; forever;)
            ;
        return 0;
    case PRINTS:
        puts("hello");
        fflush(stdout);
        return host->add(host->context, &CLASSES[TAKEN_BY_EXAMPLE]);
    case REFUSES:
        return -1;
    case TAKEN_BY_TABLES:
    case TAKEN_BY_EXAMPLE:
    case WRONG_FIELDS:
    case BAD_GUID:
        return host->add(host->context, &CLASSES[MISBEHAVE]);
    default:
        return 0;
    }
}

extern const ETWAGENT_PLUGIN_EXPORT etwagent_plugin etwagent_plugin_1;
const ETWAGENT_PLUGIN_EXPORT etwagent_plugin etwagent_plugin_1 = {ETWAGENT_PLUGIN_VERSION + (MISBEHAVE == NEWER),
                                                                  "misbehaving", start};
