/* See rules_processes.h. */
#include "collector/detect/rules_processes.h"

#include "collector/detect/rules_store.h"
#include "collector/query/analysis/address_space.h"
#include "collector/query/scan/cell.h"
#include "collector/state/state_db.h"
#include "proto/base/arena.h"
#include "proto/base/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* In the order of enum ec_fact: columns of processes, then of modules. */
static const char *const FACT_COLUMNS[EC_FACT_COUNT] = {
    "pid",      "image_name",    "parent_pid", "command_line", "account",      "integrity_level",
    "logon_id", "path",          "company",    "description",  "file_version", "imphash",
    "md5",      "original_name", "product",    "sha1",         "sha256"};

/* The columns after those of the process. */
enum { FACT_KEY = EC_FACT_PATH, FACT_PARENT_KEY, FACT_BEGIN, FACT_END };

/* A process is found by its key, or by a number and a time: of those that had begun by then, the last. */
#define FACTS_BY_KEY " WHERE t.stream = ?1 >> 40 AND t.instance = ?1 & 1099511627775"
#define FACTS_BY_NUMBER                                                                                                \
    " WHERE t.stream = ?1 AND unlikely(t.pid = ?2) AND t.begin_utc_ns <= ?3 ORDER BY t.begin_utc_ns DESC, t.instance " \
    "DESC LIMIT 1"
_Static_assert(EC_INSTANCE_BITS == 40, "FACTS_BY_KEY has the number");

static const char STREAM_SQL[] = "SELECT s.stream FROM streams s WHERE s.host = ?1 AND lower(hex(s.id)) = ?2 AND"
                                 " EXISTS(SELECT 1 FROM processes p WHERE p.stream = s.stream)";

struct ec_process_facts {
    ec_sql *sql;
    sqlite3 *db;                                                           /* the history */
    sqlite3_stmt *of_key, *of_number, *of_module, *of_earlier, *of_stream; /* NULL: not prepared yet */
    unsigned needed;                                                       /* bits of facts */
    const char *types[EC_FACT_PATH];                                       /* of the columns of a process */
    const ec_archive_stream *stream;
    ea_arena arena;
    ea_u64_map known; /* key -> ec_process */
    /* of one stream */
    char host[256], id[64]; /* "": none yet */
    int64_t number;         /* in the history; 0: it has no processes of its own */
    ea_u64_map by_pid;      /* pid -> ec_process that was found last */
    ea_text text;
};

int ec_rules_fail_sqlite(ea_err *err, sqlite3 *db, int code) {
    switch (code & 0xff) {
    case SQLITE_INTERRUPT:
        return EA_ECANCELED;
    case SQLITE_ERROR: /* of a row, such as a text that becomes too long, and not of this moment */
    case SQLITE_TOOBIG:
    case SQLITE_MISMATCH:
    case SQLITE_RANGE:
        return ea_fail(err, EA_EFORMAT, "run the rules: %s", sqlite3_errmsg(db));
    default:
        return ec_fail_sqlite(err, db, "run the rules");
    }
}

int ec_process_facts_create(ec_process_facts **ret, ec_sql *sql, ea_err *err) {
    ec_process_facts *f = calloc(1, sizeof *f);
    if (!f)
        return ea_fail(err, EA_ENOMEM, "run the rules");
    f->sql = sql;
    f->needed = 1u << EC_FACT_ID | 1u << EC_FACT_IMAGE_NAME; /* by which modules are found */
    ea_arena_init(&f->arena, 0);
    ea_u64_map_init(&f->known, 0);
    ea_u64_map_init(&f->by_pid, 0);
    ea_text_init(&f->text);
    *ret = f;
    return 0;
}

static void facts_finalize(ec_process_facts *f) {
    sqlite3_finalize(f->of_key);
    sqlite3_finalize(f->of_number);
    sqlite3_finalize(f->of_module);
    sqlite3_finalize(f->of_earlier);
    sqlite3_finalize(f->of_stream);
    f->of_key = f->of_number = f->of_module = f->of_earlier = f->of_stream = NULL;
}

void ec_process_facts_destroy(ec_process_facts *f) {
    if (!f)
        return;
    facts_finalize(f);
    ea_arena_deinit(&f->arena);
    ea_u64_map_deinit(&f->known);
    ea_u64_map_deinit(&f->by_pid);
    ea_text_deinit(&f->text);
    free(f);
}

void ec_process_facts_clear(ec_process_facts *f) {
    ea_u64_map_clear(&f->known);
    ea_u64_map_clear(&f->by_pid);
    ea_arena_recycle(&f->arena);
}

void ec_process_facts_need(ec_process_facts *f, enum ec_fact fact) {
    if (f->needed & 1u << fact)
        return;
    f->needed |= 1u << fact;
    facts_finalize(f);
    ec_process_facts_clear(f);
}

void ec_process_facts_begin(ec_process_facts *f, const ec_archive_stream *stream) {
    if (f->stream != stream || f->known.count > EC_PROCESS_FACTS_MAX ||
        f->arena.used_bytes > EC_PROCESS_FACTS_MAX_BYTES)
        ec_process_facts_clear(f);
    f->stream = stream;
}

/* ---- looking up ---- */

/* As Sysmon writes it: MD5=...,SHA1=...,SHA256=...,IMPHASH=..., without those that are not known. */
static void facts_write_hashes(ea_text *t, const char *table) {
    static const char *const HASHES[][2] = {
        {"MD5", "md5"}, {"SHA1", "sha1"}, {"SHA256", "sha256"}, {"IMPHASH", "imphash"}};
    ea_text_str(t, "nullif(substr(");
    for (size_t i = 0; i < sizeof HASHES / sizeof *HASHES; i++)
        ea_text_printf(t, "%siif(%s.%s <> '', ',%s=' || upper(%s.%s), '')", i ? " || " : "", table, HASHES[i][1],
                       HASHES[i][0], table, HASHES[i][1]);
    ea_text_str(t, ", 2), '')");
}

void ec_process_facts_column(ea_text *t, const char *table, enum ec_fact fact) {
    if (fact == EC_FACT_HASHES)
        facts_write_hashes(t, table);
    else
        ea_text_printf(t, "%s.%s", table, FACT_COLUMNS[fact]);
}

/* The columns of processes; NULL in place of those that are not needed. */
static void facts_write_process(ec_process_facts *f, ea_text *t, const char *condition) {
    const char *type;
    ea_text_clear(t);
    ea_text_str(t, "SELECT ");
    for (unsigned i = 0; i < EC_FACT_PATH; i++) {
        const char *value = ec_sql_history_column("processes", FACT_COLUMNS[i], &f->types[i]);
        ea_text_printf(t, "%s, ", f->needed >> i & 1 ? value : "NULL");
    }
    ea_text_printf(t, "%s, ", ec_sql_history_column("processes", "process_key", &type));
    ea_text_printf(t, "%s, ", ec_sql_history_column("processes", "parent_key", &type));
    ea_text_printf(t, "t.begin_utc_ns, t.end_utc_ns FROM %s%s", ec_sql_history_from("processes"), condition);
}

/* Those of modules: the first one that has the name. An index has the modules of a number by their times, so that the
 * search ends with the first one where the program was loaded when the process began. */
static void facts_write_module(const ec_process_facts *f, ea_text *t, const char *when) {
    ea_text_clear(t);
    ea_text_str(t, "SELECT ");
    for (unsigned i = EC_FACT_PATH; i < EC_FACT_COUNT; i++) {
        ea_text_str(t, i > EC_FACT_PATH ? ", " : "");
        if (f->needed >> i & 1)
            ec_process_facts_column(t, "t", (enum ec_fact)i);
        else
            ea_text_str(t, "NULL");
    }
    ea_text_printf(t,
                   " FROM modules t WHERE t.stream = ?1 >> 40 AND unlikely(t.pid = ?2) AND t.begin_utc_ns %s ?4 AND"
                   " t.process_instance = ?1 & 1099511627775 AND lower(substr(t.path, -length(?3) - 1)) = '\\' ||"
                   " lower(?3) ORDER BY t.begin_utc_ns, t.instance LIMIT 1",
                   when);
}

static int facts_prepare(ec_process_facts *f, sqlite3_stmt **ret, const ea_text *sql, ea_err *err) {
    if (sql->failed)
        return ea_fail(err, EA_ENOMEM, "run the rules");
    return sqlite3_prepare_v2(f->db, sql->data, -1, ret, NULL) == SQLITE_OK
               ? 0
               : ec_fail_sqlite(err, f->db, "run the rules");
}

static int facts_prepare_all(ec_process_facts *f, ea_err *err) {
    ea_text sql;
    int rc = ec_sql_history(f->sql, &f->db, err);
    ea_text_init(&sql);
    if (!rc) {
        facts_write_process(f, &sql, FACTS_BY_KEY);
        rc = facts_prepare(f, &f->of_key, &sql, err);
    }
    if (!rc) {
        facts_write_process(f, &sql, FACTS_BY_NUMBER);
        rc = facts_prepare(f, &f->of_number, &sql, err);
    }
    if (!rc) {
        facts_write_module(f, &sql, ">=");
        rc = facts_prepare(f, &f->of_module, &sql, err);
    }
    if (!rc) { /* it was loaded before the process began, as far as is known */
        facts_write_module(f, &sql, "<");
        rc = facts_prepare(f, &f->of_earlier, &sql, err);
    }
    if (!rc) {
        ea_text_clear(&sql);
        ea_text_str(&sql, STREAM_SQL);
        rc = facts_prepare(f, &f->of_stream, &sql, err);
    }
    ea_text_deinit(&sql);
    return rc;
}

/* Keeps a cell as a fact. */
static int facts_keep(ec_process_facts *f, sqlite3_stmt *st, int column, const char *type, ec_process_fact *ret) {
    ec_value v = ec_sql_cell(st, column);
    if (ec_cell_text(&f->text, &v, type) == EC_LOOK_EMPTY)
        return 0;
    const char *data = f->text.len_bytes ? f->text.data : "";
    ret->len_bytes = f->text.len_bytes;
    ret->text = f->text.failed ? NULL : ea_arena_copy(&f->arena, data, f->text.len_bytes + 1);
    return ret->text ? 0 : EA_ENOMEM;
}

static int facts_read_row(ec_process_facts *f, sqlite3_stmt *st, ec_process *p, enum ec_fact first, enum ec_fact end) {
    int rc = 0;
    for (unsigned i = first; i < (unsigned)end && !rc; i++)
        if (f->needed >> i & 1)
            rc = facts_keep(f, st, (int)(i - first), i < EC_FACT_PATH ? f->types[i] : "", &p->facts[i]);
    return rc;
}

/* Steps a statement with one row at most: 1 and it is at the row, 0, or an error. */
static int facts_step(ec_process_facts *f, sqlite3_stmt *st, ea_err *err) {
    int code = sqlite3_step(st);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        return code == SQLITE_ROW;
    return ec_rules_fail_sqlite(err, f->db, code);
}

/* Reads the process that a statement is at, unless it is known. */
static int facts_read_process(ec_process_facts *f, sqlite3_stmt *st, ec_process **ret) {
    int64_t key = sqlite3_column_int64(st, FACT_KEY);
    const uint64_t *known = ea_u64_map_get(&f->known, (uint64_t)key);
    ec_process *p = known ? (ec_process *)(uintptr_t)*known : NULL;
    *ret = p;
    if (p)
        return 0;
    if (!(p = ea_arena_zalloc(&f->arena, 1, sizeof *p)))
        return EA_ENOMEM;
    p->key = key;
    p->parent_key = sqlite3_column_int64(st, FACT_PARENT_KEY);
    p->begin_utc_ns = sqlite3_column_int64(st, FACT_BEGIN);
    p->end_utc_ns = sqlite3_column_int64(st, FACT_END);
    *ret = p;
    int rc = facts_read_row(f, st, p, EC_FACT_ID, EC_FACT_PATH);
    return rc ? rc : ea_u64_map_put(&f->known, (uint64_t)key, (uint64_t)(uintptr_t)p);
}

static int facts_name_path(ec_process_facts *f, ec_process_fact *path) {
    if (!f->stream || !path->text || path->text[0] != '\\')
        return 0;
    ea_text_clear(&f->text);
    ea_text_add(&f->text, path->text, path->len_bytes);
    ec_rules_name_drive(ec_sql_archive(f->sql), f->stream, &f->text);
    path->len_bytes = f->text.len_bytes;
    path->text = f->text.failed ? NULL : ea_arena_copy(&f->arena, f->text.data, f->text.len_bytes + 1);
    return path->text ? 0 : EA_ENOMEM;
}

/* 1 when the statement finds the module; 0; an error. */
static int facts_find_module(ec_process_facts *f, sqlite3_stmt *st, ec_process *p, ea_err *err) {
    const ec_process_fact *name = &p->facts[EC_FACT_IMAGE_NAME];
    sqlite3_bind_int64(st, 1, p->key);
    sqlite3_bind_int64(st, 2, strtoll(p->facts[EC_FACT_ID].text, NULL, 10));
    sqlite3_bind_text(st, 3, name->text, (int)name->len_bytes, SQLITE_STATIC);
    sqlite3_bind_int64(st, 4, p->begin_utc_ns);
    int rc = facts_step(f, st, err), found = rc > 0;
    if (found)
        rc = facts_read_row(f, st, p, EC_FACT_PATH, EC_FACT_COUNT);
    sqlite3_reset(st);
    return rc < 0 ? rc : found;
}

static int facts_read_module(ec_process_facts *f, ec_process *p, ea_err *err) {
    const ec_process_fact *name = &p->facts[EC_FACT_IMAGE_NAME];
    int rc = 0;
    p->has_module_facts = 1;
    if (name->text && p->facts[EC_FACT_ID].text && !(rc = facts_find_module(f, f->of_module, p, err)))
        rc = facts_find_module(f, f->of_earlier, p, err);
    if (!p->facts[EC_FACT_PATH].text)
        p->facts[EC_FACT_PATH] = *name;
    if (rc >= 0)
        rc = facts_name_path(f, &p->facts[EC_FACT_PATH]);
    return rc == EA_ENOMEM && !err->code ? ea_fail(err, rc, "run the rules") : rc;
}

/* Runs a statement whose parameters are bound: *ret NULL: there is no such process. */
static int facts_look_up(ec_process_facts *f, sqlite3_stmt *st, ec_process **ret, ea_err *err) {
    int rc = facts_step(f, st, err);
    *ret = NULL;
    if (rc > 0)
        rc = facts_read_process(f, st, ret);
    sqlite3_reset(st);
    return rc == EA_ENOMEM && !err->code ? ea_fail(err, rc, "run the rules") : rc;
}

static int facts_finish(ec_process_facts *f, ec_process *p, int has_module, int rc, const ec_process **ret,
                        ea_err *err) {
    if (!rc && p && has_module && !p->has_module_facts)
        rc = facts_read_module(f, p, err);
    if (rc) /* what was read in part is not to be found again */
        ec_process_facts_clear(f);
    else
        *ret = p;
    return rc;
}

int ec_process_facts_find(ec_process_facts *f, int64_t key, int has_module, const ec_process **ret, ea_err *err) {
    const uint64_t *known = key ? ea_u64_map_get(&f->known, (uint64_t)key) : NULL;
    ec_process *p = known ? (ec_process *)(uintptr_t)*known : NULL;
    int rc = 0;
    *ret = NULL;
    if (!key)
        return 0;
    if (!f->of_stream && (rc = facts_prepare_all(f, err)))
        return rc;
    if (!p) {
        sqlite3_bind_int64(f->of_key, 1, key);
        rc = facts_look_up(f, f->of_key, &p, err);
    }
    return facts_finish(f, p, has_module, rc, ret, err);
}

/* Finds the history's number of the stream, where it has processes of its own. */
static int facts_find_stream(ec_process_facts *f, const char *host, const char *stream, ea_err *err) {
    if (strcmp(f->host, host) == 0 && strcmp(f->id, stream) == 0)
        return 0;
    ea_u64_map_clear(&f->by_pid);
    f->host[0] = f->id[0] = 0;
    sqlite3_bind_text(f->of_stream, 1, host, -1, SQLITE_STATIC);
    sqlite3_bind_text(f->of_stream, 2, stream, -1, SQLITE_STATIC);
    int rc = facts_step(f, f->of_stream, err);
    f->number = rc > 0 ? sqlite3_column_int64(f->of_stream, 0) : 0;
    sqlite3_reset(f->of_stream);
    sqlite3_clear_bindings(f->of_stream);
    if (rc >= 0 && strlen(host) < sizeof f->host && strlen(stream) < sizeof f->id) {
        snprintf(f->host, sizeof f->host, "%s", host);
        snprintf(f->id, sizeof f->id, "%s", stream);
    }
    return rc < 0 ? rc : 0;
}

int ec_process_facts_at(ec_process_facts *f, const char *host, const char *stream, int64_t pid, int64_t utc_ns,
                        int has_module, const ec_process **ret, ea_err *err) {
    ec_process *p = NULL;
    int64_t key = 0;
    *ret = NULL;
    int rc = f->of_stream ? 0 : facts_prepare_all(f, err);
    if (!rc)
        rc = facts_find_stream(f, host, stream, err);
    if (rc)
        return rc;
    if (!f->number) { /* another session of the machine may have the processes */
        rc = ec_sql_process_at(f->sql, host, stream, pid, utc_ns, &key, err);
        return rc ? rc : ec_process_facts_find(f, key, has_module, ret, err);
    }
    if (pid < 0 || pid > UINT32_MAX)
        return 0;
    const uint64_t *known = ea_u64_map_get(&f->by_pid, (uint64_t)pid);
    p = known ? (ec_process *)(uintptr_t)*known : NULL;
    if (!p || utc_ns < p->begin_utc_ns || utc_ns >= p->end_utc_ns) {
        sqlite3_bind_int64(f->of_number, 1, f->number);
        sqlite3_bind_int64(f->of_number, 2, pid);
        sqlite3_bind_int64(f->of_number, 3, utc_ns);
        rc = facts_look_up(f, f->of_number, &p, err);
        if (!rc && p)
            EA_IGNORE(ea_u64_map_put(&f->by_pid, (uint64_t)pid, (uint64_t)(uintptr_t)p)); /* it is looked up again */
    }
    return facts_finish(f, p, has_module, rc, ret, err);
}
