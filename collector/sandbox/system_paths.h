/* What files of the system a process needs that loads libraries, or connects to other machines. Called by: what makes a
 * sandbox's list of paths. Thread: any. */
#ifndef EC_SANDBOX_SYSTEM_PATHS_H
#define EC_SANDBOX_SYSTEM_PATHS_H

#include "collector/sandbox/sandbox.h"

enum {
    EC_SYSTEM_PATHS = 8,
    EC_NETWORK_PATHS = 15,
    EC_CA_PATHS = 3,
    EC_CONNECTION_PATHS = EC_SYSTEM_PATHS + EC_NETWORK_PATHS + EC_CA_PATHS
};

/* Elements of a list: variables by which libcurl and OpenSSL find a proxy and certificates. */
#define EC_CONNECTION_VARIABLES                                                                                        \
    "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE",     \
        "SSL_CERT_DIR"

/* Programs and libraries of the system, and devices without a state. */
extern const ec_sandbox_path EC_SANDBOX_SYSTEM[EC_SYSTEM_PATHS];
/* What a process reads that connects by names and TLS: those, how host names become addresses, and which certificates
 * are trusted: the system's, those that SSL_CERT_FILE and SSL_CERT_DIR name, and the file ca (NULL or "": none). Fills
 * ret, which has room for EC_CONNECTION_PATHS; returns their number. ca and the environment are borrowed. */
size_t ec_connection_paths(const char *ca, ec_sandbox_path *ret);

#endif
