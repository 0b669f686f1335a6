/* Fuzz target: the stack join. Records of the classes that have to do with stacks, with payloads and extended items
 * from outside, go through a window of the smallest size. Input: so many times: u8 which class, u8 version, pointer
 * size and item, u8 time, u8 thread, u8 length, the payload, which is the item's data as well. */
#include "proto/stack/stack_feed.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ea_guid PROVIDERS[] = {
    EA_GUID(0xdef2fe46, 0x7bd6, 0x4b80, 0xbd, 0x94, 0xf5, 0x7f, 0xe2, 0x0d, 0x0c, 0xe3), /* StackWalk */
    EA_GUID(0xce1dbfb4, 0x137e, 0x4da6, 0x87, 0xb0, 0x3f, 0x59, 0xaa, 0x10, 0x2c, 0xbc), /* PerfInfo */
    EA_GUID(0xe13c0d23, 0xccbc, 0x4e12, 0x93, 0x1b, 0xd9, 0xcc, 0x2e, 0xee, 0x27, 0xe4), /* .NET */
    EA_GUID(0xb675ec37, 0xbdb6, 0x4648, 0xbc, 0x92, 0xf3, 0xfd, 0xc7, 0x4d, 0x3c, 0xa2), /* Kernel-EventTracing */
};
static const uint16_t CODES[][8] = {
    {32, 34, 35, 36, 37, 38, 32, 39}, {46, 47, 46, 47, 51, 66, 67, 46}, {82, 80, 82, 1, 2, 82, 82, 3}, {18}};

typedef struct seen {
    uint64_t events, next_tag;
} seen;

static int on_event(void *arg, const ea_stack_joined *e) {
    seen *s = arg;
    if (e->tag < s->next_tag)
        abort(); /* in the order in which they came */
    s->next_tag = e->tag + 1;
    s->events++;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const uint16_t ITEMS[] = {EA_EXT_STACK_TRACE32, EA_EXT_STACK_TRACE64, EA_EXT_STACK_KEY32,
                                     EA_EXT_STACK_KEY64};
    ea_registry *registry = NULL;
    ea_stacks *stacks = NULL;
    ea_stack_join *join = NULL;
    ea_stack_feed *feed = NULL;
    seen s = {0};
    if (ea_registry_create(&registry, 256, NULL) || ea_stacks_create(&stacks, 1 << 16, NULL) ||
        ea_stack_join_create(&join, stacks, &(ea_stack_join_options){.limit_bytes = 1, .on_event = on_event, .arg = &s},
                             NULL) ||
        ea_stack_feed_create(&feed, join, NULL))
        abort();
    uint64_t tag = 0;
    for (const uint8_t *p = data, *end = data + size; end - p >= 5; tag++) {
        size_t n = p[4] <= end - p - 5 ? p[4] : (size_t)(end - p - 5);
        ea_ext item = {.type = ITEMS[p[1] >> 4 & 3], .data = p + 5, .size_bytes = (uint32_t)n};
        unsigned provider = p[0] & 3;
        uint16_t code = provider == 3 ? CODES[3][0] : CODES[provider][p[0] >> 2 & 7];
        ea_record r = {.provider = PROVIDERS[provider],
                       .id = provider >= 2 ? code : 0,
                       .opcode = (uint8_t)(provider < 2 ? code : 0),
                       .version = provider < 2 ? 2 : 0,
                       .pointer_size = p[1] & 8 ? 4 : 8,
                       .flags = provider < 2 ? EA_FLAG_CLASSIC_HEADER : 0,
                       .time_raw = p[2],
                       .tid = p[3] & 0x80 ? UINT32_MAX : p[3],
                       .cpu = p[1] & 1,
                       .ext = &item,
                       .ext_count = p[1] & 0x40 ? 1 : 0,
                       .payload = p + 5,
                       .payload_bytes = (uint16_t)n};
        if (ea_stack_feed_record(feed, &r, ea_registry_find(registry, &r), tag))
            abort();
        p += 5 + n;
    }
    if (ea_stack_join_end(join) || s.events > tag)
        abort();
    for (uint32_t i = 0; i < ea_stacks_count(stacks).stacks; i++) {
        size_t n;
        const uint64_t *frames = ea_stacks_get(stacks, i, &n);
        if (n && !frames)
            abort();
    }
    ea_stack_feed_destroy(feed);
    ea_stack_join_destroy(join);
    ea_stacks_destroy(stacks);
    ea_registry_destroy(registry);
    return 0;
}
