/* See data_times.h. */
#include "collector/query/scan/data_times.h"

#include "collector/store/store.h"
#include "proto/base/clock.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"

/* Years, days, seconds and ms since 1970 are in this range today; as ns they are before May 1970. */
static const double YEAR_MIN = 1000, NS_MIN = 1e16;

typedef struct times {
    ea_time_reference reference;
    const char *shown;
} times;

static int data_times_on_stream(const ec_stream_row *row, void *arg) {
    times *t = arg;
    ea_time_reference *r = &t->reference;
    if (!row->event_count || (t->shown && !ea_name_in(t->shown, row->host)))
        return 0;
    if (!r->has_data || row->begin_utc_ns < r->begin_utc_ns)
        r->begin_utc_ns = row->begin_utc_ns;
    if (!r->has_data || row->end_utc_ns > r->end_utc_ns)
        r->end_utc_ns = row->end_utc_ns;
    r->has_data = 1;
    return 0;
}

static int read_times(times *t, const char *dir, const char *host, ea_err *err) {
    ec_store *store = NULL;
    int rc = ec_store_open(&store, dir, &(ec_store_options){.writable = 0}, err);
    if (!rc)
        rc = ec_store_each_stream(store, host, data_times_on_stream, t, err);
    ec_store_close(store);
    return rc;
}

int ec_data_span(const char *dir, const char *host, const char *shown, int64_t *ret_begin_utc_ns,
                 int64_t *ret_end_utc_ns, ea_err *err) {
    times t = {.shown = shown};
    int rc = read_times(&t, dir, host, err);
    if (rc || !t.reference.has_data)
        return rc;
    *ret_begin_utc_ns = t.reference.begin_utc_ns;
    *ret_end_utc_ns = t.reference.end_utc_ns;
    return 1;
}

int ec_data_time(const char *what, const char *text, const char *dir, const char *host, const char *shown,
                 int64_t *ret_utc_ns, ea_err *err) {
    times t = {.reference = {.now_utc_ns = ea_utc_ns()}, .shown = shown};
    int rc = ea_time_parse(text, &t.reference, ret_utc_ns);
    if (rc == EA_ENOTFOUND) {
        rc = read_times(&t, dir, host, err);
        if (rc)
            return rc;
        t.reference.end_utc_ns += t.reference.has_data && t.reference.end_utc_ns < INT64_MAX;
        rc = ea_time_parse(text, &t.reference, ret_utc_ns);
    }
    if (rc == EA_ENOTFOUND && host)
        return ea_fail(err, rc,
                       "%s '%.40s': nothing is stored of host %.200s, so there is no first or last event: expected a "
                       "name that 'etwcollector hosts' or /api/v1/hosts lists",
                       what, text, host);
    if (rc == EA_ENOTFOUND)
        return ea_fail(err, rc, "%s '%.40s': nothing is stored, so there is no first or last event", what, text);
    return rc ? ea_fail(err, EA_EUSAGE, "%s '%.40s': expected " EA_TIME_FORMS_OF_DATA, what, text) : 0;
}

int ec_data_check_ns(double ns, ea_err *err) {
    return ns < YEAR_MIN || ns >= NS_MIN
               ? 0
               : ea_fail(
                     err, EA_EUSAGE,
                     "the time %.17g would be in 1970, as a time is a number of ns since then: write now(), ago('24h'),"
                     " time_ns('2024-05-17'), or seconds * 1000000000",
                     ns);
}
