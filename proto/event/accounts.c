/* See accounts.h. Source: Microsoft, "Security identifiers" (Windows Server documentation), [MS-DTYP] 2.4.2.4. */
#include "proto/event/accounts.h"

#include <stdio.h>
#include <string.h>

// clang-format off
static const struct {
    const char *sid, *name;
} NAMES[] = {
    {"S-1-0-0", "NULL SID"},
    {"S-1-1-0", "Everyone"},
    {"S-1-2-0", "LOCAL"},
    {"S-1-2-1", "CONSOLE LOGON"},
    {"S-1-3-0", "CREATOR OWNER"},
    {"S-1-3-1", "CREATOR GROUP"},
    {"S-1-3-2", "CREATOR OWNER SERVER"},
    {"S-1-3-3", "CREATOR GROUP SERVER"},
    {"S-1-3-4", "OWNER RIGHTS"},
    {"S-1-5-1", "NT AUTHORITY\\DIALUP"},
    {"S-1-5-2", "NT AUTHORITY\\NETWORK"},
    {"S-1-5-3", "NT AUTHORITY\\BATCH"},
    {"S-1-5-4", "NT AUTHORITY\\INTERACTIVE"},
    {"S-1-5-6", "NT AUTHORITY\\SERVICE"},
    {"S-1-5-7", "NT AUTHORITY\\ANONYMOUS LOGON"},
    {"S-1-5-8", "NT AUTHORITY\\PROXY"},
    {"S-1-5-9", "NT AUTHORITY\\ENTERPRISE DOMAIN CONTROLLERS"},
    {"S-1-5-10", "NT AUTHORITY\\SELF"},
    {"S-1-5-11", "NT AUTHORITY\\Authenticated Users"},
    {"S-1-5-12", "NT AUTHORITY\\RESTRICTED"},
    {"S-1-5-13", "NT AUTHORITY\\TERMINAL SERVER USER"},
    {"S-1-5-14", "NT AUTHORITY\\REMOTE INTERACTIVE LOGON"},
    {"S-1-5-15", "NT AUTHORITY\\This Organization"},
    {"S-1-5-17", "NT AUTHORITY\\IUSR"},
    {"S-1-5-18", "NT AUTHORITY\\SYSTEM"},
    {"S-1-5-19", "NT AUTHORITY\\LOCAL SERVICE"},
    {"S-1-5-20", "NT AUTHORITY\\NETWORK SERVICE"},
    {"S-1-5-33", "NT AUTHORITY\\WRITE RESTRICTED"},
    {"S-1-5-113", "NT AUTHORITY\\Local account"},
    {"S-1-5-114", "NT AUTHORITY\\Local account and member of Administrators group"},
    {"S-1-5-32-544", "BUILTIN\\Administrators"},
    {"S-1-5-32-545", "BUILTIN\\Users"},
    {"S-1-5-32-546", "BUILTIN\\Guests"},
    {"S-1-5-32-547", "BUILTIN\\Power Users"},
    {"S-1-5-32-548", "BUILTIN\\Account Operators"},
    {"S-1-5-32-549", "BUILTIN\\Server Operators"},
    {"S-1-5-32-550", "BUILTIN\\Print Operators"},
    {"S-1-5-32-551", "BUILTIN\\Backup Operators"},
    {"S-1-5-32-552", "BUILTIN\\Replicator"},
    {"S-1-5-32-554", "BUILTIN\\Pre-Windows 2000 Compatible Access"},
    {"S-1-5-32-555", "BUILTIN\\Remote Desktop Users"},
    {"S-1-5-32-556", "BUILTIN\\Network Configuration Operators"},
    {"S-1-5-32-557", "BUILTIN\\Incoming Forest Trust Builders"},
    {"S-1-5-32-558", "BUILTIN\\Performance Monitor Users"},
    {"S-1-5-32-559", "BUILTIN\\Performance Log Users"},
    {"S-1-5-32-560", "BUILTIN\\Windows Authorization Access Group"},
    {"S-1-5-32-561", "BUILTIN\\Terminal Server License Servers"},
    {"S-1-5-32-562", "BUILTIN\\Distributed COM Users"},
    {"S-1-5-32-568", "BUILTIN\\IIS_IUSRS"},
    {"S-1-5-32-569", "BUILTIN\\Cryptographic Operators"},
    {"S-1-5-32-573", "BUILTIN\\Event Log Readers"},
    {"S-1-5-32-574", "BUILTIN\\Certificate Service DCOM Access"},
    {"S-1-5-32-575", "BUILTIN\\RDS Remote Access Servers"},
    {"S-1-5-32-576", "BUILTIN\\RDS Endpoint Servers"},
    {"S-1-5-32-577", "BUILTIN\\RDS Management Servers"},
    {"S-1-5-32-578", "BUILTIN\\Hyper-V Administrators"},
    {"S-1-5-32-579", "BUILTIN\\Access Control Assistance Operators"},
    {"S-1-5-32-580", "BUILTIN\\Remote Management Users"},
    {"S-1-5-64-10", "NT AUTHORITY\\NTLM Authentication"},
    {"S-1-5-64-14", "NT AUTHORITY\\SChannel Authentication"},
    {"S-1-5-64-21", "NT AUTHORITY\\Digest Authentication"},
    {"S-1-5-80-0", "NT SERVICE\\ALL SERVICES"},
    {"S-1-5-83-0", "NT VIRTUAL MACHINE\\Virtual Machines"},
    {"S-1-5-90-0", "Window Manager\\Window Manager Group"},
    {"S-1-15-2-1", "APPLICATION PACKAGE AUTHORITY\\ALL APPLICATION PACKAGES"},
    {"S-1-15-2-2", "APPLICATION PACKAGE AUTHORITY\\ALL RESTRICTED APPLICATION PACKAGES"},
    {"S-1-16-0", "Mandatory Label\\Untrusted Mandatory Level"},
    {"S-1-16-4096", "Mandatory Label\\Low Mandatory Level"},
    {"S-1-16-8192", "Mandatory Label\\Medium Mandatory Level"},
    {"S-1-16-8448", "Mandatory Label\\Medium Plus Mandatory Level"},
    {"S-1-16-12288", "Mandatory Label\\High Mandatory Level"},
    {"S-1-16-16384", "Mandatory Label\\System Mandatory Level"},
    {"S-1-16-20480", "Mandatory Label\\Protected Process Mandatory Level"},
};

// clang-format on

/* Accounts of a session, which is the last number. */
static const struct {
    const char *begin, *name;
} OF_SESSIONS[] = {
    {"S-1-5-90-0-", "Window Manager\\DWM-"},
    {"S-1-5-96-0-", "Font Driver Host\\UMFD-"},
};

static int is_session(const char *digits) {
    enum { DIGITS_MAX = 10 };

    size_t n = strspn(digits, "0123456789");
    return n && n <= DIGITS_MAX && !digits[n];
}

const char *ea_account_name(const char *sid, char buffer[EA_ACCOUNT_BYTES]) {
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(sid, NAMES[i].sid) == 0)
            return NAMES[i].name;
    for (size_t i = 0; i < sizeof OF_SESSIONS / sizeof *OF_SESSIONS; i++) {
        size_t n = strlen(OF_SESSIONS[i].begin);
        if (strncmp(sid, OF_SESSIONS[i].begin, n) == 0 && is_session(sid + n)) {
            snprintf(buffer, EA_ACCOUNT_BYTES, "%s%s", OF_SESSIONS[i].name, sid + n);
            return buffer;
        }
    }
    return NULL;
}
