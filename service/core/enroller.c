/* The agent's certificate. See enroller.h. */
#include "service/core/enroller.h"

#include "proto/base/platform.h"
#include "service/core/agent_config.h"
#include "service/core/agent_log.h"
#include "service/ship/enroll_client.h"
#include "service/ship/proxy.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000;

enum { PAUSE_MIN_S = 1, PAUSE_MAX_S = 300, LOOK_S = 60, PROXY_WAIT_S = 5 };

struct ea_enroller {
    char *url, *ca, *proxy, *cert, *key, *name;
    char token_path[EA_AGENT_PATH_BYTES];
    ea_thread *thread;
    atomic_int stop;

    ea_mutex *lock; /* guards what follows */
    ea_cond *changed;
    ea_enroller_status status;

    /* the thread's own */
    int64_t pause_s;      /* after the last failure; 0: none */
    int64_t token_utc_ns; /* when the token's file was changed, as it was tried last; 0: there was none */
};

/* ---- one round ---- */

static int64_t token_changed(const ea_enroller *e) {
    int64_t utc_ns = 0;
    return ea_path_modified(e->token_path, &utc_ns, NULL) ? 0 : utc_ns;
}

/* The proxy that the operating system has for the collector; what it does not say in time is none. */
static void system_proxy(const ea_enroller *e, char out[EA_PROXY_BYTES]) {
    ea_proxies *proxies = NULL;
    ea_err unsaid;
    out[0] = 0;
    if (ea_proxies_open(&proxies, ea_host_proxy, (const char *const *)&e->url, 1, 0, NULL))
        return;
    for (int i = 0; i < PROXY_WAIT_S && !atomic_load(&e->stop); i++)
        if (ea_proxies_get(proxies, 0, SECOND_NS, out, &unsaid))
            break;
    ea_proxies_close(proxies);
}

static int enroller_ask(ea_enroller *e, const char *token, const char *name, ea_err *err) {
    char proxy[EA_PROXY_BYTES] = "";
    if (e->proxy && strcmp(e->proxy, EA_PROXY_SYSTEM) == 0)
        system_proxy(e, proxy);
    else if (e->proxy)
        snprintf(proxy, sizeof proxy, "%s", e->proxy);
    return ea_enroll_ask(&(ea_enroll_options){.url = e->url,
                                              .ca = e->ca,
                                              .proxy = proxy,
                                              .cert = e->cert,
                                              .key = e->key,
                                              .token = token,
                                              .name = name,
                                              .stop = &e->stop},
                         err);
}

/* With the token in its file. has: the certificate that is there is valid. */
static int use_token(ea_enroller *e, const ea_certificate *c, int has, enum ea_enroller_state *ret_state, ea_err *err) {
    char token[EA_ENROLL_TOKEN_MAX], name[EA_CERTIFICATE_NAME_BYTES];
    int rc = ea_enroll_token_read(e->token_path, token, err);
    if (rc)
        return rc;
    /* a renamed machine keeps the name of its certificate */
    ea_enroll_name(e->name ? e->name : has ? c->name : NULL, name);
    rc = enroller_ask(e, token, name, err);
    OPENSSL_cleanse(token, sizeof token);
    if (!rc) {
        *ret_state = EA_ENROLLER_FRESH;
    } else if (rc == EA_EEXIST && has && strcmp(c->name, name) == 0) {
        ea_log_info("the enrolment token in %s is not needed: the certificate of %s is valid", e->token_path, c->name);
        rc = ea_path_remove(e->token_path, err);
    }
    return rc;
}

/* Checks the certificate and the token, and requests a certificate if that is due. *ret_wait_s: until the next round.
 */
static int round_once(ea_enroller *e, ea_enroller_status *ret, int64_t *ret_wait_s, ea_err *err) {
    ea_certificate c = {.name = ""};
    ea_err unread;
    int64_t now_s = ea_utc_ns() / SECOND_NS;
    int found = ea_certificate_read(e->cert, &c, &unread) == 0;
    int has = found && ea_path_exists(e->key) && c.not_after_s > now_s;
    int64_t left_s = c.not_after_s - now_s, due_s = left_s - (c.not_after_s - c.not_before_s) / 3;
    *ret = (ea_enroller_status){.state = has ? EA_ENROLLER_HAS : EA_ENROLLER_WANTS, .not_after_s = c.not_after_s};
    *ret_wait_s = LOOK_S;
    e->token_utc_ns = token_changed(e);
    if (e->token_utc_ns)
        return use_token(e, &c, has, &ret->state, err);
    if (!has)
        return found ? ea_fail(err, EA_ENOTFOUND,
                               "the certificate in %s has expired, or has no key: this machine needs a token in %s",
                               e->cert, e->token_path)
                     : ea_fail(err, EA_ENOTFOUND, "there is no certificate in %s and no token in %s", e->cert,
                               e->token_path);
    if (due_s > 0) {
        if (due_s < LOOK_S)
            *ret_wait_s = due_s;
        return 0;
    }
    int rc = enroller_ask(e, NULL, c.name, err);
    if (!rc)
        ret->state = EA_ENROLLER_FRESH;
    return rc;
}

/* ---- the thread ---- */

/* Until a round is due, the token's file is another, or what waits was installed. With the lock. */
static void wait_for_next(ea_enroller *e, int64_t wait_s) EA_REQUIRES(e->lock) {
    ea_mutex_assert_held(e->lock);
    int64_t until = ea_monotonic_ns() + wait_s * SECOND_NS;
    while (!atomic_load(&e->stop)) {
        int fresh = e->status.state == EA_ENROLLER_FRESH;
        if (!fresh && (ea_monotonic_ns() >= until || token_changed(e) != e->token_utc_ns))
            break;
        (void)ea_cond_wait_for(e->changed, e->lock, SECOND_NS / 2);
        if (fresh && e->status.state != EA_ENROLLER_FRESH)
            break;
    }
}

/* The pause after a failure: twice the last one, with a random part, so that machines do not retry at the same moment.
 */
static int64_t enroller_next_pause(ea_enroller *e) {
    uint16_t random = 0;
    e->pause_s = e->pause_s ? e->pause_s * 2 : PAUSE_MIN_S;
    if (e->pause_s > PAUSE_MAX_S)
        e->pause_s = PAUSE_MAX_S;
    if (ea_random_bytes(&random, sizeof random, NULL))
        random = 0;
    return e->pause_s + random % (e->pause_s / 2 + 1);
}

static void enroller_work(void *arg) {
    ea_enroller *e = arg;
    while (!atomic_load(&e->stop)) {
        ea_enroller_status now;
        ea_err err = {0};
        int64_t wait_s = LOOK_S;
        int rc = round_once(e, &now, &wait_s, &err);
        if (rc)
            wait_s = enroller_next_pause(e);
        else
            e->pause_s = 0;
        if (rc)
            now.error = err;
        ea_mutex_lock(e->lock);
        e->status = now;
        wait_for_next(e, wait_s);
        ea_mutex_unlock(e->lock);
    }
}

/* ---- the main thread's ---- */

static char *copy(const char *s, int *failed) {
    size_t n = s ? strlen(s) + 1 : 0;
    char *made = n ? malloc(n) : NULL;
    if (made)
        memcpy(made, s, n);
    *failed |= n && !made;
    return made;
}

int ea_enroller_start(ea_enroller **ret, const ea_shipping_options *o, ea_err *err) {
    ea_enroller *e = calloc(1, sizeof *e);
    int failed = !e, installed = 0;
    if (e) {
        e->url = copy(o->enroll, &failed);
        e->ca = copy(o->ca, &failed);
        e->proxy = copy(o->proxy, &failed);
        e->cert = copy(o->cert, &failed);
        e->key = copy(o->key, &failed);
        e->name = copy(o->enroll_name, &failed);
    }
    int rc =
        failed ? ea_fail(err, EA_ENOMEM, "enroll") : ea_agent_file_path(o->token_file, "token", e->token_path, err);
    if (!rc)
        rc = ea_enroll_install(e->cert, e->key, &installed, err);
    if (!rc)
        rc = ea_mutex_create(&e->lock, err);
    if (!rc)
        rc = ea_cond_create(&e->changed, err);
    if (!rc)
        rc = ea_thread_start(&e->thread, "enroller", enroller_work, e, err);
    if (rc) {
        ea_enroller_stop(e);
        return rc;
    }
    *ret = e;
    return 0;
}

void ea_enroller_stop(ea_enroller *e) {
    if (!e)
        return;
    atomic_store(&e->stop, 1);
    if (e->thread) {
        ea_mutex_lock(e->lock);
        ea_cond_broadcast(e->changed);
        ea_mutex_unlock(e->lock);
        ea_thread_join(e->thread);
    }
    ea_cond_destroy(e->changed);
    ea_mutex_destroy(e->lock);
    free(e->url);
    free(e->ca);
    free(e->proxy);
    free(e->cert);
    free(e->key);
    free(e->name);
    free(e);
}

void ea_enroller_get_status(ea_enroller *e, ea_enroller_status *ret) {
    ea_mutex_lock(e->lock);
    *ret = e->status;
    ea_mutex_unlock(e->lock);
}

void ea_enroller_install(ea_enroller *e) {
    int installed = 0;
    ea_certificate c = {.name = ""};
    ea_err err = {0};
    int rc = ea_enroll_install(e->cert, e->key, &installed, &err);
    if (!rc)
        rc = ea_certificate_read(e->cert, &c, &err);
    if (!rc && ea_path_exists(e->token_path))
        rc = ea_path_remove(e->token_path, &err);
    if (!rc)
        ea_log_info("%s holds a new certificate of %s", e->cert, c.name);
    ea_mutex_lock(e->lock);
    e->status.state = rc ? EA_ENROLLER_WANTS : EA_ENROLLER_HAS;
    e->status.not_after_s = c.not_after_s;
    e->status.error = rc ? err : (ea_err){.code = 0};
    ea_cond_broadcast(e->changed);
    ea_mutex_unlock(e->lock);
}
