/* Elsewhere than on Windows no machine knows accounts by their SIDs. See account.h. */
#include "service/host/account.h"

#include "proto/base/err.h"

int ea_account_lookup(const char *sid, char *out, size_t out_bytes) {
    (void)sid, (void)out, (void)out_bytes;
    return EA_ENOTFOUND;
}
