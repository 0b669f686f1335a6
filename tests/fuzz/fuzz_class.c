/* Fuzz target: a class description from outside, and payloads split and rendered by it; or, when the input begins with
 * 0xFF, an event of one of our own classes with a payload from outside.
 * Input: u16 length of the description, the description, the payload. Or 0xFF, u16 which class, the payload. */
#include "proto/event/class.h"
#include "proto/event/compact_cswitch.h"
#include "proto/event/render.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int condition) {
    if (!condition)
        abort();
}

/* What comes out of a record is a whole record itself. */
static int on_switch(void *arg, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, whole = ea_class_split(c, record->payload, record->payload_bytes, slices, &used);
    check(ea_class_is_whole(c, whole, used, record->payload_bytes) && clock->frequency == 10000000);
    ++*(uint64_t *)arg;
    return 0;
}

static void expand(const ea_record *r, const ea_class *c, const ea_clock *clock) {
    ea_cswitch_expander *e;
    uint64_t switches = 0;
    if (!ea_is_compact_cswitch(c) || ea_cswitch_expander_create(&e, NULL))
        return;
    for (int i = 0; i < 2; i++)
        check(ea_cswitch_expand(e, r, c, clock, on_switch, &switches, NULL) == 0);
    check(ea_cswitch_expand_end(e, on_switch, &switches) == 0);
    ea_cswitch_expand_counts n = ea_cswitch_expander_counts(e);
    check(n.records == 2 && n.switches == switches && n.bytes_left_over <= 2u * r->payload_bytes);
    ea_cswitch_expander_destroy(e);
}

static void use_class(const ea_class *c, const uint8_t *payload, size_t payload_bytes) {
    static const ea_clock CLOCK = {.type = EA_CLOCK_QPC, .frequency = 10000000};
    ea_slice slices[EA_FIELDS_MAX];
    size_t used, sum = 0;
    if (payload_bytes > UINT16_MAX)
        payload_bytes = UINT16_MAX;
    size_t whole = ea_class_split(c, payload, payload_bytes, slices, &used);
    check(whole <= c->top_count && used <= payload_bytes);
    for (size_t i = 0; i < whole; i++) {
        check(slices[i].len_bytes == 0 || slices[i].data == payload + sum);
        sum += slices[i].len_bytes;
    }
    check(sum == used);
    ea_record r = {.provider = c->provider,
                   .id = c->code,
                   .opcode = (uint8_t)c->code,
                   .version = c->version,
                   .pointer_size = c->pointer_size,
                   .payload = payload,
                   .payload_bytes = (uint16_t)payload_bytes};
    ea_text out;
    ea_text_init(&out);
    ea_render_json(&out, &r, c, &CLOCK, 1);
    for (size_t i = 0; i < out.len_bytes; i++)
        check((uint8_t)out.data[i] >= 0x20 &&
              (uint8_t)out.data[i] != 0x7f); /* one line of JSON, no control character */
    ea_text_clear(&out);
    ea_render_text(&out, &r, c, &CLOCK);
    for (size_t i = 0; i < out.len_bytes; i++)
        check((uint8_t)out.data[i] >= 0x20 && (uint8_t)out.data[i] != 0x7f);
    ea_text_clear(&out);
    static const char *const COLUMNS[] = {"name", "fields", "stack", "a"};
    ea_render(&out, &r, c,
              &(ea_rendering){.form = EA_RENDER_CSV, .clock = &CLOCK, .columns = COLUMNS, .column_count = 4});
    for (size_t i = 0; i < c->field_count; i += c->fields[i].span) {
        uint64_t v;
        ea_event_u64(c, &r, c->fields[i].name, &v);
        ea_event_text(c, &r, c->fields[i].name, &out);
    }
    check(!out.failed);
    ea_text_deinit(&out);
    expand(&r, c, &CLOCK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    ea_registry *r;
    const ea_class *c;
    if (size < 3 || ea_registry_create(&r, 0, NULL))
        return 0;
    if (data[0] == 0xff) {
        size_t family_count;
        const ea_family *const *families = ea_event_families(&family_count);
        size_t which = ea_load16(data + 1);
        const ea_family *family = families[which % family_count];
        const ea_class_row *row = &family->rows[which / family_count % family->row_count];
        ea_record record = {.provider = family->provider->guid,
                            .id = family->provider->classic ? 0 : row->code,
                            .opcode = family->provider->classic ? (uint8_t)row->code : 0,
                            .version = row->until,
                            .flags = family->provider->classic ? EA_FLAG_CLASSIC_HEADER : 0,
                            .pointer_size = size % 2 ? 8 : 4};
        use_class(ea_registry_find(r, &record), data + 3, size - 3);
    } else {
        size_t len = ea_load16(data);
        if (len > size - 2)
            len = size - 2;
        if (ea_registry_add_description(r, data + 2, len, &c, NULL) == 0)
            use_class(c, data + 2 + len, size - 2 - len);
    }
    ea_registry_destroy(r);
    return 0;
}
