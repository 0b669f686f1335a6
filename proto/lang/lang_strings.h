/* Texts of a run, each once, by number: texts are equal when their numbers are. A text that is not kept has its number
 * until the event at hand is over, so that conditions on many different texts need no memory. Bounded: beyond the limit
 * each new text that is to be kept is number 1, "(no room)". Thread: the run's. */
#ifndef EA_LANG_LANG_STRINGS_H
#define EA_LANG_LANG_STRINGS_H

#include "proto/base/arena.h"
#include "proto/lang/lang_table.h"

#include <stddef.h>
#include <stdint.h>

typedef struct lang_string {
    const char *text; /* with a NUL */
    uint32_t len_bytes;
    uint32_t hash;
} lang_string;

typedef struct lang_strings {
    ea_arena arena, passing; /* passing: texts that are not kept */
    lang_string *items;
    size_t count, capacity;
    size_t kept;       /* items before this one stay */
    size_t kept_bytes; /* of them */
    uint32_t *slots;
    size_t mask;
    lang_memory *memory;
    uint64_t refused;
} lang_strings;

enum { STRING_EMPTY = 0, STRING_NO_ROOM = 1 };

/* 0 or EA_ENOMEM. */
int lang_strings_init(lang_strings *s, lang_memory *memory);
void lang_strings_deinit(lang_strings *s);
uint32_t lang_strings_add(lang_strings *s, const char *text, size_t len_bytes);
/* Keeps a text, and those that came before it: its number, or STRING_NO_ROOM, and then it is not kept. */
uint32_t lang_strings_keep(lang_strings *s, uint64_t number);
/* Forgets the texts that are not kept. */
void lang_strings_forget(lang_strings *s);
/* Forgets all but the first two, "" and "(no room)". */
void lang_strings_forget_all(lang_strings *s);

static inline const lang_string *lang_string_at(const lang_strings *s, uint64_t number) {
    return &s->items[number < s->count ? number : STRING_NO_ROOM];
}

#endif
