/* Why a request of libcurl failed, as a sentence with host and port.
 * Called by: sender.c, enroll_client.c. Thread: any (one that uses the handle). */
#ifndef EA_SHIP_CURL_REASON_H
#define EA_SHIP_CURL_REASON_H

#include <curl/curl.h>
#include <stddef.h>

enum { EA_CURL_REASON_BYTES = 512 };

/* Writes the reason to out (EA_CURL_REASON_BYTES). text: libcurl's own sentence (CURLOPT_ERRORBUFFER), "" when there is
 * none. It has no time in it, so that repeated reasons are equal. Returns out. */
const char *ea_curl_reason(CURL *handle, CURLcode code, const char *url, const char *text, char *out);

#endif
