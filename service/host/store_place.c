/* How a configuration names a certificate store. See host.h. */
#include "service/host/host.h"

#include <string.h>

int ea_store_is_place(const char *text) {
    return text && strncmp(text, EA_STORE_PREFIX, sizeof EA_STORE_PREFIX - 1) == 0;
}

int ea_store_is_thumbprint(const char *which) {
    return strlen(which) == 40 && strspn(which, "0123456789abcdefABCDEF") == 40;
}

int ea_store_place_read(ea_store_place *ret, const char *text, int one, ea_err *err) {
    static const char NAME[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-";
    ea_store_place p = {0};
    const char *at = text + sizeof EA_STORE_PREFIX - 1;
    p.is_machine = strncmp(at, "machine/", 8) == 0;
    int good = p.is_machine || strncmp(at, "user/", 5) == 0;
    at += p.is_machine ? 8 : 5;
    size_t n = good ? strspn(at, NAME) : 0;
    good = n && n < sizeof p.store && at[n] == (one ? '/' : 0);
    if (good)
        memcpy(p.store, at, n);
    if (good && one) {
        size_t m = strlen(at + n + 1);
        good = m && m < sizeof p.which;
        if (good)
            memcpy(p.which, at + n + 1, m);
    }
    if (!good)
        return ea_fail(err, EA_EINVAL, "'%.128s': expected " EA_STORE_PREFIX "machine/%s or " EA_STORE_PREFIX "user/%s",
                       text, one ? "My/WHICH, a thumbprint or a common name," : "Root", one ? "My/WHICH" : "Root");
    *ret = p;
    return 0;
}
