/* Symbols of modules. See symbols.h. */
#include "collector/symbols/symbols.h"
#include "collector/symbols/pe_image.h"
#include "collector/symbols/symbol_results.h"
#include "proto/base/platform.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS ((int64_t)1000000000)

enum { ATTEMPTS = 3, ABSENT_MAX = 65536 };

struct ec_symbols {
    ec_symbols_options o;
    ec_symbol_cache *cache;
    ec_symbol_results *results; /* NULL: they are not kept */
    ec_frames frames;
};

/* ---- identity ---- */

void ec_symbol_pdb_key(const ec_pdb_id *id, char *out) {
    const uint8_t *g = id->guid.bytes;
    int n =
        snprintf(out, EC_SYMBOL_KEY_MAX + 1, "%08" PRIX32 "%04X%04X", ea_load32(g), ea_load16(g + 4), ea_load16(g + 6));
    for (int i = 8; i < 16; i++)
        n += snprintf(out + n, EC_SYMBOL_KEY_MAX + 1 - (size_t)n, "%02X", g[i]);
    (void)snprintf(out + n, EC_SYMBOL_KEY_MAX + 1 - (size_t)n, "%" PRIX32, id->age);
}

static int symbols_take_hex(const char **s, size_t digits, uint32_t *ret) {
    uint32_t v = 0;
    for (size_t i = 0; i < digits; i++, (*s)++) {
        static const char DIGITS[] = "0123456789abcdef0123456789ABCDEF";
        const char *d = **s ? strchr(DIGITS, **s) : NULL;
        if (!d)
            return EA_EFORMAT;
        v = v << 4 | (uint32_t)((d - DIGITS) & 15);
    }
    *ret = v;
    return 0;
}

int ec_symbol_pdb_key_parse(const char *key, ec_pdb_id *ret) {
    ec_pdb_id id = {0};
    size_t n = strlen(key);
    uint32_t v[3];
    if (n < 33 || n > 40 || symbols_take_hex(&key, 8, &v[0]) || symbols_take_hex(&key, 4, &v[1]) ||
        symbols_take_hex(&key, 4, &v[2]))
        return EA_EFORMAT;
    ea_store32(id.guid.bytes, v[0]);
    ea_store16(id.guid.bytes + 4, (uint16_t)v[1]);
    ea_store16(id.guid.bytes + 6, (uint16_t)v[2]);
    for (int i = 8; i < 16; i++) {
        if (symbols_take_hex(&key, 2, &v[0]))
            return EA_EFORMAT;
        id.guid.bytes[i] = (uint8_t)v[0];
    }
    if (symbols_take_hex(&key, n - 32, &id.age))
        return EA_EFORMAT;
    *ret = id;
    return 0;
}

static const char *last_part(const char *path) {
    const char *p = path;
    for (const char *s = path; *s; s++)
        if (*s == '/' || *s == '\\')
            p = s + 1;
    return p;
}

static int check_identity(const ec_pdb *pdb, const ec_pdb_id *wanted, const char *path, ea_err *err) {
    ec_pdb_id id = ec_pdb_identity(pdb);
    char has[EC_SYMBOL_KEY_MAX + 1], wants[EC_SYMBOL_KEY_MAX + 1];
    ec_symbol_pdb_key(&id, has);
    ec_symbol_pdb_key(wanted, wants);
    if (!ea_guid_equal(&id.guid, &wanted->guid))
        return ea_fail(err, EA_ECONFLICT, "%s is another image's: its GUID is %.32s, expected %.32s", path, has, wants);
    if (id.age != wanted->age)
        return ea_fail(err, EA_ECONFLICT, "%s is of another build: its age is %" PRIu32 ", expected %" PRIu32, path,
                       id.age, wanted->age);
    return 0;
}

/* Whether a file is the PDB of arg, an ec_pdb_id. */
static int judge_pdb(void *arg, const char *path, ea_err *err) {
    ec_pdb *pdb;
    int rc = ec_pdb_open(&pdb, path, err);
    if (rc)
        return rc;
    rc = check_identity(pdb, arg, path, err);
    ec_pdb_close(pdb);
    return rc;
}

/* Whether a file is the image of arg, an ec_symbol_module. */
static int judge_image(void *arg, const char *path, ea_err *err) {
    const ec_symbol_module *m = arg;
    ec_pe_identity id;
    int rc = ec_pe_read(path, &id, err);
    if (!rc && (id.timestamp != m->timestamp || id.size_bytes != m->size_bytes))
        rc = ea_fail(err, EA_ECONFLICT,
                     "%s is another image: its time and size are %08" PRIX32 "%" PRIx32 ", expected %08" PRIX32
                     "%" PRIx32,
                     path, id.timestamp, id.size_bytes, m->timestamp, m->size_bytes);
    return rc;
}

/* What the module's PDB is called, asking its image when its events did not say. */
static int identify(ec_symbols *s, const ec_symbol_module *m, ec_pdb_id *ret_id, char *ret_name, size_t name_bytes,
                    ea_err *err) {
    char key[EC_SYMBOL_KEY_MAX + 1];
    ec_pe_identity image;
    ec_symbol_module wanted = *m;
    ea_text path;
    if (m->pdb_name && *m->pdb_name) {
        *ret_id = m->pdb;
        snprintf(ret_name, name_bytes, "%s", last_part(m->pdb_name));
        return 0;
    }
    if (!m->image_name || !*m->image_name || !m->timestamp || !m->size_bytes)
        return ea_fail(err, EA_ENOTFOUND, "no event said which PDB belongs to %s, nor of when and how large it is",
                       m->image_name && *m->image_name ? last_part(m->image_name) : "the module");
    snprintf(key, sizeof key, "%08" PRIX32 "%" PRIx32, m->timestamp, m->size_bytes);
    ea_text_init(&path);
    int rc = ec_symbol_cache_find(s->cache, last_part(m->image_name), key, judge_image, &wanted, &path, err);
    if (!rc)
        rc = ec_pe_read(path.data, &image, err);
    ea_text_deinit(&path);
    if (rc)
        return rc;
    *ret_id = image.pdb;
    snprintf(ret_name, name_bytes, "%s", last_part(image.pdb_path));
    return 0;
}

/* ---- opening ---- */

static int64_t or_else(int64_t v, int64_t fallback) {
    return v ? v : fallback;
}

int ec_symbols_open(ec_symbols **ret, const ec_symbols_options *o, ea_err *err) {
    const int64_t day_ns = 24 * 3600 * SECOND_NS;
    ec_symbols *s = calloc(1, sizeof *s);
    if (!s)
        return ea_fail(err, EA_ENOMEM, "open symbols");
    s->o = *o;
    ec_frames_init(&s->frames);
    ec_symbol_cache_options c = {
        .path = o->path ? o->path : "",
        .folder = o->folder,
        .limit_bytes = o->limit_cache_bytes ? o->limit_cache_bytes : (uint64_t)20 << 30,
        .limit_absent = o->limit_absent ? o->limit_absent : ABSENT_MAX,
        .limit_age_ns = or_else(o->limit_age_ns, 90 * day_ns),
        .absent_ns = or_else(o->absent_ns, day_ns),
        .failure_ns = or_else(o->failure_ns, 300 * SECOND_NS),
        .server = {.limit_bytes = o->limit_file_bytes ? o->limit_file_bytes : (uint64_t)2 << 30,
                   .timeout_ns = or_else(o->timeout_ns, 600 * SECOND_NS),
                   .idle_ns = or_else(o->idle_ns, 10 * SECOND_NS),
                   .attempts = ATTEMPTS,
                   .pause_ns = or_else(o->pause_ns, SECOND_NS / 2)},
    };
    int rc = ec_symbol_cache_open(&s->cache, &c, err);
    if (!rc && o->has_lines) {
        ea_text path;
        ea_text_init(&path);
        ea_text_printf(&path, "%s/results.db", o->folder);
        rc = path.failed ? ea_fail(err, EA_ENOMEM, "open symbols")
                         : ec_symbol_results_open(&s->results, path.data,
                                                  o->limit_result_bytes ? o->limit_result_bytes : (uint64_t)512 << 20,
                                                  c.limit_age_ns, err);
        ea_text_deinit(&path);
    }
    if (rc)
        ec_symbols_close(s);
    else
        *ret = s;
    return rc;
}

void ec_symbols_close(ec_symbols *s) {
    if (!s)
        return;
    ec_symbol_cache_close(s->cache);
    ec_symbol_results_close(s->results);
    ec_frames_deinit(&s->frames);
    free(s);
}

/* ---- resolving ---- */

/* One module while it is asked for. */
typedef struct asking {
    ec_symbols *s;
    const ec_pdb_id *id; /* what the file must be; NULL: whatever it is */
    const char *name;
    char module[EC_SYMBOL_NAME_MAX + EC_SYMBOL_KEY_MAX + 2]; /* NAME/KEY; "": results are not kept */
    int64_t number;                                          /* of the kept results */
    ea_text path;                                            /* of the PDB, once it is found */
    ec_pdb *pdb;
    ec_symbolizer *symbolizer;
    int has_given_up; /* the symbolizer is not asked any more */
    ea_err note;
} asking;

/* Finds and reads the PDB, unless it was read before. */
static int need_pdb(asking *a, ea_err *err) {
    int rc = 0;
    if (a->pdb)
        return 0;
    if (a->id) {
        char key[EC_SYMBOL_KEY_MAX + 1];
        ec_pdb_id wanted = *a->id;
        ec_symbol_pdb_key(a->id, key);
        rc = ec_symbol_cache_find(a->s->cache, a->name, key, judge_pdb, &wanted, &a->path, err);
    }
    if (!rc)
        rc = ec_pdb_open(&a->pdb, a->path.data, err);
    if (!rc && a->id)
        rc = check_identity(a->pdb, a->id, a->path.data, err);
    if (!rc)
        rc = ec_pdb_load(a->pdb, err);
    return rc;
}

/* Asks the symbolizer: 1 answered, 0 not; then a->note says why. */
static int ask_lines(asking *a, uint32_t rva) {
    uint32_t source;
    ea_err e = {0};
    int rc = 0;
    if (a->has_given_up)
        return 0;
    if (!ec_pdb_source_rva(a->pdb, rva, &source)) {
        ec_frames_clear(&a->s->frames);
        return 1;
    }
    if (!a->symbolizer)
        rc = ec_symbolizer_create(&a->symbolizer, &a->s->o.symbolizer, a->pdb, a->path.data, &e);
    a->has_given_up = rc != 0;
    if (!rc)
        rc = ec_symbolizer_ask(a->symbolizer, source, &a->s->frames, &e);
    if (!rc)
        return 1;
    a->has_given_up |= rc == EA_ELIMIT;
    if (!a->note.code)
        a->note = e;
    return 0;
}

static int name_address(asking *a, uint32_t rva, ec_symbol *ret, ea_err *err) {
    ec_frames *f = &a->s->frames;
    ec_pdb_symbol symbol = {0};
    int is_kept = 0, rc;
    ec_frames_clear(f);
    if (a->module[0]) {
        is_kept = ec_symbol_results_get(a->s->results, a->number, rva, f, err);
        if (is_kept < 0)
            return is_kept;
    }
    if (!is_kept) {
        rc = need_pdb(a, err);
        if (rc)
            return rc;
        int has = ec_pdb_find(a->pdb, rva, &symbol);
        int answered = a->s->o.has_lines && ec_pdb_has_rva(a->pdb, rva) && ask_lines(a, rva);
        if (!answered)
            ec_frames_clear(f);
        if (!has && f->count == 1 && !f->items[0].line && !*f->items[0].file)
            ec_frames_clear(f); /* a guess: by the PDB, the nearest function before the address ends before it */
        if (!f->count && has)   /* an address that no line belongs to has a name all the same */
            rc = ec_frames_add(f, symbol.name, strlen(symbol.name), "", 0, 0);
        if (rc)
            return ea_fail(err, rc, "name an address");
        f->has_offset = has && f->count;
        f->offset_bytes = has ? rva - symbol.rva : 0;
        if (answered && a->module[0])
            rc = ec_symbol_results_put(a->s->results, a->number, rva, f, err);
        if (rc)
            return rc;
    }
    *ret = (ec_symbol){.rva = rva,
                       .frames = f->items,
                       .frame_count = f->count,
                       .offset_bytes = f->offset_bytes,
                       .has_offset = f->has_offset};
    return 0;
}

static int resolve_all(asking *a, const uint32_t *rvas, size_t count, ec_symbol_fn fn, void *arg, ea_err *ret_note,
                       ea_err *err) {
    int rc = 0;
    for (size_t i = 0; !rc && i < count; i++) {
        ec_symbol symbol;
        rc = name_address(a, rvas[i], &symbol, err);
        if (!rc)
            rc = fn(arg, &symbol);
    }
    if (ret_note)
        *ret_note = a->note;
    ec_symbolizer_destroy(a->symbolizer);
    ec_pdb_close(a->pdb);
    ea_text_deinit(&a->path);
    return rc;
}

int ec_symbols_resolve(ec_symbols *s, const ec_symbol_module *m, const uint32_t *rvas, size_t count, ec_symbol_fn fn,
                       void *arg, ea_err *ret_note, ea_err *err) {
    char name[EC_PDB_NAME_MAX], key[EC_SYMBOL_KEY_MAX + 1];
    ec_pdb_id id;
    asking a = {.s = s, .id = &id, .name = name};
    if (ret_note)
        *ret_note = (ea_err){0};
    int rc = identify(s, m, &id, name, sizeof name, err);
    if (rc)
        return rc;
    ea_text_init(&a.path);
    if (s->results && ec_symbol_name_ok(name)) {
        ec_symbol_pdb_key(&id, key);
        snprintf(a.module, sizeof a.module, "%s/%s", name, key);
        rc = ec_symbol_results_module(s->results, a.module, &a.number, err);
        if (rc)
            return rc;
    }
    return resolve_all(&a, rvas, count, fn, arg, ret_note, err);
}

int ec_symbols_resolve_file(ec_symbols *s, const char *pdb_path, const uint32_t *rvas, size_t count, ec_symbol_fn fn,
                            void *arg, ea_err *ret_note, ea_err *err) {
    asking a = {.s = s};
    if (ret_note)
        *ret_note = (ea_err){0};
    ea_text_init(&a.path);
    ea_text_str(&a.path, pdb_path);
    return a.path.failed ? ea_fail(err, EA_ENOMEM, "name addresses")
                         : resolve_all(&a, rvas, count, fn, arg, ret_note, err);
}
