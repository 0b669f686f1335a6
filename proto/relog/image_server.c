/* See image_server.h. */
#include "proto/relog/image_server.h"

#include "proto/base/arena.h"
#include "proto/base/array.h"
#include "proto/base/map.h"
#include "proto/base/pattern.h"
#include "proto/base/platform.h"
#include "proto/base/text.h"
#include "proto/curl/symbol_server.h"
#include "proto/image/pe.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { IMAGE_NAME_MAX = 128, IMAGE_KEY_TEXT = 8 + 8 + 1 };

static const int64_t IMAGE_SECOND_NS = 1000000000;

/* An image that was asked for. */
typedef struct asked_image {
    const char *name; /* in lower case */
    uint64_t size_bytes;
    uint32_t timestamp;
    int is_found;
    ea_image_fact f;
} asked_image;

struct ea_image_server {
    ea_symbol_server *server;
    const char *url, *cache;
    ea_arena arena;
    asked_image *images;
    size_t count, capacity;
    ea_u64_map numbers; /* of images, by hashes of what they are asked by */
    ea_image_server_counts counts;
    unsigned failures; /* since the last file */
};

int ea_image_server_open(ea_image_server **ret, const char *url, const char *cache, const atomic_int *stop,
                         ea_err *err) {
    const ea_symbol_server_options options = {.limit_bytes = (uint64_t)1 << 30,
                                              .timeout_ns = 300 * IMAGE_SECOND_NS,
                                              .idle_ns = 20 * IMAGE_SECOND_NS,
                                              .attempts = 3,
                                              .pause_ns = IMAGE_SECOND_NS / 2,
                                              .program = "etwagent",
                                              .stop = stop};
    int rc = ea_path_make_dirs(cache, err);
    if (rc)
        return rc;
    ea_image_server *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "ask %s", url);
    s->url = url;
    s->cache = cache;
    ea_arena_init(&s->arena, 0);
    ea_u64_map_init(&s->numbers, 0);
    rc = ea_symbol_server_create(&s->server, &options, err);
    if (rc) {
        ea_image_server_close(s);
        return rc;
    }
    *ret = s;
    return 0;
}

void ea_image_server_close(ea_image_server *s) {
    if (!s)
        return;
    ea_symbol_server_destroy(s->server);
    free(s->images);
    ea_u64_map_deinit(&s->numbers);
    ea_arena_deinit(&s->arena);
    free(s);
}

const ea_image_server_counts *ea_image_server_count(const ea_image_server *s) {
    return &s->counts;
}

/* ---- names ---- */

/* Windows takes these for devices, whatever follows a dot. */
static int is_device(const char *name) {
    static const char *const DEVICES[] = {"con", "prn", "aux", "nul", "com", "lpt"};
    size_t stem = strcspn(name, ".");
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++)
        if (strncmp(name, DEVICES[i], 3) == 0 && (i < 4 ? stem == 3 : stem == 4 && name[3] >= '0' && name[3] <= '9'))
            return 1;
    return 0;
}

/* 1: the name, in lower case, can be that of a file in a folder of every system. It comes out of a trace. */
static int is_file_name(const char *name) {
    size_t len = strlen(name);
    for (size_t i = 0; i < len; i++)
        if ((uint8_t)name[i] < 0x20 || name[i] == 0x7F || strchr("\\/:*?\"<>|", name[i]))
            return 0;
    return len && name[0] != '.' && name[len - 1] != '.' && name[len - 1] != ' ' && !is_device(name);
}

/* ---- files ---- */

static const char *arena_text(ea_image_server *s, const char *text) {
    size_t bytes = strlen(text) + 1;
    char *copy = ea_arena_alloc(&s->arena, bytes);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

/* 1: the file is the image. It may have come from anywhere: a folder is no proof. */
static int read_image(ea_image_server *s, const char *path, asked_image *x) {
    ea_file *file = NULL;
    ea_err ignored = {0};
    if (!ea_path_is_file(path) || ea_file_open(&file, path, EA_OPEN_READ, &ignored))
        return 0;
    ea_pe_facts *facts = calloc(1, sizeof *facts);
    int ok = facts && !ea_pe_read_file(file, path, facts, &ignored) && facts->timestamp == x->timestamp &&
             facts->size_bytes == x->size_bytes;
    ea_file_close(file);
    if (ok) {
        char version[EA_PE_VERSION_TEXT_MAX];
        ea_pe_version_text(facts, version);
        x->f = (ea_image_fact){.version = arena_text(s, version),
                               .company = arena_text(s, facts->company),
                               .product = arena_text(s, facts->product),
                               .description = arena_text(s, facts->description),
                               .timestamp = facts->timestamp,
                               .pdb_age = facts->pdb_age,
                               .has_pdb = facts->has_pdb,
                               .pdb_guid = facts->pdb_guid,
                               .pdb_path = arena_text(s, facts->pdb_path),
                               .original_name = arena_text(s, facts->original_name)};
        x->is_found =
            x->f.pdb_path && x->f.original_name && x->f.version && x->f.company && x->f.product && x->f.description;
    }
    free(facts);
    return x->is_found;
}

/* Where an image is in the cache, or its folder. */
static void cache_place(ea_text *t, const ea_image_server *s, const asked_image *x, const char *key, int is_folder) {
    ea_text_clear(t);
    ea_text_printf(t, "%s/%s/%s", s->cache, x->name, key);
    if (!is_folder)
        ea_text_printf(t, "/%s", x->name);
}

static int keep_image(ea_image_server *s, const asked_image *x, const char *key, const char *part, ea_err *err) {
    ea_text to;
    ea_text_init(&to);
    cache_place(&to, s, x, key, 1);
    int rc = to.failed ? ea_fail(err, EA_ENOMEM, "keep %s", x->name) : ea_path_make_dirs(to.data, err);
    if (!rc) {
        cache_place(&to, s, x, key, 0);
        rc = to.failed ? ea_fail(err, EA_ENOMEM, "keep %s", x->name) : ea_path_rename(part, to.data, err);
    }
    ea_text_deinit(&to);
    return rc;
}

/* A request that failed: 0 when others may be answered. */
static int note_failure(ea_image_server *s, int rc, ea_err *why, ea_err *err) {
    int is_own = rc == EA_EIO || rc == EA_ENOMEM || rc == EA_ECANCELED;
    s->counts.failed++;
    if (is_own || ea_symbol_server_is_silent(s->server) || ++s->failures == EA_IMAGE_SERVER_FAILURES_MAX)
        return (ea_fail)(err, rc, "%s", why->message);
    return 0;
}

static int fetch_image(ea_image_server *s, asked_image *x, const char *key, ea_err *err) {
    uint8_t salt[8];
    ea_text part;
    ea_err why = {0};
    int rc = ea_random_bytes(salt, sizeof salt, err);
    if (rc)
        return rc;
    ea_text_init(&part);
    ea_text_printf(&part, "%s/fetch-", s->cache);
    ea_text_hex(&part, salt, sizeof salt);
    ea_text_str(&part, ".part");
    if (part.failed) {
        ea_text_deinit(&part);
        return ea_fail(err, EA_ENOMEM, "keep %s", x->name);
    }
    s->counts.asked++;
    rc = ea_symbol_server_fetch(s->server, s->url, x->name, key, x->name, part.data, &why);
    if (rc == EA_ENOTFOUND) {
        s->failures = 0;
        rc = 0;
    } else if (rc) {
        rc = note_failure(s, rc, &why, err);
    } else if (read_image(s, part.data, x)) {
        s->counts.fetched++;
        s->failures = 0;
        rc = keep_image(s, x, key, part.data, err);
    } else {
        rc = ea_fail(&why, EA_EREFUSED, "%s/%s/%s/%s: the server's file is no such image", s->url, x->name, key,
                     x->name);
        rc = note_failure(s, rc, &why, err);
    }
    if (ea_path_exists(part.data))
        EA_IGNORE(ea_path_remove(part.data, NULL));
    ea_text_deinit(&part);
    return rc;
}

static int look_for(ea_image_server *s, asked_image *x, ea_err *err) {
    char key[IMAGE_KEY_TEXT];
    ea_text kept;
    if (!x->timestamp || x->size_bytes > UINT32_MAX || !is_file_name(x->name) ||
        s->counts.asked == EA_IMAGE_SERVER_ASKED_MAX) {
        s->counts.left_out++;
        return 0;
    }
    snprintf(key, sizeof key, "%08" PRIX32 "%" PRIx32, x->timestamp, (uint32_t)x->size_bytes);
    ea_text_init(&kept);
    cache_place(&kept, s, x, key, 0);
    int rc = kept.failed ? ea_fail(err, EA_ENOMEM, "ask for %s", x->name) : 0;
    if (!rc && !read_image(s, kept.data, x))
        rc = fetch_image(s, x, key, err);
    ea_text_deinit(&kept);
    return rc;
}

/* ---- what was asked for ---- */

static uint64_t image_key(const char *lower, size_t name_bytes, const ea_image_wanted *wanted) {
    uint64_t about[2] = {wanted->size_bytes, wanted->timestamp};
    return ea_hash64(lower, name_bytes, ea_hash64(about, sizeof about, 0));
}

int ea_image_server_find(ea_image_server *s, const ea_image_wanted *wanted, ea_image_fact *ret, int *ret_found,
                         ea_err *err) {
    char lower[IMAGE_NAME_MAX + 1];
    *ret_found = 0;
    if (wanted->name_bytes > IMAGE_NAME_MAX || (wanted->name_bytes && memchr(wanted->name, 0, wanted->name_bytes))) {
        s->counts.left_out++;
        return 0;
    }
    for (size_t i = 0; i < wanted->name_bytes; i++)
        lower[i] = ea_ascii_lower(wanted->name[i]);
    lower[wanted->name_bytes] = 0;
    uint64_t key = image_key(lower, wanted->name_bytes, wanted);
    const uint64_t *number = ea_u64_map_get(&s->numbers, key);
    if (!number) {
        asked_image x = {
            .name = arena_text(s, lower), .size_bytes = wanted->size_bytes, .timestamp = wanted->timestamp};
        if (!x.name || EA_GROW(s->images, s->capacity, s->count + 1, SIZE_MAX))
            return ea_fail(err, EA_ENOMEM, "ask %s", s->url);
        int rc = look_for(s, &x, err);
        if (!rc && ea_u64_map_put(&s->numbers, key, s->count))
            rc = ea_fail(err, EA_ENOMEM, "ask %s", s->url);
        if (rc)
            return rc;
        s->images[s->count++] = x;
        number = ea_u64_map_get(&s->numbers, key);
    }
    const asked_image *x = &s->images[*number];
    *ret_found = x->is_found && x->size_bytes == wanted->size_bytes && x->timestamp == wanted->timestamp &&
                 strcmp(x->name, lower) == 0;
    if (*ret_found)
        *ret = x->f;
    return 0;
}
