/* libcurl, loaded when it is needed. See curl.h. */
#include "proto/base/platform.h"
#include "proto/curl/curl.h"

#include <string.h>

static const char CURL_LIBRARY[] = "libcurl.so.4";

/* The library stays loaded: it has threads and memory of its own. */
int ea_curl_load(ea_curl *ret, ea_err *err) {
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
    EA_CURL_CALLS(CALL)
#undef CALL
    return missing ? ea_fail(err, EA_EUNSUPPORTED, "%s has no %s", CURL_LIBRARY, missing) : 0;
}
