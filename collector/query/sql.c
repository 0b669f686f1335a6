/* The connection and what it may do. See sql.h. */
#include "alarms.h"
#include "instances.h"
#include "ledger.h"
#include "sql_parts.h"

#include "clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_MAX = 16 << 20, /* of a text, a blob, a row */
    SQL_MAX = 1 << 20,     /* of a statement */
};

int ec_sql_fail(sqlite3_vtab *table, const ea_err *err) {
    sqlite3_free(table->zErrMsg);
    table->zErrMsg = NULL;
    if (err->code == EA_ENOMEM)
        return SQLITE_NOMEM;
    if (err->code == EA_ECANCELED)
        return SQLITE_INTERRUPT;
    table->zErrMsg = sqlite3_mprintf("%s", err->message);
    return SQLITE_ERROR;
}

int ec_sql_op(int op, enum ec_op *ret) {
    switch (op) {
    case SQLITE_INDEX_CONSTRAINT_EQ:
        *ret = EC_OP_EQ;
        return 1;
    case SQLITE_INDEX_CONSTRAINT_LT:
        *ret = EC_OP_LT;
        return 1;
    case SQLITE_INDEX_CONSTRAINT_LE:
        *ret = EC_OP_LE;
        return 1;
    case SQLITE_INDEX_CONSTRAINT_GT:
        *ret = EC_OP_GT;
        return 1;
    case SQLITE_INDEX_CONSTRAINT_GE:
        *ret = EC_OP_GE;
        return 1;
    default:
        return 0;
    }
}

int ec_sql_is_binary(sqlite3_index_info *info, int i) {
    const char *collation = sqlite3_vtab_collation(info, i);
    return collation && sqlite3_stricmp(collation, "BINARY") == 0;
}

int ec_sql_value(sqlite3_value *from, enum ec_kind kind, ea_arena *arena, ec_value *ret, ea_err *err) {
    /* a number's column turns a text that is one into it before it compares; so does this */
    int is_number = kind != EC_KIND_TEXT && kind != EC_KIND_BLOB && kind != EC_KIND_ANY;
    int type = is_number ? sqlite3_value_numeric_type(from) : sqlite3_value_type(from);
    *ret = (ec_value){.type = EC_NULL};
    switch (type) {
    case SQLITE_INTEGER:
        *ret = (ec_value){.type = EC_INT, .i = sqlite3_value_int64(from)};
        return 0;
    case SQLITE_FLOAT:
        *ret = (ec_value){.type = EC_REAL, .r = sqlite3_value_double(from)};
        return 0;
    case SQLITE_NULL:
        return 0;
    default:
        break;
    }
    const void *data = type == SQLITE_TEXT ? (const void *)sqlite3_value_text(from) : sqlite3_value_blob(from);
    size_t n = (size_t)sqlite3_value_bytes(from);
    if (type == SQLITE_TEXT && kind == EC_KIND_TIME)
        return ea_fail(err, EA_EUSAGE, "a time is a number of ns since 1970: compare it with time_ns('%.40s')",
                       data ? (const char *)data : "");
    ret->type = type == SQLITE_TEXT ? EC_TEXT : EC_BLOB;
    ret->data = ea_arena_copy(arena, n ? data : "", n);
    ret->len_bytes = n;
    return ret->data ? 0 : ea_fail(err, EA_ENOMEM, "compare a column");
}

void ec_sql_plan_condition(ea_text *plan, sqlite3_index_info *info, int i, int column, enum ec_op op) {
    int in = 0;
#if SQLITE_VERSION_NUMBER >= 3038000
    if (op == EC_OP_EQ)
        in = sqlite3_vtab_in(info, i, 1);
#endif
    ea_text_printf(plan, "%d,%d,%d ", column, (int)op, in);
}

size_t ec_sql_plan_number(const char **plan) {
    size_t n = 0;
    for (; **plan >= '0' && **plan <= '9'; ++*plan)
        n = n * 10 + (size_t)(**plan - '0');
    ++*plan; /* a comma or a space */
    return n;
}

int ec_sql_condition(const char **plan, sqlite3_value *from, const ec_shape *shape, size_t column, ea_arena *arena,
                     ec_condition *ret, ea_err *err) {
    enum ec_kind kind = shape->columns[column].kind;
    size_t capacity = 1, n = 0;
    enum ec_op op = (enum ec_op)ec_sql_plan_number(plan);
    int in = ec_sql_plan_number(plan) != 0;
    ec_value *values = ea_arena_alloc(arena, capacity * sizeof *values);
    int rc = values ? 0 : ea_fail(err, EA_ENOMEM, "compare a column");
    if (!rc && !in) {
        rc = ec_sql_value(from, kind, arena, &values[n], err);
        n++;
    }
#if SQLITE_VERSION_NUMBER >= 3038000
    sqlite3_value *item = NULL;
    for (int code = rc || !in ? SQLITE_DONE : sqlite3_vtab_in_first(from, &item); !rc && code == SQLITE_OK && item;
         code = sqlite3_vtab_in_next(from, &item)) {
        if (n == capacity) {
            ec_value *bigger = ea_arena_alloc(arena, 2 * capacity * sizeof *bigger);
            if (!bigger)
                return ea_fail(err, EA_ENOMEM, "compare a column");
            memcpy(bigger, values, n * sizeof *values);
            values = bigger;
            capacity *= 2;
        }
        rc = ec_sql_value(item, kind, arena, &values[n++], err);
    }
#endif
    *ret = (ec_condition){.column = column, .op = op, .values = values, .value_count = n};
    return rc;
}

/* What part of the rows a condition may leave. */
static double share(const ec_column *c, enum ec_op op) {
    switch (c->common) {
    case EC_NAME:
    case EC_PROVIDER_NAME:
        return 0.06;
    case EC_TIME:
        return op == EC_OP_EQ ? 1e-5 : 0.25;
    case EC_PID:
    case EC_TID:
        return op == EC_OP_EQ ? 0.03 : 0.5;
    case EC_HOST:
    case EC_STREAM:
        return 0.2;
    default:
        return op == EC_OP_EQ ? 0.05 : 0.4;
    }
}

void ec_sql_share(const ec_column *c, enum ec_op op, double *rows, double *decoded) {
    *rows *= share(c, op);
    switch (c->common) {
    case EC_NAME: /* what is skipped before it is decoded */
    case EC_PROVIDER_NAME:
    case EC_TIME:
    case EC_PID:
    case EC_HOST:
    case EC_STREAM:
    case EC_BATCH:
        *decoded *= share(c, op);
        break;
    default:
        break;
    }
}

void ec_sql_result(sqlite3_context *context, const ec_value *v) {
    switch (v->type) {
    case EC_INT:
        sqlite3_result_int64(context, v->i);
        break;
    case EC_REAL:
        sqlite3_result_double(context, v->r);
        break;
    case EC_TEXT:
        sqlite3_result_text64(context, v->data, v->len_bytes, SQLITE_TRANSIENT, SQLITE_UTF8);
        break;
    case EC_BLOB:
        sqlite3_result_blob64(context, v->len_bytes ? v->data : "", v->len_bytes, SQLITE_TRANSIENT);
        break;
    default:
        sqlite3_result_null(context);
    }
}

void ec_sql_add_name(ea_text *t, const char *name) {
    ea_text_char(t, '"');
    for (; *name; name++) {
        if (*name == '"')
            ea_text_char(t, '"');
        ea_text_char(t, *name);
    }
    ea_text_char(t, '"');
}

/* ---- what a statement may do ---- */

static int is_one_of(const char *name, const char *const *list) {
    for (; *list; list++)
        if (name && sqlite3_stricmp(name, *list) == 0)
            return 1;
    return 0;
}

/* Reading and computing; nothing that names a file, changes the connection or loads code. */
static int authorize(void *arg, int action, const char *a, const char *b, const char *database, const char *trigger) {
    static const char *const FORBIDDEN[] = {"load_extension", "fts3_tokenizer", "sqlite_log", NULL};
    static const char *const OF_HISTORY[] = {"process_at", "thread_at", NULL};
    static const char *const PRAGMAS[] = {"table_info",  "table_xinfo",    "table_list",      "function_list",
                                          "module_list", "collation_list", "compile_options", NULL};
    ec_sql *s = arg;
    (void)database, (void)trigger;
    switch (action) {
    case SQLITE_READ:
        s->describes_tables |= a && sqlite3_strnicmp(a, "pragma_table_", 13) == 0;
        return SQLITE_OK;
    case SQLITE_PRAGMA:
        s->describes_tables |= a && sqlite3_strnicmp(a, "table_", 6) == 0;
        return is_one_of(a, PRAGMAS) ? SQLITE_OK : SQLITE_DENY;
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_FUNCTION:
        s->uses_history |= is_one_of(b, OF_HISTORY);
        return is_one_of(b, FORBIDDEN) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_UPDATE: /* what sqlite3_declare_vtab asks; the connection is defensive, nobody else may change it */
        return a && strcmp(a, "sqlite_master") == 0 ? SQLITE_OK : SQLITE_DENY;
    default:
        return SQLITE_DENY;
    }
}

static int on_progress(void *arg) {
    const ec_sql *s = arg;
    return !s->options.keep_going(s->options.arg);
}

/* A sort holds in memory what the cache of the connection's database may have, which itself is empty. */
static int set_sort_bytes(sqlite3 *db, uint64_t bytes, ea_err *err) {
    char sql[64];
    snprintf(sql, sizeof sql, "PRAGMA cache_size = -%" PRIu64, bytes >> 10);
    return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? 0
               : ea_fail(err, EA_EDATABASE, "prepare a sort: %s", sqlite3_errmsg(db));
}

int ec_sql_open(ec_sql **ret, const char *dir, const ec_sql_options *options, ea_err *err) {
    ec_sql *s = calloc(1, sizeof *s);
    size_t n = strlen(dir);
    if (!s || !(s->dir = malloc(n + 1))) {
        free(s);
        return ea_fail(err, EA_ENOMEM, "open %s", dir);
    }
    memcpy(s->dir, dir, n + 1);
    s->options = *options;
    int rc = ec_archive_open(&s->archive, dir, options->host, options->shown, err);
    if (!rc)
        ec_archive_on_batch(s->archive, options->keep_going, options->arg);
    if (!rc && sqlite3_open_v2(":memory:", &s->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        rc = ea_fail(err, EA_ENOMEM, "open %s", dir);
    if (!rc) {
        sqlite3_extended_result_codes(s->db, 1);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
        sqlite3_db_config(s->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
        sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, LENGTH_MAX);
        sqlite3_limit(s->db, SQLITE_LIMIT_SQL_LENGTH, SQL_MAX);
        sqlite3_limit(s->db, SQLITE_LIMIT_ATTACHED, 0);
        sqlite3_limit(s->db, SQLITE_LIMIT_WORKER_THREADS, 0);
        if (options->sort_bytes)
            rc = set_sort_bytes(s->db, options->sort_bytes, err);
    }
    if (!rc && options->keep_going) /* the tables' own statements are bounded by it, too */
        sqlite3_progress_handler(s->db, 10000, on_progress, s);
    if (!rc)
        rc = ec_sql_add_functions(s, err);
    if (!rc)
        rc = ec_sql_add_tables(s, err);
    if (!rc)
        rc = ec_sql_add_activity(s, err);
    if (!rc)
        rc = ec_sql_add_events(s, err); /* the last: a class cannot take another table's name */
    if (rc) {
        ec_sql_close(s);
        return rc;
    }
    sqlite3_set_authorizer(s->db, authorize, s);
    *ret = s;
    return 0;
}

void ec_sql_close(ec_sql *s) {
    if (!s)
        return;
    sqlite3_close(s->db);
    sqlite3_close(s->memory);
    ec_ends_close(s->ends);
    ec_tables_close(s->state);
    ec_alarms_close(s->alarms);
    ec_instances_destroy(s->instances);
    ec_archive_close(s->archive);
    for (size_t i = 0; i < s->taken_count; i++)
        sqlite3_free(s->taken[i]);
    free(s->taken);
    free(s->added);
    free(s->dir);
    free(s);
}

sqlite3 *ec_sql_database(ec_sql *s) {
    return s->db;
}
int ec_sql_uses_history(const ec_sql *s) {
    return s->uses_history;
}
int ec_sql_describes_tables(const ec_sql *s) {
    return s->describes_tables;
}
ec_archive *ec_sql_archive(ec_sql *s) {
    return s->archive;
}
