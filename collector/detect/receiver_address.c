/* See receiver_address.h. */
#include "collector/detect/receiver_address.h"

#include "proto/base/text.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

size_t ec_receiver_way_of(const ec_receiver_way *ways, size_t count, const char *url) {
    size_t way = 0;
    while (way < count && strncasecmp(url, ways[way].scheme, strlen(ways[way].scheme)) != 0)
        way++;
    return way;
}

int ec_receiver_address_read(const char *at, const char *port, ec_receiver_address *ret) {
    static const char NAME[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._",
                      ADDRESS[] = "0123456789abcdefABCDEF:.";
    ret->is_v6 = *at == '[';
    at += ret->is_v6;
    size_t len = strspn(at, ret->is_v6 ? ADDRESS : NAME);
    if (!len || len >= sizeof ret->host || (ret->is_v6 && at[len] != ']'))
        return 0;
    memcpy(ret->host, at, len);
    ret->host[len] = 0;
    at += len + (size_t)ret->is_v6;
    snprintf(ret->port, sizeof ret->port, "%s", port);
    if (*at == ':') {
        size_t digits = strspn(at + 1, "0123456789");
        uint64_t number = 0;
        if (!digits || digits >= sizeof ret->port)
            return 0;
        snprintf(ret->port, sizeof ret->port, "%.*s", (int)digits, at + 1);
        if (ea_u64_parse(ret->port, &number) || !number || number > UINT16_MAX)
            return 0;
        at += 1 + digits;
    }
    return strcmp(at, "") == 0 || strcmp(at, "/") == 0;
}

/* A name that begins so is none of this machine: 127.example.org. */
int ec_receiver_is_local(const ec_receiver_address *a) {
    if (a->is_v6)
        return strcmp(a->host, "::1") == 0;
    return strcasecmp(a->host, "localhost") == 0 ||
           (strncmp(a->host, "127.", 4) == 0 && strspn(a->host, "0123456789.") == strlen(a->host));
}
