/* Runs a fuzz target's entry point on every file of the folders that are given: the corpus as a plain test. */
#include "platform.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef struct {
    const char *folder;
    unsigned long count;
} run;

static int one(const char *name, int is_dir, void *arg) {
    run *r = arg;
    ea_err err;
    char path[4096];
    char *data;
    size_t size;
    if (is_dir)
        return 0;
    snprintf(path, sizeof path, "%s/%s", r->folder, name);
    int rc = ea_path_read_all(path, 64 << 20, &data, &size, &err);
    if (rc) {
        ea_err_print(stderr, "replay", &err);
        return rc;
    }
    /* an exact allocation, so that a sanitizer sees a read past the end */
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy)
        return EA_ENOMEM;
    memcpy(copy, data, size);
    free(data);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
    r->count++;
    return 0;
}

int main(int argc, char **argv) {
    ea_err err;
    unsigned long total = 0;
    for (int i = 1; i < argc; i++) {
        run r = {.folder = argv[i]};
        int rc = ea_path_list(argv[i], one, &r, &err);
        if (rc) {
            ea_err_print(stderr, "replay", &err);
            return 1;
        }
        total += r.count;
    }
    printf("%lu inputs replayed\n", total);
    return total ? 0 : 1;
}
