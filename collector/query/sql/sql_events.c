/* Tables of events: one a class, named as the class is, and `events` over all. Each is a virtual table over a scan.
 * Called by: sql.c. Calls: scan.c, sql_aggregate.c. Thread: the connection's.
 *
 * xBestIndex takes what the scan can keep and writes it down (ec_sql_plan_condition), in the order of xFilter's
 * arguments; what is kept exactly is not looked at again by SQLite. Fields are decoded when xColumn first
 * asks for them, so that a batch gives what the statement names and no more. */
#include "collector/query/sql/sql_groups.h"
#include "collector/query/sql/sql_parts.h"
#include "collector/query/sql/sql_tokens.h"
#include "proto/base/array.h"
#include "proto/base/cli.h"
#include "proto/event/class_names.h"
#include "proto/event/classes/classes.h"
#include "proto/event/schema/described.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The end of the names of tables of groups. */
static const char BY[] = "_by";

enum { BY_BYTES = sizeof BY - 1 };

typedef struct cursor {
    sqlite3_vtab_cursor base;
    ec_scan *scan;
    const ec_block *block; /* NULL: at the end */
    uint32_t at;           /* index into block->selected */
    ea_arena arena;        /* the values of the conditions */
} cursor;

static int events_add_columns(ea_text *to, const ec_table_schema *shape) {
    for (size_t i = 0; i < shape->count; i++) {
        const ec_column *c = &shape->columns[i];
        if (i)
            ea_text_char(to, ',');
        ec_sql_add_name(to, c->name);
        ea_text_printf(to, " %s%s", ec_kind_type(c->kind), c->hidden ? " HIDDEN" : "");
    }
    return 0;
}

static int events_connect(sqlite3 *db, void *aux, int argc, const char *const *argv, sqlite3_vtab **ret,
                          char **ret_message) {
    const ec_sql_source *from = aux;
    (void)argc, (void)argv;
    int code = ec_sql_shaped_connect(db, from, events_add_columns, 0, ret, ret_message);
    if (code == SQLITE_OK && from->set)
        ((ec_sql_shaped *)*ret)->rows /= 16;
    return code;
}

/* Whether a column that is used holds names out of the history; SQLite has one bit for all columns from the 64th on. */
static int events_uses_history(const ec_table_schema *shape, sqlite3_uint64 used) {
    enum { LAST_BIT = 63 };

    for (size_t i = 0; i < shape->count; i++)
        if (shape->columns[i].has_history && used >> (i < LAST_BIT ? i : LAST_BIT) & 1)
            return 1;
    return 0;
}

static int events_best_index(sqlite3_vtab *base, sqlite3_index_info *info) {
    const ec_sql_shaped *t = (const ec_sql_shaped *)base;
    t->sql->uses_history |= events_uses_history(&t->shape, info->colUsed);
    double rows = t->rows > 100 ? t->rows : 100, decoded = rows;
    int next = 1;
    ea_text plan;
    ea_text_init(&plan);
    for (int i = 0; i < info->nConstraint && !t->sql->options.no_pushdown; i++) {
        enum ec_op op;
        ea_err err = {0};
        int column = info->aConstraint[i].iColumn;
        if (column >= 0 && (size_t)column < t->shape.count &&
            ec_sql_check_part(info, i, t->shape.columns[column].kind, t->shape.columns[column].name, &err)) {
            ea_text_deinit(&plan);
            return ec_sql_fail(base, &err);
        }
        if (!info->aConstraint[i].usable || !ec_sql_op(info->aConstraint[i].op, &op) || column < 0 ||
            (size_t)column >= t->shape.count)
            continue;
        int keeps = ec_scan_keeps(&t->shape, (size_t)column, op);
        const ec_column *c = &t->shape.columns[column];
        if (!keeps || (c->kind == EC_KIND_TEXT && !ec_sql_is_binary(info, i)) ||
            ec_sql_is_list_of_addresses(info, i, c->kind))
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

static int events_open_cursor(sqlite3_vtab *base, sqlite3_vtab_cursor **ret) {
    (void)base;
    return ec_sql_open_cursor(sizeof(cursor), offsetof(cursor, arena), ret);
}

static int events_close_cursor(sqlite3_vtab_cursor *base) {
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

static int events_filter(sqlite3_vtab_cursor *base, int number, const char *plan, int argc, sqlite3_value **argv) {
    cursor *c = (cursor *)base;
    ec_sql_shaped *t = (ec_sql_shaped *)base->pVtab;
    ec_row_filter rows;
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
        rc = ec_sql_condition(t->sql, &plan, argv[i], &t->shape, column, &c->arena, &conditions[i], &err);
    }
    if (!rc)
        rc = ec_scan_open(&c->scan, t->sql->archive, &t->shape, &t->sql->annotator, conditions, (size_t)argc, &err);
    if (!rc && t->sql->on_scan && t->sql->on_scan(t->sql->on_scan_arg, &t->shape, &rows))
        ec_scan_set_filter(c->scan, &rows);
    return rc ? ec_sql_fail(base->pVtab, &err) : next_block(c);
}

static int events_next(sqlite3_vtab_cursor *base) {
    cursor *c = (cursor *)base;
    return ++c->at < c->block->selected_count ? SQLITE_OK : next_block(c);
}

static int events_at_end(sqlite3_vtab_cursor *base) {
    return !((cursor *)base)->block;
}

static int events_column(sqlite3_vtab_cursor *base, sqlite3_context *context, int which) {
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
static int events_rowid(sqlite3_vtab_cursor *base, sqlite3_int64 *ret) {
    enum { POSITION_BITS = 18 }; /* EA_BATCH_MAX_EVENTS */

    const cursor *c = (const cursor *)base;
    const ec_block *b = c->block;
    *ret = (sqlite3_int64)(b->ordinal << POSITION_BITS | b->rows[b->selected[c->at]]);
    return SQLITE_OK;
}

/* Without xCreate: a table that is there by its module's name alone. */
static const sqlite3_module MODULE = {
    .iVersion = 2,
    .xConnect = events_connect,
    .xBestIndex = events_best_index,
    .xDisconnect = ec_sql_shaped_disconnect,
    .xOpen = events_open_cursor,
    .xClose = events_close_cursor,
    .xFilter = events_filter,
    .xNext = events_next,
    .xEof = events_at_end,
    .xColumn = events_column,
    .xRowid = events_rowid,
};

static int events_add_module(ec_sql *s, const char *name, const ec_class_set *set, ea_err *err) {
    return ec_sql_add_module(s, name, &MODULE, &(ec_sql_source){s, set}, sizeof(ec_sql_source), err);
}

void ec_sql_on_scan(ec_sql *s, int (*fn)(void *arg, const ec_table_schema *shape, ec_row_filter *ret), void *arg) {
    s->on_scan = fn;
    s->on_scan_arg = arg;
}

/* ---- which of them a connection has ---- */

static int compare_names(const void *a, const void *b) {
    return sqlite3_stricmp(*(char *const *)a, *(char *const *)b);
}

/* Lists the connection's modules: SQLite's own ones, and those that were added so far. */
static int list_names(ec_sql *s, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int rc = 0, code = sqlite3_prepare_v2(s->db, "SELECT name FROM pragma_module_list", -1, &st, NULL);
    while (!rc && code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        char *copy = sqlite3_mprintf("%s", sqlite3_column_text(st, 0));
        rc = copy ? EA_GROW(s->taken, s->taken_capacity, s->taken_count + 1, SIZE_MAX) : EA_ENOMEM;
        if (!rc)
            s->taken[s->taken_count++] = copy;
        else
            sqlite3_free(copy);
        code = SQLITE_OK;
    }
    sqlite3_finalize(st);
    if (rc)
        return ea_fail(err, EA_ENOMEM, "add the tables");
    if (code != SQLITE_DONE)
        return ea_fail(err, EA_EDATABASE, "add the tables: %s", sqlite3_errmsg(s->db));
    if (s->taken_count)
        qsort(s->taken, s->taken_count, sizeof *s->taken, compare_names);
    return 0;
}

/* A class may have any name, and a module replaces one of the same name: the tables that exist before the classes'
 * stay. */
static int sql_events_is_taken(const ec_sql *s, const char *name) {
    return sqlite3_strnicmp(name, "pragma_", 7) == 0 || sqlite3_strnicmp(name, "sqlite_", 7) == 0 ||
           sqlite3_strnicmp(name, EC_SQL_GROUPS_PREFIX, sizeof EC_SQL_GROUPS_PREFIX - 1) == 0 ||
           (s->taken_count && bsearch(&name, s->taken, s->taken_count, sizeof *s->taken, compare_names));
}

int ec_sql_add_events(ec_sql *s, ea_err *err) {
    int rc = events_add_module(s, "events", NULL, err);
    if (!rc)
        rc = ec_sql_add_aggregate(s, "events", NULL, err);
    return rc ? rc : list_names(s, err);
}

/* Adds the tables of one class, if it is one's name. Searching the connection's modules takes longer the more there
 * are: a store may have a million classes, and a statement names a few. */
static int events_add_class(ec_sql *s, const char *name, ea_err *err) {
    const ec_class_set *set = NULL;
    int rc = ec_archive_set(s->archive, name, &set, err);
    if (rc || !set || (set->number < s->added_count && s->added[set->number]) || sql_events_is_taken(s, set->name))
        return rc;
    rc = events_add_module(s, set->name, set, err);
    if (!rc)
        rc = ec_sql_add_aggregate(s, set->name, set, err);
    size_t wanted = set->number + 1;
    if (!rc && EA_GROW(s->added, s->added_capacity, wanted, SIZE_MAX))
        rc = ea_fail(err, EA_ENOMEM, "add the table %s", name);
    for (; !rc && s->added_count < wanted; s->added_count++)
        s->added[s->added_count] = 0;
    if (!rc)
        s->added[set->number] = 1;
    return rc;
}

int ec_sql_use(ec_sql *s, const char *name, size_t len_bytes, ea_err *err) {
    char *copy = malloc(len_bytes + 1);
    if (!copy)
        return ea_fail(err, EA_ENOMEM, "add a class's tables");
    memcpy(copy, name, len_bytes);
    copy[len_bytes] = 0;
    int rc = events_add_class(s, copy, err);
    if (!rc && len_bytes > BY_BYTES && sqlite3_stricmp(copy + len_bytes - BY_BYTES, BY) == 0) {
        copy[len_bytes - BY_BYTES] = 0;
        rc = events_add_class(s, copy, err);
    }
    free(copy);
    return rc;
}

int ec_sql_events_of(ec_sql *s, const char *name, const ec_class_set **ret, ea_err *err) {
    *ret = NULL;
    if (sqlite3_stricmp(name, "events") == 0)
        return 1;
    if (ec_sql_is_view(name) || sql_events_is_taken(s, name))
        return 0;
    int rc = ec_archive_set(s->archive, name, ret, err);
    return rc ? rc
              : *ret && sqlite3_stricmp((*ret)->name, name) == 0 && (*ret)->number < s->added_count &&
                    s->added[(*ret)->number];
}

static int sql_events_is_identifier(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '$' ||
           (unsigned char)c >= 0x80;
}

/* Where the comment at `at` ends, which may be the text's end; `at` when there is none. */
static const char *after_comment(const char *at) {
    const char *end;
    if (at[0] == '-' && at[1] == '-')
        return at + strcspn(at, "\n");
    if (at[0] != '/' || at[1] != '*')
        return at;
    end = strstr(at + 2, "*/");
    return end ? end + 2 : at + strlen(at);
}

/* Reads the text between the quotes at *at, a doubled quote once; *at is then after the closing one. EA_ENOMEM. */
static int read_quoted(const char **at, ea_text *out) {
    char close = **at == '[' ? ']' : **at;
    const char *c = *at + 1;
    ea_text_clear(out);
    for (; *c && (*c != close || (close != ']' && c[1] == close)); c++) {
        c += *c == close;
        ea_text_char(out, *c);
    }
    *at = *c ? c + 1 : c;
    return out->failed ? EA_ENOMEM : 0;
}

/* Adds the tables of the classes that a statement names. */
static int use_names(ec_sql *s, const char *sql, ea_err *err) {
    ea_text quoted;
    int rc = 0;
    ea_text_init(&quoted);
    for (const char *at = sql, *end; !rc && *at;) {
        if ((end = after_comment(at)) != at) {
            at = end;
        } else if (strchr("\"'`[", *at)) {
            rc = read_quoted(&at, &quoted);
            if (!rc && quoted.len_bytes)
                rc = ec_sql_use(s, quoted.data, quoted.len_bytes, err);
        } else if (sql_events_is_identifier(*at)) {
            for (end = at; sql_events_is_identifier(*end);)
                end++;
            rc = ec_sql_use(s, at, (size_t)(end - at), err);
            at = end;
        } else {
            at++;
        }
    }
    ea_text_deinit(&quoted);
    return rc;
}

enum { NEAR_MAX = 3, NEAR_BYTES = 64 };

/* Remembers the name when it is nearer to what was asked for than that before. */
static void sql_events_consider(const char *asked, const char *name, size_t *distance, const char **nearest) {
    size_t d = strlen(asked) < NEAR_BYTES && strlen(name) < NEAR_BYTES ? ea_name_distance(asked, name) : SIZE_MAX;
    if (d <= NEAR_MAX && d < *distance) {
        *distance = d;
        *nearest = name;
    }
}

/* Whether a distance says something of so short a name. */
static int is_near(const char *asked, size_t distance) {
    return 2 * distance <= strlen(asked) + 1;
}

/* 1 when the catalogue has a class of the name, or of the alias. */
static int is_in_catalogue(const char *name, ea_err *err) {
    ea_class_list list = {0};
    ea_registry *registry = NULL;
    int found = 0, rc = ea_registry_create(&registry, 0, err);
    if (!rc)
        rc = ea_described_classes(&list, registry, NULL, err);
    for (size_t i = 0; !rc && !found && i < list.count; i++)
        found = ea_class_is_named(name, list.items[i]);
    free(list.items);
    ea_registry_destroy(registry);
    return rc ? rc : found;
}

/* Why there is no table of the name: it is a class of which nothing is stored, or a mistyped one. asked: as the
 * statement has it: the name, or the name with _by. */
static int fail_missing_class(ec_sql *s, const char *name, const char *asked, ea_err *err) {
    const char *rest = asked + strlen(name);
    const ea_class *const *classes;
    size_t count = 0, distance = SIZE_MAX;
    const char *nearest = NULL;
    int rc = ec_archive_classes(s->archive, &classes, &count, err);
    for (size_t i = 0; !rc && i < count; i++)
        if (*classes[i]->name) /* "": it is unknown */
            sql_events_consider(name, classes[i]->name, &distance, &nearest);
    for (size_t i = 0; !rc && i < ea_family_count; i++)
        for (size_t k = 0; k < ea_families[i]->row_count; k++) {
            const ea_provider_row *p = ea_families[i]->provider;
            if (strcasecmp(ea_families[i]->rows[k].name, name) == 0 ||
                ea_event_has_alias(name, strlen(name), &p->guid, p->name, p->classic, ea_families[i]->rows[k].code))
                return ea_fail(err, EA_ENOTFOUND, "no such table: %.80s: no event of this class is stored", asked);
            sql_events_consider(name, ea_families[i]->rows[k].name, &distance, &nearest);
        }
    for (size_t i = 0; !rc && i < s->taken_count; i++)
        if (sqlite3_strnicmp(s->taken[i], "pragma_", 7) != 0 && is_near(name, ea_name_distance(name, s->taken[i])))
            sql_events_consider(name, s->taken[i], &distance, &nearest);
    if (!rc && (rc = is_in_catalogue(name, err)) > 0)
        return ea_fail(err, EA_ENOTFOUND, "no such table: %.80s: no event of this class is stored", asked);
    return rc ? rc
              : ea_fail(err, EA_EUSAGE,
                        "no such table: %.80s%s%s%s%s; SELECT DISTINCT name FROM classes lists stored classes", asked,
                        nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? rest : "",
                        nearest ? "\"?" : "");
}

static int fail_missing_table(ec_sql *s, const char *asked, ea_err *err) {
    char name[2 * NEAR_BYTES];
    size_t n = strlen(asked);
    if (n <= BY_BYTES || n >= sizeof name || sqlite3_stricmp(asked + n - BY_BYTES, BY) != 0)
        return fail_missing_class(s, asked, asked, err);
    memcpy(name, asked, n - BY_BYTES);
    name[n - BY_BYTES] = 0;
    return fail_missing_class(s, name, asked, err);
}

/* Notes the columns of a table that a statement names; other words have none. */
static void note_columns(ec_sql *s, const ec_sql_token *t, const char *asked, ea_near *near) {
    char table[4 * NEAR_BYTES];
    sqlite3_stmt *st = NULL;
    if ((t->kind != EC_TOKEN_WORD && t->kind != EC_TOKEN_NAME) || t->len_bytes >= sizeof table)
        return;
    ec_sql_token_value(t, table);
    if (sqlite3_prepare_v2(s->db, "SELECT name FROM pragma_table_xinfo(?1)", -1, &st, NULL) == SQLITE_OK &&
        sqlite3_bind_text(st, 1, table, -1, SQLITE_STATIC) == SQLITE_OK)
        while (sqlite3_step(st) == SQLITE_ROW)
            ea_near_note(near, asked, (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
}

/* code: of a statement that cannot be prepared. With a nearest function for one that there is not; else the same code
 * again. */
static int explain_function(ec_sql *s, int code, ea_err *err) {
    static const char MISSING[] = "no such function: ";
    const char *message = code == SQLITE_ERROR ? sqlite3_errmsg(s->db) : "";
    if (strncmp(message, MISSING, sizeof MISSING - 1) != 0 || !err)
        return code;
    char name[2 * NEAR_BYTES];
    snprintf(name, sizeof name, "%s", message + sizeof MISSING - 1);
    ea_near near = {0};
    sqlite3_stmt *st = NULL;
    int describes_tables = s->describes_tables;
    if (sqlite3_prepare_v2(s->db, "SELECT DISTINCT name FROM pragma_function_list ORDER BY 1", -1, &st, NULL) ==
        SQLITE_OK)
        while (sqlite3_step(st) == SQLITE_ROW)
            ea_near_note(&near, name, (const char *)sqlite3_column_text(st, 0));
    sqlite3_finalize(st);
    s->describes_tables = describes_tables;
    if (!is_near(name, near.distance))
        *near.name = 0;
    (void)ea_fail(err, EA_EUSAGE, "no such function: %.120s%s%s%s", name, *near.name ? "; did you mean \"" : "",
                  near.name, *near.name ? "\"?" : "");
    return SQLITE_IOERR;
}

/* The same of columns, with a word about quotes for a text in double ones; else what explain_function says. */
static int explain_column(ec_sql *s, const char *sql, int code, ea_err *err) {
    static const char MISSING[] = "no such column: ";

    enum { TABLES_MAX = 64 /* words that are looked at */ };

    const char *message = code == SQLITE_ERROR ? sqlite3_errmsg(s->db) : "";
    if (strncmp(message, MISSING, sizeof MISSING - 1) != 0 || !err)
        return explain_function(s, code, err);
    char name[2 * NEAR_BYTES];
    snprintf(name, sizeof name, "%s", message + sizeof MISSING - 1);
    const char *dot = strrchr(name, '.'), *asked = dot ? dot + 1 : name;
    int describes_tables = s->describes_tables, is_quoted = 0;
    ea_near near = {0};
    ec_sql_lexer l = {.at = sql, .end = sql + strlen(sql)};
    for (size_t i = 0; ec_sql_lexer_next(&l), l.token.kind != EC_TOKEN_END;) {
        const ec_sql_token *t = &l.token;
        is_quoted |= t->kind == EC_TOKEN_NAME && *t->text == '"' && t->len_bytes == strlen(name) + 2 &&
                     memcmp(t->text + 1, name, t->len_bytes - 2) == 0;
        if ((t->kind == EC_TOKEN_WORD || t->kind == EC_TOKEN_NAME) && i++ < TABLES_MAX)
            note_columns(s, t, asked, &near);
    }
    s->describes_tables = describes_tables;
    if (!is_near(asked, near.distance))
        *near.name = 0;
    (void)ea_fail(err, EA_EUSAGE, "no such column: %.120s%s%s%s%s", name, *near.name ? "; did you mean \"" : "",
                  near.name, *near.name ? "\"?" : "",
                  is_quoted ? "; a text is written in single quotes, as in host = 'web-1'" : "");
    return SQLITE_IOERR;
}

int ec_sql_prepare_as_written(ec_sql *s, const char *sql, sqlite3_stmt **ret, const char **ret_tail, ea_err *err) {
    s->describes_tables = 0;
    int code = sqlite3_prepare_v3(s->db, sql, -1, 0, ret, ret_tail), rc;
    /* A class's table is added when a statement fails for lack of a table; a pragma asks about one when it runs. */
    if (code != SQLITE_OK ? code != SQLITE_ERROR || strncmp(sqlite3_errmsg(s->db), "no such table", 13) != 0
                          : !s->describes_tables)
        return explain_column(s, sql, code, err);
    sqlite3_finalize(*ret);
    *ret = NULL;
    if ((rc = use_names(s, sql, err)))
        return rc == EA_ENOMEM ? SQLITE_NOMEM : SQLITE_IOERR;
    code = sqlite3_prepare_v3(s->db, sql, -1, 0, ret, ret_tail);
    static const char MISSING[] = "no such table: ";
    const char *message = code == SQLITE_ERROR ? sqlite3_errmsg(s->db) : "";
    if (strncmp(message, MISSING, sizeof MISSING - 1) != 0 || !err)
        return explain_column(s, sql, code, err);
    char name[NEAR_BYTES + 20];
    snprintf(name, sizeof name, "%s", message + sizeof MISSING - 1);
    return fail_missing_table(s, name, err) == EA_ENOMEM ? SQLITE_NOMEM : SQLITE_IOERR;
}
