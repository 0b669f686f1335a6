/* Text and paths between this program (UTF-8) and Windows (UTF-16). Used by: the files of this folder. Thread: any. */
#ifndef EA_HOST_WIN_WIDE_H
#define EA_HOST_WIN_WIDE_H

#include "proto/base/err.h"

#include <stddef.h>
#include <wchar.h>

/* Allocated; NULL without memory or for invalid UTF-8. */
wchar_t *ea_wide(const char *utf8);
/* Into out, cut where it has no room; always ended. */
void ea_narrow(const wchar_t *wide, char *out, size_t out_bytes);
/* Texts one by one, allocated, with NULL after the last; for the whole run of a program. NULL without memory, or when
 * one is no valid UTF-16. */
char **ea_narrow_all(int count, wchar_t **wide);
/* A path with its drive and all folders; nothing has to be there. */
EA_MUST_CHECK int ea_path_full(const char *path, char *out, size_t out_bytes, ea_err *err);
/* 1 when a folder is a link to another place (a junction, a symbolic link): its target's content is not this folder's.
 */
int ea_path_is_link(const char *path);

#endif
