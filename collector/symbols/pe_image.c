/* Images. See pe_image.h. */
#include "collector/symbols/pe_image.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <string.h>

enum {
    DOS_BYTES = 64,
    COFF_BYTES = 24, /* with the signature before it */
    DEBUG_ENTRY_BYTES = 28,
    CODEVIEW = 2,
    RSDS_BYTES = 24,
    OPTIONAL_32 = 224, /* bytes of the optional header with sixteen directories */
    OPTIONAL_64 = 240,
    DIRECTORY_DEBUG = 6,
    PAGE = 4096,
    FILE_ALIGNMENT = 512,
    MACHINE_I386 = 0x14c,
    MACHINE_ARMNT = 0x1c4,
};

int ec_pe_read(const char *path, ec_pe_identity *ret, ea_err *err) {
    ea_file *f;
    ea_pe_facts facts;
    int rc = ea_file_open(&f, path, EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = ea_pe_read_file(f, path, &facts, err);
    ea_file_close(f);
    if (!rc && !facts.has_pdb)
        rc = ea_fail(err, EA_ENOTFOUND, "%s names no PDB: it was linked without debug information", path);
    if (rc)
        return rc;
    *ret = (ec_pe_identity){facts.timestamp, facts.size_bytes, {facts.pdb_guid, facts.pdb_age}, {0}};
    memcpy(ret->pdb_path, facts.pdb_path, sizeof ret->pdb_path);
    return 0;
}

/* ---- the image that stands for another ---- */

static void add_zeros(ea_text *t, size_t n) {
    static const uint8_t ZEROS[FILE_ALIGNMENT];
    for (; n > sizeof ZEROS; n -= sizeof ZEROS)
        ea_text_add(t, ZEROS, sizeof ZEROS);
    ea_text_add(t, ZEROS, n);
}

static uint64_t up(uint64_t n, uint64_t alignment) {
    return (n + alignment - 1) / alignment * alignment;
}

static void fill_optional(uint8_t *o, int is_64, uint32_t image_bytes, uint32_t header_bytes, uint32_t debug_rva) {
    ea_store16(o, is_64 ? 0x20b : 0x10b);
    if (is_64)
        ea_store64(o + 24, 0x140000000);
    else
        ea_store32(o + 28, 0x400000);
    ea_store32(o + 32, PAGE);
    ea_store32(o + 36, FILE_ALIGNMENT);
    ea_store16(o + 40, 6); /* operating system and subsystem: 6.0 */
    ea_store16(o + 48, 6);
    ea_store32(o + 56, image_bytes);
    ea_store32(o + 60, header_bytes);
    ea_store16(o + 68, 1);
    size_t directories = is_64 ? 112 : 96;
    ea_store32(o + directories - 4, 16);
    ea_store32(o + directories + 8 * (size_t)DIRECTORY_DEBUG, debug_rva);
    ea_store32(o + directories + 8 * (size_t)DIRECTORY_DEBUG + 4, DEBUG_ENTRY_BYTES);
}

int ec_pe_stand_in(ea_text *out, const ec_pdb *pdb, const char *pdb_name, ea_err *err) {
    size_t count = 0;
    const uint8_t *sections = ec_pdb_source_sections(pdb, &count);
    uint16_t machine = ec_pdb_machine(pdb);
    int is_64 = machine != MACHINE_I386 && machine != MACHINE_ARMNT;
    uint32_t optional_bytes = is_64 ? OPTIONAL_64 : OPTIONAL_32;
    uint64_t end = PAGE, headers = DOS_BYTES + COFF_BYTES + optional_bytes + (count + 1) * EC_PDB_SECTION_BYTES;
    uint32_t own_bytes = DEBUG_ENTRY_BYTES + RSDS_BYTES + (uint32_t)strlen(pdb_name) + 1;
    uint8_t dos[DOS_BYTES] = {'M', 'Z'}, coff[COFF_BYTES] = {'P', 'E'}, optional[OPTIONAL_64] = {0};
    uint8_t section[EC_PDB_SECTION_BYTES], entry[DEBUG_ENTRY_BYTES] = {0}, rsds[RSDS_BYTES] = {'R', 'S', 'D', 'S'};
    for (size_t i = 0; i < count; i++) {
        const uint8_t *s = sections + i * EC_PDB_SECTION_BYTES;
        uint64_t last = (uint64_t)ea_load32(s + 12) + ea_load32(s + 8);
        end = last > end ? last : end;
    }
    uint64_t own = up(end, PAGE);
    if (own + PAGE > INT32_MAX)
        return ea_fail(err, EA_ELIMIT, "a PDB of an image of %" PRIu64 " bytes; Windows loads at most 2 GiB", own);
    uint32_t raw = (uint32_t)up(headers, FILE_ALIGNMENT);
    ec_pdb_id id = ec_pdb_identity(pdb);
    ea_store32(dos + 60, DOS_BYTES);
    ea_store16(coff + 4, machine);
    ea_store16(coff + 6, (uint16_t)(count + 1));
    ea_store16(coff + 20, (uint16_t)optional_bytes);
    ea_store16(coff + 22, is_64 ? 0x22 : 0x102); /* executable; large addresses or 32 bits */
    fill_optional(optional, is_64, (uint32_t)own + PAGE, raw, (uint32_t)own);
    ea_text_add(out, dos, sizeof dos);
    ea_text_add(out, coff, sizeof coff);
    ea_text_add(out, optional, optional_bytes);
    for (size_t i = 0; i < count; i++) {
        memcpy(section, sections + i * EC_PDB_SECTION_BYTES, sizeof section);
        memset(section + 16, 0, 20); /* nothing of it is in the file */
        ea_text_add(out, section, sizeof section);
    }
    memset(section, 0, sizeof section);
    memcpy(section, ".debug", 6);
    ea_store32(section + 8, own_bytes);
    ea_store32(section + 12, (uint32_t)own);
    ea_store32(section + 16, (uint32_t)up(own_bytes, FILE_ALIGNMENT));
    ea_store32(section + 20, raw);
    ea_store32(section + 36, 0x40000040); /* initialised, readable */
    ea_text_add(out, section, sizeof section);
    add_zeros(out, raw - (size_t)headers);
    ea_store32(entry + 12, CODEVIEW);
    ea_store32(entry + 16, own_bytes - DEBUG_ENTRY_BYTES);
    ea_store32(entry + 20, (uint32_t)own + DEBUG_ENTRY_BYTES);
    ea_store32(entry + 24, raw + DEBUG_ENTRY_BYTES);
    memcpy(rsds + 4, id.guid.bytes, 16);
    ea_store32(rsds + 20, id.age);
    ea_text_add(out, entry, sizeof entry);
    ea_text_add(out, rsds, sizeof rsds);
    ea_text_add(out, pdb_name, strlen(pdb_name) + 1);
    add_zeros(out, (size_t)up(own_bytes, FILE_ALIGNMENT) - own_bytes);
    return out->failed ? ea_fail(err, EA_ENOMEM, "write an image that stands for another") : 0;
}
