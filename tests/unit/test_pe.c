/* The reader of PE images: an image of 32 and of 64 bits made by hand, what it is without each of its parts, cut at
 * every byte, and damaged so that its offsets lead nowhere or round in a circle. */
#include "proto/image/pe.h"
#include "tests/unit/pe_samples.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static uint8_t sample[PE_SAMPLE_BYTES];

static int read_sample(size_t len_bytes, ea_pe_facts *ret) {
    ea_err err = {0};
    uint8_t *copy = malloc(len_bytes ? len_bytes : 1); /* of the exact size: a sanitizer detects a read beyond it */
    assert_non_null(copy);
    memcpy(copy, sample, len_bytes);
    pe_bytes bytes = {copy, len_bytes};
    int rc = ea_pe_read(pe_bytes_read, &bytes, "sample", ret, &err);
    assert_true(!rc == !err.message[0]);
    free(copy);
    return rc;
}

static uint8_t *optional_at(size_t offset) {
    return sample + PE_SAMPLE_PE + 24 + offset;
}

static void test_whole(void **state) {
    (void)state;
    for (int is_64 = 0; is_64 < 2; is_64++) {
        ea_pe_facts f;
        char version[EA_PE_VERSION_TEXT_MAX];
        pe_sample_build(sample, is_64);
        assert_true(ea_pe_begins(sample, sizeof sample));
        assert_int_equal(read_sample(sizeof sample, &f), 0);
        assert_int_equal(f.timestamp, PE_SAMPLE_TIME);
        assert_int_equal(f.size_bytes, PE_SAMPLE_SIZE);
        assert_int_equal(f.checksum, PE_SAMPLE_CHECKSUM);
        assert_int_equal(f.machine, is_64 ? 0x8664 : 0x14c);
        assert_true(f.has_pdb && f.has_version);
        assert_true(ea_guid_equal(&f.pdb_guid, &PE_SAMPLE_GUID));
        assert_int_equal(f.pdb_age, PE_SAMPLE_AGE);
        assert_string_equal(f.pdb_path, PE_SAMPLE_PDB);
        ea_pe_version_text(&f, version);
        assert_string_equal(version, "10.1.19041.2965");
        assert_string_equal(f.company, PE_SAMPLE_COMPANY);
        assert_string_equal(f.product, PE_SAMPLE_PRODUCT);
        assert_string_equal(f.original_name, "");
    }
}

static void test_without(void **state) {
    ea_pe_facts f;
    char version[EA_PE_VERSION_TEXT_MAX];
    (void)state;
    pe_sample_build(sample, 1);
    ea_store32(optional_at(112 + 20), 0); /* no resources */
    assert_int_equal(read_sample(sizeof sample, &f), 0);
    ea_pe_version_text(&f, version);
    assert_true(f.has_pdb && !f.has_version && !version[0]);
    ea_store32(optional_at(112 + 52), 0); /* no debug directory */
    assert_int_equal(read_sample(sizeof sample, &f), 0);
    assert_true(!f.has_pdb && !f.pdb_path[0]);
    assert_int_equal(f.checksum, PE_SAMPLE_CHECKSUM);
    pe_sample_build(sample, 1);
    ea_store32(optional_at(108), 2); /* two directories: neither */
    assert_int_equal(read_sample(sizeof sample, &f), 0);
    assert_true(!f.has_pdb && !f.has_version);
    pe_sample_build(sample, 1);
    memcpy(sample + PE_SAMPLE_SECTION + PE_SAMPLE_RSDS, "NB10", 4); /* an older kind of PDB */
    assert_int_equal(read_sample(sizeof sample, &f), 0);
    assert_true(!f.has_pdb && f.has_version);
}

/* What a file ends before: its headers fail, its PDB fails, its version is only missing. */
static void test_cut(void **state) {
    const size_t headers = PE_SAMPLE_PE + 24 + 240 + 40;
    const size_t pdb = PE_SAMPLE_SECTION + PE_SAMPLE_RSDS + 24 + sizeof PE_SAMPLE_PDB;
    const size_t version = PE_SAMPLE_SECTION + PE_SAMPLE_FIXED + 16;
    (void)state;
    pe_sample_build(sample, 1);
    for (size_t n = 0; n < sizeof sample; n++) {
        ea_pe_facts f;
        assert_int_equal(read_sample(n, &f), n < pdb ? EA_ETRUNCATED : 0);
        assert_int_equal(f.checksum, n < headers - 40 ? 0 : PE_SAMPLE_CHECKSUM);
        assert_int_equal(f.has_pdb, n >= pdb);
        assert_int_equal(f.has_version, n >= version);
        assert_true(f.has_pdb || !f.pdb_path[0]);
    }
}

/* Strings that are longer than what is kept, and blocks that lead nowhere. */
static void test_strings(void **state) {
    uint8_t *version = sample + PE_SAMPLE_SECTION + PE_SAMPLE_FIXED - 40, *strings = version + 92;
    ea_pe_facts f;
    (void)state;
    for (size_t i = 0; i < 104; i += 2) { /* any length or letter of theirs: the numbers stay */
        pe_sample_build(sample, 1);
        ea_store16(strings + i, UINT16_MAX);
        assert_int_equal(read_sample(sizeof sample, &f), 0);
        assert_true(f.has_version && f.has_pdb);
        ea_store16(strings + i, 0);
        assert_int_equal(read_sample(sizeof sample, &f), 0);
        assert_true(f.has_version && f.has_pdb);
    }
    pe_sample_build(sample, 1);
    ea_store16(strings + 36, 0); /* a table of no bytes */
    assert_int_equal(read_sample(sizeof sample, &f), 0);
    assert_string_equal(f.company, "");
    static uint8_t large[PE_SAMPLE_BYTES + 2048];
    pe_sample_build(sample, 1);
    memcpy(large, sample, sizeof sample);
    size_t at = PE_SAMPLE_SECTION + PE_SAMPLE_FIXED - 40, end = sizeof large - 4, company = 92 + 36 + 24;
    uint8_t *v = large + at;
    ea_store32(large + PE_SAMPLE_SECTION + PE_SAMPLE_RESOURCE + 76, (uint32_t)(end - at));
    ea_store32(large + PE_SAMPLE_PE + 24 + 240 + 16, (uint32_t)(sizeof large - PE_SAMPLE_SECTION));
    ea_store16(v, (uint16_t)(end - at));
    ea_store16(v + 92, (uint16_t)(end - at - 92));
    ea_store16(v + 92 + 36, (uint16_t)(end - at - 92 - 36));
    ea_store16(v + company, (uint16_t)(end - at - company));
    for (size_t i = company + 32; at + i + 2 < end; i += 2)
        ea_store16(v + i, 0x20ac); /* three bytes of UTF-8: 255 bytes are 85 of them */
    pe_bytes bytes = {large, sizeof large};
    assert_int_equal(ea_pe_read(pe_bytes_read, &bytes, "large", &f, NULL), 0);
    assert_int_equal(strlen(f.company), EA_PE_STRING_MAX - 1);
}

static void test_hostile(void **state) {
    ea_pe_facts f;
    uint8_t *section = sample + PE_SAMPLE_SECTION, *resource = section + PE_SAMPLE_RESOURCE;
    (void)state;
    pe_sample_build(sample, 1);
    sample[1] = 'X';
    assert_int_equal(read_sample(sizeof sample, &f), EA_EFORMAT);
    pe_sample_build(sample, 1);
    ea_store32(sample + 60, 128);
    assert_int_equal(read_sample(sizeof sample, &f), EA_EFORMAT);
    ea_store32(sample + 60, UINT32_MAX);
    assert_int_equal(read_sample(sizeof sample, &f), EA_ETRUNCATED);
    pe_sample_build(sample, 1);
    ea_store16(sample + PE_SAMPLE_PE + 20, 67);
    assert_int_equal(read_sample(sizeof sample, &f), EA_ECORRUPT);
    pe_sample_build(sample, 1);
    ea_store16(sample + PE_SAMPLE_PE + 6, 97);
    assert_int_equal(read_sample(sizeof sample, &f), EA_ELIMIT);
    pe_sample_build(sample, 1);
    ea_store32(optional_at(112 + 48),
               UINT32_MAX); /* a debug directory in no section; the version is read all the same */
    assert_int_equal(read_sample(sizeof sample, &f), EA_ECORRUPT);
    assert_true(f.has_version);
    pe_sample_build(sample, 1);
    ea_store32(section + 16, UINT32_MAX); /* a name of 4 GiB */
    assert_int_equal(read_sample(sizeof sample, &f), EA_ETRUNCATED);
    pe_sample_build(sample, 1);
    ea_store32(resource + 20, 0x80000000u); /* its own directory again: three times, then it is no resource */
    assert_int_equal(read_sample(sizeof sample, &f), 0);
    assert_true(!f.has_version);
    pe_sample_build(sample, 1);
    ea_store32(section + PE_SAMPLE_FIXED, 0xfeef04bc);
    assert_int_equal(read_sample(sizeof sample, &f), 0);
    assert_true(f.has_pdb && !f.has_version);
    pe_sample_build(sample, 1);
    ea_store16(resource + 14, UINT16_MAX); /* more entries than the file has bytes */
    assert_int_equal(read_sample(sizeof sample, &f), 0);
    assert_true(!f.has_version);
    pe_sample_build(sample, 1);
    for (size_t i = 0; i < sizeof sample; i++) { /* any byte: no more than bounds and the message are judged */
        sample[i] ^= 0xff;
        (void)read_sample(sizeof sample, &f);
        assert_non_null(memchr(f.pdb_path, 0, sizeof f.pdb_path));
        sample[i] ^= 0xff;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole), cmocka_unit_test(test_without),
                                       cmocka_unit_test(test_cut), cmocka_unit_test(test_strings),
                                       cmocka_unit_test(test_hostile)};
    return cmocka_run_group_tests_name("pe", tests, NULL, NULL);
}
