/* See nothing_found.h. */
#include "collector/web/nothing_found.h"

#include "collector/query/scan/data_times.h"
#include "collector/web/unknown_names.h"

static void nothing_found_range(ea_text *t, const ec_asked_range *range) {
    if (!range)
        return;
    if (range->from_ns > INT64_MIN + 1) {
        ea_text_str(t, " from ");
        ea_text_utc_ns(t, range->from_ns);
    }
    if (range->to_ns < INT64_MAX - 1) {
        ea_text_str(t, " to ");
        ea_text_utc_ns(t, range->to_ns);
    }
}

int ec_nothing_found(ec_call *c, const char *host, const ec_asked_range *range, const char *notice, ea_err *err) {
    int64_t begin_utc_ns = 0, end_utc_ns = 0;
    ea_text t, *out = &c->out;
    int has_events = ec_data_span(c->options->store, host, ec_call_shown(c), &begin_utc_ns, &end_utc_ns, err);
    if (has_events < 0)
        return has_events;
    ea_text_init(&t);
    ea_text_str(&t, notice);
    ea_text_str(&t, *notice ? "; nothing was found" : "nothing was found");
    nothing_found_range(&t, range);
    ea_text_str(&t, has_events ? "; events" : "; no events");
    if (host)
        ea_text_printf(&t, " of host %s", host);
    ea_text_str(&t, " are stored");
    nothing_found_range(&t, has_events ? &(ec_asked_range){begin_utc_ns, end_utc_ns} : NULL);
    int rc = ec_unknown_names_note(c, host, &t, err);
    ea_text_str(out, ",\"notice\":\"");
    ea_text_json(out, t.data ? t.data : "", t.len_bytes);
    ea_text_str(out, "\",\"stored\":");
    if (has_events) {
        ea_text_str(out, "{\"from\":\"");
        ea_text_utc_ns(out, begin_utc_ns);
        ea_text_str(out, "\",\"to\":\"");
        ea_text_utc_ns(out, end_utc_ns);
        ea_text_str(out, "\"}");
    } else {
        ea_text_str(out, "null");
    }
    if (!rc && t.failed)
        rc = ea_fail(err, EA_ENOMEM, "answer");
    ea_text_deinit(&t);
    return rc;
}
