/* Files and folders of platform.h on Windows. Thread: any, as platform.h says. */
#if defined(_WIN32)
#include "proto/base/array.h"
#include "proto/base/platform.h"

#include "proto/base/clock.h"
#include "proto/base/platform_windows.h"

#include <windows.h>

#include <sddl.h>
#include <stdlib.h>
#include <string.h>
#include <winioctl.h>

struct ea_file {
    HANDLE handle;
    char *path;
};

/* Full access for the system, administrators and the account that owns what this process makes; children inherit it.
 * The account is named: an entry for the owner (OWNER RIGHTS) would give the same to each later owner. */
static const WCHAR PRIVATE_SDDL[] = L"D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;%ls)";

/* The SID of the owner of what this process makes: the administrators when it is elevated. The caller gives it to
 * LocalFree; NULL when Windows refuses. */
static WCHAR *owner_sid(void) {
    union {
        TOKEN_OWNER owner;
        uint8_t bytes[sizeof(TOKEN_OWNER) + SECURITY_MAX_SID_SIZE];
    } o;

    DWORD n;
    HANDLE token;
    WCHAR *text = NULL;
    if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token))
        return NULL;
    if (!GetTokenInformation(token, TokenOwner, &o, sizeof o, &n) || !ConvertSidToStringSidW(o.owner.Owner, &text))
        text = NULL;
    CloseHandle(token);
    return text;
}

/* Fills *sa; the caller gives sa->lpSecurityDescriptor to LocalFree. 0 when Windows refuses. */
static int private_attributes(SECURITY_ATTRIBUTES *sa) {
    enum { SID_CHARS = 192 }; /* 15 parts of 10 digits, and what is before them */

    WCHAR sddl[sizeof PRIVATE_SDDL / sizeof *PRIVATE_SDDL + SID_CHARS], *owner = owner_sid();
    *sa = (SECURITY_ATTRIBUTES){.nLength = sizeof *sa};
    if (!owner)
        return 0;
    int n = _snwprintf(sddl, sizeof sddl / sizeof *sddl, PRIVATE_SDDL, owner);
    LocalFree(owner);
    return n > 0 &&
           ConvertStringSecurityDescriptorToSecurityDescriptorW(sddl, SDDL_REVISION_1, &sa->lpSecurityDescriptor, NULL);
}

/* Takes h, also on failure. */
static int windows_file_of(ea_file **ret, HANDLE h, const char *path, ea_err *err) {
    ea_file *f = calloc(1, sizeof *f);
    char *copy = _strdup(path);
    if (!f || !copy) {
        free(f);
        free(copy);
        CloseHandle(h);
        return ea_fail(err, EA_ENOMEM, "open %s", path);
    }
    f->handle = h;
    f->path = copy;
    *ret = f;
    return 0;
}

static int platform_open_file(ea_file **ret, const char *path, enum ea_open_mode mode, SECURITY_ATTRIBUTES *sa,
                              ea_err *err) {
    static const DWORD access[] = {[EA_OPEN_READ] = GENERIC_READ,
                                   [EA_OPEN_APPEND] = GENERIC_READ | GENERIC_WRITE,
                                   [EA_OPEN_CREATE] = GENERIC_READ | GENERIC_WRITE};
    static const DWORD how[] = {
        [EA_OPEN_READ] = OPEN_EXISTING, [EA_OPEN_APPEND] = OPEN_ALWAYS, [EA_OPEN_CREATE] = CREATE_ALWAYS};
    WCHAR *w = ea_windows_path(path, 0);
    if (!w)
        return ea_windows_bad_path(err, "open", path);
    HANDLE h = CreateFileW(w, access[mode], FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, sa, how[mode],
                           FILE_ATTRIBUTE_NORMAL, NULL);
    if (h == INVALID_HANDLE_VALUE) {
        int rc = ea_windows_fail(err, "open", path);
        DWORD attributes = GetFileAttributesW(w);
        if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY))
            rc = ea_fail(err, EA_EINVAL, "open %s: it is a folder", path);
        free(w);
        return rc;
    }
    free(w);
    return windows_file_of(ret, h, path, err);
}

int ea_file_open(ea_file **ret, const char *path, enum ea_open_mode mode, ea_err *err) {
    return platform_open_file(ret, path, mode, NULL, err);
}

void ea_file_close(ea_file *f) {
    if (!f)
        return;
    CloseHandle(f->handle);
    free(f->path);
    free(f);
}

enum { LARGEST_TRANSFER = 1 << 30 }; /* a DWORD counts the bytes of one call */

int ea_file_read_at(ea_file *f, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read, ea_err *err) {
    size_t done = 0;
    while (done < len_bytes) {
        uint64_t at = offset + done;
        OVERLAPPED where = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
        DWORD want = len_bytes - done > LARGEST_TRANSFER ? LARGEST_TRANSFER : (DWORD)(len_bytes - done), n = 0;
        if (!ReadFile(f->handle, (char *)out + done, want, &n, &where)) {
            if (GetLastError() == ERROR_HANDLE_EOF)
                break;
            return ea_windows_fail(err, "read", f->path);
        }
        if (n == 0)
            break;
        done += n;
    }
    *ret_read = done;
    return 0;
}

int ea_file_write_at(ea_file *f, uint64_t offset, const void *data, size_t len_bytes, ea_err *err) {
    size_t done = 0;
    while (done < len_bytes) {
        uint64_t at = offset + done;
        OVERLAPPED where = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
        DWORD want = len_bytes - done > LARGEST_TRANSFER ? LARGEST_TRANSFER : (DWORD)(len_bytes - done), n = 0;
        if (!WriteFile(f->handle, (const char *)data + done, want, &n, &where) || n == 0)
            return ea_windows_fail(err, "write", f->path);
        done += n;
    }
    return 0;
}

int ea_file_clear(ea_file *f, uint64_t offset, uint64_t len_bytes, ea_err *err) {
    static const uint8_t zeros[1 << 16];
    int rc = 0;
    for (uint64_t done = 0; !rc && done < len_bytes; done += sizeof zeros)
        rc = ea_file_write_at(f, offset + done, zeros,
                              len_bytes - done < sizeof zeros ? (size_t)(len_bytes - done) : sizeof zeros, err);
    return rc;
}

int ea_file_sync(ea_file *f, ea_err *err) {
    return FlushFileBuffers(f->handle) ? 0 : ea_windows_fail(err, "sync", f->path);
}

int ea_file_size(ea_file *f, uint64_t *ret_bytes, ea_err *err) {
    LARGE_INTEGER size;
    if (!GetFileSizeEx(f->handle, &size))
        return ea_windows_fail(err, "ask for the size of", f->path);
    *ret_bytes = (uint64_t)size.QuadPart;
    return 0;
}

uint64_t ea_file_skip_hole(ea_file *f, uint64_t offset) {
    FILE_ALLOCATED_RANGE_BUFFER asked, first;
    LARGE_INTEGER size;
    DWORD got = 0;
    if (!GetFileSizeEx(f->handle, &size) || (uint64_t)size.QuadPart <= offset)
        return offset;
    asked.FileOffset.QuadPart = (LONGLONG)offset;
    asked.Length.QuadPart = size.QuadPart - (LONGLONG)offset;
    if (!DeviceIoControl(f->handle, FSCTL_QUERY_ALLOCATED_RANGES, &asked, sizeof asked, &first, sizeof first, &got,
                         NULL) &&
        GetLastError() != ERROR_MORE_DATA) /* ERROR_MORE_DATA: only one range was requested, and there are more */
        return offset;
    if (got < sizeof first)
        return (uint64_t)size.QuadPart;
    return (uint64_t)first.FileOffset.QuadPart > offset ? (uint64_t)first.FileOffset.QuadPart : offset;
}

int ea_file_truncate(ea_file *f, uint64_t len_bytes, ea_err *err) {
    FILE_END_OF_FILE_INFO end = {.EndOfFile = {.QuadPart = (LONGLONG)len_bytes}};
    return SetFileInformationByHandle(f->handle, FileEndOfFileInfo, &end, sizeof end)
               ? 0
               : ea_windows_fail(err, "truncate", f->path);
}

int ea_file_try_lock(ea_file *f, ea_err *err) {
    /* locks one byte far after any content: a lock on Windows keeps other processes from reading the locked bytes */
    OVERLAPPED where = {.Offset = 0, .OffsetHigh = 0x7FFFFFFF};
    return LockFileEx(f->handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &where)
               ? 0
               : ea_windows_fail(err, "lock", f->path);
}

static HANDLE open_claimed(const WCHAR *w, DWORD how, DWORD flags) {
    return CreateFileW(w, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                       how, FILE_ATTRIBUTE_NORMAL | flags, NULL);
}

/* 1: the name is that of the open file, which no process is removing. */
static int windows_has_name(HANDLE h, const WCHAR *w) {
    BY_HANDLE_FILE_INFORMATION mine, named;
    HANDLE other = open_claimed(w, OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT);
    if (other == INVALID_HANDLE_VALUE)
        return 0;
    int is_same = GetFileInformationByHandle(h, &mine) && GetFileInformationByHandle(other, &named) &&
                  mine.dwVolumeSerialNumber == named.dwVolumeSerialNumber &&
                  mine.nFileIndexHigh == named.nFileIndexHigh && mine.nFileIndexLow == named.nFileIndexLow;
    CloseHandle(other);
    return is_same;
}

/* Removes a file that no process has locked. */
static int windows_remove_left(const WCHAR *w, const char *path, ea_err *err) {
    DWORD attributes = GetFileAttributesW(w);
    if (attributes != INVALID_FILE_ATTRIBUTES &&
        (attributes & (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_REPARSE_POINT | FILE_ATTRIBUTE_DEVICE)))
        return ea_fail(err, EA_EEXIST, "make %s: it is no file, but a link, a folder or a device", path);
    ea_file *left;
    HANDLE h = open_claimed(w, OPEN_EXISTING, FILE_FLAG_OPEN_REPARSE_POINT);
    if (h == INVALID_HANDLE_VALUE)
        return ea_windows_fail(err, "open", path);
    int rc = windows_file_of(&left, h, path, err);
    if (rc)
        return rc;
    rc = ea_file_try_lock(left, err);
    /* the last holder of the lock may have renamed the file, and another process may have made the next */
    if (rc != EA_EBUSY && !windows_has_name(h, w))
        rc = ea_fail(err, EA_EBUSY, "make %s", path);
    if (rc != EA_EBUSY)
        rc = DeleteFileW(w) ? 0 : ea_windows_fail(err, "remove", path);
    ea_file_close(left);
    return rc;
}

int ea_file_claim(ea_file **ret, const char *path, ea_err *err) {
    WCHAR *w = ea_windows_path(path, 0);
    if (!w)
        return ea_windows_bad_path(err, "make", path);
    int rc = 0;
    HANDLE h = open_claimed(w, CREATE_NEW, 0);
    if (h == INVALID_HANDLE_VALUE && GetLastError() == ERROR_FILE_EXISTS && !(rc = windows_remove_left(w, path, err)))
        h = open_claimed(w, CREATE_NEW, 0);
    if (!rc && h == INVALID_HANDLE_VALUE)
        rc = ea_windows_fail(err, "make", path);
    ea_file *f = NULL;
    if (!rc)
        rc = windows_file_of(&f, h, path, err);
    /* another process found it before it was locked: it holds it, is removing it, or has made the next */
    if (!rc && (ea_file_try_lock(f, NULL) == EA_EBUSY || !windows_has_name(h, w))) {
        ea_file_close(f);
        rc = ea_fail(err, EA_EBUSY, "make %s", path);
    }
    free(w);
    if (!rc)
        *ret = f;
    return rc;
}

int ea_path_make_dirs(const char *path, ea_err *err) {
    WCHAR *w = ea_windows_path(path, 0);
    if (!w)
        return ea_windows_bad_path(err, "make folder", path);
    SECURITY_ATTRIBUTES sa;
    int is_private = private_attributes(&sa);
    size_t n = wcslen(w);
    for (size_t i = 1; i <= n; i++) {
        if (w[i] != L'\\' && w[i] != 0)
            continue;
        WCHAR kept = w[i];
        w[i] = 0;
        /* a drive, a share or a folder that we may not make: whether the whole path is there is asked at the end */
        CreateDirectoryW(w, is_private ? &sa : NULL);
        w[i] = kept;
    }
    DWORD os = GetLastError(), attributes = GetFileAttributesW(w);
    if (is_private)
        LocalFree(sa.lpSecurityDescriptor);
    free(w);
    if (attributes == INVALID_FILE_ATTRIBUTES)
        return ea_fail_os(err, EA_EIO, (int)os, "make folder %s", path);
    if (!(attributes & FILE_ATTRIBUTE_DIRECTORY))
        return ea_fail(err, EA_EINVAL, "make folder %s: a file of that name is in the way", path);
    return 0;
}

int ea_path_sync_dir(const char *path, ea_err *err) {
    /* Windows keeps names in its journal, a flush of a file includes its name, and a rename here writes through: what
     * is left to do is to say when there is no such folder. */
    WCHAR *w = ea_windows_path(path, 0);
    if (!w)
        return ea_windows_bad_path(err, "sync folder", path);
    DWORD attributes = GetFileAttributesW(w);
    int rc = attributes == INVALID_FILE_ATTRIBUTES ? ea_windows_fail(err, "sync folder", path) : 0;
    free(w);
    if (!rc && !(attributes & FILE_ATTRIBUTE_DIRECTORY))
        rc = ea_fail(err, EA_EINVAL, "sync folder %s: it is a file", path);
    return rc;
}

int ea_path_rename(const char *from, const char *to, ea_err *err) {
    WCHAR *a = ea_windows_path(from, 0), *b = ea_windows_path(to, 0);
    int rc = 0;
    if (!a || !b)
        rc = ea_windows_bad_path(err, "rename", from);
    else if (!MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH))
        rc = ea_windows_fail(err, "rename", from);
    free(a);
    free(b);
    return rc;
}

int ea_path_remove(const char *path, ea_err *err) {
    WCHAR *w = ea_windows_path(path, 0);
    if (!w)
        return ea_windows_bad_path(err, "remove", path);
    int rc = DeleteFileW(w) ? 0 : ea_windows_fail(err, "remove", path);
    free(w);
    return rc;
}

int ea_path_remove_folder(const char *path, ea_err *err) {
    WCHAR *w = ea_windows_path(path, 0);
    if (!w)
        return ea_windows_bad_path(err, "remove", path);
    int rc = RemoveDirectoryW(w) ? 0 : ea_windows_fail(err, "remove", path);
    free(w);
    return rc;
}

/* Removes a file if it is there. */
static void discard(const char *path) {
    WCHAR *w = ea_windows_path(path, 0);
    if (w)
        DeleteFileW(w);
    free(w);
}

int ea_path_exists(const char *path) {
    WCHAR *w = ea_windows_path(path, 0);
    int there = w && GetFileAttributesW(w) != INVALID_FILE_ATTRIBUTES;
    free(w);
    return there;
}

/* What the system says of a file or folder; 0 when it says nothing. */
static int platform_look_at(const char *path, BY_HANDLE_FILE_INFORMATION *ret) {
    WCHAR *w = ea_windows_path(path, 0);
    HANDLE h = w ? CreateFileW(w, FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                               OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS, NULL)
                 : INVALID_HANDLE_VALUE;
    free(w);
    if (h == INVALID_HANDLE_VALUE)
        return 0;
    int found = GetFileInformationByHandle(h, ret) != 0; /* of files and folders alone */
    CloseHandle(h);
    return found;
}

int ea_path_is_file(const char *path) {
    BY_HANDLE_FILE_INFORMATION info;
    return platform_look_at(path, &info) && !(info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY);
}

int ea_path_is_same(const char *a, const char *b) {
    BY_HANDLE_FILE_INFORMATION x, y;
    return platform_look_at(a, &x) && platform_look_at(b, &y) && x.dwVolumeSerialNumber == y.dwVolumeSerialNumber &&
           x.nFileIndexHigh == y.nFileIndexHigh && x.nFileIndexLow == y.nFileIndexLow;
}

int ea_path_modified(const char *path, int64_t *ret_utc_ns, ea_err *err) {
    WIN32_FILE_ATTRIBUTE_DATA data;
    WCHAR *w = ea_windows_path(path, 0);
    int found = w && GetFileAttributesExW(w, GetFileExInfoStandard, &data);
    DWORD error = w ? GetLastError() : ERROR_NOT_ENOUGH_MEMORY;
    free(w);
    if (!found)
        return ea_fail_os(err, error == ERROR_FILE_NOT_FOUND ? EA_ENOTFOUND : EA_EIO, (int)error, "look at %s", path);
    *ret_utc_ns = ea_filetime_to_utc_ns(
        (int64_t)((uint64_t)data.ftLastWriteTime.dwHighDateTime << 32 | data.ftLastWriteTime.dwLowDateTime));
    return 0;
}

uint64_t ea_path_free_bytes(const char *path) {
    WCHAR *w = ea_windows_path(path, 2);
    if (!w)
        return 0;
    DWORD attributes = GetFileAttributesW(w);
    if (attributes != INVALID_FILE_ATTRIBUTES && !(attributes & FILE_ATTRIBUTE_DIRECTORY)) {
        WCHAR *slash = wcsrchr(w, L'\\'); /* Windows wants a folder */
        if (slash)
            slash[1] = 0;
        else
            memcpy(w, L".", 2 * sizeof *w);
    }
    ULARGE_INTEGER bytes;
    uint64_t result = GetDiskFreeSpaceExW(w, &bytes, NULL, NULL) ? bytes.QuadPart : 0;
    free(w);
    return result;
}

typedef struct {
    char *name;
    int is_dir;
} entry;

static int windows_by_name(const void *a, const void *b) {
    const entry *x = a, *y = b;
    return strcmp(x->name, y->name);
}

int ea_path_list(const char *path, int (*fn)(const char *name, int is_dir, void *arg), void *arg, ea_err *err) {
    WCHAR *w = ea_windows_path(path, 2);
    if (!w)
        return ea_windows_bad_path(err, "list folder", path);
    size_t n = wcslen(w);
    memcpy(w + n, n && w[n - 1] == L'\\' ? L"*" : L"\\*", (n && w[n - 1] == L'\\' ? 2 : 3) * sizeof *w);
    WIN32_FIND_DATAW found;
    HANDLE h = FindFirstFileW(w, &found);
    int rc = h == INVALID_HANDLE_VALUE ? ea_windows_fail(err, "list folder", path) : 0;
    free(w);
    if (rc)
        return rc;
    entry *list = NULL;
    size_t count = 0, capacity = 0;
    do {
        if (wcscmp(found.cFileName, L".") == 0 || wcscmp(found.cFileName, L"..") == 0)
            continue;
        char *name = ea_windows_utf8(found.cFileName);
        if (!name || EA_GROW(list, capacity, count + 1, SIZE_MAX)) {
            free(name);
            rc = ea_fail(err, EA_ENOMEM, "list folder %s", path);
            break;
        }
        list[count++] = (entry){.name = name, .is_dir = (found.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0};
    } while (FindNextFileW(h, &found));
    DWORD os = GetLastError();
    FindClose(h);
    if (!rc && os != ERROR_NO_MORE_FILES)
        rc = ea_fail_os(err, EA_EIO, (int)os, "list folder %s", path);
    if (count)
        qsort(list, count, sizeof *list, windows_by_name);
    for (size_t i = 0; i < count; i++) {
        if (!rc)
            rc = fn(list[i].name, list[i].is_dir, arg);
        free(list[i].name);
    }
    free(list);
    return rc;
}

int ea_path_write_all(const char *path, const void *data, size_t len_bytes, int mode_private, ea_err *err) {
    size_t n = strlen(path) + 5;
    char *tmp = malloc(n);
    if (!tmp)
        return ea_fail(err, EA_ENOMEM, "write %s", path);
    snprintf(tmp, n, "%s.tmp", path);
    SECURITY_ATTRIBUTES sa;
    if (mode_private && !private_attributes(&sa)) {
        free(tmp);
        return ea_windows_fail(err, "make the access list of", path);
    }
    discard(tmp); /* what an earlier attempt left would keep its old access list */
    ea_file *f = NULL;
    int rc = platform_open_file(&f, tmp, EA_OPEN_CREATE, mode_private ? &sa : NULL, err);
    if (mode_private)
        LocalFree(sa.lpSecurityDescriptor);
    if (!rc) {
        rc = ea_file_write_at(f, 0, data, len_bytes, err);
        if (!rc)
            rc = ea_file_sync(f, err);
        ea_file_close(f);
        if (!rc)
            rc = ea_path_rename(tmp, path, err);
        if (rc)
            discard(tmp);
    }
    free(tmp);
    return rc;
}

#else
typedef int ea_platform_windows_files_is_not_empty;
#endif
