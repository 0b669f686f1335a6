/* Views: tables that are a SELECT over other tables of the connection. Called by: sql.c. Calls: sql_events.c,
 * sql_tables.c. Thread: the connection's. */
#include "collector/query/sql/sql_parts.h"

/* A number of a counter's payload; an agent may have sent anything under its name. */
#define NUMBER(path)                                                                                                   \
    "CASE WHEN json_type(e.fields, '$.Payload." path "') IN ('integer', 'real')"                                       \
    " THEN CAST(json_extract(e.fields, '$.Payload." path "') AS REAL) END"
#define TEXT(path) "nullif(CAST(json_extract(e.fields, '$.Payload." path "') AS TEXT), '')"
#define PROCESS    "process_at(e.host, e.stream, e.pid, e.time)"

// clang-format off
typedef struct view {
    const char *name, *select;
} view;

static const view VIEWS[] = {
    /* The counters of .NET's EventSources: for each of its counters, an EventSource writes an event of this name with a
     * struct Payload. Source: dotnet/runtime CounterPayload.cs. */
    {"runtime_counters",
     "SELECT e.host AS host, e.stream AS stream, " PROCESS " AS process_key, e.pid AS pid, p.image_name AS image, "
     "e.time AS time, e.provider_name AS provider, " TEXT("Name") " AS counter, " TEXT("DisplayName") " AS display_name, "
     "coalesce(" NUMBER("Mean") ", " NUMBER("Increment") ") AS value, " TEXT("DisplayUnits") " AS unit, "
     TEXT("CounterType") " AS kind, " NUMBER("IntervalSec") " AS interval_s, " NUMBER("Count") " AS count, "
     NUMBER("Min") " AS min, " NUMBER("Max") " AS max, " NUMBER("StandardDeviation") " AS standard_deviation "
     "FROM events e LEFT JOIN processes p ON p.process_key = " PROCESS " WHERE e.name = 'EventCounters'"},
};

// clang-format on

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
