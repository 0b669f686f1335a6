/* An event's System values and its fields, out of its nodes. See evtx.h. */
#include "proto/base/map.h"
#include "proto/evtx/evtx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH_MAX = 64, /* of elements whose names count */
    SECTION = 1,    /* depth of System, EventData, UserData, ... inside of Event */
};

/* Where the walk is in the event. */
typedef struct filler {
    ea_evtx_event *e;
    const ea_evtx_reader *r;
    size_t depth;                  /* elements that are open */
    size_t open[DEPTH_MAX];        /* their nodes */
    size_t label;                  /* in e->texts: the attribute Name of the innermost element; SIZE_MAX: none */
    const ea_evtx_node *attribute; /* whose values come; NULL: none */
    size_t first, count;           /* the pieces of its value, or of the element's content */
} filler;

static int name_is(const ea_evtx_node *n, const char *ascii) {
    size_t len = strlen(ascii);
    if (n->len_bytes != 2 * len)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (ea_load16(n->data + 2 * i) != (unsigned char)ascii[i])
            return 0;
    return 1;
}

static int is_piece(const ea_evtx_node *n) {
    return n->kind == EA_EVTX_VALUE || n->kind == EA_EVTX_TEXT || n->kind == EA_EVTX_CHARACTER ||
           n->kind == EA_EVTX_ENTITY;
}

/* The pieces of a value as text, which is valid until the next call. */
static const char *evtx_event_text_of(const filler *f) {
    ea_text *t = &f->e->text;
    ea_text_clear(t);
    for (size_t i = f->first; i < f->first + f->count; i++) {
        const ea_evtx_node *n = &f->r->nodes[i];
        uint8_t unit[2];
        ea_store16(unit, (uint16_t)n->len_bytes);
        if (n->kind == EA_EVTX_CHARACTER)
            ea_evtx_put_value(t, EA_EVTX_STRING, unit, sizeof unit);
        else if (n->kind == EA_EVTX_ENTITY)
            ea_text_str(t, name_is(n, "amp")    ? "&"
                           : name_is(n, "lt")   ? "<"
                           : name_is(n, "gt")   ? ">"
                           : name_is(n, "quot") ? "\""
                           : name_is(n, "apos") ? "'"
                                                : "");
        else
            ea_evtx_put_value(t, n->type, n->data, n->len_bytes);
    }
    return t->len_bytes ? t->data : "";
}

/* The value as a number, written in decimal or in hex; 0 when it is none. */
static uint64_t evtx_event_number_of(const filler *f) {
    uint64_t v;
    return ea_u64_parse(evtx_event_text_of(f), &v) ? 0 : v;
}

static void evtx_event_guid_of(const filler *f, ea_guid *ret) {
    if (ea_guid_parse(evtx_event_text_of(f), ret))
        memset(ret, 0, sizeof *ret);
}

/* The user of a record: its SID, which XML has as text. 0: it is none. */
static int take_user(const filler *f) {
    ea_evtx_event *e = f->e;
    const ea_evtx_node *n = &f->r->nodes[f->first];
    if (f->count == 1 && n->type == EA_EVTX_SID) {
        e->user = n->data;
        e->user_bytes = n->len_bytes;
    } else {
        e->user_bytes = (uint32_t)ea_sid_parse(evtx_event_text_of(f), e->user_own);
        e->user = e->user_bytes ? e->user_own : NULL;
    }
    return e->user != NULL;
}

/* Keeps the value's text in e->texts; returns where. */
static size_t evtx_event_keep_text(const filler *f) {
    const char *s = evtx_event_text_of(f);
    size_t at = f->e->texts.len_bytes;
    ea_text_add(&f->e->texts, s, strlen(s) + 1);
    return at;
}

/* A name that comes again becomes name_2, name_3, ... name_at: the last text in e->texts. */
static void make_unique(ea_evtx_event *e, size_t name_at) {
    char suffix[16];
    const char *name = e->texts.data + name_at;
    size_t len = strlen(name);
    unsigned same = 1;
    uint64_t hash = e->base_hash[e->field_count] = ea_hash64(name, len, 0);
    for (size_t i = 0; i < e->field_count; i++)
        same += e->base_hash[i] == hash;
    if (same > 1) {
        snprintf(suffix, sizeof suffix, "_%u", same);
        e->texts.len_bytes = name_at + len;
        ea_text_add(&e->texts, suffix, strlen(suffix) + 1);
    }
}

/* Asked before a field's name is made: a name is an element's and an attribute's, so that thousands of attributes of
 * one element with a long name are more bytes than the record unfolds to. */
static int evtx_event_has_room(ea_evtx_event *e) {
    e->left_out += e->field_count == EA_EVTX_FIELDS_MAX;
    return e->field_count < EA_EVTX_FIELDS_MAX;
}

/* A field out of the pieces, of which there is one at least. One piece keeps its type; several are a string. name_at:
 * the last text in e->texts. */
static void evtx_event_add_field(const filler *f, size_t name_at) {
    ea_evtx_event *e = f->e;
    if (e->texts.failed)
        return;
    make_unique(e, name_at);
    const ea_evtx_node *n = &f->r->nodes[f->first];
    ea_evtx_field *field = &e->own[e->field_count];
    *field = (ea_evtx_field){.type = n->type, .data = n->data, .len_bytes = n->len_bytes};
    e->name_at[e->field_count] = name_at;
    e->data_at[e->field_count++] = SIZE_MAX;
    if (f->count == 1 && (n->kind == EA_EVTX_VALUE || n->kind == EA_EVTX_TEXT))
        return;
    evtx_event_text_of(f);
    size_t utf16_bytes = ea_utf8_to_utf16(e->text.data, e->text.len_bytes, NULL, 0);
    uint8_t *utf16 = malloc(utf16_bytes + 1);
    if (!utf16) {
        e->texts.failed = 1;
        return;
    }
    ea_utf8_to_utf16(e->text.data, e->text.len_bytes, utf16, utf16_bytes);
    field->type = EA_EVTX_STRING;
    field->len_bytes = (uint32_t)utf16_bytes;
    e->data_at[e->field_count - 1] = e->texts.len_bytes;
    ea_text_add(&e->texts, utf16, utf16_bytes);
    free(utf16);
}

/* A field of the name Element, or Element_Attribute. */
static void evtx_event_add_named(const filler *f, const char *prefix, const ea_evtx_node *element) {
    ea_text *t = &f->e->texts;
    size_t at = t->len_bytes;
    if (!evtx_event_has_room(f->e))
        return;
    ea_text_str(t, prefix);
    ea_text_utf16(t, element->data, element->len_bytes);
    if (f->attribute) {
        ea_text_char(t, '_');
        ea_text_utf16(t, f->attribute->data, f->attribute->len_bytes);
    }
    ea_text_add(t, "", 1);
    evtx_event_add_field(f, at);
}

/* A value of the System element: of an attribute, or an element's content. What no member of the event is for becomes a
 * field. */
static void take_system(const filler *f, const ea_evtx_node *element) {
    ea_evtx_event *e = f->e;
    const ea_evtx_node *a = f->attribute;
    if (a && name_is(element, "Provider") && name_is(a, "Guid"))
        evtx_event_guid_of(f, &e->provider);
    else if (a && name_is(element, "Provider") && name_is(a, "Name"))
        e->provider_name_at = evtx_event_keep_text(f);
    else if (a && name_is(element, "EventID") && name_is(a, "Qualifiers"))
        e->qualifiers = (uint16_t)evtx_event_number_of(f);
    else if (a && name_is(element, "Correlation") && name_is(a, "ActivityID"))
        evtx_event_guid_of(f, &e->activity_id);
    else if (a && name_is(element, "Correlation") && name_is(a, "RelatedActivityID"))
        evtx_event_guid_of(f, &e->related_activity_id);
    else if (a && name_is(element, "Execution") && name_is(a, "ProcessID"))
        e->pid = (uint32_t)evtx_event_number_of(f);
    else if (a && name_is(element, "Execution") && name_is(a, "ThreadID"))
        e->tid = (uint32_t)evtx_event_number_of(f);
    else if (a && name_is(element, "Security") && name_is(a, "UserID") && take_user(f))
        ;
    else if (a && name_is(element, "TimeCreated"))
        ; /* the record's own time is as exact */
    else if (a)
        evtx_event_add_named(f, "", element);
    else if (name_is(element, "EventID"))
        e->event_id = (uint16_t)evtx_event_number_of(f);
    else if (name_is(element, "Version"))
        e->version = (uint8_t)evtx_event_number_of(f);
    else if (name_is(element, "Level"))
        e->level = (uint8_t)evtx_event_number_of(f);
    else if (name_is(element, "Task"))
        e->task = (uint16_t)evtx_event_number_of(f);
    else if (name_is(element, "Opcode"))
        e->opcode = (uint8_t)evtx_event_number_of(f);
    else if (name_is(element, "Keywords"))
        e->keyword = evtx_event_number_of(f);
    else if (name_is(element, "Channel"))
        e->channel_at = evtx_event_keep_text(f);
    else if (name_is(element, "Computer"))
        e->computer_at = evtx_event_keep_text(f);
    else if (!name_is(element, "EventRecordID"))
        evtx_event_add_named(f, "", element);
}

/* What was read since the element or attribute began is a value. */
static void evtx_event_take_value(filler *f) {
    if (f->count == 0 || f->depth == 0 || f->depth > DEPTH_MAX)
        return;
    const ea_evtx_node *element = &f->r->nodes[f->open[f->depth - 1]], *a = f->attribute, *section = NULL;
    if (f->depth > SECTION)
        section = &f->r->nodes[f->open[SECTION]];
    if (a && name_is(a, "xmlns"))
        ;
    else if (section && name_is(section, "System") && f->depth > SECTION + 1)
        take_system(f, element);
    else if (a && name_is(element, "Data") && name_is(a, "Name"))
        f->label = evtx_event_keep_text(f);
    else if (!a && f->label != SIZE_MAX) {
        size_t at = f->e->texts.len_bytes;
        ea_text *t = &f->e->texts;
        if (!evtx_event_has_room(f->e))
            return;
        ea_text_clear(&f->e->text);
        if (!t->failed)
            ea_text_str(&f->e->text, t->data + f->label);
        if (f->e->text.data)
            ea_text_add(t, f->e->text.data, f->e->text.len_bytes + 1);
        else
            ea_text_add(t, "", 1);
        evtx_event_add_field(f, at);
    } else
        evtx_event_add_named(f, section && name_is(section, "RenderingInfo") ? "RenderingInfo_" : "", element);
    f->e->texts.failed |= f->e->text.failed;
}

static void begin_pieces(filler *f, const ea_evtx_node *attribute) {
    f->attribute = attribute;
    f->count = 0;
}

static void evtx_event_walk(filler *f) {
    for (size_t i = 0; i < f->r->node_count; i++) {
        const ea_evtx_node *n = &f->r->nodes[i];
        if (is_piece(n)) {
            if (!f->count)
                f->first = i;
            f->count++;
            continue;
        }
        /* the content before a child element is no value: it is the line ends of a template written by hand */
        if (n->kind != EA_EVTX_ELEMENT)
            evtx_event_take_value(f);
        begin_pieces(f, n->kind == EA_EVTX_ATTRIBUTE ? n : NULL);
        if (n->kind == EA_EVTX_ELEMENT) {
            if (f->depth < DEPTH_MAX)
                f->open[f->depth] = i;
            f->depth++;
            f->label = SIZE_MAX;
        } else if (n->kind == EA_EVTX_END) {
            f->depth--;
            f->label = SIZE_MAX;
        }
    }
}

/* A provider without a GUID is known by its name: the name's GUID is always the same. */
static void name_guid(const char *name, ea_guid *ret) {
    size_t len = strlen(name);
    ea_store64(ret->bytes, ea_hash64(name, len, 1));
    ea_store64(ret->bytes + 8, ea_hash64(name, len, 2));
    ret->bytes[7] = (uint8_t)((ret->bytes[7] & 0x0f) | 0x80);
    ret->bytes[8] = (uint8_t)((ret->bytes[8] & 0x3f) | 0x80);
}

void ea_evtx_event_init(ea_evtx_event *e) {
    memset(e, 0, sizeof *e);
    ea_text_init(&e->texts);
    ea_text_init(&e->text);
}

void ea_evtx_event_deinit(ea_evtx_event *e) {
    ea_text_deinit(&e->texts);
    ea_text_deinit(&e->text);
}

int ea_evtx_event_fill(ea_evtx_event *e, const ea_evtx_reader *r, const ea_evtx_place *place) {
    filler f = {.e = e, .r = r, .label = SIZE_MAX};
    memset(e, 0, offsetof(ea_evtx_event, own));
    ea_text_clear(&e->texts);
    ea_text_add(&e->texts, "", 1); /* the empty name is at 0 */
    e->provider_name_at = e->channel_at = e->computer_at = 0;
    e->record_id = place->id;
    e->pid = e->tid = UINT32_MAX;
    evtx_event_walk(&f);
    if (e->texts.failed)
        return EA_ENOMEM;
    e->provider_name = e->texts.data + e->provider_name_at;
    e->channel = e->texts.data + e->channel_at;
    e->computer = e->texts.data + e->computer_at;
    if (ea_guid_is_zero(&e->provider) && *e->provider_name)
        name_guid(e->provider_name, &e->provider);
    e->fields = e->own;
    for (size_t i = 0; i < e->field_count; i++) {
        e->own[i].name = e->texts.data + e->name_at[i];
        if (e->data_at[i] != SIZE_MAX)
            e->own[i].data = (const uint8_t *)e->texts.data + e->data_at[i];
    }
    return 0;
}
