/* Tables of events: one a class, named as the class is, and `events` over all. Each is a virtual table over a scan.
 * Before it: sql.c. After it: scan.c, sql_aggregate.c. Thread: the connection's.
 *
 * xBestIndex takes what the scan can keep and writes it down (ec_sql_plan_condition), in the order of xFilter's
 * arguments; what is kept exactly is not looked at again by SQLite. Fields are decoded when xColumn first
 * asks for them, so that a batch gives what the statement names and no more. */
#include "sql_parts.h"

#include <string.h>

typedef struct cursor {
    sqlite3_vtab_cursor base;
    ec_scan *scan;
    const ec_block *block; /* NULL: at the end */
    uint32_t at;           /* index into block->selected */
    ea_arena arena;        /* the values of the conditions */
} cursor;

static int add_columns(ea_text *to, const ec_shape *shape) {
    for (size_t i = 0; i < shape->count; i++) {
        const ec_column *c = &shape->columns[i];
        if (i)
            ea_text_char(to, ',');
        ec_sql_add_name(to, c->name);
        ea_text_printf(to, " %s%s", ec_kind_type(c->kind), c->hidden ? " HIDDEN" : "");
    }
    return 0;
}

static int connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret, char **ret_message) {
    const ec_sql_source *from = aux;
    (void)argc, (void)argv;
    int code = ec_sql_shaped_connect(db, from, add_columns, ret, ret_message);
    if (code == SQLITE_OK && from->set)
        ((ec_sql_shaped *)*ret)->rows /= 16;
    return code;
}

static int best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    const ec_sql_shaped *t = (const ec_sql_shaped *)base;
    double rows = t->rows > 100 ? t->rows : 100, decoded = rows;
    int next = 1;
    ea_text plan;
    ea_text_init(&plan);
    for (int i = 0; i < info->nConstraint && !t->sql->options.no_pushdown; i++) {
        enum ec_op op;
        int column = info->aConstraint[i].iColumn;
        if (!info->aConstraint[i].usable || !ec_sql_op(info->aConstraint[i].op, &op) || column < 0 ||
            (size_t)column >= t->shape.count)
            continue;
        int keeps = ec_scan_keeps(&t->shape, (size_t)column, op);
        const ec_column *c = &t->shape.columns[column];
        if (!keeps || (c->kind == EC_KIND_TEXT && !ec_sql_is_binary(info, i)))
            continue;
        ec_sql_plan_condition(&plan, info, i, column, op);
        info->aConstraintUsage[i].argvIndex = next++;
        info->aConstraintUsage[i].omit = keeps == 2;
        ec_sql_share(c, op, &rows, &decoded);
    }
    info->estimatedCost = decoded + rows + 1000; /* even an empty scan opens batches */
    info->estimatedRows = rows < 1 ? 1 : (sqlite3_int64)rows;
    return ec_sql_set_plan(info, &plan);
}

static int open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    cursor *c = ec_sql_zalloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    ea_arena_init(&c->arena, 0);
    *ret = &c->base;
    return SQLITE_OK;
}

static int close_cursor(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    ec_scan_close(c->scan);
    ea_arena_deinit(&c->arena);
    sqlite3_free(c);
    return SQLITE_OK;
}

/* The next block; at its first event. */
static int next_block(cursor *c) {
    ea_err err = {0};
    const ec_block *block = NULL;
    int rc = ec_scan_next(c->scan, &block, &err);
    if (rc < 0)
        return ec_sql_fail(c->base.pVtab, &err);
    c->block = rc ? block : NULL;
    c->at = 0;
    return SQLITE_OK;
}

static int filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    cursor *c = (cursor *)base;
    ec_sql_shaped *t = (ec_sql_shaped *)base->pVtab;
    ea_err err = {0};
    (void)number;
    ec_scan_close(c->scan);
    c->scan = NULL;
    c->block = NULL;
    ea_arena_reset(&c->arena);
    ec_condition *conditions = ea_arena_zalloc(&c->arena, (size_t)argc + 1, sizeof *conditions);
    int rc = conditions ? 0 : ea_fail(&err, EA_ENOMEM, "begin a scan");
    for (int i = 0; !rc && i < argc; i++) {
        size_t column = ec_sql_plan_number(&plan);
        rc = ec_sql_condition(&plan, argv[i], &t->shape, column, &c->arena, &conditions[i], &err);
    }
    if (!rc)
        rc = ec_scan_open(&c->scan, t->sql->archive, &t->shape, conditions, (size_t)argc, &err);
    return rc ? ec_sql_fail(base->pVtab, &err) : next_block(c);
}

static int next(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    return ++c->at < c->block->selected_count ? SQLITE_OK : next_block(c);
}

static int at_end(sqlite3_vtab_cursor *base) {
    return !((cursor *)base)->block;
}

static int column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    cursor *c = (cursor *)base;
    ea_err err = {0};
    ec_value v;
    int rc = ec_scan_value(c->scan, (size_t)which, c->block->selected[c->at], &v, &err);
    if (rc)
        return ec_sql_fail(base->pVtab, &err);
    ec_sql_result(context, &v);
    return SQLITE_OK;
}

/* The same event has the same number in every scan: SQLite joins what several of them find (OR) by it. */
static int rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret) {
    enum { POSITION_BITS = 18 }; /* EA_BATCH_MAX_EVENTS */
    const cursor *c = (const cursor *)base;
    const ec_block *b = c->block;
    *ret = (sqlite3_int64)(b->ordinal << POSITION_BITS | b->rows[b->selected[c->at]]);
    return SQLITE_OK;
}

/* Without xCreate: a table that is there by its module's name alone. */
static const sqlite3_module MODULE = {
    .iVersion = 2,
    .xConnect = connect,
    .xBestIndex = best_index,
    .xDisconnect = ec_sql_shaped_disconnect,
    .xOpen = open_cursor,
    .xClose = close_cursor,
    .xFilter = filter,
    .xNext = next,
    .xEof = at_end,
    .xColumn = column,
    .xRowid = rowid,
};

static int add_module(ec_sql *s, const char *name, const ec_class_set *set, ea_err *err) {
    return ec_sql_add_module(s, name, &MODULE, &(ec_sql_source){s, set}, sizeof(ec_sql_source), err);
}

/* A class may be called anything, and a module replaces one that has its name: those that SQLite brings stay. */
static int is_taken(sqlite3 *db, const char *name, int *ret, ea_err *err) {
    sqlite3_stmt *st = NULL;
    *ret = sqlite3_strnicmp(name, "pragma_", 7) == 0 || sqlite3_strnicmp(name, "sqlite_", 7) == 0;
    if (*ret || strchr(name, '/')) /* none of SQLite's has a slash */
        return 0;
    int code = sqlite3_prepare_v2(db, "SELECT 1 FROM pragma_module_list WHERE name = ?1 COLLATE NOCASE", -1, &st, NULL);
    if (code == SQLITE_OK && sqlite3_bind_text(st, 1, name, -1, SQLITE_STATIC) == SQLITE_OK)
        code = sqlite3_step(st);
    *ret = code == SQLITE_ROW;
    sqlite3_finalize(st);
    return code == SQLITE_ROW || code == SQLITE_DONE
               ? 0
               : ea_fail(err, EA_EDATABASE, "add the tables: %s", sqlite3_errmsg(db));
}

int ec_sql_add_events(ec_sql *s, ea_err *err) {
    size_t count;
    const ec_class_set *sets = ec_archive_sets(s->archive, &count);
    int rc = add_module(s, "events", NULL, err);
    for (size_t i = 0; !rc && i < count; i++) {
        int taken = 0;
        rc = is_taken(s->db, sets[i].name, &taken, err);
        if (!rc && !taken)
            rc = add_module(s, sets[i].name, &sets[i], err);
        if (!rc && !taken)
            rc = ec_sql_add_aggregate(s, sets[i].name, &sets[i], err);
    }
    return rc ? rc : ec_sql_add_aggregate(s, "events", NULL, err);
}
