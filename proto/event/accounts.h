/* Names of accounts whose SIDs are the same on every machine. They are the English ones; a Windows of another language
 * shows its own. SIDs that a machine or a domain makes, and those of services, which are hashes of their names, have no
 * name here.
 * Before it: nothing. After it: the collector's SQL and its lists of processes. Thread: any (constants). */
#ifndef EA_EVENT_ACCOUNTS_H
#define EA_EVENT_ACCOUNTS_H

enum { EA_ACCOUNT_BYTES = 96 };

/* "NT AUTHORITY\SYSTEM" of "S-1-5-18": a constant, or in buffer. NULL: no name is known, or the text is no SID. sid: as
 * ea_value_sid writes one; any text is allowed. */
const char *ea_account_name(const char *sid, char buffer[EA_ACCOUNT_BYTES]);

#endif
