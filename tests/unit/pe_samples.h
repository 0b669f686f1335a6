/* A PE image made by hand: one section with a debug directory, its RSDS, and a version resource. */
#ifndef EA_TESTS_UNIT_PE_SAMPLES_H
#define EA_TESTS_UNIT_PE_SAMPLES_H

#include "proto/base/bytes.h"

#include <string.h>

enum {
    PE_SAMPLE_BYTES = 1024,
    PE_SAMPLE_PE = 64,                    /* where its PE header is */
    PE_SAMPLE_SECTION = 512,              /* where its section is, in the file */
    PE_SAMPLE_RVA = 0x1000,               /* and in memory */
    PE_SAMPLE_RSDS = 28,                  /* in the section: its RSDS; the debug directory is before it */
    PE_SAMPLE_RESOURCE = 128,             /* in the section: the resource directory */
    PE_SAMPLE_FIXED = 128 + 72 + 16 + 40, /* in the section: VS_FIXEDFILEINFO */
    PE_SAMPLE_TIME = 0x5f000001,
    PE_SAMPLE_SIZE = 0x3000,
    PE_SAMPLE_CHECKSUM = 0xabcd,
    PE_SAMPLE_AGE = 7,
};

#define PE_SAMPLE_PDB     "C:\\obj\\sample.pdb"
#define PE_SAMPLE_COMPANY "Maker"
#define PE_SAMPLE_PRODUCT "\xc3\x84-1" /* one character of two bytes */
static const ea_guid PE_SAMPLE_GUID = EA_GUID(0x11223344, 0x5566, 0x7788, 0x99, 0xaa, 1, 2, 3, 4, 5, 6);

/* A block of a version resource, at a multiple of four bytes from its beginning; returns where its value begins. */
static inline size_t pe_sample_block(uint8_t *version, size_t at, const char *key) {
    size_t n = strlen(key);
    for (size_t i = 0; i < n; i++)
        ea_store16(version + at + 6 + 2 * i, (uint8_t)key[i]);
    return (at + 6 + 2 * n + 2 + 3) & ~(size_t)3;
}

/* Its strings: returns where they end. */
static inline size_t pe_sample_strings(uint8_t *version, size_t at) {
    static const uint16_t COMPANY[] = {'M', 'a', 'k', 'e', 'r', 0}, PRODUCT[] = {0xc4, '-', '1', 0};
    size_t table = pe_sample_block(version, at, "StringFileInfo");
    size_t company = pe_sample_block(version, table, "040904b0");
    size_t value = pe_sample_block(version, company, "CompanyName");
    for (size_t i = 0; i < sizeof COMPANY / sizeof *COMPANY; i++)
        ea_store16(version + value + 2 * i, COMPANY[i]);
    ea_store16(version + company, (uint16_t)(value + sizeof COMPANY - company));
    size_t product = value + sizeof COMPANY;
    value = pe_sample_block(version, product, "ProductName");
    for (size_t i = 0; i < sizeof PRODUCT / sizeof *PRODUCT; i++)
        ea_store16(version + value + 2 * i, PRODUCT[i]);
    size_t end = value + sizeof PRODUCT;
    ea_store16(version + product, (uint16_t)(end - product));
    ea_store16(version + table, (uint16_t)(end - table));
    ea_store16(version + at, (uint16_t)(end - at));
    return end;
}

/* Three resource directories of one entry each, one below the other, the entry of the data, and VS_VERSIONINFO. */
static inline void pe_sample_version(uint8_t *section) {
    static const char KEY[] = "VS_VERSION_INFO";
    static const uint32_t IDS[] = {16, 1, 1033};
    uint8_t *root = section + PE_SAMPLE_RESOURCE, *data = root + 72, *version = data + 16;
    for (uint32_t i = 0; i < 3; i++) {
        ea_store16(root + i * 24 + 14, 1);
        ea_store32(root + i * 24 + 16, IDS[i]);
        ea_store32(root + i * 24 + 20, i < 2 ? 0x80000000u | (i + 1) * 24 : 72);
    }
    ea_store32(data, PE_SAMPLE_RVA + PE_SAMPLE_RESOURCE + 72 + 16);
    size_t end = pe_sample_strings(version, 40 + 52);
    ea_store32(data + 4, (uint32_t)end);
    ea_store16(version, (uint16_t)end);
    ea_store16(version + 2, 52);
    for (size_t i = 0; i < sizeof KEY; i++)
        ea_store16(version + 6 + 2 * i, (uint8_t)KEY[i]);
    ea_store32(version + 40, 0xfeef04bdu);
    ea_store32(version + 48, 10 << 16 | 1);
    ea_store32(version + 52, 19041u << 16 | 2965);
}

static inline void pe_sample_build(uint8_t out[PE_SAMPLE_BYTES], int is_64) {
    size_t optional_bytes = is_64 ? 240 : 224;
    uint8_t *coff = out + PE_SAMPLE_PE, *optional = coff + 24, *directories = optional + (is_64 ? 112 : 96);
    uint8_t *header = optional + optional_bytes, *section = out + PE_SAMPLE_SECTION;
    memset(out, 0, PE_SAMPLE_BYTES);
    memcpy(out, "MZ", 2);
    ea_store32(out + 60, PE_SAMPLE_PE);
    memcpy(coff, "PE\0", 4);
    ea_store16(coff + 4, is_64 ? 0x8664 : 0x14c);
    ea_store16(coff + 6, 1);
    ea_store32(coff + 8, PE_SAMPLE_TIME);
    ea_store16(coff + 20, (uint16_t)optional_bytes);
    ea_store16(optional, is_64 ? 0x20b : 0x10b);
    ea_store32(optional + 56, PE_SAMPLE_SIZE);
    ea_store32(optional + 64, PE_SAMPLE_CHECKSUM);
    ea_store32(directories - 4, 16);
    ea_store32(directories + 16, PE_SAMPLE_RVA + PE_SAMPLE_RESOURCE);
    ea_store32(directories + 20, 72);
    ea_store32(directories + 48, PE_SAMPLE_RVA);
    ea_store32(directories + 52, 28);
    ea_store32(header + 8, 512);
    ea_store32(header + 12, PE_SAMPLE_RVA);
    ea_store32(header + 16, 512);
    ea_store32(header + 20, PE_SAMPLE_SECTION);
    ea_store32(section + 12, 2); /* CodeView */
    ea_store32(section + 16, 24 + sizeof PE_SAMPLE_PDB);
    ea_store32(section + 24, PE_SAMPLE_SECTION + PE_SAMPLE_RSDS);
    memcpy(section + PE_SAMPLE_RSDS, "RSDS", 4);
    memcpy(section + PE_SAMPLE_RSDS + 4, PE_SAMPLE_GUID.bytes, 16);
    ea_store32(section + PE_SAMPLE_RSDS + 20, PE_SAMPLE_AGE);
    memcpy(section + PE_SAMPLE_RSDS + 24, PE_SAMPLE_PDB, sizeof PE_SAMPLE_PDB);
    pe_sample_version(section);
}

/* An image in memory, for ea_pe_read. */
typedef struct pe_bytes {
    const uint8_t *data;
    size_t len_bytes;
} pe_bytes;

static inline int pe_bytes_read(void *arg, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read,
                                ea_err *err) {
    const pe_bytes *b = arg;
    size_t at = offset < b->len_bytes ? (size_t)offset : b->len_bytes;
    (void)err;
    *ret_read = len_bytes < b->len_bytes - at ? len_bytes : b->len_bytes - at;
    if (*ret_read)
        memcpy(out, b->data + at, *ret_read);
    return 0;
}

#endif
