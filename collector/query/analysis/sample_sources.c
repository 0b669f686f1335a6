/* See sample_sources.h. */
#include "collector/query/analysis/sample_sources.h"

#include "collector/query/analysis/event_roles.h"

#include <string.h>

enum { SOURCES_MAX = 65536 };

void ec_sample_sources_init(ec_sample_sources *s) {
    s->timer = 0;
    ea_u64_map_init(&s->intervals, SOURCES_MAX);
    ea_u64_map_init(&s->names, SOURCES_MAX);
    ea_bytes_map_init(&s->texts, 0);
    ea_arena_init(&s->arena, 0);
    ea_text_init(&s->scratch);
}

void ec_sample_sources_deinit(ec_sample_sources *s) {
    ea_u64_map_deinit(&s->intervals);
    ea_u64_map_deinit(&s->names);
    ea_bytes_map_deinit(&s->texts);
    ea_arena_deinit(&s->arena);
    ea_text_deinit(&s->scratch);
}

void ec_sample_sources_clear(ec_sample_sources *s) {
    s->timer = 0;
    ea_u64_map_clear(&s->intervals);
    ea_u64_map_clear(&s->names);
    ea_bytes_map_clear(&s->texts);
    ea_arena_reset(&s->arena);
}

static int add_source_name(ec_sample_sources *s, uint64_t source, ea_slice utf16) {
    size_t n = 0;
    while (n + 1 < utf16.len_bytes && ea_load16(utf16.data + n))
        n += 2;
    ea_text_clear(&s->scratch);
    ea_text_utf16(&s->scratch, utf16.data, n);
    if (s->scratch.failed)
        return EA_ENOMEM;
    const char *name = s->scratch.len_bytes ? s->scratch.data : "";
    const size_t len_bytes = s->scratch.len_bytes;
    char *text = ea_bytes_map_get(&s->texts, name, len_bytes);
    if (!text) {
        text = ea_arena_copy(&s->arena, name, len_bytes + 1);
        if (!text || ea_bytes_map_put(&s->texts, text, len_bytes, text))
            return EA_ENOMEM;
    }
    return ea_u64_map_put(&s->names, source, (uintptr_t)text);
}

int ec_sample_sources_add(ec_sample_sources *s, const ec_event_cursor *t, const ec_event_cursor_event *e) {
    uint64_t source = ec_event_cursor_u64_or_0(t, e, EC_INTERVAL_SOURCE);
    uint64_t interval = ec_event_cursor_u64_or_0(t, e, EC_INTERVAL_LENGTH);
    ea_slice name = ec_event_cursor_bytes(t, e, EC_INTERVAL_NAME);
    int rc = ea_u64_map_put(&s->intervals, source, interval);
    if (!rc && source == EC_SOURCE_TIMER)
        s->timer = interval;
    if (!rc && name.data)
        rc = add_source_name(s, source, name);
    return rc == EA_ELIMIT ? 0 : rc;
}

uint64_t ec_sample_interval(const ec_sample_sources *s, uint64_t source) {
    const uint64_t *known = ea_u64_map_get(&s->intervals, source);
    return known ? *known : 0;
}

/* The names that a class of samples has for its sources; NULL: none. */
static const ea_enum *source_names_of(const ea_class *c) {
    int16_t top = ec_class_field(c, "ProfileSource");
    return top >= 0 ? c->fields[ea_class_top_field(c, (size_t)top)].map : NULL;
}

const char *ec_sample_source_name(const ec_sample_sources *s, uint64_t source, const ea_class *sample_class) {
    const uint64_t *known = ea_u64_map_get(&s->names, source);
    if (known)
        return (const char *)(uintptr_t)*known;
    const char *name = NULL;
    const ea_enum *map = source_names_of(sample_class);
    for (size_t i = 0; map && i < map->count; i++)
        if (map->entries[i].value == source)
            name = map->entries[i].name;
    return name;
}

static int is_same_counter(const char *a, const char *b) {
    while (*a && *b && (*a | 0x20) == (*b | 0x20))
        a++, b++;
    return !*a && !*b;
}

int ec_sample_source_find(const ec_sample_sources *s, const char *counter, const ea_class *sample_class,
                          uint64_t *ret) {
    uint64_t source, name;
    for (size_t cursor = 0; ea_u64_map_next(&s->names, &cursor, &source, &name);)
        if (is_same_counter((const char *)(uintptr_t)name, counter)) {
            *ret = source;
            return 1;
        }
    if (!sample_class)
        return 0;
    if (ea_u64_parse(counter, &source) == 0 && source < SOURCES_MAX) {
        *ret = source;
        return 1;
    }
    const ea_enum *map = source_names_of(sample_class);
    for (size_t i = 0; map && i < map->count; i++)
        if (is_same_counter(map->entries[i].name, counter)) {
            *ret = map->entries[i].value;
            return 1;
        }
    return 0;
}
