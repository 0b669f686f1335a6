/* An image's file as the path of an image event names it: opened so that nobody is in its way, and known again.
 *
 * Windows writes \Device\HarddiskVolume3\Windows\System32\ntdll.dll, \SystemRoot\System32\ntoskrnl.exe,
 * \??\C:\Windows\System32\smss.exe. Only files on this machine's own disks are opened: not over a network, no device,
 * nothing that a cloud or a tape would have to bring first. On other systems than Windows a path is one of that system.
 * Before it: service/image. After it: the operating system. Thread: any; a file is its owner's. */
#ifndef EA_HOST_IMAGE_FILE_H
#define EA_HOST_IMAGE_FILE_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ea_image_file ea_image_file;

/* Two looks that find the same here see the same content, unless somebody made an effort: changed is the time that the
 * file system itself keeps, which no ordinary call sets. */
typedef struct ea_image_identity {
    uint64_t volume, number, size_bytes;
    int64_t changed;
} ea_image_identity;

/* Everybody may read, write, delete and rename it meanwhile. EA_ENOTFOUND; EA_EREFUSED: there is no right to, or it is
 * none of the files above; EA_EIO. */
EA_MUST_CHECK int ea_image_file_open(ea_image_file **ret, const char *path, ea_err *err);
EA_MUST_CHECK int ea_image_file_identify(ea_image_file *f, ea_image_identity *ret, ea_err *err);
/* As ea_pe_read_fn; arg: an ea_image_file. */
EA_MUST_CHECK int ea_image_file_read(void *arg, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read,
                                     ea_err *err);
void ea_image_file_close(ea_image_file *f); /* NULL is allowed */

#endif
