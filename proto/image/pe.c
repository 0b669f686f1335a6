/* The reader of PE images. See pe.h. */
#include "pe.h"
#include "text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    DOS_BYTES = 64,
    COFF_BYTES = 24, /* with the signature before it */
    OPTIONAL_MIN = 68,
    OPTIONAL_MAX = 240, /* bytes of the optional header with sixteen directories, of 64 bits */
    SECTIONS_MAX = 96,  /* what Windows loads */
    DIRECTORY_RESOURCE = 2,
    DIRECTORY_DEBUG = 6,
    DEBUG_ENTRY_BYTES = 28,
    DEBUG_ENTRIES_MAX = 64,
    CODEVIEW = 2,
    RSDS_BYTES = 24,
    RESOURCE_HEAD_BYTES = 16, /* of a resource directory; then its entries */
    RESOURCE_ENTRY_BYTES = 8,
    RESOURCE_ENTRIES_MAX = 256,
    RT_VERSION = 16,
    FIXED_INFO_AT =
        40, /* in VS_VERSIONINFO: three u16, "VS_VERSION_INFO" and its NUL in UTF-16, two bytes of padding */
    VERSION_BYTES = FIXED_INFO_AT + 16,
    FIXED_INFO_BYTES = 52,
    STRINGS_AT = FIXED_INFO_AT + FIXED_INFO_BYTES, /* the blocks behind it */
    STRINGS_MAX = 16 << 10,                        /* bytes of a version resource that are looked at */
    BLOCK_HEAD_BYTES = 6,                          /* its length, the value's length, its type; then the key */
};
static const uint32_t SUBDIRECTORY = 0x80000000u, FIXED_INFO_SIGNATURE = 0xfeef04bdu;

/* An image that is being read. */
typedef struct image {
    ea_pe_read_fn read;
    void *arg;
    const char *name;
    size_t section_count;
    uint8_t sections[SECTIONS_MAX * EA_PE_SECTION_BYTES];
    uint8_t optional[OPTIONAL_MAX];
    size_t optional_bytes;
} image;

int ea_pe_begins(const void *data, size_t len_bytes) {
    return len_bytes >= 2 && memcmp(data, "MZ", 2) == 0;
}

static int read_exactly(const image *m, uint64_t offset, void *out, size_t n, ea_err *err) {
    size_t got = 0;
    int rc = m->read(m->arg, offset, out, n, &got, err);
    return !rc && got != n
               ? ea_fail(err, EA_ETRUNCATED, "%s is cut: a part of it at %" PRIu64 " is not there", m->name, offset)
               : rc;
}

/* Where in the file rva is: 1, or 0 when no section has it there. */
static int file_offset(const image *m, uint32_t rva, uint32_t *ret) {
    for (size_t i = 0; i < m->section_count; i++) {
        const uint8_t *s = m->sections + i * EA_PE_SECTION_BYTES;
        uint32_t begin = ea_load32(s + 12), raw_bytes = ea_load32(s + 16);
        if (rva >= begin && rva - begin < raw_bytes && rva - begin <= UINT32_MAX - ea_load32(s + 20)) {
            *ret = ea_load32(s + 20) + (rva - begin);
            return 1;
        }
    }
    return 0;
}

/* A data directory: 1, or 0 when the image has none of that number. */
static int directory(const image *m, uint32_t number, uint32_t *ret_rva, uint32_t *ret_bytes) {
    size_t first = ea_load16(m->optional) == 0x20b ? 112 : 96, at = first + 8 * (size_t)number;
    if (m->optional_bytes < at + 8 || ea_load32(m->optional + first - 4) <= number)
        return 0;
    *ret_rva = ea_load32(m->optional + at);
    *ret_bytes = ea_load32(m->optional + at + 4);
    return *ret_bytes != 0;
}

/* ---- the PDB ---- */

/* Looks through the debug directory for what names a PDB. */
static int read_debug(const image *m, ea_pe_facts *ret, ea_err *err) {
    uint8_t entry[DEBUG_ENTRY_BYTES], head[RSDS_BYTES];
    uint32_t rva, size, offset;
    if (!directory(m, DIRECTORY_DEBUG, &rva, &size))
        return 0;
    if (!file_offset(m, rva, &offset))
        return ea_fail(err, EA_ECORRUPT, "%s: its debug directory is in no section", m->name);
    for (uint32_t i = 0; i < size / DEBUG_ENTRY_BYTES && i < DEBUG_ENTRIES_MAX; i++) {
        int rc = read_exactly(m, (uint64_t)offset + (uint64_t)i * DEBUG_ENTRY_BYTES, entry, sizeof entry, err);
        if (rc)
            return rc;
        uint32_t n = ea_load32(entry + 16), at = ea_load32(entry + 24);
        if (ea_load32(entry + 12) != CODEVIEW || n <= RSDS_BYTES)
            continue;
        rc = read_exactly(m, at, head, sizeof head, err);
        if (rc)
            return rc;
        if (memcmp(head, "RSDS", 4) != 0)
            continue;
        size_t path_bytes = n - RSDS_BYTES < sizeof ret->pdb_path - 1 ? n - RSDS_BYTES : sizeof ret->pdb_path - 1;
        rc = read_exactly(m, (uint64_t)at + RSDS_BYTES, ret->pdb_path, path_bytes, err);
        if (rc) {
            memset(ret->pdb_path, 0, sizeof ret->pdb_path);
            return rc;
        }
        memcpy(ret->pdb_guid.bytes, head + 4, 16);
        ret->pdb_age = ea_load32(head + 20);
        ret->has_pdb = 1;
        return 0;
    }
    return 0;
}

/* ---- the version ---- */

/* The entry of the resource directory at offset that has this id (any: the first one): 1 and what it points to, or 0.
 */
static int resource_entry(const image *m, uint64_t offset, uint32_t id, int any, uint32_t *ret) {
    uint8_t head[RESOURCE_HEAD_BYTES], entries[RESOURCE_ENTRIES_MAX * RESOURCE_ENTRY_BYTES];
    if (read_exactly(m, offset, head, sizeof head, NULL))
        return 0;
    size_t count = (size_t)ea_load16(head + 12) + ea_load16(head + 14);
    count = count < RESOURCE_ENTRIES_MAX ? count : RESOURCE_ENTRIES_MAX;
    if (read_exactly(m, offset + sizeof head, entries, count * RESOURCE_ENTRY_BYTES, NULL))
        return 0;
    for (size_t i = 0; i < count; i++) {
        const uint8_t *e = entries + i * RESOURCE_ENTRY_BYTES;
        if (any || ea_load32(e) == id) {
            *ret = ea_load32(e + 4);
            return 1;
        }
    }
    return 0;
}

/* A block of a version resource: a key, a value or other blocks behind it. Places are of the resource's bytes. */
typedef struct block {
    size_t key, key_bytes, value, end;
} block;

static size_t aligned(size_t at) {
    return (at + 3) & ~(size_t)3;
}

/* The block at `at`, which ends before `end`: 1, or 0 when there is none. */
static int block_at(const uint8_t *data, size_t at, size_t end, block *ret) {
    if (end < BLOCK_HEAD_BYTES || at > end - BLOCK_HEAD_BYTES)
        return 0;
    size_t length = ea_load16(data + at), key = at + BLOCK_HEAD_BYTES, i = key;
    if (length < BLOCK_HEAD_BYTES || length > end - at)
        return 0;
    while (i + 2 <= at + length && ea_load16(data + i))
        i += 2;
    if (i + 2 > at + length)
        return 0;
    size_t value = aligned(i + 2);
    *ret = (block){key, i - key, value < at + length ? value : at + length, at + length};
    return 1;
}

static int key_is(const uint8_t *data, const block *b, const char *key) {
    size_t n = strlen(key);
    int same = b->key_bytes == 2 * n;
    for (size_t i = 0; same && i < n; i++)
        same = ea_load16(data + b->key + 2 * i) == (uint8_t)key[i];
    return same;
}

/* A string's value, up to its NUL, whole characters only. */
static void take_string(const uint8_t *data, const block *b, char out[EA_PE_STRING_MAX]) {
    size_t n = 0;
    ea_text text;
    while (b->value + n + 2 <= b->end && ea_load16(data + b->value + n))
        n += 2;
    ea_text_init(&text);
    ea_text_utf16(&text, data + b->value, n);
    size_t bytes = text.failed ? 0 : text.len_bytes;
    if (bytes >= EA_PE_STRING_MAX)
        for (bytes = EA_PE_STRING_MAX - 1; bytes && ((unsigned char)text.data[bytes] & 0xC0) == 0x80;)
            bytes--;
    if (bytes)
        memcpy(out, text.data, bytes);
    out[bytes] = 0;
    ea_text_deinit(&text);
}

static void read_strings(const uint8_t *data, size_t len_bytes, ea_pe_facts *ret) {
    const struct {
        const char *key;
        char *out;
    } WANTED[] = {
        {"CompanyName", ret->company}, {"ProductName", ret->product}, {"OriginalFilename", ret->original_name}};
    block info, table, string;
    for (size_t at = STRINGS_AT; block_at(data, at, len_bytes, &info); at = aligned(info.end)) {
        if (!key_is(data, &info, "StringFileInfo") || !block_at(data, info.value, info.end, &table))
            continue;
        for (size_t of = table.value; block_at(data, of, table.end, &string); of = aligned(string.end))
            for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++)
                if (key_is(data, &string, WANTED[i].key))
                    take_string(data, &string, WANTED[i].out);
        return;
    }
}

/* type, name, language: three directories below each other, then where the resource is. */
static void read_version(const image *m, ea_pe_facts *ret) {
    uint8_t data[16], version[STRINGS_MAX];
    uint32_t rva, size, base, next = SUBDIRECTORY, offset;
    if (!directory(m, DIRECTORY_RESOURCE, &rva, &size) || !file_offset(m, rva, &base))
        return;
    for (int depth = 0; depth < 3; depth++)
        if (!(next & SUBDIRECTORY) ||
            !resource_entry(m, (uint64_t)base + (next & ~SUBDIRECTORY), RT_VERSION, depth > 0, &next))
            return;
    if (next & SUBDIRECTORY || read_exactly(m, (uint64_t)base + next, data, sizeof data, NULL))
        return;
    size_t len_bytes = ea_load32(data + 4) < sizeof version ? ea_load32(data + 4) : sizeof version;
    if (len_bytes < VERSION_BYTES || !file_offset(m, ea_load32(data), &offset) ||
        read_exactly(m, offset, version, VERSION_BYTES, NULL) || ea_load16(version + 2) < 16 ||
        ea_load32(version + FIXED_INFO_AT) != FIXED_INFO_SIGNATURE)
        return;
    ret->has_version = 1;
    ret->version[0] = ea_load16(version + FIXED_INFO_AT + 10);
    ret->version[1] = ea_load16(version + FIXED_INFO_AT + 8);
    ret->version[2] = ea_load16(version + FIXED_INFO_AT + 14);
    ret->version[3] = ea_load16(version + FIXED_INFO_AT + 12);
    size_t rest = len_bytes - VERSION_BYTES;
    if (!read_exactly(m, (uint64_t)offset + VERSION_BYTES, version + VERSION_BYTES, rest, NULL))
        read_strings(version, len_bytes, ret);
}

void ea_pe_version_text(const ea_pe_facts *facts, char out[EA_PE_VERSION_TEXT_MAX]) {
    const uint16_t *v = facts->version;
    out[0] = 0;
    if (facts->has_version)
        snprintf(out, EA_PE_VERSION_TEXT_MAX, "%u.%u.%u.%u", v[0], v[1], v[2], v[3]);
}

/* ---- the headers ---- */

static int read_headers(image *m, ea_pe_facts *ret, ea_err *err) {
    uint8_t dos[DOS_BYTES] = {0}, coff[COFF_BYTES];
    int rc = read_exactly(m, 0, dos, sizeof dos, err);
    uint64_t at = ea_load32(dos + 60);
    if (!rc && !ea_pe_begins(dos, sizeof dos))
        rc = ea_fail(err, EA_EFORMAT, "%s is no PE image", m->name);
    if (!rc)
        rc = read_exactly(m, at, coff, sizeof coff, err);
    if (rc)
        return rc;
    size_t count = ea_load16(coff + 6), optional_bytes = ea_load16(coff + 20);
    if (memcmp(coff, "PE\0\0", 4) != 0)
        return ea_fail(err, EA_EFORMAT, "%s is no PE image: there is no PE header at %" PRIu64, m->name, at);
    if (optional_bytes < OPTIONAL_MIN)
        return ea_fail(err, EA_ECORRUPT, "%s: an optional header of %zu bytes", m->name, optional_bytes);
    m->optional_bytes = optional_bytes < sizeof m->optional ? optional_bytes : sizeof m->optional;
    rc = read_exactly(m, at + COFF_BYTES, m->optional, m->optional_bytes, err);
    if (rc)
        return rc;
    ret->machine = ea_load16(coff + 4);
    ret->timestamp = ea_load32(coff + 8);
    ret->size_bytes = ea_load32(m->optional + 56);
    ret->checksum = ea_load32(m->optional + 64);
    if (count > SECTIONS_MAX)
        return ea_fail(err, EA_ELIMIT, "%s: %zu sections; Windows loads at most %d", m->name, count, SECTIONS_MAX);
    rc = read_exactly(m, at + COFF_BYTES + optional_bytes, m->sections, count * EA_PE_SECTION_BYTES, err);
    m->section_count = rc ? 0 : count;
    return rc;
}

int ea_pe_read(ea_pe_read_fn read, void *arg, const char *name, ea_pe_facts *ret, ea_err *err) {
    image m = {.read = read, .arg = arg, .name = name};
    memset(ret, 0, sizeof *ret);
    int rc = read_headers(&m, ret, err);
    if (rc)
        return rc;
    read_version(&m, ret);
    return read_debug(&m, ret, err);
}

static int read_file(void *arg, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read, ea_err *err) {
    return ea_file_read_at(arg, offset, out, len_bytes, ret_read, err);
}

int ea_pe_read_file(ea_file *f, const char *name, ea_pe_facts *ret, ea_err *err) {
    return ea_pe_read(read_file, f, name, ret, err);
}
