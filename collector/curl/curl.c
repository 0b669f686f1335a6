/* See curl.h. */
#include "collector/curl/curl.h"

#include "proto/base/platform.h"

#include <string.h>

enum { CURL_CONNECT_MS = 10000 };

static const char CURL_LIBRARY[] = "libcurl.so.4";

/* The library stays loaded: it has threads and memory of its own. */
static int curl_load(ec_curl *ret, ea_err *err) {
    ea_library *library = NULL;
    const char *missing = NULL;
    const void *at;
    int rc = ea_library_open(&library, CURL_LIBRARY, err);
    if (rc)
        return rc;
#define CALL(type, name, arguments)                                                                                    \
    if (!(at = ea_library_symbol(library, "curl_" #name)))                                                             \
        missing = "curl_" #name;                                                                                       \
    memcpy(&ret->name, &at, sizeof at);
    EC_CURL_CALLS(CALL)
#undef CALL
    return missing ? ea_fail(err, EA_EUNSUPPORTED, "%s has no %s", CURL_LIBRARY, missing) : 0;
}

int ec_curl_open(ec_curl *ret, ea_err *err) {
    CURLcode bad = CURLE_OK;
    *ret = (ec_curl){.handle = NULL};
    int rc = curl_load(ret, err);
    if (rc)
        return rc;
    if (ret->global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(ret->handle = ret->easy_init()))
        return ea_fail(err, EA_ENOMEM, "prepare libcurl");
    EC_CURL_SET(ret, bad, CURLOPT_NOSIGNAL, 1L);
    EC_CURL_SET(ret, bad, CURLOPT_PROTOCOLS_STR, "http,https");
    EC_CURL_SET(ret, bad, CURLOPT_FOLLOWLOCATION, 0L);
    EC_CURL_SET(ret, bad, CURLOPT_SSL_VERIFYPEER, 1L);
    EC_CURL_SET(ret, bad, CURLOPT_SSL_VERIFYHOST, 2L);
    EC_CURL_SET(ret, bad, CURLOPT_CONNECTTIMEOUT_MS, (long)CURL_CONNECT_MS);
    EC_CURL_SET(ret, bad, CURLOPT_USERAGENT, "etwcollector");
    rc = ec_curl_check(ret, bad, err);
    if (rc)
        ec_curl_close(ret);
    return rc;
}

void ec_curl_close(ec_curl *c) {
    if (c->handle)
        c->easy_cleanup(c->handle);
    c->handle = NULL;
}

int ec_curl_check(const ec_curl *c, CURLcode bad, ea_err *err) {
    return bad == CURLE_OK ? 0 : ea_fail(err, EA_EUNSUPPORTED, "prepare libcurl: %s", c->easy_strerror(bad));
}
