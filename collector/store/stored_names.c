/* Which names streams have in the index, as far as this writer has stored or found them lately: a description that
 * comes again costs a look into memory, and no statement. Called by: append.c, which stores a batch in a savepoint, so
 * that what a batch noted is dropped with it. See store_parts.h. */
#include "collector/store/store_parts.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 4 }; /* places that a name may have */

static size_t first_place(const ec_store *s, int64_t stream_id, enum ea_definition_kind kind, const uint8_t *hash) {
    uint64_t seed = s->names_seed ^ ((uint64_t)stream_id << 8) ^ (uint64_t)kind;
    return (size_t)ea_hash64(hash, EA_CLASS_HASH_BYTES, seed) % (EC_STORED_NAMES / WAYS) * WAYS;
}

const ec_stored_name *ec_store_known_name(const ec_store *s, int64_t stream_id, enum ea_definition_kind kind,
                                          const uint8_t *hash) {
    if (!s->names || !stream_id)
        return NULL;
    const ec_stored_name *n = &s->names[first_place(s, stream_id, kind, hash)];
    for (size_t i = 0; i < WAYS; i++, n++)
        if (n->stream_id == stream_id && n->kind == kind && memcmp(n->hash, hash, sizeof n->hash) == 0)
            return n;
    return NULL;
}

/* The place of a name: its own, else a free one, else that of another name, of which the index is asked again. */
static size_t choose_place(ec_store *s, const ec_stored_name *name) {
    size_t first = first_place(s, name->stream_id, (enum ea_definition_kind)name->kind, name->hash);
    const ec_stored_name *own =
        ec_store_known_name(s, name->stream_id, (enum ea_definition_kind)name->kind, name->hash);
    if (own)
        return (size_t)(own - s->names);
    for (size_t i = 0; i < WAYS; i++)
        if (!s->names[first + i].stream_id)
            return first + i;
    return first + s->names_replaced++ % WAYS;
}

void ec_store_note_name(ec_store *s, const ec_stored_name *name) {
    ea_err ignored;
    if (!s->names) {
        if (ea_random_bytes(&s->names_seed, sizeof s->names_seed, &ignored))
            return;
        s->names = calloc(EC_STORED_NAMES, sizeof *s->names);
    }
    if (!s->names || EA_GROW(s->names_noted, s->names_noted_capacity, s->names_noted_count + 1, SIZE_MAX))
        return;
    size_t place = choose_place(s, name);
    s->names[place] = *name;
    s->names_noted[s->names_noted_count++] = (uint32_t)place;
}

void ec_store_end_names(ec_store *s, int is_undone) {
    for (size_t i = 0; is_undone && i < s->names_noted_count; i++)
        s->names[s->names_noted[i]].stream_id = 0;
    s->names_noted_count = 0;
}

void ec_store_forget_names(ec_store *s) {
    if (s->names)
        memset(s->names, 0, EC_STORED_NAMES * sizeof *s->names);
    s->names_noted_count = 0;
}

void ec_store_free_names(ec_store *s) {
    free(s->names);
    free(s->names_noted);
}
