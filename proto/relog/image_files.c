/* See image_files.h. */
#include "proto/relog/image_files.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/pattern.h"
#include "proto/image/pe.h"

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
    char version[EA_PE_VERSION_TEXT_MAX]; /* of the file that was found last */
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

static int add_image_file(ea_image_files *x, const char *path, const char *name, size_t name_bytes) {
    char *lower = ea_arena_alloc(&x->arena, name_bytes + 1);
    if (!lower || EA_GROW(x->files, x->capacity, x->count + 1, SIZE_MAX))
        return EA_ENOMEM;
    for (size_t i = 0; i < name_bytes; i++)
        lower[i] = ea_ascii_lower(name[i]);
    lower[name_bytes] = 0;
    x->files[x->count++] = (image_file){.path = path, .name = lower};
    return 0;
}

static int note_image_file(const char *name, int is_dir, void *arg) {
    image_walk *walk = arg;
    ea_image_files *x = walk->x;
    size_t folder_bytes = strlen(walk->folder), bytes = strlen(name) + 1;
    char *path = ea_arena_alloc(&x->arena, folder_bytes + 1 + bytes);
    if (!path)
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
    if (add_image_file(x, path, name, bytes - 1))
        return walk->rc = ea_fail(walk->err, EA_ENOMEM, "list %s", walk->folder);
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

/* One file, which is named itself. */
static int open_one_file(ea_image_files *x, const char *path, ea_err *err) {
    size_t bytes = strlen(path) + 1, name_bytes;
    char *copy = ea_arena_alloc(&x->arena, bytes);
    if (copy)
        memcpy(copy, path, bytes);
    const char *name = ea_image_name(path, bytes - 1, &name_bytes);
    return copy && !add_image_file(x, copy, name, name_bytes) ? 0 : ea_fail(err, EA_ENOMEM, "read %s", path);
}

int ea_image_files_open(ea_image_files **ret, const char *path, ea_err *err) {
    ea_image_files *x = calloc(1, sizeof *x);
    if (!x)
        return ea_fail(err, EA_ENOMEM, "list %s", path);
    ea_arena_init(&x->arena, 0);
    image_walk walk = {.x = x, .folder = path, .err = err};
    int rc = ea_path_is_file(path) ? open_one_file(x, path, err) : image_files_walk_folder(&walk);
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

int ea_image_files_find(ea_image_files *x, const ea_image_wanted *wanted, ea_image_fact *ret) {
    size_t low = 0, high = x->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ea_image_name_compare(x->files[middle].name, wanted->name, wanted->name_bytes) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < x->count && !ea_image_name_compare(x->files[low].name, wanted->name, wanted->name_bytes); low++) {
        image_file *f = &x->files[low];
        if (!f->is_read)
            read_facts(f);
        if (!f->facts || f->facts->size_bytes != wanted->size_bytes ||
            (wanted->timestamp && f->facts->timestamp != wanted->timestamp))
            continue;
        ea_pe_version_text(f->facts, x->version);
        *ret = (ea_image_fact){.timestamp = f->facts->timestamp,
                               .version = x->version,
                               .company = f->facts->company,
                               .product = f->facts->product,
                               .description = f->facts->description,
                               .pdb_age = f->facts->pdb_age,
                               .has_pdb = f->facts->has_pdb,
                               .pdb_guid = f->facts->pdb_guid,
                               .pdb_path = f->facts->pdb_path,
                               .original_name = f->facts->original_name};
        return 1;
    }
    return 0;
}
