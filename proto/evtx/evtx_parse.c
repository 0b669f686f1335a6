/* An event's XML becomes nodes: the text that Windows renders of a record (EvtRender), which has what binary XML has,
 * but all values as texts. See evtx.h. Source: W3C, Extensible Markup Language 1.0; [MS-EVEN6] 2.2.13 for the form. */
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/evtx/evtx.h"

#include <stdlib.h>
#include <string.h>

enum { OPEN_MAX = 64, NODES_MAX = EA_EVTX_RECORD_WORK / 16 };

typedef struct xml {
    ea_evtx_reader *r;
    const uint8_t *data; /* UTF-16 */
    uint32_t at, end;    /* in units */
    unsigned open_count;
    uint32_t open[OPEN_MAX]; /* their nodes */
    const char *wrong;
    int no_memory;
} xml;

static unsigned unit_at(const xml *x, uint32_t at) {
    return at < x->end ? ea_load16(x->data + 2 * (size_t)at) : 0;
}

static int xml_is(const xml *x, const char *ascii) {
    for (uint32_t i = 0; ascii[i]; i++)
        if (unit_at(x, x->at + i) != (unsigned char)ascii[i])
            return 0;
    return 1;
}

static int evtx_parse_is_space(unsigned c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static void xml_skip_space(xml *x) {
    while (x->at < x->end && evtx_parse_is_space(unit_at(x, x->at)))
        x->at++;
}

static void xml_push(xml *x, enum ea_evtx_kind kind, uint8_t type, uint32_t at, uint32_t len_bytes) {
    ea_evtx_reader *r = x->r;
    if (x->wrong || x->no_memory)
        return;
    if (r->node_count >= NODES_MAX && kind != EA_EVTX_END) { /* what was begun is ended */
        x->wrong = "the XML has too many parts";
        return;
    }
    if (EA_GROW(r->nodes, r->node_capacity, r->node_count + 1, NODES_MAX + OPEN_MAX)) {
        x->no_memory = 1;
        return;
    }
    r->nodes[r->node_count++] =
        (ea_evtx_node){.kind = (uint8_t)kind, .type = type, .len_bytes = len_bytes, .data = x->data + 2 * (size_t)at};
}

/* 0 for what ends a name: also for the end of the text. */
static int is_of_name(unsigned unit) {
    static const char NOT_IN_NAMES[] = "<>/='\"& \t\r\n?!;";
    return unit >= 0x80 || (unit && !strchr(NOT_IN_NAMES, (int)unit));
}

/* A name: its units from *ret_at on; 0: it is missing. */
static uint32_t xml_name(xml *x, uint32_t *ret_at) {
    *ret_at = x->at;
    while (is_of_name(unit_at(x, x->at)))
        x->at++;
    if (x->at == *ret_at)
        x->wrong = "a name is missing";
    return x->at - *ret_at;
}

static void xml_character(xml *x) {
    uint64_t v = 0;
    unsigned base = 10, digits = 0;
    x->at += 2;
    if (unit_at(x, x->at) == 'x') {
        base = 16;
        x->at++;
    }
    for (;; x->at++, digits++) {
        unsigned c = unit_at(x, x->at), digit = c >= '0' && c <= '9'   ? c - '0'
                                                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                                       : 99;
        if (digit >= base || digits > 8)
            break;
        v = v * base + digit;
    }
    if (!digits || unit_at(x, x->at) != ';') {
        x->wrong = "a character's number is not whole";
        return;
    }
    x->at++;
    xml_push(x, EA_EVTX_CHARACTER, 0, 0, v && v < 0xFFFE ? (uint32_t)v : 0xFFFD);
}

static void xml_entity(xml *x) {
    uint32_t at, units;
    if (unit_at(x, x->at + 1) == '#') {
        xml_character(x);
        return;
    }
    at = x->at + 1;
    units = 0;
    while (is_of_name(unit_at(x, at + units)))
        units++;
    if (!units || unit_at(x, at + units) != ';') {
        x->wrong = "an entity has no end";
        return;
    }
    x->at = at + units + 1;
    xml_push(x, EA_EVTX_ENTITY, 0, at, 2 * units);
}

/* Text and references up to one of these units, which stays. */
static void xml_text(xml *x, unsigned end_unit) {
    while (x->at < x->end && !x->wrong && !x->no_memory) {
        uint32_t at = x->at;
        unsigned c = 0;
        while (x->at < x->end && (c = unit_at(x, x->at)) != end_unit && c != '&' && c != '<')
            x->at++;
        if (x->at > at)
            xml_push(x, EA_EVTX_TEXT, EA_EVTX_STRING, at, 2 * (x->at - at));
        if (x->at == x->end || c != '&')
            return;
        xml_entity(x);
    }
}

static void xml_attribute(xml *x) {
    uint32_t at, units = xml_name(x, &at);
    if (x->wrong)
        return;
    xml_push(x, EA_EVTX_ATTRIBUTE, 0, at, 2 * units);
    xml_skip_space(x);
    if (unit_at(x, x->at) != '=') {
        x->wrong = "an attribute has no value";
        return;
    }
    x->at++;
    xml_skip_space(x);
    unsigned quote = unit_at(x, x->at);
    if (quote != '\'' && quote != '"') {
        x->wrong = "an attribute's value has no quotes";
        return;
    }
    x->at++;
    xml_text(x, quote);
    if (!x->wrong && unit_at(x, x->at) != quote)
        x->wrong = "an attribute's value has no end";
    x->at++;
}

static void xml_open(xml *x) {
    uint32_t at, units;
    x->at++;
    units = xml_name(x, &at);
    if (!x->wrong && x->open_count == OPEN_MAX)
        x->wrong = "elements are too deep inside each other";
    if (x->wrong)
        return;
    uint32_t node = (uint32_t)x->r->node_count;
    xml_push(x, EA_EVTX_ELEMENT, 0, at, 2 * units);
    if (x->wrong || x->no_memory)
        return;
    x->open[x->open_count++] = node;
    for (;;) {
        xml_skip_space(x);
        if (x->at >= x->end)
            x->wrong = "a tag has no end";
        if (x->wrong || x->no_memory)
            return;
        if (unit_at(x, x->at) == '>') {
            x->at++;
            xml_push(x, EA_EVTX_CONTENT, 0, 0, 0);
            return;
        }
        if (xml_is(x, "/>")) {
            x->at += 2;
            xml_push(x, EA_EVTX_END, 0, 0, x->open[--x->open_count]);
            return;
        }
        xml_attribute(x);
    }
}

static void xml_close(xml *x) {
    uint32_t at, units;
    x->at += 2;
    units = xml_name(x, &at);
    xml_skip_space(x);
    if (x->wrong)
        return;
    const ea_evtx_node *open = x->open_count ? &x->r->nodes[x->open[x->open_count - 1]] : NULL;
    if (unit_at(x, x->at) != '>' || !open || open->len_bytes != 2 * units ||
        memcmp(open->data, x->data + 2 * (size_t)at, open->len_bytes) != 0) {
        x->wrong = "a tag ends no element";
        return;
    }
    x->at++;
    xml_push(x, EA_EVTX_END, 0, 0, x->open[--x->open_count]);
}

/* Skips up to and over a mark. Returns the units before it. */
static uint32_t xml_skip_to(xml *x, const char *mark) {
    uint32_t begin = x->at;
    while (x->at < x->end && !xml_is(x, mark))
        x->at++;
    uint32_t units = x->at - begin;
    if (x->at == x->end)
        x->wrong = "a part has no end";
    x->at += (uint32_t)strlen(mark);
    return units;
}

int ea_evtx_parse(ea_evtx_reader *r, const uint8_t *data, uint32_t len_bytes, const char **ret_wrong) {
    xml x = {.r = r, .data = data, .end = len_bytes / 2};
    r->node_count = 0;
    r->record_bytes = len_bytes;
    if (unit_at(&x, 0) == 0xFEFF)
        x.at++;
    while (x.at < x.end && !x.wrong && !x.no_memory) {
        if (xml_is(&x, "<!--"))
            xml_skip_to(&x, "-->");
        else if (xml_is(&x, "<?"))
            xml_skip_to(&x, "?>");
        else if (xml_is(&x, "<![CDATA[") && x.open_count) {
            x.at += 9;
            uint32_t at = x.at, units = xml_skip_to(&x, "]]>");
            if (units)
                xml_push(&x, EA_EVTX_TEXT, EA_EVTX_STRING, at, 2 * units);
        } else if (xml_is(&x, "</"))
            xml_close(&x);
        else if (unit_at(&x, x.at) != '<') {
            uint32_t at = x.at;
            if (x.open_count) {
                xml_text(&x, '<');
                continue;
            }
            xml_skip_space(&x);
            if (x.at == at && unit_at(&x, x.at)) /* a NUL ends it */
                x.wrong = "text outside of elements";
            if (!unit_at(&x, x.at))
                break;
        } else if (!x.open_count && r->node_count)
            x.wrong = "a second element";
        else
            xml_open(&x);
    }
    if (!x.wrong && (x.open_count || !r->node_count))
        x.wrong = r->node_count ? "an element has no end" : "no element";
    while (x.open_count && !x.no_memory) /* elements are always ended */
        if (EA_GROW(r->nodes, r->node_capacity, r->node_count + 1, NODES_MAX + OPEN_MAX))
            x.no_memory = 1;
        else
            r->nodes[r->node_count++] = (ea_evtx_node){.kind = EA_EVTX_END, .len_bytes = x.open[--x.open_count]};
    *ret_wrong = x.wrong;
    return x.no_memory ? EA_ENOMEM : 0;
}

/* ---- the record's number and time ---- */

static int node_is(const ea_evtx_node *n, enum ea_evtx_kind kind, const char *ascii) {
    size_t len = strlen(ascii);
    if (n->kind != kind || n->len_bytes != 2 * len)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (ea_load16(n->data + 2 * i) != (unsigned char)ascii[i])
            return 0;
    return 1;
}

/* The text of a value in ASCII; "" when it is another or too long. */
static void ascii_of(const ea_evtx_node *n, char out[40]) {
    size_t len = n->kind == EA_EVTX_TEXT ? n->len_bytes / 2 : 0;
    out[0] = 0;
    if (len >= 40)
        return;
    for (size_t i = 0; i < len; i++) {
        unsigned c = ea_load16(n->data + 2 * i);
        out[i] = c < 0x80 ? (char)c : '?';
    }
    out[len] = 0;
}

int ea_evtx_place_of(const ea_evtx_reader *r, ea_evtx_place *ret) {
    static const int64_t SINCE_1601 = INT64_C(116444736000000000);
    int has_id = 0, has_time = 0;
    char text[40];
    for (size_t i = 0; i + 2 < r->node_count && !(has_id && has_time); i++) {
        const ea_evtx_node *n = &r->nodes[i];
        int64_t utc_ns;
        if (!has_id && node_is(n, EA_EVTX_ELEMENT, "EventRecordID") && n[1].kind == EA_EVTX_CONTENT) {
            ascii_of(&n[2], text);
            has_id = !ea_u64_parse(text, &ret->id);
        } else if (!has_time && node_is(n, EA_EVTX_ELEMENT, "TimeCreated") &&
                   node_is(&n[1], EA_EVTX_ATTRIBUTE, "SystemTime")) {
            ascii_of(&n[2], text);
            has_time = text[0] >= '0' && text[0] <= '9' && !ea_time_parse(text, &(ea_time_reference){0}, &utc_ns);
            if (has_time)
                ret->filetime = utc_ns / 100 + SINCE_1601;
        }
    }
    return has_id && has_time;
}
