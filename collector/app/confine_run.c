/* See confine_run.h. */
#include "collector/app/confine_run.h"

#include "collector/sandbox/sandbox.h"
#include "collector/symbols/symbol_confine.h"
#include "proto/base/array.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/ssl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { OWN_MAX = 64 };

/* What processes of this program load and read, each for itself. */
static const ec_sandbox_path SYSTEM[] = {
    {.path = "/usr", .access = EC_SANDBOX_EXECUTE},
    {.path = "/bin", .access = EC_SANDBOX_EXECUTE},
    {.path = "/lib", .access = EC_SANDBOX_EXECUTE},
    {.path = "/lib64", .access = EC_SANDBOX_EXECUTE},
    {.path = "/etc/ld.so.cache", .access = EC_SANDBOX_READ},
    {.path = "/etc/localtime", .access = EC_SANDBOX_READ},
    {.path = "/etc/ssl/openssl.cnf", .access = EC_SANDBOX_READ},
    {.path = "/etc/pki/tls/openssl.cnf", .access = EC_SANDBOX_READ},
    {.path = "/etc/crypto-policies", .access = EC_SANDBOX_READ},
    {.path = "/etc/resolv.conf", .access = EC_SANDBOX_READ},
    {.path = "/etc/hosts", .access = EC_SANDBOX_READ},
    {.path = "/etc/nsswitch.conf", .access = EC_SANDBOX_READ},
    {.path = "/etc/gai.conf", .access = EC_SANDBOX_READ},
    {.path = "/etc/host.conf", .access = EC_SANDBOX_READ},
    {.path = "/etc/services", .access = EC_SANDBOX_READ},
    {.path = "/dev/null", .access = EC_SANDBOX_SHARE},
    {.path = "/dev/zero", .access = EC_SANDBOX_READ},
    {.path = "/dev/urandom", .access = EC_SANDBOX_READ},
    {.path = "/proc", .access = EC_SANDBOX_READ},
};

enum { SYSTEM_COUNT = sizeof SYSTEM / sizeof SYSTEM[0] };

static void confine_add(ec_own_programs *l, const char *path, enum ec_sandbox_access access) {
    if (l->failed || EA_GROW(l->paths, l->capacity, l->count + 1, SIZE_MAX)) {
        l->failed = 1;
        return;
    }
    l->paths[l->count++] = (ec_sandbox_path){.path = path, .access = access};
}

/* The program and the libraries that it has loaded, wherever they are: its children load them again. They are opened
 * here, since a list of the kernel's own text (/proc/self/maps) says where they are. */
static int add_own_files(ec_own_programs *l, ea_err *err) {
    char line[PATH_MAX + 128];
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps)
        return ea_fail_os(err, EA_EIO, errno, "open /proc/self/maps");
    while (fgets(line, sizeof line, maps) && l->count < SYSTEM_COUNT + OWN_MAX) {
        const char *path = strstr(line, " r-xp ") ? strchr(line, '/') : NULL;
        line[strcspn(line, "\n")] = 0;
        int fd = path ? open(path, O_PATH | O_CLOEXEC) : -1;
        if (fd >= 0) { /* others are the kernel's, or deleted */
            confine_add(l, NULL, EC_SANDBOX_EXECUTE);
            if (!l->failed)
                l->paths[l->count - 1].fd = fd;
            else
                close(fd);
        }
    }
    fclose(maps);
    return 0;
}

int ec_own_programs_list(ec_own_programs *p, ea_err *err) {
    int rc = add_own_files(p, err);
    for (int i = 0; i < SYSTEM_COUNT; i++)
        confine_add(p, SYSTEM[i].path, SYSTEM[i].access);
    return !rc && p->failed ? ea_fail(err, EA_ENOMEM, "enter the sandbox") : rc;
}

void ec_own_programs_deinit(ec_own_programs *p) {
    for (size_t i = 0; i < p->count; i++)
        if (!p->paths[i].path)
            close(p->paths[i].fd);
    free(p->paths);
}

static int is_below(const char *path, const char *folder) {
    char real[PATH_MAX], above[PATH_MAX];
    if (!realpath(path, real) || !realpath(folder, above))
        return 0;
    size_t n = strlen(above);
    return strncmp(real, above, n) == 0 && (real[n] == '/' || real[n] == 0);
}

/* Whether the CA's folder can be opened, and what to do about it. */
static int ca_in_reach(const ec_run_confinement *c) {
    ec_sandbox_support s;
    int fd = open(c->ca_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    close(fd);
    ec_sandbox_probe(&s);
    if (!s.has[EC_SANDBOX_HAS_FILES])
        ec_log_line(c->log, "the process that reads what agents send can open the CA's key in %s: %s", c->ca_dir,
                    s.why);
    else if (is_below(c->ca_dir, c->store))
        ec_log_line(c->log,
                    "the process that reads what agents send can open the CA's key in %s, since it is in the store's "
                    "folder: move it out of %s, and name it with --ca-dir",
                    c->ca_dir, c->store);
    else
        ec_log_line(c->log,
                    "the process that reads what agents send can open the CA's key in %s, since it is in a folder of "
                    "programs or symbols: move it",
                    c->ca_dir);
    return 1;
}

int ec_run_confine(const ec_run_confinement *c, int *ret_ca_in_reach, ea_err *err) {
    ec_symbols_needs *needs = NULL;
    ec_own_programs l = {.count = 0};
    size_t need_count = 0;
    ea_text segments;
    ea_text_init(&segments);
    ea_text_printf(&segments, "%s/segments", c->store); /* it may be a link to another drive */
    tzset();
    /* The folder of SQLite's temporary files. The environment variable SQLITE_TMPDIR would come too late: SQLite reads
     * it at the first opened database, which may be that of the symbols. */
    sqlite3_temp_directory = sqlite3_mprintf("%s", c->store);
    int rc = segments.failed || !sqlite3_temp_directory || OPENSSL_init_ssl(0, NULL) != 1
                 ? ea_fail(err, EA_ENOMEM, "enter the sandbox")
                 : 0;
    if (!rc)
        rc = ea_path_make_dirs(segments.data, err); /* what is missing now cannot be allowed */
    if (!rc && c->archive)
        rc = ea_path_make_dirs(c->archive, err);
    if (!rc)
        rc = ec_own_programs_list(&l, err);
    if (!rc)
        rc = ec_symbols_needs_open(&needs, c->symbols, err);
    if (!rc) {
        confine_add(&l, c->store, EC_SANDBOX_WRITE);
        confine_add(&l, segments.data, EC_SANDBOX_WRITE);
        if (c->archive)
            confine_add(&l, c->archive, EC_SANDBOX_WRITE);
        if (c->rules)
            confine_add(&l, c->rules, EC_SANDBOX_READ);
        const ec_sandbox_path *more = ec_symbols_needs_paths(needs, &need_count);
        for (size_t i = 0; i < need_count; i++)
            confine_add(&l, more[i].path, more[i].access);
        if (l.failed)
            rc = ea_fail(err, EA_ENOMEM, "enter the sandbox");
    }
    if (!rc)
        rc = ec_sandbox_enter(&(ec_sandbox){.rights = ec_symbols_needs_rights(needs) | EC_SANDBOX_SERVICE,
                                            .paths = l.paths,
                                            .path_count = l.count},
                              err);
    ec_symbols_needs_close(needs);
    ec_own_programs_deinit(&l);
    ea_text_deinit(&segments);
    if (!rc)
        *ret_ca_in_reach = c->ca_dir && ca_in_reach(c);
    return rc;
}
