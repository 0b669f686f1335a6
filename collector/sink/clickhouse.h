/* The table of ClickHouse that stored events go to: its definition, and its rows as RowBinary. Called by: sink_kinds.c,
 * sink_http.c, the command clickhouse init. Thread: any. */
#ifndef EC_SINK_CLICKHOUSE_H
#define EC_SINK_CLICKHOUSE_H

#include "collector/sink/sink_rows.h"

#define EC_CLICKHOUSE_TABLE "events"

/* TABLE or DATABASE.TABLE, of letters, digits and _. EA_EUSAGE. */
EA_MUST_CHECK int ec_clickhouse_check_table(const char *table, ea_err *err);
/* Appends the statement that makes the table. keep_days: how long the server keeps a row; 0: for good. */
void ec_clickhouse_definition(ea_text *out, const char *table, uint64_t keep_days);
/* Appends the statement that rows follow. */
void ec_clickhouse_insert(ea_text *out, const char *table);
/* Appends a row, as ec_sink_row_add has its parameters. The result means nothing. */
size_t ec_clickhouse_row_add(ea_text *out, ea_text *scratch, const ec_outbox_batch *batch, uint64_t position,
                             const char *process, const ea_record *record, const ea_class *c, const ea_clock *clock);

#endif
