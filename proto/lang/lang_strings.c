/* Texts by number. See lang_strings.h. */
#include "proto/lang/lang_strings.h"

#include "proto/base/array.h"
#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS_FIRST = 1024 };

static void strings_add_first(lang_strings *s) {
    static const char *const FIRST[] = {"", "(no room)"};
    for (size_t i = 0; i < 2; i++) {
        size_t n = strlen(FIRST[i]);
        s->items[i] = (lang_string){FIRST[i], (uint32_t)n, (uint32_t)ea_hash64(FIRST[i], n, s->memory->seed)};
        size_t at = s->items[i].hash & s->mask;
        while (s->slots[at])
            at = (at + 1) & s->mask;
        s->slots[at] = (uint32_t)i + 1;
        s->kept = ++s->count;
    }
}

int lang_strings_init(lang_strings *s, lang_memory *memory) {
    *s = (lang_strings){.memory = memory};
    ea_arena_init(&s->arena, 0);
    ea_arena_init(&s->passing, 0);
    s->slots = calloc(SLOTS_FIRST, sizeof *s->slots);
    if (!s->slots || EA_GROW(s->items, s->capacity, SLOTS_FIRST, SIZE_MAX))
        return EA_ENOMEM;
    s->mask = SLOTS_FIRST - 1;
    strings_add_first(s);
    return 0;
}

void lang_strings_deinit(lang_strings *s) {
    ea_arena_deinit(&s->arena);
    ea_arena_deinit(&s->passing);
    free(s->items);
    free(s->slots);
    *s = (lang_strings){0};
}

static int strings_grow(lang_strings *s) {
    size_t mask = s->mask * 2 + 1;
    uint32_t *slots = calloc(mask + 1, sizeof *slots);
    if (!slots || EA_GROW(s->items, s->capacity, mask + 1, SIZE_MAX)) {
        free(slots);
        return 0;
    }
    for (size_t i = 0; i < s->count; i++) {
        size_t at = s->items[i].hash & mask;
        while (slots[at])
            at = (at + 1) & mask;
        slots[at] = (uint32_t)i + 1;
    }
    free(s->slots);
    s->memory->used_bytes += (mask - s->mask) * (sizeof *slots + sizeof *s->items);
    s->slots = slots;
    s->mask = mask;
    return 1;
}

uint32_t lang_strings_add(lang_strings *s, const char *text, size_t len_bytes) {
    uint32_t hash = (uint32_t)ea_hash64(text, len_bytes, s->memory->seed);
    size_t at = hash & s->mask;
    for (; s->slots[at]; at = (at + 1) & s->mask) {
        const lang_string *k = &s->items[s->slots[at] - 1];
        if (k->hash == hash && k->len_bytes == len_bytes && memcmp(k->text, text, len_bytes) == 0)
            return s->slots[at] - 1;
    }
    char *copy = s->count * 2 > s->mask && !strings_grow(s) ? NULL : ea_arena_alloc(&s->passing, len_bytes + 1);
    if (!copy) {
        s->refused++;
        return STRING_NO_ROOM;
    }
    memcpy(copy, text, len_bytes);
    copy[len_bytes] = 0;
    EA_ASSERT(s->count < s->capacity && s->count * 2 <= s->mask + 1);
    for (at = hash & s->mask; s->slots[at];)
        at = (at + 1) & s->mask;
    s->items[s->count] = (lang_string){copy, (uint32_t)len_bytes, hash};
    s->slots[at] = (uint32_t)++s->count;
    return (uint32_t)s->count - 1;
}

uint32_t lang_strings_keep(lang_strings *s, uint64_t number) {
    if (number < s->kept)
        return (uint32_t)number;
    while (s->kept <= number && s->kept < s->count) {
        lang_string *k = &s->items[s->kept];
        size_t bytes = (size_t)k->len_bytes + 1;
        char *copy =
            s->memory->used_bytes + bytes > s->memory->limit_bytes ? NULL : ea_arena_copy(&s->arena, k->text, bytes);
        if (!copy)
            return STRING_NO_ROOM;
        s->memory->used_bytes += bytes;
        s->kept_bytes += bytes;
        k->text = copy;
        s->kept++;
    }
    return number < s->kept ? (uint32_t)number : STRING_NO_ROOM;
}

void lang_strings_forget(lang_strings *s) {
    EA_ASSERT(s->kept >= 2 && s->kept <= s->count); /* the first two are kept from the beginning */
    while (s->count > s->kept) {                    /* the youngest first: none of the others was placed after it */
        size_t at = s->items[--s->count].hash & s->mask;
        while (s->slots[at] != s->count + 1)
            at = (at + 1) & s->mask;
        s->slots[at] = 0;
    }
    ea_arena_reset(&s->passing);
}

void lang_strings_forget_all(lang_strings *s) {
    EA_ASSERT(s->memory->used_bytes >= s->kept_bytes);
    s->memory->used_bytes -= s->kept_bytes;
    s->kept_bytes = s->count = s->kept = 0;
    memset(s->slots, 0, (s->mask + 1) * sizeof *s->slots);
    ea_arena_reset(&s->arena);
    ea_arena_reset(&s->passing);
    strings_add_first(s);
}
