/* An event as a row, for all kinds of sinks but ClickHouse (clickhouse.h). A JSON object with row
 * (HOST/STREAM/BATCH/POSITION, which names the event for good), host, stream, batch, position and process, and then the
 * members of ea_render_json: time, name, fields, ... as export --no-names prints them. Called by: sink.c, as the kind
 * says. Thread: any. */
#ifndef EC_SINK_SINK_ROWS_H
#define EC_SINK_SINK_ROWS_H

#include "collector/sink/outbox.h"
#include "proto/base/clock.h"

/* How a row begins; the JSON text of its name follows. */
#define EC_SINK_ROW_BEGIN "{\"row\":"

/* The longest name: HOST/STREAM/BATCH/POSITION. */
enum { EC_SINK_ID_BYTES = 256 + 2 * EA_STREAM_ID_BYTES + 48 };

void ec_sink_row_id(char *ret, size_t ret_bytes, const ec_outbox_batch *batch, uint64_t position);
/* What follows the sink's own members: the member time, a text. */
#define EC_SINK_ROW_TIME "\"time\":\""
/* Appends the row, without a newline. The result is the offset of EC_SINK_ROW_TIME in it; it means nothing when out or
 * scratch has failed. process: NULL: it is not known. scratch: memory that is used again. */
size_t ec_sink_row_add(ea_text *out, ea_text *scratch, const ec_outbox_batch *batch, uint64_t position,
                       const char *process, const ea_record *record, const ea_class *c, const ea_clock *clock);

#endif
