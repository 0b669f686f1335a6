/* Stored events as a Sigma rule sees them: a statement of SQL for each class of events of a log source, whose columns
 * are the rules' fields; what rules name of processes is asked beside it (rules_processes.h). Called by: rules_row.c,
 * cmd_rules_test.c, detector.c. Calls: proto/rules, collector/query. Thread: any. */
#ifndef EC_DETECT_RULES_STORE_H
#define EC_DETECT_RULES_STORE_H

#include "collector/detect/rules_processes.h"
#include "collector/query/scan/archive.h"
#include "proto/base/text.h"
#include "proto/rules/rules.h"
#include "proto/rules/sigma_fields.h"

enum { EC_RULES_HEAD_COLUMNS = 8, EC_RULES_COLUMNS_MAX = 64 };

/* The head's columns. */
enum ec_rules_head {
    EC_RULES_TIME,
    EC_RULES_HOST, /* EC_RULES_OF_BATCHES: NULL, as the stream */
    EC_RULES_PID,  /* of the event's head */
    EC_RULES_STREAM,
    EC_RULES_BATCH,
    EC_RULES_POSITION,
    EC_RULES_PROCESS, /* the number of the process that the event is about; of ec_rules_row: its program's file name */
    EC_RULES_TARGET,  /* the number of the other process that it is about; NULL: there is none */
};

enum ec_rules_scope {
    EC_RULES_OF_RANGE, /* ?1, ?2: from and to, ns since 1970 */
    /* ?1, ?2: host and stream; ?3, ?4: the first and the last batch; ?5, ?6: the first and the last position */
    EC_RULES_OF_BATCHES,
};

/* Name of a class, EC_CLASS_PARTS_MAX, number of the others. */
#define EC_RULES_PARTS_NOTE                                                                                            \
    "rules are not run on all events of %.250s: it has more than %d kinds of columns; %zu are left out"

/* What has a field's value. */
enum ec_rules_of {
    EC_RULES_OF_EVENT, /* a column of the statement */
    EC_RULES_OF_PROCESS,
    EC_RULES_OF_PARENT,
    EC_RULES_OF_GRANDPARENT,
    EC_RULES_OF_TARGET,
    EC_RULES_OF_COUNT
};

typedef struct ec_rules_source {
    enum ec_rules_of of;
    enum ec_fact fact; /* of a process */
    int column;        /* of the statement */
} ec_rules_source;

typedef struct ec_rules_statement {
    ea_text sql; /* with the parameters of its scope; its columns: the head's, and those of fields of the event */
    size_t column_count;
    enum ec_rules_scope scope;
    int is_simple; /* its conditions are kept by a scan of the class: a filter of that scan sees the statement's events
                    */
    /* One for each field: its number in the group (ea_rules_field). */
    uint32_t fields[EC_RULES_COLUMNS_MAX];
    const char *names[EC_RULES_COLUMNS_MAX];
    const char *own[EC_RULES_COLUMNS_MAX]; /* our field, as sigma_fields.h has it */
    ec_rules_source sources[EC_RULES_COLUMNS_MAX];
    size_t field_count;
} ec_rules_statement;

/* Classes of a source that have rows, each once: calls fn for each; stops at the first non-zero, which it returns. */
int ec_rules_each_class(const ea_sigma_source *s, int (*fn)(void *arg, const char *class_name, size_t len), void *arg);

/* The statement for one class, over a table of events of it: its own, or that of a part (ec_archive_parts). Fields are
 * those that a rule of the group names and that the class has. *ret is to be given to ec_rules_statement_deinit, also
 * on failure. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ec_rules_statement_make(ec_rules_statement *ret, const ea_rules *rules, uint32_t group,
                                          const ea_sigma_source *s, const char *class_name, size_t len,
                                          const char *table, enum ec_rules_scope scope);
void ec_rules_statement_deinit(ec_rules_statement *s);

/* Puts a drive letter in place of the device with which a path begins, where the stream has it; else the path stays. */
void ec_rules_name_drive(ec_archive *archive, const ec_archive_stream *stream, ea_text *path);
/* The stream of a host and an id in hex; NULL: it arrived after the archive was opened. */
const ec_archive_stream *ec_rules_find_stream(ec_archive *archive, const char *host, const char *id);

#endif
