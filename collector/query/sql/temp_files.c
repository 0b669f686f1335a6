/* See temp_files.h. A VFS in front of SQLite's own one, which opens all files; of temporary ones it counts the bytes.
 */
#include "collector/query/sql/temp_files.h"

#include <sqlite3.h>
#include <string.h>
#include <sys/statvfs.h>

enum { SHARE_OF_FREE = 4 };

typedef struct temp_file {
    sqlite3_file base;
    sqlite3_int64 size_bytes;
    sqlite3_file *real; /* in the same memory, after this struct */
} temp_file;

/* SQLite's list of VFSs is the process's. */
static struct {
    sqlite3_vfs vfs, *real;
    uint64_t used_bytes, limit_bytes;
    int is_full;
} temp;

static sqlite3_file *real_of(sqlite3_file *f) {
    return ((temp_file *)f)->real;
}

/* Changes what the file takes: 0 when there is no room. */
static int temp_resize(temp_file *f, sqlite3_int64 size_bytes) {
    uint64_t others = temp.used_bytes - (uint64_t)f->size_bytes;
    if ((uint64_t)size_bytes > (uint64_t)f->size_bytes &&
        (others > temp.limit_bytes || (uint64_t)size_bytes > temp.limit_bytes - others)) {
        temp.is_full = 1;
        return 0;
    }
    temp.used_bytes = others + (uint64_t)size_bytes;
    f->size_bytes = size_bytes;
    return 1;
}

static int temp_files_close_file(sqlite3_file *f) {
    (void)temp_resize((temp_file *)f, 0);
    return real_of(f)->pMethods->xClose(real_of(f));
}

static int temp_files_read_file(sqlite3_file *f, void *to, int n, sqlite3_int64 offset) {
    return real_of(f)->pMethods->xRead(real_of(f), to, n, offset);
}

static int temp_files_write_file(sqlite3_file *f, const void *from, int n, sqlite3_int64 offset) {
    temp_file *t = (temp_file *)f;
    if (offset + n > t->size_bytes && !temp_resize(t, offset + n))
        return SQLITE_FULL;
    int code = t->real->pMethods->xWrite(t->real, from, n, offset);
    temp.is_full |= code != SQLITE_OK; /* the disk is full, or fails */
    return code;
}

static int truncate_file(sqlite3_file *f, sqlite3_int64 size_bytes) {
    temp_file *t = (temp_file *)f;
    int code = t->real->pMethods->xTruncate(t->real, size_bytes);
    if (code == SQLITE_OK && size_bytes < t->size_bytes)
        (void)temp_resize(t, size_bytes);
    return code;
}

static int sync_file(sqlite3_file *f, int flags) {
    (void)f, (void)flags;
    return SQLITE_OK;
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret) {
    return real_of(f)->pMethods->xFileSize(real_of(f), ret);
}

static int temp_lock(sqlite3_file *f, int level) {
    (void)f, (void)level;
    return SQLITE_OK;
}

static int check_lock(sqlite3_file *f, int *ret) {
    (void)f;
    *ret = 0;
    return SQLITE_OK;
}

/* Without hints of sizes: they would make the file longer before anything is written. */
static int temp_control(sqlite3_file *f, int op, void *arg) {
    (void)f, (void)op, (void)arg;
    return SQLITE_NOTFOUND;
}

static int sector_size(sqlite3_file *f) {
    return real_of(f)->pMethods->xSectorSize(real_of(f));
}

static int characteristics(sqlite3_file *f) {
    return real_of(f)->pMethods->xDeviceCharacteristics(real_of(f));
}

static const sqlite3_io_methods METHODS = {
    .iVersion = 1,
    .xClose = temp_files_close_file,
    .xRead = temp_files_read_file,
    .xWrite = temp_files_write_file,
    .xTruncate = truncate_file,
    .xSync = sync_file,
    .xFileSize = file_size,
    .xLock = temp_lock,
    .xUnlock = temp_lock,
    .xCheckReservedLock = check_lock,
    .xFileControl = temp_control,
    .xSectorSize = sector_size,
    .xDeviceCharacteristics = characteristics,
};

static int temp_files_open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags) {
    (void)vfs;
    if (name) /* a database, or what belongs to one: SQLite's own file */
        return temp.real->xOpen(temp.real, name, f, flags, ret_flags);
    temp_file *t = (temp_file *)f;
    *t = (temp_file){.real = (sqlite3_file *)(t + 1)};
    int code = SQLITE_CANTOPEN;
    if (temp.limit_bytes)
        code = temp.real->xOpen(temp.real, name, t->real, flags, ret_flags);
    if (code == SQLITE_OK)
        t->base.pMethods = &METHODS;
    else
        temp.is_full = 1;
    return code;
}

int ec_temp_files_start(const char *folder, uint64_t limit_bytes, ea_err *err) {
    struct statvfs disk;
    if (sqlite3_initialize() != SQLITE_OK || !(temp.real = sqlite3_vfs_find(NULL)))
        return ea_fail(err, EA_ENOMEM, "prepare temporary files");
    temp.limit_bytes = limit_bytes;
    if (!folder || statvfs(folder, &disk))
        temp.limit_bytes = 0;
    else if (temp.limit_bytes / disk.f_frsize > disk.f_bavail / SHARE_OF_FREE)
        temp.limit_bytes = disk.f_bavail / SHARE_OF_FREE * disk.f_frsize;
    sqlite3_temp_directory = folder ? sqlite3_mprintf("%s", folder) : NULL;
    temp.vfs = *temp.real;
    temp.vfs.pNext = NULL;
    temp.vfs.szOsFile += (int)sizeof(temp_file);
    temp.vfs.zName = "etwcollector";
    temp.vfs.xOpen = temp_files_open_file;
    if ((folder && !sqlite3_temp_directory) || sqlite3_vfs_register(&temp.vfs, 1) != SQLITE_OK)
        return ea_fail(err, EA_ENOMEM, "prepare temporary files");
    return 0;
}

int ec_temp_files_are_full(void) {
    return temp.is_full;
}
