/* See table_schema.h. */
#include "collector/query/scan/table_schema.h"

#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/text.h"
#include "proto/event/render.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD_COLUMNS_MAX = 1900 };

static const struct {
    const char *name;
    enum ec_kind kind;
    int in_class, in_events;
} COMMON[EC_COMMON_COUNT] = {

#define X(id, name, kind, in_class, in_events) {name, EC_KIND_##kind, in_class, in_events},
    EC_COMMON_COLUMNS(X)
#undef X
};

const char *ec_kind_type(enum ec_kind kind) {
    static const char *const types[] = {
#define X(id, type) type,
        EC_KINDS(X)
#undef X
    };
    return types[kind];
}

enum ec_kind ec_kind_of_field(const ea_field *f) {
    switch (f->type) {
    case EA_BYTES:
        return EC_KIND_BLOB;
    case EA_CHAR8:
    case EA_CHAR16:
    case EA_UTF16_FIXED:
    case EA_ANSI_FIXED:
        return EC_KIND_TEXT;
    default:
        break;
    }
    if (f->count != 1 || f->count_field >= 0) /* a list, as JSON */
        return EC_KIND_TEXT;
    switch (f->type) {
    case EA_HEX8:
    case EA_HEX16:
    case EA_HEX32:
        return EC_KIND_HEX;
    case EA_HEX64:
    case EA_POINTER:
        return EC_KIND_ADDRESS;
    case EA_U64:
    case EA_SIZE:
        return EC_KIND_COUNT;
    case EA_F32:
    case EA_F64:
        return EC_KIND_REAL;
    case EA_FILETIME:
        return EC_KIND_TIME;
    case EA_U8:
    case EA_I8:
    case EA_U16:
    case EA_I16:
    case EA_U32:
    case EA_I32:
    case EA_I64:
    case EA_BOOL8:
    case EA_BOOL32:
    case EA_PORT:
        return EC_KIND_INT;
    default:
        return EC_KIND_TEXT;
    }
}

/* One kind for the values of both. */
static enum ec_kind schema_merge(enum ec_kind a, enum ec_kind b) {
    int ints = a == EC_KIND_INT || a == EC_KIND_HEX || a == EC_KIND_COUNT || a == EC_KIND_ADDRESS;
    if (a == b)
        return a;
    if (!ints || (b != EC_KIND_INT && b != EC_KIND_HEX && b != EC_KIND_COUNT && b != EC_KIND_ADDRESS))
        return EC_KIND_ANY;
    if (a == EC_KIND_ADDRESS || b == EC_KIND_ADDRESS)
        return EC_KIND_ADDRESS;
    return a == EC_KIND_COUNT || b == EC_KIND_COUNT ? EC_KIND_COUNT : EC_KIND_INT;
}

static const char *schema_lower_case(ea_arena *arena, const char *s) {
    char *out = ea_arena_strdup(arena, s);
    if (out)
        ea_name_to_lower(out);
    return out;
}

/* Takes a name for a column: unchanged, or with a number appended. */
static int table_schema_take_name(ec_table_schema *s, ea_bytes_map *taken, const char *name, const char **ret) {
    size_t n = strlen(name);
    char *out = ea_arena_alloc(&s->arena, n + 8);
    if (!out)
        return EA_ENOMEM;
    memcpy(out, name, n + 1);
    for (unsigned k = 2; k < 10000; k++) {
        const char *key = schema_lower_case(&s->arena, out);
        if (!key)
            return EA_ENOMEM;
        if (*key && !ea_bytes_map_get(taken, key, strlen(key))) {
            *ret = out;
            return ea_bytes_map_put(taken, key, strlen(key), (void *)(uintptr_t)1);
        }
        snprintf(out + n, 8, "_%u", k);
    }
    return EA_ELIMIT;
}

/* The name of a column that every event has; event_NAME where a field is called that. */
static int take_hidden_name(ec_table_schema *s, ea_bytes_map *taken, const char *name, const char **ret) {
    char prefixed[64];
    snprintf(prefixed, sizeof prefixed, "event_%s", name);
    return table_schema_take_name(s, taken, ea_bytes_map_get(taken, name, strlen(name)) ? prefixed : name, ret);
}

/* The column of a class's field, or of its name; made when no class before has the field. ordinal: how many fields of
 * that name the class has before it. */
static int table_schema_add_field(ec_table_schema *s, ea_bytes_map *taken, ea_bytes_map *known, const ea_field *f,
                                  unsigned ordinal, int is_name, size_t *ret) {
    char suffix[24];
    enum ec_kind kind = is_name ? EC_KIND_TEXT : ec_kind_of_field(f);
    size_t n = strlen(f->name);
    char *key = ea_arena_alloc(&s->arena, n + sizeof suffix);
    if (!key)
        return EA_ENOMEM;
    snprintf(suffix, sizeof suffix, "\t%u%s", ordinal, is_name ? "\tname" : "");
    memcpy(key, f->name, n);
    memcpy(key + n, suffix, strlen(suffix) + 1);
    const void *at = ea_bytes_map_get(known, key, strlen(key));
    if (at) {
        ec_column *column = &s->columns[(uintptr_t)at];
        column->kind = schema_merge(column->kind, kind);
        column->has_history |= is_name && ec_is_named_elsewhere(f);
        *ret = (uintptr_t)at;
        return 0;
    }
    *ret = s->count;
    if (s->count - EC_COMMON_COUNT >= FIELD_COLUMNS_MAX)
        return 0;
    const char *name = NULL;
    memcpy(key + n, is_name ? "_name" : "", is_name ? sizeof "_name" : 1);
    int rc = table_schema_take_name(s, taken, key, &name);
    memcpy(key + n, suffix, strlen(suffix) + 1);
    if (rc == EA_ELIMIT)
        return 0;
    if (!rc)
        rc = ea_bytes_map_put(known, key, strlen(key), (void *)(uintptr_t)s->count);
    if (rc)
        return rc;
    s->columns[s->count] = (ec_column){.name = name,
                                       .kind = kind,
                                       .hidden = is_name,
                                       .is_name = is_name,
                                       .has_history = is_name && ec_is_named_elsewhere(f),
                                       .common = EC_COMMON_COUNT,
                                       .field = ea_arena_strdup(&s->arena, f->name)};
    if (!s->columns[s->count].field)
        return EA_ENOMEM;
    s->count++;
    return 0;
}

/* The columns of a class's fields, or of their names. */
static int schema_add_class(ec_table_schema *s, ea_bytes_map *taken, ea_bytes_map *known, size_t k, size_t stride,
                            int names) {
    const ea_class *c = s->set->classes[k];
    int rc = 0;
    for (size_t f = 0, top = 0; !rc && f < c->field_count; f += c->fields[f].span, top++) {
        size_t column = 0;
        unsigned ordinal = 0;
        if (c->fields[f].hidden || (names && !ea_field_has_names(&c->fields[f])))
            continue;
        for (size_t before = 0; before < f; before += c->fields[before].span)
            ordinal += strcmp(c->fields[before].name, c->fields[f].name) == 0;
        rc = table_schema_add_field(s, taken, known, &c->fields[f], ordinal, names, &column);
        if (!rc && column < s->count)
            s->fields[k * stride + column - EC_COMMON_COUNT] = (int16_t)top;
    }
    return rc;
}

/* The columns of the classes of the name that are not in this part of the set: those whose names are free. */
static int schema_add_others(ec_table_schema *s, ea_bytes_map *taken) {
    ea_bytes_map known;
    int rc = 0;
    ea_bytes_map_init(&known, 0);
    for (size_t k = 0; k < 2 * s->set->other_count && !rc; k++) {
        const ea_class *c = s->set->others[k % s->set->other_count];
        int is_names = k >= s->set->other_count;
        for (size_t f = 0; f < c->field_count && !rc; f += c->fields[f].span) {
            char name[300];
            size_t column;
            if (c->fields[f].hidden || (is_names && !ea_field_has_names(&c->fields[f])) ||
                (size_t)snprintf(name, sizeof name, "%s%s", c->fields[f].name, is_names ? "_name" : "") >= sizeof name)
                continue;
            ea_name_to_lower(name);
            if (!ea_bytes_map_get(taken, name, strlen(name)))
                rc = table_schema_add_field(s, taken, &known, &c->fields[f], 0, is_names, &column);
        }
    }
    ea_bytes_map_deinit(&known);
    return rc;
}

int ec_table_schema_init(ec_table_schema *s, const ec_class_set *set, ea_err *err) {
    ea_bytes_map taken, known;
    size_t most = 0;
    for (size_t k = 0; set && k < set->count; k++)
        most += 2 * (size_t)set->classes[k]->top_count; /* their names, too */
    for (size_t k = 0; set && k < set->other_count; k++)
        most += 2 * (size_t)set->others[k]->top_count;
    if (most > FIELD_COLUMNS_MAX)
        most = FIELD_COLUMNS_MAX;
    *s = (ec_table_schema){.set = set};
    ea_arena_init(&s->arena, 0);
    ea_bytes_map_init(&taken, 0);
    ea_bytes_map_init(&known, 0);
    s->columns = ea_arena_zalloc(&s->arena, EC_COMMON_COUNT + most, sizeof *s->columns);
    s->fields = set ? ea_arena_alloc(&s->arena, (set->count * most + 1) * sizeof *s->fields) : NULL;
    int rc = s->columns && (s->fields || !set) ? 0 : EA_ENOMEM;
    for (size_t i = 0; set && !rc && i < set->count * most; i++)
        s->fields[i] = -1;
    /* fields may take the names of hidden columns, not those of others */
    for (int i = 0; !rc && i < EC_COMMON_COUNT; i++) {
        ec_column *column = &s->columns[s->count++];
        *column = (ec_column){.kind = COMMON[i].kind,
                              .hidden = set ? COMMON[i].in_class : COMMON[i].in_events,
                              .common = i,
                              .has_history = i == EC_STACK_HASH}; /* a stack's frames have modules */
        if (!column->hidden)
            rc = table_schema_take_name(s, &taken, COMMON[i].name, &column->name);
    }
    for (size_t k = 0; set && !rc && k < 2 * set->count; k++) /* class names come after all fields */
        rc = schema_add_class(s, &taken, &known, k % set->count, most, k >= set->count);
    for (int i = 0; !rc && i < EC_COMMON_COUNT; i++)
        if (s->columns[i].hidden)
            rc = take_hidden_name(s, &taken, COMMON[i].name, &s->columns[i].name);
    if (set && !rc)
        rc = schema_add_others(s, &taken);
    /* the matrix was made for the most columns that there can be */
    size_t stride = s->count - EC_COMMON_COUNT;
    for (size_t k = 1; set && !rc && stride < most && k < set->count; k++)
        memmove(s->fields + k * stride, s->fields + k * most, stride * sizeof *s->fields);
    ea_bytes_map_deinit(&taken);
    ea_bytes_map_deinit(&known);
    if (rc) {
        ec_table_schema_deinit(s);
        return ea_fail(err, rc, "list the columns of %s", set ? set->name : "events");
    }
    return 0;
}

void ec_table_schema_deinit(ec_table_schema *s) {
    ea_arena_deinit(&s->arena);
    *s = (ec_table_schema){0};
}

/* The number of a class's columns: names as they are written, kinds, and what holds them. */
int ec_table_schema_hash(const ea_class *c, uint64_t *ret, ea_err *err) {
    const ec_class_set alone = {.name = c->name, .classes = &c, .count = 1};
    uint8_t digest[EVP_MAX_MD_SIZE];
    ea_text columns;
    ec_table_schema s;
    int rc = ec_table_schema_init(&s, &alone, err);
    if (rc)
        return rc;
    ea_text_init(&columns);
    for (size_t i = 0; i < s.count; i++) {
        ea_text_add(&columns, s.columns[i].name, strlen(s.columns[i].name) + 1);
        ea_text_char(&columns, (char)s.columns[i].kind);
        ea_text_char(&columns, (char)s.columns[i].is_name);
    }
    if (columns.failed)
        rc = ea_fail(err, EA_ENOMEM, "list the columns of %s", c->name);
    else if (EVP_Digest(columns.data, columns.len_bytes, digest, NULL, EVP_sha256(), NULL) != 1)
        rc = ea_fail(err, EA_ENOMEM, "hash the columns of %s", c->name);
    else
        memcpy(ret, digest, sizeof *ret);
    ea_text_deinit(&columns);
    ec_table_schema_deinit(&s);
    return rc;
}

/* Whether the class's own columns are those that it has in the table of its set. */
static int schema_is_own(const ec_table_schema *s, size_t k, ea_err *err) {
    const ec_class_set alone = {.name = s->set->name, .classes = &s->set->classes[k], .count = 1};
    size_t stride = s->count - EC_COMMON_COUNT;
    ec_table_schema own;
    int rc = ec_table_schema_init(&own, &alone, err);
    if (rc)
        return rc;
    int is_same = 1;
    for (size_t i = 0; i < EC_COMMON_COUNT && is_same; i++)
        is_same = strcmp(own.columns[i].name, s->columns[i].name) == 0;
    for (size_t i = EC_COMMON_COUNT, at = 0; i < own.count && is_same; i++) {
        const ec_column *column = &own.columns[i];
        for (at = 0; at < stride; at++)
            if (s->fields[k * stride + at] == own.fields[i - EC_COMMON_COUNT] &&
                s->columns[EC_COMMON_COUNT + at].is_name == column->is_name)
                break;
        is_same = at < stride && s->columns[EC_COMMON_COUNT + at].kind == column->kind &&
                  strcmp(s->columns[EC_COMMON_COUNT + at].name, column->name) == 0;
    }
    ec_table_schema_deinit(&own);
    return is_same;
}

int ec_table_schema_agrees(const ec_class_set *set, ea_err *err) {
    ec_table_schema s;
    int rc = set->count > 1 ? ec_table_schema_init(&s, set, err) : 1;
    if (rc)
        return rc;
    rc = 1;
    for (size_t k = 0; k < set->count && rc > 0; k++)
        rc = schema_is_own(&s, k, err);
    ec_table_schema_deinit(&s);
    return rc;
}

size_t ec_table_schema_find(const ec_table_schema *s, const char *name) {
    size_t i = 0;
    while (i < s->count && !ea_name_equal(s->columns[i].name, name))
        i++;
    return i;
}

int ec_table_schema_field(const ec_table_schema *s, const ea_class *c, size_t column) {
    for (size_t k = 0; s->set && column >= EC_COMMON_COUNT && k < s->set->count; k++)
        if (s->set->classes[k] == c)
            return s->fields[k * (s->count - EC_COMMON_COUNT) + column - EC_COMMON_COUNT];
    return -1;
}
