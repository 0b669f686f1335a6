/* Proxies of the operating system: lists as settings write them, and the thread that asks for them. */
#include "proto/base/platform.h"
#include "service/ship/proxy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const int64_t MS = 1000000;

static void test_lists(void **state) {
    (void)state;

    static const struct {
        const char *list, *proxy;
    } CASES[] = {
        {"proxy:80", "http://proxy:80"},
        {"http://proxy.example:8080/", "http://proxy.example:8080"},
        {"http=a:80;https=b:443", "http://b:443"},
        {"http=a:80 socks=c:1 https=http://b:443;d:1", "http://b:443"},
        {"  ; a:1;b:2", "http://a:1"},
        {"https=socks5://x:1;[fe80::1]:3128", "http://[fe80::1]:3128"},
        {"http=a:80", NULL},
        {"", NULL},
        {"http://user:secret@proxy:80", NULL},
        {"proxy:80/path", NULL},
        {"a\"b:1", NULL},
    };

    char out[EA_PROXY_BYTES], host[64];
    ea_err err;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int rc = ea_proxy_of_list(CASES[i].list, out, &err);
        assert_int_equal(rc, CASES[i].proxy ? 0 : EA_EFORMAT);
        if (CASES[i].proxy)
            assert_string_equal(out, CASES[i].proxy);
        else
            assert_null(strstr(err.message, "secret"));
    }
    assert_true(ea_proxy_host_of("https://Collector.Example:8443/v1", host, sizeof host));
    assert_string_equal(host, "collector.example");
    assert_true(ea_proxy_host_of("https://[::1]:8443", host, sizeof host));
    assert_string_equal(host, "::1");
    assert_false(ea_proxy_host_of("https://", host, sizeof host));
    assert_true(ea_proxy_bypasses("10.*;<local>", "intranet"));
    assert_false(ea_proxy_bypasses("10.*;<local>", "intranet.example"));
    assert_true(ea_proxy_bypasses("*.example 10.*", "INTRANET.example"));
    assert_false(ea_proxy_bypasses("example;", "intranet.example"));
    assert_true(ea_proxy_excludes("other, .example", "intranet.example"));
    assert_true(ea_proxy_excludes("example", "example"));
    assert_true(ea_proxy_excludes("*", "anything"));
    assert_false(ea_proxy_excludes("ample,x", "intranet.example"));
    assert_false(ea_proxy_excludes("", "intranet.example"));
}

static atomic_int asked, answers, is_held;

static int ask(const char *url, char out[EA_PROXY_BYTES], ea_err *err) {
    atomic_fetch_add(&asked, 1);
    while (atomic_load(&is_held))
        ea_sleep_ns(MS);
    int how = atomic_load(&answers);
    if (how == 0)
        return ea_fail(err, EA_EIO, "no answer");
    snprintf(out, EA_PROXY_BYTES, "http://%s:%d", url + strlen("https://"), how);
    return 0;
}

static const char *const URLS[] = {"https://a", "https://b"};

static void wait_asked(int count) {
    for (int i = 0; i < 5000 && atomic_load(&asked) < count; i++)
        ea_sleep_ns(MS);
    assert_true(atomic_load(&asked) >= count);
}

/* An answer for each URL; a doubted one is asked for again, and a failure leaves the one before it. */
static void test_answers(void **state) {
    (void)state;
    ea_proxies *p;
    ea_err err, failure;
    char out[EA_PROXY_BYTES];
    atomic_store(&asked, 0);
    atomic_store(&answers, 1);
    assert_int_equal(ea_proxies_open(&p, ask, URLS, 2, 5 * MS, &err), 0);
    assert_true(ea_proxies_get(p, 1, 5000 * MS, out, &failure));
    assert_string_equal(out, "http://b:1");
    assert_true(ea_proxies_get(p, 0, 0, out, &failure));
    assert_string_equal(out, "http://a:1");
    assert_int_equal(failure.code, 0);
    ea_sleep_ns(20 * MS);
    assert_int_equal(atomic_load(&asked), 2); /* no new lookup: ea_proxies_doubt was not called */
    atomic_store(&answers, 2);
    ea_proxies_doubt(p);
    wait_asked(4);
    for (int i = 0; i < 5000 && strcmp(out, "http://b:2") != 0; i++, ea_sleep_ns(MS))
        assert_true(ea_proxies_get(p, 1, 0, out, &failure));
    assert_string_equal(out, "http://b:2");
    atomic_store(&answers, 0);
    ea_proxies_doubt(p);
    for (int i = 0; i < 5000 && !failure.code; i++, ea_sleep_ns(MS))
        assert_true(ea_proxies_get(p, 1, 0, out, &failure));
    assert_int_equal(failure.code, EA_EIO);
    assert_string_equal(out, "http://b:2");
    ea_proxies_close(p);
}

/* A lookup that the operating system blocks does not block the caller, neither in ea_proxies_get nor in
 * ea_proxies_close. */
static void test_held(void **state) {
    (void)state;
    ea_proxies *p;
    ea_err err, failure;
    char out[EA_PROXY_BYTES];
    atomic_store(&asked, 0);
    atomic_store(&answers, 1);
    atomic_store(&is_held, 1);
    assert_int_equal(ea_proxies_open(&p, ask, URLS, 1, 0, &err), 0);
    wait_asked(1);
    int64_t start = ea_monotonic_ns();
    assert_false(ea_proxies_get(p, 0, 30 * MS, out, &failure));
    assert_string_equal(out, "");
    assert_true(ea_monotonic_ns() - start >= 30 * MS);
    ea_proxies_close(p);
    assert_true(ea_monotonic_ns() - start < 10000 * MS);
    atomic_store(&is_held, 0); /* the thread frees the rest, which a sanitizer sees */
    ea_sleep_ns(200 * MS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_held),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
