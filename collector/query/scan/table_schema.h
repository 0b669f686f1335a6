/* The columns of a table of events: what every event has, then the fields of its classes. The SQL form
 * of each kind of value is defined here, once.
 * Called by: scan.c, SQL. Calls: archive.h (classes). Thread: its owner's; a finished shape is constant. */
#ifndef EC_QUERY_SCAN_TABLE_SCHEMA_H
#define EC_QUERY_SCAN_TABLE_SCHEMA_H

#include "collector/query/scan/archive.h"
#include "proto/base/arena.h"

/* What every event has, in the order of the columns: name, kind, hidden (in a class's table, in `events`). A hidden
 * column is not part of SELECT *. */
// clang-format off
#define EC_COMMON_COLUMNS(X)                                                                                           \
    X(HOST, "host", TEXT, 0, 0)                     /* the agent's name */                                             \
    X(TIME, "time", TIME, 0, 0)                                                                                        \
    X(CPU, "cpu", INT, 0, 0)                                                                                           \
    X(PID, "pid", INT, 0, 0)                        /* 4294967295: none, like tid's */                                 \
    X(TID, "tid", INT, 0, 0)                                                                                           \
    X(PROVIDER_NAME, "provider_name", TEXT, 1, 0)                                                                      \
    X(NAME, "name", TEXT, 1, 0)                     /* of the class */                                                 \
    X(FIELDS, "fields", TEXT, 1, 0)                 /* a JSON object */                                                \
    X(STREAM, "stream", TEXT, 1, 1)                                                                                    \
    X(BATCH, "batch", INT, 1, 1)                                                                                       \
    X(POSITION, "position", INT, 1, 1)              /* in the batch, from 0 */                                         \
    X(SOURCE, "source", INT, 1, 1)                                                                                     \
    X(CLOCK, "clock", INT, 1, 1)                    /* raw ticks */                                                    \
    X(PROVIDER, "provider", TEXT, 1, 1)                                                                                \
    X(ID, "id", INT, 1, 1)                                                                                             \
    X(VERSION, "version", INT, 1, 1)                                                                                   \
    X(CHANNEL, "channel", INT, 1, 1)                                                                                   \
    X(LEVEL, "level", INT, 1, 1)                                                                                       \
    X(OPCODE, "opcode", INT, 1, 1)                                                                                     \
    X(TASK, "task", INT, 1, 1)                                                                                         \
    X(KEYWORD, "keyword", ADDRESS, 1, 1)                                                                               \
    X(ACTIVITY_ID, "activity_id", TEXT, 1, 1)                                                                          \
    X(RELATED_ACTIVITY_ID, "related_activity_id", TEXT, 1, 1)                                                          \
    X(STACK, "stack", TEXT, 1, 1)                   /* a JSON array */                                                 \
    X(STACK_HASH, "stack_hash", HEX, 1, 1)          /* of the joined stack: event_annotations.h */                                 \
    X(COUNTERS, "counters", TEXT, 1, 1)             /* a JSON object, an array without names */                        \
    X(DECODED, "decoded", TEXT, 1, 1)               /* whole, partial, unknown */                                      \
    X(PAYLOAD, "payload", BLOB, 1, 1)

// clang-format on

enum ec_common {

#define X(id, name, kind, in_class, in_events) EC_##id,
    EC_COMMON_COLUMNS(X)
#undef X
        EC_COMMON_COUNT
};

/* Kinds of values, and the type that a column of that kind is declared with.
 * INT: a number that SQLite has. HEX: the same, an unsigned one that people read in hex. TIME: ns since 1970 UTC.
 * ADDRESS: 64 bits, unsigned, its highest bit turned over (ec_u64_to_sql): the order is kept, and so are differences.
 * COUNT: 64 bits, unsigned, a number below 2^63; above, which no count reaches, 20 decimal digits as text, which SQLite
 * sorts after all numbers. TEXT: UTF-8; GUIDs, SIDs, IP addresses as they are printed; lists and structs as JSON.
 * ANY: classes of one name disagree. */
#define EC_KINDS(X)                                                                                                    \
    X(INT, "INTEGER")                                                                                                  \
    X(HEX, "HEX")                                                                                                      \
    X(TIME, "TIME") X(ADDRESS, "ADDRESS") X(COUNT, "COUNT") X(REAL, "REAL") X(TEXT, "TEXT") X(BLOB, "BLOB") X(ANY, "")

enum ec_kind {

#define X(id, type) EC_KIND_##id,
    EC_KINDS(X)
#undef X
};
const char *ec_kind_type(enum ec_kind kind);
/* What values of a field look like by themselves. */
enum ec_kind ec_kind_of_field(const ea_field *f);

/* 1 when other events say what a field's values are called, 0 when the class has the names or they are NTSTATUS. */
static inline int ec_is_named_elsewhere(const ea_field *f) {
    return !f->map && f->semantic != EA_SEM_NTSTATUS;
}

typedef struct ec_column {
    const char *name;
    enum ec_kind kind;
    int hidden;
    int common;        /* enum ec_common; EC_COMMON_COUNT: a field */
    const char *field; /* its name in the classes */
    int is_name;       /* what the field's value is called, instead of the value */
    int has_history;   /* which other events say: the history of the machine has to be there */
} ec_column;

typedef struct ec_table_schema {
    const ec_class_set *set; /* NULL: the table of all events, which has no fields' columns */
    ec_column *columns;
    size_t count;
    int16_t *fields; /* [class of the set][column - EC_COMMON_COUNT]: the top-level field, -1: none */
    ea_arena arena;
} ec_table_schema;

/* A field whose name is taken (in any case), by host, time, cpu, pid, tid or a field before it, is NAME_2 and so on; a
 * hidden column whose name a field has is event_NAME. Fields whose values may have names
 * (ea_field_has_names) have a second, hidden column FIELD_name. What is beyond 1,900 columns has none. */
EA_MUST_CHECK int ec_table_schema_init(ec_table_schema *shape, const ec_class_set *set, ea_err *err);
void ec_table_schema_deinit(ec_table_schema *shape); /* harmless on a zeroed one */
/* 1 when each class of the set has alone the columns that it has in the set's table: their names as they are written,
 * and their kinds. 0, or an error. */
EA_MUST_CHECK int ec_table_schema_agrees(const ec_class_set *set, ea_err *err);
/* A number of the columns that a class has alone: classes with the same columns have the same number, and a class is
 * not to be made with the number of another's columns (of SHA-256). */
EA_MUST_CHECK int ec_table_schema_hash(const ea_class *c, uint64_t *ret, ea_err *err);
/* The column of a name, in any case; shape->count: none. */
size_t ec_table_schema_find(const ec_table_schema *shape, const char *name);
/* The top-level field of a class (of the set) that a column shows; -1: none. */
int ec_table_schema_field(const ec_table_schema *shape, const ea_class *c, size_t column);

#endif
