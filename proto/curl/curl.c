/* See curl.h. */
#include "proto/curl/curl.h"

enum { CURL_CONNECT_MS = 10000 };

int ea_curl_open(ea_curl *ret, ea_err *err) {
    CURLcode bad = CURLE_OK;
    *ret = (ea_curl){.handle = NULL};
    int rc = ea_curl_load(ret, err);
    if (rc)
        return rc;
    if (ret->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(ret->handle = ret->easy_init()))
        return ea_fail(err, EA_ENOMEM, "prepare libcurl");
    EA_CURL_SET(ret, bad, CURLOPT_NOSIGNAL, 1L);
    EA_CURL_SET(ret, bad, CURLOPT_PROTOCOLS_STR, "http,https");
    EA_CURL_SET(ret, bad, CURLOPT_FOLLOWLOCATION, 0L);
    EA_CURL_SET(ret, bad, CURLOPT_SSL_VERIFYPEER, 1L);
    EA_CURL_SET(ret, bad, CURLOPT_SSL_VERIFYHOST, 2L);
    EA_CURL_SET(ret, bad, CURLOPT_CONNECTTIMEOUT_MS, (long)CURL_CONNECT_MS);
#ifdef _WIN32 /* the certificates that the system trusts; elsewhere libcurl's default */
    EA_CURL_SET(ret, bad, CURLOPT_SSL_OPTIONS, (long)CURLSSLOPT_NATIVE_CA);
#endif
    EA_CURL_SET(ret, bad, CURLOPT_USERAGENT, "etwcollector");
    rc = ea_curl_check(ret, bad, err);
    if (rc)
        ea_curl_close(ret);
    return rc;
}

void ea_curl_close(ea_curl *c) {
    if (c->handle)
        c->easy_cleanup(c->handle);
    c->handle = NULL;
}

int ea_curl_check(const ea_curl *c, CURLcode bad, ea_err *err) {
    return bad == CURLE_OK ? 0 : ea_fail(err, EA_EUNSUPPORTED, "prepare libcurl: %s", c->easy_strerror(bad));
}
