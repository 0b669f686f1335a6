/* See stacks.h. */
#include "proto/stack/stacks.h"

#include "proto/base/bytes.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <stdlib.h>
#include <string.h>

enum { DEFAULT_LIMIT_MIB = 512, FRAMES_MAX = 65536 / 4, FIRST_BLOCK = 64 << 10, LARGEST_BLOCK = 2 << 20 };

enum { KEY_CREATE = 34, KEY_DELETE = 35, KEY_RUNDOWN = 36 };

/* A number. What a key stands for has an alias once it is defined. */
typedef struct stack {
    const uint64_t *frames;
    uint32_t count;
    uint32_t alias; /* of a key: the stack; 0: not defined */
    uint8_t is_key;
} stack;

/* Two stacks are taken for the same when 96 bits of their hashes agree. The hash has a secret that is unknown outside
 * this process, so that a known stack is found with one look-up and without reading its addresses from memory. */
typedef struct slot {
    uint64_t hash;
    uint32_t more_hash, number; /* number 0: empty */
} slot;

/* Frames, one stack after another. Each of the largest blocks is a large page, so that a million frames do not cost a
 * thousand page faults. */
typedef struct block {
    struct block *older;
    size_t size_bytes, used_bytes; /* with this header */
} block;

struct ea_stacks {
    stack *all; /* [0] is no stack */
    uint32_t count, capacity;
    slot *slots;
    size_t mask;
    ea_u64_map keys[EA_STACK_HALVES]; /* key -> number */
    block *newest;
    size_t frame_bytes;
    size_t limit_bytes;
    uint64_t *scratch;
    uint8_t secret[XXH3_SECRET_SIZE_MIN]; /* of the hash */
    ea_stacks_counts counts;
};

int ea_stacks_create(ea_stacks **ret, size_t limit_bytes, ea_err *err) {
    ea_stacks *s = calloc(1, sizeof *s);
    if (s) {
        s->limit_bytes = limit_bytes ? limit_bytes : (size_t)DEFAULT_LIMIT_MIB << 20;
        ea_u64_map_init(&s->keys[EA_STACK_KERNEL], s->limit_bytes / 256);
        ea_u64_map_init(&s->keys[EA_STACK_USER], s->limit_bytes / 256);
        s->capacity = 256;
        s->mask = 1023;
        s->all = calloc(s->capacity, sizeof *s->all);
        s->slots = ea_large_alloc((s->mask + 1) * sizeof *s->slots);
        s->scratch = malloc(FRAMES_MAX * sizeof *s->scratch);
        s->count = 1;
    }
    if (!s || !s->all || !s->slots || !s->scratch) {
        ea_stacks_destroy(s);
        return ea_fail(err, EA_ENOMEM, "make a table of stacks");
    }
    int rc = ea_random_bytes(s->secret, sizeof s->secret, err);
    if (rc) {
        ea_stacks_destroy(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void ea_stacks_destroy(ea_stacks *s) {
    if (!s)
        return;
    ea_u64_map_deinit(&s->keys[EA_STACK_KERNEL]);
    ea_u64_map_deinit(&s->keys[EA_STACK_USER]);
    while (s->newest) {
        block *older = s->newest->older;
        ea_large_free(s->newest, s->newest->size_bytes);
        s->newest = older;
    }
    ea_large_free(s->slots, (s->mask + 1) * sizeof *s->slots);
    free(s->all);
    free(s->scratch);
    free(s);
}

static uint64_t stacks_bytes_of(const ea_stacks *s) {
    return s->capacity * sizeof *s->all + (s->mask + 1) * sizeof *s->slots + s->frame_bytes;
}

/* A new number: 0 without room. */
static uint32_t new_number(ea_stacks *s) {
    if (s->count == s->capacity) {
        size_t capacity = (size_t)s->capacity * 2;
        stack *grown = NULL;
        if (capacity <= UINT32_MAX / 2 && stacks_bytes_of(s) + s->capacity * sizeof *s->all <= s->limit_bytes)
            grown = realloc(s->all, capacity * sizeof *s->all);
        if (!grown) {
            s->counts.left_out++;
            return 0;
        }
        s->all = grown;
        s->capacity = (uint32_t)capacity;
    }
    s->all[s->count] = (stack){0};
    return s->count++;
}

/* Twice as many slots. Without room there is less of it between those that are in. */
static int stacks_grow_slots(ea_stacks *s) {
    size_t mask = s->mask * 2 + 1, bytes = (mask + 1) * sizeof(slot);
    slot *slots = stacks_bytes_of(s) + bytes <= s->limit_bytes ? ea_large_alloc(bytes) : NULL;
    if (!slots)
        return EA_ENOMEM;
    for (size_t i = 0; i <= s->mask; i++) {
        if (!s->slots[i].number)
            continue;
        size_t at = s->slots[i].hash & mask;
        while (slots[at].number)
            at = (at + 1) & mask;
        slots[at] = s->slots[i];
    }
    ea_large_free(s->slots, (s->mask + 1) * sizeof *s->slots);
    s->slots = slots;
    s->mask = mask;
    return 0;
}

static size_t stacks_slot_of(const ea_stacks *s, const slot *key) {
    size_t at = key->hash & s->mask;
    while (s->slots[at].number && (s->slots[at].hash != key->hash || s->slots[at].more_hash != key->more_hash))
        at = (at + 1) & s->mask;
    return at;
}

/* frames: 8 bytes each, any alignment. */
static slot stacks_key_of(const ea_stacks *s, const void *frames, size_t count) {
    XXH128_hash_t hash = XXH3_128bits_withSecret(frames, count * sizeof(uint64_t), s->secret, sizeof s->secret);
    return (slot){.hash = hash.low64, .more_hash = (uint32_t)hash.high64};
}

/* A copy of frames that stays where it is; NULL without room. */
static const uint64_t *keep_frames(ea_stacks *s, const void *frames, size_t bytes) {
    block *b = s->newest;
    if (stacks_bytes_of(s) + bytes > s->limit_bytes)
        return NULL;
    if (!b || b->size_bytes - b->used_bytes < bytes) {
        size_t size = b ? b->size_bytes * 2 : FIRST_BLOCK;
        size = size > LARGEST_BLOCK ? LARGEST_BLOCK : size;
        size = size < sizeof *b + bytes ? sizeof *b + bytes : size;
        b = ea_large_alloc(size);
        if (!b)
            return NULL;
        *b = (block){.older = s->newest, .size_bytes = size, .used_bytes = sizeof *b};
        s->newest = b;
    }
    void *copy = (uint8_t *)b + b->used_bytes;
    memcpy(copy, frames, bytes);
    b->used_bytes += bytes;
    s->frame_bytes += bytes;
    return copy;
}

static uint32_t intern(ea_stacks *s, const void *frames, size_t count, const slot *key) {
    size_t bytes = count * sizeof(uint64_t), at = stacks_slot_of(s, key);
    if (s->slots[at].number)
        return s->slots[at].number;
    if (s->counts.stacks >= s->mask / 2) {
        if (stacks_grow_slots(s)) {
            s->counts.left_out++;
            return 0;
        }
        at = stacks_slot_of(s, key);
    }
    const uint64_t *copy = keep_frames(s, frames, bytes);
    if (!copy) {
        s->counts.left_out++;
        return 0;
    }
    uint32_t number = new_number(s);
    if (!number)
        return 0;
    s->all[number].frames = copy;
    s->all[number].count = (uint32_t)count;
    s->slots[at] = (slot){.hash = key->hash, .more_hash = key->more_hash, .number = number};
    s->counts.stacks++;
    return number;
}

/* A stack that is asked for: 8 bytes a frame, and its key, whose slot is on its way from memory. */
typedef struct asked {
    const void *frames;
    size_t count; /* 0: none */
    slot key;
} asked;

static void stacks_ask(ea_stacks *s, const uint8_t *addresses, size_t count, unsigned pointer_size, asked *ret) {
    ret->frames = addresses;
    ret->count = count < FRAMES_MAX ? count : FRAMES_MAX; /* an event has no room for more */
    if (!count)
        return;
    if (pointer_size == 4) {
        for (size_t i = 0; i < ret->count; i++)
            s->scratch[i] = ea_load32(addresses + 4 * i);
        ret->frames = s->scratch;
    }
    ret->key = stacks_key_of(s, ret->frames, ret->count);
    EA_PREFETCH(&s->slots[ret->key.hash & s->mask]);
}

static uint32_t stacks_answer(ea_stacks *s, const asked *a) {
    return a->count ? intern(s, a->frames, a->count, &a->key) : 0;
}

uint32_t ea_stacks_add(ea_stacks *s, const uint8_t *addresses, size_t count, unsigned pointer_size) {
    asked a;
    if (!s)
        return count > 0;
    stacks_ask(s, addresses, count, pointer_size, &a);
    return stacks_answer(s, &a);
}

void ea_stacks_add_all(ea_stacks *s, const ea_stack_list *lists, size_t list_count, unsigned pointer_size,
                       uint32_t *ret_numbers) {
    asked all[EA_STACKS_AT_ONCE];
    for (size_t i = 0; !s && i < list_count; i++)
        ret_numbers[i] = lists[i].count > 0;
    if (!s)
        return;
    for (size_t i = 0; i < list_count; i++) {
        stacks_ask(s, lists[i].addresses, lists[i].count, pointer_size, &all[i]);
        if (pointer_size == 4) /* there is one place for widened ones */
            ret_numbers[i] = stacks_answer(s, &all[i]);
    }
    for (size_t i = 0; pointer_size != 4 && i < list_count; i++)
        ret_numbers[i] = stacks_answer(s, &all[i]);
}

uint32_t ea_stacks_use(ea_stacks *s, enum ea_stack_half half, uint64_t key) {
    if (!s)
        return 1;
    uint64_t *known = ea_u64_map_get(&s->keys[half], key);
    if (known)
        return (uint32_t)*known;
    uint32_t number = new_number(s);
    if (!number)
        return 0;
    if (ea_u64_map_put(&s->keys[half], key, number)) {
        s->count--;
        s->counts.left_out++;
        return 0;
    }
    s->all[number].is_key = 1;
    s->counts.undefined++;
    return number;
}

void ea_stacks_define(ea_stacks *s, unsigned opcode, uint64_t key, const uint8_t *addresses, size_t count,
                      unsigned pointer_size) {
    if (!count || !s)
        return;
    asked a;
    stacks_ask(s, addresses, count, pointer_size, &a);
    uint64_t first = pointer_size == 4 ? ea_load32(addresses) : ea_load64(addresses);
    ea_u64_map *keys = &s->keys[ea_stack_is_kernel(first, pointer_size) ? EA_STACK_KERNEL : EA_STACK_USER];
    const uint64_t *known = ea_u64_map_get(keys, key);
    uint32_t used = known ? (uint32_t)*known : 0;
    int was_waiting = used && s->all[used].is_key && !s->all[used].alias;
    if (opcode == KEY_DELETE && known)
        ea_u64_map_remove(keys, key);
    uint32_t number = was_waiting || opcode != KEY_DELETE ? stacks_answer(s, &a) : 0;
    if (was_waiting && opcode != KEY_CREATE && number) {
        s->all[used].alias = number;
        s->counts.undefined--;
        s->counts.defined++;
    } else if (!was_waiting || opcode == KEY_CREATE) {
        s->counts.unused++;
    }
    if (opcode != KEY_DELETE && number && (!was_waiting || opcode == KEY_CREATE) && ea_u64_map_put(keys, key, number))
        s->counts.left_out++;
}

uint32_t ea_stacks_final(const ea_stacks *s, uint32_t number) {
    return number < s->count && s->all[number].is_key && s->all[number].alias ? s->all[number].alias : number;
}

int ea_stacks_is_undefined(const ea_stacks *s, uint32_t number) {
    return number < s->count && s->all[number].is_key && !s->all[number].alias;
}

const uint64_t *ea_stacks_get(const ea_stacks *s, uint32_t number, size_t *ret_count) {
    number = ea_stacks_final(s, number);
    *ret_count = number < s->count ? s->all[number].count : 0;
    return number < s->count ? s->all[number].frames : NULL;
}

ea_stacks_counts ea_stacks_count(const ea_stacks *s) {
    ea_stacks_counts c = s->counts;
    c.bytes = stacks_bytes_of(s);
    return c;
}
