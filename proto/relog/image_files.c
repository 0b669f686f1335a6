/* See image_files.h. */
#include "proto/relog/image_files.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/pattern.h"

#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 32 };

typedef struct image_file {
    const char *path, *name; /* the name is in lower case */
    ea_pe_facts *facts;      /* NULL: not read yet, or no image */
    int is_read;
} image_file;

struct ea_image_files {
    ea_arena arena;
    image_file *files; /* by name */
    size_t count, capacity, folder_count;
};

typedef struct image_walk {
    ea_image_files *x;
    const struct image_walk *outer; /* of the folder that this one is in; NULL: the first one */
    const char *folder;
    int depth, rc;
    ea_err *err;
} image_walk;

static int image_files_walk_folder(image_walk *walk);

/* A link, or a junction of Windows, may lead back to a folder that it is in. */
static int leads_back(const image_walk *walk, const char *path) {
    for (; walk; walk = walk->outer)
        if (ea_path_is_same(walk->folder, path))
            return 1;
    return 0;
}

static int note_image_file(const char *name, int is_dir, void *arg) {
    image_walk *walk = arg;
    ea_image_files *x = walk->x;
    size_t folder_bytes = strlen(walk->folder), bytes = strlen(name) + 1;
    char *path = ea_arena_alloc(&x->arena, folder_bytes + 1 + bytes), *lower = ea_arena_alloc(&x->arena, bytes);
    if (!path || !lower)
        return walk->rc = ea_fail(walk->err, EA_ENOMEM, "list %s", walk->folder);
    memcpy(path, walk->folder, folder_bytes);
    path[folder_bytes] = '/';
    memcpy(path + folder_bytes + 1, name, bytes);
    x->folder_count += is_dir != 0;
    if (x->count == EA_IMAGE_FILES_MAX || x->folder_count > EA_IMAGE_FILES_MAX)
        return walk->rc = ea_fail(walk->err, EA_ELIMIT, "list %s: more than %d files or folders", walk->folder,
                                  EA_IMAGE_FILES_MAX);
    if (is_dir) {
        image_walk inside = {.x = x, .outer = walk, .folder = path, .depth = walk->depth + 1, .err = walk->err};
        return inside.depth < DEPTH_MAX && !leads_back(walk, path) ? (walk->rc = image_files_walk_folder(&inside)) : 0;
    }
    if (EA_GROW(x->files, x->capacity, x->count + 1, SIZE_MAX))
        return walk->rc = ea_fail(walk->err, EA_ENOMEM, "list %s", walk->folder);
    for (size_t i = 0; i < bytes; i++)
        lower[i] = ea_ascii_lower(name[i]);
    x->files[x->count++] = (image_file){.path = path, .name = lower};
    return 0;
}

static int image_files_walk_folder(image_walk *walk) {
    int rc = ea_path_list(walk->folder, note_image_file, walk, walk->err);
    return walk->rc ? walk->rc : rc;
}

static int by_file_name(const void *a, const void *b) {
    const image_file *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->path, y->path);
}

int ea_image_files_open(ea_image_files **ret, const char *folder, ea_err *err) {
    ea_image_files *x = calloc(1, sizeof *x);
    if (!x)
        return ea_fail(err, EA_ENOMEM, "list %s", folder);
    ea_arena_init(&x->arena, 0);
    image_walk walk = {.x = x, .folder = folder, .err = err};
    int rc = image_files_walk_folder(&walk);
    if (rc) {
        ea_image_files_close(x);
        return rc;
    }
    if (x->count)
        qsort(x->files, x->count, sizeof *x->files, by_file_name);
    *ret = x;
    return 0;
}

void ea_image_files_close(ea_image_files *x) {
    if (!x)
        return;
    for (size_t i = 0; i < x->count; i++)
        free(x->files[i].facts);
    free(x->files);
    ea_arena_deinit(&x->arena);
    free(x);
}

/* A damaged image has the facts that were read before the damage. */
static void read_facts(image_file *f) {
    ea_file *file = NULL;
    ea_err ignored = {0};
    f->is_read = 1;
    if (!ea_path_is_file(f->path)) /* to open a pipe might wait forever */
        return;
    if (ea_file_open(&file, f->path, EA_OPEN_READ, &ignored))
        return;
    f->facts = calloc(1, sizeof *f->facts);
    if (f->facts && ea_pe_read_file(file, f->path, f->facts, &ignored) == EA_EFORMAT) {
        free(f->facts);
        f->facts = NULL;
    }
    ea_file_close(file);
}

/* How a file's name compares with another name, in any case. */
static int compare_file_name(const char *lower, const char *name, size_t len_bytes) {
    size_t i = 0;
    for (; i < len_bytes && lower[i]; i++) {
        uint8_t a = (uint8_t)lower[i], b = (uint8_t)ea_ascii_lower(name[i]);
        if (a != b)
            return a < b ? -1 : 1;
    }
    return lower[i] ? 1 : i < len_bytes ? -1 : 0;
}

const ea_pe_facts *ea_image_files_find(ea_image_files *x, const char *path, size_t path_bytes, uint64_t size_bytes,
                                       uint32_t timestamp) {
    size_t begin = path_bytes, low = 0, high = x->count;
    while (begin && path[begin - 1] != '\\' && path[begin - 1] != '/')
        begin--;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_file_name(x->files[middle].name, path + begin, path_bytes - begin) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < x->count && !compare_file_name(x->files[low].name, path + begin, path_bytes - begin); low++) {
        image_file *f = &x->files[low];
        if (!f->is_read)
            read_facts(f);
        if (f->facts && f->facts->size_bytes == size_bytes && (!timestamp || f->facts->timestamp == timestamp))
            return f->facts;
    }
    return NULL;
}
