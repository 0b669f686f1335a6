/* The open batch. See builder.h and open_batch.h. Thread: the source's, but for release. */
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "service/batch/open_batch.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>

enum {
    DEFAULT_EVENTS = 16384,
    DEFAULT_BYTES = 4 << 20,
    DEFAULT_SPARE = 2,
    SLACK_BYTES = 128 << 10,              /* so that an ordinary record fits after the limit */
    RECORD_MAX_BYTES = 8 << 20,           /* payload and items of one record */
    MAX_GROUPS = EA_BATCH_MAX_GROUPS / 2, /* on the wire a group may become two */
    TABLE_BITS = 14,
    TABLE_SIZE = 1 << TABLE_BITS,
    LATEST_SIZE = 1024, /* a power of two */
    FIRST_GROUPS = 512,
    FIRST_SHAPES = 1024,
    MAX_SHAPES = MAX_GROUPS * 8,
};

static_assert(TABLE_SIZE >= 2 * MAX_GROUPS, "the look-up table is at most half full");

/* The table of sources. A change makes a new table: closed batches keep the table with which they were closed. */
struct ea_sources {
    unsigned users; /* the builder, and such batches */
    char *strings;
    ea_label *labels;
    ea_wire_source rows[];
};

struct ea_builder {
    uint32_t max_events, max_bytes;
    ea_counters *counters;
    ea_sources *sources; /* lock */
    size_t source_count;
    ea_open_batch *open;
    ea_open_batch *all; /* array */
    size_t all_count;
    ea_mutex *lock; /* guards free_list, sources and their users */
    ea_cond *released;
    ea_open_batch *free_list;
};

/* ---- the group's key ---- */

/* Word i of the key of the record's group; see EA_KEY_WORDS. */
static inline uint64_t key_word(const ea_record *r, unsigned i) {
    uint64_t word = ea_load64((const uint8_t *)r + 8 * i);
    return i < EA_KEY_WORDS - 1 ? word : (uint32_t)word | (uint64_t)r->ext_count << 32;
}

void ea_open_group_header(const ea_open_group *g, ea_record *ret) {
    memcpy(ret, g->key, offsetof(ea_record, unused));
}

typedef uint64_t key_part __attribute__((vector_size(16))); /* compilers know such vectors on every machine */

static inline key_part load_part(const void *p) {
    key_part part;
    memcpy(&part, p, sizeof part);
    return part;
}

/* Three parts cover the header constants of a record; the last two overlap, because the members after them are not
 * constants. */
static inline int same_key(const ea_open_group *g, const ea_record *r) {
    enum { CONSTANT_BYTES = offsetof(ea_record, unused), PART = sizeof(key_part), LAST = CONSTANT_BYTES - PART };

    const uint8_t *a = (const uint8_t *)g->key, *b = (const uint8_t *)r;
    key_part differs = (load_part(a) ^ load_part(b)) | (load_part(a + PART) ^ load_part(b + PART)) |
                       (load_part(a + LAST) ^ load_part(b + LAST));
    return (differs[0] | differs[1]) == 0 && g->ext_count == r->ext_count;
}

EA_APART static uint64_t hash_items(uint64_t h, const ea_record *r) {
    for (unsigned i = 0; i < r->ext_count; i++)
        h = (h ^ (uint32_t)r->ext[i].type << 16 ^ r->ext[i].linkage) * 0x9E3779B97F4A7C15u;
    return h;
}

/* Where to look for a group: the top bits of a sum of products. A record without items has the class that its words
 * say, so that this need not wait for the class. Never stored. */
static inline uint32_t first_slot(const ea_record *r, const ea_class *c) {
    const uint64_t m = 0x9E3779B97F4A7C15u;
    static_assert(EA_KEY_WORDS == 6, "provider, keyword and all that follows it");
    uint64_t h = (key_word(r, 0) + key_word(r, 3)) * m + (key_word(r, 1) + key_word(r, 4)) * 0xE7037ED1A0B428DBu +
                 (key_word(r, 2) + key_word(r, 5)) * 0xC2B2AE3D27D4EB4Fu;
    if (r->ext_count)
        h = hash_items(h ^ (uint64_t)(uintptr_t)c * m, r);
    return (uint32_t)(h >> (64 - TABLE_BITS));
}

/* Items that all events of a class have alike: they are part of the key, so that they travel once a group. */
static int builder_is_constant(uint16_t type) {
    return type == EA_EXT_SCHEMA_TL || type == EA_EXT_PROV_TRAITS || type == EA_EXT_CONTROL_GUID;
}

EA_APART static int same_items(const ea_open_batch *o, const ea_open_group *g, const ea_record *r) {
    const ea_item_shape *s = &o->shapes[g->shapes];
    for (unsigned i = 0; i < r->ext_count; i++, s++) {
        const ea_ext *x = &r->ext[i];
        if (s->type != x->type || s->linkage != x->linkage)
            return 0;
        if (s->constant != (uint32_t)EA_NO_CONSTANT &&
            (s->size_bytes != x->size_bytes ||
             (x->size_bytes && memcmp(o->content + s->constant, x->data, x->size_bytes) != 0)))
            return 0;
    }
    return 1;
}

/* ---- creation ---- */

static int init_batch(ea_open_batch *o, ea_builder *b) {
    o->builder = b;
    o->source_count = b->source_count;
    o->content_capacity = (size_t)b->max_bytes + SLACK_BYTES;
    o->group_capacity = FIRST_GROUPS;
    o->shape_capacity = FIRST_SHAPES;
    o->events = malloc(b->max_events * sizeof *o->events);
    o->content = calloc(o->content_capacity + EA_CONTENT_SLACK, 1);
    o->groups = malloc(o->group_capacity * sizeof *o->groups);
    o->shapes = malloc(o->shape_capacity * sizeof *o->shapes);
    o->table = calloc(TABLE_SIZE, sizeof *o->table);
    o->latest = calloc(LATEST_SIZE, sizeof *o->latest);
    return o->events && o->content && o->groups && o->shapes && o->table && o->latest ? 0 : EA_ENOMEM;
}

static const char *builder_copy_string(char **at, const char *s) {
    size_t n = strlen(s) + 1;
    char *copy = memcpy(*at, s, n);
    ea_utf8_repair(copy, n - 1); /* proto3 has valid UTF-8 only: a strict reader would refuse the batch */
    *at += n;
    return copy;
}

static size_t builder_string_bytes(const char *s) {
    return s ? strlen(s) + 1 : 0;
}

/* What a source's strings take, with labels; adds them to *ret_labels. */
static size_t source_bytes(const ea_wire_source *s, const ea_labels *labels, size_t *ret_labels) {
    size_t n = builder_string_bytes(s->name) + builder_string_bytes(s->host) + builder_string_bytes(s->agent_version);
    for (size_t i = 0; i < labels->count; i++)
        n += builder_string_bytes(labels->items[i].name) + builder_string_bytes(labels->items[i].value);
    *ret_labels += labels->count;
    return n;
}

static void free_sources(ea_sources *s) {
    if (!s)
        return;
    free(s->strings);
    free(s->labels);
    free(s);
}

/* A copy of n rows, all of them with these labels, or with their own (NULL). NULL without memory. */
static ea_sources *copy_sources(const ea_wire_source *rows, size_t n, const ea_labels *given) {
    size_t strings = 0, labels = 0;
    for (size_t i = 0; i < n; i++)
        strings += source_bytes(&rows[i], given ? given : &rows[i].labels, &labels);
    ea_sources *s = malloc(sizeof *s + n * sizeof s->rows[0]);
    if (!s)
        return NULL;
    s->users = 1;
    char *at = s->strings = malloc(strings + 1);
    ea_label *label = s->labels = malloc((labels + !labels) * sizeof *label);
    if (!at || !label) {
        free_sources(s);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        const ea_wire_source *from = &rows[i];
        const ea_labels *own = given ? given : &from->labels;
        ea_wire_source *to = &s->rows[i];
        *to = *from;
        to->name = builder_copy_string(&at, from->name);
        to->host = builder_copy_string(&at, from->host);
        if (from->agent_version)
            to->agent_version = builder_copy_string(&at, from->agent_version);
        to->labels = (ea_labels){.items = label, .count = own->count};
        for (size_t k = 0; k < own->count; k++, label++) {
            label->name = builder_copy_string(&at, own->items[k].name);
            label->value = builder_copy_string(&at, own->items[k].value);
        }
    }
    return s;
}

/* With the lock. */
static void unref_sources(ea_sources *s) {
    EA_ASSERT(s->users);
    if (--s->users == 0)
        free_sources(s);
}

int ea_builder_create(ea_builder **ret, const ea_builder_options *options, ea_err *err) {
    uint32_t max_events = options->max_events ? options->max_events : DEFAULT_EVENTS;
    uint32_t max_bytes = options->max_bytes ? options->max_bytes : DEFAULT_BYTES;
    uint32_t spare = options->spare_batches ? options->spare_batches : DEFAULT_SPARE;
    if (options->source_count == 0 || options->source_count > EA_BATCH_MAX_SOURCES)
        return ea_fail(err, EA_EINVAL, "make batches of %zu sources", options->source_count);
    if (max_events > EA_BATCH_MAX_EVENTS || max_bytes > EA_BATCH_MAX_BYTES / 2 || spare > 1024)
        return ea_fail(err, EA_EINVAL, "make batches of %lu events and %lu bytes: at most %d and %d are allowed",
                       (unsigned long)max_events, (unsigned long)max_bytes, EA_BATCH_MAX_EVENTS,
                       EA_BATCH_MAX_BYTES / 2);
    ea_builder *b = calloc(1, sizeof *b);
    if (!b)
        return ea_fail(err, EA_ENOMEM, "make a batch builder");
    b->max_events = max_events;
    b->max_bytes = max_bytes;
    b->counters = options->counters;
    b->all = calloc(1 + (size_t)spare, sizeof *b->all);
    b->source_count = options->source_count;
    b->sources = copy_sources(options->sources, options->source_count, NULL);
    int rc = b->all && b->sources ? 0 : EA_ENOMEM;
    if (!rc)
        rc = ea_mutex_create(&b->lock, err);
    if (!rc)
        rc = ea_cond_create(&b->released, err);
    for (size_t i = 0; !rc && i < 1 + (size_t)spare; i++) {
        b->all_count++;
        rc = init_batch(&b->all[i], b);
        b->all[i].next = b->free_list;
        b->free_list = &b->all[i];
    }
    if (rc) {
        ea_builder_destroy(b);
        return ea_fail(err, rc, "make a batch builder");
    }
    b->open = b->free_list;
    b->free_list = b->open->next;
    *ret = b;
    return 0;
}

void ea_builder_destroy(ea_builder *b) {
    if (!b)
        return;
    for (size_t i = 0; i < b->all_count; i++) {
        ea_open_batch *o = &b->all[i];
        free(o->events);
        free(o->content);
        free(o->groups);
        free(o->shapes);
        free(o->table);
        free(o->latest);
    }
    free(b->all);
    free_sources(b->sources);
    ea_cond_destroy(b->released);
    ea_mutex_destroy(b->lock);
    free(b);
}

/* A copy of the table takes its place: with these labels (NULL: its own), and this clock (NULL: its own) of a source.
 */
static int change_sources(ea_builder *b, const ea_labels *labels, size_t source, const ea_clock *clock, ea_err *err) {
    ea_mutex_lock(b->lock);
    ea_sources *fresh = copy_sources(b->sources->rows, b->source_count, labels);
    if (fresh) {
        if (clock)
            fresh->rows[source].clock = *clock;
        unref_sources(b->sources);
        b->sources = fresh;
    }
    ea_mutex_unlock(b->lock);
    return fresh ? 0 : ea_fail(err, EA_ENOMEM, "change the labels or the clock of a source");
}

int ea_builder_set_labels(ea_builder *b, const ea_labels *labels, ea_err *err) {
    return change_sources(b, labels, 0, NULL, err);
}

int ea_builder_set_clock(ea_builder *b, size_t source, const ea_clock *clock, ea_err *err) {
    return change_sources(b, NULL, source, clock, err);
}

/* ---- adding ---- */

/* Grows a slab of elements to hold one more (or extra more); 0 or EA_ENOMEM. */
static int builder_grow(void **slab, uint32_t *capacity, uint32_t need, uint32_t max, size_t element_bytes) {
    uint32_t n = *capacity;
    while (n < need)
        n = n * 2 > max ? max : n * 2;
    void *p = realloc(*slab, (size_t)n * element_bytes);
    if (!p)
        return EA_ENOMEM;
    *slab = p;
    *capacity = n;
    return 0;
}

/* A record that is larger than a whole batch gets one of its own. */
EA_RARE static int grow_content(ea_open_batch *o, size_t more) {
    uint8_t *p = realloc(o->content, o->content_bytes + more + EA_CONTENT_SLACK);
    if (!p)
        return EA_ENOMEM;
    memset(p + o->content_bytes + more, 0, EA_CONTENT_SLACK);
    o->content = p;
    o->content_capacity = o->content_bytes + more;
    return 0;
}

/* What fits depends on the options alone, never on what the slab held before. */
EA_RARE static int make_room(ea_open_batch *o, size_t more) {
    if (o->count)
        return EA_EFULL;
    return more <= o->content_capacity - o->content_bytes ? 0 : grow_content(o, more);
}

EA_RARE static int new_group(ea_open_batch *o, const ea_record *r, const ea_class *c, uint32_t slot) {
    if (o->group_count == MAX_GROUPS || o->shape_count + r->ext_count > MAX_SHAPES)
        return EA_EFULL;
    int rc = 0;
    void *p;
    if (o->group_count == o->group_capacity) {
        p = o->groups;
        rc = builder_grow(&p, &o->group_capacity, o->group_count + 1, MAX_GROUPS, sizeof *o->groups);
        o->groups = p;
    }
    if (!rc && o->shape_count + r->ext_count > o->shape_capacity) {
        p = o->shapes;
        rc = builder_grow(&p, &o->shape_capacity, o->shape_count + r->ext_count, MAX_SHAPES, sizeof *o->shapes);
        o->shapes = p;
    }
    if (rc)
        return rc;
    if (o->group_count == 0)
        o->first_position = r->position;
    ea_open_group *g = &o->groups[o->group_count];
    memset(g, 0, sizeof *g);
    for (unsigned i = 0; i < EA_KEY_WORDS; i++)
        g->key[i] = key_word(r, i);
    g->c = c;
    g->slot = slot;
    g->ext_count = r->ext_count;
    g->shapes = o->shape_count;
    g->payload_min = UINT16_MAX;
    for (unsigned i = 0; i < r->ext_count; i++) {
        const ea_ext *x = &r->ext[i];
        ea_item_shape *s = &o->shapes[o->shape_count++];
        *s = (ea_item_shape){.type = x->type, .linkage = x->linkage, .constant = (uint32_t)EA_NO_CONSTANT};
        if (!builder_is_constant(x->type))
            continue;
        s->size_bytes = x->size_bytes;
        s->constant = (uint32_t)o->content_bytes;
        if (x->size_bytes)
            memcpy(o->content + o->content_bytes, x->data, x->size_bytes);
        o->content_bytes += x->size_bytes;
    }
    o->table[slot] = (uint16_t)++o->group_count;
    return 0;
}

static inline int is_group_of(const ea_open_batch *o, const ea_open_group *g, const ea_record *r, const ea_class *c) {
    return g->c == c && same_key(g, r) && (r->ext_count == 0 || same_items(o, g, r));
}

/* Index of the record's group by its header constants, made when it is new; or an error. */
EA_APART static int search_group(ea_open_batch *o, const ea_record *r, const ea_class *c) {
    uint32_t slot = first_slot(r, c);
    unsigned k;
    while ((k = o->table[slot]) != 0 && !is_group_of(o, &o->groups[k - 1], r, c))
        slot = (slot + 1) & (TABLE_SIZE - 1);
    if (k == 0) {
        int rc = new_group(o, r, c, slot);
        if (rc)
            return rc;
        k = o->group_count;
    }
    o->latest[c->number % LATEST_SIZE] = (uint16_t)k;
    return (int)k - 1;
}

/* The same. Nearly always a record is of the group of the last one of its class, which takes no hash to find. */
static inline int builder_find_group(ea_open_batch *o, const ea_record *r, const ea_class *c) {
    unsigned k = o->latest[c->number % LATEST_SIZE];
    return k && is_group_of(o, &o->groups[k - 1], r, c) ? (int)k - 1 : search_group(o, r, c);
}

/* Bytes of content that the record's items take at most; too many when there are too many of them, or one is too large.
 */
EA_APART static uint64_t items_need(const ea_record *r) {
    uint64_t need = r->ext_count > EA_EXT_MAX ? (uint64_t)RECORD_MAX_BYTES + 1 : 0;
    for (unsigned i = 0; i < r->ext_count; i++)
        need += r->ext[i].size_bytes > UINT16_MAX ? (uint64_t)RECORD_MAX_BYTES + 1 : 4 + (uint64_t)r->ext[i].size_bytes;
    return need;
}

/* Copies the data of those items that are not constants of the group, each after its length; returns the end. */
EA_APART static uint8_t *put_items(uint8_t *at, const ea_item_shape *shapes, const ea_record *r) {
    for (unsigned i = 0; i < r->ext_count; i++) {
        if (shapes[i].constant != (uint32_t)EA_NO_CONSTANT)
            continue;
        ea_store32(at, r->ext[i].size_bytes);
        if (r->ext[i].size_bytes)
            memcpy(at + 4, r->ext[i].data, r->ext[i].size_bytes);
        at += 4 + (size_t)r->ext[i].size_bytes;
    }
    return at;
}

/* Appends the event of group g, whose items are in the content already and end at item_end. */
static inline int append_event(ea_builder *b, ea_open_batch *o, const ea_record *r, int group, size_t item_end) {
    ea_open_group *g = &o->groups[group];
    uint16_t payload_bytes = r->payload_bytes;
    uint32_t count = o->count;
    ea_event *event = &o->events[count];
    size_t items = o->content_bytes, end = item_end + payload_bytes;
    ea_copy_short(o->content + item_end, r->payload, payload_bytes);
    memcpy(event, &r->time_raw, EA_RECORD_OWN_BYTES);
    event->items = (uint32_t)items;
    event->payload = (uint32_t)item_end;
    event->group = (uint32_t)group;
    event->position = (uint32_t)r->position;
    o->content_bytes = end;
    o->count = ++count;

    g->count++;
    if (payload_bytes < g->payload_min)
        g->payload_min = payload_bytes;
    if (payload_bytes > g->payload_max)
        g->payload_max = payload_bytes;
    g->times |= r->kernel_time | r->user_time;
    g->activities |= ea_load64(r->activity_id.bytes) | ea_load64(r->activity_id.bytes + 8);
    return count == b->max_events || end >= b->max_bytes;
}

/* ea_builder_add of a record with extended items. */
EA_APART static int add_with_items(ea_builder *b, ea_open_batch *o, const ea_record *r, const ea_class *c) {
    uint64_t item_bytes = items_need(r), need = item_bytes + r->payload_bytes;
    int rc = 0;
    if (need > RECORD_MAX_BYTES)
        return EA_ELIMIT;
    if (o->item_bytes + item_bytes > EA_BATCH_MAX_RAW_BYTES) /* constants travel once, and count for each record */
        return EA_EFULL;
    if (o->content_bytes + need > (size_t)b->max_bytes + SLACK_BYTES)
        rc = make_room(o, (size_t)need);
    int group = rc ? rc : builder_find_group(o, r, c);
    if (group < 0)
        return group;
    const uint8_t *item_end = put_items(o->content + o->content_bytes, &o->shapes[o->groups[group].shapes], r);
    o->item_bytes += item_bytes;
    return append_event(b, o, r, group, (size_t)(item_end - o->content));
}

int ea_builder_add(ea_builder *b, const ea_record *r, const ea_class *c) {
    ea_open_batch *o = b->open;
    if (o->count == b->max_events || o->content_bytes >= b->max_bytes)
        return EA_EFULL;
    if (r->source >= b->source_count)
        return EA_ELIMIT;
    if (r->ext_count)
        return add_with_items(b, o, r, c);
    if (o->content_bytes + r->payload_bytes > (size_t)b->max_bytes + SLACK_BYTES) {
        int rc = make_room(o, r->payload_bytes);
        if (rc)
            return rc;
    }
    int group = builder_find_group(o, r, c);
    return group < 0 ? group : append_event(b, o, r, group, o->content_bytes);
}

/* ---- closing ---- */

ea_open_batch *ea_builder_take(ea_builder *b) {
    ea_open_batch *o = b->open;
    if (o->count == 0)
        return NULL;
    ea_mutex_lock(b->lock);
    ea_open_batch *next = b->free_list;
    if (next) {
        b->free_list = next->next;
        b->sources->users++;
        o->held = b->sources;
        o->sources = b->sources->rows;
    }
    ea_mutex_unlock(b->lock);
    if (!next)
        return NULL;
    b->open = next;
    if (b->counters) {
        ea_count(b->counters, EA_COUNT_events_batched, o->count);
        ea_count(b->counters, EA_COUNT_batches_closed, 1);
    }
    return o;
}

void ea_builder_wait(ea_builder *b) {
    ea_mutex_lock(b->lock);
    while (!b->free_list)
        ea_cond_wait(b->released, b->lock);
    ea_mutex_unlock(b->lock);
}

uint32_t ea_builder_pending(const ea_builder *b) {
    return b->open->count;
}

uint32_t ea_open_batch_events(const ea_open_batch *batch) {
    return batch->count;
}

void ea_open_batch_release(ea_open_batch *o) {
    ea_builder *b = o->builder;
    for (uint32_t k = 0; k < o->group_count; k++) {
        o->table[o->groups[k].slot] = 0;
        o->latest[o->groups[k].c->number % LATEST_SIZE] = 0;
    }
    o->count = o->group_count = o->shape_count = 0;
    o->content_bytes = 0;
    o->item_bytes = 0;
    ea_mutex_lock(b->lock);
    unref_sources(o->held);
    o->held = NULL;
    o->next = b->free_list;
    b->free_list = o;
    ea_cond_signal(b->released);
    ea_mutex_unlock(b->lock);
}
