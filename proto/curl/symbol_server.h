/* One file from a symbol server, by libcurl (loaded when it is created): bounded in size and time, repeated when the
 * network failed. A redirect is followed to https, or by http to the same host and port, five times at the most. Called
 * by: symbol_cache.c, image_server.c. Thread: its owner's; it waits. */
#ifndef EA_CURL_SYMBOL_SERVER_H
#define EA_CURL_SYMBOL_SERVER_H

#include "proto/base/err.h"

#include <stdatomic.h>
#include <stdint.h>

typedef struct ea_symbol_server_options {
    uint64_t limit_bytes;   /* of a file */
    int64_t timeout_ns;     /* of a file, whole */
    int64_t idle_ns;        /* of silence */
    unsigned attempts;      /* at one file */
    int64_t pause_ns;       /* before the second attempt; each further one waits twice as long */
    const char *program;    /* what it calls itself; NULL: etwcollector */
    const atomic_int *stop; /* not 0: a fetch ends; borrowed; NULL: none */
} ea_symbol_server_options;

typedef struct ea_symbol_server ea_symbol_server;

EA_MUST_CHECK int ea_symbol_server_create(ea_symbol_server **ret, const ea_symbol_server_options *options, ea_err *err);
void ea_symbol_server_destroy(ea_symbol_server *s); /* NULL is allowed */

/* Fetches BASE/NAME/KEY/FILE to path, which is made or emptied. EA_ENOTFOUND: the server has no such file; EA_ENET,
 * EA_ETLS, EA_ETIMEOUT: it could not be had after all attempts; EA_EREFUSED: the server's answer was another;
 * EA_ELIMIT: larger than the bound; EA_ECANCELED: stop. */
EA_MUST_CHECK int ea_symbol_server_fetch(ea_symbol_server *s, const char *base, const char *name, const char *key,
                                         const char *file, const char *path, ea_err *err);

/* 1 when the last fetch failed without a word from the server: no connection came about, or nothing came over it. */
int ea_symbol_server_is_silent(const ea_symbol_server *s);

#endif
