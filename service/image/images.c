/* The worker. See images.h.
 *
 * A row is a path: the known facts of its file, and the modules that wait for them. Rows that wait to be read are in a
 * queue, the others in a list, the least recently used one first. Facts are shared by all modules for which they have
 * not been delivered yet, so that a later read does not change them. */
#include "service/image/images.h"

#include "proto/base/map.h"
#include "proto/base/platform.h"
#include "proto/image/pe.h"
#include "proto/state/account_facts.h"
#include "proto/state/image_facts.h"
#include "service/host/account.h"
#include "service/host/image_file.h"
#include "service/image/account_queue.h"

#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const int64_t SECOND_NS = 1000000000, STEP_NS = 100000000, GRACE_NS = 1000000000,
                     HOUR_NS = INT64_C(3600) * 1000000000;

enum {
    FILES = 8192,
    MODULES = 32768,
    LOOK_BYTES = 16 << 10, /* what opening a file counts as */
    PIECE_BYTES = 64 << 10,
    DIGESTS = 3,
    DIGEST_BYTES = 32, /* of the longest one */
    FILES_SHARE = 8,   /* of the time of a look at an account: files have so many times that */
};

/* Hashes of a file. */
enum { SHA256, SHA1, MD5 };

static const uint32_t NONE = UINT32_MAX;

typedef char digest_text[2 * DIGEST_BYTES + 1];

/* The facts of a file at the time of a read; followed by its texts. */
typedef struct known {
    ea_image_identity identity;
    ea_image_facts facts;
    size_t users;                /* the row, and modules; lock */
    digest_text hashes[DIGESTS]; /* by SHA256, SHA1, MD5 */
    char texts[];                /* each with its NUL */
} known;

typedef struct module {
    uint64_t base;
    uint32_t pid, timestamp, row, next;
    known *found; /* after its file was read */
} module;

typedef struct list {
    uint32_t first, last;
} list;

typedef struct row {
    char *path; /* NULL: the row is free */
    uint64_t key;
    known *now;            /* NULL: never read */
    list waiting;          /* modules */
    uint32_t undelivered;  /* modules with facts that are not delivered yet */
    uint32_t before, next; /* in the queue or the list */
    int is_queued, is_at_hand;
} row;

struct ea_images {
    ea_images_options o;
    ea_thread *thread;
    ea_mutex *lock; /* all below, but for what is atomic */
    ea_cond *changed;
    row *rows;
    ea_u64_map by_path; /* hash of a path -> row */
    uint64_t seed;
    size_t row_count;
    list queue, idle;
    module *modules;
    size_t module_count;
    uint32_t free_module;
    list found;
    ea_account_queue accounts;
    int64_t accounts_from_ns; /* while files wait, no account is looked up before */
    int closing, is_over, is_left;
    int64_t paid_until_ns;         /* the rate allows nothing before */
    _Atomic int64_t calm_until_ns; /* the source's to set */
    atomic_size_t found_count;     /* so that take() looks without the lock */
};

/* ---- lists; the lock is held ---- */

static void images_count(ea_images *im, enum ea_counter which) {
    ea_count(im->o.counters, which, 1);
}

static void append_module(ea_images *im, list *l, uint32_t m) {
    im->modules[m].next = NONE;
    if (l->first == NONE)
        l->first = m;
    else
        im->modules[l->last].next = m;
    l->last = m;
}

static uint32_t take_module(ea_images *im, list *l) {
    uint32_t m = l->first;
    if (m != NONE)
        l->first = im->modules[m].next;
    return m;
}

static void free_module(ea_images *im, uint32_t m) {
    im->modules[m].next = im->free_module;
    im->free_module = m;
}

static void append_row(ea_images *im, list *l, uint32_t r) {
    row *at = &im->rows[r];
    at->next = NONE;
    at->before = l->first == NONE ? NONE : l->last;
    if (l->first == NONE)
        l->first = r;
    else
        im->rows[l->last].next = r;
    l->last = r;
}

static void remove_row(ea_images *im, list *l, uint32_t r) {
    const row *at = &im->rows[r];
    if (at->before == NONE)
        l->first = at->next;
    else
        im->rows[at->before].next = at->next;
    if (at->next == NONE)
        l->last = at->before;
    else
        im->rows[at->next].before = at->before;
}

static void unref_known(known *k) {
    if (k && !--k->users)
        free(k);
}

/* ---- asking ---- */

/* A row for a new path: an unused one, or that of the least recently used file. NONE: all rows have modules that wait.
 */
static uint32_t images_place(ea_images *im) {
    if (im->row_count < im->o.limit_files)
        return (uint32_t)im->row_count++;
    for (uint32_t r = im->idle.first; r != NONE; r = im->rows[r].next) {
        row *at = &im->rows[r];
        if (at->undelivered)
            continue;
        remove_row(im, &im->idle, r);
        ea_u64_map_remove(&im->by_path, at->key);
        unref_known(at->now);
        free(at->path);
        *at = (row){0};
        images_count(im, EA_COUNT_images_forgotten);
        return r;
    }
    return NONE;
}

static uint32_t images_find(ea_images *im, const char *path) {
    size_t n = strlen(path);
    uint64_t key = ea_hash64(path, n, im->seed), *have = ea_u64_map_get(&im->by_path, key);
    if (have)
        return strcmp(im->rows[*have].path, path) == 0 ? (uint32_t)*have : NONE;
    uint32_t r = images_place(im);
    if (r == NONE)
        return NONE;
    row *at = &im->rows[r];
    *at = (row){.path = malloc(n + 1), .key = key, .waiting = {NONE, NONE}};
    if (at->path && !ea_u64_map_put(&im->by_path, key, r))
        memcpy(at->path, path, n + 1);
    else
        at->key = 0;
    append_row(im, &im->idle, r);
    return at->key ? r : NONE;
}

static int images_ask(ea_images *im, uint32_t pid, uint64_t base, uint32_t timestamp, const char *path) {
    uint32_t m = im->free_module, r;
    if ((m == NONE && im->module_count == im->o.limit_modules) || (r = images_find(im, path)) == NONE)
        return 0;
    if (m == NONE)
        m = (uint32_t)im->module_count++;
    else
        im->free_module = im->modules[m].next;
    row *at = &im->rows[r];
    im->modules[m] = (module){.base = base, .pid = pid, .timestamp = timestamp, .row = r};
    append_module(im, &at->waiting, m);
    if (at->is_queued || at->is_at_hand)
        return 1;
    remove_row(im, &im->idle, r);
    append_row(im, &im->queue, r);
    at->is_queued = 1;
    ea_cond_signal(im->changed);
    return 1;
}

void ea_images_ask(ea_images *im, uint32_t pid, uint64_t base, uint32_t timestamp, const char *path) {
    ea_mutex_lock(im->lock);
    images_count(im, EA_COUNT_images_asked);
    if (im->closing)
        images_count(im, EA_COUNT_images_left_end);
    else if (!images_ask(im, pid, base, timestamp, path))
        images_count(im, EA_COUNT_images_left_full);
    ea_mutex_unlock(im->lock);
}

void ea_images_ask_account(ea_images *im, const char *sid) {
    ea_mutex_lock(im->lock);
    int rc = im->closing ? EA_ECANCELED : ea_account_queue_ask(&im->accounts, sid, ea_monotonic_ns());
    if (rc)
        images_count(im, EA_COUNT_accounts_asked);
    if (rc < 0)
        images_count(im, EA_COUNT_accounts_left);
    if (rc > 0)
        ea_cond_signal(im->changed);
    ea_mutex_unlock(im->lock);
}

/* The payload of an account that has a name: 1; 0: there is none. With lock. */
static int take_account(ea_images *im, ea_text *payload) {
    ea_account_pair p;
    if (!ea_account_queue_take(&im->accounts, &p))
        return 0;
    ea_account_facts_write(payload, p.sid, p.name);
    free(p.sid);
    free(p.name);
    atomic_fetch_sub(&im->found_count, 1);
    images_count(im, payload->failed ? EA_COUNT_accounts_left : EA_COUNT_accounts_named);
    return 1;
}

int ea_images_take(ea_images *im, ea_text *payload) {
    if (!atomic_load_explicit(&im->found_count, memory_order_acquire))
        return 0;
    ea_mutex_lock(im->lock);
    int opcode = take_account(im, payload) ? EA_ACCOUNT_FACTS_OPCODE : 0;
    uint32_t m = opcode ? NONE : take_module(im, &im->found);
    if (m != NONE) {
        opcode = EA_IMAGE_FACTS_OPCODE;
        module *at = &im->modules[m];
        ea_image_facts_write(payload, at->pid, at->base, im->rows[at->row].path, &at->found->facts);
        unref_known(at->found);
        im->rows[at->row].undelivered--;
        free_module(im, m);
        atomic_fetch_sub(&im->found_count, 1);
        images_count(im, payload->failed ? EA_COUNT_images_left_full : EA_COUNT_images_told);
    }
    ea_mutex_unlock(im->lock);
    return payload->failed ? 0 : opcode;
}

void ea_images_calm(ea_images *im) {
    atomic_store_explicit(&im->calm_until_ns, ea_monotonic_ns() + SECOND_NS, memory_order_relaxed);
}

/* ---- looking: the worker, without the lock ---- */

/* The source's thread may want the lock: the worker holds it with everybody's priority. */
static void images_lock(ea_images *im) EA_ACQUIRE(im->lock) {
    ea_thread_background(0);
    ea_mutex_lock(im->lock);
}

static void images_unlock(ea_images *im) EA_RELEASE(im->lock) {
    ea_mutex_unlock(im->lock);
    ea_thread_background(1);
}

/* Waits until the rate and the source allow to read so much. EA_ECANCELED: it is to end. */
static int images_pay(ea_images *im, size_t bytes) {
    int64_t now_ns = ea_monotonic_ns(), wait_ns;
    images_lock(im);
    if (im->paid_until_ns < now_ns)
        im->paid_until_ns = now_ns;
    int64_t begin_ns = im->paid_until_ns;
    im->paid_until_ns += (int64_t)((double)bytes * 1e9 / (double)im->o.rate_bytes);
    while (!im->closing) {
        now_ns = ea_monotonic_ns();
        wait_ns = begin_ns - now_ns;
        if (now_ns >= atomic_load_explicit(&im->calm_until_ns, memory_order_relaxed))
            wait_ns = STEP_NS;
        if (wait_ns <= 0)
            break;
        ea_cond_wait_for(im->changed, im->lock, wait_ns < STEP_NS ? wait_ns : STEP_NS);
    }
    int closing = im->closing;
    images_unlock(im);
    return closing ? EA_ECANCELED : 0;
}

typedef struct reader {
    ea_images *images;
    ea_image_file *file;
    int failed; /* what the file, or the end, said: not every caller of read() passes it on */
} reader;

static int read_paid(void *arg, uint64_t offset, void *out, size_t len_bytes, size_t *ret_read, ea_err *err) {
    reader *r = arg;
    int rc = r->failed ? r->failed : images_pay(r->images, len_bytes);
    if (!rc)
        rc = ea_image_file_read(r->file, offset, out, len_bytes, ret_read, err);
    r->failed = rc;
    return rc;
}

/* Hashes of the file's first bytes: all that it had when it was opened. A system that lacks MD5 or SHA-1 (FIPS) leaves
 * their texts empty. */
static int hash(reader *r, uint64_t size_bytes, digest_text out[DIGESTS]) {
    const EVP_MD *const ALGORITHMS[DIGESTS] = {[SHA256] = EVP_sha256(), [SHA1] = EVP_sha1(), [MD5] = EVP_md5()};
    uint8_t digest[EVP_MAX_MD_SIZE], *piece = malloc(PIECE_BYTES);
    EVP_MD_CTX *contexts[DIGESTS] = {NULL};
    unsigned n = 0;
    int rc = piece ? 0 : EA_ENOMEM;
    for (int d = 0; d < DIGESTS && !rc; d++) {
        contexts[d] = EVP_MD_CTX_new();
        if (!contexts[d]) {
            rc = EA_ENOMEM;
        } else if (EVP_DigestInit_ex(contexts[d], ALGORITHMS[d], NULL) != 1) {
            EVP_MD_CTX_free(contexts[d]);
            contexts[d] = NULL;
            rc = d == SHA256 ? EA_ECRYPTO : 0;
        }
    }
    for (uint64_t at = 0; !rc && at < size_bytes;) {
        size_t want = size_bytes - at < PIECE_BYTES ? (size_t)(size_bytes - at) : PIECE_BYTES, got = 0;
        rc = read_paid(r, at, piece, want, &got, NULL);
        if (!rc && !got)
            rc = EA_ETRUNCATED; /* it became shorter */
        for (int d = 0; d < DIGESTS && !rc; d++)
            rc = !contexts[d] || EVP_DigestUpdate(contexts[d], piece, got) == 1 ? 0 : EA_ECRYPTO;
        at += got;
    }
    for (int d = 0; d < DIGESTS; d++) {
        if (!rc && contexts[d])
            rc = EVP_DigestFinal_ex(contexts[d], digest, &n) == 1 ? 0 : EA_ECRYPTO;
        for (size_t i = 0; !rc && contexts[d] && i < n; i++)
            snprintf(out[d] + 2 * i, 3, "%02x", digest[i]);
        EVP_MD_CTX_free(contexts[d]);
    }
    free(piece);
    return rc;
}

static known *images_keep(const ea_image_identity *identity, const ea_pe_facts *pe) {
    char version[EA_PE_VERSION_TEXT_MAX];
    ea_pe_version_text(pe, version);
    const char *const TEXTS[] = {version,         pe->company, pe->product, pe->original_name,
                                 pe->description, pe->imphash, pe->pdb_path};

    enum { VERSION, COMPANY, PRODUCT, ORIGINAL_NAME, DESCRIPTION, IMPHASH, PDB_PATH, TEXT_COUNT };

    const char *kept[TEXT_COUNT];
    size_t bytes = 0;
    for (size_t i = 0; i < TEXT_COUNT; i++)
        bytes += strlen(TEXTS[i]) + 1;
    known *k = calloc(1, sizeof *k + bytes);
    if (!k)
        return NULL;
    char *to = k->texts;
    for (size_t i = 0; i < TEXT_COUNT; i++) {
        size_t n = strlen(TEXTS[i]) + 1;
        memcpy(to, TEXTS[i], n);
        kept[i] = to;
        to += n;
    }
    k->identity = *identity;
    k->facts = (ea_image_facts){.file_bytes = identity->size_bytes,
                                .image_bytes = pe->size_bytes,
                                .timestamp = pe->timestamp,
                                .checksum = pe->checksum,
                                .pdb_guid = pe->pdb_guid,
                                .pdb_age = pe->pdb_age,
                                .sha256 = k->hashes[SHA256],
                                .sha1 = k->hashes[SHA1],
                                .md5 = k->hashes[MD5],
                                .imphash = kept[IMPHASH],
                                .version = kept[VERSION],
                                .company = kept[COMPANY],
                                .product = kept[PRODUCT],
                                .original_name = kept[ORIGINAL_NAME],
                                .description = kept[DESCRIPTION],
                                .pdb_path = kept[PDB_PATH]};
    return k;
}

static int images_same(const ea_image_identity *a, const ea_image_identity *b) {
    return a->volume == b->volume && a->number == b->number && a->size_bytes == b->size_bytes &&
           a->changed == b->changed;
}

/* Reads the file; it must be the same at the end. */
static int images_read_file(ea_images *im, reader *r, const char *path, const ea_image_identity *identity,
                            known **ret) {
    ea_pe_facts pe;
    ea_image_identity after;
    int is_damaged = ea_pe_read(read_paid, r, path, &pe, NULL) != 0;
    if (r->failed)
        return r->failed;
    known *k = images_keep(identity, &pe);
    if (!k)
        return EA_ENOMEM;
    int is_large = identity->size_bytes > im->o.hash_bytes;
    int rc = is_large ? 0 : hash(r, identity->size_bytes, k->hashes);
    if (!rc)
        rc = ea_image_file_identify(r->file, &after, NULL);
    if (!rc && !images_same(identity, &after))
        rc = EA_ETRUNCATED;
    if (rc) {
        free(k);
        return rc;
    }
    images_lock(im);
    if (!im->closing) { /* else the counters may be gone */
        images_count(im, EA_COUNT_images_read);
        if (is_damaged)
            images_count(im, EA_COUNT_images_damaged);
        if (is_large)
            images_count(im, EA_COUNT_images_unhashed);
    }
    images_unlock(im);
    *ret = k;
    return 0;
}

/* *ret NULL and 0: it is as it was. */
static int images_look(ea_images *im, const char *path, const ea_image_identity *before, known **ret) {
    reader r = {.images = im};
    ea_image_identity identity;
    *ret = NULL;
    int rc = images_pay(im, LOOK_BYTES);
    if (!rc)
        rc = ea_image_file_open(&r.file, path, NULL);
    if (!rc)
        rc = ea_image_file_identify(r.file, &identity, NULL);
    if (!rc && (!before || !images_same(before, &identity)))
        rc = images_read_file(im, &r, path, &identity, ret);
    ea_image_file_close(r.file);
    return rc;
}

static enum ea_counter images_cause_of(int rc) {
    return rc == EA_ENOTFOUND   ? EA_COUNT_images_absent
           : rc == EA_EREFUSED  ? EA_COUNT_images_refused
           : rc == EA_ECANCELED ? EA_COUNT_images_left_end
                                : EA_COUNT_images_unreadable;
}

/* ---- the worker ---- */

/* The modules that waited for a look at the row have what was found, or a reason why they have nothing. With lock. */
static void finish_row(ea_images *im, uint32_t r, int rc, known *fresh) {
    row *at = &im->rows[r];
    if (fresh) {
        unref_known(at->now);
        at->now = fresh;
        fresh->users = 1;
    } else if (!rc) {
        images_count(im, EA_COUNT_images_cached);
    }
    for (uint32_t m; (m = take_module(im, &at->waiting)) != NONE;) {
        module *of = &im->modules[m];
        int is_other = !rc && of->timestamp && of->timestamp != at->now->facts.timestamp;
        if (rc || is_other) {
            images_count(im, rc ? images_cause_of(rc) : EA_COUNT_images_other);
            free_module(im, m);
            continue;
        }
        of->found = at->now;
        at->now->users++;
        at->undelivered++;
        append_module(im, &im->found, m);
        atomic_fetch_add_explicit(&im->found_count, 1, memory_order_release);
    }
}

static void images_destroy(ea_images *im) {
    ea_account_queue_deinit(&im->accounts);
    for (size_t r = 0; im->rows && r < im->row_count; r++) {
        unref_known(im->rows[r].now);
        free(im->rows[r].path);
    }
    ea_u64_map_deinit(&im->by_path);
    ea_cond_destroy(im->changed);
    ea_mutex_destroy(im->lock);
    free(im->rows);
    free(im->modules);
    free(im);
}

/* Asks the machine about an account, without the lock: 1; 0: none waits, or files come first. It counts as the look at
 * a file. */
static int look_up_account(ea_images *im) EA_REQUIRES(im->lock) {
    char name[EA_ACCOUNT_NAME_BYTES], *sid;
    if (im->queue.first != NONE && ea_monotonic_ns() < im->accounts_from_ns)
        return 0;
    sid = ea_account_queue_next(&im->accounts);
    if (!sid)
        return 0;
    images_unlock(im);
    int rc = images_pay(im, LOOK_BYTES);
    int64_t begin_ns = ea_monotonic_ns();
    if (!rc)
        rc = im->o.lookup ? im->o.lookup(sid, name, sizeof name) : ea_account_lookup(sid, name, sizeof name);
    int64_t end_ns = ea_monotonic_ns();
    images_lock(im);
    im->accounts_from_ns = end_ns + FILES_SHARE * (end_ns - begin_ns); /* a domain controller may be away */
    if (im->closing) {                                                 /* it was counted */
        free(sid);
        im->accounts.is_at_hand = 0;
    } else if (ea_account_queue_put(&im->accounts, sid, rc ? NULL : name, end_ns)) {
        atomic_fetch_add_explicit(&im->found_count, 1, memory_order_release);
    } else {
        images_count(im, EA_COUNT_accounts_unnamed);
    }
    return 1;
}

static void images_work(void *arg) {
    ea_images *im = arg;
    images_lock(im);
    while (!im->closing) {
        uint32_t r = im->queue.first;
        if (look_up_account(im))
            continue;
        if (r == NONE) {
            ea_cond_wait(im->changed, im->lock);
            continue;
        }
        row *at = &im->rows[r];
        remove_row(im, &im->queue, r);
        at->is_queued = 0;
        at->is_at_hand = 1; /* no other thread frees its path or its facts */
        known *fresh, *now = at->now;
        images_unlock(im);
        int rc = images_look(im, at->path, now ? &now->identity : NULL, &fresh);
        images_lock(im);
        at->is_at_hand = 0;
        append_row(im, &im->idle, r);
        if (im->closing) /* what waited was counted */
            free(fresh);
        else
            finish_row(im, r, rc, fresh);
    }
    im->is_over = 1;
    int is_left = im->is_left;
    ea_cond_broadcast(im->changed);
    images_unlock(im);
    if (is_left)
        images_destroy(im);
}

int ea_images_create(ea_images **ret, const ea_images_options *options, ea_err *err) {
    ea_images *im = calloc(1, sizeof *im);
    if (!im)
        return ea_fail(err, EA_ENOMEM, "start looking at images");
    im->o = *options;
    if (!im->o.limit_files)
        im->o.limit_files = FILES;
    if (!im->o.limit_modules)
        im->o.limit_modules = MODULES;
    im->queue = im->idle = im->found = (list){NONE, NONE};
    im->free_module = NONE;
    ea_u64_map_init(&im->by_path, im->o.limit_files);
    im->rows = calloc(im->o.limit_files, sizeof *im->rows);
    im->modules = calloc(im->o.limit_modules, sizeof *im->modules);
    int rc = im->rows && im->modules ? 0 : ea_fail(err, EA_ENOMEM, "start looking at images");
    if (!rc)
        rc = ea_random_bytes(&im->seed, sizeof im->seed, err);
    ea_account_queue_init(&im->accounts, im->seed, im->o.again_ns ? im->o.again_ns : HOUR_NS);
    if (!rc)
        rc = ea_mutex_create(&im->lock, err);
    if (!rc)
        rc = ea_cond_create(&im->changed, err);
    if (!rc) {
        ea_images_calm(im);
        rc = ea_thread_start(&im->thread, "images", images_work, im, err);
    }
    if (rc) {
        images_destroy(im);
        return rc;
    }
    *ret = im;
    return 0;
}

void ea_images_stop(ea_images *im) {
    ea_mutex_lock(im->lock);
    if (!im->closing) {
        for (size_t r = 0; r < im->row_count; r++)
            while (take_module(im, &im->rows[r].waiting) != NONE)
                images_count(im, EA_COUNT_images_left_end);
        for (uint32_t m; (m = take_module(im, &im->found)) != NONE;) {
            unref_known(im->modules[m].found);
            images_count(im, EA_COUNT_images_left_end);
        }
        size_t accounts = ea_account_queue_clear(&im->accounts) + (size_t)im->accounts.is_at_hand;
        ea_count(im->o.counters, EA_COUNT_accounts_left, accounts);
        atomic_store(&im->found_count, 0);
    }
    im->closing = 1;
    ea_cond_broadcast(im->changed);
    ea_mutex_unlock(im->lock);
}

void ea_images_destroy(ea_images *im) {
    if (!im)
        return;
    ea_images_stop(im);
    ea_thread *thread = im->thread;
    int64_t until_ns = ea_monotonic_ns() + GRACE_NS;
    ea_mutex_lock(im->lock);
    while (!im->is_over && ea_monotonic_ns() < until_ns)
        ea_cond_wait_for(im->changed, im->lock, until_ns - ea_monotonic_ns());
    int is_over = im->is_over;
    im->is_left = !is_over;
    ea_mutex_unlock(im->lock);
    if (is_over) {
        ea_thread_join(thread);
        images_destroy(im);
    } else {
        ea_thread_leave(thread); /* it frees the rest when it comes back */
    }
}
