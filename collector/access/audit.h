/* Who asked for what: DIR/audit.jsonl, a JSON object a line, whatever stands in a name. It is bounded: a full file
 * becomes audit.jsonl.1, and so on to .4, and the oldest goes.
 * Before it: collector/web, the commands that change tokens. After it: the file. Thread: any. */
#ifndef EC_ACCESS_AUDIT_H
#define EC_ACCESS_AUDIT_H

#include "err.h"

#include <stdint.h>

typedef struct ec_audit ec_audit;

typedef struct ec_audited {
    const char *address, *token, *method, *path; /* token: its name; any may be NULL */
    int status;
    const char *note; /* why it was refused, what was done; may be NULL */
} ec_audited;

/* max_bytes of one file; 0: 16 MiB. Two may have it open; the one with the smaller bound makes room. */
EA_MUST_CHECK int ec_audit_open(ec_audit **ret, const char *dir, uint64_t max_bytes, ea_err *err);
void ec_audit_close(ec_audit *a); /* NULL is allowed */
/* Appends a line; a failure is counted and told by the next line that can be written. */
void ec_audit_add(ec_audit *a, const ec_audited *what);

#endif
