/* See visit.h. */
#include "collector/access/visit.h"

#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANDOM_BYTES = 32, HEX = 2 * RANDOM_BYTES };

_Static_assert(HEX + 1 == EC_VISIT_SECRET_BYTES, "a secret fits");

struct ec_visit {
    char ticket[EC_VISIT_SECRET_BYTES], cookie[EC_VISIT_SECRET_BYTES];
    atomic_int is_used;
    int64_t until_ns;  /* the ticket's end */
    uint32_t users[2]; /* this process's, and the one who typed sudo */
};

static int make_secret(char *ret, ea_err *err) {
    uint8_t random[RANDOM_BYTES];
    int rc = ea_random_bytes(random, sizeof random, err);
    for (size_t i = 0; !rc && i < sizeof random; i++)
        snprintf(ret + 2 * i, 3, "%02x", random[i]);
    OPENSSL_cleanse(random, sizeof random);
    return rc;
}

int ec_visit_create(ec_visit **ret, int64_t until_ns, ea_err *err) {
    ec_visit *v = calloc(1, sizeof *v);
    int rc = v ? make_secret(v->ticket, err) : ea_fail(err, EA_ENOMEM, "make a ticket");
    if (!rc)
        rc = make_secret(v->cookie, err);
    if (rc) {
        ec_visit_destroy(v);
        return rc;
    }
    v->until_ns = until_ns;
    uint64_t user;
    const char *sudo = geteuid() == 0 ? getenv("SUDO_UID") : NULL;
    v->users[0] = v->users[1] = geteuid();
    if (sudo && !ea_u64_parse(sudo, &user) && user <= UINT32_MAX)
        v->users[1] = (uint32_t)user;
    *ret = v;
    return 0;
}

void ec_visit_destroy(ec_visit *v) {
    if (v)
        OPENSSL_cleanse(v, sizeof *v);
    free(v);
}

const char *ec_visit_ticket(const ec_visit *v) {
    return v->ticket;
}

static int cookie_name(char *ret, size_t room, uint16_t port) {
    return snprintf(ret, room, "etwcollector_%u", port);
}

int ec_visit_may_be(const ec_visit *v, uint32_t user) {
    return !user || user == v->users[0] || user == v->users[1];
}

int ec_visit_is_right(const ec_visit *v, const char *ticket, int64_t now_ns) {
    return !atomic_load(&v->is_used) && now_ns < v->until_ns && strlen(ticket) == HEX &&
           CRYPTO_memcmp(ticket, v->ticket, HEX) == 0;
}

int ec_visit_has_expired(const ec_visit *v, int64_t now_ns) {
    return now_ns >= v->until_ns && !atomic_load(&v->is_used);
}

int ec_visit_redeem(ec_visit *v, const char *ticket, int64_t now_ns, uint16_t port,
                    char ret_cookie[EC_VISIT_COOKIE_BYTES]) {
    char name[32];
    if (!ec_visit_is_right(v, ticket, now_ns))
        return 0;
    atomic_store(&v->is_used, 1);
    cookie_name(name, sizeof name, port);
    snprintf(ret_cookie, EC_VISIT_COOKIE_BYTES, "%s=%s; Path=/; HttpOnly; SameSite=Strict", name, v->cookie);
    return 1;
}

int ec_visit_has_cookie(const ec_visit *v, const char *header, uint16_t port) {
    char name[32];
    size_t n = (size_t)cookie_name(name, sizeof name, port);
    for (const char *at = header; atomic_load(&v->is_used) && at && *at; at += strcspn(at, ";"), at += *at == ';') {
        at += strspn(at, " ");
        if (strncmp(at, name, n) == 0 && at[n] == '=' && strcspn(at + n + 1, "; ") == HEX &&
            CRYPTO_memcmp(at + n + 1, v->cookie, HEX) == 0)
            return 1;
    }
    return 0;
}
