/* Messages between a process and its children: what comes in pieces is put together, what is cut, too long or false is
 * found, and what the other side claims allocates nothing. */
#include "collector/query/sql/value_message.h"
#include "collector/sandbox/message.h"
#include "proto/base/bytes.h"
#include "proto/base/platform.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { HEAD_BYTES = 5 };

static int ends[2];

/* A reader of the bytes, after which the pipe ends unless it is kept open. */
static ec_message_reader reader_of(const void *data, size_t len_bytes, int stays_open) {
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(write(ends[1], data, len_bytes), (ssize_t)len_bytes);
    if (!stays_open) {
        close(ends[1]);
        ends[1] = -1;
    }
    return (ec_message_reader){.fd = ends[0], .deadline_ns = INT64_MAX};
}

static void done(ec_message_reader *r) {
    ec_message_reader_deinit(r);
    close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
}

static ea_text a_message(void) {
    static const char BLOB[] = {1, 0, 2};
    ea_text t;
    ea_text_init(&t);
    ec_message_begin(&t, 'A');
    ec_message_u8(&t, 200);
    ec_message_u32(&t, UINT32_MAX - 1);
    ec_message_u64(&t, UINT64_MAX - 1);
    ec_message_string(&t, "text");
    ec_message_string(&t, NULL);
    ec_message_bytes(&t, BLOB, sizeof BLOB);
    assert_int_equal(ec_message_end(&t, 0, EC_MESSAGE_MAX), 0);
    return t;
}

static void assert_is_the_message(ec_message *m) {
    size_t n;
    assert_int_equal(m->letter, 'A');
    assert_int_equal(ec_message_get(m, 1), 200);
    assert_int_equal(ec_message_get(m, 4), UINT32_MAX - 1);
    assert_int_equal(ec_message_get(m, 8), UINT64_MAX - 1);
    assert_string_equal(ec_message_get_string(m), "text");
    assert_string_equal(ec_message_get_string(m), "");
    const char *data = ec_message_get_bytes(m, &n);
    assert_int_equal(n, 3);
    assert_memory_equal(data, "\1\0\2", 3);
    assert_false(m->failed);
    assert_ptr_equal(m->at, m->end);
    /* there is no more */
    assert_int_equal(ec_message_get(m, 1), 0);
    assert_true(m->failed);
    assert_string_equal(ec_message_get_string(m), "");
    (void)ec_message_get_bytes(m, &n);
    assert_int_equal(n, 0);
}

static void messages_come_as_they_were_sent(void **state) {
    ea_text t, all;
    ec_message m;
    (void)state;
    ea_text_init(&all);
    for (int i = 0; i < 500; i++) { /* more than one read takes */
        t = a_message();
        ea_text_add(&all, t.data, t.len_bytes);
        ea_text_deinit(&t);
    }
    ec_message_reader r = reader_of(all.data, all.len_bytes, 0);
    for (int i = 0; i < 500; i++) {
        assert_int_equal(ec_message_next(&r, &m), 1);
        assert_is_the_message(&m);
    }
    assert_int_equal(ec_message_next(&r, &m), 0);
    assert_int_equal(ec_message_next(&r, &m), 0);
    done(&r);
    ea_text_deinit(&all);
}

static void a_cut_message_is_an_error(void **state) {
    ea_text t = a_message();
    ec_message m;
    (void)state;
    for (size_t n = 1; n < t.len_bytes; n++) {
        ec_message_reader r = reader_of(t.data, n, 0);
        assert_int_equal(ec_message_next(&r, &m), EA_EIO);
        done(&r);
    }
    /* whole by its length, but its fields are cut: at whichever byte, none is read beyond the end */
    for (size_t n = 0; n + HEAD_BYTES < t.len_bytes; n++) {
        uint8_t *copy = malloc(HEAD_BYTES + n); /* its end is the allocation's */
        size_t bytes;
        assert_non_null(copy);
        memcpy(copy, t.data, HEAD_BYTES + n);
        m = (ec_message){.letter = 'A', .at = copy + HEAD_BYTES, .end = copy + HEAD_BYTES + n};
        (void)ec_message_get(&m, 1);
        (void)ec_message_get(&m, 4);
        (void)ec_message_get(&m, 8);
        (void)ec_message_get_string(&m);
        (void)ec_message_get_string(&m);
        (void)ec_message_get_bytes(&m, &bytes);
        assert_true(m.failed);
        assert_int_equal(bytes, 0);
        free(copy);
    }
    ea_text_deinit(&t);
}

static void a_length_allocates_nothing(void **state) {
    uint8_t head[HEAD_BYTES + 10] = {'A'};
    ec_message m;
    (void)state;
    ea_store32(head + 1, EC_MESSAGE_MAX + 1);
    ec_message_reader r = reader_of(head, sizeof head, 1); /* found at once: more is not waited for */
    assert_int_equal(ec_message_next(&r, &m), EA_ECORRUPT);
    done(&r);
    ea_store32(head + 1, UINT32_MAX);
    r = reader_of(head, sizeof head, 1);
    assert_int_equal(ec_message_next(&r, &m), EA_ECORRUPT);
    done(&r);
    /* the longest one is only claimed */
    ea_store32(head + 1, EC_MESSAGE_MAX);
    r = reader_of(head, sizeof head, 0);
    assert_int_equal(ec_message_next(&r, &m), EA_EIO);
    assert_in_range(r.capacity, 1, 1 << 18);
    done(&r);
    /* a bound of the reader's own */
    ea_store32(head + 1, 10);
    r = reader_of(head, sizeof head, 0);
    r.max_bytes = 9;
    assert_int_equal(ec_message_next(&r, &m), EA_ECORRUPT);
    done(&r);
    r = reader_of(head, sizeof head, 0);
    r.max_bytes = 10;
    assert_int_equal(ec_message_next(&r, &m), 1);
    done(&r);
}

static void false_strings_are_empty(void **state) {
    static const struct {
        const char *name;
        uint32_t len_bytes;
        char data[4];
    } CASES[] = {{"longer than the message", 4, "abcd"},
                 {"much longer", UINT32_MAX, "abcd"},
                 {"no NUL after it", 3, "abcd"},
                 {"a NUL inside", 3, {'a', 0, 'c', 0}}};

    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint8_t body[8];
        ea_store32(body, CASES[i].len_bytes);
        memcpy(body + 4, CASES[i].data, 4);
        ec_message m = {.letter = 'A', .at = body, .end = body + sizeof body};
        print_message("%s\n", CASES[i].name);
        assert_string_equal(ec_message_get_string(&m), "");
        assert_true(m.failed);
    }
}

static void values_keep_their_type(void **state) {
    const ec_value values[] = {{.type = EC_NULL},
                               {.type = EC_INT, .i = INT64_MIN},
                               {.type = EC_REAL, .r = -0.5},
                               {.type = EC_TEXT, .data = "a\0b", .len_bytes = 3},
                               {.type = EC_BLOB, .data = "", .len_bytes = 0}};

    enum { COUNT = sizeof values / sizeof *values };

    ea_text t;
    (void)state;
    ea_text_init(&t);
    for (size_t i = 0; i < COUNT; i++)
        ec_message_value(&t, &values[i]);
    for (size_t n = 0; n <= t.len_bytes; n++) {
        ec_message m = {.at = (const uint8_t *)t.data, .end = (const uint8_t *)t.data + n};
        for (size_t i = 0; i < COUNT; i++) {
            ec_value v = ec_message_get_value(&m);
            if (m.failed)
                continue;
            assert_int_equal(v.type, values[i].type);
            assert_int_equal(v.i, values[i].i);
            assert_true(v.r == values[i].r);
            assert_int_equal(v.len_bytes, values[i].len_bytes);
            if (v.len_bytes)
                assert_memory_equal(v.data, values[i].data, v.len_bytes);
        }
        assert_int_equal(m.failed, n < t.len_bytes);
    }
    ea_text_deinit(&t);
    /* types that there are not */
    for (unsigned type = EC_BLOB + 1; type < 256; type++) {
        uint8_t body[16] = {(uint8_t)type};
        ec_message m = {.at = body, .end = body + sizeof body};
        assert_int_equal(ec_message_get_value(&m).type, EC_NULL);
        assert_true(m.failed);
    }
}

static void what_is_too_long_is_not_sent(void **state) {
    ea_text t;
    char *data = calloc(1, EC_MESSAGE_MAX + 1);
    (void)state;
    assert_non_null(data);
    ea_text_init(&t);
    ec_message_begin(&t, 'A');
    ea_text_add(&t, data, EC_MESSAGE_MAX + 1);
    assert_int_equal(ec_message_send(-1, &t), EA_ELIMIT);
    free(data);
    /* of several, only the last one counts */
    ea_text_clear(&t);
    size_t first = ec_message_append(&t, 'A');
    ea_text_add(&t, "12345", 5);
    assert_int_equal(ec_message_end(&t, first, 5), 0);
    size_t second = ec_message_append(&t, 'B');
    ea_text_add(&t, "123456", 6);
    assert_int_equal(ec_message_end(&t, second, 5), EA_ELIMIT);
    assert_int_equal(ec_message_end(&t, second, 6), 0);
    ec_message_reader r = reader_of("", 0, 1);
    ec_message m;
    assert_int_equal(ec_message_flush(ends[1], &t), 0);
    assert_int_equal(t.len_bytes, 0);
    assert_int_equal(ec_message_next(&r, &m), 1);
    assert_int_equal(m.letter, 'A');
    assert_int_equal(m.end - m.at, 5);
    assert_int_equal(ec_message_next(&r, &m), 1);
    assert_int_equal(m.letter, 'B');
    assert_memory_equal(m.at, "123456", 6);
    done(&r);
    /* the reader is gone */
    r = reader_of("", 0, 1);
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    ec_message_begin(&t, 'A');
    assert_int_equal(ec_message_send(ends[1], &t), EA_EIO);
    ec_message_reader_deinit(&r);
    close(ends[1]);
    ea_text_deinit(&t);
}

static void waiting_ends(void **state) {
    ea_text t = a_message();
    ec_message m;
    atomic_int stop = 0;
    (void)state;
    ec_message_reader r = reader_of(t.data, t.len_bytes - 1, 1);
    r.deadline_ns = ea_monotonic_ns() + 1000000;
    assert_int_equal(ec_message_next(&r, &m), EA_ETIMEOUT);
    r.deadline_ns = INT64_MAX;
    r.stop = &stop;
    stop = 1;
    assert_int_equal(ec_message_next(&r, &m), EA_ECANCELED);
    /* nothing of it is lost */
    stop = 0;
    assert_int_equal(write(ends[1], t.data + t.len_bytes - 1, 1), 1);
    assert_int_equal(ec_message_next(&r, &m), 1);
    assert_is_the_message(&m);
    done(&r);
    ea_text_deinit(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_as_they_were_sent),
        cmocka_unit_test(a_cut_message_is_an_error),
        cmocka_unit_test(a_length_allocates_nothing),
        cmocka_unit_test(false_strings_are_empty),
        cmocka_unit_test(values_keep_their_type),
        cmocka_unit_test(what_is_too_long_is_not_sent),
        cmocka_unit_test(waiting_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
