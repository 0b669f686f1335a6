/* See webhook.h. */
#include "collector/curl/webhook.h"

#include "proto/base/text.h"
#include "proto/curl/curl.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct ec_webhook {
    ea_curl lib;
    struct curl_slist *headers;
    size_t answer_max_bytes;
    const atomic_int *stop;
    ea_text answer;
    int is_too_large; /* the answer */
    char url[2048];
};

/* libcurl gives at most CURL_MAX_WRITE_SIZE at a time. */
static size_t webhook_on_data(char *data, size_t size, size_t count, void *arg) {
    ec_webhook *w = arg;
    size_t len = size * count;
    if (!w->answer_max_bytes)
        return len;
    if (len > w->answer_max_bytes - w->answer.len_bytes) {
        w->is_too_large = 1;
        return 0;
    }
    ea_text_add(&w->answer, data, len);
    return w->answer.failed ? 0 : len;
}

static int webhook_on_progress(void *arg, curl_off_t down_bytes, curl_off_t down_now, curl_off_t up_bytes,
                               curl_off_t up_now) {
    const ec_webhook *w = arg;
    (void)down_bytes, (void)down_now, (void)up_bytes, (void)up_now;
    return w->stop && atomic_load(w->stop);
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
    char type[128];
    if ((strncasecmp(options->url, "https://", 8) != 0 && strncasecmp(options->url, "http://", 7) != 0) ||
        strlen(options->url) >= sizeof((ec_webhook *)NULL)->url || !webhook_host(options->url, &len))
        return ea_fail(err, EA_EUSAGE, "expected https://HOST/... or http://HOST/... of at most %zu bytes",
                       sizeof((ec_webhook *)NULL)->url - 1); /* the URL itself may have a secret */
    ec_webhook *w = calloc(1, sizeof *w);
    CURLcode bad = CURLE_OK;
    if (!w)
        return ea_fail(err, EA_ENOMEM, "prepare libcurl");
    snprintf(w->url, sizeof w->url, "%s", options->url);
    int rc = ea_curl_open(&w->lib, err);
    if (rc) {
        free(w);
        return rc;
    }
    w->answer_max_bytes = options->answer_max_bytes;
    w->stop = options->stop;
    ea_text_init(&w->answer);
    snprintf(type, sizeof type, "Content-Type: %s", options->type ? options->type : "application/json");
    rc = webhook_add_header(w, type, err);
    if (!rc)
        rc = webhook_add_header(w, "Expect:", err); /* no wait for leave to send the body */
    if (!rc)
        rc = webhook_add_headers(w, options->headers, err);
    EA_CURL_SET(&w->lib, bad, CURLOPT_TIMEOUT_MS,
                (long)(options->answer_ms ? options->answer_ms : EC_WEBHOOK_ANSWER_MS));
    EA_CURL_SET(&w->lib, bad, CURLOPT_WRITEFUNCTION, webhook_on_data);
    EA_CURL_SET(&w->lib, bad, CURLOPT_WRITEDATA, w);
    EA_CURL_SET(&w->lib, bad, CURLOPT_XFERINFOFUNCTION, webhook_on_progress);
    EA_CURL_SET(&w->lib, bad, CURLOPT_XFERINFODATA, w);
    EA_CURL_SET(&w->lib, bad, CURLOPT_NOPROGRESS, 0L);
    EA_CURL_SET(&w->lib, bad, CURLOPT_URL, w->url);
    EA_CURL_SET(&w->lib, bad, CURLOPT_POST, 1L);
    EA_CURL_SET(&w->lib, bad, CURLOPT_HTTPHEADER, w->headers);
    if (options->ca)
        EA_CURL_SET(&w->lib, bad, CURLOPT_CAINFO, options->ca);
    if (options->has_cookies)
        EA_CURL_SET(&w->lib, bad, CURLOPT_COOKIEFILE, ""); /* of no file */
    if (!rc)
        rc = ea_curl_check(&w->lib, bad, err);
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
    ea_curl_close(&w->lib);
    w->lib.slist_free_all(w->headers);
    ea_text_deinit(&w->answer);
    free(w);
}

/* The URL may have a secret in its path or its query: errors name its host alone. */
static int webhook_failed(ec_webhook *w, int code, const char *text, ea_err *err) {
    size_t len = 0;
    const char *host = webhook_host(w->url, &len);
    return ea_fail(err, code, "send to %.*s: %s", (int)len, host ? host : "", text);
}

int ec_webhook_send(ec_webhook *w, const char *text, size_t len_bytes, ec_webhook_answer *ret, ea_err *err) {
    long status = 0;
    curl_off_t after_s = 0;
    ea_text_clear(&w->answer);
    w->is_too_large = 0;
    w->lib.easy_setopt(w->lib.handle, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len_bytes);
    w->lib.easy_setopt(w->lib.handle, CURLOPT_POSTFIELDS, text);
    CURLcode code = w->lib.easy_perform(w->lib.handle);
    if (w->answer.failed)
        return ea_fail(err, EA_ENOMEM, "read an answer");
    if (code == CURLE_ABORTED_BY_CALLBACK)
        return ea_fail(err, EA_ECANCELED, "send a request");
    if (w->is_too_large)
        return webhook_failed(w, EA_ELIMIT, "the answer is too large", err);
    if (code != CURLE_OK)
        return webhook_failed(w,
                              code == CURLE_OPERATION_TIMEDOUT                                            ? EA_ETIMEOUT
                              : code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ? EA_ETLS
                                                                                                          : EA_ENET,
                              w->lib.easy_strerror(code), err);
    w->lib.easy_getinfo(w->lib.handle, CURLINFO_RESPONSE_CODE, &status);
    w->lib.easy_getinfo(w->lib.handle, CURLINFO_RETRY_AFTER, &after_s);
    *ret = (ec_webhook_answer){.status = status,
                               .retry_after_s = after_s > 0 ? after_s : 0,
                               .data = w->answer.len_bytes ? w->answer.data : "",
                               .len_bytes = w->answer.len_bytes};
    return 0;
}

int ec_webhook_turn(ec_webhook *w, const char *url, ea_err *err) {
    CURLcode bad = CURLE_OK;
    EA_CURL_SET(&w->lib, bad, CURLOPT_URL, url); /* which it copies */
    return bad == CURLE_OK ? 0 : ea_fail(err, EA_ENOMEM, "prepare a request");
}

int ec_webhook_post(ec_webhook *w, const char *json, size_t len_bytes, ea_err *err) {
    static const long NEVER[] = {400, 413, 415, 422};
    ec_webhook_answer answer;
    char text[64];
    int rc = ec_webhook_send(w, json, len_bytes, &answer, err);
    if (rc || (answer.status >= 200 && answer.status < 300))
        return rc;
    snprintf(text, sizeof text, "the receiver answered with status %ld", answer.status);
    for (size_t i = 0; i < sizeof NEVER / sizeof *NEVER; i++)
        if (answer.status == NEVER[i])
            return webhook_failed(w, EA_EREFUSED, text, err);
    return webhook_failed(w, EA_ENET, text, err);
}

const char *ec_webhook_receiver(const ec_webhook *w, size_t *ret_len_bytes) {
    return webhook_host(w->url, ret_len_bytes);
}
