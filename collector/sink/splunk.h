/* Events of Splunk's HTTP Event Collector. Called by: sink_kinds.c, sink_splunk.c. Thread: any.
 * Sources: Splunk Enterprise, Getting Data In, "Format events for HTTP Event Collector", "About HTTP Event Collector
 * Indexer Acknowledgment", "Possible error codes". */
#ifndef EC_SINK_SPLUNK_H
#define EC_SINK_SPLUNK_H

#include "collector/sink/sink_kinds.h"

/* Appends a row, as ec_sink_row_add has its parameters: time, host, source (the provider), sourcetype, event (the row
 * of the other kinds) and fields, which Splunk indexes. The result means nothing. */
size_t ec_splunk_row_add(ea_text *out, ea_text *scratch, const ec_outbox_batch *batch, uint64_t position,
                         const char *process, const ea_record *record, const ea_class *c, const ea_clock *clock);
/* Appends rows, each with the index when there is one. */
void ec_splunk_body(ea_text *body, const char *rows, ec_sink_item **items, size_t count, const char *index);
/* Appends where acknowledgements are asked for: of https://HOST/services/collector/event[/1.0] the path
 * /services/collector/ack, with the channel. EA_EUSAGE: the URL has no such path. */
EA_MUST_CHECK int ec_splunk_ack_url(ea_text *out, const char *url, const char *channel, ea_err *err);
/* Whether a code of an answer speaks of the events, not of the token, the index or the channel. */
int ec_splunk_is_refusal(int64_t code);

#endif
