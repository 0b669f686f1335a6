/* The table that stands for a table of events in a statement over rows (sql_push_rows.c): it has the same columns, and
 * of the events that the conditions and filters let through all, or with ORDER BY and LIMIT only those that can be in
 * the answer, in the order in which the table of events gives them. SQLite sorts these few: their order, and that of
 * equal ones, is SQLite's.
 *
 * Of ORDER BY with LIMIT the first scan finds which events these are (first_events.h), the second one reads their
 * batches and gives their values. Where the scan does not compare as SQLite does, or texts need too much memory, all
 * events are given, by a statement of its own. Called by: sql_push.c, SQLite. Calls: first_events.c, scan.h. Thread:
 * the connection's. */
#include "collector/query/analysis/first_events.h"
#include "collector/query/sql/sql_groups.h"

#include <stdlib.h>
#include <string.h>

enum { TEXTS_MAX = 64 << 20, POSITION_BITS = 18 /* EA_BATCH_MAX_EVENTS */, LAST_BIT = 63 };

typedef struct rows_table {
    sqlite3_vtab base;
    ec_sql_groups *groups;
} rows_table;

typedef struct batch_id {
    uint64_t stream_id, number;
} batch_id;

typedef struct rows_cursor {
    sqlite3_vtab_cursor base;
    ec_scan *scan;
    const ec_block *block; /* NULL: at the end */
    uint32_t at;           /* index into block->selected */
    ec_first_event *first; /* what the scan keeps */
    size_t first_count;
    batch_id *batches; /* theirs, in order; in arena */
    size_t batch_count;
    ec_filter_run *filter; /* of a scan that gives all rows */
    sqlite3_stmt *plain;   /* NULL: the rows are the scan's */
    int has_row;           /* of plain */
    ea_arena arena;        /* the values of the conditions */
} rows_cursor;

static const ec_sql_groups *groups_of(const rows_cursor *c) {
    return ((const rows_table *)c->base.pVtab)->groups;
}

static int rows_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                        char **ret_message) {
    ec_sql_groups *g = aux;
    ea_text columns;
    (void)argc, (void)argv;
    ea_text_init(&columns);
    for (size_t i = 0; i < g->shape.count; i++) {
        const ec_column *c = &g->shape.columns[i];
        ea_text_str(&columns, i ? "," : "");
        ec_sql_add_name(&columns, c->name);
        ea_text_printf(&columns, " %s%s", ec_kind_type(c->kind), c->hidden ? " HIDDEN" : "");
    }
    ec_sql_groups_put_compared(&columns, g);
    int code = ec_sql_make_table(db, 0, NULL, &columns, sizeof(rows_table), ret, ret_message);
    if (code == SQLITE_OK) {
        sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
        ((rows_table *)*ret)->groups = g;
    }
    return code;
}

static int rows_disconnect(sqlite3_vtab *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

static int rows_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    ec_sql_groups *g = ((rows_table *)base)->groups;
    g->used = info->colUsed;
    return ec_sql_groups_plan(g, info, g->shape.count);
}

static int rows_open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    return ec_sql_open_cursor(sizeof(rows_cursor), offsetof(rows_cursor, arena), ret);
}

static void rows_clear(rows_cursor *c) {
    ec_scan_close(c->scan);
    c->scan = NULL;
    c->block = NULL;
    ec_filter_close(c->filter);
    c->filter = NULL;
    sqlite3_finalize(c->plain);
    c->plain = NULL;
    c->has_row = 0;
    free(c->first);
    c->first = NULL;
    c->first_count = c->batch_count = 0;
    ea_arena_reset(&c->arena);
}

static int rows_close_cursor(sqlite3_vtab_cursor *base) {
    rows_cursor *c = (rows_cursor *)base;
    rows_clear(c);
    ea_arena_deinit(&c->arena);
    sqlite3_free(c);
    return SQLITE_OK;
}

/* ---- all events ---- */

static int rows_plain_failed(rows_cursor *c, int code) {
    sqlite3_vtab *base = c->base.pVtab;
    sqlite3_free(base->zErrMsg);
    base->zErrMsg = code == SQLITE_NOMEM ? NULL : sqlite3_mprintf("%s", sqlite3_errmsg(groups_of(c)->sql->db));
    return code == SQLITE_OK ? SQLITE_ERROR : code;
}

static int rows_plain_step(rows_cursor *c) {
    int code = sqlite3_step(c->plain);
    c->has_row = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? SQLITE_OK : rows_plain_failed(c, code);
}

static int rows_plain_begin(rows_cursor *c, const ec_condition *conditions, size_t count) {
    const ec_sql_groups *g = groups_of(c);
    ea_text sql;
    ea_text_init(&sql);
    ea_text_str(&sql, "SELECT rowid");
    for (size_t i = 0; i < g->shape.count; i++) {
        ea_text_char(&sql, ',');
        if (g->used >> (i < LAST_BIT ? i : LAST_BIT) & 1)
            ec_sql_add_name(&sql, g->shape.columns[i].name);
        else
            ea_text_str(&sql, "NULL");
    }
    ec_sql_groups_put_from(&sql, g, conditions, count);
    int code = sql.failed ? SQLITE_NOMEM : sqlite3_prepare_v3(g->sql->db, sql.data, -1, 0, &c->plain, NULL);
    ea_text_deinit(&sql);
    if (code == SQLITE_OK)
        code = ec_sql_groups_bind(c->plain, conditions, count);
    return code == SQLITE_OK ? rows_plain_step(c) : rows_plain_failed(c, code);
}

/* ---- the first ones ---- */

static int sql_rows_keep_first(void *arg, ec_scan *s, const ec_block *b, uint32_t *selected, uint32_t *count,
                               ea_err *err) {
    const rows_cursor *c = arg;
    uint32_t n = 0;
    size_t low = 0, high = c->first_count;
    (void)s, (void)err;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (c->first[middle].ordinal < b->ordinal)
            low = middle + 1;
        else
            high = middle;
    }
    for (high = low; high < c->first_count && c->first[high].ordinal == b->ordinal;)
        high++;
    for (uint32_t i = 0; low < high && i < *count; i++) {
        uint32_t row = selected[i], event = b->rows[row];
        size_t from = low, to = high;
        while (from < to) {
            size_t middle = from + (to - from) / 2;
            if (c->first[middle].event < event)
                from = middle + 1;
            else
                to = middle;
        }
        selected[n] = row;
        n += from < high && c->first[from].event == event;
    }
    *count = n;
    return 0;
}

static int rows_next_block(rows_cursor *c) {
    ea_err err = {0};
    const ec_block *block = NULL;
    int rc = ec_scan_next(c->scan, &block, &err);
    if (rc < 0)
        return ec_sql_fail(c->base.pVtab, &err);
    c->block = rc ? block : NULL;
    c->at = 0;
    return SQLITE_OK;
}

static int compare_batches(const void *a, const void *b) {
    const batch_id *x = a, *y = b;
    int c = (x->stream_id > y->stream_id) - (x->stream_id < y->stream_id);
    return c ? c : (x->number > y->number) - (x->number < y->number);
}

static int is_of_first(void *arg, const ec_batch_row *row) {
    const rows_cursor *c = arg;
    const batch_id id = {row->stream_id, row->number};
    return c->batch_count && bsearch(&id, c->batches, c->batch_count, sizeof id, compare_batches);
}

/* The second scan: of the batches alone that hold one of the first events. */
static int open_second(rows_cursor *c, const ec_condition *conditions, size_t count, ea_err *err) {
    const ec_sql_groups *g = groups_of(c);
    size_t n = 0;
    c->batches = ea_arena_zalloc(&c->arena, c->first_count + 1, sizeof *c->batches);
    if (!c->batches)
        return ea_fail(err, EA_ENOMEM, "sort events");
    for (size_t i = 0; i < c->first_count; i++)
        c->batches[i] = (batch_id){c->first[i].stream_id, c->first[i].batch};
    if (c->first_count)
        qsort(c->batches, c->first_count, sizeof *c->batches, compare_batches);
    for (size_t i = 0; i < c->first_count; i++)
        if (!n || compare_batches(&c->batches[n - 1], &c->batches[i]))
            c->batches[n++] = c->batches[i];
    c->batch_count = n;
    int rc = ec_scan_open(&c->scan, g->sql->archive, &g->shape, &g->sql->annotator, conditions, count, err);
    if (!rc)
        ec_scan_set_filter(c->scan, &(ec_row_filter){.wants = is_of_first, .keep = sql_rows_keep_first, .arg = c});
    return rc;
}

/* ---- all that a filter lets through ---- */

/* What the filter cannot decide, SQLite does, which checks all rows again. */
static int keep_filtered(void *arg, ec_scan *s, const ec_block *b, uint32_t *selected, uint32_t *count, ea_err *err) {
    int rc = ec_filter_keep(((const rows_cursor *)arg)->filter, s, b, selected, count, err);
    return rc == EA_EUSAGE ? 0 : rc;
}

static int open_filtered(rows_cursor *c, const ec_condition *conditions, size_t count, ea_err *err) {
    const ec_sql_groups *g = groups_of(c);
    int rc = ec_filter_open(&c->filter, &g->filter, g->sql->db, &g->shape, g->table, err);
    if (!rc)
        rc = ec_scan_open(&c->scan, g->sql->archive, &g->shape, &g->sql->annotator, conditions, count, err);
    if (!rc)
        ec_scan_set_filter(c->scan, &(ec_row_filter){.keep = keep_filtered, .arg = c});
    return rc;
}

static int are_exact(const ec_sql_groups *g, const ec_condition *conditions, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (!ec_condition_is_exact(&g->shape, &conditions[i]))
            return 0;
    return 1;
}

static int rows_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    rows_cursor *c = (rows_cursor *)base;
    const ec_sql_groups *g = groups_of(c);
    ec_first_key keys[EC_GROUPING_KEYS_MAX];
    ec_condition *conditions = NULL;
    ec_filter_run *filter = NULL;
    ea_err err = {0};
    (void)number;
    rows_clear(c);
    int rc = ec_sql_groups_conditions(g, plan, argc, argv, &c->arena, &conditions, &err);
    if (rc)
        return ec_sql_fail(base->pVtab, &err);
    if (!g->first_count) {
        if (!are_exact(g, conditions, (size_t)argc))
            return rows_plain_begin(c, conditions, (size_t)argc);
        rc = open_filtered(c, conditions, (size_t)argc, &err);
        return rc ? ec_sql_fail(base->pVtab, &err) : rows_next_block(c);
    }
    for (size_t i = 0; i < g->key_count; i++)
        keys[i] = (ec_first_key){g->keys[i].column, g->keys[i].is_descending, (int)(g->nulls_last >> i & 1)};
    if (g->filter.root_count)
        rc = ec_filter_open(&filter, &g->filter, g->sql->db, &g->shape, g->table, &err);
    if (!rc)
        rc = ec_first_events(
            g->sql->archive, &g->shape,
            &(ec_first_options){.annotator = &g->sql->annotator,
                                .conditions = conditions,
                                .condition_count = (size_t)argc,
                                .filter = filter ? &(ec_row_filter){.keep = ec_filter_keep, .arg = filter} : NULL,
                                .keys = keys,
                                .key_count = g->key_count,
                                .count = g->first_count,
                                .limit_bytes = TEXTS_MAX},
            &c->first, &c->first_count, &err);
    ec_filter_close(filter);
    if (rc == EA_ELIMIT || rc == EA_ENOMEM || rc == EA_EUSAGE)
        return rows_plain_begin(c, conditions, (size_t)argc);
    if (!rc)
        rc = open_second(c, conditions, (size_t)argc, &err);
    return rc ? ec_sql_fail(base->pVtab, &err) : rows_next_block(c);
}

/* ---- rows ---- */

static int rows_next(sqlite3_vtab_cursor *base) {
    rows_cursor *c = (rows_cursor *)base;
    if (c->plain)
        return rows_plain_step(c);
    return ++c->at < c->block->selected_count ? SQLITE_OK : rows_next_block(c);
}

static int rows_at_end(sqlite3_vtab_cursor *base) {
    const rows_cursor *c = (const rows_cursor *)base;
    return c->plain ? !c->has_row : !c->block;
}

static int rows_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    rows_cursor *c = (rows_cursor *)base;
    ea_err err = {0};
    ec_value v;
    if ((size_t)which >= groups_of(c)->shape.count) { /* a condition, which has no values here */
        (void)ea_fail(&err, EA_EUSAGE, "a condition on %s was not kept", groups_of(c)->name);
        return ec_sql_fail(base->pVtab, &err);
    }
    if (c->plain) {
        sqlite3_result_value(context, sqlite3_column_value(c->plain, which + 1));
        return SQLITE_OK;
    }
    if (ec_scan_value(c->scan, (size_t)which, c->block->selected[c->at], &v, &err))
        return ec_sql_fail(base->pVtab, &err);
    ec_sql_result(context, &v);
    return SQLITE_OK;
}

/* The number that the event has in the table of events. */
static int rows_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret) {
    const rows_cursor *c = (const rows_cursor *)base;
    *ret = c->plain ? sqlite3_column_int64(c->plain, 0)
                    : (sqlite3_int64)(c->block->ordinal << POSITION_BITS | c->block->rows[c->block->selected[c->at]]);
    return SQLITE_OK;
}

const sqlite3_module EC_SQL_ROWS_MODULE = {
    .iVersion = 2,
    .xConnect = rows_connect,
    .xBestIndex = rows_best_index,
    .xDisconnect = rows_disconnect,
    .xOpen = rows_open_cursor,
    .xClose = rows_close_cursor,
    .xFilter = rows_filter,
    .xNext = rows_next,
    .xEof = rows_at_end,
    .xColumn = rows_column,
    .xRowid = rows_rowid,
};
