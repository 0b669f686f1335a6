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
    BAD_GUID,
    /* with a decode function */
    CRASHES_ON_NOTHING,
    DECODES_FOR_EVER,
    PUTS_TOO_MUCH,
    PUTS_TOO_LITTLE,
    PUTS_WITHOUT_END,
    READS_BEYOND,
    WRITES,
    REMEMBERS,
    FAILS_LATER /* passes the probe, but puts an extra value for a payload that the probe does not try */
};

static const etwagent_field WRONG[] = {{.name = "Text", .in_type = ETWAGENT_BINARY, .length_from = "Nothing"},
                                       {.name = NULL}};
static const etwagent_class CLASSES[] = {
    [TAKEN_BY_TABLES] = {"3d6fa8d0-fe05-11d0-9dda-00c04fd7ba7c", "Other", "Other/One", NULL, 1, 1, 4, 4, NULL, NULL},
    [TAKEN_BY_EXAMPLE] = {"7f0d5c1e-3a44-4b8e-9d15-0c2f6a7b8c9d", "Other", "Other/Two", NULL, 0, 2, 0, 0, NULL, NULL},
    [WRONG_FIELDS] = {"00000000-0000-0000-0000-000000000001", "Other", "Other/Three", NULL, 0, 1, 0, 0, WRONG, NULL},
    [BAD_GUID] = {"nonsense", "Other", "Other/Four", NULL, 0, 1, 0, 0, NULL, NULL},
};

static const etwagent_field ONE[] = {{.name = "One", .in_type = ETWAGENT_UINT32}, {.name = NULL}};

static int decode(const etwagent_event *e, const etwagent_values *values) {
    static uint32_t calls;
    uint32_t number = e->payload_bytes ? e->payload[0] : 0;
    switch (MISBEHAVE) {
    case CRASHES_ON_NOTHING:
        if (!e->payload_bytes)
            abort();
        break;
    case DECODES_FOR_EVER:
        for (volatile int forever = e->payload_bytes == 1024; forever;)
            ;
        break;
    case PUTS_TOO_MUCH:
        etwagent_put_number(values, 0, 1);
        break;
    case PUTS_TOO_LITTLE:
        return 0;
    case PUTS_WITHOUT_END:
        while (e->payload_bytes == 7 && !etwagent_put_number(values, 0, 8))
            ;
        break;
    case READS_BEYOND:
        number = e->payload[e->payload_bytes];
        break;
    case WRITES:
        if (e->payload_bytes)
            ((uint8_t *)(uintptr_t)e->payload)[0] ^= 1;
        break;
    case REMEMBERS:
        number = calls++;
        break;
    case FAILS_LATER:
        if (e->payload_bytes == 4 && e->payload[0] == 'l' && e->payload[3] == 'r')
            etwagent_put_number(values, 0, 8);
        break;
    default:
        break;
    }
    return etwagent_put_number(values, number, 4);
}

static const etwagent_class DECODED = {.provider = "00000000-0000-0000-0000-000000000002",
                                       .provider_name = "Other",
                                       .name = "Other/Five",
                                       .code = 5,
                                       .fields = ONE,
                                       .decode = decode};

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
        return MISBEHAVE >= CRASHES_ON_NOTHING ? host->add(host->context, &DECODED) : 0;
    }
}

extern const ETWAGENT_PLUGIN_EXPORT etwagent_plugin etwagent_plugin_1;
const ETWAGENT_PLUGIN_EXPORT etwagent_plugin etwagent_plugin_1 = {ETWAGENT_PLUGIN_VERSION + (MISBEHAVE == NEWER),
                                                                  "misbehaving", start};
