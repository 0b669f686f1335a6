/* See clickhouse.h. */
#include "collector/sink/clickhouse.h"

#include "proto/base/bytes.h"
#include "proto/event/render.h"

#include <inttypes.h>
#include <string.h>

enum { CLICKHOUSE_NAME_MAX = 128, CLICKHOUSE_GUID_BYTES = 36 };

static const int64_t CLICKHOUSE_SECOND_NS = 1000000000;

/* What a row is made of. */
typedef struct clickhouse_event {
    const ec_outbox_batch *batch;
    uint64_t position;
    const char *process;
    const ea_record *record;
    const ea_class *c;
    int64_t utc_ns;
} clickhouse_event;

/* The columns in their order: name, type, how the value is written, the value of e. */
#define CLICKHOUSE_COLUMNS(X)                                                                                          \
    X(host, "String", STRING, e->batch->host)                                                                          \
    X(stream, "String", STRING, e->batch->stream)                                                                      \
    X(batch, "UInt64", U64, e->batch->row.number)                                                                      \
    X(position, "UInt32", U32, e->position)                                                                            \
    X(received, "DateTime('UTC')", SECONDS, e->batch->received_utc_ns)                                                 \
    X(time, "DateTime('UTC')", SECONDS, e->utc_ns)                                                                     \
    X(time_ns, "Int64", U64, e->utc_ns)                                                                                \
    X(provider, "String", GUID, e->record->provider)                                                                   \
    X(provider_name, "String", STRING, e->c->provider_name)                                                            \
    X(name, "String", STRING, e->c->name)                                                                              \
    X(id, "UInt16", U16, e->record->id)                                                                                \
    X(version, "UInt8", U8, e->record->version)                                                                        \
    X(level, "UInt8", U8, e->record->level)                                                                            \
    X(opcode, "UInt8", U8, e->record->opcode)                                                                          \
    X(task, "UInt16", U16, e->record->task)                                                                            \
    X(keyword, "UInt64", U64, e->record->keyword)                                                                      \
    X(cpu, "UInt16", U16, e->record->cpu)                                                                              \
    X(pid, "UInt32", U32, e->record->pid)                                                                              \
    X(tid, "UInt32", U32, e->record->tid)                                                                              \
    X(process, "String", STRING, e->process ? e->process : "")

static const char *const CLICKHOUSE_NAMES[][2] = {
#define NAME(name, type, form, value) {#name, type},
    CLICKHOUSE_COLUMNS(NAME)
#undef NAME
        {"event", "String"},
};

enum { CLICKHOUSE_COUNT = sizeof CLICKHOUSE_NAMES / sizeof *CLICKHOUSE_NAMES };

int ec_clickhouse_check_table(const char *table, ea_err *err) {
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t first = strspn(table, LETTERS), second = table[first] == '.' ? strspn(table + first + 1, LETTERS) : 0;
    size_t len = first + (second ? 1 + second : 0);
    if (first && !table[len] && len <= CLICKHOUSE_NAME_MAX && (*table < '0' || *table > '9'))
        return 0;
    return ea_fail(err, EA_EUSAGE, "\"%.64s\" is no table: expected TABLE or DATABASE.TABLE, of letters, digits and _",
                   table);
}

/* The partition is by arrival, whose times are the collector's: those of events are anything, and a server refuses rows
 * of too many partitions. */
void ec_clickhouse_definition(ea_text *out, const char *table, uint64_t keep_days) {
    ea_text_printf(out, "CREATE TABLE IF NOT EXISTS %s\n(\n", table);
    for (size_t i = 0; i < CLICKHOUSE_COUNT; i++)
        ea_text_printf(out, "    %s %s%s\n", CLICKHOUSE_NAMES[i][0], CLICKHOUSE_NAMES[i][1],
                       i + 1 < CLICKHOUSE_COUNT ? "," : "");
    ea_text_str(out, ")\nENGINE = ReplacingMergeTree\nPARTITION BY toYYYYMM(received)\n"
                     "ORDER BY (host, time_ns, stream, batch, position)\n");
    if (keep_days)
        ea_text_printf(out, "TTL received + INTERVAL %" PRIu64 " DAY\n", keep_days);
}

void ec_clickhouse_insert(ea_text *out, const char *table) {
    ea_text_printf(out, "INSERT INTO %s (", table);
    for (size_t i = 0; i < CLICKHOUSE_COUNT; i++)
        ea_text_printf(out, "%s%s", i ? ", " : "", CLICKHOUSE_NAMES[i][0]);
    ea_text_str(out, ") FORMAT RowBinary");
}

/* ---- RowBinary: numbers are little-endian, a text has its length (LEB128) before it ---- */

static void clickhouse_put_bytes(ea_text *out, const char *data, size_t len_bytes) {
    ea_text_varint(out, len_bytes);
    ea_text_add(out, data, len_bytes);
}

static void put_STRING(ea_text *out, const char *text) {
    clickhouse_put_bytes(out, text, strlen(text));
}

static void put_number(ea_text *out, uint64_t v, size_t len_bytes) {
    uint8_t bytes[8];
    ea_store64(bytes, v);
    ea_text_add(out, bytes, len_bytes);
}

static void put_U8(ea_text *out, uint64_t v) {
    put_number(out, v, 1);
}

static void put_U16(ea_text *out, uint64_t v) {
    put_number(out, v, 2);
}

static void put_U32(ea_text *out, uint64_t v) {
    put_number(out, v, 4);
}

static void put_U64(ea_text *out, uint64_t v) {
    put_number(out, v, 8);
}

/* Whole seconds since 1970, the nearest that the type has. */
static void put_SECONDS(ea_text *out, int64_t utc_ns) {
    int64_t s = utc_ns / CLICKHOUSE_SECOND_NS;
    put_U32(out, s < 0 ? 0 : s > UINT32_MAX ? UINT32_MAX : (uint64_t)s);
}

static void put_GUID(ea_text *out, ea_guid guid) {
    ea_text_varint(out, CLICKHOUSE_GUID_BYTES);
    ea_text_guid(out, &guid);
}

size_t ec_clickhouse_row_add(ea_text *out, ea_text *scratch, const ec_outbox_batch *batch, uint64_t position,
                             const char *process, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    const clickhouse_event event = {.batch = batch,
                                    .position = position,
                                    .process = process,
                                    .record = record,
                                    .c = c,
                                    .utc_ns = ea_clock_to_utc_ns(clock, record->time_raw)},
                           *e = &event;
#define PUT(name, type, form, value) put_##form(out, value);
    CLICKHOUSE_COLUMNS(PUT)
#undef PUT
    ea_text_clear(scratch);
    ea_render_json(scratch, record, c, clock, 0);
    clickhouse_put_bytes(out, scratch->data ? scratch->data : "", scratch->len_bytes);
    return 0;
}
