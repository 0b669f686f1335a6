/* What `etwcollector report` asks: the sections of each report, a statement each. Called by: cmd_report.c. Thread: any.
 */
#ifndef EC_APP_REPORT_QUESTIONS_H
#define EC_APP_REPORT_QUESTIONS_H

enum { EC_REPORT_SECTIONS = 4 };

/* Rows of a report. sql: ?1 and ?2 are the range in ns since 1970, NULL: unbounded. Its first column is the host.
 * Columns that are called `ns` or end with `_ns` are times, those that end with `_bytes` are sizes. */
typedef struct ec_report_section {
    const char *name; /* in JSON; NULL ends the list */
    const char *title;
    const char *sql;
} ec_report_section;

typedef struct ec_report {
    const char *name, *title;
    const char *needs; /* which events must have been recorded; for a report without rows */
    ec_report_section sections[EC_REPORT_SECTIONS + 1];
} ec_report;

/* NULL: there is no report of that name. */
const ec_report *ec_report_of(const char *name);

#endif
