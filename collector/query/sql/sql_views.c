/* Views: tables that are a SELECT over other tables of the connection. Called by: sql.c. Calls: sql_events.c,
 * sql_tables.c. Thread: the connection's. */
#include "collector/query/sql/sql_parts.h"

/* A number of a counter's payload; an agent may have sent anything under its name. */
#define NUMBER(path)                                                                                                   \
    "CASE WHEN json_type(e.fields, '$.Payload." path "') IN ('integer', 'real')"                                       \
    " THEN CAST(json_extract(e.fields, '$.Payload." path "') AS REAL) END"
#define TEXT(path) "nullif(CAST(json_extract(e.fields, '$.Payload." path "') AS TEXT), '')"
/* A number of System.Diagnostics.Metrics, which writes most of them as text: JSON's form alone, hence no NaN. */
#define METRIC(path)                                                                                                   \
    "CASE WHEN json_valid(json_extract(e.fields, '$." path "')) AND json_type(json_extract(e.fields, '$." path "'))"   \
    " IN ('integer', 'real') THEN CAST(json_extract(e.fields, '$." path "') AS REAL) END"
#define METRIC_TEXT(path) "nullif(CAST(json_extract(e.fields, '$." path "') AS TEXT), '')"
#define PROCESS           "process_at(e.host, e.stream, e.pid, e.time)"

// clang-format off
typedef struct view {
    const char *name, *select;
} view;

static const view VIEWS[] = {
    /* The counters of .NET's EventSources: for each of its counters, an EventSource writes an event of this name with a
     * struct Payload. And its instruments: their values come from one EventSource, whose fields are texts. Source:
     * dotnet/runtime CounterPayload.cs, MetricsEventSource.cs. */
    {"runtime_counters",
     "SELECT e.host AS host, e.stream AS stream, " PROCESS " AS process_key, e.pid AS pid, p.image_name AS image, "
     "e.time AS time, e.provider_name AS provider, " TEXT("Name") " AS counter, " TEXT("DisplayName") " AS display_name, "
     "coalesce(" NUMBER("Mean") ", " NUMBER("Increment") ") AS value, " TEXT("DisplayUnits") " AS unit, "
     TEXT("CounterType") " AS kind, " NUMBER("IntervalSec") " AS interval_s, " NUMBER("Count") " AS count, "
     NUMBER("Min") " AS min, " NUMBER("Max") " AS max, " NUMBER("StandardDeviation") " AS standard_deviation, "
     TEXT("Metadata") " AS tags, NULL AS total, NULL AS quantiles "
     "FROM events e LEFT JOIN processes p ON p.process_key = " PROCESS " WHERE e.name = 'EventCounters' "
     "UNION ALL SELECT e.host, e.stream, " PROCESS ", e.pid, p.image_name, e.time, " METRIC_TEXT("meterName") ", "
     METRIC_TEXT("instrumentName") ", NULL, coalesce(" METRIC("rate") ", " METRIC("lastValue") ", "
     METRIC("sum") " / nullif(" METRIC("count") ", 0)), " METRIC_TEXT("unit") ", "
     "substr(e.name, 1, instr(e.name, CASE WHEN e.name LIKE '%Rate%' THEN 'Rate' ELSE 'Value' END) - 1), NULL, "
     METRIC("count") ", NULL, NULL, NULL, " METRIC_TEXT("tags") ", coalesce(" METRIC("value") ", " METRIC("sum") "), "
     METRIC_TEXT("quantiles") " "
     "FROM events e LEFT JOIN processes p ON p.process_key = " PROCESS " WHERE e.provider_name = 'System.Diagnostics.Metrics' "
     "AND e.name IN ('CounterRateValuePublished', 'GaugeValuePublished', 'HistogramValuePublished', "
     "'UpDownCounterRateValuePublished')"},
};

// clang-format on

int ec_sql_is_view(const char *name) {
    for (size_t i = 0; i < sizeof VIEWS / sizeof *VIEWS; i++)
        if (sqlite3_stricmp(name, VIEWS[i].name) == 0)
            return 1;
    return 0;
}

int ec_sql_add_views(ec_sql *s, ea_err *err) {
    for (size_t i = 0; i < sizeof VIEWS / sizeof *VIEWS; i++) {
        char *sql = sqlite3_mprintf("CREATE TEMP VIEW \"%w\" AS %s", VIEWS[i].name, VIEWS[i].select);
        int code = sql ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
        sqlite3_free(sql);
        if (code != SQLITE_OK)
            return ea_fail(err, code == SQLITE_NOMEM ? EA_ENOMEM : EA_EDATABASE, "add the view %s: %s", VIEWS[i].name,
                           sqlite3_errmsg(s->db));
    }
    return 0;
}
