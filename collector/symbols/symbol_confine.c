/* See symbol_confine.h. */
#include "collector/symbols/symbol_confine.h"

#include "collector/sandbox/system_paths.h"
#include "collector/symbols/symbol_path.h"
#include "proto/base/platform.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(EC_SYSTEM_PATHS + 4 <= EC_SYMBOLIZER_PATHS, "the program, two folders of libraries and a PDB");

enum {
    PATHS_MAX = EC_SYMBOLIZER_PATHS + EC_CONNECTION_PATHS + 1 + EC_SYMBOL_ELEMENTS_MAX * EC_SYMBOL_STORES_MAX,
};

static int is_program(const char *path) {
    return access(path, X_OK) == 0;
}

/* The first one along PATH. */
static int search(const char *name, char *out) {
    const char *at = getenv("PATH");
    at = at && *at ? at : "/usr/local/bin:/usr/bin:/bin";
    for (;;) {
        size_t n = strcspn(at, ":");
        if (n && *at == '/' && snprintf(out, EC_PROGRAM_PATH_MAX, "%.*s/%s", (int)n, at, name) < EC_PROGRAM_PATH_MAX &&
            is_program(out))
            return 1;
        if (!at[n])
            return 0;
        at += n + 1;
    }
}

int ec_symbolizer_find(ec_symbolizer_files *ret, const char *program, ea_err *err) {
    ec_symbolizer_files *f = ret;
    char real[PATH_MAX];
    f->path_count = 0;
    int found =
        strchr(program, '/')
            ? snprintf(f->program, sizeof f->program, "%s", program) < (int)sizeof f->program && is_program(f->program)
            : search(program, f->program);
    if (!found || !realpath(f->program, real))
        return ea_fail(err, EA_ENOTFOUND, "start %s: there is no such program", program);
    snprintf(f->real, sizeof f->real, "%s", real);
    f->lib[0] = f->lib64[0] = 0;
    char *slash = strrchr(real, '/');
    *slash = 0;
    slash = strrchr(real, '/');
    if (slash && strcmp(slash, "/bin") == 0) {
        *slash = 0;
        snprintf(f->lib, sizeof f->lib, "%s/lib", real);
        snprintf(f->lib64, sizeof f->lib64, "%s/lib64", real);
    }
    for (int i = 0; i < EC_SYSTEM_PATHS; i++)
        f->paths[f->path_count++] = EC_SANDBOX_SYSTEM[i];
    f->paths[f->path_count++] = (ec_sandbox_path){.path = f->real, .access = EC_SANDBOX_EXECUTE};
    if (f->lib[0]) {
        f->paths[f->path_count++] = (ec_sandbox_path){.path = f->lib, .access = EC_SANDBOX_EXECUTE};
        f->paths[f->path_count++] = (ec_sandbox_path){.path = f->lib64, .access = EC_SANDBOX_EXECUTE};
    }
    return 0;
}

typedef struct list {
    ec_sandbox_path at[PATHS_MAX];
    size_t count;
} list;

static void symbol_confine_add(list *l, const char *path, enum ec_sandbox_access access) {
    if (path && *path && l->count < PATHS_MAX)
        l->at[l->count++] = (ec_sandbox_path){.path = path, .access = access};
}

/* Places of a chain before the last one are caches. 1: one of its places is a server. */
static int add_chain(list *l, const ec_chain *c) {
    int has_server = 0;
    for (size_t i = 0; i < c->count; i++) {
        int is_server = c->places[i].kind == EC_PLACE_SERVER, is_cache = !is_server && i + 1 < c->count;
        has_server |= is_server;
        if (is_cache)
            EA_IGNORE(ea_path_make_dirs(c->places[i].where, NULL)); /* a failure is reported at its use */
        if (!is_server)
            symbol_confine_add(l, c->places[i].where, is_cache ? EC_SANDBOX_WRITE : EC_SANDBOX_READ);
    }
    return has_server;
}

struct ec_symbols_needs {
    unsigned rights;
    list paths;
    ec_symbol_path path;
    ec_symbolizer_files program;
};

static int list_needs(ec_symbols_needs *n, const ec_symbols_options *o, ea_err *err) {
    int rc = ea_path_make_dirs(o->folder, err);
    if (!rc)
        rc = ec_symbol_path_init(&n->path, o->path ? o->path : "", o->folder, err);
    if (rc)
        return rc;
    symbol_confine_add(&n->paths, o->folder, EC_SANDBOX_WRITE);
    for (size_t i = 0; i < n->path.count; i++)
        if (add_chain(&n->paths, &n->path.chains[i]))
            n->rights |= EC_SANDBOX_NETWORK | EC_SANDBOX_LIBRARIES;
    if (n->rights & EC_SANDBOX_NETWORK) {
        ec_sandbox_path files[EC_CONNECTION_PATHS];
        size_t count = ec_connection_paths(NULL, files);
        for (size_t i = 0; i < count; i++)
            symbol_confine_add(&n->paths, files[i].path, files[i].access);
    }
    if (o->has_lines && !ec_symbolizer_find(&n->program, o->symbolizer.program, NULL)) { /* none: reported later */
        n->rights |= EC_SANDBOX_PROGRAMS;
        for (size_t i = 0; i < n->program.path_count; i++)
            symbol_confine_add(&n->paths, n->program.paths[i].path, n->program.paths[i].access);
    }
    return 0;
}

int ec_symbols_needs_open(ec_symbols_needs **ret, const ec_symbols_options *o, ea_err *err) {
    ec_symbols_needs *n = calloc(1, sizeof *n);
    int rc = !n ? ea_fail(err, EA_ENOMEM, "enter the sandbox") : o ? list_needs(n, o, err) : 0;
    if (rc)
        ec_symbols_needs_close(n);
    else
        *ret = n;
    return rc;
}

void ec_symbols_needs_close(ec_symbols_needs *n) {
    if (!n)
        return;
    ec_symbol_path_deinit(&n->path);
    free(n);
}

unsigned ec_symbols_needs_rights(const ec_symbols_needs *n) {
    return n->rights;
}

const ec_sandbox_path *ec_symbols_needs_paths(const ec_symbols_needs *n, size_t *ret_count) {
    *ret_count = n->paths.count;
    return n->paths.at;
}

int ec_symbols_confine(const ec_symbols_options *o, ea_err *err) {
    ec_symbols_needs *n = NULL;
    int rc = ec_symbols_needs_open(&n, o, err);
    if (!rc)
        rc = ec_sandbox_enter(&(ec_sandbox){.rights = n->rights, .paths = n->paths.at, .path_count = n->paths.count},
                              err);
    ec_symbols_needs_close(n);
    return rc;
}
