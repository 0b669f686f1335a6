/* Names of kernel addresses in the state tables. See object_names_db.h. */
#include "collector/state/object_names_db.h"

#include "proto/base/array.h"
#include "proto/base/map.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHARE_THAT_GOES = 16,
    UNWRITTEN_MAX = 8192,     /* operations */
    SPELLINGS_BYTES = 1 << 20 /* of the names of their classes */
};

/* ?1 is the stream in each. */
#define NAME_COLUMNS      "number, address, begin_utc_ns, end_utc_ns, name"
#define OPERATION_COLUMNS "number, irp, information, begin_utc_ns, end_utc_ns, status, name"
#define STATEMENTS(X)                                                                                                  \
    X(COUNT_NAMES, "SELECT count(*), coalesce(sum(length(CAST(name AS BLOB))), 0), coalesce(max(number), 0)"           \
                   " FROM names WHERE stream = ?1")                                                                    \
    X(COUNT_OPERATIONS, "SELECT coalesce(min(number), 1), coalesce(max(number), 0) FROM operations WHERE stream = ?1") \
    X(LAST_NAME, "SELECT " NAME_COLUMNS " FROM names WHERE stream = ?1 AND kind = ?2 AND address = ?3"                 \
                 " ORDER BY begin_utc_ns DESC, number DESC LIMIT 1")                                                   \
    X(ADD_NAME, "INSERT INTO names VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)")                                                \
    X(END_NAME, "UPDATE names SET end_utc_ns = ?3 WHERE stream = ?1 AND number = ?2")                                  \
    X(LEAVING_NAMES, "SELECT number, length(CAST(name AS BLOB)) FROM names WHERE stream = ?1"                          \
                     " ORDER BY end_utc_ns, number LIMIT ?2")                                                          \
    X(DROP_NAME, "DELETE FROM names WHERE stream = ?1 AND number = ?2")                                                \
    X(LAST_OPERATION, "SELECT " OPERATION_COLUMNS " FROM operations WHERE stream = ?1 AND irp = ?2"                    \
                      " ORDER BY begin_utc_ns DESC, number DESC LIMIT 1")                                              \
    X(ADD_OPERATION, "INSERT INTO operations VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")                                  \
    X(END_OPERATION, "UPDATE operations SET end_utc_ns = ?3, status = ?4, information = ?5"                            \
                     " WHERE stream = ?1 AND number = ?2")                                                             \
    X(DROP_OPERATIONS, "DELETE FROM operations WHERE stream = ?1 AND number <= ?2")                                    \
    X(ADD_VOLUME, "INSERT OR IGNORE INTO volumes SELECT ?1, ?2, ?3"                                                    \
                  " WHERE (SELECT count(*) FROM volumes WHERE stream = ?1) < ?4")                                      \
    X(VOLUMES, "SELECT nt_path, dos_path FROM volumes WHERE stream = ?1 LIMIT ?2")                                     \
    /* the last that began by then; those that began together, the longest first */                                    \
    X(FIND_NAMES, "SELECT " NAME_COLUMNS " FROM names WHERE stream = ?1 AND kind = ?2 AND address = ?3"                \
                  " AND begin_utc_ns <= ?4 ORDER BY begin_utc_ns DESC, end_utc_ns DESC")                               \
    X(FIND_OPERATIONS, "SELECT " OPERATION_COLUMNS " FROM operations WHERE stream = ?1 AND irp = ?2"                   \
                       " AND begin_utc_ns <= ?3 ORDER BY begin_utc_ns DESC, end_utc_ns DESC")

enum statement {

#define X(name, sql) S_##name,
    STATEMENTS(X)
#undef X
        STATEMENT_COUNT
};
static const char *const SQL[] = {
#define X(name, sql) sql,
    STATEMENTS(X)
#undef X
};

struct ec_object_names_db {
    sqlite3 *db;
    int64_t stream_number;
    ec_object_names_db_options options;
    sqlite3_stmt *prepared[STATEMENT_COUNT];
    uint64_t name_count, name_bytes, last_name;
    uint64_t first_operation, last_operation; /* numbers */
    /* Operations that are not in the table yet: the last ones. Most end soon, and are written once instead of twice. A
     * row of an IRP among them is its last one when none in the table began later. */
    ea_operation_row *unwritten; /* their numbers are consecutive; names in spellings */
    size_t unwritten_count, unwritten_capacity;
    int64_t written_begin_utc_ns; /* the latest begin in the table; INT64_MAX: not known */
    ea_u64_map unwritten_irps;    /* IRP -> index of its last operation there */
    ea_string_pool spellings;
    ea_text scratch, found;
    ea_volume volumes[EA_VOLUMES_MAX];
    size_t volume_count;
    int volumes_read;
    ea_err error;
};

/* The statement with the stream bound. */
static int object_names_db_prepare(ec_object_names_db *n, enum statement which, sqlite3_stmt **ret, ea_err *err) {
    int rc = ec_sqlite_prepare(n->db, &n->prepared[which], SQL[which], NULL, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(n->prepared[which], 1, n->stream_number);
    *ret = n->prepared[which];
    return 0;
}

static const char *object_names_db_column_text(sqlite3_stmt *s, int at) {
    const unsigned char *v = sqlite3_column_text(s, at);
    return v ? (const char *)v : "";
}

static void object_names_db_read_name(sqlite3_stmt *s, uint8_t kind, ea_name_row *ret) {
    *ret = (ea_name_row){.number = (uint64_t)sqlite3_column_int64(s, 0),
                         .address = ec_u64_from_sql(sqlite3_column_int64(s, 1)),
                         .begin_utc_ns = sqlite3_column_int64(s, 2),
                         .end_utc_ns = sqlite3_column_int64(s, 3),
                         .name = object_names_db_column_text(s, 4),
                         .kind = kind};
}

static void read_operation(sqlite3_stmt *s, ea_operation_row *ret) {
    *ret = (ea_operation_row){.number = (uint64_t)sqlite3_column_int64(s, 0),
                              .irp = ec_u64_from_sql(sqlite3_column_int64(s, 1)),
                              .information = ec_u64_from_sql(sqlite3_column_int64(s, 2)),
                              .begin_utc_ns = sqlite3_column_int64(s, 3),
                              .end_utc_ns = sqlite3_column_int64(s, 4),
                              .status = (uint32_t)sqlite3_column_int64(s, 5),
                              .name = object_names_db_column_text(s, 6)};
}

/* ---- opening ---- */

static int object_names_db_count_rows(ec_object_names_db *n, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = object_names_db_prepare(n, S_COUNT_NAMES, &s, err);
    if (rc || (rc = ec_sqlite_step(s, "look a name up", err)) < 0)
        return rc;
    n->name_count = (uint64_t)sqlite3_column_int64(s, 0);
    n->name_bytes = (uint64_t)sqlite3_column_int64(s, 1);
    n->last_name = (uint64_t)sqlite3_column_int64(s, 2);
    sqlite3_reset(s);
    rc = object_names_db_prepare(n, S_COUNT_OPERATIONS, &s, err);
    if (rc || (rc = ec_sqlite_step(s, "look a name up", err)) < 0)
        return rc;
    n->first_operation = (uint64_t)sqlite3_column_int64(s, 0);
    n->last_operation = (uint64_t)sqlite3_column_int64(s, 1);
    n->written_begin_utc_ns = n->last_operation ? INT64_MAX : INT64_MIN;
    sqlite3_reset(s);
    return 0;
}

int ec_object_names_db_open(ec_object_names_db **ret, ec_state_db *tables, int64_t stream_number,
                            const ec_object_names_db_options *options, ea_err *err) {
    ec_object_names_db *n = calloc(1, sizeof *n);
    if (!n)
        return ea_fail(err, EA_ENOMEM, "open the names of a stream");
    n->db = ec_state_db_database(tables);
    n->stream_number = stream_number;
    n->options = *options;
    if (!n->options.limit_names)
        n->options.limit_names = (uint64_t)1 << 20;
    if (!n->options.limit_name_bytes)
        n->options.limit_name_bytes = (uint64_t)256 << 20;
    if (!n->options.limit_operations)
        n->options.limit_operations = (uint64_t)1 << 20;
    ea_text_init(&n->scratch);
    ea_text_init(&n->found);
    ea_u64_map_init(&n->unwritten_irps, 0);
    ea_string_pool_init(&n->spellings, SPELLINGS_BYTES);
    int rc = object_names_db_count_rows(n, err);
    if (rc) {
        ec_object_names_db_close(n);
        return rc;
    }
    *ret = n;
    return 0;
}

void ec_object_names_db_close(ec_object_names_db *n) {
    if (!n)
        return;
    for (int i = 0; i < STATEMENT_COUNT; i++)
        sqlite3_finalize(n->prepared[i]);
    for (size_t i = 0; i < n->volume_count; i++) {
        free((void *)(uintptr_t)n->volumes[i].nt);
        free((void *)(uintptr_t)n->volumes[i].dos);
    }
    ea_text_deinit(&n->scratch);
    ea_text_deinit(&n->found);
    free(n->unwritten);
    ea_u64_map_deinit(&n->unwritten_irps);
    ea_string_pool_deinit(&n->spellings);
    free(n);
}

const ea_err *ec_object_names_db_error(const ec_object_names_db *n) {
    return n->error.code ? &n->error : NULL;
}

static void evicted(const ec_object_names_db *n, uint64_t count) {
    if (n->options.counters)
        ea_count(n->options.counters, EA_COUNT_state_evicted, count);
}

/* ---- keeping rows ---- */

static int object_names_db_last_name(void *arg, uint8_t kind, uint64_t address, ea_name_row *ret, ea_err *err) {
    ec_object_names_db *n = arg;
    sqlite3_stmt *s = NULL;
    int rc = object_names_db_prepare(n, S_LAST_NAME, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int(s, 2, kind);
    sqlite3_bind_int64(s, 3, ec_u64_to_sql(address));
    rc = ec_sqlite_step(s, "look a name up", err);
    if (rc == 1)
        object_names_db_read_name(s, kind, ret);
    return rc;
}

/* Makes room: a sixteenth of the names goes. */
static int drop_names(ec_object_names_db *n, ea_err *err) {
    uint64_t most = n->name_count / SHARE_THAT_GOES + 1, gone = 0;
    uint64_t *numbers = malloc((size_t)most * sizeof *numbers);
    sqlite3_stmt *s = NULL;
    if (!numbers)
        return ea_fail(err, EA_ENOMEM, "make room for names");
    int rc = object_names_db_prepare(n, S_LEAVING_NAMES, &s, err);
    if (!rc) {
        sqlite3_bind_int64(s, 2, (int64_t)most);
        while ((rc = ec_sqlite_step(s, "look a name up", err)) == 1 && gone < most) {
            numbers[gone++] = (uint64_t)sqlite3_column_int64(s, 0);
            n->name_bytes -= (uint64_t)sqlite3_column_int64(s, 1);
        }
        sqlite3_reset(s);
        rc = rc < 0 ? rc : 0;
    }
    for (uint64_t i = 0; !rc && i < gone; i++) {
        rc = object_names_db_prepare(n, S_DROP_NAME, &s, err);
        if (!rc) {
            sqlite3_bind_int64(s, 2, (int64_t)numbers[i]);
            rc = ec_sqlite_run(s, "keep a name", err);
        }
    }
    free(numbers);
    n->name_count -= gone;
    evicted(n, gone);
    return rc;
}

static int object_names_db_put_name(void *arg, const ea_name_row *row, ea_err *err) {
    ec_object_names_db *n = arg;
    sqlite3_stmt *s = NULL;
    int rc;
    if (row->number) {
        rc = object_names_db_prepare(n, S_END_NAME, &s, err);
        if (rc)
            return rc;
        sqlite3_bind_int64(s, 2, (int64_t)row->number);
        sqlite3_bind_int64(s, 3, row->end_utc_ns);
        return ec_sqlite_run(s, "keep a name", err);
    }
    size_t len = strlen(row->name);
    while (n->name_count &&
           (n->name_count >= n->options.limit_names || n->name_bytes + len > n->options.limit_name_bytes)) {
        rc = drop_names(n, err);
        if (rc)
            return rc;
    }
    rc = object_names_db_prepare(n, S_ADD_NAME, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, (int64_t)(n->last_name + 1));
    sqlite3_bind_int(s, 3, row->kind);
    sqlite3_bind_int64(s, 4, ec_u64_to_sql(row->address));
    sqlite3_bind_int64(s, 5, row->begin_utc_ns);
    sqlite3_bind_int64(s, 6, row->end_utc_ns);
    sqlite3_bind_text(s, 7, row->name, (int)len, SQLITE_STATIC);
    rc = ec_sqlite_run(s, "keep a name", err);
    if (rc)
        return rc;
    n->last_name++;
    n->name_count++;
    n->name_bytes += len;
    return 0;
}

static int write_operation(ec_object_names_db *n, const ea_operation_row *row, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = object_names_db_prepare(n, S_ADD_OPERATION, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, (int64_t)row->number);
    sqlite3_bind_int64(s, 3, ec_u64_to_sql(row->irp));
    sqlite3_bind_int64(s, 4, row->begin_utc_ns);
    sqlite3_bind_int64(s, 5, row->end_utc_ns);
    sqlite3_bind_int64(s, 6, row->status);
    sqlite3_bind_int64(s, 7, ec_u64_to_sql(row->information));
    sqlite3_bind_text(s, 8, row->name, -1, SQLITE_STATIC);
    return ec_sqlite_run(s, "keep a name", err);
}

int ec_object_names_db_flush(ec_object_names_db *n, ea_err *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < n->unwritten_count; i++) {
        const ea_operation_row *row = &n->unwritten[i];
        rc = write_operation(n, row, err);
        if (row->begin_utc_ns > n->written_begin_utc_ns)
            n->written_begin_utc_ns = row->begin_utc_ns;
    }
    for (size_t i = 0; i < n->unwritten_count; i++)
        ea_string_pool_release(&n->spellings, n->unwritten[i].name);
    n->unwritten_count = 0;
    ea_u64_map_clear(&n->unwritten_irps);
    return rc;
}

static int object_names_db_last_operation(void *arg, uint64_t irp, ea_operation_row *ret, ea_err *err) {
    ec_object_names_db *n = arg;
    const uint64_t *at = n->unwritten_count ? ea_u64_map_get(&n->unwritten_irps, irp) : NULL;
    sqlite3_stmt *s = NULL;
    if (at && n->unwritten[*at].begin_utc_ns >= n->written_begin_utc_ns) {
        *ret = n->unwritten[*at];
        return 1;
    }
    int rc = at ? ec_object_names_db_flush(n, err) : 0;
    if (!rc)
        rc = object_names_db_prepare(n, S_LAST_OPERATION, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, ec_u64_to_sql(irp));
    rc = ec_sqlite_step(s, "look a name up", err);
    if (rc == 1)
        read_operation(s, ret);
    return rc;
}

static int drop_operations(ec_object_names_db *n, ea_err *err) {
    sqlite3_stmt *s = NULL;
    uint64_t count = n->options.limit_operations / SHARE_THAT_GOES + 1;
    int rc = ec_object_names_db_flush(n, err);
    if (!rc)
        rc = object_names_db_prepare(n, S_DROP_OPERATIONS, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int64(s, 2, (int64_t)(n->first_operation + count - 1));
    rc = ec_sqlite_run(s, "keep a name", err);
    if (rc)
        return rc;
    n->first_operation += count;
    evicted(n, count);
    return 0;
}

/* Keeps a new operation in memory; without memory for it in the table. */
static int object_names_db_add_operation(ec_object_names_db *n, const ea_operation_row *row, ea_err *err) {
    ea_operation_row added = *row;
    int rc = n->unwritten_count == UNWRITTEN_MAX ? ec_object_names_db_flush(n, err) : 0;
    added.number = n->last_operation + 1;
    if (rc)
        return rc;
    added.name = ea_string_pool_take(&n->spellings, row->name, strlen(row->name));
    const uint64_t *at = ea_u64_map_get(&n->unwritten_irps, row->irp);
    int is_last = !at || n->unwritten[*at].begin_utc_ns <= row->begin_utc_ns;
    if (!added.name || EA_GROW(n->unwritten, n->unwritten_capacity, n->unwritten_count + 1, UNWRITTEN_MAX) ||
        (is_last && ea_u64_map_put(&n->unwritten_irps, row->irp, n->unwritten_count))) {
        if (added.name)
            ea_string_pool_release(&n->spellings, added.name);
        added.name = row->name;
        rc = ec_object_names_db_flush(n, err);
        if (!rc)
            rc = write_operation(n, &added, err);
        if (!rc && row->begin_utc_ns > n->written_begin_utc_ns)
            n->written_begin_utc_ns = row->begin_utc_ns;
    } else {
        n->unwritten[n->unwritten_count++] = added;
    }
    n->last_operation += !rc;
    return rc;
}

static int object_names_db_put_operation(void *arg, const ea_operation_row *row, ea_err *err) {
    ec_object_names_db *n = arg;
    sqlite3_stmt *s = NULL;
    int rc;
    if (row->number && n->unwritten_count && row->number >= n->unwritten[0].number) {
        ea_operation_row *to = &n->unwritten[row->number - n->unwritten[0].number];
        to->end_utc_ns = row->end_utc_ns;
        to->status = row->status;
        to->information = row->information;
        return 0;
    }
    if (row->number) {
        rc = object_names_db_prepare(n, S_END_OPERATION, &s, err);
        if (rc)
            return rc;
        sqlite3_bind_int64(s, 2, (int64_t)row->number);
        sqlite3_bind_int64(s, 3, row->end_utc_ns);
        sqlite3_bind_int64(s, 4, row->status);
        sqlite3_bind_int64(s, 5, ec_u64_to_sql(row->information));
        return ec_sqlite_run(s, "keep a name", err);
    }
    rc = n->last_operation + 1 - n->first_operation >= n->options.limit_operations ? drop_operations(n, err) : 0;
    return rc ? rc : object_names_db_add_operation(n, row, err);
}

static int put_volume(void *arg, const char *nt, const char *dos, ea_err *err) {
    ec_object_names_db *n = arg;
    sqlite3_stmt *s = NULL;
    int rc = object_names_db_prepare(n, S_ADD_VOLUME, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_text(s, 2, nt, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 3, dos, -1, SQLITE_STATIC);
    sqlite3_bind_int(s, 4, EA_VOLUMES_MAX);
    return ec_sqlite_run(s, "keep a name", err);
}

int ec_object_names_db_apply(ec_object_names_db *n, const ea_record *record, const ea_class *c, int64_t utc_ns,
                             ea_err *err) {
    static const ea_object_names_backing TABLES = {object_names_db_last_name, object_names_db_put_name,
                                                   object_names_db_last_operation, object_names_db_put_operation,
                                                   put_volume};
    int rc = ea_object_names_fold(&TABLES, n, &n->scratch, record, c, utc_ns, err);
    sqlite3_reset(n->prepared[S_LAST_NAME]); /* of NULL: nothing */
    sqlite3_reset(n->prepared[S_LAST_OPERATION]);
    return rc;
}

/* ---- questions ---- */

int ec_object_names_db_find(ec_object_names_db *n, enum ea_name_kind kind, uint64_t address, int64_t utc_ns,
                            ea_text *out, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = object_names_db_prepare(n, S_FIND_NAMES, &s, err), found = 0;
    int64_t begin = 0;
    if (rc)
        return rc;
    sqlite3_bind_int(s, 2, kind);
    sqlite3_bind_int64(s, 3, ec_u64_to_sql(address));
    sqlite3_bind_int64(s, 4, utc_ns);
    for (int first = 1; !found && (rc = ec_sqlite_step(s, "look a name up", err)) == 1; first = 0) {
        ea_name_row row;
        object_names_db_read_name(s, (uint8_t)kind, &row);
        if (!first && row.begin_utc_ns != begin) /* an older one, that this one replaced */
            break;
        begin = row.begin_utc_ns;
        found = utc_ns < row.end_utc_ns;
        if (found)
            ea_text_str(out, row.name);
    }
    sqlite3_reset(s);
    return rc < 0 ? rc : found;
}

/* Volumes hold for the whole stream. */
static int object_names_db_read_volumes(ec_object_names_db *n, ea_err *err) {
    sqlite3_stmt *s = NULL;
    int rc = object_names_db_prepare(n, S_VOLUMES, &s, err);
    if (rc)
        return rc;
    sqlite3_bind_int(s, 2, EA_VOLUMES_MAX);
    while ((rc = ec_sqlite_step(s, "look a name up", err)) == 1 && n->volume_count < EA_VOLUMES_MAX) {
        char *nt = strdup(object_names_db_column_text(s, 0)), *dos = strdup(object_names_db_column_text(s, 1));
        if (!nt || !dos) {
            free(nt);
            free(dos);
            sqlite3_reset(s);
            return ea_fail(err, EA_ENOMEM, "read the volumes of a stream");
        }
        n->volumes[n->volume_count++] = (ea_volume){nt, dos, strlen(nt)};
    }
    sqlite3_reset(s);
    ea_volumes_sort(n->volumes, n->volume_count);
    return rc < 0 ? rc : 0;
}

/* Keeps the first error of a question. */
static int object_names_db_answer(ec_object_names_db *n, int rc, const ea_err *err) {
    if (rc < 0 && !n->error.code) {
        n->error = *err;
        n->error.code = rc;
    }
    return rc > 0;
}

static int object_names_db_resolve_path(const void *arg, const char *path, size_t len_bytes, ea_text *out) {
    ec_object_names_db *n = (ec_object_names_db *)(uintptr_t)arg;
    ea_err err = {0};
    if (!n->volumes_read) {
        n->volumes_read = 1;
        (void)object_names_db_answer(n, object_names_db_read_volumes(n, &err), &err);
    }
    return ea_volumes_path(n->volumes, n->volume_count, path, len_bytes, out);
}

static int object_names_db_resolve_number(const void *arg, uint8_t semantic, uint64_t value, int64_t utc_ns,
                                          ea_text *out) {
    ec_object_names_db *n = (ec_object_names_db *)(uintptr_t)arg;
    ea_err err = {0};
    int is_key = semantic == EA_SEM_KCB;
    if (!is_key && semantic != EA_SEM_FILE_OBJECT && semantic != EA_SEM_FILE_KEY)
        return 0;
    ea_text_clear(&n->found);
    int rc = ec_object_names_db_find(n, is_key ? EA_NAME_KEY : EA_NAME_FILE, value, utc_ns, &n->found, &err);
    if (!object_names_db_answer(n, rc, &err) || n->found.failed || !n->found.len_bytes)
        return 0;
    if (is_key || !object_names_db_resolve_path(n, n->found.data, n->found.len_bytes, out))
        ea_text_add(out, n->found.data, n->found.len_bytes);
    return 1;
}

static int object_names_db_completion(const void *arg, const ea_record *r, const ea_class *c, int64_t utc_ns,
                                      ea_completion *ret) {
    ec_object_names_db *n = (ec_object_names_db *)(uintptr_t)arg;
    ea_err err = {0};
    uint64_t irp;
    int is_end, go_on = 1, found = 0;
    sqlite3_stmt *s = NULL;
    if (n->last_operation == 0 || !ea_object_names_operation(r, c, &irp, &is_end))
        return 0;
    int rc = ec_object_names_db_flush(n, &err);
    if (!rc)
        rc = object_names_db_prepare(n, S_FIND_OPERATIONS, &s, &err);
    if (rc)
        return object_names_db_answer(n, rc, &err);
    sqlite3_bind_int64(s, 2, ec_u64_to_sql(irp));
    sqlite3_bind_int64(s, 3, utc_ns);
    while (go_on && !found && (rc = ec_sqlite_step(s, "look a name up", &err)) == 1) {
        ea_operation_row row;
        read_operation(s, &row);
        found = ea_object_names_matches(&row, c, is_end, utc_ns, ret, &go_on);
        if (found && ret->operation) { /* lives on until the next question */
            ea_text_clear(&n->found);
            ea_text_str(&n->found, ret->operation);
            ret->operation = n->found.failed ? "" : n->found.data;
        }
    }
    sqlite3_reset(s);
    (void)object_names_db_answer(n, rc < 0 ? rc : 0, &err);
    return found;
}

ea_resolver ec_object_names_db_resolver(ec_object_names_db *n) {
    return (ea_resolver){n, object_names_db_resolve_number, object_names_db_resolve_path, object_names_db_completion};
}
