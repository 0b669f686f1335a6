/* Messages between the collector and its signer: what is printed is read back; what breaks a bound is refused. */
#include "collector/ca/ca.h"
#include "collector/enroll/signer_message.h"
#include "proto/base/bytes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int parse(const ea_text *t, ec_signer_message *ret, ea_err *err) {
    char kind;
    size_t n;
    int rc = ec_signer_parse_head((const uint8_t *)t->data, &kind, &n, err);
    if (rc)
        return rc;
    assert_int_equal(n, t->len_bytes - EC_SIGNER_HEAD_BYTES);
    return ec_signer_parse(kind, (const uint8_t *)t->data + EC_SIGNER_HEAD_BYTES, n, ret, err);
}

static void what_is_printed_is_read(void **state) {
    (void)state;
    static const char CSR[] = "a request\0with a NUL";
    ea_text t;
    ea_err err;
    ec_signer_message got;
    const ec_signer_message m = {.kind = EC_SIGNER_ENROLL,
                                 .fields = {{.data = "token", .len_bytes = 5}, {.data = CSR, .len_bytes = sizeof CSR}}};
    ea_text_init(&t);
    assert_int_equal(ec_signer_print(&m, &t, &err), 0);
    assert_int_equal(parse(&t, &got, &err), 0);
    assert_string_equal(got.fields[0].data, "token");
    assert_int_equal(got.fields[1].len_bytes, sizeof CSR);
    assert_memory_equal(got.fields[1].data, CSR, sizeof CSR);
    /* cut anywhere, with the head's length made right */
    for (size_t n = 0; n < t.len_bytes - EC_SIGNER_HEAD_BYTES; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        assert_non_null(copy);
        memcpy(copy, t.data + EC_SIGNER_HEAD_BYTES, n);
        assert_int_equal(ec_signer_parse(EC_SIGNER_ENROLL, copy, n, &got, &err), EA_ECORRUPT);
        free(copy);
    }
    ea_text_deinit(&t);
}

static void bounds_are_kept(void **state) {
    (void)state;
    ea_text t;
    ea_err err;
    ec_signer_message got;
    char *big = calloc(EC_SIGNER_BODY_MAX, 1);
    assert_non_null(big);
    ea_text_init(&t);
    ec_signer_message m = {
        .kind = EC_SIGNER_RENEW,
        .fields = {{.data = big, .len_bytes = EC_CA_CERT_MAX}, {.data = big, .len_bytes = EC_CA_CSR_MAX + 1}}};
    assert_int_equal(ec_signer_print(&m, &t, &err), EA_EINVAL);
    assert_non_null(strstr(err.message, "field 1 is too long"));
    m.fields[1].len_bytes = EC_CA_CSR_MAX;
    assert_int_equal(ec_signer_print(&m, &t, &err), 0);
    assert_int_equal(parse(&t, &got, &err), 0);
    /* one byte more follows the last field */
    assert_int_equal(ec_signer_parse(EC_SIGNER_RENEW, (const uint8_t *)big, 3, &got, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "field 0 is missing"));
    ea_text_char(&t, 'x');
    assert_int_equal(ec_signer_parse(EC_SIGNER_RENEW, (const uint8_t *)t.data + EC_SIGNER_HEAD_BYTES,
                                     t.len_bytes - EC_SIGNER_HEAD_BYTES, &got, &err),
                     EA_ECORRUPT);
    assert_non_null(strstr(err.message, "bytes follow the last field"));
    /* a field longer than its kind allows, a text with a NUL, a length that wraps */
    uint8_t body[64] = {0};
    ea_store32(body, UINT32_MAX);
    assert_int_equal(ec_signer_parse(EC_SIGNER_ENROLL, body, sizeof body, &got, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "field 0 is cut"));
    ea_store32(body, 2);
    body[4] = 'a';
    assert_int_equal(ec_signer_parse(EC_SIGNER_ENROLL, body, sizeof body, &got, &err), EA_ECORRUPT);
    assert_non_null(strstr(err.message, "field 0 is too long, or no text"));
    uint8_t head[EC_SIGNER_HEAD_BYTES] = {0, 0, 0, 0, 'E'};
    char kind;
    size_t n;
    ea_store32(head, EC_SIGNER_BODY_MAX + 1);
    assert_int_equal(ec_signer_parse_head(head, &kind, &n, &err), EA_ECORRUPT);
    ea_store32(head, 1);
    head[4] = 'X';
    assert_int_equal(ec_signer_parse_head(head, &kind, &n, &err), EA_ECORRUPT);
    ea_text_deinit(&t);
    free(big);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_printed_is_read), cmocka_unit_test(bounds_are_kept)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
