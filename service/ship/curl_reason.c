/* Reasons of libcurl. See curl_reason.h. */
#include "service/ship/curl_reason.h"
#include "proto/base/platform.h"

#include <stdio.h>
#include <string.h>

/* "... port 1 after 17 ms: ..." would differ each time: without the time, repeated messages are equal and reported
 * once. */
static void drop_time(char *text) {
    char *at = strstr(text, " after ");
    size_t digits = at ? strspn(at + 7, "0123456789") : 0;
    if (digits && strncmp(at + 7 + digits, " ms", 3) == 0)
        memmove(at, at + 7 + digits + 3, strlen(at + 7 + digits + 3) + 1);
}

/* "HOST port PORT" of the URL. */
static void put_peer(const char *url, char *out, size_t out_bytes) {
    char *host = NULL, *port = NULL;
    CURLU *u = curl_url();
    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
        curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK)
        snprintf(out, out_bytes, "%.256s port %.8s", host, port);
    else
        snprintf(out, out_bytes, "the collector");
    curl_free(host);
    curl_free(port);
    curl_url_cleanup(u);
}

/* libcurl names host and port (of a proxy, where there is one), but not the operating system's reason. */
static void put_unconnected(CURL *handle, const char *url, const char *text, char *out) {
    static const char FAILED[] = "Failed to connect to ";
    char peer[300], os_text[128];
    long os_error = 0;
    size_t named = strncmp(text, FAILED, sizeof FAILED - 1) == 0 ? strcspn(text + sizeof FAILED - 1, " ") : 0;
    const char *port = text + sizeof FAILED - 1 + named;
    if (named && strncmp(port, " port ", 6) == 0)
        snprintf(peer, sizeof peer, "%.*s", (int)(named + 6 + strspn(port + 6, "0123456789")),
                 text + sizeof FAILED - 1);
    else
        put_peer(url, peer, sizeof peer);
    (void)curl_easy_getinfo(handle, CURLINFO_OS_ERRNO, &os_error);
    if (os_error)
        ea_os_error_text((int)os_error, os_text, sizeof os_text);
    snprintf(out, EA_CURL_REASON_BYTES, "%s%s: %s", FAILED, peer,
             os_error ? os_text : curl_easy_strerror(CURLE_COULDNT_CONNECT));
}

const char *ea_curl_reason(CURL *handle, CURLcode code, const char *url, const char *text, char *out) {
    char peer[300];
    if (code == CURLE_COULDNT_CONNECT) {
        put_unconnected(handle, url, text, out);
    } else if (strncmp(text, "getpeername() failed", 20) == 0) {
        /* the peer had closed the connection when libcurl looked at it: this is libcurl's first sentence, and the only
         * one that it keeps */
        put_peer(url, peer, sizeof peer);
        snprintf(out, EA_CURL_REASON_BYTES, "%s closed the connection during the TLS handshake: %s", peer,
                 curl_easy_strerror(code));
    } else if (code == CURLE_SEND_ERROR) {
        put_peer(url, peer, sizeof peer);
        snprintf(out, EA_CURL_REASON_BYTES, "%s closed the connection before the request was sent: %s", peer,
                 text[0] ? text : curl_easy_strerror(code));
    } else {
        snprintf(out, EA_CURL_REASON_BYTES, "%s", text[0] ? text : curl_easy_strerror(code));
    }
    drop_time(out);
    return out;
}
