/* fuzz_web: inputs are changed by what a request is made of: methods, paths of the route table, parameters and their
 * values, percent-encoding, headers, JSON. Every fourth change is one of bytes. */
#include "collector/web/api.h"
#include "tests/fuzz/web_words.h"

#include <stdint.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { HEAD = 2, ROOM = 512 };

static const char *const METHODS[] = {"GET", "POST", "HEAD", "PUT", "OPTIONS", "get"};
static const char *const PATHS[] = {"/v1/enroll", "/v1/renew", "/api/v1/queries/top-processes-by-cpu",
                                    "/api/v1/queries/who-talks-to", "/api/v1/queries/new-binaries"};
static const char *const PARTS[] = {"web1", "db1", "1", "00000000000000000000000000000001", "%2e%2E", "a%00b",
                                    "%",    "%25", "-"};
static const char *const NAMES[] = {
    "host",          "from",     "to",         "at",          "limit",        "cursor", "sort",
    "descending",    "format",   "q",          "by",          "group",        "class",  "where",
    "order",         "columns",  "pid",        "tid",         "cpu",          "every",  "stream",
    "provider_name", "since",    "hosts",      "address",     "weight",       "names",  "rows",
    "other_from",    "other_to", "other_host", "other_label", "other_weight", "label",  "instance"};
static const char *const VALUES[] = {"",
                                     "web1",
                                     "db1",
                                     "0",
                                     "1",
                                     "-1",
                                     "9223372036854775807",
                                     "-9223372036854775808",
                                     "18446744073709551615",
                                     "9223372036854775807.1",
                                     "5.9223372036854775807",
                                     "2024-05-17T14:03:07Z",
                                     "2024-05-17T14:03:07.123456789Z",
                                     "csv",
                                     "jsonl",
                                     "json",
                                     "pprof",
                                     "folded",
                                     "oldest",
                                     "newest",
                                     "labels.site",
                                     "health",
                                     "1s",
                                     "250ms",
                                     "pid%3D4",
                                     "a%21%3D0x10",
                                     "a%3C%3D2024-05-17T14:03:07Z",
                                     "name~%25_%5C",
                                     "%22%3B--%27",
                                     "10.0.0.0/8",
                                     "host,time,fields",
                                     "begin",
                                     "pmc:x"};
static const char *const HEADERS[] = {"Host: 127.0.0.1",
                                      "Host: localhost:80",
                                      "Host: [::1]:9",
                                      "Host: evil.example",
                                      "Origin: http://127.0.0.1",
                                      "Origin: null",
                                      "Sec-Fetch-Site: cross-site",
                                      "Sec-Fetch-Mode: navigate",
                                      "X-Forwarded-For: 10.0.0.1",
                                      "Accept: application/openmetrics-text",
                                      "Accept-Encoding: gzip",
                                      "If-None-Match: \"x\"",
                                      "Content-Type: application/json",
                                      "Expect: 100-continue",
                                      "Transfer-Encoding: chunked",
                                      "Connection: keep-alive",
                                      "Authorization: Bearer " WEB_TOKEN_READ,
                                      "Authorization: Bearer " WEB_TOKEN_SOME,
                                      "Authorization: Bearer " WEB_TOKEN_METRICS,
                                      "Authorization: Bearer " WEB_TOKEN_ADMIN,
                                      "Authorization: Basic dTplY3RfMDA=",
                                      "Authorization: Bearer ete_00000001_1"};
static const char *const BODIES[] = {"{\"sql\":\"SELECT 1\"}",
                                     "{\"sql\":\"SELECT 1\",\"host\":\"web1\",\"rows\":10,\"format\":\"csv\"}",
                                     "{\"sql\":null,\"rows\":\"18446744073709551615\"}",
                                     "{\"sql\":\"\\u0000\"}",
                                     "[1]",
                                     "{",
                                     "-----BEGIN CERTIFICATE REQUEST-----\nMA==\n-----END CERTIFICATE REQUEST-----\n"};
#define ANY(list, r) ((list)[(r) % (sizeof(list) / sizeof *(list))])

static unsigned next(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

/* Puts text in place of the bytes from begin to end; the input as it was when there is no room. */
static size_t put(uint8_t *data, size_t size, size_t max_size, size_t begin, size_t end, const char *text) {
    size_t n = strlen(text);
    if (size - (end - begin) + n > max_size)
        return size;
    memmove(data + begin + n, data + end, size - end);
    memcpy(data + begin, text, n);
    return size - (end - begin) + n;
}

/* The offset of a character from begin on, at most size. */
static size_t find(const uint8_t *data, size_t size, size_t begin, char c) {
    while (begin < size && data[begin] != (uint8_t)c)
        begin++;
    return begin;
}

/* A path of the route table, with something at each {name}; or one that is not there. */
static void write_path(char out[ROOM], unsigned *state) {
    size_t count = 0, n = 0;
    while (EC_ROUTES[count].path)
        count++;
    size_t which = next(state) % (count + sizeof PATHS / sizeof *PATHS);
    const char *from = which < count ? EC_ROUTES[which].path : PATHS[which - count];
    for (; *from && n < ROOM - 64; from++) {
        if (*from != '{') {
            out[n++] = *from;
            continue;
        }
        n += (size_t)snprintf(out + n, ROOM - n, "%s", ANY(PARTS, next(state)));
        from += strcspn(from, "}");
    }
    out[n] = 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    char text[ROOM];
    unsigned state = seed, kind = next(&state) % 12;
    if (size < HEAD + 1 || kind < 3)
        return LLVMFuzzerMutate(data, size, max_size);
    size_t line = find(data, size, HEAD, '\n'), target = find(data, line, HEAD, ' ');
    size_t query = find(data, line, target, '?');
    switch (kind) {
    case 3: /* server, ending */
        data[next(&state) % HEAD] = (uint8_t)('0' + next(&state) % 16);
        return size;
    case 4:
        return put(data, size, max_size, HEAD, target, ANY(METHODS, next(&state)));
    case 5:
        text[0] = ' ';
        write_path(text + 1, &state);
        return put(data, size, max_size, target, query, text);
    case 6: /* no parameters but one */
        snprintf(text, sizeof text, "?%s=%s", ANY(NAMES, next(&state)), ANY(VALUES, next(&state)));
        return put(data, size, max_size, query, line, text);
    case 7:
    case 8:
        snprintf(text, sizeof text, "%c%s=%s", query < line ? '&' : '?', ANY(NAMES, next(&state)),
                 ANY(VALUES, next(&state)));
        return put(data, size, max_size, line, line, text);
    case 9:
        if (line == HEAD)
            return size;
        size_t at = HEAD + next(&state) % (line - HEAD);
        snprintf(text, sizeof text, "%%%02x", data[at]);
        return put(data, size, max_size, at, at + 1, text);
    case 10:
        snprintf(text, sizeof text, "\n%s", ANY(HEADERS, next(&state)));
        return put(data, size, max_size, line, line, text);
    default: /* the body */
        for (size_t end = line; end + 1 < size; end++)
            if (data[end] == '\n' && data[end + 1] == '\n')
                return put(data, size, max_size, end + 2, size, ANY(BODIES, next(&state)));
        snprintf(text, sizeof text, "\n\n%s", ANY(BODIES, next(&state)));
        return put(data, size, max_size, size, size, text);
    }
}
