/* See mail.h. */
#include "collector/detect/mail.h"

#include "collector/detect/receiver_address.h"
#include "proto/curl/curl.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const ec_receiver_way WAYS[] = {{"smtps://", "465"}, {"smtp://", "587"}};

enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS, LINE_BYTES = 57 /* of a text: 76 of base64 */ };

struct ec_mail {
    ea_curl lib;
    ec_receiver_address at;
    struct curl_slist *recipients;
    char from[EC_MAIL_ADDRESS_MAX + 3]; /* in angle brackets */
    char name[EC_MAIL_LOGIN_MAX + 1], password[EC_MAIL_LOGIN_MAX + 1];
    const char *left; /* of the mail that is sent */
    size_t left_bytes;
};

int ec_mail_is_url(const char *url) {
    return ec_receiver_way_of(WAYS, WAY_COUNT, url) < WAY_COUNT;
}

/* LOCAL@DOMAIN of printable ASCII, without what would end it in a command or a header. */
static int is_address(const char *at, size_t len) {
    const char *sign = memchr(at, '@', len);
    if (!len || len > EC_MAIL_ADDRESS_MAX || !sign || sign == at || sign == at + len - 1)
        return 0;
    for (size_t i = 0; i < len; i++)
        if (at[i] <= ' ' || at[i] > '~' || strchr("<>()[],;:\\\"", at[i]) || (at[i] == '@' && at + i != sign))
            return 0;
    return 1;
}

static int add_recipients(ec_mail *m, const char *lines, ea_err *err) {
    char address[EC_MAIL_ADDRESS_MAX + 3];
    int count = 0;
    for (const char *at = lines; *at;) {
        size_t len = strcspn(at, "\n");
        if (!is_address(at, len) || ++count > EC_MAIL_RECIPIENTS_MAX)
            return ea_fail(err, EA_EUSAGE, "expected --mail-to NAME@DOMAIN, at most %d times", EC_MAIL_RECIPIENTS_MAX);
        snprintf(address, sizeof address, "<%.*s>", (int)len, at);
        struct curl_slist *longer = m->lib.slist_append(m->recipients, address);
        if (!longer)
            return ea_fail(err, EA_ENOMEM, "prepare libcurl");
        m->recipients = longer;
        at += len + (at[len] != 0);
    }
    return count ? 0 : ea_fail(err, EA_EUSAGE, "expected --mail-to NAME@DOMAIN: the mails have no recipient");
}

/* The next line of a login. 0: there is none, or it is too long. */
static int mail_take_line(const char **at, char ret[EC_MAIL_LOGIN_MAX + 1]) {
    size_t len = strcspn(*at, "\n"), used = len && (*at)[len - 1] == '\r' ? len - 1 : len;
    if (!used || used > EC_MAIL_LOGIN_MAX || memchr(*at, '\r', used))
        return 0;
    memcpy(ret, *at, used);
    ret[used] = 0;
    *at += len + ((*at)[len] != 0);
    return 1;
}

static int take_login(ec_mail *m, const char *login, ea_err *err) {
    const char *at = login;
    return !login || (mail_take_line(&at, m->name) && mail_take_line(&at, m->password) && !*at)
               ? 0
               : ea_fail(err, EA_EUSAGE, "the login file: expected a line with the name and one with the password");
}

static size_t mail_on_read(char *to, size_t size, size_t count, void *arg) {
    ec_mail *m = arg;
    size_t room = size * count, n = m->left_bytes < room ? m->left_bytes : room;
    if (n)
        memcpy(to, m->left, n);
    m->left += n;
    m->left_bytes -= n;
    return n;
}

static int set_options(ec_mail *m, const ec_mail_options *o, size_t way, ea_err *err) {
    char url[EC_RECEIVER_HOST_BYTES + 32];
    CURLcode bad = CURLE_OK;
    int needs_tls = !ec_receiver_is_local(&m->at);
    snprintf(url, sizeof url, "%s%s%s%s:%s/", WAYS[way].scheme, m->at.is_v6 ? "[" : "", m->at.host,
             m->at.is_v6 ? "]" : "", m->at.port);
    EA_CURL_SET(&m->lib, bad, CURLOPT_PROTOCOLS_STR, "smtp,smtps");
    EA_CURL_SET(&m->lib, bad, CURLOPT_URL, url);
    EA_CURL_SET(&m->lib, bad, CURLOPT_PROXY, ""); /* one of HTTP is none of SMTP */
    EA_CURL_SET(&m->lib, bad, CURLOPT_USE_SSL, (long)(needs_tls ? CURLUSESSL_ALL : CURLUSESSL_NONE));
    EA_CURL_SET(&m->lib, bad, CURLOPT_MAIL_FROM, m->from);
    EA_CURL_SET(&m->lib, bad, CURLOPT_MAIL_RCPT, m->recipients);
    EA_CURL_SET(&m->lib, bad, CURLOPT_UPLOAD, 1L);
    EA_CURL_SET(&m->lib, bad, CURLOPT_READFUNCTION, mail_on_read);
    EA_CURL_SET(&m->lib, bad, CURLOPT_READDATA, m);
    EA_CURL_SET(&m->lib, bad, CURLOPT_TIMEOUT_MS, (long)EC_MAIL_WAIT_MS);
    EA_CURL_SET(&m->lib, bad, CURLOPT_FORBID_REUSE, 1L);
    if (*m->name) {
        EA_CURL_SET(&m->lib, bad, CURLOPT_USERNAME, m->name);
        EA_CURL_SET(&m->lib, bad, CURLOPT_PASSWORD, m->password);
    }
    if (o->ca)
        EA_CURL_SET(&m->lib, bad, CURLOPT_CAINFO, o->ca);
    return ea_curl_check(&m->lib, bad, err);
}

int ec_mail_create(ec_mail **ret, const ec_mail_options *o, ea_err *err) {
    size_t way = ec_receiver_way_of(WAYS, WAY_COUNT, o->url);
    ec_mail *m = calloc(1, sizeof *m);
    if (!m)
        return ea_fail(err, EA_ENOMEM, "prepare libcurl");
    int rc = way < WAY_COUNT && ec_receiver_address_read(o->url + strlen(WAYS[way].scheme), WAYS[way].port, &m->at)
                 ? 0
                 : ea_fail(err, EA_EUSAGE, "expected smtp://HOST:PORT or smtps://HOST:PORT");
    if (!rc && !is_address(o->from, strlen(o->from)))
        rc = ea_fail(err, EA_EUSAGE, "expected --mail-from NAME@DOMAIN");
    if (!rc)
        rc = take_login(m, o->login, err);
    if (!rc)
        rc = ea_curl_open(&m->lib, err);
    if (!rc)
        rc = add_recipients(m, o->recipients, err);
    if (!rc) {
        snprintf(m->from, sizeof m->from, "<%s>", o->from);
        rc = set_options(m, o, way, err);
    }
    if (rc)
        ec_mail_destroy(m);
    else
        *ret = m;
    return rc;
}

void ec_mail_destroy(ec_mail *m) {
    if (!m)
        return;
    struct curl_slist *recipients = m->recipients;
    ea_curl_close(&m->lib);
    if (recipients)
        m->lib.slist_free_all(recipients);
    free(m);
}

/* The answer to a whole mail is about the mail. The same number before it, as the greeting or for a recipient, is about
 * the sender's rights or the server, and may be another one later. */
int ec_mail_send(ec_mail *m, const char *message, size_t len_bytes, ea_err *err) {
    long answer = 0;
    m->left = message;
    m->left_bytes = len_bytes;
    m->lib.easy_setopt(m->lib.handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)len_bytes);
    CURLcode code = m->lib.easy_perform(m->lib.handle);
    if (code == CURLE_OK)
        return 0;
    m->lib.easy_getinfo(m->lib.handle, CURLINFO_RESPONSE_CODE, &answer);
    return ea_fail(err,
                   code == CURLE_OPERATION_TIMEDOUT ? EA_ETIMEOUT
                   : code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ||
                           code == CURLE_USE_SSL_FAILED
                       ? EA_ETLS
                   : (answer == 552 || answer == 554) && !m->left_bytes ? EA_EREFUSED
                                                                        : EA_ENET,
                   "send to %.255s port %s: %s (the server's last answer: %ld)", m->at.host, m->at.port,
                   m->lib.easy_strerror(code), answer);
}

/* ---- messages ---- */

static void add_base64(ea_text *t, const char *text, size_t len_bytes) {
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < len_bytes; i += 3) {
        size_t n = len_bytes - i < 3 ? len_bytes - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (k < n ? (uint8_t)text[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            ea_text_char(t, k <= n ? DIGITS[bits >> (18 - 6 * k) & 63] : '=');
        if ((i + 3) % LINE_BYTES == 0)
            ea_text_str(t, "\r\n");
    }
    ea_text_str(t, "\r\n");
}

/* RFC 5322, in UTC. */
static void add_date(ea_text *t, int64_t utc_ns) {
    static const char *const DAYS[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char *const MONTHS[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t seconds = (time_t)(utc_ns / 1000000000);
    struct tm tm = {0};
    gmtime_r(&seconds, &tm);
    ea_text_printf(t, "Date: %s, %02d %s %d %02d:%02d:%02d +0000\r\n", DAYS[tm.tm_wday], tm.tm_mday, MONTHS[tm.tm_mon],
                   tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
}

void ec_mail_message(ea_text *t, const char *from, const char *recipients, const char *subject, uint64_t number,
                     int64_t utc_ns, const char *text, size_t len_bytes) {
    const char *domain = strrchr(from, '@');
    ea_text_clear(t);
    ea_text_printf(t, "From: <%s>\r\nTo: ", from);
    for (const char *at = recipients; *at;) {
        size_t len = strcspn(at, "\n");
        ea_text_printf(t, "%s<%.*s>", at == recipients ? "" : ",\r\n ", (int)len, at);
        at += len + (at[len] != 0);
    }
    ea_text_printf(t, "\r\nSubject: %s\r\n", subject);
    add_date(t, utc_ns);
    ea_text_printf(t, "Message-ID: <%" PRIu64 ".%" PRId64 ".etwcollector%s>\r\n", number, utc_ns,
                   domain ? domain : "@localhost");
    ea_text_str(t, "MIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"
                   "Content-Transfer-Encoding: base64\r\nAuto-Submitted: auto-generated\r\n\r\n");
    add_base64(t, text, len_bytes);
}
