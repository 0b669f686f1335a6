/* See webhook.h. */
#include "collector/detect/webhook.h"

#include "proto/base/platform.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { WEBHOOK_CONNECT_MS = 10000 };

/* As for symbol servers (symbol_server.c): the library is loaded by the one command that needs it. */
static const char WEBHOOK_LIBRARY[] = "libcurl.so.4";
#define WEBHOOK_CALLS(X)                                                                                               \
    X(CURLcode, global_init, (long flags))                                                                             \
    X(CURL *, easy_init, (void))                                                                                       \
    X(void, easy_cleanup, (CURL * curl))                                                                               \
    X(CURLcode, easy_setopt, (CURL * curl, CURLoption option, ...))                                                    \
    X(CURLcode, easy_getinfo, (CURL * curl, CURLINFO info, ...))                                                       \
    X(CURLcode, easy_perform, (CURL * curl))                                                                           \
    X(const char *, easy_strerror, (CURLcode code))                                                                    \
    X(struct curl_slist *, slist_append, (struct curl_slist * list, const char *text))                                 \
    X(void, slist_free_all, (struct curl_slist * list))

typedef struct webhook_calls {
#define CALL(type, name, arguments) type(*name) arguments;
    WEBHOOK_CALLS(CALL)
#undef CALL
} webhook_calls;

struct ec_webhook {
    webhook_calls lib;
    CURL *curl;
    struct curl_slist *headers;
    char url[2048];
};

static size_t webhook_on_data(char *data, size_t size, size_t count, void *arg) {
    (void)data, (void)arg;
    return size * count;
}

static int webhook_load(webhook_calls *ret, ea_err *err) {
    ea_library *library = NULL;
    const char *missing = NULL;
    const void *at;
    int rc = ea_library_open(&library, WEBHOOK_LIBRARY, err);
    if (rc)
        return rc;
#define CALL(type, name, arguments)                                                                                    \
    if (!(at = ea_library_symbol(library, "curl_" #name)))                                                             \
        missing = "curl_" #name;                                                                                       \
    memcpy(&ret->name, &at, sizeof at);
    WEBHOOK_CALLS(CALL)
#undef CALL
    return missing ? ea_fail(err, EA_EUNSUPPORTED, "%s has no %s", WEBHOOK_LIBRARY, missing) : 0;
}

static int webhook_add_header(ec_webhook *w, const char *line, ea_err *err) {
    struct curl_slist *longer = w->lib.slist_append(w->headers, line);
    if (!longer)
        return ea_fail(err, EA_ENOMEM, "prepare libcurl");
    w->headers = longer;
    return 0;
}

/* A line that is no header would be sent as it is, and could end the head. */
static int webhook_add_headers(ec_webhook *w, const char *lines, ea_err *err) {
    static const char NAME[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    char line[EC_WEBHOOK_HEADER_BYTES];
    int count = 0, rc = 0;
    for (const char *at = lines ? lines : ""; *at && !rc;) {
        size_t len = strcspn(at, "\n"), used = len && at[len - 1] == '\r' ? len - 1 : len, name = strspn(at, NAME);
        if (used) {
            if (used >= sizeof line || !name || name >= used || at[name] != ':' || memchr(at, '\r', used) ||
                ++count > EC_WEBHOOK_HEADERS_MAX)
                return ea_fail(err, EA_EUSAGE, "header line %d: expected NAME: VALUE, at most %d lines of %d bytes",
                               count + (count <= EC_WEBHOOK_HEADERS_MAX), EC_WEBHOOK_HEADERS_MAX,
                               EC_WEBHOOK_HEADER_BYTES - 1);
            memcpy(line, at, used);
            line[used] = 0;
            rc = webhook_add_header(w, line, err);
        }
        at += len + (at[len] != 0);
    }
    return rc;
}

/* HOST or HOST:PORT of the URL; NULL: it has none, as where a name or a password before it has / or @, which is part of
 * neither and would be shown as the host. */
static const char *webhook_host(const char *url, size_t *ret_len) {
    const char *host = strstr(url, "://") + 3, *user = memchr(host, '@', strcspn(host, "/?#"));
    host = user ? user + 1 : host;
    size_t name = strcspn(host, *host == '[' ? "]/?#" : ":@/?#");
    if (!name || (*host == '[' && host[name++] != ']'))
        return NULL;
    *ret_len = name + (host[name] == ':' ? 1 + strspn(host + name + 1, "0123456789") : 0);
    return host[*ret_len] && !strchr("/?#", host[*ret_len]) ? NULL : host;
}

int ec_webhook_create(ec_webhook **ret, const ec_webhook_options *options, ea_err *err) {
    size_t len;
    if ((strncasecmp(options->url, "https://", 8) != 0 && strncasecmp(options->url, "http://", 7) != 0) ||
        strlen(options->url) >= sizeof((ec_webhook *)NULL)->url || !webhook_host(options->url, &len))
        return ea_fail(err, EA_EUSAGE, "expected https://HOST/... or http://HOST/... of at most %zu bytes",
                       sizeof((ec_webhook *)NULL)->url - 1); /* the URL itself may have a secret */
    ec_webhook *w = calloc(1, sizeof *w);
    CURLcode bad = CURLE_OK;
    if (!w)
        return ea_fail(err, EA_ENOMEM, "prepare libcurl");
    snprintf(w->url, sizeof w->url, "%s", options->url);
    int rc = webhook_load(&w->lib, err);
    if (rc) {
        free(w);
        return rc;
    }
    if (w->lib.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(w->curl = w->lib.easy_init()))
        rc = ea_fail(err, EA_ENOMEM, "prepare libcurl");
    if (!rc)
        rc = webhook_add_header(w, "Content-Type: application/json", err);
    if (!rc)
        rc = webhook_add_header(w, "Expect:", err); /* no wait for leave to send the body */
    if (!rc)
        rc = webhook_add_headers(w, options->headers, err);
#define SET(option, value)                                                                                             \
    if (!rc && bad == CURLE_OK)                                                                                        \
    bad = w->lib.easy_setopt(w->curl, option, value)
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)WEBHOOK_CONNECT_MS);
    SET(CURLOPT_TIMEOUT_MS, (long)EC_WEBHOOK_ANSWER_MS);
    SET(CURLOPT_USERAGENT, "etwcollector");
    SET(CURLOPT_WRITEFUNCTION, webhook_on_data);
    SET(CURLOPT_URL, w->url);
    SET(CURLOPT_POST, 1L);
    SET(CURLOPT_HTTPHEADER, w->headers);
    if (options->ca) {
        SET(CURLOPT_CAINFO, options->ca);
    }
#undef SET
    if (!rc && bad != CURLE_OK)
        rc = ea_fail(err, EA_EUNSUPPORTED, "prepare libcurl: %s", w->lib.easy_strerror(bad));
    if (rc) {
        ec_webhook_destroy(w);
        return rc;
    }
    *ret = w;
    return 0;
}

void ec_webhook_destroy(ec_webhook *w) {
    if (!w)
        return;
    if (w->curl)
        w->lib.easy_cleanup(w->curl);
    w->lib.slist_free_all(w->headers);
    free(w);
}

/* The URL may have a secret in its path or its query: errors name its host alone. */
static int webhook_failed(ec_webhook *w, int code, const char *text, ea_err *err) {
    size_t len = 0;
    const char *host = webhook_host(w->url, &len);
    return ea_fail(err, code, "send to %.*s: %s", (int)len, host ? host : "", text);
}

int ec_webhook_post(ec_webhook *w, const char *json, size_t len_bytes, ea_err *err) {
    static const long NEVER[] = {400, 413, 415, 422};
    long status = 0;
    char text[64];
    w->lib.easy_setopt(w->curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len_bytes);
    w->lib.easy_setopt(w->curl, CURLOPT_POSTFIELDS, json);
    CURLcode code = w->lib.easy_perform(w->curl);
    if (code != CURLE_OK)
        return webhook_failed(w,
                              code == CURLE_OPERATION_TIMEDOUT                                            ? EA_ETIMEOUT
                              : code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ? EA_ETLS
                                                                                                          : EA_ENET,
                              w->lib.easy_strerror(code), err);
    w->lib.easy_getinfo(w->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200 && status < 300)
        return 0;
    snprintf(text, sizeof text, "the receiver answered with status %ld", status);
    for (size_t i = 0; i < sizeof NEVER / sizeof *NEVER; i++)
        if (status == NEVER[i])
            return webhook_failed(w, EA_EREFUSED, text, err);
    return webhook_failed(w, EA_ENET, text, err);
}
