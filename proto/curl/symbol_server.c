/* Symbol servers. See symbol_server.h. */
#include "proto/curl/symbol_server.h"

#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "proto/curl/curl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS ((int64_t)1000000000)

enum { REDIRECTS_MAX = 5 };

struct ea_symbol_server {
    ea_symbol_server_options o;
    ea_curl lib;
    char curl_text[CURL_ERROR_SIZE];
    ea_file *file; /* being written */
    uint64_t file_bytes;
    ea_err write_err;
    int is_too_large;
    int is_silent; /* the last attempt */
};

static int is_redirect(ea_symbol_server *s) {
    long status = 0;
    s->lib.easy_getinfo(s->lib.handle, CURLINFO_RESPONSE_CODE, &status);
    return status >= 300 && status < 400;
}

static size_t on_data(char *data, size_t size, size_t count, void *arg) {
    ea_symbol_server *s = arg;
    size_t n = size * count;
    if (s->file_bytes + n > s->o.limit_bytes) {
        s->is_too_large = 1;
        return 0;
    }
    if (!is_redirect(s) && ea_file_write_at(s->file, s->file_bytes, data, n, &s->write_err))
        return 0;
    s->file_bytes += n;
    return n;
}

static int symbol_server_is_stopped(const ea_symbol_server *s) {
    return s->o.stop && atomic_load(s->o.stop);
}

static int symbol_server_on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return symbol_server_is_stopped(arg);
}

int ea_symbol_server_create(ea_symbol_server **ret, const ea_symbol_server_options *options, ea_err *err) {
    ea_symbol_server *s = calloc(1, sizeof *s);
    CURLcode bad = CURLE_OK;
    if (!s)
        return ea_fail(err, EA_ENOMEM, "prepare libcurl");
    int rc = ea_curl_open(&s->lib, err);
    if (rc) {
        free(s);
        return rc;
    }
    s->o = *options; /* redirects: fetch_once judges where to */
    EA_CURL_SET(&s->lib, bad, CURLOPT_ERRORBUFFER, s->curl_text);
    EA_CURL_SET(&s->lib, bad, CURLOPT_LOW_SPEED_LIMIT, 1L);
    EA_CURL_SET(&s->lib, bad, CURLOPT_LOW_SPEED_TIME, (long)((s->o.idle_ns + SECOND_NS - 1) / SECOND_NS));
    EA_CURL_SET(&s->lib, bad, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)s->o.limit_bytes);
    EA_CURL_SET(&s->lib, bad, CURLOPT_WRITEFUNCTION, on_data);
    EA_CURL_SET(&s->lib, bad, CURLOPT_WRITEDATA, s);
    EA_CURL_SET(&s->lib, bad, CURLOPT_NOPROGRESS, 0L);
    EA_CURL_SET(&s->lib, bad, CURLOPT_XFERINFOFUNCTION, symbol_server_on_progress);
    EA_CURL_SET(&s->lib, bad, CURLOPT_XFERINFODATA, s);
    if (s->o.program)
        EA_CURL_SET(&s->lib, bad, CURLOPT_USERAGENT, s->o.program);
    rc = ea_curl_check(&s->lib, bad, err);
    if (rc) {
        ea_symbol_server_destroy(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void ea_symbol_server_destroy(ea_symbol_server *s) {
    if (!s)
        return;
    ea_curl_close(&s->lib);
    free(s);
}

/* What libcurl's failure means. */
static int from_curl(ea_symbol_server *s, CURLcode code, const char *url, ea_err *err) {
    const char *text = s->curl_text[0] ? s->curl_text : s->lib.easy_strerror(code);
    if (s->is_too_large || code == CURLE_FILESIZE_EXCEEDED)
        return ea_fail(err, EA_ELIMIT, "%s is larger than %" PRIu64 " bytes", url, s->o.limit_bytes);
    switch (code) {
    case CURLE_WRITE_ERROR:
        return (ea_fail)(err, s->write_err.code ? s->write_err.code : EA_EIO, "%s", s->write_err.message);
    case CURLE_ABORTED_BY_CALLBACK:
        return ea_fail(err, EA_ECANCELED, "%s: stopped", url);
    case CURLE_OUT_OF_MEMORY:
        return ea_fail(err, EA_ENOMEM, "%s", url);
    case CURLE_OPERATION_TIMEDOUT:
        return ea_fail(err, EA_ETIMEOUT, "%s: %s", url, text);
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return ea_fail(err, EA_ETLS, "%s: %s", url, text);
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        return ea_fail(err, EA_EREFUSED, "%s: %s", url, text);
    default:
        return ea_fail(err, EA_ENET, "%s: %s", url, text);
    }
}

/* Where a URL leads to. Texts are curl's to free (free_place). */
typedef struct place {
    char *scheme, *host, *port;
} place;

static void free_place(ea_symbol_server *s, place *p) {
    s->lib.free(p->scheme);
    s->lib.free(p->host);
    s->lib.free(p->port);
}

static int symbol_server_read_place(ea_symbol_server *s, const char *url, place *ret) {
    place p = {0};
    CURLU *u = s->lib.url();
    int ok = u && s->lib.url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
             s->lib.url_get(u, CURLUPART_SCHEME, &p.scheme, 0) == CURLUE_OK &&
             s->lib.url_get(u, CURLUPART_HOST, &p.host, 0) == CURLUE_OK &&
             s->lib.url_get(u, CURLUPART_PORT, &p.port, CURLU_DEFAULT_PORT) == CURLUE_OK;
    s->lib.url_cleanup(u);
    if (!ok)
        free_place(s, &p);
    else
        *ret = p;
    return ok;
}

static int is_same_host(const char *a, const char *b) {
    while (*a && ea_ascii_lower(*a) == ea_ascii_lower(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

/* A server may send on to any server with https, whose name a certificate proves, and by http to itself alone: who
 * controls it, or the line to it, must not choose what this machine connects to. */
static int check_redirect(ea_symbol_server *s, const char *from, const char *to, ea_err *err) {
    place a = {0}, b = {0};
    int rc = 0;
    if (!symbol_server_read_place(s, from, &a) || !symbol_server_read_place(s, to, &b))
        rc = ea_fail(err, EA_EREFUSED, "%s: the server redirects to an invalid address", from);
    else if (strcmp(b.scheme, "https") != 0 && (strcmp(b.scheme, "http") != 0 || strcmp(a.scheme, "http") != 0 ||
                                                !is_same_host(a.host, b.host) || strcmp(a.port, b.port) != 0))
        rc = ea_fail(err, EA_EREFUSED,
                     "%s: the server redirects to %.20s://%.200s:%.10s; expected https, or http on the same host and "
                     "port",
                     from, b.scheme, b.host, b.port);
    free_place(s, &a);
    free_place(s, &b);
    return rc;
}

/* One request, and those that it is redirected to. CURLE_OK: *ret_status is the last answer's. Otherwise *ret_code, or
 * err when it is CURLE_OK there, says what failed. */
static int perform(ea_symbol_server *s, const char *url, CURLcode *ret_code, long *ret_status, ea_err *err) {
    int64_t deadline = ea_monotonic_ns() + s->o.timeout_ns;
    ea_text at;
    int rc = 0;
    ea_text_init(&at);
    ea_text_str(&at, url);
    *ret_code = CURLE_OK;
    *ret_status = 0;
    for (int i = 0; !rc; i++) {
        char *to = NULL;
        int64_t left_ms = (deadline - ea_monotonic_ns()) / 1000000;
        if (at.failed)
            rc = ea_fail(err, EA_ENOMEM, "%s", url);
        else if (i > REDIRECTS_MAX)
            rc = ea_fail(err, EA_EREFUSED, "%s: the server redirects more than %d times", url, REDIRECTS_MAX);
        if (rc)
            break;
        s->file_bytes = 0;
        s->lib.easy_setopt(s->lib.handle, CURLOPT_TIMEOUT_MS, (long)(left_ms > 0 ? left_ms : 1));
        s->lib.easy_setopt(s->lib.handle, CURLOPT_URL, at.data);
        *ret_code = s->lib.easy_perform(s->lib.handle);
        s->lib.easy_getinfo(s->lib.handle, CURLINFO_RESPONSE_CODE, ret_status);
        if (*ret_code != CURLE_OK || *ret_status < 300 || *ret_status >= 400)
            break;
        s->lib.easy_getinfo(s->lib.handle, CURLINFO_REDIRECT_URL, &to); /* curl's, until the next request */
        if (!to)
            break;
        rc = check_redirect(s, at.data, to, err);
        ea_text_clear(&at);
        ea_text_str(&at, to);
    }
    ea_text_deinit(&at);
    return rc;
}

/* One attempt. *ret_again: another one may have more luck. */
static int fetch_once(ea_symbol_server *s, const char *url, const char *path, int *ret_again, ea_err *err) {
    long status = 0;
    *ret_again = 0;
    s->file_bytes = 0;
    s->is_too_large = 0;
    s->is_silent = 0;
    s->write_err = (ea_err){0};
    s->curl_text[0] = 0;
    int rc = ea_file_open(&s->file, path, EA_OPEN_CREATE, err);
    if (rc)
        return rc;
    CURLcode code = CURLE_OK;
    rc = perform(s, url, &code, &status, err);
    ea_file_close(s->file);
    s->file = NULL;
    if (rc)
        return rc;
    if (code != CURLE_OK) {
        rc = from_curl(s, code, url, err);
        s->is_silent = !status && (rc == EA_ENET || rc == EA_ETIMEOUT || rc == EA_ETLS);
        *ret_again = rc == EA_ENET; /* one that is silent would only be waited for again */
        return rc;
    }
    if (status == 200)
        return 0;
    if (status == 404 || status == 410)
        return ea_fail(err, EA_ENOTFOUND, "%s: %ld", url, status);
    *ret_again = status >= 500 || status == 408 || status == 429;
    return ea_fail(err, *ret_again ? EA_ENET : EA_EREFUSED, "%s: the server answered %ld", url, status);
}

int ea_symbol_server_is_silent(const ea_symbol_server *s) {
    return s->is_silent;
}

static int symbol_server_add_part(ea_symbol_server *s, ea_text *url, const char *part) {
    char *escaped = s->lib.easy_escape(s->lib.handle, part, 0);
    if (!escaped)
        return EA_ENOMEM;
    ea_text_char(url, '/');
    ea_text_str(url, escaped);
    s->lib.free(escaped);
    return 0;
}

int ea_symbol_server_fetch(ea_symbol_server *s, const char *base, const char *name, const char *key, const char *file,
                           const char *path, ea_err *err) {
    ea_text url;
    int again = 1;
    ea_text_init(&url);
    ea_text_str(&url, base);
    int rc = symbol_server_add_part(s, &url, name);
    if (!rc)
        rc = symbol_server_add_part(s, &url, key);
    if (!rc)
        rc = symbol_server_add_part(s, &url, file);
    if (rc || url.failed) {
        ea_text_deinit(&url);
        return ea_fail(err, EA_ENOMEM, "ask %s", base);
    }
    int64_t pause_ns = s->o.pause_ns, deadline = ea_monotonic_ns() + s->o.timeout_ns;
    for (unsigned i = 0; again && i < s->o.attempts && !symbol_server_is_stopped(s) && ea_monotonic_ns() < deadline;
         i++) {
        if (i) {
            ea_sleep_ns(pause_ns);
            pause_ns *= 2;
        }
        rc = fetch_once(s, url.data, path, &again, err);
    }
    ea_text_deinit(&url);
    return rc;
}
