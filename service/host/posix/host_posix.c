/* Proxies as the environment names them; no certificate stores. See host.h. */
#include "proto/base/platform.h"
#include "service/host/host.h"

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

/* ---- certificate stores ---- */

int ea_host_has_stores(void) {
    return 0;
}

static int no_stores(ea_err *err) {
    return ea_fail(err, EA_EUNSUPPORTED, "only Windows has certificate stores");
}

int ea_identity_open(ea_identity **ret, const ea_store_place *place, ea_err *err) {
    (void)ret, (void)place;
    return no_stores(err);
}

const uint8_t *ea_identity_certificate(const ea_identity *identity, size_t index, size_t *ret_bytes) {
    (void)identity, (void)index, (void)ret_bytes;
    return NULL;
}

int ea_identity_sign(void *identity, const uint8_t *digest, size_t digest_bytes, uint8_t *signature, size_t *len_bytes,
                     ea_err *err) {
    (void)identity, (void)digest, (void)digest_bytes, (void)signature, (void)len_bytes;
    return no_stores(err);
}

void ea_identity_close(void *identity) {
    (void)identity;
}

int ea_store_each(const ea_store_place *place, int (*on_certificate)(void *arg, const uint8_t *der, size_t len_bytes),
                  void *arg, ea_err *err) {
    (void)place, (void)on_certificate, (void)arg;
    return no_stores(err);
}
