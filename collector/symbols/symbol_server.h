/* One file from a symbol server, by libcurl (loaded when it is created): bounded in size and time, repeated when the
 * network failed. A redirect is followed to https, or by http to the same host and port, five times at the most. Called
 * by: symbol_cache.c. Thread: its owner's; it waits. */
#ifndef EC_SYMBOLS_SYMBOL_SERVER_H
#define EC_SYMBOLS_SYMBOL_SERVER_H

#include "proto/base/err.h"

#include <stdint.h>

typedef struct ec_server_options {
    uint64_t limit_bytes; /* of a file */
    int64_t timeout_ns;   /* of a file, whole */
    int64_t idle_ns;      /* of silence */
    unsigned attempts;    /* at one file */
    int64_t pause_ns;     /* before the second attempt; each further one waits twice as long */
} ec_server_options;

typedef struct ec_server ec_server;

EA_MUST_CHECK int ec_server_create(ec_server **ret, const ec_server_options *options, ea_err *err);
void ec_server_destroy(ec_server *s); /* NULL is allowed */

/* Fetches BASE/NAME/KEY/FILE to path, which is made or emptied. EA_ENOTFOUND: the server has no such file; EA_ENET,
 * EA_ETLS, EA_ETIMEOUT: it could not be had after all attempts; EA_EREFUSED: the server's answer was another;
 * EA_ELIMIT: larger than the bound. */
EA_MUST_CHECK int ec_server_fetch(ec_server *s, const char *base, const char *name, const char *key, const char *file,
                                  const char *path, ea_err *err);

/* 1 when the last fetch failed without a word from the server: no connection came about, or nothing came over it. */
int ec_server_is_silent(const ec_server *s);

#endif
