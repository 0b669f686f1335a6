/* The registry: which class a record is of. See event.h. Input: rows, descriptions, records. Used by: service/decode,
 * proto/wire, rendering. Thread: its owner's. */
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/event/class.h"
#include "proto/event/classes/classes.h"
#include "proto/event/providers.h"
#include "proto/event/schemas.h"
#include "proto/event/tracelogging.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_LIMIT_CLASSES = 65536,
    LIMIT_BYTES = 256 << 20, /* of everything that classes take */
    SCRATCH_BYTES = 8 << 20, /* of one description while it is being checked */
    FIRST_SLOTS = 256,
    BY_BYTES = 4096, /* a power of two */
    RECENT_BITS = 8,
    RECENT = 1 << RECENT_BITS,
};

/* The key that distinguishes classes, except for metadata inside the event. */
typedef struct class_key {
    uint64_t provider[2];
    uint64_t rest; /* code, version, classic, pointer size */
} class_key;

typedef struct slot {
    class_key key;
    const ea_class *c; /* NULL: free */
} slot;

/* An event that carries metadata: all of it belongs to the key. */
typedef struct metadata_slot {
    class_key key;
    uint64_t hash;
    const uint8_t *bytes; /* the metadata's, then the traits' */
    uint32_t metadata_bytes, traits_bytes;
    const ea_class *c; /* NULL: free */
} metadata_slot;

/* The class of a record without metadata, by words of the record as they are: some of their members are no part of the
 * key, but they hardly ever differ between records of a class, and nothing has to be put together. */
enum { RECENT_WORDS = 4 }; /* provider; id to opcode; logger to header_type */

typedef struct recent {
    uint64_t words[RECENT_WORDS];
    const ea_class *c; /* NULL: free */
} recent;

/* The same of a record with metadata, of which all bytes are compared. */
typedef struct recent_metadata {
    recent head;
    const uint8_t *bytes; /* those of a metadata_slot */
    uint32_t metadata_bytes, traits_bytes;
    uint8_t has_metadata, has_traits;
} recent_metadata;

static_assert(offsetof(ea_record, opcode) < 32 && offsetof(ea_record, flags) >= 32 &&
                  offsetof(ea_record, pointer_size) < 40,
              "words 3 and 4 of a record");

struct ea_registry {
    recent recent[RECENT]; /* one class a place: the last one */
    recent_metadata recent_metadata[RECENT];
    slot *slots; /* open addressing, never more than half full */
    size_t mask, count;
    metadata_slot *metadata_slots; /* like slots */
    size_t metadata_mask, metadata_count;
    ea_bytes_map by_hash;
    /* Classes by a hash of their description, BY_BYTES places, made with the first description that comes: one that
     * comes again is found by comparing its bytes, which takes a tenth of SHA-256's time. A place has the last class
     * that was looked for there. The seed is random, so that no sender can choose descriptions of one place. */
    const ea_class **by_bytes;
    uint64_t by_bytes_seed;
    size_t limit_classes;
    ea_arena arena, scratch;
    ea_text text;
    ea_schemas *schemas; /* NULL: none */
    const ea_class *overflow;
    uint64_t overflow_count;
};

static inline uint64_t registry_key_hash(const class_key *k) {
    uint64_t h = k->provider[0] ^ (k->provider[1] * 0x9E3779B97F4A7C15u) ^ (k->rest * 0xC2B2AE3D27D4EB4Fu);
    h *= 0xFF51AFD7ED558CCDu;
    return h ^ (h >> 32);
}

/* Ends at a free slot: never more than half of them are taken. */
static inline slot *find_slot(slot *slots, size_t mask, const class_key *k) {
    for (size_t i = (size_t)registry_key_hash(k) & mask;; i = (i + 1) & mask) {
        slot *s = &slots[i];
        if (!s->c ||
            (s->key.rest == k->rest && s->key.provider[0] == k->provider[0] && s->key.provider[1] == k->provider[1]))
            return s;
    }
}

/* Room for one more class; EA_ENOMEM. */
static int registry_grow(ea_registry *r) {
    if ((r->count + 1) * 2 <= r->mask + 1)
        return 0;
    size_t mask = r->mask * 2 + 1;
    slot *slots = calloc(mask + 1, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    for (size_t i = 0; i <= r->mask; i++)
        if (r->slots[i].c)
            *find_slot(slots, mask, &r->slots[i].key) = r->slots[i];
    free(r->slots);
    r->slots = slots;
    r->mask = mask;
    EA_ASSERT((mask & (mask + 1)) == 0 && (r->count + 1) * 2 <= mask + 1);
    return 0;
}

/* The place of a description in by_bytes. NULL: there is no memory. */
static const ea_class **registry_place_of(ea_registry *r, const uint8_t *description, size_t len_bytes) {
    ea_err ignored;
    if (!r->by_bytes) {
        if (ea_random_bytes(&r->by_bytes_seed, sizeof r->by_bytes_seed, &ignored))
            return NULL;
        r->by_bytes = calloc(BY_BYTES, sizeof *r->by_bytes);
    }
    return r->by_bytes ? &r->by_bytes[ea_hash64(description, len_bytes, r->by_bytes_seed) & (BY_BYTES - 1)] : NULL;
}

/* The class of these description bytes: the existing class, or a new one. */
static int registry_class_of(ea_registry *r, const uint8_t *description, size_t len_bytes, ea_class **ret,
                             ea_err *err) {
    uint8_t hash[16];
    ea_class *c;
    int rc = ea_class_hash(description, len_bytes, hash, err);
    if (rc)
        return rc;
    ea_class *known = ea_bytes_map_get(&r->by_hash, hash, sizeof hash);
    if (known) {
        *ret = known;
        return 0;
    }
    if (r->by_hash.count >= r->limit_classes)
        return ea_fail(err, EA_ELIMIT, "add a class: %zu are known and no more are allowed", r->limit_classes);
    /* First into scratch memory: what cannot be read must not take up the registry's for good. */
    rc = ea_class_parse(&r->scratch, description, len_bytes, &c, err);
    ea_arena_reset(&r->scratch);
    if (!rc && (rc = ea_class_parse(&r->arena, description, len_bytes, &c, err)) == EA_ELIMIT)
        ea_fail(err, rc, "add a class: those that are known take %zu bytes and no more are allowed",
                r->arena.used_bytes);
    if (!rc) {
        c->family = ea_event_family_of(&c->provider, c->classic);
        c->number = (uint32_t)r->by_hash.count;
    }
    if (!rc && (rc = ea_bytes_map_put(&r->by_hash, c->hash, sizeof c->hash, c)) != 0)
        ea_fail(err, rc, "add a class");
    if (!rc)
        *ret = c;
    return rc;
}

/* A row for this record's code and version; *ret_newer when the version is newer than any row knows. */
static const ea_class_row *find_row(const ea_record *record, int classic, uint16_t code,
                                    const ea_provider_row **ret_provider, int *ret_newer) {
    const ea_class_row *newest = NULL;
    const ea_provider_row *provider = NULL;
    for (size_t i = 0; i < ea_family_count; i++) {
        const ea_family *family = ea_families[i];
        if (family->provider->classic != classic || !ea_guid_equal(&family->provider->guid, &record->provider))
            continue;
        for (size_t k = 0; k < family->row_count; k++) {
            const ea_class_row *row = &family->rows[k];
            if (row->code != code)
                continue;
            if (record->version >= row->since && record->version <= row->until) {
                *ret_provider = family->provider;
                *ret_newer = 0;
                return row;
            }
            if (row->until < record->version && (!newest || row->until > newest->until)) {
                newest = row;
                provider = family->provider;
            }
        }
    }
    /* A version between two rows is none of "newer": only above all of them the fields are known to be a prefix. */
    for (size_t i = 0; newest && i < ea_family_count; i++)
        for (size_t k = 0; k < ea_families[i]->row_count; k++)
            if (ea_families[i]->provider->classic == classic && ea_families[i]->rows[k].code == code &&
                ea_guid_equal(&ea_families[i]->provider->guid, &record->provider) &&
                ea_families[i]->rows[k].since > record->version)
                return NULL;
    *ret_provider = provider;
    *ret_newer = 1;
    return newest;
}

/* 1 when the opcode distinguishes events of this kind. 0 when the id does: events of manifests, and WPP messages, whose
 * id is the message's number and whose provider is the GUID of the source file that logs it. */
static int by_opcode(const ea_record *record) {
    return (record->flags & (EA_FLAG_CLASSIC_HEADER | EA_FLAG_TRACE_MESSAGE)) == EA_FLAG_CLASSIC_HEADER;
}

/* A payload that a plug-in has yet to unfold: of such a class the name alone holds. */
static int describe_folded(ea_registry *r, const ea_class_head *head, const ea_schema *schema) {
    ea_class *c;
    if (ea_class_parse(&r->scratch, schema->description, schema->len_bytes, &c, NULL))
        return 0;
    ea_class_head own = *head;
    own.name = c->name;
    own.provider_name = c->provider_name;
    own.status = EA_CLASS_UNKNOWN;
    ea_class_describe(&r->text, &own, NULL);
    return !r->text.failed;
}

/* The schema from outside for this record, as its class's description in r->text: 1, or 0. A newer version than any
 * that is known gets the newest one's fields. */
static int describe_from_schema(ea_registry *r, const ea_class_head *head, int exact_only) {
    enum { STATUS_AT = 2, POINTER_SIZE_AT = 4, VERSION_AT = 5 }; /* DESCRIPTIONS.md, "Layout" */

    ea_schema schema;
    int newer;
    if (!r->schemas ||
        !ea_schemas_find(r->schemas, &head->provider, head->code, head->version, head->classic, &schema, &newer))
        return 0;
    if (newer && exact_only)
        return 0;
    ea_text_clear(&r->text);
    if (ea_class_describes_decoded(schema.description))
        return describe_folded(r, head, &schema);
    ea_text_add(&r->text, schema.description, schema.len_bytes);
    if (r->text.failed)
        return 0;
    r->text.data[POINTER_SIZE_AT] = (char)head->pointer_size;
    r->text.data[VERSION_AT] = (char)head->version;
    if (newer && r->text.data[STATUS_AT] == EA_CLASS_KNOWN)
        r->text.data[STATUS_AT] = EA_CLASS_NEWER;
    return 1;
}

/* A piece of an EventSource's manifest, which every such provider writes. Source: System.Diagnostics.Tracing,
 * ManifestEnvelope. */
static const ea_class_row *manifest_piece(uint16_t code, int classic) {
    enum { MANIFEST_EVENT = 0xFFFE };

    static const ea_field_row FIELDS[] = {{.name = "Format", .type = EA_U8},
                                          {.name = "MajorVersion", .type = EA_U8},
                                          {.name = "MinorVersion", .type = EA_U8},
                                          {.name = "Magic", .type = EA_HEX8},
                                          {.name = "TotalChunks", .type = EA_U16},
                                          {.name = "ChunkNumber", .type = EA_U16},
                                          {.name = "Data", .type = EA_UTF8_FIXED, .count = EA_COUNT_REST},
                                          {.name = NULL}};
    static const ea_class_row ROW = {"ManifestData", MANIFEST_EVENT, 0, UINT8_MAX, FIELDS};
    return code == MANIFEST_EVENT && !classic ? &ROW : NULL;
}

static const char *registry_provider_name(const ea_registry *r, const ea_guid *provider) {
    const char *name = ea_registry_provider_name(r, provider);
    const ea_schema_provider *p = *name || !r->schemas ? NULL : ea_schemas_find_provider(r->schemas, provider);
    return p ? p->name : name;
}

/* What a TraceLogging event says of itself; of one that contradicts itself, what is wrong. */
static void describe_metadata(ea_registry *r, const ea_class_head *head, const ea_tracelogging *own) {
    char message[128] = "";
    if (own->wrong)
        snprintf(message, sizeof message, "not decoded: %s", own->wrong);
    const ea_class_notes notes = {.message = message, .level = "", .channel = "", .task = "", .opcode = ""};
    ea_class_describe_fields(&r->text, head, own->fields, own->field_count, &notes);
}

/* Makes the class of a record that no cache knows. Schemas are asked in this order: what the event itself carries; rows
 * of its version; schemas from outside (the trace's own before those of files); the newest row of an older version.
 * Without any, the name that the event itself carries is all. */
static int registry_resolve(ea_registry *r, const ea_record *record, const class_key *key, const ea_ext *metadata,
                            const ea_ext *traits, ea_class **ret) {
    ea_class_head head = {.provider = record->provider,
                          .name = "",
                          .provider_name = registry_provider_name(r, &record->provider),
                          .code = (uint16_t)key->rest,
                          .version = record->version,
                          .classic = (uint8_t)by_opcode(record),
                          .pointer_size = record->pointer_size == 4 ? 4 : 8,
                          .status = EA_CLASS_UNKNOWN};
    const ea_provider_row *provider;
    ea_tracelogging own = {.name = ""};
    int newer = 0, described = 0, rc = 0;
    const ea_class_row *row = metadata ? NULL : find_row(record, head.classic, head.code, &provider, &newer);
    if (!row && !metadata && !(record->flags & EA_FLAG_TRACE_MESSAGE) &&
        (row = manifest_piece(head.code, head.classic)) != NULL) {
        head.name = row->name;
        head.status = EA_CLASS_KNOWN;
    } else if (row) {
        head.name = row->name;
        head.provider_name = provider->name;
        head.kind = provider->kind;
        head.status = !row->fields ? EA_CLASS_UNKNOWN : newer ? EA_CLASS_NEWER : EA_CLASS_KNOWN;
    }
    if (metadata)
        rc = ea_tracelogging_read(&r->scratch, metadata->data, metadata->size_bytes, &own);
    else if (head.status != EA_CLASS_KNOWN)
        described = describe_from_schema(r, &head, row != NULL);
    char message_name[16];
    if (record->flags & EA_FLAG_TRACE_MESSAGE && !described) {
        snprintf(message_name, sizeof message_name, "WPP/%u", (unsigned)record->id);
        head.name = message_name;
    }
    if (traits && (metadata || !*head.provider_name)) { /* V8.js has the GUID of Microsoft-JScript */
        size_t len;
        const char *s = ea_traits_name(traits->data, traits->size_bytes, &len);
        if (len)
            head.provider_name = ea_arena_strdup(&r->scratch, s);
    }
    if (metadata && !rc) {
        head.name = own.name;
        head.status = own.wrong ? EA_CLASS_UNKNOWN : EA_CLASS_KNOWN;
    }
    if (!head.provider_name)
        rc = EA_ENOMEM;
    if (!described && !rc) {
        ea_text_clear(&r->text);
        if (metadata)
            describe_metadata(r, &head, &own);
        else
            ea_class_describe(&r->text, &head, row);
    }
    ea_arena_reset(&r->scratch);
    if (!rc && r->text.failed)
        rc = EA_ENOMEM;
    return rc ? rc : registry_class_of(r, (const uint8_t *)r->text.data, r->text.len_bytes, ret, NULL);
}

static const ea_class *overflowed(ea_registry *r) {
    r->overflow_count++;
    return r->overflow;
}

static metadata_slot *find_metadata_slot(const ea_registry *r, const class_key *key, uint64_t hash,
                                         const ea_ext *metadata, const ea_ext *traits) {
    for (size_t i = (size_t)hash & r->metadata_mask;; i = (i + 1) & r->metadata_mask) {
        metadata_slot *s = &r->metadata_slots[i];
        if (!s->c)
            return s;
        if (s->hash == hash && memcmp(&s->key, key, sizeof *key) == 0 &&
            (!metadata || (s->metadata_bytes == metadata->size_bytes &&
                           memcmp(s->bytes, metadata->data, metadata->size_bytes) == 0)) &&
            (!traits || (s->traits_bytes == traits->size_bytes &&
                         memcmp(s->bytes + s->metadata_bytes, traits->data, traits->size_bytes) == 0)))
            return s;
    }
}

static inline class_key registry_key_of(const ea_record *record) {
    int classic = by_opcode(record);
    return (class_key){.provider = {ea_load64(record->provider.bytes), ea_load64(record->provider.bytes + 8)},
                       .rest = (uint64_t)(classic ? record->opcode : record->id) | (uint64_t)record->version << 16 |
                               (uint64_t)classic << 24 | (uint64_t)(record->pointer_size == 4) << 25};
}

/* Room for one more; EA_ENOMEM. */
static int grow_metadata(ea_registry *r) {
    if ((r->metadata_count + 1) * 2 <= r->metadata_mask + 1)
        return 0;
    size_t mask = r->metadata_mask * 2 + 1;
    metadata_slot *slots = calloc(mask + 1, sizeof *slots);
    if (!slots)
        return EA_ENOMEM;
    for (size_t i = 0; i <= r->metadata_mask; i++) {
        size_t at = (size_t)r->metadata_slots[i].hash & mask;
        while (r->metadata_slots[i].c && slots[at].c)
            at = (at + 1) & mask;
        if (r->metadata_slots[i].c)
            slots[at] = r->metadata_slots[i];
    }
    free(r->metadata_slots);
    r->metadata_slots = slots;
    r->metadata_mask = mask;
    return 0;
}

static EA_RARE const ea_class *learn_metadata(ea_registry *r, const ea_record *record, const class_key *key,
                                              uint64_t hash, const ea_ext *metadata, const ea_ext *traits) {
    ea_class *c = NULL;
    metadata_slot own = {.key = *key,
                         .hash = hash,
                         .metadata_bytes = metadata ? metadata->size_bytes : 0,
                         .traits_bytes = traits ? traits->size_bytes : 0};
    if (r->metadata_count >= r->limit_classes || grow_metadata(r) ||
        registry_resolve(r, record, key, metadata, traits, &c))
        return overflowed(r);
    uint8_t *bytes = ea_arena_alloc(&r->arena, (size_t)own.metadata_bytes + own.traits_bytes);
    if (!bytes)
        return overflowed(r);
    if (own.metadata_bytes)
        memcpy(bytes, metadata->data, own.metadata_bytes);
    if (own.traits_bytes)
        memcpy(bytes + own.metadata_bytes, traits->data, own.traits_bytes);
    own.bytes = bytes;
    own.c = c;
    *find_metadata_slot(r, key, hash, metadata, traits) = own;
    r->metadata_count++;
    return c;
}

/* Of a record with metadata that is not in its place of the recent ones. */
EA_APART static const ea_class *search_metadata(ea_registry *r, const ea_record *record, const ea_ext *metadata,
                                                const ea_ext *traits, recent_metadata *place, const recent *head) {
    class_key key = registry_key_of(record);
    key.rest |= (uint64_t)(metadata != NULL) << 26 | (uint64_t)(traits != NULL) << 27;
    uint64_t hash = registry_key_hash(&key);
    if (metadata)
        hash = ea_hash64(metadata->data, metadata->size_bytes, hash);
    if (traits)
        hash = ea_hash64(traits->data, traits->size_bytes, hash);
    const metadata_slot *s = find_metadata_slot(r, &key, hash, metadata, traits);
    if (!s->c)
        return learn_metadata(r, record, &key, hash, metadata, traits);
    *place = (recent_metadata){.head = *head,
                               .bytes = s->bytes,
                               .metadata_bytes = s->metadata_bytes,
                               .traits_bytes = s->traits_bytes,
                               .has_metadata = metadata != NULL,
                               .has_traits = traits != NULL};
    place->head.c = s->c;
    return s->c;
}

static inline recent recent_of(const ea_record *record) {
    const uint8_t *p = (const uint8_t *)record;
    return (recent){.words = {ea_load64(p), ea_load64(p + 8), ea_load64(p + 24), ea_load64(p + 32)}};
}

static inline int same_words(const recent *a, const recent *b) {
    uint64_t differs = 0;
    for (size_t i = 0; i < RECENT_WORDS; i++)
        differs |= a->words[i] ^ b->words[i];
    return differs == 0;
}

static inline size_t recent_place(uint64_t mixed) {
    return (size_t)(mixed * 0x9E3779B97F4A7C15u >> (64 - RECENT_BITS));
}

/* Some bytes of an item, to choose a place by; the name of an event is in the first ones. */
static inline uint64_t some_bytes(const ea_ext *x) {
    enum { LEAST = 16 };

    return x && x->size_bytes >= LEAST
               ? x->size_bytes + ea_load64(x->data) * 0xC2B2AE3D27D4EB4Fu + ea_load64(x->data + 8)
               : 0;
}

static inline int same_item(const ea_ext *x, int has, const uint8_t *bytes, uint32_t size_bytes) {
    return x ? has && x->size_bytes == size_bytes && memcmp(bytes, x->data, size_bytes) == 0 : !has;
}

EA_APART static const ea_class *find_metadata(ea_registry *r, const ea_record *record, const ea_ext *metadata,
                                              const ea_ext *traits) {
    recent head = recent_of(record);
    recent_metadata *m = &r->recent_metadata[recent_place(head.words[0] ^ head.words[2] ^ some_bytes(metadata))];
    if (m->head.c && same_words(&m->head, &head) && same_item(metadata, m->has_metadata, m->bytes, m->metadata_bytes) &&
        same_item(traits, m->has_traits, m->bytes + m->metadata_bytes, m->traits_bytes))
        return m->head.c;
    return search_metadata(r, record, metadata, traits, m, &head);
}

/* The first of its class. */
EA_RARE static const ea_class *learn(ea_registry *r, const ea_record *record) {
    class_key key = registry_key_of(record);
    ea_class *c;
    if (r->count >= r->limit_classes || registry_grow(r) || registry_resolve(r, record, &key, NULL, NULL, &c))
        return overflowed(r);
    slot *s = find_slot(r->slots, r->mask, &key);
    s->key = key;
    s->c = c;
    r->count++;
    return c;
}

/* Of a record without metadata that is not in its place of the recent ones. */
EA_APART static const ea_class *registry_search(ea_registry *r, const ea_record *record, recent *place) {
    class_key key = registry_key_of(record);
    const slot *s = find_slot(r->slots, r->mask, &key);
    if (!s->c)
        return learn(r, record);
    *place = recent_of(record);
    place->c = s->c;
    return s->c;
}

const ea_class *ea_registry_find(ea_registry *r, const ea_record *record) {
    const ea_ext *metadata = NULL, *traits = NULL;
    for (size_t i = record->ext_count; i-- > 0;) { /* the first of each type */
        const ea_ext *x = &record->ext[i];
        metadata = x->type == EA_EXT_SCHEMA_TL ? x : metadata;
        traits = x->type == EA_EXT_PROV_TRAITS ? x : traits;
    }
    if (metadata || traits)
        return find_metadata(r, record, metadata, traits);
    recent head = recent_of(record), *place = &r->recent[recent_place(head.words[0] ^ head.words[2])];
    return place->c && same_words(place, &head) ? place->c : registry_search(r, record, place);
}

void ea_registry_limit_bytes(ea_registry *r, size_t limit_bytes) {
    r->arena.limit_bytes = limit_bytes;
}

int ea_registry_add_description(ea_registry *r, const uint8_t *description, size_t len_bytes, const ea_class **ret,
                                ea_err *err) {
    const ea_class **place = registry_place_of(r, description, len_bytes);
    if (place && *place && (*place)->description_bytes == len_bytes &&
        memcmp((*place)->description, description, len_bytes) == 0) {
        *ret = *place;
        return 0;
    }
    ea_class *c;
    int rc = registry_class_of(r, description, len_bytes, &c, err);
    if (rc)
        return rc;
    if (place)
        *place = c;
    *ret = c;
    return 0;
}

const ea_class *ea_registry_find_hash(const ea_registry *r, const uint8_t *hash) {
    return ea_bytes_map_get(&r->by_hash, hash, 16);
}

uint64_t ea_registry_overflow_count(const ea_registry *r) {
    return r->overflow_count;
}

const char *ea_registry_provider_name(const ea_registry *r, const ea_guid *provider) {
    (void)r; /* names found in traces belong to their classes; this knows what everybody knows */
    for (size_t i = 0; i < ea_family_count; i++)
        if (ea_guid_equal(&ea_families[i]->provider->guid, provider))
            return ea_families[i]->provider->name;
    return ea_well_known_provider(provider);
}

void ea_registry_set_schemas(ea_registry *r, ea_schemas *schemas) {
    r->schemas = schemas;
    ea_registry_schemas_changed(r);
}

void ea_registry_schemas_changed(ea_registry *r) {
    memset(r->recent, 0, sizeof r->recent);
    memset(r->recent_metadata, 0, sizeof r->recent_metadata);
    memset(r->slots, 0, (r->mask + 1) * sizeof *r->slots);
    r->count = 0;
    memset(r->metadata_slots, 0,
           (r->metadata_mask + 1) * sizeof *r->metadata_slots); /* a provider's name may be known now */
    r->metadata_count = 0;
}

int ea_registry_create(ea_registry **ret, size_t limit_classes, ea_err *err) {
    ea_registry *r = calloc(1, sizeof *r);
    if (!r)
        return ea_fail(err, EA_ENOMEM, "create the class registry");
    r->limit_classes = limit_classes ? limit_classes : DEFAULT_LIMIT_CLASSES;
    r->mask = FIRST_SLOTS - 1;
    r->slots = calloc(FIRST_SLOTS, sizeof *r->slots);
    r->metadata_mask = FIRST_SLOTS - 1;
    r->metadata_slots = calloc(FIRST_SLOTS, sizeof *r->metadata_slots);
    ea_bytes_map_init(&r->by_hash, 0);
    ea_arena_init(&r->arena, LIMIT_BYTES);
    ea_arena_init(&r->scratch, SCRATCH_BYTES);
    ea_text_init(&r->text);
    ea_class *overflow;
    ea_class_head head = {.name = "", .provider_name = "", .pointer_size = 8, .status = EA_CLASS_UNKNOWN};
    ea_class_describe(&r->text, &head, NULL);
    int rc =
        r->slots && r->metadata_slots && !r->text.failed ? 0 : ea_fail(err, EA_ENOMEM, "create the class registry");
    if (!rc)
        rc = ea_class_parse(&r->arena, (const uint8_t *)r->text.data, r->text.len_bytes, &overflow, err);
    if (!rc && (rc = ea_bytes_map_put(&r->by_hash, overflow->hash, sizeof overflow->hash, overflow)) != 0)
        ea_fail(err, rc, "create the class registry");
    if (rc) {
        ea_registry_destroy(r);
        return rc;
    }
    r->overflow = overflow;
    *ret = r;
    return 0;
}

void ea_registry_destroy(ea_registry *r) {
    if (!r)
        return;
    free(r->slots);
    free(r->metadata_slots);
    ea_bytes_map_deinit(&r->by_hash);
    free(r->by_bytes);
    ea_arena_deinit(&r->arena);
    ea_arena_deinit(&r->scratch);
    ea_text_deinit(&r->text);
    free(r);
}
