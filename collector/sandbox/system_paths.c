/* See system_paths.h. */
#include "collector/sandbox/system_paths.h"

const ec_sandbox_path EC_SANDBOX_SYSTEM[EC_SYSTEM_PATHS] = {
    {.path = "/usr", .access = EC_SANDBOX_EXECUTE},          {.path = "/bin", .access = EC_SANDBOX_EXECUTE},
    {.path = "/lib", .access = EC_SANDBOX_EXECUTE},          {.path = "/lib64", .access = EC_SANDBOX_EXECUTE},
    {.path = "/etc/ld.so.cache", .access = EC_SANDBOX_READ}, {.path = "/dev/null", .access = EC_SANDBOX_SHARE},
    {.path = "/dev/zero", .access = EC_SANDBOX_READ},        {.path = "/dev/urandom", .access = EC_SANDBOX_READ},
};

const ec_sandbox_path EC_SANDBOX_NAMES[EC_NETWORK_PATHS] = {
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
