/* See sink_rows.h. */
#include "collector/sink/sink_rows.h"

#include "proto/event/render.h"

#include <inttypes.h>

void ec_sink_row_id(char *ret, size_t ret_bytes, const ec_outbox_batch *batch, uint64_t position) {
    snprintf(ret, ret_bytes, "%s/%s/%" PRIu64 "/%" PRIu64, batch->host, batch->stream, batch->row.number, position);
}

void ec_sink_row_add(ea_text *out, ea_text *scratch, const ec_outbox_batch *batch, uint64_t position,
                     const char *process, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    char id[EC_SINK_ID_BYTES];
    ec_sink_row_id(id, sizeof id, batch, position);
    ea_text_str(out, EC_SINK_ROW_BEGIN);
    ea_text_json_str(out, id);
    ea_text_str(out, ",\"host\":");
    ea_text_json_str(out, batch->host);
    ea_text_printf(out, ",\"stream\":\"%s\",\"batch\":%" PRIu64 ",\"position\":%" PRIu64 ",\"process\":", batch->stream,
                   batch->row.number, position);
    ea_text_json_str(out, process);
    ea_text_clear(scratch);
    ea_render_json(scratch, record, c, clock, 0);
    if (scratch->failed || scratch->len_bytes < 2)
        out->failed = 1;
    else {
        ea_text_char(out, ',');
        ea_text_add(out, scratch->data + 1, scratch->len_bytes - 1);
    }
}
