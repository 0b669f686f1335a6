/* Inside proto/base, on Windows: paths between this program (UTF-8) and Windows (UTF-16), and errors of calls that have
 * a path. Used by: platform_windows.c, platform_windows_files.c, trust_windows.c. Thread: any. */
#ifndef EA_BASE_PLATFORM_WINDOWS_H
#define EA_BASE_PLATFORM_WINDOWS_H

#include "proto/base/err.h"

#include <stddef.h>
#include <wchar.h>

/* A path for the W functions, allocated, with room for `extra` more characters, in the long form where it needs it;
 * NULL without memory or for invalid UTF-8. */
wchar_t *ea_windows_path(const char *path, size_t extra);
/* UTF-16 to UTF-8, allocated; NULL without memory. */
char *ea_windows_utf8(const wchar_t *w);
/* Fills err for a path that ea_windows_path did not take. Returns EA_EINVAL. */
int ea_windows_bad_path(ea_err *err, const char *what, const char *path);
/* Fills err from GetLastError. Returns EA_ENOTFOUND, EA_EFULL, EA_EBUSY or EA_EIO. */
int ea_windows_fail(ea_err *err, const char *what, const char *path);

#endif
