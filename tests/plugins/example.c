/* An example plug-in: it decodes the two events of an imaginary provider, Example-Plugin-Provider. Copy it, put your
 * provider's GUID and fields in, and build it as the README beside it says. */
#include "etwagent_plugin.h"

/* Names for the values of a field. */
static const etwagent_name COLOUR_ENTRIES[] = {{1, "red"}, {2, "green"}, {0, NULL}};
static const etwagent_names COLOURS = {"Colours", 0, COLOUR_ENTRIES};

/* The payload's fields, in their order. A list ends with one that has no name. */
static const etwagent_field POINT[] = {
    {.name = "X", .in_type = ETWAGENT_INT32}, {.name = "Y", .in_type = ETWAGENT_INT32}, {.name = NULL}};
static const etwagent_field STARTED[] = {
    {.name = "ProcessId", .in_type = ETWAGENT_UINT32, .out_type = ETWAGENT_AS_PID},
    {.name = "Colour", .in_type = ETWAGENT_UINT8, .names = &COLOURS},
    {.name = "Name", .in_type = ETWAGENT_UNICODE_STRING},
    {.name = NULL},
};
static const etwagent_field DRAWN[] = {
    {.name = "Count", .in_type = ETWAGENT_UINT16},
    {.name = "Points", .count_from = "Count", .members = POINT},
    {.name = NULL},
};

#define PROVIDER .provider = "7f0d5c1e-3a44-4b8e-9d15-0c2f6a7b8c9d", .provider_name = "Example-Plugin-Provider"
static const etwagent_class CLASSES[] = {
    {PROVIDER, .name = "Painter/Start", .code = 1, .last_version = 1, .fields = STARTED,
     .message = "%3 of process %1 paints in %2"},
    {PROVIDER, .name = "Painter/Draw", .code = 2, .fields = DRAWN},
};

static int start(const etwagent_host *host) {
    for (size_t i = 0; i < sizeof CLASSES / sizeof CLASSES[0]; i++)
        if (host->add(host->context, &CLASSES[i]))
            return -1;
    return 0;
}

extern const ETWAGENT_PLUGIN_EXPORT etwagent_plugin etwagent_plugin_1;
const ETWAGENT_PLUGIN_EXPORT etwagent_plugin etwagent_plugin_1 = {ETWAGENT_PLUGIN_VERSION, "example", start};
