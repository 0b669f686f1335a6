/* A connection of libcurl. Elsewhere than on Windows libcurl is loaded when the first one is opened: its 26 libraries
 * would be half of what it takes to start the collector, which starts again for each question of a user.
 * Called by: symbol_server.c, webhook.c, syslog.c, mail.c. Calls: libcurl. Thread: its owner's. */
#ifndef EA_CURL_CURL_H
#define EA_CURL_CURL_H

#include "proto/base/err.h"

#include <curl/curl.h>

#define EA_CURL_CALLS(X)                                                                                               \
    X(CURLcode, global_init, (long flags))                                                                             \
    X(CURL *, easy_init, (void))                                                                                       \
    X(void, easy_cleanup, (CURL * curl))                                                                               \
    X(CURLcode, easy_setopt, (CURL * curl, CURLoption option, ...))                                                    \
    X(CURLcode, easy_getinfo, (CURL * curl, CURLINFO info, ...))                                                       \
    X(CURLcode, easy_perform, (CURL * curl))                                                                           \
    X(CURLcode, easy_send, (CURL * curl, const void *data, size_t len_bytes, size_t *ret))                             \
    X(CURLcode, easy_recv, (CURL * curl, void *data, size_t len_bytes, size_t *ret))                                   \
    X(const char *, easy_strerror, (CURLcode code))                                                                    \
    X(char *, easy_escape, (CURL * curl, const char *text, int len_bytes))                                             \
    X(void, free, (void *data))                                                                                        \
    X(struct curl_slist *, slist_append, (struct curl_slist * list, const char *text))                                 \
    X(void, slist_free_all, (struct curl_slist * list))                                                                \
    X(CURLU *, url, (void))                                                                                            \
    X(void, url_cleanup, (CURLU * url))                                                                                \
    X(CURLUcode, url_set, (CURLU * url, CURLUPart part, const char *text, unsigned flags))                             \
    X(CURLUcode, url_get, (const CURLU *url, CURLUPart part, char **ret, unsigned flags))

typedef struct ea_curl {
    CURL *handle;
#define CALL(type, name, arguments) type(*name) arguments;
    EA_CURL_CALLS(CALL)
#undef CALL
} ea_curl;

/* Sets an option of handle unless an earlier one failed. */
#define EA_CURL_SET(lib, bad, option, value)                                                                           \
    do {                                                                                                               \
        if ((bad) == CURLE_OK)                                                                                         \
            (bad) = (lib)->easy_setopt((lib)->handle, option, value);                                                  \
    } while (0)

/* A connection that checks the server's certificate and name, speaks HTTP and HTTPS alone, follows no redirect, and
 * waits ten seconds for a connection. Errors: EA_ENOTFOUND (no libcurl), EA_EUNSUPPORTED (an older one), EA_ENOMEM;
 * then there is nothing to close. */
EA_MUST_CHECK int ea_curl_open(ea_curl *ret, ea_err *err);
/* One that was not opened is allowed when it is all zeros. */
void ea_curl_close(ea_curl *c);
/* The error of options that could not be set; 0: all were. */
EA_MUST_CHECK int ea_curl_check(const ea_curl *c, CURLcode bad, ea_err *err);

/* The functions of libcurl; curl.c's own. Errors: as of ea_curl_open. */
EA_MUST_CHECK int ea_curl_load(ea_curl *ret, ea_err *err);

#endif
