/* See splunk.h. */
#include "collector/sink/splunk.h"

#include <inttypes.h>
#include <string.h>

static const int64_t SPLUNK_SECOND_NS = 1000000000, SPLUNK_MS_NS = 1000000;
static const char SPLUNK_PATH[] = "/services/collector";

/* Splunk refuses events with empty fields. */
static void splunk_field(ea_text *out, const char *key, const char *value) {
    if (!value || !*value)
        return;
    ea_text_printf(out, ",\"%s\":", key);
    ea_text_json_str(out, value);
}

size_t ec_splunk_row_add(ea_text *out, ea_text *scratch, const ec_outbox_batch *batch, uint64_t position,
                         const char *process, const ea_record *record, const ea_class *c, const ea_clock *clock) {
    char id[EC_SINK_ID_BYTES], provider[37];
    int64_t ns = ea_clock_to_utc_ns(clock, record->time_raw);
    ns = ns < 0 ? 0 : ns; /* Splunk has no time before 1970; the event has it */
    ec_sink_row_id(id, sizeof id, batch, position);
    ea_guid_format(&record->provider, provider);
    ea_text_printf(out, "{\"time\":%" PRId64 ".%03d,\"host\":", ns / SPLUNK_SECOND_NS,
                   (int)(ns % SPLUNK_SECOND_NS / SPLUNK_MS_NS));
    ea_text_json_str(out, batch->host);
    ea_text_str(out, ",\"source\":");
    ea_text_json_str(out, c->provider_name[0] ? c->provider_name : provider);
    ea_text_str(out, ",\"sourcetype\":\"_json\",\"fields\":{\"row\":");
    ea_text_json_str(out, id);
    splunk_field(out, "name", c->name);
    splunk_field(out, "process", process);
    ea_text_str(out, "},\"event\":");
    ec_sink_row_add(out, scratch, batch, position, process, record, c, clock);
    ea_text_char(out, '}');
    return 0;
}

void ec_splunk_body(ea_text *body, const char *rows, ec_sink_item **items, size_t count, const char *index) {
    for (size_t i = 0; i < count; i++) {
        if (index) {
            ea_text_str(body, "{\"index\":");
            ea_text_json_str(body, index);
        }
        ea_text_str(body, index ? "," : "{");
        ea_text_add(body, rows + items[i]->offset + 1, items[i]->len_bytes - 1);
        ea_text_char(body, '\n');
    }
}

int ec_splunk_ack_url(ea_text *out, const char *url, const char *channel, ea_err *err) {
    size_t path_end = strcspn(url, "?#");
    const char *at = strstr(url, SPLUNK_PATH), *rest = at ? at + sizeof SPLUNK_PATH - 1 : NULL;
    size_t left = at && at < url + path_end ? (size_t)(url + path_end - rest) : SIZE_MAX;
    if (left != 0 && !(left == 6 && memcmp(rest, "/event", left) == 0) &&
        !(left == 10 && memcmp(rest, "/event/1.0", left) == 0))
        return ea_fail(err, EA_EUSAGE, "--kind splunk: expected https://HOST:8088%s/event as the URL", SPLUNK_PATH);
    ea_text_add(out, url, (size_t)(rest - url));
    ea_text_printf(out, "/ack?channel=%s", channel);
    return out->failed ? ea_fail(err, EA_ENOMEM, "open a sink") : 0;
}

int ec_splunk_is_refusal(int64_t code) {
    enum { NO_DATA = 5, BAD_FORMAT = 6, NO_EVENT = 12, BLANK_EVENT = 13, BAD_FIELDS = 15 };

    return code == NO_DATA || code == BAD_FORMAT || code == NO_EVENT || code == BLANK_EVENT || code == BAD_FIELDS;
}
