/* Where the files are that image events name. Input: image events. Used by: image_file.c. Thread: any. */
#ifndef EA_HOST_IMAGE_PATH_H
#define EA_HOST_IMAGE_PATH_H

#include "proto/base/err.h"

#include <stddef.h>

enum { EA_IMAGE_PATH_BYTES = 4096, EA_IMAGE_VOLUMES_MAX = 26 };

/* The volumes of this machine. */
typedef struct ea_image_volumes {
    char system_root[EA_IMAGE_PATH_BYTES]; /* C:\Windows */
    size_t count;

    struct {
        char letter;
        int is_local;    /* a disk of this machine's */
        char device[64]; /* \Device\HarddiskVolume3; "": unknown */
    } items[EA_IMAGE_VOLUMES_MAX];
} ea_image_volumes;

/* Makes of an image event's path one that CreateFile opens without looking at it again (\\?\...). EA_EREFUSED: it is on
 * no disk of this machine's, or no plain path. */
EA_MUST_CHECK int ea_image_path(const ea_image_volumes *volumes, const char *path, char out[EA_IMAGE_PATH_BYTES],
                                ea_err *err);

#endif
