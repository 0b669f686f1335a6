/* The dashboard's files, embedded in the program: written by ui/build.mjs at build time. Input: ui/. Used by: api.c.
 * Thread: any; constant. */
#ifndef EC_WEB_ASSETS_H
#define EC_WEB_ASSETS_H

#include <stddef.h>

typedef struct ec_asset {
    const char *path, *type, *etag;
    const unsigned char *plain;
    size_t plain_bytes;
    const unsigned char *packed; /* the same, by gzip */
    size_t packed_bytes;
} ec_asset;

extern const ec_asset EC_ASSETS[]; /* ends with a NULL path */

#endif
