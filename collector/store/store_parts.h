/* Inside collector/store: what the files that implement store.h share: the store itself, and the statements of its
 * index. Called by: these files. Thread: the store's. */
#ifndef EC_STORE_STORE_PARTS_H
#define EC_STORE_STORE_PARTS_H

#include "collector/store/segment.h"
#include "collector/store/store.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <sqlite3.h>

enum {
    EC_CACHED_DEFINITIONS = 4096,
    EC_STORED_NAMES = 1 << 16, /* a power of two */
    EC_USES_A_STEP = 1024,     /* a power of two: a definition's use is written to the index once in so many numbers */
};

/* Prepared statements, made when first used. */
#define EC_STATEMENTS(X)                                                                                               \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                                        \
    X(COMMIT, "COMMIT")                                                                                                \
    X(ROLLBACK, "ROLLBACK")                                                                                            \
    X(SAVE, "SAVEPOINT one_batch")                                                                                     \
    X(RELEASE, "RELEASE one_batch")                                                                                    \
    X(UNDO, "ROLLBACK TO one_batch")                                                                                   \
    X(GET_POSITION, "SELECT segment, offset FROM position")                                                            \
    X(SET_POSITION, "INSERT OR REPLACE INTO position VALUES(1, ?1, ?2)")                                               \
    X(FIND_STREAM, "SELECT stream_id FROM streams WHERE agent = ?1 AND stream = ?2")                                   \
    X(ADD_STREAM, "INSERT INTO streams VALUES(NULL, ?1, ?2, ?3, 0, 0, 0, NULL, NULL, ?4, ?4)")                         \
    X(GROW_STREAM,                                                                                                     \
      "UPDATE streams SET batch_count = batch_count + ?2, event_count = event_count + ?3,"                             \
      " byte_count = byte_count + ?4, begin_utc_ns = ifnull(min(begin_utc_ns, ?5), ifnull(?5, begin_utc_ns)),"         \
      " end_utc_ns = ifnull(max(end_utc_ns, ?6), ifnull(?6, end_utc_ns)), received_last_utc_ns = ?7,"                  \
      " source_host = CASE WHEN source_host = '' THEN ?8 ELSE source_host END WHERE stream_id = ?1")                   \
    /* a batch that arrives after a batch with a greater number changes nothing: its own hash, ?3 */                   \
    X(FIND_ORIGIN,                                                                                                     \
      "SELECT iif((SELECT last FROM ranges WHERE stream_id = ?1 ORDER BY first DESC LIMIT 1) > ?2, ?3, hash)"          \
      " FROM origins WHERE stream_id = ?1")                                                                            \
    X(SET_ORIGIN, "INSERT OR REPLACE INTO origins VALUES(?1, ?2, ?3, ?4)")                                             \
    X(FIND_BATCH, "SELECT kind, checksum FROM batches WHERE stream_id = ?1 AND number = ?2 UNION ALL"                  \
                  " SELECT kind, checksum FROM expired WHERE stream_id = ?1 AND number = ?2 LIMIT 1")                  \
    X(FIND_EXPIRED, "SELECT 1 FROM expired_streams WHERE stream_id = ?1 AND through >= ?2")                            \
    X(ADD_BATCH, "INSERT OR REPLACE INTO batches VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)")      \
    X(NEXT_BATCH, "SELECT number, event_count, begin_utc_ns, end_utc_ns, len_bytes, segment, offset FROM batches"      \
                  " WHERE stream_id = ?1 AND number > ?2 ORDER BY number LIMIT 1")                                     \
    X(ADJACENT_RANGES, "SELECT first, last FROM ranges WHERE stream_id = ?1 AND first <= ?3"                           \
                       " AND first >= ifnull((SELECT max(first) FROM ranges WHERE stream_id = ?1 AND first < ?2), 0)"  \
                       " AND last >= ?4")                                                                              \
    X(DROP_RANGES, "DELETE FROM ranges WHERE stream_id = ?1 AND first >= ?2 AND first <= ?3")                          \
    X(ADD_RANGE, "INSERT INTO ranges VALUES(?1, ?2, ?3)")                                                              \
    X(RANGE_AT, "SELECT last FROM ranges WHERE stream_id = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1")            \
    X(STREAM_RANGES, "SELECT first, last FROM ranges WHERE stream_id = ?1 ORDER BY first LIMIT ?2")                    \
    X(ADD_CLOCK_STEP, "INSERT INTO clock_steps VALUES(?1, ?2, ?3) ON CONFLICT(segment, is_pause)"                      \
                      " DO UPDATE SET by_ns = by_ns + excluded.by_ns")                                                 \
    X(SUM_CLOCK_STEPS,                                                                                                 \
      "SELECT ifnull(sum(CASE WHEN is_pause AND by_ns > 0 THEN max(by_ns - ?2, 0) ELSE by_ns END), 0)"                 \
      " FROM clock_steps WHERE segment >= ?1")                                                                         \
    X(FIND_CLOCK_SEEN, "SELECT utc_ns FROM clock_seen UNION ALL SELECT received_last_utc_ns FROM streams"              \
                       " WHERE received_last_utc_ns = (SELECT max(received_last_utc_ns) FROM streams) LIMIT 1")        \
    X(SET_CLOCK_SEEN, "INSERT OR REPLACE INTO clock_seen VALUES(1, ?1)")                                               \
    X(ADD_TOMBSTONE, "INSERT OR IGNORE INTO tombstones VALUES(?1, ?2, ?3, ?4, ?5, ?6)")                                \
    X(COUNT_STREAMS, "SELECT count(*) FROM streams WHERE agent = ?1")                                                  \
    X(COUNT_CLASSES, "SELECT count(*) FROM class_origins WHERE agent = ?1")                                            \
    X(COUNT_TOMBSTONES,                                                                                                \
      "SELECT count(*) FROM tombstones t JOIN streams s ON s.stream_id = t.stream_id WHERE agent = ?1")                \
    X(COUNT_DEFINITION_BYTES,                                                                                          \
      "WITH named AS (SELECT definition_id FROM stream_definitions d JOIN streams s ON s.stream_id = d.stream_id"      \
      " WHERE agent = ?1) SELECT (SELECT count(*) FROM named) * ?2 + (SELECT ifnull(sum(length(data)), 0)"             \
      " FROM definitions WHERE definition_id IN (SELECT definition_id FROM named))")                                   \
    X(ADD_CLASS_ORIGIN, "INSERT OR IGNORE INTO class_origins VALUES(?1, ?2)")                                          \
    X(FIND_CLASS, "SELECT class_id FROM classes WHERE hash = ?1")                                                      \
    X(ADD_CLASS, "INSERT INTO classes VALUES(NULL, ?1, ?2)")                                                           \
    X(FIND_STREAM_CLASS, "SELECT c.class_id FROM classes c JOIN stream_classes s ON s.class_id = c.class_id"           \
                         " WHERE c.hash = ?2 AND s.stream_id = ?1")                                                    \
    X(ADD_STREAM_CLASS, "INSERT OR IGNORE INTO stream_classes VALUES(?1, ?2)")                                         \
    X(STREAM_CLASS, "SELECT c.description FROM classes c JOIN stream_classes s ON s.class_id = c.class_id"             \
                    " WHERE c.hash = ?2 AND s.stream_id = ?1")                                                         \
    X(FIND_DEFINITION, "SELECT definition_id FROM definitions WHERE hash = ?1")                                        \
    X(HAS_DEFINITION, "SELECT definition_id FROM stream_definitions WHERE stream_id = ?1 AND hash = ?2")               \
    X(ADD_DEFINITION, "INSERT INTO definitions VALUES(NULL, ?1, ?2, ?3)")                                              \
    X(ADD_STREAM_DEFINITION, "INSERT OR IGNORE INTO stream_definitions VALUES(?1, ?2, ?3, ?4)")                        \
    X(USED_DEFINITION, "SELECT d.data, d.definition_id, u.through FROM stream_definitions s JOIN definitions d"        \
                       " ON d.definition_id = s.definition_id LEFT JOIN definition_uses u"                             \
                       " ON u.stream_id = s.stream_id AND u.definition_id = s.definition_id"                           \
                       " WHERE s.stream_id = ?1 AND s.hash BETWEEN ?2 AND ?3 AND s.kind = ?4 LIMIT 2")                 \
    X(USE_DEFINITION, "INSERT INTO definition_uses VALUES(?1, ?2, ?3, ?4) ON CONFLICT(stream_id, definition_id)"       \
                      " DO UPDATE SET through = max(through, excluded.through)")                                       \
    X(ADD_STREAM_BYTES, "INSERT INTO stream_bytes VALUES(?1, ?2) ON CONFLICT(stream_id) DO UPDATE SET"                 \
                        " definition_bytes = definition_bytes + excluded.definition_bytes")                            \
    X(ADD_NOTICE, "INSERT INTO incidents VALUES(NULL, ?1, ?2, ?3, ?4)")                                                \
    X(DROP_NOTICES, "DELETE FROM incidents WHERE incident_id <= (SELECT max(incident_id) FROM incidents) - ?1")        \
    X(EACH_NOTICE,                                                                                                     \
      "SELECT incident_id, utc_ns, agent, kind, text FROM incidents"                                                   \
      " WHERE incident_id > ?1 AND (?2 IS NULL OR agent = ?2 COLLATE NOCASE) ORDER BY incident_id LIMIT 1")            \
    X(COUNT_DEFINITIONS, "SELECT count(*) FROM stream_definitions WHERE stream_id = ?1 AND kind = ?2")                 \
    X(STREAM_DEFINITION, "SELECT d.data FROM stream_definitions s JOIN definitions d"                                  \
                         " ON d.definition_id = s.definition_id"                                                       \
                         " WHERE s.stream_id = ?1 AND s.hash BETWEEN ?2 AND ?3 AND s.kind = ?4 LIMIT 2")               \
    X(HAS_LABEL, "SELECT 1 FROM origins o, json_each(CASE WHEN json_valid(o.labels) THEN o.labels END) l"              \
                 " WHERE o.stream_id = ?1 AND l.key = CAST(?2 AS TEXT) AND CAST(l.value AS TEXT) = ?3 LIMIT 1")        \
    X(EACH_STREAM,                                                                                                     \
      "SELECT s.stream_id, agent, stream, s.batch_count, s.event_count, s.byte_count,"                                 \
      " (SELECT max(last) FROM ranges r WHERE r.stream_id = s.stream_id),"                                             \
      " (SELECT sum(last - first + 1) FROM ranges r WHERE r.stream_id = s.stream_id),"                                 \
      " begin_utc_ns, end_utc_ns, received_first_utc_ns, received_last_utc_ns, source_host,"                           \
      " e.batch_count, e.event_count, o.agent_version, o.labels FROM streams s"                                        \
      " LEFT JOIN expired_streams e ON e.stream_id = s.stream_id"                                                      \
      " LEFT JOIN origins o ON o.stream_id = s.stream_id"                                                              \
      " WHERE (?1 IS NULL OR agent = ?1 COLLATE NOCASE) AND s.stream_id > ?2 ORDER BY s.stream_id LIMIT ?3")

enum ec_statement {

#define X(name, sql) EC_ST_##name,
    EC_STATEMENTS(X)
#undef X
        EC_STATEMENT_COUNT
};

typedef struct ec_chore ec_chore; /* retention.c */

/* A class description or another definition that a batch carries, and of which it is not known that the stream has it.
 */
typedef struct ec_carried_name {
    uint8_t hash[EA_CLASS_HASH_BYTES];
    uint8_t kind;       /* enum ea_definition_kind */
    uint32_t len_bytes; /* of the definition */
} ec_carried_name;

/* What a stream has of the index: a class, or another definition. */
typedef struct ec_stored_name {
    int64_t stream_id; /* 0: the place is free */
    int64_t id;        /* class_id or definition_id */
    uint64_t through;  /* of a definition: its use is noted up to this number */
    uint8_t hash[EA_CLASS_HASH_BYTES];
    uint8_t kind; /* enum ea_definition_kind */
} ec_stored_name;

struct ec_store {
    char *dir, *segments;
    int writable, is_scratch;
    uint64_t segment_bytes;
    int trusts_checksums;
    uint64_t agent_streams, agent_classes, agent_tombstones, agent_definition_bytes; /* see ec_store_options */
    ea_counters *counters;
    ea_counters own_counters; /* when the caller gave none */
    ea_file *lock;
    sqlite3 *db;
    sqlite3_stmt *statements[EC_STATEMENT_COUNT];

    /* the writing side */
    ea_bytes_map spellings; /* spellings.c */
    ec_segment segment;     /* the open one */
    uint64_t durable_end;   /* of it: everything before is synced and indexed */
    /* segment_clock.c: both clocks when they were compared first, or after the last step; when that was noted in the
     * index */
    int64_t clock_utc_ns, clock_mono_ns, seen_mono_ns;
    /* retention.c */
    int is_full;           /* the size cannot be kept */
    uint64_t share_bytes;  /* of the store, for each agent */
    int is_any_above;      /* some agent has more than its share */
    int64_t kept_ns;       /* monotonic: when kept.db was written since batches were erased */
    uint64_t erased_below; /* segments below this hold nothing of erased_agent that may be erased */
    char erased_agent[EC_AGENT_BYTES + 1];
    ec_chore *chore; /* that is under way; NULL: none */
    int wants_kept;  /* the next one writes kept.db */
    int in_group, group_failed;
    uint64_t group_events, group_bytes;
    ea_batch *batch;    /* the one at hand, read once: as it arrived, then completed */
    ea_batch_head head; /* of it */
    ea_batch_view *view;
    ea_registry *checker; /* parses descriptions that are new here */
    ec_store_notes notes;

    struct {
        char agent[EC_AGENT_BYTES + 1]; /* "": not counted */
        uint64_t classes, tombstones, definition_bytes;
    } kept; /* of the last agent that added some; counted anew after a group that was taken back, and after retention */

    ec_stored_name *names; /* stored_names.c; EC_STORED_NAMES places; NULL: none is known */
    uint64_t names_seed;
    size_t names_replaced;
    uint32_t *names_noted; /* places that the batch at hand changed */
    size_t names_noted_count, names_noted_capacity;

    /* of the batch at hand: the hash of each definition, in the batch's order; those that are not known to be stored,
     * sorted */
    ea_class_hash *hashes;
    ec_carried_name *carried;
    size_t hash_count, hash_capacity, carried_count, carried_capacity;

    const ec_check *checked; /* what is known of the batch at hand; NULL: nothing */
    size_t checked_at;       /* of its classes: the next one */

    int is_new; /* the batch at hand came just now: bounds apply */
    size_t described_capacity, missing_capacity;
    ea_text classes, pids; /* of the batch at hand: blobs of its index row */
    int any_pid;           /* too many to list */

    /* the reading side */
    ea_text completed; /* the batch at hand, when it named something */
    ea_text definition;
    ea_bytes_map cache; /* cached -> the same: definitions of streams that were read lately */
    size_t cached_bytes;
    ec_segment reading;
    uint8_t *data;
    size_t data_capacity;
};

/* ---- spellings.c ---- */
EA_MUST_CHECK int ec_store_read_spellings(ec_store *s, ea_err *err);
void ec_store_drop_spellings(ec_store *s);

/* ---- database.c ---- */

/* NULL: it could not be prepared; the functions below accept NULL and return the error. */
sqlite3_stmt *ec_db_statement(ec_store *s, enum ec_statement which);
/* Arguments of a statement, in order: 'i' int64_t, 't' const char * (NULL is NULL), 'b' const void * and size_t; 'n'
 * and 'N' take what 'i' and 'b' take and bind NULL. Values are borrowed until the statement is reset. */
sqlite3_stmt *ec_db_bind(ec_store *s, enum ec_statement which, const char *types, ...);
/* Ends a statement; keeps its place for the next use. */
void ec_db_done(sqlite3_stmt *st);
/* A column's text, cut to what has room; "" for NULL. */
void ec_db_copy_text(char *out, size_t out_bytes, sqlite3_stmt *st, int column);
/* Runs a bound statement that gives no rows (NULL: binding failed). */
EA_MUST_CHECK int ec_db_run(ec_store *s, sqlite3_stmt *st, const char *what, ea_err *err);
/* Steps to a row: 1; 0 at the end (the statement is done then), or an error (likewise). */
EA_MUST_CHECK int ec_db_row(ec_store *s, sqlite3_stmt *st, const char *what, ea_err *err);
/* The one number of a statement's first row: 1, 0 without a row, or an error. */
EA_MUST_CHECK int ec_db_number(ec_store *s, sqlite3_stmt *st, const char *what, int64_t *ret, ea_err *err);
/* Opens the index of s->dir; a writable store's tables are there then. */
EA_MUST_CHECK int ec_db_open(ec_store *s, ea_err *err);
/* Makes the tables of an index in an empty database; an SQLite code. */
EA_MUST_CHECK int ec_db_make_tables(sqlite3 *db);

/* ---- stored_definitions.c ---- */

/* The batch at hand, of that number, uses a definition of its stream. added_bytes: of the index, when it is new there.
 */
EA_MUST_CHECK int ec_store_use_definition(ec_store *s, int64_t stream_id, int64_t definition_id, uint64_t added_bytes,
                                          ea_err *err);
/* The number up to which that notes a definition's use by the batch of a number. */
uint64_t ec_store_use_through(uint64_t number);
/* Adds a definition that is nowhere to the notes of the batch at hand. */
EA_MUST_CHECK int ec_store_note_missing(ec_store *s, const ea_hash_ref *ref, ea_err *err);
/* The batch standing for itself: as it is, or in s->completed. */
EA_MUST_CHECK int ec_store_complete(ec_store *s, int64_t stream_id, const uint8_t **batch, size_t *len_bytes,
                                    ea_err *err);
/* The same of s->batch. */
EA_MUST_CHECK int ec_store_complete_batch(ec_store *s, int64_t stream_id, ea_err *err);
/* Forgets the definitions that were read lately. */
void ec_store_empty_cache(ec_store *s);

/* ---- stored_names.c ---- */

/* What is known of that name of the stream; NULL: the index has to be asked. Valid until the next note. */
const ec_stored_name *ec_store_known_name(const ec_store *s, int64_t stream_id, enum ea_definition_kind kind,
                                          const uint8_t *hash);
/* The batch at hand has made these rows of the index, or found them. */
void ec_store_note_name(ec_store *s, const ec_stored_name *name);
/* The batch at hand is over. is_undone: what it made is taken back. */
void ec_store_end_names(ec_store *s, int is_undone);
/* Rows of the index are deleted, or a group is taken back: nothing is known. */
void ec_store_forget_names(ec_store *s);
void ec_store_free_names(ec_store *s);

/* ---- append.c ---- */

/* Begins the group's transaction, unless it is open. */
EA_MUST_CHECK int ec_store_begin_group(ec_store *s, ea_err *err);
/* Takes a group back: nothing of it was acknowledged. */
void ec_store_abandon_group(ec_store *s);
/* Indexes the records after the indexed position, cuts off a torn tail, and opens the segment that is appended to. */
EA_MUST_CHECK int ec_store_recover(ec_store *s, ea_err *err);

/* ---- store_read.c ---- */

/* A stream's row: 1 and *ret, 0 when it is not known, or an error. */
EA_MUST_CHECK int ec_store_find_stream(ec_store *s, const char *agent, const uint8_t *stream, int64_t *ret,
                                       ea_err *err);

/* As ec_store_load_classes, of a batch that is open. */
EA_MUST_CHECK int ec_store_load_classes_of(ec_store *s, uint64_t stream_id, const ea_batch_view *v,
                                           ea_registry *registry, ea_err *err);

/* ---- segments.c ---- */

/* *ret becomes the number of the last segment that is there, when there is a greater one. */
EA_MUST_CHECK int ec_store_last_segment(ec_store *s, uint64_t *ret, ea_err *err);
/* Goes on in a new segment; only between groups, so that one sync makes a group durable. */
EA_MUST_CHECK int ec_store_roll(ec_store *s, ea_err *err);
/* Goes on in a new segment when the open one is full, or (begin_new) holds anything; *ret_number (may be NULL): the
 * open one's. */
EA_MUST_CHECK int ec_store_open_segment(ec_store *s, int begin_new, uint64_t *ret_number, ea_err *err);

/* ---- segment_clock.c ---- */

/* Notes by what the wall clock was set since the last look. Between groups. */
EA_MUST_CHECK int ec_segment_clock_look(ec_store *s, ea_err *err);
/* What the wall clock would show now without steps since that segment was filled: the times of arrival of its batches
 * are compared with it. allowed_ns: what a pause between two processes may count at the most. */
EA_MUST_CHECK int ec_segment_clock_wall_ns(ec_store *s, uint64_t segment, int64_t allowed_ns, int64_t *ret_ns,
                                           ea_err *err);

#endif
