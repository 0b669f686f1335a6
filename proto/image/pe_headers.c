/* Headers of PE images. See pe_headers.h. */
#include "proto/image/pe_headers.h"

#include <inttypes.h>
#include <string.h>

enum {
    DOS_BYTES = 64,
    COFF_BYTES = 24, /* with the signature before it */
    OPTIONAL_MIN = 68,
    MAGIC_32 = 0x10B,
    MAGIC_64 = 0x20B,
    DIRECTORIES_32 = 96,
    DIRECTORIES_64 = 112,
};

int ea_pe_begins(const void *data, size_t len_bytes) {
    return len_bytes >= 2 && memcmp(data, "MZ", 2) == 0;
}

int ea_pe_image_bytes(const ea_pe_image *image, uint64_t offset, void *out, size_t len_bytes, ea_err *err) {
    size_t got = 0;
    int rc = image->read(image->arg, offset, out, len_bytes, &got, err);
    return !rc && got != len_bytes
               ? ea_fail(err, EA_ETRUNCATED, "%s is cut: a part of it at %" PRIu64 " is not there", image->name, offset)
               : rc;
}

int ea_pe_image_offset(const ea_pe_image *image, uint32_t rva, uint32_t *ret_offset, uint32_t *ret_left) {
    for (size_t i = 0; i < image->section_count; i++) {
        const uint8_t *s = image->sections + i * EA_PE_SECTION_BYTES;
        uint32_t begin = ea_load32(s + 12), raw_bytes = ea_load32(s + 16), raw = ea_load32(s + 20);
        if (rva >= begin && rva - begin < raw_bytes && rva - begin <= UINT32_MAX - raw) {
            *ret_offset = raw + (rva - begin);
            *ret_left = raw_bytes - (rva - begin);
            return 1;
        }
    }
    return 0;
}

int ea_pe_image_directory(const ea_pe_image *image, uint32_t number, uint32_t *ret_rva, uint32_t *ret_bytes) {
    size_t first = ea_load16(image->optional) == MAGIC_64 ? DIRECTORIES_64 : DIRECTORIES_32;
    size_t at = first + 8 * (size_t)number;
    if (image->optional_bytes < at + 8 || ea_load32(image->optional + first - 4) <= number)
        return 0;
    *ret_rva = ea_load32(image->optional + at);
    *ret_bytes = ea_load32(image->optional + at + 4);
    return *ret_bytes != 0;
}

int ea_pe_image_read(ea_pe_image *image, ea_err *err) {
    uint8_t dos[DOS_BYTES] = {0}, coff[COFF_BYTES];
    int rc = ea_pe_image_bytes(image, 0, dos, sizeof dos, err);
    uint64_t at = ea_load32(dos + 60);
    if (!rc && !ea_pe_begins(dos, sizeof dos))
        rc = ea_fail(err, EA_EFORMAT, "%s is no PE image", image->name);
    if (!rc)
        rc = ea_pe_image_bytes(image, at, coff, sizeof coff, err);
    if (rc)
        return rc;
    size_t count = ea_load16(coff + 6), optional_bytes = ea_load16(coff + 20);
    if (memcmp(coff, "PE\0\0", 4) != 0)
        return ea_fail(err, EA_EFORMAT, "%s is no PE image: there is no PE header at %" PRIu64, image->name, at);
    if (optional_bytes < OPTIONAL_MIN)
        return ea_fail(err, EA_ECORRUPT, "%s: an optional header of %zu bytes", image->name, optional_bytes);
    image->optional_bytes = optional_bytes < sizeof image->optional ? optional_bytes : sizeof image->optional;
    rc = ea_pe_image_bytes(image, at + COFF_BYTES, image->optional, image->optional_bytes, err);
    if (rc)
        return rc;
    image->machine = ea_load16(coff + 4);
    image->timestamp = ea_load32(coff + 8);
    image->size_bytes = ea_load32(image->optional + 56);
    image->checksum = ea_load32(image->optional + 64);
    if (count > EA_PE_SECTIONS_MAX)
        return ea_fail(err, EA_ELIMIT, "%s: %zu sections; Windows loads at most %d", image->name, count,
                       EA_PE_SECTIONS_MAX);
    rc = ea_pe_image_bytes(image, at + COFF_BYTES + optional_bytes, image->sections, count * EA_PE_SECTION_BYTES, err);
    image->section_count = rc ? 0 : count;
    return rc;
}
