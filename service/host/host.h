/* What the operating system has for connections: which proxy leads to a server; certificates and keys in its stores.
 * Windows: winhttp.c, certstore.c. Elsewhere: the environment, and no stores (host_posix.c). Calls: the operating
 * system. Called by: service/ship. Thread: as each function says. */
#ifndef EA_HOST_HOST_H
#define EA_HOST_HOST_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

/* ---- proxies ---- */

enum { EA_PROXY_BYTES = 320 };

/* The proxy for url: "http://HOST:PORT", or "" for none. Windows: the result of the script (PAC) that the settings name
 * or the network offers (WPAD), else the proxy of the settings: the user's, then the machine's (netsh winhttp). Other
 * systems: https_proxy or all_proxy, unless no_proxy names the host; of either case. Windows may take minutes. Any
 * thread. EA_EIO: no answer; EA_EFORMAT: the answer is not usable. */
EA_MUST_CHECK int ea_host_proxy(const char *url, char out[EA_PROXY_BYTES], ea_err *err);

/* Watches for changes of the machine's network addresses; NULL where the system does not report them. One thread at a
 * time. */
typedef struct ea_network_watch ea_network_watch;
ea_network_watch *ea_network_watch_open(void);
int ea_network_watch_changed(ea_network_watch *w); /* since the last call; NULL is allowed: 0 */
void ea_network_watch_close(ea_network_watch *w);  /* NULL is allowed */

/* Portable parts of it. */

/* The host of an https URL, in lower case, without port and brackets. 0 when it has none or it does not fit. */
int ea_proxy_host_of(const char *url, char *out, size_t out_bytes);
/* One proxy of a list in Windows' format: "proxy:80", "http=a:80;https=b:443", several in sequence; the first that is
 * for https, or for all protocols. */
EA_MUST_CHECK int ea_proxy_of_list(const char *list, char out[EA_PROXY_BYTES], ea_err *err);
/* Windows' list of hosts without a proxy: names with *, "<local>" for names without a dot; ";" or spaces between. */
int ea_proxy_bypasses(const char *list, const char *host);
/* no_proxy: domains with all that is in them, "*" for all; "," or spaces between. */
int ea_proxy_excludes(const char *list, const char *host);

/* ---- certificate stores ---- */

#define EA_STORE_PREFIX "store:" /* in place of a file's path: store:machine/My/WHICH, store:user/Root */

/* A store, and a certificate in it: a SHA-1 thumbprint of 40 hex digits, or the common name of its subject. */
typedef struct ea_store_place {
    int is_machine; /* else the user's */
    char store[64];
    char which[256]; /* "": all of it */
} ea_store_place;

/* Whether there are certificate stores here: on Windows alone. */
int ea_host_has_stores(void);
int ea_store_is_place(const char *text);
/* EA_EINVAL, with what was expected. one: a certificate, else a whole store. */
EA_MUST_CHECK int ea_store_place_read(ea_store_place *ret, const char *text, int one, ea_err *err);
int ea_store_is_thumbprint(const char *which);

/* A certificate and its private key, which stays where Windows keeps it. */
typedef struct ea_identity ea_identity;
/* Opens the certificate of a subject's name. Of several it takes the valid one with a key that began last.
 * EA_ENOTFOUND: there is none; EA_EREFUSED, EA_EIO: its key is not available; EA_EUNSUPPORTED: not Windows. */
EA_MUST_CHECK int ea_identity_open(ea_identity **ret, const ea_store_place *place, ea_err *err);
/* Its certificates in DER: its own, then those of the authorities between it and the root; NULL after the last one. */
const uint8_t *ea_identity_certificate(const ea_identity *identity, size_t index, size_t *ret_bytes);
/* As ea_signer has it (service/ship/tls_key.h): PSS, or two numbers. Any thread. */
EA_MUST_CHECK int ea_identity_sign(void *identity, const uint8_t *digest, size_t digest_bytes, uint8_t *signature,
                                   size_t *len_bytes, ea_err *err);
void ea_identity_close(void *identity); /* NULL is allowed */

/* Calls on_certificate with each certificate of a store, in DER; a non-zero answer ends it and is returned.
 * EA_ENOTFOUND: the store is not there. */
EA_MUST_CHECK int ea_store_each(const ea_store_place *place,
                                int (*on_certificate)(void *arg, const uint8_t *der, size_t len_bytes), void *arg,
                                ea_err *err);

#endif
