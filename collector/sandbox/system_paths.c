/* See system_paths.h. */
#include "collector/sandbox/system_paths.h"

#include <stdlib.h>

const ec_sandbox_path EC_SANDBOX_SYSTEM[EC_SYSTEM_PATHS] = {
    {.path = "/usr", .access = EC_SANDBOX_EXECUTE},          {.path = "/bin", .access = EC_SANDBOX_EXECUTE},
    {.path = "/lib", .access = EC_SANDBOX_EXECUTE},          {.path = "/lib64", .access = EC_SANDBOX_EXECUTE},
    {.path = "/etc/ld.so.cache", .access = EC_SANDBOX_READ}, {.path = "/dev/null", .access = EC_SANDBOX_SHARE},
    {.path = "/dev/zero", .access = EC_SANDBOX_READ},        {.path = "/dev/urandom", .access = EC_SANDBOX_READ},
};

static const ec_sandbox_path NAMES[EC_NETWORK_PATHS] = {
    {.path = "/etc/resolv.conf", .access = EC_SANDBOX_READ},
    {.path = "/etc/hosts", .access = EC_SANDBOX_READ},
    {.path = "/etc/host.conf", .access = EC_SANDBOX_READ},
    {.path = "/etc/nsswitch.conf", .access = EC_SANDBOX_READ},
    {.path = "/etc/gai.conf", .access = EC_SANDBOX_READ},
    {.path = "/etc/services", .access = EC_SANDBOX_READ},
    {.path = "/etc/protocols", .access = EC_SANDBOX_READ},
    {.path = "/etc/pki/tls/certs", .access = EC_SANDBOX_READ},
    {.path = "/etc/ssl/certs", .access = EC_SANDBOX_READ},
    {.path = "/etc/ssl/cert.pem", .access = EC_SANDBOX_READ},
    {.path = "/etc/ssl/openssl.cnf", .access = EC_SANDBOX_READ},
    {.path = "/etc/pki/tls/openssl.cnf", .access = EC_SANDBOX_READ},
    {.path = "/etc/pki/ca-trust/extracted", .access = EC_SANDBOX_READ},
    {.path = "/etc/ca-certificates/extracted", .access = EC_SANDBOX_READ},
    {.path = "/etc/crypto-policies", .access = EC_SANDBOX_READ},
};

size_t ec_connection_paths(const char *ca, ec_sandbox_path *ret) {
    const char *const more[EC_CA_PATHS] = {ca, getenv("SSL_CERT_FILE"), getenv("SSL_CERT_DIR")};
    size_t count = 0;
    for (size_t i = 0; i < EC_SYSTEM_PATHS; i++) /* libcurl, and what it loads */
        ret[count++] = (ec_sandbox_path){.path = EC_SANDBOX_SYSTEM[i].path, .access = EC_SANDBOX_READ};
    for (size_t i = 0; i < EC_NETWORK_PATHS; i++)
        ret[count++] = NAMES[i];
    for (size_t i = 0; i < EC_CA_PATHS; i++)
        if (more[i] && *more[i])
            ret[count++] = (ec_sandbox_path){.path = more[i], .access = EC_SANDBOX_READ};
    return count;
}
