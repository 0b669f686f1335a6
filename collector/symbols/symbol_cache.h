/* Finds a symbol file on a symbol path, and keeps what servers gave in a cache of the layout that symsrv has:
 * NAME/KEY/NAME, where KEY is the PDB's GUID and age, or the image's time and size, in hex.
 * Called by: symbols.c. Calls: symbol_path.h, symbol_server.h, cabinet.h. Thread: its owner's; several processes may
 * share a cache. It waits for servers: never call it on a thread that others wait for.
 *
 * What a server gives is written beside its place and judged; only the right file is moved there. A server that lacked
 * a file, or could not be reached, is not asked again for a while: NAME/KEY/absent-HASH in the default cache has the
 * reason. Only the default cache is bounded: the least recently used files are removed; when there are more than
 * limit_absent marks, the oldest eighth is removed. Other folders of the path are never cleaned.
 *
 * The system clock may be set: since the last use of the cache, at most an eighth of the allowed age counts as passed.
 */
#ifndef EC_SYMBOLS_SYMBOL_CACHE_H
#define EC_SYMBOLS_SYMBOL_CACHE_H

#include "collector/symbols/symbol_path.h"
#include "proto/base/text.h"
#include "proto/curl/symbol_server.h"

enum { EC_SYMBOL_NAME_MAX = 200, EC_SYMBOL_KEY_MAX = 48 };

typedef struct ec_symbol_cache_options {
    const char *path;     /* symbol path; borrowed until the close */
    const char *folder;   /* the default cache; made when it is missing; borrowed until the close */
    uint64_t limit_bytes; /* of the default cache */
    size_t limit_absent;  /* of its marks that a server lacked a file */
    int64_t limit_age_ns; /* since a file in it was used */
    int64_t absent_ns;    /* how long a server's "no such file" is believed; 0: it is asked each time */
    int64_t failure_ns;   /* how long a server that failed is left alone, for this file; without a word: for all */
    ea_symbol_server_options server;
} ec_symbol_cache_options;

typedef struct ec_symbol_cache ec_symbol_cache;

/* What is kept ages by its use, and a clock may be set: how much times of use have to move, so that since the last one
 * (UTC) an eighth of the age that is allowed has passed at the most. */
int64_t ec_symbol_clock_step_ns(int64_t last_ns, int64_t limit_age_ns);

/* EA_EUSAGE: the symbol path is wrong. */
EA_MUST_CHECK int ec_symbol_cache_open(ec_symbol_cache **ret, const ec_symbol_cache_options *options, ea_err *err);
void ec_symbol_cache_close(ec_symbol_cache *c); /* NULL is allowed */

/* 1 when name can be a file's name here and on Windows, and nothing else. */
int ec_symbol_name_ok(const char *name);

/* Judges a file: 0 when it is the requested file. */
typedef int (*ec_symbol_judge)(void *arg, const char *path, ea_err *err);

/* The path of the file NAME of that key: appended to ret_path. EA_ENOTFOUND: err says where it was looked for, and what
 * was wrong in each place, as far as there is room. EA_EINVAL: no such name or key can be asked for. */
EA_MUST_CHECK int ec_symbol_cache_find(ec_symbol_cache *c, const char *name, const char *key, ec_symbol_judge judge,
                                       void *arg, ea_text *ret_path, ea_err *err);

#endif
