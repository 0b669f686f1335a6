/* The import hash. See pe_imports.h. */
#include "proto/image/pe_imports.h"

#include "proto/base/pattern.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

enum {
    DIRECTORY_IMPORT = 1,
    DESCRIPTOR_BYTES = 20,
    WINDOW_BYTES = 4096,
    WINDOWS = 4, /* descriptors, numbers of functions, names of functions, names of libraries */
    READS_MAX = 16384,
    MD5_BYTES = 16,
};

/* A part of the file that was read. */
typedef struct window {
    uint64_t at;
    size_t len_bytes;
    uint8_t data[WINDOW_BYTES];
} window;

typedef struct imports {
    const ea_pe_image *image;
    EVP_MD_CTX *md;
    size_t function_count, reads;
    window windows[WINDOWS];
} imports;

/* What each of the windows is for. */
enum { OF_LIBRARIES, OF_LIBRARY_NAMES, OF_FUNCTIONS, OF_FUNCTION_NAMES };

/* Up to len_bytes (a window at most) at an address: how many there are in its section and the file; < 0: an error. */
static int imports_bytes(imports *i, int which, uint32_t rva, size_t len_bytes, const uint8_t **ret, ea_err *err) {
    window *w = &i->windows[which];
    uint32_t offset, left;
    if (!ea_pe_image_offset(i->image, rva, &offset, &left))
        return ea_fail(err, EA_ECORRUPT, "%s: an import at 0x%x is in no section", i->image->name, (unsigned)rva);
    if (len_bytes > left)
        len_bytes = left;
    if (offset < w->at || offset - w->at > w->len_bytes || len_bytes > w->len_bytes - (size_t)(offset - w->at)) {
        if (++i->reads > READS_MAX)
            return ea_fail(err, EA_ELIMIT, "%s: its imports are too far apart", i->image->name);
        w->at = offset;
        w->len_bytes = 0;
        int rc = i->image->read(i->image->arg, offset, w->data, sizeof w->data, &w->len_bytes, err);
        if (rc)
            return rc;
    }
    size_t have = w->len_bytes - (size_t)(offset - w->at);
    *ret = w->data + (offset - w->at);
    return (int)(len_bytes < have ? len_bytes : have);
}

static int imports_exactly(imports *i, int which, uint32_t rva, size_t len_bytes, const uint8_t **ret, ea_err *err) {
    int n = imports_bytes(i, which, rva, len_bytes, ret, err);
    if (n < 0)
        return n;
    return (size_t)n == len_bytes ? 0 : ea_fail(err, EA_ETRUNCATED, "%s: its imports are cut", i->image->name);
}

/* A name in lower case. */
static int imports_name(imports *i, int which, uint32_t rva, char out[EA_PE_IMPORT_NAME_MAX], ea_err *err) {
    const uint8_t *p;
    int n = imports_bytes(i, which, rva, EA_PE_IMPORT_NAME_MAX, &p, err);
    if (n < 0)
        return n;
    for (int k = 0; k < n; k++) {
        out[k] = ea_ascii_lower((char)p[k]);
        if (!p[k])
            return 0;
    }
    return ea_fail(err, EA_ECORRUPT, "%s: the name of an import has no end", i->image->name);
}

static int add_function(imports *i, const char *library, const char *function, ea_err *err) {
    const char *dot = strrchr(library, '.');
    int is_known = dot && (strcmp(dot, ".dll") == 0 || strcmp(dot, ".sys") == 0 || strcmp(dot, ".ocx") == 0);
    size_t n = is_known ? (size_t)(dot - library) : strlen(library);
    if (i->function_count == EA_PE_IMPORTS_MAX)
        return ea_fail(err, EA_ELIMIT, "%s: more than %d imports", i->image->name, EA_PE_IMPORTS_MAX);
    if ((i->function_count++ && EVP_DigestUpdate(i->md, ",", 1) != 1) || EVP_DigestUpdate(i->md, library, n) != 1 ||
        EVP_DigestUpdate(i->md, ".", 1) != 1 || EVP_DigestUpdate(i->md, function, strlen(function)) != 1)
        return ea_fail(err, EA_ECRYPTO, "hash imports");
    return 0;
}

/* The functions of a library: numbers of 32 or 64 bit, until one is 0. */
static int add_library(imports *i, uint32_t functions, const char *library, ea_err *err) {
    char function[EA_PE_IMPORT_NAME_MAX];
    unsigned width = ea_load16(i->image->optional) == 0x20b ? 8 : 4;
    for (int rc = 0; !rc; functions += width) {
        const uint8_t *p;
        rc = imports_exactly(i, OF_FUNCTIONS, functions, width, &p, err);
        if (rc)
            return rc;
        uint64_t entry = width == 8 ? ea_load64(p) : ea_load32(p);
        if (!entry)
            return 0;
        if (functions > UINT32_MAX - width)
            return ea_fail(err, EA_ECORRUPT, "%s: a table of imports without an end", i->image->name);
        if (entry >> (8 * width - 1)) {
            const char *known = ea_pe_ordinal_name(library, (uint16_t)entry);
            if (known)
                snprintf(function, sizeof function, "%s", known);
            else
                snprintf(function, sizeof function, "ord%u", (unsigned)(entry & 0xffff));
        } else if ((rc = imports_name(i, OF_FUNCTION_NAMES, (uint32_t)(entry & 0x7fffffff) + 2, function, err))) {
            return rc; /* before the name is a hint of two bytes */
        }
        rc = add_function(i, library, function, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int add_libraries(imports *i, uint32_t rva, ea_err *err) {
    char library[EA_PE_IMPORT_NAME_MAX];
    for (uint32_t n = 0; n < EA_PE_LIBRARIES_MAX; n++) {
        const uint8_t *p;
        int rc = imports_exactly(i, OF_LIBRARIES, rva + n * DESCRIPTOR_BYTES, DESCRIPTOR_BYTES, &p, err);
        if (rc)
            return rc;
        uint32_t names = ea_load32(p), name = ea_load32(p + 12), addresses = ea_load32(p + 16);
        if (!name && !addresses)
            return 0;
        rc = imports_name(i, OF_LIBRARY_NAMES, name, library, err);
        if (!rc)
            rc = add_library(i, names ? names : addresses, library, err);
        if (rc)
            return rc;
    }
    return ea_fail(err, EA_ELIMIT, "%s: it imports more than %d libraries", i->image->name, EA_PE_LIBRARIES_MAX);
}

int ea_pe_imphash(const ea_pe_image *image, char ret[EA_PE_IMPHASH_TEXT], ea_err *err) {
    uint8_t digest[EVP_MAX_MD_SIZE];
    uint32_t rva, bytes;
    unsigned n = 0;
    ret[0] = 0;
    if (!ea_pe_image_directory(image, DIRECTORY_IMPORT, &rva, &bytes) || !rva)
        return 0;
    imports i = {.image = image, .md = EVP_MD_CTX_new()};
    int rc = i.md && EVP_DigestInit_ex(i.md, EVP_md5(), NULL) == 1 ? 0 : ea_fail(err, EA_ECRYPTO, "hash imports");
    if (!rc)
        rc = add_libraries(&i, rva, err);
    if (!rc && (EVP_DigestFinal_ex(i.md, digest, &n) != 1 || n != MD5_BYTES))
        rc = ea_fail(err, EA_ECRYPTO, "hash imports");
    for (size_t k = 0; !rc && i.function_count && k < MD5_BYTES; k++)
        snprintf(ret + 2 * k, 3, "%02x", digest[k]);
    EVP_MD_CTX_free(i.md);
    return rc;
}
