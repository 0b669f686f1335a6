/* What the operating system has set for connections of its users: which proxy leads to a server.
 * Windows: WinHTTP (winhttp.c). Elsewhere: the environment (host_posix.c). Before it: the operating system. After it:
 * service/ship. Thread: as each function says. */
#ifndef EA_WINDOWS_HOST_H
#define EA_WINDOWS_HOST_H

#include "err.h"

enum { EA_PROXY_BYTES = 320 };

/* The proxy that leads to url: "http://HOST:PORT", or "" for none. Windows: what a script (PAC) says that the settings
 * name or that the network offers (WPAD), else the proxy of the settings: of the user's, then of the machine's
 * (netsh winhttp). Elsewhere: https_proxy or all_proxy, unless no_proxy names the host; of either case. Windows may
 * take minutes. Any thread. EA_EIO: nobody answers; EA_EFORMAT: the answer is none that can be used. */
EA_MUST_CHECK int ea_host_proxy(const char *url, char out[EA_PROXY_BYTES], ea_err *err);

/* Hears of changes of the machine's network addresses; NULL where nobody tells. One thread at a time. */
typedef struct ea_network_watch ea_network_watch;
ea_network_watch *ea_network_watch_open(void);
int ea_network_watch_changed(ea_network_watch *w); /* since the last call; NULL is allowed: 0 */
void ea_network_watch_close(ea_network_watch *w);  /* NULL is allowed */

/* Portable parts of it. */

/* The host of an https URL, in lower case, without port and brackets. 0 when it has none or it does not fit. */
int ea_proxy_host_of(const char *url, char *out, size_t out_bytes);
/* One of a list as Windows writes them: "proxy:80", "http=a:80;https=b:443", several behind each other; the first that
 * is for https, or for all. */
EA_MUST_CHECK int ea_proxy_of_list(const char *list, char out[EA_PROXY_BYTES], ea_err *err);
/* Windows' list of hosts without a proxy: names with *, "<local>" for names without a dot; ";" or spaces between. */
int ea_proxy_bypasses(const char *list, const char *host);
/* no_proxy: domains with all that is in them, "*" for all; "," or spaces between. */
int ea_proxy_excludes(const char *list, const char *host);

#endif
