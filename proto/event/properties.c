/* Properties into fields. See properties.h. */
#include "proto/event/properties.h"

#include "proto/event/class.h"
#include "proto/event/tdh_types.h"

typedef struct builder {
    const ea_property *properties;
    size_t count;
    ea_field *fields;
    size_t field_count;
    int16_t field_of[EA_FIELDS_MAX]; /* property -> its field */
    const char *wrong;
    size_t wrong_property;
} builder;

static void properties_add(builder *b, const ea_field *f) {
    if (b->field_count == EA_FIELDS_MAX && !b->wrong)
        b->wrong = "has more than 512 fields";
    if (b->wrong)
        return;
    ea_field *own = &b->fields[b->field_count++];
    *own = *f;
    if (!own->count)
        own->count = 1;
}

/* The field that holds property number k's value, for a count or a length. */
static int16_t count_field(builder *b, int k) {
    if (k < 0)
        return -1;
    if ((size_t)k >= b->count || b->field_of[k] < 0) {
        b->wrong = "takes its length or count from a field that is not before it";
        return -1;
    }
    return b->field_of[k];
}

static void properties_emit(builder *b, size_t i, int depth);

/* Members that a struct's element has; each property one, and one for its hidden length. */
static void emit_members(builder *b, const ea_property *p, size_t at, int depth) {
    size_t members = 0;
    for (unsigned m = 0; m < p->member_count && !b->wrong; m++) {
        const ea_property *member = &b->properties[p->first_member + m];
        members += 1 + (member->counts_itself != 0) +
                   (!member->is_struct && member->in_type == EA_IN_COUNTED_BINARY && !member->counts_itself &&
                    member->count <= 1 && member->count_from < 0);
        properties_emit(b, p->first_member + m, depth + 1);
    }
    if (members > UINT8_MAX && !b->wrong)
        b->wrong = "has more than 255 members";
    if (!b->wrong)
        b->fields[at].child_count = (uint8_t)members;
}

static void emit_struct(builder *b, size_t i, ea_field *f, int depth) {
    const ea_property *p = &b->properties[i];
    if (depth >= EA_DEPTH_MAX)
        b->wrong = "is nested more than 16 deep";
    else if (!p->member_count || p->first_member >= b->count || p->member_count > b->count - p->first_member ||
             p->first_member <= i)
        b->wrong = "is a struct whose members do not follow it";
    if (b->wrong)
        return;
    f->type = EA_STRUCT;
    f->child_count = 1; /* until its members are counted */
    size_t at = b->field_count;
    properties_add(b, f);
    emit_members(b, p, at, depth);
}

/* A value with a length of its own: text without a NUL, or bytes. f: its name, type and semantic, and as count the
 * number of such values, which go into a struct each when there are several. */
static void emit_sized(builder *b, size_t i, ea_field *f) {
    const ea_property *p = &b->properties[i];
    int array = f->count_field >= 0 || f->count > 1, counted = p->in_type == EA_IN_COUNTED_BINARY;
    ea_field value = *f;
    if (array) {
        f->type = EA_STRUCT;
        f->semantic = EA_SEM_NONE;
        f->child_count = counted ? 2 : 1;
        properties_add(b, f);
        if (p->length_from >= 0)
            b->wrong = "is an array of values whose length another field gives, which cannot be described";
    }
    value.count = (uint16_t)p->length;
    value.count_field = array ? -1 : count_field(b, p->length_from);
    if (counted) {
        value.count_field = (int16_t)b->field_count;
        properties_add(b, &(ea_field){.name = "", .type = EA_U16, .count_field = -1, .hidden = 1});
    } else if (!p->length && p->length_from < 0) {
        value.count = EA_COUNT_REST;
    }
    if (p->length >= EA_COUNT_REST)
        b->wrong = "is longer than an event";
    if (!b->wrong && !array)
        b->field_of[i] = (int16_t)b->field_count;
    properties_add(b, &value);
}

static void properties_emit(builder *b, size_t i, int depth) {
    const ea_property *p = &b->properties[i];
    ea_field f = {.name = p->name, .count_field = -1};
    if (b->wrong)
        return;
    b->wrong_property = i;
    if (p->count >= EA_COUNT_REST) {
        b->wrong = "has more elements than an event has bytes";
        return;
    }
    f.count = (uint16_t)p->count;
    f.count_field = count_field(b, p->count_from);
    if (p->counts_itself) {
        f.count_field = (int16_t)b->field_count;
        properties_add(b, &(ea_field){.name = "", .type = EA_U16, .count_field = -1, .hidden = 1});
    }
    int16_t own = (int16_t)b->field_count;
    if (p->is_struct) {
        emit_struct(b, i, &f, depth);
    } else if (!ea_field_of_types(p->in_type, p->out_type, p->length || p->length_from >= 0, p->length, &f)) {
        b->wrong = "has a type that does not exist";
    } else if (f.type == EA_UTF16_FIXED || f.type == EA_ANSI_FIXED || f.type == EA_UTF8_FIXED || f.type == EA_BYTES) {
        emit_sized(b, i, &f);
    } else {
        f.map = ea_type_is_integer(f.type) ? p->map : NULL;
        properties_add(b, &f);
        if (!b->wrong)
            b->field_of[i] = own;
    }
}

int ea_properties_to_fields(const ea_property *properties, size_t count, size_t top_count, ea_field *fields,
                            const char **ret_wrong, size_t *ret_property) {
    builder b = {.properties = properties, .count = count, .fields = fields};
    if (count > EA_FIELDS_MAX || top_count > count) {
        *ret_wrong = "has more than 512 fields";
        *ret_property = 0;
        return -1;
    }
    for (size_t i = 0; i < count; i++)
        b.field_of[i] = -1;
    for (size_t i = 0; i < top_count; i++)
        properties_emit(&b, i, 0);
    if (b.wrong) {
        *ret_wrong = b.wrong;
        *ret_property = b.wrong_property;
        return -1;
    }
    return (int)b.field_count;
}
