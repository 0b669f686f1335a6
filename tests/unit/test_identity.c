/* A record's identity: whatever single bit of it changes, the comparison, the checksum and the raw JSON line all see
 * it. tests/e2e/test_identity.py compares raw lines, so this is what makes that comparison mean something. */

/* Promises (tests/promises.py --write puts them into docs/verification/promises.md):
 * - Records 1 */

#include "proto/event/render.h"
#include "proto/wire/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* Every identity field and attribute that is stored in the struct itself. */
#define FIELDS(X)                                                                                                      \
    X(provider)                                                                                                        \
    X(id)                                                                                                              \
    X(version)                                                                                                         \
    X(channel)                                                                                                         \
    X(level)                                                                                                           \
    X(opcode)                                                                                                          \
    X(task)                                                                                                            \
    X(keyword)                                                                                                         \
    X(time_raw)                                                                                                        \
    X(pid)                                                                                                             \
    X(tid)                                                                                                             \
    X(cpu)                                                                                                             \
    X(logger)                                                                                                          \
    X(flags)                                                                                                           \
    X(property)                                                                                                        \
    X(kernel_time) X(user_time) X(activity_id) X(pointer_size) X(header_type) X(hook_id) X(header_word) X(source)

static const struct {
    const char *name;
    size_t offset, size;
} fields[] = {

#define X(f) {#f, offsetof(ea_record, f), sizeof((ea_record *)0)->f},
    FIELDS(X)
#undef X
};

enum { ITEMS = 3 };

static const uint8_t item_data[ITEMS][24] = {
    {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}, {0x10, 0, 0xFF}, {8, 7, 6, 5, 4, 3, 2, 1}};
static const uint8_t payload[] = {0, 1, 2, 0xFE, 0xFF, 'e', 't', 'w', 0, 0};

static void make(ea_record *r, ea_ext *items, uint8_t *data, uint8_t *bytes) {
    static const uint16_t types[ITEMS] = {EA_EXT_RELATED_ACTIVITY_ID, EA_EXT_SCHEMA_TL + 100, EA_EXT_STACK_KEY64};
    static const uint32_t sizes[ITEMS] = {16, 3, 8};
    memset(r, 0, sizeof *r);
    for (unsigned i = 0; i < ITEMS; i++) {
        memcpy(data + 24 * i, item_data[i], 24);
        items[i] = (ea_ext){.type = types[i], .linkage = i + 1 < ITEMS, .size_bytes = sizes[i], .data = data + 24 * i};
    }
    memcpy(bytes, payload, sizeof payload);
    r->provider = (ea_guid)EA_GUID(0x01020304, 0x1122, 0x3344, 1, 2, 3, 4, 5, 6, 7, 8);
    r->id = 7;
    r->time_raw = 123456789;
    r->pid = 4;
    r->tid = 8;
    r->pointer_size = 8;
    r->header_type = EA_HEADER_EVENT64;
    r->ext = items;
    r->ext_count = ITEMS;
    r->payload = bytes;
    r->payload_bytes = sizeof payload;
}

typedef struct {
    ea_registry *registry;
    ea_clock clock;
    ea_text line;
} judge;

static void render(judge *j, const ea_record *r, ea_text *out) {
    ea_text_clear(out);
    ea_render_json(out, r, ea_registry_find(j->registry, r), &j->clock, 1);
    assert_false(out->failed);
}

/* a is the original; b must be seen as another record, by all three. */
static void must_differ(judge *j, const ea_record *a, const ea_record *b, const char *what) {
    ea_text line;
    ea_text_init(&line);
    render(j, b, &line);
    if (ea_record_equal(a, b))
        fail_msg("%s: ea_record_equal saw no difference", what);
    if (ea_record_checksum(0, a) == ea_record_checksum(0, b))
        fail_msg("%s: the checksum saw no difference", what);
    if (strcmp(line.data, j->line.data) == 0)
        fail_msg("%s: the raw JSON line is the same", what);
    ea_text_deinit(&line);
}

static void every_bit_counts(void **state) {
    judge *j = *state;
    ea_record a, b;
    ea_ext items_a[ITEMS], items_b[ITEMS];
    uint8_t data_a[ITEMS * 24], data_b[ITEMS * 24], bytes_a[sizeof payload], bytes_b[sizeof payload];
    make(&a, items_a, data_a, bytes_a);
    render(j, &a, &j->line);
    make(&b, items_b, data_b, bytes_b);
    assert_true(ea_record_equal(&a, &b));
    assert_int_equal(ea_record_checksum(0, &a), ea_record_checksum(0, &b));

    for (size_t f = 0; f < sizeof fields / sizeof *fields; f++)
        for (size_t bit = 0; bit < fields[f].size * 8; bit++) {
            make(&b, items_b, data_b, bytes_b);
            ((uint8_t *)&b)[fields[f].offset + bit / 8] ^= (uint8_t)(1u << bit % 8);
            must_differ(j, &a, &b, fields[f].name);
        }
    for (size_t bit = 0; bit < sizeof payload * 8; bit++) {
        make(&b, items_b, data_b, bytes_b);
        bytes_b[bit / 8] ^= (uint8_t)(1u << bit % 8);
        must_differ(j, &a, &b, "payload");
    }
    for (unsigned i = 0; i < ITEMS; i++) {
        for (unsigned bit = 0; bit < 16; bit++) {
            make(&b, items_b, data_b, bytes_b);
            items_b[i].type ^= (uint16_t)(1u << bit);
            must_differ(j, &a, &b, "type of an extended item");
            make(&b, items_b, data_b, bytes_b);
            items_b[i].linkage ^= (uint16_t)(1u << bit);
            must_differ(j, &a, &b, "linkage of an extended item");
        }
        for (unsigned bit = 0; bit < items_a[i].size_bytes * 8; bit++) {
            make(&b, items_b, data_b, bytes_b);
            data_b[24 * i + bit / 8] ^= (uint8_t)(1u << bit % 8);
            must_differ(j, &a, &b, "data of an extended item");
        }
        make(&b, items_b, data_b, bytes_b);
        items_b[i].size_bytes--;
        must_differ(j, &a, &b, "size of an extended item");
    }
    make(&b, items_b, data_b, bytes_b);
    b.payload_bytes--;
    must_differ(j, &a, &b, "payload size");
    make(&b, items_b, data_b, bytes_b);
    b.ext_count--;
    must_differ(j, &a, &b, "number of extended items");
    make(&b, items_b, data_b, bytes_b);
    ea_ext swapped = items_b[0];
    items_b[0] = items_b[1];
    items_b[1] = swapped;
    must_differ(j, &a, &b, "order of extended items");
}

static int set_up(void **state) {
    judge *j = calloc(1, sizeof *j);
    ea_err err;
    if (!j || ea_registry_create(&j->registry, 0, &err))
        return -1;
    /* one tick is 100 ns, so that every tick shows in the time */
    j->clock = (ea_clock){.type = EA_CLOCK_QPC, .frequency = 10000000};
    *state = j;
    return 0;
}

static int tear_down(void **state) {
    judge *j = *state;
    ea_registry_destroy(j->registry);
    ea_text_deinit(&j->line);
    free(j);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(every_bit_counts, set_up, tear_down)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
