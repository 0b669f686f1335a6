/* Stored events as a Sigma rule sees them: a statement of SQL for each class of events of a log source, whose columns
 * are the rules' fields. Called by: cmd_rules_test.c, detector.c. Calls: proto/rules, collector/query. Thread: any. */
#ifndef EC_DETECT_RULES_STORE_H
#define EC_DETECT_RULES_STORE_H

#include "collector/query/scan/archive.h"
#include "proto/base/text.h"
#include "proto/rules/rules.h"
#include "proto/rules/sigma_fields.h"

#include <sqlite3.h>

enum { EC_RULES_HEAD_COLUMNS = 8, EC_RULES_COLUMNS_MAX = 64 };

/* The head's columns. */
enum ec_rules_head {
    EC_RULES_TIME,
    EC_RULES_HOST,
    EC_RULES_PID, /* of the process that the event is about; EC_RULES_OF_RANGE: of the event's head */
    EC_RULES_STREAM,
    EC_RULES_BATCH,
    EC_RULES_POSITION,
    EC_RULES_PROCESS,     /* the file name of the process's program; NULL: it is not known, or EC_RULES_OF_RANGE */
    EC_RULES_PROCESS_KEY, /* of SQL; NULL the same way */
};

enum ec_rules_scope {
    EC_RULES_OF_RANGE, /* ?1, ?2: from and to, ns since 1970 */
    /* ?1, ?2: host and stream; ?3, ?4: the first and the last batch; ?5, ?6: the first and the last position */
    EC_RULES_OF_BATCHES,
};

/* Name of a class, EC_CLASS_PARTS_MAX, number of the others. */
#define EC_RULES_PARTS_NOTE                                                                                            \
    "rules are not run on all events of %.250s: it has more than %d kinds of columns; %zu are left out"

/* What brings a column. Statements ask for it in this order. */
enum ec_rules_stage {
    EC_RULES_STAGE_OWN,     /* the event alone */
    EC_RULES_STAGE_PROCESS, /* its process, the module and the file of that, or the file of the event */
    EC_RULES_STAGE_OTHERS,  /* parents and other processes */
};

#define EC_RULES_NOT_EARLY UINT32_MAX

typedef struct ec_rules_statement {
    ea_text sql; /* with the parameters of its scope */
    /* After the head's columns, one for each of these: the field's number in the group (ea_rules_field). */
    uint32_t fields[EC_RULES_COLUMNS_MAX];
    const char *names[EC_RULES_COLUMNS_MAX];
    uint8_t is_path[EC_RULES_COLUMNS_MAX]; /* as the kernel logs it: \\Device\\... */
    uint8_t stages[EC_RULES_COLUMNS_MAX];  /* enum ec_rules_stage */
    size_t field_count;
} ec_rules_statement;

/* Classes of a source that have rows, each once: calls fn for each; stops at the first non-zero, which it returns. */
int ec_rules_each_class(const ea_sigma_source *s, int (*fn)(void *arg, const char *class_name, size_t len), void *arg);

/* The statement for one class, over a table of events of it: its own, or that of a part (ec_archive_parts). Those
 * fields are columns that a rule of the group names and that the class has. early: of ec_rules_early_next;
 * EC_RULES_NOT_EARLY: no event is left before all joins. *ret is to be given to
 * ec_rules_statement_deinit, also on failure. Errors: EA_ENOMEM. */
EA_MUST_CHECK int ec_rules_statement_make(ec_rules_statement *ret, const ea_rules *rules, uint32_t group,
                                          const ea_sigma_source *s, const char *class_name, size_t len,
                                          const char *table, enum ec_rules_scope scope, uint32_t early);
void ec_rules_statement_deinit(ec_rules_statement *s);

/* The module that has the name of its process, which statements of EC_RULES_OF_BATCHES look up for each event: a
 * process is searched once until ec_rules_mains_clear. The function of SQL belongs to the connection. */
typedef struct ec_rules_mains ec_rules_mains;

EA_MUST_CHECK int ec_rules_mains_create(ec_rules_mains **ret, sqlite3 *db, ea_err *err);
void ec_rules_mains_clear(ec_rules_mains *m);
void ec_rules_mains_destroy(ec_rules_mains *m); /* before its connection is closed; NULL is allowed */

/* Puts a drive letter in place of the device with which a path begins, where the stream has it; else the path stays. */
void ec_rules_name_drive(ec_archive *archive, const ec_archive_stream *stream, ea_text *path);
/* The stream of a host and an id in hex; NULL: it arrived after the archive was opened. */
const ec_archive_stream *ec_rules_find_stream(ec_archive *archive, const char *host, const char *id);

#endif
