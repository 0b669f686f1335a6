/* An example plug-in: it decodes the three events of an imaginary provider, Example-Plugin-Provider. Copy it, put your
 * provider's GUID and fields in, and build it as the README beside it says. The third event has a decode function,
 * which most providers do not need. */
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

/* What decode_stroke puts. */
static const etwagent_field STROKE[] = {
    {.name = "Width", .in_type = ETWAGENT_UINT8},
    {.name = "Colour", .in_type = ETWAGENT_UINT8, .names = &COLOURS},
    {.name = "Count", .in_type = ETWAGENT_UINT16},
    {.name = "Points", .count_from = "Count", .members = POINT},
    {.name = NULL},
};

/* Reads a number of seven bits per byte, the least significant bits first. The top bit of a byte means that another
 * byte follows. Moves *at to the first byte after the number. Returns -1 when the payload ends within the number, or
 * when the number is too long. */
static int read_number(const etwagent_event *e, size_t *at, uint32_t *ret) {
    *ret = 0;
    for (unsigned shift = 0; shift < 32 && *at < e->payload_bytes; shift += 7) {
        uint8_t byte = e->payload[(*at)++];
        *ret |= (uint32_t)(byte & 0x7F) << shift;
        if (!(byte & 0x80))
            return 0;
    }
    return -1;
}

/* Painter/Stroke is packed: width and colour are four bits each, then come pairs of numbers up to the payload's end,
 * how far the next point is to the right of the last one, and how far below it. No list of fields can say that. */
static int decode_stroke(const etwagent_event *e, const etwagent_values *values) {
    uint32_t right, down, x = 0, y = 0, count = 0;
    if (e->payload_bytes < 1)
        return -1;
    for (size_t at = 1; at < e->payload_bytes; count++)
        if (read_number(e, &at, &right) || read_number(e, &at, &down))
            return -1;
    if (count > UINT16_MAX)
        return -1;
    etwagent_put_number(values, e->payload[0] & 0x0F, 1);
    etwagent_put_number(values, e->payload[0] >> 4, 1);
    etwagent_put_number(values, count, 2);
    for (size_t at = 1; at < e->payload_bytes;) {
        if (read_number(e, &at, &right) || read_number(e, &at, &down))
            return -1;
        if (etwagent_put_number(values, x += right, 4) || etwagent_put_number(values, y += down, 4))
            return -1; /* no room: such an event is kept as it is */
    }
    return 0;
}

#define PROVIDER .provider = "7f0d5c1e-3a44-4b8e-9d15-0c2f6a7b8c9d", .provider_name = "Example-Plugin-Provider"
static const etwagent_class CLASSES[] = {
    {PROVIDER, .name = "Painter/Start", .code = 1, .last_version = 1, .fields = STARTED,
     .message = "%3 of process %1 paints in %2"},
    {PROVIDER, .name = "Painter/Draw", .code = 2, .fields = DRAWN},
    {PROVIDER, .name = "Painter/Stroke", .code = 3, .fields = STROKE, .decode = decode_stroke,
     .message = "%3 points in %2"},
};

static int start(const etwagent_host *host) {
    for (size_t i = 0; i < sizeof CLASSES / sizeof CLASSES[0]; i++)
        if (host->add(host->context, &CLASSES[i]))
            return -1;
    return 0;
}

extern const ETWAGENT_PLUGIN_EXPORT etwagent_plugin etwagent_plugin_1;
const ETWAGENT_PLUGIN_EXPORT etwagent_plugin etwagent_plugin_1 = {ETWAGENT_PLUGIN_VERSION, "example", start};
