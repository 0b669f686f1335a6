/* Descriptions: a class as bytes, and back. DESCRIPTIONS.md is the specification. See class.h. */
#include "proto/event/class.h"

#include <openssl/evp.h>
#include <string.h>

/* Format 1 is what rows need; format 2 adds hidden fields, notes and unfolded classes, and is written only where there
 * are some. */
enum {
    FORMAT_PLAIN = 1,
    FORMAT_NOTES = 2,
    FLAG_CLASSIC = 1,
    FLAG_UNFOLDED = 2,
    FLAGS_AT = 3,
    ATTRIBUTE_OPTIONAL = 1,
    ATTRIBUTE_HIDDEN = 2
};

int ea_class_hash(const uint8_t *description, size_t len_bytes, uint8_t ret_hash[16], ea_err *err) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    /* OpenSSL refuses a hash of bytes in memory for lack of memory alone. */
    if (EVP_Digest(description, len_bytes, digest, NULL, EVP_sha256(), NULL) != 1)
        return ea_fail(err, EA_ENOMEM, "hash a class description");
    memcpy(ret_hash, digest, 16);
    return 0;
}

/* ---- writing ---- */

/* At most max bytes of it, whole characters. */
static void put_bounded(ea_text *out, const char *s, size_t max) {
    size_t len = ea_utf8_fit(s, strlen(s), max);
    ea_text_varint(out, len);
    ea_text_add(out, s, len);
}

static void describe_put_string(ea_text *out, const char *s) {
    put_bounded(out, s, EA_NAME_MAX_BYTES);
}

static int describe_has_field(const ea_field_row *f, uint8_t version, uint8_t pointer_size) {
    return f->since <= version && (f->until == 0 || version <= f->until) && (f->only == 0 || f->only == pointer_size);
}

/* The number of a row's entries that a field takes: itself and all that is inside it. */
static size_t entries_of(const ea_field_row *f) {
    size_t n = 1;
    for (unsigned i = 0; f->type == EA_STRUCT && i < f->child_count; i++)
        n += entries_of(f + n);
    return n;
}

/* A struct's direct members that this version has on such machines. */
static size_t members_of(const ea_field_row *f, uint8_t version, uint8_t pointer_size) {
    size_t n = 0, at = 1;
    for (unsigned i = 0; f->type == EA_STRUCT && i < f->child_count; i++, at += entries_of(f + at))
        n += (size_t)describe_has_field(f + at, version, pointer_size);
    return n;
}

/* The row's fields that this version has on machines with such pointers, in fields[]; returns their number. */
static size_t fields_of_version(const ea_class_row *row, uint8_t version, uint8_t pointer_size, ea_field *fields) {
    size_t n = 0;
    for (const ea_field_row *f = row->fields; f->name && n < EA_FIELDS_MAX; f++) {
        if (!describe_has_field(f, version, pointer_size))
            continue;
        size_t count_field = 0;
        while (f->count_field && count_field < n && strcmp(fields[count_field].name, f->count_field) != 0)
            count_field++;
        fields[n++] = (ea_field){.name = f->name,
                                 .type = f->type,
                                 .semantic = f->semantic,
                                 .count = f->count ? f->count : 1,
                                 .count_field = f->count_field ? (int16_t)count_field : -1,
                                 .map = f->map,
                                 .child_count = (uint8_t)members_of(f, version, pointer_size),
                                 .optional = f->optional};
    }
    return n;
}

static size_t collect_maps(const ea_field *fields, size_t field_count, const ea_enum **maps) {
    size_t n = 0;
    for (size_t i = 0; i < field_count; i++) {
        size_t k = 0;
        while (k < n && maps[k] != fields[i].map)
            k++;
        if (fields[i].map && k == n && n < EA_MAPS_MAX)
            maps[n++] = fields[i].map;
    }
    return n;
}

static void describe_put_entries(ea_text *out, const ea_map_entry *entries, size_t count) {
    ea_text_varint(out, count);
    for (size_t i = 0; i < count; i++) {
        ea_text_varint(out, entries[i].value);
        describe_put_string(out, entries[i].name);
    }
}

static int has_notes(const ea_class_notes *n) {
    return n && (*n->message || *n->level || *n->channel || *n->task || *n->opcode || n->keyword_count);
}

void ea_class_describe_fields(ea_text *out, const ea_class_head *head, const ea_field *fields, size_t field_count,
                              const ea_class_notes *notes) {
    static const ea_class_notes NO_NOTES = {"", "", "", "", "", 0, NULL};
    const ea_enum *maps[EA_MAPS_MAX];
    size_t map_count = collect_maps(fields, field_count, maps);
    int format = has_notes(notes) || head->unfolded ? FORMAT_NOTES : FORMAT_PLAIN;
    for (size_t i = 0; i < field_count; i++)
        if (fields[i].hidden)
            format = FORMAT_NOTES;
    ea_text_char(out, (char)format);
    ea_text_char(out, (char)head->kind);
    ea_text_char(out, (char)head->status);
    ea_text_char(out, (char)((head->classic ? FLAG_CLASSIC : 0) | (head->unfolded ? FLAG_UNFOLDED : 0)));
    ea_text_char(out, (char)head->pointer_size);
    ea_text_char(out, (char)head->version);
    ea_text_varint(out, head->code);
    ea_text_add(out, head->provider.bytes, sizeof head->provider.bytes);
    describe_put_string(out, head->provider_name);
    describe_put_string(out, head->name);
    ea_text_varint(out, map_count);
    for (size_t i = 0; i < map_count; i++) {
        describe_put_string(out, maps[i]->name);
        ea_text_char(out, maps[i]->is_flags ? 1 : 0);
        describe_put_entries(out, maps[i]->entries, maps[i]->count);
    }
    ea_text_varint(out, field_count);
    for (size_t i = 0; i < field_count; i++) {
        const ea_field *f = &fields[i];
        size_t map = 0;
        while (f->map && map < map_count && maps[map] != f->map)
            map++;
        describe_put_string(out, f->name);
        ea_text_char(out, (char)f->type);
        ea_text_char(out, (char)f->semantic);
        ea_text_varint(out, f->count ? f->count : 1);
        ea_text_varint(out, (uint64_t)(f->count_field + 1));
        ea_text_varint(out, f->map ? map + 1 : 0);
        ea_text_varint(out, f->type == EA_STRUCT ? f->child_count : 0);
        ea_text_char(out, (char)((f->optional ? ATTRIBUTE_OPTIONAL : 0) | (f->hidden ? ATTRIBUTE_HIDDEN : 0)));
    }
    if (format != FORMAT_NOTES)
        return;
    if (!notes)
        notes = &NO_NOTES;
    put_bounded(out, notes->message, EA_MESSAGE_MAX_BYTES);
    describe_put_string(out, notes->level);
    describe_put_string(out, notes->channel);
    describe_put_string(out, notes->task);
    describe_put_string(out, notes->opcode);
    describe_put_entries(out, notes->keywords,
                         notes->keyword_count < EA_KEYWORDS_MAX ? notes->keyword_count : EA_KEYWORDS_MAX);
}

void ea_class_describe(ea_text *out, const ea_class_head *head, const ea_class_row *row) {
    ea_field fields[EA_FIELDS_MAX];
    /* A newer version than the row knows has at least the newest known one's fields. */
    uint8_t version = row && head->version > row->until ? row->until : head->version;
    size_t field_count = row && row->fields ? fields_of_version(row, version, head->pointer_size, fields) : 0;
    ea_class_describe_fields(out, head, fields, field_count, NULL);
}

/* ---- reading ---- */

typedef struct reader {
    const uint8_t *at, *end;
    ea_arena *arena;
    const char *what; /* what was wrong, NULL while all is well */
    int no_memory;
} reader;

static uint64_t describe_broken(reader *r, const char *what) {
    if (!r->what)
        r->what = what;
    r->at = r->end;
    return 0;
}

static uint8_t get_byte(reader *r) {
    return r->at < r->end ? *r->at++ : (uint8_t)describe_broken(r, "it ends early");
}

static uint64_t get_varint(reader *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t b = get_byte(r);
        if (shift == 63 && b > 1)
            return describe_broken(r, "a number exceeds 64 bits");
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    return describe_broken(r, "a number exceeds 64 bits");
}

static uint64_t get_bounded(reader *r, uint64_t max, const char *what) {
    uint64_t v = get_varint(r);
    return v <= max ? v : describe_broken(r, what);
}

static const char *get_bounded_string(reader *r, size_t max) {
    uint64_t len = get_varint(r);
    if (len > max || len > (uint64_t)(r->end - r->at)) {
        describe_broken(r, "a name is too long");
        return "";
    }
    if (memchr(r->at, 0, (size_t)len)) {
        describe_broken(r, "a name has a NUL in it");
        return "";
    }
    char *s = ea_arena_alloc(r->arena, (size_t)len + 1);
    if (!s) {
        r->no_memory = 1;
        describe_broken(r, "no memory");
        return "";
    }
    memcpy(s, r->at, (size_t)len);
    s[len] = 0;
    r->at += len;
    return s;
}

static const char *get_string(reader *r) {
    return get_bounded_string(r, EA_NAME_MAX_BYTES);
}

static void *get_memory(reader *r, size_t count, size_t size_bytes) {
    void *p = ea_arena_zalloc(r->arena, count, size_bytes);
    if (!p) {
        r->no_memory = 1;
        describe_broken(r, "no memory");
    }
    return p;
}

static const ea_map_entry *get_entries(reader *r, size_t *ret_count) {
    /* an entry takes two bytes at the least, so this bounds what a lying count can make us allocate */
    size_t count = (size_t)get_bounded(r, (uint64_t)(r->end - r->at) / 2, "a map is longer than its bytes");
    ea_map_entry *entries = get_memory(r, count, sizeof *entries);
    *ret_count = entries ? count : 0;
    for (size_t i = 0; i < *ret_count && !r->what; i++) {
        entries[i].value = get_varint(r);
        entries[i].name = get_string(r);
    }
    return entries;
}

static const ea_class_notes *get_notes(reader *r) {
    ea_class_notes *n = get_memory(r, 1, sizeof *n);
    if (!n)
        return NULL;
    n->message = get_bounded_string(r, EA_MESSAGE_MAX_BYTES);
    n->level = get_string(r);
    n->channel = get_string(r);
    n->task = get_string(r);
    n->opcode = get_string(r);
    n->keywords = get_entries(r, &n->keyword_count);
    if (n->keyword_count > EA_KEYWORDS_MAX)
        describe_broken(r, "it has too many keywords");
    return has_notes(n) ? n : NULL;
}

static ea_enum *get_maps(reader *r, size_t *ret_count) {
    size_t count = (size_t)get_bounded(r, EA_MAPS_MAX, "it has too many maps");
    ea_enum *maps = get_memory(r, count, sizeof *maps);
    *ret_count = maps ? count : 0;
    for (size_t i = 0; i < *ret_count && !r->what; i++) {
        maps[i].name = get_string(r);
        maps[i].is_flags = get_byte(r);
        if (maps[i].is_flags > 1)
            describe_broken(r, "a map is neither of values nor of flags");
        maps[i].entries = get_entries(r, &maps[i].count);
    }
    return maps;
}

/* Bytes of one element; 0 when that varies, -1 for an unknown type. */
static int type_width(uint8_t type, uint8_t pointer_size) {
    switch (type) {
#define X(name, number, width)                                                                                         \
    case number:                                                                                                       \
        return number == EA_BYTES || number == EA_ANSI_FIXED || number == EA_UTF8_FIXED ? 1                            \
               : number == EA_UTF16_FIXED                                               ? 2                            \
               : (width) < 0                                                            ? pointer_size                 \
                                                                                        : (width);
        EA_TYPES(X)
#undef X
    default:
        return -1;
    }
}

int ea_type_is_integer(uint8_t type) {
    return (type >= EA_U8 && type <= EA_I64) || (type >= EA_BOOL8 && type <= EA_HEX64) || type == EA_POINTER ||
           type == EA_SIZE;
}

static void get_field(reader *r, ea_field *f, size_t index, int format, uint8_t pointer_size, const ea_enum *maps,
                      size_t map_count) {
    const uint8_t known = format == FORMAT_NOTES ? ATTRIBUTE_OPTIONAL | ATTRIBUTE_HIDDEN : ATTRIBUTE_OPTIONAL;
    f->name = get_string(r);
    f->type = get_byte(r);
    f->semantic = get_byte(r);
    f->count = (uint16_t)get_bounded(r, EA_COUNT_REST, "an array is too long");
    f->count_field = (int16_t)((int)get_bounded(r, index, "a count field is not before its array") - 1);
    size_t map = (size_t)get_bounded(r, map_count, "a field's map does not exist");
    f->map = map ? &maps[map - 1] : NULL;
    f->child_count = (uint8_t)get_bounded(r, 255, "a struct has too many members");
    uint8_t attributes = get_byte(r);
    f->optional = attributes & ATTRIBUTE_OPTIONAL;
    f->hidden = (attributes & ATTRIBUTE_HIDDEN) != 0;
    f->offset = EA_OFFSET_NONE;
    f->span = 1;
    int width = type_width(f->type, pointer_size);
    f->width = (uint8_t)(width < 0 ? 0 : width);
    if (r->what)
        return;
    if (width < 0)
        describe_broken(r, "a field's type is not known");
    else if (f->count == 0)
        describe_broken(r, "an array has no elements");
    else if ((f->type == EA_STRUCT) != (f->child_count > 0))
        describe_broken(r, "a struct has no members, or a plain field has some");
    else if (attributes & ~known)
        describe_broken(r, "a field has unknown attributes");
    else if (f->type == EA_UTF16_REST && (f->count != 1 || f->count_field >= 0))
        describe_broken(r, "a string to the payload's end is an array");
    else if (f->map && !ea_type_is_integer(f->type))
        describe_broken(r, "a field with a map is no integer");
}

/* Gives each field of one scope its span and checks that structs close and that counts are siblings. members 0: all
 * remaining fields (the top level). EA_DEPTH_MAX bounds the recursion. Returns the index after the scope. */
static size_t close_scope(reader *r, ea_field *fields, size_t field_count, size_t first, size_t members, int depth) {
    size_t at = first;
    for (size_t m = 0; !r->what && (members ? m < members : at < field_count); m++) {
        if (at >= field_count)
            return (size_t)describe_broken(r, "a struct has more members than there are fields");
        ea_field *f = &fields[at];
        if (f->count_field >= 0) {
            size_t k = first;
            while (k < at && k != (size_t)f->count_field)
                k += fields[k].span;
            if (k >= at || !ea_type_is_integer(fields[k].type) || fields[k].count != 1 || fields[k].count_field >= 0)
                return (size_t)describe_broken(r, "an array's count is no plain number beside it");
            fields[k].is_count = 1;
        }
        size_t next = at + 1;
        if (f->type == EA_STRUCT) {
            if (depth == EA_DEPTH_MAX)
                return (size_t)describe_broken(r, "structs are nested too deep");
            next = close_scope(r, fields, field_count, at + 1, f->child_count, depth + 1);
            f->span = (uint16_t)(next - at);
        }
        at = next;
    }
    return at;
}

/* See enum ea_field_length. After close_scope, which finds the counts. */
static uint8_t length_of(const ea_field *f) {
    if (f->count != 1 || f->count_field >= 0 || f->is_count)
        return EA_LENGTH_ANY;
    if (f->width)
        return EA_LENGTH_FIXED;
    switch (f->type) {
    case EA_UTF16Z:
        return EA_LENGTH_UTF16Z;
    case EA_ANSIZ:
    case EA_UTF8Z:
        return EA_LENGTH_BYTEZ;
    case EA_UTF16_COUNTED:
    case EA_ANSI_COUNTED:
    case EA_UTF8_COUNTED:
        return EA_LENGTH_COUNTED;
    default:
        return EA_LENGTH_ANY;
    }
}

/* The leading fields whose offsets never change. */
static void fix_offsets(ea_class *c, ea_field *fields) {
    size_t at = 0, i = 0;
    for (; i < c->field_count; i++) {
        ea_field *f = &fields[i];
        size_t size = (size_t)f->width * f->count;
        if (!f->width || f->count_field >= 0 || f->count == EA_COUNT_REST || at + size >= EA_OFFSET_NONE)
            break;
        f->offset = (uint16_t)at;
        at += size;
    }
    c->fixed_fields = (uint16_t)i;
    c->fixed_bytes = (uint16_t)at;
}

int ea_class_parse(ea_arena *arena, const uint8_t *description, size_t len_bytes, ea_class **ret, ea_err *err) {
    if (len_bytes > EA_DESCRIPTION_MAX_BYTES)
        return ea_fail(err, EA_ECORRUPT, "class description of %zu bytes: at most %d are allowed", len_bytes,
                       EA_DESCRIPTION_MAX_BYTES);
    if (len_bytes && description[0] != FORMAT_PLAIN && description[0] != FORMAT_NOTES)
        return ea_fail(err, EA_EUNSUPPORTED, "class description of format %u: this version reads formats 1 and 2",
                       description[0]);
    ea_class *c = ea_arena_zalloc(arena, 1, sizeof *c);
    uint8_t *copy = c ? ea_arena_copy(arena, description, len_bytes) : NULL;
    if (!copy)
        return ea_fail(err, ea_arena_error(arena), "read a class description");
    reader r = {.at = copy, .end = copy + len_bytes, .arena = arena};
    c->description = copy;
    c->description_bytes = (uint32_t)len_bytes;
    int format = get_byte(&r);
    c->kind = get_byte(&r);
    c->status = get_byte(&r);
    uint8_t flags = get_byte(&r);
    c->classic = flags & FLAG_CLASSIC;
    c->unfolded = (flags & FLAG_UNFOLDED) != 0;
    c->pointer_size = get_byte(&r);
    c->version = get_byte(&r);
    c->code = (uint16_t)get_bounded(&r, UINT16_MAX, "its code exceeds 16 bits");
    if (c->kind > EA_KIND_KEYFRAME)
        describe_broken(&r, "its kind is not known");
    if (c->status > EA_CLASS_UNKNOWN)
        describe_broken(&r, "its status is not known");
    if (flags > (FLAG_CLASSIC | FLAG_UNFOLDED))
        describe_broken(&r, "its flags are not known");
    if (c->pointer_size != 4 && c->pointer_size != 8)
        describe_broken(&r, "a pointer has neither 4 nor 8 bytes");
    if ((size_t)(r.end - r.at) < sizeof c->provider.bytes) {
        describe_broken(&r, "it ends early");
    } else {
        memcpy(c->provider.bytes, r.at, sizeof c->provider.bytes);
        r.at += sizeof c->provider.bytes;
    }
    c->provider_name = get_string(&r);
    c->name = get_string(&r);
    size_t map_count = 0;
    const ea_enum *maps = get_maps(&r, &map_count);
    size_t field_count = (size_t)get_bounded(&r, EA_FIELDS_MAX, "it has too many fields");
    ea_field *fields = get_memory(&r, field_count, sizeof *fields);
    for (size_t i = 0; fields && i < field_count && !r.what; i++)
        get_field(&r, &fields[i], i, format, c->pointer_size, maps, map_count);
    if (!r.what && format == FORMAT_NOTES)
        c->notes = get_notes(&r);
    if (!r.what && r.at != r.end)
        describe_broken(&r, "there are bytes after its end");
    close_scope(&r, fields, r.what ? 0 : field_count, 0, 0, 0);
    if (r.what)
        return r.no_memory ? ea_fail(err, ea_arena_error(arena), "read a class description")
                           : ea_fail(err, EA_ECORRUPT, "class description: %s", r.what);
    c->field_count = (uint16_t)field_count;
    c->fields = fields;
    size_t last = 0;
    for (size_t at = 0; at < field_count; at += fields[at].span) {
        last = at;
        c->top_count++;
        if (!fields[at].optional)
            c->required_count = c->top_count;
    }
    fix_offsets(c, fields);
    for (size_t i = 0; i < field_count; i++)
        fields[i].length = length_of(&fields[i]);
    if (c->unfolded &&
        (format != FORMAT_NOTES || c->status != EA_CLASS_KNOWN || !field_count || fields[last].type != EA_BYTES ||
         fields[last].count != EA_COUNT_REST || fields[last].count_field >= 0 || fields[last].hidden))
        return ea_fail(err, EA_ECORRUPT, "class description: an unfolded class does not end with its payload");
    int rc = ea_class_hash(copy, len_bytes, c->hash, err);
    if (rc)
        return rc;
    *ret = c;
    return 0;
}

int ea_class_describes_decoded(const uint8_t *description) {
    return (description[FLAGS_AT] & FLAG_UNFOLDED) != 0;
}

/* ---- names ---- */

const char *ea_type_name(uint8_t type) {
    switch (type) {
#define X(name, number, width)                                                                                         \
    case number:                                                                                                       \
        return #name;
        EA_TYPES(X)
#undef X
    default:
        return "";
    }
}

const char *ea_semantic_name(uint8_t semantic) {
    switch (semantic) {
#define X(name, number)                                                                                                \
    case number:                                                                                                       \
        return number ? #name : "";
        EA_SEMANTICS(X)
#undef X
    default:
        return "";
    }
}
