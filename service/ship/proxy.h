/* The proxy for each collector, as the operating system has it. Asking for it can take minutes (a script on an
 * unreachable server), so a separate thread asks: at the start, every ten minutes, after a failure and when the network
 * changes. The sender uses the last answer, and never waits for longer than its limit. Called by: the sender. Calls:
 * service/host/host.h. Thread: as each function says. */
#ifndef EA_SHIP_PROXY_H
#define EA_SHIP_PROXY_H

#include "service/host/host.h"

#include <stdint.h>

typedef struct ea_proxies ea_proxies;
/* ea_host_proxy, or a test's. */
typedef int (*ea_proxy_ask)(const char *url, char out[EA_PROXY_BYTES], ea_err *err);

/* urls are copied. doubt_ns: the pause between a doubted answer and the next question; 0: 15 s. */
EA_MUST_CHECK int ea_proxies_open(ea_proxies **ret, ea_proxy_ask ask, const char *const *urls, size_t count,
                                  int64_t doubt_ns, ea_err *err);
/* The answer for a URL, by its index: 1 and out ("" for none); 0 when there is none after wait_ns. A failure to ask
 * leaves the answer before it; without one it is "". ret_error: the last failure; code 0: none. Any thread. */
int ea_proxies_get(ea_proxies *p, size_t url, int64_t wait_ns, char out[EA_PROXY_BYTES], ea_err *ret_error);
/* The answer may be the reason of a failure: asks again after doubt_ns. Any thread. */
void ea_proxies_doubt(ea_proxies *p);
/* Returns within a second, even while the thread is held up; that frees what is left later. NULL is allowed. */
void ea_proxies_close(ea_proxies *p);

#endif
