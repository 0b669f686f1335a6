/* fuzz_front: inputs are changed by what HTTP is made of (RFC 9112): request lines, headers, lengths of bodies, chunks,
 * pipelined requests, and bodies of uploads, JSON and SQL. A change of the body also sets its length: right, or
 * wrong on purpose. The bytes that replace a TLS handshake, and every fourth input, are changed without regard to HTTP.
 */
#include "proto/wire/ack.h"
#include "tests/fuzz/batch_columns.h"
#include "tests/fuzz/batch_mutator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed);

enum { FLAGS = 1, ROOM = 2048, LINES = 64 };

static const char *const METHODS[] = {"GET",   "POST",  "HEAD",    "PUT", "DELETE", "OPTIONS",
                                      "PATCH", "TRACE", "CONNECT", "get", ""};
static const char *const TARGETS[] = {EA_UPLOAD_PATH,
                                      "/healthz",
                                      "/",
                                      "*",
                                      "/v1/batches?x=y#z",
                                      "/v1/batches/",
                                      "/v1//batches",
                                      "/V1/BATCHES",
                                      "/v1/%62atches",
                                      "/v1/batches%00",
                                      "/%",
                                      "/a/../healthz",
                                      "http://localhost/healthz",
                                      "https://[::1]:9/v1/batches",
                                      "//healthz",
                                      "localhost:443",
                                      "/api/v1/query",
                                      ""};
static const char *const VERSIONS[] = {"HTTP/1.1", "HTTP/1.0",  "HTTP/0.9", "HTTP/2.0",      "HTTP/1.99", "HTTP/-1.1",
                                       "HTTP/1",   "HTTPS/1.1", "http/1.1", "HTTP/1.1 more", ""};
static const char *const HEADERS[] = {"Host: localhost",
                                      "Host: x",
                                      "Host:",
                                      "Content-Type: " EA_UPLOAD_TYPE,
                                      "Content-Type: application/json",
                                      "Content-Type: " EA_UPLOAD_TYPE "; charset=utf-8",
                                      "Content-Length: 0",
                                      "Content-Length: -1",
                                      "Content-Length: +5",
                                      "Content-Length: 5, 5",
                                      "Content-Length: 0x10",
                                      "Content-Length: 1048577",
                                      "Content-Length: 9223372036854775808",
                                      "Content-Length: 18446744073709551616",
                                      "Transfer-Encoding: chunked",
                                      "Transfer-Encoding: gzip, chunked",
                                      "Transfer-Encoding: chunked, identity",
                                      "Transfer-Encoding : chunked",
                                      "Connection: close",
                                      "Connection: keep-alive",
                                      "Connection: upgrade",
                                      "Upgrade: h2c",
                                      "Expect: 100-continue",
                                      "Expect: 200-ok",
                                      "Trailer: Content-Length",
                                      "Content-Encoding: gzip",
                                      EA_UPLOAD_RUN_HEADER ": 00112233445566778899aabbccddeeff",
                                      EA_UPLOAD_RUN_HEADER ": 0",
                                      "X: a\r\n b",
                                      " folded",
                                      ": no name",
                                      "no colon",
                                      "X\t: tab",
                                      "Authorization: Bearer ect_00000001_1",
                                      "Cookie: a=b; c"};
static const char *const SIZES[] = {"0",        "1",  "5",    "ff",         "FFFFFFFFFFFFFFFF", "7fffffffffffffff",
                                    "80000000", "-1", "0x10", "5;name=val", "5 ; \"x\"",        "100001",
                                    "",         "g"};
static const char *const BODIES[] = {"{\"sql\":\"SELECT * FROM events WHERE pid = 4 ORDER BY time\"}",
                                     "{\"sql\":\"SELECT '\\u0000'; DROP TABLE x --\",\"rows\":10}",
                                     "{\"a\":[[[[[[{}]]]]]]}",
                                     "SELECT 1 UNION SELECT 2",
                                     "sql=SELECT+1&format=csv",
                                     "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
                                     "0\r\n\r\n",
                                     ""};
static const char *const WHOLE[] = {"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
                                    "GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                                    "POST " EA_UPLOAD_PATH " HTTP/1.1\r\nHost: x\r\nContent-Type: " EA_UPLOAD_TYPE
                                    "\r\nContent-Length: 5\r\n\r\n\1\0\0\0x",
                                    "POST " EA_UPLOAD_PATH " HTTP/1.1\r\nHost: x\r\nContent-Type: " EA_UPLOAD_TYPE
                                    "\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
                                    "\r\n",
                                    "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"};
#define ANY(list, random) ((list)[batch_random(random) % (sizeof(list) / sizeof *(list))])

/* Puts n bytes where [begin, end) is; size as it was when there is no room. */
static size_t put(uint8_t *data, size_t size, size_t max, size_t begin, size_t end, const void *bytes, size_t n) {
    if (size - (end - begin) + n > max)
        return size;
    memmove(data + begin + n, data + end, size - end);
    if (n)
        memcpy(data + begin, bytes, n);
    return size - (end - begin) + n;
}

static size_t put_text(uint8_t *data, size_t size, size_t max, size_t begin, size_t end, const char *text) {
    return put(data, size, max, begin, end, text, strlen(text));
}

/* The head of the first request: its lines, and where its body begins. */
typedef struct head {
    size_t line[LINES + 1]; /* each line's begin, and the end of the last one */
    size_t count, body;
} head;

static void read_head(const uint8_t *data, size_t size, head *h) {
    size_t at = FLAGS;
    h->count = 0;
    h->line[0] = h->body = FLAGS;
    while (h->count < LINES && at < size) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        size_t next = end ? (size_t)(end - data) + 1 : size;
        int is_blank = next - at <= 2 && (data[at] == '\r' || data[at] == '\n');
        if (is_blank) {
            h->body = next;
            return;
        }
        h->line[++h->count] = at = next;
        h->body = next;
    }
}

static size_t end_of_text(const uint8_t *data, size_t begin, size_t end) {
    while (end > begin && (data[end - 1] == '\n' || data[end - 1] == '\r'))
        end--;
    return end;
}

static int is_header(const uint8_t *data, size_t begin, size_t end, const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < n; i++)
        if (begin + i >= end || ((data[begin + i] ^ (uint8_t)name[i]) & 0xDF) != 0)
            return 0;
    return 1;
}

/* One of the three words of the request line. */
static size_t change_line(uint8_t *data, size_t size, size_t max, const head *h, unsigned *random) {
    size_t begin = h->line[0], end = h->count ? end_of_text(data, begin, h->line[1]) : begin;
    size_t target = begin, version = end;
    while (target < end && data[target] != ' ')
        target++;
    while (version > target && data[version - 1] != ' ')
        version--;
    switch (batch_random(random) % 3) {
    case 0:
        return put_text(data, size, max, begin, target, ANY(METHODS, random));
    case 1:
        return target < version && target + 1 < version
                   ? put_text(data, size, max, target + 1, version - 1, ANY(TARGETS, random))
                   : size;
    default:
        return put_text(data, size, max, version, end, ANY(VERSIONS, random));
    }
}

static size_t change_header(uint8_t *data, size_t size, size_t max, const head *h, unsigned *random) {
    char text[ROOM];
    unsigned kind = batch_random(random) % 8;
    if (!h->count)
        return size;
    size_t which = 1 + batch_random(random) % h->count; /* its line; after the last one: none */
    size_t begin = h->line[which], end = which < h->count ? h->line[which + 1] : begin;
    if (kind == 0)
        return put(data, size, max, begin, end, NULL, 0);
    if (kind == 1 && end - begin < sizeof text) { /* twice */
        memcpy(text, data + begin, end - begin);
        return put(data, size, max, begin, begin, text, end - begin);
    }
    if (kind == 2) { /* long names or values, many of them */
        size_t n = 0, count = 1 + batch_random(random) % 64;
        for (size_t i = 0; i < count && n + 32 < sizeof text; i++)
            n += (size_t)snprintf(text + n, sizeof text - n, "X%zu: %zu\r\n", i, i);
        return put(data, size, max, begin, begin, text, n);
    }
    if (kind == 3) {
        memset(text, 'a', sizeof text);
        return put(data, size, max, begin, begin, text, 1 + batch_random(random) % sizeof text);
    }
    snprintf(text, sizeof text, "%s%s", ANY(HEADERS, random), batch_random(random) % 8 ? "\r\n" : "\n");
    return put_text(data, size, max, begin, kind == 4 ? end : begin, text);
}

/* The header of that name says `value`; it is added when there is none. */
static size_t set_header(uint8_t *data, size_t size, size_t max, const char *name, const char *value) {
    head h;
    char text[ROOM];
    read_head(data, size, &h);
    snprintf(text, sizeof text, "%s: %s\r\n", name, value);
    for (size_t i = 1; i < h.count; i++)
        if (is_header(data, h.line[i], h.line[i + 1], name))
            return put_text(data, size, max, h.line[i], h.line[i + 1], text);
    return h.count ? put_text(data, size, max, h.line[h.count], h.line[h.count], text) : size;
}

static size_t remove_header(uint8_t *data, size_t size, size_t max, const char *name) {
    head h;
    read_head(data, size, &h);
    for (size_t i = 1; i < h.count; i++)
        if (is_header(data, h.line[i], h.line[i + 1], name))
            return put(data, size, max, h.line[i], h.line[i + 1], NULL, 0);
    return size;
}

/* The length that the body has, or nearly so. */
static size_t set_length(uint8_t *data, size_t size, size_t max, unsigned *random) {
    head h;
    char text[32];
    read_head(data, size, &h);
    long long n = (long long)(size - h.body);
    if (batch_random(random) % 4 == 0)
        n += (long long)(batch_random(random) % 9) - 4;
    snprintf(text, sizeof text, "%lld", n);
    return set_header(data, size, max, "Content-Length", text);
}

/* The rest of the input as a body of chunks; one of their sizes may be anything. */
static size_t to_chunks(uint8_t *data, size_t size, size_t max, const head *h, unsigned *random) {
    char line[64];
    size_t n = 0, room = 4 * (size - h->body) + ROOM, at = h->body;
    unsigned wrong = batch_random(random) % 8, trailer = batch_random(random) % 4;
    uint8_t *out = malloc(room);
    if (!out)
        abort();
    for (unsigned i = 0; i < 16 && at < size; i++) {
        size_t piece = 1 + batch_random(random) % (i == 15 ? size - at : (size - at < 64 ? size - at : 64));
        piece = i == 15 ? size - at : piece;
        if (i == wrong)
            snprintf(line, sizeof line, "%s\r\n", ANY(SIZES, random));
        else
            snprintf(line, sizeof line, "%zx\r\n", piece);
        memcpy(out + n, line, strlen(line));
        n += strlen(line);
        memcpy(out + n, data + at, piece);
        n += piece;
        at += piece;
        memcpy(out + n, "\r\n", 2);
        n += 2;
    }
    const char *end = trailer ? "0\r\n\r\n" : batch_random(random) % 2 ? "0\r\nX: y\r\nContent-Length: 3\r\n\r\n" : "";
    memcpy(out + n, end, strlen(end));
    size = put(data, size, max, h->body, size, out, n + strlen(end));
    free(out);
    size = set_header(data, size, max, "Transfer-Encoding", "chunked");
    return batch_random(random) % 4 ? remove_header(data, size, max, "Content-Length") : size;
}

/* One line of the body, as a chunk's size. */
static size_t change_chunk(uint8_t *data, size_t size, size_t max, const head *h, unsigned *random) {
    size_t at = h->body, begin = at;
    for (unsigned lines = batch_random(random) % 8; lines && at < size; lines--) {
        const uint8_t *end = memchr(data + at, '\n', size - at);
        if (!end)
            break;
        begin = at;
        at = (size_t)(end - data) + 1;
    }
    return at > begin ? put_text(data, size, max, begin, end_of_text(data, begin, at), ANY(SIZES, random)) : size;
}

static size_t change_body(uint8_t *data, size_t size, size_t max, const head *h, unsigned *random) {
    uint8_t frame[EA_UPLOAD_FRAME_BYTES];
    unsigned kind = batch_random(random) % 4;
    if (kind == 0) {
        size = put_text(data, size, max, h->body, size, ANY(BODIES, random));
    } else if (kind == 1) { /* the length before its first batch */
        ea_store32(frame, batch_random(random) % 2 ? (uint32_t)(size - h->body) : batch_random(random) % 32);
        size = put(data, size, max, h->body, h->body, frame, sizeof frame);
    } else if (kind == 2 && size - h->body > EA_UPLOAD_FRAME_BYTES) {
        size_t begin = h->body + EA_UPLOAD_FRAME_BYTES, room = max - begin;
        size = begin + batch_mutate(data + begin, size - begin, room, batch_random(random));
        ea_store32(data + h->body, (uint32_t)(size - begin));
    } else if (size > h->body) {
        size = h->body + LLVMFuzzerMutate(data + h->body, size - h->body, max - h->body);
    }
    return set_length(data, size, max, random);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed) {
    unsigned random = seed;
    head h;
    if (size <= FLAGS || batch_random(&random) % 4 == 0 || (!(data[0] & 1) && batch_random(&random) % 8))
        return LLVMFuzzerMutate(data, size, max_size);
    for (unsigned changes = 1 + batch_random(&random) % 3; changes; changes--) {
        read_head(data, size, &h);
        switch (batch_random(&random) % 10) {
        case 0: /* in one piece or two, by an agent */
            data[0] = (uint8_t)(1 | batch_random(&random) % 4);
            break;
        case 1:
        case 2:
            size = change_line(data, size, max_size, &h, &random);
            break;
        case 3:
        case 4:
            size = change_header(data, size, max_size, &h, &random);
            break;
        case 5:
            size = set_length(data, size, max_size, &random);
            break;
        case 6:
            size = to_chunks(data, size, max_size, &h, &random);
            break;
        case 7:
            size = change_chunk(data, size, max_size, &h, &random);
            break;
        case 8:
            size = change_body(data, size, max_size, &h, &random);
            break;
        default: { /* one more request, before it or after it */
            size_t at = batch_random(&random) % 2 ? FLAGS : size;
            size = put_text(data, size, max_size, at, at, ANY(WHOLE, &random));
        }
        }
    }
    return size;
}
