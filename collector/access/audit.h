/* The audit log: which caller read what, which callers were refused, which tokens and certificates were issued. Each
 * line is a JSON object. There are two files in a folder, so that refusals do not rotate grants away:
 *
 *     audit.jsonl          what was granted, and changes of tokens
 *     audit-refused.jsonl  refused requests; the lines a minute of one caller are limited, further refusals are only
 *                          counted
 *
 * Each file is a chain: a line begins with "time", "seq" (1, 2, 3 ...) and "prev", the SHA-256 of the line before it
 * without its newline (64 zeros for the first). The chain goes on over files that were rotated: a full file becomes
 * FILE.1, and so on to FILE.4, and the oldest is deleted. The first line of a file has, in "first_kept", the number of
 * the line with which the oldest file began at that time. This distinguishes a deletion by rotation from any other
 * deletion. FILE.head has the number and the hash of the last line. A writer that finds a file changed since its last
 * line compares the file's last line with .head and with its own last line: when lines are missing or the line differs,
 * the numbers continue and a line states the "fault". Without fsync, a power loss can look the same. ec_audit_verify
 * checks all that. A process that can write to the folder can make a whole new chain: against that, lines are copied to
 * syslog, which a site sends to another machine.
 *
 * Several processes may write: each line is written under a lock of the folder (audit.lock).
 * Called by: collector/web, collector/enroll, the commands that change tokens. Writes: the files. Thread: any. */
#ifndef EC_ACCESS_AUDIT_H
#define EC_ACCESS_AUDIT_H

#include "proto/base/counters.h"
#include "proto/base/err.h"
#include "proto/base/text.h"

#include <stdint.h>

typedef struct ec_audit ec_audit;

typedef struct ec_audited {
    const char *address, *token, *method, *path; /* token: its name; any may be NULL */
    const char *query;                           /* of the URL, as it was sent; may be NULL */
    const char *statement;                       /* SQL; may be NULL */
    int status;                                  /* 0: no request; 400 and above: a refusal */
    const char *note;                            /* why it was refused, what was done; may be NULL */
} ec_audited;

typedef struct ec_audit_options {
    uint64_t max_bytes;    /* of one file; 0: 16 MiB, UINT64_MAX: files are not rotated */
    uint64_t refusals;     /* lines a minute about one caller; 0: 10 */
    int to_syslog;         /* 1: each line is copied to syslog, facility authpriv */
    ea_counters *counters; /* borrowed; may be NULL */
} ec_audit_options;

EA_MUST_CHECK int ec_audit_open(ec_audit **ret, const char *dir, const ec_audit_options *options, ea_err *err);
/* Writes the numbers of refusals that are still due. NULL is allowed. */
void ec_audit_close(ec_audit *a);
/* Appends a line. Requests with status 429 are left to the counters. A line that cannot be written is counted, and the
 * next line of its file says how many. */
void ec_audit_add(ec_audit *a, const ec_audited *what);
/* Writes what is due of a minute that is over; call it now and then. NULL is allowed. */
void ec_audit_tick(ec_audit *a);

/* Checks both chains of a folder and appends a report to the text, a line for each file and each fault. *ret_faults:
 * how many. EA_ENOTFOUND when there is no audit log. */
EA_MUST_CHECK int ec_audit_verify(const char *dir, ea_text *report, uint64_t *ret_faults, ea_err *err);

#endif
