/* Boot sessions' files. See boot_files.h. */
#include "service/etw/boot_files.h"

#include "proto/base/platform.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct taker {
    void (*note)(void *arg, const char *text);
    void *arg;
} taker;

static void boot_files_log_line(const taker *t, const char *format, ...) EA_PRINTF(2, 3);

static void boot_files_log_line(const taker *t, const char *format, ...) {
    char line[2 * EA_BOOT_PATH_BYTES + 512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    t->note(t->arg, line);
}

unsigned ea_boot_files_count(const ea_session_config *s) {
    enum { LEAST = 2 }; /* one that is being written, and the one before it */

    uint64_t count = s->keep_files + 1;
    return count < LEAST ? LEAST : count > EA_BOOT_FILES_MAX ? EA_BOOT_FILES_MAX : (unsigned)count;
}

void ea_boot_file_path(const ea_session_config *s, int age, char *path) {
    int stem = (int)strlen(s->boot_file) - 4; /* ".etl": the configuration's check */
    if (age < 0)
        snprintf(path, EA_BOOT_PATH_BYTES, "%.*s-taken.etl", stem, s->boot_file);
    else if (age == 0)
        snprintf(path, EA_BOOT_PATH_BYTES, "%.*s-booted.etl", stem, s->boot_file);
    else
        snprintf(path, EA_BOOT_PATH_BYTES, "%.*s-booted.%d.etl", stem, s->boot_file, age);
}

/* Frees the newest name: each waiting file is renamed to the next age, up to the first free one. If no age is free, the
 * oldest file is overwritten. Returns 0 when a rename failed: then the files have their old names, or the older ones
 * have moved. */
static int boot_files_make_room(const ea_session_config *s, const taker *t, unsigned *lost) {
    char from[EA_BOOT_PATH_BYTES], to[EA_BOOT_PATH_BYTES];
    int count = (int)ea_boot_files_count(s), age = 0;
    ea_err err;
    ea_boot_file_path(s, age, to);
    while (age < count && ea_path_exists(to))
        ea_boot_file_path(s, ++age, to);
    int is_full = age == count;
    for (age -= is_full; age > 0; age--) {
        ea_boot_file_path(s, age, to);
        ea_boot_file_path(s, age - 1, from);
        if (ea_path_rename(from, to, &err)) {
            boot_files_log_line(t, "%s", err.message);
            return 0;
        }
        if (is_full)
            boot_files_log_line(t, "%s, the oldest that waited, was replaced unread by a later boot's", to);
        *lost += (unsigned)is_full;
        is_full = 0;
    }
    return 1;
}

/* ---- the files that Windows wrote ---- */

enum { WRITTEN_MAX = 64, SUFFIX_BYTES = 12 };

typedef struct written {
    int64_t utc_ns;
    unsigned number; /* 0: without a number, which Windows uses when there was no earlier file */
    char suffix[SUFFIX_BYTES];
} written;

typedef struct written_list {
    const char *base; /* the boot-file's name in its folder */
    unsigned count, numbered;
    int is_full;
    written all[WRITTEN_MAX];
} written_list;

static const char *boot_files_base_name(const char *path) {
    const char *base = path;
    for (const char *p = path; *p; p++)
        if (*p == '/' || *p == '\\')
            base = p + 1;
    return base;
}

static int same_letter(char a, char b) {
    return a == b || ((a | 32) == (b | 32) && (a | 32) >= 'a' && (a | 32) <= 'z');
}

/* One entry of the folder: the base name, or the base name, a dot and digits, however many. Windows 11 and the tools
 * of other vendors show three; Microsoft's page says four. */
static int boot_files_see_file(const char *name, int is_dir, void *arg) {
    written_list *l = arg;
    const char *p = name;
    char *end = NULL;
    for (const char *b = l->base; *b; b++, p++)
        if (!same_letter(*p, *b))
            return 0;
    if (is_dir || (*p && (*p != '.' || !p[1] || strspn(p + 1, "0123456789") != strlen(p + 1))))
        return 0;
    if (l->count == WRITTEN_MAX || strlen(p) >= SUFFIX_BYTES) {
        l->is_full = 1;
        return 0;
    }
    written *w = &l->all[l->count++];
    *w = (written){.number = *p ? (unsigned)strtoul(p + 1, &end, 10) : 0};
    snprintf(w->suffix, sizeof w->suffix, "%s", p);
    l->numbered += *p != 0;
    return 0;
}

static void written_path(const ea_session_config *s, const written *w, char *path) {
    snprintf(path, EA_BOOT_PATH_BYTES, "%s%s", s->boot_file, w->suffix);
}

static void find_written(const ea_session_config *s, const taker *t, written_list *ret) {
    char folder[EA_BOOT_PATH_BYTES], path[EA_BOOT_PATH_BYTES];
    ea_err err;
    ret->base = boot_files_base_name(s->boot_file);
    size_t n = (size_t)(ret->base - s->boot_file);
    snprintf(folder, sizeof folder, "%.*s", n > 1 ? (int)n - 1 : (int)n, s->boot_file);
    if (n == 3 && folder[1] == ':')
        snprintf(folder, sizeof folder, "%.3s", s->boot_file); /* the root of a drive */
    int rc = ea_path_list(n ? folder : ".", boot_files_see_file, ret, &err);
    if (rc && rc != EA_ENOTFOUND)
        boot_files_log_line(t, "%s", err.message);
    if (ret->is_full)
        boot_files_log_line(t, "%s has more than %d files of boots; the rest stays where it is", s->boot_file,
                            WRITTEN_MAX);
    for (unsigned i = 0; i < ret->count; i++) {
        written_path(s, &ret->all[i], path);
        if (ea_path_modified(path, &ret->all[i].utc_ns, &err))
            boot_files_log_line(t, "%s", err.message);
    }
}

static int older(const void *a, const void *b) {
    const written *x = a, *y = b;
    return x->utc_ns != y->utc_ns ? (x->utc_ns > y->utc_ns) - (x->utc_ns < y->utc_ns)
                                  : (x->number > y->number) - (x->number < y->number);
}

unsigned ea_boot_files_take(const ea_session_config *s, void (*note)(void *arg, const char *text), void *arg) {
    const taker t = {note, arg};
    char from[EA_BOOT_PATH_BYTES], to[EA_BOOT_PATH_BYTES];
    written_list l = {.count = 0};
    unsigned lost = 0;
    ea_err err;
    find_written(s, &t, &l);
    if (l.numbered >= ea_boot_files_count(s)) {
        boot_files_log_line(&t, "%u boots left their files in %s; Windows may have replaced earlier ones", l.numbered,
                            s->boot_file);
        lost++;
    }
    qsort(l.all, l.count, sizeof *l.all, older);
    for (unsigned i = 0; i < l.count; i++) {
        written_path(s, &l.all[i], from);
        if (!boot_files_make_room(s, &t, &lost))
            break; /* it stays where Windows wrote it */
        ea_boot_file_path(s, 0, to);
        if (ea_path_rename(from, to, &err))
            boot_files_log_line(&t, "%s", err.message);
    }
    return lost;
}
