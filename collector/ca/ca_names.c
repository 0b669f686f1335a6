/* The formats of a CA's files, names, serial numbers and roles. All other files of the CA use this one. See ca.h,
 * ca_parts.h. */
#include "collector/ca/ca_parts.h"

#include <stdlib.h>
#include <string.h>

const char *const ec_ca_role_names[] = {"agent", "server", "ca"};

char *ec_ca_path(const char *dir, const char *name, const char *ending) {
    size_t n = strlen(dir) + strlen(name) + strlen(ending) + 2;
    char *path = malloc(n);
    if (path)
        snprintf(path, n, "%s/%s%s", dir, name, ending);
    return path;
}

int ec_ca_name_is_good(const char *name) {
    size_t n = strlen(name);
    return n >= 1 && n <= EC_CA_NAME_MAX && name[0] != '.' && name[0] != '-' &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

int ec_ca_serial_is_good(const char *serial) {
    size_t n = strlen(serial);
    return n >= 1 && n <= EC_CA_SERIAL_HEX && strspn(serial, "0123456789abcdef") == n;
}
