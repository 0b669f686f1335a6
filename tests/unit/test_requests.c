/* Requests of a collector: their forms, and that an agent accepts those alone that its key signed, once and in order.
 * A mutator that knows the messages changes each field of a request that is accepted, its order, its number, its
 * signature and its bytes: no change is accepted, and each is counted by its reason. */
#include "proto/wire/request.h"
#include "service/core/agent_log.h"
#include "service/core/remote.h"
#include "tests/unit/spool_kit.h"

#include <openssl/evp.h>
#include <openssl/pem.h>

#define SECOND INT64_C(1000000000)

enum { MUTATIONS = 1600, SOME_POLL_NS = 1000000000 };

static EVP_PKEY *key, *other_key;
static ea_remote *taker;
static uint64_t random_state = 1;

static uint64_t next_random(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static void write_public(EVP_PKEY *k, const char *path) {
    ea_err err;
    char *data = NULL;
    BIO *bio = BIO_new(BIO_s_mem());
    assert_non_null(bio);
    assert_int_equal(PEM_write_bio_PUBKEY(bio, k), 1);
    long n = BIO_get_mem_data(bio, &data);
    must(ea_path_write_all(path, data, (size_t)n, 0, &err), &err);
    BIO_free(bio);
}

static void open_taker(void) {
    ea_err err;
    ea_remote_config c = {
        .key = scratch_path("key.pub"), .allow = {.items = {"window"}, .count = 1}, .poll_ns = SOME_POLL_NS};
    must(ea_remote_create(&taker, &(ea_remote_options){.config = &c, .folder = scratch, .counters = &counters}, &err),
         &err);
    ea_remote_set_name(taker, "web-1");
}

static int begin_taker(void **state) {
    ea_err err;
    int rc = setup(state);
    key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    other_key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (rc || !key || !other_key || ea_log_open(&(ea_log_options){.quiet = 1}, &err))
        return -1;
    write_public(key, scratch_path("key.pub"));
    open_taker();
    return 0;
}

static int end_taker(void **state) {
    ea_remote_destroy(taker);
    EVP_PKEY_free(key);
    EVP_PKEY_free(other_key);
    ea_log_close();
    return teardown(state);
}

/* ---- signing ---- */

static ea_request a_request(uint64_t serial) {
    int64_t now = ea_utc_ns();
    return (ea_request){.kind = EA_REQUEST_WINDOW,
                        .serial = serial,
                        .hosts = "db-*,web-*",
                        .from_utc_ns = now - 600 * SECOND,
                        .to_utc_ns = now,
                        .limit_bytes = 500 << 20,
                        .expires_utc_ns = now + 86400 * SECOND};
}

static void sign(EVP_PKEY *k, const void *request, size_t len_bytes, uint8_t signature[EA_REQUEST_SIGNATURE_BYTES],
                 uint8_t name[EVP_MAX_MD_SIZE]) {
    uint8_t raw[32];
    size_t raw_bytes = sizeof raw, n = EA_REQUEST_SIGNATURE_BYTES;
    ea_text text;
    ea_text_init(&text);
    ea_request_put_signed(request, len_bytes, &text);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    assert_int_equal(EVP_PKEY_get_raw_public_key(k, raw, &raw_bytes), 1);
    assert_int_equal(EVP_Digest(raw, sizeof raw, name, NULL, EVP_sha256(), NULL), 1);
    assert_int_equal(EVP_DigestSignInit(context, NULL, NULL, NULL, k), 1);
    assert_int_equal(EVP_DigestSign(context, signature, &n, (const uint8_t *)text.data, text.len_bytes), 1);
    EVP_MD_CTX_free(context);
    ea_text_deinit(&text);
}

/* Appends the request, signed, to out. */
static void put_signed(EVP_PKEY *k, const ea_request *q, ea_text *out) {
    uint8_t signature[EA_REQUEST_SIGNATURE_BYTES], name[EVP_MAX_MD_SIZE];
    ea_text request;
    ea_text_init(&request);
    ea_request_encode(q, &request);
    sign(k, request.data, request.len_bytes, signature, name);
    ea_signed_request_encode(&(ea_signed_request){.request = (const uint8_t *)request.data,
                                                  .request_bytes = request.len_bytes,
                                                  .signature = signature,
                                                  .key = name},
                             out);
    ea_text_deinit(&request);
}

/* ---- polls ---- */

static void answer_with(const void *signed_request, size_t len_bytes) {
    ea_text body, offer;
    ea_text_init(&body);
    ea_text_init(&offer);
    ea_remote_ask(taker, &body);
    ea_offer_add(&offer, signed_request, len_bytes);
    (void)ea_remote_answer(taker, 200, (const uint8_t *)offer.data, offer.len_bytes);
    ea_text_deinit(&offer);
    ea_text_deinit(&body);
}

static uint64_t count_of(enum ea_counter which) {
    return ea_counter_get(&counters, which);
}

static uint64_t refusals(void) {
    uint64_t n = 0;
    for (int i = EA_COUNT_requests_refused_malformed; i <= EA_COUNT_requests_refused_limits; i++)
        n += count_of((enum ea_counter)i);
    return n;
}

/* Offers a request, and returns whether just this counter counted it. */
static int is_counted(EVP_PKEY *k, const ea_request *q, enum ea_counter which) {
    uint64_t before = count_of(which), all = refusals() + count_of(EA_COUNT_requests_accepted);
    ea_text bytes;
    ea_text_init(&bytes);
    put_signed(k, q, &bytes);
    answer_with(bytes.data, bytes.len_bytes);
    ea_text_deinit(&bytes);
    return count_of(which) == before + 1 && refusals() + count_of(EA_COUNT_requests_accepted) == all + 1;
}

static size_t next_reports(ea_report *reports, uint64_t *ret_serial) {
    ea_text body;
    ea_err err;
    size_t n = 0;
    ea_text_init(&body);
    ea_remote_ask(taker, &body);
    must(ea_poll_decode(ret_serial, reports, &n, (const uint8_t *)body.data, body.len_bytes, &err), &err);
    ea_text_deinit(&body);
    return n;
}

/* ---- tests ---- */

static void each_reason(void **state) {
    (void)state;
    ea_request q = a_request(100);
    assert_true(is_counted(key, &q, EA_COUNT_requests_accepted));
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_replayed));
    q.serial = 99;
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_reordered));
    q = a_request(101);
    assert_true(is_counted(other_key, &q, EA_COUNT_requests_refused_key));
    snprintf(q.hosts, sizeof q.hosts, "web-10,db-*");
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_host));
    q = a_request(102);
    q.expires_utc_ns = ea_utc_ns() - 1;
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_expired));
    q = a_request(103);
    q.kind = 2;
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_policy));
    q = a_request(104);
    q.from_utc_ns = q.to_utc_ns - 8 * 86400 * SECOND;
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_limits));
    q = a_request(105);
    q.expires_utc_ns += 40 * 86400 * SECOND;
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_limits));
    q = a_request(104); /* refused by its content: it is not taken later */
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_replayed));
    answer_with("", 0);
    assert_int_equal(count_of(EA_COUNT_requests_refused_malformed), 1);
}

static void a_restart_forgets_nothing(void **state) {
    (void)state;
    ea_report reports[EA_POLL_MAX_REPORTS];
    uint64_t serial = 0;
    ea_request q = a_request(7);
    assert_true(is_counted(key, &q, EA_COUNT_requests_accepted));
    ea_remote_destroy(taker);
    open_taker();
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_replayed));
    assert_int_equal(next_reports(reports, &serial), 1); /* the other one was in the poll before */
    assert_int_equal(serial, 7);
    assert_int_equal(reports[0].state, EA_REPORT_REFUSED);
    assert_non_null(strstr(reports[0].text, "replayed"));
}

static void limits(void **state) {
    (void)state;
    ea_request q;
    for (uint64_t i = 1; i <= 32; i++) {
        q = a_request(i);
        assert_true(is_counted(key, &q, EA_COUNT_requests_accepted));
    }
    q = a_request(33);
    assert_true(is_counted(key, &q, EA_COUNT_requests_refused_limits));
    ea_text offer;
    ea_text_init(&offer);
    for (uint64_t i = 0; i < EA_OFFER_MAX_REQUESTS + 4; i++)
        ea_offer_add(&offer, (const uint8_t *)"x", 1);
    int64_t pause_ns = ea_remote_answer(taker, 200, (const uint8_t *)offer.data, offer.len_bytes);
    assert_int_equal(count_of(EA_COUNT_requests_refused_malformed), EA_OFFER_MAX_REQUESTS + 1);
    for (int i = 0; i < 20; i++)
        pause_ns = ea_remote_answer(taker, 200, (const uint8_t *)offer.data, offer.len_bytes);
    assert_true(pause_ns == 3600 * SECOND);
    assert_true(ea_remote_answer(taker, 200, NULL, 0) == SOME_POLL_NS);
    assert_true(ea_remote_answer(taker, 404, NULL, 0) == 600 * SECOND);
    ea_text_deinit(&offer);
}

/* A request with one field changed, as the encoder writes it. */
static ea_request changed_field(const ea_request *q) {
    ea_request r = *q;
    switch (next_random() % 7) {
    case 0:
        r.kind += 1 + (uint32_t)(next_random() % 40);
        break;
    case 1:
        r.serial += 1 + next_random() % 1000;
        break;
    case 2:
        snprintf(r.hosts, sizeof r.hosts, "%s", next_random() % 2 ? "*" : "web-1");
        break;
    case 3:
        r.from_utc_ns -= 1 + (int64_t)(next_random() % 1000000);
        break;
    case 4:
        r.to_utc_ns += 1 + (int64_t)(next_random() % 1000000);
        break;
    case 5:
        r.limit_bytes += 1 + next_random() % 1000000;
        break;
    default:
        r.expires_utc_ns += 1 + (int64_t)(next_random() % 1000000);
    }
    return r;
}

/* Changes what was signed: a field, its bytes, its length, a field twice, another order, the signature, the key. */
static void mutate(const ea_request *q, ea_text *out) {
    uint8_t signature[EA_REQUEST_SIGNATURE_BYTES], name[EVP_MAX_MD_SIZE];
    ea_request r = *q;
    ea_text request;
    ea_text_init(&request);
    ea_request_encode(&r, &request);
    sign(key, request.data, request.len_bytes, signature, name);
    uint64_t how = next_random() % 8, at = next_random();
    if (how == 0) {
        r = changed_field(q);
        ea_text_clear(&request);
        ea_request_encode(&r, &request);
    } else if (how == 1) {
        request.data[at % request.len_bytes] ^= (char)(1 + next_random() % 255);
    } else if (how == 2) {
        request.len_bytes = at % request.len_bytes;
    } else if (how == 3) { /* the last field again, or an unknown one */
        ea_text_varint(&request, (7 + next_random() % 3) << 3);
        ea_text_varint(&request, next_random());
    } else if (how == 4) {
        signature[at % sizeof signature] ^= (uint8_t)(1 + next_random() % 255);
    } else if (how == 5) {
        name[at % EA_REQUEST_KEY_BYTES] ^= (uint8_t)(1 + next_random() % 255);
    }
    ea_signed_request_encode(&(ea_signed_request){.request = (const uint8_t *)request.data,
                                                  .request_bytes = request.len_bytes,
                                                  .signature = signature,
                                                  .key = name},
                             out);
    if (how == 6)
        out->len_bytes = at % out->len_bytes;
    if (how == 7)
        ea_text_add(out, "\x20\x01", 2);
    ea_text_deinit(&request);
}

static void no_change_is_accepted(void **state) {
    (void)state;
    ea_text bytes, offer;
    ea_text_init(&bytes);
    ea_text_init(&offer);
    ea_request q = a_request(1000);
    for (int i = 1; i <= MUTATIONS; i++) {
        ea_text_clear(&bytes);
        mutate(&q, &bytes);
        ea_offer_add(&offer, (const uint8_t *)bytes.data, bytes.len_bytes);
        if (i % EA_OFFER_MAX_REQUESTS == 0) {
            (void)ea_remote_answer(taker, 200, (const uint8_t *)offer.data, offer.len_bytes);
            ea_text_clear(&offer);
        }
    }
    ea_text_deinit(&offer);
    assert_int_equal(count_of(EA_COUNT_requests_accepted), 0);
    assert_int_equal(refusals(), MUTATIONS);
    assert_true(count_of(EA_COUNT_requests_refused_signature) > MUTATIONS / 8);
    assert_true(count_of(EA_COUNT_requests_refused_malformed) > MUTATIONS / 8);
    assert_true(count_of(EA_COUNT_requests_refused_key) > MUTATIONS / 16);
    assert_int_equal(count_of(EA_COUNT_requests_refused_signature) + count_of(EA_COUNT_requests_refused_malformed) +
                         count_of(EA_COUNT_requests_refused_key),
                     MUTATIONS);
    assert_true(is_counted(key, &q, EA_COUNT_requests_accepted));
    ea_text_deinit(&bytes);
}

/* Whatever the other side sends: it is read or refused, within its bounds. */
static void any_poll_and_offer(void **state) {
    (void)state;
    static ea_report reports[EA_POLL_MAX_REPORTS];
    static ea_report said[2] = {{.serial = 5, .state = EA_REPORT_SENT, .events = 7, .text = "all of it"},
                                {.serial = 6, .state = EA_REPORT_REFUSED, .text = "expired"}};
    ea_err err;
    uint64_t serial = 0;
    size_t n = 0;
    ea_text body;
    ea_text_init(&body);
    ea_poll_encode(9, said, 2, &body);
    must(ea_poll_decode(&serial, reports, &n, (const uint8_t *)body.data, body.len_bytes, &err), &err);
    assert_int_equal(n, 2);
    assert_int_equal(serial, 9);
    assert_int_equal(reports[0].events, 7);
    assert_string_equal(reports[0].text, "all of it");
    size_t whole = body.len_bytes, read = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        char *copy = malloc(whole); /* of its exact size, so that a sanitizer sees what is read after its end */
        size_t len = 1 + next_random() % whole;
        memcpy(copy, body.data, len);
        for (uint64_t k = next_random() % 4; k; k--)
            copy[next_random() % len] ^= (char)(1 << next_random() % 8);
        char *exact = realloc(copy, len);
        const uint8_t *one;
        size_t at = 0, one_bytes = 0;
        assert_non_null(exact);
        if (!ea_poll_decode(&serial, reports, &n, (const uint8_t *)exact, len, &err)) {
            read++;
            assert_true(n <= EA_POLL_MAX_REPORTS);
        }
        while (ea_offer_next((const uint8_t *)exact, len, &at, &one, &one_bytes, &err) == 1)
            assert_true(one + one_bytes <= (const uint8_t *)exact + len);
        free(exact);
    }
    assert_true(read > 0 && read < MUTATIONS);
    ea_text_clear(&body);
    for (int i = 0; i <= EA_POLL_MAX_REPORTS; i++)
        ea_poll_encode(1, said, 1, &body);
    assert_int_equal(ea_poll_decode(&serial, reports, &n, (const uint8_t *)body.data, body.len_bytes, &err), EA_ELIMIT);
    ea_text_deinit(&body);
}

static void a_damaged_file_is_replaced(void **state) {
    (void)state;
    ea_err err;
    ea_request q = a_request(7);
    assert_true(is_counted(key, &q, EA_COUNT_requests_accepted));
    ea_remote_destroy(taker);
    must(ea_path_write_all(scratch_path("requests"), "etwagent requests 1\nserial 7\nend 0000000000000000\n", 51, 1,
                           &err),
         &err);
    open_taker();
    q.serial = 8;
    assert_true(is_counted(key, &q, EA_COUNT_requests_accepted));
}

static void another_key_is_refused(void **state) {
    (void)state;
    ea_err err;
    ea_remote *none = NULL;
    EVP_PKEY *rsa = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    ea_remote_config c = {.key = scratch_path("ec.pub"), .poll_ns = SOME_POLL_NS};
    assert_non_null(rsa);
    write_public(rsa, scratch_path("ec.pub"));
    assert_int_equal(
        ea_remote_create(&none, &(ea_remote_options){.config = &c, .folder = scratch, .counters = &counters}, &err),
        EA_EINVAL);
    EVP_PKEY_free(rsa);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_reason, begin_taker, end_taker),
        cmocka_unit_test_setup_teardown(a_restart_forgets_nothing, begin_taker, end_taker),
        cmocka_unit_test_setup_teardown(limits, begin_taker, end_taker),
        cmocka_unit_test_setup_teardown(no_change_is_accepted, begin_taker, end_taker),
        cmocka_unit_test_setup_teardown(any_poll_and_offer, begin_taker, end_taker),
        cmocka_unit_test_setup_teardown(a_damaged_file_is_replaced, begin_taker, end_taker),
        cmocka_unit_test_setup_teardown(another_key_is_refused, begin_taker, end_taker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
