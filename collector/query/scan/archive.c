/* See archive.h. */
#include "collector/query/scan/archive.h"

#include "collector/query/scan/table_schema.h"
#include "collector/state/object_names_db.h"
#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/event/class_names.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { CLASSES_MAX = 1 << 20 };

struct ec_archive {
    ec_store *store;
    char *host;        /* whose streams; NULL: all */
    const char *shown; /* patterns of hosts that may be seen; NULL: all */
    ea_registry *registry;
    ea_arena arena;
    int has_streams; /* they were asked for, and are here */
    ec_archive_stream *streams;
    size_t stream_count, stream_capacity;
    int has_classes; /* likewise */
    const ea_class **classes;
    size_t class_count, class_capacity;
    ec_class_set *sets;
    size_t set_count, set_capacity;
    size_t *set_capacities;
    ea_bytes_map shown_classes; /* hash -> itself: those of the streams; only with `shown` */
    ea_bytes_map by_name;       /* name in lower case -> index of its set + 1 */
    ea_bytes_map by_alias;      /* alias, or name of a part, in lower case -> its set, once it was asked for */
    ea_bytes_map parts;         /* name of a set in lower case -> archive_parts */
    int has_class_hosts;        /* they were asked for, and are here */
    ea_u64_map class_hosts;     /* address of a class -> how many hosts have sent it */
    ea_u64_map ordinals;        /* place in the store -> ec_archive_ordinal */
    int (*keep_going)(void *arg);
    void *arg;
    ec_state_db *tables;        /* opened when names are first asked for */
    ec_object_names_db *naming; /* of one stream */
    uint64_t naming_stream;     /* its number in the store; 0: none was asked for */
    ea_u64_map damaged;         /* hashes of stream and number */
    ec_reads reads;
    char first_damage[640];
};

static char *archive_lower_case(ea_arena *arena, const char *s) {
    char *out = ea_arena_strdup(arena, s);
    if (out)
        ea_name_to_lower(out);
    return out;
}

typedef struct adding {
    ec_archive *a;
    ea_err *err;
    int rc;
} adding;

static int archive_add_stream(const ec_index_query_row *row, void *arg) {
    adding *d = arg;
    ec_archive *a = d->a;
    if (a->shown && !ea_name_in(a->shown, row->host))
        return 0;
    if (EA_GROW(a->streams, a->stream_capacity, a->stream_count + 1, SIZE_MAX)) {
        d->rc = ea_fail(d->err, EA_ENOMEM, "list the streams");
        return 1;
    }
    ec_archive_stream *s = &a->streams[a->stream_count++];
    s->row = *row;
    s->row.host = ea_arena_strdup(&a->arena, row->host);
    if (!s->row.host) {
        d->rc = ea_fail(d->err, EA_ENOMEM, "list the streams");
        return 1;
    }
    for (size_t i = 0; i < sizeof row->stream; i++) {
        s->id[2 * i] = "0123456789abcdef"[row->stream[i] >> 4];
        s->id[2 * i + 1] = "0123456789abcdef"[row->stream[i] & 15];
    }
    s->id[sizeof s->id - 1] = 0;
    return 0;
}

/* The index of the set of a name, which is made when it is new: 0 or EA_ENOMEM. */
static int set_of(ec_archive *a, const char *name, size_t *ret) {
    char *key = archive_lower_case(&a->arena, name);
    if (!key)
        return EA_ENOMEM;
    const void *known = ea_bytes_map_get(&a->by_name, key, strlen(key));
    if (known) {
        *ret = (size_t)(uintptr_t)known - 1;
        return 0;
    }
    size_t capacity = a->set_capacity;
    if (EA_GROW(a->sets, capacity, a->set_count + 1, SIZE_MAX) ||
        EA_GROW(a->set_capacities, a->set_capacity, a->set_count + 1, SIZE_MAX))
        return EA_ENOMEM;
    if (ea_bytes_map_put(&a->by_name, key, strlen(key), (void *)(uintptr_t)(a->set_count + 1)))
        return EA_ENOMEM;
    a->sets[a->set_count] = (ec_class_set){.name = name, .number = a->set_count};
    a->set_capacities[a->set_count] = 0;
    *ret = a->set_count++;
    return 0;
}

static int archive_add_class(const ea_class *c, void *arg) {
    adding *d = arg;
    ec_archive *a = d->a;
    size_t k = 0;
    if (a->shown && !ea_bytes_map_get(&a->shown_classes, c->hash, sizeof c->hash))
        return 0;
    int rc = EA_GROW(a->classes, a->class_capacity, a->class_count + 1, SIZE_MAX);
    if (!rc)
        a->classes[a->class_count++] = c;
    if (!rc && *c->name) {
        rc = set_of(a, c->name, &k);
        if (!rc) {
            ec_class_set *s = &a->sets[k];
            rc = EA_GROW(s->classes, a->set_capacities[k], s->count + 1, SIZE_MAX);
            if (!rc)
                s->classes[s->count++] = c;
        }
    }
    return rc ? ea_fail(d->err, EA_ENOMEM, "list the classes") : 0;
}

/* Which classes the streams that may be seen have sent. */
static int mark_shown(ec_archive *a, ea_err *err) {
    sqlite3 *db = ec_store_database(a->store);
    sqlite3_stmt *st = NULL;
    const ec_archive_stream *streams = NULL;
    size_t count = 0;
    int rc = ec_archive_streams(a, &streams, &count, err), code = SQLITE_DONE;
    if (!rc && sqlite3_prepare_v2(db,
                                  "SELECT c.hash FROM stream_classes s JOIN classes c ON c.class_id = s.class_id"
                                  " WHERE s.stream_id = ?1",
                                  -1, &st, NULL) != SQLITE_OK)
        rc = ea_fail(err, EA_EDATABASE, "list the classes: %s", sqlite3_errmsg(db));
    for (size_t i = 0; !rc && i < count; i++) {
        sqlite3_bind_int64(st, 1, (sqlite3_int64)streams[i].row.stream_id);
        while (!rc && (code = sqlite3_step(st)) == SQLITE_ROW) {
            const void *hash = sqlite3_column_blob(st, 0);
            size_t n = (size_t)sqlite3_column_bytes(st, 0);
            if (!hash || ea_bytes_map_get(&a->shown_classes, hash, n))
                continue;
            void *own = ea_arena_copy(&a->arena, hash, n);
            if (!own || ea_bytes_map_put(&a->shown_classes, own, n, own))
                rc = ea_fail(err, EA_ENOMEM, "list the classes");
        }
        if (!rc && code != SQLITE_DONE)
            rc = ea_fail(err, EA_EDATABASE, "list the classes: %s", sqlite3_errmsg(db));
        sqlite3_reset(st);
    }
    sqlite3_finalize(st);
    return rc;
}

int ec_archive_open(ec_archive **ret, const char *dir, const char *host, const char *shown, ea_err *err) {
    ec_archive *a = calloc(1, sizeof *a);
    if (!a)
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    ea_arena_init(&a->arena, 0);
    ea_bytes_map_init(&a->by_name, 0);
    ea_bytes_map_init(&a->by_alias, 0);
    ea_bytes_map_init(&a->parts, 0);
    ea_bytes_map_init(&a->shown_classes, 0);
    a->shown = shown;
    ea_u64_map_init(&a->ordinals, 0);
    ea_u64_map_init(&a->class_hosts, 0);
    ea_u64_map_init(&a->damaged, 0);
    int rc = host && !(a->host = strdup(host)) ? ea_fail(err, EA_ENOMEM, "open %s", dir) : 0;
    if (!rc)
        rc = ec_store_open(&a->store, dir, &(ec_store_options){0}, err);
    /* from here on this connection sees one state of the index */
    if (!rc && sqlite3_exec(ec_store_database(a->store), "BEGIN", NULL, NULL, NULL) != SQLITE_OK)
        rc = ea_fail(err, EA_EDATABASE, "read %s/index.db: %s", dir, sqlite3_errmsg(ec_store_database(a->store)));
    if (!rc)
        rc = ea_registry_create(&a->registry, CLASSES_MAX, err);
    if (rc) {
        ec_archive_close(a);
        return rc;
    }
    *ret = a;
    return 0;
}

void ec_archive_close(ec_archive *a) {
    if (!a)
        return;
    if (a->store)
        sqlite3_exec(ec_store_database(a->store), "COMMIT", NULL, NULL, NULL);
    ea_registry_destroy(a->registry);
    ec_store_close(a->store);
    for (size_t i = 0; i < a->set_count; i++)
        free(a->sets[i].classes);
    free(a->sets);
    free(a->set_capacities);
    free(a->classes);
    free(a->streams);
    free(a->host);
    ea_bytes_map_deinit(&a->by_name);
    ea_bytes_map_deinit(&a->by_alias);
    ea_bytes_map_deinit(&a->parts);
    ea_bytes_map_deinit(&a->shown_classes);
    ea_u64_map_deinit(&a->ordinals);
    ea_u64_map_deinit(&a->class_hosts);
    ea_u64_map_deinit(&a->damaged);
    ec_object_names_db_close(a->naming);
    ec_state_db_close(a->tables);
    ea_arena_deinit(&a->arena);
    free(a);
}

ec_store *ec_archive_store(ec_archive *a) {
    return a->store;
}

ea_registry *ec_archive_registry(ec_archive *a) {
    return a->registry;
}

int ec_archive_streams(ec_archive *a, const ec_archive_stream **ret, size_t *ret_count, ea_err *err) {
    if (!a->has_streams) {
        adding d = {.a = a, .err = err};
        a->stream_count = 0;
        int rc = ec_index_query_streams(a->store, a->host, archive_add_stream, &d, err);
        if (rc || d.rc)
            return rc ? rc : d.rc;
        a->has_streams = 1;
    }
    *ret = a->streams;
    *ret_count = a->stream_count;
    return 0;
}

int ec_unknown_host(const char *host, ea_err *err) {
    return ea_fail(err, EA_ENOTFOUND,
                   "nothing is stored of host %.200s: expected a name that 'etwcollector hosts' or /api/v1/hosts lists",
                   host);
}

static int fail_unknown_host(const char *host, const ec_archive_stream *streams, size_t count, ea_err *err) {
    ea_near near = {0};
    int rc = ec_unknown_host(host, err);
    size_t n = strlen(err->message);
    for (size_t i = 0; i < count; i++)
        ea_near_note(&near, host, streams[i].row.host);
    if (*near.name)
        snprintf(err->message + n, sizeof err->message - n, "; did you mean '%s'?", near.name);
    return rc;
}

int ec_archive_has_hosts(ec_archive *a, const char *const *hosts, size_t host_count, ea_err *err) {
    const ec_archive_stream *streams = NULL;
    size_t count = 0;
    int rc = ec_archive_streams(a, &streams, &count, err);
    for (size_t i = 0; !rc && i < host_count; i++) {
        size_t k = 0;
        while (k < count && strcmp(streams[k].row.host, hosts[i]) != 0)
            k++;
        if (k == count)
            rc = fail_unknown_host(hosts[i], streams, count, err);
    }
    return rc;
}

static int load_classes(ec_archive *a, ea_err *err) {
    adding d = {.a = a, .err = err};
    if (a->has_classes)
        return 0;
    int rc = a->shown ? mark_shown(a, err) : 0;
    if (!rc)
        rc = ec_index_query_classes(a->store, a->registry, archive_add_class, &d, err);
    a->has_classes = !rc;
    return rc;
}

int ec_archive_classes(ec_archive *a, const ea_class *const **ret, size_t *ret_count, ea_err *err) {
    int rc = load_classes(a, err);
    if (rc)
        return rc;
    *ret = a->classes;
    *ret_count = a->class_count;
    return 0;
}

static int is_alias_of(const char *name, const ea_class *c) {
    return ea_event_has_alias(name, strlen(name), &c->provider, c->provider_name, c->classic, c->code);
}

static int is_alias_name(const char *name) {
    size_t n = strlen(name);
    return n && strchr(name, '/') && strchr("0123456789*", name[n - 1]);
}

/* The set of the classes whose provider and id are the name, and of those that are called so: an event may be called
 * what another provider's is by its id, and must not hide it. *ret stays NULL when no provider and id are the name. It
 * does not move: tables point to it. key: the name in lower case. */
static int alias_set(ec_archive *a, const char *name, const char *key, const ec_class_set *called,
                     const ec_class_set **ret) {
    size_t n = strlen(name), count = 0;
    *ret = is_alias_name(name) ? ea_bytes_map_get(&a->by_alias, key, n) : NULL;
    for (size_t i = 0; is_alias_name(name) && !*ret && i < a->class_count; i++)
        count += (size_t)is_alias_of(name, a->classes[i]);
    if (*ret || !count)
        return 0;
    count += called ? called->count : 0;
    ec_class_set *set = ea_arena_alloc(&a->arena, sizeof *set);
    const char *copy = ea_arena_strdup(&a->arena, name), *own_key = ea_arena_strdup(&a->arena, key);
    const ea_class **classes = ea_arena_alloc(&a->arena, count * sizeof *classes);
    if (!set || !copy || !own_key || !classes)
        return EA_ENOMEM;
    *set = (ec_class_set){.name = copy, .classes = classes, .number = a->set_count + a->by_alias.count};
    for (size_t i = 0; i < a->class_count; i++)
        if (is_alias_of(name, a->classes[i]) || (called && strcasecmp(name, a->classes[i]->name) == 0))
            classes[set->count++] = a->classes[i];
    if (ea_bytes_map_put(&a->by_alias, own_key, n, set))
        return EA_ENOMEM;
    *ret = set;
    return 0;
}

/* ---- parts of a set ---- */

enum { PART_NAME_BYTES = 17 /* of a tab and a hash */ };

typedef struct archive_parts {
    const ec_class_set **sets;
    size_t count, left_out;
} archive_parts;

typedef struct archive_part {
    const ea_class *first; /* all of a part have the same columns */
    uint64_t hash, hosts;
} archive_part;

/* How many hosts have sent each class, of all at once: a query for one would read as much. */
static int load_class_hosts(ec_archive *a, ea_err *err) {
    static const char SQL[] =
        "SELECT c.hash, count(DISTINCT t.agent) FROM stream_classes s JOIN streams t ON t.stream_id = s.stream_id"
        " JOIN classes c ON c.class_id = s.class_id GROUP BY s.class_id";
    sqlite3 *db = ec_store_database(a->store);
    sqlite3_stmt *st = NULL;
    if (a->has_class_hosts)
        return 0;
    int rc = 0, code = sqlite3_prepare_v2(db, SQL, -1, &st, NULL);
    while (!rc && st && (code = sqlite3_step(st)) == SQLITE_ROW) {
        const void *hash = sqlite3_column_blob(st, 0);
        const ea_class *c = hash && sqlite3_column_bytes(st, 0) == EA_CLASS_HASH_BYTES
                                ? ea_registry_find_hash(a->registry, hash)
                                : NULL;
        if (c && ea_u64_map_put(&a->class_hosts, (uint64_t)(uintptr_t)c, (uint64_t)sqlite3_column_int64(st, 1)))
            rc = ea_fail(err, EA_ENOMEM, "list the classes");
    }
    if (!rc && code != SQLITE_DONE)
        rc = ea_fail(err, EA_EDATABASE, "list the classes: %s", sqlite3_errmsg(db));
    sqlite3_finalize(st);
    a->has_class_hosts = !rc;
    return rc;
}

static int by_hosts(const void *x, const void *y) {
    const archive_part *p = x, *q = y;
    return p->hosts != q->hosts ? (p->hosts < q->hosts ? 1 : -1) : (p->hash > q->hash) - (p->hash < q->hash);
}

/* Puts the parts that most hosts have sent first. hashes: of the set's classes. known: hash -> part. */
static int sort_parts(ec_archive *a, const ec_class_set *set, const uint64_t *hashes, const ea_u64_map *known,
                      archive_part *parts, ea_err *err) {
    int rc = load_class_hosts(a, err);
    for (size_t k = 0; k < set->count && !rc; k++) {
        const uint64_t *hosts = ea_u64_map_get(&a->class_hosts, (uint64_t)(uintptr_t)set->classes[k]);
        const uint64_t *part = ea_u64_map_get(known, hashes[k]);
        if (hosts && part)
            parts[*part].hosts += *hosts;
    }
    if (!rc)
        qsort(parts, known->count, sizeof *parts, by_hosts);
    return rc;
}

/* The set of a part. others: a class of each part. */
static ec_class_set *part_set(ec_archive *a, const ec_class_set *set, const uint64_t *hashes, const archive_part *part,
                              const ea_class *const *others, size_t other_count) {
    char name[320];
    size_t count = 0;
    for (size_t k = 0; k < set->count; k++)
        count += hashes[k] == part->hash;
    snprintf(name, sizeof name, "%s\t%016" PRIx64, set->name, part->hash);
    ec_class_set *own = ea_arena_zalloc(&a->arena, 1, sizeof *own);
    const ea_class **classes = ea_arena_alloc(&a->arena, count * sizeof *classes);
    const char *copy = ea_arena_strdup(&a->arena, name), *key = archive_lower_case(&a->arena, name);
    if (!own || !classes || !copy || !key)
        return NULL;
    *own = (ec_class_set){.name = copy,
                          .classes = classes,
                          .number = a->set_count + a->by_alias.count,
                          .others = others,
                          .other_count = other_count};
    for (size_t k = 0; k < set->count; k++)
        if (hashes[k] == part->hash)
            classes[own->count++] = set->classes[k];
    return ea_bytes_map_put(&a->by_alias, key, strlen(key), own) ? NULL : own;
}

/* The sets of the first parts, as many as are given. */
static int make_part_sets(ec_archive *a, const ec_class_set *set, const uint64_t *hashes, const archive_part *parts,
                          size_t part_count, archive_parts *ret, ea_err *err) {
    size_t count = part_count < EC_CLASS_PARTS_MAX ? part_count : EC_CLASS_PARTS_MAX;
    const ea_class **others = ea_arena_alloc(&a->arena, count * sizeof *others);
    const ec_class_set **sets = ea_arena_alloc(&a->arena, count * sizeof *sets);
    if (!others || !sets)
        return ea_fail(err, EA_ENOMEM, "list the classes");
    for (size_t i = 0; i < count; i++)
        others[i] = parts[i].first;
    for (size_t i = 0; i < count; i++)
        if (!(sets[i] = part_set(a, set, hashes, &parts[i], others, count)))
            return ea_fail(err, EA_ENOMEM, "list the classes");
    *ret = (archive_parts){.sets = sets, .count = count, .left_out = part_count - count};
    return 0;
}

/* Makes the parts of a set that does not agree. An agent can make thousands of classes of one name: what is done for
 * each is little. */
static int split_set(ec_archive *a, const ec_class_set *set, archive_parts *ret, ea_err *err) {
    ea_u64_map known;
    archive_part *parts = calloc(set->count + 1, sizeof *parts);
    uint64_t *hashes = calloc(set->count + 1, sizeof *hashes);
    int rc = 0;
    if (!parts || !hashes) {
        free(parts);
        free(hashes);
        return ea_fail(err, EA_ENOMEM, "list the classes");
    }
    ea_u64_map_init(&known, 0);
    for (size_t k = 0; k < set->count && !rc; k++) {
        rc = ec_table_schema_hash(set->classes[k], &hashes[k], err);
        if (rc || ea_u64_map_get(&known, hashes[k]))
            continue;
        parts[known.count] = (archive_part){.first = set->classes[k], .hash = hashes[k]};
        if (ea_u64_map_put(&known, hashes[k], known.count))
            rc = ea_fail(err, EA_ENOMEM, "list the classes");
    }
    if (!rc && known.count > EC_CLASS_PARTS_MAX)
        rc = sort_parts(a, set, hashes, &known, parts, err);
    if (!rc)
        rc = make_part_sets(a, set, hashes, parts, known.count, ret, err);
    ea_u64_map_deinit(&known);
    free(hashes);
    free(parts);
    return rc;
}

int ec_archive_parts(ec_archive *a, const ec_class_set *set, const ec_class_set *const **ret, size_t *ret_count,
                     size_t *ret_left_out, ea_err *err) {
    char *key = archive_lower_case(&a->arena, set->name);
    archive_parts *p = key ? ea_bytes_map_get(&a->parts, key, strlen(key)) : NULL;
    int rc = key ? 0 : ea_fail(err, EA_ENOMEM, "list the classes");
    if (!rc && !p) {
        int agrees = ec_table_schema_agrees(set, err);
        p = ea_arena_zalloc(&a->arena, 1, sizeof *p);
        const ec_class_set **one = ea_arena_alloc(&a->arena, sizeof *one);
        rc = agrees < 0 ? agrees : p && one ? 0 : ea_fail(err, EA_ENOMEM, "list the classes");
        if (!rc && agrees) {
            *one = set;
            *p = (archive_parts){.sets = one, .count = 1};
        } else if (!rc) {
            rc = split_set(a, set, p, err);
        }
        if (!rc && ea_bytes_map_put(&a->parts, key, strlen(key), p))
            rc = ea_fail(err, EA_ENOMEM, "list the classes");
    }
    if (rc)
        return rc;
    *ret = p->sets;
    *ret_count = p->count;
    *ret_left_out = p->left_out;
    return 0;
}

/* The part of that name, once its set was split; *ret is NULL when there is none. */
static int archive_find_part(ec_archive *a, const char *name, const ec_class_set **ret, ea_err *err) {
    size_t len = strlen(name), count = 0, left_out = 0;
    const ec_class_set *const *parts = NULL, *set = NULL;
    *ret = NULL;
    if (len <= PART_NAME_BYTES || name[len - PART_NAME_BYTES] != '\t')
        return 0;
    ea_arena scratch;
    ea_arena_init(&scratch, 0);
    char *key = archive_lower_case(&scratch, name);
    int rc = key ? 0 : ea_fail(err, EA_ENOMEM, "find a class");
    if (key) {
        key[len - PART_NAME_BYTES] = 0;
        rc = ec_archive_set(a, key, &set, err);
        key[len - PART_NAME_BYTES] = '\t';
    }
    if (!rc && set)
        rc = ec_archive_parts(a, set, &parts, &count, &left_out, err);
    if (!rc && set)
        *ret = ea_bytes_map_get(&a->by_alias, key, len);
    ea_arena_deinit(&scratch);
    return rc;
}

int ec_archive_set(ec_archive *a, const char *name, const ec_class_set **ret, ea_err *err) {
    int rc = load_classes(a, err);
    if (!rc)
        rc = archive_find_part(a, name, ret, err);
    if (rc || *ret)
        return rc;
    ea_arena scratch;
    ea_arena_init(&scratch, 0);
    const char *key = archive_lower_case(&scratch, name);
    if (!key)
        rc = ea_fail(err, EA_ENOMEM, "find a class");
    const void *k = key ? ea_bytes_map_get(&a->by_name, key, strlen(key)) : NULL;
    const ec_class_set *called = k ? &a->sets[(size_t)(uintptr_t)k - 1] : NULL;
    *ret = NULL;
    if (key && alias_set(a, name, key, called, ret))
        rc = ea_fail(err, EA_ENOMEM, "find a class");
    *ret = *ret ? *ret : called;
    ea_arena_deinit(&scratch);
    return rc;
}

static int open_names(ec_archive *a, const ec_archive_stream *stream, ea_err *err) {
    ec_state_fold fold;
    int rc = a->tables ? 0 : ec_state_db_open(&a->tables, ec_store_folder(a->store), 0, err);
    if (rc)
        return rc == EA_ENOTFOUND ? 0 : rc;
    int found = ec_state_db_find_fold(a->tables, stream->row.host, stream->row.stream, &fold, err);
    return found > 0 ? ec_object_names_db_open(&a->naming, a->tables, fold.stream_number,
                                               &(ec_object_names_db_options){0}, err)
                     : found;
}

int ec_archive_names(ec_archive *a, const ec_archive_stream *stream, ea_resolver *ret, ea_err *err) {
    if (a->naming_stream != stream->row.stream_id) {
        ec_object_names_db_close(a->naming);
        a->naming = NULL;
        a->naming_stream = 0;
        int rc = open_names(a, stream, err);
        if (rc < 0)
            return rc;
        a->naming_stream = stream->row.stream_id;
    }
    if (!a->naming)
        return 0;
    if (ec_object_names_db_error(a->naming)) {
        if (err)
            *err = *ec_object_names_db_error(a->naming);
        return ec_object_names_db_error(a->naming)->code;
    }
    *ret = ec_object_names_db_resolver(a->naming);
    return 1;
}

uint64_t ec_archive_ordinal(ec_archive *a, const ec_batch_row *row) {
    enum { OFFSET_BITS = 40 }; /* records are at multiples of 8 */

    uint64_t key = row->segment << OFFSET_BITS | (row->offset >> 3 & ((1ull << OFFSET_BITS) - 1));
    const uint64_t *known = ea_u64_map_get(&a->ordinals, key);
    if (known)
        return *known;
    uint64_t ordinal = a->ordinals.count + 1;
    return ea_u64_map_put(&a->ordinals, key, ordinal) ? 0 : ordinal;
}

ec_reads *ec_archive_reads(ec_archive *a) {
    return &a->reads;
}

void ec_archive_on_batch(ec_archive *a, int (*keep_going)(void *arg), void *arg) {
    a->keep_going = keep_going;
    a->arg = arg;
}

int ec_archive_goes_on(const ec_archive *a) {
    return !a->keep_going || a->keep_going(a->arg);
}

int ec_is_damage(int rc) {
    return rc == EA_ECORRUPT || rc == EA_ETRUNCATED || rc == EA_EFORMAT || rc == EA_ELIMIT || rc == EA_ENOTFOUND ||
           rc == EA_EUNSUPPORTED;
}

void ec_archive_damaged(ec_archive *a, const ec_archive_stream *stream, uint64_t number, const ea_err *err) {
    if (!a->first_damage[0])
        snprintf(a->first_damage, sizeof a->first_damage, "stream %s batch %" PRIu64 ": %s", stream->id, number,
                 err->message);
    uint64_t key = ea_hash64(&number, sizeof number, stream->row.stream_id);
    if (!ea_u64_map_get(&a->damaged, key))
        EA_IGNORE(ea_u64_map_put(&a->damaged, key, number)); /* no memory: then it is not counted twice, nor once */
}

uint64_t ec_archive_damage(const ec_archive *a, const char **ret_first) {
    *ret_first = a->first_damage;
    return a->first_damage[0] && !a->damaged.count ? 1 : a->damaged.count;
}
