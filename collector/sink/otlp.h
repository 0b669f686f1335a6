/* Events as log records of OpenTelemetry (OTLP/HTTP with protobuf), and its answers. Called by: sink_kinds.c. Thread:
 * any.
 * Sources: OTLP Specification 1.9, "OTLP/HTTP"; opentelemetry-proto, logs/v1/logs.proto, common/v1/common.proto,
 * collector/logs/v1/logs_service.proto; semantic conventions, "Host", "Process", "General logs attributes". */
#ifndef EC_SINK_OTLP_H
#define EC_SINK_OTLP_H

#include "collector/sink/sink_kinds.h"

/* Appends a LogRecord, as ec_sink_row_add has its parameters. Its body is the event's fields; all else of the row of
 * other kinds is in the record's own members and attributes. The result means nothing. */
size_t ec_otlp_row_add(ea_text *out, ea_text *scratch, const ec_outbox_batch *batch, uint64_t position,
                       const char *process, const ea_record *record, const ea_class *c, const ea_clock *clock);
/* Appends an ExportLogsServiceRequest: rows of one host that follow each other have one resource. */
void ec_otlp_body(ea_text *body, const char *rows, ec_sink_item **items, size_t count, const char *target);
/* A judge, as ec_sink_kind has it, of an ExportLogsServiceResponse. A receiver that rejects a part says how many, not
 * which: these are the last ones. */
int ec_otlp_judge(ec_sink_judge *j, const char *answer, size_t len_bytes, ec_sink_item **items, size_t count,
                  ea_text *reason, ea_err *err);
/* Appends the message of a google.rpc.Status, which is the body of an answer that is no 2xx; nothing when it is none.
 */
void ec_otlp_why(ea_text *reason, const char *answer, size_t len_bytes);

#endif
