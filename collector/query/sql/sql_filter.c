/* See sql_filter.h. A leaf's text is compiled once a run over a table of one row, which has the leaf's column under its
 * own name and type: affinities, collations and functions are those of the statement.
 *
 *   ... WHERE FileName LIKE '%.dll' AND (pid <> 4 OR tid IN (8, 12))
 *   SELECT NOT (FileName LIKE '%.dll') FROM "(grouped filter 1.0)" AS "Image/Load"
 *
 * Called by: sql_push_parts.c, sql_groups.c, sql_rows.c. Calls: scan.h, SQLite. Thread: the connection's. */
#include "collector/query/sql/sql_filter.h"

#include "collector/query/analysis/block_keys.h"
#include "collector/query/sql/sql_groups.h"
#include "proto/base/array.h"

#include <stdlib.h>
#include <string.h>

enum { MEMO_BITS = 12, MEMO_SIZE = 1 << MEMO_BITS };

/* What an expression is for an event. */
enum truth { IS_FALSE, IS_TRUE, IS_UNKNOWN, NOT_ASKED };

/* ---- the table of one value ---- */

/* A module's: what its table's row has. */
typedef struct ec_filter_slot {
    char *declaration;
    const ec_value *value;
} ec_filter_slot;

typedef struct filter_table {
    sqlite3_vtab base;
    ec_filter_slot *slot;
} filter_table;

typedef struct filter_cursor {
    sqlite3_vtab_cursor base;
    int is_over;
} filter_cursor;

static void destroy_slot(void *p) {
    ec_filter_slot *s = p;
    free(s->declaration);
    free(s);
}

static int filter_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                          char **ret_message) {
    ec_filter_slot *s = aux;
    ea_text columns;
    (void)argc, (void)argv;
    ea_text_init(&columns);
    ea_text_str(&columns, s->declaration);
    int code = ec_sql_make_table(db, 0, NULL, &columns, sizeof(filter_table), ret, ret_message);
    if (code == SQLITE_OK) {
        sqlite3_vtab_config(db, SQLITE_VTAB_INNOCUOUS);
        ((filter_table *)*ret)->slot = s;
    }
    return code;
}

static int filter_disconnect(sqlite3_vtab *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

static int filter_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    (void)base;
    info->estimatedCost = info->estimatedRows = 1;
    return SQLITE_OK;
}

static int filter_open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    filter_cursor *c = ec_sql_zalloc(sizeof *c);
    if (!c)
        return SQLITE_NOMEM;
    *ret = &c->base;
    return SQLITE_OK;
}

static int filter_close_cursor(sqlite3_vtab_cursor *base) {
    sqlite3_free(base);
    return SQLITE_OK;
}

static int filter_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    (void)number, (void)plan, (void)argc, (void)argv;
    ((filter_cursor *)base)->is_over = !((const filter_table *)base->pVtab)->slot->value;
    return SQLITE_OK;
}

static int filter_next(sqlite3_vtab_cursor *base) {
    ((filter_cursor *)base)->is_over = 1;
    return SQLITE_OK;
}

static int filter_at_end(sqlite3_vtab_cursor *base) {
    return ((const filter_cursor *)base)->is_over;
}

static int filter_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
    (void)which;
    ec_sql_result(context, ((const filter_table *)base->pVtab)->slot->value);
    return SQLITE_OK;
}

static int filter_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret) {
    (void)base;
    *ret = 1;
    return SQLITE_OK;
}

static const sqlite3_module FILTER_MODULE = {
    .iVersion = 2,
    .xConnect = filter_connect,
    .xBestIndex = filter_best_index,
    .xDisconnect = filter_disconnect,
    .xOpen = filter_open_cursor,
    .xClose = filter_close_cursor,
    .xFilter = filter_filter,
    .xNext = filter_next,
    .xEof = filter_at_end,
    .xColumn = filter_column,
    .xRowid = filter_rowid,
};

/* ---- the tree ---- */

void ec_filter_cut(ec_filter *f, size_t count) {
    while (f->node_count > count) {
        f->node_count--;
        free(f->nodes[f->node_count].text);
        free(f->nodes[f->node_count].table);
    }
}

void ec_filter_deinit(ec_filter *f) {
    ec_filter_cut(f, 0);
    for (size_t i = 0; i < f->root_count; i++)
        free(f->texts[i]);
    free(f->alias);
    *f = (ec_filter){0};
}

static int is_leaf(const ec_filter_node *n) {
    return n->what == EC_FILTER_LEAF || n->what == EC_FILTER_NUMBER;
}

/* Adds the module of a leaf, whose slot is the connection's from then on. */
static int add_leaf(ec_filter_node *n, sqlite3 *db, const ec_table_schema *shape, const char *name) {
    const ec_column *c = &shape->columns[n->column];
    ea_text declaration;
    ea_text_init(&declaration);
    ec_sql_add_name(&declaration, c->name);
    ea_text_printf(&declaration, " %s", ec_kind_type(c->kind));
    ec_filter_slot *s = calloc(1, sizeof *s);
    n->table = strdup(name);
    if (!s || !n->table || declaration.failed) {
        ea_text_deinit(&declaration);
        free(s);
        return EA_ENOMEM;
    }
    s->declaration = declaration.data;
    n->slot = s;
    return sqlite3_create_module_v2(db, name, &FILTER_MODULE, s, destroy_slot) == SQLITE_OK ? 0 : EA_ENOMEM;
}

int ec_filter_add_modules(ec_filter *f, sqlite3 *db, const ec_table_schema *shape, unsigned number, ea_err *err) {
    char name[64];
    for (size_t i = 0; i < f->node_count; i++) {
        snprintf(name, sizeof name, EC_SQL_GROUPS_PREFIX "filter %u.%zu)", number, i);
        if (is_leaf(&f->nodes[i]) && add_leaf(&f->nodes[i], db, shape, name))
            return ea_fail(err, EA_ENOMEM, "filter events");
    }
    return 0;
}

/* ---- a run ---- */

typedef struct leaf {
    sqlite3_stmt *st;
    int64_t memo_of[MEMO_SIZE];
    uint8_t memo[MEMO_SIZE]; /* enum truth */
} leaf;

struct ec_filter_run {
    const ec_filter *filter;
    ec_keys keys; /* for numbers of columns alone: nothing is interned */
    sqlite3 *db;
    leaf *leaves[EC_FILTER_NODES_MAX]; /* by node */
    uint8_t *truths;                   /* [node][capacity] */
    size_t truths_capacity, capacity;
    int64_t *numbers;
    size_t numbers_capacity;
    uint8_t *marks; /* of a dictionary's values */
    size_t marks_capacity;
};

static int filter_no_memory(ea_err *err) {
    return ea_fail(err, EA_ENOMEM, "filter events");
}

static int open_leaf(ec_filter_run *r, size_t which, const char *name, ea_err *err) {
    const ec_filter_node *n = &r->filter->nodes[which];
    leaf *l = r->leaves[which] = malloc(sizeof *l);
    if (!l)
        return filter_no_memory(err);
    l->st = NULL;
    memset(l->memo, NOT_ASKED, sizeof l->memo);
    ea_text sql;
    ea_text_init(&sql);
    ea_text_printf(&sql, "SELECT NOT (%s) FROM ", n->text);
    ec_sql_add_name(&sql, n->table);
    ea_text_str(&sql, " AS ");
    ec_sql_add_name(&sql, name);
    int code = sql.failed ? SQLITE_NOMEM : sqlite3_prepare_v3(r->db, sql.data, -1, 0, &l->st, NULL);
    ea_text_deinit(&sql);
    return code == SQLITE_OK      ? 0
           : code == SQLITE_NOMEM ? filter_no_memory(err)
                                  : ea_fail(err, EA_EUSAGE, "filter events: %s", sqlite3_errmsg(r->db));
}

int ec_filter_open(ec_filter_run **ret, const ec_filter *f, sqlite3 *db, const ec_table_schema *shape,
                   const char *table, ea_err *err) {
    ec_filter_run *r = calloc(1, sizeof *r);
    int rc = 0;
    if (!r)
        return filter_no_memory(err);
    r->filter = f;
    r->db = db;
    ec_keys_init(&r->keys, shape);
    for (size_t i = 0; !rc && i < f->node_count; i++)
        if (is_leaf(&f->nodes[i]))
            rc = open_leaf(r, i, f->alias ? f->alias : table, err);
    if (rc)
        ec_filter_close(r);
    else
        *ret = r;
    return rc;
}

void ec_filter_close(ec_filter_run *r) {
    if (!r)
        return;
    for (size_t i = 0; i < EC_FILTER_NODES_MAX; i++) {
        if (r->leaves[i])
            sqlite3_finalize(r->leaves[i]->st);
        free(r->leaves[i]);
    }
    ec_keys_deinit(&r->keys);
    free(r->truths);
    free(r->numbers);
    free(r->marks);
    free(r);
}

/* ---- leaves ---- */

/* A leaf at hand: its values go to `to`, one for each selected event. */
typedef struct asked {
    ec_filter_run *run;
    ec_scan *scan;
    const ec_block *block; /* with what is selected now */
    const ec_filter_node *node;
    leaf *leaf;
    uint8_t *to;
} asked;

/* Asks SQLite. */
static int sql_filter_evaluate(const asked *a, const ec_value *v, uint8_t *ret, ea_err *err) {
    sqlite3_stmt *st = a->leaf->st;
    a->node->slot->value = v;
    int code = sqlite3_step(st);
    if (code == SQLITE_ROW)
        *ret = sqlite3_column_type(st, 0) == SQLITE_NULL ? IS_UNKNOWN : sqlite3_column_int(st, 0) ? IS_FALSE : IS_TRUE;
    if (code != SQLITE_ROW)
        (void)ea_fail(err, EA_EUSAGE, "filter events: %s", sqlite3_errmsg(a->run->db));
    sqlite3_reset(st);
    a->node->slot->value = NULL;
    switch (code & 0xFF) {
    case SQLITE_ROW:
        return 0;
    case SQLITE_NOMEM:
        return filter_no_memory(err);
    case SQLITE_INTERRUPT:
        return ea_fail(err, EA_ECANCELED, "filter events");
    default:
        return EA_EUSAGE;
    }
}

static uint8_t compare_number(const ec_filter_node *n, int64_t v) {
    switch (n->op) {
    case EC_FILTER_EQ:
        return v == n->number;
    case EC_FILTER_NE:
        return v != n->number;
    case EC_FILTER_LT:
        return v < n->number;
    case EC_FILTER_LE:
        return v <= n->number;
    case EC_FILTER_GT:
        return v > n->number;
    default:
        return v >= n->number;
    }
}

static int ask_number(const asked *a, int64_t v, uint8_t *ret, ea_err *err) {
    if (a->node->what == EC_FILTER_NUMBER) {
        *ret = compare_number(a->node, v);
        return 0;
    }
    size_t at = (size_t)(((uint64_t)v * UINT64_C(0x9E3779B97F4A7C15)) >> (64 - MEMO_BITS));
    if (a->leaf->memo[at] == NOT_ASKED || a->leaf->memo_of[at] != v) {
        uint8_t truth;
        int rc = sql_filter_evaluate(a, &(ec_value){.type = EC_INT, .i = v}, &truth, err);
        if (rc)
            return rc;
        a->leaf->memo_of[at] = v;
        a->leaf->memo[at] = truth;
    }
    *ret = a->leaf->memo[at];
    return 0;
}

static int ask_value(const asked *a, const ec_value *v, uint8_t *ret, ea_err *err) {
    if (v->type == EC_INT)
        return ask_number(a, v->i, ret, err);
    if (v->type == EC_NULL && a->node->what == EC_FILTER_NUMBER) {
        *ret = IS_UNKNOWN;
        return 0;
    }
    return sql_filter_evaluate(a, v, ret, err);
}

/* One value for the whole block. */
static int ask_constant(const asked *a, const ec_value *v, ea_err *err) {
    uint8_t truth = IS_FALSE;
    int rc = ask_value(a, v, &truth, err);
    if (!rc)
        memset(a->to, truth, a->block->selected_count);
    return rc;
}

static int ask_rows(const asked *a, ea_err *err) {
    int rc = 0;
    for (uint32_t i = 0; !rc && i < a->block->selected_count; i++) {
        ec_value v;
        rc = ec_scan_value(a->scan, a->node->column, a->block->selected[i], &v, err);
        if (!rc)
            rc = ask_value(a, &v, &a->to[i], err);
    }
    return rc;
}

/* 1: done; 0: the column has no dictionary. */
static int ask_dictionary(const asked *a, ea_err *err) {
    ec_filter_run *r = a->run;
    ea_column values = {0};
    const uint32_t *index = NULL;
    int rc = ec_scan_dictionary(a->scan, a->node->column, &values, &index, err);
    if (rc != 1)
        return rc < 0 && ec_is_damage(rc) ? 0 : rc; /* row by row each damage is reported */
    if (EA_GROW(r->marks, r->marks_capacity, (size_t)values.count + 1, SIZE_MAX))
        return filter_no_memory(err);
    memset(r->marks, NOT_ASKED, values.count);
    for (uint32_t i = 0; i < a->block->selected_count; i++) {
        uint32_t at = index[a->block->selected[i]]; /* NOLINT(clang-analyzer-*): a dictionary comes with its indexes */
        if (r->marks[at] == NOT_ASKED) {
            ec_value v;
            rc = ec_scan_row_value(a->scan, a->node->column, &values, at, &v, err);
            rc = rc ? rc : ask_value(a, &v, &r->marks[at], err);
            if (rc)
                return rc;
        }
        a->to[i] = r->marks[at];
    }
    return 1;
}

static int ask_field(const asked *a, ea_err *err) {
    ec_filter_run *r = a->run;
    const ec_column *c = &r->keys.shape->columns[a->node->column];
    int all_null = 0, rc = 0;
    if (c->is_name)
        return ask_rows(a, err);
    if (c->kind == EC_KIND_TEXT) {
        rc = ask_dictionary(a, err);
        return rc < 0 ? rc : rc ? 0 : ask_rows(a, err);
    }
    rc = ec_keys_numbers(&r->keys, a->node->column, a->block, r->numbers, &all_null, err);
    if (rc < 0)
        return rc;
    if (all_null)
        return ask_constant(a, &(ec_value){.type = EC_NULL}, err);
    if (rc == 0)
        return ask_rows(a, err);
    rc = 0;
    for (uint32_t i = 0; !rc && i < a->block->selected_count; i++)
        rc = ask_number(a, r->numbers[i], &a->to[i], err);
    return rc;
}

static int ask_events(const asked *a, int common, ea_err *err) {
    const ec_block *b = a->block;
    const ea_batch_events *e = b->events;
    int rc = 0;
    for (uint32_t i = 0; !rc && i < b->selected_count; i++) {
        uint32_t event = b->rows[b->selected[i]];
        int64_t v = common == EC_PID   ? e->pid[e->thread[event]]
                    : common == EC_TID ? e->tid[e->thread[event]]
                                       : e->cpu[event];
        rc = ask_number(a, v, &a->to[i], err);
    }
    return rc;
}

static int ask_leaf(const asked *a, ea_err *err) {
    const ec_table_schema *shape = a->run->keys.shape;
    ec_value v;
    if (ec_scan_is_constant(shape, a->node->column)) {
        int rc = ec_scan_value(a->scan, a->node->column, a->block->selected[0], &v, err);
        return rc ? rc : ask_constant(a, &v, err);
    }
    int common = shape->columns[a->node->column].common;
    switch (common) {
    case EC_COMMON_COUNT:
        return ask_field(a, err);
    case EC_PID:
    case EC_TID:
    case EC_CPU:
        return ask_events(a, common, err);
    default:
        return ask_rows(a, err);
    }
}

int ec_filter_is_of_constants(const ec_filter *f, const ec_table_schema *shape) {
    for (size_t i = 0; i < f->node_count; i++)
        if (is_leaf(&f->nodes[i]) && !ec_scan_is_constant(shape, f->nodes[i].column))
            return 0;
    return 1;
}

/* ---- trees ---- */

static const uint8_t AND_OF[3][3] = {
    {IS_FALSE, IS_FALSE, IS_FALSE}, {IS_FALSE, IS_TRUE, IS_UNKNOWN}, {IS_FALSE, IS_UNKNOWN, IS_UNKNOWN}};
static const uint8_t OR_OF[3][3] = {
    {IS_FALSE, IS_TRUE, IS_UNKNOWN}, {IS_TRUE, IS_TRUE, IS_TRUE}, {IS_UNKNOWN, IS_TRUE, IS_UNKNOWN}};
static const uint8_t NOT_OF[3] = {IS_TRUE, IS_FALSE, IS_UNKNOWN};

static int ask_node(asked *a, size_t which, ea_err *err) {
    ec_filter_run *r = a->run;
    const ec_filter_node *n = &r->filter->nodes[which];
    uint8_t *to = r->truths + which * r->capacity;
    const uint8_t *x = r->truths + n->a * r->capacity, *y = r->truths + n->b * r->capacity;
    if (is_leaf(n)) {
        a->node = n;
        a->leaf = r->leaves[which];
        a->to = to;
        return ask_leaf(a, err);
    }
    for (uint32_t i = 0; i < a->block->selected_count; i++)
        to[i] = n->what == EC_FILTER_NOT   ? NOT_OF[x[i]]
                : n->what == EC_FILTER_AND ? AND_OF[x[i]][y[i]]
                                           : OR_OF[x[i]][y[i]];
    return 0;
}

int ec_filter_keep(void *run, ec_scan *s, const ec_block *b, uint32_t *selected, uint32_t *count, ea_err *err) {
    ec_filter_run *r = run;
    const ec_filter *f = r->filter;
    size_t capacity = b->count, first = 0;
    r->keys.scan = s;
    if (EA_GROW(r->truths, r->truths_capacity, capacity * f->node_count, SIZE_MAX) ||
        EA_GROW(r->numbers, r->numbers_capacity, capacity, SIZE_MAX))
        return filter_no_memory(err);
    r->capacity = capacity;
    for (size_t i = 0; *count && i < f->root_count; i++) {
        ec_block now = *b;
        now.selected = selected;
        now.selected_count = *count;
        asked a = {.run = r, .scan = s, .block = &now};
        for (; first <= f->roots[i]; first++) {
            int rc = ask_node(&a, first, err);
            if (rc)
                return rc;
        }
        const uint8_t *truths = r->truths + f->roots[i] * capacity;
        uint32_t n = 0;
        for (uint32_t k = 0; k < *count; k++) {
            uint32_t row = selected[k];
            selected[n] = row;
            n += truths[k] == IS_TRUE;
        }
        *count = n;
    }
    return 0;
}
