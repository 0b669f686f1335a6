/* See account.h. */
#include "service/host/account.h"

#include "proto/base/err.h"
#include "service/host/win/wide.h"

#include <windows.h>

#include <sddl.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_CHARACTERS = 256 }; /* a name has at most 104 (UPN), a domain 15 or 255 (DNS) */

int ea_account_lookup(const char *sid, char *out, size_t out_bytes) {
    WCHAR name[NAME_MAX_CHARACTERS], domain[NAME_MAX_CHARACTERS], *wide = ea_wide(sid);
    DWORD name_room = NAME_MAX_CHARACTERS, domain_room = NAME_MAX_CHARACTERS;
    SID_NAME_USE use;
    PSID binary = NULL;
    BOOL is_known = wide && ConvertStringSidToSidW(wide, &binary) &&
                    LookupAccountSidW(NULL, binary, name, &name_room, domain, &domain_room, &use) && *name;
    LocalFree(binary);
    free(wide);
    if (!is_known)
        return EA_ENOTFOUND;
    size_t at = 0;
    if (*domain) {
        ea_narrow(domain, out, out_bytes);
        at = strlen(out);
        if (at + 2 > out_bytes)
            return EA_ELIMIT;
        out[at++] = '\\';
    }
    ea_narrow(name, out + at, out_bytes - at);
    return strlen(out) + 1 < out_bytes ? 0 : EA_ELIMIT;
}
