/* Paths of image events. See image_path.h.
 * Source of their forms: traces of Windows 7 to 11; "Naming Files, Paths, and Namespaces" (Win32). */
#include "service/host/image_path.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char VOLUME[] = "\\Device\\HarddiskVolume", ROOT[] = "\\SystemRoot\\", DOS[] = "\\??\\";

/* 1 when path begins so, in any case of ASCII letters. */
static int image_path_begins(const char *path, const char *with) {
    for (; *with; path++, with++)
        if (tolower((unsigned char)*path) != tolower((unsigned char)*with))
            return 0;
    return 1;
}

/* A name that is none: empty, . or .. */
static int is_step(const char *name) {
    size_t dots = strspn(name, ".");
    return dots <= 2 && (!name[dots] || name[dots] == '\\');
}

/* 1 when the path below a volume is plain: no other stream, no wildcard, no "..", only one name after the other. */
static int image_path_is_plain(const char *rest) {
    if (*rest != '\\')
        return 0;
    for (const char *s = rest; *s; s++)
        if ((unsigned char)*s < 0x20 || strchr("/:*?\"<>|", *s) || (*s == '\\' && is_step(s + 1)))
            return 0;
    return 1;
}

static int image_path_put(char *out, const char *prefix, size_t prefix_bytes, const char *rest, const char *path,
                          ea_err *err) {
    int n = image_path_is_plain(rest)
                ? snprintf(out, EA_IMAGE_PATH_BYTES, "\\\\?\\%.*s%s", (int)prefix_bytes, prefix, rest)
                : -1;
    return n < 0 || n >= EA_IMAGE_PATH_BYTES ? ea_fail(err, EA_EREFUSED, "%.256s: no path of an image", path) : 0;
}

/* A drive's letter and a colon. */
static int on_drive(const ea_image_volumes *volumes, const char *drive, const char *path, char *out, ea_err *err) {
    for (size_t i = 0; i < volumes->count; i++)
        if (volumes->items[i].is_local &&
            toupper((unsigned char)volumes->items[i].letter) == toupper((unsigned char)drive[0]))
            return image_path_put(out, drive, 2, drive + 2, path, err);
    return ea_fail(err, EA_EREFUSED, "%.256s is on no disk of this machine's", path);
}

/* By the letter of the volume, which is documented, else by the volume's own name. */
static int on_volume(const ea_image_volumes *volumes, const char *path, char *out, ea_err *err) {
    static const char GLOBAL[] = "GLOBALROOT";
    size_t n = sizeof VOLUME - 1;
    while (path[n] >= '0' && path[n] <= '9')
        n++;
    if (n == sizeof VOLUME - 1 || path[n] != '\\' || n >= sizeof volumes->items->device)
        return ea_fail(err, EA_EREFUSED, "%.256s is on no disk of this machine's", path);
    for (size_t i = 0; i < volumes->count; i++) {
        const char *device = volumes->items[i].device;
        if (strlen(device) == n && image_path_begins(path, device))
            return image_path_put(out, (const char[]){volumes->items[i].letter, ':', 0}, 2, path + n, path, err);
    }
    char place[sizeof GLOBAL + sizeof volumes->items->device];
    snprintf(place, sizeof place, "%s%.*s", GLOBAL, (int)n, path);
    return image_path_put(out, place, strlen(place), path + n, path, err);
}

int ea_image_path(const ea_image_volumes *volumes, const char *path, char out[EA_IMAGE_PATH_BYTES], ea_err *err) {
    if (image_path_begins(path, VOLUME))
        return on_volume(volumes, path, out, err);
    if (image_path_begins(path, ROOT))
        return image_path_put(out, volumes->system_root, strlen(volumes->system_root), path + sizeof ROOT - 2, path,
                              err);
    if (image_path_begins(path, DOS))
        path += sizeof DOS - 1;
    if (isalpha((unsigned char)path[0]) && path[1] == ':')
        return on_drive(volumes, path, path, out, err);
    return ea_fail(err, EA_EREFUSED, "%.256s is on no disk of this machine's", path);
}
