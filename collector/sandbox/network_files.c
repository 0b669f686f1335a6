/* See network_files.h. */
#include "collector/sandbox/network_files.h"

static const char *const PATHS[] = {
    "/usr",
    "/bin",
    "/lib",
    "/lib64",
    "/etc/ld.so.cache",
    "/dev/null",
    "/dev/zero",
    "/dev/urandom",
    "/etc/resolv.conf",
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/gai.conf",
    "/etc/services",
    "/etc/protocols",
    "/etc/pki/tls/certs",
    "/etc/ssl/certs",
    "/etc/ssl/cert.pem",
    "/etc/ssl/openssl.cnf",
    "/etc/pki/tls/openssl.cnf",
    "/etc/pki/ca-trust/extracted",
    "/etc/ca-certificates/extracted",
    "/etc/crypto-policies",
};

_Static_assert(sizeof PATHS / sizeof *PATHS == EC_NETWORK_FILES, "callers have room for so many");

size_t ec_network_files(ec_sandbox_path *ret) {
    for (int i = 0; i < EC_NETWORK_FILES; i++)
        ret[i] = (ec_sandbox_path){.path = PATHS[i], .access = EC_SANDBOX_READ};
    return EC_NETWORK_FILES;
}
