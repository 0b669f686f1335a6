/* How event classes look to the language: which classes a probe names, which fields they have, and of which type. See
 * lang_program.h. Thread: any. */
#include "proto/lang/lang_program.h"

#include "proto/base/pattern.h"
#include "proto/event/class_names.h"

#include <string.h>

static const char *const VALUE_NAMES[] = {
#define X(name, type) #name,
    LANG_VALUES(X)
#undef X
};
static const uint8_t VALUE_TYPES[] = {
#define X(name, type) type,
    LANG_VALUES(X)
#undef X
};

const char *lang_value_name(uint32_t value) {
    return VALUE_NAMES[value];
}

enum lang_type lang_value_type(uint32_t value) {
    return (enum lang_type)VALUE_TYPES[value];
}

/* Where the character after this one begins: texts are UTF-8. */
static size_t fields_next_character(const char *text, size_t len_bytes, size_t at) {
    at++;
    while (at < len_bytes && ((unsigned char)text[at] & 0xC0) == 0x80)
        at++;
    return at;
}

int lang_glob(span pattern, const char *text, size_t len_bytes) {
    size_t p = 0, t = 0, star = SIZE_MAX, back = 0;
    while (t < len_bytes) {
        if (p < pattern.len_bytes && pattern.text[p] == '*') {
            star = p++;
            back = t;
        } else if (p < pattern.len_bytes && pattern.text[p] == '?') {
            p++;
            t = fields_next_character(text, len_bytes, t);
        } else if (p < pattern.len_bytes && ea_ascii_lower(pattern.text[p]) == ea_ascii_lower(text[t])) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = back = fields_next_character(text, len_bytes, back);
        } else {
            return 0;
        }
    }
    while (p < pattern.len_bytes && pattern.text[p] == '*')
        p++;
    return p == pattern.len_bytes;
}

int lang_probe_fits(const probe *p, const ea_class *c) {
    if (p->kind != PROBE_CLASS || c->kind != EA_KIND_EVENT)
        return 0;
    if (p->whole.len_bytes &&
        (lang_glob(p->whole, c->name, strlen(c->name)) ||
         ea_event_has_alias(p->whole.text, p->whole.len_bytes, &c->provider, c->provider_name, c->classic, c->code)))
        return 1;
    if (p->provider.len_bytes && !lang_glob(p->provider, c->provider_name, strlen(c->provider_name)) &&
        !ea_provider_is_named(p->provider.text, p->provider.len_bytes, c->provider_name, &c->provider)) {
        char guid[37];
        ea_guid_format(&c->provider, guid);
        if (!lang_glob(p->provider, guid, 36))
            return 0;
    }
    return p->has_code ? p->code == c->code : lang_glob(p->name, c->name, strlen(c->name));
}

int ea_lang_concerns(const ea_lang_program *p, const ea_class *c) {
    for (uint32_t i = 0; i < p->clause_count; i++)
        for (const probe *of = p->clauses[i].probes; of; of = of->next)
            if (lang_probe_fits(of, c))
                return 1;
    return 0;
}

size_t lang_field_of(const ea_class *c, const char *name, size_t len_bytes) {
    for (size_t i = 0; i < c->field_count; i += c->fields[i].span)
        if (!c->fields[i].hidden && strncmp(c->fields[i].name, name, len_bytes) == 0 && !c->fields[i].name[len_bytes])
            return i;
    return c->field_count;
}

int lang_names_are_fixed(const ea_field *f) {
    return f->map || f->semantic == EA_SEM_NTSTATUS;
}

enum lang_type lang_field_type(const ea_field *f) {
    if (f->type != EA_STRUCT && (f->count_field >= 0 || f->count != 1))
        return TYPE_TEXT;
    switch (f->type) {
    case EA_U64:
    case EA_I64:
    case EA_HEX64:
        if (f->semantic == EA_SEM_QPC || f->semantic == EA_SEM_DURATION_QPC)
            return TYPE_INT; /* in ns */
        return f->type == EA_U64 ? TYPE_UINT : f->type == EA_I64 ? TYPE_INT : TYPE_HEX;
    case EA_U8:
    case EA_U16:
    case EA_U32:
    case EA_SIZE:
    case EA_BOOL8:
    case EA_BOOL32:
    case EA_PORT:
        return TYPE_UINT;
    case EA_I8:
    case EA_I16:
    case EA_I32:
        return TYPE_INT;
    case EA_HEX8:
    case EA_HEX16:
    case EA_HEX32:
    case EA_POINTER:
        return TYPE_HEX;
    case EA_F32:
    case EA_F64:
        return TYPE_FLOAT;
    default:
        return TYPE_TEXT;
    }
}
