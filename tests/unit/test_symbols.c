/* Symbols without a compiler: PDBs built by hand, each cut and flipped; symbol paths, cabinets, answers of a
 * symbolizer, kept results, the cache. What clang's PDBs and servers give: tests/e2e/test_symbols.py. */
#include "collector/symbols/cabinet.h"
#include "collector/symbols/pe_image.h"
#include "collector/symbols/symbol_results.h"
#include "collector/symbols/symbols.h"
#include "proto/base/map.h"
#include "tests/unit/pdb_samples.h"
#include "tests/unit/scratch.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utime.h>
#include <zlib.h>

#include <cmocka.h>

static ec_pdb *open_sample(const ea_text *file) {
    ec_pdb *pdb = NULL;
    ea_err err = {0};
    assert_int_equal(ec_pdb_open_bytes(&pdb, "sample", (const uint8_t *)file->data, file->len_bytes, &err), 0);
    if (ec_pdb_load(pdb, &err))
        fail_msg("%s", err.message);
    return pdb;
}

/* "NAME+OFFSET", or "?" */
static const char *name_of(const ec_pdb *pdb, uint32_t rva) {
    static char text[128];
    ec_pdb_symbol s;
    if (!ec_pdb_find(pdb, rva, &s))
        return "?";
    snprintf(text, sizeof text, "%s+%x", s.name, rva - s.rva);
    return text;
}

static void test_pdb(void **state) {
    ea_text file;
    (void)state;
    ea_text_init(&file);
    pdb_sample_build(&file, &PDB_PLAIN);
    ec_pdb *pdb = open_sample(&file);
    ec_pdb_id id = ec_pdb_identity(pdb);
    assert_int_equal(id.age, 2);
    assert_true(ea_guid_equal(&id.guid, &PDB_PLAIN.guid));
    assert_int_equal(ec_pdb_symbol_count(pdb), 4);
    assert_string_equal(name_of(pdb, 0xfff), "?");
    assert_string_equal(name_of(pdb, 0x1000), "alpha+0"); /* the procedure, not its second public name */
    assert_string_equal(name_of(pdb, 0x103f), "alpha+3f");
    assert_string_equal(name_of(pdb, 0x1040), "?"); /* after its end */
    assert_string_equal(name_of(pdb, 0x10bf), "beta+3f");
    assert_string_equal(name_of(pdb, 0x10c0), "?");
    assert_string_equal(name_of(pdb, 0x3fff), "asm_entry+1fff"); /* a public says no length */
    assert_string_equal(name_of(pdb, 0x4000), "?");              /* after the section */
    assert_string_equal(name_of(pdb, 0x5010), "_counter+0");
    assert_string_equal(name_of(pdb, 0x500f), "?"); /* asm_entry is in another section */
    assert_true(ec_pdb_has_rva(pdb, 0x5fff) && !ec_pdb_has_rva(pdb, 0x6000));
    ec_pdb_close(pdb);
    ea_text_deinit(&file);
}

static void test_omap(void **state) {
    ea_text file;
    pdb_sample sample = PDB_PLAIN;
    uint32_t source = 0;
    size_t count;
    (void)state;
    sample.has_omap = 1;
    ea_text_init(&file);
    pdb_sample_build(&file, &sample);
    ec_pdb *pdb = open_sample(&file);
    assert_string_equal(name_of(pdb, 0x1010), "alpha+10");
    assert_string_equal(name_of(pdb, 0x2800), "asm_entry+0");
    assert_string_equal(name_of(pdb, 0x2000), "?");
    assert_int_equal(ec_pdb_source_rva(pdb, 0x2810, &source), 1);
    assert_int_equal(source, 0x2010);
    assert_int_equal(ec_pdb_source_rva(pdb, 0x2100, &source), 0); /* came from nowhere */
    assert_int_equal(ec_pdb_source_rva(pdb, 0xfff, &source), 0);
    assert_int_equal(ea_load32(ec_pdb_source_sections(pdb, &count) + 8), 0x2000);
    assert_int_equal(count, 2);
    ec_pdb_close(pdb);
    ea_text_deinit(&file);
}

/* Errors for files that are no valid PDB. */
static void test_refused(void **state) {
    static const struct {
        const char *begin;
        int code;
    } CASES[] = {
        {"", EA_EFORMAT},
        {"BSJB\1", EA_EFORMAT},
        {"Microsoft C/C++ program database 2.00\r\n", EA_EFORMAT},
        {"Microsoft C/C++ MSF 7.00\r\n\x1a\x44\x53", EA_EFORMAT},
    };

    ec_pdb *pdb = NULL;
    ea_text file;
    pdb_sample sample = PDB_PLAIN;
    ea_err err;
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        assert_int_equal(
            ec_pdb_open_bytes(&pdb, "x.pdb", (const uint8_t *)CASES[i].begin, strlen(CASES[i].begin), &err),
            CASES[i].code);
        assert_non_null(strstr(err.message, "x.pdb"));
    }
    sample.has_sections = 0;
    ea_text_init(&file);
    pdb_sample_build(&file, &sample);
    assert_int_equal(ec_pdb_open_bytes(&pdb, "x.pdb", (const uint8_t *)file.data, file.len_bytes, &err), 0);
    assert_int_equal(ec_pdb_load(pdb, &err), EA_EUNSUPPORTED);
    ec_pdb_close(pdb);
    assert_int_equal(ec_pdb_open_bytes(&pdb, "x.pdb", (const uint8_t *)file.data, file.len_bytes - 1, &err),
                     EA_ETRUNCATED);
    ea_text_deinit(&file);
}

/* Reads whatever it is, to its end. Returns how it went. */
static int try_pdb(const uint8_t *data, size_t len_bytes) {
    ec_pdb *pdb;
    ec_pdb_symbol symbol;
    ea_text image;
    ea_err err = {0};
    int rc = ec_pdb_open_bytes(&pdb, "x", data, len_bytes, &err);
    if (rc)
        return rc;
    rc = ec_pdb_load(pdb, &err);
    for (uint32_t rva = 0xf00; !rc && rva < 0x6100; rva += 0x10) {
        uint32_t source;
        if (ec_pdb_find(pdb, rva, &symbol))
            assert_true(strlen(symbol.name) > 0 && symbol.rva <= rva);
        (void)ec_pdb_source_rva(pdb, rva, &source);
    }
    if (!rc) {
        ea_text_init(&image);
        rc = ec_pe_stand_in(&image, pdb, "11", &err);
        ea_text_deinit(&image);
    }
    if (rc)
        assert_true(err.message[0] != 0 && !strchr(err.message, '\n'));
    ec_pdb_close(pdb);
    return rc;
}

static void test_damage(void **state) {
    static const uint8_t FLIPS[] = {0x01, 0x80, 0xff};
    ea_text file;
    pdb_sample sample = PDB_PLAIN;
    unsigned whole = 0, refused = 0;
    (void)state;
    sample.has_omap = 1;
    ea_text_init(&file);
    pdb_sample_build(&file, &sample);
    uint8_t *data = (uint8_t *)file.data;
    assert_int_equal(try_pdb(data, file.len_bytes), 0);
    for (size_t n = 0; n < file.len_bytes; n++)
        assert_true(try_pdb(data, n) != 0);
    for (uint32_t blocks = 1; blocks < file.len_bytes / PDB_BLOCK; blocks++) { /* cut, and honest about it */
        ea_store32(data + 40, blocks);
        assert_true(try_pdb(data, (size_t)blocks * PDB_BLOCK) != 0);
    }
    ea_store32(data + 40, (uint32_t)(file.len_bytes / PDB_BLOCK));
    for (size_t i = 0; i < file.len_bytes; i++)
        for (size_t k = 0; k < sizeof FLIPS; k++) {
            data[i] ^= FLIPS[k];
            if (try_pdb(data, file.len_bytes))
                refused++;
            else
                whole++;
            data[i] ^= FLIPS[k];
        }
    assert_true(whole > 0 && refused > 0);
    ea_text_deinit(&file);
}

static void test_stand_in(void **state) {
    static const uint16_t MACHINES[] = {0x8664, 0x14c, 0xaa64};
    (void)state;
    for (size_t i = 0; i < sizeof MACHINES / sizeof *MACHINES; i++) {
        ea_text file, image;
        pdb_sample sample = PDB_PLAIN;
        ec_pe_identity id;
        ea_err err = {0};
        sample.machine = MACHINES[i];
        ea_text_init(&file);
        ea_text_init(&image);
        pdb_sample_build(&file, &sample);
        ec_pdb *pdb = open_sample(&file);
        assert_int_equal(ec_pdb_machine(pdb), MACHINES[i]);
        assert_int_equal(ec_pe_stand_in(&image, pdb, "name.pdb", &err), 0);
        assert_int_equal(ea_path_write_all(scratch_path("image"), image.data, image.len_bytes, 0, &err), 0);
        assert_int_equal(ec_pe_read(scratch_path("image"), &id, &err), 0);
        assert_string_equal(id.pdb_path, "name.pdb");
        assert_int_equal(id.pdb.age, sample.age);
        assert_true(ea_guid_equal(&id.pdb.guid, &sample.guid));
        for (size_t n = 0; n < image.len_bytes; n += 7) { /* its reader, cut and flipped */
            ec_pe_identity other;
            int rc;
            image.data[n] ^= 0x41;
            assert_int_equal(ea_path_write_all(scratch_path("image"), image.data, image.len_bytes, 0, &err), 0);
            image.data[n] ^= 0x41;
            rc = ec_pe_read(scratch_path("image"), &other, &err);
            assert_true(rc == 0 || err.message[0]);
            assert_int_equal(ea_path_write_all(scratch_path("image"), image.data, n, 0, &err), 0);
            rc = ec_pe_read(scratch_path("image"), &other, &err);
            assert_true(rc != 0 || n >= 512 + 28 + 24 + sizeof "name.pdb"); /* then there is padding */
        }
        ec_pdb_close(pdb);
        ea_text_deinit(&file);
        ea_text_deinit(&image);
    }
}

static void test_keys(void **state) {
    char key[EC_SYMBOL_KEY_MAX + 1];
    ec_pdb_id id = {PDB_PLAIN.guid, 0xab}, back;
    static const char *const BAD[] = {"", "1122334455667788", "11223344556677889 AABBCCDDEEFF01AB",
                                      "1122334455667788999AABBCCDDEEFF01000000000ab",
                                      "x1223344556677889 9AABBCCDDEEFF0101"};
    static const char *const NAMES[] = {"", ".", "..", ".hidden", "a/b", "a\\b", "a:b", "a*", "a?", "a ", "a.", "a\nb"};
    (void)state;
    ec_symbol_pdb_key(&id, key);
    assert_string_equal(key, "112233445566778899AABBCCDDEEFF01AB");
    assert_int_equal(ec_symbol_pdb_key_parse(key, &back), 0);
    assert_true(ea_guid_equal(&back.guid, &id.guid) && back.age == id.age);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_int_equal(ec_symbol_pdb_key_parse(BAD[i], &back), EA_EFORMAT);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        assert_false(ec_symbol_name_ok(NAMES[i]));
    assert_true(ec_symbol_name_ok("ntkrnlmp.pdb") && ec_symbol_name_ok("Microsoft.Ä b.ni.pdb"));
}

/* A path as "[s:/a s:/b h:https://x] [f:/c]". */
static const char *parse_path(const char *text) {
    static char out[512];
    ec_symbol_path p;
    ea_err err = {0};
    size_t n = 0;
    if (ec_symbol_path_init(&p, text, "/default", &err)) {
        snprintf(out, sizeof out, "%s", ea_code_name(err.code));
        return out;
    }
    out[0] = 0;
    for (size_t i = 0; i < p.count; i++) {
        n += (size_t)snprintf(out + n, sizeof out - n, i ? " [" : "[");
        for (size_t k = 0; k < p.chains[i].count; k++)
            n += (size_t)snprintf(out + n, sizeof out - n, "%s%c:%s", k ? " " : "", "shf"[p.chains[i].places[k].kind],
                                  p.chains[i].places[k].where);
        n += (size_t)snprintf(out + n, sizeof out - n, "]");
    }
    ec_symbol_path_deinit(&p);
    return out;
}

static void test_paths(void **state) {
    (void)state;
    assert_string_equal(parse_path(""), "");
    assert_string_equal(parse_path("/a/;;/b;"), "[f:/a] [f:/b]");
    assert_string_equal(parse_path("srv*/a*/b/*https://x/y/"), "[s:/a s:/b h:https://x/y]");
    assert_string_equal(parse_path("SRV**http://x"), "[s:/default h:http://x]");
    assert_string_equal(parse_path("srv*http://x"), "[s:/default h:http://x]");
    assert_string_equal(parse_path("symsrv*symsrv.dll*/a*http://x"), "[s:/a h:http://x]");
    assert_string_equal(parse_path("/p;cache*/c;/q;srv*/a"), "[f:/p] [s:/c f:/q] [s:/c s:/a]");
    assert_string_equal(parse_path("cache*;/q"), "[s:/default f:/q]");
    assert_string_equal(parse_path("cache*/c;SYMSRV*symsrv.dll*/a**https://x"), "[s:/c s:/a s:/default h:https://x]");
    assert_string_equal(parse_path("cache*/c;/q;cache*/d;srv*https://x"), "[s:/c f:/q] [s:/d h:https://x]");
    assert_string_equal(parse_path("srv*"), "[s:/default h:https://msdl.microsoft.com/download/symbols]");
    assert_string_equal(parse_path("/p;cache*/c;srv*"), "[f:/p] [s:/c h:https://msdl.microsoft.com/download/symbols]");
    assert_string_equal(parse_path("srv*http://x*/a"), "EA_EUSAGE");
    assert_string_equal(parse_path("srv*ftp://x"), "EA_EUSAGE");
    assert_string_equal(parse_path("srv*\\\\server\\share"), "EA_EUSAGE");
    assert_string_equal(parse_path("srv*C:\\Symbols*https://x"), "EA_EUSAGE");
    assert_string_equal(parse_path("cache*c:/sym;srv*https://x"), "EA_EUSAGE");
    assert_string_equal(parse_path("cache*\\\\server\\share"), "EA_EUSAGE");
    assert_string_equal(parse_path("/a;D:\\build"), "EA_EUSAGE");
    assert_string_equal(parse_path("\\\\server\\share"), "EA_EUSAGE");
    assert_string_equal(parse_path("https://x"), "EA_EUSAGE");
    assert_string_equal(parse_path("symsrv*symsrv.dll"), "EA_EUSAGE");
    assert_string_equal(parse_path("srv*1*2*3*4*5*6*7*8*9*10*11"), "EA_EUSAGE");
}

/* ---- cabinets ---- */

static void cabinet_block(ea_text *t, const uint8_t *packed, size_t packed_bytes, size_t plain_bytes) {
    pdb_u32(t, 0);
    pdb_u16(t, (unsigned)packed_bytes);
    pdb_u16(t, (unsigned)plain_bytes);
    ea_text_add(t, packed, packed_bytes);
}

/* A cabinet with one file: each block of MSZIP uses the one before as its dictionary. */
static void cabinet_build(ea_text *out, const uint8_t *data, size_t len_bytes, unsigned method) {
    enum { BLOCK = 32768 };

    size_t count = (len_bytes + BLOCK - 1) / BLOCK;
    ea_text_add(out, "MSCF\0\0\0", 8);
    for (int i = 0; i < 2; i++)
        pdb_u32(out, 0);
    pdb_u32(out, 44); /* where the file is */
    pdb_u32(out, 0);
    pdb_u16(out, 0x0103);
    pdb_u16(out, 1);
    pdb_u16(out, 1);
    pdb_u16(out, 0);
    pdb_u32(out, 0);
    pdb_u32(out, 44 + 16 + 6);
    pdb_u16(out, (unsigned)count);
    pdb_u16(out, method);
    pdb_u32(out, (uint32_t)len_bytes);
    for (int i = 0; i < 3; i++)
        pdb_u32(out, 0);
    ea_text_add(out, "a.pdb", 6);
    for (size_t at = 0; at < len_bytes; at += BLOCK) {
        size_t n = len_bytes - at < BLOCK ? len_bytes - at : BLOCK;
        uint8_t packed[2 * BLOCK] = {'C', 'K'};
        if (method == 0) {
            cabinet_block(out, data + at, n, n);
            continue;
        }
        z_stream z = {0};
        assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
        if (at)
            assert_int_equal(deflateSetDictionary(&z, data + at - BLOCK, BLOCK), Z_OK);
        z.next_in = (Bytef *)(uintptr_t)(data + at);
        z.avail_in = (uInt)n;
        z.next_out = packed + 2;
        z.avail_out = sizeof packed - 2;
        assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
        cabinet_block(out, packed, 2 + z.total_out, n);
        deflateEnd(&z);
    }
}

static int collect(void *arg, const void *data, size_t len_bytes) {
    ea_text_add(arg, data, len_bytes);
    return 0;
}

static void test_cabinets(void **state) {
    enum { BYTES = 100000 };

    static uint8_t data[BYTES];
    (void)state;
    for (size_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * i >> 7);
    for (unsigned method = 0; method < 4; method++) {
        ea_text cabinet, out;
        ea_err err = {0};
        ea_text_init(&cabinet);
        ea_text_init(&out);
        cabinet_build(&cabinet, data, BYTES, method);
        int rc =
            ec_cabinet_extract_bytes("c", (const uint8_t *)cabinet.data, cabinet.len_bytes, BYTES, collect, &out, &err);
        if (method > 1) {
            assert_int_equal(rc, EA_EUNSUPPORTED);
        } else {
            assert_int_equal(rc, 0);
            assert_int_equal(out.len_bytes, BYTES);
            assert_memory_equal(out.data, data, BYTES);
            rc = ec_cabinet_extract_bytes("c", (const uint8_t *)cabinet.data, cabinet.len_bytes, BYTES - 1, collect,
                                          &out, &err);
            assert_int_equal(rc, EA_ELIMIT);
            for (size_t n = 0; n < cabinet.len_bytes; n += 97) {
                ea_text_clear(&out);
                rc = ec_cabinet_extract_bytes("c", (const uint8_t *)cabinet.data, n, BYTES, collect, &out, &err);
                assert_true(rc < 0 && err.message[0]);
                cabinet.data[n] ^= 0x55;
                ea_text_clear(&out);
                rc = ec_cabinet_extract_bytes("c", (const uint8_t *)cabinet.data, cabinet.len_bytes, BYTES, collect,
                                              &out, &err);
                cabinet.data[n] ^= 0x55;
                assert_true(rc || out.len_bytes <= BYTES);
            }
        }
        ea_text_deinit(&cabinet);
        ea_text_deinit(&out);
    }
}

/* ---- answers ---- */

static void test_answers(void **state) {
    static const char GOOD[] = "{\"Address\":\"0x1\",\"Symbol\":[{\"Column\":0,\"FileName\":\"C:\\\\a \\u00e4.c\","
                               "\"FunctionName\":\"f<\\\"\\ud83d\\ude00\\\">\",\"Line\":7,\"More\":[1,{\"a\":null}]},"
                               "{\"FunctionName\":\"g\",\"FileName\":\"\",\"Line\":0},{\"FunctionName\":\"\"}]}";
    static const char *const BAD[] = {"",
                                      "{}",
                                      "[]",
                                      "{\"Symbol\":[}",
                                      "{\"Symbol\":[{\"Line\":-1}]}",
                                      "{\"Symbol\":[]} x",
                                      "{\"Symbol\":\"\\q\"}",
                                      "{\"Symbol\":[{\"FileName\":\"\\u12\"}]}",
                                      "{\"a\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]],\"Symbol\":[]}"};
    static const char ERROR_LINE[] = "{\"Error\":{\"Message\":\"no such file\"}}";
    ec_frames f;
    ea_err err = {0};
    (void)state;
    ec_frames_init(&f);
    assert_int_equal(ec_answer_read(&f, GOOD, sizeof GOOD - 1, &err), 0);
    assert_int_equal(f.count, 2);
    assert_string_equal(f.items[0].function, "f<\"\xf0\x9f\x98\x80\">");
    assert_string_equal(f.items[0].file, "C:\\a \xc3\xa4.c");
    assert_int_equal(f.items[0].line, 7);
    assert_string_equal(f.items[1].function, "g");
    for (size_t n = 0; n < sizeof GOOD - 1; n++)
        assert_int_equal(ec_answer_read(&f, GOOD, n, &err), EA_EFORMAT);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_int_equal(ec_answer_read(&f, BAD[i], strlen(BAD[i]), &err), EA_EFORMAT);
    assert_int_equal(ec_answer_read(&f, ERROR_LINE, sizeof ERROR_LINE - 1, &err), EA_EREFUSED);
    assert_non_null(strstr(err.message, "no such file"));
    assert_int_equal(f.count, 0);
    for (int i = 0; i < EC_FRAMES_MAX + 10; i++)
        assert_int_equal(ec_frames_add(&f, "function", 8, "file", 4, (uint32_t)i), 0);
    assert_int_equal(f.count, EC_FRAMES_MAX);
    assert_string_equal(f.items[0].function, "function");
    ec_frames_deinit(&f);
}

/* ---- what is kept ---- */

static void test_results(void **state) {
    const char *path = scratch_path("results.db");
    ec_symbol_results *r;
    ec_frames f, back;
    int64_t a = 0, b = 0;
    struct stat s;
    ea_err err = {0};
    (void)state;
    ec_frames_init(&f);
    ec_frames_init(&back);
    assert_int_equal(
        ea_path_write_all(path, "this is no database, and longer than a header of one, surely", 60, 0, &err), 0);
    assert_int_equal(ec_symbol_results_open(&r, path, 1 << 20, INT64_MAX / 2, &err), 0); /* made anew */
    assert_int_equal(ec_symbol_results_module(r, "a.pdb/1", &a, &err), 0);
    assert_int_equal(ec_symbol_results_module(r, "b.pdb/1", &b, &err), 0);
    assert_true(a != b);
    assert_int_equal(ec_frames_add(&f, "f", 1, "x.c", 3, 9), 0);
    assert_int_equal(ec_frames_add(&f, "g", 1, "", 0, 0), 0);
    f.has_offset = 1;
    f.offset_bytes = 0x1234;
    assert_int_equal(ec_symbol_results_put(r, a, 0x1000, &f, &err), 0);
    assert_int_equal(ec_symbol_results_get(r, b, 0x1000, &back, &err), 0);
    assert_int_equal(ec_symbol_results_get(r, a, 0x1000, &back, &err), 1);
    assert_int_equal(back.count, 2);
    assert_string_equal(back.items[0].file, "x.c");
    assert_int_equal(back.items[0].line, 9);
    assert_string_equal(back.items[1].function, "g");
    assert_true(back.has_offset && back.offset_bytes == 0x1234);
    for (uint32_t i = 0; i < 60000; i++) /* more than there is room for: what is older goes, this module stays usable */
        assert_int_equal(ec_symbol_results_put(r, b, i, &f, &err), 0);
    ec_symbol_results_close(r);
    assert_int_equal(ec_symbol_results_open(&r, path, 1 << 20, INT64_MAX / 2, &err), 0);
    assert_int_equal(ec_symbol_results_get(r, a, 0x1000, &back, &err), 0);
    ec_symbol_results_close(r);
    assert_int_equal(stat(path, &s), 0);
    assert_true(s.st_size < 8 << 20);
    assert_int_equal(ec_symbol_results_open(&r, path, 1 << 20, INT64_MAX / 2, &err), 0);
    assert_int_equal(ec_symbol_results_module(r, "c.pdb/1", &a, &err), 0);
    assert_int_equal(ec_symbol_results_put(r, a, 1, &f, &err), 0);
    ec_symbol_results_close(r);
    assert_int_equal(ec_symbol_results_open(&r, path, 1 << 20, -1000000000, &err), 0); /* used too long ago */
    assert_int_equal(ec_symbol_results_get(r, a, 1, &back, &err), 0);
    ec_symbol_results_close(r);
    ec_frames_deinit(&f);
    ec_frames_deinit(&back);
}

/* A PDB of that age in a store. */
static void put_pdb(const char *folder, uint32_t age, int is_packed) {
    char path[512], key[EC_SYMBOL_KEY_MAX + 1];
    pdb_sample sample = PDB_PLAIN;
    ec_pdb_id id = {sample.guid, age};
    ea_text file, cabinet;
    ea_err err = {0};
    sample.age = age;
    ea_text_init(&file);
    ea_text_init(&cabinet);
    pdb_sample_build(&file, &sample);
    ec_symbol_pdb_key(&id, key);
    snprintf(path, sizeof path, "%s/a.pdb/%s", folder, key);
    assert_int_equal(ea_path_make_dirs(path, &err), 0);
    snprintf(path, sizeof path, "%s/a.pdb/%s/%s", folder, key, is_packed ? "a.pd_" : "a.pdb");
    if (is_packed)
        cabinet_build(&cabinet, (const uint8_t *)file.data, file.len_bytes, 1);
    else
        ea_text_add(&cabinet, file.data, file.len_bytes);
    assert_int_equal(ea_path_write_all(path, cabinet.data, cabinet.len_bytes, 0, &err), 0);
    ea_text_deinit(&file);
    ea_text_deinit(&cabinet);
}

static int take_name(void *arg, const ec_symbol *symbol) {
    snprintf(arg, 64, "%s+%x", symbol->frame_count ? symbol->frames[0].function : "?", symbol->offset_bytes);
    return 0;
}

static int is_kept(const char *folder, uint32_t age) {
    char path[512], key[EC_SYMBOL_KEY_MAX + 1];
    ec_pdb_id id = {PDB_PLAIN.guid, age};
    ec_symbol_pdb_key(&id, key);
    snprintf(path, sizeof path, "%s/a.pdb/%s/a.pdb", folder, key);
    return ea_path_exists(path);
}

static void test_cache(void **state) {
    char cache[600], first[600], second[600], path[2000], name[64], from[800], to[800];
    ec_symbol_module module = {.pdb_name = "C:\\build\\a.pdb", .pdb = {PDB_PLAIN.guid, 2}};
    const uint32_t rva = 0x1004;
    ec_symbols *symbols;
    ea_err err = {0};
    (void)state;
    snprintf(cache, sizeof cache, "%s", scratch_path("cache"));
    snprintf(first, sizeof first, "%s", scratch_path("first"));
    snprintf(second, sizeof second, "%s", scratch_path("second"));
    snprintf(path, sizeof path, "srv*%s*%s", first, second);
    ec_symbols_options options = {.path = path, .folder = cache};
    put_pdb(second, 2, 0);
    put_pdb(second, 3, 1);
    assert_int_equal(ec_symbols_open(&symbols, &options, &err), 0);
    assert_int_equal(ec_symbols_resolve(symbols, &module, &rva, 1, take_name, name, NULL, &err), 0);
    assert_string_equal(name, "alpha+4");
    assert_true(is_kept(first, 2)); /* on its way */
    module.pdb.age = 3;             /* a cabinet */
    assert_int_equal(ec_symbols_resolve(symbols, &module, &rva, 1, take_name, name, NULL, &err), 0);
    assert_true(is_kept(first, 3) && !is_kept(second, 3));
    module.pdb.age = 4;
    assert_int_equal(ec_symbols_resolve(symbols, &module, &rva, 1, take_name, name, NULL, &err), EA_ENOTFOUND);
    module.pdb_name = "..";
    assert_int_equal(ec_symbols_resolve(symbols, &module, &rva, 1, take_name, name, NULL, &err), EA_EINVAL);
    module.pdb_name = NULL;
    assert_int_equal(ec_symbols_resolve(symbols, &module, &rva, 1, take_name, name, NULL, &err), EA_ENOTFOUND);
    assert_non_null(strstr(err.message, "no event said which PDB"));
    ec_symbols_close(symbols);

    /* a plain folder is a store, too, when it has the file pingme.txt */
    module = (ec_symbol_module){.pdb_name = "a.pdb", .pdb = {PDB_PLAIN.guid, 5}};
    put_pdb(second, 5, 0);
    options.path = second;
    for (int is_store = 0; is_store < 2; is_store++) {
        assert_int_equal(ec_symbols_open(&symbols, &options, &err), 0);
        assert_int_equal(ec_symbols_resolve(symbols, &module, &rva, 1, take_name, name, NULL, &err),
                         is_store ? 0 : EA_ENOTFOUND);
        ec_symbols_close(symbols);
        snprintf(from, sizeof from, "%s/pingme.txt", second);
        assert_int_equal(ea_path_write_all(from, "", 0, 0, &err), 0);
    }
    options.path = path;

    /* a file of another age under this one's name is refused, with both ages */
    module = (ec_symbol_module){.pdb_name = "a.pdb", .pdb = {PDB_PLAIN.guid, 9}};
    put_pdb(second, 9, 0);
    snprintf(from, sizeof from, "%s/a.pdb/112233445566778899AABBCCDDEEFF012/a.pdb", second);
    snprintf(to, sizeof to, "%s/a.pdb/112233445566778899AABBCCDDEEFF019/a.pdb", second);
    assert_int_equal(ea_path_rename(from, to, &err), 0);
    assert_int_equal(ec_symbols_open(&symbols, &options, &err), 0);
    assert_int_equal(ec_symbols_resolve(symbols, &module, &rva, 1, take_name, name, NULL, &err), EA_ENOTFOUND);
    assert_non_null(strstr(err.message, "its age is 2, expected 9"));
    ec_symbols_close(symbols);
}

/* No server listens at that port: the first file is tried three times, the next files not at all, until the time has
 * passed. */
static void test_silent_server(void **state) {
    char cache[600], path[800], name[64];
    const uint32_t rva = 0x1004;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t at_bytes = sizeof at;
    ec_symbols *symbols;
    ea_err err = {0};
    (void)state;
    int bound = socket(AF_INET, SOCK_STREAM, 0); /* reserves the port */
    assert_int_equal(bind(bound, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(bound, (struct sockaddr *)&at, &at_bytes), 0);
    snprintf(cache, sizeof cache, "%s", scratch_path("cache"));
    snprintf(path, sizeof path, "srv*http://127.0.0.1:%u/symbols", ntohs(at.sin_port));
    ec_symbols_options options = {.path = path, .folder = cache, .pause_ns = 1000000};
    for (int round = 0; round < 2; round++) {
        options.failure_ns = round ? 1 : 0; /* a nanosecond has gone by at once */
        assert_int_equal(ec_symbols_open(&symbols, &options, &err), 0);
        for (uint32_t age = 1; age <= 3; age++) {
            ec_symbol_module module = {.pdb_name = "a.pdb", .pdb = {PDB_PLAIN.guid, age + 3 * (uint32_t)round}};
            assert_int_equal(ec_symbols_resolve(symbols, &module, &rva, 1, take_name, name, NULL, &err), EA_ENOTFOUND);
            assert_int_equal(strstr(err.message, "gave no answer; it is asked again in") != NULL, age > 1 && !round);
        }
        ec_symbols_close(symbols);
    }
    close(bound);
}

/* The default cache removes the least recently used files and files that are too old. A store that the path names keeps
 * its files. */
static void test_bounds(void **state) {
    char cache[600], path[800], file[900];
    ec_symbols *symbols;
    ea_err err = {0};
    (void)state;
    snprintf(cache, sizeof cache, "%s", scratch_path("bounded"));
    snprintf(path, sizeof path, "srv*%s", scratch_path("other"));
    put_pdb(scratch_path("other"), 1, 0);
    for (uint32_t age = 1; age <= 5; age++) {
        put_pdb(cache, age, 0);
        snprintf(file, sizeof file, "%s/a.pdb/112233445566778899AABBCCDDEEFF01%u/a.pdb", cache, age);
        struct utimbuf when = {.actime = 0, .modtime = (time_t)(ea_utc_ns() / 1000000000 - 100 * (5 - (int)age))};
        assert_int_equal(utime(file, &when), 0);
    }
    struct stat s;
    assert_int_equal(stat(file, &s), 0);
    ec_symbols_options options = {
        .path = path, .folder = cache, .limit_cache_bytes = (uint64_t)s.st_size * 3, .limit_age_ns = (int64_t)1e12};
    assert_int_equal(ec_symbols_open(&symbols, &options, &err), 0);
    ec_symbols_close(symbols);
    for (uint32_t age = 1; age <= 5; age++)
        assert_int_equal(is_kept(cache, age), age >= 3);
    options.limit_age_ns = (int64_t)50e9;
    assert_int_equal(ec_symbols_open(&symbols, &options, &err), 0);
    ec_symbols_close(symbols);
    for (uint32_t age = 3; age <= 5; age++)
        assert_int_equal(is_kept(cache, age), age == 5);
    assert_true(is_kept(scratch_path("other"), 1));
}

/* 1 when the cache has a mark that a server lacked that PDB: nothing else is in its folder. */
static int is_marked(const char *cache, uint32_t age) {
    char folder[900];
    struct stat s;
    snprintf(folder, sizeof folder, "%s/a.pdb/112233445566778899AABBCCDDEEFF01%X", cache, age);
    return stat(folder, &s) == 0;
}

/* The number of marks for files that a server lacked is limited: a guest who requests names that no server has cannot
 * use up the disk's inodes. The oldest marks are removed, also when the path names another cache. */
static void test_absent_marks(void **state) {
    enum { MARKS = 8, LEFT = 7 };

    char cache[600], path[1600];
    ec_symbols *symbols;
    ea_err err = {0};
    char name[64];
    const uint32_t rva = 0x1004;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t at_bytes = sizeof at;
    struct stat s;
    (void)state;
    int bound = socket(AF_INET, SOCK_STREAM, 0); /* no server listens there */
    assert_int_equal(bind(bound, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(bound, (struct sockaddr *)&at, &at_bytes), 0);
    snprintf(cache, sizeof cache, "%s", scratch_path("marks"));
    snprintf(path, sizeof path, "srv*%s*http://127.0.0.1:%u/symbols", scratch_path("named"), ntohs(at.sin_port));
    const ec_symbols_options options = {
        .path = path, .folder = cache, .pause_ns = 1000000, .failure_ns = 1, .limit_absent = MARKS};
    assert_int_equal(ec_symbols_open(&symbols, &options, &err), 0);
    for (uint32_t age = 1; age <= MARKS + 1; age++) {
        const ec_symbol_module module = {.pdb_name = "a.pdb", .pdb = {PDB_PLAIN.guid, age}};
        assert_int_equal(ec_symbols_resolve(symbols, &module, &rva, 1, take_name, name, NULL, &err), EA_ENOTFOUND);
        assert_true(is_marked(cache, age));
        char file[1000];
        snprintf(file, sizeof file, "%s/a.pdb/112233445566778899AABBCCDDEEFF01%X/absent-%016" PRIx64, cache, age,
                 ea_hash64(strrchr(path, '*') + 1, strlen(strrchr(path, '*') + 1), 0));
        const struct utimbuf when = {.actime = 0, .modtime = (time_t)(ea_utc_ns() / 1000000000 - 1000 + age)};
        assert_int_equal(utime(file, &when), 0);
    }
    ec_symbols_close(symbols);
    for (uint32_t age = 1; age <= MARKS + 1; age++)
        assert_int_equal(is_marked(cache, age), age > MARKS + 1 - LEFT);
    assert_int_equal(stat(scratch_path("named"), &s), 0);
    snprintf(path, sizeof path, "%s/a.pdb", scratch_path("named"));
    assert_int_not_equal(stat(path, &s), 0); /* folders for files that did not come are removed */
    close(bound);
}

/* A clock that is set makes nothing older or younger by that: neither files nor kept answers, ahead or back. */
static void test_clock_set(void **state) {
    static const int64_t day_s = 24 * 3600;
    const int64_t now_s = ea_utc_ns() / 1000000000, limit_ns = 90 * day_s * 1000000000,
                  steps_s[] = {200 * day_s, -200 * day_s};
    char cache[600], file[900];
    ec_symbols *symbols;
    ea_err err = {0};
    (void)state;
    for (size_t i = 0; i < sizeof steps_s / sizeof *steps_s; i++) {
        snprintf(cache, sizeof cache, "%s", scratch_path(i ? "back" : "ahead"));
        for (uint32_t age = 1; age <= 3; age++) { /* used 85 days before the last use, 60 days before it, then */
            put_pdb(cache, age, 0);
            snprintf(file, sizeof file, "%s/a.pdb/112233445566778899AABBCCDDEEFF01%u/a.pdb", cache, age);
            const int64_t before_s = (age == 1 ? 85 : age == 2 ? 60 : 0) * day_s;
            const struct utimbuf when = {.actime = 0, .modtime = (time_t)(now_s - steps_s[i] - before_s)};
            assert_int_equal(utime(file, &when), 0);
        }
        const ec_symbols_options options = {.folder = cache, .limit_age_ns = limit_ns};
        for (int again = 0; again < 2; again++) {
            assert_int_equal(ec_symbols_open(&symbols, &options, &err), 0);
            ec_symbols_close(symbols);
            for (uint32_t age = 1; age <= 3; age++) /* 11 days may have passed, when the clock has gone on */
                assert_int_equal(is_kept(cache, age), age > 1 || i);
        }
    }
    assert_int_equal(ec_symbol_clock_step_ns(0, limit_ns), 0);
    assert_int_equal(ec_symbol_clock_step_ns(ea_utc_ns() - 11 * day_s * 1000000000, limit_ns), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pdb),
        cmocka_unit_test(test_omap),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_damage),
        cmocka_unit_test_setup_teardown(test_stand_in, scratch_make, scratch_clear),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_cabinets),
        cmocka_unit_test(test_answers),
        cmocka_unit_test_setup_teardown(test_results, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_cache, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_absent_marks, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_silent_server, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_bounds, scratch_make, scratch_clear),
        cmocka_unit_test_setup_teardown(test_clock_set, scratch_make, scratch_clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
