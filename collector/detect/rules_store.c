/* See rules_store.h. collector/query/SQL.md describes the tables. */
#include "collector/detect/rules_store.h"

#include "collector/query/sql/sql.h"
#include "proto/base/map.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { MAINS_MAX = 1 << 16 /* processes whose main modules are remembered */ };

/* The first class of each alternative: of "A+B,C+B" A and C. */
static const char *store_next_class(const char *at, size_t *ret_len) {
    *ret_len = strcspn(at, "+,");
    return at + strcspn(at, ",");
}

static int store_has_class(const ea_sigma_row *row, const char *class_name, size_t len) {
    for (const char *at = row->events;;) {
        size_t n;
        const char *end = store_next_class(at, &n);
        if (n == len && memcmp(at, class_name, len) == 0)
            return 1;
        if (!*end)
            return 0;
        at = end + 1;
    }
}

/* 1 when an earlier row of the source names the class. */
static int store_is_before(const ea_sigma_source *s, const ea_sigma_row *row, const char *class_name, size_t len) {
    for (const ea_sigma_row *r = s->rows; r < row; r++)
        if (store_has_class(r, class_name, len))
            return 1;
    return 0;
}

int ec_rules_each_class(const ea_sigma_source *s, int (*fn)(void *arg, const char *class_name, size_t len), void *arg) {
    for (size_t i = 0; i < s->row_count; i++) {
        for (const char *at = s->rows[i].events; *at && *at != '-';) {
            size_t n;
            const char *end = store_next_class(at, &n);
            int rc = store_is_before(s, &s->rows[i], at, n) ? 0 : fn(arg, at, n);
            if (rc)
                return rc;
            at = *end ? end + 1 : end;
        }
    }
    return 0;
}

/* A field of the event. A field called like the column pid is pid_2. */
static void store_add_field(ea_text *t, const char *name, size_t len, const char *suffix) {
    ea_text_printf(t, "e.\"%.*s%s%s\"", (int)len, name, len == 3 && strncasecmp(name, "pid", 3) == 0 ? "_2" : "",
                   suffix);
}

static void store_add_text(ea_text *t, const char *text) {
    ea_text_char(t, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            ea_text_char(t, '\'');
        ea_text_char(t, *text);
    }
    ea_text_char(t, '\'');
}

/* Which joins a statement needs. */
typedef struct store_joins {
    int process, parent, grandparent, target;                         /* of processes */
    int process_image, parent_image, grandparent_image, target_image; /* of their main modules */
    int file;                                                         /* of the image that an event names */
} store_joins;

/* The columns of a process, by the names of sigma_fields.h; alias: of processes, image: of its main module. */
static void store_add_process(ea_text *t, const char *alias, const char *image, const char *name) {
    if (strcmp(name, "path") == 0)
        ea_text_printf(t, "coalesce(%s.path, %s.image_name)", image, alias);
    else
        ea_text_printf(t, "%s.%s", alias,
                       strcmp(name, "id") == 0          ? "pid"
                       : strcmp(name, "parent_id") == 0 ? "parent_pid"
                                                        : name);
}

/* Names of facts of an image file (ImageFile/Facts) in the table modules. */
static const struct {
    const char *name, *column;
} FACTS[] = {
    {"CompanyName", "company"},
    {"FileDescription", "description"},
    {"FileVersion", "file_version"},
    {"ImpHash", "imphash"},
    {"Md5", "md5"},
    {"OriginalFileName", "original_name"},
    {"ProductName", "product"},
    {"Sha1", "sha1"},
    {"Sha256", "sha256"},
};

/* As Sysmon writes it: MD5=...,SHA1=...,SHA256=...,IMPHASH=..., without those that are not known. */
static void store_add_hashes(ea_text *t, const char *module) {
    static const char *const HASHES[][2] = {
        {"MD5", "md5"}, {"SHA1", "sha1"}, {"SHA256", "sha256"}, {"IMPHASH", "imphash"}};
    ea_text_str(t, "nullif(substr(");
    for (size_t i = 0; i < sizeof HASHES / sizeof *HASHES; i++)
        ea_text_printf(t, "%siif(%s.%s <> '', ',%s=' || upper(%s.%s), '')", i ? " || " : "", module, HASHES[i][1],
                       HASHES[i][0], module, HASHES[i][1]);
    ea_text_str(t, ", 2), '')");
}

static void store_add_fact(ea_text *t, const char *module, const char *name) {
    if (strcmp(name, "Hashes") == 0)
        store_add_hashes(t, module);
    for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++)
        if (strcmp(FACTS[i].name, name) == 0)
            ea_text_printf(t, "%s.%s", module, FACTS[i].column);
}

/* Names of hives as Sysmon writes them. */
static void store_add_key(ea_text *t, const char *name) {
    if (strcmp(name, "set") == 0) {
        ea_text_str(t, "registry_path(e.KeyName) || '\\' || e.ValueName");
        return;
    }
    if (strcmp(name, "data") == 0) {
        ea_text_str(t, "registry_data(e.Type, e.DataSize, e.CapturedData)");
        return;
    }
    ea_text_str(t, "replace(replace(registry_key_at(e.host, e.stream, ");
    ea_text_str(t, strcmp(name, "created") == 0 ? "e.BaseObject" : "e.KeyHandle");
    ea_text_str(t, ", e.time), '\\REGISTRY\\MACHINE\\', 'HKLM\\'), '\\REGISTRY\\USER\\', 'HKU\\')");
    if (strcmp(name, "path") != 0)
        ea_text_printf(t, " || '\\' || e.%s", strcmp(name, "created") == 0 ? "RelativeName" : "KeyName");
}

/* The value of a row of this class, as an expression. is_process: the event is the start of that process. */
static void store_add_value(ea_text *t, const char *field, int is_process, store_joins *joins) {
    static const char PATH[] = ":path";
    const char *dot = strchr(field, '.'), *path = strstr(field, PATH);
    size_t len = dot ? (size_t)(dot - field) : strlen(field);
    if (field[0] == '=') {
        store_add_text(t, field + 1);
    } else if (path) {
        len = (size_t)(path - field);
        ea_text_str(t, "coalesce(");
        store_add_field(t, field, len, "_name");
        ea_text_str(t, ", ");
        store_add_field(t, field, len, "");
        ea_text_char(t, ')');
    } else if (!dot) {
        store_add_field(t, field, len, "");
    } else if (strncmp(field, "header", len) == 0) {
        ea_text_printf(t, "e.%s", dot + 1);
    } else if (strncmp(field, "key", len) == 0) {
        store_add_key(t, dot + 1);
    } else if (strncmp(field, "file", len) == 0) {
        joins->file |= !is_process;
        joins->process |= is_process;
        joins->process_image |= is_process;
        store_add_fact(t, is_process ? "process_image" : "file", dot + 1);
    } else {
        int is_path = strcmp(dot + 1, "path") == 0;
        if (len == strlen("process") && memcmp(field, "process", len) == 0) {
            joins->process = 1;
            joins->process_image |= is_path;
            store_add_process(t, "process", "process_image", dot + 1);
        } else if (field[0] == 'p') {
            joins->process = joins->parent = 1;
            joins->parent_image |= is_path;
            store_add_process(t, "parent", "parent_image", dot + 1);
        } else if (field[0] == 'g') {
            joins->process = joins->parent = joins->grandparent = 1;
            joins->grandparent_image |= is_path;
            store_add_process(t, "grandparent", "grandparent_image", dot + 1);
        } else {
            joins->target = 1;
            joins->target_image |= is_path;
            store_add_process(t, "target", "target_image", dot + 1);
        }
    }
}

/* The field that says which process a row of the class is about; NULL: the process of the event's head. */
static const char *store_process_field(const ea_sigma_source *s, const char *which, const char *class_name,
                                       size_t len) {
    for (const ea_sigma_row *r = NULL; (r = ea_sigma_row_next(s, which, r));)
        if (store_has_class(r, class_name, len))
            return r->field;
    return NULL;
}

static void store_join_process(ea_text *t, const char *alias, const char *field) {
    ea_text_printf(t, " LEFT JOIN processes %s ON %s.process_key = process_at(e.host, e.stream, ", alias, alias);
    if (field)
        store_add_field(t, field, strlen(field), "");
    else
        ea_text_str(t, "e.pid");
    ea_text_str(t, ", e.time)");
}

/* Of a range one pass over all modules serves all rows; of a few batches each process is looked up. Its number finds
 * the modules by an index. */
static void store_join_image(ea_text *t, int is_wanted, const char *alias, enum ec_rules_scope scope) {
    if (is_wanted && scope == EC_RULES_OF_RANGE)
        ea_text_printf(t, " LEFT JOIN main AS %s_image ON %s_image.process_key = %s.process_key", alias, alias, alias);
    else if (is_wanted)
        ea_text_printf(t,
                       " LEFT JOIN modules AS %s_image ON %s_image.process_key = %s.process_key AND %s_image.instance ="
                       " main_module(%s.process_key, %s.pid, %s.image_name)",
                       alias, alias, alias, alias, alias, alias, alias);
}

static const char HAS_THREAD[] = "target.has_thread=1";

static void store_add_when(ea_text *t, const char *when, enum ec_rules_scope scope) {
    const char *equal = strchr(when, '=');
    size_t len = (size_t)(equal - when) - (equal[-1] == '!');
    store_joins none = {0};
    if (strcmp(when, HAS_THREAD) == 0) { /* the first thread of a process is begun by another process */
        ea_text_str(t, scope == EC_RULES_OF_RANGE
                           ? " AND begun.begin < e.time"
                           : " AND EXISTS(SELECT 1 FROM threads b WHERE b.process_key = target.process_key AND b.pid = "
                             "target.pid AND coalesce(b.begin, 0) < e.time)");
        return;
    }
    ea_text_str(t, " AND ");
    if (memchr(when, '.', len))
        ea_text_printf(t, "e.%.*s", (int)(len - strlen("header.")), when + strlen("header."));
    else
        store_add_field(t, when, len, "");
    ea_text_str(t, equal[-1] == '!' ? " <> " : " = ");
    if (strchr("0123456789", equal[1]))
        ea_text_str(t, equal + 1);
    else
        store_add_value(t, equal + 1, 0, &none);
}

static void store_finish(ec_rules_statement *ret, const ea_sigma_source *s, const char *class_name, size_t len,
                         const char *table, const ea_text *columns, const store_joins *j, enum ec_rules_scope scope) {
    ea_text *t = &ret->sql;
    int is_range = scope == EC_RULES_OF_RANGE;
    int has_image = j->process_image || j->parent_image || j->grandparent_image || j->target_image, has_thread = 0;
    for (const ea_sigma_row *r = NULL; (r = ea_sigma_row_next(s, "@when", r));)
        has_thread |= store_has_class(r, class_name, len) && strcmp(r->field, HAS_THREAD) == 0;
    if (has_thread && is_range)
        ea_text_str(t, "WITH begun AS MATERIALIZED (SELECT process_key, min(coalesce(begin, 0)) AS begin FROM threads "
                       "GROUP BY process_key)");
    if (has_image && is_range) { /* of a process the row of min(): SQLite */
        ea_text_str(t, has_thread ? ", " : "WITH ");
        ea_text_str(
            t, "main AS MATERIALIZED (SELECT m.process_key, min(m.instance), m.path, m.company, "
               "m.file_version, m.original_name, m.product, m.description, m.md5, m.sha1, m.sha256, m.imphash FROM "
               "modules m JOIN processes q ON "
               "q.process_key = m.process_key WHERE lower(substr(m.path, -length(q.image_name) - 1)) = '\\' || "
               "lower(q.image_name) GROUP BY m.process_key)");
    }
    ea_text_char(t, ' ');
    ea_text_printf(t, "SELECT e.time, e.host, %s, e.stream, e.batch, e.position, %s",
                   is_range ? "e.pid" : "coalesce(process.pid, e.pid)",
                   is_range ? "NULL, NULL" : "process.image_name, process.process_key");
    for (size_t i = 0; i < ret->field_count; i++) {
        ea_text_str(t, ", ");
        ea_text_add(t, columns[i].data, columns[i].len_bytes);
    }
    ea_text_str(t, " FROM ");
    ec_sql_add_name(t, table);
    ea_text_str(t, " AS e");
    if (j->process)
        store_join_process(t, "process", store_process_field(s, "@process", class_name, len));
    store_join_image(t, j->process_image, "process", scope);
    if (j->file)
        ea_text_str(t,
                    " LEFT JOIN modules AS file ON file.process_key = process_at(e.host, e.stream, e.ProcessId, e.time)"
                    " AND file.pid = e.ProcessId AND file.base = e.ImageBase AND file.begin = e.time");
    if (j->parent)
        ea_text_str(t, " LEFT JOIN processes parent ON parent.process_key = process.parent_key");
    if (j->grandparent)
        ea_text_str(t, " LEFT JOIN processes grandparent ON grandparent.process_key = parent.parent_key");
    if (j->target || has_thread)
        store_join_process(t, "target", store_process_field(s, "@target", class_name, len));
    if (has_thread && is_range)
        ea_text_str(t, " LEFT JOIN begun ON begun.process_key = target.process_key");
    store_join_image(t, j->parent_image, "parent", scope);
    store_join_image(t, j->grandparent_image, "grandparent", scope);
    store_join_image(t, j->target_image, "target", scope);
    ea_text_str(t, is_range ? " WHERE e.time >= ?1 AND e.time < ?2"
                            : " WHERE e.host = ?1 AND e.stream = ?2 AND e.batch >= ?3 AND e.batch <= ?4 AND"
                              " e.position >= ?5 AND e.position <= ?6");
    for (const ea_sigma_row *r = NULL; (r = ea_sigma_row_next(s, "@when", r));)
        if (store_has_class(r, class_name, len))
            store_add_when(t, r->field, scope);
}

/* Asks rules_early.h after the joins of a stage, where there is something to go by that was not there before, and
 * something to be left out. */
static void store_add_early(ec_rules_statement *s, const ea_text *columns, uint32_t early, uint8_t stage) {
    size_t here = 0, later = 0;
    for (size_t i = 0; i < s->field_count; i++) {
        here += s->stages[i] == stage;
        later += s->stages[i] > stage;
    }
    if (early == EC_RULES_NOT_EARLY || !here || !later)
        return;
    ea_text_printf(&s->sql, " AND rules_early(%" PRIu32, early + stage);
    for (size_t i = 0; i < s->field_count; i++)
        if (s->stages[i] <= stage) {
            ea_text_str(&s->sql, ", ");
            ea_text_add(&s->sql, columns[i].data, columns[i].len_bytes);
        }
    ea_text_char(&s->sql, ')');
}

static uint8_t store_stage(const char *field) {
    const char *dot = strchr(field, '.');
    if (field[0] == '=' || strstr(field, ":path") || !dot || strncmp(field, "header.", 7) == 0 ||
        strncmp(field, "key.", 4) == 0)
        return EC_RULES_STAGE_OWN;
    return strncmp(field, "process.", 8) == 0 || strncmp(field, "file.", 5) == 0 ? EC_RULES_STAGE_PROCESS
                                                                                 : EC_RULES_STAGE_OTHERS;
}

static uint8_t store_is_path(const char *field) {
    static const char PATH[] = ".path";
    size_t len = strlen(field);
    return len > sizeof PATH - 1 && strcmp(field + len - (sizeof PATH - 1), PATH) == 0 &&
           strncmp(field, "key.", 4) != 0;
}

int ec_rules_statement_make(ec_rules_statement *ret, const ea_rules *rules, uint32_t group, const ea_sigma_source *s,
                            const char *class_name, size_t len, const char *table, enum ec_rules_scope scope,
                            uint32_t early) {
    ea_text columns[EC_RULES_COLUMNS_MAX];
    store_joins joins = {.process = scope == EC_RULES_OF_BATCHES};
    int is_process = len == strlen("Process/Start") && memcmp(class_name, "Process/Start", len) == 0, rc = 0;
    *ret = (ec_rules_statement){.field_count = 0};
    ea_text_init(&ret->sql);
    for (size_t i = 0; i < s->row_count && ret->field_count < EC_RULES_COLUMNS_MAX; i++) {
        const ea_sigma_row *row = &s->rows[i];
        uint32_t field = row->sigma[0] == '@' ? UINT32_MAX : ea_rules_field(rules, group, row->sigma);
        if (field == UINT32_MAX || !store_has_class(row, class_name, len))
            continue;
        ea_text *column = &columns[ret->field_count];
        ea_text_init(column);
        store_add_value(column, row->field, is_process, &joins);
        rc = rc || column->failed || !column->len_bytes;
        ret->fields[ret->field_count] = field;
        ret->is_path[ret->field_count] = store_is_path(row->field);
        ret->stages[ret->field_count] = store_stage(row->field);
        ret->names[ret->field_count++] = row->sigma;
    }
    if (!rc)
        store_finish(ret, s, class_name, len, table, columns, &joins, scope);
    for (uint8_t stage = EC_RULES_STAGE_OWN; stage < EC_RULES_STAGE_OTHERS && !rc; stage++)
        store_add_early(ret, columns, early, stage);
    for (size_t i = 0; i < ret->field_count; i++)
        ea_text_deinit(&columns[i]);
    return rc || ret->sql.failed ? EA_ENOMEM : 0;
}

void ec_rules_statement_deinit(ec_rules_statement *s) {
    ea_text_deinit(&s->sql);
}

/* ---- main modules ---- */

struct ec_rules_mains {
    sqlite3 *db;
    sqlite3_stmt *statement;
    ea_u64_map known; /* process_key -> instance; 0: it has none */
};

/* main_module(process_key, pid, image_name): its instance, or NULL. */
static void mains_find(sqlite3_context *context, int count, sqlite3_value **v) {
    static const char SQL[] = "SELECT min(m.instance) FROM modules m WHERE m.process_key = ?1 AND m.pid = ?2 AND"
                              " lower(substr(m.path, -length(?3) - 1)) = '\\' || lower(?3)";
    ec_rules_mains *m = sqlite3_user_data(context);
    uint64_t key = (uint64_t)sqlite3_value_int64(v[0]);
    int code = SQLITE_OK;
    if (sqlite3_value_type(v[0]) == SQLITE_NULL)
        return;
    const uint64_t *known = ea_u64_map_get(&m->known, key);
    if (known) {
        if (*known)
            sqlite3_result_int64(context, (sqlite3_int64)*known);
        return;
    }
    if (!m->statement)
        code = sqlite3_prepare_v2(m->db, SQL, -1, &m->statement, NULL);
    for (int i = 0; code == SQLITE_OK && i < count; i++)
        code = sqlite3_bind_value(m->statement, i + 1, v[i]);
    if (code == SQLITE_OK)
        code = sqlite3_step(m->statement);
    sqlite3_int64 instance = code == SQLITE_ROW ? sqlite3_column_int64(m->statement, 0) : 0;
    sqlite3_reset(m->statement);
    if (code != SQLITE_ROW)
        sqlite3_result_error_code(context, code);
    else if (instance)
        sqlite3_result_int64(context, instance);
    if (code == SQLITE_ROW)
        EA_IGNORE(ea_u64_map_put(&m->known, key, (uint64_t)instance)); /* no memory: it is searched again */
}

int ec_rules_mains_create(ec_rules_mains **ret, sqlite3 *db, ea_err *err) {
    ec_rules_mains *m = calloc(1, sizeof *m);
    if (!m)
        return ea_fail(err, EA_ENOMEM, "run the rules");
    m->db = db;
    ea_u64_map_init(&m->known, MAINS_MAX);
    if (sqlite3_create_function_v2(db, "main_module", 3, SQLITE_UTF8 | SQLITE_DIRECTONLY, m, mains_find, NULL, NULL,
                                   NULL) != SQLITE_OK) {
        ec_rules_mains_destroy(m);
        return ea_fail(err, EA_ENOMEM, "run the rules");
    }
    *ret = m;
    return 0;
}

void ec_rules_mains_clear(ec_rules_mains *m) {
    ea_u64_map_clear(&m->known);
}

void ec_rules_mains_destroy(ec_rules_mains *m) {
    if (!m)
        return;
    sqlite3_finalize(m->statement);
    ea_u64_map_deinit(&m->known);
    free(m);
}

const ec_archive_stream *ec_rules_find_stream(ec_archive *archive, const char *host, const char *id) {
    const ec_archive_stream *streams = NULL;
    size_t count = 0;
    if (ec_archive_streams(archive, &streams, &count, NULL))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (strcmp(streams[i].id, id) == 0 && strcmp(streams[i].row.host, host) == 0)
            return &streams[i];
    return NULL;
}

void ec_rules_name_drive(ec_archive *archive, const ec_archive_stream *stream, ea_text *path) {
    ea_resolver names;
    ea_text named;
    if (!path->len_bytes || path->data[0] != '\\' || ec_archive_names(archive, stream, &names, NULL) != 1)
        return;
    ea_text_init(&named);
    if (names.path(names.arg, path->data, path->len_bytes, &named) && !named.failed) {
        ea_text_clear(path);
        ea_text_add(path, named.data, named.len_bytes);
    }
    ea_text_deinit(&named);
}
