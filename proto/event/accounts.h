/* Names of accounts whose SIDs are the same on every machine. They are the English ones; a Windows of another language
 * shows its own. The SID of a service is a hash of its name, so that services whose names are known have theirs. SIDs
 * that a machine or a domain makes have no name here. Also the names of integrity levels, which are SIDs, too. Used by:
 * the collector's SQL and its lists of processes. Thread: any (constants). */
#ifndef EA_EVENT_ACCOUNTS_H
#define EA_EVENT_ACCOUNTS_H

enum { EA_ACCOUNT_BYTES = 96, EA_SERVICE_SID_BYTES = 72 };

/* "NT AUTHORITY\SYSTEM" of "S-1-5-18": a constant, or in buffer. NULL: no name is known, or the text is no SID. sid: as
 * ea_value_sid writes one; any text is allowed. */
const char *ea_account_name(const char *sid, char buffer[EA_ACCOUNT_BYTES]);
/* "High" of the mandatory label "S-1-16-12288", "Untrusted", "Low", "Medium" or "System": a constant; a level between
 * two has the lower one's name. NULL: the text is no mandatory label. */
const char *ea_integrity_level(const char *label);
/* The SID of the service of that name, "S-1-5-80-...": 1; 0 for a name that is empty, too long or not ASCII. */
int ea_service_sid(const char *name, char out[EA_SERVICE_SID_BYTES]);

#endif
