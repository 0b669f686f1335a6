/* Image files on Windows. See image_file.h. */
#include "service/host/image_file.h"

#include "service/host/image_path.h"
#include "service/host/win/wide.h"

#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

/* winnt.h of the Windows SDK; older headers lack them. */
static const DWORD RECALL_ON_OPEN = 0x00040000, RECALL_ON_DATA_ACCESS = 0x00400000;

struct ea_image_file {
    HANDLE handle;
};

static int code_of(DWORD error) {
    switch (error) {
    case ERROR_FILE_NOT_FOUND:
    case ERROR_PATH_NOT_FOUND:
    case ERROR_INVALID_NAME:
    case ERROR_INVALID_DRIVE:
        return EA_ENOTFOUND;
    case ERROR_ACCESS_DENIED:
    case ERROR_SHARING_VIOLATION:
        return EA_EREFUSED;
    default:
        return EA_EIO;
    }
}

static void image_file_read_volumes(ea_image_volumes *ret) {
    WCHAR wide[MAX_PATH], device[512];
    DWORD drives = GetLogicalDrives();
    ret->count = 0;
    ret->system_root[0] = 0;
    if (GetSystemWindowsDirectoryW(wide, MAX_PATH))
        ea_narrow(wide, ret->system_root, sizeof ret->system_root);
    for (int i = 0; i < EA_IMAGE_VOLUMES_MAX; i++) {
        const WCHAR root[] = {(WCHAR)(L'A' + i), L':', L'\\', 0}, drive[] = {(WCHAR)(L'A' + i), L':', 0};
        UINT type = drives >> i & 1 ? GetDriveTypeW(root) : DRIVE_NO_ROOT_DIR;
        if (type == DRIVE_NO_ROOT_DIR)
            continue;
        ret->items[ret->count].letter = (char)('A' + i);
        ret->items[ret->count].is_local = type == DRIVE_FIXED || type == DRIVE_REMOVABLE || type == DRIVE_RAMDISK;
        ret->items[ret->count].device[0] = 0;
        if (QueryDosDeviceW(drive, device, sizeof device / sizeof *device))
            ea_narrow(device, ret->items[ret->count].device, sizeof ret->items[ret->count].device);
        ret->count++;
    }
}

/* Only what is on a disk, and there already: reading must not fetch it from a cloud or a tape; and no link may have led
 * to another machine. */
static int is_here(HANDLE handle) {
    FILE_REMOTE_PROTOCOL_INFO remote;
    BY_HANDLE_FILE_INFORMATION info;
    return GetFileType(handle) == FILE_TYPE_DISK && GetFileInformationByHandle(handle, &info) &&
           !(info.dwFileAttributes &
             (FILE_ATTRIBUTE_DIRECTORY | FILE_ATTRIBUTE_OFFLINE | RECALL_ON_OPEN | RECALL_ON_DATA_ACCESS)) &&
           !GetFileInformationByHandleEx(handle, FileRemoteProtocolInfo, &remote, sizeof remote);
}

int ea_image_file_open(ea_image_file **ret, const char *path, ea_err *err) {
    ea_image_volumes volumes;
    char place[EA_IMAGE_PATH_BYTES];
    image_file_read_volumes(&volumes);
    int rc = ea_image_path(&volumes, path, place, err);
    if (rc)
        return rc;
    ea_image_file *f = malloc(sizeof *f);
    WCHAR *wide = f ? ea_wide(place) : NULL;
    if (!wide) {
        free(f);
        return ea_fail(err, EA_EREFUSED, "%.256s: no path of an image", path);
    }
    f->handle = CreateFileW(
        wide, FILE_READ_DATA | FILE_READ_ATTRIBUTES, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
        OPEN_EXISTING,
        FILE_FLAG_SEQUENTIAL_SCAN | FILE_FLAG_OPEN_NO_RECALL | SECURITY_SQOS_PRESENT | SECURITY_ANONYMOUS, NULL);
    DWORD error = f->handle == INVALID_HANDLE_VALUE ? GetLastError() : 0;
    free(wide);
    if (!error && is_here(f->handle)) {
        *ret = f;
        return 0;
    }
    if (!error)
        CloseHandle(f->handle);
    free(f);
    return error ? ea_fail_os(err, code_of(error), (int)error, "open %.256s", path)
                 : ea_fail(err, EA_EREFUSED, "%.256s is no file on a disk", path);
}

int ea_image_file_identify(ea_image_file *f, ea_image_identity *ret, ea_err *err) {
    BY_HANDLE_FILE_INFORMATION info;
    FILE_BASIC_INFO times;
    if (!GetFileInformationByHandle(f->handle, &info) ||
        !GetFileInformationByHandleEx(f->handle, FileBasicInfo, &times, sizeof times))
        return ea_fail_os(err, EA_EIO, (int)GetLastError(), "look at an image's file");
    *ret = (ea_image_identity){.volume = info.dwVolumeSerialNumber,
                               .number = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow,
                               .size_bytes = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow,
                               .changed = times.ChangeTime.QuadPart};
    return 0;
}

int ea_image_file_read(void *arg, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read, ea_err *err) {
    const ea_image_file *f = arg;
    size_t done = 0;
    while (done < len_bytes) {
        uint64_t at = offset + done;
        OVERLAPPED place = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)(at >> 32)};
        DWORD want = len_bytes - done > (1 << 20) ? 1 << 20 : (DWORD)(len_bytes - done), got = 0;
        if (!ReadFile(f->handle, (char *)out + done, want, &got, &place)) {
            DWORD error = GetLastError();
            if (error == ERROR_HANDLE_EOF)
                break;
            return ea_fail_os(err, EA_EIO, (int)error, "read an image's file");
        }
        if (!got)
            break;
        done += got;
    }
    *ret_read = done;
    return 0;
}

void ea_image_file_close(ea_image_file *f) {
    if (!f)
        return;
    CloseHandle(f->handle);
    free(f);
}
