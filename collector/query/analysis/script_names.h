/* Which scripts an engine has loaded, and what their functions are called: "name url:line:column". The engines log a
 * script's address once (SourceLoad), and its number with each function that they compile. Input: event_cursor.h
 * (events of Microsoft-JScript and V8.js). Used by: methods.c. Thread: its owner's. */
#ifndef EC_QUERY_ANALYSIS_SCRIPT_NAMES_H
#define EC_QUERY_ANALYSIS_SCRIPT_NAMES_H

#include "proto/base/text.h"

typedef struct ec_script_names ec_script_names;

/* A longer address, and a function's name of more than 512 bytes, is cut; "..." follows. */
enum { EC_SCRIPT_URL_MAX_BYTES = 512, EC_SCRIPTS_MAX = 1 << 18 };

/* Where a function is in its script; line and column are as the engine logs them: 0 and UINT32_MAX are unknown. */
typedef struct ec_script_place {
    uint32_t pid;
    uint64_t context, source; /* the engine's numbers of its script context and of the script; 0: of no script */
    uint32_t line, column;
} ec_script_place;

EA_MUST_CHECK int ec_script_names_create(ec_script_names **ret, ea_err *err);
void ec_script_names_destroy(ec_script_names *s); /* NULL is allowed */

/* Notes a script's address (UTF-8). A script that has the number of another one of its context replaces it. EA_ELIMIT:
 * there are EC_SCRIPTS_MAX of them, or the addresses take 64 MiB; EA_ENOMEM. */
EA_MUST_CHECK int ec_script_names_add(ec_script_names *s, uint32_t pid, uint64_t context, uint64_t source,
                                      const char *url);

/* The address of the script that has this number now; NULL: not known, or it has none. Valid as long as s. */
const char *ec_script_names_url(const ec_script_names *s, const ec_script_place *p);

/* Appends what a function is called. logged: the engine's name of it. V8's names contain the tier of the code, too
 * ("JS:*add https://...:3:9"): a function has one name in all tiers. url: of its script; NULL: unknown. */
void ec_script_name(ea_text *out, const char *logged, const char *url, const ec_script_place *p);

#endif
