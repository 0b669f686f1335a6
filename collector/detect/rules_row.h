/* A class of events as rules are asked about it: its statement, the filter of its scan, and the row at hand with what
 * is known of its processes. Called by: detector.c, cmd_rules_test.c. Calls: rules_store.h, rules_columns.h,
 * rules_processes.h, proto/rules. Thread: that of the connection. */
#ifndef EC_DETECT_RULES_ROW_H
#define EC_DETECT_RULES_ROW_H

#include "collector/detect/matched_row.h"
#include "collector/detect/rules_columns.h"

typedef struct ec_rules_class {
    ec_rules_statement statement;
    sqlite3_stmt *prepared; /* NULL: not prepared */
    uint32_t group;
    const char *types[EC_RULES_HEAD_COLUMNS + EC_RULES_COLUMNS_MAX]; /* of the statement's columns */
    ec_rules_columns *columns;                                       /* NULL: its scan has no filter */
    ea_rules_prospect *own; /* asked with the event's own fields, before its processes; NULL: it is not */
    uint64_t own_seen, own_stayed;
    int has_module[EC_RULES_OF_COUNT]; /* facts from EC_FACT_PATH on are needed */
} ec_rules_class;

/* The statement is made in c->statement. Prepares it, and what leaves events early; is_early 0: nothing does. facts:
 * learns what is needed. Errors: an SQLite code in *ret_code, which ec_sql_prepare gave; EA_ENOMEM. */
EA_MUST_CHECK int ec_rules_class_prepare(ec_rules_class *c, ec_sql *sql, const ea_rules *rules, ea_rules_run *run,
                                         uint32_t group, int is_early, ec_process_facts *facts, int *ret_code,
                                         ea_err *err);
void ec_rules_class_deinit(ec_rules_class *c);

/* The row at hand. */
typedef struct ec_rules_row {
    /* set by the owner, borrowed */
    ec_sql *sql;
    ec_process_facts *facts;
    ea_rules_run *run;
    const char *host, *stream;         /* EC_RULES_OF_BATCHES; else they are those of the row */
    const ec_archive_stream *archived; /* whose drives paths are named by; NULL: they stay as the kernel logs them */
    /* of the row */
    ec_rules_class *of;
    sqlite3_stmt *st;
    int64_t utc_ns;
    const ec_process *processes[EC_RULES_OF_COUNT];
    int is_found[EC_RULES_OF_COUNT];
    size_t len_bytes; /* of its values */
    ea_rules_value values[EC_RULES_COLUMNS_MAX];
    size_t value_count;
    /* of a row that rules match (ec_rules_row_fill): the head up to EC_RULES_PROCESS, and the fields */
    ea_text cells[EC_RULES_HEAD_COLUMNS + EC_RULES_COLUMNS_MAX];
    enum ec_look looks[EC_RULES_HEAD_COLUMNS + EC_RULES_COLUMNS_MAX];
} ec_rules_row;

void ec_rules_row_init(ec_rules_row *r);
void ec_rules_row_deinit(ec_rules_row *r);
/* Before a class's statement is run: its scan has its filter. NULL: after it. */
void ec_rules_row_begin(ec_rules_row *r, ec_rules_class *c);
/* Reads the row at which the statement is, and finds the rules that hold. is_read_alone: no rules are run; but what SQL
 * refuses, it refuses here. Errors: EA_ENOMEM, ec_rules_fail_sqlite. */
EA_MUST_CHECK int ec_rules_row_judge(ec_rules_row *r, int is_read_alone, const uint32_t **ret_rules, size_t *ret_count,
                                     ea_err *err);
/* Sets cells and looks of the row that was judged last. Errors: as above. */
EA_MUST_CHECK int ec_rules_row_fill(ec_rules_row *r, ea_err *err);
/* A process of the row; *ret NULL: it is not known. Errors: as above. */
EA_MUST_CHECK int ec_rules_row_process(ec_rules_row *r, enum ec_rules_of of, const ec_process **ret, ea_err *err);

#endif
