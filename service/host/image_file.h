/* The file of an image, by the path in an image event: opened so that it blocks no other program, and with an identity
 * that detects changes.
 *
 * Windows writes \Device\HarddiskVolume3\Windows\System32\ntdll.dll, \SystemRoot\System32\ntoskrnl.exe,
 * \??\C:\Windows\System32\smss.exe. Only files on this machine's own disks are opened: no network file, no device, no
 * file that would have to be fetched from a cloud or a tape first. On systems other than Windows a path is one of that
 * system. Called by: service/image. Calls: the operating system. Thread: any; a file is its owner's. */
#ifndef EA_HOST_IMAGE_FILE_H
#define EA_HOST_IMAGE_FILE_H

#include "proto/base/err.h"

#include <stddef.h>
#include <stdint.h>

typedef struct ea_image_file ea_image_file;

/* Two reads with equal identities have the same content, except after deliberate manipulation: changed is a time that
 * the file system itself keeps and ordinary calls cannot set. */
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
