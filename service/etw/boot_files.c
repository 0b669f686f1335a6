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

static void say(const taker *t, const char *format, ...) EA_PRINTF(2, 3);

static void say(const taker *t, const char *format, ...) {
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

/* Windows' file name with this number; 0: without a number, which Windows uses when there was no earlier file. */
static void windows_path(const ea_session_config *s, unsigned number, char *path) {
    if (number)
        snprintf(path, EA_BOOT_PATH_BYTES, "%s.%04u", s->boot_file, number);
    else
        snprintf(path, EA_BOOT_PATH_BYTES, "%s", s->boot_file);
}

/* Frees the newest name: each waiting file is renamed to the next age, up to the first free one. If no age is free, the
 * oldest file is overwritten. Returns 0 when a rename failed: then the files have their old names, or the older ones
 * have moved. */
static int make_room(const ea_session_config *s, const taker *t, unsigned *lost) {
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
            say(t, "%s", err.message);
            return 0;
        }
        if (is_full)
            say(t, "%s, the oldest that waited, was replaced unread by a later boot's", to);
        *lost += (unsigned)is_full;
        is_full = 0;
    }
    return 1;
}

typedef struct written {
    int64_t utc_ns;
    unsigned number;
} written;

static int older(const void *a, const void *b) {
    const written *x = a, *y = b;
    return x->utc_ns != y->utc_ns ? (x->utc_ns > y->utc_ns) - (x->utc_ns < y->utc_ns)
                                  : (x->number > y->number) - (x->number < y->number);
}

unsigned ea_boot_files_take(const ea_session_config *s, void (*note)(void *arg, const char *text), void *arg) {
    const taker t = {note, arg};
    char from[EA_BOOT_PATH_BYTES], to[EA_BOOT_PATH_BYTES];
    written all[EA_BOOT_FILES_MAX + 1];
    unsigned count = 0, numbered = 0, lost = 0, most = ea_boot_files_count(s);
    ea_err err;
    for (unsigned number = 0; number <= EA_BOOT_FILES_MAX; number++) { /* keep-files may have been more */
        windows_path(s, number, from);
        if (!ea_path_exists(from))
            continue;
        all[count] = (written){.number = number};
        if (ea_path_modified(from, &all[count].utc_ns, &err))
            say(&t, "%s", err.message);
        numbered += number != 0;
        count++;
    }
    if (numbered >= most) {
        say(&t, "%u boots left their files in %s; Windows may have replaced earlier ones", numbered, s->boot_file);
        lost++;
    }
    qsort(all, count, sizeof *all, older);
    for (unsigned i = 0; i < count; i++) {
        windows_path(s, all[i].number, from);
        if (!make_room(s, &t, &lost))
            break; /* it stays where Windows wrote it */
        ea_boot_file_path(s, 0, to);
        if (ea_path_rename(from, to, &err))
            say(&t, "%s", err.message);
    }
    return lost;
}
