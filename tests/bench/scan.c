/* What a question to the store costs: a native scan of one column with a filter on time and pid, a native scan that
 * groups by pid, both in plain SQL, and a copy of that column from memory to memory. And questions in plain SQL that
 * are handed down to the native grouping (sql_push.c in collector/query/sql), beside what SQLite alone needs for them.
 *
 * usage: scan measure [--runs N] DIR
 *        scan files [--runs N] DIR   the export of all events of such a store as files of columns
 * Makes a store of 2,097,152 disk reads of 64 processes in the folder DIR, which must not be there yet, and does N
 * times: sum one field of one process's events inside nine tenths of the time, and of each process's. Prints the
 * medians in ns for each event in that time, as one JSON object. The questions are asked of all events; SQLite alone
 * answers them in the first of the N rounds only, as it takes so long. Thread: one. */
#include "collector/query/analysis/aggregate.h"
#include "collector/query/files/event_files.h"
#include "collector/query/sql/sql.h"
#include "collector/store/store.h"
#include "proto/base/cli.h"
#include "proto/base/platform.h"
#include "service/batch/builder.h"
#include "tests/bench/cpu_time.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BATCHES = 128, BATCH_EVENTS = 16384, EVENTS = BATCHES * BATCH_EVENTS, PIDS = 64, PAYLOAD = 52, RUNS_MAX = 1001 };

#define EPOCH_NS INT64_C(1700000000000000000)
#define HOST     "bench"
#define NAME     "DiskIo/Read"
#define FIELD    "TransferSize"

static const ea_guid DISK_IO = EA_GUID(0x3d6fa8d4, 0xfe05, 0x11d0, 0x9d, 0xda, 0x00, 0xc0, 0x4f, 0xd7, 0xba, 0x7c);

typedef struct options {
    uint64_t runs;
} options;

/* The column as it was made, and what the question has to answer. */
typedef struct truth {
    uint32_t *sizes;
    uint32_t pid;
    int64_t from_utc_ns, to_utc_ns; /* both included */
    uint64_t inside, count;
    int64_t sum;
} truth;

static uint64_t state = 88172645463325252u;

static uint32_t dice(uint32_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)(state >> 32) % below;
}

/* DiskIo/Read version 3, 64-bit: disk, flags, size, reserved, offset, file object, IRP, response time, thread. */
static void make_read(uint8_t *p, uint32_t size) {
    ea_store32(p, dice(4));
    ea_store32(p + 4, 0x60043);
    ea_store32(p + 8, size);
    ea_store32(p + 12, 0);
    ea_store64(p + 16, (uint64_t)4096 * dice(1 << 28));
    ea_store64(p + 24, 0xffffe00012340000u + (uint64_t)0x100 * dice(3000));
    ea_store64(p + 32, 0xffffe00056780000u + (uint64_t)0x400 * dice(64));
    ea_store64(p + 40, 200 + dice(40000));
    ea_store32(p + 48, 8000 + 4 * dice(400));
}

static int append_batch(ec_store *store, ea_builder *builder, ea_encoder *encoder, uint64_t number, ea_err *err) {
    const uint8_t *data;
    size_t n;
    ea_open_batch *batch = ea_builder_take(builder);
    if (!batch)
        return ea_fail(err, EA_EINVAL, "make a batch");
    int rc = ea_encoder_encode(encoder, batch, &(ea_batch_stamp){.number = number}, &data, &n, err);
    ea_open_batch_release(batch);
    if (!rc)
        rc = ec_store_append(store, HOST, data, n, err);
    return rc == EC_STORED ? 0 : rc < 0 ? rc : ea_fail(err, EA_EINVAL, "store a batch");
}

static int make_store(const char *dir, truth *t, ea_err *err) {
    ec_store *store = NULL;
    ea_registry *registry = NULL;
    ea_builder *builder = NULL;
    ea_encoder *encoder = NULL;
    ea_wire_source source = {.name = "",
                             .host = "",
                             .clock = {.type = EA_CLOCK_QPC, .frequency = 10000000, .base_utc_ns = EPOCH_NS},
                             .pointer_size = 8,
                             .cpu_count = 8};
    ea_builder_options bo = {.max_events = BATCH_EVENTS, .sources = &source, .source_count = 1};
    ea_encoder_options eo = {.stream = "scan bench"};
    int64_t clock = 0;
    uint8_t payload[PAYLOAD];
    int rc = ec_store_open(&store, dir, &(ec_store_options){.writable = 1, .trusts_checksums = 1}, err);
    if (!rc)
        rc = ea_registry_create(&registry, 0, err);
    if (!rc)
        rc = ea_builder_create(&builder, &bo, err);
    if (!rc)
        rc = ea_encoder_create(&encoder, &eo, err);
    t->pid = 1000 + 4 * 7;
    t->from_utc_ns =
        EPOCH_NS + INT64_C(100) * EVENTS / 20 * 50; /* 50 ticks an event: about a twentieth at either end */
    t->to_utc_ns = EPOCH_NS + INT64_C(100) * EVENTS / 20 * 950;
    for (uint64_t b = 0; !rc && b < BATCHES; b++) {
        for (uint32_t i = 0; rc >= 0 && i < BATCH_EVENTS; i++) {
            uint32_t size = 512u << dice(9), pid = 1000 + 4 * dice(PIDS);
            int64_t utc = EPOCH_NS + 100 * (clock += 1 + dice(99));
            make_read(payload, size);
            t->sizes[b * BATCH_EVENTS + i] = size;
            if (utc >= t->from_utc_ns && utc <= t->to_utc_ns) {
                t->inside++;
                t->count += pid == t->pid;
                t->sum += pid == t->pid ? size : 0;
            }
            ea_record record = {.provider = DISK_IO,
                                .opcode = 10,
                                .version = 3,
                                .flags = EA_FLAG_CLASSIC_HEADER | EA_FLAG_64_BIT_HEADER,
                                .pointer_size = 8,
                                .time_raw = clock,
                                .cpu = (uint16_t)dice(8),
                                .pid = pid,
                                .tid = pid * 4 + 4 * dice(6),
                                .header_type = EA_HEADER_SYSTEM64,
                                .payload = payload,
                                .payload_bytes = PAYLOAD};
            rc = ea_builder_add(builder, &record, ea_registry_find(registry, &record));
        }
        rc = rc < 0 ? rc : append_batch(store, builder, encoder, b + 1, err);
    }
    if (!rc)
        rc = ec_store_commit(store, err);
    ea_encoder_destroy(encoder);
    ea_builder_destroy(builder);
    ea_registry_destroy(registry);
    ec_store_close(store);
    return rc;
}

static int check(const char *way, const truth *t, uint64_t count, int64_t sum, ea_err *err) {
    return count == t->count && sum == t->sum
               ? 0
               : ea_fail(err, EA_EINVAL, "%s gives %" PRIu64 " events and %" PRId64 ", not %" PRIu64 " and %" PRId64,
                         way, count, sum, t->count, t->sum);
}

/* all: grouped by process; else of one process. */
static int scan(ec_archive *archive, const ec_table_schema *shape, const truth *t, int all, ea_err *err) {
    const ec_value values[] = {
        {.type = EC_INT, .i = t->from_utc_ns}, {.type = EC_INT, .i = t->to_utc_ns}, {.type = EC_INT, .i = t->pid}};
    const size_t pid = ec_table_schema_find(shape, "pid");
    const ec_condition conditions[] = {{ec_table_schema_find(shape, "time"), EC_OP_GE, &values[0], 1},
                                       {ec_table_schema_find(shape, "time"), EC_OP_LE, &values[1], 1},
                                       {pid, EC_OP_EQ, &values[2], 1}};
    ec_aggregate_options o = {.conditions = conditions,
                              .condition_count = all ? 2 : 3,
                              .by = {pid},
                              .by_count = all ? 1 : 0,
                              .has_value = 1,
                              .value = ec_table_schema_find(shape, FIELD)};
    ec_aggregate *a = NULL;
    size_t n;
    int rc = ec_aggregate_run(&a, archive, shape, &o, err);
    if (rc)
        return rc;
    const ec_group *g = ec_aggregate_groups(a, &n);
    if (n != (all ? PIDS : 1))
        rc = ea_fail(err, EA_EINVAL, "the scan gives %zu groups", n);
    for (size_t i = 0; !rc && i < n; i++)
        if (!all || g[i].key[0].i == t->pid)
            rc = check("the scan", t, g[i].value_count, g[i].sum, err);
    ec_aggregate_destroy(a);
    return rc;
}

static int ask(ec_sql *from, const truth *t, int all, ea_err *err) {
    sqlite3_stmt *s = NULL;
    char sql[256];
    int rc = 0, code, n = 0;
    snprintf(sql, sizeof sql,
             "SELECT count(*), sum(" FIELD "), pid FROM \"" NAME "\" WHERE time BETWEEN %" PRId64 " AND %" PRId64
             " %s %" PRIu32,
             t->from_utc_ns, t->to_utc_ns, all ? "GROUP BY pid HAVING pid <" : "AND pid =", all ? UINT32_MAX : t->pid);
    code = ec_sql_prepare(from, sql, &s, NULL, err);
    for (; code == SQLITE_OK && !rc && (code = sqlite3_step(s)) == SQLITE_ROW; code = SQLITE_OK, n++)
        if (sqlite3_column_int64(s, 2) == t->pid)
            rc = check("SQL", t, (uint64_t)sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1), err);
    if (!rc && (code != SQLITE_DONE || n != (all ? PIDS : 1)))
        rc = ea_fail(err, EA_EDATABASE, "SQL gives %d groups: %s", n, sqlite3_errmsg(ec_sql_database(from)));
    sqlite3_finalize(s);
    return rc;
}

static const struct {
    const char *name, *sql;
} QUESTIONS[] = {
    {"count", "SELECT count(*) FROM \"" NAME "\""},
    {"sum_by_thread", "SELECT IssuingThreadId, sum(" FIELD ") FROM \"" NAME "\" GROUP BY 1"},
    {"top_ten", "SELECT IssuingThreadId, sum(" FIELD ") FROM \"" NAME "\" GROUP BY 1 ORDER BY 2 DESC LIMIT 10"},
    {"distinct", "SELECT count(DISTINCT IssuingThreadId) FROM \"" NAME "\""},
    {"per_second", "SELECT time_bucket(time, '1s'), count(*) FROM \"" NAME "\" GROUP BY 1"},
    {"by_class", "SELECT name, count(*) FROM events GROUP BY name"},
    {"per_minute", "SELECT time / 60000000000, count(*), sum(" FIELD ") FROM \"" NAME "\" GROUP BY 1 ORDER BY 1"},
    {"like", "SELECT count(*) FROM events WHERE name LIKE '%read' AND pid <> 4"},
    {"or", "SELECT pid, count(*) FROM \"" NAME "\" WHERE DiskNumber = 1 OR " FIELD " = 4096 GROUP BY pid"},
    {"case", "SELECT sum(CASE WHEN " FIELD " > 4096 THEN 1 ELSE 0 END) FROM \"" NAME "\""},
    {"distinct_rows", "SELECT DISTINCT pid, DiskNumber FROM \"" NAME "\" ORDER BY 1, 2"},
    {"top", "SELECT pid / 4 AS p, count(*) FROM \"" NAME "\" GROUP BY p ORDER BY 2 DESC, 1 LIMIT 10"},
    {"count_events", "SELECT count(*) FROM events"},
    {"two_keys", "SELECT pid, DiskNumber, count(*), avg(" FIELD "), max(" FIELD ") FROM \"" NAME "\" GROUP BY 1, 2"},
};

/* The time that a statement takes, and the sum of what is in its rows' cells, which has to be the same each time. */
static int time_statement(ec_sql *s, const char *sql, int64_t *ret_ns, double *ret_sum, ea_err *err) {
    sqlite3_stmt *st = NULL;
    int64_t begin = cpu_ns();
    int code = ec_sql_prepare(s, sql, &st, NULL, err);
    *ret_sum = 0;
    while (code == SQLITE_OK && (code = sqlite3_step(st)) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(st); i++)
            *ret_sum += sqlite3_column_double(st, i);
        code = SQLITE_OK;
    }
    sqlite3_finalize(st);
    *ret_ns = cpu_ns() - begin;
    return code == SQLITE_DONE ? 0 : ea_fail(err, EA_EDATABASE, "%s: %s", sql, sqlite3_errmsg(ec_sql_database(s)));
}

/* Prints {"count": [ns handed down, ns of SQLite alone], ...}; plain NULL: of the first alone. */
static int ask_questions(ec_sql *s, ec_sql *plain, ea_err *err) {
    int rc = 0;
    printf("\"questions\": {");
    for (size_t i = 0; !rc && i < sizeof QUESTIONS / sizeof *QUESTIONS; i++) {
        int64_t ns = 0, plain_ns = 0;
        double sum = 0, plain_sum = 0;
        rc = time_statement(s, QUESTIONS[i].sql, &ns, &sum, err);
        if (!rc && plain)
            rc = time_statement(plain, QUESTIONS[i].sql, &plain_ns, &plain_sum, err);
        if (!rc && plain && (sum < plain_sum || sum > plain_sum))
            rc = ea_fail(err, EA_EINVAL, "%s: handed down %f, SQLite alone %f", QUESTIONS[i].sql, sum, plain_sum);
        printf("%s\"%s\": [%.3f", i ? ", " : "", QUESTIONS[i].name, (double)ns / EVENTS);
        if (plain)
            printf(", %.3f", (double)plain_ns / EVENTS);
        printf("]");
    }
    printf("}");
    return rc;
}

static int measure(const char *dir, const options *o, const truth *t, ea_err *err) {
    ec_sql *s = NULL, *plain = NULL;
    ec_table_schema shape = {0};
    uint32_t *to = malloc(sizeof *to * EVENTS);
    int rc = to ? 0 : ea_fail(err, EA_ENOMEM, "measure");
    if (!rc)
        rc = ec_sql_open(&s, dir, &(ec_sql_options){0}, err);
    if (!rc)
        rc = ec_sql_open(&plain, dir, &(ec_sql_options){.no_grouping = 1}, err);
    const ec_class_set *set = NULL;
    if (!rc)
        rc = ec_archive_set(ec_sql_archive(s), NAME, &set, err);
    if (!rc && !set)
        rc = ea_fail(err, EA_ENOTFOUND, "the store has no " NAME);
    if (!rc)
        rc = ec_table_schema_init(&shape, set, err);
    double events = (double)t->inside;
    for (uint64_t i = 0; !rc && i <= o->runs; i++) { /* the first warms */
        double native[2] = {0}, sql[2] = {0};
        int64_t t0 = cpu_ns();
        memcpy(to, t->sizes, sizeof *to * EVENTS);
        int64_t t1 = cpu_ns();
        if (to[dice(EVENTS)] == 0) /* the result is used, so that the compiler keeps the copy */
            rc = ea_fail(err, EA_EINVAL, "copy");
        for (int all = 0; !rc && all < 2; all++) {
            int64_t t2 = cpu_ns();
            rc = scan(ec_sql_archive(s), &shape, t, all, err);
            int64_t t3 = cpu_ns();
            if (!rc)
                rc = ask(s, t, all, err);
            int64_t t4 = cpu_ns();
            native[all] = (double)(t3 - t2) / events;
            sql[all] = (double)(t4 - t3) / events;
        }
        if (!rc && i)
            printf("{\"events\": %" PRIu64 ", \"scan_ns\": %.3f, \"scan_sql_ns\": %.3f, \"group_ns\": %.3f, "
                   "\"group_sql_ns\": %.3f, \"copy_ns\": %.4f, ",
                   t->inside, native[0], sql[0], native[1], sql[1], (double)(t1 - t0) / EVENTS);
        if (!rc && i) {
            rc = ask_questions(s, i == 1 ? plain : NULL, err);
            printf("}\n");
        }
    }
    ec_table_schema_deinit(&shape);
    ec_sql_close(s);
    ec_sql_close(plain);
    free(to);
    return rc;
}

/* Exports the whole store as one file; the processor time of an event. The files are removed. */
static int export_all(const char *dir, enum ec_file_format format, double *ret_ns, uint64_t *ret_bytes, ea_err *err) {
    char folder[1024];
    size_t count = 0;
    ec_event_files *f = NULL;
    snprintf(folder, sizeof folder, "%s.files", dir);
    int64_t t0 = cpu_ns();
    int rc = ec_event_files_open(&f,
                                 &(ec_event_files_options){.store = dir,
                                                           .folder = folder,
                                                           .format = format,
                                                           .part = "bench",
                                                           .created_by = "bench",
                                                           .from_utc_ns = INT64_MIN,
                                                           .to_utc_ns = INT64_MAX},
                                 err);
    if (!rc)
        rc = ec_event_files_write(f, err);
    *ret_ns = (double)(cpu_ns() - t0) / EVENTS;
    const ec_event_file *files = rc ? NULL : ec_event_files_list(f, &count);
    *ret_bytes = 0;
    for (size_t i = 0; i < count && !rc; i++) {
        *ret_bytes += files[i].bytes;
        rc = ea_path_remove(files[i].path, err);
    }
    if (!rc && ec_event_files_rows(f) != EVENTS)
        rc = ea_fail(err, EA_ECORRUPT, "export: expected %d events, wrote %" PRIu64, EVENTS, ec_event_files_rows(f));
    ec_event_files_close(f);
    return rc;
}

static int measure_files(const char *dir, const options *o, ea_err *err) {
    int rc = 0;
    for (uint64_t i = 0; !rc && i <= o->runs; i++) { /* the first warms */
        double parquet = 0, arrow = 0;
        uint64_t parquet_bytes = 0, arrow_bytes = 0;
        rc = export_all(dir, EC_FILE_PARQUET, &parquet, &parquet_bytes, err);
        if (!rc)
            rc = export_all(dir, EC_FILE_ARROW, &arrow, &arrow_bytes, err);
        if (!rc && i)
            printf("{\"events\": %d, \"parquet_ns\": %.3f, \"arrow_ns\": %.3f, \"parquet_bytes\": %.3f, "
                   "\"arrow_bytes\": %.3f}\n",
                   EVENTS, parquet, arrow, (double)parquet_bytes / EVENTS, (double)arrow_bytes / EVENTS);
    }
    return rc;
}

static int run_files(const void *arg, int operand_count, char **operands) {
    truth t = {.sizes = malloc(sizeof *t.sizes * EVENTS)};
    ea_err err = {0};
    (void)operand_count;
    int rc = t.sizes ? make_store(operands[0], &t, &err) : ea_fail(&err, EA_ENOMEM, "measure");
    if (!rc)
        rc = measure_files(operands[0], arg, &err);
    free(t.sizes);
    if (rc)
        ea_err_print(stderr, "scan", &err);
    return ea_exit_code(rc);
}

static int run(const void *arg, int operand_count, char **operands) {
    truth t = {.sizes = malloc(sizeof *t.sizes * EVENTS)};
    ea_err err = {0};
    (void)operand_count;
    int rc = t.sizes ? make_store(operands[0], &t, &err) : ea_fail(&err, EA_ENOMEM, "measure");
    if (!rc)
        rc = measure(operands[0], arg, &t, &err);
    free(t.sizes);
    if (rc)
        ea_err_print(stderr, "scan", &err);
    return ea_exit_code(rc);
}

static const ea_option OPTIONS[] = {
    {.name = "runs",
     .argument = "N",
     .type = EA_OPT_U64,
     .offset = offsetof(options, runs),
     .fallback = "5",
     .min = 1,
     .max = RUNS_MAX - 1,
     .help = "how often"},
    {.name = NULL},
};
static const ea_command MEASURE = {.name = "measure",
                                   .operands = "DIR",
                                   .summary = "Measure a question to a store that is made in a new folder",
                                   .options = OPTIONS,
                                   .options_size = sizeof(options),
                                   .run = run,
                                   .min_operands = 1,
                                   .max_operands = 1};
static const ea_command FILES = {.name = "files",
                                 .operands = "DIR",
                                 .summary = "Measure the export of such a store as Parquet and as Arrow files",
                                 .options = OPTIONS,
                                 .options_size = sizeof(options),
                                 .run = run_files,
                                 .min_operands = 1,
                                 .max_operands = 1};
static const ea_command *const COMMANDS[] = {&MEASURE, &FILES, NULL};

int main(int argc, char **argv) {
    return ea_cli_main("scan", "0.1.0", "A question to a store.", COMMANDS, argc, argv);
}
