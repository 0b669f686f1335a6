/* See activity.h: the rows of a table, found by their keys while they are summed, and by the hash column later. */
#include "collector/query/analysis/activity_internal.h"
#include "collector/query/analysis/profile_merge.h"
#include "collector/query/analysis/query.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS_MAX = 1 << 20 };

const char *ec_activity_text(ec_activity *a, const char *text, size_t len_bytes) {
    const char *known = ea_bytes_map_get(&a->texts, text, len_bytes);
    if (known)
        return known;
    char *copy = ea_arena_alloc(&a->arena, len_bytes + 1);
    if (copy) {
        memcpy(copy, text, len_bytes);
        copy[len_bytes] = 0;
        copy = ea_bytes_map_put(&a->texts, copy, len_bytes, copy) ? NULL : copy;
    }
    a->is_short |= !copy;
    return copy;
}

/* The row of a key, which is made when it is new. */
int ec_activity_row_of(ec_activity *a, ec_activity_key *k, ec_activity_row **ret) {
    k->stream = a->stream;
    uint32_t *recent = &a->recent[(k->key[0] + 3 * k->key[1] + 5 * k->key[2]) % EC_ACTIVITY_RECENT];
    if (*recent && *recent <= a->count && memcmp(&a->rows[*recent - 1].k, k, sizeof *k) == 0) {
        *ret = &a->rows[*recent - 1];
        return 0;
    }
    const void *known = ea_bytes_map_get(&a->index, k, sizeof *k);
    if (known) {
        *recent = (uint32_t)(uintptr_t)known;
        *ret = &a->rows[*recent - 1];
        return 0;
    }
    int rc = EA_GROW(a->rows, a->capacity, a->count + 1, ROWS_MAX);
    if (rc)
        return rc;
    const void *copy = ea_arena_copy(&a->arena, k, sizeof *k);
    if (!copy || ea_bytes_map_put(&a->index, copy, sizeof *k, (void *)(uintptr_t)(a->count + 1)))
        return EA_ENOMEM;
    a->rows[a->count] = (ec_activity_row){.k = *k};
    *ret = &a->rows[a->count++];
    return 0;
}

ec_address_space *ec_activity_space(ec_activity *a, enum ec_instance_kind kind, int64_t utc_ns) {
    ec_instances_answer *o = &a->others[kind];
    if (!a->has_none[kind])
        return a->space;
    if (utc_ns < o->from_utc_ns || utc_ns >= o->to_utc_ns)
        a->is_short |= ec_instances_space(a->instances, kind, a->stream->row.host, a->stream->id, utc_ns, o, NULL) != 0;
    return o->space ? o->space : a->space;
}

void ec_activity_put_process(ec_activity *a, ec_activity_key *k, unsigned which, uint32_t pid, int64_t utc_ns) {
    ec_address_space *space = ec_activity_space(a, EC_INSTANCE_PROCESS, utc_ns);
    uint32_t at = ec_address_space_process(space, pid, utc_ns);
    const ea_process *p = ec_address_space_get_process(space, at);
    const char *name = p ? ec_base_name(p->image_name) : "";
    size_t slot = at % EC_ACTIVITY_IMAGES;
    if (!a->images[slot].name || a->images[slot].process != p) {
        a->images[slot].name = ec_activity_text(a, name, strlen(name));
        a->images[slot].process = p;
    }
    k->image[which] = a->images[slot].name;
    k->process[which] = ec_address_space_process_key(space, at);
}

int ec_activity_is_in_range(const ec_activity *a, int64_t utc_ns) {
    return utc_ns >= a->from_utc_ns && utc_ns < a->to_utc_ns;
}

int ec_activity_name_functions(ec_activity *a, const ec_profile_namer *namer) {
    ec_profile names = {.notes = ""};
    ec_activity_row *places = a->rows;
    size_t count = a->count;
    int rc = ec_merge_finish(a->places, namer, &names);
    a->rows = NULL;
    a->count = a->capacity = 0;
    ea_bytes_map_clear(&a->index);
    for (size_t i = 0; !rc && i < count; i++) {
        ec_activity_key k = places[i].k;
        ec_activity_row *r = NULL;
        const ec_profile_frame *f = ec_merge_innermost(a->places, (uint32_t)k.key[KEY_PLACE]);
        const char *module = names.modules[f->module].name;
        k.key[KEY_PLACE] = 0;
        k.text[TEXT_MODULE] = f->module ? ec_activity_text(a, module, strlen(module)) : NULL;
        k.text[TEXT_FUNCTION] = ec_activity_text(a, f->label, strlen(f->label));
        a->stream = k.stream;
        rc = a->is_short ? EA_ENOMEM : ec_activity_row_of(a, &k, &r);
        for (size_t sum = 0; !rc && sum < EC_ACTIVITY_SUMS; sum++)
            r->sum[sum] += places[i].sum[sum];
    }
    free(places);
    return rc;
}

size_t ec_activity_count(const ec_activity *a) {
    return a->count;
}

static uint64_t hash_at(const ec_activity *a, uint32_t at) {
    return a->rows[at].k.key[KEY_STACK_HASH];
}

/* A row on its way into the order by hash. */
typedef struct hashed_row {
    uint64_t hash;
    uint32_t at;
} hashed_row;

static int compare_hashed(const void *a, const void *b) {
    const hashed_row *x = a, *y = b;
    return x->hash != y->hash ? (x->hash > y->hash) - (x->hash < y->hash) : (x->at > y->at) - (x->at < y->at);
}

static int sort_by_hash(ec_activity *a) {
    hashed_row *rows = malloc((a->count + 1) * sizeof *rows);
    uint32_t *by_hash = malloc((a->count + 1) * sizeof *by_hash);
    for (size_t i = 0; rows && i < a->count; i++)
        rows[i] = (hashed_row){hash_at(a, (uint32_t)i), (uint32_t)i};
    if (rows && by_hash) {
        qsort(rows, a->count, sizeof *rows, compare_hashed);
        for (size_t i = 0; i < a->count; i++)
            by_hash[i] = rows[i].at;
        a->by_hash = by_hash;
    } else {
        free(by_hash);
    }
    free(rows);
    return a->by_hash ? 0 : EA_ENOMEM;
}

int ec_activity_find(ec_activity *a, uint64_t value, const uint32_t **ret, size_t *ret_count) {
    size_t low = 0, high = a->count;
    if (!a->by_hash && sort_by_hash(a))
        return EA_ENOMEM;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (hash_at(a, a->by_hash[middle]) < value)
            low = middle + 1;
        else
            high = middle;
    }
    *ret = a->by_hash + low;
    *ret_count = 0;
    while (low + *ret_count < a->count && hash_at(a, a->by_hash[low + *ret_count]) == value)
        ++*ret_count;
    return 0;
}

uint64_t ec_activity_number(const ec_activity *a, size_t at) {
    const ec_activity_key *k = &a->rows[at].k;
    const int64_t range[] = {a->from_utc_ns, a->to_utc_ns};
    uint64_t hash = ea_hash64(k->stream->id, sizeof k->stream->id, ea_hash64(range, sizeof range, 0));
    hash = ea_hash64(k->key, sizeof k->key, hash);
    for (size_t i = 0; i < sizeof k->text / sizeof *k->text; i++)
        hash = k->text[i] ? ea_hash64(k->text[i], strlen(k->text[i]) + 1, hash) : ~hash;
    hash = ea_hash64(k->process, sizeof k->process, ea_hash64(&k->bucket, sizeof k->bucket, hash));
    for (size_t i = 0; i < 2; i++)
        hash = k->image[i] ? ea_hash64(k->image[i], strlen(k->image[i]) + 1, hash) : ~hash;
    return hash;
}
