/* The message that a profile worker gets, without its head. What is read is within the bounds, and what is written of
 * it is read as the same again. */
#include "collector/web/profile_order.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_BYTES = 5 };

static void must(int condition) {
    if (!condition)
        abort();
}

static int parse(const uint8_t *data, size_t size, ec_profile_order *ret) {
    static ec_profile_order_room room;
    ec_message m = {.letter = 'P', .at = data, .end = data + size};
    return ec_profile_order_parse(&m, ret, &room);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ec_profile_order o;
    ea_text first, second;
    if (size > EC_MESSAGE_MAX || parse(data, size, &o))
        return 0;
    must(o.request.pid_count <= EC_PROFILE_LIST_MAX && o.limit_ns > 0);
    for (int i = 0; i < 2; i++)
        must((unsigned)o.request.side[i].weight < EC_WEIGHT_COUNT &&
             o.request.side[i].host_count <= EC_PROFILE_LIST_MAX &&
             o.request.side[i].label_count <= EC_PROFILE_LIST_MAX);
    ea_text_init(&first);
    ea_text_init(&second);
    ec_profile_order_print(&o, &first);
    must(!first.failed && first.len_bytes <= HEAD_BYTES + size);
    must(parse((const uint8_t *)first.data + HEAD_BYTES, first.len_bytes - HEAD_BYTES, &o) == 0);
    ec_profile_order_print(&o, &second);
    must(second.len_bytes == first.len_bytes && memcmp(first.data, second.data, first.len_bytes) == 0);
    ea_text_deinit(&first);
    ea_text_deinit(&second);
    return 0;
}
