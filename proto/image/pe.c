/* The reader of PE images. See pe.h. */
#include "proto/image/pe.h"

#include "proto/base/text.h"

#include <stdio.h>
#include <string.h>

enum {
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
    STRINGS_AT = FIXED_INFO_AT + FIXED_INFO_BYTES, /* the blocks after it */
    STRINGS_MAX = 16 << 10,                        /* bytes of a version resource that are looked at */
    BLOCK_HEAD_BYTES = 6,                          /* its length, the value's length, its type; then the key */
};

static const uint32_t SUBDIRECTORY = 0x80000000u, FIXED_INFO_SIGNATURE = 0xfeef04bdu;

/* ---- the PDB ---- */

/* Looks through the debug directory for what names a PDB. */
static int read_debug(const ea_pe_image *m, ea_pe_facts *ret, ea_err *err) {
    uint8_t entry[DEBUG_ENTRY_BYTES], head[RSDS_BYTES];
    uint32_t rva, size, offset, left;
    if (!ea_pe_image_directory(m, EA_PE_DIRECTORY_DEBUG, &rva, &size))
        return 0;
    if (!ea_pe_image_offset(m, rva, &offset, &left))
        return ea_fail(err, EA_ECORRUPT, "%s: its debug directory is in no section", m->name);
    for (uint32_t i = 0; i < size / DEBUG_ENTRY_BYTES && i < DEBUG_ENTRIES_MAX; i++) {
        int rc = ea_pe_image_bytes(m, (uint64_t)offset + (uint64_t)i * DEBUG_ENTRY_BYTES, entry, sizeof entry, err);
        if (rc)
            return rc;
        uint32_t n = ea_load32(entry + 16), at = ea_load32(entry + 24);
        if (ea_load32(entry + 12) != CODEVIEW || n <= RSDS_BYTES)
            continue;
        rc = ea_pe_image_bytes(m, at, head, sizeof head, err);
        if (rc)
            return rc;
        if (memcmp(head, "RSDS", 4) != 0)
            continue;
        size_t path_bytes = n - RSDS_BYTES < sizeof ret->pdb_path - 1 ? n - RSDS_BYTES : sizeof ret->pdb_path - 1;
        rc = ea_pe_image_bytes(m, (uint64_t)at + RSDS_BYTES, ret->pdb_path, path_bytes, err);
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
static int resource_entry(const ea_pe_image *m, uint64_t offset, uint32_t id, int any, uint32_t *ret) {
    uint8_t head[RESOURCE_HEAD_BYTES], entries[RESOURCE_ENTRIES_MAX * RESOURCE_ENTRY_BYTES];
    if (ea_pe_image_bytes(m, offset, head, sizeof head, NULL))
        return 0;
    size_t count = (size_t)ea_load16(head + 12) + ea_load16(head + 14);
    count = count < RESOURCE_ENTRIES_MAX ? count : RESOURCE_ENTRIES_MAX;
    if (ea_pe_image_bytes(m, offset + sizeof head, entries, count * RESOURCE_ENTRY_BYTES, NULL))
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

/* A block of a version resource: a key, followed by a value or other blocks. The places are offsets in the resource. */
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
static void pe_take_string(const uint8_t *data, const block *b, char out[EA_PE_STRING_MAX]) {
    size_t n = 0;
    ea_text text;
    while (b->value + n + 2 <= b->end && ea_load16(data + b->value + n))
        n += 2;
    ea_text_init(&text);
    ea_text_utf16(&text, data + b->value, n);
    size_t bytes = text.failed ? 0 : ea_utf8_fit(text.data, text.len_bytes, EA_PE_STRING_MAX - 1);
    if (bytes)
        memcpy(out, text.data, bytes);
    out[bytes] = 0;
    ea_text_deinit(&text);
}

static void pe_read_strings(const uint8_t *data, size_t len_bytes, ea_pe_facts *ret) {
    const struct {
        const char *key;
        char *out;
    } WANTED[] = {{"CompanyName", ret->company},
                  {"ProductName", ret->product},
                  {"OriginalFilename", ret->original_name},
                  {"FileDescription", ret->description}};

    block info, table, string;
    for (size_t at = STRINGS_AT; block_at(data, at, len_bytes, &info); at = aligned(info.end)) {
        if (!key_is(data, &info, "StringFileInfo") || !block_at(data, info.value, info.end, &table))
            continue;
        for (size_t of = table.value; block_at(data, of, table.end, &string); of = aligned(string.end))
            for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++)
                if (key_is(data, &string, WANTED[i].key))
                    pe_take_string(data, &string, WANTED[i].out);
        return;
    }
}

/* type, name, language: three directories below each other, then where the resource is. */
static void pe_read_version(const ea_pe_image *m, ea_pe_facts *ret) {
    uint8_t data[16], version[STRINGS_MAX];
    uint32_t rva, size, base, next = SUBDIRECTORY, offset, left;
    if (!ea_pe_image_directory(m, EA_PE_DIRECTORY_RESOURCE, &rva, &size) || !ea_pe_image_offset(m, rva, &base, &left))
        return;
    for (int depth = 0; depth < 3; depth++)
        if (!(next & SUBDIRECTORY) ||
            !resource_entry(m, (uint64_t)base + (next & ~SUBDIRECTORY), RT_VERSION, depth > 0, &next))
            return;
    if (next & SUBDIRECTORY || ea_pe_image_bytes(m, (uint64_t)base + next, data, sizeof data, NULL))
        return;
    size_t len_bytes = ea_load32(data + 4) < sizeof version ? ea_load32(data + 4) : sizeof version;
    if (len_bytes < VERSION_BYTES || !ea_pe_image_offset(m, ea_load32(data), &offset, &left) ||
        ea_pe_image_bytes(m, offset, version, VERSION_BYTES, NULL) || ea_load16(version + 2) < 16 ||
        ea_load32(version + FIXED_INFO_AT) != FIXED_INFO_SIGNATURE)
        return;
    ret->has_version = 1;
    ret->version[0] = ea_load16(version + FIXED_INFO_AT + 10);
    ret->version[1] = ea_load16(version + FIXED_INFO_AT + 8);
    ret->version[2] = ea_load16(version + FIXED_INFO_AT + 14);
    ret->version[3] = ea_load16(version + FIXED_INFO_AT + 12);
    size_t rest = len_bytes - VERSION_BYTES;
    if (!ea_pe_image_bytes(m, (uint64_t)offset + VERSION_BYTES, version + VERSION_BYTES, rest, NULL))
        pe_read_strings(version, len_bytes, ret);
}

void ea_pe_version_text(const ea_pe_facts *facts, char out[EA_PE_VERSION_TEXT_MAX]) {
    const uint16_t *v = facts->version;
    out[0] = 0;
    if (facts->has_version)
        snprintf(out, EA_PE_VERSION_TEXT_MAX, "%u.%u.%u.%u", v[0], v[1], v[2], v[3]);
}

int ea_pe_read(ea_pe_read_fn read, void *arg, const char *name, ea_pe_facts *ret, ea_err *err) {
    ea_pe_image m = {.read = read, .arg = arg, .name = name};
    int rc = ea_pe_image_read(&m, err);
    memset(ret, 0, sizeof *ret);
    ret->machine = m.machine;
    ret->timestamp = m.timestamp;
    ret->size_bytes = m.size_bytes;
    ret->checksum = m.checksum;
    if (rc)
        return rc;
    pe_read_version(&m, ret);
    EA_IGNORE(ea_pe_imphash(&m, ret->imphash, NULL)); /* a damaged table has no hash; the rest is as good as before */
    return read_debug(&m, ret, err);
}

static int pe_read_file(void *arg, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read, ea_err *err) {
    return ea_file_read_at(arg, offset, out, len_bytes, ret_read, err);
}

int ea_pe_read_file(ea_file *f, const char *name, ea_pe_facts *ret, ea_err *err) {
    return ea_pe_read(pe_read_file, f, name, ret, err);
}
