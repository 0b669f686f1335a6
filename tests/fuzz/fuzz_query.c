/* Fuzz target: the conditions that SQLite passes to the scan must not change an answer. The input is a WHERE clause. It
 * is run twice over a small store: once with conditions passed to the scan (xBestIndex, the index, columns,
 * dictionaries) and once with SQLite evaluating them alone. Both runs must find the same rows. When the first byte is 1
 * modulo 4, a native aggregate is compared with GROUP BY instead. When it is 2 modulo 4, the input is a statement with
 * aggregates, which must give the same rows in the same order with groups handed down and without. When it is 3 modulo
 * 16, the remaining bytes are run as SQL, which may do anything except write or crash. */
#include "collector/query/sql/sql.h"
#include "collector/state/state_worker.h"
#include "collector/store/store.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "service/batch/builder.h"
#include "tests/unit/machine_records.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STREAMS = 3, BATCHES = 3, EVENTS = 60, TABLES_MAX = 32, COLUMNS_MAX = 96, TERMS_MAX = 6, TICKS_MAX = 2000 };

#define EPOCH_NS INT64_C(1700000000000000000)

/* ---- the store ---- */

static char folder[64];
static ec_sql *handed_down, *left_alone, *ungrouped;
static int ticks;

typedef struct table {
    char name[64];
    char columns[COLUMNS_MAX][48];
    size_t count;
    int has_position; /* a table of events */
} table;

static table tables[TABLES_MAX];
static size_t table_count;

static void must(int rc) {
    if (rc)
        abort();
}

static int remove_entry(const char *name, int is_dir, void *arg) {
    char path[512];
    ea_err err;
    snprintf(path, sizeof path, "%s/%s", (const char *)arg, name);
    if (!is_dir)
        return ea_path_remove(path, &err);
    (void)!ea_path_list(path, remove_entry, path, &err);
    return rmdir(path);
}

static void remove_store(void) {
    ea_err err;
    ec_sql_close(handed_down);
    ec_sql_close(left_alone);
    ec_sql_close(ungrouped);
    (void)!ea_path_list(folder, remove_entry, folder, &err);
    rmdir(folder);
}

static uint64_t seed = 1;

static uint32_t draw(uint32_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 33) % below);
}

static const ea_record *disk_record(made_record *r, int64_t time) {
    static const ea_guid DISK_IO = EA_GUID(0x3d6fa8d4, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);
    static const uint64_t OFFSETS[] = {0, 4096, INT64_MAX, (uint64_t)INT64_MAX + 1, UINT64_MAX, 77};
    begin_record(r, 0x3d6fa8d0, 10, 3, time);
    r->record.provider = DISK_IO;
    put32(r, draw(3));
    put32(r, 0x60043 + draw(2));
    put32(r, 512u << draw(5));
    put32(r, 0);
    put64(r, OFFSETS[draw(6)]);
    put64(r, 0xffffe00000000000u + draw(4));
    put64(r, draw(2) ? 0x7ff700000000u : 0xfffff80000000000u);
    put64(r, draw(1000));
    put32(r, 4 * draw(9));
    const ea_record *record = end_record(r);
    if (draw(8) == 0) /* cut: the last fields are missing */
        r->record.payload_bytes = (uint16_t)(r->record.payload_bytes - 4 * (1 + draw(8)));
    return record;
}

static const ea_record *random_record(made_record *r, int64_t t) {
    static const char *const NAMES[] = {"a.exe", "A.exe", "b.exe", "", "\xC3\xBC.exe"};
    static const char *const PATHS[] = {"x.dll", "X.dll", "\\Device\\HarddiskVolume1\\y.dll", "", "5"};
    uint32_t pid = 4 * draw(6);
    switch (draw(4)) {
    case 0:
        return process_record(r, draw(2) ? OP_START : OP_DC_START, t, pid, 4 * draw(6),
                              draw(2) ? UINT64_MAX - draw(3) : draw(3), NAMES[draw(5)], "cmd \"x\"");
    case 1:
        return thread_record(r, OP_START, t, pid, 4 * draw(9), (uint64_t)draw(4) << 62, draw(3));
    case 2:
        return image_record(r, OP_LOAD, t, pid, draw(2) ? 0x10000u * draw(5) : 0xfffff80000000000u + draw(5),
                            0x1000u * (1 + draw(4)), PATHS[draw(5)]);
    default:
        return disk_record(r, t);
    }
}

static void make_stream(ec_store *store, unsigned which) {
    ea_wire_source source = {
        .name = "",
        .host = "MACHINE",
        .clock = {.type = EA_CLOCK_QPC, .frequency = which ? 1000000000 : 3579545, .base_utc_ns = EPOCH_NS},
        .pointer_size = 8,
        .cpu_count = 4};
    ea_builder_options bo = {.sources = &source, .source_count = 1};
    ea_encoder_options eo = {.all_descriptions = 1};
    ea_registry *registry;
    ea_builder *builder;
    ea_encoder *encoder;
    made_record r;
    ea_err err = {0};
    int64_t t = 1000;
    memset(eo.stream, (int)which + 1, sizeof eo.stream);
    must(ea_registry_create(&registry, 0, &err));
    must(ea_builder_create(&builder, &bo, &err));
    must(ea_encoder_create(&encoder, &eo, &err));
    for (uint64_t b = 1; b <= BATCHES; b++) {
        const uint8_t *data;
        size_t n;
        for (int i = 0; i < EVENTS; i++, t += draw(4)) {
            const ea_record *record = random_record(&r, t);
            r.record.cpu = (uint16_t)draw(4);
            r.record.pid = draw(5) ? 4 * draw(6) : UINT32_MAX;
            r.record.tid = 4 * draw(9);
            r.record.level = (uint8_t)draw(3);
            must(ea_builder_add(builder, record, ea_registry_find(registry, record)) < 0);
        }
        ea_open_batch *open = ea_builder_take(builder);
        if (!open)
            abort();
        must(ea_encoder_encode(encoder, open, &(ea_batch_stamp){.number = b}, &data, &n, &err));
        ea_open_batch_release(open);
        must(ec_store_append(store, which == 1 ? "beta" : "alpha", data, n, &err) != EC_STORED);
    }
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
    must(ec_store_commit(store, &err));
}

static int keep_going(void *arg) {
    (void)arg;
    return ++ticks < TICKS_MAX;
}

static void list_columns(table *t) {
    sqlite3_stmt *s = NULL;
    ea_err err;
    char sql[256];
    snprintf(sql, sizeof sql, "SELECT name FROM pragma_table_xinfo('%s')", t->name);
    must(ec_sql_prepare(handed_down, sql, &s, NULL, &err));
    while (sqlite3_step(s) == SQLITE_ROW && t->count < COLUMNS_MAX) {
        snprintf(t->columns[t->count], sizeof t->columns[0], "%s", (const char *)sqlite3_column_text(s, 0));
        t->has_position |= strcmp(t->columns[t->count++], "position") == 0;
    }
    sqlite3_finalize(s);
    if (!t->count)
        abort();
}

static void make(void) {
    static const char *const NAMES[] = {"events",      "Process/Start", "Process/DCStart", "Thread/Start", "Image/Load",
                                        "DiskIo/Read", "hosts",         "streams",         "batches",      "classes",
                                        "processes",   "threads",       "modules",         "ledger"};
    ec_store *store;
    ec_state_worker *history;
    ec_state_worker_options ho = {0};
    uint64_t folded;
    ea_err err = {0};
    snprintf(folder, sizeof folder, "/dev/shm/ec-fuzz-query-XXXXXX");
    if (!mkdtemp(folder)) {
        snprintf(folder, sizeof folder, "/tmp/ec-fuzz-query-XXXXXX");
        if (!mkdtemp(folder))
            abort();
    }
    atexit(remove_store);
    must(ec_store_open(&store, folder, &(ec_store_options){.writable = 1}, &err));
    for (unsigned i = 0; i < STREAMS; i++)
        make_stream(store, i);
    ec_store_close(store);
    must(ec_state_worker_open(&history, folder, &ho, &err));
    must(ec_state_worker_fold(history, &folded, &err));
    ec_state_worker_close(history);
    must(ec_sql_open(&handed_down, folder, &(ec_sql_options){.keep_going = keep_going}, &err));
    must(ec_sql_open(&left_alone, folder, &(ec_sql_options){.no_pushdown = 1}, &err));
    must(ec_sql_open(&ungrouped, folder, &(ec_sql_options){.no_grouping = 1}, &err));
    sqlite3_hard_heap_limit64(256 << 20);
    for (size_t i = 0; i < sizeof NAMES / sizeof NAMES[0]; i++) {
        snprintf(tables[i].name, sizeof tables[i].name, "%s", NAMES[i]);
        list_columns(&tables[i]);
        table_count++;
    }
}

/* ---- a clause out of bytes ---- */

typedef struct input {
    const uint8_t *at, *end;
} input;

static uint32_t take(input *in) {
    return in->at < in->end ? *in->at++ : 0;
}

static uint64_t take64(input *in) {
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | take(in);
    return v;
}

static const char *column_of(input *in, const table *t) {
    return t->columns[take(in) % t->count];
}

static void add_literal(ea_text *sql, input *in, const table *t, const char *column) {
    static const char *const TEXTS[] = {"'a.exe'",
                                        "'A.exe'",
                                        "''",
                                        "'x.dll'",
                                        "'alpha'",
                                        "'beta'",
                                        "'Process/Start'",
                                        "'Image/Load'",
                                        "'S-1-5-18'",
                                        "'5'",
                                        "' 4 '",
                                        "'4.0'",
                                        "'1e3'",
                                        "'\xC3\xBC.exe'",
                                        "'18446744073709551615'",
                                        "'09223372036854775808'",
                                        "'start'",
                                        "'abc'",
                                        "X'00'",
                                        "X''"};
    static const char *const EDGES[] = {"9223372036854775807",
                                        "-9223372036854775808",
                                        "9223372036854775808.0",
                                        "-9223372036854775808.0",
                                        "1e300",
                                        "-1e300",
                                        "4294967295",
                                        "-1",
                                        "0.0",
                                        "-0.0",
                                        "1e18",
                                        "9007199254740993",
                                        "NULL",
                                        "u64('0xfffff80000000000')",
                                        "u64('0x7ff700000000')",
                                        "u64('0')",
                                        "u64('0xffffffffffffffff')",
                                        "time_ns('2023-11-14T22:13:20Z')"};
    switch (take(in) % 8) {
    case 0:
        ea_text_printf(sql, "%d", (int)(int8_t)take(in));
        break;
    case 1:
        ea_text_printf(sql, "%d.5", (int)(int8_t)take(in));
        break;
    case 2:
        ea_text_str(sql, TEXTS[take(in) % (sizeof TEXTS / sizeof TEXTS[0])]);
        break;
    case 3:
        ea_text_str(sql, EDGES[take(in) % (sizeof EDGES / sizeof EDGES[0])]);
        break;
    case 4:
        ea_text_printf(sql, "(%lld)", (long long)take64(in));
        break;
    case 5:
        ea_text_printf(sql, "%lld", (long long)EPOCH_NS + 1000 + (long long)take(in) * 4);
        break;
    case 6:
        ea_text_printf(sql, "u64('0x%llx')", (unsigned long long)take64(in));
        break;
    default: /* a value that there is, and its neighbours */
        ea_text_printf(sql, "(SELECT \"%s\" FROM \"%s\" LIMIT 1 OFFSET %u)", column, t->name, take(in));
        if (take(in) % 3 == 0)
            ea_text_str(sql, " + 1");
    }
}

static void add_term(ea_text *sql, input *in, const table *t) {
    static const char *const OPS[] = {"=", "<", "<=", ">", ">=", "<>", "IS", "="};
    const char *column = column_of(in, t);
    uint32_t form = take(in) % 16;
    ea_text_printf(sql, "\"%s\"", column);
    if (form == 8) {
        uint32_t n = take(in) % 5;
        ea_text_str(sql, " IN (");
        for (uint32_t i = 0; i <= n; i++) {
            ea_text_str(sql, i ? ", " : "");
            add_literal(sql, in, t, column);
        }
        ea_text_char(sql, ')');
    } else if (form == 9) {
        ea_text_str(sql, " BETWEEN ");
        add_literal(sql, in, t, column);
        ea_text_str(sql, " AND ");
        add_literal(sql, in, t, column);
    } else if (form == 10) {
        ea_text_str(sql, take(in) % 2 ? " IS NULL" : " IS NOT NULL");
    } else if (form == 11) {
        ea_text_str(sql, " LIKE '%e%'");
    } else if (form == 12) {
        ea_text_str(sql, " = ");
        add_literal(sql, in, t, column);
        ea_text_str(sql, " COLLATE NOCASE");
    } else if (form == 13) {
        ea_text_printf(sql, " IN (SELECT \"%s\" FROM \"%s\" LIMIT %u)", column, t->name, take(in) % 7);
    } else {
        ea_text_printf(sql, " %s ", OPS[form % 8]);
        add_literal(sql, in, t, column);
    }
}

static void add_clause(ea_text *sql, input *in, const table *t) {
    uint32_t n = 1 + take(in) % TERMS_MAX, open = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t shape = take(in);
        if (i)
            ea_text_str(sql, shape & 1 ? " OR " : " AND ");
        if ((shape & 6) == 6)
            ea_text_str(sql, "NOT ");
        if ((shape & 24) == 24) {
            ea_text_char(sql, '(');
            open++;
        }
        add_term(sql, in, t);
        if (open && shape & 32) {
            ea_text_char(sql, ')');
            open--;
        }
    }
    while (open--)
        ea_text_char(sql, ')');
}

/* Comparisons that a native aggregate mostly takes: with values that there are. */
static void add_simple_clause(ea_text *sql, input *in, const table *t) {
    static const char *const OPS[] = {"=", "<", "<=", ">", ">=", "<=", ">=", "IN"};
    uint32_t n = take(in) % 4;
    ea_text_char(sql, '1');
    for (uint32_t i = 0; i < n; i++) {
        const char *column = column_of(in, t), *op = OPS[take(in) % 8];
        uint32_t literals = *op == 'I' ? 1 + take(in) % 3 : 1;
        ea_text_printf(sql, " AND \"%s\" %s (", column, op);
        for (uint32_t k = 0; k < literals; k++) {
            uint32_t which = take(in);
            ea_text_str(sql, k ? ", " : "");
            if (which % 8)
                ea_text_printf(sql, "(SELECT \"%s\" FROM \"%s\" LIMIT 1 OFFSET %u)", column, t->name, which / 8);
            else
                add_literal(sql, in, t, column);
        }
        ea_text_char(sql, ')');
    }
}

/* ---- asking ---- */

typedef struct answer {
    int code;
    uint64_t rows, hash; /* of the rows in any order */
    uint64_t in_order;   /* likewise, in this order */
    char message[200];
} answer;

static answer ask(ec_sql *s, const ea_text *sql) {
    answer a = {0};
    sqlite3 *db = ec_sql_database(s);
    ea_err err = {0};
    sqlite3_stmt *st = NULL;
    ticks = 0;
    a.code = ec_sql_prepare(s, sql->data, &st, NULL, &err);
    int is_refused = a.code != SQLITE_OK && *err.message;
    while (a.code == SQLITE_OK && (a.code = sqlite3_step(st)) == SQLITE_ROW) {
        uint64_t hash = 0;
        for (int i = 0; i < sqlite3_column_count(st); i++) {
            int type = sqlite3_column_type(st, i);
            const void *text = sqlite3_column_text(st, i);
            hash = ea_hash64(&type, sizeof type, hash);
            hash = ea_hash64(text ? text : "", (size_t)sqlite3_column_bytes(st, i), hash);
        }
        a.rows++;
        a.hash += hash;
        a.in_order = ea_hash64(&hash, sizeof hash, a.in_order);
        a.code = SQLITE_OK;
    }
    snprintf(a.message, sizeof a.message, "%s",
             a.code == SQLITE_DONE ? ""
             : is_refused          ? err.message
                                   : sqlite3_errmsg(db));
    sqlite3_finalize(st);
    return a;
}

static void differ(const char *what, const ea_text *x, const answer *a, const ea_text *y, const answer *b) {
    fprintf(stderr, "%s\n%.*s\n  %d, %llu rows, %s\n%.*s\n  %d, %llu rows, %s\n", what, (int)x->len_bytes, x->data,
            a->code, (unsigned long long)a->rows, a->message, (int)y->len_bytes, y->data, b->code,
            (unsigned long long)b->rows, b->message);
    abort();
}

/* A number that is written for a time or an address is refused where a condition is handed down to its table. */
static int is_spelling(const answer *a) {
    return strstr(a->message, "a time is a number of ns") || strstr(a->message, "whose numbers are turned") ||
           strstr(a->message, "the numbers of addresses are turned");
}

static void ask_rows(input *in) {
    const table *t = &tables[take(in) % table_count];
    ea_text sql;
    ea_text_init(&sql);
    ea_text_printf(&sql, "SELECT %s FROM \"%s\" WHERE ", t->has_position ? "stream, batch, position" : "*", t->name);
    add_clause(&sql, in, t);
    if (sql.failed)
        abort();
    answer a = ask(handed_down, &sql), b = ask(left_alone, &sql);
    if (!is_spelling(&a) && (a.code != b.code || (a.code == SQLITE_DONE && (a.rows != b.rows || a.hash != b.hash))))
        differ("handed down and left alone differ", &sql, &a, &sql, &b);
    ea_text_deinit(&sql);
}

static void ask_groups(input *in) {
    const table *t = &tables[take(in) % 6]; /* of events */
    uint32_t by_count = take(in) % 3;
    const char *by[] = {column_of(in, t), column_of(in, t)};
    const char *value = take(in) % 2 ? column_of(in, t) : NULL;
    ea_text native, plain, clause;
    ea_text_init(&native);
    ea_text_init(&plain);
    ea_text_init(&clause);
    if (by_count == 2 && strcmp(by[0], by[1]) == 0)
        by_count = 1;
    if (take(in) % 4)
        add_simple_clause(&clause, in, t);
    else
        add_clause(&clause, in, t);
    ea_text_str(&native, "SELECT ");
    ea_text_str(&plain, "SELECT ");
    for (uint32_t i = 0; i < by_count; i++) {
        ea_text_printf(&native, "\"%s\", ", by[i]);
        ea_text_printf(&plain, "\"%s\", ", by[i]);
    }
    ea_text_str(&native, value ? "count, value_count, min, max" : "count");
    if (value)
        ea_text_printf(&plain, "count(*), count(\"%s\"), min(\"%s\"), max(\"%s\")", value, value, value);
    else
        ea_text_str(&plain, "count(*)");
    int with_sum = value && take(in) % 2;
    if (with_sum) {
        ea_text_str(&native, ", sum");
        ea_text_printf(&plain, ", sum(\"%s\")", value);
    }
    ea_text_printf(&native, " FROM \"%s_by\"(", t->name);
    for (uint32_t i = 0; i < 2; i++)
        ea_text_printf(&native, i < by_count ? "'%s', " : "NULL, ", i < by_count ? by[i] : "");
    if (value)
        ea_text_printf(&native, "'%s'", value);
    else
        ea_text_str(&native, "NULL");
    ea_text_str(&native, ") WHERE ");
    ea_text_printf(&plain, " FROM \"%s\" WHERE ", t->name);
    ea_text_add(&native, clause.data, clause.len_bytes);
    ea_text_add(&plain, clause.data, clause.len_bytes);
    for (uint32_t i = 0; i < by_count; i++)
        ea_text_printf(&plain, "%s %u", i ? "," : " GROUP BY", i + 1);
    if (native.failed || plain.failed)
        abort();
    answer a = ask(handed_down, &native);
    /* The native aggregate refuses a query that it cannot answer exactly. Where SQLite sees that the condition is never
     * true, it does not ask for a total. */
    if (a.code == SQLITE_DONE && (by_count || a.rows)) {
        answer b = ask(left_alone, &plain);
        if (!is_spelling(&b) && (b.code != SQLITE_DONE || a.rows != b.rows || a.hash != b.hash))
            differ("native and grouped differ", &native, &a, &plain, &b);
    }
    ea_text_deinit(&native);
    ea_text_deinit(&plain);
    ea_text_deinit(&clause);
}

static void add_key(ea_text *sql, input *in, const table *t) {
    uint32_t form = take(in) % 8;
    const char *column = column_of(in, t);
    if (form == 0)
        ea_text_printf(sql, "time_bucket(\"%s\", %u)", column, 1 + take(in));
    else if (form == 1)
        ea_text_printf(sql, "\"%s\" %c %d", column, "+-*/%"[take(in) % 5], (int)(int8_t)take(in));
    else if (form == 2)
        ea_text_printf(sql, "lower(\"%s\")", column);
    else
        ea_text_printf(sql, "\"%s\"", column);
}

static void add_aggregate(ea_text *sql, input *in, const table *t) {
    static const char *const NAMES[] = {"count(", "sum(", "avg(", "min(", "max(", "total(", "count(DISTINCT "};
    uint32_t form = take(in) % 8;
    if (form == 7) {
        ea_text_str(sql, "count(*)");
    } else {
        ea_text_str(sql, NAMES[form]);
        add_key(sql, in, t);
        ea_text_char(sql, ')');
    }
    if (take(in) % 8 == 1) {
        ea_text_str(sql, " FILTER (WHERE ");
        add_term(sql, in, t);
        ea_text_char(sql, ')');
    }
}

/* A statement with groups: handed down and not. */
static void ask_handed_down(input *in) {
    const table *t = &tables[take(in) % 6]; /* of events */
    uint32_t keys = take(in) % 4, aggregates = take(in) % 4 + (keys == 0);
    ea_text sql;
    ea_text_init(&sql);
    ea_text_str(&sql, "SELECT ");
    for (uint32_t i = 0; i < keys + aggregates; i++) {
        ea_text_str(&sql, i ? ", " : "");
        if (i < keys)
            add_key(&sql, in, t);
        else
            add_aggregate(&sql, in, t);
    }
    ea_text_printf(&sql, " FROM \"%s\"", t->name);
    uint32_t clause = take(in) % 4;
    if (clause)
        ea_text_str(&sql, " WHERE ");
    if (clause == 1)
        add_clause(&sql, in, t);
    else if (clause == 2)
        add_simple_clause(&sql, in, t);
    else if (clause == 3)
        add_term(&sql, in, t);
    for (uint32_t i = 0; i < keys; i++)
        ea_text_printf(&sql, "%s %u", i ? "," : " GROUP BY", i + 1);
    uint32_t rest = take(in);
    if (rest & 1) {
        ea_text_str(&sql, " HAVING ");
        add_aggregate(&sql, in, t);
        ea_text_printf(&sql, " > %u", take(in) % 16);
    }
    if (rest & 2)
        ea_text_printf(&sql, " ORDER BY %u%s", 1 + take(in) % (keys + aggregates), rest & 4 ? " DESC" : "");
    if (rest & 8)
        ea_text_printf(&sql, " LIMIT %u", take(in) % 8);
    if (sql.failed)
        abort();
    answer a = ask(handed_down, &sql), b = ask(ungrouped, &sql);
    /* both are bounded in steps; an error of a value ends both */
    if ((a.code == SQLITE_DONE) != (b.code == SQLITE_DONE) ||
        (a.code == SQLITE_DONE && (a.rows != b.rows || a.in_order != b.in_order)))
        if (a.code != SQLITE_INTERRUPT && b.code != SQLITE_INTERRUPT && !is_spelling(&a) && !is_spelling(&b))
            differ("groups handed down and not differ", &sql, &a, &sql, &b);
    ea_text_deinit(&sql);
}

/* Whatever it is, a statement that is let through only reads. */
static void ask_anything(input *in) {
    ea_err err;
    sqlite3_stmt *st = NULL;
    size_t n = (size_t)(in->end - in->at);
    char *sql = malloc(n + 1);
    if (!sql)
        abort();
    memcpy(sql, in->at, n);
    sql[n] = 0;
    ticks = 0;
    if (ec_sql_prepare(handed_down, sql, &st, NULL, &err) == SQLITE_OK && st) {
        if (!sqlite3_stmt_readonly(st)) {
            fprintf(stderr, "let through, though it writes: %s\n", sql);
            abort();
        }
        for (int rows = 0; rows < 1000 && sqlite3_step(st) == SQLITE_ROW; rows++)
            ;
    }
    sqlite3_finalize(st);
    free(sql);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, data + size};
    if (!folder[0])
        make();
    uint32_t mode = take(&in);
    if (mode % 4 == 1)
        ask_groups(&in);
    else if (mode % 4 == 2)
        ask_handed_down(&in);
    else if (mode % 16 == 3)
        ask_anything(&in);
    else
        ask_rows(&in);
    return 0;
}
