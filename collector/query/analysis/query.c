/* SELECTs over the history. See query.h. */
#include "collector/query/analysis/query.h"

#include "collector/query/scan/archive.h"
#include "collector/state/state_worker.h"
#include "proto/base/array.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/event/accounts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct ec_query {
    ec_state_db *tables;
    sqlite3_stmt *alive, *all, *modules, *covering, *tellers[2];
};

/* The kinds of rows that a stream may have. */
enum { OF_PROCESSES = 0, OF_MODULES = 1 };

int ec_query_open(ec_query **ret, const char *dir, const char *host, int64_t wait_ns, uint64_t *ret_backlog,
                  ea_err *err) {
    uint64_t backlog = 0;
    int rc = ec_state_worker_catch_up(dir, host, EC_WAIT_FOLDED, wait_ns, &backlog, err);
    if (rc)
        return rc;
    ec_query *q = calloc(1, sizeof *q);
    rc = q ? ec_state_db_open(&q->tables, dir, 0, err) : ea_fail(err, EA_ENOMEM, "open the history of %s", dir);
    if (rc) {
        ec_query_close(q);
        return rc;
    }
    *ret = q;
    *ret_backlog = backlog;
    return 0;
}

void ec_query_close(ec_query *q) {
    if (!q)
        return;
    sqlite3_finalize(q->alive);
    sqlite3_finalize(q->all);
    sqlite3_finalize(q->modules);
    sqlite3_finalize(q->covering);
    for (size_t i = 0; i < sizeof q->tellers / sizeof *q->tellers; i++)
        sqlite3_finalize(q->tellers[i]);
    ec_state_db_close(q->tables);
    free(q);
}

/* ---- which stream, which time ---- */

typedef struct choice {
    const char *host, *stream;
    int has_time;
    int64_t utc_ns;
    ec_state_fold best;
    int found, several_hosts, several_streams;
    int64_t first_begin_utc_ns; /* of all that could be meant */
    char first_host[256];
    uint8_t first_stream[EA_STREAM_ID_BYTES];
    size_t candidate_count;
} choice;

static int id_begins_with(const uint8_t *id, const char *hex) {
    char text[2 * EA_STREAM_ID_BYTES + 1];
    for (size_t i = 0; i < EA_STREAM_ID_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
    size_t n = strlen(hex);
    return n <= sizeof text - 1 && memcmp(text, hex, n) == 0;
}

static int query_consider(const ec_state_fold *fold, void *arg) {
    choice *c = arg;
    if (fold->begin_utc_ns == INT64_MIN || (c->stream && !id_begins_with(fold->stream, c->stream)))
        return 0;
    if (c->candidate_count++ == 0) {
        memcpy(c->first_host, fold->host, sizeof c->first_host);
        memcpy(c->first_stream, fold->stream, sizeof c->first_stream);
        c->first_begin_utc_ns = fold->begin_utc_ns;
    }
    if (strcmp(c->first_host, fold->host) != 0)
        c->several_hosts = 1;
    if (memcmp(c->first_stream, fold->stream, sizeof c->first_stream) != 0)
        c->several_streams = 1;
    if (fold->begin_utc_ns < c->first_begin_utc_ns)
        c->first_begin_utc_ns = fold->begin_utc_ns;
    if (c->has_time && fold->begin_utc_ns > c->utc_ns)
        return 0;
    if (!c->found || fold->begin_utc_ns >= c->best.begin_utc_ns)
        c->best = *fold;
    c->found = 1;
    return 0;
}

static int is_of_run(const ec_state_fold *a, const ec_state_fold *b) {
    return strcmp(a->host, b->host) == 0 && memcmp(a->stream, b->stream, EA_STREAM_RUN_BYTES) == 0;
}

/* The other sessions of the run that was found make its time longer. */
static int query_stretch(const ec_state_fold *fold, void *arg) {
    choice *c = arg;
    if (fold->begin_utc_ns == INT64_MIN || !is_of_run(fold, &c->best))
        return 0;
    if (fold->begin_utc_ns < c->best.begin_utc_ns)
        c->best.begin_utc_ns = fold->begin_utc_ns;
    if (fold->end_utc_ns > c->best.end_utc_ns)
        c->best.end_utc_ns = fold->end_utc_ns;
    return 0;
}

static int query_too_early(const char *at, int64_t first_utc_ns, ea_err *err) {
    ea_text begin;
    ea_text_init(&begin);
    ea_text_utc_ns(&begin, first_utc_ns);
    int rc = ea_fail(err, EA_ENOTFOUND, "nothing is known of %s: the first event is of %s", at,
                     begin.data ? begin.data : "later");
    ea_text_deinit(&begin);
    return rc;
}

int ec_query_moment(ec_query *q, const char *host, const char *stream, const char *at, ec_moment *ret, ea_err *err) {
    choice c = {.host = host, .stream = stream};
    int parsed = ea_time_parse(at, &(ea_time_reference){.now_utc_ns = ea_utc_ns()}, &c.utc_ns);
    if (parsed == EA_EINVAL)
        return ea_fail(err, EA_EUSAGE, "\"%s\": expected " EA_TIME_FORMS_OF_DATA, at);
    c.has_time = parsed != EA_ENOTFOUND;
    int rc = ec_state_db_each_fold(q->tables, host, query_consider, &c, err);
    if (rc)
        return rc;
    if (c.candidate_count == 0 && host && !stream)
        return ec_unknown_host(host, err);
    if (c.candidate_count == 0)
        return ea_fail(err, EA_ENOTFOUND, "nothing is stored of %s%s%s%s", host ? "host " : "any host",
                       host ? host : "", stream ? ", stream " : "", stream ? stream : "");
    if (c.several_hosts)
        return ea_fail(err, EA_EUSAGE,
                       "several hosts have sent something: name one of those that 'etwcollector hosts' lists (--host)");
    if (stream && c.several_streams)
        return ea_fail(err, EA_EUSAGE, "several streams begin with %s: give more digits", stream);
    if (!c.found)
        return query_too_early(at, c.first_begin_utc_ns, err);
    rc = ec_state_db_each_fold(q->tables, c.best.host, query_stretch, &c, err);
    if (rc)
        return rc;
    *ret = (ec_moment){.fold = c.best, .utc_ns = c.utc_ns};
    const ea_time_reference data = {
        .begin_utc_ns = c.best.begin_utc_ns, .end_utc_ns = c.best.end_utc_ns, .has_data = 1};
    if (!c.has_time && ea_time_parse(at, &data, &ret->utc_ns))
        return ea_fail(err, EA_EUSAGE, "\"%s\" is too far away", at);
    if (ret->utc_ns < c.best.begin_utc_ns)
        return query_too_early(at, c.best.begin_utc_ns, err);
    ret->beyond = ret->utc_ns > c.best.end_utc_ns;
    return 0;
}

/* ---- statements ---- */

static const char DOING[] = "ask the history";

static int query_prepare(ec_query *q, sqlite3_stmt **s, const char *sql, ea_err *err) {
    return ec_sqlite_prepare(ec_state_db_database(q->tables), s, sql, DOING, err);
}

/* Finds the stream that has the processes, or modules, at a time: of all sessions of a stream's run that have any, the
 * session that began last by then. It is the stream itself when no session has any. */
static int query_teller(ec_query *q, int what, int64_t stream_number, int64_t utc_ns, int64_t *ret, ea_err *err) {
#define TELLER(table)                                                                                                  \
    "SELECT s.stream FROM streams r JOIN streams s ON s.host = r.host AND substr(s.id, 1, ?3) = substr(r.id, 1, ?3)"   \
    " WHERE r.stream = ?1 AND s.begin_utc_ns <= ?2 AND EXISTS (SELECT 1 FROM " table " t WHERE t.stream = s.stream)"   \
    " ORDER BY s.begin_utc_ns DESC, s.stream DESC LIMIT 1"
    static const char *const SQL[] = {TELLER("processes"), TELLER("modules")};
#undef TELLER
    int rc = query_prepare(q, &q->tellers[what], SQL[what], err);
    if (rc)
        return rc;
    sqlite3_stmt *s = q->tellers[what];
    sqlite3_bind_int64(s, 1, stream_number);
    sqlite3_bind_int64(s, 2, utc_ns);
    sqlite3_bind_int(s, 3, EA_STREAM_RUN_BYTES);
    int code = sqlite3_step(s);
    int64_t found = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : stream_number;
    rc = ec_sqlite_end(s, code, 0, DOING, err);
    if (!rc)
        *ret = found;
    return rc;
}

/* ---- processes ---- */

static int keep_process(ec_processes *list, size_t *capacity, const ea_process *p, ea_err *err) {
    if (EA_GROW(list->items, *capacity, list->count + 1, SIZE_MAX))
        return ea_fail(err, EA_ENOMEM, "list the processes");
    ea_process *to = &list->items[list->count];
    *to = *p;
    const char **texts[] = {&to->image_name, &to->command_line, &to->sid,
                            &to->package,    &to->application,  &to->mandatory_label};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        *texts[i] = ea_arena_strdup(&list->arena, *texts[i]);
        if (!*texts[i])
            return ea_fail(err, EA_ENOMEM, "list the processes");
    }
    list->count++;
    return 0;
}

int ec_query_processes(ec_query *q, int64_t stream_number, const int64_t *utc_ns, ec_processes *ret, ea_err *err) {
    sqlite3_stmt **s = utc_ns ? &q->alive : &q->all;
    int64_t of = 0;
    int rc = query_teller(q, OF_PROCESSES, stream_number, utc_ns ? *utc_ns : INT64_MAX, &of, err);
    if (rc)
        return rc;
    rc = utc_ns ? query_prepare(q, s,
                                "SELECT " EC_PROCESS_COLUMNS " FROM processes WHERE stream = ?1 AND begin_utc_ns <= ?2"
                                " AND end_utc_ns > ?2 ORDER BY begin_utc_ns, pid, instance",
                                err)
                : query_prepare(q, s,
                                "SELECT " EC_PROCESS_COLUMNS " FROM processes WHERE stream = ?1"
                                " ORDER BY begin_utc_ns, pid, instance",
                                err);
    if (rc)
        return rc;
    ec_processes list = {0};
    size_t capacity = 0;
    int code;
    ea_arena_init(&list.arena, 0);
    sqlite3_bind_int64(*s, 1, of);
    if (utc_ns)
        sqlite3_bind_int64(*s, 2, *utc_ns);
    while ((code = sqlite3_step(*s)) == SQLITE_ROW && !rc) {
        ea_process p;
        ec_read_process(*s, &p);
        rc = keep_process(&list, &capacity, &p, err);
    }
    rc = ec_sqlite_end(*s, code, rc, DOING, err);
    if (rc) {
        ec_processes_deinit(&list);
        return rc;
    }
    *ret = list;
    return 0;
}

void ec_processes_deinit(ec_processes *list) {
    free(list->items);
    ea_arena_deinit(&list->arena);
    *list = (ec_processes){0};
}

/* Index of a process's parent in the list, count when there is none. */
static size_t query_parent_of(const ec_processes *list, const ea_u64_map *by_instance, const ea_u64_map *by_pid,
                              size_t child) {
    const ea_process *p = &list->items[child];
    const uint64_t *at = p->parent_instance ? ea_u64_map_get(by_instance, p->parent_instance) : NULL;
    if (!at && !p->parent_instance && p->parent_pid != p->pid) {
        at = ea_u64_map_get(by_pid, p->parent_pid);
        if (at && list->items[*at].life.begin_utc_ns > p->life.begin_utc_ns)
            at = NULL; /* a later process under the pid of the parent, which is gone */
    }
    return at ? (size_t)*at : list->count;
}

int ec_processes_tree(const ec_processes *list, size_t *order, uint32_t *depth, ea_err *err) {
    size_t n = list->count, placed = 0;
    ea_u64_map by_instance, by_pid;
    /* first_child[n] heads the list of those without a parent; sibling links keep the list's order */
    size_t *links = malloc((4 * n + 2) * sizeof *links);
    unsigned char *seen = calloc(n + 1, 1);
    int rc = links && seen ? 0 : EA_ENOMEM;
    ea_u64_map_init(&by_instance, 0);
    ea_u64_map_init(&by_pid, 0);
    for (size_t i = 0; i < n && !rc; i++) {
        rc = ea_u64_map_put(&by_instance, list->items[i].life.instance, i);
        if (!rc)
            rc = ea_u64_map_put(&by_pid, list->items[i].pid, i);
    }
    if (!rc) {
        size_t *first_child = links, *sibling = links + n + 1, *stack = links + 2 * n + 1,
               *stack_depth = links + 3 * n + 1;
        for (size_t i = 0; i <= n; i++)
            first_child[i] = SIZE_MAX;
        for (size_t i = n; i-- > 0;) {
            size_t parent = query_parent_of(list, &by_instance, &by_pid, i);
            sibling[i] = first_child[parent];
            first_child[parent] = i;
        }
        /* Two processes that name each other as parent belong to no root: the first one left begins a tree of its own.
         */
        for (size_t root = first_child[n], rest = 0; placed < n;) {
            size_t begin = root;
            if (root != SIZE_MAX) {
                root = sibling[root];
            } else {
                while (seen[rest])
                    rest++;
                begin = rest;
            }
            size_t top = 0;
            stack[top] = begin;
            stack_depth[top++] = 0;
            while (top) {
                size_t at = stack[--top], level = stack_depth[top];
                if (seen[at])
                    continue;
                seen[at] = 1;
                order[placed] = at;
                depth[placed++] = (uint32_t)level;
                size_t below = top;
                for (size_t c = first_child[at]; c != SIZE_MAX; c = sibling[c])
                    if (!seen[c]) {
                        stack[top] = c;
                        stack_depth[top++] = level + 1;
                    }
                for (size_t a = below, b = top; a + 1 < b; a++) { /* the first child comes off the stack first */
                    size_t s = stack[a];
                    stack[a] = stack[--b];
                    stack[b] = s;
                }
            }
        }
    }
    ea_u64_map_deinit(&by_instance);
    ea_u64_map_deinit(&by_pid);
    free(links);
    free(seen);
    return rc ? ea_fail(err, EA_ENOMEM, "put the processes in order") : 0;
}

/* ---- modules ---- */

int ec_query_modules(ec_query *q, int64_t stream_number, uint32_t pid, int64_t utc_ns,
                     int (*fn)(const ea_module *m, void *arg), void *arg, ea_err *err) {
    int64_t of = 0;
    int code, rc = query_teller(q, OF_MODULES, stream_number, utc_ns, &of, err);
    if (rc)
        return rc;
    rc = query_prepare(q, &q->modules,
                       "SELECT " EC_MODULE_COLUMNS " FROM modules WHERE stream = ?1 AND pid = ?2"
                       " AND begin_utc_ns <= ?3 AND end_utc_ns > ?3 ORDER BY base, instance",
                       err);
    if (rc)
        return rc;
    sqlite3_bind_int64(q->modules, 1, of);
    sqlite3_bind_int64(q->modules, 2, pid);
    sqlite3_bind_int64(q->modules, 3, utc_ns);
    while ((code = sqlite3_step(q->modules)) == SQLITE_ROW && !rc) {
        ea_module m;
        ec_read_module(q->modules, &m);
        rc = fn(&m, arg);
    }
    return ec_sqlite_end(q->modules, code, rc, DOING, err);
}

/* The highest module at or below the address that reaches it: 1, 0. */
static int covering_module(ec_query *q, int64_t stream_number, uint32_t pid, int64_t utc_ns, uint64_t address,
                           void (*fn)(const ea_module *m, void *arg), void *arg, ea_err *err) {
    int code, found = 0,
              rc = query_prepare(q, &q->covering,
                                 "SELECT " EC_MODULE_COLUMNS " FROM modules WHERE stream = ?1 AND pid = ?2"
                                 " AND begin_utc_ns <= ?3 AND end_utc_ns > ?3 AND base <= ?4 ORDER BY base DESC",
                                 err);
    if (rc)
        return rc;
    sqlite3_bind_int64(q->covering, 1, stream_number);
    sqlite3_bind_int64(q->covering, 2, pid);
    sqlite3_bind_int64(q->covering, 3, utc_ns);
    sqlite3_bind_int64(q->covering, 4, ec_u64_to_sql(address));
    while ((code = sqlite3_step(q->covering)) == SQLITE_ROW && !found) {
        ea_module m;
        ec_read_module(q->covering, &m);
        found = address - m.base < m.size_bytes;
        if (found)
            fn(&m, arg);
    }
    rc = ec_sqlite_end(q->covering, code, 0, DOING, err);
    return rc ? rc : found;
}

int ec_query_where(ec_query *q, int64_t stream_number, uint32_t pid, int64_t utc_ns, uint64_t address,
                   void (*fn)(const ea_module *m, void *arg), void *arg, ea_err *err) {
    /* The kernel's half: above 2 GiB on 32-bit machines too, where a process may own some of it; so the process first.
     */
    int64_t of = 0;
    int rc = query_teller(q, OF_MODULES, stream_number, utc_ns, &of, err);
    if (!rc)
        rc = covering_module(q, of, pid, utc_ns, address, fn, arg, err);
    if (rc || pid == 0 || address < 0x80000000u || (address > UINT32_MAX && !(address >> 63)))
        return rc;
    return covering_module(q, of, 0, utc_ns, address, fn, arg, err);
}

/* ---- JSON ---- */

void ec_json_time(ea_text *t, const char *key, int64_t utc_ns, int known) {
    ea_text_printf(t, ", \"%s\": ", key);
    if (!known) {
        ea_text_str(t, "null");
        return;
    }
    ea_text_char(t, '"');
    ea_text_utc_ns(t, utc_ns);
    ea_text_char(t, '"');
}

static void query_add_text(ea_text *t, const char *key, const char *value) {
    ea_text_printf(t, ", \"%s\": ", key);
    ea_text_json_str(t, value);
}

static void add_address(ea_text *t, const char *key, uint64_t v) {
    ea_text_printf(t, ", \"%s\": \"0x%" PRIx64 "\"", key, v);
}

static void add_life(ea_text *t, const ea_interval *life) {
    static const char *const BEGINS[] = {"start", "rundown_start", "rundown_end", "end"};
    static const char *const ENDS[] = {"", "end", "replaced", "process_end", "evicted", "keyframe", "rundown"};
    ea_text_printf(t, "\"instance\": %" PRIu64, life->instance);
    ec_json_time(t, "begin", life->begin_utc_ns, life->begin_cause == EA_BEGIN_EVENT);
    ec_json_time(t, "not_before", life->begin_utc_ns, 1);
    ec_json_time(t, "not_after", life->seen_utc_ns, 1);
    query_add_text(t, "known_by", life->begin_cause < 4 ? BEGINS[life->begin_cause] : "");
    ec_json_time(t, "end", life->end_utc_ns, life->end_utc_ns != INT64_MAX);
    query_add_text(t, "ended_by",
                   life->end_cause == EA_FINISH_OPEN              ? NULL
                   : life->end_cause < sizeof ENDS / sizeof *ENDS ? ENDS[life->end_cause]
                                                                  : "");
}

static const char *const ELEVATIONS[] = {NULL, "default", "full", "limited"};

void ec_json_process(ea_text *t, const ea_process *p, const char *account) {
    ea_text_printf(t, "{\"pid\": %" PRIu32 ", \"ppid\": %" PRIu32 ", ", p->pid, p->parent_pid);
    add_life(t, &p->life);
    ea_text_printf(t, ", \"parent_instance\": ");
    if (p->parent_instance)
        ea_text_u64(t, p->parent_instance);
    else
        ea_text_str(t, "null");
    ea_text_printf(t, ", \"session\": %" PRIu32, p->session_id);
    query_add_text(t, "name", p->image_name);
    query_add_text(t, "command_line", p->command_line);
    query_add_text(t, "sid", *p->sid ? p->sid : NULL);
    query_add_text(t, "account", account);
    query_add_text(t, "package", *p->package ? p->package : NULL);
    query_add_text(t, "application", *p->application ? p->application : NULL);
    query_add_text(t, "mandatory_label", *p->mandatory_label ? p->mandatory_label : NULL);
    query_add_text(t, "integrity_level", ea_integrity_level(p->mandatory_label));
    query_add_text(t, "elevation_type",
                   p->elevation_type < sizeof ELEVATIONS / sizeof *ELEVATIONS ? ELEVATIONS[p->elevation_type] : NULL);
    ea_text_str(t, p->elevated == 0   ? ", \"elevated\": null"
                   : p->elevated == 1 ? ", \"elevated\": false"
                                      : ", \"elevated\": true");
    if (p->logon_id)
        add_address(t, "logon_id", p->logon_id);
    else
        ea_text_str(t, ", \"logon_id\": null");
    add_address(t, "unique_key", p->unique_key);
    add_address(t, "directory_table_base", p->directory_table_base);
    ea_text_printf(t, ", \"flags\": %" PRIu32 ", \"exit_status\": ", p->flags);
    if (p->life.end_cause == EA_FINISH_EVENT)
        ea_text_printf(t, "%" PRId32 "}", p->exit_status);
    else
        ea_text_str(t, "null}");
}

void ec_json_module(ea_text *t, const ea_module *m) {
    ea_text_printf(t, "{\"base\": \"0x%" PRIx64 "\", \"size\": %" PRIu64, m->base, m->size_bytes);
    query_add_text(t, "path", m->path);
    query_add_text(t, "original_name", *m->original_name ? m->original_name : NULL);
    query_add_text(t, "kind", m->kind == EA_MODULE_ANNOUNCED ? "announced" : "image");
    ea_text_str(t, ", \"pdb\": ");
    if (m->has_pdb) {
        ea_text_str(t, "{\"guid\": \"");
        ea_text_guid(t, &m->pdb_guid);
        ea_text_printf(t, "\", \"age\": %" PRIu32, m->pdb_age);
        query_add_text(t, "path", m->pdb_path);
        ea_text_char(t, '}');
    } else {
        ea_text_str(t, "null");
    }
    ea_text_printf(t, ", \"pid\": %" PRIu32 ", ", m->pid);
    add_life(t, &m->life);
    ea_text_str(t, ", \"process_instance\": ");
    if (m->process_instance)
        ea_text_u64(t, m->process_instance);
    else
        ea_text_str(t, "null");
    add_address(t, "default_base", m->default_base);
    ea_text_printf(t, ", \"checksum\": %" PRIu32 ", \"timestamp\": %" PRIu32 ", \"file\": ", m->checksum, m->timestamp);
    if (!m->file_bytes && !*m->sha256) { /* the file was not examined */
        ea_text_str(t, "null}");
        return;
    }
    ea_text_printf(t, "{\"size\": %" PRIu64, m->file_bytes);
    query_add_text(t, "sha256", *m->sha256 ? m->sha256 : NULL);
    query_add_text(t, "version", *m->file_version ? m->file_version : NULL);
    query_add_text(t, "company", *m->company ? m->company : NULL);
    query_add_text(t, "product", *m->product ? m->product : NULL);
    query_add_text(t, "description", *m->description ? m->description : NULL);
    query_add_text(t, "md5", *m->md5 ? m->md5 : NULL);
    query_add_text(t, "sha1", *m->sha1 ? m->sha1 : NULL);
    query_add_text(t, "imphash", *m->imphash ? m->imphash : NULL);
    ea_text_str(t, "}}");
}

void ec_json_moment(ea_text *t, const ec_moment *moment, uint64_t backlog) {
    ea_text_str(t, "\"host\": ");
    ea_text_json_str(t, moment->fold.host);
    ea_text_str(t, ", \"stream\": \"");
    ea_text_hex(t, moment->fold.stream, sizeof moment->fold.stream);
    ea_text_char(t, '"');
    ec_json_time(t, "time", moment->utc_ns, 1);
    ec_json_time(t, "data_begin", moment->fold.begin_utc_ns, 1);
    ec_json_time(t, "data_end", moment->fold.end_utc_ns, 1);
    ea_text_printf(t, ", \"behind\": %" PRIu64, backlog);
}

const char *ec_base_name(const char *path) {
    const char *base = path;
    for (const char *p = path; *p; p++)
        if (*p == '\\' || *p == '/')
            base = p + 1;
    return base;
}
