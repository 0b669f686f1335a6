/* Appending: groups of batches, their rows in the index, and the recovery of what a crash left. See store.h.
 *
 * One SQLite transaction is open from the first append of a group to its commit, so that look-ups for duplicates see
 * the group's own batches. It is committed after the segment's fdatasync: every batch in the index is durable. The
 * position up to which segments are indexed is in the same transaction; records after it are indexed when the store is
 * opened. */
#include "collector/store/store_parts.h"
#include "proto/base/array.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    INDEXED_PIDS = 4096, /* a batch with more is not indexed by pid: it may hold any */
    STREAM_DICTIONARIES = 8,
    DEFINITION_ROW_BYTES = 512, /* what a definition of a stream counts beside its own bytes */
};

/* ---- indexing one batch: inside the group's transaction ---- */

static int note_described(ec_store *s, const uint8_t *hash, ea_err *err) {
    if (EA_GROW(s->notes.described, s->described_capacity, s->notes.described_count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "index a batch");
    memcpy(s->notes.described[s->notes.described_count++].bytes, hash, EA_CLASS_HASH_BYTES);
    return 0;
}

static void note_name(ec_store *s, int64_t stream_id, enum ea_definition_kind kind, const uint8_t *hash, int64_t id,
                      uint64_t through) {
    ec_stored_name name = {.stream_id = stream_id, .id = id, .through = through, .kind = (uint8_t)kind};
    memcpy(name.hash, hash, sizeof name.hash);
    ec_store_note_name(s, &name);
}

typedef struct {
    ec_store *s;
    const char *agent;
    int64_t stream_id;
    ea_err *err;
    size_t at; /* of s->hashes: the definition at hand */
} describing;

/* ---- what a batch carries: looked at before anything of it is written ---- */

static int append_by_name(const void *a, const void *b) {
    const ec_carried_name *x = a, *y = b;
    int order = memcmp(x->hash, y->hash, sizeof x->hash);
    return order ? order : (x->kind > y->kind) - (x->kind < y->kind);
}

/* Of s->carried, which is sorted then: each name once. */
static void sort_carried(ec_store *s) {
    size_t n = 0;
    if (s->carried_count)
        qsort(s->carried, s->carried_count, sizeof *s->carried, append_by_name);
    for (size_t i = 0; i < s->carried_count; i++)
        if (!n || append_by_name(&s->carried[n - 1], &s->carried[i]) != 0)
            s->carried[n++] = s->carried[i];
    s->carried_count = n;
}

static int is_carried(const ec_store *s, const uint8_t *class_hash) {
    ec_carried_name wanted = {.kind = EA_DEFINES_CLASS};
    memcpy(wanted.hash, class_hash, sizeof wanted.hash);
    return s->carried_count &&
           bsearch(&wanted, s->carried, s->carried_count, sizeof *s->carried, append_by_name) != NULL;
}

/* ---- what is kept of one agent ---- */

/* Fills s->kept for the agent. */
static int count_kept(ec_store *s, const char *agent, ea_err *err) {
    int64_t classes = 0, tombstones = 0, definition_bytes = 0;
    if (strcmp(s->kept.agent, agent) == 0)
        return 0;
    int rc = ec_db_number(s, ec_db_bind(s, EC_ST_COUNT_CLASSES, "t", agent), "count classes", &classes, err);
    if (rc >= 0)
        rc = ec_db_number(s, ec_db_bind(s, EC_ST_COUNT_TOMBSTONES, "t", agent), "count tombstones", &tombstones, err);
    if (rc >= 0)
        rc = ec_db_number(s, ec_db_bind(s, EC_ST_COUNT_DEFINITION_BYTES, "ti", agent, (int64_t)DEFINITION_ROW_BYTES),
                          "count definitions", &definition_bytes, err);
    if (rc < 0)
        return rc;
    s->kept.definition_bytes = (uint64_t)definition_bytes;
    s->kept.classes = (uint64_t)classes;
    s->kept.tombstones = (uint64_t)tombstones;
    snprintf(s->kept.agent, sizeof s->kept.agent, "%s", agent);
    return 0;
}

/* Before any of a batch's tombstones is stored: those that are too many are not stored and taken back again. */
static int check_tombstones(ec_store *s, const char *agent, ea_err *err) {
    uint64_t most = s->agent_tombstones;
    int rc = most ? count_kept(s, agent, err) : 0;
    if (rc || !most || s->kept.tombstones + s->head.tombstone_count <= most)
        return rc;
    ea_count(s->counters, EA_COUNT_store_refused_tombstones, 1);
    return ea_fail(err, EA_EREFUSED,
                   "batch %" PRIu64 ": %" PRIu64 " tombstones of %.200s are kept, with this batch %" PRIu64
                   ", at most %" PRIu64 " are allowed (--agent-tombstones)",
                   s->head.number, s->kept.tombstones, agent, s->kept.tombstones + s->head.tombstone_count, most);
}

/* The checker remembers what it parsed. It begins anew where it is full, rather than refuse
 * what comes next. */
static int renew_checker(ec_store *s, ea_err *err) {
    ea_registry *fresh = NULL;
    int rc = ea_registry_create(&fresh, 0, err);
    if (rc)
        return rc;
    ea_registry_destroy(s->checker);
    s->checker = fresh;
    return 0;
}

/* The class of a description. */
static int append_parse_class(ec_store *s, const uint8_t *data, size_t data_bytes, const ea_class **ret, ea_err *err) {
    int rc = ea_registry_add_description(s->checker, data, data_bytes, ret, err);
    if (rc == EA_ELIMIT && (rc = renew_checker(s, err)) == 0)
        rc = ea_registry_add_description(s->checker, data, data_bytes, ret, err);
    return rc;
}

/* Looks at one definition: a class description is parsed, unless the check has done it, so that nothing unreadable gets
 * in. What a shape or source says is looked at when it is used. Adds its name to s->hashes, and to s->carried unless it
 * is known that the stream has it. */
static int look_at_definition(enum ea_definition_kind kind, const uint8_t *data, size_t data_bytes, void *arg) {
    const describing *d = arg;
    ec_store *s = d->s;
    const ea_class *c = NULL;
    ec_carried_name name = {.kind = (uint8_t)kind, .len_bytes = (uint32_t)data_bytes};
    size_t most = kind == EA_DEFINES_DICTIONARY ? EA_DICTIONARY_MAX_BYTES : EA_SHAPE_MAX_BYTES;
    int rc;
    if (kind != EA_DEFINES_CLASS && data_bytes > most)
        return ea_fail(d->err, EA_ELIMIT,
                       "batch %" PRIu64 ": a definition of kind %d of %zu bytes, at most %zu are allowed",
                       s->head.number, (int)kind, data_bytes, most);
    if (kind == EA_DEFINES_CLASS && s->checked && s->checked_at < s->checked->class_count) {
        memcpy(name.hash, s->checked->classes[s->checked_at++].bytes, sizeof name.hash);
        rc = 0;
    } else if (kind == EA_DEFINES_CLASS)
        rc = append_parse_class(s, data, data_bytes, &c, d->err);
    else
        rc = ea_definition_hash(data, data_bytes, name.hash, d->err);
    if (rc)
        return rc;
    if (c)
        memcpy(name.hash, c->hash, sizeof name.hash);
    if (EA_GROW(s->hashes, s->hash_capacity, s->hash_count + 1, SIZE_MAX))
        return ea_fail(d->err, EA_ENOMEM, "index a batch");
    memcpy(s->hashes[s->hash_count++].bytes, name.hash, sizeof name.hash);
    if (ec_store_known_name(s, d->stream_id, kind, name.hash))
        return 0;
    if (EA_GROW(s->carried, s->carried_capacity, s->carried_count + 1, SIZE_MAX))
        return ea_fail(d->err, EA_ENOMEM, "index a batch");
    s->carried[s->carried_count++] = name;
    return 0;
}

/* 1: the stream keeps no further dictionary; its batches do without it. */
static int has_all_dictionaries(ec_store *s, int64_t stream_id, int *ret, ea_err *err) {
    int64_t count = 0;
    int rc = ec_db_number(s, ec_db_bind(s, EC_ST_COUNT_DEFINITIONS, "ii", stream_id, (int64_t)EA_DEFINES_DICTIONARY),
                          "count dictionaries", &count, err);
    *ret = count >= STREAM_DICTIONARIES;
    return rc < 0 ? rc : 0;
}

/* What a definition adds to its agent's bytes: 0 when the stream has it, or does not keep it. */
static int added_bytes(ec_store *s, int64_t stream_id, const ec_carried_name *n, uint64_t *ret, ea_err *err) {
    int64_t id = 0;
    int rc =
        ec_db_number(s, ec_db_bind(s, EC_ST_HAS_DEFINITION, "ib", stream_id, (const void *)n->hash, sizeof n->hash),
                     "look a definition up", &id, err);
    int is_full = 0;
    *ret = 0;
    if (!rc && n->kind == EA_DEFINES_DICTIONARY)
        rc = has_all_dictionaries(s, stream_id, &is_full, err);
    if (rc || is_full)
        return rc < 0 ? rc : 0;
    rc = ec_db_number(s, ec_db_bind(s, EC_ST_FIND_DEFINITION, "b", (const void *)n->hash, sizeof n->hash),
                      "look a definition up", &id, err);
    *ret = DEFINITION_ROW_BYTES + (rc == 1 ? 0 : n->len_bytes);
    return rc < 0 ? rc : 0;
}

static int refuse_above(const ec_store *s, const char *agent, const char *unit, const char *what, uint64_t kept,
                        uint64_t most, enum ea_counter refused, ea_err *err) {
    ea_count(s->counters, refused, 1);
    return ea_fail(err, EA_EREFUSED,
                   "batch %" PRIu64 ": %" PRIu64 " %s%s of %.200s are kept, at most %" PRIu64
                   " are allowed%s (--agent-%s)",
                   s->head.number, kept, unit, what, agent, most, kept < most ? ", and it has more" : "", what);
}

/* The classes and definitions that are new. The index is asked for each of them only where the agent is close to its
 * bounds: s->carried has those, too, that are stored and not in memory. */
static int check_kept(ec_store *s, const char *agent, int64_t stream_id, ea_err *err) {
    const uint64_t most_classes = s->agent_classes ? s->agent_classes : UINT64_MAX,
                   most_bytes = s->agent_definition_bytes ? s->agent_definition_bytes : UINT64_MAX;
    uint64_t classes = 0, bytes = 0, added = 0;
    if (!s->is_new || !s->carried_count)
        return 0;
    int rc = count_kept(s, agent, err);
    for (size_t i = 0; i < s->carried_count; i++) {
        int is_class = s->carried[i].kind == EA_DEFINES_CLASS;
        classes += is_class;
        bytes += is_class ? 0 : DEFINITION_ROW_BYTES + s->carried[i].len_bytes;
    }
    if (rc || (s->kept.classes + classes <= most_classes && s->kept.definition_bytes + bytes <= most_bytes))
        return rc;
    classes = bytes = 0;
    for (size_t i = 0; !rc && i < s->carried_count; i++) {
        const ec_carried_name *n = &s->carried[i];
        int64_t class_id = 0;
        if (n->kind != EA_DEFINES_CLASS) {
            rc = added_bytes(s, stream_id, n, &added, err);
            bytes += added;
        } else {
            rc = ec_db_number(s, ec_db_bind(s, EC_ST_FIND_CLASS, "b", (const void *)n->hash, sizeof n->hash),
                              "look a class up", &class_id, err);
            classes += rc == 0;
            rc = rc < 0 ? rc : 0;
        }
        if (!rc && s->kept.classes + classes > most_classes && classes)
            rc = refuse_above(s, agent, "", "classes", s->kept.classes, most_classes, EA_COUNT_store_refused_classes,
                              err);
        if (!rc && s->kept.definition_bytes + bytes > most_bytes && bytes)
            rc = refuse_above(s, agent, "bytes of ", "definitions", s->kept.definition_bytes, most_bytes,
                              EA_COUNT_store_refused_definitions, err);
    }
    return rc;
}

/* ---- the rows of what a batch carries ---- */

static int append_add_named(const describing *d, enum ea_definition_kind kind, const uint8_t *hash, const uint8_t *data,
                            size_t data_bytes) {
    ec_store *s = d->s;
    int64_t id = 0;
    int is_full = 0, rc = 0;
    if (kind == EA_DEFINES_DICTIONARY)
        rc = has_all_dictionaries(s, d->stream_id, &is_full, d->err);
    if (is_full)
        return 0; /* not kept, and not acknowledged */
    if (!rc)
        rc = ec_db_number(s, ec_db_bind(s, EC_ST_FIND_DEFINITION, "b", (const void *)hash, (size_t)EA_CLASS_HASH_BYTES),
                          "look a definition up", &id, d->err);
    int is_known = rc == 1;
    if (rc == 0) {
        rc = ec_db_run(s,
                       ec_db_bind(s, EC_ST_ADD_DEFINITION, "bib", (const void *)hash, (size_t)EA_CLASS_HASH_BYTES,
                                  (int64_t)kind, (const void *)data, data_bytes),
                       "store a definition", d->err);
        id = sqlite3_last_insert_rowid(s->db);
    }
    if (rc < 0)
        return rc;
    rc = ec_db_run(s,
                   ec_db_bind(s, EC_ST_ADD_STREAM_DEFINITION, "ibii", d->stream_id, (const void *)hash,
                              (size_t)EA_CLASS_HASH_BYTES, (int64_t)kind, id),
                   "store a stream's definition", d->err);
    int is_news = !rc && sqlite3_changes(s->db); /* to the stream */
    uint64_t added = is_news ? DEFINITION_ROW_BYTES + (is_known ? 0 : data_bytes) : 0;
    if (!rc)
        rc = ec_store_use_definition(s, d->stream_id, id, added, d->err);
    if (rc)
        return rc;
    if (strcmp(s->kept.agent, d->agent) == 0)
        s->kept.definition_bytes += added;
    note_name(s, d->stream_id, kind, hash, id, ec_store_use_through(s->head.number));
    return note_described(s, hash, d->err);
}

static int append_add_class(const describing *d, const uint8_t *hash, const uint8_t *data, size_t data_bytes) {
    ec_store *s = d->s;
    int64_t class_id = 0;
    int rc = ec_db_number(s, ec_db_bind(s, EC_ST_FIND_CLASS, "b", (const void *)hash, (size_t)EA_CLASS_HASH_BYTES),
                          "look a class up", &class_id, d->err);
    if (rc == 0) {
        rc = ec_db_run(s,
                       ec_db_bind(s, EC_ST_ADD_CLASS, "bb", (const void *)hash, (size_t)EA_CLASS_HASH_BYTES,
                                  (const void *)data, data_bytes),
                       "store a class", d->err);
        class_id = sqlite3_last_insert_rowid(s->db);
        if (!rc)
            rc = ec_db_run(s, ec_db_bind(s, EC_ST_ADD_CLASS_ORIGIN, "it", class_id, d->agent), "store a class", d->err);
        if (strcmp(s->kept.agent, d->agent) == 0)
            s->kept.classes++;
        s->notes.new_classes++;
    }
    if (rc >= 0)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_ADD_STREAM_CLASS, "ii", d->stream_id, class_id), "store a stream's class",
                       d->err);
    if (rc)
        return rc;
    note_name(s, d->stream_id, EA_DEFINES_CLASS, hash, class_id, 0);
    return note_described(s, hash, d->err);
}

/* Stores one definition for a stream. Of one that the stream is known to have no row is read or written, but for its
 * use (once in EC_USES_A_STEP numbers). */
static int add_definition(enum ea_definition_kind kind, const uint8_t *data, size_t data_bytes, void *arg) {
    describing *d = arg;
    ec_store *s = d->s;
    const uint8_t *hash = s->hashes[d->at++].bytes;
    const ec_stored_name *known = ec_store_known_name(s, d->stream_id, kind, hash);
    if (!known)
        return kind == EA_DEFINES_CLASS ? append_add_class(d, hash, data, data_bytes)
                                        : append_add_named(d, kind, hash, data, data_bytes);
    if (kind != EA_DEFINES_CLASS && known->through < s->head.number) {
        int64_t id = known->id;
        int rc = ec_store_use_definition(s, d->stream_id, id, 0, d->err);
        if (rc)
            return rc;
        note_name(s, d->stream_id, kind, hash, id, ec_store_use_through(s->head.number));
    }
    return note_described(s, hash, d->err);
}

/* The id of a class of the stream: 1, 0 when the stream has none, or an error. */
static int append_find_class(ec_store *s, int64_t stream_id, const uint8_t *hash, int64_t *ret, ea_err *err) {
    const ec_stored_name *known = ec_store_known_name(s, stream_id, EA_DEFINES_CLASS, hash);
    if (known) {
        *ret = known->id;
        return 1;
    }
    int rc = ec_db_number(
        s, ec_db_bind(s, EC_ST_FIND_STREAM_CLASS, "ib", stream_id, (const void *)hash, (size_t)EA_CLASS_HASH_BYTES),
        "look a class up", ret, err);
    if (rc == 1)
        note_name(s, stream_id, EA_DEFINES_CLASS, hash, *ret, 0);
    return rc;
}

/* Notes each group's class that neither the stream nor the batch describes. */
static int check_classes(ec_store *s, int64_t stream_id, ea_err *err) {
    for (size_t i = 0; i < ea_batch_group_count(s->view); i++) {
        int64_t class_id = 0;
        const uint8_t *hash = ea_batch_group_hash(s->view, i);
        int rc = is_carried(s, hash) ? 1 : append_find_class(s, stream_id, hash, &class_id, err);
        if (rc == 0) {
            ea_hash_ref ref = {.len_bytes = EA_CLASS_HASH_BYTES};
            memcpy(ref.bytes, hash, sizeof ref.bytes);
            rc = ec_store_note_missing(s, &ref, err);
        }
        if (rc < 0)
            return rc;
    }
    if (s->notes.missing_count)
        return ea_fail(err, EA_ENOTFOUND, "batch %" PRIu64 ": %zu class descriptions are missing", s->head.number,
                       s->notes.missing_count);
    return 0;
}

/* Looks every group's class up. Fills s->classes. */
static int resolve_classes(ec_store *s, int64_t stream_id, ea_err *err) {
    ea_text_clear(&s->classes);
    for (size_t i = 0; i < ea_batch_group_count(s->view); i++) {
        int64_t class_id = 0;
        int rc = append_find_class(s, stream_id, ea_batch_group_hash(s->view, i), &class_id, err);
        if (rc != 1)
            return rc < 0 ? rc : ea_fail(err, EA_ECORRUPT, "index a batch: a class is not in the index");
        ea_text_varint(&s->classes, (uint64_t)class_id);
        ea_text_varint(&s->classes, ea_batch_group_events(s->view, i));
    }
    return s->classes.failed ? ea_fail(err, EA_ENOMEM, "index a batch") : 0;
}

/* Fills s->pids. */
static int list_pids(ec_store *s, ea_err *err) {
    const uint32_t *pids;
    size_t count;
    int rc = ea_batch_pids(s->view, &pids, &count, err);
    if (rc)
        return rc;
    ea_text_clear(&s->pids);
    s->any_pid = count > INDEXED_PIDS;
    for (size_t i = 0; i < count && !s->any_pid; i++)
        ea_text_varint(&s->pids, i ? pids[i] - pids[i - 1] : pids[i]);
    return s->pids.failed ? ea_fail(err, EA_ENOMEM, "index a batch") : 0;
}

/* Adds numbers first..last to the stream's set, joined with what they touch. */
static int append_add_range(ec_store *s, int64_t stream_id, uint64_t first, uint64_t last, ea_err *err) {
    int64_t lo = (int64_t)first, hi = (int64_t)last, above = hi < INT64_MAX ? hi + 1 : hi;
    sqlite3_stmt *st = ec_db_bind(s, EC_ST_ADJACENT_RANGES, "iiii", stream_id, lo, above, lo - 1);
    int rc, found = 0;
    int64_t from = lo;
    while ((rc = ec_db_row(s, st, "join ranges", err)) == 1) {
        int64_t a = sqlite3_column_int64(st, 0), b = sqlite3_column_int64(st, 1);
        if (a < from)
            from = a;
        if (b > hi)
            hi = b;
        found = 1;
    }
    if (rc)
        return rc;
    if (found)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_DROP_RANGES, "iii", stream_id, from, above), "join ranges", err);
    if (!rc)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_ADD_RANGE, "iii", stream_id, from, hi), "store a range", err);
    return rc;
}

/* Opens the batch at hand, with what it names, and knows its times from then on. */
static int append_open_batch(ec_store *s, int64_t stream_id, ea_err *err) {
    int rc = ec_store_complete_batch(s, stream_id, err);
    if (rc)
        return rc;
    s->head = *ea_batch_parsed_head(s->batch);
    return ea_batch_open_parsed(&s->view, s->batch, NULL, err);
}

/* Reads the envelope of a batch, which is the one at hand from now on. */
static int append_look_at(ec_store *s, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    s->notes = (ec_store_notes){.described = s->notes.described, .missing = s->notes.missing};
    ea_batch_close(s->view);
    s->view = NULL;
    int rc = ea_batch_parse(&s->batch, batch, len_bytes, err);
    if (rc)
        return rc;
    const ea_batch_head *h = &s->head;
    s->head = *ea_batch_parsed_head(s->batch);
    s->notes.number = h->number;
    s->notes.event_count = h->event_count;
    memcpy(s->notes.stream, h->stream, sizeof s->notes.stream);
    return 0;
}

/* What is known of the batch at hand before it is written: EC_STORED (it is new; *ret_stream 0 when its stream is,
 * too), EC_DUPLICATE, or EA_ECONFLICT. */
static int append_judge(ec_store *s, const char *agent, int64_t *ret_stream, int *ret_replaces, ea_err *err) {
    const ea_batch_head *h = &s->head;
    int64_t stream_id = 0;
    *ret_replaces = 0;
    int rc = ec_store_find_stream(s, agent, h->stream, &stream_id, err);
    if (rc < 0)
        return rc;
    *ret_stream = stream_id;
    if (rc == 0)
        return EC_STORED;
    sqlite3_stmt *st = ec_db_bind(s, EC_ST_FIND_BATCH, "ii", stream_id, (int64_t)h->number);
    rc = ec_db_row(s, st, "look a batch up", err);
    if (rc < 0)
        return rc;
    if (rc == 0) {
        int64_t is_old = 0;
        rc = ec_db_number(s, ec_db_bind(s, EC_ST_FIND_EXPIRED, "ii", stream_id, (int64_t)h->number), "look a batch up",
                          &is_old, err);
        if (rc == 1)
            return ea_fail(err, EA_ECONFLICT, "batch %" PRIu64 ": its number was deleted by retention long ago",
                           h->number);
        return rc < 0 ? rc : EC_STORED;
    }
    int64_t kind = sqlite3_column_int64(st, 0);
    uint64_t checksum = (uint64_t)sqlite3_column_int64(st, 1);
    ec_db_done(st);
    /* A tombstone for what is stored already adds nothing; events for what a tombstone gave up are better than it. */
    if (kind != EA_BATCH_TOMBSTONE && h->kind == EA_BATCH_TOMBSTONE)
        return EC_DUPLICATE;
    if (kind == EA_BATCH_TOMBSTONE && h->kind != EA_BATCH_TOMBSTONE) {
        *ret_replaces = 1;
        return EC_STORED;
    }
    if (checksum == h->checksum)
        return EC_DUPLICATE;
    return ea_fail(err, EA_ECONFLICT, "batch %" PRIu64 ": stored with checksum %016" PRIx64 ", not %016" PRIx64,
                   h->number, checksum, h->checksum);
}

/* Looking for a number that tombstones name and that is not there. */
typedef struct {
    ec_store *s;
    int64_t stream_id;
    uint64_t number;
    size_t left; /* of tombstones that are looked at */
    int rc;
    ea_err *err;
} unnamed;

enum { FOUND_UNNAMED = 1, LOOKED_ENOUGH = 2 };

static int find_unnamed(const ea_tombstone *t, void *arg) {
    unnamed *f = arg;
    int64_t last = 0;
    if (!f->left--)
        return LOOKED_ENOUGH;
    f->rc = ec_db_number(f->s, ec_db_bind(f->s, EC_ST_RANGE_AT, "ii", f->stream_id, (int64_t)t->first),
                         "look for a tombstone's numbers", &last, f->err);
    f->number = f->rc == 1 && (uint64_t)last >= t->first ? (uint64_t)last + 1 : t->first;
    return f->rc < 0 || f->number <= t->last ? FOUND_UNNAMED : 0;
}

/* A tombstone whose own number is stored already may name others: a batch that was stored, but
 * whose acknowledgement did not reach the agent, was evicted together with them. EC_STORED and the first of those
 * numbers, under which the tombstone is stored then; EC_DUPLICATE; or an error. Of a batch that comes now no more
 * tombstones are looked at than a writer puts into one: an agent can repeat it again and again. */
static int judge_repeated_tombstone(ec_store *s, int64_t stream_id, const uint8_t *batch, size_t len_bytes, size_t most,
                                    uint64_t *ret_number, ea_err *err) {
    unnamed f = {.s = s, .stream_id = stream_id, .left = most, .err = err};
    int found = ea_batch_each_tombstone(batch, len_bytes, find_unnamed, &f, NULL);
    if (f.rc < 0)
        return f.rc;
    if (found != FOUND_UNNAMED)
        return EC_DUPLICATE;
    *ret_number = f.number;
    return EC_STORED;
}

static int pass_tombstone(const ea_tombstone *t, void *arg) {
    (void)t, (void)arg;
    return 0;
}

/* All that may refuse a new batch, before a row of it is written: what is refused again and again costs no rows that
 * are taken back. */
static int append_check(ec_store *s, const char *agent, int64_t stream_id, const uint8_t *batch, size_t len_bytes,
                        ea_err *err) {
    int64_t count = 0;
    int rc = 0;
    if (!stream_id && s->is_new && s->agent_streams) {
        rc = ec_db_number(s, ec_db_bind(s, EC_ST_COUNT_STREAMS, "t", agent), "count streams", &count, err);
        if (rc >= 0 && (uint64_t)count >= s->agent_streams)
            rc = refuse_above(s, agent, "", "streams", (uint64_t)count, s->agent_streams,
                              EA_COUNT_store_refused_streams, err);
        rc = rc > 0 ? 0 : rc;
    }
    describing d = {.s = s, .agent = agent, .stream_id = stream_id, .err = err};
    s->hash_count = s->carried_count = s->checked_at = 0;
    if (!rc && s->is_new && s->head.tombstone_count)
        rc = check_tombstones(s, agent, err);
    if (!rc && s->head.tombstone_count) /* each of them can be read */
        rc = ea_batch_each_tombstone(batch, len_bytes, pass_tombstone, NULL, err);
    if (!rc)
        rc = ea_batch_each_definition(batch, len_bytes, look_at_definition, &d, err);
    sort_carried(s);
    if (!rc)
        rc = check_classes(s, stream_id, err);
    return rc ? rc : check_kept(s, agent, stream_id, err);
}

/* Stream row, descriptions and class look-ups of a new batch that was checked. */
static int append_prepare(ec_store *s, const char *agent, int64_t *stream_id, const uint8_t *batch, size_t len_bytes,
                          int64_t received_utc_ns, ea_err *err) {
    int rc = 0;
    if (*stream_id == 0) {
        s->notes.new_streams++;
        rc = ec_db_run(s,
                       ec_db_bind(s, EC_ST_ADD_STREAM, "tbti", agent, (const void *)s->head.stream,
                                  (size_t)EA_STREAM_ID_BYTES, s->head.host, received_utc_ns),
                       "store a stream", err);
        *stream_id = sqlite3_last_insert_rowid(s->db);
    }
    describing d = {.s = s, .agent = agent, .stream_id = *stream_id, .err = err};
    if (!rc)
        rc = ea_batch_each_definition(batch, len_bytes, add_definition, &d, err);
    if (!rc)
        rc = resolve_classes(s, *stream_id, err);
    return rc ? rc : list_pids(s, err);
}

/* Reads every record of the batch at hand, whose classes are known, and compares their checksum with the batch's. The
 * checker holds classes that came since this process began; others are loaded when they are missed. */
static int append_verify(ec_store *s, int64_t stream_id, ea_err *err) {
    ea_batch_view *v = NULL;
    int rc = ea_batch_open_parsed(&v, s->batch, s->checker, err);
    if (rc == EA_ENOTFOUND) {
        rc = s->view ? 0 : ea_batch_open_parsed(&s->view, s->batch, NULL, err);
        if (!rc)
            rc = ec_store_load_classes_of(s, (uint64_t)stream_id, s->view, s->checker, err);
        if (rc == EA_ELIMIT) { /* of what others sent, perhaps */
            rc = renew_checker(s, err);
            if (!rc)
                rc = ec_store_load_classes_of(s, (uint64_t)stream_id, s->view, s->checker, err);
        }
        if (!rc)
            rc = ea_batch_open_parsed(&v, s->batch, s->checker, err);
    }
    if (!rc)
        rc = ea_batch_verify(v, err);
    ea_batch_close(v);
    return rc;
}

static int learn_class(enum ea_definition_kind kind, const uint8_t *data, size_t data_bytes, void *arg) {
    const describing *d = arg;
    ec_store *s = d->s;
    const ea_class *c = NULL;
    int rc = kind == EA_DEFINES_CLASS ? append_parse_class(s, data, data_bytes, &c, d->err) : 0;
    if (rc || !c)
        return rc;
    if (EA_GROW(s->hashes, s->hash_capacity, s->hash_count + 1, SIZE_MAX))
        return ea_fail(d->err, EA_ENOMEM, "check a batch");
    memcpy(s->hashes[s->hash_count++].bytes, c->hash, sizeof c->hash);
    return 0;
}

/* What an error says of the batch: itself when append gives it, too, else EC_CHECK_NONE. */
static int check_of_error(int rc) {
    switch (rc) {
    case EA_ECORRUPT:
    case EA_EFORMAT:
    case EA_ELIMIT:
    case EA_ETRUNCATED:
    case EA_EUNSUPPORTED:
        return rc;
    default:
        return EC_CHECK_NONE;
    }
}

const ea_class_hash *ec_store_checked_classes(const ec_store *s, size_t *ret_count) {
    *ret_count = s->hash_count;
    return s->hashes;
}

int ec_store_check(ec_store *s, const char *agent, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    int64_t stream_id = 0;
    int replaces = 0;
    ea_err ignored;
    if (s->writable)
        return ea_fail(err, EA_EINVAL, "check a batch with %s: it is open for writing", s->dir);
    describing d = {.s = s, .agent = agent, .err = err};
    s->hash_count = 0;
    if ((!s->checker && renew_checker(s, &ignored)) || append_look_at(s, batch, len_bytes, &ignored) ||
        append_judge(s, agent, &stream_id, &replaces, &ignored) != EC_STORED)
        return EC_CHECK_NONE;
    int rc = ea_batch_each_definition(batch, len_bytes, learn_class, &d, err);
    if (rc) {
        s->hash_count = 0;
        return check_of_error(rc);
    }
    if (!s->head.event_count || ec_store_complete_batch(s, stream_id, &ignored))
        return EC_CHECK_NONE;
    if (s->notes.missing_count)
        return EC_CHECK_EARLY;
    rc = append_verify(s, stream_id, err);
    return rc == 0 ? EC_CHECK_SOUND : rc == EA_ENOTFOUND ? EC_CHECK_EARLY : check_of_error(rc);
}

static int add_tombstone(const ea_tombstone *t, void *arg) {
    const describing *d = arg;
    ec_store *s = d->s;
    int rc = count_kept(s, d->agent, d->err);
    if (rc)
        return rc;
    s->kept.tombstones++;
    s->notes.new_tombstones++;
    rc = ec_db_run(s,
                   ec_db_bind(s, EC_ST_ADD_TOMBSTONE, "iiiiii", d->stream_id, (int64_t)t->first, (int64_t)t->last,
                              (int64_t)t->cause, (int64_t)t->event_count, (int64_t)s->head.number),
                   "store a tombstone", d->err);
    return rc ? rc : append_add_range(s, d->stream_id, t->first, t->last, d->err);
}

/* What the agent says of itself, when that is news. */
static int note_origin(ec_store *s, int64_t stream_id, ea_err *err) {
    const ea_batch_head *h = &s->head;
    int64_t before = 0;
    if (!h->source)
        return 0;
    int64_t hash = (int64_t)ea_hash64(h->source, h->source_bytes, 0);
    int rc = ec_db_number(s, ec_db_bind(s, EC_ST_FIND_ORIGIN, "iii", stream_id, (int64_t)h->number, hash),
                          "look an agent up", &before, err);
    if (rc < 0 || (rc == 1 && before == hash))
        return rc < 0 ? rc : 0;
    ea_text version, labels;
    ea_text_init(&version);
    ea_text_init(&labels);
    rc = ea_source_origin(h->source, h->source_bytes, &version, &labels, err);
    if (!rc)
        rc = ec_db_run(s,
                       ec_db_bind(s, EC_ST_SET_ORIGIN, "iitt", stream_id, hash, version.len_bytes ? version.data : "",
                                  labels.len_bytes ? labels.data : ""),
                       "keep what an agent is", err);
    ea_text_deinit(&version);
    ea_text_deinit(&labels);
    return rc;
}

/* Adds the rows of a batch that is in a segment. */
static int index_batch(ec_store *s, const char *agent, int64_t stream_id, const uint8_t *batch, const ec_record *r,
                       int replaces, ea_err *err) {
    const ea_batch_head *h = &s->head;
    const char timed = h->event_count ? 'i' : 'n';
    char types[] = "iiiiiiiiiiibb";
    types[5] = types[6] = timed;
    if (s->any_pid)
        types[12] = 'N';
    sqlite3_stmt *st =
        ec_db_bind(s, EC_ST_ADD_BATCH, types, stream_id, (int64_t)h->number, (int64_t)h->kind, (int64_t)h->checksum,
                   (int64_t)h->event_count, h->utc_min_ns, h->utc_max_ns, r->received_utc_ns,
                   (int64_t)s->segment.number, (int64_t)r->offset, (int64_t)r->data_bytes,
                   (const void *)s->classes.data, s->classes.len_bytes, (const void *)s->pids.data, s->pids.len_bytes);
    int rc = ec_db_run(s, st, "index a batch", err);
    if (!rc)
        rc = append_add_range(s, stream_id, h->number, h->number, err);
    describing d = {.s = s, .agent = agent, .stream_id = stream_id, .err = err};
    if (!rc && h->tombstone_count)
        rc = ea_batch_each_tombstone(batch, (size_t)r->data_bytes, add_tombstone, &d, err);
    if (rc)
        return rc;
    char grow[] = "iiiiiiit";
    grow[4] = grow[5] = timed;
    st = ec_db_bind(s, EC_ST_GROW_STREAM, grow, stream_id, (int64_t)(replaces ? 0 : 1), (int64_t)h->event_count,
                    (int64_t)r->data_bytes, h->utc_min_ns, h->utc_max_ns, r->received_utc_ns, h->host);
    rc = ec_db_run(s, st, "count a batch", err);
    return rc ? rc : note_origin(s, stream_id, err);
}

int ec_store_begin_group(ec_store *s, ea_err *err) {
    if (s->in_group)
        return 0;
    int rc = ec_db_run(s, ec_db_statement(s, EC_ST_BEGIN), "begin", err);
    if (rc)
        return rc;
    s->in_group = 1;
    s->group_failed = 0;
    s->group_events = s->group_bytes = 0;
    return 0;
}

void ec_store_abandon_group(ec_store *s) {
    ea_err ignored;
    if (!sqlite3_get_autocommit(s->db))
        EA_IGNORE(ec_db_run(s, ec_db_statement(s, EC_ST_ROLLBACK), "roll back", &ignored));
    s->in_group = 0;
    s->group_failed = 0;
    s->kept.agent[0] = 0;
    ec_store_forget_names(s);
    if (s->segment.file && s->segment.end != s->durable_end &&
        ec_segment_cut(&s->segment, s->durable_end, &ignored) != 0) {
        /* The rest of this file cannot be trusted: leave it, and let the next append open another segment. The bytes
         * after durable_end are then a torn tail or a repeat, which the next open removes or skips. */
        ec_segment_close(&s->segment);
    }
}

/* ---- recovery ---- */

/* Indexes one record that was found after the indexed position. */
static int index_found(ec_store *s, const ec_record *r, ea_err *err) {
    int64_t stream_id = 0;
    int replaces = 0;
    int rc = append_look_at(s, s->data, (size_t)r->data_bytes, err);
    if (rc)
        return rc;
    rc = append_judge(s, r->agent, &stream_id, &replaces, err);
    uint64_t number = s->head.number;
    if (rc == EC_DUPLICATE && s->head.kind == EA_BATCH_TOMBSTONE)
        rc = judge_repeated_tombstone(s, stream_id, s->data, (size_t)r->data_bytes, SIZE_MAX, &number, err);
    if (rc != EC_STORED)
        return rc;
    rc = append_open_batch(s, stream_id, err);
    s->head.number = number;
    if (!rc)
        rc = append_check(s, r->agent, stream_id, s->data, (size_t)r->data_bytes, err);
    if (!rc)
        rc = append_prepare(s, r->agent, &stream_id, s->data, (size_t)r->data_bytes, r->received_utc_ns, err);
    return rc ? rc : index_batch(s, r->agent, stream_id, s->data, r, replaces, err);
}

/* Indexes the records in the open segment after offset. Ends at the first position after which there is no sound
 * record. */
static int index_segment(ec_store *s, uint64_t offset, uint64_t *ret_end, ea_err *err) {
    for (;;) {
        ec_record r;
        int rc = ec_segment_scan(&s->segment, offset, &r, &s->data, &s->data_capacity, err);
        if (rc == EA_ETRUNCATED || rc == EA_ECORRUPT) {
            uint64_t next;
            rc = ec_segment_resync(&s->segment, offset, &next, &s->data, &s->data_capacity, err);
            if (rc == 1) {
                ea_count(s->counters, EA_COUNT_store_damaged_bytes, next - offset);
                offset = next;
                continue;
            }
        }
        if (rc < 0)
            return rc;
        if (rc == 0)
            break;
        if (!r.agent[0]) { /* erased */
            offset = r.next;
            continue;
        }
        rc = ec_db_run(s, ec_db_statement(s, EC_ST_SAVE), "index", err);
        if (rc)
            return rc;
        rc = index_found(s, &r, err);
        int is_left_out = rc == EA_EFORMAT || rc == EA_ECORRUPT || rc == EA_ELIMIT || rc == EA_ENOTFOUND ||
                          rc == EA_ECONFLICT || rc == EA_EUNSUPPORTED;
        if (is_left_out) {
            /* sound as a record, not as a batch: append never lets one in; keep the bytes, leave it out of the index */
            ea_count(s->counters, EA_COUNT_store_damaged_bytes, r.next - r.offset);
            rc = ec_db_run(s, ec_db_statement(s, EC_ST_UNDO), "index", err);
        }
        if (rc < 0)
            return rc;
        ec_store_end_names(s, is_left_out);
        rc = ec_db_run(s, ec_db_statement(s, EC_ST_RELEASE), "index", err);
        if (rc)
            return rc;
        offset = r.next;
    }
    *ret_end = offset;
    return 0;
}

int ec_store_recover(ec_store *s, ea_err *err) {
    uint64_t at = 0, offset = 0, last = 0;
    sqlite3_stmt *st = ec_db_statement(s, EC_ST_GET_POSITION);
    int rc = ec_db_row(s, st, "read the position", err);
    if (rc < 0)
        return rc;
    if (rc == 1) {
        at = (uint64_t)sqlite3_column_int64(st, 0);
        offset = (uint64_t)sqlite3_column_int64(st, 1);
        ec_db_done(st);
    }
    rc = ec_store_last_segment(s, &last, err);
    if (rc)
        return rc;
    if (at == 0)
        at = 1;
    if (last < at && last != 0)
        return ea_fail(err, EA_ECORRUPT, "open %s: the index knows segment %" PRIu64 ", the last file is %" PRIu64,
                       s->dir, at, last);
    rc = ec_store_begin_group(s, err);
    uint64_t end = 0;
    for (; !rc && at <= last; at++, offset = 0) {
        ec_segment_close(&s->segment);
        rc = ec_segment_open(&s->segment, s->segments, at, 1, err);
        if (rc == EA_ENOTFOUND) { /* removed by retention */
            rc = 0;
            continue;
        }
        if (rc == EA_ETRUNCATED && at == last) { /* it was being made when the machine stopped: make it again */
            rc = ec_segment_create(&s->segment, s->segments, at, err);
            end = EC_SEGMENT_HEADER_BYTES;
            continue;
        }
        if (rc == EA_ECORRUPT || rc == EA_ETRUNCATED) {
            ea_count(s->counters, EA_COUNT_store_damaged_bytes, EC_SEGMENT_HEADER_BYTES);
            end = 0;
            rc = 0;
            continue;
        }
        if (!rc && offset > s->segment.end) {
            /* the file lost what the index names: never write over those places */
            ea_count(s->counters, EA_COUNT_store_damaged_bytes, offset - s->segment.end);
            ec_segment_close(&s->segment);
            continue;
        }
        if (!rc)
            rc = index_segment(s, offset ? offset : EC_SEGMENT_HEADER_BYTES, &end, err);
        if (!rc && end < s->segment.end && at == last) {
            ea_count(s->counters, EA_COUNT_store_torn_bytes, s->segment.end - end);
            rc = ec_segment_cut(&s->segment, end, err);
        } else if (!rc && end < s->segment.end) {
            ea_count(s->counters, EA_COUNT_store_torn_bytes, s->segment.end - end);
        }
    }
    /* What is indexed now must be as durable as what an acknowledgement promises. */
    if (!rc && s->segment.file)
        rc = ec_segment_sync(&s->segment, err);
    if (!rc && !s->segment.file)
        rc = ec_segment_create(&s->segment, s->segments, last + 1, err);
    if (!rc)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_SET_POSITION, "ii", (int64_t)s->segment.number, (int64_t)s->segment.end),
                       "keep the position", err);
    if (!rc)
        rc = ec_db_run(s, ec_db_statement(s, EC_ST_COMMIT), "commit", err);
    if (rc) {
        /* leave the files as they are for the next attempt */
        ea_err ignored;
        if (!sqlite3_get_autocommit(s->db))
            EA_IGNORE(ec_db_run(s, ec_db_statement(s, EC_ST_ROLLBACK), "roll back", &ignored));
        s->in_group = 0;
        ec_segment_close(&s->segment);
        return rc;
    }
    s->in_group = 0;
    s->durable_end = s->segment.end;
    return 0;
}

/* ---- writing ---- */

const ec_store_notes *ec_store_last_notes(const ec_store *s) {
    return &s->notes;
}

int ec_store_append(ec_store *s, const char *agent, const uint8_t *batch, size_t len_bytes, ea_err *err) {
    return ec_store_append_checked(s, agent, batch, len_bytes, NULL, err);
}

/* The batch's records are sound, as the check found, or as they are read now. */
static int be_sure(ec_store *s, int64_t stream_id, const uint8_t *batch, size_t len_bytes, const ec_check *check,
                   ea_err *err) {
    describing d = {.s = s, .stream_id = stream_id, .err = err};
    int rc = 0;
    if (s->trusts_checksums || !s->head.event_count || (check && check->rc == EC_CHECK_SOUND))
        return 0;
    if (check && check->rc < 0)
        rc = ea_fail(err, check->rc, "%s", check->text);
    else if (check && check->class_count) { /* the checker here has not seen them */
        size_t count = s->hash_count;
        rc = ea_batch_each_definition(batch, len_bytes, learn_class, &d, err);
        s->hash_count = count;
    }
    if (!rc)
        rc = append_verify(s, stream_id, err);
    if (rc == EA_ECORRUPT)
        ea_count(s->counters, EA_COUNT_ingest_bad_checksums, 1);
    return rc;
}

/* The check found a description that cannot be read. */
static int refuse_unreadable(const ec_store *s, const ec_check *check, ea_err *err) {
    return check && check->rc < 0 && !check->class_count && s->head.description_count
               ? ea_fail(err, check->rc, "%s", check->text)
               : 0;
}

/* Some failures make SQLite roll the whole transaction back, whichever statement fails: the rows of what was appended
 * to the group are gone. */
static void look_for_rollback(ec_store *s) {
    if (s->in_group && sqlite3_get_autocommit(s->db))
        s->group_failed = 1;
}

int ec_store_append_checked(ec_store *s, const char *agent, const uint8_t *batch, size_t len_bytes,
                            const ec_check *verdict_before, ea_err *err) {
    if (!s->writable)
        return ea_fail(err, EA_EINVAL, "append to %s: it is open for reading", s->dir);
    int rc = append_look_at(s, batch, len_bytes, err);
    if (rc)
        return rc;
    look_for_rollback(s);
    if (s->group_failed)
        return ea_fail(err, EA_EIO, "append to %s: an append before this one failed", s->dir);
    if (!s->in_group && (rc = ec_segment_clock_look(s, err)) != 0)
        return rc;
    if (!s->in_group && (!s->segment.file || s->segment.end >= s->segment_bytes)) {
        rc = ec_store_roll(s, err);
        if (rc)
            return rc;
    }
    rc = ec_store_begin_group(s, err);
    if (rc)
        return rc;

    int64_t stream_id = 0, now = ea_utc_ns();
    int replaces = 0;
    ec_record record;
    int verdict = append_judge(s, agent, &stream_id, &replaces, err);
    uint64_t number = s->head.number;
    if (verdict == EC_DUPLICATE && s->head.kind == EA_BATCH_TOMBSTONE)
        verdict = judge_repeated_tombstone(s, stream_id, batch, len_bytes, EA_WRITER_TOMBSTONES, &number, err);
    if (verdict == EC_DUPLICATE) {
        /* descriptions that a repeat carries count as known when they are: they came with the first copy */
        return EC_DUPLICATE;
    }
    if (verdict < 0 && verdict != EA_ECONFLICT)
        s->group_failed = 1;
    if (verdict < 0)
        return verdict;
    rc = append_open_batch(s, stream_id, err);
    if (rc)
        return rc;
    s->head.number = number;
    s->is_new = 1;
    s->checked = verdict_before;
    rc = refuse_unreadable(s, verdict_before, err);
    if (!rc)
        rc = append_check(s, agent, stream_id, batch, len_bytes, err);
    s->checked = NULL;
    s->is_new = 0;
    if (!rc)
        rc = be_sure(s, stream_id, batch, len_bytes, verdict_before, err);
    if (rc) {
        ec_store_end_names(s, 0);
        return rc;
    }
    rc = ec_db_run(s, ec_db_statement(s, EC_ST_SAVE), "store a batch", err);
    if (rc) {
        s->group_failed = 1;
        return rc;
    }
    uint64_t before = s->segment.end;
    int failed = append_prepare(s, agent, &stream_id, batch, len_bytes, now, err);
    if (!failed)
        failed = ec_segment_append(&s->segment, agent, batch, len_bytes, now, &record, err);
    if (!failed)
        failed = index_batch(s, agent, stream_id, batch, &record, replaces, err);
    ec_store_end_names(s, failed);
    if (failed) {
        ea_err ignored;
        s->kept.agent[0] = 0;
        s->notes.new_streams = s->notes.new_classes = s->notes.new_tombstones = 0;
        s->segment.end = before; /* what was written is written over, or cut with the group */
        s->notes.described_count = 0;
        /* some failures make SQLite roll the whole transaction back */
        if (sqlite3_get_autocommit(s->db) || ec_db_run(s, ec_db_statement(s, EC_ST_UNDO), "undo", &ignored) ||
            ec_db_run(s, ec_db_statement(s, EC_ST_RELEASE), "undo", &ignored))
            s->group_failed = 1;
        return failed;
    }
    rc = ec_db_run(s, ec_db_statement(s, EC_ST_RELEASE), "store a batch", err);
    if (rc) {
        s->group_failed = 1;
        return rc;
    }
    s->group_events += s->head.event_count;
    s->group_bytes += len_bytes;
    return EC_STORED;
}

int ec_store_commit(ec_store *s, ea_err *err) {
    if (!s->in_group)
        return 0;
    int rc = 0;
    look_for_rollback(s);
    if (s->group_failed)
        rc = ea_fail(err, EA_EIO, "commit to %s: an append failed", s->dir);
    if (!rc && s->segment.end != s->durable_end && !s->is_scratch)
        rc = ec_segment_sync(&s->segment, err);
    if (!rc && s->segment.end != s->durable_end)
        rc = ec_db_run(s, ec_db_bind(s, EC_ST_SET_POSITION, "ii", (int64_t)s->segment.number, (int64_t)s->segment.end),
                       "keep the position", err);
    if (!rc)
        rc = ec_db_run(s, ec_db_statement(s, EC_ST_COMMIT), "commit", err);
    if (rc) {
        ec_store_abandon_group(s);
        return rc;
    }
    s->in_group = 0;
    s->durable_end = s->segment.end;
    ea_count(s->counters, EA_COUNT_store_events, s->group_events);
    ea_count(s->counters, EA_COUNT_store_bytes, s->group_bytes);
    return 0;
}
