/* Headers of a PE image (exe, dll, mui): its sections and data directories. Every offset and size comes from the image
 * and is bounded before it is followed. Called by pe.c (facts of an image) and pe_resources.c (its resources). Thread:
 * any. Source of the layouts: Microsoft, "PE Format". */
#ifndef EA_IMAGE_PE_HEADERS_H
#define EA_IMAGE_PE_HEADERS_H

#include "proto/base/bytes.h"
#include "proto/base/err.h"

enum {
    EA_PE_SECTION_BYTES = 40,
    EA_PE_SECTIONS_MAX = 96,  /* as many as Windows loads */
    EA_PE_OPTIONAL_MAX = 240, /* bytes of the optional header with sixteen directories, of 64 bits */
    EA_PE_DIRECTORY_RESOURCE = 2,
    EA_PE_DIRECTORY_DEBUG = 6,
};

/* Reads up to len_bytes at offset of an image; *ret_read is short only at its end. */
typedef int (*ea_pe_read_fn)(void *arg, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read, ea_err *err);

/* An image that is being read. */
typedef struct ea_pe_image {
    ea_pe_read_fn read;
    void *arg;
    const char *name; /* for messages */
    uint16_t machine;
    uint32_t timestamp, size_bytes, checksum; /* size_bytes: in memory */
    size_t section_count;
    uint8_t sections[EA_PE_SECTIONS_MAX * EA_PE_SECTION_BYTES];
    uint8_t optional[EA_PE_OPTIONAL_MAX];
    size_t optional_bytes;
} ea_pe_image;

/* 1 when a file begins as an image does. */
int ea_pe_begins(const void *data, size_t len_bytes);
/* Reads the headers; read, arg and name are set. EA_EFORMAT: it is no image; EA_ETRUNCATED, EA_ECORRUPT, EA_ELIMIT: the
 * headers are damaged, and the image has the fields that were read before. */
EA_MUST_CHECK int ea_pe_image_read(ea_pe_image *image, ea_err *err);
/* Reads exactly len_bytes. EA_ETRUNCATED. */
EA_MUST_CHECK int ea_pe_image_bytes(const ea_pe_image *image, uint64_t offset, void *out, size_t len_bytes,
                                    ea_err *err);
/* A data directory: 1, or 0 when the image has none of that number. */
int ea_pe_image_directory(const ea_pe_image *image, uint32_t number, uint32_t *ret_rva, uint32_t *ret_bytes);
/* Where in the file an address is, and how many bytes the file has of its section from there on: 1, or 0 when no
 * section has it in the file. */
int ea_pe_image_offset(const ea_pe_image *image, uint32_t rva, uint32_t *ret_offset, uint32_t *ret_left);

#endif
