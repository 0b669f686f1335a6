/* A folder for the files of a fuzz target: in memory where there is one, and gone when the process ends. Not Windows.
 */
#ifndef EA_TESTS_FUZZ_FOLDER_H
#define EA_TESTS_FUZZ_FOLDER_H

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[64]; /* its path; "": there was none yet */

static int folder_remove_one(const char *path, const struct stat *s, int type, struct FTW *f) {
    (void)s;
    (void)type;
    (void)f;
    return remove(path);
}

static void folder_remove(void) {
    nftw(folder, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Another one after folder_remove, too. It ends the process when there can be none. */
static void folder_make(const char *target) {
    if (!folder[0])
        atexit(folder_remove);
    snprintf(folder, sizeof folder, "/dev/shm/ea-fuzz-%s-XXXXXX", target);
    if (mkdtemp(folder))
        return;
    snprintf(folder, sizeof folder, "/tmp/ea-fuzz-%s-XXXXXX", target);
    if (!mkdtemp(folder)) {
        perror(folder);
        abort();
    }
}

#endif
