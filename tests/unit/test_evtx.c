/* proto/evtx on records made by hand: what is made of one stays in proportion to its bytes, and is XML. */
#include "proto/evtx/evtx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* A chunk with one record. */
typedef struct maker {
    uint8_t data[EA_EVTX_CHUNK_BYTES];
    uint32_t used;
    ea_evtx_chunk chunk;
    ea_evtx_place place;
    ea_evtx_reader reader;
} maker;

enum { LONG_NAME = 1000 };

static void put(maker *m, uint64_t v, uint32_t len_bytes) {
    assert_true(m->used + len_bytes <= sizeof m->data);
    memcpy(m->data + m->used, &v, len_bytes); /* little-endian */
    m->used += len_bytes;
}

static void begin(maker *m) {
    memset(m, 0, sizeof *m);
    m->used = EA_EVTX_CHUNK_HEADER_BYTES;
    put(m, 0x2a2a, 8);
    put(m, 1, 8);
    put(m, 131116874743460000, 8);
}

/* Ends the record and reads it. */
static void end(maker *m) {
    const char *wrong;
    uint32_t size = m->used + 4 - EA_EVTX_CHUNK_HEADER_BYTES;
    put(m, size, 4);
    ea_store32(m->data + EA_EVTX_CHUNK_HEADER_BYTES + 4, size);
    ea_evtx_chunk_open(&m->chunk, m->data, m->used);
    assert_int_equal(ea_evtx_chunk_next(&m->chunk, &m->place), 1);
    assert_int_equal(ea_evtx_read(&m->reader, &m->chunk, &m->place, &wrong), 0);
    assert_null(wrong);
}

/* A name's place, and the name itself: count times this letter. Returns the place. */
static uint32_t put_name(maker *m, char letter, uint32_t count) {
    uint32_t at = m->used + 4;
    put(m, at, 4);
    put(m, 0, 6);
    put(m, count, 2);
    for (uint32_t i = 0; i < count; i++)
        put(m, (unsigned char)letter, 2);
    put(m, 0, 2);
    return at;
}

static void names_of_fields_are_bounded(void **state) {
    enum { ATTRIBUTES = 5000 };

    static maker m;
    static ea_evtx_event e;
    uint32_t name = 0;
    (void)state;
    begin(&m);
    put(&m, 0x41, 1);
    put(&m, 0, 4);
    put_name(&m, 'a', LONG_NAME);
    put(&m, 0, 4);
    for (unsigned i = 0; i < ATTRIBUTES; i++) {
        put(&m, 0x46, 1);
        if (i)
            put(&m, name, 4);
        else
            name = put_name(&m, 'b', 1);
        put(&m, 0x0105, 2);
        put(&m, 1, 2);
        put(&m, 'x', 2);
    }
    put(&m, 3, 1);
    put(&m, 0, 1);
    end(&m);
    ea_evtx_event_init(&e);
    assert_int_equal(ea_evtx_event_fill(&e, &m.reader, &m.place), 0);
    assert_int_equal(e.field_count, EA_EVTX_FIELDS_MAX);
    assert_int_equal(e.left_out, ATTRIBUTES - EA_EVTX_FIELDS_MAX);
    assert_int_equal(strlen(e.fields[0].name), LONG_NAME + 2);
    assert_in_range(e.texts.capacity, 1, EA_EVTX_RECORD_WORK);
    ea_evtx_event_deinit(&e);
    ea_evtx_reader_deinit(&m.reader);
}

static void tags_of_arrays_are_bounded(void **state) {
    enum { ARRAYS = 200, NUMBERS = 300, ID = 7 };

    static maker m;
    uint32_t name = 0;
    ea_text xml;
    (void)state;
    begin(&m);
    put(&m, 0x010c, 2);
    put(&m, ID, 4);
    put(&m, m.used + 4, 4); /* the template is here */
    put(&m, 0, 4);
    put(&m, ID, 8);
    put(&m, 0, 8);
    uint32_t size_at = m.used;
    put(&m, 0, 4);
    put(&m, 0xffff01, 3);
    put(&m, 0, 4);
    put_name(&m, 'E', 1);
    put(&m, 2, 1);
    for (unsigned i = 0; i < ARRAYS; i++) {
        put(&m, 0xffff01, 3);
        put(&m, 0, 4);
        if (i)
            put(&m, name, 4);
        else
            name = put_name(&m, 'a', LONG_NAME);
        put(&m, 2, 1);
        put(&m, 13, 3); /* the value 0 */
        put(&m, EA_EVTX_U8 | EA_EVTX_ARRAY, 1);
        put(&m, 4, 1);
    }
    put(&m, 4, 2);
    ea_store32(m.data + size_at, m.used - size_at - 4);
    put(&m, 1, 4);
    put(&m, NUMBERS, 2);
    put(&m, EA_EVTX_U8 | EA_EVTX_ARRAY, 2);
    for (unsigned i = 0; i < NUMBERS; i++)
        put(&m, 5, 1);
    put(&m, 0, 1);
    end(&m);
    ea_text_init(&xml);
    ea_evtx_put_xml(&xml, &m.reader);
    assert_false(xml.failed);
    assert_memory_equal(xml.data + 3 + LONG_NAME + 2, "5</aaa", 6); /* the first one is elements */
    assert_non_null(strstr(xml.data, ">5, 5, "));                   /* a later one is not */
    /* start tag and end tag, and the rest of the XML */
    assert_in_range(xml.len_bytes, 1, 2 * EA_EVTX_WORK_PER_BYTE * m.place.size_bytes + 3 * EA_EVTX_RECORD_WORK);
    ea_text_deinit(&xml);
    ea_evtx_reader_deinit(&m.reader);
}

static void xml_has_characters_of_xml(void **state) {
    static const uint16_t TEXT[] = {0xFFFF, 'a', 0xFFFE, 0xFFFD, 0xFFBF, 0xD83D, 0xDE00, 1, 0xFFFF};
    static maker m;
    ea_text xml;
    (void)state;
    begin(&m);
    put(&m, 1, 1);
    put(&m, 0, 4);
    put_name(&m, 'E', 1);
    put(&m, 0x010502, 3);
    put(&m, sizeof TEXT / 2, 2);
    for (size_t i = 0; i < sizeof TEXT / 2; i++)
        put(&m, TEXT[i], 2);
    put(&m, 4, 1);
    put(&m, 0, 1);
    end(&m);
    ea_text_init(&xml);
    ea_evtx_put_xml(&xml, &m.reader);
    assert_string_equal(xml.data, "<E>\uFFFDa\uFFFD\uFFFD\uFFBF\U0001F600\uFFFD\uFFFD</E>");
    ea_text_deinit(&xml);
    ea_evtx_reader_deinit(&m.reader);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_fields_are_bounded),
        cmocka_unit_test(tags_of_arrays_are_bounded),
        cmocka_unit_test(xml_has_characters_of_xml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
