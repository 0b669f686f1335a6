/* Binary XML: tokens, templates and their values become nodes. See evtx.h. */
#include "proto/base/array.h"
#include "proto/evtx/evtx.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 24, /* of a record */
    OPEN_MAX = 64,     /* elements inside each other, in one fragment */
    NESTED_MAX = 8,    /* fragments inside each other */
    NODE_COST = 16,
    NAME_MAX = 1024, /* characters */
    MORE = 0x40,     /* a token's flag */
};

enum token {
    TOKEN_EOF = 0,
    TOKEN_OPEN = 1,
    TOKEN_CLOSE_START = 2,
    TOKEN_CLOSE_EMPTY = 3,
    TOKEN_CLOSE = 4,
    TOKEN_VALUE = 5,
    TOKEN_ATTRIBUTE = 6,
    TOKEN_CDATA = 7,
    TOKEN_CHARACTER = 8,
    TOKEN_ENTITY = 9,
    TOKEN_PI_TARGET = 10,
    TOKEN_PI_DATA = 11,
    TOKEN_TEMPLATE = 12,
    TOKEN_SUBSTITUTION = 13,
    TOKEN_OPTIONAL = 14,
    TOKEN_HEADER = 15,
};

typedef struct parser {
    ea_evtx_reader *r;
    const uint8_t *data; /* of the chunk: names and templates are found by their place in it */
    uint32_t bytes;
    uint32_t work;
    const char *wrong;
    int no_memory;
} parser;

/* A fragment that is being read. */
typedef struct fragment {
    uint32_t at, end;
    const size_t *first_value; /* NULL: there are none */
    size_t value_count;
    unsigned nesting;
    int bare; /* elements have no dependency id: those outside of a template */
    unsigned open_count;
    uint32_t open[OPEN_MAX];
    int in_start;         /* an element's attributes may come */
    size_t attribute;     /* 1 + number of the attribute's node that takes values; 0: none */
    int attribute_absent; /* one of its values is an optional one that the record does not have */
} fragment;

static void parse_fragment(parser *p, fragment *f);

static int charge(parser *p, uint32_t cost) {
    if (p->wrong)
        return 0;
    if (p->work < cost) {
        p->work = 0;
        p->wrong = "a record's XML unfolds to too much";
        return 0;
    }
    p->work -= cost;
    return 1;
}

static void evtx_binxml_push(parser *p, uint8_t kind, uint8_t type, const uint8_t *data, uint32_t len_bytes) {
    ea_evtx_reader *r = p->r;
    if (EA_GROW(r->nodes, r->node_capacity, r->node_count + 1, SIZE_MAX)) {
        p->no_memory = 1;
        p->wrong = "there is no memory";
        return;
    }
    r->nodes[r->node_count++] = (ea_evtx_node){kind, type, len_bytes, data};
}

static void push_charged(parser *p, uint8_t kind, uint8_t type, const uint8_t *data, uint32_t len_bytes) {
    if (charge(p, len_bytes))
        evtx_binxml_push(p, kind, type, data, len_bytes);
}

/* So many bytes at f->at, which moves after them; NULL with p->wrong when they are not there. */
static const uint8_t *evtx_binxml_take(parser *p, fragment *f, uint32_t len_bytes) {
    if (p->wrong)
        return NULL;
    if (len_bytes > f->end - f->at) {
        p->wrong = "a record's XML ends inside a token";
        return NULL;
    }
    const uint8_t *at = p->data + f->at;
    f->at += len_bytes;
    return at;
}

/* The name at a place of the chunk: 1, or 0 when there is none. */
static int evtx_binxml_name_at(const parser *p, uint32_t at, const uint8_t **ret, uint32_t *ret_bytes) {
    if (at > p->bytes || p->bytes - at < 10)
        return 0;
    uint32_t count = ea_load16(p->data + at + 6);
    if (count == 0 || count > NAME_MAX || 2 * count + 10 > p->bytes - at || ea_load16(p->data + at + 8 + 2 * count))
        return 0;
    *ret = p->data + at + 8;
    *ret_bytes = 2 * count;
    return 1;
}

/* A name by its place, which is here the first time that the chunk has it. */
static int evtx_binxml_take_name(parser *p, fragment *f, const uint8_t **ret, uint32_t *ret_bytes) {
    const uint8_t *place = evtx_binxml_take(p, f, 4);
    if (!place)
        return 0;
    uint32_t at = ea_load32(place);
    if (!evtx_binxml_name_at(p, at, ret, ret_bytes)) {
        p->wrong = "a record's XML names an element or attribute that is not in the chunk";
        return 0;
    }
    return at != f->at || evtx_binxml_take(p, f, 10 + *ret_bytes) != NULL;
}

static void end_attribute(parser *p, fragment *f) {
    if (f->attribute && f->attribute_absent && p->r->node_count == f->attribute)
        p->r->node_count--;
    f->attribute = 0;
    f->attribute_absent = 0;
}

static void open_element(parser *p, fragment *f, int has_attributes) {
    const uint8_t *name;
    uint32_t name_bytes, begin = f->at;
    if (f->open_count == OPEN_MAX) {
        p->wrong = "a record's XML has more than 64 elements inside each other";
        return;
    }
    if (!evtx_binxml_take(p, f, f->bare ? 4 : 6))
        return;
    int found = evtx_binxml_take_name(p, f, &name, &name_bytes);
    if (!found && f->bare && !p->no_memory) { /* some have the dependency id all the same */
        p->wrong = NULL;
        f->at = begin;
        found = evtx_binxml_take(p, f, 6) && evtx_binxml_take_name(p, f, &name, &name_bytes);
    }
    if (!found || (has_attributes && !evtx_binxml_take(p, f, 4)))
        return;
    f->open[f->open_count] = (uint32_t)p->r->node_count;
    push_charged(p, EA_EVTX_ELEMENT, 0, name, name_bytes);
    if (!p->wrong)
        f->open_count++;
    f->in_start = 1;
}

static void close_element(parser *p, fragment *f) {
    end_attribute(p, f);
    f->in_start = 0;
    if (f->open_count == 0)
        p->wrong = "a record's XML ends an element that it did not begin";
    else
        evtx_binxml_push(p, EA_EVTX_END, 0, NULL, f->open[--f->open_count]);
}

/* A u16 number of characters, and these. */
static void text(parser *p, fragment *f, int shown) {
    const uint8_t *count = evtx_binxml_take(p, f, 2);
    uint32_t len = count ? 2u * ea_load16(count) : 0;
    const uint8_t *chars = evtx_binxml_take(p, f, len);
    if (chars && shown && len)
        push_charged(p, EA_EVTX_TEXT, EA_EVTX_STRING, chars, len);
}

static void substitute(parser *p, fragment *f, int optional) {
    const uint8_t *token = evtx_binxml_take(p, f, 3);
    if (!token)
        return;
    if (!f->first_value) {
        p->wrong = "a record's XML asks for a value outside of a template";
        return;
    }
    unsigned number = ea_load16(token), declared = token[2];
    ea_evtx_value v = {0, 0, EA_EVTX_NULL};
    if (number < f->value_count)
        v = p->r->values[*f->first_value + number];
    int is_string = v.type == EA_EVTX_STRING || v.type == EA_EVTX_ANSI;
    if (v.type == EA_EVTX_NULL || (v.len_bytes == 0 && !is_string)) {
        if (f->attribute)
            f->attribute_absent |= optional;
        else if (declared == EA_EVTX_STRING || declared == EA_EVTX_ANSI)
            evtx_binxml_push(p, EA_EVTX_VALUE, EA_EVTX_STRING, p->data, 0);
    } else if (v.type == EA_EVTX_XML) {
        if (f->nesting == NESTED_MAX || f->attribute) {
            p->wrong = "a record's XML has too many values that are XML inside each other";
            return;
        }
        fragment inner = {.at = v.at, .end = v.at + v.len_bytes, .nesting = f->nesting + 1, .bare = 1};
        parse_fragment(p, &inner);
    } else {
        push_charged(p, EA_EVTX_VALUE, v.type, p->data + v.at, v.len_bytes);
    }
}

/* A template's number and place, itself the first time that the chunk has it, and the values for it. */
static void evtx_binxml_unfold(parser *p, fragment *f) {
    enum { DEFINITION_BYTES = 24 };

    const uint8_t *token = evtx_binxml_take(p, f, 9);
    if (!token)
        return;
    uint32_t definition = ea_load32(token + 5);
    if (f->nesting == NESTED_MAX || definition > p->bytes || p->bytes - definition < DEFINITION_BYTES ||
        ea_load32(p->data + definition + 20) > p->bytes - definition - DEFINITION_BYTES) {
        p->wrong = "a record's template is not in the chunk";
        return;
    }
    if (ea_load32(p->data + definition + 4) != ea_load32(token + 1)) {
        p->wrong = "a record's template is not in the chunk: another one is in its place";
        return;
    }
    uint32_t body = definition + DEFINITION_BYTES, size = ea_load32(p->data + definition + 20);
    if (definition == f->at && !evtx_binxml_take(p, f, DEFINITION_BYTES + size))
        return;
    const uint8_t *counted = evtx_binxml_take(p, f, 4);
    uint32_t count = counted ? ea_load32(counted) : 0;
    if (counted && count > (f->end - f->at) / 4)
        p->wrong = "a record's values are more than its bytes";
    const uint8_t *kinds = p->wrong ? NULL : evtx_binxml_take(p, f, 4 * count);
    ea_evtx_reader *r = p->r;
    size_t first = r->value_count;
    if (!kinds || !charge(p, 4 * count))
        return;
    if (EA_GROW(r->values, r->value_capacity, first + count + 1, SIZE_MAX)) {
        p->no_memory = 1;
        p->wrong = "there is no memory";
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t len = ea_load16(kinds + 4 * (size_t)i), at = f->at;
        if (!evtx_binxml_take(p, f, len))
            return;
        r->values[first + i] = (ea_evtx_value){at, len, kinds[4 * (size_t)i + 2]};
    }
    r->value_count = first + count;
    fragment inner = {
        .at = body, .end = body + size, .first_value = &first, .value_count = count, .nesting = f->nesting + 1};
    parse_fragment(p, &inner);
    r->value_count = first;
}

/* Whether a token may come inside of a tag, or outside of one. */
static int belongs(const fragment *f, unsigned kind) {
    switch (kind) {
    case TOKEN_ATTRIBUTE:
    case TOKEN_CLOSE_START:
    case TOKEN_CLOSE_EMPTY:
        return f->in_start;
    case TOKEN_VALUE:
    case TOKEN_CHARACTER:
    case TOKEN_ENTITY:
    case TOKEN_SUBSTITUTION:
    case TOKEN_OPTIONAL:
        return !f->in_start || f->attribute;
    default:
        return !f->in_start;
    }
}

static void evtx_binxml_parse_token(parser *p, fragment *f, unsigned token) {
    const uint8_t *data;
    uint32_t len;
    unsigned kind = token & ~(unsigned)MORE;
    if (!belongs(f, kind)) {
        p->wrong = f->in_start ? "a record's XML has a token inside of a tag that does not belong there"
                               : "a record's XML has the token of a tag outside of one";
        return;
    }
    switch (kind) {
    case TOKEN_OPEN:
        open_element(p, f, (token & MORE) != 0);
        break;
    case TOKEN_CLOSE_START:
        end_attribute(p, f);
        f->in_start = 0;
        evtx_binxml_push(p, EA_EVTX_CONTENT, 0, NULL, 0);
        break;
    case TOKEN_CLOSE_EMPTY:
    case TOKEN_CLOSE:
        close_element(p, f);
        break;
    case TOKEN_VALUE:
        if ((data = evtx_binxml_take(p, f, 1)) && *data != EA_EVTX_STRING)
            p->wrong = "a record's XML has a text that is no string";
        else
            text(p, f, 1);
        break;
    case TOKEN_ATTRIBUTE:
        end_attribute(p, f);
        if (evtx_binxml_take_name(p, f, &data, &len))
            push_charged(p, EA_EVTX_ATTRIBUTE, 0, data, len);
        f->attribute = p->r->node_count;
        break;
    case TOKEN_CDATA:
        text(p, f, 1);
        break;
    case TOKEN_CHARACTER:
        if ((data = evtx_binxml_take(p, f, 2)))
            evtx_binxml_push(p, EA_EVTX_CHARACTER, 0, NULL, ea_load16(data));
        break;
    case TOKEN_ENTITY:
        if (evtx_binxml_take_name(p, f, &data, &len))
            push_charged(p, EA_EVTX_ENTITY, 0, data, len);
        break;
    case TOKEN_PI_TARGET:
        (void)evtx_binxml_take_name(p, f, &data, &len);
        break;
    case TOKEN_PI_DATA:
        text(p, f, 0);
        break;
    case TOKEN_TEMPLATE:
        evtx_binxml_unfold(p, f);
        break;
    case TOKEN_SUBSTITUTION:
    case TOKEN_OPTIONAL:
        substitute(p, f, kind == TOKEN_OPTIONAL);
        break;
    case TOKEN_HEADER:
        (void)evtx_binxml_take(p, f, 3);
        break;
    default:
        p->wrong = "a record's XML has a token that does not exist";
    }
}

/* Recursion is bounded by NESTED_MAX. */
static void parse_fragment(parser *p, fragment *f) {
    while (!p->wrong && f->at < f->end && charge(p, NODE_COST)) {
        unsigned token = p->data[f->at++];
        if (token == TOKEN_EOF)
            break;
        evtx_binxml_parse_token(p, f, token);
    }
    if (!p->wrong && f->open_count)
        p->wrong = "a record's XML ends inside an element";
    while (f->open_count && !p->no_memory)
        evtx_binxml_push(p, EA_EVTX_END, 0, NULL, f->open[--f->open_count]);
}

int ea_evtx_read(ea_evtx_reader *r, ea_evtx_chunk *c, const ea_evtx_place *place, const char **ret_wrong) {
    uint32_t work = c->work < EA_EVTX_RECORD_WORK ? c->work : EA_EVTX_RECORD_WORK;
    parser p = {.r = r, .data = c->data, .bytes = c->bytes, .work = work};
    fragment f = {.at = place->offset + HEADER_BYTES, .end = place->offset + place->size_bytes - 4, .bare = 1};
    r->node_count = 0;
    r->value_count = 0;
    r->record_bytes = place->size_bytes;
    parse_fragment(&p, &f);
    c->work -= work - p.work;
    if (!p.wrong && r->node_count == 0)
        p.wrong = "a record has no XML";
    *ret_wrong = p.wrong;
    return p.no_memory ? EA_ENOMEM : 0;
}

void ea_evtx_reader_deinit(ea_evtx_reader *r) {
    free(r->nodes);
    free(r->values);
    *r = (ea_evtx_reader){0};
}
