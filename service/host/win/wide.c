/* UTF-8 and UTF-16. See wide.h. */
#include "service/host/win/wide.h"

#include <windows.h>

#include <stdlib.h>

wchar_t *ea_wide(const char *utf8) {
    int n = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, NULL, 0);
    wchar_t *w = n > 0 ? malloc((size_t)n * sizeof *w) : NULL;
    if (w)
        MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, utf8, -1, w, n);
    return w;
}

void ea_narrow(const wchar_t *wide, char *out, size_t out_bytes) {
    if (!WideCharToMultiByte(CP_UTF8, 0, wide, -1, out, (int)out_bytes, NULL, NULL) && out_bytes)
        out[out_bytes - 1] = 0;
}

char **ea_narrow_all(int count, wchar_t **wide) {
    char **all = calloc((size_t)count + 1, sizeof *all);
    int is_whole = all != NULL;
    for (int i = 0; i < count && is_whole; i++) {
        int bytes = WideCharToMultiByte(CP_UTF8, WC_ERR_INVALID_CHARS, wide[i], -1, NULL, 0, NULL, NULL);
        all[i] = bytes > 0 ? malloc((size_t)bytes) : NULL;
        is_whole = all[i] && WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, all[i], bytes, NULL, NULL) == bytes;
    }
    for (int i = 0; all && !is_whole && i < count; i++)
        free(all[i]);
    if (is_whole)
        return all;
    free(all);
    return NULL;
}

int ea_path_full(const char *path, char *out, size_t out_bytes, ea_err *err) {
    WCHAR *w = ea_wide(path);
    DWORD n = w ? GetFullPathNameW(w, 0, NULL, NULL) : 0;
    WCHAR *full = n ? malloc(n * sizeof *full) : NULL;
    int rc = full && GetFullPathNameW(w, n, full, NULL) &&
                     WideCharToMultiByte(CP_UTF8, 0, full, -1, out, (int)out_bytes, NULL, NULL)
                 ? 0
                 : ea_fail_os(err, EA_EINVAL, (int)GetLastError(), "make %s a full path", path);
    free(full);
    free(w);
    return rc;
}

int ea_path_is_link(const char *path) {
    WCHAR *w = ea_wide(path);
    DWORD attributes = w ? GetFileAttributesW(w) : INVALID_FILE_ATTRIBUTES;
    free(w);
    return attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_REPARSE_POINT);
}
