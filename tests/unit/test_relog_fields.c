/* Fields of events by name, in the relog library. */
#include "proto/base/bytes.h"
#include "proto/base/err.h"
#include "proto/relog/relog.h"
#include "tests/unit/scratch.h"

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

/* A text whose characters a field before it counts, of a manifest: Count u16, Text, End u8. */
static void test_counted(void **state) {
    static const char MANIFEST[] =
        "<instrumentationManifest xmlns=\"http://schemas.microsoft.com/win/2004/08/events\"><instrumentation><events>"
        "<provider name=\"Made\" guid=\"{00000000-0000-0000-0000-0000000000aa}\" symbol=\"M\" resourceFileName=\"m\" "
        "messageFileName=\"m\"><templates><template tid=\"T\"><data name=\"Count\" inType=\"win:UInt16\"/><data "
        "name=\"Text\" inType=\"win:UnicodeString\" length=\"Count\"/><data name=\"End\" inType=\"win:UInt8\"/>"
        "</template></templates><events><event value=\"1\" symbol=\"E\" template=\"T\"/></events></provider></events>"
        "</instrumentation></instrumentationManifest>";
    static const uint8_t PAYLOAD[] = {2, 0, 'a', 0, 'b', 0, 9};
    const ea_relog_event event = {.provider = {{[15] = 0xaa}},
                                  .id = 1,
                                  .pointer_size = 8,
                                  .header_type = EA_RELOG_HEADER_EVENT64,
                                  .payload = PAYLOAD,
                                  .payload_bytes = sizeof PAYLOAD};
    ea_relog_event changed = event;
    ea_relog_fields *f;
    uint64_t number = 0;
    ea_err err;
    (void)state;
    assert_int_equal(ea_path_write_all(scratch_path("made.man"), MANIFEST, sizeof MANIFEST - 1, 0, &err), 0);
    assert_int_equal(ea_relog_fields_create(&f), 0);
    assert_int_equal(ea_relog_fields_manifest(f, scratch_path("made.man")), 0);
    assert_string_equal(ea_relog_get_text(f, &event, "Text"), "ab");
    assert_int_equal(ea_relog_set_text(f, &changed, "Text", "longer \xf0\x9f\x98\x80"), 0);
    assert_int_equal(changed.payload_bytes, 2 + 2 * 9 + 1);
    assert_string_equal(ea_relog_get_text(f, &changed, "Text"), "longer \xf0\x9f\x98\x80");
    assert_int_equal(ea_relog_get_number(f, &changed, "Count", &number), 0);
    assert_int_equal(number, 9);
    assert_int_equal(ea_relog_get_number(f, &changed, "End", &number), 0);
    assert_int_equal(number, 9);
    assert_int_equal(ea_relog_set_number(f, &changed, "Count", 3), EA_EINVAL); /* the text has nine */
    assert_int_equal(ea_relog_set_text(f, &changed, "Text", ""), 0);
    assert_int_equal(changed.payload_bytes, 3);
    ea_relog_fields_destroy(f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fields),
                                       cmocka_unit_test_setup_teardown(test_counted, scratch_make, scratch_clear)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
