/* Facts of image files of a symbol server, for relog --image-ids. A request has the name, time stamp and size in memory
 * of an image, as those of debuggers (NAME/TIMESTAMPSIZE/NAME). Files are kept in a folder of this layout, which is
 * looked into first; another image than the wanted one is not kept. Modules without a time stamp cannot be asked for;
 * nor can names that no file of Windows has. Each image is asked for once. Called by: image_sources.c. Calls:
 * proto/curl/symbol_server.h. Thread: its owner's; it waits. */
#ifndef EA_RELOG_IMAGE_SERVER_H
#define EA_RELOG_IMAGE_SERVER_H

#include "proto/base/err.h"
#include "proto/relog/image_fact.h"

#include <stdatomic.h>

typedef struct ea_image_server ea_image_server;

enum { EA_IMAGE_SERVER_ASKED_MAX = 1 << 14, EA_IMAGE_SERVER_FAILURES_MAX = 16 };

typedef struct ea_image_server_counts {
    uint64_t asked;    /* images that the server was asked for */
    uint64_t fetched;  /* of these: it had */
    uint64_t failed;   /* of these: could not be had, or were another image */
    uint64_t left_out; /* images that it was not asked for: their time stamp is unknown, their name is none of a file,
                          or there were EA_IMAGE_SERVER_ASKED_MAX before */
} ea_image_server_counts;

/* url: http or https. cache: the folder, which is made; url and cache are borrowed. stop: not 0: a request ends; NULL:
 * none. Errors: those of libcurl and of the folder. */
EA_MUST_CHECK int ea_image_server_open(ea_image_server **ret, const char *url, const char *cache,
                                       const atomic_int *stop, ea_err *err);
void ea_image_server_close(ea_image_server *s); /* NULL is allowed */
/* *ret_found: 1 and *ret, which borrows from the server; 0: it has none. Errors: EA_ENET, EA_ETLS, EA_ETIMEOUT (it gave
 * no answer), the last of EA_IMAGE_SERVER_FAILURES_MAX failures without a file between, EA_EIO, EA_ECANCELED. */
EA_MUST_CHECK int ea_image_server_find(ea_image_server *s, const ea_image_wanted *wanted, ea_image_fact *ret,
                                       int *ret_found, ea_err *err);
const ea_image_server_counts *ea_image_server_count(const ea_image_server *s);

#endif
