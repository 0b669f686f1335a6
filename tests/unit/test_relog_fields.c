/* Fields of events by name, in the relog library. */
#include "proto/base/bytes.h"
#include "proto/base/err.h"
#include "proto/relog/relog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { TLG_UNICODE = 1, TLG_UINT16 = 6, TLG_UINT32 = 8, TLG_SCHEMA = 11 };

/* A TraceLogging event: Number u32, Text "ab", Count u16, and three bytes that no field explains. */
typedef struct made {
    uint8_t schema[256], payload[64];
    ea_relog_item item;
    ea_relog_event event;
} made;

static void make(made *m) {
    size_t used = 0;
    memset(m, 0, sizeof *m);
    assert_int_equal(ea_relog_schema_begin(m->schema, sizeof m->schema, &used, "Step"), 0);
    assert_int_equal(ea_relog_schema_field(m->schema, sizeof m->schema, &used, "Number", TLG_UINT32, 0), 0);
    assert_int_equal(ea_relog_schema_field(m->schema, sizeof m->schema, &used, "Text", TLG_UNICODE, 0), 0);
    assert_int_equal(ea_relog_schema_field(m->schema, sizeof m->schema, &used, "Count", TLG_UINT16, 0), 0);
    ea_store32(m->payload, 7);
    memcpy(m->payload + 4, "a\0b\0\0\0", 6);
    ea_store16(m->payload + 10, 9);
    memcpy(m->payload + 12, "xyz", 3);
    m->item = (ea_relog_item){.type = TLG_SCHEMA, .size_bytes = (uint32_t)used, .data = m->schema};
    m->event = (ea_relog_event){.channel = 11,
                                .flags = 0x41,
                                .pointer_size = 8,
                                .header_type = EA_RELOG_HEADER_EVENT64,
                                .item_count = 1,
                                .items = &m->item,
                                .payload = m->payload,
                                .payload_bytes = 15};
}

static void test_fields(void **state) {
    ea_relog_fields *f;
    made m;
    uint64_t number = 0;
    char longest[40000];
    (void)state;
    make(&m);
    assert_int_equal(ea_relog_fields_create(&f), 0);
    assert_string_equal(ea_relog_event_name(f, &m.event), "Step");
    assert_int_equal(ea_relog_get_number(f, &m.event, "Number", &number), 0);
    assert_int_equal(number, 7);
    assert_string_equal(ea_relog_get_text(f, &m.event, "Text"), "ab");
    assert_int_equal(ea_relog_get_number(f, &m.event, "Absent", &number), EA_ENOTFOUND);
    assert_null(ea_relog_get_text(f, &m.event, "Absent"));
    /* several fields of one event; the rest stays */
    ea_relog_event changed = m.event;
    assert_int_equal(ea_relog_set_text(f, &changed, "Text",
                                       "gr\xc3\xb6\xc3\x9f"
                                       "er"),
                     0);
    assert_int_equal(ea_relog_set_number(f, &changed, "Number", UINT32_MAX), 0);
    assert_string_equal(ea_relog_get_text(f, &changed, "Text"), "gr\xc3\xb6\xc3\x9f"
                                                                "er");
    assert_int_equal(ea_relog_get_number(f, &changed, "Number", &number), 0);
    assert_int_equal(number, UINT32_MAX);
    assert_int_equal(ea_relog_get_number(f, &changed, "Count", &number), 0);
    assert_int_equal(number, 9);
    assert_int_equal(changed.payload_bytes, 4 + 14 + 2 + 3);
    assert_memory_equal(changed.payload + 20, "xyz", 3);
    assert_int_equal(m.event.payload_bytes, 15);
    /* what is refused leaves the event as it is */
    const ea_relog_event before = changed;
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(ea_relog_set_number(f, &changed, "Count", 65536), EA_EINVAL);
    assert_int_equal(ea_relog_set_text(f, &changed, "Number", "x"), EA_EINVAL);
    assert_int_equal(ea_relog_set_number(f, &changed, "Text", 1), EA_EINVAL);
    assert_int_equal(ea_relog_set_number(f, &changed, "Absent", 1), EA_ENOTFOUND);
    assert_int_equal(ea_relog_set_text(f, &changed, "Text", longest), EA_ELIMIT);
    assert_memory_equal(&changed, &before, sizeof before);
    assert_int_equal(ea_relog_fields_manifest(f, "/nowhere.man") < 0, 1);
    ea_relog_fields_destroy(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fields)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
