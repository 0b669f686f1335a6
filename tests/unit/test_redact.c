/* proto/relog/redact.h: what a text of no kind loses, what stays; keys; SIDs in items and texts have one pseudonym;
 * bytes without a known layout are zeroed or dropped. */
#include "proto/base/bytes.h"
#include "proto/relog/redact.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const uint8_t KEY[32] = {1, 2, 3}, OTHER_KEY[32] = {3, 2, 1};

enum { ALL = (1 << EA_REDACT_KIND_COUNT) - 1 };

static ea_redact *make(const uint8_t *key, unsigned kinds, enum ea_redact_unknown unknown) {
    const ea_redact_options options = {.kinds = kinds, .key = key, .key_bytes = sizeof KEY, .unknown = unknown};
    ea_redact *x;
    ea_err err;
    assert_int_equal(ea_redact_create(&x, &options, &err), 0);
    return x;
}

/* The caller's to free. */
static char *redacted(ea_redact *x, const char *text) {
    ea_text t;
    ea_err err;
    ea_text_init(&t);
    assert_int_equal(ea_redact_text(x, text, &t, &err), 0);
    return t.data ? t.data : strdup("");
}

static void check(ea_redact *x, const char *text, const char *begins, const char *gone) {
    char *got = redacted(x, text);
    if (strncmp(got, begins, strlen(begins)) != 0 || (*gone && strstr(got, gone)))
        fail_msg("%s became %s", text, got);
    free(got);
}

static void texts(void **state) {
    (void)state;
    ea_redact *x = make(KEY, ALL, EA_REDACT_ZERO), *paths = make(KEY, 1 << EA_REDACT_PATH, EA_REDACT_ZERO);
    check(x, "open C:\\Users\\ann\\plan.doc", "open C:\\Users\\x", "plan");
    check(x, "\\Device\\HarddiskVolume3\\Windows\\System32\\ours.dll",
          "\\Device\\HarddiskVolume3\\Windows\\System32\\x", "ours");
    check(x, "from 192.168.7.9 to 127.0.0.1", "from 10.", "192.168");
    check(x, "at 12:34:56", "at 12:34:56", "");
    check(x, "to fe80::1:2ab", "to fd", "2ab");
    check(x, "get https://intern.example/a?b=c now", "get https://x", "intern");
    check(x, "S-1-5-18 and S-1-5-21-11-22-33-1001", "S-1-5-18 and S-1-5-21-", "-11-22-33-");
    check(x, "version 300.1.2.3", "version 300.1.2.3", "");
    check(x, "", "", "");
    check(paths, "192.168.7.9 C:\\secret", "192.168.7.9 C:\\x", "secret");
    ea_redact_destroy(x);
    ea_redact_destroy(paths);
}

static void pseudonyms_follow_the_key(void **state) {
    (void)state;
    ea_redact *a = make(KEY, ALL, EA_REDACT_ZERO), *b = make(KEY, ALL, EA_REDACT_ZERO),
              *c = make(OTHER_KEY, ALL, EA_REDACT_ZERO);
    char *one = redacted(a, "D:\\Plans\\Merger.exe"), *two = redacted(b, "D:\\PLANS\\merger.exe"),
         *three = redacted(c, "D:\\Plans\\Merger.exe");
    assert_string_equal(one, two);
    assert_string_not_equal(one, three);
    assert_string_equal(one + strlen(one) - 4, ".exe");
    free(one);
    free(two);
    free(three);
    ea_redact_destroy(a);
    ea_redact_destroy(b);
    ea_redact_destroy(c);
    ea_err err;
    assert_int_equal(ea_redact_create(&a, &(ea_redact_options){.kinds = ALL, .key = KEY, .key_bytes = 15}, &err),
                     EA_EINVAL);
}

static void items_and_unknown_payloads(void **state) {
    (void)state;
    uint8_t sid[28] = {1, 5, 0, 0, 0, 0, 0, 5}, payload[5] = "name";
    const uint32_t parts[] = {21, 11, 22, 33, 1001};
    for (size_t i = 0; i < 5; i++)
        ea_store32(sid + 8 + 4 * i, parts[i]);
    const ea_ext item = {.type = EA_EXT_SID, .size_bytes = sizeof sid, .data = sid};
    const ea_record r = {.provider = {{9, 9}},
                         .id = 77,
                         .pointer_size = 8,
                         .flags = EA_FLAG_EXTENDED_INFO,
                         .ext = &item,
                         .ext_count = 1,
                         .payload = payload,
                         .payload_bytes = sizeof payload};
    ea_registry *registry;
    ea_record got;
    ea_err err;
    assert_int_equal(ea_registry_create(&registry, 0, &err), 0);
    const ea_class *c = ea_registry_find(registry, &r);
    ea_redact *x = make(KEY, ALL, EA_REDACT_ZERO), *drops = make(KEY, ALL, EA_REDACT_DROP);
    assert_int_equal(ea_redact_learn(x, &r, c, &err), 0);
    assert_int_equal(ea_redact_apply(x, &r, c, &got, &err), 1);
    assert_int_equal(got.payload_bytes, sizeof payload);
    assert_memory_equal(got.payload, "\0\0\0\0\0", sizeof payload);
    assert_int_equal(ea_redact_count(x)->zeroed, 1);
    assert_memory_equal(got.ext[0].data, sid, 12); /* revision, authority, 21 */
    assert_memory_not_equal(got.ext[0].data + 12, sid + 12, 4);
    char text[96], *same = redacted(x, "S-1-5-21-11-22-33-1001");
    const uint8_t *p = got.ext[0].data;
    snprintf(text, sizeof text, "S-1-5-21-%u-%u-%u-%u", (unsigned)ea_load32(p + 12), (unsigned)ea_load32(p + 16),
             (unsigned)ea_load32(p + 20), (unsigned)ea_load32(p + 24));
    assert_string_equal(same, text);
    free(same);
    assert_int_equal(ea_redact_apply(drops, &r, c, &got, &err), 0);
    assert_int_equal(ea_redact_count(drops)->dropped, 1);
    ea_redact_destroy(x);
    ea_redact_destroy(drops);
    ea_registry_destroy(registry);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(pseudonyms_follow_the_key),
        cmocka_unit_test(items_and_unknown_payloads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
