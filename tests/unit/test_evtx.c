/* proto/evtx on records made by hand: what is made of one stays in proportion to its bytes, and is XML. */
#include "proto/evtx/evtx.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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

/* ---- XML as Windows renders it ---- */

static const char *parse(ea_evtx_reader *r, const char *xml, uint8_t *utf16, size_t room) {
    const char *wrong;
    size_t n = ea_utf8_to_utf16(xml, strlen(xml), utf16, room);
    assert_true(n <= room);
    assert_int_equal(ea_evtx_parse(r, utf16, (uint32_t)n, &wrong), 0);
    return wrong;
}

static void rendered_xml_is_read(void **state) {
    static const char XML[] =
        "<Event xmlns='http://schemas.microsoft.com/win/2004/08/events/event'><System><Provider Name='Maker' "
        "Guid='{54849625-5478-4994-a5ba-3e3b0328c30d}'/><EventID>4688</EventID><Version>2</Version><TimeCreated "
        "SystemTime='2023-11-14T22:13:20.1234567Z'/><EventRecordID>18446744073709551615</EventRecordID><Execution "
        "ProcessID='4' ThreadID='8'/><Channel>Security</Channel><Computer>pc</Computer><Security "
        "UserID='S-1-5-21-1-2-4294967295'/></System><EventData><Data "
        "Name='CommandLine'>a &amp; &lt;b&gt; &quot;gr\xc3\xb6\xc3\x9f\x65r&quot; &#10;</Data><Data "
        "Name='NewProcessId'>0x64</Data><Data></Data><Empty/></EventData></Event>";
    ea_evtx_reader r = {0};
    ea_evtx_place place = {0};
    static ea_evtx_event e;
    uint8_t utf16[4 * sizeof XML];
    ea_text out;
    (void)state;
    ea_text_init(&out);
    assert_null(parse(&r, XML, utf16, sizeof utf16));
    ea_evtx_put_xml(&out, &r);
    assert_string_equal(out.data, XML);
    assert_int_equal(ea_evtx_place_of(&r, &place), 1);
    assert_true(place.id == UINT64_MAX);
    assert_true(place.filetime == INT64_C(116444736000000000) + INT64_C(17000000001234567));
    ea_evtx_event_init(&e);
    assert_int_equal(ea_evtx_event_fill(&e, &r, &place), 0);
    assert_string_equal(e.provider_name, "Maker");
    assert_string_equal(e.channel, "Security");
    assert_int_equal(e.event_id, 4688);
    assert_int_equal(e.version, 2);
    assert_int_equal(e.pid, 4);
    ea_text_clear(&out);
    ea_evtx_put_value(&out, EA_EVTX_SID, e.user, e.user_bytes);
    assert_string_equal(out.data, "S-1-5-21-1-2-4294967295");
    assert_int_equal(e.field_count, 2);
    assert_string_equal(e.fields[0].name, "CommandLine");
    ea_text_clear(&out);
    ea_evtx_put_value(&out, e.fields[0].type, e.fields[0].data, e.fields[0].len_bytes);
    assert_string_equal(out.data, "a & <b> \"gr\xc3\xb6\xc3\x9f\x65r\" \n");
    ea_evtx_event_deinit(&e);

    /* other forms of the same */
    assert_null(
        parse(&r, "<?xml version='1.0'?><!-- > --><a b=\"1\" ><![CDATA[<&]]>&#x41;</a >\r\n", utf16, sizeof utf16));
    ea_text_clear(&out);
    ea_evtx_put_xml(&out, &r);
    assert_string_equal(out.data, "<a b='1'>&lt;&amp;A</a>");
    assert_int_equal(ea_evtx_place_of(&r, &place), 0);

    /* other texts stay texts */
    static const char *const NO_SIDS[] = {"S-1-",
                                          "S-1-5-",
                                          "S-1-5-4294967296",
                                          "S-1-281474976710656-1",
                                          "S-1-5-18 ",
                                          "S-2-5-18",
                                          "S-1-5-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1-1",
                                          "x"};
    for (size_t i = 0; i < sizeof NO_SIDS / sizeof *NO_SIDS; i++) {
        char text[200];
        snprintf(text, sizeof text, "<Event><System><Security UserID='%s'/></System></Event>", NO_SIDS[i]);
        assert_null(parse(&r, text, utf16, sizeof utf16));
        ea_evtx_event_init(&e);
        assert_int_equal(ea_evtx_event_fill(&e, &r, &place), 0);
        assert_null(e.user);
        assert_string_equal(e.fields[0].name, "Security_UserID");
        ea_evtx_event_deinit(&e);
    }

    static const char *const WRONG[] = {"",
                                        "a",
                                        "<",
                                        "<a",
                                        "<a>",
                                        "<a></b>",
                                        "</a>",
                                        "<a/><b/>",
                                        "<a b/>",
                                        "<a b=1/>",
                                        "<a b='1/>",
                                        "<a>&amp</a>",
                                        "<a>&#;</a>",
                                        "<a>&#x;</a>",
                                        "<a>&#65</a>",
                                        "<a><!-- </a>",
                                        "<a><![CDATA[ </a>",
                                        "<a ='1'/>",
                                        "<a></a",
                                        "<a/>b",
                                        "<1 <"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        if (!parse(&r, WRONG[i], utf16, sizeof utf16))
            fail_msg("%s is read", WRONG[i]);
        ea_text_clear(&out);
        ea_evtx_put_xml(&out, &r); /* whatever was read is ended */
    }
    const size_t many = EA_EVTX_RECORD_WORK / 16 / 2 + 1; /* more parts than a record unfolds to */
    char *xml = malloc(4 * many + 8);
    uint8_t *wide = malloc(2 * (4 * many + 8));
    assert_true(xml && wide);
    memcpy(xml, "<a>", 3);
    for (size_t i = 0; i < many; i++)
        memcpy(xml + 3 + 4 * i, "<b/>", 4);
    memcpy(xml + 3 + 4 * many, "</a>", 5);
    assert_string_equal(parse(&r, xml, wide, 2 * (4 * many + 8)), "the XML has too many parts");
    free(xml);
    free(wide);
    char deep[400];
    for (size_t i = 0; i < 100; i++)
        memcpy(deep + 3 * i, "<a>", 4);
    assert_non_null(parse(&r, deep, utf16, sizeof utf16));
    ea_text_deinit(&out);
    ea_evtx_reader_deinit(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_fields_are_bounded),
        cmocka_unit_test(tags_of_arrays_are_bounded),
        cmocka_unit_test(xml_has_characters_of_xml),
        cmocka_unit_test(rendered_xml_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
