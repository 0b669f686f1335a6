/* The rows of a filter. See event_filters.h. */
#include "config/event_filters.h"

#include "proto/base/clock.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLE_MAX = 1000000000, LIMIT_MAX = 1000000000 };

/* A number, the text that follows it, the keyword and an expression. */
static int event_filters_parse(const char *at, const char *after, const char *keyword, uint64_t max,
                               uint64_t *ret_number, const char **ret_expression) {
    if (!ea_digits_parse(&at, 10, ret_number) || !*ret_number || *ret_number > max ||
        strncmp(at, after, strlen(after)) != 0)
        return EA_EINVAL;
    at += strlen(after);
    *ret_expression = NULL;
    if (!*at)
        return 0;
    if (*at != ' ' || !*(at += strspn(at, " ")) || strncmp(at, keyword, strlen(keyword)) != 0)
        return EA_EINVAL;
    at += strlen(keyword);
    if (*at != ' ' || !*(at += strspn(at, " ")))
        return EA_EINVAL;
    *ret_expression = at;
    return 0;
}

int ea_filter_sample_parse(const char *text, uint64_t *ret_number, const char **ret_expression, ea_err *err) {
    uint64_t number = 0;
    const char *expression = NULL;
    if (strncmp(text, "1/", 2) != 0 || event_filters_parse(text + 2, "", "by", SAMPLE_MAX, &number, &expression) ||
        !expression)
        return ea_fail(err, EA_EINVAL, "expected 1/N by EXPRESSION, N from 1 to %d", SAMPLE_MAX);
    *ret_number = number;
    *ret_expression = expression;
    return 0;
}

int ea_filter_limit_parse(const char *text, uint64_t *ret_number, const char **ret_expression, ea_err *err) {
    uint64_t number = 0;
    const char *expression = NULL;
    if (event_filters_parse(text, "/s", "per", LIMIT_MAX, &number, &expression))
        return ea_fail(err, EA_EINVAL, "expected N/s or N/s per EXPRESSION, N from 1 to %d", LIMIT_MAX);
    *ret_number = number;
    *ret_expression = expression;
    return 0;
}

int ea_filter_repeat_parse(const char *text, int64_t *ret_ns, const char **ret_expression, ea_err *err) {
    static const int64_t LEAST_NS = 1000000, MOST_NS = (int64_t)86400 * 1000000000;
    char duration[32];
    size_t len = strcspn(text, " ");
    int64_t ns = 0;
    snprintf(duration, sizeof duration, "%.*s", (int)(len < sizeof duration ? len : 0), text);
    const char *at = text + len + strspn(text + len, " ");
    if (ea_duration_parse(duration, &ns) || ns < LEAST_NS || ns > MOST_NS || strncmp(at, "by ", 3) != 0 ||
        !*(at += 2 + strspn(at + 2, " ")))
        return ea_fail(err, EA_EINVAL, "expected DURATION by EXPRESSION, DURATION from 1ms to 24h");
    *ret_ns = ns;
    *ret_expression = at;
    return 0;
}

static int event_filters_check_filter(const void *table, const char **ret_key, ea_err *err) {
    const ea_filter_config *c = table;
    const char *expression;
    uint64_t number;
    int64_t ns;
    int rc = 0;
    if (!c->where && !c->drop && !c->repeat && !c->sample && !c->limit && !c->redact.count)
        return ea_fail(err, EA_EINVAL, "a filter has where, drop, repeat, sample, limit or redact");
    *ret_key = "repeat";
    if (c->repeat)
        rc = ea_filter_repeat_parse(c->repeat, &ns, &expression, err);
    if (rc)
        return rc;
    *ret_key = "sample";
    if (c->sample)
        rc = ea_filter_sample_parse(c->sample, &number, &expression, err);
    if (rc)
        return rc;
    *ret_key = "limit";
    if (c->limit)
        rc = ea_filter_limit_parse(c->limit, &number, &expression, err);
    if (rc)
        return rc;
    *ret_key = "redact-key";
    if (c->redact_key && !c->redact.count)
        return ea_fail(err, EA_EINVAL, "it needs redact");
    return 0;
}

#define AT(field) offsetof(ea_filter_config, field)

static const ea_option FILTER_ROWS[] = {
    {.name = "classes",
     .type = EA_OPT_STRINGS,
     .offset = AT(classes),
     .required = 1,
     .example = "DiskIo/*",
     .help = "classes of events that it is about, as probes of the query language name them: DiskIo/*, PROVIDER:3006, "
             "sched:::on-cpu"},
    {.name = "where",
     .type = EA_OPT_STRING,
     .offset = AT(where),
     .help = "an expression of the query language; events for which it does not hold are dropped (events_filtered), as "
             "are those that lack a value which it reads"},
    {.name = "drop",
     .type = EA_OPT_STRING,
     .offset = AT(drop),
     .help = "an expression; events for which it holds are dropped (events_filtered)"},
    {.name = "repeat",
     .type = EA_OPT_STRING,
     .offset = AT(repeat),
     .help = "DURATION by EXPRESSION: an event is dropped (events_repeated) when less than DURATION before, by the "
             "events' clock, one of the same class, process (of the event's header) and value was kept; an event "
             "without the value is kept, as are values beyond 65,536 in DURATION"},
    {.name = "sample",
     .type = EA_OPT_STRING,
     .offset = AT(sample),
     .help =
         "1/N by EXPRESSION: of the expression's values one in N is kept, by a hash of the value's text that is the "
         "same on all machines, with all of its events; others are dropped (events_sampled_out); an event without "
         "the value is kept"},
    {.name = "limit",
     .type = EA_OPT_STRING,
     .offset = AT(limit),
     .help =
         "N/s or N/s per EXPRESSION: at most N events in each second of the events' clock, or so many of each value; "
         "further ones are dropped (events_limited); values beyond 65,536 in a second share one limit"},
    {.name = "redact",
     .type = EA_OPT_STRINGS,
     .offset = AT(redact),
     .help = "fields whose values are replaced before anything of the event is kept (events_redacted): texts by "
             "(redacted), other values by zeros"},
    {.name = "redact-key",
     .type = EA_OPT_STRING,
     .offset = AT(redact_key),
     .help =
         "file with a key of 16 to 4096 bytes; values are then replaced by their HMAC-SHA256: texts by the first 32 "
         "hex digits, other values by as many of its bytes as they have; equal values stay equal"},
    {.name = NULL},
};
#undef AT

const ea_table ea_filter_table = {.summary = "What becomes of events of some classes.",
                                  .rows = FILTER_ROWS,
                                  .size = sizeof(ea_filter_config),
                                  .check = event_filters_check_filter};
