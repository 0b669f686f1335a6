/* The cache of symbol files. See symbol_cache.h. */
#include "collector/symbols/symbol_cache.h"
#include "collector/symbols/cabinet.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/platform.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    POINTER_MAX = 4096, /* of a file.ptr */
    PROBE_BYTES = 4,
    FILES_MAX = 1 << 20,      /* of the cache, that are looked at */
    TOUCH_SECONDS = 3600,     /* a file's time of use is that exact */
    PART_SECONDS = 24 * 3600, /* a download that was abandoned */
};

#define PART_MARK   ".part-"
#define ABSENT_MARK "absent-"

struct ec_symbol_cache {
    ec_symbol_cache_options o;
    ec_symbol_path path;
    ea_symbol_server *server;
    int64_t silent_until_ns[EC_SYMBOL_ELEMENTS_MAX]; /* by the path's element, monotonic: its server gave no answer */
    uint64_t kept_bytes;                             /* of the default cache, as far as it is known */
    size_t absent_count;                             /* of its marks, likewise */
};

/* A file that is looked for. */
typedef struct quest {
    const char *name, *key;
    ec_symbol_judge judge;
    void *arg;
    ea_text reasons; /* of the places that have been looked into */
} quest;

static void symbol_cache_add_reason(quest *q, const char *where, const char *text) {
    if (q->reasons.len_bytes)
        ea_text_str(&q->reasons, "; ");
    if (where) {
        ea_text_str(&q->reasons, where);
        ea_text_str(&q->reasons, ": ");
    }
    ea_text_str(&q->reasons, text);
}

/* Only what says more than "there is none". */
static void add_error(quest *q, const ea_err *e) {
    if (e->os_error != ENOENT)
        symbol_cache_add_reason(q, NULL, e->message);
}

int ec_symbol_name_ok(const char *name) {
    size_t n = strlen(name);
    if (!n || n > EC_SYMBOL_NAME_MAX || name[0] == '.' || name[n - 1] == ' ' || name[n - 1] == '.')
        return 0;
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)name[i] < 32 || name[i] == 127 || strchr("/\\:*?\"<>|", name[i]))
            return 0;
    return 1;
}

static int key_ok(const char *key) {
    size_t n = strlen(key);
    return n > 0 && n <= EC_SYMBOL_KEY_MAX && strspn(key, "0123456789abcdefABCDEF") == n;
}

/* ---- files ---- */

static void symbol_cache_join(ea_text *t, const char *folder, const quest *q, const char *file) {
    ea_text_clear(t);
    ea_text_str(t, folder);
    ea_text_char(t, '/');
    ea_text_str(t, q->name);
    ea_text_char(t, '/');
    ea_text_str(t, q->key);
    if (file) {
        ea_text_char(t, '/');
        ea_text_str(t, file);
    }
}

static int is_file(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && S_ISREG(s.st_mode);
}

/* The time of a file is when it was last used. */
static void touch(const char *path) {
    struct stat s;
    if (stat(path, &s) == 0 && s.st_mtime + TOUCH_SECONDS < ea_utc_ns() / 1000000000)
        (void)utimensat(AT_FDCWD, path, NULL, 0);
}

/* Makes a unique name beside path. */
static int symbol_cache_part_name(ea_text *t, const char *path, ea_err *err) {
    uint8_t salt[6];
    int rc = ea_random_bytes(salt, sizeof salt, err);
    if (rc)
        return rc;
    ea_text_clear(t);
    ea_text_str(t, path);
    ea_text_str(t, PART_MARK);
    ea_text_hex(t, salt, sizeof salt);
    return t->failed ? ea_fail(err, EA_ENOMEM, "keep %s", path) : 0;
}

static int symbol_cache_copy_file(const char *from, const char *to, ea_err *err) {
    uint8_t chunk[1 << 16];
    ea_file *in, *out = NULL;
    size_t got = 1;
    int rc = ea_file_open(&in, from, EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = ea_file_open(&out, to, EA_OPEN_CREATE, err);
    for (uint64_t at = 0; !rc && got; at += got) {
        rc = ea_file_read_at(in, at, chunk, sizeof chunk, &got, err);
        if (!rc && got)
            rc = ea_file_write_at(out, at, chunk, got, err);
    }
    ea_file_close(out);
    ea_file_close(in);
    return rc;
}

/* ---- the bound of the default cache ---- */

typedef struct kept {
    char *path;
    int64_t used_ns;
    uint64_t size_bytes;
    int is_absent; /* it says that a server lacked a file */
} kept;

typedef struct walk {
    const char *name, *key; /* of the folders above */
    ec_symbol_cache *c;
    kept *files;
    size_t count, capacity;
    int failed;
} walk;

static void symbol_cache_see_file(walk *w, const char *file) {
    ea_text t;
    struct stat s;
    ea_text_init(&t);
    ea_text_printf(&t, "%s/%s/%s/%s", w->c->o.folder, w->name, w->key, file);
    if (!t.failed && lstat(t.data, &s) == 0 && S_ISREG(s.st_mode) && w->count < FILES_MAX) {
        if (EA_GROW(w->files, w->capacity, w->count + 1, FILES_MAX)) {
            w->failed = 1;
        } else {
            int64_t used_ns = (int64_t)s.st_mtime * 1000000000;
            if (strstr(file, PART_MARK) && s.st_mtime + PART_SECONDS < ea_utc_ns() / 1000000000)
                used_ns = 0;
            w->files[w->count++] =
                (kept){t.data, used_ns, (uint64_t)s.st_size, strncmp(file, ABSENT_MARK, sizeof ABSENT_MARK - 1) == 0};
            return; /* the text's bytes are the file's path now */
        }
    }
    ea_text_deinit(&t);
}

static int walk_key(const char *file, int is_dir, void *arg) {
    walk *w = arg;
    if (!is_dir)
        symbol_cache_see_file(w, file);
    return w->failed;
}

static int walk_name(const char *key, int is_dir, void *arg) {
    walk *w = arg;
    char path[1024];
    if (!is_dir || !key_ok(key))
        return 0;
    w->key = key;
    snprintf(path, sizeof path, "%s/%s/%s", w->c->o.folder, w->name, key);
    return ea_path_list(path, walk_key, w, NULL) && w->failed;
}

static int symbol_cache_walk_folder(const char *name, int is_dir, void *arg) {
    walk *w = arg;
    char path[1024];
    if (!is_dir || !ec_symbol_name_ok(name))
        return 0;
    w->name = name;
    snprintf(path, sizeof path, "%s/%s", w->c->o.folder, name);
    return ea_path_list(path, walk_name, w, NULL) && w->failed;
}

static int by_use(const void *a, const void *b) {
    const kept *x = a, *y = b;
    return x->used_ns < y->used_ns ? -1 : x->used_ns > y->used_ns;
}

/* Removes a file, and the folders that it leaves empty. */
static void remove_kept(char *path) {
    (void)unlink(path);
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return;
        *slash = 0;
        if (rmdir(path))
            return;
    }
}

int64_t ec_symbol_clock_step_ns(int64_t last_ns, int64_t limit_age_ns) {
    enum { SHARE = 8 };

    int64_t passed_ns = ea_utc_ns() - last_ns, most_ns = limit_age_ns / SHARE;
    return !last_ns ? 0 : passed_ns < 0 ? passed_ns : passed_ns > most_ns ? passed_ns - most_ns : 0;
}

/* Moves the times of use by what the clock was set since the last one, that of the last file. */
static void move_times(walk *w) {
    int64_t step_ns = ec_symbol_clock_step_ns(w->count ? w->files[w->count - 1].used_ns : 0, w->c->o.limit_age_ns);
    for (size_t i = 0; w->count && step_ns && i < w->count; i++) {
        kept *k = &w->files[i];
        k->used_ns += step_ns;
        const struct timespec at = {.tv_sec = (time_t)(k->used_ns / 1000000000)};
        (void)utimensat(AT_FDCWD, k->path, (const struct timespec[2]){at, at}, 0);
    }
}

/* Counts the existing files, and removes files that are too old or exceed a limit; spare is not removed. */
static void sweep(ec_symbol_cache *c, const char *spare) {
    walk w = {.c = c};
    int64_t oldest = ea_utc_ns() - c->o.limit_age_ns;
    c->kept_bytes = 0;
    c->absent_count = 0;
    if (ea_path_list(c->o.folder, symbol_cache_walk_folder, &w, NULL))
        c->kept_bytes = 0; /* whatever was seen is enough to make room with */
    for (size_t i = 0; i < w.count; i++) {
        c->kept_bytes += w.files[i].size_bytes;
        c->absent_count += w.files[i].is_absent != 0;
    }
    size_t most = c->absent_count > c->o.limit_absent ? c->o.limit_absent - c->o.limit_absent / 8 : c->absent_count;
    if (w.count)
        qsort(w.files, w.count, sizeof *w.files, by_use);
    move_times(&w);
    for (size_t i = 0; i < w.count; i++) {
        int is_spare = spare && strcmp(w.files[i].path, spare) == 0;
        int is_beyond = w.files[i].is_absent && c->absent_count > most;
        if (!is_spare && (is_beyond || w.files[i].used_ns < oldest || c->kept_bytes > c->o.limit_bytes)) {
            c->kept_bytes -= w.files[i].size_bytes;
            c->absent_count -= w.files[i].is_absent != 0;
            remove_kept(w.files[i].path);
        }
        free(w.files[i].path);
    }
    free(w.files);
}

/* A file came into folder. */
static void symbol_cache_note_kept(ec_symbol_cache *c, const char *folder, const char *path, int is_absent) {
    struct stat s;
    if (strcmp(folder, c->o.folder) != 0 || stat(path, &s))
        return;
    c->kept_bytes += (uint64_t)s.st_size;
    c->absent_count += is_absent != 0;
    if (c->kept_bytes > c->o.limit_bytes || c->absent_count > c->o.limit_absent)
        sweep(c, path);
}

/* The folders that were made for a file that did not come. */
static void remove_empty(const char *folder, const quest *q) {
    ea_text t;
    ea_text_init(&t);
    symbol_cache_join(&t, folder, q, "");
    if (!t.failed)
        remove_kept(t.data);
    ea_text_deinit(&t);
}

/* ---- what a server lacked ---- */

static void absent_name(ea_text *t, const ec_symbol_cache *c, const quest *q, const char *server) {
    char file[32];
    snprintf(file, sizeof file, ABSENT_MARK "%016" PRIx64, ea_hash64(server, strlen(server), 0));
    symbol_cache_join(t, c->o.folder, q, file);
}

/* Reads a mark: "lacks" or "failed", a space, the time in nanoseconds, a space, the reason. 1 when it still holds; then
 * its reason is added to the errors. */
static int symbol_cache_is_absent(const ec_symbol_cache *c, quest *q, const char *server) {
    ea_text path, reason;
    char *data = NULL;
    size_t n;
    uint64_t then = 0;
    int holds = 0;
    ea_text_init(&path);
    ea_text_init(&reason);
    absent_name(&path, c, q, server);
    if (!path.failed && !ea_path_read_all(path.data, POINTER_MAX, &data, &n, NULL)) {
        char *time = strchr(data, ' '), *text = time ? strchr(time + 1, ' ') : NULL;
        int64_t lifetime = strncmp(data, "lacks", 5) == 0 ? c->o.absent_ns : c->o.failure_ns;
        if (text) {
            *text++ = 0;
            holds = !ea_u64_parse(time + 1, &then) && then <= (uint64_t)ea_utc_ns() &&
                    (uint64_t)ea_utc_ns() - then < (uint64_t)lifetime;
        }
        if (holds) {
            ea_text_safe(&reason, text, strlen(text));
            ea_text_str(&reason, " (asked before)");
            symbol_cache_add_reason(q, NULL, reason.failed ? text : reason.data);
        }
    }
    free(data);
    ea_text_deinit(&path);
    ea_text_deinit(&reason);
    return holds;
}

static void note_absent(ec_symbol_cache *c, quest *q, const char *server, const ea_err *why) {
    ea_text path, text;
    ea_text_init(&path);
    ea_text_init(&text);
    symbol_cache_join(&path, c->o.folder, q, NULL);
    if (!path.failed)
        EA_IGNORE(ea_path_make_dirs(path.data, NULL));
    absent_name(&path, c, q, server);
    int lacks = why->code == EA_ENOTFOUND || why->code == EA_ECONFLICT || why->code == EA_EUNSUPPORTED;
    ea_text_printf(&text, "%s %" PRIu64 " %s", lacks ? "lacks" : "failed", (uint64_t)ea_utc_ns(), why->message);
    /* best effort: a cache that cannot be written to is asked for nothing more */
    if (!path.failed && !text.failed && !ea_path_write_all(path.data, text.data, text.len_bytes, 0, NULL))
        symbol_cache_note_kept(c, c->o.folder, path.data, 1);
    ea_text_deinit(&path);
    ea_text_deinit(&text);
}

/* ---- looking into a place ---- */

/* "ntdll.pd_" */
static void packed_name(const char *name, char *out, size_t out_bytes) {
    snprintf(out, out_bytes, "%s", name);
    out[strlen(out) - 1] = '_';
}

/* What a file.ptr says instead of a file. */
static int read_pointer(const char *path, const char *where, char *out, size_t out_bytes, ea_err *err) {
    char *data;
    size_t n;
    int rc = ea_path_read_all(path, POINTER_MAX, &data, &n, err);
    if (rc)
        return rc;
    data[strcspn(data, "\r\n")] = 0;
    if (strncmp(data, "PATH:", 5) == 0 && data[5] == '/')
        snprintf(out, out_bytes, "%s", data + 5);
    else if (strncmp(data, "PATH:", 5) == 0)
        rc = ea_fail(err, EA_EUNSUPPORTED, "%s points to %.200s, which cannot be read from here", where, data + 5);
    else
        rc = ea_fail(err, EA_ENOTFOUND, "%s says %.200s", where, data);
    free(data);
    return rc;
}

/* Makes the plain file at to from the file at from, which may be a cabinet. from is used up when is_ours. */
static int unpack(const ec_symbol_cache *c, const char *from, int is_ours, const char *to, ea_err *err) {
    uint8_t head[PROBE_BYTES];
    ea_file *f;
    size_t got = 0;
    int rc = ea_file_open(&f, from, EA_OPEN_READ, err);
    if (rc)
        return rc;
    rc = ea_file_read_at(f, 0, head, sizeof head, &got, err);
    ea_file_close(f);
    if (!rc && ec_cabinet_begins(head, got))
        rc = ec_cabinet_extract(from, to, c->o.server.limit_bytes, err);
    else if (!rc && is_ours)
        return ea_path_rename(from, to, err);
    else if (!rc)
        rc = symbol_cache_copy_file(from, to, err);
    if (is_ours)
        (void)unlink(from);
    return rc;
}

/* Brings the file at from into the store folder: unpacked, judged, then moved to its place. */
static int symbol_cache_keep(ec_symbol_cache *c, quest *q, const char *from, int is_ours, const char *folder,
                             ea_text *ret_path, ea_err *err) {
    ea_text place, part;
    ea_text_init(&place);
    ea_text_init(&part);
    symbol_cache_join(&place, folder, q, NULL);
    int rc = place.failed ? ea_fail(err, EA_ENOMEM, "keep %s", q->name) : ea_path_make_dirs(place.data, err);
    symbol_cache_join(&place, folder, q, q->name);
    if (!rc && place.failed)
        rc = ea_fail(err, EA_ENOMEM, "keep %s", q->name);
    if (!rc)
        rc = symbol_cache_part_name(&part, place.data, err);
    if (!rc)
        rc = unpack(c, from, is_ours, part.data, err);
    if (!rc)
        rc = q->judge(q->arg, part.data, err);
    if (!rc)
        rc = ea_path_rename(part.data, place.data, err);
    if (rc && part.len_bytes)
        (void)unlink(part.data);
    if (!rc) {
        symbol_cache_note_kept(c, folder, place.data, 0);
        ea_text_clear(ret_path);
        ea_text_add(ret_path, place.data, place.len_bytes);
    }
    ea_text_deinit(&place);
    ea_text_deinit(&part);
    return rc;
}

/* A file on disk that may be it. 1: it is, and its path is in ret_path; 0: not, and why is among the reasons. */
static int try_file(quest *q, const char *path, ea_text *ret_path) {
    ea_err e = {0};
    if (!is_file(path))
        return 0;
    if (q->judge(q->arg, path, &e)) {
        add_error(q, &e);
        return 0;
    }
    touch(path);
    ea_text_clear(ret_path);
    ea_text_str(ret_path, path);
    return 1;
}

/* A store on disk: the file, or what stands for it. cache: where an unpacked one is kept. */
static int look_into_store(ec_symbol_cache *c, quest *q, const char *folder, const char *cache, ea_text *ret_path) {
    char packed[EC_SYMBOL_NAME_MAX + 1], target[POINTER_MAX];
    ea_text path;
    ea_err e = {0};
    ea_text_init(&path);
    symbol_cache_join(&path, folder, q, q->name);
    int found = !path.failed && try_file(q, path.data, ret_path);
    if (!found) {
        packed_name(q->name, packed, sizeof packed);
        symbol_cache_join(&path, folder, q, packed);
        if (!path.failed && is_file(path.data)) {
            found = !symbol_cache_keep(c, q, path.data, 0, cache, ret_path, &e);
            if (!found)
                add_error(q, &e);
        }
    }
    if (!found) {
        symbol_cache_join(&path, folder, q, "file.ptr");
        if (!path.failed && is_file(path.data)) {
            if (read_pointer(path.data, path.data, target, sizeof target, &e))
                add_error(q, &e);
            else
                found = try_file(q, target, ret_path);
        }
    }
    ea_text_deinit(&path);
    return found;
}

static int symbol_cache_look_into_folder(quest *q, const char *folder, ea_text *ret_path) {
    const char *dot = strrchr(q->name, '.'), *extension = dot ? dot + 1 : "";
    static const char *const BETWEEN[] = {"", "/symbols", ""};
    ea_text path;
    int found = 0;
    ea_text_init(&path);
    for (int i = 0; !found && i < (*extension ? 3 : 1); i++) {
        ea_text_clear(&path);
        ea_text_str(&path, folder);
        ea_text_str(&path, BETWEEN[i]);
        if (i) {
            ea_text_char(&path, '/');
            ea_text_str(&path, extension);
        }
        ea_text_char(&path, '/');
        ea_text_str(&path, q->name);
        found = !path.failed && try_file(q, path.data, ret_path);
    }
    ea_text_deinit(&path);
    return found;
}

static int is_store(const char *folder) {
    ea_text path;
    ea_text_init(&path);
    ea_text_printf(&path, "%s/pingme.txt", folder);
    int is = !path.failed && is_file(path.data);
    ea_text_deinit(&path);
    return is;
}

/* Downloads one of the names that the file may have there, and keeps what is right. is_pointer: it only says where. */
static int fetch(ec_symbol_cache *c, quest *q, const char *server, const char *file, int is_pointer, const char *cache,
                 ea_text *ret_path, ea_err *err) {
    ea_text place, part;
    char target[POINTER_MAX];
    ea_text_init(&place);
    ea_text_init(&part);
    symbol_cache_join(&place, cache, q, file);
    int rc =
        place.failed ? ea_fail(err, EA_ENOMEM, "keep %s", q->name) : symbol_cache_part_name(&part, place.data, err);
    if (!rc)
        rc = ea_symbol_server_fetch(c->server, server, q->name, q->key, file, part.data, err);
    if (!rc && is_pointer) {
        rc = read_pointer(part.data, server, target, sizeof target, err);
        if (!rc) /* a server does not say which of our files are read */
            rc = ea_fail(err, EA_EUNSUPPORTED, "%s points to %.200s, which is on another machine", server, target);
    } else if (!rc) {
        rc = symbol_cache_keep(c, q, part.data, 1, cache, ret_path, err);
    }
    if (part.len_bytes)
        (void)unlink(part.data);
    ea_text_deinit(&place);
    ea_text_deinit(&part);
    return rc;
}

/* A server that said nothing is waited for once, not for each file. */
static int symbol_cache_is_left_alone(quest *q, const char *server, int64_t until_ns) {
    int64_t left_ns = until_ns - ea_monotonic_ns();
    char text[64];
    if (until_ns == 0 || left_ns <= 0)
        return 0;
    snprintf(text, sizeof text, "gave no answer; it is asked again in %" PRId64 " s", left_ns / 1000000000 + 1);
    symbol_cache_add_reason(q, server, text);
    return 1;
}

static int look_at_server(ec_symbol_cache *c, quest *q, const char *server, const char *cache, int64_t *silent_until_ns,
                          ea_text *ret_path) {
    char packed[EC_SYMBOL_NAME_MAX + 1];
    const char *const files[] = {q->name, packed, "file.ptr"};
    ea_text folder;
    ea_err first = {0}, e = {0};
    if (symbol_cache_is_absent(c, q, server) || symbol_cache_is_left_alone(q, server, *silent_until_ns))
        return 0;
    packed_name(q->name, packed, sizeof packed);
    ea_text_init(&folder);
    symbol_cache_join(&folder, cache, q, NULL);
    int rc = folder.failed ? ea_fail(&first, EA_ENOMEM, "keep %s", q->name) : ea_path_make_dirs(folder.data, &first);
    ea_text_deinit(&folder);
    if (!rc && !c->server)
        rc = ea_symbol_server_create(&c->server, &c->o.server, &first);
    if (rc) {
        add_error(q, &first);
        return 0;
    }
    for (int i = 0; i < 3; i++) {
        rc = fetch(c, q, server, files[i], i == 2, cache, ret_path, &e);
        if (!rc)
            return 1;
        if (i == 0 || e.code != EA_ENOTFOUND)
            first = e; /* the error of the file's own name, unless another name gives a better reason */
        if (e.code != EA_ENOTFOUND)
            break;
    }
    if (ea_symbol_server_is_silent(c->server))
        *silent_until_ns = ea_monotonic_ns() + c->o.failure_ns;
    symbol_cache_add_reason(q, NULL, first.message);
    if (strcmp(cache, c->o.folder) != 0)
        remove_empty(cache, q);
    note_absent(c, q, server, &first);
    return 0;
}

/* One element of the path: 1 when found; then the caches before the place have it, too. silent_until_ns: its server's,
 * when it has one. */
static int look_along(ec_symbol_cache *c, quest *q, const ec_chain *chain, int64_t *silent_until_ns,
                      ea_text *ret_path) {
    ea_err e = {0};
    for (size_t i = 0; i < chain->count; i++) {
        const ec_symbol_place *p = &chain->places[i];
        const char *cache = i ? chain->places[i - 1].where : c->o.folder;
        int found = p->kind == EC_PLACE_SERVER   ? look_at_server(c, q, p->where, cache, silent_until_ns, ret_path)
                    : p->kind == EC_PLACE_FOLDER ? symbol_cache_look_into_folder(q, p->where, ret_path)
                                                 : look_into_store(c, q, p->where, cache, ret_path);
        if (!found && p->kind == EC_PLACE_FOLDER && is_store(p->where))
            found = look_into_store(c, q, p->where, cache, ret_path);
        /* a server's file is in the cache before it already */
        for (size_t k = p->kind == EC_PLACE_SERVER ? i - 1 : i; found && k > 0; k--)
            if (symbol_cache_keep(c, q, ret_path->data, 0, chain->places[k - 1].where, ret_path, &e))
                break; /* it is there all the same */
        if (found)
            return 1;
    }
    return 0;
}

int ec_symbol_cache_find(ec_symbol_cache *c, const char *name, const char *key, ec_symbol_judge judge, void *arg,
                         ea_text *ret_path, ea_err *err) {
    quest q = {.name = name, .key = key, .judge = judge, .arg = arg};
    int found = 0;
    if (!ec_symbol_name_ok(name) || !key_ok(key))
        return ea_fail(err, EA_EINVAL, "no symbol file can have the name that the module has");
    ea_text_init(&q.reasons);
    ec_chain own = {.places = {{EC_PLACE_STORE, c->o.folder}}, .count = 1};
    found = look_along(c, &q, &own, NULL, ret_path); /* no server */
    for (size_t i = 0; !found && i < c->path.count; i++)
        found = look_along(c, &q, &c->path.chains[i], &c->silent_until_ns[i], ret_path);
    int rc = 0;
    if (!found)
        rc = ea_fail(err, EA_ENOTFOUND, "%s %s: %.380s", name, key,
                     q.reasons.len_bytes ? q.reasons.data
                     : c->path.count     ? "in no place of the symbol path"
                                         : "not in the cache, and there is no symbol path");
    else if (ret_path->failed)
        rc = ea_fail(err, EA_ENOMEM, "find %s", name);
    ea_text_deinit(&q.reasons);
    return rc;
}

/* ---- opening ---- */

int ec_symbol_cache_open(ec_symbol_cache **ret, const ec_symbol_cache_options *options, ea_err *err) {
    ec_symbol_cache *c = calloc(1, sizeof *c);
    if (!c)
        return ea_fail(err, EA_ENOMEM, "open the cache of symbols");
    c->o = *options;
    int rc = ec_symbol_path_init(&c->path, options->path, options->folder, err);
    if (!rc)
        rc = ea_path_make_dirs(options->folder, err);
    if (rc) {
        ec_symbol_cache_close(c);
        return rc;
    }
    sweep(c, NULL);
    *ret = c;
    return 0;
}

void ec_symbol_cache_close(ec_symbol_cache *c) {
    if (!c)
        return;
    ea_symbol_server_destroy(c->server);
    ec_symbol_path_deinit(&c->path);
    free(c);
}
