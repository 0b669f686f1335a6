/* See rules_screen.h. A kind is a number of the atoms that a value sets, or of the value itself where an atom of its
 * field is evaluated when a condition asks for it: a pattern, a number, a comparison of fields. */
#include "proto/rules/rules_screen.h"

#include "proto/rules/rules_parts.h"

#include <stdlib.h>
#include <string.h>

enum { KEY_MAX_BYTES = 1 << 16, ROOM_PART = 2 /* of the memory: below it there is little room */ };

/* What a value is remembered by: this, and the text or the atoms after it. */
typedef struct screen_key {
    uint32_t field; /* of atoms: UINT32_MAX */
    uint32_t len_bytes;
} screen_key;

struct ea_rules_screen {
    ea_rules_run *run;
    ea_rules_prospect *prospect;
    uint32_t group;
    uint8_t *is_of_text; /* by field, and then of values of no field: its values are kinds of their own */
    uint32_t field_count;
    ea_arena arena;      /* keys */
    ea_bytes_map values; /* field and text -> 1 + kind */
    ea_bytes_map atoms;  /* field where it counts, and atoms -> 1 + kind */
    ea_u64_map pairs;    /* combination before << 32 | kind -> combination */
    ea_u64_map judged;   /* combination -> 0, 1 */
    uint32_t kind_count, combination_count;
    uint8_t key[sizeof(screen_key) + KEY_MAX_BYTES];
};

/* An atom of the field is evaluated by the text, when it is asked for. */
static void screen_find_texts(ea_rules_screen *s, const rules_group *g) {
    for (uint32_t i = 0; i < g->atom_count; i++) {
        const rules_atom *a = &g->atoms[i];
        if (a->kind < RULES_ATOM_PATTERN)
            continue;
        if (a->field == UINT32_MAX)
            memset(s->is_of_text, 1, (size_t)s->field_count + 1);
        else
            s->is_of_text[a->field] = 1;
        if (a->kind == RULES_ATOM_FIELD)
            s->is_of_text[a->other] = 1;
    }
}

static void screen_forget(ea_rules_screen *s) {
    ea_bytes_map_clear(&s->values);
    ea_bytes_map_clear(&s->atoms);
    ea_u64_map_clear(&s->pairs);
    ea_u64_map_clear(&s->judged);
    ea_arena_reset(&s->arena);
    s->kind_count = s->combination_count = 1; /* MISSING, and the empty combination */
}

int ea_rules_screen_create(ea_rules_screen **ret, const ea_rules *rules, ea_rules_run *run, uint32_t group,
                           const uint32_t *unknown, size_t count) {
    const rules_group *g = &rules->groups[group];
    ea_rules_screen *s = calloc(1, sizeof *s);
    if (!s)
        return EA_ENOMEM;
    s->run = run;
    s->group = group;
    s->field_count = g->field_count;
    ea_arena_init(&s->arena, EA_RULES_SCREEN_MEMORY_MAX);
    ea_bytes_map_init(&s->values, 0);
    ea_bytes_map_init(&s->atoms, 0);
    ea_u64_map_init(&s->pairs, EA_RULES_SCREEN_COMBINATIONS_MAX);
    ea_u64_map_init(&s->judged, EA_RULES_SCREEN_COMBINATIONS_MAX);
    s->is_of_text = calloc((size_t)g->field_count + 1, 1);
    if (!s->is_of_text || ea_rules_prospect_create(&s->prospect, rules, group, unknown, count)) {
        ea_rules_screen_destroy(s);
        return EA_ENOMEM;
    }
    screen_find_texts(s, g);
    screen_forget(s);
    *ret = s;
    return 0;
}

void ea_rules_screen_destroy(ea_rules_screen *s) {
    if (!s)
        return;
    ea_rules_prospect_destroy(s->prospect);
    ea_bytes_map_deinit(&s->values);
    ea_bytes_map_deinit(&s->atoms);
    ea_u64_map_deinit(&s->pairs);
    ea_u64_map_deinit(&s->judged);
    ea_arena_deinit(&s->arena);
    free(s->is_of_text);
    free(s);
}

int ea_rules_screen_tidy(ea_rules_screen *s) {
    if (s->arena.used_bytes < EA_RULES_SCREEN_MEMORY_MAX / ROOM_PART &&
        s->combination_count < EA_RULES_SCREEN_COMBINATIONS_MAX / ROOM_PART)
        return 0;
    screen_forget(s);
    return 1;
}

/* The key of s->key for a field and bytes; its length, 0 when they are too many. */
static size_t screen_write_key(ea_rules_screen *s, uint32_t field, const void *data, size_t len_bytes) {
    const screen_key head = {.field = field, .len_bytes = (uint32_t)len_bytes};
    if (len_bytes > KEY_MAX_BYTES)
        return 0;
    memcpy(s->key, &head, sizeof head);
    if (len_bytes)
        memcpy(s->key + sizeof head, data, len_bytes);
    return sizeof head + len_bytes;
}

/* Keeps the kind under the key at hand. NONE: there is no room. */
static uint32_t screen_keep(ea_rules_screen *s, ea_bytes_map *map, size_t key_bytes, uint32_t kind) {
    const void *key = ea_arena_copy(&s->arena, s->key, key_bytes);
    if (!key || ea_bytes_map_put(map, key, key_bytes, (void *)((uintptr_t)kind + 1)))
        return EA_RULES_SCREEN_NONE;
    return kind;
}

/* The kind of the key in the map, a new one when it is not there. */
static uint32_t screen_find(ea_rules_screen *s, ea_bytes_map *map, size_t key_bytes) {
    if (!key_bytes)
        return EA_RULES_SCREEN_NONE;
    uintptr_t known = (uintptr_t)ea_bytes_map_get(map, s->key, key_bytes);
    if (known)
        return (uint32_t)known - 1;
    uint32_t kind = screen_keep(s, map, key_bytes, s->kind_count);
    s->kind_count += kind != EA_RULES_SCREEN_NONE;
    return kind;
}

uint32_t ea_rules_screen_kind(ea_rules_screen *s, const ea_rules_value *value) {
    const uint32_t *atoms = NULL;
    size_t count = 0;
    int is_of_text = s->is_of_text[value->field < s->field_count ? value->field : s->field_count];
    size_t key_bytes = screen_write_key(s, value->field, value->text, value->len_bytes);
    if (is_of_text || !key_bytes)
        return screen_find(s, &s->values, key_bytes);
    uintptr_t known = (uintptr_t)ea_bytes_map_get(&s->values, s->key, key_bytes);
    if (known)
        return (uint32_t)known - 1;
    if (rules_run_atoms(s->run, s->group, value, &atoms, &count) || count > KEY_MAX_BYTES / sizeof *atoms)
        return EA_RULES_SCREEN_NONE;
    uint32_t kind = screen_find(s, &s->atoms, screen_write_key(s, UINT32_MAX, atoms, count * sizeof *atoms));
    if (kind == EA_RULES_SCREEN_NONE)
        return kind;
    return screen_keep(s, &s->values, screen_write_key(s, value->field, value->text, value->len_bytes), kind);
}

uint32_t ea_rules_screen_put(ea_rules_screen *s, uint32_t before, uint32_t kind) {
    if (before == EA_RULES_SCREEN_NONE || kind == EA_RULES_SCREEN_NONE)
        return EA_RULES_SCREEN_NONE;
    uint64_t key = (uint64_t)before << 32 | kind;
    const uint64_t *known = ea_u64_map_get(&s->pairs, key);
    if (known)
        return (uint32_t)*known;
    if (ea_u64_map_put(&s->pairs, key, s->combination_count))
        return EA_RULES_SCREEN_NONE;
    return s->combination_count++;
}

int ea_rules_screen_known(const ea_rules_screen *s, uint32_t combination) {
    const uint64_t *known = combination == EA_RULES_SCREEN_NONE ? NULL : ea_u64_map_get(&s->judged, combination);
    return known ? (int)*known : -1;
}

int ea_rules_screen_judge(ea_rules_screen *s, uint32_t combination, const ea_rules_value *values, size_t count,
                          int *ret) {
    int rc = ea_rules_run_may(s->run, s->prospect, values, count, ret);
    if (!rc && combination != EA_RULES_SCREEN_NONE)
        EA_IGNORE(ea_u64_map_put(&s->judged, combination, (uint64_t)*ret)); /* no room: it is judged again */
    return rc;
}
