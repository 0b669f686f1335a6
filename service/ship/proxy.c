/* Proxies of the operating system. See proxy.h. */
#include "service/ship/proxy.h"
#include "proto/base/platform.h"

#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000;

enum { AGAIN_SECONDS = 600, DOUBT_SECONDS = 15, LOOK_SECONDS = 3, LEAVE_SECONDS = 1 };

typedef struct answer {
    char *url;
    int is_known;
    char proxy[EA_PROXY_BYTES];
} answer;

struct ea_proxies {
    ea_proxy_ask ask;
    int64_t doubt_ns;
    ea_thread *thread;
    ea_mutex *lock;
    ea_cond *changed;
    /* lock */
    answer *answers;
    size_t count;
    ea_err error;
    int doubted, closing, begun, ended;
    int is_left; /* its owner has closed it: the thread frees it */
};

static void free_all(ea_proxies *p) {
    for (size_t i = 0; i < p->count; i++)
        free(p->answers[i].url);
    free(p->answers);
    ea_cond_destroy(p->changed);
    ea_mutex_destroy(p->lock);
    free(p);
}

/* Asks for the proxy of each URL once. The caller holds `lock`; the function releases it meanwhile and takes it again.
 */
static void ask_all(ea_proxies *p) EA_REQUIRES(p->lock) {
    ea_mutex_assert_held(p->lock);
    ea_err error = {0};
    for (size_t i = 0; i < p->count && !p->closing; i++) {
        char proxy[EA_PROXY_BYTES] = "";
        ea_err err = {0};
        ea_mutex_unlock(p->lock);
        int rc = p->ask(p->answers[i].url, proxy, &err);
        ea_mutex_lock(p->lock);
        if (rc)
            error = err;
        else
            memcpy(p->answers[i].proxy, proxy, sizeof proxy);
        p->answers[i].is_known = 1;
        ea_cond_broadcast(p->changed);
    }
    p->error = error;
}

/* Until something asks for another round. With the lock. */
static void wait_for_reason(ea_proxies *p, ea_network_watch *watch) EA_REQUIRES(p->lock) {
    ea_mutex_assert_held(p->lock);
    int64_t since = ea_monotonic_ns();
    while (!p->closing) {
        int64_t age = ea_monotonic_ns() - since;
        if (age >= AGAIN_SECONDS * SECOND_NS || (p->doubted && age >= p->doubt_ns) || ea_network_watch_changed(watch))
            return;
        ea_cond_wait_for(p->changed, p->lock,
                         p->doubted && p->doubt_ns > age ? p->doubt_ns - age : LOOK_SECONDS * SECOND_NS);
    }
}

static void proxy_thread_main(void *arg) {
    ea_proxies *p = arg;
    ea_network_watch *watch = ea_network_watch_open();
    ea_mutex_lock(p->lock);
    p->begun = 1;
    ea_cond_broadcast(p->changed);
    while (!p->closing) {
        p->doubted = 0;
        ask_all(p);
        wait_for_reason(p, watch);
    }
    ea_mutex_unlock(p->lock);
    ea_network_watch_close(watch);
    ea_mutex_lock(p->lock);
    p->ended = 1;
    int mine = p->is_left;
    ea_cond_broadcast(p->changed);
    ea_mutex_unlock(p->lock);
    if (mine)
        free_all(p);
}

int ea_proxies_open(ea_proxies **ret, ea_proxy_ask ask, const char *const *urls, size_t count, int64_t doubt_ns,
                    ea_err *err) {
    static const char WHAT[] = "ask for proxies";
    ea_proxies *p = calloc(1, sizeof *p);
    if (!p)
        return ea_fail(err, EA_ENOMEM, WHAT);
    p->ask = ask;
    p->doubt_ns = doubt_ns ? doubt_ns : DOUBT_SECONDS * SECOND_NS;
    p->answers = calloc(count, sizeof *p->answers);
    int rc = p->answers ? 0 : ea_fail(err, EA_ENOMEM, WHAT);
    for (size_t i = 0; i < count && !rc; i++) {
        size_t n = strlen(urls[i]) + 1;
        p->answers[i].url = malloc(n);
        p->count = i + 1;
        if (p->answers[i].url)
            memcpy(p->answers[i].url, urls[i], n);
        else
            rc = ea_fail(err, EA_ENOMEM, WHAT);
    }
    if (!rc)
        rc = ea_mutex_create(&p->lock, err);
    if (!rc)
        rc = ea_cond_create(&p->changed, err);
    if (!rc)
        rc = ea_thread_start(&p->thread, "proxies", proxy_thread_main, p, err);
    if (rc) {
        free_all(p);
        return rc;
    }
    *ret = p;
    return 0;
}

int ea_proxies_get(ea_proxies *p, size_t url, int64_t wait_ns, char out[EA_PROXY_BYTES], ea_err *ret_error) {
    int64_t until = ea_monotonic_ns() + wait_ns;
    ea_mutex_lock(p->lock);
    const answer *a = &p->answers[url];
    while (!a->is_known && ea_monotonic_ns() < until)
        ea_cond_wait_for(p->changed, p->lock, until - ea_monotonic_ns());
    int known = a->is_known;
    memcpy(out, a->proxy, EA_PROXY_BYTES);
    *ret_error = p->error;
    ea_mutex_unlock(p->lock);
    return known;
}

void ea_proxies_doubt(ea_proxies *p) {
    ea_mutex_lock(p->lock);
    p->doubted = 1;
    ea_cond_broadcast(p->changed);
    ea_mutex_unlock(p->lock);
}

void ea_proxies_close(ea_proxies *p) {
    if (!p)
        return;
    int64_t until = ea_monotonic_ns() + LEAVE_SECONDS * SECOND_NS;
    ea_mutex_lock(p->lock);
    p->closing = 1;
    ea_cond_broadcast(p->changed);
    while (!p->ended && (!p->begun || ea_monotonic_ns() < until))
        ea_cond_wait_for(p->changed, p->lock, SECOND_NS / 10);
    ea_thread *thread = p->thread;
    int ended = p->ended;
    p->is_left = !ended;
    ea_mutex_unlock(p->lock);
    if (ended) {
        ea_thread_join(thread);
        free_all(p);
    } else {
        ea_thread_leave(thread);
    }
}
