/* The owner of a spool. See spool_owner.h. */
#include "service/spool/spool_owner.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define OWNER_SEED 0x6f776e72u
static const char FIRST_WORDS[] = "etwagent spool owner ", FIRST_LINE[] = "etwagent spool owner 1\n", NAME[] = "name ";
static const char FOLDER_HEAD[] = "of-", FOLDER_TAIL[] = ".spool";

enum { FILE_MAX = 4096, PATH_MAX_BYTES = 4096 };

/* Writes dir/name to out. */
static int spool_owner_put_path(char *out, size_t capacity, const char *dir, const char *name, ea_err *err) {
    int n = snprintf(out, capacity, "%s/%s", dir, name);
    return n > 0 && (size_t)n < capacity ? 0 : ea_fail(err, EA_ELIMIT, "%.128s: the path is too long", dir);
}

static void put_owner(ea_text *t, const char *name) {
    ea_text_str(t, FIRST_LINE);
    ea_text_printf(t, "%s%s\n", NAME, name);
    if (!t->failed)
        ea_text_printf(t, "end %016" PRIx64 "\n", ea_hash64(t->data, t->len_bytes, OWNER_SEED));
}

/* The name, when the file is exactly what put_owner makes of it. */
static int spool_owner_parse(const char *data, size_t len_bytes, const char *path, char *ret, ea_err *err) {
    ea_text t;
    char name[EA_SPOOL_OWNER_BYTES] = "";
    size_t first = sizeof FIRST_LINE - 1, key = sizeof NAME - 1;
    int good = len_bytes > first + key && memcmp(data, FIRST_LINE, first) == 0 && memcmp(data + first, NAME, key) == 0;
    size_t n = good ? strcspn(data + first + key, "\n") : 0;
    good = good && n < sizeof name && ea_name_is_agent(data + first + key, n);
    if (good) {
        memcpy(name, data + first + key, n);
        ea_text_init(&t);
        put_owner(&t, name);
        int failed = t.failed;
        good = !failed && t.len_bytes == len_bytes && memcmp(t.data, data, len_bytes) == 0;
        ea_text_deinit(&t);
        if (failed)
            return ea_fail(err, EA_ENOMEM, "read %s", path);
    }
    if (good) {
        memcpy(ret, name, sizeof name);
        return 0;
    }
    size_t words = sizeof FIRST_WORDS - 1;
    if (len_bytes > words && memcmp(data, FIRST_WORDS, words) == 0 && strtoul(data + words, NULL, 10) > 1)
        return ea_fail(err, EA_EUNSUPPORTED, "read the spool's owner in %s: a newer version's format", path);
    return ea_fail(err, EA_ECORRUPT,
                   "read the spool's owner in %s: the file is damaged; write its name again by removing the file and "
                   "using the spool with the certificate that it was used with",
                   path);
}

int ea_spool_owner_read(const char *dir, char ret[EA_SPOOL_OWNER_BYTES], ea_err *err) {
    char path[PATH_MAX_BYTES], *data = NULL;
    size_t len_bytes = 0;
    int rc = spool_owner_put_path(path, sizeof path, dir, "owner", err);
    if (!rc)
        rc = ea_path_read_all(path, FILE_MAX, &data, &len_bytes, err);
    if (rc == EA_ELIMIT && data == NULL)
        return ea_fail(err, EA_ECORRUPT, "read the spool's owner in %s: the file is damaged", path);
    if (!rc)
        rc = spool_owner_parse(data, len_bytes, path, ret, err);
    free(data);
    return rc;
}

int ea_spool_owner_write(const char *dir, const char *name, ea_err *err) {
    char path[PATH_MAX_BYTES];
    ea_text t;
    if (!ea_name_is_agent(name, strlen(name)))
        return ea_fail(err, EA_EINVAL, "own the spool %s: no collector accepts the agent's name '%.80s'", dir, name);
    int rc = spool_owner_put_path(path, sizeof path, dir, "owner", err);
    if (rc)
        return rc;
    ea_text_init(&t);
    put_owner(&t, name);
    rc = t.failed ? ea_fail(err, EA_ENOMEM, "write %s", path) : ea_path_write_all(path, t.data, t.len_bytes, 1, err);
    ea_text_deinit(&t);
    return rc ? rc : ea_path_sync_dir(dir, err);
}

int ea_spool_folder_of(const char *root, const char *name, char *ret, size_t capacity, ea_err *err) {
    char owner[EA_SPOOL_OWNER_BYTES] = "", folder[sizeof FOLDER_HEAD + EA_SPOOL_OWNER_BYTES + sizeof FOLDER_TAIL];
    ea_err why;
    if (!ea_name_is_agent(name, strlen(name)))
        return ea_fail(err, EA_EINVAL, "find the spool of '%.80s': no collector accepts this name of an agent", name);
    int rc = ea_spool_owner_read(root, owner, &why);
    if (rc && rc != EA_ENOTFOUND && rc != EA_ECORRUPT && rc != EA_EUNSUPPORTED)
        return ea_fail_os(err, rc, why.os_error, "%s", why.message);
    if (rc == EA_ENOTFOUND || (!rc && ea_name_equal(owner, name))) {
        int n = snprintf(ret, capacity, "%s", root);
        return n > 0 && (size_t)n < capacity ? 0 : ea_fail(err, EA_ELIMIT, "%.128s: the path is too long", root);
    }
    snprintf(folder, sizeof folder, "%s%s%s", FOLDER_HEAD, name, FOLDER_TAIL);
    ea_name_to_lower(folder);
    return spool_owner_put_path(ret, capacity, root, folder, err);
}

typedef struct walk {
    const char *root;
    int (*fn)(const char *dir, const char *owner, const char *why, void *arg);
    void *arg;
    ea_err *err;
} walk;

static int visit_folder(const walk *w, const char *dir) {
    char owner[EA_SPOOL_OWNER_BYTES] = "";
    ea_err why;
    int rc = ea_spool_owner_read(dir, owner, &why);
    return w->fn(dir, owner, rc && rc != EA_ENOTFOUND ? why.message : NULL, w->arg);
}

static int visit_entry(const char *name, int is_dir, void *arg) {
    const walk *w = arg;
    char dir[PATH_MAX_BYTES];
    size_t n = strlen(name), head = sizeof FOLDER_HEAD - 1, tail = sizeof FOLDER_TAIL - 1;
    if (!is_dir || n <= head + tail || memcmp(name, FOLDER_HEAD, head) != 0 ||
        strcmp(name + n - tail, FOLDER_TAIL) != 0)
        return 0;
    int rc = spool_owner_put_path(dir, sizeof dir, w->root, name, w->err);
    return rc ? rc : visit_folder(w, dir);
}

int ea_spool_each_folder(const char *root, int (*fn)(const char *dir, const char *owner, const char *why, void *arg),
                         void *arg, ea_err *err) {
    walk w = {.root = root, .fn = fn, .arg = arg, .err = err};
    int rc = visit_folder(&w, root);
    return rc ? rc : ea_path_list(root, visit_entry, &w, err);
}
