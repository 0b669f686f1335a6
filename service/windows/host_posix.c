/* Proxies as the environment names them. See host.h. */
#include "host.h"
#include "platform.h"

/* The first of two variables that is set and not empty; 0: none. */
static int either(const char *lower, const char *upper, char *out, size_t out_bytes) {
    return (ea_environment(lower, out, out_bytes) == 0 && *out) || (ea_environment(upper, out, out_bytes) == 0 && *out);
}

int ea_host_proxy(const char *url, char out[EA_PROXY_BYTES], ea_err *err) {
    char proxy[EA_PROXY_BYTES], excluded[4096], host[256];
    *out = 0;
    if (!either("https_proxy", "HTTPS_PROXY", proxy, sizeof proxy) &&
        !either("all_proxy", "ALL_PROXY", proxy, sizeof proxy))
        return 0;
    if (either("no_proxy", "NO_PROXY", excluded, sizeof excluded) && ea_proxy_host_of(url, host, sizeof host) &&
        ea_proxy_excludes(excluded, host))
        return 0;
    return ea_proxy_of_list(proxy, out, err);
}

ea_network_watch *ea_network_watch_open(void) {
    return NULL;
}

int ea_network_watch_changed(ea_network_watch *w) {
    (void)w;
    return 0;
}

void ea_network_watch_close(ea_network_watch *w) {
    (void)w;
}
