/* Lists of proxies and of hosts without one, as settings write them. See host.h. */
#include "proto/base/pattern.h"
#include "service/host/host.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { HOST_BYTES = 256 };

/* The next item of a list, copied to item; 0 at the end. One that does not fit is none. */
static int next_item(const char **list, const char *between, char item[HOST_BYTES]) {
    for (;;) {
        *list += strspn(*list, between);
        size_t n = strcspn(*list, between);
        if (!n)
            return 0;
        const char *at = *list;
        *list += n;
        if (n >= HOST_BYTES)
            continue;
        memcpy(item, at, n);
        item[n] = 0;
        return 1;
    }
}

int ea_proxy_host_of(const char *url, char *out, size_t out_bytes) {
    const char *at = strstr(url, "://");
    at = at ? at + 3 : url;
    int bracket = *at == '[';
    at += bracket;
    size_t n = strcspn(at, bracket ? "]" : ":/?#");
    if (!n || n >= out_bytes)
        return 0;
    for (size_t i = 0; i < n; i++)
        out[i] = (char)tolower((unsigned char)at[i]);
    out[n] = 0;
    return 1;
}

/* "http://HOST:PORT" of "HOST:PORT", with or without the scheme; 0 when it is nothing of the kind. */
static int take_proxy(const char *text, char out[EA_PROXY_BYTES]) {
    static const char ALLOWED[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:[]";
    if (strncmp(text, "http://", 7) == 0)
        text += 7;
    size_t n = strspn(text, ALLOWED);
    if (!n || (text[n] && strcmp(text + n, "/") != 0))
        return 0;
    snprintf(out, EA_PROXY_BYTES, "http://%.*s", (int)n, text);
    return 1;
}

int ea_proxy_of_list(const char *list, char out[EA_PROXY_BYTES], ea_err *err) {
    char item[HOST_BYTES];
    const char *at = list;
    while (next_item(&at, "; \t\r\n", item)) {
        const char *value = strchr(item, '=');
        if (value && strncmp(item, "https=", 6) != 0)
            continue;
        if (take_proxy(value ? value + 1 : item, out))
            return 0;
    }
    /* without its text, which may hold a password */
    return ea_fail(err, EA_EFORMAT, "the operating system names no proxy of the form http://HOST:PORT for https");
}

int ea_proxy_bypasses(const char *list, const char *host) {
    char item[HOST_BYTES];
    while (next_item(&list, "; \t\r\n", item))
        if (strcmp(item, "<local>") == 0 ? !strchr(host, '.') : ea_name_in(item, host))
            return 1;
    return 0;
}

int ea_proxy_excludes(const char *list, const char *host) {
    char item[HOST_BYTES], inside[HOST_BYTES + 2];
    while (next_item(&list, ", \t\r\n", item)) {
        const char *domain = item[0] == '.' ? item + 1 : item;
        snprintf(inside, sizeof inside, "*.%s", domain);
        if (ea_name_in(domain, host) || ea_name_in(inside, host))
            return 1;
    }
    return 0;
}
