/* What rules name of processes: the history's row of a process, and of the module that has the name of its program.
 * Each process is looked up once and kept by its instance, so that a number that is used again is another process.
 * Called by: rules_row.c. Calls: collector/query/sql. Thread: that of the connection, whose snapshot of the history it
 * follows. */
#ifndef EC_DETECT_RULES_PROCESSES_H
#define EC_DETECT_RULES_PROCESSES_H

#include "collector/query/sql/sql.h"

enum ec_fact {
    EC_FACT_ID,
    EC_FACT_IMAGE_NAME,
    EC_FACT_PARENT_ID,
    EC_FACT_COMMAND_LINE,
    EC_FACT_ACCOUNT,
    EC_FACT_INTEGRITY_LEVEL,
    EC_FACT_LOGON_ID,
    /* from here on: of the module, or with it */
    EC_FACT_PATH, /* with a drive letter where the stream has it; the name where no module is known */
    EC_FACT_COMPANY,
    EC_FACT_DESCRIPTION,
    EC_FACT_FILE_VERSION,
    EC_FACT_IMPHASH,
    EC_FACT_MD5,
    EC_FACT_ORIGINAL_NAME,
    EC_FACT_PRODUCT,
    EC_FACT_SHA1,
    EC_FACT_SHA256,
    EC_FACT_HASHES, /* as Sysmon writes them */
    EC_FACT_COUNT
};

enum { EC_PROCESS_FACTS_MAX = 1 << 14, EC_PROCESS_FACTS_MAX_BYTES = 8 << 20 /* then they are looked up again */ };

typedef struct ec_process_fact {
    const char *text; /* NULL: it is not known */
    size_t len_bytes;
} ec_process_fact;

typedef struct ec_process {
    int64_t key, parent_key; /* 0: none */
    int64_t begin_utc_ns, end_utc_ns;
    int has_module_facts; /* those from EC_FACT_PATH on were looked up */
    ec_process_fact facts[EC_FACT_COUNT];
} ec_process;

typedef struct ec_process_facts ec_process_facts;

EA_MUST_CHECK int ec_process_facts_create(ec_process_facts **ret, ec_sql *sql, ea_err *err);
void ec_process_facts_destroy(ec_process_facts *f); /* before its connection is closed; NULL is allowed */
void ec_process_facts_clear(ec_process_facts *f);
/* A fact that will be asked for: others are not read. */
void ec_process_facts_need(ec_process_facts *f, enum ec_fact fact);
/* Before each event: the stream whose drives paths are named by. NULL: paths stay as the kernel logs them. Processes
 * that were found before are void. */
void ec_process_facts_begin(ec_process_facts *f, const ec_archive_stream *stream);
/* The process that had a number at a time, by the rule of SQL's process_at; *ret NULL: it is not known. host, stream:
 * of the event. has_module: its facts from EC_FACT_PATH on are wanted. Errors: ec_rules_fail_sqlite. */
EA_MUST_CHECK int ec_process_facts_at(ec_process_facts *f, const char *host, const char *stream, int64_t pid,
                                      int64_t utc_ns, int has_module, const ec_process **ret, ea_err *err);
/* The process with this key (processes.process_key); *ret NULL: key 0, or there is none. Otherwise likewise. */
EA_MUST_CHECK int ec_process_facts_find(ec_process_facts *f, int64_t key, int has_module, const ec_process **ret,
                                        ea_err *err);

/* Appends the expression of a fact of a module; table: of modules, or what that is made of. */
void ec_process_facts_column(ea_text *t, const char *table, enum ec_fact fact);
/* A failure of SQLite: EA_EFORMAT: it refuses the row; EA_ECANCELED: the time is over; else as ec_fail_sqlite. */
int ec_rules_fail_sqlite(ea_err *err, sqlite3 *db, int code);

#endif
