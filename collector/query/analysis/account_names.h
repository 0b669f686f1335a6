/* Names of accounts by their SIDs: those that are the same on every machine, those that an agent's machine has named
 * (Account/Name, service/image), and services, whose SIDs follow from the names in SystemConfig/Services events. Input:
 * event_cursor.h, proto/event/accounts.h. Used by: the command ps; SQL's account_name and the column account. Thread:
 * its owner's. */
#ifndef EC_QUERY_ANALYSIS_ACCOUNT_NAMES_H
#define EC_QUERY_ANALYSIS_ACCOUNT_NAMES_H

#include "collector/query/scan/archive.h"

typedef struct ec_accounts ec_accounts;

/* archive: borrowed until the close. A host's events are read when a SID of it is first looked up that is not known
 * everywhere. */
EA_MUST_CHECK int ec_accounts_create(ec_accounts **ret, ec_archive *archive, ea_err *err);
void ec_accounts_destroy(ec_accounts *a); /* NULL is allowed */
/* *ret: "NT AUTHORITY\SYSTEM", valid as long as a; NULL: no name is known. host NULL: only names that are the same on
 * every machine. Names of more than 1,024 bytes, and beyond 65,536 or 16 MiB of a host, are not known. EA_ENOMEM,
 * EA_EDATABASE. */
EA_MUST_CHECK int ec_accounts_find(ec_accounts *a, const char *host, const char *sid, const char **ret, ea_err *err);

#endif
