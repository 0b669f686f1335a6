/* See rules_store.h. collector/query/SQL.md describes the tables. */
#include "collector/detect/rules_store.h"

#include "collector/query/sql/sql.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* Where the names of sigma_fields.h about processes are. */
static const struct {
    const char *name;
    enum ec_fact fact;
} PROCESS_FACTS[] = {
    {"account", EC_FACT_ACCOUNT},
    {"command_line", EC_FACT_COMMAND_LINE},
    {"id", EC_FACT_ID},
    {"integrity_level", EC_FACT_INTEGRITY_LEVEL},
    {"logon_id", EC_FACT_LOGON_ID},
    {"parent_id", EC_FACT_PARENT_ID},
    {"path", EC_FACT_PATH},
};

/* Names of facts of an image file (ImageFile/Facts) in the table modules. */
static const struct {
    const char *name;
    enum ec_fact fact;
} FILE_FACTS[] = {
    {"CompanyName", EC_FACT_COMPANY},
    {"FileDescription", EC_FACT_DESCRIPTION},
    {"FileVersion", EC_FACT_FILE_VERSION},
    {"Hashes", EC_FACT_HASHES},
    {"ImpHash", EC_FACT_IMPHASH},
    {"Md5", EC_FACT_MD5},
    {"OriginalFileName", EC_FACT_ORIGINAL_NAME},
    {"ProductName", EC_FACT_PRODUCT},
    {"Sha1", EC_FACT_SHA1},
    {"Sha256", EC_FACT_SHA256},
};

/* Of the file that the event names. */
static void store_add_file(ea_text *t, const char *name) {
    for (size_t i = 0; i < sizeof FILE_FACTS / sizeof *FILE_FACTS; i++)
        if (strcmp(FILE_FACTS[i].name, name) == 0)
            ec_process_facts_column(t, "file", FILE_FACTS[i].fact);
}

/* What a field is of a process: 1; 0: it is of the event. is_process: the event is the start of that process. */
static int store_find_fact(const char *field, int is_process, ec_rules_source *ret) {
    static const struct {
        const char *name;
        enum ec_rules_of of;
    } SOURCES[] = {{"process.", EC_RULES_OF_PROCESS},
                   {"parent.", EC_RULES_OF_PARENT},
                   {"grandparent.", EC_RULES_OF_GRANDPARENT},
                   {"target.", EC_RULES_OF_TARGET}};

    for (size_t i = 0; i < sizeof SOURCES / sizeof *SOURCES; i++) {
        size_t len = strlen(SOURCES[i].name);
        for (size_t k = 0;
             k < sizeof PROCESS_FACTS / sizeof *PROCESS_FACTS && strncmp(field, SOURCES[i].name, len) == 0; k++)
            if (strcmp(field + len, PROCESS_FACTS[k].name) == 0) {
                *ret = (ec_rules_source){.of = SOURCES[i].of, .fact = PROCESS_FACTS[k].fact};
                return 1;
            }
    }
    for (size_t k = 0; k < sizeof FILE_FACTS / sizeof *FILE_FACTS && is_process && strncmp(field, "file.", 5) == 0; k++)
        if (strcmp(field + 5, FILE_FACTS[k].name) == 0) {
            *ret = (ec_rules_source){.of = EC_RULES_OF_PROCESS, .fact = FILE_FACTS[k].fact};
            return 1;
        }
    return 0;
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

/* The value of a row of the event itself, as an expression. *ret_has_file: the file that it names is needed. */
static void store_add_value(ea_text *t, const char *field, int *ret_has_file) {
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
        *ret_has_file = 1;
        store_add_file(t, dot + 1);
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

/* The number of a process that the event is about. field NULL: that of the event's head. */
static void store_add_number(ea_text *t, int is_wanted, const char *field) {
    if (!is_wanted)
        ea_text_str(t, "NULL");
    else if (field)
        store_add_field(t, field, strlen(field), "");
    else
        ea_text_str(t, "e.pid");
}

static const char HAS_THREAD[] = "target.has_thread=1";

static void store_add_when(ea_text *t, const char *when, const char *target) {
    const char *equal = strchr(when, '=');
    size_t len = (size_t)(equal - when) - (equal[-1] == '!');
    int has_file = 0;
    ea_text_str(t, " AND ");
    if (strcmp(when, HAS_THREAD) == 0) { /* the first thread of a process is begun by another process */
        ea_text_str(t, "EXISTS(SELECT 1 FROM threads b WHERE b.process_key = process_at(e.host, e.stream, ");
        store_add_number(t, 1, target);
        ea_text_str(t, ", e.time) AND b.pid = ");
        store_add_number(t, 1, target);
        ea_text_str(t, " AND coalesce(b.begin, 0) < e.time)");
        return;
    }
    if (memchr(when, '.', len))
        ea_text_printf(t, "e.%.*s", (int)(len - strlen("header.")), when + strlen("header."));
    else
        store_add_field(t, when, len, "");
    ea_text_str(t, equal[-1] == '!' ? " <> " : " = ");
    if (strchr("0123456789", equal[1]))
        ea_text_str(t, equal + 1);
    else
        store_add_value(t, equal + 1, &has_file);
}

/* A condition that a scan of the class keeps exactly: what it lets through are the events of the statement. */
static int store_is_simple(const char *when) {
    const char *equal = strchr(when, '=');
    return strcmp(when, HAS_THREAD) != 0 && equal[-1] != '!' && strchr("0123456789", equal[1]);
}

static void store_finish(ec_rules_statement *ret, const ea_sigma_source *s, const char *class_name, size_t len,
                         const char *table, const ea_text *columns, int has_file, enum ec_rules_scope scope) {
    ea_text *t = &ret->sql;
    const char *target = store_process_field(s, "@target", class_name, len);
    int has_process = scope == EC_RULES_OF_BATCHES, has_target = 0;
    for (size_t i = 0; i < ret->field_count; i++) {
        has_target |= ret->sources[i].of == EC_RULES_OF_TARGET;
        has_process |= ret->sources[i].of != EC_RULES_OF_TARGET && ret->sources[i].of != EC_RULES_OF_EVENT;
    }
    ea_text_str(t, scope == EC_RULES_OF_RANGE ? "SELECT e.time, e.host, e.pid, e.stream, e.batch, e.position, "
                                              : "SELECT e.time, NULL, e.pid, NULL, e.batch, e.position, ");
    store_add_number(t, has_process, store_process_field(s, "@process", class_name, len));
    ea_text_str(t, ", ");
    store_add_number(t, has_target, target);
    for (size_t i = 0; i < ret->field_count; i++)
        if (ret->sources[i].of == EC_RULES_OF_EVENT) {
            ea_text_str(t, ", ");
            ea_text_add(t, columns[i].data, columns[i].len_bytes);
        }
    ea_text_str(t, " FROM ");
    ec_sql_add_name(t, table);
    ea_text_str(t, " AS e");
    if (has_file)
        ea_text_str(t,
                    " LEFT JOIN modules AS file ON file.process_key = process_at(e.host, e.stream, e.ProcessId, e.time)"
                    " AND file.pid = e.ProcessId AND file.base = e.ImageBase AND file.begin = e.time");
    ea_text_str(t, scope == EC_RULES_OF_RANGE ? " WHERE e.time >= ?1 AND e.time < ?2"
                                              : " WHERE e.host = ?1 AND e.stream = ?2 AND e.batch >= ?3 AND e.batch <="
                                                " ?4 AND e.position >= ?5 AND e.position <= ?6");
    ret->is_simple = 1;
    for (const ea_sigma_row *r = NULL; (r = ea_sigma_row_next(s, "@when", r));)
        if (store_has_class(r, class_name, len)) {
            store_add_when(t, r->field, target);
            ret->is_simple &= store_is_simple(r->field);
        }
}

int ec_rules_statement_make(ec_rules_statement *ret, const ea_rules *rules, uint32_t group, const ea_sigma_source *s,
                            const char *class_name, size_t len, const char *table, enum ec_rules_scope scope) {
    ea_text columns[EC_RULES_COLUMNS_MAX];
    int is_process = len == strlen("Process/Start") && memcmp(class_name, "Process/Start", len) == 0, has_file = 0;
    int rc = 0, next = EC_RULES_HEAD_COLUMNS;
    *ret = (ec_rules_statement){.scope = scope};
    ea_text_init(&ret->sql);
    for (size_t i = 0; i < s->row_count && ret->field_count < EC_RULES_COLUMNS_MAX; i++) {
        const ea_sigma_row *row = &s->rows[i];
        uint32_t field = row->sigma[0] == '@' ? UINT32_MAX : ea_rules_field(rules, group, row->sigma);
        if (field == UINT32_MAX || !store_has_class(row, class_name, len))
            continue;
        size_t at = ret->field_count++;
        ea_text_init(&columns[at]);
        ret->fields[at] = field;
        ret->names[at] = row->sigma;
        ret->own[at] = row->field;
        if (store_find_fact(row->field, is_process, &ret->sources[at]))
            continue;
        store_add_value(&columns[at], row->field, &has_file);
        rc = rc || columns[at].failed || !columns[at].len_bytes;
        ret->sources[at] = (ec_rules_source){.of = EC_RULES_OF_EVENT, .column = next++};
    }
    if (!rc)
        store_finish(ret, s, class_name, len, table, columns, has_file, scope);
    ret->column_count = (size_t)next;
    for (size_t i = 0; i < ret->field_count; i++)
        ea_text_deinit(&columns[i]);
    return rc || ret->sql.failed ? EA_ENOMEM : 0;
}

void ec_rules_statement_deinit(ec_rules_statement *s) {
    ea_text_deinit(&s->sql);
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
