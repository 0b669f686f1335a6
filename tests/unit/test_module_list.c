/* proto/relog/module_list.h: lists as TSV and as JSON lines are one; what is wrong in a line.
 * proto/relog/module_records.h: payloads of both pointer sizes, and what they cannot hold. */
#include "proto/base/bytes.h"
#include "proto/relog/module_list.h"
#include "proto/relog/module_records.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static int read_list(ea_module_list **ret, const char *text, ea_err *err) {
    return ea_module_list_read(ret, "list", text, strlen(text), err);
}

static void both_forms(void **state) {
    (void)state;
    static const char *const TEXTS[] = {
        "\xef\xbb\xbfpid\tbase\tsize\tpath\tguid\tage\tpdb\tload\tunload\ttimestamp\tname\r\n"
        "4\t0x7ff000000000\t4096\t\\Device\\a\xc3\xa4.x\t{01020304-0506-0708-090a-0b0c0d0e0f10}\t3\ta "
        "b.pdb\tstart\t12\t77\t\r\n"
        "\r\n"
        "8\t4096\t0x10\t\\b",
        "{\"pid\":4, \"base\" : "
        "\"0x7ff000000000\",\"size\":4096,\"path\":\"\\\\Device\\\\a\\u00e4.x\",\"age\":3,\"unload\":12,"
        "\"guid\":\"01020304-0506-0708-090A-0B0C0D0E0F10\",\"pdb\":\"a\\u0020b.pdb\",\"load\":\"start\",\"timestamp\":"
        "77,\"name\":null}\n"
        "{\"pid\":8,\"base\":4096,\"size\":\"0x10\",\"path\":\"\\\\b\"} \n"};
    for (size_t i = 0; i < 2; i++) {
        ea_module_list *l;
        ea_err err;
        size_t count;
        if (read_list(&l, TEXTS[i], &err))
            fail_msg("%s", err.message);
        const ea_listed_module *x = ea_module_list_items(l, &count);
        assert_int_equal(count, 2);
        assert_int_equal(x[0].m.pid, 4);
        assert_int_equal(x[0].m.base, 0x7ff000000000);
        assert_int_equal(x[0].m.default_base, 0x7ff000000000);
        assert_int_equal(x[0].m.size_bytes, 4096);
        assert_string_equal(x[0].m.path, "\\Device\\a\xc3\xa4.x");
        assert_string_equal(x[0].m.original_name, "a\xc3\xa4.x");
        assert_int_equal(x[0].m.has_pdb, 1);
        assert_int_equal(x[0].m.pdb_guid.bytes[0], 4);
        assert_int_equal(x[0].m.pdb_age, 3);
        assert_string_equal(x[0].m.pdb_path, "a b.pdb");
        assert_string_equal(x[0].load, "start");
        assert_string_equal(x[0].unload, "12");
        assert_int_equal(x[0].m.timestamp, 77);
        assert_int_equal(x[1].m.has_pdb, 0);
        assert_string_equal(x[1].m.pdb_path, "");
        assert_null(x[1].load);
        assert_null(x[1].unload);
        assert_int_equal(x[1].line, i == 0 ? 4 : 2);
        ea_module_list_destroy(l);
    }
}

static void characters_of_json(void **state) {
    (void)state;
    ea_module_list *l;
    ea_err err;
    size_t count;
    assert_int_equal(
        read_list(&l, "{\"pid\":1,\"base\":1,\"size\":1,\"path\":\"\\\\\\ud83d\\ude00\\u20ac\\/\\\"\\t\\n\"}", &err),
        0);
    assert_string_equal(ea_module_list_items(l, &count)->m.path, "\\\xf0\x9f\x98\x80\xe2\x82\xac/\"\t\n");
    ea_module_list_destroy(l);
}

static void mistakes(void **state) {
    (void)state;
    static const char HEAD[] = "pid\tbase\tsize\tpath\n";

    static const struct {
        const char *text, *says;
    } CASES[] = {
        {"pid\tbase\tsize\n1\t1\t1", "line 2: expected an NT path"},
        {"pid\tcolour", "line 1: no column is called colour"},
        {"pid\tpid", "twice"},
        {"pid\tbase\tsize\tpath\n1\t1\t1\t\\a\t5", "more cells"},
        {"pid\tbase\tsize\tpath\n\t1\t1\t\\a", "lacks the column pid"},
        {"pid\tbase\tsize\tpath\n4294967296\t1\t1\t\\a", "column pid"},
        {"pid\tbase\tsize\tpath\n1\t1\t1\tC:\\a", "NT path"},
        {"pid\tbase\tsize\tpath\tage\n1\t1\t1\t\\a\t4", "go together"},
        {"{", "expected an object"},
        {"{\"pid\":1,}", "expected an object"},
        {"{\"pid\":1 \"base\":1}", "expected an object"},
        {"{\"pid\":[1]}", "expected an object"},
        {"{\"pid\":true}", "expected an object"},
        {"{\"path\":\"\\x\"}", "expected an object"},
        {"{\"path\":\"\\u12g4\"}", "expected an object"},
        {"{\"path\":\"\\ud83dx\\u0041\"}", "lacks the column"},
        {"{\"path\":\"\\ud83d\\u0041\"}", "expected an object"},
        {"{\"path\":\"\\u0000\"}", "a NUL"},
        {"{\"path\":\"\\\\a", "expected an object"},
        {"{\"pid\":1,\"pid\":2}", "twice"},
        {"{} x", "expected nothing"},
    };

    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        ea_module_list *l = NULL;
        ea_err err = {0};
        int rc = read_list(&l, CASES[i].text, &err);
        if (rc != EA_EINVAL || !strstr(err.message, CASES[i].says))
            fail_msg("%s: %d, %s", CASES[i].text, rc, err.message);
    }
    ea_module_list *l;
    ea_err err;
    size_t count;
    assert_int_equal(read_list(&l, HEAD, &err), 0);
    (void)ea_module_list_items(l, &count);
    assert_int_equal(count, 0);
    ea_module_list_destroy(l);
}

typedef struct taken {
    unsigned count;
    uint8_t opcodes[3], headers[3];
    size_t bytes[3];
} taken;

static int take(void *arg, const ea_record *r) {
    taken *t = arg;
    assert_in_range(t->count, 0, 2);
    assert_int_equal(r->pid, 4712);
    assert_int_equal(r->cpu, 3);
    assert_int_equal(r->time_raw, 99);
    t->opcodes[t->count] = r->opcode;
    t->headers[t->count] = r->header_type;
    t->bytes[t->count++] = r->payload_bytes;
    return 0;
}

static void records(void **state) {
    (void)state;

    enum { LONG = 40000 };

    ea_module m = {.pid = 4712,
                   .base = 0x400000,
                   .size_bytes = 0x1000,
                   .path = "\\a",
                   .has_pdb = 1,
                   .pdb_path = "b",
                   .original_name = "c"};
    ea_module_place place = {.verb = EA_MODULE_LOAD, .time_raw = 99, .cpu = 3, .version = 3, .pointer_size = 8};
    taken t = {0};
    ea_err err;
    assert_int_equal(ea_module_records(&m, &place, take, &t, &err), 0);
    assert_int_equal(t.count, 3);
    assert_memory_equal(t.opcodes, "\0\x24\x0a", 3);
    assert_int_equal(t.headers[0], EA_HEADER_FULL64);
    assert_int_equal(t.headers[2], EA_HEADER_SYSTEM64);
    assert_int_equal(t.bytes[0], 8 + 8 + 4 + 4 + 4);
    assert_int_equal(t.bytes[1], 8 + 4 + 16 + 4 + 2);
    assert_int_equal(t.bytes[2], 8 + 8 + 4 + 4 + 4 + 4 + 8 + 16 + 6);
    place.pointer_size = 4;
    m.has_pdb = 0;
    t = (taken){0};
    assert_int_equal(ea_module_records(&m, &place, take, &t, &err), 0);
    assert_memory_equal(t.opcodes, "\0\x20\x0a", 3);
    assert_int_equal(t.headers[0], EA_HEADER_FULL32);
    assert_int_equal(t.headers[2], EA_HEADER_SYSTEM32);
    assert_int_equal(t.bytes[2], 4 + 4 + 4 + 4 + 4 + 4 + 4 + 16 + 6);
    m.base = UINT64_C(0x7ff000000000);
    t = (taken){0};
    assert_int_equal(ea_module_records(&m, &place, take, &t, &err), EA_EINVAL);
    assert_int_equal(t.count, 0);
    place.pointer_size = 8;
    char *path = malloc(LONG + 1);
    assert_non_null(path);
    memset(path, '\\', LONG);
    path[LONG] = 0;
    m.path = path;
    assert_int_equal(ea_module_records(&m, &place, take, &t, &err), EA_ELIMIT);
    free(path);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_forms),
        cmocka_unit_test(characters_of_json),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
